"""Jobs of submitted tasks, made by modules that are imported when the first one is asked for.

A daemon to which nobody hands in a task is smaller without them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from crond_py.crontab.model import Crontab, Job
from crond_py.model import Task

if TYPE_CHECKING:
    from crond_py.crontab.tasks import TaskReader


class TaskJobsOnDemand:
    """The engine's TaskJobs under one crontab; for one thread at a time."""

    def __init__(self, crontab: Crontab) -> None:
        self._crontab = crontab
        self._reader: TaskReader | None = None

    @property
    def keep_for(self) -> timedelta | None:
        """How long tasks are remembered that have ended; None: for ever."""
        keep_for: timedelta | None = self._crontab.defaults.values["keep_for"]
        return keep_for

    @property
    def keep_runs(self) -> int | None:
        """How many rows are kept of a task that comes again; None: all."""
        keep_runs: int | None = self._crontab.defaults.values["keep_runs"]
        return keep_runs

    def job(self, task: Task) -> Job:
        """Return the job that the runs of a task are of; raises PycronError where it has none."""
        if self._reader is None:
            from crond_py.crontab.tasks import TaskReader  # noqa: PLC0415 - as said above

            self._reader = TaskReader(self._crontab)
        return self._reader.job(task)
