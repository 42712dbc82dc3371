"""The rules as pure functions on plain data: overlap, missed runs, retry, recovery.

Nothing here reads a clock, writes a ledger or knows a process. The engine asks, acts on the
answer, and records it. Where a stretch of time is given as (after, until), the first instant is
outside and the last inside, as everywhere in the project. What a step of the wall clock changes
is in ``clocksteps``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from enum import Enum, StrEnum, auto
from signal import SIGKILL, Signals
from typing import Protocol

from crond_py.dataclass import dataclass
from crond_py.model import (
    Cause,
    Condition,
    Cursor,
    Exit,
    Failure,
    Leftovers,
    Limits,
    Missed,
    OnCrash,
    Outcome,
    Overlap,
    Retry,
    State,
)
from crond_py.schedule import format_duration

TICK = timedelta(microseconds=1)
"""The resolution of every instant in the project."""

Stretch = tuple[datetime, datetime]


class Occurrences(Protocol):
    """What the rules need of a schedule; see ``crond_py.schedule``."""

    def next_after(self, instant: datetime, /) -> datetime | None: ...  # noqa: D102 - named there

    def latest_until(self, instant: datetime, /) -> datetime | None: ...  # noqa: D102

    def count(self, after: datetime, until: datetime, /) -> int: ...  # noqa: D102


# --- overlap ----------------------------------------------------------------------------------


class Admission(Enum):
    """What becomes of a run that is due now."""

    START = auto()
    QUEUE = auto()
    SKIP = auto()
    REPLACE = auto()


@dataclass(frozen=True, slots=True)
class OverlapDecision:
    """The answer, and for SKIP its code: ``overlap``, ``queue_full`` or ``max_running``."""

    admission: Admission
    code: str = ""


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a job is.

    ``active`` runs have a slot or wait for one, have a process or a retry to come; ``queued`` ones
    wait for those.
    """

    active: int
    queued: int


def decide_overlap(
    overlap: Overlap,
    cause: Cause,
    load: Load,
    *,
    queue_limit: int,
    max_running: int | None,
    is_overtaken: bool = False,
) -> OverlapDecision:
    """Say what becomes of an occurrence that is due while ``load`` is on its job.

    ``is_overtaken``: a newer one of it came first, as one that follows another job may come late.
    That is not replaced by an older one, which is skipped.

    Caught-up runs are never skipped for one another: with ``skip`` and ``queue`` they go one after
    the other, and their number is bounded by ``missed_limit``. Nor do they replace what runs, or
    one another: what they make up for is older.
    """
    if overlap is Overlap.ALLOW:
        is_free = max_running is None or load.active < max_running
    else:
        is_free = not load.active and not load.queued
    if is_free:
        return OverlapDecision(Admission.START)
    has_room = overlap is Overlap.QUEUE and load.queued < queue_limit
    if has_room or cause is Cause.CATCH_UP:
        return OverlapDecision(Admission.QUEUE)
    if overlap is Overlap.REPLACE and not is_overtaken:
        return OverlapDecision(Admission.REPLACE)
    return OverlapDecision(Admission.SKIP, _SKIP_CODES[overlap])


_SKIP_CODES = {
    Overlap.SKIP: "overlap",
    Overlap.REPLACE: "overlap",
    Overlap.QUEUE: "queue_full",
    Overlap.ALLOW: "max_running",
}


# --- dependencies -----------------------------------------------------------------------------


class Follow(Enum):
    """What becomes of a run that waits for others, by what is known of them."""

    WAIT = auto()
    RUN = auto()
    SKIP = auto()


_FAILURES = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.LOST})


def meets(condition: Condition, outcome: Outcome) -> bool:
    """Say whether a run that ended so is what a job that waits for it asks for."""
    match condition:
        case Condition.SUCCESS:
            return outcome is Outcome.SUCCEEDED
        case Condition.FAILURE:
            return outcome in _FAILURES
        case Condition.ANY:
            return True


def judge_upstream(condition: Condition, outcome: Outcome, missing: int) -> Follow:
    """Say whether a run that waits for others comes, now that one of them has ended.

    Those that had ended before have done so as asked, and so many are ``missing``.
    """
    if not meets(condition, outcome):
        return Follow.SKIP
    return Follow.WAIT if missing else Follow.RUN


# --- missed occurrences -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Dropped:
    """Missed occurrences that are not made up: one row of the ledger. ``why`` names the rule."""

    first: datetime
    last: datetime
    count: int
    why: str


@dataclass(frozen=True, slots=True)
class MissedPlan:
    """What to do about a gap: runs to catch up with, oldest first, and what is dropped.

    ``accounted_until`` is the newest occurrence of the gap.
    """

    catch_up: tuple[datetime, ...]
    dropped: Dropped | None
    accounted_until: datetime


