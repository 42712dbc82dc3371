"""What a job that waits for several others knows of its incomplete cycles; see ``chains``."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import field
from datetime import datetime

from crond_py.crontab.model import AfterTrigger
from crond_py.dataclass import dataclass
from crond_py.engine.records import Conclusion
from crond_py.engine.stretches import Stretch
from crond_py.model import Outcome

REMEMBERED = 1000
"""Of how many open cycles a job that waits for several others knows at most; others it looks up."""

Key = tuple[datetime, int]
"""The due instant of a cycle, and its era in the job that waits."""


@dataclass(slots=True)
class Cycle:
    """What is known of one cycle by a job that waits for others.

    ``era`` is that of the run that follows, ``eras`` are those of the runs whose outcomes are
    known; ``spared`` are the jobs of those that were skipped because nothing had failed.
    ``is_looked_at``: all that it waits for has been seen to come.
    """

    due: datetime
    era: int
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    eras: dict[str, int] = field(default_factory=dict)
    spared: frozenset[str] = frozenset()
    is_decided: bool = False
    is_looked_at: bool = False
    passed: int = 0

    def note(self, news: Conclusion) -> None:
        """Note the outcome of a run of this cycle."""
        self.outcomes[news.job] = news.outcome
        self.eras[news.job] = news.era
        if news.is_spared:
            self.spared |= {news.job}

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

    ``head`` is the job that its cycles begin with, None where there are several. ``stretches`` are
    those cycles that were skipped whole.
    """

    trigger: AfterTrigger
    head: str | None
    cycles: OrderedDict[Key, Cycle] = field(default_factory=OrderedDict)
    stretches: deque[Stretch] = field(default_factory=lambda: deque(maxlen=100))
    upstreams: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        self.upstreams = tuple(self.trigger.conditions)

    def cycle(self, due: datetime, era: int) -> Cycle:
        """Return what is known of a cycle."""
        cycle = self.cycles.get((due, era))
        if cycle is None:
            cycle = self.cycles[due, era] = Cycle(due, era)
            if len(self.cycles) > REMEMBERED:
                self.cycles.popitem(last=False)
        return cycle

    def enter(self, due: datetime, era: int) -> None:
        """Enter a cycle of which nothing is known but that it is open, if there is room."""
        if len(self.cycles) < REMEMBERED:
            self.cycle(due, era)

    def drop_complete(self, cycle: Cycle) -> None:
        """Forget a cycle of which all is known."""
        if cycle.outcomes.keys() == self.trigger.conditions.keys():
            self.cycles.pop((cycle.due, cycle.era), None)

    def is_open(self, due: datetime, era: int) -> bool:
        """Whether a cycle is known and not decided."""
        cycle = self.cycles.get((due, era))
        return cycle is not None and not cycle.is_decided
