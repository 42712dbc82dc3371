"""Being pid 1: the orphans of jobs are reaped, and the jobs' own exit statuses are not lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from crond_py.model import Leftovers
from crond_py.ports import AttemptKey, Ended, LeftOver, ProcessEvent
from crond_py.runner import glances, procfile, suspects
from crond_py.runner.child import Child
from crond_py.runner.orphans import Hunt, Orphans, list_children
from crond_py.runner.proctree import Snapshot
from tests.process.conftest import PATIENCE_S, PROGRAMS, Harness
from tests.support.clock import FakeClock

UNSHARE = ["unshare", "--fork", "--pid", "--mount-proc"]
CAN_UNSHARE = subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not CAN_UNSHARE, reason="making a pid namespace is not permitted here")
def test_as_pid_one_every_status_is_kept_and_no_zombie_is_left(tmp_path: Path) -> None:
    """Orphans by the hundred are reaped, and every job is still a success (B42)."""
    result = subprocess.run(
        [*UNSHARE, sys.executable, str(PROGRAMS / "proc_pid_one.py"), str(tmp_path), "400"],
        stdout=subprocess.PIPE,
        check=True,
        timeout=110,
    )
    report = json.loads(result.stdout)
    assert report["pid"] == 1
    assert report["ended"] == {"0": 400 + report["extra"]}
    assert report["found"] > 0


def _ended_child() -> int:
    """Return a child that has ended and is not reaped."""
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


def _is_reaped(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


@pytest.mark.parametrize("tells_children", [True, False], ids=["list", "picture"])
def test_no_orphan_stays_a_zombie_while_nothing_else_happens(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch, tells_children: bool
) -> None:
    """What a run that goes on leaves behind is reaped though no run ends meanwhile."""
    if not tells_children:
        monkeypatch.setattr(procfile, "tells_children", lambda: False)
        monkeypatch.setattr(glances, "_PICTURE_S", 0.1)
    before = set(list_children())
    done = reaping.fifo("done")
    key = reaping.start(
        "for i in 1 2 3 4 5 6 7 8 9; do (sleep 0 &); sleep 0.02; done; echo done >done; sleep 999"
    )
    pid = reaping.started(key).pid
    assert done.read_text() == "done\n"
    while set(list_children()) - before - {pid}:
        os.sched_yield()
    reaping.runner.stop(key, force=True)
    assert reaping.ended(key).exit.signal == signal.SIGKILL


def _job(pid: int, number: int = 1, started: int = 0) -> Child:
    """Return a child as the table of jobs has it."""
    return Child(
        AttemptKey(number, 1), f"x-{number}", pid, start_ticks=started, pidfd=None, is_own=True
    )


@pytest.fixture
def others() -> list[Child]:
    """Give the children that other tests have left, as if they were jobs: none of our business."""
    return [_job(orphan.pid, 1000 + orphan.pid) for orphan in Orphans(list).look()]


def test_reaps_what_is_nobodys(others: list[Child]) -> None:
    """A child that is not in the table is reaped; one that is in it is left alone (B42)."""
    own, orphan = _ended_child(), _ended_child()
    assert Orphans(lambda: [_job(own), *others]).look() == []
    assert _is_reaped(orphan)
    assert not _is_reaped(own)
    os.waitpid(own, 0)


def test_tells_of_orphans_that_live(others: list[Child]) -> None:
    """An orphan that has not ended is returned until it is watched, and reaped at its end."""
    reader, writer = os.pipe()
    pid = os.posix_spawn("/bin/cat", ["cat"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0)])
    orphans = Orphans(lambda: others)
    for _ in range(2):
        (orphan,) = orphans.look()
        assert orphan.pid == pid
    orphan.is_watched = True
    assert orphans.look() == []
    os.close(reader)
    os.close(writer)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert orphans.look() == []
    assert not _is_reaped(pid), "it is watched, so its end will be told"
    orphans.has_ended(pid)
    assert orphans.look() == []
    assert _is_reaped(pid)


@pytest.mark.parametrize("tells", [True, False], ids=["lists children", "lists all"])
def test_what_is_not_seen_again_is_not_forgotten(
    others: list[Child], monkeypatch: pytest.MonkeyPatch, tells: bool
) -> None:
    """P6: a picture that is older than an orphan, or a list that lacks it, does not end it."""
    leader = _job(1 << 23)
    orphans = Orphans(lambda: [leader, *others])
    older = Snapshot.take()
    pid = os.posix_spawn("/bin/sleep", ["sleep", "999"], {})
    try:
        (orphan,) = orphans.look() if tells else orphans.look(Snapshot.take())
        assert (orphan.pid, orphans.may_have(leader.key)) == (pid, True)
        assert orphans.look(older) == [orphan]
        monkeypatch.setattr(procfile, "list_children_of_thread", lambda _pid, _thread: [])
        assert orphans.look() == [orphan]
        orphan.is_watched = True
        assert orphans.look(older) == []
        assert orphans.may_have(leader.key)
    finally:
        os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    orphans.has_ended(pid)
    assert orphans.look(older) == []
    assert not orphans.may_have(leader.key)
    assert _is_reaped(pid)


def test_a_job_that_is_entered_late_is_no_orphan_any_more(others: list[Child]) -> None:
    """What was met before it was known to be a job is left for the one that waits for it."""
    table = list(others)
    orphans = Orphans(lambda: table)
    pid = os.posix_spawn("/bin/sleep", ["sleep", "999"], {})
    older = Snapshot.take()
    (orphan,) = orphans.look()
    assert orphan.pid == pid
    table.append(_job(pid))
    os.kill(pid, signal.SIGKILL)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert orphans.look(older) == []
    assert not _is_reaped(pid)
    os.waitpid(pid, 0)


def test_a_child_that_another_thread_has_started_is_no_orphan(others: list[Child]) -> None:
    """What the kernel hands to us comes to our first thread: others may have children (B42)."""
    with ThreadPoolExecutor(1) as pool:
        child = pool.submit(_ended_child).result()
        assert Orphans(lambda: others).look() == []
        assert not _is_reaped(child)
    os.waitpid(child, 0)


def test_what_an_orphan_leaves_as_it_is_reaped_may_be_of_its_run(
    others: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: what is handed to us after our children were listed is not taken for a later run's."""
    table = [_job(1 << 23), *others]
    earlier = table[0]
    orphans = Orphans(lambda: table)
    pid = os.posix_spawn("/bin/sleep", ["sleep", "999"], {})
    assert [orphan.pid for orphan in orphans.look()] == [pid]
    older = Snapshot.take()
    table[0] = _job((1 << 23) + 1, 2)
    left = os.posix_spawn("/bin/sleep", ["sleep", "998"], {})
    try:
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        with monkeypatch.context() as patch:
            patch.setattr(procfile, "list_children_of_thread", lambda _pid, _thread: [pid])
            assert orphans.look() == []
        assert orphans.look(older) == []
        assert not orphans.may_have(earlier.key)
        assert [orphan.pid for orphan in orphans.look()] == [left]
        assert orphans.may_have(earlier.key)
        assert orphans.of(table[0]) == {}
        assert list(orphans.strays_of(table[0])) == [left]
    finally:
        os.kill(left, signal.SIGKILL)
        os.waitpid(left, 0)


