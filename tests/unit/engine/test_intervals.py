"""Aligned intervals, offsets and jitter in the whole engine, with a clock of the test's own."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from crond_py.crontab.model import AtTrigger, CronTrigger, EveryTrigger, Job, Trigger
from crond_py.engine.ahead import AHEAD, FARTHEST_AHEAD
from crond_py.engine.recovery import Recoverer
from crond_py.model import Align, Cause, EveryMode, Missed, OnCrash, Outcome, Overlap, Run
from crond_py.ports import RunQuery
from crond_py.schedule import spread
from tests.simulation.fakes import Behaviour
from tests.simulation.world import BEGIN, HOST, World

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
QUARTERS = EveryTrigger(15 * MINUTE, align=Align.HOUR)
AT_ONCE = EveryTrigger(15 * MINUTE, offset=timedelta(0))
ODD = 3 * MINUTE + 20 * SECOND
"""How far from a full hour the histories begin: BEGIN is one."""


def world_of(trigger: Trigger, **more: object) -> World:
    """Return a machine on which a daemon with one job has just started, off any grid."""
    world = World(0)
    job = Job("a", trigger, "true", timezone="UTC", keep_runs=None, keep_for=None)
    world.jobs = {"a": replace(job, **more)}  # type: ignore[arg-type]
    world.machine.behaviours = {"a": Behaviour()}
    world.clock.advance(ODD)
    world.boot_daemon()
    return world


def rows(world: World) -> list[Run]:
    """Return the runs, oldest first."""
    return sorted(world.ledger.runs(RunQuery(limit=None)), key=lambda run: (run.era, run.due))


def dues(world: World) -> list[timedelta]:
    """Return how long after BEGIN each run was due."""
    return [run.due - BEGIN for run in rows(world)]


def starts(world: World) -> list[timedelta]:
    """Return how long after BEGIN, by the clock then, each process was started."""
    return [process.started_at - BEGIN for process in world.machine.trees]


def restart(world: World, down: timedelta) -> None:
    """Kill the daemon and start it again a while later."""
    world.kill_daemon()
    world.pass_time(down)
    world.boot_daemon()
    world.drain()


# --- align ----------------------------------------------------------------------------------


def test_an_aligned_interval_runs_on_the_grid() -> None:
    """P4: at the quarters of the hour, whenever the daemon began; also across a restart."""
    world = world_of(QUARTERS)
    world.pass_time(20 * MINUTE)
    restart(world, 2 * MINUTE)
    world.pass_time(25 * MINUTE)
    assert starts(world) == dues(world) == [15 * MINUTE, 30 * MINUTE, 45 * MINUTE]


def test_what_had_its_row_is_not_missed_once_the_clock_was_set_back_two_times() -> None:
    """P1: the quarters of which one came between the two steps have one row each."""
    world = world_of(QUARTERS, missed=Missed.SKIP)
    world.set_clock(-5 * MINUTE)
    world.pass_time(5 * MINUTE)
    assert dues(world) == [timedelta(0)]
    world.set_clock(-HOUR)
    world.drain()
    world.kill_daemon()
    world.set_clock(2 * HOUR)
    world.boot_daemon()
    world.drain()
    missed, full_hour = rows(world)
    assert (missed.outcome, missed.due - BEGIN) == (Outcome.MISSED, -45 * MINUTE)
    assert (missed.count, full_hour.due) == (7, BEGIN)  # three before it and four after it


def test_what_had_its_row_is_not_missed_however_often_the_clock_was_set_back() -> None:
    """P1: each of three steps leaves a row with nothing around it; none of them counts again."""
    world = world_of(QUARTERS, missed=Missed.SKIP)
    for _ in range(3):
        world.pass_time(15 * MINUTE)
        world.set_clock(-2 * HOUR)
        world.drain()
    had_its_turn = {run.due for run in rows(world)}
    begin = world.clock.now()
    restart(world, 7 * HOUR)
    world.pass_time(15 * MINUTE)
    grid = {BEGIN + number * 15 * MINUTE for number in range(-32, 32)}
    before = {due for due in grid if begin < due <= begin + 7 * HOUR}
    missed = [run for run in rows(world) if run.outcome is Outcome.MISSED]
    assert len(had_its_turn) == 3 == len(had_its_turn & before)
    assert sum(run.count for run in missed) == len(before - had_its_turn)
    assert had_its_turn.isdisjoint(run.due for run in missed)
    assert dues(world)[-1] == max(before) + 15 * MINUTE - BEGIN


def test_an_aligned_interval_stays_on_the_grid_when_the_clock_is_set_forward() -> None:
    """P1: as with cron: what was jumped over is missed, and the next one is on the new clock."""
    world = world_of(QUARTERS, missed=Missed.SKIP)
    world.set_clock(HOUR + MINUTE)
    world.pass_time(12 * MINUTE)
    first, second = rows(world)
    assert (first.outcome, first.due - BEGIN, first.count) == (Outcome.MISSED, 15 * MINUTE, 4)
    assert "the clock was set forward" in first.reason
    assert second.due - BEGIN == starts(world)[0] == 75 * MINUTE


def test_an_aligned_interval_is_not_repeated_when_the_clock_is_set_back() -> None:
    """P2: a short step back repeats nothing; the grid is that of the clock as it shows."""
    world = world_of(QUARTERS)
    world.pass_time(14 * MINUTE)  # it is 17:20 past, and :15 has run
    world.set_clock(-10 * MINUTE)
    world.pass_time(25 * MINUTE)
    assert dues(world) == [15 * MINUTE, 30 * MINUTE]
    assert starts(world) == [15 * MINUTE, 30 * MINUTE]


def test_an_interval_without_align_takes_no_notice_of_the_clock() -> None:
    """It counts elapsed time: set the clock as one likes, it is a period from run to run."""
    world = world_of(EveryTrigger(15 * MINUTE))
    world.pass_time(16 * MINUTE)
    world.set_clock(7 * MINUTE)
    world.pass_time(15 * MINUTE)
    first, second = (process.leader.started_ns for process in world.machine.trees)
    assert second - first == 15 * 60 * 10**9


def test_what_was_missed_while_down_is_on_the_grid() -> None:
    """P1: a daemon that was down for an hour accounts for each quarter of it."""
    world = world_of(QUARTERS, missed=Missed.ALL)
    restart(world, HOUR)
    world.pass_time(10 * SECOND)
    assert dues(world) == [number * MINUTE for number in (15, 30, 45, 60)]
    assert {run.cause for run in rows(world)} == {Cause.CATCH_UP}


@pytest.mark.parametrize("mode", EveryMode)
@pytest.mark.parametrize("lead", [FARTHEST_AHEAD, AHEAD], ids=["of many", "alone"])
def test_what_was_claimed_ahead_does_not_come_again(mode: EveryMode, lead: timedelta) -> None:
    """P2: a restart between a claim and its instant is no clock that was set back."""
    world = world_of(EveryTrigger(MINUTE, mode), on_crash=OnCrash.RERUN)
    assert world.daemon is not None
    world.daemon.core._agenda.leads = ((0, lead),)
    world.reload()
    world.pass_time(MINUTE - timedelta(milliseconds=5))
    (due,) = dues(world)
    assert world.clock.now() < BEGIN + due
    restart(world, timedelta(0))
    world.pass_time(50 * SECOND)
    assert dues(world) == [due]
    world.pass_time(MINUTE)
    assert {run.era for run in rows(world)} == {0}


def test_what_waits_from_a_time_before_accounts_for_nothing_in_another() -> None:
    """P1: runs that were due at the readings that come again are another era's."""
    world = world_of(QUARTERS, overlap=Overlap.QUEUE, missed=Missed.SKIP)
    world.machine.behaviours["a"] = Behaviour(lasts=(20 * HOUR,))
    world.pass_time(50 * MINUTE)
    world.set_clock(-8 * HOUR)
    world.pass_time(SECOND)
    began = world.clock.now()
    world.kill_daemon(power_cut=True)
    world.pass_time(9 * HOUR)
    world.boot_daemon()
    assert [run.era for run in rows(world) if run.outcome is not Outcome.MISSED] == [0, 0, 0]
    missed = [run for run in rows(world) if run.outcome is Outcome.MISSED]
    assert {run.era for run in missed} == {1}
    assert sum(run.count for run in missed) == (world.clock.now() - began) // (15 * MINUTE)


