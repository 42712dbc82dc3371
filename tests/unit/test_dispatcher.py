"""What is due is handed over when it is due, in order, and by nobody's leave."""

from __future__ import annotations

import gc
import logging
import queue
import random
import threading
import weakref
from collections.abc import Iterator
from datetime import timedelta

import pytest

from crond_py.clock import SystemClock
from crond_py.dispatcher import Dispatcher, Entry, Timeline
from crond_py.ports import Timer
from tests.support.clock import FakeClock

SECOND = timedelta(seconds=1)
SECOND_NS = 1_000_000_000
PATIENCE = 30.0

Batch = tuple[list[object], int]


class Bench:
    """A dispatcher on a fake clock, and what it delivers."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.start_ns = self.clock.monotonic_ns()
        self.batches: queue.SimpleQueue[Batch] = queue.SimpleQueue()
        self.dispatcher = Dispatcher(self.clock, self.deliver)
        self.dispatcher.start()
        self.clock.block_until(1)

    def deliver(self, items: list[object], popped_ns: int) -> None:
        """Take a delivery; on the dispatcher's thread."""
        self.batches.put((items, popped_ns))

    def at(self, second: float, item: object, priority: int = 0) -> Timer:
        """Enter an item so many seconds after the start."""
        deadline_ns = self.start_ns + round(second * SECOND_NS)
        return self.dispatcher.call_at(deadline_ns, item, priority=priority)

    def batch(self) -> tuple[list[object], float]:
        """Wait for a delivery: the items, and at which second after the start."""
        items, popped_ns = self.batches.get(timeout=PATIENCE)
        return items, (popped_ns - self.start_ns) / SECOND_NS

    def settle(self) -> None:
        """Wait until all that is due now was delivered, and see that nothing else was."""
        marker = object()
        now_ns = self.clock.monotonic_ns()
        self.dispatcher.call_at(now_ns, marker)
        assert self.batches.get(timeout=PATIENCE) == ([marker], now_ns)
        self.clock.block_until(1)


@pytest.fixture
def bench() -> Iterator[Bench]:
    """Give a running dispatcher, and see that it ends."""
    bench = Bench()
    yield bench
    bench.dispatcher.stop()
    bench.dispatcher.wait()


# --- when, and in which order -------------------------------------------------------------------


def test_delivered_when_due_and_not_before(bench: Bench) -> None:
    """P4: an item comes at its deadline, to the nanosecond of the clock."""
    bench.at(10, "a")
    bench.settle()
    bench.clock.advance_ns(10 * SECOND_NS - 1)
    bench.settle()
    bench.clock.advance_ns(1)
    assert bench.batch() == (["a"], 10)


def test_all_that_is_due_comes_in_one_batch_in_order(bench: Bench) -> None:
    """Earlier deadlines first, then higher priorities, then the order of entry."""
    for second, item, priority in [
        (3, "late", 0),
        (2, "first of its deadline", 0),
        (2, "second of its deadline", 0),
        (2, "urgent", 5),
        (2, "patient", -5),
        (1, "early", -9),
        (9, "not yet", 9),
    ]:
        bench.at(second, item, priority)
    bench.clock.advance(4 * SECOND)
    in_order = [
        "early",
        "urgent",
        "first of its deadline",
        "second of its deadline",
        "patient",
        "late",
    ]
    assert bench.batch() == (in_order, 4)
    bench.settle()


def test_a_deadline_in_the_past_is_due_at_once(bench: Bench) -> None:
    """No time has to pass for what is overdue."""
    bench.at(-1000, "overdue")
    assert bench.batch() == (["overdue"], 0)


def test_an_earlier_entry_wakes_the_sleeper(bench: Bench) -> None:
    """Whoever sleeps until a later deadline is woken for an earlier one."""
    bench.at(60, "late")
    bench.settle()
    bench.at(5, "early")
    bench.clock.advance(5 * SECOND)
    assert bench.batch() == (["early"], 5)
    bench.clock.advance(55 * SECOND)
    assert bench.batch() == (["late"], 60)


