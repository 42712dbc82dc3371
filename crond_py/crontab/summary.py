"""What is said of jobs in short: a fingerprint, a text for tables, what a reload has changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

from crond_py.crontab.model import (
    AfterTrigger,
    AtTrigger,
    Crontab,
    CronTrigger,
    EveryTrigger,
    Job,
    StartupTrigger,
    Trigger,
)
from crond_py.dataclass import dataclass
from crond_py.digest import sha256
from crond_py.model import Condition, DstFold, DstGap, EveryMode
from crond_py.schedule import format_duration, system_timezone

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_MOST_RULES: Final = 256
_MOST_KNOWN: Final = 2048
_JSON: Final = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))

_Rules = tuple[str | None, DstGap, DstFold, timedelta | None]

_known: Final[dict[_Rules, dict[Trigger, str]]] = {}
"""The fingerprints that were made lately: many jobs share few schedules."""


@dataclass(frozen=True, slots=True)
class TableDiff:
    """The names of what one table has and another has not, or has otherwise."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


@dataclass(frozen=True, slots=True)
class CrontabDiff:
    """What differs between the tables of two crontabs."""

    jobs: TableDiff = TableDiff()
    pools: TableDiff = TableDiff()
    groups: TableDiff = TableDiff()

    def __bool__(self) -> bool:
        return bool(self.jobs or self.pools or self.groups)


def fingerprint(job: Job) -> str:
    """Return 16 characters that are the same as long as the job is due at the same instants.

    They are made of the trigger and, for cron expressions, the zone and the ``dst_`` keys; the
    order of the expressions does not matter. What only some jobs have (align with its zone,
    offset, jitter) comes after that, for those alone. The text that is hashed is part of the
    ledger's format: another spelling would give every job a new baseline.
    """
    rules = (job.timezone, job.dst_gap, job.dst_fold, job.jitter)
    known = _known.get(rules)
    if known is None:
        if len(_known) >= _MOST_RULES:
            _known.clear()
        known = _known[rules] = {}
    found = known.get(job.trigger)
    if found is None:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        found = known[job.trigger] = _fingerprint(job.trigger, *rules)
    return found


def forget_fingerprints() -> None:
    """Keep none for those who ask again: most ask when a crontab is taken up."""
    _known.clear()


def _fingerprint(
    trigger: Trigger,
    timezone: str | None,
    dst_gap: DstGap,
    dst_fold: DstFold,
    jitter: timedelta | None,
) -> str:
    rules = [timezone, dst_gap.value, dst_fold.value]
    identity = [*_identity(trigger, rules), *_refinements(trigger, timezone, jitter)]
    return sha256(_JSON.encode(identity).encode("ascii")).hex()[:16]


def _identity(trigger: Trigger, rules: list[str | None]) -> list[object]:
    """Return what decides when a job is due, as plain values."""
    match trigger:
        case CronTrigger(expressions):
            return ["cron", sorted(set(expressions)), *rules]
        case EveryTrigger(period, mode):
            return ["every", period // _MICROSECOND, mode.value]
        case AtTrigger(instant):
            return ["at", (instant - _EPOCH) // _MICROSECOND]
        case AfterTrigger(conditions):
            return ["after", sorted([name, asked.value] for name, asked in conditions.items())]
        case StartupTrigger(per_boot):
            return ["startup", per_boot]


def _refinements(
    trigger: Trigger, timezone: str | None, jitter: timedelta | None
) -> Iterator[list[object]]:
    """Yield what else decides when a job is due, each with its name, where the job has it."""
    match trigger:
        case EveryTrigger(align=align, offset=offset):
            if align is not None:
                yield ["align", align.value, timezone]
            if offset is not None and (offset or align is None):
                yield ["offset", offset // _MICROSECOND]
    if jitter is not None:
        yield ["jitter", jitter // _MICROSECOND]


def describe_trigger(job: Job) -> str:
    """Return when a job is due, short enough for a table; instants are in the job's zone."""
    match job.trigger:
        case CronTrigger(expressions):
            return "; ".join(expressions)
        case EveryTrigger(period, EveryMode.FIXED_DELAY):
            return f"{format_duration(period)} after the last run"
        case EveryTrigger(period, _, align, offset):
            grid = f", aligned to the {align}" if align is not None else ""
            later = f", +{format_duration(offset)}" if offset is not None else ""
            return f"every {format_duration(period)}{grid}{later}"
        case AtTrigger(instant):
            local = instant.astimezone(ZoneInfo(job.timezone or system_timezone()))
            detail = "seconds" if local.second or local.microsecond else "minutes"
            return f"at {local.replace(tzinfo=None).isoformat(' ', detail)}"
        case AfterTrigger(conditions):
            return f"after {', '.join(map(_asked, conditions.items()))}"
        case trigger:
            return "at boot" if trigger.per_boot else "at startup"


def _asked(condition: tuple[str, Condition]) -> str:
    name, asked = condition
    return name if asked is Condition.SUCCESS else f"{name} ({asked})"


def diff_crontabs(old: Crontab, new: Crontab) -> CrontabDiff:
    """Return what ``new`` has added, removed and changed, each in the order of its crontab.

    Where in a file a job stands does not count.
    """
    return CrontabDiff(
        jobs=_diff_tables(old.jobs, new.jobs),
        pools=_diff_tables(old.pools, new.pools),
        groups=_diff_tables(old.groups, new.groups),
    )


def _diff_tables(old: Mapping[str, object], new: Mapping[str, object]) -> TableDiff:
    return TableDiff(
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        changed=tuple(name for name, entry in new.items() if name in old and old[name] != entry),
    )
