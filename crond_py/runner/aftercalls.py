"""What is to be called once the ends are told of what has ended by now.

First comes what ends at once. Where something has ended and it is still being looked at what it has
left, the call waits for that look, but not long: to look can hang, and no timer may.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

from crond_py.ports import Clock

Call = Callable[[], object]

_LONGEST_LOOK_NS: Final = 200_000_000

log = logging.getLogger(__name__)


class Once:
    """Something that is called by whoever comes first, and by nobody after that."""

    def __init__(self, call: Call) -> None:
        self._call = call
        self._lock = threading.Lock()
        self.is_over = False

    def __call__(self) -> None:
        """Call it, if nobody has."""
        with self._lock:
            was_over, self.is_over = self.is_over, True
        if not was_over:
            self._call()


class AfterCalls:
    """Those that wait. Any thread puts them in; all else is for the one that tells the ends."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: SimpleQueue[Call] = SimpleQueue()
        self._overdue: deque[tuple[int, Once]] = deque()

    def put(self, call: Call) -> None:
        """Have something called after what has ended by now is told of."""
        self._waiting.put(call)

    def take(self) -> list[Call]:
        """Return all that was put, before it is asked what has ended."""
        calls: list[Call] = []
        with suppress(Empty):
            while True:
                calls.append(self._waiting.get_nowait())
        return calls

    def wait_for_look(self, call: Call) -> Call:
        """Have something called that a look calls as well: once, and by now or soon."""
        once = Once(call)
        self._overdue.append((self._clock.monotonic_ns() + _LONGEST_LOOK_NS, once))
        return once

    def patience_s(self) -> float | None:
        """Return how long there is until one does not wait for a look any more; None: none does."""
        while self._overdue and self._overdue[0][1].is_over:
            self._overdue.popleft()
        if not self._overdue:
            return None
        return max(0.0, (self._overdue[0][0] - self._clock.monotonic_ns()) / 1e9)

    def make(self, calls: list[Call]) -> None:
        """Make those that were taken, and those that have waited for long enough."""
        for call in calls:
            attempt(call)
        while self.patience_s() == 0:
            attempt(self._overdue.popleft()[1])


def attempt(call: Call) -> None:
    """Make a call, and outlive it: those behind it are made, too."""
    try:
        call()
    except Exception:  # the boundary of one call
        log.exception("what was to be called has failed")
