"""``dataclasses.dataclass``, with one set of methods for all classes in place of one for each.

The standard decorator writes every class its own comparison, hash, text and refusal of changes: 12
of the 16 kilobytes that a small frozen class then takes, and most of the time that it takes to
make. Here classes share them; what they do is the same, and ``replace``, ``fields`` and the rest
of ``dataclasses`` know no difference. The daemon has some 170 such classes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any, Final

__all__ = ["dataclass"]

_Key = Callable[[Any], tuple[Any, ...]]

_COMPARED: Final = "__compared__"
_HASHED: Final = "__hashed__"


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
