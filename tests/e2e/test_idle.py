"""A daemon that has nothing to do does nothing."""

from __future__ import annotations

import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.support.daemon import Daemon

FAR_AWAY = """
[jobs.yearly]
schedule = "0 0 1 1 *"
command = "true"
missed = "skip"
"""


def system_calls(pid: int, seconds: int, file: Path) -> list[str]:
    """Return what strace sees a process and its threads do in so many seconds."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace is not installed")
    watch = ["timeout", "--signal=INT", str(seconds), strace, "-f", "-o", file, "-p", str(pid)]
    done = subprocess.run(watch, capture_output=True, text=True, check=False)
    if "Operation not permitted" in done.stderr:
        pytest.skip("strace is not permitted here")
    return file.read_text("utf-8", "replace").splitlines()


@pytest.mark.parametrize("seconds", [4, pytest.param(60, marks=pytest.mark.long)])
def test_no_system_call(daemon: Daemon, tmp_path: Path, seconds: int) -> None:
    """P4: with nothing due for long, no thread of the daemon wakes up at all."""
    daemon.start(FAR_AWAY)
    daemon.status()  # the start is over, and a client has been served
    lines = system_calls(daemon.pid, seconds, tmp_path / "calls")
    assert lines, "strace saw nothing, not even the calls that the threads wait in"
    # Each thread shows the one call that it was waiting in when strace came, and no other.
    calls = [line for line in lines if "<... " not in line and "SIGSTOP" not in line]
    a_thread = Counter(line.split()[0] for line in calls)
    assert max(a_thread.values()) == 1, lines
    finished = [line for line in lines if " = " in line and "detached" not in line]
    assert not finished, finished
    daemon.stop()
