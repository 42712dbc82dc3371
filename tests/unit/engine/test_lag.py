"""How late runs start: what each waited for, the distribution, and the warning."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crond_py.crontab.model import CronTrigger, EveryTrigger, Group, Job, Pool
from crond_py.engine.lag import LAGS_OF_A_JOB, LagRecord, Wait, Waits
from crond_py.model import Exit, Lag, Overlap, Retry, State
from tests.simulation.fakes import Behaviour
from tests.simulation.tasks import MOST_WAITING
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, outcomes, reload, rows
from tests.unit.engine.test_chains import HEAD, after, to_the_hour
from tests.unit.engine.test_tasks import HOUR, PLAIN, lasting, new_task, submit

MINUTE = timedelta(minutes=1)
JOB = Job("a", CronTrigger(("0 * * * *",)), "true", timezone="UTC")
MS = 1_000_000
CAUSES = ("dispatch", "dependency", "overlap", "pool", "spawn")


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


SPANS = st.one_of(
    st.just(timedelta(0)),
    st.integers(0, 10**6).map(lambda ms: timedelta(milliseconds=ms)),
    st.integers(0, 400).map(lambda days: timedelta(days=days, microseconds=1)),
)


@given(st.lists(st.builds(Lag, SPANS, SPANS, SPANS, SPANS, SPANS), min_size=1, max_size=20))
def test_the_distribution_is_split_by_cause(lags: list[Lag]) -> None:
    """Of each cause there is what a list of its spans, the newest ones, comes to."""
    record = LagRecord(8)
    for lag in lags:
        record.add(lag)
    summary = record.sample().summary()
    newest = lags[-8:]
    assert summary is not None
    assert summary.count == len(newest)
    of_causes = {name: getattr(summary.causes, name) for name in CAUSES}
    for name, figures in {"own": summary, **of_causes}.items():
        spans = [getattr(lag, name) for lag in newest]
        ranked = sorted(spans)
        assert figures.last == spans[-1]
        assert figures.p50 == ranked[(len(ranked) - 1) // 2]
        assert figures.p99 == figures.largest == ranked[-1]


def test_a_record_of_a_job_is_small() -> None:
    """Most jobs wait for the daemon and the system alone: four bytes for each of these a start."""
    record = LagRecord(LAGS_OF_A_JOB)
    for _ in range(2 * LAGS_OF_A_JOB):
        record.add(Lag(dispatch=SECOND, spawn=SECOND))
    sample = record.sample()
    assert (sample.dependency_us, sample.overlap_us, sample.pool_us) == ((), (), ())
    columns = (sample.own_us, sample.spawn_us)
    assert sum(map(sys.getsizeof, columns)) < 2 * 4 * LAGS_OF_A_JOB + 200


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


@pytest.mark.parametrize("is_restarted", [False, True])
def test_behind_one_that_waits_for_a_slot(machine_with: MachineWith, is_restarted: bool) -> None:
    """Who waits for an earlier run that finds no slot waits for that slot: more would help."""
    rarely = replace(JOB, trigger=CronTrigger(("0 0 1 1 *",)), pool="tiny")
    busy = replace(rarely, name="busy", priority=9)
    world = machine_with(busy, replace(rarely, overlap=Overlap.QUEUE))
    world.machine.behaviours["busy"] = Behaviour(lasts=(MINUTE,))
    world.machine.behaviours["a"] = Behaviour(lasts=(10 * SECOND,))
    for name in ("busy", "a", "a", "a"):
        world.ask(lambda core, name=name: core.trigger(name, is_forced=False, then=lambda _: None))
    world.pass_time(20 * SECOND)
    if is_restarted:
        _restart(world)
    assert world.daemon is not None
    (pool,) = [p for p in world.daemon.core.status().pools if p.name == "tiny"]
    assert (pool.waiting, pool.behind) == (1, 2)
    world.pass_time(3 * MINUTE)
    lags = [lag_of(world, "a", number) for number in range(3)]
    for number, lag in enumerate(lags):
        assert lag.pool.total_seconds() == near(MINUTE)
        assert lag.overlap.total_seconds() == near(number * 10 * SECOND)


def test_a_pool_that_gives_up_its_runs_does_not_look_well(machine_with: MachineWith) -> None:
    """What was skipped as too late was as late as it had waited, and is counted."""
    busy = replace(JOB, name="busy", pool="tiny", priority=9)
    hurried = replace(JOB, pool="tiny", start_within=20 * SECOND)
    world = machine_with(busy, hurried, replace(hurried, name="b"), lasts=MINUTE)
    to_the_hour(world, 30 * SECOND)
    assert [outcomes(world, name) for name in ("a", "b")] == [["skipped"], ["skipped"]]
    assert world.daemon is not None
    status = world.daemon.core.status()
    (pool,) = [p for p in status.pools if p.name == "tiny"]
    assert pool.given_up == 2
    assert pool.lag is not None
    assert (pool.lag.count, pool.lag.largest.total_seconds()) == (3, near(20 * SECOND))
    assert pool.lag.causes.pool.largest.total_seconds() == near(20 * SECOND)
    (job,) = [each for each in status.jobs if each.job.name == "a"]
    assert job.lag is not None
    summary = job.lag.summary()
    assert summary is not None
    assert summary.last.total_seconds() == near(20 * SECOND)


def test_what_a_run_waits_for_is_its_reason(machine_with: MachineWith) -> None:
    """P8: of each run that waits the status says for what: a slot, its group, an earlier run."""
    slot = [replace(JOB, name=name, pool="one") for name in ("first", "second")]
    grouped = [replace(JOB, name=name, group="g") for name in ("third", "fourth")]
    behind = replace(JOB, name="fifth", trigger=EveryTrigger(MINUTE), overlap=Overlap.QUEUE)
    world = machine_with(*slot, *grouped, behind, lasts=90 * SECOND)
    pools = (Pool("default"), Pool("one", 1))
    groups = {"g": Group("g", max_running=1)}
    reload(world, *slot, *grouped, behind, pools=pools, groups=groups)
    to_the_hour(world, 65 * SECOND)
    assert world.daemon is not None
    runs = [run for job in world.daemon.core.status().jobs for run in job.active]
    waiting = {run.job: run.reason for run in runs if run.state is State.QUEUED}
    assert waiting == {
        "second": "waits for a slot of pool one",
        "fourth": "waits for a slot of group g",
        "fifth": "waits for an earlier run",
    }
    assert not any(run.reason for run in runs if run.state is State.RUNNING)


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


# --- across a restart -----------------------------------------------------------------------------


def _restart(world: World, *, after: timedelta = 10 * SECOND) -> None:
    world.kill_daemon()
    world.pass_time(after)
    world.boot_daemon()


def _is_whole(world: World, lag: Lag, job: str = "a", number: int = 0) -> None:
    """Hold that the parts of a lag add up to what passed from the due instant to the start."""
    run = rows(world, job)[number]
    started_at = run.attempts[0].started_at
    assert started_at is not None
    assert lag.whole.total_seconds() == pytest.approx((started_at - run.due).total_seconds())


def test_an_overlap_goes_on_across_a_restart(machine_with: MachineWith) -> None:
    """What still has an earlier run before it after the restart has waited for that all along."""
    job = replace(JOB, trigger=CronTrigger(("* * * * *",)), overlap=Overlap.QUEUE)
    world = machine_with(job, lasts=80 * SECOND)
    world.pass_time(2 * MINUTE + 2 * SECOND)
    assert outcomes(world) == ["running", "queued"]
    _restart(world)
    world.pass_time(MINUTE)
    lag = lag_of(world, "a", 1)
    assert lag.overlap.total_seconds() == near(20 * SECOND)
    assert lag.own - lag.overlap < SECOND
    _is_whole(world, lag, "a", 1)


def test_what_nobody_stands_before_any_more_waits_for_the_daemon(machine_with: MachineWith) -> None:
    """The earlier run has ended while no daemon was there, so it is that that was waited for."""
    job = replace(JOB, trigger=CronTrigger(("* * * * *",)), overlap=Overlap.QUEUE)
    world = machine_with(job, lasts=80 * SECOND)
    world.pass_time(2 * MINUTE + 2 * SECOND)
    _restart(world, after=40 * SECOND)
    world.pass_time(SECOND)
    lag = lag_of(world, "a", 1)
    assert lag.dispatch.total_seconds() == near(42 * SECOND)
    _is_whole(world, lag, "a", 1)


@pytest.mark.parametrize("is_asked_for", [False, True])
def test_a_full_pool_is_waited_for_across_a_restart(
    machine_with: MachineWith, *, is_asked_for: bool
) -> None:
    """What still finds no slot has waited for one since it was due, or since it was asked for."""
    jobs = [replace(JOB, name=name, pool="small") for name in "abc"]
    jobs[2] = replace(jobs[2], trigger=CronTrigger(("0 0 1 1 *",))) if is_asked_for else jobs[2]
    world = machine_with(*jobs, lasts=30 * SECOND)
    to_the_hour(world, SECOND)
    if is_asked_for:
        world.ask(lambda core: core.trigger("c", is_forced=False, then=lambda _active: None))
    assert sorted(outcomes(world, name)[0] for name in "abc") == ["queued", "running", "running"]
    _restart(world)
    world.pass_time(MINUTE)
    lags = {name: lag_of(world, name) for name in "abc"}
    name = max(lags, key=lambda each: lags[each].own)
    assert lags[name].pool.total_seconds() == near((29 if is_asked_for else 30) * SECOND)
    assert lags[name].own - lags[name].pool < SECOND
    _is_whole(world, lags[name], name)


def test_a_dependency_is_over_with_the_claim_also_after_a_restart(
    machine_with: MachineWith,
) -> None:
    """Only what came before the claim was for the jobs that it follows."""
    busy = replace(JOB, name="busy", pool="tiny", trigger=CronTrigger(("4 * * * *",)))
    world = machine_with(HEAD, busy, replace(after("next", "head"), pool="tiny"))
    world.machine.behaviours["head"] = Behaviour(lasts=(5 * MINUTE,))
    world.machine.behaviours["busy"] = Behaviour(lasts=(3 * MINUTE,))
    to_the_hour(world, 6 * MINUTE)
    assert outcomes(world, "next") == ["queued"]
    _restart(world, after=30 * SECOND)
    world.pass_time(2 * MINUTE)
    lag = lag_of(world, "next")
    assert lag.dependency.total_seconds() == near(5 * MINUTE)
    assert lag.pool.total_seconds() == near(2 * MINUTE)
    _is_whole(world, lag, "next")


def test_a_clock_that_was_set_back_makes_nobody_early(machine_with: MachineWith) -> None:
    """What was claimed later than the clock now shows is not late yet, and never less than that."""
    job = replace(JOB, trigger=CronTrigger(("0 0 1 1 *",)), overlap=Overlap.QUEUE)
    world = machine_with(job, lasts=30 * SECOND)
    world.ask(lambda core: core.trigger("a", is_forced=False, then=lambda _active: None))
    world.ask(lambda core: core.trigger("a", is_forced=False, then=lambda _active: None))
    world.kill_daemon()
    world.set_clock(-MINUTE)
    world.boot_daemon()
    world.pass_time(2 * MINUTE)
    lag = lag_of(world, "a", 1)
    assert lag.whole == lag.overlap
    assert lag.overlap.total_seconds() == near(30 * SECOND)


def test_retries_have_no_lag(machine_with: MachineWith) -> None:
    """Only the first process of a run can be late."""
    world = machine_with(replace(JOB, retry=Retry(attempts=2, delay=MINUTE)), exits=(Exit(code=1),))
    to_the_hour(world, 5 * MINUTE)
    first, second = rows(world)[0].attempts
    assert first.lag is not None
    assert second.lag is None


def test_tasks_that_are_given_up_when_their_turn_comes_count(machine_with: MachineWith) -> None:
    """So do those of which the ledger had to be asked first: they had waited there for a slot."""
    world = machine_with()
    lasting(world, 10 * SECOND)
    submit(world, *[new_task(world, pool="tiny")] * (3 * MOST_WAITING))
    hurried = replace(PLAIN, start_within=5 * SECOND)
    submit(world, *[new_task(world, hurried, pool="tiny", in_=2 * SECOND)] * 4)
    world.pass_time(HOUR)
    assert world.daemon is not None
    (pool,) = [p for p in world.daemon.core.status().pools if p.name == "tiny"]
    assert pool.given_up == 4
    assert pool.lag is not None
    assert pool.lag.count == 3 * MOST_WAITING + 4
    assert pool.lag.causes.dispatch.largest < SECOND


def test_late_pools_are_told_once_an_episode(
    machine_with: MachineWith, caplog: pytest.LogCaptureFixture
) -> None:
    """P4: the warning comes while runs still wait, once, and again only after it was over.

    That is told five minutes after the last one was late, though none starts then.
    """
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
    world.pass_time(6 * MINUTE)
    assert outcomes(world, "d") == ["succeeded"]
    assert told("runs start late") == 1
    assert told("runs start in time again") == 0
    world.pass_time(MINUTE)
    assert told("runs start in time again") == 1
    assert world.daemon is not None
    assert world.daemon.core._register.pools["one"].look_ns is None, "an idle daemon sleeps"
    to_the_hour(world, MINUTE)
    assert told("runs start late") == 2


def test_runs_that_are_late_time_and_again_are_one_episode(
    machine_with: MachineWith, caplog: pytest.LogCaptureFixture
) -> None:
    """P4: a pool that is overloaded for long is told of once, whatever starts in time meanwhile."""
    caplog.set_level(logging.INFO, "pycron.engine")
    often = replace(JOB, trigger=EveryTrigger(15 * SECOND), pool="one")
    jobs = [replace(often, name=name) for name in "ab"]
    world = machine_with(*jobs, lasts=7 * SECOND)
    pools = (Pool("default"), Pool("one", 1, lag_warning=5 * SECOND))
    reload(world, *jobs, pools=pools)
    told = ["runs start late", "runs start in time again"]
    world.pass_time(20 * MINUTE)
    assert [each.message for each in caplog.records if each.message in told] == told[:1]
    reload(world, jobs[0], pools=pools)
    world.pass_time(6 * MINUTE)
    assert [each.message for each in caplog.records if each.message in told] == told


def test_an_episode_goes_on_while_one_waits_and_nothing_starts(
    machine_with: MachineWith, caplog: pytest.LogCaptureFixture
) -> None:
    """P4: it is over five minutes after that one was given up or cancelled."""
    caplog.set_level(logging.INFO, "pycron.engine")
    jobs = [replace(JOB, name="a", pool="one"), replace(JOB, name="b", pool="one")]
    jobs[1] = replace(jobs[1], start_within=HOUR / 2)
    world = machine_with(*jobs, lasts=HOUR * 3 / 4)
    pools = (Pool("default"), Pool("one", 1, lag_warning=5 * SECOND))
    reload(world, *jobs, pools=pools)
    told = ["runs start late", "runs start in time again"]
    to_the_hour(world, 34 * MINUTE)
    assert [each.message for each in caplog.records if each.message in told] == told[:1]
    world.pass_time(2 * MINUTE)
    assert [each.message for each in caplog.records if each.message in told] == told


def test_one_that_waits_as_an_episode_ends_is_told_when_it_is_late(
    machine_with: MachineWith, caplog: pytest.LogCaptureFixture
) -> None:
    """P4: what began to wait before the last warning was over has one of its own, in time."""
    caplog.set_level(logging.INFO, "pycron.engine")
    rarely = replace(JOB, trigger=CronTrigger(("0 0 1 1 *",)), pool="one")
    jobs = [replace(rarely, name=name) for name in "abcd"]
    world = machine_with(*jobs)
    for name, lasts_s in {"a": 20, "b": 297, "c": 3600, "d": 1}.items():
        world.machine.behaviours[name] = Behaviour(lasts=(lasts_s * SECOND,))
    pools = (Pool("default"), Pool("one", 1, lag_warning=5 * SECOND))
    reload(world, *jobs, pools=pools)

    def ask_for(name: str) -> None:
        world.ask(lambda core: core.trigger(name, is_forced=False, then=lambda _active: None))

    ask_for("a")
    ask_for("b")  # it waits for 20 s and is told of
    world.pass_time(20 * SECOND + 295 * SECOND)
    ask_for("c")  # it waits for 2 s, and three seconds later the episode is over
    world.pass_time(4 * SECOND)
    ask_for("d")  # it waits for an hour
    told = ["runs start late", "runs start in time again"]
    world.pass_time(4 * SECOND)
    assert [each.message for each in caplog.records if each.message in told] == told
    world.pass_time(2 * SECOND)
    assert [each.message for each in caplog.records if each.message in told] == [*told, told[0]]


def test_one_that_starts_in_time_ends_no_episode_while_others_wait(
    machine_with: MachineWith, caplog: pytest.LogCaptureFixture
) -> None:
    """P4: what has priority goes past a crowd in time, which is as late as before."""
    caplog.set_level(logging.INFO, "pycron.engine")
    jobs = [replace(JOB, name=f"crowd{number}", pool="one") for number in range(9)]
    urgent = replace(JOB, name="urgent", trigger=EveryTrigger(7 * SECOND), pool="one", priority=9)
    world = machine_with(*jobs, urgent, lasts=10 * SECOND)
    pools = (Pool("default"), Pool("one", 2, lag_warning=15 * SECOND))
    reload(world, *jobs, urgent, pools=pools)
    to_the_hour(world, 40 * SECOND)
    late = [each for each in caplog.records if each.message == "runs start late"]
    over = [each for each in caplog.records if each.message == "runs start in time again"]
    assert (len(late), len(over)) == (1, 0)
    told = vars(late[0])["fields"]
    assert told["pool"] == "one"
    assert str(told["job"]).startswith("crowd")
    assert told["late"] == 15 * SECOND


def test_episode_goes_on_while_more_of_a_job_waits_behind_one_that_was_late(
    machine_with: MachineWith, caplog: pytest.LogCaptureFixture
) -> None:
    """P4: another job that starts in time ends no episode of one that is late by itself."""
    caplog.set_level(logging.INFO, "pycron.engine")
    slow = replace(JOB, name="slow", trigger=EveryTrigger(3 * SECOND), overlap=Overlap.QUEUE)
    slow = replace(slow, pool="one", queue_limit=5)
    quick = replace(JOB, name="quick", trigger=EveryTrigger(SECOND), pool="one")
    world = machine_with(slow, quick, lasts=SECOND / 10)
    world.machine.behaviours["slow"] = Behaviour(lasts=(4 * SECOND,))
    pools = (Pool("default"), Pool("one", 4, lag_warning=2 * SECOND))
    reload(world, slow, quick, pools=pools)
    world.pass_time(5 * MINUTE)
    late = [each for each in caplog.records if each.message == "runs start late"]
    over = [each for each in caplog.records if each.message == "runs start in time again"]
    assert (len(late), len(over)) == (1, 0)


def test_nothing_is_kept_of_tasks_that_were_late(machine_with: MachineWith) -> None:
    """P4: memory does not grow with what a pool was late with."""
    world = machine_with()
    reload(world, pools=(Pool("default"), Pool("one", 1, lag_warning=2 * SECOND)))
    lasting(world, SECOND / 10)
    submit(world, *[new_task(world, pool="one")] * 100)
    world.pass_time(MINUTE)
    assert world.daemon is not None
    assert not world.daemon.core._register.pools["one"]._late_jobs


def test_a_timeout_counts_from_the_start(machine_with: MachineWith) -> None:
    """Waiting for a slot does not use up a run's time."""
    jobs = [replace(JOB, name=name, pool="one", timeout=40 * SECOND) for name in "ab"]
    world = machine_with(*jobs, lasts=30 * SECOND)
    reload(world, *jobs, pools=(Pool("default"), Pool("one", 1)))
    to_the_hour(world, 2 * MINUTE)
    assert outcomes(world, "a") == outcomes(world, "b") == ["succeeded"]
