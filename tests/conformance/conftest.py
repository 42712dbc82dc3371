"""Every ledger there is, each as the pair of what is written and what is asked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from crond_py.ledger.memory import MemoryLedger
from crond_py.ledger.opening import open_ledger
from crond_py.ledger.sqlite import SqliteLedger, open_reader
from crond_py.ports import Ledger, LedgerReader
from tests.support.clock import FakeClock
from tests.support.ledgers import T0, at

Pair = tuple[Ledger, LedgerReader]

STRICT = ["memory", "sqlite", "sqlite-read-by-another"]
"""Those that refuse a write as a whole if anything in it makes no sense."""

WORKING = [*STRICT, "daemon"]
"""Those whose file takes what is written."""

ALL = [*WORKING, "daemon-in-trouble"]
"""All: the last has a file that is locked, so that what is written is in the journal."""


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
