"""Runs of submitted tasks that wait long for their retry: in the ledger, and not in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from random import Random
from typing import Any

import pytest

from crond_py.crontab.model import Job, StartupTrigger
from crond_py.engine.core import Core
from crond_py.engine.events import Call
from crond_py.engine.parked import ParkedRuns
from crond_py.errors import EndedAlreadyError, LedgerError, PycronError, RequestRefusedError
from crond_py.model import Exit, Lane, Outcome, Retry, Run, Scale, Task, task_job
from crond_py.ports import NewTask, RunQuery
from tests.simulation.fakes import Behaviour
from tests.simulation.tasks import MOST_WAITING
from tests.simulation.world import World
from tests.unit.engine.conftest import outcomes, rows

SECOND = timedelta(seconds=1)
HOUR = timedelta(hours=1)
PLAIN = Job("plain", StartupTrigger(), "true", kill_after=2 * SECOND)
FAILING = replace(PLAIN, retry=Retry(3, HOUR, 1.0))
FAILS, SUCCEEDS = Exit(code=1), Exit(code=0)

MakeWorld = Callable[..., World]


@pytest.fixture
def world_with() -> MakeWorld:
    """Give a function that boots a daemon that may keep some waiting runs in memory."""

    def boot(most_retries: int = 0) -> World:
        world = World(0)
        world.most_retries = most_retries
        world.boot_daemon()
        return world

    return boot


@pytest.fixture
def world(world_with: MakeWorld) -> World:
    """Give a daemon that keeps no waiting run in memory."""
    return world_with()


def core_of(world: World) -> Core:
    """Return the daemon's state machine."""
    assert world.daemon is not None
    return world.daemon.core


def submit(
    world: World,
    number: int = 1,
    job: Job = FAILING,
    *,
    exit_: Exit = FAILS,
    in_: timedelta = SECOND,
    pool: str = "default",
    scale: Scale = Scale.WALL,
) -> list[int]:
    """Hand in tasks whose processes end so, and return their ids."""
    task = NewTask(
        Lane(pool, 0, "alice", scale), world.clock.now() + in_, world.tasks.define(job), "alice"
    )
    answer = world.ask(lambda core: core.submit([task] * number))
    assert isinstance(answer, list), answer
    ids = [each.task.id for each in answer]
    end_with(world, exit_, *ids)
    return ids


def end_with(world: World, exit_: Exit, *ids: int) -> None:
    """Have the processes of tasks end so."""
    for each in ids:
        world.machine.behaviours[task_job(each)] = Behaviour(exits=(exit_,))


def in_memory(world: World) -> int:
    """Return how many runs the engine holds."""
    return len(core_of(world)._register.runs)


def parked(world: World) -> int:
    """Return how many runs are parked, as the status tells."""
    return core_of(world).status().tasks.parked


def states(world: World) -> list[str]:
    """Return how all runs ended, or where they stand, oldest first."""
    runs = sorted(world.ledger.runs(RunQuery(limit=None)), key=lambda run: run.id)
    return [str(run.outcome or run.state) for run in runs]


def restart(world: World, after: timedelta = SECOND) -> None:
    """Kill the daemon, and start another one a while later."""
    world.kill_daemon()
    world.pass_time(after)
    world.boot_daemon()


def ask(world: World, question: Callable[[Core], Any]) -> Any:
    """Return the answer to a request, or raise what it was refused with."""
    answer = world.ask(question)
    if isinstance(answer, PycronError):
        raise answer
    return answer


# --- letting go ----------------------------------------------------------------------------------


