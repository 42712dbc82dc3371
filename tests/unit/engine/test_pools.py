"""Slots: how many at once, and who is next."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crond_py.crontab.model import Group, Job, Pool, StartupTrigger
from crond_py.engine import pools
from crond_py.engine.lines import MOST_PASSED, Ticket
from crond_py.engine.pools import LONGEST_WAITING_EVERY, Slots
from crond_py.engine.records import ActiveRun, Stage
from crond_py.engine.shares import Shares
from crond_py.model import Cause, Run, State

NOW = datetime(2026, 5, 1, tzinfo=UTC)
SECOND_NS = 1_000_000_000


class Hands:
    """A monotonic clock that only a test moves."""

    ns = 0

    def __call__(self) -> int:
        """Return its reading in nanoseconds."""
        return self.ns


HANDS = Hands()


def waiting(
    name: str, priority: int = 0, due: int = 0, *, group: str | None = None, pool: str = "p"
) -> ActiveRun:
    """Return a run that waits for a slot."""
    job = Job(name, StartupTrigger(), "true", priority=priority, pool=pool, group=group)
    instant = NOW + timedelta(seconds=due)
    run = Run(1, name, 0, instant, Cause.SCHEDULE, State.QUEUED, instant)
    return ActiveRun(job, run, Stage.SLOT)


def begin(slots: Slots) -> ActiveRun | None:
    """Give a slot to the run whose turn it is, as the engine does."""
    run = slots.next_waiting()
    if run is not None:
        run.stage = Stage.STARTING
    return run


def end(slots: Slots, run: ActiveRun) -> None:
    """Let a run end."""
    run.stage = Stage.ENDED
    slots.release(run)


def shares_of(*groups: Group) -> Shares:
    """Return the shares of a crontab with these groups."""
    shares = Shares(HANDS)
    shares.set_groups({group.name: group for group in groups})
    return shares


def test_no_more_than_workers() -> None:
    """P4: a pool gives out as many slots as it has, and again what was given back."""
    slots = Slots(Pool("p", 2), Shares(HANDS))
    for name in "abc":
        slots.wait(waiting(name), 0)
    first, _, none = begin(slots), begin(slots), begin(slots)
    assert none is None
    assert first is not None
    end(slots, first)
    assert begin(slots) is not None


def test_no_bound_by_default() -> None:
    """A pool without ``workers`` never says no."""
    slots = Slots(Pool("p"), Shares(HANDS))
    for number in range(1_000):
        run = waiting(f"j{number}")
        assert slots.is_free_for(run.job)
        slots.take(run)


def test_turns() -> None:
    """Higher priority goes first, then the earlier due, then who came first."""
    slots = Slots(Pool("p"), Shares(HANDS))
    for run in (
        waiting("a", 0, 5, group="g"),
        waiting("b", 0, 1, group="g"),
        waiting("c", 7, 9, group="g"),
        waiting("d", 0, 1, group="g"),
    ):
        slots.wait(run, 0)
    order = [run.job.name for run in iter(lambda: begin(slots), None)]
    assert order == ["c", "b", "d", "a"]


def test_who_has_gone_is_passed_over() -> None:
    """A cancelled run holds up nobody and takes no slot."""
    slots = Slots(Pool("p", 1), Shares(HANDS))
    first, second = waiting("a"), waiting("b")
    slots.wait(first, 0)
    slots.wait(second, 0)
    first.stage = Stage.ENDED
    assert slots.waiting == 1
    assert begin(slots) is second
    assert begin(slots) is None
    assert slots.waiting == 0
    assert slots.taken == 1


def test_who_waits_again_waits_once() -> None:
    """A run that comes back to wait (its retry, or its job was moved) has one place."""
    slots = Slots(Pool("p"), Shares(HANDS))
    run = waiting("a")
    slots.wait(run, 0)
    slots.wait(run, 0)
    assert slots.waiting == 1
    assert begin(slots) is run
    assert begin(slots) is None


class Crowded:
    """A pool, and groups that always have more to do; runs take the seconds that are given."""

    def __init__(self, workers: int, *groups: Group) -> None:
        self.hands = Hands()
        self.shares = Shares(self.hands)
        self.shares.set_groups({group.name: group for group in groups})
        self.slots = Slots(Pool("p", workers), self.shares)
        self.started: list[ActiveRun] = []
        self.used: Counter[str | None] = Counter()
        self._running: list[tuple[int, int, ActiveRun, int]] = []

    def put(self, group: str, runs: int, seconds: float, priority: int = 0) -> None:
        """Let runs of a group come."""
        for number in range(runs):
            run = waiting(f"{group}{number}", priority, due=number, group=group)
            run.ready_ns = round(seconds * SECOND_NS)  # how long it takes, nobody else asks for it
            self.slots.wait(run, self.hands.ns)

    def play(self, seconds: float) -> None:
        """Let time pass: runs end, and others begin."""
        until_ns = self.hands.ns + round(seconds * SECOND_NS)
        self._fill()
        while self._running and self._running[0][0] <= until_ns:
            self.hands.ns, _, run, since_ns = heapq.heappop(self._running)
            self.used[run.job.group] += self.hands.ns - since_ns
            end(self.slots, run)
            self._fill()
        self.hands.ns = until_ns

    def _fill(self) -> None:
        while (run := begin(self.slots)) is not None:
            self.started.append(run)
            begun = (self.hands.ns + run.ready_ns, len(self.started), run, self.hands.ns)
            heapq.heappush(self._running, begun)


@pytest.mark.parametrize(("weight", "other"), [(3, 1), (5, 2), (1, 1), (7, 3)])
@pytest.mark.parametrize("workers", range(1, 17))
def test_starts_are_shared_by_weight(workers: int, weight: int, other: int) -> None:
    """P4: of runs that take the same time, a group of weight 3 has three of four begin."""
    crowded = Crowded(workers, Group("big", weight), Group("small", other))
    crowded.put("small", 2_000, 1.0)
    crowded.put("big", 2_000, 1.0)
    crowded.play(800 / workers)
    had = Counter(run.job.group for run in crowded.started)
    assert had["big"] / had["small"] == pytest.approx(weight / other, rel=0.1)


@pytest.mark.parametrize("seconds", [0.0, 0.001, 5.0], ids=str)
@pytest.mark.parametrize("workers", [1, 2, 3, 5])
def test_short_runs_are_shared_by_number(workers: int, seconds: float) -> None:
    """P4: also where runs take hardly any time, or none that the clock would show."""
    crowded = Crowded(workers, Group("big", 3), Group("small", 1))
    crowded.put("big", 700, seconds)
    crowded.put("small", 700, seconds)
    if seconds:
        crowded.play(400 * seconds / workers)
    else:
        for run in (begin(crowded.slots) for _ in range(400)):
            if run is not None:
                crowded.started.append(run)
                end(crowded.slots, run)
            else:
                end(crowded.slots, crowded.started[-1])
    had = Counter(run.job.group for run in crowded.started[:400])
    assert sum(had.values()) >= 399
    assert had["big"] / had["small"] == pytest.approx(3, rel=0.1)


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7])
def test_slots_are_shared_by_time(workers: int) -> None:
    """P4: who has runs that take long has no more of the slots for that."""
    crowded = Crowded(workers, Group("long"), Group("short"))
    crowded.put("long", 400, 60.0)
    crowded.put("short", 20_000, 1.0)
    crowded.play(6_000)
    assert crowded.used["long"] / crowded.used["short"] == pytest.approx(1, rel=0.1)


@pytest.mark.parametrize("elsewhere", ["before", "in another pool", "without bound"])
def test_what_nobody_else_wanted_is_not_owed(elsewhere: str) -> None:
    """P4: who comes into a crowd gets its share at once, whatever it has used before, or where."""
    crowded = Crowded(1, Group("crowd"), Group("late"))
    if elsewhere == "before":
        crowded.put("late", 1_000, 1.0)
        crowded.play(1_000)
    else:
        other = Slots(Pool("q", 5 if elsewhere == "in another pool" else None), crowded.shares)
        for number in range(1_000):
            run = waiting(f"other{number}", group="late", pool="q")
            other.take(run)
            if number < 995:
                end(other, run)
    crowded.put("crowd", 500, 1.0)
    crowded.play(10)
    crowded.started.clear()
    crowded.put("late", 1, 1.0)
    crowded.play(2)
    assert "late" in {run.job.group for run in crowded.started}


def test_one_slot_is_no_prize_for_whoever_has_many() -> None:
    """P4: one run of another group does not wait for a crowd that came before it."""
    slots = Slots(Pool("p", 4), Shares(HANDS))
    for number in range(10_000):
        slots.wait(waiting(f"crowd{number}", group="crowd"), 0)
    running = [begin(slots) for _ in range(4)]
    late = waiting("late", due=1)
    slots.wait(late, 0)
    assert running[0] is not None
    end(slots, running[0])
    assert begin(slots) is late


def test_who_comes_back_has_saved_nothing_up() -> None:
    """A group that did nothing for long gets its share from now on, and not all slots at first."""
    slots = Slots(Pool("p", 1), Shares(HANDS))
    for number in range(100):
        slots.wait(waiting(f"a{number}", group="a"), 0)
    for _ in range(50):
        run = begin(slots)
        assert run is not None
        end(slots, run)
    for number in range(100):
        slots.wait(waiting(f"b{number}", group="b"), 0)
    had: Counter[str | None] = Counter()
    for _ in range(20):
        run = begin(slots)
        assert run is not None
        had[run.job.group] += 1
        end(slots, run)
    assert abs(had["a"] - had["b"]) <= 2


@pytest.mark.parametrize("idle_s", [0, 5_000])
def test_who_was_alone_for_long_is_not_kept_out(idle_s: int) -> None:
    """P4: a newcomer gets its share, not all, of a pool that one group had for itself."""
    crowded = Crowded(2, Group("old"), Group("new"))
    crowded.put("old", 10_000, 1.0)
    crowded.play(2_000)
    crowded.play(idle_s)
    crowded.put("old", 1_000, 1.0)
    crowded.put("new", 1_000, 1.0)
    crowded.play(1)
    crowded.started.clear()
    crowded.play(100)
    had = Counter(run.job.group for run in crowded.started)
    assert had["old"] / had["new"] == pytest.approx(1, rel=0.1)


def turn_of(run: ActiveRun, slots: Slots) -> int:
    """Return at which turn a run gets a slot under a flood of high priority."""
    for turn in range(1, 100):
        slots.wait(waiting(f"high{turn}", 9, group="flood"), turn)
        begun = begin(slots)
        assert begun is not None
        if begun is run:
            return turn
        end(slots, begun)
    pytest.fail("it never got a slot")


def test_nobody_starves() -> None:
    """P4: under a flood of higher priority, every tenth slot goes to the one that waits longest."""
    slots = Slots(Pool("p", 1), Shares(HANDS))
    low = waiting("low", priority=-1_000_000)
    slots.wait(low, 0)
    assert turn_of(low, slots) == LONGEST_WAITING_EVERY


@pytest.mark.parametrize("group", "gh")
@pytest.mark.parametrize("groups", [2, 3, 5, 7, 10, 11, 13])
def test_nobody_starves_though_its_group_is_full_time_and_again(groups: int, group: str) -> None:
    """P4: it may go in one of some slots only, by turns; one of those is the one that is by age."""
    names = "ghijklmnopqrs"[:groups]
    slots = Slots(Pool("p", groups), shares_of(*(Group(name, max_running=1) for name in names)))
    for number in range(300):
        for name in names:
            slots.wait(waiting(f"high{number}", 5, number, group=name), 1 + number)
    low = waiting("low", group=group)
    slots.wait(low, 0)
    running = deque(run for _ in names if (run := begin(slots)) is not None)
    for _ in range(30 * groups):
        end(slots, running.popleft())
        run = begin(slots)
        assert run is not None
        if run is low:
            return
        running.append(run)
    pytest.fail("it never got a slot")


def test_nobody_starves_though_its_group_has_slots_of_a_higher_priority() -> None:
    """P4: a group uses more than its share by those, and its low run has its turn all the same."""
    clock = Hands()
    slots = Slots(Pool("p", 1), Shares(clock))
    low = waiting("low", 0, group="a")
    slots.wait(low, 0)
    for number in range(2000):
        slots.wait(waiting(f"flood{number}", 0, number, group="b"), 2 * SECOND_NS)
    for turn in range(100):
        for number in range(3):
            slots.wait(waiting(f"high{number}", 5, turn, group="a"), 2 * SECOND_NS + clock.ns)
        for _ in range(4):
            run = begin(slots)
            assert run is not None
            if run is low:
                return
            clock.ns += SECOND_NS
            end(slots, run)
    pytest.fail("it never got a slot")


@pytest.mark.parametrize("apart_ns", [0, 20_000_000], ids=["at once", "in 0.8 s"])
@pytest.mark.parametrize("is_first", [True, False])
def test_who_is_due_with_a_flood_has_the_tenth_slot(apart_ns: int, is_first: bool) -> None:
    """P4: of runs of one instant none has waited longest: the tenth slot is the lowest one's."""
    slots = Slots(Pool("p", 1), shares_of())
    low = waiting("low")
    runs = [waiting(f"high{number}", 10) for number in range(40)]
    runs.insert(0 if is_first else 40, low)
    for number, run in enumerate(runs):
        slots.wait(run, number * apart_ns)
    order = []
    while (run := begin(slots)) is not None:
        order.append(run)
        end(slots, run)
    assert order.index(low) == LONGEST_WAITING_EVERY - 1


