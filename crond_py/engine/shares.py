"""Fair shares of the slots: whose run is next when more waits than can run.

Runs belong to groups. A group's share of the slots that are in use is in proportion to its weight:
the next slot goes to the group that has the fewest in use for its weight, and among equals to the
one that has been given the fewest, by weight, so that one slot alone is shared fairly over time.
Within a group the earlier due goes first.

Not responsible for how many slots there are (``pools``), nor for priorities: each pool has a
``Line`` for each priority.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import field

from crond_py.crontab.model import Group
from crond_py.dataclass import dataclass
from crond_py.engine.records import ActiveRun

_FEW = 64


@dataclass(slots=True, eq=False)
class Share:
    """A group and its slots of all pools: how many are in use; how many, by weight, were given."""

    group: Group
    in_use: int = 0
    given: float = 0.0
    lines: dict[Line, None] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether the group may have no more slots."""
        ceiling = self.group.max_running
        return ceiling is not None and self.in_use >= ceiling

    @property
    def rank(self) -> tuple[float, float]:
        """What the lowest of goes first."""
        return self.in_use / self.group.weight, self.given

    def take(self) -> None:
        """Note that a run of the group has got a slot."""
        self.in_use += 1
        self.given += 1 / self.group.weight
        self.note_change()

    def give_back(self) -> None:
        """Note that a run of the group has let go of its slot."""
        self.in_use -= 1
        self.note_change()

    def note_change(self) -> None:
        """Have the group's place in the lines that it stands in looked at again."""
        for line in self.lines:
            line.place(self)


@dataclass(slots=True, eq=False)
class Ticket:
    """A place in a line since some instant of the monotonic clock.

    It is void once the run has got its slot or waits elsewhere.
    """

    run: ActiveRun
    share: Share
    priority: int
    since_ns: int
    is_void: bool = False


class Line:
    """The groups that wait for the slots of one pool at one priority, and their runs.

    ``is_valid`` tells whether a ticket's run still waits here. A group's place is a heap entry with
    the rank it had; when the rank changes, a new entry is made and the old one dropped when met.
    """

    def __init__(self, is_valid: Callable[[Ticket], bool]) -> None:
        self._is_valid = is_valid
        self._runs: dict[Share, list[tuple[object, int, Ticket]]] = {}
        self._order: list[tuple[tuple[float, float], int, Share]] = []
        self._newest: dict[Share, int] = {}
        self._count = 0
        self._served = 0.0

    def add(self, ticket: Ticket) -> None:
        """Let a run wait."""
        share = ticket.share
        self._count += 1
        runs = self._runs.get(share)
        if runs is None:
            # A group that did not wait has saved nothing up by that.
            share.given = max(share.given, self._served)
            runs = self._runs[share] = []
            share.lines[self] = None
            self.place(share)
        heapq.heappush(runs, (ticket.run.run.due, self._count, ticket))

    @property
    def is_empty(self) -> bool:
        """Whether no group stands in it."""
        return not self._runs

    def first(self) -> Ticket | None:
        """Return the ticket whose turn it is, or None where nobody may go now."""
        while self._order:
            rank, number, share = self._order[0]
            if self._newest.get(share) != number:
                heapq.heappop(self._order)
                continue
            if (ticket := self._first_of(share)) is None:
                self._leave(share)
            elif share.is_full:
                heapq.heappop(self._order)
                del self._newest[share]  # its place is made anew when it has given a slot back
            elif rank != share.rank:
                self.place(share)
            else:
                return ticket
        return None

    def note_served(self, share: Share) -> None:
        """Note whose turn it was, before that group's slot is counted."""
        self._served = max(self._served, share.given)

    def place(self, share: Share) -> None:
        """Enter a group by the rank that it has now."""
        if share.is_full:
            self._newest.pop(share, None)
            return
        self._count += 1
        self._newest[share] = self._count
        heapq.heappush(self._order, (share.rank, self._count, share))
        if len(self._order) > max(_FEW, 2 * len(self._runs)):
            self._order = [each for each in self._order if self._newest.get(each[2]) == each[1]]
            heapq.heapify(self._order)

    def _first_of(self, share: Share) -> Ticket | None:
        runs = self._runs[share]
        while runs and not self._is_valid(runs[0][2]):
            heapq.heappop(runs)
        return runs[0][2] if runs else None

    def _leave(self, share: Share) -> None:
        del self._runs[share]
        self._newest.pop(share, None)
        share.lines.pop(self, None)
