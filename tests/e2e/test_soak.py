"""Fifty starts a second for many minutes: what the daemon has in use does not grow."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import pytest

from crond_py.clock import SystemClock
from tests.support.auditor import Evidence, audit
from tests.support.daemon import ENDS, Bell, Daemon
from tests.support.mixture import mix
from tests.support.witness import read_ledger, read_words, to_us

GROWTH_KIB = 6 * 1024
"""By how much memory may differ from one minute to another; a leak of 200 bytes a start is more."""

MANY = 10_000
"""Slots for all: what waits for one would pile up, and take memory with right."""

BEGUN_WHEN_NEEDED = 2
"""Threads that stay once there was work for them: what removes old outputs, what compacts large."""


def _turn(period_s: int) -> str:
    """Return a job that tells how time passes."""
    return f'[jobs.turn]\nevery = "{period_s}s"\ncommand = "echo over > bell"\noverlap = "allow"\n'


@dataclass(frozen=True, slots=True)
class InUse:
    """What a process has in use; see proc(5)."""

    memory_kib: int
    descriptors: int
    threads: int
    children: frozenset[int]
    zombies: frozenset[int]


def _look(pid: int) -> InUse:
    lines = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    status = dict(line.split(":", 1) for line in lines)
    children = dict(_children(pid))
    return InUse(
        memory_kib=int(status["VmRSS"].split()[0]),
        descriptors=len(os.listdir(f"/proc/{pid}/fd")),  # noqa: PTH208 - only their number
        threads=int(status["Threads"]),
        children=frozenset(children),
        zombies=frozenset(child for child, state in children.items() if state == "Z"),
    )


def _children(pid: int) -> Iterator[tuple[int, str]]:
    """Yield the children of a process, and the state of each."""
    for directory in Path("/proc").glob("[0-9]*"):
        try:
            fields = (directory / "stat").read_text("utf-8", "replace").rpartition(") ")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            yield int(directory.name), fields[0]


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("turns", "period_s"), [(3, 3), pytest.param(31, 20, marks=pytest.mark.long)]
)
def test_nothing_grows(daemon: Daemon, bell: Bell, turns: int, period_s: int) -> None:
    """Under load memory stays as after the first minute, and what was in use for it is given back.

    Descriptors and threads are as before the load (but for what is begun once and stays), no zombie
    and no child stays, and each occurrence of it all is accounted for (P1, P2, P5).
    """
    turn = _turn(period_s)
    daemon.start(mix(is_enabled=False, workers=MANY).text + turn)
    bell.wait()  # a start at its instant has what it needs for good
    daemon.cli("trigger", "turn", "--wait", "--force")
    idle = _look(daemon.pid)
    mixture = mix(workers=MANY)
    daemon.write(mixture.text + turn)
    daemon.cli("reload")
    bell.wait()
    looks = []
    for _ in range(turns):
        bell.wait()
        looks.append(_look(daemon.pid))
    until = to_us(SystemClock().now())
    _end_load(daemon, turn)
    quiet = _look(daemon.pid)
    sys.stdout.write(f"idle {_shown(idle)}\n{''.join(map(_shown, looks))}quiet {_shown(quiet)}")
    assert quiet.descriptors == idle.descriptors
    assert idle.threads <= quiet.threads <= idle.threads + BEGUN_WHEN_NEEDED
    assert not quiet.children
    for before, after in pairwise(looks):
        assert not before.zombies & after.zombies
    after_a_minute = looks[60 // period_s :]
    if after_a_minute:
        most = max(look.memory_kib for look in after_a_minute)
        assert most - after_a_minute[0].memory_kib < GROWTH_KIB
    daemon.stop()
    words, book = read_words(daemon.out), read_ledger(daemon.ledger)
    book = replace(book, runs=tuple(run for run in book.runs if run.job != "turn"))
    evidence = Evidence(mixture.rules, tuple(words), book, until=until)
    assert audit(evidence) == []
    assert len(words) > turns * period_s * 20


def _end_load(daemon: Daemon, turn: str) -> None:
    """Let nothing new start, and wait until all has ended and what ended is reaped."""
    since = len(daemon.log.events)
    daemon.write(mix(is_enabled=False, workers=MANY).text + turn)
    daemon.cli("reload")
    for active in daemon.status()["active"]:
        daemon.log.wait(ENDS, run=active["run"], since=since)
    # What the last runs have left behind ends within a moment: a later end is seen after it.
    for _ in range(2):
        daemon.cli("trigger", "turn", "--wait", "--force")


def _shown(look: InUse) -> str:
    return (
        f"{look.memory_kib} KiB, {look.descriptors} descriptors, {look.threads} threads, "
        f"{len(look.children)} children, {len(look.zombies)} zombies\n"
    )
