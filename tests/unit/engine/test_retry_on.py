"""Retries: which failures are tried again, and what a crash makes of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from crond_py.crontab.model import CronTrigger, Job
from crond_py.engine.events import Call
from crond_py.model import Exit, Failure, OnCrash, Overlap, Retry
from crond_py.policy import MOST_RERUNS
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, is_alive, outcomes, rows

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
RETRY = Retry(attempts=3, delay=MINUTE, backoff=1.0)
JOB = Job("a", CronTrigger(("0 * * * *",)), "true", timezone="UTC", retry=RETRY)


def to_the_hour(world: World) -> None:
    """Let time pass until five seconds after the next full hour."""
    now = world.clock.now()
    world.pass_time(HOUR - now.minute * MINUTE - now.second * SECOND + 5 * SECOND)


@pytest.mark.parametrize(
    ("exit_", "retry_on", "attempts"),
    [
        (Exit(code=75), None, 3),
        (Exit(code=75), frozenset({75}), 3),
        (Exit(code=2), frozenset({75}), 1),
        (Exit(signal=11), frozenset({75}), 1),
        (Exit(signal=11), frozenset({75, Failure.SIGNAL}), 3),
    ],
)
def test_only_what_is_named_is_tried_again(
    machine_with: MachineWith,
    exit_: Exit,
    retry_on: frozenset[int | Failure] | None,
    attempts: int,
) -> None:
    """Each attempt has its own row; the run says so where retry_on kept it from another."""
    world = machine_with(replace(JOB, retry_on=retry_on), exits=(exit_,))
    to_the_hour(world)
    world.pass_time(10 * MINUTE)
    (run,) = rows(world)
    assert str(run.outcome) == "failed"
    assert [attempt.number for attempt in run.attempts] == list(range(1, attempts + 1))
    assert ("retry_on" in run.reason) == (attempts == 1)


@pytest.mark.parametrize(
    ("overlap", "expected"),
    [
        (Overlap.SKIP, ["waiting_retry", "skipped"]),
        (Overlap.QUEUE, ["waiting_retry", "queued"]),
        (Overlap.ALLOW, ["waiting_retry", "waiting_retry"]),
        (Overlap.REPLACE, ["cancelled", "waiting_retry"]),
    ],
)
def test_the_next_occurrence_meets_a_run_that_waits_for_its_retry(
    machine_with: MachineWith, overlap: Overlap, expected: list[str]
) -> None:
    """P5: a run that waits for a retry is active, and the overlap policy goes by that."""
    job = replace(JOB, overlap=overlap, retry=replace(RETRY, delay=3 * HOUR, max_delay=3 * HOUR))
    world = machine_with(job, exits=(Exit(code=1),))
    to_the_hour(world)
    to_the_hour(world)
    assert outcomes(world) == expected


def test_the_waiting_is_stored(machine_with: MachineWith) -> None:
    """P1: a restart in the middle of the delay neither loses the retry nor hurries it."""
    world = machine_with(replace(JOB, retry=replace(RETRY, delay=10 * MINUTE)), exits=(Exit(1),))
    to_the_hour(world)
    assert outcomes(world) == ["waiting_retry"]
    world.kill_daemon()
    world.pass_time(3 * MINUTE)
    world.boot_daemon()
    world.pass_time(6 * MINUTE)
    assert len(rows(world)[0].attempts) == 1
    world.pass_time(2 * MINUTE)
    assert len(rows(world)[0].attempts) == 2


def test_a_cancel_ends_the_waiting(machine_with: MachineWith) -> None:
    """P6: a cancelled run is not tried again, by this daemon or the next."""
    world = machine_with(JOB, exits=(Exit(code=1),))
    to_the_hour(world)
    assert world.daemon is not None
    core = world.daemon.core
    core.handle([Call(lambda: core.cancel_job("a"))])
    world.kill_daemon()
    world.boot_daemon()
    world.pass_time(10 * MINUTE)
    assert outcomes(world) == ["cancelled"]
    assert len(world.machine.trees) == 1


def test_a_run_that_takes_us_down_is_given_up(machine_with: MachineWith) -> None:
    """P3: on_crash = "rerun" has a ceiling: the fourth time it is lost, and says why."""
    world = machine_with(replace(JOB, on_crash=OnCrash.RERUN, retry=Retry()), lasts=30 * MINUTE)
    to_the_hour(world)
    for _ in range(MOST_RERUNS + 1):
        assert is_alive(world) == 1
        world.kill_daemon()
        world.machine.reboot()
        world.boot_daemon()
        world.pass_time(SECOND)
    (run,) = rows(world)
    assert str(run.outcome) == "lost"
    assert "not run again" in run.reason
    assert [str(attempt.outcome) for attempt in run.attempts] == ["lost"] * (MOST_RERUNS + 1)
    assert not is_alive(world)
