"""Several expressions together: each instant once, and counting without listing."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from crond_py.schedule import parse_schedule
from tests.unit.schedule.walker import utc

START = datetime(2024, 1, 1, tzinfo=UTC)
YEAR = timedelta(days=366)


def test_an_instant_of_two_counts_once() -> None:
    """Noon on the 1st is due once, though both expressions name it."""
    schedule = parse_schedule(["0 12 * * *", "0 */12 1 * *"], "UTC")
    start = utc("2024-03-31T12:00Z")
    assert list(schedule.occurrences(start, start + timedelta(days=2))) == [
        utc("2024-04-01T00:00Z"),
        utc("2024-04-01T12:00Z"),
        utc("2024-04-02T12:00Z"),
    ]
    assert schedule.count(start, start + timedelta(days=2)) == 3


def test_the_same_twice_is_one() -> None:
    """An expression that is written twice, with other blanks too, changes nothing."""
    once = parse_schedule("0 12 * * *", "UTC")
    twice = parse_schedule(["0 12 * * *", " 0  12 * * * ", "@daily", "@midnight"], "UTC")
    assert twice.count(START, START + YEAR) == once.count(START, START + YEAR) + 366


def test_counted_by_inclusion_and_exclusion() -> None:
    """A count is the sum of both less what they share, over ten years of every second."""
    seconds, sevenths = "* * * * * *", "*/7 * * * * *"
    first, second = "*/2 * * * * *", "*/3 * * * * *"
    end = START + timedelta(days=3653)
    total = (end - START) // timedelta(seconds=1)
    assert parse_schedule([seconds, sevenths], "Europe/Berlin").count(START, end) == total
    # Of 60 seconds, 30 are even, 20 are multiples of three and 10 are both.
    assert parse_schedule([first, second], "Europe/Berlin").count(START, end) == total * 40 // 60


def test_many_expressions() -> None:
    """A hundred expressions, one for each of a hundred minutes, make a hundred a day."""
    expressions = [f"{n % 60} {n // 60} * * *" for n in range(100)]
    schedule = parse_schedule(expressions, "America/New_York")
    assert schedule.count(START, START + YEAR) == 366 * 100


def test_moved_onto_one_another() -> None:
    """What a gap moves to an instant at which another expression is due is no second one."""
    schedule = parse_schedule(["30 2 * * *", "45 2 * * *", "0 3 * * *"], "America/New_York")
    start, end = utc("2024-03-10T00:00-05:00"), utc("2024-03-10T12:00-04:00")
    assert list(schedule.occurrences(start, end)) == [utc("2024-03-10T03:00-04:00")]
    assert schedule.count(start, end) == 1


def test_fixed_and_wildcard_keep_their_rules() -> None:
    """In a repeated hour one expression counts on both passes and another on the first only."""
    schedule = parse_schedule(["30 1 * * *", "15 * * * *"], "America/New_York")
    start, end = utc("2024-11-03T00:30-04:00"), utc("2024-11-03T02:00-05:00")
    assert list(schedule.occurrences(start, end)) == [
        utc("2024-11-03T01:15-04:00"),
        utc("2024-11-03T01:30-04:00"),
        utc("2024-11-03T01:15-05:00"),
    ]
    assert schedule.count(start, end) == 3


def test_nothing_backwards() -> None:
    """A stretch that ends before it begins has nothing in it."""
    for expression in ("* * * * *", "30 2 * * *"):
        schedule = parse_schedule([expression, "*/7 * * * * *"], "America/New_York")
        end = utc("2024-03-10T07:00Z")
        assert schedule.count(end + timedelta(days=1), end) == 0
        assert schedule.count(end, end) == 0
        assert list(schedule.occurrences(end + timedelta(days=1), end)) == []
        assert list(schedule.occurrences(end, end)) == []


def test_what_it_is_called() -> None:
    """Its representation shows the expressions and the zone."""
    schedule = parse_schedule(["0  12 * * *", "@daily"], "Europe/Berlin")
    assert repr(schedule) == "<CronSchedule '0 12 * * *', '0 0 * * *' in Europe/Berlin>"
