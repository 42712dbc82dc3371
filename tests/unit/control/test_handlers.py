"""What each request asks of the engine and the service."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

import crond_py
from crond_py.clock import SystemClock
from crond_py.control import protocol
from crond_py.control.client import call
from crond_py.control.handlers import Handlers
from crond_py.control.server import ControlServer
from crond_py.errors import CrontabError, CrowdedError, Fault, RequestRefusedError, UnknownNameError
from crond_py.model import Run
from tests.unit.control.fakes import ENDED, ME, NOON, RUNNING, FakeEngine, FakeService


class WaitingEngine(FakeEngine):
    """Has those who wait for what has ended wait until the test lets it end."""

    def __init__(self) -> None:
        super().__init__()
        self.is_waiting: SimpleQueue[int] = SimpleQueue()
        self.go_on = threading.Event()

    def wait_run(self, run_id: int, timeout: timedelta) -> Run | None:
        """Wait for the test."""
        self.is_waiting.put(run_id)
        self.go_on.wait(30)
        return super().wait_run(run_id, timeout)

    def wait_task(self, task_id: int, timeout: timedelta) -> tuple[bool, Run | None]:
        """Wait for the test, unless it is but a look."""
        if timeout:
            self.is_waiting.put(task_id)
            self.go_on.wait(30)
        return super().wait_task(task_id, timeout)


@pytest.fixture
def engine() -> FakeEngine:
    """Make an engine that remembers what it was asked."""
    return FakeEngine()


@pytest.fixture
def service() -> FakeService:
    """Make a service that remembers what it was asked."""
    return FakeService()


Handle = Callable[[protocol.Request[Any]], object]


@pytest.fixture
def handle(engine: FakeEngine, service: FakeService) -> Handle:
    """Make the handlers under test, as they are for whoever runs them."""
    return partial(Handlers(engine, service, SystemClock()), peer=ME)


def test_ping_names_process_and_version(handle: Handle) -> None:
    """A client learns whom it talks to."""
    assert handle(protocol.Ping()) == protocol.Pong(os.getpid(), crond_py.__version__)


def test_list_tells_of_every_job(handle: Handle) -> None:
    """Each job is there in the crontab's order with its runs and its next due instant."""
    listed = handle(protocol.ListJobs())
    assert isinstance(listed, protocol.JobList)
    assert listed.crontab == ("/etc/pycron/crontab.toml",)
    assert [job.name for job in listed.jobs] == ["backup", "off"]
    backup, off = listed.jobs
    assert (backup.active, backup.last) == ((RUNNING,), ENDED)
    assert backup.next_due == NOON + timedelta(hours=23)
    assert backup.timezone == "Europe/Berlin"
    assert "0 12 * * *" in backup.schedule
    assert (off.enabled, off.next_due) == (False, None)


def test_status_sums_up(handle: Handle) -> None:
    """Counts, runs, pools, troubles and the job that is due first."""
    status = handle(protocol.GetStatus())
    assert isinstance(status, protocol.DaemonStatus)
    assert (status.pid, status.jobs, status.enabled_jobs) == (os.getpid(), 2, 1)
    assert status.active == (RUNNING,)
    assert status.troubles == ("the disk is full", "the crontab was refused")
    assert (status.next_job, status.next_due) == ("backup", NOON + timedelta(hours=23))
    assert status.crontab == ("/etc/pycron/crontab.toml",)


def test_cancel_passes_on_what_ends(handle: Handle, engine: FakeEngine) -> None:
    """A run by its number, and all runs of a job by its name."""
    one = handle(protocol.CancelRun(7))
    assert isinstance(one, protocol.CancelList)
    assert [(run.run_id, run.ending) for run in one.runs] == [(7, True)]
    many = handle(protocol.CancelJob("backup"))
    assert isinstance(many, protocol.CancelList)
    assert [(run.run_id, run.ending) for run in many.runs] == [(7, True), (9, False)]
    assert engine.asked == [("cancel_run", 7), ("cancel_job", "backup")]


@pytest.mark.parametrize("run_id", [0, -1, 2**63, 10**400])
def test_a_number_that_no_run_can_have_is_unknown(
    handle: Handle, engine: FakeEngine, run_id: int
) -> None:
    """P9: it never reaches a ledger that would choke on it."""
    for request in (
        protocol.CancelRun(run_id),
        protocol.WaitRun(run_id),
        protocol.CancelTask(run_id),
    ):
        with pytest.raises(UnknownNameError):
            handle(request)
    assert engine.asked == []


