"""Random jobs for the simulation, how their processes behave, and when they are due.

``plain_schedule`` says when a job is due from its definition alone, as an oracle beside the
package's own ``timetable``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from random import Random

from crond_py import timetable
from crond_py.crontab.intervals import can_jitter
from crond_py.crontab.model import (
    AfterTrigger,
    AtTrigger,
    CronTrigger,
    EveryTrigger,
    Job,
    StartupTrigger,
    Trigger,
)
from crond_py.model import (
    Align,
    Condition,
    EveryMode,
    Exit,
    Failure,
    Leftovers,
    Missed,
    OnCrash,
    OnStop,
    Overlap,
    Retry,
)
from crond_py.schedule import Interval, OneOff, Schedule, Shifted, parse_schedule
from tests.simulation.fakes import Behaviour

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
BEGIN = datetime(2026, 3, 28, 22, 0, tzinfo=UTC)
SECOND = timedelta(seconds=1)
HOST = "alpha"
_SOME_FAILURES: frozenset[int | Failure] = frozenset({1, Failure.TIMEOUT})
FOLLOWERS = 0.25
"""How many of the jobs wait for others."""

POOLS = ("default", "small", "tiny")


def random_job(random: Random, name: str, now: datetime) -> Job:
    """Return a job with anything a crontab may say of it."""
    pick = random.choice
    trigger = random_trigger(random, now)
    jitter = pick((None, None, None, 4 * SECOND, 3600 * SECOND))
    return Job(
        name,
        trigger,
        jitter=jitter if can_jitter(trigger) else None,
        command="job",
        timezone=pick(("UTC", "Europe/Berlin", "America/New_York")),
        overlap=pick(tuple(Overlap)),
        queue_limit=pick((1, 3)),
        max_running=pick((None, 2)),
        missed=pick(tuple(Missed)),
        missed_within=pick((None, None, 40 * SECOND)),
        missed_limit=pick((2, 100)),
        on_crash=pick(tuple(OnCrash)),
        timeout=pick((None, None, 5 * SECOND)),
        kill_after=2 * SECOND,
        start_within=pick((None, None, 10 * SECOND)),
        retry=pick((Retry(), Retry(3, 3 * SECOND, 2.0, 10 * SECOND, pick((0, 2)) * SECOND))),
        retry_on=pick((None, None, _SOME_FAILURES)),
        on_stop=pick(tuple(OnStop)),
        leftovers=pick(tuple(Leftovers)),
        pool=pick(POOLS),
        group=pick((None, None, "few", "many")),
        priority=pick((0, 0, 5)),
        keep_runs=None,  # the accounts are checked at the end
        keep_for=None,
    )


def random_trigger(random: Random, now: datetime) -> Trigger:
    """Return one of the ways to be due."""
    pick = random.choice
    return pick(
        (
            CronTrigger((pick(("* * * * *", "*/10 * * * * *", "*/2 * * * *")),)),
            CronTrigger(("0,30 * * * * *", "*/15 * * * * *")),
            EveryTrigger(pick((5 * SECOND, 17 * SECOND))),
            EveryTrigger(pick((5 * SECOND, 17 * SECOND)), offset=pick((0, 3)) * SECOND),
            EveryTrigger(15 * SECOND, align=Align.MINUTE, offset=pick((None, 4 * SECOND))),
            EveryTrigger(pick((90, 720)) * SECOND, align=Align.HOUR),
            EveryTrigger(2 * 3600 * SECOND, align=Align.DAY, offset=pick((None, 67 * SECOND))),
            EveryTrigger(9 * SECOND, EveryMode.FIXED_DELAY),
            AtTrigger(now + pick((-30, 20, 100, 600)) * SECOND),
            StartupTrigger(per_boot=pick((True, False))),
        )
    )


def random_behaviour(random: Random) -> Behaviour:
    """Return how the processes of a job behave."""
    pick = random.choice
    return Behaviour(
        lasts=pick(((SECOND,), (SECOND, 20 * SECOND), (7 * SECOND,), (90 * SECOND,))),
        exits=pick(
            ((Exit(code=0),), (Exit(code=0), Exit(code=1)), (Exit(code=3),), (Exit(signal=11),))
        ),
        leaves=pick(((None,), (None,), (None, 4 * SECOND), (60 * SECOND,))),
        ignores_term=random.random() < 0.2,
        rest_ignores_term=random.random() < 0.2,
        fails_to_start=pick((0.0, 0.0, 0.1)),
        word_takes=pick((0, 0, 5, 300)) * timedelta(milliseconds=1),
    )


def after(random: Random, names: Sequence[str]) -> AfterTrigger:
    """Return what waits for one or two of these jobs."""
    chosen = random.sample(names, min(len(names), random.choice((1, 1, 2))))
    return AfterTrigger({name: random.choice(tuple(Condition)) for name in chosen})


def upstreams(job: Job) -> frozenset[str]:
    """Return the names of the jobs that a job waits for."""
    trigger = job.trigger
    return frozenset(trigger.conditions) if isinstance(trigger, AfterTrigger) else frozenset()


Change = Callable[[Random, Job, datetime], Job]

CHANGES: dict[str, Change] = {
    "policies": lambda random, job, now: replace(
        random_job(random, job.name, now),
        trigger=job.trigger,
        jitter=job.jitter,
        timezone=job.timezone,
    ),
    "schedule": lambda random, job, now: _with_trigger(job, random_trigger(random, now)),
    "overlap": lambda random, job, _now: replace(
        job, overlap=random.choice(tuple(Overlap)), max_running=random.choice((None, 1, 2))
    ),
    "pool": lambda random, job, _now: replace(job, pool=random.choice(POOLS)),
    "timeout": lambda random, job, _now: replace(job, timeout=random.choice((None, 5 * SECOND))),
    "disabled": lambda _random, job, _now: replace(job, enabled=False),
    "enabled": lambda _random, job, _now: replace(job, enabled=True),
}
"""What a reload may change of a job."""


def _with_trigger(job: Job, trigger: Trigger) -> Job:
    return replace(job, trigger=trigger, jitter=job.jitter if can_jitter(trigger) else None)


# --- when it is due -----------------------------------------------------------------------------


def is_elapsed(job: Job) -> bool:
    """Tell whether the job counts elapsed time, whatever the clock reads."""
    return isinstance(job.trigger, EveryTrigger) and job.trigger.align is None


def schedule_of(job: Job, anchor: datetime | None) -> Schedule | None:
    """Return when the job is due, made anew from its definition; None: not by itself.

    Only how much later its jitter makes it is asked of the package; see its own tests for that.
    """
    key = job.name, job.trigger, job.timezone
    schedule = _plain_schedule(*key, anchor if is_elapsed(job) else None)
    if schedule is None or job.jitter is None:
        return schedule
    return Shifted(schedule, _jitter(*key, job.jitter))


@lru_cache(1000)
def _jitter(name: str, trigger: Trigger, zone: str | None, width: timedelta) -> timedelta:
    job = Job(name, trigger, "job", timezone=zone, jitter=width)
    made = timetable.schedule_of(job, BEGIN, HOST)
    assert isinstance(made, Shifted), f"{name} has jitter, and its schedule is {made}"
    assert timedelta(0) <= made.by < width, f"{name} is {made.by} later"
    return made.by


@lru_cache(1000)
def _plain_schedule(
    name: str, trigger: Trigger, zone: str | None, anchor: datetime | None
) -> Schedule | None:
    match trigger:
        case CronTrigger(expressions):
            return parse_schedule(expressions, zone or "UTC", hash_key=name)
        case AtTrigger(instant):
            return OneOff(instant)
        case EveryTrigger(period, align=Align(), offset=offset):
            return _aligned(period, offset or 0 * SECOND, zone or "UTC")
        case EveryTrigger(period, EveryMode.FIXED_RATE, offset=offset) if anchor is not None:
            first = anchor + (period if offset is None else offset)
            return Interval(first - period, period)
        case _:
            return None


def _aligned(period: timedelta, offset: timedelta, zone: str) -> Schedule:
    """Return an interval that keeps to the clocks of a zone that is whole hours off UTC.

    Within an hour that is a grid of UTC; beyond it, an expression with a star means the same.
    """
    if period <= 3600 * SECOND:
        return Interval(EPOCH + offset, period)
    second, minute = offset // SECOND % 60, offset // SECOND // 60
    return parse_schedule((f"{second} {minute} */{period // (3600 * SECOND)} * * *",), zone)
