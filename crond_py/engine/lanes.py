"""Lanes of submitted tasks, as far as they are in memory: how much of each, and when the next.

A lane's tasks lie in the ledger, in the order in which they are due. Of each lane a bounded number
of runs waits in memory for a slot, whatever lies there, and of all lanes (``feeding``): so no lane
keeps another from the slots that its priority and its group's share give it, and memory does not
grow with what is stored. A run that waits for its own predecessor is bounded by its task's policy
and does not count: where there are free slots, no task waits for another one's.

Not responsible for taking tasks up, nor for timers (``tasks``).
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import field
from datetime import datetime
from enum import StrEnum

from crond_py.dataclass import dataclass
from crond_py.engine.parked import ParkedRuns
from crond_py.model import Lane, Scale
from crond_py.ports import Timer

MOST_WAITING = 64
"""How many runs of a lane are taken up to wait in memory for a slot, at most.

More are taken up when half of them have begun: many at a time cost one transaction.
"""

MOST_NOTED = 16
"""How many changes are remembered of what keeps a lane from being taken up."""


class Hindrance(StrEnum):
    """Why what is due of a lane stays in the ledger, in words.

    FULL: as many runs of it wait in memory as may. HELD: there is no such pool. UNREAD: the ledger
    cannot tell what is due. LEFT: one of these, under an earlier daemon.
    """

    FULL = "tasks of its group waited for their turn"
    HELD = "its pool was not in the crontab"
    UNREAD = "nobody could tell which tasks were due"
    LEFT = "it waited for its turn when pycron ended"


Hindered = tuple[tuple[int, Hindrance], ...]
"""What has kept a lane from being taken up, each since an instant of the monotonic clock."""


def hindrances_since(hindered: Hindered, due_ns: int) -> Sequence[Hindrance]:
    """Return what has kept something back that was due then, each once."""
    ends = [since_ns for since_ns, _ in hindered[1:]]
    over = sum(end_ns <= due_ns for end_ns in ends)
    return tuple(dict.fromkeys(what for _, what in hindered[over:]))


_FEW = 64


@dataclass(slots=True, eq=False)
class LaneState:
    """One lane. ``first_due`` is on the lane's scale; None: no task of it is left to take up.

    It is set by ``FirstDues``.

    ``open`` counts the tasks that are left, ``waiting`` the runs that wait for a slot.
    ``timer`` waits for ``deadline_ns``, of the monotonic clock. ``unread`` is why the ledger could
    not tell which of its tasks are due; empty: it could. ``hindered`` is what has kept those that
    are due from being taken up; nothing where none was left behind. ``parked`` are runs that wait
    for their retry, and not in memory. ``due_ns``, ``hungry_ns``, ``turn_ns`` and ``is_barren`` are
    of one that is hungry (``feeding``): when its first is due, since when it is, when its turn is,
    and whether nobody has come to stand in line by what was taken up last.
    """

    lane: Lane
    most_waiting: int = MOST_WAITING
    open: int = 0
    first_due: datetime | None = None
    waiting: int = 0
    timer: Timer | None = None
    deadline_ns: int = 0
    unread: str = ""
    hindered: Hindered = ()
    parked: ParkedRuns = field(default_factory=ParkedRuns)
    due_ns: int = 0
    hungry_ns: int = 0
    turn_ns: int = 0
    is_barren: bool = False

    @property
    def room(self) -> int:
        """How many more runs may wait."""
        has_room = self.waiting <= self.most_waiting // 2
        return self.most_waiting - self.waiting if has_room else 0

    def hinder(self, what: Hindrance, now_ns: int) -> None:
        """Note that from now on nothing is taken up, and why."""
        if self.hindered and self.hindered[-1][1] is what:
            return
        self.hindered = (*self.hindered, (now_ns, what))
        if len(self.hindered) > MOST_NOTED:
            self.hindered = (self.hindered[0], *self.hindered[2:])


class FirstDues:
    """The first due instants of all lanes, on each scale.

    A lane's is a heap entry with the instant it had; when that changes, a new entry is made, and
    the old one dropped when it is met. So the first of all is found without a look at every lane.
    """

    def __init__(self) -> None:
        self._heaps: dict[Scale, list[tuple[datetime, int, LaneState]]] = {}
        self._tidy_at = dict.fromkeys(Scale, _FEW)
        self._count = 0

    def set(self, lane: LaneState, due: datetime | None) -> None:
        """Set when the first task of a lane is due; None: there is none, or it is let go of."""
        if due == lane.first_due:
            return
        lane.first_due = due
        if due is not None:
            self._enter(lane, due)

    def note(self, lane: LaneState, due: datetime) -> bool:
        """Note that a task of a lane is due then; True where that is its first one now."""
        if lane.first_due is not None and lane.first_due <= due:
            return False
        self.set(lane, due)
        return True

    def first(self, scale: Scale) -> datetime | None:
        """Return the first of all on a scale; None: there is nothing to come."""
        heap = self._heaps.get(scale, [])
        while heap and not _is_valid(heap[0]):
            heapq.heappop(heap)
        return heap[0][0] if heap else None

    def _enter(self, lane: LaneState, due: datetime) -> None:
        scale = lane.lane.scale
        heap = self._heaps.setdefault(scale, [])
        self._count += 1
        heapq.heappush(heap, (due, self._count, lane))
        if len(heap) > self._tidy_at[scale]:
            heap[:] = {entry[2]: entry for entry in heap if _is_valid(entry)}.values()
            heapq.heapify(heap)
            self._tidy_at[scale] = max(_FEW, 2 * len(heap))


def _is_valid(entry: tuple[datetime, int, LaneState]) -> bool:
    due, _, lane = entry
    return lane.first_due == due
