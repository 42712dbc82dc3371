"""Fifty starts a second for many minutes: what the daemon has in use does not grow."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from crond_py.clock import SystemClock
from tests.support.auditor import Evidence, audit
from tests.support.daemon import ENDS, Bell, Daemon
from tests.support.mixture import mix
from tests.support.witness import read_ledger, read_words, to_us

A_MINUTE = 60 * 50
"""So many starts are a minute's worth: time is counted by them, so that no machine is too slow."""

LATER_KIB = 1024
"""By how much memory may at any time be more than in the first minute: what happens to meet."""

STEADY_KIB = 1024
"""By how much it may be more in the second half of the rest; a leak of 80 bytes a start is."""

PER_CHILD_KIB = 8
"""What a process takes that lives; where the machine is slow, more of them do at a time."""

FEW = 8
"""Descriptors that are open for a moment."""

MANY = 10_000
"""Slots for all: what waits for one would pile up, and take memory with right."""

FEWEST = 3
"""Turns, at least."""

FEWEST_STARTS = 200
"""Starts, at least, that these turns saw, so that there is a load; more turns where it is slow."""

BEGUN_WHEN_NEEDED = 2
"""Threads that stay once there was work for them: what removes old outputs, what compacts large."""


def _turn(period_s: int) -> str:
    """Return a job that tells how time passes."""
    return f'[jobs.turn]\nevery = "{period_s}s"\ncommand = "echo over > bell"\noverlap = "allow"\n'


@dataclass(frozen=True, slots=True)
class InUse:
    """What a process has in use after so many ``starts``; see proc(5)."""

    starts: int
    memory_kib: int
    descriptors: int
    threads: int
    children: frozenset[int]
    zombies: frozenset[int]

    def __str__(self) -> str:
        """Return it in a line, for a person."""
        return (
            f"{self.starts} starts: {self.memory_kib} KiB, {self.descriptors} descriptors, "
            f"{self.threads} threads, {len(self.children)} children, {len(self.zombies)} zombies"
        )

    @property
    def spare(self) -> int:
        """How many descriptors do not stand for children."""
        return self.descriptors - len(self.children)


def _look(daemon: Daemon) -> InUse:
    process = Path(f"/proc/{daemon.pid}")
    status = dict(line.split(":", 1) for line in (process / "status").read_text().splitlines())
    children = dict(_children(daemon.pid))
    return InUse(
        starts=daemon.out.read_bytes().count(b"begin ") if daemon.out.exists() else 0,
        memory_kib=int(status["VmRSS"].split()[0]),
        descriptors=len(os.listdir(process / "fd")),  # noqa: PTH208 - only their number
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


class Course:
    """What was in use at each turn. It is printed as it comes, so a failure shows all of it."""

    def __init__(self, idle: InUse) -> None:
        self._idle = idle
        self.looks: list[InUse] = []
        sys.stdout.write(f"idle after {idle}\n")

    def add(self, look: InUse) -> None:
        """Note a look; hold that no zombie has stayed since the one before."""
        sys.stdout.write(f"{look}\n")
        if self.looks:
            assert not self.looks[-1].zombies & look.zombies
        self.looks.append(look)

    def check(self) -> None:
        """Hold that nothing has grown after a minute's worth of starts, if there were so many."""
        begin = next((n for n, look in enumerate(self.looks, 1) if look.starts >= A_MINUTE), None)
        if begin is None:
            return
        first, later = self.looks[:begin], self.looks[begin:]
        half = len(later) // 2
        early, late = later[:half], later[half:]
        # What is in use for a moment goes up and down; where something is not given back, the low
        # goes up, too.
        assert min(look.spare for look in late) <= max(look.spare for look in first) + FEW
        assert min(look.threads for look in late) <= max(look.threads for look in first)
        assert _growth_kib(first, later) < LATER_KIB
        assert _growth_kib(early, late) < STEADY_KIB

    def check_quiet(self, quiet: InUse) -> None:
        """Hold that after the load all is given back."""
        sys.stdout.write(f"quiet after {quiet}\n")
        idle = self._idle
        assert quiet.descriptors <= idle.descriptors  # whose client was perhaps not quite gone
        assert idle.threads <= quiet.threads <= idle.threads + BEGUN_WHEN_NEEDED
        assert not quiet.children


def _growth_kib(before: Sequence[InUse], after: Sequence[InUse]) -> int:
    """Return how much more memory was in use at most, but for what more children take."""
    (memory, children), (later_memory, later_children) = (
        (max(look.memory_kib for look in part), max(len(look.children) for look in part))
        for part in (before, after)
    )
    return later_memory - memory - PER_CHILD_KIB * max(0, later_children - children)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("minutes", "period_s"), [(0, 3), pytest.param(10, 20, marks=pytest.mark.long)]
)
def test_nothing_grows(daemon: Daemon, bell: Bell, minutes: int, period_s: int) -> None:
    """Under load memory stays as after the first minute, and what was in use for it is given back.

    Descriptors and threads grow neither while it goes on nor in the end (but for what is begun once
    and stays), no zombie and no child stays, and each occurrence of it all is accounted for (P1,
    P2, P5).
    """
    turn = _turn(period_s)
    daemon.start(mix(is_enabled=False, workers=MANY).text + turn)
    bell.wait()  # a start at its instant has what it needs for good
    daemon.cli("trigger", "turn", "--wait", "--force")
    course = Course(_look(daemon))
    mixture = mix(workers=MANY)
    daemon.write(mixture.text + turn)
    daemon.cli("reload")
    bell.wait()
    starts = max(FEWEST_STARTS, minutes * A_MINUTE)
    while len(course.looks) < FEWEST or course.looks[-1].starts < starts:
        bell.wait()
        course.add(_look(daemon))
    until = to_us(SystemClock().now())
    _end_load(daemon, turn)
    course.check()
    course.check_quiet(_look(daemon))
    daemon.stop()
    words, book = read_words(daemon.out), read_ledger(daemon.ledger)
    book = replace(book, runs=tuple(run for run in book.runs if run.job != "turn"))
    evidence = Evidence(mixture.rules, tuple(words), book, until=until)
    assert audit(evidence) == []
    assert len(words) >= starts


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
