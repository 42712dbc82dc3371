"""Up to when tasks have been attended to: what of them was missed, and on which scale they are due.

For all tasks together there is one cursor in the ledger. Whatever is due after it and before the
daemon's start was missed; what is due before it and was not taken up merely waits for its turn,
unless it falls in one of the cursor's absences: each is kept as long as a task is left that was due
then, and across restarts. Where the ledger has lost its newest records, one ends there that has no
beginning: what was due in it and was not taken up may have run, but for tasks that were handed in
later, though they be due in it, as where the clock was set back. The cursor's era goes up when the
wall clock is set, since due instants may come again then; its anchor says how far the wall clock
was set in all since the ledger was begun: steady instants are without that.

How far the wall clock was set while nobody was there is told by the monotonic one, as long as the
machine was not restarted. Where it was, nobody knows how long it was off: that is what the wall
clock says, or no time at all where that reads less than before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from crond_py.clock import EPOCH
from crond_py.engine.agenda import (
    WAS_DOWN,
    WAS_FORGOTTEN,
    WAS_FROZEN,
    WAS_SET_FORWARD,
)
from crond_py.engine.ahead import AHEAD
from crond_py.engine.parts import Parts
from crond_py.model import Absence, ClockReading, Cursor, Outcome, PastTimes, Scale, Task
from crond_py.ports import Gap, SetCursor

OLD = timedelta(seconds=1)
"""How far the cursor may be behind while other things are written."""

_NOISE = timedelta(milliseconds=1)
"""What two readings of how far the wall clock is ahead of the monotonic one may differ by."""

MOST_ABSENCES = 16
"""How many absences of a scale and an outcome are known at most.

Of more the shortest is forgotten: what was due in it counts as having waited, and is run. One in
which something is lost has all shorter ones in it, and takes over their tasks.
"""

TASKS = "tasks:"
"""The name of the cursor; no job can be called so."""


class Attendance:
    """Keeps the cursor, with the absences of which tasks are left to be settled."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        now = parts.timekeeper.now()
        self._cursor = Cursor(TASKS, "tasks", 0, now, now, anchor=EPOCH, past=self._clock())
        self._written: Cursor | None = None
        self._reached = EPOCH  # before the wall clock was set back, in this life

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

    def begin(
        self, stored: Cursor | None, now: datetime, gap: Gap | None, last_task_id: int
    ) -> None:
        """Take the cursor of an earlier daemon; what came due since was missed.

        Tasks up to ``last_task_id`` may have been there before.
        """
        if stored is None:
            return
        self._written = stored
        self._cursor = replace(stored, absences=_bounded(stored.absences, last_task_id))
        attended = stored.accounted_until
        if gap is not None:
            self._note_lost(gap.until, last_task_id)
        since = {scale: self.on_scale(scale, attended) for scale in Scale}
        step = self._unseen_step(stored, now)
        if step:
            self._move(step, now)
        for scale, after in since.items():
            self._add(Absence(scale, after, self.on_scale(scale, now), WAS_DOWN))
        if not step:
            until = max(attended, now)
            past = stored.past if self._is_of_this_boot(stored.past) else self._clock()
            self._cursor = replace(self._cursor, accounted_until=until, past=past)
        self._write()

    def _unseen_step(self, stored: Cursor, now: datetime) -> timedelta:
        """Return how far the wall clock was set since the cursor was written, as far as known."""
        if stored.past is not None and self._is_of_this_boot(stored.past):
            step = self._parts.timekeeper.lead() - stored.past.clock.lead
            return step if abs(step) >= _NOISE else timedelta(0)
        is_set_back = now < stored.accounted_until - AHEAD
        return now - stored.accounted_until if is_set_back else timedelta(0)

    def _is_of_this_boot(self, past: PastTimes | None) -> bool:
        boot_id = self._parts.boot_id
        return past is not None and bool(boot_id) and past.clock.boot_id == boot_id

    def _clock(self) -> PastTimes:
        """Return where the clock stands, as the steady scale is told by it."""
        return PastTimes((), ClockReading(self._parts.boot_id, self._parts.timekeeper.lead()))

    def note_frozen(self, after: datetime, until: datetime) -> None:
        """Note that for a while nothing was started.

        It is written together with anything that says we were there since.
        """
        self._note(after, until, WAS_FROZEN)
        if self._written is not None:
            self._write()

    def clock_set(self, step: timedelta, now: datetime) -> None:
        """Note that the wall clock was set by ``step`` and reads ``now``.

        A clock that was set back, and is right again, has not jumped over what it had shown before.
        """
        if step < timedelta(0):
            self._reached = max(self._reached, now - step)
        self._move(step, now)
        if step > timedelta(0):
            after = max(now - step, self._reached)
            self._add(Absence(Scale.WALL, after, now, WAS_SET_FORWARD))
        if self._written is not None:
            self._write()

    def absence(self, task: Task) -> Absence | None:
        """Return the absence in which a task was due."""
        return next((each for each in self._cursor.absences if _has(each, task)), None)

    @property
    def is_old(self) -> bool:
        """Whether the ledger's cursor is a while behind, though all has been attended to since."""
        return self._parts.timekeeper.now() - self._cursor.accounted_until > OLD

    def attend(self, until: datetime, first_due: Mapping[Scale, datetime | None]) -> None:
        """Note that all is attended to up to ``until``, with what is written next.

        ``first_due`` are the first instants that are left to take up: as long as one of them falls
        in an absence or before it, that absence is known.
        """
        firsts = first_due.get
        self._cursor = replace(
            self._cursor,
            accounted_until=max(until, self._cursor.accounted_until),
            absences=tuple(
                each
                for each in self._cursor.absences
                if (first := firsts(each.scale)) is not None and each.until >= first
            ),
        )
        self._write()

    def _move(self, step: timedelta, now: datetime) -> None:
        """Take a step of the wall clock, which reads ``now``, out of the steady scale.

        What was missed at readings that are yet to come again is not missed any more; what may have
        run at these is not run again.
        """
        kept = (
            replace(each, until=min(each.until, now))
            if each.scale is Scale.WALL and each.outcome is Outcome.MISSED
            else each
            for each in self._cursor.absences
        )
        self._cursor = replace(
            self._cursor,
            era=self._cursor.era + 1,
            accounted_until=now,
            anchor=(self._cursor.anchor or EPOCH) + step,
            past=self._clock(),
            absences=tuple(each for each in kept if each.after < each.until),
        )

    def _note(self, after: datetime, until: datetime, why: str) -> None:
        for scale in Scale:
            stretch = self.on_scale(scale, after), self.on_scale(scale, until)
            self._add(Absence(scale, *stretch, why))

    def _note_lost(self, until: datetime, last_task_id: int) -> None:
        for scale in Scale:
            stretch = self.on_scale(scale, EPOCH), self.on_scale(scale, until)
            self._add(Absence(scale, *stretch, WAS_FORGOTTEN, Outcome.LOST, last_task_id))

    def _add(self, new: Absence) -> None:
        """Know of one more absence; what is lost is asked for before what was missed."""
        if new.after >= new.until:
            return
        absences = list(self._cursor.absences)
        if new.outcome is Outcome.MISSED:
            for each in [each for each in absences if _are_one(each, new)]:
                absences.remove(each)
                new = replace(
                    new, after=min(each.after, new.after), until=max(each.until, new.until)
                )
        if new.outcome is Outcome.LOST:
            absences.insert(0, new)
        else:
            absences.append(new)
        alike = [each for each in absences if _kind(each) == _kind(new)]
        if len(alike) > MOST_ABSENCES:
            shortest, longer, *_ = sorted(alike, key=lambda each: each.until - each.after)
            if new.outcome is Outcome.LOST:
                absences[absences.index(longer)] = _with_tasks_of(longer, shortest)
            absences.remove(shortest)
        self._cursor = replace(self._cursor, absences=tuple(absences))

    def _write(self) -> None:
        """Write the cursor where it has changed; durably where a task would be run twice else."""
        before, self._written = self._written, self._cursor
        if before == self._cursor:
            return
        is_durable = before is None or _vital(before) != _vital(self._cursor)
        self._parts.outbox.write(SetCursor(self._cursor), durable=is_durable)


