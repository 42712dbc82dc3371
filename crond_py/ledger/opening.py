"""Opens the daemon's ledger: the file, what the journal has for it, and another one for a damaged.

Not responsible for what happens later. Nothing is recovered by the engine before this has ended,
so it sees all that an earlier daemon had written, wherever that was.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

from crond_py.dataclass import dataclass
from crond_py.errors import LedgerCorruptError, LedgerError
from crond_py.ledger.aside import tell_results
from crond_py.ledger.database import damaged, is_passing
from crond_py.ledger.journal import Journal, Record, journal_file
from crond_py.ledger.journaled import JournaledLedger, tell_damage
from crond_py.ledger.known import Remains
from crond_py.ledger.mark import Mark, read_mark
from crond_py.ledger.salvage import begin_in_place, finish_begun, salvage
from crond_py.ledger.spare import read_spare
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.ledger.steps import Kind, Step, to_step, unpack
from crond_py.logfields import fields
from crond_py.ports import Clock, Gap, SetCursor

log = logging.getLogger("pycron.ledger")

START_PATIENCE = timedelta(seconds=1)
"""How long a start waits for another program that has the ledger locked."""

_AT_ONCE = 5000


def open_ledger(
    path: Path,
    clock: Clock,
    *,
    keep_hold: Callable[[datetime], object] = lambda _now: None,
    boot_id: str = "",
) -> JournaledLedger:
    """Open the ledger at ``path`` for a daemon that holds the lock of its directory.

    One that is damaged is set aside, said loudly, and another begun with what can be read of it.
    One that is sound but has lost its newest records is used, and has a ``gap``.
    ``keep_hold`` is that of ``JournaledLedger``. Raises LedgerError where it cannot be used now,
    and where a newer pycron or another program wrote it.
    """
    path = Path(os.path.realpath(path))  # what is beside it is beside the file itself
    finish_begun(path)
    mark = read_mark(path)
    journal, troubles = _open_journal(journal_file(path))
    with ExitStack() as opened:
        if journal is not None:
            opened.callback(journal.close)
        records = list(journal.records()) if journal is not None else []
        left = _Left(path, clock.now(), journal, records, mark)
        file, reason = _open_file(left, troubles)
        opened.callback(file.close)
        if journal is not None and reason is None:
            reason = _take_over(journal, records, file, clock)
        if mark is not None and mark.identity != file.identity:
            log.warning(
                "this is another ledger than the one that was here before; what that one's runs "
                "have left running is not known",
                extra=fields(file=str(path)),
            )
            mark = None
        # What the file can have by now it has, and what is not for it was set aside.
        kept = records if reason is not None else []
        gap = _find_gap(mark, file, kept) if mark is not None else None
        if mark is not None and gap is not None:
            troubles.append(_tell_gap(gap, path))
            if reason is None:
                file.write_each([], last_id=gap.last_id, last_task_id=mark.last_task_id)
        ledger = JournaledLedger(
            file,
            journal,
            clock,
            keep_hold=keep_hold,
            troubles=troubles,
            kept=kept,
            reason=reason,
            mark=mark,
            gap=gap,
            boot_id=boot_id,
        )
        ledger.write_first_spare()
        opened.pop_all()
    return ledger


def _open_journal(path: Path) -> tuple[Journal | None, list[str]]:
    """Open the journal; without one the daemon works, but waits while the ledger takes nothing."""
    try:
        return Journal.open(path), []
    except LedgerError as error:
        log.warning("there is no journal beside the ledger", extra=fields(reason=str(error)))
        return None, [f"{error}; runs will wait while the ledger cannot be written"]


@dataclass(frozen=True, slots=True)
class _Left:
    """What there is at a start, beside the ledger's file at ``path``."""

    path: Path
    now: datetime
    journal: Journal | None
    records: list[Record]
    mark: Mark | None


def _open_file(left: _Left, troubles: list[str]) -> tuple[SqliteLedger, LedgerError | None]:
    """Open the file; the second item is why it takes nothing for now."""
    path, now, journal = left.path, left.now, left.journal
    try:
        if left.mark is not None and left.mark.promised and _is_emptied(path):
            raise damaged(path, "it is empty")
        return SqliteLedger.open(path, busy_timeout=START_PATIENCE, now=now), None
    except LedgerCorruptError as error:
        if error.is_newer or error.is_foreign:
            raise
        remains = replace(_remains(left), ended_tasks=_moved_tasks(left.records))
        aside = begin_in_place(path, remains, now)
        troubles.append(tell_damage(error, aside, now))
        return SqliteLedger.open(path, busy_timeout=START_PATIENCE, now=now), None
    except LedgerError as error:
        if journal is None or not is_passing(error):
            raise
        return _open_unwritable(path, journal, error, now), error


