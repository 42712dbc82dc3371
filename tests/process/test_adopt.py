"""Processes that outlive the daemon that started them (P5)."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from crond_py.model import Exit, Leftovers
from crond_py.ports import AttemptKey, Ended, LeftOver, ProcessSpec, Survivor
from crond_py.runner import pidfds, proctree
from crond_py.runner.adoption import identified, users_of
from tests.process.conftest import PATIENCE_S, PROGRAMS, Harness, has_ended, wait_until_gone
from tests.support.kernel import TELLS_EXITS

KEY = AttemptKey(17, 3)
# Nothing is started by it: what an adopted process is, its survivor says.
SPEC = ProcessSpec(KEY, "x-17", ("true",), {}, "/", 0o022, None)

needs_exits = pytest.mark.skipif(not TELLS_EXITS, reason="needs PIDFD_INFO_EXIT of Linux 6.15")


@contextmanager
def _survivor(harness: Harness, command: str) -> Iterator[Survivor]:
    """Have a daemon start a command and kill that daemon: what is left is yielded."""
    daemon = subprocess.Popen(
        [sys.executable, str(PROGRAMS / "proc_first_daemon.py"), harness.identity, command],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert daemon.stdout is not None
    with daemon:
        pid, ticks = map(int, daemon.stdout.readline().split())
        daemon.kill()
    survivors = [s for s in harness.runner.survivors(harness.identity) if s.leader]
    expected = Survivor(f"{harness.identity}-1", 3, pid, ticks, leader=True, uid=os.getuid())
    assert survivors == [expected]
    yield survivors[0]


def test_an_adopted_process_is_watched_to_its_end(harness: Harness) -> None:
    """A process outlives a killed daemon, is found by the next one, and its end is told once."""
    gate = harness.fifo("gate")
    with _survivor(harness, f"read line <{gate}; exit 7") as survivor:
        assert harness.runner.adopt(SPEC, survivor)
        harness.run(("true",))
        assert harness.told(KEY) == []
        gate.write_text("go\n")
        ended = harness.ended(KEY)
        assert ended.exit in {Exit(code=7), Exit()}
        assert harness.told(KEY) == [ended]


@needs_exits
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("exit 0", Exit(code=0)),
        ("exit 7", Exit(code=7)),
        ("kill -9 $$", Exit(signal=9)),
        ("ulimit -c 0; kill -SEGV $$", Exit(signal=11)),
    ],
)
def test_the_kernel_tells_how_an_adopted_process_ended(
    harness: Harness, command: str, expected: Exit
) -> None:
    """Where the kernel can tell, a run that outlives its daemon keeps its exit status (P1)."""
    gate = harness.fifo("gate")
    with _survivor(harness, f"read line <{gate}; {command}") as survivor:
        assert harness.runner.adopt(SPEC, survivor)
        gate.write_text("go\n")
        assert harness.ended(KEY).exit == expected


def test_nobody_can_tell_how_a_process_ended_on_older_kernels(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a source the exit is unknown, never a made-up success (P1)."""

    def refuse(*_arguments: object) -> None:
        raise OSError(25, "Inappropriate ioctl for device")

    monkeypatch.setattr("fcntl.ioctl", refuse)
    monkeypatch.setattr(proctree, "may_inspect", lambda _pid: False)
    gate = harness.fifo("gate")
    with _survivor(harness, f"read line <{gate}; exit 0") as survivor:
        assert harness.runner.adopt(SPEC, survivor)
        gate.write_text("go\n")
        assert harness.ended(KEY).exit == Exit()


def _end(program: str) -> tuple[int, int, int]:
    """Return pid, start and pidfd of an ended child that is not reaped yet."""
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", program], {})
    pidfd = os.pidfd_open(pid)
    ticks = proctree.start_ticks(pid)
    assert ticks is not None
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid, ticks, pidfd


