"""What tests of several commands have in common: a daemon that stores what it is handed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crond_py.clock import SystemClock
from crond_py.control.handlers import Handlers
from tests.cli.program import environment
from tests.cli.running import serving
from tests.unit.control.fakes import FakeEngine, FakeService


@pytest.fixture
def engine() -> FakeEngine:
    """Make an engine that stores tasks."""
    return FakeEngine()


@pytest.fixture
def env(tmp_path: Path, engine: FakeEngine) -> Iterator[dict[str, str]]:
    """Return the environment of a client for whom a daemon with that engine is running."""
    env = environment(tmp_path)
    with serving(env, Handlers(engine, FakeService(), SystemClock())):
        yield env
