"""When our children are to be looked at though nothing that is under watch has ended.

What loses its parent comes to us, and may have ended before anybody has met it. Of that only a
signal tells, SIGCHLD, whose handler belongs to the main thread. After one there is a glance, but
not more than one a second (one in ten where it takes a picture of all processes), or fifty where
orphans come fast, so that few process numbers are taken by the dead; then one more, for what those
have left that it met. One that fails is made again. Where nothing ends nothing wakes.

Without the signal, since we were not opened by the main thread, there are such glances as long as
something is there that may leave orphans.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from typing import Any, Final

from crond_py.ports import Clock
from crond_py.runner import procfile
from crond_py.runner.orphans import Orphans

_GLANCE_S: Final = 1.0
_PICTURE_S: Final = 10.0  # the same where it takes a look at all processes
_SOON_S: Final = 0.02


class Glances:
    """Says when the next one is due. ``wake`` has that asked anew, and may be called anywhere.

    It is told of each look (``begins``), also of those that are made for another reason.
    """

    def __init__(self, orphans: Orphans, clock: Clock, wake: Callable[[], None]) -> None:
        self._orphans = orphans
        self._clock = clock
        self._wake = wake
        self._begun_ns = 0
        self._is_wanted = True  # some may have ended before
        self._before: Any = None
        self.hears = False
        """Whether the signal tells."""

    def open(self) -> None:
        """Hear the signal, if this is the main thread."""
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGCHLD, self._hear)
            signal.siginterrupt(signal.SIGCHLD, False)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            self.hears = True

    def close(self) -> None:
        """Hear nothing more; in the main thread, have the signal do again what it did before."""
        was_hearing, self.hears = self.hears, False
        if was_hearing and threading.current_thread() is threading.main_thread():
            # None: it was no handler of Python's, which cannot be put back.
            signal.signal(signal.SIGCHLD, self._before or signal.SIG_DFL)

    def _hear(self, _number: int, _frame: object) -> None:
        if self.hears:
            self.want()

    def want(self) -> None:
        """Have one made, since something has ended, or since a look was not made as it should."""
        if not self._is_wanted:
            self._is_wanted = True
            self._wake()

    def begins(self) -> None:
        """Note that a look begins: what ends from now on is a reason for another one."""
        self._is_wanted = False
        self._begun_ns = self._clock.monotonic_ns()

    def patience_s(self, *, are_children: bool) -> float | None:
        """Return how long there is until the next one; None where none is needed."""
        is_wanted = self._is_wanted
        if not self.hears:
            is_wanted |= are_children or self._orphans.are_there
        if not is_wanted and not self._orphans.want_another_look:
            return None
        interval_s = _GLANCE_S if procfile.tells_children() else _PICTURE_S
        if self._orphans.come_fast:
            interval_s = _SOON_S
        return max(0.0, interval_s - (self._clock.monotonic_ns() - self._begun_ns) / 1e9)
