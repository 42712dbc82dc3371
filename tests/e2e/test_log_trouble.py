"""Nobody reads the log, or it has no place to go: jobs run all the same."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.daemon import PATIENCE_S, Bell, Daemon, assert_accounted, begun

# Each run makes two lines of log, so a pipe of the smallest size is full within a few seconds.
BUSY = """
[jobs.busy]
every = "100ms"
command = "true"
overlap = "allow"
missed = "all"

[jobs.ring]
schedule = "* * * * * *"
command = "echo ran > bell"
"""


class Silent:
    """A daemon that nobody listens to; it is asked by its commands alone."""

    def __init__(self, daemon: Daemon) -> None:
        self.daemon = daemon
        self._stack = ExitStack()

    def start(self, stderr: int | None, *, shell: str = "") -> None:
        """Start it on BUSY, with that descriptor as its standard error."""
        self.daemon.write(BUSY)
        script = ["/bin/sh", "-c", f'exec "$@" {shell}', "sh", *self.daemon.command, "run"]
        process = subprocess.Popen(
            script,
            env=self.daemon.environment, cwd=self.daemon.directory,
            stdin=subprocess.DEVNULL, stdout=stderr, stderr=stderr,
        )  # fmt: skip
        self.process = self._stack.enter_context(process)
        self._stack.callback(process.kill)

    def stop(self) -> int:
        """Stop it and return its exit status."""
        self.daemon.cli("stop")
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        """Let nothing live on."""
        self._stack.close()


@pytest.fixture
def silent(daemon: Daemon) -> Iterator[Silent]:
    """Give a daemon that has not been started."""
    made = Silent(daemon)
    yield made
    made.close()


def assert_well(silent: Silent, bell: Bell, *, seconds: int) -> None:
    """Hold that jobs run for so many seconds, that all of it is recorded, and that it stops."""
    for _ in range(seconds):
        assert bell.wait() == "ran"
    assert silent.daemon.status()["pid"] == silent.process.pid
    assert silent.stop() == 0
    rows = silent.daemon.history("busy")
    assert_accounted(rows, timedelta(milliseconds=100))
    assert {row["outcome"] for row in begun(rows)} == {"succeeded"}


def test_a_pipe_that_nobody_reads(silent: Silent, bell: Bell) -> None:
    """P4, P8: with the pipe full for seconds every job runs, and the daemon answers and stops."""
    reader, writer = os.pipe()
    size = fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    silent.start(writer)
    os.close(writer)
    assert_well(silent, bell, seconds=5)
    with os.fdopen(reader, "rb") as pipe:
        text = pipe.read()
    assert len(text) > size * 3 // 4, "the pipe was never full, so this has shown nothing"
    assert text.startswith(b"20")


def test_a_pipe_whose_reader_has_gone(silent: Silent, bell: Bell) -> None:
    """P8: no SIGPIPE and no EPIPE ends it."""
    reader, writer = os.pipe()
    silent.start(writer)
    os.close(writer)
    os.close(reader)
    assert_well(silent, bell, seconds=2)


@pytest.mark.parametrize("shell", [">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams(silent: Silent, bell: Bell, shell: str) -> None:
    """P8: its log goes nowhere then, and never into a file that got its number."""
    silent.start(None, shell=shell)
    bell.wait()
    descriptors = Path("/proc", str(silent.process.pid), "fd")
    assert {(descriptors / number).readlink() for number in "12"} == {Path(os.devnull)}
    assert_well(silent, bell, seconds=2)


def test_a_full_disk(silent: Silent, bell: Bell) -> None:
    """P8: a log that cannot be written costs its lines only."""
    silent.start(None, shell=">/dev/full 2>&1")
    assert_well(silent, bell, seconds=2)
