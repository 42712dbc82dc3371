"""Time zones as stretches of constant offset, and what each change of the clocks repeats or skips.

Zone data is the system's, or that of the tzdata package where the system has none; reading it is
left to zoneinfo, which tells offsets but not where they change. So the changes are searched for:
an offset is looked at each day and a half, and between two that differ the change is found by
halving. In the zone database no two changes of a zone are less than four days apart. What was
found is kept for each stretch of some 48 days, so only times that are asked for cost anything.

Only a change of the offset from UTC counts: a zone that gets another name, or calls its time
summer time without moving the clocks, has no change here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from enum import IntEnum
from functools import lru_cache
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from crond_py.errors import ScheduleError
from crond_py.schedule.instants import DAY, FIRST_SECOND, HOUR, LAST_SECOND
from crond_py.schedule.wording import shown
from crond_py.schedule.zone_names import HOST_FILES, forget_names, zone_hint

LARGE: Final = 3 * HOUR
"""A change of this size or more is a new time, not summer time: nothing is made up or held back."""

_STEP: Final = 1 << 17
_CHUNK_BITS: Final = 22
_MAX_CHUNKS: Final = 2000
_LONGEST_NAME: Final = 100
_SECOND: Final = timedelta(seconds=1)


class Pass(IntEnum):
    """Which showing of its wall-clock readings a piece of time is."""

    ONLY = 0
    FIRST = 1
    SECOND = 2


class Change(NamedTuple):
    """The clocks change at the second ``at``: the offsets from UTC before it and from it on."""

    at: int
    before: int
    after: int

    @property
    def is_large(self) -> bool:
        """Whether it is too large to be summer time or a shift of the zone (design, 5)."""
        return abs(self.after - self.before) >= LARGE

    @property
    def skipped(self) -> int:
        """How many seconds of readings are skipped, where the change is not large."""
        return 0 if self.is_large else max(0, self.after - self.before)

    @property
    def repeated(self) -> int:
        """How many seconds of readings are repeated, where the change is not large."""
        return 0 if self.is_large else max(0, self.before - self.after)


class Piece(NamedTuple):
    """The seconds [start, end), in which the clocks show each second plus ``offset``.

    Where ``before`` is less than ``offset``, the readings from start + before up to
    start + offset are skipped at its start.
    """

    start: int
    end: int
    offset: int
    before: int
    turn: Pass


class _Chunk(NamedTuple):
    changes: tuple[Change, ...]
    pieces: tuple[Piece, ...]


class Zone:
    """One time zone. Safe to use from several threads: what two work out at once is the same."""

    __slots__ = ("_chunks", "_info", "name")

    def __init__(self, info: ZoneInfo) -> None:
        self.name = info.key
        self._info = info
        self._chunks: dict[int, _Chunk] = {}

    def pieces_from(self, second: int) -> tuple[Piece, ...]:
        """Return pieces one after the other, of which the first that ends later holds ``second``.

        They reach to the end of a chunk of time; ask again with the end of the last.
        """
        return self._chunk(second >> _CHUNK_BITS).pieces

    def pieces(self, start: int, end: int) -> Iterator[Piece]:
        """Yield the pieces that have a part in [start, end), uncut."""
        for index in range(start >> _CHUNK_BITS, ((end - 1) >> _CHUNK_BITS) + 1):
            for piece in self._chunk(index).pieces:
                if piece.end > start and piece.start < end:
                    yield piece

    def changes(self, start: int, end: int) -> Iterator[Change]:
        """Yield the changes in [start, end), in order."""
        for index in range(start >> _CHUNK_BITS, ((end - 1) >> _CHUNK_BITS) + 1):
            for change in self._chunk(index).changes:
                if start <= change.at < end:
                    yield change

    def abbreviation(self, second: int) -> str:
        """Return what the zone's time is called then, such as "CEST"."""
        return self._local(second).tzname() or ""

    def _local(self, second: int) -> datetime:
        # A day from the ends of what a datetime can hold, so that its local form exists too.
        second = min(max(second, FIRST_SECOND + DAY), LAST_SECOND - DAY)
        return datetime.fromtimestamp(second, self._info)

    def _offset(self, second: int) -> int:
        offset = self._local(second).utcoffset()
        return offset // _SECOND if offset is not None else 0

    def _chunk(self, index: int) -> _Chunk:
        chunk = self._chunks.get(index)
        if chunk is None:
            if len(self._chunks) >= _MAX_CHUNKS:
                self._chunks.clear()
            chunk = self._chunks[index] = self._survey(index)
        return chunk

    def _survey(self, index: int) -> _Chunk:
        start, end = index << _CHUNK_BITS, (index + 1) << _CHUNK_BITS
        # What a change repeats may reach into the next chunk, so both neighbours count a little.
        changes = list(self._search(start - _STEP, end + _STEP))
        pieces = _pieces(start - _STEP, end + _STEP, self._offset(start - _STEP), changes)
        return _Chunk(
            tuple(change for change in changes if start <= change.at < end),
            tuple(_cut(piece, start, end) for piece in pieces if _overlaps(piece, start, end)),
        )

    def _search(self, start: int, end: int) -> Iterator[Change]:
        before = self._offset(start)
        for late in range(start + _STEP, end + 1, _STEP):
            after = self._offset(late)
            while after != before:
                at = self._halve(late - _STEP, late, before)
                change = Change(at, before, self._offset(at))
                yield change
                before = change.after

    def _halve(self, early: int, late: int, before: int) -> int:
        """Return the first second at which the offset is no longer ``before``."""
        while late - early > 1:
            middle = (early + late) // 2
            if self._offset(middle) == before:
                early = middle
            else:
                late = middle
        return late


