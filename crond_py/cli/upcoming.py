"""``pycron next``: when jobs, or expressions, are due next, and what clock changes do to them.

It needs no daemon; one that is running is asked which crontab it has. The ledger is opened only for
jobs that have an interval of elapsed time, because it knows what they count from.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import field
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from crond_py.cli import say
from crond_py.cli.ledgers import reading
from crond_py.cli.names import crontab_in_force, no_such_job
from crond_py.cli.options import Crontab, Json, StateDir, complete_job, places_of
from crond_py.cli.render import Cell, Column, Table, show
from crond_py.cli.times import (
    brief_text,
    local_text,
    parse_instant,
    relative_text,
    system_zone,
    zone_of,
)
from crond_py.clock import SystemClock
from crond_py.control.codec import instant_text
from crond_py.crontab import fingerprint, load_crontab
from crond_py.crontab.model import AfterTrigger, Job, StartupTrigger
from crond_py.dataclass import dataclass
from crond_py.errors import LedgerError, UsageError
from crond_py.model import Cursor
from crond_py.places import Places
from crond_py.policy import Occurrences
from crond_py.schedule import (
    Explaining,
    Shifted,
    format_duration,
    parse_schedule,
    system_timezone,
)
from crond_py.schedule.expression import has_hash
from crond_py.timetable import first_baseline, goes_by_the_clock, is_fixed_delay, schedule_of

_SECOND: Final = timedelta(seconds=1)
_USUAL_NUMBER: Final = 10
_MOST: Final = 10_000
"""How many are shown up to ``--until`` where nobody says how many."""


@dataclass(frozen=True, slots=True)
class _Source:
    """Something that is due now and then, shown from ``after`` on.

    ``note`` is said of each of its due instants, which are later by ``jitter``.
    """

    name: str
    schedule: Occurrences
    timezone: str
    after: datetime
    note: str = ""
    jitter: timedelta | None = None


@dataclass(frozen=True, slots=True)
class _Due:
    """One due instant; ``dropped`` is what clock changes have left out since the one before."""

    source: _Source
    due: datetime
    note: str
    dropped: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Window:
    """After which instant, until which, how many at most (0: all), and in which zone that is."""

    start: datetime
    end: datetime | None
    number: int
    zone: tzinfo


EXAMPLES = (
    "pycron next",
    "pycron next backup -n 5",
    "pycron next -e '30 2 * * *' --tz Europe/Berlin --from 2026-03-28",
)


def command(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="JOB", help="Only these jobs.", show_default=False, autocompletion=complete_job
        ),
    ] = None,
    *,
    number: Annotated[
        int | None,
        typer.Option(
            "-n", "--number", metavar="N", show_default=False,
            help="Show N due instants in all: 10, or with --until all there are; 0: all.",
        ),
    ] = None,
    start: Annotated[
        str,
        typer.Option(
            "--from", metavar="WHEN",
            help="Show what is due after this: an instant, a day, now, or a span from now (2d).",
        ),
    ] = "now",
    until: Annotated[
        str | None,
        typer.Option(metavar="WHEN", show_default=False, help="Show what is due until then."),
    ] = None,
    timezone: Annotated[
        str | None,
        typer.Option(
            "--timezone", "--tz", metavar="ZONE", show_default=False,
            help="The zone of --expr, of --from and --until, and of what is shown; else that of "
            "the jobs that are named, or of this machine.",
        ),
    ] = None,
    expr: Annotated[
        list[str] | None,
        typer.Option(
            "-e", "--expr", metavar="CRON", show_default=False,
            help="Show when this cron expression is due, without any crontab. May be given again.",
        ),
    ] = None,
    crontab: Crontab = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Show when jobs are due next.

    No daemon is needed; if one is running and no crontab is named, it is that of the daemon. What a
    change of the clocks has moved or left out is marked, with the
    reason.
    """
    if expr and jobs:
        raise UsageError("give names of jobs or --expr, not both")
    _check_number(number, until)
    now = SystemClock().now()
    if expr:
        window = _window(start, until, number, timezone, now)
        zone = timezone or system_timezone()
        sources = [_of_expression(text, zone, window.start) for text in expr]
    else:
        places = places_of(crontab, state_dir)
        chosen = _chosen(crontab_in_force(places, crontab), jobs or [])
        zones = {job.timezone for job in chosen} if jobs else {None}
        common = zones.pop() if len(zones) == 1 else None
        window = _window(start, until, number, timezone or common, now)
        sources = _of_jobs(chosen, places, window.start, are_named=bool(jobs))
    found = list(_merged(sources, window))
    if as_json:
        say.out_json([_record(item, timezone) for item in found])
    elif found:
        show(_table(found, timezone, now, is_from_now=start == "now"))
    else:
        say.note("nothing is due" + _within(window))
    for text in _dropped_after(sources, found, window):
        say.note(text)


