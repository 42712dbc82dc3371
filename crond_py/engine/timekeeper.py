"""Turns wall-clock instants into monotonic deadlines, and notices when the wall clock is set.

One difference between the two clocks is held and used for every deadline, so that occurrences of
one instant get one deadline and fall into one batch. Slewing moves both clocks alike, and so does
a suspend; only a step changes the difference, and then every wall-clock deadline is derived again.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from crond_py.clock import EPOCH, to_ns, wall_offset_ns
from crond_py.clockwatch import STEP_TOLERANCE_NS
from crond_py.ports import Clock

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")

_MICROSECOND = timedelta(microseconds=1)


class Timekeeper:
    """Holds the difference between the wall clock and the monotonic one."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_ns = wall_offset_ns(self._clock)

    def now(self) -> datetime:
        """Return the wall clock's reading."""
        return self._clock.now()

    def deadline(self, due: datetime) -> int:
        """Return the monotonic instant, in nanoseconds, of a wall-clock instant."""
        return to_ns(due - EPOCH) - self._offset_ns

    def reading(self) -> int:
        """Return the monotonic clock's reading, in nanoseconds."""
        return self._clock.monotonic_ns()

    def after(self, delay: timedelta) -> int:
        """Return the monotonic instant, in nanoseconds, ``delay`` from now."""
        return self._clock.monotonic_ns() + to_ns(delay)

    def wall_at(self, monotonic_ns: int) -> datetime:
        """Return what the wall clock read, or will read, at a monotonic instant."""
        return EPOCH + _MICROSECOND * ((monotonic_ns + self._offset_ns) // 1000)

    def age(self, start_ticks: int) -> timedelta:
        """Return how long ago a process began, by field 22 of its /proc/PID/stat (proc(5)).

        The kernel counts it from boot, suspends included, so no step of the wall clock matters.
        """
        began_ns = start_ticks * 1_000_000_000 // TICKS_PER_SECOND
        return _MICROSECOND * max(0, (self._clock.monotonic_ns() - began_ns) // 1000)

    def lead(self) -> timedelta:
        """Return how far the wall clock is ahead of the monotonic one."""
        return _MICROSECOND * (self._offset_ns // 1000)

    def take_step(self) -> timedelta | None:
        """Return how far the wall clock was set since the last call, or None; adopt the change."""
        offset_ns = wall_offset_ns(self._clock)
        step_ns = offset_ns - self._offset_ns
        if abs(step_ns) < STEP_TOLERANCE_NS:
            return None
        self._offset_ns = offset_ns
        return _MICROSECOND * round(step_ns / 1000)
