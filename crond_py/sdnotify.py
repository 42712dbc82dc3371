"""Tells systemd how the daemon is doing, by the protocol of sd_notify(3).

Without a NOTIFY_SOCKET in the environment every method does nothing. None raises, and none keeps
its caller waiting: what is told from the main thread waits a second at most for a manager whose
queue is full, the sign of life, which comes from the engine, not at all. One
socket is held from the start, so that running out of descriptors does not look like death.

When to tell what is the service's business, not this module's.
"""

from __future__ import annotations

import logging
import os
import re
import socket
import struct
from collections.abc import MutableMapping
from datetime import timedelta
from typing import Final, Protocol

from crond_py.printable import printable_line

log = logging.getLogger("pycron.systemd")

_PATIENCE_SECONDS: Final = 1
_TIMEVAL: Final = "@ll"  # struct timeval, for SO_SNDTIMEO of socket(7)
_MICROSECONDS: Final = re.compile("[1-9][0-9]{0,17}")


class AwakeClock(Protocol):
    """A clock that can be read as systemd reads it."""

    def awake_ns(self) -> int:
        """Return CLOCK_MONOTONIC in nanoseconds."""
        ...


class Notifier:
    """The daemon's line to the service manager.

    ``watchdog_period`` is how long the manager waits for a sign of life before it takes the
    daemon for dead, or None where it does not watch; half of it is a good time to give one.
    """

    def __init__(self, address: str | None, watchdog_period: timedelta | None = None) -> None:
        self.watchdog_period = watchdog_period
        self._address = address
        self._is_unheard = False
        self._socket: socket.socket | None = None
        if address is not None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC)
            patience = struct.pack(_TIMEVAL, _PATIENCE_SECONDS, 0)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)

    @classmethod
    def from_environment(cls, environ: MutableMapping[str, str] | None = None) -> Notifier:
        """Make the notifier that the environment asks for.

        The variables are removed: no child shall speak for the daemon.
        """
        environ = os.environ if environ is None else environ
        address = environ.pop("NOTIFY_SOCKET", "")
        usec = environ.pop("WATCHDOG_USEC", "")
        pid = environ.pop("WATCHDOG_PID", "")
        if not address.startswith(("/", "@")):
            # systemd 253 knows vsock: as well, from the init of a virtual machine to its host.
            if address:
                log.warning("NOTIFY_SOCKET is not a Unix socket", extra=_fields(address=address))
            return cls(None)
        return cls(address, _watchdog_period(usec, pid))

    def ready(self, status: str = "") -> None:
        """Tell that the daemon is up, or that a reload has ended."""
        self._send("READY=1", *_status(status))

    def reloading(self, clock: AwakeClock) -> None:
        """Tell that a reload has begun; ``ready`` ends it, whatever came of it."""
        self._send("RELOADING=1", f"MONOTONIC_USEC={clock.awake_ns() // 1000}")

    def stopping(self, status: str = "") -> None:
        """Tell that the daemon has begun to stop."""
        self._send("STOPPING=1", *_status(status))

    def status(self, text: str) -> None:
        """Set the one line that ``systemctl status`` shows."""
        self._send(*_status(text))

    def alive(self) -> None:
        """Give the sign of life that the watchdog waits for."""
        self._send("WATCHDOG=1", flags=socket.MSG_DONTWAIT)

    def close(self) -> None:
        """Give the socket back; after that nothing is told any more."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _send(self, *assignments: str, flags: int = 0) -> None:
        if self._socket is None or self._address is None:
            return
        # "@" stands for the zero byte that an abstract address begins with, see unix(7).
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        message = "\n".join(assignments).encode("utf-8", "backslashreplace")
        try:
            self._socket.sendto(message, flags, address)
        except OSError as error:
            if not self._is_unheard:
                fields = _fields(message=assignments[0], reason=str(error))
                log.warning("the service manager cannot be told", extra=fields)
            self._is_unheard = True
        else:
            self._is_unheard = False


def _watchdog_period(usec: str, pid: str) -> timedelta | None:
    """Return the period if it is meant for this process: see sd_watchdog_enabled(3)."""
    if pid and pid != str(os.getpid()):
        return None
    if not _MICROSECONDS.fullmatch(usec):
        return None
    return timedelta(microseconds=int(usec))


def _status(text: str) -> list[str]:
    # A newline would begin another assignment.
    return [f"STATUS={printable_line(text)}"] if text else []


def _fields(**fields: object) -> dict[str, object]:
    """Return the ``extra`` of a log record."""
    return {"fields": fields}
