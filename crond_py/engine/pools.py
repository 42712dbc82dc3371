"""Worker slots: how many runs of a pool may have a process at once, and who is next."""

from __future__ import annotations

import heapq
from datetime import datetime

from crond_py.crontab.model import Pool
from crond_py.engine.records import ActiveRun, Stage

_FEW = 64


class Slots:
    """The slots of one pool. Waiting runs go by higher priority, then due, then order of arrival.

    A run that no longer waits (cancelled, too late) is dropped when its turn comes.
    """

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.taken = 0
        self._waiting: list[tuple[int, datetime, int, ActiveRun]] = []
        self._arrivals = 0
        self._tidy_at = _FEW

    @property
    def waiting(self) -> int:
        """How many runs wait for a slot."""
        return sum(self._is_waiting(run) for *_, run in self._waiting)

    @property
    def has_waiting(self) -> bool:
        """Whether some run waits for a slot; a newcomer must not go before it."""
        while self._waiting and not self._is_waiting(self._waiting[0][-1]):
            heapq.heappop(self._waiting)
        return bool(self._waiting)

    @property
    def is_in_use(self) -> bool:
        """Whether some run has a slot or waits for one."""
        return self.taken > 0 or self.has_waiting

    @property
    def is_free(self) -> bool:
        """Whether a newcomer would get a slot."""
        has_room = self.pool.workers is None or self.taken < self.pool.workers
        return has_room and not self.has_waiting

    def try_take(self) -> bool:
        """Take a slot if there is a free one."""
        if self.pool.workers is not None and self.taken >= self.pool.workers:
            return False
        self.taken += 1
        return True

    def release(self) -> None:
        """Give a slot back."""
        self.taken -= 1

    def wait(self, run: ActiveRun) -> None:
        """Put a run, whose stage is SLOT, among those that wait."""
        self._arrivals += 1
        entry = (-run.job.priority, run.run.due, self._arrivals, run)
        heapq.heappush(self._waiting, entry)
        if len(self._waiting) > self._tidy_at:
            # Those that went from the middle are dropped before they are half of the heap.
            self._waiting = [each for each in self._waiting if self._is_waiting(each[-1])]
            heapq.heapify(self._waiting)
            self._tidy_at = max(_FEW, 2 * len(self._waiting))

    def _is_waiting(self, run: ActiveRun) -> bool:
        """Whether a run still waits, and here: a reload may have moved its job."""
        return run.stage is Stage.SLOT and run.job.pool == self.pool.name

    def next_waiting(self) -> ActiveRun | None:
        """Take a slot for the run whose turn it is and return it; None: no slot or nobody."""
        if not self.has_waiting or not self.try_take():
            return None
        return heapq.heappop(self._waiting)[-1]
