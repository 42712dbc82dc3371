"""The mark beside the ledger: how much it has promised, so that a loss of its newest records shows.

SQLite's log (``-wal``) may be damaged or deleted, and a ledger put back from a copy: the file is
then sound and knows nothing of what came last. The mark says what it must know: the number of its
last durable write, that of the journal's last record, the largest ids that a run and a task were
given. It also says up to which instant occurrences may have been claimed, and since which boot of
the machine.

It is written after each durable write and never flushed to the disk on purpose, since the ledger
is: after a power cut the mark may be behind, which tells nothing, and never ahead of what the disk
has. One that is torn or cannot be read is none.

Not responsible for what follows from a loss; see ``opening`` for the ids, and the engine.
"""

from __future__ import annotations

import logging
import os
import zlib
from datetime import datetime
from pathlib import Path

from crond_py.dataclass import dataclass
from crond_py.ledger.records import from_us, to_us
from crond_py.logfields import fields

log = logging.getLogger("pycron.ledger")

_TITLE = "pycron-mark-2"
_TITLE_WITHOUT_TASKS = "pycron-mark-1"
_WIDTH = 240
"""How long it always is: what a disk writes at once, or not at all."""


@dataclass(frozen=True, slots=True)
class Mark:
    """What a ledger must know, and up to when occurrences may have been claimed."""

    identity: str
    promised: int
    applied: int
    last_id: int
    until: datetime
    boot_id: str
    last_task_id: int = 0


def mark_file(path: Path) -> Path:
    """Return where the mark of the ledger at ``path`` is."""
    return path.with_name(f"{path.stem}.mark")


def read_mark(path: Path) -> Mark | None:
    """Return the mark of the ledger at ``path``; None where there is none that can be read."""
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(mark_file(path), flags)
    except OSError:
        return None
    try:
        line = os.pread(descriptor, _WIDTH, 0).decode("ascii")
    except (OSError, UnicodeDecodeError):
        return None
    finally:
        os.close(descriptor)
    return _parse(line)


def _parse(line: str) -> Mark | None:
    text, _, checksum = line.rstrip().rpartition(" ")
    if checksum != _checksum(text):
        return None
    title, *values = text.split(" ")
    if title == _TITLE_WITHOUT_TASKS:
        values.append("0")
    elif title != _TITLE:
        return None
    identity, promised, applied, last_id, until_us, boot_id, last_task_id = values
    return Mark(
        identity,
        int(promised),
        int(applied),
        int(last_id),
        from_us(int(until_us)),
        boot_id,
        int(last_task_id),
    )


def _line(mark: Mark) -> bytes:
    text = (
        f"{_TITLE} {mark.identity} {mark.promised} {mark.applied} {mark.last_id} "
        f"{to_us(mark.until)} {mark.boot_id} {mark.last_task_id}"
    )
    return f"{text} {_checksum(text)}".ljust(_WIDTH - 1).encode("ascii") + b"\n"


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode('ascii')):08x}"


class MarkKeeper:
    """Writes the mark of the ledger at ``path``. Where that fails there is none, and it is said.

    It is opened anew each time: it may have been deleted, and its directory, too.
    """

    def __init__(self, path: Path) -> None:
        self._path = mark_file(path)
        self._is_told = False

    def put(self, mark: Mark) -> None:
        """Write the mark."""
        # O_NONBLOCK: a FIFO of that name must not hold the daemon up.
        flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            descriptor = os.open(self._path, flags, 0o600)
            try:
                os.pwrite(descriptor, _line(mark), 0)
            finally:
                os.close(descriptor)
        except OSError as error:
            self._tell_once(error)
        else:
            self._is_told = False

    def _tell_once(self, error: OSError) -> None:
        if self._is_told:
            return
        self._is_told = True
        log.warning(
            "the mark beside the ledger cannot be written; a loss of the ledger's newest records "
            "would not be noticed",
            extra=fields(file=str(self._path), reason=error.strerror),
        )
