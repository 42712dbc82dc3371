"""The seams of the system: what the engine asks for, and what others may put in its place.

The engine knows only these. The real ones are ``clock.SystemClock``, ``dispatcher.Dispatcher``,
``ledger.sqlite.SqliteLedger`` and ``runner.process.ProcessRunner``; a test puts in a fake clock,
a memory ledger and fake processes, and runs the whole daemon without a thread.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from crond_py.dataclass import dataclass
from crond_py.model import (
    Attempt,
    Cause,
    Cursor,
    Exit,
    Lane,
    Left,
    Leftovers,
    Limits,
    Outcome,
    OutputMode,
    Run,
    State,
    Task,
)

StrPath = str | os.PathLike[str]
"""Where a file is. Those of runs are texts: the parts of a Path are remembered, see ``output``."""


class Clock(Protocol):
    """Where now comes from. Nothing else in the project reads a clock or sleeps."""

    def now(self) -> datetime:
        """Return the wall clock's reading, aware, in UTC."""
        ...

    def time_ns(self) -> int:
        """Return the wall clock's reading in nanoseconds since the Unix epoch."""
        ...

    def monotonic_ns(self) -> int:
        """Return a reading in nanoseconds that never goes back and counts time in suspend."""
        ...

    def wait(self, condition: threading.Condition, deadline_ns: int | None) -> None:
        """Wait on ``condition``, which the caller holds, until notified or ``deadline_ns``.

        The deadline is one of ``monotonic_ns``; None means no limit. It may return early.
        """
        ...


class Timer(Protocol):
    """A handle for one entry on the heap."""


class Timers(Protocol):
    """One-shot timers on the one heap; ``T`` is whatever the sink takes."""

    def call_at(self, deadline_ns: int, item: object, *, priority: int = 0) -> Timer:
        """Deliver ``item`` once ``monotonic_ns`` has reached ``deadline_ns``.

        Entries of one deadline are delivered together: higher ``priority`` first, then in the
        order they were entered.
        """
        ...

    def cancel(self, timer: Timer) -> bool:
        """Take the entry back; False if it was delivered or cancelled before."""
        ...


# --- the ledger -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Claim:
    """Enter a new run. With ``attempt``, its first attempt begins in the same breath.

    A claim whose (job, era, due) is already there is refused: nothing is written for it. One
    that comes with an outcome has finished when it was claimed. ``run_id`` is given where the
    ledger has forgotten the run, which had that id; else the ledger gives one.
    """

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
    attempt: Attempt | None = None
    run_id: int | None = None


@dataclass(frozen=True, slots=True)
class SetRun:
    """Change where a run stands. Fields are written as they are given, None and "" included.

    With ``made_up_at`` it is one that is made up for since then: its cause is so, and it is claimed
    anew. That stays.
    """

    run_id: int
    state: State
    outcome: Outcome | None = None
    reason: str = ""
    finished_at: datetime | None = None
    retry_at: datetime | None = None
    left_as: Left | None = None
    made_up_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class SetAttempt:
    """Enter or replace an attempt of a run; (run, number) is its identity."""

    run_id: int
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class SetCursor:
    """Enter or replace a job's cursor."""

    cursor: Cursor


@dataclass(frozen=True, slots=True)
class SetTask:
    """Move a task on to its next due instant, or with ``ended_at`` leave it without any.

    It is written together with the claim that accounts for the instant before.
    """

    task_id: int
    due: datetime
    ended_at: datetime | None = None


