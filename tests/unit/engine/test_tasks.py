"""Submitted tasks, as the engine takes them up."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from crond_py.crontab.model import CronTrigger, EveryTrigger, Job, StartupTrigger
from crond_py.engine.attendance import MOST_ABSENCES, TASKS
from crond_py.engine.events import Call, TimersFired
from crond_py.engine.feeding import MANY
from crond_py.engine.lanes import LaneState
from crond_py.engine.retention import OFTEN
from crond_py.engine.tasks import Tasks
from crond_py.engine.telling import INTERNAL_FAULT
from crond_py.engine.uptake import Uptake
from crond_py.errors import LedgerError, RequestRefusedError, UnknownNameError
from crond_py.model import (
    Absence,
    Cause,
    Exit,
    Lag,
    Lane,
    Missed,
    Outcome,
    Overlap,
    Retry,
    Run,
    Scale,
    Task,
)
from crond_py.ports import Gap, NewTask, Pruned, RunQuery, SetCursor, Submitted, TaskQuery
from tests.simulation.fakes import Behaviour
from tests.simulation.jobs import BEGIN
from tests.simulation.tasks import MOST_WAITING, TaskBook
from tests.simulation.world import World
from tests.unit.engine.conftest import MachineWith, is_alive, outcomes, rows

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
PLAIN = Job("plain", StartupTrigger(), "true")


@pytest.fixture
def world(machine_with: MachineWith) -> World:
    """Give a daemon without a job of its own; pools are those of the simulation."""
    return machine_with()


def new_task(
    world: World,
    job: Job = PLAIN,
    *,
    in_: timedelta = SECOND,
    pool: str = "default",
    priority: int = 0,
    group: str = "alice",
    scale: Scale = Scale.WALL,
    every: timedelta | None = None,
    key: str | None = None,
) -> NewTask:
    """Return a task that is due in a while."""
    lane = Lane(pool, priority, group, Scale.STEADY if every else scale)
    due = world.clock.now() + in_
    return NewTask(lane, due, world.tasks.define(job), "alice", every, key)


def submit(world: World, *tasks: NewTask) -> list[Submitted]:
    """Hand tasks in."""
    answer = world.ask(lambda core: core.submit(tasks))
    assert isinstance(answer, list), answer
    return answer


def lasting(world: World, span: timedelta, *, numbers: range = range(1, 400)) -> None:
    """Have the processes of tasks last for that long."""
    for number in numbers:
        world.machine.behaviours[f"task:{number}"] = Behaviour(lasts=(span,))


def open_tasks(world: World) -> list[int]:
    """Return the ids of the tasks that have not ended."""
    return [task.id for task in world.ledger.tasks(TaskQuery(limit=None))]


def in_memory(world: World) -> int:
    """Return how many tasks the engine holds."""
    assert world.daemon is not None
    return len(world.daemon.core._register.tasks)


def all_rows(world: World) -> list[Run]:
    """Return every row, oldest due first."""
    return list(reversed(world.ledger.runs(RunQuery(limit=None))))


def restart(world: World, after: timedelta) -> None:
    """Kill the daemon, and start another one a while later."""
    world.kill_daemon()
    world.pass_time(after)
    world.boot_daemon()


# --- when --------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", Scale)
def test_runs_once_at_its_instant(world: World, scale: Scale) -> None:
    """P2, P4: a task runs when it is due, once, and is over."""
    (handed_in,) = submit(world, new_task(world, in_=30 * SECOND, scale=scale))
    world.pass_time(29 * SECOND)
    assert (is_alive(world, "task:1"), open_tasks(world)) == (0, [1])
    world.pass_time(100 * SECOND)
    assert outcomes(world, "task:1") == ["succeeded"]
    (tree,) = world.machine.trees
    assert tree.started_at == handed_in.task.due
    assert (open_tasks(world), in_memory(world)) == ([], 0)


def test_comes_again_at_its_period(world: World) -> None:
    """P1: a task with a period has a row for each of its instants."""
    begin = world.clock.now() + SECOND
    submit(world, new_task(world, in_=SECOND, every=5 * SECOND))
    world.pass_time(13 * SECOND)
    dues = [run.due for run in rows(world, "task:1")]
    assert dues == [begin, begin + 5 * SECOND, begin + 10 * SECOND]
    assert open_tasks(world) == [1]


def test_overlap_holds_for_a_task(world: World) -> None:
    """P5: an occurrence of a task whose last run still goes on is skipped, as that of a job."""
    lasting(world, 8 * SECOND)
    submit(world, new_task(world, every=5 * SECOND))
    world.pass_time(12 * SECOND)
    assert outcomes(world, "task:1") == ["succeeded", "skipped", "running"]


def test_replaced_runs_do_not_hide_what_replaces_them(world: World) -> None:
    """P5: a run that was replaced before it began leaves its task known."""
    job = replace(PLAIN, overlap=Overlap.REPLACE)
    lasting(world, 60 * SECOND)
    submit(world, new_task(world, pool="tiny", in_=0 * SECOND))
    submit(world, new_task(world, job, pool="tiny", every=2 * SECOND))
    world.pass_time(7 * SECOND)
    assert outcomes(world, "task:2") == ["cancelled", "cancelled", "cancelled", "queued"]
    assert in_memory(world) == 2


def test_retries_like_a_job(world: World) -> None:
    """A task has the keys of a job."""
    job = replace(PLAIN, retry=Retry(3, SECOND))
    world.machine.behaviours["task:1"] = Behaviour(exits=(Exit(code=1),))
    submit(world, new_task(world, job))
    world.pass_time(60 * SECOND)
    (run,) = rows(world, "task:1")
    assert (run.outcome, len(run.attempts)) == (Outcome.FAILED, 3)


# --- many --------------------------------------------------------------------------------------


def test_memory_does_not_grow_with_what_is_stored(world: World) -> None:
    """P4: of a lane a bounded number waits in memory; the rest follows in the order of due."""
    lasting(world, SECOND)
    submit(world, *[new_task(world, pool="tiny", in_=SECOND)] * 300)
    for _ in range(20):
        world.pass_time(16 * SECOND)
        assert in_memory(world) <= MOST_WAITING + 1
    assert outcomes(world, "task:300") == ["succeeded"]
    begun = [int(tree.job.removeprefix("task:")) for tree in world.machine.trees]
    assert begun == list(range(1, 301))
    assert {run.cause for run in all_rows(world)} == {Cause.SCHEDULE}


def lanes_of(world: World) -> dict[Lane, LaneState]:
    """Return the lanes that the engine knows."""
    assert world.daemon is not None
    return world.daemon.core._tasks._lanes


def test_what_is_taken_up_costs_no_look_at_every_lane(world: World) -> None:
    """P4: a thousand groups with tasks that come later cost a task that is due nothing."""
    submit(world, *[new_task(world, group=f"g{n}", in_=(n + 1) * HOUR) for n in range(50)])
    submit(world, new_task(world, every=5 * SECOND), new_task(world, group="other"))

    class Watched(dict[Lane, LaneState]):
        looks = 0

        def values(self) -> Any:
            self.looks += 1
            return super().values()

    assert world.daemon is not None
    watched = world.daemon.core._tasks._lanes = Watched(lanes_of(world))
    world.pass_time(60 * SECOND)
    assert watched.looks == 0
    assert len(all_rows(world)) > 10
    assert len(watched) == 51
    counts = world.daemon.core.status().tasks
    assert counts.next_due is not None
    assert counts.next_due - world.clock.now() <= 5 * SECOND


def test_lanes_that_have_nothing_left_are_let_go_of(world: World) -> None:
    """Memory does not grow with the groups that ever were; nor after a restart."""
    lasting(world, 60 * SECOND)
    submit(world, *[new_task(world, group=f"g{n}") for n in range(20)])
    submit(world, new_task(world, pool="tiny"), new_task(world, pool="tiny"))
    world.pass_time(5 * SECOND)
    assert list(lanes_of(world)) == [Lane("tiny", 0, "alice")]
    restart(world, SECOND)
    assert list(lanes_of(world)) == [Lane("tiny", 0, "alice")]
    world.pass_time(200 * SECOND)
    assert (open_tasks(world), in_memory(world), lanes_of(world)) == ([], 0, {})


def _has_gone_by(world: World, lane: Lane) -> None:
    """Let all tasks end; meanwhile no more wait in a lane than do, and then it is let go of."""
    assert lanes_of(world)[lane].waiting == 2
    world.pass_time(60 * SECOND)
    assert (open_tasks(world), in_memory(world), lanes_of(world)) == ([], 0, {})


def test_a_late_timer_of_a_lane_that_was_let_go_of(world: World) -> None:
    """It takes up nothing: what came to the lane since is counted in the one that there is now."""
    lasting(world, 25 * SECOND)
    lane = Lane("tiny", 0, "alice")
    submit(world, new_task(world, pool="tiny", group="first"))
    submit(world, new_task(world, pool="tiny", in_=HOUR))
    world.pass_time(2 * SECOND)
    submit(world, new_task(world, pool="tiny", in_=SECOND))
    world.ask(lambda core: core.cancel_task(2))
    assert world.daemon is not None
    core = world.daemon.core
    world.clock.advance_ns(20_000_000_000)
    now_ns = world.clock.monotonic_ns()
    late = TimersFired(world.daemon.timers.pop_due(now_ns), now_ns)
    again = [new_task(world, pool="tiny", in_=timedelta(0))] * 2
    core.handle([late, Call(lambda: core.cancel_task(3))])
    assert lane not in lanes_of(world)
    core.handle([Call(lambda: core.submit(again))])
    world.pass_time(SECOND)
    _has_gone_by(world, lane)


def test_a_lane_that_was_let_go_of_while_more_of_it_was_to_be_taken_up(world: World) -> None:
    """Likewise where the last that ran or was to come was cancelled just before."""
    lasting(world, 10 * SECOND)
    lane = Lane("tiny", 0, "alice")
    submit(world, new_task(world, pool="tiny", group="first"))
    submit(world, new_task(world, pool="tiny"), new_task(world, pool="tiny", in_=HOUR))
    world.pass_time(2 * SECOND)
    assert world.daemon is not None
    core = world.daemon.core
    again = [new_task(world, pool="tiny", in_=timedelta(0))] * 2
    cancels = [Call(lambda: core.cancel_task(3)), Call(lambda: core.cancel_task(2))]
    core.handle([*cancels, Call(lambda: core.submit(again))])
    world.pass_time(SECOND)
    _has_gone_by(world, lane)


def test_another_group_does_not_wait_for_a_crowd(world: World) -> None:
    """P4: a task of another group gets the next slot, however many of the first are due."""
    lasting(world, timedelta(milliseconds=100))
    submit(world, *[new_task(world, pool="tiny", in_=SECOND)] * 300)
    submit(world, new_task(world, pool="tiny", in_=2 * SECOND, group="bob"))
    world.pass_time(4 * SECOND)
    (run,) = rows(world, "task:301")
    started_at = run.attempts[0].started_at
    assert started_at is not None
    assert started_at - run.due <= timedelta(milliseconds=100)


def test_higher_priority_goes_first(world: World) -> None:
    """P4: priorities hold for tasks, however many wait in the ledger."""
    lasting(world, timedelta(milliseconds=100))
    submit(world, *[new_task(world, pool="tiny", in_=SECOND)] * 200)
    submit(world, *[new_task(world, pool="tiny", in_=2 * SECOND, priority=5)] * 3)
    world.pass_time(3 * SECOND)
    assert [outcomes(world, f"task:{number}") for number in (201, 202, 203)] == [["succeeded"]] * 3


def test_time_in_the_ledger_is_time_for_a_slot(world: World) -> None:
    """How late a task starts is said of the pool, also as long as it was not taken up."""
    lasting(world, SECOND)
    submit(world, *[new_task(world, pool="tiny", in_=SECOND)] * 120)
    world.pass_time(125 * SECOND)
    (run,) = rows(world, "task:120")
    lag = run.attempts[0].lag
    assert lag is not None
    assert lag.pool > 115 * SECOND
    assert lag.dispatch < SECOND


def lag_of(world: World, task_id: int) -> Lag:
    """Return how late the only run of a task has started."""
    (run,) = rows(world, f"task:{task_id}")
    lag = run.attempts[0].lag
    assert lag is not None
    return lag


def test_time_in_a_ledger_that_is_not_read_is_none_for_a_slot(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That pycron could not tell what was due is not said of the pool, which had slots."""
    submit(world, new_task(world))

    def fail(*_arguments: object, **_more: object) -> list[Task]:
        raise LedgerError("the ledger cannot be read: I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "tasks_due", fail)
        world.pass_time(30 * SECOND)
    world.pass_time(3 * SECOND)
    lag = lag_of(world, 1)
    assert lag.pool == 0 * SECOND
    assert lag.dispatch >= 29 * SECOND


def test_time_without_a_pool_is_time_for_a_slot(world: World) -> None:
    """A task waits for a slot, too, as long as there is no such pool."""
    submit(world, new_task(world, pool="small"))
    take_pool_out(world, "small")
    world.pass_time(30 * SECOND)
    put_pool_back(world, "small", 1)
    world.pass_time(3 * SECOND)
    lag = lag_of(world, 1)
    assert lag.pool >= 28 * SECOND
    assert lag.dispatch < SECOND


@pytest.mark.parametrize("is_known", [False, True], ids=["handed in later", "known before"])
def test_a_slow_pycron_is_no_full_pool(world: World, *, is_known: bool) -> None:
    """A lane that has been full, and is not any more, has no part in what is late afterwards."""
    lasting(world, SECOND)
    submit(world, *[new_task(world, pool="tiny")] * 20)
    if is_known:
        submit(world, new_task(world, pool="tiny", in_=60 * SECOND))
    world.pass_time(50 * SECOND)
    if not is_known:
        submit(world, new_task(world, pool="tiny", in_=10 * SECOND))
    world.pass_time(9 * SECOND)
    world.clock.advance_ns(1_400_000_000)  # and nothing was dealt with meanwhile
    world.pass_time(SECOND)
    lag = lag_of(world, 21)
    assert (lag.pool, lag.dispatch) == (0 * SECOND, 0.4 * SECOND)


def test_each_part_of_a_wait_counts_to_what_it_was_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A lane is full, then nobody can tell what is due in it: that is told apart."""
    lasting(world, SECOND)
    submit(world, *[new_task(world, pool="tiny")] * 10)

    def fail(*_arguments: object, **_more: object) -> list[Task]:
        raise LedgerError("the ledger cannot be read: I/O error")

    world.pass_time(3 * SECOND)
    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "tasks_due", fail)
        world.pass_time(30 * SECOND)
    world.pass_time(20 * SECOND)
    lag = lag_of(world, 10)
    assert lag.dispatch >= 25 * SECOND
    assert 4 * SECOND <= lag.pool < 10 * SECOND
    assert lag.dispatch + lag.pool + lag.spawn == lag.own


@pytest.mark.parametrize("missed", [Missed.ONCE, Missed.SKIP])
def test_period_that_is_shorter_than_the_queue(world: World, missed: Missed) -> None:
    """P1: a task is run for the newest occurrence when its turn comes; those before were missed."""
    lasting(world, SECOND, numbers=range(1, 101))
    submit(world, *[new_task(world, pool="tiny", scale=Scale.STEADY)] * 100)
    submit(world, new_task(world, replace(PLAIN, missed=missed), pool="tiny", every=3 * SECOND))
    world.pass_time(105 * SECOND)
    first, second, *_ = rows(world, "task:101")
    assert (first.outcome, first.count > 3) == (Outcome.MISSED, True)
    assert first.reason == (
        f'tasks of its group waited for their turn; only the newest is run, missed = "{missed}"'
    )
    assert (second.outcome, second.cause) == (Outcome.SUCCEEDED, Cause.SCHEDULE)
    assert second.due - first.due == first.count * 3 * SECOND


def test_period_that_is_shorter_than_the_queue_and_all_is_made_up(world: World) -> None:
    """P1: a task that says so is run for each of its occurrences, however late its turn comes."""
    lasting(world, SECOND, numbers=range(1, 101))
    submit(world, *[new_task(world, pool="tiny", scale=Scale.STEADY)] * 100)
    submit(world, new_task(world, replace(PLAIN, missed=Missed.ALL), pool="tiny", every=3 * SECOND))
    world.pass_time(300 * SECOND)
    runs = rows(world, "task:101")
    assert {run.outcome for run in runs[:20]} == {Outcome.SUCCEEDED}
    assert {run.cause for run in runs[:20]} == {Cause.CATCH_UP}


def test_a_pool_that_was_gone_is_the_reason_for_what_passed(world: World) -> None:
    """P1: what has passed of a task says why; what was over before it was due has no part in it."""
    lasting(world, SECOND)
    submit(world, *[new_task(world, pool="tiny", scale=Scale.STEADY)] * 20)
    submit(world, new_task(world, pool="tiny", every=3 * SECOND, in_=60 * SECOND))
    world.pass_time(50 * SECOND)
    take_pool_out(world, "tiny")
    world.pass_time(41 * SECOND)
    put_pool_back(world, "tiny", 1)
    world.pass_time(SECOND)
    missed, late = rows(world, "task:21")
    reason = 'its pool was not in the crontab; only the newest is run, missed = "once"'
    assert (missed.count, missed.reason) == (10, reason)
    assert late.cause is Cause.SCHEDULE


def test_a_ledger_that_was_not_read_is_the_reason_for_what_passed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: so is that nobody could tell what was due."""
    submit(world, new_task(world, every=3 * SECOND))

    def fail(*_arguments: object, **_more: object) -> list[Task]:
        raise LedgerError("the ledger cannot be read: I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "tasks_due", fail)
        world.pass_time(20 * SECOND)
    world.pass_time(2 * SECOND)
    first, *_ = rows(world, "task:1")
    assert first.count == 6
    assert first.reason.startswith("nobody could tell which tasks were due; ")


def test_reload_changes_no_reason_for_what_passed(world: World) -> None:
    """P1: what has waited as too many others did says so, though there was a reload meanwhile."""
    lasting(world, 100 * SECOND, numbers=range(1, 2))
    lasting(world, SECOND / 100, numbers=range(2, 1000))
    crowd = 2 * MANY * MOST_WAITING + 1  # and one that has the slot
    for number in range(crowd):
        submit(world, new_task(world, pool="tiny", group=f"g{number}"))
    world.pass_time(2 * SECOND)
    submit(world, new_task(world, pool="tiny", group="late", every=10 * SECOND))
    world.pass_time(97 * SECOND)
    world.reload()
    world.pass_time(60 * SECOND)
    first, run, *_ = rows(world, f"task:{crowd + 1}")
    assert first.count > 1
    assert first.reason.startswith("tasks of its group waited for their turn; ")
    lag = run.attempts[0].lag
    assert lag is not None
    assert (lag.dispatch < SECOND, lag.pool > SECOND) == (True, True)


def test_trouble_is_over_where_nothing_is_left_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: a task that was cancelled while nobody could tell what is due is no trouble any more."""
    lasting(world, 20 * SECOND)
    submit(world, new_task(world, every=HOUR))
    world.set_trouble(LedgerError("disk full"))
    world.pass_time(2 * SECOND)

    def unread(_lane: Lane, **_bounds: object) -> list[Task]:
        raise LedgerError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "tasks_due", unread)
        world.ask(lambda core: core.cancel_task(1))
        world.pass_time(5 * SECOND)
    world.set_trouble(None)
    world.pass_time(60 * SECOND)
    assert world.daemon is not None
    assert world.daemon.core.status().troubles == ()
    assert world.daemon.core._tasks._lanes == {}


def test_what_an_earlier_daemon_left_is_the_reason_for_what_passed(world: World) -> None:
    """P1: a task that waited for its turn before a restart says so; not that it was missed then."""
    lasting(world, SECOND)
    submit(world, *[new_task(world, pool="tiny", scale=Scale.STEADY)] * 20)
    submit(world, new_task(world, pool="tiny", every=3 * SECOND))
    world.pass_time(10 * SECOND)
    restart(world, SECOND / 10)
    world.pass_time(30 * SECOND)
    first, *_ = rows(world, "task:21")
    assert "it waited for its turn when pycron ended" in first.reason
    assert "not running" not in first.reason


def test_runs_behind_their_own_predecessor_keep_no_other_task_out(world: World) -> None:
    """P4: tasks that hang, each with runs behind it, do not hold up the next of the same user."""
    lasting(world, HOUR, numbers=range(1, 5))
    hangs = replace(PLAIN, overlap=Overlap.QUEUE)
    submit(world, *[new_task(world, hangs, every=2 * SECOND)] * 4)
    world.pass_time(60 * SECOND)
    waiting = [outcomes(world, f"task:{number}").count("queued") for number in range(1, 5)]
    assert waiting == [PLAIN.queue_limit] * 4
    submit(world, new_task(world, scale=Scale.STEADY))
    world.pass_time(1.5 * SECOND)
    assert outcomes(world, "task:5") == ["running"]


def test_a_task_with_much_to_make_up_for_keeps_no_other_task_out(world: World) -> None:
    """P4: its missed runs wait for one another, and nobody else for them."""
    lasting(world, 60 * SECOND, numbers=range(1, 2))
    submit(world, new_task(world, replace(PLAIN, missed=Missed.ALL), every=5 * SECOND))
    restart(world, 100 * SECOND)
    submit(world, new_task(world, scale=Scale.STEADY))
    world.pass_time(1.5 * SECOND)
    assert outcomes(world, "task:1").count("queued") > MOST_WAITING
    assert outcomes(world, "task:2") == ["running"]


def test_tasks_with_much_to_make_up_for_are_taken_up_by_few(world: World) -> None:
    """P4: so many runs of a lane wait in memory, and one task's more, however much was missed."""
    many = replace(PLAIN, missed=Missed.ALL, overlap=Overlap.ALLOW)
    submit(world, *[new_task(world, many, pool="tiny", every=2 * SECOND)] * (2 * MOST_WAITING))
    lasting(world, HOUR)
    restart(world, 61 * SECOND)
    assert world.daemon is not None
    (lane,) = world.daemon.core._tasks._lanes.values()
    assert MOST_WAITING // 2 < lane.waiting < MOST_WAITING + 31


@pytest.mark.parametrize("priority", [5, -5])
@pytest.mark.parametrize("frozen", [0 * SECOND, SECOND / 2, 60 * SECOND], ids=str)
def test_tasks_and_jobs_of_one_instant_go_by_priority(
    machine_with: MachineWith, frozen: timedelta, priority: int
) -> None:
    """P4: of a job and a task that are due together, the one of higher priority has the slot."""
    job = Job("a", CronTrigger(("0 * * * *",)), "true", timezone="UTC", pool="tiny")
    world = machine_with(job, lasts=60 * SECOND)
    lasting(world, 60 * SECOND)
    due = BEGIN.replace(minute=0, second=0, microsecond=0) + HOUR
    submit(world, new_task(world, pool="tiny", priority=priority, in_=due - world.clock.now()))
    world.pass_time(due - world.clock.now() - SECOND / 10)
    world.freeze(frozen)
    world.pass_time(SECOND)
    states = outcomes(world)[-1:], outcomes(world, "task:1")
    assert states == ((["queued"], ["running"]) if priority > 0 else (["running"], ["queued"]))


# --- restarts -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missed", "expected"),
    [(Missed.ONCE, "succeeded"), (Missed.ALL, "succeeded"), (Missed.SKIP, "missed")],
)
@pytest.mark.parametrize("every", [None, HOUR], ids=["once", "again and again"])
def test_what_was_claimed_ahead_of_a_stop(
    world: World, missed: Missed, expected: str, every: timedelta | None
) -> None:
    """P1, P2: it is not started any more, and was missed for the next daemon."""
    job = replace(PLAIN, missed=missed)
    submit(world, new_task(world, job, in_=10 * SECOND, every=every))
    world.pass_time(10 * SECOND - SECOND / 200)
    assert outcomes(world, "task:1") == ["running"]
    world.stop(None)
    assert outcomes(world, "task:1") == ["queued"]
    world.pass_time(60 * SECOND)
    world.boot_daemon()
    world.pass_time(60 * SECOND)
    assert outcomes(world, "task:1") == [expected]
    assert len(world.machine.trees) == (expected == "succeeded")


@pytest.mark.parametrize(
    ("missed", "expected"),
    [
        (Missed.ONCE, ["succeeded"]),
        (Missed.ALL, ["succeeded"]),
        (Missed.SKIP, ["missed"]),
    ],
)
def test_missed_while_down(world: World, missed: Missed, expected: list[str]) -> None:
    """P1: what was due while nothing could start it gets the missed policy."""
    submit(world, new_task(world, replace(PLAIN, missed=missed), in_=10 * SECOND))
    restart(world, 60 * SECOND)
    world.pass_time(5 * SECOND)
    (run,) = rows(world, "task:1")
    assert outcomes(world, "task:1") == expected
    assert run.cause is (Cause.SCHEDULE if missed is Missed.SKIP else Cause.CATCH_UP)
    if missed is Missed.SKIP:
        assert run.reason == 'pycron was not running; missed = "skip"'


def test_missed_stretch_of_a_period(world: World) -> None:
    """P1: a stretch that is dropped is one row, and the beat goes on."""
    begin = world.clock.now()
    submit(world, new_task(world, in_=10 * SECOND, every=10 * SECOND))
    restart(world, 95 * SECOND)
    world.pass_time(6 * SECOND)
    dropped, newest, regular = rows(world, "task:1")
    assert (dropped.due, dropped.count) == (begin + 10 * SECOND, 8)
    assert (newest.due, newest.cause) == (begin + 90 * SECOND, Cause.CATCH_UP)
    assert (regular.due, regular.cause) == (begin + 100 * SECOND, Cause.SCHEDULE)


def test_what_waited_for_its_turn_was_not_missed(world: World) -> None:
    """P1: tasks that were due before the daemon ended, and waited, run under any policy."""
    lasting(world, SECOND)
    job = replace(PLAIN, missed=Missed.SKIP)
    submit(world, *[new_task(world, job, pool="tiny", in_=SECOND)] * 100)
    world.pass_time(10 * SECOND)
    restart(world, 60 * SECOND)
    world.pass_time(120 * SECOND)
    assert all(run.outcome is not Outcome.MISSED for run in all_rows(world))
    assert (len(all_rows(world)), open_tasks(world)) == (100, [])


def hold(world: World, pool: str = "small") -> None:
    """Take a pool out of the crontab."""
    del world.pools[pool]
    world.reload()


def release(world: World, pool: str = "small") -> None:
    """Put it back, with a slot."""
    world.pools[pool] = 1
    world.reload()
    world.pass_time(SECOND)


def stretches(world: World, job: str) -> list[tuple[float, int, str, str]]:
    """Return of each row of a job how long after the beginning it was due, how many, and what."""
    return [
        ((run.due - BEGIN).total_seconds(), run.count, str(run.outcome), run.reason.split(";")[0])
        for run in rows(world, job)
    ]


def test_absence_ends_where_it_does(world: World) -> None:
    """P1: what is due after a restart, and waits, was not missed while pycron was not running."""
    beside = replace(PLAIN, overlap=Overlap.ALLOW)
    submit(world, new_task(world, beside, pool="small", every=10 * SECOND))
    hold(world)
    restart(world, 15 * SECOND)
    world.pass_time(100 * SECOND)
    release(world)
    world.pass_time(3 * SECOND)
    down, made_up, full, newest = stretches(world, "task:1")
    assert down == (1, 1, "missed", "pycron was not running")
    assert made_up[:3] == (11, 1, "succeeded")
    assert full[:3] == (21, 9, "missed")
    assert full[3] != down[3]
    assert newest[:3] == (111, 1, "succeeded")


def test_what_is_handed_in_after_an_absence_is_no_part_of_it(world: World) -> None:
    """P1: an instant that has passed is due at once, though nobody was there when it came."""
    submit(world, new_task(world, pool="small"))
    hold(world)  # so the absence is kept
    restart(world, 60 * SECOND)
    world.pass_time(5 * SECOND)
    submit(world, new_task(world, replace(PLAIN, missed=Missed.SKIP), in_=-30 * SECOND))
    world.pass_time(5 * SECOND)
    (run,) = rows(world, "task:2")
    assert (str(run.outcome), run.cause) == ("succeeded", Cause.SCHEDULE)


def test_lost_records_end_where_they_do(world: World) -> None:
    """P1: what was due after the ledger's newest records were lost is not lost with them."""
    beside = replace(PLAIN, overlap=Overlap.ALLOW)
    submit(world, new_task(world, beside, pool="small", every=10 * SECOND))
    hold(world)
    world.kill_daemon()
    world.ledger._gap = Gap(world.clock.now() + 12 * SECOND, 1, "boot1")
    world.pass_time(25 * SECOND)
    world.boot_daemon()
    world.pass_time(90 * SECOND)
    release(world)
    world.pass_time(3 * SECOND)
    lost, made_up, *_, newest = stretches(world, "task:1")
    assert lost[:3] == (1, 2, "lost")
    assert made_up[:3] == (21, 1, "succeeded")
    assert rows(world, "task:1")[1].cause is Cause.CATCH_UP
    assert newest[:3] == (111, 1, "succeeded")
    assert sum(count for _, count, *_ in stretches(world, "task:1")) == 12


def absences(world: World) -> tuple[Absence, ...]:
    """Return the absences that the ledger has."""
    return world.ledger.cursors()[TASKS].absences


def missed_reasons(world: World, numbers: range) -> set[str]:
    """Return why tasks were missed; empty: none was."""
    return {
        run.reason
        for number in numbers
        for run in rows(world, f"task:{number}")
        if run.outcome is Outcome.MISSED
    }


def test_what_was_due_between_two_restarts_was_not_missed(world: World) -> None:
    """P1: however much waits, what was due while pycron ran waits as well, and then runs."""
    lasting(world, SECOND)
    skip = replace(PLAIN, missed=Missed.SKIP)
    submit(world, *[new_task(world, pool="tiny", in_=SECOND)] * 100)
    world.pass_time(10 * SECOND)
    restart(world, SECOND)
    submit(world, *[new_task(world, skip, pool="tiny", in_=5 * SECOND)] * 10)
    world.pass_time(30 * SECOND)
    restart(world, SECOND)
    world.pass_time(200 * SECOND)
    assert (missed_reasons(world, range(1, 111)), open_tasks(world)) == (set(), [])
    assert absences(world) == ()


def test_held_tasks_leave_the_others_alone(world: World) -> None:
    """P1: the same where what waits has no pool; it was missed, and what came later was not."""
    lasting(world, SECOND)
    skip = replace(PLAIN, missed=Missed.SKIP)
    submit(world, new_task(world, skip, pool="small", group="x", in_=10.5 * SECOND))
    hold(world)
    world.pass_time(10 * SECOND)
    restart(world, SECOND)
    world.pass_time(30 * SECOND)
    submit(world, *[new_task(world, skip, pool="tiny", in_=SECOND)] * 100)
    world.pass_time(20 * SECOND)
    restart(world, SECOND)
    world.pass_time(200 * SECOND)
    assert missed_reasons(world, range(2, 102)) == set()
    release(world)
    assert missed_reasons(world, range(1, 2)) == {'pycron was not running; missed = "skip"'}


@pytest.mark.parametrize("scale", Scale)
def test_absences_are_bounded(world: World, scale: Scale) -> None:
    """P1: of many the longest are known, each to the instant."""
    skip = replace(PLAIN, missed=Missed.SKIP)
    downs = [60, *[2] * (2 * MOST_ABSENCES), 40]
    for span in downs:
        due = (span - 1) * SECOND
        submit(world, new_task(world, skip, pool="small", in_=due, scale=scale))
        if "small" in world.pools:
            hold(world)
        world.stop(None)
        world.pass_time(span * SECOND)
        world.boot_daemon()
        submit(world, new_task(world, skip, pool="small", in_=SECOND, scale=scale))
        world.pass_time(100 * SECOND)
        known = [each for each in absences(world) if each.scale is scale]
        assert len(known) <= MOST_ABSENCES
    release(world)
    world.pass_time(300 * SECOND)
    numbers = range(1, 2 * len(downs) + 1)
    while_up = [n for n in numbers if n % 2 == 0]
    assert all(outcomes(world, f"task:{number}") == ["succeeded"] for number in while_up)
    missed = [n for n in numbers if outcomes(world, f"task:{n}") == ["missed"]]
    assert {1, numbers[-2]} <= set(missed)
    assert len(missed) == MOST_ABSENCES
    assert absences(world) == ()


def test_one_freeze_is_one_absence(world: World) -> None:
    """P1: however many lanes are late for it, it takes the place of no other."""
    skip = replace(PLAIN, missed=Missed.SKIP)
    submit(world, new_task(world, skip, pool="small", in_=10 * SECOND))
    hold(world)
    restart(world, 30 * SECOND)
    world.pass_time(5 * SECOND)
    crowd = (new_task(world, group=f"{n}", in_=10 * SECOND) for n in range(MOST_ABSENCES + 4))
    submit(world, *crowd)
    world.freeze(MINUTE)
    world.pass_time(5 * SECOND)
    whys = [each.why for each in absences(world) if each.scale is Scale.STEADY]
    assert len(whys) == len(set(whys))
    release(world)
    world.pass_time(MINUTE)
    assert outcomes(world, "task:1") == ["missed"]


def test_clock_that_is_set_back_and_right_again(world: World) -> None:
    """What was due while pycron ran, and waits, was not jumped over; what was not shown was."""
    skip = replace(PLAIN, missed=Missed.SKIP)
    for due in (20 * SECOND, 40 * SECOND):
        submit(world, new_task(world, skip, pool="small", in_=due, scale=Scale.WALL))
    hold(world)
    world.pass_time(30 * SECOND)
    world.set_clock(-20 * SECOND)
    world.pass_time(SECOND)
    world.set_clock(35 * SECOND)
    world.pass_time(5 * SECOND)
    release(world)
    assert outcomes(world, "task:1") == ["succeeded"]
    assert missed_reasons(world, range(2, 3)) == {'the clock was set forward; missed = "skip"'}


def test_what_may_have_run_does_not_come_again_with_the_clock(world: World) -> None:
    """P2: what is lost stays so, also where the clock is set back to before it."""
    (first,) = submit(world, new_task(world, in_=10 * SECOND))
    world.kill_daemon()
    world.ledger._gap = Gap(first.task.due + SECOND, 1, "boot1")
    world.set_clock(-HOUR)
    world.boot_daemon()
    world.pass_time(2 * SECOND)
    restart(world, SECOND)
    world.set_clock(-HOUR)
    world.pass_time(3 * HOUR)
    assert (outcomes(world, "task:1"), world.machine.trees) == (["lost"], [])


def _lose_records(world: World, ahead: timedelta) -> None:
    """Kill the daemon, and start another whose ledger has lost its newest records."""
    world.kill_daemon()
    world.ledger._gap = Gap(world.clock.now() + ahead, 1, "boot1")
    world.boot_daemon()
    world.pass_time(2 * SECOND)
    world.ledger._gap = None


@pytest.mark.parametrize("scale", Scale)
def test_what_is_lost_was_not_merely_missed(world: World, scale: Scale) -> None:
    """P2: what may have run is not made up for, though it came due while pycron was not there."""
    submit(world, new_task(world, in_=10 * SECOND, pool="small", scale=scale))
    hold(world)
    restart(world, 60 * SECOND)  # it may have been put back then, for a while
    _lose_records(world, timedelta(0))
    release(world)
    world.pass_time(10 * SECOND)
    assert (outcomes(world, "task:1"), world.machine.trees) == (["lost"], [])


def test_what_is_lost_is_known_from_the_start_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: a power cut that spoils the mark takes nothing of what a start has learned by it."""
    submit(world, new_task(world, in_=10 * SECOND))
    world.kill_daemon()
    world.ledger._gap = Gap(world.clock.now() + MINUTE, 1, "boot1")
    world.boot_daemon()
    monkeypatch.setattr(world.random, "randint", lambda least, _most: least)  # all that it can take
    world.kill_daemon(power_cut=True)
    assert world.ledger.gap is None
    world.boot_daemon()
    world.pass_time(20 * SECOND)
    assert (outcomes(world, "task:1"), world.machine.trees) == (["lost"], [])


@pytest.mark.parametrize("scale", Scale)
@pytest.mark.parametrize("is_set_back", [False, True])
def test_what_was_handed_in_later_cannot_be_lost(
    world: World, scale: Scale, *, is_set_back: bool
) -> None:
    """P1: it runs, though its instant be in what is lost of those that were there before."""
    submit(world, new_task(world, in_=10 * SECOND, pool="small", scale=scale))
    hold(world)
    _lose_records(world, 12 * SECOND if is_set_back else HOUR)
    if is_set_back:
        world.pass_time(20 * SECOND)
        world.set_clock(-HOUR)
    submit(world, new_task(world, in_=60 * SECOND, scale=scale))
    submit(world, new_task(world, every=60 * SECOND))
    restart(world, SECOND)
    world.pass_time(200 * SECOND)
    assert outcomes(world, "task:2") == ["succeeded"]
    assert outcomes(world, "task:3") == ["succeeded"] * 4
    release(world)
    world.pass_time(HOUR)
    assert outcomes(world, "task:1") == ["lost"]


def test_what_an_older_pycron_had_lost_is_of_tasks_that_were_there(world: World) -> None:
    """P1: likewise where it did not note of which."""
    submit(world, new_task(world, in_=10 * SECOND, pool="small"))
    hold(world)
    world.pass_time(SECOND)
    world.kill_daemon()
    cursor = world.ledger.cursors()[TASKS]
    lost = Absence(Scale.WALL, BEGIN - HOUR, BEGIN + HOUR, "forgotten", Outcome.LOST)
    world.ledger.write([SetCursor(replace(cursor, absences=(lost,)))], durable=True)
    world.boot_daemon()
    submit(world, new_task(world))
    world.pass_time(5 * SECOND)
    restart(world, SECOND)
    world.pass_time(20 * SECOND)
    release(world)
    assert (outcomes(world, "task:2"), outcomes(world, "task:1")) == (["succeeded"], ["lost"])


def test_what_was_lost_often_is_bounded(world: World) -> None:
    """P2: of many losses those of which less is known stand for the others, whichever is longer."""
    for number in range(MOST_ABSENCES + 4):
        submit(world, new_task(world, in_=10 * SECOND, pool="small"))
        if not number:
            hold(world)
        # Each is shorter than the one before, and of more tasks.
        _lose_records(world, HOUR - 2 * number * MINUTE)
    known = [each for each in absences(world) if each.scale is Scale.WALL]
    lost = [each for each in known if each.outcome is Outcome.LOST]
    assert len(lost) == MOST_ABSENCES
    assert max(each.last_task_id or 0 for each in lost) == MOST_ABSENCES + 4
    submit(world, new_task(world, in_=10 * SECOND, pool="small"))
    world.pass_time(2 * HOUR)
    release(world)
    world.pass_time(60 * SECOND)
    numbers = range(1, MOST_ABSENCES + 5)
    assert [outcomes(world, f"task:{number}") for number in numbers] == [["lost"]] * len(numbers)
    assert outcomes(world, f"task:{MOST_ABSENCES + 5}") == ["succeeded"]


def test_frozen(world: World) -> None:
    """P1: what was due while the daemon was stopped was missed."""
    submit(world, new_task(world, replace(PLAIN, missed=Missed.SKIP), in_=10 * SECOND))
    world.freeze(60 * SECOND)
    (run,) = rows(world, "task:1")
    assert "frozen" in run.reason


@pytest.mark.parametrize("is_new", [False, True])
def test_frozen_and_asked_at_once(world: World, *, is_new: bool) -> None:
    """P1: it was missed, also where a request is dealt with before the timer that fired late."""
    skip = replace(PLAIN, missed=Missed.SKIP)
    submit(world, new_task(world, skip, in_=10 * SECOND), new_task(world, in_=HOUR))
    world.clock.advance_ns(60_000_000_000)
    assert world.daemon is not None
    core, now_ns = world.daemon.core, world.clock.monotonic_ns()
    earlier = new_task(world, in_=-55 * SECOND)
    late = TimersFired(world.daemon.timers.pop_due(now_ns), now_ns)
    ask = Call(lambda: core.submit([earlier]) if is_new else core.cancel_task(2))
    core.handle([late, ask])
    world.pass_time(SECOND)
    (run,) = rows(world, "task:1")
    assert "frozen" in run.reason


def test_nothing_is_started_while_stopping(world: World) -> None:
    """What is due after a stop was missed by the next daemon, not started by this one."""
    lasting(world, 30 * SECOND)
    submit(world, new_task(world), new_task(world, in_=10 * SECOND))
    world.pass_time(2 * SECOND)
    world.stop(None)
    with_stop = world.ask(lambda core: core.submit([new_task(world)]))
    assert isinstance(with_stop, RequestRefusedError)
    world.pass_time(40 * SECOND)
    assert (outcomes(world, "task:1"), outcomes(world, "task:2")) == (["succeeded"], [])
    world.boot_daemon()
    world.pass_time(SECOND)
    (run,) = rows(world, "task:2")
    assert run.cause is Cause.CATCH_UP


def test_lost_records(world: World) -> None:
    """P2: a task that the ledger has forgotten to have run is not run again."""
    (first,) = submit(world, new_task(world, in_=10 * SECOND))
    world.kill_daemon()
    world.pass_time(60 * SECOND)
    world.ledger._gap = Gap(first.task.due + SECOND, 1, "boot1")
    world.boot_daemon()
    world.pass_time(5 * SECOND)
    (run,) = rows(world, "task:1")
    assert (run.outcome, world.machine.trees) == (Outcome.LOST, [])
    assert "lost its newest records" in run.reason


def test_run_is_adopted(world: World) -> None:
    """P5: a task's run that outlives the daemon is taken up by the next."""
    lasting(world, 30 * SECOND)
    submit(world, new_task(world))
    world.pass_time(5 * SECOND)
    restart(world, SECOND)
    assert in_memory(world) == 1
    world.pass_time(60 * SECOND)
    assert len(world.machine.trees) == 1
    assert in_memory(world) == 0


# --- the clock ----------------------------------------------------------------------------------


def test_overlap_holds_after_a_restart_that_gives_up_a_run(world: World) -> None:
    """P5: a task whose first waiting run is too late is still the one that the next run is of."""
    job = replace(PLAIN, overlap=Overlap.QUEUE, start_within=6 * SECOND)
    lasting(world, 100 * SECOND)
    submit(world, new_task(world, job, every=5 * SECOND))
    world.pass_time(11.5 * SECOND)
    assert outcomes(world, "task:1") == ["running", "queued", "queued"]
    world.kill_daemon()
    world.machine.kill_leaders()
    restart(world, SECOND)
    world.pass_time(4 * SECOND)
    assert outcomes(world, "task:1") == ["lost", "skipped", "running", "queued"]
    assert is_alive(world, "task:1") == 1


def test_elapsed_time_ignores_the_clock(world: World) -> None:
    """``in`` and ``every`` count elapsed time, whatever the clock is set to."""
    submit(world, new_task(world, in_=100 * SECOND, scale=Scale.STEADY))
    world.set_clock(timedelta(hours=5))
    world.set_clock(-timedelta(hours=9))
    world.pass_time(99 * SECOND)
    assert world.machine.trees == []
    world.pass_time(2 * SECOND)
    assert len(world.machine.trees) == 1


def test_elapsed_time_counts_from_what_the_ledger_has(world: World) -> None:
    """P1: a crash right after the first task is handed in does not lose when it is due."""
    world.set_clock(-timedelta(days=3650))
    assert world.daemon is not None
    world.daemon.core.submit([new_task(world, scale=Scale.STEADY)])
    restart(world, SECOND)
    world.pass_time(5 * SECOND)
    assert outcomes(world, "task:1") == ["succeeded"]


def test_a_step_that_was_not_written_is_written_first(world: World) -> None:
    """P1: a task that is handed in while the ledger is behind counts from the clock as it is."""
    submit(world, new_task(world, scale=Scale.STEADY, in_=HOUR))
    world.ledger.fail_next(LedgerError("disk full"))
    world.set_clock(timedelta(days=3650))
    assert world.daemon is not None
    world.daemon.core.submit([new_task(world, scale=Scale.STEADY, in_=HOUR)])
    restart(world, SECOND)
    assert all_rows(world) == []
    world.pass_time(2 * HOUR)
    assert [run.outcome for run in all_rows(world)] == [Outcome.SUCCEEDED] * 2


def test_wall_time_follows_the_clock(world: World) -> None:
    """``at`` is when the clock reads so: later after a step back, missed after one on."""
    submit(world, new_task(world, in_=100 * SECOND))
    submit(world, new_task(world, replace(PLAIN, missed=Missed.SKIP), in_=3700 * SECOND))
    world.set_clock(-200 * SECOND)
    world.pass_time(200 * SECOND)
    assert world.machine.trees == []
    world.pass_time(101 * SECOND)
    assert len(world.machine.trees) == 1
    world.set_clock(timedelta(hours=2))
    (run,) = rows(world, "task:2")
    assert run.reason == 'the clock was set forward; missed = "skip"'


def test_period_keeps_its_beat_when_the_clock_is_set_back(world: World) -> None:
    """P2: readings that come again are another era, and each occurrence has its row."""
    submit(world, new_task(world, every=10 * SECOND))
    world.pass_time(25 * SECOND)
    world.set_clock(-timedelta(seconds=22))
    world.pass_time(30 * SECOND)
    runs = world.ledger.runs(RunQuery(job="task:1", limit=None))
    assert len(runs) == 6
    assert {run.era for run in runs} == {0, 1}


def test_clock_set_back_while_down(world: World) -> None:
    """Elapsed time goes on from where it stood, however far back the clock is set."""
    submit(world, new_task(world, in_=100 * SECOND, scale=Scale.STEADY))
    world.pass_time(10 * SECOND)
    submit(world, new_task(world, in_=timedelta(days=1)))
    world.kill_daemon()
    world.set_clock(-timedelta(days=30))
    world.boot_daemon()
    world.pass_time(101 * SECOND)
    assert outcomes(world, "task:1") == ["succeeded"]


STEPS = [timedelta(minutes=-50), timedelta(seconds=-3), timedelta(seconds=5), HOUR]


@pytest.mark.parametrize("step", STEPS, ids=str)
@pytest.mark.parametrize("down", [SECOND, 20 * SECOND], ids=str)
def test_elapsed_time_ignores_a_clock_that_is_set_while_down(
    world: World, step: timedelta, down: timedelta
) -> None:
    """``in`` measures elapsed time, also across a restart of the daemon."""
    world.pass_time(HOUR)
    submit(world, new_task(world, in_=100 * SECOND, scale=Scale.STEADY))
    world.pass_time(10 * SECOND)
    world.kill_daemon()
    world.set_clock(step)
    world.pass_time(down)
    world.boot_daemon()
    world.pass_time(89 * SECOND - down)
    assert rows(world, "task:1") == []
    world.pass_time(3 * SECOND)
    assert outcomes(world, "task:1") == ["succeeded"]
    assert rows(world, "task:1")[0].cause is Cause.SCHEDULE


@pytest.mark.parametrize("step", STEPS, ids=str)
def test_elapsed_time_that_ran_out_while_down_was_missed(world: World, step: timedelta) -> None:
    """P1: also where the clock was set meanwhile; what came due before that was not."""
    skip = replace(PLAIN, missed=Missed.SKIP)
    submit(world, *[new_task(world, skip, in_=n * SECOND, scale=Scale.STEADY) for n in (30, 90)])
    submit(world, new_task(world, skip, pool="small", in_=5 * SECOND, scale=Scale.STEADY))
    hold(world)
    world.pass_time(10 * SECOND)
    submit(world, new_task(world, skip, in_=50 * SECOND, scale=Scale.STEADY))
    world.kill_daemon()
    world.pass_time(5 * SECOND)
    world.set_clock(step)
    world.pass_time(65 * SECOND)
    world.boot_daemon()
    world.pass_time(30 * SECOND)
    release(world)
    world.pass_time(3 * SECOND)
    assert [outcomes(world, f"task:{n}") for n in (1, 2, 3, 4)] == [
        ["missed"],
        ["succeeded"],
        ["succeeded"],
        ["missed"],
    ]


def test_several_steps_add_up(world: World) -> None:
    """Each is told of once, whether somebody was there or not."""
    submit(world, new_task(world, in_=100 * SECOND, scale=Scale.STEADY))
    for step in STEPS:
        world.set_clock(step)
        world.pass_time(5 * SECOND)
        world.kill_daemon()
        world.set_clock(-2 * step)
        world.pass_time(5 * SECOND)
        world.boot_daemon()
        restart(world, 5 * SECOND)
    world.pass_time(38 * SECOND)
    assert rows(world, "task:1") == []
    world.pass_time(4 * SECOND)
    assert outcomes(world, "task:1") == ["succeeded"]


def test_elapsed_time_goes_on_after_a_boot_with_an_older_clock(world: World) -> None:
    """Nobody knows how long the machine was off then; what had passed before has passed."""
    submit(world, new_task(world, in_=timedelta(days=1)))
    world.pass_time(HOUR)
    submit(world, new_task(world, in_=100 * SECOND, scale=Scale.STEADY))
    world.kill_daemon(power_cut=True)
    world.set_clock(-timedelta(minutes=50))
    world.boot_daemon()
    world.pass_time(97 * SECOND)
    assert rows(world, "task:2") == []
    world.pass_time(5 * SECOND)
    assert outcomes(world, "task:2") == ["succeeded"]


def test_clock_that_is_set_while_down_after_a_boot(world: World) -> None:
    """Each boot is told by where its own clock stood."""
    submit(world, new_task(world, in_=100 * SECOND, scale=Scale.STEADY))
    world.kill_daemon(power_cut=True)
    world.boot_daemon()
    world.pass_time(10 * SECOND)
    world.kill_daemon()
    world.set_clock(HOUR)
    world.boot_daemon()
    world.pass_time(88 * SECOND)
    assert rows(world, "task:1") == []
    world.pass_time(4 * SECOND)
    assert outcomes(world, "task:1") == ["succeeded"]


@pytest.mark.parametrize("tells_boot", [False, True])
def test_clock_is_believed_after_a_boot(world: World, *, tells_boot: bool) -> None:
    """The time that the machine was off is what its clock says."""
    world.tells_boot = tells_boot
    world.kill_daemon()
    world.boot_daemon()
    submit(world, new_task(world, in_=100 * SECOND, scale=Scale.STEADY))
    world.pass_time(10 * SECOND)
    world.kill_daemon(power_cut=True)
    world.set_clock(60 * SECOND)
    world.boot_daemon()
    world.pass_time(28 * SECOND)
    assert rows(world, "task:1") == []
    world.pass_time(5 * SECOND)
    assert outcomes(world, "task:1") == ["succeeded"]


# --- requests -----------------------------------------------------------------------------------


def test_same_key_is_one_task(world: World) -> None:
    """A key makes it safe to hand in again."""
    (first,) = submit(world, new_task(world, key="k"))
    (second,) = submit(world, new_task(world, key="k"))
    assert (first.is_new, second.is_new, second.task.id) == (True, False, first.task.id)
    world.pass_time(5 * SECOND)
    assert len(world.machine.trees) == 1


def test_instants_are_told_as_they_were_given(world: World) -> None:
    """Whoever hands in a task is told the reading of the clock at which it is due."""
    world.set_clock(timedelta(hours=1))
    wanted = new_task(world, in_=100 * SECOND, scale=Scale.STEADY)
    (answer,) = submit(world, wanted)
    assert answer.task.due == wanted.due


def test_cancel_before_it_is_due(world: World) -> None:
    """P6: a task that is cancelled is not run, and its row says so."""
    submit(world, new_task(world, in_=10 * SECOND), new_task(world, in_=20 * SECOND))
    (cancelled,) = world.ask(lambda core: core.cancel_task(1)) or []
    assert (cancelled.run_id, cancelled.was, cancelled.ending) == (0, "pending", False)
    world.pass_time(30 * SECOND)
    assert (outcomes(world, "task:1"), outcomes(world, "task:2")) == (["cancelled"], ["succeeded"])
    assert isinstance(world.ask(lambda core: core.cancel_task(1)), UnknownNameError)


def test_cancel_of_what_waited(world: World) -> None:
    """P1: what came due before, and was not taken up, is accounted for, too."""
    submit(world, new_task(world, pool="small", every=3 * SECOND))
    hold(world)
    world.pass_time(31 * SECOND)
    world.ask(lambda core: core.cancel_task(1))
    world.pass_time(5 * SECOND)
    (row,) = rows(world, "task:1")
    assert (row.outcome, row.due, row.count) == (Outcome.CANCELLED, BEGIN + SECOND, 11)
    assert row.last_due == BEGIN + 31 * SECOND


def test_cancel_while_it_runs(world: World) -> None:
    """P6: what runs of it is ended, and it does not come again."""
    lasting(world, 60 * SECOND)
    submit(world, new_task(world, every=10 * SECOND))
    world.pass_time(5 * SECOND)
    pending, running = world.ask(lambda core: core.cancel_task(1)) or []
    assert (pending.was, running.was) == ("pending", "running")
    world.pass_time(60 * SECOND)
    assert outcomes(world, "task:1") == ["cancelled", "cancelled"]
    assert (open_tasks(world), is_alive(world, "task:1")) == ([], 0)


@pytest.mark.parametrize("is_over", [False, True])
def test_cancel_of_what_was_taken_up_in_trouble(world: World, *, is_over: bool) -> None:
    """P6: it does not come again, whether the ledger can be written by then or only later."""
    (handed_in,) = submit(world, new_task(world, every=5 * SECOND))
    world.set_trouble(LedgerError("disk full"))
    world.pass_time(1.2 * SECOND)
    if is_over:
        world.set_trouble(None)  # and the next try is yet to come
    answer = world.ask(lambda core: core.cancel_task(1))
    if is_over:
        assert answer is not None
        assert [(each.run_id, each.was) for each in answer] == [(0, "pending"), (1, "running")]
    else:
        assert isinstance(answer, RequestRefusedError)
        world.set_trouble(None)
    world.pass_time(20 * SECOND)
    due = handed_in.task.due
    assert [run.due for run in rows(world, "task:1")] == [due, due + 5 * SECOND]
    assert outcomes(world, "task:1") == ["cancelled", "cancelled"]
    assert (open_tasks(world), in_memory(world), is_alive(world, "task:1")) == ([], 0, 0)
    assert world.daemon is not None
    assert world.daemon.core.status().tasks.open == 0
    assert isinstance(world.ask(lambda core: core.cancel_task(1)), UnknownNameError)


def test_nothing_is_to_come_of_one_cancelled_in_trouble(world: World) -> None:
    """A task that had moved on when it was cancelled, both unwritten yet, is waited for no more."""
    submit(world, new_task(world, every=HOUR))
    world.set_trouble(LedgerError("disk full"))
    world.pass_time(10 * SECOND)
    world.ask(lambda core: core.cancel_task(1))
    world.set_trouble(None)
    world.pass_time(10 * SECOND)
    assert world.daemon is not None
    assert open_tasks(world) == []
    assert world.daemon.core.status().tasks.next_due is None
    assert list(world.daemon.core._tasks._lanes.values()) == []


def test_cancel_of_the_last_of_a_task_in_trouble(world: World) -> None:
    """P6: where nothing is to come only its run is cancelled, which the answer names."""
    submit(world, new_task(world))
    world.set_trouble(LedgerError("disk full"))
    world.pass_time(1.2 * SECOND)
    world.set_trouble(None)
    (cancelled,) = world.ask(lambda core: core.cancel_task(1)) or []
    assert (cancelled.run_id, cancelled.was) == (1, "running")
    world.pass_time(20 * SECOND)
    assert outcomes(world, "task:1") == ["cancelled"]
    assert open_tasks(world) == []


def test_cancel_of_what_nobody_knows(world: World) -> None:
    """It is said."""
    answer = world.ask(lambda core: core.cancel_task(7))
    assert isinstance(answer, UnknownNameError)
    assert "no task 7" in str(answer)


def test_counts(world: World) -> None:
    """The status tells how many tasks there are, and when the first is due."""
    submit(world, new_task(world, in_=50 * SECOND), new_task(world, in_=20 * SECOND))
    due = world.clock.now() + 20 * SECOND
    assert world.daemon is not None
    counts = world.daemon.core.status().tasks
    assert counts.open == 2
    assert counts.next_due is not None
    assert abs(counts.next_due - due) < SECOND
    lasting(world, 60 * SECOND)
    world.pass_time(21 * SECOND)
    counts = world.daemon.core.status().tasks
    assert (counts.open, [run.job for run in counts.runs]) == (1, ["task:2"])


def waiting_for(world: World, name: str) -> tuple[int, timedelta | None]:
    """Return what the status says of a pool: how many wait, and for how long the oldest has."""
    assert world.daemon is not None
    (pool,) = [pool for pool in world.daemon.core.status().pools if pool.name == name]
    return pool.waiting, pool.oldest_waiting


def test_status_of_one_cancelled_in_a_full_lane(world: World) -> None:
    """A task that was cancelled waits no more, though nothing of its lane is taken up now."""
    lasting(world, HOUR)
    submit(world, *[new_task(world, pool="tiny")] * MOST_WAITING)
    (stays,) = submit(world, new_task(world, pool="tiny", in_=2 * SECOND))
    (later,) = submit(world, new_task(world, pool="tiny", in_=5 * HOUR))
    world.pass_time(10 * SECOND)
    assert waiting_for(world, "tiny")[0] == MOST_WAITING
    world.ask(lambda core: core.cancel_task(stays.task.id))
    world.pass_time(SECOND)
    assert waiting_for(world, "tiny")[0] == MOST_WAITING - 1
    assert world.daemon is not None
    assert world.daemon.core.status().tasks.next_due == later.task.due


def lanes(world: World) -> list[LaneState]:
    """Return the lanes that the engine knows."""
    assert world.daemon is not None
    return list(world.daemon.core._tasks._lanes.values())


@pytest.mark.parametrize("more", [(), (HOUR,), (HOUR,) * 30], ids=["all", "one later", "many"])
@pytest.mark.parametrize("most", [4_000, 40])
def test_status_counts_what_waits_in_the_ledger(
    world: World, monkeypatch: pytest.MonkeyPatch, more: tuple[timedelta, ...], most: int
) -> None:
    """WAITING and OLDEST are of all that is due, also of what is not taken up yet."""
    monkeypatch.setattr("crond_py.engine.tasks.COUNTED", most)
    lasting(world, HOUR)
    submit(world, *[new_task(world, pool="tiny")] * 100)
    submit(world, *[new_task(world, pool="tiny", in_=each) for each in more])
    submit(world, *[new_task(world, pool="tiny", group="bob", in_=5 * SECOND)] * 50)
    world.pass_time(SECOND / 2)
    assert waiting_for(world, "tiny") == (0, None)
    world.pass_time(99.5 * SECOND)
    waiting, oldest = waiting_for(world, "tiny")
    if len(more) < most // 2:
        assert waiting == 149
    else:  # at least so many in the ledger, and what is in memory
        assert waiting == 2 * MOST_WAITING - 1 + most // 2 + 50 - MOST_WAITING
    assert oldest == 99 * SECOND


def test_status_of_many_lanes_is_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: whoever asks holds up nobody: of many lanes only the first task is counted."""
    monkeypatch.setattr("crond_py.engine.tasks.LANES_COUNTED", 2)
    lasting(world, HOUR)
    for group in "abcde":
        submit(world, *[new_task(world, pool="tiny", group=group)] * (MOST_WAITING + 10))
    world.pass_time(10 * SECOND)
    in_ledger = [lane.open for lane in lanes(world)]
    assert waiting_for(world, "tiny")[0] == in_memory(world) - 1 + sum(sorted(in_ledger)[-2:]) + 3


def test_status_counts_few_tasks_of_all_lanes_together(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: however many lanes have much, now and later; those that have little are counted whole."""
    monkeypatch.setattr("crond_py.engine.tasks.COUNTED", 100)
    lasting(world, HOUR)
    groups = "abcdefg"
    for group in groups:
        submit(world, *[new_task(world, pool="tiny", group=group)] * (MOST_WAITING + 50))
        submit(world, *[new_task(world, pool="tiny", group=group, in_=HOUR)] * 50)
    submit(world, *[new_task(world, pool="tiny", group="z")] * (MOST_WAITING + 3))
    submit(world, *[new_task(world, pool="tiny", group="z", in_=HOUR)] * 2)
    world.pass_time(10 * SECOND)
    counted = []
    count_due = world.ledger.count_due

    def count(lane: Lane, **how: Any) -> int:
        number = count_due(lane, **how)
        counted.append((lane.group, number))
        return number

    monkeypatch.setattr(world.ledger, "count_due", count)
    waiting, _ = waiting_for(world, "tiny")
    assert sum(number for _, number in counted) <= 100
    # The last one was counted whole, and what it has left is shared by the seven.
    of_last = next(lane.open for lane in lanes(world) if lane.lane.group == "z") - 2
    assert [number for group, number in counted if group == "z"] == [2]
    assert waiting - (in_memory(world) - 1) - of_last == (100 - 2) // 2


def test_status_while_the_ledger_cannot_be_counted(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: the status tells what it knows."""
    lasting(world, HOUR)
    submit(world, *[new_task(world, pool="tiny")] * 100)
    world.pass_time(10 * SECOND)

    def fail(*_arguments: object, **_more: object) -> int:
        raise LedgerError("the ledger cannot be read: I/O error")

    monkeypatch.setattr(world.ledger, "count_due", fail)
    assert waiting_for(world, "tiny")[0] >= MOST_WAITING


def test_status_of_what_is_tried_again(world: World) -> None:
    """OLDEST of a run that is to be tried again counts from when that could have begun."""
    job = replace(PLAIN, retry=Retry(2, 30 * SECOND))
    lasting(world, HOUR, numbers=range(2, 3))
    world.machine.behaviours["task:1"] = Behaviour(exits=(Exit(code=1),))
    submit(world, new_task(world, job, pool="tiny"))
    submit(world, new_task(world, pool="tiny", in_=5 * SECOND))
    world.pass_time(42 * SECOND)
    waiting, oldest = waiting_for(world, "tiny")
    assert waiting == 1
    assert oldest is not None
    assert oldest <= 10 * SECOND


# --- trouble ------------------------------------------------------------------------------------


def test_ledger_that_takes_nothing(world: World) -> None:
    """P8: a task that comes due meanwhile runs once the ledger can be written, once."""
    submit(world, new_task(world, in_=10 * SECOND))
    world.set_trouble(LedgerError("disk full"))
    refused = world.ask(lambda core: core.submit([new_task(world)]))
    assert isinstance(refused, LedgerError)
    world.pass_time(20 * SECOND)
    assert world.machine.trees == []
    world.set_trouble(None)
    world.pass_time(5 * SECOND)
    assert outcomes(world, "task:1") == ["succeeded"]


def test_period_goes_on_after_trouble(world: World) -> None:
    """P1: a task whose next instant could not be written at once is not forgotten."""
    submit(world, new_task(world, in_=5 * SECOND, every=4 * SECOND))
    world.pass_time(4 * SECOND)
    world.ledger.fail_next(LedgerError("locked"), times=2)
    world.pass_time(30 * SECOND)
    assert sum(run.count for run in rows(world, "task:1")) == 8


def test_ledger_that_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P8: that nobody knows what is due is said once, shown, and over once it can be read."""
    submit(world, new_task(world), new_task(world, group="bob"), new_task(world, in_=HOUR))

    def fail(*_arguments: object, **_more: object) -> list[Task]:
        raise LedgerError("the ledger cannot be read: I/O error")

    assert world.daemon is not None
    core = world.daemon.core
    with monkeypatch.context() as patch, caplog.at_level("WARNING"):
        patch.setattr(world.ledger, "tasks_due", fail)
        world.pass_time(10 * SECOND)
        (trouble,) = core.status().troubles
        assert trouble.startswith("submitted tasks (3) wait")
        assert trouble.endswith("the ledger cannot be read: I/O error")
        (told,) = caplog.records
        assert (told.levelname, told.message) == (
            "ERROR",
            "it is not known which tasks are due; they wait",
        )
    world.pass_time(2 * SECOND)
    assert core.status().troubles == ()
    assert outcomes(world, "task:1") == outcomes(world, "task:2") == ["succeeded"]
    assert core.status().tasks.open == 1
    again = [each.message for each in caplog.records if "known again" in each.message]
    assert again == ["it is known again which tasks are due"]


@pytest.mark.parametrize("fails_from", [0, 3])
def test_start_where_a_task_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch, fails_from: int
) -> None:
    """P1, P8: what of a task is open is settled, or goes on where it is known; so does the rest."""
    lasting(world, HOUR)
    submit(world, *[new_task(world, pool="small") for _ in range(3)])
    submit(world, new_task(world, in_=20 * SECOND))
    world.pass_time(5 * SECOND)
    assert [outcomes(world, f"task:{n}") for n in (1, 2, 3)] == [
        ["running"],
        ["running"],
        ["queued"],
    ]
    world.kill_daemon()
    world.machine.reboot()
    read, real = [], world.ledger.task

    def fail(task_id: int) -> Task | None:
        read.append(task_id)
        if len(read) > fails_from:
            raise LedgerError("the ledger cannot be read: I/O error")
        return real(task_id)

    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "task", fail)
        world.boot_daemon()
    assert len(read) > fails_from
    world.pass_time(30 * SECOND)
    assert outcomes(world, "task:1") == outcomes(world, "task:2") == ["lost"]
    assert outcomes(world, "task:3") == ["running" if fails_from else "cancelled"]
    if not fails_from:
        (run,) = rows(world, "task:3")
        assert run.reason.endswith("cannot be used: the ledger cannot be read: I/O error")
    assert outcomes(world, "task:4") == ["running"]


