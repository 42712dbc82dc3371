"""A chain of three and a diamond: whatever happens, in each place, and what becomes of all jobs.

Each case has one thing happen to the run of one place. What is expected is what pycron.toml(5) says
of ``after``, ``retry`` and ``on_crash``: how the run of that place ends, and others that the same
crash cuts short, is said here; what follows down the chain in ``chain_shapes``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import product

import pytest

from crond_py.crontab.model import CronTrigger, Job
from crond_py.model import Exit, OnCrash, Retry, Run
from crond_py.ports import RunQuery
from tests.simulation.fakes import Behaviour
from tests.simulation.world import World
from tests.support.chain_shapes import PLACES, SHAPES, End, expected
from tests.unit.engine.conftest import SECOND, MachineWith
from tests.unit.engine.test_chains import after, ask, behave, to_the_hour

MINUTE = timedelta(minutes=1)
GOOD, BAD = Exit(code=0), Exit(code=3)

BEGINS = {"first": 0, "second": 10, "third": 20, "head": 0, "left": 10, "right": 10, "end": 22}
LASTS = {"right": 12}
"""In minutes; what is not named lasts ten, and the two that watch the place one."""

ON_REQUEST = "cancelled on request"
STATUS = "exit status 3"
NOT_STARTED = "pycron ended while it started; nobody knows whether it ran"
NOT_SEEN = "ended while pycron was away, nobody saw how"
TAKEN_OVER = "taken over from a pycron that ended while it started; nobody saw how it ended"
NOT_TOLD = "ended while pycron could not see its exit status"

# --- what is expected -----------------------------------------------------------------------------


def cut_short(on_crash: str, reason: str) -> End:
    """Return how a run ends that a crash has cut short."""
    return End("succeeded", "", 2) if on_crash == "rerun" else End("lost", reason)


def beside(shape: str, place: str) -> set[str]:
    """Return the jobs that run when that of a place does, and it."""
    return {job for job in SHAPES[shape] if BEGINS[job] == BEGINS[place]}


def below(shape: str, place: str) -> set[str]:
    """Return the jobs that begin at the end of a place's run, if all has gone well.

    ``alarm`` is not among them.
    """
    ends = BEGINS[place] + LASTS.get(place, 10)
    jobs = SHAPES[shape].items()
    return {"clean", *(job for job, above in jobs if place in above and BEGINS[job] == ends)}


# --- the machine ----------------------------------------------------------------------------------


@dataclass
class Case:
    """A shape in a world, and the place to which something happens."""

    world: World
    shape: str
    place: str
    due: datetime

    @property
    def begins(self) -> timedelta:
        """When the place's run begins, from the head's instant."""
        return BEGINS[self.place] * MINUTE

    @property
    def ends(self) -> timedelta:
        """When it ends, if nothing happens."""
        return self.begins + LASTS.get(self.place, 10) * MINUTE

    def until(self, offset: timedelta) -> None:
        """Let time pass up to so long after the head's instant."""
        self.world.pass_time(self.due + offset - self.world.clock.now())

    def exits(self, exit_: Exit) -> None:
        """Have the place's processes end so from now on."""
        lasts = (self.ends - self.begins,)
        behave(self.world, **{self.place: Behaviour(lasts=lasts, exits=(exit_,))})

    def crash(self, where: str, number: int = 1) -> None:
        """Have the daemon die at the next such moment, or one after that."""
        self.world.crash_at, self.world.crash_in = where, number

    def restart(self, *, reboots: bool = False) -> None:
        """Have the daemon die now, perhaps with the machine, and another one come."""
        self.world.kill_daemon()
        if reboots:  # minutes after it was written; so the disk has it
            self.world.machine.reboot()
            self.world.boots += 1
        self.world.boot_daemon()


def _case(machine_with: MachineWith, shape: str, place: str, **keys: object) -> Case:
    jobs = [
        after(name, *above) if above else Job(name, CronTrigger(("0 * * * *",)), "true")
        for name, above in SHAPES[shape].items()
    ]
    jobs += [after("alarm", **{place: "failure"}), after("clean", **{place: "any"})]
    on_crash = keys.pop("on_crash", OnCrash.LOST)
    jobs = [replace(job, timezone="UTC", on_crash=on_crash) for job in jobs]  # type: ignore[arg-type]
    jobs = [replace(job, **keys) if job.name == place else job for job in jobs]  # type: ignore[arg-type]
    blocker = replace(jobs[0], name="blocker", enabled=False, pool="tiny", on_crash=OnCrash.RERUN)
    world = machine_with(*jobs, blocker)
    world.machine.tells_exits = True
    for job in SHAPES[shape]:
        behave(world, **{job: Behaviour(lasts=(LASTS.get(job, 10) * MINUTE,))})
    for watcher in ("alarm", "clean"):
        behave(world, **{watcher: Behaviour(lasts=(MINUTE,))})
    to_the_hour(world, -MINUTE)
    return Case(world, shape, place, world.clock.now() + MINUTE)


