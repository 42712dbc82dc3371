"""Stretches of cycles that were skipped whole, and what is left of one besides what is known.

Jobs that are waited for together are told of as missed one by one, and each may have missed a
little more or less. Every cycle has one account: a row of its own, or one of a stretch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from datetime import datetime

from crond_py.dataclass import dataclass
from crond_py.policy import TICK, Occurrences


@dataclass(frozen=True, slots=True)
class Stretch:
    """So many cycles from the first to the last, of an era."""

    first: datetime
    last: datetime
    count: int
    era: int

    def has(self, due: datetime, era: int) -> bool:
        """Whether an instant of an era lies in it."""
        return era == self.era and self.first <= due <= self.last


def left_of(
    stretch: Stretch, known: Iterable[Stretch], schedule: Occurrences | None
) -> list[Stretch]:
    """Return what is left of a stretch without others of its era, by when its head is due.

    Where nobody knows that, as the head is gone, it is all one that lies behind the others.
    """
    left = [stretch]
    for each in known:
        if each.era == stretch.era:
            left = [rest for part in left for rest in _cut(part, each, schedule)]
    return left


def left_besides(
    stretch: Stretch, single: Collection[datetime], schedule: Occurrences | None
) -> Stretch | None:
    """Return what is left of a stretch without instants that have rows of their own.

    They are not counted, and it neither begins nor ends with one.
    """
    first, last, count = stretch.first, stretch.last, stretch.count - len(single)
    while count > 0 and first in single:
        first = _after(first, schedule)
    while count > 0 and last in single and first < last:
        last = _before(last, schedule)
    return replace(stretch, first=first, last=last, count=count) if count > 0 else None


def _cut(part: Stretch, known: Stretch, schedule: Occurrences | None) -> list[Stretch]:
    begin, end = max(part.first, known.first), min(part.last, known.last)
    if end < begin:
        return [part]
    is_whole = (begin, end) == (known.first, known.last)
    both = known.count if is_whole or schedule is None else schedule.count(begin - TICK, end)
    rest, left = part.count - both, []
    first = _after(end, schedule)
    if part.first < begin and rest > 0:
        number = rest
        if first <= part.last:
            number = schedule.count(part.first - TICK, begin - TICK) if schedule is not None else 1
        left.append(replace(part, last=_before(begin, schedule), count=min(number, rest)))
        rest -= number
    if first <= part.last and rest > 0:
        left.append(replace(part, first=first, count=rest))
    return left


def _after(instant: datetime, schedule: Occurrences | None) -> datetime:
    due = schedule.next_after(instant) if schedule is not None else None
    return due or instant + TICK


def _before(instant: datetime, schedule: Occurrences | None) -> datetime:
    due = schedule.latest_until(instant - TICK) if schedule is not None else None
    return due or instant - TICK
