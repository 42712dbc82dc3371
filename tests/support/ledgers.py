"""What tests of ledgers are made of: instants, claims, attempts."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from crond_py.model import Attempt, Cause, Lane, Outcome, State
from crond_py.ports import Claim, Ledger, NewTask, SetRun

T0 = datetime(2026, 3, 29, 1, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    """Return the instant that is so much later than T0."""
    return T0 + timedelta(seconds=seconds)


def claim(
    job: str = "backup",
    due: datetime = T0,
    *,
    state: State = State.RUNNING,
    outcome: Outcome | None = None,
    attempt: Attempt | None = None,
    last_due: datetime | None = None,
    count: int = 1,
) -> Claim:
    """Return a claim made a second after it was due; with ``outcome`` it is done."""
    return Claim(
        job=job,
        era=0,
        due=due,
        cause=Cause.SCHEDULE,
        state=State.DONE if outcome else state,
        claimed_at=due + timedelta(seconds=1),
        outcome=outcome,
        attempt=attempt,
        last_due=last_due,
        count=count,
    )


def attempted(job: str = "backup", due: datetime = T0, *, output: str = "") -> Claim:
    """Return a claim whose first attempt begins with it."""
    return claim(job, due, attempt=Attempt(1, begun_at=due, output=output))


def finish(run_id: int, at: datetime, outcome: Outcome = Outcome.SUCCEEDED) -> SetRun:
    """Return the write that ends a run."""
    return SetRun(run_id, State.DONE, outcome=outcome, finished_at=at)


def enter(ledger: Ledger, *claims: Claim) -> list[int]:
    """Write claims and return the ids of their runs; none may be refused."""
    ids = ledger.write(claims, durable=True)
    entered = [run_id for run_id in ids if run_id is not None]
    assert len(entered) == len(ids)
    return entered


LANE = Lane("default", 0, "bob")


def new_task(
    due: datetime = T0,
    *,
    lane: Lane = LANE,
    period: timedelta | None = None,
    key: str | None = None,
) -> NewTask:
    """Return a task that bob hands in."""
    return NewTask(lane, due, '{"command":"true"}', "bob", period, key)


def hand_in(ledger: Ledger, *tasks: NewTask) -> list[int]:
    """Enter new tasks and return their ids."""
    answers = ledger.submit(tasks, T0)
    assert all(answer.is_new for answer in answers)
    return [answer.task.id for answer in answers]
