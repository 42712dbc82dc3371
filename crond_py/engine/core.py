"""The state machine: takes batches of events, decides, and flushes the outbox once a batch.

It has no thread and no lock of its own: ``thread.Engine`` feeds it from one inbox, and a
simulation calls it directly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from crond_py.crontab.model import Crontab
from crond_py.crontab.summary import forget_fingerprints
from crond_py.engine import events
from crond_py.engine.admission import Admitter
from crond_py.engine.agenda import Agenda, by_priority
from crond_py.engine.attempts import Attempts
from crond_py.engine.attendance import TASKS
from crond_py.engine.chains import Chains
from crond_py.engine.gathering import Gathering
from crond_py.engine.outbox import NotWrittenError
from crond_py.engine.parking import Parking
from crond_py.engine.parts import Parts, Register, absent_pool
from crond_py.engine.pools import Slots
from crond_py.engine.records import NOT_THERE, ActiveRun, Conclusion, JobState, Stage
from crond_py.engine.recovery import Recoverer
from crond_py.engine.retention import Retention
from crond_py.engine.rows import Rows
from crond_py.engine.shares import Shares
from crond_py.engine.signals import Signals
from crond_py.engine.starting import STOPPED, Starter
from crond_py.engine.status import crowds, job_status, pool_status
from crond_py.engine.stopping import Stopper
from crond_py.engine.task_ends import TaskEnds
from crond_py.engine.tasks import Tasks
from crond_py.engine.telling import fields, log
from crond_py.engine.view import Cancelled, EngineStatus
from crond_py.errors import (
    EndedAlreadyError,
    LedgerError,
    RequestRefusedError,
    UnknownNameError,
)
from crond_py.model import Cause, Cursor, OnStop, Run, task_id_of, task_job
from crond_py.policy import TICK, is_accounted
from crond_py.ports import (
    Ended,
    Ledger,
    LeftOver,
    NewTask,
    Started,
    StartFailed,
    Submitted,
    Timer,
)
from crond_py.schedule import forget_parsed

LEDGER_RETRY = timedelta(seconds=1)
"""How soon a write is tried again that the ledger did not take."""

LAST_PATIENCE = timedelta(seconds=5)
"""How long a stop waits, beyond ``kill_after``, for starts that hang."""

_LATE: Final = timedelta(milliseconds=20)
"""Where an occurrence is noticed later than this, ends may lie behind it that came before."""

MOST_LANES = 2_000
"""Of how many lanes of tasks the timers are dealt with in one batch; the others' in the next."""

_ON_REQUEST = "cancelled on request"

WAITED_NO_LONGER = "pycron was stopped and waited no longer"


