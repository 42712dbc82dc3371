"""Turns a run of a job into the specification of a process: argv, environment, places.

It also says where the outputs lie that a ledger has recorded.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from crond_py.crontab.model import Job
from crond_py.model import OutputMode, Run, task_id_of
from crond_py.ports import AttemptKey, OutputSpec, ProcessSpec
from crond_py.runner.environment import build_environment, command_argv, run_tag
from crond_py.runner.output import output_directory, output_file, run_of


class Launchpad:
    """The engine's SpecBuilder for one state directory and one ledger."""

    def __init__(self, state_dir: Path, identity: str) -> None:
        self._state_dir = state_dir
        self._identity = identity

    def __call__(self, job: Job, run: Run, attempt: int) -> ProcessSpec:
        """Return all that is needed to start an attempt; nothing of the daemon's own setting."""
        environment = build_environment(
            job_env=job.env,
            identity=self._identity,
            run_id=run.id,
            job=job.name,
            due=run.due,
            attempt=attempt,
        )
        output = OutputSpec(
            output_file(self._state_dir, job.name, run.id, attempt),
            job=job.name,
            limit_bytes=job.output_limit,
            mode=job.output,
            drops_empty=task_id_of(job.name) is not None,
        )
        return ProcessSpec(
            key=AttemptKey(run.id, attempt),
            tag=run_tag(self._identity, run.id),
            argv=command_argv(job.command, job.shell),
            env=environment,
            cwd=job.cwd,
            umask=job.umask,
            output=None if job.output is OutputMode.DISCARD else output,
            shell=job.shell,
            user=job.user,
            env_files=job.env_files,
            nice=job.nice,
            limits=job.limits,
            stdin=job.stdin,
            leftovers=job.leftovers,
            text=job.command if isinstance(job.command, str) else "",
            pool=job.pool,
        )


def own_outputs(state_dir: Path, recorded: Iterable[str]) -> list[str]:
    """Return where the outputs lie whose paths a ledger has recorded.

    A state directory can be moved, or copied with all that is in it: what its ledger has recorded
    lies in that directory, whatever it was called then. What is no output lies nowhere.
    """
    outputs = os.path.dirname(output_directory(state_dir, "any"))
    places = ((os.path.basename(os.path.dirname(path)), path) for path in recorded)
    return [
        os.path.join(outputs, directory, os.path.basename(path))
        for directory, path in places
        if run_of(path) is not None and directory not in {"", ".", ".."}
    ]
