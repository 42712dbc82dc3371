"""From a submitted task that is due to its runs, and to the rows of what of it is not run.

Not responsible for which tasks are due, nor for moving them on (``tasks``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta

from crond_py.crontab.model import Crontab, EveryTrigger, Job
from crond_py.dataclass import dataclass
from crond_py.engine.admission import Admitter
from crond_py.engine.agenda import WAS_HELD_UP, Agenda
from crond_py.engine.attendance import Attendance
from crond_py.engine.lag import Wait
from crond_py.engine.lanes import Hindered, Hindrance, hindrances_since
from crond_py.engine.parts import Parts, Register, TaskJobs
from crond_py.engine.records import ActiveRun, Conclusion, JobState
from crond_py.engine.telling import INTERNAL_FAULT, fields, log, tell
from crond_py.errors import PycronError
from crond_py.model import Absence, Cause, Cursor, Missed, Outcome, State, Task
from crond_py.policy import TICK, MissedRule, Occurrences, plan_missed
from crond_py.ports import Claim
from crond_py.schedule import Interval, OneOff

_WAITS = {
    Hindrance.FULL: Wait.POOL,
    Hindrance.HELD: Wait.POOL,
    Hindrance.LEFT: Wait.POOL,
    Hindrance.UNREAD: Wait.DISPATCH,
}
"""What a task waits for as long as something keeps its lane back."""

_MARK = "task"
"""The fingerprint in the cursors of tasks; those are never stored."""


@dataclass(frozen=True, slots=True)
class _Span:
    """What is due of a task, from ``due`` to ``newest``, on the wall clock, and why it comes late.

    ``absence`` is the one in which all of it was due, if any, ``hindered`` what has kept its lane
    back.
    """

    schedule: Occurrences
    due: datetime
    newest: datetime
    now: datetime
    absence: Absence | None
    hindered: Hindered


class Uptake:
    """Makes runs of tasks, by the crontab in force."""

    def __init__(
        self,
        parts: Parts,
        register: Register,
        admitter: Admitter,
        agenda: Agenda,
        attendance: Attendance,
    ) -> None:
        self._parts = parts
        self._register = register
        self._admitter = admitter
        self._agenda = agenda
        self._attendance = attendance
        self._jobs: TaskJobs | None = None

    def set_crontab(self, crontab: Crontab) -> None:
        """Take what a crontab says of tasks; what runs or waits keeps what it has."""
        self._jobs = self._parts.task_reader(crontab)

    @property
    def keep_for(self) -> timedelta | None:
        """How long tasks are remembered that have ended; None: for ever."""
        return self._jobs.keep_for if self._jobs is not None else None

    def enter(self, task: Task, due: datetime) -> JobState:
        """Enter the job of a task, as its occurrence of ``due`` is accounted for.

        Raises PycronError where its definition does not fit the crontab in force.
        """
        assert self._jobs is not None  # noqa: S101 - set before anything is taken up
        job = self._jobs.job(task)
        cursor = Cursor(job.name, _MARK, self._attendance.era, due, due)
        state = self._register.tasks.setdefault(job.name, JobState(job, cursor, is_task=True))
        state.job, state.cursor, state.is_once = job, cursor, task.period is None
        return state

    def take_up(
        self, task: Task, now: datetime, hindered: Hindered
    ) -> tuple[list[ActiveRun], datetime | None]:
        """Claim what is due of a task up to ``now``, or enter why it is not run.

        ``hindered`` is what has kept its lane back. Where the first of it fell in an absence, that
        is only what fell in there: what was due later, and waits, is taken up by itself. Return the
        runs that came of it, and when it is due next, on its own scale.
        """
        scale = task.lane.scale
        due = self._attendance.wall(scale, task.due)
        absence = self._attendance.absence(task)
        now = max(now, due)  # it may be taken up a little ahead
        until = now if absence is None else min(now, self._attendance.wall(scale, absence.until))
        next_due, newest = None, due
        schedule: Occurrences = OneOff(due)
        if task.period is not None:
            schedule = Interval(due - task.period, task.period)
            newest = _newest(task, due, until)
            next_due = task.due + (newest - due) + task.period
        span = _Span(schedule, due, newest, now, absence, hindered)
        runs: list[ActiveRun] = []
        try:
            state = self.enter(task, due)
            self._run(state, span, runs)
        except PycronError as error:
            self.enter_row(task, until, Outcome.FAILED, f"cannot start: {error}")
        except Exception:  # noqa: BLE001 - the boundary of one task: its faults stay its own
            log.exception("task cannot be run", extra=fields(job=task.job, due=due))
            self.enter_row(task, until, Outcome.FAILED, f"cannot start: {INTERNAL_FAULT}")
        self._keep_or_let_go(task)
        return runs, next_due

    def _keep_or_let_go(self, task: Task) -> None:
        """Know a task as long as it has a run."""
        state = self._register.tasks.get(task.job)
        if state is not None and not state.active and not state.queued:
            self._register.let_go(state)

    def _run(self, state: JobState, span: _Span, runs: list[ActiveRun]) -> None:
        """Admit what is to be run, and add what has become a run."""
        era, waited = state.cursor.era, [(ns, _WAITS[what]) for ns, what in span.hindered]
        for instant, cause in self._to_run(state, span):
            active = self._admitter.admit(state, instant, cause, era=era, waited=waited)
            # It is let go of with its last run, and that may have been replaced just now.
            self._register.take_back(state)
            if active is not None:
                runs.append(active)

    def _to_run(self, state: JobState, span: _Span) -> Iterator[tuple[datetime, Cause]]:
        """Yield what is to be run, and as what; what is not gets its row."""
        absence, job = span.absence, state.job
        if absence is None and (span.newest == span.due or job.missed is not Missed.ALL):
            self._drop_overtaken(state, span)
            yield span.newest, Cause.SCHEDULE
            return
        outcome = absence.outcome if absence is not None else Outcome.MISSED
        cause = absence.why if absence is not None else self._why_late(span)
        is_lost = outcome is Outcome.LOST
        missed = Missed.SKIP if is_lost else job.missed
        rule = MissedRule(missed, job.missed_within, job.missed_limit)
        plan = plan_missed(span.schedule, [(span.due - TICK, span.newest)], rule, span.now)
        assert plan is not None  # noqa: S101 - it is due at span.due
        if plan.dropped is not None:
            why = cause if is_lost else f"{cause}; {plan.dropped.why}"
            self._agenda.enter_dropped(state, replace(plan.dropped, why=why), outcome)
        for instant in plan.catch_up:
            yield instant, Cause.CATCH_UP

    def _drop_overtaken(self, state: JobState, span: _Span) -> None:
        """Enter what of a task's instants has passed while it waited for its turn."""
        overtaken = [(span.due - TICK, span.newest - TICK)]
        plan = plan_missed(span.schedule, overtaken, MissedRule(Missed.SKIP, None, 0), span.now)
        if plan is not None and plan.dropped is not None:
            why = f'{self._why_late(span)}; only the newest is run, missed = "{state.job.missed}"'
            self._agenda.enter_dropped(state, replace(plan.dropped, why=why), Outcome.MISSED)

    def _why_late(self, span: _Span) -> str:
        """Return why the turn of a task comes late, that nothing kept from being started."""
        due_ns = self._parts.timekeeper.deadline(span.due)
        return " and ".join(hindrances_since(span.hindered, due_ns)) or WAS_HELD_UP

    def _stand_in(self, task: Task) -> Job | None:
        """Return a job that tells how much is kept of a task that cannot run, and comes again."""
        if task.period is None or self._jobs is None:
            return None
        keep_runs, keep_for = self._jobs.keep_runs, self._jobs.keep_for
        trigger = EveryTrigger(task.period)
        return Job(task.job, trigger, command=(), keep_runs=keep_runs, keep_for=keep_for)

    def enter_row(self, task: Task, until: datetime, outcome: Outcome, reason: str) -> None:
        """Enter what became, without a run, of what is due of a task up to ``until``.

        Its next occurrence is that in any case, though it may be yet to come.
        """
        due, era = self._attendance.wall(task.lane.scale, task.due), self._attendance.era
        newest = _newest(task, due, until)
        last_due = newest if newest > due else None
        count = 1 if task.period is None else 1 + (newest - due) // task.period
        claim = Claim(
            task.job,
            era,
            due,
            Cause.SCHEDULE,
            State.DONE,
            self._parts.timekeeper.now(),
            outcome=outcome,
            reason=reason,
            last_due=last_due,
            count=count,
        )
        self._parts.outbox.claim(claim, lambda _: None)
        stand_in = self._stand_in(task) if outcome is Outcome.FAILED else None
        conclusion = Conclusion(task.job, era, due, outcome, last_due, count, stand_in=stand_in)
        self._register.on_outcome(conclusion)
        tell(logging.WARNING, f"task {outcome}", task.job, due=due, last=last_due, reason=reason)


def _newest(task: Task, due: datetime, until: datetime) -> datetime:
    """Return the last of what is due of a task up to ``until``, the first being at ``due``."""
    if task.period is None or until <= due:
        return due
    return due + (until - due) // task.period * task.period
