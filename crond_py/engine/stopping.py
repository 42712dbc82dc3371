"""Stopping: a run is ended before its own end, by a cancel, its timeout, or ``start_within``."""

from __future__ import annotations

from dataclasses import replace

from crond_py.crontab.model import Job
from crond_py.engine.attempts import Attempts
from crond_py.engine.parts import Parts
from crond_py.engine.records import ActiveRun, Stage, Stop
from crond_py.engine.signals import Signals
from crond_py.engine.telling import short
from crond_py.model import Left, Outcome, State
from crond_py.ports import SetRun

LEFT_RUNNING = "left running when pycron was stopped"


class Stopper:
    """Asks processes to end, then insists; the outcome is entered when the tree is gone."""

    def __init__(self, parts: Parts, attempts: Attempts, signals: Signals) -> None:
        self._parts = parts
        self._attempts = attempts
        self._signals = signals

    def leave(self, active: ActiveRun) -> None:
        """Note of a run that is to be left to the next daemon that no crash has cut it short."""
        has_begun = active.attempt is not None and active.attempt.started_at is not None
        is_whole = has_begun and not active.is_cut_short
        if is_whole and active.is_to_be_left and active.run.left_as is not Left.RUNNING:
            active.run = replace(active.run, reason=LEFT_RUNNING, left_as=Left.RUNNING)
            self._parts.outbox.write(
                SetRun(active.run.id, State.RUNNING, reason=LEFT_RUNNING, left_as=Left.RUNNING)
            )

    def take_back(self, active: ActiveRun) -> None:
        """Note that a run which was left is in our care, as it still runs."""
        if active.run.left_as is Left.RUNNING:
            active.run = replace(active.run, reason="", left_as=None)
            self._parts.outbox.write(SetRun(active.run.id, State.RUNNING))

    def cancel(self, active: ActiveRun, reason: str, *, is_forced: bool = False) -> bool:
        """End a run as cancelled; True if its processes must end first.

        One that waits for its next attempt may have some, which its earlier ones have left.
        """
        stop = Stop(Outcome.CANCELLED, reason, is_forced)
        if active.stage not in {Stage.STARTING, Stage.RUNNING} and active.attempt is not None:
            self._attempts.turn_to_rest(active)
            active.stop = None  # how its last attempt was ended is over
        if active.stage in {Stage.STARTING, Stage.RUNNING}:
            self._stop_process(active, stop)
            return True
        if active.is_claimed:
            self._attempts.finish(active, stop.outcome, stop.reason, is_durable=True)
        else:
            active.stop = stop
        return False

    def resume(self, active: ActiveRun, stop: Stop) -> None:
        """Go on with ending an attempt that an earlier daemon had, or what is left of it."""
        self._stop_process(active, stop)

    def timeout_due(self, active: ActiveRun, attempt: int) -> None:
        """End an attempt that has run for too long."""
        if active.stage is not Stage.RUNNING or active.attempt_number != attempt or active.stop:
            return
        active.timeout_timer = None
        reason = f"timed out after {short(active.job.timeout)}"
        self._stop_process(active, Stop(Outcome.TIMED_OUT, reason))

    def kill_due(self, active: ActiveRun, attempt: int) -> None:
        """Kill what did not end when asked."""
        if active.stop is None or active.attempt_number != attempt:
            return
        active.kill_timer = None
        active.stop = replace(active.stop, is_forced=True)
        self._signals.send(active)

    def too_late_due(self, active: ActiveRun) -> None:
        """Give up a run that found no slot or predecessor in time."""
        active.wait_timer = None
        if active.stage not in {Stage.BEHIND, Stage.SLOT}:
            return
        self._attempts.starter.give_up(active)
        reason = too_late(active.job)
        if active.is_claimed:
            self._attempts.finish(active, Outcome.SKIPPED, reason)
        else:
            active.stop = Stop(Outcome.SKIPPED, reason)

    def _stop_process(self, active: ActiveRun, stop: Stop) -> None:
        before = active.stop
        has_ended = active.attempt is not None and active.attempt.exit is not None
        if before is not None and has_ended and before.outcome is Outcome.SUCCEEDED:
            # The command has done its work, and only what it left behind is being ended.
            stop = replace(before, is_forced=before.is_forced or stop.is_forced)
        elif before is not None:
            # A later request may be more urgent, and a cancel is the last word: no retry after it.
            first = before if before.outcome is Outcome.CANCELLED else stop
            stop = replace(first, is_forced=before.is_forced or stop.is_forced)
        active.stop = stop
        self._signals.note(active)
        must_signal = before is None or stop.is_forced != before.is_forced
        if must_signal:
            self._signals.send(active)  # also one that is being started: it may take long


def too_late(job: Job) -> str:
    """Return why a run of a job is skipped that could not begin soon enough."""
    return f"too_late: not started within {short(job.start_within)}"
