"""Processes without a mark of their run: ended where it is known whose they are, else told (P6)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import pytest

from crond_py.model import Leftovers
from crond_py.ports import AttemptKey
from crond_py.runner import proctree
from crond_py.runner.leftovers import describe_spared, describe_strays
from crond_py.runner.marks import brand_for
from tests.process.conftest import Harness, has_ended, wait_until_gone

SHED = "prlimit --locks=unlimited:unlimited env -i PATH=$PATH"
"""Takes off the marks of the run, before a program."""


def _stray(name: str, *, output: str = ">/dev/null 2>&1", shed: str = SHED) -> str:
    """Return a command for a process that nothing shows to be of its run, but perhaps its output.

    It writes its pid into the named pipe of that name.
    """
    inner = f'cd /; sh -c "echo \\$\\$ >$HERE/{name}; exec sleep 999" & exit 0'
    return f"{shed} HERE=$PWD setsid sh -c '{inner}' <&- {output}"


@pytest.fixture
def start(reaping: Harness) -> Callable[..., AttemptKey]:
    """Give a function that starts a run and waits for that."""

    def start(command: str, **more: object) -> AttemptKey:
        key = reaping.start(command, **more)
        reaping.started(key)
        return key

    return start


def _pid_from(harness: Harness, name: str) -> tuple[int, int]:
    """Return the pid that a process writes into a named pipe, and a pidfd of it."""
    pid = int((harness.directory / name).read_text())
    return pid, os.pidfd_open(pid)


def _stray_from(harness: Harness, name: str) -> tuple[int, int]:
    """Return the same of a process that has lost its parent by now, and is what it will be."""
    pid, pidfd = _pid_from(harness, name)
    while proctree.name_of(pid) == "sh":
        os.sched_yield()
    while (process := proctree.read_process(pid)) and process.parent != os.getpid():
        os.sched_yield()
    return pid, pidfd


def _assert_left_until(
    harness: Harness, first: AttemptKey, last: AttemptKey, stray: tuple[int, int]
) -> None:
    """See that a stray is left at the end of one run, with a word, and ended with another."""
    pid, pidfd = stray
    assert harness.ended(first).note == _note(pid)
    assert not has_ended(os.dup(pidfd))
    harness.runner.stop(last, force=True)
    assert harness.ended(last).note == ""
    assert has_ended(pidfd)


def _ticks_now() -> float:
    """Return what a process that starts now has for its start."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") // 1


def _note(pid: int) -> str:
    return f"process {pid} (sleep) was left: nothing tells whether it came from this run"


Start = Callable[..., AttemptKey]


@pytest.mark.parametrize("force", [False, True], ids=["term", "kill"])
def test_what_writes_to_a_runs_output_is_of_it(reaping: Harness, start: Start, force: bool) -> None:
    """Among several runs, one's output tells what else came from it (P6)."""
    reaping.fifo("pid")
    other = start("sleep 997; true", output=reaping.directory / "other.log")
    command = f"{_stray('pid', output='')}; sleep 998; true"
    key = start(command, output=reaping.directory / "own.log")
    _, pidfd = _stray_from(reaping, "pid")
    reaping.runner.stop(other, force=True)
    assert reaping.ended(other).note == ""
    assert not has_ended(os.dup(pidfd))
    reaping.runner.stop(key, force=force)
    assert reaping.ended(key).note == ""
    assert has_ended(pidfd)


@pytest.mark.parametrize("way", ["link", "up and down"])
def test_the_output_tells_however_its_directory_is_reached(
    reaping: Harness, start: Start, way: str
) -> None:
    """A state directory may be given by a symbolic link (P6)."""
    reaping.fifo("pid")
    real = reaping.directory / "real"
    real.mkdir()
    (reaping.directory / "link").symlink_to(real)
    given = reaping.directory / "link" if way == "link" else real / ".." / "real"
    other = start("sleep 997; true", output=given / "other.log")
    key = start(f"{_stray('pid', output='')}; sleep 998; true", output=given / "own.log")
    _, pidfd = _stray_from(reaping, "pid")
    reaping.runner.stop(key, force=True)
    assert reaping.ended(key).note == ""
    assert has_ended(pidfd)
    reaping.runner.stop(other, force=True)


