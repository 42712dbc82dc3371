"""How the engine's records are shown: as plain data, at one instant."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from crond_py.dataclass import dataclass
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


@dataclass(slots=True)
class Crowd:
    """What waits for a slot of one pool: how many, and since when the first could have begun.

    Instants are those of the monotonic clock. ``behind`` are those that wait for these in turn.
    """

    number: int = 0
    since_ns: int | None = None
    behind: int = 0

    def add(self, number: int, since_ns: int) -> None:
        """Count others in, the first of which could have begun then."""
        self.number += number
        self.since_ns = since_ns if self.since_ns is None else min(self.since_ns, since_ns)


def crowds(states: Iterable[JobState]) -> defaultdict[str, Crowd]:
    """Return what waits for a slot of each pool in memory."""
    found: defaultdict[str, Crowd] = defaultdict(Crowd)
    for state in states:
        for active in state.active:
            if active.stage is Stage.SLOT and active.stop is None and active.ticket is not None:
                # What is to be run once more could not have begun when it was due.
                has_begun = active.attempt is not None
                since_ns = active.ticket.since_ns if has_begun else active.ready_ns
                found[active.job.pool].add(1, since_ns)
        if state.queued and any(each.stage is Stage.SLOT for each in state.active):
            found[state.job.pool].behind += len(state.queued)
    return found


def pool_status(slots: Slots, crowd: Crowd, now_ns: int) -> PoolStatus:
    """Return how a pool stands at an instant of the monotonic clock."""
    age = None
    if crowd.since_ns is not None:
        age = timedelta(microseconds=max(0, now_ns - crowd.since_ns) // 1000)
    return PoolStatus(
        name=slots.pool.name,
        workers=slots.pool.workers,
        running=slots.taken,
        waiting=crowd.number,
        oldest_waiting=age,
        behind=crowd.behind,
        given_up=slots.given_up,
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
        return "waits for an earlier run"
    if active.stage is not Stage.SLOT or active.ticket is None:
        return ""
    share = active.ticket.stake.share
    if share.is_full:
        return f"waits for a slot of group {share.group.name}"
    return f"waits for a slot of pool {active.job.pool}"