def _pieces(start: int, end: int, offset: int, changes: list[Change]) -> Iterator[Piece]:
    """Cut [start, end) at its changes, and around those that repeat readings."""
    opening = Change(start, offset, offset)
    closing = Change(end, 0, 0)
    following = [*changes, closing]
    for change, upcoming in zip([opening, *changes], following, strict=True):
        second_until = min(change.at + change.repeated, upcoming.at)
        first_from = max(upcoming.at - upcoming.repeated, second_until)
        before = change.before if change.skipped else change.after
        for begin, finish, turn in (
            (change.at, second_until, Pass.SECOND),
            (second_until, first_from, Pass.ONLY),
            (first_from, upcoming.at, Pass.FIRST),
        ):
            if begin < finish:
                yield Piece(begin, finish, change.after, before, turn)
                before = change.after


def _overlaps(piece: Piece, start: int, end: int) -> bool:
    return piece.end > start and piece.start < end


def _cut(piece: Piece, start: int, end: int) -> Piece:
    before = piece.before if piece.start >= start else piece.offset
    return Piece(max(piece.start, start), min(piece.end, end), piece.offset, before, piece.turn)


def zone_of(name: str) -> Zone:
    """Return the zone of that IANA name. Raises ScheduleError, with a near name if there is one."""
    zone = find_zone(name)
    if zone is None:
        hint = zone_hint(name)
        raise ScheduleError(
            f"there is no time zone {shown(name)}" + (f"; {hint}" if hint else ""),
            field="timezone",
            allowed="an IANA name such as Europe/Berlin",
        )
    return zone


@lru_cache(maxsize=1024)
def find_zone(name: str) -> Zone | None:
    """Return the zone of that IANA name, or None.

    What the system keeps beside the zones proper is none: its own zone under no name of its own,
    and zones that count leap seconds, which no clock here does.
    """
    if name in HOST_FILES or name.startswith("right/") or len(name) > _LONGEST_NAME:
        return None
    try:
        return Zone(ZoneInfo(name))
    except (LookupError, ValueError, OSError):
        return None  # no such name, nothing that could be one, or no zone file: all one here


def forget_zones() -> None:
    """Have zone data read again from now on; schedules made before keep what they have."""
    ZoneInfo.clear_cache()
    find_zone.cache_clear()
    forget_names()
