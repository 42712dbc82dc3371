"""Jobs that follow others: what must be there once the runs they wait for have their outcomes.

A cycle is an instant at which the head of a chain was due, or was run by hand; the rows that
follow from it carry that instant, its era, and the cause ``upstream``. Held here: a cycle goes down
the chain in the same breath as the outcome that it follows from, once, and only where it may. Where
it began by hand, what is no part of it counts by its newest run. A cycle that is open at a reload
has its row once nothing of it goes on any more, whatever the job waits for since.
Whether a follower then runs as its overlap policy says is held like that of any other run.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from datetime import datetime

from crond_py.crontab.model import AfterTrigger, Job
from crond_py.engine.core import Core
from crond_py.model import Cause, Condition, Outcome, Run
from tests.simulation.jobs import upstreams
from tests.simulation.world import World

MOST_ERAS = 12
"""More eras than a history has."""

_NO_LONGER = "it does not follow any more what it waited for in this cycle"
_UNKNOWN = "upstream_unknown: nobody knows what became of "

_NOT_OVER = re.compile(r"upstream_unknown: (?P<job>.*) is not over yet, in its run due (?P<due>.*)")

_DISABLED = re.compile(r"upstream_unknown: (?P<job>.*) is disabled")

_NOT_RUN = re.compile(r"upstream_unknown: (?P<job>.*) has not been run yet")

FAILURES = frozenset({Outcome.FAILED, Outcome.TIMED_OUT, Outcome.LOST})


def is_met(condition: Condition, outcome: Outcome) -> bool:
    """Tell whether an outcome is what a follower asks for."""
    match condition:
        case Condition.SUCCESS:
            return outcome is Outcome.SUCCEEDED
        case Condition.FAILURE:
            return outcome in FAILURES
        case _:
            return True


def followers(world: World, name: str) -> Iterator[tuple[Job, AfterTrigger]]:
    """Yield the jobs in force that wait for a job."""
    for job in world.in_force.values():
        trigger = job.trigger
        if job.enabled and isinstance(trigger, AfterTrigger) and name in trigger.conditions:
            yield job, trigger


def without_followers(world: World, upstream: Run, unsettled: set[str]) -> Iterator[str]:
    """Yield which followers of a run that has its outcome should have a row now, and have none.

    ``unsettled`` jobs are another now than at the last look.
    """
    assert upstream.outcome is not None
    for job, trigger in followers(world, upstream.job):
        if job.name in unsettled or _row(world, job.name, upstream) is not None:
            continue
        is_join = len(trigger.conditions) > 1
        if is_join and (world.may_step_clock or _rows_of_any_era(world, job.name, upstream.due)):
            continue  # a due instant that came twice is told apart by the engine's own tests
        if is_join and _has_other_eras(world, trigger, upstream):
            continue  # the same reading twice: which cycle a run belongs to, nobody can tell
        was_join = any(len(upstreams(each)) > 1 for each in world.requests.definitions[job.name])
        if was_join and _is_in_a_stretch(world, job.name, upstream.due):
            continue  # by what it waited for together: each cycle counts once
        if is_join and upstream.count > 1:
            continue  # of several stretches that are waited for together, one counts
        if is_join and upstream.due <= world.in_force_since[job.name]:
            continue  # a cycle from before the job was there may be forgotten in a restart
        others = trigger.conditions.keys() - {upstream.job}
        is_refused = not is_met(trigger.conditions[upstream.job], upstream.outcome)
        is_known = all(_is_known(world, job, name, upstream) for name in others)
        if is_refused or upstream.count > 1 or is_known:
            yield job.name


def _is_known(world: World, job: Job, name: str, like: Run) -> bool:
    """Tell whether an upstream of a job is not waited for any more in a cycle."""
    row = _row(world, name, like)
    if row is None:
        return _is_outside(world, name, like)
    return row.outcome is not None and not _is_before(world, job, row)


def stuck(core: Core) -> Iterator[tuple[str, str]]:
    """Yield which cycles, of which jobs, wait for nothing that is there or to come."""
    chains = core._chains
    for name, join in chains._joins.items():
        if not core._register.states[name].is_live:
            continue
        for cycle in join.cycles.values():
            missing = join.trigger.conditions.keys() - cycle.outcomes.keys()
            is_waiting = cycle.outcomes and not cycle.is_decided
            if is_waiting and not chains.pending(missing, name, cycle):
                yield (
                    f"its cycle of {cycle.due} waits for {sorted(missing)}, which do not come",
                    name,
                )


def _is_in_a_stretch(world: World, name: str, due: datetime) -> bool:
    return any(
        run.job == name and run.last_due is not None and run.due <= due <= run.last_due
        for run in world.ledger._content.runs.values()
    )


def _has_other_eras(world: World, trigger: AfterTrigger, run: Run) -> bool:
    occurrences = world.ledger._content.occurrences
    eras = set(range(MOST_ERAS)) - {run.era}
    names = trigger.conditions
    return any((name, era, run.due) in occurrences for name in names for era in eras)


def _is_outside(world: World, name: str, like: Run) -> bool:
    """Tell whether a job is no part of a cycle, which was begun by hand."""
    begun = {run.job for run in _rows_at(world, like.due) if run.cause is Cause.MANUAL}
    above, waiting = set(), [name]
    while waiting:
        above.add(each := waiting.pop())
        if each in world.in_force:
            waiting += upstreams(world.in_force[each]) - above
    return bool(begun) and not begun & above


def _newest(world: World, name: str, before: int) -> Run | None:
    """Return the newest run of a job, of whatever cycle, of those that were made before a run."""
    runs = world.ledger._content.runs.values()
    mine = (run for run in runs if run.job == name and run.id < before)
    return max(mine, key=lambda run: (run.due, run.id), default=None)


def _rows_at(world: World, due: datetime) -> list[Run]:
    return [run for run in world.ledger._content.runs.values() if run.due == due]


def _is_before(world: World, job: Job, row: Run) -> bool:
    """Tell whether a row is of a time before the follower was in the crontab."""
    since = world.in_force_since.get(job.name)
    return since is None or row.finished_at is None or row.finished_at <= since


def _row(world: World, name: str, like: Run) -> Run | None:
    run_id = world.ledger._content.occurrences.get((name, like.era, like.due))
    return world.ledger.run(run_id) if run_id is not None else None


def _rows_of_any_era(world: World, name: str, due: datetime) -> list[Run]:
    """Return a job's rows of a due instant; jobs of several heads have eras of their own."""
    content = world.ledger._content
    found = (content.occurrences.get((name, era, due)) for era in range(MOST_ERAS))
    return [content.runs[run_id] for run_id in found if run_id is not None]


