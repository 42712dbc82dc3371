"""The daemon's ledger: the SQLite file, and the journal for the time in which that takes nothing.

As long as the file takes what is written, that is all there is to it. When it refuses (locked, no
room, an I/O error), the writes go to the journal, as durably, and count as written: the engine
goes on. About once a second the file is tried again, and once it takes writes the journal is
copied to it, a little at a time, in order; then all is as before. Meanwhile a ledger in memory
answers for what the file does not know: the numbers of new runs, whether an occurrence has its
run, how a run stands. A daemon that ends meanwhile leaves the journal to the next one.

Where the file is damaged or was deleted, another is begun in its place with what is known in
memory: identity, cursors, open runs, the last number. A record that no ledger would ever take is
logged and left out, so that it does not stand in the way of all that follows.

Not responsible for the files themselves (``sqlite``, ``journal``, ``salvage``), nor for the start
(``opening``).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from crond_py.errors import (
    LedgerCorruptError,
    LedgerError,
    LedgerRefusedError,
    PycronError,
    UnknownNameError,
)
from crond_py.ledger.journal import BEGIN, Journal
from crond_py.ledger.known import Known, Remains
from crond_py.ledger.memory import MemoryLedger
from crond_py.ledger.salvage import begin_in_place
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.ledger.steps import Kind, Step, pack, to_step, unpack
from crond_py.model import Cursor, Run
from crond_py.ports import Claim, Clock, Pruned, RunQuery, SetAttempt, SetCursor, SetRun, Write

log = logging.getLogger("pycron.ledger")

PATIENCE = timedelta(milliseconds=50)
"""How long a write waits for another program before it goes to the journal."""

NO_PATIENCE = timedelta(milliseconds=5)
"""The same for a try while there is trouble: the engine stands still for it each time."""

TRY_EVERY = timedelta(seconds=1)
"""How often the file is tried again."""

AT_ONCE = 300
"""How many writes are copied from the journal in one go."""

MOST_MENDED = 3
"""How often a damaged file is replaced: more than that is a damaged disk."""

_REFUSALS = (LedgerRefusedError, TypeError, ValueError, OverflowError)
"""What says that a record will never be taken."""


@dataclass(slots=True)
class _Trouble:
    """A time in which the file takes nothing.

    ``damage`` says that the file is no good, ``has_tried`` that another could not be begun so far.
    ``written`` is the number of the journal's last record, ``copied`` that of the last one that
    is in the file, and ``place`` where the one after it is in the journal.
    """

    reason: str
    overlay: MemoryLedger
    written: int
    copied: int
    place: int = BEGIN
    is_told: bool = False
    is_copying: bool = False
    damage: LedgerCorruptError | None = None
    has_tried: bool = False


class JournaledLedger:
    """A ledger that can be written while its file cannot; made by ``opening.open_ledger``.

    It has no lock of its own: any thread may use it, but one at a time. ``keep_hold`` makes sure,
    where the state directory was deleted, that this is still the only daemon on it; it raises
    PycronError where it is not.
    """

    def __init__(
        self,
        file: SqliteLedger,
        journal: Journal | None,
        clock: Clock,
        *,
        keep_hold: Callable[[datetime], None] = lambda _now: None,
        troubles: Sequence[str] = (),
    ) -> None:
        self._file = file
        self._journal = journal
        self._clock = clock
        self._keep_hold = keep_hold
        self._lasting = list(troubles)
        self._identity = file.identity
        self._applied = file.applied
        self._known = Known(file.cursors(), file.open_runs(), file.last_id)
        self._trouble: _Trouble | None = None
        self._is_closed = False
        self._mended = 0
        file.set_patience(PATIENCE)

    # --- writing --------------------------------------------------------------------------

    def write(self, writes: Sequence[Write], *, durable: bool) -> list[int | None]:
        """Write in order; see ``ports.Ledger``. What no ledger would take is left out, and said.

        Raises LedgerError where neither the file nor the journal takes it.
        """
        self._check_open()
        if self._trouble is None:
            try:
                return self._write_file(writes, durable=durable)
            except LedgerError as error:
                self._begin_trouble(error)
        if self._is_to_be_mended:
            self.settle()
        if self._trouble is None:
            return self.write(writes, durable=durable)
        return self._write_journal(self._trouble, writes, durable=durable)

    def _write_file(self, writes: Sequence[Write], *, durable: bool) -> list[int | None]:
        if not writes:
            return []
        try:
            ids = self._file.write(writes, durable=durable)
        except _REFUSALS:
            return self._write_rest(writes)
        self._known.take(writes, ids)
        return ids

    def _write_rest(self, writes: Sequence[Write]) -> list[int | None]:
        """Write what the file takes; return an item for each claim."""
        steps = [_step_or_error(write) for write in writes]
        results = iter(self._file.write_each([step for step in steps if isinstance(step, Step)]))
        ids: list[int | None] = []
        for write, step in zip(writes, steps, strict=True):
            result = next(results) if isinstance(step, Step) else step
            if isinstance(result, Exception):
                _tell_refused(write, result)
                result = None
            else:
                self._known.take([write], [result])
            if isinstance(write, Claim):
                ids.append(result)
        return ids

    def _write_journal(
        self, trouble: _Trouble, writes: Sequence[Write], *, durable: bool
    ) -> list[int | None]:
        steps: list[Step] = []
        ids: list[int | None] = []
        try:
            for write in writes:
                step, run_id = self._entered(trouble, write)
                if step is not None:
                    steps.append(step)
                if isinstance(write, Claim):
                    ids.append(run_id)
            if steps:
                self._append(trouble, steps, durable=durable)
        except BaseException:
            trouble.overlay.revert()
            raise
        trouble.overlay.settle_on()
        return ids

    def _entered(self, trouble: _Trouble, write: Write) -> tuple[Step | None, int | None]:
        """Enter one write in memory; return its step, unless there is nothing to do, and its id."""
        self._look_up(trouble, write)
        try:
            step = to_step(write)
            ids = trouble.overlay.write([write], durable=False)
        except _REFUSALS as error:
            _tell_refused(write, error)
            return None, None
        if not isinstance(write, Claim):
            return step, None
        (run_id,) = ids
        return (None if run_id is None else step.with_id(run_id)), run_id

    def _look_up(self, trouble: _Trouble, write: Write) -> None:
        """Get from the file what only it knows: the run of an occurrence, or one that has ended.

        Where it cannot be read either, nobody knows of any, and the cursors say what is due.
        """
        overlay, found = trouble.overlay, None
        with suppress(LedgerError, *_REFUSALS):
            match write:
                case Claim(job, era, due) if not overlay.has(job, era, due):
                    found = self._file.run_of(job, era, due)
                case SetRun(run_id) | SetAttempt(run_id) if overlay.run(run_id) is None:
                    found = self._file.run(run_id)
                case SetCursor():
                    pass
        if found is not None:
            overlay.hold(found)

    def _append(self, trouble: _Trouble, steps: Sequence[Step], *, durable: bool) -> None:
        if self._journal is None:
            raise LedgerError(trouble.reason)
        try:
            self._journal.append(trouble.written + 1, pack(steps), durable=durable)
        except LedgerError as error:
            raise LedgerError(f"{trouble.reason}; and {error}") from error
        trouble.written += 1
        if not trouble.is_told:
            trouble.is_told = True
            log.error(
                "the ledger cannot be written; what runs is kept in the journal until it can",
                extra=_fields(reason=trouble.reason, journal=str(self._journal.path)),
            )

    def prune(
        self, job: str, *, keep_runs: int | None, older_than: datetime | None, limit: int
    ) -> Pruned:
        """Delete old finished runs of a job; see ``ports.Ledger``. Not while there is trouble."""
        self._check_open()
        if self._trouble is not None:
            raise LedgerError(self._trouble.reason)
        try:
            return self._file.prune(job, keep_runs=keep_runs, older_than=older_than, limit=limit)
        except LedgerCorruptError as error:
            self._begin_trouble(error)
            raise

    # --- trouble --------------------------------------------------------------------------

    @property
    def troubles(self) -> Sequence[str]:
        """What lasts and is not as it should be."""
        trouble = self._trouble
        if trouble is None or self._journal is None:
            return tuple(self._lasting)
        kept = trouble.written - trouble.copied
        text = (
            f"{trouble.reason}; what runs is kept in the journal {self._journal.path} until the "
            "ledger can be written, and pycron history does not show it before that"
        )
        return (text, *self._lasting) if kept else tuple(self._lasting)

    @property
    def settles_in(self) -> timedelta | None:
        """How soon ``settle`` is to be called; None: there is nothing to settle."""
        if self._trouble is None:
            return None
        is_soon = self._trouble.is_copying or self._is_to_be_mended
        return timedelta(0) if is_soon else TRY_EVERY

    def settle(self) -> None:
        """Try the file again, and copy to it a little of what the journal has."""
        trouble = self._trouble
        if trouble is None or self._is_closed:
            return
        trouble.is_copying = False
        try:
            self._mend(trouble)
            trouble.is_copying = self._copy_some(trouble)
        except LedgerCorruptError as error:
            trouble.damage, trouble.reason = error, str(error)
        except PycronError as error:
            trouble.reason = str(error)
        else:
            if not trouble.is_copying:
                self._end_trouble(trouble)

    def _begin_trouble(self, error: LedgerError) -> None:
        with suppress(LedgerError):
            self._file.set_patience(NO_PATIENCE)
        if self._journal is not None:
            self._journal.clear()
        known = self._known
        overlay = MemoryLedger.holding(
            self._identity, known.open_runs(), known.cursors, known.last_id
        )
        damage = error if isinstance(error, LedgerCorruptError) else None
        self._trouble = _Trouble(str(error), overlay, self._applied, self._applied, damage=damage)

    def _renew(self, journal: Journal) -> None:
        """Have a journal for the next trouble, too: in its place, and with room."""
        try:
            if not journal.is_in_place:
                journal.renew()
            journal.begin(self._identity)
        except LedgerError as error:
            log.warning("the journal has no room of its own", extra=_fields(reason=str(error)))

    def _copy_some(self, trouble: _Trouble) -> bool:
        """Copy the next records of the journal to the file; True: there are more."""
        steps: list[Step] = []
        number, place = trouble.copied, trouble.place
        while number < trouble.written and len(steps) < AT_ONCE:
            record = self._journal.read(number + 1, place) if self._journal else None
            if record is None:
                raise LedgerError("the journal cannot be read back")
            steps += unpack(record.content)
            number, place = record.number, record.place
        is_last = number == trouble.written
        last_id = trouble.overlay.last_id if is_last else 0
        tell_results(steps, self._file.write_each(steps, applied=number, last_id=last_id))
        trouble.copied, trouble.place = number, place
        return not is_last

    def _end_trouble(self, trouble: _Trouble) -> None:
        overlay = trouble.overlay
        self._known = Known(overlay.cursors(), overlay.open_runs(), overlay.last_id)
        records = trouble.written - self._applied
        self._applied = trouble.written
        self._trouble = None
        if self._journal is not None:
            self._journal.clear()
            self._renew(self._journal)
        with suppress(LedgerError):
            self._file.set_patience(PATIENCE)
        if trouble.is_told:
            log.warning(
                "the ledger can be written again; it has all that was kept in the journal",
                extra=_fields(records=records),
            )

    # --- another file in its place --------------------------------------------------------

    @property
    def _is_to_be_mended(self) -> bool:
        """Whether another file is to be begun at once; once that has failed it can wait."""
        trouble = self._trouble
        return trouble is not None and not trouble.has_tried and self._needs_mending(trouble)

    def _needs_mending(self, trouble: _Trouble) -> bool:
        # A file that was put there by somebody else is theirs.
        return trouble.damage is not None or not os.path.lexists(self._file.path)

    def _mend(self, trouble: _Trouble) -> None:
        """Begin another file where the old one is damaged or gone. Raises PycronError."""
        if not self._needs_mending(trouble):
            return
        trouble.has_tried = True
        if self._mended >= MOST_MENDED:
            raise LedgerError(f"{trouble.reason}; it has been begun anew {MOST_MENDED} times")
        now, path, damage = self._clock.now(), self._file.path, trouble.damage
        remains = Remains(
            identity=self._identity,
            cursors=self._known.cursors,
            open_runs=self._known.open_runs(),
            last_id=self._known.last_id,
            applied=self._applied,
        )
        if damage is not None:
            with suppress(LedgerError):
                self._file.close()
            aside = begin_in_place(path, remains, now)
        else:
            self._keep_hold(now)
            aside = begin_in_place(path, remains, now, original=self._file)
            with suppress(LedgerError):
                self._file.close()
        self._file = SqliteLedger.open(path, busy_timeout=NO_PATIENCE, now=now)
        self._mended += 1
        # The journal has all since the trouble began: what the old file had got of it is copied
        # again.
        trouble.copied, trouble.place = self._applied, BEGIN
        trouble.damage, trouble.has_tried = None, False
        if damage is not None:
            self._lasting.append(tell_damage(damage, aside, now))
        else:
            log.critical("the ledger was deleted; it was begun again", extra=_fields(file=path))

    # --- asking ---------------------------------------------------------------------------

    @property
    def identity(self) -> str:
        """The short random name that the ledger was given when it was begun."""
        return self._identity

    def run(self, run_id: int) -> Run | None:
        """Return one run with its attempts."""
        self._check_open()
        kept = self._trouble.overlay.run(run_id) if self._trouble else None
        return kept if kept is not None else self._file.run(run_id)

    def runs(self, query: RunQuery) -> list[Run]:
        """Return the runs that are asked for; in trouble all of the job's are gone through."""
        self._check_open()
        if self._trouble is None:
            return self._file.runs(query)
        everything = replace(query, limit=None, before_id=None)
        kept = self._trouble.overlay
        theirs = [run for run in self._file.runs(everything) if kept.run(run.id) is None]
        found = sorted([*theirs, *kept.runs(everything)], key=_age, reverse=True)
        if query.before_id is not None:
            before = self.run(query.before_id)
            if before is None:
                message = f"there is no run {query.before_id} to go on from"
                raise UnknownNameError(message)
            found = [run for run in found if _age(run) < _age(before)]
        return found if query.limit is None else found[: max(0, query.limit)]

    def open_runs(self) -> list[Run]:
        """Return every run without an outcome, oldest claim first."""
        self._check_open()
        return self._trouble.overlay.open_runs() if self._trouble else self._file.open_runs()

    def cursors(self) -> dict[str, Cursor]:
        """Return every job's cursor."""
        self._check_open()
        return self._trouble.overlay.cursors() if self._trouble else self._file.cursors()

    def last_runs(self) -> dict[str, Run]:
        """Return each job's newest run that has begun an attempt."""
        self._check_open()
        found = self._file.last_runs()
        kept = self._trouble.overlay.last_runs() if self._trouble else {}
        for job, run in kept.items():
            if job not in found or found[job].id <= run.id:
                found[job] = run
        return found

    def close(self) -> None:
        """Let go of the files; what the file does not take now, the next daemon copies to it."""
        while self._trouble is not None and not self._is_closed:
            self.settle()
            if self._trouble is None or not self._trouble.is_copying:
                break
        self._is_closed = True
        self._file.close()
        if self._journal is not None:
            self._journal.close()

    def _check_open(self) -> None:
        if self._is_closed:
            raise LedgerError(f"the ledger {self._file.path} cannot be used: it has been closed")


