"""What is wrong with a text that is meant as a date-time of TOML, and is none."""

from __future__ import annotations

import re
from calendar import monthrange
from typing import Final

_LIKE_A_MOMENT: Final = re.compile(
    r"([0-9]{4})-([0-9]{1,2})-([0-9]{1,2})"
    r"(?:(?:[Tt]| +)([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(\.[0-9]+)?)?)?)?"
    r"(?![0-9:.-])\s*(\S.*)?"
)
_OFFSET: Final = re.compile(r"[Zz]|[+-][0-9]{2}:[0-9]{2}")


def moment_fault(text: str, key: str = "") -> str:
    """Say why ``text`` is no date-time, and with ``key`` how to write it; "" if that is not it.

    That is where it has the look of a date-time of RFC 3339 (TOML's) and nothing is wrong but a
    part of it.
    """
    found = _LIKE_A_MOMENT.fullmatch(text.strip())
    if found is None:
        return ""
    year, month, day, hour, minute, second = (int(part or 0) for part in found.groups()[:6])
    if fault := _no_such_day(year, month, day) or _no_such_time(hour, minute, second):
        return fault
    rest = found[8] or ""
    if rest and not _OFFSET.fullmatch(rest):
        return 'an offset is written as +01:00, a zone as a key: timezone = "Europe/Berlin"'
    right = f"{year:04}-{month:02}-{day:02}"
    if found[4] is not None:
        right += f"T{hour:02}:{minute:02}:{second:02}{found[7] or ''}{rest}"
    needs = []
    if found[4] is not None and found[6] is None:
        needs.append("seconds" if found[5] else "minutes and seconds")
    if any(part is not None and len(part) == 1 for part in found.groups()[1:6]):
        needs.append("two digits for each part")
    if not needs:
        return ""
    written = f"{key} = {right}" if key else right
    return f"a date-time has {', '.join(needs)}: {written}"


def _no_such_day(year: int, month: int, day: int) -> str:
    if not 1 <= month <= 12:  # noqa: PLR2004 - months
        return f"there is no month {month}"
    if not 1 <= day <= monthrange(year or 4, month)[1]:
        return f"there is no day {day} in {year:04}-{month:02}"
    return ""


def _no_such_time(hour: int, minute: int, second: int) -> str:
    for name, value, last in (("hour", hour, 23), ("minute", minute, 59), ("second", second, 59)):
        if value > last:
            return f"there is no {name} {value}: they are 00 to {last}"
    return ""
