"""The one heap of deadlines, and the thread that sleeps until the first of them.

``Timeline`` is the heap: plain data, without a thread, a lock or a clock. ``Dispatcher`` puts a
condition variable and a thread around it and hands over what is due. Everything in the project
that waits for a moment waits here: due occurrences, retries, timeouts, grace periods.

What an entry means is not known here, and nothing is run here: the sink that is handed the due
items puts them on a queue or starts what is to be started, and returns.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
from collections.abc import Callable
from typing import Final

from crond_py.ports import Clock, Timer
from crond_py.vital import VitalThread

log = logging.getLogger("pycron.dispatcher")

_GONE: Final = object()

_SMALL = 64  # a heap of this size is never worth building anew


class Entry:
    """One entry of a timeline, and the handle to take it back."""

    __slots__ = ("deadline_ns", "item")

    def __init__(self, deadline_ns: int, item: object) -> None:
        self.deadline_ns = deadline_ns
        self.item = item


class Timeline:
    """Items in the order of their deadlines; not thread-safe.

    A cancelled entry lets go of its item at once and stays in the heap, as a stub, until it comes
    to the top or until stubs are more than half of the heap, which is then built anew: so ``push``
    is O(log n), ``cancel`` O(1) amortised, and what was cancelled takes no lasting room.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Entry]] = []
        self._pushed = 0
        self._stubs = 0

    def __len__(self) -> int:
        """Return the number of entries that are neither taken out nor cancelled."""
        return len(self._heap) - self._stubs

    @property
    def heap_size(self) -> int:
        """How many entries take up memory, stubs of cancelled ones included."""
        return len(self._heap)

    def push(self, deadline_ns: int, item: object, *, priority: int = 0) -> Entry:
        """Enter an item. Of one deadline, higher priorities come first, then the order of entry."""
        entry = Entry(deadline_ns, item)
        self._pushed += 1
        heapq.heappush(self._heap, (deadline_ns, -priority, self._pushed, entry))
        return entry

    def cancel(self, entry: Entry) -> bool:
        """Take an entry of this timeline back; False if it is no longer in it."""
        if entry.item is _GONE:
            return False
        entry.item = _GONE
        self._stubs += 1
        self._trim()
        return True

    def next_deadline(self) -> int | None:
        """Return the earliest deadline; None when there is no entry."""
        self._drop_stubs()
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ns: int) -> list[object]:
        """Take out every item whose deadline is not later than ``now_ns``, in order."""
        due: list[object] = []
        while self._heap and self._heap[0][0] <= now_ns:
            entry = heapq.heappop(self._heap)[3]
            if entry.item is _GONE:
                self._stubs -= 1
            else:
                due.append(entry.item)
                entry.item = _GONE
        self._trim()
        return due

    def pop_first(self) -> object | None:
        """Take out the first item, whenever it is due; None when there is no entry."""
        self._drop_stubs()
        if not self._heap:
            return None
        entry = heapq.heappop(self._heap)[3]
        item, entry.item = entry.item, _GONE
        self._trim()
        return item

    def _trim(self) -> None:
        if self._stubs * 2 > len(self._heap) > _SMALL:
            self._heap = [key for key in self._heap if key[3].item is not _GONE]
            heapq.heapify(self._heap)
            self._stubs = 0

    def _drop_stubs(self) -> None:
        while self._heap and self._heap[0][3].item is _GONE:
            heapq.heappop(self._heap)
            self._stubs -= 1


class Dispatcher:
    """Hands over items when they are due (the ``Timers`` port), from a thread of its own.

    1. The thread sleeps until the earliest deadline, wakes early when an earlier one is entered,
       and is not woken by a later one. With nothing to wait for it does not wake at all.
    2. All that is due when it wakes is handed over in one call, ``deliver(items, popped_ns)``, in
       order, with the monotonic instant at which it was taken off the heap. A deadline in the
       past is due at once.
    3. ``deliver`` runs outside the lock: it may enter and cancel entries, and must return soon.
       An exception in it is logged; the items of that call are gone, the thread lives on.

    ``start``, ``stop`` and ``wait`` may be called any number of times, in any order, from any
    thread. A stopped dispatcher stays stopped: entries are still accepted and never delivered.
    """

    def __init__(
        self,
        clock: Clock,
        deliver: Callable[[list[object], int], None],
        *,
        name: str = "dispatcher",
    ) -> None:
        self._clock = clock
        self._deliver = deliver
        self._name = name
        self._timeline = Timeline()
        self._condition = threading.Condition(threading.Lock())
        # The instant the thread sleeps until; while it is awake nobody needs to wake it.
        self._sleeps_until: float = -math.inf
        self._is_stopped = False
        self._thread: threading.Thread | None = None

    def __len__(self) -> int:
        """Return the number of entries that wait."""
        with self._condition:
            return len(self._timeline)

    @property
    def heap_size(self) -> int:
        """How many entries take up memory, stubs of cancelled ones included."""
        with self._condition:
            return self._timeline.heap_size

    def call_at(self, deadline_ns: int, item: object, *, priority: int = 0) -> Entry:
        """Deliver ``item`` once the monotonic clock has reached ``deadline_ns``."""
        with self._condition:
            entry = self._timeline.push(deadline_ns, item, priority=priority)
            if deadline_ns < self._sleeps_until:
                self._wake()
            return entry

    def cancel(self, timer: Timer) -> bool:
        """Take the entry back; False if it was delivered or cancelled before."""
        if not isinstance(timer, Entry):
            raise TypeError(f"not a timer of this dispatcher: {timer!r}")
        with self._condition:
            # The thread is left asleep: to wake it now costs what waking in vain costs later.
            return self._timeline.cancel(timer)

    def recheck(self) -> None:
        """Have the thread look at the clock again: the machine may have slept through a wait."""
        with self._condition:
            self._wake()

    def start(self) -> None:
        """Begin to deliver, unless that has been done or the dispatcher was stopped."""
        with self._condition:
            if self._thread is not None or self._is_stopped:
                return
            thread = VitalThread(target=self._run, name=self._name, daemon=True)
            thread.start()
            self._thread = thread

    def stop(self) -> None:
        """Deliver nothing more; a delivery that is under way ends by itself."""
        with self._condition:
            self._is_stopped = True
            self._wake()

    def wait(self) -> None:
        """Wait until the thread has ended; at once if it never began or is the caller's own."""
        with self._condition:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _wake(self) -> None:
        self._sleeps_until = -math.inf
        self._condition.notify()

    def _run(self) -> None:
        while batch := self._next_batch():
            items, popped_ns = batch
            try:
                self._deliver(items, popped_ns)
            except BaseException:
                # One boundary for one dispatch. SystemExit too: in a thread it would end the
                # deliveries of everybody, without a word.
                log.exception("the delivery of %d due items failed", len(items))

    def _next_batch(self) -> tuple[list[object], int] | None:
        """Sleep until something is due; None once stopped."""
        with self._condition:
            while not self._is_stopped:
                now_ns = self._clock.monotonic_ns()
                if items := self._timeline.pop_due(now_ns):
                    return items, now_ns
                deadline_ns = self._timeline.next_deadline()
                self._sleeps_until = math.inf if deadline_ns is None else deadline_ns
                self._clock.wait(self._condition, deadline_ns)
                self._sleeps_until = -math.inf
            return None
