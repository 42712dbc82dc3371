"""Begins a ledger in a damaged one's place, with what can still be read of that.

Not responsible for noticing damage. The damaged file is read row by row, from both ends of its
tables, and kept under another name; what is carried over is what keeps the promises: the
identity that running processes have in their environment, the cursors that say what has been
accounted for, the open runs, the tasks of these and those that have not ended (``rescue``), and the
numbers that runs and tasks have been given.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from datetime import datetime, timedelta
from pathlib import Path

from crond_py.errors import LedgerError
from crond_py.ledger.database import connect, load_queries, set_aside
from crond_py.ledger.known import Remains
from crond_py.ledger.records import to_cursor, to_runs
from crond_py.ledger.rescue import NONSENSE, copy_tasks, first, last_task_id, rows
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.ledger.steps import Kind, Step, run_of_step, steps_of_run, to_step
from crond_py.model import Cursor, Run, task_id_of
from crond_py.ports import SetCursor

_PATIENCE = timedelta(milliseconds=250)

_AT_ONCE = 10_000
"""How many steps are written in one go."""

_COPIED_BYTES = 64 * 1024 * 1024
"""How large a ledger is copied; the engine stands still for it."""


def begin_in_place(
    path: Path, remains: Remains, now: datetime, *, original: SqliteLedger | None = None
) -> Path | None:
    """Begin a ledger with what remains of the one at ``path``; return where that is now.

    None: there was none any more; ``original`` is then the open one that was deleted, which is
    copied whole where that does not take long.

    A crash leaves either the old one in its place, or the new one ready to be put there by
    ``finish_begun``. Raises LedgerError where it cannot be done; all is then as it was.
    """
    new = _new(path)
    _discard(new)
    try:
        if original is None or not _is_copied(original, new):
            _build(new, remains, now, original or path)
        aside = set_aside(path, now) if path.exists() else None
    except BaseException:
        _discard(new)
        raise
    _put_in_place(new, path)
    return aside


def _build(new: Path, remains: Remains, now: datetime, old: SqliteLedger | Path) -> None:
    with closing(SqliteLedger.open(new, now=now, identity=remains.identity)) as ledger:
        _copy_tasks(old, new, remains)
        ledger.enter_tasks(remains.tasks)
        for steps in _in_parts(_steps(remains)):
            ledger.write_each(steps)
        ledger.write_each(
            [],
            applied=remains.applied,
            last_id=remains.last_id,
            last_task_id=remains.last_task_id,
            promised=remains.promised,
        )


def _copy_tasks(old: SqliteLedger | Path, new: Path, remains: Remains) -> None:
    """Copy the tasks of an open ledger that was deleted, or of the file that is there."""
    identity, ended = remains.identity, _needed_tasks(remains)
    if isinstance(old, SqliteLedger):
        old.copy_tasks_to(new, ended)
        return
    try:
        connection = connect(old, "mode=rw", _PATIENCE)
    except sqlite3.Error:
        return
    with closing(connection):
        found = first(connection, load_queries()["identity"])
        if found is None or found == identity or not identity:
            copy_tasks(connection, new, ended)


def _needed_tasks(remains: Remains) -> set[int]:
    """Return the tasks that are asked for even where they have ended."""
    jobs = [run.job for run in remains.open_runs]
    jobs += [run_of_step(step).job for step in remains.steps if step.kind is Kind.CLAIM]
    found = {task_id for job in jobs if (task_id := task_id_of(job)) is not None}
    return found.union(remains.ended_tasks)


def _is_copied(original: SqliteLedger, new: Path) -> bool:
    """Copy a ledger whose file has no name any more; False where it is large or unreadable."""
    try:
        if original.size_bytes > _COPIED_BYTES:
            return False
        original.copy_to(new)
    except LedgerError:
        _discard(new)
        return False
    return True


def finish_begun(path: Path) -> None:
    """Put in place what a crash kept ``begin_in_place`` from putting there."""
    new = _new(path)
    if not os.path.lexists(path) and new.exists():
        _put_in_place(new, path)
    _discard(new)


def _new(path: Path) -> Path:
    return path.with_name(f"{path.name}.new")


def _put_in_place(new: Path, path: Path) -> None:
    try:
        for suffix in ("-wal", "-shm"):  # of a ledger that was taken away without them
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        new.rename(path)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        message = f"the ledger {path} cannot be begun anew: {error.strerror}"
        raise LedgerError(message) from error


def _discard(new: Path) -> None:
    with suppress(OSError):
        for suffix in ("-wal", "-shm", ""):
            Path(f"{new}{suffix}").unlink(missing_ok=True)


def _steps(remains: Remains) -> Iterator[Step]:
    for cursor in remains.cursors.values():
        yield to_step(SetCursor(cursor))
    for run in remains.open_runs:
        yield from steps_of_run(run)
    yield from remains.steps


def _in_parts(steps: Iterable[Step]) -> Iterator[list[Step]]:
    part: list[Step] = []
    for step in steps:
        part.append(step)
        if len(part) >= _AT_ONCE:
            yield part
            part = []
    yield part


# --- reading what is damaged --------------------------------------------------------------------


def salvage(path: Path) -> Remains:
    """Read what can be read of a damaged ledger.

    Where the largest number that a run was given is not known, other runs would get the same
    ones; so the identity that makes them unique, and the open runs, are left behind with it.
    """
    try:
        connection = connect(path, "mode=rw", _PATIENCE)
    except sqlite3.Error:
        return Remains("", {}, [], 0, 0)
    queries = load_queries()
    with closing(connection):
        identity = first(connection, queries["identity"])
        last_id = max(
            _number(first(connection, queries["last_id"])),
            _number(first(connection, "SELECT max(id) FROM runs")),
            _number(first(connection, "SELECT max(run_id) FROM last_attempted")),
        )
        is_known = isinstance(identity, str) and identity.isalnum() and last_id > 0
        return Remains(
            identity=str(identity) if is_known else "",
            cursors=_cursors(connection),
            open_runs=_open_runs(connection) if is_known else [],
            last_id=last_id if is_known else 0,
            applied=_number(first(connection, queries["journal_applied"])),
            promised=_number(first(connection, queries["promised"])),
            last_task_id=last_task_id(connection),
        )


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


def _cursors(connection: sqlite3.Connection) -> Mapping[str, Cursor]:
    found: dict[str, Cursor] = {}
    statement = load_queries()["cursors"]
    for order in ("", " DESC"):
        for row in rows(connection, f"{statement}{order}", ()):
            with suppress(*NONSENSE):
                found[row[0]] = to_cursor(row)
    return found


def _open_runs(connection: sqlite3.Connection) -> list[Run]:
    ids: set[int] = set()
    for choice in (
        "runs INDEXED BY runs_open WHERE outcome IS NULL ORDER BY due",
        "runs NOT INDEXED WHERE outcome IS NULL ORDER BY id",
    ):
        for order in ("", " DESC"):
            found = rows(connection, f"SELECT id FROM {choice}{order}", ())  # noqa: S608 - ours
            ids.update(row[0] for row in found)
    runs = (_open_run(connection, run_id) for run_id in sorted(ids))
    return [run for run in runs if run is not None]


def _open_run(connection: sqlite3.Connection, run_id: int) -> Run | None:
    """Return one run; without its attempts, where they cannot be read."""
    whole = load_queries()["runs"].format(source=load_queries()["one_run"], order="r.id")
    bare = whole.replace("LEFT JOIN attempts AS a ON", "LEFT JOIN attempts AS a ON FALSE AND")
    for statement in (whole, bare):
        with suppress(*NONSENSE):
            (run,) = to_runs(connection.execute(statement, [run_id]).fetchall())
            # A name of another type is damage that a query does not mind.
            is_sound = run.outcome is None and isinstance(run.job, str)
            return run if is_sound else None
    return None
