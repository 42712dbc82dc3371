"""The promises, checked against what an observer outside the daemon saw.

``Inspector`` is attached to a world before its first daemon starts. It looks at three kinds of
moment: when a process starts (``_started``), when the ledger has taken something (``_written``),
and after every step (``look``). A broken promise is a ``story.Broken`` with the job and the run it
is about; it is noted and raised after the step, since the engine outlives what is raised inside.

To add a check: one about a start or a write goes into the list of rules for it
(``_START_RULES``, ``_ATTEMPT_RULES``, ``_RUN_RULES``), each a function that yields what is wrong,
in words, with the promise in front; one about the daemon as a whole goes into ``_look_at_daemon``.
What is due, and what has been said of it, is in ``accounts``; whose turn it is, in ``turns``; what
tasks were missed for, in ``absences``.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from crond_py.crontab.model import Job
from crond_py.crontab.summary import fingerprint
from crond_py.engine.ahead import LONGEST_AHEAD
from crond_py.engine.core import Core
from crond_py.engine.events import LedgerRetryDue, StopLimitDue
from crond_py.engine.records import Stage
from crond_py.engine.view import EngineStatus
from crond_py.model import (
    Attempt,
    Cause,
    Exit,
    Failure,
    Left,
    Leftovers,
    OnCrash,
    OnStop,
    Outcome,
    Overlap,
    Run,
    State,
    task_id_of,
)
from crond_py.ports import AttemptKey, Claim, SetAttempt, SetRun, Write
from tests.simulation import chains, tasks
from tests.simulation.absences import Absences
from tests.simulation.accounts import Accounts
from tests.simulation.again import Again
from tests.simulation.fakes import Tree
from tests.simulation.jobs import SECOND
from tests.simulation.story import Broken
from tests.simulation.turns import Turns
from tests.simulation.world import GROUPS, World

Wrong = Iterator[tuple[str, str]]
"""What is wrong: the promise and the words."""

EARLY = timedelta(milliseconds=1)
LEAST_HELD = timedelta(milliseconds=20)
"""A start that was claimed so long before its instant is held for it, and noted (see ports)."""
MOST_RERUNS = 3
_TICK = timedelta(milliseconds=10)
_TICK_NS = 10_000_000
"""The kernel tells no more exactly when a process began (proc(5))."""


@dataclass(slots=True)
class Inspector:
    """Watches one world.

    ``entered``: attempts that are durably in the ledger; ``occurrences``: the run that each was
    started as; ``stopping``: how attempts are being ended, by the ledger; ``newest_before``: the
    newest run that this life of the daemon has found; ``cycles``: those that it has had open.
    """

    world: World
    again: Again = field(init=False)
    accounts: Accounts = field(init=False)
    absences: Absences = field(init=False)
    entered: set[AttemptKey] = field(default_factory=set)
    not_yet_durable: set[AttemptKey] = field(default_factory=set)
    occurrences: dict[tuple[str, int, object], int] = field(default_factory=dict)
    starts: Counter[AttemptKey] = field(default_factory=Counter)
    stopping: dict[AttemptKey, Outcome] = field(default_factory=dict)
    newest_before: int = 0
    cycles: set[tuple[str, datetime]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.again = Again(self.world)
        self.accounts = Accounts(self.world, self.again)
        self.absences = Absences(self.world)
        Turns(self.world)
        self.world.machine.on_start = self.world.watching(self._started)
        self.world.machine.on_turn = self.world.watching(self._turned)
        self.world.watchers.append(self.world.watching(self._written))
        self.world.on_begin.append(self._begins)
        self.world.on_stopped.append(self._stopped)

    # --- moments --------------------------------------------------------------------------

    def look(self) -> None:
        """Raise what has been broken since the last look, or is broken now."""
        self._look_at_ends()
        if self.world.daemon is not None and self.world.is_at_rest:
            status = self.world.daemon.core.status()
            self._look_at_daemon(status)
            self.accounts.look(status)
        self.raise_broken()

    def raise_broken(self) -> None:
        """Raise the first promise that was broken."""
        for error in self.world.errors:
            raise error
        if self.world.broken:
            raise self.world.broken[0]

    def look_at_end(self) -> None:
        """Look once no job is due any more and all had time to end."""
        self.look()
        left = self.world.ledger.open_runs()
        for run in left:
            self._breach("P1", "never came to an outcome", run.job, run.id)
        for run in self.world.ledger._content.runs.values():
            for promise, text in _final_row(self, run):
                self._breach(promise, text, run.job, run.id)
        self.accounts.look_at_end()
        for promise, text, job in tasks.wrong_at_end(self.world):
            self._breach(promise, text, job)
        if not self.world.may_step_clock:
            self._look_at_absences()
        self.raise_broken()

    def _look_at_absences(self) -> None:
        """P1: a task is missed for an absence if it was due in one, and only then."""
        for run in self.world.ledger._content.runs.values():
            task_id = task_id_of(run.job)
            task = self.world.tasks.handed_in.get(task_id) if task_id is not None else None
            for text in self.absences.wrong(task, run) if task is not None else ():
                self._breach("P1", text, run.job, run.id)

    def _breach(
        self,
        promise: str,
        text: str,
        job: str | None = None,
        run: int | None = None,
        others: Iterable[int] = (),
    ) -> None:
        self.world.breach(Broken(promise, text, job=job, run=run, others=others))

    # --- processes ------------------------------------------------------------------------

    def _begins(self) -> None:
        """Take what was being ended from the ledger: a power cut may have undone it."""
        self.stopping = {
            AttemptKey(run.id, attempt.number): attempt.stopping
            for run in self.world.ledger.open_runs()
            for attempt in run.attempts
            if attempt.stopping is not None
            and attempt.stopping is not Outcome.LOST
            and attempt.outcome is None
        }
        self.newest_before = self.world.ledger.last_id
        self.cycles.clear()  # what is open in a restart has its own tests

    def _started(self, tree: Tree) -> None:
        self.starts[tree.key] += 1
        run = self.world.ledger.run(tree.key.run_id)
        if run is None:
            self._breach("P1", f"a process of run {tree.key.run_id} has no row", tree.job)
            return
        for rule in _START_RULES:
            for promise, text in rule(self, tree, run):
                others = {each.key.run_id for each in self.world.machine.alive}
                others &= set(map(int, re.findall(r"\d+", text))) if "runs " in text else set()
                self._breach(promise, text, tree.job, run.id, others)

    def _look_at_ends(self) -> None:
        """P6: nothing outlives its timeout, or its command, by more than its grace."""
        world = self.world
        if world.daemon is None or world.ledger.failing is not None:
            return
        for tree in world.machine.alive:
            if self._is_open(tree) and self._is_watched(tree) and tree.spec.job is not None:
                self._is_ended_in_time(tree, tree.spec.job.kill_after + 2 * SECOND)

    def _turned(self, tree: Tree) -> None:
        """P6: what is to be ended is asked to end, at its time."""
        world = self.world
        is_seen = world.daemon is not None and not world.is_frozen and world.ledger.failing is None
        if is_seen and self._is_open(tree) and self._is_watched(tree):
            self._is_ended_in_time(tree, SECOND)

    def _is_ended_in_time(self, tree: Tree, grace: timedelta) -> None:
        world, daemon, job = self.world, self.world.daemon, tree.spec.job
        over_ns = self._is_over_since(tree, job) if job is not None else None
        if over_ns is None or daemon is None:
            return
        known_ns = max(daemon.begun_ns, world.awake_ns, world.trouble_until_ns)
        late_ns = world.clock.monotonic_ns() - max(over_ns, known_ns)
        if late_ns > _ns(grace):
            text = f"its processes {[each.pid for each in tree.alive]} should have ended"
            self._breach("P6", f"{text} {late_ns / 1e9} s ago", tree.job, tree.key.run_id)

    def _is_over_since(self, tree: Tree, job: Job) -> int | None:
        """Return since when a tree is to be ended; None: it may go on."""
        ended_ns = tree.leader.ended_ns
        if ended_ns is not None and tree.spec.leftovers is Leftovers.KILL:
            return ended_ns
        if job.timeout is None:
            return None
        return tree.leader.started_ns + _ns(job.timeout)

    def _is_watched(self, tree: Tree) -> bool:
        run = self.world.ledger.run(tree.key.run_id)
        return run is not None and run.state is State.RUNNING

    def _is_open(self, tree: Tree) -> bool:
        """Whether the ledger has no outcome of the attempt yet; what it has forgotten had one."""
        attempt = self._attempt(tree.key)
        if attempt is None:
            return self.world.ledger.run(tree.key.run_id) is not None
        return attempt.outcome is None

    def _attempt(self, key: AttemptKey) -> Attempt | None:
        run = self.world.ledger.run(key.run_id)
        return next((a for a in run.attempts if a.number == key.number), None) if run else None

    # --- the ledger -----------------------------------------------------------------------

    def _written(self, writes: Sequence[Write], ids: Sequence[int | None]) -> None:
        remaining = iter(ids)
        if not self.world.ledger.unsynced:
            self.entered |= self.not_yet_durable
            self.not_yet_durable.clear()
        into = self.not_yet_durable if self.world.ledger.unsynced else self.entered
        ends = (each for each in writes if isinstance(each, SetRun))
        yet_to_end = {each.run_id for each in ends if each.outcome is not None}
        for write in writes:
            match write:
                case Claim():
                    run_id = next(remaining)
                    if run_id is None:
                        self._refused(write)
                        continue
                    self._claimed(run_id, yet_to_end)
                    if write.attempt is not None:
                        into.add(AttemptKey(run_id, write.attempt.number))
                    if write.outcome is not None:
                        self._run_ended(run_id)
                case SetAttempt(run_id, attempt):
                    key = AttemptKey(run_id, attempt.number)
                    if key not in self.entered:
                        into.add(key)
                    self._attempt_written(key, attempt)
                case SetRun(run_id=run_id, outcome=outcome) if outcome is not None:
                    yet_to_end.discard(run_id)
                    self._run_ended(run_id)

    def _refused(self, claim: Claim) -> None:
        if claim.cause is Cause.UPSTREAM:
            text = f"its cycle of {claim.due} has its row, and is decided again"
            self._breach("P2", text, claim.job)

    def _claimed(self, run_id: int, yet_to_end: Collection[int]) -> None:
        run = self.world.ledger.run(run_id)
        assert run is not None
        for text in chains.wrong_with(self.world, run, yet_to_end):
            self._breach("P1", text, run.job, run_id)
        job = self.world.in_force.get(run.job)
        for promise, text in self.again.claimed(job, run) if job is not None else ():
            self._breach(promise, text, run.job, run_id)

    def _attempt_written(self, key: AttemptKey, attempt: Attempt) -> None:
        run = self.world.ledger.run(key.run_id)
        assert run is not None
        if attempt.outcome is None:
            if attempt.stopping is not None and attempt.stopping is not Outcome.LOST:
                self.stopping[key] = attempt.stopping
            return
        tree = self.world.tree_of(key)
        for rule in _ATTEMPT_RULES:
            for promise, text in rule(self, run, attempt, tree):
                self._breach(promise, f"attempt {key.number}: {text}", run.job, run.id)

    def _run_ended(self, run_id: int) -> None:
        run = self.world.ledger.run(run_id)
        assert run is not None
        if run.outcome is None:
            self._breach("P1", "it had its outcome, and is open again", run.job, run_id)
            return
        for rule in _RUN_RULES:
            for promise, text in rule(self, run):
                self._breach(promise, text, run.job, run.id)
        for name in chains.without_followers(self.world, run, self.accounts.unsettled):
            text = f"nothing is said of it after run {run_id} of {run.job} is {run.outcome}"
            self._breach("P1", text, name, others={run_id})

    # --- the daemon -----------------------------------------------------------------------

    def _stopped(self) -> None:
        """P6, P8: an orderly end leaves nothing running but what is to be left.

        What outlives its command may be meant to stay, and is left, too.
        """
        for tree in self.world.machine.alive:
            if not tree.leader.is_alive and not _was_stopped_in_this_life(self, tree):
                continue
            job = tree.spec.job
            if self._is_open(tree) and job is not None and job.on_stop is not OnStop.LEAVE:
                text = "it runs on after the daemon has stopped"
                self._breach("P6", text, tree.job, tree.key.run_id)

    def _look_at_daemon(self, status: EngineStatus) -> None:
        """Look at what a healthy daemon at rest says of itself, and at what it keeps."""
        world = self.world
        daemon = world.daemon
        assert daemon is not None
        core = daemon.core
        open_runs = {run.id: run for run in world.ledger.open_runs()}
        known = core._register.runs
        parked = self._look_at_parked(core, open_runs)
        for run_id in open_runs.keys() - known.keys() - parked:
            run = open_runs[run_id]
            text = "it is open in the ledger and unknown to the engine"
            self._breach("P1", text, run.job, run_id)
        for run_id in known.keys() - open_runs.keys():
            self._breach("P1", f"the engine still has run {run_id}, which has its outcome")
        for pool in status.pools:
            running = [
                active
                for active in known.values()
                if active.job.pool == pool.name and active.run.state is State.RUNNING
            ]
            if pool.running != len(running):
                ids = sorted(active.run.id for active in running)
                text = f"pool {pool.name} counts {pool.running} slots as taken, by runs {ids}"
                self._breach("P4", text)
        for job in status.jobs:
            for run in job.active:
                mine = open_runs.get(run.id)
                if mine is not None and mine.state is not run.state:
                    text = f"it is {run.state} in the engine and {mine.state} in the ledger"
                    self._breach("P1", text, run.job, run.id)
        starting = {a.job.pool for a in known.values() if a.stage is Stage.STARTING}
        for name in world.pools_in_force.keys() - starting:
            world.pool_sizes[name] = {world.pools_in_force[name]}
        self._look_at_queues(open_runs.values())
        self._look_at_waiting(core)
        for promise, text, name in tasks.wrong_now(world):
            self._breach(promise, text, name or None)
        self._look_at_timers(len(known), len(status.jobs) + len(core._tasks._lanes))

    def _look_at_parked(self, core: Core, open_runs: Mapping[int, Run]) -> set[int]:
        """Return the runs that are parked; each waits for a retry, and is not in memory, too."""
        parked = {run_id for lane in core._tasks._lanes.values() for run_id in lane.parked}
        for run_id in parked:
            run = open_runs.get(run_id)
            if run is None or run.state is not State.WAITING_RETRY:
                self._breach("P1", "it is parked and waits for no retry", None, run_id)
            if run_id in core._register.runs:
                self._breach("P2", "it is parked and in memory", None, run_id)
        return parked

    def _look_at_queues(self, open_runs: Iterable[Run]) -> None:
        """See that as many runs of a job wait as its ``queue_limit`` says, and one that is next.

        What is made up for, forced or left by an earlier life of the daemon waits beyond that.
        """
        forced = {active.run.id for active in self.world.requests.forced}
        waiting: dict[str, list[Run]] = defaultdict(list)
        for run in open_runs:
            is_plain = run.cause in {Cause.SCHEDULE, Cause.MANUAL} and run.id not in forced
            is_new = run.id > self.newest_before
            if is_plain and is_new and run.state is State.QUEUED and not run.attempts:
                waiting[run.job].append(run)
        for name, runs in waiting.items():
            most = max(map(_most_waiting, self.world.requests.definitions[name]))
            if len(runs) > most:
                text = f"{_runs({run.id for run in runs})} wait, at most {most} may"
                self._breach("P5", text, name)

    def _look_at_waiting(self, core: Core) -> None:
        """P4: nothing waits for a slot that is free, or for a predecessor that is not there."""
        world = self.world
        for text, name in chains.stuck(core):
            self._breach("P1", text, name)
        self._look_at_cycles(core)
        register = core._register
        in_pool: Counter[str] = Counter()
        in_group: Counter[str | None] = Counter()
        for active in register.runs.values():
            if active.run.state is State.RUNNING:
                in_pool[active.job.pool] += 1
                in_group[active.job.group] += 1
        for active in register.runs.values():
            if active.stage is not Stage.SLOT:
                continue
            size = world.pools_in_force.get(active.job.pool)
            group = GROUPS.get(active.job.group or "")
            most = group.max_running if group is not None else None
            has_slot = size is None or in_pool[active.job.pool] < size
            has_share = most is None or in_group[active.job.group] < most
            if has_slot and has_share:
                text = f"it waits for a slot of {active.job.pool}, which has one"
                self._breach("P4", text, active.run.job, active.run.id)
        for state in register.states.values():
            if state.queued and not state.active:
                self._breach("P4", "its runs wait for one that is not there", state.job.name)

    def _look_at_cycles(self, core: Core) -> None:
        """P1: a cycle that was open, and is so no more, has its row once nothing of it goes on."""
        is_open = set(chains.open_cycles(core))
        self.cycles |= is_open
        for name, due in self.cycles - is_open:
            state = core._register.states.get(name)
            if state is None or not state.is_live or chains.is_accounted_for(self.world, name, due):
                self.cycles.discard((name, due))
            elif not chains.is_under_way(self.world, due):
                text = f"its cycle of {due} is open no more, and has no row"
                self._breach("P1", text, name)

    def _look_at_timers(self, runs: int, jobs: int) -> None:
        daemon = self.world.daemon
        assert daemon is not None
        items = daemon.timers.items()
        kinds = Counter(type(item) for item in items)
        if kinds[LedgerRetryDue] > 1 or kinds[StopLimitDue] > daemon.stop_requests + 1:
            self._breach("P4", f"timers pile up: {kinds}")
        if len(items) > jobs + 2 * runs + 2:
            self._breach("P4", f"{len(items)} timers for {jobs} jobs and {runs} runs: {kinds}")
        if daemon.timers.timeline.heap_size > 64 + 2 * len(items):
            size = daemon.timers.timeline.heap_size
            self._breach("P4", f"a heap of {size} for {len(items)} timers")


def _ns(span: timedelta) -> int:
    return span // timedelta(microseconds=1) * 1000


# --- rules for a start ----------------------------------------------------------------------------

StartRule = Callable[[Inspector, Tree, Run], Wrong]


def _is_recorded_first(inspector: Inspector, tree: Tree, _run: Run) -> Wrong:
    if tree.key not in inspector.entered:
        yield "P2", f"attempt {tree.key.number} was started before it was durably recorded"


def _is_started_once(inspector: Inspector, tree: Tree, run: Run) -> Wrong:
    if inspector.starts[tree.key] > 1:
        yield "P2", f"attempt {tree.key.number} was started {inspector.starts[tree.key]} times"
    first = inspector.occurrences.setdefault((tree.job, run.era, run.due), run.id)
    if first != run.id:
        yield "P2", f"due {run.due} was started as run {first} and as run {run.id}"


def _is_not_early(inspector: Inspector, tree: Tree, run: Run) -> Wrong:
    if not inspector.world.may_step_clock and run.due - tree.started_at > EARLY:
        yield "P4", f"started {run.due - tree.started_at} before it was due"


def _is_on_time(inspector: Inspector, tree: Tree, run: Run) -> Wrong:
    """P4: what had its slot when it was due starts at its instant."""
    world = inspector.world
    first = run.attempts[0] if run.attempts else None
    if run.cause is not Cause.SCHEDULE or first is None or world.may_step_clock:
        return
    had_slot = tree.key.number == 1 and first.begun_at <= run.due + EARLY
    now_ns = world.clock.monotonic_ns()
    is_healthy = max(world.awake_ns, world.trouble_until_ns) < now_ns - 2 * 10**9
    late = tree.started_at - run.due
    if had_slot and is_healthy and late > EARLY:
        yield "P4", f"started {late} late, with its slot there"


def _is_alone(inspector: Inspector, tree: Tree, run: Run) -> Wrong:
    """P5: skip, queue and replace have one run alive, allow has ``max_running``."""
    job = tree.spec.job
    assert job is not None
    world = inspector.world
    forced = {active.run.id for active in world.requests.forced}
    if run.id in forced:
        return
    forced_since = {number for number in forced if number > run.id}
    others = {
        other.key.run_id
        for other in world.machine.alive
        if other.job == tree.job and other.key != tree.key and _counts_as_alive(inspector, other)
    }
    others -= forced_since
    limits = [_most(job)]
    limits += [_most(each) for each in _definitions_since(inspector, run)]
    most = max(limits)
    if len(others) + 1 > most:
        yield "P5", f"started while {_runs(others)} of {tree.job} live, under {job.overlap}"


def _definitions_since(inspector: Inspector, run: Run) -> list[Job]:
    """Return the definitions under which the run may have been let in; a reload changes none."""
    return inspector.world.requests.definitions.get(run.job, [])


def _runs(numbers: set[int]) -> str:
    return f"runs {', '.join(map(str, sorted(numbers)))}"


def _most(job: Job) -> float:
    if job.overlap is Overlap.ALLOW:
        return job.max_running if job.max_running is not None else float("inf")
    return 1


def _most_waiting(job: Job) -> float:
    """Return how many runs may wait, for a slot of the pool or for a predecessor."""
    match job.overlap:
        case Overlap.QUEUE:
            return job.queue_limit + 1
        case Overlap.ALLOW:
            return float("inf") if job.max_running is None else job.max_running
        case _:
            return 1


def _counts_as_alive(inspector: Inspector, tree: Tree) -> bool:
    """Tell whether a tree is a run that lives: not if it is what an ended one has left."""
    return tree.leader.is_alive or inspector._is_open(tree)


def _fits_its_pool(inspector: Inspector, tree: Tree, _run: Run) -> Wrong:
    job = tree.spec.job
    assert job is not None
    sizes = inspector.world.pool_sizes[job.pool]
    size = max(float("inf") if each is None else each for each in sizes)
    mine = [
        each
        for each in inspector.world.machine.alive
        if each.spec.job is not None
        and each.spec.job.pool == job.pool
        and (each.leader.is_alive or inspector._is_open(each))
    ]
    if len(mine) > size:
        yield "P4", f"{_runs({each.key.run_id for each in mine})} in pool {job.pool} of {size}"


def _fits_its_group(inspector: Inspector, tree: Tree, _run: Run) -> Wrong:
    """P4: a group has no more slots, of all pools, than its ``max_running``."""
    job = tree.spec.job
    group = GROUPS.get(job.group or "") if job is not None else None
    if group is None or group.max_running is None:
        return
    mine = {
        each.key.run_id
        for each in inspector.world.machine.alive
        if each.spec.job is not None
        and each.spec.job.group == group.name
        and (each.leader.is_alive or inspector._is_open(each))
    }
    if len(mine) > group.max_running:
        yield "P4", f"{_runs(mine)} in group {group.name} of {group.max_running}"


def _is_not_cancelled(inspector: Inspector, tree: Tree, run: Run) -> Wrong:
    since_ns = inspector.world.requests.cancelled.get(run.id)
    if since_ns is not None:
        late = (tree.leader.started_ns - since_ns) / 1e9
        yield "P6", f"attempt {tree.key.number} was started {late} s after it was cancelled"


def _follows_its_predecessor(inspector: Inspector, tree: Tree, run: Run) -> Wrong:
    """P2, P3: a further attempt follows a failure that may be retried, or a crash."""
    if tree.key.number != len(run.attempts):
        yield "P2", f"attempt {tree.key.number} was started, {len(run.attempts)} are recorded"
    if [attempt.number for attempt in run.attempts] != list(range(1, len(run.attempts) + 1)):
        yield "P2", f"attempts are numbered {[a.number for a in run.attempts]}"
    definitions = inspector.world.requests.definitions[run.job]
    for attempt in run.attempts[:-1]:
        yield from _may_be_followed(attempt, definitions)
        was_left = AttemptKey(run.id, attempt.number) in inspector.world.requests.left_running
        if was_left and not _is_timed_out_for_its_rest(attempt):
            yield "P3", f"attempt {attempt.number} was left by a stop, and it is run again"
        earlier = inspector.world.tree_of(AttemptKey(run.id, attempt.number))
        if earlier is not None and earlier.alive and _counts_as_alive(inspector, earlier):
            yield "P5", f"attempt {attempt.number} still lives"
    failed = sum(a.outcome in {Outcome.FAILED, Outcome.TIMED_OUT} for a in run.attempts)
    most = max(job.retry.attempts for job in definitions)
    if failed >= most:
        yield "P1", f"attempt {tree.key.number} follows {failed} failed ones, of at most {most}"
    lost = sum(attempt.outcome is Outcome.LOST for attempt in run.attempts)
    if lost > MOST_RERUNS:
        yield "P3", f"it is run again after {lost} crashes"


def _waits_for_its_retry(inspector: Inspector, tree: Tree, run: Run) -> Wrong:
    """P4: a retry comes no sooner than its delay after the end of the attempt before it."""
    if len(run.attempts) < 2 or inspector.world.may_step_clock:
        return
    before, retries = run.attempts[-2], [job.retry for job in _jobs(inspector, run)]
    if before.outcome not in {Outcome.FAILED, Outcome.TIMED_OUT} or before.finished_at is None:
        return
    least = min(min(r.delay * r.backoff ** (before.number - 1), r.max_delay) for r in retries)
    if tree.started_at < before.finished_at + least:
        after = tree.started_at - before.finished_at
        yield "P4", f"attempt {tree.key.number} was started {after} after the one before it"


def _is_timed_out_for_its_rest(attempt: Attempt) -> bool:
    """Tell whether what lived on may have been the command, and was ended at its timeout.

    The ledger missed its start, so nobody knew that the command itself had ended before.
    """
    return attempt.outcome is Outcome.TIMED_OUT and attempt.pid is None


def _may_be_followed(attempt: Attempt, definitions: list[Job]) -> Wrong:
    match attempt.outcome:
        case Outcome.LOST if all(job.on_crash is OnCrash.LOST for job in definitions):
            yield "P2", f"attempt {attempt.number} was lost, and it is run again unasked"
        case Outcome.FAILED | Outcome.TIMED_OUT:
            if not any(_names(job, attempt) for job in definitions):
                yield "P1", f"attempt {attempt.number} failed in a way that is not retried"
        case Outcome.LOST:
            pass
        case outcome:
            yield "P2", f"attempt {attempt.number} is {outcome or 'open'}, and another is started"


def _names(job: Job, attempt: Attempt) -> bool:
    """Tell whether ``retry_on`` names the way an attempt failed."""
    if job.retry_on is None:
        return True
    if attempt.outcome is Outcome.TIMED_OUT:
        return Failure.TIMEOUT in job.retry_on
    if attempt.exit is None:
        return Failure.START in job.retry_on
    if attempt.exit.signal is not None:
        return Failure.SIGNAL in job.retry_on
    return attempt.exit.code in job.retry_on


def _may_start_now(inspector: Inspector, tree: Tree, run: Run) -> Wrong:
    daemon = inspector.world.daemon
    if daemon is None or daemon.stopping_since is None or inspector.world.may_step_clock:
        return
    if run.due > daemon.stopping_since:
        yield "P1", "started after the daemon was told to stop, and before that it was not due"
    if run.attempts[-1].begun_at > daemon.stopping_since:
        yield "P1", f"attempt {tree.key.number} begun after the daemon was told to stop"


_START_RULES: tuple[StartRule, ...] = (
    _is_recorded_first,
    _is_started_once,
    _is_not_early,
    _is_on_time,
    _is_alone,
    _fits_its_pool,
    _fits_its_group,
    _is_not_cancelled,
    _follows_its_predecessor,
    _waits_for_its_retry,
    _may_start_now,
)


# --- rules for an attempt that has an outcome -----------------------------------------------------

AttemptRule = Callable[[Inspector, Run, Attempt, Tree | None], Wrong]


def _is_over(inspector: Inspector, run: Run, attempt: Attempt, tree: Tree | None) -> Wrong:
    """P6: the outcome comes after the end, that of an ended tree after the whole of it."""
    if tree is None or not tree.alive:
        return
    if tree.leader.is_alive:
        yield "P1", f"is {attempt.outcome} while process {tree.leader.pid} runs"
    elif run.outcome is None and any(each.stopping for each in run.attempts):
        return  # what it has left is being ended, and the run is not over before that
    elif "left alone" in attempt.reason and not _was_stopped_in_this_life(inspector, tree):
        return  # it had ended by itself before anything was asked of it, and that is said
    elif attempt.outcome is Outcome.LOST and tree.key not in inspector.stopping:
        yield from _may_leave(inspector, run, attempt)
    elif tree.was_stopped or attempt.outcome in {Outcome.CANCELLED, Outcome.TIMED_OUT}:
        yield "P6", f"is {attempt.outcome} while its descendants run"


def _may_leave(inspector: Inspector, run: Run, attempt: Attempt) -> Wrong:
    """Say what is wrong with an attempt that was lost while its descendants run.

    Where its start is known, what it has left is no run: a service would hold its job. That it was
    being ended nobody can know where the ledger could not take it.
    """
    if attempt.pid is None:
        yield "P5", "is lost while its descendants run, which may be the command"
    elif _kills_leftovers(inspector, run):
        yield "P6", "is lost while its descendants run, which are to be ended"


def _kills_leftovers(inspector: Inspector, run: Run) -> bool:
    """Tell whether the job in force says so; of a removed one nobody knows what it wants."""
    job = inspector.world.in_force.get(run.job)
    return job is not None and job.leftovers is Leftovers.KILL


def _was_stopped_in_this_life(inspector: Inspector, tree: Tree) -> bool:
    """Tell whether this daemon has sent it a signal; an earlier one may have died over the note."""
    daemon = inspector.world.daemon
    return daemon is not None and any(at_ns >= daemon.begun_ns for at_ns, _ in tree.stops)


def _agrees(inspector: Inspector, run: Run, attempt: Attempt, tree: Tree | None) -> Wrong:
    """P1: what is recorded is what the observer saw."""
    unseen = attempt.exit is None or attempt.exit == Exit()
    if tree is None:
        key = AttemptKey(run.id, attempt.number)
        if not unseen:
            yield "P1", f"has exit {attempt.exit} without a process"
        if attempt.outcome is Outcome.SUCCEEDED:
            yield "P1", "succeeded without a process"
        if attempt.outcome is Outcome.FAILED and key not in inspector.world.machine.failed_starts:
            yield "P1", "failed without a process or a try at one"
        return
    if not unseen and attempt.exit != tree.exit:
        yield "P1", f"has exit {attempt.exit}, and it was {tree.exit}"
    codes = {code for job in _jobs(inspector, run) for code in job.success_codes}
    if attempt.outcome is Outcome.SUCCEEDED and (unseen or tree.exit.code not in codes):
        yield "P1", f"succeeded with exit {attempt.exit}"
    if attempt.outcome is Outcome.FAILED and tree.exit.code in codes:
        yield "P1", f"failed with exit {tree.exit}"


def _is_of_its_cause(inspector: Inspector, run: Run, attempt: Attempt, tree: Tree | None) -> Wrong:
    """P1: an attempt is lost only by a crash, timed out only after its timeout."""
    life = inspector.world.story.life
    if attempt.outcome is Outcome.LOST and tree is not None and tree.life == life:
        yield "P1", "is lost, and the daemon that started it is there"
    if attempt.outcome is Outcome.LOST and _had_surely_not_begun(inspector, run, attempt):
        yield "P1", "is lost, and it was held for an instant that nothing was let go for"
    if run.left_as is Left.RECALLED and tree is not None and attempt == run.attempts[-1]:
        yield "P1", "is taken for one that has not begun, and it has"
    if attempt.outcome is Outcome.TIMED_OUT:
        timeouts = [job.timeout for job in _jobs(inspector, run) if job.timeout is not None]
        age_ns = inspector.world.clock.monotonic_ns() - (tree.leader.started_ns if tree else 0)
        if not timeouts or age_ns < _ns(min(timeouts)) - _TICK_NS:
            yield "P1", f"timed out after {age_ns / 1e9} s"
    noted = inspector.stopping.get(AttemptKey(run.id, attempt.number))
    if noted is not None and attempt.outcome not in {noted, Outcome.CANCELLED}:
        yield "P1", f"is {attempt.outcome}, and it was being ended as {noted}"


def _had_surely_not_begun(inspector: Inspector, run: Run, attempt: Attempt) -> bool:
    """Whether a first start was to be made at a later instant than any that was noted."""
    world = inspector.world
    was_held = LEAST_HELD < run.due - attempt.begun_at <= LONGEST_AHEAD
    is_of_this_boot = attempt.boot_id == world.process_era
    was_there = attempt.pid is not None or attempt.number > 1 or attempt.started_at is not None
    if was_there or not was_held or not is_of_this_boot:
        return False
    return world.machine.let_go is not None and world.machine.let_go < run.due


def _jobs(inspector: Inspector, run: Run) -> list[Job]:
    return inspector.world.requests.definitions.get(run.job, [])


def _is_in_order(inspector: Inspector, run: Run, attempt: Attempt, tree: Tree | None) -> Wrong:
    """P1: an attempt begins, its process starts, it ends: when it did."""
    if inspector.world.may_step_clock or tree is None:
        return
    started_at, finished_at = attempt.started_at, attempt.finished_at
    if started_at is not None and abs(started_at - tree.started_at) > 2 * _TICK:
        yield "P1", f"is said to have started at {started_at}, and did at {tree.started_at}"
    if attempt.begun_at > tree.started_at:
        yield "P1", f"is said to have begun at {attempt.begun_at}, and runs since {tree.started_at}"
    if finished_at is not None and finished_at < (tree.ended_at or finished_at):
        yield "P1", f"is said to have ended at {finished_at}, and did at {tree.ended_at}"


_ATTEMPT_RULES: tuple[AttemptRule, ...] = (
    _is_over,
    _agrees,
    _is_of_its_cause,
    _is_in_order,
)


# --- rules for a run that has an outcome ----------------------------------------------------------

RunRule = Callable[[Inspector, Run], Wrong]


def _has_its_reason(inspector: Inspector, run: Run) -> Wrong:
    silent = {Outcome.SUCCEEDED}
    if run.outcome not in silent and not run.reason:
        yield "P1", f"is {run.outcome} without a reason"


def _is_its_last_attempt(inspector: Inspector, run: Run) -> Wrong:
    """P1: a run's outcome is that of its last attempt, or says why there was no other."""
    last = run.attempts[-1] if run.attempts else None
    if run.outcome in {Outcome.SKIPPED, Outcome.MISSED}:
        was_recalled = [a.outcome for a in run.attempts] == [Outcome.CANCELLED]
        if last is not None and not was_recalled:
            yield "P1", f"is {run.outcome} after {len(run.attempts)} attempts"
    elif run.outcome is not Outcome.CANCELLED:
        if last is None or last.outcome is not run.outcome:
            yield "P1", f"is {run.outcome}, its last attempt {last and last.outcome}"
    elif last is not None and last.outcome is None:
        yield "P1", "is cancelled, its last attempt is open"
    for attempt in run.attempts:
        tree = inspector.world.tree_of(AttemptKey(run.id, attempt.number))
        if tree is not None and tree.leader.is_alive:
            yield "P6", f"is {run.outcome}, attempt {attempt.number} runs"


