"""What the daemon has in place of ``typing``, which takes half a megabyte.

Nobody asks a daemon for types. Here is what the making of classes and annotations needs, and as
little of it as does: types are words without a meaning, a protocol is a class like any other, a
named tuple is one of ``collections``. For every other name ``lean`` loads ``typing`` itself.
"""

from __future__ import annotations

from collections import namedtuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Word:
    """Something that stands in annotations."""

    def __init__(self, *_: object, **__: object) -> None:
        """Take what a type variable is made from."""

    def __getitem__(self, _: object) -> _Word:
        return self

    def __or__(self, _: object) -> _Word:
        return self

    __ror__ = __or__


class _Base:
    """What a class of types is derived from, of whatever type."""

    __slots__ = ()

    def __class_getitem__(cls, _: object) -> type:
        return cls


class _Structural(type):
    """Looks, where a protocol is to be checked at run time, for all that it has."""

    def __instancecheck__(cls, thing: object) -> bool:
        """Tell whether something is an instance, by its class or else by what it has."""
        if super().__instancecheck__(thing) or "_is_checked" not in vars(cls):
            return super().__instancecheck__(thing)
        wanted = {name for base in cls.__mro__[:-1] for name in vars(base) if name[0] != "_"}
        return all(hasattr(thing, name) for name in wanted)


class _Protocol(_Base, metaclass=_Structural):
    """What a protocol is derived from."""

    __slots__ = ()


class _MakesTuples(type):
    """Makes a named tuple of each class that is derived from ``_NamedTuple``."""

    def __new__(cls, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        """Make it of the annotations, in their order; values of the class are defaults."""
        if not bases:
            return super().__new__(cls, name, bases, body)
        names = tuple(body.pop("__annotations__"))
        defaults = [body.pop(each) for each in names if each in body]
        made = namedtuple(name, names, defaults=defaults)  # type: ignore[misc]  # noqa: PYI024
        for each, value in body.items():
            setattr(made, each, value)
        return made


class _NamedTuple(metaclass=_MakesTuples):
    """What a named tuple is derived from, as it is written."""


def _same(_kind: object, value: object) -> object:
    return value


def _checked(cls: type) -> type:
    cls._is_checked = True  # type: ignore[attr-defined]
    return cls


def _origin(kind: object) -> object:
    return getattr(kind, "__origin__", None)


def names() -> dict[str, object]:
    """Return what is here, by the names that it has in ``typing``."""
    words = ("Any", "BinaryIO", "ClassVar", "Final", "IO", "Literal", "NoReturn", "Self", "TextIO")
    return {
        "TYPE_CHECKING": False,
        "TypeVar": _Word,
        "Generic": _Base,
        "Protocol": _Protocol,
        "runtime_checkable": _checked,
        "NamedTuple": _NamedTuple,
        "cast": _same,
        "_GenericAlias": _Base,  # dataclasses asks for this and the next; nothing is one
        "get_origin": _origin,
        **{word: _Word() for word in words},
    }
