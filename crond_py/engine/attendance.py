"""Up to when tasks have been attended to: what of them was missed, and on which scale they are due.

For all tasks together there is one cursor in the ledger. Whatever is due after it and before the
daemon's start was missed; what is due before it and was not taken up merely waits for its turn. Its
era goes up when the wall clock is set, since due instants may come again then; its anchor says how
far the wall clock was set in all since the ledger was begun: steady instants are without that. Its
barrier is there where the ledger has lost its newest records: what is due up to its end and was not
taken up may have run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from crond_py.clock import EPOCH
from crond_py.dataclass import dataclass
from crond_py.engine.agenda import (
    WAS_DOWN,
    WAS_FORGOTTEN,
    WAS_FROZEN,
    WAS_SET_FORWARD,
)
from crond_py.engine.ahead import AHEAD
from crond_py.engine.parts import Parts
from crond_py.model import Cursor, Outcome, Scale
from crond_py.ports import Gap, SetCursor

OLD = timedelta(seconds=1)
"""How far the cursor may be behind while other things are written."""

TASKS = "tasks:"
"""The name of the cursor; no job can be called so."""


@dataclass(frozen=True, slots=True)
class Absence:
    """A stretch, the first instant outside, in which nothing could start a task; on one scale.

    ``outcome``: ``missed``, or ``lost`` where nobody knows whether something did start it.
    """

    after: datetime
    until: datetime
    why: str
    outcome: Outcome = Outcome.MISSED


class Attendance:
    """Keeps the cursor, and the absences of which tasks are left to be settled."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        now = parts.timekeeper.now()
        self._cursor = Cursor(TASKS, "tasks", 0, now, now, anchor=EPOCH)
        self._is_stored = False
        self._absences: dict[Scale, list[Absence]] = {scale: [] for scale in Scale}

    @property
    def era(self) -> int:
        """The era of occurrences that are taken up now."""
        return self._cursor.era

    @property
    def _set_by(self) -> timedelta:
        """How far the wall clock was set in all."""
        return (self._cursor.anchor or EPOCH) - EPOCH

    def wall(self, scale: Scale, due: datetime) -> datetime:
        """Return what the wall clock reads at an instant of a scale, as it is set now."""
        return due + self._set_by if scale is Scale.STEADY else due

    def on_scale(self, scale: Scale, reading: datetime) -> datetime:
        """Return a reading of the wall clock on a scale."""
        return reading - self._set_by if scale is Scale.STEADY else reading

    def begin(self, stored: Cursor | None, now: datetime, gap: Gap | None) -> None:
        """Take the cursor of an earlier daemon; what came due since was missed."""
        if stored is None:
            return
        self._cursor, self._is_stored = stored, True
        attended = stored.accounted_until
        if now < attended - AHEAD:
            # Set back while nobody was there; elapsed time goes on from now.
            self._move(now - attended, now)
        if gap is not None:
            self._cursor = replace(self._cursor, barrier_from=EPOCH, barrier_until=gap.until)
        if self._cursor.barrier_until is not None:
            self._note(EPOCH, self._cursor.barrier_until, WAS_FORGOTTEN, Outcome.LOST)
        self._note(attended, now, WAS_DOWN)
        if self._cursor != stored:
            self._write(durable=True)

    def note_frozen(self, after: datetime, until: datetime) -> None:
        """Note that for a while nothing was started."""
        self._note(after, until, WAS_FROZEN)

    def clock_set(self, step: timedelta, now: datetime) -> None:
        """Note that the wall clock was set by ``step`` and reads ``now``."""
        wall = self._absences[Scale.WALL]
        self._move(step, min(now, now - step))
        if step > timedelta(0):
            wall.append(Absence(now - step, now, WAS_SET_FORWARD))
        else:
            # What was missed at readings that are yet to come again is not missed any more.
            kept = (replace(each, until=min(each.until, now)) for each in wall)
            self._absences[Scale.WALL] = [each for each in kept if each.after < each.until]
        if self._is_stored:
            self._write(durable=True)

    def absence(self, scale: Scale, due: datetime) -> Absence | None:
        """Return the absence in which an instant of a scale falls."""
        return next(
            (each for each in self._absences[scale] if each.after < due <= each.until), None
        )

    @property
    def is_old(self) -> bool:
        """Whether the ledger's cursor is a while behind, though all has been attended to since."""
        return self._parts.timekeeper.now() - self._cursor.accounted_until > OLD

    def attend(self, until: datetime, first_due: Mapping[Scale, datetime | None]) -> None:
        """Note that all is attended to up to ``until``, with what is written next.

        ``first_due`` are the first instants that are left to take up: as long as one of them falls
        in an absence or before it, a restart must know of that absence, too.
        """
        for scale, absences in self._absences.items():
            first = first_due.get(scale)
            if first is None:
                absences.clear()
                continue
            absences[:] = [each for each in absences if each.until >= first]
            missed = [each.after for each in absences if each.outcome is Outcome.MISSED]
            until = min([until, *(self.wall(scale, after) for after in missed)])
        is_over = not any(map(self._is_barrier_in, Scale))
        barrier_until = None if is_over else self._cursor.barrier_until
        cursor = replace(
            self._cursor,
            accounted_until=max(until, self._cursor.accounted_until),
            barrier_from=None if is_over else self._cursor.barrier_from,
            barrier_until=barrier_until,
        )
        if cursor != self._cursor or not self._is_stored:
            is_new = not self._is_stored
            self._cursor = cursor
            self._write(durable=is_new)

    def _is_barrier_in(self, scale: Scale) -> bool:
        return any(each.outcome is Outcome.LOST for each in self._absences[scale])

    def _move(self, step: timedelta, until: datetime) -> None:
        anchor = (self._cursor.anchor or EPOCH) + step
        self._cursor = replace(
            self._cursor, era=self._cursor.era + 1, accounted_until=until, anchor=anchor
        )

    def _note(
        self, after: datetime, until: datetime, why: str, outcome: Outcome = Outcome.MISSED
    ) -> None:
        if after >= until:
            return
        for scale, absences in self._absences.items():
            stretch = self.on_scale(scale, after), self.on_scale(scale, until)
            absences.append(Absence(*stretch, why, outcome))

    def _write(self, *, durable: bool) -> None:
        self._is_stored = True
        self._parts.outbox.write(SetCursor(self._cursor), durable=durable)
