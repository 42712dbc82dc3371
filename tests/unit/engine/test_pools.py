"""Slots: how many at once, and who is next."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from crond_py.crontab.model import Job, Pool, StartupTrigger
from crond_py.engine.pools import Slots
from crond_py.engine.records import ActiveRun, Stage
from crond_py.model import Cause, Run, State

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def waiting(name: str, priority: int = 0, due: int = 0) -> ActiveRun:
    """Return a run that waits for a slot."""
    job = Job(name, StartupTrigger(), "true", priority=priority, pool="p")
    instant = NOW + timedelta(seconds=due)
    run = Run(1, name, 0, instant, Cause.SCHEDULE, State.QUEUED, instant)
    return ActiveRun(job, run, Stage.SLOT)


def test_no_more_than_workers() -> None:
    """P4: a pool gives out as many slots as it has, and again what was given back."""
    slots = Slots(Pool("p", 2))
    assert [slots.try_take() for _ in range(3)] == [True, True, False]
    slots.release()
    assert slots.try_take()


def test_no_bound_by_default() -> None:
    """A pool without ``workers`` never says no."""
    slots = Slots(Pool("p"))
    assert all(slots.try_take() for _ in range(10_000))


def test_turns() -> None:
    """Higher priority goes first, then the earlier due, then who came first."""
    slots = Slots(Pool("p"))
    for run in (waiting("a", 0, 5), waiting("b", 0, 1), waiting("c", 7, 9), waiting("d", 0, 1)):
        slots.wait(run)
    order = [run.job.name for run in iter(slots.next_waiting, None)]
    assert order == ["c", "b", "d", "a"]


def test_who_has_gone_is_passed_over() -> None:
    """A cancelled run holds up nobody and takes no slot."""
    slots = Slots(Pool("p", 1))
    first, second = waiting("a"), waiting("b")
    slots.wait(first)
    slots.wait(second)
    first.stage = Stage.ENDED
    assert slots.waiting == 1
    assert slots.next_waiting() is second
    assert slots.next_waiting() is None
    assert not slots.has_waiting
    assert slots.taken == 1
