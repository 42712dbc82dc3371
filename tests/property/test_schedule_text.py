"""Text of any kind is read or refused, never the cause of another error (P7)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from crond_py.errors import ScheduleError
from crond_py.schedule import parse_duration, parse_schedule
from tests.unit.schedule.cases import relaxed


def refusal(read: Callable[[], object]) -> ScheduleError | None:
    """Return the error that reading ends in, if it does; its text must be fit for a terminal."""
    try:
        read()
    except ScheduleError as error:
        if error.field and str(error).isascii() and str(error).isprintable():
            return error
        raise
    return None


PIECES = st.sampled_from(
    [
        *"0123456789*/-,#LHW?@~ \t\n+._:",
        "MON",
        "jan",
        "5#3",
        "L5",
        "H(0-29)",
        "*/5",
        "60",
        "٣",
        "\0",
    ]
)
TEXTS = st.text(max_size=40) | st.lists(PIECES, max_size=20).map("".join)
ALMOST = st.lists(st.lists(PIECES, min_size=1, max_size=4).map("".join), min_size=4, max_size=7)


@settings(relaxed, max_examples=2000)
@given(TEXTS | ALMOST.map(" ".join), st.sampled_from(["UTC", "Europe/Berlin"]))
def test_any_text_is_read_or_refused(text: str, zone: str) -> None:
    """P7: no text makes the reader raise anything but its own error, and what it takes is due."""
    error = refusal(lambda: parse_schedule(text, zone, hash_key="job"))
    if error is None:
        start = datetime(2024, 1, 1, tzinfo=UTC)
        due = parse_schedule(text, zone, hash_key="job").next_after(start)
        assert due is not None
        assert due > start


@settings(relaxed, max_examples=300)
@given(st.text(max_size=30))
def test_any_zone_name_is_found_or_refused(text: str) -> None:
    """P7: no text makes the search for a zone raise anything but its own error."""
    error = refusal(lambda: parse_schedule("0 0 * * *", text))
    assert error is None or error.field == "timezone"


@settings(relaxed, max_examples=500)
@given(st.text(alphabet="0123456789.hmsdwu -+e٣", max_size=20) | st.text(max_size=20))
def test_any_duration_is_read_or_refused(text: str) -> None:
    """P7: no text makes the reader of durations raise anything but its own error."""
    error = refusal(lambda: parse_duration(text))
    assert error is None or error.field == "duration"
    assert error is not None or parse_duration(text) >= timedelta(0)
