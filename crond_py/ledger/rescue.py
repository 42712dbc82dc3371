"""Copies the tasks of a damaged ledger that have not ended to a fresh one, as far as can be.

There may be a million of them, and the engine stands still meanwhile, so SQLite copies them itself
where it can read them. A page that it cannot read takes little more with it than what is on it.

Not responsible for what else is carried over; see ``salvage``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from crond_py.ledger.database import in_words, load_queries, roll_back, uri
from crond_py.ledger.records import LARGEST_ID, Row, to_lane, to_task, to_us
from crond_py.model import task_id_of

NONSENSE = (sqlite3.Error, UnicodeDecodeError, ValueError, TypeError, OverflowError)
"""What reading damage, or making sense of it, ends in."""

_STRIDE = 1000
"""How many ids are looked through at once where some cannot be read: those of some fifty pages."""

_PARTS = 10
_AT_ONCE = _PARTS * _STRIDE
"""How many are copied at once where all of them can."""

_INSTANTS = {
    "first": to_us(datetime.min.replace(tzinfo=UTC)),
    "last": to_us(datetime.max.replace(tzinfo=UTC)),
}


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


def copy_open_tasks(source: sqlite3.Connection, fresh: Path) -> None:
    """Copy the tasks to the ledger at ``fresh``, which has none. LedgerError where it can't be."""
    queries = load_queries()
    if first(source, queries["has_tasks"]) != 1:
        return  # it cannot be read at all, or is of a pycron that had none
    lanes = _lanes(source)
    with in_words(fresh):
        source.execute("ATTACH DATABASE ? AS fresh", [uri(fresh, "mode=rw")])
        try:
            source.execute("PRAGMA fresh.synchronous = NORMAL")
            for lane_id, lane in lanes.items():
                source.execute(queries["copy_lane"], (lane_id, *lane))
            for begin, end in _stretches(source):
                _copy(source, begin, end, lanes)
            source.execute(queries["count_copied"])
            source.execute(queries["delete_bare_lanes"])
        finally:
            source.execute("DETACH DATABASE fresh")


def _stretches(source: sqlite3.Connection) -> Iterator[tuple[int, int]]:
    """Yield stretches of ids, so that they have every task."""
    begin, stride = 1, _STRIDE
    while begin < LARGEST_ID:
        try:
            found = source.execute("SELECT min(id) FROM main.tasks WHERE id >= ?", [begin])
            (next_id,) = found.fetchone()
        except NONSENSE:
            stride *= 2  # so that there is an end where nothing at all can be read
        else:
            if next_id is None:
                return
            begin, stride = next_id, _AT_ONCE
        end = min(begin + stride - 1, LARGEST_ID)
        yield begin, end
        begin = end + 1


def _copy(source: sqlite3.Connection, begin: int, end: int, lanes: Mapping[int, Row]) -> None:
    """Copy a stretch: at once, or where some of it cannot be read, what can be."""
    queries, bounds = load_queries(), {"begin": begin, "end": end}
    source.execute("BEGIN")
    try:
        source.execute(queries["copy_tasks"], {**bounds, **_INSTANTS})
        for _ in source.execute(queries["copied_texts"], bounds):
            pass  # what is no text is found now
        source.execute("COMMIT")
    except NONSENSE:
        roll_back(source)
        stride = max(_STRIDE, (end - begin + 1) // _PARTS)
        for first_id in range(begin, end + 1, stride):
            found = _readable(source, first_id, min(first_id + stride - 1, end), lanes)
            source.execute("BEGIN")
            for row in found:
                with suppress(sqlite3.IntegrityError):
                    source.execute(queries["copy_task"], row)
            source.execute("COMMIT")


def _readable(
    source: sqlite3.Connection, begin: int, end: int, lanes: Mapping[int, Row]
) -> list[Row]:
    """Return the rows of a stretch that make sense: before the first damage, and after the last."""
    found: dict[int, Row] = {}
    for order in ("", "DESC"):
        statement = load_queries()["rescued_tasks"].format(order=order)
        with suppress(*NONSENSE):
            for row in source.execute(statement, {"begin": begin, "end": end}):
                found[row[0]] = row
            break  # all of it can be read
    return [found[task_id] for task_id in sorted(found) if _makes_sense(found[task_id], lanes)]


def _makes_sense(row: Row, lanes: Mapping[int, Row]) -> bool:
    task_id, lane_id, *rest = row
    with suppress(*NONSENSE, KeyError):
        to_task((task_id, *lanes[lane_id], *rest))
        return True
    return False


def _lanes(source: sqlite3.Connection) -> Mapping[int, Row]:
    """Return the lanes by their ids, from the table and from its index, which has it all, too."""
    found: dict[int, Row] = {}
    for choice in ("INDEXED BY lanes_names ORDER BY pool", "NOT INDEXED ORDER BY id"):
        for order in ("", " DESC"):
            statement = load_queries()["rescued_lanes"].format(order=choice + order)
            for lane_id, *lane in rows(source, statement, ()):
                with suppress(*NONSENSE):
                    to_lane(tuple(lane))
                    found[lane_id] = tuple(lane)
    return found
