"""Jobs that are due after others: each cycle, whatever happens in the middle of it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import NoReturn

import pytest

from crond_py.crontab.model import AfterTrigger, AtTrigger, CronTrigger, Job, Pool, StartupTrigger
from crond_py.engine.events import Call
from crond_py.errors import LedgerError
from crond_py.model import Cause, Condition, Exit, Missed, OnCrash, Outcome, Overlap, Retry, Run
from crond_py.policy import Occurrences
from tests.simulation.fakes import Behaviour
from tests.simulation.jobs import BEGIN
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, outcomes, reload, rows
from tests.unit.engine.counting import steps

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
HEAD = Job("head", CronTrigger(("0 * * * *",)), "true", timezone="UTC")
OK = Exit(code=0)
BAD = Exit(code=3)


def after(name: str, *upstreams: str, **conditions: str) -> Job:
    """Return a job that follows others; what is only named is to succeed."""
    asked = {**dict.fromkeys(upstreams, "success"), **conditions}
    return Job(name, AfterTrigger({job: Condition(word) for job, word in asked.items()}), "true")


def to_the_hour(world: World, more: timedelta = 5 * SECOND) -> None:
    """Let time pass until a little after the next full hour."""
    now = world.clock.now()
    past = timedelta(minutes=now.minute, seconds=now.second, microseconds=now.microsecond)
    world.pass_time(HOUR - past + more)


def behave(world: World, **jobs: Behaviour) -> None:
    """Have the processes of some jobs behave in a way of their own."""
    world.machine.behaviours.update(jobs)


def ask(world: World, what: str, name: str) -> None:
    """Cancel or trigger a job."""
    assert world.daemon is not None
    core = world.daemon.core
    if what == "cancel":
        core.handle([Call(lambda: core.cancel_job(name))])
    else:
        core.handle([Call(lambda: core.trigger(name, is_forced=False, then=lambda _run: None))])


def test_one_follows_the_other(machine_with: MachineWith) -> None:
    """P1: the run that follows carries the due instant of the cycle, and starts at the end."""
    world = machine_with(HEAD, after("next", "head"), lasts=2 * SECOND)
    to_the_hour(world)
    (first,), (second,) = rows(world, "head"), rows(world, "next")
    assert second.due == first.due
    assert second.cause is Cause.UPSTREAM
    assert first.finished_at == second.claimed_at
    assert outcomes(world, "next") == ["succeeded"]


@pytest.mark.parametrize(
    ("condition", "exit_", "expected"),
    [
        ("success", OK, "succeeded"),
        ("success", BAD, "skipped"),
        ("failure", OK, "skipped"),
        ("failure", BAD, "succeeded"),
        ("any", OK, "succeeded"),
        ("any", BAD, "succeeded"),
    ],
)
def test_conditions(machine_with: MachineWith, condition: str, exit_: Exit, expected: str) -> None:
    """Each condition is met by what it says, and else the run is skipped with its reason."""
    world = machine_with(HEAD, after("next", head=condition))
    behave(world, head=Behaviour(exits=(exit_,)))
    to_the_hour(world)
    (run,) = rows(world, "next")
    assert str(run.outcome) == expected
    reasons = {"success": "upstream_failed: head has failed"}
    reasons["failure"] = "upstream_not_failed: head has succeeded"
    assert run.reason == (reasons[condition] if expected == "skipped" else "")


def test_a_failure_goes_down_the_chain(machine_with: MachineWith) -> None:
    """P1: each job further down has its row, which names the job before it."""
    world = machine_with(HEAD, after("b", "head"), after("c", "b"), after("d", c="any"))
    behave(world, head=Behaviour(exits=(BAD,)))
    to_the_hour(world)
    assert [run.reason for run in rows(world, "b")] == ["upstream_failed: head has failed"]
    assert [run.reason for run in rows(world, "c")] == ["upstream_failed: b was skipped"]
    assert outcomes(world, "d") == ["succeeded"]


def test_what_follows_an_alarm_that_is_not_given(
    machine_with: MachineWith, caplog: pytest.LogCaptureFixture
) -> None:
    """A night in which nothing fails has no warning, and no reason says that something failed."""
    caplog.set_level(logging.INFO, "pycron")
    alarm, siren = after("alarm", head="failure"), after("siren", "alarm")
    jobs = (HEAD, alarm, siren, after("page", "siren", "alarm"), after("calm", page="any"))
    world = machine_with(*jobs)
    to_the_hour(world)
    reasons = [run.reason for job in ("alarm", "siren", "page") for run in rows(world, job)]
    assert reasons[:2] == [
        "upstream_not_failed: head has succeeded",
        "upstream_not_failed: alarm was skipped",
    ]
    assert reasons[2] in {f"upstream_not_failed: {job} was skipped" for job in ("alarm", "siren")}
    assert outcomes(world, "calm") == ["succeeded"]
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


def test_what_follows_an_alarm_that_was_given_in_vain(
    machine_with: MachineWith, caplog: pytest.LogCaptureFixture
) -> None:
    """What something that failed stands in the way of says so, though it follows an alarm."""
    alarm, siren = after("alarm", head="failure"), after("siren", "alarm")
    world = machine_with(HEAD, alarm, siren)
    behave(world, head=Behaviour(exits=(BAD,)), alarm=Behaviour(exits=(BAD,)))
    to_the_hour(world)
    assert [run.reason for run in rows(world, "siren")] == ["upstream_failed: alarm has failed"]
    assert "run skipped" in [each.message for each in caplog.records if each.levelno > logging.INFO]


def test_an_alarm_that_is_not_given_is_known_from_the_ledger(machine_with: MachineWith) -> None:
    """So it is told after a restart of what joins it with another."""
    side = replace(HEAD, name="side")
    page = after("page", alarm="any", side="success")
    world = machine_with(HEAD, side, after("alarm", head="failure"), page)
    world.machine.tells_exits = True
    behave(world, side=Behaviour(lasts=(10 * MINUTE,)))
    to_the_hour(world, MINUTE)
    world.kill_daemon()
    world.jobs["page"] = after("page", "alarm", side="any")
    world.boot_daemon()
    world.pass_time(15 * MINUTE)
    (row,) = rows(world, "page")
    assert row.reason == "upstream_not_failed: alarm was skipped"


DIAMOND = (HEAD, after("left", "head"), after("right", "head"), after("end", "left", "right"))


def test_a_diamond(machine_with: MachineWith) -> None:
    """P2: a job that joins two others runs once, when the later one has ended."""
    world = machine_with(*DIAMOND)
    behave(world, right=Behaviour(lasts=(3 * MINUTE,)))
    to_the_hour(world, MINUTE)
    assert outcomes(world, "left") == ["succeeded"]
    assert rows(world, "end") == []
    world.pass_time(3 * MINUTE)
    assert outcomes(world, "end") == ["succeeded"]
    to_the_hour(world, 10 * MINUTE)
    assert outcomes(world, "end") == ["succeeded", "succeeded"]


def test_both_ends_at_one_instant(machine_with: MachineWith) -> None:
    """P2: two that end in one batch make one run of the job that waits for both."""
    world = machine_with(*DIAMOND, lasts=7 * SECOND)
    to_the_hour(world, MINUTE)
    assert outcomes(world, "end") == ["succeeded"]


@pytest.mark.parametrize("who", ["left", "right"])
def test_one_side_fails(machine_with: MachineWith, who: str) -> None:
    """P1: one outcome for the job that joins, whichever side fails and whichever is first."""
    world = machine_with(*DIAMOND)
    for side, lasts in (("left", SECOND), ("right", MINUTE)):
        exits = (BAD if side == who else OK,)
        behave(world, **{side: Behaviour(lasts=(lasts,), exits=exits)})
    to_the_hour(world, 5 * MINUTE)
    (run,) = rows(world, "end")
    assert (str(run.outcome), run.reason) == ("skipped", f"upstream_failed: {who} has failed")


def test_a_retry_is_waited_for(machine_with: MachineWith) -> None:
    """The outcome counts, and not that of the first attempt."""
    head = replace(HEAD, retry=Retry(attempts=2, delay=5 * MINUTE))
    world = machine_with(head, after("next", "head"))
    behave(world, head=Behaviour(exits=(BAD,)))
    to_the_hour(world)
    assert rows(world, "next") == []
    behave(world, head=Behaviour(exits=(OK,)))
    world.pass_time(6 * MINUTE)
    assert outcomes(world, "head") == outcomes(world, "next") == ["succeeded"]


def test_a_join_remembers_across_a_restart(machine_with: MachineWith) -> None:
    """P1: one side had its outcome before the restart, the other has it after."""
    world = machine_with(*(replace(job, on_crash=OnCrash.RERUN) for job in DIAMOND))
    behave(world, right=Behaviour(lasts=(10 * MINUTE,)))
    to_the_hour(world, 5 * MINUTE)
    assert outcomes(world, "left") == ["succeeded"]
    world.kill_daemon()
    world.machine.reboot()
    world.boot_daemon()
    world.pass_time(15 * MINUTE)
    assert outcomes(world, "right") == outcomes(world, "end") == ["succeeded"]


@pytest.mark.parametrize("upstream", ["left", "other"])
def test_what_was_skipped_before_a_restart_is_not_waited_for(
    machine_with: MachineWith, upstream: str
) -> None:
    """P1: that there is still a run above it does not mean that it has one to come."""
    side, other = replace(HEAD, name="side"), replace(HEAD, name="other")
    right, end = after("right", "left", "side"), after("end", upstream, right="any")
    world = machine_with(HEAD, side, other, after("left", "head"), right, end)
    world.machine.tells_exits = True
    behave(
        world,
        side=Behaviour(exits=(BAD,)),
        left=Behaviour(lasts=(3 * MINUTE,)),
        other=Behaviour(lasts=(2 * MINUTE,)),
    )
    to_the_hour(world, MINUTE)
    assert outcomes(world, "right") == ["skipped"]
    assert outcomes(world, "left") == ["running"]
    world.kill_daemon()
    world.boot_daemon()
    world.pass_time(5 * MINUTE)
    assert outcomes(world, "end") == ["succeeded"]
    assert outcomes(world, "right") == ["skipped"]


def test_what_was_missed_has_no_followers(machine_with: MachineWith) -> None:
    """P1: a stretch that the head has missed is a stretch of what follows, as skipped."""
    head = replace(HEAD, missed=Missed.SKIP)
    world = machine_with(head, after("next", "head"))
    to_the_hour(world)
    world.kill_daemon()
    world.pass_time(5 * HOUR)
    world.boot_daemon()
    world.pass_time(SECOND)
    missed, skipped = rows(world, "head")[-1], rows(world, "next")[-1]
    assert str(missed.outcome) == "missed"
    assert str(skipped.outcome) == "skipped"
    assert (skipped.due, skipped.last_due, skipped.count) == (
        missed.due,
        missed.last_due,
        missed.count,
    )


def test_of_two_stretches_the_longer_one_is_accounted_for_to_its_end(
    machine_with: MachineWith,
) -> None:
    """P1: where one of two jobs missed one run more than the other, that cycle has its row, too."""
    one_less = replace(HEAD, name="less", missed=Missed.ONCE)
    all_of_them = replace(HEAD, name="more", missed=Missed.SKIP)
    world = machine_with(one_less, all_of_them, after("next", "less", "more"))
    to_the_hour(world)
    world.kill_daemon()
    world.pass_time(5 * HOUR)
    world.boot_daemon()
    world.pass_time(MINUTE)
    missed = rows(world, "more")[-1]
    skipped = [run for run in rows(world, "next") if str(run.outcome) == "skipped"]
    assert sum(run.count for run in skipped) == missed.count
    assert (skipped[0].due, skipped[-1].last_due or skipped[-1].due) == (
        missed.due,
        missed.last_due,
    )


def test_caught_up_cycles_are_followed(machine_with: MachineWith) -> None:
    """P1: each run that is made up has its own followers."""
    head = replace(HEAD, missed=Missed.ALL)
    follower = replace(after("next", "head"), overlap=Overlap.QUEUE)
    world = machine_with(head, follower)
    to_the_hour(world)
    world.kill_daemon()
    world.pass_time(3 * HOUR)
    world.boot_daemon()
    world.pass_time(MINUTE)
    assert [run.due for run in rows(world, "next")] == [run.due for run in rows(world, "head")]
    assert set(outcomes(world, "next")) == {"succeeded"}


def test_a_manual_run_is_followed(machine_with: MachineWith) -> None:
    """A head that is run by hand begins a cycle of its own."""
    world = machine_with(HEAD, after("next", "head"))
    ask(world, "trigger", "head")
    world.pass_time(5 * SECOND)
    assert outcomes(world, "next") == ["succeeded"]
    assert rows(world, "next")[0].due == rows(world, "head")[0].due


def test_a_follower_can_be_run_by_hand(machine_with: MachineWith) -> None:
    """It runs at once, whatever it waits for."""
    world = machine_with(HEAD, after("next", "head"))
    ask(world, "trigger", "next")
    world.pass_time(5 * SECOND)
    assert outcomes(world, "next") == ["succeeded"]
    assert rows(world, "head") == []


def test_a_disabled_follower_has_no_rows(machine_with: MachineWith) -> None:
    """Only occurrences of enabled jobs are accounted for."""
    world = machine_with(HEAD, replace(after("next", "head"), enabled=False))
    to_the_hour(world)
    assert rows(world, "next") == []


def test_a_head_ends_while_the_daemon_stops(machine_with: MachineWith) -> None:
    """P1: what follows a run that a stopping daemon waits for is claimed, and runs later."""
    world = machine_with(HEAD, after("next", "head"), lasts=MINUTE)
    to_the_hour(world)
    assert world.daemon is not None
    core = world.daemon.core
    stopped: list[bool] = []
    core.handle([Call(lambda: core.stop(None, lambda: stopped.append(True)))])
    world.pass_time(2 * MINUTE)
    assert stopped == [True]
    assert outcomes(world, "next") == ["queued"]
    world.kill_daemon()
    world.boot_daemon()
    world.pass_time(2 * MINUTE)
    assert outcomes(world, "next") == ["succeeded"]


def test_what_follows_starts_no_sooner_than_its_cycle(machine_with: MachineWith) -> None:
    """P4: a head that was claimed ahead and is lost by a crash has its outcome too early."""
    world = machine_with(HEAD, after("next", head="any"))
    to_the_hour(world, -timedelta(milliseconds=8))
    due = world.clock.now() + timedelta(milliseconds=8)
    world.kill_daemon()
    world.boot_daemon()
    assert outcomes(world, "head") == ["lost"]
    world.pass_time(SECOND)
    assert [tree.started_at for tree in world.machine.trees] == [due]


def test_what_follows_and_is_recalled_is_not_missed(machine_with: MachineWith) -> None:
    """P1: whatever its policy on what is missed, it is due when what it follows has ended."""
    follower = replace(after("next", head="any"), missed=Missed.SKIP)
    world = machine_with(HEAD, follower)
    to_the_hour(world, -timedelta(milliseconds=8))
    world.kill_daemon()
    world.boot_daemon()
    assert outcomes(world, "next") == ["running"]
    world.stop(None)
    assert outcomes(world, "next") == ["queued"]
    world.pass_time(MINUTE)
    world.boot_daemon()
    world.pass_time(MINUTE)
    assert outcomes(world, "next") == ["succeeded"]


def test_start_within_counts_from_when_it_could_start(machine_with: MachineWith) -> None:
    """A long head does not make what follows too late."""
    follower = replace(after("next", "head"), start_within=MINUTE)
    world = machine_with(HEAD, follower, lasts=20 * MINUTE)
    to_the_hour(world, 21 * MINUTE)
    assert outcomes(world, "next") == ["running"]


def test_a_pool_of_one(machine_with: MachineWith) -> None:
    """P4: a follower in the pool of its head gets the slot that this gives back."""
    jobs = [replace(job, pool="one") for job in (HEAD, after("next", "head"))]
    world = machine_with(*jobs)
    reload(world, *jobs, pools=(Pool("default"), Pool("one", 1)))
    to_the_hour(world)
    assert outcomes(world, "next") == ["succeeded"]
    assert world.daemon is not None
    assert {pool.running for pool in world.daemon.core.status().pools} == {0}


def dues(runs: list[Run]) -> list[str]:
    """Return the due instants of runs."""
    return [run.due.isoformat() for run in runs]


def test_a_new_time_has_cycles_of_its_own(machine_with: MachineWith) -> None:
    """P1: after a clock set far back, readings that come again are new cycles for the chain."""
    world = machine_with(*DIAMOND)
    to_the_hour(world)
    world.clock.jump(-5 * HOUR)
    world.pass_time(6 * HOUR)
    heads, ends = rows(world, "head"), rows(world, "end")
    assert sorted(dues(heads)) == sorted(dues(ends))
    assert set(outcomes(world, "end")) == {"succeeded"}
    assert {run.era for run in ends} == {0, 1}


TWO = (HEAD, replace(HEAD, name="other"), after("end", "head", "other"))


def test_two_heads_of_one_schedule(machine_with: MachineWith) -> None:
    """P1, P2: the join runs once a cycle, whichever head ends first."""
    world = machine_with(*TWO)
    behave(world, other=Behaviour(lasts=(3 * MINUTE,)))
    to_the_hour(world, 10 * MINUTE)
    behave(world, other=Behaviour(), head=Behaviour(lasts=(3 * MINUTE,)))
    to_the_hour(world, 10 * MINUTE)
    assert outcomes(world, "end") == ["succeeded", "succeeded"]


def test_a_cycle_waits_for_no_time_that_comes_again(machine_with: MachineWith) -> None:
    """P1: set back, the clock is to bring a head's instant again, which is of another cycle."""
    world = machine_with(*BOTH, JOINS_BOTH)
    world.machine.tells_exits = True
    behave(world, other=Behaviour(lasts=(20 * MINUTE,)))
    to_the_hour(world, MINUTE)
    world.kill_daemon()
    world.boot_daemon()  # which has not seen how the first head ended
    world.set_clock(-8 * HOUR)
    world.pass_time(25 * MINUTE)
    assert outcomes(world, "other") == outcomes(world, "end") == ["succeeded"]
    world.set_clock(8 * HOUR)
    world.pass_time(MINUTE)
    assert outcomes(world, "end") == ["succeeded"]