def test_of_those_that_wait_for_their_retry_a_few_stay_in_memory(world_with: MakeWorld) -> None:
    """P4: memory does not grow with the number of tasks that fail."""
    world = world_with(2)
    submit(world, 50)
    world.pass_time(10 * SECOND)
    assert states(world) == ["waiting_retry"] * 50
    core = core_of(world)
    assert (in_memory(world), len(core._register.tasks), parked(world)) == (2, 2, 48)
    assert [run.id for run in core.status().tasks.runs] == [1, 2]
    assert world.daemon is not None
    assert len(world.daemon.timers.items()) == 3  # those of the two, and the lane's
    world.pass_time(3 * HOUR)
    assert states(world) == ["failed"] * 50
    assert {len(run.attempts) for run in world.ledger.runs(RunQuery(limit=None))} == {3}
    assert (in_memory(world), core._tasks._lanes, parked(world)) == (0, {}, 0)


def test_one_that_has_its_place_in_memory_gives_it_back(world_with: MakeWorld) -> None:
    """Whatever becomes of it: another one that fails later stays in memory then."""
    world = world_with(1)
    submit(world)
    world.pass_time(5 * SECOND)
    ask(world, lambda core: core.cancel_run(1))
    submit(world, 2)
    world.pass_time(5 * SECOND)
    assert (in_memory(world), parked(world)) == (1, 1)


def test_a_short_delay_is_waited_for_in_memory(world: World) -> None:
    """It is not worth the while."""
    submit(world, 3, replace(PLAIN, retry=Retry(2, SECOND / 2)))
    world.pass_time(2 * SECOND + SECOND / 4)
    assert states(world) == ["waiting_retry"] * 3
    assert (in_memory(world), parked(world)) == (3, 0)


def test_a_task_that_comes_again_stays_in_memory(world: World) -> None:
    """P5: its next occurrence is up to its overlap policy."""
    lane = Lane("default", 0, "alice", Scale.STEADY)
    due = world.clock.now() + SECOND
    task = NewTask(lane, due, world.tasks.define(FAILING), "alice", 60 * SECOND)
    ask(world, lambda core: core.submit([task]))
    end_with(world, FAILS, 1)
    world.pass_time(100 * SECOND)
    assert outcomes(world, "task:1") == ["waiting_retry", "skipped"]


def test_nothing_is_parked_that_the_ledger_does_not_have(world: World) -> None:
    """P8: while it takes nothing, a run stays in memory."""
    submit(world, 3)
    world.pass_time(SECOND + SECOND / 2)
    world.set_trouble(LedgerError("disk full"))
    world.pass_time(10 * SECOND)
    assert (in_memory(world), parked(world)) == (3, 0)
    world.set_trouble(None)
    world.pass_time(2 * SECOND)
    assert (in_memory(world), parked(world)) == (0, 3)


def test_one_that_is_cancelled_before_the_ledger_has_it_is_not_parked(world: World) -> None:
    """P6: it has its outcome, and does not come again."""
    submit(world)
    world.pass_time(SECOND + SECOND / 2)
    world.set_trouble(LedgerError("disk full"))
    world.pass_time(10 * SECOND)
    with pytest.raises(RequestRefusedError):
        ask(world, lambda core: core.cancel_run(1))
    world.set_trouble(None)
    world.pass_time(5 * HOUR)
    assert (states(world), len(world.machine.trees), parked(world)) == (["cancelled"], 1, 0)


def test_one_that_is_tried_again_before_the_ledger_has_it_is_not_parked(world: World) -> None:
    """P2: its next attempt has begun in memory, and is the only one."""
    submit(world, 1, replace(PLAIN, retry=Retry(2, 10 * SECOND)))
    world.pass_time(SECOND + SECOND / 2)
    world.set_trouble(LedgerError("disk full"))
    world.pass_time(30 * SECOND)
    world.set_trouble(None)
    world.machine.behaviours["task:1"] = Behaviour(lasts=(20 * SECOND,))
    world.pass_time(10 * SECOND)
    assert (states(world), in_memory(world), parked(world)) == (["running"], 1, 0)
    world.pass_time(60 * SECOND)
    assert (states(world), len(world.machine.trees)) == (["succeeded"], 2)


