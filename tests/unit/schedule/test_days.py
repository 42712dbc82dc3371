"""Days of the calendar: leap years, last and n-th days, and days that never come.

Expected dates are from the Gregorian calendar, most of them by Python's ``calendar`` module.
"""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from itertools import islice

import pytest

from crond_py.errors import ScheduleError
from crond_py.schedule import parse_schedule

NEVER = datetime(9999, 12, 31, tzinfo=UTC)


def days(expression: str, start: str, number: int) -> list[str]:
    """Return the days on which an expression is due after the beginning of ``start``, in UTC."""
    schedule = parse_schedule(expression, "UTC")
    begin = datetime.fromisoformat(start).replace(tzinfo=UTC)
    return [due.date().isoformat() for due in islice(schedule.occurrences(begin, NEVER), number)]


@pytest.mark.parametrize(
    ("expression", "start", "expected"),
    [
        ("0 0 29 2 *", "1896-03-01", ["1904-02-29", "1908-02-29"]),  # 1900 was none
        ("0 0 29 2 *", "1999-03-01", ["2000-02-29", "2004-02-29"]),
        ("0 0 29 2 *", "2096-02-29", ["2104-02-29", "2108-02-29"]),  # nor will 2100 be
        ("0 0 29 2 *", "2396-02-28", ["2396-02-29", "2400-02-29"]),
        ("0 0 29 FEB */6", "2024-03-01", ["2032-02-29", "2048-02-29"]),  # Sundays and Saturdays
        ("0 0 29 2 MON", "2024-02-25", ["2024-02-26", "2024-02-29", "2025-02-03"]),
        ("0 0 L 2 *", "2023-03-01", ["2024-02-29", "2025-02-28"]),
        ("0 0 29,L 2 *", "2023-01-01", ["2023-02-28", "2024-02-29"]),
        ("0 0 31 * *", "2025-01-31", ["2025-03-31", "2025-05-31", "2025-07-31", "2025-08-31"]),
        ("0 0 30 * *", "2025-01-30", ["2025-03-30", "2025-04-30"]),
        ("0 0 L * *", "2025-01-30", ["2025-01-31", "2025-02-28", "2025-03-31", "2025-04-30"]),
        ("0 0 L 4,12 *", "2025-12-31", ["2026-04-30", "2026-12-31"]),
        ("0 0 * * 5L", "2025-01-15", ["2025-01-31", "2025-02-28", "2025-03-28"]),
        ("0 0 * 2 4L", "2024-01-15", ["2024-02-29", "2025-02-27"]),
        ("0 0 * * 5#1", "2025-08-01", ["2025-09-05", "2025-10-03"]),
        ("0 0 * * 5#5", "2025-01-15", ["2025-01-31", "2025-05-30", "2025-08-29"]),
        ("0 0 * 2 4#5", "2024-03-01", ["2052-02-29", "2080-02-29"]),
        ("0 0 * 2 MON#5", "2024-03-01", ["2044-02-29", "2072-02-29", "2112-02-29"]),
        ("0 0 29 2 */100", "2080-01-01", ["2088-02-29", "2128-02-29"]),
        ("0 0 */100 * 1", "2025-01-02", ["2025-09-01", "2025-12-01", "2026-06-01"]),
        ("0 0 13 * */5", "2025-01-01", ["2025-04-13", "2025-06-13", "2025-07-13"]),
        ("0 0 1 1 *", "9998-01-01", ["9999-01-01"]),
        ("0 0 31 12 *", "9998-01-01", ["9998-12-31", "9999-12-31"]),
        ("0 0 1 1 *", "0001-01-01", ["0002-01-01", "0003-01-01"]),
    ],
)
def test_days_to_come(expression: str, start: str, expected: list[str]) -> None:
    """The days are those of the calendar, across leap years, centuries and its ends."""
    assert days(expression, start, len(expected)) == expected


