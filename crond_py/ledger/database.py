"""Opens SQLite files as ledgers: paths, connections, migrations, and errors put into words.

Not responsible for what is written or asked. Nothing in a process that has the ledger open may
open and close its file by other means: POSIX drops all of a process's locks on a file with the
first descriptor that is closed (fcntl(2)), and SQLite's are among them.
"""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path
from types import MappingProxyType

from crond_py.dataclass import dataclass
from crond_py.errors import LedgerCorruptError, LedgerError, LedgerRefusedError
from crond_py.percent import percent_encode

APPLICATION_ID = 0x70796372
"""Marks the file as one of pycron's; see ``PRAGMA application_id``."""

_HERE = Path(__file__).parent  # importlib.resources takes a megabyte of the daemon's memory

_KEPT_STATEMENTS = 20  # what is asked again and again is a dozen; a start asks for 70, once each

_PRIMARY = 0xFF  # the low byte of a result code is what it is about, the rest narrows it down

_LOCKED = "is locked by another program; end that (fuser(1) names it)"
_READ_ONLY = (
    "cannot be written: no permission, or a read-only file system; give this user the right to "
    "write it and its directory, or use another --state-dir"
)
_WORDS = {
    sqlite3.SQLITE_BUSY: _LOCKED,
    sqlite3.SQLITE_LOCKED: _LOCKED,
    sqlite3.SQLITE_FULL: "cannot be written: disk full; make room on it",
    sqlite3.SQLITE_READONLY: _READ_ONLY,
    sqlite3.SQLITE_PERM: _READ_ONLY,
    sqlite3.SQLITE_IOERR: (
        "cannot be read or written: I/O error; look at the disk, and for a quota or a limit on "
        "the size of files"
    ),
}
_PASSING = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL}
_REFUSALS = {
    sqlite3.SQLITE_CONSTRAINT: "refuses a record that contradicts itself",
    sqlite3.SQLITE_MISMATCH: "refuses a record with a value of another kind",
    sqlite3.SQLITE_TOOBIG: "refuses a record that is too large",
}


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema; ``number`` is the ``user_version`` that it leads to."""

    number: int
    script: str


@cache
def load_queries() -> Mapping[str, str]:
    """Return the statements of queries.sql by name."""
    text = (_HERE / "queries.sql").read_text("utf-8")
    parts = re.split(r"^-- name: (\w+)\n", text, flags=re.MULTILINE)
    return MappingProxyType(dict(zip(parts[1::2], map(str.strip, parts[2::2]), strict=True)))


@cache
def load_migrations() -> tuple[Migration, ...]:
    """Return the steps of the schema in their order."""
    files = (_HERE / "migrations").glob("*.sql")
    steps = [Migration(int(file.name[:4]), file.read_text("utf-8")) for file in files]
    return tuple(sorted(steps, key=lambda step: step.number))


# --- errors -----------------------------------------------------------------------------------


@contextmanager
def in_words(path: Path) -> Iterator[None]:
    """Turn an error of SQLite into a LedgerError that names the file and the way out."""
    try:
        yield
    except sqlite3.Error as error:
        raise _translate(error, path) from error
    except UnicodeDecodeError as error:  # sqlite3 met damage when it made up its own message
        raise damaged(path, f"not even its error can be read ({error})") from error


def _translate(error: sqlite3.Error, path: Path) -> LedgerError:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:  # not SQLite's error but Python's
        if isinstance(error, sqlite3.OperationalError):  # it met text that is no UTF-8
            return damaged(path, str(error))
        return LedgerError(f"the ledger {path} cannot be used: {error}")  # a closed connection
    primary = code & _PRIMARY
    if primary in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        return damaged(path, str(error))
    if primary == sqlite3.SQLITE_CANTOPEN:
        return LedgerError(f"the ledger {path} cannot be opened: {_why_not_opened(path)}")
    if primary in _REFUSALS:
        return LedgerRefusedError(f"the ledger {path} {_REFUSALS[primary]}: {error}")
    words = _WORDS.get(primary, f"cannot be read or written: {error}")
    return LedgerError(f"the ledger {path} {words} ({error.sqlite_errorname})")


_ANOTHERS = "it is another user's; you may not read it"


def is_passing(error: LedgerError) -> bool:
    """Whether somebody else's lock or a lack of room is what keeps a ledger from being written."""
    code = getattr(error.__cause__, "sqlite_errorcode", None)
    return code is not None and code & _PRIMARY in _PASSING


def damaged(path: Path, how: str) -> LedgerCorruptError:
    """Make the error for a file that cannot be understood."""
    # Whoever moved it aside would take from the daemon what can still be read.
    return LedgerCorruptError(
        f"the ledger {path} is damaged: {how}",
        way_out="start pycron, or restart it: it sets the file aside and goes on in another with "
        "what can be read",
    )