def test_heads_may_have_eras_of_their_own(machine_with: MachineWith) -> None:
    """P1: a head that was added between has another count of new times; the join goes on."""
    world = machine_with(HEAD)
    world.pass_time(12 * HOUR)
    reload(world, *TWO)
    world.pass_time(MINUTE)
    world.set_clock(-4 * HOUR)
    behave(world, other=Behaviour(lasts=(2 * MINUTE,)))
    world.pass_time(6 * HOUR)
    eras = [{run.era for run in rows(world, name)} for name in ("head", "other")]
    assert eras[0] != eras[1]  # else this test shows nothing
    assert outcomes(world, "end").count("succeeded") >= 5


def test_an_open_join_above_may_have_another_era(machine_with: MachineWith) -> None:
    """P1: it is what a join below waits for, also if that has heard of another head first."""
    up = after("up", left="any", right="any")
    world = machine_with(HEAD, after("left", "head"), after("right", "head"), up)
    to_the_hour(world, MINUTE)
    world.set_clock(-4 * HOUR)
    other, side = replace(HEAD, name="other"), after("side", "other")
    known = (HEAD, after("left", "head"), after("right", "head"), up)
    reload(world, *known, other, side, after("end", up="any", side="any"))
    behave(world, other=Behaviour(lasts=(5 * SECOND,)))
    behave(world, right=Behaviour(lasts=(10 * MINUTE,)), side=Behaviour(lasts=(10 * MINUTE,)))
    to_the_hour(world, MINUTE)
    world.kill_daemon()
    world.pass_time(15 * MINUTE)
    world.boot_daemon()
    world.pass_time(5 * MINUTE)
    eras = [max(run.era for run in rows(world, name)) for name in ("up", "side")]
    assert eras[0] > eras[1]  # else this test shows nothing
    assert outcomes(world, "end") == ["succeeded"]


