"""A task: what the scheduler keeps of it, and the handle its owner gets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING

from crond_py.dataclass import dataclass
from crond_py.model import State
from crond_py.ports import Timer
from crond_py.scheduler.options import Settings
from crond_py.scheduler.triggers import Trigger

if TYPE_CHECKING:
    from crond_py.scheduler.lifecycle import Lifecycle


class TaskState(StrEnum):
    """Where a task stands. A task that does several things at once is the first that applies."""

    RUNNING = "running"
    QUEUED = "queued"  # due, and waits for a worker
    WAITING_RETRY = "waiting_retry"
    SCHEDULED = "scheduled"
    CANCELLED = "cancelled"
    FINISHED = "finished"  # it will not run again


@dataclass(slots=True, eq=False)
class Run:
    """One turn of a task with all its attempts.

    ``timer`` is its place among the ready runs while queued, and on the heap while it waits for a
    retry. ``DONE`` is for good: whoever still holds the run lets it go.
    """

    record: Record
    state: State = State.QUEUED
    attempt: int = 0
    timer: Timer | None = None


@dataclass(slots=True, eq=False)
class Record:
    """What the scheduler keeps of a task; guarded by the lifecycle's lock.

    ``active`` are the runs that are queued, running or waiting for a retry; ``backlog`` is how
    many turns wait for those to end. ``changed`` is made when somebody waits for the task.
    """

    settings: Settings
    call: Callable[[], object]
    trigger: Trigger
    timer: Timer | None = None
    active: list[Run] = field(default_factory=list)
    backlog: int = 0
    is_cancelled: bool = False
    runs: int = 0
    failures: int = 0
    skipped: int = 0
    last_result: object = None
    last_error: BaseException | None = None
    changed: threading.Condition | None = None

    @property
    def is_over(self) -> bool:
        """True when nothing of the task is left to come."""
        if self.active or self.backlog:
            return False
        return self.is_cancelled or self.trigger.is_exhausted

    @property
    def state(self) -> TaskState:
        """Where the task stands."""
        states = {run.state for run in self.active}
        for active in (State.RUNNING, State.QUEUED, State.WAITING_RETRY):
            if active in states:
                return TaskState(active.value)
        if self.is_cancelled:
            return TaskState.CANCELLED
        return TaskState.FINISHED if self.trigger.is_exhausted else TaskState.SCHEDULED


class Task:
    """The handle of something scheduled: look at it, wait for it, cancel it.

    Safe to use from any thread, also from inside the task itself, except that a task cannot wait
    for its own end.
    """

    __slots__ = ("_lifecycle", "_record")

    def __init__(self, record: Record, lifecycle: Lifecycle) -> None:
        self._record = record
        self._lifecycle = lifecycle

    @property
    def name(self) -> str:
        """What the task is called in logs."""
        return self._record.settings.name

    @property
    def priority(self) -> int:
        """Who goes first, higher first."""
        return self._record.settings.priority

    @property
    def state(self) -> TaskState:
        """Where the task stands now."""
        with self._lifecycle.lock:
            return self._record.state

    @property
    def next_due(self) -> datetime | None:
        """When it is due next by the wall clock as it is set now (UTC); None if that is unknown.

        It is unknown when nothing is to come, and while a fixed delay has not begun. A retry is
        not a due instant.
        """
        return self._lifecycle.next_due(self._record)

    @property
    def runs(self) -> int:
        """How many runs have ended, whatever their end; a run and its retries count once."""
        return self._record.runs

    @property
    def failures(self) -> int:
        """How many runs ended with an exception, after the last attempt."""
        return self._record.failures

    @property
    def skipped(self) -> int:
        """How many turns were dropped by the overlap policy."""
        return self._record.skipped

    @property
    def last_result(self) -> object:
        """What the newest attempt returned; None if it raised, or there was none."""
        return self._record.last_result

    @property
    def last_error(self) -> BaseException | None:
        """What the newest attempt raised; None if it returned, or there was none."""
        return self._record.last_error

    def cancel(self) -> bool:
        """Take back all that is still to come; True if there was anything.

        That is what is due later, runs that wait for a worker or a retry, and further attempts of
        one that is running. A running call itself goes on: it cannot be interrupted.
        """
        return self._lifecycle.cancel(self._record)

    def wait(self, timeout: float | None = None, *, runs: int | None = None) -> bool:
        """Wait until the task is over, or until ``runs`` of its runs have ended.

        Over means that nothing of it is running or to come. ``timeout`` is the caller's own
        patience, in seconds of real time whatever clock the scheduler has; False when it ran out,
        or when the task is over with fewer runs.
        """
        return self._lifecycle.wait_for(self._record, timeout, runs)

    def belongs_to(self, lifecycle: Lifecycle) -> bool:
        """Say whether it was scheduled there."""
        return self._lifecycle is lifecycle

    def __repr__(self) -> str:
        return f"<Task {self.name!r} {self.state}>"
