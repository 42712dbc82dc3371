"""When each job is next due, and what became of the occurrences that nothing could start.

Each live job has one entry on the heap, for its first occurrence without a row. When it comes, the
occurrence is handed to admission and the cursor moves on, in one transaction with the claim.
Occurrences found in the past (the daemon was down, frozen or suspended, or the clock was set
forward) are settled by the job's missed policy.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta

from crond_py.clocksteps import after_restart, begun_anew, clock_was_set
from crond_py.crontab.model import AtTrigger, EveryTrigger, Job, StartupTrigger
from crond_py.crontab.summary import fingerprint
from crond_py.dataclass import dataclass
from crond_py.engine.admission import Admitter
from crond_py.engine.ahead import AHEAD, EARLY, FARTHEST_AHEAD, LEADS, lead_of_next_look
from crond_py.engine.events import CyclesDue, OccurrenceDue
from crond_py.engine.parts import Parts, Register
from crond_py.engine.records import Conclusion, JobState, Stage
from crond_py.engine.telling import fields, log
from crond_py.model import Cause, ClockReading, Cursor, EveryMode, Missed, Outcome, State
from crond_py.policy import (
    TICK,
    Dropped,
    MissedRule,
    Occurrences,
    Stretch,
    advance,
    next_unaccounted,
    plan_missed,
    unaccounted,
)
from crond_py.ports import Claim, Gap, SetCursor
from crond_py.schedule import OneOff, format_duration
from crond_py.timetable import first_baseline, goes_by_the_clock, schedule_of

LATE = timedelta(seconds=1)
"""An occurrence whose timer fires later than this was not merely late: nothing could start it."""

LONGEST_HOLD_UP = timedelta(minutes=1)
"""An occurrence that we were too busy to wait for in time is started later than ``LATE``, too.