# --- taking up -----------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", Scale)
def test_a_parked_retry_begins_at_its_time(world: World, scale: Scale) -> None:
    """P4: neither sooner nor later than it would from memory, as the next attempt."""
    submit(world, scale=scale)
    world.pass_time(3 * SECOND)
    (run,) = rows(world, "task:1")
    end_with(world, SUCCEEDS, 1)
    world.pass_time(2 * HOUR)
    (first, second) = world.machine.trees
    assert first.ended_at is not None
    assert second.started_at == run.retry_at == first.ended_at + HOUR
    (run,) = rows(world, "task:1")
    assert (run.outcome, [a.number for a in run.attempts]) == (Outcome.SUCCEEDED, [1, 2])


def test_retries_of_one_lane_begin_in_the_order_of_their_deadlines(world: World) -> None:
    """Whatever the order is in which the tasks were handed in."""
    for minutes in (50, 10, 30, 20, 40):
        submit(world, 1, replace(PLAIN, retry=Retry(2, timedelta(minutes=minutes))))
    world.pass_time(5 * SECOND)
    assert parked(world) == 5
    world.pass_time(HOUR)
    begun = [tree.job for tree in world.machine.trees[5:]]
    assert begun == ["task:2", "task:4", "task:3", "task:5", "task:1"]


def test_retries_that_are_due_together_wait_in_the_ledger(world: World) -> None:
    """P4: no more of them are in memory than of tasks that wait for a slot; none is forgotten."""
    ids = submit(world, 60, pool="small", in_=SECOND)
    lasting = Behaviour(lasts=(SECOND,), exits=(FAILS,))
    world.machine.behaviours.update({task_job(each): lasting for each in ids})
    world.pass_time(40 * SECOND)
    assert parked(world) == 60
    restart(world)  # whose delays have become one
    end_with(world, SUCCEEDS, *ids)
    world.freeze(2 * HOUR)
    for _ in range(32):
        world.pass_time(SECOND)
        assert in_memory(world) <= MOST_WAITING + 2
    assert states(world) == ["succeeded"] * 60


def test_what_waits_for_a_slot_in_the_ledger_is_told(world: World) -> None:
    """P8: a pool counts retries that are due and not taken up, and since when."""
    ids = submit(world, 20, pool="tiny")
    world.pass_time(30 * SECOND)
    for each in ids:
        world.machine.behaviours[task_job(each)] = Behaviour(lasts=(HOUR,))
    world.pass_time(HOUR + 30 * SECOND)
    pools = {pool.name: pool for pool in core_of(world).status().pools}
    assert (pools["tiny"].running, pools["tiny"].waiting) == (1, 19)
    assert in_memory(world) <= MOST_WAITING + 1


def test_retries_go_before_tasks_that_were_due_later(world: World) -> None:
    """Their occurrence is the older one."""
    (failed,) = submit(world, pool="tiny")
    world.pass_time(10 * SECOND)
    (run,) = rows(world, task_job(failed))
    assert run.retry_at is not None
    # Nothing of the lane has a slot before the retry is due; then there is one, and many want it.
    (holder,) = submit(world, 1, PLAIN, pool="tiny", in_=HOUR - 30 * SECOND)
    world.machine.behaviours[task_job(holder)] = Behaviour(lasts=(60 * SECOND,))
    many = submit(world, 3 * MOST_WAITING, PLAIN, pool="tiny", in_=HOUR - 5 * SECOND)
    end_with(world, SUCCEEDS, failed, *many)
    world.pass_time(HOUR + 100 * SECOND)
    begun = [tree.job for tree in world.machine.trees]
    place = begun.index(task_job(failed), 1)
    assert place <= 2 + MOST_WAITING  # those that waited in memory before it was due


