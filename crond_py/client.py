"""Submitted tasks in a program of one's own: ``crond_py.Client`` hands them to a running daemon.

    with crond_py.Client() as pycron:
        task = pycron.submit(["backup", "--all"], in_="10m", timeout="1h", key="backup-42")
        run = pycron.wait(task.id)

It asks the daemon over its control socket and the ledger by reading the file, so what it needs is
what ``pycron status`` and ``pycron history`` need. Nothing is kept open between two calls.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypedDict, Unpack

from crond_py.clock import EPOCH
from crond_py.control.batches import packed, placed_faults, size_of, submitted_for, task_values
from crond_py.control.client import Conversation, call, wait_until
from crond_py.control.protocol import CancelTask, Submit, SubmittedTask, WaitTask
from crond_py.control.waiting import Watch
from crond_py.dataclass import dataclass
from crond_py.engine.attendance import TASKS
from crond_py.engine.view import Cancelled
from crond_py.errors import (
    CrowdedError,
    Fault,
    ScheduleError,
    TaskRefusedError,
    UnknownNameError,
    UsageError,
)
from crond_py.model import Run, Scale, Task, task_id_of, task_job
from crond_py.places import find_places
from crond_py.ports import LedgerReader, TaskQuery
from crond_py.schedule import parse_duration

_PAGE: Final = 1000
_NONE: Final = timedelta(0)
_IN: Final = re.compile(r"(?<=stands beside )in(?=;)|(?<=\bat, )in(?= (?:and|or) every\b)")

Span = str | timedelta
"""A length of time: text with units ("90s", "1h30m") or a timedelta."""


class TaskKeys(TypedDict, total=False):
    """What a task can say of how it is run: the keys of a job of the crontab, pycron.toml(5)."""

    pool: str
    priority: int
    group: str
    offset: Span
    timezone: str
    dst_gap: str
    dst_fold: str
    description: str
    tags: Sequence[str]
    overlap: str
    queue_limit: int
    max_running: int
    missed: str
    missed_within: Span
    missed_limit: int
    on_crash: str
    timeout: Span
    kill_after: Span
    start_within: Span
    retry: Mapping[str, Any]
    retry_on: Sequence[int | str]
    success_codes: Sequence[int]
    on_stop: str
    leftovers: str
    env: Mapping[str, str]
    cwd: str | os.PathLike[str]
    shell: str | os.PathLike[str]
    umask: str
    user: str
    env_file: str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    nice: int
    limits: Mapping[str, Any]
    stdin: str | Mapping[str, str | os.PathLike[str]]
    output: str
    output_limit: str | int
    keep: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class StoredTask:
    """A task as the ledger has it.

    ``due`` is its next due instant, as the wall clock is set now, or the last where it has ended.
    With ``every`` it comes again and again. ``settings`` are the keys of a job that it says, as
    they were given; ``command`` is one of them. ``ended_at`` is set once nothing of it is to come:
    its last run, which has a row of its own, may still go on.
    """

    id: int
    job: str
    due: datetime
    every: timedelta | None
    settings: Mapping[str, Any]
    pool: str
    priority: int
    group: str
    submitted_by: str
    submitted_at: datetime
    key: str | None
    ended_at: datetime | None


TaskLike = int | str | SubmittedTask | StoredTask
"""A task: its number, the name of its job ("task:17"), or what ``submit`` or ``tasks`` gave."""


class Client:
    """Hands tasks to the daemon on a state directory, and asks what became of them.

    Without ``state_dir`` it is that of $PYCRON_STATE_DIR, else the usual one of the user. Any
    number of threads may use a client; leaving a ``with`` has nothing to clear away.

    Every method raises PycronError where the daemon or its ledger cannot be asked, and of that
    DaemonNotRunningError where no daemon is running.
    """

    def __init__(self, state_dir: str | os.PathLike[str] | None = None) -> None:
        self._places = find_places(state_dir=Path(state_dir) if state_dir is not None else None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return

    # --- submit ---------------------------------------------------------------------------

    def submit(
        self,
        command: str | Sequence[str],
        *,
        at: datetime | str | None = None,
        in_: Span | None = None,
        every: Span | None = None,
        key: str | None = None,
        **keys: Unpack[TaskKeys],
    ) -> SubmittedTask:
        """Store a task, durable once this returns, and return its id and when it is due.

        ``command`` is text for the shell, or a program and its arguments. Exactly one of these
        says when it is due: ``at`` (an aware datetime, or text of ISO 8601, which without an offset
        is read in the zone ``timezone``, else in that of the crontab; what has passed is due at
        once), ``in_`` (how long from now) or ``every`` (at this interval, first after one).
        Whatever the wall clock is set to meanwhile, the last two measure elapsed time.

        ``key`` is a name of your own: a task that was submitted with it before, by the same user,
        is what is returned, and no other is made. Like that a submission can be repeated after a
        failure. The other ``keys`` are those of a job; what they do not say is as in [defaults],
        and without ``cwd`` it runs at home, not where this program does.

        Raises TaskRefusedError with all faults where something in it is not good, and ScheduleError
        for a datetime without a time zone.
        """
        said = {"command": command, "at": at, "in": in_, "every": every, "key": key, **keys}
        values = task_values(said)
        try:
            size_of(values)
            return call(self._places.socket, Submit((values,), submitted_for())).tasks[0]
        except TaskRefusedError as error:
            raise TaskRefusedError(tuple(map(_in_python, error.faults))) from None

    def submit_many(self, tasks: Iterable[Mapping[str, Any]]) -> list[SubmittedTask]:
        """Store tasks, each given by the keys that ``submit`` takes (``in_`` is ``in`` here).

        They are stored some hundred at a time, each such batch whole or not at all. Where one is
        refused, or the daemon goes away, the batches before it stay: with a ``key`` for each task
        all of them can simply be submitted again.

        Raises TaskRefusedError, whose faults have the place of their task, from 1, as their line.
        """
        stored: list[SubmittedTask] = []
        user = submitted_for()
        numbered = enumerate((task_values(_said(task)) for task in tasks), start=1)
        for batch in packed(numbered, lambda entry: size_of(entry[1], "submitted", entry[0])):
            request = Submit(tuple(values for _, values in batch), user)
            try:
                stored += call(self._places.socket, request).tasks
            except TaskRefusedError as error:
                placed = placed_faults(error, "submitted", [number for number, _ in batch])
                raise TaskRefusedError(placed) from None
        return stored

    # --- cancel and ask -------------------------------------------------------------------

    def cancel(self, task: TaskLike) -> list[Cancelled]:
        """Let a task be due no more and end what runs of it; return at once.

        Of what was done there is one item each. Raises UnknownNameError where there is no such
        task, and EndedAlreadyError, which is one, where it has ended.
        """
        return list(call(self._places.socket, CancelTask(_id_of(task))).runs)

    def wait(self, task: TaskLike, timeout: Span | float | None = None) -> Run | None:
        """Wait until nothing of a task is to come or running, and return its newest run.

        That run has an outcome; it is None where the ledger has forgotten it. A task with ``every``
        is over when it is cancelled. Raises TimeoutError where the task is not over within
        ``timeout`` (text with units, a timedelta, or a number of seconds; None: any time),
        UnknownNameError where there is no such task, and UsageError for a timeout that is no
        length of time.
        """
        task_id, limit = _id_of(task), _limit(timeout)
        with Conversation(self._places.socket) as conversation:
            try:
                answer = wait_until(
                    conversation,
                    lambda slice_: WaitTask(task_id, slice_),
                    lambda answer: answer.is_over,
                    limit,
                    Watch.begin(),
                )
            except CrowdedError as error:
                message = f"whether {task_job(task_id)} is over within {limit} is not known"
                raise TimeoutError(f"{message}: {error}") from None
        if not answer.is_over:
            message = f"{task_job(task_id)} is not over within {limit}"
            raise TimeoutError(message)
        return answer.run

    def task(self, task: TaskLike) -> StoredTask:
        """Return a task; raise UnknownNameError where there is none (any more)."""
        task_id = _id_of(task)
        with self._reading() as ledger:
            found = ledger.task(task_id)
            if found is None:
                raise UnknownNameError(f"there is no task {task_id}")
            return stored_task(found, steady_offset(ledger))

    def tasks(self, *, is_open: bool | None = True) -> Iterator[StoredTask]:
        """Yield the tasks of which something is still to come, the first due first.

        With ``is_open`` False, those of which nothing is, and with None all of them, the newest
        first. However many they are, a page of them at a time is in memory, and, where the first
        due come first, the numbers of those that repeat. Each comes once, also where the daemon
        moves it on meanwhile.
        """
        with self._reading() as ledger:
            offset = steady_offset(ledger)
            for task in all_tasks(ledger, TaskQuery(is_open=is_open, limit=None)):
                yield stored_task(task, offset)

    def _reading(self) -> closing[LedgerReader]:
        # Only those who ask a ledger have to load SQLite.
        from crond_py.ledger.sqlite import open_reader  # noqa: PLC0415

        return closing(open_reader(self._places.ledger))


def _said(task: object) -> Mapping[str, Any]:
    """Return the keys of a task of ``submit_many``. Raises TypeError for what has none."""
    if not isinstance(task, Mapping):
        message = f'a task is a mapping such as {{"command": "...", "in": "10m"}}, not {task!r}'
        raise TypeError(message)
    return task


def _id_of(task: TaskLike) -> int:
    """Return the number of a task. Raises TypeError for what is none."""
    if isinstance(task, SubmittedTask | StoredTask):
        return task.id
    number = task_id_of(task) if isinstance(task, str) else task
    if not isinstance(number, int) or isinstance(number, bool):
        message = f'{task!r} is no task: say its number, or "task:17"'
        raise TypeError(message)
    return number


def _limit(timeout: Span | float | None) -> timedelta | None:
    """Return how long is waited at most. Raises UsageError."""
    if timeout is None:
        return None
    try:
        limit = _length(timeout)
    except (ScheduleError, TypeError, ValueError, OverflowError):
        limit = -timedelta.resolution
    if limit < _NONE:
        forms = 'text with units such as "90s", a timedelta or seconds'
        message = f"timeout must be a length of time ({forms}), not {timeout!r}"
        raise UsageError(f"{message}; None waits for as long as it takes")
    return limit


def _length(timeout: Span | float) -> timedelta:
    if isinstance(timeout, str):
        return parse_duration(timeout)
    return timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)


def _in_python(fault: Fault) -> Fault:
    """Return a fault with the key ``in`` as ``submit`` calls it: that is a word of Python's."""
    return replace(
        fault,
        key="in_" if fault.key == "in" else fault.key,
        message=_IN.sub("in_", fault.message),
        suggestion=_IN.sub("in_", fault.suggestion),
    )


