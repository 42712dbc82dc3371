"""Notes up to which instant starts that were held for it have been let go.

Many of one instant are claimed long before it. A daemon that is killed meanwhile has begun none of
them, but the ledger, which gets to know a process after its start, does not tell the next one. So
whoever makes such starts, a thread of ours or an usher, first raises the note to their instant.
What was to be held for a later instant than the note says has not begun.

The note need not be flushed to the disk: it outlives the daemon in the kernel's memory, and it is
believed only in the boot of the machine in which it was made. Where there is none, or of another
boot, nobody knows what has begun. It is never lowered, so a clock that was set back makes it tell
less and nothing wrong.

Where it cannot be written there is none, until with a start some seconds later it can: then it
begins with what could not be noted meanwhile.

The file begins with the boot; behind that are numbers, the largest of which is the note: the first
is ours, each of the others is lent to one usher at a time, so that nobody has to read what it
raises. Not responsible for what is claimed how long ahead (``engine.ahead``).
"""

from __future__ import annotations

import logging
import os
import struct
import threading
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from crond_py.clock import EPOCH, SystemClock
from crond_py.dataclass import dataclass
from crond_py.ports import Clock

NUMBER: Final = struct.Struct("<q")
"""How an instant is written: microseconds since the Unix epoch."""

MOST_LENT: Final = 63

AGAIN_NS: Final = 10_000_000_000
"""How long after it could not be written it is tried again."""

_TITLE = b"pycron let go 1\n"
_HEAD_BYTES = 64
_SIZE = _HEAD_BYTES + NUMBER.size * (1 + MOST_LENT)
_MICROSECOND = timedelta(microseconds=1)

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Loan:
    """Where an usher is to note an instant, and what it writes there."""

    descriptor: int
    place: int
    value: bytes


