"""What the row of an occurrence says that is skipped on account of another run."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from crond_py.crontab.model import CronTrigger, Job, Pool
from crond_py.model import Exit, Overlap, Retry
from tests.simulation.fakes import Behaviour
from tests.unit.engine.conftest import SECOND, MachineWith, reload, rows

MINUTE = timedelta(minutes=1)
JOB = Job("a", CronTrigger(("* * * * *",)), "true", timezone="UTC", overlap=Overlap.SKIP)


def test_the_run_that_it_names_is_running_since_it_was_started(machine_with: MachineWith) -> None:
    """Not since it was claimed, which was in the second before."""
    world = machine_with(JOB, lasts=5 * MINUTE)
    world.pass_time(2 * MINUTE + SECOND)
    first, second = rows(world)
    assert first.claimed_at < first.due
    since = first.due.isoformat()
    assert second.reason == f"overlap: run {first.id} is running since {since}"


def test_the_run_that_it_names_is_just_being_started(machine_with: MachineWith) -> None:
    """One of which there is no word yet is to run from its instant on."""
    world = machine_with(JOB, lasts=5 * MINUTE)
    slow = replace(world.machine.behaviours["a"], word_takes=2 * MINUTE)
    world.machine.behaviours["a"] = slow
    world.pass_time(2 * MINUTE + SECOND)
    first, second = rows(world)
    since = first.due.isoformat()
    assert second.reason == f"overlap: run {first.id} is running since {since}"


def test_the_run_that_it_names_waits_for_its_retry(machine_with: MachineWith) -> None:
    """It does so since its attempt has failed."""
    job = replace(JOB, retry=Retry(attempts=2, delay=10 * MINUTE))
    world = machine_with(job, lasts=10 * SECOND, exits=(Exit(code=1),))
    world.pass_time(2 * MINUTE + SECOND)
    first, second = rows(world)
    since = (first.due + 10 * SECOND).isoformat()
    assert second.reason == f"overlap: run {first.id} waits for its retry since {since}"


def test_the_run_that_it_names_waits_for_a_slot(machine_with: MachineWith) -> None:
    """It does so since its instant."""
    busy, waits = replace(JOB, name="busy", pool="one"), replace(JOB, pool="one")
    world = machine_with(lasts=30 * MINUTE)
    world.machine.behaviours["busy"] = Behaviour(lasts=(30 * MINUTE,))
    pools = (Pool("default"), Pool("one", 1))
    reload(world, busy, pools=pools)
    world.pass_time(MINUTE + SECOND)
    reload(world, busy, waits, pools=pools)
    world.pass_time(2 * MINUTE)
    first, second = rows(world)
    since = first.due.isoformat()
    reason = f"overlap: run {first.id} waits for a slot of its pool since {since}"
    assert second.reason == reason
