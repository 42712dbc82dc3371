"""What to write for the name of a time zone that is none: a near one, a place, a fixed offset."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import available_timezones

HOST_FILES: Final = frozenset({"localtime", "posixrules"})
"""What the system keeps beside the zones proper."""

_LONGEST_NAME: Final = 100
_NEARNESS: Final = 0.77
_A_PLACE: Final = "a place, such as Europe/Berlin"
_OFFSET: Final = re.compile(
    r"(utc|gmt|z)?\s*(?:([+-])\s*([0-9]{1,2})(?::?([0-9]{2}))?)?", re.IGNORECASE
)
_ABBREVIATION: Final = re.compile(r"[A-Z]{2,5}|[a-z]{2,4}t")
_POSIX: Final = re.compile(r"[A-Za-z]{3,5}[+-]?[0-9]{1,2}(?::[0-9]{2})?(?:[A-Za-z]{3,5}.*)?")
_AHEAD: Final = timedelta(hours=14)
_BEHIND: Final = timedelta(hours=-12)


def zone_hint(name: str) -> str:
    """Return what to write for a zone that there is not, or "".

    An abbreviation is told as such, for it may be that of several zones, and none of them has to
    be the nearest in letters.
    """
    return _hint(name.strip()[:_LONGEST_NAME])


@lru_cache(maxsize=256)
def _hint(name: str) -> str:
    if near := _same(name):
        return f"did you mean {near}?"
    offset = _OFFSET.fullmatch(name)
    if offset and name:
        return _fixed(*offset.groups())
    if _ABBREVIATION.fullmatch(name):
        return f"an abbreviation is no zone, write {_A_PLACE}"
    if _POSIX.fullmatch(name):
        return f"write {_A_PLACE}, which has its summer time"
    near = _near(name)
    return f"did you mean {near}?" if near else ""


def forget_names() -> None:
    """Look again for what zones there are."""
    _hint.cache_clear()


def _fixed(base: str | None, sign: str | None, hours: str | None, minutes: str | None) -> str:
    """Say what zone has a fixed offset; in the names of POSIX the sign is the other way round."""
    if not base and not sign:
        return ""
    ahead = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    if not ahead:
        return "write UTC"
    whole, rest = divmod(abs(ahead), timedelta(hours=1))
    if rest or not _BEHIND <= ahead <= _AHEAD:
        return f"no zone has just this offset, write {_A_PLACE}"
    zone, side = ("Etc/GMT-", "ahead of") if sign == "+" else ("Etc/GMT+", "behind")
    unit = "hour" if whole == 1 else "hours"
    return (
        f"write {_A_PLACE}, or {zone}{whole} for the fixed time {whole} {unit} {side} UTC: there"
        " the sign is the other way round"
    )


def _places() -> dict[str, str]:
    """Return the zones that are named after something, by their names in lower case."""
    names = (name for name in sorted(available_timezones() - HOST_FILES) if _is_a_place(name))
    return {name.casefold(): name for name in names}


def _is_a_place(name: str) -> bool:
    return not name.startswith("Etc/") and any(letter.islower() for letter in name)


def _same(name: str) -> str:
    """Return the zone that has this name in other letters, or this city."""
    wanted, places = name.casefold().replace(" ", "_"), _places()
    others = {name.casefold(): name for name in ("UTC", *available_timezones())}
    if wanted == "utc" or wanted.startswith("etc/"):
        return others.get(wanted, "")
    cities = {folded.rpartition("/")[2]: known for folded, known in places.items()}
    return places.get(wanted) or cities.get(wanted, "")


def _near(name: str) -> str:
    from difflib import get_close_matches  # noqa: PLC0415 - only a wrong name costs its import

    wanted, places = name.casefold().replace(" ", "_"), _places()
    cities = {folded.rpartition("/")[2]: known for folded, known in places.items()}
    near = [places[each] for each in get_close_matches(wanted, places, 1, _NEARNESS)]
    city = wanted.rpartition("/")[2]
    near += [cities[each] for each in get_close_matches(city, cities, 1, _NEARNESS)]
    return near[0] if near else ""
