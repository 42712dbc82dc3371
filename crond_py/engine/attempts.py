"""Attempts: how one has ended, and what follows: another one, the outcome, the runs that waited.

Every method is an event at one instant, as in ``starting``. Whether a run comes into being at all
is decided in ``admission``; why one is ended early, in ``stopping``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from crond_py.crontab.model import Job
from crond_py.engine.events import RetryDue
from crond_py.engine.parts import Parts, Register
from crond_py.engine.recalled import RECALLED
from crond_py.engine.records import ActiveRun, Conclusion, JobState, Stage, Stop
from crond_py.engine.signals import Signals
from crond_py.engine.starting import Starter
from crond_py.engine.telling import tell
from crond_py.model import Attempt, Exit, Left, Outcome, State
from crond_py.policy import (
    Admission,
    decide_overlap,
    is_retryable,
    judge_exit,
    retry_delay,
    wants_rerun,
    wants_retry,
)
from crond_py.ports import Ended, LeftOver, SetAttempt, SetRun, StartFailed


class Attempts:
    """Takes runs from the end of an attempt to their outcome."""

    def __init__(
        self, parts: Parts, register: Register, starter: Starter, signals: Signals
    ) -> None:
        self._parts = parts
        self._register = register
        self.starter = starter
        self._signals = signals
        starter.when_failed(self._not_started, self._recall)

    def start_failed(self, event: StartFailed) -> None:
        """Count an attempt that has no process as failed; as lost where it may have had one."""
        active = self._register.current(event.key)
        if active is None:
            return
        stop = active.stop
        if event.is_recalled and stop is None:
            self._recall(active)
            return
        if stop is not None and event.is_unknown:
            self._end_rest(active, stop.outcome, f"{stop.reason}; {event.reason}", None)
            return
        if stop is not None:
            outcome, reason = stop.outcome, stop.reason
        elif event.is_unknown:
            active.is_cut_short = True
            outcome, reason = Outcome.LOST, event.reason
        else:
            outcome, reason = Outcome.FAILED, f"cannot start: {event.reason}"
        self._not_started(active, outcome, reason)

    def _not_started(self, active: ActiveRun, outcome: Outcome, reason: str) -> None:
        """End an attempt that has no process, and what earlier ones have left if it was stopped."""
        if active.stop is None or active.attempt_number == 1:
            self._end(active, outcome, reason, None)
            return
        self._end_rest(active, outcome, reason, None)

    def _end_rest(
        self, active: ActiveRun, outcome: Outcome, reason: str, exit_: Exit | None
    ) -> None:
        """Close the attempt of a run that is being ended, and end what all of them have left."""
        self._parts.drop_timer(active, "timeout_timer")
        self._parts.drop_timer(active, "kill_timer")
        self.close(active, outcome, reason, exit_, self._parts.timekeeper.now())
        self.turn_to_rest(active)
        self._signals.note(active)
        self._signals.send(active)

    def _recall(self, active: ActiveRun) -> None:
        """Leave a run to the next daemon that was claimed ahead and is not started any more."""
        self.close(active, Outcome.CANCELLED, RECALLED, None, self._parts.timekeeper.now())
        with self.giving_slot_back(active):
            active.attempt = None
            active.stage = Stage.SLOT
            active.run = replace(active.run, state=State.QUEUED, left_as=Left.RECALLED)
            recalled = SetRun(active.run.id, State.QUEUED, reason=RECALLED, left_as=Left.RECALLED)
            self._parts.outbox.write(recalled, durable=True)
        tell(logging.INFO, "start recalled", active.job.name, run=active.run.id, due=active.run.due)

    def turn_to_rest(self, active: ActiveRun) -> None:
        """Have a run last, in a slot, until what its attempts have left is gone: it is stopped."""
        state = self._register.find(active.job.name)
        if state is not None:
            state.take_up(active)
        self._parts.drop_timer(active, "wait_timer")
        active.set_in_line(False)
        active.stage = Stage.RUNNING
        active.run = replace(active.run, state=State.RUNNING, retry_at=None)
        if active.stake is None:
            self._register.slots(active.job).take(active)

    def left_over(self, event: LeftOver) -> None:
        """End what a process has left behind that has ended by itself; how, is settled."""
        active = self._register.current(event.key)
        if active is None or active.attempt is None:
            return
        self._parts.drop_timer(active, "timeout_timer")
        active.attempt = replace(active.attempt, exit=event.exit)
        left = (
            f"{event.count} process{'' if event.count == 1 else 'es'} that the command left behind"
        )
        if active.stop is None:
            outcome, reason = judge_exit(event.exit, active.job.success_codes, active.job.limits)
            active.stop = Stop(outcome, "; ".join(filter(None, (reason, f"ended {left}"))))
        tell(logging.WARNING, f"ending {left}", active.job.name, run=active.run.id)
        self._signals.note(active)
        self._signals.send(active)

    def ended(self, event: Ended) -> None:
        """Judge an attempt whose process has ended."""
        active = self._register.current(event.key)
        if active is None:
            return
        if active.stop is not None:
            outcome, reason = active.stop.outcome, active.stop.reason
        else:
            outcome, reason = judge_exit(event.exit, active.job.success_codes, active.job.limits)
            reason = active.how_lost or reason
        if event.note:
            tell(logging.WARNING, event.note, active.job.name, run=active.run.id)
        said = "; ".join(filter(None, (reason, event.note)))
        if active.stop is not None and event.has_left:  # it had ended before the stop reached it
            self._end_rest(active, outcome, said, event.exit)
        else:
            self._end(active, outcome, said, event.exit, event.at)

    def _end(
        self,
        active: ActiveRun,
        outcome: Outcome,
        reason: str,
        exit_: Exit | None,
        seen_at: datetime | None = None,
    ) -> None:
        """End the attempt; ``seen_at`` is when its end was seen, which may be a while ago."""
        now = self._parts.timekeeper.now()
        began = active.attempt.started_at if active.attempt else None
        if seen_at is not None and began is not None and began <= seen_at < now:
            now = seen_at  # unless the wall clock was set since
        self._parts.drop_timer(active, "timeout_timer")
        self._parts.drop_timer(active, "kill_timer")
        if active.has_rest:
            self.close_rest(active)
        else:
            self.close(active, outcome, reason, exit_, now)
        with self.giving_slot_back(active):
            self.conclude(active, outcome, reason)

    def conclude(self, active: ActiveRun, outcome: Outcome, reason: str) -> None:
        """Have a run whose attempt is closed tried again, or give it its outcome."""
        job, attempt = active.job, active.attempt
        is_cut_short = outcome is Outcome.LOST and active.is_cut_short
        active.how_lost, active.is_cut_short = "", False
        if is_cut_short and self._exists(active) and wants_rerun(job.on_crash, active.lost):
            active.stop, active.job = None, self._newest_definition(active)
            self.starter.start(active)
        elif not wants_retry(outcome, active.attempt_number, job.retry):
            self.finish(active, outcome, reason)
        elif not is_retryable(outcome, attempt.exit if attempt else None, job.retry_on):
            self.finish(active, outcome, f"{reason}; not tried again, retry_on does not name it")
        else:
            self._await_retry(active, outcome, reason, self._parts.timekeeper.now())

    def _exists(self, active: ActiveRun) -> bool:
        state = self._register.find(active.job.name)
        return state is not None and not state.is_removed

    def _newest_definition(self, active: ActiveRun) -> Job:
        """Return the definition in force: a pool that a run was started in may be gone by now."""
        state = self._register.find(active.job.name)
        return state.job if state is not None else active.job

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

    def close_rest(self, active: ActiveRun) -> None:
        """Enter that what the attempts of a run have left is being ended no longer."""
        if active.attempt is not None:
            active.attempt = replace(active.attempt, stopping=None)
            self._parts.outbox.write(SetAttempt(active.run.id, active.attempt))

    def _await_retry(self, active: ActiveRun, outcome: Outcome, reason: str, now: datetime) -> None:
        state = self._register.find(active.job.name)
        if state is None or state.is_removed:
            self.finish(active, outcome, reason)
            return
        active.job = state.job  # the next attempt goes by the crontab in force
        delay = retry_delay(active.job.retry, active.attempt_number, self._parts.random())
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
        deadline_ns = self._parts.timekeeper.after(delay)
        active.wait_timer = self._parts.timers.call_at(deadline_ns, RetryDue(active))
        self._register.on_retry(active, deadline_ns)

    def retry_due(self, active: ActiveRun) -> None:
        """Begin the next attempt."""
        if active.stage is Stage.RETRY and not self._register.is_stopping:
            active.wait_timer = None
            self.starter.start(active)

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
            left_as=None,
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
        attempt = active.attempt
        tell(
            level,
            f"run {outcome.replace('_', ' ')}",
            active.job.name,
            run=active.run.id,
            attempt=active.attempt_number if active.attempt_number > 1 else None,
            took=_span(attempt) if attempt and outcome is not Outcome.LOST else None,
            reason=reason or None,
        )
        self.retire(active)

    def retire(self, active: ActiveRun) -> None:
        """Take a run off the records and let the next ones go on."""
        active.stage = Stage.ENDED
        active.set_in_line(False)
        for timer in ("timeout_timer", "kill_timer", "wait_timer"):
            self._parts.drop_timer(active, timer)
        self._register.runs.pop(active.run.id, None)
        state = self._register.find(active.job.name)
        if state is None:
            return
        state.drop(active)
        if active.attempt is not None:
            state.last = active.run
        self.promote(state)
        if not state.active and not state.queued:
            if state.is_removed or state.is_task:
                self._register.let_go(state)
            else:
                self._register.on_idle(state, self._parts.timekeeper.now())

    def renew_waiting(self, state: JobState) -> None:
        """Let the runs of a job that wait go by its new definition."""
        for active in [*state.active, *state.queued]:
            if active.stage in {Stage.BEHIND, Stage.SLOT}:
                self._parts.drop_timer(active, "wait_timer")
                self.starter.limit_waiting(active)
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
            state.take_up(first)
            self.starter.start(first)

    @contextmanager
    def giving_slot_back(self, active: ActiveRun) -> Iterator[None]:
        """Release a run's slot, if it has one, and in the end give it to whoever waits for one."""
        slots, stake = self._register.slots(active.job), active.stake
        slots.release(active)
        yield
        if stake is not None and stake.share.group.max_running is not None:
            self.starter.fill_all_for(stake.share)
        else:
            self.starter.fill(slots)


def _span(attempt: Attempt) -> timedelta | None:
    """Return how long an attempt took, where that is known."""
    if attempt.started_at is None or attempt.finished_at is None:
        return None
    return attempt.finished_at - attempt.started_at
