"""Which lane of submitted tasks is taken up next: hungry lanes, by pool and priority.

A lane is hungry when something of it is due that may be taken up. Lanes of one pool and priority
share a shelf: on it, those go first of which no run waits in memory yet, as many groups are to
stand in line; then those whose turn is first; then the first due. Turns are in the shelf's own
time, which goes on with each lane that is fed, so that all hungry ones have been fed once when a
second of it has passed. A lane that gets hungry has its turn now, and each time that it is fed it
is put off by a second, for its group's weight. So neither do those that have much keep out who
comes later, nor ever new ones those that have been fed.

However many lanes there are, a bounded number of runs waits in memory on a shelf, and in a pool.
Nor is anything taken up before its turn below ``MOST_AHEAD`` priorities at which somebody waits who
may go, but of as many others by turns, so that each has its part. What there is no room for stays
in the ledger, and is taken up as there is room, or as it is to have a slot.

Not responsible for taking tasks up, nor for timers (``tasks``).
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Iterator
from dataclasses import field
from itertools import islice

from crond_py.clock import to_ns
from crond_py.dataclass import dataclass
from crond_py.engine.lanes import LaneState
from crond_py.engine.pools import AS_LONG, Slots

MANY = 8
"""So many times what one lane may have waits of all lanes of a shelf: more are not taken up then.

Twice as much is, of lanes of which nothing waits, and of all shelves of a pool.
"""

MOST_AHEAD = 4
"""Below so many priorities of a pool at which somebody waits who may go nobody need wait yet."""

FED_NS = 1_000_000_000
"""By how much each time that it is fed puts off the turn of a lane, for its group's weight."""

_FEW = 64

_Entry = tuple[bool, int, int, int, "LaneState"]


@dataclass(slots=True, eq=False)
class Shelf:
    """The lanes of a pool at one priority.

    ``waiting`` counts the runs that wait for a slot, ``standing`` the lanes that have such.
    ``full_ns`` and ``last_full_ns`` are when there was no room first, and last; 0: never.
    ``hungry`` has of each lane the number of its entries that are in force: in ``turns``, and in
    ``awaited`` where nobody gets a slot before it has somebody in line. ``turn_ns`` is what time it
    is for turns. ``asked_ns`` is when the shelf last had its turn, or got its first hungry lane.
    """

    rack: Rack
    priority: int
    waiting: int = 0
    standing: int = 0
    full_ns: int = 0
    last_full_ns: int = 0
    turn_ns: int = 0
    asked_ns: int = 0
    hungry: dict[LaneState, int] = field(default_factory=dict)
    turns: list[_Entry] = field(default_factory=list)
    awaited: list[_Entry] = field(default_factory=list)

    @property
    def first(self) -> LaneState | None:
        """The lane that is to be taken up next, whether there is room for it or not."""
        return self._first_of(self.turns)

    def _first_of(self, heap: list[_Entry]) -> LaneState | None:
        while heap and not self._is_in_force(heap[0]):
            heapq.heappop(heap)
        return heap[0][4] if heap else None

    def _is_in_force(self, entry: _Entry) -> bool:
        return self.hungry.get(entry[4]) == entry[3]

    def enter(self, lane: LaneState, number: int) -> None:
        """Give a lane its place among those that are hungry, of which it is one from now on."""
        self.hungry[lane] = number
        entry = (lane.waiting > 0, lane.turn_ns, lane.due_ns, number, lane)
        self._push(self.turns, entry)
        if not lane.waiting and not lane.is_barren:
            self._push(self.awaited, entry)

    def _push(self, heap: list[_Entry], entry: _Entry) -> None:
        heapq.heappush(heap, entry)
        if len(heap) > _FEW + 2 * len(self.hungry):
            heap[:] = filter(self._is_in_force, heap)
            heapq.heapify(heap)

    def room(self, lane: LaneState) -> int:
        """Return how many more runs of a lane may wait."""
        here = MANY * lane.most_waiting * (1 if lane.waiting else 2) - self.waiting
        in_pool = self.rack.most - self.rack.waiting
        if not self.waiting:
            in_pool = max(1, in_pool)  # whatever waits elsewhere, somebody of it may stand in line
        return max(0, min(lane.room, here, in_pool))

    @property
    def next_lane(self) -> LaneState | None:
        """The lane that is to be taken up next, if there is room for it, or none in itself."""
        return self._with_room(self.first)

    def _with_room(self, lane: LaneState | None) -> LaneState | None:
        if lane is None or (lane.room and not self.room(lane)):
            return None
        return lane

    @property
    def next_of_none(self) -> LaneState | None:
        """The lane that is to be taken up before anybody gets a slot who does not go before it.

        None: each has a run that waits, or so many have as are taken up at a time. Nobody waits for
        one of which no run came as it was fed last: there may be many that only get rows.
        """
        lane = self._with_room(self._first_of(self.awaited))
        if lane is None or self.standing >= lane.most_waiting:
            return None
        return lane

    def note_if_full(self, now_ns: int) -> None:
        """Note where there is no room now for those that are hungry."""
        if self.hungry and self.next_lane is None:
            self.full_ns = self.full_ns or now_ns
            self.last_full_ns = now_ns


