"""The system's clock: the only module that reads one.

Two readings: the wall clock, which people and crontabs mean and which may be set at any time, and
a monotonic one, which everything that waits is measured by. Who needs to know that the wall clock
was set, or that the machine slept, asks ``clockwatch``.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta

from crond_py.errors import ScheduleError
from crond_py.ports import Clock

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

# CLOCK_BOOTTIME goes on while the machine is suspended, CLOCK_MONOTONIC of Linux does not.
MONOTONIC = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The number of the clock that ``monotonic_ns`` reads, for clock_gettime(2)."""

# What Condition.wait takes at most; a longer wait returns early, which the port allows.
_LONGEST_WAIT_NS = int(threading.TIMEOUT_MAX) * 1_000_000_000

_GOOD_READING_NS = 20_000

_WAKES_LATE_NS = 150_000
"""How late a wait of an idle machine's returns: its timer slack, see prctl(2), and the wake-up."""

_MICROSECOND = timedelta(microseconds=1)


def to_ns(span: timedelta) -> int:
    """Return a span in nanoseconds, exactly."""
    return span // _MICROSECOND * 1000


def instant_of(time_ns: int) -> datetime:
    """Return a reading of ``Clock.time_ns`` as an instant, cut to whole microseconds."""
    return EPOCH + _MICROSECOND * (time_ns // 1000)


def check_aware(when: datetime) -> None:
    """Refuse a datetime that does not say which instant it means, with ScheduleError."""
    if when.utcoffset() is None:
        raise ScheduleError(
            f"{when.isoformat()} has no time zone, so it names no instant; "
            "use datetime.now(UTC), .astimezone() or tzinfo=",
            field="timezone",
        )


class SystemClock:
    """The Clock port on CLOCK_REALTIME and CLOCK_BOOTTIME (CLOCK_MONOTONIC where there is none)."""

    def now(self) -> datetime:
        """Return the wall clock's reading, aware, in UTC, cut to whole microseconds."""
        return instant_of(self.time_ns())

    def time_ns(self) -> int:
        """Return the wall clock's reading in nanoseconds since the Unix epoch."""
        return time.time_ns()  # noqa: TID251 - this is the one reader

    def monotonic_ns(self) -> int:
        """Return a reading in nanoseconds that never goes back and counts time in suspend."""
        return time.clock_gettime_ns(MONOTONIC)

    def awake_ns(self) -> int:
        """Return CLOCK_MONOTONIC, which stands still in suspend: what systemd is told times by."""
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC)

    def wait(self, condition: threading.Condition, deadline_ns: int | None) -> None:
        """Wait on ``condition``, which the caller holds, until notified or ``deadline_ns``.

        The kernel measures the wait on CLOCK_MONOTONIC, so a suspend makes it that much longer:
        whoever watches for a resume must notify the condition (see ``clockwatch``).
        """
        if deadline_ns is None:
            condition.wait()
            return
        remaining_ns = min(deadline_ns - self.monotonic_ns(), _LONGEST_WAIT_NS)
        if remaining_ns > 0:
            condition.wait(remaining_ns / 1_000_000_000)


def wait_closely(clock: Clock, deadline_ns: int) -> None:
    """Return at ``deadline_ns`` of ``clock.monotonic_ns``, not before it and hardly after it.

    The last of it is spent looking at the clock, so this is for waits that something hangs on.
    """
    condition = threading.Condition(threading.Lock())
    with condition:
        while clock.monotonic_ns() < deadline_ns - _WAKES_LATE_NS:
            clock.wait(condition, deadline_ns - _WAKES_LATE_NS)
    while clock.monotonic_ns() < deadline_ns:
        pass


def wall_offset_ns(clock: Clock) -> int:
    """Return how far the wall clock is ahead of the monotonic one, in nanoseconds.

    It stays the same while both are slewed or the machine sleeps, and changes when the wall clock
    is set. The answer is at most a few microseconds too small and never too large, so a deadline
    worked out from it does not come before the wall clock shows its instant.
    """
    narrowest, offset = None, 0
    for _ in range(5):
        # A thread switch between two readings would look like a clock that was set.
        before = clock.monotonic_ns()
        wall = clock.time_ns()
        after = clock.monotonic_ns()
        width = after - before
        if narrowest is None or width < narrowest:
            narrowest, offset = width, wall - after
        if width <= _GOOD_READING_NS:
            break
    return offset
