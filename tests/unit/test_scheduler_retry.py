"""A run that raises is tried again, after a delay that grows."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest

from crond_py.model import Retry
from crond_py.scheduler import TaskState
from tests.support.scheduling import PATIENCE, Bench


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Give a scheduler with one worker on a fake clock."""
    with Bench() as bench:
        yield bench


class Flaky:
    """Notes its calls and fails the first so many times."""

    def __init__(self, bench: Bench, failures: int) -> None:
        self._note = bench.note("a")
        self._left = failures

    def __call__(self) -> str:
        """Fail or succeed."""
        self._note()
        self._left -= 1
        if self._left >= 0:
            raise ValueError(f"{self._left} to go")
        return "done"


def seconds(number: float) -> timedelta:
    """Return so many."""
    return timedelta(seconds=number)


@pytest.mark.parametrize(
    ("retry", "failures", "calls"),
    [
        (Retry(), 9, [0]),
        (Retry(attempts=3, delay=seconds(4), backoff=1), 9, [0, 4, 8]),
        (Retry(attempts=5, delay=seconds(1), backoff=3), 9, [0, 1, 4, 13, 40]),
        (Retry(attempts=5, delay=seconds(1), backoff=3, max_delay=seconds(5)), 9, [0, 1, 4, 9, 14]),
        (Retry(attempts=3, delay=seconds(8), backoff=0.5), 9, [0, 8, 12]),
        (Retry(attempts=5, delay=seconds(2), backoff=1), 2, [0, 2, 4]),
    ],
)
def test_the_delays_grow(bench: Bench, retry: Retry, failures: int, calls: list[float]) -> None:
    """Attempts come after delay * backoff ** n, at most max_delay, until one succeeds."""
    task = bench.scheduler.schedule_after(0, Flaky(bench, failures), retry=retry)
    bench.settle()
    bench.advance(*[1] * 60)
    assert bench.called_at("a") == calls
    has_failed = failures >= retry.attempts
    assert (task.runs, task.failures) == (1, int(has_failed))
    assert (task.last_result, task.last_error is None) == (
        (None, False) if has_failed else ("done", True)
    )


def test_jitter_adds_at_most_its_width(bench: Bench) -> None:
    """A delay with jitter is never shorter than without, and longer by less than the jitter."""
    retry = Retry(attempts=2, delay=seconds(10), backoff=1, jitter=seconds(5))
    for _ in range(20):
        bench.scheduler.schedule_after(0, Flaky(bench, 1), retry=retry)
    bench.settle()
    bench.calls.clear()
    bench.advance(9.999)
    assert bench.calls == []
    bench.advance(5.001)
    assert len(bench.calls) == 20


def test_a_task_that_waits_for_a_retry_says_so(bench: Bench) -> None:
    """While it waits its state and last error show, and the run is not counted as ended."""
    task = bench.scheduler.schedule_after(
        0, Flaky(bench, 1), retry=Retry(attempts=2, delay=seconds(5))
    )
    bench.await_state(task, TaskState.WAITING_RETRY)
    assert str(task.last_error) == "0 to go"
    assert (task.runs, task.wait(0)) == (0, False)


def test_the_wall_clock_does_not_hurry_a_retry(bench: Bench) -> None:
    """The delay is elapsed time, also where the wall clock is set meanwhile."""
    task = bench.scheduler.schedule_after(
        0, Flaky(bench, 1), retry=Retry(attempts=2, delay=seconds(5))
    )
    bench.await_state(task, TaskState.WAITING_RETRY)
    bench.clock.jump(timedelta(days=1))
    bench.scheduler.clock_changed()
    bench.advance(4)
    assert bench.called_at("a") == [0]
    bench.advance(1)
    assert bench.called_at("a") == [0, 5]


def test_cancel_ends_the_wait_for_a_retry(bench: Bench) -> None:
    """A retry to come is something to cancel; it does not come, and the wait for it is over."""
    task = bench.scheduler.schedule_after(
        0, Flaky(bench, 1), retry=Retry(attempts=2, delay=seconds(5))
    )
    bench.await_state(task, TaskState.WAITING_RETRY)
    assert task.cancel() is True
    assert task.wait(0)
    bench.advance(60)
    assert bench.called_at("a") == [0]
    assert task.state is TaskState.CANCELLED


def test_cancel_while_running_forbids_a_further_attempt(bench: Bench) -> None:
    """Attempts that may follow the running one are something to cancel."""
    gate = bench.gate()

    def fail() -> None:
        gate()
        raise ValueError

    task = bench.scheduler.schedule_after(0, fail, retry=Retry(attempts=2, delay=seconds(1)))
    gate.await_entry()
    assert task.cancel() is True
    gate.open()
    assert task.wait(PATIENCE)
    bench.advance(60)
    assert (task.state, task.runs, task.failures) == (TaskState.CANCELLED, 1, 1)


def test_shutdown_ends_the_wait_for_a_retry(bench: Bench) -> None:
    """What waits for a retry is not waited for."""
    task = bench.scheduler.schedule_after(
        0, Flaky(bench, 1), retry=Retry(attempts=2, delay=seconds(5))
    )
    bench.await_state(task, TaskState.WAITING_RETRY)
    bench.scheduler.shutdown()
    assert task.state is TaskState.CANCELLED
