"""How instants and spans are written on the command line and shown."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from crond_py.cli.times import (
    brief_text,
    local_text,
    parse_instant,
    relative_text,
    span_text,
    tz_fault,
    zone_of,
)
from crond_py.errors import ScheduleError

BERLIN = ZoneInfo("Europe/Berlin")
NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("now", "2026-03-01T12:00:00+00:00"),
        ("2026-03-28", "2026-03-27T23:00:00+00:00"),
        ("2026-03-28 02:30", "2026-03-28T01:30:00+00:00"),
        ("2026-03-28T02:30:15", "2026-03-28T01:30:15+00:00"),
        (" 2026-07-01 00:00 ", "2026-06-30T22:00:00+00:00"),
        ("2026-03-28T02:30:00Z", "2026-03-28T02:30:00+00:00"),
        ("2026-03-28T02:30:00.5+05:45", "2026-03-27T20:45:00.500000+00:00"),
        ("2d", "2026-02-27T12:00:00+00:00"),
        ("1h30m", "2026-03-01T10:30:00+00:00"),
        # It is 13:00 in Berlin.
        ("10:20", "2026-03-01T09:20:00+00:00"),
        ("8:05:30", "2026-03-01T07:05:30+00:00"),
        ("13:00", "2026-03-01T12:00:00+00:00"),
        ("13:01", "2026-02-28T12:01:00+00:00"),
        ("yesterday", "2026-02-27T23:00:00+00:00"),
        ("today", "2026-02-28T23:00:00+00:00"),
        ("Yesterday 23:30", "2026-02-28T22:30:00+00:00"),
        ("today 18:00", "2026-03-01T17:00:00+00:00"),
        ("tomorrow", "2026-03-01T23:00:00+00:00"),
    ],
)
def test_an_instant_is_read(text: str, instant: str) -> None:
    """A reading without an offset is one in the zone; a span or a time alone lies back from now."""
    assert parse_instant(text, BERLIN, NOW, span_sign=-1).isoformat() == instant


def test_a_span_lies_ahead_where_that_is_meant() -> None:
    """``--from 2d`` is the day after tomorrow, ``--since 2d`` the day before yesterday."""
    assert parse_instant("2d", UTC, NOW, span_sign=1) == NOW + timedelta(days=2)


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("13:00", "2026-03-01T12:00:00+00:00"),
        ("13:01", "2026-03-01T12:01:00+00:00"),
        ("10:20", "2026-03-02T09:20:00+00:00"),
        ("yesterday", "2026-02-27T23:00:00+00:00"),
    ],
)
def test_a_time_alone_lies_ahead_where_that_is_meant(text: str, instant: str) -> None:
    """``--until 06:00`` of what is to come is the next, as that of ``pycron at`` is."""
    assert parse_instant(text, BERLIN, NOW, span_sign=1).isoformat() == instant


@pytest.mark.parametrize(
    "text",
    ["", "yester", "2026-13-01", "20260328", "20260328T023000", "24:30", "2026-03-28 25:00",
     "10:2", "today 25:00", "yesterday noon", "today10:00", "99999999d", "2026-W13-6",
     "0001-01-01", "2d ago", "-2d"],
)  # fmt: skip
def test_what_is_no_instant_is_refused(text: str) -> None:
    """Never a guess: the error shows what can be written."""
    with pytest.raises(ScheduleError, match="is not an instant; write"):
        parse_instant(text, BERLIN, NOW, span_sign=-1)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0ms"), (0.0034, "3ms"), (0.9994, "999ms"), (4.24, "4.2s"), (10, "10s"), (59.6, "1m"),
        (60, "1m"), (61, "1m 1s"), (3600, "1h"), (3601, "1h"), (11_520, "3h 12m"),
        (86_400, "1d"), (100_000, "1d 3h"), (-75, "-1m 15s"),
    ],
)  # fmt: skip
def test_a_span_is_shown_in_two_units(seconds: float, text: str) -> None:
    """As much as a person wants to know, with the largest unit first."""
    assert span_text(timedelta(seconds=seconds)) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "now"), (0.4, "now"), (-0.4, "now"), (3, "in 3s"), (-3, "3s ago"), (11_520, "in 3h 12m"),
     (-86_400, "1d ago")],
)  # fmt: skip
def test_distance_from_now(seconds: float, text: str) -> None:
    """Which way it lies is said in words."""
    assert relative_text(NOW + timedelta(seconds=seconds), NOW) == text


def test_local_text_has_the_offset() -> None:
    """An instant that is shown can be read back as what it was."""
    assert local_text(NOW, BERLIN) == "2026-03-01 13:00:00+01:00"
    assert datetime.fromisoformat(local_text(NOW, BERLIN)) == NOW


@pytest.mark.parametrize(
    ("instant", "text"),
    [
        ("2026-03-01T12:00:00Z", "03-01 13:00"),
        ("2026-03-01T12:00:07.9Z", "03-01 13:00:07"),
        ("2026-12-31T22:59:00Z", "12-31 23:59"),
        ("2026-12-31T23:00:00Z", "2027-01-01 00:00"),
        ("2025-12-31T22:59:00Z", "2025-12-31 23:59"),
        # The clocks of Berlin go back from 03:00 to 02:00 at 01:00 UTC.
        ("2026-10-25T00:30:00Z", "10-25 02:30+02:00"),
        ("2026-10-25T01:30:00Z", "10-25 02:30+01:00"),
        ("2026-10-25T02:00:00Z", "10-25 03:00"),
    ],
)
def test_a_brief_instant_leaves_out_what_goes_without_saying(
    monkeypatch: pytest.MonkeyPatch, instant: str, text: str
) -> None:
    """The present year, no seconds, and the offset unless the reading comes twice."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    shown = brief_text(datetime.fromisoformat(instant), NOW, BERLIN)
    assert shown == text


@pytest.mark.parametrize(
    ("host", "text"),
    [
        ("Europe/Berlin", "07-01 14:00"),
        ("Europe/Paris", "07-01 14:00"),
        ("UTC", "07-01 14:00+02:00"),
        ("Africa/Lagos", "07-01 14:00+02:00"),
    ],
)
def test_an_instant_of_another_zone_keeps_its_offset(
    host: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else it is read as one of this machine, whose clocks show another time then."""
    monkeypatch.setenv("TZ", host)
    assert brief_text(datetime(2026, 7, 1, 12, tzinfo=UTC), NOW, BERLIN) == text


@pytest.mark.parametrize(
    "variable",
    [None, "", "Europe/Berlin", ":Europe/Berlin", "UTC", "EST5EDT", "/etc/localtime",
     "/usr/share/zoneinfo/Asia/Tokyo"],
)  # fmt: skip
def test_a_good_tz_is_no_fault(variable: str | None) -> None:
    """Not set, empty, or the name of a zone in any of its spellings."""
    assert tz_fault(variable, "UTC") == ""


@pytest.mark.parametrize("variable", ["Europe/Berln", "Mars/Base", "CET-1CEST", "/nowhere", "\x1b"])
def test_a_bad_tz_is_told_with_the_zone_that_counts(variable: str) -> None:
    """Nobody has to wonder why times are off."""
    fault = tz_fault(variable, "Asia/Tokyo")
    assert fault.startswith(f"TZ={variable!r} in the environment names no time zone")
    assert fault.endswith("Asia/Tokyo")


def test_a_zone_that_is_none_has_a_near_one() -> None:
    """B57: a misspelt zone is refused with the right name."""
    with pytest.raises(ScheduleError, match="did you mean Europe/Berlin"):
        zone_of("Europe/Berln")
