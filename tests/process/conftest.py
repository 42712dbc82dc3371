"""What tests of real processes share: a runner whose events can be waited for."""

from __future__ import annotations

import os
import queue
import select
import signal
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from crond_py.clock import SystemClock
from crond_py.ports import (
    AttemptKey,
    Clock,
    Ended,
    OutputSpec,
    ProcessEvent,
    ProcessSpec,
    Started,
    StartFailed,
)
from crond_py.runner import proctree, subreaper
from crond_py.runner.child import Child
from crond_py.runner.environment import command_argv
from crond_py.runner.letgo import LetGo
from crond_py.runner.orphans import list_children
from crond_py.runner.process import ProcessRunner

PATIENCE_S = 60.0
PROGRAMS = Path(__file__).parent.parent / "support" / "programs"


class Harness:
    """A runner, its events, and an identity that no other test's processes carry."""

    def __init__(self, directory: Path, clock: Clock | None = None) -> None:
        self.identity = uuid.uuid4().hex[:12]
        self.directory = directory
        self.events: list[ProcessEvent] = []
        self._queue: queue.Queue[ProcessEvent] = queue.Queue()
        self._runs = 0
        self.let_go = directory / "let-go"
        self.runner = ProcessRunner(
            self._queue.put, clock or SystemClock(), let_go=LetGo(self.let_go, "boot")
        )

    def spec(
        self,
        command: str | tuple[str, ...],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | None = None,
        umask: int = 0o022,
        output: Path | OutputSpec | None = None,
        **more: Any,
    ) -> ProcessSpec:
        """Return a spec as the daemon would make it; each is a run of its own.

        ``more`` are further fields of the spec.
        """
        self._runs += 1
        tag = f"{self.identity}-{self._runs}"
        basis = {"PATH": "/usr/local/bin:/usr/bin:/bin", **(env or {})}
        return ProcessSpec(
            AttemptKey(self._runs, 1),
            tag,
            command_argv(command, "/bin/sh"),
            {**basis, "PYCRON_RUN_ID": tag, "PYCRON_ATTEMPT": "1"},
            cwd or str(self.directory),
            umask,
            OutputSpec(output) if isinstance(output, Path) else output,
            text=command if isinstance(command, str) else "",
            **more,
        )

    def start(self, command: str | tuple[str, ...], **settings: object) -> AttemptKey:
        """Ask for a start."""
        spec = self.spec(command, **settings)  # type: ignore[arg-type]
        self.runner.start(spec)
        return spec.key

    def started(self, key: AttemptKey) -> Started:
        """Wait until the process runs."""
        event = self.wait_for(lambda e: e.key == key)
        assert isinstance(event, Started), event
        return event

    def failed(self, key: AttemptKey) -> StartFailed:
        """Wait until the start has failed."""
        event = self.wait_for(lambda e: e.key == key)
        assert isinstance(event, StartFailed), event
        return event

    def ended(self, key: AttemptKey) -> Ended:
        """Wait until the process has ended."""
        event = self.wait_for(lambda e: e.key == key and isinstance(e, Ended | StartFailed))
        assert isinstance(event, Ended), event
        return event

    def run(self, command: str | tuple[str, ...], **settings: object) -> Ended:
        """Start a process and wait for its end."""
        return self.ended(self.start(command, **settings))

    def output_of(self, command: str | tuple[str, ...], **settings: object) -> bytes:
        """Return what a process has written, to the last byte."""
        path = self.directory / f"output-{self._runs}"
        ended = self.run(command, output=path, **settings)
        assert ended.exit.code == 0, (ended, path.read_bytes())
        return path.read_bytes()

    def told(self, key: AttemptKey) -> list[ProcessEvent]:
        """Return all that has been told of a process so far."""
        self._drain()
        return [event for event in self.events if event.key == key]

    def fifo(self, name: str) -> Path:
        """Make a named pipe: a program that writes to it says that it has come so far."""
        path = self.directory / name
        os.mkfifo(path)
        return path

    def leftovers(self) -> list[int]:
        """Return the pids of all processes of this test that still run."""
        return [survivor.pid for survivor in proctree.find_survivors(self.identity)]

    def clean_up(self) -> None:
        """Let nothing of the test live on."""
        self.runner.close()
        while pids := self.leftovers():  # again, for what was forked meanwhile
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def wait_for(self, wanted: Callable[[ProcessEvent], bool]) -> ProcessEvent:
        """Return the first event of a process that is wanted, once there is one."""
        for event in self.events:
            if _is_of_process(event) and wanted(event):
                return event
        while True:
            event = self._queue.get(timeout=PATIENCE_S)
            self.events.append(event)
            if _is_of_process(event) and wanted(event):
                return event

    def _drain(self) -> None:
        with suppress(queue.Empty):
            while True:
                self.events.append(self._queue.get_nowait())


def _is_of_process(event: object) -> bool:
    """Return whether an event is not one that was only to be told after ends."""
    return hasattr(event, "key")


@pytest.fixture
def idle(tmp_path: Path) -> Iterator[Harness]:
    """Give a runner that has not been opened."""
    harness = Harness(tmp_path)
    yield harness
    harness.clean_up()


@pytest.fixture
def harness(idle: Harness) -> Harness:
    """Give a runner that works."""
    idle.runner.open()
    return idle


@pytest.fixture
def reaping(tmp_path: Path) -> Iterator[Harness]:
    """Give a runner in a process that orphans are handed to; tests may start no others."""
    before = set(list_children())
    for pid in filter(proctree.is_ending, before):  # else it counts as somebody else's that lives
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert subreaper.become_subreaper()
    harness = Harness(tmp_path)
    harness.runner.open()
    yield harness
    harness.clean_up()
    while strays := set(list_children()) - before:
        for pid in strays:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
    assert subreaper.become_subreaper(on=False)


def has_ended(pidfd: int, *, patience_s: float = 0) -> bool:
    """Return whether the process that a pidfd holds has ended, and let go of it."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    result = poll.poll(patience_s * 1000)
    os.close(pidfd)
    return bool(result)


def wait_until_gone(pidfd: int) -> None:
    """Wait until the process that a pidfd holds has ended."""
    assert has_ended(pidfd, patience_s=PATIENCE_S), "the process lives on"


@pytest.fixture
def open_path() -> Iterator[Path]:
    """Give a directory that every user may enter; its own ones pytest makes private."""
    with tempfile.TemporaryDirectory(prefix="pycron-tests-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


class QuietWatch:
    """The supervisor as the ender knows it, where nothing is found that could be under watch."""

    def members_of(self, _child: Child) -> dict[int, int]:
        """Return none."""
        return {}

    def orphans_of(self, _child: Child) -> dict[int, int]:
        """Return none."""
        return {}

    def strays_of(self, _child: Child) -> dict[int, int]:
        """Return none."""
        return {}

    def add_member(self, *_arguments: object) -> bool:
        """Fail: nothing is there to be added."""
        raise AssertionError

    def linger(self, *_arguments: object) -> None:
        """Fail: nothing is there to wait for."""
        raise AssertionError
