"""Failures that users of other schedulers reported, and what is right here."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime
from itertools import islice

import pytest

from crond_py.errors import ScheduleError
from crond_py.schedule import parse_schedule
from tests.unit.schedule.walker import utc


def following(expression: str, zone: str, start: str, number: int) -> list[datetime]:
    """Return the first instants of an expression after ``start``."""
    end = utc("2100-01-01T00:00Z")
    return list(islice(parse_schedule(expression, zone).occurrences(utc(start), end), number))


def instants(*texts: str) -> list[datetime]:
    """Return instants from their ISO texts."""
    return [utc(text) for text in texts]


@pytest.mark.parametrize("host", ["Europe/London", "UTC", "America/New_York", ":Asia/Tokyo", ""])
def test_the_hosts_clock_change_does_not_matter(host: str) -> None:
    """A job in UTC is due at its time on the night that the host's clocks go back (cronie 124)."""
    program = (
        "from datetime import datetime, UTC\n"
        "from crond_py.schedule import parse_schedule\n"
        "schedule = parse_schedule('30 1 * * *', 'UTC')\n"
        "instant = datetime(2022, 10, 29, 12, tzinfo=UTC)\n"
        "for _ in range(3):\n"
        "    instant = schedule.next_after(instant)\n"
        "    print(instant.isoformat())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"TZ": host},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == [
        "2022-10-30T01:30:00+00:00",
        "2022-10-31T01:30:00+00:00",
        "2022-11-01T01:30:00+00:00",
    ]


def test_three_jobs_around_two_in_the_morning() -> None:
    """Each of three jobs in UTC has its one time that night (cronie 124)."""
    for expression, time in (
        ("30 1 * * *", "01:30"),
        ("59 1 * * *", "01:59"),
        ("0 2 * * *", "02:00"),
    ):
        found = following(expression, "UTC", "2022-10-30T01:00Z", 2)
        assert found == instants(f"2022-10-30T{time}Z", f"2022-10-31T{time}Z")


def test_the_spring_night() -> None:
    """A daily job at 02:30 runs at 03:00 on the spring night (systemd 5595)."""
    found = following("30 2 * * *", "America/New_York", "2024-03-10T06:59:45Z", 2)
    assert found == instants("2024-03-10T07:00Z", "2024-03-11T06:30Z")


def test_one_each_monday() -> None:
    """In the week after the clocks went back a Monday job comes once (croniter 48)."""
    found = following("0 8 * * 1", "Europe/Amsterdam", "2017-10-16T12:00Z", 5)
    assert found == instants(
        "2017-10-23T06:00Z",
        "2017-10-30T07:00Z",
        "2017-11-06T07:00Z",
        "2017-11-13T07:00Z",
        "2017-11-20T07:00Z",
    )


def test_a_yearly_job_in_the_gap() -> None:
    """A time that one year does not have hangs nothing (node-cron 919)."""
    found = following("0 1 30 3 *", "Europe/Lisbon", "2024-11-15T00:00Z", 3)
    assert found == instants("2025-03-30T01:00Z", "2026-03-30T00:00Z", "2027-03-30T00:00Z")


def test_a_star_with_a_step_does_not_restrict() -> None:
    """Both day fields must match where one begins with a star, else either (croniter 41)."""
    assert following("0 16 */2 * 1", "UTC", "2025-01-01T00:00Z", 5) == instants(
        "2025-01-13T16:00Z",
        "2025-01-27T16:00Z",
        "2025-02-03T16:00Z",
        "2025-02-17T16:00Z",
        "2025-03-03T16:00Z",
    )
    assert following("0 16 1-31/2 * 1", "UTC", "2025-01-01T00:00Z", 5) == instants(
        "2025-01-01T16:00Z",
        "2025-01-03T16:00Z",
        "2025-01-05T16:00Z",
        "2025-01-06T16:00Z",
        "2025-01-07T16:00Z",
    )


@pytest.mark.parametrize("expression", ["0 0 30 2 *", "0 0 31 4 *", "0 0 */31 * MON#2"])
def test_a_day_that_never_comes(expression: str) -> None:
    """P7: it is refused with field and reason, at once (node-red-contrib-cron-plus 110)."""
    with pytest.raises(ScheduleError, match="can never fire") as caught:
        parse_schedule(expression, "UTC")
    assert caught.value.field == "day of month"


@pytest.mark.parametrize("host", ["UTC", "Asia/Kathmandu", "America/Los_Angeles"])
def test_the_hosts_zone_is_looked_up_each_time(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that moves to another zone is followed at once, a named zone never (systemd 8233)."""
    from crond_py.schedule import system_timezone

    monkeypatch.setenv("TZ", host)
    assert system_timezone() == host
    assert following("0 0 * * *", "Europe/Berlin", "2026-06-01T00:00Z", 1) == instants(
        "2026-06-01T22:00Z"
    )


def test_the_library_is_not_loaded_before_it_is_needed() -> None:
    """P4: a daemon without ``H`` starts without croniter, and without what only errors need."""
    program = (
        "import sys\n"
        "from crond_py.schedule import parse_schedule\n"
        "parse_schedule('0 0 * MAR THU', 'Europe/Berlin', hash_key='x')\n"
        "print(sorted({'croniter', 'dateutil', 'difflib', 'tzdata'} & set(sys.modules)))\n"
        "parse_schedule('H 0 * * *', 'Europe/Berlin', hash_key='x')\n"
        "print('croniter' in sys.modules)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == ["[]", "True"]
