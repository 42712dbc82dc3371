"""Dependencies: a job with ``after`` is due when the runs that it waits for have their outcomes.

A cycle is one due instant of the job at the head of a chain, and the runs that follow from it carry
that instant as their own ``due``. The claim of a run that follows is written together with the
outcome that it follows from: a crash leaves both or neither.

What is known of a cycle is kept in memory only where a job waits for several others, and only as
long as some of them have no outcome. What is not known there (after a restart, or since the cycle
was forgotten) is looked up in the ledger when it is needed, each second until that can be read. A
cycle that cannot be completed any more, since what became of some run is known to nobody or a
reload lets it not come, is skipped: every cycle has its row. What is no part of a cycle that a run
by hand has begun, in the middle of a chain, counts by its newest run (``by_hand``).

A cycle that is open at a reload, as runs are above its job, goes by what that waits for from then
on. One that has its row is not decided again by that: its claim would be refused, but another run
might be replaced first.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from graphlib import TopologicalSorter

from crond_py.crontab.model import AfterTrigger, Job
from crond_py.dataclass import dataclass
from crond_py.engine import by_hand
from crond_py.engine.admission import Admitter
from crond_py.engine.cycles import Cycle, Join
from crond_py.engine.events import CyclesDue
from crond_py.engine.parts import AGAIN, Parts, Register
from crond_py.engine.records import Conclusion, JobState
from crond_py.engine.rows import Rows
from crond_py.engine.telling import fields, log, tell
from crond_py.errors import LedgerError
from crond_py.model import Cause, Condition, Outcome, Run, State
from crond_py.policy import TICK, Follow, judge_upstream
from crond_py.ports import Claim, Ledger, Timer

NOT_FOLLOWED = "upstream_unknown: it does not follow any more what it waited for in this cycle"


class Chains:
    """Makes runs of the jobs that wait for others, as those get their outcomes."""

    def __init__(
        self, parts: Parts, register: Register, admitter: Admitter, ledger: Ledger, rows: Rows
    ) -> None:
        self._parts = parts
        self._register = register
        self._admitter = admitter
        self._ledger = ledger
        self._rows = rows
        self._followers: dict[str, list[str]] = {}
        self._joins: dict[str, Join] = {}
        self._after: dict[str, AfterTrigger] = {}
        self._heads: dict[str, str | None] = {}
        self._changed: deque[_Changed] = deque()
        self._in_force_since = parts.timekeeper.now()
        self._news: deque[Conclusion] = deque()
        self._is_at_it = False
        self._again: Timer | None = None
        self._is_unread = False

    def set_jobs(self, jobs: Mapping[str, Job]) -> None:
        """Take the jobs of a crontab; after a reload ``look_again`` sees to the open cycles.

        At a reload that comes first, while ``collecting``: what ends by it is followed by those
        who wait for it from then on, and which cycles were open before is still to be seen.
        """
        self._in_force_since = self._parts.timekeeper.now()
        self._followers.clear()
        joins, self._joins = self._joins, {}
        after = {
            job.name: job.trigger for job in jobs.values() if isinstance(job.trigger, AfterTrigger)
        }
        heads, self._heads = self._heads, _heads(after)
        before, self._after = self._after, after
        for name, trigger in after.items():
            for upstream in trigger.conditions:
                self._followers.setdefault(upstream, []).append(name)
            if len(trigger.conditions) > 1:
                has_one_head = self._heads[name] is not None
                join = joins.get(name)
                if join is None or (join.trigger, join.has_one_head) != (trigger, has_one_head):
                    join = Join(trigger, has_one_head)
                self._joins[name] = join
        for names in self._followers.values():  # they have their turn in this order
            names.sort(key=lambda name: -jobs[name].priority)
        for name, trigger in before.items():
            if after.get(name) != trigger or self._joins.get(name) is not joins.get(name):
                join = joins.get(name) or Join(trigger, heads[name] is not None)
                self._enter_open(name, join, before)
                self._changed.append(_Changed(name, join, heads[name]))

    def _enter_open(self, name: str, join: Join, after: Mapping[str, AfterTrigger]) -> None:
        """Enter the open cycles of a job of which it has not heard yet: those of runs above it."""
        seen, waiting = {name}, [name]
        while waiting:
            each = waiting.pop()
            above = after[each].conditions if each in after else ()
            new = [upstream for upstream in above if upstream not in seen]
            seen.update(new)
            waiting += new
            for upstream in new:
                state = self._register.states.get(upstream)
                for active in [*state.active, *state.queued] if state is not None else ():
                    join.enter(active.run.due, active.run.era)

    def _carry_over_all(self) -> bool:
        """See to what reloads have left open; False where the ledger cannot be read."""
        with self.collecting():
            while self._changed:
                try:
                    self._carry_over(self._changed[0])
                except LedgerError as error:
                    self._not_read(self._changed[0].name, error)
                    return False
                self._changed.popleft()
        return True

    def _carry_over(self, changed: _Changed) -> None:
        """See to the open cycles of a job that waits for others, or in another way, by now."""
        state = self._register.states.get(changed.name)
        if state is None or not state.is_live:
            return  # only occurrences of enabled jobs are accounted for
        for (due, _), cycle in changed.join.cycles.items():
            if cycle.is_decided:
                continue
            ended = self._ended(state, changed, cycle, due)
            cycle.is_decided = True  # here: it may be an open one of those that wait by now
            for news in ended or ():
                self._follow(changed.name, news)
            if ended == [] and not self._has_row(state, cycle, due):
                self._skip(state, cycle.era, due, NOT_FOLLOWED)

    def _ended(
        self, state: JobState, changed: _Changed, cycle: Cycle, due: datetime
    ) -> list[Conclusion] | None:
        """Return how those have ended in a cycle that its job waits for by now.

        None: none that is known of, but some are to come.
        """
        trigger = state.job.trigger
        if not isinstance(trigger, AfterTrigger):
            return []
        known = list(_conclusions(cycle, due))
        # Of one that has not heard of anything yet, its instant and era are all that is asked for.
        news = known[0] if known else Conclusion(changed.name, cycle.era, due, Outcome.SKIPPED)
        if ended := [each for each in known if each.job in trigger.conditions]:
            return ended
        # Runs of a cycle that begins with another job may have another era.
        head = self._heads.get(changed.name)
        join = Join(trigger, has_one_head=head is not None and head == changed.head)
        if self.pending(join.upstreams, news, join):
            return None
        for name in join.upstreams:
            run = self._newest_of_cycle(name, news, join)
            if run is not None and run.outcome is not None:
                ended.append(_conclusion(run, run.outcome, run.era, due))
        return ended

    def look_again(self) -> None:
        """See to it that each open cycle waits for something that will come, also by now.

        Once one cannot be looked up, no other is tried: each may take the ledger its patience.
        """
        if self._again is not None:
            self._parts.timers.cancel(self._again)
            self._again = None
        if not self._carry_over_all():
            return
        for name, join in list(self._joins.items()):
            if not self._register.states[name].is_live:
                join.cycles.clear()  # only occurrences of enabled jobs are accounted for
        for name, join in list(self._joins.items()):
            for (due, _), cycle in list(join.cycles.items()):
                cycle.is_looked_at = False
                news = next(_conclusions(cycle, due), None)
                if news is not None and not self._complete(name, news):
                    return

    def is_due(self, job: str, due: datetime) -> bool:
        """Whether a cycle that a job is part of begins at an instant by itself."""
        waiting, seen = [job], {job}
        while waiting:
            state = self._register.states.get(waiting.pop())
            if state is None:
                continue
            if _is_due(state, due):
                return True
            above = [each for each in _above(state) if each not in seen]
            seen.update(above)
            waiting += above
        return False

    def is_followed(self, job: str) -> bool:
        """Whether another job waits for a job's runs."""
        return job in self._followers

    def concluded(self, conclusion: Conclusion) -> None:
        """Take note of an outcome, and make or skip the runs that wait for it, down the chain."""
        if self._is_at_it:  # whoever is will see it, and who follows it then
            self._news.append(conclusion)
        elif self.is_followed(conclusion.job):
            with self.collecting():
                self._news.append(conclusion)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Only take note of outcomes, and see in the end to what follows from all of them.

        At a start some are told of before all the runs, and all that was missed, are known that
        others wait for; at a reload before it is known who waits.
        """
        self._is_at_it = True
        try:
            yield
            self._work_through()
        finally:
            self._is_at_it = False
            self._news.clear()

    def _work_through(self) -> None:
        """See to what follows; what comes of a run that is just being skipped, too."""
        waiting: list[tuple[str, Conclusion]] = []
        while self._news or waiting:
            if self._news:
                news = self._news.popleft()
                followers = self._followers.get(news.job, ())
                waiting += [(name, news) for name in followers if self._follow(name, news)]
            else:  # all that could follow by now is there to be waited for
                self._complete(*waiting.pop())

    def _follow(self, name: str, news: Conclusion) -> bool:
        """Make or skip the run of a job that waits for this one; True where it waits for others."""
        state = self._register.states.get(name)
        trigger = state.job.trigger if state is not None else None
        if state is None or not state.is_live or not isinstance(trigger, AfterTrigger):
            return False
        join = self._joins.get(name)
        if news.count > 1:
            self._skip_stretch(state, join, news)
            return False
        if join is not None and join.is_over(news.due):
            return False
        cycle = join.cycle(news.due, news.era) if join is not None else Cycle()
        cycle.note(news.job, news.era, news.outcome, is_spared=news.is_spared)
        is_waiting = self._judge(state, trigger, cycle, news)
        if join is not None and cycle.outcomes.keys() == trigger.conditions.keys():
            del join.cycles[join.key(news.due, news.era)]
        return is_waiting

    def _judge(
        self,
        state: JobState,
        trigger: AfterTrigger,
        cycle: Cycle,
        news: Conclusion,
        of_which: str = "",
    ) -> bool:
        """Decide a cycle if it can be decided; True where it waits for more.

        ``of_which`` run the news is, where that is of another cycle.
        """
        if cycle.is_decided:
            return False
        gap = self._ledger.gap
        is_forgotten = gap is not None and news.due <= gap.until
        condition = trigger.conditions[news.job]
        missing = len(trigger.conditions) - len(cycle.outcomes)
        follow = judge_upstream(condition, cycle.outcomes[news.job], missing)
        if follow is Follow.WAIT and not is_forgotten:
            return True
        cycle.is_decided = True
        if self._has_row(state, cycle, news.due):
            return False
        if is_forgotten:
            reason = "upstream_unknown: the ledger has lost its newest records; it may have run"
            self._skip(state, cycle.era, news.due, reason)
        elif follow is Follow.RUN:
            self._admitter.admit(state, news.due, Cause.UPSTREAM, era=cycle.era)
        else:
            self._skip(state, cycle.era, news.due, _why_not(news, condition) + of_which)
        return False

    def _has_row(self, state: JobState, cycle: Cycle, due: datetime) -> bool:
        """Whether a run of a cycle has been made or skipped, as the job waited for others before.

        That is asked only of cycles that are older than the crontab in force. Where the ledger
        cannot be read it is taken for new: if it is not, its claim is refused.
        """
        if self._in_force_since < due <= self._parts.timekeeper.now():
            return False
        job = state.job.name
        in_memory = [active.run for active in state.open_at(due)]
        in_memory += self._parts.outbox.unwritten.at(job, due)
        if any((run.era, run.due) == (cycle.era, due) for run in in_memory):
            return True
        if self._again is not None:
            return False
        try:
            return self._is_in_ledger(state, cycle, due)
        except LedgerError as error:
            self._not_read(job, error)
            return False

    def _is_in_ledger(self, state: JobState, cycle: Cycle, due: datetime) -> bool:
        """Whether a job has its row of a cycle, perhaps by the era of a head that it had before.

        Where an instant has come again, there are rows of other cycles of that instant, too. What
        the job waits for now has its own rows of those.
        """
        eras = {run.era for run in self._rows.at(state.job.name, due) if run.due == due}
        if not eras or cycle.era in eras:
            return bool(eras)
        trigger = state.job.trigger
        for upstream in trigger.conditions if isinstance(trigger, AfterTrigger) else ():
            own = {run.era for run in self._rows.at(upstream, due)}
            own.discard(cycle.eras.get(upstream, max(own, default=0)))
            eras -= own
        return bool(eras)

    # --- what is not known in memory ------------------------------------------------------

    def _complete(self, name: str, news: Conclusion) -> bool:
        """See to it that a cycle that waits for others waits for something that will come.

        False where the ledger cannot be read; then nothing is looked up for a while.
        """
        state, join = self._register.states.get(name), self._joins.get(name)
        if state is None or join is None:
            return True
        cycle = join.cycles.get(join.key(news.due, news.era))
        if cycle is None or cycle.is_decided:
            return True
        if self._again is not None:
            return False  # all cycles are looked at then
        try:
            if unknown := self._not_to_come(cycle, news, join):
                self._look_up_all(unknown, state, join, cycle, news)
        except LedgerError as error:
            self._not_read(name, error)  # it stays open
            is_read = False
        else:
            is_read = True
            self._is_unread = False
        if cycle.outcomes.keys() == join.trigger.conditions.keys():
            del join.cycles[join.key(news.due, news.era)]
        return is_read

    def _not_read(self, name: str, error: LedgerError) -> None:
        """Look again soon, as the ledger cannot be read now."""
        level = logging.DEBUG if self._is_unread else logging.WARNING
        message = "what a job waits for cannot be looked up"
        log.log(level, message, extra=fields(job=name, reason=str(error)))
        self._is_unread = True
        if self._again is None:
            at_ns = self._parts.timekeeper.after(AGAIN)
            self._again = self._parts.timers.call_at(at_ns, CyclesDue())

    def _look_up_all(
        self, unknown: list[str], state: JobState, join: Join, cycle: Cycle, news: Conclusion
    ) -> None:
        """Complete a cycle by what the ledger has of it; skip it where that has nothing."""
        has_row = self._rows_of_cycle(state.job.name, news, join)
        if has_row or self._is_in_ledger(state, cycle, news.due):
            cycle.is_decided = True  # before a restart
            return
        outside: set[str] | None = None
        for upstream in unknown:
            run = self._newest_of_cycle(upstream, news, join)
            why_not, of_which = f"nobody knows what became of {upstream}", ""
            if run is None and outside is None:
                rows = partial(self._rows_of_cycle, news=news, join=join)
                outside = by_hand.outside(unknown, news.job, rows, self._register.states)
            if run is None and outside is not None and upstream in outside:
                run, why_not = by_hand.newest_run(self._rows, upstream, self._ledger.gap)
                of_which = f", in {by_hand.which(run)}" if run is not None else ""
            if run is None or run.outcome is None:
                cycle.is_decided = True
                self._skip(state, cycle.era, news.due, f"upstream_unknown: {why_not}")
                return
            # What is of another cycle counts as if it were of this one.
            era = cycle.era if of_which else run.era
            known = _conclusion(run, run.outcome, era, news.due)
            cycle.note(upstream, era, known.outcome, is_spared=known.is_spared)
            if not self._judge(state, join.trigger, cycle, known, of_which):
                return

    def _rows_of_cycle(self, name: str, news: Conclusion, join: Join) -> list[Run]:
        """Return the rows that a job has of the cycle."""
        rows = self._rows.at(name, news.due)
        return [run for run in rows if not join.has_one_head or run.era == news.era]

    def _newest_of_cycle(self, name: str, news: Conclusion, join: Join) -> Run | None:
        rows = self._rows_of_cycle(name, news, join)
        return max(rows, key=lambda run: run.era, default=None)

    def _not_to_come(self, cycle: Cycle, news: Conclusion, join: Join) -> list[str]:
        """Return which of the jobs that a cycle waits for bring it no outcome any more.

        All of them are looked at once. After that one is enough, each time: if it comes there is
        another outcome, with which the next one is looked at.
        """
        if cycle.is_looked_at:
            first = cycle.first_missing(join.upstreams)
            if first is None or self._comes(first, news, join):
                return []
        missing = [name for name in join.upstreams if name not in cycle.outcomes]
        pending = self.pending(missing, news, join)
        cycle.is_looked_at = True
        return [name for name in missing if name not in pending]

    def pending(self, names: Iterable[str], news: Conclusion, join: Join) -> set[str]:
        """Return which jobs have a run of the cycle without an outcome, or are to have one.

        One that waits for several others may have been skipped on account of one of them, before a
        restart: then what still goes on above it brings no other run.
        """
        pending, others = set(), []
        for name in names:
            state = self._register.states.get(name)
            if state is None:
                continue
            eras = self._eras_of_its_own(state, news, join)
            open_eras = {active.run.era for active in state.open_at(news.due)}
            if (eras and name not in self._joins) or not open_eras.isdisjoint(eras):
                pending.add(name)
            elif eras or _above(state):
                others.append(name)
        newest = self._newest_to_come(others, news, join)
        for name in others:
            if name in newest and all(
                run.era < newest[name] for run in self._rows_of_cycle(name, news, join)
            ):
                pending.add(name)
        return pending

    def _comes(self, name: str, news: Conclusion, join: Join) -> bool:
        """Whether a run of the cycle is open or to come, of a job or of those above it."""
        seen, waiting = {name}, [name]
        while waiting:
            state = self._register.states.get(waiting.pop())
            if state is None:
                continue
            if self._eras_of_its_own(state, news, join):
                return True
            above = [each for each in _above(state) if each not in seen]
            seen.update(above)
            waiting += above
        return False

    def _newest_to_come(self, names: Iterable[str], news: Conclusion, join: Join) -> dict[str, int]:
        """Return of jobs, and those above, the newest era of what comes of the cycle, if any does.

        The one that is just getting its outcome is among them: what follows it is yet to be made.
        """
        graph: dict[str, Collection[str]] = {}
        waiting = list(names)
        while waiting:
            name = waiting.pop()
            state = self._register.states.get(name)
            if name not in graph and state is not None:
                graph[name] = _above(state)
                waiting += graph[name]
        newest: dict[str, int] = {}
        for name in TopologicalSorter(graph).static_order():
            state = self._register.states.get(name)
            eras = self._eras_of_its_own(state, news, join) if state is not None else []
            eras += [newest[above] for above in graph.get(name, ()) if above in newest]
            if eras:
                newest[name] = max(eras)
        return newest

    def _eras_of_its_own(self, state: JobState, news: Conclusion, join: Join) -> list[int]:
        """Return the eras of the cycle's runs of a job that are open or due by themselves.

        So is what a join there has not decided: it will be, and have its row.
        """
        asked = news.era if join.has_one_head else None
        eras = [active.run.era for active in state.open_at(news.due)]
        if state.job.name in self._joins:
            eras += self._joins[state.job.name].open_eras(news.due, asked)
        is_head = state.is_live and not isinstance(state.job.trigger, AfterTrigger)
        if is_head and state.cursor.accounted_until < news.due and _is_due(state, news.due):
            eras.append(state.cursor.era)
        return [era for era in eras if asked is None or era == asked]

    # --- rows -----------------------------------------------------------------------------

    def _skip_stretch(self, state: JobState, join: Join | None, news: Conclusion) -> None:
        """Enter that nothing follows a stretch of missed occurrences.

        Of jobs that are waited for together the first one's stretch counts, and cycles of it that
        are known by themselves have rows of their own.
        """
        first, last = news.due, news.last_due or news.due
        count = news.count
        how = "lost" if news.outcome is Outcome.LOST else "missed"
        if join is not None:
            if join.is_over(news.due) and join.is_over(last):
                return
            first, count = join.rest_of(first, count)
            join.stretches.append((first, last, count))
            for (due, _), cycle in list(join.cycles.items()):
                if first <= due <= last:
                    count -= 1
                    if due == first:
                        first += TICK  # that instant has a row of its own
                    if not cycle.is_decided:
                        cycle.is_decided = True
                        reason = f"upstream_failed: {news.job} was {how}"
                        self._skip(state, max(cycle.era, news.era), due, reason)
        reason = f"upstream_failed: {news.job} was {how}, and nothing follows a stretch of that"
        if count > 0:
            self._skip(state, news.era, first, reason, last_due=last, count=count)

    def _skip(
        self,
        state: JobState,
        era: int,
        due: datetime,
        reason: str,
        *,
        last_due: datetime | None = None,
        count: int = 1,
    ) -> None:
        """Enter that a run does not come, because of what it waited for."""
        if last_due is not None and last_due <= due:
            last_due = None
        claim = Claim(
            state.job.name,
            era,
            due,
            Cause.UPSTREAM,
            State.DONE,
            self._parts.timekeeper.now(),
            outcome=Outcome.SKIPPED,
            reason=reason,
            last_due=last_due,
            count=count,
        )
        self._parts.outbox.claim(claim, lambda _: None)
        is_spared = _is_spared(reason)
        # What waits for a failure is skipped whenever all is well.
        level = logging.INFO if is_spared else logging.WARNING
        tell(level, "run skipped", state.job.name, due=due, reason=reason)
        self._register.on_outcome(
            Conclusion(state.job.name, era, due, Outcome.SKIPPED, last_due, count, is_spared)
        )


@dataclass(frozen=True, slots=True)
class _Changed:
    """A job that waited for others until a reload, and the one its cycles began with."""

    name: str
    join: Join
    head: str | None


_PASSIVE = frozenset({Outcome.SKIPPED, Outcome.MISSED, Outcome.CANCELLED, Outcome.LOST})
"""Outcomes that are something done to a run: it "was skipped", but "has failed"."""


_NOT_FAILED = "upstream_not_failed"


def _why_not(news: Conclusion, condition: Condition) -> str:
    has_failed = condition is not Condition.FAILURE and not news.is_spared
    code = "upstream_failed" if has_failed else _NOT_FAILED
    verb = "was" if news.outcome in _PASSIVE else "has"
    return f"{code}: {news.job} {verb} {news.outcome.replace('_', ' ')}"


def _is_spared(reason: str) -> bool:
    """Whether a run with that reason was skipped because nothing had failed."""
    return reason.startswith(_NOT_FAILED)


def _conclusion(run: Run, outcome: Outcome, era: int, due: datetime) -> Conclusion:
    """Return what became of a run, as it counts in a cycle."""
    return Conclusion(run.job, era, due, outcome, is_spared=_is_spared(run.reason))


def _conclusions(cycle: Cycle, due: datetime) -> Iterator[Conclusion]:
    """Yield what is known of a cycle, as it was told."""
    for job, outcome in cycle.outcomes.items():
        is_spared = job in cycle.spared
        yield Conclusion(job, cycle.eras[job], due, outcome, is_spared=is_spared)


def _above(state: JobState) -> Collection[str]:
    """Return the jobs that a job waits for, if it is to be run."""
    trigger = state.job.trigger
    return trigger.conditions if state.is_live and isinstance(trigger, AfterTrigger) else ()


def _is_due(state: JobState, due: datetime) -> bool:
    """Whether an instant is one of a job's schedule; a run by hand has one of its own."""
    return state.schedule is not None and state.schedule.latest_until(due) == due


def _heads(after: Mapping[str, AfterTrigger]) -> dict[str, str | None]:
    """Return for each job of a chain the one that it begins with; None: there are several."""
    heads: dict[str, str | None] = {}
    graph = {name: trigger.conditions for name, trigger in after.items()}
    for name in TopologicalSorter(graph).static_order():
        above = {heads.get(upstream) for upstream in graph.get(name, ())}
        heads[name] = name if not above else above.pop() if len(above) == 1 else None
    return heads
