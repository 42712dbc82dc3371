"""The table of cases: expressions with their first ten due instants, and some to be refused."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from crond_py.errors import ScheduleError
from crond_py.schedule import parse_schedule
from tests.unit.schedule.walker import utc, walk

Row = dict[str, Any]

ROWS: list[Row] = [
    json.loads(line)
    for line in (Path(__file__).parent / "schedules.jsonl").read_text(encoding="utf-8").splitlines()
]
GOOD = [row for row in ROWS if row["expect"] is not None]
BAD = [row for row in ROWS if row["expect"] is None]


def name(row: Row) -> str:
    """Return a test's name: what the row is called and what it is about."""
    return f"{row['id']}-{row['source']}"


def due(row: Row) -> list[datetime]:
    """Return the instants that a row expects."""
    return [utc(text) for text in row["expect"]]


def test_the_table_is_whole() -> None:
    """No row got lost, and none is there twice."""
    assert len({row["id"] for row in ROWS}) == len(ROWS) == 152


@pytest.mark.parametrize("row", GOOD, ids=name)
def test_due_instants(row: Row) -> None:
    """The first ten instants after the start are those of the table, asked for one at a time."""
    schedule = parse_schedule(row["expr"], row["tz"])
    found, instant = [], utc(row["start"])
    for _ in row["expect"]:
        following = schedule.next_after(instant)
        assert following is not None
        found.append(following)
        instant = following
    assert found == due(row)


@pytest.mark.parametrize("row", GOOD, ids=name)
def test_same_instants_from_the_other_methods(row: Row) -> None:
    """Listing, counting and looking back agree with the table."""
    schedule = parse_schedule(row["expr"], row["tz"])
    start, expected = utc(row["start"]), due(row)
    assert list(schedule.occurrences(start, expected[-1])) == expected
    assert schedule.count(start, expected[-1]) == len(expected)
    for instant in expected:
        assert schedule.latest_until(instant) == instant
    for early, late in pairwise(expected):
        assert schedule.latest_until(late - timedelta(microseconds=1)) == early


@pytest.mark.parametrize("row", BAD, ids=name)
def test_refused(row: Row) -> None:
    """What makes no sense is refused, with a reason that can be shown on a terminal."""
    with pytest.raises(ScheduleError) as caught:
        parse_schedule(row["expr"], row["tz"])
    assert str(caught.value).isascii()
    assert str(caught.value).isprintable()
    assert caught.value.field == "timezone" or row["kind"] != "bad-zone"


@pytest.mark.parametrize(
    "row",
    [
        row
        for row in GOOD
        if not row["expr"].startswith("@") and due(row)[-1] - due(row)[0] < timedelta(days=40)
    ],
    ids=name,
)
def test_the_walker_agrees_with_the_table(row: Row) -> None:
    """The oracle of the other tests gives what the table expects, as far as it can walk."""
    start, expected = utc(row["start"]), due(row)
    first = start.replace(second=0)
    assert [
        instant
        for instant in walk(row["expr"], row["tz"], first - timedelta(minutes=1), expected[-1])
        if instant > start
    ] == expected
