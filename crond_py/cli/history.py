"""``pycron history``: what became of every occurrence, from the ledger."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated, Final

import typer

from crond_py.cli import say
from crond_py.cli.ledgers import reading
from crond_py.cli.names import check_known, is_run_id
from crond_py.cli.one_run import show_run
from crond_py.cli.options import Crontab, Json, StateDir, complete_job, places_of
from crond_py.cli.records import late_by, run_record, standing, took
from crond_py.cli.render import Cell, Column, Table, show
from crond_py.cli.times import brief_text, local_text, parse_instant, span_text, system_zone
from crond_py.cli.unwatched import note_if_unwatched
from crond_py.clock import SystemClock
from crond_py.engine.ahead import LONGEST_AHEAD
from crond_py.errors import UnknownNameError, UsageError
from crond_py.model import Outcome, Run, State
from crond_py.ports import LedgerReader, RunQuery

EXAMPLES = (
    "pycron history",
    "pycron history backup --since 7d --outcome failed",
    "pycron history 4711",
)

_BEGUN: Final = frozenset({Outcome.SUCCEEDED, Outcome.FAILED, Outcome.TIMED_OUT, Outcome.LOST})
"""The outcomes of what was started: where its instant is to come, the clock was set back."""


def command(
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="JOB|RUN|TASK", show_default=False, autocompletion=complete_job,
            help="Only this job or task (task:17); or all of the run with this number.",
        ),
    ] = None,
    *,
    number: Annotated[
        int,
        typer.Option("-n", "--number", metavar="N", help="Show at most N runs; 0: all of them."),
    ] = 20,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="WHEN", show_default=False,
            help="Only runs due then or later: an instant, a day, or a span ago (2d).",
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="WHEN", show_default=False, help="Only runs due before then."),
    ] = None,
    outcome: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OUTCOME", show_default=False,
            help="Only these: succeeded, failed, timed_out, cancelled, skipped, missed, lost. "
            "May be given again.",
        ),
    ] = None,
    crontab: Crontab = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Show what became of each due instant, or all of one run.

    The newest comes first. Instants are shown in the zone of this machine. LATE is how late that
    run started, without what it waited for jobs that it follows; TOOK is the time of all its
    attempts, and TRIES their number. A row may stand for a
    stretch of missed occurrences; it then tells how many they are and when the last was due.
    What is still to come, such as a task that was cancelled before its time, is shown of a job or
    task that is named, or with --until.
    """
    if number < 0:
        raise UsageError(f"-n takes the number of runs to show, not {number}")
    zone, now = system_zone(), SystemClock().now()
    query = RunQuery(
        job=job,
        outcomes=frozenset(map(_outcome, outcome or ())),
        since=parse_instant(since, zone, now, span_sign=-1) if since else None,
        until=parse_instant(until, zone, now, span_sign=-1) if until else None,
        limit=number or None,
    )
    places = places_of(crontab, state_dir)
    with reading(places, tells_lack=True) as ledger:
        runs = _chosen(ledger, query, now) if ledger else []
        is_number = job is not None and not runs and is_run_id(job)
        one = ledger.run(int(job or 0)) if ledger and is_number else None
    if ledger is None:
        say.note(f"there is no ledger in {places.state_dir}: no daemon has run on it yet")
    note_if_unwatched(places, [one] if one is not None else runs)
    if one is not None:
        _show_one(one, as_json=as_json)
        return
    if job is not None and not runs:
        try:
            check_known(job, places, crontab)
        except UnknownNameError:
            if not is_number:
                raise
            raise UnknownNameError(f"there is no run {job}, nor a job of that name") from None
    if as_json:
        say.out_json([run_record(run) for run in runs])
    elif runs:
        show(runs_table(runs, now))
    else:
        say.note("no runs")


def _chosen(ledger: LedgerReader, query: RunQuery, now: datetime) -> list[Run]:
    """Return the runs that are asked for.

    Where nobody asks for a job or for a time that is to come, rows of instants that are still to
    come are left out, but for what is running: a task for next year that was cancelled would
    otherwise be the newest until then.
    """
    is_about_what_comes = query.until is not None or (query.since or now) > now
    if query.job is not None or is_about_what_comes:
        return ledger.runs(query)
    bound = now + LONGEST_AHEAD
    past = ledger.runs(replace(query, until=bound))
    coming = replace(query, since=bound)
    running: list[Run] = []
    if not query.outcomes:
        open_runs = ledger.runs(replace(coming, states=frozenset({State.RUNNING})))
        running = [run for run in open_runs if run.due >= bound]
    elsewhere = replace(coming, outcomes=(query.outcomes or _BEGUN) & _BEGUN, limit=1)
    if elsewhere.outcomes and any(run.due >= bound for run in ledger.runs(elsewhere)):
        say.note(
            "the clock was set back: of what ran before, that which was due later than now is"
            " shown with --until"
        )
    return [*running, *past][: query.limit]


def _show_one(run: Run, *, as_json: bool) -> None:
    if as_json:
        say.out_json([run_record(run)])
    else:
        show_run(run)


def _outcome(text: str) -> Outcome:
    try:
        return Outcome(text.strip().lower().replace("-", "_"))
    except ValueError:
        raise UsageError(f"--outcome is one of {', '.join(Outcome)}, not {text!r}") from None


def runs_table(runs: list[Run], now: datetime) -> Table:
    """Return runs as they are listed."""
    table = Table(
        [
            Column("RUN", is_right=True),
            Column("JOB"),
            Column("DUE"),
            Column("LATE", drop=3, is_right=True),
            Column("TOOK", drop=2, is_right=True),
            Column("TRIES", drop=1, is_right=True),
            Column("CAUSE", drop=4),
            Column("OUTCOME", is_state=True),
            Column("REASON", is_remark=True),
        ]
    )
    for run in runs:
        late, span = late_by(run), took(run)
        table.add(
            str(run.id),
            run.job,
            Cell(local_text(run.due), brief_text(run.due, now)),
            span_text(late) if late is not None else "",
            span_text(span) if span is not None else "",
            str(run.attempts[-1].number) if run.attempts else "",
            run.cause.value,
            standing(run),
            _remark(run),
        )
    return table


def _remark(run: Run) -> str:
    """Return the reason, and where a row stands for several occurrences, for which."""
    if run.count == 1 or run.last_due is None:
        return run.reason
    stretch = f"{run.count} occurrences until {local_text(run.last_due)}"
    return f"{stretch}: {run.reason}" if run.reason else stretch
