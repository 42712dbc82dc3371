"""Submitted tasks of many lanes, and in pools of more slots than are taken up at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from crond_py.crontab.model import AtTrigger, EveryTrigger
from crond_py.engine.core import Core
from crond_py.engine.events import Call, FeedDue, TimersFired
from crond_py.engine.feeding import MANY
from crond_py.engine.lanes import LaneState
from crond_py.engine.pools import LONGEST_WAITING_EVERY
from crond_py.engine.tasks import MOST_UNWRITTEN, Tasks
from crond_py.errors import LedgerError
from crond_py.model import Lane, Missed, Overlap, Task
from tests.simulation.fakes import Behaviour, FakeProcesses
from tests.simulation.jobs import BEGIN
from tests.simulation.tasks import MOST_WAITING
from tests.simulation.world import World
from tests.unit.engine.conftest import MachineWith
from tests.unit.engine.test_tasks import (
    HOUR,
    PLAIN,
    SECOND,
    all_rows,
    in_memory,
    lasting,
    new_task,
    outcomes,
    rows,
    submit,
)

SLOTS = 40
"""More than are taken up of a lane, or in a batch."""


@pytest.fixture
def world(machine_with: MachineWith) -> World:
    """Give a daemon without a job of its own; the pool ``small`` has many slots."""
    world = machine_with()
    world.pools["small"] = SLOTS
    world.reload()
    return world


def started(world: World, bounds: Sequence[tuple[str, int]], number: int) -> Counter[str]:
    """Count of whom the first processes are, by the last number of the tasks of each."""
    names = []
    for tree in world.machine.trees[:number]:
        task = int(tree.job.removeprefix("task:"))
        names.append(next(name for name, last in bounds if task <= last))
    return Counter(names)


@pytest.mark.parametrize("waves", [1, 3])
def test_priority_holds_for_many_slots(world: World, waves: int) -> None:
    """P4: while the higher priority has some that are due, in the ledger too, it gets the slots."""
    lasting(world, 10 * SECOND, numbers=range(1, 1000))
    many = 10 * SLOTS
    submit(world, *[new_task(world, pool="small", priority=5, group="high")] * many)
    submit(world, *[new_task(world, pool="small", priority=0, group="low")] * many)
    world.pass_time((10 * waves - 5) * SECOND)
    of = started(world, [("high", many), ("low", 2 * many)], waves * SLOTS)
    assert of.total() == waves * SLOTS
    assert of["low"] <= waves * SLOTS // LONGEST_WAITING_EVERY


def test_shares_hold_for_many_slots(world: World) -> None:
    """P4: a group of weight 3 gets three times as many of the slots as one of weight 1."""
    lasting(world, 10 * SECOND, numbers=range(1, 1000))
    many = 10 * SLOTS
    submit(world, *[new_task(world, pool="small", group="alice")] * many)
    submit(world, *[new_task(world, pool="small", group="many")] * many)
    world.pass_time(45 * SECOND)
    of = started(world, [("alice", many), ("many", 2 * many)], 5 * SLOTS)
    assert of["many"] / of["alice"] == pytest.approx(3, rel=0.1)


def test_batch_takes_up_few_of_all_lanes(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: however many groups have tasks that are due, the engine soon looks at what else is."""
    lasting(world, HOUR)
    for number in range(6 * MOST_WAITING):
        submit(world, *[new_task(world, pool="tiny", group=f"g{number}")] * 3)
    grown = []
    handle = Core.handle

    def watched(core: Core, batch: Sequence[object]) -> None:
        before = in_memory(world)
        handle(core, batch)
        grown.append(in_memory(world) - before)

    monkeypatch.setattr(Core, "handle", watched)
    world.pass_time(10 * SECOND)
    assert max(grown) == MOST_WAITING
    assert sum(grown) > 3 * MOST_WAITING


