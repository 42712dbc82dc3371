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
from itertools import islice

from crond_py.engine.ahead import AHEAD
from crond_py.engine.attendance import Attendance
from crond_py.engine.events import KeptBackDue
from crond_py.engine.lanes import LaneState
from crond_py.engine.parts import Parts
from crond_py.errors import LedgerError
from crond_py.ports import Ledger, Timer

EVERY = timedelta(seconds=1)
"""How often the cursor is written at most."""

MOST_ASKED = 64
"""Of how many lanes the ledger is asked at a time when something of them is due next."""

_UNKNOWN = 0
_NEVER = 1 << 63
_LAST_ID = (1 << 63) - 1  # the ids of SQLite


class Presence:
    """Knows the lanes that are kept back, and sees to it that ``attend`` is called for them.

    ``kept_back`` has of each when something of it is due next, on the monotonic clock.
    """

    def __init__(
        self, parts: Parts, ledger: Ledger, attendance: Attendance, attend: Callable[[], None]
    ) -> None:
        self._parts = parts
        self._ledger = ledger
        self._attendance = attendance
        self._attend = attend
        self._kept_back: dict[LaneState, int] = {}
        self._timer: Timer | None = None
        self._timer_ns = 0

    def keep_back(self, lane: LaneState) -> None:
        """Note that nothing of a lane is taken up."""
        self._kept_back[lane] = _UNKNOWN
        self._wait(self._parts.timekeeper.after(EVERY))

    def has_come(self, lane: LaneState) -> None:
        """Note that a task has come to a lane, which may be one of these."""
        if lane in self._kept_back:
            self.keep_back(lane)

    def let_go(self, lane: LaneState) -> None:
        """Note that a lane is taken up, or has nothing left."""
        self._kept_back.pop(lane, None)
        if not self._kept_back:
            self._drop_timer()

    def stop(self) -> None:
        """Look no more."""
        self._kept_back.clear()
        self._drop_timer()

    def look(self) -> None:
        """Write the cursor, and look again when more has come due."""
        self._timer = None
        if not self._kept_back:
            return
        self._attend()
        self._ask()
        next_ns = min(self._kept_back.values())
        if next_ns != _NEVER:
            self._wait(max(next_ns, self._parts.timekeeper.after(EVERY)))

    def _ask(self) -> None:
        """See when something is due next of lanes of which that is not known, of some at a time."""
        now_ns = self._parts.timekeeper.reading()
        passed = (lane for lane, next_ns in self._kept_back.items() if next_ns <= now_ns)
        for lane in list(islice(passed, MOST_ASKED)):
            try:
                self._kept_back[lane] = self._next_ns(lane)
            except LedgerError:
                return  # not known, so they are asked again; what is due says what is wrong

    def _next_ns(self, lane: LaneState) -> int:
        """Return when something of a lane is due next. Raises LedgerError."""
        timekeeper, scale = self._parts.timekeeper, lane.lane.scale
        after = (self._attendance.on_scale(scale, timekeeper.now() + AHEAD), _LAST_ID)
        for task in self._ledger.tasks_due(lane.lane, after=after, until=None, limit=1):
            return timekeeper.deadline(self._attendance.wall(scale, task.due))
        return _NEVER

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
