"""One field of a cron expression: what may stand in it, and the numbers that it means.

The grammar is that of crontab(5) as Debian's cron reads it, with ``N/step``, ``L``, ``#`` and
``H`` beyond it (design, 5). What is not in it is refused with a reason, never guessed at.
"""

from __future__ import annotations

import re
from dataclasses import field
from functools import lru_cache
from typing import Final, NamedTuple, NoReturn

from crond_py.dataclass import dataclass
from crond_py.errors import ScheduleError
from crond_py.schedule.hashed import hashed_values
from crond_py.schedule.wording import shown

_MONTHS: Final = (
    "JAN",
    "FEB",
    "MAR",
    "APR",
    "MAY",
    "JUN",
    "JUL",
    "AUG",
    "SEP",
    "OCT",
    "NOV",
    "DEC",
)
_WEEKDAYS: Final = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")

_VALUE: Final = r"[0-9]+|[A-Za-z]+"
_PLAIN: Final = re.compile(rf"(?:\*|({_VALUE})(?:-({_VALUE}))?)(?:/([0-9]+))?")
_NTH: Final = re.compile(rf"({_VALUE})#([0-9]+)")
_LAST: Final = re.compile(r"([0-9]+|[A-Za-z]{3})[Ll]|[Ll]([0-9]+|[A-Za-z]{3})")
_HASHED: Final = re.compile(r"[Hh](?:\(([0-9]+)-([0-9]+)\))?(?:/([0-9]+))?")
_NEAREST: Final = re.compile(r"[0-9]*L?W[0-9]*", re.IGNORECASE)

_SUNDAY_TOO: Final = 7
_MOST_WEEKS: Final = 5


@dataclass(frozen=True, slots=True)
class FieldKind:
    """A field's place in the grammar: its name in crontab(5), its least and greatest number.

    ``hash_high`` is the greatest that ``H`` stands for by itself, so that it comes in every month
    and Sunday is no likelier than another day. ``beyond`` is what else may stand there.
    """

    name: str
    low: int
    high: int
    hash_high: int
    names: dict[str, int] = field(default_factory=dict, hash=False)
    beyond: str = ""

    @property
    def allowed(self) -> str:
        """What may stand in the field, in words."""
        names = f" or {next(iter(self.names))}-{list(self.names)[-1]}" if self.names else ""
        return (
            f"{self.low}-{self.high}{names}, as *, a, a-b, */n, a/n, a-b/n, H{self.beyond}, "
            "or a list of these with commas"
        )


SECOND: Final = FieldKind("second", 0, 59, 59)
MINUTE: Final = FieldKind("minute", 0, 59, 59)
HOUR: Final = FieldKind("hour", 0, 23, 23)
DAY_OF_MONTH: Final = FieldKind("day of month", 1, 31, 28, beyond=", L (the last day)")
MONTH: Final = FieldKind("month", 1, 12, 12, {name: n for n, name in enumerate(_MONTHS, 1)})
DAY_OF_WEEK: Final = FieldKind(
    "day of week",
    0,
    _SUNDAY_TOO,
    6,
    {name: n for n, name in enumerate(_WEEKDAYS)},
    beyond=", a#n (the n-th in the month), aL (the last)",
)


class Field(NamedTuple):
    """What a field means. ``values`` has bit n set for the number n, with Sunday as 0 only.

    ``begins_with_star`` is all that decides whether a field restricts (crontab(5)), whatever
    follows the star. ``last``: for a day of month 1 if the last day counts; for a day of week
    the set of weekdays that count on their last coming. ``nth[n]``: those that count on their
    n-th, ``nth[0]`` being unused.
    """

    values: int
    begins_with_star: bool
    last: int = 0
    nth: tuple[int, ...] = (0,) * (_MOST_WEEKS + 1)


@lru_cache(maxsize=2048)
def read_field(kind: FieldKind, text: str, hash_key: str) -> Field:
    """Return what ``text`` means in a field of ``kind``; ``H`` stands for a hash of ``hash_key``.

    Raises ScheduleError.
    """
    values = last = 0
    nth = [0] * (_MOST_WEEKS + 1)
    for item in text.split(","):
        # The plain form comes last: what has an H or L could be taken for a name.
        if match := _HASHED.fullmatch(item):
            values |= _hashed(kind, match, hash_key)
        elif kind is DAY_OF_MONTH and item in ("L", "l"):
            last = 1
        elif kind is DAY_OF_WEEK and (match := _LAST.fullmatch(item)):
            last |= _one_weekday(item, match[1] or match[2])
        elif kind is DAY_OF_WEEK and (match := _NTH.fullmatch(item)):
            nth[_nth(item, match[2])] |= _one_weekday(item, match[1])
        elif item not in ("L", "l") and (match := _PLAIN.fullmatch(item)):
            values |= _plain(kind, match)
        else:
            _refuse_junk(kind, item)
    return Field(values, text.startswith("*"), last, tuple(nth))


