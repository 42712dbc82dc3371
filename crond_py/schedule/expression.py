"""A whole cron expression: its fields put together, or the reason why it is refused."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NoReturn

from crond_py.dataclass import dataclass
from crond_py.errors import ScheduleError
from crond_py.schedule import fields
from crond_py.schedule.days import DayFields, Days
from crond_py.schedule.fields import FieldKind, read_field
from crond_py.schedule.readings import Readings
from crond_py.schedule.times import Times
from crond_py.schedule.wording import shown

LONGEST: Final = 1000
"""More characters than any honest expression has: six full lists come to about 650."""

FIVE: Final = (fields.MINUTE, fields.HOUR, fields.DAY_OF_MONTH, fields.MONTH, fields.DAY_OF_WEEK)
SIX: Final = (fields.SECOND, *FIVE)

NAMED: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

ALLOWED: Final = (
    "minute hour day-of-month month day-of-week, with seconds before them if wanted, "
    f"or one of {', '.join(NAMED)}"
)

_LAST_ASCII: Final = 0x7F
_BLANKS: Final = re.compile(r"[ \t]+")
_ODD: Final = re.compile(r"[^\t -~]")
_HASH: Final = re.compile(r"(?<![A-Za-z])[Hh](?![A-Za-z])")


@dataclass(frozen=True, slots=True)
class Expression:
    """What an expression means, before any zone.

    ``is_fixed``: neither its minute nor its hour field begins with a star, so that clock changes
    must not lose or repeat it.
    """

    text: str
    readings: Readings
    is_fixed: bool


def has_hash(text: str) -> bool:
    """Tell whether the meaning of an expression depends on the name of its job."""
    return ("H" in text or "h" in text) and _HASH.search(text) is not None


def forget_expressions() -> None:
    """Keep nothing of what was read; expressions that are in use stay as they are."""
    read_expression.cache_clear()
    _days.cache_clear()
    read_field.cache_clear()


@lru_cache(maxsize=256)  # what a zone has is kept by its schedules
def read_expression(text: str, hash_key: str) -> Expression:
    """Return what ``text`` means. Raises ScheduleError, also where it could never be due."""
    words = _words(text)
    kinds = SIX if len(words) == len(SIX) else FIVE
    *second, minute, hour, date, month, weekday = _read(kinds, words, hash_key)
    days = _days(
        DayFields(
            month.values,
            date.values,
            weekday.values,
            bool(date.last),
            (weekday.last, *weekday.nth[1:]),
            # crontab(5): where one of them begins with a star, it is not a restriction by itself.
            date.begins_with_star or weekday.begins_with_star,
        )
    )
    if not days.can_come():
        raise ScheduleError(
            f"{shown(text.strip())} can never fire: no such day of month comes in its months"
            f"{' on its days of week' if not weekday.begins_with_star else ''}",
            field="day of month",
            allowed="a day that the months have, such as 28 or L (the last day)",
        )
    seconds = second[0].values if second else 1
    times = Times(hour.values, minute.values, seconds)
    is_fixed = not (minute.begins_with_star or hour.begins_with_star)
    plain = " ".join(words)
    # Where it is the same text, it takes no room of its own: the job has it, too.
    return Expression(text if plain == text else plain, Readings(days, times), is_fixed)


@lru_cache(maxsize=1024)
def _days(day_fields: DayFields) -> Days:
    """Share what was worked out about days between expressions that have the same."""
    return Days(day_fields)


def _words(text: str) -> list[str]:
    """Split an expression into its fields, which are as many as there should be."""
    _check_characters(text)
    words = _split(text)
    if not words:
        _refuse('it is empty; write for example "30 2 * * *"')
    if words[0].startswith("@"):
        return _split(_named(words))
    if len(words) < len(FIVE):
        _refuse(f"{shown(text.strip())} has {len(words)} of the 5 fields")
    if len(words) > len(SIX):
        _refuse(
            f"{shown(text.strip())} has {len(words)} fields, more than 5, or 6 with seconds first; "
            "years, commands and comments have no place in it"
        )
    return words


def _split(text: str) -> list[str]:
    stripped = text.strip(" \t")
    return _BLANKS.split(stripped) if stripped else []


def _check_characters(text: str) -> None:
    """Refuse what looks like a digit, a letter or a blank but is none of cron's."""
    if len(text) > LONGEST:
        _refuse(f"it has {len(text)} characters, more than {LONGEST}")
    odd = _ODD.search(text)
    if odd is None:
        return
    code = ord(odd.group())
    what = "a control character" if code <= _LAST_ASCII else "not an ASCII character"
    field = _field_at(text, odd.start())
    _refuse(f"{field} has U+{code:04X} in it, {what}: {shown(text)}", field)


def _field_at(text: str, place: int) -> str:
    """Return the name of the field at that place, where the number of fields makes it certain."""
    number = len(_split(text))
    if number not in (len(FIVE), len(SIX)):
        return "expression"
    return (FIVE if number == len(FIVE) else SIX)[max(0, len(_split(text[: place + 1])) - 1)].name


def _named(words: list[str]) -> str:
    name = words[0].lower()
    if len(words) > 1:
        _refuse(f"{shown(words[0])} stands alone, with no fields or command after it")
    if name == "@reboot":
        _refuse('@reboot is not a time; write startup = "boot" in place of the schedule')
    if name not in NAMED:
        from difflib import get_close_matches  # noqa: PLC0415 - only a wrong name costs its import

        near = get_close_matches(name, NAMED, 1)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(NAMED)}"
        _refuse(f"there is no name {shown(words[0])}{hint}")
    return NAMED[name]


def _read(kinds: tuple[FieldKind, ...], words: list[str], hash_key: str) -> list[fields.Field]:
    keys = (hash_key if _HASH.search(word) else "" for word in words)
    try:
        return [read_field(*each) for each in zip(kinds, words, keys, strict=True)]
    except ScheduleError as error:
        if len(words) == len(SIX) and error.field == fields.DAY_OF_WEEK.name and _is_five(words):
            message = f"{error}; a command or comment has no place in an expression"
            raise ScheduleError(message, field=error.field, allowed=error.allowed) from None
        raise


def _is_five(words: list[str]) -> bool:
    """Tell whether all but the last word are an expression, so that the last is something else."""
    try:
        _read(FIVE, words[: len(FIVE)], "")
    except ScheduleError:
        return False
    return True


def _refuse(message: str, field: str = "expression") -> NoReturn:
    raise ScheduleError(message, field=field, allowed=ALLOWED)
