"""Which lane of submitted tasks is taken up next: hungry lanes, by pool and priority.

A lane is hungry when something of it is due that may be taken up. Lanes of one pool and priority
share a shelf: on it, those go first of which no run waits in memory yet, as many groups are to
stand in line; then those whose turn is first; then the first due. Turns are in the shelf's own
time, which goes on with each lane that is fed, so that all hungry ones have been fed once when a
second of it has passed. A lane that gets hungry has its turn now, and each time that it is fed it
is put off by a second, for its group's weight. So neither do those that have much keep out who
comes later, nor ever new ones those that have been fed.

However many lanes there are, a bounded number of runs waits in memory on a shelf. What there is no
room for stays in the ledger, and is taken up as there is room: as each priority has a shelf, each
has somebody who stands in line.

Not responsible for taking tasks up, nor for timers (``tasks``).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import field

from crond_py.clock import to_ns
from crond_py.dataclass import dataclass
from crond_py.engine.lanes import LaneState
from crond_py.engine.pools import AS_LONG

MANY = 8
"""So many times what one lane may have waits of all lanes of a shelf: more are not taken up then.

Twice as much is, of lanes of which nothing waits.
"""

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
    is for turns.
    """

    pool: str
    priority: int
    waiting: int = 0
    standing: int = 0
    full_ns: int = 0
    last_full_ns: int = 0
    turn_ns: int = 0
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
        most = MANY * lane.most_waiting * (1 if lane.waiting else 2)
        return max(0, min(lane.room, most - self.waiting))

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


class Hunger:
    """All hungry lanes, and how many runs of each shelf wait."""

    def __init__(self) -> None:
        self._pools: dict[str, dict[int, Shelf]] = {}
        self._count = 0

    def __contains__(self, lane: LaneState) -> bool:
        shelf = self._find(lane)
        return shelf is not None and lane in shelf.hungry

    def _find(self, lane: LaneState) -> Shelf | None:
        return self._pools.get(lane.lane.pool, {}).get(lane.lane.priority)

    def shelf(self, lane: LaneState) -> Shelf:
        """Return the shelf of a lane."""
        pool, priority = lane.lane.pool, lane.lane.priority
        shelves = self._pools.setdefault(pool, {})
        if priority not in shelves:
            shelves[priority] = Shelf(pool, priority)
        return shelves[priority]

    def shelves(self, pool: str) -> Iterator[Shelf]:
        """Yield the shelves of a pool that have hungry lanes, the highest priority first."""
        shelves = self._pools.get(pool, {})
        for priority in sorted(shelves, reverse=True):
            if shelves[priority].hungry:
                yield shelves[priority]

    @property
    def pools(self) -> list[str]:
        """The pools that have hungry lanes."""
        return [name for name in self._pools if any(self.shelves(name))]

    def add(self, lane: LaneState, due_ns: int, now_ns: int) -> None:
        """Have a lane be hungry, of which the first is due then on the monotonic clock."""
        shelf = self.shelf(lane)
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
        shelf.waiting += change
        shelf.standing += (lane.waiting > 0) - had
        if lane in shelf.hungry and had != (lane.waiting > 0):
            self._enter(shelf, lane)
        self._let_go(shelf)

    def _let_go(self, shelf: Shelf) -> None:
        if shelf.hungry or shelf.waiting:
            return
        shelves = self._pools[shelf.pool]
        del shelves[shelf.priority]
        if not shelves:
            del self._pools[shelf.pool]


def longest_due(shelves: Sequence[Shelf]) -> Shelf:
    """Return the shelf whose next lane has been due longest; of equals that of the lowest priority.

    Those are equal that came due no farther apart than ``AS_LONG``. There is one at least.
    """
    dues = {shelf: lane.due_ns for shelf in shelves if (lane := shelf.first) is not None}
    until_ns = min(dues.values()) + to_ns(AS_LONG)
    return min((shelf for shelf in dues if dues[shelf] <= until_ns), key=lambda s: s.priority)
