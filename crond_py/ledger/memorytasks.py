"""The tasks of a ledger in memory: what the tables of the real one do with them.

Not responsible for transactions, see ``undo``, nor for the runs of the tasks; see ``memory``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from crond_py.errors import LedgerRefusedError
from crond_py.ledger.changes import entered, moved
from crond_py.ledger.records import LARGEST_ID
from crond_py.ledger.tasklists import chosen
from crond_py.ledger.undo import Undo
from crond_py.model import Task
from crond_py.policy import TICK
from crond_py.ports import NewTask, SetTask, Submitted, TaskQuery


class MemoryTasks:
    """Tasks by their ids."""

    def __init__(self) -> None:
        self.by_id: dict[int, Task] = {}
        self._last = {"id": 0}

    @property
    def last_id(self) -> int:
        """The largest id that a task has been given."""
        return self._last["id"]

    def hold(self, tasks: Iterable[Task], last_id: int) -> None:
        """Have tasks as they are; not a write, so it is never undone."""
        self.by_id.update((task.id, task) for task in tasks)
        self._last["id"] = last_id

    def listed(self, query: TaskQuery) -> list[Task]:
        """Return the tasks that are asked for; see ``ports.TaskQuery``."""
        return chosen(self.by_id.values(), query)

    def submit(self, tasks: Sequence[NewTask], now: datetime, undo: Undo) -> list[Submitted]:
        """Enter tasks; see ``ports.Ledger``."""
        known = {
            (task.submitted_by, task.key): task
            for task in self.by_id.values()
            if task.key is not None
        }
        answers: list[Submitted] = []
        for wanted in tasks:
            name = None if wanted.key is None else (wanted.submitted_by, wanted.key)
            before = None if name is None else known.get(name)
            task = before or self._enter(wanted, now, undo)
            answers.append(Submitted(task, is_new=before is None))
            if name is not None:
                known[name] = task
        return answers

    def _enter(self, wanted: NewTask, now: datetime, undo: Undo) -> Task:
        task = entered(self.last_id + 1, wanted, now)
        _check(task)
        undo.put(self._last, "id", task.id)
        undo.put(self.by_id, task.id, task)
        return task

    def move(self, write: SetTask, undo: Undo) -> None:
        """Move a task on, or end it."""
        task = self.by_id.get(write.task_id)
        if task is None:
            message = f"the ledger has no task {write.task_id}, so it cannot change"
            raise LedgerRefusedError(message)
        undo.put(self.by_id, task.id, moved(task, write))

    def to_prune(self, older_than: datetime, is_free: Callable[[Task], bool]) -> list[Task]:
        """Return the tasks that ended before an instant, the first first, if they ``is_free``."""
        ended = [
            (task.ended_at, task.id, task)
            for task in self.by_id.values()
            if task.ended_at is not None and task.ended_at < older_than and is_free(task)
        ]
        return [task for *_, task in sorted(ended)]


def _check(task: Task) -> None:
    """Refuse what the tables of the real ledger refuse."""
    lane, period = task.lane, task.period
    check_text(lane.pool, lane.group, task.definition, task.submitted_by, task.key or "")
    if abs(lane.priority) > LARGEST_ID:
        raise LedgerRefusedError(f"a priority of {lane.priority} is too large")
    if period is not None and not TICK <= period <= LARGEST_ID * TICK:
        raise LedgerRefusedError(f"a task cannot come again each {period}")


def check_text(*texts: str) -> None:
    """Refuse what is no text."""
    try:
        "".join(texts).encode()
    except UnicodeEncodeError as error:
        raise LedgerRefusedError(f"no text that can be kept: {error}") from error
