"""Deadlines come from one held clock difference, and a step of the wall clock is noticed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from crond_py.clock import to_ns
from crond_py.engine.timekeeper import Timekeeper
from tests.support.clock import FakeClock

START = datetime(2026, 5, 1, 12, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)


def test_one_instant_has_one_deadline() -> None:
    """Occurrences of one instant get the same deadline, whenever it is asked for."""
    clock = FakeClock(START)
    timekeeper = Timekeeper(clock)
    first = timekeeper.deadline(START + 60 * SECOND)
    clock.advance(timedelta(seconds=12, microseconds=345))
    assert timekeeper.deadline(START + 60 * SECOND) == first
    assert first == clock.monotonic_ns() + to_ns(
        60 * SECOND - timedelta(seconds=12, microseconds=345)
    )


def test_time_that_passes_is_no_step() -> None:
    """Advancing, however long, moves both clocks and is not taken for a step."""
    clock = FakeClock(START)
    timekeeper = Timekeeper(clock)
    clock.advance(timedelta(days=400))
    assert timekeeper.take_step() is None


@pytest.mark.parametrize(
    "step", [timedelta(hours=2), -8 * timedelta(hours=1), timedelta(days=3652)]
)
def test_a_step_is_measured_and_adopted(step: timedelta) -> None:
    """A set clock is reported once with its size, and deadlines follow it."""
    clock = FakeClock(START)
    timekeeper = Timekeeper(clock)
    before = timekeeper.deadline(START)
    clock.jump(step)
    assert timekeeper.take_step() == step
    assert timekeeper.take_step() is None
    assert before - timekeeper.deadline(START) == to_ns(step)


def test_small_steps_add_up() -> None:
    """Steps too small to act on are not forgotten: together they are noticed."""
    clock = FakeClock(START)
    timekeeper = Timekeeper(clock)
    for _ in range(4):
        clock.jump(timedelta(microseconds=300))
        last = timekeeper.take_step()
    assert last == timedelta(microseconds=1200)


def test_a_thread_switch_while_reading_is_no_step() -> None:
    """A pause between the two readings does not look like a step of the wall clock."""

    class Switched(FakeClock):
        """Time passes between the readings, but not always."""

        reads = 0

        def monotonic_ns(self) -> int:
            reading = super().monotonic_ns()
            self.reads += 1
            if self.reads in {3, 5}:
                self.advance(timedelta(milliseconds=20))
            return reading

    clock = Switched(START)
    timekeeper = Timekeeper(clock)
    assert timekeeper.take_step() is None


def test_wall_at_is_the_inverse_of_deadline() -> None:
    """What a monotonic instant reads on the wall is what its deadline was made from."""
    timekeeper = Timekeeper(FakeClock(START))
    due = START + timedelta(minutes=3, microseconds=7)
    assert timekeeper.wall_at(timekeeper.deadline(due)) == due
