"""Many that were claimed long before their instant, by a daemon that was killed then."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from crond_py.crontab.model import CronTrigger, Job
from crond_py.model import Missed, OnCrash
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, outcomes, rows
from tests.unit.engine.test_chains import to_the_hour

MINUTE = timedelta(minutes=1)
HOURLY = Job("a", CronTrigger(("0 * * * *",)), "true", timezone="UTC")
SOME = 24
"""So many of an instant are claimed a quarter of a second ahead."""


def _many(machine_with: MachineWith, job: Job, left: timedelta) -> World:
    """Return a world in which many runs have been claimed, ``left`` before their instant."""
    world = machine_with(*(replace(job, name=f"a{n}") for n in range(SOME)))
    to_the_hour(world, -left)
    assert {outcome for n in range(SOME) for outcome in outcomes(world, f"a{n}")} == {"running"}
    assert not world.machine.trees
    return world


def _attempts(world: World) -> set[tuple[str, tuple[tuple[int, str], ...]]]:
    """Return what became of the runs, with the outcomes of their attempts."""
    return {
        (str(run.outcome), tuple((a.number, str(a.outcome)) for a in run.attempts))
        for n in range(SOME)
        for run in rows(world, f"a{n}")
    }


SUCCEEDED = {("succeeded", ((1, "succeeded"),))}


@pytest.mark.parametrize("on_crash", OnCrash)
@pytest.mark.parametrize("missed", Missed)
def test_what_was_held_is_started_at_its_instant_by_the_next_daemon(
    machine_with: MachineWith, missed: Missed, on_crash: OnCrash
) -> None:
    """P1, P2, P4: none of it has begun, and it is not late yet."""
    world = _many(machine_with, replace(HOURLY, missed=missed, on_crash=on_crash), SECOND / 5)
    world.kill_daemon()
    world.pass_time(SECOND / 10)
    world.boot_daemon()
    assert not world.machine.trees
    world.pass_time(10 * SECOND)
    assert _attempts(world) == SUCCEEDED
    for tree in world.machine.trees:
        assert tree.started_at == rows(world, tree.job)[0].due
    assert {str(run.cause) for n in range(SOME) for run in rows(world, f"a{n}")} == {"schedule"}


@pytest.mark.parametrize("is_killed_again", [False, True])
@pytest.mark.parametrize(
    ("missed", "became"),
    [
        (Missed.ALL, SUCCEEDED),
        (Missed.ONCE, SUCCEEDED),
        (Missed.SKIP, {("missed", ((1, "cancelled"),))}),
    ],
)
def test_what_was_held_is_missed_where_its_instant_has_passed(
    machine_with: MachineWith, missed: Missed, became: object, *, is_killed_again: bool
) -> None:
    """P1, P2: the policy says what becomes of it, as if nothing had been claimed."""
    world = _many(machine_with, replace(HOURLY, missed=missed), SECOND / 5)
    world.kill_daemon()
    world.pass_time(MINUTE)
    if is_killed_again:
        world.crash_in, world.crash_at = 1, "before a commit"
        world.boot_daemon()
        assert world.daemon is None
    world.boot_daemon()
    world.pass_time(10 * SECOND)
    assert _attempts(world) == became
    assert len(world.machine.trees) == (SOME if missed is not Missed.SKIP else 0)
    if missed is Missed.SKIP:
        (run,) = rows(world, "a0")
        assert run.reason == 'pycron was not running; missed = "skip"'
        assert run.attempts[0].reason == "pycron ended before it was started"


@pytest.mark.parametrize("then", ["the first is let go", "a power cut", "no note"])
def test_what_may_have_begun_is_lost(machine_with: MachineWith, then: str) -> None:
    """P2: where nobody knows that nothing of it has begun, it is not run again."""
    world = _many(machine_with, HOURLY, SECOND / 5)
    if then == "the first is let go":
        world.crash_in, world.crash_at = 1, "before a start"
        world.pass_time(SECOND)
        assert world.daemon is None
    else:
        world.kill_daemon(power_cut=then == "a power cut")
        world.machine.let_go = None
    assert not world.machine.trees
    world.boot_daemon()
    world.pass_time(10 * SECOND)
    assert _attempts(world) == {("lost", ((1, "lost"),))}
    assert not world.machine.trees


def test_a_clock_that_was_set_back_lets_nothing_go_again(machine_with: MachineWith) -> None:
    """P2: the note is never lowered, so what had begun by it is taken for begun."""
    world = _many(machine_with, HOURLY, SECOND / 5)
    world.crash_in, world.crash_at = 1, "after a start"
    world.pass_time(SECOND)
    assert len(world.machine.trees) == 1
    world.set_clock(-SECOND)
    world.boot_daemon()
    world.pass_time(MINUTE)
    assert len(world.machine.trees) == 1


def test_a_cancel_of_what_is_held_is_a_cancel_also_after_a_crash(
    machine_with: MachineWith,
) -> None:
    """P1: who was told that it is cancelled is not to see it run."""
    world = _many(machine_with, HOURLY, SECOND / 5)
    world.daemon.processes.holds_starts = True  # type: ignore[union-attr]
    (run,) = rows(world, "a0")
    world.ask(lambda core: core.cancel_run(run.id))
    world.kill_daemon()
    world.boot_daemon()
    world.pass_time(10 * SECOND)
    assert outcomes(world, "a0") == ["cancelled"]
    assert outcomes(world, "a1") == ["succeeded"]
    assert len(world.machine.trees) == SOME - 1
