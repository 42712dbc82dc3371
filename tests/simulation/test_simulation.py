"""Many short histories of the whole engine, each with crashes at points a seed has chosen."""

from __future__ import annotations

import os

import pytest

from tests.simulation.checks import check_always, check_at_rest, check_over
from tests.simulation.world import World

STEPS = 25
SEEDS = int(os.environ.get("PYCRON_SIMULATIONS", "500"))
LONG_SEEDS = 20_000


def play(seed: int, *, may_step_clock: bool) -> World:
    """Play one history; a broken promise fails with its story."""
    world = World(seed)
    world.may_step_clock = may_step_clock
    try:
        world.boot_daemon()
        for _ in range(STEPS):
            world.step()
            check_always(world)
        world.settle()
        check_at_rest(world)
        world.wind_down()
        check_over(world)
    except AssertionError as error:
        story = "\n".join(world.story)
        message = f"seed {seed} (may_step_clock={may_step_clock}): {error}\n{story}"
        raise AssertionError(message) from error
    return world


def play_many(seeds: range) -> None:
    """Play a history a seed; every other one also sets the clock."""
    for seed in seeds:
        play(seed, may_step_clock=bool(seed % 2))


@pytest.mark.parametrize("part", range(10))
def test_histories_keep_the_promises(part: int) -> None:
    """P1, P2, P5: no history of crashes, freezes, reloads and clock steps breaks a promise."""
    share = SEEDS // 10
    play_many(range(part * share, (part + 1) * share))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_many_more_histories() -> None:
    """P1, P2, P5: the same over 20,000 seeds."""
    play_many(range(100_000, 100_000 + LONG_SEEDS))
