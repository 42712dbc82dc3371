"""One run in full, as ``pycron history RUN`` shows it: when, how late and why, and each attempt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from signal import Signals

from crond_py.cli import say
from crond_py.cli.records import standing, took, waited_for
from crond_py.cli.render import show_facts
from crond_py.cli.times import local_text, span_text
from crond_py.model import Attempt, Exit, Lag, Run
from crond_py.printable import printable_line

_UNITS = ("B", "K", "M", "G", "T")
_KIB = 1024


def show_run(run: Run) -> None:
    """Write all that the ledger has of a run to standard output."""
    say.out(f"run {run.id} of {printable_line(run.job)}: {standing(run)}")
    show_facts([*_lines(run), *(line for a in run.attempts for line in _attempt(a))])


def _lines(run: Run) -> Iterator[tuple[str, str]]:
    yield "due", f"{local_text(run.due)} ({run.cause.value})"
    if run.last_due is not None:
        yield "stands for", f"{run.count} occurrences until {local_text(run.last_due)}"
    yield "claimed", local_text(run.claimed_at)
    lag = run.attempts[0].lag if run.attempts else None
    if lag is not None:
        yield "late", _lag_text(lag)
    if run.retry_at is not None:
        yield "retry at", local_text(run.retry_at)
    if run.finished_at is not None:
        yield "finished", local_text(run.finished_at)
    if len(run.attempts) > 1 and (span := took(run)) is not None:
        yield "took", f"{span_text(span)} in all attempts together"
    if run.reason:
        yield "reason", run.reason


def _lag_text(lag: Lag) -> str:
    """Return by how much, and what was waited for, the longest first.

    What it waited for jobs that it follows makes it no later, and is told behind that.
    """
    parts = waited_for(replace(lag, dependency=timedelta(0))).items()
    waited = sorted(((span, name) for name, span in parts if span), reverse=True)
    text = ", ".join(f"{span_text(span)} for {name}" for span, name in waited)
    late = f"{span_text(lag.own)}" + (f"; waited {text}" if text else "")
    if not lag.dependency:
        return late
    return f"{late}; not counted: {span_text(lag.dependency)} for jobs that it follows"


def _attempt(attempt: Attempt) -> Iterator[tuple[str, str]]:
    ended = attempt.outcome.value if attempt.outcome else "going on"
    yield f"attempt {attempt.number}", ", ".join([ended, *_exit_texts(attempt.exit)])
    if attempt.started_at is not None:
        text = local_text(attempt.started_at)
        if attempt.finished_at is not None:
            text += f", took {span_text(attempt.finished_at - attempt.started_at)}"
        yield "  started", text + (f", process {attempt.pid}" if attempt.pid else "")
    if attempt.reason:
        yield "  reason", attempt.reason
    could_not_start = attempt.outcome is not None and attempt.started_at is None
    if attempt.output and not could_not_start:
        yield "  output", attempt.output


def _exit_texts(exit_: Exit | None) -> Iterator[str]:
    if exit_ is None:
        return
    if exit_.code is not None:
        yield f"exit status {exit_.code}"
    if exit_.signal is not None:
        yield f"signal {exit_.signal}{_name_of(exit_.signal)}"
    if exit_.cpu is not None:
        yield f"{span_text(exit_.cpu)} on processors"
    if exit_.peak_memory_bytes is not None:
        yield f"{_size_text(exit_.peak_memory_bytes)} of memory at most"


def _name_of(number: int) -> str:
    try:
        return f" ({Signals(number).name})"
    except ValueError:  # a real-time signal
        return ""


def _size_text(number: float) -> str:
    for unit in _UNITS[:-1]:
        if number < _KIB:
            return f"{number:.3g}{unit}"
        number /= _KIB
    return f"{number:.3g}{_UNITS[-1]}"
