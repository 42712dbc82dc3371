"""What a write makes of a run, as pure functions; for ledgers that hold runs in memory."""

from __future__ import annotations

from dataclasses import replace

from crond_py.model import Attempt, Run
from crond_py.ports import Claim, SetRun


def claimed(run_id: int, claim: Claim) -> Run:
    """Return the run that a claim enters."""
    return Run(
        id=run_id,
        job=claim.job,
        era=claim.era,
        due=claim.due,
        cause=claim.cause,
        state=claim.state,
        claimed_at=claim.claimed_at,
        outcome=claim.outcome,
        reason=claim.reason,
        last_due=claim.last_due,
        count=claim.count,
        finished_at=None if claim.outcome is None else claim.claimed_at,
        attempts=() if claim.attempt is None else (claim.attempt,),
    )


def changed(run: Run, write: SetRun) -> Run:
    """Return a run that stands elsewhere."""
    return replace(
        run,
        state=write.state,
        outcome=write.outcome,
        reason=write.reason,
        finished_at=write.finished_at,
        retry_at=write.retry_at,
    )


def with_attempt(run: Run, attempt: Attempt) -> Run:
    """Return a run with an attempt entered or replaced."""
    by_number = {known.number: known for known in run.attempts}
    by_number[attempt.number] = attempt
    return replace(run, attempts=tuple(by_number[number] for number in sorted(by_number)))
