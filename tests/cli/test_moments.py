"""The times that ``pycron at`` is given, as people write them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from crond_py.cli.moments import join_moment, moment_values
from crond_py.cli.times import join_duration
from crond_py.errors import ScheduleError

NOON = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)  # 13:00 in Berlin, a Sunday


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("18:00", "2026-11-01T17:00:00Z"),
        ("13:00:01", "2026-11-01T12:00:01Z"),
        ("13:00", "2026-11-02T12:00:00Z"),  # it shows that now; the next time is meant
        ("7:30", "2026-11-02T06:30:00Z"),
        (" 00:00 ", "2026-11-01T23:00:00Z"),
    ],
)
def test_a_bare_time_is_the_next_that_the_clock_shows(text: str, at: str) -> None:
    """Later today, or else tomorrow, in the zone."""
    assert moment_values(text, "Europe/Berlin", NOON) == {"at": at}


@pytest.mark.parametrize(
    ("now", "text", "at"),
    [
        # On 2026-10-25 the clocks of Berlin go from 03:00+02:00 back to 02:00+01:00.
        ("2026-10-25T00:10:00+00:00", "02:30", "2026-10-25T00:30:00Z"),
        ("2026-10-25T00:40:00+00:00", "02:30", "2026-10-25T01:30:00Z"),
        ("2026-10-25T01:40:00+00:00", "02:30", "2026-10-26T01:30:00Z"),
        # On 2027-03-28 they go from 02:00+01:00 to 03:00+02:00.
        ("2027-03-28T00:10:00+00:00", "02:30", "2027-03-28T01:00:00Z"),
    ],
)
def test_a_bare_time_where_the_clocks_change(now: str, text: str, at: str) -> None:
    """A time that comes twice comes twice; one that is jumped over is due after the jump."""
    values = moment_values(text, "Europe/Berlin", datetime.fromisoformat(now))
    assert values == {"at": at}


@pytest.mark.parametrize("text", ["today 02:45", "2026-10-25 02:45", "2026-10-25T02:45"])
def test_a_reading_that_comes_again_has_not_passed(text: str) -> None:
    """In a repeated hour its second time is meant once the first is over, as with a bare time."""
    first = {"at": "2026-10-25T02:45:00", "timezone": "Europe/Berlin"}
    for now, values in (
        ("2026-10-25T00:40:00+00:00", first),  # 02:40+02:00
        ("2026-10-25T00:45:00+00:00", first),
        ("2026-10-25T00:50:00+00:00", {"at": "2026-10-25T01:45:00Z"}),
        ("2026-10-25T01:45:00+00:00", {"at": "2026-10-25T01:45:00Z"}),
    ):
        assert moment_values(text, "Europe/Berlin", datetime.fromisoformat(now)) == values
    with pytest.raises(ScheduleError, match="has passed"):
        moment_values(text, "Europe/Berlin", datetime(2026, 10, 25, 1, 46, tzinfo=UTC))
    with pytest.raises(ScheduleError, match="has passed"):  # 02:45+02:00
        moment_values(
            "2026-10-25T02:45+02:00", "Europe/Berlin", datetime(2026, 10, 25, 1, tzinfo=UTC)
        )


def test_a_reading_that_never_comes_does_not_come_again() -> None:
    """What the clocks have jumped over has passed soon after that."""
    after = datetime(2027, 3, 28, 2, 0, tzinfo=UTC)
    with pytest.raises(ScheduleError, match="has passed"):
        moment_values("today 02:30", "Europe/Berlin", after)


@pytest.mark.parametrize("text", ["2027-03-28 02:30", "tomorrow 02:30", "02:30"])
def test_that_the_clocks_jump_over_a_time_is_said(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """When it is due then is told by the answer; of a time that comes nothing is said."""
    day = 27 if text.startswith("tomorrow") else 28
    now = datetime(2027, 3, day, 0, 10, tzinfo=UTC)
    moment_values(text, "Europe/Berlin", now)
    said = capsys.readouterr().err
    assert said == "pycron: the clocks in Europe/Berlin jump over 2027-03-28 02:30\n"
    moment_values("03:30", "Europe/Berlin", now)
    moment_values("2026-10-25 02:30", "Europe/Berlin", datetime(2026, 10, 1, tzinfo=UTC))
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("today 18:00", "2026-11-01T18:00:00"),
        ("tomorrow 07:30", "2026-11-02T07:30:00"),
        ("Tomorrow  7:30:15", "2026-11-02T07:30:15"),
        ("2026-12-24 18:00", "2026-12-24T18:00:00"),
        ("2026-12-24T18:00:30.5", "2026-12-24T18:00:30.500000"),
        ("2026-12-24", "2026-12-24T00:00:00"),
    ],
)
def test_a_reading_is_left_to_the_daemon_with_its_zone(text: str, at: str) -> None:
    """So that it is read by the same rules as a job's."""
    assert moment_values(text, "Europe/Berlin", NOON) == {"at": at, "timezone": "Europe/Berlin"}


