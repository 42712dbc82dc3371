"""The rows of jobs as they will stand once all that waits to be written is in the ledger.

Chains go by these: what ends in one batch, or while the ledger cannot be written, has ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING

from crond_py.model import Run
from crond_py.policy import TICK
from crond_py.ports import Claim, Ledger, RunQuery, SetRun, Write

if TYPE_CHECKING:
    from crond_py.engine.outbox import Outbox

_AT_ONE_INSTANT = 10
"""How many rows of an instant are looked at: there are several where it came again."""


class Unwritten:
    """What waits to be written, by the rows that it will make or change.

    It is made when it is first asked for, and thrown away with the commit.
    """

    def __init__(self) -> None:
        self._seen = 0
        self._rows: dict[tuple[str, datetime], list[Run]] = {}
        self._stretches: dict[str, list[Run]] = {}
        self._newest: dict[str, Run] = {}
        self._changes: dict[int, SetRun] = {}

    def catch_up(self, writes: Sequence[Write]) -> None:
        """Take note of the writes that have come to those of the last time."""
        for write in islice(writes, self._seen, None):
            if isinstance(write, Claim):
                self._note(_row_of(write))
            elif isinstance(write, SetRun):
                self._changes[write.run_id] = write
        self._seen = len(writes)

    def _note(self, row: Run) -> None:
        if row.last_due is None:
            self._rows.setdefault((row.job, row.due), []).append(row)
        else:
            self._stretches.setdefault(row.job, []).append(row)
        newest = self._newest.get(row.job)
        if newest is None or newest.due <= row.due:
            self._newest[row.job] = row

    def at(self, job: str, due: datetime) -> list[Run]:
        """Return the rows that a job will have of an instant, beside those in the ledger."""
        stretches = self._stretches.get(job, ())
        return [
            *self._rows.get((job, due), ()),
            *(row for row in stretches if row.due <= due <= (row.last_due or row.due)),
        ]

    def newest(self, job: str) -> list[Run]:
        """Return the row of a job that will be its newest of these, if there is one."""
        return [self._newest[job]] if job in self._newest else []

    def changed(self, row: Run) -> Run:
        """Return a row of the ledger as it will be."""
        change = self._changes.get(row.id)
        if change is None:
            return row
        return replace(
            row,
            state=change.state,
            outcome=change.outcome,
            reason=change.reason,
            finished_at=change.finished_at,
        )


class Rows:
    """The rows of jobs. Raises LedgerError where the ledger cannot be read."""

    def __init__(self, ledger: Ledger, outbox: Outbox) -> None:
        self._ledger = ledger
        self._outbox = outbox

    def at(self, job: str, due: datetime) -> list[Run]:
        """Return what a job has of an instant: several rows, where it came again."""
        query = RunQuery(job=job, since=due, until=due + TICK, limit=_AT_ONE_INSTANT)
        unwritten = self._outbox.unwritten
        return self._all(unwritten, self._ledger.runs(query), unwritten.at(job, due))

    def between(self, job: str, first: datetime, last: datetime) -> list[Run]:
        """Return what the ledger has of a job's instants, the first and the last among them."""
        return self._ledger.runs(RunQuery(job=job, since=first, until=last + TICK, limit=None))

    def newest(self, job: str) -> Run | None:
        """Return the newest row of a job, of whatever cycle."""
        unwritten = self._outbox.unwritten
        written = self._ledger.runs(RunQuery(job=job, limit=1))
        rows = self._all(unwritten, written, unwritten.newest(job))
        # Of those that are due at one instant the one that is not written is the newer one.
        return max(rows, key=lambda run: run.due, default=None)

    def _all(self, unwritten: Unwritten, written: list[Run], new: list[Run]) -> list[Run]:
        """Return rows that are to come, without those that will be refused, and the others."""
        there = {(run.era, run.due) for run in written}
        new = [run for run in new if (run.era, run.due) not in there]
        return [*new, *map(unwritten.changed, written)]


def _row_of(claim: Claim) -> Run:
    """Return the row that a claim makes; it has no number yet."""
    return Run(
        0,
        claim.job,
        claim.era,
        claim.due,
        claim.cause,
        claim.state,
        claim.claimed_at,
        outcome=claim.outcome,
        reason=claim.reason,
        last_due=claim.last_due,
        count=claim.count,
        finished_at=claim.claimed_at if claim.outcome is not None else None,
    )
