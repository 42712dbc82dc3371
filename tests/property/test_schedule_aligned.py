"""Aligned intervals against cron, and against a walk through real seconds; moved schedules."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crond_py.errors import ScheduleError
from crond_py.schedule import Aligned, Schedule, Shifted, parse_schedule
from tests.unit.schedule.cases import EXPRESSIONS, FREQUENT, OFFSETS, PLACES, around, relaxed
from tests.unit.schedule.walker import utc

SECOND = timedelta(seconds=1)
TICK = timedelta(microseconds=1)
INSTANTS = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.just(UTC))  # noqa: DTZ001 - the strategy adds the zone


def divisors(number: int) -> list[int]:
    """Return what divides a number evenly."""
    return [each for each in range(1, number + 1) if number % each == 0]


def cron_of(period: int, offset: int) -> str:
    """Return the expression that begins with a star, or leaves the hour one, and means the same."""
    minute, second = divmod(offset, 60)
    if period <= 60:
        return f"{second}-59/{period} * * * * *"
    if period <= 3600:
        return f"{second} {minute}-59/{period // 60} * * * *"
    return f"{second} {minute} */{period // 3600} * * *"


# A period and an offset, in seconds, that a cron expression can say.
GRIDS = st.one_of(
    st.sampled_from(divisors(60)).flatmap(
        lambda p: st.tuples(st.just(p), st.integers(0, p - 1)),
    ),
    st.sampled_from(divisors(60)).flatmap(
        lambda p: st.tuples(st.just(p * 60), st.integers(0, p * 60 - 1)),
    ),
    st.sampled_from(divisors(24)).flatmap(
        lambda p: st.tuples(st.just(p * 3600), st.integers(0, 3599)),
    ),
)


def same(one: Schedule, other: Schedule, start: datetime, end: datetime) -> None:
    """Ask both the same."""
    assert one.count(start, end) == other.count(start, end)
    assert one.next_after(start) == other.next_after(start)
    assert one.latest_until(end) == other.latest_until(end)
    if one.count(start, end) < 1500:
        assert list(one.occurrences(start, end)) == list(other.occurrences(start, end))


@settings(relaxed, max_examples=1000)
@given(GRIDS, PLACES, OFFSETS, OFFSETS)
def test_is_what_cron_is(grid: tuple[int, int], place: tuple[str, str], a: int, b: int) -> None:
    """P1: around any change of the clocks an aligned interval is the wildcard expression."""
    aligned = Aligned(place[0], grid[0] * SECOND, grid[1] * SECOND)
    cron = parse_schedule(cron_of(*grid), place[0])
    middle = utc(place[1])
    start, end = sorted((middle + a * SECOND / 2, middle + b * SECOND / 2))
    same(aligned, cron, start, end)


@settings(relaxed, max_examples=300)
@given(GRIDS, PLACES, INSTANTS)
def test_is_what_cron_is_in_any_year(
    grid: tuple[int, int], place: tuple[str, str], instant: datetime
) -> None:
    """P1: and in any year that there is."""
    aligned = Aligned(place[0], grid[0] * SECOND, grid[1] * SECOND)
    same(
        aligned, parse_schedule(cron_of(*grid), place[0]), instant, instant + 10 * grid[0] * SECOND
    )


def walk(zone: str, period: int, offset: int, start: datetime, end: datetime) -> list[datetime]:
    """Look at the clocks in every second of (start, end], which are whole seconds."""
    info = ZoneInfo(zone)
    due = []
    for number in range(1, (end - start) // SECOND + 1):
        instant = start + number * SECOND
        wall = instant.astimezone(info)
        if (wall.hour * 3600 + wall.minute * 60 + wall.second - offset) % period == 0:
            due.append(instant)
    return due


@settings(relaxed, max_examples=60)
@given(
    st.sampled_from(divisors(86400)).flatmap(
        lambda p: st.tuples(st.just(p), st.integers(0, p - 1))
    ),
    PLACES,
    st.integers(0, 4 * 3600),
    st.integers(0, 999),
)
def test_agrees_with_a_walk_through_real_seconds(
    grid: tuple[int, int], place: tuple[str, str], before: int, fraction: int
) -> None:
    """P1: for any period that divides a day, such as 90 s, and an offset with a fraction."""
    period, offset = grid
    late = timedelta(milliseconds=fraction)
    start = utc(place[1]) - before * SECOND
    end = start + timedelta(hours=4)
    walked = [due + late for due in walk(place[0], period, offset, start, end)]
    aligned = Aligned(place[0], period * SECOND, offset * SECOND + late)
    start, end = start + late, end + late
    assert list(aligned.occurrences(start, end)) == walked
    assert aligned.count(start, end) == len(walked)
    if walked:
        assert aligned.next_after(start) == walked[0]
        assert aligned.latest_until(end) == walked[-1]


@settings(relaxed, max_examples=200)
@given(
    EXPRESSIONS | FREQUENT,
    PLACES,
    st.integers(0, 48 * 3600 * 1000),
    st.lists(OFFSETS, min_size=1, max_size=4),
)
def test_a_moved_schedule_is_the_same_set_later(
    expression: str, place: tuple[str, str], later: int, restarts: list[int]
) -> None:
    """P2: moved by a fixed span, nothing is lost, doubled or exchanged, wherever one asks from."""
    start, end = around(place)
    by = timedelta(milliseconds=later)
    try:
        schedule = parse_schedule(expression, place[0])
    except ScheduleError as error:
        assume("can never fire" not in str(error))
        raise
    moved = Shifted(schedule, by)
    cuts = [start, *sorted(start + abs(cut) * SECOND for cut in restarts), end + timedelta(days=2)]
    every = schedule.occurrences(start - timedelta(days=3), cuts[-1])
    expected = [due + by for due in every if start < due + by <= cuts[-1]]
    assert sum(moved.count(a, b) for a, b in pairwise(cuts)) == len(expected)
    if len(expected) < 2000:
        assert [due for a, b in pairwise(cuts) for due in moved.occurrences(a, b)] == expected
    for cut in cuts[:-1]:
        following = [due for due in expected if due > cut]
        if following:
            assert moved.next_after(cut) == following[0]
            assert moved.latest_until(following[0]) == following[0]
            assert moved.latest_until(following[0] - TICK) != following[0]