@dataclass(frozen=True, slots=True)
class MissedRule:
    """A job's answer to missed occurrences: its ``missed``, ``missed_within``, ``missed_limit``."""

    missed: Missed
    within: timedelta | None
    limit: int

    @property
    def wanted(self) -> int:
        """How many occurrences may be made up at most."""
        return {Missed.SKIP: 0, Missed.ONCE: 1, Missed.ALL: self.limit}[self.missed]


def plan_missed(
    schedule: Occurrences, stretches: Iterable[Stretch], rule: MissedRule, now: datetime
) -> MissedPlan | None:
    """Say what becomes of the occurrences in ``stretches``; None where there are none.

    The cost does not grow with their number: they are counted, and only those that are made up
    are listed, from the newest backwards.
    """
    counted = [(a, u, schedule.count(a, u)) for a, u in stretches]
    counted = [item for item in counted if item[2]]
    if not counted:
        return None
    wanted = rule.wanted
    oldest = now - rule.within if rule.within is not None else None
    newest_first = _backwards(schedule, [(a, u) for a, u, _ in counted])
    newest = due = next(newest_first)
    keep: list[datetime] = []
    rest: datetime | None = due
    while rest is not None and len(keep) < wanted and (oldest is None or rest >= oldest):
        keep.append(rest)
        rest = next(newest_first, None)
    dropped = None
    if rest is not None:
        first = schedule.next_after(counted[0][0]) or rest
        total = sum(number for _, _, number in counted)
        dropped = Dropped(first, rest, total - len(keep), _why(rule, keep, rest, oldest))
    return MissedPlan(tuple(reversed(keep)), dropped, newest)


def _backwards(schedule: Occurrences, stretches: list[Stretch]) -> Iterator[datetime]:
    for after, until in reversed(stretches):
        due = schedule.latest_until(until)
        while due is not None and due > after:
            yield due
            due = schedule.latest_until(due - TICK)


def _why(rule: MissedRule, keep: list[datetime], rest: datetime, oldest: datetime | None) -> str:
    if rule.missed is Missed.SKIP:
        return 'missed = "skip"'
    if rule.missed is Missed.ONCE and keep:
        return 'only the newest is made up, missed = "once"'
    if oldest is not None and rest < oldest:
        return "older than missed_within"
    return f"beyond missed_limit = {rule.limit}"


def unaccounted(cursor: Cursor, until: datetime) -> list[Stretch]:
    """Return the stretches up to ``until`` whose occurrences have no row yet."""
    after, stretches = cursor.accounted_until, []
    for barrier_from, barrier_until in cursor.barriers:
        stretches.append((after, min(until, barrier_from)))
        after = max(after, barrier_until)
    stretches.append((after, until))
    return [(after, upto) for after, upto in stretches if after < upto]


def is_accounted(cursor: Cursor, due: datetime) -> bool:
    """Tell whether an occurrence has its row, or may not have one any more."""
    return all(not after < due <= until for after, until in unaccounted(cursor, due))


def next_unaccounted(schedule: Occurrences, cursor: Cursor) -> datetime | None:
    """Return the first occurrence that has no row yet.

    Raises ArithmeticError where the schedule answers with an instant that is not later than the
    one it was asked for: such a schedule would be due for ever.
    """
    due = _strictly_after(schedule, cursor.accounted_until)
    for barrier_from, barrier_until in cursor.barriers:
        if due is not None and barrier_from < due <= barrier_until:
            due = _strictly_after(schedule, barrier_until)
    return due


def _strictly_after(schedule: Occurrences, instant: datetime) -> datetime | None:
    due = schedule.next_after(instant)
    if due is not None and due <= instant:
        message = f"the schedule is due at {due.isoformat()}, not after {instant.isoformat()}"
        raise ArithmeticError(message)
    return due


def advance(cursor: Cursor, due: datetime) -> Cursor:
    """Return the cursor once everything up to ``due`` has its row; passed barriers go."""
    if not cursor.barriers:
        return replace(cursor, accounted_until=due)
    barriers = tuple(each for each in cursor.barriers if each[1] > due)
    return replace(cursor, accounted_until=due, barriers=barriers)


# --- how an attempt ended -----------------------------------------------------------------------

_BY_SIGNAL = 128  # what a shell adds to the number of a signal, see sh(1)
_NEAR_LIMIT = 0.75


def judge_exit(
    exit_: Exit, success_codes: frozenset[int], limits: Limits = Limits()
) -> tuple[Outcome, str]:
    """Say whether a process that ended by itself succeeded, and if not, why in words.

    A limit on CPU time is named where it is probably what has killed the process.
    """
    if exit_.code is not None:
        if exit_.code in success_codes:
            return Outcome.SUCCEEDED, ""
        return Outcome.FAILED, f"exit status {exit_.code}{_limit_text(exit_, limits)}"
    if exit_.signal is not None:
        signal = _signal_text(exit_.signal)
        return Outcome.FAILED, f"ended by signal {signal}{_limit_text(exit_, limits)}"
    return Outcome.LOST, "ended while pycron could not see its exit status"


