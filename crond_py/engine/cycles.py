"""What a job that waits for several others knows of its incomplete cycles; see ``chains``."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
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

    ``eras`` are those of the runs whose outcomes are known, ``era`` that of the run that follows;
    ``spared`` are the jobs of those that were skipped because nothing had failed.
    ``is_looked_at``: all that it waits for has been seen to come.
    """

    outcomes: dict[str, Outcome] = field(default_factory=dict)
    eras: dict[str, int] = field(default_factory=dict)
    spared: frozenset[str] = frozenset()
    era: int = 0
    is_decided: bool = False
    is_looked_at: bool = False
    passed: int = 0

    def note(self, job: str, era: int, outcome: Outcome, *, is_spared: bool = False) -> None:
        """Note an outcome. A newer one of a job means that the same due instant came again."""
        if self.eras.get(job, era) < era:
            self.outcomes.clear()
            self.eras.clear()
            self.spared = frozenset()
            self.era = self.passed = 0
            self.is_decided = self.is_looked_at = False
        if self.eras.get(job, era) == era:
            self.outcomes[job] = outcome
            self.eras[job] = era
            if is_spared:
                self.spared |= {job}
            self.era = max(self.era, era)

    def first_missing(self, upstreams: Sequence[str]) -> str | None:
        """Return the first of the jobs that it waits for, always the same, without an outcome.

        What has one is passed once, and not asked of again.
        """
        while self.passed < len(upstreams) and upstreams[self.passed] in self.outcomes:
            self.passed += 1
        return upstreams[self.passed] if self.passed < len(upstreams) else None


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
    upstreams: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.upstreams = tuple(self.trigger.conditions)

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

    def enter(self, due: datetime, era: int) -> None:
        """Enter a cycle of which nothing is known but that it is open, if there is room."""
        if len(self.cycles) < REMEMBERED and self.key(due, era) not in self.cycles:
            self.cycle(due, era).era = era

    def open_eras(self, due: datetime, era: int | None) -> list[int]:
        """Return the eras of the runs that are to come of cycles of an instant that are open.

        ``era``: only that one is asked for.
        """
        if era is not None or not self.has_one_head:
            known = self.cycles.get(self.key(due, era or 0))
            cycles = [known] if known is not None else []
        else:
            cycles = [cycle for (instant, _), cycle in self.cycles.items() if instant == due]
        return [cycle.era for cycle in cycles if not cycle.is_decided]

    def is_over(self, due: datetime) -> bool:
        """Whether a cycle was skipped as one of a stretch."""
        return any(first <= due <= last for first, last, _ in self.stretches)

    def rest_of(self, first: datetime, count: int) -> tuple[datetime, int]:
        """Return where what is new of a stretch begins, and how many there are of it."""
        for known_first, known_last, known_count in self.stretches:
            if known_first <= first <= known_last:
                first, count = known_last + TICK, max(1, count - known_count)
        return first, count