def test_a_wait_is_bounded(handle: Handle, engine: FakeEngine) -> None:
    """P4: no client keeps a thread for longer than the protocol says."""
    assert handle(protocol.WaitRun(6, timedelta(days=9))) == protocol.Waited(ENDED)
    assert handle(protocol.WaitRun(7, timedelta(seconds=1))) == protocol.Waited(None)
    assert handle(protocol.WaitTask(6, timedelta(days=9))) == protocol.WaitedTask(True, ENDED)
    assert handle(protocol.WaitTask(7, timedelta(0))) == protocol.WaitedTask(False, None)
    assert engine.asked == [
        ("wait_run", 6, protocol.LONGEST_WAIT),
        ("wait_run", 7, timedelta(seconds=1)),
        ("wait_task", 6, protocol.LONGEST_WAIT),
        ("wait_task", 7, timedelta(0)),
    ]


def test_who_waits_leaves_room_for_others(service: FakeService) -> None:
    """P4: beyond so many, who would wait is told to ask again; a look and all else is let in."""
    engine = WaitingEngine()
    handle = partial(Handlers(engine, service, SystemClock(), most_waiting=2), peer=ME)
    with ThreadPoolExecutor() as pool:
        waits = [pool.submit(handle, wait) for wait in (protocol.WaitRun(6), protocol.WaitTask(6))]
        try:
            for _ in waits:
                engine.is_waiting.get(timeout=30)
            for wait in (protocol.WaitRun(6), protocol.WaitTask(6)):
                with pytest.raises(CrowdedError, match="as may"):
                    handle(wait)
            assert handle(protocol.WaitTask(7, timedelta(0))) == protocol.WaitedTask(False, None)
            assert isinstance(handle(protocol.Ping()), protocol.Pong)
        finally:
            engine.go_on.set()
        assert waits[0].result(30) == protocol.Waited(ENDED)
    assert handle(protocol.WaitRun(6)) == protocol.Waited(ENDED)


def test_stop_says_how(handle: Handle, service: FakeService) -> None:
    """Both ways to stop reach the service, and the answer names the process to wait for."""
    assert handle(protocol.Stop()) == protocol.Stopping(os.getpid(), timedelta(seconds=30))
    assert handle(protocol.Stop(now=True)) == protocol.Stopping(os.getpid(), timedelta(seconds=30))
    assert service.stopped == [False, True]


def test_all_of_it_works_over_the_socket(tmp_path: Path) -> None:
    """Replies and errors of every operation come out at the client as the handlers gave them."""
    service = FakeService()
    handlers = Handlers(FakeEngine(), service, SystemClock())
    handle = partial(handlers, peer=ME)
    path = tmp_path / "control.sock"
    server = ControlServer(path, handlers, SystemClock())
    server.start()
    try:
        assert call(path, protocol.Ping()) == handle(protocol.Ping())
        assert call(path, protocol.ListJobs()) == handle(protocol.ListJobs())
        assert call(path, protocol.GetStatus()) == handle(protocol.GetStatus())
        assert call(path, protocol.CancelRun(7)) == handle(protocol.CancelRun(7))
        assert call(path, protocol.CancelJob("a")) == handle(protocol.CancelJob("a"))
        assert call(path, protocol.CancelTask(5)) == handle(protocol.CancelTask(5))
        stored = call(path, protocol.Submit(({"command": "true", "in": "1m"},)))
        assert [(task.id, task.job, task.is_new) for task in stored.tasks] == [(1, "task:1", True)]
        assert call(path, protocol.Trigger("backup", force=True)) == protocol.Triggered(8)
        assert call(path, protocol.WaitTask(6)) == protocol.WaitedTask(True, ENDED)
        assert call(path, protocol.WaitRun(6)) == protocol.Waited(ENDED)
        assert call(path, protocol.Reload()) == protocol.Reloaded(added=("new",), unchanged=2)
        assert call(path, protocol.Stop()) == protocol.Stopping(os.getpid(), timedelta(seconds=30))
        with pytest.raises(RequestRefusedError, match="run 7 of backup is still running"):
            call(path, protocol.Trigger("backup"))
        with pytest.raises(UnknownNameError, match="no job named 'nope'"):
            call(path, protocol.Trigger("nope"))
        service.fault = Fault("/etc/c.toml", 3, "jobs.a", "is no good", "leave it out")
        with pytest.raises(CrontabError) as caught:
            call(path, protocol.Reload())
        assert caught.value.faults == (service.fault,)
    finally:
        server.stop()


@pytest.mark.parametrize("fault", [OSError(24, "Too many open files"), ImportError("half loaded")])
def test_what_reads_tasks_may_not_be_loadable_for_a_while(
    handle: Handle, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    """A daemon that is out of descriptors refuses, says why, and goes on later."""
    request = protocol.Submit(({"command": "true", "in": "1h"},))
    name = "crond_py.control.submissions"

    class Failing:
        def find_spec(self, module: str, *_: object) -> None:
            if module == name:
                raise fault

    with monkeypatch.context() as short:
        short.delitem(sys.modules, name, raising=False)
        short.setattr(sys, "meta_path", [Failing(), *sys.meta_path])
        with pytest.raises(RequestRefusedError, match="cannot be loaded now"):
            handle(request)
    assert len(handle(request).tasks) == 1
