"""The kinds of value that say what the end of an attempt means: success, or something to retry."""

from __future__ import annotations

from typing import Any, Final

from crond_py.crontab.faults import Problem, Refused, choices, nearest, quoted
from crond_py.crontab.values import Kind, Schema, is_short, not_the
from crond_py.dataclass import dataclass
from crond_py.model import Failure

_MAX_EXIT_STATUS: Final = 255
_STATUS_SCHEMA: Final[Schema] = {"type": "integer", "minimum": 0, "maximum": _MAX_EXIT_STATUS}


@dataclass(frozen=True, slots=True)
class ExitCodes(Kind):
    """An array of exit statuses, at least one."""

    def read(self, value: object) -> frozenset[int]:
        """Return the statuses."""
        if value == []:
            raise Refused("is an empty array", "leave it out for [0], which is the default")
        if not isinstance(value, list):
            hint = f"write [{quoted(value)}]" if is_short(value) else ""
            raise not_the("an array of exit statuses, such as [0]", value, hint)
        problems = [
            Problem((index,), f"must be an exit status from 0 to 255, not {quoted(code)}")
            for index, code in enumerate(value)
            if not _is_status(code)
        ]
        if problems:
            raise Refused(problems=problems)
        return frozenset(value)

    def schema(self) -> Schema:
        """Return the schema of an array of small integers."""
        return {"type": "array", "items": _STATUS_SCHEMA, "minItems": 1}

    def write(self, value: Any) -> object:
        """Return an array."""
        return sorted(value)


@dataclass(frozen=True, slots=True)
class Failures(Kind):
    """An array of exit statuses and words for other ways to fail, at least one."""

    def read(self, value: object) -> frozenset[int | Failure]:
        """Return the statuses and the members of the enumeration."""
        what = 'an array of exit statuses and words, such as [75, "timeout"]'
        if not isinstance(value, list):
            is_one = is_short(value) or isinstance(value, str)
            raise not_the(what, value, f"write [{quoted(value)}]" if is_one else "")
        if not value:
            way_out = "leave it out to retry every failure; retry = { attempts = 1 } retries none"
            raise Refused("is an empty array", way_out)
        found: set[int | Failure] = set()
        problems = []
        for index, element in enumerate(value):
            if _is_status(element):
                found.add(element)
            elif isinstance(element, str) and element in Failure.__members__.values():
                found.add(Failure(element))
            else:
                problems.append(_no_failure(index, element))
        if problems:
            raise Refused(problems=problems)
        return frozenset(found)

    def schema(self) -> Schema:
        """Return the schema of an array of small integers and words."""
        element = {"anyOf": [_STATUS_SCHEMA, {"enum": [word.value for word in Failure]}]}
        return {"type": "array", "items": element, "minItems": 1}

    def write(self, value: Any) -> object:
        """Return an array, the statuses first."""
        statuses = sorted(element for element in value if not isinstance(element, str))
        return [*statuses, *sorted(str(element) for element in value if isinstance(element, str))]


def _is_status(value: object) -> bool:
    """Tell whether ``value`` is what a process can exit with, see wait(2)."""
    is_integer = isinstance(value, int) and not isinstance(value, bool)
    return is_integer and 0 <= value <= _MAX_EXIT_STATUS  # type: ignore[operator]  # it is an int


def _no_failure(index: int, element: object) -> Problem:
    message = f"must be an exit status from 0 to 255, {choices(Failure)}, not {quoted(element)}"
    if not isinstance(element, str):
        return Problem((index,), message)
    if element.isascii() and element.isdigit():
        return Problem((index,), message, "write it without quotes")
    return Problem((index,), message, nearest(element, Failure))
