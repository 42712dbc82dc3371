"""From one job's table to a Job: what it says itself, what it inherits, what does not fit together.

Equal values of different jobs become one object, so that a hundred thousand jobs stay small.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Mapping
from dataclasses import field, fields
from functools import cached_property
from types import MappingProxyType
from typing import Any, Final

from crond_py.crontab.faults import FileReport, Refused, nearest, quoted
from crond_py.crontab.fields import Refuse, read_fields
from crond_py.crontab.intervals import can_jitter, refined, refuse_interval_keys
from crond_py.crontab.keys import JOB_KEYS, MODEL_NAMES, SCHEDULE_KEYS
from crond_py.crontab.locate import KeyPath
from crond_py.crontab.model import CronTrigger, EveryTrigger, Job, Scope, Trigger
from crond_py.crontab.retries import own_retry, refuse_retry_of_success, retry_of
from crond_py.crontab.source import Table
from crond_py.crontab.triggers import Calendar, checked, trigger_of
from crond_py.dataclass import dataclass
from crond_py.model import Limits
from crond_py.schedule import system_timezone
from crond_py.schedule.expression import has_hash

_NO_ENV: Final[Mapping[str, str]] = MappingProxyType({})
_DECIMAL_UMASK: Final = re.compile(r"umask[\"']?[ \t]*=[ \t]*\+?[1-9][0-9]")
_SHARED_TYPES: Final = (str, tuple)
_DIFFERENT: Final = frozenset({"schedule", "command"})  # what most jobs say differently
_COMPARABLE: Final = (str, int, bool)

_FIELDS: Final = frozenset(field.name for field in fields(Job))

# The field of the model for each key of a job whose value it takes as it is.
_PLAIN: Final = {
    key: name
    for key in JOB_KEYS
    if (name := MODEL_NAMES.get(key, key)) in _FIELDS
    and key not in ("command", "timezone", "env", "retry", "limits")
}


def scope_within(
    outer: Scope,
    zone: str | None,
    env: Mapping[str, str],
    defaults: Mapping[str, Any],
    refuse: Refuse,
) -> Scope:
    """Return the scope of a file that says this much of its own, as far as it fits together."""
    retry_values = {**outer.retry_values, **defaults.get("retry", {})}
    limits_values = {**outer.limits_values, **defaults.get("limits", {})}
    values = {**outer.values, **model_fields(defaults)}
    refuse_retry_of_success(defaults, values, refuse)
    return Scope(
        defaults.get("timezone", zone or outer.timezone),
        merged_env(outer.env, env, defaults.get("env", _NO_ENV)),
        retry_of(retry_values, refuse) if "retry" in defaults else outer.retry,
        retry_values,
        defaults.get("every_mode", outer.every_mode),
        limits_values,
        Limits(**limits_values),
        values,
    )


def merged_env(*layers: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables of all layers; a later one goes over an earlier."""
    variables: dict[str, str] = {}
    for layer in layers:
        variables.update(layer)
    return MappingProxyType(variables) if variables else _NO_ENV


def check_pool(pool: str | None, pools: Collection[str] | None, refuse: Refuse) -> None:
    """Refuse a pool that there is not. ``pools`` None: nobody knows which there are."""
    if pool is not None and pools is not None and pool not in pools:
        way_out = nearest(pool, pools) or f"add [pools.{pool}] with workers"
        refuse(("pool",), Refused(f"there is no pool {quoted(pool)}", way_out))


def check_umask(table: Table, report: FileReport, path: KeyPath) -> None:
    """Refuse decimal digits for a umask: 22 would be 026, and who writes it means 022."""
    umask = table.get("umask")
    if not isinstance(umask, int) or not _DECIMAL_UMASK.search(report.text):
        return
    path = (*path, "umask")
    if _DECIMAL_UMASK.search(report.line_text(path)):
        way_out = f'write umask = "{umask:03d}"'
        report.add(path, f"must be octal, and {umask} without quotes is a decimal number", way_out)


