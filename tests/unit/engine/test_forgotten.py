"""What a ledger has forgotten is taken for begun: adopted where it lives, lost where it does not.

Each test lets a machine run, takes the ledger back to what it was at an earlier time, and starts
a daemon on that, as if SQLite's log had been lost in between.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from crond_py.crontab.model import (
    AfterTrigger,
    AtTrigger,
    CronTrigger,
    EveryTrigger,
    Job,
    StartupTrigger,
)
from crond_py.ledger.memory import MemoryLedger
from crond_py.model import Cause, Condition, Exit, Missed, OnCrash, Overlap, Retry
from crond_py.ports import Gap
from tests.simulation.jobs import BEGIN
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, is_alive, outcomes, rows

MINUTE = 60 * SECOND
MINUTELY = CronTrigger(("* * * * *",))
JOB = Job("a", MINUTELY, "true", timezone="UTC", missed=Missed.ALL, missed_limit=100)


def remembered(world: World) -> MemoryLedger:
    """Return what the ledger has in it now."""
    return copy.deepcopy(world.ledger)


def restart_on(world: World, ledger: MemoryLedger, *, away: timedelta = SECOND) -> None:
    """Kill the daemon and start another on an older state of its ledger."""
    gap = Gap(world.clock.now(), world.ledger.last_id, f"boot{world.boots}")
    world.kill_daemon()
    world.ledger = ledger
    ledger._gap = gap
    world.pass_time(away)
    world.boot_daemon()


def starts(world: World, job: str = "a") -> list[datetime]:
    """Return the due instants for which a job's processes were started, in that order."""
    return [tree.spec.due for tree in world.machine.trees if tree.job == job and tree.spec.due]


def dues(world: World, job: str = "a") -> list[tuple[str, datetime, int]]:
    """Return what the ledger says of a job: outcomes, the first instant of each, how many."""
    return [(str(run.outcome or run.state), run.due, run.count) for run in rows(world, job)]


def test_what_ran_is_lost_and_not_run_again(machine_with: MachineWith) -> None:
    """P1, P2: occurrences whose rows are gone are entered as lost; later ones are missed ones."""
    world = machine_with(JOB)
    before = remembered(world)
    world.pass_time(3 * MINUTE)
    ran = starts(world)
    assert len(ran) == 3
    restart_on(world, before, away=2 * MINUTE)
    world.pass_time(30 * SECOND)
    assert starts(world) == [*ran, ran[-1] + MINUTE, ran[-1] + 2 * MINUTE]
    assert dues(world)[0] == ("lost", ran[0], 3)
    assert "has lost its newest records" in rows(world)[0].reason
    assert outcomes(world)[1:] == ["succeeded", "succeeded"]


def test_what_still_runs_is_taken_up_again(machine_with: MachineWith) -> None:
    """P5: a process of a run that the ledger has forgotten holds its job, under its own id."""
    world = machine_with(replace(JOB, overlap=Overlap.SKIP), lasts=150 * SECOND)
    before = remembered(world)
    world.pass_time(MINUTE)
    (run,) = rows(world)
    restart_on(world, before)
    assert is_alive(world) == 1
    assert [(each.id, each.due, str(each.state)) for each in rows(world)] == [
        (run.id, run.due, "running")
    ]
    world.pass_time(200 * SECOND)
    assert starts(world) == [run.due, run.due + 3 * MINUTE]
    assert outcomes(world) == ["lost", "skipped", "skipped", "running"]


def test_between_what_is_lost_some_may_still_run(machine_with: MachineWith) -> None:
    """P1: the occurrence that is known by its process has its row, and the others have one."""
    long = replace(JOB, overlap=Overlap.ALLOW)
    world = machine_with(long, lasts=90 * SECOND)
    before = remembered(world)
    world.pass_time(3 * MINUTE)
    ran = starts(world)
    assert (len(ran), is_alive(world)) == (3, 2)
    restart_on(world, before)
    assert dues(world) == [("lost", ran[0], 1), ("running", ran[1], 1), ("running", ran[2], 1)]


def test_what_waited_may_have_run(machine_with: MachineWith) -> None:
    """P2: a run that the ledger shows as queued is not started: it may have been."""
    world = machine_with(replace(JOB, overlap=Overlap.QUEUE), lasts=70 * SECOND)
    world.pass_time(2 * MINUTE)
    assert outcomes(world)[-1] == "queued"
    queued = rows(world)[-1].due
    before = remembered(world)
    world.pass_time(90 * SECOND)
    assert starts(world).count(queued) == 1
    restart_on(world, before)
    world.pass_time(5 * MINUTE)
    assert starts(world).count(queued) == 1
    (row,) = [row for row in rows(world) if row.due == queued]
    assert str(row.outcome) == "lost"


