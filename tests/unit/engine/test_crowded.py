"""Where runs wait for a slot, what follows from the ends of others is written together."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from crond_py.crontab.model import AfterTrigger, Crontab, CronTrigger, Group, Job, Pool
from crond_py.engine.core import Core
from crond_py.engine.events import Call, ClockChanged, TimersFired
from crond_py.engine.gathering import LONGEST_NS
from crond_py.engine.thread import Engine
from crond_py.ledger.memory import MemoryLedger
from crond_py.model import Condition, Exit
from crond_py.ports import AttemptKey, Ended, Started
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, is_alive, reload, rows

JOB = Job("a", CronTrigger(("* * * * *",)), "true", timezone="UTC", pool="few")
TOOK_NS = 3_000_000


@pytest.fixture
def slow_disk(monkeypatch: pytest.MonkeyPatch) -> list[World]:
    """Have each durable write take 3 ms by the clocks of the worlds that are put in."""
    worlds: list[World] = []
    write = MemoryLedger.write

    def slowly(ledger: MemoryLedger, *writes: object, durable: bool) -> list[int | None]:
        for world in worlds if durable else ():
            world.clock.advance_ns(TOOK_NS)
        return write(ledger, *writes, durable=durable)

    monkeypatch.setattr(MemoryLedger, "write", slowly)
    return worlds


def crowd(machine_with: MachineWith, names: str, *others: Job) -> World:
    """Return a machine on which jobs are due that share two slots; it is just their instant."""
    jobs = [*(replace(JOB, name=name) for name in names), *others]
    world = machine_with(*jobs, lasts=30 * SECOND)
    reload(world, *jobs, pools=(Pool("default"), Pool("few", 2)))
    now = world.clock.now()
    world.pass_time(now.replace(second=0, microsecond=0) + timedelta(minutes=1) - now)
    return world


def end_of(world: World, name: str) -> Ended:
    """Return word of the end of a job's process, which lives."""
    assert is_alive(world, name)
    return Ended(AttemptKey(rows(world, name)[-1].id, 1), Exit(code=0), world.clock.now())


def core_of(world: World) -> Core:
    """Return the engine."""
    assert world.daemon is not None
    return world.daemon.core


def gathers(world: World, *events: object, since_ns: int = 0) -> float:
    """Return for how long others are to join events that came a while ago, in seconds."""
    gathering = core_of(world).gathering
    gathering.open()
    world.clock.advance_ns(since_ns)
    return [gathering.patience_s(event) for event in events][-1]


def alive(world: World, names: str) -> list[Ended]:
    """Return word of the ends of all the processes that live."""
    return [end_of(world, name) for name in names if is_alive(world, name)]


def test_ends_are_gathered_for_as_long_as_the_last_took(
    machine_with: MachineWith, slow_disk: list[World]
) -> None:
    """P4: and no longer than that, nor where no other can come or something else is to be done."""
    assert LONGEST_NS > TOOK_NS
    world = crowd(machine_with, "abcde")
    slow_disk.append(world)
    world.pass_time(30 * SECOND)
    end, other = alive(world, "abcde")
    took_s = pytest.approx(TOOK_NS / 1e9)
    assert gathers(world, end) == took_s
    assert gathers(world, end, since_ns=TOOK_NS) == 0
    assert gathers(world, end, other) == 0
    assert gathers(world, end, ClockChanged()) == 0
    started = Started(end.key, 7, None, world.clock.now())
    assert gathers(world, started) == 0
    assert gathers(world, started, end) == took_s


@pytest.mark.parametrize(
    "urgent",
    [TimersFired([], 0), Call(lambda: None), ClockChanged()],
    ids=lambda event: type(event).__name__,
)
def test_what_does_not_wait_is_not_held_up_by_an_end_behind_it(
    machine_with: MachineWith, slow_disk: list[World], urgent: object
) -> None:
    """P4: the whole batch is dealt with at once, whatever else comes to it."""
    world = crowd(machine_with, "abcde")
    slow_disk.append(world)
    world.pass_time(30 * SECOND)
    end, _ = alive(world, "abcde")
    assert gathers(world, urgent, end) == 0


def test_ends_are_gathered_for_no_longer_than_a_moment(
    machine_with: MachineWith, slow_disk: list[World]
) -> None:
    """P4: however slow the disk is."""
    world = crowd(machine_with, "abcde")
    slow_disk += [world] * 10
    world.pass_time(30 * SECOND)
    end, _ = alive(world, "abcde")
    assert gathers(world, end) == pytest.approx(LONGEST_NS / 1e9)


