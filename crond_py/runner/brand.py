"""Brand the processes of an attempt, by a limit of theirs that limits nothing (see ``marks``).

A limit is inherited by fork, and belongs to a whole process and not to one of its threads. So the
daemon takes the brand on itself for the moment in which it starts a process, and one start at a
time is in that moment. Thus no process of the attempt, however quick, is without it.

A start that takes long loses its turn to the next, whether it has forked or not. So each child is
looked at afterwards and given the brand that it should have. What it has forked by then may carry
another start's; the environment tells that it is not of that (see ``marks``).
"""

from __future__ import annotations

import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_RLIMIT_LOCKS = 10  # asm-generic/resource.h; Python has no name for it

# A start takes a millisecond. One that still hangs after this has most likely forked, since what
# can hang comes later (a directory on a dead disk), so its turn is over.
_PATIENCE_S = 0.1


class Branding:
    """Gives the turns in which processes are started, each with a brand of its own."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._turn = threading.Lock()
        self._soft, self._hard = resource.getrlimit(_RLIMIT_LOCKS)
        self._has_lost_turns = False

    @property
    def is_sure(self) -> bool:
        """Whether no process can have another start's brand, as none has lost its turn yet."""
        return not self._has_lost_turns

    @contextmanager
    def put(self, brand: int | None) -> Iterator[None]:
        """Have what is started within this context carry a brand; None: what we have ourselves.

        Where the daemon's hard limit does not allow for it, it goes without.
        """
        turn = self._take_turn()
        try:
            # Without a brand, too: a start that hangs in a lost turn has left us with its own.
            self._set_in_turn(turn, self._soft if brand is None else brand)
            try:
                yield
            finally:
                self._set_in_turn(turn, self._soft)
        finally:
            turn.release()

    def correct(self, pid: int, brand: int | None) -> None:
        """Give a child the brand it should have, where another start has had the turn meanwhile.

        The child has ended or may not be changed (it runs a program of another user's): then it
        stays as it is.
        """
        soft = self._soft if brand is None else brand
        with suppress(OSError, ValueError):
            if resource.prlimit(pid, _RLIMIT_LOCKS)[0] != soft:
                resource.prlimit(pid, _RLIMIT_LOCKS, (soft, self._hard))

    def _set_in_turn(self, turn: threading.Lock, soft: int) -> None:
        """Set our own limit, unless the turn is another start's by now."""
        with self._guard, suppress(OSError, ValueError):
            if self._turn is turn:
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
                    self._has_lost_turns = True


BRANDING = Branding()
"""The one of this process, as its limits are one."""
