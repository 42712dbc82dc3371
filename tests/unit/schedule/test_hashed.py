"""``H``: numbers made from a job's name that never change, whatever else does.

The expected values were fixed once with the definition of CRC-32 (zlib), not with the package: a
job's time must not move because a library was updated.
"""

from __future__ import annotations

import zlib
from datetime import UTC, datetime, timedelta

import pytest

from crond_py.schedule import parse_schedule
from tests.unit.schedule.walker import utc

START = datetime(2024, 12, 31, 23, 59, 59, tzinfo=UTC)
YEAR = timedelta(days=365)


def due(expression: str, key: str, until: timedelta = YEAR) -> list[datetime]:
    """Return what is due in the year 2025, or the beginning of it."""
    schedule = parse_schedule(expression, "UTC", hash_key=key)
    return list(schedule.occurrences(START, START + until))


@pytest.mark.parametrize(
    ("key", "first"),
    [
        ("backup", "2025-01-01T08:46:00Z"),
        ("report", "2025-01-01T07:20:00Z"),
        ("", "2025-01-01T23:56:00Z"),
        ("Sicherung f\u00fcr \u00d6l", "2025-01-01T03:47:00Z"),
    ],
)
def test_the_numbers_are_fixed(key: str, first: str) -> None:
    """A name's minute and hour are these, in this and every later version."""
    assert due("H H * * *", key, timedelta(days=1)) == [utc(first)]


@pytest.mark.parametrize("key", ["backup", "report", "", "x" * 500, "\u00fc", "\ud800"])
def test_one_number_in_range(key: str) -> None:
    """H stands for one number of its field: in each month, and no 7 beside 0 in the week."""
    assert len(due("H H H * *", key)) == 12
    assert len(due("H H * * H", key)) in (52, 53)
    assert len(due("H H H H *", key)) == 1
    assert len(due("H H H * * *", key, timedelta(days=1))) == 1
    assert due("H(10-12) H(3-4) * * *", key, timedelta(days=1))[0].minute in (10, 11, 12)
    assert due("H(10-12) H(3-4) * * *", key, timedelta(days=1))[0].hour in (3, 4)


@pytest.mark.parametrize(
    ("expression", "name", "low", "width", "step"),
    [
        ("H/15 0 * * *", "minute", 0, 60, 15),
        ("H/7 0 * * *", "minute", 0, 60, 7),
        ("H/60 0 * * *", "minute", 0, 60, 60),
        ("H(10-29)/7 0 * * *", "minute", 10, 20, 7),
        ("H/1 0 * * *", "minute", 0, 60, 1),
    ],
)
def test_steps(expression: str, name: str, low: int, width: int, step: int) -> None:
    """H/n begins at a hashed number below n and goes on in steps of n, as far as the range goes."""
    for key in ("backup", "report", "a", "b", "c"):
        begin = low + zlib.crc32(f"{key}\0{name}".encode()) % step
        minutes = [instant.minute for instant in due(expression, key, timedelta(days=1))]
        assert minutes == list(range(begin, low + width, step))


def test_names_are_spread() -> None:
    """A thousand jobs do not come at one time: no minute of the day has more than ten of them."""
    minutes: dict[datetime, int] = {}
    for number in range(1000):
        (instant,) = due("H H * * *", f"job-{number}", timedelta(days=1))
        minutes[instant] = minutes.get(instant, 0) + 1
    assert max(minutes.values()) <= 10
    assert len(minutes) > 600  # of 1440; a fair spread gives about 720


def test_only_the_name_counts() -> None:
    """Zone, other fields and the name's use in lists make no difference to the number."""
    minute = due("H 0 * * *", "backup", timedelta(days=1))[0].minute
    assert [each.minute for each in due("H,H 5 * * *", "backup", timedelta(days=1))] == [minute]
    assert [each.minute for each in due("h */12 * * *", "backup", timedelta(days=1))] == [
        minute
    ] * 2


def test_a_hashed_time_is_a_fixed_time() -> None:
    """P2: H in minute and hour is no star, so clock changes neither lose nor repeat it."""
    key = next(
        name
        for name in map(str, range(1000))
        if due("H H(1-2) * * *", name, timedelta(days=1))[0].hour == 1
    )
    autumn = parse_schedule("H H(1-2) * * *", "America/New_York", hash_key=key)
    assert autumn.count(utc("2024-11-03T00:00-04:00"), utc("2024-11-04T00:00-05:00")) == 1
    spring = parse_schedule("H H(1-2) * * *", "Europe/London", hash_key=key)
    assert spring.count(utc("2024-03-31T00:00Z"), utc("2024-03-31T23:00Z")) == 1


def test_names_with_an_h_are_no_hash() -> None:
    """THU and MAR hold no hash: such an expression is the same for every job."""
    assert parse_schedule("0 0 * MAR THU", "UTC", hash_key="a") is parse_schedule(
        "0 0 * MAR THU", "UTC", hash_key="b"
    )
