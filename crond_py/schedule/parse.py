"""From text to a schedule: the one way in for cron expressions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final

from crond_py.errors import ScheduleError
from crond_py.model import DstFold, DstGap
from crond_py.schedule.cron import CronSchedule, Rule, forget_read
from crond_py.schedule.duration import parse_duration
from crond_py.schedule.expression import (
    ALLOWED,
    forget_expressions,
    has_hash,
)
from crond_py.schedule.kinds import Schedule, from_epoch
from crond_py.schedule.system_zone import forget_system_zone
from crond_py.schedule.zones import forget_zones, zone_of

_EVERY: Final = "@every"

_MOST_RULES: Final = 256
_MOST_KNOWN: Final = 2048

_known: Final[dict[Rule, dict[tuple[str, ...], Schedule]]] = {}
"""The schedules that were asked for lately, by what they are made of."""


def parse_schedule(
    expression: str | Sequence[str],
    timezone: str,
    *,
    dst_gap: DstGap = DstGap.RUN,
    dst_fold: DstFold = DstFold.FIRST,
    hash_key: str = "",
) -> Schedule:
    """Return the schedule of a cron expression in a zone; of several, their union.

    The grammar is crontab(5)'s with some additions, see the package. ``timezone`` is an IANA
    name. ``dst_gap`` and ``dst_fold`` say what becomes of fixed times that a change of the clocks
    skips or repeats. ``hash_key``, a job's name, is what ``H`` is made from. ``@every 90s``, which
    cannot be one of several, is an interval counted from the Unix epoch.

    Raises ScheduleError, whose ``field`` names the part at fault. Equal arguments may return the
    same object.
    """
    texts = (expression,) if isinstance(expression, str) else tuple(expression)
    if not all(isinstance(text, str) for text in texts) or not texts:
        message = "a schedule is a cron expression or a sequence of at least one"
        raise ScheduleError(message, allowed=ALLOWED)
    key = hash_key if any(map(has_hash, texts)) else ""
    return _schedule(texts, _rule(timezone, DstGap(dst_gap), DstFold(dst_fold), key))


def clear_zone_cache() -> None:
    """Have time zone data and the host's zone read again, so that a reload takes up a change.

    Schedules made before keep what they were made with.
    """
    _known.clear()
    _rule.cache_clear()
    forget_read()
    forget_zones()
    forget_system_zone()


def forget_parsed() -> None:
    """Keep nothing for those who ask for the same schedule again: most ask all at once."""
    _known.clear()
    forget_read()
    forget_expressions()


def _schedule(texts: tuple[str, ...], rule: Rule) -> Schedule:
    """Return a schedule that is known, or make it.

    It is known by the texts that it has itself: an lru_cache would keep a key and a link of its
    own for each, and leave their room over when it is forgotten.
    """
    known = _known.get(rule)
    if known is None:
        if len(_known) >= _MOST_RULES:
            _known.clear()
        known = _known.setdefault(rule, {})
    schedule = known.get(texts)
    if schedule is None:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        schedule = known[texts] = _made(texts, rule)
    return schedule


def _made(texts: tuple[str, ...], rule: Rule) -> Schedule:
    for text in texts:
        word, _, duration = text.strip(" \t").replace("\t", " ").partition(" ")
        if word.lower() == _EVERY:
            if len(texts) > 1:
                message = "@every cannot be one of several; give it a job of its own"
                raise ScheduleError(message, allowed=ALLOWED)
            return from_epoch(parse_duration(duration))
    return CronSchedule(texts, rule)


@lru_cache(maxsize=_MOST_RULES)
def _rule(timezone: str, gap: DstGap, fold: DstFold, hash_key: str) -> Rule:
    return Rule(zone_of(timezone), gap, fold, hash_key)
