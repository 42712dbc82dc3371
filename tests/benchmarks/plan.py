"""What is measured, in which order, and how often: quickly or in full.

Daemons that know only minutes have their bursts on full minutes, one after the other; between
these the others are measured, so that each is alone at its bursts and no minute is lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest

from tests.benchmarks import on_time
from tests.benchmarks.commands import measure_commands
from tests.benchmarks.crowd import measure_crowd
from tests.benchmarks.jobs import Way
from tests.benchmarks.memory import measure_idle, measure_load, measure_running
from tests.benchmarks.moments import MINUTE_S
from tests.benchmarks.ours import Pycron
from tests.benchmarks.peer import Peer
from tests.benchmarks.stage import Stage
from tests.benchmarks.stored import measure_claims, measure_stored
from tests.benchmarks.tracks import Cycle

MEASURES = ("late", "burst", "idle", "running", "load", "commands", "stored", "crowd")

STARTS_JOBS = {"late", "burst", "running", "stored", "crowd"}
"""Those of them that jobs are started in."""

BESIDE_OTHERS = {"late", "idle", "running", "load"}
"""Those of them that the other daemons are measured in, too."""

IDLE = (10, 1_000)
LONE_MINUTES = 2
RUNNING = 200
FEW_STORED = 10_000
CLAIMS = 40
WITH_FIFTY = ("Debian cron", "cronie")
"""The daemons of minutes that get a burst of 50 too; each burst costs a minute."""


@dataclass(frozen=True, slots=True)
class Step:
    """One measurement of the plan; the name is for the report, should it fail."""

    name: str
    take: Callable[[], object]


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is measured."""

    kinds: tuple[str, ...] = tuple(on_time.KINDS)
    rounds: int = 2
    """Bursts of each kind."""
    slot_s: int = 5
    """How long one of them has to itself."""
    seconds: int = 40
    """Lone starts of ours, where none of the others is measured."""
    whole_minutes: bool = True
    """Whether 50 and 500 at once are measured as those of the others are."""
    idle_s: int = 60
    loads: tuple[int, ...] = (10_000, 100_000)
    turns: int = 15
    """How often each command is run."""
    stored: int = 1_000_000
    """One-off tasks, or as many as are stored within a time."""
    stored_within_s: float = 600.0
    crowd: int = 20_000
    """Tasks of one group that are due at once."""


QUICK = Extent(
    whole_minutes=False,
    rounds=1,
    slot_s=4,
    seconds=15,
    idle_s=10,
    loads=(10_000,),
    turns=5,
    stored=10_000,
    crowd=5_000,
)
FULL = Extent()


def run(wanted: Sequence[str], extent: Extent, peers: Sequence[Peer], stage: Stage) -> None:
    """Measure ours, and the others where there are any."""
    if "late" in wanted and peers:
        _run_minutes(wanted, extent, peers, stage)
    else:
        _run_starts_of_ours(wanted, extent, stage)
    _run_rest(wanted, extent, peers, stage)


def _run_starts_of_ours(wanted: Sequence[str], extent: Extent, stage: Stage) -> None:
    """Measure the starts of ours alone, one thing after the other."""
    if "late" in wanted:
        cycle = on_time.lone_starts(Way.SHELL, stage)
        rounds = max(extent.seconds // cycle.seconds, 1)
        measure = partial(on_time.measure_lone, Way.SHELL, cycle.soon(), rounds, stage)
        stage.attempt("a lone job", measure)
        if extent.whole_minutes:
            stage.attempt("starts in a minute", partial(on_time.measure_minute, Pycron(), stage))
    if "burst" in wanted:
        for cycle in _kinds(extent, stage):
            measure = partial(on_time.measure_kinds, cycle.soon(), extent.rounds, stage)
            stage.attempt("bursts by kind", measure)


def _run_minutes(
    wanted: Sequence[str], extent: Extent, peers: Sequence[Peer], stage: Stage
) -> None:
    """Measure all starts, in minutes that are divided between the daemons."""
    on_the_minute = _bursts_on_the_minute([p for p in peers if not p.has_seconds], stage)
    lone = on_time.lone_starts(Way.SHELL, stage, on_time.AFTER_MINUTE_S, on_time.BEFORE_MINUTE_S)
    measure = partial(on_time.measure_lone, Way.SHELL, lone, 1, stage)
    between = [Step("a lone job", measure)] * LONE_MINUTES
    for peer in (Pycron(), *peers):
        if peer.has_seconds:
            measure = partial(on_time.measure_minute, peer, stage)
            between.append(Step(f"{peer.name}, starts", measure))
    if "burst" in wanted:
        for cycle in _kinds(extent, stage, on_time.AFTER_MINUTE_S):
            measure = partial(on_time.measure_kinds, cycle, 1, stage)
            between += [Step("bursts by kind", measure)] * extent.rounds
    for pair in zip_longest(on_the_minute, between):
        for step in pair:
            if step is not None:
                stage.attempt(step.name, step.take)


def _kinds(extent: Extent, stage: Stage, first_s: int = 0) -> list[Cycle]:
    """Return the cycles that bursts of all kinds take: one, if their slots are in a minute."""
    possible = on_time.possible_kinds(extent.kinds, stage)
    groups = on_time.fitting(possible, (MINUTE_S - first_s) // extent.slot_s)
    return [
        on_time.kinds_in_turn(group, on_time.MANY, extent.slot_s, stage, first_s)
        for group in groups
    ]


def _bursts_on_the_minute(peers: Sequence[Peer], stage: Stage) -> list[Step]:
    if not peers:
        return []
    measure = on_time.measure_full_minute
    few = [peer for peer in peers if peer.name in WITH_FIFTY]
    sizes = [(peer, on_time.MANY) for peer in peers] + [(peer, on_time.FEW) for peer in few]
    return [
        Step("lone jobs on the minute", partial(measure, peers, 1, stage)),
        *(
            Step(f"{peer.name}, {count} at once", partial(measure, [peer], count, stage))
            for peer, count in sizes
        ),
    ]


def _claims(stored: int) -> tuple[int, int, int]:
    """Return the sizes of two ledgers, and how often a hundred tasks are claimed of each."""
    few = max(min(FEW_STORED, stored // 10), 200)
    return few, max(stored, few), min(CLAIMS, few // 200)


def _run_rest(wanted: Sequence[str], extent: Extent, peers: Sequence[Peer], stage: Stage) -> None:
    ours = Pycron()
    all_of_them = [ours, *peers]
    running = [(peer, peer.way) for peer in all_of_them if peer.most_jobs >= RUNNING]
    running.append((ours, Way.ARRAY))
    for step in (
        Step("running", lambda: measure_running(running, RUNNING, stage)),
        Step("idle", lambda: measure_idle(all_of_them, IDLE, extent.idle_s, stage)),
        Step("load", lambda: measure_load(all_of_them, extent.loads, stage)),
        Step("stored", lambda: measure_stored(extent.stored, extent.stored_within_s, stage)),
        Step("stored", lambda: measure_claims(*_claims(extent.stored), stage)),
        Step("crowd", lambda: measure_crowd(extent.crowd, stage)),
        Step("commands", lambda: measure_commands(extent.turns, stage)),
    ):
        if step.name in wanted:
            stage.attempt(step.name, step.take)
