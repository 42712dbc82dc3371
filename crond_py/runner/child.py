"""What is known of one process under watch."""

from __future__ import annotations

import signal
from dataclasses import field

from crond_py.dataclass import dataclass
from crond_py.model import Exit, Leftovers
from crond_py.ports import AttemptKey
from crond_py.runner.descent import Root
from crond_py.runner.marks import Marks
from crond_py.runner.proctree import Process


@dataclass(slots=True, eq=False)
class Child:
    """A process that was started or adopted here and, once it is to be ended, its tree.

    Changed only under the supervisor's lock, but for ``users``, which may get known late, and
    ``sent``, ``sent_to_all``, ``group_reached``, ``unwatched``, ``spared``, ``was_rechecked``,
    ``had_doubts`` and ``hunts``, which are the ender's own.

    ``pid`` 0: the leader is long gone and only some of its tree is left. ``pidfd`` is None there,
    and where descriptors were short: then a thread waits for it, or it is looked for (``unheld``).
    ``is_own``: it is our child, so only we reap it; until then its number, and those of the process
    group and session it leads, are given to nobody else. ``is_adopted``: an earlier daemon started
    it.

    ``stop`` is the strongest signal asked for, ``sent`` the one sent to the leader, to all of its
    group if that is ``group_reached``, and ``sent_to_all`` the one sent to what else was found.
    ``members`` are descendants under watch by their pidfds, each with its pid and start;
    ``unwatched`` are those for which no descriptor was left, by pid, each with its start and
    whether it is owed a signal; ``spared`` those that we may not signal, start by pid.
    ``output`` is the file that it was started to write to, and nobody else.
    ``users`` are those whose processes are believed when they show the run's marks, as every local
    user can read and take these; None: all are.
    ``is_lingering``: the leader has ended by itself, and what it left is to be ended.
    ``was_rechecked``: once nothing was found any more there was another look, since the first may
    have missed some. ``had_doubts``: there was one, since the present stop, for what may be of the
    run or of another. ``hunts`` counts how often, after SIGKILL, some of it got away from a hunt.
    """

    key: AttemptKey
    tag: str
    pid: int
    start_ticks: int | None
    pidfd: int | None
    is_own: bool
    is_adopted: bool = False
    users: frozenset[int] | None = None
    leftovers: Leftovers = Leftovers.LEAVE
    output: str | None = None
    memory_floor_kb: int = 0
    stop: signal.Signals | None = None
    has_ended: bool = False
    is_lingering: bool = False
    is_done: bool = False
    exit: Exit | None = None
    members: dict[int, tuple[int, int]] = field(default_factory=dict)
    sent: signal.Signals | None = None
    sent_to_all: signal.Signals | None = None
    group_reached: int | None = None
    unwatched: dict[int, tuple[int, bool]] = field(default_factory=dict)
    spared: dict[int, int] = field(default_factory=dict)
    was_rechecked: bool = False
    had_doubts: bool = False
    hunts: int = 0

    @property
    def root(self) -> Root:
        """Return where its tree begins."""
        return Root(
            self.pid,
            self.start_ticks or 0,
            self.tag,
            self.key.number,
            is_pinned=self.is_own,
            users=self.users,
            has_earlier=self.ends_earlier,
        )

    @property
    def ends_earlier(self) -> bool:
        """Return whether what earlier attempts of its run have left is to be ended with it."""
        return self.stop is not None and self.key.number > 1

    @property
    def leaves_nothing(self) -> bool:
        """Return whether nothing of it is to be left when it is over."""
        return self.stop is not None or self.leftovers is Leftovers.KILL

    @property
    def tree_is_gone(self) -> bool:
        """Return whether it and all of its tree that can be waited for have ended."""
        return self.has_ended and all(
            self.spared.get(pid) == ticks for pid, ticks in self.members.values()
        )

    def is_named_by(self, marks: Marks) -> bool:
        """Return whether marks are those of this tree."""
        return marks.name(self.tag, self.key.number, or_earlier=self.ends_earlier)

    def has_marked(self, process: Process, marks: Marks) -> bool:
        """Return whether a process shows that it is of this tree."""
        if self.is_named_by(marks):
            return True
        if (process.pid, process.start_ticks) in tuple(self.members.values()):
            return True
        return self.is_own and self.pid in {process.session, process.group}