class Rack:
    """The shelves of a pool, and how many runs of all of them wait, of ``most`` that may.

    ``slots`` tells whose they wait for, if they have a bound; what gets one at once needs none.
    ``standing`` are the priorities of these runs.
    ``full_ns`` is when somebody was last left in the ledger for want of room.
    """

    def __init__(self, pool: str, most: int, slots: Callable[[str], Slots | None]) -> None:
        self.pool = pool
        self.most = most
        self._slots = slots
        self.waiting = 0
        self.standing: dict[int, None] = {}
        self.full_ns = 0
        self._shelves: dict[int, Shelf] = {}
        self._descending: list[int] = []  # the priorities, negated, in order

    def find(self, priority: int) -> Shelf | None:
        """Return the shelf of a priority, if there is one."""
        return self._shelves.get(priority)

    def shelf(self, priority: int) -> Shelf:
        """Return the shelf of a priority, which is put up if need be."""
        if priority not in self._shelves:
            self._shelves[priority] = Shelf(self, priority)
            insort(self._descending, -priority)
        return self._shelves[priority]

    def __iter__(self) -> Iterator[Shelf]:
        """Yield the shelves that have hungry lanes, the highest priority first."""
        for negated in tuple(self._descending):
            shelf = self._shelves.get(-negated)
            if shelf is not None and shelf.hungry:
                yield shelf

    @property
    def ahead(self) -> Iterator[Shelf]:
        """Yield the shelves that are taken up from before their turn, the highest first."""
        for shelf in self:
            if self._is_full(MOST_AHEAD, above=shelf.priority):
                return
            yield shelf

    @property
    def by_turns(self) -> Shelf | None:
        """The shelf that is taken up from next of all, if there is room for one; else None.

        It is the one whose last turn is longest ago, of equals that of the lowest priority. Those
        are equal between which there is no more than ``AS_LONG``.
        """
        if self._is_full(2 * MOST_AHEAD, above=None):
            return None
        hungry = list(self)
        until_ns = min((shelf.asked_ns for shelf in hungry), default=0) + to_ns(AS_LONG)
        return next((shelf for shelf in reversed(hungry) if shelf.asked_ns <= until_ns), None)

    def _is_full(self, most: int, *, above: int | None) -> bool:
        """Whether as many wait as may, or those of so many priorities above one, or of all."""
        slots = self._slots(self.pool)
        if slots is None:
            return False
        higher = (each for each in self.standing if above is None or each > above)
        return self.waiting >= self.most or sum(map(slots.is_on_the_move, higher)) >= most

    @property
    def has_several(self) -> bool:
        """Whether more than one lane is hungry."""
        return sum(len(shelf.hungry) for shelf in islice(self, 2)) > 1

    @property
    def awaited(self) -> Shelf | None:
        """The highest shelf of which a lane goes before who does not go before that shelf."""
        return next((shelf for shelf in self if shelf.next_of_none is not None), None)

    def count(self, shelf: Shelf, change: int) -> None:
        """Count that so many more runs of a shelf wait, or fewer."""
        shelf.waiting += change
        self.waiting += change
        if shelf.waiting:
            self.standing[shelf.priority] = None
        else:
            self.standing.pop(shelf.priority, None)

    def take_down(self, shelf: Shelf) -> None:
        """Let go of a shelf on which there is nothing."""
        del self._shelves[shelf.priority]
        self._descending.remove(-shelf.priority)

    def __bool__(self) -> bool:
        """Whether it has a shelf."""
        return bool(self._shelves)


