"""The simulation is itself tested: each fault that is planted in the engine must be caught.

A fault is a name, where it is planted (an owner and its attribute), what is put there (made from
what was there), and the promises that it may be caught by. Add one for every new check.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from weakref import WeakSet

import pytest

from crond_py import clocksteps
from crond_py.clock import EPOCH
from crond_py.crontab.model import Group
from crond_py.engine import admission, attempts, by_hand, pools, recovery
from crond_py.engine.admission import Admitter
from crond_py.engine.agenda import WAS_HELD_UP, Agenda
from crond_py.engine.attempts import Attempts
from crond_py.engine.attendance import Attendance
from crond_py.engine.chains import Chains
from crond_py.engine.core import Core
from crond_py.engine.events import RetryDue
from crond_py.engine.lanes import LaneState
from crond_py.engine.lines import Line, Place, Ticket
from crond_py.engine.outbox import Outbox
from crond_py.engine.parked import ParkedRuns
from crond_py.engine.parking import Parking
from crond_py.engine.parts import Parts
from crond_py.engine.pools import Slots
from crond_py.engine.presence import Presence
from crond_py.engine.records import ActiveRun, JobState, Stage
from crond_py.engine.recovery import Recoverer
from crond_py.engine.rows import Unwritten
from crond_py.engine.shares import Shares
from crond_py.engine.signals import Signals
from crond_py.engine.starting import Starter
from crond_py.engine.stopping import Stopper
from crond_py.engine.tasks import Tasks
from crond_py.engine.timekeeper import Timekeeper
from crond_py.engine.uptake import Uptake
from crond_py.ledger.memory import MemoryLedger
from crond_py.model import Outcome, Run, Task
from crond_py.policy import Load, Recovery
from tests.simulation.fakes import FakeProcesses
from tests.simulation.jobs import BEGIN
from tests.simulation.test_simulation import HistoryFailedError, play

pytestmark = pytest.mark.timeout(900)  # it computes, and may have to share

ENOUGH_SEEDS = 1200

Make = Callable[[Any], Any]


def nothing(_old: object) -> Callable[..., None]:
    """Do nothing in its place."""
    return lambda *_args, **_rest: None


def always(value: object) -> Make:
    """Answer the same, whatever is asked."""
    return lambda _old: lambda *_args, **_rest: value


def effects_first(old: Callable[[Outbox], None]) -> Callable[[Outbox], None]:
    """Start processes before their claims are written."""

    def flush(outbox: Outbox) -> None:
        effects, outbox._effects = outbox._effects, []
        for effect in effects:
            effect()
        old(outbox)

    return flush


def rerun_what_is_lost(old: Callable[..., Recovery]) -> Callable[..., Recovery]:
    """Run again what a crash cut short, without being asked to."""

    def decide(*args: object, **rest: object) -> Recovery:
        recovery = old(*args, **rest)
        return Recovery.RERUN if recovery is Recovery.LOST else recovery

    return decide


def forget_to_cancel_retries(old: Callable[..., bool]) -> Callable[..., bool]:
    """Say that a waiting retry is cancelled, and do nothing."""

    def cancel(self: Stopper, active: ActiveRun, reason: str, **rest: bool) -> bool:
        return False if active.stage is Stage.RETRY else old(self, active, reason, **rest)

    return cancel


def cancel_what_is_written(old: Callable[..., bool]) -> Callable[..., bool]:
    """Find nothing to come of a task whose next instant the ledger does not know yet."""

    def cancel(self: Tasks, task_id: int, reason: str) -> bool:
        return task_id not in self._unwritten and old(self, task_id, reason)

    return cancel


def tell_of_the_first(old: Callable[..., None]) -> Callable[..., None]:
    """Enter one row for one occurrence, however many came due."""

    def enter(self: Uptake, task: Task, _until: datetime, *what: object) -> None:
        old(self, task, EPOCH, *what)

    return enter


def take_for_success(old: Callable[..., tuple[Run | None, str]]) -> Callable[..., object]:
    """Count what is no part of a cycle as if it had succeeded, however it ended, or goes on."""

    def newest_run(*args: object) -> tuple[Run | None, str]:
        run, why_not = old(*args)
        return (replace(run, outcome=Outcome.SUCCEEDED) if run is not None else None), why_not

    return newest_run


def retry_when_cancelled(old: Callable[..., None]) -> Callable[..., None]:
    """Judge an ended attempt by its exit, though it was cancelled: it is tried again."""

    def ended(self: Attempts, event: Any) -> None:
        active = self._register.runs.get(event.key.run_id)
        if active is not None and active.stop is not None:
            active.stop = None
        old(self, event)

    return ended


def forget_active(old: Callable[..., None]) -> Callable[..., None]:
    """Know a run after a restart by its id alone: its job does not count it."""

    def recover(self: Recoverer, *args: object) -> None:
        old(self, *args)
        for state in self._register.states.values():
            state.active = ()

    return recover


def with_(**changes: object) -> Make:
    """Call what was there with other arguments."""
    return lambda old: lambda *args, **rest: old(*args, **{**rest, **changes})


def never_durable(old: Callable[..., Any]) -> Callable[..., Any]:
    """Write everything behind."""
    return lambda self, writes, *, durable: old(self, writes, durable=False)


def wait_for_retry_does_not_count(_old: object) -> property:
    """Count a job as free while its run waits for a retry."""
    return property(
        lambda state: Load(
            sum(each.stage is not Stage.RETRY for each in state.active), len(state.queued)
        )
    )


def new_baseline(_old: object) -> Callable[..., Any]:
    """Begin anew at every restart, as if nothing had been missed."""
    return lambda _self, _job, stored, now: (
        replace(stored, baseline=now, accounted_until=now),
        None,
    )


def start_beside(old: Callable[..., None]) -> Callable[..., None]:
    """Let a run that replaces others not wait for their end."""

    def end_earlier(self: Admitter, state: JobState, due: object) -> None:
        old(self, state, due)
        state.active = ()
        state.queued = ()

    return end_earlier


def keep_in_register(old: Callable[..., None]) -> Callable[..., None]:
    """Never let go of a run."""

    def retire(self: Attempts, active: ActiveRun) -> None:
        old(self, active)
        if active.run.id % 5 == 0:
            self._register.runs[active.run.id] = active

    return retire


def room_for_one_more(old: Callable[..., bool]) -> Callable[..., bool]:
    """Count one slot too many."""

    def is_free_for(self: Slots, job: object) -> bool:
        self.taken -= 1
        try:
            return old(self, job)
        finally:
            self.taken += 1

    return is_free_for


def without_delay(old: Callable[..., None]) -> Callable[..., None]:
    """Let a run wait for its retry no time at all."""

    def set_retry(self: Attempts, active: ActiveRun, _delay: timedelta, now: datetime) -> None:
        old(self, active, timedelta(0), now)

    return set_retry


def succeed_in_any_case(old: Callable[..., Any]) -> Callable[..., Any]:
    """Take every exit for a success."""

    def judge(exit_: Any, *more: object) -> Any:
        outcome, reason = old(exit_, *more)
        return (Outcome.SUCCEEDED, "") if exit_.code is not None else (outcome, reason)

    return judge


def pile_up(old: Callable[..., None]) -> Callable[..., None]:
    """Forget a timer, and leave it on the heap."""

    def drop_timer(self: Parts, active: ActiveRun, name: str) -> None:
        setattr(active, name, None)

    return drop_timer


def go_on_after_stop(old: Callable[..., None]) -> Callable[..., None]:
    """Begin retries although the daemon stops."""

    def retry_due(self: Attempts, active: ActiveRun) -> None:
        was, self._register.is_stopping = self._register.is_stopping, False
        old(self, active)
        self._register.is_stopping = was

    return retry_due


def cut_off(old: Callable[..., Any]) -> Callable[..., Any]:
    """Account for one occurrence less than were missed."""

    def record(self: Agenda, state: JobState, dropped: Any, outcome: Outcome) -> None:
        old(self, state, replace(dropped, count=max(1, dropped.count - 1)), outcome)

    return record


def twice(old: Callable[..., Any]) -> Callable[..., Any]:
    """Ask the runner two times."""

    def start(self: FakeProcesses, spec: Any, *, at_ns: int | None = None) -> None:
        old(self, spec, at_ns=at_ns)
        self._start(spec)

    return start


def start_late(old: Callable[..., Any]) -> Callable[..., None]:
    """Start a second after the claim is written."""

    def start(self: FakeProcesses, spec: Any, *, at_ns: int | None = None) -> None:
        now_ns = self._machine.clock.monotonic_ns()
        old(self, spec, at_ns=(at_ns or now_ns) + 1_000_000_000)

    return start


def start_early(old: Callable[..., Any]) -> Callable[..., None]:
    """Start when the claim is written, be it the instant or not."""

    def start(self: FakeProcesses, spec: Any, *, at_ns: int | None = None) -> None:
        assert at_ns is None or at_ns >= 0
        old(self, spec)

    return start


def leave_what_is_left(old: Callable[..., bool]) -> Callable[..., bool]:
    """End a run that has begun, and waits, without a look at what it has left."""

    def cancel(self: Stopper, active: ActiveRun, reason: str, **rest: bool) -> bool:
        if active.stage not in {Stage.BEHIND, Stage.SLOT, Stage.RETRY} or not active.is_claimed:
            return old(self, active, reason, **rest)
        self._attempts.finish(active, Outcome.CANCELLED, reason, is_durable=True)
        return False

    return cancel


def follow_too_early(old: Callable[..., Any]) -> Callable[..., Any]:
    """See at a start what follows from an outcome before all the runs are known."""
    begun: WeakSet[Chains] = WeakSet()

    def collecting(self: Chains) -> Any:
        if self in begun:
            return old(self)
        begun.add(self)
        return nullcontext()

    return collecting


def one_less_waits(_old: object) -> Callable[..., None]:
    """Count what waits, and look no further."""

    def begun(_self: Tasks, lane: LaneState) -> None:
        lane.waiting -= 1

    return begun


def count_what_is_behind(old: Callable[..., None]) -> Callable[..., None]:
    """Let runs that wait for their own predecessor fill their lane."""

    def watch(self: Tasks, lane: LaneState, active: ActiveRun) -> None:
        old(self, lane, active)
        lane.waiting += active.stage is Stage.BEHIND

    return watch


def keep_what_is_parked(old: Callable[..., None]) -> Callable[..., None]:
    """Park a run, and have its retry begin from memory, too."""

    def park(self: Parking, active: ActiveRun, number: int, deadline_ns: int) -> None:
        old(self, active, number, deadline_ns)
        if active.stage is Stage.ENDED and active.run.id not in self._register.runs:
            active.stage = Stage.RETRY
            self._parts.timers.call_at(deadline_ns, RetryDue(active))

    return park


def park_without_delay(old: Callable[..., None]) -> Callable[..., None]:
    """Take up what is parked as soon as may be."""
    return lambda self, _deadline_ns, run_id: old(self, 0, run_id)


def reversed_priorities(_old: object) -> Callable[..., None]:
    """Keep the priorities of a pool in the wrong order."""

    def enter(priorities: list[int], new: int) -> None:
        priorities.append(new)
        priorities.sort(reverse=True)

    return enter


def most_first(_old: object) -> Callable[..., Any]:
    """Let it be the turn of the group that has used the most."""

    def least(self: Line, now_ns: int) -> Place | None:
        there = [each for each in self._places.values() if each.number]
        return max(there, key=lambda each: each.used_by(now_ns), default=None)

    return least


def of_newest(_old: object) -> Callable[..., Any]:
    """Take the run that has come last for the one that waits longest."""

    def of_longest_waiting(self: Slots) -> Ticket | None:
        for ticket in reversed(self._arrivals):
            if self._is_valid(ticket) and not ticket.stake.share.is_full:
                return self._lines[ticket.priority].first(self._shares.reading())
        return None

    return of_longest_waiting


def use_without_weight(_old: object) -> Callable[..., float]:
    """Count every group's use alike."""

    def used_by(self: Place, now_ns: int) -> float:
        return self.used_s + self.stake.in_use * (now_ns - self.settled_ns) / 1e9

    return used_by


