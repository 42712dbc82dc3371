"""Schedules moved by a fixed span, the span that names make, and how much room there is for it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from crond_py.schedule import (
    Aligned,
    Interval,
    OneOff,
    Shifted,
    parse_schedule,
    shortest_distance,
    spread,
)
from tests.unit.schedule.walker import utc

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
TICK = timedelta(microseconds=1)
DAILY = parse_schedule("30 2 * * *", "Europe/Berlin")


def test_everything_is_later_by_the_span() -> None:
    """Each question is answered for the instants that are the span later, and for no others."""
    shifted = Shifted(DAILY, 10 * MINUTE)
    first, second = utc("2026-01-05T01:40Z"), utc("2026-01-06T01:40Z")
    assert shifted.next_after(first - TICK) == first
    assert shifted.next_after(first) == second
    assert shifted.latest_until(second) == second
    assert shifted.latest_until(second - TICK) == first
    assert shifted.count(first, second) == shifted.count(second - TICK, second) == 1
    assert shifted.count(first, second - TICK) == 0
    assert list(shifted.occurrences(first - TICK, second)) == [first, second]
    assert list(shifted.occurrences(first, second - TICK)) == []


def test_changes_of_the_clocks_are_explained_for_what_is_moved() -> None:
    """P1: the instant that is shown is the later one; what the clocks did to it is still found."""
    shifted = Shifted(DAILY, 10 * MINUTE)
    (due,) = shifted.occurrences(utc("2026-03-28T12:00Z"), utc("2026-03-29T12:00Z"))
    assert due == utc("2026-03-29T01:10Z")
    assert shifted.explain(due).startswith("moved from 02:30: ")
    assert shifted.explain(due - 10 * MINUTE) == ""
    change = utc("2026-10-25T01:00Z")
    assert [at for at, _ in shifted.dropped(change, change + 10 * MINUTE)] == [change]
    assert list(shifted.dropped(change + 10 * MINUTE, change + DAY)) == []


def test_what_goes_by_no_clock_has_nothing_to_explain() -> None:
    """An interval can be moved as well, and no change of the clocks is of interest to it."""
    shifted = Shifted(Interval(utc("2026-03-29T00:00Z"), HOUR), MINUTE)
    assert shifted.next_after(utc("2026-03-29T00:30Z")) == utc("2026-03-29T01:01Z")
    assert shifted.explain(utc("2026-03-29T01:01Z")) == ""
    assert list(shifted.dropped(utc("2026-01-01T00:00Z"), utc("2027-01-01T00:00Z"))) == []


def test_the_ends_of_time() -> None:
    """What would be moved beyond the year 9999 is not due; nothing fails in the year 1."""
    last = datetime.max.replace(tzinfo=UTC)
    shifted = Shifted(OneOff(last - MINUTE), HOUR)
    assert shifted.next_after(last - DAY) is None
    assert shifted.latest_until(last) is None
    assert list(shifted.occurrences(last - DAY, last)) == []
    first = datetime.min.replace(tzinfo=UTC)
    assert Shifted(DAILY, HOUR).latest_until(first) is None
    assert Shifted(DAILY, HOUR).next_after(first) is not None
    assert Shifted(DAILY, HOUR).count(first, first + MINUTE) == 0


def test_the_span_of_names_is_for_ever() -> None:
    r"""P2: the same on every host, in every version: an upgrade moves no job.

    The numbers are worked out by hand from the definition: the first 64 bits of the SHA-256 of
    the names with a NUL between them, as a fraction of the width, in whole milliseconds.
    printf 'alpha\0backup' | sha256sum | cut -c1-16
    """
    fraction = 0x0A4849F5BE7D1A3F
    assert spread(10 * MINUTE, "alpha", "backup") == timedelta(
        milliseconds=600_000 * fraction // 2**64
    )


def test_spans_are_spread_over_the_width() -> None:
    """Each is in [0, width) and whole milliseconds, and all parts of it get their share."""
    width = 10 * MINUTE
    spans = [spread(width, "host", f"job{number}") for number in range(1000)]
    assert all(timedelta(0) <= each < width for each in spans)
    assert all(each % timedelta(milliseconds=1) == timedelta(0) for each in spans)
    assert len(set(spans)) > 990
    for tenth in range(10):
        share = sum(tenth * MINUTE <= each < (tenth + 1) * MINUTE for each in spans)
        assert 60 < share < 140
    assert spread(width, "other", "job0") != spread(width, "host", "job0")
    assert spread(width, "a", "bc") != spread(width, "ab", "c")
    assert spread(TICK, "host", "job") == spread(timedelta(0), "host", "job") == timedelta(0)


DISTANCES = [
    ("minutely", ["* * * * *"], "Europe/Berlin", MINUTE),
    ("secondly", ["* * * * * *"], "UTC", timedelta(seconds=1)),
    ("uneven", ["*/7 * * * *"], "UTC", 4 * MINUTE),  # from 56 to the hour
    ("daily", ["30 2 * * *"], "UTC", DAY),
    ("daily-short-day", ["0 12 * * *"], "Europe/Berlin", 23 * HOUR),
    ("daily-skipped", ["30 2 * * *"], "Europe/Berlin", 23.5 * HOUR),  # due at 03:00 that day
    ("twice-in-the-fold", ["0 */2 * * *"], "Europe/Berlin", HOUR),  # 02:00 and 02:00 again
    ("half-hour-zone", ["0 */2 * * *"], "Asia/Kolkata", 2 * HOUR),
    ("over-midnight", ["0 0,23 * * *"], "UTC", HOUR),
    ("months", ["0 0 1 * *"], "UTC", 28 * DAY),
    ("years", ["@yearly"], "UTC", 365 * DAY),
    ("leap-days", ["0 0 29 2 *"], "UTC", 1461 * DAY),
    ("one-in-the-sample", ["0 0 29 2 */7"], "UTC", 2922 * DAY),  # on a Sunday: 2032 and 2060
    ("rare-neighbour", ["*/5 * * * *", "3 12 * * 5"], "UTC", 2 * MINUTE),
    ("made-up-neighbour", ["30 2 * * *", "1 3 * * *"], "Europe/Berlin", MINUTE),
    ("three", ["0 1 * * *", "0 13 * * *", "59 12 29 2 *"], "UTC", MINUTE),
]  # fmt: skip


@pytest.mark.parametrize(
    ("expressions", "zone", "distance"),
    [row[1:] for row in DISTANCES],
    ids=[row[0] for row in DISTANCES],
)
def test_the_shortest_distance(expressions: list[str], zone: str, distance: timedelta) -> None:
    """P2: how close occurrences come is seen, also on rare days and where the clocks change."""
    schedule = parse_schedule(expressions, zone)
    parts = [parse_schedule(text, zone) for text in expressions]
    assert shortest_distance(schedule, zone, tuple(parts) if parts[1:] else ()) == distance


def test_the_shortest_distance_of_an_aligned_interval() -> None:
    """Where the clocks go back, its instants are closer together than its period."""
    assert shortest_distance(Aligned("UTC", 6 * HOUR), "UTC") == 6 * HOUR
    assert shortest_distance(Aligned("Europe/Berlin", 6 * HOUR), "Europe/Berlin") == 5 * HOUR
    assert shortest_distance(Aligned("Europe/Berlin", 2 * HOUR), "Europe/Berlin") == HOUR
