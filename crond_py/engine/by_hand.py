"""What counts in a cycle that a run by hand has begun, in the middle of a chain.

Such a cycle has runs of the job that was run by hand, and of those that follow it. Where one of
them waits for others, too, those have none in the cycle, and the newest run that they have had
counts: so a chain that has failed half-way goes on once the job that failed has been run by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from crond_py.crontab.model import AfterTrigger
from crond_py.engine.records import JobState
from crond_py.engine.rows import Rows
from crond_py.model import Cause, Run
from crond_py.ports import Gap

RowsOfCycle = Callable[[str], Iterable[Run]]
"""Returns the rows that a job has of a cycle."""


def outside(
    upstreams: Iterable[str], news: str, rows: RowsOfCycle, states: Mapping[str, JobState]
) -> set[str]:
    """Return which of the jobs without a row of a cycle are no part of it, as it was begun by hand.

    ``news`` is a job that is part of it.
    """
    begun = _begun_by_hand(news, rows, states)
    if begun is None:
        return set()
    return {name for name in upstreams if begun not in _with_those_above(name, states)}


def newest_run(rows: Rows, job: str, gap: Gap | None) -> tuple[Run | None, str]:
    """Return the newest run of a job, of whatever cycle, or why it cannot count."""
    run = rows.newest(job)
    if run is None:
        return None, f"{job} has not been run yet"
    if gap is not None and run.due <= gap.until:
        return None, "the ledger has lost its newest records"
    if run.outcome is None:
        return None, f"{job} is not over yet, in {which(run)}"
    return run, ""


def which(run: Run) -> str:
    """Say which run of a job it is."""
    return f"its run due {run.due.isoformat(timespec='seconds')}"


def _begun_by_hand(job: str, rows: RowsOfCycle, states: Mapping[str, JobState]) -> str | None:
    """Return the job by whose run by hand the cycle began that a job is part of, if one did.

    What the ledger has forgotten is looked for further up.
    """
    for name in _with_those_above(job, states):
        for run in rows(name):
            if run.cause is not Cause.UPSTREAM:
                return name if run.cause is Cause.MANUAL else None
    return None


def _with_those_above(job: str, states: Mapping[str, JobState]) -> Iterator[str]:
    """Yield a job and all that it follows from, the nearer ones first in each line of them."""
    seen, waiting = {job}, [job]
    while waiting:
        name = waiting.pop()
        yield name
        trigger = states[name].job.trigger if name in states else None
        if isinstance(trigger, AfterTrigger):
            above = [each for each in trigger.conditions if each not in seen]
            seen.update(above)
            waiting += above
