"""From a TOML text to its tables, as fast as can be.

Most of what it takes to read a large crontab is taken here. ``tomli`` is what ``tomllib`` was made
from, and comes compiled for most machines; then it takes a quarter of the time. Both read TOML 1.0.
What is said of a text that ``tomli`` refuses, and whether it is refused, is for ``tomllib`` to say.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

try:
    import tomli
except ImportError:
    tomli = None  # type: ignore[assignment]

_IS_COMPILED = tomli is not None and not isinstance(tomli.loads, FunctionType)


def parse(text: str) -> dict[str, Any]:
    """Return the tables of a text.

    Raises what ``tomllib.loads`` does: ValueError, or RecursionError where it is nested too deeply.
    """
    if _IS_COMPILED:
        try:
            return tomli.loads(text)
        except (ValueError, RecursionError):
            pass  # tomllib says why
    import tomllib  # noqa: PLC0415 - of no use to most

    return tomllib.loads(text)
