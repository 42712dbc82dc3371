"""What is known of lanes: what has kept one back, and which has the first task of all."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

import pytest

from crond_py.engine.lanes import (
    MOST_NOTED,
    FirstDues,
    Hindrance,
    LaneState,
    hindrances_since,
)
from crond_py.model import Lane, Scale

FULL, HELD, UNREAD = Hindrance.FULL, Hindrance.HELD, Hindrance.UNREAD
NOW = datetime(2026, 3, 1, tzinfo=UTC)


def lane() -> LaneState:
    """Return a lane with nothing in it."""
    return LaneState(Lane("default", 0, "alice"))


@pytest.mark.parametrize(
    ("due_ns", "expected"),
    [
        (0, [FULL, UNREAD, HELD]),
        (19, [FULL, UNREAD, HELD]),
        (20, [UNREAD, HELD]),
        (29, [UNREAD, HELD]),
        (30, [HELD]),
        (99, [HELD]),
    ],
)
def test_what_was_over_by_then_does_not_count(due_ns: int, expected: list[Hindrance]) -> None:
    """A task was kept back by what went on when it was due, and by what followed."""
    state = lane()
    for since_ns, what in ((10, FULL), (15, FULL), (20, UNREAD), (30, HELD)):
        state.hinder(what, since_ns)
    assert list(hindrances_since(state.hindered, due_ns)) == expected


def test_what_is_remembered_is_bounded() -> None:
    """A ledger that fails time and again does not make it grow, and the first is kept."""
    state = lane()
    for turn in range(1000):
        state.hinder((FULL, UNREAD)[turn % 2], turn)
    assert len(state.hindered) == MOST_NOTED
    assert state.hindered[0] == (0, FULL)
    assert set(hindrances_since(state.hindered, 0)) == {FULL, UNREAD}


def test_nothing_has_kept_it_back() -> None:
    """A lane that was taken up in time has no reason to tell."""
    assert hindrances_since(lane().hindered, 5) == ()


@pytest.mark.parametrize("seed", range(20))
def test_the_first_of_all_lanes(seed: int) -> None:
    """It is the smallest of what each lane has, and what is kept for that is bounded."""
    random, dues = Random(seed), FirstDues()
    lanes = [
        LaneState(Lane("default", 0, str(number), random.choice(list(Scale))))
        for number in range(random.choice((1, 3, 50)))
    ]
    for _ in range(2000):
        lane, due = random.choice(lanes), NOW + timedelta(seconds=random.randrange(40))
        before = lane.first_due
        if random.random() < 0.5:
            assert dues.note(lane, due) == (before is None or due < before)
            assert lane.first_due == (due if before is None else min(before, due))
        else:
            expected = random.choice((due, None))
            dues.set(lane, expected)
            assert lane.first_due == expected
        for scale in Scale:
            known = [each.first_due for each in lanes if each.lane.scale is scale]
            assert dues.first(scale) == min(filter(None, known), default=None)
    assert sum(map(len, dues._heaps.values())) <= 2 * len(lanes) + 128
