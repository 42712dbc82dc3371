"""``pycron cancel``: end a run, or all runs of a job, and say whether they have really ended."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from crond_py.cli import say
from crond_py.cli.daemon import read_patience, wait_for
from crond_py.cli.options import DaemonCrontab, Json, StateDir, complete_job, places_of
from crond_py.cli.records import standing
from crond_py.control.client import Conversation
from crond_py.control.protocol import CancelJob, CancelRun
from crond_py.engine.view import Cancelled
from crond_py.errors import PycronError
from crond_py.model import Outcome, Run

EXAMPLES = ("pycron cancel 4711", "pycron cancel backup")


def command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="RUN|JOB", help="The number of a run, or the name of a job.",
            autocompletion=complete_job,
        ),
    ],
    *,
    wait: Annotated[
        bool, typer.Option("--wait/--no-wait", help="Wait until the processes have ended.")
    ] = True,
    timeout: Annotated[
        str, typer.Option(metavar="DURATION", help="Wait no longer than this.")
    ] = "1m",
    crontab: DaemonCrontab = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """End a run, or every run of a job.

    All processes of the run get SIGTERM and, after the job's kill_after, SIGKILL. The exit code
    is 1 if something was still alive when the waiting was over, or there was nothing to end.
    """
    patience = read_patience(timeout)
    with Conversation(places_of(crontab, state_dir).socket) as conversation:
        request = CancelRun(int(target)) if is_run_id(target) else CancelJob(target)
        cancelled = conversation.call(request).runs
        ended = [
            wait_for(conversation, item.run_id, patience) if wait or not item.ending else None
            for item in cancelled
        ]
    if as_json:
        say.out_json([_record(item, run) for item, run in zip(cancelled, ended, strict=True)])
    else:
        for item, run in zip(cancelled, ended, strict=True):
            say.out(_sentence(item, run))
    if not cancelled:
        raise PycronError(f"job {target} has no run that could be ended")
    if wait and None in ended:
        raise PycronError(f"not everything has ended within {timeout}; SIGKILL follows kill_after")


def is_run_id(target: str) -> bool:
    """Tell whether the argument is the number of a run and not the name of a job."""
    return target.isascii() and target.isdigit()


def _sentence(item: Cancelled, run: Run | None) -> str:
    what = f"run {item.run_id} of {item.job}"
    if run is None:
        return f"{what}: told to end"
    if run.outcome is not Outcome.CANCELLED:
        return f"{what}: had ended by itself, {standing(run).replace('_', ' ')}"
    if item.ending:
        return f"{what}: cancelled, all its processes have ended"
    return f"{what}: cancelled, it was {item.was.replace('_', ' ')}"


def _record(item: Cancelled, run: Run | None) -> dict[str, Any]:
    return {
        "run": item.run_id,
        "job": item.job,
        "was": item.was,
        "ended": run is not None,
        "outcome": standing(run) if run else None,
        "reason": run.reason or None if run else None,
    }
