"""Signals to the processes of runs: first noted in the ledger, then sent, in the end with force."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from crond_py.engine.events import KillDue
from crond_py.engine.parts import Parts
from crond_py.engine.records import ActiveRun, Stage
from crond_py.model import State
from crond_py.ports import AttemptKey, SetAttempt, SetRun


class Signals:
    """Asks process trees to end, as each run's ``stop`` says."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def note(self, active: ActiveRun) -> None:
        """Enter that an attempt is being ended: a restart goes on with that, and not with it."""
        stop, attempt = active.stop, active.attempt
        if stop is None or attempt is None or not active.is_claimed:
            return
        noted = replace(attempt, stopping=stop.outcome)
        if not active.has_rest:
            noted = replace(noted, reason=stop.reason)
        if noted != attempt:
            active.attempt = noted
            if active.has_rest:  # its own reason stays; that of the stop is the run's
                self._parts.outbox.write(SetRun(active.run.id, State.RUNNING, reason=stop.reason))
            self._parts.outbox.write(SetAttempt(active.run.id, noted), durable=True)

    def send(self, active: ActiveRun) -> None:
        """Ask the process tree to end, or kill it, once that it is being ended is in the ledger.

        Where that cannot be had it is ended all the same.
        """
        self._parts.outbox.then_in_any_case(partial(self._send, active, active.key))

    def _send(self, active: ActiveRun, key: AttemptKey) -> None:
        stop = active.stop
        if stop is None or active.key != key or active.stage not in {Stage.STARTING, Stage.RUNNING}:
            return
        if active.has_rest:
            self._parts.processes.end_rest(self._parts.spec_of(active), force=stop.is_forced)
        else:
            self._parts.processes.stop(active.key, force=stop.is_forced)
        if not stop.is_forced and active.kill_timer is None:
            active.kill_timer = self._parts.timers.call_at(
                self._parts.timekeeper.after(active.job.kill_after),
                KillDue(active, active.attempt_number),
            )
