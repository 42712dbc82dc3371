"""What ``--json`` prints of runs and jobs. The keys are part of the product: they stay.

Instants are RFC 3339 in UTC, spans are seconds, what is not known is null.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from crond_py.control.codec import instant_text
from crond_py.control.protocol import JobView
from crond_py.engine.view import LagCauses, LagFigures, LagSummary
from crond_py.model import Attempt, Cause, Lag, Run, State


def late_by(run: Run) -> timedelta | None:
    """Return how late a run's first process began; None: it has none.

    What it has waited for jobs that it follows does not count, nor do steps of the clock. Where
    a crash has taken what is known of that, a run that was not due by itself counts from its claim.
    """
    first = run.attempts[0] if run.attempts else None
    if first is not None and first.lag is not None:
        return first.lag.own
    if first is None or first.started_at is None or first.number != 1:
        return None
    since = run.due if run.cause is Cause.SCHEDULE else run.claimed_at
    return first.started_at - since


def took(run: Run) -> timedelta | None:
    """Return how long all attempts took together; None where one has not ended or nobody knows.

    What lies between them does not count, nor do attempts that could not be started.
    """
    spans = []
    for attempt in run.attempts:
        could_not_start = attempt.started_at is None and attempt.outcome is not None
        if could_not_start:
            continue
        if attempt.started_at is None or attempt.finished_at is None:
            return None
        spans.append(attempt.finished_at - attempt.started_at)
    return sum(spans, timedelta(0)) if spans else None


def standing(run: Run) -> str:
    """Return the run's outcome, or its state while it has none."""
    return run.outcome.value if run.outcome else run.state.value


def run_record(run: Run) -> dict[str, Any]:
    """Return a run as JSON."""
    first = run.attempts[0] if run.attempts else None
    return {
        "run": run.id,
        "job": run.job,
        "due": instant_text(run.due),
        "last_due": _instant(run.last_due),
        "count": run.count,
        "cause": run.cause.value,
        "state": run.state.value,
        "outcome": run.outcome.value if run.outcome else None,
        "reason": run.reason or None,
        "claimed_at": instant_text(run.claimed_at),
        "started_at": _instant(first.started_at if first else None),
        "finished_at": _instant(run.finished_at),
        "retry_at": _instant(run.retry_at),
        "late_seconds": _seconds(late_by(run)),
        "lag": _lag_record(first.lag) if first and first.lag else None,
        "took_seconds": _seconds(took(run)),
        "attempts": [_attempt_record(attempt) for attempt in run.attempts],
    }


def _attempt_record(attempt: Attempt) -> dict[str, Any]:
    left = attempt.exit
    return {
        "attempt": attempt.number,
        "pid": attempt.pid,
        "started_at": _instant(attempt.started_at),
        "finished_at": _instant(attempt.finished_at),
        "outcome": attempt.outcome.value if attempt.outcome else None,
        "reason": attempt.reason or None,
        "exit_code": left.code if left else None,
        "signal": left.signal if left else None,
        "cpu_seconds": _seconds(left.cpu if left else None),
        "peak_memory_bytes": left.peak_memory_bytes if left else None,
    }


def _lag_record(lag: Lag) -> dict[str, float]:
    """Return what a run has waited for before its first process began, in seconds."""
    return {
        "dispatch": lag.dispatch.total_seconds(),
        "dependency": lag.dependency.total_seconds(),
        "overlap": lag.overlap.total_seconds(),
        "pool": lag.pool.total_seconds(),
        "spawn": lag.spawn.total_seconds(),
    }


def lag_summary_record(summary: LagSummary | None) -> dict[str, Any] | None:
    """Return how late runs have started, in seconds, of how many that is known, and why."""
    if summary is None:
        return None
    causes = summary.causes
    return {
        **_figures_record(summary),
        "count": summary.count,
        "causes": {
            "dispatch": _figures_record(causes.dispatch),
            "dependency": _figures_record(causes.dependency),
            "overlap": _figures_record(causes.overlap),
            "pool": _figures_record(causes.pool),
            "spawn": _figures_record(causes.spawn),
        },
    }


def _figures_record(figures: LagFigures | LagSummary) -> dict[str, float]:
    return {
        "last": figures.last.total_seconds(),
        "p50": figures.p50.total_seconds(),
        "p99": figures.p99.total_seconds(),
        "max": figures.largest.total_seconds(),
    }


def waited_for(parts: Lag | LagCauses) -> dict[str, Any]:
    """Return the parts of a lag by what was waited for, in words."""
    return {
        "pycron": parts.dispatch,
        "an earlier run": parts.overlap,
        "a slot": parts.pool,
        "the system": parts.spawn,
        "jobs that it follows": parts.dependency,
    }


def oldest_waiting(job: JobView, now: datetime) -> timedelta | None:
    """Return for how long that of a job's runs waits which waits longest; None: none does."""
    waits = (now - run.claimed_at for run in job.active if run.state is State.QUEUED)
    return max(waits, default=None)


def job_state(job: JobView, *, is_known: bool = True) -> str:
    """Return what a job is doing: ``disabled``, ``idle``, or the state of its runs.

    Where that is not known it is ``unknown``, unless the job is disabled.
    """
    states = {run.state for run in job.active}
    for state in (State.RUNNING, State.WAITING_RETRY, State.QUEUED):
        if state in states:
            return state.value
    if not job.enabled:
        return "disabled"
    return "idle" if is_known else "unknown"


def job_record(job: JobView, now: datetime, *, is_known: bool = True) -> dict[str, Any]:
    """Return a job as JSON, as it stands at an instant; ``is_known``: what it does is."""
    return {
        "job": job.name,
        "schedule": job.schedule,
        "timezone": job.timezone,
        "enabled": job.enabled,
        "state": job_state(job, is_known=is_known),
        "next_due": _instant(job.next_due),
        "active": [run_record(run) for run in job.active],
        "waiting": sum(run.state is State.QUEUED for run in job.active),
        "oldest_waiting_seconds": _seconds(oldest_waiting(job, now)),
        "last": run_record(job.last) if job.last else None,
        "lag": lag_summary_record(job.lag),
        "overlap": job.overlap,
        "pool": job.pool,
        "description": job.description or None,
        "tags": list(job.tags),
    }


def _instant(instant: datetime | None) -> str | None:
    return instant_text(instant) if instant else None


def _seconds(span: timedelta | None) -> float | None:
    return span.total_seconds() if span is not None else None
