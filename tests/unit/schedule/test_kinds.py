"""Intervals and one-offs, and what every kind of schedule has in common."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from crond_py.errors import ScheduleError
from crond_py.schedule import Aligned, Interval, OneOff, Schedule, Shifted, parse_schedule

ANCHOR = datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)
SECOND = timedelta(seconds=1)
TICK = timedelta(microseconds=1)
INTERVAL = Interval(ANCHOR, 15 * SECOND)

KINDS: list[Schedule] = [
    INTERVAL,
    OneOff(ANCHOR + 15 * SECOND),
    parse_schedule("*/5 * * * *", "Europe/Berlin"),
    parse_schedule(["*/5 * * * *", "*/7 * * * * *"], "Europe/Berlin"),
    Aligned("Europe/Berlin", 90 * SECOND, SECOND / 4),
    Shifted(INTERVAL, 3 * SECOND),
    Shifted(parse_schedule("*/5 * * * *", "Europe/Berlin"), SECOND / 4),
]


def test_first_beat_is_one_period_after_the_anchor() -> None:
    """The anchor itself is not due, however early one asks."""
    assert INTERVAL.next_after(ANCHOR) == ANCHOR + 15 * SECOND
    assert INTERVAL.next_after(ANCHOR - timedelta(days=365)) == ANCHOR + 15 * SECOND
    assert INTERVAL.latest_until(ANCHOR) is None
    assert INTERVAL.latest_until(ANCHOR + 15 * SECOND - TICK) is None
    assert INTERVAL.latest_until(ANCHOR + 15 * SECOND) == ANCHOR + 15 * SECOND


def test_beats_are_strictly_later() -> None:
    """P2: asked at a beat, the next one is a period later."""
    beat = ANCHOR + 15 * SECOND
    assert INTERVAL.next_after(beat - TICK) == beat
    assert INTERVAL.next_after(beat) == beat + 15 * SECOND


def test_beats_are_exact_for_ever() -> None:
    """A period that no float holds keeps its cadence to the microsecond after 10**12 beats."""
    period = timedelta(microseconds=3333)
    interval = Interval(ANCHOR, period)
    after = 10**12
    assert interval.next_after(ANCHOR + after * period) == ANCHOR + (after + 1) * period
    assert interval.latest_until(ANCHOR + (after + 1) * period - TICK) == ANCHOR + after * period
    assert interval.count(ANCHOR, ANCHOR + after * period) == after


def test_beats_of_a_stretch() -> None:
    """Counting and listing are for after < due <= until."""
    start, end = ANCHOR + 15 * SECOND, ANCHOR + 60 * SECOND
    assert list(INTERVAL.occurrences(start, end)) == [ANCHOR + n * SECOND for n in (30, 45, 60)]
    assert INTERVAL.count(start, end) == 3
    assert INTERVAL.count(end, start) == 0
    assert list(INTERVAL.occurrences(end, start)) == []


def test_the_end_of_time() -> None:
    """A beat beyond the year 9999 is none."""
    last = datetime.max.replace(tzinfo=UTC)
    assert INTERVAL.next_after(last - SECOND) is None
    assert Interval(ANCHOR, timedelta.max).next_after(ANCHOR) is None
    assert INTERVAL.latest_until(last) is not None


def test_an_anchor_in_a_zone() -> None:
    """An interval is elapsed time: it takes no notice of the clocks of its anchor's zone."""
    anchor = datetime(2024, 3, 10, 1, 30, tzinfo=ZoneInfo("America/New_York"))
    interval = Interval(anchor, timedelta(hours=1))
    assert interval.next_after(anchor) == datetime(2024, 3, 10, 7, 30, tzinfo=UTC)
    assert interval == Interval(datetime(2024, 3, 10, 6, 30, tzinfo=UTC), timedelta(hours=1))


@pytest.mark.parametrize("period", [timedelta(0), timedelta(seconds=-1)])
def test_no_period(period: timedelta) -> None:
    """P7: a period of nothing or less is refused, or it would be due for ever."""
    with pytest.raises(ScheduleError) as caught:
        Interval(ANCHOR, period)
    assert caught.value.field == "duration"


