"""What a run needs is not there, or the system has none left: said in its row and in the log (P8).

Programs and directories that are missing are in ``test_no_start``, as is a lack of descriptors;
what befalls the ledger is in ``test_ledger_trouble``.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import timedelta
from pathlib import Path

import pytest

import crond_py
from tests.support.daemon import Bell, Daemon, Event, EventLog, Gate, assert_accounted, begun

TICK = """
[jobs.tick]
schedule = "* * * * * *"
command = "true"
missed = "all"
overlap = "allow"
"""

WAITING = """
[jobs.waiting]
startup = true
command = 'echo here > bell; read x < gate'
"""


def _row(daemon: Daemon, job: str) -> Event:
    (row,) = daemon.history(job)
    return row


def _told(log: EventLog, event: str, job: str) -> Event:
    (told,) = log.all(event, job=job)
    return told


def test_stopped_without_a_descriptor_to_be_had(daemon: Daemon, bell: Bell, gate: Gate) -> None:
    """P8: a stop needs none, also where nothing was ever asked of the daemon before."""
    log = daemon.start(WAITING, is_up=False)
    log.wait(f"pycron {crond_py.__version__} is up")
    bell.wait()
    _, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (4, hard))
    daemon.signal(signal.SIGTERM)
    log.wait("stopping")
    gate.open()
    assert daemon.wait_exit() == 0, log.text()
    assert _row(daemon, "waiting")["outcome"] == "succeeded"


# --- what a run needs ---------------------------------------------------------------------------

MISSING = {
    "user": ('user = "no-such-user"', "user no-such-user: there is no such user"),
    "env-file": ('env_file = "/nowhere/env"', "/nowhere/env: no such file or directory (ENOENT)"),
    "stdin": (
        'stdin = { file = "/nowhere/in" }',
        "/nowhere/in: no such file or directory (ENOENT)",
    ),
    "cwd": ('cwd = "/nowhere/at"', "/nowhere/at: no such file or directory (ENOENT)"),
    "shell": ('shell = "/nowhere/sh"', "no such file or directory (ENOENT): /nowhere/sh"),
}


def test_what_a_run_needs_is_missing(daemon: Daemon) -> None:
    """Each start fails with the name of what is missing, the same in the row and the log (P8).

    It is looked for anew each time: once it is there, the job runs.
    """
    later = daemon.directory / "later"
    keys = {**{job: key for job, (key, _) in MISSING.items()}, "later": f'cwd = "{later}"'}
    if os.geteuid() != 0:
        del keys["user"]  # whoever is not root is told that it may not be another at all
    jobs = "".join(
        f'[jobs.{job}]\nstartup = true\ncommand = "true"\n{key}\n' for job, key in keys.items()
    )
    log = daemon.start(jobs + TICK)
    for job in keys:
        log.wait("run failed", job=job)
        row = _row(daemon, job)
        words = MISSING.get(job, ("", f"{later}: no such file or directory (ENOENT)"))[1]
        assert row["outcome"] == "failed"
        assert words in row["reason"]
        assert row["reason"].startswith("cannot start: ")
        assert _told(log, "run failed", job)["reason"] == row["reason"]
        (attempt,) = row["attempts"]
        assert (attempt["pid"], attempt["outcome"]) == (None, "failed")
    log.wait("run succeeded", job="tick")
    later.mkdir()
    daemon.cli("trigger", "later")
    log.wait("run succeeded", job="later")


def test_output_cannot_be_kept(daemon: Daemon) -> None:
    """A job whose output has no place runs all the same; row and log say what is missing (P8)."""
    log = daemon.start(TICK + '[jobs.loud]\nat = 2199-01-01\ncommand = "echo loud"\n')
    log.wait("run succeeded", job="tick")
    output = daemon.state / "output"
    shutil.rmtree(output)
    output.write_bytes(b"in the way")
    daemon.cli("trigger", "loud")
    log.wait("run succeeded", job="loud")
    row = _row(daemon, "loud")
    (attempt,) = row["attempts"]
    assert row["outcome"] == "succeeded"
    assert str(output) in attempt["reason"]
    assert "ENOTDIR" in attempt["reason"]
    assert log.all("its output is not kept")  # it is said once: of this run, or of a tick
    output.unlink()
    daemon.cli("trigger", "loud")
    log.wait("run succeeded", job="loud", count=2)
    assert daemon.cli("logs", "loud").stdout == "loud\n"


# --- what the system has none left of -----------------------------------------------------------


@pytest.fixture
def process_limit() -> Iterator[Path]:
    """Give a control group whose number of processes can be limited."""
    for parent in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")):
        group = parent / f"pycron-test-{os.getpid()}"
        with suppress(OSError):
            group.mkdir()
            if (group / "pids.max").exists():
                break
            group.rmdir()
    else:
        pytest.skip("may not make a control group that limits processes")
    yield group
    for pid in (group / "cgroup.procs").read_text().split():
        with suppress(OSError):
            (group.parent / "cgroup.procs").write_text(pid)
    group.rmdir()


def test_no_process_can_be_made(daemon: Daemon, process_limit: Path) -> None:
    """Where fork fails (EAGAIN) each run says so, and once it works again the jobs run (P8, P1)."""
    log = daemon.start(TICK)
    log.wait("run succeeded", job="tick", count=2)
    (process_limit / "cgroup.procs").write_text(str(daemon.pid))
    (process_limit / "pids.max").write_text("1")
    log.wait("run failed", job="tick", count=2)
    (process_limit / "pids.max").write_text("max")
    log.wait("run succeeded", job="tick", count=2, since=len(log.events))
    daemon.stop()
    rows = daemon.history("tick")
    failed = [row for row in begun(rows) if row["outcome"] != "succeeded"]
    assert len(failed) >= 2
    for row in failed:
        assert "EAGAIN" in row["reason"], json.dumps(row)
    assert_accounted(rows, timedelta(seconds=1))
    assert not [event for event in log.events if "exception" in event]


# --- who reads ----------------------------------------------------------------------------------


def test_slow_reader_of_the_history(daemon: Daemon) -> None:
    """Whoever reads the ledger and does not end holds nothing up (apscheduler#843, P4)."""
    log = daemon.start(TICK)
    log.wait("run succeeded", job="tick")
    with closing(sqlite3.connect(daemon.ledger, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        (seen,) = reader.execute("SELECT count(*) FROM runs").fetchone()
        log.wait("run succeeded", job="tick", count=3, since=len(log.events))
        assert daemon.status()["troubles"] == []
        assert len(daemon.history()) >= seen + 2
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (seen,)
    daemon.stop()
    assert {row["outcome"] for row in begun(daemon.history())} == {"succeeded"}
    assert log.all("the ledger") == []
