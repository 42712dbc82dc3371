"""``pycron cancel``: end a run, or all runs of a job, and say whether they have really ended."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Annotated, Any, Final

import typer

from crond_py.cli import say
from crond_py.cli.daemon import Timeout, Wait, read_patience, wait_for
from crond_py.cli.ledgers import reading
from crond_py.cli.names import is_run_id, with_nearest
from crond_py.cli.options import DaemonCrontab, Json, StateDir, complete_job, places_of
from crond_py.cli.records import standing
from crond_py.cli.times import span_text
from crond_py.control.client import Conversation
from crond_py.control.protocol import CancelJob, CancelRun, CancelTask
from crond_py.control.waiting import Watch
from crond_py.dataclass import dataclass
from crond_py.engine.view import Cancelled
from crond_py.errors import (
    CrowdedError,
    LedgerError,
    PycronError,
    RequestRefusedError,
    UnknownNameError,
    UsageError,
)
from crond_py.model import Outcome, Run, State, task_id_of, task_job
from crond_py.places import Places
from crond_py.ports import RunQuery
from crond_py.schedule import format_duration

EXAMPLES = ("pycron cancel 4711", "pycron cancel backup", "pycron cancel task:17 task:18")

_AFTER_KILL: Final = timedelta(seconds=10)
"""How long a tree that was killed may take to be gone, where nobody says how long to wait."""

_OPEN: Final = frozenset(State) - {State.DONE}
_NOTE_MARK: Final = "; "  # what the runner notes of a tree stands behind the reason
_WAS: Final[dict[str, str]] = {
    State.WAITING_RETRY: "it was waiting for its retry",
    State.QUEUED: "it was queued",
}


class NothingToEndError(PycronError):
    """A job that is named has no run without an outcome."""


_ANSWERS: Final = (UsageError, LedgerError, RequestRefusedError, NothingToEndError)
"""What is wrong with one thing that is asked for, and says nothing of the next."""


@dataclass(frozen=True, slots=True)
class _End:
    """What has become of a run that was cancelled; ``run`` None: it was still ending.

    ``left`` says what of its tree could not be ended. What of a task was still to come has no run.
    Where ``is_seen`` is False the daemon could not say what has become of it.
    """

    item: Cancelled
    run: Run | None
    waited: timedelta
    left: str = ""
    is_seen: bool = True

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is left."""
        return self.was_to_come or (self.run is not None and not self.left)

    @property
    def was_to_come(self) -> bool:
        """Whether it was not a run yet, but the next one of a task."""
        return not self.item.run_id

    @property
    def subject(self) -> str:
        """What it is the end of."""
        return self.item.job if self.was_to_come else f"run {self.item.run_id} of {self.item.job}"


def command(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN|JOB|TASK...",
            help="The number of a run, or the name of a job or a task (task:17).",
            autocompletion=complete_job,
        ),
    ],
    *,
    wait: Wait = True,
    timeout: Timeout = None,
    crontab: DaemonCrontab = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """End a run, or every run of a job or a task, or several of these.

    Of a task nothing more is due then, either. All processes of the run get SIGTERM and, after the
    job's kill_after, SIGKILL. It is waited for until they have ended, if need be for ten seconds
    more than kill_after; Ctrl-C ends the waiting and not the cancel. The exit code is 1 if
    something is still alive then, or there was nothing to end.
    """
    patience = read_patience(timeout)
    places = places_of(crontab, state_dir)
    with Conversation(places.socket) as conversation:
        cancelled, errors = _cancel_all(conversation, targets, places)
        if errors and not cancelled:
            if as_json and isinstance(errors[0], NothingToEndError):
                say.out_json([])
            raise errors[0]
        try:
            ends, unseen = _wait_for_all(
                conversation if _can_go_on(errors) else None, cancelled, patience, is_brief=not wait
            )
        except KeyboardInterrupt:
            say.note("not waiting any more; the cancel goes on")
            raise
    _tell(ends, is_wanted=wait, as_json=as_json)
    if errors := errors + unseen:
        raise typer.Exit(errors[0].exit_code)
    if wait and not all(end.is_over for end in ends):
        raise typer.Exit(PycronError.exit_code)


def _cancel_all(
    conversation: Conversation, targets: Sequence[str], places: Places
) -> tuple[list[Cancelled], list[PycronError]]:
    """Cancel what is named, and return what that did and what went wrong.

    Of that all but the first is told at once, or all of it where something was cancelled.
    """
    cancelled: list[Cancelled] = []
    errors: list[PycronError] = []
    left = list(targets)
    while left and _can_go_on(errors):
        target = left.pop(0)
        try:
            found = _cancel(conversation, target, places)
        except PycronError as error:
            errors.append(error)
            continue
        cancelled += found
        if not found:
            errors.append(NothingToEndError(f"job {target} has no run that could be ended"))
    for each in errors if cancelled else errors[1:]:
        say.note(str(each))
    if left:
        say.note(f"nothing was tried for {', '.join(left)}")
    return cancelled, errors


def _can_go_on(errors: Sequence[PycronError]) -> bool:
    """Tell whether the daemon may still be asked after these errors."""
    return all(
        isinstance(error, _ANSWERS) and not isinstance(error, CrowdedError) for error in errors
    )


