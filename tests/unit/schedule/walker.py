"""An oracle for schedules: look at the wall clock in every minute, and ask whether cron would run.

It is written from crontab(5) and from the rule of Debian's cron for clock changes, and shares
nothing with the package. It is slow and plain on purpose: it walks real minutes in UTC, looks up
what the wall clock shows in each, and notices by itself which readings come twice or never.

It knows the grammar as far as the tests use it and believes that what it is given is correct. It
wants changes of the clocks at full minutes, so nothing before 1973.
"""

from __future__ import annotations

import calendar
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
THREE_HOURS = timedelta(hours=3)

MONTHS = {name.upper(): number for number, name in enumerate(calendar.month_abbr) if name}
WEEKDAYS = {"SUN": 0, "MON": 1, "TUE": 2, "WED": 3, "THU": 4, "FRI": 5, "SAT": 6}


@dataclass(frozen=True)
class Tick:
    """One minute: the instant, what the wall clock shows, and what it has just jumped over.

    ``turn`` is 0 for a reading that is shown once, 1 and 2 for the two of one that is repeated.
    """

    utc: datetime
    wall: datetime
    skipped: tuple[datetime, ...]
    turn: int


@lru_cache(maxsize=512)
def ticks(zone: str, start: datetime, end: datetime) -> tuple[Tick, ...]:
    """Return every full minute in (start, end]."""
    info = ZoneInfo(zone)
    first = start.replace(second=0, microsecond=0)
    # Three hours more on each side: a reading's other showing may lie there.
    count = (end - first + 2 * THREE_HOURS) // MINUTE
    instants = [first - THREE_HOURS + n * MINUTE for n in range(count + 1)]
    walls = [instant.astimezone(info).replace(tzinfo=None) for instant in instants]
    shown: dict[datetime, list[datetime]] = {}
    for instant, wall in zip(instants, walls, strict=True):
        shown.setdefault(wall, []).append(instant)
    skipped = {}
    for (_, before), (instant, after) in pairwise(zip(instants, walls, strict=True)):
        lost = after - before - MINUTE
        if timedelta(0) < lost < THREE_HOURS:
            skipped[instant] = tuple(before + n * MINUTE for n in range(1, lost // MINUTE + 1))
    return tuple(
        Tick(instant, wall, skipped.get(instant, ()), _turn(instant, shown[wall]))
        for instant, wall in zip(instants, walls, strict=True)
        if start < instant <= end
    )


def _turn(instant: datetime, showings: list[datetime]) -> int:
    near = [other for other in showings if abs(other - instant) < THREE_HOURS]
    return near.index(instant) + 1 if len(near) > 1 else 0


def _numbers(text: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    found: set[int] = set()
    for item in text.upper().split(","):
        span, _, step = item.partition("/")
        if span == "*":
            first, last = low, high
        else:
            ends = [names[end] if end in names else int(end) for end in span.split("-")]
            first, last = ends[0], (high if step and len(ends) == 1 else ends[-1])
        found.update(range(first, last + 1, int(step or 1)))
    return found


def _is_date(text: str, day: date) -> bool:
    last = calendar.monthrange(day.year, day.month)[1]
    return any(
        day.day == last if item == "L" else day.day in _numbers(item, 1, 31, {})
        for item in text.upper().split(",")
    )


def _is_weekday(text: str, day: date) -> bool:
    today = (day.weekday() + 1) % 7
    last = calendar.monthrange(day.year, day.month)[1]
    for item in text.upper().split(","):
        if "#" in item:
            weekday, _, week = item.partition("#")
            wanted, also = _numbers(weekday, 0, 7, WEEKDAYS), (day.day - 1) // 7 + 1 == int(week)
        elif item.endswith("L") or (item.startswith("L") and item[1:].isdigit()):
            wanted, also = _numbers(item.strip("L"), 0, 7, WEEKDAYS), day.day + 7 > last
        else:
            wanted, also = _numbers(item, 0, 7, WEEKDAYS), True
        if also and today in {number % 7 for number in wanted}:
            return True
    return False


class Cron:
    """One expression, read field by field."""

    def __init__(self, expression: str) -> None:
        fields = expression.split()
        self.seconds = _numbers(fields[0], 0, 59, {}) if len(fields) == 6 else {0}
        minute, hour, self._date, month, self._weekday = fields[-5:]
        self.minutes = _numbers(minute, 0, 59, {})
        self.hours = _numbers(hour, 0, 23, {})
        self.months = _numbers(month, 1, 12, MONTHS)
        self.is_fixed = not minute.startswith("*") and not hour.startswith("*")
        self._days: dict[date, bool] = {}

    def is_day(self, day: date) -> bool:
        """Tell whether the three day fields let it run on ``day`` at all."""
        if day not in self._days:
            is_date, is_weekday = _is_date(self._date, day), _is_weekday(self._weekday, day)
            either = not self._date.startswith("*") and not self._weekday.startswith("*")
            self._days[day] = day.month in self.months and (
                is_date or is_weekday if either else is_date and is_weekday
            )
        return self._days[day]

    def is_meant(self, wall: datetime) -> bool:
        """Tell whether the expression names this minute of the wall clock."""
        return wall.minute in self.minutes and wall.hour in self.hours and self.is_day(wall.date())


def walk(
    expression: str,
    zone: str,
    start: datetime,
    end: datetime,
    *,
    gap: str = "run",
    fold: str = "first",
) -> list[datetime]:
    """Return what is due in (start, end], both at full minutes."""
    cron = Cron(expression)
    held_back = {"first": 2, "second": 1, "both": None}[fold] if cron.is_fixed else None
    due: set[datetime] = set()
    spans = [timedelta(seconds=second) for second in cron.seconds]
    for tick in ticks(zone, start - MINUTE, end):
        is_made_up = tick.skipped and cron.is_fixed and gap == "run"
        if is_made_up and any(map(cron.is_meant, tick.skipped)):
            due.add(tick.utc)
        if tick.wall.minute in cron.minutes and tick.turn != held_back and cron.is_meant(tick.wall):
            due.update([tick.utc + span for span in spans])
    return sorted(instant for instant in due if start < instant <= end)


def utc(text: str) -> datetime:
    """Read an instant from ISO text with an offset."""
    return datetime.fromisoformat(text).astimezone(UTC)
