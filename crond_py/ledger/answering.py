"""Answers the questions of ``ports.LedgerReader`` from wherever the answers are at that moment.

Not responsible for where that is; a subclass says so, each time anew.
"""

from __future__ import annotations

from datetime import datetime

from crond_py.ledger.aside import Aside
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.ledger.tasklists import Position
from crond_py.model import Cursor, Lane, Run, Task
from crond_py.ports import LaneStock, RunQuery, TaskQuery

Source = Aside | SqliteLedger


class Answering:
    """Passes each question on."""

    def _source(self) -> Source:
        """Return what is to be asked now. Raises LedgerError where nothing is."""
        raise NotImplementedError

    def run(self, run_id: int) -> Run | None:
        """Return one run with its attempts."""
        return self._source().run(run_id)

    def runs(self, query: RunQuery) -> list[Run]:
        """Return the runs that are asked for; see ``ports.RunQuery``."""
        return self._source().runs(query)

    def open_runs(self) -> list[Run]:
        """Return every run without an outcome, oldest claim first."""
        return self._source().open_runs()

    def cursors(self) -> dict[str, Cursor]:
        """Return every job's cursor."""
        return self._source().cursors()

    def last_runs(self) -> dict[str, Run]:
        """Return each job's newest run that has begun an attempt."""
        return self._source().last_runs()

    def task(self, task_id: int) -> Task | None:
        """Return one task."""
        return self._source().task(task_id)

    def tasks(self, query: TaskQuery) -> list[Task]:
        """Return the tasks that are asked for; see ``ports.TaskQuery``."""
        return self._source().tasks(query)

    def lanes(self) -> dict[Lane, LaneStock]:
        """Return every lane that has open tasks; see ``ports.LedgerReader``."""
        return self._source().lanes()

    def tasks_due(
        self, lane: Lane, *, after: Position | None, until: datetime | None, limit: int
    ) -> list[Task]:
        """Return the first open tasks of a lane; see ``ports.LedgerReader``."""
        return self._source().tasks_due(lane, after=after, until=until, limit=limit)
