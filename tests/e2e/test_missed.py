"""What fell while nothing could start it: the daemon was down, frozen, or the clock was set."""

from __future__ import annotations

import signal
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from crond_py.clock import SystemClock
from tests.support.daemon import Bell, Daemon, Event, assert_accounted, begun, occurrences
from tests.support.wallclock import WallClock

A_MINUTE = timedelta(minutes=1)

# Down from 10:00:20 to 10:10:25: ten minutes are missed, 10:01 to 10:10.
EACH_MINUTE = """
[jobs.skip]
schedule = "* * * * *"
command = 'sh "$STAMP" begin; sh "$STAMP" end'
missed = "skip"

[jobs.once]
schedule = "* * * * *"
command = 'sh "$STAMP" begin; sh "$STAMP" end'
missed = "once"

[jobs.all]
schedule = "* * * * *"
command = 'sh "$STAMP" begin; sh "$STAMP" end'
missed = "all"

[jobs.within]
schedule = "* * * * *"
command = 'sh "$STAMP" begin; sh "$STAMP" end'
missed = "all"
missed_within = "4m40s"

[jobs.limit]
schedule = "* * * * *"
command = 'sh "$STAMP" begin; sh "$STAMP" end'
missed = "all"
missed_limit = 3
"""

# Which minutes are made up; the others of the ten have rows that say why not.
MADE_UP = {
    "skip": [],
    "once": [10],
    "all": [1, 2, 3, 4, 5, 6, 7, 8, 9, 10],
    "within": [6, 7, 8, 9, 10],
    "limit": [8, 9, 10],
}

WHY_NOT = {
    "skip": 'missed = "skip"',
    "once": 'missed = "once"',
    "within": "older than missed_within",
    "limit": "beyond missed_limit = 3",
}


@pytest.mark.parametrize("way", ["stop", "kill"])
def test_down_for_ten_minutes(daemon: Daemon, clock: WallClock, way: str) -> None:
    """After ten minutes down each policy does what it says, and every minute has its row (P1).

    It is the same whether the daemon was stopped or killed.
    """
    clock.set("2026-03-02T10:00:20")
    daemon.start(EACH_MINUTE, env=clock.environment)
    daemon.stop() if way == "stop" else daemon.kill()
    clock.set("2026-03-02T10:10:25")
    log = daemon.start(env=clock.environment)
    for job, minutes in MADE_UP.items():
        if minutes:
            log.wait("run succeeded", job=job, count=len(minutes))
    daemon.stop()
    for job, minutes in MADE_UP.items():
        rows = daemon.history(job)
        assert sorted(occurrences(rows, A_MINUTE)) == [_minute(n) for n in range(1, 11)]
        assert sum(row["count"] for row in rows) == 10
        made_up = [row for row in rows if row["attempts"]]
        assert list(map(_due, made_up)) == list(map(_minute, minutes))
        assert {row["cause"] for row in made_up} <= {"catch_up"}
        for row in rows:
            if not row["attempts"]:
                assert row["outcome"] == "missed"
                assert row["reason"].startswith("pycron was not running; ")
                assert row["reason"].endswith(WHY_NOT[job])
        _assert_one_after_another(daemon, job)


def _minute(number: int) -> datetime:
    return datetime(2026, 3, 2, 10, number, tzinfo=UTC)


