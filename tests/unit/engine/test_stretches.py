"""What is left of a stretch of cycles besides what is known of it: tables, and a property."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crond_py.engine.stretches import Stretch, left_besides, left_of
from crond_py.schedule import Interval
from tests.simulation.jobs import BEGIN

HOUR = timedelta(hours=1)
HOURLY = Interval(BEGIN, HOUR)


def stretch(first: int, last: int, era: int = 0) -> Stretch:
    """Return the cycles of some hours."""
    return Stretch(BEGIN + first * HOUR, BEGIN + last * HOUR, last - first + 1, era)


@pytest.mark.parametrize(
    ("known", "left"),
    [
        ([], [(1, 9)]),
        ([(1, 9)], []),
        ([(0, 10)], []),
        ([(1, 3)], [(4, 9)]),
        ([(0, 3)], [(4, 9)]),
        ([(7, 9)], [(1, 6)]),
        ([(7, 12)], [(1, 6)]),
        ([(4, 5)], [(1, 3), (6, 9)]),
        ([(10, 12)], [(1, 9)]),
        ([(4, 5), (1, 2)], [(3, 3), (6, 9)]),
        ([(1, 5), (4, 9)], []),
    ],
)
def test_what_others_have_of_it(known: list[tuple[int, int]], left: list[tuple[int, int]]) -> None:
    """P1: each cycle counts once, and what is left begins and ends with one."""
    found = left_of(stretch(1, 9), [stretch(*each) for each in known], HOURLY)
    assert found == [stretch(*each) for each in left]


def test_others_of_another_era_have_nothing_of_it() -> None:
    """P1: these are other cycles of the same instants."""
    whole = stretch(1, 9, era=1)
    assert left_of(whole, [stretch(1, 9)], HOURLY) == [whole]


def test_where_nobody_knows_when_its_head_is_due() -> None:
    """P1: the number is right all the same."""
    found = left_of(stretch(1, 9), [stretch(4, 5)], None)
    assert sum(each.count for each in found) == 7


@pytest.mark.parametrize(
    ("single", "left"),
    [
        ([], (1, 5, 5)),
        ([1], (2, 5, 4)),
        ([1, 2], (3, 5, 3)),
        ([5], (1, 4, 4)),
        ([3], (1, 5, 4)),
        ([1, 3, 5], (2, 4, 2)),
        ([1, 2, 3, 4], (5, 5, 1)),
    ],
)
def test_what_has_rows_of_its_own(single: list[int], left: tuple[int, int, int]) -> None:
    """P1: it is not counted, and the stretch neither begins nor ends with it."""
    first, last, count = left
    found = left_besides(stretch(1, 5), {BEGIN + each * HOUR for each in single}, HOURLY)
    assert found == Stretch(BEGIN + first * HOUR, BEGIN + last * HOUR, count, 0)


def test_all_of_it_has_rows_of_its_own() -> None:
    """Then nothing is left of it."""
    assert left_besides(stretch(1, 2), {BEGIN + HOUR, BEGIN + 2 * HOUR}, HOURLY) is None


_ENDS = st.tuples(st.integers(1, 20), st.integers(1, 20)).map(sorted)


@given(st.lists(_ENDS, min_size=1, max_size=6))
def test_each_cycle_counts_once(ends: list[list[int]]) -> None:
    """P1: however many tell of stretches, one after the other, all that they tell of is counted."""
    known: list[Stretch] = []
    seen: set[int] = set()
    for first, last in ends:
        found = left_of(stretch(first, last), known, HOURLY)
        hours = {hour for hour in range(first, last + 1) if hour not in seen}
        assert sum(each.count for each in found) == len(hours)
        assert {(each.first - BEGIN) // HOUR for each in found} <= hours
        assert {(each.last - BEGIN) // HOUR for each in found} <= hours
        seen |= hours
        known.append(stretch(first, last))
