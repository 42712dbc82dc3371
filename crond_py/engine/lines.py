"""The line in front of a pool's slots, at one priority: the groups that wait, and their runs.

Whose turn it is: the group that has used least (``shares``), of those that may have another slot;
among equals the one that came first. Within a group the earlier due goes first.

One that comes to wait begins with as much as the least of those that wait has used, so that it does
not wait for a crowd. Were that all, ever new groups would keep out one that has used something for
good. So there is an average, too: what all that wait or have slots use, by their weights. Where
that is more it begins with that, but ``MOST_BEHIND_S`` behind the least at most.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from crond_py.dataclass import dataclass
from crond_py.engine.records import ActiveRun
from crond_py.engine.shares import START_S, Stake

MOST_BEHIND_S = 5.0
"""How far behind the least a group begins at most, in seconds of a slot, by weight."""

_FEW = 64


@dataclass(slots=True, eq=False)
class Ticket:
    """A place in a line since some instant of the monotonic clock.

    It is void once the run has got its slot or waits elsewhere.
    """

    run: ActiveRun
    stake: Stake
    priority: int
    since_ns: int
    is_void: bool = False


@dataclass(slots=True, eq=False)
class Place:
    """A group in a line: its runs that wait, and what it has used of the slots since it came.

    ``used_s`` is in seconds of a slot, divided by the group's weight, as of ``settled_ns``.
    ``number`` is that of its entry in the line's heap; 0: it has none. ``weight`` and ``slots`` are
    what the line's average counts of it.
    """

    stake: Stake
    runs: list[tuple[object, int, Ticket]]
    used_s: float
    settled_ns: int
    number: int = 0
    weight: float = 0.0
    slots: int = 0

    def used_by(self, now_ns: int) -> float:
        """Return what is used up to now, with that of runs that go on."""
        if not self.stake.in_use:
            return self.used_s
        rate = self.stake.in_use / self.stake.share.group.weight
        return self.used_s + rate * (now_ns - self.settled_ns) / 1e9

    def settle(self, now_ns: int) -> None:
        """Count what is used up to now."""
        self.used_s = self.used_by(now_ns)
        self.settled_ns = now_ns


class Line:
    """Groups that wait for the slots of one pool at one priority.

    ``is_valid`` tells whether a ticket's run still waits here. Groups without a slot of this pool
    stand in a heap; what the others have used grows, so those are compared each time: they are no
    more than there are slots. A place without runs is kept as long as it has used more than others.
    """

    def __init__(self, is_valid: Callable[[Ticket], bool]) -> None:
        self._is_valid = is_valid
        self._places: dict[Stake, Place] = {}
        self._still: list[tuple[float, int, Place]] = []
        self._using: dict[Place, None] = {}
        self._average_s = 0.0
        self._average_ns = 0
        self._weight = 0.0  # of all that stand in line and may go, or have slots
        self._counted = 0  # how many of them there are
        self._slots = 0  # of the pool that groups use which have a place
        self._count = 0
        self._standing = 0  # places with runs
        self._tickets = 0  # with those that are not valid any more
        self._tidy_tickets_at = self._tidy_places_at = _FEW

    def add(self, ticket: Ticket, now_ns: int) -> None:
        """Let a run wait."""
        stake = ticket.stake
        place = self._places.get(stake)
        if place is None:
            place = self._places[stake] = stake.places[self] = Place(stake, [], 0.0, now_ns)
        is_new = not place.runs
        self._count += 1
        self._tickets += 1
        heapq.heappush(place.runs, (ticket.run.run.due, self._count, ticket))
        if is_new:
            self._standing += 1
            self.enter(place, now_ns)
        if self._tickets > self._tidy_tickets_at:
            self._tidy_tickets()

    @property
    def is_empty(self) -> bool:
        """Whether no group stands in it."""
        return not self._standing

    def close(self) -> None:
        """Forget all that was used: nobody stands in line."""
        for stake in self._places:
            stake.leave(self)
        self._places.clear()

    def first(self, now_ns: int) -> Ticket | None:
        """Return the ticket whose turn it is, or None where nobody may go now."""
        while (place := self._least(now_ns)) is not None:
            if (ticket := self._first_of(place)) is not None:
                return ticket
            self._is_done(place)
        # What is left is of full groups, and of these some may have nobody who waits.
        for place in [each for each in self._places.values() if each.runs]:
            if self._first_of(place) is None:
                self._is_done(place)
        return None

    def enter(self, place: Place, now_ns: int) -> None:
        """Find a group's place anew, by what it has in use and has used; a full group has none."""
        was_there = place in self._using or place.number != 0
        self._using.pop(place, None)
        place.number = 0
        self._bring_up_to(now_ns)
        if not place.runs or place.stake.share.is_full:
            self._count_in(place)
            return
        if not was_there:
            place.settle(now_ns)
            place.used_s = max(place.used_s, self._level(now_ns))
        self._count_in(place)
        if place.stake.in_use:
            self._using[place] = None
            return
        self._count += 1
        place.number = self._count
        heapq.heappush(self._still, (place.used_s, self._count, place))
        if len(self._still) > max(_FEW, 2 * len(self._places)):
            self._still = [each for each in self._still if each[2].number == each[1]]
            heapq.heapify(self._still)

    def _least(self, now_ns: int) -> Place | None:
        """Return the place that has used least, of those that may go."""
        while self._still and self._still[0][2].number != self._still[0][1]:
            heapq.heappop(self._still)
        least = self._still[0][2] if self._still else None
        for place in self._using:
            if least is None or place.used_by(now_ns) < least.used_by(now_ns):
                least = place
        return least

    def note_start(self, now_ns: int) -> None:
        """Count a start of a group that has a place in the average."""
        self._bring_up_to(now_ns)
        if self._weight:
            self._average_s += START_S / self._weight

    def _bring_up_to(self, now_ns: int) -> None:
        """Count in the average what is used up to now."""
        if self._weight:
            self._average_s += self._slots / self._weight * (now_ns - self._average_ns) / 1e9
        self._average_ns = now_ns

    def _count_in(self, place: Place) -> None:
        """Have the average count what a group now weighs and uses."""
        stake = place.stake
        stands = bool(place.runs) and not stake.share.is_full
        weight = stake.share.group.weight if stands or stake.in_use else 0.0
        self._counted += (weight > 0) - (place.weight > 0)
        self._weight = self._weight + weight - place.weight if self._counted else 0.0
        self._slots += stake.in_use - place.slots
        place.weight, place.slots = weight, stake.in_use

    def _level(self, now_ns: int) -> float:
        """Return what a group is taken to have used that comes to wait."""
        least = self._least(now_ns)
        if least is None:
            return self._average_s
        least_s = least.used_by(now_ns)
        return min(max(least_s, self._average_s), least_s + MOST_BEHIND_S)

    def _first_of(self, place: Place) -> Ticket | None:
        while place.runs and not self._is_valid(place.runs[0][2]):
            heapq.heappop(place.runs)
            self._tickets -= 1
        return place.runs[0][2] if place.runs else None

    def _is_done(self, place: Place) -> None:
        """Take a place whose last run has gone out of the turn."""
        self._using.pop(place, None)
        place.number = 0
        self._count_in(place)
        self._standing -= 1
        if len(self._places) > self._tidy_places_at:
            for each in list(self._done()):
                del self._places[each.stake]
                each.stake.leave(self)
            self._tidy_places_at = max(_FEW, 2 * len(self._places))

    def _done(self) -> Iterator[Place]:
        """Yield the places that make no difference any more."""
        for place in self._places.values():
            if not place.runs and not place.stake.in_use and place.used_s <= self._average_s:
                yield place

    def _tidy_tickets(self) -> None:
        """Let go of those that are void in the midst, before they are half of all."""
        for place in list(self._places.values()):
            if not place.runs:
                continue
            place.runs = [each for each in place.runs if self._is_valid(each[2])]
            heapq.heapify(place.runs)
            if not place.runs:
                self._is_done(place)
        self._tickets = sum(len(place.runs) for place in self._places.values())
        self._tidy_tickets_at = max(_FEW, 2 * self._tickets)
