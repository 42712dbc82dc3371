"""A job in the middle of a chain that is run by hand: what follows it, and what that waits for."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from crond_py.crontab.model import StartupTrigger
from crond_py.errors import LedgerError
from crond_py.model import Cause, OnCrash
from tests.simulation.fakes import Behaviour
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, outcomes, reload, rows
from tests.unit.engine.test_chains import (
    BAD,
    DIAMOND,
    HEAD,
    HOUR,
    MINUTE,
    OK,
    TWO,
    after,
    ask,
    behave,
    to_the_hour,
)


def by_hand(world: World, name: str) -> None:
    """Run a job by hand, which succeeds now, and give what follows its time."""
    behave(world, **{name: Behaviour(exits=(OK,))})
    ask(world, "trigger", name)
    world.pass_time(MINUTE)


def said(world: World, job: str) -> list[tuple[str, str]]:
    """Return how a job's runs ended, and why, oldest due first."""
    return [(str(run.outcome or run.state), run.reason) for run in rows(world, job)]


def instant(due: datetime) -> str:
    """Return an instant as a reason has it."""
    return due.isoformat(timespec="seconds")


@pytest.mark.parametrize("who", ["left", "right"])
def test_a_chain_that_has_failed_goes_on(machine_with: MachineWith, who: str) -> None:
    """P1: the failed job is run by hand, the other one counts as it was, and both rows stay."""
    world = machine_with(*DIAMOND, after("last", "end"))
    behave(world, **{who: Behaviour(exits=(BAD,))})
    to_the_hour(world)
    before = said(world, "end")
    assert before == [("skipped", f"upstream_failed: {who} has failed")]
    by_hand(world, who)
    assert said(world, "end") == [*before, ("succeeded", "")]
    assert outcomes(world, "last") == ["skipped", "succeeded"]
    manual = rows(world, who)[-1]
    assert manual.cause is Cause.MANUAL
    assert rows(world, "end")[-1].due == rows(world, "last")[-1].due == manual.due
    assert [len(rows(world, name)) for name in ("head", "left", "right")].count(1) == 2


def test_of_two_that_have_failed_both_are_run_by_hand(machine_with: MachineWith) -> None:
    """P1: as long as one has failed, what joins them is skipped for it, and says of which run."""
    world = machine_with(*DIAMOND)
    for side in ("left", "right"):
        behave(world, **{side: Behaviour(exits=(BAD,))})
    to_the_hour(world)
    due = rows(world, "right")[0].due
    by_hand(world, "left")
    reason = f"upstream_failed: right has failed, in its run due {instant(due)}"
    assert said(world, "end")[-1] == ("skipped", reason)
    by_hand(world, "right")
    assert outcomes(world, "end") == ["skipped", "skipped", "succeeded"]


def test_one_of_two_heads(machine_with: MachineWith) -> None:
    """P1: the other head counts by its newest run; where it has none, that is said."""
    world = machine_with(*TWO)
    by_hand(world, "head")
    assert said(world, "end") == [("skipped", "upstream_unknown: other has not been run yet")]
    to_the_hour(world)
    by_hand(world, "head")
    assert outcomes(world, "end") == ["skipped", "succeeded", "succeeded"]


def test_the_newest_run_counts(machine_with: MachineWith) -> None:
    """A success of long ago does not stand for a job that has failed since, nor the other way."""
    world = machine_with(*DIAMOND)
    to_the_hour(world)
    behave(world, right=Behaviour(exits=(BAD,)))
    to_the_hour(world)
    by_hand(world, "left")
    assert outcomes(world, "end") == ["succeeded", "skipped", "skipped"]
    behave(world, right=Behaviour(exits=(OK,)))
    to_the_hour(world)
    by_hand(world, "left")
    assert outcomes(world, "end")[-2:] == ["succeeded", "succeeded"]


def test_the_newest_run_may_be_one_that_was_begun_later(machine_with: MachineWith) -> None:
    """It counts as it stands when the cycle comes to it, whichever of two was begun first."""
    world = machine_with(*DIAMOND)
    to_the_hour(world)
    behave(world, left=Behaviour(lasts=(30 * SECOND,)), right=Behaviour(exits=(BAD,)))
    ask(world, "trigger", "left")
    world.pass_time(SECOND)
    ask(world, "trigger", "right")
    world.pass_time(MINUTE)
    due = rows(world, "right")[-1].due
    reason = f"upstream_failed: right has failed, in its run due {instant(due)}"
    assert ("skipped", reason) in said(world, "end")
    assert outcomes(world, "end").count("succeeded") == 1


