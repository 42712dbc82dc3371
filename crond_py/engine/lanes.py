"""Lanes of submitted tasks, as far as they are in memory: how much of each, and when the next.

A lane's tasks lie in the ledger, in the order in which they are due. Of each lane a bounded number
of runs waits in memory for a slot, whatever lies there: so no lane keeps another from the slots
that its priority and its group's share give it, and memory does not grow with what is stored. A run
that waits for its own predecessor is bounded by its task's policy and does not count: where there
are free slots, no task waits for another one's.

Not responsible for taking tasks up, nor for timers (``tasks``).
"""

from __future__ import annotations

from datetime import datetime

from crond_py.dataclass import dataclass
from crond_py.model import Lane
from crond_py.ports import Timer

MOST_WAITING = 64
"""How many runs of a lane are taken up to wait in memory for a slot, at most.

More are taken up when half of them have begun: many at a time cost one transaction.
"""


@dataclass(slots=True, eq=False)
class LaneState:
    """One lane. ``first_due`` is on the lane's scale; None: no task of it is left to take up.

    ``open`` counts the tasks that are left, ``waiting`` the runs that wait for a slot.
    ``timer`` waits for ``deadline_ns``, of the monotonic clock. ``unread`` is why the ledger could
    not tell which of its tasks are due; empty: it could.
    """

    lane: Lane
    most_waiting: int = MOST_WAITING
    open: int = 0
    first_due: datetime | None = None
    waiting: int = 0
    timer: Timer | None = None
    deadline_ns: int = 0
    unread: str = ""

    @property
    def room(self) -> int:
        """How many more runs may wait."""
        has_room = self.waiting <= self.most_waiting // 2
        return self.most_waiting - self.waiting if has_room else 0

    def note_due(self, due: datetime) -> bool:
        """Note that a task is due then; True where that is the first one now."""
        if self.first_due is not None and self.first_due <= due:
            return False
        self.first_due = due
        return True
