"""Durations as text, read and written."""

from __future__ import annotations

from datetime import timedelta

import pytest

from crond_py.errors import ScheduleError
from crond_py.schedule import format_duration, parse_duration

MICROSECOND = timedelta(microseconds=1)


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("90s", timedelta(seconds=90)),
        ("1h30m", timedelta(hours=1, minutes=30)),
        ("2d", timedelta(days=2)),
        ("1w", timedelta(weeks=1)),
        ("250ms", timedelta(milliseconds=250)),
        ("3us", timedelta(microseconds=3)),
        ("1w2d3h4m5s6ms7us", timedelta(7 + 2, 5, 7, 6, 4, 3)),
        ("0s", timedelta(0)),
        ("0d0s", timedelta(0)),
        ("007s", timedelta(seconds=7)),
        ("1h 30m", timedelta(hours=1, minutes=30)),
        (" 5 s ", timedelta(seconds=5)),
        ("1.5h", timedelta(minutes=90)),
        ("0.1s", timedelta(milliseconds=100)),
        ("0.000001s", MICROSECOND),
        ("1.000000000s", timedelta(seconds=1)),
        ("999999999d", timedelta(days=999_999_999)),
        ("36525d", timedelta(days=36525)),
    ],
)
def test_read(text: str, duration: timedelta) -> None:
    """A number and a unit, or several from the largest to the smallest."""
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   ",
        "5",
        "1.5",
        "s",
        "-1s",
        "+1s",
        "1h-30m",
        "1e400s",
        "1e3s",
        "infs",
        "nans",
        "1_000s",
        "1,5s",
        ".5s",
        "5.s",
        "1.2.3s",
        "1h30",
        "30m1h",
        "1m1m",
        "1ms1s",
        "5S",
        "5M",
        "1H",
        "5min",
        "2 hours",
        "1y",
        "1mo",
        "5µs",
        "0.0000001s",
        "0.5us",
        "1000000000d",
        "999999999999w",
        "9" * 99 + "s",
        "9" * 5000 + "s",
        "1s" * 100,
        "\u0665s",
        "5\u00a0s",
        "\uff15s",
        "5s\n",
        "5\ts",
        "5s\0",
        "1h\u200b30m",
        "PT5M",
        "00:05",
        "5 s s",
    ],
)
def test_refused(text: str) -> None:
    """P7: what is no duration is refused, with the field and the units there are."""
    with pytest.raises(ScheduleError) as caught:
        parse_duration(text)
    assert caught.value.field == "duration"
    assert "ms" in caught.value.allowed
    assert str(caught.value).isascii()
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("value", [5, None, 1.5, True, timedelta(seconds=5), b"5s"])
def test_no_text(value: object) -> None:
    """P7: something that is no text is refused in the same way."""
    with pytest.raises(ScheduleError):
        parse_duration(value)  # type: ignore[arg-type]  # that is the point


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("5", ["without a unit"]),
        ("-1s", ["sign"]),
        ("5min", ["'min'", "h, m, s"]),
        ("30m1h", ["larger first"]),
        ("0.5us", ["finer than a microsecond"]),
        ("1000000000d", ["longer than"]),
    ],
)
def test_the_reason_is_named(text: str, words: list[str]) -> None:
    """A refusal says what is wrong with the text."""
    with pytest.raises(ScheduleError) as caught:
        parse_duration(text)
    assert [word for word in words if word not in str(caught.value)] == []


@pytest.mark.parametrize(
    ("duration", "text"),
    [
        (timedelta(0), "0s"),
        (timedelta(seconds=15), "15s"),
        (timedelta(seconds=90), "1m30s"),
        (timedelta(minutes=90), "1h30m"),
        (timedelta(hours=12), "12h"),
        (timedelta(hours=36), "1d12h"),
        (timedelta(days=7), "7d"),
        (timedelta(days=90), "90d"),
        (timedelta(milliseconds=1500), "1s500ms"),
        (timedelta(microseconds=1), "1us"),
        (timedelta(days=1, microseconds=1), "1d1us"),
        (timedelta.max, "999999999d23h59m59s999ms999us"),
        (-timedelta(seconds=90), "-1m30s"),
    ],
)
def test_written(duration: timedelta, text: str) -> None:
    """The largest unit first, days at most, and none that is zero."""
    assert format_duration(duration) == text


@pytest.mark.parametrize(
    "duration",
    [timedelta(0), timedelta.max, *(13**n * MICROSECOND for n in range(18))],
    ids=str,
)
def test_there_and_back(duration: timedelta) -> None:
    """Reading gives back what was written."""
    assert parse_duration(format_duration(duration)) == duration
