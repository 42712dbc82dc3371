"""A spare copy of what a ledger must not lose, for the day when nothing of it can be read.

It is made when a daemon ends, and is then as good as the ledger. While a daemon is at work it is
as old as its start; all that is taken from it then is which schedules were known, so that nothing
that is past counts as missed a second time. The mark beside it says the rest (``mark``). Of the
tasks that have not ended it has as many as a start and an end can bear to write.

Not responsible for what can be read of a damaged ledger; see ``salvage``.
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from crond_py.ledger.known import Remains
from crond_py.ledger.mark import Mark
from crond_py.ledger.records import task_values, to_cursor, to_task
from crond_py.ledger.steps import Kind, pack, steps_of_run, to_step, unpack
from crond_py.logfields import fields
from crond_py.model import Cursor
from crond_py.ports import SetCursor

log = logging.getLogger("pycron.ledger")

_FORMAT = 1


def spare_file(path: Path) -> Path:
    """Return where the spare copy for the ledger at ``path`` is."""
    return path.with_name(f"{path.stem}.spare")


def write_spare(path: Path, remains: Remains, *, is_final: bool) -> None:
    """Make the spare copy for the ledger at ``path``; ``is_final``: nothing is written after it.

    Where it cannot be made there is none, rather than one that is out of date.
    """
    steps = [to_step(SetCursor(cursor)) for cursor in remains.cursors.values()]
    for run in remains.open_runs:
        steps += steps_of_run(run)
    content = {
        "format": _FORMAT,
        "is_final": is_final,
        "identity": remains.identity,
        "last_id": remains.last_id,
        "applied": remains.applied,
        "promised": remains.promised,
        "last_task_id": remains.last_task_id,
        "tasks": [task_values(task) for task in remains.tasks],
        "steps": json.loads(pack(steps)),
    }
    spare = spare_file(path)
    try:
        spare.unlink(missing_ok=True)
        _write(spare, json.dumps(content, separators=(",", ":")).encode("ascii"))
    except OSError as error:
        log.warning(
            "there is no spare copy of the ledger's state",
            extra=fields(file=str(spare), reason=error.strerror),
        )


def _write(spare: Path, content: bytes) -> None:
    """Write a file that is there whole, also after a power cut, or not at all."""
    new = spare.with_name(f"{spare.name}.new")
    new.unlink(missing_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(new, flags, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    new.rename(spare)
    directory = os.open(spare.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def read_spare(path: Path, now: datetime, mark: Mark | None = None) -> Remains | None:
    """Return what the spare copy for the ledger at ``path`` has; None where there is none.

    Of one that is not final there are only the cursors. Where no ``mark`` of the same ledger says
    up to when occurrences may have been claimed, each is set to ``now``: what was due before that
    may have run or not, and nothing is run twice.
    """
    try:
        content = json.loads(spare_file(path).read_bytes())
        if content["format"] != _FORMAT:
            return None
        steps = unpack(json.dumps(content["steps"]).encode("ascii"))
        if not content["is_final"]:
            is_marked = mark is not None and mark.identity == content["identity"]
            cursors = [to_cursor(step.row) for step in steps if step.kind is Kind.CURSOR]
            if not is_marked:
                cursors = [_settled(cursor, now) for cursor in cursors]
            steps = [to_step(SetCursor(cursor)) for cursor in cursors]
            last_task_id = int(content.get("last_task_id", 0))
            return Remains("", {}, [], 0, 0, steps=steps, last_task_id=last_task_id)
        return Remains(
            str(content["identity"]),
            {},
            [],
            int(content["last_id"]),
            int(content["applied"]),
            int(content.get("promised", 0)),
            steps,
            int(content.get("last_task_id", 0)),
            [to_task(tuple(values)) for values in content.get("tasks", ())],
        )
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return None  # none, or none that can be read


def _settled(cursor: Cursor, now: datetime) -> Cursor:
    return replace(
        cursor,
        baseline=max(cursor.baseline, now),
        accounted_until=max(cursor.accounted_until, now),
    )
