"""on_stop: what a stopping daemon waits for, ends, or leaves to the next one."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from crond_py.crontab.model import CronTrigger, EveryTrigger, Job, StartupTrigger, Trigger
from crond_py.engine.events import Call
from crond_py.errors import LedgerError
from crond_py.model import (
    Cause,
    EveryMode,
    Left,
    Leftovers,
    Missed,
    OnCrash,
    OnStop,
    Overlap,
    Retry,
)
from tests.simulation.fakes import Behaviour
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, is_alive, outcomes, rows

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
MILLISECOND = timedelta(milliseconds=1)
JOB = Job("a", CronTrigger(("0 * * * *",)), "true", timezone="UTC")


def stop(world: World, limit: timedelta | None = None) -> list[bool]:
    """Tell the daemon to stop; what is returned has an item once it has."""
    assert world.daemon is not None
    core, stopped = world.daemon.core, list[bool]()
    core.handle([Call(lambda: core.stop(limit, lambda: stopped.append(True)))])
    return stopped


def run_for_a_while(machine_with: MachineWith, on_stop: OnStop, **more: object) -> World:
    """Return a machine whose daemon has a long run."""
    world = machine_with(replace(JOB, on_stop=on_stop), lasts=20 * MINUTE, **more)
    world.pass_time(HOUR + MINUTE - world.clock.now().minute * MINUTE)
    assert is_alive(world) == 1
    return world


def test_waits_as_long_as_it_may(machine_with: MachineWith) -> None:
    """A run is waited for up to the limit, and then ended as cancelled."""
    world = run_for_a_while(machine_with, OnStop.WAIT)
    stopped = stop(world, 5 * MINUTE)
    world.pass_time(4 * MINUTE)
    assert is_alive(world)
    assert not stopped
    world.pass_time(2 * MINUTE)
    assert not is_alive(world)
    assert stopped == [True]
    assert outcomes(world) == ["cancelled"]


def test_what_a_stop_waits_for_can_be_asked(machine_with: MachineWith) -> None:
    """Not what is left to the next daemon, and nothing before there is a stop."""
    jobs = [replace(JOB, name=policy, on_stop=policy) for policy in OnStop]
    world = machine_with(*jobs, lasts=20 * MINUTE, ignores_term=True)
    world.pass_time(HOUR + MINUTE - world.clock.now().minute * MINUTE)
    assert world.daemon is not None
    assert world.daemon.core.status().awaited == ()
    stop(world)
    awaited = {str(world.ledger.run(each).job) for each in world.daemon.core.status().awaited}
    assert awaited == {OnStop.WAIT, OnStop.TERMINATE}


def test_terminates_at_once(machine_with: MachineWith) -> None:
    """SIGTERM comes at once, SIGKILL after kill_after; the row says why it was cancelled."""
    world = run_for_a_while(machine_with, OnStop.TERMINATE, ignores_term=True)
    stopped = stop(world)
    world.pass_time(JOB.kill_after + SECOND)
    assert stopped == [True]
    assert not is_alive(world)
    (run,) = rows(world)
    assert (str(run.outcome), run.reason) == ("cancelled", "pycron was stopped")


def test_leaves_and_adopts(machine_with: MachineWith) -> None:
    """P5: what is left is adopted, and its end seen, so a restart costs it nothing."""
    world = run_for_a_while(machine_with, OnStop.LEAVE)
    stopped = stop(world)
    world.pass_time(SECOND)
    assert stopped == [True]
    world.kill_daemon()
    world.pass_time(MINUTE)
    world.boot_daemon()
    assert is_alive(world) == 1
    assert outcomes(world) == ["running"]
    world.pass_time(20 * MINUTE)
    assert len(rows(world)) == 1
    assert len(world.machine.trees) == 1


def test_left_and_gone_before_the_next_start(machine_with: MachineWith) -> None:
    """P1: what ended while nobody was there is lost, with that reason."""
    world = run_for_a_while(machine_with, OnStop.LEAVE)
    stop(world)
    world.kill_daemon()
    world.pass_time(25 * MINUTE)
    world.boot_daemon()
    (run,) = rows(world)
    assert str(run.outcome) == "lost"
    assert "ended while pycron was away" in run.reason


@pytest.mark.parametrize("then", ["it ends", "the machine ends", "back, and a crash"])
def test_a_stop_cuts_nothing_short_that_it_leaves(machine_with: MachineWith, then: str) -> None:
    """P3: what a stop left is not run again if it ended meanwhile; what a crash cut short is."""
    job = replace(JOB, on_stop=OnStop.LEAVE, on_crash=OnCrash.RERUN)
    world = machine_with(job, lasts=20 * MINUTE)
    world.pass_time(HOUR + MINUTE - world.clock.now().minute * MINUTE)
    stop(world)
    (run,) = rows(world)
    assert run.left_as is Left.RUNNING
    world.ledger.hold(replace(run, reason="another version's words"))
    world.kill_daemon(power_cut=then == "the machine ends")
    if then == "back, and a crash":
        world.boot_daemon()
        world.pass_time(MINUTE)
        world.kill_daemon()
    world.pass_time(25 * MINUTE)
    world.boot_daemon()
    (run,) = rows(world)
    if then == "it ends":
        assert str(run.outcome) == "lost"
        assert run.reason == "ended while pycron was away, nobody saw how"
    else:
        assert [str(attempt.outcome) for attempt in run.attempts] == ["lost", "None"]
        assert is_alive(world) == 1


@pytest.mark.parametrize("is_killed_again", [False, True])
def test_what_a_left_run_has_left_is_ended_and_it_is_not_run_again(
    machine_with: MachineWith, *, is_killed_again: bool
) -> None:
    """P3, P6: it ended by itself while nobody was there, and its leftovers are to be ended."""
    job = replace(JOB, on_stop=OnStop.LEAVE, on_crash=OnCrash.RERUN, leftovers=Leftovers.KILL)
    world = machine_with(job)
    world.machine.behaviours["a"] = Behaviour(
        lasts=(20 * MINUTE,), leaves=(40 * MINUTE,), rest_ignores_term=True
    )
    world.pass_time(HOUR + MINUTE - world.clock.now().minute * MINUTE)
    stop(world)
    world.kill_daemon()
    world.pass_time(25 * MINUTE)
    world.boot_daemon()
    if is_killed_again:
        world.pass_time(SECOND)
        world.kill_daemon()
        world.boot_daemon()
    world.pass_time(MINUTE)
    (run,) = rows(world)
    assert [str(attempt.outcome) for attempt in run.attempts] == ["lost"]
    assert run.reason == "ended while pycron was away, nobody saw how"
    assert not any(tree.alive for tree in world.machine.trees)


def take_over_and_leave(world: World) -> None:
    """Have a start that was never entered be taken over, left by a stop, and be found again."""
    world.machine.behaviours["a"] = Behaviour(lasts=(20 * MINUTE,), leaves=(40 * MINUTE,))
    world.pass_time(HOUR - SECOND - world.clock.now().minute * MINUTE)
    world.crash_at, world.crash_in = "after a start", 1
    world.pass_time(2 * SECOND)
    world.boot_daemon()
    world.pass_time(MINUTE)
    stop(world)
    world.kill_daemon()
    world.pass_time(25 * MINUTE)
    world.boot_daemon()


def test_what_was_taken_over_and_then_left_is_not_run_again(machine_with: MachineWith) -> None:
    """P3: its start was never entered, and what it has left behind is all that is found of it."""
    job = replace(JOB, on_stop=OnStop.LEAVE, on_crash=OnCrash.RERUN)
    world = machine_with(job)
    take_over_and_leave(world)
    world.pass_time(50 * MINUTE)
    (run,) = [run for run in rows(world) if run.attempts and run.due.hour == 23]
    assert [str(attempt.outcome) for attempt in run.attempts] == ["lost"]


def test_what_was_taken_over_and_then_left_may_take_too_long(machine_with: MachineWith) -> None:
    """P1, P6: what is found may be the command, so its timeout holds, and it is tried again."""
    job = replace(JOB, on_stop=OnStop.LEAVE, timeout=30 * MINUTE)
    world = machine_with(replace(job, retry=Retry(attempts=2, delay=5 * MINUTE)))
    take_over_and_leave(world)
    world.pass_time(15 * MINUTE)
    (run,) = rows(world)
    assert [str(attempt.outcome) for attempt in run.attempts] == ["timed_out", "None"]
    assert not any(tree.alive for tree in world.machine.trees[:-1])


def test_what_ends_with_its_container_has_not_ended_by_itself(machine_with: MachineWith) -> None:
    """P3: the machine goes on, and its boot with it."""
    world = machine_with(
        replace(JOB, on_stop=OnStop.LEAVE, on_crash=OnCrash.RERUN), lasts=20 * MINUTE
    )
    world.pass_time(HOUR + MINUTE - world.clock.now().minute * MINUTE)
    stop(world)
    world.kill_daemon()
    world.machine.reboot()
    world.containers += 1
    world.boot_daemon()
    (run,) = rows(world)
    assert [str(attempt.outcome) for attempt in run.attempts] == ["lost", "None"]


def test_it_is_said_that_what_is_left_ends_with_process_1(
    machine_with: MachineWith, caplog: pytest.LogCaptureFixture
) -> None:
    """P8: whoever asked for it is told that it cannot be had there."""
    world = machine_with(replace(JOB, on_stop=OnStop.LEAVE), lasts=20 * MINUTE)
    assert world.daemon is not None
    world.daemon.core._parts.ends_all = True
    world.pass_time(HOUR + MINUTE - world.clock.now().minute * MINUTE)
    assert stop(world) == [True]
    assert "runs end with pycron, which is process 1" in caplog.messages


def test_what_is_left_of_a_left_run_is_watched_and_a_crash_comes(
    machine_with: MachineWith,
) -> None:
    """P3: that it was left, and then ended by itself, is known also after that."""
    job = replace(JOB, on_stop=OnStop.LEAVE, on_crash=OnCrash.RERUN)
    world = machine_with(job)
    world.machine.behaviours["a"] = Behaviour(lasts=(20 * MINUTE,), leaves=(40 * MINUTE,))
    world.pass_time(HOUR - SECOND - world.clock.now().minute * MINUTE)
    world.crash_at, world.crash_in = "after a start", 1  # so nobody knows which is its leader
    world.pass_time(2 * SECOND)
    world.boot_daemon()
    world.pass_time(MINUTE)
    stop(world)
    world.kill_daemon()
    world.pass_time(25 * MINUTE)
    for _ in range(2):
        world.boot_daemon()
        world.pass_time(20 * MINUTE)
        world.kill_daemon()
    world.boot_daemon()
    (run,) = [run for run in rows(world) if run.due.hour == 23]
    assert [str(attempt.outcome) for attempt in run.attempts] == ["lost"]


@pytest.mark.parametrize("on_crash", list(OnCrash))
def test_what_is_taken_over_and_watched_to_its_end_is_not_run_again(
    machine_with: MachineWith, on_crash: OnCrash
) -> None:
    """P1, P3: its start was not entered, but it went on, and no crash has cut it short."""
    world = machine_with(replace(JOB, on_crash=on_crash), lasts=5 * MINUTE)
    world.pass_time(HOUR - SECOND - world.clock.now().minute * MINUTE)
    world.crash_at, world.crash_in = "after a start", 1
    world.pass_time(2 * SECOND)
    world.boot_daemon()
    world.pass_time(10 * MINUTE)
    (run,) = rows(world)
    assert [str(attempt.outcome) for attempt in run.attempts] == ["lost"]
    begin = "taken over from a pycron that ended while it started"
    assert run.reason == f"{begin}; nobody saw how it ended"
    assert len(world.machine.trees) == 1


def test_left_runs_are_left_even_when_told_twice(machine_with: MachineWith) -> None:
    """A second signal ends what is waited for, and not what is to be left."""
    waits = Job("b", JOB.trigger, "true", timezone="UTC")
    world = machine_with(replace(JOB, on_stop=OnStop.LEAVE), waits, lasts=20 * MINUTE)
    world.pass_time(HOUR + MINUTE - world.clock.now().minute * MINUTE)
    stopped = stop(world)
    assert not stopped
    assert world.daemon is not None
    core = world.daemon.core
    core.handle([Call(lambda: core.end_runs("told twice"))])
    world.pass_time(2 * SECOND)
    assert stopped == [True]
    assert outcomes(world, "a") == ["running"]
    assert outcomes(world, "b") == ["cancelled"]
    assert is_alive(world, "a") == 1


def test_what_is_just_being_started_is_left_too(machine_with: MachineWith) -> None:
    """Told twice, a daemon waits for the word that it runs, and leaves it then."""
    world = machine_with(replace(JOB, on_stop=OnStop.LEAVE), lasts=20 * MINUTE)
    world.machine.behaviours["a"] = replace(world.machine.behaviours["a"], word_takes=SECOND)
    world.pass_time(HOUR - world.clock.now().minute * MINUTE)
    stopped = stop(world)
    assert world.daemon is not None
    core = world.daemon.core
    core.handle([Call(lambda: core.end_runs("told twice"))])
    assert not stopped
    world.pass_time(2 * SECOND)
    assert stopped == [True]
    assert is_alive(world) == 1


def test_what_is_being_cancelled_is_waited_for(machine_with: MachineWith) -> None:
    """P6: a run that is to be left, but was cancelled before, is ended before the daemon goes."""
    world = run_for_a_while(machine_with, OnStop.LEAVE, ignores_term=True)
    assert world.daemon is not None
    core = world.daemon.core
    core.handle([Call(lambda: core.cancel_job("a"))])
    stopped = stop(world)
    world.pass_time(SECOND)
    assert not stopped
    world.pass_time(JOB.kill_after)
    assert stopped == [True]
    assert outcomes(world) == ["cancelled"]


@pytest.mark.parametrize("on_crash", OnCrash)
def test_ending_goes_on_after_a_crash(machine_with: MachineWith, on_crash: OnCrash) -> None:
    """P3, P6: a run that was being ended is ended by the next daemon, and not run again."""
    job = replace(JOB, on_crash=on_crash, retry=Retry(attempts=3, delay=MINUTE))
    world = machine_with(job, lasts=20 * MINUTE, ignores_term=True)
    world.pass_time(HOUR + MINUTE - world.clock.now().minute * MINUTE)
    assert world.daemon is not None
    core = world.daemon.core
    core.handle([Call(lambda: core.cancel_job("a"))])
    world.kill_daemon()
    world.pass_time(SECOND)
    world.boot_daemon()
    world.pass_time(job.kill_after + SECOND)
    assert not is_alive(world)
    assert outcomes(world) == ["cancelled"]
    world.pass_time(5 * MINUTE)
    assert len(world.machine.trees) == 1


def test_a_timeout_goes_on_after_a_crash(machine_with: MachineWith) -> None:
    """P1: what was being ended for its time is timed out, not lost, and tried again."""
    job = replace(JOB, timeout=2 * MINUTE, retry=Retry(attempts=2, delay=5 * MINUTE))
    world = machine_with(job, lasts=20 * MINUTE, ignores_term=True)
    world.pass_time(HOUR + 2 * MINUTE + SECOND - world.clock.now().minute * MINUTE)
    (run,) = rows(world)
    assert str(run.attempts[0].stopping) == "timed_out"
    world.kill_daemon()
    world.pass_time(MINUTE)
    world.boot_daemon()
    world.pass_time(job.kill_after + SECOND)
    assert outcomes(world) == ["waiting_retry"]
    assert str(rows(world)[0].attempts[0].outcome) == "timed_out"


# --- what was claimed ahead -----------------------------------------------------------------------


def _stopped_just_before(machine_with: MachineWith, job: Job, **more: object) -> World:
    """Return a machine whose daemon was stopped after a claim and before its instant."""
    world = machine_with(job, **more)
    world.pass_time(HOUR - world.clock.now().minute * MINUTE - 5 * MILLISECOND)
    assert outcomes(world) == ["running"]
    assert not world.machine.trees
    stopped = stop(world)
    world.pass_time(SECOND)
    assert stopped == [True]
    world.kill_daemon()
    return world


@pytest.mark.parametrize("on_stop", OnStop)
@pytest.mark.parametrize(
    ("missed", "became", "why"),
    [
        (Missed.ONCE, "succeeded", ""),
        (Missed.ALL, "succeeded", ""),
        (Missed.SKIP, "missed", 'pycron was not running; missed = "skip"'),
    ],
)
def test_what_was_claimed_ahead_is_missed(
    machine_with: MachineWith, on_stop: OnStop, missed: Missed, became: str, why: str
) -> None:
    """P1, P2: nothing starts after a stop, and the next daemon does what the policy says."""
    world = _stopped_just_before(machine_with, replace(JOB, on_stop=on_stop, missed=missed))
    (run,) = rows(world)
    assert (str(run.state), run.reason) == ("queued", "pycron was stopped before it was started")
    assert run.left_as is Left.RECALLED
    world.ledger.hold(replace(run, reason="another version's words"))
    assert not world.machine.trees
    world.pass_time(MINUTE)
    world.boot_daemon()
    world.pass_time(MINUTE)
    (run,) = rows(world)
    assert (str(run.outcome), run.reason) == (became, why)
    assert [attempt.number for attempt in run.attempts] == [1]
    assert len(world.machine.trees) == (became == "succeeded")


@pytest.mark.parametrize("missed", [Missed.ONCE, Missed.ALL])
def test_of_what_was_claimed_ahead_and_later_ones_the_newest_counts(
    machine_with: MachineWith, missed: Missed
) -> None:
    """P1: what was recalled is one of those that were missed."""
    world = _stopped_just_before(machine_with, replace(JOB, missed=missed, overlap=Overlap.QUEUE))
    world.pass_time(HOUR)
    world.boot_daemon()
    world.pass_time(MINUTE)
    is_once = missed is Missed.ONCE
    assert outcomes(world) == ["missed" if is_once else "succeeded", "succeeded"]
    assert len(world.machine.trees) == (1 if is_once else 2)


def test_what_is_made_up_for_says_so_in_its_row(machine_with: MachineWith) -> None:
    """P8: what was recalled and is run by the next daemon is late by what passes in that."""
    world = _stopped_just_before(machine_with, JOB)
    world.pass_time(10 * SECOND)
    world.boot_daemon()
    world.pass_time(MINUTE)
    (run,) = rows(world)
    assert run.cause is Cause.CATCH_UP
    assert run.claimed_at - run.due >= 9 * SECOND
    lag = run.attempts[0].lag
    assert lag is not None
    assert lag.own < SECOND


def test_what_is_back_before_its_instant_starts_at_it(machine_with: MachineWith) -> None:
    """P4: a restart within a moment costs what was claimed ahead nothing."""
    world = machine_with(JOB)
    world.pass_time(HOUR - world.clock.now().minute * MINUTE - 8 * MILLISECOND)
    due = world.clock.now() + 8 * MILLISECOND
    stop(world)
    world.drain()
    world.kill_daemon()
    world.boot_daemon()
    world.pass_time(SECOND)
    assert [tree.started_at for tree in world.machine.trees] == [due]


DELAY = EveryTrigger(HOUR, EveryMode.FIXED_DELAY)


@pytest.mark.parametrize(
    ("trigger", "other", "became"),
    [
        (JOB.trigger, None, "missed"),
        (JOB.trigger, CronTrigger(("30 * * * *",)), "missed"),
        (JOB.trigger, StartupTrigger(), "missed"),
        (JOB.trigger, CronTrigger(("*/20 * * * *",)), "succeeded"),
        (JOB.trigger, DELAY, "missed"),
        (DELAY, None, "missed"),
        (DELAY, EveryTrigger(2 * HOUR, EveryMode.FIXED_DELAY), "missed"),
        (DELAY, DELAY, "succeeded"),
    ],
)
def test_what_is_back_before_its_instant_with_another_crontab(
    machine_with: MachineWith, trigger: Trigger, other: Trigger | None, became: str
) -> None:
    """P1, P2: what its job, as it is now, is not due at does not start; what it is, does once."""
    job = replace(JOB, trigger=trigger)
    world = machine_with(job)
    world.pass_time(HOUR - world.clock.now().minute * MINUTE - 8 * MILLISECOND)
    (run,) = rows(world)
    stop(world)
    world.drain()
    world.kill_daemon()
    changed = replace(job, enabled=False) if other is None else replace(job, trigger=other)
    world.jobs = {"a": changed}
    world.boot_daemon()
    assert world.clock.now() < run.due
    world.pass_time(2 * SECOND)
    assert [str(each.outcome) for each in rows(world) if each.due == run.due] == [became]
    started = [tree for tree in world.machine.trees if tree.spec.due == run.due]
    assert len(started) == (became == "succeeded")
    assert all(tree.started_at == run.due for tree in started)


@pytest.mark.parametrize("change", ["disabled", "schedule", "removed"])
def test_what_was_claimed_ahead_of_a_job_that_is_another(
    machine_with: MachineWith, change: str
) -> None:
    """P1: it has a stated outcome, and is not run."""
    world = _stopped_just_before(machine_with, JOB)
    other = CronTrigger(("30 * * * *",))
    jobs = {"disabled": replace(JOB, enabled=False), "schedule": replace(JOB, trigger=other)}
    world.jobs = {"a": jobs[change]} if change in jobs else {}
    world.boot_daemon()
    world.pass_time(SECOND)
    (run,) = rows(world)
    assert str(run.outcome) == ("cancelled" if change == "removed" else "missed")
    assert run.reason
    assert not world.machine.trees


def test_what_was_cut_short_and_then_recalled_is_run_again(machine_with: MachineWith) -> None:
    """P3: a further attempt that is recalled is no occurrence that was missed; it has its number.

    It is ahead of its instant where its daemon has crashed just before that.
    """
    job = replace(JOB, on_crash=OnCrash.RERUN, missed=Missed.SKIP)
    world = machine_with(job)
    world.pass_time(HOUR - world.clock.now().minute * MINUTE - 8 * MILLISECOND)
    world.kill_daemon()
    world.boot_daemon()
    stop(world)
    world.drain()
    world.kill_daemon()
    assert [str(a.outcome) for a in rows(world)[0].attempts] == ["lost", "cancelled"]
    world.pass_time(MINUTE)
    world.boot_daemon()
    world.pass_time(MINUTE)
    assert [str(a.outcome) for a in rows(world)[0].attempts] == ["lost", "succeeded"]


def test_what_cannot_be_recalled_any_more_starts(machine_with: MachineWith) -> None:
    """It runs as usual, and is ended where its job is to be ended by a stop."""
    jobs = [JOB, replace(JOB, name="b", on_stop=OnStop.TERMINATE)]
    world = machine_with(*jobs, lasts=MINUTE)
    world.pass_time(HOUR - world.clock.now().minute * MINUTE - 5 * MILLISECOND)
    assert world.daemon is not None
    world.daemon.processes.recall = lambda: None  # type: ignore[method-assign]
    stopped = stop(world)
    world.pass_time(SECOND)
    assert (is_alive(world), is_alive(world, "b")) == (1, 0)
    assert outcomes(world, "b") == ["cancelled"]
    world.pass_time(MINUTE)
    assert outcomes(world) == ["succeeded"]
    assert stopped == [True]


def end_runs(world: World, reason: str = "pycron was told to stop at once") -> None:
    """Have the daemon wait no longer."""
    assert world.daemon is not None
    core = world.daemon.core
    core.handle([Call(lambda: core.end_runs(reason))])


@pytest.mark.parametrize("on_stop", OnStop)
@pytest.mark.parametrize("limit", [None, timedelta(0)])
@pytest.mark.parametrize("holds_starts", [False, True])
def test_a_hurried_stop_leaves_what_was_claimed_ahead_to_the_next_daemon(
    machine_with: MachineWith, on_stop: OnStop, limit: timedelta | None, *, holds_starts: bool
) -> None:
    """P1: whoever has the start, and though word of it comes after all is to be ended."""
    world = machine_with(replace(JOB, on_stop=on_stop))
    assert world.daemon is not None
    world.daemon.processes.holds_starts = holds_starts
    world.pass_time(HOUR - world.clock.now().minute * MINUTE - 5 * MILLISECOND)
    stopped = stop(world, limit)
    if limit is None:
        end_runs(world)
    world.pass_time(SECOND)
    assert stopped == [True]
    assert outcomes(world) == ["queued"]
    world.kill_daemon()
    world.pass_time(MINUTE)
    world.boot_daemon()
    world.pass_time(MINUTE)
    assert outcomes(world) == ["succeeded"]


@pytest.mark.parametrize("is_before", [False, True])
def test_a_cancel_counts_beside_a_hurried_stop(
    machine_with: MachineWith, *, is_before: bool
) -> None:
    """P6: what a person has cancelled is not left to the next daemon."""
    world = machine_with(JOB)
    assert world.daemon is not None
    core = world.daemon.core
    world.daemon.processes.holds_starts = True
    world.pass_time(HOUR - world.clock.now().minute * MINUTE - 5 * MILLISECOND)
    if is_before:
        core.handle([Call(lambda: core.cancel_job("a"))])
    stop(world)
    end_runs(world)
    if not is_before:
        core.handle([Call(lambda: core.cancel_job("a"))])
    world.pass_time(SECOND)
    assert [(str(run.outcome), run.reason) for run in rows(world)] == [
        ("cancelled", "cancelled on request")
    ]


@pytest.mark.parametrize(
    ("on_stop", "became"),
    [(OnStop.WAIT, "cancelled"), (OnStop.TERMINATE, "cancelled"), (OnStop.LEAVE, "running")],
)
def test_what_starts_in_spite_of_a_hurried_stop(
    machine_with: MachineWith, on_stop: OnStop, became: str
) -> None:
    """P6: it was too late to recall it, and it is ended as soon as it is there, unless left."""
    world = machine_with(replace(JOB, on_stop=on_stop), lasts=HOUR)
    world.pass_time(HOUR - world.clock.now().minute * MINUTE - 5 * MILLISECOND)
    assert world.daemon is not None
    world.daemon.processes.recall = lambda: None  # type: ignore[method-assign]
    stopped = stop(world)
    end_runs(world)
    assert not stopped
    world.pass_time(SECOND)
    assert stopped == [True]
    assert outcomes(world) == [became]
    assert is_alive(world) == (became == "running")


def test_what_the_ledger_takes_late_is_not_started_either(machine_with: MachineWith) -> None:
    """P1: a claim of the moment before a stop, which the ledger has only taken since."""
    world = machine_with(JOB)
    world.set_trouble(LedgerError("disk full"))
    world.pass_time(HOUR - world.clock.now().minute * MINUTE - 5 * MILLISECOND)
    stopped = stop(world)
    world.pass_time(MINUTE)
    world.set_trouble(None)
    world.pass_time(2 * SECOND)
    assert stopped == [True]
    assert outcomes(world) == ["queued"]
    assert not world.machine.trees
