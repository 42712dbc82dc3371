"""What is said while a command waits: for a run that was triggered, and for the daemon to end."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from crond_py import Client
from crond_py.control.address import Peer
from crond_py.control.client import PATIENCE
from crond_py.control.protocol import (
    DaemonStatus,
    GetStatus,
    Request,
    Stop,
    Stopping,
    Trigger,
    Triggered,
    Waited,
    WaitRun,
)
from crond_py.control.waiting import Watch
from crond_py.errors import CrowdedError
from crond_py.model import Left, Run, State
from tests.cli.program import PYCRON, environment, in_place, on_terminal, pycron
from tests.cli.running import serving
from tests.unit.control.fakes import ENDED, ME, NOON, RUNNING

LEFT = replace(RUNNING, id=3, job="upgrade", left_as=Left.RUNNING)
QUEUED = replace(RUNNING, id=9, job="later", state=State.QUEUED)
OTHER = replace(RUNNING, id=8, job="poll")
WHERE = " (pycron history 8, pycron logs 8 -f)\n"


class Daemon:
    """Has run 8 of any job go on, or end as ``end``, and never ends itself."""

    def __init__(
        self,
        *active: Run,
        limit: timedelta | None = timedelta(seconds=90),
        end: Run | None = None,
    ) -> None:
        self._active = active
        self._limit = limit
        self._end = end
        self.is_asked = threading.Event()

    def __call__(self, request: Request[object], peer: Peer) -> object:
        """Answer a request."""
        match request:
            case Trigger():
                return Triggered(8)
            case WaitRun():
                self.is_asked.set()
                return Waited(self._end)
            case Stop():
                return Stopping(ME.pid, self._limit)
            case GetStatus():
                self.is_asked.set()
                return DaemonStatus(
                    ME.pid, "1", NOON, NOON, True, (), 1, 1, self._active, (), (), None, "",
                    awaited=(RUNNING.id, OTHER.id),
                )  # fmt: skip
        raise TypeError(request)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose home is empty."""
    return environment(tmp_path)


@contextlib.contextmanager
def waiting(
    env: dict[str, str], daemon: Daemon, *arguments: str
) -> Iterator[subprocess.Popen[str]]:
    """Have a command wait, which has asked the daemon what there is to be known."""
    with subprocess.Popen(
        [*PYCRON, *arguments], env=env, stderr=subprocess.PIPE, text=True
    ) as process:
        assert daemon.is_asked.wait(60)
        yield process


def rest_of(process: subprocess.Popen[str], code: int) -> str:
    """Return what a command has said on standard error by its end."""
    assert process.stderr is not None
    said = process.stderr.read()
    assert process.wait(60) == code
    return said


# --- trigger ------------------------------------------------------------------------------------


def test_the_run_that_is_waited_for_is_told_at_once(env: dict[str, str]) -> None:
    """On standard error and only with --wait, so that what a program reads is as it was."""
    with serving(env, Daemon(end=replace(ENDED, id=8))):
        done = pycron("trigger", "backup", "--wait", env=env, check=1)
        assert done.stderr == "pycron: waiting for run 8 of backup\n"
        assert done.stdout == "run 8 of backup failed after 1h: exit status 3\n"
        assert pycron("trigger", "backup", env=env).stderr == ""


def test_ctrl_c_ends_the_waiting_and_not_the_run(env: dict[str, str]) -> None:
    """Which run goes on, and how to look at it, is said."""
    daemon = Daemon()
    with serving(env, daemon), waiting(env, daemon, "trigger", "backup", "--wait") as process:
        process.send_signal(signal.SIGINT)
        said = rest_of(process, 130)
    assert said == (
        "pycron: waiting for run 8 of backup\n"
        f"pycron: not waiting any more; run 8 of backup goes on{WHERE}"
    )


