"""Measure pycron beside what the machine can do, and beside other daemons."""

from __future__ import annotations

import argparse
import ctypes
import os
import platform
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.benchmarks import on_time, plan
from tests.benchmarks.moments import CLOCK, pause
from tests.benchmarks.origins import STORE, NotObtainedError, run
from tests.benchmarks.ours import Pycron
from tests.benchmarks.peer import PROGRAMS, Peer, Workplace
from tests.benchmarks.peers import ALL, USUAL
from tests.benchmarks.processes import machine_busy
from tests.benchmarks.records import Recorder, read_records
from tests.benchmarks.stage import Stage
from tests.benchmarks.table import render

LONGEST_SLOT_S = 24  # with one of C beside it, within a minute that is not used at its beginning
PR_SET_CHILD_SUBREAPER = 36


def build_programs() -> Path:
    """Compile the C programs; return where they are. Raises NotObtainedError."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise NotObtainedError("the job that is started is written in C: install a compiler (cc)")
    if any(character in str(STORE) for character in " \t\n'\"\\$"):
        raise NotObtainedError(f"commands with {STORE} in them would need quotes")
    STORE.mkdir(parents=True, exist_ok=True)
    STORE.parent.chmod(0o755)  # jobs of other users are to get there, too
    # Others may run or build the same programs, so each comes into its place as a whole.
    with TemporaryDirectory(dir=STORE) as directory:
        for name, flags in (("tick", ["-static"]), ("limit", [])):
            source, built = PROGRAMS / f"{name}.c", Path(directory, name)
            run([compiler, "-O2", *flags, "-o", built, source], STORE)
            built.replace(STORE / name)
    return STORE


def without_compiler(wanted: Sequence[str], recorder: Recorder) -> list[str]:
    """Return what can be measured here: without a C compiler not what starts jobs."""
    try:
        build_programs()
    except NotObtainedError as error:
        for name in plan.STARTS_JOBS.intersection(wanted):
            recorder.leave_out(name, str(error))
        return [name for name in wanted if name not in plan.STARTS_JOBS]
    return list(wanted)


def choose_peers(names: str, recorder: Recorder) -> list[Peer]:
    """Return the daemons of these names that are to be had; the others are told of."""
    if names == "none":
        return []
    known = {peer.name: peer for peer in ALL}
    wanted = {"all": list(known), "usual": [peer.name for peer in USUAL]}.get(names)
    wanted = wanted or names.split(",")
    if unknown := [name for name in wanted if name not in known]:
        sys.exit(f"no such daemon: {', '.join(unknown)}; there are {', '.join(known)}")
    found = []
    for name in wanted:
        why_not = known[name].missing()
        if why_not is None:
            found.append(known[name])
            recorder.add("version", name, version=known[name].version())
        else:
            recorder.leave_out(name, why_not)
    return found


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument(
        "only", nargs="?", help=f"what to measure, else all: {','.join(plan.MEASURES)}"
    )
    parser.add_argument("--quick", action="store_true", help="under two minutes, ours alone")
    parser.add_argument(
        "--peers", metavar="NAMES", help="all, usual, none, or names; quick has none"
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="append the records, JSON lines")
    parser.add_argument("--table", type=Path, metavar="FILE", help="make the table again, no more")
    parser.add_argument("--kinds", metavar="KINDS", help=f"of bursts: {','.join(on_time.KINDS)}")
    parser.add_argument("--jobs", metavar="COUNTS", help="of crontabs that are loaded")
    parser.add_argument(
        "--stored",
        type=int,
        metavar="COUNT",
        help="of tasks, and of a crowd, at any length",
    )
    parser.add_argument("--rounds", type=int, help="of bursts")
    parser.add_argument("--slot", type=int, metavar="SECONDS", help="that a burst has to itself")
    parser.add_argument("--seconds", type=int, help="of lone starts, or idle")
    return parser.parse_args()


def extent_of(options: argparse.Namespace) -> plan.Extent:
    """Return how much is to be measured."""
    given: dict[str, object] = {
        "kinds": options.kinds and tuple(options.kinds.split(",")),
        "loads": options.jobs and tuple(map(int, options.jobs.split(","))),
        "stored": options.stored,
        "stored_within_s": options.stored and inf,
        "crowd": options.stored,
        "rounds": options.rounds,
        "slot_s": options.slot,
        "seconds": options.seconds,
        "idle_s": options.seconds,
    }
    extent = plan.QUICK if options.quick else plan.FULL
    kinds = options.kinds.split(",") if options.kinds else []
    if unknown := [kind for kind in kinds if kind not in on_time.KINDS]:
        sys.exit(f"no such kind: {', '.join(unknown)}; {', '.join(on_time.KINDS)}")
    if options.slot is not None and not 1 <= options.slot <= LONGEST_SLOT_S:
        sys.exit(f"a burst can have 1 to {LONGEST_SLOT_S} seconds to itself")
    return replace(extent, **{key: value for key, value in given.items() if value is not None})


def machine() -> dict[str, object]:
    """Return what the report says about where it was made."""
    names = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "pycron": Pycron().version(),
        "processors": os.cpu_count(),
        "processor": names[0] if names else platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "date": f"{CLOCK.now():%Y-%m-%d}",
        "busy": busy_share(),
    }


def busy_share() -> float:
    """Return how much of the machine's processors others use, over a second."""
    begin = machine_busy()
    pause(1.0)
    end = machine_busy()
    return (end[0] - begin[0]) / max(end[1] - begin[1], 1)


def main() -> None:
    """Measure and print the table."""
    options = arguments()
    if options.table is not None:
        sys.stdout.write(render(read_records(options.table)))
        return
    wanted = options.only.split(",") if options.only else list(plan.MEASURES)
    if unknown := [name for name in wanted if name not in plan.MEASURES]:
        sys.exit(f"no such measurement: {', '.join(unknown)}; {', '.join(plan.MEASURES)}")
    extent = extent_of(options)
    # Whoever ends this ends the daemons too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    # What a daemon leaves behind comes to us and is ended.
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    stage = Stage(Workplace(STORE), Recorder(options.out))
    try:
        stage.recorder.add("machine", platform.node(), **machine())
        wanted = without_compiler(wanted, stage.recorder)
        names = options.peers or ("none" if options.quick else "usual")
        if plan.BESIDE_OTHERS.isdisjoint(wanted):
            names = "none"
        peers = choose_peers(names, stage.recorder)
        plan.run(wanted, extent, peers, stage)
    finally:
        stage.work.close()
        # What was measured until it was ended is worth something too.
        sys.stdout.write(render(stage.recorder.records))


if __name__ == "__main__":
    main()
