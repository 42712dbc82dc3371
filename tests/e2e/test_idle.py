"""A daemon that has nothing to do does nothing."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
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


def quiet_calls(pid: int, seconds: int, file: Path) -> list[str]:
    """Return what is seen in so many seconds in which no call of the process has ended.

    On a busy machine what went on before takes a while to come to rest, and nobody tells when it
    has. A process that wakes up now and then has no such time, however often one looks.
    """
    for _ in range(LOOKS):
        lines = system_calls(pid, seconds, file)
        if not [line for line in lines if " = " in line and "detached" not in line]:
            return lines
    raise AssertionError("\n".join(lines))


LOOKS = 4


@pytest.mark.parametrize("seconds", [4, pytest.param(60, marks=pytest.mark.long)])
def test_no_system_call(daemon: Daemon, tmp_path: Path, seconds: int) -> None:
    """P4: with nothing due for long, no thread of the daemon wakes up at all."""
    daemon.start(FAR_AWAY)
    daemon.status()  # the start is over, and a client has been served
    lines = quiet_calls(daemon.pid, seconds, tmp_path / "calls")
    assert lines, "strace saw nothing, not even the calls that the threads wait in"
    # Each thread shows the one call that it was waiting in when strace came, and no other.
    calls = [line for line in lines if "<... " not in line and "SIGSTOP" not in line]
    a_thread = Counter(line.split()[0] for line in calls)
    assert max(a_thread.values()) == 1, lines
    daemon.stop()


def test_jobs_that_run_take_no_thread(daemon: Daemon, mark: str) -> None:
    """However many jobs wait and run, the daemon has the same few threads."""
    number = 60
    running = "\n".join(
        f'[jobs.r{n}]\nstartup = true\ncommand = ["sleep", "{mark}"]' for n in range(number)
    )
    daemon.start(f"{FAR_AWAY}{running}\n[pools.default]\nworkers = {number}")
    daemon.log.wait("run started", count=number)
    daemon.status()
    threads = len(list(Path(f"/proc/{daemon.pid}/task").iterdir()))
    assert threads < number // 2, f"{threads} threads for {number} processes"
    daemon.cli("stop", "--now")
    assert daemon.wait_exit() == 0


def test_what_is_put_off_stays_so(daemon: Daemon) -> None:
    """Starting, running a job, a client and a reload need none of the modules that are put off."""
    fast = "* * * * * *"
    daemon.start(f'{FAR_AWAY}[jobs.tick]\nschedule = "{fast}"\ncommand = "true"')
    daemon.log.wait("run succeeded", job="tick")
    daemon.status()
    daemon.signal(signal.SIGHUP)
    daemon.log.wait("crontab reloaded")
    maps = Path(f"/proc/{daemon.pid}/maps").read_text("utf-8")
    # What cannot be seen of the modules in Python can be seen of those in C that come with them.
    loaded = {name for name in ("_hashlib", "libcrypto", "_bz2", "_lzma", "_ssl") if name in maps}
    if sys.version_info < (3, 12):  # from then on dataclasses uses inspect, which has this
        loaded |= {"_opcode"} if "_opcode" in maps else set()
    assert not loaded
    daemon.stop()
