"""The words of the product as plain data: what a run is, how it ends, which policies there are.

Nothing here reads a clock, touches a file or knows a library. Enum values are spelled as in the
crontab and the ledger.
"""

from __future__ import annotations

from dataclasses import field
from datetime import datetime, timedelta
from enum import StrEnum

from crond_py.dataclass import dataclass


class Overlap(StrEnum):
    """What becomes of an occurrence while a run of the same job is still active."""

    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"
    REPLACE = "replace"


class Missed(StrEnum):
    """What becomes of occurrences that fell while nothing could start them."""

    SKIP = "skip"
    ONCE = "once"
    ALL = "all"


class OnCrash(StrEnum):
    """What becomes of a run that a crash of the daemon or the machine cut short."""

    LOST = "lost"
    RERUN = "rerun"


class OnStop(StrEnum):
    """What becomes of a run that still goes on when the daemon is told to stop.

    It is waited for (as long as ``--stop-timeout`` allows), asked to end at once, or left running
    for the next daemon to adopt.
    """

    WAIT = "wait"
    TERMINATE = "terminate"
    LEAVE = "leave"


class Leftovers(StrEnum):
    """What becomes of processes that outlive the command that a run has started."""

    LEAVE = "leave"
    KILL = "kill"


class OutputMode(StrEnum):
    """Where the output of runs goes; ``STREAM`` and ``JOURNAL`` are kept as files, too."""

    FILE = "file"
    STREAM = "stream"
    JOURNAL = "journal"
    DISCARD = "discard"


class Failure(StrEnum):
    """How an attempt can fail other than by an exit status."""

    TIMEOUT = "timeout"
    SIGNAL = "signal"
    START = "start"


class DstGap(StrEnum):
    """Whether a fixed time that the clocks jump over is due at the end of the gap."""

    RUN = "run"
    SKIP = "skip"


class DstFold(StrEnum):
    """On which pass a fixed time is due that the clocks show twice."""

    FIRST = "first"
    SECOND = "second"
    BOTH = "both"


class EveryMode(StrEnum):
    """From what an interval counts: the previous due instant, or the previous run's end."""

    FIXED_RATE = "fixed-rate"
    FIXED_DELAY = "fixed-delay"


class Align(StrEnum):
    """The unit of the wall clock that an interval divides evenly."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


class Condition(StrEnum):
    """What a job that is due ``after`` another asks of that one's run.

    ``FAILURE`` is met by ``failed``, ``timed_out`` and ``lost``.
    """

    SUCCESS = "success"
    FAILURE = "failure"
    ANY = "any"


class Cause(StrEnum):
    """Why a run exists."""

    SCHEDULE = "schedule"
    CATCH_UP = "catch_up"
    MANUAL = "manual"
    STARTUP = "startup"
    UPSTREAM = "upstream"


class State(StrEnum):
    """Where a run stands; ``DONE`` means that it has an outcome."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING_RETRY = "waiting_retry"
    DONE = "done"


class Left(StrEnum):
    """How a stop of the daemon has left a run without an outcome to the next daemon.

    ``RUNNING``: its process goes on. ``RECALLED``: it was claimed, and nothing of it was begun.
    """

    RUNNING = "running"
    RECALLED = "recalled"


