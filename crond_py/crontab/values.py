"""The kinds of value that a crontab has: how one is read and checked, and its JSON Schema.

A kind turns what tomllib returns into the type of the model, or raises Refused saying what it
must be. It sees one value at a time; what depends on several keys is checked by the loader.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from datetime import timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

from crond_py.crontab.faults import Problem, Refused, choices, nearest, quoted, shown
from crond_py.dataclass import dataclass
from crond_py.errors import ScheduleError
from crond_py.model import DstFold, DstGap
from crond_py.schedule import format_duration, parse_duration, parse_schedule
from crond_py.schedule.zone_names import zone_hint

Schema = dict[str, Any]

LONGEST: Final = timedelta(days=36525)
"""A hundred years: an instant plus a duration stays an instant."""

_LONGEST_DURATION_TEXT: Final = 100
_LONGEST_WORD: Final = 100
NAME_PATTERN: Final = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}"
DURATION_PATTERN: Final = r"^\s*(\d+(\.\d+)?\s*[a-z]+\s*)+$"

_NAME: Final = re.compile(NAME_PATTERN, re.ASCII)


class Kind(ABC):
    """One kind of value."""

    @abstractmethod
    def read(self, value: object) -> Any:
        """Return ``value`` as the model has it, or raise Refused."""

    @abstractmethod
    def schema(self) -> Schema:
        """Return the JSON Schema of the value as it is written."""

    def write(self, value: Any) -> object:
        """Return how a value of the model is written in the crontab."""
        return value


def not_the(what: str, value: object, suggestion: str = "") -> Refused:
    """Return the refusal of a value that is not what it must be."""
    return Refused(f"must be {what}, not {quoted(value)}", suggestion)


@dataclass(frozen=True, slots=True)
class Never(Kind):
    """The value of a key that must not be there: refused whatever it is, never ignored."""

    message: str
    suggestion: str

    def read(self, value: object) -> Any:
        """Refuse every value."""
        del value
        raise Refused(self.message, self.suggestion)

    def schema(self) -> Schema:
        """Return a schema that nothing matches."""
        return {"not": {}}


@dataclass(frozen=True, slots=True)
class Flag(Kind):
    """True or false."""

    def read(self, value: object) -> bool:
        """Return a boolean."""
        if not isinstance(value, bool):
            raise not_the("true or false", value)
        return value

    def schema(self) -> Schema:
        """Return the schema of a boolean."""
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Integer(Kind):
    """A whole number between two bounds, both allowed."""

    minimum: int
    maximum: int

    def read(self, value: object) -> int:
        """Return an integer; true is none."""
        if isinstance(value, bool) or not isinstance(value, int):
            digits = isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,9}", value)
            raise not_the("a whole number", value, "write it without quotes" if digits else "")
        if not self.minimum <= value <= self.maximum:
            raise not_the(f"between {self.minimum} and {self.maximum}", value)
        return value

    def schema(self) -> Schema:
        """Return the schema of an integer in these bounds."""
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True, slots=True)
class Factor(Kind):
    """A number between two bounds, both allowed."""

    minimum: float
    maximum: float

    def read(self, value: object) -> float:
        """Return a finite float."""
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise not_the("a number", value)
        if (isinstance(value, float) and math.isnan(value)) or not (
            self.minimum <= value <= self.maximum
        ):
            raise not_the(f"a number between {self.minimum:g} and {self.maximum:g}", value)
        return float(value)

    def schema(self) -> Schema:
        """Return the schema of a number in these bounds."""
        return {"type": "number", "minimum": self.minimum, "maximum": self.maximum}


@dataclass(frozen=True, slots=True)
class Duration(Kind):
    """A length of time with its unit, such as "1h30m", that is a whole number of ``step``."""

    minimum: timedelta = timedelta(0)
    step: timedelta = timedelta.resolution

    def read(self, value: object) -> timedelta:
        """Return a timedelta between ``minimum`` and a hundred years, in whole steps."""
        if not isinstance(value, str):
            raise not_the('text with a unit, such as "90s" or "1h30m"', value, _with_unit(value))
        if len(value) > _LONGEST_DURATION_TEXT:
            raise not_the("a duration", value)
        try:
            duration = _duration(value)
        except ScheduleError as error:
            raise Refused(shown(str(error)), _with_unit(value)) from None
        if not self.minimum <= duration <= LONGEST:
            bounds = f"from {format_duration(self.minimum)} to {format_duration(LONGEST)}"
            raise not_the(f"a duration {bounds}", value)
        if duration % self.step:
            raise not_the(f"a whole number of {format_duration(self.step)}", value)
        return duration

    def schema(self) -> Schema:
        """Return the schema of the text. That it is long enough is not in it."""
        return {"type": "string", "pattern": DURATION_PATTERN, "maxLength": _LONGEST_DURATION_TEXT}

    def write(self, value: Any) -> object:
        """Return the text."""
        return format_duration(value)


@lru_cache(maxsize=1024)
def _duration(text: str) -> timedelta:
    return parse_duration(text)


def _with_unit(value: object) -> str:
    """Suggest seconds for a number without a unit."""
    number = str(value)[:20]
    is_bare = not isinstance(value, bool) and re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,3})?", number)
    return f'for seconds write "{number}s"' if is_bare else ""


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    """One of a few words."""

    words: type[StrEnum]
    suggestion: str = ""
    """What to do instead, where none of the words is near."""

    def read(self, value: object) -> StrEnum:
        """Return the member of the enumeration."""
        if isinstance(value, str) and value in self.words.__members__.values():
            return self.words(value)
        suggestion = nearest(value, self.words) if isinstance(value, str) else ""
        raise not_the(choices(self.words), value, suggestion or self.suggestion)

    def schema(self) -> Schema:
        """Return the schema that lists the words."""
        return {"enum": [word.value for word in self.words]}

    def write(self, value: Any) -> object:
        """Return the word."""
        return str(value)


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """Text for people to read."""

    longest: int

    def read(self, value: object) -> str:
        """Return text without control characters other than ends of lines and tabs."""
        if not isinstance(value, str):
            raise not_the("text", value, in_quotes(value))
        if len(value) > self.longest:
            raise Refused(f"has {len(value)} characters, more than {self.longest}")
        if not re.sub(r"[\n\t]", "", value).isprintable():
            raise Refused(f"has a control character: {quoted(value)}")
        return value

    def schema(self) -> Schema:
        """Return the schema of a string."""
        return {"type": "string", "maxLength": self.longest}


def in_quotes(value: object) -> str:
    """Suggest quotes for a number or a boolean where text belongs."""
    return f'write "{shown(str(value))}"' if isinstance(value, float) or is_short(value) else ""


def is_short(value: object) -> bool:
    """Tell whether ``value`` is an integer that is short enough to be shown."""
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**12


@dataclass(frozen=True, slots=True)
class Words(Kind):
    """An array of short words, at least one."""

    what: str

    def read(self, value: object) -> tuple[str, ...]:
        """Return the words."""
        if not isinstance(value, list):
            hint = f"write [{quoted(value)}]" if isinstance(value, str) else ""
            raise not_the(f"an array of {self.what}", value, hint)
        if not value:
            raise Refused("is an empty array", "leave it out")
        problems = [
            Problem((index,), f"must be text of 1 to 100 printable characters, not {quoted(word)}")
            for index, word in enumerate(value)
            if not _is_word(word)
        ]
        if problems:
            raise Refused(problems=problems)
        return tuple(value)

    def schema(self) -> Schema:
        """Return the schema of an array of strings."""
        word = {"type": "string", "minLength": 1, "maxLength": _LONGEST_WORD}
        return {"type": "array", "items": word, "minItems": 1}

    def write(self, value: Any) -> object:
        """Return an array."""
        return list(value)


def _is_word(value: object) -> bool:
    return isinstance(value, str) and 1 <= len(value) <= _LONGEST_WORD and value.isprintable()


@dataclass(frozen=True, slots=True)
class Zone(Kind):
    """The name of a time zone in the IANA database."""

    def read(self, value: object) -> str:
        """Return the name."""
        if not isinstance(value, str):
            raise not_the('the name of a time zone such as "Europe/Berlin"', value)
        if not _is_zone(value):
            hint = zone_hint(value) or "names are such as Europe/Berlin"
            raise Refused(f"there is no time zone {quoted(value)}", hint)
        return value

    def schema(self) -> Schema:
        """Return the schema of a name. The list of zones is the system's own and not in it."""
        return {"type": "string", "pattern": r"^[A-Za-z][A-Za-z0-9_+/-]*$"}


