"""How people write instants on the command line, and how instants and spans are shown to them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo

from crond_py.cli import say
from crond_py.errors import ScheduleError
from crond_py.schedule import parse_duration, system_timezone
from crond_py.schedule.zones import find_zone
from crond_py.schedule.zones import zone_of as check_zone

_NOTHING: Final = timedelta(0)
_SECOND: Final = timedelta(seconds=1)
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ]|$)")
_UNITS: Final = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))

_CLOCK: Final = re.compile(r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2}))?")
_DAY_AND_CLOCK: Final = re.compile(r"(yesterday|today|tomorrow)(?: +(\S+))?", re.IGNORECASE)
_DAYS: Final = {"yesterday": -1, "today": 0, "tomorrow": 1}

INSTANT_FORMS: Final = (
    '"now", "10:20", "yesterday", "today 10:20", "2026-03-01", "2026-03-01 02:30", '
    '"2026-03-01T02:30:00+01:00"'
)


def parse_instant(text: str, zone: tzinfo, now: datetime, *, span_sign: int) -> datetime:
    """Return the instant that ``text`` names, in UTC.

    A reading without an offset is one in ``zone``; a duration (``2d``) is that far from ``now``,
    and a time alone (``10:20``) the nearest of its readings, back where ``span_sign`` is -1, else
    ahead. Raises ScheduleError.
    """
    text = text.strip()
    if text.lower() == "now":
        return now
    try:
        return now + span_sign * parse_duration(text)
    except ScheduleError:
        pass
    except OverflowError:
        raise _no_instant(text) from None
    try:
        today = now.astimezone(zone)
        reading = _reading(text, today.date())
        if _CLOCK.fullmatch(text) and (reading - today.replace(tzinfo=None)) * span_sign < _NOTHING:
            reading += span_sign * timedelta(days=1)
        return (reading if reading.tzinfo else reading.replace(tzinfo=zone)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _no_instant(text) from None


def join_duration(span: str, words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the duration and the command, also where the duration was written as several words."""
    rest = list(words)
    while len(rest) > 1 and is_duration(rest[0]) and is_duration(span + rest[0]):
        span += rest.pop(0)
    return span, rest


def is_duration(text: str) -> bool:
    """Tell whether a text is a length of time."""
    try:
        parse_duration(text)
    except ScheduleError:
        return False
    return True


def _reading(text: str, today: date) -> datetime:
    """Read a date-time. ``fromisoformat`` also knows weeks and 20260301, which nobody means."""
    if found := _DAY_AND_CLOCK.fullmatch(text):
        day = today + timedelta(days=_DAYS[found[1].lower()])
        return datetime.combine(day, _clock(found[2] or "00:00"))
    if _CLOCK.fullmatch(text):
        return datetime.combine(today, _clock(text))
    if not _DATE.match(text):
        raise ValueError
    return datetime.fromisoformat(text)


def _clock(text: str) -> time:
    found = _CLOCK.fullmatch(text)
    if found is None:
        raise ValueError
    hour, minute, second = (int(part or 0) for part in found.groups())
    return time(hour, minute, second)


def _no_instant(text: str) -> ScheduleError:
    return ScheduleError(
        f"{text!r} is not an instant; write {INSTANT_FORMS}, or a span such as 2d",
        field="instant",
        allowed=INSTANT_FORMS,
    )


def local_text(instant: datetime, zone: tzinfo | None = None) -> str:
    """Return an instant as a person reads it, with its offset; None: the system's zone."""
    return instant.astimezone(zone or system_zone()).isoformat(" ", "seconds")


def brief_text(instant: datetime, now: datetime, zone: tzinfo | None = None) -> str:
    """Return the same where there is little room: without what goes without saying.

    That is the year of ``now``, seconds that are none, and the offset, unless the clocks of the
    zone show this reading twice, or those of this machine show another.
    """
    local = instant.astimezone(zone or system_zone())
    text = local.replace(tzinfo=None).isoformat(" ", "seconds" if local.second else "minutes")
    if local.year == now.astimezone(local.tzinfo).year:
        text = text.partition("-")[2]
    comes_twice = local.replace(fold=1).utcoffset() != local.replace(fold=0).utcoffset()
    is_elsewhere = (
        zone is not None and local.utcoffset() != instant.astimezone(system_zone()).utcoffset()
    )
    return text + local.isoformat()[-6:] if comes_twice or is_elsewhere else text


def zone_of(name: str) -> ZoneInfo:
    """Return the zone of that name. Raises ScheduleError, with a near name if there is one."""
    check_zone(name)
    return ZoneInfo(name)


def system_zone() -> ZoneInfo:
    """Return the zone of this machine, or of the TZ variable; say so where that names none."""
    zone = system_timezone()
    _check_tz(os.environ.get("TZ"), zone)
    return ZoneInfo(zone)


def tz_fault(variable: str | None, zone: str) -> str:
    """Return what is wrong with a TZ variable in whose place ``zone`` counts, or ""."""
    if not variable or variable.removeprefix(":") in {zone, "/etc/localtime"}:
        return ""
    if find_zone(variable.removeprefix(":").rpartition("/zoneinfo/")[2]) is not None:
        return ""
    return f"TZ={variable!r} in the environment names no time zone; that of this machine is {zone}"


@lru_cache
def _check_tz(variable: str | None, zone: str) -> None:
    if fault := tz_fault(variable, zone):
        say.note(f"warning: {fault}")


def span_text(span: timedelta) -> str:
    """Return a span in its two largest units: ``3h 12m``; ``85ms`` and ``4.2s`` when short."""
    if span < timedelta(0):
        return "-" + span_text(-span)
    if span < _SECOND:
        return f"{span // timedelta(milliseconds=1)}ms"
    if span < 10 * _SECOND:
        return f"{span.total_seconds():.1f}s"
    rest = round(span.total_seconds())
    parts = []
    for unit, seconds in _UNITS:
        amount, rest = divmod(rest, seconds)
        if amount:
            parts.append(f"{amount}{unit}")
        elif parts:
            break
    return " ".join(parts[:2])


def relative_text(instant: datetime, now: datetime) -> str:
    """Return how far an instant is from ``now``: ``in 3h 12m``, ``5m 2s ago``, ``now``."""
    span = instant - now
    if abs(span) < _SECOND:
        return "now"
    whole = timedelta(seconds=round(abs(span).total_seconds()))
    text = f"{whole.seconds}s" if whole < 10 * _SECOND else span_text(whole)
    return f"in {text}" if span > timedelta(0) else f"{text} ago"
