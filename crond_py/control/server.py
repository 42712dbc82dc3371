"""Lets peers in on the control socket and carries their lines; what they mean is not known here.

One thread accepts, blocked in the kernel while nobody comes; each connection has a thread of its
own, at most ``Limits.connections`` of them. Who is one too many is told to ask again, so that
those who only wait, however many, never keep out the others. A peer has ``Limits.patience`` for
each line, so one that is stuck costs a thread for that long and holds up nobody (P4). One
descriptor is kept in reserve: where there is no other left, it serves to tell peers so. The socket
has mode 0600, and besides the kernel must say that the peer is the superuser or the daemon's own
user (P9).

State: made, started, stopped; a stopped server stays stopped. What a handler raises becomes an
error reply; a fault that nobody meant is logged with its traceback and answered in one sentence.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from crond_py.control.address import Peer, address, peer_of
from crond_py.control.protocol import (
    MAX_REQUEST_BYTES,
    Request,
    error_line,
    read_request,
    reply_line,
)
from crond_py.dataclass import dataclass
from crond_py.errors import (
    CrowdedError,
    ProtocolError,
    PycronError,
    RequestRefusedError,
    StateLockedError,
)
from crond_py.ports import Clock
from crond_py.threads import Thread
from crond_py.vital import VitalThread

log = logging.getLogger("pycron.control")

_BACKLOG: Final = 64
_OUT_OF_RESOURCES: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
)  # fmt: skip
_WAYS_OUT: Final = {
    errno.EMFILE: "; raise its limit on open files (LimitNOFILE= in its unit, or ulimit -n)"
}
_SHORTAGE_S: Final = 1.0
"""How long a shortage must last until peers are turned away."""

Handler = Callable[[Request[Any], Peer], object]
"""Answers a request of a peer with a reply of the protocol, or raises a PycronError. Called by
many threads at once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of the daemon its peers may use."""

    connections: int = 64
    waiting: int = 48
    """How many of these may be taken up by peers that wait; who handles requests keeps to it."""
    patience: timedelta = timedelta(seconds=10)
    farewell: timedelta = timedelta(seconds=2)
    """How long a stop waits for answers that are being given."""


class ControlServer:
    """The listening side. ``start`` and ``stop`` are idempotent; stop without start is legal."""

    def __init__(
        self, path: Path, handle: Handler, clock: Clock, limits: Limits | None = None
    ) -> None:
        self._path = path
        self._handle = handle
        self._clock = clock
        self._limits = limits or Limits()
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._listener: socket.socket | None = None
        self._identity: tuple[int, int] | None = None
        self._acceptor: threading.Thread | None = None
        self._reserve: int | None = None
        self._connections: dict[socket.socket, threading.Thread] = {}

    @property
    def is_in_place(self) -> bool:
        """Whether the socket is where it was made, as far as can be seen."""
        try:
            found = self._path.lstat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
        return (found.st_dev, found.st_ino) == self._identity

    # --- start and stop -------------------------------------------------------------------

    def start(self) -> None:
        """Listen. A socket that a dead daemon has left is replaced.

        Raises StateLockedError where a living daemon listens there, PycronError where the place
        cannot be used.
        """
        with self._lock:
            if self._listener is not None or self._stopping.is_set():
                return
            try:
                self._listener = self._listen()
            except OSError as error:
                message = f"cannot listen on the control socket {self._path}: {error.strerror}"
                raise PycronError(message) from None
            acceptor = VitalThread(
                target=self._accept_loop, args=(self._listener,), name="control", daemon=True
            )
            try:
                acceptor.start()
            except RuntimeError as error:
                self._remove()
                self._listener.close()
                self._listener = None
                message = f"cannot listen on the control socket {self._path}: {error}"
                raise PycronError(message) from None
            self._acceptor = acceptor

    def stop(self) -> None:
        """Let nobody in any more, finish the answers that are being given, and go.

        A handler may call it: its own connection is then not waited for.
        """
        with self._lock:
            self._stopping.set()
            listener, self._listener = self._listener, None
            acceptor = self._acceptor
            if listener is not None:
                self._remove()
                # A thread in accept(2) does not notice a close, but it does notice this.
                with contextlib.suppress(OSError):
                    listener.shutdown(socket.SHUT_RDWR)
        if acceptor is not None and acceptor is not threading.current_thread():
            acceptor.join()
        if listener is not None:
            listener.close()
        self._dismiss()

    def _dismiss(self) -> None:
        """Give every connection a little time to end."""
        with self._lock:
            connections = dict(self._connections)
        deadline_ns = self._clock.monotonic_ns() + _ns(self._limits.farewell)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RD)  # no further request, but the answer goes out
        for thread in connections.values():
            if thread is not threading.current_thread():
                remaining_ns = deadline_ns - self._clock.monotonic_ns()
                thread.join(max(0, remaining_ns) / 1e9)

    def _listen(self) -> socket.socket:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._clear_the_place()
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # On Linux the file gets the mode that the socket has now: it is never more open.
            os.fchmod(listener.fileno(), 0o600)
            with address(self._path) as name:
                listener.bind(name)
            self._path.chmod(0o600)
            listener.listen(_BACKLOG)
            found = self._path.stat()
        except BaseException:
            listener.close()
            raise
        self._identity = (found.st_dev, found.st_ino)
        return listener

    def _clear_the_place(self) -> None:
        """Remove the socket of a dead daemon, and nothing else."""
        try:
            found = self._path.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(found.st_mode):
            raise PycronError(f"{self._path} is in the way of the control socket; move it away")
        check_unserved(self._path)
        self._path.unlink(missing_ok=True)

    def _remove(self) -> None:
        """Remove the socket's file, unless it is another's by now."""
        with contextlib.suppress(OSError):
            found = self._path.lstat()
            if (found.st_dev, found.st_ino) == self._identity:
                self._path.unlink()

    # --- connections ----------------------------------------------------------------------

    def _accept_loop(self, listener: socket.socket) -> None:
        self._keep_reserve()
        try:
            self._accept_all(listener)
        finally:
            self._free_reserve()

    def _accept_all(self, listener: socket.socket) -> None:
        is_short = is_asked = False
        while not self._stopping.is_set():
            try:
                connection, _ = listener.accept()
            except OSError as error:
                if error.errno in _OUT_OF_RESOURCES:
                    # Peers wait in the queue meanwhile; to try again at once would only spin.
                    if not is_short:
                        log.error("no client is let in for now: %s", error.strerror)
                        self._stopping.wait(_SHORTAGE_S)
                    elif is_asked:
                        self._turn_away(listener, error)
                    is_asked = is_short and not is_asked and _is_asked(listener, _SHORTAGE_S)
                    is_short = True
                elif self._stopping.is_set():
                    return  # the listener was shut down
                elif error.errno != errno.ECONNABORTED:
                    raise
                continue
            is_short = is_asked = False
            self._keep_reserve()
            try:
                self._admit(connection)
            except Exception:  # the boundary of one connection
                log.exception("a client was not let in")
                connection.close()

    def _turn_away(self, listener: socket.socket, shortage: OSError) -> None:
        """Tell who has waited longest why nobody is let in, by the descriptor in reserve."""
        self._free_reserve()
        try:
            connection, _ = listener.accept()
        except OSError:
            self._stopping.wait(_SHORTAGE_S)  # it was taken, or it is not that which is lacking
        else:
            hint = _WAYS_OUT.get(shortage.errno or 0, "")
            refusal = f"pycron lets nobody in: {shortage.strerror}{hint}"
            _refuse(connection, RequestRefusedError(refusal))
        self._keep_reserve()

    def _keep_reserve(self) -> None:
        if self._reserve is None:
            with contextlib.suppress(OSError):  # it is tried again with the next peer
                self._reserve = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _free_reserve(self) -> None:
        reserve, self._reserve = self._reserve, None
        if reserve is not None:
            os.close(reserve)

    def _admit(self, connection: socket.socket) -> None:
        """Give the connection a thread, or a refusal."""
        peer = peer_of(connection)
        refusal: PycronError | None = None
        if peer.uid not in {0, os.geteuid()}:
            reason = f"user {peer.uid} may not talk to this daemon"
            log.warning("a client was refused", extra=_fields(peer, reason=reason))
            refusal = RequestRefusedError(f"{reason}; only root and its own user may")
        with self._lock:
            if self._stopping.is_set():
                refusal = RequestRefusedError("pycron is stopping")
            elif refusal is None and len(self._connections) >= self._limits.connections:
                refusal = CrowdedError("pycron talks to as many clients as it may; try again")
            if refusal is None:
                thread = Thread(
                    target=self._serve, args=(connection, peer), name="control-peer", daemon=True
                )
                self._connections[connection] = thread
                try:
                    thread.start()
                except RuntimeError as error:
                    del self._connections[connection]
                    refusal = RequestRefusedError(f"pycron cannot begin a thread: {error}")
        if refusal is not None:
            _refuse(connection, refusal)

    def _serve(self, connection: socket.socket, peer: Peer) -> None:
        """Answer one request after another until the peer has no more."""
        crowd = None
        try:
            with contextlib.suppress(OSError):  # the peer has gone, or is stuck
                for line in self._lines(connection):
                    answer = self._answer(line, peer)
                    connection.settimeout(self._limits.patience.total_seconds())
                    connection.sendall(answer)
        except CrowdedError as error:
            crowd = error
        except Exception:  # the boundary of one connection
            log.exception("a connection was given up", extra=_fields(peer))
        finally:
            with self._lock:
                self._connections.pop(connection, None)
            if crowd is not None:
                _refuse(connection, crowd)  # until it asks again it takes no place
            connection.close()

    def _lines(self, connection: socket.socket) -> Iterator[bytes]:
        """Yield the peer's lines; a line that is too long is answered and ends the connection."""
        buffer = bytearray()
        while True:
            deadline_ns = self._clock.monotonic_ns() + _ns(self._limits.patience)
            while (end := buffer.find(b"\n")) < 0:
                if len(buffer) > MAX_REQUEST_BYTES:
                    message = f"a request has at most {MAX_REQUEST_BYTES} bytes"
                    _refuse(connection, ProtocolError(message))
                    return
                remaining_ns = deadline_ns - self._clock.monotonic_ns()
                if remaining_ns <= 0:
                    return
                connection.settimeout(remaining_ns / 1e9)
                chunk = connection.recv(65536)
                if not chunk:
                    return
                buffer += chunk
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            yield line

    def _answer(self, line: bytes, peer: Peer) -> bytes:
        try:
            request = read_request(line)
            log.debug("request", extra=_fields(peer, op=request.op))
            return reply_line(self._handle(request, peer))
        except CrowdedError:
            raise
        except PycronError as error:
            return error_line(error)
        except Exception:  # the boundary of one request
            log.exception("a request was not answered", extra=_fields(peer))
            return error_line(PycronError("the daemon met a fault of its own; see its log"))


