"""Processes that the daemon starts for itself. They are of no run, and never taken for one's.

Three things tell what belongs to runs, and each would take in what is no job, too: the brand, which
the daemon carries itself for the moment of a start (see ``brand``); being a child of ours that is
not in the table of jobs (see ``orphans``); and marks that we have ourselves, where a job of ours
has started us anew. So what is no job is started here, in a turn of its own that has no brand;
and until it has been waited for, no picture of the processes shows it.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from crond_py.runner.brand import BRANDING

_UNHEARD: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that may go to all processes of the daemon, and are meant for the daemon."""


class Errand:
    """A process that was started; see ``ports.Errand``. To be waited for, once."""

    def __init__(self, errands: Errands, pid: int) -> None:
        self._errands = errands
        self.pid = pid

    def wait(self) -> int | None:
        """Wait for the end, and return how it was; None where nobody knows."""
        try:
            _, status = os.waitpid(self.pid, 0)
        except ChildProcessError:  # we were started with SIGCHLD ignored: nothing is kept
            return None
        finally:
            self._errands.forget(self.pid)
        return os.waitstatus_to_exitcode(status)

    def kill(self) -> None:
        """End it at once; its number is its own until it has been waited for."""
        with suppress(ProcessLookupError):  # SIGCHLD is ignored, and it has ended
            os.kill(self.pid, signal.SIGKILL)


class Errands:
    """Starts them, and knows which there are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pids: set[int] = set()

    def start(self, argv: Sequence[str], stdout: int) -> Errand:
        """Start a program with our environment; its complaints go where ours go.

        Raises OSError.
        """

        def spawn() -> int:
            with BRANDING.put(None):
                return os.posix_spawn(
                    argv[0],
                    list(argv),
                    os.environ,
                    file_actions=[(os.POSIX_SPAWN_DUP2, stdout, 1)],
                    setsigmask=_UNHEARD,
                )

        pid = self.begin(spawn)
        BRANDING.correct(pid, None)
        return Errand(self, pid)

    def begin(self, spawn: Callable[[], int]) -> int:
        """Start a process by ``spawn``, without a brand, and return its pid.

        Whoever waits for it has it forgotten. Raises what ``spawn`` raises.
        """
        # Whoever has seen the process before it is noted here waits for the lock.
        with self._lock:
            pid = spawn()
            self._pids.add(pid)
            return pid

    def forget(self, pid: int) -> None:
        """Note that a process has been waited for, so that its number means nothing any more."""
        with self._lock:
            self._pids.discard(pid)

    def pids(self) -> frozenset[int]:
        """Return which there are. To be asked after a look at the processes, never before it."""
        with self._lock:
            return frozenset(self._pids)


ERRANDS: Final = Errands()
"""Those of this process."""