@dataclass
class JobReader:
    """Reads the jobs of all files.

    ``pools`` are the names of those that there are, ``host`` is this host's.
    """

    pools: Collection[str] | None
    host: str
    _shared: dict[Any, Any] = field(default_factory=dict)
    _models: dict[Hashable, Job] = field(default_factory=dict)

    def read(
        self, name: str, table: Table, scope: Scope, report: FileReport, source: str
    ) -> Job | None:
        """Return the job, or None when it has faults; they are in ``report``."""
        likeness = _likeness(table, scope)
        if likeness is not None and (model := self._models.get(likeness)) is not None:
            job = self._like(model, name, table, source)
            if job is not None:
                return job
        job = self._read(name, table, scope, report, source)
        if job is not None and likeness is not None and isinstance(job.trigger, CronTrigger):
            self._models.setdefault(likeness, job)
        return job

    def _like(self, model: Job, name: str, table: Table, source: str) -> Job | None:
        """Return the job that is as ``model`` but for its name, its cron schedule and its command.

        What else it says stood up before. None: there is more to it, perhaps a fault.
        """
        try:
            trigger = self._trigger_like(model, name, table["schedule"])
            command = JOB_KEYS["command"].kind.read(table["command"])
        except Refused:
            return None  # it is told of where all of its faults are
        if trigger is None:
            return None
        return model.like(name, trigger, self._shared.setdefault(command, command), source)

    def _trigger_like(self, model: Job, name: str, value: object) -> CronTrigger | None:
        """Return the trigger of a cron schedule that is read as that of ``model``, or None.

        Raises Refused.
        """
        key = (id(model), value if isinstance(value, str) else "")
        known: CronTrigger | None = self._shared.get(key)
        if known is not None:
            return known
        spelt = JOB_KEYS["schedule"].kind.read(value)
        if not isinstance(spelt, CronTrigger):
            return None
        zone = model.timezone or self._system_zone
        calendar = Calendar(name, zone, model.dst_gap, model.dst_fold)
        trigger: CronTrigger = self._one(checked(spelt, calendar), None)
        if isinstance(value, str) and not has_hash(value):  # else it is the job's own
            self._shared[key] = trigger
        return trigger

    def _read(
        self, name: str, table: Table, scope: Scope, report: FileReport, source: str
    ) -> Job | None:
        path: KeyPath = ("jobs", name)
        refusals: list[tuple[KeyPath, Refused]] = []

        def refuse(below: KeyPath, refused: Refused) -> None:
            refusals.append(((*path, *below), refused))

        own = read_fields(table, JOB_KEYS, refuse)
        if refusals and (parts := _tables_of_jobs(table)):
            for part in parts:
                way_out = f"a name with a dot needs quotes: [jobs.{quoted(f'{name}.{part}')}]"
                report.add((*path, part), "is not a key of a job", way_out)
            return None
        trigger = self._trigger(name, table, own, scope, refuse)
        retry = own_retry(table, own, scope.retry, scope.retry_values, refuse)
        if all(key in own for key in ("retry_on", "success_codes") if key in table):
            refuse_retry_of_success(own, {**scope.values, **own}, refuse)
        if "command" not in table and not _is_misspelt(table, ("command",)):
            refuse((), Refused("has no command", 'add command = "..."'))
        check_pool(own.get("pool"), self.pools, refuse)
        if "umask" in own:
            check_umask(table, report, path)
        for where, refused in refusals:
            report.add_refused(where, refused)
        if refusals or trigger is None:
            return None
        limits = scope.limits
        if "limits" in own:
            limits = Limits(**{**scope.limits_values, **own["limits"]})
        own |= {"trigger": trigger, "retry": retry, "limits": limits, "source": source}
        return self._job(name, own, scope)

    def _job(self, name: str, own: dict[str, Any], scope: Scope) -> Job:
        """Put a job together from parts that are good."""
        share = self._shared.setdefault
        said = {
            key: share(value, value) if type(value) in _SHARED_TYPES else value
            for key, value in model_fields(own).items()
        }
        values = {**scope.values, **said}
        if not values["jitter"] or not can_jitter(own["trigger"]):
            values["jitter"] = None  # none, or one of the defaults that says nothing of this job
        if values["hosts"] and not _is_among(self.host, values["hosts"]):
            values["enabled"] = False
        return Job(
            name=name,
            trigger=share(own["trigger"], own["trigger"]),
            command=share(own["command"], own["command"]),
            timezone=own.get("timezone", scope.timezone),
            env=self._env(own["env"], scope) if "env" in own else scope.env,
            retry=self._one(own["retry"], scope.retry),
            limits=self._one(own["limits"], scope.limits),
            source=own["source"],
            **values,
        )

    def _one(self, value: Any, inherited: object) -> Any:
        """Return one object for all that equal ``value``; most often it is ``inherited``."""
        return value if value is inherited else self._shared.setdefault(value, value)

    def _env(self, env: Mapping[str, str], scope: Scope) -> Mapping[str, str]:
        """Return one mapping for all jobs that say the same variables in one scope."""
        key = (id(scope), *env.items())
        if key not in self._shared:
            self._shared[key] = merged_env(scope.env, env)
        mapping: Mapping[str, str] = self._shared[key]
        return mapping

    def _trigger(
        self, name: str, table: Table, own: dict[str, Any], scope: Scope, refuse: Refuse
    ) -> Trigger | None:
        """Return what the one schedule key says, or None when it does not stand up."""
        present = [key for key in table if key in SCHEDULE_KEYS and SCHEDULE_KEYS[key].is_supported]
        if not present:
            if not (table.keys() & SCHEDULE_KEYS.keys() or _is_misspelt(table, SCHEDULE_KEYS)):
                refuse((), Refused("has no schedule", "add schedule, every, at, after or startup"))
            return None
        key = present[0]
        for other in present[1:]:
            message = (
                f"stands beside {key}; a job has one of schedule, every, at, after and startup"
            )
            refuse((other,), Refused(message, "make two jobs of it, or take one out"))
        if key not in own:
            return None
        value = own[key]
        if key != "every" and not isinstance(value, EveryTrigger):
            refuse_interval_keys(own, refuse)
        try:
            calendar = self._calendar(name, table, own, scope)
            trigger = trigger_of(key, value, own.get("every_mode", scope.every_mode), calendar)
        except Refused as refused:
            refuse((key,), refused)
            return None
        return refined(trigger, key, own, refuse)

    def _calendar(self, name: str, table: Table, own: dict[str, Any], scope: Scope) -> Calendar:
        """Return what due times are read in; in place of a zone that was refused, UTC."""
        zone = own.get("timezone", "UTC" if "timezone" in table else scope.timezone)
        return Calendar(
            name,
            zone or self._system_zone,
            own.get("dst_gap", scope.values["dst_gap"]),
            own.get("dst_fold", scope.values["dst_fold"]),
        )

    @cached_property
    def _system_zone(self) -> str:
        return system_timezone()


