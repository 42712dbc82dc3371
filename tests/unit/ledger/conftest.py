"""Ledgers, readers and child programs that are let go of when a test ends."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from crond_py.ledger.reader import SqliteReader
from crond_py.ledger.sqlite import SqliteLedger, open_reader
from tests.support.ledgers import T0

ROOT = Path(__file__).parents[3]
PROGRAMS = ROOT / "tests" / "support" / "programs"

Open = Callable[..., SqliteLedger]
OpenReader = Callable[[Path], SqliteReader]
StartProgram = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Give what is unwound when the test ends."""
    with ExitStack() as exits:
        yield exits


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Give where the ledger of the test is, or will be."""
    return tmp_path / "ledger.db"


@pytest.fixture
def open_ledger(stack: ExitStack) -> Open:
    """Open ledgers as a daemon does."""

    def open_(path: Path, **options: object) -> SqliteLedger:
        ledger = SqliteLedger.open(path, now=T0, **options)  # type: ignore[arg-type]
        stack.callback(ledger.close)
        return ledger

    return open_


@pytest.fixture
def look(stack: ExitStack) -> OpenReader:
    """Open ledgers to read them."""

    def open_(path: Path) -> SqliteReader:
        reader = open_reader(path)
        stack.callback(reader.close)
        return reader

    return open_


@pytest.fixture
def start_program(stack: ExitStack) -> StartProgram:
    """Start a program of tests/support/programs, its standard input and output on pipes."""

    def start(name: str, *arguments: object, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        child = subprocess.Popen(
            [*before, sys.executable, str(PROGRAMS / name), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        stack.enter_context(child)
        stack.callback(child.kill)
        return child

    return start
