"""That pycron was there as tasks came due which have to wait in the ledger.

What is due since the cursor of tasks was written counts as missed after a crash. Taking tasks up
writes it. Lanes that are full, or whose pool is in no crontab, are not taken up, and as long as
nothing else happens nothing would be written: what came due in them would be called missed though
it merely waited. So the cursor is written when a task of such a lane has come due; where that
happens often, once a second.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from crond_py.engine.ahead import AHEAD
from crond_py.engine.attendance import Attendance
from crond_py.engine.events import KeptBackDue
from crond_py.engine.lanes import LaneState
from crond_py.engine.parts import Parts
from crond_py.errors import LedgerError
from crond_py.ports import Ledger, Timer

EVERY = timedelta(seconds=1)
"""How often the cursor is written at most."""

MOST_ASKED = 16
"""Of how many lanes the ledger is asked when something of them is due next; of more it may be."""

_LAST_ID = (1 << 63) - 1  # the ids of SQLite


class Presence:
    """Knows the lanes that are kept back, and sees to it that ``attend`` is called for them."""

    def __init__(
        self, parts: Parts, ledger: Ledger, attendance: Attendance, attend: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._ledger = ledger
        self._attendance = attendance
        self._attend = attend
        self._kept_back: dict[LaneState, None] = {}
        self._timer: Timer | None = None
        self._timer_ns = 0

    def keep_back(self, lane: LaneState) -> None:
        """Note that nothing of a lane is taken up."""
        self._kept_back[lane] = None
        self._wait(self._parts.timekeeper.after(EVERY))

    def has_come(self, lane: LaneState) -> None:
        """Note that a task has come to a lane, which may be one of these."""
        if lane in self._kept_back:
            self.keep_back(lane)

    def let_go(self, lane: LaneState) -> None:
        """Note that a lane is taken up, or has nothing left."""
        self._kept_back.pop(lane, None)

    def stop(self) -> None:
        """Look no more."""
        self._kept_back.clear()
        self._drop_timer()

    def look(self) -> None:
        """Write the cursor, and look again when more has come due."""
        self._timer = None
        if self._kept_back:
            self._attend()
            next_ns = self._next_ns()
            if next_ns is not None:
                self._wait(max(next_ns, self._parts.timekeeper.after(EVERY)))

    def _next_ns(self) -> int | None:
        """Return when something of these lanes is due next; None: nothing is to come."""
        timekeeper = self._parts.timekeeper
        if len(self._kept_back) > MOST_ASKED:
            return timekeeper.after(EVERY)
        until, first_ns = timekeeper.now() + AHEAD, None
        try:
            for lane in self._kept_back:
                scale = lane.lane.scale
                after = (self._attendance.on_scale(scale, until), _LAST_ID)
                for task in self._ledger.tasks_due(lane.lane, after=after, until=None, limit=1):
                    due_ns = timekeeper.deadline(self._attendance.wall(scale, task.due))
                    first_ns = due_ns if first_ns is None else min(first_ns, due_ns)
        except LedgerError:
            return timekeeper.after(EVERY)
        return first_ns

    def _wait(self, deadline_ns: int) -> None:
        """Look no later than that."""
        if self._timer is not None and self._timer_ns <= deadline_ns:
            return
        self._drop_timer()
        self._timer_ns = deadline_ns
        self._timer = self._parts.timers.call_at(deadline_ns, KeptBackDue())

    def _drop_timer(self) -> None:
        if self._timer is not None:
            self._parts.timers.cancel(self._timer)
            self._timer = None
