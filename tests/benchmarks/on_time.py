"""How late jobs start, and how many a second when many are due at once: the cycles of tracks.

Daemons whose jobs are due in seconds share a minute with the machine's limit: a burst of theirs is
followed by one of a C program, a lone start by one in the same second. Those that know only
minutes have their burst on the full minute, and the C program's follows.
"""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from contextlib import ExitStack

from tests.benchmarks.jobs import Minutely, Way, due
from tests.benchmarks.moments import MINUTE_S, next_multiple, pause, wait_until, wall_s
from tests.benchmarks.ours import Pycron
from tests.benchmarks.peer import Peer, Started
from tests.benchmarks.stage import Stage
from tests.benchmarks.stamps import Lateness, read_stamps, wait_for_stamps
from tests.benchmarks.tracks import (
    SETTLE_S,
    Cycle,
    Track,
    bare_python,
    c_program,
    measure,
    start_program,
)

MANY, FEW = 500, 50

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
CYCLES_S = (5, 6, 10, 12, 15, 20, 30, 60)

AFTER_MINUTE_S, BEFORE_MINUTE_S = 12, 51
"""The seconds of a minute that are used by those that leave its beginning to others."""
C_AFTER_S = 1.0
STARTS_WITHIN_S = 20.0
STARTED_WITHIN_S = 6.0


# --- cycles -------------------------------------------------------------------------------------


def lone_starts(way: Way, stage: Stage, first_s: int = 0, last_s: int = 4) -> Cycle:
    """Return one job due in each of these seconds, in turn with C and bare Python."""
    beside = Way.SHELL if way is Way.SHELL else Way.ARRAY
    seconds = tuple(range(first_s, last_s + 1))
    at = {part: tuple(s + part for s in seconds) for part in (0.5, 0.75)}
    tracks = (
        Track("lone", 1, seconds, way, beside=("C", "python")),
        Track("C", 1, at[0.5], beside, program=c_program(stage.work)),
        Track("python", 1, at[0.75], beside, program=bare_python()),
    )
    return Cycle(_shortest(last_s + 1), tracks, rest_s=1.0)


def fitting(kinds: Sequence[str], slots: int) -> list[list[str]]:
    """Return the kinds in groups that fit into so many slots, with the bursts of C beside them."""
    groups: list[list[str]] = []
    for kind in kinds:
        if not groups or _slots([*groups[-1], kind]) > slots:
            groups.append([])
        groups[-1].append(kind)
    return groups


def _slots(kinds: Sequence[str]) -> int:
    return len(kinds) + len({KINDS[kind][0] is Way.SHELL for kind in kinds})


def kinds_in_turn(
    kinds: Sequence[str], count: int, slot_s: int, stage: Stage, first_s: int = 0
) -> Cycle:
    """Return bursts of each kind, and of C with the shell and without it, each in its own slot."""
    tracks: list[Track] = []

    def slot() -> tuple[float, ...]:
        return (first_s + len(tracks) * slot_s,)

    for label, for_shell in (("C-shell", True), ("C-exec", False)):
        of_this = [kind for kind in kinds if (KINDS[kind][0] is Way.SHELL) is for_shell]
        if of_this:
            way = Way.SHELL if for_shell else Way.ARRAY
            tracks.append(Track(label, count, slot(), way, program=c_program(stage.work)))
        for kind in of_this:
            way, as_other = KINDS[kind]
            user = OTHER_USER if as_other else None
            tracks.append(Track(kind, count, slot(), way, user, beside=(label,)))
    return Cycle(_shortest(first_s + len(tracks) * slot_s), tuple(tracks), rest_s=slot_s)


def _shortest(need_s: int) -> int:
    return next(cycle for cycle in CYCLES_S if cycle >= need_s)


def of_a_minute(peer: Peer, stage: Stage) -> Cycle:
    """Return 500, 50 and lone jobs of a daemon within one minute, in turn with the C program."""
    way = Way.SHELL if peer.way is Way.SHELL else Way.ARRAY
    c = c_program(stage.work)
    lone = tuple(range(36, 52))
    return Cycle(
        MINUTE_S,
        (
            Track("many", MANY, (12, 20), peer.way, beside=("C-many",)),
            Track("C-many", MANY, (16, 24), way, program=c),
            Track("few", FEW, (28, 30, 32, 34), peer.way, beside=("C-few",)),
            Track("C-few", FEW, (29, 31, 33, 35), way, program=c),
            Track("lone", 1, lone, peer.way, beside=("C-lone",)),
            Track("C-lone", 1, tuple(s + 0.5 for s in lone), way, program=c),
        ),
        rest_s=1.0,
    )