def test_a_daemon_that_goes_away_leaves_a_run_that_can_be_found(env: dict[str, str]) -> None:
    """P8: the run goes on without the daemon, and its number is there to ask the next one."""
    daemon = Daemon()
    with (
        serving(env, daemon) as server,
        waiting(env, daemon, "trigger", "backup", "--wait") as process,
    ):
        server.stop()
        said = rest_of(process, 3)
    assert said.splitlines()[1:] == [
        "pycron: the daemon is gone; run 8 of backup goes on without it, if the daemon has not "
        f"ended it{WHERE}".rstrip("\n")
    ]


def test_a_wait_that_was_too_short_says_where_to_look(env: dict[str, str]) -> None:
    """The run goes on."""
    with serving(env, Daemon()):
        done = pycron("trigger", "backup", "--wait", "--timeout", "1ms", env=env, check=1)
    assert done.stderr.endswith(f"run 8 of backup has not ended within 1ms; it goes on{WHERE}")


def test_a_crowd_is_not_taken_for_a_daemon_that_is_gone(env: dict[str, str]) -> None:
    """Nobody knows then how the run stands; and it does not take much longer than was allowed."""

    def answer(request: Request[object], peer: Peer) -> object:
        if isinstance(request, Trigger):
            return Triggered(8)
        raise CrowdedError("too many; try again")

    limit, watch = timedelta(milliseconds=50), Watch.begin()
    with serving(env, answer):
        done = in_place("trigger", "backup", "--wait", "--timeout", "50ms", env=env, check=1)
        said = "whether {} within 50ms is not known: too many; try again"
        assert done.stderr.splitlines()[1:] == [
            f"pycron: {said.format('run 8 of backup has ended')}{WHERE}".rstrip("\n")
        ]
        with pytest.raises(TimeoutError) as caught:
            Client(env["PYCRON_STATE_DIR"]).wait(8, limit)
    assert str(caught.value).startswith(
        "whether task:8 is over within 0:00:00.050000 is not known:"
    )
    assert watch.elapsed() < PATIENCE


# --- stop ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("daemon", "options", "words"),
    [
        (
            Daemon(RUNNING, LEFT, QUEUED),
            [],
            "run 7 of backup has ended, for 1m30s at most (pycron stop --now does not wait)",
        ),
        (
            Daemon(RUNNING, OTHER, limit=None),
            [],
            "run 7 of backup and 1 more have ended (pycron stop --now does not wait)",
        ),
        (Daemon(RUNNING), ["--now"], "run 7 of backup has ended, as told"),
        (Daemon(LEFT), [], ""),
    ],
)
def test_what_a_stop_waits_for_is_told(
    daemon: Daemon, options: list[str], words: str, env: dict[str, str]
) -> None:
    """Once it takes longer than a moment; what is left to the next daemon is not waited for."""
    with serving(env, daemon):
        done = pycron("stop", "--timeout", "1100ms", *options, env=env, check=1)
    until = f"until {words}" if words else f"for the daemon (process {ME.pid}) to end"
    assert done.stderr.splitlines()[0] == f"pycron: waiting {until}"


def test_ctrl_c_ends_the_waiting_and_not_the_stop(env: dict[str, str]) -> None:
    """The daemon goes on with it, and that is said."""
    daemon = Daemon(RUNNING)
    with serving(env, daemon), waiting(env, daemon, "stop") as process:
        assert process.stderr is not None
        assert process.stderr.readline().startswith("pycron: waiting until run 7 of backup has")
        process.send_signal(signal.SIGINT)
        assert rest_of(process, 130) == "pycron: not waiting any more; the stop goes on\n"


@pytest.mark.parametrize("columns", [60, 120])
def test_on_a_terminal_a_stop_says_the_same(columns: int, env: dict[str, str]) -> None:
    """There is neither colour nor a cut sentence, however wide the window."""
    with serving(env, Daemon(RUNNING)):
        shown = on_terminal("stop", "--timeout", "1100ms", env=env, columns=columns)
    assert "waiting until run 7 of backup has ended, for 1m30s at most (pycron stop --now" in shown
    assert "\x1b" not in shown
