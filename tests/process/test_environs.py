"""Reading what processes have in their memory, which can hang for ever."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from crond_py.runner import environs, procfile
from crond_py.runner.environs import read_environments
from tests.process.conftest import Harness


class Stuck:
    """A process of nobody's whose memory cannot be looked at until ``come_back``."""

    def __init__(self, pid: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pid = pid
        self.reads = 0
        self._gate = threading.Event()
        self._read = procfile.read
        monkeypatch.setattr(procfile, "read", self._read_or_hang)
        monkeypatch.setattr(environs, "_NEXT_PATIENCE_S", 10.0)

    def _read_or_hang(self, path: str) -> bytes | None:
        if path == f"/proc/{self.pid}/environ":
            self.reads += 1
            self._gate.wait()
        return self._read(path)

    def come_back(self) -> None:
        """Have the look come to an end, and wait until that is known."""
        self._gate.set()
        for thread in threading.enumerate():
            if thread.name == "pycron-environments":
                thread.join()


@contextmanager
def _stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stuck]:
    with subprocess.Popen(["/bin/sleep", "999"], env={"A": "b"}) as process:
        stuck = Stuck(process.pid, monkeypatch)
        yield stuck
        stuck.come_back()
        process.kill()


@pytest.fixture
def stuck(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stuck]:
    """Give a process that hangs whoever reads its environment."""
    with _stuck(monkeypatch) as stuck:
        yield stuck


def test_what_stands_behind_one_that_hangs_is_read(stuck: Stuck) -> None:
    """A process that hangs its reader is passed over, and not asked again until that is over."""
    me = os.getpid()
    for _ in range(2):
        found = read_environments([me, stuck.pid, os.getppid()])
        assert stuck.pid not in found
        assert me in found
        assert os.getppid() in found
    assert stuck.reads == 1
    stuck.come_back()
    assert read_environments([stuck.pid]) == {stuck.pid: b"A=b\0"}


def test_a_shortage_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no descriptor is left, nobody is told that there are no environments (P8)."""

    def read(path: str) -> bytes | None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(procfile, "read", read)
    with pytest.raises(OSError, match="Too many"):
        read_environments([os.getpid()])


def test_one_that_hangs_holds_up_no_end(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs are ended, and their ends told, though somebody's process cannot be looked into (P4)."""
    keys = [harness.start("setsid sleep 999 & sleep 998; true") for _ in range(2)]
    for key in keys:
        harness.started(key)
    with _stuck(monkeypatch) as stuck:  # it could descend from them, as it is younger
        for key in keys:
            harness.runner.stop(key, force=True)
            assert harness.ended(key).exit.signal == signal.SIGKILL
        assert stuck.reads == 1
    assert harness.leftovers() == []


def test_one_that_hangs_holds_up_no_daemons_start(harness: Harness, stuck: Stuck) -> None:
    """What has survived the last daemon is found, though another process hangs (P5)."""
    key = harness.start(("sleep", "999"))
    pid = harness.started(key).pid
    assert [survivor.pid for survivor in harness.runner.survivors(harness.identity)] == [pid]
    assert stuck.reads == 1
