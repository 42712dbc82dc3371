"""The control socket: who gets in, and what those who get in can do to others."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crond_py.clock import SystemClock
from crond_py.control import client as client_module
from crond_py.control import server as server_module
from crond_py.control.address import Peer, peer_of
from crond_py.control.client import Conversation, call, wait_until
from crond_py.control.protocol import (
    MAX_REQUEST_BYTES,
    Ping,
    Pong,
    Reload,
    Request,
    Trigger,
    Triggered,
)
from crond_py.control.server import ControlServer, Handler, Limits, check_unserved
from crond_py.control.waiting import Pauses, Watch
from crond_py.errors import (
    CrowdedError,
    DaemonNotRunningError,
    ProtocolError,
    PycronError,
    RequestRefusedError,
    StateLockedError,
)
from crond_py.vital import ending_by

SHORT = Limits(patience=timedelta(milliseconds=50))
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can be another user")


def pong(request: Request[Any], peer: Peer) -> object:
    """Answer everything with a pong."""
    return Pong(os.getpid(), "1")


@contextlib.contextmanager
def serving(path: Path, handle: Handler = pong, limits: Limits | None = None) -> Iterator[None]:
    """Run a server at ``path``."""
    server = ControlServer(path, handle, SystemClock(), limits)
    server.start()
    try:
        yield
    finally:
        server.stop()


def raw(path: Path, data: bytes) -> bytes:
    """Send bytes, end the sending side, and return all that comes back."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(30)
        peer.connect(str(path))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            peer.sendall(data)
            peer.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := peer.recv(65536):
                answer += chunk
        return answer


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Name a place for a socket."""
    return tmp_path / "state" / "control.sock"


# --- who gets in --------------------------------------------------------------------------------


def test_the_socket_is_private_whatever_the_umask(path: Path) -> None:
    """P9: mode 0600 in a directory that was made with 0700, with an umask of nothing."""
    old = os.umask(0)
    try:
        with serving(path):
            assert stat.S_IMODE(path.stat().st_mode) == 0o600
            assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    finally:
        os.umask(old)


def test_a_peer_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P9: the kernel's word on who the peer is decides, and the handler is never asked."""
    asked: list[object] = []
    monkeypatch.setattr(server_module, "peer_of", lambda _: Peer(pid=1, uid=os.geteuid() + 4242))

    def handle(request: Request[Any], peer: Peer) -> object:
        asked.append(request)
        return pong(request, peer)

    with serving(path, handle), pytest.raises(RequestRefusedError, match="may not talk"):
        call(path, Ping())
    assert asked == []


@ROOT_ONLY
def test_a_real_other_user_is_refused_even_with_an_open_door(path: Path) -> None:
    """P9: the check holds where somebody has opened the modes of socket and directories."""
    program = """
import os, socket, sys
peer = socket.socket(socket.AF_UNIX)
os.setgroups([]); os.setgid(65534); os.setuid(65534)
peer.connect(sys.argv[1])
print(peer.recv(65536).decode())
"""
    with serving(path):
        path.chmod(0o666)
        short = Path(f"/tmp/pycron-test-{os.getpid()}")
        try:
            path.parent.chmod(0o755)
            short.symlink_to(path)
            for parent in path.parents:
                if stat.S_IMODE(parent.stat().st_mode) & 0o001 == 0:
                    parent.chmod(0o711)
            done = subprocess.run(
                [sys.executable, "-c", program, str(short)],
                capture_output=True,
                text=True,
                check=False,
            )
        finally:
            short.unlink()
    refusal = "user 65534 may not talk to this daemon; only root and its own user may"
    assert refusal in done.stdout, done.stderr


# --- whose place it is --------------------------------------------------------------------------


def test_a_dead_daemons_socket_is_replaced(path: Path) -> None:
    """P8: what a kill -9 left behind is no obstacle."""
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with serving(path):
        assert call(path, Ping()).pid == os.getpid()


def test_a_living_daemons_socket_is_left_alone(path: Path) -> None:
    """P2: a second server on the same place is refused and names the first; the first goes on."""
    with serving(path):
        second = ControlServer(path, pong, SystemClock())
        with pytest.raises(StateLockedError) as caught:
            second.start()
        assert caught.value.pid == os.getpid()
        second.stop()
        assert call(path, Ping()).pid == os.getpid()


