"""Every ledger there is, each as the pair of what is written and what is asked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import datetime
from pathlib import Path

import pytest

from crond_py.ledger.journaled import JournaledLedger
from crond_py.ledger.memory import MemoryLedger
from crond_py.ledger.opening import open_ledger
from crond_py.ledger.sqlite import SqliteLedger, open_reader
from crond_py.ports import Ledger, LedgerReader, NewTask, Submitted
from tests.support.clock import FakeClock
from tests.support.ledgers import T0, at

Pair = tuple[Ledger, LedgerReader]

STRICT = ["memory", "sqlite", "sqlite-read-by-another"]
"""Those that refuse a write as a whole if anything in it makes no sense."""

WORKING = [*STRICT, "daemon"]
"""Those whose file takes what is written."""

ALL = [*WORKING, "daemon-in-trouble"]
"""All: the last has a file that is locked, so that what is written is in the journal.

Tasks are not for the journal; while they are handed in the file is not locked.
"""


class Troubled(JournaledLedger):
    """A daemon's ledger whose file another program has locked, but for handing in tasks."""

    other: sqlite3.Connection

    def submit(self, tasks: Sequence[NewTask], now: datetime) -> list[Submitted]:
        """Hand in tasks between two troubles."""
        self.other.execute("ROLLBACK")
        try:
            while self.settles_in is not None and not self._is_closed:
                self.settle()
            return super().submit(tasks, now)
        finally:
            self.other.execute("BEGIN IMMEDIATE")


@contextmanager
def open_pair(kind: str, directory: Path) -> Iterator[Pair]:
    """Open a ledger of a kind, and what reads it: the same, or a connection that only reads."""
    if kind == "memory":
        memory = MemoryLedger()
        yield memory, memory
        return
    path = directory / "ledger.db"
    with ExitStack() as stack:
        if kind.startswith("daemon"):
            ledger = stack.enter_context(closing(open_ledger(path, FakeClock(at(0)))))
            if kind == "daemon-in-trouble":
                other = stack.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
                other.execute("BEGIN IMMEDIATE")
                ledger.__class__ = Troubled
                ledger.other = other
            yield ledger, ledger
            return
        file = stack.enter_context(closing(SqliteLedger.open(path, now=T0)))
        reads_itself = kind == "sqlite"
        yield file, file if reads_itself else stack.enter_context(closing(open_reader(path)))


@pytest.fixture(params=ALL)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Give a ledger and what reads it."""
    with open_pair(request.param, tmp_path) as pair:
        yield pair


@pytest.fixture
def ledger(pair: Pair) -> Ledger:
    """Give what is written."""
    return pair[0]


@pytest.fixture
def reader(pair: Pair) -> LedgerReader:
    """Give what is asked."""
    return pair[1]
