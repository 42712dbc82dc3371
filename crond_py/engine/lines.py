"""The line in front of a pool's slots, at one priority: the groups that wait, and their runs.

Whose turn it is: the group that has used least (``shares``), of those that may have another slot;
among equals the one that came first. Within a group the earlier due goes first.

One that comes to wait begins with as much as the least of those that wait has used, so that it does
not wait for a crowd. Were that all, ever new groups would keep out one that has used something for
good. So there is an average, too: what all that wait or have slots use, by their weights. Where
that is more it begins with that, but ``MOST_BEHIND_S`` behind the least at most.

In a line that grows and grows the average hardly rises. So of the groups that stand without a slot
the one that has stood longest is passed by those that came later only until they, all together,
have used ``MOST_PASSED`` times as much as it is ahead of the least; then it is level with that, and
next. However many come, a group waits no longer than it takes to serve those that were there, and
``MOST_PASSED`` times what it, and each that has stood longer, is ahead.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import field

from crond_py.dataclass import dataclass
from crond_py.engine.records import ActiveRun
from crond_py.engine.shares import START_S, Stake

MOST_BEHIND_S = 5.0
"""How far behind the least a group begins at most, in seconds of a slot, by weight."""

MOST_PASSED = 10
"""How many times what a group is ahead of the least later-come ones may use before its turn."""

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
    ``by_age`` has the same runs as they came.
    ``number`` is that of its entry in a heap of the line; 0: it has none. ``came`` is the number at
    which it last came to wait. ``weight`` and ``slots`` are what the line's average counts of it.
    """

    stake: Stake
    runs: list[tuple[object, int, Ticket]]
    used_s: float
    settled_ns: int
    number: int = 0
    came: int = 0
    weight: float = 0.0
    slots: int = 0
    by_age: deque[Ticket] = field(default_factory=deque)

    def used_by(self, now_ns: int) -> float:
        """Return what is used up to now, with that of runs that go on."""
        if not self.stake.in_use:
            return self.used_s
        return self.used_s + self.rate * (now_ns - self.settled_ns) / 1e9

    @property
    def rate(self) -> float:
        """How fast that grows."""
        return self.stake.in_use / self.stake.share.group.weight

    def settle(self, now_ns: int) -> float:
        """Count what is used up to now, and return how much is new of it."""
        before_s = self.used_s
        self.used_s = self.used_by(now_ns)
        self.settled_ns = now_ns
        return self.used_s - before_s


