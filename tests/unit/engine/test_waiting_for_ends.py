"""Waiting for a run: the answer comes with its outcome, and who gives up leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from crond_py.crontab.model import CronTrigger, Job
from crond_py.engine.core import Core
from crond_py.engine.thread import Engine
from crond_py.errors import UnknownNameError
from crond_py.model import Outcome, Run
from tests.simulation.world import World
from tests.unit.engine.conftest import MachineWith, rows

JOB = Job("a", CronTrigger(("* * * * *",)), "true", timezone="UTC", kill_after=timedelta(seconds=7))


@pytest.fixture
def world(machine_with: MachineWith) -> World:
    """Give a machine on which one run goes on for half an hour."""
    world = machine_with(JOB, lasts=timedelta(minutes=30))
    world.pass_time(timedelta(minutes=1, seconds=5))
    return world


@pytest.fixture
def core(world: World) -> Core:
    """Give the daemon's state machine."""
    assert world.daemon is not None
    return world.daemon.core


@pytest.fixture
def engine(core: Core) -> Iterator[Engine]:
    """Run the engine's thread on the machine's daemon."""
    engine = Engine()
    engine.start(core)
    yield engine
    engine.close()


def waiting(core: Core, run_id: int) -> int:
    """Return how many wait for the end of a run."""
    return len(core._register.runs[run_id].on_end)  # nothing else tells


def test_who_waits_gets_the_run_with_its_outcome(world: World, core: Core) -> None:
    """P1: the answer is the run as it stands in the ledger."""
    seen: list[Run] = []
    core.on_end(rows(world)[0].id, seen.append)
    assert seen == []
    world.pass_time(timedelta(minutes=31))
    assert [run.outcome for run in seen] == [Outcome.SUCCEEDED]


def test_who_waits_no_longer_is_forgotten(world: World, core: Core, engine: Engine) -> None:
    """However often a client asks about a run that takes days, the daemon keeps nothing of it."""
    run_id = rows(world)[0].id
    for _ in range(3):
        assert engine.wait_run(run_id, timedelta(0)) is None
    assert waiting(core, run_id) == 0


def test_one_that_gives_up_takes_no_other_with_it(world: World, core: Core) -> None:
    """Only the callback that was given is forgotten; one that is not known makes no difference."""
    run_id = rows(world)[0].id
    seen: list[Run] = []
    unwanted: list[Run] = []
    core.on_end(run_id, seen.append)
    core.on_end(run_id, unwanted.append)
    core.forget_end(run_id, unwanted.append)
    core.forget_end(run_id, unwanted.append)
    core.forget_end(999, unwanted.append)
    assert waiting(core, run_id) == 1
    world.pass_time(timedelta(minutes=31))
    assert (len(seen), unwanted) == (1, [])


def test_a_run_that_has_ended_is_answered_at_once(world: World, engine: Engine) -> None:
    """No time at all is enough to ask for an outcome that there is."""
    run_id = rows(world)[0].id
    world.pass_time(timedelta(minutes=31))
    run = engine.wait_run(run_id, timedelta(0))
    assert run is not None
    assert run.outcome is Outcome.SUCCEEDED


def test_a_cancel_says_when_it_will_be_a_kill(core: Core) -> None:
    """P6: who waits can say how long it may take at most."""
    (item,) = core.cancel_job("a")
    assert (item.was, item.ending, item.kill_after) == ("running", True, timedelta(seconds=7))


def test_nobody_waits_for_a_run_that_is_not_there(engine: Engine) -> None:
    """It is an error at once, and no waiting."""
    with pytest.raises(UnknownNameError):
        engine.wait_run(999, timedelta(hours=1))
