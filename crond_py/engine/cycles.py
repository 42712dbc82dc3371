"""What a job that waits for several others knows of its incomplete cycles; see ``chains``."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import field
from datetime import datetime

from crond_py.crontab.model import AfterTrigger
from crond_py.dataclass import dataclass
from crond_py.model import Outcome
from crond_py.policy import TICK

REMEMBERED = 1000
"""Of how many open cycles a job that waits for several others knows at most; others it looks up."""

Key = tuple[datetime, int]
"""The due instant of a cycle and its era; 0 where the cycles of several heads are one."""


@dataclass(slots=True)
class Cycle:
    """What is known of one cycle by a job that waits for several others.

    ``eras`` are those of the runs whose outcomes are known.
    """

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    eras: dict[str, int] = field(default_factory=dict)
    is_decided: bool = False

    @property
    def era(self) -> int:
        """The era of the run that follows."""
        return max(self.eras.values(), default=0)

    def note(self, job: str, era: int, outcome: Outcome) -> None:
        """Note an outcome. A newer one of a job means that the same due instant came again."""
        if self.eras.get(job, era) < era:
            self.outcomes.clear()
            self.eras.clear()
            self.is_decided = False
        if self.eras.get(job, era) == era:
            self.outcomes[job] = outcome
            self.eras[job] = era


@dataclass(slots=True)
class Join:
    """A job that waits for several others, and what it knows of open cycles, oldest first.

    With one head, runs of one cycle have its era. Several heads have eras of their own, so their
    cycles are known by the due instant alone. ``stretches`` are those that were skipped whole:
    first, last and number.
    """

    trigger: AfterTrigger
    has_one_head: bool
    cycles: OrderedDict[Key, Cycle] = field(default_factory=OrderedDict)
    stretches: deque[tuple[datetime, datetime, int]] = field(
        default_factory=lambda: deque(maxlen=100)
    )

    def key(self, due: datetime, era: int) -> Key:
        """Return what a cycle is known by."""
        return due, era if self.has_one_head else 0

    def cycle(self, due: datetime, era: int) -> Cycle:
        """Return what is known of a cycle."""
        key = self.key(due, era)
        cycle = self.cycles.get(key)
        if cycle is None:
            cycle = self.cycles[key] = Cycle()
            if len(self.cycles) > REMEMBERED:
                self.cycles.popitem(last=False)
        return cycle

    def open_eras(self, due: datetime) -> list[int]:
        """Return the eras of the runs that are to come of cycles of an instant that are open."""
        return [
            cycle.era
            for (instant, _), cycle in self.cycles.items()
            if instant == due and not cycle.is_decided
        ]

    def is_over(self, due: datetime) -> bool:
        """Whether a cycle was skipped as one of a stretch."""
        return any(first <= due <= last for first, last, _ in self.stretches)

    def rest_of(self, first: datetime, count: int) -> tuple[datetime, int]:
        """Return where what is new of a stretch begins, and how many there are of it."""
        for known_first, known_last, known_count in self.stretches:
            if known_first <= first <= known_last:
                first, count = known_last + TICK, max(1, count - known_count)
        return first, count