def tell_results(steps: Sequence[Step], results: Sequence[int | LedgerRefusedError | None]) -> None:
    """Log which of the journal's steps the file has not taken."""
    for step, result in zip(steps, results, strict=True):
        if isinstance(result, Exception):
            _tell_refused(step, result)
        elif step.kind is Kind.CLAIM and result is None:
            _tell_refused(step, LedgerRefusedError("its occurrence has another run already"))


def tell_damage(why: PycronError, aside: object, now: datetime) -> str:
    """Log that a damaged ledger was replaced; return the same for the status."""
    log.critical(
        "the ledger is damaged; it was set aside and a fresh one begun",
        extra=_fields(reason=str(why), set_aside_as=None if aside is None else str(aside)),
    )
    return (
        f"the ledger was damaged at {now.isoformat(timespec='seconds')} and set aside as {aside}: "
        f"runs that had finished before are only there; the reason was: {why}"
    )


def _step_or_error(write: Write) -> Step | Exception:
    try:
        return to_step(write)
    except _REFUSALS as error:
        return error


def _tell_refused(what: Write | Step, error: Exception) -> None:
    log.error(
        "a record was left out: no ledger would take it",
        extra=_fields(record=str(what), reason=str(error)),
    )


def _age(run: Run) -> tuple[datetime, int]:
    return run.due, run.id


def _fields(**values: object) -> dict[str, Any]:
    return {"fields": {name: value for name, value in values.items() if value is not None}}