def _plain(kind: FieldKind, match: re.Match[str]) -> int:
    """Return the numbers of ``*``, ``a`` or ``a-b``, each with or without a step."""
    item, first, until, step = match[0], match[1], match[2], match[3]
    if first is None:
        low, high = kind.low, kind.high
    else:
        low = _number(kind, item, first)
        # "5/10" goes on to the end of the field, "5" does not.
        high = _number(kind, item, until) if until else (kind.high if step else low)
    if low > high:
        _refuse(kind, item, f"runs backwards; {_forwards(kind, low, high)}")
    return _as_set(kind, range(low, high + 1, _step(kind, item, step)))


def _hashed(kind: FieldKind, match: re.Match[str], hash_key: str) -> int:
    """Return the numbers of ``H``, ``H(a-b)``, each with or without a step."""
    item, low, high, step = match[0], match[1], match[2], match[3]
    first = kind.low if low is None else _number(kind, item, low)
    last = kind.hash_high if high is None else _number(kind, item, high)
    if first >= last:
        _refuse(kind, item, "needs a range of at least two numbers, the smaller first")
    width = last - first + 1
    stride = _step(kind, item, step) if step is not None else None
    if stride is not None and stride > width:
        _refuse(kind, item, f"has a step wider than its range of {width}")
    return _as_set(kind, hashed_values(kind.name, first, last, stride, hash_key))


def _number(kind: FieldKind, item: str, text: str) -> int:
    if not text.isdigit():
        number = kind.names.get(text.upper())
        if number is None:
            _refuse_name(kind, item, text)
        return number
    number = int(text)
    if not kind.low <= number <= kind.high:
        _refuse(kind, item, f"is out of range: {kind.low} to {kind.high}")
    return number


def _step(kind: FieldKind, item: str, text: str | None) -> int:
    step = 1 if text is None else int(text)
    if step == 0:
        _refuse(kind, item, "has a step of 0; a step is 1 or more")
    return step


def _nth(item: str, text: str) -> int:
    number = int(text)
    if not 1 <= number <= _MOST_WEEKS:
        _refuse(DAY_OF_WEEK, item, f"asks for week {shown(text)} of a month; there are 1 to 5")
    return number


def _one_weekday(item: str, text: str) -> int:
    return _as_set(DAY_OF_WEEK, (_number(DAY_OF_WEEK, item, text),))


def _as_set(kind: FieldKind, numbers: range | tuple[int, ...]) -> int:
    mask = 0
    for number in numbers:
        mask |= 1 << number
    if kind is DAY_OF_WEEK and mask >> _SUNDAY_TOO:
        mask = mask & ~(1 << _SUNDAY_TOO) | 1
    return mask


def _refuse(kind: FieldKind, item: str, why: str) -> NoReturn:
    message = f"{kind.name} {shown(item)} {why}"
    raise ScheduleError(message, field=kind.name, allowed=kind.allowed)


def _refuse_name(kind: FieldKind, item: str, name: str) -> NoReturn:
    if _NEAREST.fullmatch(item):
        _refuse(kind, item, "asks for the nearest working day (W), which is not supported")
    if not kind.names:
        _refuse(kind, item, "is not a number")
    some = ", ".join(list(kind.names)[:2])
    _refuse(kind, item, f"has the name {shown(name)}; names have three letters, as {some}")


def _refuse_junk(kind: FieldKind, item: str) -> NoReturn:
    """Say why an item is no part of the grammar, as far as its form tells."""
    if not item:
        _refuse(kind, item, "has nothing between two commas, or before or after one")
    if _NEAREST.fullmatch(item):
        _refuse(kind, item, "asks for the nearest working day (W), which is not supported")
    if item == "?":
        _refuse(kind, item, "is not cron's; write * for any")
    if "L" in item.upper() and kind is not DAY_OF_WEEK and kind is not DAY_OF_MONTH:
        _refuse(kind, item, "has an L, which only day fields may have")
    if item in ("L", "l"):
        _refuse(kind, item, "needs its weekday: 5L is the last Friday of the month")
    if item[0] in "\"'`" or item[-1] in "\"'`":
        _refuse(kind, item, "has quotes inside the expression; leave them out")
    if "~" in item:
        _refuse(kind, item, "is not supported; for a time that differs by job write H")
    _refuse(kind, item, "makes no sense here")


def _forwards(kind: FieldKind, low: int, high: int) -> str:
    """Return how to write what a reversed range was probably meant to be."""
    if kind is DAY_OF_WEEK:
        rest = "" if high == 0 else ",1" if high == 1 else f",1-{high}"
        start = f"{low}-7" if low < _SUNDAY_TOO else "7"
        return f"write {start}{rest} where that is meant"
    return f"write {low}-{kind.high},{kind.low}-{high} where that is meant"