def _wrong_with(case: Case, became: dict[str, list[End]]) -> Iterator[str]:
    """Let the rest of the hour pass, and say which job has not one row, or another end."""
    if case.world.daemon is None:
        case.world.boot_daemon()
    case.until(59 * MINUTE)
    for job, allowed in became.items():
        rows = case.world.ledger.runs(RunQuery(job=job, since=case.due - SECOND, limit=None))
        ends = [End(str(run.outcome or run.state), run.reason, _begun(run)) for run in rows]
        started = sum(tree.job == job for tree in case.world.machine.trees)
        if len(ends) != 1 or ends[0] not in allowed or rows[0].due != case.due:
            yield f"{job} is {ends}, and not one of {allowed}"
        elif started > _begun(rows[0]):
            yield f"{job} was started {started} times"


def _begun(run: Run) -> int:
    return len(run.attempts)


# --- what happens without a crash -----------------------------------------------------------------

RETRY = {"retry": Retry(attempts=2, delay=MINUTE)}
SLOW_RETRY = {"retry": Retry(attempts=2, delay=5 * MINUTE)}
IN_A_POOL = {"pool": "tiny"}


def _nothing(_case: Case) -> None:
    """Let it succeed."""


def _fails(case: Case) -> None:
    case.exits(BAD)


def _cannot_start(case: Case) -> None:
    behave(case.world, **{case.place: Behaviour(fails_to_start=1.0)})


def _fails_once(case: Case) -> None:
    case.exits(BAD)
    case.until(case.begins + MINUTE)
    case.exits(GOOD)


def _cancelled_while_running(case: Case) -> None:
    case.until(case.begins + MINUTE)
    ask(case.world, "cancel", case.place)


def _waits_for_a_slot(case: Case) -> None:
    behave(case.world, blocker=Behaviour(lasts=(case.begins + 6 * MINUTE,)))
    ask(case.world, "trigger", "blocker")
    case.until(case.begins + MINUTE)


def _cancelled_while_it_waits_for_a_slot(case: Case) -> None:
    _waits_for_a_slot(case)
    ask(case.world, "cancel", case.place)


def _waits_for_its_retry(case: Case) -> None:
    case.exits(BAD)
    case.until(case.ends + MINUTE)
    case.exits(GOOD)


def _cancelled_while_it_waits_for_its_retry(case: Case) -> None:
    _waits_for_its_retry(case)
    ask(case.world, "cancel", case.place)


Happens = Callable[[Case], None]

WITHOUT_A_CRASH: dict[str, tuple[dict[str, object], Happens, End]] = {
    "it succeeds": ({}, _nothing, End("succeeded")),
    "it fails": ({}, _fails, End("failed", STATUS)),
    "its retry succeeds": (RETRY, _fails_once, End("succeeded", "", 2)),
    "its retry fails, too": (RETRY, _fails, End("failed", STATUS, 2)),
    "it takes too long": (
        {"timeout": 2 * MINUTE},
        _nothing,
        End("timed_out", "timed out after 2m"),
    ),
    "it cannot be started": ({}, _cannot_start, End("failed", "cannot start: no such program")),
    "it is cancelled while it runs": (
        {},
        _cancelled_while_running,
        End("cancelled", ON_REQUEST),
    ),
    "it is cancelled while it waits for a slot": (
        IN_A_POOL,
        _cancelled_while_it_waits_for_a_slot,
        End("cancelled", ON_REQUEST, 0),
    ),
    "it is cancelled while it waits for its retry": (
        SLOW_RETRY,
        _cancelled_while_it_waits_for_its_retry,
        End("cancelled", ON_REQUEST),
    ),
}


@pytest.mark.parametrize(("shape", "place"), PLACES)
@pytest.mark.parametrize("what", WITHOUT_A_CRASH)
def test_what_happens_in_each_place(
    machine_with: MachineWith, shape: str, place: str, what: str
) -> None:
    """P1, P2: one place's run retries, fails or is cancelled, and each job has its one row."""
    keys, happens, end = WITHOUT_A_CRASH[what]
    case = _case(machine_with, shape, place, **keys)
    happens(case)
    assert list(_wrong_with(case, expected(shape, place, {place: end}))) == []


# --- and with one ---------------------------------------------------------------------------------

Ends = Callable[[str, str, str], dict[str, End]]
"""Returns how some runs end, of a shape, a place and ``on_crash``."""


