"""Turns the model's words into rows of the SQLite ledger, and rows into words.

Not responsible for statements or files. An instant is stored as whole microseconds since the
epoch, the resolution of ``datetime``; so nothing is lost either way.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import Any

from crond_py.model import (
    Absence,
    Attempt,
    Cause,
    ClockReading,
    Cursor,
    Exit,
    Lag,
    Lane,
    Left,
    Outcome,
    PastTime,
    PastTimes,
    Run,
    Scale,
    State,
    Task,
)
from crond_py.ports import Claim, SetRun, SetTask

Row = tuple[Any, ...]
"""A row as sqlite3 gives it: integers, text, bytes and None."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LARGEST_ID = 2**63 - 1
"""SQLite's largest integer."""

_RUN_COLUMNS = 14
_LAG_COLUMNS = 5
_MICROSECOND = timedelta(microseconds=1)
_TASKS = "tasks:"
"""The name of the cursor of tasks, see ``engine.attendance``."""

_FORGOTTEN = "the ledger has lost its newest records; nobody knows whether it ran"


def to_us(instant: datetime) -> int:
    """Return microseconds since the epoch. A naive datetime is a TypeError."""
    since = instant - EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def to_us_or_none(instant: datetime | None) -> int | None:
    """Return microseconds since the epoch, or None for None."""
    return None if instant is None else to_us(instant)


