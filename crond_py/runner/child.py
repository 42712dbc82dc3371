"""What is known of one process under watch."""

from __future__ import annotations

import signal
from dataclasses import dataclass, field

from crond_py.model import Exit
from crond_py.ports import AttemptKey
from crond_py.runner.proctree import Root


@dataclass(slots=True, eq=False)
class Child:
    """A process that was started or adopted here and, once it is to be stopped, its tree.

    Changed only under the supervisor's lock, but for ``sent``, ``unwatched`` and
    ``was_rechecked``, which are the ender's own.

    ``pidfd`` is None where descriptors were short: then a thread waits for it. ``is_own``: it is
    our child, so only we reap it; until then its number, and those of the process group and
    session it leads, are given to nobody else.

    ``stop`` is the strongest signal asked for, ``sent`` the one sent. ``members`` are descendants
    under watch by their pidfds, each with its pid and start; ``unwatched`` are those for which no
    descriptor was left, start by pid.
    """

    key: AttemptKey
    tag: str
    pid: int
    start_ticks: int | None
    pidfd: int | None
    is_own: bool
    memory_floor_kb: int = 0
    stop: signal.Signals | None = None
    has_ended: bool = False
    is_done: bool = False
    exit: Exit | None = None
    members: dict[int, tuple[int, int]] = field(default_factory=dict)
    sent: signal.Signals | None = None
    unwatched: dict[int, int] = field(default_factory=dict)
    was_rechecked: bool = False

    @property
    def root(self) -> Root:
        """Return where its tree begins."""
        return Root(self.pid, self.start_ticks or 0, self.tag, is_pinned=self.is_own)

    @property
    def tree_is_gone(self) -> bool:
        """Return whether it and all of its tree that is under watch have ended."""
        return self.has_ended and not self.members
