"""A job as ``pycron list`` shows it, made by the daemon or, where none runs, from its files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from crond_py.control.protocol import JobView
from crond_py.crontab.model import Job
from crond_py.crontab.summary import describe_trigger
from crond_py.engine.view import LagSummary
from crond_py.model import Run
from crond_py.schedule import system_timezone


def job_view(
    job: Job,
    next_due: datetime | None,
    active: Sequence[Run],
    last: Run | None,
    lag: LagSummary | None = None,
) -> JobView:
    """Return what is told about a job."""
    return JobView(
        name=job.name,
        schedule=describe_trigger(job),
        timezone=job.timezone or system_timezone(),
        enabled=job.enabled,
        next_due=next_due,
        active=tuple(active),
        last=last,
        overlap=job.overlap.value,
        pool=job.pool,
        description=job.description,
        tags=job.tags,
        lag=lag,
    )