@pytest.mark.parametrize("meanwhile", [QUARTERS, EveryTrigger(HOUR), AtTrigger(BEGIN + 9 * HOUR)])
def test_what_had_its_row_is_known_whatever_the_job_was_meanwhile(meanwhile: Trigger) -> None:
    """P2: a job that counted elapsed time for a while does not repeat what it ran by the clock."""
    world = world_of(QUARTERS)
    world.pass_time(15 * MINUTE)
    world.set_clock(-8 * HOUR)
    world.jobs["a"] = replace(world.jobs["a"], trigger=meanwhile)
    world.reload()
    world.pass_time(MINUTE)
    world.set_clock(8 * HOUR - 10 * MINUTE)
    world.jobs["a"] = replace(world.jobs["a"], trigger=QUARTERS)
    world.reload()
    world.pass_time(25 * MINUTE)
    assert [due for due in starts(world) if due > timedelta(0)] == [15 * MINUTE, 30 * MINUTE]


def test_what_is_to_come_again_does_not_run_again_for_a_job_that_was_put_back() -> None:
    """P2: nor is a one-off held back, which comes once whatever the clock reads."""
    world = world_of(QUARTERS)
    world.jobs["b"] = replace(world.jobs["a"], name="b", trigger=CronTrigger(("0 0 1 1 *",)))
    world.reload()
    world.pass_time(15 * MINUTE)
    world.set_clock(-8 * HOUR)
    world.set_clock(8 * HOUR - 10 * MINUTE)
    for is_enabled in (False, True):
        world.jobs["a"] = replace(world.jobs["a"], enabled=is_enabled)
        world.reload()
    at = BEGIN + 15 * MINUTE
    world.jobs["b"] = replace(world.jobs["b"], trigger=AtTrigger(at))
    world.reload()
    world.pass_time(25 * MINUTE)
    assert [run.due - BEGIN for run in rows(world) if run.job == "a"] == [15 * MINUTE, 30 * MINUTE]
    assert [run.due for run in rows(world) if run.job == "b"] == [at]


