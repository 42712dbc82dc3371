"""What is said on the control socket: requests, replies, and their lines.

A request is ``{"v": 1, "op": "trigger", "args": {"job": "backup"}}``; its reply is
``{"v": 1, "result": {...}}`` or ``{"v": 1, "error": {"kind": "refused", "message": "..."}}``.
A line is at most MAX_REQUEST_BYTES long when it is a request and ends with a newline. How a
version is raised: new optional fields and new operations keep the number; a peer that does not
know an operation says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final, Generic, TypeVar

from crond_py.control.codec import CodecError, from_json, to_json
from crond_py.dataclass import dataclass
from crond_py.engine.view import Cancelled, LagSummary, PoolStatus
from crond_py.errors import (
    CrontabError,
    CrowdedError,
    EndedAlreadyError,
    Fault,
    LedgerError,
    ProtocolError,
    PycronError,
    RequestRefusedError,
    TaskRefusedError,
    UnknownNameError,
    UsageError,
)
from crond_py.model import Run

VERSION: Final = 1
MAX_REQUEST_BYTES: Final = 256 * 1024
MOST_TASKS: Final = 200
"""How many tasks one Submit has at most: they are entered together, and nothing else meanwhile."""

LONGEST_WAIT: Final = timedelta(seconds=30)
"""How long one WaitRun or WaitTask may take; who wants to wait longer asks again.

Where as many wait as may, the answer is a CrowdedError, and the connection ends: it is asked again
on another after a pause.
"""

R = TypeVar("R")


# --- replies ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Pong:
    """A daemon is there."""

    pid: int
    version: str


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as ``list`` shows it. ``timezone`` is the zone's name, also where it is the system's.

    ``active`` are its runs without an outcome, oldest first; ``last`` is its newest run that was
    attempted. ``schedule`` is in the words of the crontab; ``lag`` tells how late its runs start.
    """

    name: str
    schedule: str
    timezone: str
    enabled: bool
    next_due: datetime | None
    active: tuple[Run, ...]
    last: Run | None
    overlap: str
    pool: str
    description: str = ""
    tags: tuple[str, ...] = ()
    lag: LagSummary | None = None


@dataclass(frozen=True, slots=True)
class JobList:
    """All jobs of the crontab in force, in its order, and the files that it was read from."""

    now: datetime
    crontab: tuple[str, ...]
    jobs: tuple[JobView, ...]


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """The daemon at one instant. ``troubles`` are faults that last, each a sentence.

    ``open_tasks`` are the submitted tasks of which something is to come, first at ``task_due``.
    ``parked_runs`` of tasks wait for their retry and are not among those that are ``active``.
    ``awaited`` are the numbers of the runs that a stop waits for.
    """

    pid: int
    version: str
    now: datetime
    started_at: datetime
    is_stopping: bool
    crontab: tuple[str, ...]
    jobs: int
    enabled_jobs: int
    active: tuple[Run, ...]
    pools: tuple[PoolStatus, ...]
    troubles: tuple[str, ...]
    next_due: datetime | None
    next_job: str
    open_tasks: int = 0
    task_due: datetime | None = None
    awaited: tuple[int, ...] = ()
    parked_runs: int = 0


@dataclass(frozen=True, slots=True)
class CancelList:
    """What a cancel has done, one item a run."""

    runs: tuple[Cancelled, ...]


@dataclass(frozen=True, slots=True)
class SubmittedTask:
    """A task that is stored; not new where its submitter had used its key before.

    ``due`` is when it is due next, as the wall clock is set now. ``job`` names its runs. Of one
    that is not new, ``differs`` are the keys that were handed in with other values this time: it
    stays as it is. ``ended_at`` is set where nothing of it is to come any more.
    """

    id: int
    job: str
    due: datetime
    is_new: bool
    differs: tuple[str, ...] = ()
    ended_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class TaskWarning:
    """What is good in a task and may not be meant; ``place`` is the task's, from 1."""

    place: int
    text: str


