"""What a caller of the scheduler may ask for, read and checked before anything is entered."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from enum import StrEnum
from functools import partial
from typing import Any, Literal, TypedDict, TypeVar

from crond_py.clock import to_ns
from crond_py.dataclass import dataclass
from crond_py.errors import ScheduleError
from crond_py.model import Missed, Overlap, Retry

_FAREST_NS = 2**63 - 1  # 292 years
_NS_PER_S = 1_000_000_000

_OVERLAPS = (Overlap.SKIP, Overlap.QUEUE, Overlap.ALLOW)
"""A callable cannot be ended, so it cannot be replaced."""

AnyEnum = TypeVar("AnyEnum", bound=StrEnum)


class TaskOptions(TypedDict, total=False):
    """What every task may be given.

    ``name``: for logs; the callable's own by default. ``priority``: who goes first of those that
    are due at one instant or wait for a worker, higher first; 0 by default. ``retry``: whether a
    run that raises is tried again; not by default.
    """

    name: str
    priority: int
    retry: Retry


class RepeatOptions(TaskOptions, total=False):
    """What a task that repeats may be given besides.

    ``overlap``: what happens when it is due while a run of it is active (waits for a worker,
    runs, or waits for a retry): ``skip`` that turn (the default), ``queue`` it until the run has
    ended, or ``allow`` both at once. ``queue_limit``: how many turns wait with ``queue``, 10 by
    default; one more is skipped. ``missed``: what happens when several due instants have passed,
    or one by more than a second, because the process or the machine stood still or the wall clock
    was set: one run for all of them (``once``, the default), none for those (``skip``), or one
    each (``all``), one after the other and at most 100, unless overlaps are allowed.
    """

    overlap: Overlap | Literal["skip", "queue", "allow"]
    queue_limit: int
    missed: Missed | Literal["skip", "once", "all"]


@dataclass(frozen=True, slots=True)
class Settings:
    """A task's options, complete and checked."""

    name: str
    priority: int = 0
    retry: Retry = Retry()
    overlap: Overlap = Overlap.SKIP
    queue_limit: int = 10
    missed: Missed = Missed.ONCE


def read_settings(
    func: Callable[..., object], options: Mapping[str, Any], *, repeats: bool
) -> Settings:
    """Check a callable and its options.

    Raises TypeError for what is not of the right kind, ValueError for a value out of range.
    """
    if not callable(func):
        raise TypeError(f"a task must be callable, not {func!r}")
    if inspect.iscoroutinefunction(func):
        message = f"{func!r} is a coroutine function: calling it would run nothing"
        raise TypeError(message)
    allowed = (RepeatOptions if repeats else TaskOptions).__annotations__
    for option in options:
        if option not in allowed:
            message = f"no option {option!r} here; there are {', '.join(sorted(allowed))}"
            raise TypeError(message)
    values = dict(options)
    values.setdefault("name", _name_of(func))
    if "overlap" in values:
        values["overlap"] = read_enum("overlap", _OVERLAPS, values["overlap"])
    if "missed" in values:
        values["missed"] = read_enum("missed", Missed, values["missed"])
    settings = Settings(**values)
    _check_text("name", settings.name)
    check_int("priority", settings.priority, least=None)
    check_int("queue_limit", settings.queue_limit, least=0)
    _check_retry(settings.retry)
    return settings


def read_enum(what: str, kind: Iterable[AnyEnum], value: object) -> AnyEnum:
    """Return the member that ``value`` is or spells."""
    for member in kind:
        if value == member:
            return member
    raise ValueError(f"{what} is {value!r}; it may be {', '.join(map(repr, map(str, kind)))}")


def check_int(what: str, value: object, *, least: int | None) -> None:
    """Refuse what is not a whole number, or is below ``least``."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"{what} must be a whole number, not {value!r}")
    if least is not None and value < least:
        raise ValueError(f"{what} must be at least {least}, not {value}")


def read_span_ns(what: str, span: object) -> int:
    """Return a timedelta or a number of seconds in nanoseconds.

    Raises ScheduleError, which is a ValueError, for one that is not finite or beyond all reason.
    """
    if isinstance(span, timedelta):
        span_ns = to_ns(span)
    elif isinstance(span, (int, float)) and not isinstance(span, bool):
        if not math.isfinite(span):
            raise ScheduleError(f"{what} must be a finite time, not {span}")
        span_ns = span * _NS_PER_S if isinstance(span, int) else round(span * _NS_PER_S)
    else:
        raise TypeError(f"{what} must be a timedelta or a number of seconds, not {span!r}")
    if abs(span_ns) > _FAREST_NS:
        raise ScheduleError(
            f"{what} is more than 292 years; is it in nanoseconds? Seconds are wanted",
            allowed="seconds",
        )
    return span_ns


def read_period_ns(what: str, span: object) -> int:
    """Return a time that must be longer than nothing, in nanoseconds."""
    span_ns = read_span_ns(what, span)
    if span_ns <= 0:
        raise ScheduleError(f"{what} must be longer than nothing, not {span}")
    return span_ns


def _name_of(func: object) -> str:
    # Not repr(): it would show the arguments of a partial, which may be secret, in the log.
    while isinstance(func, partial):
        func = func.func
    name = getattr(func, "__qualname__", None)
    return name if isinstance(name, str) else type(func).__qualname__


def _check_text(what: str, value: object) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{what} must be a string, not {value!r}")


def _check_retry(retry: object) -> None:
    if not isinstance(retry, Retry):
        raise TypeError(f"retry must be a Retry, not {retry!r}")
    check_int("retry.attempts", retry.attempts, least=1)
    for name in ("delay", "max_delay", "jitter"):
        span = getattr(retry, name)
        if not isinstance(span, timedelta):
            raise TypeError(f"retry.{name} must be a timedelta, not {span!r}")
        if span < timedelta(0):
            raise ValueError(f"retry.{name} must not be negative, not {span}")
    if not isinstance(retry.backoff, (int, float)) or isinstance(retry.backoff, bool):
        raise TypeError(f"retry.backoff must be a number, not {retry.backoff!r}")
    if not (math.isfinite(retry.backoff) and retry.backoff > 0):
        raise ValueError(f"retry.backoff must be a positive number, not {retry.backoff}")