def test_what_may_be_of_another_run_is_told_of(reaping: Harness, start: Start) -> None:
    """It is not said of a run that nothing is left of it where that is not known (P6)."""
    reaping.fifo("pid")
    other = start("sleep 997; true")
    key = start(f"{_stray('pid')}; sleep 998; true")
    pid, pidfd = _stray_from(reaping, "pid")
    for stopped in (other, key):
        assert not has_ended(os.dup(pidfd))
        reaping.runner.stop(stopped, force=False)
        # With the last run that it can be of it is ended: whichever it came from was to end.
        assert reaping.ended(stopped).note == (_note(pid) if stopped is other else "")
    assert has_ended(pidfd)


def test_what_may_be_of_a_run_that_leaves_something_is_let_be(
    reaping: Harness, start: Start
) -> None:
    """A run that has ended by itself may have left it, as it may do (P6)."""
    reaping.fifo("pid")
    gate = reaping.fifo("gate")
    other = start(f"read x <{gate}")
    key = start(f"{_stray('pid')}; sleep 998; true")
    pid, pidfd = _stray_from(reaping, "pid")
    gate.write_text("go\n")
    assert reaping.ended(other).note == ""
    reaping.runner.stop(key, force=True)
    assert reaping.ended(key).note == _note(pid)
    assert not has_ended(os.dup(pidfd))
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    wait_until_gone(pidfd)


def test_what_may_be_left_of_a_run_that_leaves_nothing_is_told_of(
    reaping: Harness, start: Start
) -> None:
    """Where what is left is to be ended, it is said of what may be of another run, too (P6)."""
    reaping.fifo("pid")
    other = start("sleep 997; true")
    gate = reaping.fifo("gate")
    key = start(f"{_stray('pid')}; read x <{gate}", leftovers=Leftovers.KILL)
    stray = _stray_from(reaping, "pid")
    gate.write_text("go\n")
    _assert_left_until(reaping, key, other, stray)


def test_what_may_be_of_a_run_that_is_ended_gently_is_not_killed(
    reaping: Harness, start: Start
) -> None:
    """A run that still has the time to clean up keeps what may be doing that for it (P6)."""
    for name in ("up", "pid"):
        reaping.fifo(name)
    other, third = start("trap '' TERM; echo up >up; sleep 997; true"), start("sleep 996; true")
    assert (reaping.directory / "up").read_text() == "up\n"
    key = start(f"{_stray('pid')}; sleep 998; true")
    stray = _stray_from(reaping, "pid")
    reaping.runner.stop(other, force=False)
    reaping.runner.stop(third, force=True)
    reaping.ended(third)  # so the other has been seen to, while the one was not yet to end
    reaping.runner.stop(key, force=True)
    _assert_left_until(reaping, key, other, stray)


def _stubborn(name: str) -> str:
    """Return a command for a stray as above, which no SIGTERM ends."""
    inner = f'cd /; trap "" TERM; sh -c "echo \\$\\$ >$HERE/{name}; exec sleep 999" & exit 0'
    return f"{SHED} HERE=$PWD setsid sh -c '{inner}' <&- >/dev/null 2>&1"


def test_what_one_kills_is_not_what_another_still_ends_gently(
    reaping: Harness, start: Start
) -> None:
    """Also where both are first ended gently: each has its own time to clean up (P6)."""
    for name in ("up", "pid"):
        reaping.fifo(name)
    hasty, third = start("trap '' TERM; sleep 996; true"), start("sleep 997; true")
    key = start(f"{_stubborn('pid')}; trap '' TERM; echo up >up; sleep 998; true")
    stray = _stray_from(reaping, "pid")
    assert (reaping.directory / "up").read_text() == "up\n"
    reaping.runner.stop(hasty, force=False)
    reaping.runner.stop(key, force=False)
    reaping.runner.stop(third, force=True)
    reaping.ended(third)  # so both have been seen to
    reaping.runner.stop(hasty, force=True)
    _assert_left_until(reaping, hasty, key, stray)