@dataclass(frozen=True, slots=True)
class SubmittedList:
    """What has become of submitted tasks, in their order.

    ``search_path`` is the PATH of tasks that say nothing of it, as [defaults] have it; None where
    that is not known before they run. Each of the ``warnings`` is there once, with the first task
    that it is about.
    """

    tasks: tuple[SubmittedTask, ...]
    search_path: str | None = None
    warnings: tuple[TaskWarning, ...] = ()


@dataclass(frozen=True, slots=True)
class Triggered:
    """The run that a trigger has claimed."""

    run_id: int


@dataclass(frozen=True, slots=True)
class Waited:
    """The run with its outcome, or None where it had none in time."""

    run: Run | None


@dataclass(frozen=True, slots=True)
class WaitedTask:
    """Whether a task is over, and then the newest of its runs, if it is known."""

    is_over: bool
    run: Run | None


@dataclass(frozen=True, slots=True)
class Changed:
    """Names of pools or groups that a new crontab has added, removed and changed."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a new crontab has changed: names of jobs, and how many are as they were.

    ``pools`` and ``groups``: the same of these.
    """

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    unchanged: int = 0
    pools: Changed = Changed()
    groups: Changed = Changed()


@dataclass(frozen=True, slots=True)
class Stopping:
    """The daemon has begun to stop; it is gone when process ``pid`` is.

    It waits for runs for ``limit`` at most, or None: as long as they take, and then ends them.
    """

    pid: int
    limit: timedelta | None = None


# --- requests ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Request(Generic[R]):
    """A request that is answered by an ``R``. ``does``: it asks for more than an answer."""

    op: ClassVar[str]
    reply: ClassVar[type[Any]]
    does: ClassVar[bool] = False


@dataclass(frozen=True)
class Ping(Request[Pong]):
    """Say that you are there."""

    op = "ping"
    reply = Pong


@dataclass(frozen=True)
class ListJobs(Request[JobList]):
    """Tell of every job."""

    op = "list"
    reply = JobList


@dataclass(frozen=True)
class GetStatus(Request[DaemonStatus]):
    """Tell of yourself."""

    op = "status"
    reply = DaemonStatus


@dataclass(frozen=True)
class CancelRun(Request[CancelList]):
    """End one run."""

    op = "cancel-run"
    reply = CancelList
    does = True
    run_id: int


@dataclass(frozen=True)
class CancelJob(Request[CancelList]):
    """End every run of a job that has no outcome yet."""

    op = "cancel-job"
    reply = CancelList
    does = True
    job: str


@dataclass(frozen=True)
class Submit(Request[SubmittedList]):
    """Store tasks, all of them or none, at most MOST_TASKS.

    Each is an object of the keys that ``crontab.task_keys`` has. ``submitted_by`` is the user for
    whom they are handed in, where that is not the one who does it. With ``only_check`` nothing is
    stored: they are told to be good by an empty answer.
    """

    op = "submit"
    reply = SubmittedList
    does = True
    tasks: tuple[dict[str, Any], ...]
    submitted_by: str | None = None
    only_check: bool = False


@dataclass(frozen=True)
class CancelTask(Request[CancelList]):
    """Let a task be due no more, and end what runs of it."""

    op = "cancel-task"
    reply = CancelList
    does = True
    task_id: int


@dataclass(frozen=True)
class Trigger(Request[Triggered]):
    """Run a job now; with ``force`` against its overlap policy."""

    op = "trigger"
    reply = Triggered
    does = True
    job: str
    force: bool = False


@dataclass(frozen=True)
class WaitRun(Request[Waited]):
    """Answer once the run has its outcome, or after ``limit`` at the latest."""

    op = "wait-run"
    reply = Waited
    run_id: int
    limit: timedelta = LONGEST_WAIT


@dataclass(frozen=True)
class WaitTask(Request[WaitedTask]):
    """Answer once nothing of a task is to come or running, or after ``limit`` at the latest."""

    op = "wait-task"
    reply = WaitedTask
    task_id: int
    limit: timedelta = LONGEST_WAIT


@dataclass(frozen=True)
class Reload(Request[Reloaded]):
    """Read the crontab again and put it in force."""

    op = "reload"
    reply = Reloaded
    does = True


