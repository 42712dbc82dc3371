"""Looks for what jobs have left: those that fail, that are made again, and what waits for them."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from crond_py.model import Leftovers
from crond_py.ports import AttemptKey, LeftOver
from crond_py.runner import glances, procfile
from crond_py.runner.child import Child
from crond_py.runner.ender import Ender
from crond_py.runner.orphans import Hunt, Orphans, list_children
from crond_py.runner.proctree import Snapshot
from crond_py.runner.supervisor import Supervisor
from tests.process.conftest import PATIENCE_S, PROGRAMS, Harness, QuietWatch, has_ended
from tests.support.clock import FakeClock

SHORTAGE = OSError(errno.ENFILE, "planted")
FAULTS = pytest.mark.parametrize("fault", [SHORTAGE, ValueError("planted")], ids=["short", "fault"])


def _fail(
    monkeypatch: pytest.MonkeyPatch, whose: type, name: str, fault: Exception, times: int = 2
) -> None:
    """Have the next few calls of a method fail."""
    real, failures = getattr(whose, name), iter(range(times))

    def fail(*arguments: Any) -> object:
        for _ in failures:
            raise fault
        return real(*arguments)

    monkeypatch.setattr(whose, name, fail)


def _by_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a kernel that lists no children."""
    monkeypatch.setattr(procfile, "tells_children", lambda: False)
    monkeypatch.setattr(glances, "_PICTURE_S", 0.1)


def _orphan_ends(harness: Harness) -> Callable[[], AttemptKey]:
    """Start a run; return what has something lose its parent and end, and waits for that."""
    done, gone = harness.fifo("done"), harness.fifo("gone")
    key = harness.start(
        "read x <done; (sh -c 'echo gone >gone' &); sleep 999"  # the shell's own child is lost
    )
    harness.started(key)

    def end() -> AttemptKey:
        done.write_text("go\n")
        assert gone.read_text() == "gone\n"
        return key

    return end


def _wait_until_reaped(before: set[int]) -> None:
    """Wait until there are no more of our children than before."""
    while set(list_children()) - before:
        os.sched_yield()


