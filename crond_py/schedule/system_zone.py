"""Which time zone the host is in: the zone of a job that names none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final

from crond_py.schedule.zones import find_zone

_ETC: Final = Path("/etc")
_DATABASE: Final = "/zoneinfo/"
_MOST_LINKS: Final = 8


def system_timezone(environment: Mapping[str, str] | None = None, etc: Path = _ETC) -> str:
    """Return the IANA name of the host's zone.

    The first of these that names a zone counts: the variable TZ, with or without the colon of
    POSIX or as a path into the zone database (set but empty, it means UTC, as in tzset(3)); the
    link /etc/localtime; the file /etc/timezone. Where none does: "UTC". It is looked up at each
    call, so a host that is moved to another zone is noticed at the next reload.
    """
    environment = os.environ if environment is None else environment
    variable = environment.get("TZ")
    if variable is not None:
        name = _name_in(variable.removeprefix(":")) or "UTC"
        if find_zone(name) is not None:
            return name
    for name in _names_in(etc):
        if find_zone(name) is not None:
            return name
    return "UTC"


def known_system_timezone() -> str:
    """Return what ``system_timezone`` said when it was last asked, before ``forget_system_zone``.

    For those that ask once for every job. Another value of TZ is noticed at once.
    """
    return _known(os.environ.get("TZ"))


@lru_cache(maxsize=8)
def _known(_variable: str | None) -> str:
    return system_timezone()


def forget_system_zone() -> None:
    """Have the host's zone looked up again from now on."""
    _known.cache_clear()


def _names_in(etc: Path) -> Iterator[str]:
    path = etc / "localtime"
    try:
        # Links are followed one at a time: the last one may lead from a zone to its other name.
        for _ in range(_MOST_LINKS):
            path = path.parent / path.readlink()
            if _DATABASE in str(path):
                yield _name_in(str(path))
                break
    except OSError:
        pass  # a copy of a zone file, or none: it has no name
    try:
        yield (etc / "timezone").read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return


def _name_in(text: str) -> str:
    """Return the part of a path that names a zone, or the text as it is."""
    name = text.rpartition(_DATABASE)[2]
    return name.removeprefix("posix/") if name != text else text
