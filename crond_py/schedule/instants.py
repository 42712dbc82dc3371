"""Instants as whole seconds since the Unix epoch and back: what this package counts in.

Schedules work on integers, which are exact and quick to compare; datetimes are for callers.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MINUTE: Final = 60
HOUR: Final = 3600
DAY: Final = 86400

FIRST_SECOND: Final = -62_135_596_800
"""0001-01-01T00:00:00Z, the first that a datetime can hold."""

LAST_SECOND: Final = 253_402_300_799
"""9999-12-31T23:59:59Z, the last one."""


def to_second(instant: datetime) -> int:
    """Return the second that ``instant`` lies in; ValueError where it has no offset from UTC."""
    try:
        since = instant - EPOCH
    except TypeError:
        raise _naive(instant) from None
    return since.days * DAY + since.seconds


def to_instant(second: int) -> datetime:
    """Return the beginning of a second as an aware datetime in UTC."""
    return EPOCH + timedelta(seconds=second)


def to_utc(instant: datetime) -> datetime:
    """Return the same instant in UTC; ValueError where it has no offset from UTC."""
    if instant.utcoffset() is None:
        raise _naive(instant)
    return instant.astimezone(UTC)


def _naive(instant: datetime) -> ValueError:
    return ValueError(f"{instant!r} names no instant: it needs a time zone, such as UTC")
