"""Whose turn it is: what must hold whenever a pool has a slot for a run, or for none.

``Turns`` watches every pool of a daemon from outside: it notes who comes to wait for a slot, who
gets one and who gives it back, and works out by the rules of pycron.toml(5) who may be next.

- A run that comes gets a slot at once if there is one, its group may have it, and nobody who waits
  in that pool may go. Other pools have no part in that, but by the ``max_running`` of a group.
- Else the next slot is one for the highest priority that waits and may go; of every ten that go to
  runs that wait, one is for the priority of the run that has waited longest, of those that may go;
  of those that have waited as long, to a second, for the lowest. Of ten of these one is for its
  group.
- Else, of that priority, it is the turn of the group that has used the least of the pool for its
  weight since it began to wait. One that comes to wait is level with the least of the others, or
  behind it by no more than ``MOST_BEHIND_S``.
- Of those that wait and have no slot, the one that has waited longest in that may be level with the
  least, too, once those that came later have together used ``MOST_PASSED`` times what it is ahead.
- Of that group it is the turn of the run that was due first.

What the rules leave open is how long it is remembered what a group has used whose last run has
gone, when it waits again. So it is known here only within bounds: ``least_s``, if what it has used
beyond others is forgotten at once, and ``most_s``, if that is kept as long as the pool is busy.
What it has used less than others it keeps at most until its turn comes and it is not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from functools import partial

from crond_py.crontab.model import Group, Job
from crond_py.engine.core import Core
from crond_py.engine.pools import Slots
from crond_py.engine.records import ActiveRun, Stage
from tests.simulation.stored import Stock
from tests.simulation.story import Broken
from tests.simulation.world import GROUPS, World

AGEING = 10
"""Of so many slots for runs that wait, one goes by how long they have waited."""

AGEING_MOVES = 3
"""By how much earlier it is in each so many."""

AS_LONG_NS = 1_000_000_000
"""By how much one may have waited longer than another that has waited as long."""

START_S = 0.01
"""What a start counts as, in seconds of a slot."""

MOST_BEHIND_S = 5.0
"""How far behind the least a group may begin, where others have used more than that."""

MOST_PASSED = 10
"""How many times what a group is ahead of the least later ones may use before its turn."""

_NEGLIGIBLE_S = 1e-6

GroupName = tuple[str, str]


def group_of(job: Job) -> GroupName:
    """Return whose share a job's runs count to: a job without a group is one of its own."""
    return ("job", job.name) if job.group is None else ("group", job.group)


def _group(name: GroupName) -> Group:
    kind, given = name
    known = GROUPS.get(given) if kind == "group" else None
    return known or Group(given)


@dataclass(slots=True, eq=False)
class Waiting:
    """A run that waits: for the priority and the group that its job had, since when."""

    run: ActiveRun
    group: GroupName
    priority: int
    pool: str
    since_ns: int

    @property
    def is_valid(self) -> bool:
        """Whether it waits still: it may have been cancelled, or moved."""
        run = self.run
        return run.stage is Stage.SLOT and run.stop is None and run.job.pool == self.pool


@dataclass(slots=True)
class Place:
    """What a group has used of a pool, by its weight, within bounds, as it waits in one priority.

    ``may_be_there``: none of its runs waits, and its turn has not come since. ``came`` is the step
    at which it came to wait, ``since`` that from which on it has done so without a slot, and
    ``passed_s`` the most that groups have used since, by weight, that came later.
    """

    least_s: float = 0.0
    most_s: float = 0.0
    is_there: bool = False
    may_be_there: bool = False
    is_full: bool = False
    came: int = 0
    since: int = 0
    passed_s: float = 0.0