@pytest.mark.parametrize("kind", ["file", "directory", "symlink"])
def test_nothing_but_a_socket_is_removed(path: Path, kind: str) -> None:
    """P8: somebody's file in the way is reported and never deleted."""
    path.parent.mkdir()
    match kind:
        case "file":
            path.write_text("precious")
        case "directory":
            path.mkdir()
        case "symlink":
            path.symlink_to("elsewhere")
    with pytest.raises(PycronError, match="in the way"):
        ControlServer(path, pong, SystemClock()).start()
    assert os.path.lexists(path)


def test_a_stopped_server_leaves_no_socket(path: Path) -> None:
    """Who asks afterwards is told that no daemon is running."""
    with serving(path):
        assert path.exists()
    assert not path.exists()
    with pytest.raises(DaemonNotRunningError):
        call(path, Ping())


def test_a_stopped_server_does_not_remove_its_successors_socket(path: Path) -> None:
    """P2: only the file that a server has made is its own."""
    first = ControlServer(path, pong, SystemClock())
    first.start()
    path.unlink()
    with serving(path):
        first.stop()
        assert call(path, Ping()).pid == os.getpid()


def test_a_living_daemon_is_found_by_its_socket(path: Path) -> None:
    """P2: who listens is known before anything else is done, by its pid; it is not disturbed."""
    check_unserved(path)
    with serving(path):
        with pytest.raises(StateLockedError, match=r"\(pid \d+\) runs on this state") as caught:
            check_unserved(path)
        assert caught.value.pid == os.getpid()
        assert call(path, Ping())
    check_unserved(path)


@pytest.mark.parametrize("below", ["", "deeper"])
def test_where_no_socket_is_nobody_listens(tmp_path: Path, below: str) -> None:
    """P8: a file in the way, of the socket or of its directory, is no daemon."""
    place = tmp_path / "place"
    place.write_text("not a socket")
    check_unserved(place / below)


def test_a_start_without_a_thread_leaves_nothing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: where no thread is to be had that is an error, and the next may listen there."""

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        server = ControlServer(path, pong, SystemClock())
        with pytest.raises(PycronError, match="can't start new thread"):
            server.start()
        assert not path.exists()
        server.stop()
    with serving(path):
        assert call(path, Ping())


def test_nobody_listens_on_a_stale_socket(path: Path) -> None:
    """A client takes a dead daemon's socket for what it is."""
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with pytest.raises(DaemonNotRunningError):
        call(path, Ping())


