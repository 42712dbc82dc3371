"""Asks a SQLite ledger for its tasks.

Not responsible for writing them (``tasktables``), nor for where the rows come from (``reader``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from crond_py.ledger.database import damaged, load_queries
from crond_py.ledger.records import (
    LARGEST_ID,
    Row,
    from_us,
    lane_row,
    to_lane,
    to_task,
    to_text,
    to_us,
)
from crond_py.model import Lane, Task
from crond_py.ports import LaneStock, TaskQuery

Position = tuple[datetime, int]
"""A place in the order of tasks: due and id."""

_NONSENSE = (ValueError, TypeError, OverflowError)
_BEFORE_ALL = (-LARGEST_ID, 0)


class AskingTasks:
    """The questions about tasks of ``ports.LedgerReader``; a subclass gets the rows."""

    _path: Path

    def _rows(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        raise NotImplementedError

    def task(self, task_id: int) -> Task | None:
        """Return one task."""
        if abs(task_id) > LARGEST_ID:
            return None
        found = self._tasks(load_queries()["one_task"], "t.id", [task_id])
        return found[0] if found else None

    def task_of_key(self, submitted_by: str, key: str) -> Task | None:
        """Return the task that its submitter calls ``key``."""
        values = [to_text(submitted_by), to_text(key)]
        found = self._tasks(load_queries()["task_of_key"], "t.id", values)
        return found[0] if found else None

    def tasks(self, query: TaskQuery) -> list[Task]:
        """Return the tasks that are asked for; see ``ports.TaskQuery``."""
        limit = -1 if query.limit is None else max(0, min(query.limit, LARGEST_ID))
        where, values = _conditions(query)
        values |= {"limit": limit}
        if query.is_open:
            values |= _position(query.after)
            return self._tasks(_source("open_tasks", where), "t.due, t.id", values)
        last_id = LARGEST_ID if query.after is None else query.after[1]
        values |= {"before": max(-LARGEST_ID, min(last_id, LARGEST_ID))}
        return self._tasks(_source("chosen_tasks", where), "t.id DESC", values)

    def lanes(self) -> dict[Lane, LaneStock]:
        """Return every lane with open tasks; see ``ports.LedgerReader``."""
        rows = self._rows(load_queries()["lanes"])
        try:
            return {to_lane(row[:4]): LaneStock(row[4], from_us(row[5])) for row in rows}
        except _NONSENSE as error:
            raise damaged(self._path, f"a lane makes no sense ({error})") from error

    def tasks_due(
        self, lane: Lane, *, after: Position | None, until: datetime | None, limit: int
    ) -> list[Task]:
        """Return the first open tasks of a lane; see ``ports.LedgerReader``."""
        lane_id = self._lane_id(lane)
        if lane_id is None:
            return []
        values = {
            **_position(after),
            "lane": lane_id,
            "until": LARGEST_ID if until is None else to_us(until),
            "limit": max(0, min(limit, LARGEST_ID)),
        }
        return self._tasks(load_queries()["tasks_due"], "t.due, t.id", values)

    def count_due(
        self, lane: Lane, *, after: datetime | None, until: datetime | None, limit: int
    ) -> int:
        """Return how many open tasks of a lane are due; see ``ports.LedgerReader``."""
        lane_id = self._lane_id(lane)
        if lane_id is None:
            return 0
        most = max(0, min(limit, LARGEST_ID))
        values = {**_between(after, until), "lane": lane_id, "limit": most}
        return int(self._rows(load_queries()["count_due"], values)[0][0])

    def open_among(
        self,
        task_ids: Iterable[int],
        *,
        after: datetime | None = None,
        until: datetime | None = None,
    ) -> dict[Lane, int]:
        """Return how many of some tasks have not ended and are due then, by their lane."""
        values = {**_between(after, until), "ids": json.dumps(list(task_ids))}
        rows = self._rows(load_queries()["open_among"], values)
        return {to_lane(row[:4]): row[4] for row in rows}

    def _lane_id(self, lane: Lane) -> int | None:
        if abs(lane.priority) > LARGEST_ID:
            return None
        rows = self._rows(load_queries()["lane_id"], lane_row(lane))
        return rows[0][0] if rows else None

    def _tasks(
        self, source: str, order: str, values: Sequence[Any] | Mapping[str, Any]
    ) -> list[Task]:
        statement = load_queries()["tasks"].format(source=source, order=order)
        rows = self._rows(statement, values)
        try:
            return [to_task(row) for row in rows]
        except _NONSENSE as error:
            raise damaged(self._path, f"a task makes no sense ({error})") from error


def _conditions(query: TaskQuery) -> tuple[str, dict[str, Any]]:
    """Return what a task must meet, in words of SQL, and the values that stand in them."""
    terms = ["TRUE"]
    values: dict[str, Any] = {}
    if query.is_open is False:
        terms.append("ended_at IS NOT NULL")
    if query.submitted_by is not None:
        terms.append("submitted_by = :submitted_by")
        values["submitted_by"] = to_text(query.submitted_by)
    return " AND ".join(terms), values


def _source(name: str, where: str) -> str:
    return load_queries()[name].format(where=where)


def _between(after: datetime | None, until: datetime | None) -> dict[str, int]:
    """Return the values of a stretch of due instants without its first; None: no such bound."""
    return {
        "after": _BEFORE_ALL[0] if after is None else to_us(after),
        "until": LARGEST_ID if until is None else to_us(until),
    }


def _position(after: Position | None) -> dict[str, int]:
    """Return the values of a place that is itself left out; None: before all."""
    due_us, task_id = _BEFORE_ALL if after is None else (to_us(after[0]), after[1])
    return {"due": due_us, "id": max(-LARGEST_ID, min(task_id, LARGEST_ID))}
