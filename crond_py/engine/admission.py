"""Admission: an occurrence is claimed and starts, waits its turn, or is skipped.

A run that an earlier daemon left is taken up again here as well.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from crond_py.engine.attempts import Attempts
from crond_py.engine.parts import Parts, Register, fields, log, tell
from crond_py.engine.records import ActiveRun, JobState, Stage
from crond_py.model import Cause, Outcome, Run, State
from crond_py.policy import Admission, OverlapDecision, Recovery, decide_overlap, retry_delay
from crond_py.ports import Claim, SetAttempt


class Admitter:
    """Decides by the overlap policy, and enters what it decides in the ledger."""

    def __init__(self, parts: Parts, register: Register, attempts: Attempts) -> None:
        self._parts = parts
        self._register = register
        self._attempts = attempts

    def admit(
        self, state: JobState, due: datetime, cause: Cause, *, is_forced: bool = False
    ) -> ActiveRun | None:
        """Claim an occurrence; it starts, waits its turn, or is skipped (None) by its policy."""
        job = state.job
        decision = _decide(state, cause)
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
            self._attempts.take_slot(active, now)
        self._attempts.limit_waiting(active)
        claim = Claim(job.name, run.era, due, cause, active.run.state, now, attempt=active.attempt)
        self._parts.outbox.claim(claim, partial(self._claimed, state, active))
        return active

    def is_free(self, state: JobState) -> bool:
        """Whether an occurrence of the job would start at once, with a slot of its own."""
        decision = _decide(state, Cause.SCHEDULE)
        has_slot = self._register.slots(state.job).is_free
        return decision.admission is Admission.START and has_slot

    def _skip(self, state: JobState, due: datetime, cause: Cause, code: str) -> None:
        now = self._parts.timekeeper.now()
        reason = f"{code}: {_blocking(state)}"
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
        self._register.on_row(state.job.name)
        tell(logging.WARNING, "run skipped", state.job.name, due=due, reason=reason)

    def refuses(self, state: JobState, cause: Cause) -> str:
        """Return why the overlap policy would skip a run of this cause now, or nothing."""
        decision = _decide(state, cause)
        is_skip = decision.admission is Admission.SKIP
        return f"{decision.code}: {_blocking(state)}" if is_skip else ""

    def _claimed(self, state: JobState, active: ActiveRun, run_id: int | None) -> None:
        if run_id is None:
            log.warning(
                "occurrence has its run already",
                extra=fields(job=state.job.name, due=active.run.due),
            )
            held_slot = active.stage is Stage.STARTING
            self._attempts.retire(active)
            if held_slot:
                self._attempts.give_slot_back(active.job)
            return
        active.run = replace(active.run, id=run_id)
        self._register.runs[run_id] = active
        if active.stop is not None and active.stage in {Stage.BEHIND, Stage.SLOT}:
            self._attempts.finish(active, active.stop.outcome, active.stop.reason)
        elif active.stage is Stage.STARTING and not active.begins_when_claimed:
            self._attempts.launch(active)
        elif active.begins_when_claimed:
            self._attempts.write_and_launch(active)

    # --- runs of an earlier daemon -----------------------------------------------------

    def resume(self, state: JobState, active: ActiveRun, recovery: Recovery, how_lost: str) -> None:
        """Go on with a run that an earlier daemon left; ``active.run`` is as the ledger has it."""
        now = self._parts.timekeeper.now()
        self._register.runs[active.run.id] = active
        self._note_output(active)
        match recovery:
            case Recovery.ADOPT:
                self._resume_process(state, active)
            case Recovery.REQUEUE if active.run.state is State.WAITING_RETRY:
                state.active.append(active)
                self._attempts.set_retry(active, _remaining_delay(active, now), now)
            case Recovery.REQUEUE:
                self._requeue(state, active)
            case Recovery.RERUN:
                self._attempts.close(active, Outcome.LOST, how_lost, None, now)
                self._requeue(state, active)
            case Recovery.LOST:
                self._attempts.close(active, Outcome.LOST, how_lost, None, now)
                self._attempts.finish(active, Outcome.LOST, how_lost)
            case Recovery.CANCELLED:
                reason = active.run.reason
                self._attempts.close(active, Outcome.CANCELLED, reason, None, now)
                self._attempts.finish(active, Outcome.CANCELLED, reason)
            case Recovery.REMOVED:
                reason = "the job was removed from the crontab"
                self._attempts.finish(active, Outcome.CANCELLED, reason)

    def _note_output(self, active: ActiveRun) -> None:
        """Name the output of an attempt whose start was not entered; there may be one."""
        attempt = active.attempt
        if attempt is None or attempt.output:
            return
        output = self._parts.specify(active.job, active.run, attempt.number).output
        if output is not None:
            active.attempt = replace(attempt, output=str(output.path))

    def _resume_process(self, state: JobState, active: ActiveRun) -> None:
        active.stage = Stage.RUNNING
        state.active.append(active)
        self._register.slots(active.job).taken += 1
        attempt = active.attempt
        assert attempt is not None  # noqa: S101 - it was adopted by it
        self._parts.outbox.write(SetAttempt(active.run.id, attempt))
        if active.job.timeout is not None:
            used = self._parts.timekeeper.age(attempt.start_ticks or 0)
            self._attempts.set_timeout(active, max(active.job.timeout - used, timedelta(0)))

    def _requeue(self, state: JobState, active: ActiveRun) -> None:
        # It has its claim, so it is not skipped any more: it waits as a caught-up one does.
        decision = _decide(state, Cause.CATCH_UP)
        if decision.admission is Admission.START:
            state.active.append(active)
            self._attempts.start(active)
        else:
            active.stage = Stage.BEHIND
            state.queued.append(active)
            self._attempts.limit_waiting(active)


def _decide(state: JobState, cause: Cause) -> OverlapDecision:
    job = state.job
    return decide_overlap(
        job.overlap,
        cause,
        state.load,
        queue_limit=job.queue_limit,
        max_running=job.max_running,
    )


def _blocking(state: JobState) -> str:
    if not state.active:
        return f"{len(state.queued)} runs wait already"
    first = state.active[0]
    if not first.is_claimed:
        return "an earlier run is about to start"
    begun = first.attempt.begun_at if first.attempt else first.run.claimed_at
    verb = {
        Stage.SLOT: "waits for a slot of its pool",
        Stage.RETRY: "waits for its retry",
    }.get(first.stage, "is running")
    text = f"run {first.run.id} {verb} since {begun.isoformat(timespec='seconds')}"
    behind = len(state.queued)
    return f"{text}, {behind} more behind it" if behind else text


def _remaining_delay(active: ActiveRun, now: datetime) -> timedelta:
    """Return how long a retry has still to wait; never longer than the whole delay.

    The clock may have been set back while nobody was there to notice.
    """
    whole = retry_delay(active.job.retry, active.attempt_number, 1.0)
    retry_at = active.run.retry_at or now
    return min(max(retry_at - now, timedelta(0)), whole)
