"""Attempts: a run gets a slot and a process, the process ends, the run is tried again or finished.

Every method is an event at one instant. It changes the records in memory, hands what must be
written to the outbox together with what is to happen afterwards, and returns. Whether a run comes
into being at all is decided in ``admission``; why one is ended early, in ``stopping``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from crond_py.clock import to_ns
from crond_py.engine.events import KillDue, LagDue, LaunchDue, RetryDue, TimeoutDue, TooLateDue
from crond_py.engine.lag import LAGS_OF_A_JOB, LagRecord, Wait
from crond_py.engine.parts import Parts, Register
from crond_py.engine.pools import Slots
from crond_py.engine.records import ActiveRun, Conclusion, JobState, Stage, Stop
from crond_py.engine.telling import fields, log, tell
from crond_py.model import Attempt, Cause, Exit, Lag, OnStop, Outcome, State
from crond_py.policy import (
    Admission,
    decide_overlap,
    is_retryable,
    judge_exit,
    retry_delay,
    wants_rerun,
    wants_retry,
)
from crond_py.ports import AttemptKey, Ended, LeftOver, SetAttempt, SetRun, Started, StartFailed

_ABOUT_A_TICK = timedelta(milliseconds=20)

LONGEST_AHEAD = timedelta(milliseconds=20)
"""A claim is never made longer before its instant than this; more is a clock that was set back."""


class Attempts:
    """Takes admitted runs to their outcome."""

    def __init__(self, parts: Parts, register: Register) -> None:
        self._parts = parts
        self._register = register

    # --- a slot and a process -------------------------------------------------------------

    def start(self, active: ActiveRun) -> None:
        """Begin an attempt of a run that waited, or let it wait for a slot."""
        self._cancel_timer(active, "wait_timer")
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
        if self._register.is_stopping or not slots.is_free_for(active.job):
            active.stage = Stage.SLOT
            self._wait_for(active, Wait.POOL)
            active.run = replace(active.run, state=State.QUEUED, retry_at=None)
            self.watch_waiting(slots)
            slots.wait(active, self._parts.timekeeper.reading())
            return False
        slots.take(active)
        self._begin_attempt(active, now)
        return True

    def _begin_attempt(self, active: ActiveRun, now: datetime) -> None:
        active.stage = Stage.STARTING
        self._wait_for(active, Wait.DISPATCH)
        active.attempt = Attempt(
            active.attempt_number + 1, begun_at=now, boot_id=self._parts.boot_id
        )
        active.run = replace(active.run, state=State.RUNNING, reason="", retry_at=None)

    def watch_waiting(self, slots: Slots) -> None:
        """See to it that somebody looks should a run wait for longer than its pool's limit."""
        limit = slots.pool.lag_warning
        if limit is not None and not slots.is_watched and not slots.is_late:
            slots.is_watched = True
            self._parts.timers.call_at(self._parts.timekeeper.after(limit), LagDue(slots))

    def lag_due(self, slots: Slots) -> None:
        """Warn of a pool in which some run waits for too long, or look again when one would."""
        slots.is_watched = False
        limit, oldest = slots.pool.lag_warning, slots.oldest_since_ns
        if limit is None or oldest is None or slots.is_late:
            return
        age_ns = self._parts.timekeeper.reading() - oldest
        if age_ns >= to_ns(limit):
            slots.note_waiting(timedelta(microseconds=age_ns // 1000))
            return
        slots.is_watched = True
        again_ns = self._parts.timekeeper.reading() + to_ns(limit) - age_ns
        self._parts.timers.call_at(again_ns, LagDue(slots))

    def _wait_for(self, active: ActiveRun, what: Wait) -> None:
        """Note what a run that has not started yet waits for from now on."""
        if active.waits is not None:
            active.waits.turn_to(what, self._parts.timekeeper.reading())

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
        if active.run.cause is Cause.SCHEDULE and 0 < remaining_ns <= to_ns(LONGEST_AHEAD):
            self._parts.timers.call_at(due_ns, LaunchDue(active), priority=active.job.priority)
            return
        self.launch_now(active)

    def launch_now(self, active: ActiveRun) -> None:
        """Start the process of an attempt whose instant has come."""
        if active.stage is not Stage.STARTING:
            return
        if self._register.is_stopping and active.job.on_stop is OnStop.TERMINATE:
            active.stop = active.stop or Stop(Outcome.CANCELLED, "pycron was stopped")
        if active.stop is not None:
            self._end(active, active.stop.outcome, active.stop.reason, None)
            return
        self._wait_for(active, Wait.SPAWN)
        try:
            spec = self._parts.specify(active.job, active.run, active.attempt_number)
            if active.attempt is not None and spec.output is not None:
                active.attempt = replace(active.attempt, output=str(spec.output.path))
            self._parts.processes.start(spec)
        except Exception:  # noqa: BLE001 - the boundary of one run: its faults stay its own
            log.exception("run cannot be started", extra=fields(run=active.run.id))
            reason = "cannot start: an error inside pycron, see the daemon's log"
            self._end(active, Outcome.FAILED, reason, None)

    def started(self, event: Started) -> None:
        """Note that a process runs, and give it its timeout."""
        active = self._current(event.key.run_id, event.key.number)
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
        if event.note:
            tell(logging.ERROR, event.note, active.job.name, run=active.run.id)
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
        if active.stop is not None:
            self.signal(active)
        elif active.job.timeout is not None:
            self.set_timeout(active, active.job.timeout - self._age(event))

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
        self._register.slots(active.job).note_lag(lag)
        state = self._register.states.get(active.job.name)
        if state is not None:
            state.lags = state.lags or LagRecord(LAGS_OF_A_JOB)
            state.lags.add(lag)
        return lag

    def set_timeout(self, active: ActiveRun, remaining: timedelta) -> None:
        """Have the attempt ended once ``remaining`` is over."""
        active.timeout_timer = self._parts.timers.call_at(
            self._parts.timekeeper.after(max(remaining, timedelta(0))),
            TimeoutDue(active, active.attempt_number),
        )

    # --- the end of an attempt ------------------------------------------------------------

    def start_failed(self, event: StartFailed) -> None:
        """Count an attempt that has no process as failed."""
        active = self._current(event.key.run_id, event.key.number)
        if active is None:
            return
        stop = active.stop
        outcome, reason = (
            (stop.outcome, stop.reason)
            if stop
            else (Outcome.FAILED, f"cannot start: {event.reason}")
        )
        self._end(active, outcome, reason, None)

    def left_over(self, event: LeftOver) -> None:
        """End what a process has left behind that has ended by itself; how, is settled."""
        active = self._current(event.key.run_id, event.key.number)
        if active is None or active.attempt is None:
            return
        self._cancel_timer(active, "timeout_timer")
        active.attempt = replace(active.attempt, exit=event.exit)
        left = (
            f"{event.count} process{'' if event.count == 1 else 'es'} that the command left behind"
        )
        if active.stop is None:
            outcome, reason = judge_exit(event.exit, active.job.success_codes)
            active.stop = Stop(outcome, "; ".join(filter(None, (reason, f"ended {left}"))))
        tell(logging.WARNING, f"ending {left}", active.job.name, run=active.run.id)
        self.note_stop(active)
        self.signal(active)

    def ended(self, event: Ended) -> None:
        """Judge an attempt whose process has ended."""
        active = self._current(event.key.run_id, event.key.number)
        if active is None:
            return
        if active.stop is not None:
            outcome, reason = active.stop.outcome, active.stop.reason
        else:
            outcome, reason = judge_exit(event.exit, active.job.success_codes)
            reason = active.how_lost or reason
        if event.note:
            tell(logging.WARNING, event.note, active.job.name, run=active.run.id)
        reason = "; ".join(filter(None, (reason, event.note)))
        self._end(active, outcome, reason, event.exit)

    def _end(self, active: ActiveRun, outcome: Outcome, reason: str, exit_: Exit | None) -> None:
        now = self._parts.timekeeper.now()
        self._cancel_timer(active, "timeout_timer")
        self._cancel_timer(active, "kill_timer")
        self.close(active, outcome, reason, exit_, now)
        with self.giving_slot_back(active):
            self.conclude(active, outcome, reason)

    def conclude(self, active: ActiveRun, outcome: Outcome, reason: str) -> None:
        """Have a run whose attempt is closed tried again, or give it its outcome."""
        job, attempt = active.job, active.attempt
        is_cut_short = outcome is Outcome.LOST and active.how_lost
        active.how_lost = ""
        if is_cut_short and self._exists(active) and wants_rerun(job.on_crash, active.lost):
            active.stop = None
            self.start(active)
        elif not wants_retry(outcome, active.attempt_number, job.retry):
            self.finish(active, outcome, reason)
        elif not is_retryable(outcome, attempt.exit if attempt else None, job.retry_on):
            self.finish(active, outcome, f"{reason}; not tried again, retry_on does not name it")
        else:
            self._await_retry(active, outcome, reason, self._parts.timekeeper.now())

    def _exists(self, active: ActiveRun) -> bool:
        state = self._register.states.get(active.job.name)
        return state is not None and not state.is_removed

    def close(
        self,
        active: ActiveRun,
        outcome: Outcome,
        reason: str,
        exit_: Exit | None,
        now: datetime,
    ) -> None:
        """Enter how an attempt ended; when, nobody knows of one that was lost."""
        attempt = active.attempt
        if attempt is None:
            return
        if attempt.exit is not None and exit_ in {None, Exit()}:
            exit_ = attempt.exit  # it was seen before the rest of its tree was gone
        if outcome is Outcome.LOST:
            active.lost += 1
        active.attempt = replace(
            attempt,
            finished_at=None if outcome is Outcome.LOST and exit_ is None else now,
            exit=exit_,
            outcome=outcome,
            reason=reason or attempt.reason,
            stopping=None,
        )
        self._parts.outbox.write(SetAttempt(active.run.id, active.attempt))

    def _await_retry(self, active: ActiveRun, outcome: Outcome, reason: str, now: datetime) -> None:
        state = self._register.states.get(active.job.name)
        if state is None or state.is_removed:
            self.finish(active, outcome, reason)
            return
        active.job = state.job  # the next attempt goes by the crontab in force
        delay = retry_delay(active.job.retry, active.attempt_number, self._parts.random.random())
        self.set_retry(active, delay, now)
        self._parts.outbox.write(
            SetRun(active.run.id, State.WAITING_RETRY, reason=reason, retry_at=now + delay)
        )
        tell(
            logging.WARNING,
            "attempt failed",
            active.job.name,
            run=active.run.id,
            attempt=f"{active.attempt_number}/{active.job.retry.attempts}",
            outcome=outcome,
            reason=reason,
            retry_in=delay,
        )

    def set_retry(self, active: ActiveRun, delay: timedelta, now: datetime) -> None:
        """Let the run wait for its next attempt."""
        active.stage = Stage.RETRY
        active.stop = None
        active.run = replace(active.run, state=State.WAITING_RETRY, retry_at=now + delay)
        active.wait_timer = self._parts.timers.call_at(
            self._parts.timekeeper.after(delay), RetryDue(active)
        )

    def retry_due(self, active: ActiveRun) -> None:
        """Begin the next attempt."""
        if active.stage is Stage.RETRY and not self._register.is_stopping:
            active.wait_timer = None
            self.start(active)

    def signal(self, active: ActiveRun) -> None:
        """Ask the process tree to end, or kill it, once that it is being ended is in the ledger.

        Where that cannot be had it is ended all the same.
        """
        self._parts.outbox.then_in_any_case(partial(self._signal, active, active.key))

    def _signal(self, active: ActiveRun, key: AttemptKey) -> None:
        stop = active.stop
        if stop is None or active.key != key or active.stage not in {Stage.STARTING, Stage.RUNNING}:
            return
        self._parts.processes.stop(active.key, force=stop.is_forced)
        if not stop.is_forced and active.kill_timer is None:
            active.kill_timer = self._parts.timers.call_at(
                self._parts.timekeeper.after(active.job.kill_after),
                KillDue(active, active.attempt_number),
            )

    def note_stop(self, active: ActiveRun) -> None:
        """Enter that an attempt is being ended: a restart goes on with that, and not with it."""
        stop, attempt = active.stop, active.attempt
        if stop is None or attempt is None or not active.is_claimed:
            return
        noted = replace(attempt, stopping=stop.outcome, reason=stop.reason)
        if noted != attempt:
            active.attempt = noted
            self._parts.outbox.write(SetAttempt(active.run.id, noted), durable=True)

    # --- the end of a run -----------------------------------------------------------------

    def finish(
        self, active: ActiveRun, outcome: Outcome, reason: str, *, is_durable: bool = False
    ) -> None:
        """Give a run its outcome and let the next ones go on."""
        now = self._parts.timekeeper.now()
        attempts = (active.attempt,) if active.attempt else ()
        active.run = replace(
            active.run,
            state=State.DONE,
            outcome=outcome,
            reason=reason,
            finished_at=now,
            retry_at=None,
            attempts=attempts,
        )
        self._parts.outbox.write(
            SetRun(active.run.id, State.DONE, outcome=outcome, reason=reason, finished_at=now),
            durable=is_durable,
        )
        run = active.run
        self._register.on_outcome(Conclusion(run.job, run.era, run.due, outcome))
        for callback in active.on_end:
            self._parts.outbox.then(partial(callback, active.run))
        level = logging.INFO if outcome is Outcome.SUCCEEDED else logging.WARNING
        started_at = active.attempt.started_at if active.attempt else None
        tell(
            level,
            f"run {outcome.replace('_', ' ')}",
            active.job.name,
            run=active.run.id,
            attempt=active.attempt_number if active.attempt_number > 1 else None,
            took=now - started_at if started_at else None,
            reason=reason or None,
        )
        self.retire(active)

    def retire(self, active: ActiveRun) -> None:
        """Take a run off the records and let the next ones go on."""
        active.stage = Stage.ENDED
        for timer in ("timeout_timer", "kill_timer", "wait_timer"):
            self._cancel_timer(active, timer)
        self._register.runs.pop(active.run.id, None)
        state = self._register.states.get(active.job.name)
        if state is None:
            return
        if active in state.active:
            state.active.remove(active)
        elif active in state.queued:
            state.queued.remove(active)
        if active.attempt is not None:
            state.last = active.run
        self.promote(state)
        if not state.active and not state.queued:
            if state.is_removed:
                del self._register.states[state.job.name]
            else:
                self._register.on_idle(state, self._parts.timekeeper.now())

    def renew_waiting(self, state: JobState) -> None:
        """Let the runs of a job that wait go by its new definition."""
        for active in [*state.active, *state.queued]:
            if active.stage in {Stage.BEHIND, Stage.SLOT}:
                self._cancel_timer(active, "wait_timer")
                self.limit_waiting(active)
        self.promote(state)

    def promote(self, state: JobState) -> None:
        """Start runs that waited for a predecessor, as many as the overlap policy allows."""
        while not self._register.is_stopping:
            # What has been given up only waits for the ledger to have it.
            first = next((run for run in state.queued if run.stop is None), None)
            if first is None:
                return
            decision = decide_overlap(
                state.job.overlap,
                first.run.cause,
                replace(state.load, queued=0),
                queue_limit=0,
                max_running=state.job.max_running,
            )
            if decision.admission is not Admission.START:
                return
            state.queued.remove(first)
            state.active.append(first)
            self.start(first)

    @contextmanager
    def giving_slot_back(self, active: ActiveRun) -> Iterator[None]:
        """Release a run's slot, if it has one, and in the end give it to whoever waits for one."""
        slots, share = self._register.slots(active.job), active.share
        slots.release(active)
        yield
        if share is not None and share.group.max_running is not None:
            self.fill_all()  # its group may have waited for a slot in any pool
        else:
            self.fill(slots)

    def fill_all(self) -> None:
        """Give free slots of every pool to the runs that wait for one."""
        for slots in list(self._register.pools.values()):
            self.fill(slots)

    def fill(self, slots: Slots) -> None:
        """Give free slots to the runs that wait for one."""
        while not self._register.is_stopping:
            active = slots.next_waiting()
            if active is None:
                return
            self._cancel_timer(active, "wait_timer")
            self._begin_attempt(active, self._parts.timekeeper.now())
            self._start_with_slot(active)

    def _current(self, run_id: int, number: int) -> ActiveRun | None:
        active = self._register.runs.get(run_id)
        if active is None or active.attempt_number != number:
            return None
        return active if active.stage in {Stage.STARTING, Stage.RUNNING} else None

    def _cancel_timer(self, active: ActiveRun, name: str) -> None:
        timer = getattr(active, name)
        if timer is not None:
            self._parts.timers.cancel(timer)
            setattr(active, name, None)


_TIMED = frozenset({Cause.SCHEDULE, Cause.UPSTREAM})
"""Why a run exists that should start at an instant that is known, and can be late."""
