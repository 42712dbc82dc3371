"""A run's life: admitted, claimed, started, ended, tried again, finished.

Every method is an event at one instant. It changes the records in memory, hands what must be
written to the outbox together with what is to happen afterwards, and returns. When a job is due
is not decided here: see ``agenda``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from random import Random
from typing import Protocol

from crond_py.crontab.model import DEFAULT_POOL, Job, Pool
from crond_py.engine.events import KillDue, RetryDue, TimeoutDue, TooLateDue
from crond_py.engine.outbox import Outbox
from crond_py.engine.pools import Slots
from crond_py.engine.records import ActiveRun, JobState, Stage, Stop
from crond_py.engine.timekeeper import Timekeeper
from crond_py.model import Attempt, Cause, Exit, Outcome, Run, State
from crond_py.policy import (
    Admission,
    Recovery,
    decide_overlap,
    judge_exit,
    retry_delay,
    wants_retry,
)
from crond_py.ports import (
    Claim,
    Ended,
    Processes,
    ProcessSpec,
    SetAttempt,
    SetRun,
    Started,
    StartFailed,
    Timers,
)
from crond_py.schedule import format_duration

log = logging.getLogger("pycron.engine")


class SpecBuilder(Protocol):
    """Makes the specification of a process from a job, its run, and the attempt's number."""

    def __call__(self, job: Job, run: Run, attempt: int) -> ProcessSpec:
        """Return what the runner needs."""
        ...


@dataclass(slots=True)
class Parts:
    """What the engine is built from; shared by its halves."""

    timekeeper: Timekeeper
    timers: Timers
    outbox: Outbox
    processes: Processes
    specify: SpecBuilder
    boot_id: str
    random: Random
    slots: dict[str, Slots] = field(default_factory=dict)


