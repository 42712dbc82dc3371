"""From a job to its due instants: the schedule that its trigger and its ledger's anchor make.

The one place where a trigger is turned into a schedule, so that what ``pycron next`` shows is what
the daemon does. Not responsible for what has been run already: the cursor knows that.
"""

from __future__ import annotations

from datetime import datetime

from crond_py.crontab.model import AtTrigger, CronTrigger, EveryTrigger, Job
from crond_py.policy import Occurrences
from crond_py.schedule import Interval, OneOff, parse_schedule, system_timezone


def schedule_of(job: Job, anchor: datetime) -> Occurrences | None:
    """Return when ``job`` is due, with ``anchor`` for what an interval counts from.

    An interval that counts from the end of each run comes out as if runs took no time. None:
    nothing but a start of the daemon or the machine makes it due.
    """
    match job.trigger:
        case CronTrigger(expressions):
            return parse_schedule(
                expressions,
                job.timezone or system_timezone(),
                dst_gap=job.dst_gap,
                dst_fold=job.dst_fold,
                hash_key=job.name,
            )
        case AtTrigger(instant):
            return OneOff(instant)
        case EveryTrigger(period):
            return Interval(anchor, period)
        case _:
            return None
