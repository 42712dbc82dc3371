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
from dataclasses import replace
from datetime import datetime
from functools import partial
from graphlib import TopologicalSorter

from crond_py.crontab.model import AfterTrigger, Job
from crond_py.dataclass import dataclass
from crond_py.engine import by_hand
from crond_py.engine.admission import Admitter
from crond_py.engine.cycles import Cycle, Join
from crond_py.engine.eras import Eras
from crond_py.engine.events import CyclesDue
from crond_py.engine.parts import AGAIN, Parts, Register
from crond_py.engine.records import Conclusion, JobState
from crond_py.engine.rows import Rows
from crond_py.engine.stretches import Stretch, left_besides, left_of
from crond_py.engine.telling import fields, log, tell
from crond_py.errors import LedgerError
from crond_py.model import Cause, Condition, Outcome, Run, State
from crond_py.policy import TICK, Follow, Occurrences, is_accounted, judge_upstream
from crond_py.ports import Claim, Ledger, Timer

FORGOTTEN = "upstream_unknown: the ledger has lost its newest records; it may have run"
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
        self._eras = Eras({}, register.states)
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
        before, self._after = self._after, after
        eras, self._eras = self._eras, Eras(after, self._register.states)
        for name, trigger in after.items():
            for upstream in trigger.conditions:
                self._followers.setdefault(upstream, []).append(name)
            if len(trigger.conditions) > 1:
                join, head = joins.get(name), self._eras.head(name)
                if join is None or (join.trigger, join.head) != (trigger, head):
                    join = Join(trigger, head)
                self._joins[name] = join
        for names in self._followers.values():  # they have their turn in this order
            names.sort(key=lambda name: -jobs[name].priority)
        for name, trigger in before.items():
            if after.get(name) != trigger or self._joins.get(name) is not joins.get(name):
                join = joins.get(name) or Join(trigger, eras.head(name))
                self._enter_open(name, join, before, eras)
                self._changed.append(_Changed(name, join, eras.newest(name)))

    def begin(self) -> None:
        """See to the open cycles that an earlier daemon has left: what had come of them is read.

        Else a cycle would be forgotten of which nothing more comes, as by a reload.
        """
        for name in self._below_open():
            if name not in self._joins:
                continue
            left = Join(self._joins[name].trigger, self._joins[name].head)
            self._enter_open(name, left, self._after, self._eras)
            self._changed.append(_Changed(name, left, self._eras.newest(name)))
        if self._changed:
            self.look_again()

    def _below_open(self) -> dict[str, None]:
        """Return the jobs that follow runs which have no outcome, by however many others."""
        states = self._register.states
        waiting = [name for name, state in states.items() if state.active or state.queued]
        below: dict[str, None] = {}
        while waiting:
            new = [each for each in self._followers.get(waiting.pop(), ()) if each not in below]
            below.update(dict.fromkeys(new))
            waiting += new
        return below

    def _enter_open(
        self, name: str, join: Join, after: Mapping[str, AfterTrigger], eras: Eras
    ) -> None:
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
                    run = active.run
                    join.enter(run.due, eras.of(name, upstream, run.era))

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
        name = changed.name
        state = self._register.states.get(name)
        if state is None or not state.is_live:
            return  # only occurrences of enabled jobs are accounted for
        counted = 0  # the heads that it has now have counted so many more eras
        if changed.join.head is None or changed.join.head != self._eras.head(name):
            counted = self._eras.newest(name) - changed.newest
        for cycle in changed.join.cycles.values():
            if cycle.is_decided:
                continue
            now = Cycle(cycle.due, cycle.era + counted)
            ended = self._ended(state, cycle, now)
            cycle.is_decided = True  # where the next one cannot be read, it is not seen to again
            for news in ended or ():
                self._follow(name, news)
            if ended == [] and not self._has_row(state, now):
                self._skip(state, now.era, now.due, NOT_FOLLOWED)

    def _ended(self, state: JobState, before: Cycle, now: Cycle) -> list[Conclusion] | None:
        """Return how those have ended in a cycle that its job waits for by now.

        None: none that is known of, but some are to come.
        """
        trigger, name = state.job.trigger, state.job.name
        if not isinstance(trigger, AfterTrigger):
            return []
        known = [each for each in _conclusions(before) if each.job in trigger.conditions]
        if known:
            return [replace(each, era=self._eras.of(each.job, name, now.era)) for each in known]
        runs = (self._run_of_cycle(upstream, name, now) for upstream in trigger.conditions)
        ended = [_conclusion(run, run.outcome, now.due) for run in runs if run and run.outcome]
        if not ended and self.pending(trigger.conditions, name, now):
            return None
        return ended

    def look_again(self) -> None:
        """See to it that each open cycle waits for something that will come, also by now.

        It is called where jobs may have counted on their eras, too. Once one cannot be looked up,
        no other is tried: each may take the ledger its patience.
        """
        self._eras.changed()
        if self._again is not None:
            self._parts.timers.cancel(self._again)
            self._again = None
        if not self._carry_over_all():
            return
        for name, join in list(self._joins.items()):
            if not self._register.states[name].is_live:
                join.cycles.clear()  # only occurrences of enabled jobs are accounted for
        for name, join in list(self._joins.items()):
            for cycle in list(join.cycles.values()):
                cycle.is_looked_at = False
                if not self._complete(name, cycle):
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
        waiting: list[tuple[str, Cycle]] = []
        while self._news or waiting:
            if self._news:
                news = self._news.popleft()
                followers = self._followers.get(news.job, ())
                cycles = ((name, self._follow(name, news)) for name in followers)
                waiting += [(name, cycle) for name, cycle in cycles if cycle is not None]
            else:  # all that could follow by now is there to be waited for
                self._complete(*waiting.pop())

    def _follow(self, name: str, news: Conclusion) -> Cycle | None:
        """Make or skip the run of a job that waits for this one; return what waits for others."""
        state = self._register.states.get(name)
        trigger = state.job.trigger if state is not None else None
        if state is None or not state.is_live or not isinstance(trigger, AfterTrigger):
            return None
        join, era = self._joins.get(name), self._eras.of(name, news.job, news.era)
        if news.count > 1:
            self._skip_stretch(state, join, news, era)
            return None
        if join is None:
            cycle = Cycle(news.due, era)
        elif any(self._is_one_of(stretch, name, news.due, era) for stretch in join.stretches):
            return None
        else:
            cycle = join.cycle(news.due, era)
        cycle.note(news)
        is_waiting = self._judge(state, trigger, cycle, news)
        if join is not None:
            join.drop_complete(cycle)
        return cycle if is_waiting else None

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
        is_forgotten = self._is_forgotten(cycle.due)
        condition = trigger.conditions[news.job]
        missing = len(trigger.conditions) - len(cycle.outcomes)
        follow = judge_upstream(condition, news.outcome, missing)
        if follow is Follow.WAIT and not is_forgotten:
            return True
        cycle.is_decided = True
        if self._has_row(state, cycle):
            return False
        if is_forgotten:
            self._skip(state, cycle.era, cycle.due, FORGOTTEN)
        elif follow is Follow.RUN:
            self._admitter.admit(state, cycle.due, Cause.UPSTREAM, era=cycle.era)
        else:
            self._skip(state, cycle.era, cycle.due, _why_not(news, condition) + of_which)
        return False

    def _is_forgotten(self, due: datetime) -> bool:
        """Whether the ledger may have lost what it had of an instant."""
        gap = self._ledger.gap
        return gap is not None and due <= gap.until

    def _has_row(self, state: JobState, cycle: Cycle) -> bool:
        """Whether a run of a cycle has been made or skipped, as the job waited for others before.

        One that has begun since the crontab came into force is new. The others are looked up: older
        ones, and those that the clock, set back, has yet to reach again. Where the ledger cannot
        be read a cycle is taken for new: if it is not, its claim is refused.
        """
        if self._in_force_since < cycle.due <= self._parts.timekeeper.now():
            return False
        job, due = state.job.name, cycle.due
        in_memory = [active.run for active in state.open_at(due)]
        in_memory += self._parts.outbox.unwritten.at(job, due)
        if any((run.era, run.due) == (cycle.era, due) for run in in_memory):
            return True
        if self._again is not None:
            return False
        try:
            return self._is_in_ledger(state, cycle)
        except LedgerError as error:
            self._not_read(job, error)
            return False

    def _is_in_ledger(self, state: JobState, cycle: Cycle) -> bool:
        """Whether a job has its row of a cycle, perhaps by the era of a head that it had before.

        Where an instant has come again, there are rows of other cycles of that instant, too. What
        the job waits for now has its own rows of those.
        """
        name = state.job.name
        if self._rows_of_cycle(name, name, cycle):
            return True
        eras = {run.era for run in self._rows.at(name, cycle.due) if run.due == cycle.due}
        if not eras:
            return False
        trigger = state.job.trigger
        for upstream in trigger.conditions if isinstance(trigger, AfterTrigger) else ():
            own = {run.era for run in self._rows.at(upstream, cycle.due)}
            own = {self._eras.of(name, upstream, era) for era in own}
            eras -= own
        return bool(eras)

    # --- what is not known in memory ------------------------------------------------------

    def _complete(self, name: str, cycle: Cycle) -> bool:
        """See to it that a cycle that waits for others waits for something that will come.

        False where the ledger cannot be read; then nothing is looked up for a while.
        """
        state, join = self._register.states.get(name), self._joins.get(name)
        if state is None or join is None or join.cycles.get((cycle.due, cycle.era)) is not cycle:
            return True
        if cycle.is_decided or not cycle.outcomes:
            return True
        if self._again is not None:
            return False  # all cycles are looked at then
        try:
            if unknown := self._not_to_come(name, cycle, join):
                self._look_up_all(unknown, state, join, cycle)
        except LedgerError as error:
            self._not_read(name, error)  # it stays open
            is_read = False
        else:
            is_read = True
            self._is_unread = False
        join.drop_complete(cycle)
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

    def _look_up_all(self, unknown: list[str], state: JobState, join: Join, cycle: Cycle) -> None:
        """Complete a cycle by what the ledger has of it; skip it where that has nothing."""
        name, part = state.job.name, next(iter(cycle.outcomes))
        if self._is_in_ledger(state, cycle):
            cycle.is_decided = True  # before a restart
            return
        outside: set[str] | None = None
        for upstream in unknown:
            run = self._run_of_cycle(upstream, name, cycle)
            why_not, of_which = self._why_unknown(upstream), ""
            if run is None and outside is None:
                rows = partial(self._rows_of_cycle, of=name, cycle=cycle)
                outside = by_hand.outside(unknown, part, rows, self._register.states)
            if run is None and outside is not None and upstream in outside:
                run, why_not = by_hand.newest_run(self._rows, upstream, self._ledger.gap)
                of_which = f", in {by_hand.which(run)}" if run is not None else ""
            if run is None or run.outcome is None:
                cycle.is_decided = True
                self._skip(state, cycle.era, cycle.due, f"upstream_unknown: {why_not}")
                return
            news = _conclusion(run, run.outcome, cycle.due)
            if of_which:  # what is of another cycle counts as if it were of this one
                news = replace(news, era=self._eras.of(upstream, name, cycle.era))
            cycle.note(news)
            if not self._judge(state, join.trigger, cycle, news, of_which):
                return

    def _why_unknown(self, upstream: str) -> str:
        """Say why a job has no run of a cycle: it is disabled, or one above it, or nobody knows."""
        waiting, seen = deque([upstream]), {upstream}
        while waiting:
            name = waiting.popleft()
            state = self._register.states.get(name)
            if state is not None and not state.is_live:
                return f"{name} is disabled"
            above = [each for each in _above(state) if each not in seen] if state else []
            seen.update(above)
            waiting += above
        return f"nobody knows what became of {upstream}"

    def _rows_of_cycle(self, name: str, of: str, cycle: Cycle) -> list[Run]:
        """Return the rows that a job has of the cycle of another one, be it as one of a stretch."""
        era, due = self._eras.of(name, of, cycle.era), cycle.due
        return [
            run
            for run in self._rows.at(name, due)
            if run.era == era and (run.due == due or self._is_one_of(_stretch(run), name, due, era))
        ]

    def _run_of_cycle(self, name: str, of: str, cycle: Cycle) -> Run | None:
        return next(iter(self._rows_of_cycle(name, of, cycle)), None)

    def _not_to_come(self, name: str, cycle: Cycle, join: Join) -> list[str]:
        """Return which of the jobs that a cycle waits for bring it no outcome any more.

        All of them are looked at once. After that one is enough, each time: if it comes there is
        another outcome, with which the next one is looked at.
        """
        if cycle.is_looked_at:
            first = cycle.first_missing(join.upstreams)
            if first is None or self._comes(first, name, cycle):
                return []
        missing = [each for each in join.upstreams if each not in cycle.outcomes]
        pending = self.pending(missing, name, cycle)
        cycle.is_looked_at = True
        return [each for each in missing if each not in pending]

    def pending(self, names: Iterable[str], of: str, cycle: Cycle) -> set[str]:
        """Return which jobs have a run of a job's cycle without an outcome, or are to have one.

        One that waits for several others may have been skipped on account of one of them, before a
        restart: then what still goes on above it brings no other run.
        """
        pending, others = set(), []
        for name in names:
            state = self._register.states.get(name)
            if state is None:
                continue
            brings = self._brings(state, of, cycle)
            if self._has_open(state, of, cycle) or (brings and name not in self._joins):
                pending.add(name)
            elif brings or _above(state):
                others.append(name)
        to_come = self._to_come(others, of, cycle)
        pending.update(
            name for name in others if name in to_come and not self._rows_of_cycle(name, of, cycle)
        )
        return pending

    def _comes(self, name: str, of: str, cycle: Cycle) -> bool:
        """Whether a run of a job's cycle is open or to come, of a job or of those above it."""
        seen, waiting = {name}, [name]
        while waiting:
            state = self._register.states.get(waiting.pop())
            if state is None:
                continue
            if self._brings(state, of, cycle):
                return True
            above = [each for each in _above(state) if each not in seen]
            seen.update(above)
            waiting += above
        return False

    def _to_come(self, names: Iterable[str], of: str, cycle: Cycle) -> set[str]:
        """Return to which of the jobs, and those above, something comes of a job's cycle.

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
        to_come: set[str] = set()
        for name in TopologicalSorter(graph).static_order():
            state = self._register.states.get(name)
            if not to_come.isdisjoint(graph.get(name, ())) or (
                state is not None and self._brings(state, of, cycle)
            ):
                to_come.add(name)
        return to_come

    def _has_open(self, state: JobState, of: str, cycle: Cycle) -> bool:
        """Whether a job has a run of another one's cycle that has no outcome."""
        era = self._eras.of(state.job.name, of, cycle.era)
        return any(active.run.era == era for active in state.open_at(cycle.due))

    def _brings(self, state: JobState, of: str, cycle: Cycle) -> bool:
        """Whether a job has an open run of another one's cycle, or is due in it by itself.

        So it is with what a join there has not decided: it will be, and have its row.
        """
        if self._has_open(state, of, cycle):
            return True
        name, due = state.job.name, cycle.due
        era = self._eras.of(name, of, cycle.era)
        if name in self._joins and self._joins[name].is_open(due, era):
            return True
        is_head = state.is_live and not isinstance(state.job.trigger, AfterTrigger)
        is_ahead = state.cursor.era == era and not is_accounted(state.cursor, due)
        return is_head and is_ahead and _is_due(state, due)

    # --- rows -----------------------------------------------------------------------------

    def _skip_stretch(self, state: JobState, join: Join | None, news: Conclusion, era: int) -> None:
        """Enter that nothing follows a stretch of missed occurrences.

        Of jobs that are waited for together each cycle counts once, by whichever tells of it first,
        and cycles that are known by themselves have rows of their own.
        """
        name, condition = state.job.name, self._after[state.job.name].conditions[news.job]
        whole = Stretch(news.due, news.last_due or news.due, news.count, era)
        left = [whole]
        if join is not None:
            left = left_of(whole, join.stretches, self._schedule_of(name))
            join.stretches.extend(left)
        reason = f"{_why_not(news, condition)}, and nothing follows a stretch of that"
        if self._is_forgotten(news.due):
            reason = FORGOTTEN
        for stretch in left:
            self._skip_one(state, join, stretch, reason)

    def _skip_one(self, state: JobState, join: Join | None, stretch: Stretch, reason: str) -> None:
        """Enter a stretch, and those of its cycles that are known by themselves."""
        name = state.job.name
        runs = [active.run for active in (*state.active, *state.queued)]
        single = {run.due for run in runs if self._is_one_of(stretch, name, run.due, run.era)}
        for cycle in list(join.cycles.values()) if join is not None else ():
            if not self._is_one_of(stretch, name, cycle.due, cycle.era):
                continue
            if not cycle.is_decided and cycle.due not in single:
                self._skip(state, cycle.era, cycle.due, reason)
            cycle.is_decided = True
            single.add(cycle.due)
        rest = left_besides(stretch, single, self._schedule_of(name))
        if rest is not None:
            last_due, count = rest.last, rest.count
            self._skip(state, rest.era, rest.first, reason, last_due=last_due, count=count)

    def _is_one_of(self, stretch: Stretch, name: str, due: datetime, era: int) -> bool:
        """Whether a cycle of a job is part of a stretch.

        What was begun by hand is none; nor is, where the stretch has not all instants that lie in
        it, one of those that had their rows before (the clock was set back, and then on).
        """
        if not stretch.has(due, era) or not self.is_due(name, due):
            return False
        schedule = self._schedule_of(name)
        if schedule is None:
            return True
        return stretch.count >= schedule.count(stretch.first - TICK, stretch.last)

    def _schedule_of(self, name: str) -> Occurrences | None:
        """Return when the cycles of a job begin by themselves; all its heads have one schedule."""
        state = self._register.states.get(name)
        while state is not None and (above := _above(state)):
            state = self._register.states.get(next(iter(above)))
        return state.schedule if state is not None else None

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
        self._admitter.enter_dropped(claim, self._schedule_of(claim.job) if last_due else None)
        is_spared = _is_spared(reason)
        # What waits for a failure is skipped whenever all is well.
        level = logging.INFO if is_spared else logging.WARNING
        tell(level, "run skipped", state.job.name, due=due, reason=reason)
        self._register.on_outcome(
            Conclusion(state.job.name, era, due, Outcome.SKIPPED, last_due, count, is_spared)
        )


