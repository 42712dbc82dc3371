"""A cron schedule: one expression, or the union of several, in one zone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import MAXYEAR, UTC, datetime
from functools import lru_cache
from typing import Final, NamedTuple

from crond_py.model import DstFold, DstGap
from crond_py.schedule import changes
from crond_py.schedule.expression import read_expression
from crond_py.schedule.instants import to_instant, to_second
from crond_py.schedule.readings import count_readings
from crond_py.schedule.timeline import Timeline
from crond_py.schedule.zones import Piece, Zone

_READ_AT_ONCE: Final = 128
"""Of so many schedules it is kept what was read; of the others it is read again when asked for."""


class Rule:
    """What schedules have in common whose expressions mean the same: it is compared by identity.

    ``hash_key`` is what ``H`` is made from.
    """

    __slots__ = ("fold", "gap", "hash_key", "zone")

    def __init__(self, zone: Zone, gap: DstGap, fold: DstFold, hash_key: str = "") -> None:
        self.zone = zone
        self.gap = gap
        self.fold = fold
        self.hash_key = hash_key


class _Gap(NamedTuple):
    """Strictly between two instants nothing is due; at ``end`` it is."""

    after: datetime
    end: datetime


class CronSchedule:
    """Due whenever one of the expressions is. It never changes and may be shared.

    What is due is a whole second; an instant at which several expressions are due counts once.
    The gap that was last found is remembered: a crontab of many jobs has few schedules, and asks
    each of them the same once for every job. What the expressions mean is not, as most of many
    schedules are asked nothing for a long time.

    Raises ScheduleError where one of the texts is no expression, or one that is never due.
    """

    __slots__ = ("_gap", "_rule", "_texts")

    def __init__(self, texts: tuple[str, ...], rule: Rule) -> None:
        self._texts = texts
        self._rule = rule
        self._gap: _Gap | None = None
        _read(texts, rule)

    @property
    def _timelines(self) -> tuple[Timeline, ...]:
        return _read(self._texts, self._rule)

    @property
    def _zone(self) -> Zone:
        return self._rule.zone

    def __repr__(self) -> str:
        expressions = ", ".join(repr(line.expression.text) for line in self._timelines)
        return f"<CronSchedule {expressions} in {self._zone.name}>"

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first due instant strictly after ``instant``, or None up to the year 9999."""
        start = to_second(instant) + 1  # ValueError where it is none
        gap = self._gap
        if gap is None or not gap.after <= instant < gap.end:
            due = self._first_from(start)
            if due is None:
                return None
            # Of the first and the last year there is not all in UTC.
            after = instant.astimezone(UTC) if 1 < instant.year < MAXYEAR else instant
            gap = self._gap = _Gap(after, to_instant(due))
        return gap.end

    def latest_until(self, instant: datetime) -> datetime | None:
        """Return the newest due instant up to ``instant``, or None back to the year 1."""
        second = to_second(instant)
        found = [due for line in self._timelines if (due := line.last_until(second)) is not None]
        return to_instant(max(found)) if found else None

    def count(self, after: datetime, until: datetime) -> int:
        """Return how many are due in (after, until]; months are walked, not what is due."""
        start, end = to_second(after) + 1, to_second(until) + 1
        gap = self._gap
        if gap is not None and gap.after <= after and until < gap.end:
            return 0
        return sum(self._count_in(piece, start, end) for piece in self._zone.pieces(start, end))

    def occurrences(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Yield what is due in (start, end], in order, lazily."""
        return map(to_instant, self._occurrences(to_second(start) + 1, to_second(end)))

    def explain(self, due: datetime) -> str:
        """Return how a change of the clocks moved a due instant, or "" if none did."""
        return changes.explain_due(self._zone, self._timelines, to_second(due))

    def dropped(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        """Yield each change of the clocks in (start, end] that left something out, and what.

        An expression for every hour is left alone: it follows the clocks.
        """
        first, last = to_second(start) + 1, to_second(end)
        for second, text in changes.left_out(self._zone, self._timelines, first, last):
            yield to_instant(second), text

    def _first_from(self, start: int) -> int | None:
        timelines = self._timelines
        if len(timelines) == 1:
            return timelines[0].first_from(start)
        found = [due for line in timelines if (due := line.first_from(start)) is not None]
        return min(found, default=None)

    def _occurrences(self, start: int, last: int) -> Iterator[int]:
        due = self._first_from(start) if start <= last else None
        while due is not None and due <= last:
            yield due
            due = self._first_from(due + 1)

    def _count_in(self, piece: Piece, start: int, end: int) -> int:
        timelines = self._timelines
        taken = [line.readings for line in timelines if piece.turn is not line.left_out]
        first, offset = max(start, piece.start), piece.offset
        number = count_readings(taken, first + offset, min(end, piece.end) + offset)
        if first == piece.start and any(line.makes_up_at(piece) for line in timelines):
            # One occurrence, however many readings were skipped, unless the instant counts already.
            number += not any(readings.includes(first + offset) for readings in taken)
        return number


def forget_read() -> None:
    """Keep nothing of what expressions mean; it is read again when it is asked for."""
    _read.cache_clear()


@lru_cache(maxsize=_READ_AT_ONCE)
def _read(texts: tuple[str, ...], rule: Rule) -> tuple[Timeline, ...]:
    """Return what expressions mean, each once."""
    expressions = dict.fromkeys(read_expression(text, rule.hash_key) for text in texts)
    return tuple(Timeline(each, rule.zone, rule.gap, rule.fold) for each in expressions)
