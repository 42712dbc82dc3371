"""A time in which the ledger's file takes nothing: writes go aside, to the journal.

A ledger in memory answers meanwhile for what the file does not know: the numbers of new runs,
whether an occurrence has its run, how a run stands. It begins with the open runs and the cursors;
what else is asked for is got from the file, which can mostly still be read.

Not responsible for when such a time begins and ends; see ``journaled``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from crond_py.errors import LedgerError, LedgerRefusedError, UnknownNameError
from crond_py.ledger.changes import changed, with_attempt
from crond_py.ledger.journal import BEGIN, Journal, Record
from crond_py.ledger.known import Remains
from crond_py.ledger.memory import MemoryLedger
from crond_py.ledger.moved import Moved
from crond_py.ledger.records import to_attempt, to_cursor, to_set_run, to_set_task
from crond_py.ledger.retries import split
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.ledger.steps import Kind, Step, pack, run_of_step, to_step, unpack
from crond_py.ledger.tasklists import Position
from crond_py.logfields import fields
from crond_py.model import Cursor, Lane, Run, Task, task_id_of
from crond_py.policy import TICK
from crond_py.ports import (
    Claim,
    LaneStock,
    RunQuery,
    SetAttempt,
    SetRun,
    SetTask,
    TaskQuery,
    WaitingRetry,
    Write,
)

log = logging.getLogger("pycron.ledger")

AT_ONCE = 100
"""How many writes are copied from the journal in one go; the engine stands still for it."""

REFUSALS = (LedgerRefusedError, TypeError, ValueError, OverflowError)
"""What says that a record will never be taken."""


class Aside:
    """Takes writes while the file does not, and copies them to it once it does.

    ``reason`` is why the file took nothing when it was tried last. ``before`` is what was known
    when this began.
    """

    def __init__(
        self, reason: str, before: Remains, file: SqliteLedger, journal: Journal | None
    ) -> None:
        self.reason = reason
        self.before = before
        self._file = file
        self.moved = Moved()
        self.memory = MemoryLedger.holding(
            before.identity, before.open_runs, before.cursors, before.last_id
        )
        self._journal = journal
        self._is_told = False
        self._written = before.applied
        self._copied = before.applied
        self._first = self._place = BEGIN

    @property
    def written(self) -> int:
        """The number of the journal's last record."""
        return self._written

    @property
    def kept(self) -> int:
        """How many records the journal has that the file has not."""
        return self._written - self._copied

    @property
    def remains(self) -> Remains:
        """What is to be carried over should the file be lost now; the journal follows on it.

        Of that some may be in the file already, so that a task has ended there which was open.
        """
        jobs = (run.job for run in self.memory.open_runs())
        ended = {task_id for job in jobs if (task_id := task_id_of(job)) is not None}
        ended.update(move.task_id for move in self.moved.moves)
        return replace(self.before, ended_tasks=ended)

    @property
    def is_told(self) -> bool:
        """Whether the log has been told that the journal is in use."""
        return self._is_told

    def resume(self, records: Sequence[Record]) -> None:
        """Go on with what an earlier daemon has left in the journal. Raises LedgerError."""
        for record in records:
            if record.number <= self._copied:
                self._first = self._place = record.place
                continue
            for step in unpack(record.content):
                self._hold(step)
            self._written = record.number
        self.moved.keep()
        self._tell_once()

    def _hold(self, step: Step) -> None:
        """Have in memory what a step makes of what is there."""
        match step.kind:
            case Kind.CURSOR:
                self.memory.hold_cursor(to_cursor(step.row))
            case Kind.CLAIM:
                run = run_of_step(step)
                if not self.memory.has(run.job, run.era, run.due):
                    self.memory.hold(run)
            case Kind.RUN:
                change = to_set_run(step.row)
                before = self.run(change.run_id)
                if before is not None:
                    self.memory.hold(changed(before, change))
            case Kind.ATTEMPT:
                before = self.run(step.row[0])
                if before is not None:
                    self.memory.hold(with_attempt(before, to_attempt(step.row[1:])))
            case Kind.TASK:
                self.moved.take(to_set_task(step.row), must_be_known=False)

    # --- writing --------------------------------------------------------------------------

    def write(self, writes: Sequence[Write], *, durable: bool) -> list[int | None]:
        """Write to the journal, all or nothing but for what no ledger would take.

        Raises LedgerError where the journal takes nothing either.
        """
        steps: list[Step] = []
        ids: list[int | None] = []
        is_read = True
        try:
            for write in writes:
                # Once it cannot be read it is let be: each try may take its time.
                is_read = is_read and self._has_looked_up(write)
                step, run_id = self._entered(write, is_read=is_read)
                if step is not None:
                    steps.append(step)
                if isinstance(write, Claim):
                    ids.append(run_id)
            if steps:
                self._append(steps, durable=durable)
        except BaseException:
            self.memory.revert()
            self.moved.revert()
            raise
        self.memory.settle_on()
        self.moved.keep()
        return ids

    def _has_looked_up(self, write: Write) -> bool:
        """Get from the file what only it knows: the run of an occurrence, or one that has ended.

        Where it cannot be read either (False), nobody knows of any, and the cursors say what is
        due.
        """
        found = None
        try:
            match write:
                case Claim(job, era, due) if not self.memory.has(job, era, due):
                    found = self._file.run_of(job, era, due)
                case SetRun(run_id) | SetAttempt(run_id) if self.memory.run(run_id) is None:
                    found = self._file.run(run_id)
                case SetTask(task_id):
                    self.moved.look_up(task_id, self._file)
                case _:
                    pass
        except LedgerError:
            return False
        except REFUSALS:
            return True  # it makes no sense, and that is told when it is entered
        if found is not None:
            self.memory.hold(found)
        return True

    def _entered(self, write: Write, *, is_read: bool) -> tuple[Step | None, int | None]:
        """Enter one write in memory; return its step, unless there is nothing to do, and its id."""
        try:
            step = to_step(write)
            if isinstance(write, SetTask):
                self.moved.take(write, must_be_known=is_read)
                return step, None
            ids = self.memory.write([write], durable=False)
        except REFUSALS as error:
            tell_refused(write, error)
            return None, None
        if not isinstance(write, Claim):
            return step, None
        (run_id,) = ids
        return (None if run_id is None else step.with_id(run_id)), run_id

    def _append(self, steps: Sequence[Step], *, durable: bool) -> None:
        if self._journal is None:
            raise LedgerError(self.reason)
        try:
            if not self._journal.identity:  # there was no room for its title so far
                self._journal.begin(self.before.identity)
            self._journal.append(self._written + 1, pack(steps), durable=durable)
        except LedgerError as error:
            raise LedgerError(f"{self.reason}; and {error}") from error
        self._written += 1
        self._tell_once()

    def _tell_once(self) -> None:
        if self._is_told or self._journal is None:
            return
        self._is_told = True
        log.error(
            "the ledger cannot be written; what runs is kept in the journal until it can",
            extra=fields(reason=self.reason, journal=str(self._journal.path)),
        )

    # --- copying --------------------------------------------------------------------------

    def copy_some(self) -> bool:
        """Copy the next records of the journal to the file; True: there are more.

        Raises LedgerError where the file takes nothing, also where there is nothing to copy.
        """
        steps: list[Step] = []
        number, place = self._copied, self._place
        while number < self._written and len(steps) < AT_ONCE:
            record = self._journal.read(number + 1, place) if self._journal else None
            if record is None:
                raise LedgerError("what is in the journal cannot be read back")
            steps += unpack(record.content)
            number, place = record.number, record.place
        is_last = number == self._written
        last_id, last_task_id = 0, 0
        if is_last:
            last_id, last_task_id = self.memory.last_id, self.before.last_task_id
        # What a power cut takes of the file is still in the journal, until all has been copied.
        results = self._file.write_each(
            steps, applied=number, last_id=last_id, last_task_id=last_task_id, durable=is_last
        )
        tell_results(steps, results)
        self._copied, self._place = number, place
        return not is_last

    def go_on_with(self, file: SqliteLedger) -> None:
        """Go on with another file, which has some of the journal's records, or none."""
        self._file = file
        self.moved.look_again()
        applied = file.applied
        if applied != self._copied:
            self._copied, self._place = self.before.applied, self._first

    # --- asking ---------------------------------------------------------------------------

    def run(self, run_id: int) -> Run | None:
        """Return one run with its attempts."""
        kept = self.memory.run(run_id)
        return kept if kept is not None else self._file.run(run_id)

    def runs(self, query: RunQuery) -> list[Run]:
        """Return the runs that are asked for; of the file no more are read than may be needed."""
        before = self._run_to_go_on_from(query)
        ours = self.memory.runs(replace(query, limit=None, before_id=None))
        theirs = self._file.runs(self._asked_of_file(query, before))
        found = sorted(
            [*ours, *(run for run in theirs if self.memory.run(run.id) is None)],
            key=_age,
            reverse=True,
        )
        if before is not None:
            found = [run for run in found if _age(run) < _age(before)]
        return found if query.limit is None else found[: max(0, query.limit)]

    def _run_to_go_on_from(self, query: RunQuery) -> Run | None:
        if query.before_id is None:
            return None
        before = self.run(query.before_id)
        if before is None:
            message = f"there is no run {query.before_id} to go on from"
            raise UnknownNameError(message)
        return before

    def _asked_of_file(self, query: RunQuery, before: Run | None) -> RunQuery:
        if query.limit is not None:
            # As many of the file's may be left out, as what is in memory is newer.
            query = replace(query, limit=max(0, query.limit) + self.memory.number_of_runs)
        if before is not None and self._file.run(before.id) is None:
            # The file's runs have smaller ids than what it does not know: of one due they precede.
            until = before.due + TICK
            query = replace(query, before_id=None, until=min(query.until or until, until))
        return query

    def open_runs(self, *, with_retries: bool = True) -> list[Run]:
        """Return every run without an outcome; see ``ports.LedgerReader``."""
        runs = self.memory.open_runs()
        return runs if with_retries else split(runs, self.task)[0]

    def retries(self) -> list[WaitingRetry]:
        """Return the open runs that wait for their retry; see ``ports.LedgerReader``."""
        return split(self.memory.open_runs(), self.task)[1]

    def cursors(self) -> dict[str, Cursor]:
        """Return every job's cursor."""
        return self.memory.cursors()

    def last_runs(self) -> dict[str, Run]:
        """Return each job's newest run that has begun an attempt."""
        found = self._file.last_runs()
        for job, run in self.memory.last_runs().items():
            if job not in found or found[job].id <= run.id:
                found[job] = run
        return found

    def task(self, task_id: int) -> Task | None:
        """Return one task."""
        return self.moved.task(task_id, self._file)

    def tasks(self, query: TaskQuery) -> list[Task]:
        """Return the tasks that are asked for; see ``ports.TaskQuery``."""
        return self.moved.tasks(query, self._file)

    def lanes(self) -> dict[Lane, LaneStock]:
        """Return every lane that has open tasks."""
        return self.moved.lanes(self._file)

    def tasks_due(
        self, lane: Lane, *, after: Position | None, until: datetime | None, limit: int
    ) -> list[Task]:
        """Return the first open tasks of a lane; see ``ports.LedgerReader``."""
        return self.moved.tasks_due(lane, self._file, after=after, until=until, limit=limit)

    def count_due(
        self, lane: Lane, *, after: datetime | None, until: datetime | None, limit: int
    ) -> int:
        """Return how many tasks of a lane are due; see ``ports.LedgerReader``."""
        return self.moved.count_due(lane, self._file, after=after, until=until, limit=limit)


def tell_results(steps: Sequence[Step], results: Sequence[int | LedgerRefusedError | None]) -> None:
    """Log which of the journal's steps the file has not taken."""
    for step, result in zip(steps, results, strict=True):
        if isinstance(result, Exception):
            tell_refused(step, result)
        elif step.kind is Kind.CLAIM and result is None:
            tell_refused(step, LedgerRefusedError("its occurrence has another run already"))


def tell_refused(what: Write | Step, error: Exception) -> None:
    """Log a record that is left out, so that it does not stand in the way of what follows."""
    log.error(
        "a record was left out: no ledger would take it",
        extra=fields(record=str(what), reason=str(error)),
    )


def _age(run: Run) -> tuple[datetime, int]:
    return run.due, run.id
