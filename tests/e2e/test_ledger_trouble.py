"""The ledger is locked, has no room, or is damaged: jobs go on where they can (P8)."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.daemon import PATIENCE_S, PROGRAMS, Bell, Daemon, Event, Gate, assert_accounted

TICK = """
[jobs.tick]
schedule = "* * * * * *"
command = 'sh "$STAMP" ran'
missed = "all"
"""

# Tells, once the gate is opened, when three seconds have passed; it needs no ledger for that.
ALARM = """
[jobs.alarm]
startup = true
command = "read x < gate; sleep 3; echo over > bell"
"""


@contextmanager
def _locked(ledger: Path) -> Iterator[None]:
    """Hold the ledger as another program does that writes it."""
    with subprocess.Popen(
        [sys.executable, PROGRAMS / "ledger_hold.py", ledger],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield
        holder.stdin.write("\n")
        holder.stdin.flush()
        assert holder.stdout.readline() == "released\n"
        assert holder.wait(PATIENCE_S) == 0


def test_locked_for_seconds(daemon: Daemon, bell: Bell, gate: Gate) -> None:
    """While another program holds the ledger nothing is lost; afterwards all is in it (P1, P8).

    It is said once in the log and shown by ``pycron status``; nobody needs to restart anything.
    """
    log = daemon.start(TICK + ALARM)
    log.wait("run succeeded", job="tick")
    with _locked(daemon.ledger):
        gate.open()
        log.wait("the ledger cannot be written")
        (trouble,) = daemon.status()["troubles"]
        assert str(daemon.ledger) in trouble
        assert "locked" in trouble
        assert daemon.history("tick"), "it can still be read"
        assert bell.wait() == "over"
        since = len(log.events)
    log.wait("the ledger can be written again", since=since)
    log.wait("run succeeded", job="tick", count=3, since=since)
    assert daemon.status()["troubles"] == []
    assert len(log.all("the ledger cannot be written")) == 1
    daemon.stop()
    rows = daemon.history("tick")
    assert_accounted(rows, timedelta(seconds=1))
    _assert_stamps(daemon, rows)


def _assert_stamps(daemon: Daemon, rows: list[Event]) -> None:
    """Hold that what ran is what is recorded as having run, each once (P2)."""
    ran = [row["due"] for row in rows if row["outcome"] == "succeeded"]
    stamps = [stamp.due.isoformat().replace("+00:00", "Z") for stamp in daemon.stamps("tick")]
    assert sorted(stamps) == ran


@pytest.fixture
def small_disk(daemon: Daemon) -> Iterator[Path]:
    """Give the daemon a state directory on a file system of two megabytes."""
    daemon.state.mkdir(mode=0o700)
    options = ["-t", "tmpfs", "-o", "size=2m,mode=0700", "pycron-test"]
    try:
        mounted = subprocess.run(
            ["mount", *options, daemon.state], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("there is no mount(8)")
    if mounted.returncode != 0:
        pytest.skip(f"may not mount a small file system: {mounted.stderr.strip()}")
    yield daemon.state
    daemon.clean_up()
    subprocess.run(["umount", daemon.state], check=True)


def _fill(directory: Path) -> Path:
    """Take all the room that there is."""
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    return filler


def test_disk_full(daemon: Daemon, small_disk: Path) -> None:
    """With no room left nothing recorded is lost, and with room again jobs go on (P8, P1)."""
    log = daemon.start(TICK)
    log.wait("run succeeded", job="tick", count=2)
    before = [row for row in daemon.history() if row["outcome"]]
    filler = _fill(small_disk)
    log.wait("the ledger cannot be written")
    (trouble,) = daemon.status()["troubles"]
    assert "disk full" in trouble
    assert daemon.history()[: len(before)] == before
    filler.unlink()
    since = len(log.events)
    log.wait("the ledger can be written again", since=since)
    log.wait("run succeeded", job="tick", count=3, since=since)
    assert daemon.status()["troubles"] == []
    assert len(log.all("the ledger cannot be written")) == 1
    daemon.stop()
    rows = daemon.history()
    assert rows[: len(before)] == before
    assert_accounted(rows, timedelta(seconds=1))
    _assert_stamps(daemon, rows)


def test_start_on_a_full_disk(daemon: Daemon, small_disk: Path) -> None:
    """A daemon that has no room at its start says so in one line; with room it goes on (P8, P1)."""
    daemon.start(TICK).wait("run succeeded", job="tick")
    daemon.stop()
    before = daemon.history()
    filler = _fill(small_disk)
    (refused,) = daemon.cli("run", check=1).stderr.splitlines()
    assert refused.startswith(f"pycron: the ledger {daemon.ledger} cannot be ")
    filler.unlink()
    daemon.start().wait("run succeeded", job="tick", count=2)
    daemon.stop()
    rows = daemon.history()
    assert rows[: len(before)] == before
    assert_accounted(rows, timedelta(seconds=1))


def test_damaged_ledger_is_set_aside(daemon: Daemon) -> None:
    """What is no ledger is kept under another name, said loudly, and jobs run (P8)."""
    daemon.state.mkdir(mode=0o700)
    daemon.ledger.write_bytes(b"this is no database" * 1000)
    log = daemon.start(TICK)
    damaged = log.wait("the ledger is damaged")
    assert damaged["level"] == "critical"
    assert Path(damaged["set_aside_as"]).read_bytes() == b"this is no database" * 1000
    log.wait("run succeeded", job="tick")
