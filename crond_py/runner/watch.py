"""What those that end trees need of the one that watches processes."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Protocol

from crond_py.runner.child import Child
from crond_py.runner.orphans import Hunt
from crond_py.runner.proctree import Process, Snapshot


class Watch(Protocol):
    """What the ender needs of the supervisor."""

    def members_of(self, child: Child) -> dict[int, int]:
        """Return the start ticks of the members under watch, by pid."""
        ...

    def orphans_of(self, child: Child) -> dict[int, int]:
        """Return the start ticks of our orphans that are of a child's tree, by pid."""
        ...

    def strays_of(self, child: Child) -> dict[int, int]:
        """Return the start ticks of what may be of a child's run, or of another, by pid."""
        ...

    def sees_orphans(self, child: Child) -> bool:
        """Return whether all that a child leaves is, or descends from, an orphan of ours.

        So it is known after a look for these that has not failed, and to a hunt.
        """
        ...

    def look_after_orphans(self, picture: Callable[[], Snapshot] | None = None) -> None:
        """Reap our orphans, and have those that live watched.

        ``picture`` gives all processes, where these are needed. What it raises is raised, and what
        else keeps it from looking: that is noted, and there is another look in a while.
        """
        ...

    def hunt(self, child: Child, *, kill: bool) -> Hunt:
        """Find, and perhaps kill, what of a child's run is our child and not under watch."""
        ...

    def add_member(self, child: Child, pidfd: int, process: Process) -> bool:
        """Watch a further member, if that can be done; the descriptor is the watch's."""
        ...

    def linger(self, child: Child, count: int) -> None:
        """Tell, once, that a child has ended and has left so many that are to be ended."""
        ...

    def finish(self, child: Child, note: str, *, seen: signal.Signals | None) -> None:
        """Tell that the child has ended, if it and its members have.

        Not so where by now another stop is asked for than the one that was ``seen`` before the
        look: what is left was found with that in mind, and there is another look to come.
        """
        ...