def inverted_weights(old: Callable[..., Group]) -> Callable[..., Group]:
    """Let a group of three times the weight have a third."""

    def group(self: Shares, name: str) -> Group:
        known = old(self, name)
        return replace(known, weight=1 / known.weight)

    return group


def newest_first(_old: object) -> Callable[..., Any]:
    """Let the run of a group go first that was due last."""

    def first_of(self: Line, place: Place) -> Ticket | None:
        valid = [entry for entry in place.runs if self._is_valid(entry[2])]
        place.runs[:] = valid
        return max(valid, default=(None, 0, None), key=lambda entry: entry[:2])[2]

    return first_of


def wait_for_any_pool(old: Callable[..., bool]) -> Callable[..., bool]:
    """Let a run wait as long as others do so anywhere."""
    known: WeakSet[Slots] = WeakSet()

    def is_free_for(self: Slots, job: object) -> bool:
        known.add(self)
        others = [each for each in known if each is not self and each._shares is self._shares]
        return old(self, job) and not any(each.waiting for each in others)

    return is_free_for


def never_run(_old: object) -> Callable[..., tuple[None, str]]:
    """Know of no run that is not of the cycle."""
    return lambda _rows, job, _gap: (None, f"{job} has not been run yet")


def unchanged(_old: object) -> Callable[..., Run]:
    """Take a run for what the ledger has of it, whatever waits to be written."""
    return lambda _self, row: row