def _likeness(table: Table, scope: Scope) -> Hashable | None:
    """Return what is the same for jobs that differ in name, schedule and command only.

    None: nothing that could be compared. The types count, as True and 1 are equal.
    """
    if "schedule" not in table or "command" not in table:
        return None
    if len(table) == len(_DIFFERENT):
        return id(scope)
    rest = [(key, value) for key, value in table.items() if key not in _DIFFERENT]
    if not all(type(value) in _COMPARABLE and key != "umask" for key, value in rest):
        return None  # of a umask it counts how it is written
    return (id(scope), *((key, type(value), value) for key, value in sorted(rest)))


def model_fields(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of the model that follow from the values of keys alone."""
    found = {_PLAIN[key]: value for key, value in values.items() if key in _PLAIN}
    found.update(values.get("keep", {}))
    return found


def _tables_of_jobs(table: Table) -> list[str]:
    """Return the keys of what must be jobs below a job, as ``[jobs.a.b]`` makes them."""
    return [
        key
        for key, value in table.items()
        if key not in JOB_KEYS and isinstance(value, dict) and value.keys() & JOB_KEYS.keys()
    ]


def _is_misspelt(table: Table, wanted: Collection[str]) -> bool:
    """Tell whether a key that is not known is near one of ``wanted``; it has its fault already."""
    return any(key not in JOB_KEYS and nearest(key, wanted) for key in table)


def _is_among(host: str, hosts: tuple[str, ...]) -> bool:
    """Tell whether one of ``hosts`` is this host, by its whole name or the part before a dot."""
    mine = {host.casefold(), host.casefold().split(".")[0]}
    return any(name.casefold() in mine for name in hosts)
