"""Tasks that repeat: the beat, what a stall makes of it, and runs that outlast it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from crond_py.model import Retry
from crond_py.scheduler import TaskState
from tests.support.scheduling import PATIENCE, Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Give a scheduler with one worker on a fake clock."""
    with Bench() as bench:
        yield bench


@pytest.fixture
def pair() -> Iterator[Bench]:
    """Give a scheduler with two workers: one may be held by a gate."""
    with Bench(workers=2) as bench:
        yield bench


# --- the beat -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "beats"),
    [
        (None, [10, 20, 30]),
        (0, [0, 10, 20, 30]),
        (4, [4, 14, 24]),
        (timedelta(seconds=25), [25]),
        (-1, [0, 9, 19, 29]),
    ],
    ids=repr,
)
def test_the_first_beat(bench: Bench, first: Any, beats: list[float]) -> None:
    """The first beat is one period from now, or as long from now as asked for."""
    bench.scheduler.schedule_every(10, bench.note("a"), first=first)
    bench.settle()
    bench.advance(*[1] * 30)
    assert bench.called_at("a") == beats


def test_a_fixed_rate_keeps_its_grid(bench: Bench) -> None:
    """Late deliveries do not move the beats: there is no drift, however often they are late."""
    bench.scheduler.schedule_every(timedelta(seconds=10), bench.note("a"))
    bench.advance(*[7] * 10)
    # 7, 14, 21 ...: the first multiple of 7 not before each multiple of 10.
    assert bench.called_at("a") == [14, 21, 35, 42, 56, 63, 70]


def test_a_period_that_is_no_whole_number_of_anything_does_not_drift(bench: Bench) -> None:
    """A third of a second, to the nanosecond, a thousand times: the grid is exact."""
    task = bench.scheduler.schedule_every(1 / 3, bench.note("a"))
    bench.settle()
    for _ in range(1_000):
        bench.clock.advance_ns(333_333_333)
        bench.settle()
    assert task.runs == 1_000


def test_a_fixed_delay_counts_from_the_end(pair: Bench) -> None:
    """The next run comes a period after the last one ended, however long that took."""
    gate = pair.gate()
    task = pair.scheduler.schedule_every(
        10, lambda: (pair.note("a")(), len(pair.calls) == 1 and gate()), mode="fixed-delay"
    )
    pair.advance(10)
    gate.await_entry()
    pair.advance(25)
    assert pair.called_at("a") == [10]
    gate.open()
    assert task.wait(PATIENCE, runs=1)
    for run in (2, 3):
        pair.advance(9.999)
        assert task.wait(0, runs=run) is False
        pair.advance(0.001)
        assert task.wait(PATIENCE, runs=run)
    assert pair.called_at("a") == [10, 45, 55]


def test_a_fixed_delay_counts_from_the_last_attempt(bench: Bench) -> None:
    """A run is over when its retries are: the delay begins then, and is not cut short by them."""

    def fail() -> None:
        bench.note("a")()
        raise ValueError

    retry = Retry(attempts=2, delay=timedelta(seconds=3))
    task = bench.scheduler.schedule_every(10, fail, mode="fixed-delay", first=0, retry=retry)
    bench.settle()
    bench.advance(*[1] * 20)
    assert bench.called_at("a") == [0, 3, 13, 16]
    assert (task.runs, task.failures) == (2, 2)


def test_a_task_that_fails_goes_on(bench: Bench) -> None:
    """A run that raises is no end of the beat."""

    def fail_once() -> None:
        bench.note("a")()
        if len(bench.calls) == 1:
            raise ValueError("first")

    task = bench.scheduler.schedule_every(1, fail_once)
    bench.advance(1)
    assert isinstance(task.last_error, ValueError)
    bench.advance(1)
    assert bench.called_at("a") == [1, 2]
    assert task.last_error is None
    assert (task.runs, task.failures) == (2, 1)


def test_setting_the_wall_clock_is_nothing_to_an_interval(bench: Bench) -> None:
    """Elapsed time is elapsed time: a wall clock that is set changes no beat and no delay."""
    bench.scheduler.schedule_every(10, bench.note("every"))
    bench.scheduler.schedule_after(15, bench.note("after"))
    for jump in (timedelta(days=400), timedelta(days=-900)):
        bench.clock.jump(jump)
        bench.scheduler.clock_changed()
        bench.advance(10)
    assert bench.calls == [("every", 10), ("after", 20), ("every", 20)]