def test_what_is_known_of_earlier_attempts_is_known_again(world: World) -> None:
    """P6: whose their processes were, how many were lost, and that an earlier daemon began one."""
    job = replace(FAILING, user="alice", retry=Retry(5, HOUR, 1.0))
    submit(world, 1, job)
    world.pass_time(5 * SECOND)
    world.tasks.jobs[0] = replace(job, user="bob")
    world.machine.behaviours["task:1"] = Behaviour(lasts=(30 * SECOND,))
    world.pass_time(HOUR)
    (active,) = core_of(world)._register.runs.values()
    assert (active.attempt_number, active.earlier_users, active.lost) == (2, {"alice"}, 0)
    assert not active.is_taken_over
    end_with(world, FAILS, 1)
    world.pass_time(60 * SECOND)
    world.machine.behaviours["task:1"] = Behaviour(lasts=(HOUR,))
    restart(world)
    assert parked(world) == 0  # it has succeeded meanwhile
    assert states(world) == ["succeeded"]


def test_attempts_of_an_earlier_daemon_are_known_as_such(world: World) -> None:
    """What has shed all its marks is not seen then, and whoever cancels is told so."""
    submit(world)
    world.pass_time(5 * SECOND)
    restart(world)
    submit(world)
    world.pass_time(5 * SECOND)
    assert (in_memory(world), parked(world)) == (0, 2)
    old, new = (ask(world, lambda core, n=n: core.cancel_run(n)) for n in (1, 2))
    assert (old.is_taken_over, new.is_taken_over) == (True, False)


def test_the_next_attempt_goes_by_the_crontab_in_force(world: World) -> None:
    """As it would after a restart."""
    submit(world)
    world.pass_time(5 * SECOND)
    world.tasks.jobs[0] = replace(FAILING, retry=Retry(2, HOUR))
    world.pass_time(5 * HOUR)
    (run,) = rows(world, "task:1")
    assert (run.outcome, len(run.attempts)) == (Outcome.FAILED, 2)


def test_one_whose_definition_does_not_fit_any_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: it has its outcome and the reason, as after a restart, and nobody's slot."""
    submit(world)
    world.pass_time(5 * SECOND)

    def refuse(_task: Task) -> Job:
        raise PycronError("no such group")

    monkeypatch.setattr(type(world.tasks), "job", lambda _self, task: refuse(task))
    world.pass_time(2 * HOUR)
    (run,) = rows(world, "task:1")
    assert run.outcome is Outcome.CANCELLED
    assert "no such group" in run.reason
    core = core_of(world)
    assert (in_memory(world), core._register.tasks, core._register.states) == (0, {}, {})