@pytest.mark.parametrize("length", [100, 107, 108, 109, 600])
def test_a_path_of_any_length_works(tmp_path: Path, length: int) -> None:
    """A state directory deep down has a control socket as well."""
    missing = length - len(str(tmp_path)) - len("//control.sock")
    if missing < 1:
        pytest.skip("the temporary directory is too deep for this length")
    parts = ["d" * 100] * (missing // 101) + ["e" * (missing % 101 or 1)]
    path = tmp_path.joinpath(*parts, "control.sock")
    with serving(path):
        assert call(path, Ping()).pid == os.getpid()
    assert not path.exists()


# --- what peers can do --------------------------------------------------------------------------


def test_requests_follow_one_another_on_one_connection(path: Path) -> None:
    """A connection may be used again."""
    with serving(path), Conversation(path) as conversation:
        assert conversation.call(Ping()) == conversation.call(Ping())


@settings(max_examples=50, deadline=None)
@given(data=st.lists(st.binary(max_size=200), max_size=5))
def test_junk_gets_an_error_for_each_line(shared_server: Path, data: list[bytes]) -> None:
    """P9: any bytes at all get one JSON reply a line, and the server answers the next peer."""
    sent = b"".join(data)
    lines = sent.split(b"\n")[:-1]
    answers = raw(shared_server, sent).splitlines()
    assert len(answers) == len(lines)
    for answer in answers:
        assert "message" in json.loads(answer)["error"]
    assert call(shared_server, Ping()).pid == os.getpid()


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One server for all examples of a property."""
    path = tmp_path_factory.mktemp("control") / "control.sock"
    with serving(path):
        yield path


def test_a_request_without_end_is_cut_off(path: Path) -> None:
    """P9: nobody fills the daemon's memory."""
    with serving(path):
        answer = raw(path, b"x" * (MAX_REQUEST_BYTES * 4))
        if answer:  # the refusal may be lost when the kernel drops what was not read
            assert "at most" in json.loads(answer)["error"]["message"]
        assert call(path, Ping()).pid == os.getpid()


def test_a_silent_peer_is_hung_up_on(path: Path) -> None:
    """P4: who says nothing, or half a line, loses the connection after the patience allowed."""
    with serving(path, limits=SHORT):
        for beginning in (b"", b'{"v": 1, "op"'):
            with socket.socket(socket.AF_UNIX) as peer:
                peer.settimeout(30)
                peer.connect(str(path))
                peer.sendall(beginning)
                assert peer.recv(100) == b""


def test_a_stuck_handler_holds_up_nobody_else(path: Path) -> None:
    """P4: other clients are answered while one request takes its time."""
    go_on = threading.Event()
    is_inside = threading.Event()

    def handle(request: Request[Any], peer: Peer) -> object:
        if isinstance(request, Trigger):
            is_inside.set()
            go_on.wait(30)
            return Triggered(5)
        return pong(request, peer)

    with serving(path, handle), Conversation(path) as slow:
        slow.send(Trigger("a"))
        assert is_inside.wait(30)
        assert call(path, Ping()).pid == os.getpid()
        go_on.set()
        assert slow.receive(Trigger("a")) == Triggered(5)


def test_one_client_too_many_is_told_so(path: Path) -> None:
    """P4: there is a bound, and who is beyond it gets an answer and not silence."""
    with serving(path, limits=Limits(connections=2)), contextlib.ExitStack() as stack:
        for _ in range(2):
            conversation = stack.enter_context(Conversation(path))
            conversation.call(Ping())
        with pytest.raises(CrowdedError, match="as many clients"), Conversation(path) as another:
            another.ask(Ping())


def test_one_client_too_many_asks_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: who was one too many gets in once another has gone."""
    pauses: list[object] = []
    with serving(path, limits=Limits(connections=1)), Conversation(path) as other:
        other.ask(Ping())
        monkeypatch.setattr(Pauses, "wait", lambda _: (pauses.append(1), other.close()))
        assert call(path, Ping()).pid == os.getpid()
    assert pauses


def test_who_was_told_to_ask_again_takes_no_place(path: Path) -> None:
    """P4: such an answer ends the connection; the next request of its client is on another."""
    answers = iter([CrowdedError("wait a bit"), Triggered(3)])

    def handle(request: Request[Any], peer: Peer) -> object:
        if isinstance(answer := next(answers), Exception):
            raise answer
        return answer

    with serving(path, handle, Limits(connections=1)), Conversation(path) as first:
        with pytest.raises(CrowdedError, match="wait a bit"):
            first.ask(Trigger("a"))
        assert first.ask(Trigger("a")) == Triggered(3)


@pytest.mark.parametrize("limit", [None, timedelta(0)])
def test_who_was_stopped_while_it_waited_asks_again(path: Path, limit: timedelta | None) -> None:
    """P4: the daemon hangs up on who is silent for long, and is there all the same."""
    answers: list[Pong] = []

    def is_over(answer: Pong) -> bool:
        answers.append(answer)
        with socket.socket(socket.AF_UNIX) as other:  # it is not only slow to hang up
            other.connect(str(path))
            assert other.recv(1) == b""
        return len(answers) == 2

    with serving(path, limits=SHORT), Conversation(path) as conversation:
        conversation.ask(Ping())
        threading.Event().wait(10 * SHORT.patience.total_seconds())
        got = wait_until(conversation, lambda _: Ping(), is_over, limit, Watch.begin())
    assert got.pid == os.getpid()
    assert len(answers) == (2 if limit is None else 0)


def test_who_waits_is_told_when_the_daemon_has_gone(path: Path) -> None:
    """P4: it is not asked for ever."""
    with serving(path):
        conversation = Conversation(path)
        conversation.ask(Ping())
    with conversation, pytest.raises(DaemonNotRunningError):
        wait_until(conversation, lambda _: Ping(), lambda _: False, None, Watch.begin())


def test_who_finds_the_queue_of_the_socket_full_waits_in_it(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: until it is his turn, or his patience is over."""
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(0)
        with Conversation(path):
            late = threading.Thread(target=lambda: Conversation(path).close())
            late.start()
            listener.accept()[0].close()
            listener.accept()[0].close()
            late.join()
        with Conversation(path):
            monkeypatch.setattr(client_module, "PATIENCE", timedelta(milliseconds=50))
            with pytest.raises(PycronError, match="lets nobody in"):
                Conversation(path)


@contextlib.contextmanager
def signalled(handle: Callable[[], None]) -> Iterator[None]:
    """Send this thread a signal again and again until the block ends; ``handle`` hears of each."""
    is_over = threading.Event()
    main = threading.get_ident()

    def send() -> None:
        while not is_over.wait(0.01):
            signal.pthread_kill(main, signal.SIGUSR1)

    sender = threading.Thread(target=send)
    before = signal.signal(signal.SIGUSR1, lambda *_: handle())
    sender.start()
    try:
        yield
    finally:
        is_over.set()
        sender.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_signal_puts_nobody_out_of_the_queue_of_the_socket(path: Path) -> None:
    """P4: who waits to be let in goes on with that once the signal has been handled."""
    path.parent.mkdir()
    signals: list[int] = []
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(0)

        def let_in() -> None:
            signals.append(1)
            if len(signals) == 3:
                listener.accept()[0].close()

        with Conversation(path), signalled(let_in), Conversation(path) as late:
            assert late.peer.pid == os.getpid()
            assert len(signals) >= 3


def test_signals_prolong_nobodys_patience(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: who is not let in is told so in time, however often he is interrupted."""
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(0)
        with Conversation(path), signalled(lambda: None):
            monkeypatch.setattr(client_module, "PATIENCE", timedelta(milliseconds=100))
            with pytest.raises(PycronError, match="lets nobody in"):
                Conversation(path)


def test_who_comes_while_no_descriptor_is_left_is_told_so(path: Path) -> None:
    """P8: within seconds, and each of them; once there are some again, all goes on."""
    with serving(path), contextlib.ExitStack() as stack:
        call(path, Ping())
        for thread in threading.enumerate():
            if thread.name == "control-peer":
                thread.join()  # it frees a descriptor
        peers = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(3)]
        with no_descriptor_left():
            for peer in peers:
                peer.settimeout(30)
                peer.connect(str(path))
            for peer in peers[1:]:  # the kernel has had a descriptor ready for the first
                answer = json.loads(peer.recv(65536))
                assert "Too many open files; raise its limit" in answer["error"]["message"]
        assert call(path, Ping())


@contextlib.contextmanager
def no_descriptor_left() -> Iterator[None]:
    """Have this process use every descriptor that it may have."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    newest = max(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (newest + 8, hard))
    with contextlib.ExitStack() as hoard:
        hoard.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        with contextlib.suppress(OSError):
            while True:
                hoard.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        yield


def test_a_peer_that_goes_away_frees_its_place(path: Path) -> None:
    """P4: the bound is on those who are there."""
    with serving(path, limits=Limits(connections=1)):
        for _ in range(5):
            with Conversation(path) as conversation:
                conversation.call(Ping())
                conversation.send(Ping())
            for thread in threading.enumerate():
                if thread.name == "control-peer":
                    thread.join()


def test_a_fault_of_the_handler_is_one_sentence(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """P9: a peer never sees a traceback; the log has it."""

    def handle(request: Request[Any], peer: Peer) -> object:
        raise ZeroDivisionError("secret")

    with serving(path, handle), pytest.raises(PycronError) as caught:
        call(path, Ping())
    assert "secret" not in str(caught.value)
    assert "ZeroDivisionError" in caplog.text


def test_an_error_of_the_project_reaches_the_client(path: Path) -> None:
    """What the engine refuses is raised on the other side as it was."""

    def handle(request: Request[Any], peer: Peer) -> object:
        raise RequestRefusedError("run 7 is still running")

    with serving(path, handle), pytest.raises(RequestRefusedError, match="run 7 is still"):
        call(path, Trigger("a"))


# --- start and stop -----------------------------------------------------------------------------


def test_a_client_that_cannot_be_let_in_keeps_out_nobody_else(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P8: a fault over one connection costs that connection."""
    faults = [MemoryError("planted")]

    def peer_or_fault(connection: socket.socket) -> Peer:
        if faults:
            raise faults.pop()
        return peer_of(connection)

    monkeypatch.setattr(server_module, "peer_of", peer_or_fault)
    with serving(path):
        assert raw(path, b"") == b""
        assert call(path, Ping())
    assert "planted" in caplog.text


def test_nobody_outlives_the_thread_that_lets_clients_in(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: no daemon goes on that can be asked for nothing any more."""
    ended = []

    def refuse(_self: socket.socket) -> NoReturn:
        raise PermissionError(errno.EPERM, "planted")

    monkeypatch.setattr(socket.socket, "accept", refuse)
    with ending_by(lambda: ended.append(threading.current_thread().name)):
        server = ControlServer(path, pong, SystemClock())
        server.start()
        assert server._acceptor is not None
        server._acceptor.join()
        server.stop()
    assert ended == ["control"]


def test_start_and_stop_can_be_repeated(path: Path) -> None:
    """Both are idempotent, stop without start is legal, and a stopped server stays stopped."""
    ControlServer(path, pong, SystemClock()).stop()
    server = ControlServer(path, pong, SystemClock())
    server.start()
    server.start()
    assert call(path, Ping()).pid == os.getpid()
    server.stop()
    server.stop()
    server.start()
    assert not path.exists()


def test_many_threads_may_start_and_stop(path: Path) -> None:
    """Whatever the order, it ends stopped with no socket and no thread of its own."""
    others = set(threading.enumerate())
    server = ControlServer(path, pong, SystemClock())
    barrier = threading.Barrier(8)

    def hammer(number: int) -> None:
        barrier.wait(30)
        for _ in range(20):
            (server.start if number % 2 else server.stop)()

    threads = [threading.Thread(target=hammer, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    server.stop()
    assert not path.exists()
    assert set(threading.enumerate()) <= others


def test_a_handler_may_stop_the_server(path: Path) -> None:
    """The answer to a request to stop goes out although the server is gone after it."""
    server: ControlServer

    def handle(request: Request[Any], peer: Peer) -> object:
        server.stop()
        return pong(request, peer)

    server = ControlServer(path, handle, SystemClock())
    server.start()
    assert call(path, Ping()).pid == os.getpid()
    server.stop()
    assert not path.exists()


def test_an_answer_that_is_being_given_is_waited_for(path: Path) -> None:
    """A client that asked before the stop gets its answer."""
    is_inside = threading.Event()
    go_on = threading.Event()

    def handle(request: Request[Any], peer: Peer) -> object:
        is_inside.set()
        go_on.wait(30)
        return pong(request, peer)

    server = ControlServer(path, handle, SystemClock(), Limits(farewell=timedelta(seconds=30)))
    server.start()
    with Conversation(path) as conversation:
        conversation.send(Ping())
        assert is_inside.wait(30)
        stopper = threading.Thread(target=server.stop)
        stopper.start()
        go_on.set()
        assert conversation.receive(Ping()).pid == os.getpid()
        stopper.join()


def test_a_daemon_that_dies_is_told_from_one_that_answers(path: Path) -> None:
    """A client whose daemon goes away says that, and leaves with the code for no daemon."""
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with Conversation(path) as conversation:
            connection, _ = listener.accept()
            conversation.send(Reload())
            connection.close()
            with pytest.raises(DaemonNotRunningError, match="gone"):
                conversation.receive(Reload())


def test_a_stopped_process_does_not_hang_its_client(path: Path) -> None:
    """A daemon that does not answer in time is named with its process id."""
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(PycronError, match=f"process {os.getpid()}"):
            call(path, Ping(), timedelta(milliseconds=50))


def test_a_daemon_that_does_not_read_a_request_does_not_hang_its_client(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: a request that is longer than what the kernel keeps for a stopped one is given up."""
    path.parent.mkdir()
    monkeypatch.setattr(client_module, "PATIENCE", timedelta(milliseconds=50))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with pytest.raises(PycronError, match=r"has not answered within 0\.05 seconds"):
            call(path, Trigger("x" * 10_000_000))


def test_another_program_on_the_socket_is_noticed(path: Path) -> None:
    """A client that gets something else than an answer says so."""
    path.parent.mkdir()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        with Conversation(path) as conversation:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"220 mail.example.org ESMTP\n")
                with pytest.raises(ProtocolError):
                    conversation.receive(Ping())