def test_tomorrow_is_that_of_the_zone() -> None:
    """At 20:00 UTC it is tomorrow in Tokyo already."""
    evening = datetime(2026, 11, 1, 20, 0, tzinfo=UTC)
    assert moment_values("tomorrow 07:30", "Asia/Tokyo", evening)["at"] == "2026-11-03T07:30:00"


@pytest.mark.parametrize("text", ["2026-12-24T18:00:00+05:30", "2026-12-24T18:00:00+00:00"])
def test_an_offset_goes_before_the_zone(text: str) -> None:
    """Then there is nothing more to be known."""
    assert moment_values(text, "Europe/Berlin", NOON) == {"at": text}


def test_now_is_at_once() -> None:
    """It is a time like any other."""
    assert moment_values("now", "UTC", NOON) == {"in": "0s"}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("10m", "for a time from now: pycron in 10m"),
        ("25:00", 'write "18:00", "tomorrow 07:30", "2026-12-24 18:00"'),
        ("18:61", "is no time of the clock"),
        ("tomorrow", "is no time of the clock"),
        ("tomorrow noon", "is no time of the clock"),
        ("20261224T180000", "is no time of the clock"),
        ("2026-13-24 18:00", "is no time of the clock"),
        ("", "is no time of the clock"),
        ("today 12:59", "2026-11-01 12:59:00+01:00 has passed, 1m ago"),
        ("2020-01-01", "has passed"),
        ("2026-11-01T11:59:59Z", "has passed"),
    ],
)
def test_what_is_no_time_to_come(text: str, words: str) -> None:
    """The message says what can be written, or how long ago it was."""
    with pytest.raises(ScheduleError, match=words.replace("(", "[(]").replace("+", "[+]")):
        moment_values(text, "Europe/Berlin", NOON)


def test_a_time_past_the_last_year_in_utc_is_told() -> None:
    """What cannot be put in UTC is refused as what is no time."""
    with pytest.raises(ScheduleError, match="is no time of the clock"):
        moment_values("9999-12-31T23:59", "America/New_York", NOON)


def test_an_unknown_zone_is_told() -> None:
    """As everywhere, with the nearest name."""
    with pytest.raises(ScheduleError, match="Europe/Berlin"):
        moment_values("18:00", "Europe/Berln", NOON)


@pytest.mark.parametrize(
    ("when", "words", "joined"),
    [
        ("tomorrow", ["07:30", "cmd"], ("tomorrow 07:30", ["cmd"])),
        (
            "2026-12-24",
            ["18:00:00+01:00", "cmd", "-x"],
            ("2026-12-24 18:00:00+01:00", ["cmd", "-x"]),
        ),
        ("2026-12-24", ["cmd", "18:00"], ("2026-12-24", ["cmd", "18:00"])),
        ("18:00", ["19:00", "cmd"], ("18:00", ["19:00", "cmd"])),
        ("2026-12-24", ["18:00"], ("2026-12-24", ["18:00"])),
        ("18:00", ["tomorrow", "cmd"], ("tomorrow 18:00", ["cmd"])),
        ("18:00", ["tomorrow"], ("18:00", ["tomorrow"])),
    ],
)
def test_a_day_and_a_time_may_be_two_words(
    when: str, words: list[str], joined: tuple[str, list[str]]
) -> None:
    """Nobody has to quote them."""
    assert join_moment(when, words) == joined


@pytest.mark.parametrize(
    ("span", "words", "joined"),
    [
        ("1h", ["30m", "cmd"], ("1h30m", ["cmd"])),
        ("1d", ["2h", "30m", "cmd", "5m"], ("1d2h30m", ["cmd", "5m"])),
        ("1h", ["30m"], ("1h", ["30m"])),
        ("30m", ["1h", "cmd"], ("30m", ["1h", "cmd"])),
        ("1h", ["30", "cmd"], ("1h", ["30", "cmd"])),
    ],
)
def test_a_duration_may_be_several_words(
    span: str, words: list[str], joined: tuple[str, list[str]]
) -> None:
    """As pycron itself writes one."""
    assert join_duration(span, words) == joined
