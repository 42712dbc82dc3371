"""What may happen to submitted tasks; see ``actions``."""

from __future__ import annotations

from dataclasses import replace

from crond_py.crontab.model import StartupTrigger
from crond_py.model import Lane, Scale
from crond_py.ports import NewTask, TaskQuery
from tests.simulation import requests
from tests.simulation.actions import action
from tests.simulation.jobs import POOLS, SECOND, random_behaviour, random_job
from tests.simulation.world import World

_GROUPS = ("few", "many", "alice")


def _new_task(world: World) -> NewTask:
    random, pick = world.random, world.random.choice
    now = world.clock.now()
    scale = pick((Scale.WALL, Scale.STEADY))
    job = random_job(random, "task", now)
    job = replace(job, trigger=StartupTrigger(), jitter=None)
    period = pick((None, 4 * SECOND, 31 * SECOND)) if scale is Scale.STEADY else None
    key = pick((None, None, "a", "b"))
    return NewTask(
        Lane(pick(POOLS), pick((0, 0, 5)), pick(_GROUPS), scale),
        now + pick((0, 0, 1, 9, 40, 600)) * SECOND,
        world.tasks.define(job),
        "somebody",
        period,
        key,
    )


@action(3)
def submit(world: World) -> None:
    """Hand in a task, or a few."""
    if world.daemon is None:
        return
    rows = [_new_task(world) for _ in range(world.random.choice((1, 1, 3)))]
    if world.ledger.failing is None:
        number = 1 + max(world.tasks.handed_in, default=0)
        for each in range(number, number + len(rows)):
            world.machine.behaviours.setdefault(f"task:{each}", random_behaviour(world.random))
    requests.submit(world, rows)


@action(1)
def submit_many(world: World) -> None:
    """Hand in more tasks at one instant than may wait in memory."""
    if world.daemon is None:
        return
    one = replace(_new_task(world), period=None, key=None)
    requests.submit(world, [one] * 20)


@action(2)
def cancel_task(world: World) -> None:
    """Cancel a task, be it due or not."""
    tasks = world.ledger.tasks(TaskQuery(is_open=None, limit=8))
    if world.daemon is None or not tasks:
        return
    task = world.random.choice(tasks)
    requests.cancel(world, task.id)
    world.pass_time(world.random.choice((0, 1)) * SECOND)
