"""What waits in several queues of which each has its turn.

Not responsible for locking: the caller does that.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Turns(Generic[Item]):
    """Queues by name; ``queue_of`` tells in which one an item belongs.

    The next item is the first of the queue that has waited longest for its turn. So what comes to
    a queue waits for what stands in that, and for one of each other queue at a time.
    """

    def __init__(self, queue_of: Callable[[Item], str]) -> None:
        self._queue_of = queue_of
        self._queues: dict[str, deque[Item]] = {}  # in the order of their turns; none is empty
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Item]:
        """Yield what waits, one queue after the other."""
        for queue in self._queues.values():
            yield from queue

    def waiting(self, name: str) -> int:
        """Return how many items wait in a queue."""
        return len(self._queues.get(name, ()))

    def extend(self, items: Iterable[Item]) -> None:
        """Put items at the ends of their queues."""
        for item in items:
            self._queues.setdefault(self._queue_of(item), deque()).append(item)
            self._count += 1

    def put_back(self, items: Iterable[Item]) -> None:
        """Put items, in their order, before what is in their queues."""
        for item in reversed(list(items)):
            self._queues.setdefault(self._queue_of(item), deque()).appendleft(item)
            self._count += 1

    def pop(self) -> Item:
        """Take the next item out. There is one at least."""
        name = next(iter(self._queues))
        queue = self._queues.pop(name)
        item = queue.popleft()
        self._count -= 1
        if queue:
            self._queues[name] = queue
        return item

    def take(self, is_wanted: Callable[[Item], bool]) -> list[Item]:
        """Take out what is wanted; what is left keeps its place."""
        taken = [item for item in self if is_wanted(item)]
        if taken:
            for name, queue in list(self._queues.items()):
                left = deque(item for item in queue if not is_wanted(item))
                self._queues[name] = left
                if not left:
                    del self._queues[name]
            self._count -= len(taken)
        return taken

    def clear(self) -> None:
        """Forget all that waits."""
        self._queues.clear()
        self._count = 0
