"""Which finished runs are forgotten, and when: a little at a time, while jobs finish.

A job's ledger rows and outputs grow only when it has runs, so that is when they are looked at; an
idle daemon is never woken for it. The rows go in the engine's thread, a bounded number at a time;
the files are removed elsewhere. How many bytes a job's outputs take is found out there, too: of
those that go beyond ``keep.bytes`` only the files are removed, and the rows stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import islice

from crond_py.clock import to_ns
from crond_py.crontab.model import EveryTrigger, Job, StartupTrigger
from crond_py.engine.records import JobState
from crond_py.engine.telling import fields, log
from crond_py.errors import LedgerError
from crond_py.ports import KeptOutputs, Ledger, Pruned

AT_ONCE = 50
"""How many runs are deleted in one go; it bounds how long anything waits for it."""

OFTEN = 50
"""After how many new rows a job is looked at, at the latest."""

RARELY = timedelta(hours=1)
"""A job with few runs is looked at no more often than this."""


DISTRUST = timedelta(hours=1)
"""How long after the clock was set forward nothing is deleted for its age."""

A_BATCH = 1
"""How many jobs are looked at after one batch of events."""


class Retention:
    """Applies each job's ``keep``."""

    def __init__(
        self,
        ledger: Ledger,
        remove_outputs: Callable[[Sequence[str]], None],
        now: datetime,
        bound_outputs: Callable[[KeptOutputs], None] = lambda _kept: None,
    ) -> None:
        self._ledger = ledger
        self._remove_outputs = remove_outputs
        self._bound_outputs = bound_outputs
        self._grown: dict[str, None] = {}
        self._began = now
        self._young_until_ns = 0
        self._new_rows: dict[str, int] = {}
        self._looked_at: dict[str, datetime] = {}
        self._ripe: dict[str, None] = {}
        self._ripe_tasks: dict[str, Job] = {}
        self._keep_tasks_for: timedelta | None = None
        self._task_rows = 0
        self._tasks_looked_at = now
        self._are_tasks_ripe = False

    def note_row(self, job: str, now: datetime) -> None:
        """Count a row that has come to a job."""
        self._grown[job] = None
        if self._is_ripe(job, now):
            self._ripe[job] = None

    def _is_ripe(self, job: str, now: datetime) -> bool:
        """Count a row; tell whether so many have come, or it is so long ago, that it is time."""
        rows = self._new_rows[job] = self._new_rows.get(job, 0) + 1
        return rows >= OFTEN or abs(now - self._looked_at.get(job, self._began)) >= RARELY

    def set_task_bound(self, keep_for: timedelta | None) -> None:
        """Set how long tasks are remembered that have ended; None: for ever."""
        self._keep_tasks_for = keep_for

    def note_task(self, state: JobState | None, now: datetime, stand_in: Job | None = None) -> None:
        """Count a row that has come to a task; ``stand_in`` is for the job of one that has none.

        Those that have ended are looked at all together; one that comes again and again, as long as
        it is there, like a job.
        """
        self._task_rows += 1
        if self._task_rows >= OFTEN or abs(now - self._tasks_looked_at) >= RARELY:
            self._are_tasks_ripe = True
        job = stand_in
        if state is not None:
            job = None if state.is_over else state.job
        if job is None or not isinstance(job.trigger, EveryTrigger):
            return
        if self._is_ripe(job.name, now):
            self._ripe_tasks[job.name] = job

    def forget_task(self, job: str) -> None:
        """Count no more rows of a task that comes no more; it is one of those that have ended."""
        self._new_rows.pop(job, None)
        self._looked_at.pop(job, None)

    def clock_was_set(self, now_ns: int) -> None:
        """Forget nothing for its age for a while: the clock may be wrong, and set again."""
        self._young_until_ns = now_ns + to_ns(DISTRUST)

    def note_removed(self, job: str) -> None:
        """Have a look at what is kept of a job that is in no crontab any more."""
        self._ripe[job] = None

    def sweep(self, states: Mapping[str, JobState], now: datetime, now_ns: int) -> None:
        """Prune a few of the jobs whose turn it is, and have grown outputs looked at.

        ``now_ns`` is the monotonic clock's reading.
        """
        is_trusted = now_ns >= self._young_until_ns
        for name in self._grown:
            if (grown := states.get(name)) is not None:
                self._bound(grown)
        self._grown.clear()
        if self._are_tasks_ripe and is_trusted:
            self._sweep_tasks(now)
        jobs = {name: _job_of(states, name) for name in islice(self._ripe, A_BATCH)}
        jobs |= dict(islice(self._ripe_tasks.items(), A_BATCH))
        for name, job in jobs.items():
            try:
                is_done = self._prune(job, now if is_trusted else None)
            except LedgerError as error:
                # Its turn comes again; that the ledger is in trouble is said by who writes.
                log.debug("old runs not deleted", extra=fields(job=name, reason=str(error)))
                return
            if is_done:
                self._note_looked_at(name, now)

    def _note_looked_at(self, name: str, now: datetime) -> None:
        """Note when a job was looked at; not of one whose rows are counted no more."""
        self._ripe.pop(name, None)
        self._ripe_tasks.pop(name, None)
        if self._new_rows.pop(name, None) is not None:
            self._looked_at[name] = now

    def _sweep_tasks(self, now: datetime) -> None:
        """Delete up to AT_ONCE tasks; there may be more where as many went."""
        older_than = _before(now, self._keep_tasks_for)
        try:
            if older_than is not None:
                pruned = self._ledger.prune_tasks(older_than=older_than, limit=AT_ONCE)
                self._remove(pruned)
                if pruned.runs:
                    return
        except LedgerError as error:
            log.debug("old tasks not deleted", extra=fields(reason=str(error)))
            return
        self._are_tasks_ripe, self._task_rows, self._tasks_looked_at = False, 0, now

    def _bound(self, state: JobState) -> None:
        """Say what of a job's outputs is to be kept, where that is bounded."""
        most_bytes = state.job.keep_bytes
        if most_bytes is not None:
            going_on = frozenset(active.run.id for active in (*state.active, *state.queued))
            newest = max(going_on, default=0)
            if state.last is not None:
                newest = max(newest, state.last.id)
            self._bound_outputs(KeptOutputs(state.job.name, most_bytes, going_on, newest))

    def _prune(self, job: Job, now: datetime | None) -> bool:
        """Delete up to AT_ONCE runs; True when no more are left to delete. None: of any age."""
        pruned = self._ledger.prune(
            job.name,
            keep_runs=job.keep_runs,
            older_than=_before(now, job.keep_for) if now is not None else None,
            limit=AT_ONCE,
        )
        self._remove(pruned)
        return pruned.runs < AT_ONCE

    def _remove(self, pruned: Pruned) -> None:
        outputs = [output for output in pruned.outputs if output]
        if outputs:
            self._remove_outputs(outputs)


def _job_of(states: Mapping[str, JobState], name: str) -> Job:
    """Return a job; of one in no crontab any more is kept what the built-in defaults say."""
    state = states.get(name)
    return state.job if state is not None else Job(name, StartupTrigger(), command=())


def _before(now: datetime, span: timedelta | None) -> datetime | None:
    """Return the instant ``span`` ago; None where there is no bound or no such instant."""
    if span is None:
        return None
    try:
        return now - span
    except OverflowError:
        return None
