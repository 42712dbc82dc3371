"""Numbers of bytes as text: ``512K``, ``10M``, ``2G``."""

from __future__ import annotations

import re
from typing import Any, Final

from crond_py.crontab.faults import Refused, quoted
from crond_py.crontab.values import Kind, Schema, not_the
from crond_py.dataclass import dataclass

_UNITS: Final = {
    letter: 1024**power for power, letter in enumerate(("", "K", "M", "G", "T", "P", "E"))
}
LARGEST: Final = _UNITS["E"]
"""More than any disk has, and less than what the kernel takes for no limit at all."""

SIZE_PATTERN: Final = r"^[0-9]{1,19}(\.[0-9]{1,9})? ?([KMGTPE](iB)?)?$"

_SIZE: Final = re.compile(
    r"(?P<whole>[0-9]{1,19})(?:\.(?P<decimals>[0-9]{1,9}))? ?(?:(?P<unit>[KMGTPE])(?:iB)?)?",
    re.ASCII,
)
_ALMOST: Final = re.compile(
    r"[ ]*(?P<number>[0-9]+(?:\.[0-9]+)?)[ ]*(?P<unit>[kmgtpe]?)(?:i?b|bytes?)?[ ]*", re.IGNORECASE
)
_EXAMPLE: Final = 'a size, such as "512K", "10M" or "2G"'


@dataclass(frozen=True, slots=True)
class Size(Kind):
    """A number of bytes, at least ``minimum``: with a unit, each 1024 times the one before.

    ``"10M"`` and ``"10 MiB"`` are the same. ``"10MB"``, which some take for ten million, and
    ``"10m"``, which is ten minutes elsewhere in a crontab, are refused.
    """

    minimum: int = 0

    def read(self, value: object) -> int:
        """Return the number of bytes."""
        size = _bytes(value)
        if self.minimum <= size <= LARGEST:
            return size
        bounds = f"from {format_size(self.minimum)} to {format_size(LARGEST)}"
        raise not_the(f"a size {bounds}", value, _in_units(value, size))

    def schema(self) -> Schema:
        """Return the schema of either form. Of text, that it is enough is not in it."""
        return {
            "anyOf": [
                {"type": "string", "pattern": SIZE_PATTERN},
                {"type": "integer", "minimum": self.minimum, "maximum": LARGEST},
            ]
        }

    def write(self, value: Any) -> object:
        """Return the text."""
        return format_size(value)


def format_size(size: int) -> str:
    """Return a number of bytes in the largest unit that it is a whole number of."""
    letter = max((unit for unit in _UNITS if size % _UNITS[unit] == 0), key=_UNITS.__getitem__)
    return f"{size // _UNITS[letter]}{letter}" if size else "0"


def _bytes(value: object) -> int:
    """Return what an integer or text says. Raises Refused with what was probably meant."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, str):
        raise not_the(_EXAMPLE, value, _as_integer(value))
    match = _SIZE.fullmatch(value)
    if match is None:
        raise not_the(_EXAMPLE, value, _near(value))
    decimals = match["decimals"] or ""
    scale = 10 ** len(decimals)
    size, rest = divmod(int(match["whole"] + decimals) * _UNITS[match["unit"] or ""], scale)
    if rest:
        raise Refused(f"{quoted(value)} is not a whole number of bytes")
    return int(size)


def _in_units(value: object, size: int) -> str:
    """Suggest a unit for a small number that was meant to have one."""
    if not 0 < size < _UNITS["M"] or not str(value).isdigit():
        return ""
    return f'a number alone is bytes; write "{size}K" or "{size}M"'


def _as_integer(value: object) -> str:
    """Suggest text for a float."""
    return f'write it with its unit, such as "{value:g}G"' if isinstance(value, float) else ""


def _near(value: str) -> str:
    """Suggest the spelling that is known for one that others know."""
    match = _ALMOST.fullmatch(value[:40])
    if match is None:
        return ""
    return f'write "{match["number"]}{match["unit"].upper()}"'
