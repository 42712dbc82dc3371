"""The keys of a submitted task: those of a job that say how it runs, and when it is due.

A task comes as JSON, so what JSON has no word for is written as text: a date-time, a umask.
"""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Final

from crond_py.crontab.fields import Key, by_name
from crond_py.crontab.keys import JOB_KEYS
from crond_py.crontab.moments import moment_fault
from crond_py.crontab.process_values import Umask
from crond_py.crontab.tables import KEEP_KEYS, Keep
from crond_py.crontab.triggers import Moment
from crond_py.crontab.values import Duration, Kind, Never, Schema, Text, not_the
from crond_py.dataclass import dataclass

LONGEST_KEY: Final = 200

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:[Tt ]|$)")
_OF_JOBS: Final = "is a key of jobs in a crontab, not of tasks"
_NO_BYTES: Final = "leave it out; output_limit bounds what each run keeps"
_LEFT_OUT: Final = {
    "schedule": "write at, in or every; a timetable belongs in the crontab",
    "startup": "write at, in or every",
    "after": "write at, in or every; jobs that follow others belong in the crontab",
    "enabled": "leave it out; pycron cancel takes a task back",
    "hosts": "leave it out; a task runs where it was submitted",
    "every_mode": "leave it out; the interval of a task counts from the due time before",
    "align": "leave it out, or make it a job of the crontab",
    "jitter": "leave it out",
    "notify": "leave it out",
}


@dataclass(frozen=True, slots=True)
class MomentText(Kind):
    """A date-time as text (ISO 8601, RFC 3339); a date alone means its first moment, 00:00."""

    def read(self, value: object) -> datetime:
        """Return a datetime, naive where the zone is the task's."""
        # fromisoformat also knows weeks and 20260301, which nobody means.
        if isinstance(value, str) and _DATE.match(value):
            try:
                return Moment().read(datetime.fromisoformat(value))
            except ValueError:
                pass
        hint = moment_fault(value) if isinstance(value, str) else ""
        raise not_the('a date-time such as "2026-12-24T18:00:00+01:00"', value, hint)

    def schema(self) -> Schema:
        """Return the schema of the text."""
        return Moment().schema()


@dataclass(frozen=True, slots=True)
class _OctalText(Kind):
    """A umask; JSON has no octal numbers."""

    def read(self, value: object) -> int:
        """Return the bits."""
        if not isinstance(value, str):
            raise not_the('octal text such as "022"', value)
        return Umask().read(value)

    def schema(self) -> Schema:
        """Return the schema of the text."""
        return {"type": "string", "pattern": "^(0o)?0?[0-7]{1,3}$"}


@dataclass(frozen=True, slots=True)
class _KeyText(Kind):
    """The submitter's own name for a task."""

    def read(self, value: object) -> str:
        """Return the name."""
        text = Text(LONGEST_KEY).read(value)
        if not text or not text.isprintable():
            raise not_the(f"text of 1 to {LONGEST_KEY} printable characters", value)
        return text

    def schema(self) -> Schema:
        """Return the schema of the text."""
        return {"type": "string", "minLength": 1, "maxLength": LONGEST_KEY}


_KINDS: Final[dict[str, Kind]] = {
    "at": MomentText(),
    "umask": _OctalText(),
    "keep": Keep(
        {**KEEP_KEYS, "bytes": replace(KEEP_KEYS["bytes"], kind=Never(_OF_JOBS, _NO_BYTES))}
    ),
    **{name: Never(_OF_JOBS, way_out) for name, way_out in _LEFT_OUT.items()},
}
_DOCS: Final = {
    "at": "The date-time at which it is due; without an offset, in the zone of timezone.",
    "every": "The interval at which it is due, again and again.",
    "offset": "With every: how long after it was submitted it is first due. Less than every.",
    "keep": "With every: how many of its runs are kept, and for how long.",
}


def _of_tasks(key: Key) -> Key:
    """Return a key of a job as tasks have it."""
    return replace(key, kind=_KINDS.get(key.name, key.kind), doc=_DOCS.get(key.name, key.doc))


WHEN_KEYS: Final = ("at", "in", "every")
"""A task has exactly one of these."""

TASK_KEYS: Final = by_name(
    (
        Key("in", Duration(), "How long after it was submitted it is due."),
        Key(
            "key",
            _KeyText(),
            "The submitter's own name for the task: the same name twice is one task.",
        ),
        *map(_of_tasks, JOB_KEYS.values()),
    )
)
