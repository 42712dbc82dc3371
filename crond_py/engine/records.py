"""The engine's mutable records: a job and what it is doing, a run on its way to an outcome."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import field
from datetime import datetime
from enum import Enum, auto
from typing import TYPE_CHECKING

from crond_py.crontab.model import Job
from crond_py.dataclass import dataclass
from crond_py.engine.lag import LagRecord, Waits
from crond_py.model import Attempt, Cursor, Lane, OnStop, Outcome, Run
from crond_py.policy import Load, Occurrences
from crond_py.ports import AttemptKey, Timer

if TYPE_CHECKING:
    from crond_py.engine.lines import Ticket
    from crond_py.engine.shares import Stake

NOT_THERE = "the job was removed from the crontab"

REMOVED_JOBS = "(removed jobs)"
"""The pool of runs whose job is in no crontab any more; it has no bound."""


class Stage(Enum):
    """What a run without an outcome waits for.

    BEHIND: a predecessor of its job. SLOT: a worker slot of its pool. STARTING: word from the
    runner. RUNNING: the end of its process, or of what its attempts have left (``has_rest``).
    RETRY: the delay before its next attempt. ENDED: it has its outcome.
    """

    BEHIND = auto()
    SLOT = auto()
    STARTING = auto()
    RUNNING = auto()
    RETRY = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run is being ended before its own end, and what its outcome will be."""

    outcome: Outcome
    reason: str
    is_forced: bool = False


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What became of an occurrence, or of a stretch of ``count``, the last at ``last_due``.

    ``is_spared``: it was skipped because nothing had failed. ``stand_in`` is for the job of a task
    that comes again and has none, as its definition cannot be used.
    """

    job: str
    era: int
    due: datetime
    outcome: Outcome
    last_due: datetime | None = None
    count: int = 1
    is_spared: bool = False
    stand_in: Job | None = None


@dataclass(slots=True, eq=False)
class ActiveRun:
    """A run without an outcome. Its ``run.id`` is 0 until the ledger has taken the claim.

    ``job`` is the definition that its next attempt goes by. ``lost`` counts the attempts that a
    crash cut short or nobody saw the end of; ``how_lost`` says it of the present one, whose process
    is gone, or nobody knows which it is, and ``is_cut_short`` that it may be run again for it.
    ``earlier_users`` are whom its earlier attempts were started as, None where nobody knows;
    ``is_taken_over``: an earlier daemon has made one of them.
    ``ticket`` is its place among those that wait for a slot, ``stake`` what its slot counts to,
    ``waits`` what it has waited for before its first start, ``ready_ns`` from when it could have
    begun, on the monotonic clock. ``lane`` is that of its task, if it has one. ``is_in_line``: it
    waits for a slot; ``on_line`` is called with that when it changes, ``on_end`` with the finished
    run once its outcome is in the ledger.
    """

    job: Job
    run: Run
    stage: Stage
    attempt: Attempt | None = None
    stop: Stop | None = None
    lost: int = 0
    how_lost: str = ""
    is_cut_short: bool = False
    earlier_users: frozenset[str | None] = frozenset()
    is_taken_over: bool = False
    begins_when_claimed: bool = False
    timeout_timer: Timer | None = None
    kill_timer: Timer | None = None
    wait_timer: Timer | None = None
    ticket: Ticket | None = None
    waits: Waits | None = None
    ready_ns: int = 0
    stake: Stake | None = None
    lane: Lane | None = None
    is_in_line: bool = False
    on_line: Callable[[bool], None] | None = None
    on_end: list[Callable[[Run], None]] = field(default_factory=list)

    @property
    def is_claimed(self) -> bool:
        """Whether the ledger has it."""
        return self.run.id != 0

    @property
    def is_user_known(self) -> bool:
        """Whether its job says whose its processes are: not where that was removed before we came.

        What was removed since keeps the definition that it had.
        """
        return self.job.pool != REMOVED_JOBS

    @property
    def has_rest(self) -> bool:
        """Whether its attempts are all over, so that it has at most what those have left."""
        return self.attempt is not None and self.attempt.outcome is not None

    @property
    def is_to_be_left(self) -> bool:
        """Whether a stopping daemon leaves its process to the next one."""
        return self.job.on_stop is OnStop.LEAVE and self.stop is None

    @property
    def key(self) -> AttemptKey:
        """The identity of the present attempt's process."""
        return AttemptKey(self.run.id, self.attempt_number)

    @property
    def attempt_number(self) -> int:
        """How many attempts have begun."""
        return self.attempt.number if self.attempt else 0

    def set_in_line(self, is_in_line: bool) -> None:
        """Note whether it waits for a slot from now on, and say so where that is new."""
        if is_in_line != self.is_in_line:
            self.is_in_line = is_in_line
            if self.on_line is not None:
                self.on_line(is_in_line)


