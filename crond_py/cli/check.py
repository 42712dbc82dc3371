"""``pycron check``: whether a crontab is good, and what is wrong with it."""

from __future__ import annotations

import os
import stat
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import typer

from crond_py.cli import say
from crond_py.cli.absent import ONLY_ROOT, absent, listed, uid_of
from crond_py.cli.in_vain import in_vain
from crond_py.cli.ledgers import reading
from crond_py.cli.options import Crontab, CrontabArgument, Json, places_of
from crond_py.cli.times import tz_fault
from crond_py.clock import SystemClock
from crond_py.control.codec import to_json
from crond_py.crontab import load_crontab
from crond_py.crontab.model import AfterTrigger, AtTrigger, Job
from crond_py.crontab.model import Crontab as CrontabModel
from crond_py.crontab.vain import fault_of_group
from crond_py.errors import CrontabError, PycronError, UsageError
from crond_py.model import Missed, State, task_id_of
from crond_py.ports import LedgerReader, RunQuery
from crond_py.schedule import system_timezone

EXAMPLES = ("pycron check", "pycron check ./crontab.toml")


def command(
    crontab: CrontabArgument = None, *, crontab_option: Crontab = None, as_json: Json = False
) -> None:
    """Check a crontab; tell every fault with its line.

    What is good but may not be meant, or what this machine lacks for it, is told as a warning.
    The exit code is 0 if it is good and 78 if it is not.
    """
    if crontab and crontab_option and crontab != crontab_option:
        raise UsageError("give one crontab, as an argument or with --crontab")
    path = places_of(crontab or crontab_option, "/").crontab
    try:
        loaded = load_crontab(path)
    except CrontabError as error:
        if not as_json:
            raise
        say.out_json({"ok": False, "faults": to_json(error.faults)})
        raise typer.Exit(error.exit_code) from None
    now = SystemClock().now()
    warnings = [
        *_open_files(loaded),
        *_zone(loaded),
        *_users(loaded),
        *_groups(loaded),
        *absent(loaded),
        *_past_jobs(loaded, now),
        *_waiting_for_nobody(loaded),
        *in_vain(loaded),
        *_tasks_without_a_pool(loaded, path),
    ]
    if as_json:
        say.out_json(_record(loaded, warnings))
        return
    for warning in warnings:
        say.note(f"warning: {warning}")
    count = len(loaded.jobs)
    say.out(f"OK: {count} {'job' if count == 1 else 'jobs'} in {path}")


def _record(crontab: CrontabModel, warnings: list[str]) -> dict[str, Any]:
    return {
        "ok": True,
        "jobs": len(crontab.jobs),
        "enabled": sum(job.enabled for job in crontab.jobs.values()),
        "files": [str(file) for file in crontab.files],
        "warnings": warnings,
    }


def _open_files(crontab: CrontabModel) -> list[str]:
    """Name the files that anybody may change, and so have commands run as the daemon's user."""
    return [
        f"{file} can be changed by every user"
        for file in crontab.files
        if file.stat().st_mode & stat.S_IWOTH
    ]


def _zone(crontab: CrontabModel) -> list[str]:
    """Say that TZ is no good, where there are jobs whose zone it would decide."""
    if all(job.timezone for job in crontab.jobs.values()):
        return []
    return list(filter(None, [tz_fault(os.environ.get("TZ"), system_timezone())]))


def _users(crontab: CrontabModel) -> Iterator[str]:
    """Name the jobs that a daemon of this user, on this machine, could not run as their own."""
    for user, jobs in _jobs_by(crontab, "user").items():
        what = f"{jobs[0].source}: user {user} of {listed([job.name for job in jobs])}"
        uid = uid_of(user)
        if uid is None:
            yield f"{what}: there is no such user on this machine"
        elif os.geteuid() not in {0, uid}:
            yield f"{what}: {ONLY_ROOT}"


def _groups(crontab: CrontabModel) -> Iterator[str]:
    """Name the groups without a table whose name is almost that of one which has one."""
    for group, jobs in _jobs_by(crontab, "group").items():
        if fault := fault_of_group(group, crontab.groups):
            names = listed([job.name for job in jobs])
            yield f"{jobs[0].source}: group {group} of {names} {fault}"


def _jobs_by(crontab: CrontabModel, key: str) -> dict[str, list[Job]]:
    """Return the jobs that have a value for a key, by that."""
    found: dict[str, list[Job]] = {}
    for job in crontab.jobs.values():
        if (value := getattr(job, key)) is not None:
            found.setdefault(value, []).append(job)
    return found


def _past_jobs(crontab: CrontabModel, now: datetime) -> list[str]:
    return [
        f"{job.source}: the time of job {job.name} is past; {_fate(job, now - job.trigger.instant)}"
        for job in crontab.jobs.values()
        if isinstance(job.trigger, AtTrigger) and job.trigger.instant <= now
    ]


def _waiting_for_nobody(crontab: CrontabModel) -> list[str]:
    """Tell of jobs that wait for one which is disabled, or is never due as another one is."""
    after = {
        job.name: list(job.trigger.conditions)
        for job in crontab.jobs.values()
        if isinstance(job.trigger, AfterTrigger)
    }
    idle: dict[str, str] = {}  # and the disabled job on account of which
    for name in TopologicalSorter(after).static_order():
        above = after.get(name, [])
        if not crontab.jobs[name].enabled:
            idle[name] = name
        elif above and all(upstream in idle for upstream in above):
            idle[name] = idle[above[0]]
    return [
        f"{job.source}: job {job.name} follows {upstream}, {_why_idle(upstream, idle[upstream])}"
        for job in crontab.jobs.values()
        if job.enabled
        for upstream in after.get(job.name, [])
        if upstream in idle
    ]


def _why_idle(job: str, disabled: str) -> str:
    if job == disabled:
        return "which is disabled"
    return f"which is never due, as {disabled} is disabled"


def _tasks_without_a_pool(crontab: CrontabModel, path: Path) -> Iterator[str]:
    """Tell of tasks that would wait for a pool which the crontab does not have.

    Only of the usual crontab it is known in which ledger its tasks are.
    """
    try:
        places = places_of(None, None)
        if places.crontab != path:
            return
        with reading(places) as ledger:
            numbers = _waiting_tasks(ledger) if ledger is not None else Counter()
    except PycronError:
        return  # nobody can say
    for pool, number in numbers.items():
        if pool not in crontab.pools:
            yield (
                f"submitted tasks ({number}) wait for the pool {pool}, which is not in the "
                f"crontab; add [pools.{pool}] with workers, or cancel them"
            )


def _waiting_tasks(ledger: LedgerReader) -> Counter[str]:
    """Count the tasks of each pool that are to come, or have a run that waits for a slot or retry.

    What a task that comes again waits with is not counted beside what is to come of it.
    """
    numbers: Counter[str] = Counter()
    for lane, stock in ledger.lanes().items():
        numbers[lane.pool] += stock.open
    states = frozenset({State.QUEUED, State.WAITING_RETRY})
    for run in ledger.runs(RunQuery(states=states, limit=None)):
        task_id = task_id_of(run.job)
        task = ledger.task(task_id) if task_id is not None else None
        if task is not None and task.ended_at is not None:
            numbers[task.lane.pool] += 1
    return numbers


def _fate(job: Job, age: timedelta) -> str:
    """Say what becomes of a one-off whose time is past, by its missed policy."""
    is_too_old = job.missed_within is not None and age > job.missed_within
    if job.missed is Missed.SKIP or is_too_old:
        return "it is not run"
    return "unless it has run already, it is run at once"
