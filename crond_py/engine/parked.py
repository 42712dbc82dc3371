"""Runs of one lane that wait for their retry in the ledger alone: which, and until when.

Not responsible for what becomes of them (``parking``).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from heapq import heapify, heappop, heappush

LONG_DELAY = timedelta(seconds=10)
"""From which delay of a retry on a run may wait for it in the ledger alone."""

MOST_RETRIES = 256
"""How many runs of submitted tasks that wait long for their retry do so in memory, at most."""

_ID_BITS = 63  # SQLite gives no larger ids
_ID = (1 << _ID_BITS) - 1


class ParkedRuns:
    """A heap of runs by their deadline on the monotonic clock, which no step of the other moves.

    There may be very many, so each is one number: the deadline, and the run's id. One that goes
    from the middle leaves its number there until that is met, or there are as many of that kind.
    """

    __slots__ = ("_gone", "_heap")

    def __init__(self) -> None:
        self._heap: list[int] = []
        self._gone: set[int] | None = None

    def __len__(self) -> int:
        return len(self._heap) - len(self._gone or ())

    def __iter__(self) -> Iterator[int]:
        """Yield the ids, in no order."""
        return (entry & _ID for entry in self._heap if not self._is_gone(entry))

    def add(self, deadline_ns: int, run_id: int) -> None:
        """Enter a run that is not there."""
        if self._gone and run_id in self._gone:
            self._tidy()
        heappush(self._heap, deadline_ns << _ID_BITS | run_id)

    def remove(self, run_id: int) -> None:
        """Take off a run that is there."""
        self._gone = self._gone or set()
        self._gone.add(run_id)
        if 2 * len(self._gone) > len(self._heap):
            self._tidy()

    @property
    def first_ns(self) -> int | None:
        """The first deadline; None: there is no run."""
        while self._heap and self._is_gone(self._heap[0]):
            assert self._gone is not None  # noqa: S101 - one is gone
            self._gone.discard(heappop(self._heap) & _ID)
        return self._heap[0] >> _ID_BITS if self._heap else None

    def first_due(self, now_ns: int) -> int | None:
        """Return the run whose deadline comes first, if that has passed."""
        first_ns = self.first_ns
        return None if first_ns is None or first_ns > now_ns else self._heap[0] & _ID

    def pop(self) -> None:
        """Take off the run that ``first_due`` has told of."""
        heappop(self._heap)

    def number_due(self, now_ns: int, most: int) -> int:
        """Return how many runs are due; not more than ``most`` are counted."""
        number, places = 0, [0]
        while places and number < most:
            place = places.pop()
            if place < len(self._heap) and self._heap[place] >> _ID_BITS <= now_ns:
                number += not self._is_gone(self._heap[place])
                places += (2 * place + 1, 2 * place + 2)  # what is behind it in the heap
        return number

    def _is_gone(self, entry: int) -> bool:
        return self._gone is not None and entry & _ID in self._gone

    def _tidy(self) -> None:
        self._heap = [entry for entry in self._heap if not self._is_gone(entry)]
        heapify(self._heap)
        self._gone = None
