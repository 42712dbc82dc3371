"""What may happen to submitted tasks; see ``actions``."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from crond_py.crontab.model import Job, StartupTrigger
from crond_py.model import Exit, Lane, Missed, Retry, Scale
from crond_py.ports import NewTask, TaskQuery
from tests.simulation import requests
from tests.simulation.actions import BACKLOG_ACTIONS, WIDE_ACTIONS, action
from tests.simulation.fakes import Behaviour
from tests.simulation.jobs import POOLS, SECOND, random_behaviour, random_job
from tests.simulation.world import World

_GROUPS = ("few", "many", "alice")
_MORE_GROUPS = (*_GROUPS, "bob", "carol", "dave", "erin", "frank", "grace", "heidi", "ivan")
_OFTEN_FAILED = (Exit(code=1), Exit(code=1), Exit(code=0))
_LONG_RETRIES = (Retry(3, 12 * SECOND, 2.0, 30 * SECOND), Retry(2, 70 * SECOND, 1.0, 90 * SECOND))


def _new_task(world: World) -> NewTask:
    random, pick = world.random, world.random.choice
    now = world.clock.now()
    scale = pick((Scale.WALL, Scale.STEADY))
    job = random_job(random, "task", now)
    # Chosen apart from what else happens, which is then what it is without.
    retry = Random(f"{world.seed} {len(world.tasks.jobs)}").choice((job.retry, *_LONG_RETRIES))
    job = replace(job, trigger=StartupTrigger(), jitter=None, retry=retry)
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


def _fails_often(world: World, task: NewTask) -> bool:
    """Tell whether a task is one of those that are to wait long for their retry."""
    return world.tasks.jobs[int(task.definition)].retry in _LONG_RETRIES


@action(3)
def submit(world: World) -> None:
    """Hand in a task, or a few."""
    if world.daemon is None:
        return
    rows = [_new_task(world) for _ in range(world.random.choice((1, 1, 3)))]
    if world.ledger.failing is None:
        number = 1 + max(world.tasks.handed_in, default=0)
        for each in range(number, number + len(rows)):
            behaviour = random_behaviour(world.random)
            if _fails_often(world, rows[0]):
                behaviour = replace(behaviour, exits=_OFTEN_FAILED)
            world.machine.behaviours.setdefault(f"task:{each}", behaviour)
    requests.submit(world, rows)


@action(1)
def submit_many(world: World) -> None:
    """Hand in more tasks at one instant than may wait in memory."""
    if world.daemon is None:
        return
    one = replace(_new_task(world), period=None, key=None)
    if _fails_often(world, one) and world.ledger.failing is None:
        number = 1 + max(world.tasks.handed_in, default=0)
        for each in range(number, number + 20):
            behaviour = Behaviour(exits=_OFTEN_FAILED)
            world.machine.behaviours.setdefault(f"task:{each}", behaviour)
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


@action(6, BACKLOG_ACTIONS)
def fall_behind(world: World) -> None:
    """Hand in more than there are slots for, of which some is due later; then there is a crash."""
    if world.daemon is None:
        return
    pick = world.random.choice
    lane = Lane("tiny", 0, pick(_GROUPS), Scale.STEADY)
    job = Job("task", StartupTrigger(), "job", missed=pick(tuple(Missed)))
    plain = NewTask(lane, world.clock.now(), world.tasks.define(job), "somebody", None, None)
    later = [replace(plain, due=plain.due + after * SECOND) for after in (4, 9, 16)]
    job = replace(job, missed=pick((Missed.SKIP, Missed.ONCE)))  # all would wait for one another
    often = replace(plain, period=4 * SECOND, definition=world.tasks.define(job))
    if world.ledger.failing is None:
        number = 1 + max(world.tasks.handed_in, default=0)
        for each in range(number, number + 20):
            world.machine.behaviours[f"task:{each}"] = Behaviour(lasts=(20 * SECOND,))
    requests.submit(world, [*[plain] * 20, *later, often])
    world.pass_time(pick((6, 14, 25)) * SECOND)
    if world.daemon is not None and pick((True, True, False)):
        world.kill_daemon()
        world.pass_time(pick((0, 1, 7)) * SECOND)


@action(9, WIDE_ACTIONS)
def flood(world: World) -> None:
    """Hand in tasks of many groups and priorities, most of them for one instant."""
    if world.daemon is None:
        return
    pick, now = world.random.choice, world.clock.now()
    definition = world.tasks.define(Job("task", StartupTrigger(), "job"))
    rows = [
        NewTask(
            Lane("small", pick((0, 0, 5)), pick(_MORE_GROUPS), pick(tuple(Scale))),
            now + pick((1, 1, 1, 4)) * SECOND,
            definition,
            "somebody",
            None,
            None,
        )
        for _ in range(pick((6, 10)))
    ]
    each = pick((1, 3, 12))
    if world.ledger.failing is None:
        number = 1 + max(world.tasks.handed_in, default=0)
        for task in range(number, number + each * len(rows)):
            lasts = (pick((SECOND, 3 * SECOND, 8 * SECOND)),)
            world.machine.behaviours[f"task:{task}"] = Behaviour(lasts=lasts)
    requests.submit(world, rows * each)
    world.pass_time(pick((0, 2, 9, 30)) * SECOND)
    if world.daemon is not None and pick((True, False, False, False)):
        world.kill_daemon()
