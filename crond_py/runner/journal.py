"""Passes printed lines on to systemd's journal, by its native protocol.

Each line is a datagram of fields (https://systemd.io/JOURNAL_NATIVE_PROTOCOL). Lines come cut to a
length and without control characters, so none needs the protocol's form for binary data or a file
descriptor. ``journalctl -t JOB`` finds them, and so does ``PYCRON_RUN=12``.
"""

from __future__ import annotations

import errno
import logging
import select
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from crond_py.ports import PrintedLines
from crond_py.printable import printable_line
from crond_py.threads import Thread

SOCKET: Final = Path("/run/systemd/journal/socket")

_BUFFER_BYTES: Final = 1 << 20
_FULL: Final = frozenset({errno.EAGAIN, errno.ENOBUFS})

log = logging.getLogger("pycron.output")


class JournalSink:
    """A LineSink. Without a journal the lines are let go, which is said once: files have them."""

    def __init__(self, path: Path = SOCKET) -> None:
        self._path = path
        self._socket: socket.socket | None = None
        self._is_in_trouble = False
        self._lock = threading.Lock()
        self._waiting: list[Callable[[], None]] = []

    def offer(self, printed: PrintedLines, on_room: Callable[[], None]) -> int:
        """See ports.LineSink. Called from one thread only."""
        fields = (
            f"PRIORITY=6\nSYSLOG_IDENTIFIER={printable_line(printed.job)}\n"
            f"PYCRON_JOB={printable_line(printed.job)}\n"
            f"PYCRON_RUN={printed.key.run_id}\nPYCRON_ATTEMPT={printed.key.number}\nMESSAGE="
        )
        try:
            connection = self._socket or self._connect()
            for number, line in enumerate(printed.lines):
                if not self._is_sent(connection, f"{fields}{printable_line(line)}\n".encode()):
                    self._wait_for_room(connection, on_room)
                    return number
        except OSError as error:
            self._has_failed(error)
        else:
            self._is_in_trouble = False
        return len(printed.lines)

    def close(self) -> None:
        """Let go of the socket; a later line connects again."""
        connection, self._socket = self._socket, None
        if connection is not None:
            with suppress(OSError):
                connection.close()

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _BUFFER_BYTES)
            connection.connect(str(self._path))
        except OSError:
            connection.close()
            raise
        self._socket = connection
        return connection

    def _is_sent(self, connection: socket.socket, message: bytes) -> bool:
        """Send a message; False: the journal takes no more for now."""
        try:
            connection.send(message)
        except OSError as error:
            if error.errno in _FULL:
                return False
            raise
        return True

    def _wait_for_room(self, connection: socket.socket, on_room: Callable[[], None]) -> None:
        """Have ``on_room`` called; for as long as the journal hangs a thread waits for that.

        Raises OSError where no thread is to be had; then nobody waits.
        """
        with self._lock:
            is_waited_for = bool(self._waiting)
            if on_room not in self._waiting:
                self._waiting.append(on_room)
            if is_waited_for:
                return
        waiter = Thread(target=self._wait, args=(connection,), name="pycron-journal", daemon=True)
        try:
            waiter.start()
        except RuntimeError as error:  # the system's limit
            self._take_waiting()
            raise OSError(errno.EAGAIN, str(error)) from None

    def _wait(self, connection: socket.socket) -> None:
        # Closed meanwhile: who waits is told all the same, and then finds out what is the matter.
        with suppress(OSError, ValueError):
            poll = select.poll()
            poll.register(connection, select.POLLOUT)
            poll.poll()
        for on_room in self._take_waiting():
            on_room()

    def _take_waiting(self) -> list[Callable[[], None]]:
        with self._lock:
            waiting, self._waiting = self._waiting, []
        return waiting

    def _has_failed(self, error: OSError) -> None:
        """Say what is the matter, once until it works again; the next lines are tried anew."""
        self.close()
        if not self._is_in_trouble:
            self._is_in_trouble = True
            log.warning(
                "output is not passed on to the journal: %s: %s; its files have it",
                self._path, error.strerror or str(error), extra={"fields": {}},
            )  # fmt: skip
