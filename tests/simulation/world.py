"""One simulated history: a daemon that is killed, restarted, reloaded and lied to about the time.

Every choice comes from one seed, so a failing history can be replayed. ``World.story`` tells what
happened in words. After every step, and across every crash, the promises are checked by
``checks`` against what the outside observer (``Machine.history``) saw.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from types import MappingProxyType

from crond_py.crontab.intervals import can_jitter
from crond_py.crontab.model import (
    AtTrigger,
    Crontab,
    CronTrigger,
    EveryTrigger,
    Job,
    Pool,
    StartupTrigger,
    Trigger,
)
from crond_py.engine.core import Core
from crond_py.engine.events import ClockChanged, TimersFired
from crond_py.engine.outbox import Outbox
from crond_py.engine.parts import Parts
from crond_py.engine.timekeeper import Timekeeper
from crond_py.engine.view import Cancelled
from crond_py.errors import LedgerError, PycronError
from crond_py.ledger.memory import MemoryLedger
from crond_py.model import Align, EveryMode, Exit, Missed, OnCrash, Overlap, Retry, Run
from crond_py.ports import AttemptKey, ProcessSpec
from tests.simulation.fakes import Behaviour, Crash, FakeProcesses, FakeTimers, Machine
from tests.support.clock import FakeClock

BEGIN = datetime(2026, 3, 28, 22, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOST = "alpha"


def spec_of(identity: str, job: Job, run: Run, attempt: int) -> ProcessSpec:
    """Return what the fake machine needs to know of a process."""
    tag = f"{identity}-{run.id}"
    env = {
        "PYCRON_RUN_ID": tag,
        "PYCRON_JOB": job.name,
        "PYCRON_DUE": run.due.isoformat(),
        "PYCRON_ERA": str(run.era),
        "PYCRON_ATTEMPT": str(attempt),
    }
    key = AttemptKey(run.id, attempt)
    return ProcessSpec(key, tag, ("job",), env, "/", 0o022, None)


@dataclass(slots=True)
class Daemon:
    """One life of the daemon."""

    core: Core
    timers: FakeTimers
    processes: FakeProcesses
    inbox: list[object]


@dataclass(slots=True)
class World:
    """A machine, a crontab, a ledger and at most one daemon."""

    seed: int
    random: Random = field(init=False)
    clock: FakeClock = field(init=False)
    machine: Machine = field(init=False)
    ledger: MemoryLedger = field(init=False)
    jobs: dict[str, Job] = field(init=False)
    daemon: Daemon | None = None
    boots: int = 1
    story: list[str] = field(default_factory=list)
    crash_in: int | None = None
    steps_back: bool = False
    may_step_clock: bool = True
    cancelled: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.clock = FakeClock(BEGIN)
        self.machine = Machine(self.random, self.clock)
        self.ledger = MemoryLedger()
        self.jobs = {}
        for number in range(self.random.randint(1, 5)):
            self._add_job(f"job{number}")

    # --- jobs -----------------------------------------------------------------------------

    def _add_job(self, name: str) -> None:
        job = self._random_job(name)
        self.jobs[name] = job
        pick = self.random.choice
        self.machine.behaviours[name] = Behaviour(
            lasts=pick(((SECOND,), (SECOND, 20 * SECOND), (7 * SECOND,), (90 * SECOND,))),
            exits=pick(((Exit(code=0),), (Exit(code=0), Exit(code=1)), (Exit(code=3),))),
            ignores_term=self.random.random() < 0.2,
            fails_to_start=pick((0.0, 0.0, 0.1)),
        )
        self.tell(
            f"{name}: {job.trigger} jitter={job.jitter} overlap={job.overlap} missed={job.missed}"
            f" retry={job.retry.attempts} timeout={job.timeout} on_crash={job.on_crash}"
        )

    def _random_job(self, name: str) -> Job:
        pick = self.random.choice
        trigger = self._random_trigger()
        jitter = pick((None, None, None, 4 * SECOND, 3600 * SECOND))
        return Job(
            name,
            trigger,
            jitter=jitter if can_jitter(trigger) else None,
            command="job",
            timezone=pick(("UTC", "Europe/Berlin", "America/New_York")),
            overlap=pick(tuple(Overlap)),
            queue_limit=pick((1, 3)),
            max_running=pick((None, 2)),
            missed=pick(tuple(Missed)),
            missed_within=pick((None, None, timedelta(seconds=40))),
            missed_limit=pick((2, 100)),
            on_crash=pick(tuple(OnCrash)),
            timeout=pick((None, None, 5 * SECOND)),
            kill_after=2 * SECOND,
            start_within=pick((None, None, 10 * SECOND)),
            retry=pick((Retry(), Retry(3, 3 * SECOND, 2.0, 10 * SECOND))),
            pool=pick(("default", "small")),
            priority=pick((0, 0, 5)),
            keep_runs=None,  # the accounts are checked at the end
            keep_for=None,
            env=MappingProxyType({}),
        )

    def _random_trigger(self) -> Trigger:
        pick = self.random.choice
        return pick(
            (
                CronTrigger((pick(("* * * * *", "*/10 * * * * *", "*/2 * * * *")),)),
                CronTrigger(("0,30 * * * * *", "*/15 * * * * *")),
                EveryTrigger(pick((5 * SECOND, 17 * SECOND))),
                EveryTrigger(pick((5 * SECOND, 17 * SECOND)), offset=pick((0, 3)) * SECOND),
                EveryTrigger(15 * SECOND, align=Align.MINUTE, offset=pick((None, 4 * SECOND))),
                EveryTrigger(pick((90, 720)) * SECOND, align=Align.HOUR),
                EveryTrigger(2 * 3600 * SECOND, align=Align.DAY, offset=pick((None, 67 * SECOND))),
                EveryTrigger(9 * SECOND, EveryMode.FIXED_DELAY),
                AtTrigger(BEGIN + pick((-30, 20, 100, 600)) * SECOND),
                StartupTrigger(per_boot=pick((True, False))),
            )
        )

    def crontab(self) -> Crontab:
        """Return the crontab as it stands."""
        pools = {"default": Pool("default"), "small": Pool("small", 2)}
        return Crontab(MappingProxyType(dict(self.jobs)), MappingProxyType(pools), (Path("c"),))

    # --- the daemon's life ----------------------------------------------------------------

    def tell(self, text: str) -> None:
        """Add a line to the story."""
        self.story.append(f"{self.clock.now():%d %H:%M:%S.%f} {text}")

    def maybe_crash(self, where: str) -> None:
        """Die here if the seed says so."""
        if self.crash_in is None:
            return
        self.crash_in -= 1
        if self.crash_in <= 0:
            self.crash_in = None
            self.tell(f"CRASH {where}")
            raise Crash(where)

    def boot_daemon(self) -> None:
        """Start a daemon on what is there."""
        inbox: list[object] = []
        timers = FakeTimers()
        processes = FakeProcesses(self.machine, inbox.append, self.maybe_crash)
        identity = self.ledger.identity
        parts = Parts(
            timekeeper=Timekeeper(self.clock),
            timers=timers,
            outbox=Outbox(CrashingLedger(self.ledger, self)),
            processes=processes,
            specify=lambda job, run, attempt: spec_of(identity, job, run, attempt),
            boot_id=f"boot{self.boots}",
            random=self.random,
            remove_outputs=lambda _outputs: None,
            host=HOST,
        )
        core = Core(parts, self.ledger)
        self.tell("daemon starts")
        self.daemon = Daemon(core, timers, processes, inbox)
        self._guard(lambda: core.begin(self.crontab()))
        self.drain()

    def _guard(self, step: object) -> None:
        try:
            step()  # type: ignore[operator]
        except Crash:
            self.kill_daemon()

    def kill_daemon(self, *, power_cut: bool = False) -> None:
        """SIGKILL; or the machine loses its power."""
        self.tell("power cut" if power_cut else "daemon killed")
        self.daemon = None
        self.crash_in = None
        self.ledger = self.ledger.crash(power_cut=power_cut)
        if power_cut:
            self.machine.reboot()
            self.boots += 1

    def drain(self) -> None:
        """Let the daemon handle all that has happened up to this instant."""
        for _ in range(1000):
            daemon = self.daemon
            if daemon is None:
                return
            daemon.processes.reap()
            now_ns = self.clock.monotonic_ns()
            due = daemon.timers.pop_due(now_ns)
            if due:
                daemon.inbox.append(TimersFired(due, now_ns))
            if not daemon.inbox:
                return
            batch = list(daemon.inbox)
            daemon.inbox.clear()
            self._guard(lambda batch=batch, daemon=daemon: daemon.core.handle(batch))
        message = "the daemon never comes to rest"
        raise AssertionError(message)

    def pass_time(self, span: timedelta) -> None:
        """Let time pass; the daemon is woken for each of its deadlines, as it would be."""
        end_ns = self.clock.monotonic_ns() + span // timedelta(microseconds=1) * 1000
        while True:
            candidates = [end_ns]
            if (end := self.machine.next_end()) is not None:
                candidates.append(end)
            if self.daemon and (deadline := self.daemon.timers.next_deadline()) is not None:
                candidates.append(deadline)
            step_ns = min(candidates) - self.clock.monotonic_ns()
            if step_ns > 0:
                self.clock.advance(timedelta(microseconds=-(-step_ns // 1000)))
            if self.daemon is None:
                self._end_orphans()
            self.drain()
            if self.clock.monotonic_ns() >= end_ns:
                return

    def _end_orphans(self) -> None:
        now_ns = self.clock.monotonic_ns()
        for process in list(self.machine.alive.values()):
            if process.ends_ns is not None and process.ends_ns <= now_ns:
                self.machine.end(process)

    # --- what may happen ------------------------------------------------------------------

    def step(self) -> None:
        """Do one random thing."""
        actions = [
            (10, self._quiet),
            (3, self._freeze),
            (4, self._kill),
            (2, self._power_cut),
            (4, self._crash_inside),
            (2, self._reload_same),
            (2, self._reload_other),
            (2, self._trigger),
            (2, self._cancel),
            (2, self._ledger_trouble),
            (1, self._down_for_long),
        ]
        if self.may_step_clock:
            actions += [(1, self._clock_forward), (1, self._clock_back)]
        weights = [weight for weight, _ in actions]
        action = self.random.choices([action for _, action in actions], weights)[0]
        action()
        if self.daemon is None and self.random.random() < 0.8:
            self.boot_daemon()
        self.drain()

    def settle(self) -> None:
        """Come to rest: a healthy ledger, a running daemon, time for all that is open to end."""
        self.ledger.failing = None
        self.crash_in = None
        if self.daemon is None:
            self.boot_daemon()
        self.pass_time(timedelta(seconds=5))

    def wind_down(self) -> None:
        """Let no job be due any more, and give everything that waits its time."""
        self.jobs = {name: replace(job, enabled=False) for name, job in self.jobs.items()}
        self._reload("reload, all jobs disabled")
        self.drain()
        self.pass_time(timedelta(hours=72))

    def _quiet(self) -> None:
        self.pass_time(self.random.choice((1, 7, 30, 95)) * SECOND)

    def _freeze(self) -> None:
        span = self.random.choice((2, 25, 200)) * SECOND
        self.tell(f"frozen for {span}")
        self.clock.advance(span)
        self.drain()

    def _kill(self) -> None:
        if self.daemon is not None:
            self.kill_daemon()
            self.pass_time(self.random.choice((0, 3, 45)) * SECOND)

    def _power_cut(self) -> None:
        self.kill_daemon(power_cut=True)
        self.pass_time(self.random.choice((1, 100)) * SECOND)

    def _crash_inside(self) -> None:
        self.crash_in = self.random.randint(1, 12)
        self.pass_time(self.random.choice((10, 60)) * SECOND)

    def _down_for_long(self) -> None:
        if self.daemon is not None:
            self.kill_daemon()
        self.pass_time(timedelta(hours=self.random.choice((1, 9))))

    def _reload_same(self) -> None:
        self._reload("reload, nothing changed")

    def _reload(self, text: str) -> None:
        if self.daemon is not None:
            self.tell(text)
            core, crontab = self.daemon.core, self.crontab()
            self._guard(lambda: (core.reload(crontab), core.handle([])))

    def _reload_other(self) -> None:
        if self.daemon is None:
            return
        name = self.random.choice(sorted(self.jobs))
        change = self.random.choice(("policy", "disable", "enable"))
        job = self.jobs[name]
        if change == "policy":
            job = replace(job, missed=self.random.choice(tuple(Missed)), timeout=None)
        else:
            job = replace(job, enabled=change == "enable")
        self.jobs[name] = job
        self._reload(f"reload, {name}: {change}")

    def _trigger(self) -> None:
        if self.daemon is None:
            return
        name = self.random.choice(sorted(self.jobs))
        core = self.daemon.core
        try:
            self.tell(f"trigger {name}")
            self._guard(
                lambda: (
                    core.trigger(name, is_forced=False, then=lambda _: None),
                    core.handle([]),
                )
            )
        except PycronError as error:
            self.tell(f"refused: {error}")

    def _cancel(self) -> None:
        if self.daemon is None:
            return
        name = self.random.choice(sorted(self.jobs))
        core = self.daemon.core
        self.tell(f"cancel {name}")
        now_ns = self.clock.monotonic_ns()
        cancelled: list[Cancelled] = []
        self._guard(lambda: cancelled.extend(core.cancel_job(name)))
        if self.daemon is not None and self.ledger.failing is None:
            # Else nobody was told that it is cancelled.
            self.cancelled |= {each.run_id: now_ns for each in cancelled if each.run_id}
        self._guard(lambda: core.handle([]))

    def _ledger_trouble(self) -> None:
        self.tell("the ledger fails for a while")
        self.ledger.failing = LedgerError("disk full")
        self.pass_time(self.random.choice((1, 12)) * SECOND)
        self.ledger.failing = None
        self.tell("the ledger works again")

    def _clock_forward(self) -> None:
        step = self.random.choice((1, 40, 3600, 86400 * 3650)) * SECOND
        self.tell(f"clock set forward by {step}")
        self._jump(step)

    def _jump(self, step: timedelta) -> None:
        self.clock.jump(step)
        if self.daemon is not None:
            self.daemon.inbox.append(ClockChanged())
        self.drain()

    def _clock_back(self) -> None:
        step = self.random.choice((1, 40, 3600, 8 * 3600)) * SECOND
        self.tell(f"clock set back by {step}")
        self.steps_back = True
        self._jump(-step)


class CrashingLedger:
    """The ledger with a chance to die just before or after a commit."""

    def __init__(self, ledger: MemoryLedger, world: World) -> None:
        self._ledger = ledger
        self._world = world

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)

    def write(self, writes: object, *, durable: bool) -> object:
        """Write, or die before or after it."""
        self._world.maybe_crash("before a commit")
        ids = self._ledger.write(writes, durable=durable)  # type: ignore[arg-type]
        self._world.maybe_crash("after a commit")
        return ids
