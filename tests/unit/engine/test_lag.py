"""How late runs start: what each waited for, the distribution, and the warning."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

import pytest

from crond_py.crontab.model import CronTrigger, Job, Pool
from crond_py.engine.lag import LagRecord, Wait, Waits
from crond_py.model import Exit, Lag, Overlap, Retry
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, outcomes, reload, rows
from tests.unit.engine.test_chains import HEAD, after, to_the_hour

MINUTE = timedelta(minutes=1)
JOB = Job("a", CronTrigger(("0 * * * *",)), "true", timezone="UTC")
MS = 1_000_000


def test_each_moment_counts_to_what_is_waited_for() -> None:
    """The parts are what passed between the turns, and add up to the whole."""
    waits = Waits(since_ns=0)
    waits.turn_to(Wait.OVERLAP, 2 * MS)
    waits.turn_to(Wait.POOL, 5 * MS)
    waits.turn_to(Wait.SPAWN, 9 * MS)
    lag = waits.end(10 * MS)
    parts = {
        "dispatch": timedelta(milliseconds=2),
        "overlap": timedelta(milliseconds=3),
        "pool": timedelta(milliseconds=4),
        "spawn": timedelta(milliseconds=1),
    }
    assert lag == Lag(**parts)
    assert lag.whole == lag.own == timedelta(milliseconds=10)


def test_nobody_is_late_before_it_is_due() -> None:
    """What passes between a claim that is made ahead and the due instant is no lag."""
    waits = Waits(since_ns=10 * MS)
    waits.turn_to(Wait.SPAWN, 2 * MS)
    assert waits.end(11 * MS) == Lag(spawn=timedelta(milliseconds=1))
    assert Waits(since_ns=10 * MS).end(9 * MS) == Lag()


@pytest.mark.parametrize(
    ("lags", "p50", "p99"),
    [([7], 7, 7), ([1, 2], 1, 2), (range(1, 101), 50, 99), (range(1, 1001), 500, 990)],
)
def test_percentiles_are_by_nearest_rank(lags: range | list[int], p50: int, p99: int) -> None:
    """The p-th percentile of n values is the one at place ceil(p / 100 * n), counted from 1."""
    record = LagRecord()
    for lag in lags:
        record.add(Lag(dispatch=timedelta(milliseconds=lag), dependency=MINUTE))
    summary = record.sample().summary()
    assert summary is not None
    assert summary.p50 == timedelta(milliseconds=p50)
    assert summary.p99 == timedelta(milliseconds=p99)
    assert summary.largest == timedelta(milliseconds=max(lags))
    assert summary.last == timedelta(milliseconds=list(lags)[-1])


def test_only_the_newest_are_remembered() -> None:
    """An old delay does not stay in the distribution for ever."""
    record = LagRecord(10)
    record.add(Lag(pool=MINUTE))
    for _ in range(10):
        record.add(Lag())
    summary = record.sample().summary()
    assert summary is not None
    assert (summary.largest, summary.count) == (timedelta(0), 10)


def lag_of(world: World, job: str, number: int = 0) -> Lag:
    """Return the lag that the ledger has of a job's run."""
    lag = rows(world, job)[number].attempts[0].lag
    assert lag is not None
    return lag


def near(span: timedelta) -> object:
    """Return what a span equals but for the claim that is made ahead."""
    return pytest.approx(span.total_seconds(), abs=0.1)


def test_behind_an_earlier_run(machine_with: MachineWith) -> None:
    """Waiting for the job's own earlier run is overlap."""
    job = replace(JOB, trigger=CronTrigger(("* * * * *",)), overlap=Overlap.QUEUE)
    world = machine_with(job, lasts=80 * SECOND)
    world.pass_time(5 * MINUTE)
    lag = lag_of(world, "a", 1)
    assert lag.overlap.total_seconds() == near(20 * SECOND)
    assert lag.own - lag.overlap < SECOND


def test_in_a_full_pool(machine_with: MachineWith) -> None:
    """Waiting for a slot is the pool's, in the row and in the status."""
    jobs = [replace(JOB, name=name, pool="one") for name in "ab"]
    world = machine_with(*jobs, lasts=30 * SECOND)
    reload(world, *jobs, pools=(Pool("default"), Pool("one", 1)))
    to_the_hour(world, 10 * SECOND)
    assert world.daemon is not None
    (pool,) = [p for p in world.daemon.core.status().pools if p.name == "one"]
    assert (pool.running, pool.waiting) == (1, 1)
    assert pool.oldest_waiting is not None
    assert pool.oldest_waiting.total_seconds() == near(10 * SECOND)
    world.pass_time(MINUTE)
    lags = sorted((lag_of(world, "a"), lag_of(world, "b")), key=lambda lag: lag.own)
    assert lags[0].own < SECOND
    assert lags[1].pool.total_seconds() == near(30 * SECOND)
    (pool,) = [p for p in world.daemon.core.status().pools if p.name == "one"]
    assert pool.lag is not None
    assert pool.lag.largest == lags[1].own


def test_waiting_for_others_is_not_being_late(machine_with: MachineWith) -> None:
    """What a chain's head takes is the dependency's, and no pool is called late for it."""
    world = machine_with(HEAD, after("next", "head"), lasts=5 * MINUTE)
    to_the_hour(world, 11 * MINUTE)
    lag = lag_of(world, "next")
    assert lag.dependency.total_seconds() == near(5 * MINUTE)
    assert lag.own < SECOND
    assert world.daemon is not None
    for pool in world.daemon.core.status().pools:
        assert pool.lag is None or pool.lag.largest < SECOND


def test_retries_have_no_lag(machine_with: MachineWith) -> None:
    """Only the first process of a run can be late."""
    world = machine_with(replace(JOB, retry=Retry(attempts=2, delay=MINUTE)), exits=(Exit(code=1),))
    to_the_hour(world, 5 * MINUTE)
    first, second = rows(world)[0].attempts
    assert first.lag is not None
    assert second.lag is None


def test_late_pools_are_told_once_an_episode(
    machine_with: MachineWith, caplog: pytest.LogCaptureFixture
) -> None:
    """P4: the warning comes while runs still wait, once, and again only after it was over."""
    caplog.set_level(logging.INFO, "pycron.engine")
    jobs = [replace(JOB, name=name, pool="one") for name in "abcd"]
    world = machine_with(*jobs, lasts=30 * SECOND)
    pools = (Pool("default"), Pool("one", 1, lag_warning=5 * SECOND))
    reload(world, *jobs, pools=pools)

    def told(text: str) -> int:
        return sum(record.message == text for record in caplog.records)

    to_the_hour(world, 4 * SECOND)
    assert told("runs start late") == 0
    world.pass_time(2 * SECOND)
    assert told("runs start late") == 1
    world.pass_time(10 * MINUTE)
    assert outcomes(world, "d") == ["succeeded"]
    assert told("runs start late") == 1
    assert told("runs start in time again") == 0
    to_the_hour(world, SECOND)
    assert told("runs start in time again") == 1
    world.pass_time(10 * MINUTE)
    assert told("runs start late") == 2


def test_a_timeout_counts_from_the_start(machine_with: MachineWith) -> None:
    """Waiting for a slot does not use up a run's time."""
    jobs = [replace(JOB, name=name, pool="one", timeout=40 * SECOND) for name in "ab"]
    world = machine_with(*jobs, lasts=30 * SECOND)
    reload(world, *jobs, pools=(Pool("default"), Pool("one", 1)))
    to_the_hour(world, 2 * MINUTE)
    assert outcomes(world, "a") == outcomes(world, "b") == ["succeeded"]
