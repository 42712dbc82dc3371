"""How lines get out: a bounded queue, and one thread that writes.

A line is put on the queue by whoever logs; the thread is blocked while there is nothing to do. A
pipe that nobody reads, a full disk or a terminal that is gone therefore hold up that thread and
nobody else (P4, P8). What finds the queue full or cannot be written is lost; how much is told by
a line of its own as soon as all that waited could be written again.

What is in a line is ``lines``' business.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections import deque
from datetime import timedelta
from pathlib import Path
from typing import Final, TextIO

from crond_py.errors import PycronError

_MOST_WAITING: Final = 10_000


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


class LogWriter:
    """The queue of lines and the thread that writes them. ``close`` is idempotent."""

    def __init__(
        self, outlet: Outlet, formatter: logging.Formatter, *, most_waiting: int = _MOST_WAITING
    ) -> None:
        self._outlet = outlet
        self._formatter = formatter
        self._most_waiting = most_waiting
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._dropped = 0
        self._is_lost = False
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="pycron-log", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Have a line written, if it finds a place; return at once."""
        with self._changed:
            if self._is_closing or len(self._waiting) >= self._most_waiting:
                self._dropped += 1
                return
            self._waiting.append(line)
            self._changed.notify()

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
            self._write(line)

    def _write(self, line: str) -> None:
        """Write a line, and after the last one that waits how many have been lost before."""
        if not self._is_written(line):
            return
        with self._changed:
            if self._waiting or not self._dropped:
                return
            dropped, self._dropped = self._dropped, 0
        text = self._own_line("log records were lost: they could not be written", number=dropped)
        if not self._is_written(text):
            with self._changed:
                self._dropped += dropped - 1  # the line itself is none of them

    def _is_written(self, line: str) -> bool:
        try:
            self._outlet.write(line.encode("utf-8", "backslashreplace") + b"\n")
        except OSError:
            with self._changed:
                self._dropped += 1
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


def occupy_standard_descriptors() -> None:
    """Put /dev/null where standard input, output or error was closed when the process began.

    Otherwise the next file to be opened, the ledger say, would get the number of standard error,
    and all that somebody writes there.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            # The lowest free number is taken, so this is the one that is missing.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