def test_who_came_a_second_earlier_has_waited_longest() -> None:
    """P4: the tenth slot is no more for the lowest priority than for one that waits longer."""
    slots = Slots(Pool("p", 1), shares_of())
    middle = waiting("middle", 5)
    slots.wait(middle, 0)
    for number in range(20):
        slots.wait(waiting(f"high{number}", 10), SECOND_NS + 1)
        slots.wait(waiting(f"low{number}"), SECOND_NS + 1)
    order = []
    while (run := begin(slots)) is not None:
        order.append(run)
        end(slots, run)
    assert order.index(middle) == LONGEST_WAITING_EVERY - 1


def test_full_groups_cost_nobody_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: with thousands that wait for the ceilings of their groups a slot costs what it did."""
    groups = [Group(f"full{number}", max_running=1) for number in range(1_000)]
    slots = Slots(Pool("p", 2_000), shares_of(*groups))
    for group in groups:
        slots.take(waiting("hung", group=group.name))
        for _ in range(3):
            slots.wait(waiting("kept", -1, group=group.name), 0)
    others = [waiting(f"other{number}") for number in range(100)]
    for run in others:
        slots.wait(run, 1)
    looked = []
    is_valid = Slots._is_valid

    def counted(self: Slots, ticket: Ticket) -> bool:
        looked.append(ticket)
        return is_valid(self, ticket)

    monkeypatch.setattr(Slots, "_is_valid", counted)
    for line in slots._lines.values():
        line._is_valid = slots._is_valid
    for run in others:
        assert slots.is_free_for(run.job) is False
        assert begin(slots) is run
    assert slots.is_free_for(waiting("another").job)
    assert len(looked) < 20 * len(others)


def test_ever_new_groups_keep_nobody_out() -> None:
    """P4: who has used the pool gets its share again, though all others have used nothing yet."""
    crowded = Crowded(2, Group("old"))
    crowded.put("old", 1, 100.0)
    for number in range(4):
        crowded.put(f"first{number}", 1, 5.0)
    crowded.play(10)
    crowded.put("old", 1, 100.0)
    for number in range(2_000):
        while crowded.slots.waiting < 4:
            crowded.put(f"new{number}-{crowded.slots.waiting}", 1, 5.0)
        crowded.play(5)
        if [run.job.group for run in crowded.started].count("old") > 1:
            break
    else:
        pytest.fail("it never got a slot again")
    assert crowded.hands.ns < 2_000 * SECOND_NS
    (line,) = crowded.slots._lines.values()
    assert len(line._places) < 300


@pytest.mark.parametrize("a_second", [1, 2, 4])
@pytest.mark.parametrize("used_s", [5, 20, 60])
@pytest.mark.parametrize("workers", [1, 3])
def test_a_line_that_grows_keeps_nobody_out(workers: int, used_s: int, a_second: int) -> None:
    """P4: those that come later, all together, use ten times what one owes, then it is next."""
    crowded = Crowded(workers, Group("old"))
    crowded.put("first", 1, 1.0)
    crowded.put("old", workers, used_s / workers)
    for number in range(workers):
        crowded.put(f"beside{number}", 1, used_s)
    crowded.play(used_s + 1.5)
    for number in range(20 * workers):
        crowded.put(f"there{number}", 1, 1.0)
    crowded.put("old", 1, 1.0)
    came_ns = crowded.hands.ns
    for second in range(60 * used_s):
        if [run.job.group for run in crowded.started].count("old") > workers:
            break
        for number in range(a_second * workers):
            crowded.put(f"new{second}-{number}", 1, 1.0)
        crowded.play(1)
    waited_s = (crowded.hands.ns - came_ns) / SECOND_NS
    assert waited_s <= 20 + MOST_PASSED * used_s / workers + 5


@pytest.mark.parametrize("workers", [1, 2, 3, 6])
def test_who_came_later_has_its_share_by_weight(workers: int) -> None:
    """P4: where the same groups wait on, who was there first has no more for that."""
    crowded = Crowded(workers, Group("long"), Group("short", 3))
    crowded.put("long", 2_000, 20.0)
    crowded.play(40)
    crowded.put("short", 20_000, 1.0)
    crowded.play(100)
    crowded.used.clear()
    crowded.play(4_000)
    assert crowded.used["short"] / crowded.used["long"] == pytest.approx(3, rel=0.1)


def test_many_that_move_are_put_in_order_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """P4: a reload that gives a thousand waiting runs another priority does not sort each time."""
    slots = Slots(Pool("p", 1), shares_of(Group("g")))
    slots.take(waiting("busy"))
    runs = [waiting(f"job{number}", group="g") for number in range(1_000)]
    for number, run in enumerate(runs):
        slots.wait(run, number)
    sorts = []

    def counted(each: object, **key: object) -> list[object]:
        sorts.append(each)
        return sorted(each, **key)  # type: ignore[call-overload, no-any-return]

    monkeypatch.setattr(pools, "sorted", counted, raising=False)
    for run in runs:
        run.job = replace(run.job, priority=1)
        slots.wait(run, 2_000)
    assert slots.oldest_since_ns == 0
    assert len(sorts) == 1


def test_nobody_starves_behind_what_may_not_go() -> None:
    """P4: what waits longest but may not go, as its group is full, takes nobody's turn from it."""
    shares = shares_of(Group("full", max_running=1), Group("flood"), Group("low"))
    slots, other = Slots(Pool("p", 1), shares), Slots(Pool("q"), shares)
    other.take(waiting("hung", group="full", pool="q"))
    slots.wait(waiting("kept", -10, group="full"), 0)
    low = waiting("low", -5, group="low")
    slots.wait(low, 1)
    assert turn_of(low, slots) == LONGEST_WAITING_EVERY


