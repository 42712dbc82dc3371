"""Lengths of time as text: ``90s``, ``1h30m``, ``2d``."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final, NoReturn

from crond_py.errors import ScheduleError
from crond_py.schedule.wording import shown

_MICROSECOND: Final = timedelta(microseconds=1)
_UNITS: Final = {
    "w": 604_800_000_000,
    "d": 86_400_000_000,
    "h": 3_600_000_000,
    "m": 60_000_000,
    "s": 1_000_000,
    "ms": 1000,
    "us": 1,
}
_WRITTEN: Final = tuple(unit for unit in _UNITS if unit != "w")  # "10d" reads better than "1w3d"
_MOST: Final = timedelta.max // _MICROSECOND
_LONGEST: Final = 100

_PART: Final = re.compile(r"([0-9]+)(?:\.([0-9]+))? *([a-z]+) *")
_ALLOWED: Final = 'numbers with the units w, d, h, m, s, ms and us, such as "90s" or "1h30m"'


def parse_duration(text: str) -> timedelta:
    """Return a length of time, which may be nothing ("0s"), exact to the microsecond.

    Each unit may stand once, the larger before the smaller, each with a number that may have
    decimals. Raises ScheduleError with the field "duration".
    """
    if not isinstance(text, str) or len(text) > _LONGEST:
        _refuse(text, f"is not a duration of at most {_LONGEST} characters")
    rest = text.strip(" ")
    if not rest:
        _refuse(text, "is empty")
    units = list(_UNITS)
    microseconds = 0
    while rest:
        part = _PART.match(rest)
        if part is None:
            _refuse(text, _why(rest, text.strip(" ")))
        whole, decimals, unit = part.groups()
        if unit not in units:
            known = unit in _UNITS
            _refuse(text, "must have each unit once, the larger first" if known else _unit(unit))
        units = units[units.index(unit) + 1 :]
        microseconds += _microseconds(text, whole, decimals or "", unit)
        rest = rest[part.end() :]
    if microseconds > _MOST:
        _refuse(text, f"is longer than {timedelta.max.days} days")
    return microseconds * _MICROSECOND


def format_duration(duration: timedelta) -> str:
    """Return the text that ``parse_duration`` reads as ``duration``, without units that are zero.

    Days are the largest unit. A negative one gets a minus, which cannot be read back.
    """
    rest = abs(duration) // _MICROSECOND
    text = "" if duration >= timedelta(0) else "-"
    if not rest:
        return "0s"
    for unit in _WRITTEN:
        number, rest = divmod(rest, _UNITS[unit])
        if number:
            text += f"{number}{unit}"
    return text


def _microseconds(text: str, whole: str, decimals: str, unit: str) -> int:
    scale: int = 10 ** len(decimals)
    number, rest = divmod(int(whole + decimals) * _UNITS[unit], scale)
    if rest:
        _refuse(text, "is finer than a microsecond")
    return number


def _unit(unit: str) -> str:
    return f"has the unit {shown(unit)}, which is not one of {', '.join(_UNITS)}"


def _why(rest: str, text: str) -> str:
    """Say what is wrong with the text where it stops making sense: at its rest."""
    if rest[0] in "+-":
        return "has a sign; a length of time has none"
    if re.fullmatch(r"[0-9.]+ *", rest):
        return f"has the number {shown(rest)} without a unit"
    if rest == text:
        return 'is not a length of time, such as "90s" or "1h30m"'
    return f"makes no sense from {shown(rest)} on"


def _refuse(text: object, why: str) -> NoReturn:
    message = f"{shown(text) if isinstance(text, str) else repr(text)} {why}"
    raise ScheduleError(message, field="duration", allowed=_ALLOWED)
