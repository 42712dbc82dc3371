"""The kinds of value that say what a process is and how it is set up.

The bounds are those of execve(2), environ(7) and umask(2): what the system would refuse
at the start of every run is refused here, once.
"""

from __future__ import annotations

import re
from typing import Any, Final

from crond_py.crontab.faults import Problem, Refused, quoted
from crond_py.crontab.values import Kind, Schema, in_quotes, not_the
from crond_py.dataclass import dataclass

MAX_STRING_BYTES: Final = 128 * 1024 - 1
"""MAX_ARG_STRLEN of execve(2) is 128 KiB with the closing NUL; no argument may be longer."""

_MAX_UMASK: Final = 0o777
_MAX_PATH: Final = 4095

RESERVED_ENV: Final = ("PYCRON_RUN_ID", "PYCRON_JOB", "PYCRON_DUE", "PYCRON_ATTEMPT")
"""What the runner sets itself (see ports.ProcessSpec); a job's own value would break adoption."""


@dataclass(frozen=True, slots=True)
class Umask(Kind):
    """File mode bits that are taken away, in octal."""

    def read(self, value: object) -> int:
        """Return the bits. That a number was written in octal is for the loader to see."""
        what = 'octal text such as "022" or "077"'
        if isinstance(value, str) and re.fullmatch(r"(0o)?[0-7]{1,4}", value):
            bits = int(value.removeprefix("0o"), 8)
        elif isinstance(value, int) and not isinstance(value, bool):
            bits = value
        else:
            raise not_the(what, value)
        if not 0 <= bits <= _MAX_UMASK:
            raise Refused(f"must be from 000 to 777 in octal, not {quoted(value)}")
        return bits

    def schema(self) -> Schema:
        """Return the schema of either spelling."""
        return {
            "anyOf": [
                {"type": "string", "pattern": "^(0o)?0?[0-7]{1,3}$"},
                {"type": "integer", "minimum": 0, "maximum": _MAX_UMASK},
            ]
        }

    def write(self, value: Any) -> object:
        """Return octal text."""
        return f"{value:03o}"


@dataclass(frozen=True, slots=True)
class AbsolutePath(Kind):
    """The absolute path of a file or directory. Whether there is one is seen when a run starts."""

    is_program: bool = False

    def read(self, value: object) -> str:
        """Return the path."""
        if not isinstance(value, str) or not value.startswith("/"):
            raise not_the("an absolute path", value)
        if "\0" in value or len(value) > _MAX_PATH:
            raise Refused(f"is not a path: it has a NUL or more than {_MAX_PATH} characters")
        if self.is_program and " -" in value:
            raise Refused(f"{quoted(value)} is not the path alone", 'put "set -e" into the command')
        return value

    def schema(self) -> Schema:
        """Return the schema of a string that begins with a slash."""
        return {"type": "string", "pattern": "^/", "maxLength": _MAX_PATH}


@dataclass(frozen=True, slots=True)
class Command(Kind):
    """A command line for the shell, or a program and its arguments."""

    def read(self, value: object) -> str | tuple[str, ...]:
        """Return a string or a tuple as the crontab had a string or an array."""
        if isinstance(value, str):
            if not value.strip():
                raise Refused("is empty")
            _check_argument(value)
            return value
        if not isinstance(value, list):
            raise not_the("text, or an array of a program and its arguments", value)
        if not value or value[0] == "":
            raise Refused("is empty", "the first element names the program")
        problems = []
        for index, argument in enumerate(value):
            try:
                _check_argument(argument)
            except Refused as refused:
                problems += [Problem((index,), p.message, p.suggestion) for p in refused.problems]
        if problems:
            raise Refused(problems=problems)
        return tuple(value)

    def schema(self) -> Schema:
        """Return the schema of either form."""
        text = {"type": "string", "pattern": r"\S"}
        array = {
            "type": "array",
            "prefixItems": [{"type": "string", "minLength": 1}],
            "items": {"type": "string"},
            "minItems": 1,
        }
        return {"anyOf": [text, array]}


def _check_argument(value: object) -> None:
    """Refuse what execve(2) cannot take as one string."""
    if not isinstance(value, str):
        raise not_the("text", value, in_quotes(value))
    if "\0" in value:
        raise Refused("has a NUL character, which no argument can have")
    size = len(value.encode())
    if size > MAX_STRING_BYTES:
        raise Refused(
            f"has {size} bytes; the system takes {MAX_STRING_BYTES} at most",
            "put it in a file and run that",
        )


@dataclass(frozen=True, slots=True)
class Environment(Kind):
    """Variables and their values, taken as written."""

    def read(self, value: object) -> dict[str, str]:
        """Return the variables."""
        if not isinstance(value, dict):
            raise not_the('a table of variables, such as { LANG = "C" }', value)
        problems = [
            Problem((name, *problem.path), problem.message, problem.suggestion)
            for name, text in value.items()
            for problem in _variable_problems(name, text)
        ]
        if problems:
            raise Refused(problems=problems)
        return dict(value)

    def schema(self) -> Schema:
        """Return the schema of a table of strings."""
        names = {"pattern": "^[^=]+$", "not": {"enum": list(RESERVED_ENV)}}
        return {
            "type": "object",
            "propertyNames": names,
            "additionalProperties": {"type": "string"},
        }


def _variable_problems(name: str, value: object) -> tuple[Problem, ...]:
    """Return what keeps a variable from being set in a process's environment."""
    if not name or "=" in name or "\0" in name:
        return (Problem((), 'is not a name that a variable can have: empty, or with "=" or NUL'),)
    if name in RESERVED_ENV:
        return (Problem((), "is set by pycron for every run", "use another name"),)
    try:
        _check_argument(value)
    except Refused as refused:
        return refused.problems
    if len(f"{name}={value}".encode()) > MAX_STRING_BYTES:
        return (Problem((), f"has more than {MAX_STRING_BYTES} bytes with its name"),)
    return ()
