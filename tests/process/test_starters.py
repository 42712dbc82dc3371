"""The threads that start processes: a start that hangs holds up its own job, and no other."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from crond_py.clock import SystemClock
from crond_py.ports import AttemptKey, ProcessSpec
from crond_py.runner.starters import HANGS_AFTER_NS, Starters

PATIENCE_S = 30


class SetClock(SystemClock):
    """The system's clock, which can be moved on."""

    ahead_ns = 0

    def monotonic_ns(self) -> int:
        """Return the reading, and what it was moved on by."""
        return super().monotonic_ns() + self.ahead_ns


class Bench:
    """Starters whose starts of the job ``hangs`` last until they are let go."""

    def __init__(self) -> None:
        self.clock = SetClock()
        self.begun: queue.Queue[tuple[str, int]] = queue.Queue()
        self.let_go = threading.Event()
        self.starters = Starters(self._begin, self._begin, self.clock, threads=2)
        self.starters.open()

    def put(self, job: str, number: int, pool: str = "") -> AttemptKey:
        """Ask for a start."""
        spec = replace(_spec(job, number), pool=pool)
        self.starters.put(spec)
        return spec.key

    def next(self) -> tuple[str, int]:
        """Return which start has begun next."""
        return self.begun.get(timeout=PATIENCE_S)

    def _begin(self, spec: ProcessSpec) -> None:
        job = spec.env["PYCRON_JOB"]
        self.begun.put((job, spec.key.run_id))
        if job == "hangs":
            self.let_go.wait(PATIENCE_S)


def _spec(job: str, number: int) -> ProcessSpec:
    key = AttemptKey(number, 1)
    return ProcessSpec(key, f"x-{number}", ("true",), {"PYCRON_JOB": job}, "/", 0o022, None)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Give starters, and let everything go in the end."""
    bench = Bench()
    yield bench
    bench.let_go.set()
    bench.starters.close()


def test_a_job_whose_start_hangs_takes_one_thread(bench: Bench) -> None:
    """P4: however often it is due meanwhile, starts of other jobs find a thread at once."""
    bench.put("hangs", 1)
    assert bench.next() == ("hangs", 1)
    bench.clock.ahead_ns += HANGS_AFTER_NS
    for number in range(2, 200):
        bench.put("hangs", number)
    bench.put("other", 1000)
    assert bench.next() == ("other", 1000)


def test_what_was_put_aside_goes_on_in_its_order(bench: Bench) -> None:
    """P1: nothing is forgotten: when the start comes back, the next ones of its job begin."""
    bench.put("hangs", 1)
    assert bench.next() == ("hangs", 1)
    bench.clock.ahead_ns += HANGS_AFTER_NS
    for number in range(2, 6):
        bench.put("hangs", number)
    bench.put("other", 1000)
    bench.next()
    bench.let_go.set()
    assert sorted(bench.next() for _ in range(4)) == [("hangs", number) for number in range(2, 6)]


def test_a_burst_of_one_pool_holds_up_no_other(bench: Bench) -> None:
    """P4: a start waits for those of its own pool, and for one at a time of each other."""
    for number in (1, 2):
        bench.put("hangs", number)
        bench.next()  # both threads are taken
    for number in range(100, 200):
        bench.put("crowd", number, "many")
    for number in range(200, 203):
        bench.put("lone", number, "few")
    bench.let_go.set()
    first = [bench.next() for _ in range(8)]
    # Two threads take them, so that one of them may tell of its start a little later.
    assert {number for job, number in first if job == "lone"} == {200, 201, 202}
    assert {number for job, number in first if job == "crowd"} <= set(range(100, 106))


def test_what_is_left_of_a_run_waits_for_no_start_of_its_job(bench: Bench) -> None:
    """P6: that a start hangs is no reason to let live what earlier runs of the job have left."""
    bench.put("hangs", 1)
    assert bench.next() == ("hangs", 1)
    bench.clock.ahead_ns += HANGS_AFTER_NS
    bench.put("hangs", 2)
    bench.starters.put_rest(_spec("hangs", 3))
    assert bench.next() == ("hangs", 3)


def test_what_is_left_holds_up_no_start(bench: Bench) -> None:
    """P4: where whose it is cannot be asked, that takes one thread, and none from its job."""
    for number in range(1, 200):
        bench.starters.put_rest(_spec("hangs", number))
        if number == 1:
            assert bench.next() == ("hangs", 1)
            bench.clock.ahead_ns += HANGS_AFTER_NS
    bench.put("hangs", 1000)
    assert bench.next() == ("hangs", 1000)


def test_what_waits_can_be_taken_back(bench: Bench) -> None:
    """P6: a start that nobody has begun is not begun any more, wherever it waits."""
    bench.put("hangs", 1)
    assert bench.next() == ("hangs", 1)
    bench.clock.ahead_ns += HANGS_AFTER_NS
    key = bench.put("hangs", 2)
    bench.put("other", 3)
    assert bench.next() == ("other", 3)
    assert bench.starters.withdraw(key)
    assert not bench.starters.withdraw(key)
    assert not bench.starters.withdraw(AttemptKey(1, 1))
    bench.starters.put_rest(_spec("hangs", 4))
    assert bench.next() == ("hangs", 4)
    bench.clock.ahead_ns += HANGS_AFTER_NS
    rest = _spec("hangs", 5)
    bench.starters.put_rest(rest)
    assert not bench.starters.withdraw(rest.key), "that is no start"
    assert bench.starters.close() == [rest]