def _kind(absence: Absence) -> tuple[Scale, Outcome]:
    return absence.scale, absence.outcome


def _are_one(absence: Absence, other: Absence) -> bool:
    """Tell whether two absences are one stretch, and for one reason."""
    return (
        _kind(absence) == _kind(other)
        and absence.why == other.why
        and absence.after <= other.until
        and other.after <= absence.until
    )


def _has(absence: Absence, task: Task) -> bool:
    """Tell whether a task was due in an absence, and there: what is handed in later is due at once.

    When that was is a reading of the wall clock, so only those of that scale can be told by it;
    elapsed time that has run out before it was handed in there is none.
    """
    is_later = task.lane.scale is Scale.WALL and absence.until < task.submitted_at
    return (
        absence.scale is task.lane.scale
        and absence.after < task.due <= absence.until
        and (absence.last_task_id is None or task.id <= absence.last_task_id)
        and not is_later
    )


def _bounded(absences: Iterable[Absence], last_task_id: int) -> tuple[Absence, ...]:
    """Return absences, those bounded in which an older pycron lost tasks, whichever these be."""
    return tuple(
        replace(each, last_task_id=last_task_id)
        if each.outcome is Outcome.LOST and each.last_task_id is None
        else each
        for each in absences
    )


def _with_tasks_of(absence: Absence, other: Absence) -> Absence:
    """Return an absence that holds the tasks of another one, too."""
    if absence.last_task_id is None or other.last_task_id is None:
        return replace(absence, last_task_id=None)
    return replace(absence, last_task_id=max(absence.last_task_id, other.last_task_id))


def _vital(cursor: Cursor) -> tuple[object, ...]:
    """Return what of a cursor keeps tasks from being run twice."""
    return cursor.era, *(each for each in cursor.absences if each.outcome is Outcome.LOST)
