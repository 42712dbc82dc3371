"""Turns a run of a job into the specification of a process: argv, environment, places."""

from __future__ import annotations

from pathlib import Path

from crond_py.crontab.model import Job
from crond_py.model import Run
from crond_py.ports import AttemptKey, ProcessSpec
from crond_py.runner.environment import (
    base_environment,
    build_environment,
    command_argv,
    current_account,
    run_tag,
)
from crond_py.runner.output import output_path


class Launchpad:
    """The engine's SpecBuilder for one state directory and one ledger."""

    def __init__(self, state_dir: Path, identity: str) -> None:
        self._state_dir = state_dir
        self._identity = identity
        self._account = current_account()

    def __call__(self, job: Job, run: Run, attempt: int) -> ProcessSpec:
        """Return all that is needed to start an attempt; nothing of the daemon's own setting."""
        environment = build_environment(
            base=base_environment(self._account, shell=job.shell),
            job_env=job.env,
            identity=self._identity,
            run_id=run.id,
            job=job.name,
            due=run.due,
            attempt=attempt,
        )
        output = output_path(self._state_dir, job.name, run.id, attempt)
        return ProcessSpec(
            key=AttemptKey(run.id, attempt),
            tag=run_tag(self._identity, run.id),
            argv=command_argv(job.command, job.shell),
            env=environment,
            cwd=job.cwd or self._account.home,
            umask=job.umask,
            output=None if job.discard_output else output,
        )
