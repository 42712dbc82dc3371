"""What is loaded for what: a short command answers at once, and the daemon carries no luggage."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.program import environment, pycron

CRONTAB = """\
[jobs.backup]
schedule = "30 2 * * *"
command = "true"
"""


def loaded(*arguments: str, tmp_path: Path) -> set[str]:
    """Return the names of all modules that a command imports."""
    (tmp_path / "crontab.toml").write_text(CRONTAB)
    env = environment(tmp_path, PYTHONPROFILEIMPORTTIME="1")
    env = {name: value for name, value in env.items() if not name.startswith("COV")}
    lines = pycron(*arguments, env=env).stderr.splitlines()
    names = {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}
    assert "crond_py.cli.app" in names
    return names


def packages(names: set[str]) -> set[str]:
    """Return the top-level packages among the names."""
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize(
    "arguments",
    [["next", "--json"], ["next"], ["next", "-e", "30 2 * * *", "-n", "3"], ["check"], ["list"],
     ["next", "--help"], ["--version"]],
)  # fmt: skip
def test_a_short_command_loads_little(arguments: list[str], tmp_path: Path) -> None:
    """Neither pydantic, which typer would load, nor rich, SQLite, croniter or asyncio."""
    heavy = {"pydantic", "pydantic_core", "rich", "sqlite3", "croniter", "asyncio", "hypothesis"}
    assert not packages(loaded(*arguments, tmp_path=tmp_path)) & heavy


def test_only_the_command_that_is_asked_for_is_loaded(tmp_path: Path) -> None:
    """The commands do not pay for one another."""
    names = loaded("next", tmp_path=tmp_path)
    assert "crond_py.timetable" in names
    others = {"crond_py.cli.daemon", "crond_py.cli.follow", "crond_py.control.client"}
    assert not names & {*others, "crond_py.control.server", "crond_py.runner.output"}


@pytest.mark.parametrize("module", ["crond_py.service", "crond_py.control.server"])
def test_the_daemon_carries_no_command_line(module: str) -> None:
    """What runs for months has neither typer nor rich nor pydantic in memory."""
    program = f"import {module}, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    names = set(done.stdout.split())
    assert module in names
    assert not packages(names) & {"typer", "click", "rich", "pydantic", "pydantic_core"}
    assert not any(name.startswith("crond_py.cli") for name in names)
