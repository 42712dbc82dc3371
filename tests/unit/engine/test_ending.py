"""How runs are ended, and what stands in the way: crashes, ledgers, starts that hang, leftovers."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from crond_py.crontab.model import CronTrigger, Job
from crond_py.engine.events import Call
from crond_py.engine.view import Cancelled
from crond_py.errors import LedgerError, RequestRefusedError
from crond_py.model import Cause, Exit, Leftovers, Missed, OnCrash, OnStop, Outcome, Overlap, Retry
from crond_py.ports import AttemptKey, Ended, ProcessSpec, SetAttempt, StartFailed, Write
from tests.simulation.fakes import Behaviour, FakeProcesses, Machine, Tree
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, is_alive, outcomes, reload, rows

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
MINUTELY = CronTrigger(("* * * * *",))
JOB = Job("a", MINUTELY, "true", timezone="UTC", overlap=Overlap.QUEUE)
FULL = LedgerError("disk full")


def ask(world: World, what: str) -> list[object]:
    """Cancel the job or stop the daemon; what is returned has an item for what came of it."""
    assert world.daemon is not None
    core, came = world.daemon.core, list[object]()

    def put() -> None:
        try:
            if what == "cancel":
                came.extend(core.cancel_job("a"))
            else:
                core.stop(30 * SECOND, lambda: came.append("stopped"))
        except RequestRefusedError as error:
            came.append(error)

    core.handle([Call(put)])
    return came


# --- what is durable before a signal --------------------------------------------------------------


@pytest.mark.parametrize("is_in_trouble", [False, True])
def test_it_is_noted_before_it_is_signalled(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch, *, is_in_trouble: bool
) -> None:
    """P6: that a run is being ended is durable before the signal, if it can be had at all."""
    world = machine_with(replace(JOB, timeout=20 * SECOND), lasts=10 * MINUTE)
    world.pass_time(MINUTE + 10 * SECOND)
    assert world.daemon is not None
    order: list[str] = []
    write, stop = world.ledger.write, world.daemon.processes.stop

    def note_write(writes: list[Write], *, durable: bool) -> list[int | None]:
        ids = write(writes, durable=durable)
        if any(isinstance(each, SetAttempt) and each.attempt.stopping for each in writes):
            order.append(f"noted, durable {durable}")
        return ids

    monkeypatch.setattr(world.ledger, "write", note_write)
    monkeypatch.setattr(
        world.daemon.processes,
        "stop",
        lambda key, *, force: (order.append("signal"), stop(key, force=force)),
    )
    if is_in_trouble:
        world.set_trouble(FULL)
    world.pass_time(15 * SECOND)
    assert order[0] == ("signal" if is_in_trouble else "noted, durable True")
    assert "signal" in order
    assert not is_alive(world)


def test_a_cancel_that_cannot_be_recorded_says_so(machine_with: MachineWith) -> None:
    """P8: nobody is told that all is well; what runs is ended all the same."""
    world = machine_with(JOB, lasts=10 * MINUTE)
    world.pass_time(MINUTE + SECOND)
    world.set_trouble(FULL)
    (answer,) = ask(world, "cancel")
    assert isinstance(answer, RequestRefusedError)
    assert "being ended" in str(answer)
    world.pass_time(2 * SECOND)
    assert not is_alive(world)
    world.set_trouble(None)
    world.pass_time(5 * SECOND)
    assert outcomes(world)[0] == "cancelled"


def test_who_waits_for_an_end_gets_an_outcome(machine_with: MachineWith) -> None:
    """P8: while the ledger cannot take how a run ended, nobody is told that it has no outcome."""
    world = machine_with(JOB, lasts=10 * SECOND)
    world.pass_time(MINUTE + SECOND)
    (run,) = rows(world)
    world.set_trouble(FULL)
    world.pass_time(15 * SECOND)
    assert world.daemon is not None
    core, came = world.daemon.core, list[Outcome | None]()
    core.handle([Call(lambda: core.on_end(run.id, lambda ended: came.append(ended.outcome)))])
    assert not came
    world.set_trouble(None)
    world.pass_time(5 * SECOND)
    assert came == [Outcome.SUCCEEDED]


# --- what earlier attempts have left --------------------------------------------------------------

LEAVES = Behaviour(exits=(Exit(code=1),), leaves=(HOUR,))
RETRIED = replace(JOB, retry=Retry(3, 20 * SECOND), kill_after=5 * SECOND)


def _waiting(machine_with: MachineWith, behaviour: Behaviour, job: Job = RETRIED) -> World:
    """Return a world in which a run waits whose first attempt has left something."""
    world = machine_with(job)
    world.machine.behaviours["a"] = behaviour
    world.pass_time(MINUTE + 5 * SECOND)
    assert outcomes(world) == ["waiting_retry"]
    assert is_alive(world) == 1
    return world


@pytest.mark.parametrize("is_taken_over", [False, True])
def test_a_cancel_tells_of_a_run_that_an_earlier_daemon_began(
    machine_with: MachineWith, *, is_taken_over: bool
) -> None:
    """P6: of that it is not sure that all it has left is seen, so nobody is to claim it."""
    world = machine_with(JOB, lasts=HOUR)
    world.pass_time(2 * MINUTE)
    if is_taken_over:
        world.kill_daemon()
        world.boot_daemon()
    running = next(item for item in ask(world, "cancel") if getattr(item, "ending", False))
    assert isinstance(running, Cancelled)
    assert running.is_taken_over == is_taken_over


def test_a_cancel_ends_what_the_last_attempt_has_left(machine_with: MachineWith) -> None:
    """P6: a run that waits for its retry is over when nothing of its attempts is left."""
    world = _waiting(machine_with, replace(LEAVES, rest_ignores_term=True))
    (answer,) = ask(world, "cancel")
    assert isinstance(answer, Cancelled)
    assert (answer.was, answer.ending) == ("waiting_retry", True)
    world.pass_time(4 * SECOND)
    assert outcomes(world) == ["running"]
    world.pass_time(2 * SECOND)
    (run,) = rows(world)
    assert (str(run.outcome), run.reason) == ("cancelled", "cancelled on request")
    assert [(str(a.outcome), a.stopping) for a in run.attempts] == [("failed", None)]
    assert run.attempts[0].reason == "exit status 1; 1 descendants are left alone"
    assert not is_alive(world)


@pytest.mark.parametrize("is_left", [True, False])
def test_a_restart_goes_on_with_ending_what_is_left(
    machine_with: MachineWith, *, is_left: bool
) -> None:
    """P1, P6: a cancel outlives the daemon that was told, and the attempt keeps its outcome."""
    world = _waiting(machine_with, replace(LEAVES, rest_ignores_term=True))
    ask(world, "cancel")
    world.kill_daemon()
    if not is_left:
        world.machine.reboot()
    world.boot_daemon()
    assert outcomes(world) == ["running" if is_left else "cancelled"]
    world.pass_time(6 * SECOND)
    (run,) = rows(world)
    assert (str(run.outcome), run.reason) == ("cancelled", "cancelled on request")
    assert [(str(a.outcome), a.stopping) for a in run.attempts] == [("failed", None)]
    assert not is_alive(world)


def test_a_cancel_of_a_start_ends_what_earlier_attempts_have_left(
    machine_with: MachineWith,
) -> None:
    """P6: also where the attempt that is cancelled comes to nothing."""
    world = _waiting(machine_with, LEAVES)
    assert world.daemon is not None
    started = world.daemon.processes.start_all
    world.daemon.processes.start_all = lambda _starts: None  # type: ignore[method-assign]
    world.pass_time(20 * SECOND)
    assert outcomes(world) == ["running"]
    ask(world, "cancel")
    (run,) = rows(world)
    world.daemon.inbox.append(StartFailed(AttemptKey(run.id, 2), "stopped", world.clock.now()))
    world.daemon.processes.start_all = started  # type: ignore[method-assign]
    world.pass_time(SECOND)
    assert outcomes(world) == ["cancelled"]
    assert not is_alive(world)


def _cancel_as_it_ends(world: World, tree: Tree) -> None:
    """Have a command end, and its run cancelled before the engine has heard of that."""
    world.machine._end(tree, tree.leader)
    assert world.daemon is not None
    world.daemon.processes.reap()
    ask(world, "cancel")
    world.pass_time(SECOND)


def test_a_cancel_that_crosses_with_the_end_leaves_nothing(machine_with: MachineWith) -> None:
    """P6: the command had just ended by itself, and what it has left was let be."""
    world = machine_with(JOB)
    world.machine.behaviours["a"] = replace(LEAVES, lasts=(MINUTE,))
    world.pass_time(MINUTE + 5 * SECOND)
    (tree,) = world.machine.alive
    _cancel_as_it_ends(world, tree)
    (run,) = rows(world)
    assert (str(run.outcome), run.reason) == ("cancelled", "cancelled on request")
    assert run.attempts[0].exit == Exit(code=1)
    assert not is_alive(world)


def test_a_cancel_that_crosses_leaves_nothing_of_earlier_attempts(
    machine_with: MachineWith,
) -> None:
    """P6: the attempt that had just ended has left nothing, but the one before it has."""
    world = _waiting(machine_with, LEAVES)
    world.machine.behaviours["a"] = Behaviour(lasts=(MINUTE,), exits=(Exit(code=1),))
    world.pass_time(20 * SECOND)
    assert is_alive(world) == 2
    last = world.machine.alive[-1]
    _cancel_as_it_ends(world, last)
    (run,) = rows(world)
    assert (str(run.outcome), run.reason) == ("cancelled", "cancelled on request")
    assert not is_alive(world)


def test_a_restart_ends_what_earlier_attempts_have_left(machine_with: MachineWith) -> None:
    """P6: of a run that was being ended, also where its last attempt is gone."""
    world = _waiting(machine_with, LEAVES)
    world.machine.behaviours["a"] = Behaviour(lasts=(HOUR,), ignores_term=True)
    world.pass_time(20 * SECOND)
    assert is_alive(world) == 2
    (left, last) = world.machine.alive
    left.rest[0].ignores_term = True
    ask(world, "cancel")
    world.kill_daemon()
    world.machine._end(last, last.leader)
    world.boot_daemon()
    assert outcomes(world) == ["running"]
    world.pass_time(6 * SECOND)
    assert outcomes(world) == ["cancelled"]
    assert not is_alive(world)


def test_a_run_that_is_removed_leaves_nothing(machine_with: MachineWith) -> None:
    """P6: what is cancelled with its job is ended, too, be the daemon there or not."""
    world = _waiting(machine_with, LEAVES)
    world.kill_daemon()
    world.jobs = {}
    world.boot_daemon()
    world.pass_time(SECOND)
    assert outcomes(world) == ["cancelled"]
    assert not is_alive(world)


@pytest.mark.parametrize("was_told", [True, False])
@pytest.mark.parametrize("is_gone", [True, False])
def test_that_nobody_knows_the_user_of_a_run_is_said(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch, *, was_told: bool, is_gone: bool
) -> None:
    """P6: whoever ends what is left of a removed job's run must not go by the stand-in's user.

    So it is where an older pycron has started it, which did not enter the user.
    """
    said = _note_users(monkeypatch)
    world = _waiting(machine_with, replace(LEAVES, rest_ignores_term=True))
    if was_told:
        ask(world, "cancel")
        assert said == [OWN]
        said.clear()
    world.kill_daemon()
    for run in world.ledger.open_runs():
        older = tuple(replace(attempt, user=None) for attempt in run.attempts)
        world.ledger.hold(replace(run, attempts=older))
    world.jobs = {} if is_gone else world.jobs
    world.boot_daemon()
    ask(world, "cancel")
    world.pass_time(JOB.kill_after + 2 * SECOND)  # nobody knows that of the job either
    assert set(said) == {NOBODY_KNOWS if is_gone else OWN}
    assert outcomes(world) == ["cancelled"]


@pytest.mark.parametrize("is_killed", [True, False])
@pytest.mark.parametrize("is_gone", [True, False])
def test_what_is_left_is_of_the_user_that_it_was_started_as(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch, *, is_gone: bool, is_killed: bool
) -> None:
    """P5, P6: whatever the crontab says of the job by now, in this daemon and in the next."""
    said = _note_users(monkeypatch)
    job = replace(RETRIED, user="first")
    world = _waiting(machine_with, replace(LEAVES, rest_ignores_term=True), job)
    (run,) = rows(world)
    assert [attempt.user for attempt in run.attempts] == ["first"]
    jobs = [] if is_gone else [replace(job, user="second")]
    if is_killed:
        world.kill_daemon()
        world.jobs = {job.name: job for job in jobs}
        world.boot_daemon()
    else:
        reload(world, *jobs)
    ask(world, "cancel")
    world.pass_time(JOB.kill_after + 2 * SECOND)
    assert set(said) == {("first", (), True)}
    assert outcomes(world) == ["cancelled"]


def test_what_is_left_is_of_the_users_of_all_attempts(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: a retry runs as the user that the crontab names by then, the first attempt did not."""
    started: list[ProcessSpec] = []
    spawn = Machine.spawn
    monkeypatch.setattr(
        Machine, "spawn", lambda self, spec: started.append(spec) or spawn(self, spec)
    )
    said = _note_users(monkeypatch)
    job = replace(RETRIED, user="first", retry=Retry(attempts=3, delay=10 * SECOND))
    world = machine_with(job)
    world.machine.behaviours["a"] = LEAVES
    world.pass_time(MINUTE + timedelta(milliseconds=500))
    reload(world, replace(job, user="second"))
    world.pass_time(14 * SECOND)
    (run,) = rows(world)
    assert [attempt.user for attempt in run.attempts] == ["first", "second"]
    assert [spec.earlier_users for spec in started] == [(), ("first",)]
    world.kill_daemon()
    world.boot_daemon()
    ask(world, "cancel")
    assert said[-1] == ("second", ("first",), True)