# --- what is stored -------------------------------------------------------------------------------


def steady_offset(ledger: LedgerReader) -> timedelta:
    """Return how far the wall clock was set in all since the ledger was begun."""
    cursor = ledger.cursors().get(TASKS)
    return cursor.anchor - EPOCH if cursor is not None and cursor.anchor is not None else _NONE


def stored_task(task: Task, offset: timedelta) -> StoredTask:
    """Return a task as it is shown; ``offset`` is that of ``steady_offset``."""
    return StoredTask(
        id=task.id,
        job=task.job,
        due=task.due + offset if task.lane.scale is Scale.STEADY else task.due,
        every=task.period,
        settings=_settings(task.definition),
        pool=task.lane.pool,
        priority=task.lane.priority,
        group=task.lane.group,
        submitted_by=task.submitted_by,
        submitted_at=task.submitted_at,
        key=task.key,
        ended_at=task.ended_at,
    )


def _settings(definition: str) -> dict[str, Any]:
    """Return what a task says; nothing where the ledger has no sense for it."""
    try:
        settings = json.loads(definition)
    except (ValueError, RecursionError):
        return {}
    return settings if isinstance(settings, dict) else {}


def all_tasks(ledger: LedgerReader, query: TaskQuery) -> Iterator[Task]:
    """Yield the tasks of a query, of any number, a page of them at a time.

    Each comes once, as its page has it, also one that is due again later meanwhile. For that the
    numbers of those that repeat are kept in a list of open ones: any of them may be moved on.
    """
    left = query.limit
    met: set[int] = set()  # those that may come again further on
    while left is None or left > 0:
        page = ledger.tasks(replace(query, limit=_PAGE if left is None else min(_PAGE, left)))
        fresh = [task for task in page if task.id not in met]
        yield from fresh
        if len(page) < _PAGE:
            return
        met.update(task.id for task in fresh if query.is_open and task.period is not None)
        left = left - len(fresh) if left is not None else None
        query = replace(query, after=(page[-1].due, page[-1].id))
