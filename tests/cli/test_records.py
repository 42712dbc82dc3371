"""What is told of a run in one number."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from crond_py.cli.records import took
from crond_py.model import Attempt, Cause, Outcome, Run, State

T = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
UNSTARTED = (None, None)


def attempt(number: int, begin: float | None, end: float | None) -> Attempt:
    """Return an attempt that began and ended so many seconds after T; what has an end is over."""
    instants = [T + timedelta(seconds=each) if each is not None else None for each in (begin, end)]
    is_over = end is not None or begin is None
    return Attempt(
        number, T, started_at=instants[0], finished_at=instants[1],
        outcome=Outcome.FAILED if is_over else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("spans", "seconds"),
    [
        ([], None),
        ([(0, 5)], 5),
        ([(0, 5), (35, 36), (96, 98)], 8),
        ([(0, 5), UNSTARTED], 5),
        ([UNSTARTED, (30, 31)], 1),
        ([UNSTARTED], None),
        ([(0, 5), (35, None)], None),
        ([(0, None)], None),
    ],
)
def test_how_long_a_run_took_is_all_its_attempts(
    spans: list[tuple[float | None, float | None]], seconds: float | None
) -> None:
    """Without what lies between them; not known before the last has ended."""
    attempts = tuple(attempt(number, *span) for number, span in enumerate(spans, 1))
    run = Run(1, "a", 0, T, Cause.SCHEDULE, State.RUNNING, T, attempts=attempts)
    assert took(run) == (None if seconds is None else timedelta(seconds=seconds))


def test_where_nobody_knows_of_one_attempt_nobody_knows_of_the_run() -> None:
    """An attempt that a crash has cut has no end, though the run went on."""
    lost = Attempt(1, T, started_at=T, outcome=Outcome.LOST)
    run = Run(1, "a", 0, T, Cause.SCHEDULE, State.DONE, T, attempts=(lost, attempt(2, 9, 10)))
    assert took(run) is None