User = tuple[str | None, tuple[str, ...], bool]
"""What a spec says of whom its run's processes belong to."""

OWN: User = (None, (), True)
NOBODY_KNOWS: User = (None, (), False)


def _note_users(monkeypatch: pytest.MonkeyPatch) -> list[User]:
    """Have noted whose the processes are said to be with each call about what is left."""
    said: list[User] = []

    def note(name: str) -> None:
        method = getattr(FakeProcesses, name)

        def noting(
            self: FakeProcesses, spec: ProcessSpec, *args: object, **more: object
        ) -> bool | None:
            said.append((spec.user, spec.earlier_users, spec.is_user_known))
            return method(self, spec, *args, **more)

        monkeypatch.setattr(FakeProcesses, name, noting)

    note("end_rest")
    note("adopt_rest")
    return said


# --- starts that hang -----------------------------------------------------------------------------


def test_a_start_that_hangs_does_not_hold_up_a_stop(machine_with: MachineWith) -> None:
    """P4: a dead disk under one job costs a stop its limit, kill_after and a little, not more."""
    world = machine_with(JOB)
    world.machine.behaviours["a"] = Behaviour(word_takes=10 * HOUR)
    world.pass_time(MINUTE + SECOND)
    came = ask(world, "stop")
    world.pass_time(25 * SECOND)
    assert not came
    world.pass_time(5 * SECOND + JOB.kill_after + 6 * SECOND)
    assert came == ["stopped"]