# --- measurements -------------------------------------------------------------------------------


def measure_lone(way: Way, cycle: Cycle, rounds: int, stage: Stage) -> None:
    """Record how late a lone job of ours is, and C and bare Python beside it."""
    for label, values in measure(Pycron(), cycle, rounds, stage.work).items():
        stage.recorder.add("lone", "pycron" if label == "lone" else label, way=way, **values)


def possible_kinds(kinds: Sequence[str], stage: Stage) -> list[str]:
    """Return the kinds that can be measured here; the others are recorded as left out."""
    possible = [kind for kind in kinds if not KINDS[kind][1] or os.geteuid() == 0]
    for kind in kinds:
        if kind not in possible:
            stage.recorder.leave_out(f"burst {kind}", "only root can start jobs as another user")
    return possible


def measure_kinds(cycle: Cycle, rounds: int, stage: Stage) -> None:
    """Record how fast bursts of ours are started, by the kind of their command."""
    count = cycle.tracks[0].count
    figures = measure(Pycron(), cycle, rounds, stage.work)
    for label, values in figures.items():
        who = label if label.startswith("C-") else "pycron"
        stage.recorder.add("kinds", who, kind=label, count=count, **values)
    if slow := [label for label, values in figures.items() if values["overran"]]:
        why = (
            f"those of {', '.join(slow)} were not over when the next were due; give each more time "
            "(--slot), or the machine less to do"
        )
        stage.recorder.leave_out("undisturbed bursts", why)


def measure_minute(peer: Peer, stage: Stage) -> None:
    """Record how late a daemon is that knows seconds, in a minute of its own."""
    figures = measure(peer, of_a_minute(peer, stage), 1, stage.work)
    for label, count in (("many", MANY), ("few", FEW), ("lone", 1)):
        values = {
            "of_C" if key.startswith("of_") else "after_C_s" if key.startswith("after_") else key: v
            for key, v in figures[label].items()
        }
        stage.recorder.add("late", peer.name, count=count, way=peer.way, **values)


def measure_full_minute(peers: Sequence[Peer], count: int, stage: Stage) -> None:
    """Record how late daemons are that know only minutes; several only with a lone job each."""
    work = stage.work
    with ExitStack() as stack:
        need_s = STARTED_WITHIN_S + len(peers)
        wait_until(next_multiple(MINUTE_S, lead=need_s / 2) - need_s)
        running: list[Started] = []
        for peer in peers:
            # Some look at whole seconds after their start: each is to begin at any part of one.
            pause(random.random())
            directory = work.directory()
            file = directory / "stamps"
            jobs = due(count, Minutely(), work.tick, file, label="due", way=peer.way)
            running.append(stack.enter_context(Started(peer, jobs, directory)))
        for daemon in running:
            daemon.settle(SETTLE_S, quiet_s=0.4)
        # That of now, unless starting them took too long.
        minute = next_multiple(MINUTE_S, lead=0.5)
        wait_until(minute)
        for daemon in running:
            wait_for_stamps(daemon.stamps, {"due": count}, minute, STARTS_WITHIN_S)
        beside = _beside_c(running[0], count, stage) if count > 1 else None
        for daemon in running:
            late = Lateness.of(read_stamps(daemon.stamps)["due"], [minute], count)
            rate = late.rates()[0]
            ratio = {"of_C": rate / beside} if rate and beside else {}
            stage.recorder.add(
                "late",
                daemon.peer.name,
                count=count,
                way=daemon.peer.way,
                **late.figures(),
                **ratio,
            )


def _beside_c(daemon: Started, count: int, stage: Stage) -> float | None:
    """Return the rate of the C program, after the daemon's burst and in its place."""
    way = Way.SHELL if daemon.peer.way is Way.SHELL else Way.ARRAY
    at_s = wall_s() + C_AFTER_S
    track = Track("C", count, (0,), way, program=c_program(stage.work))
    start_program(track, [at_s], stage.work, daemon.stamps).wait()
    return Lateness.of(read_stamps(daemon.stamps)["C"], [at_s], count).rates()[0]
