"""A schedule that is later than another by a fixed span: how jobs due at one instant are spread.

The span is made from names and from nothing else, so it is the same each day and after a restart.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import MINYEAR, UTC, datetime, timedelta
from typing import Final

from crond_py.dataclass import dataclass
from crond_py.digest import sha256
from crond_py.schedule.instants import to_utc
from crond_py.schedule.kinds import Explaining, Schedule

_FIRST_INSTANT: Final = datetime.min.replace(tzinfo=UTC)
_LAST_INSTANT: Final = datetime.max.replace(tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_HASH_BYTES: Final = 8


@dataclass(frozen=True, slots=True)
class Shifted:
    """Due whenever ``schedule`` is, but later by ``by``, which is not negative."""

    schedule: Schedule
    by: timedelta

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first due instant strictly after ``instant``."""
        due = self.schedule.next_after(self._back(instant))
        try:
            return None if due is None else due + self.by
        except OverflowError:
            return None  # beyond the year 9999

    def latest_until(self, instant: datetime) -> datetime | None:
        """Return the newest due instant up to ``instant``."""
        due = self.schedule.latest_until(self._back(instant))
        return None if due is None else due + self.by

    def count(self, after: datetime, until: datetime) -> int:
        """Return how many are due in (after, until]."""
        return self.schedule.count(self._back(after), self._back(until))

    def occurrences(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield what is due in (start, end], in order, lazily."""
        found = self.schedule.occurrences(self._back(start), self._back(end))
        return (due + self.by for due in found)

    def explain(self, due: datetime) -> str:
        """Return how a change of the clocks moved a due instant, or "" if none did."""
        if not isinstance(self.schedule, Explaining):
            return ""
        return self.schedule.explain(self._back(due))

    def dropped(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        """Yield each change of the clocks that left something out, and what.

        Those are told whose own instant, not that of what they left out, is in (start, end] less
        the span.
        """
        if not isinstance(self.schedule, Explaining):
            return iter(())
        return self.schedule.dropped(self._back(start), self._back(end))

    def _back(self, instant: datetime) -> datetime:
        """Return the instant at which the schedule itself stood at ``instant``."""
        try:
            return to_utc(instant) - self.by
        except OverflowError:
            return _FIRST_INSTANT if instant.year == MINYEAR else _LAST_INSTANT


def spread(width: timedelta, *names: str) -> timedelta:
    """Return a span from nothing up to, and less than, ``width`` that is made from the names.

    It is whole milliseconds. Other names give another one, and all of them are equally likely.
    """
    text = "\0".join(names).encode("utf-8", "surrogatepass")
    number = int.from_bytes(sha256(text)[:_HASH_BYTES])
    return (width // _MILLISECOND * number >> 8 * _HASH_BYTES) * _MILLISECOND