@pytest.mark.parametrize("step", [-10 * MINUTE, -HOUR, -5 * HOUR], ids=str)
def test_the_newest_run_where_the_clock_was_set(machine_with: MachineWith, step: timedelta) -> None:
    """What ran before the clock was set back has run, though it is due later than now."""
    world = machine_with(*DIAMOND)
    behave(world, left=Behaviour(exits=(BAD,)))
    to_the_hour(world)
    world.set_clock(step)
    world.pass_time(SECOND)
    behave(world, left=Behaviour(exits=(OK,)))
    before = len(rows(world, "end"))
    by_hand(world, "left")
    newest = max(rows(world, "end"), key=lambda run: run.id)
    assert len(rows(world, "end")) > before
    assert newest.outcome == "succeeded"


def test_what_still_runs_is_not_waited_for(machine_with: MachineWith) -> None:
    """P1: the cycle has its row at once, and the one that goes on has its own at its end."""
    world = machine_with(*DIAMOND)
    behave(world, right=Behaviour(lasts=(10 * MINUTE,)))
    to_the_hour(world)
    due = rows(world, "right")[0].due
    by_hand(world, "left")
    reason = f"upstream_unknown: right is not over yet, in its run due {instant(due)}"
    assert said(world, "end") == [("skipped", reason)]
    world.pass_time(15 * MINUTE)
    assert outcomes(world, "end") == ["succeeded", "skipped"]


@pytest.mark.parametrize("apart", [timedelta(0), timedelta(milliseconds=10), 5 * SECOND], ids=str)
@pytest.mark.parametrize("is_writable", [True, False])
def test_two_by_hand_that_end_together(
    machine_with: MachineWith, apart: timedelta, *, is_writable: bool
) -> None:
    """P1: the one that ends last finds the other one over, be that written yet or not."""
    world = machine_with(*TWO)
    behave(world, head=Behaviour(exits=(BAD,)), other=Behaviour(exits=(BAD,)))
    to_the_hour(world)
    assert outcomes(world, "end") == ["skipped"]
    behave(world, head=Behaviour(lasts=(5 * SECOND,), exits=(OK,)))
    behave(world, other=Behaviour(lasts=(4 * SECOND + apart,), exits=(OK,)))
    ask(world, "trigger", "head")
    world.pass_time(SECOND)
    ask(world, "trigger", "other")
    if not is_writable:
        world.set_trouble(LedgerError("the disk is full"))
    world.pass_time(MINUTE)
    world.set_trouble(None)
    world.pass_time(MINUTE)
    assert sorted(outcomes(world, "end")) == ["skipped", "skipped", "succeeded"]
    newest = rows(world, "head")[-1], rows(world, "other")[-1]
    first_sees = [
        f"upstream_unknown: {run.job} is not over yet, in its run due {instant(run.due)}"
        for run in newest
    ]
    (reason,) = (reason for _, reason in said(world, "end") if "not over yet" in reason)
    assert reason in first_sees


def test_what_is_part_of_the_cycle_counts_by_its_run_there(machine_with: MachineWith) -> None:
    """P1: the head is run by hand: both sides are waited for, whatever they did before."""
    world = machine_with(*DIAMOND)
    to_the_hour(world)
    behave(world, right=Behaviour(lasts=(10 * MINUTE,), exits=(BAD,)))
    by_hand(world, "head")
    assert outcomes(world, "end") == ["succeeded"]
    world.pass_time(10 * MINUTE)
    assert said(world, "end")[-1] == ("skipped", "upstream_failed: right has failed")


def test_a_disabled_job_that_is_part_of_the_cycle(machine_with: MachineWith) -> None:
    """Its runs of other cycles do not count: it should have had one in this."""
    world = machine_with(*DIAMOND)
    to_the_hour(world)
    reload(world, *(replace(job, enabled=job.name != "right") for job in DIAMOND))
    by_hand(world, "head")
    reason = "upstream_unknown: right is disabled"
    assert said(world, "end")[-1] == ("skipped", reason)


def test_a_disabled_job_that_is_no_part_of_the_cycle(machine_with: MachineWith) -> None:
    """Of what is no part of the cycle the newest run counts, also where there will be no other."""
    world = machine_with(*DIAMOND)
    to_the_hour(world)
    reload(world, *(replace(job, enabled=job.name != "right") for job in DIAMOND))
    by_hand(world, "left")
    assert outcomes(world, "end") == ["succeeded", "succeeded"]


def test_further_down(machine_with: MachineWith) -> None:
    """P1: a join below the one that the cycle reaches first counts its others the same way."""
    jobs = (*DIAMOND, after("side", "head"), after("last", "end", "side"))
    world = machine_with(*jobs)
    behave(world, left=Behaviour(exits=(BAD,)))
    to_the_hour(world)
    by_hand(world, "left")
    assert outcomes(world, "last") == ["skipped", "succeeded"]
    behave(world, left=Behaviour(exits=(BAD,)))
    ask(world, "trigger", "left")
    world.pass_time(MINUTE)
    assert said(world, "last")[-1] == ("skipped", "upstream_failed: end was skipped")