def test_retries_while_the_ledger_cannot_be_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: they begin when it can be, and that they wait is said."""
    submit(world, 3)
    world.pass_time(5 * SECOND)
    end_with(world, SUCCEEDS, 1, 2, 3)

    def fail(_run_id: int) -> Run:
        raise LedgerError("the ledger cannot be read: I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(world.ledger, "run", fail)
        world.clock.advance(HOUR)
        world.drain()
        for _ in range(5):
            world.clock.advance(SECOND)
            world.drain()
        assert len(world.machine.trees) == 3
        (trouble,) = core_of(world).status().troubles
        assert "I/O error" in trouble
    world.pass_time(3 * SECOND)
    assert states(world) == ["succeeded"] * 3
    assert core_of(world).status().troubles == ()


def test_one_that_the_ledger_has_lost_holds_up_no_other(world: World) -> None:
    """P8: nobody can begin it, and the others go on."""
    submit(world, 2)
    world.pass_time(5 * SECOND)
    end_with(world, SUCCEEDS, 2)
    del world.ledger._content.runs[1]
    world.pass_time(2 * HOUR)
    assert states(world) == ["succeeded"]
    assert (in_memory(world), parked(world)) == (0, 0)


# --- pools, reloads, restarts, the clock ---------------------------------------------------------


def test_retries_of_a_pool_that_is_gone_wait_until_it_is_back(world: World) -> None:
    """P4, P8: they wait in the ledger, that is told, and then they begin."""
    submit(world, 3, pool="small")
    world.pass_time(10 * SECOND)
    end_with(world, SUCCEEDS, 1, 2, 3)
    del world.pools["small"]
    world.reload()
    (later,) = submit(world, 1, PLAIN, pool="small", in_=9 * HOUR)
    world.pass_time(2 * HOUR)
    ask(world, lambda core: core.cancel_task(later))  # which has a look at what is due
    world.pass_time(5 * SECOND)
    assert (len(world.machine.trees), in_memory(world)) == (3, 0)
    (trouble,) = core_of(world).status().troubles
    assert trouble.startswith("submitted tasks (3) wait for the pool small")
    world.pools["small"] = 2
    world.reload()
    world.pass_time(5 * SECOND)
    assert states(world) == [*["succeeded"] * 3, "cancelled"]
    assert core_of(world).status().troubles == ()


@pytest.mark.parametrize("most", [0, 2])
def test_a_restart_parks_them_at_once(world_with: MakeWorld, most: int) -> None:
    """P1, P4: a daemon that finds many has no more of them in memory, and begins all in time."""
    world = world_with(most)
    submit(world, 20, pool="small")
    world.pass_time(60 * SECOND)
    dues = [run.retry_at for run in world.ledger.open_runs()]
    restart(world)
    assert (in_memory(world), parked(world)) == (most, 20 - most)
    ids = [run.id for run in core_of(world).status().tasks.runs]
    assert ids == list(range(1, most + 1))
    end_with(world, SUCCEEDS, *range(1, 21))
    world.pass_time(2 * HOUR)
    assert states(world) == ["succeeded"] * 20
    begun = [run.attempts[1].started_at for run in world.ledger.runs(RunQuery(limit=None))]
    assert min(filter(None, begun)) == min(filter(None, dues))


def test_retries_that_were_due_while_no_daemon_was_there(world: World) -> None:
    """P4: they begin at once, and no more are in memory than may wait for a slot."""
    ids = submit(world, 60, pool="small")
    world.pass_time(60 * SECOND)
    end_with(world, SUCCEEDS, *ids)
    restart(world, 5 * HOUR)
    world.pass_time(SECOND / 2)
    assert states(world).count("running") == 2
    for _ in range(32):
        assert in_memory(world) <= MOST_WAITING + 2
        world.pass_time(SECOND)
    assert states(world) == ["succeeded"] * 60


def test_a_delay_is_not_longer_for_a_clock_that_was_set_back_meanwhile(world: World) -> None:
    """P4: nobody was there to see it; a retry waits for its own delay at most."""
    submit(world, 3)
    world.pass_time(5 * SECOND)
    end_with(world, SUCCEEDS, 1, 2, 3)
    world.kill_daemon()
    world.set_clock(-24 * HOUR)
    world.boot_daemon()
    world.pass_time(HOUR - 10 * SECOND)
    assert states(world) == ["waiting_retry"] * 3
    world.pass_time(20 * SECOND)
    assert states(world) == ["succeeded"] * 3


def test_a_restart_cancels_what_its_tasks_definition_is_lost_of(world: World) -> None:
    """P1: as it does with what is not parked."""
    submit(world)
    world.pass_time(5 * SECOND)
    world.ledger._content.tasks.by_id.clear()
    restart(world)
    assert states(world) == ["cancelled"]


@pytest.mark.parametrize("step", [-2 * HOUR, 2 * HOUR, timedelta(days=3650)])
def test_a_delay_is_elapsed_time(world: World, step: timedelta) -> None:
    """It does not matter what the wall clock is set to."""
    submit(world)
    world.pass_time(5 * SECOND)
    end_with(world, SUCCEEDS, 1)
    first_ns = world.clock.monotonic_ns()
    world.set_clock(step)
    world.pass_time(HOUR - 10 * SECOND)
    assert len(world.machine.trees) == 1
    world.pass_time(20 * SECOND)
    (_, second) = world.machine.trees
    late = second.leader.started_ns - first_ns - 3600 * 10**9
    assert abs(late) < 5 * 10**9
    assert states(world) == ["succeeded"]


def test_no_retry_begins_while_the_daemon_stops(world: World) -> None:
    """P1: it is the next daemon's."""
    submit(world)
    world.pass_time(5 * SECOND)
    (slow,) = submit(world, 1, PLAIN, exit_=SUCCEEDS)
    world.machine.behaviours[task_job(slow)] = Behaviour(lasts=(2 * HOUR,))
    world.pass_time(2 * SECOND)
    world.stop(None)
    world.pass_time(HOUR + 60 * SECOND)
    assert world.daemon is not None
    assert len(world.machine.trees) == 2
    world.pass_time(HOUR)
    assert world.daemon is None
    end_with(world, SUCCEEDS, 1)
    world.boot_daemon()
    world.pass_time(5 * SECOND)
    assert states(world) == ["succeeded"] * 2


