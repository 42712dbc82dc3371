"""Tasks at wall-clock times follow the wall clock whenever it is set."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest

from crond_py.clock import SystemClock
from crond_py.errors import ScheduleError
from crond_py.model import Missed
from crond_py.schedule import OneOff, parse_schedule
from crond_py.scheduler import Scheduler, TaskState
from crond_py.scheduler.options import read_settings
from crond_py.scheduler.task import Record, Task
from crond_py.scheduler.triggers import Calendar
from tests.support.clock import START
from tests.support.scheduling import PATIENCE, Bench

HOUR = timedelta(hours=1)
SECOND = timedelta(seconds=1)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Give a scheduler with one worker on a fake clock that shows 2026-01-15 12:00 UTC."""
    with Bench() as bench:
        yield bench


# --- once ---------------------------------------------------------------------------------------


def test_a_clock_set_forward_brings_what_it_jumped_over(bench: Bench) -> None:
    """P4: told of the change, the scheduler runs at once what is now due."""
    task = bench.scheduler.schedule(bench.clock.now() + HOUR, bench.note("a"))
    bench.advance(10)
    bench.clock.jump(timedelta(hours=2))
    bench.scheduler.clock_changed()
    assert task.wait(PATIENCE)
    assert bench.calls == [("a", 10)]


def test_a_clock_set_back_makes_it_wait(bench: Bench) -> None:
    """P2: an instant is due when the clock shows it, though its old deadline comes sooner."""
    bench.scheduler.schedule(bench.clock.now() + HOUR, bench.note("a"))
    bench.advance(600)
    bench.clock.jump(-HOUR)
    bench.scheduler.clock_changed()
    bench.advance(3_000, 3_599)
    assert bench.calls == []
    bench.advance(1)
    assert bench.calls == [("a", 7_200)]


def test_a_change_that_nobody_told_is_noticed_at_the_next_wake_up(bench: Bench) -> None:
    """Whenever the dispatcher wakes the clocks are compared, and early means wait on."""
    task = bench.scheduler.schedule(bench.clock.now() + HOUR, bench.note("a"))
    bench.advance(600)
    bench.clock.jump(-HOUR)
    bench.clock.advance(3_000 * SECOND)
    bench.settle()
    assert bench.calls == []
    assert task.state is TaskState.SCHEDULED
    bench.advance(3_600)
    assert bench.calls == [("a", 7_200)]


