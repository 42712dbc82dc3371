"""The daemon's own troubles, one at a time and without its engine."""

from __future__ import annotations

import json
import logging
import queue
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from crond_py import service as service_module
from crond_py.control.client import call
from crond_py.control.protocol import Ping
from crond_py.control.server import ControlServer
from crond_py.errors import PycronError
from crond_py.places import Places
from crond_py.ports import LineSink, PrintedLines
from crond_py.service import Options, Service

PROGRAMS = Path(__file__).parent.parent / "support" / "programs"


class Nowhere(LineSink):
    """Takes no line: nothing is run here."""

    def offer(self, printed: PrintedLines, on_room: Callable[[], None]) -> int:
        """Refuse."""
        raise NotImplementedError


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Give a daemon of which only the dispatcher has been started and the socket is there."""
    state = tmp_path / "state"
    state.mkdir()
    service = Service(Options(Places(tmp_path / "crontab.toml", state)), Nowhere())
    service._dispatcher.start()
    service._server = service._listen()
    yield service
    service._stop_listening()
    service._stop_dispatcher()
    service._inbox.close()


def test_a_control_socket_is_tried_for_until_it_is_there(
    service: Service,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P8: where descriptors were short when the socket was deleted, it comes once they are not.

    Each is said once.
    """
    monkeypatch.setattr(service_module, "LISTEN_EVERY", timedelta(milliseconds=1))
    socket = tmp_path / "state" / "control.sock"
    socket.unlink()
    listen, tries = service._listen, []

    def short() -> object:
        tries.append(1)
        if len(tries) < 4:
            raise PycronError("Too many open files")
        return listen()

    monkeypatch.setattr(service, "_listen", short)
    with caplog.at_level(logging.WARNING, "pycron.service"):
        service._listen_again()
        for _ in range(3):
            assert service._inbox.get() is service_module._LISTEN
            service._listen_again()
    assert len(tries) == 4
    assert call(socket, Ping())
    assert [record.message for record in caplog.records] == [
        "there is no control socket any more: Too many open files",
        "the control socket was deleted; it is there again",
    ]


def test_a_deaf_daemon_listens_again_whatever_it_sees(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: also where it cannot see whether its socket is there; that says nothing of it."""
    service._is_deaf = True
    service._server.stop()  # type: ignore[union-attr]
    monkeypatch.setattr(ControlServer, "is_in_place", property(lambda _server: True))
    service._listen_again()
    assert not service._is_deaf
    assert call(tmp_path / "state" / "control.sock", Ping())


class _Manager:
    """What the service tells its manager."""

    def __init__(self) -> None:
        self.watchdog_period = timedelta(milliseconds=2)
        self.signs = 0

    def alive(self) -> None:
        self.signs += 1


class _Runner:
    """What its thread is to call."""

    def __init__(self) -> None:
        self.calls: list[Callable[[], None]] = []

    def call(self, function: Callable[[], None]) -> None:
        self.calls.append(function)


def test_a_sign_of_life_comes_from_engine_and_runner(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While engine or runner hang the watchdog gets none; when they go on, one, then the next."""
    manager, runner = _Manager(), _Runner()
    calls: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    monkeypatch.setattr(service, "_notifier", manager)
    monkeypatch.setattr(service, "_runner", runner)
    monkeypatch.setattr(service._engine, "call", calls.put)
    service._begin_watchdog()
    for number in range(3):
        pass_on = calls.get(timeout=60)
        assert runner.calls == []
        pass_on()
        assert manager.signs == number
        assert len(service._dispatcher) == 0, "one at a time"
        runner.calls.pop()()
    assert manager.signs == 3


def test_a_daemon_does_not_outlive_its_engine(tmp_path: Path) -> None:
    """P8: it says why and ends, so that whoever has started it starts another."""
    state = tmp_path / "state"
    (tmp_path / "crontab.toml").write_text('[jobs.a]\nevery = "1s"\ncommand = ["true"]\n')
    options = {
        "crontab": str(tmp_path / "crontab.toml"),
        "state_dir": str(state),
        "log_format": "text",
        "clock_check": None,
        "stop_timeout": 1.0,
        "daemonize": False,
        "pid_file": None,
        "log_file": None,
    }
    done = subprocess.run(
        [sys.executable, PROGRAMS / "service_faulty.py", json.dumps(options)],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1, done.stderr
    assert "cannot do without" in done.stderr
    assert "thread=pycron-engine" in done.stderr
    assert "MemoryError: planted" in done.stderr


def test_status_tells_that_starts_cannot_be_noted(service: Service, tmp_path: Path) -> None:
    """P8: as long as that lasts."""
    assert service.troubles == ()
    (tmp_path / "state" / "let-go").mkdir()
    service._let_go.begin()
    (trouble,) = service.troubles
    assert trouble.startswith("that starts are let go cannot be noted: ")
