"""One simulated history: a daemon that is killed, restarted, reloaded and lied to about the time.

``World`` holds what there is: a machine with its processes, a crontab (the file, which may differ
from what is in force), a ledger, and at most one life of the daemon. It lets time pass, carries
requests to the daemon as its inbox would, and can kill it at any of the crash points that the
ledger and the processes call (``maybe_crash``). Every choice comes from one seed, so a failing
history can be played again.

What may happen to a world is in ``actions``; what must hold, in ``checks`` and ``accounts``. They
look at the world from outside: at processes, at the ledger, and at what the daemon answers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import Any, TypeVar

from crond_py.crontab.model import AfterTrigger, Crontab, CronTrigger, Group, Job, Pool, Trigger
from crond_py.crontab.summary import describe_trigger
from crond_py.engine.ahead import FARTHEST_AHEAD
from crond_py.engine.core import Core
from crond_py.engine.events import Call, ClockChanged, TimersFired
from crond_py.engine.outbox import Outbox
from crond_py.engine.parked import MOST_RETRIES
from crond_py.engine.parts import Parts
from crond_py.engine.records import ActiveRun
from crond_py.engine.timekeeper import Timekeeper
from crond_py.errors import PycronError
from crond_py.ledger.memory import MemoryLedger
from crond_py.model import Condition, Left, Overlap, Retry, Run
from crond_py.ports import (
    AttemptKey,
    Claim,
    NewTask,
    Pruned,
    SetAttempt,
    SetRun,
    SetTask,
    Submitted,
    Write,
)
from tests.simulation.fakes import (
    Behaviour,
    Crash,
    FakeProcesses,
    FakeTimers,
    Machine,
    SimClock,
    SimSpec,
    Tree,
)
from tests.simulation.jobs import (
    BEGIN,
    FOLLOWERS,
    HOST,
    SECOND,
    after,
    random_behaviour,
    random_job,
    upstreams,
)
from tests.simulation.story import Broken, Story
from tests.simulation.tasks import MOST_WAITING, TaskBook

T = TypeVar("T")

POOL_SIZES = {"default": None, "small": 2, "tiny": 1}
WIDE = 12
"""How many slots the pool ``small`` has where it is wide: more than wait of a lane in memory."""
CROWD = 6
_OFTEN = ("*/10 * * * * *", "* * * * *", "*/2 * * * *")
GROUPS = {"few": Group("few", max_running=2), "many": Group("many", 3.0)}


def spec_of(identity: str, job: Job, run: Run, attempt: int) -> SimSpec:
    """Return what the fake machine needs to know of a process."""
    tag = f"{identity}-{run.id}"
    env = {"PYCRON_RUN_ID": tag, "PYCRON_JOB": run.job, "PYCRON_ATTEMPT": str(attempt)}
    return SimSpec(
        AttemptKey(run.id, attempt),
        tag,
        ("job",),
        env,
        "/",
        0o022,
        None,
        user=job.user,
        leftovers=job.leftovers,
        job=job,
        era=run.era,
        due=run.due,
    )


@dataclass(slots=True, eq=False)
class Daemon:
    """One life of the daemon. ``phase`` names what it is in the middle of, for crashes."""

    core: Core
    timers: FakeTimers
    processes: FakeProcesses
    begun_ns: int
    inbox: list[object] = field(default_factory=list)
    phase: str = "recovering"
    stopping_since: datetime | None = None
    stop_requests: int = 0
    is_stopped: bool = False

    @property
    def is_stopping(self) -> bool:
        """Whether it has been told to stop."""
        return self.stopping_since is not None


@dataclass(slots=True)
class Requests:
    """What has been asked of the daemon, and what it was promised in return.

    ``cancelled``: runs of which it was said that they are cancelled, and since when (monotonic).
    ``asked_to_cancel`` and ``asked_jobs``: whether or not it was said. ``definitions``: every
    definition that a job has ever had in force. ``left_running``: what a stop has
    left so and has ended by itself, or has yet to.
    """

    cancelled: dict[int, int] = field(default_factory=dict)
    asked_to_cancel: set[int] = field(default_factory=set)
    asked_jobs: set[str] = field(default_factory=set)
    forced: list[ActiveRun] = field(default_factory=list)
    removed: set[str] = field(default_factory=set)
    definitions: dict[str, list[Job]] = field(default_factory=dict)
    stops: int = 0
    left_running: set[AttemptKey] = field(default_factory=set)


@dataclass(slots=True)
class World:
    """A machine, a crontab, a ledger and at most one daemon.

    ``jobs`` and ``pools`` are what the file says, and ``sizes`` what it says at first; ``in_force``
    and ``pools_in_force`` what a daemon has taken last, 0 for a pool that is not there, and
    ``pool_sizes`` what a run may have been let in by that has not started yet.
    ``parked`` are jobs that were taken out of the file. ``steps`` are those of the clock since the
    last look at the accounts: when (monotonic), how far, and whether a daemon saw it and lived on.
    ``takes`` is how long whatever is done to the daemon takes: two things never happen at one
    instant, as they do not on a real machine. ``sees_timers_first``: of what has happened while it
    was frozen it hears of its timers before all else. ``most_retries`` runs of tasks wait for
    their retry in memory; the others are parked.

    ``turns`` counts the slots of whose giving something is shown, by what that is.

    ``watchers`` are called with every write that the ledger has taken; ``on_begin`` before each
    life, ``on_core`` with each engine before it begins, ``on_force`` when a crontab comes into
    force, ``on_stopped`` after an orderly end,
    ``on_step`` when the clock was set, with whether a daemon has seen and written that;
    ``on_drained`` when it has dealt with what there is, ``on_frozen`` and ``on_thawed`` around a
    freeze, ``on_end`` when a life is over, with whether the power was cut, and ``on_durable`` with
    each write that a power cut leaves.
    """

    seed: int
    may_step_clock: bool = True
    takes: timedelta = timedelta(0)
    sees_timers_first: bool = field(init=False)
    most_retries: int = field(init=False)
    random: Random = field(init=False)
    clock: SimClock = field(init=False)
    story: Story = field(init=False)
    machine: Machine = field(init=False)
    ledger: MemoryLedger = field(init=False)
    jobs: dict[str, Job] = field(default_factory=dict)
    sizes: dict[str, int | None] = field(default_factory=lambda: dict(POOL_SIZES))
    pools: dict[str, int | None] = field(default_factory=lambda: dict(POOL_SIZES))
    pools_in_force: dict[str, int | None] = field(default_factory=dict)
    pool_sizes: dict[str, set[int | None]] = field(default_factory=dict)
    parked: dict[str, Job] = field(default_factory=dict)
    in_force: dict[str, Job] = field(default_factory=dict)
    in_force_since: dict[str, datetime] = field(default_factory=dict)
    requests: Requests = field(default_factory=Requests)
    tasks: TaskBook = field(default_factory=TaskBook)
    daemon: Daemon | None = None
    boots: int = 1
    containers: int = 1
    tells_boot: bool = True
    crash_in: int | None = None
    crash_at: str | None = None
    crashes: Counter[tuple[str, str]] = field(default_factory=Counter)
    turns: Counter[str] = field(default_factory=Counter)
    steps: list[tuple[int, timedelta, bool]] = field(default_factory=list)
    has_join: bool = False
    has_backlog: bool = False
    is_wide: bool = False
    trouble_until_ns: int = 0
    awake_ns: int = 0
    is_frozen: bool = False
    broken: list[Broken] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    watchers: list[Callable[[Sequence[Write], Sequence[int | None]], None]] = field(
        default_factory=list
    )
    on_begin: list[Callable[[], None]] = field(default_factory=list)
    on_core: list[Callable[[Core], None]] = field(default_factory=list)
    on_force: list[Callable[[], None]] = field(default_factory=list)
    on_stopped: list[Callable[[], None]] = field(default_factory=list)
    on_step: list[Callable[[timedelta, bool], None]] = field(default_factory=list)
    on_drained: list[Callable[[], None]] = field(default_factory=list)
    on_frozen: list[Callable[[], None]] = field(default_factory=list)
    on_thawed: list[Callable[[], None]] = field(default_factory=list)
    on_end: list[Callable[[bool], None]] = field(default_factory=list)
    on_durable: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sees_timers_first = bool(self.seed // 8 % 2)
        self.most_retries = (MOST_RETRIES, 0, 1, 2)[self.seed // 16 % 4]
        self.random = Random(self.seed)
        self.clock = SimClock(BEGIN)
        self.story = Story(self.clock)
        self.machine = Machine(self.random, self.clock, self.story)
        self.machine.tells_exits = self.random.random() < 0.3
        self.ledger = MemoryLedger()

    @property
    def process_era(self) -> str:
        """The name of the time in which processes may have lived on."""
        return f"boot{self.boots} container{self.containers}"

    # --- the crontab ----------------------------------------------------------------------

    def add_random_jobs(self, number: int) -> None:
        """Put new jobs into the file."""
        for _ in range(number):
            name = f"job{len(self.jobs) + len(self.parked)}"
            self.machine.behaviours[name] = random_behaviour(self.random)
            job = random_job(self.random, name, self.clock.now())
            if self.jobs and self.random.random() < FOLLOWERS:
                job = replace(job, trigger=after(self.random, sorted(self.jobs)), jitter=None)
            self.set_job(job)

    def add_join(self) -> None:
        """Put two jobs into the file that are due together, and a third that waits for both."""
        head = self._new_job("head", CronTrigger((self.random.choice(_OFTEN),)))
        both = ("left", "right")
        self.has_join = True
        is_diamond = self.random.random() < 0.5
        trigger = AfterTrigger({"head": Condition.ANY}) if is_diamond else head.trigger
        jobs = [replace(self._new_job(name, trigger), timezone=head.timezone) for name in both]
        conditions = {name: self.random.choice(tuple(Condition)) for name in both}
        for job in (*([head] if is_diamond else []), *jobs):
            self.set_job(job)
        self.set_job(self._new_job("end", AfterTrigger(conditions)))

    def add_crowd(self) -> None:
        """Put jobs into the file that are due more often than the slots of their pools allow."""
        pick = self.random.choice
        for number in range(CROWD):
            name = f"crowd{number}"
            often = CronTrigger((pick(("*/5 * * * * *", "*/7 * * * * *", "2/10 * * * * *")),))
            job = Job(
                name,
                often,
                "job",
                timezone="UTC",
                overlap=Overlap.QUEUE,
                queue_limit=3,
                pool=pick(("small", "small", "tiny")),
                group=pick((None, "few", "many", "many", "alice")),
                priority=pick((-5, 0, 0, 0, 5)),
                kill_after=2 * SECOND,
                keep_runs=None,
                keep_for=None,
            )
            lasts = pick(((SECOND,), (3 * SECOND, 8 * SECOND), (15 * SECOND,)))
            self.machine.behaviours[name] = Behaviour(lasts=lasts)
            self.set_job(job)

    def widen(self) -> None:
        """Have a pool with more slots than tasks of a lane wait in memory."""
        self.is_wide = True
        self.sizes = {**POOL_SIZES, "small": WIDE}
        self.pools = dict(self.sizes)

    def _new_job(self, name: str, trigger: Trigger) -> Job:
        self.machine.behaviours[name] = random_behaviour(self.random)
        job = random_job(self.random, name, self.clock.now())
        return replace(job, trigger=trigger, jitter=None)

    def set_job(self, job: Job) -> None:
        """Put a job into the file, or another definition in its place."""
        self.jobs[job.name] = job
        self.story.tell("in the file: {}", Definition(job), job=job.name)

    def is_followed(self, name: str) -> bool:
        """Whether another job of the file waits for this one."""
        return any(name in upstreams(job) for job in self.jobs.values())

    def crontab(self) -> Crontab:
        """Return the crontab as the file has it."""
        sizes = self.sizes_in_file()
        pools = {name: Pool(name, size) for name, size in sizes.items() if size != 0}
        return Crontab(
            MappingProxyType(dict(self.jobs)),
            MappingProxyType(pools),
            (Path("crontab"),),
            MappingProxyType(GROUPS),
        )

    def sizes_in_file(self) -> dict[str, int | None]:
        """Return how many slots each pool has; one that is not in the file has 0.

        A file with a job whose pool is not there would be refused.
        """
        needed = {job.pool for job in self.jobs.values()}
        return {
            name: self.pools.get(name, size if name in needed else 0)
            for name, size in self.sizes.items()
        }

    def _comes_into_force(self) -> None:
        self.requests.removed |= self.in_force.keys() - self.jobs.keys()
        now = self.clock.now()
        for name, job in self.jobs.items():
            before = self.in_force.get(name)
            if before is None or (before.trigger, before.enabled) != (job.trigger, job.enabled):
                self.in_force_since[name] = now
        self.in_force = dict(self.jobs)
        self.pools_in_force = self.sizes_in_file()
        for name, size in self.pools_in_force.items():
            self.pool_sizes.setdefault(name, set()).add(size)
        for name, job in self.jobs.items():
            known = self.requests.definitions.setdefault(name, [])
            if not known or known[-1] != job:
                known.append(job)
        for callback in self.on_force:
            callback()

    # --- the daemon's life ----------------------------------------------------------------

    def breach(self, broken: Broken) -> None:
        """Note a broken promise; it is raised outside, where the engine can't outlive it."""
        self.broken.append(broken)

    def watching(self, look: Callable[..., None]) -> Callable[..., None]:
        """Have a check's own faults raised outside, too; the engine would outlive them."""

        def watch(*seen: Any) -> None:
            try:
                look(*seen)
            except Exception as error:  # noqa: BLE001 - raised by raise_errors
                self.errors.append(error)

        return watch

    def maybe_crash(self, where: str) -> None:
        """Die here if that has been chosen."""
        if self.crash_in is None or (self.crash_at is not None and self.crash_at != where):
            return
        self.crash_in -= 1
        if self.crash_in <= 0:
            phase = self.daemon.phase if self.daemon else "recovering"
            self.crashes[phase, where] += 1
            self.story.tell("CRASH {}, while {}", where, phase)
            raise Crash(where)

    def boot_daemon(self) -> None:
        """Start a daemon on what is there."""
        self.pass_time(self.takes)
        self.story.life += 1
        self.story.tell("the daemon starts")
        by_key = self.machine.by_key  # what lives is taken back
        self.requests.left_running = {
            key for key in self.requests.left_running if not by_key[key].leader.is_alive
        }
        for callback in self.on_begin:
            callback()
        inbox: list[object] = []
        timers = FakeTimers()
        processes = FakeProcesses(self.machine, inbox.append, self.maybe_crash)
        processes.holds_starts = bool(self.seed // 4 % 2)
        identity = self.ledger.identity
        ledger = SimLedger(self.ledger, self)
        parts = Parts(
            timekeeper=Timekeeper(self.clock),
            timers=timers,
            outbox=Outbox(ledger),
            processes=processes,
            specify=lambda job, run, attempt: spec_of(identity, job, run, attempt),
            boot_id=f"boot{self.boots}" if self.tells_boot else "",
            process_era=self.process_era,
            random=self.random.random,
            remove_outputs=lambda _outputs: None,
            task_reader=lambda _crontab: self.tasks,
            most_waiting=MOST_WAITING,
            most_retries=self.most_retries,
            parks_from=SECOND,
            host=HOST,
            ends_all=False,
        )
        core = Core(parts, ledger)
        if self.seed // 2 % 2:
            core._agenda.leads = ((0, FARTHEST_AHEAD),)
        self.daemon = Daemon(core, timers, processes, self.clock.monotonic_ns(), inbox)
        for notice in self.on_core:
            notice(core)
        crontab = self.crontab()
        self._comes_into_force()
        self._guard(lambda: core.begin(crontab))
        self.drain()
        if self.daemon is not None:
            self.daemon.phase = "running"

    def _guard(self, step: Callable[[], object]) -> None:
        try:
            step()
        except Crash:
            self.kill_daemon()

    def kill_daemon(self, *, power_cut: bool = False) -> None:
        """SIGKILL; or the machine loses its power."""
        text = "power cut" if power_cut else "the daemon is gone"
        self.story.tell(text)
        self._end_life(power_cut=power_cut)
        if power_cut:
            self.machine.reboot()
            self.boots += 1
            open_runs = {run.id for run in self.ledger.open_runs()}  # what ended them nobody knows
            left = self.requests.left_running
            self.requests.left_running = {key for key in left if key.run_id not in open_runs}

    def _end_life(self, *, power_cut: bool = False) -> None:
        for callback in self.on_end:
            callback(power_cut)
        self.daemon = None
        self.crash_in = self.crash_at = None
        failing = self.ledger.failing
        flushed = self.random.randint(0, self.ledger.unsynced) if power_cut else 0
        self.ledger = self.ledger.crash(power_cut=power_cut, flushed=flushed)
        self.ledger.failing = failing
        self._note_left()

    def _note_left(self) -> None:
        """Note what a stop has left to run on, and has been able to write that of.

        Of what it had taken over without knowing its leader that may have ended before its eyes.
        """
        for run in self.ledger.open_runs():
            key = AttemptKey(run.id, len(run.attempts))
            if run.left_as is Left.RUNNING and key in self.machine.by_key:
                self.requests.left_running.add(key)

    def drain(self) -> None:
        """Let the daemon handle all that has happened up to this instant."""
        self._drain()
        for callback in self.on_drained:
            callback()

    def _drain(self) -> None:
        for _ in range(1000):
            daemon = self.daemon
            if daemon is None:
                return
            self._guard(daemon.processes.start_due)
            if self.daemon is not daemon:
                return
            daemon.processes.reap()
            self._take_due(daemon)
            if not daemon.inbox:
                return
            self._handle(daemon)
        self.breach(Broken("P4", "the daemon never comes to rest"))

    def _handle(self, daemon: Daemon) -> None:
        """Let the daemon handle what is in its inbox, as one batch."""
        batch = list(daemon.inbox)
        daemon.inbox.clear()
        self._guard(lambda: daemon.core.handle(batch))
        if daemon.is_stopped and self.daemon is daemon:
            self._stopped()

    def _take_due(self, daemon: Daemon) -> None:
        now_ns = self.clock.monotonic_ns()
        due = daemon.timers.pop_due(now_ns)
        if due:
            daemon.inbox.append(TimersFired(due, now_ns))

    def _stopped(self) -> None:
        self.story.tell("the daemon has stopped")
        for callback in self.on_stopped:
            callback()
        self._end_life()

    def ask(self, question: Callable[[Core], T]) -> T | PycronError | None:
        """Put a request to the daemon as a client does; None: it died over it, or is not there."""
        self.pass_time(self.takes)
        daemon = self.daemon
        if daemon is None:
            return None
        answers: list[T | PycronError] = []

        def put() -> None:
            try:
                answers.append(question(daemon.core))
            except PycronError as error:
                answers.append(error)
                self.story.tell("refused: {}", error)

        daemon.inbox.append(Call(put))
        self.drain()
        return answers[0] if answers else None

    def reload(self) -> None:
        """Have the daemon take the file as it is; without a daemon nothing happens."""
        daemon = self.daemon
        if daemon is None:
            return
        self.story.tell("reload")
        crontab = self.crontab()

        def put(core: Core) -> None:
            self._comes_into_force()
            core.reload(crontab)

        self.ask(put)

    def stop(self, limit: timedelta | None) -> None:
        """Tell the daemon to stop."""
        daemon = self.daemon
        if daemon is None:
            return
        self.story.tell("stop, waits {}", limit if limit is not None else "for all")
        daemon.phase = "stopping"
        self.requests.stops += 1

        def note() -> None:
            daemon.is_stopped = True

        def put(core: Core) -> None:
            daemon.stopping_since = daemon.stopping_since or self.clock.now()
            core.stop(limit, note)

        self.ask(put)

    # --- time -----------------------------------------------------------------------------

    def pass_time(self, span: timedelta, *, is_frozen: bool = False) -> None:
        """Let time pass; the daemon is woken for each of its deadlines, as it would be."""
        end_ns = self.clock.monotonic_ns() + span // timedelta(microseconds=1) * 1000
        while True:
            wakes = [end_ns, self.machine.next_end()]
            if self.daemon is not None and not is_frozen:
                wakes += [self.daemon.timers.next_deadline(), self.daemon.processes.next_word()]
            wake_ns = min(wake for wake in wakes if wake is not None)
            step_ns = wake_ns - self.clock.monotonic_ns()
            if step_ns > 0:
                self.clock.advance_ns(step_ns)
            self.machine.end_due()
            if not is_frozen:
                self.drain()
            if self.clock.monotonic_ns() >= end_ns:
                return

    def freeze(self, span: timedelta) -> None:
        """Let the daemon see nothing for a while: it is stopped, or the machine suspended."""
        self.story.tell("frozen for {}", span)
        self.is_frozen = True
        for callback in self.on_frozen:
            callback()
        self.pass_time(span, is_frozen=True)
        for callback in self.on_thawed:
            callback()
        self.is_frozen = False
        self.story.tell("thawed")
        self.awake_ns = self.clock.monotonic_ns()
        if self.sees_timers_first and self.daemon is not None:
            self._take_due(self.daemon)
            self._handle(self.daemon)
        self.drain()

    def set_clock(self, step: timedelta) -> None:
        """Set the wall clock."""
        self.clock.jump(step)
        whither = "back" if step < timedelta(0) else "on"
        self.story.tell("the clock was set {} by {}", whither, abs(step))
        at_ns, daemon = self.clock.monotonic_ns(), self.daemon
        if daemon is not None:
            daemon.inbox.append(ClockChanged())
        self.drain()
        was_seen = daemon is not None and self.daemon is daemon
        is_written = daemon is not None and daemon.core._parts.outbox.is_empty
        self.steps.append((at_ns, step, was_seen))
        for callback in self.on_step:
            callback(step, was_seen and is_written)

    def set_trouble(self, error: Exception | None) -> None:
        """Have the ledger refuse every write, or take them again."""
        text = "the ledger works again" if error is None else "the ledger fails: {}"
        self.story.tell(text, error)
        self.ledger.failing = error
        self.trouble_until_ns = self.clock.monotonic_ns()

    @property
    def is_at_rest(self) -> bool:
        """Whether a healthy daemon has dealt with all there is."""
        daemon = self.daemon
        return (
            daemon is not None
            and not daemon.is_stopping
            and self.ledger.failing is None
            and daemon.core._parts.outbox.is_empty
        )

    def tree_of(self, key: AttemptKey) -> Tree | None:
        """Return what was started for an attempt."""
        return self.machine.by_key.get(key)


@dataclass(frozen=True, slots=True)
class Definition:
    """A job in short, for the story."""

    job: Job

    def __str__(self) -> str:
        job = self.job
        plain = Job(job.name, job.trigger, job.command)
        hidden = {"name", "trigger", "command", "keep_runs", "keep_for"}
        said = [
            f"{name}={_short(getattr(job, name))}"
            for name in (each.name for each in fields(Job))
            if name not in hidden and getattr(job, name) != getattr(plain, name)
        ]
        return "; ".join([describe_trigger(job), *said])


def _short(value: object) -> str:
    match value:
        case timedelta():
            return f"{value.total_seconds():g}s"
        case Retry():
            return f"{value.attempts} attempts, {_short(value.delay)} +{_short(value.jitter)}"
        case frozenset():
            return "/".join(map(str, value))
        case _:
            return str(value)


class SimLedger:
    """The ledger as the daemon has it: it tells the story, and the daemon may die over it."""

    def __init__(self, ledger: MemoryLedger, world: World) -> None:
        self._ledger = ledger
        self._world = world

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def write(self, writes: Sequence[Write], *, durable: bool) -> list[int | None]:
        """Write, or die before or after it."""
        world = self._world
        world.maybe_crash("before a commit")
        ids = self._ledger.write(writes, durable=durable)
        self._tell(writes, ids)
        for watcher in world.watchers:
            watcher(writes, ids)
        if durable:
            for callback in world.on_durable:
                callback()
        world.maybe_crash("after a commit")
        return ids

    def submit(self, tasks: Sequence[NewTask], now: datetime) -> list[Submitted]:
        """Enter tasks, or die before or after it."""
        world = self._world
        world.maybe_crash("before a commit")
        submitted = self._ledger.submit(tasks, now)
        world.tasks.note(world, tasks, submitted)
        world.maybe_crash("after a commit")
        return submitted

    def prune(self, job: str, **bounds: Any) -> Pruned:
        """Forget old runs, or die before it."""
        self._world.maybe_crash("before a pruning")
        return self._ledger.prune(job, **bounds)

    def _tell(self, writes: Sequence[Write], ids: Sequence[int | None]) -> None:
        tell = self._world.story.tell
        remaining = iter(ids)
        for write in writes:
            match write:
                case Claim(job=job, due=due):
                    run = next(remaining)
                    what = write.outcome or write.state
                    text = "ledger: due {} ({}) {} {}" if run else "ledger: refused, due {} ({})"
                    tell(text, due, write.cause, what, write.reason, job=job, run=run)
                    if write.count > 1:
                        tell("    with it {} up to {}", write.count, write.last_due, job=job)
                case SetTask(task_id, due, ended_at):
                    text = "ledger: it has ended" if ended_at else "ledger: next due {}"
                    tell(text, due, job=f"task:{task_id}")
                    if ended_at is not None:
                        self._world.tasks.note_end(self._world, task_id, ended_at)
                case SetRun(run_id=run):
                    tell(
                        "ledger: {} {}",
                        write.outcome or write.state,
                        write.reason,
                        job=self._job(run),
                        run=run,
                    )
                case SetAttempt(run, attempt):
                    begun = "begins" if attempt.pid is None else f"is process {attempt.pid}"
                    how = attempt.outcome or attempt.stopping or begun
                    text = "ledger: attempt {} {}{} {}"
                    ending = "is being ended: " if attempt.stopping else ""
                    values = attempt.number, ending, how, attempt.reason
                    tell(text, *values, job=self._job(run), run=run)

    def _job(self, run_id: int) -> str:
        run = self._ledger.run(run_id)
        return run.job if run else "?"
