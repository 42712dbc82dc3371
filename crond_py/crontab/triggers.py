"""The keys that say when a job is due: how they are read, and the trigger that they make.

The time zone of a job may come from elsewhere, so reading is in two steps: a value by itself,
then, with the zone known, whether it can ever be due.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sized
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final

from crond_py.crontab.faults import Problem, Refused, quoted, shown
from crond_py.crontab.model import (
    AfterTrigger,
    AtTrigger,
    CronTrigger,
    EveryTrigger,
    StartupTrigger,
    Trigger,
)
from crond_py.crontab.moments import moment_fault
from crond_py.crontab.values import Choice, Duration, Kind, Schema, not_the
from crond_py.dataclass import dataclass
from crond_py.errors import ScheduleError
from crond_py.model import Condition, DstFold, DstGap, EveryMode
from crond_py.schedule import parse_schedule
from crond_py.schedule.expression import has_hash

SHORTEST_PERIOD: Final = timedelta(milliseconds=100)
MAX_EXPRESSIONS: Final = 100
MAX_UPSTREAMS: Final = 1000
_ANY_OFFSET: Final = timedelta(hours=36)  # more than any zone is from UTC, with a gap
_YEARS: Final = range(1970, 9990)

_UNITS_IN_WORDS: Final = {
    "second": "1s", "minute": "1m", "hour": "1h", "day": "1d", "week": "1w",
    "hourly": "1h", "daily": "1d", "weekly": "1w",
}  # fmt: skip
_LIKE_CRON: Final = re.compile(r"@[a-z]+|[0-9*][^ ]*( +[^ ]+){4,5}")


@dataclass(frozen=True, slots=True)
class Interval(Duration):
    """A duration; whoever writes a timetable in its place is told where that belongs."""

    def read(self, value: object) -> timedelta:
        """Return the interval."""
        try:
            return Duration.read(self, value)
        except Refused as refused:
            way_out = _meant_by_interval(value) if isinstance(value, str) else ""
            if not way_out:
                raise
            raise Refused(refused.problems[0].message, way_out) from None


def _meant_by_interval(text: str) -> str:
    text = text.strip().lower()
    if written := _UNITS_IN_WORDS.get(text):
        return f'write "{written}"'
    is_cron = _LIKE_CRON.fullmatch(text) is not None
    return "a cron expression is the schedule of a job in the crontab" if is_cron else ""


PERIOD: Final = Interval(minimum=SHORTEST_PERIOD)


@dataclass(frozen=True, slots=True)
class Calendar:
    """What the due times of a job are read in."""

    job: str
    timezone: str
    dst_gap: DstGap
    dst_fold: DstFold


@dataclass(frozen=True, slots=True)
class Expressions(Kind):
    """A cron expression, an array of them, or ``@every`` with a duration."""

    def read(self, value: object) -> CronTrigger | EveryTrigger:
        """Return a trigger whose expressions have not been looked into yet."""
        if isinstance(value, str):
            if _first_word(value) == "@every":
                return EveryTrigger(PERIOD.read(value.strip()[len("@every") :].strip()))
            _check_expression(value)
            return CronTrigger((value,))
        if not isinstance(value, list):
            raise not_the('a cron expression such as "30 2 * * *", or an array of them', value)
        if not 1 <= len(value) <= MAX_EXPRESSIONS:
            raise Refused(f"must have 1 to {MAX_EXPRESSIONS} expressions, not {len(value)}")
        problems = []
        for index, expression in enumerate(value):
            try:
                _check_expression(expression)
            except Refused as refused:
                problems += [Problem((index,), p.message, p.suggestion) for p in refused.problems]
        if problems:
            raise Refused(problems=problems)
        return CronTrigger(tuple(value))

    def schema(self) -> Schema:
        """Return the schema of either form. The grammar of cron is not in it."""
        text = {"type": "string", "minLength": 1}
        array = {"type": "array", "items": text, "minItems": 1, "maxItems": MAX_EXPRESSIONS}
        return {"anyOf": [text, array]}


def _first_word(text: str) -> str:
    return text.split(maxsplit=1)[0].lower() if text.strip() else ""


def _check_expression(value: object) -> None:
    """Refuse what is not for cron at all."""
    if not isinstance(value, str):
        raise not_the("text", value)
    match _first_word(value):
        case "":
            raise Refused("is empty", 'write for example "30 2 * * *"')
        case "@reboot":
            raise Refused("@reboot is a key of its own here", 'write startup = "boot"')
        case "@every":
            raise Refused("@every cannot be one of several", "make it a job with every")
        case _:
            return


@dataclass(frozen=True, slots=True)
class Moment(Kind):
    """A date-time of TOML; a date alone means its first moment, 00:00."""

    def read(self, value: object) -> datetime:
        """Return a datetime, naive where the zone is the job's."""
        if isinstance(value, date) and not isinstance(value, datetime):
            value = datetime.combine(value, time())
        if not isinstance(value, datetime):
            raise not_the("a TOML date-time such as 2026-12-24T18:00:00", value, _unquoted(value))
        if value.year not in _YEARS:
            raise not_the(f"in a year from {_YEARS[0]} to {_YEARS[-1]}", value)
        return value

    def schema(self) -> Schema:
        """Return the schema that editors use for TOML's date-times: text."""
        date_time = (
            r"^\d{4}-\d{2}-\d{2}([Tt ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?([Zz]|[+-]\d{2}:\d{2})?)?$"
        )
        return {"type": "string", "pattern": date_time}


