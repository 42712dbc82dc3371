"""The system's clock."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from freezegun import freeze_time

from crond_py.clock import SystemClock, to_ns, wait_closely, wall_offset_ns
from tests.support.clock import FakeClock


def test_now_is_the_wall_clock_in_utc() -> None:
    """The wall clock is read in UTC, whatever the host's zone, to the microsecond."""
    with freeze_time("2026-03-29 01:30:00.123456", tz_offset=2):
        assert SystemClock().now() == datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)
        assert SystemClock().now().tzinfo is UTC


def test_now_and_time_ns_are_one_reading() -> None:
    """``now`` is ``time_ns`` cut to microseconds: it is never ahead of it."""

    class Fixed(SystemClock):
        def time_ns(self) -> int:
            return 1_700_000_000_123_456_999

    # date -u -d @1700000000: 2023-11-14 22:13:20
    assert Fixed().now() == datetime(2023, 11, 14, 22, 13, 20, 123456, tzinfo=UTC)


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="the system has no such clock")
def test_monotonic_counts_suspend() -> None:
    """The monotonic reading is CLOCK_BOOTTIME, which goes on while the machine is suspended."""
    before = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    reading = SystemClock().monotonic_ns()
    after = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
    assert before <= reading <= after


def test_wait_ends_at_its_deadline_and_not_before() -> None:
    """A wait that nobody notifies returns once the clock has reached the deadline."""
    clock, condition = SystemClock(), threading.Condition()
    deadline_ns = clock.monotonic_ns() + 3_000_000
    with condition:
        clock.wait(condition, deadline_ns)
    assert clock.monotonic_ns() >= deadline_ns


@pytest.mark.parametrize("deadline_ns", [None, 2**62, 2**80, 10**400], ids=str)
def test_wait_ends_when_notified(deadline_ns: int | None) -> None:
    """A wait without limit, or with one beyond every timeout of the system, can be notified."""
    clock, condition = SystemClock(), threading.Condition()
    woken = threading.Event()

    def sleeper() -> None:
        with condition:
            entered.set()
            clock.wait(condition, deadline_ns)
        woken.set()

    entered = threading.Event()
    thread = threading.Thread(target=sleeper)
    thread.start()
    assert entered.wait(10)
    with condition:
        condition.notify()
    assert woken.wait(10)
    thread.join()


def test_wait_for_what_has_passed_returns_at_once() -> None:
    """A deadline in the past, however far, is no wait."""
    clock, condition = SystemClock(), threading.Condition()
    with condition:
        clock.wait(condition, clock.monotonic_ns())
        clock.wait(condition, -(10**30))


def test_a_close_wait_looks_at_the_clock_for_the_last_of_it() -> None:
    """It sleeps most of its time, also where that returns early, and never returns early itself."""
    naps: list[int] = []

    class Restless(FakeClock):
        def monotonic_ns(self) -> int:
            self.advance_ns(1_000)
            return super().monotonic_ns()

        def wait(self, condition: threading.Condition, deadline_ns: int | None) -> None:
            assert deadline_ns is not None
            remaining_ns = deadline_ns - FakeClock.monotonic_ns(self)
            naps.append(remaining_ns)
            self.advance_ns(remaining_ns // 2 if len(naps) == 1 else remaining_ns)

    clock = Restless()
    begin_ns = FakeClock.monotonic_ns(clock)
    wait_closely(clock, begin_ns + 1_000_000)
    waited_ns = FakeClock.monotonic_ns(clock) - begin_ns
    assert 1_000_000 <= waited_ns <= 1_001_000
    assert len(naps) == 2
    assert naps[0] // 2 + naps[1] >= 800_000


def test_a_close_wait_for_what_has_passed_returns_at_once() -> None:
    """Nothing is waited for that was due before."""
    clock = FakeClock()
    wait_closely(clock, clock.monotonic_ns())
    wait_closely(clock, clock.monotonic_ns() - 1_000_000_000)


def test_offset_is_never_too_large() -> None:
    """Reading takes time; the offset errs so that a deadline made from it is not early."""

    class Slow(FakeClock):
        def time_ns(self) -> int:
            self.advance_ns(700)
            return super().time_ns()

        def monotonic_ns(self) -> int:
            self.advance_ns(300)
            return super().monotonic_ns()

    slow = Slow()
    true_offset_ns = FakeClock.time_ns(slow) - FakeClock.monotonic_ns(slow)
    assert true_offset_ns - 1_000 <= wall_offset_ns(slow) <= true_offset_ns


def test_offset_survives_a_thread_switch_between_two_readings() -> None:
    """A reading torn apart by a thread switch does not look like a clock that was set."""
    fake = FakeClock()
    true_offset_ns = fake.time_ns() - fake.monotonic_ns()

    class Torn(FakeClock):
        tears = 3

        def time_ns(self) -> int:
            if self.tears:
                self.tears -= 1
                self.advance(timedelta(milliseconds=5))
            return super().time_ns()

    torn = Torn()
    assert wall_offset_ns(torn) == true_offset_ns
    assert torn.tears == 0


@pytest.mark.parametrize(
    ("span", "nanoseconds"),
    [
        (timedelta(0), 0),
        (timedelta(microseconds=1), 1_000),
        (timedelta(microseconds=-1), -1_000),
        (timedelta(days=36_500, microseconds=7), 3_153_600_000_000_007_000),
    ],
)
def test_spans_are_exact(span: timedelta, nanoseconds: int) -> None:
    """A span is turned into nanoseconds without rounding, also where a float would round."""
    assert to_ns(span) == nanoseconds
