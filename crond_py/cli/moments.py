"""The time of the clock that ``pycron at`` is given: how people write one that is to come."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from crond_py.cli import say
from crond_py.cli.meant import meant_moment
from crond_py.cli.times import local_text, relative_text, zone_of
from crond_py.control.codec import instant_text
from crond_py.errors import ScheduleError
from crond_py.model import DstFold, DstGap
from crond_py.schedule import parse_schedule

MOMENT_FORMS: Final = '"18:00", "tomorrow 07:30", "2026-12-24 18:00" or "2026-12-24T18:00:00+01:00"'

_CLOCK: Final = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?")
_DAY: Final = re.compile(r"(today|tomorrow)|[0-9]{4}-[0-9]{2}-[0-9]{2}", re.IGNORECASE)
_DAY_AND_CLOCK: Final = re.compile(r"(today|tomorrow) +(.*)", re.IGNORECASE)
_DATE_TIME: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ]|$)")


def join_moment(when: str, words: Sequence[str]) -> tuple[str, list[str]]:
    """Return the moment and the command, also where the moment was written as two words."""
    if len(words) > 1:
        for day, clock in ((when, words[0]), (words[0], when)):  # at(1) takes the day second
            if _DAY.fullmatch(day) and re.match(_CLOCK, clock):
                return f"{day} {clock}", list(words[1:])
    return when, list(words)


def is_day(text: str) -> bool:
    """Tell whether a text is a day that says nothing alone: a time is to follow."""
    return text.lower() in {"today", "tomorrow"}


def is_moment(text: str) -> bool:
    """Tell whether a text is a time of the clock, whether or not it has passed."""
    try:
        if text.lower() != "now":
            _clock(text) if _CLOCK.fullmatch(text) else _reading(text, date.min)
    except ScheduleError:
        return False
    return True


def moment_values(text: str, zone: str, now: datetime) -> dict[str, str]:
    """Return the keys of a task that is due when the clock of a zone shows ``text``.

    A bare time is the next that comes after ``now``; so is a date-time that comes twice, the first
    time of which has passed. Any other date-time without an offset is left to the
    daemon, which reads it as it does a job's. Raises ScheduleError for what is no time, and what
    has passed.
    """
    text = text.strip()
    zone_of(zone)
    if text.lower() == "now":
        return {"in": "0s"}
    if _CLOCK.fullmatch(text):
        clock = _clock(text)
        due = _next(clock, zone, now)
        local = due.astimezone(ZoneInfo(zone))
        _note_if_jumped(datetime.combine(local.date(), clock), zone)
        return {"at": instant_text(due)}
    reading = _reading(text, now.astimezone(ZoneInfo(zone)).date())
    # Of a reading that comes twice the first is meant, unless that has passed; of one that never
    # comes, what is before it.
    instant = reading if reading.tzinfo else reading.replace(tzinfo=ZoneInfo(zone))
    try:
        instant.astimezone(UTC)
    except OverflowError:
        raise _no_moment(text) from None
    if instant < now <= (second := instant.replace(fold=1)):
        return {"at": instant_text(second)}
    if instant < now:
        message = f"{local_text(instant, instant.tzinfo)} has passed, {relative_text(instant, now)}"
        raise ScheduleError(message, field="instant", allowed="a time that is to come")
    if reading.tzinfo is not None:
        return {"at": reading.isoformat()}
    _note_if_jumped(reading, zone)
    return {"at": reading.isoformat(), "timezone": zone}


def _note_if_jumped(reading: datetime, zone: str) -> None:
    """Say of a reading that the clocks of a zone never show that they do not."""
    local = reading.replace(tzinfo=ZoneInfo(zone))
    if local.astimezone(UTC).astimezone(local.tzinfo).replace(tzinfo=None) != reading:
        say.note(f"the clocks in {zone} jump over {reading.isoformat(' ', 'minutes')}")


def _next(clock: time, zone: str, now: datetime) -> datetime:
    """Return when the clock shows a time next; where it jumps over it, when it has jumped."""
    expression = f"{clock.second} {clock.minute} {clock.hour} * * *"
    schedule = parse_schedule(expression, zone, dst_gap=DstGap.RUN, dst_fold=DstFold.BOTH)
    due = schedule.next_after(now)
    assert due is not None  # noqa: S101 - it comes every day
    return due


def _reading(text: str, today: date) -> datetime:
    if found := _DAY_AND_CLOCK.fullmatch(text):
        day, clock = found.groups()
        return datetime.combine(today + timedelta(days=day.lower() == "tomorrow"), _clock(clock))
    if not _DATE_TIME.match(text):
        raise _no_moment(text)
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise _no_moment(text) from None


def _clock(text: str) -> time:
    if not _CLOCK.fullmatch(text):
        raise _no_moment(text)
    try:
        hour, minute, second = map(int, (text + ":0").split(":")[:3])
        return time(hour, minute, second)
    except ValueError:
        raise _no_moment(text) from None


def _no_moment(text: str) -> ScheduleError:
    if is_day(text):
        way_out = f"say when on that day: {text} 07:30"
    else:
        way_out = meant_moment([text], 0) or f"write {MOMENT_FORMS}"
    return ScheduleError(
        f"{text!r} is no time of the clock; {way_out}", field="instant", allowed=MOMENT_FORMS
    )
