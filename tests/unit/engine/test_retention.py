"""Old runs are forgotten by each job's ``keep``, a little at a time, and only while jobs run."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from crond_py.clock import to_ns
from crond_py.crontab.model import AtTrigger, EveryTrigger, Job, StartupTrigger
from crond_py.engine.records import ActiveRun, JobState, Stage
from crond_py.engine.retention import AT_ONCE, DISTRUST, OFTEN, RARELY, Retention
from crond_py.errors import LedgerError
from crond_py.ledger.memory import MemoryLedger
from crond_py.model import Attempt, Cause, Cursor, Outcome, Run, State
from crond_py.ports import Claim, KeptOutputs, RunQuery

NOW = datetime(2026, 5, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def state_of(keep_runs: int | None, keep_for: timedelta | None = None) -> JobState:
    """Return a job that keeps so much."""
    job = Job("j", StartupTrigger(), "true", keep_runs=keep_runs, keep_for=keep_for)
    return JobState(job, Cursor("j", "f", 0, NOW, NOW))


def fill(ledger: MemoryLedger, number: int) -> None:
    """Enter finished runs, one a minute up to NOW, each with an output."""
    for index in range(number):
        due = NOW - MINUTE * (number - index)
        attempt = Attempt(1, begun_at=due, output=f"out-{index}")
        claim = Claim(
            "j", 0, due, Cause.SCHEDULE, State.DONE, due, outcome=Outcome.SUCCEEDED, attempt=attempt
        )
        ledger.write([claim], durable=False)


def kept(ledger: MemoryLedger) -> int:
    """Return how many runs the ledger has."""
    return len(ledger.runs(RunQuery(limit=None)))


def test_keeps_the_newest_and_removes_the_outputs_of_the_rest() -> None:
    """Once enough rows have come, all beyond ``keep.runs`` go with their files, oldest first."""
    ledger, removed = MemoryLedger(), []
    fill(ledger, 60)
    retention = Retention(ledger, removed.extend, NOW)
    states = {"j": state_of(keep_runs=10)}
    for _ in range(OFTEN - 1):
        retention.note_row("j", NOW)
    retention.sweep(states, NOW, 0)
    assert kept(ledger) == 60
    retention.note_row("j", NOW)
    retention.sweep(states, NOW, 0)
    assert kept(ledger) == 10
    assert removed == [f"out-{index}" for index in range(50)]


def test_age() -> None:
    """Runs older than ``keep.days`` go when the job next finishes one, an hour later at most."""
    ledger = MemoryLedger()
    fill(ledger, 30)
    retention = Retention(ledger, lambda _: None, NOW - RARELY)
    retention.note_row("j", NOW)
    retention.sweep({"j": state_of(None, MINUTE * 10)}, NOW, 0)
    assert kept(ledger) == 10


def test_a_little_at_a_time() -> None:
    """P4: one sweep deletes a bounded number; the next ones go on without waiting for new rows."""
    ledger = MemoryLedger()
    fill(ledger, AT_ONCE * 2 + 50)
    retention = Retention(ledger, lambda _: None, NOW - RARELY)
    states = {"j": state_of(keep_runs=0)}
    retention.note_row("j", NOW)
    left = []
    for _ in range(4):
        retention.sweep(states, NOW, 0)
        left.append(kept(ledger))
    assert left == [AT_ONCE + 50, 50, 0, 0]


def test_a_ledger_in_trouble_and_a_removed_job_are_survived() -> None:
    """P8: where nothing can be deleted, nothing is, and nobody is hurt; its turn comes again."""
    ledger = MemoryLedger()
    fill(ledger, 5)
    retention = Retention(ledger, lambda _: None, NOW - RARELY)
    ledger.failing = LedgerError("locked")
    retention.note_row("j", NOW)
    retention.note_row("gone", NOW)
    retention.sweep({"j": state_of(keep_runs=1)}, NOW, 0)
    ledger.failing = None
    assert kept(ledger) == 5
    retention.note_row("j", NOW + RARELY)
    retention.sweep({"j": state_of(keep_runs=1)}, NOW + RARELY, 0)
    assert kept(ledger) == 1


def test_bytes() -> None:
    """Each new row of a job that bounds them has its outputs looked at, and what is not to go."""
    bounds: list[KeptOutputs] = []
    retention = Retention(MemoryLedger(), lambda _: None, NOW, bounds.append)
    job = Job("j", StartupTrigger(), "true", keep_bytes=1000)
    state = JobState(job, Cursor("j", "f", 0, NOW, NOW))

    def run(run_id: int) -> Run:
        return Run(run_id, "j", 0, NOW, Cause.SCHEDULE, State.RUNNING, NOW)

    state.active += (ActiveRun(job, run(3), Stage.RETRY),)
    state.queued += (ActiveRun(job, run(5), Stage.SLOT),)
    states = {"j": state, "other": state_of(10)}
    retention.sweep(states, NOW, 0)
    assert bounds == []
    for name in ("j", "other", "gone"):
        retention.note_row(name, NOW)
    retention.sweep(states, NOW, 0)
    retention.sweep(states, NOW, 0)
    assert bounds == [KeptOutputs("j", 1000, frozenset({3, 5}), newest=5)]
    state.last = run(9)
    retention.note_row("j", NOW)
    retention.sweep(states, NOW, 0)
    assert bounds[1:] == [KeptOutputs("j", 1000, frozenset({3, 5}), newest=9)]


def test_a_clock_far_ahead_deletes_nothing_at_once() -> None:
    """P8: a clock that is wrong for a moment makes no run old; it is looked at again later."""
    ledger = MemoryLedger()
    fill(ledger, 30)
    retention = Retention(ledger, lambda _: None, NOW - RARELY)
    far, state = NOW + timedelta(days=400), state_of(None, timedelta(days=90))
    retention.clock_was_set(0)
    retention.note_row("j", far)
    retention.sweep({"j": state}, far, 0)
    assert kept(ledger) == 30
    retention.note_row("j", far + 2 * RARELY)
    retention.sweep({"j": state}, far + 2 * RARELY, to_ns(DISTRUST))
    assert kept(ledger) == 0


def test_a_task_that_comes_again_is_bounded_like_a_job() -> None:
    """By its own ``keep``, while it goes on; of one that comes once the row is the task's."""
    ledger, removed = MemoryLedger(), []
    fill(ledger, 60)
    retention = Retention(ledger, removed.extend, NOW)
    often = state_of(keep_runs=10)
    once = state_of(keep_runs=10)
    often.job = replace(often.job, trigger=EveryTrigger(MINUTE))
    once.job = replace(once.job, trigger=AtTrigger(NOW))
    for state in (once, None):
        for _ in range(OFTEN):
            retention.note_task(state, NOW)
    retention.sweep({}, NOW, 0)
    assert kept(ledger) == 60
    for _ in range(OFTEN):
        retention.note_task(often, NOW)
    retention.sweep({}, NOW, 0)
    assert kept(ledger) == 10
    assert removed == [f"out-{index}" for index in range(50)]
