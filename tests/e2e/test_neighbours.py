"""Beside commands that do what no command should, a good one starts as if they were not there."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from tests.benchmarks.stamps import quantile
from tests.support.daemon import PROGRAMS, Bell, Daemon, Gate, assert_accounted, begun
from tests.support.daemon import processes_with as alive
from tests.support.witness import to_us
from tests.support.zoo import CLINGING, animal_text, assert_small

BEAT = timedelta(milliseconds=200)
STAMP = ["sh", str(PROGRAMS / "e2e_stamp.sh"), "ran"]
TICK = f"""
[jobs.tick]
every = "200ms"
command = {json.dumps(STAMP)}
overlap = "allow"
missed = "all"
"""

STAYING = {*CLINGING, "endless_lines"}
"""Those that go on from the start to the end."""

TIMED = ("double_fork", "deaf", "without_a_name")
"""Those of the clinging ones that also come again and again, and time out."""

STARTS = 60

FACTOR = 4
ROOM = {0.5: timedelta(milliseconds=50), 0.9: timedelta(milliseconds=250)}
"""By how much such a share of the starts may be later than that share of the plain ones.

A start is handed on by several threads, so where the machine is busy it waits several times as
long; and what comes once in ten times can be anything. Where each end or each output of a bad job
held up the others for some tenths of a second, most of them would be later than this.
"""


@contextmanager
def _plain_starter(daemon: Daemon) -> Iterator[None]:
    """Have the same command started as often, at the same time, by a program that does only that.

    It stands where the daemon stands: what the machine does to one of them it does to the other.
    """
    program = [sys.executable, "-I", "-S", str(PROGRAMS / "plain_starter.py")]
    first = daemon.stamps("tick")[0].due
    times_ns = [to_us(first) * 1000, BEAT // timedelta(microseconds=1) * 1000]
    process = subprocess.Popen(
        [*program, *map(str, times_ns), *STAMP],
        env={**daemon.environment, "OUT": str(daemon.out)},
        cwd=daemon.directory,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def _zoo(mark: str) -> str:
    """Return jobs that go on until they are ended, or end and come again, in every bad way."""
    staying = ("startup = true", 'kill_after = "300ms"')
    timed = ('every = "2s"', 'timeout = "1s"', 'kill_after = "200ms"')
    tidied = ('every = "3s"', 'leftovers = "kill"', 'kill_after = "200ms"')
    return "\n".join(
        [
            *(animal_text(animal, *staying, mark=mark) for animal in CLINGING),
            animal_text("endless_lines", "startup = true", 'output_limit = "100K"'),
            *(animal_text(each, *timed, mark=mark, name=f"timed-{each}") for each in TIMED),
            animal_text("leaves_a_herd", *tidied, mark=mark),
            animal_text("leaves_a_writer", 'every = "2s"', mark="1"),
            animal_text("kills_its_group", 'every = "1s"', mark=mark),
            animal_text("closed_output", 'every = "1s"'),
            animal_text("one_line", 'every = "3s"', 'output_limit = "1M"'),
            animal_text("many_lines", 'every = "3s"', 'output_limit = "1M"', 'output = "stream"'),
        ]
    )


def test_neighbour_of_all(daemon: Daemon, bell: Bell, gate: Gate, mark: str) -> None:
    """Beside all the bad ones a job is no later than with a starter that has none of them (P4).

    It is compared with a program that starts the same command at the same instants on the same
    machine, so how fast that is does not matter. And it runs for each instant, once (P1, P2).
    """
    log = daemon.start(_zoo(mark) + TICK)
    log.wait("run succeeded", job="tick")
    since = len(log.events)
    with _plain_starter(daemon):
        log.wait("run succeeded", job="tick", count=STARTS, since=since)
    assert {active["job"] for active in daemon.status()["active"]} >= STAYING
    assert_small(daemon)
    daemon.cli("stop", "--now")
    assert daemon.wait_exit() == 0
    assert alive(mark) == []
    _assert_in_time(daemon)
    rows = daemon.history()
    ticks = [row for row in rows if row["job"] == "tick"]
    assert_accounted(ticks, BEAT)
    assert {row["outcome"] for row in begun(ticks)} <= {"succeeded", "cancelled"}
    outcomes = {row["job"]: row["outcome"] for row in rows if row["job"] in STAYING}
    assert outcomes == dict.fromkeys(STAYING, "cancelled")


def _assert_in_time(daemon: Daemon) -> None:
    late = {}
    for job in ("tick", "plain"):
        late[job] = [(stamp.at - stamp.due).total_seconds() for stamp in daemon.stamps(job)]
        shown = " ".join(f"{1000 * late_s:.0f}" for late_s in late[job])
        sys.stdout.write(f"{job}: {len(late[job])} starts, late by milliseconds: {shown}\n")
    for share, room in ROOM.items():
        tick_s, plain_s = quantile(late["tick"], share), quantile(late["plain"], share)
        assert tick_s < FACTOR * plain_s + room.total_seconds(), share
