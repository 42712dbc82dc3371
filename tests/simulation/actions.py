"""What may happen to a simulated world, each a function that does one thing to it.

To add an action, write a function of a world with ``@action(weight)``: it is then done at random,
as often as its weight says beside the others. It may let time pass, change the file, put requests
to the daemon, or do away with it; it need not clean up after itself, but for the trouble it makes
(``World.set_trouble``). It takes its chances from ``world.random`` alone and says what it does
(``world.story.tell``). Requests to a daemon that is not there come to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial

from crond_py.crontab.model import AfterTrigger
from crond_py.engine.core import Core
from crond_py.engine.view import Cancelled
from crond_py.errors import LedgerError
from crond_py.model import Condition
from tests.simulation import requests
from tests.simulation.jobs import CHANGES, SECOND, upstreams
from tests.simulation.story import Broken
from tests.simulation.world import World

Action = Callable[[World], None]

ACTIONS: dict[Action, int] = {}
CLOCK_ACTIONS: dict[Action, int] = {}
JOIN_ACTIONS: dict[Action, int] = {}
"""What is done only where jobs that are due together are waited for."""
BACKLOG_ACTIONS: dict[Action, int] = {}
"""What is done only where more tasks come than there are slots for."""
WIDE_ACTIONS: dict[Action, int] = {}
"""What is done only where a pool has many slots."""

MOST_JOBS = 7

CRASH_POINTS = (
    "before a commit",
    "after a commit",
    "before a start",
    "after a start",
    "before a signal",
    "after a signal",
    "before an adoption",
    "while looking for survivors",
)


def action(weight: int, into: dict[Action, int] = ACTIONS) -> Callable[[Action], Action]:
    """Have a function be done at random."""

    def enter(function: Action) -> Action:
        into[function] = weight
        return function

    return enter


def step(world: World) -> None:
    """Do one random thing; a daemon that is gone mostly comes back."""
    actions = ACTIONS | CLOCK_ACTIONS if world.may_step_clock else ACTIONS
    if world.has_join:
        actions = actions | JOIN_ACTIONS
    if world.has_backlog:
        actions = actions | BACKLOG_ACTIONS
    if world.is_wide:
        actions = actions | WIDE_ACTIONS
    chosen = world.random.choices(list(actions), list(actions.values()))[0]
    chosen(world)
    if world.daemon is None and world.random.random() < 0.8:
        world.boot_daemon()
    world.drain()


def settle(world: World) -> None:
    """Come to rest: a healthy ledger, a running daemon, time for what is open to get on."""
    world.crash_in = world.crash_at = None
    if world.ledger.failing is not None:
        world.set_trouble(None)
    finish_stop(world)
    if world.daemon is None:
        world.boot_daemon()
    world.pass_time(5 * SECOND)


REMOVES_POOLS = 3
"""One history of five takes pools out of the file that no job is in; tasks may be."""


def wind_down(world: World) -> None:
    """Let no job be due any more, and give everything that waits its time."""
    world.story.tell("from here on no job is due")
    world.pools = dict(world.sizes)
    for job in list(world.jobs.values()):
        world.set_job(replace(job, enabled=False))
    world.reload()
    requests.end_all(world)
    world.pass_time(timedelta(hours=72))


def finish_stop(world: World) -> None:
    """See a stop to its end, if the daemon has been told to."""
    if world.daemon is not None and world.daemon.is_stopping:
        world.pass_time(world.random.choice((0, 10)) * SECOND)
        _end_runs(world)
        world.pass_time(12 * SECOND)  # what is left of a removed job has the default kill_after
    if world.daemon is not None and world.daemon.is_stopping:
        if world.ledger.failing is None:
            world.breach(Broken("P6", "the daemon was told to stop at once, and goes on"))
        world.kill_daemon()


# --- time -----------------------------------------------------------------------------------------


@action(10)
def quiet(world: World) -> None:
    """Let nothing happen for a while."""
    world.pass_time(world.random.choice((1, 7, 30, 95)) * SECOND)


@action(3)
def freeze(world: World) -> None:
    """Stop the daemon by a signal, or let the machine sleep."""
    world.freeze(world.random.choice((2, 25, 200)) * SECOND)


@action(1, CLOCK_ACTIONS)
def clock_forward(world: World) -> None:
    """Set the clock on."""
    world.set_clock(world.random.choice((1, 40, 3600, 86400 * 3650)) * SECOND)


@action(1, CLOCK_ACTIONS)
def clock_back(world: World) -> None:
    """Set the clock back."""
    world.set_clock(-world.random.choice((1, 40, 3600, 8 * 3600)) * SECOND)


@action(2, CLOCK_ACTIONS)
def clock_right_again(world: World) -> None:
    """Set a clock right that is wrong by hours, more or less; or make it wrong."""
    random = world.random
    skew = world.clock.skew
    if abs(skew) > timedelta(hours=3):
        world.set_clock(random.choice((0, 0, -90, 90, 3600, -2 * 3600)) * SECOND - skew)
    else:
        world.set_clock(timedelta(hours=random.choice((-4, -8, 24 * 3650))))


# --- the daemon dies ------------------------------------------------------------------------------


@action(4)
def kill(world: World) -> None:
    """Kill the daemon between two batches of events."""
    if world.daemon is not None:
        world.kill_daemon()
        world.pass_time(world.random.choice((0, 3, 45)) * SECOND)


@action(1)
def kill_with_leaders(world: World) -> None:
    """Kill the daemon and every command with it, but not what the commands have started."""
    if world.daemon is not None:
        world.kill_daemon()
        world.story.tell("every command is killed, what it has started lives on")
        world.machine.kill_leaders()
        world.pass_time(world.random.choice((0, 3)) * SECOND)


@action(2)
def power_cut(world: World) -> None:
    """Let the machine start anew."""
    world.kill_daemon(power_cut=True)
    world.pass_time(world.random.choice((1, 100)) * SECOND)


@action(4)
def crash_inside(world: World) -> None:
    """Kill the daemon in the middle of something, soon."""
    _plan_crash(world)
    world.pass_time(world.random.choice((10, 60)) * SECOND)


@action(2)
def crash_in_recovery(world: World) -> None:
    """Kill the daemon, and the next one while it takes over; perhaps a third."""
    if world.daemon is not None:
        world.kill_daemon()
    for _ in range(world.random.randint(1, 2)):
        if world.daemon is None:
            _plan_crash(world)
            world.boot_daemon()


@action(1)
def down_for_long(world: World) -> None:
    """Leave the machine without a daemon for hours."""
    if world.daemon is not None:
        world.kill_daemon()
    world.pass_time(timedelta(hours=world.random.choice((1, 9))))


@action(3)
def stop(world: World) -> None:
    """Tell the daemon to stop; there may be a crash or a ledger that fails before it is done."""
    if world.daemon is None:
        return
    random = world.random
    trouble = random.choice(("", "", "crash", "crash", "ledger"))
    if trouble == "crash":
        _plan_crash(world)
    elif trouble == "ledger":
        world.set_trouble(LedgerError("disk full"))
    if random.random() < 0.4:
        _wait_for_a_deadline(world)
    world.stop(random.choice((None, 0 * SECOND, 3 * SECOND, 30 * SECOND)))
    world.pass_time(random.choice((0, 1, 8, 40)) * SECOND)
    if trouble == "ledger":
        world.set_trouble(None)
    if random.random() < 0.4:
        _cancel_something(world)
    finish_stop(world)
    world.pass_time(random.choice((0, 2)) * SECOND)


def _wait_for_a_deadline(world: World) -> None:
    """Let time pass until the daemon has had something to do: an occurrence is claimed ahead."""
    deadline_ns = world.daemon.timers.next_deadline() if world.daemon is not None else None
    if deadline_ns is not None:
        ahead_ns = max(0, deadline_ns - world.clock.monotonic_ns())
        world.pass_time(min(timedelta(microseconds=-(-ahead_ns // 1000)), 60 * SECOND))


def _end_runs(world: World) -> None:
    daemon = world.daemon
    if daemon is not None:
        world.story.tell("stop at once")
        world.requests.stops += 1
        world.ask(lambda core: core.end_runs("pycron was told to stop at once"))


def _plan_crash(world: World) -> None:
    world.crash_at = world.random.choice((None, *CRASH_POINTS))
    world.crash_in = world.random.randint(1, 12 if world.crash_at is None else 3)


# --- the crontab ----------------------------------------------------------------------------------


@action(2)
def reload_same(world: World) -> None:
    """Reload without a change."""
    world.reload()


@action(5)
def edit(world: World) -> None:
    """Change, remove, put back or add a job in the file; the daemon is told, or is not."""
    random = world.random
    kind = random.choice(("change", "change", "change", "remove", "put back", "add", "pool"))
    if kind == "pool":
        name, size = random.choice((("small", 1), ("small", 2), ("tiny", 1), ("tiny", 3)))
        if world.seed % 5 == REMOVES_POOLS and size != 2:
            world.pools.pop(name, None)
            world.story.tell("in the file: no pool {}", name)
        else:
            world.pools[name] = size
            world.story.tell("in the file: pool {} has {} workers", name, size)
    elif kind == "add" and len(world.jobs) + len(world.parked) < MOST_JOBS:
        world.add_random_jobs(1)
    elif kind == "put back" and (fit := [n for n in sorted(world.parked) if _fits(world, n)]):
        name = random.choice(fit)
        world.set_job(world.parked.pop(name))
    elif kind == "remove" and len(world.jobs) > 1:
        name = random.choice([n for n in sorted(world.jobs) if not world.is_followed(n)])
        world.parked[name] = world.jobs.pop(name)
        world.story.tell("in the file: removed", job=name)
    else:
        job = world.jobs[random.choice(sorted(world.jobs))]
        change = CHANGES[random.choice(sorted(CHANGES))]
        world.set_job(change(random, job, world.clock.now()))
    if random.random() < 0.8:
        world.reload()


def _fits(world: World, name: str) -> bool:
    """Tell whether all that a job waits for is in the file."""
    return upstreams(world.parked[name]) <= world.jobs.keys()


@action(1)
def disable_upstream(world: World) -> None:
    """Disable a job that another waits for together with others, perhaps for a while."""
    joins = [job for job in world.jobs.values() if len(upstreams(job)) > 1]
    if not joins:
        return
    name = world.random.choice(sorted(upstreams(world.random.choice(joins))))
    for is_enabled in world.random.choice(((False,), (False, True))):
        world.set_job(replace(world.jobs[name], enabled=is_enabled))
        world.reload()
        world.pass_time(world.random.choice((0, 2, 30)) * SECOND)


@action(8, JOIN_ACTIONS)
def follow_others(world: World) -> None:
    """Have the job that joins others wait for others of them, or ask something else of them."""
    random = world.random
    if "end" not in world.jobs:
        return
    names = sorted({"head", "left", "right"} & world.jobs.keys())
    chosen = random.sample(names, random.randint(1, len(names))) if names else []
    if not chosen:
        return
    world.pass_time(random.choice((0, 1, 1, 3)) * SECOND)
    conditions = {name: random.choice(tuple(Condition)) for name in chosen}
    world.set_job(replace(world.jobs["end"], trigger=AfterTrigger(conditions)))
    world.reload()
    world.pass_time(random.choice((0, 2, 10, 100)) * SECOND)


@action(6, JOIN_ACTIONS)
def trigger_both(world: World) -> None:
    """Run both sides of a join by hand, so that they end together or one soon after the other."""
    for name in world.random.sample(("left", "right"), 2):
        if name in world.jobs:
            world.story.tell("run by hand", job=name)
            world.ask(partial(Core.trigger, name=name, is_forced=False, then=lambda _active: None))
            world.pass_time(world.random.choice((0, 0, 1)) * SECOND)
    world.pass_time(world.random.choice((0, 2, 30)) * SECOND)


@action(2)
def edit_while_down(world: World) -> None:
    """Edit the file while no daemon is there to see it."""
    if world.daemon is not None:
        world.kill_daemon()
    world.pass_time(world.random.choice((0, 20)) * SECOND)
    edit(world)
    world.pass_time(world.random.choice((0, 20)) * SECOND)


# --- requests -------------------------------------------------------------------------------------


@action(3)
def trigger(world: World) -> None:
    """Run a job by hand, perhaps whatever its overlap policy says."""
    name = world.random.choice(sorted(world.jobs))
    is_forced = world.random.random() < 0.3
    world.story.tell("run by hand{}", " (forced)" if is_forced else "", job=name)

    def run(core: Core) -> None:
        active = core.trigger(name, is_forced=is_forced, then=lambda _active: None)
        if is_forced:
            world.requests.forced.append(active)

    world.ask(run)


@action(4)
def cancel(world: World) -> None:
    """Cancel a job's runs, or one run."""
    _cancel_something(world)
    world.pass_time(world.random.choice((0, 1, 5)) * SECOND)


