"""What a schedule can be asked, and the two kinds that need no calendar.

A schedule is a fixed set of due instants. The instants it is asked with only filter the set, so
it gives the same answers after a restart. It never reads a clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

from crond_py.dataclass import dataclass
from crond_py.errors import ScheduleError
from crond_py.schedule.instants import to_utc


class Schedule(Protocol):
    """When something is due. Instants are aware; those returned are in UTC.

    It never changes, so it can be a key. Every method but that raises ValueError for an instant
    that has no offset from UTC.
    """

    def __hash__(self) -> int: ...

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first due instant strictly later, or None if there is none up to year 9999."""
        ...

    def latest_until(self, instant: datetime) -> datetime | None:
        """Return the newest due instant that is not later, or None if there is none."""
        ...

    def count(self, after: datetime, until: datetime) -> int:
        """Return how many are due later than ``after`` and not later than ``until``.

        They are not listed for this: ten years cost little more than a day.
        """
        ...

    def occurrences(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield each one later than ``start`` and not later than ``end``, in order, lazily."""
        ...


@runtime_checkable
class Explaining(Schedule, Protocol):
    """A schedule that goes by a zone's clocks, and can say what their changes did to it."""

    def explain(self, due: datetime) -> str:
        """Return how a change of the clocks moved a due instant, or "" if none did."""
        ...

    def dropped(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        """Yield each change of the clocks in (start, end] that left something out, and what."""
        ...


@dataclass(frozen=True, slots=True)
class Interval:
    """Due at ``anchor`` plus one, two, three ... times ``period``: a fixed rate.

    The arithmetic is exact to the microsecond however many periods there were.
    """

    anchor: datetime
    period: timedelta

    def __post_init__(self) -> None:
        if self.period <= timedelta(0):
            message = f"an interval must be longer than nothing, not {self.period!r}"
            raise ScheduleError(message, field="duration", allowed="more than 0s")
        object.__setattr__(self, "anchor", to_utc(self.anchor))

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first beat strictly after ``instant``."""
        return self._beat(self._beats_until(instant) + 1)

    def latest_until(self, instant: datetime) -> datetime | None:
        """Return the newest beat up to ``instant``; the anchor itself is none."""
        number = self._beats_until(instant)
        return self._beat(number) if number else None

    def count(self, after: datetime, until: datetime) -> int:
        """Return how many beats lie in (after, until]."""
        return max(0, self._beats_until(until) - self._beats_until(after))

    def occurrences(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield the beats in (start, end]."""
        first, last = self._beats_until(start) + 1, self._beats_until(end)
        return (self.anchor + number * self.period for number in range(first, last + 1))

    def _beats_until(self, instant: datetime) -> int:
        return max(0, (to_utc(instant) - self.anchor) // self.period)

    def _beat(self, number: int) -> datetime | None:
        try:
            return self.anchor + number * self.period
        except OverflowError:
            return None  # beyond the year 9999


@dataclass(frozen=True, slots=True)
class OneOff:
    """Due once."""

    instant: datetime

    def __post_init__(self) -> None:
        object.__setattr__(self, "instant", to_utc(self.instant))

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the instant while it is still to come."""
        return self.instant if self.instant > to_utc(instant) else None

    def latest_until(self, instant: datetime) -> datetime | None:
        """Return the instant once it has come."""
        return self.instant if self.instant <= to_utc(instant) else None

    def count(self, after: datetime, until: datetime) -> int:
        """Return 1 where the instant lies in (after, until], else 0."""
        return int(to_utc(after) < self.instant <= to_utc(until))

    def occurrences(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield the instant where it lies in (start, end]."""
        return iter([self.instant] * self.count(start, end))


def from_epoch(period: timedelta) -> Interval:
    """Return the interval that ``@every`` means: its beats are counted from the Unix epoch."""
    return Interval(datetime(1970, 1, 1, tzinfo=UTC), period)
