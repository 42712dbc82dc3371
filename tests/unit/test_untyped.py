"""What stands for ``typing`` in the daemon makes the same classes, as far as anybody asks them."""

from __future__ import annotations

import typing
from dataclasses import fields, is_dataclass

import pytest

from crond_py import untyped
from crond_py.control import codec, protocol, views
from crond_py.schedule.kinds import Explaining

ROWS = """
class Pair(NamedTuple):
    left: int
    right: tuple[int, ...] = (1,)

    @property
    def size(self) -> int:
        return self.left

    def grown(self) -> Pair:
        return self._replace(left=self.left + 1)
"""

PROTOCOLS = """
@runtime_checkable
class Speaking(Protocol):
    def speak(self) -> str: ...

@runtime_checkable
class Loud(Speaking, Protocol):
    loudness: int

    def shout(self) -> str: ...

class Dog:
    loudness = 3
    def speak(self): return "wau"
    def shout(self): return "WAU"

class Cat:
    def speak(self): return "miau"

class Own(Speaking):
    pass
"""


@pytest.fixture(params=[vars(typing), untyped.names()], ids=["typing", "untyped"])
def names(request: pytest.FixtureRequest) -> dict[str, typing.Any]:
    """Return the names of one of the two."""
    return {**request.param, "__name__": __name__}


def run(source: str, names: dict[str, typing.Any]) -> dict[str, typing.Any]:
    """Run a module's text with them; return what it has then."""
    exec(f"from __future__ import annotations\n{source}", names)
    return names


def test_named_tuples(names: dict[str, typing.Any]) -> None:
    """They have their fields, defaults, properties and methods, and say where they are from."""
    pair = run(ROWS, names)["Pair"]
    assert pair(1) == (1, (1,))
    assert pair(1).grown() == pair(2)
    assert (pair(5).size, pair._fields, pair.__name__, pair.__qualname__, pair.__module__) == (
        5, ("left", "right"), "Pair", "Pair", __name__,
    )  # fmt: skip
    assert pair._field_defaults == {"right": (1,)}


def test_protocols(names: dict[str, typing.Any]) -> None:
    """Those that may be asked tell by what something has; a class of its own is one, too."""
    made = run(PROTOCOLS, names)
    dog, cat, own = made["Dog"](), made["Cat"](), made["Own"]()
    assert isinstance(dog, made["Speaking"])
    assert isinstance(cat, made["Speaking"])
    assert isinstance(own, made["Speaking"])
    assert isinstance(dog, made["Loud"])
    assert not isinstance(cat, made["Loud"])
    assert not isinstance(3, made["Own"])


def test_words(names: dict[str, typing.Any]) -> None:
    """They may stand in what is worked out at run time: aliases and classes of types."""
    source = """
T = TypeVar("T", bound="Box")
Either = Any | None
Kinds = dict[str, Any] | None
Ways = tuple[Any, ...]
class Box(Generic[T]):
    __slots__ = ("inside",)
class Special(Box[int]):
    pass
answer = cast("int", 3)
"""
    made = run(source, names)
    assert made["answer"] == 3
    assert isinstance(made["Special"](), made["Box"])
    assert not made["TYPE_CHECKING"]


@pytest.mark.parametrize(
    "kind",
    [
        each
        for module in (protocol, views)
        for each in vars(module).values()
        if isinstance(each, type) and is_dataclass(each)
    ],
)
def test_fields_are_read_by_their_types(kind: type) -> None:
    """The protocol's messages are read by the types that typing would tell."""
    told = typing.get_type_hints(kind)
    expected = {field.name: told[field.name] for field in fields(kind)}
    assert {name: found for name, found, _ in codec._shape(kind)} == expected


def test_a_checked_protocol_of_ours() -> None:
    """The one that is asked for at run time has methods only, so both tell the same."""
    assert {name for name in vars(Explaining) if name[0] != "_"} == {"explain", "dropped"}
