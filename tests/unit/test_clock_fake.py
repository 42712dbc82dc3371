"""The clock of the tests, which other tests lean on."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.clock import FakeClock

SECOND = timedelta(seconds=1)


class Sleeper:
    """A thread that waits on a clock, once for each deadline, and notes when it came back."""

    def __init__(self, clock: FakeClock, *deadlines_ns: int | None) -> None:
        self.condition = threading.Condition()
        self.readings: list[int] = []
        self._clock = clock
        self._deadlines_ns = deadlines_ns
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        for deadline_ns in self._deadlines_ns:
            with self.condition:
                self._clock.wait(self.condition, deadline_ns)
                self.readings.append(self._clock.monotonic_ns())

    def join(self) -> None:
        """Wait for the thread's end."""
        self.thread.join(10)
        assert not self.thread.is_alive()


def test_it_stands_still() -> None:
    """Nobody moves the hands but the test."""
    clock = FakeClock(datetime(2026, 5, 1, tzinfo=UTC))
    assert clock.now() == clock.now() == datetime(2026, 5, 1, tzinfo=UTC)
    assert clock.time_ns() == 1_777_593_600_000_000_000  # date -u -d 2026-05-01 +%s
    assert clock.monotonic_ns() == clock.monotonic_ns()


def test_advance_moves_both_clocks() -> None:
    """Time that passes is seen by both clocks alike."""
    clock = FakeClock()
    wall, monotonic_ns = clock.now(), clock.monotonic_ns()
    clock.advance(timedelta(hours=2, microseconds=3))
    assert clock.now() - wall == timedelta(hours=2, microseconds=3)
    assert clock.monotonic_ns() - monotonic_ns == 7_200_000_003_000


def test_jump_sets_the_wall_clock_alone() -> None:
    """A clock that is set moves the wall reading, either way, and nothing else."""
    clock = FakeClock()
    wall, monotonic_ns = clock.now(), clock.monotonic_ns()
    clock.jump(timedelta(hours=-5))
    assert clock.now() == wall - timedelta(hours=5)
    assert clock.monotonic_ns() == monotonic_ns


def test_time_does_not_run_backwards() -> None:
    """The monotonic clock cannot be moved back by mistake."""
    with pytest.raises(ValueError, match="jump"):
        FakeClock().advance(-SECOND)


def test_wait_ends_when_the_deadline_is_reached() -> None:
    """A waiter stays until the deadline, also past several smaller advances."""
    clock = FakeClock()
    start_ns = clock.monotonic_ns()
    sleeper = Sleeper(clock, start_ns + 3_000_000_000)
    for _ in range(3):
        clock.block_until(1)
        assert sleeper.readings == []
        clock.advance(SECOND)
    sleeper.join()
    assert sleeper.readings == [start_ns + 3_000_000_000]


def test_wait_for_what_has_passed_returns_at_once() -> None:
    """A deadline that is not in the future is no wait and no waiter."""
    clock = FakeClock()
    Sleeper(clock, clock.monotonic_ns(), 0).join()
    assert clock.waiters == 0


def test_wait_ends_when_notified() -> None:
    """A waiter without limit is woken by its condition, and is then no waiter any more."""
    clock = FakeClock()
    sleeper = Sleeper(clock, None)
    clock.block_until(1)
    with sleeper.condition:
        sleeper.condition.notify()
    sleeper.join()
    assert clock.waiters == 0


def test_advance_takes_due_waiters_off_before_it_wakes_them() -> None:
    """Once advance has returned, a due waiter counts only when it waits again."""
    clock = FakeClock()
    now_ns = clock.monotonic_ns()
    sleeper = Sleeper(clock, now_ns + 10, now_ns + 20)
    clock.block_until(1)
    with sleeper.condition:
        # The thread cannot run while its lock is held here, so it cannot take itself off.
        clock.advance_ns(10)
        assert clock.waiters == 0
    clock.block_until(1)
    clock.advance_ns(10)
    sleeper.join()
    assert sleeper.readings == [now_ns + 10, now_ns + 20]


def test_block_until_waits_for_so_many() -> None:
    """block_until returns when the last of them waits, and not before."""
    clock = FakeClock()
    with pytest.raises(TimeoutError, match="0 threads wait on the clock, not 1"):
        clock.block_until(1, timeout=0)
    sleepers = [Sleeper(clock, clock.monotonic_ns() + 1) for _ in range(5)]
    clock.block_until(5)
    assert clock.waiters == 5
    clock.advance(SECOND)
    for sleeper in sleepers:
        sleeper.join()


def test_many_threads_and_no_lost_wake_up() -> None:
    """Waiters that come and go while the clock is advanced from several threads all end."""
    clock = FakeClock()
    now_ns = clock.monotonic_ns()
    sleepers = [Sleeper(clock, *range(now_ns, now_ns + 60, 1 + n)) for n in range(8)]

    def move() -> None:
        for _ in range(30):
            clock.advance_ns(1)

    movers = [threading.Thread(target=move) for _ in range(2)]
    for mover in movers:
        mover.start()
    for mover in movers:
        mover.join()
    for sleeper in sleepers:
        sleeper.join()
    assert clock.monotonic_ns() == now_ns + 60
