"""The daemon lives through great steps of its clock, and through changes of a zone's clocks."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, assert_accounted
from tests.support.wallclock import WallClock

CHECKED = ("--clock-check", "100ms")
SECOND = timedelta(seconds=1)
TEN_YEARS = timedelta(days=3652)

TICKING = """
[jobs.cron]
schedule = "* * * * * *"
command = 'sh "$STAMP" ran'
missed = "once"
overlap = "allow"

[jobs.skip]
schedule = "* * * * * *"
command = 'sh "$STAMP" ran'
missed = "skip"
overlap = "allow"

[jobs.minute]
schedule = "0 * * * * *"
command = 'sh "$STAMP" ran'

# Where the machine is too late for it, each turn is made up.
[jobs.beat]
every = "1s"
command = 'sh "$STAMP" ran'
overlap = "allow"
missed = "all"
"""

TOO_LATE = "pycron was frozen or the machine suspended"
"""What is logged where the machine was over a second late; it may be, and that is no step."""


def step(daemon: Daemon, clock: WallClock, by: timedelta) -> int:
    """Set the clock, and return the place in the log at which that was noticed."""
    clock.step(by)
    ahead = "forward" if by > timedelta(0) else "back"
    return daemon.log.events.index(daemon.log.wait(f"the clock was set {ahead}"))


def assert_beat(daemon: Daemon, steps: int) -> None:
    """Hold that an interval's runs are a second apart but where the clock was set."""
    rows = daemon.history("beat")
    dues = [datetime.fromisoformat(row["due"]) for row in sorted(rows, key=lambda row: row["run"])]
    odd = [later - earlier for earlier, later in pairwise(dues) if later - earlier != SECOND]
    assert len(odd) <= steps, odd
    assert made_up(daemon, "beat") == 0


def made_up(daemon: Daemon, job: str) -> int:
    """Return how many of a job's runs were made up, but for what the machine was too late for."""
    causes = [row["cause"] for row in daemon.history(job)]
    late = daemon.log.all("catching up", job=job, reason=TOO_LATE)
    return causes.count("catch_up") - sum(event["runs"] for event in late)


def assert_nothing_twice(daemon: Daemon) -> None:
    """Hold that no job has run for the same due instant twice (P2)."""
    stamps = [(stamp.job, stamp.due) for stamp in daemon.stamps()]
    assert len(stamps) == len(set(stamps))


def resident_kb(pid: int) -> int:
    """Return how much memory a process has in use."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    return int(status.partition("VmRSS:")[2].split()[0])


@pytest.mark.parametrize("by", [timedelta(hours=2), timedelta(hours=-2)], ids=["ahead", "back"])
def test_two_hours(daemon: Daemon, clock: WallClock, by: timedelta) -> None:
    """Two hours either way: each occurrence once or accounted for, the beat goes on (P1, P2)."""
    clock.set("2026-03-02T10:00:05.5")
    log = daemon.start(TICKING, *CHECKED, env=clock.environment)
    log.wait("run started", job="cron", count=3)
    since = step(daemon, clock, by)
    for job in ("cron", "skip", "beat"):
        log.wait("run started", job=job, count=3, since=since)
    daemon.stop()
    assert_nothing_twice(daemon)
    assert_beat(daemon, steps=1)
    if by > timedelta(0):
        for job in ("cron", "skip"):
            assert_accounted(daemon.history(job, "-n", "10000"), SECOND)
        assert made_up(daemon, "cron") == 1
        assert made_up(daemon, "skip") == 0


def test_ten_years_ahead_and_back(daemon: Daemon, clock: WallClock) -> None:
    """Ten years make no burst, cost no memory, and are forgotten when they are taken back (P1)."""
    clock.set("2026-03-02T10:00:05.5")
    log = daemon.start(TICKING, *CHECKED, env=clock.environment)
    log.wait("run started", job="cron", count=3)
    before_kb = resident_kb(daemon.pid)
    since = step(daemon, clock, TEN_YEARS)
    log.wait("run started", job="cron", count=3, since=since)
    assert_accounted_in_one_row(daemon, "cron", TEN_YEARS)
    since = step(daemon, clock, -TEN_YEARS)
    for job in ("cron", "skip", "beat"):
        started = log.wait("run started", job=job, count=3, since=since)
        assert started["due"].startswith("2026-03-02T10:0"), started
    assert resident_kb(daemon.pid) - before_kb < 16_000
    daemon.stop()
    assert_beat(daemon, steps=2)
    assert len(daemon.stamps()) < 100


def assert_accounted_in_one_row(daemon: Daemon, job: str, span: timedelta) -> None:
    """Hold that what was jumped over is one row whose count is that of the seconds."""
    rows = daemon.history(job, "-n", "100")
    stepped = "the clock was set forward"
    missed = [r for r in rows if r["outcome"] == "missed" and r["reason"].startswith(stepped)]
    assert len(missed) == 1
    assert abs(missed[0]["count"] - span // SECOND) < 60


EIGHT_HOURS = timedelta(hours=8)

TENS = """
[jobs.tens]
schedule = "*/10 * * * * *"
command = 'sh "$STAMP" ran'
missed = "all"

