"""``pycron next``: what it says is due, how, and how much of it."""

from __future__ import annotations

import json
import os
import pwd
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from crond_py.crontab import fingerprint, load_crontab
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.model import Cursor
from crond_py.ports import SetCursor
from crond_py.schedule import format_duration, spread
from tests.cli.program import (
    LOCKED_OUT,
    environment,
    in_place,
    needs_setpriv,
    on_terminal,
    pycron,
    without_colour,
)

CRONTAB = """\
timezone = "Europe/Berlin"
[jobs.backup]
schedule = "30 2 * * *"
command = "true"
[jobs.noon]
schedule = "0 12 * * *"
timezone = "America/New_York"
command = "true"
[jobs.poll]
every = "6h"
command = "true"
[jobs.off]
schedule = "@hourly"
command = "true"
enabled = false
[jobs.boot]
startup = true
command = "true"
[jobs.past]
at = 2020-01-01T00:00:00
command = "true"
"""
MOVED = "moved from 02:30: the clocks went forward from 02:00 to 03:00 (CET to CEST)"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a crontab and no state."""
    (tmp_path / "crontab.toml").write_text(CRONTAB)
    return environment(tmp_path)


@pytest.fixture(params=["UTC", "Europe/London"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Return the environment of a host in one zone and in another, without a crontab."""
    return environment(tmp_path, TZ=request.param)


def asked(*arguments: str, env: dict[str, str]) -> list[dict[str, Any]]:
    """Return what ``pycron next --json`` answers."""
    answer = json.loads(pycron("next", "--json", *arguments, env=env).stdout)
    assert isinstance(answer, list)
    return answer


@pytest.mark.parametrize(
    ("expression", "zone", "after", "due"),
    [
        # B01: the host's zone changes nothing for a job in UTC.
        ("30 1 * * *", "UTC", "2022-10-29T12:00:00Z",
         ["2022-10-30T01:30:00Z", "2022-10-31T01:30:00Z"]),
        # B03: a time that the clocks skip is due at the end of the gap.
        ("30 2 * * *", "America/New_York", "2024-03-10T06:59:00Z",
         ["2024-03-10T07:00:00Z", "2024-03-11T06:30:00Z"]),
        # B05: once each Monday, also after the clocks went back.
        ("0 8 * * 1", "Europe/Amsterdam", "2017-10-16T12:00:00Z",
         ["2017-10-23T06:00:00Z", "2017-10-30T07:00:00Z", "2017-11-06T07:00:00Z"]),
        # B08: a reading that does not exist one year is no endless search.
        ("0 1 30 3 *", "Europe/Lisbon", "2024-11-15T00:00:00Z",
         ["2025-03-30T01:00:00Z", "2026-03-30T00:00:00Z", "2027-03-30T00:00:00Z"]),
        # B09: both day fields must match where either begins with a star.
        ("0 16 */2 * 1", "UTC", "2025-01-01T00:00:00Z",
         ["2025-01-13T16:00:00Z", "2025-01-27T16:00:00Z", "2025-02-03T16:00:00Z"]),
        ("0 16 1-31/2 * 1", "UTC", "2025-01-01T00:00:00Z",
         ["2025-01-01T16:00:00Z", "2025-01-03T16:00:00Z", "2025-01-05T16:00:00Z"]),
        # The instant that one asks from is not due itself.
        ("0 0 29 2 *", "UTC", "1996-02-29T00:00:00Z", ["2000-02-29T00:00:00Z"]),
    ],
)  # fmt: skip
def test_an_expression_needs_no_crontab(
    expression: str, zone: str, after: str, due: list[str], host: dict[str, str]
) -> None:
    """The due instants are those of the zone that is named, wherever the host is."""
    found = asked(
        "--expr", expression, "--timezone", zone, "--from", after, "-n", str(len(due)), env=host
    )
    assert [item["due"] for item in found] == due


def test_h_without_a_job_is_only_an_example(env: dict[str, str]) -> None:
    """H is made from the name of a job, so the answer for a bare expression says so."""
    (item,) = asked("-e", "H 3 * * *", "-n", "1", env=env)
    assert item["note"] == "H is another number for each job"


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4 *", "0 0 */31 * MON#2"])
def test_what_can_never_fire_is_refused(expression: str, env: dict[str, str]) -> None:
    """B10: no endless search, and the sentence says that it can never fire."""
    done = in_place("next", "-e", expression, env=env, check=2)
    assert "can never fire" in done.stderr


