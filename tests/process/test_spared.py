"""Processes of another user, which a stop cannot end: they are named and not passed over (P6)."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.process.conftest import PROGRAMS, has_ended, wait_until_gone

# Root without this one capability is to processes of another user what anybody else is.
WITHOUT_KILL = ["setpriv", "--bounding-set=-kill"]
# A process of another user that tells its pid in the named pipe PIPE.
OTHER = "setpriv --reuid=65534 --clear-groups sh -c 'echo $$ >&9; exec sleep 999 9>&-' 9>PIPE"

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv"
)


class Served:
    """A runner in another program, which is told what to do and whose events are read."""

    def __init__(self, leftovers: str) -> None:
        program = [sys.executable, str(PROGRAMS / "proc_serve.py"), uuid.uuid4().hex[:12]]
        self.process = subprocess.Popen(
            [*WITHOUT_KILL, *program, leftovers],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, *order: object) -> None:
        """Give an order."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def event(self) -> tuple[str, int, dict[str, Any]]:
        """Wait for the next event."""
        assert self.process.stdout is not None
        kind, run, fields = json.loads(self.process.stdout.readline())
        return kind, run, fields

    def start(self, command: str) -> int:
        """Have a command started; return its pid."""
        self.tell("start", command)
        kind, _, fields = self.event()
        assert kind == "Started", fields
        return int(fields["pid"])


@pytest.fixture(params=["leave"])
def served(request: pytest.FixtureRequest) -> Iterator[Served]:
    """Give a runner that may not signal processes of others."""
    served = Served(request.param)
    with served.process:
        yield served
        assert served.process.stdin is not None
        served.process.stdin.close()
        served.process.wait(60)


def _other(pipe: Path) -> str:
    return OTHER.replace("PIPE", str(pipe))


def _others_pid(pipe: Path) -> tuple[int, int]:
    """Return pid and pidfd of the process that has told its pid."""
    pid = int(pipe.read_text())
    return pid, os.pidfd_open(pid)


def _end(pidfd: int) -> None:
    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    wait_until_gone(pidfd)


@pytest.mark.parametrize("first", [False, True], ids=["term-then-kill", "kill"])
def test_what_cannot_be_ended_is_named(served: Served, tmp_path: Path, first: bool) -> None:
    """Once SIGKILL was refused, the end comes with the name of what lives on (P6)."""
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    leader = served.start(f"{_other(pipe)} & sleep 998; true")
    pid, pidfd = _others_pid(pipe)
    held = os.pidfd_open(leader)
    if not first:
        served.tell("stop", 1, False)
        wait_until_gone(held)
        served.tell("start", "true")
        assert [served.event()[:2] for _ in range(2)] == [("Started", 2), ("Ended", 2)]
    served.tell("stop", 1, True)
    kind, run, fields = served.event()
    assert (kind, run) == ("Ended", 1)
    assert fields["exit"]["signal"] == (9 if first else 15)
    assert fields["note"] == (f"process {pid} (sleep) belongs to user 65534 and could not be ended")
    assert not has_ended(os.dup(pidfd))
    _end(pidfd)


def test_all_others_are_waited_for(served: Served, tmp_path: Path) -> None:
    """What can be ended has ended by then, however much of it there is (P6)."""
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    ours = "setsid sleep 997 & sleep 996 & "
    served.start(f"{ours}{_other(pipe)} & sleep 998; true")
    pid, pidfd = _others_pid(pipe)
    children = Path(f"/proc/{served.process.pid}/task/{served.process.pid}/children")
    served.tell("stop", 1, True)
    kind, _, fields = served.event()
    assert kind == "Ended"
    assert fields["note"].startswith(f"process {pid} (sleep) ")
    assert [int(child) for child in children.read_text().split()] == [pid]
    _end(pidfd)


def test_a_leader_that_cannot_be_ended_is_waited_for(served: Served, tmp_path: Path) -> None:
    """While the process that was started lives, its run goes on, whoever that belongs to (P5)."""
    pipe = tmp_path / "pid"
    os.mkfifo(pipe)
    served.start(f"exec {_other(pipe)}")
    _, pidfd = _others_pid(pipe)
    served.tell("stop", 1, False)
    served.tell("stop", 1, True)
    served.tell("start", "true")
    assert [served.event()[:2] for _ in range(2)] == [("Started", 2), ("Ended", 2)]
    _end(pidfd)
    kind, run, fields = served.event()
    assert (kind, run, fields["note"]) == ("Ended", 1, "")
    assert fields["exit"]["signal"] == 9


@pytest.mark.parametrize("served", ["kill"], indirect=True)
def test_leftovers_that_cannot_be_ended_are_named(served: Served, tmp_path: Path) -> None:
    """What a run has left is ended as far as it can be, and the rest is named (P6)."""
    pipe, gate = tmp_path / "pid", tmp_path / "gate"
    os.mkfifo(pipe)
    os.mkfifo(gate)
    served.start(f"{_other(pipe)} & read x <{gate}; exit 4")
    pid, pidfd = _others_pid(pipe)
    gate.write_text("go\n")
    kind, _, fields = served.event()
    assert (kind, fields["count"], fields["exit"]["code"]) == ("LeftOver", 1, 4)
    served.tell("stop", 1, False)
    served.tell("stop", 1, True)
    kind, _, fields = served.event()
    assert (kind, fields["exit"]["code"]) == ("Ended", 4)
    assert fields["note"].startswith(f"process {pid} (sleep) belongs to user 65534")
    _end(pidfd)
