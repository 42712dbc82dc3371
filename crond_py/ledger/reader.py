"""Asks a SQLite ledger, from the process that writes it or from any other.

Not responsible for writing. ``Asking`` holds the questions; ``SqliteReader`` is a connection of
its own that only reads, whatever the state of the file: with a daemon at work, after one was
killed, or at rest.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crond_py.errors import LedgerError, UnknownNameError
from crond_py.ledger.database import (
    check_file,
    connect,
    damaged,
    in_words,
    load_migrations,
    load_queries,
    schema_version,
)
from crond_py.ledger.journal import Journal, journal_file
from crond_py.ledger.records import (
    LARGEST_ID,
    Row,
    from_us,
    to_cursor,
    to_lane,
    to_runs,
    to_text,
    to_us,
)
from crond_py.ledger.tasks import AskingTasks
from crond_py.model import Cursor, Lane, Run
from crond_py.ports import RunQuery, WaitingRetry

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

_READER_BUSY_TIMEOUT = timedelta(seconds=2)


class Asking(AskingTasks):
    """The questions of ``ports.LedgerReader``; a subclass says where the rows come from."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._identity = ""

    @property
    def identity(self) -> str:
        """The short random name that the ledger was given when it was begun."""
        return self._identity

    def run(self, run_id: int) -> Run | None:
        """Return one run with its attempts."""
        if abs(run_id) > LARGEST_ID:
            return None
        found = self._runs(load_queries()["one_run"], "r.id", [run_id])
        return found[0] if found else None

    def runs(self, query: RunQuery) -> list[Run]:
        """Return the runs that are asked for; see ``ports.RunQuery``."""
        where, values = _conditions(query)
        limit = -1 if query.limit is None else max(0, min(query.limit, LARGEST_ID))
        source = load_queries()["chosen_runs"].format(where=where)
        found = self._runs(source, "r.due DESC, r.id DESC", [*values, limit])
        if not found and query.before_id is not None and self.run(query.before_id) is None:
            message = f"there is no run {query.before_id} to go on from; ask for the newest again"
            raise UnknownNameError(message)
        return found

    def open_runs(self, *, with_retries: bool = True) -> list[Run]:
        """Return every run without an outcome; see ``ports.LedgerReader``."""
        source = "open_runs" if with_retries else "open_but_retries"
        return self._runs(load_queries()[source], "r.id")

    def retries(self) -> list[WaitingRetry]:
        """Return the open runs that wait for their retry; see ``ports.LedgerReader``."""
        lanes: dict[int, Lane] = {}
        found = []
        try:
            for run_id, lane_id, retry_at, since, *lane in self._rows(load_queries()["retries"]):
                if lane_id not in lanes:
                    lanes[lane_id] = to_lane(tuple(lane))
                delay = timedelta(microseconds=max(0, retry_at - since))
                found.append(WaitingRetry(run_id, lanes[lane_id], from_us(retry_at), delay))
        except (ValueError, TypeError, OverflowError) as error:
            message = f"a run that waits for its retry makes no sense ({error})"
            raise damaged(self._path, message) from error
        return found

    def retry_ids(self) -> list[int]:
        """Return which runs ``retries`` are."""
        return [run_id for run_id, *_ in self._rows(load_queries()["retry_ids"])]

    def rows_of(self, run_ids: Sequence[int]) -> list[Row]:
        """Return the rows that ``records.to_runs`` makes runs of."""
        source = load_queries()["runs_of_ids"]
        statement = load_queries()["runs"].format(source=source, order="r.id")
        return self._rows(statement, [json.dumps(list(run_ids))])

    def last_runs(self) -> dict[str, Run]:
        """Return each job's newest run that has begun an attempt."""
        return {run.job: run for run in self._runs(load_queries()["last_runs"], "r.id")}

    def cursors(self) -> dict[str, Cursor]:
        """Return every job's cursor."""
        rows = self._rows(load_queries()["cursors"])
        try:
            return {row[0]: to_cursor(row) for row in rows}
        except (ValueError, TypeError, OverflowError) as error:
            raise damaged(self._path, f"a cursor makes no sense ({error})") from error

    def _runs(self, source: str, order: str, values: Sequence[Any] = ()) -> list[Run]:
        statement = load_queries()["runs"].format(source=source, order=order)
        rows = self._rows(statement, values)
        try:
            return to_runs(rows)
        except (ValueError, TypeError, OverflowError) as error:
            raise damaged(self._path, f"a run makes no sense ({error})") from error


def _conditions(query: RunQuery) -> tuple[str, list[Any]]:
    """Return what a run must meet, in words of SQL, and the values that stand in them."""
    terms: list[str] = ["TRUE"]
    values: list[Any] = []
    if query.job is not None:
        terms.append("job = ?")
        values.append(to_text(query.job))
    if query.outcomes:
        chosen = sorted(outcome.value for outcome in query.outcomes)
        terms.append(f"outcome IN ({_places(chosen)})")
        values.extend(chosen)
        if "succeeded" not in chosen:
            terms.append("outcome <> 'succeeded'")  # says that runs_not_succeeded has them all
    if query.states:
        chosen = sorted(state.value for state in query.states)
        terms.append(f"state IN ({_places(chosen)})")
        values.extend(chosen)
        if "done" not in chosen:
            terms.append("outcome IS NULL")  # says that runs_open has them all
    if query.since is not None:
        since = to_us(query.since)
        terms.append("coalesce(last_due, due) >= ?")
        # The same once more, as a bound that an index on due can use: no earlier than the first
        # stretch that reaches into the time asked for.
        terms.append(
            "due >= coalesce((SELECT min(s.due) FROM runs AS s INDEXED BY runs_stretch "
            "WHERE s.last_due >= ? AND s.due < ?), ?)"
        )
        values.extend([since] * 4)
    if query.until is not None:
        terms.append("due < ?")
        values.append(to_us(query.until))
    if query.before_id is not None:
        terms.append("(due, id) < (SELECT due, id FROM runs WHERE id = ?)")
        values.append(max(-LARGEST_ID, min(query.before_id, LARGEST_ID)))
    return " AND ".join(terms), values


