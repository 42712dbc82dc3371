"""What came due while pycron ran, and had to wait in the ledger, is not missed after a crash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import pairwise

import pytest

from crond_py.crontab.model import Job
from crond_py.engine.attendance import TASKS
from crond_py.engine.core import Core
from crond_py.engine.events import TasksDue, TimersFired
from crond_py.engine.presence import MOST_ASKED
from crond_py.errors import LedgerError
from crond_py.model import Missed, Outcome
from crond_py.ports import SetCursor
from tests.simulation.jobs import BEGIN
from tests.simulation.tasks import MOST_WAITING
from tests.simulation.world import World
from tests.unit.engine.conftest import MachineWith, rows
from tests.unit.engine.test_tasks import (
    HOUR,
    MINUTE,
    PLAIN,
    SECOND,
    hold,
    lasting,
    missed_reasons,
    new_task,
    release,
    restart,
    submit,
)

SKIPS: Job = replace(PLAIN, missed=Missed.SKIP)
FULL = 1 + MOST_WAITING
"""So many tasks run or wait in memory, of the pool ``tiny``; more stay in the ledger."""


@pytest.fixture
def world(machine_with: MachineWith) -> World:
    """Give a daemon without a job of its own; what runs takes an hour."""
    world = machine_with()
    lasting(world, HOUR)
    return world


def fill(world: World) -> None:
    """Let the lane of the pool ``tiny`` have no room for what comes next."""
    submit(world, *[new_task(world, pool="tiny")] * FULL)


def cursors_written(world: World) -> list[timedelta]:
    """Watch when the cursor of tasks is written; return a list that grows."""
    begin_ns = world.clock.monotonic_ns()
    written: list[timedelta] = []

    def watch(writes: Sequence[object], _: object) -> None:
        if any(isinstance(each, SetCursor) and each.cursor.job == TASKS for each in writes):
            written.append(timedelta(microseconds=(world.clock.monotonic_ns() - begin_ns) // 1000))

    world.watchers.append(watch)
    return written


@pytest.mark.parametrize("crash_after", [2 * SECOND, MINUTE, 20 * MINUTE])
def test_due_in_a_full_lane(world: World, crash_after: timedelta) -> None:
    """It is run when there is a slot, whenever the crash came."""
    fill(world)
    submit(world, *[new_task(world, SKIPS, pool="tiny", in_=5 * MINUTE)] * 3)
    world.pass_time(5 * MINUTE + crash_after)
    restart(world, 10 * SECOND)
    world.pass_time(30 * HOUR)
    assert missed_reasons(world, range(FULL + 1, FULL + 4)) == set()


def test_due_in_a_held_pool(world: World) -> None:
    """So it is where the pool is in no crontab, and where more was handed in meanwhile."""
    submit(world, new_task(world, SKIPS, pool="small", in_=5 * MINUTE))
    hold(world)
    world.pass_time(4 * MINUTE)
    submit(world, new_task(world, SKIPS, pool="small", in_=10 * MINUTE))
    world.pass_time(12 * MINUTE)
    restart(world, 10 * SECOND)
    release(world)
    world.pass_time(MINUTE)
    assert missed_reasons(world, range(1, 3)) == set()


def test_due_while_down(world: World) -> None:
    """What is due after the crash was missed, as ever."""
    submit(world, new_task(world, SKIPS, pool="small", in_=5 * MINUTE))
    hold(world)
    world.pass_time(4 * MINUTE)
    restart(world, 2 * MINUTE)
    release(world)
    world.pass_time(MINUTE)
    assert missed_reasons(world, range(1, 2)) == {'pycron was not running; missed = "skip"'}


def test_due_while_down_and_then_in_a_held_pool(world: World) -> None:
    """Of one that comes again each instant is told of by what kept it back."""
    submit(world, new_task(world, pool="small", in_=15 * SECOND, every=4 * SECOND))
    hold(world)
    world.pass_time(10 * SECOND)
    restart(world, 11 * SECOND)
    world.pass_time(21 * SECOND)
    release(world)
    world.pass_time(SECOND)
    down, held = (run for run in rows(world, "task:1") if run.outcome is Outcome.MISSED)
    assert (down.count, down.reason.split(";")[0]) == (1, "pycron was not running")
    assert held.due == BEGIN + 23 * SECOND
    assert held.reason.split(";")[0] == "its pool was not in the crontab"


def test_crash_right_after_a_freeze(world: World) -> None:
    """Presence as something comes due that has to wait does not hide that there was a freeze."""
    submit(world, new_task(world, pool="small", in_=30 * SECOND))
    submit(world, new_task(world, SKIPS, in_=31 * SECOND))
    hold(world)
    world.pass_time(10 * SECOND)
    world.sees_timers_first = True
    world.crash_at, world.crash_in = "before a commit", 2
    world.freeze(MINUTE)
    assert world.daemon is None
    world.boot_daemon()
    world.pass_time(SECOND)
    assert missed_reasons(world, range(2, 3)) == {
        'pycron was frozen or the machine suspended; missed = "skip"'
    }


def test_due_in_many_lanes(world: World) -> None:
    """Of more lanes than the ledger is asked of, each counts."""
    count = MOST_ASKED + 1
    groups = [f"group{number}" for number in range(count)]
    submit(
        world,
        *(
            new_task(world, SKIPS, pool="small", group=group, in_=number * 7 * SECOND + MINUTE)
            for number, group in enumerate(groups)
        ),
    )
    hold(world)
    world.pass_time(10 * MINUTE)
    restart(world, 10 * SECOND)
    release(world)
    world.pass_time(HOUR)
    assert missed_reasons(world, range(1, count + 1)) == set()


def test_many_lanes_of_which_nothing_is_to_come(world: World) -> None:
    """However many lanes are kept back, nothing is written, and nobody wakes, for those."""
    groups = [f"group{number}" for number in range(3 * MOST_ASKED)]
    submit(world, *(new_task(world, pool="small", group=group) for group in groups))
    hold(world)
    world.pass_time(MINUTE)
    written = cursors_written(world)
    world.pass_time(HOUR)
    assert written == []
    assert world.daemon is not None
    assert world.daemon.timers.next_deadline() is None


def test_ledger_cannot_tell(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody can tell what is due next, it may be any time."""
    submit(world, new_task(world, SKIPS, pool="small", in_=5 * MINUTE))
    hold(world)

    def fail(*_: object, **__: object) -> None:
        raise LedgerError("disk I/O error")

    monkeypatch.setattr(world.ledger, "tasks_due", fail)
    world.pass_time(10 * MINUTE)
    monkeypatch.undo()
    restart(world, 10 * SECOND)
    release(world)
    world.pass_time(MINUTE)
    assert missed_reasons(world, range(1, 2)) == set()


