"""What the engine tells about itself, as plain data that can cross the control socket."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from crond_py.crontab.model import Job
from crond_py.dataclass import dataclass
from crond_py.model import Run


@dataclass(frozen=True, slots=True)
class LagFigures:
    """The newest of some spans, and their distribution."""

    last: timedelta = timedelta(0)
    p50: timedelta = timedelta(0)
    p99: timedelta = timedelta(0)
    largest: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class LagCauses:
    """How long runs have waited for each of what they waited for; see ``model.Lag``."""

    dispatch: LagFigures = LagFigures()
    dependency: LagFigures = LagFigures()
    overlap: LagFigures = LagFigures()
    pool: LagFigures = LagFigures()
    spawn: LagFigures = LagFigures()


@dataclass(frozen=True, slots=True)
class LagSummary:
    """The newest lag, and the distribution of those that are remembered; time for others not.

    ``causes`` has the same of each part of them, and of the time for others.
    """

    last: timedelta
    p50: timedelta
    p99: timedelta
    largest: timedelta
    count: int
    causes: LagCauses = LagCauses()


@dataclass(frozen=True, slots=True)
class LagSample:
    """The lags of the newest starts, and their parts, in microseconds and no order.

    The place of a start is the same in each; a part that there never was is empty. ``newest`` is
    the place of the newest start.
    """

    newest: int
    own_us: Sequence[int]
    dependency_us: Sequence[int] = ()
    overlap_us: Sequence[int] = ()
    pool_us: Sequence[int] = ()
    spawn_us: Sequence[int] = ()

    def summary(self) -> LagSummary | None:
        """Return the distribution, by nearest rank; None where nothing has started yet."""
        if not self.own_us:
            return None
        own = self._figures(self.own_us)
        return LagSummary(
            own.last,
            own.p50,
            own.p99,
            own.largest,
            len(self.own_us),
            LagCauses(
                dispatch=self._figures(self._dispatch_us()),
                dependency=self._figures(self.dependency_us),
                overlap=self._figures(self.overlap_us),
                pool=self._figures(self.pool_us),
                spawn=self._figures(self.spawn_us),
            ),
        )

    def _dispatch_us(self) -> Sequence[int]:
        rest = self.own_us
        for part in filter(None, (self.overlap_us, self.pool_us, self.spawn_us)):
            rest = [whole - spent for whole, spent in zip(rest, part, strict=True)]
        return rest

    def _figures(self, spans_us: Sequence[int]) -> LagFigures:
        if not spans_us:
            return LagFigures()
        ordered = sorted(spans_us)
        # The place, from 0, of a percentile by nearest rank is ceil(percent / 100 * number) - 1.
        p50, p99 = (ordered[-(-percent * len(ordered) // 100) - 1] for percent in (50, 99))
        values = (spans_us[self.newest], p50, p99, ordered[-1])
        return LagFigures(*(timedelta(microseconds=value) for value in values))


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
    the pool's runs have started; ``behind`` counts the runs that are queued behind those that wait,
    ``given_up`` those that were given up as too late since the daemon began; their lag counts, too.
    """

    name: str
    workers: int | None
    running: int
    waiting: int
    oldest_waiting: timedelta | None = None
    lag: LagSummary | None = None
    behind: int = 0
    given_up: int = 0


@dataclass(frozen=True, slots=True)
class TaskCounts:
    """Submitted tasks: how many have not ended, and when the first of them is due.

    That is past where tasks wait for their turn. ``runs`` are those without an outcome, but of the
    tasks that wait only the first. Beside these, ``parked`` wait for their retry, in
    the ledger.
    """

    open: int = 0
    next_due: datetime | None = None
    runs: tuple[Run, ...] = ()
    parked: int = 0


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