@dataclass(slots=True)
class Line:
    """The groups that wait in one priority. ``level_s``: the most that the least can have used."""

    places: dict[GroupName, Place] = field(default_factory=dict)
    level_s: float = 0.0
    steps: int = 0

    def use(self, name: GroupName, used_s: float) -> None:
        """Count what a group has used, by weight: to it, and to those that it passes."""
        place = self.places[name]
        place.least_s += used_s
        place.most_s += used_s
        for other in self.places.values():
            if other is not place and place.came >= other.since:
                other.passed_s += used_s

    def note_slot(self, name: GroupName) -> None:
        """Note that a group waits without a slot from now on at the earliest."""
        self.steps += 1
        place = self.places[name]
        place.since, place.passed_s = self.steps, 0.0

    def come(self, name: GroupName) -> None:
        """Let a group come to wait: it is level with the least of the others that may go."""
        place = self.places[name]
        others = [each for key, each in self.places.items() if key != name]
        perhaps = [each for each in others if each.may_be_there]
        least_s, most_s = 0.0, self.level_s
        if any(each.is_there for each in others):
            least_s = min(each.least_s for each in others if each.is_there or each.may_be_there)
        else:
            most_s = max([most_s, *(each.most_s for each in perhaps)])
        if place.may_be_there:
            least_s = min(least_s, place.least_s)
        else:
            self.note_slot(name)
        self.steps += 1
        place.came = self.steps
        place.least_s = least_s
        place.most_s = max(place.most_s, most_s + MOST_BEHIND_S)
        place.is_there, place.may_be_there = True, False

    def leave(self, name: GroupName) -> None:
        """Let a group wait no longer, or not as long as it may have no more slots."""
        place = self.places[name]
        place.is_there, place.may_be_there = False, not place.is_full

    def note_full(self, name: GroupName, *, is_full: bool) -> None:
        """Note whether a group may have no more slots; after that it is level with the others."""
        place = self.places[name]
        if place.is_full and not is_full:
            place.most_s = max(place.most_s, self.level_s)
        place.is_full = is_full

    def give(self, name: GroupName) -> None:
        """Let it be a group's turn: all that have used less are known not to be there.

        That does not hold where it may have been its turn as it was passed; then it may be level.
        """
        mine = self.places[name]
        others = [each for key, each in self.places.items() if key != name and each.is_there]
        least_s = min([mine.least_s, *(each.least_s for each in others)])
        mine.least_s = least_s = max(least_s, mine.least_s - mine.passed_s / MOST_PASSED)
        for place in self.places.values():
            if place.most_s < least_s:
                place.may_be_there = False

    def note_level(self) -> None:
        """Note how much the group has used at most that has used least."""
        most = [place.most_s for place in self.places.values() if place.is_there]
        self.level_s = max(self.level_s, min(most, default=0.0))


Lines = dict[int, dict[GroupName, list[Waiting]]]
"""Who may go, by priority and group."""