@pytest.mark.parametrize("on_crash", OnCrash)
def test_what_waited_for_a_retry_may_have_been_tried(
    machine_with: MachineWith, on_crash: OnCrash
) -> None:
    """P2, P3: an attempt that may have begun has; it is run again where that is asked for."""
    job = replace(JOB, trigger=AtTrigger(BEGIN + SECOND), retry=Retry(3, 10 * SECOND, 1.0))
    world = machine_with(replace(job, on_crash=on_crash), exits=(Exit(code=1),))
    world.pass_time(5 * SECOND)
    assert outcomes(world) == ["waiting_retry"]
    before = remembered(world)
    world.pass_time(10 * SECOND)
    assert len(starts(world)) == 2
    restart_on(world, before)
    world.pass_time(5 * MINUTE)
    (row,) = rows(world)
    assert str(row.attempts[1].outcome) == "lost"
    if on_crash is OnCrash.LOST:
        assert (len(starts(world)), str(row.outcome)) == (2, "lost")
    else:
        assert [each.number for each in row.attempts] == [1, 2, 3]


def test_a_later_attempt_that_lives_is_adopted(machine_with: MachineWith) -> None:
    """P5: the attempt that the ledger does not know is the one that goes on."""
    job = replace(JOB, trigger=AtTrigger(BEGIN + SECOND), retry=Retry(3, 10 * SECOND, 1.0))
    world = machine_with(job, lasts=20 * SECOND, exits=(Exit(code=1),))
    world.pass_time(25 * SECOND)
    assert outcomes(world) == ["waiting_retry"]
    before = remembered(world)
    world.pass_time(10 * SECOND)
    assert is_alive(world) == 1
    restart_on(world, before)
    assert outcomes(world) == ["running"]
    assert [each.number for each in rows(world)[0].attempts] == [1, 2]
    assert is_alive(world) == 1


def test_what_follows_is_not_run_again(machine_with: MachineWith) -> None:
    """P2: a run that may have followed before is not made again when its upstream is recovered."""
    head = replace(JOB, name="head", trigger=AtTrigger(BEGIN + SECOND))
    follower = replace(JOB, trigger=AfterTrigger({"head": Condition.ANY}))
    world = machine_with(head, follower, lasts=5 * SECOND)
    world.pass_time(2 * SECOND)
    before = remembered(world)
    world.pass_time(20 * SECOND)
    assert len(starts(world)) == 1
    restart_on(world, before)
    world.pass_time(MINUTE)
    assert len(starts(world)) == 1
    assert outcomes(world, "head") == ["lost"]
    assert outcomes(world) == ["skipped"]
    assert "upstream_unknown" in rows(world)[0].reason


def test_what_follows_a_stretch_that_is_lost_is_skipped(machine_with: MachineWith) -> None:
    """P1, P2: each cycle that is lost has a row down the chain, too."""
    head = replace(JOB, name="head")
    follower = replace(JOB, trigger=AfterTrigger({"head": Condition.ANY}))
    world = machine_with(head, follower)
    before = remembered(world)
    world.pass_time(3 * MINUTE)
    ran = starts(world)
    restart_on(world, before)
    assert starts(world) == ran
    assert dues(world) == [("skipped", ran[0], 3)]


@pytest.mark.parametrize("mode", ["fixed-rate", "fixed-delay"])
def test_an_interval_goes_on(machine_with: MachineWith, mode: str) -> None:
    """P2: what was due of an interval is lost, and the next is due as if nothing had been."""
    trigger = EveryTrigger(MINUTE)
    trigger = replace(trigger, mode=type(trigger.mode)(mode))
    world = machine_with(replace(JOB, trigger=trigger))
    world.pass_time(30 * SECOND)
    before = remembered(world)
    world.pass_time(3 * MINUTE)
    ran = starts(world)
    restart_on(world, before)
    assert starts(world) == ran
    assert "lost" in outcomes(world)
    world.pass_time(61 * SECOND)
    assert len(starts(world)) == len(ran) + 1
    assert len(set(starts(world))) == len(ran) + 1


