"""The days that an expression names: its day of month, month and day of week fields.

A day is its proleptic Gregorian ordinal (``date.toordinal``). A set of small numbers is an int,
as in ``times``. Whether an expression can ever be due is told from the 28 forms of a month.
"""

from __future__ import annotations

from datetime import MAXYEAR, MINYEAR, date
from typing import Final, NamedTuple

from crond_py.schedule.times import below, from_, highest, lowest

_LENGTHS: Final = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
_FEBRUARY: Final = 2
_LEAP_FEBRUARY: Final = 29
_WEEK: Final = 7


class DayFields(NamedTuple):
    """What the three fields say.

    ``months`` holds 1 to 12, ``dates`` 1 to 31, ``weekdays`` 0 (Sunday) to 6. ``last_date``: the
    last day of the month, too. ``nth[n]`` are the weekdays that count on their n-th coming in a
    month, n from 1 to 5; ``nth[0]`` those that count on their last. ``both``: a day must be in
    the date field and in the weekday field; else one of them is enough.
    """

    months: int
    dates: int
    weekdays: int
    last_date: bool = False
    nth: tuple[int, ...] = (0,) * 6
    both: bool = True


class Days:
    """All days that the fields name."""

    __slots__ = ("_fields", "_masks")

    def __init__(self, fields: DayFields) -> None:
        self._fields = fields
        self._masks: dict[tuple[int, int], int] = {}

    @property
    def dates(self) -> int:
        """The numbers of the day of month field."""
        return self._fields.dates

    def can_come(self) -> bool:
        """Tell whether there is such a day in any year.

        In each cycle of 400 years every month begins on every weekday, a leap February too. So
        the forms of the months are all there is to look at.
        """
        months = self._fields.months
        lengths = {_LENGTHS[month] for month in range(1, 13) if months >> month & 1}
        if _LENGTHS[_FEBRUARY] in lengths:
            lengths.add(_LEAP_FEBRUARY)
        # The longest first: it is the likeliest to have such a day.
        forms = ((first, length) for length in sorted(lengths)[::-1] for first in range(_WEEK))
        return any(self._masks.get(form) or self._mask_of(*form) for form in forms)

    def in_month(self, year: int, month: int) -> int:
        """Return the days of a month, as a set of their numbers."""
        if not self._fields.months >> month & 1:
            return 0
        length = _LENGTHS[month]
        if month == _FEBRUARY and year % 4 == 0 and (year % 100 != 0 or year % 400 == 0):
            length = _LEAP_FEBRUARY
        form = date(year, month, 1).toordinal() % _WEEK, length
        mask = self._masks.get(form)
        return self._mask_of(*form) if mask is None else mask

    def at_or_after(self, ordinal: int) -> int | None:
        """Return the first day that is not before ``ordinal``, or None up to the year 9999."""
        day = date.fromordinal(ordinal)
        year, month = day.year, day.month
        mask = from_(self.in_month(year, month), day.day)
        while not mask:
            if months := from_(self._fields.months, month + 1):
                month = lowest(months)
            else:
                year, month = year + 1, lowest(self._fields.months)
                if year > MAXYEAR:
                    return None
            mask = self.in_month(year, month)
        return date(year, month, lowest(mask)).toordinal()

    def at_or_before(self, ordinal: int) -> int | None:
        """Return the last day that is not after ``ordinal``, or None back to the year 1."""
        day = date.fromordinal(ordinal)
        year, month = day.year, day.month
        mask = below(self.in_month(year, month), day.day + 1)
        while not mask:
            if months := below(self._fields.months, month):
                month = highest(months)
            else:
                year, month = year - 1, highest(self._fields.months)
                if year < MINYEAR:
                    return None
            mask = self.in_month(year, month)
        return date(year, month, highest(mask)).toordinal()

    def includes(self, ordinal: int) -> bool:
        """Tell whether a day is one of them."""
        day = date.fromordinal(ordinal)
        return bool(self.in_month(day.year, day.month) >> day.day & 1)

    def _mask_of(self, first_weekday: int, length: int) -> int:
        """Return the days of a month of this form: which weekday is its first, and its length."""
        fields = self._fields
        dates = below(fields.dates, length + 1)
        if fields.last_date:
            dates |= 1 << length
        weekdays = 0
        for day in range(1, length + 1):
            wanted = fields.weekdays | fields.nth[(day + _WEEK - 1) // _WEEK]
            if day + _WEEK > length:
                wanted |= fields.nth[0]
            if wanted >> (first_weekday + day - 1) % _WEEK & 1:
                weekdays |= 1 << day
        mask = dates & weekdays if fields.both else dates | weekdays
        self._masks[first_weekday, length] = mask
        return mask
