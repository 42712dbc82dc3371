"""The daemon's ledger: the SQLite file, and the journal for the time in which that takes nothing.

As long as the file takes what is written, that is all there is to it. When it refuses (locked, no
room, an I/O error), the writes go to the journal, as durably, and count as written: the engine
goes on. About once a second the file is tried again, and once it takes writes the journal is
copied to it, a little at a time, in order; then all is as before. A daemon that ends meanwhile
leaves the journal to the next one.

Where the file is damaged, as a write or a question finds out, or was deleted, another is begun in
its place with what is known in memory: identity, cursors, open runs, the last number. A record that
no ledger would ever take is logged and left out, so that it does not stand in the way of all that
follows.

Not responsible for the files themselves (``sqlite``, ``journal``, ``salvage``), for what is
written and asked meanwhile (``aside``), nor for the start (``opening``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TypeVar

from crond_py.errors import (
    LedgerCorruptError,
    LedgerError,
    LedgerRefusedError,
    PycronError,
    StateLockedError,
)
from crond_py.ledger.answering import Answering, Source
from crond_py.ledger.aside import REFUSALS, Aside, tell_refused
from crond_py.ledger.journal import Journal, Record
from crond_py.ledger.known import TOGETHER, Known, Remains
from crond_py.ledger.mark import Mark, MarkKeeper
from crond_py.ledger.salvage import begin_in_place
from crond_py.ledger.spare import write_spare
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.ledger.steps import Step, to_step
from crond_py.logfields import fields
from crond_py.model import TASK_PREFIX, Run, Task, task_id_of
from crond_py.ports import (
    Claim,
    Clock,
    Gap,
    NewTask,
    Pruned,
    SetCursor,
    Submitted,
    TaskQuery,
    Write,
)

log = logging.getLogger("pycron.ledger")

PATIENCE = timedelta(milliseconds=50)
"""How long a write waits for another program before it goes to the journal."""

NO_PATIENCE = timedelta(milliseconds=5)
"""The same for a try while there is trouble: the engine stands still for it each time."""

TRY_EVERY = timedelta(seconds=1)
"""How often the file is tried again."""

AHEAD = timedelta(seconds=1)
"""How far before its instant, and more, an occurrence of a task is claimed."""

MOST_SPARED = 10_000
"""How many tasks the spare copy has, the first that are due, and as many runs that wait."""

MOST_MENDED = 3
"""How often a file is replaced: more than that is a damaged disk."""


T = TypeVar("T")


class JournaledLedger(Answering):
    """A ledger that can be written while its file cannot; made by ``opening.open_ledger``.

    It has no lock of its own: any thread may use it, but one at a time. ``keep_hold`` is called
    before each write and makes sure that this is still the only daemon on the state directory,
    whatever was deleted there; it raises StateLockedError where it is not. ``reason`` is why the
    file takes nothing from the start, and ``kept`` what the journal has then. ``mark`` is what
    stands beside the ledger by now, and ``gap`` what the ledger lacks of it.
    """

    def __init__(
        self,
        file: SqliteLedger,
        journal: Journal | None,
        clock: Clock,
        *,
        keep_hold: Callable[[datetime], object] = lambda _now: None,
        troubles: Sequence[str] = (),
        kept: Sequence[Record] = (),
        reason: LedgerError | None = None,
        mark: Mark | None = None,
        gap: Gap | None = None,
        boot_id: str = "",
    ) -> None:
        self._file = file
        self._journal = journal
        self._clock = clock
        self._keep_hold = keep_hold
        self._lasting = list(troubles)
        self._identity = file.identity
        self._applied = file.applied
        self._gap = gap
        self._boot_id = boot_id
        self._marks = MarkKeeper(file.path)
        self._promised = max(file.promised, mark.promised if mark is not None else 0)
        last_id = max(file.last_id, gap.last_id if gap is not None else 0)
        last_task_id = max(file.last_task_id, mark.last_task_id if mark is not None else 0)
        open_runs = file.open_runs(with_retries=False)
        self._known = Known(file.cursors(), open_runs, last_id, last_task_id)
        waiting = file.retry_ids()
        for first in range(0, len(waiting), TOGETHER):
            self._known.hold(file.rows_of(waiting[first : first + TOGETHER]))
        self._aside: Aside | None = None
        self._damage: LedgerCorruptError | None = None
        self._mended = 0
        self._is_mending_put_off = False
        self._is_copying = False
        self._is_closed = False
        file.set_patience(PATIENCE)
        if reason is not None:
            self._begin_trouble(reason, kept)

    # --- writing --------------------------------------------------------------------------

    def write(self, writes: Sequence[Write], *, durable: bool) -> list[int | None]:
        """Write in order; see ``ports.Ledger``. What no ledger would take is left out, and said.

        Raises LedgerError where neither the file nor the journal takes it.
        """
        self._check_open()
        if not writes:
            return []
        self._check_hold()
        if self._aside is None:
            try:
                return self._write_file(writes, durable=durable)
            except LedgerError as error:
                self._begin_trouble(error)
        if self._is_to_be_mended:
            self.settle()
        if self._aside is None:
            return self.write(writes, durable=durable)
        ids = self._aside.write(writes, durable=durable)
        if durable:
            self._put_mark(writes)
        return ids

    def _check_hold(self) -> None:
        """Raise LedgerError where another daemon is on the state directory by now."""
        try:
            self._keep_hold(self._clock.now())
        except StateLockedError as error:
            raise LedgerError(str(error)) from error
        except LedgerError:
            pass  # nobody else has it, and whether the files take anything shows in a moment

    def _write_file(self, writes: Sequence[Write], *, durable: bool) -> list[int | None]:
        promised = self._promised + 1 if durable else 0
        try:
            ids = self._file.write(writes, durable=durable, promised=promised)
        except REFUSALS:
            return self._write_rest(writes)
        self._known.take(writes, ids)
        if durable:
            self._promised = promised
            self._put_mark(writes)
        return ids

    def _write_rest(self, writes: Sequence[Write]) -> list[int | None]:
        """Write what the file takes; return an item for each claim."""
        steps = [_step_or_error(write) for write in writes]
        promised = self._promised + 1
        good = [step for step in steps if isinstance(step, Step)]
        results = iter(self._file.write_each(good, promised=promised))
        self._promised = promised
        ids: list[int | None] = []
        for write, step in zip(writes, steps, strict=True):
            result = next(results) if isinstance(step, Step) else step
            if isinstance(result, Exception):
                tell_refused(write, result)
                result = None
            else:
                self._known.take([write], [result])
            if isinstance(write, Claim):
                ids.append(result)
        self._put_mark(writes)
        return ids

    def submit(self, tasks: Sequence[NewTask], now: datetime) -> list[Submitted]:
        """Enter all of the tasks or none; see ``ports.Ledger``. Not while there is trouble."""
        self._check_open()
        if not tasks:
            return []
        self._check_hold()
        if self._is_to_be_mended:
            self.settle()
        if self._aside is not None:
            raise _not_taken(self._aside.reason)
        promised = self._promised + 1
        try:
            submitted = self._file.submit(tasks, now, promised=promised)
        except LedgerRefusedError:
            raise
        except LedgerError as error:
            self._begin_trouble(error)
            if self._is_to_be_mended:
                return self.submit(tasks, now)
            raise _not_taken(str(error)) from error
        self._known.last_task_id = max(
            self._known.last_task_id, *(answer.task.id for answer in submitted)
        )
        self._promised = promised
        self._put_mark(())
        return submitted

    def _put_mark(self, writes: Sequence[Write]) -> None:
        """Say beside the ledger what it knows by now, for the day when it does not any more."""
        aside, now = self._aside, self._clock.now()
        accounted = (write.cursor.accounted_until for write in writes if type(write) is SetCursor)
        taken_up = (
            write.due
            for write in writes
            if type(write) is Claim
            and write.job.startswith(TASK_PREFIX)
            and write.due <= now + AHEAD
        )
        self._marks.put(
            Mark(
                self._identity,
                self._promised,
                self._applied if aside is None else aside.written,
                self._known.last_id if aside is None else aside.memory.last_id,
                # Claims are made a little ahead of their instants.
                max([now, *accounted, *taken_up]),
                self._boot_id,
                self._known.last_task_id,
            )
        )

    def prune(
        self, job: str, *, keep_runs: int | None, older_than: datetime | None, limit: int
    ) -> Pruned:
        """Delete old finished runs of a job; see ``ports.Ledger``. Not while there is trouble."""
        return self._pruned(
            lambda file: file.prune(job, keep_runs=keep_runs, older_than=older_than, limit=limit)
        )

    def prune_tasks(self, *, older_than: datetime, limit: int) -> Pruned:
        """Delete old tasks with their runs; see ``ports.Ledger``. Not while there is trouble."""
        return self._pruned(lambda file: file.prune_tasks(older_than=older_than, limit=limit))

    def _pruned(self, prune: Callable[[SqliteLedger], Pruned]) -> Pruned:
        self._check_open()
        if self._aside is not None:
            raise LedgerError(self._aside.reason)
        self._check_hold()
        try:
            return prune(self._file)
        except LedgerCorruptError as error:
            self._begin_trouble(error)
            raise

    # --- trouble --------------------------------------------------------------------------

    @property
    def last_task_id(self) -> int:
        """The largest id that a task may have been given; see ``ports.Ledger``."""
        return self._known.last_task_id

    @property
    def gap(self) -> Gap | None:
        """What the ledger had lost when it was opened; see ``ports.Ledger``."""
        return self._gap

    @property
    def troubles(self) -> Sequence[str]:
        """What lasts and is not as it should be."""
        aside = self._aside
        if aside is None or self._journal is None or not aside.kept:
            return tuple(self._lasting)
        text = (
            f"{aside.reason}; what runs is kept in the journal {self._journal.path} until the "
            "ledger can be written; before that pycron history and pycron tasks do not show it, "
            "and no tasks can be handed in"
        )
        return (text, *self._lasting)

    @property
    def settles_in(self) -> timedelta | None:
        """How soon ``settle`` is to be called; None: there is nothing to settle."""
        if self._aside is None:
            return None
        return timedelta(0) if self._is_copying or self._is_to_be_mended else TRY_EVERY

    def settle(self) -> None:
        """Try the file again, and copy to it a little of what the journal has."""
        aside = self._aside
        if aside is None or self._is_closed:
            return
        self._is_copying = False
        try:
            self._check_hold()
            if self._needs_mending:
                self._mend(aside)
            self._is_copying = aside.copy_some()
        except LedgerCorruptError as error:
            self._damage = error
            aside.reason = str(error)
        except (PycronError, OSError) as error:  # OSError: of a disk that fails at every turn
            aside.reason = str(error)
        else:
            if not self._is_copying:
                self._end_trouble(aside)

    def _begin_trouble(self, error: LedgerError, kept: Sequence[Record] = ()) -> None:
        with suppress(LedgerError):
            self._file.set_patience(NO_PATIENCE)
        if isinstance(error, LedgerCorruptError):
            self._damage = error
        self._is_mending_put_off = False
        self._aside = Aside(str(error), self.remains, self._file, self._journal)
        if kept:
            self._aside.resume(kept)

    @property
    def remains(self) -> Remains:
        """What is to be carried over should the file be lost now; not while there is trouble."""
        return self._with_runs(self._known.open_runs())

    def _with_runs(self, open_runs: Sequence[Run]) -> Remains:
        known = self._known
        return Remains(
            self._identity,
            dict(known.cursors),
            open_runs,
            known.last_id,
            self._applied,
            self._promised,
            known.moves.steps(),
            known.last_task_id,
        )

    def _end_trouble(self, aside: Aside) -> None:
        memory = aside.memory
        known = self._known
        self._known = Known(
            memory.cursors(),
            memory.open_runs(),
            memory.last_id,
            known.last_task_id,
            known.moves,
        )
        for move in aside.moved.moves:
            known.moves.note(move)
        records = aside.written - self._applied
        self._applied = aside.written
        self._aside = None
        if self._journal is not None:
            self._journal.clear()
            self._renew(self._journal)
        with suppress(LedgerError):
            self._file.set_patience(PATIENCE)
        if aside.is_told:
            log.warning(
                "the ledger can be written again; it has all that was kept in the journal",
                extra=fields(records=records),
            )

    def _renew(self, journal: Journal) -> None:
        """Have a journal for the next trouble, too: in its place, and with room."""
        try:
            if not journal.is_in_place:
                journal.renew()
            journal.begin(self._identity)
        except LedgerError as error:
            log.warning("the journal has no room of its own", extra=fields(reason=str(error)))

    # --- another file in its place --------------------------------------------------------

    @property
    def _needs_mending(self) -> bool:
        # A file that was put there by somebody else is theirs.
        is_damaged = self._damage is not None and self._file.is_in_place
        return is_damaged or _is_gone(self._file.path)

    @property
    def _is_to_be_mended(self) -> bool:
        """Whether another file is to be begun at once; once that has failed it can wait."""
        return self._aside is not None and not self._is_mending_put_off and self._needs_mending

    def _mend(self, aside: Aside) -> None:
        """Begin another file where the old one is damaged or gone. Raises PycronError."""
        self._is_mending_put_off = True
        if self._mended >= MOST_MENDED:
            raise LedgerError(f"{aside.reason}; it has been begun anew {MOST_MENDED} times")
        now, path = self._clock.now(), self._file.path
        damage = None if _is_gone(path) else self._damage
        if damage is not None:
            with suppress(LedgerError):
                self._file.close()
            old = begin_in_place(path, aside.remains, now)
        else:
            self._keep_hold(now)
            old = begin_in_place(path, aside.remains, now, original=self._file)
            with suppress(LedgerError):
                self._file.close()
        self._file = SqliteLedger.open(path, busy_timeout=NO_PATIENCE, now=now)
        self._mended += 1
        aside.go_on_with(self._file)
        self._damage, self._is_mending_put_off = None, False
        if damage is not None:
            self._lasting.append(tell_damage(damage, old, now))
        else:
            log.critical("the ledger was deleted; it was begun again", extra=fields(file=str(path)))

    # --- asking ---------------------------------------------------------------------------

    @property
    def identity(self) -> str:
        """The short random name that the ledger was given when it was begun."""
        return self._identity

    def _answer(self, question: Callable[[Source], T]) -> T:
        """Put a question to the file, or to what stands in for it.

        Damage is often met by a question first, and no write may ever meet it. Another file is then
        begun, as after a write, and the question is put to that.
        """
        self._check_open()
        try:
            return question(self._source)
        except LedgerCorruptError as error:
            if self._aside is None:
                self._begin_trouble(error)
            else:
                self._damage = error
                self._aside.reason = str(error)
            if not self._is_to_be_mended:
                raise
        self.settle()
        return question(self._source)

    @property
    def _source(self) -> Source:
        return self._aside or self._file

    def let_pages_go(self) -> None:
        """Let go of what is in memory only so that the file need not be read for it."""
        with suppress(LedgerError):
            self._file.let_pages_go()

    def close(self) -> None:
        """Let go of the files; what the file does not take now, the next daemon copies to it."""
        if not self._is_closed:
            self.settle()
            while self._is_copying:
                self.settle()
            if self._aside is None and self._file.is_in_place:
                with suppress(LedgerError):  # another's spare copy is not ours to replace
                    self._check_hold()
                    self._write_last_spare()
        self._is_closed = True
        self._file.close()
        if self._journal is not None:
            self._journal.close()

    def write_first_spare(self) -> None:
        """Make the spare copy that there is until the end: what can be taken from it, no more."""
        write_spare(self._file.path, self._with_runs([]), is_final=False)

    def _write_last_spare(self) -> None:
        runs = self._known.open_runs(most_packed=MOST_SPARED)
        tasks = [*self._first_tasks(), *self._tasks_of(runs)]
        write_spare(self._file.path, replace(self._with_runs(runs), tasks=tasks), is_final=True)

    def _first_tasks(self) -> Sequence[Task]:
        try:
            return self._file.tasks(TaskQuery(limit=MOST_SPARED))
        except LedgerError:  # the rest is worth a spare copy, too
            return ()

    def _tasks_of(self, runs: Sequence[Run]) -> Sequence[Task]:
        """Return the tasks of runs that have ended; those that are open are spared anyway."""
        found: list[Task] = []
        with suppress(LedgerError):
            for run in runs[:MOST_SPARED]:
                task_id = task_id_of(run.job)
                task = None if task_id is None else self._file.task(task_id)
                if task is not None and task.ended_at is not None:
                    found.append(task)
        return found

    def _check_open(self) -> None:
        if self._is_closed:
            raise LedgerError(f"the ledger {self._file.path} cannot be used: it has been closed")


def tell_damage(why: LedgerCorruptError, aside: Path | None, now: datetime) -> str:
    """Log that a damaged ledger was replaced; return the same for the status."""
    log.critical(
        "the ledger is damaged; it was set aside and a fresh one begun",
        extra=fields(reason=why.what, set_aside_as=None if aside is None else str(aside)),
    )
    return (
        f"the ledger was damaged at {now.isoformat(timespec='seconds')} and set aside as {aside}: "
        "runs and tasks that had ended before, and what could not be read, are only there; "
        f"the reason was: {why.what}"
    )


def _is_gone(path: Path) -> bool:
    """Whether there is nothing at ``path``; where nobody can say, there may be."""
    try:
        path.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _not_taken(why: str) -> LedgerError:
    return LedgerError(f"tasks cannot be taken now: {why}; hand them in again when that is mended")


def _step_or_error(write: Write) -> Step | Exception:
    try:
        return to_step(write)
    except REFUSALS as error:
        return error