def _cancel(conversation: Conversation, target: str, places: Places) -> Sequence[Cancelled]:
    if is_run_id(target):
        return _cancel_run(conversation, int(target), places)
    if (task := task_id_of(target)) is not None:
        return conversation.call(CancelTask(task)).runs
    try:
        return conversation.call(CancelJob(target)).runs
    except UnknownNameError as error:
        raise with_nearest(error, target, conversation) from None


def _cancel_run(conversation: Conversation, number: int, places: Places) -> Sequence[Cancelled]:
    """End a run; tell of a task that has its number, which may have been meant."""
    task = task_job(number)
    try:
        runs = conversation.call(CancelRun(number)).runs
    except UnknownNameError as error:
        if _is_open_task(number, places):
            message = f"{error}; there is a task of that number: pycron cancel {task}"
            raise type(error)(message) from None
        raise
    if _is_open_task(number, places):
        say.note(f"this is for run {number}; the task of that number is {task}, and stays")
    return runs


def _is_open_task(number: int, places: Places) -> bool:
    """Tell whether something of a task is to come or going on, other than the run of its number."""
    with suppress(LedgerError), reading(places) as ledger:
        task = ledger.task(number) if ledger is not None else None
        if ledger is None or task is None:
            return False
        query = RunQuery(job=task.job, states=_OPEN, limit=2)
        return task.ended_at is None or any(run.id != number for run in ledger.runs(query))
    return False  # nobody can say


def _wait_for_all(
    conversation: Conversation | None,
    cancelled: Sequence[Cancelled],
    patience: timedelta | None,
    *,
    is_brief: bool,
) -> tuple[list[_End], list[PycronError]]:
    """Wait for what was cancelled, as far as the daemon can be asked (None: it cannot).

    Return the ends and the errors that kept one from being seen, which are told.
    """
    watch = Watch.begin()
    ends: list[_End] = []
    errors: list[PycronError] = []
    for item in cancelled:
        try:
            heard = conversation if _can_go_on(errors) else None
            ends.append(_wait(heard, item, patience, watch, is_brief=is_brief))
        except PycronError as error:
            say.note(str(error))
            errors.append(error)
            ends.append(_End(item, None, watch.elapsed(), is_seen=False))
    return ends, errors


def _wait(
    conversation: Conversation | None,
    item: Cancelled,
    patience: timedelta | None,
    watch: Watch,
    *,
    is_brief: bool,
) -> _End:
    """Wait for what a run has become; ``is_brief``: only where that takes no time."""
    if not item.run_id or (is_brief and item.ending):
        return _End(item, None, watch.elapsed())
    if conversation is None:
        return _End(item, None, watch.elapsed(), is_seen=False)
    limit = item.kill_after + _AFTER_KILL if patience is None else patience
    run = wait_for(conversation, item.run_id, limit, watch)
    return _End(item, run, watch.elapsed(), _left(run) if run else "")


def _left(run: Run) -> str:
    """Return what the runner could not end of the tree of a run that was cancelled."""
    if run.outcome is not Outcome.CANCELLED:
        return ""
    return run.reason.partition(_NOTE_MARK)[2]


def _tell(ends: Sequence[_End], *, is_wanted: bool, as_json: bool) -> None:
    """Say how each run stands; what has not ended is said on standard error."""
    if as_json:
        say.out_json([_record(end) for end in ends])
    for end in ends:
        sentence = f"{end.subject}: {_became(end, is_wanted=is_wanted)}"
        if is_wanted and not end.is_over:
            say.note(sentence)
        elif not as_json:
            say.out(sentence)


def _became(end: _End, *, is_wanted: bool) -> str:
    item, run = end.item, end.run
    if end.was_to_come:
        return "cancelled, nothing more of it is to come"
    if run is None:
        return _still_ending(end) if is_wanted else f"told to end{_kill(item.kill_after)}"
    if run.outcome is not Outcome.CANCELLED:
        return f"had ended by itself, {standing(run).replace('_', ' ')}"
    if end.left:
        return f"cancelled, but {end.left}"
    was = _WAS.get(item.was, "")
    if item.ending:
        known = " that pycron knows of" if item.is_taken_over else ""
        ended = f"all its processes{known} have ended"
        return f"cancelled, {'; '.join(filter(None, (was, ended)))}"
    return f"cancelled, {was or 'it had no process'}"


def _still_ending(end: _End) -> str:
    """Say of a tree that goes on what is still to come."""
    if not end.is_seen:
        return "told to end; whether it has is not known"
    rest = end.item.kill_after - end.waited
    if rest > timedelta(0):
        return f"still ending after {span_text(end.waited)}: it has not heeded SIGTERM{_kill(rest)}"
    return (
        f"still there after {span_text(end.waited)}, though it was sent SIGKILL;"
        " see what pycron status says"
    )


def _kill(rest: timedelta) -> str:
    """Say when SIGKILL comes; it may come sooner where the run was being ended before."""
    return f"; SIGKILL follows within {_rounded(rest)}" if rest > timedelta(0) else ""


def _rounded(span: timedelta) -> str:
    second = timedelta(seconds=1)
    return format_duration(span if span < second else span - span % second)


def _record(end: _End) -> dict[str, Any]:
    run = end.run
    return {
        "run": end.item.run_id or None,
        "job": end.item.job,
        "was": end.item.was,
        "ended": end.is_over,
        "left": end.left or None,
        "outcome": standing(run) if run else "cancelled" if end.was_to_come else None,
        "reason": run.reason or None if run else None,
    }
