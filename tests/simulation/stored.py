"""Tasks that are due and lie in the ledger: nobody may get a slot before one that goes first.

A few tasks of each lane wait in memory; the others wait in the ledger. That must make no difference
to whose turn it is. So whenever a slot is given, of what lies in the ledger and may go

- none has a higher priority than the run that gets it, unless one of that priority is in line;
- none is of a group that has nobody in line at that priority, and none of the same group was due
  before it, unless its lane has somebody in line, or as many lanes have as are taken up at a time.

A run that comes, and waits for nobody in line, has no slot either as long as something of a higher
priority lies in the ledger.

A lane of which no run came as it was fed last, but only rows, is left out: nobody waits for more of
those. A slot that goes by age is left out, too: what waits longest of a lane is in line. And so is
the moment in which a freeze ends: of what ended and what came due meanwhile the daemon hears
together, and what has ended first gives its slot to those that waited already.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

from crond_py.engine.records import ActiveRun
from crond_py.model import Lane, Task
from crond_py.ports import TaskQuery
from tests.simulation.tasks import MOST_WAITING

if TYPE_CHECKING:
    from tests.simulation.world import World


@dataclass(frozen=True, slots=True)
class Stored:
    """A task in the ledger that is due, by the wall clock."""

    lane: Lane
    due: datetime

    def __str__(self) -> str:
        return f"a task of {self.lane} that was due at {self.due}"


def stored_due(world: World, pool: str) -> list[Stored]:
    """Return what is due of a pool's tasks and lies in the ledger, which takes and tells all."""
    daemon = world.daemon
    has_thawed = world.awake_ns == world.clock.monotonic_ns()
    if daemon is None or world.ledger.failing is not None or has_thawed:
        return []
    tasks = daemon.core._tasks
    wall, now = tasks._attendance.wall, world.clock.now()
    found = []
    for stored in world.ledger.tasks(TaskQuery(limit=None)):
        task: Task = tasks._unwritten.get(stored.id, stored)  # as it will stand with this batch
        state = tasks._lanes.get(task.lane)
        if state is not None and state.is_barren:
            continue
        if task.lane.pool == pool and task.ended_at is None:
            due = wall(task.lane.scale, task.due)
            if due <= now:
                found.append(Stored(task.lane, due))
    return found


class Stock:
    """What lies in the ledger when a pool has a slot to give, and who is in line for it.

    ``may_go`` are those in line whose group may have another slot.
    """

    def __init__(
        self, world: World, pool: str, in_line: Iterable[ActiveRun], may_go: Iterable[ActiveRun]
    ) -> None:
        self._stored = stored_due(world, pool)
        self._lanes = {run.lane for run in in_line if run.lane is not None}
        self._standing = Counter(lane.priority for lane in self._lanes)
        self._groups = {(run.job.priority, run.job.group) for run in may_go}
        self._priorities = {priority for priority, _ in self._groups}

    def passed_over(self, run: ActiveRun, is_full: Callable[[str], bool]) -> Iterator[Stored]:
        """Yield what should have gone before a run that gets the slot."""
        for each in self._stored:
            if not is_full(each.lane.group) and self._goes_first(each, run):
                yield each

    def higher(self, run: ActiveRun, is_full: Callable[[str], bool]) -> Iterator[Stored]:
        """Yield what has a higher priority than a run that gets a slot as it comes."""
        for each in self._stored:
            if not is_full(each.lane.group) and each.lane.priority > run.job.priority:
                yield each

    def _goes_first(self, each: Stored, run: ActiveRun) -> bool:
        lane, priority = each.lane, run.job.priority
        if lane.priority != priority:
            return lane.priority > priority and lane.priority not in self._priorities
        if self._standing[priority] >= MOST_WAITING or lane in self._lanes:
            return False
        is_earlier = lane.group == run.job.group and each.due < run.run.due
        return is_earlier or (priority, lane.group) not in self._groups
