"""Talks to a running daemon: connects, sends a request, reads the answer or raises it."""

from __future__ import annotations

import contextlib
import socket
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from crond_py.control.address import Peer, address, peer_of
from crond_py.control.protocol import Request, read_reply, request_line
from crond_py.errors import DaemonNotRunningError, PycronError

PATIENCE = timedelta(seconds=30)
"""How long an answer may take; a daemon whose ledger is locked needs some time."""

R = TypeVar("R")


class Conversation:
    """One connection to the daemon; close it, or use it in a ``with``.

    Raises DaemonNotRunningError where nobody listens, and PycronError where the socket is
    another user's.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._buffer = bytearray()
        try:
            self._socket.settimeout(PATIENCE.total_seconds())
            with address(path) as name:
                self._socket.connect(name)
        except OSError as error:
            self._socket.close()
            raise _not_reached(path, error) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    @property
    def peer(self) -> Peer:
        """The process on the other side."""
        return peer_of(self._socket)

    def fileno(self) -> int:
        """Return the descriptor, which is readable once an answer has come."""
        return self._socket.fileno()

    def send(self, request: Request[Any]) -> None:
        """Send a request; its answer is to be received."""
        # A daemon that refuses the connection has said why and hung up: that is read next.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._socket.sendall(request_line(request))

    def receive(self, request: Request[R], patience: timedelta = PATIENCE) -> R:
        """Return the answer to ``request``, which has been sent, or raise what it says."""
        self._socket.settimeout(patience.total_seconds())
        try:
            while b"\n" not in self._buffer:
                chunk = self._socket.recv(1 << 20)
                if not chunk:
                    raise _gone()
                self._buffer += chunk
        except TimeoutError:
            raise PycronError(self._no_answer(request, patience)) from None
        except ConnectionResetError:
            raise _gone() from None
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        return read_reply(request, line)

    def call(self, request: Request[R], patience: timedelta = PATIENCE) -> R:
        """Send a request and return its answer, or raise what it says."""
        self.send(request)
        return self.receive(request, patience)

    def _no_answer(self, request: Request[Any], patience: timedelta) -> str:
        return (
            f"the daemon (process {self.peer.pid}) has not answered within "
            f"{patience.total_seconds():g} seconds; it may be stopped or stuck"
            f"{', and may yet do what was asked for' if request.does else ''}"
        )


def call(path: Path, request: Request[R], patience: timedelta = PATIENCE) -> R:
    """Connect, send one request, and return its answer or raise what it says."""
    with Conversation(path) as conversation:
        return conversation.call(request, patience)


def _not_reached(path: Path, error: OSError) -> PycronError:
    match error:
        case PermissionError():
            return PycronError(f"the daemon at {path} is another user's; you may not talk to it")
        case TimeoutError():
            return PycronError(f"the daemon at {path} lets nobody in; it may be stopped or stuck")
        case FileNotFoundError() | ConnectionRefusedError() | NotADirectoryError():
            return DaemonNotRunningError(
                f"no daemon is running on {path.parent}; start one with: pycron run"
            )
    return PycronError(f"the control socket {path} cannot be used: {error.strerror}")


def _gone() -> DaemonNotRunningError:
    return DaemonNotRunningError("the daemon has gone without an answer")
