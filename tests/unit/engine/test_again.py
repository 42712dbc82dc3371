"""An occurrence that comes again has its row: it is no new one, and no policy is asked."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from crond_py.crontab.model import CronTrigger, Job
from crond_py.engine.ahead import FARTHEST_AHEAD
from crond_py.engine.core import Core
from crond_py.errors import LedgerError
from crond_py.model import Missed, Overlap, Run
from crond_py.ports import RunQuery
from tests.simulation.fakes import Behaviour
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, outcomes, reload, rows
from tests.unit.engine.test_chains import HEAD, HOUR, MINUTE, after, ask, behave, to_the_hour

AT_TEN = replace(HEAD, trigger=CronTrigger(("10 * * * *",)))
AT_TEN_TOO = replace(HEAD, trigger=CronTrigger(("10 * * * *", "11 5 * * *")))
FOLLOWER = after("next", "head")

CROWD = [replace(HEAD, name=f"crowd-{number}") for number in range(30)]
"""So many that all of them are claimed a quarter of a second ahead."""


def come_again(world: World, overlap: Overlap, *, ends: bool = False) -> None:
    """Run the occurrence at ten past, and have it come again by a clock set back and an edit.

    ``ends``: its run has ended by then, and another one that was asked for runs.
    """
    lasts = SECOND if ends else 20 * MINUTE
    behave(world, head=Behaviour(lasts=(lasts,)), next=Behaviour(lasts=(SECOND,)))
    world.pass_time(10 * MINUTE + 30 * SECOND)
    if ends:
        behave(world, head=Behaviour(lasts=(20 * MINUTE,)))
        ask(world, "trigger", "head")
    world.set_clock(-MINUTE)
    reload(world, replace(AT_TEN_TOO, overlap=overlap), FOLLOWER)
    world.pass_time(MINUTE)


@pytest.mark.parametrize("overlap", list(Overlap))
def test_its_run_goes_on(machine_with: MachineWith, overlap: Overlap) -> None:
    """P1, P2: it is neither replaced by itself, nor is what follows it told that it was skipped."""
    world = machine_with(replace(AT_TEN, overlap=overlap), FOLLOWER)
    come_again(world, overlap)
    assert outcomes(world, "head") == ["running"]
    assert outcomes(world, "next") == []
    world.pass_time(20 * MINUTE)
    assert outcomes(world, "head") == ["succeeded"]
    assert outcomes(world, "next") == ["succeeded"]


@pytest.mark.parametrize("overlap", list(Overlap))
def test_its_run_has_ended(
    machine_with: MachineWith, caplog: pytest.LogCaptureFixture, overlap: Overlap
) -> None:
    """P1, P2: it does nothing to another run that goes on by then."""
    world = machine_with(replace(AT_TEN, overlap=overlap), FOLLOWER)
    come_again(world, overlap, ends=True)
    assert outcomes(world, "head") == ["succeeded", "running"]
    assert outcomes(world, "next") == ["succeeded"]
    told = [(record.levelno, record.message) for record in caplog.records]
    assert (logging.WARNING, "occurrence has its run already") in told
    assert "run skipped" not in [message for _, message in told]


def test_the_ledger_is_asked_once_a_second_where_it_cannot_tell(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, P8: what it cannot tell of is taken for new, and none waits for its patience again."""
    minutely = replace(HEAD, trigger=CronTrigger(("* * * * *",)), overlap=Overlap.SKIP)
    jobs = [replace(minutely, name=f"minutely-{number}") for number in range(5)]
    world = machine_with(*jobs, lasts=HOUR)
    world.pass_time(MINUTE + SECOND)
    asked = []

    def refuse(query: RunQuery) -> list[Run]:
        asked.append(query)
        message = "the database is locked"
        raise LedgerError(message)

    monkeypatch.setattr(world.ledger, "runs", refuse)
    world.pass_time(MINUTE)
    assert len(asked) == 1
    monkeypatch.undo()
    for job in jobs:
        assert outcomes(world, job.name) == ["running", "skipped"]


@pytest.mark.parametrize("overlap", list(Overlap))
def test_claimed_ahead_and_still_due(machine_with: MachineWith, overlap: Overlap) -> None:
    """P1, P2: a reload in the moment before keeps it, by the new schedule it does not come again.

    It is told of by nobody: nothing has come twice.
    """
    head = replace(HEAD, overlap=overlap)
    world = machine_with(head, FOLLOWER, *CROWD)
    behave(world, head=Behaviour(lasts=(MINUTE,)))
    to_the_hour(world, -SECOND / 10)
    assert outcomes(world, "head") == ["running"]
    often = replace(head, trigger=CronTrigger(("0,30 * * * *",)))
    reload(world, often, FOLLOWER, *CROWD)
    world.pass_time(5 * MINUTE)
    assert outcomes(world, "head") == ["succeeded"]
    assert outcomes(world, "next") == ["succeeded"]
    world.pass_time(30 * MINUTE)
    assert [(run.due.minute, str(run.outcome)) for run in rows(world, "head")] == [
        (0, "succeeded"),
        (30, "succeeded"),
    ]


def test_claimed_ahead_and_kept_is_not_found_to_come_twice(
    machine_with: MachineWith, caplog: pytest.LogCaptureFixture
) -> None:
    """A reload in that moment makes no noise: the new schedule goes on after that instant."""
    world = machine_with(HEAD, *CROWD)
    to_the_hour(world, -SECOND / 10)
    reload(world, replace(HEAD, trigger=CronTrigger(("0,30 * * * *",))), *CROWD)
    world.pass_time(MINUTE)
    assert outcomes(world, "head") == ["succeeded"]
    assert "occurrence has its run already" not in [each.message for each in caplog.records]