class Hunger:
    """All hungry lanes, and how many runs of each shelf wait.

    ``slots`` gives those of a pool, if they have a bound.
    """

    def __init__(self, most_waiting: int, slots: Callable[[str], Slots | None]) -> None:
        self._most = 2 * MANY * most_waiting
        self._slots = slots
        self._racks: dict[str, Rack] = {}
        self._count = 0

    def __contains__(self, lane: LaneState) -> bool:
        shelf = self._find(lane)
        return shelf is not None and lane in shelf.hungry

    def _find(self, lane: LaneState) -> Shelf | None:
        rack = self._racks.get(lane.lane.pool)
        return None if rack is None else rack.find(lane.lane.priority)

    def shelf(self, lane: LaneState) -> Shelf:
        """Return the shelf of a lane."""
        pool = lane.lane.pool
        rack = self._racks.get(pool)
        if rack is None:
            rack = self._racks[pool] = Rack(pool, self._most, self._slots)
        return rack.shelf(lane.lane.priority)

    def rack(self, pool: str) -> Rack:
        """Return the shelves of a pool."""
        return self._racks.get(pool) or Rack(pool, self._most, self._slots)

    @property
    def pools(self) -> list[str]:
        """The pools that have hungry lanes."""
        return [name for name, rack in self._racks.items() if any(rack)]

    def add(self, lane: LaneState, due_ns: int, now_ns: int) -> None:
        """Have a lane be hungry, of which the first is due then on the monotonic clock."""
        shelf = self.shelf(lane)
        if not shelf.hungry:
            shelf.asked_ns = now_ns
        lane.due_ns = due_ns
        if lane not in shelf.hungry:
            lane.hungry_ns, lane.is_barren = now_ns, False
            lane.turn_ns = max(shelf.turn_ns, min(lane.turn_ns, shelf.turn_ns + FED_NS))
        self._enter(shelf, lane)

    def _enter(self, shelf: Shelf, lane: LaneState) -> None:
        self._count += 1
        shelf.enter(lane, self._count)

    def note_fed(self, lane: LaneState, weight: float, *, is_barren: bool) -> None:
        """Note that a lane was fed; ``is_barren``: nobody came to stand in line by that."""
        shelf = self.shelf(lane)
        shelf.turn_ns += FED_NS // max(1, len(shelf.hungry))
        lane.turn_ns = max(lane.turn_ns, shelf.turn_ns - FED_NS) + int(FED_NS / weight)
        lane.is_barren = is_barren

    def drop(self, lane: LaneState) -> None:
        """Have a lane be hungry no more."""
        shelf = self._find(lane)
        if shelf is not None:
            shelf.hungry.pop(lane, None)
            self._let_go(shelf)

    def count(self, lane: LaneState, change: int) -> None:
        """Count that so many more runs of a lane wait for a slot, or fewer."""
        if not change:
            return
        shelf = self.shelf(lane)
        had, lane.waiting = lane.waiting > 0, lane.waiting + change
        shelf.rack.count(shelf, change)
        shelf.standing += (lane.waiting > 0) - had
        if lane in shelf.hungry and had != (lane.waiting > 0):
            self._enter(shelf, lane)
        self._let_go(shelf)

    def _let_go(self, shelf: Shelf) -> None:
        if shelf.hungry or shelf.waiting:
            return
        shelf.rack.take_down(shelf)
        if not shelf.rack:
            del self._racks[shelf.rack.pool]
