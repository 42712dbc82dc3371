"""A clock for tests: it stands still until it is told to move."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = datetime(2026, 1, 15, 12, 0, tzinfo=UTC)
UPTIME = timedelta(days=1)

_PATIENCE = 30.0
_MICROSECOND = timedelta(microseconds=1)


class _Waiter:
    """One call of ``wait``; compared by identity."""

    __slots__ = ("condition", "deadline_ns")

    def __init__(self, condition: threading.Condition, deadline_ns: int | None) -> None:
        self.condition = condition
        self.deadline_ns = deadline_ns


class FakeClock:
    """The Clock port with hands that only the test moves.

    ``wait`` registers its deadline and blocks until it is notified or ``advance`` reaches the
    deadline. It is ``advance`` that takes a due waiter off the list, before it wakes it: so once
    ``advance`` has returned, ``block_until(1)`` means that the thread has been round its loop and
    waits again, however slowly it woke.

    Used without threads it is simply a settable pair of readings. All methods are thread-safe.
    """

    def __init__(self, start: datetime = START, *, uptime: timedelta = UPTIME) -> None:
        self._wall_ns = _to_ns(start - EPOCH)
        self._monotonic_ns = _to_ns(uptime)
        self._waiters: list[_Waiter] = []
        self._changed = threading.Condition()

    def now(self) -> datetime:
        """Return the wall clock's reading."""
        return EPOCH + _MICROSECOND * (self.time_ns() // 1000)

    def time_ns(self) -> int:
        """Return the wall clock's reading in nanoseconds since the epoch."""
        with self._changed:
            return self._wall_ns

    def monotonic_ns(self) -> int:
        """Return the monotonic reading."""
        with self._changed:
            return self._monotonic_ns

    def wait(self, condition: threading.Condition, deadline_ns: int | None) -> None:
        """Wait on ``condition`` until notified or until ``advance`` reaches the deadline."""
        waiter = _Waiter(condition, deadline_ns)
        with self._changed:
            if deadline_ns is not None and deadline_ns <= self._monotonic_ns:
                return
            self._waiters.append(waiter)
            self._changed.notify_all()
        try:
            # No wake-up is lost: whoever notifies must first get the condition's lock, which
            # this thread lets go of only inside wait().
            condition.wait()
        finally:
            with self._changed:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
                    self._changed.notify_all()

    def advance(self, delta: timedelta) -> None:
        """Let time pass: both clocks go on, and who waited for it is woken."""
        self.advance_ns(_to_ns(delta))

    def advance_ns(self, delta_ns: int) -> None:
        """Let time pass, in nanoseconds."""
        if delta_ns < 0:
            raise ValueError("time does not run backwards; jump() sets the wall clock back")
        with self._changed:
            self._wall_ns += delta_ns
            self._monotonic_ns += delta_ns
            due = [w for w in self._waiters if _is_due(w, self._monotonic_ns)]
            self._waiters = [w for w in self._waiters if w not in due]
            self._changed.notify_all()
        for waiter in due:
            with waiter.condition:
                waiter.condition.notify_all()

    def jump(self, delta: timedelta) -> None:
        """Set the wall clock; the monotonic one does not move and nobody is woken."""
        with self._changed:
            self._wall_ns += _to_ns(delta)

    def block_until(self, waiters: int, *, timeout: float = _PATIENCE) -> None:
        """Wait, in real time, until at least so many threads wait on this clock.

        Raises TimeoutError after ``timeout`` seconds, so that a test fails instead of hanging.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: len(self._waiters) >= waiters, timeout):
                message = f"{len(self._waiters)} threads wait on the clock, not {waiters}"
                raise TimeoutError(message)

    @property
    def waiters(self) -> int:
        """How many threads wait on this clock now."""
        with self._changed:
            return len(self._waiters)


def _is_due(waiter: _Waiter, now_ns: int) -> bool:
    return waiter.deadline_ns is not None and waiter.deadline_ns <= now_ns


def _to_ns(span: timedelta) -> int:
    return span // _MICROSECOND * 1000
