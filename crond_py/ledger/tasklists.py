"""What is asked of tasks that are in memory, as pure functions; see ``ports.LedgerReader``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from heapq import nsmallest

from crond_py.model import Lane, Task
from crond_py.ports import LaneStock, TaskQuery

Position = tuple[datetime, int]
"""A place in the order of tasks: due and id."""


def position(task: Task) -> Position:
    """Return where a task is in the order of open ones."""
    return task.due, task.id


def first_due(
    tasks: Iterable[Task],
    lane: Lane,
    *,
    after: Position | None,
    until: datetime | None,
    limit: int,
) -> list[Task]:
    """Return the first open tasks of a lane."""
    found = (
        task
        for task in tasks
        if task.ended_at is None
        and task.lane == lane
        and (after is None or position(task) > after)
        and (until is None or task.due <= until)
    )
    return nsmallest(max(0, limit), found, key=position)


def count_due(
    tasks: Iterable[Task],
    lane: Lane,
    *,
    after: datetime | None,
    until: datetime | None,
    limit: int,
) -> int:
    """Return how many open tasks of a lane are due after and until an instant, up to ``limit``."""
    number = sum(
        task.ended_at is None
        and task.lane == lane
        and (after is None or task.due > after)
        and (until is None or task.due <= until)
        for task in tasks
    )
    return min(number, max(0, limit))


def chosen(tasks: Iterable[Task], query: TaskQuery) -> list[Task]:
    """Return the tasks that meet a query, in the order of its list."""
    found = in_order((task for task in tasks if _meets(task, query)), query)
    return found if query.limit is None else found[: max(0, query.limit)]


def in_order(tasks: Iterable[Task], query: TaskQuery) -> list[Task]:
    """Return tasks in the order in which a query lists them."""
    if query.is_open:
        return sorted(tasks, key=position)
    return sorted(tasks, key=lambda task: task.id, reverse=True)


def _meets(task: Task, query: TaskQuery) -> bool:
    return (
        (query.is_open is None or query.is_open is (task.ended_at is None))
        and (query.submitted_by is None or query.submitted_by == task.submitted_by)
        and (query.after is None or _comes_after(task, query.after, query))
    )


def _comes_after(task: Task, after: Position, query: TaskQuery) -> bool:
    return position(task) > after if query.is_open else task.id < after[1]


def stocks(tasks: Iterable[Task]) -> dict[Lane, LaneStock]:
    """Return the lanes of the open ones among the tasks."""
    number: Counter[Lane] = Counter()
    first: dict[Lane, datetime] = {}
    for task in tasks:
        if task.ended_at is None:
            number[task.lane] += 1
            first[task.lane] = min(task.due, first.get(task.lane, task.due))
    return {lane: LaneStock(number[lane], first[lane]) for lane in first}