@FAULTS
def test_a_look_that_fails_is_made_again(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """P8: what ends while descriptors are short stays no zombie, though nothing else happens."""
    end = _orphan_ends(reaping)
    before = set(list_children())
    _fail(monkeypatch, Orphans, "look", fault)
    key = end()
    _wait_until_reaped(before)
    reaping.runner.stop(key, force=True)
    assert reaping.ended(key).exit.signal == signal.SIGKILL


def test_a_picture_that_fails_is_taken_again(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P8: likewise where the kernel lists no children; why it takes so long is said once."""
    _by_pictures(monkeypatch)
    end = _orphan_ends(reaping)
    before = set(list_children())
    _fail(monkeypatch, Snapshot, "take", SHORTAGE)
    key = end()
    _wait_until_reaped(before)
    assert caplog.text.count("cannot look for what jobs have left behind") == 1
    reaping.runner.stop(key, force=True)
    assert reaping.ended(key).exit.signal == signal.SIGKILL


def test_there_is_one_more_look_by_pictures(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: after one that has met something, though another thread has made that look."""
    _by_pictures(monkeypatch)
    end = _orphan_ends(reaping)
    before = set(list_children())
    key = end()
    _wait_until_reaped(before)
    orphans = reaping.runner._supervisor._orphans
    assert orphans is not None
    while orphans.want_another_look:
        os.sched_yield()
    reaping.runner.stop(key, force=True)
    reaping.ended(key)


@pytest.mark.parametrize("has_met", [True, False])
def test_who_sleeps_is_told_of_a_look_that_wants_another(
    monkeypatch: pytest.MonkeyPatch, has_met: bool
) -> None:
    """P2: it may have gone to sleep before another thread has made the look."""
    supervisor = Supervisor(lambda _event: None, FakeClock(), reap_orphans=True)
    monkeypatch.setattr(Orphans, "look", lambda _self, _snapshot=None: [])
    monkeypatch.setattr(Orphans, "want_another_look", has_met)
    supervisor.look_after_orphans()
    if has_met:
        assert os.eventfd_read(supervisor._wake) == 1
    else:
        with pytest.raises(BlockingIOError):
            os.eventfd_read(supervisor._wake)
    supervisor.close()


def test_who_sleeps_wakes_for_a_call_that_waits_no_longer() -> None:
    """P4: a fifth of a second after it was put off, though nothing else happens."""
    clock = FakeClock()
    supervisor = Supervisor(lambda _event: None, clock, reap_orphans=False)
    assert supervisor._patience_s() is None
    supervisor._calls.wait_for_look(lambda: None)
    assert supervisor._patience_s() == pytest.approx(0.2)
    clock.advance(timedelta(milliseconds=200))
    assert supervisor._patience_s() == 0
    supervisor.close()


def test_nobody_is_woken_who_is_gone() -> None:
    """P8: the number of the descriptor that wakes may be another one's by then."""
    supervisor = Supervisor(lambda _event: None, FakeClock(), reap_orphans=True)
    supervisor.close()
    supervisor._wake_up()


@pytest.mark.parametrize("by_pictures", [False, True], ids=["list", "picture"])
def test_only_what_ends_during_a_look_wants_another(
    monkeypatch: pytest.MonkeyPatch, by_pictures: bool
) -> None:
    """P5: and what has ended before was met; not so where no look was made."""
    supervisor = Supervisor(lambda _event: None, FakeClock(), reap_orphans=True)
    monkeypatch.setattr(Orphans, "look", lambda _self, _snapshot=None: [])
    monkeypatch.setattr(procfile, "tells_children", lambda: not by_pictures)
    wanting = supervisor._glances
    assert wanting is not None
    wanting.hears = True
    wanting.want()
    supervisor._try_to_look_after_orphans()
    assert (supervisor._patience_s() is None) is not by_pictures
    supervisor.look_after_orphans(lambda: Snapshot({}))
    assert supervisor._patience_s() is None

    def take() -> Snapshot:
        wanting.want()
        return Snapshot({})

    supervisor.look_after_orphans(take)
    assert supervisor._patience_s() is not None
    supervisor.close()


@FAULTS
def test_a_look_that_fails_tells_of_nothing_left(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """P6: what is to be ended with a run is, once it can be seen."""
    _fail(monkeypatch, Orphans, "look", fault)
    pids = reaping.fifo("pid")
    key = reaping.start(
        "setsid sh -c 'echo $$ >pid; exec sleep 999' & exit 0", leftovers=Leftovers.KILL
    )
    pidfd = os.pidfd_open(int(pids.read_text()))
    assert reaping.wait_for(lambda event: isinstance(event, LeftOver)).key == key
    reaping.runner.stop(key, force=True)
    reaping.ended(key)
    assert has_ended(pidfd, patience_s=PATIENCE_S)


@FAULTS
def test_what_forks_away_is_hunted_though_a_look_fails(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """P6: a tree is not said to have ended because nobody could look for it."""
    before = set(list_children())
    ready = reaping.fifo("ready")
    hop = (sys.executable, "-S", str(PROGRAMS / "proc_hop.py"))
    key = reaping.start(hop, env={"READY": str(ready)})
    assert ready.read_text() == "up\n"
    _fail(monkeypatch, Orphans, "look", fault, times=4)
    reaping.runner.stop(key, force=True)
    assert reaping.ended(key).note == ""
    assert set(list_children()) <= before


# --- the thread that looks ------------------------------------------------------------------------


class _Watch(QuietWatch):
    """A supervisor that notes what is asked of it, and whose looks fail with ``fault``."""

    def __init__(self) -> None:
        self.fault: Exception | None = None
        self.sees = True
        self.done: list[str] = []

    def sees_orphans(self, child: Child) -> bool:
        return self.sees

    def look_after_orphans(self, picture: Callable[[], Snapshot] | None = None) -> None:
        self.done.append("look")
        if self.fault is not None:
            raise self.fault

    def hunt(self, child: Child, *, kill: bool) -> Hunt:
        self.done.append("hunt")
        return Hunt([], has_ended=False)

    def finish(self, child: Child, note: str, *, seen: signal.Signals | None) -> None:
        self.done.append(f"end{note}")


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> Child:
    """Give a child that has ended and is to be, and of which no look finds anything."""
    monkeypatch.setattr(Snapshot, "take", lambda: Snapshot({}))
    monkeypatch.setattr(procfile, "tells_children", lambda: True)
    child = Child(AttemptKey(1, 1), "k-1", 0, start_ticks=None, pidfd=None, is_own=False)
    child.has_ended = True
    child.stop = child.sent = signal.SIGKILL
    return child


@pytest.mark.parametrize("sees", [True, False], ids=["list", "picture"])
def test_no_end_is_told_while_nobody_can_look(gone: Child, sees: bool) -> None:
    """P6: there is a hunt even so, where there can be one, and the end after another look."""
    watch, hunt = _Watch(), ["hunt"] if sees else []
    watch.sees, watch.fault = sees, SHORTAGE
    ender = Ender(watch, FakeClock())
    assert ender._look_at_all([gone]) == []
    assert (watch.done, list(ender._unseen)) == (["look", *hunt], [gone])
    watch.fault = ValueError("it may stay")
    assert ender._look_at_all([gone]) == []
    assert watch.done[len(hunt) + 1 :] == ["look", *hunt, "end"]


@pytest.mark.parametrize("leftovers", Leftovers)
def test_what_is_left_is_not_told_by_a_look_that_has_failed(
    gone: Child, monkeypatch: pytest.MonkeyPatch, leftovers: Leftovers
) -> None:
    """P6: what is to be ended is looked for until it is seen; what may stay is told by marks."""
    watch = _Watch()
    gone.stop, gone.pid, gone.leftovers = None, 1 << 23, leftovers
    monkeypatch.setattr(Snapshot, "take_trees", lambda _pids: pytest.fail("they are not known"))
    watch.fault = SHORTAGE
    ender = Ender(watch, FakeClock())
    assert ender._look_at_all([gone]) == []
    is_told = leftovers is Leftovers.LEAVE
    assert watch.done == (["look", "end"] if is_told else ["look"])
    assert list(ender._unseen) == ([] if is_told else [gone])
    watch.fault = ValueError("planted")
    ender._look_at_all([gone])
    assert watch.done[-2:] == ["look", "end"], "such a fault may stay"


def test_calls_neither_put_a_look_off_nor_bring_it_about(gone: Child) -> None:
    """P4: what could not be seen is looked for in a second, whatever is called meanwhile."""
    clock, watch = FakeClock(), _Watch()
    ender = Ender(watch, clock)
    watch.fault = SHORTAGE
    ender._try_to_look_at_all([gone])
    called = threading.Event()
    for step, expected in ((0.9, [called.set]), (0.1, [called.set, gone])):
        clock.advance(timedelta(seconds=step))
        ender.call(called.set)
        assert list(ender._take() or {}) == expected
    ender._try_to_look_at_all([gone])
    ender.look_at(None)
    assert list(ender._take() or {}) == [None, gone], "whatever else comes is a reason"


def test_a_call_alone_needs_no_look(gone: Child) -> None:
    """P4: late timers are many, and a picture of all processes is dear."""
    watch, called = _Watch(), threading.Event()
    ender = Ender(watch, FakeClock())
    ender.open()
    ender.look_at(gone)
    ender.call(called.set)
    assert called.wait(PATIENCE_S)
    again = threading.Event()
    ender.call(again.set)
    assert again.wait(PATIENCE_S)
    assert watch.done == ["look", "hunt", "end"]
    assert ender.close()
