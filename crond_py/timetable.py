"""From a job to its due instants: the schedule that its trigger and its ledger's anchor make.

The one place where a trigger is turned into a schedule, so that what ``pycron next`` shows is what
the daemon does. Not responsible for what has been run already: the cursor knows that.

A job's jitter makes all its due instants later by one amount, made from the names of the host and
the job. It is less than the jitter's width and less than the shortest distance between two due
instants of the job (for intervals the period, else measured, see ``schedule.spacing``), so that no
occurrence comes as late as the one after it would have.
"""

from __future__ import annotations

import os
from datetime import datetime, timedelta

from crond_py.crontab.model import AtTrigger, CronTrigger, EveryTrigger, Job
from crond_py.model import EveryMode
from crond_py.policy import TICK, Occurrences
from crond_py.schedule import (
    Aligned,
    Interval,
    OneOff,
    Schedule,
    Shifted,
    known_system_timezone,
    parse_schedule,
    shortest_distance,
    spread,
)

_NOTHING = timedelta(0)


def schedule_of(job: Job, anchor: datetime, host: str | None = None) -> Occurrences | None:
    """Return when ``job`` is due, with ``anchor`` for what an interval counts from.

    An interval that counts from the end of each run comes out as if runs took no time. None:
    nothing but a start of the daemon or the machine makes it due. ``host`` is the name that the
    job's jitter is made from, by default this machine's.
    """
    schedule = _plain_schedule(job, anchor)
    if schedule is None or job.jitter is None or is_fixed_delay(job):
        return schedule
    room = min(job.jitter, _shortest_distance(job, schedule))
    return Shifted(schedule, spread(room, host_name() if host is None else host, job.name))


def host_name() -> str:
    """Return the name of this machine, as ``uname -n`` does."""
    return os.uname().nodename


def goes_by_the_clock(job: Job) -> bool:
    """Tell whether the job is due at readings of the wall clock, not after elapsed time."""
    return not isinstance(job.trigger, EveryTrigger) or job.trigger.align is not None


def is_fixed_delay(job: Job) -> bool:
    """Tell whether the job's interval counts from the end of its last run."""
    return isinstance(job.trigger, EveryTrigger) and job.trigger.mode is EveryMode.FIXED_DELAY


def first_baseline(job: Job, now: datetime) -> datetime:
    """Return the instant after which a job is accounted for that is first seen at ``now``.

    An interval with an offset of nothing is due at ``now`` itself, so it begins just before.
    """
    match job.trigger:
        case EveryTrigger(align=None, offset=offset) if offset == _NOTHING:
            return now - TICK
        case _:
            return now


def _plain_schedule(job: Job, anchor: datetime) -> Schedule | None:
    """Return when the job would be due without its jitter."""
    match job.trigger:
        case CronTrigger(expressions):
            return _cron_schedule(job, expressions)
        case AtTrigger(instant):
            return OneOff(instant)
        case EveryTrigger(period, _, None, offset):
            return Interval(anchor if offset is None else anchor + offset - period, period)
        case EveryTrigger(period, offset=offset):
            return Aligned(_zone(job), period, offset or _NOTHING)
        case _:
            return None


def _cron_schedule(job: Job, expressions: tuple[str, ...]) -> Schedule:
    return parse_schedule(
        expressions, _zone(job), dst_gap=job.dst_gap, dst_fold=job.dst_fold, hash_key=job.name
    )


def _zone(job: Job) -> str:
    return job.timezone or known_system_timezone()


def _shortest_distance(job: Job, schedule: Schedule) -> timedelta:
    """Return how close together the job's due instants come."""
    if isinstance(schedule, Interval):
        return schedule.period
    parts: tuple[Schedule, ...] = ()
    if isinstance(job.trigger, CronTrigger) and job.trigger.expressions[1:]:
        parts = tuple(_cron_schedule(job, (text,)) for text in job.trigger.expressions)
    return shortest_distance(schedule, _zone(job), parts)
