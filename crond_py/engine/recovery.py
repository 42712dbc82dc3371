"""What a restarted daemon does with the runs that its predecessor left without an outcome.

A process that still runs is found by the PYCRON_RUN_ID in its environment and adopted, so that
the overlap policy, timeouts and cancels hold for it as before. Where the process is gone and others
that it started live on, they are let be, or ended where the run was being ended or its job says so;
of a run that was being ended, those of its earlier attempts, too. What was held for an instant, and
not let go, has not begun: it is taken for recalled.
Where nobody knows which of the processes found is the run's own, it goes on as long as any of them.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from crond_py.crontab.model import Job, StartupTrigger
from crond_py.dataclass import dataclass
from crond_py.engine.admission import Admitter
from crond_py.engine.agenda import WAS_DOWN
from crond_py.engine.ahead import is_held
from crond_py.engine.attempts import Attempts
from crond_py.engine.forgotten import Forgotten
from crond_py.engine.parts import Parts, Register
from crond_py.engine.recalled import NOT_BEGUN, why_dropped
from crond_py.engine.records import REMOVED_JOBS, ActiveRun, JobState, Stage, Stop
from crond_py.engine.stopping import Stopper
from crond_py.engine.telling import fields, log
from crond_py.model import Attempt, Cause, Cursor, Left, OnCrash, Outcome, Run, State
from crond_py.policy import (
    MOST_RERUNS,
    Recovery,
    Remains,
    decide_recovery,
    retry_delay,
    wants_rerun,
)
from crond_py.ports import Ledger, ProcessSpec, SetAttempt, SetRun, Survivor

CUT_SHORT = "ended while pycron was away, nobody saw how"
NOT_SEEN = "pycron ended while it started; nobody knows whether it ran"
TAKEN_OVER = "taken over from a pycron that ended while it started; nobody saw how it ended"
FORGOTTEN = "the ledger has lost its newest records; nobody knows whether it ran"
TOO_OFTEN = f"a crash cut it short {MOST_RERUNS + 1} times, so it is not run again"

_MOST_NAMED = 3

_QUIET = frozenset({Recovery.ADOPT, Recovery.REQUEUE})
"""What is as it should be after a restart."""

_ORDER = {State.RUNNING: 0, State.WAITING_RETRY: 1, State.QUEUED: 2}
"""What counts as active comes first, so that what waits finds it there."""


_TURNS = (
    {Recovery.ADOPT, Recovery.ADOPT_REST, Recovery.END_REST},
    {Recovery.REQUEUE},
    {Recovery.RERUN},
    {Recovery.STOPPED, Recovery.LOST, Recovery.REMOVED},
)
"""In which order runs are taken up, see ``Recoverer.recover``."""


@dataclass(frozen=True, slots=True)
class _Found:
    """A run without an outcome, what is left of it, and what becomes of it."""

    state: JobState
    active: ActiveRun
    recovery: Recovery
    survivors: Sequence[Survivor]

    @property
    def turn(self) -> tuple[int, int]:
        """When it is taken up; a run that waits for its retry before those that wait for it."""
        if self.recovery is Recovery.REQUEUE and self.active.run.state is State.QUEUED:
            return 2, 1
        return next(turn for turn, kinds in enumerate(_TURNS) if self.recovery in kinds), 0

    @property
    def place(self) -> tuple[int, datetime]:
        """Which of one turn comes first: by priority, then by due."""
        return -self.active.job.priority, self.active.run.due


class Recoverer:
    """Goes through the open runs once, at the start."""

    def __init__(
        self,
        parts: Parts,
        register: Register,
        attempts: Attempts,
        admitter: Admitter,
        stopper: Stopper,
    ) -> None:
        self._parts = parts
        self._register = register
        self._attempts = attempts
        self._starter = attempts.starter
        self._admitter = admitter
        self._stopper = stopper
        self._not_seen = NOT_SEEN
        self._why_gone: dict[str, str] = {}  # by the job's name

    def recover(
        self, open_runs: Iterable[Run], ledger: Ledger, cursors: Mapping[str, Cursor]
    ) -> None:
        """Adopt, requeue or close every open run; ``cursors`` are those of all jobs ever.

        What survives is taken up before anything is started or given its outcome, which may start
        others: it counts for the overlap policy and has its slot. Of a ledger that has lost its
        newest records nothing is believed to wait that may have begun (``forgotten``).
        """
        runs, identity = list(open_runs), ledger.identity
        if not runs and ledger.gap is None:
            return
        survivors = defaultdict(list)
        for survivor in self._parts.processes.survivors(identity):
            survivors[survivor.tag, survivor.attempt].append(survivor)
        if ledger.gap is not None:
            self._not_seen = FORGOTTEN
            forgotten = Forgotten(self._parts, self._register, ledger, ledger.gap)
            runs = forgotten.runs(runs, survivors, cursors)
        else:
            runs = [self._as_it_was_claimed(run, survivors, identity) for run in runs]
        runs.sort(key=lambda run: (_ORDER[run.state], run.id))
        found = []
        for run in runs:
            if self._register.find(run.job) is None and (why := self._register.enter_task(run)):
                self._enter_removed(run, cursors.get(run.job), why)
            left = [
                each
                for number in _attempts_of_interest(run)
                for each in survivors[f"{identity}-{run.id}", number]
            ]
            found.append(self._find(run, left))
        for each in found:
            if each.recovery is Recovery.STOPPED:
                self._close_stopped(each)
        for each in sorted(found, key=lambda each: (each.turn, *each.place)):
            if each.active.stage is Stage.SLOT:  # else another has replaced it before its turn
                self._resume(each)

    def _as_it_was_claimed(
        self, run: Run, survivors: Mapping[tuple[str, int], Sequence[Survivor]], identity: str
    ) -> Run:
        """Return a run as one that was recalled if it was to be held, and was not let go."""
        if not _may_be_held(run, self._parts.process_era):
            return run
        (attempt,) = run.attempts
        until = self._parts.processes.let_go_until()
        if until is None or run.due <= until or survivors.get((f"{identity}-{run.id}", 1)):
            return run
        now = self._parts.timekeeper.now()
        recalled = replace(
            attempt,
            outcome=Outcome.CANCELLED,
            reason=NOT_BEGUN,
            finished_at=max(now, attempt.begun_at),
        )
        stands = SetRun(run.id, State.QUEUED, reason=NOT_BEGUN, left_as=Left.RECALLED)
        self._parts.outbox.write(stands, SetAttempt(run.id, recalled))
        return replace(
            run,
            state=State.QUEUED,
            reason=NOT_BEGUN,
            left_as=Left.RECALLED,
            attempts=(recalled,),
        )

    def _find(self, run: Run, survivors: Sequence[Survivor]) -> _Found:
        """Say what becomes of a run; what is left of its processes is watched from here on."""
        state = self._register.find(run.job)
        assert state is not None  # noqa: S101 - entered just before
        active = active_run(state.job, run)
        recovery = self._decide(active, survivors, job_exists=not state.is_removed)
        log.log(
            logging.INFO if recovery in _QUIET else logging.WARNING,
            "run of an earlier pycron: %s",
            recovery.replace("_", " "),
            extra=fields(job=run.job, run=run.id, due=run.due),
        )
        return _Found(state, active, recovery, survivors)

    def _decide(
        self, active: ActiveRun, survivors: Sequence[Survivor], *, job_exists: bool
    ) -> Recovery:
        """Say what becomes of a run; what is to be watched of it is watched from here on."""
        attempt, run = active.attempt, active.run
        is_running = run.state is State.RUNNING and attempt is not None
        was_left = self._was_left(active)
        spec = self._spec(active) if is_running else None
        remains = Remains.REST if survivors else Remains.NOTHING
        if spec is not None and self._adopt(active, spec, survivors):
            remains = Remains.LEADER

        def decide(remains: Remains) -> Recovery:
            return decide_recovery(
                run.state,
                remains=remains,
                was_seen=attempt is not None and attempt.pid is not None,
                stopping=_stopping(attempt),
                leftovers=active.job.leftovers,
                wants_rerun=wants_rerun(active.job.on_crash, active.lost + 1) and not was_left,
                job_exists=job_exists,
            )

        recovery = decide(remains)
        if spec is None:
            return recovery
        processes = self._parts.processes
        is_rest = recovery in {Recovery.ADOPT_REST, Recovery.END_REST}
        if is_rest and not processes.adopt_rest(spec, survivors):
            recovery = decide(Remains.NOTHING)
            is_rest = False
        if recovery is not Recovery.ADOPT and not is_rest:
            processes.settle(spec)
        return recovery

    def _was_left(self, active: ActiveRun) -> bool:
        """Whether a stop has left it to run on: if it is gone it has ended by itself.

        Unless the machine has, or the container.
        """
        attempt = active.attempt
        is_of_this_era = attempt is not None and attempt.boot_id == self._parts.process_era
        return active.run.left_as is Left.RUNNING and is_of_this_era

    def _spec(self, active: ActiveRun) -> ProcessSpec:
        """Return the specification of the present attempt, and name the output it has."""
        spec = self._parts.spec_of(active)
        if active.attempt is not None and spec.output is not None and not active.attempt.output:
            # Its start was not entered; there may be output all the same.
            active.attempt = replace(active.attempt, output=str(spec.output.path))
        return spec

    def _adopt(self, active: ActiveRun, spec: ProcessSpec, survivors: Sequence[Survivor]) -> bool:
        """Watch the attempt's own process, if it is there and known to be that."""
        attempt = active.attempt
        if attempt is None:
            return False
        leader = next((each for each in survivors if _is_the_same(attempt, each)), None)
        leader = leader or self._recorded(attempt, spec.tag)
        if leader is None:
            return False
        if not self._parts.processes.adopt(spec, leader):
            return False
        active.attempt = replace(
            attempt,
            pid=leader.pid,
            start_ticks=leader.start_ticks,
            started_at=attempt.started_at or self._started_at(attempt, leader),
        )
        return True

    def _recorded(self, attempt: Attempt, tag: str) -> Survivor | None:
        """Return the process that the ledger names, if it can be there; it may show no mark."""
        # Where nobody can tell the boot, the numbers may be those of an earlier one.
        is_of_this_era = self._parts.boot_id and attempt.boot_id == self._parts.process_era
        if attempt.pid is None or attempt.start_ticks is None or not is_of_this_era:
            return None
        return Survivor(tag, attempt.number, attempt.pid, attempt.start_ticks, leader=True)

    def _started_at(self, attempt: Attempt, survivor: Survivor) -> datetime:
        """Return when a process began whose start the ledger missed, as well as can be told."""
        timekeeper = self._parts.timekeeper
        return max(attempt.begun_at, timekeeper.now() - timekeeper.age(survivor.start_ticks))

    # --- going on -------------------------------------------------------------------------

    def _resume(self, found: _Found) -> None:
        """Go on with a run; ``active.run`` is as the ledger has it."""
        state, active, recovery = found.state, found.active, found.recovery
        self._register.take_back(state)  # a run of it may have had its outcome before this one
        now = self._parts.timekeeper.now()
        self._register.runs[active.run.id] = active
        match recovery:
            case Recovery.ADOPT | Recovery.ADOPT_REST | Recovery.END_REST:
                self._resume_what_lives(found)
            case Recovery.STOPPED:
                self._conclude_stopped(active)
            case Recovery.REQUEUE if active.run.state is State.WAITING_RETRY:
                state.take_up(active)
                self._attempts.set_retry(active, remaining_delay(active, now), now)
            case Recovery.REQUEUE:
                self._go_on_waiting(state, active, now)
            case Recovery.RERUN:
                reason = self._how_lost(active, found.survivors)
                self._attempts.close(active, Outcome.LOST, reason, None, now)
                self._admitter.wait_or_start(state, active)
            case Recovery.LOST:
                self._close_lost(found, now)
            case Recovery.REMOVED:
                self._stopper.cancel(active, self._why_gone[active.run.job])

    def _go_on_waiting(self, state: JobState, active: ActiveRun, now: datetime) -> None:
        """Let a run have its turn that had not begun; one that was recalled is perhaps missed.

        Not so one that a crash had cut short before: it is to be run again; nor one that follows
        others, which is due when those have ended.
        """
        is_planned = active.run.cause is Cause.SCHEDULE and active.attempt is None
        if is_planned and active.run.left_as is Left.RECALLED:
            why = why_dropped(state, active.run.due, now, self._parts.host)
            if why:
                state.put_behind(active)
                self._attempts.finish(active, Outcome.MISSED, f"{WAS_DOWN}; {why}")
                return
            if active.run.due <= now:  # it is not late but made up
                run = active.run = replace(active.run, cause=Cause.CATCH_UP, claimed_at=now)
                self._parts.outbox.write(
                    SetRun(
                        run.id, run.state, reason=run.reason, left_as=run.left_as, made_up_at=now
                    )
                )
        self._admitter.wait_or_start(state, active)

    def _resume_what_lives(self, found: _Found) -> None:
        """Watch what there is of an attempt, or end it where that is only what it has left."""
        active, is_to_end = found.active, found.recovery is Recovery.END_REST
        has_leader = found.recovery is Recovery.ADOPT
        if not has_leader:
            # Where its leader is watched, or what looks like it, no crash has cut it short.
            has_leader = not is_to_end and any(each.leader for each in found.survivors)
            active.how_lost = TAKEN_OVER if has_leader else self._how_lost(active)
            active.is_cut_short = not has_leader and not self._was_left(active)
        self._resume_process(found.state, active, found.survivors)
        if has_leader:  # else it has ended, and how it was left still counts
            self._stopper.take_back(active)
        elif is_to_end and active.stop is None:
            self._stopper.resume(active, Stop(Outcome.LOST, active.how_lost))

    def _resume_process(
        self, state: JobState, active: ActiveRun, survivors: Sequence[Survivor]
    ) -> None:
        """Let what is there of an attempt go on, and go on with ending it if that had begun."""
        active.stage = Stage.RUNNING
        state.take_up(active)
        self._register.slots(active.job).take(active)
        attempt = active.attempt
        assert attempt is not None  # noqa: S101 - it was adopted by it
        if attempt.started_at is None and not active.has_rest:
            first = min(survivors, key=lambda each: each.start_ticks)
            attempt = replace(attempt, started_at=self._started_at(attempt, first))
            active.attempt = attempt
        self._parts.outbox.write(SetAttempt(active.run.id, attempt))
        stopping = _stopping(attempt)
        if stopping is not None:
            reason = active.run.reason if active.has_rest else attempt.reason
            self._stopper.resume(active, Stop(stopping, reason))
        elif active.job.timeout is not None:
            began = attempt.start_ticks or min(each.start_ticks for each in survivors)
            used = self._parts.timekeeper.age(began)
            self._starter.set_timeout(active, max(active.job.timeout - used, timedelta(0)))

    def _close_lost(self, found: _Found, now: datetime) -> None:
        """End a run that nobody knows the end of, or that a crash cuts short time and again."""
        active = found.active
        reason = self._how_lost(active, found.survivors)
        self._attempts.close(active, Outcome.LOST, reason, None, now)
        if active.job.on_crash is OnCrash.RERUN and active.lost > MOST_RERUNS:
            reason = f"{reason}; {TOO_OFTEN}"
        self._attempts.finish(active, Outcome.LOST, reason)

    def _how_lost(self, active: ActiveRun, left: Sequence[Survivor] = ()) -> str:
        was_seen = active.attempt is not None and active.attempt.started_at is not None
        pids = ", ".join(str(survivor.pid) for survivor in left[:_MOST_NAMED])
        more = ", ..." if len(left) > _MOST_NAMED else ""
        note = f"; it has left processes running: {pids}{more}" if left else ""
        return (CUT_SHORT if was_seen else self._not_seen) + note

    def _close_stopped(self, found: _Found) -> None:
        """End an attempt that was being ended and is gone; until it is its turn the run counts."""
        active = found.active
        attempt = active.attempt
        assert attempt is not None  # noqa: S101 - it was being ended
        assert attempt.stopping is not None  # noqa: S101 - so the policy says
        reason = active.run.reason if active.has_rest else attempt.reason
        stop = active.stop = Stop(attempt.stopping, reason)
        if active.has_rest:
            self._attempts.close_rest(active)
        else:
            now = self._parts.timekeeper.now()
            self._attempts.close(active, stop.outcome, reason, None, now)
        found.state.take_up(active)
        self._register.runs[active.run.id] = active

    def _conclude_stopped(self, active: ActiveRun) -> None:
        stop = active.stop
        assert stop is not None  # noqa: S101 - it has been closed with it
        self._attempts.conclude(active, stop.outcome, stop.reason)

    def _enter_removed(self, run: Run, stored: Cursor | None, why: str) -> None:
        enter_removed(self._register, run, stored)
        self._why_gone[run.job] = why


