"""How long before its instant an occurrence is claimed: by how many are due with it."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

import pytest

from crond_py.crontab.model import CronTrigger, Job, Pool
from crond_py.engine.ahead import AHEAD, FARTHEST_AHEAD, LEADS, lead_of_next_look
from crond_py.engine.events import OccurrenceDue
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, outcomes, reload, rows

MINUTE = timedelta(minutes=1)
SOME = timedelta(milliseconds=250)


def minutely(number: int, name: str = "a") -> list[Job]:
    """Return so many jobs that are due together each minute."""
    trigger = CronTrigger(("* * * * *",))
    return [Job(f"{name}{n}", trigger, "true", timezone="UTC") for n in range(number)]


def leads(world: World) -> Counter[timedelta]:
    """Return how long before its instant each occurrence that is waited for is to be claimed."""
    assert world.daemon is not None
    now, now_ns = world.clock.now(), world.clock.monotonic_ns()
    found: Counter[timedelta] = Counter()
    for deadline_ns, *_, entry in world.daemon.timers.timeline._heap:
        if isinstance(entry.item, OccurrenceDue):
            looked_at = now + timedelta(microseconds=(deadline_ns - now_ns) // 1000)
            found[entry.item.due - looked_at] += 1
    return found


@pytest.mark.parametrize(
    ("number", "lead"), [(1, AHEAD), (23, AHEAD), (24, SOME), (256, FARTHEST_AHEAD)]
)
def test_all_of_an_instant_are_claimed_together(
    number: int, lead: timedelta, machine_with: MachineWith
) -> None:
    """P4: the first of many no later than the others, at a start as well as from then on."""
    world = machine_with(*minutely(number))
    assert leads(world) == {lead: number}
    world.pass_time(MINUTE)
    assert leads(world) == {lead: number}
    assert {len(rows(world, f"a{n}")) for n in range(number)} == {1}


def test_few_are_claimed_with_the_many_that_join_them(machine_with: MachineWith) -> None:
    """P4: also where they have waited for that instant before."""
    few = minutely(3)
    world = machine_with(*few)
    reload(world, *few, *minutely(30, "b"))
    assert leads(world) == {SOME: 33}


def test_who_may_have_to_wait_for_a_slot_takes_none_long_before(machine_with: MachineWith) -> None:
    """P4: a slot is not held for a quarter of a second by what has not begun."""
    jobs = minutely(30)
    world = machine_with(*jobs)
    reload(world, *jobs, pools=(Pool("default", 100),))
    world.pass_time(MINUTE)
    assert leads(world) == {AHEAD: 30}


def test_what_is_not_free_is_looked_at_again_before_its_instant(machine_with: MachineWith) -> None:
    """P4: a run that ends a moment before the next of its job is due makes none of them late."""
    world = machine_with(*minutely(300), lasts=MINUTE - SECOND / 2)
    world.pass_time(2 * MINUTE + SECOND)
    first, second, *_ = rows(world, "a7")
    assert first.due - first.claimed_at == FARTHEST_AHEAD
    assert second.due - second.claimed_at == SOME
    assert outcomes(world, "a7") == ["succeeded", "running"]


def test_the_last_look_is_at_the_instant() -> None:
    """Each look is nearer to it, however early a timer fires."""
    looks, remaining = [], FARTHEST_AHEAD
    while remaining:
        remaining = lead_of_next_look(remaining)
        looks.append(remaining)
    assert looks == [lead for _, lead in LEADS[1:]] + [timedelta(0)]
    assert lead_of_next_look(SOME + timedelta(milliseconds=1)) == AHEAD
