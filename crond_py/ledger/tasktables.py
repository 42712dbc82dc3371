"""Writes the tables of tasks in a SQLite ledger.

Not responsible for transactions: whoever calls has begun one.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any

from crond_py.errors import LedgerRefusedError
from crond_py.ledger.changes import entered
from crond_py.ledger.database import load_queries
from crond_py.ledger.records import Row, lane_row, task_row, to_us
from crond_py.model import Lane, Task, task_job
from crond_py.ports import NewTask, Submitted

Find = Callable[[str, str], Task | None]
"""Finds a task by who has submitted it and that one's key."""


class TaskTables:
    """Enters, moves on and deletes tasks, and keeps the numbers of their lanes."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection

    @property
    def last_id(self) -> int:
        """The largest id that a task has ever been given."""
        return int(self._execute("last_task_id").fetchone()[0] or 0)

    def submit(self, tasks: Sequence[NewTask], now: datetime, find: Find) -> list[Submitted]:
        """Enter tasks; see ``ports.Ledger``. ``find`` finds one that is there by its key."""
        next_id = self.last_id + 1
        new: list[Task] = []
        keyed: dict[tuple[str, str], Task] = {}
        answers: list[Submitted] = []
        for wanted in tasks:
            name, known = (wanted.submitted_by, wanted.key or ""), None
            if wanted.key is not None:
                known = keyed.get(name) or find(*name)
            task = known or entered(next_id + len(new), wanted, now)
            answers.append(Submitted(task, is_new=known is None))
            if known is None:
                new.append(task)
            if wanted.key is not None:
                keyed[name] = task
        lanes = self._lane_ids(new)
        rows = [task_row(task, lanes[task.lane]) for task in new]
        self._connection.executemany(load_queries()["insert_task"], rows)
        for lane, number in Counter(task.lane for task in new).items():
            self._execute("count_lane", [number, number, lanes[lane]])
        return answers

    def _lane_ids(self, tasks: Iterable[Task]) -> dict[Lane, int]:
        ids: dict[Lane, int] = {}
        for task in tasks:
            if task.lane not in ids:
                row = lane_row(task.lane)
                self._execute("put_lane", row)
                ids[task.lane] = self._execute("lane_id", row).fetchone()[0]
        return ids

    def move(self, row: Row) -> None:
        """Move a task on to another due instant, or to its end."""
        _, ended_us, task_id = row
        stands = self._execute("task_stands", [task_id]).fetchone()
        if stands is None:
            raise LedgerRefusedError(f"the ledger has no task {task_id}, so it cannot change")
        lane_id, was_open = stands
        self._execute("update_task", row)
        is_open = ended_us is None
        if is_open != was_open:
            self._execute("count_lane", [is_open - was_open, 0, lane_id])

    def enter(self, tasks: Sequence[Task]) -> int:
        """Enter tasks of another ledger under their own ids; return how many could be.

        Those that are there already stay as they are; what makes no sense is left out.
        """
        lanes: dict[Lane, int | None] = {}
        stored, opened = Counter[int](), Counter[int]()
        for task in tasks:
            if task.lane not in lanes:
                lanes[task.lane] = self._lane_id_or_none(task)
            lane_id = lanes[task.lane]
            if lane_id is not None and self._is_entered(task_row(task, lane_id)):
                stored[lane_id] += 1
                opened[lane_id] += task.ended_at is None
        for lane_id, number in stored.items():
            self._execute("count_lane", [opened[lane_id], number, lane_id])
        return stored.total()

    def _lane_id_or_none(self, task: Task) -> int | None:
        try:
            return self._lane_ids([task])[task.lane]
        except (sqlite3.IntegrityError, OverflowError):
            return None

    def _is_entered(self, row: Row) -> bool:
        try:
            self._execute("insert_task", row)
        except (sqlite3.IntegrityError, OverflowError):
            return False
        return True

    def to_prune(self, older_than: datetime, limit: int) -> tuple[list[Row], list[int]]:
        """Return the tasks that can go, with their lanes, and the runs that go with them.

        No more of either than ``limit``: a task that has more runs stays until these are gone.
        """
        values = {"older_than": to_us(older_than), "limit": max(0, limit)}
        tasks: list[Row] = []
        runs: list[int] = []
        for task in self._execute("tasks_to_prune", values).fetchall():
            room = limit - len(runs)
            found = self._execute("runs_of_task", [task_job(task[0]), room + 1]).fetchall()
            runs += [row[0] for row in found[:room]]
            if len(found) > room:
                break
            tasks.append(task)
        return tasks, runs

    def delete(self, tasks: Sequence[Row]) -> None:
        """Delete tasks, given with their lanes, that have ended."""
        self._connection.executemany(load_queries()["delete_task"], [row[:1] for row in tasks])
        for lane_id, number in Counter(row[1] for row in tasks).items():
            self._execute("count_lane", [0, -number, lane_id])
        self._execute("delete_lanes")

    def raise_last_id(self, last_id: int) -> None:
        """Have no task get an id up to ``last_id``."""
        self._execute("begin_task_ids")
        self._execute("raise_last_task_id", [last_id])

    def _execute(self, name: str, values: Sequence[Any] | dict[str, Any] = ()) -> sqlite3.Cursor:
        return self._connection.execute(load_queries()[name], values)