def test_a_record_has_everything(env: dict[str, str]) -> None:
    """The keys are as documented: UTC, the local reading with its offset, the zone, the note."""
    assert asked("backup", "--from", "2026-03-27T12:00:00Z", "-n", "2", env=env) == [
        {
            "job": "backup",
            "due": "2026-03-28T01:30:00Z",
            "local": "2026-03-28T02:30:00+01:00",
            "timezone": "Europe/Berlin",
            "note": None,
            "jitter": None,
            "dropped": [],
        },
        {
            "job": "backup",
            "due": "2026-03-29T01:00:00Z",
            "local": "2026-03-29T03:00:00+02:00",
            "timezone": "Europe/Berlin",
            "note": MOVED,
            "jitter": None,
            "dropped": [],
        },
    ]


def test_what_the_clocks_left_out_is_said_with_what_comes_next(env: dict[str, str]) -> None:
    """A repeated reading that counts once is named, with its day and the reason."""
    last = asked("backup", "--from", "2026-10-24T12:00:00Z", "-n", "2", env=env)[1]
    assert last["due"] == "2026-10-26T01:30:00Z"
    (text,) = last["dropped"]
    assert text.startswith("on 2026-10-25 02:30 came twice and counted the first time only")


def test_what_the_clocks_left_out_at_the_end_is_a_note(env: dict[str, str]) -> None:
    """Up to --until nothing is passed over in silence."""
    until = ["--from", "2026-10-25T00:45:00Z", "--until", "2026-10-25T12:00:00Z"]
    done = pycron("next", "backup", *until, env=env)
    assert done.stdout == ""
    assert "backup: on 2026-10-25 02:30 came twice" in done.stderr


def test_jobs_are_merged_in_the_order_of_time(env: dict[str, str]) -> None:
    """Without names all enabled jobs are shown, as many due instants in all as are wanted."""
    found = asked("--from", "2026-01-01T00:00:00Z", "-n", "7", env=env)
    assert [(item["job"], item["due"]) for item in found] == [
        ("backup", "2026-01-01T01:30:00Z"),
        ("poll", "2026-01-01T06:00:00Z"),
        ("poll", "2026-01-01T12:00:00Z"),
        ("noon", "2026-01-01T17:00:00Z"),
        ("poll", "2026-01-01T18:00:00Z"),
        ("poll", "2026-01-02T00:00:00Z"),
        ("backup", "2026-01-02T01:30:00Z"),
    ]


def test_ten_are_shown_or_all_until_an_instant(env: dict[str, str]) -> None:
    """The usual number is ten; --until gives the bound instead, both ends as documented."""
    assert len(asked(env=env)) == 10
    start = "2026-01-01T00:00:00Z"
    found = asked("poll", "--from", start, "--until", "2026-01-06T00:00:00Z", env=env)
    assert len(found) == 20
    assert found[-1]["due"] == "2026-01-06T00:00:00Z"
    assert len(asked("poll", "--from", start, "--until", "5d", "-n", "3", env=env)) == 3


def test_a_bound_that_is_reached_is_said(env: dict[str, str]) -> None:
    """An endless answer is cut with a note, unless all of it is asked for."""
    window = ["-e", "* * * * * *", "--from", "2026-01-01", "--until", "2026-01-01 03:00"]
    done = pycron("next", "--json", *window, env=env)
    assert len(json.loads(done.stdout)) == 10_000
    assert "only the first 10000 are shown" in done.stderr
    done = pycron("next", "--json", "-n", "0", *window, env=env)
    assert len(json.loads(done.stdout)) == 10_800
    assert done.stderr == ""


def test_a_named_job_is_shown_even_if_it_is_disabled(env: dict[str, str]) -> None:
    """What it would do is what one wants to see before it is enabled; the note says what it is."""
    found = asked("off", "-n", "1", "--from", "2026-01-01T00:30:00Z", env=env)
    assert [(item["due"], item["note"]) for item in found] == [
        ("2026-01-01T01:00:00Z", "the job is disabled")
    ]


