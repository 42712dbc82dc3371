"""What is known of runs from outside: what jobs wrote about themselves, and what the ledger says.

Only reading happens here, and none of it with the code under test: lines of a file, and rows by
plain SQL from a connection that cannot write. ``auditor`` compares the two. Instants are whole
microseconds since 1970-01-01T00:00:00Z, as in the ledger.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

SECOND = 1_000_000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_us(instant: datetime) -> int:
    """Return an aware instant in microseconds."""
    return (instant - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Word:
    """A line that a job wrote about itself, see programs/witness.sh; ``run_id`` is the ledger's.

    ``kind`` is "begin" or "end", or "gone": that is written by the test, when it has seen that
    there is no such process any more though it has told no end.
    """

    kind: str
    pid: int
    job: str
    identity: str
    run_id: int
    due: int
    attempt: int
    status: int = 0
    uptime: float = 0.0

    @property
    def key(self) -> tuple[int, int]:
        """Which attempt speaks."""
        return self.run_id, self.attempt

    @property
    def tag(self) -> str:
        """The process's PYCRON_RUN_ID."""
        return f"{self.identity}-{self.run_id}"


def read_words(path: Path) -> list[Word]:
    """Return all that was written, in the order of the writing."""
    if not path.exists():
        return []
    return [_word(line) for line in path.read_text("ascii").splitlines()]


def _word(line: str) -> Word:
    kind, uptime, pid, job, tag, due, attempt, status = line.split(" ")
    identity, _, run_id = tag.partition("-")
    due_us = to_us(datetime.fromisoformat(due))
    return Word(
        kind, int(pid), job, identity, int(run_id), due_us, int(attempt), int(status), float(uptime)
    )


def write_word(path: Path, word: Word) -> None:
    """Add a line to what was written."""
    due = (_EPOCH + timedelta(microseconds=word.due)).isoformat()
    line = f"{word.kind} {word.uptime:.2f} {word.pid} {word.job} {word.tag} {due} {word.attempt}"
    with path.open("ab", buffering=0) as file:
        file.write(f"{line} {word.status}\n".encode("ascii"))


def unended(words: Iterable[Word]) -> list[Word]:
    """Return the beginnings of which no end is told."""
    going_on: dict[tuple[int, int], Word] = {}
    for word in words:
        if word.kind == "begin":
            going_on[word.key] = word
        else:
            going_on.pop(word.key, None)
    return list(going_on.values())


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """A row of ``attempts``."""

    number: int
    begun_at: int
    finished_at: int | None
    exit_code: int | None
    exit_signal: int | None
    outcome: str | None
    reason: str


@dataclass(frozen=True, slots=True)
class RunRow:
    """A row of ``runs`` with its attempts; ``last_due`` is ``due`` where it is one occurrence."""

    id: int
    job: str
    era: int
    due: int
    cause: str
    state: str
    outcome: str | None
    reason: str
    last_due: int
    count: int
    claimed_at: int
    finished_at: int | None
    attempts: tuple[AttemptRow, ...] = ()


@dataclass(frozen=True, slots=True)
class CursorRow:
    """A row of ``cursors``: what the daemon believes is accounted for."""

    baseline: int
    accounted_until: int


@dataclass(frozen=True, slots=True)
class Book:
    """A whole ledger."""

    identity: str
    runs: tuple[RunRow, ...]
    cursors: dict[str, CursorRow]


def read_ledger(path: Path) -> Book:
    """Read a ledger that nobody writes meanwhile."""
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
        (identity,) = db.execute("SELECT identity FROM meta").fetchone()
        attempts: dict[int, list[AttemptRow]] = {}
        for run_id, *fields in db.execute(
            "SELECT run_id, number, begun_at, finished_at, exit_code, exit_signal, outcome, reason "
            "FROM attempts ORDER BY run_id, number"
        ):
            attempts.setdefault(run_id, []).append(AttemptRow(*fields))
        runs = tuple(
            RunRow(*fields, tuple(attempts.pop(fields[0], ())))
            for fields in db.execute(
                "SELECT id, job, era, due, cause, state, outcome, reason, "
                "coalesce(last_due, due), count, claimed_at, finished_at FROM runs ORDER BY id"
            ).fetchall()
        )
        cursors = {
            job: CursorRow(baseline, until)
            for job, baseline, until in db.execute(
                "SELECT job, baseline, accounted_until FROM cursors"
            )
        }
    assert not attempts, f"attempts of runs that are not there: {sorted(attempts)}"
    return Book(identity, runs, cursors)