@dataclass(slots=True, eq=False)
class JobState:
    """A job of the crontab in force, or a removed one whose last runs still finish.

    ``schedule`` is None where nothing is due by itself: at startup only, or while a fixed delay
    waits for the end of a run. ``in_doubt_until``: occurrences up to there that have no row may
    have had one before the clock was set back. ``is_set_late``: its timer was set only when
    ``next_due`` had passed. ``fault`` says why the job was disabled by the engine. ``is_task``: it
    was not in a crontab but handed in, and is known only as long as it has a run; ``is_once``:
    and it has one occurrence; ``is_over``: nothing more of it is to come.

    ``active`` and ``queued`` are its runs without an outcome, in order. There may be many of them,
    so they are entered and taken off by ``take_up``, ``put_behind`` and ``drop``, which copy none.
    Most jobs have no run most of the time, and what holds none is one for all of them.
    """

    job: Job
    cursor: Cursor
    schedule: Occurrences | None = None
    next_due: datetime | None = None
    timer: Timer | None = None
    is_set_late: bool = False
    active: Collection[ActiveRun] = ()
    queued: Collection[ActiveRun] = ()
    by_due: dict[datetime, tuple[ActiveRun, ...]] | None = None
    last: Run | None = None
    last_manual: datetime | None = None
    lags: LagRecord | None = None
    in_doubt_until: datetime | None = None
    is_removed: bool = False
    is_task: bool = False
    is_once: bool = False
    is_over: bool = False
    fault: str = ""

    @property
    def is_live(self) -> bool:
        """Whether its occurrences are to be run."""
        return self.job.enabled and not self.is_removed and not self.fault

    @property
    def load(self) -> Load:
        """How busy the job is."""
        return Load(len(self.active), len(self.queued))

    def take_up(self, run: ActiveRun) -> None:
        """Count a run as active; if it waited behind others, it does so no longer."""
        self.queued = _without(self.queued, run)
        self.active = _with(self.active, run)
        self._note_due(run)

    def put_behind(self, run: ActiveRun) -> None:
        """Let a run wait behind all others of the job."""
        self.queued = _with(self.queued, run)
        self._note_due(run)

    def drop(self, run: ActiveRun) -> None:
        """Take off a run that has its outcome, if it is there."""
        self.active = _without(self.active, run)
        self.queued = _without(self.queued, run)
        rest = tuple(each for each in self.open_at(run.run.due) if each is not run)
        if self.by_due is not None and rest:
            self.by_due[run.run.due] = rest
        elif self.by_due is not None:
            self.by_due.pop(run.run.due, None)
            self.by_due = self.by_due or None

    def open_at(self, due: datetime) -> Collection[ActiveRun]:
        """Return the runs of an instant that have no outcome: several, where it came again."""
        return () if self.by_due is None else self.by_due.get(due, ())

    def _note_due(self, run: ActiveRun) -> None:
        known = self.open_at(run.run.due)
        if run not in known:
            self.by_due = self.by_due or {}
            self.by_due[run.run.due] = (*known, run)


def _with(runs: Collection[ActiveRun], run: ActiveRun) -> Collection[ActiveRun]:
    """Return the runs and one more, which is the last of them."""
    if not isinstance(runs, OrderedDict):
        return OrderedDict.fromkeys([*runs, run])
    runs[run] = None
    return runs


def _without(runs: Collection[ActiveRun], run: ActiveRun) -> Collection[ActiveRun]:
    """Return the runs but for one."""
    if isinstance(runs, OrderedDict):
        runs.pop(run, None)
    return runs or ()
