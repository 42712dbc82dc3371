"""A ledger in memory: the real one's behaviour, for tests and simulation with its bad days.

The real one has it for the time in which its file takes nothing. In tests it fails when it is
told to, and crashes as a process or a machine does: what a real ledger would have lost is then
gone. The conformance suite holds it to what the real one does.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from typing import Self

from crond_py.dataclass import dataclass
from crond_py.errors import LedgerError, LedgerRefusedError, UnknownNameError
from crond_py.ledger.changes import changed, claimed, with_attempt
from crond_py.ledger.memorytasks import MemoryTasks, check_text
from crond_py.ledger.retries import split
from crond_py.ledger.tasklists import Position, count_due, first_due, stocks
from crond_py.ledger.undo import Undo, take_back
from crond_py.model import TASK_PREFIX, Cursor, Lane, Run, State, Task
from crond_py.ports import (
    Claim,
    Gap,
    LaneStock,
    NewTask,
    Pruned,
    RunQuery,
    SetAttempt,
    SetCursor,
    SetRun,
    SetTask,
    Submitted,
    TaskQuery,
    WaitingRetry,
    Write,
)


@dataclass(slots=True)
class _Content:
    """All that the file would hold, and what of it a power cut would take."""

    identity: str
    runs: dict[int, Run] = field(default_factory=dict)
    occurrences: dict[tuple[str, int, datetime], int] = field(default_factory=dict)
    cursors: dict[str, Cursor] = field(default_factory=dict)
    last_id: dict[str, int] = field(default_factory=dict)
    tasks: MemoryTasks = field(default_factory=MemoryTasks)
    unsynced: list[Undo] = field(default_factory=list)


class MemoryLedger:
    """A ledger for one test; ``failing`` makes every write fail while it is set."""

    def __init__(self, identity: str = "00000000") -> None:
        self._content = _Content(identity)
        self._is_closed = False
        self._failures: list[Exception] = []
        self.failing: Exception | None = None
        self._gap: Gap | None = None

    @classmethod
    def holding(
        cls,
        identity: str,
        runs: Iterable[Run],
        cursors: Mapping[str, Cursor],
        last_id: int,
        *,
        tasks: Iterable[Task] = (),
        last_task_id: int = 0,
    ) -> Self:
        """Return a ledger that has these.

        Its next run is the one after ``last_id``, its next task that after ``last_task_id``.
        """
        ledger = cls(identity)
        ledger._content.last_id["runs"] = last_id
        for run in runs:
            ledger.hold(run)
        for cursor in cursors.values():
            ledger.hold_cursor(cursor)
        ledger._content.tasks.hold(tasks, last_task_id)
        return ledger

    def hold(self, run: Run) -> None:
        """Have a run as it is; not a write, so it is never undone."""
        self._content.runs[run.id] = run
        self._content.occurrences[run.job, run.era, run.due] = run.id
        self._content.last_id["runs"] = max(self.last_id, run.id)

    def hold_cursor(self, cursor: Cursor) -> None:
        """Have a cursor as it is, in the same way."""
        self._content.cursors[cursor.job] = cursor

    def has(self, job: str, era: int, due: datetime) -> bool:
        """Whether an occurrence has its run."""
        return (job, era, due) in self._content.occurrences

    @property
    def last_id(self) -> int:
        """The largest id that has been given, or used up by a refusal."""
        return self._content.last_id.get("runs", 0)

    @property
    def last_task_id(self) -> int:
        """The largest id that a task has been given."""
        return self._content.tasks.last_id

    @property
    def number_of_runs(self) -> int:
        """How many runs there are."""
        return len(self._content.runs)

    def revert(self) -> None:
        """Undo what was written since the last durable write."""
        take_back(self._content.unsynced)
        self._content.unsynced.clear()

    def settle_on(self) -> None:
        """Make durable what was written."""
        self._content.unsynced.clear()

    # --- bad days -------------------------------------------------------------------------

    def fail_next(self, error: Exception, *, times: int = 1) -> None:
        """Let the next write, or the next ``times``, raise ``error`` and write nothing."""
        self._failures.extend([error] * times)

    @property
    def unsynced(self) -> int:
        """How many transactions a power cut would undo now."""
        return len(self._content.unsynced)

    def crash(self, *, power_cut: bool, flushed: int = 0) -> MemoryLedger:
        """Return the ledger as it is found after a crash; this one is of no more use.

        A killed process loses nothing that was written. A power cut undoes what came after the
        last durable write, but for the ``flushed`` first transactions of it: a log is lost from
        its end, and the kernel may have got around to some of it.
        """
        self._check_open()
        self._is_closed = True
        after = MemoryLedger()
        after._content = self._content
        if power_cut:
            take_back(self._content.unsynced[flushed:])
            self._content.unsynced.clear()
        return after

    # --- reading --------------------------------------------------------------------------

    @property
    def identity(self) -> str:
        """The name that the ledger was given."""
        return self._content.identity

    def run(self, run_id: int) -> Run | None:
        """Return one run with its attempts."""
        self._check_open()
        return self._content.runs.get(run_id)

    def runs(self, query: RunQuery) -> list[Run]:
        """Return the runs that are asked for; see ``ports.RunQuery``."""
        self._check_open()
        chosen = sorted(filter(partial(_meets, query), self._all()), key=_age, reverse=True)
        if query.before_id is not None:
            before = self._content.runs.get(query.before_id)
            if before is None:
                message = f"there is no run {query.before_id} to go on from"
                raise UnknownNameError(message)
            chosen = [run for run in chosen if _age(run) < _age(before)]
        return chosen if query.limit is None else chosen[: max(0, query.limit)]

    def open_runs(self, *, with_retries: bool = True) -> list[Run]:
        """Return every run without an outcome; see ``ports.LedgerReader``."""
        self._check_open()
        runs = sorted((run for run in self._all() if run.outcome is None), key=_id)
        return runs if with_retries else split(runs, self.task)[0]

    def retries(self) -> list[WaitingRetry]:
        """Return the open runs that wait for their retry; see ``ports.LedgerReader``."""
        return split(self.open_runs(), self.task)[1]

    def last_runs(self) -> dict[str, Run]:
        """Return each job's newest run that has begun an attempt."""
        self._check_open()
        return {
            run.job: run
            for run in sorted(self._all(), key=_id)
            if run.attempts and not run.job.startswith(TASK_PREFIX)
        }

    def cursors(self) -> dict[str, Cursor]:
        """Return every job's cursor."""
        self._check_open()
        return dict(self._content.cursors)

    def task(self, task_id: int) -> Task | None:
        """Return one task."""
        self._check_open()
        return self._content.tasks.by_id.get(task_id)

    def tasks(self, query: TaskQuery) -> list[Task]:
        """Return the tasks that are asked for; see ``ports.TaskQuery``."""
        self._check_open()
        return self._content.tasks.listed(query)

    def lanes(self) -> dict[Lane, LaneStock]:
        """Return every lane that has open tasks."""
        self._check_open()
        return stocks(self._content.tasks.by_id.values())

    def tasks_due(
        self, lane: Lane, *, after: Position | None, until: datetime | None, limit: int
    ) -> list[Task]:
        """Return the first open tasks of a lane; see ``ports.LedgerReader``."""
        self._check_open()
        tasks = self._content.tasks.by_id.values()
        return first_due(tasks, lane, after=after, until=until, limit=limit)

    def count_due(
        self, lane: Lane, *, after: datetime | None, until: datetime | None, limit: int
    ) -> int:
        """Return how many tasks of a lane are due; see ``ports.LedgerReader``."""
        self._check_open()
        tasks = self._content.tasks.by_id.values()
        return count_due(tasks, lane, after=after, until=until, limit=limit)

    def _all(self) -> Iterable[Run]:
        return self._content.runs.values()

    # --- writing --------------------------------------------------------------------------

    def write(self, writes: Sequence[Write], *, durable: bool) -> list[int | None]:
        """Write all or nothing; see ``ports.Ledger``."""
        self._check_open()
        if not writes:
            return []
        self._fail_if_told()
        undo = Undo()
        ids: list[int | None] = []
        try:
            for write in writes:
                match write:
                    case Claim():
                        ids.append(self._claim(write, undo))
                    case SetRun():
                        self._set_run(write, undo)
                    case SetAttempt():
                        self._set_attempt(write, undo)
                    case SetCursor(cursor):
                        check_text(cursor.job, cursor.fingerprint, cursor.boot_id)
                        undo.put(self._content.cursors, cursor.job, cursor)
                    case SetTask():
                        self._content.tasks.move(write, undo)
        except BaseException:
            undo.take_back()
            raise
        self._commit(undo, is_durable=durable)
        return ids

    def submit(self, tasks: Sequence[NewTask], now: datetime) -> list[Submitted]:
        """Enter all of the tasks or none; see ``ports.Ledger``."""
        self._check_open()
        if not tasks:
            return []
        self._fail_if_told()
        undo = Undo()
        try:
            answers = self._content.tasks.submit(tasks, now, undo)
        except BaseException:
            undo.take_back()
            raise
        self._commit(undo, is_durable=True)
        return answers

    def prune(
        self, job: str, *, keep_runs: int | None, older_than: datetime | None, limit: int
    ) -> Pruned:
        """Delete old finished runs of a job; see ``ports.Ledger``."""
        self._check_open()
        self._fail_if_told()
        finished = [run for run in self._all() if run.job == job and run.outcome is not None]
        finished.sort(key=_age)
        kept = len(finished) if keep_runs is None else max(0, keep_runs)
        beyond = len(finished) - kept
        gone = (
            run
            for place, run in enumerate(finished)
            if place < beyond or (older_than is not None and _is_older(run, older_than))
        )
        return self._delete_runs(list(islice(gone, max(0, limit))), Undo())

    def prune_tasks(self, *, older_than: datetime, limit: int) -> Pruned:
        """Delete old tasks with their runs; see ``ports.Ledger``."""
        self._check_open()
        self._fail_if_told()
        undo = Undo()
        runs_of: dict[str, list[Run]] = defaultdict(list)
        for run in self._all():
            if run.job.startswith(TASK_PREFIX):
                runs_of[run.job].append(run)

        def is_free(task: Task) -> bool:
            return all(_has_finished(run, older_than) for run in runs_of[task.job])

        runs: list[Run] = []
        for task in self._content.tasks.to_prune(older_than, is_free)[: max(0, limit)]:
            found = sorted(runs_of[task.job], key=lambda run: (run.due, run.era))
            room = limit - len(runs)
            runs += found[:room]
            if len(found) > room:
                break
            undo.drop(self._content.tasks.by_id, task.id)
        return self._delete_runs(runs, undo)

    def _delete_runs(self, runs: Sequence[Run], undo: Undo) -> Pruned:
        outputs: list[str] = []
        for run in sorted(runs, key=_id):
            undo.drop(self._content.runs, run.id)
            undo.drop(self._content.occurrences, (run.job, run.era, run.due))
            outputs += [attempt.output for attempt in run.attempts if attempt.output]
        self._commit(undo, is_durable=False)
        return Pruned(len(runs), tuple(outputs))

    @property
    def gap(self) -> Gap | None:
        """What a test has said that it has lost."""
        return self._gap

    @property
    def troubles(self) -> Sequence[str]:
        """Nothing: its troubles are those that a test makes."""
        return ()

    @property
    def settles_in(self) -> timedelta | None:
        """Nothing is ever to be settled."""
        return None

    def settle(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Let go of it. Idempotent."""
        self._is_closed = True

    def _claim(self, claim: Claim, undo: Undo) -> int | None:
        content = self._content
        last_id = content.last_id.get("runs", 0)
        run_id = last_id + 1 if claim.run_id is None else claim.run_id
        if run_id in content.runs:
            raise LedgerRefusedError(f"the ledger has a run {run_id} already")
        run = claimed(run_id, claim)
        _check(run)
        # A refused claim uses its id up, as in SQLite.
        undo.put(content.last_id, "runs", max(last_id, run_id))
        occurrence = (claim.job, claim.era, claim.due)
        if occurrence in content.occurrences:
            return None
        undo.put(content.occurrences, occurrence, run_id)
        undo.put(content.runs, run_id, run)
        return run_id

    def _set_run(self, write: SetRun, undo: Undo) -> None:
        run = changed(self._known(write.run_id), write)
        _check(run)
        undo.put(self._content.runs, run.id, run)

    def _set_attempt(self, write: SetAttempt, undo: Undo) -> None:
        run = self._known(write.run_id)
        undo.put(self._content.runs, run.id, with_attempt(run, write.attempt))

    def _known(self, run_id: int) -> Run:
        run = self._content.runs.get(run_id)
        if run is None:
            raise LedgerRefusedError(f"the ledger has no run {run_id}, so it cannot change")
        return run

    def _commit(self, undo: Undo, *, is_durable: bool) -> None:
        # A durable write takes all before it along: they are in one log, in one order.
        if is_durable:
            self._content.unsynced.clear()
        else:
            self._content.unsynced.append(undo)

    def _fail_if_told(self) -> None:
        if self._failures:
            raise self._failures.pop(0)
        if self.failing is not None:
            raise self.failing

    def _check_open(self) -> None:
        if self._is_closed:
            raise LedgerError("the ledger cannot be used: it has been closed")


# --- rules of the tables ------------------------------------------------------------------------


def _check(run: Run) -> None:
    """Refuse what the tables of the real ledger refuse."""
    check_text(run.job)
    if (run.state is State.DONE) is not (run.outcome is not None):
        raise LedgerRefusedError(f"a run in state {run.state} with outcome {run.outcome} is none")
    if run.count < 1 or (run.last_due is not None and run.last_due < run.due):
        raise LedgerRefusedError(
            f"a run of {run.count} occurrences from {run.due} to {run.last_due}"
        )


def _meets(query: RunQuery, run: Run) -> bool:
    return (
        (query.job is None or run.job == query.job)
        and (not query.outcomes or run.outcome in query.outcomes)
        and (not query.states or run.state in query.states)
        and (query.since is None or (run.last_due or run.due) >= query.since)
        and (query.until is None or run.due < query.until)
    )


def _is_older(run: Run, than: datetime) -> bool:
    return run.due < than and _has_finished(run, than)


def _has_finished(run: Run, before: datetime) -> bool:
    return run.outcome is not None and (run.finished_at or run.claimed_at) < before


def _age(run: Run) -> tuple[datetime, int]:
    return run.due, run.id


def _id(run: Run) -> int:
    return run.id