class Lifecycle:
    """Owns every run without an outcome, and the pools' slots."""

    def __init__(self, parts: Parts, on_idle: Callable[[JobState, datetime], None]) -> None:
        """``on_idle`` is told when a job's last active run has ended, and at which instant."""
        self._parts = parts
        self._on_idle = on_idle
        self.runs: dict[int, ActiveRun] = {}
        self.states: dict[str, JobState] = {}
        self.is_stopping = False

    # --- admission ------------------------------------------------------------------------

    def admit(
        self, state: JobState, due: datetime, cause: Cause, *, is_forced: bool = False
    ) -> ActiveRun | None:
        """Claim an occurrence; it starts, waits its turn, or is skipped (None) by its policy."""
        job = state.job
        decision = decide_overlap(
            job.overlap,
            cause,
            state.load,
            queue_limit=job.queue_limit,
            max_running=job.max_running,
        )
        if decision.admission is Admission.SKIP and not is_forced:
            self._skip(state, due, cause, decision.code)
            return None
        now = self._parts.timekeeper.now()
        run = Run(0, job.name, state.cursor.era, due, cause, State.QUEUED, now)
        active = ActiveRun(job, run, Stage.BEHIND)
        if decision.admission is Admission.QUEUE and not is_forced:
            state.queued.append(active)
        else:
            state.active.append(active)
            self._take_slot(active, now)
        self._limit_waiting(active)
        claim = Claim(job.name, run.era, due, cause, active.run.state, now, attempt=active.attempt)
        self._parts.outbox.claim(claim, partial(self._claimed, state, active))
        return active

    def _skip(self, state: JobState, due: datetime, cause: Cause, code: str) -> None:
        now = self._parts.timekeeper.now()
        reason = f"{code}: {self._blocking(state)}"
        claim = Claim(
            state.job.name,
            state.cursor.era,
            due,
            cause,
            State.DONE,
            now,
            outcome=Outcome.SKIPPED,
            reason=reason,
        )
        self._parts.outbox.claim(claim, lambda _: None)
        _tell(logging.WARNING, "run skipped", state.job.name, due=due, reason=reason)

    def refuses(self, state: JobState, cause: Cause) -> str:
        """Return why the overlap policy would skip a run of this cause now, or nothing."""
        job = state.job
        decision = decide_overlap(
            job.overlap,
            cause,
            state.load,
            queue_limit=job.queue_limit,
            max_running=job.max_running,
        )
        is_skip = decision.admission is Admission.SKIP
        return f"{decision.code}: {self._blocking(state)}" if is_skip else ""

    def _blocking(self, state: JobState) -> str:
        if not state.active:
            return f"{len(state.queued)} runs wait already"
        first = state.active[0]
        if not first.is_claimed:
            return "a run of the same instant is about to start"
        begun = first.attempt.begun_at if first.attempt else first.run.claimed_at
        verb = {
            Stage.SLOT: "waits for a slot of its pool",
            Stage.RETRY: "waits for its retry",
        }.get(first.stage, "is running")
        text = f"run {first.run.id} {verb} since {begun.isoformat(timespec='seconds')}"
        behind = len(state.queued)
        return f"{text}, {behind} more behind it" if behind else text

    def _take_slot(self, active: ActiveRun, now: datetime) -> bool:
        """Begin the next attempt if there is a slot, else wait for one; not yet written."""
        slots = self._slots(active.job)
        if self.is_stopping or slots.has_waiting or not slots.try_take():
            active.stage = Stage.SLOT
            active.run = replace(active.run, state=State.QUEUED, retry_at=None)
            slots.wait(active)
            return False
        self._begin_attempt(active, now)
        return True

    def _begin_attempt(self, active: ActiveRun, now: datetime) -> None:
        active.stage = Stage.STARTING
        active.attempt = Attempt(
            active.attempt_number + 1, begun_at=now, boot_id=self._parts.boot_id
        )
        active.run = replace(active.run, state=State.RUNNING, retry_at=None)

    def _limit_waiting(self, active: ActiveRun) -> None:
        within = active.job.start_within
        if within is None or active.stage not in {Stage.BEHIND, Stage.SLOT}:
            return
        deadline = self._parts.timekeeper.deadline(active.run.due + within)
        active.wait_timer = self._parts.timers.call_at(deadline, TooLateDue(active))

    def _claimed(self, state: JobState, active: ActiveRun, run_id: int | None) -> None:
        if run_id is None:
            log.warning(
                "occurrence has its run already",
                extra={"fields": {"job": state.job.name, "due": active.run.due}},
            )
            held_slot = active.stage is Stage.STARTING
            self._retire(active)
            if held_slot:
                slots = self._slots(active.job)
                slots.release()
                self._fill(slots)
            return
        active.run = replace(active.run, id=run_id)
        self.runs[run_id] = active
        if active.stop is not None and active.stage in {Stage.BEHIND, Stage.SLOT}:
            self._finish(active, active.stop.outcome, active.stop.reason)
        elif active.stage is Stage.STARTING and not active.begins_when_claimed:
            self._launch(active)
        elif active.begins_when_claimed:
            self._write_attempt(active)

    # --- starting -------------------------------------------------------------------------

    def _start(self, active: ActiveRun) -> None:
        """Begin an attempt of a run that waited, or let it wait for a slot."""
        self._cancel_timer(active, "wait_timer")
        if self._take_slot(active, self._parts.timekeeper.now()):
            self._start_with_slot(active)
        else:
            self._limit_waiting(active)

    def _start_with_slot(self, active: ActiveRun) -> None:
        if active.is_claimed:
            self._write_attempt(active)
        else:
            active.begins_when_claimed = True

    def _write_attempt(self, active: ActiveRun) -> None:
        assert active.attempt is not None  # noqa: S101 - set by _begin_attempt just before
        self._parts.outbox.write(
            SetRun(active.run.id, State.RUNNING),
            SetAttempt(active.run.id, active.attempt),
            durable=True,
        )
        self._parts.outbox.then(partial(self._launch, active))

    def _launch(self, active: ActiveRun) -> None:
        if active.stop is not None:
            self._end_attempt(active, active.stop.outcome, active.stop.reason, None)
            return
        try:
            spec = self._parts.specify(active.job, active.run, active.attempt_number)
            if active.attempt is not None and spec.output is not None:
                active.attempt = replace(active.attempt, output=str(spec.output))
            self._parts.processes.start(spec)
        except Exception:  # the boundary of one run: whatever is wrong with it stays its own
            log.exception("run cannot be started", extra={"fields": {"run": active.run.id}})
            reason = "cannot start: an error inside pycron, see the daemon's log"
            self._end_attempt(active, Outcome.FAILED, reason, None)

    def started(self, event: Started) -> None:
        """Note that a process runs, and give it its timeout."""
        active = self._current(event.key.run_id, event.key.number)
        if active is None or active.attempt is None:
            return
        active.stage = Stage.RUNNING
        active.attempt = replace(
            active.attempt,
            pid=event.pid,
            start_ticks=event.start_ticks,
            started_at=event.started_at,
        )
        self._parts.outbox.write(SetAttempt(active.run.id, active.attempt))
        _tell(
            logging.INFO,
            "run started",
            active.job.name,
            run=active.run.id,
            attempt=active.attempt_number,
            pid=event.pid,
            due=active.run.due,
            late=event.started_at - active.run.due if active.attempt_number == 1 else None,
            cause=active.run.cause if active.run.cause is not Cause.SCHEDULE else None,
        )
        if active.stop is not None:
            self._signal(active)
        elif active.job.timeout is not None:
            self._set_timeout(active, active.job.timeout)

    def _set_timeout(self, active: ActiveRun, remaining: timedelta) -> None:
        active.timeout_timer = self._parts.timers.call_at(
            self._parts.timekeeper.after(remaining), TimeoutDue(active, active.attempt_number)
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
        self._end_attempt(active, outcome, reason, None)

    def ended(self, event: Ended) -> None:
        """Judge an attempt whose process has ended."""
        active = self._current(event.key.run_id, event.key.number)
        if active is None:
            return
        if active.stop is not None:
            outcome, reason = active.stop.outcome, active.stop.reason
        else:
            outcome, reason = judge_exit(event.exit, active.job.success_codes)
        self._end_attempt(active, outcome, reason, event.exit)

    def _end_attempt(
        self, active: ActiveRun, outcome: Outcome, reason: str, exit_: Exit | None
    ) -> None:
        now = self._parts.timekeeper.now()
        self._cancel_timer(active, "timeout_timer")
        self._cancel_timer(active, "kill_timer")
        self._close_attempt(active, outcome, reason, exit_, now)
        slots = self._slots(active.job)
        slots.release()
        if wants_retry(outcome, active.attempt_number, active.job.retry):
            self._await_retry(active, outcome, reason, now)
        else:
            self._finish(active, outcome, reason)
        self._fill(slots)

    def _close_attempt(
        self,
        active: ActiveRun,
        outcome: Outcome,
        reason: str,
        exit_: Exit | None,
        now: datetime,
    ) -> None:
        if active.attempt is None:
            return
        active.attempt = replace(
            active.attempt, finished_at=now, exit=exit_, outcome=outcome, reason=reason
        )
        self._parts.outbox.write(SetAttempt(active.run.id, active.attempt))

    def _await_retry(self, active: ActiveRun, outcome: Outcome, reason: str, now: datetime) -> None:
        state = self.states.get(active.job.name)
        if state is None or state.is_removed:
            self._finish(active, outcome, reason)
            return
        delay = retry_delay(active.job.retry, active.attempt_number, self._parts.random.random())
        self._set_retry(active, delay, now)
        self._parts.outbox.write(
            SetRun(active.run.id, State.WAITING_RETRY, reason=reason, retry_at=now + delay)
        )
        _tell(
            logging.WARNING,
            "attempt failed",
            active.job.name,
            run=active.run.id,
            attempt=f"{active.attempt_number}/{active.job.retry.attempts}",
            outcome=outcome,
            reason=reason,
            retry_in=delay,
        )

    def _set_retry(self, active: ActiveRun, delay: timedelta, now: datetime) -> None:
        active.stage = Stage.RETRY
        active.stop = None
        active.run = replace(active.run, state=State.WAITING_RETRY, retry_at=now + delay)
        active.wait_timer = self._parts.timers.call_at(
            self._parts.timekeeper.after(delay), RetryDue(active)
        )

    def retry_due(self, active: ActiveRun) -> None:
        """Begin the next attempt."""
        if active.stage is Stage.RETRY and not self.is_stopping:
            active.wait_timer = None
            self._start(active)

    # --- ending a run early ---------------------------------------------------------------

    def cancel(self, active: ActiveRun, reason: str, *, is_forced: bool = False) -> bool:
        """End a run as cancelled; True if its process must end first."""
        stop = Stop(Outcome.CANCELLED, reason, is_forced)
        if active.stage in {Stage.STARTING, Stage.RUNNING}:
            self._stop_process(active, stop)
            return True
        if active.is_claimed:
            self._finish(active, stop.outcome, stop.reason)
        else:
            active.stop = stop
        return False

    def timeout_due(self, active: ActiveRun, attempt: int) -> None:
        """End an attempt that has run for too long."""
        if active.stage is not Stage.RUNNING or active.attempt_number != attempt or active.stop:
            return
        active.timeout_timer = None
        reason = f"timed out after {_short(active.job.timeout)}"
        self._stop_process(active, Stop(Outcome.TIMED_OUT, reason))

    def kill_due(self, active: ActiveRun, attempt: int) -> None:
        """Kill what did not end when asked."""
        if active.stop is None or active.attempt_number != attempt:
            return
        active.kill_timer = None
        active.stop = replace(active.stop, is_forced=True)
        if active.stage is Stage.RUNNING:
            self._signal(active)

    def too_late_due(self, active: ActiveRun) -> None:
        """Give up a run that found no slot or predecessor in time."""
        active.wait_timer = None
        if active.stage not in {Stage.BEHIND, Stage.SLOT}:
            return
        reason = f"too_late: not started within {_short(active.job.start_within)}"
        if active.is_claimed:
            self._finish(active, Outcome.SKIPPED, reason)
        else:
            active.stop = Stop(Outcome.SKIPPED, reason)

    def _stop_process(self, active: ActiveRun, stop: Stop) -> None:
        if active.stop is not None:
            # The first reason stays; a second request may only be more urgent.
            stop = replace(active.stop, is_forced=active.stop.is_forced or stop.is_forced)
            if stop == active.stop:
                return
        active.stop = stop
        if active.stage is Stage.RUNNING:
            self._signal(active)

    def _signal(self, active: ActiveRun) -> None:
        stop = active.stop
        assert stop is not None  # noqa: S101 - callers have set it
        self._parts.processes.stop(active.key, force=stop.is_forced)
        if not stop.is_forced and active.kill_timer is None:
            active.kill_timer = self._parts.timers.call_at(
                self._parts.timekeeper.after(active.job.kill_after),
                KillDue(active, active.attempt_number),
            )

    # --- the end --------------------------------------------------------------------------

    def _finish(self, active: ActiveRun, outcome: Outcome, reason: str) -> None:
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
            SetRun(active.run.id, State.DONE, outcome=outcome, reason=reason, finished_at=now)
        )
        for callback in active.on_end:
            self._parts.outbox.then(partial(callback, active.run))
        level = logging.INFO if outcome is Outcome.SUCCEEDED else logging.WARNING
        started_at = active.attempt.started_at if active.attempt else None
        _tell(
            level,
            f"run {outcome.replace('_', ' ')}",
            active.job.name,
            run=active.run.id,
            attempt=active.attempt_number if active.attempt_number > 1 else None,
            took=now - started_at if started_at else None,
            reason=reason or None,
        )
        self._retire(active)

    def _retire(self, active: ActiveRun) -> None:
        """Take a run off the records and let the next ones go on."""
        active.stage = Stage.ENDED
        for timer in ("timeout_timer", "kill_timer", "wait_timer"):
            self._cancel_timer(active, timer)
        self.runs.pop(active.run.id, None)
        state = self.states.get(active.job.name)
        if state is None:
            return
        if active in state.active:
            state.active.remove(active)
        elif active in state.queued:
            state.queued.remove(active)
        if active.attempt is not None:
            state.last = active.run
        self._promote(state)
        if not state.active and not state.queued:
            if state.is_removed:
                del self.states[state.job.name]
            else:
                self._on_idle(state, self._parts.timekeeper.now())

    def _promote(self, state: JobState) -> None:
        """Start runs that waited for a predecessor, as many as the overlap policy allows."""
        while state.queued and not self.is_stopping:
            first = state.queued[0]
            decision = decide_overlap(
                state.job.overlap,
                first.run.cause,
                replace(state.load, queued=0),
                queue_limit=0,
                max_running=state.job.max_running,
            )
            if decision.admission is not Admission.START:
                return
            state.queued.popleft()
            state.active.append(first)
            self._start(first)

    def _fill(self, slots: Slots) -> None:
        """Give free slots to the runs that wait for one."""
        while not self.is_stopping:
            active = slots.next_waiting()
            if active is None:
                return
            self._cancel_timer(active, "wait_timer")
            self._begin_attempt(active, self._parts.timekeeper.now())
            self._start_with_slot(active)

    # --- runs of an earlier daemon ------------------------------------------------------------

    def resume(self, state: JobState, active: ActiveRun, recovery: Recovery, how_lost: str) -> None:
        """Go on with a run that an earlier daemon left; ``active.run`` is as the ledger has it."""
        now = self._parts.timekeeper.now()
        self.runs[active.run.id] = active
        match recovery:
            case Recovery.ADOPT:
                self._resume_process(state, active, now)
            case Recovery.REQUEUE if active.run.state is State.WAITING_RETRY:
                state.active.append(active)
                retry_at = active.run.retry_at or now
                self._set_retry(active, max(retry_at - now, timedelta(0)), now)
            case Recovery.REQUEUE:
                self._requeue(state, active)
            case Recovery.RERUN:
                self._close_attempt(active, Outcome.LOST, how_lost, None, now)
                state.active.append(active)
                self._start(active)
            case Recovery.LOST:
                self._close_attempt(active, Outcome.LOST, how_lost, None, now)
                self._finish(active, Outcome.LOST, how_lost)
            case Recovery.REMOVED:
                reason = "the job was removed from the crontab"
                self._finish(active, Outcome.CANCELLED, reason)

    def _resume_process(self, state: JobState, active: ActiveRun, now: datetime) -> None:
        active.stage = Stage.RUNNING
        state.active.append(active)
        self._slots(active.job).taken += 1
        attempt = active.attempt
        assert attempt is not None  # noqa: S101 - it was adopted by it
        self._parts.outbox.write(SetAttempt(active.run.id, attempt))
        if active.job.timeout is not None:
            used = now - (attempt.started_at or attempt.begun_at)
            self._set_timeout(active, max(active.job.timeout - used, timedelta(0)))

    def _requeue(self, state: JobState, active: ActiveRun) -> None:
        decision = decide_overlap(
            state.job.overlap,
            Cause.CATCH_UP,  # it has its claim, so it is not skipped any more
            state.load,
            queue_limit=state.job.queue_limit,
            max_running=state.job.max_running,
        )
        if decision.admission is Admission.START:
            state.active.append(active)
            self._start(active)
        else:
            active.stage = Stage.BEHIND
            state.queued.append(active)
            self._limit_waiting(active)

    # --- pools, lookups -------------------------------------------------------------------

    def set_pools(self, pools: Iterable[Pool]) -> None:
        """Take the pools of a crontab; runs keep the slots they have."""
        for pool in pools:
            slots = self._parts.slots.setdefault(pool.name, Slots(pool))
            slots.pool = pool
            self._fill(slots)

    def _slots(self, job: Job) -> Slots:
        slots = self._parts.slots.get(job.pool)
        if slots is None:  # a removed job's pool, of a run found at the start
            slots = self._parts.slots.setdefault(job.pool, Slots(Pool(job.pool or DEFAULT_POOL)))
        return slots

    def _current(self, run_id: int, number: int) -> ActiveRun | None:
        active = self.runs.get(run_id)
        if active is None or active.attempt_number != number:
            return None
        return active if active.stage in {Stage.STARTING, Stage.RUNNING} else None

    def _cancel_timer(self, active: ActiveRun, name: str) -> None:
        timer = getattr(active, name)
        if timer is not None:
            self._parts.timers.cancel(timer)
            setattr(active, name, None)


def _tell(level: int, message: str, job: str, **fields: object) -> None:
    """Log one event; fields that are None are left out."""
    present = {key: value for key, value in fields.items() if value is not None}
    log.log(level, message, extra={"fields": {"job": job, **present}})


def _short(span: timedelta | None) -> str:
    return format_duration(span) if span is not None else ""