@dataclass(eq=False)
class PoolTurns:
    """One pool as it is seen from outside. ``in_use`` are its slots by group."""

    slots: Slots
    all_in_use: Counter[GroupName]
    holders: dict[ActiveRun, GroupName] = field(default_factory=dict)
    in_use: Counter[GroupName] = field(default_factory=Counter)
    waiting: dict[ActiveRun, Waiting] = field(default_factory=dict)
    lines: dict[int, Line] = field(default_factory=dict)
    given: int = 0
    at_ns: int = 0

    @property
    def name(self) -> str:
        """Its name."""
        return self.slots.pool.name

    @property
    def has_room(self) -> bool:
        """Whether it has a free slot."""
        workers = self.slots.pool.workers
        return workers is None or len(self.holders) < workers

    def is_full(self, name: GroupName) -> bool:
        """Whether a group may have no more slots."""
        most = _group(name).max_running
        return most is not None and self.all_in_use[name] >= most

    def may_go(self) -> Lines:
        """Return the runs that wait and may go."""
        lines: Lines = {}
        for each in self.waiting.values():
            if each.is_valid and not self.is_full(each.group):
                lines.setdefault(each.priority, {}).setdefault(each.group, []).append(each)
        return lines

    def bring_up_to(self, now_ns: int) -> None:
        """Count what groups have used meanwhile, and see who has come and who has gone."""
        self._count_use((now_ns - self.at_ns) / 1e9)
        self.at_ns = now_ns
        for run in [run for run in self.waiting if run.stage is Stage.ENDED]:
            del self.waiting[run]
        for each in self.waiting.values():
            if each.is_valid:  # it is counted from when it waits, though its group be full
                line = self.lines.setdefault(each.priority, Line())
                line.places.setdefault(each.group, Place())
        there = self.may_go()
        for priority, line in self.lines.items():
            self._see_who_is_there(line, there.get(priority, {}).keys())

    def _count_use(self, passed_s: float) -> None:
        for line in self.lines.values():
            for name in line.places:
                line.use(name, self.in_use[name] / _group(name).weight * passed_s)

    def _see_who_is_there(self, line: Line, there: Collection[GroupName]) -> None:
        for name, place in line.places.items():
            line.note_full(name, is_full=self.is_full(name))
            if place.is_there and name not in there:
                line.leave(name)
        line.note_level()
        for name in there:
            if not line.places[name].is_there:
                line.come(name)

    def forget(self) -> None:
        """Forget what was used in a priority in which nobody waits: there are slots for all.

        Of a group that is full the pool may not know yet that none of its runs waits any more.
        """
        kept = {each.priority for each in self.waiting.values() if each.is_valid}
        for priority, line in list(self.lines.items()):
            is_known = not any(place.is_full for place in line.places.values())
            if priority not in kept and is_known:
                del self.lines[priority]

    # --- what happens ---------------------------------------------------------------------

    def wait(self, run: ActiveRun, since_ns: int) -> None:
        """Let a run wait, perhaps for another priority than before."""
        name, priority = group_of(run.job), run.job.priority
        self.waiting[run] = Waiting(run, name, priority, self.name, since_ns)

    def take(self, run: ActiveRun) -> None:
        """Let a run have a slot."""
        name = self.holders[run] = group_of(run.job)
        for line in self.lines.values():
            if name in line.places:
                line.use(name, START_S / _group(name).weight)
        each = self.waiting.pop(run, None)
        line = self.lines.get(each.priority) if each is not None else None
        if each is not None and line is not None and each.group in line.places:
            line.give(each.group)
        for line in self.lines.values():
            if name in line.places:
                line.note_slot(name)
        self.in_use[name] += 1
        self.all_in_use[name] += 1

    def release(self, run: ActiveRun) -> None:
        """Let a run give its slot back, if it has one."""
        name = self.holders.pop(run, None)
        if name is not None:
            self.in_use[name] -= 1
            for line in self.lines.values():
                if name in line.places:
                    line.note_slot(name)
            self.all_in_use[name] -= 1


