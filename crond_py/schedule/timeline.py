"""The due instants of one expression in one zone: where the rule for clock changes lives.

The rule is Debian cron's (design, 5):

- An expression whose minute or hour field begins with a star follows the clocks: it is due at
  every instant at which they show one of its readings.
- Any other names fixed times. Of a reading that is shown twice, one showing counts (the first,
  unless told otherwise). Readings that are skipped fall together on the first instant after.
- A change of three hours or more is neither: the clocks show a new time, which is followed.

So each instant is looked at as part of a piece of time, and a piece is either wholly taken or
wholly left out. Nothing here depends on where a search began.
"""

from __future__ import annotations

from typing import Final

from crond_py.model import DstFold, DstGap
from crond_py.schedule.expression import Expression
from crond_py.schedule.instants import DAY, FIRST_SECOND, LAST_SECOND
from crond_py.schedule.readings import Readings
from crond_py.schedule.zones import Pass, Piece, Zone

_LEFT_OUT: Final = {DstFold.FIRST: Pass.SECOND, DstFold.SECOND: Pass.FIRST, DstFold.BOTH: None}

_LAST_SINGLE_CHANGE: Final = 4_000_000_000
"""By 2096 every zone changes its clocks by a yearly rule, or never."""

_CYCLE: Final = 146_097 * DAY
"""Four hundred years, in which dates, weekdays and yearly rules come round together."""


class Timeline:
    """One expression in one zone. Instants are seconds since the Unix epoch.

    ``makes_up``: readings that are skipped are made up for. ``left_out``: the turn of repeated
    readings that does not count.
    """

    __slots__ = ("_zone", "expression", "left_out", "makes_up")

    def __init__(self, expression: Expression, zone: Zone, gap: DstGap, fold: DstFold) -> None:
        self.expression = expression
        self._zone = zone
        self.makes_up = expression.is_fixed and gap is DstGap.RUN
        self.left_out = _LEFT_OUT[fold] if expression.is_fixed else None

    @property
    def readings(self) -> Readings:
        """What the clocks show when it is due."""
        return self.expression.readings

    def first_from(self, start: int) -> int | None:
        """Return the first due instant that is not before ``start``, or None.

        An expression whose only readings are skipped every year, and not made up for, has none:
        that is known after one cycle of the calendar.
        """
        limit = max(start, _LAST_SINGLE_CHANGE) + _CYCLE
        while start < limit:
            pieces = self._zone.pieces_from(start)
            for piece in pieces:
                if piece.end > start:
                    due = self._first_in(piece, max(start, piece.start))
                    if due is not None:
                        return due if due <= LAST_SECOND else None
            # A reading and its due instant are less than a day apart in any zone.
            start = pieces[-1].end
            reading = self.readings.at_or_after(start - DAY)
            if reading is None:
                return None
            start = max(start, reading - DAY)
        return None

    def last_until(self, end: int) -> int | None:
        """Return the last due instant that is not after ``end``, or None."""
        while True:
            pieces = self._zone.pieces_from(end)
            for piece in reversed(pieces):
                if piece.start <= end:
                    due = self._last_in(piece, min(end, piece.end - 1))
                    if due is not None:
                        return due if due >= FIRST_SECOND else None
            end = pieces[0].start - 1
            reading = self.readings.at_or_before(end + DAY)
            if reading is None:
                return None
            end = min(end, reading + DAY)

    def makes_up_at(self, piece: Piece) -> bool:
        """Tell whether it is due at the start of ``piece`` for readings skipped there."""
        if not self.makes_up or piece.before >= piece.offset:
            return False
        skipped = self.readings.at_or_after(piece.start + piece.before)
        return skipped is not None and skipped < piece.start + piece.offset

    def _first_in(self, piece: Piece, start: int) -> int | None:
        if start == piece.start and self.makes_up_at(piece):
            return start
        if piece.turn is self.left_out:
            return None
        reading = self.readings.at_or_after(start + piece.offset)
        if reading is None or reading >= piece.end + piece.offset:
            return None
        return reading - piece.offset

    def _last_in(self, piece: Piece, end: int) -> int | None:
        if piece.turn is not self.left_out:
            reading = self.readings.at_or_before(end + piece.offset)
            if reading is not None and reading >= piece.start + piece.offset:
                return reading - piece.offset
        return piece.start if self.makes_up_at(piece) else None
