"""What a restarted daemon takes up first: what survives counts before anything is started."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from crond_py.crontab.model import AfterTrigger, AtTrigger, CronTrigger, Job
from crond_py.errors import LedgerError
from crond_py.model import Condition, OnCrash, Overlap, Retry
from crond_py.ports import Survivor
from tests.simulation.fakes import Behaviour, FakeProcesses
from tests.simulation.jobs import BEGIN
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, is_alive, outcomes, rows

HOUR = timedelta(hours=1)
AT_ONCE = AtTrigger(BEGIN + SECOND)
MINUTELY = CronTrigger(("* * * * *",))
JOB = Job("a", AT_ONCE, "true", timezone="UTC")


def lose(world: World, job: str) -> None:
    """Let a job's processes end while no daemon is there."""
    for tree in list(world.machine.alive):
        if tree.job == job:
            world.machine._end(tree, tree.leader)


def test_a_survivor_has_its_slot_before_another_run_is_run_again(
    machine_with: MachineWith,
) -> None:
    """P4: in a pool that has become small, what is run again waits for what is still there."""
    again = replace(JOB, pool="small", on_crash=OnCrash.RERUN)
    world = machine_with(again, replace(again, name="b"), lasts=60 * SECOND)
    world.pass_time(2 * SECOND)
    world.kill_daemon()
    lose(world, "a")
    world.pools["small"] = 1
    world.boot_daemon()
    assert is_alive(world, "b") == 1
    assert outcomes(world) == ["queued"]
    world.pass_time(60 * SECOND)
    assert is_alive(world) == 1


def test_a_follower_counts_its_own_runs_before_a_new_one_comes(
    machine_with: MachineWith,
) -> None:
    """P5: an outcome that is found at a restart starts no second run of the job that follows."""
    head = replace(JOB, name="head", trigger=MINUTELY)
    retry = Retry(3, 90 * SECOND, 1.0)
    follower = replace(
        JOB,
        trigger=AfterTrigger({"head": Condition.ANY}),
        overlap=Overlap.QUEUE,
        retry=retry,
        timeout=5 * SECOND,
    )
    world = machine_with(head, follower, lasts=30 * SECOND)
    world.machine.behaviours["head"] = Behaviour(lasts=(10 * SECOND,))
    world.pass_time(2 * 60 * SECOND + 5 * SECOND)  # one has timed out, the next head's run goes on
    assert outcomes(world) == ["waiting_retry"]
    world.kill_daemon()
    lose(world, "head")
    world.boot_daemon()
    assert outcomes(world) == ["waiting_retry", "queued"]
    assert is_alive(world) == 0


def test_what_is_too_late_gets_no_slot(machine_with: MachineWith) -> None:
    """A run that was given up before the ledger had it begins no attempt."""
    holder = replace(JOB, pool="tiny")
    late = replace(JOB, name="b", trigger=AtTrigger(BEGIN + 2 * SECOND), pool="tiny")
    world = machine_with(holder, replace(late, start_within=3 * SECOND), lasts=10 * SECOND)
    world.pass_time(SECOND + SECOND / 2)
    assert is_alive(world) == 1
    world.set_trouble(LedgerError("disk full"))
    world.pass_time(15 * SECOND)
    world.set_trouble(None)
    world.pass_time(2 * SECOND)
    (run,) = rows(world, "b")
    assert (str(run.outcome), run.attempts) == ("skipped", ())


def test_a_timeout_counts_elapsed_time(machine_with: MachineWith) -> None:
    """A clock that is set just after the start makes the timeout no shorter."""
    world = machine_with(replace(JOB, timeout=5 * SECOND), lasts=60 * SECOND)
    slow = Behaviour(lasts=(60 * SECOND,), word_takes=SECOND)
    world.machine.behaviours["a"] = slow
    world.pass_time(SECOND)
    (tree,) = world.machine.alive
    world.set_clock(3 * SECOND)
    world.pass_time(10 * SECOND)
    assert tree.leader.ended_ns is not None
    lasted = (tree.leader.ended_ns - tree.leader.started_ns) / 1e9
    assert 4.98 <= lasted <= 5.0