def test_memory_is_bounded_for_many_groups(world: World) -> None:
    """P4: so many runs wait in memory at most, and each group has its turn, the first due first."""
    number = 4 * MANY * MOST_WAITING
    lasting(world, SECOND / 100, numbers=range(1, number + 1))
    for group in range(number):
        submit(
            world,
            new_task(world, pool="tiny", group=f"g{group}", in_=SECOND + group * SECOND / 1000),
        )
    seen = 0
    for _ in range(60):
        world.pass_time(SECOND)
        seen = max(seen, in_memory(world))
    assert seen <= 2 * MANY * MOST_WAITING + 1
    order = [int(tree.job.removeprefix("task:")) for tree in world.machine.trees]
    assert order == list(range(1, number + 1))


def test_crowd_keeps_no_priority_out_of_memory(world: World) -> None:
    """P4: a higher priority that comes late goes first; of a lower one the longest waiter goes."""
    number = 3 * MANY * MOST_WAITING
    lasting(world, SECOND, numbers=range(1, number + 3))
    for group in range(number):
        submit(world, new_task(world, pool="tiny", group=f"g{group}"))
    submit(world, new_task(world, pool="tiny", group="low", priority=-5, in_=SECOND / 2))
    submit(world, new_task(world, pool="tiny", group="high", priority=5, in_=5.5 * SECOND))
    world.pass_time(30 * SECOND)
    order = [tree.job for tree in world.machine.trees]
    assert order.index(f"task:{number + 2}") <= 6
    assert outcomes(world, f"task:{number + 1}") == ["succeeded"]


def test_group_that_may_have_no_more_leaves_slots_to_others(world: World) -> None:
    """P4: many that wait for a full group keep nobody from a slot that is free."""
    lasting(world, HOUR, numbers=range(1, 2000))
    submit(world, *[new_task(world, pool="small", group="few")] * (10 * MOST_WAITING))
    submit(world, *[new_task(world, pool="small", group="alice", in_=2 * SECOND)] * 3)
    world.pass_time(5 * SECOND)
    assert len(world.machine.trees) == 2 + 3


@pytest.mark.parametrize("slots", [SLOTS, None])
def test_job_of_another_pool_beside_a_crowd(world: World, slots: int | None) -> None:
    """P4: a job that is due at the instant of a crowd starts then."""
    world.pools["small"] = slots
    due = BEGIN + 5 * SECOND
    world.jobs["lone"] = replace(PLAIN, name="lone", trigger=AtTrigger(due))
    world.reload()
    lasting(world, HOUR, numbers=range(1, 2000))
    until = due - world.clock.now()
    for number in range(50):
        submit(world, *[new_task(world, pool="small", group=f"g{number}", in_=until)] * 5)
    world.pass_time(10 * SECOND)
    (lone,) = [tree for tree in world.machine.trees if tree.job == "lone"]
    assert lone.started_at - due < timedelta(milliseconds=1)
    tasks = [tree for tree in world.machine.trees if tree.job != "lone"]
    assert len(tasks) == (250 if slots is None else slots)


