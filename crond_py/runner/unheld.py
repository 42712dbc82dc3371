"""Processes of an earlier daemon for which no descriptor is left: looked for until there is one.

That a process cannot be held does not say that it is gone: its run goes on. Each second, and only
while there are such processes, each is looked for by its number and its start, until it can be
held or has ended. Only descriptors that others can do without are kept; to look takes one for a
moment.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable

from crond_py.ports import Clock
from crond_py.runner import pidfds
from crond_py.runner.child import Child

AGAIN_NS = 1_000_000_000

log = logging.getLogger(__name__)


class Unheld:
    """Those that are looked for. ``look`` is for one thread, ``add`` for any.

    ``hold`` takes a descriptor over, or closes it and returns False where it cannot be kept.
    """

    def __init__(self, clock: Clock, hold: Callable[[Child, int], bool]) -> None:
        self._clock = clock
        self._hold = hold
        self._children: set[Child] = set()
        self._next_ns = 0

    def add(self, child: Child) -> None:
        """Look for a process from now on."""
        if not self._children:
            log.warning(
                "no descriptor is left to watch all that an earlier pycron has started;"
                " what goes without is looked for each second"
            )
        self._children.add(child)

    def patience_s(self) -> float | None:
        """Return how long there is until the next look, None where none is needed."""
        if not self._children:
            return None
        return max(0, self._next_ns - self._clock.monotonic_ns()) / 1e9

    def look(self) -> list[Child]:
        """Look for each if it is time to; return those that have ended."""
        if self.patience_s() != 0:
            return []
        self._next_ns = self._clock.monotonic_ns() + AGAIN_NS
        ended = []
        for child in self._children.copy():
            try:
                has_ended = self._has_ended(child)
            except OSError:  # nothing can be seen at the moment
                continue
            if has_ended or child.pidfd is not None:
                self._children.discard(child)
            if has_ended:
                ended.append(child)
        return ended

    def _has_ended(self, child: Child) -> bool:
        """Hold a process, unless it has ended: then learn how, if that is told."""
        pidfd = pidfds.open_verified(child.pid, child.start_ticks)
        if pidfd is None:
            return True
        if not pidfds.has_ended(pidfd):
            self._hold(child, pidfd)
            return False
        try:
            child.exit = pidfds.exit_of_other(pidfd, child.pid, child.start_ticks)
        finally:
            os.close(pidfd)
        return True