def _unquoted(value: object) -> str:
    """Suggest leaving out the quotes around what is a date-time, or say what keeps it from that."""
    if not isinstance(value, str):
        return ""
    try:
        moment = datetime.fromisoformat(value)
    except ValueError:
        return moment_fault(value)
    return f"write it without quotes: {moment.isoformat()}"


@dataclass(frozen=True, slots=True)
class Startup(Kind):
    """True, or "boot"."""

    def read(self, value: object) -> StartupTrigger:
        """Return the trigger."""
        if value is True:
            return StartupTrigger()
        if value == "boot":
            return StartupTrigger(per_boot=True)
        raise not_the('true or "boot"', value, "leave it out" if value is False else "")

    def schema(self) -> Schema:
        """Return the schema of the two values."""
        return {"enum": [True, "boot"]}


@dataclass(frozen=True, slots=True)
class After(Kind):
    """An array of jobs that are to succeed, or a table of jobs and what is asked of each."""

    def read(self, value: object) -> AfterTrigger:
        """Return the trigger. Whether there are such jobs is for the loader to see."""
        if isinstance(value, list):
            _check_count(value)  # before what takes time with each of them
            problems = [
                Problem((index,), f"must be the name of a job, not {quoted(name)}")
                for index, name in enumerate(value)
                if not isinstance(name, str)
            ]
            if problems:
                raise Refused(problems=problems)
            if twice := next((name for name, times in Counter(value).items() if times > 1), None):
                raise Refused(f"names {quoted(twice)} twice")
            value = dict.fromkeys(value, Condition.SUCCESS.value)
        if not isinstance(value, dict):
            hint = f"write [{quoted(value)}]" if isinstance(value, str) else ""
            raise not_the('an array of jobs, or a table such as { backup = "any" }', value, hint)
        if not value:
            raise Refused("names no job", "a job without a schedule needs one to follow")
        _check_count(value)
        condition = Choice(Condition)
        problems = []
        conditions: dict[str, Condition] = {}
        for name, asked in value.items():
            try:
                conditions[name] = Condition(condition.read(asked))
            except Refused as refused:
                problems += [problem.below((name,)) for problem in refused.problems]
        if problems:
            raise Refused(problems=problems)
        return AfterTrigger(MappingProxyType(conditions))

    def schema(self) -> Schema:
        """Return the schema of either form."""
        name = {"type": "string", "minLength": 1}
        array = {
            "type": "array",
            "items": name,
            "minItems": 1,
            "maxItems": MAX_UPSTREAMS,
            "uniqueItems": True,
        }
        table = {
            "type": "object",
            "additionalProperties": Choice(Condition).schema(),
            "minProperties": 1,
            "maxProperties": MAX_UPSTREAMS,
        }
        return {"anyOf": [array, table]}