Write = Claim | SetRun | SetAttempt | SetCursor | SetTask


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Which runs to list: those that meet all that is given. Newest due first, then newest id.

    ``since`` is the first instant of interest and ``until`` the first beyond it; a stretch of
    missed occurrences belongs in if any of it does. ``before_id`` pages: the runs that come
    after that one in the list. Empty sets choose nothing out; ``limit`` None: all.
    """

    job: str | None = None
    outcomes: frozenset[Outcome] = frozenset()
    states: frozenset[State] = frozenset()
    since: datetime | None = None
    until: datetime | None = None
    limit: int | None = 100
    before_id: int | None = None


@dataclass(frozen=True, slots=True)
class NewTask:
    """A task that is handed in, see ``model.Task``."""

    lane: Lane
    due: datetime
    definition: str
    submitted_by: str
    period: timedelta | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class Submitted:
    """The task that a NewTask has become; not new where its submitter had used its key before."""

    task: Task
    is_new: bool


@dataclass(frozen=True, slots=True)
class LaneStock:
    """How many tasks of a lane have not ended, and when the first of them is due."""

    open: int
    first_due: datetime


@dataclass(frozen=True, slots=True)
class WaitingRetry:
    """An open run of a task that is run once, and waits for its retry.

    ``delay`` is how long it waits in all, until ``retry_at``.
    """

    run_id: int
    lane: Lane
    retry_at: datetime
    delay: timedelta


@dataclass(frozen=True, slots=True)
class TaskQuery:
    """Which tasks to list: those that meet all that is given.

    Open ones come first due first, by id within that; all (``is_open`` None) and ended ones
    newest id first. ``after`` pages: what comes behind a place in that order, due and id of the
    last task that was returned, whatever has become of that one.
    """

    is_open: bool | None = True
    submitted_by: str | None = None
    limit: int | None = 100
    after: tuple[datetime, int] | None = None


@dataclass(frozen=True, slots=True)
class Pruned:
    """What has been deleted: how many runs, and what their attempts had as ``output``."""

    runs: int
    outputs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Gap:
    """What a ledger does not know any more: the newest of what it had promised to keep.

    Occurrences up to ``until`` may have been claimed, and may have run, and ids up to ``last_id``
    been given, all that in the boot ``boot_id`` of the machine. So a task that is there, and due
    by then, may have been taken up: what it has lost is entered as lost and not run again. One that
    was handed in last may not be there, and one that was cancelled last be there again; ids of
    tasks that may have been given are not given again. So what is handed in from now on is told
    from what may have run, whatever the clock says.
    """

    until: datetime
    last_id: int
    boot_id: str


class LedgerReader(Protocol):
    """What can be asked of a ledger."""

    @property
    def identity(self) -> str:
        """A short random name given to the ledger when it was begun; it never changes."""
        ...

    def run(self, run_id: int) -> Run | None: ...

    def runs(self, query: RunQuery) -> list[Run]:
        """Return the runs; raise UnknownNameError where ``before_id`` is not there (any more)."""
        ...

    def open_runs(self, *, with_retries: bool = True) -> list[Run]:
        """Return every run without an outcome, oldest claim first; else without ``retries``."""
        ...

    def retries(self) -> list[WaitingRetry]:
        """Return the open runs of tasks that are run once and wait for their retry, by their ids.

        There may be very many.
        """
        ...

    def cursors(self) -> dict[str, Cursor]: ...

    def last_runs(self) -> dict[str, Run]:
        """Return each job's newest run that has begun an attempt."""
        ...

    def task(self, task_id: int) -> Task | None: ...

    def tasks(self, query: TaskQuery) -> list[Task]:
        """Return the tasks that are asked for, in their order."""
        ...

    def lanes(self) -> dict[Lane, LaneStock]:
        """Return every lane that has tasks which have not ended.

        It takes time in proportion to the number of lanes, not to that of the tasks.
        """
        ...

    def tasks_due(
        self, lane: Lane, *, after: tuple[datetime, int] | None, until: datetime | None, limit: int
    ) -> list[Task]:
        """Return the first tasks of a lane that have not ended, in the order of due and id.

        Only those that are beyond ``after`` (due and id) in that order and due no later than
        ``until``; None: no such bound. How many tasks there are makes it no slower.
        """
        ...

    def count_due(
        self, lane: Lane, *, after: datetime | None, until: datetime | None, limit: int
    ) -> int:
        """Return how many tasks of a lane that have not ended are due after and until an instant.

        None: no such bound. They are counted up to ``limit``, which bounds how long it takes.
        """
        ...

    def close(self) -> None: ...