def test_what_is_left_and_does_not_end_does_not_hold_up_a_stop(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, P6: whoever stops waits for that as for a start, and the next daemon goes on with it."""
    world = _waiting(machine_with, LEAVES)
    assert world.daemon is not None
    # The user database hangs, say, so nobody can look for it.
    monkeypatch.setattr(world.daemon.processes, "end_rest", lambda _spec, *, force: None)
    ask(world, "cancel")
    came = ask(world, "stop")
    world.pass_time(25 * SECOND)
    assert not came
    world.pass_time(5 * SECOND + RETRIED.kill_after + 6 * SECOND)
    assert came == ["stopped"]
    assert outcomes(world) == ["running"]
    world.kill_daemon()
    world.boot_daemon()
    world.pass_time(SECOND)
    assert outcomes(world)[0] == "cancelled"
    assert not is_alive(world)


def test_a_start_is_told_of_its_cancel(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: the runner learns of it before the start is over, so a queued one never begins."""
    world = machine_with(JOB)
    world.machine.behaviours["a"] = Behaviour(word_takes=MINUTE)
    world.pass_time(MINUTE + SECOND)
    assert world.daemon is not None
    told: list[int] = []
    monkeypatch.setattr(
        world.daemon.processes, "stop", lambda key, *, force: told.append(key.run_id)
    )
    ask(world, "cancel")
    assert told == [rows(world)[0].id]


# --- what the command itself has said -------------------------------------------------------------


@pytest.mark.parametrize("what", ["cancel", "stop"])
def test_a_command_that_has_ended_keeps_its_outcome(machine_with: MachineWith, what: str) -> None:
    """P1: ending what it left behind, for whatever reason, does not change how it ended."""
    job = replace(JOB, leftovers=Leftovers.KILL, on_stop=OnStop.TERMINATE)
    world = machine_with(job)
    world.machine.behaviours["a"] = Behaviour(
        lasts=(5 * SECOND,), leaves=(HOUR,), rest_ignores_term=True
    )
    world.pass_time(MINUTE + 6 * SECOND)
    assert outcomes(world) == ["running"]
    ask(world, what)
    world.pass_time(JOB.kill_after + 2 * SECOND)
    assert outcomes(world)[0] == "succeeded"


def test_what_a_lost_command_has_left_holds_nobody(machine_with: MachineWith) -> None:
    """B32: a service that a job has started does not keep its job from running after a crash."""
    world = machine_with(JOB)
    world.machine.behaviours["a"] = Behaviour(lasts=(30 * SECOND,), leaves=(10 * HOUR,))
    world.pass_time(MINUTE + SECOND)
    world.kill_daemon()
    world.pass_time(30 * SECOND)
    world.boot_daemon()
    (run,) = rows(world)
    assert str(run.outcome) == "lost"
    assert "left processes running" in run.reason
    world.pass_time(MINUTE)
    assert outcomes(world)[1] == "succeeded"


# --- stopping -------------------------------------------------------------------------------------


def test_a_stop_ends_what_it_finds_claimed_later(machine_with: MachineWith) -> None:
    """A run that the ledger takes only after the stop is not begun where it would be ended."""
    world = machine_with(replace(JOB, on_stop=OnStop.TERMINATE), lasts=10 * HOUR)
    world.set_trouble(FULL)
    world.pass_time(MINUTE + SECOND)
    came = ask(world, "stop")
    world.set_trouble(None)
    world.pass_time(5 * SECOND)
    assert came == ["stopped"]
    assert not world.machine.trees
    assert outcomes(world) == ["cancelled"]


# --- start_within ---------------------------------------------------------------------------------


def test_start_within_holds_across_a_restart(machine_with: MachineWith) -> None:
    """What was queued and is too late by now is skipped, not begun hours later."""
    job = replace(JOB, start_within=10 * MINUTE, missed=Missed.SKIP)
    world = machine_with(job, lasts=5 * MINUTE)
    world.pass_time(2 * MINUTE + SECOND)
    assert outcomes(world) == ["running", "queued"]
    world.kill_daemon()
    world.pass_time(10 * HOUR)
    world.boot_daemon()
    world.pass_time(SECOND)
    assert outcomes(world)[:2] == ["lost", "skipped"]
    assert "too_late" in rows(world)[1].reason


def test_start_within_of_what_is_made_up_counts_from_then(machine_with: MachineWith) -> None:
    """P1: missed = "all" makes up what is older than start_within, one after the other."""
    job = replace(JOB, start_within=10 * MINUTE, missed=Missed.ALL)
    world = machine_with(job, lasts=2 * SECOND)
    world.kill_daemon()
    world.pass_time(HOUR)
    world.boot_daemon()
    world.pass_time(3 * MINUTE)
    made_up = [run for run in rows(world) if run.cause is Cause.CATCH_UP]
    assert len(made_up) > 50
    assert {str(run.outcome) for run in made_up} == {"succeeded"}


def test_a_step_and_a_reload_make_nobody_too_late(machine_with: MachineWith) -> None:
    """Waiting is elapsed time: setting the clock takes nothing of it."""
    job = replace(JOB, start_within=90 * MINUTE, missed=Missed.SKIP)
    world = machine_with(job, lasts=30 * MINUTE)
    world.pass_time(2 * MINUTE + SECOND)
    world.set_clock(2 * HOUR)
    reload(world, job)
    world.pass_time(SECOND)
    assert outcomes(world)[:2] == ["running", "queued"]


# --- the crontab in force -------------------------------------------------------------------------


def test_the_next_attempt_goes_by_the_crontab_in_force(machine_with: MachineWith) -> None:
    """A command that was mended by a reload is what the retry runs, also of what ran meanwhile."""
    job = replace(JOB, trigger=CronTrigger(("0 * * * *",)), retry=Retry(3, MINUTE, 1.0))
    world = machine_with(job, lasts=30 * SECOND, exits=(Exit(code=1),))
    world.pass_time(HOUR - world.clock.now().minute * MINUTE + SECOND)
    reload(world, replace(job, command="mended"))
    world.pass_time(5 * MINUTE)
    commands = [tree.spec.job.command for tree in world.machine.trees if tree.spec.job]
    assert commands == ["true", "mended", "mended"]


@pytest.mark.parametrize("on_crash", OnCrash)
def test_a_run_of_a_removed_job_keeps_its_marks(
    machine_with: MachineWith, on_crash: OnCrash
) -> None:
    """P5: removed and put back while its run goes on, a job still has that one run."""
    job = replace(JOB, on_crash=on_crash)
    world = machine_with(job, lasts=10 * MINUTE)
    world.pass_time(MINUTE + SECOND)
    world.kill_daemon()
    world.jobs = {}
    world.boot_daemon()
    assert world.daemon is not None
    pools = {pool.name: pool.running for pool in world.daemon.core.status().pools}
    assert pools.get("default", 0) == 0
    reload(world, job)
    world.pass_time(MINUTE)
    assert is_alive(world) == 1


@pytest.mark.parametrize("on_crash", OnCrash)
def test_a_start_of_which_nobody_knows_is_no_failure(
    machine_with: MachineWith, on_crash: OnCrash
) -> None:
    """P2: it may have run, so what is done is up to on_crash, and not to retry."""
    job = replace(JOB, retry=Retry(3, SECOND, 1.0), on_crash=on_crash)
    world = machine_with(job, lasts=SECOND)
    world.machine.behaviours[JOB.name] = Behaviour(word_takes=HOUR)
    world.pass_time(MINUTE)
    assert world.daemon is not None
    (run,) = rows(world)
    unknown = StartFailed(AttemptKey(run.id, 1), "who knows", world.clock.now(), is_unknown=True)
    world.machine.behaviours[JOB.name] = Behaviour()
    world.daemon.core.handle([unknown])
    world.pass_time(10 * SECOND)
    (run,) = rows(world)
    first, *others = run.attempts
    assert (first.outcome, first.reason) == ("lost", "who knows")
    if on_crash is OnCrash.LOST:
        assert (run.outcome, run.reason, others) == ("lost", "who knows", [])
    else:
        assert (run.outcome, len(others)) == ("succeeded", 1)


def test_an_attempt_has_ended_when_that_was_seen(machine_with: MachineWith) -> None:
    """Not when the engine, held up by a slow disk, came to deal with it."""
    world = machine_with(JOB, lasts=HOUR)
    world.pass_time(MINUTE)
    assert world.daemon is not None
    (run,) = rows(world)
    seen_at = world.clock.now()
    world.clock.advance_ns(5_000_000_000)
    world.daemon.core.handle([Ended(AttemptKey(run.id, 1), Exit(code=0), seen_at)])
    (run,) = rows(world)
    assert run.attempts[0].finished_at == seen_at
    assert run.outcome == "succeeded"


def test_a_start_of_which_nobody_knows_is_looked_for_when_it_is_cancelled(
    machine_with: MachineWith,
) -> None:
    """P6: it is not said that all has ended of what nobody has seen."""
    world = machine_with(JOB, lasts=HOUR)
    world.machine.behaviours[JOB.name] = Behaviour(lasts=(HOUR,), word_takes=HOUR)
    world.pass_time(MINUTE)
    assert world.daemon is not None
    (run,) = rows(world)
    ask(world, "cancel")
    unknown = StartFailed(AttemptKey(run.id, 1), "who knows", world.clock.now(), is_unknown=True)
    world.daemon.core.handle([unknown])
    (run,) = rows(world)
    assert (run.outcome, run.state) == (None, "running"), "what it may have left is looked for"
    assert run.attempts[0].reason == "cancelled on request; who knows"