class Line:
    """Groups that wait for the slots of one pool at one priority.

    ``is_valid`` tells whether a ticket's run still waits here. What groups have used grows by how
    many slots they have, for their weight. Those for which it grows as fast stand in one heap, as
    which of them has used less stays as it is; only the first of each heap are compared. A place
    without runs is kept as long as it has used more than others.
    """

    def __init__(self, is_valid: Callable[[Ticket], bool]) -> None:
        self._is_valid = is_valid
        self._places: dict[Stake, Place] = {}
        self._heaps: dict[float, list[tuple[float, int, Place]]] = {}  # by how fast use grows
        self._without: OrderedDict[Place, None] = OrderedDict()  # who may go and has no slot
        self._full: OrderedDict[Place, None] = OrderedDict()  # who waits and may not go
        self._by_age: list[tuple[int, int, Place]] = []  # since when the first of each waits
        self._passed_s = 0.0  # what has been used by who came after the first of those without
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
        self._add_by_age(place, ticket)
        if self._tickets > self._tidy_tickets_at:
            self._tidy_tickets(now_ns)

    def oldest(self) -> Ticket | None:
        """Return the ticket of the run that waits longest, of those that may go."""
        while self._by_age:
            since_ns, _, place = self._by_age[0]
            ticket = self._oldest_of(place) if place.number else None
            if ticket is not None and ticket.since_ns == since_ns:
                return ticket
            heapq.heappop(self._by_age)
            if ticket is not None:
                self._push_by_age(place, ticket)
        return None

    def first_of_group(self, ticket: Ticket) -> Ticket | None:
        """Return whose turn it is of the group of one that waits."""
        return self._first_of(self._places[ticket.stake])

    def _add_by_age(self, place: Place, ticket: Ticket) -> None:
        oldest = self._oldest_of(place)
        if place.by_age and ticket.since_ns < place.by_age[-1].since_ns:
            insort(place.by_age, ticket, key=_since)  # it has waited elsewhere
        else:
            place.by_age.append(ticket)
        if len(place.by_age) > max(_FEW, 2 * len(place.runs)):
            place.by_age = deque(filter(self._is_valid, place.by_age))
        if place.number and (oldest is None or ticket.since_ns < oldest.since_ns):
            self._push_by_age(place, ticket)

    def _push_by_age(self, place: Place, oldest: Ticket) -> None:
        heapq.heappush(self._by_age, (oldest.since_ns, place.number, place))
        if len(self._by_age) > max(_FEW, 2 * len(self._places)):
            self._by_age = []
            for each in self._places.values():
                if each.number and (ticket := self._oldest_of(each)) is not None:
                    self._by_age.append((ticket.since_ns, each.number, each))
            heapq.heapify(self._by_age)

    def _oldest_of(self, place: Place) -> Ticket | None:
        while place.by_age and not self._is_valid(place.by_age[0]):
            place.by_age.popleft()
        return place.by_age[0] if place.by_age else None

    @property
    def is_empty(self) -> bool:
        """Whether no group stands in it."""
        return not self._standing

    @property
    def is_on_the_move(self) -> bool:
        """Whether some group stands in it that may go."""
        return self._standing > len(self._full)

    def close(self) -> None:
        """Forget all that was used: nobody stands in line."""
        for stake in self._places:
            stake.leave(self)
        self._places.clear()

    def first(self, now_ns: int) -> Ticket | None:
        """Return the ticket whose turn it is, or None where nobody may go now."""
        while (place := self._least(now_ns)) is not None:
            if (ticket := self._first_of(place)) is None:
                self._is_done(place, now_ns)
            elif not self._make_good(place, now_ns):
                return ticket
        # What is left is of full groups, and of these some may have nobody who waits.
        while self._full:
            place = next(iter(self._full))
            if self._first_of(place) is not None:
                break
            self._is_done(place, now_ns)
        return None

    def enter(self, place: Place, now_ns: int) -> None:
        """Find a group's place anew, by what it has in use and has used; a full group has none."""
        was_there = place.number != 0
        self._bring_up_to(now_ns)
        if not place.runs or place.stake.share.is_full:
            self._take_out(place)
            if place.runs:
                self._full[place] = None
            self._count_in(place)
            return
        self._full.pop(place, None)
        if not was_there:
            self.note_use(place, place.settle(now_ns))
            place.used_s = max(place.used_s, self._level(now_ns))
            place.came = place.number = self._count + 1
            if (oldest := self._oldest_of(place)) is not None:
                self._push_by_age(place, oldest)
        self._count_in(place)
        if place.stake.in_use:
            self._stand_aside(place)
        if place not in self._without:
            self._count += 1
            place.number = self._count
        if not place.stake.in_use:
            self._without[place] = None
        self._push(place)

    def _push(self, place: Place) -> None:
        """Enter a place in the heap of those whose use grows as fast."""
        heap = self._heaps.setdefault(place.rate, [])
        heapq.heappush(heap, (_key(place), place.number, place))
        if len(heap) > max(_FEW, 2 * len(self._places)):
            heap[:] = filter(_is_in_force, heap)
            heapq.heapify(heap)

    def _take_out(self, place: Place) -> None:
        """Let it not be a group's turn."""
        place.number = 0
        self._stand_aside(place)

    def _stand_aside(self, place: Place) -> None:
        """Note that a group does not wait without a slot."""
        if place in self._without:
            if place is next(iter(self._without)):
                self._passed_s = 0.0
            del self._without[place]

    def _least(self, now_ns: int) -> Place | None:
        """Return the place that has used least, of those that may go."""
        firsts: list[tuple[float, int, Place]] = []
        for rate, heap in list(self._heaps.items()):
            while heap and not _is_in_force(heap[0]):
                heapq.heappop(heap)
            if heap:
                place = heap[0][2]
                firsts.append((place.used_by(now_ns), place.number, place))
            else:
                del self._heaps[rate]
        return min(firsts)[2] if firsts else None

    def _make_good(self, least: Place, now_ns: int) -> bool:
        """Let the group that has stood longest be the next if it was passed enough.

        Return whether that was so.
        """
        longest = next(iter(self._without), None)
        if longest is None or longest is least:
            return False
        least_s = least.used_by(now_ns)
        ahead_s = longest.used_s - least_s
        if ahead_s <= 0 or self._passed_s < MOST_PASSED * ahead_s:
            return False
        if self._first_of(longest) is None:
            self._is_done(longest, now_ns)
            return True
        longest.used_s, self._passed_s = least_s, 0.0
        self._push(longest)
        return True

    def note_use(self, place: Place, used_s: float) -> None:
        """Count what a group has used, by weight, as passing the one that stands longest."""
        longest = next(iter(self._without), None)
        if longest is not None and place.came > longest.number:
            self._passed_s += used_s

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

    def _is_done(self, place: Place, now_ns: int) -> None:
        """Take a place whose last run has gone out of the turn."""
        self._bring_up_to(now_ns)
        self._take_out(place)
        self._full.pop(place, None)
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

    def _tidy_tickets(self, now_ns: int) -> None:
        """Let go of those that are void in the midst, before they are half of all."""
        for place in list(self._places.values()):
            if not place.runs:
                continue
            place.runs = [each for each in place.runs if self._is_valid(each[2])]
            place.by_age = deque(filter(self._is_valid, place.by_age))
            heapq.heapify(place.runs)
            if not place.runs:
                self._is_done(place, now_ns)
        self._tickets = sum(len(place.runs) for place in self._places.values())
        self._tidy_tickets_at = max(_FEW, 2 * self._tickets)


def _since(ticket: Ticket) -> int:
    """Return since when a ticket's run has waited."""
    return ticket.since_ns


def _key(place: Place) -> float:
    """Return what puts those in order whose use grows as fast."""
    return place.used_s - place.rate * place.settled_ns / 1e9


def _is_in_force(entry: tuple[float, int, Place]) -> bool:
    """Whether an entry of a heap is the newest of its place."""
    key, number, place = entry
    return place.number == number and key == _key(place)