def enter_removed(register: Register, run: Run, stored: Cursor | None) -> None:
    """Keep the runs of a job that is gone under its name, to be seen and to be cancelled.

    Its definition is gone, and with it the timeout; it takes nobody's slot.
    """
    job = Job(run.job, StartupTrigger(), command=(), enabled=False, pool=REMOVED_JOBS)
    cursor = stored or Cursor(job.name, "removed:", run.era, run.due, run.due)
    register.states[job.name] = JobState(job, cursor, is_removed=True)


def active_run(job: Job, run: Run) -> ActiveRun:
    """Return a run as it goes on from what the ledger has of it."""
    # One that was recalled never was, and is begun again with its number.
    attempts = run.attempts[:-1] if run.left_as is Left.RECALLED else run.attempts
    attempt = attempts[-1] if attempts else None
    # The present attempt, should it be found closed, is counted when it is closed again.
    lost = sum(each.outcome is Outcome.LOST for each in attempts[:-1])
    if attempt is not None and run.state is not State.RUNNING:
        lost += attempt.outcome is Outcome.LOST
    earlier_users = frozenset(each.user for each in attempts[:-1])
    return ActiveRun(
        job,
        run,
        Stage.SLOT,
        attempt,
        lost=lost,
        earlier_users=earlier_users,
        is_taken_over=bool(attempts),
    )


