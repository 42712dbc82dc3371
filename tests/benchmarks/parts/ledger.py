"""How many occurrences the ledger claims in a second, beside bare inserts with sqlite3.

    python -m tests.benchmarks.parts.ledger [--singles 500] [--groups 20] [--rounds 3] [--dir DIR]

Singles: each claim with its first attempt is a durable write of its own. Groups: 500 of them in
one durable write, as when many jobs are due together. The bare loop writes as many rows to two
plain tables with the same unique key, in the same way and as durably, and does no more: no
history by job or by time, no open or last runs, no types. The daemon's is the ledger with its
journal beside it; in trouble it is locked by another program, so that all goes to the journal.
They take turns in one process on one disk, so that the ratio holds on a busy machine too. Shown
is the best round of each.
"""

from __future__ import annotations

import argparse
import sqlite3
import sys
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from crond_py.clock import SystemClock
from crond_py.ledger.opening import open_ledger
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.model import Attempt, Cause, State
from crond_py.ports import Claim

CLOCK = SystemClock()
GROUP = 500
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
JOBS = [f"job-{number:03}" for number in range(GROUP)]

BARE_TABLES = """
CREATE TABLE runs (id INTEGER PRIMARY KEY, job, due, state, claimed_at, UNIQUE (job, due));
CREATE TABLE attempts (run_id, number, begun_at, boot_id);
"""

Batch = list[Claim]
Write = Callable[[Batch], object]


def _batch(minute: int, jobs: list[str]) -> Batch:
    due = BEGIN + timedelta(minutes=minute)
    attempt = Attempt(1, begun_at=due, boot_id="5ccf9b9f-2f0c-4a3e-9d5e-0123456789ab")
    return [Claim(job, 0, due, Cause.SCHEDULE, State.RUNNING, due, attempt=attempt) for job in jobs]


def _open_bare(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.executescript(BARE_TABLES)
    return connection


def _write_bare(connection: sqlite3.Connection, batch: Batch) -> None:
    connection.execute("BEGIN IMMEDIATE")
    for claim in batch:
        due = claim.due.timestamp()
        row = (claim.job, due, "running", due)
        entered = connection.execute(
            "INSERT INTO runs (job, due, state, claimed_at) VALUES (?, ?, ?, ?)", row
        )
        connection.execute(
            "INSERT INTO attempts VALUES (?, ?, ?, ?)",
            (entered.lastrowid, 1, due, claim.attempt and claim.attempt.boot_id),
        )
    connection.execute("COMMIT")


def _claims_per_second(write: Write, batches: list[Batch]) -> float:
    begun = CLOCK.monotonic_ns()
    for batch in batches:
        write(batch)
    took_s = (CLOCK.monotonic_ns() - begun) / 1e9
    return sum(map(len, batches)) / took_s


def _measure(folder: Path, singles: int, groups: int) -> dict[str, tuple[float, float]]:
    ledger = SqliteLedger.open(folder / "ledger.db", now=BEGIN)
    daemons = open_ledger(folder / "daemons.db", CLOCK)
    locked = open_ledger(folder / "locked.db", CLOCK)
    other = sqlite3.connect(folder / "locked.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    bare = _open_bare(folder / "bare.db")
    ways: list[tuple[str, Write]] = [
        ("ledger", lambda batch: ledger.write(batch, durable=True)),
        ("the daemon's", lambda batch: daemons.write(batch, durable=True)),
        ("in trouble", lambda batch: locked.write(batch, durable=True)),
        ("bare sqlite3", lambda batch: _write_bare(bare, batch)),
    ]
    alone = [_batch(minute, ["alone"]) for minute in range(singles)]
    together = [_batch(minute, JOBS) for minute in range(groups)]
    found = {
        name: (_claims_per_second(write, alone), _claims_per_second(write, together))
        for name, write in ways
    }
    for opened in (ledger, other, daemons, locked, bare):
        opened.close()
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--singles", type=int, default=500)
    parser.add_argument("--groups", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", type=Path, help="on which disk; else where temporary files are")
    options = parser.parse_args()
    best: dict[str, tuple[float, float]] = {}
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="pycron-bench-", dir=options.dir) as folder:
            found = _measure(Path(folder), options.singles, options.groups)
        for name, (alone, together) in found.items():
            before = best.get(name, (0.0, 0.0))
            best[name] = (max(before[0], alone), max(before[1], together))
    sys.stdout.write(f"{'claims/s':>14} {'single':>10} {f'groups of {GROUP}':>15}\n")
    for name, (alone, together) in best.items():
        sys.stdout.write(f"{name:>14} {alone:10,.0f} {together:15,.0f}\n")


if __name__ == "__main__":
    main()
