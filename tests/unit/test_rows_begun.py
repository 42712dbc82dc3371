"""What end-to-end tests take for begun, of the rows that a stopped daemon leaves."""

from __future__ import annotations

import pytest

from tests.support.daemon import Event, begun


def _row(state: str, *attempts: Event, outcome: str | None = None) -> Event:
    return {"state": state, "outcome": outcome, "attempts": list(attempts)}


STARTED = {"started_at": "2026-01-01T00:00:00Z", "outcome": None}
RECALLED = {"started_at": None, "outcome": "cancelled"}
DONE = _row("done", STARTED, outcome="succeeded")


def test_what_never_started_waits_for_the_next_daemon() -> None:
    """P1: be it claimed only, or claimed ahead of its instant and recalled."""
    assert begun([DONE, _row("queued"), _row("queued", RECALLED)]) == [DONE]


@pytest.mark.parametrize("row", [_row("queued", STARTED), _row("queued", outcome="succeeded")])
def test_what_has_started_does_not_wait(row: Event) -> None:
    """P2: it would be started again."""
    with pytest.raises(AssertionError):
        begun([DONE, row])
