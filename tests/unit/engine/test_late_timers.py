"""Timers that are dealt with late, after a freeze: what had ended by then is told of before them.

A machine that was frozen hears of both at once, and here of its timers first.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from crond_py.crontab.model import EveryTrigger, Job, StartupTrigger
from crond_py.model import Lane, Outcome, Overlap, Run, Scale
from crond_py.ports import NewTask
from tests.simulation.fakes import Behaviour
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, rows

OFTEN = Job("a", EveryTrigger(10 * SECOND), "true")


def _frozen(world: World) -> None:
    """Freeze a machine, while a run ends and after that the next is due, not long ago."""
    world.sees_timers_first = True
    world.freeze(8.5 * SECOND)
    world.pass_time(SECOND)


def _how(runs: list[Run]) -> list[str]:
    return [str(run.outcome or run.state) for run in runs]


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.REPLACE])
def test_a_run_that_had_ended_is_not_in_the_way(
    machine_with: MachineWith, overlap: Overlap
) -> None:
    """P3: the next one is neither skipped nor does it replace what was over in time."""
    world = machine_with(replace(OFTEN, overlap=overlap), lasts=9 * SECOND)
    world.pass_time(12 * SECOND)
    assert _how(rows(world)) == ["running"]
    _frozen(world)
    assert _how(rows(world)) == ["succeeded", "running"]


@pytest.mark.parametrize("overlap", [Overlap.SKIP, Overlap.REPLACE])
def test_a_tasks_run_that_had_ended_is_not_in_the_way(
    machine_with: MachineWith, overlap: Overlap
) -> None:
    """P3: likewise for what was submitted."""
    world = machine_with()
    world.machine.behaviours["task:1"] = Behaviour(lasts=(9 * SECOND,))
    job = Job("plain", StartupTrigger(), "true", overlap=overlap)
    due = world.clock.now() + SECOND
    lane = Lane("default", 0, "alice", Scale.STEADY)
    task = NewTask(lane, due, world.tasks.define(job), "alice", 10 * SECOND, None)
    world.ask(lambda core: core.submit([task]))
    world.pass_time(3 * SECOND)
    assert _how(rows(world, "task:1")) == ["running"]
    _frozen(world)
    assert _how(rows(world, "task:1")) == ["succeeded", "running"]


def test_a_run_that_had_ended_in_time_has_no_timeout(machine_with: MachineWith) -> None:
    """P6: it is not said of it that it was ended."""
    world = machine_with(replace(OFTEN, timeout=5 * SECOND), lasts=4 * SECOND)
    world.pass_time(12 * SECOND)
    _frozen(world)
    assert rows(world)[0].outcome is Outcome.SUCCEEDED


def test_a_run_that_had_ended_is_not_ended_by_a_stop(machine_with: MachineWith) -> None:
    """P6: nor where a stop has waited for it, and it has ended in time."""
    world = machine_with(OFTEN, lasts=9 * SECOND)
    world.pass_time(12 * SECOND)
    world.stop(8 * SECOND)
    _frozen(world)
    (run,) = rows(world)
    assert run.outcome is Outcome.SUCCEEDED
    assert run.reason == ""
