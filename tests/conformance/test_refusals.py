"""What every ledger refuses. The daemon's own leaves it out instead; see its unit tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from crond_py.errors import LedgerError, LedgerRefusedError
from crond_py.model import Attempt, Cursor, Outcome, State
from crond_py.ports import (
    Ledger,
    LedgerReader,
    RunQuery,
    SetAttempt,
    SetCursor,
    SetRun,
    Write,
)
from tests.conformance.conftest import STRICT, Pair, open_pair
from tests.support.ledgers import T0, at, claim, enter

EVERYTHING = RunQuery(limit=None)


@pytest.fixture(params=STRICT)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Give a ledger and what reads it."""
    with open_pair(request.param, tmp_path) as pair:
        yield pair


@pytest.mark.parametrize(
    "bad",
    [
        SetRun(77, State.RUNNING),
        SetRun(0, State.RUNNING),
        SetAttempt(77, Attempt(1, T0)),
        SetRun(1, State.DONE),
        SetRun(1, State.RUNNING, outcome=Outcome.FAILED),
        replace(claim("c"), state=State.DONE),
        replace(claim("c"), outcome=Outcome.SKIPPED),
        replace(claim("c"), count=0),
        replace(claim("c"), last_due=at(-1)),
        claim("\udcff"),
        SetCursor(Cursor("\udcff", "f", 0, T0, T0)),
    ],
)
def test_nonsense_is_refused_whole(ledger: Ledger, reader: LedgerReader, bad: Write) -> None:
    """A write about a run that is not there, or that contradicts itself, changes nothing (P1)."""
    (run_id,) = enter(ledger, claim())
    assert run_id == 1
    before = reader.run(run_id)
    good = [
        claim("b"),
        SetRun(run_id, State.QUEUED),
        SetAttempt(run_id, Attempt(1, T0)),
        SetCursor(Cursor("b", "f", 0, T0, T0)),
    ]
    with pytest.raises(LedgerRefusedError):
        ledger.write([*good, bad, *good], durable=True)
    assert reader.runs(EVERYTHING) == [before]
    assert reader.last_runs() == {}
    assert reader.cursors() == {}


def test_goes_on_after_a_refusal(ledger: Ledger, reader: LedgerReader) -> None:
    """A refused write does not stand in the way of the next."""
    with pytest.raises(LedgerError, match="no run 5"):
        ledger.write([claim("a"), SetRun(5, State.RUNNING)], durable=True)
    (run_id,) = enter(ledger, claim("a"))
    assert reader.run(run_id).job == "a"
