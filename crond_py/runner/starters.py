"""The threads that start processes, so that a start that hangs holds up only its own job.

A few of them take what is to be started, in order. A start hangs where a disk is dead; further
starts of its job are put aside until it comes back, so that a job that is due each second takes
one thread and not all. When all threads are held up and something waits for longer than
``PATIENCE_NS``, one more is added, up to ``MOST``. What was added leaves when its work is done.
With nothing to do all of them sleep without a time limit.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections import deque
from collections.abc import Callable

from crond_py.ports import AttemptKey, Clock, ProcessSpec
from crond_py.vital import VitalThread

PATIENCE_NS = 1_000_000_000
HANGS_AFTER_NS = 250_000_000
"""A start that takes longer than this is taken to hang, as to other starts of its job."""

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
        # By job: when the starts that go on began, and what was put aside meanwhile.
        self._going_on: dict[str, list[int]] = {}
        self._aside: dict[str, deque[ProcessSpec]] = {}
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
            self._relief = VitalThread(target=self._relieve, name="pycron-starters", daemon=True)
            self._relief.start()

    def put(self, *specs: ProcessSpec) -> None:
        """Have processes started, after all that were put before."""
        with self._lock:
            self._queue.extend(specs)
            self._work.notify(len(specs))
            if len(self._queue) > self._idle and not self._is_watched:
                self._held_up.notify()

    @property
    def waiting(self) -> int:
        """How many starts no thread has taken yet."""
        return len(self._queue)

    def withdraw(self, *keys: AttemptKey) -> list[AttemptKey]:
        """Take back those that no thread has taken yet, and return them."""
        wanted, found = set(keys), []
        with self._lock:
            for specs in (self._queue, *self._aside.values()):
                left = [spec for spec in specs if spec.key not in wanted]
                if len(left) < len(specs):
                    found += [spec.key for spec in specs if spec.key in wanted]
                    specs.clear()
                    specs.extend(left)
        return found

    def close(self) -> list[ProcessSpec]:
        """Begin no more, and return what was not begun.

        Waits for the threads, but not for long: one that hangs is left alone.
        """
        with self._lock:
            self._closed = True
            left = [*self._queue, *(spec for specs in self._aside.values() for spec in specs)]
            self._queue.clear()
            self._aside.clear()
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
        thread = VitalThread(target=self._run, name=f"pycron-starter-{self._number}", daemon=True)
        # It takes the lock first, so it is in the set before it can leave it.
        thread.start()
        self._threads.add(thread)

    def _run(self) -> None:
        # A child inherits the mask of the thread that starts it.
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        while (taken := self._take()) is not None:
            spec, begun_ns = taken
            try:
                self._begin(spec)
            finally:
                self._is_over(_job_of(spec), begun_ns)

    def _take(self) -> tuple[ProcessSpec, int] | None:
        """Wait for a spec, and note when it begins; None: this thread is not needed any more."""
        with self._lock:
            self._idle += 1
            while (spec := self._next()) is None and not self._closed and self._idle <= self._base:
                self._work.wait()
            self._idle -= 1
            if spec is None:
                self._threads.discard(threading.current_thread())
                return None
            self._taken += 1
            begun_ns = self._clock.monotonic_ns()
            self._going_on.setdefault(_job_of(spec), []).append(begun_ns)
            return spec, begun_ns

    def _next(self) -> ProcessSpec | None:
        """Return the next spec whose job has no start that hangs; put others aside."""
        while self._queue:
            spec = self._queue.popleft()
            job = _job_of(spec)
            begun = self._going_on.get(job)
            if not begun or self._clock.monotonic_ns() - min(begun) < HANGS_AFTER_NS:
                return spec
            self._aside.setdefault(job, deque()).append(spec)
        return None

    def _is_over(self, job: str, begun_ns: int) -> None:
        """Note that a start is over; what was put aside for it can go on."""
        with self._lock:
            begun = self._going_on[job]
            begun.remove(begun_ns)
            if not begun:
                del self._going_on[job]
            aside = self._aside.pop(job, None)
            if aside:
                self._queue.extendleft(reversed(aside))
                self._work.notify(len(aside))

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


def _job_of(spec: ProcessSpec) -> str:
    """Return whose starts wait for one another where one hangs."""
    return spec.env.get("PYCRON_JOB", spec.tag)
