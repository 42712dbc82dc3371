"""When a task is due: one small class for each kind.

A trigger holds its next due instant, says which deadline that is, and moves on when it is taken.
It reads no clock: it is told the moment. Elapsed-time triggers count on the monotonic clock and
never look at the wall clock; the others hold a wall-clock instant, whose deadline is worked out
again when that clock is set.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Protocol

from crond_py.clock import EPOCH, to_ns
from crond_py.clocksteps import NEW_TIME_AFTER
from crond_py.dataclass import dataclass
from crond_py.model import Missed
from crond_py.policy import TICK, Occurrences

LATE = timedelta(seconds=1)
"""What is found later than this after its instant was missed, not merely late."""

EARLY = timedelta(milliseconds=1)
"""A wall-clock instant is not due that is further off than this: the clock was set."""

MISSED_LIMIT = 100
"""How many missed instants ``missed="all"`` makes up at most."""

_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Moment:
    """One reading of both clocks; ``offset_ns`` is how far the wall clock is ahead."""

    monotonic_ns: int
    offset_ns: int

    @property
    def wall(self) -> datetime:
        """The wall clock's reading."""
        return self.wall_at(self.monotonic_ns)

    def wall_at(self, monotonic_ns: int) -> datetime:
        """Return what the wall clock reads at a monotonic instant."""
        return EPOCH + _MICROSECOND * ((monotonic_ns + self.offset_ns) // 1000)

    def deadline_of(self, instant: datetime) -> int:
        """Return the monotonic instant of a wall-clock one."""
        return to_ns(instant - EPOCH) - self.offset_ns


class Trigger(Protocol):
    """When a task is due next, and after that. ``repeats``: it may be due more than once."""

    repeats: bool

    @property
    def is_exhausted(self) -> bool:
        """True when it will not be due again."""
        ...

    def deadline_ns(self, moment: Moment) -> int | None:
        """Return when it is next due by the monotonic clock; None while it cannot be known."""
        ...

    def take(self, moment: Moment) -> int:
        """Move on past everything due by now; return how many runs that makes."""
        ...

    def run_ended(self, monotonic_ns: int) -> None:
        """Hear that the task's last active run has ended."""
        ...

    def clock_set(self, moment: Moment) -> None:
        """Hear that the wall clock was set."""
        ...


class _Base:
    """A trigger that does not care about the end of runs or the wall clock."""

    repeats = True

    def run_ended(self, monotonic_ns: int) -> None:
        """Ignore it."""

    def clock_set(self, moment: Moment) -> None:
        """Ignore it."""


class Never(_Base):
    """Not due any more."""

    repeats = False
    is_exhausted = True

    def deadline_ns(self, moment: Moment) -> int | None:  # noqa: ARG002 - the Trigger's form
        """Return None."""
        return None

    def take(self, moment: Moment) -> int:  # noqa: ARG002 - the Trigger's form
        """Return 0."""
        return 0


class Once(_Base):
    """Due once, at an instant of the monotonic clock."""

    repeats = False

    def __init__(self, due_ns: int) -> None:
        self._due_ns: int | None = due_ns

    @property
    def is_exhausted(self) -> bool:
        """True once it was due."""
        return self._due_ns is None

    def deadline_ns(self, moment: Moment) -> int | None:  # noqa: ARG002 - the Trigger's form
        """Return the instant."""
        return self._due_ns

    def take(self, moment: Moment) -> int:  # noqa: ARG002 - the Trigger's form
        """Return 1, the first time; however late it is."""
        self._due_ns = None
        return 1


class OnceAt(_Base):
    """Due once, when the wall clock shows an instant or a later one."""

    repeats = False

    def __init__(self, due: datetime) -> None:
        self._due: datetime | None = due

    @property
    def is_exhausted(self) -> bool:
        """True once it was due."""
        return self._due is None

    def deadline_ns(self, moment: Moment) -> int | None:
        """Return the deadline by the wall clock as it is set now."""
        return None if self._due is None else moment.deadline_of(self._due)

    def take(self, moment: Moment) -> int:
        """Return 1 once the wall clock has got there, however late it is."""
        if self._due is None or self._due - moment.wall > EARLY:
            return 0
        self._due = None
        return 1


class FixedRate(_Base):
    """Due on a grid of the monotonic clock that runs on, whatever the runs do."""

    is_exhausted = False

    def __init__(self, first_ns: int, period_ns: int, missed: Missed) -> None:
        self._due_ns = first_ns
        self._period_ns = period_ns
        self._missed = missed

    def deadline_ns(self, moment: Moment) -> int | None:  # noqa: ARG002 - the Trigger's form
        """Return the next beat."""
        return self._due_ns

    def take(self, moment: Moment) -> int:
        """Move to the first beat that is still to come."""
        late_ns = moment.monotonic_ns - self._due_ns
        if late_ns < 0:
            return 0
        number = late_ns // self._period_ns + 1
        self._due_ns += number * self._period_ns
        lateness = _MICROSECOND * (late_ns % self._period_ns // 1000)
        return _runs_for(self._missed, number, lateness)


class FixedDelay(_Base):
    """Due a time after the end of the run before."""

    is_exhausted = False

    def __init__(self, first_ns: int, delay_ns: int) -> None:
        self._due_ns: int | None = first_ns
        self._delay_ns = delay_ns

    def deadline_ns(self, moment: Moment) -> int | None:  # noqa: ARG002 - the Trigger's form
        """Return the instant; None while a run is active."""
        return self._due_ns

    def take(self, moment: Moment) -> int:  # noqa: ARG002 - the Trigger's form
        """Return 1; the next instant is known when that run has ended."""
        self._due_ns = None
        return 1

    def run_ended(self, monotonic_ns: int) -> None:
        """Count the delay from here."""
        self._due_ns = monotonic_ns + self._delay_ns


class Calendar(_Base):
    """Due whenever a schedule says so, by the wall clock.

    A clock that is set back brings nothing again that was due before; set back by more than
    three hours it shows a new time, and the schedule is followed from there (design, 5).
    """

    def __init__(self, schedule: Occurrences, missed: Missed, moment: Moment) -> None:
        self._schedule = schedule
        self._missed = missed
        self._latest_seen = moment.wall
        self._due = self._next_after(moment.wall)

    @property
    def is_exhausted(self) -> bool:
        """True when the schedule has no further instant."""
        return self._due is None

    def deadline_ns(self, moment: Moment) -> int | None:
        """Return the deadline by the wall clock as it is set now."""
        return None if self._due is None else moment.deadline_of(self._due)

    def take(self, moment: Moment) -> int:
        """Move to the first instant that is still to come."""
        due, now = self._due, moment.wall
        if due is None or due - now > EARLY:
            return 0
        now = max(now, due)
        self._latest_seen = max(self._latest_seen, now)
        newest, number = due, 1
        self._due = self._next_after(due)
        if self._due is not None and self._due <= now:
            newest = self._schedule.latest_until(now) or due
            number = self._schedule.count(due - TICK, now)
            self._due = self._next_after(now)
        return _runs_for(self._missed, number, now - newest)

    def clock_set(self, moment: Moment) -> None:
        """Take up a new time; otherwise wait for the same instant as before."""
        if moment.wall < self._latest_seen - NEW_TIME_AFTER:
            self._latest_seen = moment.wall
            self._due = self._next_after(moment.wall)

    def _next_after(self, instant: datetime) -> datetime | None:
        due = self._schedule.next_after(instant)
        if due is not None and due <= instant:
            # It would be due for ever.
            message = f"the schedule is due at {due.isoformat()}, not after {instant.isoformat()}"
            raise ArithmeticError(message)
        return due


def _runs_for(missed: Missed, number: int, lateness: timedelta) -> int:
    """Say how many runs ``number`` due instants make, of which the newest is so late."""
    if missed is Missed.ALL:
        return min(number, MISSED_LIMIT)
    if missed is Missed.ONCE:
        return 1
    return int(lateness <= LATE)
