"""A scheduler on a fake clock, and ways for a test to follow it without waiting for time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Self

from crond_py.scheduler import Scheduler, Task, TaskState
from tests.support.clock import FakeClock

PATIENCE = 30.0
"""Seconds after which a test that waits for an event fails instead of hanging."""

_LAST = -(10**9)


class Gate:
    """A callable that holds its worker until it is opened; it opens once, for all calls."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self._is_open = threading.Event()

    def __call__(self) -> None:
        """Hold the worker."""
        self.entered.release()
        assert self._is_open.wait(PATIENCE), "nobody opened the gate"

    def await_entry(self) -> None:
        """Wait until one more call has begun."""
        assert self.entered.acquire(timeout=PATIENCE), "the task was not called"

    def open(self) -> None:
        """Let all go on."""
        self._is_open.set()


class Bench:
    """A scheduler, its clock, and a list of what was called at which second of the bench."""

    def __init__(self, workers: int = 1) -> None:
        self.clock = FakeClock()
        self.scheduler = Scheduler(workers, self.clock)
        self.calls: list[tuple[str, float]] = []
        self._start_ns = self.clock.monotonic_ns()
        self._gates: list[Gate] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for gate in self._gates:
            gate.open()
        self.scheduler.shutdown()

    def second(self) -> float:
        """Return how many seconds the bench is old."""
        return (self.clock.monotonic_ns() - self._start_ns) / 1_000_000_000

    def note(self, name: str) -> Callable[[], None]:
        """Return a callable that notes when it is called."""
        return lambda: self.calls.append((name, self.second()))

    def gate(self) -> Gate:
        """Return a gate that is opened at the latest when the bench ends."""
        gate = Gate()
        self._gates.append(gate)
        return gate

    def settle(self) -> None:
        """Wait until all that is due now has run; one worker at most may be free for it."""
        barrier = self.scheduler.schedule_after(0, _nothing, priority=_LAST)
        assert barrier.wait(PATIENCE), "the scheduler does not get on"

    def await_that(self, task: Task, is_so: Callable[[], bool]) -> None:
        """Wait until something holds of a task; it is looked at whenever the task gets on."""
        record, lock = task._record, self.scheduler._lifecycle.lock
        with lock:
            record.changed = record.changed or threading.Condition(lock)
            assert record.changed.wait_for(is_so, PATIENCE), record

    def await_state(self, task: Task, state: TaskState) -> None:
        """Wait until a task stands there."""
        self.await_that(task, lambda: task.state is state)

    def advance(self, *seconds: float) -> None:
        """Let time pass in steps, and let run what is due after each."""
        for step in seconds:
            self.settle()
            self.clock.advance(timedelta(seconds=step))
            self.settle()

    def called_at(self, name: str) -> list[float]:
        """Return the seconds at which a name was noted."""
        return [second for called, second in self.calls if called == name]


def _nothing() -> None:
    pass