def _places(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


# --- a reader of its own ----------------------------------------------------------------------


class _Files(Enum):
    """Which files there are beside the ledger, which says how it can be read."""

    LIVE = auto()  # the log and its index: a daemon is at work, or was killed
    AT_REST = auto()  # no log: everything is in the ledger itself
    INDEX_GONE = auto()  # a log without its index, as in an incomplete copy


class SqliteReader(Asking):
    """A ledger that is only read; one thread at a time. Made by ``open_reader``."""

    def __init__(self, path: Path, busy_timeout: timedelta) -> None:
        super().__init__(path)
        self._busy_timeout = busy_timeout
        self._copy: TemporaryDirectory[str] | None = None
        self._connection: sqlite3.Connection | None = None
        self._files = _Files.LIVE
        self._is_closed = False
        try:
            self._identity = self._read_identity()
        except BaseException:
            self.close()
            raise

    def _read_identity(self) -> str:
        rows = self._rows(load_queries()["identity"])
        if not rows:
            raise LedgerError(_nothing_yet(self._path))
        return str(rows[0][0])

    def has_kept_aside(self) -> bool:
        """Tell whether the journal has records that the ledger has not taken, as far as is known.

        They are written while the file takes nothing, and copied to it when it does again.
        """
        try:
            journal = Journal.open_to_read(journal_file(self._path))
        except LedgerError:  # there is none, or it is not for everybody's eyes
            return False
        with closing(journal), suppress(LedgerError):
            if journal.identity == self._identity:
                applied = int(self._rows(load_queries()["journal_applied"])[0][0])
                return any(record.number > applied for record in journal.records())
        return False

    def _rows(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        """Ask; and ask again where a daemon has started meanwhile.

        A ledger at rest is read without locks, so what was read while one began to write may be
        of two minds.
        """
        with in_words(self._path):
            while True:
                connection = self._connected()
                error: sqlite3.Error | UnicodeDecodeError | None = None
                rows: list[Row] = []
                try:
                    rows = connection.execute(statement, values).fetchall()
                except (sqlite3.Error, UnicodeDecodeError) as caught:
                    error = caught
                if self._files is not _Files.LIVE and _look(self._path) is not self._files:
                    self._disconnect()
                    continue
                if error is not None:
                    raise error
                return rows

    def _connected(self) -> sqlite3.Connection:
        if self._is_closed:
            raise LedgerError(f"the ledger {self._path} cannot be used: it has been closed here")
        if self._connection is None:
            self._files = _look(self._path)
            self._connection = self._connect()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        check_file(self._path)
        match self._files:
            case _Files.LIVE:
                path, parameters = self._path, "mode=ro"
            case _Files.AT_REST:
                # Without this SQLite would make a log and an index, if it is allowed to.
                path, parameters = self._path, "mode=ro&immutable=1"
            case _Files.INDEX_GONE:
                path, parameters = self._copied(), "mode=ro"
        connection = connect(path, parameters, self._busy_timeout)
        try:
            self._check_version(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_version(self, connection: sqlite3.Connection) -> None:
        newest = load_migrations()[-1].number
        version = schema_version(connection, self._path, newest)
        if version == 0:
            raise LedgerError(_nothing_yet(self._path))
        if version < newest:
            message = (
                f"the ledger {self._path} was written by an older pycron (its version is "
                f"{version}, this pycron knows {newest}); start the daemon once to renew it"
            )
            raise LedgerError(message)

    def _copied(self) -> Path:
        """Copy the ledger and its log to where SQLite may make the index anew."""
        # Only here: the daemon never copies a ledger, and they take half a megabyte of memory.
        from shutil import copyfile  # noqa: PLC0415
        from tempfile import TemporaryDirectory  # noqa: PLC0415

        self._copy = TemporaryDirectory(prefix="pycron-ledger-")
        copy = Path(self._copy.name, "ledger")
        try:
            copyfile(self._path, copy)
            copyfile(f"{self._path}-wal", f"{copy}-wal")
        except OSError as error:
            message = f"the ledger {self._path} cannot be copied to {copy}: {error.strerror}"
            raise LedgerError(message) from error
        return copy

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._copy is not None:
            self._copy.cleanup()
            self._copy = None

    def close(self) -> None:
        """Let go of the file. Idempotent."""
        self._is_closed = True
        self._disconnect()


def _look(path: Path) -> _Files:
    if not _is_there(f"{path}-wal"):
        return _Files.AT_REST
    return _Files.LIVE if _is_there(f"{path}-shm") else _Files.INDEX_GONE


def _is_there(path: str) -> bool:
    return os.path.exists(path)  # noqa: PTH110 - Path.exists raises where one may not look


def _nothing_yet(path: Path) -> str:
    return f"the ledger {path} has nothing in it yet; run pycron with this state directory first"


def open_reader(path: Path, *, busy_timeout: timedelta = _READER_BUSY_TIMEOUT) -> SqliteReader:
    """Open a ledger to read it only; no file is made or changed for that.

    It may be used from any thread, but from one at a time. Raises LedgerError where there is no
    ledger or it cannot be read now, LedgerCorruptError where it is damaged or of a newer pycron.
    """
    return SqliteReader(Path(os.path.realpath(path)), busy_timeout)