FAULTS: dict[str, tuple[Any, str, Make, str]] = {
    # what runs, and how often
    "no adoption": (FakeProcesses, "adopt", always(False), "P1 P5"),
    "what is left of a tree is not found": (
        FakeProcesses,
        "adopt_rest",
        always(False),
        "P1 P5 P6",
    ),
    "start before the claim": (Outbox, "flush", effects_first, "P1 P2"),
    "claims are not durable": (MemoryLedger, "write", never_durable, "P2"),
    "attempt not recorded before its start": (
        Starter,
        "write_and_launch",
        lambda _: lambda self, active: self._parts.outbox.then(lambda: self.launch(active)),
        "P1 P2",
    ),
    "a process is started twice": (FakeProcesses, "start", twice, "P1 P2"),
    "lost runs are run again": (recovery, "decide_recovery", rerun_what_is_lost, "P2"),
    "run again for ever": (recovery, "wants_rerun", always(True), "P2 P3"),
    "nothing is run again": (recovery, "wants_rerun", always(False), "P3"),
    "nothing is recalled": (FakeProcesses, "recall", nothing, "P1"),
    "nothing that was held has begun": (FakeProcesses, "let_go_until", always(BEGIN), "P1 P2"),
    "nobody knows what was held": (FakeProcesses, "let_go_until", always(None), "P1"),
    "a start that is late": (FakeProcesses, "start", start_late, "P4"),
    "a start before its instant": (FakeProcesses, "start", start_early, "P4"),
    # overlap and pools
    "a restart forgets what runs": (Recoverer, "recover", forget_active, "P1 P4 P5"),
    "a run that waits for its retry does not count": (
        JobState,
        "load",
        wait_for_retry_does_not_count,
        "P5",
    ),
    "a run starts beside those it replaces": (Admitter, "_end_earlier", start_beside, "P5"),
    "max_running is no limit": (admission, "decide_overlap", with_(max_running=None), "P5"),
    "queue_limit is no limit": (admission, "decide_overlap", with_(queue_limit=10**6), "P5"),
    "one slot too many": (Slots, "is_free_for", room_for_one_more, "P4"),
    "the lowest priority goes first": (pools, "insort", reversed_priorities, "P4"),
    "who has used most goes first": (Line, "_least", most_first, "P4"),
    "nobody's use is by weight": (Place, "used_by", use_without_weight, "P4"),
    "weights are the wrong way round": (Shares, "_group", inverted_weights, "P4"),
    "who comes to wait has saved up": (Line, "_level", always(0.0), "P4"),
    "what a run uses does not count": (Place, "settle", always(0.0), "P4"),
    "who was due last goes first": (Line, "_first_of", newest_first, "P4"),
    "no priority ages": (Slots, "_of_longest_waiting", always(None), "P4"),
    "every priority ages": (pools, "LONGEST_WAITING_EVERY", lambda _: 1, "P4"),
    "the newest waits longest": (Slots, "_of_longest_waiting", of_newest, "P4"),
    "a pool waits for the others": (Slots, "is_free_for", wait_for_any_pool, "P4"),
    "slots leak": (Slots, "release", nothing, "P1 P4"),
    "nobody is next": (Attempts, "promote", nothing, "P4"),
    # ends
    "retry after a cancel": (Stopper, "cancel", forget_to_cancel_retries, "P6"),
    "a cancelled attempt is tried again": (Attempts, "ended", retry_when_cancelled, "P1 P6"),
    "what earlier attempts have left is not ended": (Stopper, "cancel", leave_what_is_left, "P6"),
    "a cancel is not noted": (Signals, "note", nothing, "P1 P2 P6"),
    "nobody is killed": (Stopper, "kill_due", nothing, "P1 P6"),
    "a timeout begins anew with a restart": (
        Timekeeper,
        "age",
        lambda _: lambda *_: timedelta(0),
        "P1 P6",
    ),
    "retry_on is not looked at": (attempts, "is_retryable", always(True), "P1"),
    "a retry begins at once": (Attempts, "set_retry", without_delay, "P4"),
    "what a stop has left is run again": (Recoverer, "_was_left", always(False), "P3"),
    "retries without end": (
        attempts,
        "wants_retry",
        lambda _: lambda outcome, *_: outcome in {Outcome.FAILED, Outcome.TIMED_OUT},
        "P1",
    ),
    "no retries": (attempts, "wants_retry", always(False), "P1"),
    "every exit is a success": (attempts, "judge_exit", succeed_in_any_case, "P1"),
    "leftovers are not ended": (Attempts, "left_over", nothing, "P1 P6"),
    # what is due
    "cursor not saved": (
        Agenda,
        "_save",
        lambda _: lambda _self, state, cursor: setattr(state, "cursor", cursor),
        "P1",
    ),
    "missed occurrences go unsaid": (Agenda, "enter_dropped", nothing, "P1"),
    "one missed occurrence goes unsaid": (Agenda, "enter_dropped", cut_off, "P1"),
    "nothing is missed": (Agenda, "_after_restart", new_baseline, "P1"),
    "a clock that is right again is a new one": (
        clocksteps,
        "_passing_over",
        lambda _: lambda cursor, *_: cursor,
        "P1 P2",
    ),
    "a job that is removed is not forgotten": (Agenda, "forget", nothing, "P1"),
    "a fixed delay never begins": (Agenda, "job_idle", nothing, "P1"),
    # submitted tasks
    "a task does not move on": (Tasks, "_move_on", nothing, "P1 P4"),
    "runs of tasks are not known after a restart": (Tasks, "enter", always("planted"), "P1 P3"),
    "more tasks are taken up than may wait": (
        LaneState,
        "room",
        lambda _: property(lambda _lane: 1000),
        "P4",
    ),
    "a full lane is never taken up again": (Tasks, "_begun", one_less_waits, "P1 P4"),
    "what waits for its predecessor fills a lane": (Tasks, "watch", count_what_is_behind, "P4"),
    "elapsed time follows the clock": (Attendance, "clock_set", nothing, "P1 P4"),
    "a cancelled task comes all the same": (Tasks, "cancel", always(True), "P1 P6"),
    "what has moved on is not cancelled": (Tasks, "cancel", cancel_what_is_written, "P6"),
    "of what waited the first alone is cancelled": (Uptake, "enter_row", tell_of_the_first, "P1"),
    "a parked retry is forgotten": (ParkedRuns, "add", nothing, "P1 P4"),
    "a parked retry begins twice": (Parking, "_park", keep_what_is_parked, "P1 P2 P4 P5"),
    "a parked retry begins at once": (ParkedRuns, "add", park_without_delay, "P4"),
    # stop
    "everything is left at a stop": (
        ActiveRun,
        "is_to_be_left",
        lambda _: property(lambda _active: True),
        "P6",
    ),
    "retries begin while the daemon stops": (Attempts, "retry_due", go_on_after_stop, "P1"),
    "nothing ends after the limit of a stop": (Core, "end_runs", nothing, "P1 P6"),
    "what a stop recalls is cancelled": (Starter, "is_recalled", always(False), "P1"),
    "what follows is seen to before a start is over": (
        Chains,
        "collecting",
        follow_too_early,
        "P1",
    ),
    # what follows what
    "a cycle that has its row is not known": (Chains, "_has_row", always(False), "P2"),
    "what is no part of a cycle is waited for in it": (by_hand, "outside", always(set()), "P1"),
    "no job has been run": (by_hand, "newest_run", never_run, "P1"),
    "what is not written yet has not ended": (Unwritten, "changed", unchanged, "P1"),
    "nothing is looked at after a reload": (Chains, "look_again", nothing, "P1"),
    "open cycles are not carried over a reload": (Chains, "_carry_over_all", always(True), "P1"),
    "what is no part of a cycle has succeeded": (by_hand, "newest_run", take_for_success, "P1"),
    # what lies in the ledger and is due
    "nobody is brought in line": (Tasks, "bring", always(True), "P4"),
    "slots are given before all are told": (Tasks, "_hold_pool", nothing, "P4"),
    # what is kept
    "runs stay in the register": (Attempts, "retire", keep_in_register, "P1 P4"),
    "timers stay on the heap": (Parts, "drop_timer", pile_up, "P1 P4 P6"),
    # what was missed, and why
    "nobody is there as tasks come due that have to wait": (Presence, "look", nothing, "P1"),
    "no freeze is noted": (Attendance, "note_frozen", nothing, "P1"),
    "every late task was held up": (Uptake, "_why_late", always(WAS_HELD_UP), "P1"),
}


