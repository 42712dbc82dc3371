"""The dataclasses of the project do what those of the standard library do."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import crond_py
from crond_py import dataclass as ours
from crond_py.crontab.model import Job
from crond_py.engine.records import JobState
from crond_py.model import Cursor, Run

OPTIONS: list[dict[str, bool]] = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"slots": True, "eq": False},
    {"frozen": True, "slots": True, "repr": False},
    {"frozen": True, "kw_only": True},
]


def both(options: dict[str, bool], body: Callable[[], type]) -> list[Any]:
    """Return a class as the standard library and as the project makes it."""
    return [dataclasses.dataclass(**options)(body()), ours._dataclass(**options)(body())]


def point() -> type:
    """Return the body of a class with every kind of field."""

    class Point:
        """A class with every kind of field."""

        x: int
        y: int = 2
        note: str = dataclasses.field(default="", compare=False)
        hidden: int = dataclasses.field(default=0, repr=False)
        seen: list[int] = dataclasses.field(default_factory=list, hash=False)

    return Point


def lone() -> type:
    """Return the body of a class with one field."""

    class Lone:
        """A class with one field."""

        x: object

    return Lone


def empty() -> type:
    """Return the body of a class without fields."""

    class Empty:
        """A class without fields."""

    return Empty


def outcome(act: Callable[[], object]) -> object:
    """Return what comes of it, or how it fails."""
    try:
        return act()
    except Exception as error:  # noqa: BLE001 - to be compared
        return type(error), str(error)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_values_compare_as_in_the_standard_library(options: dict[str, bool]) -> None:
    """By the fields that take part, with their own class alone."""
    seen = []
    for cls in both(options, point):
        one, same, noted = cls(x=1), cls(x=1), cls(x=1, note="n")
        others = [cls(x=2), cls(x=1, y=3), cls(x=1, hidden=1), cls(x=1, seen=[1]), 1, (1, 2, 0, [])]
        seen.append([one == same, one == noted, *(one == other for other in others)])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_texts_are_those_of_the_standard_library(options: dict[str, bool]) -> None:
    """Also of values that hold themselves."""
    if not options.get("repr", True):
        made = both(options, point)
        assert all(cls.__repr__ is object.__repr__ for cls in made)
        return
    texts = []
    for cls in both(options, point):
        value = cls(x=1, note="n")
        value.seen.append(value)
        texts.append(repr(value))
    assert texts[0] == texts[1]
    assert "note='n'" in texts[0]
    assert "..." in texts[0]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_hashes_go_by_the_same_fields(options: dict[str, bool]) -> None:
    """Equal where the standard library's are, and absent where it has none."""
    seen = []
    for cls in both(options, point):
        values = [cls(x=1), cls(x=1, note="n"), cls(x=1, seen=[1]), cls(x=1, hidden=1), cls(x=2)]
        if cls.__hash__ is object.__hash__:
            seen.append("by identity")
        elif cls.__hash__ is None:
            seen.append("none")
        else:
            seen.append([hash(value) for value in values])
    assert seen[0] == seen[1]


@pytest.mark.parametrize("options", [each for each in OPTIONS if each.get("frozen")], ids=str)
def test_frozen_values_are_not_changed(options: dict[str, bool]) -> None:
    """The words are those of the standard library, too."""
    seen = []
    for cls in both(options, point):
        value = cls(x=1)
        changed = outcome(lambda value=value: setattr(value, "x", 3))
        deleted = outcome(lambda value=value: delattr(value, "x"))
        seen.append([changed, deleted, value.x])
    assert seen[0] == seen[1]
    assert seen[0][0] == (dataclasses.FrozenInstanceError, "cannot assign to field 'x'")


@pytest.mark.parametrize("body", [lone, empty])
def test_classes_with_few_fields_compare_too(body: Callable[[], type]) -> None:
    """One field or none, too, makes a value and its hash."""
    values = [("a",), (1,)] if body is lone else [()]
    for cls in both({"frozen": True, "slots": True}, body):
        for arguments in values:
            assert cls(*arguments) == cls(*arguments)
            assert hash(cls(*arguments)) == hash(tuple(arguments))


def test_what_a_class_defines_itself_is_left_alone() -> None:
    """Its own comparison, hash and text."""

    def own() -> type:
        class Own:
            """A class that knows better."""

            x: int

            def __eq__(self, other: object) -> bool:
                return True

            def __hash__(self) -> int:
                return 7

            def __repr__(self) -> str:
                return "own"

        return Own

    for cls in both({"frozen": True, "slots": True}, own):
        assert cls(1) == cls(2)
        assert hash(cls(1)) == 7
        assert repr(cls(1)) == "own"


