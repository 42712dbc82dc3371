"""Takes submitted tasks in: reads what each says, and hands all of a request to the engine at once.

This is where the modules that read a crontab come into the daemon's memory, so it is imported with
the first task that is submitted.
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from crond_py.control.address import Peer
from crond_py.control.protocol import (
    MOST_TASKS,
    Submit,
    SubmittedList,
    SubmittedTask,
    TaskWarning,
)
from crond_py.crontab.faults import Refused
from crond_py.crontab.model import Crontab
from crond_py.crontab.setup_values import Login
from crond_py.crontab.tasks import TaskOrder, TaskReader
from crond_py.crontab.vain import fault_of_group, keys_without_effect
from crond_py.errors import Fault, RequestRefusedError, TaskRefusedError, UsageError
from crond_py.ports import Clock, NewTask, Submitted
from crond_py.runner.environment import PATH
from crond_py.runner.shellless import SHELL

_MOST_GROUPS: Final = 20
"""Of so many groups at a time that have no table it is looked up which one may be meant."""


class TaskSink(Protocol):
    """What takes tasks that have been read."""

    def submit(self, tasks: Sequence[NewTask]) -> list[Submitted]:
        """Store all of the tasks or none; the answer is in their order.

        ``due`` is, both ways, as the wall clock is set now. Raises PycronError.
        """
        ...


class Intake:
    """Takes tasks in under one crontab. Any thread may use it."""

    def __init__(self, crontab: Crontab, sink: TaskSink, clock: Clock) -> None:
        self.crontab = crontab
        self._reader = TaskReader(crontab)
        self._sink = sink
        self._clock = clock

    def submit(self, request: Submit, peer: Peer) -> SubmittedList:
        """Store what a peer hands in, all or nothing.

        Raises TaskRefusedError with the faults of all of them, RequestRefusedError where the peer
        may not speak for another user, and what the sink raises.
        """
        number = len(request.tasks)
        if number > MOST_TASKS:
            raise UsageError(f"at most {MOST_TASKS} tasks are handed in at a time, not {number}")
        user = submitter(request.submitted_by, peer)
        orders = self._read(request.tasks)
        warnings = self._warnings(request.tasks)
        if request.only_check:
            return SubmittedList((), warnings=warnings)
        now = self._clock.now()
        stored = self._sink.submit([order.task(user, now) for order in orders])
        views = tuple(map(_view, stored, orders))
        return SubmittedList(views, _search_path(self.crontab), warnings)

    def _read(self, tasks: Sequence[Mapping[str, Any]]) -> list[TaskOrder]:
        orders: list[TaskOrder] = []
        faults: list[Fault] = []
        for number, values in enumerate(tasks, start=1):
            try:
                orders.append(self._reader.read(values))
            except TaskRefusedError as error:
                faults += error.faults if len(tasks) == 1 else _placed(error.faults, number)
        if faults:
            raise TaskRefusedError(tuple(faults))
        return orders

    def _warnings(self, tasks: Sequence[Mapping[str, Any]]) -> tuple[TaskWarning, ...]:
        """Return what of good tasks may not be meant, each with the first that says it."""
        found: dict[str, int] = {}
        groups: dict[str, int] = {}
        for place, values in enumerate(tasks, start=1):
            for text in _without_effect(values, self.crontab.defaults.values):
                found.setdefault(text, place)
            group = values.get("group")
            if group is not None and group not in self.crontab.groups:
                groups.setdefault(group, place)
        for group, place in list(groups.items())[:_MOST_GROUPS]:
            if fault := fault_of_group(group, self.crontab.groups):
                found.setdefault(f"group {group} {fault}", place)
        return tuple(TaskWarning(place, text) for text, place in found.items())


def _without_effect(values: Mapping[str, Any], inherited: Mapping[str, Any]) -> Iterator[str]:
    """Say of each key of a task, that inherits others, that it has no effect."""
    for key, why in keys_without_effect(
        lambda key: values.get(key) is not None,
        lambda key: inherited.get(key) if values.get(key) is None else values[key],
    ):
        yield f"{key} {why}"


def _search_path(crontab: Crontab) -> str | None:
    """Return where programs are looked up, unless a file or another shell may say otherwise."""
    inherited = crontab.defaults
    if inherited.values["env_files"] or inherited.values["shell"] != SHELL:
        return None
    return inherited.env.get("PATH", PATH)


def submitter(name: str | None, peer: Peer) -> str:
    """Return the user for whom a peer hands tasks in.

    The superuser and the daemon's own user may name another (``sudo`` does); everybody else hands
    in for himself. Raises RequestRefusedError, and UsageError for what is no name.
    """
    if name is None:
        return _login(peer.uid)
    if peer.uid not in {0, os.geteuid()}:
        raise RequestRefusedError(f"user {peer.uid} may not submit tasks for {name!r}")
    try:
        return Login().read(name)
    except Refused as refused:
        raise UsageError(f"submitted_by: {refused.problems[0].message}") from None


def _login(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _placed(faults: Sequence[Fault], number: int) -> Iterator[Fault]:
    for fault in faults:
        yield replace(fault, path="submitted", line=number)


def _view(submitted: Submitted, order: TaskOrder) -> SubmittedTask:
    task = submitted.task
    differs = () if submitted.is_new else tuple(order.differences(task))
    return SubmittedTask(
        task.id, task.job, task.due, submitted.is_new, differs, ended_at=task.ended_at
    )
