"""Talks to a running daemon: connects, sends a request, reads the answer or raises it."""

from __future__ import annotations

import contextlib
import errno
import socket
import struct
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from crond_py.control.address import Peer, address, peer_of
from crond_py.control.protocol import LONGEST_WAIT, Request, read_reply, request_line
from crond_py.control.waiting import Pauses, Watch
from crond_py.errors import (
    CrowdedError,
    DaemonNotRunningError,
    NotPermittedError,
    PycronError,
)
from crond_py.places import way_in

PATIENCE = timedelta(seconds=30)
"""How long an answer may take; a daemon whose ledger is locked needs some time."""

_LEAST_PATIENCE: Final = timedelta(seconds=1)
_NONE: Final = timedelta(0)

R = TypeVar("R")


class Conversation:
    """One connection to the daemon at a time; close it, or use it in a ``with``.

    Raises DaemonNotRunningError where nobody listens, and NotPermittedError where the socket is
    another user's.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._connect()

    def _connect(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._buffer = bytearray()
        self._is_over = False
        try:
            with address(self._path) as name:
                _connect(self._socket, name)
        except OSError as error:
            self._socket.close()
            raise _not_reached(self._path, error) from None

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
        """Send a request; its answer is to be received.

        Where the one before is over, that is on another connection.
        """
        if self._is_over:
            self._connect()
        self._socket.settimeout(PATIENCE.total_seconds())
        try:
            # A daemon that refuses the connection has said why and hung up: that is read next.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._socket.sendall(request_line(request))
        except TimeoutError:
            raise PycronError(self._no_answer(request, PATIENCE)) from None

    def receive(self, request: Request[R], patience: timedelta = PATIENCE) -> R:
        """Return the answer to ``request``, which has been sent, or raise what it says."""
        self._socket.settimeout(patience.total_seconds())
        try:
            while b"\n" not in self._buffer:
                chunk = self._socket.recv(1 << 20)
                if not chunk:
                    raise self._gone()
                self._buffer += chunk
        except TimeoutError:
            raise PycronError(self._no_answer(request, patience)) from None
        except ConnectionResetError:
            raise self._gone() from None
        line, _, rest = bytes(self._buffer).partition(b"\n")
        self._buffer = bytearray(rest)
        try:
            return read_reply(request, line)
        except CrowdedError:
            self._end()
            raise

    def _end(self) -> None:
        """Have what is sent next go over another connection."""
        self.close()
        self._is_over = True

    def _gone(self) -> DaemonNotRunningError:
        self._end()
        return DaemonNotRunningError("the daemon has gone without an answer")

    def ask(self, request: Request[R], patience: timedelta = PATIENCE) -> R:
        """Send a request and return its answer, or raise what it says."""
        self.send(request)
        return self.receive(request, patience)

    def call(self, request: Request[R], patience: timedelta = PATIENCE) -> R:
        """Do as ``ask`` does; where there are too many clients, do so again, for ``patience``."""
        watch, pauses = Watch.begin(), Pauses()
        while True:
            try:
                return self.ask(request, patience)
            except CrowdedError:
                if watch.elapsed() >= patience:
                    raise
                pauses.wait()

    def _no_answer(self, request: Request[Any], patience: timedelta) -> str:
        return (
            f"the daemon (process {self.peer.pid}) has not answered within "
            f"{patience.total_seconds():g} seconds; it may be stopped or stuck"
            f"{', and may yet do what was asked for' if request.does else ''}"
        )


def patience_for(limit: timedelta | None) -> timedelta:
    """Return how long an answer may take where the whole is to take no longer than ``limit``."""
    return PATIENCE if limit is None else max(_LEAST_PATIENCE, min(limit, PATIENCE))


def wait_until(
    conversation: Conversation,
    request_for: Callable[[timedelta], Request[R]],
    is_over: Callable[[R], bool],
    limit: timedelta | None,
    watch: Watch,
) -> R:
    """Ask until an answer ``is_over``, or until ``watch`` shows ``limit``; return the last answer.

    ``request_for`` makes the request that is answered after a time at the latest; it changes
    nothing. None as a limit is as long as it takes. Where the limit is over already the daemon is
    asked once more; CrowdedError is raised where it has no time for that.

    It hangs up on who has not asked again in time, as a process cannot that was stopped (Ctrl-Z);
    so it is gone only where it does so on a new connection, too.
    """
    pauses, patience = Pauses(), patience_for(limit)
    gone: DaemonNotRunningError | None = None
    while True:
        slice_ = LONGEST_WAIT
        if limit is not None:
            slice_ = max(_NONE, min(slice_, limit - watch.elapsed()))
        request = request_for(slice_)
        try:
            if slice_ == _NONE:
                return conversation.call(request, patience)
            answer = conversation.ask(request, slice_ + patience)
        except CrowdedError:
            if slice_ == _NONE:
                raise
            pauses.wait(slice_)
            continue
        except DaemonNotRunningError as error:
            if gone is not None:
                raise gone from None
            gone = error
            continue
        gone = None
        if is_over(answer):
            return answer


def call(path: Path, request: Request[R], patience: timedelta = PATIENCE) -> R:
    """Connect, send one request, and return its answer or raise what it says.

    Where there are too many clients it is sent again, for ``patience``.
    """
    with Conversation(path) as conversation:
        return conversation.call(request, patience)


def _connect(connection: socket.socket, name: str) -> None:
    """Wait to be let in, whatever signals come meanwhile. Raises OSError, at the latest in time."""
    watch = Watch.begin()
    while (left := PATIENCE - watch.elapsed()) > _NONE:
        # With a timeout of Python's it would not wait where many others are to be let in first.
        patience = struct.pack("@ll", *divmod(left // timedelta.resolution, 1_000_000))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, patience)
        connection.connect(name)
        if _is_connected(connection):
            return
    raise TimeoutError


def _is_connected(connection: socket.socket) -> bool:
    """Tell whether a connect that has returned did its work.

    For one that a signal has cut short Python waits until the socket can be written to, which a
    Unix socket that is not connected always can, as if it were a connection that is being made.
    """
    try:
        connection.getpeername()
    except OSError as error:
        if error.errno != errno.ENOTCONN:
            raise
        return False
    return True


def _not_reached(path: Path, error: OSError) -> PycronError:
    match error:
        case PermissionError():
            message = f"you may not talk to the daemon at {path}; {way_in(path.parent)}"
            return NotPermittedError(message)
        case TimeoutError() | BlockingIOError():
            return PycronError(f"the daemon at {path} lets nobody in; it may be stopped or stuck")
        case FileNotFoundError() | ConnectionRefusedError() | NotADirectoryError():
            return DaemonNotRunningError(
                f"no daemon is running on {path.parent}; start one with: pycron run"
            )
    return PycronError(f"the control socket {path} cannot be used: {error.strerror}")
