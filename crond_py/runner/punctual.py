"""Holds starts until their instants, and has many of one instant started together.

What a start needs is found ahead of its instant, by the threads that start processes. It then
waits here. ``GATHERING_NS`` before the instant those that are there, if they are many, go to
ushers (see ``ushers``), and so do, ``LEAD_NS`` before it, those that were not ready by then, if
these are many, too; all others go to the starters, which wait for what is left. What is late
already and has many before it waits for the next of the instants that ``soon`` names, and others
like it. The thread is begun when it is first needed and sleeps without a time limit while nothing
waits.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable, Sequence
from typing import Final

from crond_py.ports import AttemptKey, Clock, ProcessSpec
from crond_py.runner.spawn import Ready
from crond_py.runner.ushers import can_be_ushered
from crond_py.vital import VitalThread

GATHERING_NS: Final = 100_000_000
"""How long before the instant ushers are started: a Python that imports next to nothing is up.

On a busy machine that takes several times the ten milliseconds that it does on another.
"""

LEAD_NS: Final = 1_000_000
"""How long before the instant a start goes on: to be all but made when it comes."""

A_MOMENT_NS: Final = 20_000_000
"""For how long starts that are late are gathered."""

LONGEST_PUT_OFF_NS: Final = 100_000_000

ENOUGH: Final = 128
"""How many are not put off any longer."""

MANY: Final = 24
"""How many starts of one instant are worth an usher."""

Held = tuple[ProcessSpec, Ready | None]
"""A start, and what was found of what it needs."""


class Punctual:
    """Calls ``start`` for a spec a little before its instant, or ``usher`` for many of an instant.

    Both must return soon and not raise.

    ``usher`` gets those that are ready for it, and their instant. It may be None. Few that are
    late wait a little longer where ``are_more_coming``.
    """

    def __init__(
        self,
        start: Callable[[ProcessSpec], None],
        usher: Callable[[Sequence[tuple[ProcessSpec, Ready]], int], None] | None,
        clock: Clock,
        *,
        are_more_coming: Callable[[], bool] = lambda: False,
    ) -> None:
        self._are_more_coming = are_more_coming
        self._start = start
        self._usher = usher
        self._clock = clock
        self._changed = threading.Condition()
        self._held: dict[int, dict[AttemptKey, Held]] = {}
        self._late: dict[int, int] = {}  # instants that are no run's own: the first for these
        self._wakes: list[tuple[int, int]] = []  # when to look at which instant
        self._thread: threading.Thread | None = None
        self._is_closed = False

    @property
    def has_ushers(self) -> bool:
        """Whether many starts can be made together."""
        return self._usher is not None

    def soon(self) -> int:
        """Return an instant in a moment, the same for all that ask within a moment."""
        at_ns = (self._clock.monotonic_ns() // A_MOMENT_NS + 2) * A_MOMENT_NS
        with self._changed:
            self._late.setdefault(at_ns, at_ns)
        return at_ns

    def put(self, spec: ProcessSpec, ready: Ready | None, at_ns: int) -> None:
        """Hold a start until its instant."""
        with self._changed:
            if self._thread is None and not self._is_closed:
                self._thread = self._begin()
            if self._thread is None and not self._is_closed:
                while self._clock.monotonic_ns() < at_ns - LEAD_NS:  # the caller's thread has to do
                    self._clock.wait(self._changed, at_ns - LEAD_NS)
                self._start(spec)
                return
            held = self._held.get(at_ns)
            if held is None:
                held = self._held[at_ns] = {}
                heapq.heappush(self._wakes, (at_ns - LEAD_NS, at_ns))
                gather_ns = at_ns - GATHERING_NS
                if self._usher is not None and gather_ns > self._clock.monotonic_ns():
                    heapq.heappush(self._wakes, (gather_ns, at_ns))
                self._changed.notify()
            held[spec.key] = (spec, ready)

    def withdraw(self, key: AttemptKey) -> bool:
        """Take back a start whose time has not come; False where there is no such thing."""
        with self._changed:
            return any(held.pop(key, None) is not None for held in self._held.values())

    def close(self) -> list[ProcessSpec]:
        """Begin no more, and return what was not begun."""
        with self._changed:
            self._is_closed = True
            left = [spec for held in self._held.values() for spec, _ in held.values()]
            self._held.clear()
            self._wakes.clear()
            self._changed.notify()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()
        return left

    def _begin(self) -> threading.Thread | None:
        thread = VitalThread(target=self._run, name="pycron-punctual", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system's limit; tried again with the next start
            return None
        return thread

    def _run(self) -> None:
        while (due := self._next()) is not None:
            starts, ushered, at_ns = due
            if ushered and self._usher is not None:
                self._usher(ushered, at_ns)
            for spec in starts:
                self._start(spec)

    def _next(self) -> tuple[list[ProcessSpec], list[tuple[ProcessSpec, Ready]], int] | None:
        """Sleep until something is due, and take it; None once closed."""
        with self._changed:
            while not self._is_closed:
                if not self._wakes:
                    self._changed.wait()
                    continue
                wake_ns, at_ns = self._wakes[0]
                if wake_ns > self._clock.monotonic_ns():
                    self._clock.wait(self._changed, wake_ns)
                    continue
                heapq.heappop(self._wakes)
                is_last = wake_ns == at_ns - LEAD_NS
                if is_last and self._is_put_off(at_ns):
                    continue
                many = self._take_many(at_ns)
                rest: list[ProcessSpec] = []
                if is_last:
                    rest = [spec for spec, _ in self._held.pop(at_ns).values()]
                if many or rest:
                    return rest, many, at_ns
            return None

    def _is_put_off(self, at_ns: int) -> bool:
        """Have what is late, and not worth an usher yet, wait for more of its kind."""
        first_ns = self._late.pop(at_ns, None)
        if first_ns is None or len(self._held[at_ns]) >= ENOUGH or not self._are_more_coming():
            return False
        if at_ns - first_ns >= LONGEST_PUT_OFF_NS:
            return False
        later_ns = at_ns + A_MOMENT_NS
        held = self._held.pop(at_ns)
        if later_ns in self._held:
            self._held[later_ns] = held | self._held[later_ns]
        else:
            self._held[later_ns] = held
            heapq.heappush(self._wakes, (later_ns - LEAD_NS, later_ns))
        self._late[later_ns] = first_ns
        return True

    def _take_many(self, at_ns: int) -> list[tuple[ProcessSpec, Ready]]:
        """Take what ushers can start, if it is much."""
        held = self._held[at_ns]
        able = [(spec, r) for spec, r in held.values() if r is not None and can_be_ushered(r)]
        if self._usher is None or len(able) < MANY:
            return []
        for spec, _ in able:
            del held[spec.key]
        return able
