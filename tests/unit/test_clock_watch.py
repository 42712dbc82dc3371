"""Whoever waits for a wall-clock time hears that the clock was set."""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from crond_py import clockwatch
from crond_py.clock import SystemClock
from crond_py.clockwatch import ClockWatch
from crond_py.ports import Clock
from crond_py.vital import ending_by
from tests.support.clock import FakeClock

SECOND = timedelta(seconds=1)
PATIENCE = 30.0


class Changes:
    """Counts calls and lets a test wait for them."""

    def __init__(self) -> None:
        self._called = threading.Semaphore(0)
        self.count = 0

    def __call__(self) -> None:
        """Hear of a change."""
        self.count += 1
        self._called.release()

    def await_one(self) -> None:
        """Wait for one call that was not waited for yet."""
        assert self._called.acquire(timeout=PATIENCE), "no change was told"


@pytest.fixture
def no_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the timer from the system."""

    def refuse() -> int:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(clockwatch, "_open_timer", refuse)


@pytest.fixture
def descriptors() -> Iterator[None]:
    """Nothing stays open."""
    before = sorted(Path("/proc/self/fd").iterdir())
    yield
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def set_clock_to_itself() -> None:
    """Set the system's clock to what it shows: the kernel takes that for a change."""
    try:
        time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME))
    except PermissionError:
        pytest.skip("only root may set the system's clock")


# --- the kernel tells ---------------------------------------------------------------------------


@pytest.mark.usefixtures("descriptors")
def test_setting_the_system_clock_is_told_each_time() -> None:
    """P4: the kernel's word comes without any periodic wake-up, and comes again."""
    changes = Changes()
    watch = ClockWatch(SystemClock(), changes)
    watch.start()
    try:
        for _ in range(3):
            set_clock_to_itself()
            changes.await_one()
    finally:
        watch.stop()
        watch.wait()


@pytest.mark.usefixtures("descriptors")
def test_a_change_during_the_call_is_not_lost() -> None:
    """The timer is armed again before the owner is told."""
    entered, leave = threading.Event(), threading.Event()
    changes = Changes()

    def slow() -> None:
        entered.set()
        assert leave.wait(PATIENCE)
        changes()

    watch = ClockWatch(SystemClock(), slow)
    watch.start()
    try:
        set_clock_to_itself()
        assert entered.wait(PATIENCE)
        set_clock_to_itself()
        leave.set()
        changes.await_one()
        changes.await_one()
    finally:
        leave.set()
        watch.stop()
        watch.wait()


