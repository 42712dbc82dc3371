"""The machine around the engine, in memory: timers, a ledger and processes that can crash it.

Nothing here knows what the engine should do. ``Machine`` is the outside observer: it sees every
process with its own eyes, whatever the ledger says, and outlives the daemon. ``FakeProcesses``
(ports.Processes) and ``FakeTimers`` (ports.Timers) die with it.

A process that is started may leave descendants in its tree, which live on after it; each of them
may ignore SIGTERM. Word of a start may come a little late, as it does from a thread, and that of
one that is recalled, or stopped before its instant, only then, as where another process has it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from crond_py.crontab.model import Job
from crond_py.dispatcher import _GONE, Entry, Timeline
from crond_py.engine.timekeeper import TICKS_PER_SECOND
from crond_py.model import Exit, Leftovers
from crond_py.ports import (
    AttemptKey,
    Ended,
    LeftOver,
    ProcessEvent,
    ProcessSpec,
    Started,
    StartFailed,
    Survivor,
    Timer,
)
from tests.simulation.story import Story

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Crash(BaseException):
    """The daemon dies here and now; nothing after this point is executed."""


class SimClock:
    """ports.Clock for one thread: two readings that only the simulation moves.

    ``skew`` is how far the wall clock has been set in all.
    """

    def __init__(self, start: datetime) -> None:
        self._wall_ns = (start - _EPOCH) // _MICROSECOND * 1000
        self._monotonic_ns = 86_400_000_000_000
        self.skew = timedelta(0)

    def now(self) -> datetime:
        """See ports.Clock."""
        return _EPOCH + _MICROSECOND * (self._wall_ns // 1000)

    def time_ns(self) -> int:
        """See ports.Clock."""
        return self._wall_ns

    def monotonic_ns(self) -> int:
        """See ports.Clock."""
        return self._monotonic_ns

    def wait(self, condition: threading.Condition, deadline_ns: int | None) -> None:
        """Nobody waits in a simulation."""
        raise NotImplementedError

    def advance(self, delta: timedelta) -> None:
        """Let time pass."""
        self.advance_ns(delta // _MICROSECOND * 1000)

    def advance_ns(self, delta_ns: int) -> None:
        """Let time pass, to the next whole microsecond."""
        step_ns = -(-delta_ns // 1000) * 1000
        self._wall_ns += step_ns
        self._monotonic_ns += step_ns

    def jump(self, delta: timedelta) -> None:
        """Set the wall clock."""
        self._wall_ns += delta // _MICROSECOND * 1000
        self.skew += delta


class FakeTimers:
    """The real heap without its thread: the simulation takes from it what is due."""

    def __init__(self) -> None:
        self.timeline = Timeline()

    def call_at(self, deadline_ns: int, item: object, *, priority: int = 0) -> Entry:
        """See ports.Timers."""
        return self.timeline.push(deadline_ns, item, priority=priority)

    def cancel(self, timer: Timer) -> bool:
        """See ports.Timers."""
        assert isinstance(timer, Entry)
        return self.timeline.cancel(timer)

    def next_deadline(self) -> int | None:
        """Return the earliest deadline."""
        return self.timeline.next_deadline()

    def pop_due(self, now_ns: int) -> list[object]:
        """Take all that is due."""
        return self.timeline.pop_due(now_ns)

    def items(self) -> list[object]:
        """Return what waits, in no order."""
        return [entry.item for *_, entry in self.timeline._heap if entry.item is not _GONE]


# --- processes ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SimSpec(ProcessSpec):
    """A specification that also tells the observer which definition of the job it was made of."""

    job: Job | None = None
    era: int = 0
    due: datetime | None = None


@dataclass(slots=True, eq=False)
class FakeProcess:
    """One process. ``ends_ns`` is monotonic; ``ignores_term`` leaves it alone but by SIGKILL."""

    pid: int
    started_ns: int
    ends_ns: int
    ignores_term: bool
    ended_ns: int | None = None

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.ended_ns is None

    @property
    def ticks(self) -> int:
        """When it began, as the kernel counts."""
        return self.started_ns * TICKS_PER_SECOND // 1_000_000_000


@dataclass(slots=True, eq=False)
class Tree:
    """What one attempt has started: its leader, and what that has left behind.

    ``spec`` is the one it was started, or last adopted, by. ``ended_at`` is when the leader ended,
    ``gone_ns`` when the last of the tree did. ``was_seen_ending``: a daemon watched the leader end.
    """

    spec: SimSpec
    leader: FakeProcess
    rest: list[FakeProcess]
    exit: Exit
    started_at: datetime
    life: int
    ended_at: datetime | None = None
    gone_ns: int | None = None
    stops: list[tuple[int, bool]] = field(default_factory=list)
    was_seen_ending: bool = False

    @property
    def key(self) -> AttemptKey:
        """Which attempt it is of."""
        return self.spec.key

    @property
    def job(self) -> str:
        """The job it belongs to, by its environment."""
        return self.spec.env["PYCRON_JOB"]

    @property
    def alive(self) -> list[FakeProcess]:
        """What of it runs, the leader first."""
        return [each for each in (self.leader, *self.rest) if each.ended_ns is None]

    @property
    def was_stopped(self) -> bool:
        """Whether the daemon has sent it a signal."""
        return bool(self.stops)


@dataclass(frozen=True, slots=True)
class Behaviour:
    """How the processes of a job behave. ``leaves`` are how long what they leave behind lasts.

    ``sheds_marks``: they show nothing that tells whose they are.
    """

    lasts: tuple[timedelta, ...] = (timedelta(seconds=1),)
    exits: tuple[Exit, ...] = (Exit(code=0),)
    leaves: tuple[timedelta | None, ...] = (None,)
    ignores_term: bool = False
    rest_ignores_term: bool = False
    fails_to_start: float = 0.0
    word_takes: timedelta = timedelta(0)
    sheds_marks: bool = False


@dataclass(slots=True)
class Machine:
    """What outlives the daemon: its processes, and what an observer noted of them.

    ``on_start`` is called with each tree when it has just begun, ``on_turn``
    when its leader ends or it gets its first signal. ``let_go`` is the latest instant for which
    something that was held has been let go since the machine was booted, None: nobody noted that.
    ``tells_exits``: whether the
    exit status of an adopted process can be had here.
    """

    random: Random
    clock: SimClock
    story: Story
    on_start: Callable[[Tree], None] = lambda _tree: None
    on_turn: Callable[[Tree], None] = lambda _tree: None
    behaviours: dict[str, Behaviour] = field(default_factory=dict)
    trees: list[Tree] = field(default_factory=list)
    by_key: dict[AttemptKey, Tree] = field(default_factory=dict)
    alive: list[Tree] = field(default_factory=list)
    failed_starts: set[AttemptKey] = field(default_factory=set)
    let_go: datetime | None = None
    tells_exits: bool = False
    pids: int = 1000

    def behaviour(self, job: str) -> Behaviour:
        """Return how a job's processes behave."""
        return self.behaviours.get(job, Behaviour())

    def spawn(self, spec: ProcessSpec) -> Tree:
        """Start a process."""
        assert isinstance(spec, SimSpec)
        behaviour = self.behaviour(spec.env["PYCRON_JOB"])
        lasts = self.random.choice(behaviour.lasts)
        leader = self._process(lasts, ignores_term=behaviour.ignores_term)
        leaves = self.random.choice(behaviour.leaves)
        rest = []
        if leaves is not None:
            rest = [self._process(lasts + leaves, ignores_term=behaviour.rest_ignores_term)]
        exit_ = self.random.choice(behaviour.exits)
        tree = Tree(spec, leader, rest, exit_, self.clock.now(), self.story.life)
        self.alive.append(tree)
        self.trees.append(tree)
        self.by_key.setdefault(tree.key, tree)
        self._tell(tree, "process {} starts, attempt {}", leader.pid, spec.key.number)
        self.on_start(tree)
        return tree

    def _process(self, lasts: timedelta, *, ignores_term: bool) -> FakeProcess:
        self.pids += 1
        now_ns = self.clock.monotonic_ns()
        return FakeProcess(self.pids, now_ns, now_ns + lasts // _MICROSECOND * 1000, ignores_term)

    def next_end(self) -> int | None:
        """Return when the next process ends."""
        return min((p.ends_ns for tree in self.alive for p in tree.alive), default=None)

    def end_due(self) -> None:
        """Let end what is to end by now."""
        now_ns = self.clock.monotonic_ns()
        due = [(t, p) for t in self.alive for p in t.alive if p.ends_ns <= now_ns]
        for tree, process in due:
            self._end(tree, process)

    def _end(self, tree: Tree, process: FakeProcess) -> None:
        if process is tree.leader and not tree.stops:
            self.on_turn(tree)
        process.ended_ns = self.clock.monotonic_ns()
        if process is tree.leader:
            tree.ended_at = self.clock.now()
            shown = tree.exit.code if tree.exit.code is not None else f"signal {tree.exit.signal}"
            self._tell(tree, "process {} ends: {}", process.pid, shown)
        else:
            self._tell(tree, "descendant {} ends", process.pid)
        if not tree.alive:
            tree.gone_ns = process.ended_ns
            self.alive.remove(tree)

    def signal(self, tree: Tree, *, force: bool) -> None:
        """Send SIGTERM or SIGKILL to all of a tree."""
        now_ns = self.clock.monotonic_ns()
        if not tree.stops:
            self.on_turn(tree)
        tree.stops.append((now_ns, force))
        self._tell(tree, "{} to its tree", "SIGKILL" if force else "SIGTERM")
        for process in tree.alive:
            if force or not process.ignores_term:
                process.ends_ns = now_ns
                if process is tree.leader:
                    tree.exit = Exit(signal=9 if force else 15)

    def reboot(self) -> None:
        """End every process without a word."""
        self.let_go = None
        for tree in list(self.alive):
            for process in tree.alive:
                if process is tree.leader:
                    tree.exit = Exit(signal=9)
                self._end(tree, process)

    def kill_leaders(self) -> None:
        """Let every leader die by a signal from somebody else; what is left of its tree goes on."""
        for tree in list(self.alive):
            if tree.leader.is_alive:
                tree.exit = Exit(signal=9)
                self._end(tree, tree.leader)

    def _tell(self, tree: Tree, text: str, *values: object) -> None:
        self.story.tell(text, *values, job=tree.job, run=tree.key.run_id)


@dataclass(slots=True, eq=False)
class _Watched:
    """A tree that this daemon watches, or with ``tree`` None what attempts of a run have left.

    ``has_leader``: whether its leader lived when that began.
    """

    tree: Tree | None
    tag: str
    is_adopted: bool = False
    is_rest: bool = False
    has_leader: bool = True
    is_stopped: bool = False
    is_reported: bool = False


class FakeProcesses:
    """ports.Processes over a Machine. It dies with the daemon; the machine's processes don't.

    ``holds_starts``: what is to start later cannot be taken back before its instant.
    """

    def __init__(
        self, machine: Machine, report: Callable[[ProcessEvent], None], crash: Callable[[str], None]
    ) -> None:
        self._machine = machine
        self._report = report
        self._crash = crash
        self._mine: dict[AttemptKey, _Watched] = {}
        self._late: list[tuple[int, ProcessEvent]] = []
        self._after_ends: list[Any] = []
        self._planned: dict[AttemptKey, tuple[int, ProcessSpec]] = {}
        self._recalled_ns: int | None = None
        self._stopped: set[AttemptKey] = set()
        self.holds_starts = False
        self.settled: list[AttemptKey] = []

    def start(self, spec: ProcessSpec, *, at_ns: int | None = None) -> None:
        """See ports.Processes."""
        if self._recalled_ns is not None and (at_ns or 0) > self._recalled_ns:
            self._tell_recalled(spec.key)
        elif at_ns is not None and at_ns > self._machine.clock.monotonic_ns():
            self._planned[spec.key] = (at_ns, spec)
        else:
            self._start(spec)

    def start_all(self, starts: Sequence[tuple[ProcessSpec, int | None]]) -> None:
        """See ports.Processes."""
        for spec, at_ns in starts:
            self.start(spec, at_ns=at_ns)

    def _start(self, spec: ProcessSpec) -> None:
        if spec.held_for is not None:
            self.note_starts()
            self._machine.let_go = max(self.let_go_until() or spec.held_for, spec.held_for)
        self._crash("before a start")
        machine = self._machine
        name = spec.env["PYCRON_JOB"]
        behaviour = machine.behaviour(name)
        now_ns = machine.clock.monotonic_ns()
        if machine.random.random() < behaviour.fails_to_start:
            machine.failed_starts.add(spec.key)
            machine.story.tell("cannot be started", job=name, run=spec.key.run_id)
            event: ProcessEvent = StartFailed(spec.key, "no such program", machine.clock.now())
        else:
            tree = machine.spawn(spec)
            self._mine[spec.key] = _Watched(tree, spec.tag)
            event = Started(spec.key, tree.leader.pid, tree.leader.ticks, tree.started_at)
        self._crash("after a start")
        self._late.append((now_ns + behaviour.word_takes // _MICROSECOND * 1000, event))

    def stop(self, key: AttemptKey, *, force: bool) -> None:
        """See ports.Processes."""
        if key in self._planned:
            self._stopped.add(key)
            if not self.holds_starts:
                self._give_up(key)
            return
        watched = self._mine.get(key)
        if watched is None:
            return
        self._crash("before a signal")
        watched.is_stopped = True
        if watched.tree is not None:
            self._machine.signal(watched.tree, force=force)
        for tree in self._left_of(watched.tag, key.number):
            if tree is not watched.tree:
                self._machine.signal(tree, force=force)
        self._crash("after a signal")

    def tell_after_ends(self, event: object) -> None:
        """See ports.Processes: it is told with what is reaped next, after that."""
        self._after_ends.append(event)

    def recall(self) -> None:
        """See ports.Processes."""
        now_ns = self._recalled_ns = self._machine.clock.monotonic_ns()
        for key, (at_ns, _) in list(self._planned.items()):
            if at_ns > now_ns and not self.holds_starts:
                self._give_up(key)

    def _give_up(self, key: AttemptKey) -> None:
        """Tell why a start is not made; that it was stopped comes before all else."""
        del self._planned[key]
        if key in self._stopped:
            now = self._machine.clock.now()
            self._report(StartFailed(key, "stopped before it was started", now))
        else:
            self._tell_recalled(key)

    def _tell_recalled(self, key: AttemptKey) -> None:
        now = self._machine.clock.now()
        self._report(StartFailed(key, "recalled", now, is_recalled=True))

    def end_rest(self, spec: ProcessSpec, *, force: bool) -> None:
        """See ports.Processes."""
        self._mine.setdefault(spec.key, _Watched(None, spec.tag))
        self.stop(spec.key, force=force)

    def _left_of(self, tag: str, number: int) -> list[Tree]:
        """Return the trees of a run up to that attempt of which something lives."""
        return [t for t in self._machine.alive if t.spec.tag == tag and t.key.number <= number]

    def survivors(self, identity: str) -> list[Survivor]:
        """See ports.Processes."""
        self._crash("while looking for survivors")
        return [
            Survivor(
                tree.spec.tag, tree.key.number, each.pid, each.ticks, leader=each is tree.leader
            )
            for tree in self._machine.alive
            if tree.spec.tag.startswith(f"{identity}-")
            and not self._machine.behaviour(tree.job).sheds_marks
            for each in tree.alive
        ]

    def let_go_until(self) -> datetime | None:
        """See ports.Processes."""
        return self._machine.let_go

    def note_starts(self) -> None:
        """See ports.Processes."""
        self._machine.let_go = self._machine.let_go or _EPOCH

    def origin(self, survivor: Survivor) -> tuple[str, datetime] | None:
        """See ports.Processes."""
        tree = self._find(survivor.pid)
        assert isinstance(tree, Tree)
        assert tree.spec.due is not None
        return tree.job, tree.spec.due

    def adopt(self, spec: ProcessSpec, survivor: Survivor) -> bool:
        """See ports.Processes."""
        self._crash("before an adoption")
        tree = self._find(survivor.pid)
        if tree is None or not survivor.leader:
            return False
        self._watch(spec, _Watched(tree, spec.tag, is_adopted=True), "adopted")
        return True

    def adopt_rest(self, spec: ProcessSpec, survivors: Sequence[Survivor]) -> bool:
        """See ports.Processes."""
        self._crash("before an adoption")
        found = [tree for tree in map(self._find, (each.pid for each in survivors)) if tree]
        if not found:
            return False
        own = next((tree for tree in found if tree.key == spec.key), None)
        has_leader = own is not None and own.leader.is_alive
        watched = _Watched(own, spec.tag, is_adopted=True, is_rest=True, has_leader=has_leader)
        self._watch(spec, watched, "the rest is adopted")
        return True

    def _find(self, pid: int) -> Tree | None:
        for tree in self._machine.alive:
            if any(each.pid == pid for each in tree.alive):
                return tree
        return None

    def _watch(self, spec: ProcessSpec, watched: _Watched, text: str) -> None:
        assert isinstance(spec, SimSpec)
        if watched.tree is not None:
            watched.tree.spec = spec
        self._mine[spec.key] = watched
        self._machine.story.tell(text, job=spec.env["PYCRON_JOB"], run=spec.key.run_id)

    def settle(self, spec: ProcessSpec) -> None:
        """See ports.Processes."""
        self.settled.append(spec.key)

    # --- for the simulation ---------------------------------------------------------------

    def next_word(self) -> int | None:
        """Return when the next start is made, or word of one comes."""
        return min((time_ns for time_ns, _ in (*self._late, *self._planned.values())), default=None)

    def start_due(self) -> None:
        """Start what is to be started by now."""
        now_ns = self._machine.clock.monotonic_ns()
        for key, (at_ns, spec) in list(self._planned.items()):
            if at_ns > now_ns:
                continue
            if key in self._stopped or (self._recalled_ns or at_ns) < at_ns:
                self._give_up(key)
            else:
                del self._planned[key]
                self._start(spec)

    def reap(self) -> None:
        """Report what has happened to the processes of ours, and then what is to come after."""
        now_ns = self._machine.clock.monotonic_ns()
        self._machine.end_due()
        late, self._late = self._late, []
        for time_ns, event in late:
            if time_ns <= now_ns:
                self._report(event)
            else:
                self._late.append((time_ns, event))
        unsaid = {event.key for _, event in self._late}
        for key, watched in list(self._mine.items()):
            if key not in unsaid:  # Started comes before Ended
                self._look_at(key, watched)
        after, self._after_ends = self._after_ends, []
        for event in after:
            self._report(event)

    def _look_at(self, key: AttemptKey, watched: _Watched) -> None:
        tree = watched.tree
        if watched.is_stopped and self._left_of(watched.tag, key.number):
            return
        if tree is None:
            if watched.is_stopped:
                del self._mine[key]
                self._report(Ended(key, Exit(), self._machine.clock.now()))
            return
        if tree.leader.is_alive:
            return
        left = len(tree.alive)
        is_waited_for = watched.is_rest or watched.is_stopped
        tree.was_seen_ending = watched.has_leader
        exit_ = self._exit(watched)
        at = self._machine.clock.now()
        if left and not is_waited_for and tree.spec.leftovers is Leftovers.KILL:
            if not watched.is_reported:
                watched.is_reported = True
                self._report(LeftOver(key, exit_, tree.ended_at or at, left))
            return
        if left and is_waited_for:
            return
        del self._mine[key]
        note = f"{left} descendants are left alone" if left else ""
        ended_at = at if watched.is_rest else tree.ended_at or at
        has_left = not watched.is_stopped and (bool(left) or key.number > 1)
        self._report(Ended(key, exit_, ended_at, note, has_left=has_left))

    def _exit(self, watched: _Watched) -> Exit:
        if watched.is_rest or (watched.is_adopted and not self._machine.tells_exits):
            return Exit()
        return watched.tree.exit if watched.tree is not None else Exit()
