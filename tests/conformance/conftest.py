"""Every ledger there is, each as the pair of what is written and what is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crond_py.ledger.memory import MemoryLedger
from crond_py.ledger.sqlite import SqliteLedger, open_reader
from crond_py.ports import Ledger, LedgerReader
from tests.support.ledgers import T0


@pytest.fixture(params=["memory", "sqlite", "sqlite-read-by-another"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Ledger, LedgerReader]]:
    """Give a ledger and what reads it: the same, or a connection that only reads."""
    if request.param == "memory":
        memory = MemoryLedger()
        yield memory, memory
        return
    ledger = SqliteLedger.open(tmp_path / "ledger.db", now=T0)
    reader = ledger if request.param == "sqlite" else open_reader(tmp_path / "ledger.db")
    yield ledger, reader
    reader.close()
    ledger.close()


@pytest.fixture
def ledger(pair: tuple[Ledger, LedgerReader]) -> Ledger:
    """Give what is written."""
    return pair[0]


@pytest.fixture
def reader(pair: tuple[Ledger, LedgerReader]) -> LedgerReader:
    """Give what is asked."""
    return pair[1]