class Ledger(LedgerReader, Protocol):
    """A ledger that can also be written; one writer at a time."""

    def submit(self, tasks: Sequence[NewTask], now: datetime) -> list[Submitted]:
        """Enter all of the tasks or none; durable once it returns. The answer is in their order.

        Ids go up in that order and are never used again. A key that its submitter has used before,
        for a task that is still there or earlier in ``tasks``, makes no new task. Raises
        LedgerError where they cannot be entered now; the journal is not for them.
        """
        ...

    def prune_tasks(self, *, older_than: datetime, limit: int) -> Pruned:
        """Delete tasks that ended before ``older_than``, whose runs have all finished by then too.

        Their runs go with them. At most ``limit`` tasks and ``limit`` runs go at a time, the first
        that ended first; a task that has more runs goes with the last of them, later.
        """
        ...

    def write(self, writes: Sequence[Write], *, durable: bool) -> list[int | None]:
        """Write all or nothing, in order; return one item for each Claim among them.

        The item is the new run's id, or None where the claim was refused because its occurrence
        is there already. With ``durable`` the writes survive a power cut once this returns;
        without it they survive the process but perhaps not the machine.

        Raises LedgerError where nothing could be written now; the caller may try again.
        """
        ...

    def prune(
        self, job: str, *, keep_runs: int | None, older_than: datetime | None, limit: int
    ) -> Pruned:
        """Delete finished runs of a job.

        Those beyond the newest ``keep_runs`` finished ones go (every row counts, skipped and
        missed ones too), and those that were due and had finished before ``older_than``. None:
        no such bound. At most ``limit`` go at a time, oldest due first, so that nothing waits
        for long; there may be more where as many went.
        """
        ...

    @property
    def last_task_id(self) -> int:
        """The largest id that a task has been given, or may have been as far as is known."""
        ...

    @property
    def gap(self) -> Gap | None:
        """What it had lost when it was opened; None: nothing that anybody knows of.

        The next durable write tells it that this has been accounted for.
        """
        ...

    @property
    def troubles(self) -> Sequence[str]:
        """What a person should know of, a sentence each; empty: all is as it should be."""
        ...

    @property
    def settles_in(self) -> timedelta | None:
        """How soon ``settle`` is to be called; None: there is nothing to settle."""
        ...

    def settle(self) -> None:
        """Go on towards the end of a trouble, for a short time. Raises nothing of its own."""
        ...


# --- processes --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AttemptKey:
    """Which process: attempt ``number`` of run ``run_id``."""

    run_id: int
    number: int


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """What becomes of an attempt's standard output and error: they are appended to ``path``.

    Of more than ``limit_bytes`` the beginning and the end are kept; None: no limit. With the mode
    ``stream`` or ``journal`` each line is passed on as well, under the job's name. With
    ``drops_empty`` there is no file any more of an attempt that has ended and printed nothing.
    """

    path: StrPath
    job: str = ""
    limit_bytes: int | None = None
    mode: OutputMode = OutputMode.FILE
    drops_empty: bool = False