@pytest.mark.usefixtures("descriptors")
def test_an_exception_in_the_owner_does_not_end_the_watch(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P8: a fault in dealing with one change is logged, and the next change is told."""
    changes = Changes()

    def failing() -> None:
        changes()
        raise RuntimeError("no good")

    watch = ClockWatch(SystemClock(), failing)
    watch.start()
    try:
        with caplog.at_level(logging.ERROR):
            set_clock_to_itself()
            changes.await_one()
            set_clock_to_itself()
            changes.await_one()
            watch.stop()
            watch.wait()
    finally:
        watch.stop()
    assert "no good" in caplog.text
    assert "Traceback" in caplog.text


@pytest.mark.usefixtures("descriptors")
def test_the_owner_may_stop_it_from_inside_the_call() -> None:
    """Stop and wait inside on_change return: the watch does not wait for itself."""
    done = threading.Event()

    def stop() -> None:
        watch.stop()
        watch.wait()
        done.set()

    watch = ClockWatch(SystemClock(), stop)
    watch.start()
    try:
        set_clock_to_itself()
        assert done.wait(PATIENCE)
    finally:
        watch.stop()
        watch.wait()


@pytest.mark.usefixtures("descriptors")
def test_a_change_seen_while_arming_is_told() -> None:
    """The kernel may report the change when the timer is armed again, instead of at the read."""
    watcher = clockwatch._KernelWatcher(SystemClock())
    try:
        while watcher._arm():  # tests beside this one may set the clock, too
            pass
        set_clock_to_itself()
        assert watcher._arm() is True
        while watcher._arm():  # told once, it is armed
            pass
    finally:
        watcher.stop()


def test_a_refusal_of_the_kernel_is_an_error() -> None:
    """What the kernel does not do is not taken for done."""
    with Path(os.devnull).open() as no_timer, pytest.raises(OSError) as caught:
        clockwatch._set_timer(no_timer.fileno(), 10)
    assert caught.value.errno == errno.EINVAL


# --- the clocks are compared --------------------------------------------------------------------


def watched(clock: Clock, check_every: timedelta | None = None) -> tuple[ClockWatch, Changes]:
    """Start a watch that counts."""
    changes = Changes()
    watch = ClockWatch(clock, changes, check_every=check_every)
    watch.start()
    return watch, changes


@pytest.mark.usefixtures("no_kernel", "descriptors")
@pytest.mark.parametrize("step", [timedelta(hours=1), timedelta(milliseconds=-2)], ids=str)
def test_without_the_kernel_the_clocks_are_compared(step: timedelta) -> None:
    """Where there is no such timer, a step either way is told at the next look."""
    clock = FakeClock()
    watch, changes = watched(clock)
    clock.block_until(1)
    clock.jump(step)
    clock.advance(clockwatch.FALLBACK_INTERVAL)
    changes.await_one()
    clock.block_until(1)
    clock.advance(clockwatch.FALLBACK_INTERVAL)  # nothing new
    clock.block_until(1)
    watch.stop()
    watch.wait()
    assert changes.count == 1


@pytest.mark.usefixtures("no_kernel")
def test_comparing_tells_only_of_a_change() -> None:
    """Time that passes, slowly or in one go, and noise of the readings are no change."""
    clock = FakeClock()
    watch, changes = watched(clock)
    for delta in (SECOND, timedelta(days=30), SECOND):
        clock.block_until(1)
        clock.jump(timedelta(microseconds=900))  # under the tolerance, and set back below
        clock.advance(delta)
        clock.block_until(1)
        clock.jump(timedelta(microseconds=-900))
        clock.advance(delta)
    clock.block_until(1)
    watch.stop()
    watch.wait()
    assert changes.count == 0


@pytest.mark.usefixtures("descriptors")
def test_an_interval_can_be_asked_for_besides() -> None:
    """check_every compares the clocks although the kernel would tell: some steps it cannot see."""
    clock = FakeClock()
    watch, changes = watched(clock, check_every=10 * SECOND)
    clock.block_until(1)
    clock.jump(SECOND)
    clock.advance(10 * SECOND)
    changes.await_one()
    watch.stop()
    watch.wait()


@pytest.mark.parametrize("interval", [timedelta(0), -SECOND], ids=str)
def test_no_interval_without_length(interval: timedelta) -> None:
    """An interval that would never let the watch rest is refused."""
    with pytest.raises(ValueError, match="compared every"):
        ClockWatch(FakeClock(), lambda: None, check_every=interval)


# --- start, stop, wait --------------------------------------------------------------------------


@pytest.mark.usefixtures("descriptors")
def test_start_stop_and_wait_in_any_order() -> None:
    """Each may be called often, or without the other; what was stopped stays stopped."""
    never = ClockWatch(SystemClock(), lambda: None)
    never.wait()
    never.stop()
    never.stop()
    never.start()
    never.wait()
    threads = threading.active_count()
    watch = ClockWatch(SystemClock(), lambda: None, check_every=SECOND)
    watch.start()
    watch.start()
    assert threading.active_count() == threads + 2
    watch.stop()
    watch.stop()
    watch.wait()
    watch.start()
    assert threading.active_count() == threads


@pytest.mark.usefixtures("descriptors")
def test_start_and_stop_from_many_threads() -> None:
    """Whatever the order, every thread and descriptor is given back."""
    for _ in range(20):
        watch = ClockWatch(SystemClock(), lambda: None, check_every=SECOND)
        calls = [watch.start, watch.stop, watch.start, watch.stop, watch.start]
        threads = [threading.Thread(target=call) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        watch.stop()
        watch.wait()


@pytest.mark.usefixtures("descriptors")
def test_a_watch_that_finds_no_thread_leaves_nothing_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P8: where no thread can be had, start says so and gives back what it took."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    watch = ClockWatch(SystemClock(), lambda: None)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            watch.start()
    watch.start()
    watch.stop()
    watch.wait()


@pytest.mark.usefixtures("descriptors", "no_kernel")
def test_a_watch_that_ends_by_a_fault_is_not_outlived(monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: no daemon goes on that would not notice when the clock is set."""

    def fail(_self: object) -> bool:
        raise MemoryError("planted")

    monkeypatch.setattr(clockwatch._ComparingWatcher, "_wait", fail)
    ended = []
    with ending_by(lambda: ended.append(threading.current_thread().name)):
        watch = ClockWatch(SystemClock(), Changes())
        watch.start()
        for thread in watch._threads:
            thread.join()
    assert ended == ["clock-watch"]