def test_an_own_comparison_does_not_cost_a_frozen_class_its_hash() -> None:
    """Where only __eq__ is defined, the hash is made of the fields all the same."""

    def own() -> type:
        class Own:  # noqa: PLW1641 - that is what is tested
            """A class with a comparison of its own."""

            x: int

            def __eq__(self, other: object) -> bool:
                return True

        return Own

    first, second = both({"frozen": True}, own)
    assert hash(first(1)) == hash(second(1)) == hash((1,))


def test_the_tools_of_the_standard_library_know_no_difference() -> None:
    """Replace, fields, pickle and copy work on the project's classes."""
    job = Job("a", None, "true")  # type: ignore[arg-type]
    assert dataclasses.is_dataclass(Job)
    assert dataclasses.replace(job, command="false").command == "false"
    assert copy.copy(job) == job
    assert pickle.loads(pickle.dumps(dataclasses.replace(job, env={}))).name == "a"
    assert [field.name for field in dataclasses.fields(Cursor)][:2] == ["job", "fingerprint"]


def test_classes_share_their_methods() -> None:
    """That is what they are made for: no class of the model has a comparison of its own."""
    assert Job.__eq__ is Run.__eq__ is Cursor.__eq__
    assert Job.__repr__ is Run.__repr__
    assert Run.__hash__ is Cursor.__hash__
    assert Job.__setattr__ is Run.__setattr__
    assert JobState.__eq__ is object.__eq__


def test_every_class_of_the_package_is_made_so() -> None:
    """One that is made by the standard decorator costs the daemon three times as much."""
    root = Path(crond_py.__file__).parent
    theirs = re.compile(
        r"^from dataclasses import .*\bdataclass\b|\bdataclasses\.dataclass\(", re.MULTILINE
    )
    files = {str(path.relative_to(root)) for path in root.rglob("*.py")}
    assert len(files) > 100
    assert {name for name in files if theirs.search((root / name).read_text("utf-8"))} == {
        "dataclass.py"
    }


# --- instances that share most of their fields -------------------------------------------------


@ours.sharing("name", "mark")
@ours.dataclass(frozen=True)
class Pet:
    """A class whose instances have names of their own, and are much alike otherwise."""

    name: str
    legs: int = 4
    tags: list[str] = dataclasses.field(default_factory=list)
    mark: str = dataclasses.field(default="", compare=False)

    def like(self, name: str) -> Pet:
        """Return another of the same kind."""
        return ours.of_shared(Pet, (name, ""), ours.shared_part(self))


def test_what_is_shared_takes_room_once() -> None:
    """An instance made like another has the very same objects, and none of its own but its own."""
    cat = Pet("cat", 4, ["soft"], mark="x")
    dog = cat.like("dog")
    assert (dog.name, dog.legs, dog.mark) == ("dog", 4, "")
    assert dog.tags is cat.tags
    assert ours.shared_part(dog) is ours.shared_part(cat)
    assert not hasattr(dog, "__dict__")


def test_sharing_changes_nothing_that_is_seen() -> None:
    """Defaults, comparison, hash, text, refusal of changes and copies are those of a dataclass."""
    cat = Pet("cat", mark="x")
    assert cat == Pet(name="cat", legs=4, tags=[], mark="other")
    assert cat != Pet("cat", 3)
    assert hash(Pet("ant", 6, ())) == hash(Pet("ant", 6, ()))  # type: ignore[arg-type]
    assert repr(cat) == "Pet(name='cat', legs=4, tags=[], mark='x')"
    assert dataclasses.replace(cat, legs=3) == Pet("cat", 3)
    assert dataclasses.asdict(cat) == {"name": "cat", "legs": 4, "tags": [], "mark": "x"}
    assert copy.deepcopy(cat) == pickle.loads(pickle.dumps(cat)) == cat
    assert Pet("a").tags is not Pet("b").tags
    for name in ("name", "legs"):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(cat, name, 1)


@pytest.mark.parametrize(
    ("values", "named"),
    [((), {}), (("a", 1, [], "", 5), {}), (("a",), {"name": "b"}), (("a",), {"wings": 2})],
    ids=["too few", "too many", "twice", "unknown"],
)
def test_fields_that_are_not_there_are_no_fields(
    values: tuple[Any, ...], named: dict[str, Any]
) -> None:
    """What the generated method of a dataclass refuses is refused."""
    with pytest.raises(TypeError):
        Pet(*values, **named)
