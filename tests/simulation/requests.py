"""Requests about tasks as a client makes them, and what is noted of their answers."""

from __future__ import annotations

from collections.abc import Sequence

from crond_py.ports import NewTask, TaskQuery
from tests.simulation.world import World


def submit(world: World, rows: Sequence[NewTask]) -> None:
    """Hand in tasks."""
    answer = world.ask(lambda core: core.submit(rows))
    if not isinstance(answer, list):
        return
    for each in answer:
        task = each.task
        world.tasks.told.add(task.id)
        if task.key is not None:
            known = world.tasks.keys.setdefault(task.key, task.id)
            assert known == task.id, f"key {task.key} is task {known} and task {task.id}"


def cancel(world: World, task_id: int) -> None:
    """Cancel a task."""
    name = f"task:{task_id}"
    world.story.tell("cancel it", job=name)
    world.requests.asked_jobs.add(name)
    now_ns = world.clock.monotonic_ns()
    answer = world.ask(lambda core: core.cancel_task(task_id))
    if not isinstance(answer, list) or world.ledger.failing is not None:
        return
    world.tasks.over.setdefault(task_id, max(world.ledger._content.runs, default=0))
    for each in answer:
        if each.run_id:
            world.requests.asked_to_cancel.add(each.run_id)
            world.requests.cancelled.setdefault(each.run_id, now_ns)
        else:
            world.tasks.cancelled.add(task_id)


def end_all(world: World) -> None:
    """Let no task come again."""
    for task in world.ledger.tasks(TaskQuery(limit=None)):
        if task.period is not None:
            cancel(world, task.id)
