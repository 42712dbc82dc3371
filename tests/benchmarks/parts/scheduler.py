"""How late the heap wakes and how much it takes, beside what else Python has.

    python -m tests.benchmarks.parts.scheduler [--beats 200] [--tasks 20000] [--rounds 3]

Lateness: BEATS instants two milliseconds apart; each way notes how long after the instant its
callable began. Throughput: TASKS callables that are all due, from the first call to the last run.
Cancel: TASKS entered and taken back. The ways run one after another in each round of one process,
so that the ratios hold on a busy machine too. ``sched`` and the bare sleep run the callables in
the thread that sleeps, which ``Scheduler`` never does; ``Timer`` is a thread for each instant.
"""

from __future__ import annotations

import argparse
import sched
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable

from crond_py.clock import SystemClock
from crond_py.dispatcher import Dispatcher, Timeline
from crond_py.scheduler import Scheduler

CLOCK = SystemClock()
GAP_NS = 2_000_000
LEAD_NS = 200_000_000
MOST_TIMERS = 2_000

Beats = list[int]
Note = Callable[[int], None]


def _nothing() -> None:
    pass


def _sleep(seconds: float) -> None:
    time.sleep(max(seconds, 0))  # noqa: TID251 - the bare sleep to compare with


def _seconds() -> float:
    return CLOCK.monotonic_ns() / 1e9


# --- lateness -----------------------------------------------------------------------------------


def _late_scheduler(beats: Beats, note: Note) -> None:
    with Scheduler(workers=1, clock=CLOCK) as scheduler:
        for due in beats:
            task = scheduler.schedule(due / 1e9, note, due)
        task.wait()


def _late_dispatcher(beats: Beats, note: Note) -> None:
    done = threading.Event()

    def deliver(items: list[object], _popped_ns: int) -> None:
        for item in items:
            assert isinstance(item, int)
            note(item)
            if item == beats[-1]:
                done.set()

    dispatcher = Dispatcher(CLOCK, deliver)
    dispatcher.start()
    for due in beats:
        dispatcher.call_at(due, due)
    done.wait()
    dispatcher.stop()
    dispatcher.wait()


def _late_sched(beats: Beats, note: Note) -> None:
    scheduler = sched.scheduler(_seconds, _sleep)
    for due in beats:
        scheduler.enterabs(due / 1e9, 0, note, (due,))
    scheduler.run()


def _late_timer(beats: Beats, note: Note) -> None:
    timers = []
    for due in beats:
        timers.append(threading.Timer((due - CLOCK.monotonic_ns()) / 1e9, note, (due,)))
        timers[-1].start()
    for timer in timers:
        timer.join()


def _late_sleep(beats: Beats, note: Note) -> None:
    for due in beats:
        _sleep((due - CLOCK.monotonic_ns()) / 1e9)
        note(due)


LATENESS: dict[str, Callable[[Beats, Note], None]] = {
    "Scheduler": _late_scheduler,
    "Dispatcher": _late_dispatcher,
    "sched": _late_sched,
    "threading.Timer": _late_timer,
    "bare sleep": _late_sleep,
}


def measure_lateness(way: str, count: int) -> list[int]:
    """Return how many nanoseconds after each instant the callable began, sorted."""
    late: list[int] = []
    start = CLOCK.monotonic_ns() + LEAD_NS
    beats = [start + n * GAP_NS for n in range(count)]
    LATENESS[way](beats, lambda due: late.append(CLOCK.monotonic_ns() - due))
    return sorted(late)


# --- throughput ---------------------------------------------------------------------------------


def _run_scheduler(count: int) -> None:
    with Scheduler(workers=1, clock=CLOCK) as scheduler:
        now = scheduler.now()
        for _ in range(count):
            task = scheduler.schedule(now, _nothing)
        task.wait()


def _run_dispatcher(count: int) -> None:
    done = threading.Event()

    def deliver(items: list[object], _popped_ns: int) -> None:
        if items[-1] == count - 1:
            done.set()

    dispatcher = Dispatcher(CLOCK, deliver)
    dispatcher.start()
    for n in range(count):
        dispatcher.call_at(n, n)
    done.wait()
    dispatcher.stop()
    dispatcher.wait()