TRIED_FIRST = {
    "a cycle that has its row is not known": 46,
    "what is no part of a cycle is waited for in it": 40,
    "no job has been run": 40,
    "what is not written yet has not ended": 44,
    "nothing is looked at after a reload": 168,
    "open cycles are not carried over a reload": 168,
    "nothing that was held has begun": 1634,
    "nobody knows what was held": 86,
    "a cancelled task comes all the same": 1,
    "what has moved on is not cancelled": 17,
    "elapsed time follows the clock": 55,
    "what follows is seen to before a start is over": 106,
    "a clock that is right again is a new one": 131,
    "a job that is removed is not forgotten": 81,
    "retries begin while the daemon stops": 46,
    "the lowest priority goes first": 8,
    "who has used most goes first": 8,
    "what a run uses does not count": 49,
    "slots are given before all are told": 201,
    "who was due last goes first": 8,
    "no priority ages": 8,
    "every priority ages": 8,
    "the newest waits longest": 8,
    "what is no part of a cycle has succeeded": 302,
    "who comes to wait has saved up": 1167,
    "nobody's use is by weight": 24,
    "weights are the wrong way round": 24,
    "nobody is there as tasks come due that have to wait": 350,
    "no freeze is noted": 38,
    "every late task was held up": 90,
}
"""A history that has caught a fault that few do, or does so quickly; it only saves time."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken engine does not get through the histories, and it is said what it breaks."""
    owner, attribute, make, promises = FAULTS[name]
    monkeypatch.setattr(owner, attribute, make(getattr(owner, attribute)))
    with pytest.raises(HistoryFailedError) as caught:
        _play_all(TRIED_FIRST.get(name))
    assert caught.value.promise in promises.split()


def _play_all(first: int | None) -> None:
    if first is not None:
        play(first)
    for seed in range(ENOUGH_SEEDS):
        play(seed)
