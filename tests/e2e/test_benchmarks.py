"""The benchmark measures: its jobs start, are told apart, and leave nothing behind."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.benchmarks import crowd as crowd_module
from tests.benchmarks import on_time
from tests.benchmarks.__main__ import build_programs
from tests.benchmarks.crowd import measure_crowd
from tests.benchmarks.jobs import Seconds, due
from tests.benchmarks.memory import measure_idle, measure_load
from tests.benchmarks.moments import wall_s
from tests.benchmarks.ours import Pycron
from tests.benchmarks.peer import Started, Workplace
from tests.benchmarks.records import Recorder
from tests.benchmarks.stage import Stage
from tests.benchmarks.stamps import wait_for_stamps
from tests.benchmarks.stored import can_submit, measure_claims, measure_stored
from tests.benchmarks.tracks import measure
from tests.support.daemon import PATIENCE_S, processes_with


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Give a place to measure in."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler (cc)")
    stage = Stage(Workplace(build_programs()), Recorder())
    yield stage
    root = stage.work.root
    stage.work.close()
    assert not root.exists()
    assert not processes_with(str(root))


def test_bursts_in_turn(stage: Stage) -> None:
    """Bursts of each kind start whole, beside those of C; each has its figures."""
    kinds = ["shell", "plain", "array", *(["array-user"] if os.geteuid() == 0 else [])]
    cycle = on_time.kinds_in_turn(kinds, 2, 1, stage)
    figures = measure(Pycron(), cycle, 1, stage.work)
    assert {label: values["starts"] for label, values in figures.items()} == dict.fromkeys(
        ["C-shell", "C-exec", *kinds], 2
    )
    assert figures["shell"]["of_C-shell"] > 0
    assert figures["array"]["of_C-exec"] > 0


def test_lone_starts_in_turn(stage: Stage) -> None:
    """A lone job, C and bare Python start in each of five seconds."""
    figures = measure(Pycron(), on_time.lone_starts(on_time.Way.SHELL, stage), 1, stage.work)
    assert [figures[label]["starts"] for label in ("lone", "C", "python")] == [5, 5, 5]
    assert all(figures[label]["p50_s"] > 0 for label in ("C", "python"))


def test_what_a_daemon_takes(stage: Stage) -> None:
    """Memory, threads and load time of a daemon that has nothing to do are seen."""
    measure_idle([Pycron()], [3], 0, stage)
    measure_load([Pycron()], [4], stage)
    idle, load = stage.recorder.records[-2:]
    assert (idle["measure"], idle["count"], idle["processes"]) == ("idle", 3, 1)
    assert (load["measure"], load["count"]) == ("load", 4)
    assert idle["threads"] >= 1
    # An interpreter alone takes some megabytes; the peak is that of the time before it was ready.
    assert idle["pss_kb"] > 4_000
    assert load["peak_kb"] >= load["pss_kb"] > 4_000
    assert 0 < load["says_ready_s"] < load["limit_s"]


def test_stored_tasks(stage: Stage) -> None:
    """Tasks are handed in, and those that are due start, before and after."""
    if not can_submit():
        pytest.skip("the program has no command `submit`")
    measure_stored(20, 60, stage)
    stored = stage.recorder.records[-1]
    assert (stored["measure"], stored["count"]) == ("stored", 20)
    assert stored["few_per_s"] > 0
    assert stored["many_per_s"] > 0


def test_claims_of_few_and_of_many(stage: Stage) -> None:
    """The next hundred are claimed of both ledgers; how the times compare is the figure."""
    measure_claims(200, 400, 2, stage)
    claims = stage.recorder.records[-1]
    assert (claims["measure"], claims["few"], claims["many"]) == ("claims", 200, 400)
    assert claims["ratio"] == claims["many_s"] / claims["few_s"] > 0


@pytest.mark.parametrize("count", [50, 6_000])
def test_lone_tasks_beside_a_crowd(count: int, stage: Stage) -> None:
    """All of the lone ones start; where the crowd was over by then, that is said instead."""
    if not can_submit():
        pytest.skip("the program has no command `submit`")
    measure_crowd(count, stage)
    crowd = stage.recorder.records[-1]
    if crowd["measure"] == "left out":  # a crowd of thousands may be over on a fast machine
        assert "were over before the lone ones had started" in crowd["why"]
        return
    assert (crowd["count"], crowd["starts"]) == (count, crowd_module.LONE)
    assert 0 < crowd["left"] < count


def test_whoever_ends_it_ends_the_daemons(stage: Stage) -> None:
    """A measurement that is cut short leaves no daemon behind, nor its jobs."""
    directory = stage.work.directory()
    every_second = Seconds(tuple(range(60)))
    file = directory / "stamps"
    jobs = due(1, every_second, stage.work.tick, file, label="stays", stay_s=600)

    def cut_short() -> None:
        with Started(Pycron(), jobs, directory) as daemon:
            wait_for_stamps(daemon.stamps, {"stays": 1}, wall_s(), PATIENCE_S)
            assert len(processes_with(str(directory))) > 1
            sys.exit()

    with pytest.raises(SystemExit):
        cut_short()
    assert not processes_with(str(directory))


def test_the_command_line() -> None:
    """A word that is no measurement is refused with those that there are."""
    command = [sys.executable, "-m", "tests.benchmarks", "lateness"]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith("no such measurement: lateness; late, burst, idle")