@pytest.mark.parametrize("tells_boot", [True, False])
def test_a_process_without_marks_is_adopted_by_what_the_ledger_has(
    machine_with: MachineWith, tells_boot: bool
) -> None:
    """P1, P5: but not where its numbers may be those of a process of an earlier boot."""
    world = machine_with(replace(JOB, timeout=30 * SECOND), lasts=60 * SECOND)
    world.machine.behaviours["a"] = Behaviour(lasts=(60 * SECOND,), sheds_marks=True)
    world.tells_boot = tells_boot
    world.pass_time(5 * SECOND)
    world.kill_daemon()
    world.boot_daemon()
    assert outcomes(world) == ["running" if tells_boot else "lost"]
    world.pass_time(30 * SECOND)
    assert outcomes(world) == ["timed_out" if tells_boot else "lost"]
    assert is_alive(world) == (0 if tells_boot else 1), "it is not ended for another"


def test_a_process_whose_start_was_not_entered_is_not_taken_for_another(
    machine_with: MachineWith,
) -> None:
    """P1, P5: it goes on and holds its job; how it ended nobody can say, not even its exit status.

    What looks like it may be a child of it in a session of its own.
    """
    world = machine_with(replace(JOB, trigger=MINUTELY), lasts=90 * SECOND)
    world.machine.behaviours["a"] = Behaviour(lasts=(90 * SECOND,), word_takes=SECOND / 2)
    world.machine.tells_exits = True
    world.pass_time(60 * SECOND + SECOND / 4)
    world.kill_daemon()
    world.boot_daemon()
    assert outcomes(world) == ["running"]
    world.pass_time(65 * SECOND)
    assert outcomes(world) == ["running", "skipped"]
    assert is_alive(world) == 1
    world.pass_time(30 * SECOND)
    assert outcomes(world)[0] == "lost"


def test_runs_of_a_removed_job_are_shown(machine_with: MachineWith) -> None:
    """P1: what still runs of a job that is no longer in the crontab can be seen."""
    world = machine_with(JOB, lasts=60 * SECOND)
    world.pass_time(2 * SECOND)
    world.kill_daemon()
    world.jobs = {}
    world.boot_daemon()
    assert world.daemon is not None
    (removed,) = world.daemon.core.status().removed
    assert [run.job for run in removed.active] == ["a"]
    assert not world.daemon.core.status().jobs


def test_a_run_that_is_replaced_while_it_is_found_has_one_outcome(
    machine_with: MachineWith,
) -> None:
    """P1: a follower's run that timed out during the crash, and is replaced at the restart."""
    head = replace(JOB, name="head", trigger=MINUTELY, overlap=Overlap.ALLOW)
    follower = replace(
        JOB,
        trigger=AfterTrigger({"head": Condition.ANY}),
        overlap=Overlap.REPLACE,
        retry=Retry(3, 90 * SECOND, 1.0),
        timeout=20 * SECOND,
        kill_after=20 * SECOND,
    )
    world = machine_with(head, follower, lasts=300 * SECOND, ignores_term=True)
    world.machine.behaviours["head"] = Behaviour(lasts=(45 * SECOND,))
    world.pass_time(90 * SECOND)  # the first head's run ends soon, the second goes on for long
    world.machine.behaviours["head"] = Behaviour(lasts=(300 * SECOND,))
    world.pass_time(40 * SECOND)
    (run,) = rows(world)
    assert str(run.attempts[0].stopping) == "timed_out"
    world.kill_daemon()
    lose(world, "head")
    lose(world, "a")
    world.boot_daemon()
    first, second = rows(world)
    assert (str(first.outcome), str(first.attempts[0].outcome)) == ("cancelled", "timed_out")
    assert first.reason.startswith("replaced by")
    assert str(second.state) == "running"
    assert world.daemon is not None
    assert len(world.daemon.core._register.runs) == 1


def test_a_helper_of_the_same_tick_is_not_taken_for_the_command(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: what began in the same clock tick has another pid, and its exit is not the command's."""
    world = machine_with(JOB, lasts=10 * SECOND)
    world.machine.behaviours["a"] = Behaviour(lasts=(10 * SECOND,), leaves=(HOUR,))
    world.pass_time(2 * SECOND)
    world.kill_daemon()
    world.pass_time(20 * SECOND)
    found = FakeProcesses.survivors

    def like_the_command(self: FakeProcesses, identity: str) -> list[Survivor]:
        ticks = world.machine.trees[0].leader.ticks
        return [replace(each, start_ticks=ticks, leader=True) for each in found(self, identity)]

    monkeypatch.setattr(FakeProcesses, "survivors", like_the_command)
    world.boot_daemon()
    assert outcomes(world) == ["lost"]
