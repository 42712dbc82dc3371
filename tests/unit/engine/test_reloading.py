"""A reload, or a file changed while the daemon was down: what waits goes by the new one."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from crond_py.crontab.model import AtTrigger, CronTrigger, Job, Pool
from crond_py.crontab.summary import fingerprint
from crond_py.model import Missed, OnCrash, Overlap, State
from crond_py.ports import AttemptKey, StartFailed
from tests.unit.engine.conftest import SECOND, MachineWith, is_alive, outcomes, reload, rows

MINUTE = timedelta(minutes=1)
MILLISECOND = timedelta(milliseconds=1)
JOB = Job("a", CronTrigger(("* * * * *",)), "true", timezone="UTC", overlap=Overlap.QUEUE)


def test_a_looser_policy_lets_what_waits_start_at_once(machine_with: MachineWith) -> None:
    """P4: runs that were queued behind one another start as soon as they may go side by side."""
    world = machine_with(JOB, lasts=30 * MINUTE)
    world.pass_time(3 * MINUTE + 5 * SECOND)
    assert outcomes(world) == ["running", "queued", "queued"]
    reload(world, replace(JOB, overlap=Overlap.ALLOW))
    assert outcomes(world) == ["running", "running", "running"]
    world.pass_time(SECOND)
    assert is_alive(world) == 3


def test_a_shorter_start_within_holds_for_what_waits(machine_with: MachineWith) -> None:
    """What is too late by the new file is skipped, though it was queued under the old one."""
    world = machine_with(JOB, lasts=30 * MINUTE)
    world.pass_time(2 * MINUTE + 5 * SECOND)
    reload(world, replace(JOB, start_within=10 * SECOND))
    world.pass_time(6 * SECOND)
    assert outcomes(world) == ["running", "skipped"]
    assert "too_late" in rows(world)[1].reason


def test_a_longer_start_within_holds_for_what_waits(machine_with: MachineWith) -> None:
    """What would have been too late by the old file waits on."""
    world = machine_with(replace(JOB, start_within=10 * SECOND), lasts=30 * MINUTE)
    world.pass_time(2 * MINUTE + 5 * SECOND)
    reload(world, JOB)
    world.pass_time(30 * SECOND)
    assert outcomes(world) == ["running", "queued"]


def test_a_pool_that_is_gone_is_not_shown(machine_with: MachineWith) -> None:
    """The status shows the pools of the file in force, and others only while they are in use."""
    world = machine_with(JOB)
    assert world.daemon is not None
    reload(world, JOB, pools=(Pool("default"), Pool("batch", 2)))
    assert {pool.name for pool in world.daemon.core.status().pools} == {"default", "batch"}
    reload(world, JOB, pools=(Pool("default"),))
    assert {pool.name for pool in world.daemon.core.status().pools} == {"default"}


def test_a_pool_that_was_in_use_when_it_was_removed(machine_with: MachineWith) -> None:
    """It is shown until its last run has ended, and not until somebody reads the file again."""
    world = machine_with(lasts=5 * MINUTE)
    job = replace(JOB, pool="batch")
    reload(world, job, pools=(Pool("default"), Pool("batch", 2)))
    world.pass_time(MINUTE)
    reload(world, JOB, pools=(Pool("default"),))
    assert world.daemon is not None
    core = world.daemon.core
    shown = [(pool.name, pool.workers, pool.running) for pool in core.status().pools]
    assert shown == [("default", None, 0), ("batch", 0, 1)]
    world.pass_time(5 * MINUTE)
    assert [pool.name for pool in core.status().pools] == ["default"]


def test_run_again_after_its_pool_was_removed(machine_with: MachineWith) -> None:
    """P3: what is run again begins where the file says now, not in a pool that is gone."""
    again = replace(JOB, pool="batch", on_crash=OnCrash.RERUN)
    world = machine_with(lasts=30 * MINUTE)
    reload(world, again, pools=(Pool("default"), Pool("batch", 2)))
    world.pass_time(MINUTE)
    assert outcomes(world) == ["running"]
    reload(world, replace(again, pool="default"), pools=(Pool("default"),))
    (run,) = rows(world)
    assert world.daemon is not None
    lost = StartFailed(AttemptKey(run.id, 1), "nobody knows", world.clock.now(), is_unknown=True)
    world.daemon.core.handle([lost])
    (run,) = rows(world)
    assert (run.state, len(run.attempts)) == (State.RUNNING, 2)


@pytest.mark.parametrize("power_cut", [False, True])
def test_a_job_removed_while_nobody_was_there_begins_anew(
    machine_with: MachineWith, *, power_cut: bool
) -> None:
    """P1: what fell while a job was not in the file is not missed, nor after a power cut."""
    job = replace(JOB, missed=Missed.ALL)
    world = machine_with(job)
    world.pass_time(MINUTE)
    before = len(rows(world))
    world.kill_daemon()
    world.jobs = {}
    world.boot_daemon()
    world.pass_time(5 * MINUTE)
    world.kill_daemon()
    world.ledger = world.ledger.crash(power_cut=power_cut)
    world.jobs = {"a": job}
    world.boot_daemon()
    world.pass_time(SECOND)
    assert len(rows(world)) == before


def test_a_one_off_that_was_removed_and_comes_back_stays_done(machine_with: MachineWith) -> None:
    """P2: an instant that has had its run does not come again with its job."""
    once = Job("a", AtTrigger(datetime(2026, 3, 28, 22, 5, tzinfo=UTC)), "true")
    world = machine_with(once)
    world.pass_time(10 * MINUTE)
    assert outcomes(world) == ["succeeded"]
    for jobs in ({}, {"a": once}):
        world.kill_daemon()
        world.jobs = jobs
        world.boot_daemon()
        world.pass_time(MINUTE)
    assert len(world.machine.trees) == 1
    assert outcomes(world) == ["succeeded"]


def test_a_one_off_that_is_put_back_beside_its_run_is_in_force(machine_with: MachineWith) -> None:
    """P1: the ledger and the daemon agree on whether a job is in force."""
    once = Job("a", AtTrigger(datetime(2026, 3, 28, 22, 1, tzinfo=UTC)), "true")
    world = machine_with(once, lasts=60 * MINUTE)
    world.pass_time(2 * MINUTE)
    world.kill_daemon()
    world.jobs = {}
    world.boot_daemon()
    assert world.ledger.cursors()["a"].fingerprint != fingerprint(once)
    reload(world, once)
    assert world.ledger.cursors()["a"].fingerprint == fingerprint(once)
    assert outcomes(world) == ["running"]


@pytest.mark.parametrize("is_removed", [False, True])
def test_what_was_claimed_ahead_of_a_job_that_is_taken_out(
    machine_with: MachineWith, *, is_removed: bool
) -> None:
    """P1: after the reload nothing of it starts, and the row says why."""
    world = machine_with(JOB)
    world.pass_time(MINUTE - world.clock.now().second * SECOND - 5 * MILLISECOND)
    assert outcomes(world) == ["running"]
    reload(world, *(() if is_removed else (replace(JOB, enabled=False),)))
    world.pass_time(MINUTE)
    assert not world.machine.trees
    how = "removed from" if is_removed else "disabled in"
    assert [(str(run.outcome), run.reason) for run in rows(world)] == [
        ("cancelled", f"the job was {how} the crontab")
    ]


def test_what_has_been_started_goes_on(machine_with: MachineWith) -> None:
    """A reload that disables a job leaves its run alone, also in the moment of its start."""
    world = machine_with(JOB)
    behaviour = replace(world.machine.behaviours["a"], word_takes=SECOND)
    world.machine.behaviours["a"] = behaviour
    world.pass_time(MINUTE - world.clock.now().second * SECOND)
    assert is_alive(world)
    reload(world, replace(JOB, enabled=False))
    world.pass_time(MINUTE)
    assert outcomes(world) == ["succeeded"]


@pytest.mark.parametrize("missed", list(Missed))
def test_the_zone_of_the_system_is_another_one(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch, missed: Missed
) -> None:
    """P1: an instant that passed while it was not due is neither missed nor run by a reload."""
    monkeypatch.setattr("crond_py.timetable.known_system_timezone", lambda: "UTC")
    evening = CronTrigger(("30 20 * * *",))
    job = replace(JOB, trigger=evening, timezone=None, missed=missed, overlap=Overlap.SKIP)
    world = machine_with(job)
    world.pass_time(31 * MINUTE)
    assert rows(world) == []
    monkeypatch.setattr("crond_py.timetable.known_system_timezone", lambda: "Etc/GMT+2")
    reload(world, job)
    world.pass_time(MINUTE)
    assert rows(world) == []
    world.pass_time(24 * 60 * MINUTE)
    assert [run.due for run in rows(world)] == [datetime(2026, 3, 29, 22, 30, tzinfo=UTC)]


def test_what_is_just_due_at_a_reload_is_run(machine_with: MachineWith) -> None:
    """P1: it was so by the old crontab, too, and its timer is about to be seen."""
    world = machine_with(JOB)
    world.clock.advance(MINUTE + SECOND / 10)
    reload(world, JOB)
    world.pass_time(SECOND)
    assert [(run.due, str(run.outcome)) for run in rows(world)] == [
        (datetime(2026, 3, 28, 22, 1, tzinfo=UTC), "succeeded")
    ]
