"""A crontab as frozen data: what the loader makes of the files and the engine works from.

Every default of the format is a default here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, field, fields
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from crond_py.dataclass import dataclass, of_shared, shared_part, sharing
from crond_py.model import (
    Align,
    Condition,
    DstFold,
    DstGap,
    EveryMode,
    Failure,
    Leftovers,
    Limits,
    Missed,
    OnCrash,
    OnStop,
    OutputMode,
    Overlap,
    Retry,
)

DEFAULT_POOL = "default"


@dataclass(frozen=True, slots=True)
class CronTrigger:
    """Due whenever one of the cron expressions matches, in the job's zone."""

    expressions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class EveryTrigger:
    """Due at an interval.

    With ``align`` it is due where the clocks of the job's zone show a multiple of the period,
    which divides that unit evenly, and ``offset`` is how much later. Without, ``offset`` is how
    long after the job is first seen it is first due, in place of one period.
    """

    period: timedelta
    mode: EveryMode = EveryMode.FIXED_RATE
    align: Align | None = None
    offset: timedelta | None = None


@dataclass(frozen=True, slots=True)
class AtTrigger:
    """Due once, at an instant (aware, UTC)."""

    instant: datetime


@dataclass(frozen=True, slots=True)
class StartupTrigger:
    """Due once per start of the daemon, or with ``per_boot`` once per start of the machine."""

    per_boot: bool = False


@dataclass(frozen=True, slots=True)
class AfterTrigger:
    """Due when the runs of one cycle of all these jobs have ended as asked for, by name."""

    conditions: Mapping[str, Condition]

    def __hash__(self) -> int:
        """Hash what it says, so that equal triggers can be shared."""
        return hash(frozenset(self.conditions.items()))


Trigger = CronTrigger | EveryTrigger | AtTrigger | StartupTrigger | AfterTrigger


@dataclass(frozen=True, slots=True)
class Pool:
    """A set of worker slots; ``workers`` None: no bound.

    ``lag_warning`` is how late a run may start before it is told in the log; None: it is not.
    """

    name: str
    workers: int | None = None
    lag_warning: timedelta | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that share slots as one: by ``weight``, and at most ``max_running`` at once."""

    name: str
    weight: float = 1.0
    max_running: int | None = None


@sharing("name", "trigger", "command", "source")
@dataclass(frozen=True)
class Job:
    """A named entry of the crontab. ``timezone`` None: the system's own zone.

    ``jitter`` is the width over which jobs of a timetable are spread, each by an amount of its own.
    ``command`` is a string for the shell or a tuple to be executed as it is. ``retry_on`` None:
    every failure. ``stdin`` is the text that the command reads, or the file; None: nothing.
    ``group`` None: the job is a group of its own. ``user`` None: the daemon's own. ``output_limit``
    and ``keep_bytes`` are in bytes. ``source`` is the file and line that the job begins at.
    """

    name: str
    trigger: Trigger
    command: str | tuple[str, ...]
    timezone: str | None = None
    enabled: bool = True
    description: str = ""
    tags: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()

    overlap: Overlap = Overlap.SKIP
    queue_limit: int = 10
    max_running: int | None = None
    missed: Missed = Missed.ONCE
    missed_within: timedelta | None = None
    missed_limit: int = 100
    dst_gap: DstGap = DstGap.RUN
    dst_fold: DstFold = DstFold.FIRST
    jitter: timedelta | None = None
    on_crash: OnCrash = OnCrash.LOST

    timeout: timedelta | None = None
    kill_after: timedelta = timedelta(seconds=10)
    start_within: timedelta | None = None
    retry: Retry = Retry()
    retry_on: frozenset[int | Failure] | None = None
    success_codes: frozenset[int] = frozenset({0})
    on_stop: OnStop = OnStop.WAIT
    leftovers: Leftovers = Leftovers.LEAVE

    pool: str = DEFAULT_POOL
    priority: int = 0
    group: str | None = None

    user: str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    cwd: str | None = None
    shell: str = "/bin/sh"
    umask: int = 0o022
    env_files: tuple[str, ...] = ()
    nice: int | None = None
    limits: Limits = Limits()
    stdin: str | Path | None = None
    output: OutputMode = OutputMode.FILE
    output_limit: int | None = 10 * 1024 * 1024
    keep_runs: int | None = 1000
    keep_for: timedelta | None = timedelta(days=90)
    keep_bytes: int | None = None

    source: str = field(default="", compare=False)

    def like(self, name: str, trigger: Trigger, command: str | tuple[str, ...], source: str) -> Job:
        """Return another job that is as this one in all else, which takes no room again."""
        return of_shared(Job, (name, trigger, command, source), shared_part(self))


_OWN: Final = ("timezone", "retry", "limits", "source")
_DEFAULTS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        each.name: each.default
        for each in fields(Job)
        if each.default is not MISSING and each.name not in _OWN
    }
)


@dataclass(frozen=True, slots=True)
class Scope:
    """What a job has that says nothing itself: what its file says for all, and the built-in rest.

    ``values`` are fields of ``Job``. ``retry_values`` and ``limits_values`` are what of these
    tables has been said, and ``retry`` and ``limits`` what that comes to; a job's own go over them
    key by key.
    """

    timezone: str | None = None
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    retry: Retry = Retry()
    retry_values: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    every_mode: EveryMode = EveryMode.FIXED_RATE
    limits_values: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    limits: Limits = Limits()
    values: Mapping[str, Any] = field(default_factory=lambda: _DEFAULTS)


@dataclass(frozen=True, slots=True)
class Crontab:
    """A whole crontab. ``jobs``, ``pools`` and ``groups`` are in the order of the files.

    ``defaults`` is what the main file says for all of its jobs; it holds for submitted tasks, too.
    """

    jobs: Mapping[str, Job]
    pools: Mapping[str, Pool]
    files: tuple[Path, ...] = ()
    groups: Mapping[str, Group] = field(default_factory=lambda: MappingProxyType({}))
    defaults: Scope = Scope()
