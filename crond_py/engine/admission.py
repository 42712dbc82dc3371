"""Admission: an occurrence is claimed and starts, waits its turn, replaces, or is skipped."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from crond_py.clock import to_ns
from crond_py.crontab.model import Job
from crond_py.engine.ahead import LONGEST_AHEAD
from crond_py.engine.attempts import Attempts
from crond_py.engine.lag import Wait, Waits
from crond_py.engine.parts import AGAIN, Parts, Register
from crond_py.engine.records import ActiveRun, Conclusion, JobState, Stage
from crond_py.engine.rows import Rows
from crond_py.engine.stopping import Stopper, too_late
from crond_py.engine.stretches import Stretch, left_besides, left_of
from crond_py.engine.telling import fields, log, tell
from crond_py.errors import LedgerError
from crond_py.model import Cause, Outcome, Run, State
from crond_py.policy import Admission, Occurrences, OverlapDecision, decide_overlap
from crond_py.ports import Claim, SetRun

_IDENTIFIED = frozenset({Cause.SCHEDULE, Cause.CATCH_UP, Cause.UPSTREAM})
"""What may come again, as its instant is given; others have one that is theirs alone."""


class Admitter:
    """Decides by the overlap policy, and enters what it decides in the ledger."""

    def __init__(
        self, parts: Parts, register: Register, attempts: Attempts, stopper: Stopper, rows: Rows
    ) -> None:
        self._parts = parts
        self._register = register
        self._attempts = attempts
        self._starter = attempts.starter
        self._stopper = stopper
        self._rows = rows
        self._asks_from_ns = 0

    def admit(
        self,
        state: JobState,
        due: datetime,
        cause: Cause,
        *,
        is_forced: bool = False,
        era: int | None = None,
        waited: Sequence[tuple[int, Wait]] = (),
    ) -> ActiveRun | None:
        """Claim an occurrence; it starts, waits its turn, or is skipped (None) by its policy.

        One that has its row already (None) is no new occurrence, and no policy is asked: where the
        clock was set back it may come again, and must neither end the run that it has nor be told
        of as skipped. ``era`` is that of the job's own clock, unless given; ``waited`` what it has
        waited for other than us, each since an instant of the monotonic clock.
        """
        job = state.job
        era = state.cursor.era if era is None else era
        is_too_late = cause is Cause.SCHEDULE and self._is_too_late(
            job, self._parts.timekeeper.deadline(due)
        )
        decision = _decide(state, cause, due)
        # Where it would merely start or wait, its claim is refused in time.
        is_harmful = is_too_late or decision.admission in {Admission.SKIP, Admission.REPLACE}
        if cause in _IDENTIFIED and self._has_row(state, due, era, asks_ledger=is_harmful):
            _tell_has_row(job, due)
            return None
        if is_too_late:
            waits = self._waits_since(Run(0, job.name, era, due, cause, State.QUEUED, due), waited)
            self._starter.note_given_up(state, waits)
            self._skip(state, era, due, cause, too_late(job))
            return None
        if decision.admission is Admission.SKIP and not is_forced:
            self._skip(state, era, due, cause, f"{decision.code}: {_blocking(state)}")
            return None
        must_wait = decision.admission in {Admission.QUEUE, Admission.REPLACE} and not is_forced
        if decision.admission is Admission.REPLACE and not is_forced:
            if not self._register.is_stopping:  # else it would end a run and not start itself
                self._end_earlier(state, due)
            must_wait = bool(state.active or state.queued)
        now = self._parts.timekeeper.now()
        run = Run(0, job.name, era, due, cause, State.QUEUED, now)
        waits = self._waits_since(run, waited)
        waits.turn_to(_behind(state), self._parts.timekeeper.reading())
        active = ActiveRun(job, run, Stage.BEHIND, waits=waits)
        active.ready_ns = self._ready_ns(run)
        if must_wait:
            state.put_behind(active)
        else:
            state.take_up(active)
            self._starter.take_slot(active, now)
        self._starter.limit_waiting(active)
        claim = Claim(job.name, run.era, due, cause, active.run.state, now, attempt=active.attempt)
        self._parts.outbox.claim(claim, partial(self._claimed, state, active))
        return active

    def _has_row(self, state: JobState, due: datetime, era: int, *, asks_ledger: bool) -> bool:
        """Whether an occurrence was claimed before, by what the ledger has each row of once.

        Where that cannot be read it is taken for new, and no other is looked up for a while: each
        may take the ledger its patience.
        """
        if any(active.run.era == era for active in state.open_at(due)):
            return True
        if not asks_ledger:
            return False
        unwritten = self._parts.outbox.unwritten.at(state.job.name, due)
        if any((run.era, run.due) == (era, due) for run in unwritten):
            return True
        if self._parts.timekeeper.reading() < self._asks_from_ns:
            return False
        try:
            rows = self._rows.at(state.job.name, due)
        except LedgerError as error:
            self._asks_from_ns = self._parts.timekeeper.after(AGAIN)
            why = fields(job=state.job.name, due=due, reason=str(error))
            log.warning("whether an occurrence has its run cannot be looked up", extra=why)
            return False
        return any((run.era, run.due) == (era, due) for run in rows)

    def _end_earlier(self, state: JobState, due: datetime) -> None:
        """Cancel every run of the job for the sake of the one that is due now."""
        reason = f"replaced by the run due {due.isoformat(timespec='seconds')}"
        for earlier in [*state.queued, *state.active]:
            self._stopper.cancel(earlier, reason)

    def _waits_since(self, run: Run, waited: Sequence[tuple[int, Wait]] = ()) -> Waits:
        """Return since when a run is late, and what it has waited for since then."""
        timekeeper = self._parts.timekeeper
        due_ns = timekeeper.deadline(run.due)
        claimed_ns = min(timekeeper.deadline(run.claimed_at), timekeeper.reading())
        if run.cause is Cause.SCHEDULE:
            waits = Waits(due_ns)
            for since_ns, what in waited:
                waits.turn_to(what, since_ns)
            return waits
        if run.cause is not Cause.UPSTREAM:
            return Waits(claimed_ns)
        waits = Waits(due_ns, Wait.DEPENDENCY)
        waits.turn_to(Wait.DISPATCH, claimed_ns)
        return waits

    def _blocker(self, state: JobState, decision: OverlapDecision) -> Wait | None:
        """Return what a run has to wait for that is admitted so; None: nothing."""
        if decision.admission is not Admission.START:
            return _behind(state)
        return None if self._register.slots(state.job).is_free_for(state.job) else Wait.POOL

    def _ready_ns(self, run: Run) -> int:
        """Return from when a run could begin, on the monotonic clock: it is due, or was made up."""
        is_timed = run.cause is Cause.SCHEDULE
        return self._parts.timekeeper.deadline(run.due if is_timed else run.claimed_at)

    def _is_too_late(self, job: Job, ready_ns: int) -> bool:
        """Whether a run that could begin at an instant may not begin any more."""
        within = job.start_within
        return within is not None and ready_ns + to_ns(within) <= self._parts.timekeeper.reading()

    def is_free(self, state: JobState) -> bool:
        """Whether an occurrence of the job would start at once, with a slot of its own."""
        decision = _decide(state, Cause.SCHEDULE)
        has_slot = self._register.slots(state.job).is_free_for(state.job)
        return decision.admission is Admission.START and has_slot

    def is_ahead(self, active: ActiveRun) -> bool:
        """Whether a run was claimed ahead, and its instant is yet to come.

        It is started at the instant that was known then, whatever the clock is set to since.
        """
        remaining_ns = active.ready_ns - self._parts.timekeeper.reading()
        return 0 < remaining_ns <= to_ns(LONGEST_AHEAD) and self._starter.is_ahead(active)

    def _skip(self, state: JobState, era: int, due: datetime, cause: Cause, reason: str) -> None:
        now = self._parts.timekeeper.now()
        claim = Claim(
            state.job.name,
            era,
            due,
            cause,
            State.DONE,
            now,
            outcome=Outcome.SKIPPED,
            reason=reason,
        )
        self._parts.outbox.claim(claim, lambda _: None)
        self._register.on_outcome(Conclusion(claim.job, claim.era, due, Outcome.SKIPPED))
        tell(logging.WARNING, "run skipped", state.job.name, due=due, reason=reason)

    def enter_dropped(self, claim: Claim, schedule: Occurrences | None) -> None:
        """Enter what is not run, be it a stretch of instants that ``schedule`` has.

        Where the clock was set back and the schedule edited, some of them may have rows already.
        """
        self._parts.outbox.claim(claim, partial(self._dropped, claim, schedule))

    def _dropped(self, claim: Claim, schedule: Occurrences | None, run_id: int | None) -> None:
        """Enter what is left of a stretch that was refused, since its first instant has a row."""
        if run_id is None and claim.last_due is not None:
            self._parts.ask(partial(self._enter_rest, claim, schedule))

    def _enter_rest(self, claim: Claim, schedule: Occurrences | None) -> None:
        assert claim.last_due is not None  # noqa: S101 - it is a stretch
        rows = self._rows.between(claim.job, claim.due, claim.last_due)
        mine = [run for run in rows if run.era == claim.era]
        known = [Stretch(run.due, run.last_due, run.count, run.era) for run in mine if run.last_due]
        single = {run.due for run in mine if run.last_due is None and _has(schedule, run.due)}
        stretch = Stretch(claim.due, claim.last_due, claim.count, claim.era)
        for part in left_of(stretch, known, schedule):
            left = left_besides(part, {due for due in single if part.has(due, claim.era)}, schedule)
            if left is not None and left.first > claim.due:
                last_due = left.last if left.count > 1 else None
                rest = replace(claim, due=left.first, last_due=last_due, count=left.count)
                self.enter_dropped(rest, schedule)

    def refuses(self, state: JobState, cause: Cause) -> str:
        """Return why the overlap policy would skip a run of this cause now, or nothing."""
        decision = _decide(state, cause)
        is_skip = decision.admission is Admission.SKIP
        return f"{decision.code}: {_blocking(state)}" if is_skip else ""

    def _claimed(self, state: JobState, active: ActiveRun, run_id: int | None) -> None:
        if run_id is None:
            _tell_has_row(state.job, active.run.due)
            active.attempt = None  # it never was
            with self._attempts.giving_slot_back(active):
                self._attempts.retire(active)
            return
        active.run = replace(active.run, id=run_id)
        self._register.runs[run_id] = active
        if active.stop is not None and active.stage in {Stage.BEHIND, Stage.SLOT}:
            self._attempts.finish(active, active.stop.outcome, active.stop.reason)
        elif active.stage is Stage.STARTING and not active.begins_when_claimed:
            self._starter.launch(active)
        elif active.begins_when_claimed:
            self._starter.write_and_launch(active)

    def wait_or_start(self, state: JobState, active: ActiveRun) -> None:
        """Let a run that has its claim go on; it waits its turn, unless it is too late for that."""
        decision = _decide(state, Cause.CATCH_UP)
        if active.attempt is None:
            active.waits = self._waits_since(active.run)
            blocker = self._blocker(state, decision)
            if blocker is not None:
                active.waits.count_rest_to(blocker)
            active.ready_ns = self._ready_ns(active.run)
            if self._is_too_late(active.job, active.ready_ns):
                active.stage = Stage.BEHIND
                self._stopper.too_late_due(active)
                return
        if decision.admission is Admission.START:
            state.take_up(active)
            self._starter.start(active)
            return
        was = active.run.state
        active.stage = Stage.BEHIND
        active.run = replace(active.run, state=State.QUEUED)
        state.put_behind(active)
        self._starter.limit_waiting(active)
        if was is not State.QUEUED:
            self._parts.outbox.write(SetRun(active.run.id, State.QUEUED))


def _has(schedule: Occurrences | None, due: datetime) -> bool:
    """Whether an instant is one of a schedule; a run by hand has one of its own."""
    return schedule is None or schedule.latest_until(due) == due


def _tell_has_row(job: Job, due: datetime) -> None:
    log.warning("occurrence has its run already", extra=fields(job=job.name, due=due))


def _decide(state: JobState, cause: Cause, due: datetime | None = None) -> OverlapDecision:
    job, ahead = state.job, (*state.active, *state.queued)
    is_overtaken = False
    if cause is Cause.UPSTREAM and due is not None:
        is_overtaken = any(each.run.due > due for each in ahead)
    return decide_overlap(
        job.overlap,
        cause,
        state.load,
        queue_limit=job.queue_limit,
        max_running=job.max_running,
        is_overtaken=is_overtaken,
    )


def _behind(state: JobState) -> Wait:
    """Return what a run waits for behind those of its job: where one waits for a slot, for that."""
    is_slot = any(each.stage is Stage.SLOT for each in state.active)
    return Wait.POOL if is_slot else Wait.OVERLAP


def _blocking(state: JobState) -> str:
    if not state.active:
        return f"{len(state.queued)} runs wait already"
    first = next(iter(state.active))
    if not first.is_claimed:
        return "an earlier run is about to start"
    verb = {
        Stage.SLOT: _slot_of(first),
        Stage.RETRY: "waits for its retry",
    }.get(first.stage, "is running")
    text = f"run {first.run.id} {verb} since {_since(first).isoformat(timespec='seconds')}"
    behind = len(state.queued)
    return f"{text}, {behind} more behind it" if behind else text


def _slot_of(active: ActiveRun) -> str:
    """Return what a run waits for that waits for a slot."""
    is_full = active.ticket is not None and active.ticket.stake.share.is_full
    return "waits for a slot of its group" if is_full else "waits for a slot of its pool"


def _since(active: ActiveRun) -> datetime:
    """Return since when a run does what it does: not since it was claimed, which is ahead."""
    attempt, run = active.attempt, active.run
    if attempt is None:
        return max(run.claimed_at, run.due)
    if active.stage in {Stage.SLOT, Stage.RETRY} and attempt.finished_at is not None:
        return attempt.finished_at
    return attempt.started_at or max(attempt.begun_at, run.due)