def test_a_stray_that_lives_is_told_of_at_every_end(reaping: Harness, start: Start) -> None:
    """Whose it is nobody knows, so no run is said to have ended without a word of it (P6)."""
    for name in ("up", "pid"):
        reaping.fifo(name)
    slow = start("trap '' TERM; echo up >up; sleep 996; true")
    assert (reaping.directory / "up").read_text() == "up\n"
    key = start(f"{_stubborn('pid')}; exec sleep 998")
    stray = _stray_from(reaping, "pid")
    reaping.runner.stop(slow, force=False)
    reaping.runner.stop(key, force=False)
    _assert_left_until(reaping, key, slow, stray)


def test_what_has_ended_is_not_said_to_be_left() -> None:
    """A stray that has ended, and is not reaped yet, is nobody's trouble (P6)."""
    pid = os.posix_spawn("/bin/sleep", ["sleep", "999"], {})
    strays = {pid: proctree.start_ticks(pid) or 0}
    try:
        assert describe_strays(strays) == _note(pid)
        assert "could not be ended" in describe_spared(strays)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert (describe_strays(strays), describe_spared(strays)) == ("", "")
    os.waitpid(pid, 0)


def test_what_began_before_a_run_is_not_of_it(reaping: Harness, start: Start) -> None:
    """A run is not told to have left what was there before it began (P6)."""
    reaping.fifo("pid")
    key = start(f"{_stray('pid')}; sleep 998; true")
    pid, pidfd = _stray_from(reaping, "pid")
    while _ticks_now() <= (proctree.start_ticks(pid) or 0):
        os.sched_yield()
    other = start("sleep 997; true")
    reaping.runner.stop(other, force=True)
    assert reaping.ended(other).note == ""
    assert not has_ended(os.dup(pidfd))
    reaping.runner.stop(key, force=True)
    assert reaping.ended(key).note == ""
    assert has_ended(pidfd)


def test_what_was_seen_among_a_runs_processes_is_of_it(reaping: Harness, start: Start) -> None:
    """Whose child it was when another run was ended tells whose it is now (P6).

    So the jobs of a pycron that a job runs are found though that pycron has been killed.
    """
    for name in ("parent", "pid"):
        reaping.fifo(name)
    first, second = start("sleep 996; true"), start("sleep 997; true")
    inner = 'setsid sh -c "echo \\$\\$ >$HERE/pid; exec sleep 999" & echo $$ >$HERE/parent; wait'
    key = start(f"{SHED} HERE=$PWD setsid sh -c '{inner}' >/dev/null 2>&1 & sleep 998; true")
    _, pidfd = _pid_from(reaping, "pid")
    parent, parentfd = _pid_from(reaping, "parent")
    reaping.runner.stop(first, force=True)
    reaping.ended(first)
    os.kill(parent, signal.SIGKILL)
    wait_until_gone(parentfd)
    reaping.runner.stop(second, force=True)
    assert reaping.ended(second).note == ""
    assert not has_ended(os.dup(pidfd))
    third = start("sleep 997; true")
    reaping.runner.stop(key, force=True)
    assert reaping.ended(key).note == ""
    assert has_ended(pidfd)
    reaping.runner.stop(third, force=True)


def test_the_marks_of_another_pycron_tell_nothing(reaping: Harness, start: Start) -> None:
    """What another pycron has started, of which ours was a job, is of that job (P6)."""
    reaping.fifo("pid")
    brand = brand_for("other-1", 1)
    shed = f"prlimit --locks={brand}: env -i PATH=$PATH PYCRON_RUN_ID=other-1 PYCRON_ATTEMPT=1"
    key = start(f"{_stray('pid', shed=shed)}; sleep 998; true")
    _, pidfd = _stray_from(reaping, "pid")
    reaping.runner.stop(key, force=False)
    assert reaping.ended(key).note == ""
    assert has_ended(pidfd)


def test_what_another_run_has_left_is_neither_ended_nor_told_of(
    reaping: Harness, start: Start
) -> None:
    """What shows the marks of a run is of no other, also when that run is over (P2)."""
    reaping.fifo("pid")
    first = start("(setsid sh -c 'echo $$ >pid; exec sleep 999' &)")
    _, pidfd = _stray_from(reaping, "pid")
    reaping.ended(first)
    key = start("sleep 998; true")
    reaping.runner.stop(key, force=True)
    assert reaping.ended(key).note == ""
    assert not has_ended(pidfd)
