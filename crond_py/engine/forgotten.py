"""Runs of which the ledger has lost what came last: what is to be thought of them.

A ledger that lost its newest records (``ports.Gap``) shows runs as they were before, and others
not at all. Whatever may have begun is taken for begun: it is adopted where it still runs, and else
lost, or run again where its job asks for that; it is never simply started.

Not responsible for occurrences that have no run (see ``agenda``), nor for what becomes of the runs
that are told of here (see ``recovery``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from crond_py.crontab.model import AfterTrigger
from crond_py.engine.eras import Eras
from crond_py.engine.parts import Parts, Register
from crond_py.engine.telling import fields, log
from crond_py.model import Attempt, Cause, Cursor, Run, State
from crond_py.policy import TICK
from crond_py.ports import Claim, Gap, LedgerReader, RunQuery, SetAttempt, SetRun, Survivor

Survivors = Mapping[tuple[str, int], Sequence[Survivor]]
"""By the tag and the attempt that they show."""


class Forgotten:
    """Tells of the open runs that there are, or may be, beside what the ledger has of them."""

    def __init__(self, parts: Parts, register: Register, ledger: LedgerReader, gap: Gap) -> None:
        self._parts = parts
        self._register = register
        self._ledger = ledger
        self._gap = gap
        self._now = parts.timekeeper.now()
        self._after = {
            name: state.job.trigger
            for name, state in register.states.items()
            if isinstance(state.job.trigger, AfterTrigger)
        }
        self._eras = Eras(self._after, register.states)

    def runs(
        self, open_runs: Iterable[Run], survivors: Survivors, cursors: Mapping[str, Cursor]
    ) -> list[Run]:
        """Return the open runs as they may stand by now, and those that only processes show."""
        newest = self._newest_attempts(survivors)
        runs = [self._as_it_may_stand(run, newest) for run in open_runs]
        known = {run.id for run in runs}
        for run_id in sorted(newest.keys() - known):
            found = survivors[f"{self._ledger.identity}-{run_id}", newest[run_id]]
            run = self._unknown(run_id, newest[run_id], found, cursors)
            if run is not None:
                runs.append(run)
        return runs

    def _newest_attempts(self, survivors: Survivors) -> dict[int, int]:
        """Return, by the number of the run, the newest attempt of which a process lives."""
        newest: dict[int, int] = {}
        for (tag, attempt), found in survivors.items():
            number = tag.rpartition("-")[2]
            if found and number.isascii() and number.isdigit() and int(number) <= self._gap.last_id:
                newest[int(number)] = max(attempt, newest.get(int(number), 0))
        return newest

    def _as_it_may_stand(self, run: Run, newest: Mapping[int, int]) -> Run:
        """Return a known run with the attempt that nobody knows to have begun, where one may."""
        number = run.attempts[-1].number if run.attempts else 0
        if newest.get(run.id, 0) > number:
            return self._begun(run, newest[run.id])
        return run if run.state is State.RUNNING else self._begun(run, number + 1)

    def _begun(self, run: Run, number: int) -> Run:
        """Return a run of which that attempt has begun, and have the ledger know it."""
        attempt = Attempt(number, begun_at=max(run.claimed_at, run.retry_at or run.claimed_at))
        self._parts.outbox.write(SetRun(run.id, State.RUNNING), SetAttempt(run.id, attempt))
        attempts = (*run.attempts, attempt)
        return replace(run, state=State.RUNNING, retry_at=None, left_as=None, attempts=attempts)

    def _unknown(
        self,
        run_id: int,
        number: int,
        survivors: Sequence[Survivor],
        cursors: Mapping[str, Cursor],
    ) -> Run | None:
        """Enter a run that only its processes show; None where it is no open run.

        It is one as long as the process lives that was started for it, or one that looks so.
        """
        if self._ledger.run(run_id) is not None:
            return None  # it has ended, and left them
        leader = next((each for each in survivors if each.leader), None)
        origin = self._parts.processes.origin(leader) if leader is not None else None
        if origin is None or not origin[0]:
            self._tell("processes of a run that the ledger has forgotten", run_id, survivors)
            return None
        job, due = origin
        state = self._register.states.get(job)
        cursor = state.cursor if state is not None else cursors.get(job)
        era = cursor.era if cursor is not None else 0
        cause = Cause.SCHEDULE
        if job in self._after:  # what it follows is lost; its cycle may have been the newest
            era, cause = self._eras.newest(job), Cause.UPSTREAM
        if self._has_row(job, era, due):
            self._tell("processes of a run whose occurrence has another", run_id, survivors)
            return None
        self._tell("run taken up that the ledger has forgotten", run_id, survivors, job)
        attempt = Attempt(number, begun_at=self._now)
        claim = Claim(
            job,
            era,
            due,
            cause,
            State.RUNNING,
            self._now,
            attempt=attempt,
            run_id=run_id,
        )
        self._parts.outbox.claim(claim, lambda _: None)
        return Run(run_id, job, era, due, claim.cause, claim.state, self._now, attempts=(attempt,))

    def _has_row(self, job: str, era: int, due: datetime) -> bool:
        query = RunQuery(job=job, since=due, until=due + TICK, limit=None)
        return any(run.due == due and run.era == era for run in self._ledger.runs(query))

    def _tell(
        self, text: str, run_id: int, survivors: Sequence[Survivor], job: str | None = None
    ) -> None:
        pids = ", ".join(str(survivor.pid) for survivor in survivors[:3])
        log.log(logging.WARNING, text, extra=fields(job=job, run=run_id, pids=pids))
