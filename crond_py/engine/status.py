"""How the engine's records are shown: as plain data, at one instant."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from crond_py.engine.pools import Slots
from crond_py.engine.records import ActiveRun, JobState, Stage
from crond_py.engine.view import JobStatus, PoolStatus
from crond_py.model import Run, State


def job_status(state: JobState) -> JobStatus:
    """Return how a job stands."""
    return JobStatus(
        job=state.job,
        next_due=state.next_due,
        active=tuple(map(seen, [*state.active, *state.queued])),
        last=state.last,
        lag=state.lags.sample() if state.lags is not None else None,
    )


def pool_status(slots: Slots, now_ns: int) -> PoolStatus:
    """Return how a pool stands at an instant of the monotonic clock."""
    since_ns = slots.oldest_since_ns
    age = None if since_ns is None else timedelta(microseconds=max(0, now_ns - since_ns) // 1000)
    return PoolStatus(
        name=slots.pool.name,
        workers=slots.pool.workers,
        running=slots.taken,
        waiting=slots.waiting,
        oldest_waiting=age,
        lag=slots.lag,
    )


def seen(active: ActiveRun) -> Run:
    """Return a run as it stands, with its present attempt; one without its claim waits.

    The reason of one that waits for its turn is what it waits for.
    """
    if not active.is_claimed:
        return replace(active.run, state=State.QUEUED, attempts=())
    attempts = (active.attempt,) if active.attempt else ()
    return replace(active.run, reason=active.run.reason or _waits_for(active), attempts=attempts)


def _waits_for(active: ActiveRun) -> str:
    """Return what a run waits for that could begin otherwise; empty: nothing."""
    if active.stage is Stage.BEHIND:
        return "waits for an earlier run of its job"
    if active.stage is not Stage.SLOT or active.ticket is None:
        return ""
    share = active.ticket.stake.share
    if share.is_full:
        return f"waits for its group {share.group.name}: max_running, {share.in_use}, are running"
    return f"waits for a slot of pool {active.job.pool}"