def test_it_is_woken_only_for_what_is_earlier(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: a later entry, an equal one, or a cancel wakes nobody; an earlier one does, once."""
    condition = bench.dispatcher._condition
    wake_ups: list[str] = []
    notify = condition.notify

    def counting() -> None:
        wake_ups.append("one")
        notify()

    first = bench.at(10, "first")
    bench.settle()
    monkeypatch.setattr(condition, "notify", counting)
    for second in (10, 11, 10**6):
        bench.dispatcher.cancel(bench.at(second, "later"))
    bench.dispatcher.cancel(first)
    assert wake_ups == []
    bench.at(9, "earlier")
    assert wake_ups == ["one"]
    bench.clock.advance(9 * SECOND)
    assert bench.batch() == (["earlier"], 9)


def test_recheck_makes_it_look_at_the_clock() -> None:
    """After a suspend the kernel's wait is too long; recheck ends it and what is due comes."""

    class Suspended(FakeClock):
        """Its time passes without waking anybody, as a suspend does."""

        def suspend_ns(self, delta_ns: int) -> None:
            self._monotonic_ns += delta_ns

    clock = Suspended()
    delivered: queue.SimpleQueue[Batch] = queue.SimpleQueue()
    dispatcher = Dispatcher(clock, lambda items, popped_ns: delivered.put((items, popped_ns)))
    dispatcher.start()
    due_ns = clock.monotonic_ns() + 10
    dispatcher.call_at(due_ns, "a")
    clock.block_until(1)
    clock.suspend_ns(15)
    dispatcher.recheck()
    assert delivered.get(timeout=PATIENCE) == (["a"], due_ns + 5)
    dispatcher.stop()
    dispatcher.wait()


# --- cancelled ----------------------------------------------------------------------------------


def test_a_cancelled_entry_is_never_delivered(bench: Bench) -> None:
    """Cancel says whether it came in time, and what it took back does not come."""
    first, second = bench.at(1, "a"), bench.at(1, "b")
    assert bench.dispatcher.cancel(first) is True
    assert bench.dispatcher.cancel(first) is False
    bench.clock.advance(SECOND)
    assert bench.batch() == (["b"], 1)
    assert bench.dispatcher.cancel(second) is False


def test_cancel_of_something_else_is_refused(bench: Bench) -> None:
    """A mix-up of handles is an error, not a False."""
    with pytest.raises(TypeError, match="not a timer"):
        bench.dispatcher.cancel("a")


def test_ten_thousand_cancelled_entries_leave_the_heap_small(bench: Bench) -> None:
    """What was scheduled and cancelled takes no room, whichever was cancelled first."""
    keep = [bench.at(1000 + n, n) for n in range(5)]
    for order in (1, -1):
        timers = [bench.at(100 + n % 977, n) for n in range(10_000)]
        for timer in timers[::order]:
            assert bench.dispatcher.cancel(timer)
    assert len(bench.dispatcher) == len(keep)
    assert bench.dispatcher.heap_size <= 64


def test_a_million_entries_come_and_go_in_a_small_heap() -> None:
    """A timeout for each of many short runs never fills the heap with what is past."""
    timeline = Timeline()
    largest = 0
    for n in range(1_000_000):
        timeline.cancel(timeline.push(n + 3_600, n))
        largest = max(largest, timeline.heap_size)
    assert len(timeline) == 0
    assert largest <= 65


def test_what_was_cancelled_does_not_outlive_what_is_due() -> None:
    """Stubs behind the due entries go too, once they are most of what is left."""
    timeline = Timeline()
    for n in range(1_000):
        timeline.push(n, n)
    for entry in [timeline.push(10**6 + n, n) for n in range(900)]:
        timeline.cancel(entry)
    assert timeline.heap_size == 1_900
    assert len(timeline.pop_due(1_000)) == 1_000
    assert timeline.heap_size == 0
    for entry in [timeline.push(10**6 + n, n) for n in range(40)]:
        timeline.cancel(entry)
    assert timeline.heap_size <= 64


def test_a_cancelled_entry_lets_go_of_its_item_at_once() -> None:
    """What an item holds is free when it is cancelled, not when the deadline comes."""

    class Item:
        pass

    timeline, item = Timeline(), Item()
    alive = weakref.ref(item)
    entry = timeline.push(10**18, item)
    del item
    timeline.cancel(entry)
    gc.collect()
    assert alive() is None


def test_entries_are_small() -> None:
    """An entry has no dictionary: a heap of a hundred thousand stays small."""
    assert not hasattr(Entry(0, None), "__dict__")


# --- the sink -----------------------------------------------------------------------------------


def test_an_exception_in_the_sink_is_logged_and_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P8: the thread lives on whatever the sink raises, SystemExit included."""
    clock = FakeClock()
    seen: queue.SimpleQueue[object] = queue.SimpleQueue()

    def deliver(items: list[object], popped_ns: int) -> None:
        seen.put(items)
        if isinstance(items[0], BaseException):
            raise items[0]

    dispatcher = Dispatcher(clock, deliver)
    dispatcher.start()
    now_ns = clock.monotonic_ns()
    with caplog.at_level(logging.ERROR):
        for item in (ValueError("bad sink"), SystemExit(3), "still there"):
            dispatcher.call_at(now_ns, item)
            assert seen.get(timeout=PATIENCE) == [item]
        dispatcher.stop()
        dispatcher.wait()
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    assert "bad sink" in caplog.text


def test_the_sink_may_enter_and_cancel() -> None:
    """call_at and cancel work from inside a delivery, and what was entered there comes."""
    clock = FakeClock()
    seen: queue.SimpleQueue[object] = queue.SimpleQueue()
    timers: dict[str, Entry] = {}

    def deliver(items: list[object], popped_ns: int) -> None:
        for item in items:
            seen.put(item)
        if items == ["begin"]:
            assert dispatcher.cancel(timers["victim"])
            assert not dispatcher.cancel(timers["begin"])
            dispatcher.call_at(popped_ns, "at once")

    dispatcher = Dispatcher(clock, deliver)
    now_ns = clock.monotonic_ns()
    timers["begin"] = dispatcher.call_at(now_ns, "begin")
    timers["victim"] = dispatcher.call_at(now_ns + 1, "victim")
    dispatcher.call_at(now_ns + 2, "end")
    dispatcher.start()
    assert [seen.get(timeout=PATIENCE) for _ in range(2)] == ["begin", "at once"]
    clock.block_until(1)
    clock.advance_ns(2)
    assert seen.get(timeout=PATIENCE) == "end"
    dispatcher.stop()
    dispatcher.wait()


# --- start, stop, wait --------------------------------------------------------------------------


def test_entries_from_before_the_start_are_delivered() -> None:
    """What is entered first and started later comes all the same."""
    delivered = threading.Event()
    dispatcher = Dispatcher(FakeClock(), lambda _items, _popped_ns: delivered.set())
    dispatcher.call_at(0, "a")
    dispatcher.start()
    assert delivered.wait(PATIENCE)
    dispatcher.stop()
    dispatcher.wait()


def test_start_stop_and_wait_in_any_order() -> None:
    """Each may be called often, or without the other; what was stopped stays stopped."""
    never = Dispatcher(FakeClock(), lambda _items, _popped_ns: None)
    never.wait()
    never.stop()
    never.stop()
    never.wait()
    threads = threading.active_count()
    never.start()
    assert threading.active_count() == threads
    dispatcher = Dispatcher(FakeClock(), lambda _items, _popped_ns: None)
    dispatcher.start()
    dispatcher.start()
    assert threading.active_count() == threads + 1
    dispatcher.stop()
    dispatcher.wait()
    dispatcher.wait()
    assert threading.active_count() == threads


def test_nothing_is_delivered_after_stop() -> None:
    """Entries are still accepted, and cancelled, but nothing comes of them."""
    clock = FakeClock()
    delivered: list[object] = []
    dispatcher = Dispatcher(clock, lambda items, _popped_ns: delivered.extend(items))
    dispatcher.start()
    dispatcher.stop()
    dispatcher.wait()
    timer = dispatcher.call_at(0, "a")
    assert dispatcher.cancel(timer)
    dispatcher.call_at(0, "b")
    dispatcher.start()
    dispatcher.wait()
    assert delivered == []


def test_the_sink_may_stop_and_wait() -> None:
    """A sink that stops its dispatcher does not wait for itself."""
    done = threading.Event()

    def deliver(items: list[object], popped_ns: int) -> None:
        dispatcher.stop()
        dispatcher.wait()
        done.set()

    dispatcher = Dispatcher(FakeClock(), deliver)
    dispatcher.call_at(0, "a")
    dispatcher.start()
    assert done.wait(PATIENCE)
    dispatcher.wait()


def test_many_threads_enter_and_cancel() -> None:
    """On the real clock, from many threads: each item comes once, unless its cancel said True."""
    clock = SystemClock()
    delivered: queue.SimpleQueue[int] = queue.SimpleQueue()

    def deliver(items: list[object], popped_ns: int) -> None:
        for item in items:
            assert isinstance(item, int)
            delivered.put(item)

    dispatcher = Dispatcher(clock, deliver)
    cancelled: list[set[int]] = [set() for _ in range(6)]

    def enter(number: int) -> None:
        rng = random.Random(number)
        timers: list[tuple[int, Entry]] = []
        for n in range(number * 1000, number * 1000 + 500):
            deadline_ns = clock.monotonic_ns() + rng.randrange(-1000, 2_000_000)
            timers.append((n, dispatcher.call_at(deadline_ns, n)))
            dispatcher.start()
            if n % 3 == 0:
                item, timer = timers.pop(rng.randrange(len(timers)))
                if dispatcher.cancel(timer):
                    cancelled[number].add(item)

    threads = [threading.Thread(target=enter, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entered = {number * 1000 + n for number in range(6) for n in range(500)}
    expected = entered.difference(*cancelled)
    assert sorted(delivered.get(timeout=PATIENCE) for _ in expected) == sorted(expected)
    dispatcher.stop()
    dispatcher.wait()
    assert delivered.empty()
    assert len(dispatcher) == 0


def test_start_and_stop_from_many_threads() -> None:
    """Whatever the order, at most one thread lives, and none in the end."""
    threads_before = threading.active_count()
    for _ in range(50):
        dispatcher = Dispatcher(SystemClock(), lambda _items, _popped_ns: None)
        calls = [dispatcher.start, dispatcher.stop, dispatcher.start, dispatcher.wait]
        dispatcher.call_at(0, "a")
        threads = [threading.Thread(target=call) for call in calls]
        for thread in threads:
            thread.start()
        dispatcher.stop()
        for thread in threads:
            thread.join()
        dispatcher.wait()
    assert threading.active_count() == threads_before


def test_on_the_system_clock_nothing_is_early() -> None:
    """P4: on the real clock an item comes after its deadline, and it does come."""
    clock = SystemClock()
    delivered: queue.SimpleQueue[Batch] = queue.SimpleQueue()
    dispatcher = Dispatcher(clock, lambda items, popped_ns: delivered.put((items, popped_ns)))
    dispatcher.start()
    for _ in range(20):
        deadline_ns = clock.monotonic_ns() + 1_000_000
        dispatcher.call_at(deadline_ns, "a")
        items, popped_ns = delivered.get(timeout=PATIENCE)
        assert items == ["a"]
        assert popped_ns >= deadline_ns
    dispatcher.stop()
    dispatcher.wait()
