"""Dependencies: a job with ``after`` is due when the runs that it waits for have their outcomes.

A cycle is one due instant of the job at the head of a chain, and the runs that follow from it carry
that instant as their own ``due``. What is known of a cycle is kept in memory only where a job waits
for several others; after a restart it is read from the ledger again. The claim of such a run
is written together with the outcome that it follows from: a crash leaves both or neither.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from crond_py.crontab.model import AfterTrigger, Trigger
from crond_py.engine.admission import Admitter
from crond_py.engine.parts import Parts, Register
from crond_py.engine.records import Conclusion, JobState
from crond_py.engine.telling import tell
from crond_py.model import Cause, Condition, Outcome, Run, State
from crond_py.policy import Follow, judge_upstreams
from crond_py.ports import Claim, LedgerReader, RunQuery

REMEMBERED = 1000
"""Of how many cycles a job that waits for several others knows at most; the newest are kept."""


_Key = tuple[datetime, int]
"""The due instant of a cycle and its era; 0 where the cycles of several heads are one."""


@dataclass(slots=True)
class _Cycle:
    """What is known of one cycle by a job that waits for several others."""

    era: int
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    is_decided: bool = False


@dataclass(slots=True)
class _Join:
    """A job that waits for several others, and what it knows of each cycle, oldest first.

    With one head, runs of one cycle have its era. Several heads have eras of their own, so their
    cycles are known by the due instant alone.
    """

    trigger: AfterTrigger
    has_one_head: bool
    cycles: OrderedDict[_Key, _Cycle] = field(default_factory=OrderedDict)

    def key(self, due: datetime, era: int) -> _Key:
        """Return what a cycle is known by."""
        return due, era if self.has_one_head else 0

    def cycle(self, due: datetime, era: int) -> _Cycle:
        """Return what is known of a cycle; a newer era of one due instant is another cycle."""
        key = self.key(due, era)
        cycle = self.cycles.get(key)
        if cycle is None or cycle.era < era:
            cycle = self.cycles[key] = _Cycle(era)
            if len(self.cycles) > REMEMBERED:
                self.cycles.popitem(last=False)
        return cycle


class Chains:
    """Makes runs of the jobs that wait for others, as those get their outcomes."""

    def __init__(self, parts: Parts, register: Register, admitter: Admitter) -> None:
        self._parts = parts
        self._register = register
        self._admitter = admitter
        self._followers: dict[str, list[str]] = {}
        self._joins: dict[str, _Join] = {}
        self._news: deque[Conclusion] = deque()
        self._is_at_it = False

    def set_jobs(self, states: Iterable[JobState], ledger: LedgerReader | None = None) -> None:
        """Take the jobs of a crontab; at the start, read from the ledger which cycles are open.

        Raises LedgerError where that cannot be read.
        """
        self._followers.clear()
        joins, self._joins = self._joins, {}
        states = list(states)
        triggers = {state.job.name: state.job.trigger for state in states if not state.is_removed}
        for state in states:
            name, trigger = state.job.name, state.job.trigger
            if not isinstance(trigger, AfterTrigger) or state.is_removed:
                continue
            for upstream in trigger.conditions:
                self._followers.setdefault(upstream, []).append(name)
            if len(trigger.conditions) > 1:
                has_one_head = len(_heads(name, triggers)) == 1
                join = joins.get(name)
                if join is None or (join.trigger, join.has_one_head) != (trigger, has_one_head):
                    join = _Join(trigger, has_one_head)
                    if ledger is not None:
                        _read_open_cycles(join, state, ledger)
                self._joins[name] = join

    def concluded(self, conclusion: Conclusion) -> None:
        """Take note of an outcome, and make or skip the runs that wait for it, down the chain."""
        if conclusion.job not in self._followers:
            return
        self._news.append(conclusion)
        if self._is_at_it:
            return  # it came of a run that was just skipped; the loop below will see it
        self._is_at_it = True
        try:
            while self._news:
                news = self._news.popleft()
                for name in self._followers.get(news.job, ()):
                    self._follow(name, news)
        finally:
            self._is_at_it = False
            self._news.clear()

    def _follow(self, name: str, news: Conclusion) -> None:
        state = self._register.states.get(name)
        trigger = state.job.trigger if state is not None else None
        if state is None or not state.is_live or not isinstance(trigger, AfterTrigger):
            return
        join = self._joins.get(name)
        cycle = join.cycle(news.due, news.era) if join is not None else _Cycle(news.era)
        if cycle.is_decided:
            return
        cycle.outcomes[news.job] = news.outcome
        follow = judge_upstreams(trigger.conditions, cycle.outcomes)
        is_stretch = news.count > 1
        if follow is Follow.WAIT and not is_stretch:
            return
        cycle.is_decided = True
        if follow is Follow.RUN and not is_stretch:
            self._admitter.admit(state, news.due, Cause.UPSTREAM, era=cycle.era)
        else:
            self._skip(state, cycle.era, news, trigger.conditions[news.job])

    def _skip(self, state: JobState, era: int, news: Conclusion, condition: Condition) -> None:
        """Enter that a run does not come, because of what it waited for."""
        code = "upstream_failed" if condition is not Condition.FAILURE else "upstream_not_failed"
        verb = "was" if news.outcome in _PASSIVE else "has"
        reason = f"{code}: {news.job} {verb} {news.outcome.replace('_', ' ')}"
        claim = Claim(
            state.job.name,
            era,
            news.due,
            Cause.UPSTREAM,
            State.DONE,
            self._parts.timekeeper.now(),
            outcome=Outcome.SKIPPED,
            reason=reason,
            last_due=news.last_due,
            count=news.count,
        )
        self._parts.outbox.claim(claim, lambda _: None)
        tell(logging.WARNING, "run skipped", state.job.name, due=news.due, reason=reason)
        self._register.on_outcome(
            Conclusion(state.job.name, era, news.due, Outcome.SKIPPED, news.last_due, news.count)
        )


_PASSIVE = frozenset({Outcome.SKIPPED, Outcome.MISSED, Outcome.CANCELLED, Outcome.LOST})
"""Outcomes that are something done to a run: it "was skipped", but "has failed"."""


def _heads(name: str, triggers: Mapping[str, Trigger]) -> set[str]:
    """Return the jobs that the chains to a job begin with."""
    heads: set[str] = set()
    seen: set[str] = set()
    waiting = [name]
    while waiting:
        job = waiting.pop()
        trigger = triggers.get(job)
        if isinstance(trigger, AfterTrigger):
            waiting += [upstream for upstream in trigger.conditions if upstream not in seen]
        else:
            heads.add(job)
        seen.add(job)
    return heads


def _read_open_cycles(join: _Join, state: JobState, ledger: LedgerReader) -> None:
    """Read the cycles of which some upstream has its outcome and the job has no run yet.

    As without a restart, what had its outcome before the job was there does not count.
    """
    baseline = state.cursor.baseline
    decided = {join.key(run.due, run.era): run.era for run in _newest(state.job.name, ledger)}
    runs = [
        (run, upstream)
        for upstream in join.trigger.conditions
        for run in _newest(upstream, ledger)
        if run.finished_at is None or run.finished_at > baseline
    ]
    for run, upstream in sorted(runs, key=lambda each: (each[0].due, each[0].era)):
        cycle = join.cycle(run.due, run.era)
        cycle.is_decided = decided.get(join.key(run.due, run.era), -1) >= cycle.era
        if run.outcome is not None and run.era == cycle.era:
            cycle.outcomes[upstream] = run.outcome


def _newest(job: str, ledger: LedgerReader) -> list[Run]:
    return ledger.runs(RunQuery(job=job, limit=REMEMBERED))
