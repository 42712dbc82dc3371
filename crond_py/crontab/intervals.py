"""What may stand beside a schedule: the grid and the beginning of an interval, and the jitter.

How these keys are read by themselves is in ``keys``; here is whether they fit together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

from crond_py.crontab.faults import Refused
from crond_py.crontab.fields import Refuse
from crond_py.crontab.model import CronTrigger, EveryTrigger, Trigger
from crond_py.model import Align, EveryMode
from crond_py.schedule import format_duration

_SECOND: Final = timedelta(seconds=1)
_UNITS: Final = {Align.MINUTE: 60, Align.HOUR: 3600, Align.DAY: 86_400}
_ROUND: Final = {timedelta(hours=1): "hours", timedelta(minutes=1): "minutes"}
_KEYS: Final = ("every_mode", "align", "offset")


def refuse_interval_keys(own: Mapping[str, Any], refuse: Refuse) -> None:
    """Refuse the keys of intervals in a job that has none."""
    for name in _KEYS:
        if name in own:
            refuse((name,), Refused("has no meaning without every", "take it out"))


def refined(trigger: Trigger, key: str, own: Mapping[str, Any], refuse: Refuse) -> Trigger:
    """Return the trigger with the job's ``align`` and ``offset``; refuse what does not fit it.

    ``key`` is the one that the trigger was made from.
    """
    if isinstance(trigger, EveryTrigger) and trigger.mode is EveryMode.FIXED_DELAY:
        message = 'has no meaning with every_mode = "fixed-delay"'
        for name in ("align", "offset", "jitter"):
            if name in own:
                way_out = 'write every_mode = "fixed-rate", or take it out'
                refuse((name,), Refused(message, way_out))
        return trigger
    if "jitter" in own and not can_jitter(trigger):
        refuse(("jitter",), Refused(f"has no meaning with {key}", "take it out"))
    return _with_grid(trigger, key, own, refuse) if isinstance(trigger, EveryTrigger) else trigger


def can_jitter(trigger: Trigger) -> bool:
    """Tell whether due times of this kind can be spread: those of a timetable, not single ones."""
    match trigger:
        case EveryTrigger(mode=EveryMode.FIXED_RATE) | CronTrigger():
            return True
        case _:
            return False


def _with_grid(
    trigger: EveryTrigger, key: str, own: Mapping[str, Any], refuse: Refuse
) -> EveryTrigger:
    align, offset = own.get("align"), own.get("offset")
    if align is not None and not _divides(trigger.period, align):
        refuse((key,), _no_grid(trigger.period, align))
    if offset is not None and offset >= trigger.period:
        period = format_duration(trigger.period)
        message = f"must be shorter than the interval, {period}"
        refuse(("offset",), Refused(message, f"write a duration from 0s to less than {period}"))
    return replace(trigger, align=align, offset=offset)


def _divides(period: timedelta, align: Align) -> bool:
    seconds, rest = divmod(period, _SECOND)
    return not rest and _UNITS[align] % seconds == 0


def _no_grid(period: timedelta, align: Align) -> Refused:
    """Say that a period does not divide its unit, and which ones near it do."""
    fitting = _divisors(_UNITS[align])
    near = _nearest(period, fitting)
    for each, name in _ROUND.items():
        if period % each == timedelta(0):
            whole = _nearest(period, [other for other in fitting if not other % each])
            near += f"; of whole {name} {whole}" if whole != near else ""
            break
    wider = next((other for other in Align if _divides(period, other)), None)
    other_way = f'; or write align = "{wider}"' if wider else ""
    message = (
        f'with align = "{align}" must divide one {align} evenly, not {format_duration(period)}'
    )
    return Refused(message, f"nearest that fit: {near}{other_way}")


def _nearest(period: timedelta, others: Sequence[timedelta]) -> str:
    """Name the longest that is shorter than ``period`` and the shortest that is longer."""
    shorter = [each for each in others if each < period][-1:]
    longer = [each for each in others if each > period][:1]
    return " and ".join(f'"{format_duration(each)}"' for each in shorter + longer)


@lru_cache(maxsize=len(_UNITS))
def _divisors(unit: int) -> list[timedelta]:
    """Return the periods that divide a unit of so many seconds, the shortest first."""
    return [each * _SECOND for each in range(1, unit + 1) if unit % each == 0]
