"""The promises, checked against what an observer outside the daemon saw."""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime, timedelta

from crond_py import timetable
from crond_py.crontab.model import AtTrigger, CronTrigger, EveryTrigger, Job
from crond_py.model import Align, Cause, Cursor, EveryMode, OnCrash, Outcome, Overlap, Run, State
from crond_py.ports import RunQuery
from crond_py.schedule import Interval, OneOff, Schedule, Shifted, parse_schedule
from tests.simulation.fakes import FakeProcess
from tests.simulation.world import HOST, SECOND, World

LATE = timedelta(seconds=1)


def check_always(world: World) -> None:
    """Check what must hold at every instant, also right after a crash."""
    starts: dict[tuple[int, int], int] = defaultdict(int)
    runs_of: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for process in world.machine.history:
        key = process.spec.key
        starts[key.run_id, key.number] += 1
        env = process.spec.env
        runs_of[process.job, env["PYCRON_ERA"], env["PYCRON_DUE"]].add(key.run_id)
        early = datetime.fromisoformat(env["PYCRON_DUE"]) - process.started_at
        if not world.may_step_clock:
            assert early < timedelta(milliseconds=1), f"P4: {key} was started {early} too early"
        run = world.ledger.run(key.run_id)
        assert run is not None, f"P1: a process of run {key.run_id} has no row"
        assert len(run.attempts) >= key.number, f"P2: attempt {key} was not recorded first"
    for attempt, number in starts.items():
        assert number == 1, f"P2: attempt {attempt} was started {number} times"
    for occurrence, run_ids in runs_of.items():
        assert len(run_ids) == 1, f"P2: {occurrence} was started as runs {sorted(run_ids)}"
    _check_alive(world)


def check_over(world: World) -> None:
    """Check that nothing is left open once no job is due any more and all had time to end."""
    left = world.ledger.open_runs()
    assert not left, f"P1: these never came to an outcome: {left[:3]}"
    for run_id, since_ns in world.cancelled.items():
        for process in world.machine.history:
            if process.spec.key.run_id == run_id:
                late = process.started_ns > since_ns
                assert not late, f"run {run_id} went on after it was cancelled"


def _check_alive(world: World) -> None:
    alive: dict[str, list[FakeProcess]] = defaultdict(list)
    for process in world.machine.alive.values():
        alive[process.job].append(process)
    small = 0
    for name, processes in alive.items():
        job = world.jobs[name]
        if job.overlap is not Overlap.ALLOW:
            assert len(processes) <= 1, f"P5: {len(processes)} processes of {name} are alive"
        elif job.max_running is not None:
            assert len(processes) <= job.max_running, f"P5: {name} exceeds max_running"
        small += len(processes) if job.pool == "small" else 0
    assert small <= 2, f"P4: {small} processes in a pool of two"


def check_at_rest(world: World) -> None:
    """Check the accounts once the daemon is up, healthy, and has dealt with everything due."""
    check_always(world)
    rows: dict[str, list[Run]] = defaultdict(list)
    for run in world.ledger.runs(RunQuery(limit=None)):
        rows[run.job].append(run)
        _check_row(world, run)
    for name, job in world.jobs.items():
        cursor = world.ledger.cursors().get(name)
        if cursor is not None and job.enabled:
            _check_accounts(world, job, cursor, rows[name])


def _check_row(world: World, run: Run) -> None:
    job = world.jobs[run.job]
    assert (run.state is State.DONE) == (run.outcome is not None), f"P1: {run}"
    processes = [p for p in world.machine.history if p.spec.key.run_id == run.id]
    if run.outcome in {Outcome.SKIPPED, Outcome.MISSED}:
        assert not [p for p in processes if p.spec.key.number == 1], f"P1: {run} was started"
    if run.outcome in {Outcome.SKIPPED, Outcome.MISSED, Outcome.LOST, Outcome.CANCELLED}:
        assert run.reason, f"P1: {run} has no reason"
    if run.outcome is Outcome.SUCCEEDED:
        assert processes, f"{run} succeeded without a process"
        assert processes[-1].exit.code == 0, f"{run} did not succeed"
    if run.outcome is Outcome.FAILED and processes and run.attempts[-1].number == len(processes):
        last = processes[-1]
        assert last.was_stopped or last.exit.code != 0, f"{run} did not fail"
    if job.on_crash is OnCrash.LOST:
        assert len(run.attempts) <= job.retry.attempts, f"P2: {run} was tried too often"
        for attempt in run.attempts[:-1]:
            assert attempt.outcome is not Outcome.LOST, f"P2: {run} went on after it was lost"
    if run.finished_at is not None:
        for process in processes:
            assert process.ended_at is not None, f"P6: {run} is over, its process is not"


def schedule_of(job: Job, cursor: Cursor) -> Schedule | None:
    """Return when the job is due, made anew from its definition.

    Only how much later its jitter makes it is asked of the package; see its own tests for that.
    """
    schedule = _plain_schedule(job, cursor)
    if schedule is None or job.jitter is None:
        return schedule
    made = timetable.schedule_of(job, cursor.anchor or cursor.baseline, HOST)
    assert isinstance(made, Shifted), f"{job.name} has jitter, and its schedule is {made}"
    assert timedelta(0) <= made.by < job.jitter, f"{job.name} is {made.by} later"
    return Shifted(schedule, made.by)


def _plain_schedule(job: Job, cursor: Cursor) -> Schedule | None:
    match job.trigger:
        case CronTrigger(expressions):
            return parse_schedule(expressions, job.timezone or "UTC", hash_key=job.name)
        case AtTrigger(instant):
            return OneOff(instant)
        case EveryTrigger(period, align=Align(), offset=offset):
            return parse_schedule(_as_cron(period, offset or 0 * SECOND), job.timezone or "UTC")
        case EveryTrigger(period, EveryMode.FIXED_RATE, offset=offset) if cursor.anchor is not None:
            first = cursor.anchor + (period if offset is None else offset)
            return Interval(first - period, period)
        case _:
            return None


def _as_cron(period: timedelta, offset: timedelta) -> list[str]:
    """Return expressions with a star that mean an interval aligned to the wall clock."""
    step, first = period // SECOND, offset // SECOND
    if step > 3600:
        return [f"{first % 60} {first // 60} */{step // 3600} * * *"]
    return [f"{time % 60} {time // 60} * * * *" for time in range(first, 3600, step)]


def _check_accounts(world: World, job: Job, cursor: Cursor, rows: list[Run]) -> None:
    schedule = schedule_of(job, cursor)
    if schedule is None:
        return
    following = schedule.next_after(cursor.accounted_until)
    now = world.clock.now()
    if cursor.barrier_until is None:
        assert following is None or following > now - LATE, (
            f"P1: {job.name} was due at {following}, and nothing has been said of it by {now}"
        )
    if world.steps_back:
        return  # readings come twice; P2 and the unique key of the ledger hold for them
    planned = {Cause.SCHEDULE, Cause.CATCH_UP}
    mine = [r for r in rows if r.cause in planned and r.due > cursor.baseline]
    accounted = sum(run.count for run in mine)
    due = schedule.count(cursor.baseline, cursor.accounted_until)
    is_elapsed = isinstance(job.trigger, EveryTrigger) and job.trigger.align is None
    if not is_elapsed or not world.may_step_clock:
        assert accounted == due, f"P1: {job.name} was due {due} times, {accounted} have a row"
