"""What the engine tells about itself, as plain data that can cross the control socket."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from crond_py.crontab.model import Job
from crond_py.dataclass import dataclass
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
class LagSample:
    """The lags of the newest starts, in microseconds and no order, and the newest of them."""

    lags_us: Sequence[int]
    newest_us: int

    def summary(self) -> LagSummary | None:
        """Return the distribution, by nearest rank; None where nothing has started yet."""
        if not self.lags_us:
            return None
        ordered = sorted(self.lags_us)
        number = len(ordered)
        # The place, from 0, of a percentile by nearest rank is ceil(percent / 100 * number) - 1.
        p50, p99 = (ordered[-(-percent * number // 100) - 1] for percent in (50, 99))
        last, p50_, p99_, largest = (
            timedelta(microseconds=value) for value in (self.newest_us, p50, p99, ordered[-1])
        )
        return LagSummary(last, p50_, p99_, largest, number)


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
    lag: LagSample | None = None


@dataclass(frozen=True, slots=True)
class PoolStatus:
    """How full a pool is; ``workers`` None: no bound.

    ``waiting`` counts the runs that wait for a slot, and the submitted tasks that are due and are
    not taken up yet; ``oldest_waiting`` is how long ago the first of them was due; ``lag`` how late
    the pool's runs have started.
    """

    name: str
    workers: int | None
    running: int
    waiting: int
    oldest_waiting: timedelta | None = None
    lag: LagSummary | None = None


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Submitted tasks: how many have not ended, and when the first of them is due.

    That is past where tasks wait for their turn. ``runs`` are those without an outcome, but of the
    tasks that wait only the first.
    """

    open: int = 0
    next_due: datetime | None = None
    runs: tuple[Run, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """The engine at one instant.

    ``removed`` are jobs that are no longer in the crontab and still have runs. ``troubles`` are
    faults that last, each a sentence. ``awaited`` are the runs that a stop waits for.
    """

    now: datetime
    started_at: datetime
    is_stopping: bool
    jobs: tuple[JobStatus, ...]
    pools: tuple[PoolStatus, ...]
    troubles: tuple[str, ...]
    removed: tuple[JobStatus, ...] = ()
    tasks: TaskCounts = TaskCounts()
    awaited: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Cancelled:
    """What a cancel has done: a run that has begun is ``ending`` until its trees are gone.

    What of that has not ended ``kill_after`` later, at the latest, is killed. ``is_taken_over``: an
    earlier daemon has begun it, so what has shed all marks of it is not our child and not seen.
    """

    run_id: int
    job: str
    was: str
    ending: bool
    kill_after: timedelta = timedelta(0)
    is_taken_over: bool = False