class LetGo:
    """The note at ``path``, of the boot ``boot_id``; without a path there is none. Any thread."""

    def __init__(
        self, path: Path | None = None, boot_id: str = "", clock: Clock | None = None
    ) -> None:
        self._path = path if boot_id else None  # where nobody can tell the boot it says nothing
        self._clock = clock or SystemClock()
        self._head = (_TITLE + boot_id.encode("ascii")).ljust(_HEAD_BYTES, b"\0")
        self._lock = threading.Lock()
        self._descriptor = -1
        self._numbers: list[int] = []
        self._free = list(range(MOST_LENT, 0, -1))
        self._noted = 0
        self._fault = ""
        self._again_ns = 0
        # What was not noted because of a fault, and files that were given up while they were lent.
        self._missed = 0
        self._given_up: list[int] = []

    @property
    def trouble(self) -> str:
        """Why there is no note just now, for people; empty where all is well."""
        fault = self._fault  # another thread may write it
        return f"{fault}; it is tried again with a later start" if fault else ""

    def until(self) -> datetime | None:
        """Return up to which instant starts may have been let go; None: nobody knows."""
        with self._lock:
            if self._path is None or self._fault:
                return None
            try:
                descriptor = _open(self._path)
            except OSError:
                return None
            try:
                numbers = self._read(descriptor)
            finally:
                os.close(descriptor)
        try:
            return None if numbers is None else EPOCH + _MICROSECOND * max(numbers)
        except OverflowError:
            return None

    def begin(self) -> None:
        """Have a note from now on: nothing is open any more of which nobody knows whether it began.

        One of this boot goes on. Does not raise.
        """
        with self._lock:
            self._is_open()

    def note(self, instant: datetime) -> None:
        """Note that starts which were held for an instant are let go. Does not raise."""
        value = (instant - EPOCH) // _MICROSECOND
        with self._lock:
            if value <= self._noted:
                return
            if not self._is_open():
                self._missed = max(self._missed, value)
                return
            if value <= self._noted:  # as the file says
                return
            try:
                os.pwrite(self._descriptor, NUMBER.pack(value), _HEAD_BYTES)
            except (OSError, struct.error) as error:
                self._missed = max(self._missed, value)
                self._give_up(error)
            else:
                self._noted = value

    def lend(self, instant: datetime) -> Loan | None:
        """Return where an usher is to note an instant; None: it is noted already."""
        value = (instant - EPOCH) // _MICROSECOND
        with self._lock:
            if value > self._noted and self._is_open() and self._free:
                number = self._free.pop()
                value = self._numbers[number] = max(value, self._numbers[number])
                place = _HEAD_BYTES + NUMBER.size * number
                return Loan(self._descriptor, place, NUMBER.pack(value))
        self.note(instant)
        return None

    def give_back(self, loan: Loan) -> None:
        """Take back what an usher was lent, now that it has ended."""
        with self._lock:
            self._free.append((loan.place - _HEAD_BYTES) // NUMBER.size)
            self._close_given_up()

    def close(self) -> None:
        """Let go of the file. Idempotent."""
        with self._lock:
            self._drop()

    # --- the file; the caller holds the lock ----------------------------------------------

    def _is_open(self) -> bool:
        """Whether there is a file to write to; one of another boot, or none, is begun anew."""
        if self._path is None or self._descriptor >= 0:
            return self._path is not None
        if self._fault and self._clock.monotonic_ns() < self._again_ns:
            return False
        try:
            with suppress(FileNotFoundError):
                self._descriptor = _open(self._path)
            numbers = self._read(self._descriptor) if self._descriptor >= 0 else None
            if numbers is None or self._missed:
                numbers = [max(self._missed, *(numbers or [0])), *[0] * MOST_LENT]
                self._begin_file(self._path, numbers)
        except (OSError, struct.error) as error:
            self._give_up(error)
            return False
        self._numbers, self._noted = numbers, numbers[0]
        if self._fault:
            log.info("that starts are let go is noted again")
        self._fault, self._missed = "", 0
        return True

    def _drop(self) -> None:
        """Close the file, but not while it is lent: its number might be another file's by then."""
        if self._descriptor >= 0:
            self._given_up.append(self._descriptor)
        self._descriptor = -1
        self._close_given_up()

    def _close_given_up(self) -> None:
        if len(self._free) == MOST_LENT:
            for descriptor in self._given_up:
                os.close(descriptor)
            self._given_up.clear()

    def _begin_file(self, path: Path, numbers: list[int]) -> None:
        new = _beginning(path)
        with suppress(FileNotFoundError):
            new.unlink()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(new, flags, 0o600)
        os.pwrite(self._descriptor, self._head + b"".join(map(NUMBER.pack, numbers)), 0)
        new.rename(path)

    def _read(self, descriptor: int) -> list[int] | None:
        try:
            data = os.pread(descriptor, _SIZE, 0)
        except OSError:
            return None
        if len(data) != _SIZE or not data.startswith(self._head):
            return None
        return [number for (number,) in NUMBER.iter_unpack(data[_HEAD_BYTES:])]

    def _give_up(self, error: Exception) -> None:
        """Have no note: better that nobody knows what has begun than that it is said wrongly."""
        assert self._path is not None  # noqa: S101 - else nothing is written
        self._drop()
        for path in (self._path, _beginning(self._path)):
            with suppress(OSError):
                path.unlink()
        # Of what was lent an usher may yet let it go.
        self._missed = max(self._missed, self._noted, *self._numbers, 0)
        self._noted = 0
        self._again_ns = self._clock.monotonic_ns() + AGAIN_NS
        is_new, self._fault = not self._fault, f"that starts are let go cannot be noted: {error}"
        if is_new:
            log.warning("%s", self._fault)


def _beginning(path: Path) -> Path:
    """Return where the file is until it is whole."""
    return path.with_name(f"{path.name}.new")


def _open(path: Path) -> int:
    # O_NONBLOCK: a FIFO of that name must not hold the daemon up.
    return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