def test_a_parked_run_is_not_forgotten_with_old_tasks(world: World) -> None:
    """P1: its task has ended long ago, and is kept as long as its run has no outcome."""
    submit(world)
    world.pass_time(5 * SECOND)
    later = world.clock.now() + timedelta(days=365)
    assert world.ledger.prune_tasks(older_than=later, limit=10).runs == 0
    world.pass_time(3 * HOUR)
    assert states(world) == ["failed"]


# --- cancels, and who waits ----------------------------------------------------------------------


@pytest.mark.parametrize("is_by_run", [True, False], ids=["run", "task"])
def test_a_parked_run_is_cancelled(world: World, *, is_by_run: bool) -> None:
    """P6: with what its attempts have left, and it does not come again."""
    submit(world, 3)
    world.machine.behaviours["task:2"] = Behaviour(exits=(FAILS,), leaves=(3 * HOUR,))
    world.pass_time(5 * SECOND)
    if is_by_run:
        cancelled = ask(world, lambda core: core.cancel_run(2))
    else:
        (cancelled,) = ask(world, lambda core: core.cancel_task(2))
    assert (cancelled.run_id, cancelled.job, cancelled.was) == (2, "task:2", "waiting_retry")
    world.pass_time(5 * SECOND)
    assert (states(world)[1], world.machine.alive, parked(world)) == ("cancelled", [], 2)
    with pytest.raises(EndedAlreadyError):
        ask(world, lambda core: core.cancel_run(2))
    with pytest.raises(EndedAlreadyError):
        ask(world, lambda core: core.cancel_task(2))
    world.pass_time(3 * HOUR)
    assert states(world) == ["failed", "cancelled", "failed"]
    assert len(rows(world, "task:2")[0].attempts) == 1


def test_a_cancel_that_the_ledger_cannot_take_is_not_forgotten(world: World) -> None:
    """P6, P8: nobody finds the run parked again, though for the ledger it still waits."""
    submit(world)
    world.pass_time(5 * SECOND)
    world.set_trouble(LedgerError("disk full"))
    with pytest.raises(RequestRefusedError):
        ask(world, lambda core: core.cancel_run(1))
    world.pass_time(5 * SECOND)
    with pytest.raises(EndedAlreadyError):
        ask(world, lambda core: core.cancel_run(1))
    with pytest.raises(EndedAlreadyError):
        ask(world, lambda core: core.cancel_task(1))
    assert (in_memory(world), parked(world)) == (0, 0)
    world.pass_time(2 * HOUR)
    world.set_trouble(None)
    world.pass_time(2 * HOUR)
    assert (states(world), len(world.machine.trees)) == (["cancelled"], 1)


def test_a_lane_whose_last_parked_run_is_cancelled_is_let_go_of(world: World) -> None:
    """Nothing of it stays in memory."""
    submit(world)
    world.pass_time(5 * SECOND)
    ask(world, lambda core: core.cancel_task(1))
    world.pass_time(5 * SECOND)
    assert core_of(world)._tasks._lanes == {}
    assert world.daemon is not None
    assert world.daemon.timers.items() == []