def test_who_waited_elsewhere_has_waited_longest() -> None:
    """A run that a reload moves to another pool keeps since when it has waited."""
    shares = shares_of()
    one, two = Slots(Pool("p", 1), shares), Slots(Pool("q", 1), shares)
    moved = waiting("moved", -5)
    one.wait(moved, 0)
    for number in range(50):
        two.wait(waiting(f"a{number}", pool="q"), 1)
    moved.job = replace(moved.job, pool="q")
    two.wait(moved, 2)
    assert one.waiting == 0
    order = []
    while (run := begin(two)) is not None:
        order.append(run)
        end(two, run)
    assert order.index(moved) == LONGEST_WAITING_EVERY - 1


def test_a_full_group_of_which_nobody_waits_keeps_no_line() -> None:
    """P4: where nobody waits nothing is counted, whatever waited before and was cancelled."""
    shares = shares_of(Group("full", max_running=1))
    slots = Slots(Pool("p"), shares)
    slots.take(waiting("hung", group="full"))
    cancelled = waiting("cancelled", group="full")
    slots.wait(cancelled, 0)
    cancelled.stage = Stage.ENDED
    assert slots.is_free_for(waiting("other").job)
    assert not slots._lines


def test_what_has_gone_leaves_nothing_behind() -> None:
    """However many have waited and gone behind one that hangs, and of however many groups."""
    shares = shares_of(Group("g"))
    slots = Slots(Pool("p", 1), shares)
    hung = waiting("hung")
    slots.take(hung)
    for number in range(10_000):
        run = waiting("job", group="g" if number % 2 else f"g{number}")
        slots.wait(run, number)
        run.stage = Stage.ENDED
    (line,) = slots._lines.values()
    assert line._tickets <= 200
    assert sum(len(place.runs) for place in line._places.values()) <= 200
    assert len(slots._arrivals) <= 200
    end(slots, hung)
    assert begin(slots) is None
    assert not slots._stakes
    assert not slots._lines
    assert not shares._shares