But no later than this.
"""

WAS_DOWN = "pycron was not running"
WAS_FROZEN = "pycron was frozen or the machine suspended"
WAS_HELD_UP = "pycron was held up, by a slow disk or too much work"
WAS_SET_FORWARD = "the clock was set forward"
WAS_FORGOTTEN = "the ledger has lost its newest records; nobody knows whether it ran"
WAS_PAST = "its time was past when pycron first read it"

WAS_IN_DOUBT = "pycron was not running; it may have run before the clock was set back"

_DROPS_ALL = MissedRule(Missed.SKIP, None, 0)

_REMOVED = "removed:"
"""Begins the fingerprint in the cursor of a job that is not in force."""

_MILLISECOND = timedelta(milliseconds=1)


class Agenda:
    """Keeps every job's next occurrence on the heap and its cursor in the ledger."""

    def __init__(self, parts: Parts, register: Register, admitter: Admitter) -> None:
        self._parts = parts
        self._register = register
        self._admitter = admitter
        self.leads = LEADS
        self._waiting: Counter[datetime] = Counter()  # how many wait for an instant
        # Those of them that have no timer yet, and whether it is ours if that comes too late.
        self._unset: dict[JobState, bool] = {}

    # --- jobs come and go -----------------------------------------------------------------

    def enter(self, job: Job, stored: Cursor | None, now: datetime, *, at_start: bool) -> JobState:
        """Take a job in. Only ``at_start`` does what is stored of it count as time down."""
        cursor, in_doubt_until = self._cursor_for(job, stored, now, at_start=at_start)
        state = JobState(job, cursor, in_doubt_until=in_doubt_until)
        self._register.states[job.name] = state
        if cursor != stored:
            is_new = stored is None or stored.fingerprint != cursor.fingerprint
            self._parts.outbox.write(SetCursor(cursor), durable=is_new)
        if not job.enabled:
            self.forget(state)
        return state

    def begin(self, states: Iterable[JobState], now: datetime, gap: Gap | None = None) -> None:
        """Settle what jobs missed while the daemon was down, and wait for what comes.

        What is run at once, or made up, is so by priority, then in the order in which it was due.
        """
        backlogs = (self._backlog(state, now, gap) for state in states)
        for backlog in sorted(filter(None, backlogs), key=lambda each: each.turn):
            self._work_off(backlog, now)

    def _backlog(self, state: JobState, now: datetime, gap: Gap | None) -> _Backlog | None:
        """Return what is to be run of a job before it waits for what comes; None: it waits."""
        self._set_schedule(state)
        if state.is_live and gap is not None:
            self._settle_unknown(state, gap.until, Outcome.LOST, WAS_FORGOTTEN)
        if state.is_live and state.in_doubt_until is not None:
            self._settle_unknown(state, state.in_doubt_until, Outcome.MISSED, WAS_IN_DOUBT)
        backlog = _Backlog(state)
        if state.is_live:
            at_once = self._take_at_once(state)
            cause = _past_cause(state)
            first, missed = self._account(state, now, cause)
            backlog = _Backlog(state, cause, first, missed, at_once)
        if backlog.dues:
            return backlog
        self._work_off(backlog, now)
        return None

    def _work_off(self, backlog: _Backlog, now: datetime) -> None:
        state = backlog.state
        if backlog.at_once is not None:
            self._admitter.admit(state, backlog.at_once, Cause.SCHEDULE)
        if backlog.missed is not None:
            self._make_up(state, backlog.missed, backlog.cause)
        self.arm(state, backlog.first)
        is_free = state.schedule is not None and state.next_due is None
        if is_free and state.is_live and _fixed_delay(state.job) is not None:
            # Its last run ended unseen, so nothing began the delay that is to come.
            self._restart_delay(state, now)
            self.arm(state)

    def begin_startup(self, state: JobState, gap: Gap | None = None) -> None:
        """Run a job that is due at the start of the daemon or of the machine."""
        trigger = state.job.trigger
        if not isinstance(trigger, StartupTrigger) or not state.is_live:
            return
        if trigger.per_boot and state.cursor.boot_id == self._parts.boot_id:
            return
        now = max(self._parts.timekeeper.now(), state.cursor.accounted_until + TICK)
        self._save(state, replace(advance(state.cursor, now), boot_id=self._parts.boot_id))
        if trigger.per_boot and gap is not None and gap.boot_id == self._parts.boot_id:
            self.enter_dropped(state, Dropped(now, now, 1, WAS_FORGOTTEN), Outcome.LOST)
        else:
            self._admitter.admit(state, now, Cause.STARTUP)

    def replace_job(self, state: JobState, job: Job) -> bool:
        """Take a job's new definition; its beat goes on unless the schedule itself changed (True).

        What was claimed ahead and is due by the new one, too, does not come again: the cursor
        accounts for it, as for no other.
        """
        now = self._parts.timekeeper.now()
        returns = job.enabled and not state.is_live
        is_new = fingerprint(job) != state.cursor.fingerprint
        was_next = state.next_due
        state.job, state.is_removed, state.fault = job, False, ""
        for active in [*state.active, *state.queued]:
            if active.stage in {Stage.BEHIND, Stage.RETRY, Stage.SLOT}:
                before, active.job = active.job, job  # what has yet to begin begins as it says now
                has_moved = _place(before) != _place(job)
                if has_moved and active.stage is Stage.SLOT:
                    self._register.slots(job).wait(active, self._parts.timekeeper.reading())
        if not job.enabled:
            self.forget(state)
        elif is_new or returns:
            self._save(state, self._cursor_for(job, state.cursor, now, at_start=False)[0])
        self._set_schedule(state)
        if state.is_live:
            self._account_ahead(state)
            self._start_at_once(state)
            if isinstance(job.trigger, AtTrigger):
                self._settle(state, now, _past_cause(state))
        self.arm(state, self._first_from_now(state, was_next, now))
        return is_new

    def _first_from_now(
        self, state: JobState, was_next: datetime | None, now: datetime
    ) -> datetime | None:
        """Return when a job is due next that was to be so at ``was_next`` before a reload.

        What was not due until now has not been missed, though it would have been by the new
        schedule, as where the zone of the system is another one now.
        """
        if not state.is_live or isinstance(state.job.trigger, AtTrigger):
            return None
        first = self._first_due(state)
        if first is None or first > now or (was_next is not None and was_next <= now):
            return first
        self._save(state, advance(state.cursor, now))
        return self._first_due(state)

    def _account_ahead(self, state: JobState) -> None:
        """Account for what has been claimed ahead and is due next."""
        ahead = {active.run.due for active in state.active if self._admitter.is_ahead(active)}
        first = self._first_due(state) if ahead else None
        if first is not None and first in ahead:
            self._save(state, advance(state.cursor, first))

    def _start_at_once(self, state: JobState) -> None:
        """Run an interval that is due at its anchor, which is when it was first seen.

        It is neither late nor missed, however long the rest of the start takes. Its claim is
        written together with its first cursor, so that a restart finds both or neither.
        """
        due = self._take_at_once(state)
        if due is not None:
            self._admitter.admit(state, due, Cause.SCHEDULE)

    def _take_at_once(self, state: JobState) -> datetime | None:
        """Account for an interval that is due at its anchor, and return that if it is to be run."""
        anchor = state.cursor.anchor
        if goes_by_the_clock(state.job) or self._register.is_stopping:
            return None
        if state.schedule is None or anchor is None or state.cursor.accounted_until >= anchor:
            return None
        due = self._first_due(state)
        if due != anchor:
            return None
        self._save(state, advance(state.cursor, due))
        return due

    def remove(self, state: JobState) -> None:
        """Take a job off the agenda; should it come back, it begins anew."""
        state.is_removed = True
        self.forget(state)
        self.disarm(state)

    def forget(self, state: JobState) -> None:
        """Let nothing that falls from now on count as missed; a one-off stays done for ever."""
        self._save(state, _removed(state.cursor))

    def forget_stored(self, cursor: Cursor) -> Cursor:
        """Forget a job that was removed while the daemon was down; return its cursor from now on.

        Should the job come back while a run of it still goes on, the ledger and we agree on that.
        """
        removed = _removed(cursor)
        if removed != cursor:
            self._parts.outbox.write(SetCursor(removed), durable=True)
        return removed

    def _cursor_for(
        self, job: Job, stored: Cursor | None, now: datetime, *, at_start: bool
    ) -> tuple[Cursor, datetime | None]:
        """Return the job's cursor, and up to which instant it is in doubt."""
        mark = fingerprint(job)
        if stored is not None and isinstance(job.trigger, AtTrigger):
            stored = replace(stored, fingerprint=stored.fingerprint.removeprefix(_REMOVED))
            if stored.fingerprint == mark:
                return self._after_restart(job, stored, now)
        elif stored is not None and stored.fingerprint == mark:
            if at_start:
                return self._after_restart(job, stored, now)
            if isinstance(job.trigger, StartupTrigger):
                return stored, None
        return self._new_cursor(job, mark, stored, now), None

    def _new_cursor(self, job: Job, mark: str, stored: Cursor | None, now: datetime) -> Cursor:
        """Return the cursor of a job that begins anew; of what is stored only identities remain."""
        begin = first_baseline(job, now)
        if isinstance(job.trigger, AtTrigger):
            # An instant that is past already is missed, not ignored.
            begin = min(now, job.trigger.instant - TICK)
        new = Cursor(job.name, mark, 0, begin, begin, anchor=now)
        if stored is None:
            return new
        new = replace(new, era=stored.era, boot_id=stored.boot_id, past=stored.past)
        if not goes_by_the_clock(job):
            return new
        anew = begun_anew(new, stored, now, self._clock())
        return replace(new, past=anew.past) if isinstance(job.trigger, AtTrigger) else anew

    def _clock(self) -> ClockReading:
        return ClockReading(self._parts.boot_id, self._parts.timekeeper.lead())

    def _after_restart(
        self, job: Job, stored: Cursor, now: datetime
    ) -> tuple[Cursor, datetime | None]:
        if isinstance(job.trigger, AtTrigger):
            return stored, None  # it comes once, whatever the clock reads
        if goes_by_the_clock(job):
            return after_restart(stored, now, self._clock())
        if now >= stored.accounted_until - FARTHEST_AHEAD - EARLY:
            return stored, None  # what is to come of that was claimed ahead, and never comes again
        # Elapsed time knows no reading that it must not repeat: it goes on from now, and counts
        # from where it did, unless the clock was set back to before that.
        anew = replace(
            stored,
            era=stored.era + 1,
            baseline=now,
            accounted_until=now,
            anchor=min(stored.anchor or now, now),
            barriers=(),
        )
        return anew, None

    def _set_schedule(self, state: JobState) -> None:
        try:
            state.schedule = self._schedule_of(state)
        except Exception as error:  # noqa: BLE001 - as in _guarding, and asked for every job
            self._disable(state, error)

    def _schedule_of(self, state: JobState) -> Occurrences | None:
        delay = _fixed_delay(state.job)
        if delay is not None:
            if state.active or state.cursor.anchor is None:
                return None  # it counts from the end of what runs
            return OneOff(state.cursor.anchor + delay)
        anchor = state.cursor.anchor or state.cursor.baseline
        return schedule_of(state.job, anchor, self._parts.host)

    # --- the heap -------------------------------------------------------------------------

    def arm(
        self, state: JobState, first: datetime | None = None, *, is_held_up: bool = True
    ) -> None:
        """Have the job wait for its first occurrence without a row; ``first``, if it is known.

        It is put on the heap by ``set_timers``. Should that be after its instant it is we who were
        held up, but where it had a timer before (not ``is_held_up``).
        """
        self.disarm(state)
        if not state.is_live or state.schedule is None or self._register.is_stopping:
            return
        state.next_due = self._first_due(state) if first is None else first
        if state.next_due is not None:
            self._waiting[state.next_due] += 1
            self._unset[state] = is_held_up

    def set_timers(self) -> None:
        """Put on the heap what was armed; by now it is known how many wait for one instant."""
        unset, self._unset = self._unset, {}
        added = Counter(state.next_due for state in unset)
        leads = {due: self._lead_of(self._waiting[due]) for due in added if due is not None}
        now = self._parts.timekeeper.now()
        for state, is_held_up in unset.items():
            state.is_set_late = is_held_up and state.next_due is not None and state.next_due < now
        for state in [*unset, *self._overtaken(added)]:
            if state.timer is not None:
                self._parts.timers.cancel(state.timer)
            due = state.next_due
            if due is not None:
                self._wait_for(state, due, self._ahead(state, leads[due]))

    def _overtaken(self, added: Mapping[datetime | None, int]) -> list[JobState]:
        """Return the jobs that wait for an instant for which so many more do now."""
        grown = {
            due
            for due, number in added.items()
            if due is not None
            and (before := self._waiting[due] - number)
            and self._lead_of(before) != self._lead_of(self._waiting[due])
        }
        if not grown:
            return []
        states = self._register.states.values()
        return [state for state in states if state.timer is not None and state.next_due in grown]

    def _ahead(self, state: JobState, lead: timedelta) -> timedelta:
        """Return how long before its instant, at most ``lead``, an occurrence is to be claimed.

        It takes its slot then, so where others may wait for that it is not long.
        """
        if lead > AHEAD and self._register.slots(state.job).has_bound_for(state.job):
            return AHEAD
        return lead

    def _lead_of(self, number: int) -> timedelta:
        return next(lead for least, lead in self.leads if number >= least)

    def _wait_for(self, state: JobState, due: datetime, ahead: timedelta) -> None:
        state.timer = self._parts.timers.call_at(
            self._parts.timekeeper.deadline(due - ahead),
            OccurrenceDue(state, due),
            priority=state.job.priority,
        )

    def disarm(self, state: JobState) -> None:
        """Take the job's entry off the heap."""
        if state.timer is not None:
            self._parts.timers.cancel(state.timer)
        self._unset.pop(state, None)
        if state.next_due is not None:
            self._waiting[state.next_due] -= 1
            if not self._waiting[state.next_due]:
                del self._waiting[state.next_due]
        state.timer = state.next_due = None

    def due(self, state: JobState, due: datetime, fired_at: datetime) -> None:
        """Deal with an occurrence whose timer fired at wall-clock instant ``fired_at``.

        It fires a little ahead. Where nothing stands in the way of a start, the occurrence is
        claimed then, and its process started at its instant; else it is looked at again, the last
        time at its instant.
        """
        if state.next_due != due or state.timer is None or not state.is_live:
            return
        state.timer = None
        if due - fired_at > FARTHEST_AHEAD + EARLY:
            self.arm(state)
            return
        if due > fired_at and not self._admitter.is_free(state):
            state.is_set_late = due < self._parts.timekeeper.now()
            self._wait_for(state, due, lead_of_next_look(due - fired_at))
            return
        if fired_at - due > LATE and not self._is_merely_late(state, due, fired_at):
            self._settle(state, fired_at, WAS_HELD_UP if state.is_set_late else WAS_FROZEN)
        else:
            self._save(state, advance(state.cursor, due))
            self._admitter.admit(state, due, Cause.SCHEDULE)
            self._begin_delay_if_idle(state)
        self.arm(state)

    def _is_merely_late(self, state: JobState, due: datetime, fired_at: datetime) -> bool:
        """Whether it was we who came too late to an occurrence, and it is still the newest one."""
        if not state.is_set_late or fired_at - due > LONGEST_HOLD_UP or state.schedule is None:
            return False
        newest = None
        with self._guarding(state):
            newest = state.schedule.latest_until(fired_at)
        return newest == due

    def job_idle(self, state: JobState, ended_at: datetime) -> None:
        """Begin a fixed delay at the end of a job's last active run."""
        if _fixed_delay(state.job) is not None and state.is_live:
            self._restart_delay(state, ended_at)
            self.arm(state)

    def _begin_delay_if_idle(self, state: JobState) -> None:
        """After an occurrence that made no run (skipped), a fixed delay begins at once."""
        if _fixed_delay(state.job) is not None:
            if state.active or state.queued:
                state.schedule = None
            else:
                self._restart_delay(state, self._parts.timekeeper.now())

    def _restart_delay(self, state: JobState, begin: datetime) -> None:
        self._save(state, replace(state.cursor, anchor=begin))
        self._set_schedule(state)

    # --- missed occurrences ---------------------------------------------------------------

    def _settle(self, state: JobState, until: datetime, cause: str) -> datetime | None:
        """Account for every occurrence up to ``until`` that has no row yet.

        Return the first one after that, where that is known without looking again.
        """
        first, missed = self._account(state, until, cause)
        if missed is not None:
            self._make_up(state, missed, cause)
        return first

    def _account(
        self, state: JobState, until: datetime, cause: str
    ) -> tuple[datetime | None, tuple[datetime, ...] | None]:
        """Do so, but for those that are to be made up; return these, too, None: none was missed.

        They are to be admitted before anything is written.
        """
        first = self._first_due(state)
        if state.schedule is None or first is None or first > until:
            return first, None
        job = state.job
        rule = MissedRule(job.missed, job.missed_within, job.missed_limit)
        plan = None
        with self._guarding(state):
            plan = plan_missed(state.schedule, unaccounted(state.cursor, until), rule, until)
        if plan is None:
            return None, None
        if plan.dropped is not None:
            why = f"{cause}; {plan.dropped.why}"
            self.enter_dropped(state, replace(plan.dropped, why=why), Outcome.MISSED)
        self._save(state, advance(state.cursor, plan.accounted_until))
        return None, plan.catch_up

    def _make_up(self, state: JobState, missed: Sequence[datetime], cause: str) -> None:
        for due in missed:
            self._admitter.admit(state, due, Cause.CATCH_UP)
        if missed:
            self._log(logging.WARNING, "catching up", state, cause, runs=len(missed))
        self._begin_delay_if_idle(state)

    def _settle_unknown(self, state: JobState, until: datetime, outcome: Outcome, why: str) -> None:
        """Enter what may have had a row that is not there any more, or is of another era.

        That are all occurrences up to ``until`` but those whose runs are known all the same.
        """
        if state.schedule is None:
            return
        stretches = unaccounted(state.cursor, until)
        runs = [*state.active, *state.queued]
        known = sorted(each.run.due for each in runs if each.run.era == state.cursor.era)
        plan, accounted = None, [due for due in known if state.cursor.accounted_until < due]
        with self._guarding(state):
            plan = plan_missed(state.schedule, _without(known, stretches), _DROPS_ALL, until)
        if plan is not None and plan.dropped is not None:
            self.enter_dropped(state, replace(plan.dropped, why=why), outcome)
            accounted.append(plan.accounted_until)
        if accounted:
            self._save(state, advance(state.cursor, min(max(accounted), until)))
            self._begin_delay_if_idle(state)

    def enter_dropped(self, state: JobState, dropped: Dropped, outcome: Outcome) -> None:
        """Enter occurrences that are not run."""
        claim = Claim(
            state.job.name,
            state.cursor.era,
            dropped.first,
            Cause.SCHEDULE,
            State.DONE,
            self._parts.timekeeper.now(),
            outcome=outcome,
            reason=dropped.why,
            last_due=dropped.last if dropped.count > 1 else None,
            count=dropped.count,
        )
        self._admitter.enter_dropped(claim, state.schedule)
        self._register.on_outcome(
            Conclusion(
                claim.job,
                claim.era,
                claim.due,
                outcome,
                last_due=claim.last_due,
                count=claim.count,
            )
        )
        self._log(
            logging.WARNING,
            f"occurrences {outcome}",
            state,
            dropped.why,
            count=dropped.count,
            first=dropped.first,
            last=dropped.last,
        )

    # --- the clock ------------------------------------------------------------------------

    def clock_changed(self, step: timedelta, states: Mapping[str, JobState]) -> None:
        """Derive every deadline again after the wall clock was set by ``step``."""
        ahead = "forward" if step > timedelta(0) else "back"
        size = _MILLISECOND * round(abs(step) / _MILLISECOND)  # the rest is noise of the reading
        log.warning("the clock was set %s by %s", ahead, format_duration(size), extra=fields())
        now = self._parts.timekeeper.now()
        for state in by_priority(states.values()):
            if goes_by_the_clock(state.job):
                self._readings_change(state, now, step)
            else:
                self._save(state, _shifted(state.cursor, step))
                self._set_schedule(state)
            self.arm(state, is_held_up=False)

    def _readings_change(self, state: JobState, now: datetime, step: timedelta) -> None:
        """Account for a step of the clock in a job that is due at its readings."""
        before = self._up_to(state, now - step)
        if not isinstance(state.job.trigger, AtTrigger):  # which comes once, whatever it reads
            cursor = clock_was_set(before, now, step, self._clock())
            self._save(state, cursor, is_durable=cursor.past is not None)
        if step < timedelta(0) or not state.is_live or state.next_due is None:
            return
        if state.next_due <= now - LATE:
            self._tell_passed_over(state, before, now)
            self._settle(state, now, WAS_SET_FORWARD)

    def _up_to(self, state: JobState, reading: datetime) -> Cursor:
        """Return the cursor as far as all is accounted for at a reading of the clock.

        It stands at the job's last occurrence, and nothing was due since.
        """
        if not state.is_live or state.next_due is None or state.next_due <= reading:
            return state.cursor
        return advance(state.cursor, max(state.cursor.accounted_until, reading))

    def _tell_passed_over(self, state: JobState, before: Cursor, now: datetime) -> None:
        """Say how often the job is not run now because it was accounted for before a step back."""
        begin, until = before.accounted_until, min(now, state.cursor.accounted_until)
        if state.schedule is None or until <= begin:
            return
        with self._guarding(state):
            if count := state.schedule.count(begin, until):
                reason = "they were accounted for before the clock was set back"
                self._log(logging.INFO, "occurrences passed over", state, reason, count=count)

    # --- small things ---------------------------------------------------------------------

    def _save(self, state: JobState, cursor: Cursor, *, is_durable: bool = False) -> None:
        if cursor != state.cursor:
            is_new = cursor.fingerprint != state.cursor.fingerprint
            state.cursor = cursor
            self._parts.outbox.write(SetCursor(cursor), durable=is_new or is_durable)

    def _first_due(self, state: JobState) -> datetime | None:
        """Return the job's first occurrence without a row; None also where it is now disabled."""
        if state.schedule is None:
            return None
        try:
            return next_unaccounted(state.schedule, state.cursor)
        except Exception as error:  # noqa: BLE001 - as in _guarding, and asked for every job
            self._disable(state, error)
            return None

    @contextmanager
    def _guarding(self, state: JobState) -> Iterator[None]:
        """Keep a fault of one job's schedule to that job: the boundary of one dispatch."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 - named above
            self._disable(state, error)

    def _disable(self, state: JobState, error: Exception) -> None:
        """Take one job out of service whose schedule cannot be followed; the others go on."""
        state.fault = f"disabled: {error}"
        state.schedule = None
        self.disarm(state)
        # A join may wait for an occurrence that does not come any more.
        self._parts.timers.call_at(self._parts.timekeeper.reading(), CyclesDue())
        log.error(
            "job disabled, its schedule cannot be followed",
            exc_info=error,
            extra=fields(job=state.job.name, reason=str(error)),
        )

    def _log(
        self, level: int, message: str, state: JobState, reason: str, **values: object
    ) -> None:
        log.log(
            level,
            message,
            extra=fields(job=state.job.name, **values, reason=reason),
        )


@dataclass(frozen=True, slots=True)
class _Backlog:
    """What is to be run of a job at a start: ``at_once``, and what was ``missed`` and is made up.

    ``first`` is due after that, where it is known. With ``missed`` None there was nothing missed.
    """

    state: JobState
    cause: str = ""
    first: datetime | None = None
    missed: tuple[datetime, ...] | None = None
    at_once: datetime | None = None

    @property
    def dues(self) -> tuple[datetime, ...]:
        """What is to be run."""
        at_once = () if self.at_once is None else (self.at_once,)
        return (*at_once, *(self.missed or ()))

    @property
    def turn(self) -> tuple[int, datetime]:
        """What is run first: by priority, then by due."""
        return -self.state.job.priority, min(self.dues)


def by_priority(states: Iterable[JobState]) -> list[JobState]:
    """Return jobs in the order in which they have their turn where they come together."""
    return sorted(states, key=lambda state: -state.job.priority)


def _fixed_delay(job: Job) -> timedelta | None:
    """Return the delay of a job that counts from the end of its last run."""
    trigger = job.trigger
    if isinstance(trigger, EveryTrigger) and trigger.mode is EveryMode.FIXED_DELAY:
        return trigger.period
    return None


def _without(instants: Iterable[datetime], stretches: Iterable[Stretch]) -> list[Stretch]:
    """Return the stretches of time with ``instants``, which are sorted, cut out of them."""
    cut = []
    for after, until in stretches:
        for instant in instants:
            if after < instant <= until:
                cut.append((after, instant - TICK))
                after = instant  # noqa: PLW2901 - what is left of it
        cut.append((after, until))
    return [(after, until) for after, until in cut if after < until]


def _place(job: Job) -> tuple[object, ...]:
    """Return what decides where a job's runs wait for a slot."""
    return job.pool, job.priority, job.group


def _removed(cursor: Cursor) -> Cursor:
    if cursor.fingerprint.startswith(_REMOVED):
        return cursor
    return replace(cursor, fingerprint=f"{_REMOVED}{cursor.fingerprint}")


def _past_cause(state: JobState) -> str:
    trigger, first_seen = state.job.trigger, state.cursor.anchor
    if isinstance(trigger, AtTrigger) and first_seen is not None and trigger.instant <= first_seen:
        return WAS_PAST
    return WAS_DOWN


def _shifted(cursor: Cursor, step: timedelta) -> Cursor:
    """Return an interval's cursor after a clock step: the same beat in the new readings.

    Set back, its new readings may have been used before: that makes a new era.
    """
    return replace(
        cursor,
        era=cursor.era + (1 if step < timedelta(0) else 0),
        baseline=cursor.baseline + step,
        accounted_until=cursor.accounted_until + step,
        anchor=cursor.anchor + step if cursor.anchor is not None else None,
    )
