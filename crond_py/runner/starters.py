"""The threads that start processes, so that a start that hangs holds up only its own job.

A few of them take what is to be started, in order, and of each pool in turn: a burst in one pool
holds up no other. A start hangs where a disk is dead; further
starts of its job are put aside until it comes back, so that a job that is due each second takes
one thread and not all. What ends the rest of a run is taken by them as well: it hangs where the
user database does, so it is put aside for others of the same user, and for no start. When all
threads are held up and something waits for longer than ``PATIENCE_NS``, one more is added, up to
``MOST``. What was added leaves when its work is done. With nothing to do all of them sleep without
a time limit.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections import deque
from collections.abc import Callable
from itertools import chain
from typing import NamedTuple

from crond_py.ports import AttemptKey, Clock, ProcessSpec
from crond_py.runner.turns import Turns
from crond_py.vital import VitalThread

PATIENCE_NS = 1_000_000_000
HANGS_AFTER_NS = 250_000_000
"""A start that takes longer than this is taken to hang, as to other starts of its job."""

MOST = 64


class _Entry(NamedTuple):
    """What a thread is to begin; what is in the same ``line`` waits for it if it hangs."""

    spec: ProcessSpec
    line: str
    is_start: bool


log = logging.getLogger(__name__)


class Starters:
    """Has each spec begun, or what is no start, on one of its threads; neither may raise."""

    def __init__(
        self,
        begin: Callable[[ProcessSpec], None],
        begin_rest: Callable[[ProcessSpec], None],
        clock: Clock,
        *,
        threads: int,
    ) -> None:
        self._begin = begin
        self._begin_rest = begin_rest
        self._clock = clock
        self._base = threads
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._held_up = threading.Condition(self._lock)
        self._queue: Turns[_Entry] = Turns(lambda entry: entry.spec.pool)
        # By line: when what goes on began, and what was put aside meanwhile.
        self._going_on: dict[str, list[int]] = {}
        self._aside: dict[str, deque[_Entry]] = {}
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
        """Have processes started, after all of their pools that were put before."""
        self._put([_Entry(spec, _job_of(spec), is_start=True) for spec in specs])

    def put_rest(self, spec: ProcessSpec) -> None:
        """Have begun what is no start: it is held up by what is of the same user alone."""
        self._put([_Entry(spec, f"user {spec.user}", is_start=False)])

    def _put(self, entries: list[_Entry]) -> None:
        with self._lock:
            self._queue.extend(entries)
            self._work.notify(len(entries))
            if len(self._queue) > self._idle and not self._is_watched:
                self._held_up.notify()

    @property
    def waiting(self) -> int:
        """How many starts no thread has taken yet."""
        return len(self._queue)

    def waiting_of(self, pool: str) -> int:
        """How many of them are of a pool."""
        return self._queue.waiting(pool)

    def withdraw(self, *keys: AttemptKey) -> list[AttemptKey]:
        """Take back those starts that no thread has taken yet, and return them.

        What else was put for a run stays: it comes after the start, which is not quite over then.
        """
        wanted = set(keys)

        def is_one(entry: _Entry) -> bool:
            return entry.is_start and entry.spec.key in wanted

        with self._lock:
            found = self._queue.take(is_one)
            for entries in self._aside.values():
                taken = [entry for entry in entries if is_one(entry)]
                if taken:
                    found += taken
                    left = [entry for entry in entries if not is_one(entry)]
                    entries.clear()
                    entries.extend(left)
        return [entry.spec.key for entry in found]

    def close(self) -> list[ProcessSpec]:
        """Begin no more, and return what was not begun.

        Waits for the threads, but not for long: one that hangs is left alone.
        """
        with self._lock:
            self._closed = True
            left = [*self._queue, *chain.from_iterable(self._aside.values())]
            self._queue.clear()
            self._aside.clear()
            self._work.notify_all()
            self._held_up.notify_all()
            threads = [*self._threads, self._relief]
        deadline = self._clock.monotonic_ns() + PATIENCE_NS
        for thread in threads:
            if thread is not None and thread is not threading.current_thread():
                thread.join(max(0, deadline - self._clock.monotonic_ns()) / 1e9)
        return [entry.spec for entry in left]

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
            entry, begun_ns = taken
            try:
                (self._begin if entry.is_start else self._begin_rest)(entry.spec)
            finally:
                self._is_over(entry.line, begun_ns)

    def _take(self) -> tuple[_Entry, int] | None:
        """Wait for work, and note when it begins; None: this thread is not needed any more."""
        with self._lock:
            self._idle += 1
            while (entry := self._next()) is None and not self._closed and self._idle <= self._base:
                self._work.wait()
            self._idle -= 1
            if entry is None:
                self._threads.discard(threading.current_thread())
                return None
            self._taken += 1
            begun_ns = self._clock.monotonic_ns()
            self._going_on.setdefault(entry.line, []).append(begun_ns)
            return entry, begun_ns

    def _next(self) -> _Entry | None:
        """Return the next in whose line nothing hangs; put others aside."""
        while self._queue:
            entry = self._queue.pop()
            begun = self._going_on.get(entry.line)
            if not begun or self._clock.monotonic_ns() - min(begun) < HANGS_AFTER_NS:
                return entry
            self._aside.setdefault(entry.line, deque()).append(entry)
        return None

    def _is_over(self, line: str, begun_ns: int) -> None:
        """Note that a start is over; what was put aside for it can go on."""
        with self._lock:
            begun = self._going_on[line]
            begun.remove(begun_ns)
            if not begun:
                del self._going_on[line]
            aside = self._aside.pop(line, None)
            if aside:
                self._queue.put_back(aside)
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
    """Return the line of a job's starts."""
    return f"job {spec.env.get('PYCRON_JOB', spec.tag)}"