def _assert_one_after_another(daemon: Daemon, job: str) -> None:
    """Hold that the oldest went first, and none began before the one before had ended."""
    stamps = daemon.stamps(job)
    assert [s.word for s in stamps] == ["begin", "end"] * (len(stamps) // 2)
    dues = [s.due for s in stamps]
    assert dues == sorted(dues)
    assert dues[::2] == dues[1::2]


@pytest.mark.parametrize(("missed", "hours"), [("once", [6]), ("all", [23, 0, 1, 2, 3, 4, 5, 6])])
def test_night_without_power(
    daemon: Daemon, clock: WallClock, missed: str, hours: list[int]
) -> None:
    """An hourly job that was down for eight hours runs once, or for each hour in turn (P1, P5)."""
    clock.set("2026-03-01T22:20:00")
    daemon.start(
        f"""
        [jobs.hourly]
        schedule = "0 * * * *"
        command = 'sh "$STAMP" begin; sh "$STAMP" end'
        missed = "{missed}"
        """,
        env=clock.environment,
    )
    daemon.kill()
    clock.set("2026-03-02T06:20:00")
    log = daemon.start(env=clock.environment)
    log.wait("run succeeded", job="hourly", count=len(hours))
    daemon.stop()
    rows = daemon.history()
    assert sum(row["count"] for row in rows) == 8
    assert_accounted(rows, timedelta(hours=1))
    assert [s.due.hour for s in daemon.stamps(word="begin")] == hours
    _assert_one_after_another(daemon, "hourly")
    assert len(log.all("catching up")) == 1, "one line for the lot"


def test_twelve_hours_of_seconds(daemon: Daemon, clock: WallClock) -> None:
    """Tens of thousands of missed occurrences cost one row and one line, and the beat goes on."""
    clock.set("2026-03-01T20:00:00")
    log = daemon.start(
        '[jobs.tick]\nschedule = "* * * * * *"\ncommand = "true"\nmissed = "skip"',
        env=clock.environment,
    )
    log.wait("run succeeded", job="tick")
    daemon.kill()
    clock.set("2026-03-02T08:00:00")
    log = daemon.start(env=clock.environment)
    log.wait("run succeeded", job="tick", count=2)
    daemon.stop()
    assert len(log.all("occurrences missed")) == 1
    rows = daemon.history()
    assert_accounted(rows, timedelta(seconds=1))
    assert sum(row["count"] for row in rows) > 12 * 3600 - 60


# --- the clock is set while the daemon runs ------------------------------------------------------

CHECKED = ("--clock-check", "100ms")

TICKING = """
[jobs.cron]
schedule = "* * * * * *"
command = 'sh "$STAMP" ran'
overlap = "allow"
missed = "once"

# Where the machine is too late for it, each turn is made up.
[jobs.beat]
every = "1s"
command = 'sh "$STAMP" ran'
overlap = "allow"
missed = "all"
"""

TOO_LATE = "pycron was frozen or the machine suspended"
"""What is logged where the machine was over a second late; it may be, and that is no step."""


def test_hour_forward(daemon: Daemon, clock: WallClock) -> None:
    """A clock set forward by an hour starts no burst: one run makes up, and the beat goes on (P1).

    An interval does not look at the wall clock: for it nothing has been missed.
    """
    clock.set("2026-03-02T10:00:00.5")
    log = daemon.start(TICKING, *CHECKED, env=clock.environment)
    log.wait("run started", job="cron", count=2)
    log.wait("run started", job="beat", count=2)
    clock.step(timedelta(hours=1))
    step = log.wait("the clock was set forward")
    since = log.events.index(step)
    # One that was due just before the step may be told to have started after it.
    log.wait("run started", job="cron", cause="catch_up", since=since)
    log.wait("run started", job="cron", count=5, since=since)
    log.wait("run started", job="beat", count=4, since=since)
    daemon.stop()
    cron = daemon.history("cron")
    assert_accounted(cron, timedelta(seconds=1))
    missed = [row for row in cron if row["outcome"] == "missed"]
    stepped = [row for row in missed if row["reason"].startswith("the clock was set forward; ")]
    assert [row["count"] > 3590 for row in stepped] == [True]
    late = log.all("catching up", job="cron", reason=TOO_LATE)
    assert [row["cause"] for row in cron].count("catch_up") == 1 + len(late)
    beat = [datetime.fromisoformat(row["due"]) for row in daemon.history("beat")]
    steps = {later - earlier for earlier, later in pairwise(beat)}
    assert timedelta(seconds=1) in steps
    assert len(steps) == 2, "one interval has the step in it, all others are as ever"
    rows = [*cron, *daemon.history("beat")]
    assert len(daemon.stamps()) == sum(bool(row["attempts"]) for row in rows)


def test_eight_hours_back(daemon: Daemon, clock: WallClock) -> None:
    """A clock set back by eight hours shows a new time, which is used at once (P1)."""
    clock.set("2026-03-02T16:00:52")
    log = daemon.start(
        TICKING + '[jobs.minute]\nschedule = "* * * * *"\ncommand = "true"\n',
        *CHECKED,
        env=clock.environment,
    )
    log.wait("run started", job="cron", count=2)
    clock.step(timedelta(hours=-8))
    since = log.events.index(log.wait("the clock was set back"))
    for job in ("cron", "beat", "minute"):
        started = log.wait("run started", job=job, since=since + 1)
        if started["due"] > "2026-03-02T16:":  # it was claimed just ahead of the step
            started = log.wait("run started", job=job, count=2, since=since + 1)
        assert started["due"].startswith("2026-03-02T08:0"), started
    log.wait("run started", job="cron", count=3, since=since)
    daemon.stop()
    stamps = [(stamp.job, stamp.due) for stamp in daemon.stamps()]
    assert len(stamps) == len(set(stamps))


def test_a_little_back(daemon: Daemon, clock: WallClock) -> None:
    """After a small step back no occurrence comes a second time; an interval goes on (P2)."""
    clock.set("2026-03-02T10:00:05.5")
    log = daemon.start(TICKING, *CHECKED, env=clock.environment)
    last = log.wait("run started", job="cron", count=4)
    clock.step(timedelta(seconds=-3))
    since = log.events.index(log.wait("the clock was set back"))
    assert log.wait("run started", job="cron", since=since)["due"] > last["due"]
    # It waited for that, while the interval did not.
    assert len(log.all("run started", job="beat", since=since)) >= 2
    assert log.all("occurrence has its run already") == []
    daemon.stop()
    dues = [stamp.due for stamp in daemon.stamps("cron")]
    assert dues == sorted(set(dues))
    assert_accounted(daemon.history("cron"), timedelta(seconds=1))
    assert {row["outcome"] for row in begun(daemon.history("beat"))} == {"succeeded"}


def test_forty_seconds_back_and_forward(daemon: Daemon, clock: WallClock) -> None:
    """Back to readings from before the start, and forward again: nothing comes twice (P1, P2)."""
    clock.set("2026-03-02T10:00:05.5")
    log = daemon.start(TICKING, *CHECKED, env=clock.environment)
    log.wait("run started", job="cron", count=3)
    clock.step(timedelta(seconds=-40))
    since = log.events.index(log.wait("the clock was set back"))
    log.wait("run started", job="cron", count=2, since=since)
    clock.step(timedelta(seconds=40))
    since = log.events.index(log.wait("the clock was set forward"))
    log.wait("run started", job="cron", count=3, since=since)
    daemon.stop()
    dues = [stamp.due for stamp in daemon.stamps("cron")]
    assert len(dues) == len(set(dues))
    assert_accounted(daemon.history("cron"), timedelta(seconds=1))


# --- the process is frozen ---------------------------------------------------------------------

FROZEN = """
[jobs.alarm]
startup = true
command = "echo set > bell; sleep 4; echo rings > bell"

[jobs.tick]
schedule = "*/2 * * * * *"
command = 'sh "$STAMP" ran'
overlap = "allow"
"""


@pytest.mark.parametrize("missed", ["once", "skip", "all"])
def test_frozen_over_due_instants(daemon: Daemon, bell: Bell, missed: str) -> None:
    """What falls due while the process stands still gets the missed policy afterwards (P1).

    A job tells the test how time passes; jobs are not frozen with their daemon.
    """
    log = daemon.start(FROZEN + f'missed = "{missed}"\n')
    assert bell.wait() == "set"
    daemon.freeze()
    frozen_at = SystemClock().now()
    assert bell.wait() == "rings"
    thawed_at = SystemClock().now()
    daemon.signal(signal.SIGCONT)
    caught_up = {"once": 1, "skip": 0, "all": 1}[missed]
    if caught_up:
        log.wait("run started", job="tick", cause="catch_up")
    else:
        log.wait("occurrences missed", job="tick")
    log.wait("run succeeded", job="tick", count=caught_up + 2)
    daemon.stop()
    rows = daemon.history("tick")
    assert_accounted(rows, timedelta(seconds=2))
    # One that is due within milliseconds of the freeze may have been claimed ahead of its time.
    meanwhile = [
        row
        for row in rows
        if frozen_at < _due(row)
        and (_due(row) < thawed_at or row["cause"] == "catch_up")
        and frozen_at < datetime.fromisoformat(row["claimed_at"])
    ]
    assert meanwhile
    ran = [row for row in meanwhile if row["attempts"]]
    assert all(row["cause"] == "catch_up" for row in ran)
    left_out = [row for row in meanwhile if not row["attempts"]]
    assert all(row["outcome"] == "missed" for row in left_out)
    assert all(row["reason"].startswith("pycron was frozen") for row in left_out)
    if missed == "once":
        assert len(ran) == 1
        assert _due(ran[0]) == max(occurrences(meanwhile, timedelta(seconds=2)))
    elif missed == "all":
        assert not left_out
    else:
        assert not ran


def _due(row: Event) -> datetime:
    return datetime.fromisoformat(row["due"])
