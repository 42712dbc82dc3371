"""Slots: how many at once, and who is next."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crond_py.crontab.model import Group, Job, Pool, StartupTrigger
from crond_py.engine.pools import LONGEST_WAITING_EVERY, Shares, Slots
from crond_py.engine.records import ActiveRun, Stage
from crond_py.model import Cause, Run, State

NOW = datetime(2026, 5, 1, tzinfo=UTC)


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
    shares = Shares()
    shares.set_groups({group.name: group for group in groups})
    return shares


def test_no_more_than_workers() -> None:
    """P4: a pool gives out as many slots as it has, and again what was given back."""
    slots = Slots(Pool("p", 2), Shares())
    for name in "abc":
        slots.wait(waiting(name), 0)
    first, _, none = begin(slots), begin(slots), begin(slots)
    assert none is None
    assert first is not None
    end(slots, first)
    assert begin(slots) is not None


def test_no_bound_by_default() -> None:
    """A pool without ``workers`` never says no."""
    slots = Slots(Pool("p"), Shares())
    for number in range(1_000):
        run = waiting(f"j{number}")
        assert slots.is_free_for(run.job)
        slots.take(run)


def test_turns() -> None:
    """Higher priority goes first, then the earlier due, then who came first."""
    slots = Slots(Pool("p"), Shares())
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
    slots = Slots(Pool("p", 1), Shares())
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
    slots = Slots(Pool("p"), Shares())
    run = waiting("a")
    slots.wait(run, 0)
    slots.wait(run, 0)
    assert slots.waiting == 1
    assert begin(slots) is run
    assert begin(slots) is None


@pytest.mark.parametrize("workers", [1, 4, 8])
def test_slots_are_shared_by_weight(workers: int) -> None:
    """P4: of two groups with ever more to do, one of weight 3 gets three slots of four."""
    slots = Slots(Pool("p", workers), shares_of(Group("big", 3), Group("small", 1)))
    for number in range(400):
        for group in ("big", "small"):
            slots.wait(waiting(f"{group}{number}", due=number, group=group), 0)
    had: Counter[str | None] = Counter()
    running: list[ActiveRun] = []
    for _ in range(200):
        while (run := begin(slots)) is not None:
            running.append(run)
            had[run.job.group] += 1
        if workers > 1:
            use = Counter(run.job.group for run in running)
            assert abs(use["big"] - 3 * use["small"]) <= 4
        end(slots, running.pop(0))
    assert had["big"] / had["small"] == pytest.approx(3, rel=0.1)


def test_one_slot_is_no_prize_for_whoever_has_many() -> None:
    """P4: one run of another group does not wait for a crowd that came before it."""
    slots = Slots(Pool("p", 4), Shares())
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
    slots = Slots(Pool("p", 1), Shares())
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


def test_nobody_starves() -> None:
    """P4: under a flood of higher priority, every tenth slot goes to the one that waits longest."""
    slots = Slots(Pool("p", 1), Shares())
    low = waiting("low", priority=-1_000_000)
    slots.wait(low, 0)
    for turn in range(1, 100):
        slots.wait(waiting(f"high{turn}", priority=9), 0)
        run = begin(slots)
        assert run is not None
        if run is low:
            assert turn == LONGEST_WAITING_EVERY
            return
        end(slots, run)
    pytest.fail("the run of low priority never got a slot")


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

    Whoever gets a slot has the highest priority of those that may go, or that of who waits longest.
    """
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
            assert begun.job.priority in {highest, crowd[0].job.priority}
            crowd.remove(begun)
            running.append(begun)
            ready = [run for run in crowd if may_go(run)]
        assert len(running) == slots.taken <= workers
        assert len(crowd) == slots.waiting
        assert not ready or slots.taken == workers
