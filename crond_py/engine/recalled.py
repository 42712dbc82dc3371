"""Occurrences that were claimed ahead and recalled: pycron was stopped before their start.

Those of many are recalled as well where it was killed: the next daemon sees that none has begun.

Such a run stays in the ledger as one that is queued and was recalled, its attempt closed as
cancelled. The next daemon does with it what the job's missed policy says of an occurrence that
nothing could start.
"""

from __future__ import annotations

from datetime import datetime

from crond_py.crontab.model import EveryTrigger
from crond_py.engine.records import JobState
from crond_py.model import EveryMode
from crond_py.policy import TICK, MissedRule, Occurrences, plan_missed
from crond_py.schedule import OneOff
from crond_py.timetable import schedule_of

RECALLED = "pycron was stopped before it was started"
NOT_BEGUN = "pycron ended before it was started"

WAS_DISABLED = "its job is disabled"
WAS_CHANGED = "its job has another schedule now"


def why_dropped(state: JobState, due: datetime, now: datetime, host: str) -> str:
    """Return why a recalled occurrence is missed for good; empty: it is to be run.

    Those that were due after it and have no row yet count as well: of several, one is the newest.
    One that is yet to come is run at its instant, if its job is still due then.
    """
    if not state.is_live:
        return WAS_DISABLED
    job = state.job
    rule = MissedRule(job.missed, job.missed_within, job.missed_limit)
    until, plan = max(due, now), None
    try:
        schedule = _schedule(state, due, now, host)
        if schedule is not None:
            plan = plan_missed(schedule, [(due - TICK, until)], rule, until)
    except Exception as error:  # noqa: BLE001 - the boundary of one job, which will be disabled
        return f"its schedule cannot be followed: {error}"
    is_another = not state.is_task and due <= state.cursor.baseline
    if plan is None or is_another:
        return WAS_CHANGED
    if due > now or due in plan.catch_up or plan.dropped is None:
        return ""
    return plan.dropped.why


def _schedule(state: JobState, due: datetime, now: datetime, host: str) -> Occurrences | None:
    """Return when a job is due; one that was handed in is so but then.

    Of one that counts from an end nobody knows when that would have been, once it is past.
    """
    anchor = state.cursor.anchor or state.cursor.baseline
    trigger = state.job.trigger
    if isinstance(trigger, EveryTrigger) and trigger.mode is EveryMode.FIXED_DELAY:
        return OneOff(due if due <= now else anchor + trigger.period)
    return OneOff(due) if state.is_task else schedule_of(state.job, anchor, host)
