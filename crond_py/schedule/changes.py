"""What a change of the clocks did to a schedule, in words for a person."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Final

from crond_py.schedule.instants import EPOCH, MINUTE
from crond_py.schedule.readings import count_readings
from crond_py.schedule.timeline import Timeline
from crond_py.schedule.zones import Change, Pass, Zone

_EVERY_HOUR: Final = (1 << 24) - 1
_LEFT_OUT: Final = {Pass.SECOND: "the first time only", Pass.FIRST: "the second time only"}


def explain_due(zone: Zone, timelines: Sequence[Timeline], due: int) -> str:
    """Say which readings were moved to ``due`` and why; "" where none were."""
    for change in zone.changes(due, due + 1):
        if change.skipped:
            moved = [line for line in timelines if line.makes_up]
            readings = _readings(moved, change, due + change.before, due + change.after)
            if readings:
                return f"moved from {readings}: {_what_happened(zone, change)}"
    return ""


def left_out(
    zone: Zone, timelines: Sequence[Timeline], first: int, last: int
) -> Iterator[tuple[int, str]]:
    """Yield the second of each change in [first, last] that left readings out, and which."""
    for change in zone.changes(first, last + 1):
        for text in _left_out_by(change, timelines):
            yield change.at, f"{text}: {_what_happened(zone, change)}"


def _left_out_by(change: Change, timelines: Sequence[Timeline]) -> Iterator[str]:
    before, after = change.at + change.before, change.at + change.after
    if before < after:
        lost = [
            line
            for line in timelines
            if line.readings.times.hours != _EVERY_HOUR and not (line.makes_up and change.skipped)
        ]
        if readings := _readings(lost, change, before, after):
            yield f"{readings} did not come"
    elif change.repeated:
        for turn, when in _LEFT_OUT.items():
            held = [line for line in timelines if line.left_out is turn]
            if readings := _readings(held, change, after, before):
                yield f"{readings} came twice and counted {when}"


def _readings(timelines: Sequence[Timeline], change: Change, start: int, end: int) -> str:
    """Name the readings in [start, end): the first, and how many more there are."""
    number = count_readings([line.readings for line in timelines], start, end)
    if not number:
        return ""
    found = [line.readings.at_or_after(start) for line in timelines]
    text = _shown(min(each for each in found if each is not None), change)
    return text if number == 1 else f"{text} and {number - 1} more"


def _what_happened(zone: Zone, change: Change) -> str:
    before = _shown(change.at + change.before, change)
    after = _shown(change.at + change.after, change)
    way = "forward" if change.before < change.after else "back"
    names = f"{zone.abbreviation(change.at - 1)} to {zone.abbreviation(change.at)}"
    return f"the clocks went {way} from {before} to {after} ({names})"


def _shown(reading: int, change: Change) -> str:
    """Write a reading as a wall clock would show it; with its date where days may differ."""
    wall = EPOCH + timedelta(seconds=reading)
    time = f"{wall:%H:%M:%S}" if reading % MINUTE else f"{wall:%H:%M}"
    return f"{wall.date().isoformat()} {time}" if change.is_large else time
