"""How late a lone job starts beside others that are loud, many or hard to end.

    python -m tests.benchmarks.parts.beside [--seconds 10] [--rounds 1]

The job ``tick`` is due four times a second. For SECONDS it is alone, then beside each of the
neighbours, which are started anew each second; all of them in each round, so that a busy machine
is equally busy for all. What counts is the difference to the first row: what another job's doing
adds. The processes themselves take processors from one another; where that is all, the last row
shows as much, which has load of the same kind from outside of pycron.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.support.daemon import PROGRAMS, Bell, Daemon

PYCRON = os.environ.get("PYCRON", str(Path(sys.executable).with_name("pycron")))

ALONE, OUTSIDE = "alone", "the loud one, outside of pycron"

NEIGHBOURS = {
    "a gigabyte in one line": f"{sys.executable} -IS {PROGRAMS / 'zoo.py'} one_line",
    "lines without end": "yes a line that is printed again and again",
    "two hundred orphans": "for i in $(seq 200); do (sleep 1 &); done",
    "deaf to its end": "trap '' TERM; sleep 0.7; sleep 0.7",
    "fails and is tried again": "exit 1",
}

TICK = """
[jobs.tick]
every = "250ms"
command = ["true"]
overlap = "allow"
missed = "all"

[jobs.over]
every = "{seconds}s"
command = "echo over > bell"
"""

NEIGHBOUR = """
[jobs.neighbour]
every = "1s"
command = {command}
timeout = "800ms"
kill_after = "100ms"
output_limit = "1M"
retry = {{ attempts = 3, delay = "100ms" }}
"""


def _measure(neighbour: str, seconds: int) -> list[float]:
    """Return how late each start of the job was, in milliseconds."""
    crontab = TICK.format(seconds=seconds)
    if neighbour in NEIGHBOURS:
        crontab += NEIGHBOUR.format(command=json.dumps(NEIGHBOURS[neighbour]))
    with tempfile.TemporaryDirectory() as directory:
        bell = Bell(Path(directory) / "bell")
        daemon = Daemon(Path(directory), (PYCRON,))
        load = None
        if neighbour == OUTSIDE:
            load = subprocess.Popen(["yes"], stdout=(Path(directory) / "yes").open("wb"))
        daemon.start(crontab)
        bell.wait()
        if load is not None:
            load.kill()
            load.wait()
        daemon.cli("stop", "--now")
        daemon.wait_exit()
        bell.close()
        return [row["late_seconds"] * 1000 for row in daemon.history("tick") if row["attempts"]]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=1)
    options = parser.parse_args()
    late: dict[str, list[float]] = defaultdict(list)
    for _ in range(options.rounds):
        for neighbour in (ALONE, *NEIGHBOURS, OUTSIDE):
            late[neighbour] += _measure(neighbour, options.seconds)
    heads = "".join(f"{head:>8}" for head in ("starts", "median", "95 %", "99 %", "most"))
    sys.stdout.write(f"{'late by, in milliseconds':34}{heads}\n")
    for neighbour, all_of_them in late.items():
        ordered = sorted(all_of_them)
        picks = [ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.95, 0.99, 1)]
        columns = "".join(f"{value:8.1f}" for value in picks)
        sys.stdout.write(f"{neighbour:34}{len(ordered):8}{columns}\n")


if __name__ == "__main__":
    main()
