"""What the engine's parts share: the seams, the register of jobs and runs, the way to log."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

from crond_py.crontab.model import DEFAULT_POOL, Crontab, Job, Pool
from crond_py.dataclass import dataclass
from crond_py.engine.events import AskAgainDue
from crond_py.engine.lanes import MOST_WAITING
from crond_py.engine.outbox import Outbox
from crond_py.engine.parked import LONG_DELAY, MOST_RETRIES
from crond_py.engine.pools import Slots
from crond_py.engine.records import (
    NOT_THERE,
    REMOVED_JOBS,
    ActiveRun,
    Conclusion,
    JobState,
    Stage,
)
from crond_py.engine.shares import Shares
from crond_py.engine.telling import fields, log
from crond_py.engine.timekeeper import Timekeeper
from crond_py.errors import LedgerError
from crond_py.model import Run, Task
from crond_py.ports import AttemptKey, KeptOutputs, Processes, ProcessSpec, Timers
from crond_py.timetable import host_name

AGAIN = timedelta(seconds=1)
"""How soon the ledger is asked again that could not tell."""


class SpecBuilder(Protocol):
    """Makes the specification of a process from a job, its run, and the attempt's number."""

    def __call__(self, job: Job, run: Run, attempt: int) -> ProcessSpec:
        """Return what the runner needs."""
        ...


class TaskJobs(Protocol):
    """Makes jobs of submitted tasks, by the crontab in force."""

    @property
    def keep_for(self) -> timedelta | None:
        """How long tasks are remembered that have ended; None: for ever."""
        ...

    @property
    def keep_runs(self) -> int | None:
        """How many rows are kept of a task that comes again; None: all."""
        ...

    def job(self, task: Task) -> Job:
        """Return the job that a task's runs are runs of, with its name and its lane's place.

        Raises a PycronError, in words, where its definition does not fit the crontab any more.
        """
        ...


@dataclass(slots=True)
class Parts:
    """What the engine is built from.

    ``process_era`` names the time in which a process may have lived on: the boot of the machine,
    and in it that of the container.
    ``random`` returns a number in [0, 1), by which retries are spread. ``host`` is the name that
    jitter is made from, ``own_user`` the number of the user whom jobs run as that name none;
    ``ends_all``: our end is that of every process, as it is of process 1 of a container;
    ``task_reader`` is given each crontab; ``most_waiting`` submitted tasks of a lane wait in
    memory, and ``most_retries`` of all that wait for their retry, ``parks_from`` or
    longer.
    """

    timekeeper: Timekeeper
    timers: Timers
    outbox: Outbox
    processes: Processes
    specify: SpecBuilder
    boot_id: str
    process_era: str
    random: Callable[[], float]
    remove_outputs: Callable[[Sequence[str]], None]
    task_reader: Callable[[Crontab], TaskJobs]
    bound_outputs: Callable[[KeptOutputs], None] = lambda _kept: None
    most_waiting: int = MOST_WAITING
    most_retries: int = MOST_RETRIES
    parks_from: timedelta = LONG_DELAY
    host: str = field(default_factory=host_name)
    own_user: str = field(default_factory=lambda: str(os.geteuid()))
    ends_all: bool = field(default_factory=lambda: os.getpid() == 1)

    def user_of(self, job: Job) -> str:
        """Return the user whom a job's processes are started as, by name or number."""
        return self.own_user if job.user is None else job.user

    def spec_of(self, active: ActiveRun) -> ProcessSpec:
        """Return the specification of a run's present attempt: as it is, or was, to be started.

        The users of attempts that have begun are theirs, whatever the job says by now. It is asked
        where nobody has entered one.
        """
        spec = self.specify(active.job, active.run, active.attempt_number)
        by_job = self.user_of(active.job) if active.is_user_known else None
        user = (active.attempt.user if active.attempt is not None else None) or by_job
        if user is not None and user == by_job and not active.earlier_users:
            return spec
        earlier = {each or by_job for each in active.earlier_users}
        return replace(
            spec,
            user=None if user == self.own_user else user,
            earlier_users=tuple(sorted({each for each in earlier if each} - {user, self.own_user})),
            is_user_known=None not in {user, *earlier},
        )

    def then_ask(self, ask: Callable[[], None]) -> None:
        """Ask the ledger for something once all that was written so far is in it."""
        self.outbox.then(partial(self.ask, ask))

    def ask(self, ask: Callable[[], None]) -> None:
        """Ask the ledger for something; where it cannot tell, again in a while."""
        try:
            ask()
        except LedgerError as error:
            log.warning("the ledger was asked and could not tell", extra=fields(reason=str(error)))
            self.timers.call_at(self.timekeeper.after(AGAIN), AskAgainDue(ask))

    def drop_timer(self, active: ActiveRun, name: str) -> None:
        """Take a timer of a run off the heap, if it has it."""
        timer = getattr(active, name)
        if timer is not None:
            self.timers.cancel(timer)
            setattr(active, name, None)


