"""An interval that keeps to a zone's clocks: due whenever they show a multiple of its period.

It follows the clocks through their changes exactly as a cron expression for every so many minutes
does (``timeline``): due on both passes of readings that are repeated, and not for readings that
are skipped. What is due does not depend on when it was first asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from datetime import datetime, timedelta
from typing import Final

from crond_py.dataclass import dataclass
from crond_py.errors import ScheduleError
from crond_py.model import DstFold, DstGap
from crond_py.schedule.cron import CronSchedule, Rule
from crond_py.schedule.instants import (
    DAY,
    EPOCH,
    FIRST_SECOND,
    HOUR,
    LAST_SECOND,
    MINUTE,
    to_instant,
    to_second,
)
from crond_py.schedule.zones import Zone, zone_of

_SECOND: Final = timedelta(seconds=1)
_NOTHING: Final = timedelta(0)


@dataclass(frozen=True, slots=True)
class Aligned:
    """Due at every instant at which the clocks of ``zone`` show k times ``period`` plus ``offset``.

    Readings count from local midnight, so the period is whole seconds and divides a day evenly;
    the offset is less than the period. Raises ScheduleError for others, and for an unknown zone.
    """

    zone: str
    period: timedelta
    offset: timedelta = _NOTHING
    _clocks: Zone = field(init=False, repr=False, compare=False)
    _step: int = field(init=False, repr=False, compare=False)
    _first: int = field(init=False, repr=False, compare=False)
    _fraction: timedelta = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        step, rest = divmod(self.period, _SECOND)
        if step <= 0 or rest or DAY % step:
            message = f"{self.period!r} is not whole seconds that divide a day evenly"
            raise ScheduleError(message, field="duration", allowed="such as 15m or 6h")
        if not _NOTHING <= self.offset < self.period:
            message = f"an offset of {self.offset!r} is not less than the period"
            raise ScheduleError(message, field="duration", allowed="0s or more")
        first, fraction = divmod(self.offset, _SECOND)
        object.__setattr__(self, "_clocks", zone_of(self.zone))
        object.__setattr__(self, "_step", step)
        object.__setattr__(self, "_first", first)
        object.__setattr__(self, "_fraction", fraction)

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first due instant strictly after ``instant``, or None up to the year 9999."""
        return self._instant(self._first_from(self._second(instant) + 1))

    def latest_until(self, instant: datetime) -> datetime | None:
        """Return the newest due instant up to ``instant``, or None back to the year 1."""
        return self._instant(self._last_until(self._second(instant)))

    def count(self, after: datetime, until: datetime) -> int:
        """Return how many are due in (after, until]; changes of the clocks are walked, no more."""
        start, end = self._second(after) + 1, self._second(until) + 1
        if start >= end:
            return 0
        return sum(
            self._readings_before(min(end, piece.end) + piece.offset)
            - self._readings_before(max(start, piece.start) + piece.offset)
            for piece in self._clocks.pieces(start, end)
        )

    def occurrences(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield what is due in (start, end], in order, lazily."""
        return self._occurrences(self._second(start) + 1, self._second(end))

    def explain(self, due: datetime) -> str:
        """Return "": a change of the clocks moves nothing here."""
        del due
        return ""

    def dropped(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        """Yield each change of the clocks in (start, end] that left something out, and what.

        A period of an hour or less just follows the clocks; nothing of it is missed.
        """
        if self._step <= HOUR:
            return iter(())
        return self._as_cron().dropped(start, end)

    def _as_cron(self) -> CronSchedule:
        """Return the cron schedule that is due at the same instants, but for the fraction."""
        times = tuple(
            f"{time % MINUTE} {time % HOUR // MINUTE} {time // HOUR} * * *"
            for time in range(self._first, DAY, self._step)
        )
        return CronSchedule(times, Rule(self._clocks, DstGap.SKIP, DstFold.BOTH))

    def _second(self, instant: datetime) -> int:
        """Return the last second that is not after ``instant`` with the fraction added to it."""
        second = to_second(instant)
        is_early = instant - EPOCH - second * _SECOND < self._fraction
        return second - is_early

    def _instant(self, second: int | None) -> datetime | None:
        return None if second is None else to_instant(second) + self._fraction

    def _readings_before(self, reading: int) -> int:
        """Return how many due readings come before ``reading``, from a fixed one on."""
        return (reading - 1 - self._first) // self._step

    def _first_from(self, start: int) -> int | None:
        while True:
            pieces = self._clocks.pieces_from(start)
            for piece in pieces:
                if piece.end > start:
                    begin = max(start, piece.start)
                    due = begin + (self._first - begin - piece.offset) % self._step
                    if due < piece.end:
                        return due if due <= LAST_SECOND else None
            start = pieces[-1].end

    def _last_until(self, end: int) -> int | None:
        while True:
            pieces = self._clocks.pieces_from(end)
            for piece in reversed(pieces):
                if piece.start <= end:
                    finish = min(end, piece.end - 1)
                    due = finish - (finish + piece.offset - self._first) % self._step
                    if due >= piece.start:
                        return due if due >= FIRST_SECOND else None
            end = pieces[0].start - 1

    def _occurrences(self, start: int, last: int) -> Iterator[datetime]:
        due = self._first_from(start) if start <= last else None
        while due is not None and due <= last:
            yield to_instant(due) + self._fraction
            due = self._first_from(due + 1)