class Core:
    """The engine without its thread. ``begin`` comes first, then ``handle`` for every batch."""

    def __init__(self, parts: Parts, ledger: Ledger) -> None:
        self._parts = parts
        self._ledger = ledger
        self._register = register = Register(Shares(parts.timekeeper.reading))
        signals = Signals(parts)
        self._starter = Starter(parts, register, signals)
        self._attempts = Attempts(parts, register, self._starter, signals)
        self._stopper = Stopper(parts, self._attempts, signals)
        rows = Rows(ledger, parts.outbox)
        self._admitter = Admitter(parts, register, self._attempts, self._stopper, rows)
        self._agenda = Agenda(parts, register, self._admitter)
        register.on_idle = self._agenda.job_idle
        self._started_at = now = parts.timekeeper.now()
        self._retention = Retention(ledger, parts.remove_outputs, now, parts.bound_outputs)
        self._chains = Chains(parts, register, self._admitter, ledger, rows)
        self.gathering = Gathering(parts, register, self._chains)
        self._parking = Parking(parts, register, self._attempts, self._stopper, ledger)
        self._tasks = Tasks(
            parts, register, self._admitter, self._agenda, ledger, parking=self._parking
        )
        self.task_ends = TaskEnds(parts, register, ledger)
        register.enter_task = self._tasks.enter
        register.bring = self._tasks.bring
        self._tasks.when_taken_up(self._starter.fill)
        register.on_outcome = self._concluded
        self._ledger_trouble = ""
        self._ledger_retry: Timer | None = None
        self._ledger_settling: Timer | None = None
        self._pools: frozenset[str] = frozenset()
        self._is_limit_over = False
        self._are_starts_given_up = False
        self._on_stopped: list[Callable[[], None]] = []

    # --- start, reload, stop --------------------------------------------------------------

    def begin(self, crontab: Crontab) -> None:
        """Take over what an earlier daemon left, settle what was missed, and go on.

        Raises LedgerError where the ledger can't be read.
        """
        cursors = self._ledger.cursors()
        last = self._ledger.last_runs()
        gap = self._ledger.gap
        open_runs = self._ledger.open_runs(with_retries=gap is not None)
        retries = self._ledger.retries() if gap is None else []  # else they may have begun
        self._set_pools(crontab)
        now = self._parts.timekeeper.now()
        for job in crontab.jobs.values():
            state = self._agenda.enter(job, cursors.get(job.name), now, at_start=True)
            state.last = last.get(job.name)
        forget_fingerprints()  # what is made from here on takes their room
        self._chains.set_jobs(crontab.jobs)
        task_cursor = cursors.pop(TASKS, None)
        for name, cursor in list(cursors.items()):
            if name not in crontab.jobs:
                cursors[name] = self._agenda.forget_stored(cursor)
                self._retention.note_removed(name)
        recoverer = Recoverer(
            self._parts,
            self._register,
            self._attempts,
            self._admitter,
            self._stopper,
        )
        self._tasks.read_lanes()
        with self._chains.collecting():
            recoverer.recover(self._parking.begin(open_runs, retries), self._ledger, cursors)
            now = self._parts.timekeeper.now()
            self._agenda.begin(list(self._register.states.values()), now, gap)
        with self._chains.collecting():
            for state in by_priority(self._register.states.values()):
                self._agenda.begin_startup(state, gap)
        self._chains.begin()
        self._tasks.begin(task_cursor, now, gap)
        self._parts.outbox.then(self._parts.processes.note_starts)
        forget_parsed()  # likewise
        self._agenda.set_timers()  # the disk may take longer than it is to what is due next
        self._flush()
        self._agenda.set_timers()
        self._tasks.tell_held()

    def reload(self, crontab: Crontab) -> None:
        """Put another crontab in force. Jobs whose schedule is the same keep their beat."""
        states = self._register.states
        # First: where it fails, nothing has changed. Most reloads bring no new job.
        has_new = any(name not in states for name in crontab.jobs)
        cursors = self._ledger.cursors() if has_new else {}
        last = self._ledger.last_runs() if has_new else {}
        self._set_pools(crontab)
        now = self._parts.timekeeper.now()
        with self._chains.collecting():  # what is settled here is followed as the new one says
            self._chains.set_jobs(crontab.jobs)
            for name in [name for name in states if name not in crontab.jobs]:
                self._remove(states[name])
            for name, job in crontab.jobs.items():
                state = states.get(name)
                if state is None:
                    state = self._agenda.enter(job, cursors.get(name), now, at_start=False)
                    state.last = last.get(name)
                    self._agenda.begin([state], now)
                else:
                    has_changed = self._agenda.replace_job(state, job)
                    if not job.enabled:
                        self._withdraw(state, "the job was disabled in the crontab")
                    elif has_changed:
                        reason = "the job was given another schedule in the crontab"
                        self._withdraw(state, reason, by=state.cursor)
                    self._attempts.renew_waiting(state)
        self._chains.look_again()
        self._starter.fill_all()
        self._tasks.tell_held()

    def _set_pools(self, crontab: Crontab) -> None:
        """Take the pools of a crontab; runs keep the slots they have."""
        pools = self._register.pools
        self._pools = frozenset(crontab.pools)
        for name in [name for name in pools if name not in crontab.pools]:
            pools[name].pool = absent_pool(name)
            if not pools[name].is_in_use:
                del pools[name]
        for name, pool in crontab.pools.items():
            pools.setdefault(name, Slots(pool, self._register.shares)).pool = pool
        self._register.shares.set_groups(crontab.groups)
        self._tasks.set_crontab(crontab)
        self._retention.set_task_bound(self._tasks.keep_for)
        for slots in pools.values():
            if slots.waiting:
                self._starter.watch_waiting(slots)

    def _remove(self, state: JobState) -> None:
        self._agenda.remove(state)
        self._retention.note_removed(state.job.name)
        for active in [*state.queued, *state.active]:
            if active.stage not in {Stage.STARTING, Stage.RUNNING}:
                self._stopper.cancel(active, NOT_THERE)
        self._withdraw(state, NOT_THERE)
        if not state.active and not state.queued:
            self._register.states.pop(state.job.name, None)

    def _withdraw(self, state: JobState, reason: str, by: Cursor | None = None) -> None:
        """Cancel what was claimed ahead of an instant that is yet to come.

        ``by``: but for what this accounts for.
        """
        for active in list(state.active):
            is_kept = by is not None and is_accounted(by, active.run.due)
            if not is_kept and self._admitter.is_ahead(active):
                self._stopper.cancel(active, reason)

    def stop(
        self,
        limit: timedelta | None,
        on_stopped: Callable[[], None],
        on_stopping: Callable[[], None] = lambda: None,
    ) -> None:
        """Start nothing more; ``on_stopped`` is called once there is nothing to wait for.

        ``on_stopping`` is called first, from when on nothing is started.

        That is up to the jobs' ``on_stop``. After ``limit`` (None: no limit) the processes that
        are waited for are ended. What is queued or waits for a retry stays in the ledger and goes
        on with the next start; what was claimed ahead and is not started yet is that one's, too.
        """
        self._on_stopped.append(on_stopped)
        if not self._register.is_stopping:
            self._register.is_stopping = True
            self._register.stopping_ns = self._parts.timekeeper.reading()
            self._parts.processes.recall()
            on_stopping()
            for state in self._register.states.values():
                self._agenda.disarm(state)
            self._tasks.stop()
            if limit is not None:
                self._parts.timers.call_at(
                    self._parts.timekeeper.after(limit), events.StopLimitDue()
                )
            for active in self._waited_for():
                is_recalled = self._starter.is_recalled(active)
                if active.job.on_stop is OnStop.TERMINATE and not is_recalled:
                    self._stopper.cancel(active, STOPPED)

    def end_runs(self, reason: str) -> None:
        """End every process that a stop waits for, as a cancel of its run; then wait no longer.

        What was recalled is the next daemon's, though the word that it does not start comes late.
        """
        self._is_limit_over = True
        self._register.ends_runs = reason
        ended = self._waited_for()
        for active in ended:
            # What is to be left is so once it is there; else its start is given up.
            if not active.is_to_be_left and not self._starter.is_recalled(active):
                self._stopper.cancel(active, reason)
        if ended:
            patience = max(active.job.kill_after for active in ended) + LAST_PATIENCE
            self._parts.timers.call_at(
                self._parts.timekeeper.after(patience), events.StartsGivenUpDue()
            )

    def _waited_for(self) -> list[ActiveRun]:
        """Return the runs that a stop waits for: all that have a process but are not to be left.

        What is just being started is waited for: it can be left once it is there. A start that
        hangs (a dead disk) is in the end given up, and settled by the next daemon; so is what runs
        no more but has left what cannot be ended, or looked for.
        """
        is_given_up = self._are_starts_given_up
        return [
            active
            for active in self._register.runs.values()
            if (active.stage is Stage.STARTING and not is_given_up)
            or (
                active.stage is Stage.RUNNING
                and not active.is_to_be_left
                and not (active.has_rest and is_given_up)
            )
        ]

    # --- events ---------------------------------------------------------------------------

    def handle(self, batch: Sequence[object]) -> None:
        """Deal with a batch of events, commit what it changed, then act on it."""
        self.gathering.begin()
        self._tasks.begin_batch()
        with _outliving("clock not looked at"):
            self._check_clock()
        for event in batch:
            with _outliving("event not handled", event=event):
                self._handle(event)
        with _outliving("tasks not taken up"):
            self._tasks.feed()
            self._tasks.attend()
        self._set_timers()  # the disk may take longer than it is to what is due next
        is_durable = self._parts.outbox.is_durable
        self._flush()
        if is_durable:
            self.gathering.note_commit()
        self._set_timers()
        with _outliving("old runs not deleted"):
            self._sweep()
        self._tell_stopped()

    def _set_timers(self) -> None:
        with _outliving("timers not set"):
            self._agenda.set_timers()

    def _sweep(self) -> None:
        if self._ledger_retry is None:
            timekeeper = self._parts.timekeeper
            states = self._register.states
            self._retention.sweep(states, timekeeper.now(), timekeeper.reading())

    def _tell_stopped(self) -> None:
        """Call back once nothing runs and all is written, or the time for that is over."""
        if not self._register.is_stopping or self._waited_for():
            return
        if not self._parts.outbox.is_empty:
            if not self._is_limit_over:
                return
            self._flush(is_urgent=True)
            if self._waited_for():  # it was claimed before, and has only now been started
                self.end_runs(WAITED_NO_LONGER)
                self._flush()
                return
        if not self._parts.outbox.is_empty:
            log.error("stopped with the ledger not written", extra=fields())
        running = [run for run in self._register.runs.values() if run.stage is Stage.RUNNING]
        for active in running:
            self._stopper.leave(active)
        self._flush()
        left = [active.run.id for active in running]
        if left and self._on_stopped and self._parts.ends_all:
            log.warning("runs end with pycron, which is process 1", extra=fields(runs=left))
        elif left and self._on_stopped:
            log.info("runs are left to the next pycron", extra=fields(runs=left))
        callbacks, self._on_stopped = self._on_stopped, []
        for callback in callbacks:
            callback()

    def _handle(self, event: object) -> None:
        match event:
            case events.TimersFired():
                self._timers_fired(event)
            case Started():
                self._starter.started(event)
            case StartFailed():
                self._attempts.start_failed(event)
            case LeftOver():
                self._attempts.left_over(event)
            case Ended():
                self._attempts.ended(event)
            case events.Call(function):
                self._flush()  # a caller sees runs that have their id
                function()
            case events.ClockChanged():
                pass  # every batch looks at the clock first
            case _:
                message = f"not an event: {event!r}"
                raise TypeError(message)

    def _timers_fired(self, event: events.TimersFired) -> None:
        """Deal with what has come due, if need be after the ends that came before that.

        Where we were frozen or held up, both are seen at once: what has ended in time was not
        ended by its timeout, and is not in the way of the next one.
        """
        fired_at = self._parts.timekeeper.wall_at(event.popped_ns)
        later, others, lanes = [], [], 0
        for item in event.items:
            lanes += isinstance(item, events.TasksDue)
            if lanes > MOST_LANES and isinstance(item, events.TasksDue):
                self._tasks.put_off(item.lane)
                others.append(item)
                continue
            if not event.is_after_ends and self._needs_ends(item, fired_at):
                if isinstance(item, events.TasksDue):
                    self._tasks.note_late(item.lane, fired_at)
                later.append(item)
                continue
            if not isinstance(item, events.TasksDue):
                with _outliving("tasks not taken up"):
                    self._tasks.feed_in_place()
            with _outliving("timer not handled", item=item):
                self._timer_fired(item, fired_at)
        if later:
            self._parts.processes.tell_after_ends(replace(event, items=later, is_after_ends=True))
        if others:
            self._parts.processes.tell_after_ends(replace(event, items=others))

    def _needs_ends(self, item: object, fired_at: datetime) -> bool:
        """Return whether it matters to a timer what has ended by the time that it is dealt with."""
        match item:
            case events.TimeoutDue() | events.StopLimitDue():
                return True
            case events.OccurrenceDue(_, due):
                return fired_at - due > _LATE
            case events.TasksDue(lane):
                return fired_at - self._parts.timekeeper.wall_at(lane.deadline_ns) > _LATE
        return False

    def _timer_fired(  # noqa: C901, PLR0912 - one case for each kind of timer
        self, item: object, fired_at: datetime
    ) -> None:
        match item:
            case events.OccurrenceDue(state, due):
                if not self._register.is_stopping:
                    self._agenda.due(state, due, fired_at)
            case events.TasksDue(lane):
                self._tasks.due(lane, fired_at)
            case events.FeedDue():
                self._tasks.goes_on()
            case events.RetryDue(run):
                self._attempts.retry_due(run)
            case events.TimeoutDue(run, attempt):
                self._stopper.timeout_due(run, attempt)
            case events.KillDue(run, attempt):
                self._stopper.kill_due(run, attempt)
            case events.TooLateDue(run):
                self._stopper.too_late_due(run)
            case events.LagDue(slots):
                self._starter.lag_due(slots)
            case events.KeptBackDue():
                self._tasks.kept_back_due()
            case events.CyclesDue():
                self._chains.look_again()
            case events.StopLimitDue():
                self.end_runs(WAITED_NO_LONGER)
            case events.StartsGivenUpDue():
                self._are_starts_given_up = True
            case events.AskAgainDue(ask):
                self._parts.ask(ask)
            case events.LedgerRetryDue():
                self._ledger_retry = None  # every batch ends with a flush
            case events.LedgerSettleDue():
                self._ledger_settling = None
                self._ledger.settle()
            case _:
                message = f"not a timer's item: {item!r}"
                raise TypeError(message)

    def _check_clock(self) -> None:
        step = self._parts.timekeeper.take_step()
        if step is not None:
            if step > timedelta(0):
                self._retention.clock_was_set(self._parts.timekeeper.reading())
            self._tasks.clock_changed(step)  # first: its pools give no slot before all are told
            self._agenda.clock_changed(step, self._register.states)
            self._chains.look_again()

    def _concluded(self, conclusion: Conclusion) -> None:
        if task_id_of(conclusion.job) is not None:
            state = self._register.tasks.get(conclusion.job)
            now = self._parts.timekeeper.now()
            self._retention.note_task(state, now, conclusion.stand_in)
            self.task_ends.concluded(conclusion.job)
            return
        self._retention.note_row(conclusion.job, self._parts.timekeeper.now())
        self._chains.concluded(conclusion)

    def _watch_ledger(self) -> None:
        """While the ledger is in trouble, have it see from time to time whether that is over."""
        settles_in = self._ledger.settles_in
        if settles_in is not None and self._ledger_settling is None:
            self._ledger_settling = self._parts.timers.call_at(
                self._parts.timekeeper.after(settles_in), events.LedgerSettleDue()
            )

    def _flush(self, *, is_urgent: bool = False) -> None:
        """Write and act; after a failure not again before its time, unless somebody waits."""
        if self._ledger_retry is not None:
            if not is_urgent:
                with _outliving("effect not carried out"):
                    self._parts.outbox.act_unwritten()
                return
            self._parts.timers.cancel(self._ledger_retry)
            self._ledger_retry = None
        try:
            self._flush_outbox()
        except NotWrittenError as error:
            if not self._ledger_trouble:
                log.error(
                    "the ledger cannot be written; runs wait until it can",
                    extra=fields(reason=str(error)),
                )
            self._ledger_trouble = f"the ledger cannot be written, runs wait: {error}"
            self._ledger_retry = self._parts.timers.call_at(
                self._parts.timekeeper.after(LEDGER_RETRY), events.LedgerRetryDue()
            )
        else:
            if self._ledger_trouble:
                self._ledger_trouble = ""
                log.warning("the ledger can be written again", extra=fields())
        self._watch_ledger()

    def _flush_outbox(self) -> None:
        """Write and act; an effect that fails holds up none of the others."""
        is_done = False
        while not is_done:
            with _outliving("effect not carried out", but=NotWrittenError):
                self._parts.outbox.flush()
                is_done = True
            is_done = is_done or not self._parts.outbox.has_work

    # --- requests -------------------------------------------------------------------------

    def status(self) -> EngineStatus:
        """Return everything a person may ask about."""
        everyone = self._register.states.values()
        states = [state for state in everyone if not state.is_removed]
        faults = [f"job {s.job.name} is {s.fault}" for s in states if s.fault]
        waits = [self._ledger_trouble] if self._ledger_trouble else []
        outputs = [self._register.output_trouble] if self._register.output_trouble else []
        troubles = [*waits, *self._ledger.troubles, *outputs, *faults, *self._tasks.troubles]
        awaited = self._waited_for() if self._register.is_stopping else []
        waiting = crowds([*everyone, *self._register.tasks.values()])
        self._tasks.count_stored(waiting)
        return EngineStatus(
            now=self._parts.timekeeper.now(),
            started_at=self._started_at,
            is_stopping=self._register.is_stopping,
            jobs=tuple(map(job_status, states)),
            removed=tuple(job_status(state) for state in everyone if state.is_removed),
            pools=tuple(
                pool_status(slots, waiting[name], self._parts.timekeeper.reading())
                for name, slots in self._register.pools.items()
                if name in self._pools or slots.is_in_use
            ),
            troubles=tuple(troubles),
            tasks=self._tasks.counts(),
            awaited=tuple(active.run.id for active in awaited),
        )

    def trigger(
        self, name: str, *, is_forced: bool, then: Callable[[ActiveRun], None]
    ) -> ActiveRun:
        """Run a job now. ``then`` gets the run once it is claimed.

        Raises UnknownNameError, or RequestRefusedError where the overlap policy or a stopping
        daemon stands against it.
        """
        state = self._state(name)
        if state.is_removed:
            message = f"job {name} is not run: it was removed from the crontab"
            raise RequestRefusedError(message)
        if self._register.is_stopping:
            message = f"job {name} is not run: pycron is stopping"
            raise RequestRefusedError(message)
        why_not = None if is_forced else self._admitter.refuses(state, Cause.MANUAL)
        if why_not:
            message = f"job {name} is not run, {why_not}; use --force to run it all the same"
            raise RequestRefusedError(message)
        now = self._parts.timekeeper.now()
        due = now if state.last_manual is None else max(now, state.last_manual + TICK)
        while self._chains.is_due(name, due):
            due += TICK  # that instant is an occurrence's, and a run's identity is its own
        state.last_manual = due
        active = self._admitter.admit(state, due, Cause.MANUAL, is_forced=is_forced)
        assert active is not None  # noqa: S101 - refused above
        self._parts.outbox.then(lambda: then(active))
        return active

    def cancel_run(self, run_id: int) -> Cancelled:
        """Cancel one run. Raises UnknownNameError where it has an outcome or never was."""
        active = self._register.runs.get(run_id) or self._parking.recall(run_id)
        if active is None:
            raise self._no_run(run_id)
        return self._cancel([active])[0]

    def cancel_job(self, name: str) -> list[Cancelled]:
        """Cancel every run of a job that has no outcome yet. Raises UnknownNameError."""
        state = self._state(name)
        return self._cancel([*state.queued, *state.active])

    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Enter tasks, all or none; due instants are readings of the wall clock, there and back.

        Raises LedgerError, or RequestRefusedError where the daemon is stopping.
        """
        if self._register.is_stopping:
            raise RequestRefusedError("nothing is submitted: pycron is stopping")
        self._tasks.begin_attending()
        self._flush(is_urgent=True)  # instants of elapsed time count from the cursor of tasks
        if not self._parts.outbox.is_empty:
            message = f"nothing is submitted: {self._ledger_trouble or 'the ledger is not written'}"
            raise LedgerError(message)
        return self._tasks.submit(tasks)

    def cancel_task(self, task_id: int) -> list[Cancelled]:
        """Cancel a task: what is to come of it, and its runs that have no outcome yet.

        What was to come is the first of the answer, with 0 for a run. Raises UnknownNameError
        where there is nothing to cancel, and LedgerError.
        """
        name = task_job(task_id)
        pending = []
        if self._tasks.cancel(task_id, _ON_REQUEST):
            pending.append(Cancelled(0, name, "pending", ending=False))
            self._retention.forget_task(name)
        state = self._register.tasks.get(name)
        runs = []
        if state is not None:
            state.is_over = True
            runs = [*state.queued, *state.active]
        elif not pending:
            runs = self._parking.recall_of(name)
        if not pending and not runs:
            task = self._ledger.task(task_id)
            if task is None:
                raise UnknownNameError(f"there is no task {task_id}")
            raise EndedAlreadyError(f"task {task_id} has ended already")
        return self._cancel(runs, pending)

    def on_end(self, run_id: int, callback: Callable[[Run], None]) -> None:
        """Call back with the run once it has its outcome. Raises UnknownNameError."""
        active = self._register.runs.get(run_id)
        if active is not None:
            active.on_end.append(callback)
            return
        run = self._ledger.run(run_id)
        if run is None:
            raise self._no_run(run_id)
        if run.outcome is not None:
            callback(run)
            return
        if self._parking.is_parked(run):
            self._parking.call_at_end(run_id, callback)
            return
        # It has its outcome, which the ledger could not take yet.
        self._parts.then_ask(lambda: callback(self._ledger.run(run_id) or run))

    def forget_end(self, run_id: int, callback: Callable[[Run], None]) -> None:
        """Do not call back any more; nobody waits."""
        active = self._register.runs.get(run_id)
        if active is not None and callback in active.on_end:
            active.on_end.remove(callback)
        self._parking.forget_end(run_id, callback)

    def _cancel(self, runs: list[ActiveRun], pending: Sequence[Cancelled] = ()) -> list[Cancelled]:
        """Cancel runs, beside what is ``pending``; answer once that is in the ledger.

        Raises RequestRefusedError where it cannot be entered now; the runs are ended all the same.
        """
        if not all(active.is_claimed for active in runs):
            self._flush(is_urgent=True)  # else it could not be noted of them that they are ended
        ended = [
            (active, active.run.state.value, self._stopper.cancel(active, _ON_REQUEST))
            for active in runs
            if active.stage is not Stage.ENDED
        ]
        self._flush(is_urgent=True)
        cancelled = [*pending]
        for active, was, is_ending in ended:  # by now all of them have their ids
            kill_after = active.job.kill_after
            run_id, job = active.run.id, active.job.name
            cancelled.append(
                Cancelled(run_id, job, was, is_ending, kill_after, active.is_taken_over)
            )
        if cancelled and not self._parts.outbox.is_empty:
            message = (
                f"{self._ledger_trouble or 'the ledger cannot be written'}; what runs is being "
                "ended, but a restart of pycron before that is over may not know of it"
            )
            raise RequestRefusedError(message)
        return cancelled

    def _state(self, name: str) -> JobState:
        state = self._register.states.get(name)
        if state is None or (state.is_removed and not state.active):
            message = f"there is no job named {name!r} in the crontab in force"
            raise UnknownNameError(message)
        return state

    def _no_run(self, run_id: int) -> UnknownNameError:
        """Return why there is no run to be ended or waited for."""
        run = self._ledger.run(run_id)
        if run is None:
            return UnknownNameError(f"there is no run {run_id}")
        how = ", which the ledger could not take yet"
        if run.outcome is not None:
            how = f": {'; '.join(filter(None, (run.outcome, run.reason)))}"
        return EndedAlreadyError(f"run {run_id} of {run.job} has ended already{how}")


@contextmanager
def _outliving(
    what: str, *, but: type[Exception] | None = None, **values: object
) -> Iterator[None]:
    """Log what goes wrong and go on: the boundary of one event. The engine outlives its faults."""
    try:
        yield
    except Exception as error:  # named above
        if but is not None and isinstance(error, but):
            raise
        log.exception(what, extra=fields(**{name: repr(value) for name, value in values.items()}))