def _is_emptied(path: Path) -> bool:
    """Whether there is nothing in the file any more, nor in its log."""
    files = (path, path.with_name(f"{path.name}-wal"))
    return path.exists() and not any(file.stat().st_size for file in files if file.exists())


def _open_unwritable(
    path: Path, journal: Journal, error: LedgerError, now: datetime
) -> SqliteLedger:
    """Open a file that takes nothing for now; it must be one that has this journal."""
    try:
        file = SqliteLedger.open(path, now=now, must_be_writable=False)
    except LedgerError:
        raise error from None
    if file.identity != journal.identity:
        file.close()
        raise error
    return file


def _remains(left: _Left) -> Remains:
    """Return what is left of a damaged ledger, from wherever something is left."""
    journal, records, mark = left.journal, left.records, left.mark
    found = salvage(left.path)
    if found.identity and found.cursors:
        return found
    spare = read_spare(left.path, left.now, mark)
    if spare is not None and not found.identity:
        # Cursors that could be read are as new as can be, and come last.
        more = [to_step(SetCursor(cursor)) for cursor in found.cursors.values()]
        last_task_id = max(spare.last_task_id, found.last_task_id)
        found = replace(spare, steps=[*spare.steps, *more], last_task_id=last_task_id)
    elif spare is not None:
        cursors = [step for step in spare.steps if step.kind is Kind.CURSOR]
        found = replace(found, steps=cursors, promised=spare.promised)
    if not found.identity and journal is not None and (last_id := _last_id(records)):
        # It knows whose its runs are, and theirs are the latest numbers.
        applied = records[0].number - 1
        found = replace(found, identity=journal.identity, last_id=last_id, applied=applied)
    if not found.identity and mark is not None:
        found = replace(found, identity=mark.identity, applied=mark.applied)
    if mark is not None and mark.identity == found.identity:
        found = replace(
            found,
            last_id=max(found.last_id, mark.last_id),
            last_task_id=max(found.last_task_id, mark.last_task_id),
        )
    return found


def _find_gap(mark: Mark, file: SqliteLedger, kept: list[Record]) -> Gap | None:
    """Return what the ledger, with what the journal keeps for it, lacks of what it has promised."""
    applied = max([file.applied, *(record.number for record in kept[-1:])])
    if mark.promised <= file.promised and mark.applied <= applied:
        return None
    return Gap(mark.until, max(mark.last_id, file.last_id), mark.boot_id)


def _tell_gap(gap: Gap, path: Path) -> str:
    log.critical(
        "the ledger has lost its newest records; what may have run is not run again",
        extra=fields(file=str(path), until=gap.until, last_run=gap.last_id),
    )
    return (
        f"the ledger {path} had lost its newest records when pycron started (it or its -wal file "
        "was damaged or deleted, or an old copy put in its place): what was due before "
        f"{gap.until.isoformat(timespec='seconds')} and is not known is not run again, and entered "
        "as lost since the last that is known of its job; retries that waited, and tasks that were "
        "handed in last, may be gone: hand them in again"
    )


def _last_id(records: list[Record]) -> int:
    """Return the largest number that the journal has given a run; 0: it has not given any.

    Then nobody knows which numbers have been given, and those that come may be the same.
    """
    steps = (step for record in records for step in unpack(record.content))
    return max((step.row[0] for step in steps if step.kind is Kind.CLAIM), default=0)


def _moved_tasks(records: list[Record]) -> set[int]:
    """Return the tasks that the journal moves on; in the file they may have ended already."""
    steps = (step for record in records for step in unpack(record.content))
    return {step.row[-1] for step in steps if step.kind is Kind.TASK}


def _take_over(
    journal: Journal, records: list[Record], file: SqliteLedger, clock: Clock
) -> LedgerError | None:
    """Copy to the ledger what an earlier daemon could not; then the journal is as good as empty.

    Returns why, where the file takes nothing for now.
    """
    applied = file.applied
    pending = [record for record in records if record.number > applied]
    if pending and journal.identity != file.identity:
        aside = journal.set_aside(clock.now())
        log.error(
            "the journal belongs to another ledger; it was set aside",
            extra=fields(set_aside_as=str(aside), records=len(pending)),
        )
    elif pending:
        try:
            _copy(pending, file)
        except LedgerError as error:
            if not is_passing(error):
                raise
            return error
        log.warning(
            "what an earlier pycron kept in the journal is in the ledger now",
            extra=fields(records=len(pending)),
        )
    journal.clear()
    try:
        journal.begin(file.identity)
    except LedgerError as error:
        log.warning("the journal has no room of its own", extra=fields(reason=str(error)))
    return None


def _copy(pending: list[Record], file: SqliteLedger) -> None:
    steps: list[Step] = []
    for record in pending:
        steps += unpack(record.content)
        if len(steps) >= _AT_ONCE or record is pending[-1]:
            tell_results(steps, file.write_each(steps, applied=record.number))
            steps = []