def _cancel_something(world: World) -> None:
    if world.daemon is None:
        return
    open_runs = world.ledger.open_runs()
    answer: object = None
    now_ns = world.clock.monotonic_ns()
    if open_runs and world.random.random() < 0.7:
        run = world.random.choice(open_runs)
        world.story.tell("cancel it", job=run.job, run=run.id)
        world.requests.asked_to_cancel.add(run.id)
        answer = world.ask(lambda core: [core.cancel_run(run.id)])
    else:
        name = world.random.choice(sorted(world.jobs))
        world.story.tell("cancel its runs", job=name)
        world.requests.asked_jobs.add(name)
        answer = world.ask(lambda core: core.cancel_job(name))
    if isinstance(answer, list) and world.ledger.failing is None:
        for each in answer:  # else nobody was told that it is cancelled
            assert isinstance(each, Cancelled)
            world.requests.asked_to_cancel.add(each.run_id)
            world.requests.cancelled.setdefault(each.run_id, now_ns)


# --- trouble --------------------------------------------------------------------------------------


@action(3)
def ledger_trouble(world: World) -> None:
    """Have the ledger take no writes for a while, in which life goes on; or ends."""
    world.set_trouble(LedgerError("disk full"))
    world.pass_time(world.random.choice((0, 1, 12)) * SECOND)
    also = world.random.choice((None, None, trigger, cancel, edit, kill, crash_inside, freeze))
    if also is not None:
        also(world)
        world.pass_time(world.random.choice((0, 3)) * SECOND)
    world.set_trouble(None)
    _cancel_what_is_unwritten(world)
    world.pass_time(world.random.choice((0, 2)) * SECOND)


def _cancel_what_is_unwritten(world: World) -> None:
    """Cancel every other task that has moved on, of which the ledger does not know yet."""
    unwritten = [] if world.daemon is None else list(world.daemon.core._tasks._unwritten)
    for task_id in unwritten:
        if task_id % 2:
            requests.cancel(world, task_id)


@action(2)
def ledger_hiccup(world: World) -> None:
    """Have a few writes fail, one here and one there."""
    times = world.random.choice((1, 1, 2))
    world.story.tell("the next writes fail: {}", times)
    world.trouble_until_ns = world.clock.monotonic_ns() + 12_000_000_000
    world.ledger.fail_next(LedgerError("the ledger is locked"), times=times)
    world.pass_time(10 * SECOND)
    world.ledger._failures.clear()
    world.pass_time(2 * SECOND)


@action(1)
def kill_commands(world: World) -> None:
    """Kill the commands, but not what they have started."""
    world.story.tell("every command is killed")
    world.machine.kill_leaders()
    world.drain()
