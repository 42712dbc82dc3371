"""What a write makes of a run or a task, as pure functions; for what is held in memory."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

from crond_py.model import Attempt, Cause, Run, Task
from crond_py.ports import Claim, NewTask, SetRun, SetTask


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
    is_made_up = write.made_up_at is not None
    return replace(
        run,
        cause=Cause.CATCH_UP if is_made_up else run.cause,
        claimed_at=write.made_up_at or run.claimed_at,
        state=write.state,
        outcome=write.outcome,
        reason=write.reason,
        finished_at=write.finished_at,
        retry_at=write.retry_at,
        left_as=write.left_as,
    )


def with_attempt(run: Run, attempt: Attempt) -> Run:
    """Return a run with an attempt entered or replaced."""
    by_number = {known.number: known for known in run.attempts}
    by_number[attempt.number] = attempt
    return replace(run, attempts=tuple(by_number[number] for number in sorted(by_number)))


def entered(task_id: int, wanted: NewTask, now: datetime) -> Task:
    """Return the task that is made of one that is handed in."""
    return Task(
        id=task_id,
        lane=wanted.lane,
        due=wanted.due,
        definition=wanted.definition,
        submitted_by=wanted.submitted_by,
        submitted_at=now,
        period=wanted.period,
        key=wanted.key,
    )


def moved(task: Task, write: SetTask) -> Task:
    """Return a task that was moved on."""
    return replace(task, due=write.due, ended_at=write.ended_at)