def _crash_before_its_start(case: Case) -> None:
    case.until(case.begins - SECOND)
    # Those that follow one job begin together, in their order.
    number = sorted(beside(case.shape, case.place)).index(case.place) + 1
    case.crash("before a start", number)
    case.until(case.begins + SECOND)


def _not_started(shape: str, place: str, on_crash: str) -> dict[str, End]:
    together = beside(shape, place)
    cut = dict.fromkeys({job for job in together if job >= place}, cut_short(on_crash, NOT_STARTED))
    # What was started just before goes on, but no word of it had come.
    return {**cut, **dict.fromkeys(together - cut.keys(), End("lost", TAKEN_OVER))}


def _crash_while_it_waits_for_a_slot(case: Case) -> None:
    _waits_for_a_slot(case)
    case.restart()


def _crash_while_it_waits_for_its_retry(case: Case) -> None:
    _waits_for_its_retry(case)
    case.restart()


def _crash_while_it_runs(case: Case) -> None:
    case.until(case.begins + 5 * MINUTE)
    case.restart()


def _crash_while_it_runs_untold(case: Case) -> None:
    case.world.machine.tells_exits = False
    _crash_while_it_runs(case)
    case.until(case.begins + 5 * MINUTE + SECOND)


def _reboot_while_it_runs(case: Case) -> None:
    case.until(case.begins + 5 * MINUTE)
    case.restart(reboots=True)


def _end_that_nobody_sees(case: Case) -> None:
    case.until(case.ends - MINUTE)
    case.world.kill_daemon()
    case.until(case.ends + MINUTE)


def _crash_before_its_end_is_written(case: Case) -> None:
    case.until(case.ends - SECOND)
    case.crash("before a commit")
    case.until(case.ends + SECOND)


def _crash_after_its_end_is_written(case: Case) -> None:
    case.until(case.ends - SECOND)
    case.crash("after a commit")
    case.until(case.ends + SECOND)


def _none(_shape: str, _place: str, _on_crash: str) -> dict[str, End]:
    return {}


def _second_attempt(_shape: str, place: str, _on_crash: str) -> dict[str, End]:
    return {place: End("succeeded", "", 2)}


def _untold(shape: str, place: str, _on_crash: str) -> dict[str, End]:
    return dict.fromkeys(beside(shape, place), End("lost", NOT_TOLD))


def _all_that_run(shape: str, place: str, on_crash: str) -> dict[str, End]:
    return dict.fromkeys(beside(shape, place), cut_short(on_crash, NOT_SEEN))


def _it_alone(_shape: str, place: str, on_crash: str) -> dict[str, End]:
    return {place: cut_short(on_crash, NOT_SEEN)}


def _what_follows(shape: str, place: str, on_crash: str) -> dict[str, End]:
    return dict.fromkeys(below(shape, place), cut_short(on_crash, NOT_STARTED))


CRASHES: dict[str, tuple[dict[str, object], Happens, Ends]] = {
    "before its start": ({}, _crash_before_its_start, _not_started),
    "while it waits for a slot": (IN_A_POOL, _crash_while_it_waits_for_a_slot, _none),
    "while it waits for its retry": (
        SLOW_RETRY,
        _crash_while_it_waits_for_its_retry,
        _second_attempt,
    ),
    "while it runs, and it is told how it ends": ({}, _crash_while_it_runs, _none),
    "while it runs, and nobody tells how it ends": ({}, _crash_while_it_runs_untold, _untold),
    "of the machine while it runs": ({}, _reboot_while_it_runs, _all_that_run),
    "before its end, which nobody sees": ({}, _end_that_nobody_sees, _it_alone),
    "before its end is written": ({}, _crash_before_its_end_is_written, _it_alone),
    "after its end is written": ({}, _crash_after_its_end_is_written, _what_follows),
}


@pytest.mark.parametrize(("shape", "place"), PLACES)
@pytest.mark.parametrize(("when", "on_crash"), list(product(CRASHES, ("lost", "rerun"))))
def test_a_crash_in_each_place(
    machine_with: MachineWith, shape: str, place: str, when: str, on_crash: str
) -> None:
    """P1, P2, P3: the daemon dies, and each job has its one row, and is run as often as it says."""
    keys, happens, ends = CRASHES[when]
    case = _case(machine_with, shape, place, on_crash=OnCrash(on_crash), **keys)
    happens(case)
    if when != "before its end, which nobody sees":
        assert case.world.story.life == 2 or case.world.daemon is None, "there was no crash"
    assert list(_wrong_with(case, expected(shape, place, ends(shape, place, on_crash)))) == []