[jobs.second]
schedule = "* * * * * *"
command = 'sh "$STAMP" ran'
"""


@pytest.mark.parametrize("is_down", [False, True], ids=["up", "down"])
def test_eight_hours_back_and_right_again(
    daemon: Daemon,
    clock: WallClock,
    is_down: bool,
) -> None:
    """What had its turn before the clock was wrong has it once, seen or not (P1, P2)."""
    clock.set("2026-03-02T09:59:57.5")
    log = daemon.start(TENS, *CHECKED, env=clock.environment)
    log.wait("run succeeded", job="tens")
    since = step(daemon, clock, -EIGHT_HOURS)
    log.wait("run started", job="second", count=2, since=since)
    if is_down:
        daemon.kill()
        clock.step(EIGHT_HOURS)
        log = daemon.start(None, *CHECKED, env=clock.environment)
        since = 0
    else:
        since = step(daemon, clock, EIGHT_HOURS)
    log.wait("run started", job="second", count=2, since=since)
    log.wait("run started", job="tens", since=since)
    daemon.stop()
    assert_nothing_twice(daemon)
    missed = [row for row in daemon.history("tens", "-n", "1000") if row["outcome"] == "missed"]
    assert not missed, "what had its row before is no row again"


def test_a_board_without_a_battery(daemon: Daemon, clock: WallClock) -> None:
    """A clock that begins in 1970 and is then set: jobs go on at once, the beat is kept (P1)."""
    clock.set("1970-01-01T00:00:07.5")
    once = "[jobs.once]\nat = 2026-03-02T09:00:00Z\ncommand = 'sh \"$STAMP\" ran'\n"
    log = daemon.start(TICKING + once, *CHECKED, env=clock.environment)
    log.wait("run started", job="cron", count=2)
    assert not log.all("run started", job="once")
    clock.set("2026-03-02T10:00:00.5")
    since = log.events.index(log.wait("the clock was set forward"))
    for job in ("cron", "skip", "beat"):
        log.wait("run started", job=job, count=3, since=since)
    assert log.wait("run started", job="once", since=since)["cause"] == "catch_up"
    daemon.stop()
    assert_nothing_twice(daemon)
    assert_beat(daemon, steps=1)
    assert len(daemon.stamps("once")) == 1
    assert len(daemon.stamps()) < 100


# Zone, the instant at which its clocks change, a fixed time that falls into the gap or is repeated,
# and whether that is due at the change.
CHANGES = {
    "Berlin, spring": ("Europe/Berlin", "2026-03-29T01:00:00", "30 2 * * *", True),
    "Berlin, autumn": ("Europe/Berlin", "2026-10-25T01:00:00", "0 2 * * *", False),
    "New York, spring": ("America/New_York", "2026-03-08T07:00:00", "30 2 * * *", True),
    "New York, autumn": ("America/New_York", "2026-11-01T06:00:00", "0 1 * * *", False),
    "Lord Howe, spring": ("Australia/Lord_Howe", "2026-10-03T15:30:00", "15 2 * * *", True),
    "Lord Howe, autumn": ("Australia/Lord_Howe", "2026-04-04T15:00:00", "30 1 * * *", False),
}

BEFORE = timedelta(minutes=10)
"""How long before the change a daemon begins: more than it takes until it is up."""


@pytest.mark.parametrize("name", CHANGES)
def test_a_zone_changes_its_clocks(daemon: Daemon, clock: WallClock, name: str) -> None:
    """A fixed time is due once over a change, what follows the clocks goes on (P1, P2)."""
    zone, change, fixed, is_due = CHANGES[name]
    changed_at = datetime.fromisoformat(f"{change}+00:00")
    clock.set((changed_at - BEFORE).replace(tzinfo=None).isoformat())
    daemon.write(
        f"""
        [jobs.fixed]
        schedule = "{fixed}"
        command = 'sh "$STAMP" ran'

        [jobs.half_hours]
        schedule = "*/30 * * * *"
        command = 'sh "$STAMP" ran'

        [jobs.seconds]
        schedule = "* * * * * *"
        command = 'sh "$STAMP" ran'
        overlap = "allow"
        missed = "skip"
        """,
        head=f'timezone = "{zone}"',
    )
    log = daemon.start(None, *CHECKED, env=clock.environment)
    step(daemon, clock, changed_at - clock.now() - 4 * SECOND)
    since = log.events.index(log.wait("run started", job="half_hours"))
    if is_due:
        log.wait("run started", job="fixed")
    log.wait("run started", job="seconds", count=3, since=since)
    daemon.stop()
    assert_accounted(daemon.history("seconds"), SECOND)
    dues = {job: [stamp.due for stamp in daemon.stamps(job)] for job in ("fixed", "half_hours")}
    assert dues["fixed"] == ([changed_at] if is_due else [])
    assert dues["half_hours"] == [changed_at]
    for job in dues:
        assert not log.all("occurrences missed", job=job)
