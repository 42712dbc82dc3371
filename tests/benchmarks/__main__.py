"""Measure pycron beside what the machine can do."""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
from pathlib import Path

from tests.benchmarks import on_time
from tests.benchmarks.jobs import Way
from tests.benchmarks.memory import measure_idle, measure_load, measure_running
from tests.benchmarks.ours import Pycron
from tests.benchmarks.peer import Workplace
from tests.benchmarks.records import Recorder

SOURCES = Path(__file__).parent / "programs"
BUILD = Path(__file__).parents[2] / "build" / "bench"
PR_SET_CHILD_SUBREAPER = 36


def build_programs() -> Path:
    """Compile the C programs; return where they are."""
    BUILD.mkdir(parents=True, exist_ok=True)
    for name, flags in (("tick", ["-static"]), ("limit", [])):
        source = SOURCES / f"{name}.c"
        subprocess.run(["cc", "-O2", *flags, "-o", BUILD / name, source], check=True)
    return BUILD


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("only", nargs="?", default="late,burst,idle,running,load")
    parser.add_argument("--kinds", default=",".join(on_time.KINDS))
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--slot", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--jobs", default="10000,100000")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    work, recorder, only = Workplace(build_programs()), Recorder(options.out), options.only
    try:
        if "late" in only:
            on_time.measure_late(options.kinds.split(",")[0], options.seconds, work, recorder)
        if "burst" in only:
            pace = on_time.Pace(options.rounds, options.slot)
            kinds = options.kinds.split(",")
            on_time.measure_bursts(kinds, options.count, pace, work, recorder)
        if "idle" in only:
            measure_idle([Pycron()], (10, 1000), options.seconds, work, recorder)
        if "running" in only:
            for way in (Way.SHELL, Way.ARRAY):
                measure_running([Pycron()], 200, work, recorder, way)
        if "load" in only:
            counts = [int(count) for count in options.jobs.split(",")]
            measure_load([Pycron()], counts, work, recorder)
    finally:
        work.close()


if __name__ == "__main__":
    sys.exit(main())
