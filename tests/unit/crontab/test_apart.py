"""Reading a crontab in a process of its own: the same answer, whatever becomes of the process."""

from __future__ import annotations

import io
import os
import signal
import stat
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from crond_py.crontab import handover
from crond_py.crontab.apart import Reading, load_apart
from crond_py.crontab.handover import receive
from crond_py.crontab.loader import load_crontab
from crond_py.crontab.sender import send
from crond_py.errors import CrontabError
from crond_py.ports import Errand
from crond_py.runner.errands import ERRANDS

EXAMPLES = sorted((Path(__file__).parents[3] / "examples").rglob("*.toml"))
EXAMPLES = [path for path in EXAMPLES if path.parent.suffix != ".d"]  # those are no crontabs alone

MANY = """
[env]
LANG = "C"

[jobs.first]
after = { job-1 = "any" }
command = ["true", "it"]
""" + "".join(
    f"""
[jobs.job-{number}]
schedule = "{number % 60} 2 * * *"
command = "true {number}"
retry = {{ attempts = 3 }}
"""
    for number in range(2500)
)


def program(tmp_path: Path, script: str) -> str:
    """Return the path of a shell script that takes the place of the Python."""
    path = tmp_path / "python"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def refusal(path: Path) -> CrontabError:
    """Return the error that loading ends in."""
    with pytest.raises(CrontabError) as caught:
        load_apart(path, ERRANDS.start)
    return caught.value


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_is_what_it_is_when_read_here(path: Path) -> None:
    """What comes from the other process equals what this one reads, to the last key."""
    assert load_apart(path, ERRANDS.start) == load_crontab(path)


def test_many_jobs_come_in_order_and_share_what_is_equal(tmp_path: Path) -> None:
    """No job is lost between two parts, and what is equal is one object there as here."""
    path = tmp_path / "crontab.toml"
    path.write_text(MANY)
    read, here = load_apart(path, ERRANDS.start), load_crontab(path)
    assert read == here
    assert list(read.jobs) == list(here.jobs)
    assert [job.source for job in read.jobs.values()] == [job.source for job in here.jobs.values()]
    first, same, last = read.jobs["job-0"], read.jobs["job-60"], read.jobs["job-2499"]
    assert first.trigger is same.trigger
    assert first.env is last.env
    assert first.retry is last.retry


def test_all_faults_come_with_their_lines(tmp_path: Path) -> None:
    """P7: every fault of every file is told, each with its place."""
    path = tmp_path / "crontab.toml"
    path.write_text(
        '[jobs.a]\nschedule = "61 * * * *"\n\n[jobs.b]\novrlap = "skip"\nevery = "1s"\n'
    )
    (tmp_path / "crontab.d").mkdir()
    (tmp_path / "crontab.d" / "x.toml").write_text("[jobs\n")
    with pytest.raises(CrontabError) as here:
        load_crontab(path)
    assert len(here.value.faults) >= 4
    assert refusal(path).faults == here.value.faults


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_process_that_is_killed_is_an_error(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: the crontab is refused, and it is said that the process was ended, and by what."""
    monkeypatch.setattr(sys, "executable", program(tmp_path, f"kill -{number} $$"))
    fault = refusal(tmp_path / "crontab.toml").faults[0]
    assert fault.path == str(tmp_path / "crontab.toml")
    assert f"was ended by signal {int(number)} ({number.name})" in fault.message


@pytest.mark.timeout(20)
def test_a_reading_that_hangs_is_ended_and_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: it is said that it took too long; the process is ended, and no thread is left."""
    monkeypatch.setattr(sys, "executable", program(tmp_path, "exec sleep 60"))
    before = threading.active_count(), _children()
    with pytest.raises(CrontabError, match="could not be read within 100ms"):
        load_apart(tmp_path / "crontab.toml", ERRANDS.start, timedelta(milliseconds=100))
    assert threading.active_count() == before[0]
    assert _children() <= before[1]


def test_a_process_that_fails_half_way_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: half a crontab is none."""
    path = tmp_path / "crontab.toml"
    path.write_text(MANY)
    whole = io.BytesIO()
    send(load_crontab(path), whole)
    half = tmp_path / "half"
    half.write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])
    monkeypatch.setattr(sys, "executable", program(tmp_path, f"cat {half}; exit 3"))
    assert "ended with exit status 3" in str(refusal(path))


@pytest.mark.parametrize("script", ["echo nonsense", ":", r"printf '\200\004cos\nnone\n.'"])
def test_what_another_program_says_is_an_error(
    script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: a pycron that was replaced under the daemon is no crash; the way out is named."""
    monkeypatch.setattr(sys, "executable", program(tmp_path, script))
    assert refusal(tmp_path / "crontab.toml").faults[0].suggestion == "restart pycron"


@pytest.mark.parametrize("what", ["a job", "its own fields", "some jobs", "a value in a job"])
def test_a_crontab_of_another_shape_is_not_taken_for_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """P7: values are not put into the wrong fields after an upgrade under a running daemon."""
    own, *others = handover.shape()
    name = {"a job": "Job", "some jobs": "Jobs", "a value in a job": "Retry"}.get(what)
    assert name is None or sum(each[0] == name for each in others) == 1
    other = (
        own[::-1] if name is None else own,
        *((*each, "more") if each[0] == name else each for each in others),
    )
    path = tmp_path / "crontab.toml"
    path.write_text(MANY)
    stream = io.BytesIO()
    send(load_crontab(path), stream)
    stream.seek(0)
    monkeypatch.setattr(handover, "shape", lambda: other)
    with pytest.raises(handover.BROKEN):
        receive(stream)


def test_it_is_read_from_when_the_reading_is_begun(tmp_path: Path) -> None:
    """The process is started at once, so that it works while the caller does something else."""
    path = tmp_path / "crontab.toml"
    path.write_text(MANY)
    started = []

    def start(argv: Sequence[str], stdout: int) -> Errand:
        started.append(argv[-1])
        return ERRANDS.start(argv, stdout)

    reading = Reading(path, start)
    assert started == [str(path)]
    assert reading.result() == load_crontab(path)


def test_a_python_that_is_not_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P7: it is said that the process could not be started, and why."""
    monkeypatch.setattr(sys, "executable", str(tmp_path / "gone"))
    assert "No such file or directory" in str(refusal(tmp_path / "crontab.toml"))


def test_nothing_is_left_of_the_process(tmp_path: Path) -> None:
    """P6: no process, thread or descriptor is left, and none is a child of the first thread."""
    path = tmp_path / "crontab.toml"
    path.write_text(MANY)
    before = set(Path("/proc/self/fd").iterdir()), threading.active_count(), _children()
    load_apart(path, ERRANDS.start)
    with pytest.raises(CrontabError):
        load_apart(tmp_path / "none.toml", ERRANDS.start)
    assert (set(Path("/proc/self/fd").iterdir()), threading.active_count()) == before[:2]
    assert _children() <= before[2]  # another test may have left some, which go when they like


def _children() -> set[int]:
    """Return the pids of the children of this process, ended ones included."""
    children = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            # The name, in parentheses, may hold anything; the state and the parent follow it.
            if (
                int(status.read_text("ascii", "replace").rpartition(")")[2].split()[1])
                == os.getpid()
            ):
                children.add(int(status.parent.name))
    return children
