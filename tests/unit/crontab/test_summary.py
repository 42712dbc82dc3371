"""Short texts about jobs: fingerprints that last, schedules in words, what a reload has changed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from crond_py.crontab.model import (
    AtTrigger,
    Crontab,
    CronTrigger,
    EveryTrigger,
    Group,
    Job,
    Pool,
    StartupTrigger,
)
from crond_py.crontab.summary import (
    CrontabDiff,
    TableDiff,
    describe_trigger,
    diff_crontabs,
    fingerprint,
)
from crond_py.model import Align, DstFold, DstGap, EveryMode, Missed, Overlap, Retry

CRON = Job("a", CronTrigger(("30 2 * * *",)), "true", timezone="Europe/Berlin")
EVERY = Job("a", EveryTrigger(timedelta(seconds=15)), "true")
AT = Job(
    "a", AtTrigger(datetime(2026, 12, 24, 17, 0, tzinfo=UTC)), "true", timezone="Europe/Berlin"
)
STARTUP = Job("a", StartupTrigger(), "true")
ALIGNED = Job(
    "a", EveryTrigger(timedelta(minutes=15), align=Align.HOUR), "true", timezone="Europe/Berlin"
)

OTHER_SCHEDULES = [
    ("expression", CRON, {"trigger": CronTrigger(("31 2 * * *",))}),
    ("one-more", CRON, {"trigger": CronTrigger(("30 2 * * *", "0 5 * * *"))}),
    ("zone", CRON, {"timezone": "UTC"}),
    ("no-zone", CRON, {"timezone": None}),
    ("gap", CRON, {"dst_gap": DstGap.SKIP}),
    ("fold", CRON, {"dst_fold": DstFold.BOTH}),
    ("period", EVERY, {"trigger": EveryTrigger(timedelta(seconds=15, microseconds=1))}),
    ("mode", EVERY, {"trigger": EveryTrigger(timedelta(seconds=15), EveryMode.FIXED_DELAY)}),
    ("align", EVERY, {"trigger": EveryTrigger(timedelta(seconds=15), align=Align.MINUTE)}),
    ("unit", ALIGNED, {"trigger": EveryTrigger(timedelta(minutes=15), align=Align.DAY)}),
    ("zone-of-aligned", ALIGNED, {"timezone": "Asia/Tokyo"}),
    ("offset", EVERY, {"trigger": EveryTrigger(timedelta(seconds=15), offset=timedelta(0))}),
    (
        "offset-of-aligned",
        ALIGNED,
        {"trigger": replace(ALIGNED.trigger, offset=timedelta(minutes=5))},
    ),
    ("jitter", CRON, {"jitter": timedelta(minutes=5)}),
    ("jitter-of-interval", EVERY, {"jitter": timedelta(seconds=5)}),
    ("jitter-width", replace(CRON, jitter=timedelta(minutes=5)), {"jitter": timedelta(minutes=6)}),
    ("moment", AT, {"trigger": AtTrigger(datetime(2026, 12, 24, 17, 1, tzinfo=UTC))}),
    ("boot", STARTUP, {"trigger": StartupTrigger(per_boot=True)}),
    ("kind", STARTUP, {"trigger": EVERY.trigger}),
]


@pytest.mark.parametrize(
    ("name", "job", "change"), OTHER_SCHEDULES, ids=[case[0] for case in OTHER_SCHEDULES]
)
def test_another_schedule_has_another_fingerprint(
    name: str, job: Job, change: dict[str, Any]
) -> None:
    """Whatever changes when a job is due changes its fingerprint, and so gives a new baseline."""
    assert fingerprint(replace(job, **change)) != fingerprint(job)


SAME_SCHEDULES = [
    ("command", CRON, {"command": ("x", "y")}),
    ("policy", CRON, {"overlap": Overlap.QUEUE, "missed": Missed.ALL, "retry": Retry(5)}),
    ("name", CRON, {"name": "b", "source": "x:1", "tags": ("x",)}),
    ("disabled", CRON, {"enabled": False}),
    ("order", replace(CRON, trigger=CronTrigger(("1 * * * *", "2 * * * *"))),
     {"trigger": CronTrigger(("2 * * * *", "1 * * * *", "2 * * * *"))}),
    ("no-offset-of-aligned", ALIGNED,
     {"trigger": replace(ALIGNED.trigger, offset=timedelta(0)), "dst_gap": DstGap.SKIP}),
    ("zone-of-interval", EVERY, {"timezone": "Asia/Tokyo", "dst_gap": DstGap.SKIP}),
    ("zone-of-moment", AT, {"timezone": "Asia/Tokyo", "dst_fold": DstFold.BOTH}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "job", "change"), SAME_SCHEDULES, ids=[case[0] for case in SAME_SCHEDULES]
)
def test_the_same_schedule_has_the_same_fingerprint(
    name: str, job: Job, change: dict[str, Any]
) -> None:
    """What does not change when a job is due does not change its fingerprint."""
    assert fingerprint(replace(job, **change)) == fingerprint(job)


# From the definition: sha256 over the JSON text, its first 16 characters. With sha256sum(1):
# printf '["cron",["30 2 * * *"],"Europe/Berlin","run","first"]' | sha256sum
FINGERPRINTS = [
    (CRON, "20c808d1f1a296bc"),
    (EVERY, "43bc1fb150bc3ecc"),
    (AT, "b1db16914218f7c6"),
    (STARTUP, "d2ccee1e494e626f"),
]


@pytest.mark.parametrize(("job", "expected"), FINGERPRINTS, ids=["cron", "every", "at", "startup"])
def test_fingerprints_are_for_ever(job: Job, expected: str) -> None:
    """P1: the same today as in the ledger of years ago: a new version gives no new baseline."""
    assert fingerprint(job) == expected


REFINED = [
    (ALIGNED, '["every",900000000,"fixed-rate",["align","hour","Europe/Berlin"]]'),
    (replace(EVERY, trigger=EveryTrigger(timedelta(seconds=15), offset=timedelta(0)),
             jitter=timedelta(seconds=5)),
     '["every",15000000,"fixed-rate",["offset",0],["jitter",5000000]]'),
    (replace(CRON, jitter=timedelta(minutes=10)),
     '["cron",["30 2 * * *"],"Europe/Berlin","run","first",["jitter",600000000]]'),
]  # fmt: skip


@pytest.mark.parametrize(("job", "text"), REFINED, ids=["align", "offset", "jitter"])
def test_what_only_some_jobs_have_is_hashed_after_the_rest(job: Job, text: str) -> None:
    """P1: the text that is hashed is part of the ledger's format, so it is written down here."""
    assert fingerprint(job) == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_fingerprints_do_not_depend_on_the_process() -> None:
    """Another process with another hash seed gets the same fingerprint."""
    program = (
        "import sys; from crond_py.crontab.model import *;"
        "from crond_py.crontab.summary import fingerprint;"
        "sys.stdout.write(fingerprint(Job('a', CronTrigger(('1 * * * *', '2 * * * *')), 'x')))"
    )
    expected = fingerprint(Job("a", CronTrigger(("1 * * * *", "2 * * * *")), "x"))
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[3],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == expected


