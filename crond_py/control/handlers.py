"""What each request means: asks the engine and the service, and puts the answer into words.

Nothing is decided here. The engine and the service are known as far as requests need them, so
that a test can put in its own.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import crond_py
from crond_py.control.address import Peer
from crond_py.control.protocol import (
    LONGEST_WAIT,
    CancelJob,
    CancelList,
    CancelRun,
    CancelTask,
    DaemonStatus,
    GetStatus,
    JobList,
    ListJobs,
    Ping,
    Pong,
    Reload,
    Reloaded,
    Request,
    Stop,
    Stopping,
    Submit,
    SubmittedList,
    Trigger,
    Triggered,
    Waited,
    WaitedTask,
    WaitRun,
    WaitTask,
)
from crond_py.control.server import Limits
from crond_py.control.views import job_view
from crond_py.crontab.model import Crontab
from crond_py.engine.view import Cancelled, EngineStatus, JobStatus
from crond_py.errors import CrowdedError, RequestRefusedError, UnknownNameError
from crond_py.model import Run
from crond_py.ports import Clock, NewTask, Submitted

if TYPE_CHECKING:
    from crond_py.control.submissions import Intake

log = logging.getLogger("pycron.control")

_LARGEST_ID: Final = 2**63 - 1


class EnginePort(Protocol):
    """What requests ask of the engine; every method may be called from any thread."""

    def status(self) -> EngineStatus:
        """Return the engine's view of everything."""
        ...

    def trigger(self, name: str, *, force: bool) -> int:
        """Run a job now and return the run's id."""
        ...

    def cancel_run(self, run_id: int) -> Cancelled:
        """Cancel one run; its process, if it has one, ends a little later."""
        ...

    def cancel_job(self, name: str) -> list[Cancelled]:
        """Cancel every unfinished run of a job."""
        ...

    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Store tasks, all or none; ``due`` is, both ways, as the wall clock is set now."""
        ...

    def cancel_task(self, task_id: int) -> list[Cancelled]:
        """Let a task be due no more, and cancel every unfinished run of it."""
        ...

    def wait_run(self, run_id: int, timeout: timedelta) -> Run | None:
        """Return a run once it has its outcome; None if it has none in time."""
        ...

    def wait_task(self, task_id: int, timeout: timedelta) -> tuple[bool, Run | None]:
        """Wait until a task is over; return whether it is, and then the newest of its runs."""
        ...


class ServicePort(Protocol):
    """What requests ask of the daemon around the engine."""

    @property
    def crontab(self) -> Crontab:
        """The crontab in force."""
        ...

    @property
    def crontab_files(self) -> Sequence[Path]:
        """The files that the crontab in force was read from."""
        ...

    @property
    def troubles(self) -> Sequence[str]:
        """What lasts and is not as it should be, around the engine."""
        ...

    @property
    def stop_timeout(self) -> timedelta | None:
        """How long a stop waits for runs before it ends them; None: as long as they take."""
        ...

    def reload(self) -> Reloaded:
        """Read the crontab and put it in force. Raises CrontabError, and keeps the old one."""
        ...

    def stop(self, *, now: bool) -> None:
        """Begin to stop and return."""
        ...


class Handlers:
    """Answers requests; called with one, it returns the reply or raises a PycronError."""

    def __init__(
        self,
        engine: EnginePort,
        service: ServicePort,
        clock: Clock,
        most_waiting: int = Limits().waiting,
    ) -> None:
        self._engine = engine
        self._service = service
        self._clock = clock
        self._intake: Intake | None = None
        self._free_to_wait = threading.Semaphore(most_waiting)

    def __call__(  # noqa: C901, PLR0911 - one way for each request
        self, request: Request[Any], peer: Peer
    ) -> object:
        """Return the answer to a request of a peer."""
        match request:
            case Ping():
                return Pong(os.getpid(), crond_py.__version__)
            case ListJobs():
                return self._list()
            case GetStatus():
                return self._status()
            case Submit():
                return self._submit(request, peer)
            case CancelTask(task_id):
                _check_id("task", task_id)
                return CancelList(tuple(self._engine.cancel_task(task_id)))
            case CancelRun(run_id):
                _check_id("run", run_id)
                return CancelList((self._engine.cancel_run(run_id),))
            case CancelJob(job):
                return CancelList(tuple(self._engine.cancel_job(job)))
            case Trigger(job, force):
                return Triggered(self._engine.trigger(job, force=force))
            case WaitRun(run_id, limit):
                _check_id("run", run_id)
                with self._waiting(limit):
                    return Waited(self._engine.wait_run(run_id, min(limit, LONGEST_WAIT)))
            case WaitTask(task_id, limit):
                _check_id("task", task_id)
                with self._waiting(limit):
                    return WaitedTask(*self._engine.wait_task(task_id, min(limit, LONGEST_WAIT)))
            case Reload():
                return self._service.reload()
            case Stop(now):
                self._service.stop(now=now)
                return Stopping(os.getpid(), self._service.stop_timeout)
        raise TypeError(f"not a request: {request!r}")

    @contextmanager
    def _waiting(self, limit: timedelta) -> Iterator[None]:
        """Count one who waits; raise CrowdedError where as many do as may.

        So there are always connections left for those who want something else.
        """
        if limit <= timedelta(0):
            yield
            return
        if not self._free_to_wait.acquire(blocking=False):
            raise CrowdedError("as many clients wait as may; try again later")
        try:
            yield
        finally:
            self._free_to_wait.release()

    def _submit(self, request: Submit, peer: Peer) -> SubmittedList:
        # What reads tasks takes megabytes that a daemon without tasks does without.
        try:
            from crond_py.control.submissions import Intake  # noqa: PLC0415
        except (OSError, ImportError) as error:  # no descriptor is left, to this or another thread
            why = error.strerror if isinstance(error, OSError) else "not whole"
            message = f"what reads tasks cannot be loaded now ({why}); try again"
            raise RequestRefusedError(message) from None
        crontab = self._service.crontab
        intake = self._intake
        if intake is None or intake.crontab is not crontab:
            intake = self._intake = Intake(crontab, self._engine, self._clock)
        return intake.submit(request, peer)

    def _list(self) -> JobList:
        status = self._engine.status()
        jobs = (
            job_view(
                job.job,
                job.next_due,
                job.active,
                job.last,
                job.lag.summary() if job.lag is not None else None,
            )
            for job in status.jobs
        )
        return JobList(status.now, self._files(), tuple(jobs))

    def _files(self) -> tuple[str, ...]:
        return tuple(map(str, self._service.crontab_files))

    def _status(self) -> DaemonStatus:
        status = self._engine.status()
        first = min(
            (job for job in status.jobs if job.next_due is not None), key=_next_due, default=None
        )
        of_jobs = (run for job in (*status.jobs, *status.removed) for run in job.active)
        active = (*of_jobs, *status.tasks.runs)
        return DaemonStatus(
            pid=os.getpid(),
            version=crond_py.__version__,
            now=status.now,
            started_at=status.started_at,
            is_stopping=status.is_stopping,
            crontab=self._files(),
            jobs=len(status.jobs),
            enabled_jobs=sum(job.job.enabled for job in status.jobs),
            active=tuple(sorted(active, key=lambda run: (run.claimed_at, run.id))),
            pools=status.pools,
            troubles=(*status.troubles, *self._service.troubles),
            next_due=first.next_due if first else None,
            next_job=first.job.name if first else "",
            open_tasks=status.tasks.open,
            task_due=status.tasks.next_due,
            awaited=status.awaited,
            parked_runs=status.tasks.parked,
        )


def _next_due(status: JobStatus) -> float:
    return status.next_due.timestamp() if status.next_due else float("inf")


def _check_id(what: str, number: int) -> None:
    """Keep out numbers that no ledger can hold."""
    if not 0 < number <= _LARGEST_ID:
        raise UnknownNameError(f"there is no {what} {number}")
