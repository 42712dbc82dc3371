"""The engine in trouble: a clock set back while it was down, a ledger, a fault of its own."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from crond_py.crontab.model import CronTrigger, EveryTrigger, Job, Trigger
from crond_py.engine.events import Call, StopLimitDue, TimersFired
from crond_py.engine.view import Cancelled
from crond_py.errors import LedgerError
from crond_py.model import EveryMode, OnCrash, Outcome, Overlap
from crond_py.ports import RunQuery
from tests.simulation.fakes import Behaviour
from tests.simulation.world import World

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)


def world_of(trigger: Trigger, **more: object) -> World:
    """Return a machine on which a daemon with one job has just started."""
    world = World(0)
    job = Job("a", trigger, "true", timezone="UTC", keep_runs=None, keep_for=None)
    world.jobs = {"a": replace(job, **more)}
    world.machine.behaviours = {"a": Behaviour()}
    world.boot_daemon()
    return world


@pytest.mark.parametrize("mode", EveryMode)
def test_elapsed_time_does_not_wait_for_an_old_reading(mode: EveryMode) -> None:
    """P1: an interval goes on at once after the clock was set back while nobody was there."""
    world = world_of(EveryTrigger(MINUTE, mode))
    world.pass_time(5 * MINUTE)
    before = len(world.machine.trees)
    world.kill_daemon()
    world.clock.jump(-timedelta(hours=1))
    world.boot_daemon()
    world.pass_time(5 * MINUTE)
    assert len(world.machine.trees) - before >= 4


def test_a_stop_waits_for_the_ledger() -> None:
    """P8: how a run ended is written before a daemon goes, if the ledger recovers in time."""
    world = world_of(CronTrigger(("* * * * *",)))
    world.pass_time(MINUTE + SECOND / 2)
    assert world.daemon is not None
    stopped: list[bool] = []
    world.ledger.failing = LedgerError("disk full")
    world.daemon.core.stop(None, lambda: stopped.append(True))
    world.pass_time(5 * SECOND)
    assert not world.machine.alive
    assert not stopped
    world.ledger.failing = None
    world.pass_time(2 * SECOND)
    assert stopped == [True]
    (run,) = world.ledger.runs(RunQuery())
    assert run.outcome is Outcome.SUCCEEDED


def test_a_stop_does_not_wait_for_ever() -> None:
    """A ledger that does not recover holds a stop up to its limit and no longer."""
    world = world_of(CronTrigger(("* * * * *",)))
    world.pass_time(MINUTE + SECOND / 2)
    assert world.daemon is not None
    stopped: list[bool] = []
    world.ledger.failing = LedgerError("disk full")
    world.daemon.core.stop(30 * SECOND, lambda: stopped.append(True))
    world.pass_time(29 * SECOND)
    assert not stopped
    world.pass_time(2 * SECOND)
    assert stopped == [True]


def test_a_cancel_while_a_claim_is_pending_outlives_a_power_cut() -> None:
    """P6: once it is said that a run is cancelled, it stays so and is not run again."""
    world = world_of(CronTrigger(("* * * * *",)), on_crash=OnCrash.RERUN, overlap=Overlap.ALLOW)
    world.machine.behaviours = {"a": Behaviour(lasts=(MINUTE,))}
    world.pass_time(MINUTE / 2)
    world.ledger.failing = LedgerError("disk full")
    world.pass_time(MINUTE / 2 + SECOND / 2 - world.clock.now().microsecond * SECOND / 10**6)
    world.ledger.failing = None
    assert world.daemon is not None
    core, told = world.daemon.core, list[Cancelled]()
    core.handle([Call(lambda: told.extend(core.cancel_job("a")))])
    assert [each.run_id for each in told] == [1]
    world.ledger = world.ledger.crash(power_cut=True, flushed=0)
    world.daemon = None
    world.machine.reboot()
    world.boot_daemon()
    run = world.ledger.run(1)
    assert run is not None
    assert run.outcome is Outcome.CANCELLED


def test_a_failing_ledger_is_asked_once_a_second() -> None:
    """P4: however many ask for something meanwhile, one attempt to write waits for its time."""
    world = world_of(CronTrigger(("* * * * * *",)))
    assert world.daemon is not None
    attempts = 0

    def count(*_: object, **__: object) -> None:
        nonlocal attempts
        attempts += 1
        message = "locked"
        raise LedgerError(message)

    world.ledger.write = count  # type: ignore[method-assign]
    for _ in range(10):
        world.pass_time(SECOND)
        world.daemon.core.handle([Call(world.daemon.core.status)])
    assert attempts <= 12


def test_a_fault_in_one_event_ends_nothing() -> None:
    """P8: what goes wrong with one event is logged, and the others are dealt with."""
    world = world_of(CronTrigger(("* * * * *",)))
    assert world.daemon is not None

    def bad() -> None:
        message = "oops"
        raise RuntimeError(message)

    world.daemon.core.handle([Call(bad), object()])
    world.pass_time(2 * MINUTE)
    assert len(world.machine.trees) == 2


def test_a_fault_in_one_timer_holds_up_none_that_is_due_with_it() -> None:
    """P8: what goes wrong with one timer is logged, and those of the same moment are dealt with."""
    world = world_of(CronTrigger(("* * * * *",)))
    assert world.daemon is not None
    core = world.daemon.core
    world.pass_time(MINUTE + SECOND / 2)
    (tree,) = world.machine.alive
    core.stop(None, lambda: None)
    assert not tree.stops
    due = [object(), StopLimitDue()]
    core.handle([TimersFired(due, world.clock.monotonic_ns(), is_after_ends=True)])
    assert len(tree.stops) == 1