# --- a stall ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("missed", "stall", "made_up"),
    [
        # Beats at 10, 20, ... The stall begins at 5; what is made up comes at its end.
        ("once", 1_000_000, 1),
        ("once", 31, 1),
        ("all", 31, 3),
        ("all", 1_000_000, 100),
        ("skip", 31, 0),  # the newest, at 30, is 6 seconds late
        ("skip", 25.5, 1),  # the newest is half a second late: only late, not missed
        ("skip", 26.5, 0),
        ("skip", 6.5, 0),
        ("once", 6.5, 1),
    ],
)
def test_a_stall_is_no_burst(bench: Bench, missed: Any, stall: float, made_up: int) -> None:
    """Beats that a frozen process slept through are coalesced, dropped or made up, as asked for.

    However long the stall, it ends with a bounded number of runs, and the grid goes on.
    """
    task = bench.scheduler.schedule_every(10, bench.note("a"), missed=missed)
    bench.advance(5)
    bench.advance(stall)
    assert bench.called_at("a") == [5 + stall] * made_up
    assert task.next_due is not None
    rest = 10 - (5 + stall) % 10
    bench.advance(rest)
    assert bench.called_at("a") == [5 + stall] * made_up + [5 + stall + rest]


def test_all_missed_beats_go_one_after_the_other(pair: Bench) -> None:
    """Made up runs respect the overlap policy among themselves, and none is skipped for it."""
    gate = pair.gate()
    task = pair.scheduler.schedule_every(10, gate, missed="all")
    pair.advance(35)
    gate.await_entry()
    assert (task.runs, task.skipped) == (0, 0)
    gate.open()
    assert task.wait(PATIENCE, runs=3)
    assert task.skipped == 0


# --- overlap ------------------------------------------------------------------------------------


def test_skip_leaves_out_the_turns_that_a_run_outlasts(pair: Bench) -> None:
    """P5: by default at most one run of a task is alive; turns in between are counted."""
    gate = pair.gate()
    task = pair.scheduler.schedule_every(10, gate)
    pair.advance(10, 10, 10)
    assert (task.state, task.runs, task.skipped) == (TaskState.RUNNING, 0, 2)
    gate.open()
    assert task.wait(PATIENCE, runs=1)
    pair.advance(10)
    assert task.wait(PATIENCE, runs=2)
    assert (task.state, task.skipped) == (TaskState.SCHEDULED, 2)


def test_a_run_that_waits_for_a_worker_counts_as_a_run(pair: Bench) -> None:
    """P5: runs of a task do not pile up in front of busy workers."""
    gates = [pair.gate(), pair.gate()]
    for gate in gates:
        pair.scheduler.schedule_after(0, gate)
        gate.await_entry()
    task = pair.scheduler.schedule_every(10, pair.note("a"))
    for turn in range(3):
        pair.clock.advance(timedelta(seconds=10))
        pair.await_that(task, lambda turn=turn: task.skipped == turn)  # type: ignore[misc]
        pair.await_state(task, TaskState.QUEUED)
    gates[0].open()
    pair.settle()
    assert pair.called_at("a") == [30]
    assert task.skipped == 2


def test_queue_keeps_the_turns_up_to_its_limit(pair: Bench) -> None:
    """P5: waiting turns run one after the other; those beyond the limit are skipped."""
    gate = pair.gate()
    task = pair.scheduler.schedule_every(10, gate, overlap="queue", queue_limit=3)
    pair.advance(*[10] * 6)
    assert (task.runs, task.skipped) == (0, 2)
    gate.open()
    assert task.wait(PATIENCE, runs=4)
    pair.settle()
    assert (task.runs, task.skipped) == (4, 2)


def test_cancel_empties_the_queue(pair: Bench) -> None:
    """Turns that wait for a run to end are taken back with the task."""
    gate = pair.gate()
    task = pair.scheduler.schedule_every(10, gate, overlap="queue")
    pair.advance(*[10] * 4)
    assert task.cancel() is True
    assert task.state is TaskState.RUNNING
    gate.open()
    assert task.wait(PATIENCE)
    pair.advance(50)
    assert (task.state, task.runs) == (TaskState.CANCELLED, 1)


def test_allow_runs_side_by_side() -> None:
    """With allow a turn starts whatever else of the task is running."""
    with Bench(workers=4) as bench:
        gate = bench.gate()
        task = bench.scheduler.schedule_every(10, gate, overlap="allow")
        for _ in range(3):
            bench.advance(10)
            gate.await_entry()
        gate.open()
        assert task.wait(PATIENCE, runs=3)
        assert task.skipped == 0


def test_a_run_that_waits_for_a_retry_counts_as_a_run(bench: Bench) -> None:
    """P5: a turn that falls into the wait for a retry is an overlap."""

    def fail() -> None:
        bench.note("a")()
        raise ValueError

    retry = Retry(attempts=2, delay=timedelta(seconds=15))
    task = bench.scheduler.schedule_every(10, fail, retry=retry)
    bench.advance(*[5] * 6)
    assert bench.called_at("a") == [10, 25, 30]
    assert (task.runs, task.skipped) == (1, 1)