@pytest.mark.parametrize(
    "other",
    [
        replace(HEAD, trigger=CronTrigger(("30 * * * *",))),
        after("head", "crowd-0"),
    ],
)
def test_claimed_ahead_and_not_due_any_more(machine_with: MachineWith, other: Job) -> None:
    """P1: a reload that gives the job another schedule withdraws it, as a restart does."""
    world = machine_with(HEAD, *CROWD)
    to_the_hour(world, -SECOND / 10)
    assert outcomes(world, "head") == ["running"]
    reload(world, other, *CROWD)
    world.pass_time(SECOND / 20)
    (run,) = rows(world, "head")
    assert (str(run.outcome), run.reason) == (
        "cancelled",
        "the job was given another schedule in the crontab",
    )
    world.pass_time(MINUTE)
    assert not [tree for tree in world.machine.trees if tree.job == "head"]


def test_claimed_ahead_by_the_same_schedule(machine_with: MachineWith) -> None:
    """A reload that changes something else of a job leaves what is about to start alone."""
    world = machine_with(HEAD, *CROWD)
    to_the_hour(world, -SECOND / 10)
    reload(world, replace(HEAD, description="hourly"), *CROWD)
    world.pass_time(MINUTE)
    assert outcomes(world, "head") == ["succeeded"]


def test_claimed_ahead_by_an_earlier_daemon_and_the_same_schedule(
    machine_with: MachineWith,
) -> None:
    """Nor does one whose cursor stands before the instant, as that daemon ended before it."""
    late = replace(HEAD, jitter=5 * SECOND)
    world = machine_with(late)

    def claim_early(core: Core) -> None:
        core._agenda.leads = ((0, FARTHEST_AHEAD),)

    world.on_core.append(claim_early)
    world.kill_daemon()
    world.boot_daemon()
    while outcomes(world, "head") != ["running"]:
        world.pass_time(SECOND / 100)
    world.kill_daemon()
    world.boot_daemon()
    reload(world, late)
    world.pass_time(MINUTE)
    assert outcomes(world, "head") == ["succeeded"]


def test_claimed_ahead_by_an_earlier_daemon(machine_with: MachineWith) -> None:
    """A reload just after a restart, before the instant, changes nothing either."""
    world = machine_with(HEAD, *CROWD)
    to_the_hour(world, -SECOND / 10)
    world.kill_daemon()
    world.pass_time(SECOND / 50)
    world.boot_daemon()
    reload(world, HEAD, *CROWD)
    world.pass_time(MINUTE)
    assert outcomes(world, "head") == ["succeeded"]


def test_claimed_ahead_before_the_clock_was_set_back(machine_with: MachineWith) -> None:
    """A reload that changes nothing of it changes nothing, though its era is another one now."""
    world = machine_with(HEAD, *CROWD)
    to_the_hour(world, -SECOND / 10)
    world.set_clock(-8 * HOUR)
    reload(world, HEAD, *CROWD)
    world.pass_time(MINUTE)
    assert outcomes(world, "head")[-1] == "succeeded"


@pytest.mark.parametrize("is_disabled", [False, True])
def test_started_and_not_due_any_more(machine_with: MachineWith, *, is_disabled: bool) -> None:
    """What was started in its time goes on, also where the clock is set back in that moment.

    There is no word of its start yet, and by the clock its instant is yet to come.
    """
    world = machine_with(HEAD)
    behave(world, head=Behaviour(lasts=(MINUTE,), word_takes=SECOND))
    to_the_hour(world, SECOND / 10)
    world.set_clock(-HOUR)
    other = replace(HEAD, trigger=CronTrigger(("30 * * * *",)))
    reload(world, replace(other, enabled=not is_disabled))
    world.pass_time(2 * MINUTE)
    assert outcomes(world, "head") == ["succeeded"]


@pytest.mark.parametrize("missed", list(Missed))
def test_the_first_of_several_that_are_missed(machine_with: MachineWith, missed: Missed) -> None:
    """P1: what comes again has its row, and all that was missed behind it has an account, too."""
    head = replace(HEAD, missed=missed)
    world = machine_with(head, FOLLOWER)
    to_the_hour(world, 10 * MINUTE)
    ask(world, "trigger", "head")
    world.pass_time(SECOND)
    world.set_clock(-50 * MINUTE)
    reload(world, replace(head, trigger=CronTrigger(("0 * * * *", "11 5 * * *"))), FOLLOWER)
    world.freeze(5 * HOUR)
    world.pass_time(MINUTE)
    for name in ("head", "next"):
        counts = [run.count for run in rows(world, name) if not run.due.minute]
        assert sum(counts) == 5  # at eleven, twelve, one, two and three o'clock


def test_a_stretch_that_was_missed_comes_again(machine_with: MachineWith) -> None:
    """P1: only what is new of it gets a row."""
    head = replace(HEAD, missed=Missed.SKIP)
    world = machine_with(head, FOLLOWER)
    to_the_hour(world, 10 * MINUTE)
    world.freeze(3 * HOUR)
    world.pass_time(SECOND)
    world.set_clock(-170 * MINUTE)
    reload(world, replace(head, trigger=CronTrigger(("0 * * * *", "11 5 * * *"))), FOLLOWER)
    world.freeze(5 * HOUR)
    world.pass_time(MINUTE)
    for name in ("head", "next"):
        counts = [(run.due.hour, run.count) for run in rows(world, name)]
        assert counts == [(23, 1), (0, 3), (3, 2)]
