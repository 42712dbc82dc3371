"""How a client waits: how long it has waited, and when it asks again where there are too many."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Final

from crond_py.clock import SystemClock
from crond_py.dataclass import dataclass

_FIRST_PAUSE: Final = timedelta(milliseconds=50)
_LONGEST_PAUSE: Final = timedelta(seconds=2)
_MICROSECOND: Final = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Watch:
    """A stopwatch that runs since it was made."""

    begun_ns: int

    @classmethod
    def begin(cls) -> Watch:
        """Start one."""
        return cls(SystemClock().monotonic_ns())

    def elapsed(self) -> timedelta:
        """Return how long it has run."""
        return (SystemClock().monotonic_ns() - self.begun_ns) // 1000 * _MICROSECOND


class Pauses:
    """The time between two attempts of one who was told to ask again; it grows."""

    def __init__(self) -> None:
        self._next = _FIRST_PAUSE

    def wait(self, most: timedelta = _LONGEST_PAUSE) -> None:
        """Make the next pause, but none that is longer than ``most``."""
        clock = SystemClock()
        pause, self._next = min(self._next, most), min(2 * self._next, _LONGEST_PAUSE)
        deadline_ns = clock.monotonic_ns() + pause // _MICROSECOND * 1000
        condition = threading.Condition()
        with condition:
            clock.wait(condition, deadline_ns)