@dataclass(frozen=True)
class Stop(Request[Stopping]):
    """Stop; with ``now`` end the jobs that run at once."""

    op = "stop"
    reply = Stopping
    does = True
    now: bool = False


_REQUESTS: Final[dict[str, type[Request[Any]]]] = {
    request.op: request
    for request in (
        Ping, ListJobs, GetStatus, CancelRun, CancelJob, CancelTask, Submit, Trigger, WaitRun,
        WaitTask,        Reload, Stop,
    )
}  # fmt: skip

# The first that fits names the error, so a class stands before those it is derived from.
_KINDS: Final[dict[str, type[PycronError]]] = {
    "crontab": CrontabError,
    "ended_already": EndedAlreadyError,
    "unknown_name": UnknownNameError,
    "task": TaskRefusedError,
    "usage": UsageError,
    "crowded": CrowdedError,
    "refused": RequestRefusedError,
    "ledger": LedgerError,
    "bad_request": ProtocolError,
    "error": PycronError,
}

_WITH_FAULTS: Final[dict[type[PycronError], Callable[[tuple[Fault, ...]], PycronError]]] = {
    CrontabError: CrontabError,
    TaskRefusedError: TaskRefusedError,
}


# --- lines ------------------------------------------------------------------------------------


def request_line(request: Request[Any]) -> bytes:
    """Return a request as the line that is sent."""
    return _line({"v": VERSION, "op": request.op, "args": to_json(request)})


def read_request(line: bytes) -> Request[Any]:
    """Return the request that a peer has sent. Raises ProtocolError, nothing else."""
    message = _read(line)
    op = message.get("op")
    wanted = _REQUESTS.get(op) if isinstance(op, str) else None
    if wanted is None:
        raise ProtocolError(f"this pycron knows no operation {str(op)[:60]!r}")
    try:
        return from_json(wanted, message.get("args", {}))
    except CodecError as error:
        raise ProtocolError(f"in the operation {wanted.op}: {error}") from None


def reply_line(result: object) -> bytes:
    """Return the answer to a request as the line that is sent."""
    return _line({"v": VERSION, "result": to_json(result)})


def error_line(error: PycronError) -> bytes:
    """Return an error as the line that is sent."""
    kind = next(kind for kind, class_ in _KINDS.items() if isinstance(error, class_))
    report: dict[str, Any] = {"kind": kind, "message": str(error)}
    if isinstance(error, CrontabError | TaskRefusedError):
        report["faults"] = to_json(error.faults)
    return _line({"v": VERSION, "error": report})


def read_reply(request: Request[R], line: bytes) -> R:
    """Return the answer to ``request``, or raise the error that the daemon has answered with."""
    message = _read(line)
    error = message.get("error")
    if isinstance(error, dict):
        raise _remote_error(error)
    try:
        result: R = from_json(request.reply, message.get("result"))
    except CodecError as fault:
        raise ProtocolError(f"the daemon's answer cannot be read: {fault}") from None
    return result


def _remote_error(report: dict[str, Any]) -> PycronError:
    kind, message = report.get("kind"), str(report.get("message", "unknown error"))
    class_ = _KINDS.get(kind, PycronError) if isinstance(kind, str) else PycronError
    if class_ not in _WITH_FAULTS:
        return class_(message)
    try:
        faults = from_json(tuple[Fault, ...], report.get("faults"))
    except CodecError:
        faults = (Fault("", 0, "", message),)
    return _WITH_FAULTS[class_](faults)


def _line(message: dict[str, Any]) -> bytes:
    # JSON escapes everything beyond ASCII here, a newline too: a line is a line.
    return json.dumps(message, separators=(",", ":")).encode("ascii") + b"\n"


def _read(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise ProtocolError("the line is not a JSON object") from None
    if not isinstance(message, dict):
        raise ProtocolError("the line is not a JSON object")
    version = message.get("v")
    if version != VERSION or isinstance(version, bool):
        raise ProtocolError(
            f"this pycron speaks version {VERSION} of the control protocol, the peer "
            f"{str(version)[:20]!r}; use the same version of pycron on both sides"
        )
    return message
