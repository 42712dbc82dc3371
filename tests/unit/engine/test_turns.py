"""What comes together has its turn by priority, then by due, then as it stands in the crontab."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from crond_py.crontab.model import (
    AfterTrigger,
    CronTrigger,
    EveryTrigger,
    Group,
    Job,
    StartupTrigger,
)
from crond_py.model import Condition, Missed, OnCrash, Overlap
from tests.simulation.world import GROUPS, World
from tests.unit.engine.conftest import SECOND, MachineWith, outcomes, rows

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
HOURLY = CronTrigger(("0 * * * *",))
LOW = Job("low", HOURLY, "true", timezone="UTC", pool="tiny")
HIGH = replace(LOW, name="high", priority=5)


def first(world: World) -> str:
    """Return the job whose process was started first of all."""
    return world.machine.trees[0].job


def order(world: World) -> list[str]:
    """Return the jobs in the order in which their processes were started."""
    return [tree.job for tree in world.machine.trees]


@pytest.mark.parametrize("how", ["down", "set forward", "frozen"])
def test_what_is_made_up(machine_with: MachineWith, how: str) -> None:
    """P4: the slot is for the job of higher priority, wherever it stands in the crontab."""
    world = machine_with(LOW, HIGH)
    match how:
        case "down":
            world.kill_daemon()
            world.pass_time(HOUR)
            world.boot_daemon()
        case "set forward":
            world.set_clock(HOUR + MINUTE)
        case _:
            world.freeze(HOUR)
    world.pass_time(10 * SECOND)
    assert order(world) == ["high", "low"]


def test_what_is_made_up_of_one_priority(machine_with: MachineWith) -> None:
    """P4: the older occurrence goes first; of one instant, the job that is named first."""
    night = replace(LOW, name="night", trigger=CronTrigger(("30 0 * * *",)))
    twin = replace(night, name="twin")
    world = machine_with(LOW, night, twin)
    world.kill_daemon()
    world.pass_time(timedelta(days=1))
    world.boot_daemon()
    world.pass_time(10 * SECOND)
    assert order(world) == ["night", "twin", "low"]


def test_all_that_is_made_up_of_a_job(machine_with: MachineWith) -> None:
    """P4: a job that has much to make up has its turn with the oldest of that."""
    much = replace(LOW, name="much", missed=Missed.ALL)
    world = machine_with(LOW, much)
    world.kill_daemon()
    world.pass_time(3 * HOUR)
    world.boot_daemon()
    world.pass_time(10 * SECOND)
    assert sorted(order(world)) == ["low", "much", "much", "much"]
    assert first(world) == "much"


def test_intervals_that_begin(machine_with: MachineWith) -> None:
    """P4: the same for what is due as soon as it is seen, also beside what is made up."""
    world = machine_with(HIGH)
    world.kill_daemon()
    world.pass_time(HOUR)
    trigger = EveryTrigger(HOUR, offset=timedelta(0))
    for name, priority in (("low", 0), ("higher", 9)):
        world.set_job(replace(LOW, name=name, priority=priority, trigger=trigger))
        world.machine.behaviours[name] = world.machine.behaviours["high"]
    world.boot_daemon()
    world.pass_time(10 * SECOND)
    assert order(world) == ["higher", "high", "low"]


def test_starts_of_the_daemon(machine_with: MachineWith) -> None:
    """P4: the same for jobs that are due then."""
    trigger = StartupTrigger()
    world = machine_with(replace(LOW, trigger=trigger), replace(HIGH, trigger=trigger))
    world.pass_time(10 * SECOND)
    assert order(world) == ["high", "low"]


@pytest.mark.parametrize("on_crash", OnCrash)
def test_what_an_earlier_daemon_has_left(machine_with: MachineWith, on_crash: OnCrash) -> None:
    """P4: what waited, or is run again, has its turn by priority, whatever was claimed first."""
    low = replace(LOW, pool="small", on_crash=on_crash)
    high = replace(low, name="high", priority=5, trigger=CronTrigger(("1 * * * *",)))
    holders = [replace(low, name=name, priority=9) for name in ("one", "two")]
    is_again = on_crash is OnCrash.RERUN
    world = machine_with(low, high, *([] if is_again else holders), lasts=10 * MINUTE)
    world.pass_time(HOUR + 2 * MINUTE)
    state = "running" if is_again else "queued"
    assert [outcomes(world, job)[-1] for job in ("low", "high")] == [state, state]
    world.kill_daemon(power_cut=True)
    world.pools["small"] = 1
    world.boot_daemon()
    world.pass_time(30 * MINUTE)
    assert order(world)[-2:] == ["high", "low"]


def test_what_follows_one_outcome(machine_with: MachineWith) -> None:
    """P4: of two jobs that wait for a third, the one of higher priority has the slot."""
    trigger = AfterTrigger({"head": Condition.SUCCESS})
    head = replace(LOW, name="head")
    world = machine_with(head, replace(LOW, trigger=trigger), replace(HIGH, trigger=trigger))
    world.pass_time(HOUR + 10 * SECOND)
    assert order(world)[:3] == ["head", "high", "low"]


@pytest.mark.parametrize("flooded", ["small", "tiny"])
def test_group_that_may_have_one_slot_has_it_in_each_of_its_pools(
    machine_with: MachineWith, flooded: str
) -> None:
    """P4: a bound of a group in all pools keeps none of them out, whichever comes first."""
    often = EveryTrigger(SECOND)
    other = "tiny" if flooded == "small" else "small"
    flood = Job("flood", often, "true", overlap=Overlap.QUEUE, group="one", pool=flooded)
    jobs = [replace(flood, name=f"flood{number}", queue_limit=50) for number in range(3)]
    lone = Job("lone", EveryTrigger(10 * SECOND), "true", group="one", pool=other)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(GROUPS, "one", Group("one", max_running=1))
        world = machine_with(*jobs, lone, lasts=SECOND)
        world.pass_time(55 * SECOND)
        assert outcomes(world, "lone") == ["succeeded"] * 5


def test_reason_of_a_skip_says_whose_slot_is_waited_for(machine_with: MachineWith) -> None:
    """P1: a run that its group's bound keeps back does not wait for its pool, which is empty."""
    often = EveryTrigger(10 * SECOND)
    first, second = (Job(name, often, "true", group="one", pool=name) for name in ("small", "tiny"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(GROUPS, "one", Group("one", max_running=1))
        world = machine_with(first, second, lasts=MINUTE)
        world.pass_time(MINUTE / 2)
    skipped = [run.reason for run in rows(world, "tiny") if run.reason]
    assert skipped
    assert all("waits for a slot of its group since" in reason for reason in skipped)