def test_written_once_for_what_is_due(world: World) -> None:
    """Nothing is written, and nobody is woken, as long as nothing comes due."""
    submit(world, *(new_task(world, pool="small", in_=at * MINUTE) for at in (5, 5, 20)))
    hold(world)
    world.pass_time(2 * SECOND)
    written = cursors_written(world)
    world.pass_time(HOUR)
    assert [round(each / MINUTE) for each in written] == [5, 20]


def test_written_once_a_second_at_most(world: World) -> None:
    """Where very much comes due it is written now and then."""
    often = (new_task(world, pool="small", in_=n * SECOND / 20) for n in range(1, 201))
    submit(world, *often)
    hold(world)
    world.pass_time(2 * SECOND)
    written = cursors_written(world)
    world.pass_time(MINUTE)
    gaps = [after - before for before, after in pairwise(written)]
    assert len(written) in range(7, 11)
    assert min(gaps) >= SECOND


def test_what_is_taken_up_wakes_nobody_later(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: a task that waits for nothing costs one wake-up, not another one to look after it."""
    woken: Counter[type[object]] = Counter()
    handle = Core.handle

    def handled(core: Core, batch: Sequence[object]) -> None:
        for each in batch:
            if isinstance(each, TimersFired):
                woken.update(type(item) for item in each.items)
        handle(core, batch)

    monkeypatch.setattr(Core, "handle", handled)
    submit(world, new_task(world, every=MINUTE))
    world.pass_time(20 * MINUTE)
    assert woken == {TasksDue: 20}
