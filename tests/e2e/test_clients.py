"""Those who ask the daemon: it is killed meanwhile, or they are many and say nothing."""

from __future__ import annotations

import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta

import pytest

from crond_py import Client
from crond_py.model import Outcome
from tests.support.daemon import (
    Bell,
    Daemon,
    assert_accounted,
    begun,
    job_text,
)

A_SECOND = timedelta(seconds=1)
MANY = 150
"""More clients than the daemon talks to at a time."""

TICK = job_text(
    "tick",
    'sh "$STAMP" ran',
    *('schedule = "* * * * * *"', 'missed = "all"', 'overlap = "allow"'),
)


@pytest.mark.parametrize("command", ["trigger", "cancel", "stop"])
def test_daemon_is_killed_while_somebody_waits(
    daemon: Daemon, bell: Bell, mark: str, command: str
) -> None:
    """Who waits for an answer that never comes is told so at once, in a sentence."""
    deaf = f"trap 'echo told > bell' TERM; echo here > bell; while :; do sleep {mark} & wait; done"
    log = daemon.start(job_text("deaf", deaf, 'schedule = "@yearly"', 'kill_after = "1h"'))
    asked = {
        "trigger": ["trigger", "deaf", "--wait"],
        "cancel": ["cancel", "deaf"],
        "stop": ["stop"],
    }
    if command != "trigger":
        daemon.cli("trigger", "deaf")
        assert bell.wait() == "here"
    with subprocess.Popen(
        [*daemon.command, *asked[command]],
        env=daemon.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as client:
        if command == "trigger":
            assert bell.wait() == "here"
        elif command == "stop":
            log.wait("stopping")
        else:
            assert bell.wait() == "told"
        daemon.kill()
        said, complaint = client.communicate(timeout=60)
    if client.returncode == 0:
        assert command == "stop"
        assert "has stopped" in said
    else:
        assert client.returncode in {1, 3}
        lines = complaint.splitlines()
        assert all(line.startswith("pycron: ") for line in lines)
        # Who waits for a run was told which that is, and that it goes on. Who cancels is told what
        # was told to end, if the daemon could still answer that.
        assert len(lines) in {"trigger": {2}, "cancel": {1, 2}, "stop": {1}}[command]


def test_crowd_of_clients_that_wait(daemon: Daemon) -> None:
    """P4: however many threads wait, each learns of the end, and nobody else is kept out."""
    daemon.start(TICK)
    client = Client(daemon.state)
    task = client.submit("true", in_="1d")
    with ThreadPoolExecutor(MANY) as pool:
        waits = [pool.submit(client.wait, task.id) for _ in range(MANY)]
        try:
            assert daemon.cli("status").returncode == 0
        finally:
            client.cancel(task.id)
        runs = [waited.result(60) for waited in waits]
    assert [run.outcome for run in runs if run is not None] == [Outcome.CANCELLED] * MANY


def test_crowd_of_silent_clients(daemon: Daemon) -> None:
    """Hundreds of connections that say nothing take no run from anybody (P4, P9)."""
    limited = ("sh", "-c", 'ulimit -n 128; exec "$@"', "sh")
    log = daemon.start(TICK, under=limited)
    log.wait("run succeeded", job="tick")
    crowd = []
    for _ in range(400):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        crowd.append(client)
        with suppress(BlockingIOError, ConnectionError):
            client.connect(str(daemon.state / "control.sock"))
    since = len(log.events)
    log.wait("run succeeded", job="tick", count=3, since=since)
    for client in crowd:
        client.close()
    assert daemon.status()["pid"] == daemon.pid
    daemon.stop()
    rows = daemon.history()
    assert_accounted(rows, A_SECOND)
    assert {row["outcome"] for row in begun(rows)} == {"succeeded"}