@dataclass(slots=True)
class Register:
    """Every run without an outcome, every job and every pool.

    ``tasks`` are the submitted tasks that have a run without an outcome, by their job's name.
    ``stopping_ns`` is since when it ``is_stopping``, on the monotonic clock; ``ends_runs`` says why
    processes that a stop waited for are ended, once it does so no longer.
    ``output_trouble`` says why the newest start that had an output has none that is kept.
    ``on_idle`` is told when a job's last unfinished run has ended, and at which instant;
    ``on_outcome`` when an occurrence has got its outcome, or a stretch of them. ``enter_task``
    enters the job of a run that an earlier daemon has left, if that is a task's; else it says why
    there is no such job any more. ``on_retry`` is told of a run that waits for its retry from now
    on, and until when on the monotonic clock.
    ``bring`` has those stand in line that go before all who wait for a pool's free slot, or before
    a run of some priority that comes; False: nobody is to have it yet.
    """

    shares: Shares
    runs: dict[int, ActiveRun] = field(default_factory=dict)
    states: dict[str, JobState] = field(default_factory=dict)
    tasks: dict[str, JobState] = field(default_factory=dict)
    pools: dict[str, Slots] = field(default_factory=dict)
    is_stopping: bool = False
    stopping_ns: int = 0
    ends_runs: str = ""
    output_trouble: str = ""
    on_idle: Callable[[JobState, datetime], None] = lambda _state, _at: None
    enter_task: Callable[[Run], str] = lambda _run: NOT_THERE
    bring: Callable[[Slots, int | None], bool] = lambda _slots, _priority: True
    on_outcome: Callable[[Conclusion], None] = lambda _conclusion: None
    on_retry: Callable[[ActiveRun, int], None] = lambda _active, _deadline_ns: None

    def find(self, name: str) -> JobState | None:
        """Return a job by its name, be it of a crontab or a task's."""
        return self.states.get(name) or self.tasks.get(name)

    def let_go(self, state: JobState) -> None:
        """Forget a job that is in no crontab and has no run any more."""
        self._shelf(state).pop(state.job.name, None)

    def take_back(self, state: JobState) -> None:
        """Know a job again that was let go of, and has another run after all."""
        self._shelf(state).setdefault(state.job.name, state)

    def _shelf(self, state: JobState) -> dict[str, JobState]:
        return self.tasks if state.is_task else self.states

    def current(self, key: AttemptKey) -> ActiveRun | None:
        """Return the run whose present attempt that is, if it has a process or is to get one."""
        active = self.runs.get(key.run_id)
        if active is None or active.attempt_number != key.number:
            return None
        return active if active.stage in {Stage.STARTING, Stage.RUNNING} else None

    def bounded(self, pool: str) -> Slots | None:
        """Return the slots of a pool, if there are only so many of them."""
        slots = self.pools.get(pool)
        return slots if slots is not None and slots.pool.workers is not None else None

    def slots(self, job: Job) -> Slots:
        """Return the slots of a job's pool; a submitted task may name one that is gone."""
        slots = self.pools.get(job.pool)
        if slots is None:
            slots = self.pools[job.pool] = Slots(absent_pool(job.pool), self.shares)
        return slots


def absent_pool(name: str) -> Pool:
    """Return what a pool is as long as no crontab has it: what waits for it waits until one has.

    What has a process counts in it all the same.
    """
    is_always_there = name in {DEFAULT_POOL, REMOVED_JOBS}
    return Pool(name, workers=None if is_always_there else 0)