@pytest.mark.parametrize("restarts", [False, True])
def test_an_upstream_that_was_forgotten(machine_with: MachineWith, *, restarts: bool) -> None:
    """P1: where the row that a cycle waits for was pruned, the cycle still gets its own row."""
    head = replace(HEAD, trigger=CronTrigger(("* * * * *",)), keep_runs=10)
    slow = replace(after("slow", "head"), overlap=Overlap.SKIP)
    world = machine_with(head, slow, after("end", "head", "slow"))
    behave(world, slow=Behaviour(lasts=(3 * HOUR,)))
    world.pass_time(2 * MINUTE)
    first = rows(world, "slow")[0].due
    world.pass_time(2 * HOUR + 30 * MINUTE)
    if restarts:
        world.kill_daemon()
        world.boot_daemon()
    world.pass_time(HOUR)
    assert len(rows(world, "head")) < 100  # else nothing was forgotten
    (run,) = [run for run in rows(world, "end") if run.due == first]
    assert run.outcome is not None
    if not restarts:
        assert str(run.outcome) == "succeeded"


def test_more_cycles_are_open_than_are_remembered(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: what memory has forgotten of a cycle is looked up in the ledger."""
    monkeypatch.setattr("crond_py.engine.cycles.REMEMBERED", 5)
    head = replace(HEAD, trigger=CronTrigger(("* * * * *",)), keep_runs=None, keep_for=None)
    slow = replace(after("slow", "head"), overlap=Overlap.ALLOW)
    end = replace(after("end", "head", "slow"), overlap=Overlap.ALLOW)
    world = machine_with(head, slow, end)
    behave(world, slow=Behaviour(lasts=(30 * MINUTE,)))
    world.pass_time(HOUR)
    ended = [run.due for run in rows(world, "slow") if run.outcome is not None]
    assert len(ended) > 20
    assert {run.due for run in rows(world, "end") if str(run.outcome) == "succeeded"} >= set(
        ended[:-1]
    )


def test_a_disabled_upstream_is_told(machine_with: MachineWith) -> None:
    """P1: a join that waits for a job that is never due is skipped, and says for which."""
    left = replace(after("left", "head"), enabled=False)
    world = machine_with(HEAD, left, after("right", "head"), after("end", "left", "right"))
    to_the_hour(world)
    (run,) = rows(world, "end")
    assert run.reason == "upstream_unknown: left is disabled"


JOIN = (HEAD, after("left", "head"), after("right", "head"), after("end", "left", "right"))


def _waiting_for_left(machine_with: MachineWith) -> World:
    """Return a world in which the right side of a join has ended, and its head's run is over."""
    world = machine_with(*JOIN)
    behave(world, left=Behaviour(lasts=(20 * MINUTE,)))
    to_the_hour(world, MINUTE)
    assert (outcomes(world, "right"), outcomes(world, "left")) == (["succeeded"], ["running"])
    assert rows(world, "end") == []
    return world


def test_an_upstream_that_does_not_come_any_more(machine_with: MachineWith) -> None:
    """P1: a reload that lets one of those not come that are waited for ends the cycle."""
    other = replace(HEAD, name="other")
    world = machine_with(HEAD, other, after("next", "other"), after("end", "head", "next"))
    behave(world, other=Behaviour(lasts=(20 * MINUTE,)))
    to_the_hour(world, MINUTE)
    assert rows(world, "end") == []
    disabled = replace(after("next", "other"), enabled=False)
    reload(world, HEAD, other, disabled, after("end", "head", "next"))
    world.pass_time(SECOND)
    (run,) = rows(world, "end")
    assert run.reason == "upstream_unknown: next is disabled"


def test_an_upstream_whose_schedule_cannot_be_followed_any_more(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: what its fault takes from the agenda is not waited for."""
    head = replace(HEAD, missed=Missed.SKIP)
    second = replace(head, name="other", trigger=CronTrigger(("0 0-23 * * *",)))
    world = machine_with(head, second, after("end", head="any", other="any"))
    assert world.daemon is not None
    other = world.daemon.core._register.states["other"]
    assert other.schedule is not None
    monkeypatch.setattr(type(other.schedule), "count", _raising_for(other.schedule))
    world.freeze(HOUR + MINUTE)
    world.pass_time(SECOND)
    assert (outcomes(world, "head"), outcomes(world, "other")) == (["missed"], [])
    (run,) = rows(world, "end")
    assert run.reason == "upstream_unknown: other is disabled"


def _raising_for(broken: Occurrences) -> Callable[[Occurrences, datetime, datetime], int]:
    count = type(broken).count

    def count_or_raise(schedule: Occurrences, after: datetime, until: datetime) -> int:
        if schedule is broken:
            raise ArithmeticError("it cannot be counted")
        return count(schedule, after, until)

    return count_or_raise


def test_a_disabled_upstream_that_still_runs_is_waited_for(machine_with: MachineWith) -> None:
    """P1: a run that was begun before the reload has its outcome, and that counts."""
    world = _waiting_for_left(machine_with)
    reload(world, *(replace(job, enabled=job.name != "left") for job in JOIN))
    world.pass_time(20 * MINUTE)
    assert outcomes(world, "end") == ["succeeded"]


def test_a_join_that_is_disabled_and_enabled_again(machine_with: MachineWith) -> None:
    """What it was waiting for before is no occurrence of it any more."""
    world = _waiting_for_left(machine_with)
    reload(world, *(replace(job, enabled=job.name != "end") for job in JOIN))
    world.pass_time(20 * MINUTE)
    reload(world, *JOIN)
    world.pass_time(10 * MINUTE)
    assert rows(world, "end") == []
    to_the_hour(world, 30 * MINUTE)
    assert outcomes(world, "end") == ["succeeded"]


@pytest.mark.parametrize("how", ["at a reload", "at a start"])
def test_a_cycle_of_which_nothing_more_comes_after_a_restart(
    machine_with: MachineWith, how: str
) -> None:
    """P1: a job is skipped that had heard of a part of its cycle, before the restart."""
    jobs = [HEAD, after("slow", "head"), after("right", "slow"), after("end", "head", "right")]
    without = [replace(job, enabled=job.name != "right") for job in jobs]
    world = machine_with(*jobs)
    behave(world, slow=Behaviour(lasts=(10 * MINUTE,)))
    to_the_hour(world, MINUTE)
    world.kill_daemon()
    if how == "at a start":
        world.jobs = {job.name: job for job in without}
    world.boot_daemon()
    world.pass_time(MINUTE)
    if how == "at a reload":
        reload(world, *without)
    world.pass_time(20 * MINUTE)
    (row,) = rows(world, "end")
    assert (row.outcome, row.due) == (Outcome.SKIPPED, rows(world, "head")[0].due)
    assert row.reason == "upstream_unknown: right is disabled"


def test_the_reason_names_what_is_disabled_farther_up(machine_with: MachineWith) -> None:
    """P1: one that is enabled, and follows a disabled job, is no riddle."""
    off = replace(after("off", "head"), enabled=False)
    world = machine_with(HEAD, off, after("middle", "off"), after("end", "head", "middle"))
    to_the_hour(world, MINUTE)
    (row,) = rows(world, "end")
    assert (row.outcome, row.reason) == (Outcome.SKIPPED, "upstream_unknown: off is disabled")


def test_a_late_cycle_does_not_replace_a_newer_one(machine_with: MachineWith) -> None:
    """P5: what came before it was due later, and goes on; the older one is skipped."""
    twice = CronTrigger(("0,10 23 * * *",))
    head = replace(HEAD, trigger=twice, overlap=Overlap.ALLOW, retry=Retry(2, 12 * MINUTE, 1.0))
    world = machine_with(head, replace(after("end", "head"), overlap=Overlap.REPLACE))
    behave(world, head=Behaviour(exits=(BAD,)), end=Behaviour(lasts=(9 * MINUTE,)))
    to_the_hour(world, MINUTE)
    behave(world, head=Behaviour(exits=(OK,)))
    world.pass_time(20 * MINUTE)
    older, newer = rows(world, "end")
    assert (older.due.minute, older.outcome) == (0, Outcome.SKIPPED)
    assert older.reason.startswith("overlap: ")
    assert (newer.due.minute, newer.outcome) == (10, Outcome.SUCCEEDED)


def test_a_ledger_that_cannot_be_read_for_a_while(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1, P8: what is to be looked up is looked up once that can be done."""
    world = _waiting_for_left(machine_with)
    world.machine.tells_exits = True
    world.kill_daemon()
    fail = LedgerError("the disk has gone")
    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "runs", lambda _query: (_ for _ in ()).throw(fail))
        world.boot_daemon()
        world.pass_time(25 * MINUTE)
        assert outcomes_of_end(world) == []
    world.pass_time(2 * SECOND)
    assert outcomes(world, "end") == ["succeeded"]


def test_a_ledger_that_cannot_be_read_is_not_asked_for_each_cycle(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: of many open cycles it is asked once a second, since that may take it long."""
    slow = replace(after("slow", "head"), overlap=Overlap.ALLOW)
    end = replace(after("end", "head", "slow"), overlap=Overlap.ALLOW)
    world = machine_with(replace(HEAD, trigger=CronTrigger(("* * * * *",))), slow, end)
    behave(world, slow=Behaviour(lasts=(30 * MINUTE,)))
    world.machine.tells_exits = True
    world.pass_time(25 * MINUTE)
    world.kill_daemon()
    asked = []

    def runs(query: object) -> None:
        asked.append(query)
        raise LedgerError("the disk has gone")

    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "runs", runs)
        world.boot_daemon()  # which knows nothing of the heads of these cycles
        world.pass_time(25 * MINUTE)
        asked.clear()
        world.pass_time(10 * SECOND)
        assert 5 < len(asked) < 15
    world.pass_time(5 * SECOND)
    assert outcomes(world, "end")[:15] == ["succeeded"] * 15


# --- joins, and a start of the daemon -------------------------------------------------------------


BOTH = (HEAD, replace(HEAD, name="other"))
JOINS_BOTH = after("end", head="any", other="any")


@pytest.mark.parametrize("condition", ["any", "failure"])
@pytest.mark.parametrize("is_diamond", [False, True])
def test_what_joins_two_that_a_crash_has_cut_short(
    machine_with: MachineWith, condition: str, *, is_diamond: bool
) -> None:
    """P1: a restart tells of one after the other, and knows of both when it looks what follows."""
    sides = ("left", "right") if is_diamond else ("head", "other")
    above = (HEAD, after("left", "head"), after("right", "head")) if is_diamond else BOTH
    world = machine_with(*above, after("end", **dict.fromkeys(sides, condition)))
    for side in sides:
        behave(world, **{side: Behaviour(lasts=(10 * MINUTE,))})
    to_the_hour(world, MINUTE)
    world.kill_daemon(power_cut=True)
    world.boot_daemon()
    world.pass_time(MINUTE)
    assert [outcomes(world, side) for side in sides] == [["lost"], ["lost"]]
    assert outcomes(world, "end") == ["succeeded"]


def test_what_joins_two_that_are_due_at_the_start(machine_with: MachineWith) -> None:
    """P1: one may have its outcome before the other has its row, and is not alone for that."""
    first = Job("first", StartupTrigger(), "true", timezone="UTC", overlap=Overlap.SKIP)
    second = replace(first, name="second", overlap=Overlap.ALLOW)
    world = machine_with(first, second, after("end", first="any", second="any"))
    behave(world, first=Behaviour(lasts=(10 * MINUTE,)))
    for _ in range(2):
        world.pass_time(MINUTE)
        world.kill_daemon()
        world.boot_daemon()
    world.pass_time(MINUTE)
    assert outcomes(world, "first") == ["succeeded", "running", "skipped"]
    last = rows(world, "end")[-1]
    assert (str(last.outcome), last.due) == ("succeeded", rows(world, "second")[-1].due)


@pytest.mark.parametrize("policies", [("skip", "skip"), ("skip", "once"), ("once", "skip")])
def test_what_joins_two_that_were_missed(
    machine_with: MachineWith, policies: tuple[str, str]
) -> None:
    """P1: what becomes of each of them at the start is known before it is seen what follows."""
    jobs = [replace(job, missed=Missed(word)) for job, word in zip(BOTH, policies, strict=True)]
    world = machine_with(*jobs, JOINS_BOTH)
    to_the_hour(world, -10 * MINUTE)
    world.kill_daemon()
    world.pass_time(20 * MINUTE)
    world.boot_daemon()
    world.pass_time(MINUTE)
    became = {"skip": ["missed"], "once": ["succeeded"]}
    assert [outcomes(world, job.name) for job in jobs] == [became[word] for word in policies]
    assert outcomes(world, "end") == ["succeeded"]


@pytest.mark.parametrize("policies", [("skip", "skip"), ("skip", "once"), ("once", "skip")])
def test_what_joins_two_that_were_recalled(
    machine_with: MachineWith, policies: tuple[str, str]
) -> None:
    """P1: so it is of those that were claimed ahead, and not started since pycron was stopped."""
    jobs = [replace(job, missed=Missed(word)) for job, word in zip(BOTH, policies, strict=True)]
    world = machine_with(*jobs, JOINS_BOTH)
    to_the_hour(world, -timedelta(milliseconds=5))
    world.stop(None)
    assert [outcomes(world, job.name) for job in jobs] == [["queued"], ["queued"]]
    world.pass_time(MINUTE)
    world.boot_daemon()
    world.pass_time(MINUTE)
    became = {"skip": ["missed"], "once": ["succeeded"]}
    assert [outcomes(world, job.name) for job in jobs] == [became[word] for word in policies]
    assert outcomes(world, "end") == ["succeeded"]


def outcomes_of_end(world: World) -> list[Run]:
    """Return the rows of the join, also where nobody can ask for them."""
    return [run for run in world.ledger._content.runs.values() if run.job == "end"]


def test_nothing_grows(machine_with: MachineWith) -> None:
    """A cycle is forgotten when all of it has its outcome."""
    world = machine_with(*(replace(job, keep_runs=20) for job in DIAMOND))
    for _ in range(30):
        to_the_hour(world)
    assert world.daemon is not None
    joins = world.daemon.core._chains._joins
    assert [len(join.cycles) for join in joins.values()] == [0]


# --- what it costs --------------------------------------------------------------------------------


def fan(width: int) -> tuple[Job, ...]:
    """Return jobs that follow one, and one that waits for all of them."""
    middle = [after(f"m{number}", "head") for number in range(width)]
    return HEAD, *middle, after("end", *(job.name for job in middle))


def layers(width: int) -> tuple[Job, ...]:
    """Return layers of jobs, each of which waits for all of the layer above; and the last for all.

    With each layer twice as wide there are four times as many words of who waits for whom.
    """
    jobs, above = [HEAD], ["head"]
    for layer in "abc":
        jobs += [after(f"{layer}{number}", *above) for number in range(width)]
        above = [f"{layer}{number}" for number in range(width)]
    return *jobs, after("end", *(job.name for job in jobs))


@pytest.mark.parametrize(("shape", "width", "growth"), [(fan, 60, 2), (layers, 8, 4)])
def test_a_cycle_costs_as_much_as_there_is_to_wait_for(
    machine_with: MachineWith, shape: Callable[[int], tuple[Job, ...]], width: int, growth: int
) -> None:
    """P4: the outcomes that a job waits for are counted, and not gone through with each of them."""
    costs = []
    for many in (width, 2 * width):
        world = machine_with(*shape(many))
        costs.append(steps(partial(to_the_hour, world, 20 * SECOND)))
        assert outcomes(world, "end") == ["succeeded"]
    assert costs[1] < 1.3 * growth * costs[0]


def test_a_cycle_that_cannot_be_looked_up_is_left_until_it_can(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: not with each outcome that comes meanwhile is the ledger asked in vain."""
    world = machine_with(*fan(30))
    world.machine.tells_exits = True
    for number in range(30):
        behave(world, **{f"m{number}": Behaviour(lasts=(10 * SECOND if number else SECOND,))})
    to_the_hour(world)
    assert outcomes(world, "m0") == ["succeeded"]
    world.kill_daemon()
    world.boot_daemon()  # which does not know of the first one
    asked = []

    def runs(query: object) -> None:
        asked.append(query)
        raise LedgerError("the disk has gone")

    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "runs", runs)
        world.pass_time(10 * SECOND)
        assert 0 < len(asked) < 10
    world.pass_time(5 * SECOND)
    assert outcomes(world, "end") == ["succeeded"]


@pytest.mark.parametrize(
    ("upstreams", "outcome", "reason"),
    [
        (("short",), "succeeded", ""),
        (("short", "follower"), "succeeded", ""),
        (("short", "renamed"), "skipped", "upstream_unknown: nobody knows what became of renamed"),
        (("follower",), "succeeded", ""),
        (("later",), "skipped", "upstream_unknown: it does not follow any more what it waited"),
    ],
    ids=lambda each: "-".join(each) if isinstance(each, tuple) else "",
)
def test_a_reload_changes_what_is_waited_for(
    machine_with: MachineWith, upstreams: tuple[str, ...], outcome: str, reason: str
) -> None:
    """P1: an open cycle has its row, by what its job follows now, and so has what follows that."""
    long, short = replace(HEAD, name="long"), replace(HEAD, name="short")
    later = replace(HEAD, name="later", trigger=CronTrigger(("30 * * * *",)))
    jobs = [short, later, after("follower", "short"), after("last", end="any")]
    world = machine_with(*jobs, long, after("end", "long", "short"))
    behave(world, long=Behaviour(lasts=(60 * SECOND,), exits=(OK,)))
    to_the_hour(world, 10 * SECOND)
    assert rows(world, "end") == []
    reload(world, *jobs, long, after("end", *upstreams))
    world.pass_time(120 * SECOND)
    (end,) = rows(world, "end")
    assert end.outcome == outcome
    assert end.reason.startswith(reason)
    assert outcomes(world, "last") == ["succeeded"]


ONCE = Job("once", AtTrigger(BEGIN - HOUR), "true", missed=Missed.SKIP)


@pytest.mark.parametrize("before", [(), (replace(ONCE, trigger=HEAD.trigger),)], ids=["new", "old"])
@pytest.mark.parametrize("upstreams", [("once",), ("once", "twice")])
def test_what_is_missed_as_a_reload_brings_it(
    machine_with: MachineWith, before: tuple[Job, ...], upstreams: tuple[str, ...]
) -> None:
    """P1: what the same reload has follow it has its row of that cycle, and so has the next."""
    world = machine_with(*before)
    twice = replace(ONCE, name="twice")
    reload(world, after("last", next="any"), after("next", *upstreams), ONCE, twice)
    world.pass_time(SECOND)
    assert outcomes(world, "once") == ["missed"]
    (row,) = rows(world, "next")
    assert (row.due, row.reason) == (BEGIN - HOUR, "upstream_failed: once was missed")
    assert outcomes(world, "last") == ["succeeded"]


UNKNOWN = "upstream_unknown: it does not follow any more what it waited for in this cycle"


@pytest.mark.parametrize("before", [("long",), ("long", "longer"), ("middle",)])
@pytest.mark.parametrize(
    ("by_now", "reasons"),
    [
        (("short",), [""]),
        (("later",), [UNKNOWN]),
        (("long", "short"), [""]),
        (("short", "renamed"), ["upstream_unknown: nobody knows what became of renamed"]),
    ],
)
def test_a_reload_in_a_cycle_of_which_nothing_was_heard_yet(
    machine_with: MachineWith, before: tuple[str, ...], by_now: tuple[str, ...], reasons: list[str]
) -> None:
    """P1: it has its row by what its job waits for by now, though that has ended already."""
    heads = [replace(HEAD, name=name) for name in ("long", "longer", "short", "renamed")]
    later = replace(HEAD, name="later", trigger=CronTrigger(("30 * * * *",)))
    middle = after("middle", "long")
    world = machine_with(*heads[:3], later, middle, after("end", *before))
    behave(
        world,
        long=Behaviour(lasts=(60 * SECOND,), exits=(OK,)),
        longer=Behaviour(lasts=(90 * SECOND,), exits=(OK,)),
    )
    to_the_hour(world, 10 * SECOND)
    assert outcomes(world, "end") == []
    reload(world, *heads, later, middle, after("end", *by_now))
    world.pass_time(10 * MINUTE)
    assert [row.reason for row in rows(world, "end")] == reasons
    assert [row.due for row in rows(world, "end")] == [rows(world, "short")[0].due]


def test_two_reloads_in_one_cycle(machine_with: MachineWith) -> None:
    """P1: what a reload has wait for others may be told by the next to wait for yet others."""
    left, right = replace(HEAD, name="left"), replace(HEAD, name="right")
    world = machine_with(left, right, after("end", "left", "right"))
    behave(world, left=Behaviour(lasts=(60 * SECOND,), exits=(OK,)))
    to_the_hour(world, 10 * SECOND)
    reload(world, left, right, after("end", left="failure"))
    world.pass_time(SECOND)
    reload(world, left, right, after("end", right="any"))
    world.pass_time(120 * SECOND)
    assert outcomes(world, "end") == ["succeeded"]


def test_a_reload_gives_a_schedule_to_what_waited(machine_with: MachineWith) -> None:
    """P1: also where it follows nothing any more."""
    long, short = replace(HEAD, name="long"), replace(HEAD, name="short")
    world = machine_with(long, short, after("end", "long", "short"))
    behave(world, long=Behaviour(lasts=(60 * SECOND,), exits=(OK,)))
    to_the_hour(world, 10 * SECOND)
    reload(world, long, short, replace(HEAD, name="end"))
    world.pass_time(120 * SECOND)
    (end,) = rows(world, "end")
    assert end.reason.startswith("upstream_unknown: it does not follow any more")


# --- a reload in the middle of a cycle ------------------------------------------------------------

SIDES = tuple(replace(HEAD, name=name) for name in "abd")


def _follows(*upstreams: str) -> tuple[Job, ...]:
    """Return two heads and one more, what follows some of them, and what follows that."""
    follower = replace(after("c", *upstreams), overlap=Overlap.REPLACE)
    return *SIDES, follower, replace(after("last", c="any"), overlap=Overlap.REPLACE)


def _failing(*_: object, **__: object) -> NoReturn:
    raise LedgerError("the disk has gone")


def _put_in_force(world: World, *jobs: Job, restarts: bool) -> None:
    """Let other jobs be in force by a reload, or from a restart on."""
    if restarts:
        world.kill_daemon()
        world.jobs = {job.name: job for job in jobs}
        world.boot_daemon()
    else:
        reload(world, *jobs)


@pytest.mark.parametrize("upstreams", ["a", "ad"])
def test_a_reload_leaves_to_come_what_is_waited_for(
    machine_with: MachineWith, upstreams: str
) -> None:
    """P1: a cycle of which nothing has ended that its job follows now waits for what runs yet."""
    world = machine_with(*_follows("a", "b"))
    for name in "ad":
        behave(world, **{name: Behaviour(lasts=(10 * MINUTE,))})
    to_the_hour(world, MINUTE)
    assert (outcomes(world, "b"), rows(world, "c")) == (["succeeded"], [])
    reload(world, *_follows(*upstreams))
    world.pass_time(SECOND)
    assert rows(world, "c") == []
    world.pass_time(10 * MINUTE)
    assert outcomes(world, "c") == outcomes(world, "last") == ["succeeded"]


def test_a_reload_leaves_to_come_what_has_failed(machine_with: MachineWith) -> None:
    """P1: and the cycle has one row, which what follows that sees once."""
    world = machine_with(*_follows("a", "b"))
    behave(world, a=Behaviour(lasts=(10 * MINUTE,), exits=(BAD,)))
    behave(world, last=Behaviour(lasts=(20 * MINUTE,)))
    to_the_hour(world, MINUTE)
    reload(world, *_follows("a"))
    world.pass_time(10 * MINUTE)
    assert [run.reason for run in rows(world, "c")] == ["upstream_failed: a has failed"]
    world.pass_time(20 * MINUTE)
    assert outcomes(world, "last") == ["succeeded"]


FIRST, SECOND_ONE = (replace(HEAD, name=name, overlap=Overlap.QUEUE) for name in "ab")


def _waits_its_turn(machine_with: MachineWith, *others: Job) -> World:
    """Return a machine on which a run of the first head waits behind another one of it."""
    world = machine_with(FIRST, SECOND_ONE, *others)
    behave(world, a=Behaviour(lasts=(3 * HOUR,)), b=Behaviour(lasts=(5 * MINUTE,)))
    ask(world, "trigger", "a")
    to_the_hour(world, MINUTE)
    assert outcomes(world, "a") == ["running", "queued"]
    return world


def _of_the_hour(world: World, name: str) -> list[str]:
    """Return how a job's runs have ended but that of the cycle which was begun by hand."""
    return [str(run.outcome) for run in rows(world, name) if not run.due.microsecond]


@pytest.mark.parametrize("is_left", [False, True])
def test_what_a_reload_ends_is_not_followed_by_what_it_removes(
    machine_with: MachineWith, *, is_left: bool
) -> None:
    """P1: a job that is in the file no more is not started, nor one that does not follow now."""
    clean = after("c", a="any")
    world = _waits_its_turn(machine_with, clean)
    reload(world, SECOND_ONE, *([replace(HEAD, name="c")] if is_left else []))
    world.pass_time(MINUTE)
    assert outcomes(world, "a") == ["running", "cancelled"]
    assert not [tree for tree in world.machine.trees if tree.job == "c"]
    reasons = [run.reason for run in rows(world, "c")]
    assert reasons == (
        ["upstream_unknown: it does not follow any more what it waited for in this cycle"] * 2
        if is_left
        else []
    )


@pytest.mark.parametrize("was", [after("c", "a"), after("c", "a", "b"), after("c", a="any")])
@pytest.mark.parametrize("has_ended", [False, True])
def test_what_a_reload_ends_is_followed_as_it_says(
    machine_with: MachineWith, was: Job, *, has_ended: bool
) -> None:
    """P1: a job that waits for another one now goes by that alone, be it over already or not."""
    world = _waits_its_turn(machine_with, was)
    if has_ended:
        world.pass_time(5 * MINUTE)
    reload(world, SECOND_ONE, replace(after("c", "b"), command="new"))
    if not has_ended:
        world.pass_time(SECOND)
        assert _of_the_hour(world, "c") == []
    world.pass_time(10 * MINUTE)
    assert _of_the_hour(world, "c") == ["succeeded"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_cycle_that_has_its_run_gets_no_other(
    machine_with: MachineWith, *, restarts: bool
) -> None:
    """P2: what its job follows only now ends later, and replaces no run of the same cycle."""
    world = machine_with(*_follows("b"))
    world.machine.tells_exits = True
    behave(world, a=Behaviour(lasts=(10 * MINUTE,)), c=Behaviour(lasts=(20 * MINUTE,)))
    to_the_hour(world, MINUTE)
    assert outcomes(world, "c") == ["running"]
    _put_in_force(world, *_follows("a"), restarts=restarts)
    world.pass_time(25 * MINUTE)
    assert outcomes(world, "a") == outcomes(world, "c") == ["succeeded"]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("upstreams", ["a", "ad"])
@pytest.mark.parametrize("exit_", [OK, BAD])
def test_a_cycle_that_was_skipped_is_not_decided_again(
    machine_with: MachineWith, upstreams: str, exit_: Exit, *, restarts: bool
) -> None:
    """P2: nothing is replaced, whatever becomes of what its job follows now."""
    world = machine_with(*_follows("a", "b"))
    world.machine.tells_exits = True
    behave(world, a=Behaviour(lasts=(10 * MINUTE,), exits=(exit_,)), b=Behaviour(exits=(BAD,)))
    behave(world, c=Behaviour(lasts=(30 * MINUTE,)), last=Behaviour(lasts=(20 * MINUTE,)))
    to_the_hour(world, MINUTE)
    assert (outcomes(world, "c"), outcomes(world, "last")) == (["skipped"], ["running"])
    ask(world, "trigger", "c")
    world.pass_time(SECOND)
    _put_in_force(world, *_follows(*upstreams), restarts=restarts)
    world.pass_time(25 * MINUTE)
    assert outcomes(world, "c") == ["skipped", "running"]
    assert outcomes(world, "last") == ["succeeded"]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_has_ended_in_a_cycle_is_not_begun_again(
    machine_with: MachineWith, *, restarts: bool
) -> None:
    """P2: a run of another cycle is not replaced for it."""
    world = machine_with(*_follows("b"))
    world.machine.tells_exits = True
    behave(world, a=Behaviour(lasts=(10 * MINUTE,)))
    to_the_hour(world, MINUTE)
    behave(world, c=Behaviour(lasts=(20 * MINUTE,)))
    ask(world, "trigger", "c")
    world.pass_time(SECOND)
    _put_in_force(world, *_follows("a"), restarts=restarts)
    world.pass_time(25 * MINUTE)
    assert outcomes(world, "c") == ["succeeded", "succeeded"]


@pytest.mark.parametrize("exit_", [OK, BAD])
def test_a_skip_that_is_not_written_yet_is_known(
    machine_with: MachineWith,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    exit_: Exit,
) -> None:
    """P2: a cycle is decided also where the ledger could not take its row, nor tell of others."""
    world = machine_with(*_follows("a", "b"))
    behave(world, a=Behaviour(lasts=(10 * MINUTE,), exits=(exit_,)))
    behave(world, c=Behaviour(lasts=(30 * MINUTE,)))
    behave(world, b=Behaviour(lasts=(10 * SECOND,), exits=(BAD,)))
    to_the_hour(world, SECOND)
    ask(world, "trigger", "c")
    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "write", _failing)
        world.pass_time(MINUTE)
        reload(world, *_follows("a"))
        patch.setattr(world.ledger, "runs", _failing)
        caplog.clear()
        world.pass_time(10 * MINUTE)
        assert "run skipped" not in caplog.messages
    assert outcomes(world, "c") == ["running"]
    world.pass_time(25 * MINUTE)
    assert outcomes(world, "c") == ["skipped", "succeeded"]


def test_a_run_is_known_while_the_ledger_cannot_be_read(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2, P8: it is in memory that a cycle has a run which has not ended."""
    world = machine_with(*_follows("b"))
    behave(world, a=Behaviour(lasts=(10 * MINUTE,)), c=Behaviour(lasts=(20 * MINUTE,)))
    to_the_hour(world, MINUTE)
    reload(world, *_follows("a"))
    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "runs", _failing)
        world.pass_time(10 * MINUTE)
    world.pass_time(15 * MINUTE)
    assert outcomes(world, "c") == ["succeeded"]


def test_a_decided_cycle_is_not_carried_over(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: not even where the ledger cannot say that it has its row."""
    world = machine_with(*_follows("a", "b"))
    behave(world, a=Behaviour(lasts=(40 * MINUTE,)), b=Behaviour(exits=(BAD,)))
    to_the_hour(world, MINUTE)
    behave(world, last=Behaviour(lasts=(20 * MINUTE,)))
    ask(world, "trigger", "last")
    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "runs", _failing)
        reload(world, *_follows("b"))
        world.pass_time(SECOND)
    world.pass_time(25 * MINUTE)
    assert outcomes(world, "c") == ["skipped"]
    assert outcomes(world, "last") == ["succeeded", "succeeded"]


def test_what_was_skipped_before_a_restart_is_not_skipped_again(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P2: nor is that said, where it is seen only after a reload that the cycle has its row."""
    later = replace(HEAD, name="later", trigger=CronTrigger(("50 * * * *",)))
    world = machine_with(*_follows("a", "b", "d"), later)
    world.machine.tells_exits = True
    behave(world, a=Behaviour(lasts=(20 * MINUTE,)), d=Behaviour(lasts=(10 * MINUTE,)))
    behave(world, b=Behaviour(exits=(BAD,)))
    to_the_hour(world, MINUTE)
    assert outcomes(world, "c") == ["skipped"]
    world.kill_daemon()
    world.boot_daemon()
    caplog.clear()
    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "runs", _failing)
        world.pass_time(12 * MINUTE)
        reload(world, *_follows("later"), later)
    world.pass_time(12 * MINUTE)
    assert "run skipped" not in caplog.messages
    assert outcomes(world, "c") == ["skipped"]


def test_what_is_followed_by_now_may_have_another_era(machine_with: MachineWith) -> None:
    """P1: a head that was added since the clock was set back has another count of new times."""
    world = machine_with(*SIDES[:2])
    world.pass_time(12 * HOUR + MINUTE)
    world.set_clock(-4 * HOUR)
    reload(world, *_follows("a", "b"))
    for name in "ad":
        behave(world, **{name: Behaviour(lasts=(10 * MINUTE,))})
    to_the_hour(world, MINUTE)
    eras = [max(run.era for run in rows(world, name)) for name in "bd"]
    assert eras[0] > eras[1]  # else this test shows nothing
    reload(world, *_follows("d"))
    world.pass_time(10 * MINUTE)
    assert outcomes(world, "c") == ["succeeded"]


def _heads_of_two_eras(machine_with: MachineWith, *upstreams: str) -> World:
    """Return what stands before an hour at which ``a`` has a lower era than ``b``, long a run."""
    world = machine_with(SIDES[1], SIDES[2])
    world.machine.tells_exits = True
    world.pass_time(12 * HOUR + MINUTE)
    world.set_clock(-4 * HOUR)
    reload(world, *_follows(*upstreams))
    behave(world, a=Behaviour(lasts=(10 * MINUTE,)), c=Behaviour(exits=(OK,)))
    return world


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("before", ["b", "ab", "bd"])
@pytest.mark.parametrize("exit_", [OK, BAD])
@pytest.mark.parametrize("by_now", ["a", "ad"])
def test_a_cycle_that_was_decided_by_a_head_of_another_era(
    machine_with: MachineWith, before: str, by_now: str, exit_: Exit, *, restarts: bool
) -> None:
    """P2: it is neither decided nor run again, by whatever head it is told again."""
    world = _heads_of_two_eras(machine_with, *before)
    behave(world, b=Behaviour(exits=(exit_,)))
    to_the_hour(world, MINUTE)
    eras = [max(run.era for run in rows(world, name)) for name in "ab"]
    assert eras[0] < eras[1]  # else this test shows nothing
    is_decided = exit_ is BAD or "a" not in before
    assert len(rows(world, "c")) == is_decided
    _put_in_force(world, *_follows(*by_now), restarts=restarts)
    world.pass_time(15 * MINUTE)
    assert len(rows(world, "c")) == len(rows(world, "last")) == 1


@pytest.mark.parametrize("restarts", [False, True])
def test_an_instant_that_came_again_is_decided_again(
    machine_with: MachineWith, *, restarts: bool
) -> None:
    """P1: it is another cycle, though the job was in the crontab in the first one, too."""
    world = machine_with(*_follows("a"))
    world.machine.tells_exits = True
    world.pass_time(12 * HOUR + MINUTE)
    world.set_clock(-4 * HOUR)
    behave(world, a=Behaviour(lasts=(10 * MINUTE,)))
    to_the_hour(world, MINUTE)
    before = outcomes(world, "c")
    _put_in_force(world, *_follows("a"), restarts=restarts)
    world.pass_time(15 * MINUTE)
    assert sorted(outcomes(world, "c")) == sorted([*before, "succeeded"])


def test_the_ledger_is_not_asked_of_new_cycles(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: what began under the crontab in force has not been decided under another."""
    world = machine_with(*_follows("a", "b"))
    asked = []
    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "runs", asked.append)
        to_the_hour(world, MINUTE)
    assert asked == []
    assert outcomes(world, "last") == ["succeeded"]


@pytest.mark.parametrize("lasts", [2 * SECOND, 10 * MINUTE])
def test_a_reload_while_the_ledger_cannot_be_read(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch, lasts: timedelta
) -> None:
    """P1, P8: what an open cycle waits for by now is looked up once that can be done."""
    jobs = (*_follows("a", "b"), after("e", "d"))
    world = machine_with(*jobs)
    behave(world, a=Behaviour(lasts=(20 * MINUTE,)), e=Behaviour(lasts=(lasts,)))
    to_the_hour(world, MINUTE)
    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "runs", _failing)
        reload(world, *_follows("e"), after("e", "d"))
        world.pass_time(MINUTE)
        assert [run for run in world.ledger._content.runs.values() if run.job == "c"] == []
    world.pass_time(15 * MINUTE)
    assert outcomes(world, "c") == ["succeeded"]


