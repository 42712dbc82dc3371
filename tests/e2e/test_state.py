"""The state directory: read, tended, named otherwise, of another boot or clock, meddled with.

Reports about other schedulers are named where a test is about one, or about its kin.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import sqlite3
import subprocess
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from crond_py.control.client import Conversation
from crond_py.control.protocol import Trigger
from tests.support.daemon import (
    Bell,
    Daemon,
    Gate,
    assert_accounted,
    begun,
    job_text,
    kill_session,
)
from tests.support.wallclock import WallClock

A_SECOND = timedelta(seconds=1)


def _write_program(path: Path, text: str, mode: int = 0o700) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


TICK = job_text(
    "tick",
    'sh "$STAMP" ran',
    *('schedule = "* * * * * *"', 'missed = "all"', 'overlap = "allow"'),
)


def test_slow_reader_of_the_history(daemon: Daemon) -> None:
    """agronholm/apscheduler#843, its second half: who reads for long holds nobody up (P8)."""
    log = daemon.start(TICK)
    log.wait("run succeeded", job="tick")
    with closing(sqlite3.connect(f"file:{daemon.ledger}?mode=ro", uri=True)) as reader:
        reader.isolation_level = None
        reader.execute("BEGIN")
        (before,) = reader.execute("SELECT count(*) FROM runs").fetchone()
        log.wait("run succeeded", job="tick", count=4)
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (before,)
        assert len(daemon.history()) > before
        assert daemon.status()["troubles"] == []
    assert log.all("the ledger cannot be written") == []
    daemon.stop()
    assert_accounted(daemon.history(), A_SECOND)


