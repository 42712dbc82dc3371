"""The times of day that an expression names: its hour, minute and second fields.

A set of small numbers is an int here, bit n standing for the number n: a minute field with
sixty values takes no more room than one with one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from crond_py.schedule.instants import HOUR, MINUTE


def lowest(mask: int) -> int:
    """Return the least number in a set that is not empty."""
    return (mask & -mask).bit_length() - 1


def highest(mask: int) -> int:
    """Return the greatest number in a set, or -1 if it is empty."""
    return mask.bit_length() - 1


def below(mask: int, number: int) -> int:
    """Return the part of a set that is less than ``number``."""
    return mask & ((1 << number) - 1)


def from_(mask: int, number: int) -> int:
    """Return the part of a set that is not less than ``number``."""
    return mask >> number << number


class Times(NamedTuple):
    """Every hour:minute:second of the three sets. A time is in seconds since midnight."""

    hours: int
    minutes: int
    seconds: int

    @property
    def size(self) -> int:
        """How many times there are in a day."""
        return self.hours.bit_count() * self.minutes.bit_count() * self.seconds.bit_count()

    @property
    def first(self) -> int:
        """The first time of a day."""
        return self._first_in(lowest(self.hours))

    @property
    def last(self) -> int:
        """The last time of a day."""
        return self._last_in(highest(self.hours))

    def at_or_after(self, time: int) -> int | None:
        """Return the first time that is not before ``time``, or None."""
        hour, rest = divmod(time, HOUR)
        if self.hours >> hour & 1:
            minute, second = divmod(rest, MINUTE)
            if self.minutes >> minute & 1 and (seconds := from_(self.seconds, second)):
                return hour * HOUR + minute * MINUTE + lowest(seconds)
            if minutes := from_(self.minutes, minute + 1):
                return hour * HOUR + lowest(minutes) * MINUTE + lowest(self.seconds)
        hours = from_(self.hours, hour + 1)
        return self._first_in(lowest(hours)) if hours else None

    def at_or_before(self, time: int) -> int | None:
        """Return the last time that is not after ``time``, or None."""
        hour, rest = divmod(time, HOUR)
        if self.hours >> hour & 1:
            minute, second = divmod(rest, MINUTE)
            if self.minutes >> minute & 1 and (seconds := below(self.seconds, second + 1)):
                return hour * HOUR + minute * MINUTE + highest(seconds)
            if minutes := below(self.minutes, minute):
                return hour * HOUR + highest(minutes) * MINUTE + highest(self.seconds)
        hours = below(self.hours, hour)
        return self._last_in(highest(hours)) if hours else None

    def count_before(self, time: int) -> int:
        """Return how many times there are before ``time``, which may be the end of the day."""
        hour, rest = divmod(time, HOUR)
        minute, second = divmod(rest, MINUTE)
        in_minute = self.seconds.bit_count()
        number = below(self.hours, hour).bit_count() * self.minutes.bit_count() * in_minute
        if self.hours >> hour & 1:
            number += below(self.minutes, minute).bit_count() * in_minute
            if self.minutes >> minute & 1:
                number += below(self.seconds, second).bit_count()
        return number

    def _first_in(self, hour: int) -> int:
        return hour * HOUR + lowest(self.minutes) * MINUTE + lowest(self.seconds)

    def _last_in(self, hour: int) -> int:
        return hour * HOUR + highest(self.minutes) * MINUTE + highest(self.seconds)


@lru_cache(maxsize=16)
def as_set(times: Times) -> int:
    """Return the times as one set of seconds since midnight, to be joined with others.

    It takes up to 11 kB, so only a few are kept.
    """
    hour = _spread(times.seconds, times.minutes, MINUTE)
    return _spread(hour, times.hours, HOUR)


def _spread(pattern: int, places: int, width: int) -> int:
    """Return the union of ``pattern`` moved to each of ``places``, which are ``width`` apart."""
    whole = 0
    while places:
        place = lowest(places)
        whole |= pattern << place * width
        places &= places - 1
    return whole
