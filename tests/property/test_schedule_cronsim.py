"""Schedules against cronsim, which others wrote to match Debian's cron, where it is right.

It is not asked where it is known to differ or to be wrong:

- six fields: it leaves clock changes alone, while here both forms follow the same rule;
- changes that are not of one hour at a full hour, where it can hang or go back;
- a range of one number with a step, which it takes for N/step: 5-5/10 is 5 alone;
- N/step in the day of week field, whose Sunday it can lose, and L5 and FRIL, which it refuses.
"""

from __future__ import annotations

import re
from datetime import UTC
from zoneinfo import ZoneInfo

from cronsim import CronSim
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from crond_py.schedule import parse_schedule
from tests.unit.schedule.cases import CHANGES, DAY, HOUR_FIELD, MINUTE_FIELD, mostly, relaxed
from tests.unit.schedule.walker import utc

CRONSIM_PLACES = [
    place
    for place in CHANGES
    if place[0] in ("UTC", "America/New_York", "Europe/Berlin", "Europe/London", "Australia/Sydney")
]
RANGE_OF_ONE_WITH_STEP = re.compile(r"\b([0-9]+)-\1/")
PLAIN_EXPRESSIONS = st.tuples(
    MINUTE_FIELD,
    HOUR_FIELD,
    mostly(st.integers(1, 28).map(str) | st.sampled_from(["L", "1-7", "*/2", "*/9"])),
    mostly(st.sampled_from(["3", "11", "1-6", "*/2", "MAR,NOV"])),
    mostly(st.sampled_from(["0", "7", "1-5", "SUN", "*/2", "1#2", "5L"])),
).map(" ".join)


@settings(relaxed, max_examples=300)
@given(PLAIN_EXPRESSIONS, st.sampled_from(CRONSIM_PLACES))
def test_agrees_with_cronsim_where_it_is_right(expression: str, place: tuple[str, str]) -> None:
    """The next ten instants are those of another implementation of Debian's rules."""
    assume(not RANGE_OF_ONE_WITH_STEP.search(expression))
    zone, change = place
    start = utc(change) - 1.5 * DAY
    schedule = parse_schedule(expression, zone)
    local = start.astimezone(ZoneInfo(zone))
    theirs = CronSim(expression, local)
    expected = [next(theirs).astimezone(UTC) for _ in range(10)]
    # It may answer with one instant for each reading that was skipped, or with its own start.
    expected = [due for due in dict.fromkeys(expected) if due > start]
    assert list(schedule.occurrences(start, expected[-1])) == expected