@dataclass(frozen=True, slots=True)
class ProcessSpec:
    """All that is needed to start one process; nothing is taken from the daemon's own setting.

    ``argv`` is executed as it is. Where it has the shell run a text of the crontab, that is
    ``text`` as well, and need not take a shell if it does the same without. ``output`` None
    discards what it prints. ``tag`` is the value of PYCRON_RUN_ID in ``env``, by which the process
    and its descendants are found again in /proc.

    The environment is, the later winning, that of the account (PATH, HOME, LOGNAME, USER, SHELL,
    LANG), what stands in ``env_files``, and ``env``. ``user`` None is the daemon's own account and
    ``cwd`` None the account's home; both, and the files, are looked up when the process starts.
    ``stdin`` is text that it reads, or a file; None: nothing.

    ``held_for`` is the instant that a start was claimed for long before it: that it is let go is
    noted before it is made, see ``Processes.let_go_until``.

    ``earlier_users`` are others than ``user`` whom earlier attempts of the run were started as, so
    what these have left is theirs. ``is_user_known`` False: whose the run's processes are nobody
    can say any more. Nothing is started by such a spec; it is for what an attempt has left.

    Starts of one ``pool`` are made in order, and hold up those of no other.
    """

    key: AttemptKey
    tag: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str | None
    umask: int
    output: OutputSpec | None
    shell: str = "/bin/sh"
    user: str | None = None
    env_files: tuple[str, ...] = ()
    nice: int | None = None
    limits: Limits = Limits()
    stdin: str | Path | None = None
    leftovers: Leftovers = Leftovers.LEAVE
    text: str = ""
    held_for: datetime | None = None
    earlier_users: tuple[str, ...] = ()
    is_user_known: bool = True
    pool: str = ""


@dataclass(frozen=True, slots=True)
class Started:
    """The process runs. ``note`` tells what is not as asked for (its output is not kept)."""

    key: AttemptKey
    pid: int
    start_ticks: int | None
    started_at: datetime
    note: str = ""


@dataclass(frozen=True, slots=True)
class StartFailed:
    """There is no process; ``reason`` says why in words a person can use.

    ``is_recalled``: none was tried, since starts were recalled before that. ``is_unknown``: nobody
    knows whether there was one.
    """

    key: AttemptKey
    reason: str
    at: datetime
    is_recalled: bool = False
    is_unknown: bool = False