def to_text(text: str) -> str | bytes:
    """Return ``text`` as SQLite can hold it: as bytes where it is no UTF-8.

    A path has lone surrogates where its bytes are no UTF-8 (os.fsdecode). Columns that need not
    hold such a thing, as a job's name, refuse it.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
    return text


def from_text(value: str | bytes) -> str:
    """Return what ``to_text`` was given. A TypeError where the value is neither."""
    return value if isinstance(value, str) else str(value, "utf-8", "surrogatepass")


def from_us(us: int) -> datetime:
    """Return the instant so many microseconds after the epoch."""
    return EPOCH + timedelta(microseconds=us)


def _instant_or_none(us: int | None) -> datetime | None:
    return None if us is None else EPOCH + timedelta(microseconds=us)


def claim_row(claim: Claim) -> Row:
    """Return the values of ``insert_run``. A claim that has an outcome has ended with it.

    The first is the id; None: the ledger gives one.
    """
    claimed_at = to_us(claim.claimed_at)
    return (
        claim.run_id,
        to_text(claim.job),
        claim.era,
        to_us(claim.due),
        claim.cause.value,
        claim.state.value,
        claimed_at,
        claim.outcome and claim.outcome.value,
        to_text(claim.reason),
        to_us_or_none(claim.last_due),
        claim.count,
        None if claim.outcome is None else claimed_at,
    )


def set_run_row(write: SetRun) -> Row:
    """Return the values of ``update_run``; what came last to them stands last, as in journals."""
    return (
        write.state.value,
        write.outcome and write.outcome.value,
        to_text(write.reason),
        to_us_or_none(write.finished_at),
        to_us_or_none(write.retry_at),
        write.run_id,
        write.left_as and write.left_as.value,
        to_us_or_none(write.made_up_at),
    )


def attempt_row(run_id: int, attempt: Attempt) -> Row:
    """Return the values of ``put_attempt``."""
    end = attempt.exit or Exit()
    return (
        run_id,
        attempt.number,
        to_us(attempt.begun_at),
        attempt.pid,
        attempt.start_ticks,
        attempt.boot_id and to_text(attempt.boot_id),
        to_us_or_none(attempt.started_at),
        to_us_or_none(attempt.finished_at),
        attempt.exit is not None,
        end.code,
        end.signal,
        None if end.cpu is None else end.cpu // _MICROSECOND,
        end.peak_memory_bytes,
        attempt.outcome and attempt.outcome.value,
        to_text(attempt.reason),
        to_text(attempt.output),
        attempt.stopping and attempt.stopping.value,
        *_lag_values(attempt.lag),
        None if attempt.user is None else to_text(attempt.user),
    )


def _lag_values(lag: Lag | None) -> Row:
    if lag is None:
        return (None,) * _LAG_COLUMNS
    spans = (lag.dispatch, lag.dependency, lag.overlap, lag.pool, lag.spawn)
    return tuple(span // _MICROSECOND for span in spans)


def to_set_run(row: Row) -> SetRun:
    """Make the write of its values."""
    state, outcome, reason, finished_at, retry_at, run_id, left_as, made_up_at = row
    return SetRun(
        run_id,
        State(state),
        None if outcome is None else Outcome(outcome),
        from_text(reason),
        _instant_or_none(finished_at),
        _instant_or_none(retry_at),
        None if left_as is None else Left(left_as),
        _instant_or_none(made_up_at),
    )


def cursor_row(cursor: Cursor) -> Row:
    """Return the values of ``put_cursor``."""
    # At a first start they are one instant, of all jobs.
    baseline, until, anchor = cursor.baseline, cursor.accounted_until, cursor.anchor
    baseline_us = to_us(baseline)
    return (
        to_text(cursor.job),
        to_text(cursor.fingerprint),
        cursor.era,
        baseline_us,
        baseline_us if until is baseline else to_us(until),
        baseline_us if anchor is baseline else to_us_or_none(anchor),
        *(map(to_us, cursor.barriers[0]) if cursor.barriers else (None, None)),
        to_text(cursor.boot_id),
        _past_text(cursor.past),
        _absences_text(cursor.absences),
        _barriers_text(cursor.barriers[1:]),
    )


def _barriers_text(barriers: Sequence[tuple[datetime, datetime]]) -> str | None:
    if not barriers:
        return None
    return json.dumps([(*map(to_us, each),) for each in barriers], separators=(",", ":"))


def _to_barriers(
    after: int | None, until: int | None, later: str | None
) -> tuple[tuple[datetime, datetime], ...]:
    if after is None or until is None:
        return ()
    values = [(after, until), *(json.loads(later) if later is not None else ())]
    return tuple((from_us(after), from_us(until)) for after, until in values)


def _past_text(past: PastTimes | None) -> str | None:
    if past is None:
        return None
    times = [
        (to_us(each.since), to_us(each.until), each.behind // _MICROSECOND) for each in past.times
    ]
    value = {"times": times, "boot": past.clock.boot_id, "lead": past.clock.lead // _MICROSECOND}
    return json.dumps(value, separators=(",", ":"))


def _to_past(text: str | None) -> PastTimes | None:
    if text is None:
        return None
    try:
        times, boot_id, lead = map(json.loads(text).__getitem__, ("times", "boot", "lead"))
    except LookupError as error:
        raise ValueError(text) from error
    past = (
        PastTime(from_us(since), from_us(until), _MICROSECOND * behind)
        for since, until, behind in times
    )
    return PastTimes(tuple(past), ClockReading(str(boot_id), _MICROSECOND * lead))


def _absences_text(absences: Sequence[Absence]) -> str | None:
    if not absences:
        return None
    values = [
        (
            each.scale,
            to_us(each.after),
            to_us(each.until),
            each.why,
            each.outcome,
            *([] if each.last_task_id is None else [each.last_task_id]),
        )
        for each in absences
    ]
    return json.dumps(values, separators=(",", ":"))


def _to_absences(text: str | None) -> tuple[Absence, ...]:
    if text is None:
        return ()
    return tuple(
        Absence(Scale(scale), from_us(after), from_us(until), str(why), Outcome(outcome), *rest)
        for scale, after, until, why, outcome, *rest in json.loads(text)
    )


def _lost_text(until_us: int, anchor_us: int) -> str:
    """Return the absences for the barrier that older cursors of tasks end with.

    Migration 0010 makes the same of what is in the file by then; see there.
    """
    stretches = ((Scale.WALL, 0), (Scale.STEADY, anchor_us))
    values = [
        (scale, -set_by, until_us - set_by, _FORGOTTEN, Outcome.LOST) for scale, set_by in stretches
    ]
    return json.dumps(values, separators=(",", ":"))


def to_cursor(row: Row) -> Cursor:
    """Make a cursor of a row of ``cursors``, which an older pycron may have left in a journal."""
    job, fingerprint, era, baseline, accounted_until, anchor, barrier_from, until, *rest = row
    boot_id, past, absences, later_barriers = rest
    if job == _TASKS and until is not None and absences is None:
        absences, barrier_from, until = _lost_text(until, anchor or 0), None, None
    return Cursor(
        job=job,
        fingerprint=fingerprint,
        era=era,
        baseline=from_us(baseline),
        accounted_until=from_us(accounted_until),
        anchor=_instant_or_none(anchor),
        barriers=_to_barriers(barrier_from, until, later_barriers),
        boot_id=boot_id,
        past=_to_past(past),
        absences=_to_absences(absences),
    )


def to_runs(rows: Iterable[Row]) -> list[Run]:
    """Make runs with their attempts of rows of ``runs``: those of one run follow each other."""
    return [_to_run(list(of_one)) for _, of_one in groupby(rows, key=itemgetter(0))]


def _to_run(rows: list[Row]) -> Run:
    (
        run_id,
        job,
        era,
        due,
        cause,
        state,
        claimed_at,
        outcome,
        reason,
        last_due,
        count,
        finished_at,
        retry_at,
        left_as,
    ) = rows[0][:_RUN_COLUMNS]
    values = [row[_RUN_COLUMNS:] for row in rows]
    attempts = tuple(to_attempt(value) for value in values if value[0] is not None)
    return Run(
        id=run_id,
        job=job,
        era=era,
        due=from_us(due),
        cause=Cause(cause),
        state=State(state),
        claimed_at=from_us(claimed_at),
        outcome=None if outcome is None else Outcome(outcome),
        reason=from_text(reason),
        last_due=_instant_or_none(last_due),
        count=count,
        finished_at=_instant_or_none(finished_at),
        retry_at=_instant_or_none(retry_at),
        left_as=None if left_as is None else Left(left_as),
        attempts=attempts,
    )


def _to_lag(values_us: Sequence[int | None]) -> Lag | None:
    spans = [timedelta(microseconds=value) for value in values_us if value is not None]
    return Lag(*spans) if len(spans) == _LAG_COLUMNS else None


def to_attempt(values: Row) -> Attempt:
    """Make an attempt of the values behind those of its run."""
    (
        number,
        begun_at,
        pid,
        start_ticks,
        boot_id,
        started_at,
        finished_at,
        has_exit,
        code,
        signal,
        cpu_us,
        peak_memory_bytes,
        outcome,
        reason,
        output,
        stopping,
        *lag_us,
        user,
    ) = values
    end = None
    if has_exit:
        cpu = None if cpu_us is None else timedelta(microseconds=cpu_us)
        end = Exit(code=code, signal=signal, cpu=cpu, peak_memory_bytes=peak_memory_bytes)
    return Attempt(
        number=number,
        begun_at=from_us(begun_at),
        pid=pid,
        start_ticks=start_ticks,
        boot_id=boot_id,
        started_at=_instant_or_none(started_at),
        finished_at=_instant_or_none(finished_at),
        exit=end,
        outcome=None if outcome is None else Outcome(outcome),
        reason=from_text(reason),
        output=from_text(output),
        stopping=None if stopping is None else Outcome(stopping),
        lag=_to_lag(lag_us),
        user=user,
    )


# --- tasks --------------------------------------------------------------------------------------


def lane_row(lane: Lane) -> Row:
    """Return the values of ``put_lane``."""
    return to_text(lane.pool), lane.priority, to_text(lane.group), lane.scale.value


def to_lane(row: Row) -> Lane:
    """Make a lane of its values."""
    pool, priority, group, scale = row
    if None in row:
        raise ValueError("it is in no lane")
    return Lane(pool, priority, group, Scale(scale))


def task_row(task: Task, lane_id: int) -> Row:
    """Return the values of ``insert_task``."""
    return (
        task.id,
        lane_id,
        to_us(task.due),
        None if task.period is None else task.period // _MICROSECOND,
        to_text(task.definition),
        None if task.key is None else to_text(task.key),
        to_text(task.submitted_by),
        to_us(task.submitted_at),
        to_us_or_none(task.ended_at),
    )


def task_values(task: Task) -> Row:
    """Return the values that ``to_task`` makes a task of."""
    task_id, _, *rest = task_row(task, 0)
    return (task_id, *lane_row(task.lane), *rest)


def to_task(row: Row) -> Task:
    """Make a task of a row of ``tasks``."""
    task_id, *lane, due, period, definition, key, submitted_by, submitted_at, ended_at = row
    return Task(
        id=task_id,
        lane=to_lane(tuple(lane)),
        due=from_us(due),
        definition=definition,
        submitted_by=submitted_by,
        submitted_at=from_us(submitted_at),
        period=None if period is None else timedelta(microseconds=period),
        key=key,
        ended_at=_instant_or_none(ended_at),
    )


def set_task_row(write: SetTask) -> Row:
    """Return the values of ``update_task``."""
    return to_us(write.due), to_us_or_none(write.ended_at), write.task_id


def to_set_task(row: Row) -> SetTask:
    """Make the write of its values."""
    due, ended_at, task_id = row
    return SetTask(task_id, from_us(due), _instant_or_none(ended_at))