def test_timers_of_many_lanes_are_dealt_with_by_turns(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: however many lanes come due at once, a batch deals with few; each has its turn."""
    monkeypatch.setattr("crond_py.engine.core.MOST_LANES", 10)
    world.pools["small"] = None
    due = BEGIN + 5 * SECOND
    world.jobs["lone"] = replace(PLAIN, name="lone", trigger=AtTrigger(due), priority=-1)
    world.reload()
    until = due - world.clock.now()
    for number in range(35):
        submit(world, new_task(world, pool="small", group=f"g{number}", in_=until))
    dealt_with = []
    due_of = Tasks.due

    def watched(tasks: Tasks, lane: LaneState, fired_at: datetime) -> None:
        dealt_with[-1] += 1
        due_of(tasks, lane, fired_at)

    handle = Core.handle

    def handled(core: Core, batch: Sequence[object]) -> None:
        dealt_with.append(0)
        handle(core, batch)

    monkeypatch.setattr(Tasks, "due", watched)
    monkeypatch.setattr(Core, "handle", handled)
    world.pass_time(10 * SECOND)
    assert [number for number in dealt_with if number] == [10, 10, 10, 5]
    assert Counter(tree.job for tree in world.machine.trees) == Counter(
        ["lone", *(f"task:{number}" for number in range(1, 36))]
    )
    assert {tree.started_at for tree in world.machine.trees} == {due}


def test_rows_without_a_run_keep_nobody_from_a_free_slot(world: World) -> None:
    """P4: however many tasks were missed and get their rows, a job of their pool starts in time."""
    missed = replace(PLAIN, missed=Missed.SKIP)
    number = 20 * MOST_WAITING
    submit(world, *[new_task(world, missed, pool="small", in_=5 * SECOND)] * number)
    world.kill_daemon()
    world.pass_time(20 * SECOND)
    trigger = AtTrigger(world.clock.now() + SECOND)
    world.jobs["lone"] = replace(PLAIN, name="lone", pool="small", trigger=trigger, priority=-1)
    rows_at_start: list[int] = []
    begin = FakeProcesses.start

    def start(processes: FakeProcesses, *given: Any, **more: Any) -> None:
        rows_at_start.append(len(all_rows(world)))
        begin(processes, *given, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeProcesses, "start", start)
        patch.setattr(Core, "handle", slowly(world, SECOND / 5))
        world.boot_daemon()
        world.pass_time(60 * SECOND)
    assert outcomes(world, "lone") == ["succeeded"]
    assert rows_at_start[0] < number // 2


def slowly(world: World, takes: timedelta) -> Callable[[Core, Sequence[object]], None]:
    """Return what handles a batch of the engine and takes so long for that."""
    handle = Core.handle

    def handled(core: Core, batch: Sequence[object]) -> None:
        handle(core, batch)
        world.clock.advance(takes)

    return handled


@pytest.mark.parametrize("slots", [None, 2000], ids=["without bound", "of many slots"])
def test_priority_that_is_due_longest_has_its_part(world: World, slots: int | None) -> None:
    """P4: with slots for all, a task does not wait until all of a higher priority have begun."""
    world.pools["small"] = slots
    world.reload()
    number = 20 * MOST_WAITING
    submit(world, *[new_task(world, pool="small", priority=5, group="high")] * number)
    submit(world, new_task(world, pool="small", group="low"))
    world.pass_time(10 * SECOND)
    order = order_of_starts(world)
    assert len(order) == number + 1
    assert order.index(f"task:{number + 1}") < 2 * LONGEST_WAITING_EVERY


def test_ever_new_groups_keep_none_out_of_memory(world: World) -> None:
    """P4: a group that has had its turn has another, though more wait than there is room for."""
    number = 3 * MANY * MOST_WAITING
    lasting(world, SECOND / 10, numbers=range(1, 20 * number))
    submit(world, *[new_task(world, pool="tiny", group="alice")] * 3)
    for group in range(number):
        submit(world, new_task(world, pool="tiny", group=f"g{group}"))
    for second in range(number // 10 + 60):
        for tenth in range(10):
            in_ = SECOND + tenth * SECOND / 10
            submit(world, new_task(world, pool="tiny", group=f"n{second}.{tenth}", in_=in_))
        world.pass_time(SECOND)
    assert set(order_of_starts(world)) >= {"task:1", "task:2", "task:3"}


def test_weights_hold_for_more_groups_than_there_is_room_for(world: World) -> None:
    """P4: a group of weight 3 gets three times as much as others, however many these are."""
    number = 3 * MANY * MOST_WAITING
    lasting(world, SECOND / 100, numbers=range(1, 50 * number))
    submit(world, *[new_task(world, pool="tiny", group="many")] * 60)
    submit(world, *[new_task(world, pool="tiny", group="alice")] * 60)
    for group in range(number):
        submit(world, *[new_task(world, pool="tiny", group=f"g{group}")] * 20)
    world.pass_time(number * SECOND / 10)
    of = Counter(
        "many" if task <= 60 else "alice"
        for task in (int(job.removeprefix("task:")) for job in order_of_starts(world))
        if task <= 120
    )
    assert of["many"] / of["alice"] == pytest.approx(3, rel=0.25)
    assert of["alice"] >= 8


@pytest.mark.parametrize("pool", ["default", "small"])
def test_ledger_that_takes_no_writes_is_not_asked_for_more(
    world: World, monkeypatch: pytest.MonkeyPatch, pool: str
) -> None:
    """P4: what is due stays in the ledger, which can be read, until it takes writes again."""
    world.pools["small"] = 1000
    world.reload()
    number = 20 * MOST_WAITING
    submit(world, *[new_task(world, pool=pool)] * number)
    world.set_trouble(LedgerError("disk full"))
    read: list[int] = []
    tasks_due = world.ledger.tasks_due

    def reading(lane: Lane, **bounds: Any) -> list[Task]:
        found = tasks_due(lane, **bounds)
        read.append(len(found))
        return found

    world.ledger.tasks_due = reading  # type: ignore[method-assign, assignment]
    batches = []
    handle = Core.handle

    def handled(core: Core, batch: Sequence[object]) -> None:
        batches.append(batch)
        handle(core, batch)

    monkeypatch.setattr(Core, "handle", handled)
    world.pass_time(60 * SECOND)
    assert len(batches) < 2 * 60  # it tries to write once a second
    assert in_memory(world) <= MOST_UNWRITTEN * MOST_WAITING
    assert sum(read) < 6 * MOST_UNWRITTEN * MOST_WAITING
    world.set_trouble(None)
    world.pass_time(60 * SECOND)
    assert len(order_of_starts(world)) == number


def test_who_comes_to_a_crowd_of_groups_waits_for_one_round(world: World) -> None:
    """P4: a new group has its turn with the others, however long these have been served."""
    number = 3 * MANY * MOST_WAITING
    lasting(world, SECOND / 100, numbers=range(1, 60 * number))
    each = [new_task(world, pool="tiny", group=f"g{group}") for group in range(number)]
    submit(world, *each * 40)
    world.pass_time(20 * SECOND)
    before = len(order_of_starts(world))
    (new,) = submit(world, new_task(world, pool="tiny", group="newcomer", in_=SECOND / 100))
    world.pass_time(20 * SECOND)
    assert order_of_starts(world).index(new.task.job) - before < 2 * number


def test_group_of_which_a_task_is_cancelled_keeps_its_place(world: World) -> None:
    """P4: what was cancelled is no turn that it has had."""
    number = 3 * MANY * MOST_WAITING
    lasting(world, SECOND / 10, numbers=range(1, 20 * number))
    for group in range(number):
        submit(world, new_task(world, pool="tiny", group=f"g{group}"))
    alice = submit(world, *[new_task(world, pool="tiny", group="alice", in_=1.5 * SECOND)] * 2)
    world.pass_time(2 * SECOND)
    world.ask(lambda core: core.cancel_task(alice[0].task.id))
    for second in range(number // 10 + 30):
        for tenth in range(10):
            in_ = SECOND + tenth * SECOND / 10
            submit(world, new_task(world, pool="tiny", group=f"n{second}.{tenth}", in_=in_))
        world.pass_time(SECOND)
    assert alice[1].task.job in order_of_starts(world)


def test_runs_behind_their_own_predecessor_hold_no_pool(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: tasks that come again faster than they are taken up keep no slot from another group."""
    often = replace(PLAIN, overlap=Overlap.QUEUE, queue_limit=100_000)
    number = 10 * MOST_WAITING
    world.pools["small"] = 2 * number
    world.jobs["lone"] = replace(
        PLAIN, name="lone", pool="small", trigger=EveryTrigger(10 * SECOND), priority=-1
    )
    world.reload()
    lasting(world, HOUR, numbers=range(1, number + 1))
    submit(world, *[new_task(world, often, pool="small", every=SECOND / 5)] * number)
    world.pass_time(9 * SECOND)
    monkeypatch.setattr(Core, "handle", slowly(world, SECOND / 10))
    world.pass_time(30 * SECOND)
    lags = [run.attempts[0].lag for run in rows(world, "lone") if run.attempts]
    assert len(lags) >= 3
    assert all(lag is not None and lag.own < SECOND for lag in lags)


@pytest.mark.parametrize("number", [5, 6, 7, 8, 12, 13])
def test_run_that_comes_between_leaves_nobody_waiting_for_free_slots(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """P4: what was due and what was asked for have their slots, whatever came first."""
    world.pools["tiny"] = SLOTS
    world.jobs["asked"] = replace(PLAIN, name="asked", pool="tiny")
    world.reload()
    lasting(world, HOUR)
    handle, has_asked = Core.handle, []

    def handled(core: Core, batch: Sequence[object]) -> None:
        items = [item for each in batch if isinstance(each, TimersFired) for item in each.items]
        if any(isinstance(item, FeedDue) for item in items) and not has_asked:
            has_asked.append(True)
            ask = partial(core.trigger, "asked", is_forced=True, then=lambda _active: None)
            batch = [Call(ask), *batch]
        handle(core, batch)

    monkeypatch.setattr(Core, "handle", handled)
    each = [new_task(world, pool=pool) for pool in ("small", "tiny")]
    submit(world, *each * number)
    world.pass_time(50 * SECOND)
    assert world.daemon is not None
    pools = world.daemon.core._register.pools
    assert [pools[name].waiting for name in ("small", "tiny")] == [0, 0]


def test_priority_that_is_due_longest_has_its_part_in_each_of_many_pools(world: World) -> None:
    """P4: though a batch has less than one to take up of each pool."""
    names = [f"p{number}" for number in range(MOST_WAITING + 2)]
    world.sizes.update(dict.fromkeys(names))
    world.pools = dict(world.sizes)
    world.reload()
    number = 20 * MOST_WAITING
    for name in names:
        submit(world, *[new_task(world, pool=name, priority=5, group="high")] * number)
    lows = submit(world, *(new_task(world, pool=name, group="low") for name in names))
    world.pass_time(10 * SECOND)
    order = order_of_starts(world)
    last = max(order.index(each.task.job) for each in lows)
    assert last < 2 * LONGEST_WAITING_EVERY * len(names)


def test_priorities_have_their_part_by_turns_in_each_of_many_pools(world: World) -> None:
    """P4: though a batch has less than one to take up of each pool, none of several is left out."""
    names = [f"p{number}" for number in range(MOST_WAITING + 2)]
    world.sizes.update(dict.fromkeys(names))
    world.pools = dict(world.sizes)
    world.reload()
    number = 30 * MOST_WAITING
    for name in names:
        submit(world, *[new_task(world, pool=name, priority=5, group="high")] * number)
    low = (new_task(world, pool=name, priority=0, group="low") for name in names for _ in range(9))
    lower = [new_task(world, pool=name, priority=-1, group="low") for name in names]
    lasts = submit(world, *low, *lower)[-len(names) :]
    world.pass_time(10 * SECOND)
    order = order_of_starts(world)
    assert len(order) == len(names) * (number + 10)
    assert max(order.index(each.task.job) for each in lasts) < 200 * len(names)


def test_crowd_wants_no_batch_of_its_own_for_each_start(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: more is taken up with what ends, not by a wake-up besides."""
    lasting(world, SECOND, numbers=range(1, 400))
    for group in range(40):
        submit(world, *[new_task(world, pool="tiny", group=f"g{group}")] * 5)
    handle, woken = Core.handle, []

    def handled(core: Core, batch: Sequence[object]) -> None:
        items = [item for each in batch if isinstance(each, TimersFired) for item in each.items]
        woken.extend(item for item in items if isinstance(item, FeedDue))
        handle(core, batch)

    monkeypatch.setattr(Core, "handle", handled)
    world.pass_time(60 * SECOND)
    assert len(order_of_starts(world)) >= 58
    assert len(woken) < 30


def test_pool_does_not_wait_until_anothers_crowd_is_taken_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: what a batch takes up is not all for whose slots are free most often."""
    world.sizes["other"] = 1
    world.pools = dict(world.sizes)
    world.reload()
    number = 3_000
    for task in range(1, number + 2):
        lasts = tuple(each * SECOND / 1000 for each in range(1, 8))
        world.machine.behaviours[f"task:{task}"] = Behaviour(lasts=lasts)
    handle = Core.handle

    def handled(core: Core, batch: Sequence[object]) -> None:
        handle(core, batch)
        world.clock.advance(SECOND / 500)
        world.machine.end_due()

    monkeypatch.setattr(Core, "handle", handled)
    begin = world.clock.now()
    for _ in range(0, number, 100):
        in_ = begin + 2 * SECOND - world.clock.now()
        submit(world, *[new_task(world, pool="small", in_=in_)] * 100)
    in_ = begin + 2.2 * SECOND - world.clock.now()
    (lone,) = submit(world, new_task(world, pool="other", group="lone", in_=in_))
    world.pass_time(20 * SECOND)
    last, lone_tree = 0, None
    for tree in world.machine.trees:
        last = max(last, tree.leader.started_ns)
        lone_tree = tree if tree.job == lone.task.job else lone_tree
    assert lone_tree is not None
    assert lone_tree.leader.started_ns < last  # it was a crowd still
    assert lone_tree.started_at - lone.task.due < SECOND / 20


@pytest.mark.parametrize("kind", ["at once", "ever higher"])
def test_memory_is_bounded_for_many_priorities(world: World, kind: str) -> None:
    """P4: so few wait in memory at once, though each is of a priority of its own."""
    number = 600
    lasting(world, SECOND / 10, numbers=range(1, number + 1))
    step = SECOND / 50 if kind == "ever higher" else timedelta(0)
    for priority in range(number):
        at = SECOND + priority * step
        submit(world, new_task(world, pool="tiny", priority=priority, in_=at))
    seen = 0
    for _ in range(600):
        world.pass_time(SECOND / 5)
        seen = max(seen, in_memory(world))
    assert seen <= 2 * MANY * MOST_WAITING + 1
    assert len(order_of_starts(world)) == number


def test_each_of_many_priorities_has_its_part(world: World) -> None:
    """P4: the lowest of many comes last, and does not wait until all of the others have begun."""
    number, levels = 200, 12
    lasting(world, SECOND, numbers=range(1, levels * number + 2))
    for priority in range(1, levels + 1):
        submit(world, *[new_task(world, pool="tiny", priority=priority)] * number)
    world.pass_time(100 * SECOND)
    (low,) = submit(world, new_task(world, pool="tiny", priority=0))
    world.pass_time(levels * number * SECOND)
    order = order_of_starts(world)
    assert len(order) == levels * number + 1
    # One slot of ten goes by age, and each priority has so many in memory at most.
    assert order.index(low.task.job) < 100 + LONGEST_WAITING_EVERY * MOST_WAITING * levels


# --- what comes together at a start, a reload or a step of the clock ------------------------------


def order_of_starts(world: World, since: int = 0) -> list[str]:
    """Return of which jobs processes were started, but for the first ones."""
    return [tree.job for tree in world.machine.trees[since:]]


def test_start_gives_slots_by_priority(world: World) -> None:
    """P4: what came due while nobody was there goes before what was left to wait for a slot."""
    lasting(world, 5 * SECOND)
    submit(world, *[new_task(world, pool="tiny", group="low")] * 3)
    submit(world, new_task(world, pool="tiny", priority=5, group="high", in_=20 * SECOND))
    world.pass_time(2 * SECOND)
    world.kill_daemon()
    world.pass_time(60 * SECOND)
    world.boot_daemon()
    world.pass_time(60 * SECOND)
    assert order_of_starts(world) == ["task:1", "task:4", "task:2", "task:3"]


def test_pool_that_is_there_again_gives_slots_by_priority(world: World) -> None:
    """P4: of what waited for the pool, in memory or in the ledger, the highest goes first."""
    world.pools["small"] = 1
    world.reload()
    lasting(world, 5 * SECOND)
    submit(world, *[new_task(world, pool="small", group="low")] * 3)
    world.pass_time(2 * SECOND)
    del world.pools["small"]
    world.reload()
    submit(world, new_task(world, pool="small", priority=5, group="high"))
    world.pass_time(20 * SECOND)
    assert order_of_starts(world) == ["task:1"]
    world.pools["small"] = 1
    world.reload()
    world.pass_time(30 * SECOND)
    assert order_of_starts(world) == ["task:1", "task:4", "task:2", "task:3"]


def test_clock_set_forward_gives_slots_by_priority(world: World) -> None:
    """P4: of a job and a task whose instants were jumped over, the higher priority goes first."""
    at = AtTrigger(BEGIN + HOUR)
    world.jobs["low"] = replace(PLAIN, name="low", trigger=at, pool="tiny", timezone="UTC")
    world.reload()
    lasting(world, 5 * SECOND)
    submit(world, new_task(world, pool="tiny", priority=5, group="high", in_=1.5 * HOUR))
    world.set_clock(3 * HOUR)
    world.pass_time(30 * SECOND)
    assert order_of_starts(world) == ["task:1", "low"]


@pytest.mark.parametrize("groups", [1, 40], ids=["one", "more than there is time for"])
def test_batch_without_time_for_it_keeps_no_higher_priority_out(
    world: World, monkeypatch: pytest.MonkeyPatch, groups: int
) -> None:
    """P4: a job has no slot before a task of higher priority, though a crowd takes up a batch."""
    monkeypatch.setattr("crond_py.engine.core.MOST_LANES", 10)
    due = BEGIN + 5 * SECOND
    trigger = AtTrigger(due)
    world.jobs["low"] = replace(PLAIN, name="low", trigger=trigger, pool="tiny", priority=-5)
    world.jobs["other"] = replace(PLAIN, name="other", trigger=trigger, priority=5)
    world.reload()
    lasting(world, HOUR, numbers=range(1, 2000))
    until = due - world.clock.now()
    number = 5 * MOST_WAITING
    for each in range(number):
        group = f"g{each % groups}"
        submit(world, new_task(world, pool="small", priority=9, group=group, in_=until))
    submit(world, new_task(world, pool="tiny", in_=until))
    world.pass_time(10 * SECOND)
    order = order_of_starts(world)
    assert f"task:{number + 1}" in order
    assert "low" not in order


def test_slot_that_is_free_between_two_batches_is_for_who_is_put_off(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: a run that ends as timers of many lanes have fired gives its slot to the highest."""
    monkeypatch.setattr("crond_py.engine.core.MOST_LANES", 10)
    lasting(world, 4 * SECOND, numbers=range(1, 2))
    lasting(world, HOUR, numbers=range(2, 400))
    submit(world, new_task(world, pool="tiny", group="first"))  # until 5 s
    submit(world, new_task(world, pool="tiny", group="low"))
    in_ = 5 * SECOND + SECOND / 200  # they fire 10 ms ahead, and so before that end
    for number in range(10):
        submit(world, new_task(world, priority=9, group=f"g{number}", in_=in_))
    submit(world, new_task(world, pool="tiny", priority=5, group="high", in_=in_))
    world.pass_time(4 * SECOND)
    handle = Core.handle

    def handled(core: Core, batch: Sequence[object]) -> None:
        handle(core, batch)
        world.clock.advance(SECOND / 125)
        world.machine.end_due()

    monkeypatch.setattr(Core, "handle", handled)
    world.pass_time(6 * SECOND)
    assert outcomes(world, "task:13") == ["running"]
    assert outcomes(world, "task:2") == ["queued"]