def test_a_change_while_it_is_being_delivered(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: taken off the heap and then told of a change, a task is not put on it twice."""
    lifecycle = bench.scheduler._lifecycle
    dispatcher = lifecycle._dispatcher
    popped = threading.Event()

    def deliver(items: list[object], popped_ns: int) -> None:
        popped.set()
        lifecycle._deliver(items, popped_ns)

    bench.scheduler.schedule(bench.clock.now() + SECOND, bench.note("once"))
    task = bench.scheduler.schedule_cron("* * * * *", bench.note("cron"), timezone="UTC")
    bench.advance(1)
    monkeypatch.setattr(dispatcher, "_deliver", deliver)
    with lifecycle.lock:
        bench.clock.advance(59 * SECOND)
        assert popped.wait(PATIENCE)
        bench.clock.jump(10 * SECOND)
        lifecycle.clock_changed()
        assert len(dispatcher) == 0
    bench.settle()
    assert bench.calls == [("once", 1), ("cron", 60)]
    assert len(dispatcher) == 1
    assert task.next_due == START + timedelta(minutes=2)


def test_next_due_follows_the_clock(bench: Bench) -> None:
    """A wall-clock task keeps its instant, a delay its distance, when the clock is set."""
    when = bench.clock.now() + HOUR
    at = bench.scheduler.schedule(when, bench.note("at"))
    after = bench.scheduler.schedule_after(HOUR, bench.note("after"))
    assert at.next_due == after.next_due == when
    bench.clock.jump(-HOUR)
    bench.scheduler.clock_changed()
    assert at.next_due == when
    assert after.next_due == when - HOUR


# --- a schedule ---------------------------------------------------------------------------------


def test_a_cron_expression_in_a_zone(bench: Bench) -> None:
    """The expression is read in the zone that is named; 13:30 in Berlin is 12:30 UTC in winter."""
    task = bench.scheduler.schedule_cron("30 13 * * *", bench.note("a"), timezone="Europe/Berlin")
    assert task.next_due == datetime(2026, 1, 15, 12, 30, tzinfo=UTC)
    bench.advance(1_799, 1, 86_399, 1)
    assert bench.called_at("a") == [1_800, 88_200]


def test_several_expressions_and_a_schedule_of_ones_own(bench: Bench) -> None:
    """Expressions count together; what parse_schedule made is taken as it is, with its zone."""
    both = bench.scheduler.schedule_cron(
        ["0 13 * * *", "30 12 * * *"], bench.note("both"), timezone="UTC"
    )
    assert both.next_due == datetime(2026, 1, 15, 12, 30, tzinfo=UTC)
    schedule = parse_schedule("0 18 * * *", "Asia/Kathmandu")
    own = bench.scheduler.schedule_cron(schedule, bench.note("own"))
    assert own.next_due == datetime(2026, 1, 15, 12, 15, tzinfo=UTC)
    with pytest.raises(TypeError, match="its own time zone"):
        bench.scheduler.schedule_cron(schedule, bench.note("own"), timezone="UTC")


def test_a_cron_expression_over_a_spring_night(bench: Bench) -> None:
    """A fixed time that the clocks skip runs once, at the end of the gap; the next day as ever."""
    bench.clock.jump(datetime(2026, 3, 29, 0, 0, tzinfo=UTC) - bench.clock.now())
    task = bench.scheduler.schedule_cron("30 2 * * *", bench.note("a"), timezone="Europe/Berlin")
    assert task.next_due == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    bench.advance(3_600)
    assert task.next_due == datetime(2026, 3, 30, 0, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("jump", "calls"),
    [
        (timedelta(hours=5), 2),  # one at once for all that was jumped over, one at 19:00
        (timedelta(days=4_000), 2),
        (-timedelta(minutes=30), 0),
        (-timedelta(hours=8), 1),
    ],
    ids=str,
)
def test_a_cron_task_when_the_clock_is_set(bench: Bench, jump: timedelta, calls: int) -> None:
    """P2: jumped over instants are missed ones; set back a little, nothing comes again."""
    task = bench.scheduler.schedule_cron("0 * * * *", bench.note("a"), timezone="UTC")
    bench.advance(3_600)
    bench.calls.clear()
    bench.clock.jump(jump)
    bench.scheduler.clock_changed()
    bench.advance(3_600)
    assert len(bench.calls) == calls
    assert task.state is TaskState.SCHEDULED


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "* * * *", "61 * * * *", ""])
def test_a_bad_expression_is_refused_at_once(bench: Bench, expression: str) -> None:
    """What cannot be read or never comes is a ValueError of the call."""
    with pytest.raises(ScheduleError):
        bench.scheduler.schedule_cron(expression, bench.note("a"))
    with pytest.raises(ScheduleError):
        bench.scheduler.schedule_cron("* * * * *", bench.note("a"), timezone="Europe/Berln")


def test_a_schedule_that_is_over_is_refused(bench: Bench) -> None:
    """A task that would never run is an error of the call, not a silent one."""
    past = OneOff(START - HOUR)
    with pytest.raises(ScheduleError, match="not due any more"):
        bench.scheduler.schedule_cron(past, bench.note("a"))


class Breaking:
    """A schedule that is due in an hour and then fails."""

    def __init__(self, error: Exception | None) -> None:
        self._error = error

    def next_after(self, instant: datetime) -> datetime | None:
        """Answer the first time only."""
        if instant < START + HOUR:
            return START + HOUR
        if self._error is not None:
            raise self._error
        return instant

    def latest_until(self, instant: datetime) -> datetime | None:
        """Not asked for."""
        raise NotImplementedError

    def count(self, after: datetime, until: datetime) -> int:
        """Not asked for."""
        raise NotImplementedError


def add_breaking(bench: Bench, error: Exception | None) -> Task:
    """Enter a task with a schedule that breaks."""
    lifecycle = bench.scheduler._lifecycle
    call = bench.note("broken")
    trigger = Calendar(Breaking(error), Missed.ONCE, lifecycle.wall_moment())
    record = Record(read_settings(call, {"name": "broken"}, repeats=True), call, trigger)
    lifecycle.add(record)
    return Task(record, lifecycle)


@pytest.mark.parametrize("error", [RuntimeError("bad schedule"), None], ids=repr)
def test_a_schedule_that_breaks_ends_its_own_task_alone(
    bench: Bench, error: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """One that fails, or does not advance, is logged and over; the other tasks go on."""
    task = add_breaking(bench, error)
    other = bench.scheduler.schedule_every(1_800, bench.note("other"))
    bench.advance(3_600, 1_800)
    assert bench.called_at("other") == [3_600, 5_400]
    assert bench.called_at("broken") == []
    assert task.state is TaskState.FINISHED
    assert isinstance(task.last_error, RuntimeError if error else ArithmeticError)
    assert "task 'broken' will not run again" in caplog.text
    assert other.state is TaskState.SCHEDULED


def test_a_schedule_that_breaks_when_the_clock_is_set(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Also then only its own task ends."""
    task = add_breaking(bench, None)
    record = task._record
    record.trigger.clock_set = partial(divmod, 1, 0)  # type: ignore[method-assign,assignment]
    at = bench.scheduler.schedule(START + timedelta(hours=9), bench.note("other"))
    bench.clock.jump(timedelta(hours=9))
    bench.scheduler.clock_changed()
    assert at.wait(PATIENCE)
    assert task.wait(PATIENCE)
    assert bench.called_at("other") == [0]
    assert "task 'broken' will not run again" in caplog.text


# --- the system's clock -------------------------------------------------------------------------


def test_the_systems_clock_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: a change of the machine's clock, or a resume, is noticed by a thread that only waits.

    Also where no task looks at the wall clock: a wait that a suspend fell into is too long.
    """
    scheduler = Scheduler(clock=SystemClock())
    told = threading.Event()
    monkeypatch.setattr(scheduler._lifecycle._dispatcher, "recheck", told.set)
    before = threading.active_count()
    with scheduler:
        scheduler.schedule_after(3_600, print)
        assert threading.active_count() == before + 2
        try:
            time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME))
        except PermissionError:
            pytest.skip("only root may set the system's clock")
        assert told.wait(PATIENCE)
    assert threading.active_count() == before
