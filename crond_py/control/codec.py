"""Frozen dataclasses to plain JSON values and back, checked on the way in.

Only what the protocol is made of: strings, numbers, booleans, enums, aware datetimes (RFC 3339 in
UTC), timedeltas (seconds), tuples, and dataclasses of these, each perhaps optional. A ``dict`` is
an object of JSON as it is: what is in it is checked by whoever knows what it means.
"""

from __future__ import annotations

import functools
import math
import sys
import types
from dataclasses import MISSING, fields, is_dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, TypeVar, cast

T = TypeVar("T")


class CodecError(ValueError):
    """A value that is not what its field must be; says which field."""


def instant_text(instant: datetime) -> str:
    """Return an aware datetime as RFC 3339 in UTC: ``2026-03-01T02:30:00Z``."""
    return instant.astimezone(UTC).isoformat().replace("+00:00", "Z")


def to_json(value: object) -> Any:
    """Return ``value`` as what ``json.dumps`` takes."""
    match value:
        case None | bool() | int() | float() | dict():
            return value
        case str():
            return str(value)  # an enum's spelling
        case datetime():
            return instant_text(value)
        case timedelta():
            return value.total_seconds()
        case tuple():
            return [to_json(item) for item in value]
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(f"no JSON for {value!r}")


def from_json(wanted: type[T], value: object, path: str = "") -> T:
    """Return ``value`` as an instance of ``wanted``. Raises CodecError, nothing else.

    A field that has a default may be missing; a field that is not known is ignored, so that an
    older program can talk to a newer one.
    """
    return cast("T", _decode(wanted, value, path))


def _decode(wanted: Any, value: object, path: str) -> object:
    if isinstance(wanted, types.UnionType):
        return _decode_optional(wanted, value, path)
    origin = getattr(wanted, "__origin__", None)
    if origin is tuple:
        return _decode_tuple(wanted, value, path)
    if is_dataclass(wanted):
        return _decode_dataclass(wanted, value, path)
    if origin is dict:
        return _object(value, path)
    decode = _SCALARS.get(wanted)
    if decode is None and issubclass(wanted, StrEnum):
        decode = functools.partial(_enum, wanted)
    if decode is None:
        raise TypeError(f"no reader for {wanted!r}")
    try:
        return decode(value)
    except (ValueError, OverflowError):
        raise CodecError(f"{path or 'value'} is not {_NAMES.get(wanted, 'valid')}") from None


def _decode_optional(wanted: types.UnionType, value: object, path: str) -> object:
    if value is None:
        return None
    (inner,) = (kind for kind in wanted.__args__ if kind is not types.NoneType)
    return _decode(inner, value, path)


def _decode_tuple(wanted: Any, value: object, path: str) -> object:
    if not isinstance(value, list):
        raise CodecError(f"{path or 'value'} is not a list")
    inner = wanted.__args__[0]
    return tuple(_decode(inner, item, f"{path}[{index}]") for index, item in enumerate(value))


def _object(value: object, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CodecError(f"{path or 'value'} is not an object")
    return value


def _decode_dataclass(wanted: Any, value: object, path: str) -> object:
    found = _object(value, path)
    prefix = f"{path}." if path else ""
    arguments: dict[str, object] = {}
    for name, kind, is_needed in _shape(wanted):
        if name in found:
            arguments[name] = _decode(kind, found[name], prefix + name)
        elif is_needed:
            raise CodecError(f"{prefix}{name} is missing")
    return wanted(**arguments)


@functools.cache
def _shape(wanted: type) -> tuple[tuple[str, Any, bool], ...]:
    """Return name and type of each field, and whether it must be there."""
    # typing.get_type_hints does the same; the daemon does without that module.
    names: dict[str, Any] = {}
    for cls in reversed(wanted.__mro__):
        names |= vars(sys.modules[cls.__module__])
    return tuple(
        (
            field.name,
            eval(str(field.type), names),  # noqa: S307 - it is the text of our own annotation
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(wanted)
    )


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError  # noqa: TRY004 - the caller words it
    return value


def _int(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError  # noqa: TRY004 - the caller words it
    return value


def _float(value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
        raise ValueError
    return float(value)


def _str(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError  # noqa: TRY004 - the caller words it
    return value


def _datetime(value: object) -> datetime:
    instant = datetime.fromisoformat(_str(value))
    if instant.tzinfo is None:
        raise ValueError
    return instant.astimezone(UTC)


def _timedelta(value: object) -> timedelta:
    return timedelta(seconds=_float(value))


def _enum(wanted: type[StrEnum], value: object) -> StrEnum:
    return wanted(_str(value))


_SCALARS: dict[Any, Any] = {
    bool: _bool,
    int: _int,
    float: _float,
    str: _str,
    datetime: _datetime,
    timedelta: _timedelta,
}
_NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a string",
    datetime: "a date-time with an offset",
    timedelta: "a number of seconds",
}