def _may_be_held(run: Run, process_era: str) -> bool:
    """Whether only its note can tell that a run's first start was not made, if anything can."""
    if run.state is not State.RUNNING or len(run.attempts) != 1:
        return False
    (attempt,) = run.attempts
    return (
        attempt.number == 1
        and attempt.boot_id == process_era
        and is_held(run.due, attempt.begun_at)
        and attempt.pid is None
        and attempt.started_at is None
        and attempt.stopping is None
        and attempt.outcome is None
    )


def _attempts_of_interest(run: Run) -> Iterable[int]:
    """Return which attempts' processes matter: the newest, and all of a run that is being ended."""
    if not run.attempts:
        return ()
    newest = run.attempts[-1]
    return range(1 if _stopping(newest) else newest.number, newest.number + 1)


def _is_the_same(attempt: Attempt, survivor: Survivor) -> bool:
    """Whether a survivor is surely the process that was started.

    A child that began a session of its own in the same clock tick looks the same but for its pid,
    and its exit status would be taken for the command's; so where the start was not entered nobody
    knows.
    """
    is_its_start = attempt.start_ticks in {None, survivor.start_ticks}
    return attempt.pid == survivor.pid and is_its_start


def _stopping(attempt: Attempt | None) -> Outcome | None:
    """Return what an attempt was being ended as; one that was lost was not, but its rest was."""
    stopping = attempt.stopping if attempt is not None else None
    return None if stopping is Outcome.LOST else stopping


def remaining_delay(active: ActiveRun, now: datetime) -> timedelta:
    """Return how long a retry has still to wait; never longer than the whole delay.

    The clock may have been set back while nobody was there to notice.
    """
    whole = retry_delay(active.job.retry, active.attempt_number, 1.0)
    retry_at = active.run.retry_at or now
    return min(max(retry_at - now, timedelta(0)), whole)