def _check_number(number: int | None, until: str | None) -> None:
    if number is not None and number < 0:
        raise UsageError(f"-n takes how many due instants to show, not {number}")
    if number == 0 and not until:
        raise UsageError("-n 0 shows all due instants, so it needs --until")


def _window(
    start: str, until: str | None, number: int | None, timezone: str | None, now: datetime
) -> _Window:
    zone = zone_of(timezone) if timezone else system_zone()
    begin = parse_instant(start, zone, now, span_sign=1)
    end = parse_instant(until, zone, now, span_sign=1) if until else None
    if end is not None and end <= begin:
        raise UsageError("--until must be later than --from")
    if number is None:
        number = _USUAL_NUMBER if end is None else _MOST
    return _Window(begin, end, number, zone)


def _within(window: _Window) -> str:
    """Say between which instants, where that is bounded."""
    if window.end is None:
        return ""
    first, last = (local_text(each, window.zone) for each in (window.start, window.end))
    return f" after {first} until {last}"


_NOT_RUN: Final = "it has not run yet"
_UNREAD: Final = "the ledger cannot be read"

_WHENEVER: Final = {
    StartupTrigger: "whenever the daemon or the machine starts",
    AfterTrigger: "when the jobs that it follows have ended, see pycron graph",
}


# --- what is due --------------------------------------------------------------------------------


def _of_expression(text: str, timezone: str, start: datetime) -> _Source:
    note = "H is another number for each job" if has_hash(text) else ""
    return _Source(text, parse_schedule(text, timezone), timezone, start, note)


def _chosen(crontab: Path, names: Sequence[str]) -> list[Job]:
    """Return the jobs that are meant: those that are named, or all that are enabled."""
    loaded = load_crontab(crontab)
    for name in names:
        if name not in loaded.jobs:
            raise no_such_job(name, loaded.jobs, crontab)
    return [loaded.jobs[name] for name in dict.fromkeys(names)] or [
        job for job in loaded.jobs.values() if job.enabled
    ]


def _of_jobs(
    chosen: Sequence[Job], places: Places, start: datetime, *, are_named: bool
) -> list[_Source]:
    needs_anchor = not all(map(goes_by_the_clock, chosen))
    cursors = _read_cursors(places) if needs_anchor else {}
    why_now = _UNREAD if cursors is None else _NOT_RUN
    sources = []
    for job in chosen:
        if isinstance(job.trigger, StartupTrigger | AfterTrigger):
            if are_named:
                say.note(f"job {job.name} is due {_WHENEVER[type(job.trigger)]}")
        elif (source := _of_job(job, (cursors or {}).get(job.name), start, why_now)) is not None:
            sources.append(source)
    return sources


def _of_job(job: Job, cursor: Cursor | None, start: datetime, why_now: str) -> _Source | None:
    """Return when a job is due; ``why_now`` says why its interval begins now without a cursor."""
    anchor, after, note = start, start, ""
    if not goes_by_the_clock(job):
        if cursor is not None and cursor.anchor and cursor.fingerprint == fingerprint(job):
            anchor = cursor.anchor
        else:
            after = first_baseline(job, start)
            note = f"as if it began now: {why_now}"
    if is_fixed_delay(job):
        as_now = note if why_now == _UNREAD else ""
        note = _joined("if its runs took no time: it counts from the end of each", as_now)
    if not job.enabled:
        note = "the job is disabled"
    schedule = schedule_of(job, anchor)
    if schedule is None:
        return None
    jitter = schedule.by if isinstance(schedule, Shifted) else None
    return _Source(job.name, schedule, job.timezone or system_timezone(), after, note, jitter)