def test_a_job_without_due_instants_says_why(env: dict[str, str]) -> None:
    """Neither a startup job nor a one-off that is past is an error."""
    done = pycron("next", "boot", "past", env=env)
    assert "boot is due whenever the daemon or the machine starts" in done.stderr
    assert "nothing is due" in done.stderr


def test_an_unknown_job_has_a_near_one(env: dict[str, str]) -> None:
    """The exit code is 2, and the name that was probably meant is there."""
    done = pycron("next", "bakup", env=env, check=2)
    assert "there is no job 'bakup'" in done.stderr
    assert "did you mean 'backup'?" in done.stderr


def test_a_bad_crontab_is_refused(tmp_path: Path) -> None:
    """P7: every fault with its line, exit code 78."""
    (tmp_path / "crontab.toml").write_text('[jobs.a]\ncommand = "x"\noverlpa = "skip"\n')
    done = pycron("next", env=environment(tmp_path), check=78)
    assert f"{tmp_path}/crontab.toml:3: jobs.a.overlpa:" in done.stderr


def test_a_repeated_local_hour_can_be_told_apart(env: dict[str, str]) -> None:
    """The offset says which of two equal readings is meant."""
    window = ["-e", "*/30 2 * * *", "--tz", "Europe/Berlin", "--from", "2026-10-24T23:00:00Z"]
    found = asked(*window, "-n", "4", env=env)
    assert [item["local"] for item in found[:2]] == [
        "2026-10-25T02:00:00+02:00",
        "2026-10-25T02:30:00+02:00",
    ]


def test_an_interval_counts_from_where_the_ledger_says(env: dict[str, str], tmp_path: Path) -> None:
    """B29: what is shown is the beat that the daemon keeps across restarts."""
    anchor = datetime(2026, 1, 1, 0, 17, tzinfo=UTC)
    job = load_crontab(tmp_path / "crontab.toml").jobs["poll"]
    (tmp_path / "state").mkdir()
    ledger = SqliteLedger.open(tmp_path / "state" / "ledger.sqlite", now=anchor)
    cursor = Cursor("poll", fingerprint(job), 0, anchor, anchor, anchor=anchor)
    ledger.write([SetCursor(cursor)], durable=True)
    ledger.close()
    found = asked("poll", "--from", "2026-01-01T07:00:00Z", "-n", "2", env=env)
    assert [item["due"] for item in found] == ["2026-01-01T12:17:00Z", "2026-01-01T18:17:00Z"]
    assert found[0]["note"] is None


SPREAD = """\
timezone = "Europe/Berlin"
[defaults]
jitter = "10m"
[jobs.backup]
schedule = "30 2 * * *"
command = "true"
[jobs.quarters]
every = "15m"
align = "hour"
command = "true"
jitter = "0s"
[jobs.at-once]
every = "6h"
offset = "0s"
command = "true"
jitter = "0s"
[jobs.daily]
every = "1d"
align = "day"
offset = "2h30m"
command = "true"
jitter = "800ms"
"""