@pytest.mark.parametrize("statement", ["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "REINDEX"])
def test_somebody_tends_the_ledger(daemon: Daemon, statement: str) -> None:
    """Of the same kind: what an administrator may do to a database meanwhile loses nothing (P8)."""
    log = daemon.start(TICK)
    log.wait("run succeeded", job="tick")
    with closing(sqlite3.connect(daemon.ledger, timeout=30)) as other:
        other.isolation_level = None
        for _ in range(3):
            other.execute(statement).fetchall()
            since = len(log.events)
            log.wait("run succeeded", job="tick", since=since)
    daemon.stop()
    rows = daemon.history()
    assert_accounted(rows, A_SECOND)
    assert {row["outcome"] for row in begun(rows)} == {"succeeded"}


def test_state_of_another_boot(daemon: Daemon, bell: Bell, gate: Gate) -> None:
    """jhuckaby/Cronicle#789 and its kind: pids of before a boot mean nobody, and end nobody (P2).

    The run that the boot cut is closed as lost, and the stranger that has its pid is left alone.
    """
    long = job_text("long", "echo $$ > bell; read x < gate", 'startup = "boot"')
    daemon.start(long)
    pid = int(bell.wait())
    run = daemon.log.wait("run started", job="long")["run"]
    daemon.status()  # all that has happened is in the ledger when it answers
    daemon.kill()
    with closing(sqlite3.connect(daemon.ledger)) as ledger, ledger:
        ledger.execute("UPDATE attempts SET boot_id = 'another', start_ticks = start_ticks + 1")
        ledger.execute("UPDATE cursors SET boot_id = 'another'")
    kill_session(pid)
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as stranger:
        try:
            with closing(sqlite3.connect(daemon.ledger)) as ledger, ledger:
                ledger.execute("UPDATE attempts SET pid = ?", (stranger.pid,))
            log = daemon.start()
            assert log.wait("run lost", run=run)["reason"]
            gate.open()
            log.wait("run succeeded", job="long")
            daemon.stop()
            assert stranger.poll() is None, "a stranger's process was ended"
        finally:
            stranger.kill()


def test_many_daemons_at_once(daemon: Daemon) -> None:
    """Of six that are started in one moment on one state one comes up, the others say why (P2)."""
    daemon.write(TICK)
    others = [
        subprocess.Popen(
            [*daemon.command, "run"],
            env=daemon.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(5)
    ]
    daemon.start(is_up=False)
    # Whoever has the state goes on until it is told to stop; all others end by themselves.
    ended = [process for process in [*others, daemon.process] if process is not None]
    winner = _wait_until_one_is_left(ended)
    os.kill(winner, signal.SIGTERM)
    statuses = {process.pid: process.wait(60) for process in ended}
    assert statuses.pop(winner) == 0
    assert set(statuses.values()) == {1}
    for process in others:
        _, complaint = process.communicate()
        if process.pid != winner:
            assert "another pycron (pid " in complaint
    dues = [stamp.due for stamp in daemon.stamps()]
    assert len(dues) == len(set(dues))


def test_the_daemon_has_its_own_name(daemon: Daemon) -> None:
    """It is found by ``pgrep -x pycron``, and its jobs are not."""
    daemon.start(TICK).wait("run succeeded", job="tick")
    assert Path(f"/proc/{daemon.pid}/comm").read_text() == "pycron\n"


@pytest.mark.parametrize("is_replaced", [False, True], ids=["deleted", "replaced"])
def test_the_control_socket_is_deleted(daemon: Daemon, is_replaced: bool) -> None:
    """A daemon whose socket was deleted makes it again with the next that it writes (P8).

    So does one whose directory was put back with the socket of a daemon that is gone.
    """
    log = daemon.start(TICK)
    log.wait("run succeeded", job="tick")
    (daemon.state / "control.sock").unlink()
    if is_replaced:
        with closing(socket.socket(socket.AF_UNIX)) as dead:
            dead.bind(str(daemon.state / "control.sock"))
    log.wait("the control socket was deleted; it is there again")
    assert daemon.status()["troubles"] == []


@pytest.mark.parametrize("deleted", [["pycron.lock"], ["pycron.lock", "control.sock"]])
def test_the_lock_file_is_deleted(
    daemon: Daemon, bell: Bell, gate: Gate, deleted: list[str]
) -> None:
    """A daemon whose lock file was deleted is still the only one, idle or not (P2).

    A second one touches nothing before it is told so, and the first makes the file again.
    """
    long = job_text("long", "echo $$ > bell; read x < gate", 'schedule = "@yearly"')
    log = daemon.start(long)
    daemon.cli("trigger", "long")
    bell.wait()
    run = log.wait("run started", job="long")["run"]
    lock = daemon.state / "pycron.lock"
    for name in deleted:
        (daemon.state / name).unlink()
    refused = daemon.cli("run", check=1)
    assert "another pycron " in refused.stderr
    assert "runs on this state directory" in refused.stderr
    assert not lock.exists(), "the second has begun to work"
    assert [(row["run"], row["state"]) for row in daemon.history()] == [(run, "running")]
    gate.open()
    log.wait("run succeeded", run=run)
    log.wait("the lock file was deleted; it is there again")
    assert lock.read_text().startswith(f"{daemon.pid}\n")
    if "control.sock" in deleted:
        log.wait("the control socket was deleted; it is there again")
    assert daemon.status()["troubles"] == []
    assert log.all("the ledger cannot be written") == []


@pytest.mark.parametrize("way", ["link", "dots", "mount"])
def test_state_by_another_name(daemon: Daemon, way: str) -> None:
    """A state directory has one daemon, by whatever name it is reached (P2)."""
    daemon.start(TICK)
    other = daemon.directory / "other"
    if way == "link":
        other.symlink_to(daemon.state)
    elif way == "dots":
        other = daemon.state / ".." / daemon.state.name
    else:
        other.mkdir()
        mounted = _run("mount", "--bind", str(daemon.state), str(other))
        if mounted != 0:
            pytest.skip("may not mount")
    try:
        refused = daemon.cli("run", "--state-dir", str(other), check=1)
        assert f"another pycron (pid {daemon.pid}) runs on this state directory" in refused.stderr
        daemon.log.wait("run succeeded", job="tick", since=len(daemon.log.events))
    finally:
        if way == "mount":
            assert _run("umount", str(other)) == 0


def _run(*command: str) -> int:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode
    except FileNotFoundError:
        return -1


def _wait_until_one_is_left(
    processes: list[subprocess.Popen[str] | subprocess.Popen[bytes]],
) -> int:
    """Return the pid of the last of them, by waiting for the ends of all others."""
    poll, held = select.poll(), {}
    for process in processes:
        held[os.pidfd_open(process.pid)] = process.pid
    for pidfd in held:
        poll.register(pidfd, select.POLLIN)
    while len(held) > 1:
        ready = poll.poll(60_000)
        assert ready, f"{len(held)} go on"
        for pidfd, _ in ready:
            poll.unregister(pidfd)
            os.close(pidfd)
            del held[pidfd]
    ((pidfd, pid),) = held.items()
    os.close(pidfd)
    return pid


@pytest.mark.parametrize("way", ["copied", "moved"])
def test_state_at_another_place(daemon: Daemon, way: str) -> None:
    """What a ledger has recorded lies beside it, wherever it was copied or moved to (P9).

    Old outputs are removed there, and not where the ledger was before.
    """
    keep = ('schedule = "@yearly"', "keep = {runs = 1}")
    daemon.start(job_text("prints", "echo precious", *keep))
    for _ in range(3):
        daemon.cli("trigger", "prints", "--wait")
    daemon.stop()
    old = daemon.state / "output" / "prints"
    names = sorted(path.name for path in old.iterdir())
    assert len(names) == 3
    new = daemon.directory / "new"
    if way == "copied":
        shutil.copytree(daemon.state, new, symlinks=True)
    else:
        daemon.state.rename(new)
        old.mkdir(parents=True)
        for name in names:
            (old / name).write_text("somebody else's")
    daemon.start(None, "--state-dir", str(new))
    with Conversation(new / "control.sock") as conversation:
        for _ in range(52):
            conversation.call(Trigger("prints", force=True))
    daemon.log.wait("run succeeded", count=52)
    assert daemon.cli("logs", "55", "--state-dir", str(new)).stdout == "precious\n"
    daemon.stop()
    left = {path.name for path in (new / "output" / "prints").iterdir()}
    assert "55-1.log" in left
    assert not left & set(names), "they are forgotten, but their outputs are still there"
    assert sorted(path.name for path in old.iterdir()) == names


def test_clock_is_set_back_while_nobody_is_there(daemon: Daemon, clock: WallClock) -> None:
    """A restart on a clock that was set back runs nothing again that has been (P1, P2)."""
    clock.set("2026-03-02T10:00:00")
    log = daemon.start(TICK, env=clock.environment)
    log.wait("run succeeded", job="tick", count=3)
    daemon.kill()
    clock.step(timedelta(seconds=-4))
    log = daemon.start(env=clock.environment)
    log.wait("run succeeded", job="tick", count=2)
    daemon.stop()
    dues = [stamp.due for stamp in daemon.stamps("tick")]
    assert len(dues) == len(set(dues))
    assert_accounted(daemon.history(), A_SECOND)


MEDDLING = {
    "removed": 'rm -f "$1"',
    "directory-removed": 'rm -rf "$(dirname "$1")"',
    "truncated": ': > "$1"',
    "renamed": 'mv "$1" "$1.away"',
    "a-link": 'ln -sf "$PRECIOUS" "$1"',
    "a-directory": 'rm -f "$1"; mkdir "$1"',
    "a-fifo": 'rm -f "$1"; mkfifo "$1"',
}


@pytest.mark.parametrize("way", MEDDLING)
def test_output_that_is_meddled_with(daemon: Daemon, way: str) -> None:
    """What a job does to the file of its own output harms nobody else, nor any other file (P8, P9).

    It prints beyond its limit before and after, so that the file is looked after all the time.
    """
    precious = daemon.directory / "precious"
    precious.write_bytes(b"p" * 100_000)
    script = daemon.directory / "meddle.sh"
    _write_program(script, f"#!/bin/sh\nhead -c 50000 /dev/zero\n{MEDDLING[way]}\n")
    command = (
        f'PRECIOUS={precious} sh {script} "$(readlink /proc/$$/fd/1)" && head -c 50000 /dev/zero'
    )
    keys = ('schedule = "@yearly"', 'output_limit = "10K"')
    log = daemon.start(job_text("meddles", command, *keys) + TICK)
    for _ in range(2):
        assert " succeeded after " in daemon.cli("trigger", "meddles", "--wait").stdout
    log.wait("run succeeded", job="tick", count=2)
    daemon.cli("logs", "meddles", check=None)
    daemon.stop()
    assert precious.read_bytes() == b"p" * 100_000
    assert not [event for event in log.events if "exception" in event]
    assert log.noise == []
