"""When our children are looked at, by an injected clock; and that the signal is given back."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

import pytest

from crond_py.runner import procfile
from crond_py.runner.glances import Glances
from crond_py.runner.orphans import Orphans
from tests.support.clock import FakeClock


@dataclass
class Known:
    """What is known of orphans."""

    are_there: bool = False
    want_another_look: bool = False
    come_fast: bool = False


@dataclass
class Bench:
    """Glances, with what they are asked of and what they ask for."""

    known: Known = field(default_factory=Known)
    clock: FakeClock = field(default_factory=FakeClock)
    woken: list[bool] = field(default_factory=list)

    def __post_init__(self) -> None:
        orphans = cast("Orphans", self.known)
        self.glances = Glances(orphans, self.clock, lambda: self.woken.append(True))
        self.clock.advance(timedelta(hours=1))

    def patience_s(self, *, are_children: bool = False) -> float | None:
        """Return how long there is until the next glance."""
        return self.glances.patience_s(are_children=are_children)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Give those of a kernel that tells children, as if they heard the signal."""
    monkeypatch.setattr(procfile, "tells_children", lambda: True)
    made = Bench()
    made.glances.hears = True
    return made


def test_the_first_is_due_at_once_and_then_none_is(bench: Bench) -> None:
    """What ended before is met; after that nothing wakes, whatever runs."""
    assert bench.patience_s() == 0
    bench.glances.begins()
    assert bench.patience_s(are_children=True) is None


def test_a_signal_wakes_once_and_is_heeded_within_a_second(bench: Bench) -> None:
    """However many come; one that comes during a look asks for another one."""
    bench.glances.begins()
    for _ in range(3):
        bench.glances._hear(signal.SIGCHLD, None)
    assert bench.woken == [True]
    assert bench.patience_s() == 1
    bench.clock.advance(timedelta(milliseconds=400))
    assert bench.patience_s() == pytest.approx(0.6)
    bench.clock.advance(timedelta(seconds=5))
    assert bench.patience_s() == 0
    bench.glances.begins()
    bench.glances._hear(signal.SIGCHLD, None)
    assert bench.woken == [True, True]


def test_there_is_one_more_after_one_that_met_something(bench: Bench) -> None:
    """And soon, where they come fast."""
    bench.glances.begins()
    bench.known.want_another_look = True
    assert bench.patience_s() == 1
    bench.known.come_fast = True
    assert bench.patience_s() == pytest.approx(0.02)


def test_where_it_takes_a_picture_there_are_fewer(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A picture of all processes is dear."""
    monkeypatch.setattr(procfile, "tells_children", lambda: False)
    bench.glances.begins()
    bench.glances.want()
    assert bench.patience_s() == 10


@pytest.mark.parametrize(("is_run", "is_orphan"), [(True, False), (False, True)])
def test_without_the_signal_there_are_some_while_there_may_be_orphans(
    bench: Bench, is_run: bool, is_orphan: bool
) -> None:
    """Each second, and none where nothing can leave any."""
    bench.glances.hears = False
    bench.glances.begins()
    assert bench.patience_s() is None
    bench.known.are_there = is_orphan
    assert bench.patience_s(are_children=is_run) == 1


@pytest.mark.parametrize("before", [signal.SIG_DFL, signal.SIG_IGN])
def test_the_signal_is_given_back(before: signal.Handlers) -> None:
    """What it did before it does afterwards; a thread that is not the main one leaves it alone."""
    real = signal.signal(signal.SIGCHLD, before)
    try:
        glances = Bench().glances
        thread = threading.Thread(target=glances.open)
        thread.start()
        thread.join()
        assert not glances.hears
        assert signal.getsignal(signal.SIGCHLD) is before
        glances.open()
        assert glances.hears
        assert signal.getsignal(signal.SIGCHLD) == glances._hear
        glances.close()
        assert signal.getsignal(signal.SIGCHLD) is before
    finally:
        signal.signal(signal.SIGCHLD, real or signal.SIG_DFL)


def test_what_cannot_be_put_back_is_left_to_the_kernel() -> None:
    """A handler that is none of Python's is not known, so the default is put in its place."""
    real = signal.getsignal(signal.SIGCHLD)
    try:
        glances = Bench().glances
        glances.open()
        glances._before = None
        glances.close()
        assert signal.getsignal(signal.SIGCHLD) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGCHLD, real or signal.SIG_DFL)


def test_who_is_closed_by_another_thread_is_deaf(bench: Bench) -> None:
    """Only the main thread can put the handler back; what it calls does nothing then."""
    bench.glances.begins()
    thread = threading.Thread(target=bench.glances.close)
    thread.start()
    thread.join()
    bench.glances._hear(signal.SIGCHLD, None)
    assert bench.woken == []


def test_the_signal_comes_through_and_interrupts_no_library() -> None:
    """Whoever has started us may have it blocked; and not everybody calls again after EINTR."""
    real = signal.getsignal(signal.SIGCHLD)
    masked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    glances = Bench().glances
    reader, writer = os.pipe()
    main = threading.get_ident()
    has_read = threading.Event()

    def disturb() -> None:
        for _ in range(20):
            signal.pthread_kill(main, signal.SIGCHLD)
            has_read.wait(0.01)
        os.write(writer, b"x")

    try:
        glances.open()
        assert signal.SIGCHLD not in signal.pthread_sigmask(signal.SIG_BLOCK, [])
        thread = threading.Thread(target=disturb)
        thread.start()
        found = ctypes.CDLL(None).read(reader, ctypes.create_string_buffer(1), 1)
        has_read.set()
        thread.join()
        assert found == 1
    finally:
        glances.close()
        signal.signal(signal.SIGCHLD, real or signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, masked)
        os.close(reader)
        os.close(writer)
