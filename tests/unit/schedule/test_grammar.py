"""What an expression means and what is refused: crontab(5) as Debian has it, and what is beyond.

Where two spellings must mean the same, both are given: neither is the package's own output.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice

import pytest

from crond_py.errors import ScheduleError
from crond_py.schedule import Interval, parse_schedule

START = datetime(2024, 2, 26, 22, 30, tzinfo=UTC)  # a Monday, just before a leap day
FAR = START + timedelta(days=3653)


def first(expression: str, number: int = 60) -> list[datetime]:
    """Return the first instants of an expression after START."""
    return list(islice(parse_schedule(expression, "UTC").occurrences(START, FAR), number))


SAME = [
    # (one spelling, another)
    ("*/15 * * * *", "0,15,30,45 * * * *"),
    ("*/90 * * * *", "0 * * * *"),
    ("5/15 * * * *", "5,20,35,50 * * * *"),
    ("59/1 * * * *", "59 * * * *"),
    ("10-20/5 * * * *", "10,15,20 * * * *"),
    ("10-19/5 * * * *", "10,15 * * * *"),
    ("7-7 * * * *", "7 * * * *"),
    ("7-7/3 * * * *", "7 * * * *"),
    ("0-59 * * * *", "* * * * *"),
    ("*/1 * * * *", "* * * * *"),
    ("1,1,1 * * * *", "1 * * * *"),
    ("1-5,3-8 3 * * *", "1-8 3 * * *"),
    ("*/20,*/30 * * * *", "0,20,30,40 * * * *"),
    ("5,* * * * *", "* * * * *"),
    ("05 004 * * *", "5 4 * * *"),
    ("0 */23 * * *", "0 0,23 * * *"),
    ("0 23/5 * * *", "0 23 * * *"),
    ("0 0 */10 * *", "0 0 1,11,21,31 * *"),
    ("0 0 1-1 * *", "0 0 1 * *"),
    ("0 0 20/5 * *", "0 0 20,25,30 * *"),
    ("0 0 1 */5 *", "0 0 1 1,6,11 *"),
    ("0 0 1 */100 *", "0 0 1 1 *"),
    ("0 0 1 jan,Jul,DEC *", "0 0 1 1,7,12 *"),
    ("0 0 1 MAR-may *", "0 0 1 3-5 *"),
    ("0 0 1 JAN-DEC/4 *", "0 0 1 1,5,9 *"),
    ("0 0 1 9/2 *", "0 0 1 9,11 *"),
    ("0 0 1 10-DEC *", "0 0 1 10,11,12 *"),
    ("0 0 * * 7", "0 0 * * 0"),
    ("0 0 * * Sun", "0 0 * * 0"),
    ("0 0 * * 0-7", "0 0 * * *"),
    ("0 0 * * 1-7", "0 0 * * *"),
    ("0 0 * * 7-7", "0 0 * * SUN"),
    ("0 0 * * 6-7", "0 0 * * SAT,SUN"),
    ("0 0 * * 5-7", "0 0 * * 5,6,0"),
    ("0 0 * * */7", "0 0 * * 0"),
    ("0 0 * * */3", "0 0 * * 0,3,6"),
    ("0 0 * * 5/2", "0 0 * * 5,7"),
    ("0 0 * * 1/2", "0 0 * * 1,3,5,7"),
    ("0 0 * * 4-7/3", "0 0 * * THU,SUN"),
    ("0 0 * * mon-FRI/2", "0 0 * * 1,3,5"),
    ("0 0 * * SUN-SAT", "0 0 * * *"),
    ("0 0 * * 1-FRI", "0 0 * * 1-5"),
    ("0 0 * * SUN#2", "0 0 * * 7#2"),
    ("0 0 * * 0#2", "0 0 * * 7#2"),
    ("0 0 * * 5L", "0 0 * * L5"),
    ("0 0 * * 5L", "0 0 * * FRIL"),
    ("0 0 * * 7L", "0 0 * * 0L"),
    ("0 0 * * 5l", "0 0 * * lFri"),
    ("0 0 l * *", "0 0 L * *"),
    ("0 0 31,L * *", "0 0 L * *"),
    ("0 0 * * MON,5#3", "0 0 * * 1,FRI#3"),
    ("0 0 1-7 * */7", "0 0 * * 0#1"),  # a star in one of the fields: both must match
    ("\t0\t 12 *\t*  * ", "0 12 * * *"),
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
    (" @Hourly\t", "0 * * * *"),
    ("@DAILY", "0 0 * * *"),
    ("0 30 2 * * *", "30 2 * * *"),
    ("0-0 */5 * * * *", "*/5 * * * *"),
]


@pytest.mark.parametrize(("one", "other"), SAME, ids=str)
def test_two_spellings(one: str, other: str) -> None:
    """Both spellings are due at the same instants."""
    assert first(one) == first(other)
    assert first(one)


@pytest.mark.parametrize(
    ("expression", "days"),
    [
        # Neither begins with a star: either day counts. After February 26th 2024, in March.
        ("0 0 13 * 5", [1, 8, 13, 15, 22, 29]),
        ("0 0 13 * 5#2", [8, 13]),
        ("0 0 L * 5L", [29, 31]),
        ("0 0 1-31/10 * 5", [1, 8, 11, 15, 21, 22, 29, 31]),
        ("0 0 13,* * 5", list(range(1, 32))),  # a star further on restricts like a number
        ("0 0 13 * 5,*", list(range(1, 32))),
        ("0 0 13 * 0-7", list(range(1, 32))),
        # One begins with a star, so it does not restrict by itself: both must match.
        ("0 0 13 * *", [13]),
        ("0 0 * * 5", [1, 8, 15, 22, 29]),
        ("0 0 */2 * 5", [1, 15, 29]),
        ("0 0 13-20 * */5", [15, 17]),
        ("0 0 *,13 * 5", [1, 8, 15, 22, 29]),
        ("0 0 13 * *,5", [13]),
        ("0 0 */100 * 5", [1]),
        ("0 0 1-7 * */5", [1, 3]),  # Fridays and Sundays
    ],
)
def test_days_in_march(expression: str, days: list[int]) -> None:
    """Two day fields are joined by or, unless one of them begins with a star (crontab(5))."""
    schedule = parse_schedule(expression, "UTC")
    start, end = datetime(2024, 2, 29, 12, tzinfo=UTC), datetime(2024, 3, 31, 12, tzinfo=UTC)
    assert [due.day for due in schedule.occurrences(start, end)] == days


@pytest.mark.parametrize(
    ("expression", "field"),
    [
        # numbers out of range
        ("60 * * * *", "minute"),
        ("* 24 * * *", "hour"),
        ("* * 0 * *", "day of month"),
        ("* * 32 * *", "day of month"),
        ("* * * 0 *", "month"),
        ("* * * 13 *", "month"),
        ("* * * * 8", "day of week"),
        ("60 * * * * *", "second"),
        ("0 60 * * * *", "minute"),
        ("0 0 24 * * *", "hour"),
        ("0 0 0 32 * *", "day of month"),
        ("0 0 0 1 13 *", "month"),
        ("0 0 0 1 1 8", "day of week"),
        ("50-60 * * * *", "minute"),
        ("* 5/24,24 * * *", "hour"),
        ("60/5 * * * *", "minute"),
        ("99999999999999999999 * * * *", "minute"),
        # ranges that run backwards
        ("30-10 * * * *", "minute"),
        ("* 22-2 * * *", "hour"),
        ("* * 31-1 * *", "day of month"),
        ("* * * NOV-FEB *", "month"),
        ("* * * * 5-0", "day of week"),
        ("* * * * FRI-MON", "day of week"),
        ("* * * * SAT-SUN", "day of week"),
        ("* * * * 7-1", "day of week"),
        ("30-10/5 * * * *", "minute"),
        # steps
        ("*/0 * * * *", "minute"),
        ("0-30/0 * * * *", "minute"),
        ("5/0 * * * *", "minute"),
        ("*/-5 * * * *", "minute"),
        ("*/ * * * *", "minute"),
        ("/5 * * * *", "minute"),
        ("*/5/2 * * * *", "minute"),
        ("*/5-10 * * * *", "minute"),
        ("*/a * * * *", "minute"),
        ("*/1.5 * * * *", "minute"),
        # junk
        ("** * * * *", "minute"),
        ("*5 * * * *", "minute"),
        ("5* * * * *", "minute"),
        ("*-5 * * * *", "minute"),
        ("5-* * * * *", "minute"),
        ("1-5-9 * * * *", "minute"),
        ("1--5 * * * *", "minute"),
        ("-5 * * * *", "minute"),
        ("5- * * * *", "minute"),
        ("- * * * *", "minute"),
        ("+5 * * * *", "minute"),
        ("5.0 * * * *", "minute"),
        ("1e1 * * * *", "minute"),
        ("0x5 * * * *", "minute"),
        ("1_0 * * * *", "minute"),
        ("5x * * * *", "minute"),
        ("x * * * *", "minute"),
        ("1,,2 * * * *", "minute"),
        (",1 * * * *", "minute"),
        ("1, * * * *", "minute"),
        (", * * * *", "minute"),
        ("1;2 * * * *", "minute"),
        ("(5) * * * *", "minute"),
        ("0~30 * * * *", "minute"),
        ("~ * * * *", "minute"),
        ("%5 * * * *", "minute"),
        ("'0 0 * * *'", "minute"),
        # names where they are not, or are none
        ("MON * * * *", "minute"),
        ("0 0 MON * *", "day of month"),
        ("0 0 JAN * *", "day of month"),
        ("0 0 1 MON *", "month"),
        ("0 0 * * JAN", "day of week"),
        ("0 0 1 JANUARY *", "month"),
        ("0 0 1 janu *", "month"),
        ("0 0 * * MONDAY", "day of week"),
        ("0 0 * * MO", "day of week"),
        ("0 0 * * XYZ", "day of week"),
        ("0 0 * * MON-XYZ", "day of week"),
        # letters of other crons
        ("0 0 15W * *", "day of month"),
        ("0 0 LW * *", "day of month"),
        ("0 0 W * *", "day of month"),
        ("0 0 L-3 * *", "day of month"),
        ("0 0 L/2 * *", "day of month"),
        ("0 0 1-L * *", "day of month"),
        ("0 0 5L * *", "day of month"),
        ("0 0 ? * *", "day of month"),
        ("0 0 * * ?", "day of week"),
        ("L * * * *", "minute"),
        ("0 0 1 L *", "month"),
        ("0 0 * * L", "day of week"),
        ("0 0 * * LL", "day of week"),
        ("0 0 * * 5LL", "day of week"),
        ("0 0 * * 8L", "day of week"),
        ("0 0 * * 1-5L", "day of week"),
        ("0 0 * * JANL", "day of week"),
        ("0 0 * * 5#0", "day of week"),
        ("0 0 * * 5#6", "day of week"),
        ("0 0 * * 5#", "day of week"),
        ("0 0 * * #3", "day of week"),
        ("0 0 * * 5#-1", "day of week"),
        ("0 0 * * 5#L", "day of week"),
        ("0 0 * * 8#1", "day of week"),
        ("0 0 * * 1-5#2", "day of week"),
        ("0 0 * * 5#1-2", "day of week"),
        ("0 0 * * 5#1/2", "day of week"),
        ("0 0 * * *#1", "day of week"),
        ("0 0 1#2 * *", "day of month"),
        # the hash letter
        ("H(0-60) * * * *", "minute"),
        ("H(30-10) * * * *", "minute"),
        ("H(5-5) * * * *", "minute"),
        ("H(5) * * * *", "minute"),
        ("H() * * * *", "minute"),
        ("H/0 * * * *", "minute"),
        ("H/61 * * * *", "minute"),
        ("H-5 * * * *", "minute"),
        ("HH * * * *", "minute"),
        ("R * * * *", "minute"),
        # how many fields
        ("", "expression"),
        ("   \t", "expression"),
        ("*", "expression"),
        ("* * * *", "expression"),
        ("* * * * * * *", "expression"),
        ("0 0 12 * * * 2026", "expression"),
        ("0 0 * * * # nightly", "expression"),
        ("0 0 * * * root /bin/true", "expression"),
        ("0 0 * * * /bin/true", "day of week"),
        ("30 2 * * * backup", "day of week"),
        ("0 0 * * * #nightly", "day of week"),
        ("1, 2 * * * *", "second"),
        ("CRON_TZ=UTC 0 0 * * *", "second"),
        # the names with an at-sign
        ("@", "expression"),
        ("@ daily", "expression"),
        ("@fortnightly", "expression"),
        ("@dailyy", "expression"),
        ("@daily /bin/true", "expression"),
        ("@daily@hourly", "expression"),
        ("0 0 * * @daily", "day of week"),
        ("@reboot", "expression"),
        ("@REBOOT", "expression"),
        ("@every", "duration"),
        ("@every 5", "duration"),
        ("@every 0s", "duration"),
        ("@every -5s", "duration"),
        ("@every90s", "expression"),
        # what only looks right: other digits, letters, blanks and dashes
        ("\u0663 * * * *", "minute"),
        ("\u00b2 * * * *", "minute"),
        ("1\u00b2 * * * *", "minute"),
        ("\uff15 * * * *", "minute"),
        ("0 0 * * fr\u0131", "day of week"),
        ("0 0 * * \u017fun", "day of week"),
        ("0 0 * * \uff2d\uff2f\uff2e", "day of week"),
        ("\u2217 * * * *", "minute"),
        ("1\u20135 * * * *", "minute"),
        ("0 0 1\u22125 * *", "day of month"),
        ("0\u00a00 * * *", "expression"),
        ("0\u20030 * * *", "expression"),
        ("0 0 * * *\u3000", "day of week"),
        ("\ufeff0 0 * * *", "minute"),
        ("0 0 * * *\u200b", "day of week"),
        ("0 0 * * 5\U0001d7ce", "day of week"),
        ("0 0 * * \ud800", "day of week"),
        # control characters, blanks that are not cron's among them
        ("0 0 * * *\n", "day of week"),
        ("0 0\n* * *", "expression"),
        ("0 0 * * *\r\n", "day of week"),
        ("0\x0b0 * * *", "expression"),
        ("0\x0c0 * * *", "expression"),
        ("0 0 * * *\0", "day of week"),
        ("\x1b[2J 0 * * *", "minute"),
        ("0 0 * * *\x7f", "day of week"),
        # very long
        ("1," * 5000 + "1 * * * *", "expression"),
        ("*" * 100_000, "expression"),
        ("0 " * 50_000, "expression"),
    ],
)
def test_refused_with_the_field(expression: str, field: str) -> None:
    """P7: what makes no sense is refused, naming the field and what may stand there."""
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(expression, "UTC", hash_key="job")
    error = caught.value
    assert error.field == field
    assert error.allowed
    assert len(str(error)) < 300
    assert str(error).isascii()
    assert str(error).isprintable()
    assert field in ("expression", "duration") or field in str(error)


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("61 * * * *", ["minute", "'61'", "0 to 59"]),
        ("* * * * FRI-MON", ["backwards", "5-7,1"]),
        ("* 22-2 * * *", ["22-23,0-2"]),
        ("* * * * 5-0", ["5-7 "]),
        ("0 0 15W * *", ["W", "not supported"]),
        ("0 0 ? * *", ["write *"]),
        ("0 0 * * L", ["5L"]),
        ("0~30 * * * *", ["H"]),
        ("0 0 * * MONDAY", ["three letters", "SUN"]),
        ("0 0 * * * /bin/true", ["command"]),
        ("* * * * * * *", ["7 fields", "seconds first"]),
        ("@dialy", ["@daily"]),
        ("@reboot", ['startup = "boot"']),
        ("0\u00a00 * * *", ["U+00A0"]),
        ("0 0 30 2 *", ["never fire"]),
        ("0 0 */31 * MON#2", ["never fire", "days of week"]),
    ],
)
def test_the_way_out_is_named(expression: str, words: list[str]) -> None:
    """A refusal says what is wrong and what to write in its place."""
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(expression, "UTC")
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("x * * * *", "0-59"),
        ("* x * * *", "0-23"),
        ("* * x * *", "1-31"),
        ("* * * x *", "1-12 or JAN-DEC"),
        ("* * * * x", "0-7 or SUN-SAT"),
        ("x * * * * *", "0-59"),
    ],
)
def test_what_is_allowed(expression: str, allowed: str) -> None:
    """The error carries what may stand in its field."""
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(expression, "UTC")
    assert caught.value.allowed.startswith(allowed)


@pytest.mark.parametrize("expressions", [[], (), ["0 0 * * *", 5], [None], [["0 0 * * *"]], b"0 0"])
def test_not_expressions_at_all(expressions: object) -> None:
    """P7: no expression, or something that is no text, is refused like a wrong one."""
    with pytest.raises(ScheduleError):
        parse_schedule(expressions, "UTC")  # type: ignore[arg-type]  # that is the point


def test_a_fault_in_one_of_several() -> None:
    """P7: one expression that makes no sense refuses them all."""
    with pytest.raises(ScheduleError, match="hour '25'"):
        parse_schedule(["0 0 * * *", "0 25 * * *"], "UTC")


def test_every_is_an_interval_from_the_epoch() -> None:
    """@every is an interval that is counted from 1970-01-01T00:00Z, in any case and spacing."""
    schedule = parse_schedule(" @EVERY\t1m 30s ", "Europe/Berlin")
    assert schedule == Interval(datetime(1970, 1, 1, tzinfo=UTC), timedelta(seconds=90))
    assert schedule.next_after(datetime(1970, 1, 1, tzinfo=UTC)) == datetime(
        1970, 1, 1, 0, 1, 30, tzinfo=UTC
    )


def test_every_is_alone() -> None:
    """@every cannot be joined with cron expressions; the message says so."""
    with pytest.raises(ScheduleError, match="one of several"):
        parse_schedule(["0 0 * * *", "@every 90s"], "UTC")
