"""Which open runs are of tasks that are run once and wait for their retry: there may be very many.

What this says of runs in memory the query ``retries`` says of those of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import timedelta

from crond_py.model import Run, State, Task, task_id_of
from crond_py.ports import WaitingRetry


def split(
    open_runs: Iterable[Run], task_of: Callable[[int], Task | None]
) -> tuple[list[Run], list[WaitingRetry]]:
    """Part runs from those that are of such tasks; ``task_of`` gives a task by its id."""
    others, retries = [], []
    for run in open_runs:
        retry = _waiting_retry(run, task_of)
        if retry is None:
            others.append(run)
        else:
            retries.append(retry)
    return others, retries


def _waiting_retry(run: Run, task_of: Callable[[int], Task | None]) -> WaitingRetry | None:
    task_id = task_id_of(run.job)
    if run.state is not State.WAITING_RETRY or task_id is None or run.retry_at is None:
        return None
    task = task_of(task_id)
    if task is None or task.period is not None:
        return None
    newest = run.attempts[-1] if run.attempts else None
    since = (newest.finished_at or newest.begun_at) if newest is not None else run.claimed_at
    return WaitingRetry(run.id, task.lane, run.retry_at, max(run.retry_at - since, timedelta(0)))