@dataclass(frozen=True, slots=True)
class LeftOver:
    """The process has ended by itself and has left ``count`` descendants that are to be ended.

    Comes only where the spec says so; who gets it stops the process. Ended follows, with the same
    exit, when they are gone.
    """

    key: AttemptKey
    exit: Exit
    at: datetime
    count: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The process has ended, and after ``stop`` also every descendant that was found.

    ``note`` says, for people, what of its tree is left: descendants that are left alone, or that
    could not be ended, and what may be of its tree or of another. It is empty where nothing is.
    ``has_left``: something may be left, of this attempt or of an earlier one, that no ``stop`` has
    reached.
    """

    key: AttemptKey
    exit: Exit
    at: datetime
    note: str = ""
    has_left: bool = False


ProcessEvent = Started | StartFailed | LeftOver | Ended


@dataclass(frozen=True, slots=True)
class KeptOutputs:
    """What of a job's outputs is to be kept: ``most_bytes`` in all; the oldest go first.

    The runs of ``going_on`` have no outcome yet. ``newest`` is the newest run that was known when
    this was said: nothing of a later one is to be touched.
    """

    job: str
    most_bytes: int
    going_on: frozenset[int]
    newest: int


@dataclass(frozen=True, slots=True)
class PrintedLines:
    """Lines that a process of a job has printed, as they are but for their newlines."""

    job: str
    key: AttemptKey
    lines: tuple[str, ...]


class LineSink(Protocol):
    """Where printed lines are passed on to."""

    def offer(self, printed: PrintedLines, on_room: Callable[[], None]) -> int:
        """Take the first of the lines, as many as there is room for, and return their number.

        It returns at once. Where it was not all of them ``on_room`` is called, from any thread,
        when there is room again; once, however often it was given.
        """
        ...


@dataclass(frozen=True, slots=True)
class Survivor:
    """A process of an earlier daemon that still runs.

    ``leader``: it leads its session, so it is the process that was started, not a descendant.
    ``uid`` is its real user's, None where that is not known: marks can be had by anybody.
    """

    tag: str
    attempt: int
    pid: int
    start_ticks: int
    leader: bool
    uid: int | None = None


class Processes(Protocol):
    """Starts, stops and watches processes. Every method returns at once.

    What happens is told as a ProcessEvent, from a thread of the runner's own: for each ``start``
    either one StartFailed, or one Started and later one Ended, with perhaps one LeftOver between.
    """

    def start(self, spec: ProcessSpec, *, at_ns: int | None = None) -> None:
        """Have a process started, now or at an instant of the monotonic clock, and not earlier."""
        ...

    def start_all(self, starts: Sequence[tuple[ProcessSpec, int | None]]) -> None:
        """Have each of these started, with its ``at_ns``, in this order."""
        ...

    def recall(self) -> None:
        """Make no starts any more that have an ``at_ns``, be it past; StartFailed tells of each.

        What is just being started, and cannot be recalled any more, starts as it would have.
        """
        ...

    def stop(self, key: AttemptKey, *, force: bool) -> None:
        """Send SIGTERM, or with ``force`` SIGKILL, to the whole tree of the process.

        From then on Ended waits for all of the tree. An unknown key is ignored: it has ended.
        """
        ...

    def tell_after_ends(self, event: object) -> None:
        """Tell an event, as it is, once the ends are told of what has ended by now."""
        ...

    def survivors(self, identity: str) -> list[Survivor]:
        """Return the processes that carry the mark of a run of the ledger of that identity."""
        ...

    def let_go_until(self) -> datetime | None:
        """Return up to which instant starts with a ``held_for`` may have been made in this boot.

        What was to be held for a later one has not begun, and nobody will begin it any more who was
        told to by an earlier daemon. None: nobody knows.
        """
        ...

    def note_starts(self) -> None:
        """Have it known what is let go: of all starts before it is entered what became of them."""
        ...

    def origin(self, survivor: Survivor) -> tuple[str, datetime] | None:
        """Return the job and the due instant that a survivor was started for, if it shows them."""
        ...

    def adopt(self, spec: ProcessSpec, survivor: Survivor) -> bool:
        """Watch a survivor as if it had been started here; False if it has just ended.

        ``spec`` is that of the attempt it belongs to; nothing is started.
        """
        ...

    def adopt_rest(self, spec: ProcessSpec, survivors: Sequence[Survivor]) -> bool:
        """Watch what is left of an attempt whose own process is gone; False if nothing is left.

        Ended comes when all of it is gone; how the attempt ended nobody can tell. ``stop`` ends
        it, as it ends what else of the tree is found. Whose processes are taken for the attempt's
        goes by the spec's users, as ``end_rest`` says.
        """
        ...

    def end_rest(self, spec: ProcessSpec, *, force: bool) -> None:
        """End what this and all earlier attempts of a run have left, of which none runs any more.

        What there is of it is found, and gets SIGTERM, or with ``force`` SIGKILL. ``spec`` is that
        of the newest attempt, whose Ended comes (once more) when nothing is left, perhaps at once.

        What shows the marks of the run is taken for its own if it belongs to a user of the spec, to
        root or to us, since everybody can put these marks on. Where one is not known anybody
        is believed: better that a stranger's process is ended that has asked for it than that the
        run's own lives on.
        """
        ...

    def settle(self, spec: ProcessSpec) -> None:
        """Bring the output of an attempt that ended unseen to its limit."""
        ...


class Errand(Protocol):
    """A process that the daemon has started for itself, and that is of no run."""

    def wait(self) -> int | None:
        """Wait for its end, and return its exit status; -N: signal N ended it; None: not known.

        It must be called once.
        """
        ...

    def kill(self) -> None:
        """End it at once. Not to be called once ``wait`` was."""
        ...


class StartErrand(Protocol):
    """Starts an errand."""

    def __call__(self, argv: Sequence[str], stdout: int) -> Errand:
        """Execute ``argv``, whose first is a path, with a descriptor as its standard output.

        Raises OSError.
        """
        ...
