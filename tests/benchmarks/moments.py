"""Instants to wait for. A measurement is the one place that sleeps: it has nothing else to do."""

from __future__ import annotations

import time

from crond_py.clock import SystemClock

CLOCK = SystemClock()
SECOND_NS = 1_000_000_000
MINUTE_S = 60


def wall_s() -> float:
    """Return the wall clock's reading in seconds."""
    return CLOCK.time_ns() / SECOND_NS


def monotonic_s() -> float:
    """Return a monotonic reading in seconds."""
    return CLOCK.monotonic_ns() / SECOND_NS


def pause(seconds: float) -> None:
    """Sleep."""
    time.sleep(max(seconds, 0))  # noqa: TID251 - what is measured goes on meanwhile


def wait_until(wall: float) -> None:
    """Sleep until the wall clock shows an instant, in seconds."""
    while (left := wall - wall_s()) > 0:
        pause(min(left, 1.0))


def next_multiple(period: float, lead: float = 0.0) -> float:
    """Return the next instant that is a multiple of a period and at least ``lead`` seconds away."""
    return (wall_s() + lead) // period * period + period