def _run_sched(count: int) -> None:
    scheduler = sched.scheduler(_seconds, _sleep)
    for _ in range(count):
        scheduler.enterabs(0, 0, _nothing)
    scheduler.run()


def _run_timer(count: int) -> None:
    timers = [threading.Timer(0, _nothing) for _ in range(count)]
    for timer in timers:
        timer.start()
    for timer in timers:
        timer.join()


def _cancel_scheduler(count: int) -> None:
    with Scheduler(workers=1, clock=CLOCK) as scheduler:
        for task in [scheduler.schedule_after(3_600, _nothing) for _ in range(count)]:
            scheduler.cancel(task)


def _cancel_dispatcher(count: int) -> None:
    dispatcher = Dispatcher(CLOCK, lambda _items, _popped_ns: None)
    dispatcher.start()
    far = CLOCK.monotonic_ns() + 3_600 * 10**9
    for timer in [dispatcher.call_at(far + n, n) for n in range(count)]:
        dispatcher.cancel(timer)
    dispatcher.stop()
    dispatcher.wait()


def _cancel_sched(count: int) -> None:
    scheduler = sched.scheduler(_seconds, _sleep)
    for event in [scheduler.enter(3_600 + n, 0, _nothing) for n in range(count)]:
        scheduler.cancel(event)


THROUGHPUT: dict[str, tuple[Callable[[int], None], int]] = {
    "run: Scheduler": (_run_scheduler, 10**9),
    "run: Dispatcher": (_run_dispatcher, 10**9),
    "run: sched": (_run_sched, 10**9),
    "run: threading.Timer": (_run_timer, MOST_TIMERS),
    "cancel: Scheduler": (_cancel_scheduler, 10**9),
    "cancel: Dispatcher": (_cancel_dispatcher, 10**9),
    "cancel: sched": (_cancel_sched, 5_000),  # each cancel builds the heap anew
}


def measure_throughput(way: str, count: int) -> float:
    """Return how many a second."""
    call, most = THROUGHPUT[way]
    count = min(count, most)
    begin = CLOCK.monotonic_ns()
    call(count)
    return count / ((CLOCK.monotonic_ns() - begin) / 1e9)


def measure_memory(count: int) -> tuple[float, float]:
    """Return the bytes that an entry of the heap and a task take."""
    tracemalloc.start()
    timeline = Timeline()
    for n in range(count):
        timeline.push(10**15 + n, None)
    entry, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    tracemalloc.start()
    with Scheduler(workers=1, clock=CLOCK) as scheduler:
        tasks = [scheduler.schedule_after(3_600 + n, _nothing) for n in range(count)]
        task, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return entry / len(timeline), task / len(tasks)


def main() -> None:
    """Measure all ways and print two tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--beats", type=int, default=200)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    late: dict[str, list[int]] = {way: [] for way in LATENESS}
    rates: dict[str, list[float]] = {way: [] for way in THROUGHPUT}
    for _ in range(options.rounds):
        for way, lateness in late.items():
            lateness.extend(measure_lateness(way, options.beats))
        for way, rate in rates.items():
            rate.append(measure_throughput(way, options.tasks))
    out = sys.stdout.write
    out(f"{'lateness, microseconds':24}{'p50':>9}{'p99':>9}{'max':>9}\n")
    for way, lateness in late.items():
        lateness.sort()
        p50, p99 = lateness[len(lateness) // 2], lateness[len(lateness) * 99 // 100]
        out(f"{way:24}{p50 / 1e3:9.0f}{p99 / 1e3:9.0f}{lateness[-1] / 1e3:9.0f}\n")
    out(f"\n{'a second':24}{'median':>9}{'best':>9}\n")
    for way, rate in rates.items():
        rate.sort()
        out(f"{way:24}{rate[len(rate) // 2]:9.0f}{rate[-1]:9.0f}\n")
    entry, task = measure_memory(options.tasks)
    out(f"\nmemory: {entry:.0f} bytes for an entry of the heap, {task:.0f} for a task in all\n")


if __name__ == "__main__":
    main()
