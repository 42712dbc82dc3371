"""Which era the runs of one cycle have in each job of a chain.

Where the clock is set back by more than three hours, a due instant may come again, in a new era of
its job. All heads of a chain have one schedule and count on together, but one that was added later
has counted fewer. So the eras of two jobs of a chain differ by as much as their heads do now. A job
with several heads has the era of the one that has counted most.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from graphlib import TopologicalSorter

from crond_py.crontab.model import AfterTrigger
from crond_py.engine.records import JobState


class Eras:
    """The eras of jobs, as those in force wait for each other."""

    def __init__(self, after: Mapping[str, AfterTrigger], states: Mapping[str, JobState]) -> None:
        graph = {name: trigger.conditions for name, trigger in after.items()}
        self._order = [
            (name, graph[name]) for name in TopologicalSorter(graph).static_order() if name in graph
        ]
        self._states = states
        self._heads: dict[str, str | None] = {}
        for name, upstreams in self._order:
            above = {self.head(upstream) for upstream in upstreams}
            self._heads[name] = above.pop() if len(above) == 1 else None
        self._newest: dict[str, tuple[bool, int]] = {}

    def head(self, name: str) -> str | None:
        """Return the job that a job's cycles begin with; None: there are several."""
        return self._heads.get(name, name)

    def changed(self) -> None:
        """Take note that jobs may have counted on, or are others."""
        self._newest.clear()

    def of(self, name: str, like: str, era: int) -> int:
        """Return the era of a job's run in the cycle in which another one's run has ``era``."""
        head = self.head(name)
        if head is not None and head == self.head(like):
            return era
        return era + self.newest(name) - self.newest(like)

    def newest(self, name: str) -> int:
        """Return the era of a job's newest cycles."""
        if name not in self._heads:
            return self._own((name,))[1]
        if not self._newest:
            for each, upstreams in self._order:
                self._newest[each] = self._own(upstreams)
        return self._newest[name][1]

    def _own(self, names: Iterable[str]) -> tuple[bool, int]:
        """Return the highest era of jobs; those that count on go before those that do not."""
        return max(map(self._of_one, names))

    def _of_one(self, name: str) -> tuple[bool, int]:
        if name in self._newest:
            return self._newest[name]
        state = self._states.get(name)
        return (state.is_live, state.cursor.era) if state is not None else (False, 0)
