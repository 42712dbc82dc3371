"""What the engine's parts share: the seams, the register of jobs and runs, the way to log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from datetime import datetime
from random import Random
from typing import Protocol

from crond_py.crontab.model import Job, Pool
from crond_py.dataclass import dataclass
from crond_py.engine.outbox import Outbox
from crond_py.engine.pools import Shares, Slots
from crond_py.engine.records import ActiveRun, Conclusion, JobState, Stage
from crond_py.engine.timekeeper import Timekeeper
from crond_py.model import Run
from crond_py.ports import AttemptKey, KeptOutputs, Processes, ProcessSpec, Timers
from crond_py.timetable import host_name


class SpecBuilder(Protocol):
    """Makes the specification of a process from a job, its run, and the attempt's number."""

    def __call__(self, job: Job, run: Run, attempt: int) -> ProcessSpec:
        """Return what the runner needs."""
        ...


@dataclass(slots=True)
class Parts:
    """What the engine is built from. ``host`` is the name that jitter is made from."""

    timekeeper: Timekeeper
    timers: Timers
    outbox: Outbox
    processes: Processes
    specify: SpecBuilder
    boot_id: str
    random: Random
    remove_outputs: Callable[[Sequence[str]], None]
    bound_outputs: Callable[[KeptOutputs], None] = lambda _kept: None
    host: str = field(default_factory=host_name)

    def drop_timer(self, active: ActiveRun, name: str) -> None:
        """Take a timer of a run off the heap, if it has it."""
        timer = getattr(active, name)
        if timer is not None:
            self.timers.cancel(timer)
            setattr(active, name, None)


@dataclass(slots=True)
class Register:
    """Every run without an outcome, every job and every pool.

    ``output_trouble`` says why the newest start that had an output has none that is kept.
    ``on_idle`` is told when a job's last unfinished run has ended, and at which instant;
    ``on_outcome`` when an occurrence has got its outcome, or a stretch of them.
    """

    runs: dict[int, ActiveRun] = field(default_factory=dict)
    states: dict[str, JobState] = field(default_factory=dict)
    pools: dict[str, Slots] = field(default_factory=dict)
    shares: Shares = field(default_factory=Shares)
    is_stopping: bool = False
    output_trouble: str = ""
    on_idle: Callable[[JobState, datetime], None] = lambda _state, _at: None
    on_outcome: Callable[[Conclusion], None] = lambda _conclusion: None

    def current(self, key: AttemptKey) -> ActiveRun | None:
        """Return the run whose present attempt that is, if it has a process or is to get one."""
        active = self.runs.get(key.run_id)
        if active is None or active.attempt_number != key.number:
            return None
        return active if active.stage in {Stage.STARTING, Stage.RUNNING} else None

    def slots(self, job: Job) -> Slots:
        """Return the slots of a job's pool; a removed job may name one that is gone."""
        slots = self.pools.get(job.pool)
        if slots is None:
            slots = self.pools[job.pool] = Slots(Pool(job.pool), self.shares)
        return slots