def test_followers_have_their_turn_by_priority(machine_with: MachineWith) -> None:
    """P4: what has the higher priority goes first where they wait for one slot together."""
    names = ("low", "high", "middle")
    waits = [
        replace(after(name, "head"), pool="one", priority=priority)
        for name, priority in zip(names, (-1, 5, 0), strict=True)
    ]
    world = machine_with()
    reload(world, HEAD, *waits, pools=(Pool("default"), Pool("one", 1)))
    for job in (HEAD, *waits):
        behave(world, **{job.name: Behaviour(lasts=(MINUTE,))})
    to_the_hour(world, 10 * MINUTE)
    begun = {name: rows(world, name)[0].attempts[0].begun_at for name in names}
    assert sorted(names, key=begun.__getitem__) == ["high", "middle", "low"]


def test_what_is_disabled_as_it_is_changed_has_no_rows(machine_with: MachineWith) -> None:
    """P1: its open cycle is none of an enabled job any more."""
    world = machine_with(*_follows("a", "b"))
    behave(world, a=Behaviour(lasts=(10 * MINUTE,)))
    to_the_hour(world, MINUTE)
    *others, follower, last = _follows("later")
    later = replace(HEAD, name="later", trigger=CronTrigger(("50 * * * *",)))
    reload(world, *others, later, replace(follower, enabled=False), last)
    world.pass_time(20 * MINUTE)
    assert rows(world, "c") == rows(world, "last") == []


