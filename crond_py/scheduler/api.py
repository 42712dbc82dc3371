"""The public Python API: ``Scheduler``. Reads the arguments; what follows is in ``lifecycle``."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from types import TracebackType
from typing import Any, Literal, Self, TypeVarTuple, Unpack

from crond_py.clock import SystemClock, check_aware
from crond_py.errors import ScheduleError
from crond_py.model import EveryMode
from crond_py.policy import Occurrences
from crond_py.ports import Clock
from crond_py.scheduler.lifecycle import Lifecycle
from crond_py.scheduler.options import (
    RepeatOptions,
    Settings,
    TaskOptions,
    check_int,
    read_enum,
    read_period_ns,
    read_settings,
    read_span_ns,
)
from crond_py.scheduler.task import Record, Task
from crond_py.scheduler.triggers import Calendar, FixedDelay, FixedRate, Once, OnceAt, Trigger

Ts = TypeVarTuple("Ts")

DEFAULT_WORKERS = min(32, (os.cpu_count() or 1) + 4)


class Scheduler:
    """Runs plain callables at their time, on a pool of threads.

        with Scheduler() as scheduler:
            scheduler.schedule_every(60, poll)
            scheduler.schedule_cron("30 2 * * *", backup, timezone="Europe/Berlin").wait()

    ``workers`` threads at most call tasks; they are started as they are needed. ``clock`` is for
    tests; with one of your own, call ``clock_changed`` after setting its wall clock.

    Every ``schedule`` method takes the callable and its positional arguments (for others use
    ``functools.partial``), then options by name, see ``TaskOptions`` and ``RepeatOptions``. It
    returns a ``Task`` at once, or raises TypeError or ValueError, or SchedulerShutdownError once
    the scheduler is shut down. All methods may be called from any thread, also from a task.

    What is promised:

    - A time that has passed is due at once. Tasks of one due instant start in the order of their
      priority, and then in the order in which they were scheduled.
    - Delays, intervals and retries run on a clock that cannot be set; wall-clock times follow the
      wall clock whenever it is set.
    - A callable that raises is logged with its traceback, to the logger ``pycron.scheduler``, and
      harms nothing else; so is one that raises SystemExit or KeyboardInterrupt.
    - The interpreter does not end before running tasks have; whatever has not begun is dropped.
    """

    def __init__(
        self, workers: int = DEFAULT_WORKERS, clock: Clock | None = None, *, name: str = "scheduler"
    ) -> None:
        check_int("workers", workers, least=1)
        self._clock: Clock = SystemClock() if clock is None else clock
        self._lifecycle = Lifecycle(self._clock, workers, name)

    def now(self) -> float:
        """Return the present instant of the scheduler's own clock, in seconds.

        It counts from some instant in the past, goes on while the machine is suspended, and
        cannot be set: ``schedule(scheduler.now() + 5, ...)`` is five seconds from now.
        """
        return self._clock.monotonic_ns() / 1_000_000_000

    def schedule(
        self,
        when: datetime | float,
        func: Callable[[*Ts], object],
        *args: *Ts,
        **options: Unpack[TaskOptions],
    ) -> Task:
        """Run ``func(*args)`` once, at an instant.

        ``when`` is an aware datetime, for when the wall clock shows it or a later time, or a
        number of seconds of ``now()``. One that has passed is due at once.
        """
        settings = read_settings(func, options, repeats=False)
        trigger: Trigger
        if isinstance(when, datetime):
            check_aware(when)
            trigger = OnceAt(_to_utc(when))
            self._lifecycle.wall_moment()
        else:
            trigger = Once(read_span_ns("when", when))
        return self._add(settings, trigger, func, args)

    def schedule_after(
        self,
        delay: timedelta | float,
        func: Callable[[*Ts], object],
        *args: *Ts,
        **options: Unpack[TaskOptions],
    ) -> Task:
        """Run ``func(*args)`` once, ``delay`` (a timedelta or seconds) from now."""
        settings = read_settings(func, options, repeats=False)
        due_ns = self._clock.monotonic_ns() + read_span_ns("delay", delay)
        return self._add(settings, Once(due_ns), func, args)

    def schedule_every(
        self,
        period: timedelta | float,
        func: Callable[[*Ts], object],
        *args: *Ts,
        mode: EveryMode | Literal["fixed-rate", "fixed-delay"] = EveryMode.FIXED_RATE,
        first: timedelta | float | None = None,
        **options: Unpack[RepeatOptions],
    ) -> Task:
        """Run ``func(*args)`` again and again, ``period`` (a timedelta or seconds) apart.

        With ``fixed-rate`` the beats are ``period`` apart, without drift, whatever the runs take;
        with ``fixed-delay`` it is that long from the end of a run, retries included, to the next.
        ``first`` is how long from now the first beat is; one period by default, 0 for at once.
        """
        settings = read_settings(func, options, repeats=True)
        period_ns = read_period_ns("period", period)
        mode = read_enum("mode", EveryMode, mode)
        first_ns = self._clock.monotonic_ns()
        first_ns += period_ns if first is None else read_span_ns("first", first)
        trigger: Trigger
        if mode is EveryMode.FIXED_RATE:
            trigger = FixedRate(first_ns, period_ns, settings.missed)
        else:
            trigger = FixedDelay(first_ns, period_ns)
        return self._add(settings, trigger, func, args)

    def schedule_cron(
        self,
        expression: str | Sequence[str] | Occurrences,
        func: Callable[[*Ts], object],
        *args: *Ts,
        timezone: str | None = None,
        **options: Unpack[RepeatOptions],
    ) -> Task:
        """Run ``func(*args)`` whenever a cron expression matches in ``timezone``.

        The grammar and what happens when the zone's clocks change are those of the crontab; the
        system's own zone is the default. Several expressions count together. In their place may
        stand what ``parse_schedule`` returns, which knows its zone.

        Raises ScheduleError, a ValueError, for what cannot be read or is never due.
        """
        settings = read_settings(func, options, repeats=True)
        schedule = _read_schedule(expression, timezone, settings.name)
        trigger = Calendar(schedule, settings.missed, self._lifecycle.wall_moment())
        if trigger.is_exhausted:
            raise ScheduleError(f"the schedule {expression!r} is not due any more")
        return self._add(settings, trigger, func, args)

    def cancel(self, task: Task) -> bool:
        """Take back all that is to come of a task; True if there was anything.

        That is what is due later, runs that wait for a worker or a retry, and further attempts of
        a run that is under way, which itself goes on. Raises ValueError for a task of another
        scheduler.
        """
        if not isinstance(task, Task):
            raise TypeError(f"not a task: {task!r}")
        if not task.belongs_to(self._lifecycle):
            raise ValueError(f"{task!r} belongs to another scheduler")
        return task.cancel()

    def clock_changed(self) -> None:
        """Look at the clocks now: the wall clock was set, or the machine was suspended.

        On the system's clock this is done without asking.
        """
        self._lifecycle.clock_changed()

    def shutdown(self, wait: bool = True, *, cancel_pending: bool = True) -> None:
        """Take no more tasks; wait until those that run have ended, and the threads with them.

        What has not begun is dropped: what is due later, what waits for a worker or for a retry.
        With ``cancel_pending=False`` one-off tasks still run when they are due and failed ones
        are tried again, but what repeats has no further beat.

        With ``wait=False`` it returns at once and the rest goes on by itself. Called from a task
        of this scheduler it never waits, as that would be for the task itself. It may be called
        again, to wait, or to drop what was to be run.
        """
        self._lifecycle.close(cancel_pending=cancel_pending)
        if wait:
            self._lifecycle.wait_closed()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.shutdown()

    def _add(
        self,
        settings: Settings,
        trigger: Trigger,
        func: Callable[..., object],
        args: tuple[Any, ...],
    ) -> Task:
        record = Record(settings, partial(func, *args) if args else func, trigger)
        self._lifecycle.add(record)
        return Task(record, self._lifecycle)


def _to_utc(when: datetime) -> datetime:
    try:
        return when.astimezone(UTC)
    except OverflowError:
        raise ScheduleError(f"{when.isoformat()} is beyond the calendar") from None


def _read_schedule(
    expression: str | Sequence[str] | Occurrences, timezone: str | None, hash_key: str
) -> Occurrences:
    if not isinstance(expression, (str, Sequence)):
        if timezone is not None:
            raise TypeError("a schedule has its own time zone; timezone goes with an expression")
        return expression
    # Only who uses cron expressions pays for the library that reads them.
    from crond_py.schedule import parse_schedule, system_timezone  # noqa: PLC0415

    return parse_schedule(expression, timezone or system_timezone(), hash_key=hash_key)
