"""What a change of the clocks did to a schedule, in words."""

from __future__ import annotations

import pytest

from crond_py.model import DstFold, DstGap
from crond_py.schedule import CronSchedule, parse_schedule
from tests.unit.schedule.walker import utc


def schedule(
    expression: str | list[str],
    zone: str = "America/New_York",
    gap: DstGap = DstGap.RUN,
    fold: DstFold = DstFold.FIRST,
) -> CronSchedule:
    """Return a cron schedule."""
    made = parse_schedule(expression, zone, dst_gap=gap, dst_fold=fold)
    assert isinstance(made, CronSchedule)
    return made


NEW_YORK = "the clocks went forward from 02:00 to 03:00 (EST to EDT)"
NEW_YORK_BACK = "the clocks went back from 02:00 to 01:00 (EDT to EST)"


@pytest.mark.parametrize(
    ("expression", "zone", "due", "text"),
    [
        ("30 2 * * *", "America/New_York", "2024-03-10T07:00Z", f"moved from 02:30: {NEW_YORK}"),
        (
            "*/20 2,3 * * *",  # a wildcard is never moved
            "America/New_York",
            "2024-03-10T07:00Z",
            "",
        ),
        (
            "0,15,45 2 * * *",
            "America/New_York",
            "2024-03-10T07:00Z",
            f"moved from 02:00 and 2 more: {NEW_YORK}",
        ),
        (
            "20 30 2 * * *",
            "America/New_York",
            "2024-03-10T07:00Z",
            f"moved from 02:30:20: {NEW_YORK}",
        ),
        ("30 2 * * *", "America/New_York", "2024-03-11T06:30Z", ""),
        ("0 0,12 * * *", "Pacific/Apia", "2011-12-30T10:00Z", ""),  # a dropped day moves nothing
        ("0 3 * * *", "America/New_York", "2024-03-10T07:00Z", ""),
        ("30 1 * * *", "America/New_York", "2024-11-03T05:30Z", ""),
        (
            "0 0 * * *",
            "America/Sao_Paulo",
            "2018-11-04T03:00Z",
            "moved from 00:00: the clocks went forward from 00:00 to 01:00 (-03 to -02)",
        ),
        (
            "15 2 * * *",
            "Australia/Lord_Howe",
            "2024-10-05T15:30Z",
            "moved from 02:15: the clocks went forward from 02:00 to 02:30 (+1030 to +11)",
        ),
        (
            "0 1 * * *",
            "America/St_Johns",
            "2010-03-14T03:31Z",
            "moved from 01:00: the clocks went forward from 00:01 to 01:01 (NST to NDT)",
        ),
    ],
)
def test_why_then(expression: str, zone: str, due: str, text: str) -> None:
    """An instant that a change moved is explained; any other needs no words."""
    assert schedule(expression, zone).explain(utc(due)) == text


def test_why_then_in_a_union() -> None:
    """Of several expressions only those that were moved are named."""
    several = schedule(["30 2 * * *", "0 3 * * *", "*/5 2 * * *", "45 2 * * *"])
    text = several.explain(utc("2024-03-10T07:00Z"))
    assert text == f"moved from 02:30 and 1 more: {NEW_YORK}"


@pytest.mark.parametrize(
    ("expression", "gap", "fold", "expected"),
    [
        (
            "30 1,2 * * *",
            DstGap.RUN,
            DstFold.FIRST,
            [
                (
                    "2024-11-03T06:00Z",
                    f"01:30 came twice and counted the first time only: {NEW_YORK_BACK}",
                )
            ],
        ),
        (
            "30 1,2 * * *",
            DstGap.SKIP,
            DstFold.SECOND,
            [
                ("2024-03-10T07:00Z", f"02:30 did not come: {NEW_YORK}"),
                (
                    "2024-11-03T06:00Z",
                    f"01:30 came twice and counted the second time only: {NEW_YORK_BACK}",
                ),
            ],
        ),
        ("30 1,2 * * *", DstGap.RUN, DstFold.BOTH, []),
        (
            "*/15 1,2 * * *",
            DstGap.RUN,
            DstFold.FIRST,
            [("2024-03-10T07:00Z", f"02:00 and 3 more did not come: {NEW_YORK}")],
        ),
        ("*/15 * * * *", DstGap.RUN, DstFold.FIRST, []),
        ("0 12 * * *", DstGap.SKIP, DstFold.FIRST, []),
    ],
)
def test_what_was_left_out_in_a_year(
    expression: str, gap: DstGap, fold: DstFold, expected: list[tuple[str, str]]
) -> None:
    """Each change of a year that left something out is told, with what and why."""
    cron = schedule(expression, gap=gap, fold=fold)
    found = list(cron.dropped(utc("2024-01-01T00:00Z"), utc("2025-01-01T00:00Z")))
    assert found == [(utc(instant), text) for instant, text in expected]


def test_a_dropped_day_is_told_with_its_dates() -> None:
    """A change too large to be made up for is told with the dates that it jumped."""
    cron = schedule("0 12 * * *", "Pacific/Apia")
    text = (
        "2011-12-30 12:00 did not come: the clocks went forward from "
        "2011-12-30 00:00 to 2011-12-31 00:00 (-10 to +14)"
    )
    found = list(cron.dropped(utc("2011-12-01T00:00Z"), utc("2012-03-01T00:00Z")))
    assert found == [(utc("2011-12-30T10:00Z"), text)]


def test_the_stretch_is_after_and_up_to() -> None:
    """A change at the start of a stretch is not told, one at its end is."""
    cron, change = schedule("30 1 * * *"), utc("2024-11-03T06:00Z")
    assert len(list(cron.dropped(utc("2024-11-03T05:59Z"), change))) == 1
    assert list(cron.dropped(change, utc("2024-11-04T06:00Z"))) == []
    assert list(cron.dropped(change, utc("2024-01-01T00:00Z"))) == []
