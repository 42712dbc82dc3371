"""``pycron status``: what the daemon is doing, and what troubles it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from crond_py.cli import say
from crond_py.cli.options import DaemonCrontab, Json, StateDir, places_of
from crond_py.cli.records import lag_summary_record, run_record, waited_for
from crond_py.cli.render import Cell, Column, Table, show
from crond_py.cli.times import brief_text, local_text, relative_text, span_text
from crond_py.control.client import call
from crond_py.control.codec import instant_text
from crond_py.control.protocol import DaemonStatus, GetStatus
from crond_py.engine.view import LagCauses, LagFigures
from crond_py.model import Cause, Run, State, task_id_of

EXAMPLES = ("pycron status",)

_MOST_WAITING: Final = 10
"""How many tasks that wait for their turn are listed; any number of them may."""


def command(
    *, crontab: DaemonCrontab = None, state_dir: StateDir = None, as_json: Json = False
) -> None:
    """Show what the daemon is doing, and what troubles it.

    SINCE is for how long a run has been in its state, or when it is tried again. Of a pool OLDEST
    is how long the run has waited that waits longest, LATE how late the newest run started, and
    P50, P99 and MAX the median, the 99th percentile and the largest of that, of the newest 1000.
    The exit code is 3 if no daemon is running.
    """
    status = call(places_of(crontab, state_dir).socket, GetStatus())
    if as_json:
        say.out_json(_record(status))
    else:
        _show(status)


def _show(status: DaemonStatus) -> None:
    word = "stopping" if status.is_stopping else "running"
    say.out(f"pycron {status.version} is {word}, process {status.pid}")
    off = status.jobs - status.enabled_jobs
    lines = [
        ("since", f"{local_text(status.started_at)} ({_ago(status)})"),
        ("crontab", ", ".join(status.crontab)),
        ("jobs", f"{status.jobs}" + (f", {off} of them disabled" if off else "")),
    ]
    if status.next_due is not None:
        due = f"{local_text(status.next_due)} ({relative_text(status.next_due, status.now)})"
        lines.append(("next", f"{status.next_job} {due}"))
    if status.open_tasks:
        lines.append(("tasks", _tasks(status)))
    lines += [("trouble", trouble) for trouble in status.troubles]
    for name, text in lines:
        say.out(f"  {name:<8} {text}")
    if status.active:
        shown, left_out = _shown(status.active)
        say.out("")
        show(_runs(status, shown))
        if left_out:
            say.out(f"and {left_out} more tasks that wait for their turn")
    if status.parked_runs:
        say.out(f"and {status.parked_runs} more tasks that wait for their retry")
    if len(status.pools) > 1 or any(pool.waiting or pool.lag for pool in status.pools):
        say.out("")
        show(_pools(status))


def _tasks(status: DaemonStatus) -> str:
    text = f"{status.open_tasks} to come"
    if status.task_due is None:
        return text
    due = f"{local_text(status.task_due)} ({relative_text(status.task_due, status.now)})"
    return f"{text}, {'next' if status.task_due > status.now else 'the first was due'} {due}"


def _ago(status: DaemonStatus) -> str:
    return span_text(status.now - status.started_at)


def _shown(active: Sequence[Run]) -> tuple[list[Run], int]:
    """Return the runs that are listed, and how many tasks that wait are left out."""
    shown, waiting = [], 0
    for run in active:
        if run.state is State.QUEUED and task_id_of(run.job) is not None:
            waiting += 1
            if waiting > _MOST_WAITING:
                continue
        shown.append(run)
    return shown, max(0, waiting - _MOST_WAITING)


def _runs(status: DaemonStatus, runs: Sequence[Run]) -> Table:
    table = Table(
        [
            Column("RUN", is_right=True),
            Column("JOB"),
            Column("STATE", is_state=True),
            Column("DUE", drop=1),
            Column("SINCE", is_right=True),
            Column("TRY", drop=2, is_right=True),
            Column("PID", drop=3, is_right=True),
            Column("REASON", is_remark=True),
        ]
    )
    for run in runs:
        attempt = run.attempts[-1] if run.attempts else None
        table.add(
            str(run.id),
            run.job,
            run.state.value,
            Cell(local_text(run.due), brief_text(run.due, status.now)),
            _since(run, status),
            str(attempt.number) if attempt else "",
            _pid(run),
            run.reason,
        )
    return table


def _pid(run: Run) -> str:
    """Return the process of a run, if it has one, not only what earlier ones have left."""
    attempt = run.attempts[-1] if run.attempts else None
    has_process = attempt is not None and attempt.pid and attempt.outcome is None
    return str(attempt.pid) if attempt and has_process and run.state is State.RUNNING else ""


def _since(run: Run, status: DaemonStatus) -> str:
    """Return for how long the run has been in its state, or until it is tried again.

    What was due waits from then on, though it may have waited in the ledger at first.
    """
    if run.state is State.WAITING_RETRY and run.retry_at is not None:
        return relative_text(run.retry_at, status.now)
    attempt = run.attempts[-1] if run.attempts else None
    waits_since = run.due if run.cause is Cause.SCHEDULE else run.claimed_at
    since = (attempt.started_at or attempt.begun_at) if attempt else waits_since
    return span_text(status.now - since)


def _pools(status: DaemonStatus) -> Table:
    are_any_given_up = any(pool.given_up for pool in status.pools)
    table = Table(
        [
            Column("POOL"),
            Column("WORKERS", is_right=True),
            Column("RUNNING", is_right=True),
            Column("WAITING", is_right=True),
            Column("OLDEST", drop=1, is_right=True),
            Column("LATE", drop=2, is_right=True),
            Column("P50", drop=4, is_right=True),
            Column("P99", drop=3, is_right=True),
            Column("MAX", drop=5, is_right=True),
            Column("MOSTLY FOR", drop=6),
            *([Column("TOO LATE", is_right=True)] if are_any_given_up else []),
        ],
        tells_lack=True,
    )
    for pool in status.pools:
        workers = "any" if pool.workers is None else str(pool.workers)
        lag = pool.lag
        table.add(
            pool.name,
            workers,
            str(pool.running),
            f"{pool.waiting} (+{pool.behind})" if pool.behind else str(pool.waiting),
            span_text(pool.oldest_waiting) if pool.oldest_waiting is not None else "",
            *(map(span_text, (lag.last, lag.p50, lag.p99, lag.largest)) if lag else [""] * 4),
            _mostly_for(lag.causes) if lag else "",
            *([str(pool.given_up)] if are_any_given_up else []),
        )
    return table


def _mostly_for(causes: LagCauses) -> str:
    """Say what makes runs of a pool late, by the 99th percentiles; the work of others does not."""
    p99, what = max(
        (figures.p99, what)
        for what, figures in waited_for(replace(causes, dependency=LagFigures())).items()
    )
    return what if p99 else ""


def _record(status: DaemonStatus) -> dict[str, Any]:
    return {
        "pid": status.pid,
        "version": status.version,
        "started_at": instant_text(status.started_at),
        "stopping": status.is_stopping,
        "crontab": list(status.crontab),
        "jobs": status.jobs,
        "enabled_jobs": status.enabled_jobs,
        "next_due": instant_text(status.next_due) if status.next_due else None,
        "next_job": status.next_job or None,
        "tasks": status.open_tasks,
        "task_due": instant_text(status.task_due) if status.task_due else None,
        "parked_runs": status.parked_runs,
        "active": [run_record(run) for run in status.active],
        "pools": [
            {
                "pool": pool.name,
                "workers": pool.workers,
                "running": pool.running,
                "waiting": pool.waiting,
                "behind": pool.behind,
                "too_late": pool.given_up,
                "oldest_waiting_seconds": (
                    None if pool.oldest_waiting is None else pool.oldest_waiting.total_seconds()
                ),
                "lag": lag_summary_record(pool.lag),
            }
            for pool in status.pools
        ],
        "troubles": list(status.troubles),
    }
