"""Waiting for a submitted task: the answer comes when nothing of it is to come or running."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from crond_py.crontab.model import Job, StartupTrigger
from crond_py.engine.core import Core
from crond_py.engine.events import Call
from crond_py.engine.thread import Engine
from crond_py.errors import LedgerError, UnknownNameError
from crond_py.model import Lane, Outcome, Run, Scale
from crond_py.ports import NewTask, RunQuery
from tests.simulation.world import World
from tests.unit.engine.conftest import MachineWith

PLAIN = Job("plain", StartupTrigger(), "true")
MINUTE = timedelta(minutes=1)


@pytest.fixture
def world(machine_with: MachineWith) -> World:
    """Give a daemon without a job of its own."""
    return machine_with()


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


def submit(world: World, core: Core, every: timedelta | None = None) -> int:
    """Hand in a task that is due in a minute, and return its id."""
    lane = Lane("default", 0, "alice", Scale.STEADY)
    due = world.clock.now() + MINUTE
    task = NewTask(lane, due, world.tasks.define(PLAIN), "alice", every)
    (submitted,) = core.submit([task])
    return submitted.task.id


def wait(core: Core, task_id: int) -> list[Run | None]:
    """Wait for a task; return where the answer comes to."""
    seen: list[Run | None] = []
    core.handle([Call(lambda: core.task_ends.wait(task_id, seen.append))])
    return seen


def test_who_waits_gets_the_run_with_its_outcome(world: World, core: Core) -> None:
    """P1: neither before the task is due nor while it runs."""
    task_id = submit(world, core)
    seen = wait(core, task_id)
    world.pass_time(MINUTE + timedelta(milliseconds=500))
    assert seen == []
    world.pass_time(MINUTE)
    assert [run.outcome for run in seen if run is not None] == [Outcome.SUCCEEDED]


def test_a_task_that_is_over_is_answered_at_once(world: World, core: Core, engine: Engine) -> None:
    """No time at all is enough to ask."""
    task_id = submit(world, core)
    assert engine.wait_task(task_id, timedelta(0)) == (False, None)
    world.pass_time(2 * MINUTE)
    is_over, run = engine.wait_task(task_id, timedelta(0))
    assert is_over
    assert run is not None
    assert run.outcome is Outcome.SUCCEEDED


def test_one_that_comes_again_is_over_when_it_is_cancelled(world: World, core: Core) -> None:
    """Its runs before that are no answer."""
    task_id = submit(world, core, every=MINUTE)
    seen = wait(core, task_id)
    world.pass_time(5 * MINUTE)
    assert seen == []
    core.handle([Call(lambda: core.cancel_task(task_id))])
    world.pass_time(MINUTE)
    assert [run.outcome for run in seen if run is not None] == [Outcome.CANCELLED]


def test_who_waits_no_longer_is_forgotten(world: World, core: Core, engine: Engine) -> None:
    """However often a client asks about a task of next year, the daemon keeps nothing of it."""
    task_id = submit(world, core)
    for _ in range(3):
        assert engine.wait_task(task_id, timedelta(0)) == (False, None)
    assert core.task_ends._waiting == {}  # nothing else tells
    other = wait(core, task_id)
    core.task_ends.forget(task_id, [].append)
    core.task_ends.forget(999, [].append)
    world.pass_time(2 * MINUTE)
    assert len(other) == 1


def test_nobody_waits_for_a_task_that_is_not_there(engine: Engine) -> None:
    """It is an error at once, and no waiting."""
    with pytest.raises(UnknownNameError, match="there is no task 999"):
        engine.wait_task(999, timedelta(hours=1))


def test_ledger_that_cannot_tell(
    world: World, core: Core, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P4: who waits is told once it can, and a question that failed holds up no start."""
    task_id = submit(world, core)
    tells = world.ledger.task
    lane = Lane("tiny", 0, "bob", Scale.STEADY)
    due = world.clock.now() + MINUTE
    other = NewTask(lane, due, world.tasks.define(PLAIN), "bob", None)
    core.submit([other, other])  # one after the other, as there is one slot
    seen = wait(core, task_id)
    asked: list[int] = []

    def fail_once(number: int) -> object:
        asked.append(number)
        if len(asked) == 1:
            raise LedgerError("disk I/O error")
        return tells(number)

    world.pass_time(MINUTE - timedelta(seconds=1))
    monkeypatch.setattr(world.ledger, "task", fail_once)
    world.pass_time(MINUTE)
    assert len(asked) > 1
    assert [run is not None and run.outcome for run in seen] == [Outcome.SUCCEEDED]
    first, second = (world.ledger.runs(RunQuery(job=f"task:{n}", limit=1))[0] for n in (2, 3))
    ended, began = first.attempts[0].finished_at, second.attempts[0].started_at
    assert ended is not None
    assert began is not None
    assert began - ended < timedelta(milliseconds=500)
    assert not any("cannot be written" in record.message for record in caplog.records)
