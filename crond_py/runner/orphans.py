"""Reaps the orphans of others, which become our children where we are pid 1.

As the first process of a container, the daemon is the parent of whatever its jobs leave behind,
and only it can reap that. Waiting for any child would now and then take the exit status of a
job; so each child is looked at by its number and reaped only if it is certainly no job of ours.

A child that is just being started is not in the table yet. One that is not in the table is
therefore an orphan once every start that was going on when it was first seen is over.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path

from crond_py.runner import proctree


class OrphanReaper:
    """Finds and reaps children that are not in ``own_pids()``."""

    def __init__(self, own_pids: Callable[[], set[int]]) -> None:
        self._own_pids = own_pids
        self._lock = threading.Lock()
        self._next_token = 0
        self._starts: set[int] = set()
        self._suspects: dict[int, set[int]] = {}

    def start_begins(self) -> int:
        """Note that a process is about to be started; returns what ``start_is_over`` wants."""
        with self._lock:
            self._next_token += 1
            self._starts.add(self._next_token)
            return self._next_token

    def start_is_over(self, token: int) -> bool:
        """Note that a started process is in the table, or that there is none.

        Returns whether ``reap`` should be called now, because some child waits for a verdict.
        """
        with self._lock:
            self._starts.discard(token)
            return bool(self._suspects)

    def reap(self) -> list[int]:
        """Reap all orphans that have ended, and return those that live."""
        # A start that is over before the lock is taken has its child in the table, and one that
        # begins after this line has none among these children.
        children = list_children()
        with self._lock:
            own = self._own_pids()
            self._suspects = {
                pid: self._suspects.get(pid, self._starts) & self._starts
                for pid in children
                if pid not in own
            }
            orphans = [pid for pid, starts in self._suspects.items() if not starts]
        return [pid for pid in orphans if _still_lives(pid)]


def list_children() -> list[int]:
    """Return the pids of our children, zombies included."""
    me = os.getpid()
    try:
        found = [path.read_text("ascii") for path in Path("/proc/self/task").glob("*/children")]
    except OSError:  # a thread has just left
        found = []
    if found:
        return [int(pid) for text in found for pid in text.split()]
    # A kernel without CONFIG_PROC_CHILDREN.
    return [p.pid for p in proctree.Snapshot.take().processes.values() if p.parent == me]


def _still_lives(pid: int) -> bool:
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG) is None
    except ChildProcessError:
        return False
