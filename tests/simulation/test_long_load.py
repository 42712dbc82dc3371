"""Hours of simulated load leave nothing behind: what the engine keeps does not grow.

One daemon, no crashes: jobs of every policy come due every few seconds, fail, are tried again,
time out, replace one another, leave processes behind, are cancelled, taken away and put back by
reloads; the ledger forgets old runs as ``keep`` says. Counted is what stays in the engine, its
timers, its outbox and the runner, and every object of the package that the interpreter knows.
"""

from __future__ import annotations

import gc
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from crond_py.crontab.model import AfterTrigger, CronTrigger, EveryTrigger, Job
from crond_py.engine.cycles import REMEMBERED, Cycle
from crond_py.model import Condition, EveryMode, Exit, Leftovers, Overlap, Retry
from tests.simulation.fakes import Behaviour
from tests.simulation.jobs import SECOND
from tests.simulation.world import World

MINUTE = 60 * SECOND
HOUR = 3600 * SECOND
KEPT = 20


def busy_world() -> World:
    """Return a world whose jobs are due about once a second in all."""
    world = World(1)
    retry = Retry(3, 2 * SECOND, 2.0, 10 * SECOND)
    base = Job("", EveryTrigger(5 * SECOND), "job", keep_runs=KEPT, keep_for=None, retry=retry)
    jobs = [
        replace(base, name="skip", overlap=Overlap.SKIP),
        replace(base, name="queue", overlap=Overlap.QUEUE, queue_limit=5, pool="tiny"),
        replace(base, name="allow", overlap=Overlap.ALLOW, max_running=3, pool="small"),
        replace(base, name="replace", overlap=Overlap.REPLACE, trigger=EveryTrigger(4 * SECOND)),
        replace(base, name="late", timeout=3 * SECOND, kill_after=SECOND, group="few"),
        replace(base, name="tree", leftovers=Leftovers.KILL, kill_after=SECOND, group="few"),
        replace(base, name="minute", trigger=CronTrigger(("*/10 * * * * *",)), priority=3),
        replace(base, name="delay", trigger=EveryTrigger(3 * SECOND, EveryMode.FIXED_DELAY)),
        replace(base, name="waits", pool="tiny", start_within=4 * SECOND),
        replace(base, name="next", trigger=AfterTrigger({"skip": Condition.ANY})),
        replace(
            base,
            name="join",
            trigger=AfterTrigger({"skip": Condition.SUCCESS, "next": Condition.SUCCESS}),
        ),
    ]
    behaviour = Behaviour(
        lasts=(SECOND, 2 * SECOND, 9 * SECOND),
        exits=(Exit(code=0), Exit(code=0), Exit(code=1)),
        fails_to_start=0.02,
        word_takes=timedelta(milliseconds=3),
    )
    for job in jobs:
        world.jobs[job.name] = job
        world.machine.behaviours[job.name] = behaviour
    world.machine.behaviours["tree"] = replace(behaviour, leaves=(None, 20 * SECOND))
    return world


def meddle(world: World, minute: int) -> None:
    """Do what people do now and then."""
    name = sorted(world.jobs)[minute % len(world.jobs)]
    world.ask(lambda core: core.cancel_job(name))
    if minute % 10 == 5:
        world.ask(lambda core: core.trigger("skip", is_forced=True, then=lambda _active: None))
    if minute % 10 == 2:
        world.parked["late"] = world.jobs.pop("late")
        world.reload()
    if minute % 10 == 3:
        world.jobs["late"] = world.parked.pop("late")
        world.reload()


def forget_what_is_over(world: World) -> None:
    """Let the observer forget, which is not what is counted."""
    world.story.lines.clear()
    world.machine.trees = list(world.machine.alive)
    world.machine.by_key = {tree.key: tree for tree in world.machine.alive}
    world.machine.failed_starts.clear()
    daemon = world.daemon
    assert daemon is not None
    daemon.processes.settled.clear()


def kept(world: World) -> dict[str, int]:
    """Count what the daemon keeps."""
    daemon = world.daemon
    assert daemon is not None
    register = daemon.core._register
    return {
        "runs": len(register.runs),
        "jobs": len(register.states),
        "active": sum(len(state.active) for state in register.states.values()),
        "queued": sum(len(state.queued) for state in register.states.values()),
        "slots taken": sum(slots.taken for slots in register.pools.values()),
        "waiting": sum(len(slots._arrivals) for slots in register.pools.values()),
        "timers": len(daemon.timers.timeline),
        "heap": daemon.timers.timeline.heap_size,
        "processes watched": len(daemon.processes._mine),
        "rows": len(world.ledger._content.runs),
    }


def objects() -> int:
    """Count the objects of the package that the interpreter keeps track of.

    But for the newest cycles of a job that waits for several others, which have a bound.
    """
    gc.collect()
    kinds = Counter(type(each) for each in gc.get_objects())
    assert kinds.pop(Cycle, 0) <= REMEMBERED
    return sum(kinds[kind] for kind in kinds if kind.__module__.startswith("crond_py"))


def run_for(world: World, minutes: range) -> tuple[Counter[str], int]:
    """Let time pass; return the most that was kept at the end of any minute."""
    most: Counter[str] = Counter()
    for minute in minutes:
        world.pass_time(MINUTE)
        meddle(world, minute)
        forget_what_is_over(world)
        most |= Counter(kept(world))
    return most, objects()


@pytest.mark.parametrize(
    "minutes",
    [
        pytest.param(30, id="half-an-hour"),
        pytest.param(600, id="ten-hours", marks=[pytest.mark.long, pytest.mark.timeout(1800)]),
    ],
)
def test_hours_of_load_leave_nothing_behind(minutes: int) -> None:
    """P4: after the first minutes nothing that the engine keeps grows, whatever goes on."""
    world = busy_world()
    world.boot_daemon()
    part = min(20, minutes // 3)  # all that people do comes once in ten
    run_for(world, range(1, 6))
    early, early_objects = run_for(world, range(6, 6 + part))
    run_for(world, range(6 + part, minutes - part))
    late, late_objects = run_for(world, range(minutes - part, minutes))
    rows = world.ledger.last_id
    assert rows > minutes * 60
    for what, number in early.items():
        allowed = number + max(8, number // 4)
        assert late[what] <= allowed, f"{what}: {number} at first, {late[what]} after {minutes} min"
    assert late_objects <= early_objects * 1.1 + 200, f"{early_objects}, then {late_objects}"
    assert early["heap"] <= 64 + 2 * early["timers"]