def test_a_ceiling_holds_in_all_pools_and_holds_up_nobody_else() -> None:
    """P4: a group has no more than max_running, wherever; others go past what it keeps waiting."""
    shares = shares_of(Group("g", max_running=2))
    one, two = Slots(Pool("p", 4), shares), Slots(Pool("q", 4), shares)
    for number in range(3):
        one.wait(waiting(f"a{number}", group="g"), 0)
        two.wait(waiting(f"b{number}", group="g", pool="q"), 0)
    first = begin(one)
    assert first is not None
    assert begin(two) is not None
    assert begin(one) is None
    assert begin(two) is None
    assert one.is_free_for(waiting("other").job)
    assert not one.is_free_for(waiting("another", group="g").job)
    end(one, first)
    assert begin(two) is not None
    assert begin(one) is None


def test_a_reload_changes_weights_and_ceilings_of_what_waits() -> None:
    """What waits goes by the file in force; what runs stays counted."""
    shares = shares_of(Group("g", max_running=1))
    slots = Slots(Pool("p"), shares)
    for number in range(3):
        slots.wait(waiting(f"a{number}", group="g"), 0)
    assert begin(slots) is not None
    assert begin(slots) is None
    shares.set_groups({"g": Group("g", max_running=2)})
    assert begin(slots) is not None
    assert begin(slots) is None
    shares.set_groups({})
    assert begin(slots) is not None