@dataclass(frozen=True, slots=True)
class _Changed:
    """A job that waited for others until a reload, and the era of its newest cycles then."""

    name: str
    join: Join
    newest: int


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


def _stretch(run: Run) -> Stretch:
    """Return the cycles that a row stands for."""
    return Stretch(run.due, run.last_due or run.due, run.count, run.era)


def _conclusion(run: Run, outcome: Outcome, due: datetime) -> Conclusion:
    """Return what became of a run, as it counts in a cycle."""
    return Conclusion(run.job, run.era, due, outcome, is_spared=_is_spared(run.reason))


def _conclusions(cycle: Cycle) -> Iterator[Conclusion]:
    """Yield what is known of a cycle, as it was told."""
    for job, outcome in cycle.outcomes.items():
        is_spared = job in cycle.spared
        yield Conclusion(job, cycle.eras[job], cycle.due, outcome, is_spared=is_spared)


def _above(state: JobState) -> Collection[str]:
    """Return the jobs that a job waits for, if it is to be run."""
    trigger = state.job.trigger
    return trigger.conditions if state.is_live and isinstance(trigger, AfterTrigger) else ()


def _is_due(state: JobState, due: datetime) -> bool:
    """Whether an instant is one of a job's schedule; a run by hand has one of its own."""
    return state.schedule is not None and state.schedule.latest_until(due) == due