@pytest.mark.parametrize("me", [os.getpid(), 1], ids=["subreaper", "pid one"])
def test_an_orphan_without_a_mark_is_the_only_runs_unless_we_are_pid_one(
    others: list[Child], monkeypatch: pytest.MonkeyPatch, me: int
) -> None:
    """To pid 1 comes what anybody has started in the container: no run's stop ends it (P6)."""
    for other in others:
        other.start_ticks = 1 << 60  # too late to have brought anything forth
    only = _job(1 << 23)
    orphans = Orphans(lambda: [only, *others])
    pid = os.posix_spawn("/bin/sleep", ["sleep", "999"], {})
    try:
        (orphan,) = orphans.look()
        assert orphan.pid == pid
        monkeypatch.setattr(os, "getpid", lambda: me)
        assert list(orphans.of(only)) == ([] if me == 1 else [pid])
        assert list(orphans.strays_of(only)) == ([pid] if me == 1 else [])
        monkeypatch.undo()
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_an_orphan_without_a_mark_is_no_runs_where_we_began_with_children(
    others: list[Child],
) -> None:
    """What ``service & exec pycron run`` leaves to us is not ended with a run (P6)."""
    only = _job(1 << 23)
    service = os.posix_spawn("/bin/sleep", ["sleep", "999"], {})
    orphans = Orphans(lambda: [only, *others])
    worker = os.posix_spawn("/bin/sleep", ["sleep", "999"], {})
    try:
        assert {orphan.pid for orphan in orphans.look()} == {service, worker}
        assert orphans.of(only) == {}
        assert orphans.strays_of(only).keys() == {service, worker}
    finally:
        for pid in (service, worker):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_a_child_that_is_being_started_is_not_taken_for_an_orphan(others: list[Child]) -> None:
    """Without lists of children, one that ends before it is in the table waits for a verdict."""
    table = list(others)
    orphans = Orphans(lambda: table)
    token = orphans.start_begins(AttemptKey(1, 1))
    child = _ended_child()
    assert orphans.look(Snapshot.take()) == []
    assert not _is_reaped(child)
    table.append(_job(child))
    assert orphans.start_is_over(token), "somebody waits for this verdict"
    assert orphans.look(Snapshot.take()) == []
    assert not _is_reaped(child)
    os.waitpid(child, 0)
    assert orphans.look(Snapshot.take()) == []
    assert not orphans.start_is_over(orphans.start_begins(AttemptKey(1, 1)))