def test_once_a_boot_is_once(machine_with: MachineWith) -> None:
    """P2: in the boot in which records were lost it may have run; in the next one it has not."""
    world = machine_with()
    before = remembered(world)
    world.kill_daemon()
    world.set_job(replace(JOB, trigger=StartupTrigger(per_boot=True)))
    world.boot_daemon()
    world.pass_time(SECOND)
    assert len(starts(world)) == 1
    restart_on(world, before)
    world.pass_time(SECOND)
    assert (len(starts(world)), outcomes(world)) == (1, ["lost"])
    world.kill_daemon(power_cut=True)
    world.boot_daemon()
    world.pass_time(SECOND)
    assert len(starts(world)) == 2


def test_a_job_that_was_new_has_not_run_twice(machine_with: MachineWith) -> None:
    """P2: an instant in the past of a job that the ledger does not know may have had its run."""
    world = machine_with()
    before = remembered(world)
    world.kill_daemon()
    world.set_job(replace(JOB, trigger=AtTrigger(BEGIN + 5 * SECOND)))
    world.boot_daemon()
    world.pass_time(10 * SECOND)
    assert len(starts(world)) == 1
    restart_on(world, before)
    world.pass_time(MINUTE)
    assert (len(starts(world)), outcomes(world)) == (1, ["lost"])


def test_what_a_finished_run_has_left_is_no_run(machine_with: MachineWith) -> None:
    """A service that an earlier run has started does not hold its job after a loss."""
    world = machine_with(replace(JOB, trigger=AtTrigger(BEGIN + SECOND)))
    behaviour = world.machine.behaviours["a"]
    world.machine.behaviours["a"] = replace(behaviour, leaves=(timedelta(hours=1),))
    world.pass_time(5 * SECOND)
    assert outcomes(world) == ["succeeded"]
    assert is_alive(world) == 1
    before = remembered(world)
    restart_on(world, before)
    assert outcomes(world) == ["succeeded"]
    assert world.daemon is not None
    assert world.daemon.core.status().jobs[0].active == ()


FOLLOWER = Job("b", AfterTrigger({"a": Condition.SUCCESS}), "true", timezone="UTC")


@pytest.mark.parametrize("number", [1, 2, 5])
def test_what_follows_and_still_runs_is_taken_up_again(
    machine_with: MachineWith, number: int
) -> None:
    """P1: its cycle has that row, as one that follows, and the others have theirs beside it."""
    world = machine_with(JOB, FOLLOWER)
    world.machine.behaviours["b"] = replace(
        world.machine.behaviours["b"], lasts=(20 * MINUTE,), exits=(Exit(code=0),)
    )
    before = remembered(world)
    world.pass_time(number * MINUTE + 30 * SECOND)
    assert len(starts(world, "b")) == 1
    restart_on(world, before)
    world.pass_time(10 * SECOND)
    running, *others = rows(world, "b")
    assert (str(running.state), running.cause, running.count) == ("running", Cause.UPSTREAM, 1)
    assert sum(run.count for run in others) == number - 1
    assert {run.due - running.due for run in others} <= {MINUTE}


def test_what_follows_and_still_runs_has_the_era_of_its_head(machine_with: MachineWith) -> None:
    """P1: so its cycle is known to have its row, though the clock was set back before."""
    world = machine_with(JOB, FOLLOWER)
    world.pass_time(timedelta(hours=5))
    world.set_clock(timedelta(hours=-4))
    world.pass_time(MINUTE + 30 * SECOND)
    world.machine.behaviours["b"] = replace(
        world.machine.behaviours["b"], lasts=(20 * MINUTE,), exits=(Exit(code=0),)
    )
    before = remembered(world)
    world.pass_time(MINUTE)
    restart_on(world, before)
    world.pass_time(10 * SECOND)
    lost = next(run for run in rows(world, "a") if "has lost" in run.reason)
    assert lost.era == 1  # else this test shows nothing
    of_it = [run for run in rows(world, "b") if run.due == lost.due and run.outcome is None]
    assert [(run.era, str(run.state)) for run in of_it] == [(1, "running")]


def test_without_a_gap_nothing_is_lost(machine_with: MachineWith) -> None:
    """The same restart on a ledger that has it all goes on as always."""
    world = machine_with(JOB)
    world.pass_time(150 * SECOND)
    world.kill_daemon()
    world.boot_daemon()
    world.pass_time(MINUTE)
    assert outcomes(world) == ["succeeded"] * 3
