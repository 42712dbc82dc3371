"""An engine and a service that only remember what they were asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType

from crond_py.control.address import Peer
from crond_py.control.protocol import Reloaded
from crond_py.crontab.model import Crontab, CronTrigger, Job, Pool
from crond_py.engine.view import Cancelled, EngineStatus, JobStatus, PoolStatus
from crond_py.errors import CrontabError, Fault, RequestRefusedError, UnknownNameError
from crond_py.model import Attempt, Cause, Exit, Outcome, Run, State, Task
from crond_py.ports import NewTask, Submitted

ME = Peer(os.getpid(), os.geteuid())

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)

RUNNING = Run(
    id=7,
    job="backup",
    era=0,
    due=NOON - timedelta(minutes=1),
    cause=Cause.SCHEDULE,
    state=State.RUNNING,
    claimed_at=NOON - timedelta(minutes=1),
    attempts=(Attempt(number=1, begun_at=NOON - timedelta(minutes=1), pid=4711),),
)
ENDED = Run(
    id=6,
    job="backup",
    era=0,
    due=NOON - timedelta(days=1),
    cause=Cause.CATCH_UP,
    state=State.DONE,
    claimed_at=NOON - timedelta(days=1),
    outcome=Outcome.FAILED,
    reason="exit status 3",
    finished_at=NOON - timedelta(hours=23),
    attempts=(
        Attempt(
            number=1,
            begun_at=NOON - timedelta(days=1),
            started_at=NOON - timedelta(days=1),
            finished_at=NOON - timedelta(hours=23),
            exit=Exit(code=3, cpu=timedelta(seconds=1.25), peak_memory_bytes=4096),
            outcome=Outcome.FAILED,
        ),
    ),
)


@dataclass
class FakeEngine:
    """One job ``backup`` whose run 7 is alive and whose run 6 has failed."""

    asked: list[tuple[object, ...]] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)

    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Store tasks, each key once."""
        self.asked.append(("submit", len(tasks)))
        return [self._store(task) for task in tasks]

    def _store(self, new: NewTask) -> Submitted:
        for task in self.tasks:
            if new.key is not None and (task.submitted_by, task.key) == (new.submitted_by, new.key):
                return Submitted(task, is_new=False)
        self.tasks.append(
            Task(
                id=len(self.tasks) + 1,
                lane=new.lane,
                due=new.due,
                definition=new.definition,
                submitted_by=new.submitted_by,
                submitted_at=NOON,
                period=new.period,
                key=new.key,
            )
        )
        return Submitted(self.tasks[-1], is_new=True)

    def cancel_task(self, task_id: int) -> list[Cancelled]:
        """End any task, which has a run that goes on."""
        self.asked.append(("cancel_task", task_id))
        return [Cancelled(9, f"task:{task_id}", "running", ending=True)]

    def status(self) -> EngineStatus:
        """Return the same status every time."""
        job = Job("backup", CronTrigger(("0 12 * * *",)), "backup --all", timezone="Europe/Berlin")
        off = Job("off", CronTrigger(("@daily",)), "true", timezone="UTC", enabled=False)
        return EngineStatus(
            now=NOON,
            started_at=NOON - timedelta(hours=2),
            is_stopping=False,
            jobs=(
                JobStatus(job, NOON + timedelta(hours=23), (RUNNING,), ENDED),
                JobStatus(off, None, (), None),
            ),
            pools=(PoolStatus("default", None, 1, 0),),
            troubles=("the disk is full",),
        )

    def trigger(self, name: str, *, force: bool) -> int:
        """Refuse what is not forced."""
        self.asked.append(("trigger", name, force))
        if name != "backup":
            raise UnknownNameError(f"there is no job named {name!r}")
        if not force:
            raise RequestRefusedError("run 7 of backup is still running")
        return 8

    def cancel_run(self, run_id: int) -> Cancelled:
        """End any run."""
        self.asked.append(("cancel_run", run_id))
        return Cancelled(run_id, "backup", "running", ending=True)

    def cancel_job(self, name: str) -> list[Cancelled]:
        """End one run and one that is queued."""
        self.asked.append(("cancel_job", name))
        return [Cancelled(7, name, "running", ending=True), Cancelled(9, name, "queued", False)]

    def wait_run(self, run_id: int, timeout: timedelta) -> Run | None:
        """Know the outcome of one run."""
        self.asked.append(("wait_run", run_id, timeout))
        return ENDED if run_id == ENDED.id else None

    def wait_task(self, task_id: int, timeout: timedelta) -> tuple[bool, Run | None]:
        """Know one task that is over."""
        self.asked.append(("wait_task", task_id, timeout))
        return (True, ENDED) if task_id == ENDED.id else (False, None)


@dataclass
class FakeService:
    """A service whose crontab is as good or bad as a test wants it."""

    fault: Fault | None = None
    stopped: list[bool] = field(default_factory=list)
    stop_timeout: timedelta | None = timedelta(seconds=30)

    crontab: Crontab = field(
        default_factory=lambda: Crontab(
            MappingProxyType({}), MappingProxyType({"default": Pool("default")})
        )
    )

    @property
    def troubles(self) -> Sequence[str]:
        """One trouble of the service's own."""
        return ("the crontab was refused",)

    @property
    def crontab_files(self) -> Sequence[Path]:
        """Name one file."""
        return (Path("/etc/pycron/crontab.toml"),)

    def reload(self) -> Reloaded:
        """Find what the test has put in."""
        if self.fault:
            raise CrontabError((self.fault,))
        return Reloaded(added=("new",), unchanged=2)

    def stop(self, *, now: bool) -> None:
        """Remember how."""
        self.stopped.append(now)