# --- offset ---------------------------------------------------------------------------------


@pytest.mark.parametrize("missed", Missed)
def test_an_offset_of_nothing_runs_at_once_and_once(missed: Missed) -> None:
    """P2: it is on time, not missed, whatever the policy; then a period later; no restart repeats.

    The first run is due when the job was first seen.
    """
    world = world_of(AT_ONCE, missed=missed)
    world.drain()
    (run,) = rows(world)
    assert (run.due, run.cause, run.outcome) == (BEGIN + ODD, Cause.SCHEDULE, None)
    world.pass_time(5 * MINUTE)
    restart(world, MINUTE)
    restart(world, MINUTE)
    world.pass_time(8 * MINUTE)
    assert starts(world) == dues(world) == [ODD, ODD + 15 * MINUTE]
    assert {run.outcome for run in rows(world)} <= {Outcome.SUCCEEDED, None}


def test_a_slow_start_does_not_make_it_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: however long the rest of a start takes, the first run is on time by its due instant."""
    world = World(0)
    slow = Job("z", AT_ONCE, "true", missed=Missed.SKIP, keep_runs=None, keep_for=None)
    world.jobs = {"z": slow}
    world.machine.behaviours = {"z": Behaviour()}
    monkeypatch.setattr(Recoverer, "recover", lambda *_: world.clock.advance(10 * SECOND))
    world.boot_daemon()
    (run,) = rows(world)
    assert (run.due, run.cause) == (BEGIN, Cause.SCHEDULE)
    assert len(world.machine.trees) == 1


@pytest.mark.parametrize("crash_in", range(1, 6))
def test_a_crash_at_the_first_run_leaves_it_once(crash_in: int) -> None:
    """P1, P2: killed anywhere around its first commit, the first run is there once in the end."""
    world = World(0)
    world.jobs = {"a": Job("a", AT_ONCE, "true", keep_runs=None, keep_for=None)}
    world.machine.behaviours = {"a": Behaviour()}
    world.crash_in = crash_in
    world.boot_daemon()
    world.crash_in = None
    if world.daemon is None:
        world.clock.advance(7 * SECOND)
        world.boot_daemon()
    world.pass_time(10 * MINUTE)
    assert len(world.machine.trees) <= 1
    (run,) = rows(world)
    assert run.due in {BEGIN, BEGIN + 7 * SECOND}
    assert run.outcome in {Outcome.SUCCEEDED, Outcome.LOST}


def test_an_offset_is_how_long_the_first_run_waits() -> None:
    """Then each period; what it counts from outlives a restart."""
    world = world_of(EveryTrigger(15 * MINUTE, offset=5 * MINUTE))
    world.pass_time(4 * MINUTE)
    restart(world, 30 * SECOND)
    world.pass_time(17 * MINUTE)
    assert starts(world) == dues(world) == [ODD + 5 * MINUTE, ODD + 20 * MINUTE]


def test_a_reload_runs_at_once_what_is_new_and_nothing_else() -> None:
    """B28: a changed schedule is first seen anew; a changed command is no reason to run."""
    world = world_of(AT_ONCE)
    world.pass_time(MINUTE)
    world.jobs["a"] = replace(world.jobs["a"], command="other")
    world.reload()
    world.pass_time(MINUTE)
    assert starts(world) == [ODD]
    world.jobs["a"] = replace(world.jobs["a"], trigger=replace(AT_ONCE, period=HOUR))
    world.reload()
    world.jobs["b"] = Job("b", AT_ONCE, "true")
    world.reload()
    world.pass_time(MINUTE)
    assert starts(world) == [ODD, ODD + 2 * MINUTE, ODD + 2 * MINUTE]


def test_an_offset_moves_with_the_elapsed_time() -> None:
    """A clock that is set neither repeats the first run nor moves the next one."""
    world = world_of(AT_ONCE)
    world.pass_time(MINUTE)
    for step in (HOUR, -2 * HOUR, -9 * HOUR):
        world.set_clock(step)
        world.pass_time(MINUTE)
    assert len(world.machine.trees) == 1
    world.pass_time(11 * MINUTE)
    first, second = (process.leader.started_ns for process in world.machine.trees)
    assert second - first == 15 * 60 * 10**9


# --- jitter ---------------------------------------------------------------------------------


@pytest.mark.parametrize("trigger", [CronTrigger(("*/15 * * * *",)), QUARTERS])
def test_jitter_is_part_of_the_due_instant(trigger: Trigger) -> None:
    """B65: what is recorded and told to the process is when it is to run, so it is not late."""
    world = world_of(trigger, jitter=10 * MINUTE)
    world.pass_time(45 * MINUTE)
    by = spread(10 * MINUTE, HOST, "a")
    expected = [number * 15 * MINUTE + by for number in range(4)]
    expected = [due for due in expected if ODD < due <= ODD + 45 * MINUTE]
    assert dues(world) == starts(world) == expected
    told = [process.spec.due for process in world.machine.trees]
    assert [due - BEGIN for due in told if due is not None] == expected


def test_jitter_is_the_same_after_a_restart() -> None:
    """P2: nothing is run again and nothing left out by starting anew at any time."""
    world = world_of(QUARTERS, jitter=15 * MINUTE)
    for _ in range(30):
        world.pass_time(2 * MINUTE)
        restart(world, 10 * SECOND)
    by = spread(15 * MINUTE, HOST, "a")
    expected = [number * 15 * MINUTE + by for number in range(6)]
    assert dues(world) == [due for due in expected if ODD < due <= ODD + 65 * MINUTE]


def test_jitter_and_an_offset_of_nothing() -> None:
    """The first run, too, is later by the job's own amount."""
    world = world_of(AT_ONCE, jitter=MINUTE)
    world.pass_time(2 * MINUTE)
    assert dues(world) == starts(world) == [ODD + spread(MINUTE, HOST, "a")]
