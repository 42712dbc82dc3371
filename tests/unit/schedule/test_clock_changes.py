"""What is due when the clocks change, by tables of local times with their offsets.

The expected values follow from the design (section 5) and the zone database alone. Every row
starts at noon of a day before the change and goes on until the last instant that it names.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from crond_py.model import DstFold, DstGap
from crond_py.schedule import parse_schedule
from tests.unit.schedule.walker import utc, walk

Row = tuple[str, str, str, list[str]]


def check(row: Row, *, gap: DstGap = DstGap.RUN, fold: DstFold = DstFold.FIRST) -> None:
    """Compare the instants of a row, one by one, with those of its schedule."""
    zone, expression, start, expected = row
    schedule = parse_schedule(expression, zone, dst_gap=gap, dst_fold=fold)
    found: list[datetime] = []
    instant = utc(start)
    for _ in expected:
        due = schedule.next_after(instant)
        assert due is not None
        found.append(due)
        instant = due
    assert found == [utc(text) for text in expected]


FIXED = [
    # One hour, one way and back. A skipped time comes with the first instant after the gap.
    (
        "America/New_York",
        "30 2 * * *",
        "2024-03-08T12:00-05:00",
        ["2024-03-09T02:30-05:00", "2024-03-10T03:00-04:00", "2024-03-11T02:30-04:00"],
    ),
    (
        "America/New_York",
        "59 1 * * *",
        "2024-03-09T12:00-05:00",
        ["2024-03-10T01:59-05:00", "2024-03-11T01:59-04:00"],
    ),
    (
        "America/New_York",
        "59 2 * * *",
        "2024-03-09T12:00-05:00",
        ["2024-03-10T03:00-04:00", "2024-03-11T02:59-04:00"],
    ),
    (
        "America/New_York",
        "0 2,3 * * *",
        "2024-03-09T12:00-05:00",
        ["2024-03-10T03:00-04:00", "2024-03-11T02:00-04:00", "2024-03-11T03:00-04:00"],
    ),
    (
        "America/New_York",
        "30 1 * * *",
        "2024-11-02T12:00-04:00",
        ["2024-11-03T01:30-04:00", "2024-11-04T01:30-05:00"],
    ),
    (
        "America/New_York",
        "0,30 0-3 * * *",
        "2024-11-02T12:00-04:00",
        [
            "2024-11-03T00:00-04:00",
            "2024-11-03T00:30-04:00",
            "2024-11-03T01:00-04:00",
            "2024-11-03T01:30-04:00",
            "2024-11-03T02:00-05:00",
            "2024-11-03T02:30-05:00",
        ],
    ),
    # The edges of the repeated hour: 02:00 itself is shown once, 01:00 twice.
    (
        "Europe/Berlin",
        "0 3 * * *",
        "2024-10-26T12:00+02:00",
        ["2024-10-27T03:00+01:00", "2024-10-28T03:00+01:00"],
    ),
    (
        "Europe/Berlin",
        "0 2 * * *",
        "2024-10-26T12:00+02:00",
        ["2024-10-27T02:00+02:00", "2024-10-28T02:00+01:00"],
    ),
    # Half an hour.
    (
        "Australia/Lord_Howe",
        "15 2 * * *",
        "2024-10-05T12:00+10:30",
        ["2024-10-06T02:30+11:00", "2024-10-07T02:15+11:00"],
    ),
    (
        "Australia/Lord_Howe",
        "45 1 * * *",
        "2024-04-06T12:00+11:00",
        ["2024-04-07T01:45+11:00", "2024-04-08T01:45+10:30"],
    ),
    # Two hours.
    (
        "Antarctica/Troll",
        "30 1,2 * * *",
        "2024-03-30T12:00+00:00",
        ["2024-03-31T03:00+02:00", "2024-04-01T01:30+02:00", "2024-04-01T02:30+02:00"],
    ),
    (
        "Antarctica/Troll",
        "30 1,2 * * *",
        "2024-10-26T12:00+02:00",
        ["2024-10-27T01:30+02:00", "2024-10-27T02:30+02:00", "2024-10-28T01:30+00:00"],
    ),
    # Midnight is skipped, shown twice, or just misses it.
    (
        "America/Sao_Paulo",
        "0 0 * * *",
        "2018-11-03T12:00-03:00",
        ["2018-11-04T01:00-02:00", "2018-11-05T00:00-02:00"],
    ),
    (
        "America/Sao_Paulo",
        "0 0 * * SUN",
        "2018-02-17T12:00-02:00",
        ["2018-02-18T00:00-03:00", "2018-02-25T00:00-03:00"],
    ),
    (
        "America/Sao_Paulo",
        "30 23 17 2 *",
        "2018-02-17T12:00-02:00",
        ["2018-02-17T23:30-02:00", "2019-02-17T23:30-03:00"],
    ),
    (
        "America/Havana",
        "30 0 * * *",
        "2024-03-09T12:00-05:00",
        ["2024-03-10T01:00-04:00", "2024-03-11T00:30-04:00"],
    ),
    (
        "America/Havana",
        "0 0 * * *",
        "2024-11-02T12:00-04:00",
        ["2024-11-03T00:00-04:00", "2024-11-04T00:00-05:00"],
    ),
    (
        "Africa/Cairo",
        "0 0 * * *",
        "2024-04-25T12:00+02:00",
        ["2024-04-26T01:00+03:00", "2024-04-27T00:00+03:00"],
    ),
    (
        "Asia/Beirut",
        "0 0 1-7 * *",
        "2023-03-29T12:00+02:00",
        ["2023-04-01T00:00+03:00", "2023-04-02T00:00+03:00"],
    ),
    (
        "America/St_Johns",
        "0,1 0 * * *",
        "2010-03-13T12:00-03:30",
        ["2010-03-14T00:00-03:30", "2010-03-14T01:01-02:30", "2010-03-15T00:00-02:30"],
    ),
    (
        "America/St_Johns",
        "1 0 * * *",
        "2010-11-06T12:00-02:30",
        ["2010-11-07T00:01-03:30", "2010-11-08T00:01-03:30"],
    ),
    (
        "America/St_Johns",
        "30 0 * * *",
        "1988-04-02T12:00-03:30",
        ["1988-04-03T02:01-01:30", "1988-04-04T00:30-01:30"],
    ),
    # Ramadan in Morocco, and the Persian new year, which moves between two days.
    (
        "Africa/Casablanca",
        "30 2 * * *",
        "2024-03-09T12:00+01:00",
        ["2024-03-10T02:30+01:00", "2024-03-11T02:30+00:00"],
    ),
    (
        "Africa/Casablanca",
        "30 2 * * *",
        "2024-04-13T12:00+00:00",
        ["2024-04-14T03:00+01:00", "2024-04-15T02:30+01:00"],
    ),
    (
        "Asia/Tehran",
        "15 0 * * *",
        "2021-03-21T12:00+03:30",
        ["2021-03-22T01:00+04:30", "2021-03-23T00:15+04:30"],
    ),
    # For good, and by an odd part of an hour.
    (
        "Asia/Pyongyang",
        "45 23 * * *",
        "2018-05-04T12:00+08:30",
        ["2018-05-05T00:00+09:00", "2018-05-05T23:45+09:00"],
    ),
    (
        "Asia/Pyongyang",
        "45 23 * * *",
        "2015-08-14T12:00+09:00",
        ["2015-08-14T23:45+09:00", "2015-08-15T23:45+08:30"],
    ),
    (
        "Asia/Kathmandu",
        "5 0 1 1 *",
        "1985-12-30T12:00+05:30",
        ["1986-01-01T00:15+05:45", "1987-01-01T00:05+05:45"],
    ),
    (
        "Africa/Monrovia",
        "30 0 7 1 *",
        "1971-12-30T12:00-00:44:30",
        ["1972-01-07T00:44:30+00:00", "1973-01-07T00:30+00:00"],
    ),
    # The other hemisphere, the last change of a zone, and far ahead.
    (
        "Australia/Sydney",
        "30 2 * * *",
        "2024-10-05T12:00+10:00",
        ["2024-10-06T03:00+11:00", "2024-10-07T02:30+11:00"],
    ),
    (
        "Europe/Istanbul",
        "30 3 * * *",
        "2016-03-26T12:00+02:00",
        ["2016-03-27T04:00+03:00", "2016-03-28T03:30+03:00"],
    ),
    (
        "Europe/Berlin",
        "30 2 25 3 *",
        "2096-03-24T12:00+01:00",
        ["2096-03-25T03:00+02:00", "2097-03-25T02:30+01:00"],
    ),
    # Summer time begins on the last Sunday of March for as long as the rule stands.
    (
        "Europe/Berlin",
        "30 2 31 3 *",
        "2499-01-01T12:00+01:00",
        ["2499-03-31T02:30+02:00", "2500-03-31T02:30+02:00", "2501-03-31T02:30+02:00"],
    ),
    # Seconds make no difference to what is fixed.
    (
        "America/New_York",
        "*/20 30 2 * * *",
        "2024-03-09T12:00-05:00",
        ["2024-03-10T03:00-04:00", "2024-03-11T02:30:00-04:00", "2024-03-11T02:30:20-04:00"],
    ),
    (
        "America/New_York",
        "30 59 1 * * *",
        "2024-11-02T12:00-04:00",
        ["2024-11-03T01:59:30-04:00", "2024-11-04T01:59:30-05:00"],
    ),
]


@pytest.mark.parametrize("row", FIXED, ids=lambda row: f"{row[0]} {row[1]} {row[2][:10]}")
def test_fixed_times(row: Row) -> None:
    """P2: a fixed time is due once on each of its days, also where the clocks skip or repeat it."""
    check(row)


WILDCARD = [
    # Every hour is due at every full hour that the clocks show, however often they show it.
    (
        "America/New_York",
        "0 * * * *",
        "2024-03-10T00:30-05:00",
        ["2024-03-10T01:00-05:00", "2024-03-10T03:00-04:00", "2024-03-10T04:00-04:00"],
    ),
    (
        "America/New_York",
        "@hourly",
        "2024-11-03T00:30-04:00",
        ["2024-11-03T01:00-04:00", "2024-11-03T01:00-05:00", "2024-11-03T02:00-05:00"],
    ),
    (
        "America/New_York",
        "*/30 1-2 * * *",
        "2024-03-10T00:30-05:00",
        ["2024-03-10T01:00-05:00", "2024-03-10T01:30-05:00", "2024-03-11T01:00-04:00"],
    ),
    (
        "America/New_York",
        "*/30 1 * * *",
        "2024-11-03T00:30-04:00",
        [
            "2024-11-03T01:00-04:00",
            "2024-11-03T01:30-04:00",
            "2024-11-03T01:00-05:00",
            "2024-11-03T01:30-05:00",
            "2024-11-04T01:00-05:00",
        ],
    ),
    (
        "America/New_York",
        "0 */2 * * *",
        "2024-03-09T23:30-05:00",
        ["2024-03-10T00:00-05:00", "2024-03-10T04:00-04:00", "2024-03-10T06:00-04:00"],
    ),
    # A star that begins a list makes it a wildcard, one further on does not.
    (
        "America/New_York",
        "*,15 1 * * 0",
        "2024-11-03T01:58-04:00",
        ["2024-11-03T01:59-04:00", "2024-11-03T01:00-05:00"],
    ),
    (
        "America/New_York",
        "15,* 1 * * 0",
        "2024-11-03T01:58-04:00",
        ["2024-11-03T01:59-04:00", "2024-11-10T01:00-05:00"],
    ),
    (
        "Australia/Lord_Howe",
        "*/15 * * * *",
        "2024-04-07T01:40+11:00",
        ["2024-04-07T01:45+11:00", "2024-04-07T01:30+10:30", "2024-04-07T01:45+10:30"],
    ),
    (
        "Australia/Lord_Howe",
        "0 * * * *",
        "2024-10-06T01:30+10:30",
        ["2024-10-06T03:00+11:00", "2024-10-06T04:00+11:00"],
    ),
    (
        "Africa/Cairo",
        "30 */12 * * *",
        "2024-04-25T20:00+02:00",
        ["2024-04-26T12:30+03:00", "2024-04-27T00:30+03:00"],
    ),
    (
        "America/New_York",
        "*/30 * * * * *",
        "2024-03-10T01:59:10-05:00",
        ["2024-03-10T01:59:30-05:00", "2024-03-10T03:00:00-04:00", "2024-03-10T03:00:30-04:00"],
    ),
]


@pytest.mark.parametrize("row", WILDCARD, ids=lambda row: f"{row[0]} {row[1]} {row[2][:10]}")
def test_wildcards(row: Row) -> None:
    """A wildcard follows the clocks: nothing where they skip, both passes where not."""
    check(row)


LARGE = [
    # A dropped day: nothing is made up on the day after.
    (
        "Pacific/Apia",
        "0 12 * * *",
        "2011-12-28T13:00-10:00",
        ["2011-12-29T12:00-10:00", "2011-12-31T12:00+14:00", "2012-01-01T12:00+14:00"],
    ),
    (
        "Pacific/Apia",
        "0 0 30 * *",
        "2011-11-20T12:00-10:00",
        ["2011-11-30T00:00-10:00", "2012-01-30T00:00+14:00"],
    ),
    (
        "Pacific/Kwajalein",
        "0 6 21 8 *",
        "1992-08-01T00:00-12:00",
        ["1992-08-21T06:00-12:00", "1994-08-21T06:00+12:00"],
    ),
    # A day that came twice: the second is a new time, and counts.
    (
        "Pacific/Kwajalein",
        "0 12 30 9 *",
        "1969-09-29T12:00+11:00",
        ["1969-09-30T12:00+11:00", "1969-09-30T12:00-12:00", "1970-09-30T12:00-12:00"],
    ),
    # Three hours exactly is large.
    (
        "Antarctica/Casey",
        "30 3 * * *",
        "2009-10-17T12:00+08:00",
        ["2009-10-19T03:30+11:00", "2009-10-20T03:30+11:00"],
    ),
    (
        "Antarctica/Casey",
        "30 0 * * *",
        "2010-03-04T12:00+11:00",
        ["2010-03-05T00:30+11:00", "2010-03-05T00:30+08:00", "2010-03-06T00:30+08:00"],
    ),
]


@pytest.mark.parametrize("row", LARGE, ids=lambda row: f"{row[0]} {row[1]} {row[2][:10]}")
def test_large_changes(row: Row) -> None:
    """Across three hours or more nothing is made up or held back: it is a new time."""
    check(row)
    check(row, gap=DstGap.SKIP, fold=DstFold.BOTH)


SKIPPED = [
    (
        "America/New_York",
        "30 2 * * *",
        "2024-03-09T12:00-05:00",
        ["2024-03-11T02:30-04:00"],
    ),
    (
        "America/New_York",
        "0 2,3 * * *",
        "2024-03-09T12:00-05:00",
        ["2024-03-10T03:00-04:00", "2024-03-11T02:00-04:00"],
    ),
    (
        "Europe/Berlin",
        "@daily",
        "2024-03-30T12:00+01:00",
        ["2024-03-31T00:00+01:00", "2024-04-01T00:00+02:00"],
    ),
]


@pytest.mark.parametrize("row", SKIPPED, ids=lambda row: f"{row[0]} {row[1]}")
def test_gap_skipped_on_request(row: Row) -> None:
    """With dst_gap = "skip" a fixed time that the clocks jump over is not due that day."""
    check(row, gap=DstGap.SKIP)


FOLDS = [
    (DstFold.FIRST, ["2024-11-03T01:30-04:00", "2024-11-04T01:30-05:00"]),
    (DstFold.SECOND, ["2024-11-03T01:30-05:00", "2024-11-04T01:30-05:00"]),
    (
        DstFold.BOTH,
        ["2024-11-03T01:30-04:00", "2024-11-03T01:30-05:00", "2024-11-04T01:30-05:00"],
    ),
]


@pytest.mark.parametrize(("fold", "expected"), FOLDS)
def test_pass_on_request(fold: DstFold, expected: list[str]) -> None:
    """dst_fold says on which pass a fixed time is due that is shown twice."""
    check(("America/New_York", "30 1 * * *", "2024-11-02T12:00-04:00", expected), fold=fold)


@pytest.mark.parametrize("fold", DstFold)
@pytest.mark.parametrize("gap", DstGap)
def test_wildcards_do_not_care(gap: DstGap, fold: DstFold) -> None:
    """The dst_ keys are for fixed times; a wildcard follows the clocks whatever they say."""
    for row in WILDCARD:
        if row[1] != "15,* 1 * * 0":
            check(row, gap=gap, fold=fold)


@pytest.mark.parametrize(
    ("zone", "change"),
    [
        ("America/Santiago", "1973-03-11T03:00Z"),
        ("Asia/Jerusalem", "1991-08-31T21:00Z"),
        ("Australia/Adelaide", "2016-04-02T16:30Z"),
        ("Pacific/Auckland", "2014-04-05T14:00Z"),
        ("Europe/Berlin", "2020-03-29T01:00Z"),
        ("Africa/Cairo", "1996-04-25T22:00Z"),
    ],
)
@pytest.mark.parametrize("fold", DstFold)
def test_near_a_seam(zone: str, change: str, fold: DstFold) -> None:
    """A change within an hour of a multiple of 2**22 s, where zones are looked at in parts."""
    start, end = utc(change) - timedelta(hours=5), utc(change) + timedelta(hours=5)
    for expression in ("0-59 0-23 * * *", "7,31 0-23 * * *"):
        schedule = parse_schedule(expression, zone, dst_fold=fold)
        expected = walk(expression, zone, start, end, fold=fold)
        assert list(schedule.occurrences(start, end)) == expected
        assert schedule.count(start, end) == len(expected)


def test_second_pass_at_midnight() -> None:
    """The second pass of a time before midnight is on the day before the change, as shown."""
    row = (
        "America/Sao_Paulo",
        "30 23 * * 6",
        "2018-02-16T12:00-02:00",
        ["2018-02-17T23:30-03:00", "2018-02-24T23:30-03:00"],
    )
    check(row, fold=DstFold.SECOND)


def test_a_time_that_is_always_skipped() -> None:
    """A time that falls in the gap each year, and is not made up for, ends instead of searching."""
    schedule = parse_schedule("30 2 * 3 SUNL", "Europe/Berlin", dst_gap=DstGap.SKIP)
    assert schedule.next_after(utc("2024-01-01T00:00Z")) is None
    assert schedule.count(utc("2024-01-01T00:00Z"), utc("2044-01-01T00:00Z")) == 0
    # In 1980 summer time began a week later, on April 6th.
    assert schedule.latest_until(utc("2024-01-01T00:00Z")) == utc("1980-03-30T02:30+01:00")


@pytest.mark.parametrize(
    ("expression", "number"),
    [
        ("0-59 2 * * *", 60 * 30 + 1),  # a whole hour falls together on one instant
        ("0-59 2-3 * * *", 120 * 30 + 60),  # which is one of the hour after
        ("* 2 * * *", 60 * 30),
        ("0-59 1 * * *", 60 * 31),
    ],
)
def test_count_in_the_month_of_the_gap(expression: str, number: int) -> None:
    """Counting knows what falls together: March 2024 in New York has 30 hours of 2, 31 of 1."""
    schedule = parse_schedule(expression, "America/New_York")
    start, end = utc("2024-02-29T23:59:59-05:00"), utc("2024-03-31T23:59:59-04:00")
    assert schedule.count(start, end) == number


def test_what_was_found_is_no_answer_to_the_first_pass_of_a_repeated_hour() -> None:
    """An instant in local time is later or earlier by its offset, not by what the clock shows."""
    schedule = parse_schedule("50 0 * * *", "UTC")
    berlin = ZoneInfo("Europe/Berlin")
    second_pass = datetime(2026, 10, 25, 2, 45, fold=1, tzinfo=berlin)  # 01:45 in UTC
    first_pass = datetime(2026, 10, 25, 2, 48, tzinfo=berlin)  # 00:48
    assert schedule.next_after(second_pass) == datetime(2026, 10, 26, 0, 50, tzinfo=UTC)
    assert schedule.next_after(first_pass) == datetime(2026, 10, 25, 0, 50, tzinfo=UTC)


def test_instants_that_are_not_all_in_utc_have_due_ones_beside_them() -> None:
    """In the first and the last hours there are, whatever the offset of who asks."""
    schedule = parse_schedule("* * * * *", "UTC")
    first = datetime.min.replace(tzinfo=timezone(timedelta(hours=5)))
    assert schedule.next_after(first) == datetime.min.replace(tzinfo=UTC)
    last = datetime.max.replace(tzinfo=timezone(-timedelta(hours=5)))
    assert schedule.next_after(last) is None
