"""One-off tasks that programs hand in: how fast they are stored, what they take, how they start.

The same burst of tasks is started with next to nothing stored and with all of them, so that what
is added by their number shows. Beside the rate of storing stands that of bare inserts with sqlite3
into a table with one index, as durably and as many at a time, on the same disk. How long it takes
to claim the next hundred is measured on two ledgers, with few tasks and with all, in turn.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import median

from crond_py.control.protocol import MOST_TASKS
from tests.benchmarks.jobs import LONG_AHEAD, far_away
from tests.benchmarks.moments import CLOCK, monotonic_s, wait_until
from tests.benchmarks.ours import PYCRON, Pycron, environment_of
from tests.benchmarks.parts.tasks import filled, measure
from tests.benchmarks.peer import Started
from tests.benchmarks.processes import peak_kb, usage
from tests.benchmarks.stage import Stage
from tests.benchmarks.stamps import Lateness, read_stamps, wait_for_stamps

BURST = 500
LEAD = timedelta(seconds=15)
STARTS_WITHIN_S = 60.0
SETTLE_S = 60.0
FILE_OF = 25_000
"""How many are handed in by one call of the command."""
BARE_MOST = 100_000
"""Of so many rows the rate is that of more."""


@dataclass(slots=True)
class _Stored:
    """How many were stored, and in which time."""

    count: int = 0
    seconds: float = 0.0


def can_submit() -> bool:
    """Return whether the program has the command."""
    command = [PYCRON, "submit", "--help"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def measure_stored(count: int, within_s: float, stage: Stage) -> None:
    """Record what ``count`` stored tasks take, or as many as are stored in ``within_s`` seconds."""
    if not can_submit():
        stage.recorder.leave_out("stored", "this pycron has no command `submit`")
        return
    directory = stage.work.directory()
    jobs = far_away(10, stage.work.tick, directory / "stamps")
    with Started(Pycron(), jobs, directory) as daemon:
        daemon.settle(SETTLE_S)
        few = _burst(daemon, "few", stage)
        before = usage(daemon.pid)
        stored = _store(daemon, count, within_s)
        daemon.settle(monotonic_s() - daemon.began_s + SETTLE_S)
        after = usage(daemon.pid)
        many = _burst(daemon, "many", stage)
        stage.recorder.add(
            "stored",
            "pycron",
            count=stored.count,
            stored_per_s=stored.count / stored.seconds,
            bare_per_s=_bare_inserts_per_s(directory / "bare.sqlite", stored.count),
            pss_kb_before=before.pss_kb,
            pss_kb=after.pss_kb,
            peak_kb=peak_kb(daemon.pid),
            few_first_s=few.figures().get("first_s"),
            few_per_s=few.figures().get("per_s"),
            many_first_s=many.figures().get("first_s"),
            many_per_s=many.figures().get("per_s"),
        )


def measure_claims(few: int, many: int, rounds: int, stage: Stage) -> None:
    """Record how long it takes to claim the next hundred of few and of many that are stored."""
    directory = stage.work.directory()
    ways = [filled(directory / f"{number}.db", number) for number in (few, many)]
    try:
        measure(ways, rounds)
        few_s, many_s = (median(way.claims) / 1000 for way in ways)
    finally:
        for way in ways:
            way.ledger.close()
    stage.recorder.add(
        "claims",
        "pycron",
        few=few,
        many=many,
        rounds=rounds,
        few_s=few_s,
        many_s=many_s,
        ratio=many_s / few_s,
    )


def submit(daemon: Started, tasks: Path) -> float:
    """Hand in a file of tasks; return the seconds that it took."""
    begin = monotonic_s()
    subprocess.run(
        [PYCRON, "submit", tasks],
        env=environment_of(daemon.directory),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    return monotonic_s() - begin


def _burst(daemon: Started, label: str, stage: Stage) -> Lateness:
    """Hand in tasks that are due at one instant, and see how late they start."""
    due = CLOCK.now().replace(microsecond=0) + LEAD
    file = daemon.directory / f"{label}.jsonl"
    with file.open("w") as lines:
        for number in range(BURST):
            command = [str(stage.work.tick), str(daemon.stamps), f"{label}.{number}"]
            lines.write(json.dumps({"command": command, "at": due.isoformat()}) + "\n")
    submit(daemon, file)
    wait_until(due.timestamp())
    wait_for_stamps(daemon.stamps, {label: BURST}, due.timestamp(), STARTS_WITHIN_S)
    return Lateness.of(read_stamps(daemon.stamps)[label], [due.timestamp()], BURST)


def _store(daemon: Started, count: int, within_s: float) -> _Stored:
    stored = _Stored()
    file = daemon.directory / "far.jsonl"
    while stored.count < count and stored.seconds < within_s:
        number = min(FILE_OF, count - stored.count)
        with file.open("w") as lines:
            lines.writelines(_far_away(stored.count, number))
        stored.seconds += submit(daemon, file)
        stored.count += number
    return stored


def _far_away(begin: int, number: int) -> Iterator[str]:
    first = CLOCK.now().replace(microsecond=0) + LONG_AHEAD
    for each in range(begin, begin + number):
        at = first + timedelta(seconds=each)
        yield json.dumps({"command": ["true", str(each)], "at": at.isoformat()}) + "\n"


def _bare_inserts_per_s(file: Path, count: int) -> float:
    number = min(count, BARE_MOST)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE tasks (id INTEGER PRIMARY KEY, due, command)")
        connection.execute("CREATE INDEX tasks_by_due ON tasks (due)")
        begin = monotonic_s()
        for start in range(0, number, MOST_TASKS):
            instants = range(start, min(start + MOST_TASKS, number))
            rows = [(at, f'["true", "{at}"]') for at in instants]
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT INTO tasks (due, command) VALUES (?, ?)", rows)
            connection.execute("COMMIT")
        return number / (monotonic_s() - begin)
