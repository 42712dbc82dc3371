"""Runs of submitted tasks that wait long for their retry: they do so in the ledger.

Failed tasks may be very many, and to hold some back would hold back others that are good. So of
those that have a long delay before them only a few stay in memory. Of each of the others is kept
when its retry is due (``parked``), and once it is, it is taken up again as it would be after a
restart: as the ledger has it, and by the crontab in force. That is done as far as runs of its lane
may wait in memory, before tasks of the lane that have not begun, as they were due later.

A run is parked when the ledger has all of it, and so it is not parked of which something is yet to
be written. A crash changes nothing: for the ledger it is a run like others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from functools import partial
from itertools import islice
from typing import Protocol

from crond_py.clock import to_ns
from crond_py.engine.attempts import Attempts
from crond_py.engine.lanes import LaneState
from crond_py.engine.parts import Parts, Register
from crond_py.engine.records import ActiveRun, JobState, Stage
from crond_py.engine.recovery import active_run, enter_removed
from crond_py.engine.stopping import Stopper
from crond_py.engine.telling import fields, log
from crond_py.model import Lane, Run, State, Task, task_id_of
from crond_py.ports import Ledger, RunQuery, WaitingRetry


class Lanes(Protocol):
    """What is known of the lanes, and of the tasks in them."""

    def lane(self, lane: Lane) -> LaneState:
        """Return a lane, which is begun if need be."""
        ...

    def arm(self, lane: LaneState) -> None:
        """Wait for what is due first of a lane."""
        ...

    def let_go(self, lane: LaneState) -> None:
        """Forget a lane that has nothing left."""
        ...

    def watch(self, lane: LaneState, active: ActiveRun) -> None:
        """Count a run of a lane for as long as it waits for a slot."""
        ...

    def enter_job(self, task: Task | None, run: Run) -> str:
        """Enter the job of a task's run; else return why it cannot be."""
        ...