def test_once() -> None:
    """A one-off is due at its instant and never again."""
    one = OneOff(ANCHOR)
    assert one.next_after(ANCHOR - TICK) == ANCHOR
    assert one.next_after(ANCHOR) is None
    assert one.latest_until(ANCHOR - TICK) is None
    assert one.latest_until(ANCHOR) == one.latest_until(ANCHOR + SECOND) == ANCHOR
    assert one.count(ANCHOR - TICK, ANCHOR) == 1
    assert one.count(ANCHOR, ANCHOR + SECOND) == 0
    assert list(one.occurrences(ANCHOR - SECOND, ANCHOR + SECOND)) == [ANCHOR]
    assert list(one.occurrences(ANCHOR, ANCHOR + SECOND)) == []


@pytest.mark.parametrize("schedule", KINDS, ids=repr)
def test_a_naive_datetime_is_refused(schedule: Schedule) -> None:
    """A datetime that names no instant is refused by every method, before anything is done."""
    naive = datetime(2026, 1, 1, 12)  # noqa: DTZ001 - that is the point
    for ask in (
        lambda: schedule.next_after(naive),
        lambda: schedule.latest_until(naive),
        lambda: schedule.count(naive, ANCHOR),
        lambda: schedule.count(ANCHOR, naive),
        lambda: schedule.occurrences(naive, ANCHOR),
        lambda: schedule.occurrences(ANCHOR, naive),
    ):
        with pytest.raises(ValueError, match="time zone"):
            ask()


@pytest.mark.parametrize("schedule", KINDS, ids=repr)
def test_any_zone_in_utc_out(schedule: Schedule) -> None:
    """It makes no difference in which zone an instant is given; what comes back is in UTC."""
    answers = []
    for zone in (UTC, timezone(timedelta(hours=-11)), ZoneInfo("Asia/Kathmandu")):
        instant = (ANCHOR - TICK).astimezone(zone)
        end = instant + timedelta(minutes=20)
        found = [
            schedule.next_after(instant),
            schedule.latest_until(end),
            *schedule.occurrences(instant, end),
        ]
        assert all(due is not None and due.tzinfo is UTC for due in found)
        answers.append((found, schedule.count(instant, end)))
    assert answers[0] == answers[1] == answers[2]


def test_an_instant_in_a_repeated_hour() -> None:
    """Which pass an aware datetime means (its fold) is heard: after the second 01:30 it is gone."""
    schedule = parse_schedule("45 1 * * *", "America/New_York")
    first = datetime(2024, 11, 3, 1, 30, tzinfo=ZoneInfo("America/New_York"))
    assert schedule.next_after(first) == datetime(2024, 11, 3, 5, 45, tzinfo=UTC)
    assert schedule.next_after(first.replace(fold=1)) == datetime(2024, 11, 4, 6, 45, tzinfo=UTC)


@pytest.mark.parametrize("schedule", KINDS, ids=repr)
def test_listing_is_lazy(schedule: Schedule) -> None:
    """A stretch of eight thousand years can be begun without listing it."""
    start, end = ANCHOR - TICK, datetime(9999, 1, 1, tzinfo=UTC)
    assert next(schedule.occurrences(start, end)) == schedule.next_after(start)


@pytest.mark.parametrize("schedule", KINDS, ids=repr)
def test_fractions_of_a_second(schedule: Schedule) -> None:
    """P2: a microsecond before, at and after a due instant are told apart by every method."""
    due = schedule.next_after(ANCHOR)
    assert due is not None
    assert schedule.next_after(due - TICK) == due
    assert schedule.next_after(due) != due
    assert schedule.latest_until(due) == due
    assert schedule.latest_until(due - TICK) != due
    assert schedule.count(due - TICK, due) == 1
    assert schedule.count(due, due + TICK) == 0
    assert schedule.count(due - SECOND, due - TICK) == 0


def test_before_the_epoch() -> None:
    """Fractions of a second are told apart before 1970 too, where seconds count down."""
    due = datetime(1965, 6, 1, 12, tzinfo=UTC)
    schedule = parse_schedule("0 12 * * *", "UTC")
    assert schedule.next_after(due - TICK) == due
    assert schedule.latest_until(due - TICK) == due - timedelta(days=1)
    assert schedule.latest_until(due + TICK) == due
    assert schedule.count(due - TICK, due) == 1
    assert schedule.count(due, due + TICK) == 0