def test_an_end_that_nobody_waits_for_is_not_gathered(
    machine_with: MachineWith, slow_disk: list[World]
) -> None:
    """P4: once there is a slot for each the engine deals with an end at once."""
    world = crowd(machine_with, "abcd")
    slow_disk.append(world)
    world.pass_time(30 * SECOND)
    assert len(alive(world, "abcd")) == 2
    assert gathers(world, alive(world, "abcd")[0]) == 0


def test_nor_is_one_of_a_pool_that_has_slots(
    machine_with: MachineWith, slow_disk: list[World]
) -> None:
    """P4: what follows from it does not wait for what is to be done in another pool."""
    every = CronTrigger(("15 * * * * *",))
    others = [replace(JOB, name=name, trigger=every, pool="default") for name in "yz"]
    world = crowd(machine_with, "abcde", *others)
    slow_disk.append(world)
    world.pass_time(30 * SECOND)
    free, crowded = end_of(world, "z"), alive(world, "abcde")[0]
    assert gathers(world, free) == 0
    assert gathers(world, free, crowded) == 0, "nor does it wait for those that come after it"
    assert gathers(world, crowded) > 0


@pytest.mark.parametrize("why", ["followed", "bound"])
def test_nor_is_one_that_another_pool_may_wait_for(
    machine_with: MachineWith, slow_disk: list[World], why: str
) -> None:
    """P4: a job that follows, or one of a group that may not run all at once, is due then."""
    after = replace(JOB, name="z", trigger=AfterTrigger({"c": Condition.ANY}), pool="default")
    jobs = [replace(JOB, name=name, group="g" if why == "bound" else None) for name in "abcde"]
    world = machine_with(*jobs, lasts=30 * SECOND)
    groups = {"g": Group("g", max_running=2)}
    pools = {"default": Pool("default"), "few": Pool("few", 2)}
    core = core_of(world)
    world.jobs = {job.name: job for job in [*jobs, after]}
    crontab = Crontab(world.jobs, pools, groups=groups)
    core.handle([Call(lambda: core.reload(crontab))])
    now = world.clock.now()
    world.pass_time(now.replace(second=0, microsecond=0) + timedelta(minutes=1) - now)
    slow_disk.append(world)
    world.pass_time(30 * SECOND)
    for end in alive(world, "abcde"):
        is_free = why == "followed" and end.key.run_id != rows(world, "c")[-1].id
        assert (gathers(world, end) > 0) == is_free


def test_a_stop_waits_for_no_other_end(machine_with: MachineWith, slow_disk: list[World]) -> None:
    """P4: nothing is started any more that could be started together."""
    world = crowd(machine_with, "abcde")
    slow_disk.append(world)
    world.pass_time(30 * SECOND)
    end, _ = alive(world, "abcde")
    assert gathers(world, end) > 0
    core = core_of(world)
    core.handle([Call(lambda: core.stop(None, lambda: None))])
    assert gathers(world, end) == 0


class Patient:
    """Wants two events together."""

    def __init__(self) -> None:
        self._come = 0

    def open(self) -> None:
        """Begin anew."""
        self._come = 0

    def patience_s(self, event: object) -> float:
        """Wait for a second one, for as long as a test may take."""
        del event
        self._come += 1
        return 60.0 if self._come == 1 else 0.0


def started_on(run_id: int) -> Started:
    """Return word of a process."""
    return Started(AttemptKey(run_id, 1), 7, None, datetime(2026, 1, 1, tzinfo=UTC))


def test_the_thread_waits_for_what_is_to_come_together() -> None:
    """One batch takes what comes while it is being gathered."""
    engine = Engine()
    wanted: list[object] = [started_on(1), started_on(2), started_on(3)]
    for event in wanted[:1]:
        engine.process_event(event)
    threading.Timer(0.05, lambda: [engine.process_event(event) for event in wanted[1:]]).start()
    batch = engine._next_batch(Patient())  # type: ignore[arg-type]
    assert batch[:2] == wanted[:2]


class Faulty:
    """Cannot say how long to wait."""

    def open(self) -> None:
        """Begin, which goes well."""

    def patience_s(self, event: object) -> float:
        """Fail."""
        raise ZeroDivisionError(event)


def test_the_thread_outlives_a_fault_of_the_gathering(caplog: pytest.LogCaptureFixture) -> None:
    """P8: what has come is dealt with at once."""
    engine = Engine()
    engine.process_event(started_on(1))
    assert engine._next_batch(Faulty()) == [started_on(1)]  # type: ignore[arg-type]
    assert "events are not gathered" in caplog.text
