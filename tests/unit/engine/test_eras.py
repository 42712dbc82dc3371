"""Chains where the clock is set back by hours: the same due instants come again, in a new era.

Each time they are cycles of their own, and every cycle has one account in each job.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from crond_py.crontab.model import AfterTrigger, CronTrigger, Job
from crond_py.engine.eras import Eras
from crond_py.engine.records import JobState
from crond_py.model import Condition, Cursor, Missed, Overlap
from tests.simulation.fakes import Behaviour
from tests.simulation.jobs import BEGIN
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, outcomes, reload, rows
from tests.unit.engine.test_chains import (
    BAD,
    DIAMOND,
    HEAD,
    HOUR,
    MINUTE,
    OK,
    TWO,
    after,
    behave,
    to_the_hour,
)


def cycles(world: World, name: str) -> list[tuple[int, str, int]]:
    """Return the era of each row of a job, when that is due and how many it stands for."""
    return [(run.era, run.due.isoformat(), run.count) for run in rows(world, name)]


def set_back_twice_as_long_ago(world: World) -> None:
    """Let the same hour come again, four hours later."""
    world.set_clock(-4 * HOUR)
    world.pass_time(3 * HOUR + 30 * MINUTE)


# --- stretches that were skipped ------------------------------------------------------------------


@pytest.mark.parametrize("shape", ["one head", "two heads"])
def test_a_stretch_is_over_in_its_own_era_alone(machine_with: MachineWith, shape: str) -> None:
    """P1: what was missed before the clock was set back is due again, and followed."""
    head = replace(HEAD, missed=Missed.SKIP)
    jobs = (
        (head, *DIAMOND[1:]) if shape == "one head" else (head, replace(head, name="other"), TWO[2])
    )
    world = machine_with(*jobs)
    to_the_hour(world, MINUTE)
    world.kill_daemon()
    world.pass_time(5 * HOUR)
    world.boot_daemon()
    world.pass_time(MINUTE)
    world.set_clock(-4 * HOUR)
    world.pass_time(6 * HOUR)
    assert cycles(world, "end") == cycles(world, "head")
    assert outcomes(world, "end") == ["succeeded", "skipped", *["succeeded"] * 6]


def test_a_clock_that_was_a_day_ahead_at_the_boot(machine_with: MachineWith) -> None:
    """P1: it was set right once the network was there, and each cycle of that day is followed."""
    world = machine_with(*DIAMOND)
    to_the_hour(world, MINUTE)
    world.kill_daemon()
    world.pass_time(MINUTE)
    world.set_clock(24 * HOUR)
    world.boot_daemon()
    world.pass_time(MINUTE)
    world.set_clock(-24 * HOUR)
    world.pass_time(20 * HOUR)
    assert cycles(world, "end") == cycles(world, "head")
    assert set(outcomes(world, "end")[2:]) == {"succeeded"}


@pytest.mark.parametrize("heads", [1, 2])
def test_a_stretch_of_a_new_era_skips_no_open_cycle_of_the_old_one(
    machine_with: MachineWith, heads: int
) -> None:
    """P1: what goes on since before the clock was set back is followed when it ends."""
    head = replace(HEAD, missed=Missed.SKIP)
    other = replace(head, name="other")
    jobs = (head, after("right", "head"), after("end", "head", "right"))
    if heads > 1:
        jobs = (head, other, after("right", "other"), after("end", "head", "right"))
    world = machine_with(*jobs)
    behave(world, right=Behaviour(lasts=(12 * HOUR,)))
    to_the_hour(world, MINUTE)
    world.set_clock(-4 * HOUR)
    behave(world, right=Behaviour())
    world.freeze(5 * HOUR)
    world.pass_time(8 * HOUR)
    ended = {(run.era, run.due.hour): str(run.outcome) for run in rows(world, "end")}
    assert ended[0, 23] == "succeeded"
    missed = [run.count for run in rows(world, "end") if run.era == 1 and run.count > 1]
    assert missed == [5]


# --- several heads --------------------------------------------------------------------------------


def late_head(world: World, *others: Job) -> None:
    """Have a head join another one that has counted an era more."""
    world.pass_time(12 * HOUR + MINUTE)
    world.set_clock(-4 * HOUR)
    reload(world, *others)


@pytest.mark.parametrize("was_there", [False, True])
@pytest.mark.parametrize("slow", ["head", "other"])
@pytest.mark.parametrize("restarts", [False, True])
def test_an_instant_of_two_heads_comes_again(
    machine_with: MachineWith, slow: str, *, was_there: bool, restarts: bool
) -> None:
    """P1: it is a cycle of its own, also where a restart falls in the middle of it.

    So it is where one of the heads was added later and has counted fewer eras.
    """
    world = machine_with(*(TWO if was_there else TWO[:1]))
    world.machine.tells_exits = True
    if not was_there:
        late_head(world, *TWO)
    to_the_hour(world, MINUTE)
    set_back_twice_as_long_ago(world)
    behave(world, **{slow: Behaviour(lasts=(20 * MINUTE,))})
    to_the_hour(world, MINUTE)
    if restarts:
        world.kill_daemon()
        world.pass_time(SECOND)
        world.boot_daemon()
    world.pass_time(25 * MINUTE)
    dues = [run.due for run in rows(world, "other")]
    again = [run for run in rows(world, "end") if run.due == max(dues)]
    assert dues.count(max(dues)) == 2  # else this test shows nothing
    assert [str(run.outcome) for run in again] == ["succeeded", "succeeded"]
    assert [run.due for run in rows(world, "end")] == dues


@pytest.mark.parametrize("was_there", [False, True])
def test_an_instant_that_comes_again_while_its_cycle_goes_on(
    machine_with: MachineWith, *, was_there: bool
) -> None:
    """P1: what ends of the one counts in that alone; of the new cycle a head was skipped."""
    world = machine_with(*(TWO if was_there else TWO[:1]))
    if not was_there:
        late_head(world, *TWO)
    behave(world, head=Behaviour(exits=(BAD,)), other=Behaviour(lasts=(6 * HOUR,)))
    to_the_hour(world, MINUTE)
    due = rows(world, "other")[0].due
    set_back_twice_as_long_ago(world)
    behave(world, head=Behaviour(exits=(OK,)))
    world.pass_time(4 * HOUR)
    reasons = [run.reason for run in rows(world, "end") if run.due == due]
    assert reasons == ["upstream_failed: head has failed", "upstream_failed: other was skipped"]


# --- which era ------------------------------------------------------------------------------------


def counted(name: str, era: int, *, enabled: bool = True) -> JobState:
    """Return a head that has counted so many eras."""
    job = Job(name, CronTrigger(("0 * * * *",)), "true", enabled=enabled)
    return JobState(job, Cursor(name, "mark", era, BEGIN, BEGIN))


def follows(*upstreams: str) -> AfterTrigger:
    """Return what a job waits for."""
    return AfterTrigger(dict.fromkeys(upstreams, Condition.SUCCESS))


def test_jobs_of_one_head_have_its_era() -> None:
    """Whatever it is by now, as the cycle may be of an older one."""
    states = {"a": counted("a", 7)}
    eras = Eras({"b": follows("a"), "c": follows("a"), "d": follows("b", "c")}, states)
    assert (eras.head("d"), eras.of("d", "b", 3), eras.of("a", "d", 3)) == ("a", 3, 3)


def test_heads_that_have_counted_differently() -> None:
    """What follows both has the higher era, in each cycle, whichever head is told of."""
    states = {"a": counted("a", 7), "b": counted("b", 2)}
    eras = Eras({"c": follows("a", "b"), "d": follows("b"), "e": follows("c", "d")}, states)
    assert eras.head("e") is None
    assert [eras.of("c", "a", 6), eras.of("c", "b", 1)] == [6, 6]
    assert [eras.of("e", "c", 6), eras.of("e", "d", 1)] == [6, 6]
    assert [eras.of("a", "e", 6), eras.of("b", "e", 6), eras.of("d", "e", 6)] == [6, 1, 1]


def test_heads_that_count_on() -> None:
    """The difference stays, and is looked at again where it may have changed."""
    states = {"a": counted("a", 7), "b": counted("b", 2)}
    eras = Eras({"c": follows("a", "b")}, states)
    assert eras.newest("c") == 7
    for name, era in (("a", 8), ("b", 3)):
        states[name] = counted(name, era)
    eras.changed()
    assert eras.newest("c") == 8
    assert [eras.of("c", "a", 8), eras.of("c", "b", 3), eras.of("c", "b", 2)] == [8, 8, 7]


def test_a_head_that_does_not_count_on() -> None:
    """A disabled one says nothing of the era, unless there is no other."""
    states = {"a": counted("a", 7, enabled=False), "b": counted("b", 2)}
    eras = Eras({"c": follows("a", "b"), "d": follows("a")}, states)
    assert (eras.newest("c"), eras.newest("d")) == (2, 7)


def test_a_follower_of_several_heads_may_overlap(machine_with: MachineWith) -> None:
    """P1: each cycle of an hour that comes again has its row, be it run or skipped."""
    world = machine_with(*TWO[:2], replace(TWO[2], overlap=Overlap.SKIP))
    behave(world, end=Behaviour(lasts=(5 * HOUR,)))
    to_the_hour(world, MINUTE)
    set_back_twice_as_long_ago(world)
    to_the_hour(world, MINUTE)
    assert cycles(world, "end") == cycles(world, "head")
