"""From a job to its schedule: what its keys make of it, and how jobs are spread."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

import pytest

from crond_py.crontab.model import AtTrigger, CronTrigger, EveryTrigger, Job, StartupTrigger
from crond_py.model import Align, DstFold, EveryMode
from crond_py.schedule import Shifted
from crond_py.timetable import first_baseline, goes_by_the_clock, schedule_of

ANCHOR = datetime(2026, 1, 5, 10, 3, 20, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
TICK = timedelta(microseconds=1)


def job(trigger: object, **more: object) -> Job:
    """Return a job of the zone UTC."""
    return replace(Job("a", trigger, "true", timezone="UTC"), **more)  # type: ignore[arg-type]


def every(period: timedelta, **more: object) -> EveryTrigger:
    """Return an interval."""
    return replace(EveryTrigger(period), **more)  # type: ignore[arg-type]


def due(of: Job, number: int, host: str = "alpha") -> list[datetime]:
    """Return the first due instants from just before the anchor on."""
    schedule = schedule_of(of, ANCHOR, host)
    assert schedule is not None
    found: list[datetime] = []
    after = ANCHOR - TICK
    for _ in range(number):
        following = schedule.next_after(after)
        assert following is not None
        found.append(following)
        after = following
    return found


def times(*texts: str) -> list[datetime]:
    """Return instants of the anchor's day."""
    return [datetime.fromisoformat(f"2026-01-05T{text}+00:00") for text in texts]


DUE = [
    ("interval", every(15 * MINUTE), times("10:18:20", "10:33:20")),
    ("at-once", every(15 * MINUTE, offset=timedelta(0)), times("10:03:20", "10:18:20")),
    ("later", every(15 * MINUTE, offset=5 * MINUTE), times("10:08:20", "10:23:20")),
    ("aligned", every(15 * MINUTE, align=Align.HOUR), times("10:15", "10:30")),
    ("aligned-later", every(HOUR, align=Align.HOUR, offset=5 * MINUTE), times("10:05", "11:05")),
    ("aligned-day", every(6 * HOUR, align=Align.DAY), times("12:00", "18:00")),
    ("delay", every(MINUTE, mode=EveryMode.FIXED_DELAY), times("10:04:20", "10:05:20")),
    ("cron", CronTrigger(("0 11,12 * * *",)), times("11:00", "12:00")),
]


@pytest.mark.parametrize(("trigger", "expected"), [row[1:] for row in DUE], ids=[r[0] for r in DUE])
def test_when_a_job_is_due(trigger: object, expected: list[datetime]) -> None:
    """The keys of an interval say what it counts from; rows made by hand."""
    assert due(job(trigger), 2) == expected


def test_an_aligned_interval_is_in_the_zone_of_its_job() -> None:
    """Kathmandu is 5:45 ahead: its full hours are at a quarter past in UTC."""
    kathmandu = job(every(HOUR, align=Align.HOUR), timezone="Asia/Kathmandu")
    assert due(kathmandu, 2) == times("10:15", "11:15")


def test_what_nothing_but_a_start_makes_due() -> None:
    """It has no schedule."""
    assert schedule_of(job(StartupTrigger()), ANCHOR) is None


CLOCK = [
    (every(HOUR), False),
    (every(HOUR, offset=MINUTE), False),
    (every(HOUR, mode=EveryMode.FIXED_DELAY), False),
    (every(HOUR, align=Align.HOUR), True),
    (CronTrigger(("* * * * *",)), True),
    (AtTrigger(ANCHOR), True),
]


@pytest.mark.parametrize(("trigger", "expected"), CLOCK)
def test_what_goes_by_the_clock(trigger: object, expected: bool) -> None:
    """A step of the clock does not move what is due at a reading of it."""
    assert goes_by_the_clock(job(trigger)) is expected


