"""Thousands of short histories of the whole engine, each with crashes at points a seed has chosen.

A history is a ``World`` (``world``) to which a number of random things happen (``actions``); the
promises are checked at every start of a process, at every write of the ledger and after every step
(``checks``, ``accounts``). Where one is broken, the story is told (``story``): what concerns the
job and the run, and the whole of it in a file.

To play one seed again::

    PYCRON_SEEDS=12345:12346 pytest tests/simulation -k keep_the_promises

An action is added in ``actions``, a check in ``checks``, a kind of job in ``jobs``; and a fault
that only it finds in ``test_planted_faults``, to see that it does.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest

from crond_py.model import Cause, Outcome
from crond_py.ports import RunQuery
from tests.simulation import actions, task_actions
from tests.simulation.actions import CRASH_POINTS
from tests.simulation.checks import Inspector
from tests.simulation.story import Broken
from tests.simulation.world import World

assert task_actions, "it is imported for the actions that it enters"

pytestmark = pytest.mark.timeout(900)  # it computes, and may have to share

STEPS = 25
JOINS = 5
"""Of the histories that leave the clock alone, one of eight has a join of jobs due together.

A join whose head's instant comes twice is looked at in the engine's own tests.
"""
CROWDS = 1
"""One of eight histories has a crowd of jobs in small pools."""
BACKLOGS = 3
"""Of the histories that leave the clock alone, one of eight has tasks that wait in the ledger."""
WIDE = 6
"""One of eight histories has a pool of many slots, and tasks of many groups for it."""
SEEDS = 500
EVERYWHERE = 150  # of these
LONG_SEEDS = 20_000
PARTS = 7
LONG_PARTS = 40
REASONS = (
    "cancelled on request",
    "replaced by the run due",
    "the job was removed",
    "pycron was stopped",
    "pycron was told to stop at once",
    "timed out after",
    "cannot start",
    "not tried again, retry_on",
    "left alone",
    "too_late",
    "queue_full",
    "max_running",
    "upstream_failed",
    "was not running",
    "frozen or the machine suspended",
    "the clock was set forward",
    "beyond missed_limit",
    "older than missed_within",
    "nobody saw how",
    "while it started",
)
"""What rows of a few histories must say among them, else something is never tried."""

LINES = ("adopted", "the rest is adopted", "the daemon has stopped")

STORIES = Path("build/stories")


class HistoryFailedError(AssertionError):
    """A seed whose history breaks a promise, with its story."""

    def __init__(self, world: World, broken: Broken) -> None:
        clock = "sets the clock" if world.may_step_clock else "leaves the clock alone"
        who = f"{broken.job or 'the daemon'}{f', run {broken.run}' if broken.run else ''}"
        super().__init__(
            f"seed {world.seed} ({clock}) breaks a promise. By the simulated clock,\n"
            f"in which life of the daemon, of which job and run:\n\n"
            f"{world.story.excerpt(broken)}\n\n"
            f"broken: {broken}\nfor: {who}"
        )
        self.world = world
        self.promise = broken.promise


def play(seed: int, *, may_step_clock: bool | None = None) -> World:
    """Play one history; a broken promise fails with its story. Odd seeds also set the clock."""
    world = World(seed, bool(seed % 2) if may_step_clock is None else may_step_clock)
    world.takes = timedelta(milliseconds=1)
    inspector = Inspector(world)
    try:
        world.add_random_jobs(world.random.randint(1, 5))
        if seed // 8 % 8 == JOINS and not world.may_step_clock:
            world.add_join()
        if seed // 8 % 8 == CROWDS:
            world.add_crowd()
        world.has_backlog = seed // 8 % 8 == BACKLOGS and not world.may_step_clock
        if seed // 8 % 8 == WIDE:
            world.widen()
        world.boot_daemon()
        inspector.look()
        for _ in range(STEPS):
            actions.step(world)
            inspector.look()
        actions.settle(world)
        inspector.look()
        actions.wind_down(world)
        inspector.look_at_end()
    except Broken as broken:
        raise HistoryFailedError(world, broken) from None
    return world


def play_many(seeds: range) -> Iterator[World]:
    """Play a history a seed; the whole story of one that fails is kept in a file."""
    for seed in seeds:
        try:
            yield play(seed)
        except HistoryFailedError as failed:
            STORIES.mkdir(parents=True, exist_ok=True)
            path = STORIES / f"seed-{seed}.txt"
            path.write_text(failed.world.story.whole(), encoding="utf-8")
            message = f"{failed}\n\nthe whole story is in {path}"
            raise AssertionError(message) from None


def _part(part: int, parts: int, first: int, number: int) -> range:
    if chosen := os.environ.get("PYCRON_SEEDS"):
        begin, end = map(int, chosen.split(":"))
        first, number = begin, end - begin
    return range(first + part * number // parts, first + (part + 1) * number // parts)


@pytest.mark.parametrize("part", range(PARTS))
def test_histories_keep_the_promises(part: int) -> None:
    """P1 to P6: no history of crashes, freezes, reloads, cancels and clock steps breaks one.

    The first ones are those that also go everywhere (below).
    """
    for world in play_many(_part(part, PARTS, EVERYWHERE, SEEDS - EVERYWHERE)):
        assert not world.broken


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", range(LONG_PARTS))
def test_many_more_histories_keep_the_promises(part: int) -> None:
    """P1 to P6: the same over 20,000 seeds."""
    for world in play_many(_part(part, LONG_PARTS, 100_000, LONG_SEEDS)):
        assert not world.broken


def test_histories_go_everywhere() -> None:
    """P1 to P6: nor do these, which reach every kind of crash, outcome, cause and way to go on."""
    worlds = list(play_many(range(EVERYWHERE)))
    assert not any(world.broken for world in worlds)
    crashes = sum((world.crashes for world in worlds), Counter())
    assert {where for _, where in crashes} >= set(CRASH_POINTS)
    for phase in ("recovering", "running", "stopping"):
        assert sum(number for (when, _), number in crashes.items() if when == phase) >= 5, phase
    rows = [run for world in worlds for run in world.ledger.runs(RunQuery(limit=None))]
    assert {run.outcome for run in rows} == set(Outcome)
    assert {run.cause for run in rows} == set(Cause)
    reasons = "\n".join(run.reason for run in rows)
    for reason in REASONS:
        assert reason in reasons, reason
    lines = "\n".join(line.text for world in worlds for line in world.story.lines)
    for line in LINES:
        assert line in lines, line
    turns = sum((world.turns for world in worlds), Counter())
    for kind in ("priority", "share", "due", "age"):
        assert turns[kind] >= 30, kind
    signals = {force for w in worlds for tree in w.machine.trees for _, force in tree.stops}
    assert signals == {True, False}


def test_the_same_seed_tells_the_same_story() -> None:
    """A history depends on its seed alone, so that a failure can be looked at again."""
    assert play(7).story.whole() == play(7).story.whole()
