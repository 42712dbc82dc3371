"""What holds only of all jobs together: the chains that ``after`` makes of them.

A chain begins at a job that is due by itself, its head. Every job that follows belongs to the
cycles of that head, so it cannot wait for itself, nor for jobs whose heads are due at other times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from graphlib import CycleError, TopologicalSorter

from crond_py.crontab.faults import nearest, quoted
from crond_py.crontab.model import AfterTrigger, AtTrigger, CronTrigger, EveryTrigger, Job
from crond_py.crontab.summary import fingerprint
from crond_py.schedule.expression import has_hash

Refuse = Callable[[str, tuple[str | int, ...], str, str], None]
"""Enters a fault of a job: its name, the path of the key below it, the message, the way out."""


_KEYS_OF_TIMES = ("timezone", "dst_gap", "dst_fold", "missed", "missed_within", "missed_limit")
"""What decides beside a schedule when a job is due, or what of that is made up."""

_MOST_CIRCLES = 20
"""How many circles are told at once; to find each of them takes a look at all jobs."""


def check_chains(jobs: Mapping[str, Job], named: Mapping[str, object], refuse: Refuse) -> None:
    """Refuse names that there are not, circles, and jobs that wait for others of other cycles.

    ``named`` has all jobs of the files, ``jobs`` only those without a fault. What follows from
    another cycle or none because of a fault further up is not told: only who has it is.
    """
    chains = {
        name: job.trigger for name, job in jobs.items() if isinstance(job.trigger, AfterTrigger)
    }
    for name, trigger in chains.items():
        for upstream in trigger.conditions:
            if upstream not in named:
                message = f"there is no job {quoted(upstream)}"
                refuse(name, ("after",), message, nearest(upstream, named))
    graph = {
        name: [upstream for upstream in trigger.conditions if upstream in jobs]
        for name, trigger in chains.items()
    }
    unsure = {
        name for name, trigger in chains.items() if not jobs.keys() >= trigger.conditions.keys()
    }
    unsure |= _refuse_circles(graph, refuse)
    _refuse_joins(jobs, graph, unsure, refuse)


def _refuse_circles(graph: dict[str, list[str]], refuse: Refuse) -> set[str]:
    """Refuse each circle once, and take it apart; return the jobs where that was done."""
    apart: set[str] = set()
    for _ in range(_MOST_CIRCLES):
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            # It lists the circle from a job to one that waits for it, the first again at the end.
            circle = list(reversed(error.args[1]))
            name = min(circle)
            begin = circle.index(name)
            around = [*circle[begin:-1], *circle[:begin], name]
            path = " after ".join(map(quoted, around))
            refuse(name, ("after",), f"waits for itself: {path}", "take one of them out")
            graph[name] = []
            apart.add(name)
        else:
            return apart
    graph.clear()  # the rest is told when these are mended
    return apart


def _refuse_joins(
    jobs: Mapping[str, Job], graph: Mapping[str, list[str]], unsure: set[str], refuse: Refuse
) -> None:
    """Refuse jobs that follow from heads that are due at different times.

    Of those that are ``unsure`` not all heads are known, because of a fault that is told.
    """
    heads: dict[str, dict[str, str]] = {}  # of each job: its heads by what they are due at
    for name in TopologicalSorter(graph).static_order():
        upstreams = graph.get(name)
        if not upstreams and name not in unsure:
            heads[name] = {_times_of(jobs[name]): name}
            continue
        mine: dict[str, str] = {}
        for upstream in upstreams or ():
            mine.update(heads[upstream])
        if len(mine) > 1:
            first, second = sorted(mine.values())[:2]
            refuse(
                name,
                ("after",),
                f"follows from {quoted(first)} and {quoted(second)}, whose cycles differ",
                _way_out(jobs[first], jobs[second]),
            )
            mine = {}  # which of them it is to follow nobody knows
        heads[name] = mine


def _way_out(first: Job, second: Job) -> str:
    """Say what would give two heads the same cycles; name the keys where these alone differ."""
    theirs = {key: getattr(second, key) for key in _KEYS_OF_TIMES}
    if not _has_own_times(first) and _times_of(replace(first, **theirs)) == _times_of(second):
        differing = [
            key
            for key, value in theirs.items()
            if _times_of(replace(first, **{key: value})) != _times_of(first)
        ]
        *others, last = differing
        return f"give both the same {', '.join(others)}{' and ' if others else ''}{last}"
    return (
        "let both follow from one job, or give them an equal schedule (or at, or every with align)"
        " without H and jitter, and the same timezone, dst and missed keys"
    )


def _times_of(job: Job) -> str:
    """Return what is the same for jobs that are due at the same instants, and miss the same."""
    if _has_own_times(job):
        return f"job {job.name}"
    missed = (str(getattr(job, key)) for key in _KEYS_OF_TIMES if key.startswith("missed"))
    return " ".join([fingerprint(job), *missed])


def _has_own_times(job: Job) -> bool:
    """Tell whether times depend on the job's name (H, jitter), or on when it was first seen."""
    match job.trigger:
        case CronTrigger(expressions):
            is_own = any(map(has_hash, expressions))
        case EveryTrigger(align=align):
            is_own = align is None
        case AtTrigger():
            is_own = False
        case _:
            is_own = True
    return is_own or job.jitter is not None
