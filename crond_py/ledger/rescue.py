"""Copies the tasks of a damaged ledger that are still needed to a fresh one, as far as can be.

These are the ones that have not ended, and whichever others it is told of: a task ends when the
last of its occurrences is claimed, and until that run has its outcome its definition is asked for.

There may be a million of them, and the engine stands still meanwhile, so SQLite copies them itself
where it can read them. A page that it cannot read takes little more with it than what is on it.

Not responsible for what else is carried over; see ``salvage``.
"""

from __future__ import annotations

import json
import sqlite3
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from crond_py.dataclass import dataclass
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


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Tasks with ids from ``begin`` to ``end``: all that have not ended, and ``ended``, as JSON."""

    begin: int
    end: int
    ended: str

    @property
    def values(self) -> dict[str, int | str]:
        """What the statements take."""
        return {"begin": self.begin, "end": self.end, "ended": self.ended}


def copy_tasks(source: sqlite3.Connection, fresh: Path, ended: Collection[int]) -> None:
    """Copy the tasks that have not ended, and those of ``ended``, to the ledger at ``fresh``.

    That has none. Raises LedgerError where it cannot be written.
    """
    queries, wanted = load_queries(), sorted(ended)
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
                _copy(source, _stretch(begin, end, wanted), lanes)
            source.execute(queries["count_copied"])
            source.execute(queries["count_ended"])
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


def _stretch(begin: int, end: int, ended: Sequence[int]) -> _Stretch:
    """Return a stretch with those of ``ended``, which are in order, that lie in it."""
    chosen = ended[bisect_left(ended, begin) : bisect_right(ended, end)]
    return _Stretch(begin, end, json.dumps(chosen))


def _copy(source: sqlite3.Connection, stretch: _Stretch, lanes: Mapping[int, Row]) -> None:
    """Copy a stretch: at once, or where some of it cannot be read, what can be."""
    queries, begin, end = load_queries(), stretch.begin, stretch.end
    source.execute("BEGIN")
    try:
        source.execute(queries["copy_tasks"], {**stretch.values, **_INSTANTS})
        for _ in source.execute(queries["copied_texts"], {"begin": begin, "end": end}):
            pass  # what is no text is found now
        source.execute("COMMIT")
    except NONSENSE:
        roll_back(source)
        stride = max(_STRIDE, (end - begin + 1) // _PARTS)
        for first_id in range(begin, end + 1, stride):
            last_id = min(first_id + stride - 1, end)
            found = _readable(source, _Stretch(first_id, last_id, stretch.ended), lanes)
            source.execute("BEGIN")
            for row in found:
                with suppress(sqlite3.IntegrityError):
                    source.execute(queries["copy_task"], row)
            source.execute("COMMIT")


def _readable(source: sqlite3.Connection, stretch: _Stretch, lanes: Mapping[int, Row]) -> list[Row]:
    """Return the rows of a stretch that make sense: before the first damage, and after the last."""
    found: dict[int, Row] = {}
    for order in ("", "DESC"):
        statement = load_queries()["rescued_tasks"].format(order=order)
        with suppress(*NONSENSE):
            for row in source.execute(statement, stretch.values):
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