def test_last_and_nth_weekdays_of_forty_years() -> None:
    """Each weekday's last and n-th coming in each month is that of the calendar."""
    start, end = datetime(2019, 12, 31, tzinfo=UTC), datetime(2059, 12, 31, tzinfo=UTC)
    months = [(year, month) for year in range(2020, 2060) for month in range(1, 13)]
    for weekday, name in enumerate(["MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"]):
        columns = [
            [week[weekday] for week in calendar.monthcalendar(*month) if week[weekday]]
            for month in months
        ]
        found = parse_schedule(f"0 0 * * {name}L", "UTC").occurrences(start, end)
        assert [due.day for due in found] == [column[-1] for column in columns]
        for n in range(1, 6):
            found = parse_schedule(f"0 0 * * {name}#{n}", "UTC").occurrences(start, end)
            assert [due.day for due in found] == [
                column[n - 1] for column in columns if len(column) >= n
            ]


IMPOSSIBLE = [
    "0 0 30 2 *",
    "0 0 31 2 *",
    "0 0 30,31 2 *",
    "0 0 30-31 FEB *",
    "0 0 31 4 *",
    "0 0 31 JUN *",
    "0 0 31 2,4,6,9,11 *",
    "0 0 31/5 11 *",
    "0 0 30/1 2 *",
    "0 0 0 30 2 *",
    "* * * 31 9 *",
    "0 0 30 2 */2",  # a star in the other day field: both must match
    "0 0 30 2 *,MON",
    "0 0 */31 * MON#2",  # the 1st is never a second Monday
    "0 0 */100 * 5#3",
    "0 0 */100 * 5L",
    "H H 30 2 *",
]


@pytest.mark.parametrize("expression", IMPOSSIBLE)
def test_days_that_never_come(expression: str) -> None:
    """P7: an expression that can never fire is refused, with the field at fault."""
    with pytest.raises(ScheduleError, match="can never fire") as caught:
        parse_schedule(expression, "UTC", hash_key="job")
    assert caught.value.field == "day of month"


@pytest.mark.parametrize(
    "expression",
    [
        "0 0 30 2 MON",  # or a Monday
        "0 0 30,31 2 0-6",
        "0 0 31 4 MON#5",
        "0 0 29 2 *",
        "0 0 29 2 */100",
        "0 0 */31 * MON#1",
        "0 0 L 2 *",
        "0 0 30,L 2 *",
        "0 0 31 1-12 *",
        "0 0 */15 2 5#1",
        "0 0 * 2 SUN#5",
    ],
)
def test_rare_days_are_taken(expression: str) -> None:
    """What comes at all, be it once in forty years, is no fault."""
    due = parse_schedule(expression, "UTC").next_after(datetime(2025, 1, 1, tzinfo=UTC))
    assert due is not None
    assert due < datetime(2066, 1, 1, tzinfo=UTC)


def test_what_can_come_is_what_comes_in_a_cycle() -> None:
    """For every date, month and rule for Mondays, 400 years of the calendar say what can come."""
    seen = {
        (day.day, day.month, (day.day - 1) // 7 + 1)
        for day in (date(2000, 1, 3) + timedelta(weeks=n) for n in range(400 * 53))
        if day.year < 2400
    }
    for month in range(1, 13):
        for day in range(1, 32):
            for week in range(1, 6):
                # A star in the date field, so that both fields must match.
                expression = f"0 0 */100,{day} {month} MON#{week}"
                possible = {(day, month, week), (1, month, week)} & seen
                try:
                    parse_schedule(expression, "UTC")
                except ScheduleError:
                    assert not possible, expression
                else:
                    assert possible, expression


def test_the_ends_of_time() -> None:
    """P7: next to the years 1 and 9999 there may be nothing more, and that is no error."""
    for zone in ("UTC", "Pacific/Kiritimati", "Pacific/Pago_Pago"):
        schedule = parse_schedule("0 0 * * *", zone)
        first, last = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
        assert schedule.next_after(last) is None
        newest, oldest = schedule.latest_until(last), schedule.next_after(first)
        assert newest is not None
        assert oldest is not None
        assert last - newest <= timedelta(days=2)
        assert oldest - first <= timedelta(days=2)
        assert schedule.count(first, oldest) == schedule.count(newest - timedelta(1), last) == 1
    # Local days that begin or end beyond what a datetime in UTC can hold.
    assert parse_schedule("0 0 1 1 *", "Asia/Tokyo").latest_until(first) is None
    assert (
        parse_schedule("0 23 31 12 *", "Pacific/Pago_Pago").next_after(
            datetime(9999, 12, 31, tzinfo=UTC)
        )
        is None
    )