def test_a_restart_in_the_middle(machine_with: MachineWith) -> None:
    """P1, P2: the ledger tells that the cycle was begun by hand."""
    world = machine_with(*(replace(job, on_crash=OnCrash.RERUN) for job in DIAMOND))
    behave(world, left=Behaviour(exits=(BAD,)))
    to_the_hour(world)
    behave(world, left=Behaviour(lasts=(10 * MINUTE,)))
    ask(world, "trigger", "left")
    world.pass_time(MINUTE)
    world.kill_daemon(power_cut=True)
    world.boot_daemon()
    world.pass_time(15 * MINUTE)
    assert outcomes(world, "left") == ["failed", "succeeded"]
    assert outcomes(world, "end") == ["skipped", "succeeded"]


def test_a_restart_that_makes_up_for_the_other_head(machine_with: MachineWith) -> None:
    """P1: the newest run may be one that the same start has just begun: it is not over yet."""
    world = machine_with(*TWO[:-1], after("end", head="any", other="any"))
    to_the_hour(world)
    behave(world, head=Behaviour(lasts=(10 * MINUTE,)), other=Behaviour(lasts=(10 * MINUTE,)))
    ask(world, "trigger", "head")
    world.kill_daemon(power_cut=True)
    to_the_hour(world)
    world.boot_daemon()
    assert outcomes(world, "other") == ["succeeded", "running"]
    due = rows(world, "other")[-1].due
    reason = f"upstream_unknown: other is not over yet, in its run due {instant(due)}"
    assert said(world, "end") == [("succeeded", ""), ("skipped", reason)]
    world.pass_time(15 * MINUTE)
    assert outcomes(world, "end") == ["succeeded", "skipped", "succeeded"]


def test_a_cycle_that_nobody_began_by_hand(machine_with: MachineWith) -> None:
    """A run of another cycle never stands for one that should have been there."""
    head = replace(HEAD, trigger=StartupTrigger())
    jobs = (head, *DIAMOND[1:])
    world = machine_with(*jobs)
    world.pass_time(MINUTE)
    assert outcomes(world, "end") == ["succeeded"]
    world.kill_daemon()
    world.jobs["left"] = replace(world.jobs["left"], enabled=False)
    world.boot_daemon()
    world.pass_time(MINUTE)
    reason = "upstream_unknown: left is disabled"
    assert said(world, "end")[-1] == ("skipped", reason)


@pytest.mark.parametrize("who", ["head", "left", "end"])
def test_a_run_by_hand_at_the_instant_of_a_cycle(machine_with: MachineWith, who: str) -> None:
    """P1: it takes none of the identities of the runs that are to come of that cycle."""
    world = machine_with(*DIAMOND)
    now = world.clock.now()
    to_the_hour(world, 0 * SECOND)
    assert world.clock.now() - now <= HOUR
    ask(world, "trigger", who)
    world.pass_time(MINUTE)
    for job in DIAMOND:
        scheduled = [run for run in rows(world, job.name) if run.due == world_hour(world)]
        assert [run.cause is not Cause.MANUAL for run in scheduled] == [True], job.name


def world_hour(world: World) -> datetime:
    """Return the full hour before now."""
    return world.clock.now().replace(minute=0, second=0, microsecond=0)


@pytest.mark.parametrize("restarts", [False, True])
def test_in_the_middle_of_a_stretch_that_was_skipped(
    machine_with: MachineWith, *, restarts: bool
) -> None:
    """P1: at an instant that is no cycle's of that stretch, where the clock was ahead of its time.

    It was so at the boot (a clock that keeps local time), and is set right by now.
    """
    world = machine_with(*DIAMOND)
    world.machine.tells_exits = True
    to_the_hour(world, MINUTE)
    world.kill_daemon()
    world.pass_time(3 * HOUR)
    world.set_clock(2 * HOUR)
    world.boot_daemon()
    world.pass_time(MINUTE)
    world.set_clock(-2 * HOUR)
    world.pass_time(MINUTE)
    behave(world, right=Behaviour(lasts=(10 * MINUTE,)))
    ask(world, "trigger", "head")
    world.pass_time(MINUTE)
    if restarts:
        world.kill_daemon()
        world.boot_daemon()
    world.pass_time(10 * MINUTE)
    (due,) = (run.due for run in rows(world, "head") if run.cause is Cause.MANUAL)
    stretch = next(run for run in rows(world, "end") if run.last_due is not None)
    assert stretch.last_due is not None
    assert stretch.due < due < stretch.last_due  # else this test shows nothing
    assert [str(run.outcome) for run in rows(world, "end") if run.due == due] == ["succeeded"]