def _was_asked_for(inspector: Inspector, run: Run) -> Wrong:
    """P1: nobody cancels a run but a person, a reload, a stop or its job's successor."""
    requests = inspector.world.requests
    if run.outcome is not Outcome.CANCELLED:
        if run.id in requests.cancelled and not _had_ended_before(inspector, run):
            yield "P6", f"was cancelled, and is {run.outcome}"
        return
    jobs = _jobs(inspector, run)
    was_asked_for = run.id in requests.asked_to_cancel or run.job in requests.asked_jobs
    causes = {
        "cancelled on request": (was_asked_for, "nobody has asked to cancel it"),
        "replaced by": (
            any(job.overlap is Overlap.REPLACE for job in jobs),
            "its job replaces nothing",
        ),
        "the job was removed": (run.job in requests.removed, "its job was never removed"),
        "the job was disabled": (
            any(not job.enabled for job in jobs),
            "its job was never disabled",
        ),
        "the job was given another schedule": (
            len(set(map(fingerprint, jobs))) > 1,
            "its job has always had the same",
        ),
        "": (requests.stops > 0, "nobody has stopped the daemon"),
    }
    is_true, wrong = next(each for begin, each in causes.items() if run.reason.startswith(begin))
    if not is_true:
        yield "P1", f"{wrong}: {run.reason}"


