"""The threads that start processes, so that a start that hangs holds up only itself.

A few of them take what is to be started, in order. A start hangs where a disk is dead; when all
are held up and something waits for longer than ``PATIENCE_NS``, one more thread is added, up to
``MOST``. What was added leaves when its work is done. With nothing to do all of them sleep
without a time limit.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections import deque
from collections.abc import Callable

from crond_py.ports import Clock, ProcessSpec

PATIENCE_NS = 1_000_000_000
MOST = 64

log = logging.getLogger(__name__)


class Starters:
    """Calls ``begin`` for each spec, on one of its threads; ``begin`` must not raise."""

    def __init__(self, begin: Callable[[ProcessSpec], None], clock: Clock, *, threads: int) -> None:
        self._begin = begin
        self._clock = clock
        self._base = threads
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._held_up = threading.Condition(self._lock)
        self._queue: deque[ProcessSpec] = deque()
        self._threads: set[threading.Thread] = set()
        self._number = 0
        self._idle = 0
        self._taken = 0
        self._closed = False
        self._is_watched = False
        self._relief: threading.Thread | None = None

    def open(self) -> None:
        """Start the threads."""
        with self._lock:
            for _ in range(self._base):
                self._add_thread()
            self._relief = threading.Thread(
                target=self._relieve, name="pycron-starters", daemon=True
            )
            self._relief.start()

    def put(self, spec: ProcessSpec) -> None:
        """Have a process started, after all that were put before."""
        with self._lock:
            self._queue.append(spec)
            self._work.notify()
            if len(self._queue) > self._idle and not self._is_watched:
                self._held_up.notify()

    def close(self) -> list[ProcessSpec]:
        """Begin no more, and return what was not begun.

        Waits for the threads, but not for long: one that hangs is left alone.
        """
        with self._lock:
            self._closed = True
            left = list(self._queue)
            self._queue.clear()
            self._work.notify_all()
            self._held_up.notify_all()
            threads = [*self._threads, self._relief]
        deadline = self._clock.monotonic_ns() + PATIENCE_NS
        for thread in threads:
            if thread is not None and thread is not threading.current_thread():
                thread.join(max(0, deadline - self._clock.monotonic_ns()) / 1e9)
        return left

    def _add_thread(self) -> None:
        """Add a thread; the caller holds the lock. Raises RuntimeError where none can be had."""
        self._number += 1
        thread = threading.Thread(
            target=self._run, name=f"pycron-starter-{self._number}", daemon=True
        )
        # It takes the lock first, so it is in the set before it can leave it.
        thread.start()
        self._threads.add(thread)

    def _run(self) -> None:
        # A child inherits the mask of the thread that starts it.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        while (spec := self._take()) is not None:
            self._begin(spec)

    def _take(self) -> ProcessSpec | None:
        """Wait for a spec; None: this thread is not needed any more."""
        with self._lock:
            self._idle += 1
            while not self._queue and not self._closed and self._idle <= self._base:
                self._work.wait()
            self._idle -= 1
            if self._closed or not self._queue:
                self._threads.discard(threading.current_thread())
                return None
            self._taken += 1
            return self._queue.popleft()

    def _relieve(self) -> None:
        """Add a thread whenever the queue has stood still for too long."""
        with self._lock:
            while not self._closed:
                if len(self._queue) <= self._idle:
                    self._held_up.wait()
                    continue
                taken = self._taken
                self._is_watched = True
                deadline = self._clock.monotonic_ns() + PATIENCE_NS
                while not self._closed and self._clock.monotonic_ns() < deadline:
                    self._clock.wait(self._held_up, deadline)
                self._is_watched = False
                if self._queue and self._taken == taken and len(self._threads) < MOST:
                    self._try_to_add()

    def _try_to_add(self) -> None:
        try:
            self._add_thread()
        except RuntimeError as error:  # the system's limit; what hangs may yet come back
            log.warning("a start is held up, and no further thread can be had: %s", error)
        else:
            log.warning(
                "starts are held up for over a second; %d threads work on them now",
                len(self._threads),
            )
