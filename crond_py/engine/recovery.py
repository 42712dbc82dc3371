"""What a restarted daemon does with the runs that its predecessor left without an outcome.

A process that still runs is found by the PYCRON_RUN_ID in its environment and adopted, so that
the overlap policy, timeouts and cancels hold for it as before.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from crond_py.crontab.model import Job, StartupTrigger
from crond_py.engine.admission import Admitter
from crond_py.engine.parts import Parts, Register, fields, log
from crond_py.engine.records import ActiveRun, JobState, Stage
from crond_py.engine.stopping import Stopper
from crond_py.model import Attempt, Cursor, Run, State
from crond_py.policy import Recovery, decide_recovery
from crond_py.ports import Survivor

CUT_SHORT = "pycron ended while it ran, and its process is gone; nobody saw how it ended"
NOT_SEEN = "pycron ended while it started; nobody knows whether it ran"

_ORDER = {State.RUNNING: 0, State.WAITING_RETRY: 1, State.QUEUED: 2}
"""What counts as active comes first, so that what waits finds it there."""


class Recoverer:
    """Goes through the open runs once, at the start."""

    def __init__(
        self, parts: Parts, register: Register, admitter: Admitter, stopper: Stopper
    ) -> None:
        self._parts = parts
        self._register = register
        self._admitter = admitter
        self._stopper = stopper

    def recover(self, open_runs: Iterable[Run], identity: str) -> None:
        """Adopt, requeue or close every open run; runs with a process come first."""
        runs = sorted(open_runs, key=lambda run: (_ORDER[run.state], run.id))
        if not runs:
            return
        survivors = {
            (survivor.tag, survivor.attempt): survivor
            for survivor in self._parts.processes.survivors(identity)
            if survivor.leader
        }
        for run in runs:
            number = run.attempts[-1].number if run.attempts else 0
            survivor = survivors.get((f"{identity}-{run.id}", number))
            self._recover(run, survivor)

    def _recover(self, run: Run, survivor: Survivor | None) -> None:
        state = self._register.states.get(run.job)
        job_exists = state is not None and not state.is_removed
        job = state.job if state is not None else _unknown_job(run.job)
        active = ActiveRun(job, run, Stage.SLOT, run.attempts[-1] if run.attempts else None)
        recovery = decide_recovery(
            run.state,
            survives=survivor is not None and self._adopt(active, survivor),
            is_cancelled=_is_cancelled(run),
            on_crash=job.on_crash,
            job_exists=job_exists,
        )
        if state is None:
            state = self._leftover_state(job, run)
        log.log(
            logging.INFO if recovery in {Recovery.ADOPT, Recovery.REQUEUE} else logging.WARNING,
            "run of an earlier pycron: %s",
            recovery,
            extra=fields(job=run.job, run=run.id, due=run.due),
        )
        self._admitter.resume(state, active, recovery, _how_lost(active))
        if recovery is Recovery.ADOPT and _is_cancelled(run):
            self._stopper.cancel(active, run.reason)

    def _adopt(self, active: ActiveRun, survivor: Survivor) -> bool:
        attempt = active.attempt
        if attempt is None:
            return False
        if attempt.start_ticks is not None and attempt.start_ticks != survivor.start_ticks:
            return False
        spec = self._parts.specify(active.job, active.run, attempt.number)
        if not self._parts.processes.adopt(spec, survivor):
            return False
        active.attempt = replace(
            attempt,
            pid=survivor.pid,
            start_ticks=survivor.start_ticks,
            started_at=attempt.started_at or self._started_at(attempt, survivor),
        )
        return True

    def _started_at(self, attempt: Attempt, survivor: Survivor) -> datetime:
        """Return when a process began whose start the ledger missed, as well as can be told."""
        timekeeper = self._parts.timekeeper
        return max(attempt.begun_at, timekeeper.now() - timekeeper.age(survivor.start_ticks))

    def _leftover_state(self, job: Job, run: Run) -> JobState:
        """Keep a removed job's runs under its name, so that they are seen and can be cancelled."""
        cursor = Cursor(job.name, "removed", run.era, run.due, run.due)
        state = JobState(job, cursor, is_removed=True)
        self._register.states[job.name] = state
        return state


def _unknown_job(name: str) -> Job:
    return Job(name, StartupTrigger(), command=(), enabled=False)


def _is_cancelled(run: Run) -> bool:
    """Whether the run was being cancelled: a running one has a reason only then."""
    return run.state is State.RUNNING and bool(run.reason)


def _how_lost(active: ActiveRun) -> str:
    was_seen = active.attempt is not None and active.attempt.pid is not None
    return CUT_SHORT if was_seen else NOT_SEEN
