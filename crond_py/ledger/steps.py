"""Writes as rows: what is done to the ledger's tables, and what the journal keeps until then.

Not responsible for doing it. A step is one write in the form that the tables take; it goes through
the journal and comes out the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cache

from crond_py.dataclass import dataclass
from crond_py.ledger.records import (
    EPOCH,
    Row,
    attempt_row,
    claim_row,
    cursor_row,
    from_text,
    set_run_row,
    set_task_row,
    to_runs,
    to_text,
)
from crond_py.model import Attempt, Cause, Cursor, Run, State
from crond_py.ports import Claim, SetAttempt, SetCursor, SetRun, SetTask, Write


class Kind(StrEnum):
    """What a step enters or changes."""

    CLAIM = "claim"
    RUN = "run"
    ATTEMPT = "attempt"
    CURSOR = "cursor"
    TASK = "task"


@dataclass(frozen=True, slots=True)
class Step:
    """One write as rows. ``row`` of a claim begins with its run's id, None: the ledger gives one.

    ``attempt`` is the row of the attempt that a claim begins, whatever it has as its run.
    """

    kind: Kind
    row: Row
    attempt: Row | None = None

    def with_id(self, run_id: int) -> Step:
        """Return a claim's step with the id that its run has."""
        return replace(self, row=(run_id, *self.row[1:]))

    def __str__(self) -> str:
        return f"{self.kind} {self.row}"


def to_step(write: Write) -> Step:
    """Return a write as rows. Raises TypeError and the like where it has none."""
    match write:
        case Claim():
            begun = write.attempt
            return Step(Kind.CLAIM, claim_row(write), attempt_row(0, begun) if begun else None)
        case SetRun():
            return Step(Kind.RUN, set_run_row(write))
        case SetAttempt():
            return Step(Kind.ATTEMPT, attempt_row(write.run_id, write.attempt))
        case SetCursor():
            return Step(Kind.CURSOR, cursor_row(write.cursor))
        case SetTask():
            return Step(Kind.TASK, set_task_row(write))


def steps_of_run(run: Run) -> list[Step]:
    """Return the steps that enter a run as it stands, under its own id."""
    claim = Claim(
        job=run.job,
        era=run.era,
        due=run.due,
        cause=run.cause,
        state=run.state,
        claimed_at=run.claimed_at,
        outcome=run.outcome,
        reason=run.reason,
        last_due=run.last_due,
        count=run.count,
    )
    stands = SetRun(
        run.id, run.state, run.outcome, run.reason, run.finished_at, run.retry_at, run.left_as
    )
    attempts = [to_step(SetAttempt(run.id, attempt)) for attempt in run.attempts]
    return [to_step(claim).with_id(run.id), to_step(stands), *attempts]


def run_of_step(step: Step) -> Run:
    """Return the run that a claim's step enters, which has its id."""
    attempt = step.attempt or (None,) * _widths()[Kind.ATTEMPT]
    (run,) = to_runs([(*step.row, None, None, *attempt[1:])])
    return run


# --- as bytes -----------------------------------------------------------------------------------


def pack(steps: Sequence[Step]) -> bytes:
    """Return steps as bytes."""
    items = [
        [step.kind, _plain(step.row), None if step.attempt is None else _plain(step.attempt)]
        for step in steps
    ]
    return json.dumps(items, separators=(",", ":")).encode("ascii")


def unpack(content: bytes) -> list[Step]:
    """Return what was packed, perhaps by an older pycron that knew less of what there is to say.

    A ValueError or TypeError where it is no list of steps.
    """
    return [
        Step(
            Kind(kind),
            _row(row, _widths()[Kind(kind)]),
            None if attempt is None else _row(attempt, _widths()[Kind.ATTEMPT]),
        )
        for kind, row, attempt in json.loads(content)
    ]


@cache
def _widths() -> Mapping[Kind, int]:
    """Return how many values the rows have."""
    samples: list[Write] = [
        Claim("", 0, EPOCH, Cause.SCHEDULE, State.QUEUED, EPOCH),
        SetRun(0, State.QUEUED),
        SetAttempt(0, Attempt(1, EPOCH)),
        SetCursor(Cursor("", "", 0, EPOCH, EPOCH)),
        SetTask(0, EPOCH),
    ]
    return {step.kind: len(step.row) for step in map(to_step, samples)}


def _plain(row: Row) -> Row:
    """Return a row as JSON can hold it: bytes are text that is no UTF-8, which it can escape."""
    return tuple(from_text(value) if isinstance(value, bytes) else value for value in row)


def _row(values: Sequence[object], width: int) -> Row:
    # What comes to a table later stands last in its rows, and is not known of older ones.
    missing = (None,) * (width - len(values))
    return (*(to_text(value) if isinstance(value, str) else value for value in values), *missing)