class Outcome(StrEnum):
    """How a run ended. The last four carry a reason."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    SKIPPED = "skipped"
    MISSED = "missed"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Retry:
    """When a failed or timed out attempt is followed by another.

    The delay before attempt n+1 is ``delay * backoff ** (n - 1)``, at most ``max_delay``, and
    then up to ``jitter`` longer.
    """

    attempts: int = 1
    delay: timedelta = timedelta(seconds=30)
    backoff: float = 2.0
    max_delay: timedelta = timedelta(hours=1)
    jitter: timedelta = timedelta(0)


@dataclass(frozen=True, slots=True)
class Limits:
    """Resource limits of a run's processes, see getrlimit(2); None: as the daemon has it.

    Each is both the soft and the hard limit, and holds for every single process of the run but
    ``processes``, which counts all of the user's. ``cpu`` is in whole seconds.
    """

    address_space_bytes: int | None = None
    cpu: timedelta | None = None
    open_files: int | None = None
    processes: int | None = None
    file_size_bytes: int | None = None
    core_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Exit:
    """How a process ended. All None: nobody could tell (a survivor that ended unseen).

    Exactly one of ``code`` and ``signal`` is set when the kernel told. CPU time and peak memory
    come from wait4(2).
    """

    code: int | None = None
    signal: int | None = None
    cpu: timedelta | None = None
    peak_memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Lag:
    """How late the first process of a run has started, by what the run waited for.

    ``dispatch``: for the daemon and its ledger. ``dependency``: for the jobs that it follows.
    ``overlap``: for an earlier run of its job. ``pool``: for a slot. ``spawn``: for the system to
    start the process.
    """

    dispatch: timedelta = timedelta(0)
    dependency: timedelta = timedelta(0)
    overlap: timedelta = timedelta(0)
    pool: timedelta = timedelta(0)
    spawn: timedelta = timedelta(0)

    @property
    def own(self) -> timedelta:
        """How late it was for other reasons than the jobs that it follows."""
        return self.dispatch + self.overlap + self.pool + self.spawn

    @property
    def whole(self) -> timedelta:
        """How long after its due instant the process has started."""
        return self.own + self.dependency


@dataclass(frozen=True, slots=True)
class Attempt:
    """One process of a run. ``number`` counts from 1.

    ``start_ticks`` is field 22 of /proc/PID/stat (proc(5)); with ``boot_id``, which names the boot
    of the machine and in it that of the container, it tells a process from a later one that got the
    same pid. ``reason`` says what the exit status cannot
    ("no such file or directory: backup", "timed out after 2h"). ``stopping`` is set while the
    attempt is being ended before its own end: what its outcome will be, and ``reason`` says why.
    With an ``outcome`` it is over, and what it and earlier ones have left is being ended; it is
    then the run whose outcome that will be, and whose reason says why.
    ``lag`` is known of first attempts that were started. ``user`` is whose processes it was started
    with, by name or number; None: nobody knows.
    """

    number: int
    begun_at: datetime
    pid: int | None = None
    start_ticks: int | None = None
    boot_id: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    exit: Exit | None = None
    outcome: Outcome | None = None
    reason: str = ""
    output: str = ""
    stopping: Outcome | None = None
    lag: Lag | None = None
    user: str | None = None


@dataclass(frozen=True, slots=True)
class Run:
    """What became of an occurrence. (``job``, ``era``, ``due``) is its identity.

    ``era`` goes up when the wall clock is set back so far that its readings are a new time.
    ``last_due`` and ``count`` are set where one row stands for a stretch of occurrences without
    a run: ``due`` is then the first of them. ``retry_at`` is set while waiting for a retry,
    ``left_as`` where a stop has left it so and no daemon has gone on with it since.
    """

    id: int
    job: str
    era: int
    due: datetime
    cause: Cause
    state: State
    claimed_at: datetime
    outcome: Outcome | None = None
    reason: str = ""
    last_due: datetime | None = None
    count: int = 1
    finished_at: datetime | None = None
    retry_at: datetime | None = None
    left_as: Left | None = None
    attempts: tuple[Attempt, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class PastTime:
    """A time that the wall clock showed before it was set by more than three hours.

    It was accounted for after ``since`` and up to ``until``, and the clock is ``behind`` it now
    (negative: ahead).
    """

    since: datetime
    until: datetime
    behind: timedelta


@dataclass(frozen=True, slots=True)
class ClockReading:
    """How far the wall clock is ahead of the monotonic one, which counts from ``boot_id``.

    In one boot, two of these that differ tell how far the clock was set, whoever looked.
    """

    boot_id: str
    lead: timedelta


@dataclass(frozen=True, slots=True)
class PastTimes:
    """The times that a clock may come back to, and where it stands, as they are behind that."""

    times: tuple[PastTime, ...]
    clock: ClockReading


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a job's occurrences are accounted for. All but the strings and numbers are UTC.

    Every occurrence after ``baseline`` and up to ``accounted_until`` has its row. ``fingerprint``
    is that of the schedule; another one means a new schedule and a new baseline. ``anchor`` is
    what an interval counts from. Where the clock was set back by no more than three hours,
    occurrences within a barrier, the first instant outside, were accounted for before that and do
    not come again; ``barriers`` are in order and apart. ``past`` is what is known of the times
    before larger steps, see ``clocksteps``. ``absences`` are there in the cursor of tasks alone,
    see ``engine.attendance``, and its ``past`` says where the clock stands.
    """

    job: str
    fingerprint: str
    era: int
    baseline: datetime
    accounted_until: datetime
    anchor: datetime | None = None
    barriers: tuple[tuple[datetime, datetime], ...] = ()
    boot_id: str = ""
    past: PastTimes | None = None
    absences: tuple[Absence, ...] = ()


TASK_PREFIX = "task:"
"""Begins the job's name of a task's runs; no job of a crontab can be called so."""


class Scale(StrEnum):
    """What a task's due instants are measured on.

    ``WALL``: the wall clock, whatever it is set to. ``STEADY``: elapsed time, written as what the
    wall clock would read had it never been set since the ledger was begun.
    """

    WALL = "wall"
    STEADY = "steady"


@dataclass(frozen=True, slots=True)
class Absence:
    """A stretch of a scale, the first instant outside, in which nothing could start a task.

    ``outcome``: ``missed``, or ``lost`` where nobody knows whether something did start it. Only
    tasks up to ``last_task_id`` were in it, as the others were handed in later; None: all.
    """

    scale: Scale
    after: datetime
    until: datetime
    why: str
    outcome: Outcome = Outcome.MISSED
    last_task_id: int | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """Tasks that are taken up in due order: of one pool, priority, group and scale."""

    pool: str
    priority: int
    group: str
    scale: Scale = Scale.WALL


@dataclass(frozen=True, slots=True)
class Task:
    """Work that was handed in. Its runs are those of the job ``task:ID``.

    ``due`` is its next due instant on the lane's scale, or its last where it has ended. With
    ``period`` it comes again and again. ``definition`` is a JSON object of job keys. ``key`` is the
    submitter's own name for it: the same key of one submitter is the same task. ``ended_at`` is
    set once it has no occurrence without a row.
    """

    id: int
    lane: Lane
    due: datetime
    definition: str
    submitted_by: str
    submitted_at: datetime
    period: timedelta | None = None
    key: str | None = None
    ended_at: datetime | None = None

    @property
    def job(self) -> str:
        """The job's name of its runs."""
        return task_job(self.id)


def task_job(task_id: int) -> str:
    """Return the job's name of a task's runs."""
    return f"{TASK_PREFIX}{task_id}"


def task_id_of(job: str) -> int | None:
    """Return the task whose runs have that job's name; None where it is a job's of a crontab."""
    number = job.removeprefix(TASK_PREFIX)
    is_task = number != job and number.isascii() and number.isdigit()
    return int(number) if is_task else None