def _has_orphan(orphans: Orphans, *, older: set[int]) -> int:
    """Start a process that is no job, and have it met."""
    pid = os.posix_spawn("/bin/sleep", ["sleep", "999"], {})
    assert pid in {orphan.pid for orphan in orphans.look()} - older
    return pid


@pytest.mark.parametrize("became", ["nothing", "a later one", "an earlier one"])
def test_what_a_start_has_come_to_tells_whether_an_orphan_can_be_of_it(
    others: list[Child], became: str
) -> None:
    """P6: a start that has failed, or was made after an orphan, is no reason to leave that be.

    Nor does it matter that the run is over before it is first asked whose the orphan is.
    """
    for other in others:
        other.start_ticks = 1 << 60  # too late to have brought anything forth
    only = _job(1 << 23)
    orphans = Orphans(lambda: [only, *others])
    token = orphans.start_begins(AttemptKey(2, 1))
    pid = _has_orphan(orphans, older=set())
    try:
        if became == "an earlier one":
            assert orphans.of(only) == {}, "it may come to be one"
        started = {"a later one": 1 << 60, "an earlier one": 0}.get(became)
        child = None if started is None else _job(1 << 23, 2, started)
        orphans.start_is_over(token, child)
        assert list(orphans.of(only)) == ([] if became == "an earlier one" else [pid])
        assert list(orphans.strays_of(only)) == ([pid] if became == "an earlier one" else [])
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_a_chain_of_orphans_hands_on_a_bounded_number_of_runs(
    others: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: it stays known that one may be of an earlier run, and which these are does not pile up.

    So a stop of such a run still tells of it where it has further attempts.
    """
    monkeypatch.setattr(suspects, "_MOST_OVER", 3)
    table = list(others)
    orphans = Orphans(lambda: table)
    pids: list[int] = []
    try:
        for number in range(1, 10):
            table[:] = [_job((1 << 23) + number, number), *others]
            pids.append(_has_orphan(orphans, older=set(pids)))
            if number > 1:
                earlier = pids.pop(0)
                os.kill(earlier, signal.SIGKILL)
                os.waitid(os.P_PID, earlier, os.WEXITED | os.WNOWAIT)
        (last,) = (orphan for orphan in orphans.look() if orphan.pid == pids[0])
        assert len(last.suspects) <= len(others) + 3 + 2
        (newest,) = (child for child in table if child.key.run_id == 9)
        newest.stop = signal.SIGKILL
        assert orphans.of(newest) == {}, "an earlier run that ended by itself may have left it"
        assert list(orphans.strays_of(newest)) == pids
        first = _job(0, 1)
        assert list(orphans.strays_of(first)) == pids
        first.pid = 1 << 23
        assert list(orphans.strays_of(first)) == []
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def test_an_orphan_is_reaped_once_the_starts_it_could_belong_to_are_over(
    others: list[Child],
) -> None:
    """Later starts do not put the verdict off, so an orphan does not stay for ever."""
    orphans = Orphans(lambda: others)
    first = orphans.start_begins(AttemptKey(1, 1))
    orphan = _ended_child()
    orphans.look(Snapshot.take())
    orphans.start_begins(AttemptKey(1, 1))
    assert orphans.start_is_over(first)
    assert orphans.look(Snapshot.take()) == []
    assert _is_reaped(orphan)


@pytest.mark.parametrize("by", ["look", "hunt"])
def test_what_has_ended_hands_its_suspects_on(others: list[Child], by: str) -> None:
    """P6: what it has left may be of a run that is over by the time that this is met."""
    left, cancelled = _job(1 << 22, 1), _job(1 << 22 | 1, 2)
    table = [left, cancelled, *others]
    orphans = Orphans(lambda: table)
    dead = _ended_child()
    if by == "look":
        assert orphans.look() == []
    else:
        assert orphans.hunt(cancelled, {}, kill=True).has_doubts
    assert _is_reaped(dead)
    table.remove(left)  # it has ended by itself, and may leave what it likes
    pid = os.posix_spawn("/bin/sleep", ["sleep", "999"], {})
    try:
        cancelled.stop = signal.SIGKILL
        assert orphans.hunt(cancelled, {}, kill=True) == Hunt([], has_ended=False, has_doubts=True)
        assert os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None
        assert [orphan.pid for orphan in orphans.look()] == [pid]
        assert orphans.may_have(left.key)
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def test_what_is_to_come_after_ends_waits_for_no_look_that_hangs(reaping: Harness) -> None:
    """P4: it comes once, soon, and otherwise after the look."""
    hung, gate = threading.Event(), threading.Event()
    watching = reaping.runner._supervisor
    watching._ender.call(lambda: (hung.set(), gate.wait()))
    hung.wait()
    pids = reaping.fifo("pid")
    key = reaping.start("sleep 999 & echo $! >pid; exit 0", leftovers=Leftovers.KILL)
    reaping.started(key)
    pids.read_text()
    while not any(child.has_ended for child in watching._table()):
        os.sched_yield()
    reaping.runner.tell_after_ends("late")
    assert reaping._queue.get(timeout=PATIENCE_S) == "late"
    gate.set()
    assert reaping.wait_for(lambda event: isinstance(event, LeftOver)).key == key
    reaping.runner.stop(key, force=True)
    reaping.ended(key)
    assert "late" not in reaping.events, "it comes once"


def test_what_is_to_come_after_ends_comes_after_one_that_is_just_being_told(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: also where that was asked for between the last look and the word of the end."""
    watching, asked = reaping.runner._supervisor, threading.Event()
    tell = watching._report

    def ask_first(event: ProcessEvent) -> None:
        if isinstance(event, Ended):
            reaping.runner.tell_after_ends("late")
            watching.call(asked.set)
            assert asked.wait(PATIENCE_S)
        tell(event)

    monkeypatch.setattr(watching, "_report", ask_first)
    monkeypatch.setattr(watching._calls, "_clock", FakeClock())  # so it waits for the look
    key = reaping.start("sleep 999 & exit 0")
    assert reaping.ended(key).note.startswith("left 1 process running")
    assert "late" not in reaping.events
    assert reaping._queue.get(timeout=PATIENCE_S) == "late"
