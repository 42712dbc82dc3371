"""``dataclasses.dataclass``, with one set of methods for all classes in place of one for each.

The standard decorator writes every class its own comparison, hash, text and refusal of changes: 12
of the 16 kilobytes that a small frozen class then takes, and most of the time that it takes to
make. Here classes share them; what they do is the same, and ``replace``, ``fields`` and the rest
of ``dataclasses`` know no difference. The daemon has some 170 such classes.

Where there are many instances that differ in few fields, ``sharing`` has them share the others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final, TypeVar

__all__ = ["dataclass", "of_shared", "own_fields", "shared_part", "sharing"]

_T = TypeVar("_T")

_Key = Callable[[Any], tuple[Any, ...]]

_COMPARED: Final = "__compared__"
_HASHED: Final = "__hashed__"
_OWN: Final = "__own__"
_SHARED: Final = "__shared__"


def _dataclass(
    cls: type | None = None,
    /,
    *,
    frozen: bool = False,
    eq: bool = True,
    repr: bool = True,  # noqa: A002 - named as in dataclasses
    **options: bool,
) -> Any:
    """Make a dataclass; the options are those of ``dataclasses.dataclass``."""

    def make(cls: type) -> type:
        given = dict(vars(cls))
        made: Any = dataclasses.dataclass(frozen=frozen, eq=False, repr=False, **options)(cls)
        if frozen:
            made.__setattr__, made.__delattr__ = _refuse_change, _refuse_deletion
        if repr and "__repr__" not in given:
            made.__repr__ = _text
        if eq:
            _compare_by_value(made, given, is_frozen=frozen)
        return made  # type: ignore[no-any-return]

    return make if cls is None else make(cls)


def _compare_by_value(cls: Any, given: dict[str, Any], *, is_frozen: bool) -> None:
    """Add what the class lacks; ``given`` is what its body has, where None is no hash."""
    fields = dataclasses.fields(cls)
    setattr(cls, _COMPARED, _key([field.name for field in fields if field.compare]))
    if "__eq__" not in given:
        cls.__eq__ = _equals
    if given.get("__hash__") is not None:
        return
    if is_frozen:
        hashed = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
        setattr(cls, _HASHED, _key(hashed))
        cls.__hash__ = _hash
    else:
        cls.__hash__ = None


def _key(names: list[str]) -> _Key:
    if len(names) > 1:
        return attrgetter(*names)
    if not names:
        return lambda _value: ()
    only = attrgetter(*names)
    return lambda value: (only(value),)


def _equals(self: Any, other: Any) -> Any:
    cls: Any = self.__class__
    if other.__class__ is not cls:
        return NotImplemented
    key: _Key = cls.__compared__
    return key(self) == key(other)


def _hash(self: Any) -> int:
    return hash(self.__class__.__hashed__(self))


# --- many instances that differ in little ---------------------------------------------------------


def sharing(*own: str) -> Callable[[type[_T]], type[_T]]:
    """Have instances of a frozen dataclass keep only the fields ``own`` for themselves.

    The other fields are in one tuple, which any number of instances can have: ``of_shared`` makes
    one with the tuple that ``shared_part`` returns of another. To be written above ``dataclass``,
    without ``slots``.
    """

    def make(cls: Any) -> Any:
        fields = dataclasses.fields(cls)
        left_out = {"__dict__", "__weakref__", *(field.name for field in fields)}
        body = {name: value for name, value in vars(cls).items() if name not in left_out}
        body["__slots__"] = (*own, _SHARED)
        body[_OWN] = own
        body["__init__"], body["__reduce__"] = _begin, _reduced
        others = (field.name for field in fields if field.name not in own)
        body |= {name: property(_item_of_shared(place)) for place, name in enumerate(others)}
        return type(cls)(cls.__name__, cls.__bases__, body)

    return make


def of_shared(cls: type[_T], own: tuple[Any, ...], shared: tuple[Any, ...]) -> _T:
    """Make an instance of a class that is ``sharing`` of the values of its ``own`` fields."""
    made = object.__new__(cls)
    put = object.__setattr__
    for name, value in zip(cls.__own__, own, strict=True):  # type: ignore[attr-defined]
        put(made, name, value)
    put(made, _SHARED, shared)
    return made


def own_fields(cls: type) -> tuple[str, ...]:
    """Return the fields that each instance of a class that is ``sharing`` has for itself."""
    own: tuple[str, ...] = cls.__own__  # type: ignore[attr-defined]
    return own


def shared_part(value: Any) -> tuple[Any, ...]:
    """Return the values of the fields that an instance shares, in the order of the class."""
    shared: tuple[Any, ...] = value.__shared__
    return shared


def _item_of_shared(place: int) -> Callable[[Any], Any]:
    return lambda value: value.__shared__[place]


def _begin(self: Any, *values: Any, **named: Any) -> None:
    """Be the ``__init__`` of a class that is ``sharing``."""
    fields, name = dataclasses.fields(self), self.__class__.__qualname__
    if len(values) > len(fields):
        raise TypeError(f"{name} has {len(fields)} fields, not {len(values)}")
    given = dict(zip((field.name for field in fields), values, strict=False))
    for each in named:
        if each in given or each not in self.__dataclass_fields__:
            how = "is given twice" if each in given else "is no field"
            raise TypeError(f"{each!r} {how} of {name}")
    given |= named
    for field in fields:
        if field.name not in given:
            given[field.name] = _default(field, name)
    for each in self.__own__:
        object.__setattr__(self, each, given.pop(each))
    shared = tuple(given[field.name] for field in fields if field.name in given)
    object.__setattr__(self, _SHARED, shared)


def _default(field: dataclasses.Field[Any], of: str) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    raise TypeError(f"{of} has no {field.name!r}, and there is no default")


def _reduced(self: Any) -> Any:
    """Be the ``__reduce__`` of a class that is ``sharing``, for copies and pickles."""
    cls = self.__class__
    return of_shared, (cls, tuple(getattr(self, name) for name in cls.__own__), self.__shared__)


# --- what all of them have ------------------------------------------------------------------------


@recursive_repr()
def _text(self: Any) -> str:
    shown = (field.name for field in dataclasses.fields(self) if field.repr)
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{self.__class__.__qualname__}({values})"


def _refuse_change(self: object, name: str, value: object) -> None:
    del self, value
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deletion(self: object, name: str) -> None:
    del self
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass
