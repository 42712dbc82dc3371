"""How late jobs start, and how many a second when many are due at once: the cycles of lanes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

from tests.benchmarks.jobs import Way
from tests.benchmarks.lanes import Cycle, Lane, bare_python, c_program, measure
from tests.benchmarks.ours import Pycron
from tests.benchmarks.peer import Workplace
from tests.benchmarks.records import Recorder

MANY, FEW = 500, 50
CYCLES_S = (5, 6, 10, 12, 15, 20, 30, 60)

KINDS = {
    "shell": (Way.SHELL, False),
    "plain": (Way.PLAIN, False),
    "array": (Way.ARRAY, False),
    "shell-user": (Way.SHELL, True),
    "array-user": (Way.ARRAY, True),
}
"""The kinds of commands that bursts are measured with: how it is written, and whether as another
user."""
OTHER_USER = "nobody"


@dataclass(frozen=True, slots=True)
class Pace:
    """How often something is measured: rounds, and the seconds that a burst has to itself."""

    rounds: int
    slot_s: int


def lone(kind: str, work: Workplace) -> Cycle:
    """Return one job due each second, in turn with C and bare Python within the second."""
    way, _ = KINDS[kind]
    beside = Way.SHELL if way is Way.SHELL else Way.ARRAY
    seconds = tuple(range(5))
    return Cycle(
        len(seconds),
        (
            Lane("lone", 1, seconds, way, beside=("C", "python")),
            Lane("C", 1, tuple(s + 0.5 for s in seconds), beside, program=c_program(work)),
            Lane("python", 1, tuple(s + 0.75 for s in seconds), beside, program=bare_python()),
        ),
    )


def bursts(kinds: Sequence[str], count: int, slot_s: int, work: Workplace) -> Cycle:
    """Return bursts of each kind, and of C with the shell and without it, each in its own slot."""
    lanes: list[Lane] = []
    for in_shell, label in ((True, "C-shell"), (False, "C-exec")):
        of_this = [kind for kind in kinds if (KINDS[kind][0] is Way.SHELL) is in_shell]
        if not of_this:
            continue
        way = Way.SHELL if in_shell else Way.ARRAY
        lanes.append(Lane(label, count, (len(lanes) * slot_s,), way, program=c_program(work)))
        for kind in of_this:
            way, as_other = KINDS[kind]
            user = OTHER_USER if as_other else None
            lanes.append(Lane(kind, count, (len(lanes) * slot_s,), way, user, beside=(label,)))
    need = len(lanes) * slot_s
    return Cycle(next(cycle for cycle in CYCLES_S if cycle >= need), tuple(lanes))


def measure_late(kind: str, seconds: int, work: Workplace, recorder: Recorder) -> None:
    """Record how late a lone job of ours is."""
    cycle = lone(kind, work)
    figures = measure(Pycron(), cycle, max(seconds // cycle.seconds, 1), work)
    for label, values in figures.items():
        recorder.add("lone", "pycron" if label == "lone" else label, kind=kind, **values)


def measure_bursts(
    kinds: Sequence[str], count: int, pace: Pace, work: Workplace, recorder: Recorder
) -> None:
    """Record how fast bursts of ours are started."""
    possible = [kind for kind in kinds if not KINDS[kind][1] or os.geteuid() == 0]
    for kind in set(kinds) - set(possible):
        recorder.leave_out(f"burst {kind}", "only root can start jobs as another user")
    cycle = bursts(possible, count, pace.slot_s, work)
    for label, values in measure(Pycron(), cycle, pace.rounds, work).items():
        who = label if label.startswith("C-") else "pycron"
        recorder.add("burst", who, kind=label, count=count, **values)
