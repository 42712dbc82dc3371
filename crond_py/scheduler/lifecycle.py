"""The life of tasks: due, queued, running, retried, over; one state machine under one lock.

Three kinds of threads come in here: the dispatcher's with what is due, the workers' before and
after they call a task, and the callers' of the public methods. Each takes the lock for a moment;
no task is ever called under it.

Locks are taken in one order: this one, then those of the heap and of the workers.
"""

from __future__ import annotations

import atexit
import logging
import random
import threading
from datetime import datetime
from typing import cast

from crond_py.clock import SystemClock, to_ns, wall_offset_ns
from crond_py.clockwatch import STEP_TOLERANCE_NS, ClockWatch
from crond_py.dispatcher import Dispatcher, Entry
from crond_py.errors import SchedulerShutdownError
from crond_py.model import Cause, Outcome, State
from crond_py.policy import Admission, Load, decide_overlap, retry_delay, wants_retry
from crond_py.ports import Clock
from crond_py.scheduler.task import Record, Run
from crond_py.scheduler.triggers import Moment, Never
from crond_py.scheduler.workers import Workers

log = logging.getLogger("pycron.scheduler")

_open: set[Lifecycle] = set()
"""Every lifecycle whose threads live; they are closed before the interpreter ends."""


class Lifecycle:
    """All tasks of one scheduler, and the threads that serve them."""

    def __init__(self, clock: Clock, workers: int, name: str) -> None:
        # Reentrant, so that a log handler may schedule and cancel.
        self.lock = threading.RLock()
        self._clock = clock
        self._records: set[Record] = set()
        self._is_closed = False
        self._offset_ns = wall_offset_ns(clock)
        self._dispatcher = Dispatcher(clock, self._deliver, name=f"{name}-dispatcher")
        self._workers = Workers(workers, self._work, name=f"{name}-worker")
        self._watch: ClockWatch | None = None
        if isinstance(clock, SystemClock):
            # Any other clock is the owner's, who also knows when it is set.
            self._watch = ClockWatch(clock, self.clock_changed)

    # --- what callers ask -----------------------------------------------------------------

    def moment(self) -> Moment:
        """Read the clocks."""
        return Moment(self._clock.monotonic_ns(), self._offset_ns)

    def wall_moment(self) -> Moment:
        """Read the clocks, the wall clock as it is set now; from now on its changes are noticed."""
        with self.lock:
            self._start()
            self._notice_step()
            return self.moment()

    def add(self, record: Record) -> None:
        """Take a task in and put it on the heap."""
        with self.lock:
            self._start()
            self._records.add(record)
            self._arm(record)

    def cancel(self, record: Record) -> bool:
        """Take back all that is to come of a task; say whether there was anything."""
        with self.lock:
            return self._cancel(record)

    def next_due(self, record: Record) -> datetime | None:
        """Return when a task is next due by the wall clock."""
        with self.lock:
            moment = self.moment()
            deadline_ns = None if record.is_cancelled else record.trigger.deadline_ns(moment)
            return None if deadline_ns is None else moment.wall_at(deadline_ns)

    def wait_for(self, record: Record, timeout: float | None, runs: int | None) -> bool:
        """Wait until a task is over, or so many of its runs have ended."""
        with self.lock:
            if record.changed is None:
                record.changed = threading.Condition(self.lock)
            record.changed.wait_for(
                lambda: record.is_over or (runs is not None and record.runs >= runs), timeout
            )
            return record.is_over if runs is None else record.runs >= runs

    def clock_changed(self) -> None:
        """Work out every wall-clock deadline again if the wall clock was set."""
        self._notice_step()
        self._dispatcher.recheck()

    def close(self, *, cancel_pending: bool) -> None:
        """Take no more tasks, and let go of those that are not to be waited for."""
        with self.lock:
            self._is_closed = True
            for record in list(self._records):
                if cancel_pending:
                    self._cancel(record)
                elif record.trigger.repeats:
                    self._disarm(record)
                    record.trigger = Never()
                    self._settle(record)
            if not self._records:
                self._end()

    def wait_closed(self) -> None:
        """Wait, after ``close``, until the last task is over and the threads have ended.

        A caller that runs in a worker would wait for itself: it does not wait.
        """
        if self._workers.is_current_thread():
            return
        self._dispatcher.wait()  # it is stopped when the last task is over
        self._workers.wait()
        if self._watch is not None:
            self._watch.wait()

    def _start(self) -> None:
        if self._is_closed:
            raise SchedulerShutdownError("the scheduler has been shut down and takes no more tasks")
        self._dispatcher.start()
        if self._watch is not None:
            # Also where no task looks at the wall clock: a suspend makes every wait too long.
            self._watch.start()
        _open.add(self)

    def _end(self) -> None:
        self._dispatcher.stop()
        self._workers.stop()
        if self._watch is not None:
            self._watch.stop()
        _open.discard(self)

    # --- due ------------------------------------------------------------------------------

    def _deliver(self, items: list[object], popped_ns: int) -> None:
        self._notice_step()
        for item in items:
            # Let go in between, so that the first can start while the last is still looked at.
            with self.lock:
                if isinstance(item, Run):
                    self._retry(item)
                else:
                    self._take(cast("Record", item), popped_ns)

    def _take(self, record: Record, popped_ns: int) -> None:
        record.timer = None
        if record.is_cancelled:
            return
        number = 0
        try:
            number = record.trigger.take(Moment(popped_ns, self._offset_ns))
        except Exception as error:  # noqa: BLE001 - one dispatch; logged there
            self._give_up(record, error)
        cause = Cause.CATCH_UP if number > 1 else Cause.SCHEDULE
        for _ in range(number):
            self._admit(record, cause)
        self._arm(record)
        self._settle(record)

    def _admit(self, record: Record, cause: Cause) -> None:
        load = Load(len(record.active), record.backlog)
        settings = record.settings
        decision = decide_overlap(
            settings.overlap, cause, load, queue_limit=settings.queue_limit, max_running=None
        )
        if decision.admission is Admission.START:
            self._begin(record)
        elif decision.admission is Admission.QUEUE:
            record.backlog += 1
        else:
            record.skipped += 1
            log.info("task %r skips a turn: %s", record.settings.name, decision.code)

    def _begin(self, record: Record) -> None:
        run = Run(record)
        record.active.append(run)
        self._queue(run)

    def _retry(self, run: Run) -> None:
        if run.state is State.WAITING_RETRY:
            self._queue(run)

    def _queue(self, run: Run) -> None:
        run.state = State.QUEUED
        try:
            run.timer = self._workers.put(run, priority=run.record.settings.priority)
        except RuntimeError as error:
            log.exception("task %r could not be run", run.record.settings.name)
            run.attempt += 1
            self._ended(run, None, error)

    # --- running --------------------------------------------------------------------------

    def _work(self, run: Run) -> None:
        """Call a task; in a worker's thread."""
        record = run.record
        with self.lock:
            if run.state is not State.QUEUED:
                return  # cancelled just now
            run.state = State.RUNNING
            run.attempt += 1
            run.timer = None
        result, failure = None, None
        try:
            result = record.call()
        except BaseException as error:
            # The boundary of one run. SystemExit and KeyboardInterrupt too: here they end no
            # program, and must not end a worker without a word.
            log.exception(
                "task %r failed, attempt %d of %d",
                record.settings.name,
                run.attempt,
                record.settings.retry.attempts,
            )
            # Kept without this frame, which would keep the task alive through its own error.
            failure = error.with_traceback(error.__traceback__ and error.__traceback__.tb_next)
        with self.lock:
            self._ended(run, result, failure)

    def _ended(self, run: Run, result: object, failure: BaseException | None) -> None:
        record = run.record
        record.last_result, record.last_error = result, failure
        if failure is not None and self._wants_retry(run):
            self._wait_for_retry(run)
        else:
            record.runs += 1
            record.failures += failure is not None
            self._remove(run)
            self._go_on(record)
        self._settle(record)

    def _wants_retry(self, run: Run) -> bool:
        is_cancelled = run.record.is_cancelled
        return not is_cancelled and wants_retry(
            Outcome.FAILED, run.attempt, run.record.settings.retry
        )

    def _wait_for_retry(self, run: Run) -> None:
        fraction = random.random()  # noqa: S311 - it spreads load, it guards nothing
        delay = retry_delay(run.record.settings.retry, run.attempt, fraction)
        run.state = State.WAITING_RETRY
        run.timer = self._dispatcher.call_at(
            self._clock.monotonic_ns() + to_ns(delay),
            run,
            priority=run.record.settings.priority,
        )

    def _go_on(self, record: Record) -> None:
        """Start what waited for a run to end."""
        if record.active or record.is_cancelled:
            return
        if record.backlog:
            record.backlog -= 1
            self._begin(record)
        else:
            record.trigger.run_ended(self._clock.monotonic_ns())
            self._arm(record)

    # --- cancelled ------------------------------------------------------------------------

    def _cancel(self, record: Record) -> bool:
        if record.is_cancelled:
            return False
        found = bool(record.backlog) or not record.trigger.is_exhausted
        self._disarm(record)
        record.backlog = 0
        for run in list(record.active):
            if run.state is State.RUNNING:
                found |= run.attempt < record.settings.retry.attempts
            else:
                found = True
                self._drop(run)
        record.is_cancelled = found
        self._settle(record)
        return found

    def _drop(self, run: Run) -> None:
        """Take back a run that waits for a worker or a retry."""
        if isinstance(run.timer, Entry):
            if run.state is State.QUEUED:
                self._workers.cancel(run.timer)
            else:
                self._dispatcher.cancel(run.timer)
        self._remove(run)

    # --- small steps ----------------------------------------------------------------------

    def _arm(self, record: Record) -> None:
        if record.timer is not None or record.is_cancelled:
            return
        deadline_ns = record.trigger.deadline_ns(self.moment())
        if deadline_ns is not None:
            record.timer = self._dispatcher.call_at(
                deadline_ns, record, priority=record.settings.priority
            )

    def _disarm(self, record: Record) -> None:
        """Take a task off the heap, for good: one that is being delivered finds itself stopped."""
        if record.timer is not None:
            self._dispatcher.cancel(record.timer)
            record.timer = None

    def _remove(self, run: Run) -> None:
        run.state, run.timer = State.DONE, None
        run.record.active.remove(run)

    def _settle(self, record: Record) -> None:
        """Tell who waits for a task that it has moved on; forget it when it is over."""
        if record.changed is not None:
            record.changed.notify_all()
        if not record.is_over:
            return
        self._records.discard(record)
        if self._is_closed and not self._records:
            self._end()

    def _notice_step(self) -> None:
        """Adopt what the wall clock shows now, and follow it if it was set."""
        offset_ns = wall_offset_ns(self._clock)
        with self.lock:
            step_ns = offset_ns - self._offset_ns
            if abs(step_ns) < STEP_TOLERANCE_NS:
                return
            self._offset_ns = offset_ns
            log.info("the wall clock was set by %+.3f s", step_ns / 1e9)
            for record in list(self._records):
                self._follow_clock(record)

    def _follow_clock(self, record: Record) -> None:
        if record.timer is None or not self._dispatcher.cancel(record.timer):
            return  # being delivered: its trigger will look at the clock itself
        record.timer = None
        try:
            record.trigger.clock_set(self.moment())
        except Exception as error:  # noqa: BLE001 - one dispatch; logged there
            self._give_up(record, error)
        self._arm(record)
        self._settle(record)

    def _give_up(self, record: Record, error: Exception) -> None:
        """Take a task off whose schedule failed; the others go on."""
        record.trigger = Never()
        record.last_error = error
        log.error(
            "task %r will not run again, its schedule failed", record.settings.name, exc_info=error
        )


def _close_all() -> None:
    """Let running tasks end before the interpreter does, as the standard library's pools do."""
    lifecycles = list(_open)
    for lifecycle in lifecycles:
        lifecycle.close(cancel_pending=True)
    for lifecycle in lifecycles:
        lifecycle.wait_closed()


atexit.register(_close_all)
