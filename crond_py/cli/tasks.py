"""``pycron tasks``: the submitted tasks that are to come, all of them, or one in full."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any

import typer

from crond_py.cli import say
from crond_py.cli.history import runs_table
from crond_py.cli.ledgers import reading
from crond_py.cli.names import no_such_task, task_id
from crond_py.cli.options import DaemonCrontab, Json, StateDir, places_of
from crond_py.cli.records import run_record, standing
from crond_py.cli.render import Cell, Column, Table, show, show_facts
from crond_py.cli.times import brief_text, local_text, relative_text
from crond_py.cli.unwatched import note_if_unwatched
from crond_py.client import StoredTask, all_tasks, steady_offset, stored_task
from crond_py.clock import SystemClock
from crond_py.control.codec import instant_text
from crond_py.dataclass import dataclass
from crond_py.errors import UsageError
from crond_py.model import Run, Task, task_id_of
from crond_py.places import Places
from crond_py.ports import LedgerReader, RunQuery, TaskQuery
from crond_py.schedule import format_duration

EXAMPLES = ("pycron tasks", "pycron tasks 17", "pycron tasks --all --by alice")

_RUNS_OF_ONE = 20


def command(
    task: Annotated[
        str | None,
        typer.Argument(metavar="TASK", show_default=False, help="All of this one: 17 or task:17."),
    ] = None,
    *,
    every_one: Annotated[
        bool, typer.Option("--all", help="Also those that have ended, the newest first.")
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(metavar="USER", show_default=False, help="Only those that USER submitted."),
    ] = None,
    number: Annotated[
        int,
        typer.Option("-n", "--number", metavar="N", help="Show at most N tasks; 0: all of them."),
    ] = 20,
    crontab: DaemonCrontab = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """List the submitted tasks that are to come.

    They come from pycron at, in, every and submit, and from programs. The first due comes first;
    those that are running are there, too. With a number all of that task is shown. Instants are
    those of the zone of this machine. pycron history, logs and cancel take task:17, too.
    """
    if number < 0:
        raise UsageError(f"-n takes the number of tasks to show, not {number}")
    wanted = task_id(task) if task is not None else None
    if task is not None and wanted is None:
        raise UsageError(f"{task!r} is the number of no task; write 17 or task:17")
    places = places_of(crontab, state_dir)
    with reading(places, tells_lack=True) as ledger:
        if ledger is None:
            say.note(f"there is no ledger in {places.state_dir}: no daemon has run on it yet")
        listing = _Listing(ledger, SystemClock().now()) if ledger is not None else None
        if wanted is not None:
            _show_one(listing, wanted, places, as_json=as_json)
            return
        query = TaskQuery(None if every_one else True, by, number or None)
        rows = list(listing.rows(query)) if listing is not None else []
        left = listing.open - len(rows) if listing is not None and by is None else 0
    shown_runs = [row.run for row in rows if row.run is not None]
    note_if_unwatched(places, shown_runs, has_to_come=any(row.is_to_come for row in rows))
    if as_json:
        say.out_json([_record(row) for row in rows])
    elif rows:
        show(_table(rows, SystemClock().now()))
        if not every_one and left > 0:
            more = f"{left} more {'is' if left == 1 else 'are'}"
            say.note(f"{more} to come or running; -n 0 shows all")
    else:
        say.note("no tasks" if every_one else "no tasks are to come or running")


@dataclass(frozen=True, slots=True)
class _Row:
    """A task, what it is doing, and its newest run where that is known."""

    task: StoredTask
    state: str
    run: Run | None = None

    @property
    def is_to_come(self) -> bool:
        """Whether it is due again, or was due and has not begun."""
        return self.task.ended_at is None


class _Listing:
    """Reads tasks with what they are doing."""

    def __init__(self, ledger: LedgerReader, now: datetime) -> None:
        self._ledger = ledger
        self._now = now
        self._offset = steady_offset(ledger)
        self._going_on = {
            run.job: run for run in ledger.open_runs() if task_id_of(run.job) is not None
        }

    @property
    def open(self) -> int:
        """How many tasks have not ended or are still running."""
        return sum(stock.open for stock in self._ledger.lanes().values()) + len(self._ending())

    def rows(self, query: TaskQuery) -> Iterator[_Row]:
        """Yield the tasks of a query; those that run their last run count as open."""
        if query.is_open:
            wanted = query.submitted_by
            ending = [task for task in self._ending() if wanted in {None, task.submitted_by}]
            yield from map(self._row, ending[: query.limit])
            if query.limit is not None:
                query = replace(query, limit=max(0, query.limit - len(ending)))
        yield from map(self._row, all_tasks(self._ledger, query))

    def one(self, number: int) -> tuple[_Row, list[Run]]:
        """Return one task and its newest runs. Raises UnknownNameError."""
        task = self._ledger.task(number)
        if task is None:
            raise no_such_task(number)
        return self._row(task), self._ledger.runs(RunQuery(job=task.job, limit=_RUNS_OF_ONE))

    def _ending(self) -> list[Task]:
        """Return the tasks whose last run goes on, the one that was claimed first at first."""
        found = (self._ledger.task(task_id_of(job) or 0) for job in self._going_on)
        return [task for task in found if task is not None and task.ended_at is not None]

    def _row(self, task: Task) -> _Row:
        run = self._going_on.get(task.job)
        if run is None and task.ended_at is not None:
            run = next(iter(self._ledger.runs(RunQuery(job=task.job, limit=1))), None)
        stored = stored_task(task, self._offset)
        if run is not None:
            return _Row(stored, standing(run), run)
        if task.ended_at is not None:
            return _Row(stored, "ended")
        return _Row(stored, "pending" if stored.due > self._now else "waiting")


def _table(rows: list[_Row], now: datetime) -> Table:
    table = Table(
        [
            Column("TASK"),
            Column("DUE"),
            Column("IN", drop=2, is_right=True),
            Column("EVERY", drop=3, is_right=True),
            Column("STATE", is_state=True),
            Column("BY", drop=4),
            Column("KEY", drop=1),
            Column("COMMAND", is_remark=True),
        ]
    )
    for row in rows:
        task = row.task
        table.add(
            task.job,
            Cell(local_text(task.due), brief_text(task.due, now)),
            _distance(task, now).removeprefix("in "),
            format_duration(task.every) if task.every is not None else "",
            row.state,
            task.submitted_by,
            task.key or "",
            _command(task.settings),
        )
    return table


def _distance(task: StoredTask, now: datetime) -> str:
    """Return how far its due instant is, or nothing where it ended before that."""
    comes = task.ended_at is None or task.due <= now
    return relative_text(task.due, now) if comes else ""


def _command(settings: Mapping[str, Any]) -> str:
    command = settings.get("command", "")
    return shlex.join(command) if isinstance(command, list) else str(command)


def _show_one(listing: _Listing | None, number: int, places: Places, *, as_json: bool) -> None:
    if listing is None:
        raise no_such_task(number)
    row, runs = listing.one(number)
    note_if_unwatched(places, runs, has_to_come=row.is_to_come)
    if as_json:
        say.out_json({**_record(row), "runs": [run_record(run) for run in runs]})
        return
    now = SystemClock().now()
    say.out(f"{row.task.job}: {row.state}")
    show_facts(_lines(row.task, now))
    if runs:
        say.out("")
        show(runs_table(runs, now))


def _lines(task: StoredTask, now: datetime) -> Iterator[tuple[str, str]]:
    was = "was due" if task.ended_at is not None else "due"
    distance = _distance(task, now)
    yield was, f"{local_text(task.due)} ({distance})" if distance else local_text(task.due)
    if task.every is not None:
        yield "every", format_duration(task.every)
    yield "submitted", f"{local_text(task.submitted_at)} by {task.submitted_by}"
    if task.key is not None:
        yield "key", task.key
    yield "command", _command(task.settings)
    yield "pool", f"{task.pool}, priority {task.priority}, group {task.group}"
    for name, value in task.settings.items():
        if name != "command":
            yield name, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _record(row: _Row) -> dict[str, Any]:
    task = row.task
    return {
        "task": task.id,
        "job": task.job,
        "state": row.state,
        "due": instant_text(task.due),
        "every_seconds": task.every.total_seconds() if task.every is not None else None,
        "submitted_by": task.submitted_by,
        "submitted_at": instant_text(task.submitted_at),
        "key": task.key,
        "ended_at": instant_text(task.ended_at) if task.ended_at is not None else None,
        "pool": task.pool,
        "priority": task.priority,
        "group": task.group,
        "settings": dict(task.settings),
        "run": row.run.id if row.run is not None else None,
    }
