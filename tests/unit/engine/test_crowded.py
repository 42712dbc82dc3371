"""Where runs wait for a slot, what follows from the ends of others is written together."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from crond_py.crontab.model import CronTrigger, Job, Pool
from crond_py.engine.core import LONGEST_GATHERING_NS, WRITE_BEHIND, Core
from crond_py.engine.events import ClockChanged
from crond_py.ledger.memory import MemoryLedger
from crond_py.model import Exit
from crond_py.ports import AttemptKey, Ended
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


def test_ends_are_gathered_for_as_long_as_the_last_took(
    machine_with: MachineWith, slow_disk: list[World]
) -> None:
    """P4: and no longer than that, nor where no other can come or something else is to be done."""
    assert LONGEST_GATHERING_NS > TOOK_NS
    world = crowd(machine_with, "abcde")
    slow_disk.append(world)
    world.pass_time(30 * SECOND)
    ends = [end_of(world, name) for name in "abcde" if is_alive(world, name)]
    end = ends[0]
    core, now_ns = core_of(world), world.clock.monotonic_ns()
    assert core.gathers_for([end], now_ns) == pytest.approx(TOOK_NS / 1e9)
    assert core.gathers_for([end], now_ns - TOOK_NS) == 0
    assert core.gathers_for(ends, now_ns) == 0
    assert core.gathers_for([end, ClockChanged()], now_ns) == 0


def test_an_end_that_nobody_waits_for_is_not_gathered(
    machine_with: MachineWith, slow_disk: list[World]
) -> None:
    """P4: with a slot for each the engine deals with an end at once."""
    world = crowd(machine_with, "ab")
    slow_disk.append(world)
    for name in "ab":
        end = end_of(world, name)
        assert core_of(world).gathers_for([end], world.clock.monotonic_ns()) == 0


def test_nor_is_one_of_a_pool_that_has_slots(
    machine_with: MachineWith, slow_disk: list[World]
) -> None:
    """P4: what follows from it does not wait for what is to be done in another pool."""
    other = replace(JOB, name="z", trigger=CronTrigger(("15 * * * * *",)), pool="default")
    world = crowd(machine_with, "abcde", other)
    slow_disk.append(world)
    world.pass_time(30 * SECOND)
    now_ns = world.clock.monotonic_ns()
    assert core_of(world).gathers_for([end_of(world, "z")], now_ns) == 0


@pytest.mark.parametrize(("names", "is_put_off"), [("abcd", False), ("abcde", True)])
def test_a_process_is_written_behind_where_others_wait(
    machine_with: MachineWith, names: str, *, is_put_off: bool
) -> None:
    """The ledger knows it with the next thing that it is told, and in a moment in any case."""
    world = crowd(machine_with, names)
    world.pass_time(30 * SECOND)
    started = [name for name in names if is_alive(world, name)]
    assert len(started) == 2
    known = [rows(world, name)[-1].attempts[-1].pid is not None for name in started]
    assert known == [not is_put_off] * 2
    world.pass_time(WRITE_BEHIND)
    assert all(rows(world, name)[-1].attempts[-1].pid is not None for name in started)
