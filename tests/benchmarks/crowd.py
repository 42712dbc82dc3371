"""A crowd of tasks of one group that are due at once, and how late lone ones of another start.

The lone ones are due from a second after the crowd on, while it is still being worked off by four
workers. Where it was over before they had started, that is said instead.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.benchmarks.jobs import Job, far_away
from tests.benchmarks.moments import CLOCK, wait_until, wall_s
from tests.benchmarks.ours import PYCRON, Pycron, environment_of
from tests.benchmarks.peer import Started
from tests.benchmarks.processes import peak_kb
from tests.benchmarks.stage import Stage
from tests.benchmarks.stamps import Lateness, read_stamps, wait_for_stamps
from tests.benchmarks.stored import can_submit, submit

WORKERS = 4
LEAD = timedelta(seconds=10)
STORED_A_SECOND = 1_500
"""So many at least can be submitted: all are there before they are due."""
FIRST = timedelta(seconds=1)
EVERY = timedelta(milliseconds=250)
LONE = 5
STARTS_WITHIN_S = 600.0
SETTLE_S = 60.0


class FourWorkers(Pycron):
    """With so few slots that a crowd has to wait."""

    def write(self, directory: Path, jobs: Sequence[Job]) -> None:
        """Write a crontab with a bound."""
        super().write(directory, jobs)
        with (directory / "crontab.toml").open("a", encoding="utf-8") as crontab:
            crontab.write(f"[pools.default]\nworkers = {WORKERS}\n")


def measure_crowd(count: int, stage: Stage) -> None:
    """Record how late lone tasks start beside a crowd of ``count``."""
    if not can_submit():
        stage.recorder.leave_out("crowd", "this pycron has no command `submit`")
        return
    directory = stage.work.directory()
    jobs = far_away(1, stage.work.tick, directory / "stamps")
    with Started(FourWorkers(), jobs, directory) as daemon:
        daemon.settle(SETTLE_S)
        due = CLOCK.now().replace(microsecond=0) + LEAD + timedelta(seconds=count / STORED_A_SECOND)
        dues = [due + FIRST + number * EVERY for number in range(LONE)]
        with (directory / "crowd.jsonl").open("w") as lines:
            lines.writelines(map(_line, _crowd(count, due)))
            lines.writelines(map(_line, _lone(daemon, stage.work.tick, dues)))
        submit(daemon, directory / "crowd.jsonl")
        if wall_s() >= due.timestamp():
            stage.recorder.leave_out("crowd", f"{count:,} tasks were not submitted in time")
            return
        wait_until(dues[-1].timestamp())
        wait_for_stamps(daemon.stamps, {"lone": LONE}, due.timestamp(), STARTS_WITHIN_S)
        left = _open_tasks(directory)
        starts = read_stamps(daemon.stamps)["lone"]
        if not left:
            why = f"{count:,} tasks were over before the lone ones had started; take more"
            stage.recorder.leave_out("crowd", why)
            return
        figures = Lateness.of(starts, [each.timestamp() for each in dues], 1).figures()
        stage.recorder.add(
            "crowd", "pycron", count=count, left=left, peak_kb=peak_kb(daemon.pid), **figures
        )


def _crowd(count: int, due: datetime) -> Iterator[dict[str, Any]]:
    for _ in range(count):
        yield {"command": ["true"], "at": due.isoformat(), "group": "crowd"}


def _lone(daemon: Started, tick: Path, dues: Sequence[datetime]) -> Iterator[dict[str, Any]]:
    for number, due in enumerate(dues):
        command = [str(tick), str(daemon.stamps), f"lone.{number}"]
        yield {"command": command, "at": due.isoformat(), "group": "lone"}


def _line(task: dict[str, Any]) -> str:
    return json.dumps(task) + "\n"


def _open_tasks(directory: Path) -> int:
    """Return how many tasks have not been taken up."""
    status = subprocess.run(
        [PYCRON, "status", "--json"],
        env=environment_of(directory),
        capture_output=True,
        check=True,
    )
    return int(json.loads(status.stdout)["tasks"])