def _has_left_nothing(inspector: Inspector, run: Run) -> Wrong:
    """P6: of a run that was cancelled, or timed out, nothing is left, of none of its attempts."""
    if run.outcome not in {Outcome.CANCELLED, Outcome.TIMED_OUT}:
        return
    for attempt in run.attempts:
        tree = inspector.world.tree_of(AttemptKey(run.id, attempt.number))
        if tree is not None and tree.alive:
            yield "P6", f"is {run.outcome}, and attempt {attempt.number} has left something"


def _had_ended_before(inspector: Inspector, run: Run) -> bool:
    """Whether the leader had ended by itself when the cancel came."""
    tree = inspector.world.tree_of(AttemptKey(run.id, len(run.attempts)))
    since_ns = inspector.world.requests.cancelled[run.id]
    ended_ns = tree.leader.ended_ns if tree is not None else None
    return ended_ns is not None and ended_ns <= since_ns


def _is_left_to_the_next(inspector: Inspector, run: Run) -> Wrong:
    """P1: what a stop has kept from starting at its instant is the next daemon's to make up for."""
    daemon, world = inspector.world.daemon, inspector.world
    if daemon is None or daemon.stopping_since is None or world.may_step_clock:
        return
    is_of_the_stop = run.outcome is Outcome.CANCELLED and run.reason.startswith("pycron was")
    if is_of_the_stop and run.cause is Cause.SCHEDULE and run.due > daemon.stopping_since:
        yield (
            "P1",
            f"is cancelled, and was due only after the daemon was told to stop: {run.reason}",
        )


