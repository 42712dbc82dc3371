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

Function = Callable[[], object]

_LONGEST_LOOK_NS: Final = 200_000_000

log = logging.getLogger(__name__)


class Once:
    """Something that is called by whoever comes first, and by nobody after that."""

    def __init__(self, function: Function) -> None:
        self._function = function
        self._lock = threading.Lock()
        self.is_over = False

    def __call__(self) -> None:
        """Call it, if nobody has. Does not raise."""
        with self._lock:
            was_over, self.is_over = self.is_over, True
        if not was_over:
            _call_and_outlive(self._function)


class AfterCalls:
    """Those that wait. Any thread puts them in; all else is for the one that tells the ends."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiting: SimpleQueue[Function] = SimpleQueue()
        self._overdue: deque[tuple[int, Once]] = deque()

    def put(self, function: Function) -> None:
        """Have something called after what has ended by now is told of."""
        self._waiting.put(function)

    def take(self) -> list[Function]:
        """Return all that was put, before it is asked what has ended."""
        functions: list[Function] = []
        with suppress(Empty):
            while True:
                functions.append(self._waiting.get_nowait())
        return functions

    def wait_for_look(self, function: Function) -> Once:
        """Have something called soon; return what a look is to call, if it is over before."""
        once = Once(function)
        self._overdue.append((self._clock.monotonic_ns() + _LONGEST_LOOK_NS, once))
        return once

    def patience_s(self) -> float | None:
        """Return how long there is until one does not wait for a look any more; None: none does."""
        while self._overdue and self._overdue[0][1].is_over:
            self._overdue.popleft()
        if not self._overdue:
            return None
        return max(0.0, (self._overdue[0][0] - self._clock.monotonic_ns()) / 1e9)

    def make(self, functions: list[Function]) -> None:
        """Call those that were taken, and those that have waited for long enough."""
        for function in functions:
            _call_and_outlive(function)
        while self.patience_s() == 0:
            self._overdue.popleft()[1]()


def _call_and_outlive(function: Function) -> None:
    """Call something, whatever comes of it: what is behind it is called, too."""
    try:
        function()
    except Exception:  # the boundary of one call
        log.exception("what was to be called has failed")
