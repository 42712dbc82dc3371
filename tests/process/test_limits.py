"""Many processes, few descriptors, starts that hang, threads that sleep (P4, P8)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from crond_py.clock import SystemClock
from crond_py.model import Leftovers
from crond_py.ports import LeftOver, Started
from crond_py.runner import pidfds, proctree, starters
from crond_py.runner.supervisor import Supervisor
from crond_py.vital import VitalThread
from tests.process.conftest import PATIENCE_S, PROGRAMS, Harness, has_ended, wait_until_gone
from tests.support.clock import FakeClock


def _run_many(count: int, limit: int, command: str) -> dict[str, object]:
    result = subprocess.run(
        [sys.executable, str(PROGRAMS / "proc_many_starts.py"), str(count), str(limit), command],
        stdout=subprocess.PIPE,
        check=True,
        timeout=110,
    )
    return json.loads(result.stdout)  # type: ignore[no-any-return]


def test_a_thousand_quick_starts_with_few_descriptors() -> None:
    """With 256 descriptors a thousand starts at once all run, and none is left open (B64, P8)."""
    assert _run_many(1000, 256, "exit 3") == {
        "kinds": {"Started": 1000, "Ended": 1000},
        "codes": {"3": 1000},
        "reasons": {},
        "leaked": 0,
    }


def test_more_processes_than_descriptors(tmp_path: Path) -> None:
    """Processes that run at the same time may be more than there are descriptors (B64, P8)."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    # All wait at the gate, for as many lines as they are; the last to come lets them go.
    started = tmp_path / "started"
    let_go = f"[ $(wc -l <{started}) -lt 200 ] || yes go | head -n 200 >{gate}"
    command = f"exec 3<>{gate}; echo >>{started}; {let_go}; read line <{gate}"
    result = _run_many(200, 96, command)
    assert result["kinds"] == {"Started": 200, "Ended": 200}
    assert result["codes"] == {"0": 200}
    assert result["leaked"] == 0