def test_a_cycle_that_was_decided_before_the_clock_was_set_back(
    machine_with: MachineWith, caplog: pytest.LogCaptureFixture
) -> None:
    """P2: by the clock it is yet to come; it is older than the crontab in force all the same."""
    world = machine_with(*_follows("b"))
    behave(world, a=Behaviour(lasts=(10 * MINUTE,), exits=(BAD,)))
    to_the_hour(world, MINUTE)
    assert outcomes(world, "c") == ["succeeded"]
    world.set_clock(-30 * MINUTE)
    reload(world, *_follows("a"))
    world.pass_time(15 * MINUTE)
    assert outcomes(world, "a") == ["failed"]
    assert outcomes(world, "c") == outcomes(world, "last") == ["succeeded"]
    assert "run skipped" not in caplog.messages


# --- stretches ------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", ["ab", "ba"])
def test_one_of_two_heads_has_missed_a_cycle_more(machine_with: MachineWith, names: str) -> None:
    """P1: as the other one was claimed ahead when pycron was killed; each cycle counts once."""
    crowd = [replace(HEAD, name=f"crowd-{number}", missed=Missed.SKIP) for number in range(30)]
    heads = {"a": replace(HEAD, name="a", missed=Missed.SKIP)}
    heads["b"] = replace(heads["a"], name="b", pool="small")  # is claimed later than the others
    world = machine_with(*(heads[name] for name in names), after("end", "a", "b"), *crowd)
    to_the_hour(world, MINUTE)
    to_the_hour(world, -SECOND / 10)
    assert [len(rows(world, name)) for name in "ab"] == [2, 1]  # else this test shows nothing
    world.kill_daemon()
    world.pass_time(5 * HOUR + 30 * MINUTE)
    world.boot_daemon()
    world.pass_time(MINUTE)
    end = rows(world, "end")
    assert sum(run.count for run in end) == sum(run.count for run in rows(world, "b")) == 7
    assert {(run.due.minute, run.due.microsecond) for run in end} == {(0, 0)}


