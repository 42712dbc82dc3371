"""Schedules against a walk through real minutes, and what holds for every schedule.

The walk (``tests/unit/schedule/walker.py``) is written from crontab(5) and shares no code with the
package. Expressions are random, but lean towards the hours in which clocks change, and instants
lie near such changes, of every kind that the zone database has since 1973.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crond_py.errors import ScheduleError
from crond_py.model import DstFold, DstGap
from crond_py.schedule import Schedule, clear_zone_cache, parse_schedule
from tests.unit.schedule.cases import (
    EXPRESSIONS,
    FOLDS,
    FREQUENT,
    GAPS,
    OFFSETS,
    PLACES,
    around,
    relaxed,
)
from tests.unit.schedule.walker import walk

pytestmark = pytest.mark.timeout(600)  # it computes, and may have to share

MICROSECOND = timedelta(microseconds=1)

CASES = st.tuples(EXPRESSIONS | FREQUENT, PLACES, GAPS, FOLDS, OFFSETS)
Case = tuple[str, tuple[str, str], DstGap, DstFold, int]


def parsed(case: Case) -> Schedule:
    """Return the schedule; an expression that names no day ever is no case."""
    expression, (zone, _), gap, fold, _ = case
    try:
        return parse_schedule(expression, zone, dst_gap=gap, dst_fold=fold)
    except ScheduleError as error:
        assume("can never fire" not in str(error))
        raise


def agrees_with_the_walk(case: Case) -> None:
    """Compare all methods with the walk, over the whole stretch and from an instant in it."""
    expression, (zone, _), gap, fold, seconds = case
    start, end = around(case[1])
    schedule = parsed(case)
    walked = walk(expression, zone, start, end, gap=gap, fold=fold)
    assert schedule.count(start, end) == len(walked)
    if len(walked) < 2000:
        assert list(schedule.occurrences(start, end)) == walked
    instant = start + (end - start) / 2 + timedelta(seconds=seconds / 2)
    later = [due for due in walked if due > instant]
    until = [due for due in walked if due <= instant]
    assert schedule.count(start, instant) == len(until)
    if later:
        assert schedule.next_after(instant) == later[0]
    elif (due := schedule.next_after(instant)) is not None:
        assert due > end
    if until:
        assert schedule.latest_until(instant) == until[-1]
    elif (due := schedule.latest_until(instant)) is not None:
        assert due <= start


@settings(relaxed, max_examples=2000)
@given(CASES)
def test_agrees_with_a_walk_through_real_minutes(case: Case) -> None:
    """P1: what is due around any change of the clocks is what cron would run (crontab(5))."""
    agrees_with_the_walk(case)


@pytest.mark.long
@pytest.mark.timeout(3600)
@settings(relaxed, max_examples=100_000)
@given(CASES)
def test_agrees_with_a_walk_at_length(case: Case) -> None:
    """The same for very many cases."""
    agrees_with_the_walk(case)


@settings(relaxed, max_examples=300)
@given(
    CASES,
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC)),  # noqa: DTZ001 - the strategy adds the zone
)
def test_strictly_later_from_any_instant(case: Case, instant: datetime) -> None:
    """P2: the next instant is strictly later and the newest is not, in any year there is."""
    schedule = parsed(case)
    following, newest = schedule.next_after(instant), schedule.latest_until(instant)
    if following is not None:
        assert following > instant
        assert schedule.latest_until(following) == following
        assert schedule.latest_until(following - MICROSECOND) == newest
        assert schedule.count(instant, following) == 1
    if newest is not None:
        assert newest <= instant
        assert schedule.next_after(newest - MICROSECOND) == newest
        assert schedule.next_after(newest) == following
        assert schedule.count(newest, instant) == 0


@settings(relaxed, max_examples=300)
@given(CASES, st.lists(OFFSETS, min_size=1, max_size=4))
def test_restarts_change_nothing(case: Case, restarts: list[int]) -> None:
    """P2: cut anywhere, the parts of a stretch have together what the whole has, and no more."""
    schedule = parsed(case)
    start, end = around(case[1])
    middle = start + (end - start) / 2
    cuts = [start, *sorted(middle + timedelta(seconds=cut / 2) for cut in restarts), end]
    whole = list(schedule.occurrences(start, end))
    assert [due for a, b in pairwise(cuts) for due in schedule.occurrences(a, b)] == whole
    assert sum(schedule.count(a, b) for a, b in pairwise(cuts)) == len(whole)
    assert all(early < late for early, late in pairwise(whole))


@settings(relaxed, max_examples=300)
@given(st.lists(EXPRESSIONS | FREQUENT, min_size=1, max_size=4), PLACES, GAPS, FOLDS)
def test_a_union_is_the_set_union(
    expressions: list[str], place: tuple[str, str], gap: DstGap, fold: DstFold
) -> None:
    """Several expressions are due where one of them is, and once where several are."""
    each = [parsed((text, place, gap, fold, 0)) for text in expressions]
    union = parse_schedule(expressions, place[0], dst_gap=gap, dst_fold=fold)
    start, end = around(place)
    if sum(one.count(start, end) for one in each) > 20_000:
        end = start + 0.6 * (end - start)
    expected = sorted({due for one in each for due in one.occurrences(start, end)})
    assert union.count(start, end) == len(expected)
    if len(expected) < 2000:
        assert list(union.occurrences(start, end)) == expected
    if expected:
        assert union.next_after(start) == expected[0]
        assert union.latest_until(end) == expected[-1]


@given(CASES, st.lists(st.integers(-3000, 3000), min_size=2, max_size=12))
def test_an_answer_does_not_depend_on_what_was_asked_before(case: Case, minutes: list[int]) -> None:
    """P2: what a schedule remembers of one question changes none of its later answers."""
    start, end = around(case[1])
    middle = start + (end - start) / 2
    asked = parsed(case)
    for each in minutes:
        instant = middle + timedelta(minutes=each)
        clear_zone_cache()
        fresh = parsed(case)
        assert fresh is not asked
        due = fresh.next_after(instant)
        assert asked.next_after(instant) == due
        if due is not None:
            for until in (due - MICROSECOND, due, due + timedelta(hours=1)):
                clear_zone_cache()
                assert asked.count(instant, until) == parsed(case).count(instant, until)