def open_cycles(core: Core) -> Iterator[tuple[str, datetime]]:
    """Yield which jobs wait for more, and of which due instant."""
    for name, join in core._chains._joins.items():
        if core._register.states[name].is_live:
            for (due, _), cycle in join.cycles.items():
                if not cycle.is_decided:
                    yield name, due


def is_accounted_for(world: World, name: str, due: datetime) -> bool:
    """Tell whether a job has a row of a cycle, or a stretch with it."""
    return bool(_rows_of_any_era(world, name, due)) or _is_in_a_stretch(world, name, due)


def is_under_way(world: World, due: datetime) -> bool:
    """Tell whether a run of a cycle goes on."""
    return any(run.outcome is None for run in _rows_at(world, due))


def wrong_with(world: World, run: Run, yet_to_end: Collection[int]) -> Iterator[str]:
    """Yield what is wrong with a row that follows others, as it has just been claimed.

    ``yet_to_end`` are the runs that had no outcome before it, and have one by now.
    """
    yield from _untrue_in(world, run, yet_to_end)
    job = world.in_force.get(run.job)
    if run.cause is not Cause.UPSTREAM or job is None:
        return
    triggers = [
        each.trigger
        for each in world.requests.definitions[run.job]
        if isinstance(each.trigger, AfterTrigger)
    ]
    known = _known_after_all(world, run)
    if known is not None:
        yield f"it is skipped, since nobody knew of {known.job}; that is run {known.id}"
    if run.reason.endswith(_NO_LONGER):
        if all(trigger == job.trigger for trigger in triggers):
            yield "it is skipped, since it follows what it did no more, which it always has"
    elif not any(_is_justified(world, trigger, run) for trigger in triggers):
        rows = {name: _row(world, name, run) for each in triggers for name in each.conditions}
        outcomes = {name: row.outcome for name, row in rows.items() if row is not None}
        yield f"it is {run.outcome or run.state} after {outcomes}"


def _untrue_in(world: World, run: Run, yet_to_end: Collection[int]) -> Iterator[str]:
    """Yield what is not true of what a row says of the newest run of a job."""
    runs = world.ledger._content.runs.values()
    if found := _NOT_OVER.fullmatch(run.reason):
        name, due = found["job"], datetime.fromisoformat(found["due"])
        mine = (each for each in runs if each.job == name)
        said = [each for each in mine if each.due.replace(microsecond=0) == due]
        if all(each.outcome is not None and each.id not in yet_to_end for each in said):
            yield f"it is skipped, since {name} was not over yet, which it was"
    elif found := _DISABLED.fullmatch(run.reason):
        if all(each.enabled for each in world.requests.definitions[found["job"]]):
            yield f"it is skipped, since {found['job']} was disabled, which it never was"
    elif found := _NOT_RUN.fullmatch(run.reason):
        if any(each.job == found["job"] and each.id < run.id for each in runs):
            yield f"it is skipped, since {found['job']} had not been run yet, which it had"
    elif run.reason.startswith(_UNKNOWN) and not world.may_step_clock:
        name = run.reason.removeprefix(_UNKNOWN)
        before = any(each.job == name and each.id < run.id for each in runs)
        if before and _is_outside(world, name, run):
            yield f"it is skipped, since nobody knew of {name}, whose newest run counts"


def _known_after_all(world: World, run: Run) -> Run | None:
    """Return the run of which nobody is said to have known what became of it, where it is there."""
    if not run.reason.startswith(_UNKNOWN) or world.may_step_clock:
        return None
    return _row(world, run.reason.removeprefix(_UNKNOWN), run)


def _is_justified(world: World, trigger: AfterTrigger, run: Run) -> bool:
    rows = {name: _row(world, name, run) for name in trigger.conditions}
    if len(trigger.conditions) > 1:
        is_missed = any(_is_in_a_stretch(world, name, run.due) for name in trigger.conditions)
        if world.may_step_clock or is_missed or run.reason.startswith("upstream_unknown"):
            return True
        for name in trigger.conditions:
            known = next(iter(reversed(_rows_of_any_era(world, name, run.due))), None)
            if known is None and _is_outside(world, name, run):
                known = _newest(world, name, run.id)
            rows[name] = known
    met = [
        row is not None
        and row.outcome is not None
        and is_met(trigger.conditions[name], row.outcome)
        for name, row in rows.items()
    ]
    if "nothing follows a stretch" in run.reason:
        return any(row is not None and row.count > 1 for row in rows.values())
    if run.count > 1:  # a stretch is never run, whatever is asked for
        return any(row is not None and row.count == run.count for row in rows.values())
    if run.outcome is Outcome.SKIPPED and run.reason.startswith("upstream"):
        return not all(met)
    return all(met)