def _is_zone(name: str) -> bool:
    """Tell whether the schedule knows a zone; it is the one that will work with it."""
    try:
        parse_schedule("@daily", name, dst_gap=DstGap.RUN, dst_fold=DstFold.FIRST)
    except ScheduleError:
        return False
    return True


@dataclass(frozen=True, slots=True)
class Name(Kind):
    """The name of a job or a pool. It becomes a directory and is printed on terminals."""

    def read(self, value: object) -> str:
        """Return the name."""
        if not isinstance(value, str):
            raise not_the("a name", value)
        if not is_name(value):
            raise Refused(
                f"{quoted(value)} is no name",
                'a name has 1 to 100 letters, digits, "_", "." or "-" of ASCII'
                ' and does not begin with "." or "-"',
            )
        return value

    def schema(self) -> Schema:
        """Return the schema of a name."""
        return {"type": "string", "pattern": f"^{NAME_PATTERN}$"}


@dataclass(frozen=True, slots=True)
class JobName(Name):
    """The name of a job. Where commands take a job or a run, a number is a run."""

    def read(self, value: object) -> str:
        """Return the name."""
        name = Name.read(self, value)
        if name.isdigit():
            way_out = f'a number is that of a run; write for example "job-{name}"'
            raise Refused(f"{quoted(name)} is no name of a job", way_out)
        return name

    def schema(self) -> Schema:
        """Return the schema of a name that is no number."""
        return Name.schema(self) | {"not": {"pattern": "^[0-9]+$"}}


JOB_NAME: Final = JobName()


def is_name(text: str) -> bool:
    """Tell whether a job or a pool can have this name."""
    return _NAME.fullmatch(text) is not None
