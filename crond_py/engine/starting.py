"""Starting: a run gets a slot, its attempt is entered, and its process begins at its instant.

Every method is an event at one instant. It changes the records in memory, hands what must be
written to the outbox together with what is to happen afterwards, and returns.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from itertools import islice

from crond_py.clock import to_ns
from crond_py.engine.ahead import LONGEST_AHEAD, is_held
from crond_py.engine.events import LagDue, TimeoutDue, TooLateDue
from crond_py.engine.lag import LAGS_OF_A_JOB, LagRecord, Wait, Waits
from crond_py.engine.parts import Parts, Register
from crond_py.engine.pools import Slots
from crond_py.engine.records import ActiveRun, JobState, Stage, Stop
from crond_py.engine.shares import Share
from crond_py.engine.signals import Signals
from crond_py.engine.telling import INTERNAL_FAULT, fields, log, tell
from crond_py.model import Attempt, Cause, Lag, OnStop, Outcome, OutputMode, State
from crond_py.ports import ProcessSpec, SetAttempt, SetRun, Started

_NOTED_BEHIND = 10
"""Of so many runs in the queue of a job it is noted what they wait for."""

_ABOUT_A_TICK = timedelta(milliseconds=20)

STOPPED = "pycron was stopped"

Failed = Callable[[ActiveRun, Outcome, str], None]
Recalled = Callable[[ActiveRun], None]


class Starter:
    """Takes runs that may begin to their process."""

    def __init__(self, parts: Parts, register: Register, signals: Signals) -> None:
        self._parts = parts
        self._register = register
        self._signals = signals
        self._launched: list[tuple[ActiveRun, int | None]] = []
        self._on_failed: Failed = lambda _active, _outcome, _reason: None
        self._on_recalled: Recalled = lambda _active: None

    def when_failed(self, end: Failed, recalled: Recalled) -> None:
        """Have ``end`` called with an attempt that has no process, its outcome and why.

        ``recalled`` is called with a run that is not started since its instant comes after a stop.
        """
        self._on_failed = end
        self._on_recalled = recalled

    def is_recalled(self, active: ActiveRun) -> bool:
        """Whether a run was claimed ahead, and its instant had not come when we were stopped."""
        return self._register.is_stopping and self._is_for_after(active, self._register.stopping_ns)

    def is_ahead(self, active: ActiveRun) -> bool:
        """Whether a run was claimed ahead, and its instant is yet to come."""
        return self._is_for_after(active, self._parts.timekeeper.reading())

    def _is_for_after(self, active: ActiveRun, monotonic_ns: int) -> bool:
        """Whether a run is being started for an instant later than that."""
        if active.stage is not Stage.STARTING or active.run.cause not in _TIMED:
            return False
        return self._parts.timekeeper.deadline(active.run.due) > monotonic_ns

    def start(self, active: ActiveRun) -> None:
        """Begin an attempt of a run that waited, or let it wait for a slot."""
        self._parts.drop_timer(active, "wait_timer")
        was = active.run.state
        if self.take_slot(active, self._parts.timekeeper.now()):
            self._start_with_slot(active)
            return
        self.limit_waiting(active)
        if was is not State.QUEUED and active.is_claimed:
            self._parts.outbox.write(SetRun(active.run.id, State.QUEUED))

    def _start_with_slot(self, active: ActiveRun) -> None:
        if active.is_claimed:
            self.write_and_launch(active)
        else:
            active.begins_when_claimed = True

    def take_slot(self, active: ActiveRun, now: datetime) -> bool:
        """Begin the next attempt if there is a slot, else wait for one; not yet written."""
        slots = self._register.slots(active.job)
        must_wait = self._register.is_stopping or slots.is_held
        must_wait = must_wait or not self._register.bring(slots, active.job.priority)
        if must_wait or not slots.is_free_for(active.job):
            active.stage = Stage.SLOT
            active.set_in_line(True)
            self._wait_for(active, Wait.POOL)
            self._wait_behind(active, Wait.POOL)
            active.run = replace(active.run, state=State.QUEUED, retry_at=None)
            slots.wait(active, self._parts.timekeeper.reading())
            self.watch_waiting(slots)
            return False
        slots.take(active)
        self._begin_attempt(active, now)
        return True

    def _begin_attempt(self, active: ActiveRun, now: datetime) -> None:
        active.stage = Stage.STARTING
        active.set_in_line(False)
        self._wait_for(active, Wait.DISPATCH)
        self._wait_behind(active, Wait.OVERLAP)
        if active.attempt is not None:
            active.earlier_users |= {active.attempt.user}
        active.attempt = Attempt(
            active.attempt_number + 1,
            begun_at=now,
            boot_id=self._parts.process_era,
            user=self._parts.user_of(active.job),
        )
        active.run = replace(
            active.run, state=State.RUNNING, reason="", retry_at=None, left_as=None
        )

    def _wait_for(self, active: ActiveRun, what: Wait) -> None:
        """Note what a run that has not started yet waits for from now on."""
        if active.waits is not None:
            active.waits.turn_to(what, self._parts.timekeeper.reading())

    def _wait_behind(self, active: ActiveRun, what: Wait) -> None:
        """Note what those behind a run wait for with it: for a slot, as long as it does so, too.

        Of a long queue that is noted of the next ones only, or it would cost more the longer it is.
        """
        state = self._register.find(active.job.name)
        for behind in islice(state.queued, _NOTED_BEHIND) if state is not None else ():
            self._wait_for(behind, what)

    def limit_waiting(self, active: ActiveRun) -> None:
        """Give a run that has not begun its ``start_within``."""
        within = active.job.start_within
        has_begun = active.attempt is not None
        if within is None or has_begun or active.stage not in {Stage.BEHIND, Stage.SLOT}:
            return
        active.wait_timer = self._parts.timers.call_at(
            active.ready_ns + to_ns(within), TooLateDue(active)
        )

    def write_and_launch(self, active: ActiveRun) -> None:
        """Enter an attempt that has begun, and start its process once that is durable."""
        assert active.attempt is not None  # noqa: S101 - set by _begin_attempt just before
        self._parts.outbox.write(
            SetRun(active.run.id, State.RUNNING),
            SetAttempt(active.run.id, active.attempt),
            durable=True,
        )
        self._parts.outbox.then(partial(self.launch, active))

    def launch(self, active: ActiveRun) -> None:
        """Start the process of an attempt that is in the ledger, at its instant if that comes."""
        due_ns = self._parts.timekeeper.deadline(active.run.due)
        remaining_ns = due_ns - self._parts.timekeeper.reading()
        is_ahead = active.run.cause in _TIMED and 0 < remaining_ns <= to_ns(LONGEST_AHEAD)
        if not self._launched:
            self._parts.outbox.after_these(self._hand_over)
        self._launched.append((active, due_ns if is_ahead else None))

    def _hand_over(self) -> None:
        """Hand the runner all that was launched together: one word for all costs it least."""
        launched, self._launched = self._launched, []
        starts = [(self._spec_of(active), at_ns) for active, at_ns in launched]
        self._parts.processes.start_all([(spec, at_ns) for spec, at_ns in starts if spec])

    def _spec_of(self, active: ActiveRun) -> ProcessSpec | None:
        """Return what is to be started; None where it has ended without a start."""
        if active.stage is not Stage.STARTING:
            return None
        if active.stop is None and self.is_recalled(active):
            self._on_recalled(active)
            return None
        self._stop_with_us(active)
        if active.stop is not None:
            self._on_failed(active, active.stop.outcome, active.stop.reason)
            return None
        self._wait_for(active, Wait.SPAWN)
        try:
            spec = self._parts.spec_of(active)
            if active.attempt is not None and is_held(active.run.due, active.attempt.begun_at):
                spec = replace(spec, held_for=active.run.due)
        except Exception:  # noqa: BLE001 - the boundary of one run: its faults stay its own
            log.exception("run cannot be started", extra=fields(run=active.run.id))
            self._on_failed(active, Outcome.FAILED, f"cannot start: {INTERNAL_FAULT}")
            return None
        if active.attempt is not None and spec.output is not None:
            active.attempt = replace(active.attempt, output=str(spec.output.path))
        return spec

    def _stop_with_us(self, active: ActiveRun) -> bool:
        """Give a run its stop if that is what a stop of the daemon means for it by now."""
        if not self._register.is_stopping or active.stop is not None:
            return False
        reason = ""
        if active.job.on_stop is OnStop.TERMINATE:
            reason = STOPPED
        elif active.job.on_stop is OnStop.WAIT:
            reason = self._register.ends_runs
        if reason:
            active.stop = Stop(Outcome.CANCELLED, reason)
        return bool(reason)

    def started(self, event: Started) -> None:
        """Note that a process runs, and give it its timeout."""
        active = self._register.current(event.key)
        if active is None or active.attempt is None:
            return
        active.stage = Stage.RUNNING
        lag = self._note_lag(active, event.started_at)
        active.attempt = replace(
            active.attempt,
            lag=lag,
            pid=event.pid,
            start_ticks=event.start_ticks,
            started_at=event.started_at,
            # It may be being ended already, and that is the reason to keep.
            reason=active.attempt.reason if active.attempt.stopping else event.note,
        )
        self._note_output(active, event.note)
        self._parts.outbox.write(SetAttempt(active.run.id, active.attempt))
        tell(
            logging.INFO,
            "run started",
            active.job.name,
            run=active.run.id,
            attempt=active.attempt_number,
            pid=event.pid,
            due=active.run.due,
            late=lag.own if lag is not None and active.run.cause in _TIMED else None,
            cause=active.run.cause if active.run.cause is not Cause.SCHEDULE else None,
        )
        if self._stop_with_us(active):  # it is too late to recall it
            self._signals.note(active)
        if active.stop is not None:
            self._signals.send(active)
        elif active.job.timeout is not None:
            self.set_timeout(active, active.job.timeout - self._age(event))

    def _note_output(self, active: ActiveRun, note: str) -> None:
        """Tell once that outputs are not kept, until one is again."""
        if note:
            level = logging.DEBUG if self._register.output_trouble else logging.ERROR
            tell(level, note, active.job.name, run=active.run.id)
            self._register.output_trouble = f"run {active.run.id} of {active.job.name}: {note}"
        elif active.job.output is not OutputMode.DISCARD:
            self._register.output_trouble = ""

    def _age(self, event: Started) -> timedelta:
        """Return how long ago a process began.

        By the clock that is exact, unless it was set since; the kernel's ticks tell if it was.
        """
        timekeeper = self._parts.timekeeper
        began_ns = timekeeper.deadline(event.started_at)
        by_clock = timedelta(microseconds=max(0, timekeeper.reading() - began_ns) // 1000)
        if event.start_ticks is None:
            return by_clock
        by_ticks = timekeeper.age(event.start_ticks)
        return by_clock if abs(by_clock - by_ticks) < _ABOUT_A_TICK else by_ticks

    def _note_lag(self, active: ActiveRun, started_at: datetime) -> Lag | None:
        """Return how late a run has started, once, and remember it."""
        waits, active.waits = active.waits, None
        if waits is None:
            return None
        timekeeper = self._parts.timekeeper
        # The clock may have been set back since; the start is over all the same.
        lag = waits.end(min(timekeeper.deadline(started_at), timekeeper.reading()))
        slots = self._register.slots(active.job)
        state = self._register.find(active.job.name)
        slots.note_lag(lag, active, state)
        if slots.is_late and slots.look_ns is None:
            self._look(slots)
        if state is not None:
            _remember(state, lag)
        return lag

    def give_up(self, active: ActiveRun) -> None:
        """Remember for how long one has waited that was to start and is given up, as it is late."""
        waits, active.waits = active.waits, None
        state = self._register.find(active.job.name)
        if waits is not None and state is not None:
            self.note_given_up(state, waits)

    def note_given_up(self, state: JobState, waits: Waits) -> None:
        """Remember what a run of a job has waited for that does not start, as it is late."""
        lag = waits.end(self._parts.timekeeper.reading())
        self._register.slots(state.job).note_given_up(lag)
        _remember(state, lag)

    def set_timeout(self, active: ActiveRun, remaining: timedelta) -> None:
        """Have the attempt ended once ``remaining`` is over."""
        active.timeout_timer = self._parts.timers.call_at(
            self._parts.timekeeper.after(max(remaining, timedelta(0))),
            TimeoutDue(active, active.attempt_number),
        )

    def fill(self, slots: Slots) -> None:
        """Give free slots to the runs that wait for one."""
        while not self._register.is_stopping and self._register.bring(slots, None):
            active = slots.next_waiting()
            if active is None:
                return
            self._parts.drop_timer(active, "wait_timer")
            self._begin_attempt(active, self._parts.timekeeper.now())
            self._start_with_slot(active)

    def fill_all(self) -> None:
        """Give free slots of every pool to the runs that wait for one."""
        for slots in list(self._register.pools.values()):
            self.fill(slots)

    def fill_all_for(self, share: Share) -> None:
        """Give free slots to the runs that wait, as a group may have one again, in any pool.

        Pools have their turn by how long it is since the group had a slot of theirs: so the one in
        which it has most to do keeps it from none.
        """
        last = {stake.pool: stake.last_start for stake in share.stakes}
        pools = self._register.pools
        for name in sorted(pools, key=lambda name: last.get(name, 0)):
            self.fill(pools[name])

    def watch_waiting(self, slots: Slots) -> None:
        """See to it that somebody looks should a run wait for longer than its pool's limit."""
        if slots.pool.lag_warning is not None and slots.look_ns is None:
            self._look(slots)

    def lag_due(self, slots: Slots) -> None:
        """Look whether runs of a pool start late, or do so no more, and again when that may be."""
        slots.look_ns = None
        self._look(slots)

    def _look(self, slots: Slots) -> None:
        slots.look_ns = slots.look()
        if slots.look_ns is not None:
            self._parts.timers.call_at(slots.look_ns, LagDue(slots))


def _remember(state: JobState, lag: Lag) -> None:
    """Count a lag to those of a job."""
    state.lags = state.lags or LagRecord(LAGS_OF_A_JOB)
    state.lags.add(lag)


_TIMED = frozenset({Cause.SCHEDULE, Cause.UPSTREAM})
"""Why a run exists that should start at an instant that is known, and can be late.

What it follows may have come to nothing before that: claimed ahead, and lost by a crash.
"""
