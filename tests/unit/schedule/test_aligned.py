"""Intervals that keep to a zone's clocks: which they are, and what changes of the clocks do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from crond_py.errors import ScheduleError
from crond_py.schedule import Aligned
from tests.unit.schedule.walker import utc

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TICK = timedelta(microseconds=1)

# Zone, period, offset, after, and what is due next, as the clocks of the zone show it.
ROWS = [
    ("quarters", "Europe/Berlin", 15 * MINUTE, "0s", "2026-01-05T10:03+01:00",
     ["2026-01-05T10:15+01:00", "2026-01-05T10:30+01:00", "2026-01-05T10:45+01:00",
      "2026-01-05T11:00+01:00"]),
    ("strictly-later", "UTC", 15 * MINUTE, "0s", "2026-01-05T10:15Z", ["2026-01-05T10:30Z"]),
    ("five-past", "UTC", HOUR, "5m", "2026-01-05T10:05Z",
     ["2026-01-05T11:05Z", "2026-01-05T12:05Z"]),
    ("days", "America/New_York", 24 * HOUR, "0s", "2026-01-05T10:00-05:00",
     ["2026-01-06T00:00-05:00", "2026-01-07T00:00-05:00"]),
    ("ninety-seconds", "UTC", 1.5 * MINUTE, "0s", "2026-01-05T10:57:00Z",
     ["2026-01-05T10:58:30Z", "2026-01-05T11:00:00Z", "2026-01-05T11:01:30Z"]),
    ("half-hour-zone", "Asia/Kolkata", HOUR, "0s", "2026-01-05T10:10+05:30",
     ["2026-01-05T11:00+05:30", "2026-01-05T12:00+05:30"]),
    ("quarter-zone", "Asia/Kathmandu", 6 * HOUR, "0s", "2026-01-05T10:10+05:45",
     ["2026-01-05T12:00+05:45", "2026-01-05T18:00+05:45", "2026-01-06T00:00+05:45"]),
    # Forward from 02:00 to 03:00: nothing for readings that do not come.
    ("gap", "Europe/Berlin", 30 * MINUTE, "0s", "2026-03-29T01:00+01:00",
     ["2026-03-29T01:30+01:00", "2026-03-29T03:00+02:00", "2026-03-29T03:30+02:00"]),
    ("gap-of-two-hours", "Europe/Berlin", 2 * HOUR, "0s", "2026-03-28T23:00+01:00",
     ["2026-03-29T00:00+01:00", "2026-03-29T04:00+02:00"]),
    ("gap-of-the-day", "Europe/Berlin", 24 * HOUR, "2h30m", "2026-03-28T03:00+01:00",
     ["2026-03-30T02:30+02:00"]),
    # Back from 03:00 to 02:00: both passes.
    ("fold", "Europe/Berlin", 30 * MINUTE, "0s", "2026-10-25T02:00+02:00",
     ["2026-10-25T02:30+02:00", "2026-10-25T02:00+01:00", "2026-10-25T02:30+01:00",
      "2026-10-25T03:00+01:00"]),
    ("fold-of-two-hours", "Europe/Berlin", 2 * HOUR, "0s", "2026-10-25T01:00+02:00",
     ["2026-10-25T02:00+02:00", "2026-10-25T02:00+01:00", "2026-10-25T04:00+01:00"]),
    # Half an hour: 02:00 to 01:30 in April, 02:00 to 02:30 in October.
    ("half-hour-fold", "Australia/Lord_Howe", HOUR, "45m", "2026-04-05T00:45+11:00",
     ["2026-04-05T01:45+11:00", "2026-04-05T01:45+10:30", "2026-04-05T02:45+10:30"]),
    ("half-hour-gap", "Australia/Lord_Howe", HOUR, "15m", "2026-10-04T00:15+10:30",
     ["2026-10-04T01:15+10:30", "2026-10-04T03:15+11:00"]),
    # Samoa had no December 30th.
    ("dropped-day", "Pacific/Apia", 12 * HOUR, "0s", "2011-12-29T11:00-10:00",
     ["2011-12-29T12:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T12:00+14:00"]),
]  # fmt: skip


def span(text: str) -> timedelta:
    """Return the offset of a row."""
    return {"0s": timedelta(0), "5m": 5 * MINUTE, "15m": 15 * MINUTE, "45m": 45 * MINUTE,
            "2h30m": 2.5 * HOUR}[text]  # fmt: skip


@pytest.mark.parametrize(
    ("zone", "period", "offset", "after", "due"),
    [row[1:] for row in ROWS],
    ids=[row[0] for row in ROWS],
)
def test_rows(zone: str, period: timedelta, offset: str, after: str, due: list[str]) -> None:
    """P1, P2: due where the zone's clocks show it, each showing once; forwards, backwards, counted.

    The rows are made by hand from the zones' rules.
    """
    schedule = Aligned(zone, period, span(offset))
    start, instants = utc(after), [utc(text) for text in due]
    found = []
    instant: datetime | None = start
    for _ in instants:
        assert instant is not None
        instant = schedule.next_after(instant)
        found.append(instant)
    assert found == instants
    assert list(schedule.occurrences(start, instants[-1])) == instants
    assert schedule.count(start, instants[-1]) == len(instants)
    assert schedule.count(start, instants[-1] - TICK) == len(instants) - 1
    if instants[1:]:
        assert schedule.latest_until(instants[-1] - TICK) == instants[-2]
    assert schedule.latest_until(instants[-1]) == instants[-1]


def test_fractions_of_a_second() -> None:
    """An offset may have a fraction, which is part of every due instant."""
    schedule = Aligned("UTC", MINUTE, timedelta(seconds=10, milliseconds=250))
    due = datetime(2026, 1, 1, 12, 0, 10, 250_000, tzinfo=UTC)
    assert schedule.next_after(due - TICK) == due
    assert schedule.next_after(due) == due + MINUTE
    assert schedule.latest_until(due) == due
    assert schedule.latest_until(due - TICK) == due - MINUTE
    assert schedule.count(due - TICK, due) == schedule.count(due, due + MINUTE) == 1
    assert schedule.count(due - MINUTE, due - TICK) == 0
    assert list(schedule.occurrences(due - MINUTE, due)) == [due]


def test_counting_walks_no_occurrences() -> None:
    """Every second of ten years is counted, though nobody would list them: 3652 days, no leap."""
    schedule = Aligned("Europe/Berlin", timedelta(seconds=1))
    start = datetime(2021, 1, 1, tzinfo=UTC)
    assert schedule.count(start, datetime(2031, 1, 1, tzinfo=UTC)) == 3652 * 86400
    assert schedule.count(start, start - MINUTE) == 0


def test_the_ends_of_time() -> None:
    """There is nothing before the year 1 and nothing after 9999, and no search without end."""
    schedule = Aligned("UTC", 24 * HOUR, HOUR)
    first = datetime(1, 1, 1, 1, tzinfo=UTC)
    last = datetime(9999, 12, 31, 1, tzinfo=UTC)
    assert schedule.next_after(datetime.min.replace(tzinfo=UTC)) == first
    assert schedule.latest_until(first) == first
    assert schedule.latest_until(first - TICK) is None
    assert schedule.next_after(last - TICK) == last
    assert schedule.next_after(last) is None
    assert schedule.latest_until(datetime.max.replace(tzinfo=UTC)) == last


@pytest.mark.parametrize(
    ("period", "offset"),
    [
        (timedelta(0), timedelta(0)),
        (timedelta(seconds=-60), timedelta(0)),
        (timedelta(seconds=7), timedelta(0)),  # 86400 = 7 * 12342 + 6
        (timedelta(milliseconds=1500), timedelta(0)),
        (timedelta(days=2), timedelta(0)),
        (MINUTE, MINUTE),
        (MINUTE, -TICK),
    ],
)
def test_what_makes_no_grid_is_refused(period: timedelta, offset: timedelta) -> None:
    """P7: a period that leaves a remainder of the day would have a seam at midnight."""
    with pytest.raises(ScheduleError) as caught:
        Aligned("UTC", period, offset)
    assert caught.value.field == "duration"


def test_an_unknown_zone_is_refused() -> None:
    """P7: with the name that was meant, as everywhere."""
    with pytest.raises(ScheduleError, match="Europe/Berlin"):
        Aligned("Europe/Berln", HOUR)


def test_what_the_clocks_left_out_is_told() -> None:
    """A day without its 02:30 is explained; every hour just follows them."""
    start, end = utc("2026-03-01T00:00Z"), utc("2026-11-30T00:00Z")
    daily = Aligned("Europe/Berlin", 24 * HOUR, 2.5 * HOUR)
    assert list(daily.dropped(start, end)) == [
        (
            utc("2026-03-29T01:00Z"),
            "02:30 did not come: the clocks went forward from 02:00 to 03:00 (CET to CEST)",
        )
    ]
    assert list(Aligned("Europe/Berlin", HOUR, 15 * MINUTE).dropped(start, end)) == []
    assert daily.explain(utc("2026-03-30T00:30Z")) == ""


def test_equal_ones_are_equal() -> None:
    """It is a value: what it was made from is all that counts, and it can be a key."""
    assert Aligned("UTC", HOUR) == Aligned("UTC", HOUR, timedelta(0))
    assert Aligned("UTC", HOUR) != Aligned("UTC", HOUR, MINUTE)
    assert len({Aligned("UTC", HOUR), Aligned("UTC", HOUR), Aligned("Asia/Tokyo", HOUR)}) == 2
    assert "zone='UTC'" in repr(Aligned("UTC", HOUR))
