"""overlap = "replace": the newest occurrence ends what still goes on, then starts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from crond_py.crontab.model import CronTrigger, Job
from crond_py.engine.events import Call
from crond_py.model import Exit, Missed, Overlap, Retry
from tests.unit.engine.conftest import SECOND, MachineWith, is_alive, outcomes, rows

MINUTE = timedelta(minutes=1)
JOB = Job("a", CronTrigger(("* * * * *",)), "true", timezone="UTC", overlap=Overlap.REPLACE)


def test_the_running_one_is_ended_then_the_new_one_starts(machine_with: MachineWith) -> None:
    """P5: never two alive; the old run is cancelled and its row names the one that replaced it."""
    world = machine_with(JOB, lasts=10 * MINUTE)
    world.pass_time(2 * MINUTE + 5 * SECOND)
    first, second = rows(world)
    assert outcomes(world) == ["cancelled", "running"]
    assert first.reason == f"replaced by the run due {second.due.isoformat()}"
    assert is_alive(world) == 1


def test_what_does_not_end_when_asked_is_killed_first(machine_with: MachineWith) -> None:
    """P5, P6: the new run waits for the whole of kill_after, and never runs beside the old one."""
    world = machine_with(JOB, lasts=10 * MINUTE, ignores_term=True)
    world.pass_time(2 * MINUTE + 5 * SECOND)
    assert outcomes(world) == ["running", "queued"]
    assert is_alive(world) == 1
    world.pass_time(JOB.kill_after)
    assert outcomes(world) == ["cancelled", "running"]
    assert is_alive(world) == 1


def test_only_the_newest_waits(machine_with: MachineWith) -> None:
    """Of those that come while the old run still ends, the last one takes the others' place."""
    job = Job(
        "a",
        CronTrigger(("*/2 * * * * *",)),
        "true",
        timezone="UTC",
        overlap=Overlap.REPLACE,
        kill_after=5 * SECOND,
    )
    world = machine_with(job, lasts=10 * MINUTE, ignores_term=True)
    world.pass_time(7 * SECOND)
    states = outcomes(world)
    assert states[0] == "running"
    assert states[-1] == "queued"
    assert set(states[1:-1]) == {"cancelled"}
    world.pass_time(MINUTE)
    assert is_alive(world) == 1


def test_a_run_that_waits_for_its_retry_is_replaced(machine_with: MachineWith) -> None:
    """A run that waits for a retry is active: it is cancelled, and the new one starts in time."""
    job = Job(
        "a",
        CronTrigger(("* * * * *",)),
        "true",
        timezone="UTC",
        overlap=Overlap.REPLACE,
        retry=Retry(attempts=3, delay=10 * MINUTE),
    )
    world = machine_with(job, exits=(Exit(code=1),))
    world.pass_time(2 * MINUTE + 5 * SECOND)
    assert outcomes(world) == ["cancelled", "waiting_retry"]
    first, second = rows(world)
    assert len(first.attempts) == 1
    assert second.attempts[0].begun_at - second.due < SECOND


def test_caught_up_runs_replace_nothing(machine_with: MachineWith) -> None:
    """P1: what is made up is older than what runs; it waits its turn, one after the other."""
    job = Job(
        "a",
        CronTrigger(("* * * * *",)),
        "true",
        timezone="UTC",
        overlap=Overlap.REPLACE,
        missed=Missed.ALL,
    )
    world = machine_with(job, lasts=3 * SECOND)
    world.kill_daemon()
    world.pass_time(5 * MINUTE)
    world.boot_daemon()
    world.pass_time(30 * SECOND)
    assert set(outcomes(world)) == {"succeeded"}
    assert len(rows(world)) >= 5


@pytest.mark.parametrize("force", [False, True])
def test_a_manual_run_replaces_unless_forced(machine_with: MachineWith, *, force: bool) -> None:
    """A manual run takes the same way as a due one; --force runs beside what runs."""
    world = machine_with(JOB, lasts=10 * MINUTE)
    world.pass_time(MINUTE + 5 * SECOND)
    assert world.daemon is not None
    core = world.daemon.core
    core.handle([Call(lambda: core.trigger("a", is_forced=force, then=lambda _run: None))])
    world.pass_time(SECOND)
    assert is_alive(world) == (2 if force else 1)
    assert outcomes(world)[0] == ("running" if force else "cancelled")
