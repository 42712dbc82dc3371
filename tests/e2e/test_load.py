"""Many jobs at once, and the little that the daemon itself needs."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from crond_py.clock import SystemClock
from tests.support.daemon import Daemon, begun, may_run

NUMBER = 1000


def test_a_thousand_jobs_at_one_mark(daemon: Daemon) -> None:
    """With 1024 descriptors, a thousand jobs due at one instant each get their run (P1, P4, P8)."""
    # One mark and no more: how long a machine takes for a thousand starts is not at issue.
    mark = (SystemClock().now() + timedelta(seconds=8)).isoformat(timespec="seconds")
    jobs = "\n".join(f'[jobs.j{n}]\nat = {mark}\ncommand = ["true"]\n' for n in range(NUMBER))
    limited = ("sh", "-c", 'ulimit -n 1024; exec "$@"', "sh")
    log = daemon.start(jobs, under=limited)
    log.wait("run started", count=NUMBER)
    # One more job is not held up by them: it is there at once for who asks.
    daemon.cli("trigger", "j0", "--wait", "--force")
    daemon.stop()
    rows = [row for row in daemon.history() if _same(row["due"], mark)]
    assert {row["job"] for row in rows} == {f"j{n}" for n in range(NUMBER)}
    assert len(rows) == NUMBER
    assert {row["outcome"] for row in rows} == {"succeeded"}
    assert not [event for event in log.events if "exception" in event]
    late = sorted(row["late_seconds"] for row in rows)
    sys.stdout.write(f"{late[NUMBER // 2]} s late in the middle, {late[-1]} s at most\n")


def _same(due: str, other: str) -> bool:
    return datetime.fromisoformat(due) == datetime.fromisoformat(other)


def test_what_runs_for_months_is_small(daemon: Daemon) -> None:
    """The long-running process has the libraries of the command line not even loaded."""
    daemon.start('[jobs.tick]\nevery = "1s"\ncommand = "true"\n')
    daemon.log.wait("run succeeded", job="tick")
    maps = Path(f"/proc/{daemon.pid}/maps").read_text("utf-8")
    assert "pydantic_core" not in maps
    assert "libcrypto" not in maps
    assert b"crond_py.service" in Path(f"/proc/{daemon.pid}/cmdline").read_bytes()


@pytest.mark.parametrize("library", ["typer", "click", "rich", "pydantic"])
def test_service_is_without(daemon: Daemon, library: str) -> None:
    """Importing the service imports none of what only the command line needs."""
    script = "import crond_py.service, json, sys; print(json.dumps(sorted(sys.modules)))"
    interpreter = Path(daemon.command[0]).with_name("python")
    if not interpreter.exists():
        pytest.skip(f"the interpreter of {daemon.command[0]} is not beside it")
    done = subprocess.run(
        [interpreter, "-P", "-c", script], capture_output=True, text=True, check=True
    )
    assert library not in {name.split(".")[0] for name in json.loads(done.stdout)}


# --- as process 1 ------------------------------------------------------------------------------

ORPHANS = "\n".join(
    f'[jobs.j{n}]\nschedule = "* * * * * *"\ncommand = "(sleep 0.05 &) ; true"\n'
    f'overlap = "allow"\nmissed = "all"\n'
    for n in range(20)
)
NAMESPACE = ("unshare", "--fork", "--pid", "--mount-proc", "--kill-child")


@pytest.mark.skipif(not may_run(*NAMESPACE), reason="may not make a pid namespace")
def test_process_1(daemon: Daemon) -> None:
    """As process 1, with children of nobody to reap, every good run succeeds; no zombie stays."""
    log = daemon.start(ORPHANS, under=NAMESPACE)
    log.wait("run succeeded", count=20 * 5)
    assert log.wait("is up")["pid"] == 1
    (process_1,) = _children(daemon.pid)
    assert len(list(filter(_is_zombie, _children(process_1)))) < 20, "those of the last moment"
    daemon.cli("stop")
    assert daemon.wait_exit() == 0
    rows = begun(daemon.history())
    assert len(rows) >= 100
    assert {row["outcome"] for row in rows} == {"succeeded"}


def _children(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii")
    return list(map(int, children.split()))


def _is_zombie(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("utf-8")
    except FileNotFoundError:
        return False
    return stat.rpartition(") ")[2].startswith("Z")