@pytest.mark.parametrize("is_early", [True, False], ids=["before", "after"])
def test_who_waits_for_a_run_is_told_of_its_end(world: World, *, is_early: bool) -> None:
    """P1: whether it began to wait before the run was parked, or after that."""
    seen: list[Run] = []
    given_up: list[Run] = []
    submit(world)
    world.pass_time(SECOND + SECOND / 2 if is_early else 10 * SECOND)
    ask(world, lambda core: core.on_end(1, seen.append))
    forgotten = given_up.append
    ask(world, lambda core: core.on_end(1, forgotten))
    world.pass_time(HOUR / 2)
    assert (parked(world), in_memory(world), seen) == (1, 0, [])
    ask(world, lambda core: core.forget_end(1, forgotten))
    world.pass_time(3 * HOUR)
    assert ([run.outcome for run in seen], given_up) == ([Outcome.FAILED], [])
    assert core_of(world)._parking._awaited == {}


def test_who_waits_for_a_cancelled_run_is_told(world: World) -> None:
    """P1: at once."""
    seen: list[Run] = []
    submit(world)
    world.pass_time(10 * SECOND)
    ask(world, lambda core: core.on_end(1, seen.append))
    ask(world, lambda core: core.cancel_run(1))
    world.pass_time(5 * SECOND)
    assert [run.outcome for run in seen] == [Outcome.CANCELLED]


@pytest.mark.parametrize("is_early", [True, False], ids=["before", "after"])
def test_who_waits_for_a_task_is_told_of_its_end(world: World, *, is_early: bool) -> None:
    """P1: a task whose run is parked is not over."""
    seen: list[Run | None] = []
    submit(world)
    world.pass_time(SECOND / 2 if is_early else 10 * SECOND)
    core = core_of(world)
    core.handle([Call(lambda: core.task_ends.wait(1, seen.append))])
    world.pass_time(HOUR)
    assert (parked(world), seen) == (1, [])
    world.pass_time(2 * HOUR)
    assert [run.outcome for run in seen if run is not None] == [Outcome.FAILED]


# --- the heap ------------------------------------------------------------------------------------


def test_parked_runs_against_a_plain_list() -> None:
    """The heap tells the same as a sorted list, whatever goes from its middle."""
    random = Random(5)
    runs = ParkedRuns()
    known: dict[int, int] = {}
    for run_id in range(1, 2000):
        deadline_ns = random.choice((random.randrange(10**18), 10**17))
        runs.add(deadline_ns, run_id)
        known[run_id] = deadline_ns
        if random.random() < 0.3:
            gone = random.choice(list(known))
            runs.remove(gone)
            del known[gone]
        first_ns = min(known.values(), default=None)
        assert (len(runs), runs.first_ns) == (len(known), first_ns)
        if random.random() < 0.4 and known:
            assert first_ns is not None
            assert runs.first_due(first_ns - 1) is None
            due = runs.first_due(first_ns)
            assert due is not None
            assert known.pop(due) == first_ns
            runs.pop()
    assert sorted(runs) == sorted(known)
    now_ns = 5 * 10**17
    number = sum(deadline_ns <= now_ns for deadline_ns in known.values())
    assert number > 3
    assert runs.number_due(now_ns, 10**6) == number
    assert runs.number_due(now_ns, 3) == 3
    assert bool(runs)
    for run_id in known:
        runs.remove(run_id)
    assert (len(runs), runs.first_ns, runs.number_due(now_ns, 3), bool(runs)) == (0, None, 0, False)


def test_a_run_that_went_may_be_parked_again() -> None:
    """With the deadline that it has then, and no other."""
    runs = ParkedRuns()
    for run_id in range(1, 10):
        runs.add(run_id, run_id)
    runs.remove(5)
    runs.add(100, 5)
    assert (len(runs), sorted(runs)) == (9, list(range(1, 10)))
    assert runs.number_due(99, 100) == 8
