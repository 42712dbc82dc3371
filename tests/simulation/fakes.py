"""The world around the engine, in memory: timers, processes and a disk that can crash it.

Nothing here knows what the engine should do. ``FakeProcesses`` is the outside observer: it sees
every start with its own eyes, whatever the ledger says.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from crond_py.engine.timekeeper import TICKS_PER_SECOND
from crond_py.model import Exit
from crond_py.ports import (
    AttemptKey,
    Ended,
    ProcessEvent,
    ProcessSpec,
    Started,
    StartFailed,
    Survivor,
)
from tests.support.clock import FakeClock


class Crash(BaseException):
    """The daemon dies here and now; nothing after this point is executed."""


@dataclass(slots=True)
class Entry:
    """One timer."""

    item: object
    is_live: bool = True


class FakeTimers:
    """The heap, without a thread: the simulation takes from it what is due."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Entry]] = []
        self._count = 0

    def call_at(self, deadline_ns: int, item: object, *, priority: int = 0) -> Entry:
        """See ports.Timers."""
        entry = Entry(item)
        self._count += 1
        heapq.heappush(self._heap, (deadline_ns, -priority, self._count, entry))
        return entry

    def cancel(self, timer: Entry) -> bool:
        """See ports.Timers."""
        was_live, timer.is_live = timer.is_live, False
        return was_live

    def next_deadline(self) -> int | None:
        """Return the earliest deadline of a live entry."""
        while self._heap and not self._heap[0][3].is_live:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ns: int) -> list[object]:
        """Take all that is due."""
        items = []
        while (deadline := self.next_deadline()) is not None and deadline <= now_ns:
            entry = heapq.heappop(self._heap)[3]
            entry.is_live = False
            items.append(entry.item)
        return items


@dataclass(slots=True)
class FakeProcess:
    """A process as the outside world sees it. ``ends_ns`` is monotonic; None: never by itself."""

    spec: ProcessSpec
    pid: int
    started_at: datetime
    started_ns: int
    ends_ns: int | None
    exit: Exit
    ended_at: datetime | None = None
    was_stopped: bool = False

    @property
    def ticks(self) -> int:
        """When it began, as the kernel counts."""
        return self.started_ns * TICKS_PER_SECOND // 1_000_000_000

    @property
    def job(self) -> str:
        """The job it belongs to, by its environment."""
        return self.spec.env["PYCRON_JOB"]


@dataclass(slots=True)
class Behaviour:
    """How the processes of a job behave."""

    lasts: tuple[timedelta, ...] = (timedelta(seconds=1),)
    exits: tuple[Exit, ...] = (Exit(code=0),)
    ignores_term: bool = False
    fails_to_start: float = 0.0


@dataclass(slots=True)
class Machine:
    """What outlives the daemon: its processes, and what an observer noted of them."""

    random: Random
    clock: FakeClock
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    alive: dict[int, FakeProcess] = field(default_factory=dict)
    history: list[FakeProcess] = field(default_factory=list)
    pids: int = 1000

    def spawn(self, spec: ProcessSpec) -> FakeProcess:
        """Start a process."""
        self.pids += 1
        behaviour = self.behaviours.get(spec.env["PYCRON_JOB"], Behaviour())
        now_ns = self.clock.monotonic_ns()
        lasts = self.random.choice(behaviour.lasts)
        process = FakeProcess(
            spec,
            self.pids,
            self.clock.now(),
            now_ns,
            now_ns + lasts // timedelta(microseconds=1) * 1000,
            self.random.choice(behaviour.exits),
        )
        self.alive[process.pid] = process
        self.history.append(process)
        return process

    def next_end(self) -> int | None:
        """Return when the next process ends by itself."""
        ends = [p.ends_ns for p in self.alive.values() if p.ends_ns is not None]
        return min(ends, default=None)

    def end(self, process: FakeProcess, exit_: Exit | None = None) -> None:
        """Let a process end now."""
        process.exit = exit_ or process.exit
        process.ended_at = self.clock.now()
        del self.alive[process.pid]

    def reboot(self) -> None:
        """End every process without a word."""
        for process in list(self.alive.values()):
            self.end(process, Exit(signal=9))


class FakeProcesses:
    """ports.Processes over a Machine. It dies with the daemon; the machine's processes don't."""

    def __init__(
        self, machine: Machine, report: Callable[[ProcessEvent], None], crash: Callable[[str], None]
    ) -> None:
        self._machine = machine
        self._report = report
        self._crash = crash
        self._mine: dict[AttemptKey, FakeProcess] = {}
        self._adopted: set[AttemptKey] = set()

    def start(self, spec: ProcessSpec) -> None:
        """See ports.Processes."""
        self._crash("before a start")
        machine = self._machine
        behaviour = machine.behaviours.get(spec.env["PYCRON_JOB"], Behaviour())
        if machine.random.random() < behaviour.fails_to_start:
            self._report(StartFailed(spec.key, "no such program", machine.clock.now()))
            return
        process = machine.spawn(spec)
        self._mine[spec.key] = process
        self._crash("after a start")
        self._report(Started(spec.key, process.pid, process.ticks, process.started_at))

    def stop(self, key: AttemptKey, *, force: bool) -> None:
        """See ports.Processes."""
        process = self._mine.get(key)
        if process is None:
            return
        process.was_stopped = True
        behaviour = self._machine.behaviours.get(process.job, Behaviour())
        if force or not behaviour.ignores_term:
            process.ends_ns = self._machine.clock.monotonic_ns()
            process.exit = Exit(signal=9 if force else 15)

    def survivors(self, identity: str) -> list[Survivor]:
        """See ports.Processes."""
        return [
            Survivor(p.spec.tag, int(p.spec.env["PYCRON_ATTEMPT"]), p.pid, p.ticks, leader=True)
            for p in self._machine.alive.values()
            if p.spec.tag.startswith(f"{identity}-")
        ]

    def adopt(self, spec: ProcessSpec, survivor: Survivor) -> bool:
        """See ports.Processes."""
        process = self._machine.alive.get(survivor.pid)
        if process is None:
            return False
        self._mine[spec.key] = process
        self._adopted.add(spec.key)
        return True

    def reap(self) -> None:
        """Report every process of ours whose time has come."""
        now_ns = self._machine.clock.monotonic_ns()
        for process in list(self._machine.alive.values()):
            if process.ends_ns is not None and process.ends_ns <= now_ns:
                self._machine.end(process)
        for key, process in list(self._mine.items()):
            if process.ended_at is not None:
                del self._mine[key]
                seen = Exit() if key in self._adopted else process.exit
                self._report(Ended(key, seen, process.ended_at))
