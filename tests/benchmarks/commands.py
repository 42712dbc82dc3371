"""How long a command of ours takes, from start to end, beside an interpreter that does nothing.

All take turns, each in a fresh process; the times are of the whole process, from outside.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from statistics import median

from tests.benchmarks.jobs import far_away
from tests.benchmarks.moments import monotonic_s
from tests.benchmarks.ours import PYCRON, Pycron, environment_of
from tests.benchmarks.peer import Started
from tests.benchmarks.stage import Stage

SETTLE_S = 30.0
JOBS = 10
BARE = "python -c pass"
COMMANDS = {
    BARE: [sys.executable, "-c", "pass"],
    "pycron --help": [PYCRON, "--help"],
    "pycron next": [PYCRON, "next"],
    "pycron list": [PYCRON, "list"],
    "pycron status": [PYCRON, "status"],
}


def measure_commands(rounds: int, stage: Stage) -> None:
    """Record the median time of each command, with a daemon running that has ten jobs."""
    directory = stage.work.directory()
    jobs = far_away(JOBS, stage.work.tick, directory / "stamps")
    environment = environment_of(directory)
    taken: dict[str, list[float]] = {name: [] for name in COMMANDS}
    with Started(Pycron(), jobs, directory) as daemon:
        daemon.settle(SETTLE_S)
        for _ in range(rounds + 1):
            for name, command in COMMANDS.items():
                taken[name].append(_seconds(command, environment))
    for name, seconds in taken.items():
        # The first of each has brought what it reads into memory.
        own = [each - bare for each, bare in zip(seconds[1:], taken[BARE][1:], strict=True)]
        stage.recorder.add(
            "commands", name, p50_s=median(seconds[1:]), beyond_bare_s=median(own), rounds=rounds
        )


def _seconds(command: Sequence[str], environment: dict[str, str]) -> float:
    begin = monotonic_s()
    subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    return monotonic_s() - begin