class Parking:
    """Lets go of runs, and takes them up again.

    ``lanes`` is set before anything else is done. ``_kept`` are the runs that may stay in memory;
    some may have gone since.
    """

    lanes: Lanes

    def __init__(
        self,
        parts: Parts,
        register: Register,
        attempts: Attempts,
        stopper: Stopper,
        ledger: Ledger,
    ) -> None:
        self._parts = parts
        self._register = register
        self._attempts = attempts
        self._stopper = stopper
        self._ledger = ledger
        self._kept: set[int] = set()
        self._awaited: dict[int, list[Callable[[Run], None]]] = {}
        self._last_left = 0
        register.on_retry = self.consider

    # --- letting go -----------------------------------------------------------------------

    def consider(self, active: ActiveRun, deadline_ns: int) -> None:
        """Park a run that waits for its retry from now on, if it is one too many for memory."""
        state = self._register.tasks.get(active.job.name)
        if state is None or not state.is_once or not self._is_far(deadline_ns):
            return
        if not self._has_place(active.run.id):
            number = active.attempt_number
            self._parts.outbox.then(partial(self._park, active, number, deadline_ns))

    def begin(self, open_runs: Sequence[Run], retries: Sequence[WaitingRetry]) -> list[Run]:
        """Park what an earlier daemon has left that waits for its retry, but for a few runs.

        However soon a retry is due: after a long absence that of very many may be. Return all that
        is to be taken up: what else is open, and the few. Raises LedgerError.
        """
        ids = [*(run.id for run in open_runs), *(retry.run_id for retry in retries[-1:])]
        self._last_left = max(ids, default=0)
        now, most = self._parts.timekeeper.now(), self._parts.most_retries
        for retry in islice(retries, most, None):
            delay = min(max(retry.retry_at - now, timedelta(0)), retry.delay)
            lane = self.lanes.lane(retry.lane)
            lane.parked.add(self._parts.timekeeper.after(delay), retry.run_id)
        few = [self._ledger.run(retry.run_id) for retry in retries[:most]]
        self._kept.update(retry.run_id for retry in retries[:most])
        return [*open_runs, *(run for run in few if run is not None)]

    def _is_far(self, deadline_ns: int) -> bool:
        return deadline_ns - self._parts.timekeeper.reading() >= to_ns(self._parts.parks_from)

    def _has_place(self, run_id: int) -> bool:
        """Whether a run that waits long may do so in memory; it has its place then."""
        kept, most = self._kept, self._parts.most_retries
        if run_id not in kept and len(kept) >= most:
            self._kept = kept = {each for each in kept if self._waits(each)}
        if run_id not in kept and len(kept) >= most:
            return False
        kept.add(run_id)
        return True

    def _waits(self, run_id: int) -> bool:
        active = self._register.runs.get(run_id)
        return active is not None and active.stage is Stage.RETRY

    def _park(self, active: ActiveRun, number: int, deadline_ns: int) -> None:
        """Let go of a run that the ledger has, if it still waits for the retry after ``number``."""
        state = self._register.tasks.get(active.job.name)
        waits = active.stage is Stage.RETRY and active.attempt_number == number
        if not waits or active.lane is None or state is None or self._register.is_stopping:
            return
        if list(state.active) != [active] or state.queued:
            return
        self._parts.drop_timer(active, "wait_timer")
        active.stage = Stage.ENDED  # for whoever still has it
        if active.on_end:
            self._awaited[active.run.id] = active.on_end
        state.drop(active)
        self._register.let_go(state)
        del self._register.runs[active.run.id]
        lane = self.lanes.lane(active.lane)
        lane.parked.add(deadline_ns, active.run.id)
        if lane.parked.first_ns == deadline_ns:
            self.lanes.arm(lane)

    # --- taking up ------------------------------------------------------------------------

    def take_up_due(self, lane: LaneState, room: int) -> int:
        """Begin the retries of a lane that are due, at most ``room``, and return how many.

        Raises LedgerError; whatever was not begun then stays parked.
        """
        now_ns, number = self._parts.timekeeper.reading(), 0
        while number < room and (run_id := lane.parked.first_due(now_ns)) is not None:
            self._take_up(lane, run_id)
            number += 1
        return number

    def _take_up(self, lane: LaneState, run_id: int) -> None:
        run = self._ledger.run(run_id)
        if run is None or not self.is_parked(run):
            lane.parked.pop()
            self._awaited.pop(run_id, None)
            log.error(
                "the ledger has lost a run that waits for its retry", extra=fields(run=run_id)
            )
            return
        active, why = self._enter(run, self._task_of(run))
        lane.parked.pop()
        self.lanes.watch(lane, active)
        if why:
            self._stopper.cancel(active, why)
        else:
            self._attempts.retry_due(active)

    def recall(self, run_id: int) -> ActiveRun | None:
        """Take up a run that is to be ended; None: it is not parked. Raises LedgerError."""
        run = self._ledger.run(run_id)
        return self._recall(run) if run is not None and self.is_parked(run) else None

    def recall_of(self, job: str) -> list[ActiveRun]:
        """Take up the run of a task that is to be ended, if it is parked. Raises LedgerError."""
        runs = self._ledger.runs(RunQuery(job=job, states=frozenset({State.WAITING_RETRY})))
        return [self._recall(run) for run in runs if self.is_parked(run)]

    def _recall(self, run: Run) -> ActiveRun:
        task = self._task_of(run)
        active, _ = self._enter(run, task)
        if task is not None:
            lane = self.lanes.lane(task.lane)
            lane.parked.remove(run.id)
            self.lanes.watch(lane, active)
            self.lanes.arm(lane)
            self.lanes.let_go(lane)
        return active

    def is_parked(self, run: Run) -> bool:
        """Whether a run that stands so in the ledger is parked."""
        is_task = task_id_of(run.job) is not None
        is_in_memory = run.id in self._register.runs
        # One that has ended, which the ledger could not take yet, is in neither place.
        return (
            is_task
            and run.state is State.WAITING_RETRY
            and not is_in_memory
            and not self._parts.outbox.is_about(run.id)
        )

    def _task_of(self, run: Run) -> Task | None:
        task_id = task_id_of(run.job)
        return None if task_id is None else self._ledger.task(task_id)

    def _enter(self, run: Run, task: Task | None) -> tuple[ActiveRun, str]:
        """Have a run in memory that waits for its retry; say why it may not be begun, if so."""
        why = self.lanes.enter_job(task, run)
        if why:
            enter_removed(self._register, run, None)
        state = self._register.find(run.job)
        assert state is not None  # noqa: S101 - entered just before
        return self._in_memory(state, run), why

    def _in_memory(self, state: JobState, run: Run) -> ActiveRun:
        active = active_run(state.job, run)
        active.stage = Stage.RETRY
        # What was claimed since this daemon began has had all its attempts from it.
        active.is_taken_over = active.is_taken_over and run.id <= self._last_left
        active.on_end = self._awaited.pop(run.id, [])
        self._register.runs[run.id] = active
        state.take_up(active)
        return active

    # --- who waits ------------------------------------------------------------------------

    def call_at_end(self, run_id: int, callback: Callable[[Run], None]) -> None:
        """Call back once a parked run has its outcome."""
        self._awaited.setdefault(run_id, []).append(callback)

    def forget_end(self, run_id: int, callback: Callable[[Run], None]) -> None:
        """Do not call back any more; nobody waits."""
        callbacks = self._awaited.get(run_id, [])
        if callback in callbacks:
            callbacks.remove(callback)
        if not callbacks:
            self._awaited.pop(run_id, None)