def _limit_text(exit_: Exit, limits: Limits) -> str:
    """Name the limit on CPU time where a process was killed near it, see getrlimit(2).

    A shell that runs a command tells its signal by an exit status. The kernel goes by the ticks of
    the clock there, and wait4(2) tells what was really used: up to a quarter less, on a machine
    that others use, too.
    """
    was_killed = SIGKILL in {exit_.signal, (exit_.code or 0) - _BY_SIGNAL}
    if not was_killed or limits.cpu is None or exit_.cpu is None:
        return ""
    is_near = exit_.cpu >= limits.cpu * _NEAR_LIMIT
    return f", probably by limits.cpu ({format_duration(limits.cpu)})" if is_near else ""


def _signal_text(number: int) -> str:
    """Return a signal's number and, where it has one here, its name (signal(7))."""
    try:
        return f"{number} ({Signals(number).name})"
    except ValueError:  # a real-time signal
        return str(number)


def wants_retry(outcome: Outcome, attempt: int, retry: Retry) -> bool:
    """Say whether attempt number ``attempt`` that ended so is followed by another."""
    return outcome in {Outcome.FAILED, Outcome.TIMED_OUT} and attempt < retry.attempts


def is_retryable(
    outcome: Outcome, exit_: Exit | None, retry_on: frozenset[int | Failure] | None
) -> bool:
    """Say whether ``retry_on`` names the way an attempt failed; None names every one."""
    return retry_on is None or _failure(outcome, exit_) in retry_on


def _failure(outcome: Outcome, exit_: Exit | None) -> int | Failure | None:
    if outcome is Outcome.TIMED_OUT:
        return Failure.TIMEOUT
    if exit_ is None:
        return Failure.START
    return exit_.code if exit_.signal is None else Failure.SIGNAL


def retry_delay(retry: Retry, attempt: int, fraction: float) -> timedelta:
    """Return how long to wait after attempt number ``attempt``.

    ``fraction`` in [0, 1) says how much of ``retry.jitter`` is added.
    """
    try:
        delay = min(retry.delay * retry.backoff ** (attempt - 1), retry.max_delay)
    except OverflowError:
        delay = retry.max_delay
    return delay + retry.jitter * fraction


# --- after a crash ------------------------------------------------------------------------------


MOST_RERUNS = 3
"""How often ``on_crash = "rerun"`` runs one occurrence again: it may be what brings us down."""


class Recovery(StrEnum):
    """What a restarted daemon does with a run that has no outcome.

    ADOPT: its process goes on under our eyes. ADOPT_REST: which of the processes that live is its
    own nobody knows, so all are watched. END_REST: its process is gone, and what that has left is
    ended first. STOPPED: it was being ended and is gone, so that is its outcome.
    """

    ADOPT = "adopt"
    ADOPT_REST = "adopt_rest"
    END_REST = "end_rest"
    STOPPED = "stopped"
    REQUEUE = "requeue"
    RERUN = "rerun"
    LOST = "lost"
    REMOVED = "removed"


class Remains(Enum):
    """What still lives of an attempt: nothing, descendants without their leader, or all."""

    NOTHING = auto()
    REST = auto()
    LEADER = auto()


def decide_recovery(
    state: State,
    *,
    remains: Remains,
    was_seen: bool,
    stopping: Outcome | None,
    leftovers: Leftovers,
    wants_rerun: bool,
    job_exists: bool,
) -> Recovery:
    """Say what becomes of an open run found at the start of the daemon.

    A process that still runs is adopted, whatever became of its job. What a process has left that
    is gone is no run any more, as it would not be had we seen the end (a service that a job has
    started would hold it for ever); but where its start was not entered (``was_seen``), what is
    found may be the process itself, and holds the job. One that is gone was being
    ended (``stopping``), or was cut short, or ended unseen: then ``wants_rerun`` decides. A run
    that never began an attempt, or waits for its next one, goes on waiting, unless its job was
    removed.
    """
    if state is not State.RUNNING:
        return Recovery.REQUEUE if job_exists else Recovery.REMOVED
    if remains is Remains.LEADER:
        return Recovery.ADOPT
    if remains is Remains.REST:
        if stopping or leftovers is Leftovers.KILL:
            return Recovery.END_REST
        if not was_seen:
            return Recovery.ADOPT_REST
    if stopping:
        return Recovery.STOPPED
    return Recovery.RERUN if wants_rerun and job_exists else Recovery.LOST


def wants_rerun(on_crash: OnCrash, lost_attempts: int) -> bool:
    """Say whether a run is run again after a crash; ``lost_attempts``: how many were, this too."""
    return on_crash is OnCrash.RERUN and lost_attempts <= MOST_RERUNS