def _why_not_opened(path: Path) -> str:
    try:
        status = path.stat()
    except FileNotFoundError:
        return "there is no such file; run pycron with this state directory first"
    except PermissionError:
        return _ANOTHERS
    except OSError as error:
        return f"{error.strerror}; look at its directory, or use another --state-dir"
    if not stat.S_ISREG(status.st_mode):
        return "it is not a file; move it aside, or use another --state-dir"
    is_own = status.st_uid == os.geteuid()
    if not is_own and not os.access(path, os.R_OK, effective_ids=True):
        return _ANOTHERS
    return (
        "no permission, or too many open files; its owner must have the right to read and write it "
        "and to use its directory"
    )


# --- opening ----------------------------------------------------------------------------------


def connect(path: Path, parameters: str, busy_timeout: timedelta) -> sqlite3.Connection:
    """Open ``path`` with the parameters of an SQLite URI, without believing what is in it.

    The thread is the caller's business: one at a time. Statements are run one by one, and
    transactions are begun and ended by name.
    """
    connection = sqlite3.connect(
        uri(path, parameters),
        uri=True,
        timeout=busy_timeout.total_seconds(),
        isolation_level=None,
        check_same_thread=False,
        cached_statements=_KEPT_STATEMENTS,
    )
    try:
        # Functions in the schema of a file that somebody else has made are not called.
        connection.execute("PRAGMA trusted_schema = OFF")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def uri(path: Path, parameters: str) -> str:
    """Return how SQLite calls a file that is to be opened with such parameters."""
    name = percent_encode(os.fsencode(path.absolute()), safe=b"/")
    return f"file://{name}?{parameters}"


def check_file(path: Path) -> None:
    """Raise LedgerError unless there is a file, which may be a ledger."""
    if not os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises where one may not look
        raise LedgerError(f"the ledger {path} cannot be opened: {_why_not_opened(path)}")


def create_file(path: Path) -> None:
    """Make an empty file that only its owner may read, unless there is one."""
    try:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except FileExistsError:
        check_file(path)
    except OSError as error:
        message = (
            f"the ledger {path} cannot be made: {error.strerror}; "
            "look at its directory, or use another --state-dir"
        )
        raise LedgerError(message) from error


def schema_version(connection: sqlite3.Connection, path: Path, newest: int) -> int:
    """Return the ``user_version`` of a ledger; 0 if it is empty.

    Raises LedgerCorruptError where it is not a ledger, or one from a newer pycron.
    """
    # In this order: where another begins it meanwhile, whoever sees its tables sees its mark.
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if not tables and not version and not application:
        return 0
    if application != APPLICATION_ID:
        if _has_our_tables(connection):
            raise damaged(path, "it does not say any more that it is pycron's")
        message = (
            f"the ledger {path} is a database of another program; move it aside, "
            "or use another --state-dir"
        )
        raise LedgerCorruptError(message, is_foreign=True)
    if version > newest:
        message = (
            f"the ledger {path} was written by a newer pycron (its version is {version}, this "
            f"pycron knows {newest}); install that pycron again, or use another --state-dir"
        )
        raise LedgerCorruptError(message, is_newer=True)
    return int(version)


def _has_our_tables(connection: sqlite3.Connection) -> bool:
    names = ("meta", "runs", "attempts", "cursors")
    marks = ", ".join("?" for _ in names)
    statement = f"SELECT count(*) FROM sqlite_schema WHERE name IN ({marks})"  # noqa: S608 - ours
    (found,) = connection.execute(statement, names).fetchone()
    return bool(found == len(names))


def migrate(connection: sqlite3.Connection, path: Path, steps: Sequence[Migration]) -> None:
    """Bring the schema up to the last of ``steps``, each step in one transaction."""
    newest = steps[-1].number
    while schema_version(connection, path, newest) < newest:
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Looked at again: now nobody else can change it.
            version = schema_version(connection, path, newest)
            _apply([step for step in steps if step.number > version][:1], connection)
            connection.execute("COMMIT")
        except BaseException:
            roll_back(connection)
            raise


def _apply(steps: Sequence[Migration], connection: sqlite3.Connection) -> None:
    for step in steps:
        for statement in _statements(step.script):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {step.number}")


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script. Connection.executescript would commit before them."""
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""


def roll_back(connection: sqlite3.Connection) -> None:
    """End a transaction that went wrong; SQLite may have done so itself."""
    if connection.in_transaction:
        connection.execute("ROLLBACK")


def set_aside(path: Path, now: datetime) -> Path:
    """Rename a damaged ledger, so that a new one can be begun; return its new path.

    It takes the log that belongs to it along, first: a log without its ledger would be taken
    for the new one's.
    """
    name = f"{path.name}.damaged-{now:%Y%m%dT%H%M%SZ}"
    target = path.with_name(name)
    count = 1
    while target.exists():
        count += 1
        target = path.with_name(f"{name}-{count}")
    try:
        for suffix in ("-shm", "-wal", ""):
            source = Path(f"{path}{suffix}")
            if suffix == "" or source.exists():
                source.rename(f"{target}{suffix}")
    except OSError as error:
        message = f"the ledger {path} cannot be moved to {target}: {error.strerror}"
        raise LedgerError(message) from error
    return target
