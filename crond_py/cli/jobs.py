"""``pycron list``: every job, when it is next due, how it last went, what it is doing."""

from __future__ import annotations

from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Final

from crond_py.cli import say
from crond_py.cli.ledgers import reading
from crond_py.cli.options import Crontab, Json, StateDir, places_of
from crond_py.cli.records import job_record, job_state, oldest_waiting, standing
from crond_py.cli.render import Cell, Column, Table, show
from crond_py.cli.times import brief_text, local_text, relative_text, span_text, zone_of
from crond_py.clock import SystemClock
from crond_py.control.client import call
from crond_py.control.protocol import JobList, JobView, ListJobs
from crond_py.control.views import job_view
from crond_py.crontab import fingerprint, load_crontab
from crond_py.crontab.model import AtTrigger, Job
from crond_py.dataclass import dataclass
from crond_py.errors import DaemonNotRunningError, LedgerError, NotPermittedError
from crond_py.model import Cursor, Run, State
from crond_py.places import Places
from crond_py.policy import next_unaccounted
from crond_py.timetable import first_baseline, goes_by_the_clock, schedule_of

EXAMPLES = ("pycron list", "pycron list --json | jq -r '.[] | select(.enabled) | .job'")

_LEAST_SCHEDULE: Final = 12
"""To so many columns of the terminal a schedule is cut before its column is left out."""


def command(*, crontab: Crontab = None, state_dir: StateDir = None, as_json: Json = False) -> None:
    """List the jobs: when due next, how it last went.

    The daemon is asked, if one is running, and otherwise the crontab and the ledger. Next due
    instants are shown in the zone of their job. LATE is the median of how late the newest 100 runs
    were that this daemon has seen start, or given up as start_within says, LAST how the newest went
    that was started, and STATE what goes on now. Of those that were not started pycron history
    tells.
    """
    places = places_of(crontab, state_dir)
    listed = _from_daemon(places, places.crontab if crontab else None)
    past: _Past | None = _Past({}, {}, [])
    if isinstance(listed, str):
        past = _read_past(places)
        say.note(f"{listed} and the ledger" if past is not None else f"{listed} alone")
        listed = _from_files(places, past)
    is_known = past is not None
    if as_json:
        records = (job_record(job, listed.now, is_known=is_known) for job in listed.jobs)
        say.out_json(list(records))
    elif listed.jobs:
        show(_table(listed, is_known=is_known))
    else:
        say.note("there are no jobs")


def _from_daemon(places: Places, wanted: Path | None) -> JobList | str:
    """Ask the daemon; else return why it does not tell, and from which crontab the list is then."""
    try:
        listed = call(places.socket, ListJobs())
    except DaemonNotRunningError:
        return "no daemon is running: this is from the crontab"
    except NotPermittedError as error:
        return f"{error}; this is from the crontab"
    if wanted is not None and str(wanted) not in listed.crontab:
        return f"the daemon has another crontab: this is from {wanted}"
    return listed


# --- without a daemon -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Past:
    """What the ledger knows."""

    cursors: dict[str, Cursor]
    last: dict[str, Run]
    open_runs: list[Run]


def _from_files(places: Places, past: _Past | None) -> JobList:
    """List the jobs of the crontab; what it alone does not tell is left out without a past."""
    loaded, now = load_crontab(places.crontab), SystemClock().now()
    views = []
    for job in loaded.jobs.values():
        if past is None:
            next_due = _next_due(job, None, now) if goes_by_the_clock(job) else None
            views.append(job_view(job, next_due if job.enabled else None, [], None))
            continue
        next_due = _next_due(job, past.cursors.get(job.name), now) if job.enabled else None
        active = [run for run in past.open_runs if run.job == job.name]
        views.append(job_view(job, next_due, active, past.last.get(job.name)))
    return JobList(now, tuple(map(str, loaded.files)), tuple(views))


def _read_past(places: Places) -> _Past | None:
    """Return what the ledger knows; None where it cannot be read, which is told."""
    try:
        with reading(places, tells_lack=True) as ledger:
            if ledger is not None:
                return _Past(ledger.cursors(), ledger.last_runs(), ledger.open_runs())
    except LedgerError as error:
        say.note(f"warning: {error}")
        return None
    return _Past({}, {}, [])


def _next_due(job: Job, cursor: Cursor | None, now: datetime) -> datetime | None:
    """Return what comes next from now on; what was missed meanwhile is for the daemon to settle."""
    if cursor is None or cursor.fingerprint != fingerprint(job):
        schedule = schedule_of(job, now)
        return schedule.next_after(first_baseline(job, now)) if schedule else None
    schedule = schedule_of(job, cursor.anchor or now)
    if schedule is None:
        return None
    if isinstance(job.trigger, AtTrigger):
        return next_unaccounted(schedule, cursor)
    return schedule.next_after(max(now, cursor.accounted_until))


# --- the table ------------------------------------------------------------------------------------


def _table(listed: JobList, *, is_known: bool) -> Table:
    """Return the table; ``is_known``: what has become of the jobs is, and what they do."""
    waits = [oldest_waiting(job, listed.now) for job in listed.jobs]
    columns = [
        Column("JOB"),
        Column("SCHEDULE", drop=2, least=_LEAST_SCHEDULE),
        Column("NEXT DUE"),
        Column("IN", drop=3, is_right=True),
        Column("LATE", drop=4, is_right=True),
        Column("LAST", drop=1, is_state=True),
        Column("STATE", is_state=True),
    ]
    if any(waits):
        columns.append(Column("OLDEST", drop=5, is_right=True))
    table = Table(columns)
    for job, oldest in zip(listed.jobs, waits, strict=True):
        table.add(
            job.name,
            job.schedule,
            _next_text(job, listed.now),
            relative_text(job.next_due, listed.now).removeprefix("in ") if job.next_due else "",
            span_text(job.lag.p50) if job.lag else "",
            standing(job.last) if job.last else "-" if is_known else "?",
            doing(job, is_known=is_known),
            *([span_text(oldest) if oldest is not None else ""] if any(waits) else []),
        )
    return table


def _next_text(job: JobView, now: datetime) -> Cell:
    if job.next_due is None:
        return Cell("-", "-")
    zone = zone_of(job.timezone)
    return Cell(local_text(job.next_due, zone), brief_text(job.next_due, now, zone))


def doing(job: JobView, *, is_known: bool = True) -> str:
    """Return the states of the job's runs, each with how many there are of it if these are several.

    What runs comes first.
    """
    numbers = Counter(run.state for run in job.active)
    said = (
        f"{state} ({numbers[state]})" if numbers[state] > 1 else state
        for state in (State.RUNNING, State.WAITING_RETRY, State.QUEUED)
        if numbers[state]
    )
    return ", ".join(said) or job_state(job, is_known=is_known)
