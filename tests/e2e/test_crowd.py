"""A crowd of tasks of one group, and a single one of another that waits for none of them."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from crond_py import Client, DaemonNotRunningError
from crond_py.clock import SystemClock
from tests.support.daemon import PATIENCE_S, Daemon, job_text

WORKERS = 4
CRONTAB = job_text("idle", "true", 'every = "1h"') + f"\n[pools.default]\nworkers = {WORKERS}\n"
A_SECOND = timedelta(seconds=1)
STORED_A_SECOND = 2_000
"""So many at least can be submitted: a crowd is due when all of it is there."""

BEFORE = """
SELECT count(*) FROM runs AS lone
JOIN attempts AS own ON own.run_id = lone.id
JOIN attempts AS other ON other.begun_at > lone.due AND other.begun_at < own.begun_at
WHERE lone.job = :job
"""
"""How many began while the lone one was due and had no slot yet, taken up or not."""

FEW = 100
"""So many may, before a busy machine has taken it up; most of the crowd is left by then."""

MOST_KIB = 150 * 1024


def _crowd(count: int, at: datetime, takes: str) -> Iterator[Mapping[str, Any]]:
    for _ in range(count):
        yield {"command": ["sleep", takes], "at": at, "group": "crowd"}


def _peak_kib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.partition("VmHWM:")[2].split()[0])


def _wait_for_all(client: Client, last: int) -> None:
    """Wait for the last of the crowd, as long as others end meanwhile, and then for the rest."""
    left = -1
    while True:
        try:
            client.wait(last, timedelta(seconds=PATIENCE_S))
            break
        except TimeoutError:
            before, left = left, sum(1 for _ in client.tasks())
            assert left != before, f"{left} tasks do not get on"
    for task in client.tasks():
        client.wait(task.id, timedelta(seconds=PATIENCE_S))
    for neighbour in range(last - 2 * WORKERS, last):  # nothing of it is to come, but it may run
        client.wait(neighbour, timedelta(seconds=PATIENCE_S))


@pytest.mark.parametrize(
    ("count", "takes"),
    [
        (1_000, "0.01"),  # at least two seconds and a half, however fast the machine
        pytest.param(1_000_000, "0", marks=[pytest.mark.long, pytest.mark.timeout(4 * 3600)]),
    ],
)
def test_nobody_waits_for_a_crowd(daemon: Daemon, count: int, takes: str) -> None:
    """P4: one of another group gets the next slot that is free; all are accounted for (P1)."""
    daemon.start(CRONTAB, "--log-file", "log", is_up=False)  # a million lines are of no use here
    client = Client(daemon.state)
    while True:
        with suppress(DaemonNotRunningError):
            client.submit("true", in_="0s")
            break
    due = SystemClock().now() + timedelta(seconds=5 + count / STORED_A_SECOND)
    *_, last = client.submit_many(_crowd(count, due, takes))
    lone = client.submit("true", at=due + A_SECOND, group="lone")
    assert SystemClock().now() < due, "it took too long to submit them"
    _wait_for_all(client, last.id)
    peak_kib = _peak_kib(daemon.pid)
    (run,) = daemon.history(f"task:{lone.id}")
    with closing(sqlite3.connect(daemon.ledger)) as ledger:
        ((before,),) = ledger.execute(BEFORE, {"job": f"task:{lone.id}"})
        outcomes = ledger.execute("SELECT outcome, count(*) FROM runs GROUP BY outcome").fetchall()
    sys.stdout.write(f"{run['late_seconds']} s late, {peak_kib} KiB at most\n")
    assert outcomes == [("succeeded", count + 2)]
    assert before <= FEW
    assert peak_kib < MOST_KIB