def trigger_of(key: str, value: Any, mode: EveryMode | None, calendar: Calendar) -> Trigger:
    """Return the trigger of a job from its one schedule key and, for intervals, the mode.

    Raises Refused where the schedule can never be due or the moment is not in the zone.
    """
    match key:
        case "every":
            return EveryTrigger(value, mode or EveryMode.FIXED_RATE)
        case "at":
            return AtTrigger(instant_of(value, calendar))
        case "startup":
            return StartupTrigger(value.per_boot)
        case "after":
            return AfterTrigger(value.conditions)
        case _ if isinstance(value, EveryTrigger):
            return EveryTrigger(value.period, mode or EveryMode.FIXED_RATE)
        case _:
            return checked(value, calendar)


def checked(trigger: CronTrigger, calendar: Calendar) -> CronTrigger:
    """Return the trigger in plain spelling, once each expression has been read.

    Raises Refused where one makes no sense or can never be due.
    """
    if any(map(has_hash, trigger.expressions)):
        return _read(trigger.expressions, calendar)
    return _read_once(trigger.expressions, calendar.timezone, calendar.dst_gap, calendar.dst_fold)


@lru_cache(maxsize=4096)
def _read_once(
    expressions: tuple[str, ...], timezone: str, gap: DstGap, fold: DstFold
) -> CronTrigger:
    """Read what means the same for every job once; many jobs share few schedules."""
    return _read(expressions, Calendar("", timezone, gap, fold))


def _read(expressions: tuple[str, ...], calendar: Calendar) -> CronTrigger:
    problems = []
    for index, expression in enumerate(expressions):
        try:
            parse_schedule(
                expression,
                calendar.timezone,
                dst_gap=calendar.dst_gap,
                dst_fold=calendar.dst_fold,
                hash_key=calendar.job,
            )
        except ScheduleError as error:
            path = (index,) if len(expressions) > 1 else ()
            allowed = f"allowed: {error.allowed}" if error.allowed else ""
            problems.append(Problem(path, shown(str(error)), shown(allowed)))
    if problems:
        raise Refused(problems=problems)
    return CronTrigger(tuple(" ".join(text.split()) for text in expressions))


def instant_of(moment: datetime, calendar: Calendar) -> datetime:
    """Return a one-off moment in UTC.

    A reading without an offset follows the rules of a fixed time in cron: it is taken as the
    expression for that second of that day, in the job's zone and under its ``dst_`` keys. It is
    due once, so that of two passes "both" means the first. Raises Refused where it never comes.
    """
    if moment.tzinfo is not None:
        return moment.astimezone(UTC)
    whole = moment.replace(microsecond=0)
    expression = f"{whole:%S %M %H %d %m} *"
    schedule = parse_schedule(
        expression, calendar.timezone, dst_gap=calendar.dst_gap, dst_fold=calendar.dst_fold
    )
    before = whole.replace(tzinfo=UTC) - _ANY_OFFSET
    due = schedule.next_after(before)
    if due is None or due > before + 2 * _ANY_OFFSET:
        raise Refused(
            f"{whole.isoformat()} does not come in {calendar.timezone}: the clocks jump over it",
            "write another time, or one with its offset",
        )
    return due + timedelta(microseconds=moment.microsecond)


def _check_count(names: Sized) -> None:
    if len(names) > MAX_UPSTREAMS:
        raise Refused(f"must name at most {MAX_UPSTREAMS} jobs, not {len(names)}")