DESCRIPTIONS = [
    (CRON, "30 2 * * *"),
    (replace(CRON, trigger=CronTrigger(("0 9 * * *", "0 17 * * *"))), "0 9 * * *; 0 17 * * *"),
    (EVERY, "every 15s"),
    (replace(EVERY, trigger=EveryTrigger(timedelta(minutes=90))), "every 1h30m"),
    (ALIGNED, "every 15m, aligned to the hour"),
    (replace(ALIGNED, trigger=replace(ALIGNED.trigger, offset=timedelta(minutes=5))),
     "every 15m, aligned to the hour, +5m"),
    (replace(EVERY, trigger=EveryTrigger(timedelta(hours=1), offset=timedelta(minutes=5))),
     "every 1h, +5m"),
    (replace(EVERY, trigger=EveryTrigger(timedelta(seconds=15), EveryMode.FIXED_DELAY)),
     "15s after the last run"),
    (AT, "at 2026-12-24 18:00"),
    (replace(AT, timezone="America/New_York"), "at 2026-12-24 12:00"),
    (replace(AT, trigger=AtTrigger(datetime(2026, 7, 1, 0, 0, 5, tzinfo=UTC))),
     "at 2026-07-01 02:00:05"),
    (STARTUP, "at startup"),
    (replace(STARTUP, trigger=StartupTrigger(per_boot=True)), "at boot"),
]  # fmt: skip


@pytest.mark.parametrize(("job", "expected"), DESCRIPTIONS, ids=[d[1] for d in DESCRIPTIONS])
def test_descriptions(job: Job, expected: str) -> None:
    """A table shows when a job is due in a few words, and moments in the job's own zone."""
    assert describe_trigger(job) == expected


def test_a_moment_of_a_job_without_zone_is_shown_in_that_of_the_system(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the job names no zone, the moment reads as on the clock on the wall."""
    monkeypatch.setattr("crond_py.crontab.summary.system_timezone", lambda: "Asia/Kathmandu")
    assert describe_trigger(replace(AT, timezone=None)) == "at 2026-12-24 22:45"


def crontab(*jobs: Job) -> Crontab:
    """Return a crontab of these jobs."""
    names = {job.name: job for job in jobs}
    return Crontab(MappingProxyType(names), MappingProxyType({"default": Pool("default")}))


def test_differences() -> None:
    """A reload can say which jobs came, went and changed; a moved job has not changed."""
    a, b, c, d = (replace(CRON, name=name, source=f"x:{name}") for name in "abcd")
    env = {"env": MappingProxyType({"X": "1"})}
    old = crontab(a, b, replace(c, **env))
    new = crontab(d, replace(c, env=MappingProxyType({"X": "2"})), replace(a, source="y:7"))
    diff = diff_crontabs(old, new)
    assert diff == CrontabDiff(TableDiff(added=("d",), removed=("b",), changed=("c",)))
    assert diff
    assert not diff_crontabs(old, crontab(a, b, replace(c, **env)))


def test_differences_of_pools_and_groups() -> None:
    """They are changes, too, whatever becomes of the jobs."""
    old = replace(
        crontab(CRON),
        pools={"default": Pool("default"), "a": Pool("a", 1), "b": Pool("b", 2)},
        groups={"x": Group("x"), "y": Group("y")},
    )
    new = replace(
        old,
        pools={"default": Pool("default", 4), "a": Pool("a", 1), "c": Pool("c", 2)},
        groups={"x": Group("x", weight=2.0), "y": Group("y", max_running=1)},
    )
    diff = diff_crontabs(old, new)
    assert diff
    assert diff.pools == TableDiff(added=("c",), removed=("b",), changed=("default",))
    assert diff.groups == TableDiff(changed=("x", "y"))
    assert not diff.jobs