def test_a_cycle_of_which_one_head_has_missed_a_stretch(machine_with: MachineWith) -> None:
    """P1: it has its own row, which says so; that a head was missed is what may be asked for."""
    crowd = [replace(HEAD, name=f"crowd-{number}", missed=Missed.SKIP) for number in range(30)]
    heads = [replace(HEAD, name=name, missed=Missed.SKIP) for name in "ab"]
    heads[1] = replace(heads[1], pool="small")  # is claimed later than the others
    world = machine_with(*heads, after("end", a="any", b="any"), *crowd)
    to_the_hour(world, MINUTE)
    to_the_hour(world, -SECOND / 10)
    world.kill_daemon()
    world.pass_time(5 * HOUR + 30 * MINUTE)
    world.boot_daemon()
    world.pass_time(MINUTE)
    skipped = [run for run in rows(world, "end") if run.outcome is Outcome.SKIPPED]
    assert [run.count for run in skipped] == [1, 5]
    for run in skipped:
        assert run.reason.endswith(" was missed, and nothing follows a stretch of that")


def test_what_the_rows_below_a_stretch_say(machine_with: MachineWith) -> None:
    """P1: each says what became of the job before it, by the code that a single cycle would have.

    What waits for a failure is not told of one, nor is what follows that.
    """
    below = (after("next", "head"), after("last", "next"))
    alarms = (after("alarm", head="failure"), after("siren", "alarm"))
    world = machine_with(replace(HEAD, missed=Missed.SKIP), *below, *alarms)
    to_the_hour(world, MINUTE)
    world.kill_daemon()
    world.pass_time(5 * HOUR)
    world.boot_daemon()
    more = ", and nothing follows a stretch of that"
    said = {job.name: rows(world, job.name)[-1] for job in (*below, *alarms)}
    assert {name: (run.count, run.reason) for name, run in said.items()} == {
        "next": (5, f"upstream_failed: head was missed{more}"),
        "last": (5, f"upstream_failed: next was skipped{more}"),
        "alarm": (5, f"upstream_not_failed: head was missed{more}"),
        "siren": (5, f"upstream_not_failed: alarm was skipped{more}"),
    }