@pytest.fixture
def spread_env(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose crontab has jitter, grids and offsets."""
    (tmp_path / "crontab.toml").write_text(SPREAD)
    return environment(tmp_path)


def test_jitter_is_shown_as_such(spread_env: dict[str, str]) -> None:
    """P1: the instant is the one that counts, and how much of it is jitter stands with it."""
    by = spread(timedelta(minutes=10), os.uname().nodename, "backup")
    whole = format_duration(by - timedelta(microseconds=by.microseconds))
    before, moved = asked("backup", "--from", "2026-03-27T12:00:00Z", "-n", "2", env=spread_env)
    assert datetime.fromisoformat(before["due"]) == datetime(2026, 3, 28, 1, 30, tzinfo=UTC) + by
    assert (before["note"], before["jitter"]) == (f"jitter +{whole}", by.total_seconds())
    assert datetime.fromisoformat(moved["due"]) == datetime(2026, 3, 29, 1, 0, tzinfo=UTC) + by
    assert (moved["note"], moved["jitter"]) == (f"jitter +{whole}; {MOVED}", by.total_seconds())
    (fold,) = asked("backup", "--from", "2026-10-25T01:00:00Z", "-n", "1", env=spread_env)
    assert datetime.fromisoformat(fold["due"]) == datetime(2026, 10, 26, 1, 30, tzinfo=UTC) + by


def test_an_aligned_interval_needs_no_ledger(spread_env: dict[str, str]) -> None:
    """Nothing that has happened moves it: there is no "as if"."""
    found = asked("quarters", "--from", "2026-01-05T10:03:20Z", "-n", "2", env=spread_env)
    assert [(item["due"], item["note"], item["jitter"]) for item in found] == [
        ("2026-01-05T10:15:00Z", None, None),
        ("2026-01-05T10:30:00Z", None, None),
    ]


def test_an_aligned_day_says_what_the_clocks_left_out(spread_env: dict[str, str]) -> None:
    """A day on which its time does not come is told, with the reason; jitter does not hide it."""
    by = spread(timedelta(milliseconds=800), os.uname().nodename, "daily")
    (item,) = asked("daily", "--from", "2026-03-28T12:00:00Z", "-n", "1", env=spread_env)
    assert datetime.fromisoformat(item["due"]) == datetime(2026, 3, 30, 0, 30, tzinfo=UTC) + by
    assert item["note"] == f"jitter +{format_duration(by)}"
    (text,) = item["dropped"]
    assert text.startswith("on 2026-03-29 02:30 did not come")


def test_what_runs_at_once_is_shown_from_the_start(spread_env: dict[str, str]) -> None:
    """An interval that begins when it is first seen would be due now, were it seen now."""
    found = asked("at-once", "--from", "2026-01-05T10:03:20Z", "-n", "2", env=spread_env)
    assert [item["due"] for item in found] == ["2026-01-05T10:03:20Z", "2026-01-05T16:03:20Z"]
    assert found[0]["note"] == "as if it began now: it has not run yet"


def test_a_ledger_that_cannot_be_read_is_a_warning(env: dict[str, str], tmp_path: Path) -> None:
    """P8: the schedule can be told without it."""
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "ledger.sqlite").write_bytes(b"junk" * 1000)
    done = pycron("next", "poll", "-n", "1", "--from", "2026-01-01T00:00:00Z", env=env)
    assert "2026-01-01 07:00:00+01:00" in done.stdout
    assert "warning: " in done.stderr


@needs_setpriv
def test_a_ledger_of_another_user_is_told_of(env: dict[str, str], tmp_path: Path) -> None:
    """P9: what an interval counts from is not known then, and that is said with the way out."""
    (tmp_path / "state").mkdir(mode=0o700)
    (tmp_path / "state" / "ledger.sqlite").write_bytes(b"")
    os.chown(tmp_path / "state", 65534, -1)
    done = pycron("next", "poll", "-n", "1", "--json", env=env, under=LOCKED_OUT)
    assert json.loads(done.stdout)[0]["note"] == "as if it began now: the ledger cannot be read"
    assert done.stderr == (
        f"pycron: warning: you may not read the ledger {tmp_path}/state/ledger.sqlite; "
        f"be {pwd.getpwuid(65534).pw_name} or root for that, or name another --state-dir\n"
    )


def test_the_table_for_a_pipe(env: dict[str, str]) -> None:
    """One line for each due instant in the zone of its job, which is printed."""
    start = ["--from", "2026-03-28T12:00:00Z", "-n", "2"]
    assert pycron("next", "backup", "noon", *start, env=env).stdout.splitlines() == [
        "DUE                        ZONE              JOB     NOTE",
        "2026-03-28 12:00:00-04:00  America/New_York  noon",
        f"2026-03-29 03:00:00+02:00  Europe/Berlin     backup  {MOVED}",
    ]
    shown = pycron("next", "backup", "--tz", "UTC", *start, env=env).stdout.splitlines()
    assert shown[1].startswith("2026-03-29 01:00:00+00:00  UTC ")


def test_the_host_zone_is_printed(tmp_path: Path) -> None:
    """B14: an expression without a zone is in the host's, and the answer says which that is."""
    env = environment(tmp_path, TZ="Asia/Kathmandu")
    (item,) = asked("-e", "0 12 * * *", "--from", "2026-01-01T00:00:00Z", "-n", "1", env=env)
    assert (item["timezone"], item["due"]) == ("Asia/Kathmandu", "2026-01-01T06:15:00Z")


def test_a_narrow_terminal_shows_all_that_matters(env: dict[str, str]) -> None:
    """At 60 columns the instant, the zone and the job are whole and the note is below."""
    start = ["--from", "2026-03-28T12:00:00Z", "-n", "2"]
    text = without_colour(on_terminal("next", "backup", *start, env=env, columns=60))
    assert text.splitlines() == [
        "DUE                        ZONE           JOB",
        "2026-03-29 03:00:00+02:00  Europe/Berlin  backup",
        "    moved from 02:30: the clocks went forward from 02:00 to",
        "    03:00 (CET to CEST)",
        "2026-03-30 02:30:00+02:00  Europe/Berlin  backup",
    ]
    assert "IN" in without_colour(on_terminal("next", env=env, columns=60)).splitlines()[0].split()


def test_next_on_a_narrow_terminal(env: dict[str, str], tmp_path: Path) -> None:
    """Where there is no room for a long zone its offset tells it; no line is longer than that."""
    (tmp_path / "crontab.toml").write_text(
        '[jobs.move-all-of-it-elsewhere]\nschedule = "30 2 * * *"\ncommand = "true"\n'
        'timezone = "America/Argentina/Buenos_Aires"\n'
    )
    lines = without_colour(on_terminal("next", "-n", "2", env=env, columns=60)).splitlines()
    assert lines[0].split() == ["DUE", "IN", "JOB", "NOTE"]
    assert lines[1].split()[1] == "02:30-03:00"
    assert max(map(len, lines)) <= 60


def test_the_distance_is_shown_when_asked_from_now(env: dict[str, str]) -> None:
    """From another instant it would only mislead, so the column is not there then."""
    assert "  IN  " in pycron("next", env=env).stdout.splitlines()[0]
    assert "  IN  " not in pycron("next", "--from", "2026-01-01", env=env).stdout.splitlines()[0]


def test_many_jobs_are_merged_soon(tmp_path: Path) -> None:
    """B64: all of 2000 jobs are looked at for the first ten due instants, each once."""
    jobs = (
        f'[jobs.j{number}]\nschedule = "{number % 60} {number // 60 % 24} * * *"\n'
        'command = "true"\n'
        for number in range(2000)
    )
    (tmp_path / "crontab.toml").write_text('timezone = "UTC"\n' + "".join(jobs))
    found = asked("--from", "2026-01-01T00:00:00Z", "-n", "3", env=environment(tmp_path))
    assert [item["job"] for item in found] == ["j1", "j1441", "j2"]
    first = datetime.fromisoformat(found[0]["due"])
    assert first == datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=1)


