"""Brand the processes of an attempt, by a limit of theirs that limits nothing (see ``marks``).

A limit is inherited by fork, and belongs to a whole process and not to one of its threads. So the
daemon takes the brand on itself for the moment in which it starts a process, and one start at a
time is in that moment. Thus no process of the attempt, however quick, is without it.
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_RLIMIT_LOCKS = 10  # asm-generic/resource.h; Python has no name for it

# A start takes a millisecond. One that still hangs after this has forked, since what can hang comes
# later (a directory on a dead disk), so that its turn is over.
_PATIENCE_S = 0.1


class Branding:
    """Gives the turns in which processes are started, each with a brand of its own."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._turn = threading.Lock()
        self._soft, self._hard = resource.getrlimit(_RLIMIT_LOCKS)

    @contextmanager
    def put(self, brand: int | None) -> Iterator[None]:
        """Have what is started within this context carry a brand; None: none.

        Where the daemon's hard limit does not allow for it, it goes without.
        """
        turn = self._take_turn()
        try:
            if brand is not None:
                self._set(brand)
            try:
                yield
            finally:
                self._set(self._soft)
        finally:
            turn.release()

    def _set(self, soft: int) -> None:
        with suppress(OSError, ValueError):
            resource.setrlimit(_RLIMIT_LOCKS, (soft, self._hard))

    def _take_turn(self) -> threading.Lock:
        while True:
            with self._guard:
                turn = self._turn
            if turn.acquire(timeout=_PATIENCE_S):
                return turn
            with self._guard:
                if self._turn is turn:
                    self._turn = threading.Lock()


BRANDING = Branding()
"""The one of this process, as its limits are one."""