def _refuse_waitid(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> None:
        raise ChildProcessError(10, "No child processes")

    monkeypatch.setattr(os, "waitid", refuse)


@pytest.mark.parametrize(
    ("program", "expected"), [("exit 9", Exit(code=9)), ("kill -9 $$", Exit(signal=9))]
)
def test_a_zombie_shows_how_it_ended(
    monkeypatch: pytest.MonkeyPatch, program: str, expected: Exit
) -> None:
    """Until its parent reaps it, the exit status of a stranger is in /proc."""
    pid, ticks, pidfd = _end(program)
    with monkeypatch.context() as patch:
        _refuse_waitid(patch)
        assert pidfds.exit_of_other(pidfd, pid, ticks) == expected
        # A namesake's status is not taken for it.
        patch.setattr(pidfds, "_exit_from_pidfd", lambda _pidfd: Exit())
        assert pidfds.exit_of_other(pidfd, pid, ticks + 1) == Exit()
    os.waitpid(pid, 0)
    os.close(pidfd)


@needs_exits
@pytest.mark.parametrize("is_late", [False, True])
def test_how_a_process_ended_is_told_where_no_descriptor_is_left(
    monkeypatch: pytest.MonkeyPatch, is_late: bool
) -> None:
    """P8: the pidfd knows it without a file of /proc, once the parent has reaped the process."""

    def refuse(*_arguments: object) -> None:
        raise OSError(24, "Too many open files")

    pid, ticks, pidfd = _end("exit 9")
    _refuse_waitid(monkeypatch)
    monkeypatch.setattr(proctree, "read_process", refuse)
    if is_late:
        with pytest.raises(OSError, match="Too many open files"):
            pidfds.exit_of_other(pidfd, pid, ticks)
        monkeypatch.setattr(pidfds, "_wait_until_reaped", lambda _pidfd: os.waitpid(pid, 0))
    else:
        os.waitpid(pid, 0)
    assert pidfds.exit_of_other(pidfd, pid, ticks) == Exit(code=9)
    os.close(pidfd)


def test_a_child_of_ours_can_be_adopted() -> None:
    """After an execve of the daemon, a survivor is its child, and is reaped."""
    pid, ticks, pidfd = _end("exit 5")
    assert pidfds.exit_of_other(pidfd, pid, ticks) == Exit(code=5)
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    os.close(pidfd)


@pytest.mark.parametrize("force", [False, True])
def test_an_adopted_tree_is_ended_as_a_whole(harness: Harness, force: bool) -> None:
    """A stop reaches all of a survivor's tree, and Ended waits for it (P5, P6)."""
    ready = harness.fifo("ready")
    command = f"setsid sleep 999 & sh -c 'echo up >{ready}; exec sleep 998' & wait"
    with _survivor(harness, command) as survivor:
        assert ready.read_text() == "up\n"
        held = [os.pidfd_open(pid) for pid in harness.leftovers()]
        assert len(held) == 3
        assert harness.runner.adopt(SPEC, survivor)
        harness.runner.stop(KEY, force=force)
        ended = harness.ended(KEY)
        assert ended.exit.code is None
        assert ended.exit.signal in {None, signal.SIGKILL if force else signal.SIGTERM}
        for pidfd in held:
            assert has_ended(pidfd)


def test_a_descendant_is_no_leader_but_can_be_ended(harness: Harness) -> None:
    """Where only a descendant is left, it is told as such and can be ended all the same (P6)."""
    ready = harness.fifo("ready")
    daemon = subprocess.Popen(
        [
            *(sys.executable, str(PROGRAMS / "proc_first_daemon.py"), harness.identity),
            f"(echo up >{ready}; exec sleep 999) & exit 0",
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert daemon.stdout is not None
    with daemon:
        daemon.stdout.readline()
        assert ready.read_text() == "up\n"
        daemon.kill()
    while len(survivors := harness.runner.survivors(harness.identity)) > 1:
        pass  # the leader may take a moment to end
    (survivor,) = survivors
    assert not survivor.leader
    assert harness.runner.adopt(SPEC, survivor)
    harness.runner.stop(KEY, force=False)
    assert isinstance(harness.ended(KEY), Ended)
    assert harness.leftovers() == []


def test_a_namesake_is_not_adopted(harness: Harness) -> None:
    """A process that got the pid of a survivor is not taken for it (B32)."""
    with _survivor(harness, "sleep 999; true") as survivor:
        namesake = replace(survivor, start_ticks=survivor.start_ticks - 1)
        assert not harness.runner.adopt(SPEC, namesake)
        harness.runner.stop(KEY, force=True)
        assert survivor in harness.runner.survivors(harness.identity)


def test_what_has_ended_is_not_adopted(harness: Harness) -> None:
    """A survivor that ends before it is adopted is gone, and nothing is told of it."""
    key = harness.start(("true",))
    started = harness.started(key)
    harness.ended(key)
    assert started.start_ticks is not None
    gone = Survivor("x-1", 1, started.pid, started.start_ticks, leader=True)
    assert not harness.runner.adopt(SPEC, gone)
    assert harness.told(KEY) == []


def test_a_zombie_of_which_only_the_ledger_tells_is_not_adopted(harness: Harness) -> None:
    """It has ended unseen, whether somebody has reaped it by now or not."""
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        ticks = proctree.start_ticks(process.pid)
        assert ticks is not None
        assert not harness.runner.adopt(SPEC, Survivor("x-1", 1, process.pid, ticks, leader=True))


def test_whose_a_process_is_of_which_only_the_ledger_tells_is_looked_up(harness: Harness) -> None:
    """Only processes of that user are then believed to be of its run."""
    with _survivor(harness, "sleep 999; true") as survivor:
        assert identified(replace(survivor, uid=None)) == survivor
        assert survivor.uid == os.getuid()
        assert identified(replace(survivor, uid=None, start_ticks=survivor.start_ticks - 1)) is None
        assert harness.runner.adopt(SPEC, survivor)
        harness.runner.stop(KEY, force=True)
        assert isinstance(harness.ended(KEY), Ended)


def test_closing_leaves_processes_alone(harness: Harness, tmp_path: Path) -> None:
    """A runner that is closed ends no process, and the next one can adopt it (P5)."""
    ready = harness.fifo("ready")
    key = harness.start("echo up >$READY; sleep 999; true", env={"READY": str(ready)})
    harness.started(key)
    assert ready.read_text() == "up\n"
    harness.runner.close()
    survivor = next(s for s in harness.runner.survivors(harness.identity) if s.leader)
    pidfd = os.pidfd_open(survivor.pid)
    second = Harness(tmp_path)
    second.runner.open()
    first_attempt = AttemptKey(17, 1)
    assert second.runner.adopt(replace(SPEC, key=first_attempt), survivor)
    second.runner.stop(first_attempt, force=True)
    assert second.ended(first_attempt).exit == Exit(signal=signal.SIGKILL)
    second.clean_up()
    wait_until_gone(pidfd)


@contextmanager
def _headless(harness: Harness, command: str) -> Iterator[list[Survivor]]:
    """Have a daemon start a command that ends at once, kill the daemon, and yield what is left."""
    daemon = subprocess.Popen(
        [sys.executable, str(PROGRAMS / "proc_first_daemon.py"), harness.identity, command],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert daemon.stdout is not None
    with daemon:
        leader = int(daemon.stdout.readline().split()[0])
        with suppress(ProcessLookupError):
            wait_until_gone(os.pidfd_open(leader))
        daemon.kill()
    yield [s for s in harness.runner.survivors(harness.identity) if s.pid != leader]


def _rest_of(harness: Harness, survivors: list[Survivor]) -> ProcessSpec:
    (tag,) = {survivor.tag for survivor in survivors}
    assert tag == f"{harness.identity}-1"
    return replace(SPEC, tag=tag)


def _sleepers(harness: Harness, number: int) -> list[Survivor]:
    """Return what lives of the test, once there are so many sleeps and no other leftovers."""
    while True:
        found = harness.runner.survivors(harness.identity)
        names = [proctree.name_of(survivor.pid) for survivor in found if not survivor.leader]
        if names == ["sleep"] * number:
            return found
        os.sched_yield()  # they have been forked, and are about to be


HIDDEN = "(env -i setsid sh -c 'cd /; sleep 999 & exit 0' &)"


def test_a_rest_has_ended_when_all_of_it_has(harness: Harness) -> None:
    """What outlives its leader and its daemon is watched to the end of the last of it (P5)."""
    gates = [harness.fifo("one"), harness.fifo("two")]
    command = f"read x <{gates[0]} & setsid sh -c 'read x <{gates[1]}; :' & exit 0"
    with _headless(harness, command) as survivors:
        assert len(survivors) == 2
        assert harness.runner.adopt_rest(_rest_of(harness, survivors), survivors)
        first = next(s for s in survivors if os.getsid(s.pid) != s.pid)
        pidfd = os.pidfd_open(first.pid)
        gates[0].write_text("go\n")
        wait_until_gone(pidfd)
        harness.run(("true",))
        assert harness.told(KEY) == []
        gates[1].write_text("go\n")
        ended = harness.ended(KEY)
        assert (ended.exit, ended.note) == (Exit(), "")
        assert harness.told(KEY) == [ended]


@pytest.mark.parametrize("force", [False, True], ids=["term", "kill"])
def test_a_rest_is_ended_as_a_whole(harness: Harness, force: bool) -> None:
    """A stop reaches also what of a rest was not known when that was adopted (P6)."""
    command = f"setsid sleep 999 & sleep 998 & {HIDDEN} ; exit 0"
    with _headless(harness, command):
        while len(survivors := harness.runner.survivors(harness.identity)) != 3 or {
            proctree.name_of(survivor.pid) for survivor in survivors
        } != {"sleep"}:
            os.sched_yield()
        held = [os.pidfd_open(survivor.pid) for survivor in survivors]
        # Only one is handed over: the others are found.
        assert harness.runner.adopt_rest(_rest_of(harness, survivors), survivors[:1])
        harness.runner.stop(KEY, force=force)
        assert harness.ended(KEY).exit == Exit()
        for pidfd in held:
            assert has_ended(pidfd)


def test_a_rest_that_ignores_sigterm_is_killed(harness: Harness) -> None:
    """SIGTERM and later SIGKILL work on a rest as they do on a run (P6)."""
    ready = harness.fifo("ready")
    inner = f'trap "" TERM; echo up >{ready}; while :; do sleep 999; done'
    with _headless(harness, f"setsid sh -c '{inner}' & read x <{ready}; exit 0") as survivors:
        assert harness.runner.adopt_rest(_rest_of(harness, survivors), survivors)
        harness.runner.stop(KEY, force=False)
        harness.run(("true",))
        assert harness.told(KEY) == []
        harness.runner.stop(KEY, force=True)
        assert harness.ended(KEY).exit == Exit()
        assert harness.leftovers() == []


def test_of_a_rest_that_is_gone_nothing_is_told(harness: Harness) -> None:
    """A rest that has ended, or whose numbers others have by now, is not adopted (B32)."""
    with _survivor(harness, "sleep 999; true") as survivor:
        namesake = replace(survivor, start_ticks=survivor.start_ticks - 1, leader=False)
        assert not harness.runner.adopt_rest(SPEC, [namesake])
        assert not harness.runner.adopt_rest(SPEC, [])
        harness.runner.stop(KEY, force=True)
        assert survivor in harness.runner.survivors(harness.identity)
        assert harness.told(KEY) == []


@pytest.mark.parametrize("force", [False, True], ids=["term", "kill"])
def test_what_an_adopted_run_has_hidden_is_ended(harness: Harness, force: bool) -> None:
    """After a crash of the daemon a stop reaches what was forked twice before or after it (P6)."""
    ready, gate = harness.fifo("ready"), harness.fifo("gate")
    double = "(setsid sh -c '(sleep 999 &) ; exit 0' &)"
    command = (
        f"{double}; {HIDDEN}; read x <{gate}; {double}; {HIDDEN}; echo up >{ready}; sleep 998; :"
    )
    with _survivor(harness, command) as survivor:
        assert harness.runner.adopt(replace(SPEC, tag=survivor.tag), survivor)
        gate.write_text("go\n")
        assert ready.read_text() == "up\n"
        held = [os.pidfd_open(s.pid) for s in _sleepers(harness, 5)]
        harness.runner.stop(KEY, force=force)
        assert harness.ended(KEY).exit.code is None
        for pidfd in held:
            wait_until_gone(pidfd)
        assert harness.leftovers() == []


def test_what_an_adopted_run_leaves_is_told(harness: Harness) -> None:
    """An adopted run's end says what it has left running, as another's does."""
    gate = harness.fifo("gate")
    with _survivor(harness, f"setsid sleep 999 & read x <{gate}; exit 0") as survivor:
        assert harness.runner.adopt(replace(SPEC, tag=survivor.tag), survivor)
        _sleepers(harness, 1)
        gate.write_text("go\n")
        note = harness.ended(KEY).note
        (left,) = harness.leftovers()
        assert note == f"left 1 process running: sleep (pid {left})"


def test_what_an_adopted_run_leaves_is_ended_where_its_spec_says_so(harness: Harness) -> None:
    """The key ``leftovers`` holds for a run that a daemon before this one has started (P6)."""
    gate = harness.fifo("gate")
    command = f"setsid sleep 999 & {HIDDEN}; read x <{gate}; exit 0"
    with _survivor(harness, command) as survivor:
        spec = replace(SPEC, tag=survivor.tag, leftovers=Leftovers.KILL)
        assert harness.runner.adopt(spec, survivor)
        _sleepers(harness, 2)
        gate.write_text("go\n")
        left = harness.wait_for(lambda event: event.key == KEY)
        assert isinstance(left, LeftOver)
        assert left.count == 2
        harness.runner.stop(KEY, force=False)
        assert harness.ended(KEY).exit == left.exit
        assert harness.leftovers() == []


class _Shortage:
    """Descriptors are short until ``end``: none is left to hold a process by, or none to spare."""

    def __init__(self, name: str) -> None:
        self._patch = pytest.MonkeyPatch()
        self._looks = threading.Semaphore(0)
        real = pidfds.open_verified

        def look(pid: int, ticks: int | None) -> int | None:
            self._looks.release()
            if name == "none left":
                raise OSError(24, "Too many open files")
            return real(pid, ticks)

        self._patch.setattr(pidfds, "open_verified", look)
        if name == "none to spare":
            self._patch.setattr(pidfds, "is_to_spare", lambda _descriptor: False)

    def wait(self, looks: int) -> None:
        for _ in range(looks):
            assert self._looks.acquire(timeout=PATIENCE_S)

    def end(self) -> None:
        self._patch.undo()


@pytest.fixture(params=["none left", "none to spare"])
def shortage(request: pytest.FixtureRequest) -> Iterator[_Shortage]:
    """Have descriptors be short, until the test says otherwise."""
    shortage = _Shortage(request.param)
    yield shortage
    shortage.end()


def test_what_cannot_be_held_is_not_taken_for_gone(harness: Harness, shortage: _Shortage) -> None:
    """P5: a run that outlives its daemon goes on, also where no descriptor is left to watch it."""
    gate = harness.fifo("gate")
    with _survivor(harness, f"read line <{gate}; exit 7") as survivor:
        assert harness.runner.adopt(SPEC, survivor)
        shortage.wait(looks=3)
        harness.run(("true",))
        assert harness.told(KEY) == []
        shortage.end()
        harness.run(("true",))
        gate.write_text("go\n")
        assert harness.ended(KEY).exit in {Exit(code=7), Exit()}


@pytest.mark.parametrize("shortage", ["none to spare"], indirect=True)
def test_the_end_of_what_cannot_be_held_is_seen(harness: Harness, shortage: _Shortage) -> None:
    """P1: it is looked for, as long as there is a descriptor for that."""
    gate = harness.fifo("gate")
    with _survivor(harness, f"read line <{gate}; exit 7") as survivor:
        assert harness.runner.adopt(SPEC, survivor)
        shortage.wait(looks=2)
        gate.write_text("go\n")
        assert harness.ended(KEY).exit in {Exit(code=7), Exit()}


@pytest.mark.parametrize("force", [False, True], ids=["term", "kill"])
def test_what_cannot_be_held_can_be_ended(
    harness: Harness, shortage: _Shortage, force: bool
) -> None:
    """P6: a stop reaches all of it, at once or as soon as it can be reached."""
    with _survivor(harness, "setsid sleep 999 & sleep 998; true") as survivor:
        assert harness.runner.adopt(replace(SPEC, tag=survivor.tag), survivor)
        _sleepers(harness, 2)
        harness.runner.stop(KEY, force=force)
        shortage.wait(looks=4)
        shortage.end()
        assert harness.ended(KEY).exit.code is None
        assert harness.leftovers() == []


def test_a_rest_that_cannot_be_held_is_not_taken_for_gone(
    harness: Harness, shortage: _Shortage
) -> None:
    """P5: what is left of a run keeps it going, also where no descriptor is left to watch it."""
    gates = [harness.fifo("one"), harness.fifo("two")]
    command = f"read x <{gates[0]} & setsid sh -c 'read x <{gates[1]}; :' & exit 0"
    with _headless(harness, command) as survivors:
        assert harness.runner.adopt_rest(_rest_of(harness, survivors), survivors)
        shortage.wait(looks=5)
        with pytest.MonkeyPatch.context() as patch:
            looks = threading.Semaphore(0)

            def refuse() -> list[int]:
                looks.release()
                raise OSError(24, "Too many open files")

            patch.setattr(proctree, "_list_pids", refuse)
            assert looks.acquire(timeout=PATIENCE_S)
            assert looks.acquire(timeout=PATIENCE_S)
        shortage.end()
        gates[0].write_text("go\n")
        harness.run(("true",))
        assert harness.told(KEY) == []
        gates[1].write_text("go\n")
        assert harness.ended(KEY).exit == Exit()


@contextmanager
def _stranger(tag: str, attempt: int = KEY.number, *, is_left_alone: bool = True) -> Iterator[int]:
    """Have a process of another user that has taken on the marks of a run; its pid."""
    stranger = subprocess.Popen(
        ["setpriv", "--reuid=65534", "--clear-groups", "sh", "-c", "echo up; exec sleep 999"],
        env={"PATH": os.environ["PATH"], "PYCRON_RUN_ID": tag, "PYCRON_ATTEMPT": str(attempt)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert stranger.stdout is not None
    with stranger:
        stranger.stdout.readline()
        yield stranger.pid
        if is_left_alone:
            assert stranger.poll() is None, "it is nobody's business"
        stranger.kill()


needs_strangers = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv"
)


@needs_strangers
def test_a_stranger_with_the_marks_of_a_run_is_no_rest_of_it(harness: Harness) -> None:
    """Marks can be forged by anybody: a stranger does not keep a run going (P5)."""
    spec = replace(SPEC, tag=f"{harness.identity}-17")
    with _stranger(spec.tag) as pid:
        (survivor,) = harness.runner.survivors(harness.identity)
        assert (survivor.pid, survivor.uid) == (pid, 65534)
        assert not harness.runner.adopt_rest(spec, [survivor])
        # Of its own user's run it is one.
        assert harness.runner.adopt_rest(replace(spec, user="65534"), [survivor])


@needs_strangers
def test_of_a_run_whose_user_nobody_knows_everybody_is_believed(harness: Harness) -> None:
    """P5, P6: what may be its rest keeps such a run going, and is ended with it."""
    spec = replace(SPEC, tag=f"{harness.identity}-17", is_user_known=False)
    with _stranger(spec.tag, is_left_alone=False):
        (survivor,) = harness.runner.survivors(harness.identity)
        assert harness.runner.adopt_rest(spec, [survivor])
        harness.runner.stop(KEY, force=True)
        assert harness.ended(KEY).note == ""
        assert harness.leftovers() == []


def test_whoever_is_not_root_knows_whose_every_run_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """P5: then no stranger is believed, not even of a run whose job is gone."""
    spec = replace(SPEC, is_user_known=False)
    monkeypatch.setattr(os, "geteuid", lambda: 4711)
    assert users_of(spec) == {0, 4711}
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert users_of(spec) is None
    assert users_of(replace(spec, is_user_known=True)) == {0}


@needs_strangers
def test_a_stranger_with_the_marks_of_a_run_is_not_ended_with_it(harness: Harness) -> None:
    """A stop ends no process of a user who has nothing to do with the run (P6)."""
    with (
        _survivor(harness, "sleep 999; true") as survivor,
        _stranger(survivor.tag),
    ):
        assert harness.runner.adopt(replace(SPEC, tag=survivor.tag), survivor)
        own = harness.start("sleep 998; true")
        harness.started(own)
        with _stranger(f"{harness.identity}-{own.run_id}", own.number):
            for key in (KEY, own):
                harness.runner.stop(key, force=True)
                assert harness.ended(key).note == ""


@needs_strangers
def test_to_others_than_root_no_stranger_is_a_survivor(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pycron that is not root's has no run with a process of yet another user (P5)."""
    tag = f"{harness.identity}-17"
    with _stranger(tag) as pid:
        monkeypatch.setattr(os, "geteuid", lambda: 4711)
        assert harness.runner.survivors(harness.identity) == []
        monkeypatch.setattr(os, "geteuid", lambda: 65534)
        assert [survivor.pid for survivor in harness.runner.survivors(harness.identity)] == [pid]
        monkeypatch.undo()
