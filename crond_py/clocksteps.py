"""What a step of the wall clock makes of how far a job is accounted for: pure, on plain data.

Set back by up to three hours, the clock comes a second time through readings that have had their
occurrences: a barrier keeps them from being due again, one for each stretch of them, as it may be
set back several times. Set back by more, it shows a new time: a new era of the job, in which
readings count anew and are used at once (cron(8), Debian).

Steps add up. A clock that was wrong and is right again comes back to a time that was accounted
for up to somewhere before it left it, and what had its row then is neither run nor missed again.
So each step of more than three hours leaves a ``PastTime`` in the cursor: how far its time was
accounted for, and how far the clock is behind it. Once that is three hours or less, it is the old
time, and the readings that had their account then are passed over.

A restart within one boot of the machine finds by the monotonic clock how far the wall clock was
set meanwhile, where there is anything to come back to. Without that, and after another boot, a
clock that reads less than what is accounted for was set back by at least as much. One that has
come as far as a past time may have been set right or not, nobody knows: what lies between is in
doubt, and not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from crond_py.model import ClockReading, Cursor, PastTime, PastTimes
from crond_py.policy import Stretch, advance

NEW_TIME_AFTER = timedelta(hours=3)
"""A clock set back by more than this shows a new time (cron(8), Debian: changes of three hours)."""

MOST_PAST_TIMES = 8
"""How many times before a step a cursor remembers; a clock is hardly ever wrong in more ways."""

MOST_BARRIERS = 16
"""How many barriers a cursor has. Of what lies behind them the ledger refuses what has its row."""

_NOTHING = timedelta(0)
_NOISE = timedelta(milliseconds=1)
"""What two readings of one clock may differ by."""


def clock_was_set(cursor: Cursor, now: datetime, step: timedelta, clock: ClockReading) -> Cursor:
    """Return the cursor after the wall clock was set by ``step``.

    It reads ``now``, and stands as ``clock`` says.
    """
    older = _behind(cursor, step)
    left = _left(cursor, step)
    if step < _NOTHING:
        cursor = _rewind(cursor, now, -step)
    return _remembering(_passing_over(cursor, older, now, step), [*older, *left], clock)


def after_restart(
    cursor: Cursor, now: datetime, clock: ClockReading
) -> tuple[Cursor, datetime | None]:
    """Return the cursor with which a daemon goes on, and up to which instant all is in doubt."""
    step = _unseen_step(cursor, now, clock)
    doubt = None
    if cursor.past is not None and cursor.past.clock.boot_id != clock.boot_id:
        past = [each.until for each in cursor.past.times if each.behind > NEW_TIME_AFTER]
        reached = [until for until in past if cursor.accounted_until < until <= now]
        doubt = max(reached, default=None)
    if step or cursor.past is not None:
        cursor = clock_was_set(cursor, now, step, clock)
    return cursor, doubt


def begun_anew(new: Cursor, stored: Cursor, now: datetime, clock: ClockReading) -> Cursor:
    """Return the cursor ``new`` of a job that begins anew, with its past times.

    What it had its account of in one that the clock is back in does not come again.
    """
    step = _unseen_step(stored, now, clock)
    past = [*_behind(stored, step), *_left(stored, step)]
    for each in past:
        if each.behind <= NEW_TIME_AFTER:
            new = _barring(new, each)
    return _remembering(new, past, clock)


def _unseen_step(cursor: Cursor, now: datetime, clock: ClockReading) -> timedelta:
    """Return how far the clock was set since the cursor was written, as far as can be told."""
    if cursor.past is not None and cursor.past.clock.boot_id == clock.boot_id:
        step = clock.lead - cursor.past.clock.lead
        if abs(step) >= _NOISE:
            return step
    return min(_NOTHING, now - cursor.accounted_until)


def _rewind(cursor: Cursor, now: datetime, set_back_by: timedelta) -> Cursor:
    """Return the cursor for a wall clock that was set back."""
    if now >= cursor.accounted_until:
        return cursor
    if set_back_by > NEW_TIME_AFTER:
        return replace(cursor, era=cursor.era + 1, baseline=now, accounted_until=now, barriers=())
    had_rows = [(max(after, now), until) for after, until in _accounted(cursor)]
    return replace(
        cursor,
        baseline=min(cursor.baseline, now),
        accounted_until=now,
        barriers=tuple(each for each in had_rows if now < each[1])[:MOST_BARRIERS],
    )


def _accounted(cursor: Cursor) -> list[Stretch]:
    """Return the stretches of readings that are accounted for, in order."""
    return _united([(cursor.baseline, cursor.accounted_until), *cursor.barriers])


def _united(stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return stretches in order, those as one that overlap or meet."""
    united: list[Stretch] = []
    for after, until in sorted(stretches):
        if united and after <= united[-1][1]:
            united[-1] = (united[-1][0], max(until, united[-1][1]))
        else:
            united.append((after, until))
    return united


# --- past times ---------------------------------------------------------------------------------


def _behind(cursor: Cursor, step: timedelta) -> list[PastTime]:
    """Return the past times as the clock is behind them after a step."""
    times = cursor.past.times if cursor.past is not None else ()
    return [replace(each, behind=each.behind - step) for each in times]


def _left(cursor: Cursor, step: timedelta) -> list[PastTime]:
    """Return the time that a step leaves, where it is far enough for that.

    Where it is not accounted for in one stretch, that are several.
    """
    if abs(step) <= NEW_TIME_AFTER:
        return []
    return [PastTime(since, until, -step) for since, until in _accounted(cursor)]


def _passing_over(
    cursor: Cursor, past: Sequence[PastTime], now: datetime, step: timedelta
) -> Cursor:
    """Take as accounted for what was so before the clock left the time that it is back in.

    Where it is back by this step, what is jumped over before that lies before the baseline of the
    old time, and is not missed.
    """
    for each in past:
        if each.behind > NEW_TIME_AFTER or each.until <= cursor.accounted_until:
            continue
        is_first = all(each.since <= o.since for o in past if o.behind == each.behind)
        if is_first and each.behind + step > NEW_TIME_AFTER and each.since <= now:
            cursor = advance(cursor, max(cursor.accounted_until, min(now, each.until)))
        cursor = _barring(cursor, each)
    return cursor


def _barring(cursor: Cursor, past: PastTime) -> Cursor:
    """Take as accounted for what was so in a time, as far as it is yet to come."""
    begin, until = max(past.since, cursor.accounted_until), past.until
    if until <= begin:
        return cursor
    barriers = _united([*cursor.barriers, (begin, until)])
    return replace(cursor, barriers=tuple(barriers[:MOST_BARRIERS]))


def _remembering(cursor: Cursor, past: Iterable[PastTime], clock: ClockReading) -> Cursor:
    """Return the cursor with its past times, without those that another covers.

    That is one which reaches as far or farther at both ends and is met no later.
    """
    kept: list[PastTime] = []
    for each in sorted(past, key=lambda each: (each.until, -each.behind), reverse=True):
        if not any(o.since <= each.since and o.behind <= each.behind for o in kept):
            kept.append(each)
    times = tuple(kept[:MOST_PAST_TIMES])
    return replace(cursor, past=PastTimes(times, clock) if times else None)