def test_what_is_disabled_is_named_so(machine_with: MachineWith) -> None:
    """P1: a cycle that waits for it, too, says why that does not come."""
    off = replace(HEAD, name="off", enabled=False)
    world = machine_with(HEAD, off, after("end", "head", "off"))
    to_the_hour(world)
    assert [run.reason for run in rows(world, "end")] == ["upstream_unknown: off is disabled"]


@pytest.mark.parametrize("restarts", [False, True])
def test_what_lies_between_what_was_missed_is_followed(
    machine_with: MachineWith, *, restarts: bool
) -> None:
    """P1: it ran before the clock was set back to before the job was there, and still goes on.

    All the rest around it is one stretch, in the row of which it is not counted.
    """
    often = CronTrigger(("*/10 * * * *",))
    head = replace(HEAD, trigger=often, missed=Missed.SKIP, overlap=Overlap.ALLOW)
    world = machine_with(head, *DIAMOND[1:], after("next", "head"))
    world.machine.tells_exits = True
    behave(world, head=Behaviour(lasts=(12 * HOUR,)))
    world.pass_time(11 * MINUTE)
    (due,) = (run.due for run in rows(world, "head"))
    behave(world, head=Behaviour())
    world.set_clock(-HOUR)
    world.freeze(5 * HOUR)
    world.pass_time(MINUTE)
    stretch = rows(world, "head")[0]
    assert stretch.last_due is not None
    assert stretch.due < due < stretch.last_due  # else this test shows nothing
    if restarts:
        world.kill_daemon()
        world.boot_daemon()
    world.pass_time(8 * HOUR)
    for name in ("head", "next", "end"):
        mine = [str(run.outcome) for run in rows(world, name) if run.due == due]
        assert mine == ["succeeded"]