def check_unserved(path: Path) -> None:
    """Raise StateLockedError where a living daemon listens on the control socket at ``path``.

    Whatever was deleted beside it, it is at work. Raises PycronError where nobody can say.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            with address(path) as name:
                probe.connect(name)
        except (ConnectionRefusedError, FileNotFoundError, NotADirectoryError):
            return
        except BlockingIOError:
            owner = None  # its queue is full: it lives
        except OSError as error:
            message = f"the control socket {path} cannot be asked: {error.strerror}"
            raise PycronError(message) from None
        else:
            owner = peer_of(probe).pid
    who = "another pycron" if owner is None else f"another pycron (pid {owner})"
    message = (
        f"{who} runs on this state directory ({path.parent}); stop it, or use another --state-dir"
    )
    raise StateLockedError(message, pid=owner)


def _is_asked(listener: socket.socket, patience_s: float) -> bool:
    """Wait for a peer without a descriptor of its own; return whether there is one."""
    waiting = select.poll()
    waiting.register(listener, select.POLLIN)
    return bool(waiting.poll(patience_s * 1000))


def _refuse(connection: socket.socket, error: PycronError) -> None:
    """Say why and hang up; a peer that does not read is not waited for."""
    with contextlib.suppress(OSError), connection:
        connection.setblocking(False)
        connection.sendall(error_line(error))


def _ns(span: timedelta) -> int:
    return span // timedelta(microseconds=1) * 1000


def _fields(peer: Peer, **fields: object) -> dict[str, object]:
    """Return the ``extra`` of a log record."""
    return {"fields": {"peer_pid": peer.pid, "peer_uid": peer.uid, **fields}}
