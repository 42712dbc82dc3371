"""What a schedule costs, beside croniter and cronsim in the same process.

    python -m tests.benchmarks.parts.schedule [--repeat 300]

``next``: one due instant after another, the median of REPEAT; the others are made once and
asked again, as their users do. ``parse``: a new object from the text, with our caches emptied and
with them. The last lines have no counterpart in the others, which could only list.
"""

from __future__ import annotations

import argparse
import sys
import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from statistics import median
from time import perf_counter_ns
from zoneinfo import ZoneInfo

from croniter import croniter
from cronsim import CronSim

from crond_py.errors import ScheduleError
from crond_py.schedule import clear_zone_cache, parse_schedule
from crond_py.schedule.expression import read_expression
from crond_py.schedule.fields import read_field

START = datetime(2025, 3, 1, 9, 2, tzinfo=UTC)
TEN_YEARS = timedelta(days=3653)

ORDINARY = [
    ("*/5 * * * *", "Europe/Berlin"),
    ("30 2 * * *", "Europe/Berlin"),
    ("0 9 * * 1-5", "Europe/Berlin"),
    ("0 9 * * 1-5", "America/New_York"),
    ("0 0 1 * *", "UTC"),
    ("0 0 29 2 *", "UTC"),
]


def write(line: str = "") -> None:
    """Write a line of the report."""
    sys.stdout.write(f"{line}\n")


def cost_us(call: Callable[[], object], repeat: int) -> float:
    """Return the median cost of a call in microseconds."""
    costs = []
    for _ in range(repeat):
        begin = perf_counter_ns()
        call()
        costs.append(perf_counter_ns() - begin)
    return median(costs) / 1000


def our_steps(expression: str, zone: str) -> Callable[[], object]:
    """Return a function that moves on by one due instant of ours."""
    schedule = parse_schedule(expression, zone)
    instant: datetime | None = START

    def step() -> None:
        nonlocal instant
        instant = schedule.next_after(instant or START)

    return step


def forget() -> None:
    """Empty the caches that make a second parse cheap."""
    clear_zone_cache()
    read_expression.cache_clear()
    read_field.cache_clear()


def refuse() -> None:
    """Have an expression refused that could never fire."""
    try:
        parse_schedule("0 0 30 2 *", "UTC")
    except ScheduleError:
        return
    raise AssertionError


def table(repeat: int) -> None:
    """Write the cost of a next instant and of a parse, ours beside theirs."""
    write(f"{'next after, us':38}{'ours':>9}{'croniter':>10}{'cronsim':>9}")
    for expression, zone in ORDINARY:
        local = START.astimezone(ZoneInfo(zone))
        theirs, other = croniter(expression, local), CronSim(expression, local)
        costs = (
            cost_us(our_steps(expression, zone), repeat),
            cost_us(lambda theirs=theirs: theirs.get_next(datetime), min(repeat, 50)),  # type: ignore[misc]
            cost_us(lambda other=other: next(other), min(repeat, 50)),  # type: ignore[misc]
        )
        write(f"{expression:16}{zone:22}{costs[0]:9.1f}{costs[1]:10.1f}{costs[2]:9.1f}")
    write()
    write(f"{'parse, us':38}{'ours':>9}{'croniter':>10}{'cronsim':>9}")
    local = START.astimezone(ZoneInfo("Europe/Berlin"))
    numbers = iter(range(10**6))

    def ours_new() -> None:
        number = next(numbers)
        parse_schedule(f"{number % 60} {number // 60 % 24} * * {number % 7}", "Europe/Berlin")

    forget()
    new = cost_us(ours_new, 1000)
    again = cost_us(lambda: parse_schedule("0 9 * * 1-5", "Europe/Berlin"), repeat)
    theirs_us = cost_us(lambda: croniter("0 9 * * 1-5", local), repeat)
    other_us = cost_us(lambda: CronSim("0 9 * * 1-5", local), repeat)
    write(f"{'a new text':38}{new:9.1f}{theirs_us:10.1f}{other_us:9.1f}")
    write(f"{'the same text again':38}{again:9.1f}{theirs_us:10.1f}{other_us:9.1f}")


def ours_alone(repeat: int) -> None:
    """Write what the others have no counterpart for."""
    begin = perf_counter_ns()
    for number in range(10_000):
        minute, hour, weekday = number % 60, number // 60 % 24, number % 7
        parse_schedule(f"{minute} {hour} * * {weekday}", "Europe/Berlin", hash_key=str(number))
    whole = (perf_counter_ns() - begin) / 1e6
    every = parse_schedule("* * * * * *", "Europe/Berlin")
    nightly = parse_schedule("30 2 * * *", "Europe/Berlin")
    clear_zone_cache()
    cold = parse_schedule("* * * * * *", "Europe/Berlin")
    lines = {
        "10,000 expressions, ms": whole,
        "ten years of every second counted, ms": cost_us(
            lambda: every.count(START, START + TEN_YEARS), repeat
        )
        / 1000,
        "the same for the first time, ms": cost_us(lambda: cold.count(START, START + TEN_YEARS), 1)
        / 1000,
        "newest of a nightly job, us": cost_us(lambda: nightly.latest_until(START), repeat),
        "refusing 0 0 30 2 *, us": cost_us(refuse, repeat),
    }
    write()
    for what, cost in lines.items():
        write(f"{what:38}{cost:9.2f}")
    forget()
    tracemalloc.start()
    held = [parse_schedule(f"{n % 60} {n // 60} * * *", "Europe/Berlin") for n in range(1440)]
    write(
        f"{'memory of a schedule, bytes':38}{tracemalloc.get_traced_memory()[0] / len(held):9.0f}"
    )


def main() -> None:
    """Write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=300)
    repeat = parser.parse_args().repeat
    write(f"Python {sys.version.split()[0]}")
    table(repeat)
    ours_alone(repeat)


if __name__ == "__main__":
    main()