def test_instants_are_read_in_the_zone_of_the_jobs_that_are_named(tmp_path: Path) -> None:
    """As what is shown; where they have several, in that of the machine, and it is said which."""
    path = tmp_path / "crontab.toml"
    job = '[jobs.{0}]\nschedule = "30 2 * * *"\ntimezone = "{1}"\ncommand = "true"\n'
    zones = {"a": "Europe/Berlin", "b": "Europe/Berlin", "c": "America/New_York"}
    path.write_text("".join(job.format(*each) for each in zones.items()))
    between = ("--from", "2026-12-01 02:00", "--until", "2026-12-01 03:00")
    env = {**environment(tmp_path), "TZ": "UTC"}
    both = pycron("next", "a", "b", *between, "--json", env=env)
    assert [item["due"] for item in json.loads(both.stdout)] == ["2026-12-01T01:30:00Z"] * 2
    done = pycron("next", "a", "c", *between, env=env)
    range_ = "after 2026-12-01 02:00:00+00:00 until 2026-12-01 03:00:00+00:00"
    assert done.stderr == f"pycron: nothing is due {range_}\n"


def test_a_task_is_no_job(env: dict[str, str]) -> None:
    """Its name is known, and that it is none of a job."""
    done = pycron("next", "task:7", env=env, check=2)
    assert "task:7 names a submitted task, and this command takes jobs alone" in done.stderr
    assert "; pycron tasks 7 tells of it\n" in done.stderr