def test_a_thread_waits_where_no_descriptor_is_left(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process without a pidfd is watched, stopped and ended like any other (P6, P8)."""
    monkeypatch.setattr(Supervisor, "hold", lambda _self, _pid: None)
    assert harness.run("exit 4").exit.code == 4
    ready = harness.fifo("ready")
    key = harness.start(
        "setsid sh -c 'echo up >$READY; exec sleep 999' & wait", env={"READY": str(ready)}
    )
    harness.started(key)
    assert ready.read_text() == "up\n"
    harness.runner.stop(key, force=False)
    assert harness.ended(key).exit.signal == 15
    assert harness.leftovers() == []


def test_a_starter_waits_where_no_thread_is_left_either(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Out of descriptors and of threads, a process is still watched to its end (P8)."""
    real = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith("pycron-waiter"):
            raise RuntimeError("can't start new thread")
        real(thread)

    monkeypatch.setattr(Supervisor, "hold", lambda _self, _pid: None)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    keys = [harness.start("exit 4") for _ in range(10)]
    assert [harness.ended(key).exit.code for key in keys] == [4] * 10


@pytest.mark.parametrize("outside", ["", "setsid "], ids=["group", "session"])
def test_an_end_that_nobody_sees_is_not_told(
    harness: Harness,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    outside: str,
) -> None:
    """When /proc cannot be read, a stop ends the group at once and the rest when it can (P6, P8).

    What cannot be looked for is not taken for gone; that it cannot is said once.
    """
    ready = harness.fifo("ready")
    inner = f"{outside}sh -c 'echo $$ >$READY; exec sleep 999'"
    key = harness.start(f"{inner} & wait; true", env={"READY": str(ready)})
    leader = os.pidfd_open(harness.started(key).pid)
    inner_pidfd = os.pidfd_open(int(ready.read_text()))
    looks = threading.Semaphore(0)

    def refuse() -> list[int]:
        looks.release()
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr("crond_py.runner.proctree._list_pids", refuse)
        harness.runner.stop(key, force=True)
        wait_until_gone(leader)
        for _ in range(3):  # of the first look, of the end, and by itself
            assert looks.acquire(timeout=PATIENCE_S)
        assert [type(event) for event in harness.told(key)] == [Started]
        if outside:
            assert not has_ended(os.dup(inner_pidfd))
        else:
            wait_until_gone(os.dup(inner_pidfd))
    ended = harness.ended(key)
    assert (ended.exit.signal, ended.note) == (9, "")
    assert has_ended(inner_pidfd)
    assert caplog.text.count("only process groups are ended for now") == 1


@pytest.mark.parametrize("force", [False, True], ids=["term", "kill"])
def test_a_stop_is_carried_out_where_orphans_cannot_be_asked_for(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    """A look that fails for a shortage is made again, and the signal goes out all the same (P6)."""
    ready = harness.fifo("ready")
    inner = "setsid sh -c 'echo $$ >$READY; exec sleep 999'"
    key = harness.start(f"{inner} & wait; true", env={"READY": str(ready)})
    leader = os.pidfd_open(harness.started(key).pid)
    inner_pidfd = os.pidfd_open(int(ready.read_text()))

    def refuse(*_arguments: object) -> dict[int, int]:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Supervisor, "orphans_of", refuse)
        harness.runner.stop(key, force=force)
        wait_until_gone(leader)
        assert not has_ended(os.dup(inner_pidfd))
    assert harness.ended(key).exit.signal == (9 if force else 15)
    wait_until_gone(inner_pidfd)


def test_what_is_to_be_ended_is_looked_for_until_it_is_seen(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: where nobody can see what a run has left, what its spec says of that still holds."""
    looks = threading.Semaphore(0)

    def refuse(*_arguments: object) -> dict[int, int]:
        looks.release()
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Supervisor, "orphans_of", refuse)
        key = harness.start("setsid sleep 999 & exit 0", leftovers=Leftovers.KILL)
        for _ in range(2):
            assert looks.acquire(timeout=PATIENCE_S)
        assert [type(event) for event in harness.told(key)] == [Started]
    assert harness.wait_for(lambda event: isinstance(event, LeftOver)).key == key
    harness.runner.stop(key, force=True)
    assert harness.ended(key).exit.code == 0
    assert harness.leftovers() == []


@pytest.mark.parametrize("is_sent", [True, False], ids=["by number", "not at all"])
def test_what_cannot_be_watched_is_waited_for_even_so(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, is_sent: bool
) -> None:
    """A process for which no descriptor is left holds up the end until it is gone (P6).

    It gets its SIGTERM, by its number or later, and one only.
    """
    ready, gate = harness.fifo("ready"), harness.fifo("gate")
    inner = "trap 'echo term >&9' TERM; echo $$ >$READY; while ! read x <$GATE; do :; done; exit 0"
    key = harness.start(
        f'setsid sh -c "{inner}" 9>$OUT & wait; true'.replace("$$", "\\$\\$"),
        env={"READY": str(ready), "GATE": str(gate), "OUT": str(harness.directory / "out")},
    )
    leader = os.pidfd_open(harness.started(key).pid)
    inner_pid = int(ready.read_text())
    looks = threading.Semaphore(0)

    def refuse(*_arguments: object) -> int:
        looks.release()
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(pidfds, "open_verified", refuse)
        if not is_sent:
            patch.setattr(proctree, "start_ticks", refuse)
        harness.runner.stop(key, force=False)
        wait_until_gone(leader)
        for _ in range(4):
            assert looks.acquire(timeout=PATIENCE_S)
        assert [type(event) for event in harness.told(key)] == [Started]
        assert proctree.read_process(inner_pid) is not None
    while (harness.directory / "out").read_text() == "":
        os.sched_yield()
    gate.write_text("go\n")
    assert harness.ended(key).exit.signal == 15
    assert (harness.directory / "out").read_text() == "term\n"
    assert harness.leftovers() == []


def test_starts_that_hang_hold_up_only_themselves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many starts hang on a dead disk, another is begun within a second (P4)."""
    clock = FakeClock()
    harness = Harness(tmp_path, clock)
    harness.runner.open()
    # Opening a pipe to write waits for a reader, like a file on a dead disk does for its server.
    monkeypatch.setattr("crond_py.runner.spawn.open_output", lambda at: os.open(at, os.O_WRONLY))
    pipes = [harness.fifo(f"hanging-{number}") for number in range(4)]
    hanging = [harness.start(("true",), output=pipe) for pipe in pipes]
    key = harness.start(("true",))
    while not harness.told(key):
        clock.advance_ns(starters.PATIENCE_NS)
    harness.ended(key)
    assert all(harness.told(other) == [] for other in hanging)
    # What was added leaves again, down to those that are always there.
    readers = [os.open(pipe, os.O_RDONLY | os.O_NONBLOCK) for pipe in pipes]
    for other in hanging:
        assert harness.started(other).note == ""
        harness.ended(other)
    for reader in readers:
        os.close(reader)
    harness.clean_up()


EPOLL_WAIT = {"x86_64": ("232", "281", "441"), "aarch64": ("22", "441")}.get(os.uname().machine)
FUTEX = {"x86_64": "202", "aarch64": "98"}.get(os.uname().machine)
NO_LIMIT = "0xffffffffffffffff"


def _system_call(thread: threading.Thread) -> list[str]:
    """Return the system call a thread sleeps in, with its arguments."""
    path = Path(f"/proc/self/task/{thread.native_id}/syscall")
    while (call := path.read_text().split())[0] == "running":
        os.sched_yield()
    return call


@pytest.mark.skipif(EPOLL_WAIT is None, reason="the numbers of system calls are another machine's")
def test_idle_threads_sleep_without_a_limit(harness: Harness) -> None:
    """With nothing to do every thread of the runner sleeps until it is woken (P4)."""
    harness.run(("true",))
    key = harness.start("sleep 999; true")
    harness.started(key)
    threads = [t for t in threading.enumerate() if t.name.startswith("pycron-")]
    assert len(threads) == 5
    for thread in threads:
        while True:
            number, *arguments = _system_call(thread)
            if thread.name == "pycron-supervisor" and number in (EPOLL_WAIT or ()):
                assert arguments[3] in {NO_LIMIT, "0xffffffff"}
                break
            # The lock of the interpreter is waited for with a limit; a sleep has none.
            is_futex = thread.name != "pycron-supervisor" and number == FUTEX
            if is_futex and arguments[3] == "0x0":
                break
    harness.runner.stop(key, force=True)
    harness.ended(key)


def test_the_daemon_does_not_outlive_a_thread_of_the_runner(harness: Harness) -> None:
    """Without one of them no run would begin or end any more, and nobody would know (P8)."""
    spec = harness.spec(("true",))
    harness.runner.start(spec, at_ns=SystemClock().monotonic_ns() + 200_000_000)
    harness.ended(spec.key)
    threads = [t for t in threading.enumerate() if t.name.startswith("pycron-")]
    assert {t.name.rstrip("-12") for t in threads} == {
        *("pycron-supervisor", "pycron-ender", "pycron-starter", "pycron-starters"),
        "pycron-punctual",
    }
    assert all(isinstance(thread, VitalThread) for thread in threads)


def test_opening_and_closing_is_idempotent(idle: Harness) -> None:
    """Open and close may be called in any order, number and thread; nothing hangs."""
    for _ in range(2):
        idle.runner.open()
    idle.run(("true",))
    barrier = threading.Barrier(6)

    def race(index: int) -> None:
        barrier.wait()
        (idle.runner.open if index % 2 else idle.runner.close)()

    threads = [threading.Thread(target=race, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    idle.runner.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("pycron-")]


def test_closing_without_opening_is_legal(idle: Harness) -> None:
    """What was asked for and never begun fails to start, so that every start is answered (P1)."""
    key = idle.start(("true",))
    idle.runner.close()
    idle.runner.open()
    assert idle.failed(key).reason == "pycron was stopped before it could be started"


def test_closing_leaves_no_descriptor_open(tmp_path: Path) -> None:
    """A runner that has been closed holds nothing of what it watched."""
    before = set(Path("/proc/self/fd").iterdir())
    harness = Harness(tmp_path)
    harness.runner.open()
    for _ in range(5):
        harness.started(harness.start("setsid sleep 999 & wait"))
    harness.runner.close()
    assert set(Path("/proc/self/fd").iterdir()) == before
    harness.clean_up()


def test_closing_does_not_wait_for_a_start_that_hangs(tmp_path: Path) -> None:
    """A daemon can leave although a start hangs on a dead disk."""
    harness = Harness(tmp_path)
    harness.runner.open()
    pipe = harness.fifo("hanging")
    key = harness.start("echo ran", output=pipe)
    harness.run(("true",))
    harness.runner.close()
    # What it hung on comes back: the process runs, for the next daemon to find.
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    harness.started(key)
    os.close(reader)
    harness.clean_up()
