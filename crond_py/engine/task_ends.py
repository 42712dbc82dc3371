"""Who waits for the end of submitted tasks, and is told of it.

A task is over when nothing of it is to come and none of its runs goes on, and the ledger says so.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from crond_py.engine.parts import Parts, Register
from crond_py.errors import UnknownNameError
from crond_py.model import Run, task_id_of, task_job
from crond_py.ports import Ledger, RunQuery

TaskEnded = Callable[[Run | None], None]
"""Takes the newest run of a task that is over; None where it is forgotten by now."""


class TaskEnds:
    """Keeps who waits, by task."""

    def __init__(self, parts: Parts, register: Register, ledger: Ledger) -> None:
        self._parts = parts
        self._register = register
        self._ledger = ledger
        self._waiting: dict[int, list[TaskEnded]] = {}

    def wait(self, task_id: int, callback: TaskEnded) -> None:
        """Call back once a task is over. Raises UnknownNameError, and LedgerError."""
        if self._ledger.task(task_id) is None:
            raise UnknownNameError(f"there is no task {task_id}")
        self._waiting.setdefault(task_id, []).append(callback)
        self._parts.then_ask(partial(self._look, task_id))

    def forget(self, task_id: int, callback: TaskEnded) -> None:
        """Do not call back any more; nobody waits."""
        waiting = self._waiting.get(task_id, [])
        if callback in waiting:
            waiting.remove(callback)
        if not waiting:
            self._waiting.pop(task_id, None)

    def concluded(self, job: str) -> None:
        """Take word that an occurrence of a task has got its outcome."""
        task_id = task_id_of(job)
        if task_id in self._waiting:
            # By then the ledger has it, and the run is not among those that go on any more.
            self._parts.then_ask(partial(self._look, task_id))

    def _look(self, task_id: int) -> None:
        name = task_job(task_id)
        state = self._register.tasks.get(name)
        if state is not None and (state.active or state.queued):
            return
        task = self._ledger.task(task_id)
        if task is not None and task.ended_at is None:
            return
        run = next(iter(self._ledger.runs(RunQuery(job=name, limit=1))), None)
        if run is not None and run.outcome is None:
            return  # it is parked
        for callback in self._waiting.pop(task_id, []):
            callback(run)
