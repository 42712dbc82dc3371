"""Queues that have their turns, against a plain model: lists, and whose turn it was last."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from crond_py.runner.turns import Turns

NAMES = "abc"


def test_each_queue_has_its_turn() -> None:
    """A long queue does not hold up a short one, and within one they go in order."""
    turns = Turns[str](lambda item: item[0])
    turns.extend(["a1", "a2", "a3", "b1", "c1", "b2"])
    assert [turns.pop() for _ in range(len(turns))] == ["a1", "b1", "c1", "a2", "b2", "a3"]


def test_what_is_put_back_comes_first_in_its_queue() -> None:
    """In its own order, and its queue has no turn more for that."""
    turns = Turns[str](lambda item: item[0])
    turns.extend(["a3", "b1", "b2"])
    turns.put_back(["a1", "a2"])
    assert [turns.pop() for _ in range(len(turns))] == ["a1", "b1", "a2", "b2", "a3"]


@given(
    st.lists(
        st.one_of(
            st.lists(st.sampled_from(NAMES)).map(lambda names: ("extend", names)),
            st.lists(st.sampled_from(NAMES)).map(lambda names: ("put back", names)),
            st.just(("pop", [])),
            st.sets(st.sampled_from(NAMES)).map(lambda names: ("take", sorted(names))),
        )
    )
)
def test_nothing_is_lost_nor_passed(steps: list[tuple[str, list[str]]]) -> None:
    """Each queue is first in, first out; all that was put is there until it is taken, once."""
    turns = Turns[tuple[str, int]](lambda item: item[0])
    model: dict[str, list[tuple[str, int]]] = {name: [] for name in NAMES}
    count = 0
    for step, names in steps:
        items = [(name, count + number) for number, name in enumerate(names)]
        count += len(items)
        if step == "extend":
            turns.extend(items)
            for item in items:
                model[item[0]].append(item)
        elif step == "put back":
            turns.put_back(items)
            for item in reversed(items):
                model[item[0]].insert(0, item)
        elif step == "take":
            taken = turns.take(lambda item, names=names: item[0] in names and item[1] % 2 == 0)
            assert sorted(taken) == sorted(
                item for name in names for item in model[name] if item[1] % 2 == 0
            )
            for name in names:
                model[name] = [item for item in model[name] if item[1] % 2]
        elif turns:
            item = turns.pop()
            assert item == model[item[0]].pop(0)
        assert len(turns) == sum(map(len, model.values()))
        assert sorted(turns) == sorted(item for queue in model.values() for item in queue)