@pytest.mark.parametrize("exit_", [OK, BAD])
@pytest.mark.parametrize("is_frozen", [False, True])
@pytest.mark.parametrize("restarts", [False, True])
def test_what_one_of_two_heads_makes_up_of_a_stretch_of_the_other(
    machine_with: MachineWith, exit_: Exit, *, is_frozen: bool, restarts: bool
) -> None:
    """P1: its cycles have been skipped as that stretch, and have no rows of their own."""
    skips = replace(HEAD, missed=Missed.SKIP)
    makes_up = replace(HEAD, name="other", missed=Missed.ALL)
    world = machine_with(skips, makes_up, TWO[2])
    world.machine.tells_exits = True
    to_the_hour(world, MINUTE)
    behave(world, other=Behaviour(lasts=(MINUTE,), exits=(exit_,)))
    if is_frozen:
        world.freeze(5 * HOUR)
    else:
        world.kill_daemon()
        world.pass_time(5 * HOUR)
        world.boot_daemon()
    world.pass_time(90 * SECOND)
    if restarts:
        world.kill_daemon()
        world.boot_daemon()
    world.pass_time(10 * MINUTE)
    assert len(rows(world, "other")) == 6
    assert [run.count for run in rows(world, "end")] == [1, 5]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_join_does_not_wait_for_an_instant_that_is_passed_over(
    machine_with: MachineWith, *, restarts: bool
) -> None:
    """P1: the clock was set back in the cycle; its head has its row and does not come again."""
    middle, end = after("middle", "head"), after("end", "head", "middle")
    known = end if restarts else after("end", "middle")
    world = machine_with(HEAD, middle, known)
    world.machine.tells_exits = True
    behave(world, middle=Behaviour(lasts=(20 * MINUTE,)))
    to_the_hour(world)
    due = rows(world, "head")[-1].due
    world.set_clock(-30 * MINUTE)
    _put_in_force(world, HEAD, middle, end, restarts=restarts)
    world.pass_time(25 * MINUTE)
    assert [(run.due, run.outcome) for run in rows(world, "end")] == [(due, Outcome.SUCCEEDED)]
