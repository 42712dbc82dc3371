"""How long it takes to claim the next hundred tasks, of few and of many that are stored.

    python -m tests.benchmarks.parts.tasks [--few 10000] [--many 1000000] [--rounds 40]
                                         [--same-due] [--dir DIR]

Each of the two ledgers is the daemon's, filled by handing in a thousand tasks at a time, due in
random order within a day or (--same-due) all at one instant. A round asks each for the next
hundred of their lane and writes, durably and in one go, for each of these a claim with its first
attempt and the task's end. They take turns, so that the ratio holds on a busy machine, too. Shown
are medians: of a round, of asking for all lanes, and of a list of the first hundred tasks, as
another process asks for it; and how many tasks were handed in within a second, and the size of
the file.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from statistics import median

from crond_py.clock import SystemClock
from crond_py.ledger.journaled import JournaledLedger
from crond_py.ledger.opening import open_ledger
from crond_py.ledger.sqlite import open_reader
from crond_py.model import Attempt, Cause, Lane, State, Task
from crond_py.ports import Claim, NewTask, SetTask, TaskQuery, Write

CLOCK = SystemClock()
AT_ONCE = 1000
HUNDRED = 100
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
DAY_MS = 86_400_000
LANE = Lane("default", 0, "alice")
DEFINITION = '{"command":["/usr/local/bin/send-reminder","--to","customer-0123456789"]}'


@dataclass
class Measured:
    """One ledger and what was found of it, in milliseconds but for the rate."""

    ledger: JournaledLedger
    path: Path
    tasks_per_s: float
    claims: list[float] = field(default_factory=list)
    lanes: list[float] = field(default_factory=list)
    lists: list[float] = field(default_factory=list)


def _milliseconds(work: Callable[[], object]) -> float:
    begun = CLOCK.monotonic_ns()
    work()
    return (CLOCK.monotonic_ns() - begun) / 1e6


def filled(path: Path, number: int, *, is_same_due: bool = False) -> Measured:
    """Make a ledger with so many tasks."""
    ledger = open_ledger(path, CLOCK)
    chance = random.Random(number)
    took_ms = 0.0
    for begin in range(0, number, AT_ONCE):
        part = []
        for _ in range(min(AT_ONCE, number - begin)):
            after_ms = 0 if is_same_due else chance.randrange(DAY_MS)
            due = BEGIN + timedelta(milliseconds=after_ms)
            part.append(NewTask(LANE, due, DEFINITION, "alice"))
        took_ms += _milliseconds(partial(ledger.submit, part, BEGIN))
    return Measured(ledger, path, number / (took_ms / 1000))


def _claim_hundred(ledger: JournaledLedger) -> None:
    writes: list[Write] = []
    for task in ledger.tasks_due(LANE, after=None, until=None, limit=HUNDRED):
        writes += _taken_up(task)
    if len(ledger.write(writes, durable=True)) != HUNDRED:
        raise SystemExit("there are not enough tasks for so many rounds")


def _taken_up(task: Task) -> list[Write]:
    attempt = Attempt(1, begun_at=task.due, boot_id="5ccf9b9f-2f0c-4a3e-9d5e-0123456789ab")
    claim = Claim(task.job, 0, task.due, Cause.SCHEDULE, State.RUNNING, task.due, attempt=attempt)
    return [claim, SetTask(task.id, task.due, ended_at=task.due)]


def measure(ways: list[Measured], rounds: int) -> None:
    """Claim from each of the ledgers in turn, a hundred tasks each round."""
    for _ in range(rounds):
        for way in ways:
            way.claims.append(_milliseconds(lambda way=way: _claim_hundred(way.ledger)))  # type: ignore[misc]
            way.lanes.append(_milliseconds(way.ledger.lanes))
    for _ in range(3):
        for way in ways:
            with closing(open_reader(way.path)) as reader:
                query = TaskQuery(limit=HUNDRED)
                way.lists.append(_milliseconds(partial(reader.tasks, query)))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--few", type=int, default=10_000)
    parser.add_argument("--many", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--same-due", action="store_true")
    parser.add_argument("--dir", type=Path, help="on which disk; else where temporary files are")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pycron-bench-", dir=options.dir) as folder:
        ways = [
            filled(Path(folder, f"{name}.db"), number, is_same_due=options.same_due)
            for name, number in (("few", options.few), ("many", options.many))
        ]
        measure(ways, options.rounds)
        header = ("tasks", "handed in/s", "claim 100", "lanes", "first 100", "MB")
        sys.stdout.write(("{:>12}" * 6 + "\n").format(*header))
        for number, way in zip((options.few, options.many), ways, strict=True):
            size_mb = way.path.stat().st_size / 1e6
            sys.stdout.write(
                f"{number:12,}{way.tasks_per_s:12,.0f}{median(way.claims):9.2f} ms"
                f"{median(way.lanes):9.3f} ms{median(way.lists):9.2f} ms{size_mb:12,.1f}\n"
            )
            way.ledger.close()
        few, many = (median(way.claims) for way in ways)
        sys.stdout.write(f"claiming of many takes {many / few:.2f} times as long\n")


if __name__ == "__main__":
    main()
