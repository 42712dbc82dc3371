"""The ledger in an SQLite file: writing it, and the door to reading it.

Not responsible for who may write: ``lock.StateLock`` sees to that there is one daemon.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime, timedelta
from itertools import groupby
from pathlib import Path
from typing import Any, Self

from crond_py.errors import LedgerError, LedgerRefusedError
from crond_py.ledger.database import (
    connect,
    create_file,
    damaged,
    in_words,
    load_migrations,
    load_queries,
    migrate,
    roll_back,
    schema_version,
    set_aside,
)
from crond_py.ledger.reader import Asking, open_reader
from crond_py.ledger.records import (
    Row,
    cursor_row,
    from_text,
    to_set_run,
    to_text,
    to_us,
    to_us_or_none,
)
from crond_py.ledger.rescue import copy_tasks
from crond_py.ledger.steps import Kind, Step, to_step
from crond_py.ledger.tasktables import TaskTables
from crond_py.model import Run, Task
from crond_py.ports import Claim, Gap, NewTask, Pruned, SetCursor, Submitted, Write

__all__ = ["SqliteLedger", "open_reader", "set_aside"]

BUSY_TIMEOUT = timedelta(milliseconds=250)
"""How long a write waits for another program before it fails; the engine stands still for it."""

_CACHE_KIB = 1024  # full within a minute of fifty starts a second; more makes a thousand no faster
_CHECKED_BYTES = 16 * 1024 * 1024  # up to here a whole check takes no more than some 50 ms
_LOG_LIMIT_BYTES = 16 * 1024 * 1024  # what the log is cut to once a slow reader has let go of it


class SqliteLedger(Asking):
    """The ledger of a daemon; made by ``open``.

    It has one connection and no lock of its own: any thread may use it, but one at a time.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, identity: str) -> None:
        super().__init__(path)
        self._connection = connection
        self._task_tables = TaskTables(connection)
        self._identity = identity
        self._is_synchronous: bool | None = None
        self._file = _identity_of(path)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        busy_timeout: timedelta = BUSY_TIMEOUT,
        now: datetime,
        identity: str = "",
        must_be_writable: bool = True,
    ) -> Self:
        """Open the ledger at ``path``, beginning or renewing it where need be.

        One that is begun gets ``identity`` as its name, or a new one. Without
        ``must_be_writable`` one that is there already may be locked or without room.
        Its directory must be there. Raises LedgerError where it cannot be opened now, and
        LedgerCorruptError where it is of another program or a newer pycron, or is damaged: a
        small one is looked through, and of any what every start asks for is asked.
        """
        path = Path(os.path.realpath(path))  # SQLite puts the log beside the file itself
        create_file(path)
        with in_words(path):
            connection = connect(path, "mode=rw", busy_timeout)
            try:
                identity = _prepare(connection, path, now, identity or os.urandom(4).hex())
                if must_be_writable:
                    _check_writable(connection)
            except BaseException:
                connection.close()
                raise
        ledger = cls(path, connection, identity)
        try:
            ledger._look_for_damage()
        except BaseException:
            ledger.close()
            raise
        return ledger

    def _look_for_damage(self) -> None:
        # Found now, it can be set aside; found when a run is due, it stops the daemon's work.
        if self._path.stat().st_size <= _CHECKED_BYTES:
            ((found,),) = self._rows("PRAGMA quick_check(1)")
            if found != "ok":
                raise damaged(self._path, str(found))
        self.cursors()
        self.open_runs(with_retries=False)  # the others may be very many
        self.last_runs()
        self.lanes()

    def write(
        self, writes: Sequence[Write], *, durable: bool, promised: int = 0
    ) -> list[int | None]:
        """Write all or nothing; see ``ports.Ledger``. ``promised`` is the number of a durable one.

        Raises LedgerError also where the file is no longer in its place: what was written to one
        that was deleted nobody would find again, and another daemon may have begun a new one.
        """
        self._check_in_place()
        if not writes:
            return []
        ids: list[int | None] = []
        with self._transaction(is_synchronous=durable):
            for kind, some in groupby(writes, type):
                if kind is SetCursor:  # a first start has one for each of its jobs
                    rows = (cursor_row(write.cursor) for write in some if type(write) is SetCursor)
                    self._connection.executemany(load_queries()["put_cursor"], rows)
                    continue
                taken = [self._take(to_step(write)) for write in some]
                if kind is Claim:
                    ids += taken
            if promised:
                self._execute("set_promised", [promised])
        return ids

    def write_each(
        self,
        steps: Sequence[Step],
        *,
        applied: int = 0,
        last_id: int = 0,
        last_task_id: int = 0,
        promised: int = 0,
        durable: bool = True,
    ) -> list[int | LedgerRefusedError | None]:
        """Write, in order, all of the steps that can be; return one item for each.

        The item is what became of it: the id of a claim's run, None (a claim whose occurrence is
        there already, or no claim), or why it is refused. ``applied`` is the number of the last
        record of the journal that is herewith written; no run gets an id up to ``last_id``
        and no task one up to ``last_task_id``; ``promised`` is as with ``write``.
        """
        self._check_in_place()
        with self._transaction(is_synchronous=durable):
            taken = [self._take_alone(step) for step in steps]
            self._execute("set_journal_applied", [applied])
            self._execute("begin_ids", [])
            self._execute("raise_last_id", [last_id])
            self._task_tables.raise_last_id(last_task_id)
            self._execute("set_promised", [promised])
        return taken

    def submit(
        self, tasks: Sequence[NewTask], now: datetime, *, promised: int = 0
    ) -> list[Submitted]:
        """Enter tasks; see ``ports.Ledger``. ``promised`` is the number of this durable write."""
        self._check_in_place()
        if not tasks:
            return []
        with self._transaction(is_synchronous=True):
            try:
                submitted = self._task_tables.submit(tasks, now, self.task_of_key)
            except OverflowError as error:
                message = f"the ledger {self._path} refuses a task with too large a number: {error}"
                raise LedgerRefusedError(message) from error
            if promised:
                self._execute("set_promised", [promised])
        return submitted

    def enter_tasks(self, tasks: Sequence[Task]) -> int:
        """Enter tasks of another ledger; return how many are new here and make sense."""
        with self._transaction(is_synchronous=False):
            return self._task_tables.enter(tasks)

    def copy_tasks_to(self, fresh: Path, ended: Collection[int]) -> None:
        """Copy the tasks that have not ended, and ``ended``, to a ledger that has none.

        What is damaged is left out.
        """
        copy_tasks(self._connection, fresh, ended)

    def _check_in_place(self) -> None:
        if not self.is_in_place:
            message = (
                f"the ledger {self._path} was deleted or replaced while pycron ran; "
                "stop pycron, put the file back or start afresh"
            )
            raise LedgerError(message)

    @property
    def path(self) -> Path:
        """Where it is, links followed."""
        return self._path

    @property
    def is_in_place(self) -> bool:
        """Whether the file that is open is the one that its path names."""
        return _identity_of(self._path) == self._file

    @property
    def applied(self) -> int:
        """The number of the journal's last record that is in this ledger."""
        return int(self._rows(load_queries()["journal_applied"])[0][0])

    @property
    def promised(self) -> int:
        """The number of its last durable write."""
        return int(self._rows(load_queries()["promised"])[0][0])

    @property
    def last_id(self) -> int:
        """The largest id that a run has ever been given."""
        return int(self._rows(load_queries()["last_id"])[0][0] or 0)

    @property
    def last_task_id(self) -> int:
        """The largest id that a task has ever been given."""
        with in_words(self._path):
            return self._task_tables.last_id

    def run_of(self, job: str, era: int, due: datetime) -> Run | None:
        """Return the run of an occurrence."""
        values = [to_text(job), to_us(due), era]
        found = self._runs(load_queries()["run_of_occurrence"], "r.id", values)
        return found[0] if found else None

    @property
    def size_bytes(self) -> int:
        """How much there is in it."""
        ((pages,),), ((size,),) = self._rows("PRAGMA page_count"), self._rows("PRAGMA page_size")
        return int(pages) * int(size)

    def copy_to(self, path: Path) -> None:
        """Make a copy at ``path``, also where the file itself was deleted."""
        create_file(path)
        with in_words(path), closing(sqlite3.connect(path)) as copy:
            self._connection.backup(copy)

    def set_patience(self, busy_timeout: timedelta) -> None:
        """Set how long another program is waited for that has the ledger locked."""
        with in_words(self._path):
            milliseconds = busy_timeout // timedelta(milliseconds=1)
            self._connection.execute(f"PRAGMA busy_timeout = {milliseconds}")

    def let_pages_go(self) -> None:
        """Let go of the file's pages in memory: a start reads and writes more than what follows."""
        with in_words(self._path):
            self._connection.execute("PRAGMA shrink_memory")

    def prune(
        self, job: str, *, keep_runs: int | None, older_than: datetime | None, limit: int
    ) -> Pruned:
        """Delete old finished runs of a job; see ``ports.Ledger``."""
        with self._transaction(is_synchronous=False):
            ids = self._to_prune(job, keep_runs, older_than, limit)
            pruned = self._delete_runs(ids)
            if self._execute("forget_last_attempted", [to_text(job), json.dumps(ids)]).rowcount:
                self._execute("find_last_attempted", [to_text(job)])
        return pruned

    def prune_tasks(self, *, older_than: datetime, limit: int) -> Pruned:
        """Delete old tasks with their runs; see ``ports.Ledger``."""
        with self._transaction(is_synchronous=False):
            tasks, runs = self._task_tables.to_prune(older_than, limit)
            pruned = self._delete_runs(runs)
            self._task_tables.delete(tasks)
        return pruned

    def _delete_runs(self, ids: Sequence[int]) -> Pruned:
        chosen = json.dumps(ids)
        outputs = tuple(from_text(row[0]) for row in self._execute("outputs", [chosen]))
        self._execute("delete_attempts", [chosen])
        self._execute("delete_runs", [chosen])
        return Pruned(len(ids), outputs)

    @property
    def gap(self) -> Gap | None:
        """Nothing that it could know of by itself; see ``mark``."""
        return None

    @property
    def troubles(self) -> Sequence[str]:
        """Nothing: it has no other place to write to, so each write tells of its trouble."""
        return ()

    @property
    def settles_in(self) -> timedelta | None:
        """Nothing is ever to be settled."""
        return None

    def settle(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Let go of the file. Idempotent."""
        with in_words(self._path):
            self._connection.close()

    # --- one write ------------------------------------------------------------------------

    def _take(self, step: Step) -> int | None:
        """Do one step; return the id of a claim's run, or None where it is there already."""
        match step.kind:
            case Kind.CLAIM:
                return self._claim(step)
            case Kind.RUN:
                *values, run_id, left_as, made_up_at = step.row
                values += [left_as, made_up_at, made_up_at, run_id]
                if self._execute("update_run", values).rowcount == 0:
                    raise self._no_such_run(to_set_run(step.row).run_id)
            case Kind.ATTEMPT:
                self._put_attempt(step.row)
            case Kind.CURSOR:
                self._execute("put_cursor", step.row)
            case Kind.TASK:
                self._task_tables.move(step.row)
        return None

    def _take_alone(self, step: Step) -> int | LedgerRefusedError | None:
        """Do one step; one that is refused leaves nothing behind."""
        self._connection.execute("SAVEPOINT alone")
        try:
            with in_words(self._path):
                result: int | LedgerRefusedError | None = self._take(step)
        except (LedgerRefusedError, OverflowError) as error:
            self._connection.execute("ROLLBACK TO alone")
            result = LedgerRefusedError(str(error))
        self._connection.execute("RELEASE alone")
        return result

    def _claim(self, step: Step) -> int | None:
        entered = self._execute("insert_run", step.row)
        run_id = entered.lastrowid
        if entered.rowcount == 0 or run_id is None:
            return None
        if step.attempt is not None:
            self._execute("put_attempt", (run_id, *step.attempt[1:]))
        return run_id

    def _put_attempt(self, row: Row) -> None:
        try:
            self._execute("put_attempt", row)
        except sqlite3.IntegrityError as error:
            if self._execute("has_run", [row[0]]).fetchone() == (0,):
                raise self._no_such_run(row[0]) from error
            raise

    def _no_such_run(self, run_id: int) -> LedgerRefusedError:
        message = f"the ledger {self._path} has no run {run_id}, so it cannot change"
        return LedgerRefusedError(message)

    def _to_prune(
        self, job: str, keep_runs: int | None, older_than: datetime | None, limit: int
    ) -> list[int]:
        newest: Row | None = None
        if keep_runs is not None:
            newest = self._execute("newest_beyond", [to_text(job), max(0, keep_runs)]).fetchone()
        due, run_id = newest or (None, None)
        older_than_us = to_us_or_none(older_than)
        bounds = [bound for bound in (due, older_than_us) if bound is not None]
        if not bounds:
            return []
        values = {
            "job": to_text(job),
            "due": due,
            "id": run_id,
            "older_than": older_than_us,
            "due_until": max(bounds),
            "limit": max(0, limit),
        }
        return [row[0] for row in self._execute("to_prune", values)]

    # --- the connection -------------------------------------------------------------------

    def _rows(self, statement: str, values: Sequence[Any] | Mapping[str, Any] = ()) -> list[Row]:
        with in_words(self._path):
            return self._connection.execute(statement, values).fetchall()

    def _execute(self, name: str, values: Sequence[Any] | dict[str, Any]) -> sqlite3.Cursor:
        return self._connection.execute(load_queries()[name], values)

    @contextmanager
    def _transaction(self, *, is_synchronous: bool) -> Iterator[None]:
        connection = self._connection
        with in_words(self._path):
            roll_back(connection)  # in case that ending the last one failed
            if self._is_synchronous is not is_synchronous:
                self._is_synchronous = None
                connection.execute(f"PRAGMA synchronous = {'FULL' if is_synchronous else 'NORMAL'}")
                self._is_synchronous = is_synchronous
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                connection.execute("COMMIT")
            except BaseException:
                roll_back(connection)
                raise


def _prepare(connection: sqlite3.Connection, path: Path, now: datetime, identity: str) -> str:
    """Make a connection ready to write, and the file a ledger; return its identity."""
    steps = load_migrations()
    schema_version(connection, path, steps[-1].number)  # before anything in the file is changed
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        message = (
            f"the ledger {path} cannot be used: its file system does not bear SQLite's WAL mode "
            "(a network file system?); use another --state-dir"
        )
        raise LedgerError(message)
    connection.execute("PRAGMA foreign_keys = ON")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.execute(f"PRAGMA journal_size_limit = {_LOG_LIMIT_BYTES}")
    migrate(connection, path, steps)
    queries = load_queries()
    found = connection.execute(queries["identity"]).fetchone()
    if found is None:
        connection.execute(queries["insert_meta"], (identity, to_us(now)))
        # So that it is still this ledger should its log be lost.
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        found = connection.execute(queries["identity"]).fetchone()
    return str(found[0])


def _check_writable(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("ROLLBACK")


def _identity_of(path: Path) -> tuple[int, int] | None:
    """Return what tells a file from every other one, or None where there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
