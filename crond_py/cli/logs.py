"""``pycron logs``: what a run has printed, attempt by attempt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from crond_py.cli import say
from crond_py.cli.follow import follow
from crond_py.cli.ledgers import reading
from crond_py.cli.names import check_known, is_run_id
from crond_py.cli.options import Crontab, StateDir, complete_job, places_of
from crond_py.cli.records import standing
from crond_py.errors import PycronError, UnknownNameError, UsageError
from crond_py.model import Attempt, Run, task_id_of
from crond_py.places import Places
from crond_py.ports import LedgerReader, RunQuery
from crond_py.printable import printable
from crond_py.runner.output import output_path, read_output, read_output_bytes

EXAMPLES = ("pycron logs backup", "pycron logs 4711 --tail 20", "pycron logs backup -f")

_Piece = TypeVar("_Piece", str, bytes)

_NEWEST = 100
"""How many runs of a task are looked through for one that was started."""


def command(
    target: Annotated[
        str,
        typer.Argument(
            metavar="RUN|JOB|TASK",
            help="The number of a run, or the name of a job or a task (task:17): its last run.",
            autocompletion=complete_job,
        ),
    ],
    *,
    attempt: Annotated[
        int | None,
        typer.Option(
            "-a", "--attempt", metavar="N", show_default=False, help="Only the Nth attempt."
        ),
    ] = None,
    tail: Annotated[
        int | None,
        typer.Option(
            "-n", "--tail", metavar="N", show_default=False,
            help="Only the last N lines of each attempt.",
        ),
    ] = None,
    follow_run: Annotated[
        bool, typer.Option("-f", "--follow", help="Go on until the run has ended.")
    ] = False,
    raw: Annotated[
        bool,
        typer.Option(
            "--raw",
            help="Write the bytes as they are; otherwise control characters are made visible.",
        ),
    ] = False,
    crontab: Crontab = None,
    state_dir: StateDir = None,
) -> None:  # fmt: skip
    """Show what a run has printed.

    Both standard output and standard error are there. Where there were several attempts each
    has a heading.
    """
    if tail is not None and tail < 0:
        raise UsageError(f"--tail takes a number of lines, not {tail}")
    places = places_of(crontab, state_dir)
    with reading(places) as ledger:
        run = _find(ledger, target, places, crontab)
    if follow_run:
        follow(places, run, tail=tail, is_raw=raw)
        return
    chosen = [found.number for found in run.attempts]
    if attempt is not None:
        if attempt not in chosen:
            raise UnknownNameError(f"run {run.id} of {run.job} has no attempt {attempt}")
        chosen = [attempt]
    if not chosen:
        say.note(f"run {run.id} of {run.job} has printed nothing: {_why_not(run)}")
    for number in chosen:
        if len(chosen) > 1:
            say.out(f"--- run {run.id} of {run.job}, attempt {number} ---")
        _show_attempt(places, run, number, tail, is_raw=raw)


def _show_attempt(places: Places, run: Run, number: int, tail: int | None, *, is_raw: bool) -> None:
    """Write what an attempt has printed; a note says why that is nothing."""
    found = run.attempts[number - 1] if number <= len(run.attempts) else None
    if found is not None and found.outcome is not None and found.started_at is None:
        say.note(f"attempt {number} of run {run.id} has printed nothing: {found.reason}")
        return
    path = output_path(places.state_dir, run.job, run.id, number)
    if not _show(path, tail, is_raw=is_raw):
        say.note(_why_no_file(run, found))
    elif _is_empty(path):
        say.note(_nothing_printed(run, found))


def _why_not(run: Run) -> str:
    word = standing(run).replace("_", " ")
    return f"it is {word}, {run.reason}" if run.reason else f"it is {word}"


def _find(ledger: LedgerReader | None, target: str, places: Places, crontab: str | None) -> Run:
    """Return the run that is meant. Raises UnknownNameError."""
    if ledger is None:
        raise PycronError(f"there is no ledger in {places.state_dir}: no daemon has run on it yet")
    if is_run_id(target) and (run := ledger.run(int(target))) is not None:
        return run
    if task_id_of(target) is not None:
        runs = ledger.runs(RunQuery(job=target, limit=_NEWEST))
        last = next((run for run in runs if run.attempts), None)
    else:
        last = ledger.last_runs().get(target)
    if last is not None:
        return last
    if is_run_id(target):
        raise UnknownNameError(f"there is no run {target}")
    check_known(target, places, crontab)
    if (number := task_id_of(target)) is not None:
        raise UnknownNameError(f"{target} has not run yet; pycron tasks {number} tells of it")
    raise UnknownNameError(f"job {target} has not run yet; pycron next tells when jobs are due")


def _show(path: Path, tail: int | None, *, is_raw: bool) -> bool:
    """Write one attempt's output, and a newline where it lacks one; False if there is no file."""
    try:
        if is_raw:
            for piece in _reading(path, read_output_bytes(path, tail_lines=tail)):
                say.write_bytes(piece)
            return True
        last = "\n"
        for text in _reading(path, read_output(path, tail_lines=tail)):
            say.write(printable(text))
            last = text[-1]
        if last != "\n":
            say.write("\n")
    except FileNotFoundError:
        return False
    return True


def _is_empty(path: Path) -> bool:
    try:
        return path.stat().st_size == 0
    except OSError:  # it has been let go meanwhile
        return False


def _nothing_printed(run: Run, attempt: Attempt | None) -> str:
    of_attempt = f", attempt {attempt.number}," if attempt and len(run.attempts) > 1 else ""
    is_over = attempt is not None and attempt.outcome is not None
    return f"run {run.id} of {run.job}{of_attempt} has printed nothing{'' if is_over else ' yet'}"


def _reading(path: Path, pieces: Iterable[_Piece]) -> Iterator[_Piece]:
    """Yield what is read of a file, the faults of which are not those of writing it elsewhere."""
    try:
        yield from pieces
    except FileNotFoundError:
        raise
    except OSError as error:
        raise PycronError(f"{path} cannot be read: {error.strerror}") from None


def _why_no_file(run: Run, attempt: Attempt | None) -> str:
    """Return why there is no output of a run that was started."""
    if attempt is None or (attempt.started_at is None and attempt.outcome is None):
        return f"run {run.id} of {run.job} has printed nothing: it is only just being started"
    number = f", attempt {attempt.number}," if len(run.attempts) > 1 else ""
    subject = f"the output of run {run.id} of {run.job}{number}"
    if "output is not kept" in attempt.reason:  # it could not be, and that says why
        return f"{subject} was not kept: {attempt.reason}"
    if task_id_of(run.job) is not None and attempt.output and attempt.outcome is not None:
        return f"{subject} is empty"
    if not attempt.output:
        return f'{subject} was discarded, as its job has output = "discard"'
    return f"{subject} is not kept any more: it was let go by the job's keep.bytes, or removed"
