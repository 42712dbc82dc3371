"""Submitted tasks: from the values that are handed in to what is stored, and from that to a Job.

A task has the keys of a job that say how it runs, and one of ``at``, ``in`` and ``every``. What it
says is stored as it was said (its ``definition``); what it does not say it has, when it is taken
up, from ``[defaults]`` of the main file of the crontab that is in force then. But when it is due,
and which lane it waits in (its pool, priority and group), are settled when it is handed in.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, Final

from crond_py.crontab.faults import Refused, dotted, nearest, shown
from crond_py.crontab.fields import Refuse, read_fields
from crond_py.crontab.jobs import check_pool, merged_env, model_fields
from crond_py.crontab.locate import KeyPath
from crond_py.crontab.model import AtTrigger, Crontab, EveryTrigger, Job
from crond_py.crontab.retries import own_retry, refuse_retry_of_success
from crond_py.crontab.task_keys import TASK_KEYS, WHEN_KEYS
from crond_py.crontab.triggers import Calendar, instant_of
from crond_py.dataclass import dataclass
from crond_py.errors import Fault, TaskRefusedError
from crond_py.model import Lane, Limits, Retry, Scale, Task
from crond_py.ports import NewTask
from crond_py.schedule import format_duration, system_timezone

_KNOWN: Final = 256
_JSON: Final = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"))

# Stored beside the definition: what says when a task is due, or which lane it is in.
_BESIDE: Final = frozenset(
    {*WHEN_KEYS, "offset", "timezone", "dst_gap", "dst_fold", "key", "pool", "priority", "group"}
)


_MERGED: Final = ("env", "retry", "limits")
"""Tables that are put together key by key with what is inherited."""


@dataclass(frozen=True, slots=True)
class TaskOrder:
    """A task that has been read; when it is due depends on when it is handed in.

    ``instant`` (UTC), or else ``delay``, says when it is first due. Without a ``group`` it is of
    that of its submitter.
    """

    definition: str
    pool: str
    priority: int
    group: str | None
    key: str | None
    instant: datetime | None
    delay: timedelta
    period: timedelta | None

    def task(self, submitted_by: str, now: datetime) -> NewTask:
        """Return the task of a user that is handed in at ``now``.

        What should have been due before that is due then.
        """
        scale = Scale.STEADY if self.instant is None else Scale.WALL
        return NewTask(
            lane=Lane(self.pool, self.priority, self.group or submitted_by, scale),
            due=now + self.delay if self.instant is None else max(now, self.instant),
            definition=self.definition,
            submitted_by=submitted_by,
            period=self.period,
            key=self.key,
        )

    def differences(self, task: Task) -> Iterator[str]:
        """Yield the keys that say something else than those which ``task`` was made of.

        Whether ``in`` and ``offset`` did, nobody knows any more: they count from when a task is
        handed in.
        """
        own, other = json.loads(self.definition), json.loads(task.definition)
        for said in (own, other):
            for name in _MERGED:  # one without keys says as little as none
                if not said.get(name, True):
                    del said[name]
        yield from (name for name in {**own, **other} if own.get(name) != other.get(name))
        if self.period != task.period:
            yield "every"
        elif self.period is None and not self._is_due_as(task):
            yield "at"
        lane = task.lane
        if self.pool != lane.pool:
            yield "pool"
        if self.priority != lane.priority:
            yield "priority"
        if (self.group or task.submitted_by) != lane.group:
            yield "group"

    def _is_due_as(self, task: Task) -> bool:
        """Tell whether a task that comes once does so at the same time of the clock, or at none."""
        is_of_the_clock = task.lane.scale is Scale.WALL
        if self.instant is None or not is_of_the_clock:
            return self.instant is None and not is_of_the_clock
        # What had passed when it was handed in was due at once.
        return self.instant == task.due or max(self.instant, task.due) <= task.submitted_at


class TaskReader:
    """Reads tasks under one crontab. ``job`` is for one thread at a time, ``read`` for any."""

    def __init__(self, crontab: Crontab) -> None:
        self._pools = crontab.pools
        self._scope = crontab.defaults
        self._jobs: OrderedDict[tuple[str, Lane], Job] = OrderedDict()

    def read(self, values: Mapping[str, Any]) -> TaskOrder:
        """Return the task that ``values``, as JSON has them, describe; null is as good as nothing.

        Raises TaskRefusedError with every fault.
        """
        said = {name: value for name, value in values.items() if value is not None}
        refusals = _Refusals()
        own = _read_keys(said, refusals.add)
        _check_command(said, refusals.add)
        check_pool(own.get("pool"), self._pools, refusals.add)
        self._check_retry(said, own, refusals.add)
        instant = self._when(said, own, refusals.add)
        refusals.check()
        inherited = self._scope.values
        return TaskOrder(
            definition=_JSON.encode({name: said[name] for name in said if name not in _BESIDE}),
            pool=own.get("pool", inherited["pool"]),
            priority=own.get("priority", inherited["priority"]),
            group=own.get("group", inherited["group"]),
            key=own.get("key"),
            instant=instant,
            delay=own.get("offset", own.get("every", own.get("in", timedelta(0)))),
            period=own.get("every"),
        )

    def job(self, task: Task) -> Job:
        """Return the job that the runs of a task are of.

        Raises PycronError where the task does not fit the crontab (any more).
        """
        lane = task.lane
        key = task.definition, lane
        known = self._jobs.get(key)
        if known is None:
            # Tasks come by the thousand, and most of them say what another has said.
            known = self._jobs[key] = replace(
                self._job(task.definition),
                pool=lane.pool,
                priority=lane.priority,
                group=lane.group,
            )
            if len(self._jobs) > _KNOWN:
                self._jobs.popitem(last=False)
        return known.like(
            task.job,
            AtTrigger(task.due) if task.period is None else EveryTrigger(task.period),
            known.command,
            f"submitted by {task.submitted_by}",
        )

    def _job(self, definition: str) -> Job:
        """Return a job of what a task says and what it inherits, but for its name and its lane."""
        refusals = _Refusals()
        said = _read_definition(definition)
        own = _read_keys(said, refusals.add)
        _check_command(said, refusals.add)
        retry = self._check_retry(said, own, refusals.add)
        refusals.check()
        scope = self._scope
        values = {**scope.values, **model_fields(own)}
        values |= {"enabled": True, "hosts": (), "jitter": None}
        return Job(
            name="",
            trigger=EveryTrigger(timedelta.max),
            command=own["command"],
            timezone=scope.timezone,
            env=merged_env(scope.env, own["env"]) if "env" in own else scope.env,
            retry=retry,
            limits=Limits(**{**scope.limits_values, **own.get("limits", {})}),
            **values,
        )

    def _check_retry(self, said: dict[str, Any], own: Mapping[str, Any], refuse: Refuse) -> Retry:
        """Return when a task is tried again; refuse what does not fit together."""
        scope = self._scope
        if all(key in own for key in ("retry_on", "success_codes") if key in said):
            refuse_retry_of_success(own, {**scope.values, **own}, refuse)
        return own_retry(said, own, scope.retry, scope.retry_values, refuse)

    def _when(
        self, said: Collection[str], own: Mapping[str, Any], refuse: Refuse
    ) -> datetime | None:
        """Return the instant of a task that has ``at``; refuse what does not say when it is due."""
        present = [key for key in WHEN_KEYS if key in said]
        if not present and not _is_misspelt(said, WHEN_KEYS):
            refuse((), Refused("does not say when it is due", "add one of at, in and every"))
        for other in present[1:]:
            message = f"stands beside {present[0]}; a task has one of at, in and every"
            refuse((other,), Refused(message, "make two tasks of it, or take one out"))
        if "every" not in said:
            _refuse_interval_keys(own, refuse)
        elif "offset" in own and "every" in own and own["offset"] >= own["every"]:
            period = format_duration(own["every"])
            refuse(("offset",), Refused(f"must be shorter than the interval, {period}"))
        if present[:1] != ["at"] or "at" not in own:
            return None
        zone = own.get("timezone", "UTC" if "timezone" in said else self._scope.timezone)
        inherited = self._scope.values
        calendar = Calendar(
            "task",
            zone or system_timezone(),
            own.get("dst_gap", inherited["dst_gap"]),
            own.get("dst_fold", inherited["dst_fold"]),
        )
        try:
            return instant_of(own["at"], calendar)
        except Refused as refused:
            refuse(("at",), refused)
            return None


class _Refusals:
    """What is wrong with one task."""

    def __init__(self) -> None:
        self._refusals: list[tuple[KeyPath, Refused]] = []

    def add(self, path: KeyPath, refused: Refused) -> None:
        """Enter a refusal."""
        self._refusals.append((path, refused))

    def check(self) -> None:
        """Raise TaskRefusedError where there is one."""
        if self._refusals:
            raise TaskRefusedError(tuple(self._faults()))

    def _faults(self) -> Iterator[Fault]:
        for path, refused in self._refusals:
            for problem in refused.problems:
                key = dotted((*path, *problem.path))
                yield Fault("", 0, key, shown(problem.message), shown(problem.suggestion))


def _read_definition(definition: str) -> dict[str, Any]:
    """Return what a stored task says; nothing where somebody else has written it."""
    try:
        said = json.loads(definition)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def _check_command(said: Collection[str], refuse: Refuse) -> None:
    if "command" not in said and not _is_misspelt(said, ("command",)):
        refuse((), Refused("has no command", 'add "command"'))


def _read_keys(said: Mapping[str, Any], refuse: Refuse) -> dict[str, Any]:
    """Return the values that are good."""
    own: dict[str, Any] = {}
    for name, value in said.items():
        try:
            good = read_fields({name: value}, TASK_KEYS, refuse)
            if good and not (isinstance(value, str) and value.isascii()):
                _JSON.encode(value).encode()
        except UnicodeEncodeError:
            # JSON can write half of a surrogate pair (\ud800); no system call can take it.
            refuse((name,), Refused("has a character that is none: half of a surrogate pair"))
        else:
            own |= good
    return own


def _refuse_interval_keys(own: Mapping[str, Any], refuse: Refuse) -> None:
    """Refuse the keys of tasks that come again in one that does not."""
    way_out = "take it out; keep of [defaults] says how long tasks are kept"
    for name, hint in (("offset", "take it out"), ("keep", way_out)):
        if name in own:
            refuse((name,), Refused("has no meaning without every", hint))


def _is_misspelt(said: Iterable[str], wanted: Collection[str]) -> bool:
    """Tell whether a key that is not known is near one of ``wanted``; it has its fault already."""
    return any(key not in TASK_KEYS and nearest(key, wanted) for key in said)