def _read_cursors(places: Places) -> dict[str, Cursor] | None:
    """Return what the ledger knows of each job; None where it cannot be read, which is told."""
    try:
        with reading(places) as ledger:
            return ledger.cursors() if ledger else {}
    except LedgerError as error:
        say.note(f"warning: {error}")
        return None


def _merged(sources: Sequence[_Source], window: _Window) -> Iterator[_Due]:
    """Yield what is due, in the order of time, and of the sources where that is equal."""
    heap: list[tuple[datetime, int, datetime]] = []

    def push(index: int, after: datetime) -> None:
        due = sources[index].schedule.next_after(after)
        if due is not None and (window.end is None or due <= window.end):
            heapq.heappush(heap, (due, index, after))

    for index in range(len(sources)):
        push(index, sources[index].after)
    shown = 0
    while heap:
        if shown == window.number != 0:
            if window.number == _MOST:
                say.note(f"there is more: only the first {_MOST} are shown, see -n")
            return
        due, index, before = heapq.heappop(heap)
        yield _described(sources[index], due, before)
        shown += 1
        push(index, due)


def _described(source: _Source, due: datetime, before: datetime) -> _Due:
    schedule, jitter = source.schedule, _jitter_text(source.jitter)
    if not isinstance(schedule, Explaining):
        return _Due(source, due, _joined(source.note, jitter))
    note = _joined(source.note, jitter, schedule.explain(due))
    return _Due(source, due, note, _dropped(source, schedule, before, due))


def _jitter_text(jitter: timedelta | None) -> str:
    """Say how much later something is; as due instants are, it is shown in whole seconds."""
    if jitter is None:
        return ""
    return f"jitter +{format_duration(jitter - jitter % _SECOND if jitter > _SECOND else jitter)}"


def _joined(*remarks: str) -> str:
    return "; ".join(filter(None, remarks))


def _dropped(source: _Source, schedule: Explaining, start: datetime, end: datetime) -> list[str]:
    """Say what changes of the clocks left out in (start, end], each with its day."""
    zone = zone_of(source.timezone)
    return [f"on {at.astimezone(zone).date()} {text}" for at, text in schedule.dropped(start, end)]


def _dropped_after(
    sources: Sequence[_Source], found: Sequence[_Due], window: _Window
) -> Iterator[str]:
    """Say what was left out later than the last due instant of each source, until the end."""
    if window.end is None or len(found) == window.number:
        return
    last = {id(item.source): item.due for item in found}
    for source in sources:
        if isinstance(source.schedule, Explaining):
            begin = last.get(id(source), window.start)
            for text in _dropped(source, source.schedule, begin, window.end):
                yield f"{source.name}: {text}"


# --- how it is shown ----------------------------------------------------------------------------


def _table(
    found: Sequence[_Due], timezone: str | None, now: datetime, *, is_from_now: bool
) -> Table:
    table = Table(
        [
            Column("DUE"),
            *([Column("IN", drop=2, is_right=True)] if is_from_now else []),
            Column("ZONE", drop=1),
            Column("JOB"),
            Column("NOTE", is_remark=True),
        ]
    )
    for item in found:
        zone = timezone or item.source.timezone
        table.add(
            Cell(
                local_text(item.due, zone_of(zone)),
                brief_text(item.due, now, zone_of(zone)),
            ),
            *([relative_text(item.due, now).removeprefix("in ")] if is_from_now else []),
            zone,
            item.source.name,
            _joined(item.note, *item.dropped),
        )
    return table


def _record(item: _Due, timezone: str | None) -> dict[str, Any]:
    zone = timezone or item.source.timezone
    return {
        "job": item.source.name,
        "due": instant_text(item.due),
        "local": item.due.astimezone(zone_of(zone)).isoformat(),
        "timezone": zone,
        "note": item.note or None,
        "jitter": item.source.jitter.total_seconds() if item.source.jitter is not None else None,
        "dropped": item.dropped,
    }
