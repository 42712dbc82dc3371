"""Reads the tasks of a damaged ledger that have not ended, as far as they can be read.

There may be a million of them, so they are given a part at a time. A page that cannot be read
takes little more with it than what is on it. Not responsible for where they go; see ``salvage``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress

from crond_py.ledger.records import LARGEST_ID, Row, to_lane, to_task
from crond_py.model import Task, task_id_of

NONSENSE = (sqlite3.Error, UnicodeDecodeError, ValueError, TypeError, OverflowError)
"""What reading damage, or making sense of it, ends in."""

_STRIDE = 1000
"""How many ids are looked through at once: some fifty pages."""

_LANES = 'SELECT id, pool, priority, "group", scale FROM lanes'
_TASKS = (
    "SELECT id, lane_id, due, period, definition, key, submitted_by, submitted_at, ended_at "
    "FROM tasks NOT INDEXED WHERE ended_at IS NULL AND id BETWEEN ? AND ? ORDER BY id"
)


def first(connection: sqlite3.Connection, statement: str, values: Iterable[object] = ()) -> object:
    """Return the first value, or None where it cannot be read."""
    with suppress(*NONSENSE):
        row = connection.execute(statement, tuple(values)).fetchone()
        return row[0] if row else None
    return None


def rows(connection: sqlite3.Connection, statement: str, values: Iterable[object]) -> list[Row]:
    """Return the rows up to the first that cannot be read."""
    found: list[Row] = []
    with suppress(*NONSENSE):
        found.extend(connection.execute(statement, tuple(values)))
    return found


def last_task_id(connection: sqlite3.Connection) -> int:
    """Return the largest id of a task that anything tells of; 0: nothing does."""
    known = [
        first(connection, "SELECT seq FROM sqlite_sequence WHERE name = 'tasks'"),
        first(connection, "SELECT max(id) FROM tasks"),
        first(connection, "SELECT max(id) FROM tasks INDEXED BY tasks_open WHERE ended_at IS NULL"),
    ]
    jobs = rows(connection, "SELECT job FROM runs WHERE job GLOB 'task:*' AND outcome IS NULL", ())
    known += [task_id_of(job) for (job,) in jobs if isinstance(job, str)]
    return max((number for number in known if isinstance(number, int)), default=0)


def open_tasks(connection: sqlite3.Connection) -> Iterator[list[Task]]:
    """Yield the tasks, in order of their ids, a part at a time."""
    lanes = _lanes(connection)
    begin, stride = 0, _STRIDE
    while begin < LARGEST_ID:
        end = begin + stride - 1
        try:
            found = connection.execute("SELECT min(id) FROM tasks WHERE id >= ?", [begin])
            (next_id,) = found.fetchone()
        except NONSENSE:
            stride *= 2  # so that there is an end where nothing at all can be read
        else:
            if next_id is None:
                return
            begin, end, stride = next_id, next_id + _STRIDE - 1, _STRIDE
        tasks = _between(connection, begin, min(end, LARGEST_ID), lanes)
        if tasks:
            yield tasks
        begin = end + 1


def _lanes(connection: sqlite3.Connection) -> Mapping[int, Row]:
    """Return the lanes by their ids, from the table and from its index, which has it all, too."""
    found: dict[int, Row] = {}
    for source in ("INDEXED BY lanes_names ORDER BY pool", "NOT INDEXED ORDER BY id"):
        for order in ("", "DESC"):
            for lane_id, *lane in rows(connection, f"{_LANES} {source} {order}", ()):
                with suppress(*NONSENSE):
                    to_lane(tuple(lane))
                    found[lane_id] = tuple(lane)
    return found


def _between(
    connection: sqlite3.Connection, begin: int, end: int, lanes: Mapping[int, Row]
) -> list[Task]:
    """Return the tasks with ids in a range: those before the first damage, and after the last."""
    found: dict[int, Row] = {}
    for order in ("", " DESC"):
        with suppress(*NONSENSE):
            for row in connection.execute(f"{_TASKS}{order}", [begin, end]):
                found[row[0]] = row
            break  # all of it can be read
    tasks: list[Task] = []
    for task_id, lane_id, *rest in (found[key] for key in sorted(found)):
        with suppress(*NONSENSE, KeyError):
            tasks.append(to_task((task_id, *lanes[lane_id], *rest)))
    return tasks