class Turns:
    """Watches whose turn it is in the pools of each daemon of a world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._pools: list[PoolTurns] = []
        self._since_ns: dict[ActiveRun, int] = {}
        self._all_in_use: Counter[GroupName] = Counter()
        world.on_core.append(self._begin)

    def _begin(self, core: Core) -> None:
        self._pools, self._since_ns, self._all_in_use = [], {}, Counter()
        core._register.pools = _Watched(self._watch)

    def _watch(self, slots: Slots) -> None:
        """Have all that is done to a pool be seen."""
        pool = PoolTurns(slots, self._all_in_use, at_ns=self._world.clock.monotonic_ns())
        self._pools.append(pool)
        wait, take, release = slots.wait, slots.take, slots.release
        is_free_for, next_waiting = slots.is_free_for, slots.next_waiting
        see = self._world.watching(self._see)
        see_answer = self._world.watching(self._see_answer)
        see_choice = self._world.watching(self._see_choice)
        see_newcomer = self._world.watching(self._see_newcomer)

        def watched_wait(run: ActiveRun, now_ns: int) -> None:
            wait(run, now_ns)
            see(partial(self._waits, pool, run))

        def watched_take(run: ActiveRun) -> None:
            has_come = run.stage not in {Stage.STARTING, Stage.RUNNING, Stage.SLOT}
            if has_come and pool.slots.pool.workers is not None:
                see_newcomer(pool, run)
            take(run)
            see(partial(self._takes, pool, run))

        def watched_release(run: ActiveRun) -> None:
            release(run)
            see(partial(pool.release, run))

        def watched_is_free_for(job: Job) -> bool:
            see(lambda: None)
            answer = is_free_for(job)
            see_answer(pool, job, answer)
            return answer

        def watched_next_waiting() -> ActiveRun | None:
            see(lambda: None)
            choice = Choice(pool)
            in_line = [each.run for each in pool.waiting.values() if each.is_valid]
            may_go = [each.run for each in choice.may_go()]
            stock = Stock(self._world, pool.name, in_line, may_go)
            run = next_waiting()
            see_choice(choice, stock, run)
            return run

        slots.wait = watched_wait  # type: ignore[method-assign]
        slots.take = watched_take  # type: ignore[method-assign]
        slots.release = watched_release  # type: ignore[method-assign]
        slots.is_free_for = watched_is_free_for  # type: ignore[method-assign]
        slots.next_waiting = watched_next_waiting  # type: ignore[method-assign]

    def _see(self, what: Callable[[], None]) -> None:
        """Note what is done in this moment, between what was before and what is after it."""
        now_ns = self._world.clock.monotonic_ns()
        for pool in self._pools:
            pool.bring_up_to(now_ns)
        what()
        for pool in self._pools:
            pool.bring_up_to(now_ns)

    def _waits(self, pool: PoolTurns, run: ActiveRun) -> None:
        pool.wait(run, self._since_ns.setdefault(run, self._world.clock.monotonic_ns()))

    def _takes(self, pool: PoolTurns, run: ActiveRun) -> None:
        self._since_ns.pop(run, None)
        pool.take(run)

    def _see_answer(self, pool: PoolTurns, job: Job, answer: bool) -> None:
        """P4: one that comes waits only if there is no slot for it, or others wait for that."""
        lines, is_full = pool.may_go(), pool.is_full(group_of(job))
        is_free = pool.has_room and not is_full and not lines
        if is_free:
            pool.forget()
        if answer != is_free:
            why = f"{len(pool.holders)} have one, {sum(map(len, lines.values()))} groups wait"
            said = "gets a slot" if answer else "waits for a slot"
            self._breach(f"it {said} of {pool.name}, of which {why}", job.name)

    def _see_newcomer(self, pool: PoolTurns, run: ActiveRun) -> None:
        """P4: a run that comes has no slot before what lies in the ledger of a higher priority."""
        stock = Stock(self._world, pool.name, (), ())
        for stored in stock.higher(run, lambda group: pool.is_full(("group", group))):
            text = f"it comes and is given a slot of {pool.name} before {stored}"
            self._breach(text, run.run.job, run.run.id)

    def _see_choice(self, choice: Choice, stock: Stock, run: ActiveRun | None) -> None:
        """P4: a free slot goes to whose turn it is, also of those that wait in the ledger."""
        pool = choice.pool
        if run is None:
            if choice.has_room and not choice.lines:
                pool.forget()
            for text in choice.wrong_with_none():
                self._breach(text)
            return
        pool.given += 1
        for text in choice.wrong_with(run):
            self._breach(f"it is given a slot of {pool.name}, {text}", run.run.job, run.run.id)
        if not choice.is_by_age:
            for stored in stock.passed_over(run, lambda group: pool.is_full(("group", group))):
                text = f"it is given a slot of {pool.name} before {stored}, which is not in line"
                self._breach(text, run.run.job, run.run.id)
        self._world.turns.update(choice.shows())

    def _breach(self, text: str, job: str | None = None, run: int | None = None) -> None:
        self._world.breach(Broken("P4", text, job=job, run=run))


def _place_of(times: int) -> int:
    """Return which of ten slots is by age, after so many tens."""
    return (AGEING - 1 - AGEING_MOVES * times) % AGEING


class Choice:
    """What there is to choose from when a pool has a slot to give."""

    def __init__(self, pool: PoolTurns) -> None:
        self.pool = pool
        self.has_room = pool.has_room
        self.lines = pool.may_go()
        self._used_s = {
            (priority, name): (place.least_s, place.most_s, place.passed_s)
            for priority, line in pool.lines.items()
            for name, place in line.places.items()
        }
        times, place = divmod(pool.given, AGEING)
        self.is_for_oldest = times % AGEING == AGEING - 1 and place == _place_of(times)
        self.is_by_age = place == _place_of(times)

    def wrong_with_none(self) -> Iterator[str]:
        """Yield what is wrong with a slot that nobody gets."""
        if self.has_room and self.lines:
            yield f"nobody is given a slot of {self.pool.name}, though some wait: {self.lines}"

    def wrong_with(self, run: ActiveRun) -> Iterator[str]:
        """Yield what is wrong with a run that gets the slot."""
        if not self.has_room:
            yield "which has none"
        priority, name = run.job.priority, group_of(run.job)
        mine = self.lines.get(priority, {}).get(name, [])
        if run not in [each.run for each in mine]:
            yield "and may not go"
            return
        if priority not in self._priorities():
            yield f"and it is the turn of priority {self._priorities()}, not of {priority}"
            return
        if self.is_for_oldest:
            since_ns = min(each.since_ns for each in self.may_go() if each.priority == priority)
            if since_ns not in {each.since_ns for each in mine}:
                yield "and another group's run has waited longer"
        for other in () if self.is_for_oldest else self.lines[priority]:
            least_s, _, passed_s = self._used_s[priority, name]
            most_s = self._used_s[priority, other][1]
            if other != name and least_s > most_s + passed_s / MOST_PASSED + _NEGLIGIBLE_S:
                yield (
                    f"and its group {name} has used {least_s:.3f} s at least, by weight, "
                    f"{other} {most_s:.3f} s at most"
                )
        first = min(each.run.run.due for each in mine)
        if run.run.due != first:
            yield f"and another one of its group was due at {first}"

    def _priorities(self) -> set[int]:
        """Return which priority's turn it may be."""
        if not self.is_by_age:
            return {max(self.lines)}
        until_ns = min(each.since_ns for each in self.may_go()) + AS_LONG_NS
        return {min(each.priority for each in self.may_go() if each.since_ns <= until_ns)}

    def may_go(self) -> Iterator[Waiting]:
        """Yield who waits and may go."""
        for groups in self.lines.values():
            for runs in groups.values():
                yield from runs

    def shows(self) -> Iterator[str]:
        """Yield what would be seen of a choice that is made wrongly."""
        if len(self.lines) > 1:
            yield "priority"
            if max(self.lines) not in self._priorities():
                yield "age"
        groups = self.lines[max(self.lines)]
        if len(groups) > 1:
            yield "share"
        if any(len({each.run.run.due for each in runs}) > 1 for runs in groups.values()):
            yield "due"


class _Watched(dict[str, Slots]):
    """The pools of a daemon, each of which is watched from the first."""

    def __init__(self, watch: Callable[[Slots], None]) -> None:
        super().__init__()
        self._watch = watch

    def __setitem__(self, name: str, slots: Slots) -> None:
        self._watch(slots)
        super().__setitem__(name, slots)

    def setdefault(self, name: str, slots: Slots) -> Slots:  # type: ignore[override]
        """Return the pool of a name, which is perhaps this one."""
        if name not in self:
            self[name] = slots
        return self[name]
