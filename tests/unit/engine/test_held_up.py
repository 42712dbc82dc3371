"""A slow disk: what becomes due while the engine waits for it is started late, not missed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from crond_py.crontab.model import CronTrigger, EveryTrigger, Job, Trigger
from crond_py.engine.events import TimersFired
from crond_py.ledger.memory import MemoryLedger
from crond_py.model import Cause, Missed, Overlap
from crond_py.ports import Write
from tests.simulation.world import World
from tests.unit.engine.conftest import SECOND, MachineWith, rows

MINUTELY = Job(
    "a", CronTrigger(("* * * * *",)), "true", timezone="UTC", missed=Missed.SKIP, queue_limit=100
)
EACH_SECOND = replace(MINUTELY, trigger=CronTrigger(("* * * * * *",)), overlap=Overlap.ALLOW)
HELD_UP = 'pycron was held up, by a slow disk or too much work; missed = "skip"'


class SlowDisk:
    """Has the next durable write take as long as it is told; timers fire all the while."""

    def __init__(self, world: World, monkeypatch: pytest.MonkeyPatch) -> None:
        self._world = world
        self._span = timedelta(0)
        write = MemoryLedger.write

        def slowly(
            ledger: MemoryLedger, writes: Sequence[Write], *, durable: bool
        ) -> list[int | None]:
            span, self._span = self._span, self._span if not durable else timedelta(0)
            if durable:
                self._stall(span)
            return write(ledger, writes, durable=durable)

        monkeypatch.setattr(MemoryLedger, "write", slowly)

    def takes(self, span: timedelta) -> None:
        """Have the next durable write take so long."""
        self._span = span

    def _stall(self, span: timedelta) -> None:
        clock, daemon = self._world.clock, self._world.daemon
        end_ns = clock.monotonic_ns() + span // timedelta(microseconds=1) * 1000
        while daemon is not None and (deadline := daemon.timers.next_deadline()) is not None:
            if deadline > end_ns:
                break
            clock.advance_ns(max(0, deadline - clock.monotonic_ns()))
            fired = daemon.timers.pop_due(clock.monotonic_ns())
            daemon.inbox.append(TimersFired(fired, clock.monotonic_ns()))
        clock.advance_ns(end_ns - clock.monotonic_ns())


def test_at_a_start(machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: the first commit takes longer than it is to the next instant."""
    world = machine_with(MINUTELY)
    world.pass_time(2 * SECOND)
    world.kill_daemon()
    now = world.clock.now()
    world.pass_time(timedelta(seconds=59 - now.second, microseconds=999_999 - now.microsecond))
    world.set_job(replace(MINUTELY, name="new"))  # whose first cursor is durable
    SlowDisk(world, monkeypatch).takes(1.5 * SECOND)
    world.boot_daemon()
    world.pass_time(5 * SECOND)
    (run,) = rows(world)
    assert (run.due.second, run.cause, str(run.outcome)) == (0, Cause.SCHEDULE, "succeeded")


def test_at_work(machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: it may be the newest instant for which the timer could not be set in time."""
    world = machine_with(EACH_SECOND)
    disk = SlowDisk(world, monkeypatch)
    world.pass_time(5 * SECOND)
    disk.takes(2.5 * SECOND)
    world.pass_time(10 * SECOND)
    *over, _ = rows(world)
    assert {(run.cause, str(run.outcome)) for run in over} == {(Cause.SCHEDULE, "succeeded")}
    seconds = [run.due.second for run in rows(world)]
    assert seconds == list(range(seconds[0], seconds[0] + len(seconds)))


def test_not_later_than_it_may_start(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: what a slow disk has held up for longer than its start_within is skipped for that."""
    world = machine_with(replace(EACH_SECOND, start_within=timedelta(milliseconds=700)))
    disk = SlowDisk(world, monkeypatch)
    world.pass_time(5 * SECOND)
    disk.takes(2.5 * SECOND)
    world.pass_time(10 * SECOND)
    *over, _ = rows(world)
    late = [run for run in over if str(run.outcome) == "skipped"]
    assert late
    assert {run.reason for run in late} == {"too_late: not started within 700ms"}
    for run in over:
        if run.attempts:
            assert run.attempts[0].begun_at - run.due < timedelta(milliseconds=700)


def test_for_long(machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch) -> None:
    """P1: what is passed over by newer instants is missed, and it is said that it was our doing."""
    world = machine_with(EACH_SECOND)
    disk = SlowDisk(world, monkeypatch)
    world.pass_time(5 * SECOND)
    disk.takes(20 * SECOND)
    world.pass_time(30 * SECOND)
    (missed,) = [run for run in rows(world) if str(run.outcome) == "missed"]
    assert missed.reason == HELD_UP
    assert missed.count == pytest.approx(18, abs=2)


@pytest.mark.parametrize("step", [-40, -2, 2])
@pytest.mark.parametrize("trigger", [MINUTELY.trigger, EveryTrigger(60 * SECOND)])
def test_a_clock_that_is_set_in_a_freeze(
    machine_with: MachineWith, trigger: Trigger, step: int
) -> None:
    """P1: what fell into the freeze had its timer in time, and was missed for the freeze."""
    world = machine_with(replace(MINUTELY, trigger=trigger))
    world.pass_time(timedelta(minutes=2, seconds=50 - world.clock.now().second))
    before = len(rows(world))
    world.clock.advance_ns(30 * 10**9)
    world.set_clock(step * SECOND)
    world.pass_time(2 * SECOND)
    fresh = rows(world)[before:]
    assert not [run for run in fresh if run.cause is Cause.SCHEDULE and run.outcome is None]
    assert {run.reason for run in fresh if str(run.outcome) == "missed"} <= {
        'pycron was frozen or the machine suspended; missed = "skip"',
        'the clock was set forward; missed = "skip"',
    }
    assert not [run for run in fresh if str(run.outcome) == "succeeded"]


def test_a_freeze_is_another_thing(machine_with: MachineWith) -> None:
    """P1: a machine that was suspended has missed what was due then, however short it was."""
    world = machine_with(EACH_SECOND)
    world.pass_time(5 * SECOND)
    world.freeze(3 * SECOND)
    world.pass_time(SECOND)
    (missed,) = [run for run in rows(world) if str(run.outcome) == "missed"]
    assert missed.reason.startswith("pycron was frozen or the machine suspended")


def test_while_an_earlier_run_goes_on(
    machine_with: MachineWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4: what is looked at again, since it was not free, is late for the same reason."""
    job = replace(MINUTELY, overlap=Overlap.QUEUE)
    before = replace(MINUTELY, name="b", trigger=CronTrigger(("59 * * * * *",)))
    world = machine_with(job, before, lasts=70 * SECOND)
    now = world.clock.now()
    to_the_minute = timedelta(minutes=1) - timedelta(
        seconds=now.second, microseconds=now.microsecond
    )
    world.pass_time(to_the_minute + 58 * SECOND)
    SlowDisk(world, monkeypatch).takes(2.5 * SECOND)
    world.pass_time(5 * SECOND)
    first, second = rows(world)
    assert (second.due - first.due, second.cause) == (timedelta(minutes=1), Cause.SCHEDULE)
    assert (second.outcome, second.state) == (None, "queued")