def test_where_accounting_begins() -> None:
    """What is due when the job is first seen counts only where its keys say so."""
    at_once = every(HOUR, offset=timedelta(0))
    assert first_baseline(job(at_once), ANCHOR) == ANCHOR - TICK
    for trigger in (every(HOUR), every(HOUR, offset=MINUTE), replace(at_once, align=Align.HOUR)):
        assert first_baseline(job(trigger), ANCHOR) == ANCHOR


# --- jitter -------------------------------------------------------------------------------------

DAILY = CronTrigger(("0 2 * * *",))
JITTERED = [
    ("daily", DAILY, 10 * MINUTE),
    ("wider-than-the-day", DAILY, timedelta(days=30)),
    ("minutely", CronTrigger(("* * * * *",)), 10 * MINUTE),
    ("uneven", CronTrigger(("*/7 * * * *",)), HOUR),
    ("union", CronTrigger(("*/5 * * * *", "3 12 * * 5")), HOUR),
    ("hashed", CronTrigger(("H H * * *",)), timedelta(days=3)),
    ("yearly", CronTrigger(("@yearly",)), timedelta(days=3000)),
    ("interval", every(15 * MINUTE), HOUR),
    ("offset", every(15 * MINUTE, offset=timedelta(0)), HOUR),
    ("aligned", every(15 * MINUTE, align=Align.HOUR), HOUR),
    ("fast", every(timedelta(milliseconds=100)), HOUR),
]
ZONES = ["UTC", "Europe/Berlin", "Australia/Lord_Howe"]


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize(
    ("trigger", "width"), [r[1:] for r in JITTERED], ids=[r[0] for r in JITTERED]
)
def test_all_due_instants_are_later_by_one_amount(
    trigger: object, width: timedelta, zone: str
) -> None:
    """P2, B65: less than the width and than any distance, so none comes as late as the next one.

    The distances are looked at over 2000 occurrences, with every change of the clocks there is
    within them.
    """
    for host in ("alpha", "beta", "gamma"):
        plain = job(trigger, timezone=zone)
        before = listed(plain, host, ANCHOR)
        after = listed(replace(plain, jitter=width), host, before[0] - TICK)
        (by,) = {late - early for early, late in zip(before, after, strict=False)}
        assert timedelta(0) <= by < width
        assert by < min(late - early for early, late in pairwise(before))
        assert by % timedelta(milliseconds=1) == timedelta(0)


def listed(of: Job, host: str, start: datetime) -> Sequence[datetime]:
    """Return up to 2000 due instants after ``start``."""
    schedule = schedule_of(of, ANCHOR, host)
    assert schedule is not None
    end = datetime(2126, 1, 1, tzinfo=UTC)
    return list(islice(schedule.occurrences(start, end), 2000))  # type: ignore[attr-defined]


def amount(of: Job, host: str | None) -> timedelta:
    """Return how much later a job is on a host."""
    schedule = schedule_of(of, ANCHOR, host)
    assert isinstance(schedule, Shifted)
    return schedule.by


def test_jobs_and_hosts_differ_and_nothing_else_does() -> None:
    """P2, B65: the same each day and after a restart, another one for each job and host."""
    plain = job(DAILY, jitter=HOUR)
    others = {amount(replace(plain, name=f"job{n}"), "alpha") for n in range(50)}
    others |= {amount(plain, f"host{n}") for n in range(50)}
    assert len(others) > 95
    later = replace(plain, command="other", priority=7, dst_fold=DstFold.BOTH)
    assert amount(plain, "alpha") == amount(later, "alpha")


def test_this_host_is_the_default() -> None:
    """Without a host name given, it is that of the machine."""
    plain = job(DAILY, jitter=HOUR)
    assert amount(plain, None) == amount(plain, os.uname().nodename)


@pytest.mark.parametrize("trigger", [every(HOUR, mode=EveryMode.FIXED_DELAY), StartupTrigger()])
def test_what_has_no_timetable_is_not_moved(trigger: object) -> None:
    """A delay counts from the end of a run: there is nothing to be spread."""
    assert not isinstance(schedule_of(job(trigger, jitter=MINUTE), ANCHOR), Shifted)