@given(
    st.integers(1, 3),
    st.lists(
        st.tuples(
            st.sampled_from(["wait", "end", "cancel"]),
            st.sampled_from("abc"),
            st.integers(-2, 2),
            st.integers(0, 5),
        ),
        max_size=120,
    ),
)
def test_slots_are_never_idle_nor_too_many(
    workers: int, steps: list[tuple[str, str, int, int]]
) -> None:
    """P4: at most ``workers`` run, at most ``max_running`` of a group, and nobody waits who may go.

    Whoever gets a slot has the highest priority of those that may go, one of ten the lowest, as all
    have waited as long.
    """
    turns = 0
    by_age = {9, 16, 23, 30, 47, 54, 61, 78, 85, 92, 109, 116}  # one of each ten
    groups = {"a": Group("a", 1), "b": Group("b", 5), "c": Group("c", 0.5, max_running=1)}
    slots = Slots(Pool("p", workers), shares_of(*groups.values()))
    crowd: list[ActiveRun] = []
    running: list[ActiveRun] = []

    def may_go(run: ActiveRun) -> bool:
        ceiling = groups[str(run.job.group)].max_running
        used = sum(other.job.group == run.job.group for other in running)
        return ceiling is None or used < ceiling

    for step, group, priority, due in steps:
        if step == "wait":
            run = waiting("j", priority, due, group=group)
            slots.wait(run, 0)
            crowd.append(run)
        elif step == "end" and running:
            end(slots, running.pop(0))
        elif step == "cancel" and crowd:
            crowd.pop(due % len(crowd)).stage = Stage.ENDED
        ready = [run for run in crowd if may_go(run)]
        while (begun := begin(slots)) is not None:
            highest = max(run.job.priority for run in ready)
            assert begun in ready
            if turns not in by_age:
                assert begun.job.priority == highest
            else:
                assert begun.job.priority == min(run.job.priority for run in ready)
            turns += 1
            crowd.remove(begun)
            running.append(begun)
            ready = [run for run in crowd if may_go(run)]
        assert len(running) == slots.taken <= workers
        assert len(crowd) == slots.waiting
        assert not ready or slots.taken == workers