def test_tasks_that_a_damaged_ledger_has_lost(world: World) -> None:
    """P8: what is not there any more is neither waited for nor counted."""
    submit(world, new_task(world), new_task(world, in_=HOUR), new_task(world, in_=3 * SECOND))
    for task_id in (1, 2):
        del world.ledger._content.tasks.by_id[task_id]
    world.pass_time(10 * SECOND)
    assert outcomes(world, "task:3") == ["succeeded"]
    assert world.daemon is not None
    assert world.daemon.core.status().tasks.open == 0


def test_task_of_an_open_run_that_a_damaged_ledger_has_lost(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    """P1, P8: the row says what was lost; that somebody removed a job would be made up."""
    lasting(world, 20 * SECOND)
    submit(world, *[new_task(world, pool="small") for _ in range(3)])
    world.pass_time(5 * SECOND)
    world.kill_daemon()
    world.ledger._content.tasks.by_id.clear()
    world.boot_daemon()
    assert caplog.text.count("task not understood") == 3
    assert [outcomes(world, f"task:{n}") for n in (1, 2)] == [["running"], ["running"]]
    (run,) = rows(world, "task:3")
    assert run.outcome is Outcome.CANCELLED
    assert run.reason == "the definition of its task is lost: the ledger was damaged"


def test_pool_that_is_gone(world: World) -> None:
    """P8: tasks wait for their pool to come back, and the status says so."""
    submit(world, new_task(world, pool="small", in_=5 * SECOND))
    del world.pools["small"]
    world.reload()
    world.pass_time(10 * SECOND)
    assert world.daemon is not None
    (trouble,) = world.daemon.core.status().troubles
    assert "[pools.small]" in trouble
    world.pools["small"] = 1
    world.reload()
    world.pass_time(2 * SECOND)
    assert outcomes(world, "task:1") == ["succeeded"]
    assert world.daemon.core.status().troubles == ()


def take_pool_out(world: World, name: str) -> None:
    """Take a pool out of the crontab, and have that read."""
    del world.pools[name]
    world.reload()


def put_pool_back(world: World, name: str, workers: int) -> None:
    """Have the crontab name a pool again, and have that read."""
    world.pools[name] = workers
    world.reload()


def standing(world: World) -> list[str]:
    """Return how the newest run of each task stands, in the order of their ids."""
    return [outcomes(world, f"task:{number}")[-1] for number in sorted(world.tasks.handed_in)]


def test_cancel_lets_nothing_of_a_lost_pool_begin(world: World) -> None:
    """P4, P8: what waits for a pool that is gone goes on waiting when one of it is cancelled."""
    submit(world, *[new_task(world, pool="small", in_=5 * SECOND)] * 4)
    take_pool_out(world, "small")
    world.pass_time(10 * SECOND)
    world.ask(lambda core: core.cancel_task(1))
    world.pass_time(10 * SECOND)
    assert world.machine.trees == []
    assert world.daemon is not None
    assert world.daemon.core.status().tasks.open == 3
    put_pool_back(world, "small", 1)
    world.pass_time(10 * SECOND)
    assert standing(world) == ["cancelled", "succeeded", "succeeded", "succeeded"]


def test_cancel_of_all_that_waits_for_a_lost_pool(world: World) -> None:
    """P8: nothing is left of it to be seen."""
    submit(world, new_task(world, pool="small"))
    take_pool_out(world, "small")
    world.ask(lambda core: core.cancel_task(1))
    world.pass_time(5 * SECOND)
    assert world.daemon is not None
    counts = world.daemon.core.status().tasks
    assert (counts.open, counts.next_due) == (0, None)
    assert world.daemon.core.status().troubles == ()


def test_lost_pool_in_a_ledger_that_is_read_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, P8: that the ledger can be read again lets nothing of a lost pool begin."""
    submit(world, *[new_task(world, pool="small")] * 3)

    def fail(*_arguments: object, **_more: object) -> list[Task]:
        raise LedgerError("the ledger cannot be read: I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "tasks_due", fail)
        world.pass_time(5 * SECOND)
        del world.pools["small"]
        assert world.daemon is not None
        core, crontab = world.daemon.core, world.crontab()
        core.handle([*due_timers(world), Call(lambda: core.reload(crontab))])
    world.pass_time(10 * SECOND)
    assert world.machine.trees == []
    put_pool_back(world, "small", 1)
    world.pass_time(10 * SECOND)
    assert standing(world) == ["succeeded"] * 3


def due_timers(world: World) -> list[TimersFired]:
    """Let time go by up to the next timer, and take that from the heap."""
    assert world.daemon is not None
    due_ns = world.daemon.timers.next_deadline()
    assert due_ns is not None
    world.clock.advance_ns(due_ns - world.clock.monotonic_ns())
    return [TimersFired(world.daemon.timers.pop_due(due_ns), due_ns)]


@pytest.mark.parametrize("is_restarted", [False, True], ids=["reload", "restart"])
def test_runs_that_wait_for_a_lost_pool(world: World, *, is_restarted: bool) -> None:
    """P4, P8: no more of them begin until the pool is back; what runs goes on."""
    lasting(world, 60 * SECOND)
    submit(world, *[new_task(world, pool="tiny")] * 6)
    world.pass_time(3 * SECOND)
    del world.pools["tiny"]
    if is_restarted:
        restart(world, SECOND)
    else:
        world.reload()
    assert standing(world) == ["running", *["queued"] * 5]
    assert world.daemon is not None
    (trouble,) = world.daemon.core.status().troubles
    assert trouble.startswith("submitted tasks (5) wait for the pool tiny")
    world.pass_time(120 * SECOND)
    assert len(world.machine.trees) == 1
    assert standing(world)[1:] == ["queued"] * 5
    put_pool_back(world, "tiny", 1)
    world.pass_time(60 * SECOND)
    assert standing(world)[1:] == ["succeeded", "running", "queued", "queued", "queued"]
    assert world.daemon.core.status().troubles == ()


def test_log_tells_of_a_lost_pool(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """P8: each reload and each start warns, once for the pool, with the tasks that wait for it."""
    lasting(world, 60 * SECOND)
    world.machine.behaviours["task:1"] = Behaviour(exits=(Exit(code=1),))
    retried = replace(PLAIN, retry=Retry(2, HOUR))
    first = new_task(world, retried, pool="tiny")
    later = [new_task(world, pool="tiny", in_=HOUR, group=each) for each in "ab"]
    submit(world, first, *[new_task(world, pool="tiny")] * 3, *later)
    world.pass_time(3 * SECOND)
    stand = [outcomes(world, f"task:{number}") for number in (1, 2, 3, 4, 5)]
    assert stand == [["waiting_retry"], ["running"], ["queued"], ["queued"], []]
    del world.pools["tiny"]
    for come_about in (world.reload, lambda: restart(world, SECOND)):
        caplog.clear()
        come_about()
        told = [vars(each)["fields"] for each in caplog.records if "a pool" in each.message]
        assert told == [{"pool": "tiny", "tasks": 5}]
    caplog.clear()
    put_pool_back(world, "tiny", 1)
    assert not caplog.records


def test_retry_in_a_lost_pool(world: World) -> None:
    """P4: a retry, too, waits for the pool to be back."""
    world.machine.behaviours["task:1"] = Behaviour(exits=(Exit(code=1),))
    submit(world, new_task(world, replace(PLAIN, retry=Retry(2, 30 * SECOND)), pool="tiny"))
    world.pass_time(5 * SECOND)
    world.machine.behaviours["task:1"] = Behaviour()
    take_pool_out(world, "tiny")
    world.pass_time(60 * SECOND)
    assert standing(world) == ["queued"]
    put_pool_back(world, "tiny", 1)
    world.pass_time(5 * SECOND)
    assert standing(world) == ["succeeded"]


def test_definition_that_does_not_fit_any_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: an occurrence that cannot become a run has its row, with the reason."""
    submit(
        world, new_task(world, in_=5 * SECOND), new_task(world, in_=5 * SECOND, every=4 * SECOND)
    )

    def refuse(_self: object, _task: object) -> Job:
        message = "retry_on: 7 is one of success_codes"
        raise RequestRefusedError(message)

    with monkeypatch.context() as patch:
        patch.setattr("tests.simulation.tasks.TaskBook.job", refuse)
        world.pass_time(6 * SECOND)
    (run,) = rows(world, "task:1")
    assert (run.outcome, run.reason) == (
        Outcome.FAILED,
        "cannot start: retry_on: 7 is one of success_codes",
    )
    world.pass_time(4 * SECOND)
    assert outcomes(world, "task:2") == ["failed", "succeeded"]


def test_fault_over_one_task(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: an error of ours over one task is its outcome, and the others run."""
    submit(world, *[new_task(world, group=group) for group in ("a", "a", "b")])
    submit(world, new_task(world, group="c", every=4 * SECOND))
    real = TaskBook.job

    def fail(book: TaskBook, task: Task) -> Job:
        if task.id in {1, 4}:
            raise ZeroDivisionError
        return real(book, task)

    with monkeypatch.context() as patch:
        patch.setattr(TaskBook, "job", fail)
        world.pass_time(2 * SECOND)
    (run,) = rows(world, "task:1")
    assert (run.outcome, run.reason) == (Outcome.FAILED, f"cannot start: {INTERNAL_FAULT}")
    world.pass_time(5 * SECOND)
    assert outcomes(world, "task:2") == outcomes(world, "task:3") == ["succeeded"]
    assert outcomes(world, "task:4") == ["failed", "succeeded"]
    assert open_tasks(world) == [4]


def test_fault_over_one_lane(
    world: World, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P4, P8: an error of ours over one lane is told, stops no other lane, and is tried again."""
    submit(world, *[new_task(world, group=group) for group in ("a", "a", "b")])
    real = Uptake.take_up

    def fail(uptake: Uptake, task: Task, *rest: Any, **more: Any) -> Any:
        if task.id == 2:
            raise ZeroDivisionError
        return real(uptake, task, *rest, **more)

    assert world.daemon is not None
    core = world.daemon.core
    with monkeypatch.context() as patch:
        patch.setattr(Uptake, "take_up", fail)
        world.pass_time(10 * SECOND)
        (trouble,) = core.status().troubles
        assert trouble == (
            "submitted tasks (1) wait, as nobody knows which of them are due: " + INTERNAL_FAULT
        )
    told = [each.message for each in caplog.records if each.exc_info]
    assert told == ["tasks not taken up"]
    world.pass_time(5 * SECOND)
    assert standing(world) == ["succeeded"] * 3
    assert core.status().troubles == ()


def test_fault_over_a_late_timer(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: what is due is taken up, whatever else goes wrong as its timer fires."""
    submit(world, new_task(world))

    def fail(*_arguments: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Tasks, "_note_if_late", fail)
    world.pass_time(5 * SECOND)
    assert standing(world) == ["succeeded"]


def test_definition_that_does_not_fit_while_much_waits(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: each occurrence is accounted for, those that are passed over as well."""
    submit(world, new_task(world, pool="small", every=3 * SECOND))
    hold(world)
    world.pass_time(31.5 * SECOND)

    def refuse(_self: object, _task: object) -> Job:
        raise RequestRefusedError("no")

    with monkeypatch.context() as patch:
        patch.setattr("tests.simulation.tasks.TaskBook.job", refuse)
        release(world)
    world.pass_time(5 * SECOND)
    failed, *others = rows(world, "task:1")
    assert (failed.outcome, failed.due, failed.count) == (Outcome.FAILED, BEGIN + SECOND, 11)
    assert failed.last_due == BEGIN + 31 * SECOND
    assert [(run.due, run.count) for run in others] == [
        (BEGIN + 34 * SECOND, 1),
        (BEGIN + 37 * SECOND, 1),
    ]


def test_rows_of_a_definition_that_does_not_fit_any_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that comes again, and cannot start, leaves no more rows than one that can."""

    def refuse(_self: object, _task: object) -> Job:
        raise RequestRefusedError("no")

    monkeypatch.setattr("tests.simulation.tasks.TaskBook.keep_runs", 20)
    submit(world, new_task(world, every=SECOND))
    monkeypatch.setattr("tests.simulation.tasks.TaskBook.job", refuse)
    world.pass_time(10 * OFTEN * SECOND)
    assert set(outcomes(world, "task:1")) == {"failed"}
    assert len(rows(world, "task:1")) in range(20, 20 + OFTEN + 1)
    world.ask(lambda core: core.cancel_task(1))
    world.pass_time(MINUTE)
    assert world.daemon is not None
    retention = world.daemon.core._retention
    assert (retention._new_rows, retention._looked_at, retention._ripe_tasks) == ({}, {}, {})


def test_ended_tasks_are_forgotten(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are kept for as long as runs are by default, then they and their rows go."""
    monkeypatch.setattr("tests.simulation.tasks.TaskBook.keep_for", timedelta(days=2))
    world.reload()
    submit(world, *[new_task(world)] * 10)
    world.pass_time(timedelta(days=3))
    assert len(all_rows(world)) == 10
    submit(world, *[new_task(world)] * OFTEN)
    world.pass_time(60 * SECOND)
    assert len(all_rows(world)) == OFTEN
    assert len(world.ledger.tasks(TaskQuery(is_open=None, limit=None))) == OFTEN


def test_tasks_that_came_again_are_forgotten(world: World) -> None:
    """Memory does not grow with the repeated tasks that ever were, however they have ended."""
    job = replace(PLAIN, trigger=EveryTrigger(SECOND))
    lasting(world, 3 * SECOND, numbers=range(1, 30, 2))
    assert world.daemon is not None
    retention = world.daemon.core._retention
    for task_id in range(1, 11):
        submit(world, new_task(world, job, every=SECOND))
        world.pass_time((OFTEN + 10 if task_id % 3 else 5) * SECOND)
        assert f"task:{task_id}" in {**retention._new_rows, **retention._looked_at}
        world.ask(lambda core, task_id=task_id: core.cancel_task(task_id))  # type: ignore[misc]
        world.pass_time(10 * SECOND)
    assert open_tasks(world) == []
    assert (retention._new_rows, retention._looked_at, retention._ripe_tasks) == ({}, {}, {})


def test_a_task_that_was_to_be_looked_at_when_it_was_cancelled(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at, and forgotten."""
    submit(world, new_task(world, replace(PLAIN, trigger=EveryTrigger(SECOND)), every=SECOND))
    assert world.daemon is not None
    retention = world.daemon.core._retention

    def fail(*_arguments: object, **_more: object) -> Pruned:
        raise LedgerError("the ledger cannot be read: I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "prune", fail)
        world.pass_time((OFTEN + 5) * SECOND)
        assert list(retention._ripe_tasks) == ["task:1"]
        world.ask(lambda core: core.cancel_task(1))
    world.pass_time(5 * SECOND)
    submit(world, new_task(world))
    world.pass_time(5 * SECOND)
    assert (retention._new_rows, retention._looked_at, retention._ripe_tasks) == ({}, {}, {})


def test_nothing_is_submitted_while_the_ledger_is_behind(world: World) -> None:
    """P1: a task of elapsed time counts from what the ledger has, which must have it first."""
    world.set_trouble(LedgerError("disk full"))
    world.set_clock(HOUR)
    world.pass_time(SECOND)
    answer = world.ask(lambda core: core.submit([new_task(world, scale=Scale.STEADY)]))
    assert isinstance(answer, LedgerError)
    assert "nothing is submitted: " in str(answer)
    world.set_trouble(None)
    world.pass_time(HOUR)
    assert len(submit(world, new_task(world, scale=Scale.STEADY))) == 1


@pytest.mark.parametrize("is_popped", [False, True], ids=["timer", "taken from the heap"])
def test_what_is_late_for_a_stop(world: World, *, is_popped: bool) -> None:
    """P1: the next daemon misses it, as of one that stood still, and not as if it had waited.

    What was taken from the heap in time is taken up before the stop that comes behind it.
    """
    skip = replace(PLAIN, missed=Missed.SKIP)
    submit(world, new_task(world, skip, in_=2 * SECOND))
    world.pass_time(SECOND)
    assert world.daemon is not None
    world.clock.advance_ns(4_000_000_000)
    core, due_ns = world.daemon.core, world.clock.monotonic_ns() - 3_000_000_000
    due = world.daemon.timers.pop_due(due_ns) if is_popped else []
    assert len(due) == is_popped
    core.handle([TimersFired(due, due_ns), Call(lambda: core.stop(None, lambda: None))])
    world.pass_time(5 * SECOND)
    world.kill_daemon()
    world.pass_time(10 * SECOND)
    world.boot_daemon()
    world.pass_time(5 * SECOND)
    (run,) = rows(world, "task:1")
    assert run.outcome == ("succeeded" if is_popped else "missed")
    assert "waited for their turn" not in run.reason
