"""How lines get out: a bounded queue, and one thread that writes.

A line is put on the queue by whoever logs; the thread is blocked while there is nothing to do. A
pipe that nobody reads, a full disk or a terminal that is gone therefore hold up that thread and
nobody else (P4, P8). What finds the queue full or cannot be written is lost; how much is told by
a line of its own as soon as all that waited could be written again.

What jobs print waits on the same queue, but only a little of it: what finds no room is refused and
comes again later, so that it neither is lost nor takes the place of the daemon's own lines.

What is in a line is ``lines``' business.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final, TextIO

from crond_py.dataclass import dataclass
from crond_py.errors import PycronError
from crond_py.threads import Thread

_MOST_WAITING: Final = 10_000
_MOST_PRINTED: Final = 100  # of what jobs print, in batches,
_MOST_CHARACTERS: Final = 1 << 20  # and in characters


class Outlet:
    """Where lines go: a descriptor of its own, or nowhere. Not for use by two threads."""

    def __init__(self, descriptor: int | None, file: Path | None = None) -> None:
        self._descriptor = descriptor
        self._file = file
        self._is_torn = False

    @classmethod
    def to_stream(cls, stream: TextIO | None) -> Outlet:
        """Return the outlet to a standard stream, which is None where it was closed."""
        return cls(None if stream is None else os.dup(stream.fileno()))

    @classmethod
    def to_file(cls, file: Path) -> Outlet:
        """Return the outlet to the end of a file. Raises PycronError where it cannot be opened."""
        return cls(open_log_file(file), file)

    @property
    def is_journal(self) -> bool:
        """Whether systemd's journal reads the other end: JOURNAL_STREAM in systemd.exec(5)."""
        if self._descriptor is None or self._file is not None:
            return False
        found = os.fstat(self._descriptor)
        return os.environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"

    def write(self, line: bytes) -> None:
        """Write a line, waiting for as long as it takes. Raises OSError where that is no use."""
        if self._descriptor is None:
            return
        # The rest of a line that a full disk has cut must not run on into this one.
        rest = b"\n" + line if self._is_torn else line
        while rest:
            try:
                written = os.write(self._descriptor, rest)
            except BlockingIOError:
                # Whoever shares the terminal or pipe with us has set O_NONBLOCK on it.
                poll = select.poll()
                poll.register(self._descriptor, select.POLLOUT)
                poll.poll()
                continue
            rest = rest[written:]
            self._is_torn = bool(rest)

    def follow(self) -> None:
        """Go on in a new file where the file's name is not this one's any more: it was rotated.

        Raises PycronError where there is no such file and none can be made; then lines still go
        to the one that was moved away.
        """
        file, descriptor = self._file, self._descriptor
        if file is None or descriptor is None or _is_in_place(file, descriptor):
            return
        self._descriptor = open_log_file(file)
        os.close(descriptor)
        self._is_torn = False

    def close(self) -> None:
        """Give the descriptor back; what is written after that goes nowhere."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _is_in_place(file: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(file.stat(), os.fstat(descriptor))
    except OSError:
        return False


def open_log_file(file: Path) -> int:
    """Open a log file for its owner alone, to append; return the descriptor.

    Raises PycronError.
    """
    # O_NONBLOCK: a FIFO of that name that nobody reads must not hold the daemon up.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        return os.open(file, flags, 0o600)
    except OSError as error:
        message = f"the log file {file} cannot be opened: {error.strerror}; use another --log-file"
        raise PycronError(message) from error


@dataclass(frozen=True, slots=True)
class _Printed:
    """A batch of lines that a job has printed."""

    text: str
    number: int


class LogWriter:
    """The queue of lines and the thread that writes them. ``close`` is idempotent."""

    def __init__(
        self, outlet: Outlet, formatter: logging.Formatter, *, most_waiting: int = _MOST_WAITING
    ) -> None:
        self._outlet = outlet
        self._formatter = formatter
        self._most_waiting = most_waiting
        self._changed = threading.Condition()
        self._waiting: deque[str | _Printed] = deque()
        self._printed = 0
        self._printed_characters = 0
        self._on_room: list[Callable[[], None]] = []
        self._dropped = 0
        self._is_lost = False
        self._is_closing = False
        self._thread = Thread(target=self._run, name="pycron-log", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Have a line written, if it finds a place; return at once."""
        with self._changed:
            own = len(self._waiting) - self._printed
            if self._is_closing or own >= self._most_waiting:
                self._dropped += 1
                return
            self._waiting.append(line)
            self._changed.notify()

    def offer(self, text: str, number: int, on_room: Callable[[], None]) -> bool:
        """Have so many lines of a job written, if there is room; return at once.

        If not, ``on_room`` is called once there is; not any more after a close.
        """
        with self._changed:
            if self._is_closing:
                return False
            if self._printed >= _MOST_PRINTED or self._printed_characters >= _MOST_CHARACTERS:
                if on_room not in self._on_room:
                    self._on_room.append(on_room)
                return False
            self._waiting.append(_Printed(text, number))
            self._printed += 1
            self._printed_characters += len(text)
            self._changed.notify()
            return True

    def close(self, timeout: timedelta) -> bool:
        """Write what waits, for at most ``timeout``; False if not all of it could be."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(timeout.total_seconds())
        return not self._thread.is_alive()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not (self._waiting or self._is_closing):
                    self._changed.wait()
                line = self._waiting.popleft() if self._waiting else None
            if line is None:
                self._outlet.close()
                return
            self._follow()
            if isinstance(line, _Printed):
                self._write(line.text, line.number)
                self._make_room(line)
            else:
                self._write(line)

    def _make_room(self, printed: _Printed) -> None:
        """Count a batch as gone, and tell those that wait for room once there is a good deal."""
        with self._changed:
            self._printed -= 1
            self._printed_characters -= len(printed.text)
            if (
                self._printed > _MOST_PRINTED // 2
                or self._printed_characters > _MOST_CHARACTERS // 2
            ):
                return
            waiting, self._on_room = self._on_room, []
        for on_room in waiting:
            on_room()

    def _write(self, text: str, number: int = 1) -> None:
        """Write lines, and after the last one that waits how many have been lost before."""
        if not self._is_written(text, number):
            return
        with self._changed:
            if self._waiting or not self._dropped:
                return
            dropped, self._dropped = self._dropped, 0
        lost = self._own_line("log records were lost: they could not be written", number=dropped)
        if not self._is_written(lost):
            with self._changed:
                self._dropped += dropped - 1  # the line itself is none of them

    def _is_written(self, text: str, number: int = 1) -> bool:
        try:
            self._outlet.write(text.encode("utf-8", "backslashreplace") + b"\n")
        except OSError:
            with self._changed:
                self._dropped += number
            return False
        return True

    def _follow(self) -> None:
        try:
            self._outlet.follow()
        except PycronError as error:
            if not self._is_lost:
                self._is_written(self._own_line(str(error)))
            self._is_lost = True
        else:
            self._is_lost = False

    def _own_line(self, message: str, **fields: object) -> str:
        record = logging.LogRecord("pycron.log", logging.WARNING, "", 0, "%s", (message,), None)
        record.fields = fields
        return self._formatter.format(record)
