"""A job with many runs at a time: each is entered and taken off in the same number of steps."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

from crond_py.crontab.model import CronTrigger, Job, StartupTrigger
from crond_py.engine.records import ActiveRun, JobState, Stage
from crond_py.model import Cause, Cursor, Missed, Run, State
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, outcomes
from tests.unit.engine.counting import steps

NOW = datetime(2026, 5, 1, tzinfo=UTC)
OFTEN = Job("a", CronTrigger(("* * * * * *",)), "true", missed=Missed.ALL)


def _state(*seconds: int) -> tuple[JobState, list[ActiveRun]]:
    """Return a job whose runs, due at those seconds, wait behind others."""
    job = Job("a", StartupTrigger(), "true")
    state = JobState(job, Cursor("a", "", 0, NOW, NOW))
    runs = []
    for number, second in enumerate(seconds):
        due = NOW + second * SECOND
        run = Run(number + 1, "a", number, due, Cause.SCHEDULE, State.QUEUED, NOW)
        runs.append(ActiveRun(job, run, Stage.BEHIND))
        state.put_behind(runs[-1])
    return state, runs


def test_no_run_is_copied_for_another() -> None:
    """P4: what holds a job's runs is the same with one more, and with one less."""
    state, (first, second, third) = _state(1, 2, 3)
    queued = state.queued
    state.drop(second)
    assert state.queued is queued
    state.take_up(third)
    active = state.active
    state.put_behind(second)
    state.take_up(first)
    assert state.queued is queued
    assert state.active is active
    assert (list(state.active), list(state.queued)) == ([third, first], [second])


def test_what_is_active_already_keeps_its_place() -> None:
    """A run that is taken up again is neither the last one then, nor there twice."""
    state, (first, second) = _state(1, 2)
    for run in (first, second, first):
        state.take_up(run)
    assert list(state.active) == [first, second]
    assert state.load.active == 2


def test_runs_are_found_by_their_instant() -> None:
    """Those of an instant that came twice are all found, as long as they have no outcome."""
    state, (first, other, second) = _state(1, 2, 1)
    assert list(state.open_at(first.run.due)) == [first, second]
    state.take_up(first)
    state.drop(second)
    assert list(state.open_at(first.run.due)) == [first]
    state.drop(first)
    assert not state.open_at(first.run.due)
    state.drop(other)
    assert (state.active, state.queued, state.by_due) == ((), (), None)


def _missed(machine_with: MachineWith, number: int) -> World:
    """Return a world whose daemon finds at its start that a job has missed so many runs."""
    world = machine_with(replace(OFTEN, missed_limit=number), lasts=timedelta(milliseconds=100))
    world.pass_time(3 * SECOND)
    world.kill_daemon()
    world.pass_time((number + 10) * SECOND)
    return world


def test_many_runs_that_wait_go_one_after_the_other(machine_with: MachineWith) -> None:
    """P4: four times as many are four times the work, from the start to the last of them."""
    costs = []
    for many in (100, 400):
        world = _missed(machine_with, many)
        cost = steps(world.boot_daemon) + steps(partial(world.pass_time, many * SECOND))
        assert outcomes(world).count("succeeded") >= many
        costs.append(cost)
    assert costs[1] < 4.5 * costs[0]


def test_many_runs_that_wait_are_cancelled_together(machine_with: MachineWith) -> None:
    """P4: so it is where all of them end at once."""
    costs = []
    for many in (100, 400):
        world = _missed(machine_with, many)
        world.boot_daemon()
        costs.append(steps(partial(world.ask, lambda core: core.cancel_job("a"))))
        assert outcomes(world).count("cancelled") >= many
    assert costs[1] < 4.5 * costs[0]