_RUN_RULES: tuple[RunRule, ...] = (
    _is_left_to_the_next,
    _has_its_reason,
    _is_its_last_attempt,
    _was_asked_for,
    _has_left_nothing,
)


def _final_row(inspector: Inspector, run: Run) -> Wrong:
    """Say what is wrong with a row once everything is over."""
    for attempt in run.attempts:
        if attempt.outcome is None:
            yield "P1", f"attempt {attempt.number} has no outcome"
    if run.finished_at is None:
        yield "P1", "it has an outcome and no end"
    yield from _was_run_again(inspector, run)
    jobs = _jobs(inspector, run)
    was_removed = run.job in inspector.world.requests.removed
    is_one_rule = all(
        (job.retry, job.retry_on) == (jobs[0].retry, jobs[0].retry_on) for job in jobs
    )
    if is_one_rule and not was_removed and run.outcome in {Outcome.FAILED, Outcome.TIMED_OUT}:
        yield from _was_tried_enough(jobs[0], run)


def _was_run_again(inspector: Inspector, run: Run) -> Wrong:
    """P3: what a crash cut short is run again where that is asked for, up to a ceiling.

    A stop cuts nothing short that it leaves to the next daemon.
    """
    jobs = _jobs(inspector, run)
    key = AttemptKey(run.id, len(run.attempts))
    tree = inspector.world.tree_of(key)
    if key in inspector.world.requests.left_running:
        return
    was_seen = tree is not None and tree.was_seen_ending
    is_asked_for = all(job.on_crash is OnCrash.RERUN for job in jobs)
    if run.outcome is not Outcome.LOST or was_seen or not is_asked_for:
        return
    lost = sum(attempt.outcome is Outcome.LOST for attempt in run.attempts)
    if lost <= MOST_RERUNS and run.job not in inspector.world.requests.removed:
        yield "P3", f"it was lost after {lost} crashes, and not run again"


def _was_tried_enough(job: Job, run: Run) -> Wrong:
    last = run.attempts[-1]
    failed = sum(a.outcome in {Outcome.FAILED, Outcome.TIMED_OUT} for a in run.attempts)
    if len(run.attempts) < job.retry.attempts and failed < job.retry.attempts and _names(job, last):
        yield "P1", f"it was given up after {failed} of {job.retry.attempts} attempts"
