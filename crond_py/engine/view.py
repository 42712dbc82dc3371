"""What the engine tells about itself, as plain data that can cross the control socket."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from crond_py.crontab.model import Job
from crond_py.model import Run


@dataclass(frozen=True, slots=True)
class LagSummary:
    """The newest lag, and the distribution of those that are remembered; time for others not."""

    last: timedelta
    p50: timedelta
    p99: timedelta
    largest: timedelta
    count: int


@dataclass(frozen=True, slots=True)
class JobStatus:
    """A job of the crontab in force, when it is next due, and what it is doing.

    ``active`` are its runs without an outcome (queued, running, waiting for a retry), oldest
    first; ``last`` is its newest run that was attempted; ``lag`` how late its runs have started.
    """

    job: Job
    next_due: datetime | None
    active: tuple[Run, ...]
    last: Run | None
    lag: LagSummary | None = None


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """How full a pool is; ``workers`` None: no bound.

    ``oldest_waiting`` is how long the run has waited for a slot that waits longest; ``lag`` how
    late the pool's runs have started.
    """

    name: str
    workers: int | None
    running: int
    waiting: int
    oldest_waiting: timedelta | None = None
    lag: LagSummary | None = None


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The engine at one instant.

    ``removed`` are jobs that are no longer in the crontab and still have runs. ``troubles`` are
    faults that last, each a sentence.
    """

    now: datetime
    started_at: datetime
    is_stopping: bool
    jobs: tuple[JobStatus, ...]
    pools: tuple[PoolStatus, ...]
    troubles: tuple[str, ...]
    removed: tuple[JobStatus, ...] = ()


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What a cancel has done: a run that was running is ``ending`` until its tree is gone.

    What of that has not ended ``kill_after`` later, at the latest, is killed.
    """

    run_id: int
    job: str
    was: str
    ending: bool
    kill_after: timedelta = timedelta(0)
