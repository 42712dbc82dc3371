"""What the end-to-end tests share: a daemon of their own, bells, gates, and a wall clock to set."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Bell, Daemon, Gate
from tests.support.wallclock import WallClock, compile_shim


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this directory."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.e2e)


@pytest.fixture
def daemon(tmp_path: Path, pycron_command: tuple[str, ...]) -> Iterator[Daemon]:
    """Give a daemon that has not been started."""
    daemon = Daemon(tmp_path, pycron_command)
    yield daemon
    daemon.clean_up()


@pytest.fixture
def bell(tmp_path: Path) -> Iterator[Bell]:
    """Give the FIFO "bell" in the directory in which jobs begin."""
    bell = Bell(tmp_path / "bell")
    yield bell
    bell.close()


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """Give the FIFO "gate" in the directory in which jobs begin."""
    gate = Gate(tmp_path / "gate")
    yield gate
    gate.close()


@pytest.fixture
def mark() -> str:
    """Give a number of seconds, to sleep for, that nobody else on the machine has."""
    return f"900{secrets.randbelow(10**9):09}"


@pytest.fixture(scope="session")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the library that moves a wall clock."""
    library = compile_shim(tmp_path_factory.mktemp("shim"))
    if library is None:
        pytest.skip("no C compiler (cc) to make the clock shim with")
    return library


@pytest.fixture
def clock(tmp_path: Path, shim: Path) -> WallClock:
    """Give a wall clock for the daemon; its jobs keep the real one."""
    return WallClock(shim, tmp_path / "clock")
