"""The wall-clock readings that an expression names: its days and its times together.

There are no zones here: a reading is in seconds since 1970-01-01 00:00 on the wall clock, as if
every day had 24 hours. ``timeline`` says at which instants a zone's clocks show them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date
from typing import Final, NamedTuple

from crond_py.schedule.days import Days
from crond_py.schedule.instants import DAY
from crond_py.schedule.times import Times, as_set, below, from_

_FIRST_DAY: Final = date.min.toordinal()
_LAST_DAY: Final = date.max.toordinal()
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_ALL_DAYS: Final = (1 << 32) - 2  # 1 to 31


class Readings(NamedTuple):
    """Every time on every day, in the years 1 to 9999."""

    days: Days
    times: Times

    def at_or_after(self, reading: int) -> int | None:
        """Return the first reading that is not before ``reading``, or None."""
        ordinal, time = _split(reading)
        if ordinal > _LAST_DAY:
            return None
        day = self.days.at_or_after(max(ordinal, _FIRST_DAY))
        if day == ordinal:
            found = self.times.at_or_after(time)
            if found is not None:
                return _join(day, found)
            day = self.days.at_or_after(day + 1) if day < _LAST_DAY else None
        return None if day is None else _join(day, self.times.first)

    def at_or_before(self, reading: int) -> int | None:
        """Return the last reading that is not after ``reading``, or None."""
        ordinal, time = _split(reading)
        if ordinal < _FIRST_DAY:
            return None
        day = self.days.at_or_before(min(ordinal, _LAST_DAY))
        if day == ordinal:
            found = self.times.at_or_before(time)
            if found is not None:
                return _join(day, found)
            day = self.days.at_or_before(day - 1) if day > _FIRST_DAY else None
        return None if day is None else _join(day, self.times.last)

    def includes(self, reading: int) -> bool:
        """Tell whether ``reading`` is one of them."""
        return self.at_or_after(reading) == reading


def count_readings(sets: Sequence[Readings], start: int, end: int) -> int:
    """Return how many readings of any of ``sets`` lie in [start, end), each counted once.

    Months are walked, not days or readings.
    """
    if start >= end or not sets:
        return 0
    first, first_time = _split(start)
    last, last_time = _split(end)
    number = _count_whole_days(sets, first, last)
    return number - _count_before(sets, first, first_time) + _count_before(sets, last, last_time)


def _count_whole_days(sets: Sequence[Readings], first: int, end: int) -> int:
    sizes: dict[frozenset[Times], int] = {}
    number = 0
    for year, month, days in _months(first, end):
        for mask, times in _by_times(sets, year, month, days):
            size = sizes.get(times)
            if size is None:
                size = sizes[times] = _union_size(times)
            number += mask.bit_count() * size
    return number


def _months(first: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield each year and month of the days [first, end), with the set of its days in there."""
    first, last = max(first, _FIRST_DAY), min(end - 1, _LAST_DAY)
    if first > last:
        return
    begin, finish = date.fromordinal(first), date.fromordinal(last)
    year, month, days = begin.year, begin.month, from_(_ALL_DAYS, begin.day)
    while (year, month) < (finish.year, finish.month):
        yield year, month, days
        year, month, days = year + month // 12, month % 12 + 1, _ALL_DAYS
    yield year, month, below(days, finish.day + 1)


def _by_times(
    sets: Sequence[Readings], year: int, month: int, days: int
) -> list[tuple[int, frozenset[Times]]]:
    """Group the days of a month by which times they have."""
    if len(sets) == 1:
        readings = sets[0]
        return [(readings.days.in_month(year, month) & days, frozenset((readings.times,)))]
    groups: list[tuple[int, frozenset[Times]]] = [(days, frozenset())]
    for readings in sets:
        mask = readings.days.in_month(year, month)
        groups = [
            group
            for days, times in groups
            for group in ((days & mask, times | {readings.times}), (days & ~mask, times))
            if group[0]
        ]
    return groups


def _count_before(sets: Sequence[Readings], ordinal: int, time: int) -> int:
    """Return how many readings that day has before ``time``."""
    if not time or not _FIRST_DAY <= ordinal <= _LAST_DAY:
        return 0
    times = frozenset(readings.times for readings in sets if readings.days.includes(ordinal))
    if len(times) == 1:
        return next(iter(times)).count_before(time)
    return below(_union(times), time).bit_count()


def _union_size(times: frozenset[Times]) -> int:
    return next(iter(times)).size if len(times) == 1 else _union(times).bit_count()


def _union(times: frozenset[Times]) -> int:
    whole = 0
    for some in times:
        whole |= as_set(some)
    return whole


def _split(reading: int) -> tuple[int, int]:
    day, time = divmod(reading, DAY)
    return day + _EPOCH_DAY, time


def _join(ordinal: int, time: int) -> int:
    return (ordinal - _EPOCH_DAY) * DAY + time
