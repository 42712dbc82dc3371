"""How close together the due instants of a schedule come: the bound of what they may be moved by.

For expressions there is no formula: the days, a union and the changes of the clocks all have a
say. So it is measured, on a sample that is always the same and takes well under a millisecond for
an expression:

- the first hundred due instants after the beginning of 2026, which show what one day looks like,
- for a union, some due instants of each of its parts with their neighbours,
- what is due before and after each change of the zone's clocks in 2026 and 2027.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise
from typing import Final

from crond_py.schedule.instants import to_instant, to_second
from crond_py.schedule.kinds import Schedule
from crond_py.schedule.zones import zone_of

_BEGIN: Final = datetime(2026, 1, 1, tzinfo=UTC)
_CHANGES_UNTIL: Final = datetime(2028, 1, 1, tzinfo=UTC)
_END: Final = datetime(2034, 1, 1, tzinfo=UTC)
"""Eight years, so that there are two leap days in them."""

_IN_A_ROW: Final = 100
_AROUND_PARTS: Final = 64
_TICK: Final = timedelta(microseconds=1)


@lru_cache(maxsize=1024)
def shortest_distance(
    schedule: Schedule, timezone: str, parts: tuple[Schedule, ...] = ()
) -> timedelta:
    """Return the shortest span between two due instants of ``schedule`` in the sample.

    ``timezone`` is the zone that it is in; ``parts`` are the schedules that it is the union of.
    Where the sample has no two due instants, it is as long as the sample, eight years.
    """
    return min(_distances(schedule, timezone, parts), default=_END - _BEGIN)


def _distances(schedule: Schedule, timezone: str, parts: Sequence[Schedule]) -> Iterator[timedelta]:
    for due, following in pairwise(islice(schedule.occurrences(_BEGIN, _END), _IN_A_ROW)):
        yield following - due
    # Each question to a union is one to each of its parts, so that more parts get fewer of them.
    each = max(1, _AROUND_PARTS // len(parts) ** 2) if parts else 0
    for part in parts:
        for due in islice(part.occurrences(_BEGIN, _END), each):
            yield from _around(schedule, due)
    for change in zone_of(timezone).changes(to_second(_BEGIN), to_second(_CHANGES_UNTIL)):
        first = schedule.next_after(to_instant(change.at) - _TICK)
        if first is not None:
            yield from _around(schedule, first)


def _around(schedule: Schedule, due: datetime) -> Iterator[timedelta]:
    """Yield how far it is from a due instant to those before and after it."""
    before, following = schedule.latest_until(due - _TICK), schedule.next_after(due)
    if before is not None:
        yield due - before
    if following is not None:
        yield following - due
