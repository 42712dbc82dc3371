"""What the daemon starts for itself is of no run, whatever it looks like (P6, P7)."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from crond_py.ports import AttemptKey
from crond_py.runner import procfile
from crond_py.runner.brand import BRANDING
from crond_py.runner.child import Child
from crond_py.runner.errands import ERRANDS, Errand
from crond_py.runner.marks import brand_for, read_marks
from crond_py.runner.orphans import Orphans, list_children
from crond_py.runner.proctree import Snapshot
from tests.process.conftest import Harness

LOCKS = 10  # RLIMIT_LOCKS
Start = Callable[..., Errand]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start errands that live on until the end of the test."""
    errands: list[Errand] = []
    sink = os.open(os.devnull, os.O_WRONLY)

    def start(*argv: str) -> Errand:
        errands.append(ERRANDS.start(argv or ("/bin/sleep", "999"), sink))
        return errands[-1]

    yield start
    os.close(sink)
    for errand in errands:
        if errand.pid in ERRANDS.pids():
            os.kill(errand.pid, signal.SIGKILL)
            assert errand.wait() == -signal.SIGKILL, "somebody else has ended or reaped it"


@pytest.fixture(params=["lists", "no lists"])
def _children(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the kernel tell who has which children, or not."""
    if request.param == "no lists":
        monkeypatch.setattr(procfile, "tells_children", lambda: False)
        monkeypatch.setattr(procfile, "list_children_of_thread", lambda _pid, _thread: None)


def test_it_carries_no_brand_of_a_start_that_goes_on(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job may be started at the same moment; the errand is never of its tree (P6)."""
    real, seen = os.posix_spawn, list[int | None]()

    def spawn(*arguments: Any, **more: Any) -> int:
        pid = real(*arguments, **more)
        seen.append(read_marks(pid).brand)
        return pid

    monkeypatch.setattr(os, "posix_spawn", spawn)
    with BRANDING.put(brand_for("x-7", 1)), ThreadPoolExecutor(1) as pool:
        pool.submit(start).result()
    assert seen == [None]


def test_one_that_has_lost_its_turn_is_corrected(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine another start may have had its brand put on meanwhile (P6)."""
    real, brand = os.posix_spawn, brand_for("x-7", 1)
    assert brand is not None
    soft, hard = resource.getrlimit(LOCKS)

    def lose_turn(*arguments: Any, **more: Any) -> int:
        resource.setrlimit(LOCKS, (brand, hard))  # as the other's turn does
        return real(*arguments, **more)

    monkeypatch.setattr(os, "posix_spawn", lose_turn)
    assert read_marks(start().pid).brand is None
    assert resource.getrlimit(LOCKS) == (soft, hard)


@pytest.mark.usefixtures("_children")
@pytest.mark.parametrize("force", [False, True], ids=["term", "kill"])
def test_the_end_of_a_run_is_not_that_of_an_errand_with_its_marks(
    reaping: Harness, start: Start, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    """A daemon that a job has started anew has all marks of a run, and so have its errands (P6)."""
    spec = reaping.spec("sleep 999 & sleep 999; true")
    monkeypatch.setenv("PYCRON_RUN_ID", spec.tag)
    monkeypatch.setenv("PYCRON_ATTEMPT", "1")
    reaping.runner.start(spec)
    reaping.started(spec.key)
    errand = start()
    assert read_marks(errand.pid).tag == spec.tag, "it can be taken for one of the run's"
    assert reaping.leftovers(), "the command itself"
    reaping.runner.stop(spec.key, force=force)
    reaping.ended(spec.key)
    assert reaping.leftovers() == []
    assert os.waitid(os.P_PID, errand.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


@pytest.mark.usefixtures("_children")
def test_it_is_no_orphan(reaping: Harness, start: Start) -> None:
    """Nobody but who started it reaps it, also where our first thread has (P7)."""
    lives, ended = start(), start("/bin/sh", "-c", "exit 3")
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    orphans = Orphans(_others_but(lives, ended))
    snapshot = None if procfile.tells_children() else Snapshot.take()
    assert orphans.look(snapshot) == []
    assert reaping.run("(sleep 0 &); exit 4").exit.code == 4
    assert ended.wait() == 3
    assert ended.pid not in ERRANDS.pids()


def _others_but(*errands: Errand) -> Callable[[], list[Child]]:
    """Return a table in which all our other children are jobs."""
    pids = set(list_children()) - {errand.pid for errand in errands}
    children = [
        Child(AttemptKey(pid, 1), f"x-{pid}", pid, start_ticks=0, pidfd=None, is_own=True)
        for pid in pids
    ]
    return lambda: children


def test_its_end_is_told(start: Start) -> None:
    """An exit status, or the signal that has ended it."""
    assert start("/bin/sh", "-c", "exit 3").wait() == 3
    assert start("/bin/sh", "-c", "kill -9 $$").wait() == -signal.SIGKILL


def test_signals_to_all_of_the_daemon_are_not_for_it(start: Start) -> None:
    """What a terminal or a service manager sends to all processes does not end it (P7)."""
    status = Path(f"/proc/{start().pid}/status").read_text("ascii")
    blocked = int(status.partition("SigBlk:")[2].split()[0], 16)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        assert blocked >> (number - 1) & 1


def test_where_no_exit_status_is_kept_its_end_is_waited_for() -> None:
    """Whoever starts the daemon may have SIGCHLD ignored: then nobody knows how it ended (P8)."""
    program = (
        "import signal\n"
        "from crond_py.runner.errands import ERRANDS\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
        "print(ERRANDS.start(['/bin/sh', '-c', 'exit 3'], 1).wait(), ERRANDS.pids())\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert done.stdout == b"None frozenset()\n"


def test_a_program_that_is_not_there_is_an_error(start: Start) -> None:
    """It is raised, and nothing is left of it."""
    before = ERRANDS.pids()
    with pytest.raises(FileNotFoundError):
        start("/nowhere/program")
    assert ERRANDS.pids() == before
