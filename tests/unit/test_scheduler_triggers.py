"""When a task is due, as plain objects: no thread, no clock, an explicit moment."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from crond_py.model import Missed
from crond_py.scheduler.triggers import (
    MISSED_LIMIT,
    Calendar,
    FixedRate,
    Moment,
    Never,
    OnceAt,
)

NOON = datetime(2026, 6, 1, 12, 0, tzinfo=UTC)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


def at(wall: datetime, monotonic_ns: int = 0) -> Moment:
    """Return the moment at which the clocks show these."""
    wall_ns = (wall - EPOCH) // timedelta(microseconds=1) * 1000
    return Moment(monotonic_ns, wall_ns - monotonic_ns)


class Hourly:
    """Due at every full hour up to ``last``."""

    def __init__(self, last: datetime = datetime(2100, 1, 1, tzinfo=UTC)) -> None:
        self.last = last

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the next full hour."""
        due = instant.replace(minute=0, second=0, microsecond=0) + HOUR
        return due if due <= self.last else None

    def latest_until(self, instant: datetime) -> datetime | None:
        """Return the last full hour."""
        return min(instant.replace(minute=0, second=0, microsecond=0), self.last)

    def count(self, after: datetime, until: datetime) -> int:
        """Count the full hours after one instant up to another."""
        until = min(until, self.last)
        return (until - EPOCH) // HOUR - (after - EPOCH) // HOUR


def test_a_moment_leads_from_clock_to_clock() -> None:
    """A wall-clock instant and its deadline are the same moment, to the nanosecond."""
    moment = at(NOON, monotonic_ns=5_000_000_007)
    assert moment.wall == NOON
    assert moment.deadline_of(NOON + SECOND) == 6_000_000_007
    assert moment.wall_at(6_000_000_007) == NOON + SECOND


def test_once_at_is_due_when_the_wall_clock_shows_it() -> None:
    """Before its instant it makes no run and stays; then it makes one and is done."""
    trigger = OnceAt(NOON)
    assert trigger.take(at(NOON - SECOND)) == 0
    assert not trigger.is_exhausted
    assert trigger.take(at(NOON)) == 1
    assert trigger.is_exhausted
    assert trigger.take(at(NOON + HOUR)) == 0


def test_a_reading_of_the_clock_may_be_a_little_off() -> None:
    """Within the noise of reading two clocks an instant counts as reached."""
    assert OnceAt(NOON).take(at(NOON - timedelta(microseconds=20))) == 1
    calendar = Calendar(Hourly(), Missed.ONCE, at(NOON))
    assert calendar.take(at(NOON + HOUR - timedelta(microseconds=20))) == 1
    assert calendar.deadline_ns(at(NOON)) == at(NOON).deadline_of(NOON + 2 * HOUR)


def test_a_calendar_follows_its_schedule() -> None:
    """One run for each due instant, none before, until the schedule ends."""
    calendar = Calendar(Hourly(last=NOON + 2 * HOUR), Missed.ONCE, at(NOON))
    minutes = range(0, 240, 10)
    runs = {minute: calendar.take(at(NOON + minute * MINUTE)) for minute in minutes}
    assert {minute: number for minute, number in runs.items() if number} == {60: 1, 120: 1}
    assert calendar.is_exhausted
    assert calendar.deadline_ns(at(NOON)) is None


@pytest.mark.parametrize(
    ("missed", "late", "runs"),
    [
        (Missed.ONCE, timedelta(0), 1),
        (Missed.ONCE, 25 * MINUTE, 1),
        (Missed.ONCE, 5 * HOUR, 1),
        (Missed.ONCE, timedelta(days=20_000), 1),
        (Missed.SKIP, SECOND, 1),
        (Missed.SKIP, 2 * SECOND, 0),
        (Missed.SKIP, 5 * HOUR + SECOND, 1),
        (Missed.SKIP, 5 * HOUR + MINUTE, 0),
        (Missed.ALL, 5 * HOUR + MINUTE, 6),
        (Missed.ALL, 25 * MINUTE, 1),
        (Missed.ALL, timedelta(days=20_000), MISSED_LIMIT),
    ],
)
def test_what_a_gap_makes(missed: Missed, late: timedelta, runs: int) -> None:
    """Instants that were slept through or jumped over follow the missed policy, bounded.

    The first of them was due at 13:00; the next to come is the first full hour after the gap.
    """
    calendar = Calendar(Hourly(), missed, at(NOON))
    now = NOON + HOUR + late
    assert calendar.take(at(now)) == runs
    following = now.replace(minute=0, second=0, microsecond=0) + HOUR
    assert calendar.deadline_ns(at(NOON)) == at(NOON).deadline_of(following)


@pytest.mark.parametrize(
    ("back", "next_due"),
    [
        # Set back at 15:10, when 15:00 was due last.
        (11 * MINUTE, NOON + 4 * HOUR),
        (3 * HOUR, NOON + 4 * HOUR),
        (3 * HOUR + SECOND, NOON + HOUR),
        (8 * HOUR, NOON - 4 * HOUR),
        (-11 * MINUTE, NOON + 4 * HOUR),
    ],
    ids=str,
)
def test_a_clock_that_is_set_back(back: timedelta, next_due: datetime) -> None:
    """P2: nothing comes again, unless the clock shows a new time, over three hours back."""
    calendar = Calendar(Hourly(), Missed.ONCE, at(NOON))
    now = NOON + 3 * HOUR + 10 * MINUTE
    assert calendar.take(at(now)) == 1
    calendar.clock_set(at(now - back))
    assert calendar.deadline_ns(at(NOON)) == at(NOON).deadline_of(next_due)


@pytest.mark.parametrize("answer", [NOON, NOON - HOUR], ids=str)
def test_a_schedule_that_does_not_advance_is_refused(answer: datetime) -> None:
    """A schedule whose next instant is not later than the one asked for would be due for ever."""

    class Stuck(Hourly):
        def next_after(self, instant: datetime) -> datetime | None:
            return answer

    with pytest.raises(ArithmeticError, match="not after"):
        Calendar(Stuck(), Missed.ONCE, at(NOON))


def test_a_fixed_rate_is_not_taken_early() -> None:
    """Asked before its beat it makes no run and keeps the beat."""
    beat = FixedRate(1_000, 100, Missed.ONCE)
    assert beat.take(at(NOON, monotonic_ns=999)) == 0
    assert beat.deadline_ns(at(NOON)) == 1_000
    assert beat.take(at(NOON, monotonic_ns=1_000)) == 1
    assert beat.deadline_ns(at(NOON)) == 1_100


def test_never_is_never_due() -> None:
    """A task without a trigger to come has no deadline."""
    never = Never()
    assert never.is_exhausted
    assert never.deadline_ns(at(NOON)) is None
    assert never.take(at(NOON)) == 0
