"""Answers the questions of ``ports.LedgerReader`` from wherever the answers are at that moment.

Not responsible for where that is, nor for damage that a question meets; a subclass sees to both.
All questions go through its one door.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TypeVar

from crond_py.ledger.aside import Aside
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.ledger.tasklists import Position
from crond_py.model import Cursor, Lane, Run, Task
from crond_py.ports import LaneStock, RunQuery, TaskQuery, WaitingRetry

Source = Aside | SqliteLedger

T = TypeVar("T")


class Answering:
    """Passes each question on."""

    def _answer(self, question: Callable[[Source], T]) -> T:
        """Put a question to what has the answer now. Raises LedgerError where nothing has."""
        raise NotImplementedError

    def run(self, run_id: int) -> Run | None:
        """Return one run with its attempts."""
        return self._answer(lambda source: source.run(run_id))

    def runs(self, query: RunQuery) -> list[Run]:
        """Return the runs that are asked for; see ``ports.RunQuery``."""
        return self._answer(lambda source: source.runs(query))

    def open_runs(self, *, with_retries: bool = True) -> list[Run]:
        """Return every run without an outcome; see ``ports.LedgerReader``."""
        return self._answer(lambda source: source.open_runs(with_retries=with_retries))

    def retries(self) -> list[WaitingRetry]:
        """Return the open runs that wait for their retry; see ``ports.LedgerReader``."""
        return self._answer(lambda source: source.retries())

    def cursors(self) -> dict[str, Cursor]:
        """Return every job's cursor."""
        return self._answer(lambda source: source.cursors())

    def last_runs(self) -> dict[str, Run]:
        """Return each job's newest run that has begun an attempt."""
        return self._answer(lambda source: source.last_runs())

    def task(self, task_id: int) -> Task | None:
        """Return one task."""
        return self._answer(lambda source: source.task(task_id))

    def tasks(self, query: TaskQuery) -> list[Task]:
        """Return the tasks that are asked for; see ``ports.TaskQuery``."""
        return self._answer(lambda source: source.tasks(query))

    def lanes(self) -> dict[Lane, LaneStock]:
        """Return every lane that has open tasks; see ``ports.LedgerReader``."""
        return self._answer(lambda source: source.lanes())

    def tasks_due(
        self, lane: Lane, *, after: Position | None, until: datetime | None, limit: int
    ) -> list[Task]:
        """Return the first open tasks of a lane; see ``ports.LedgerReader``."""
        return self._answer(
            lambda source: source.tasks_due(lane, after=after, until=until, limit=limit)
        )

    def count_due(
        self, lane: Lane, *, after: datetime | None, until: datetime | None, limit: int
    ) -> int:
        """Return how many tasks of a lane are due; see ``ports.LedgerReader``."""
        return self._answer(
            lambda source: source.count_due(lane, after=after, until=until, limit=limit)
        )
