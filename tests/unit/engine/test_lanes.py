"""What is remembered of what has kept a lane back."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from crond_py.engine.lanes import MOST_NOTED, Hindrance, LaneState, hindrances_since
from crond_py.model import Lane

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
