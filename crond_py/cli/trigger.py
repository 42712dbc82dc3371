"""``pycron trigger``: run a job now."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from crond_py.cli import say
from crond_py.cli.daemon import Timeout, not_ended, read_patience, wait_for
from crond_py.cli.names import with_nearest
from crond_py.cli.options import DaemonCrontab, Json, StateDir, complete_job, places_of
from crond_py.cli.records import run_record, standing, took
from crond_py.cli.times import span_text
from crond_py.control.client import Conversation, patience_for
from crond_py.control.protocol import Trigger
from crond_py.control.waiting import Watch
from crond_py.errors import (
    CrowdedError,
    DaemonNotRunningError,
    PycronError,
    RequestRefusedError,
    UnknownNameError,
    UsageError,
)
from crond_py.model import Outcome, Run

EXAMPLES = ("pycron trigger backup", "pycron trigger backup --wait")


def command(
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="The job's name.", autocompletion=complete_job)
    ],
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Run it even if its overlap policy says no.")
    ] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait for its outcome; the exit code is 1 if it fails.")
    ] = False,
    timeout: Timeout = None,
    crontab: DaemonCrontab = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Run a job now.

    The number of the run is printed, or with --wait how it went; it is then told on standard error
    at once, and Ctrl-C ends the waiting and not the run. The job's overlap policy holds as for any
    other run, unless it is forced.
    """
    patience = read_patience(timeout)
    if timeout is not None and not wait:
        raise UsageError("--timeout is how long to wait at most, so it needs --wait")
    with Conversation(places_of(crontab, state_dir).socket) as conversation:
        try:
            run_id = conversation.call(Trigger(job, force=force), patience_for(patience)).run_id
        except UnknownNameError as error:
            raise with_nearest(error, job, conversation) from None
        if not wait:
            if as_json:
                say.out_json({"run": run_id, "job": job})
            else:
                say.out(str(run_id))
            return
        subject = f"run {run_id} of {job}"
        try:
            run = _wait(conversation, subject, run_id, patience)
        except CrowdedError as error:
            raise PycronError(
                f"whether {subject} has ended within {timeout} is not known: {error}"
                f"{_where(run_id)}"
            ) from None
    if run is None:
        raise not_ended(subject, timeout, f"; it goes on{_where(run_id)}")
    _tell(run, as_json=as_json)
    if run.outcome is not Outcome.SUCCEEDED:
        raise typer.Exit(1)


def _wait(
    conversation: Conversation, subject: str, run_id: int, patience: timedelta | None
) -> Run | None:
    """Wait for the run, and say at once which it is: it goes on whatever ends the waiting."""
    say.note(f"waiting for {subject}")
    try:
        return wait_for(conversation, run_id, patience, Watch.begin())
    except KeyboardInterrupt:
        say.note(f"not waiting any more; {subject} goes on{_where(run_id)}")
        raise
    except CrowdedError:
        raise
    except (DaemonNotRunningError, RequestRefusedError):
        raise DaemonNotRunningError(
            f"the daemon is gone; {subject} goes on without it, if the daemon has not ended it"
            f"{_where(run_id)}"
        ) from None


def _where(run_id: int) -> str:
    """Say how to look at a run that nobody waits for any more."""
    return f" (pycron history {run_id}, pycron logs {run_id} -f)"


def _tell(run: Run, *, as_json: bool) -> None:
    if as_json:
        say.out_json(run_record(run))
        return
    span = took(run)
    after = f" after {span_text(span)}" if span is not None else ""
    reason = f": {run.reason}" if run.reason else ""
    say.out(f"run {run.id} of {run.job} {standing(run).replace('_', ' ')}{after}{reason}")
