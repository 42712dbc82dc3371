"""A pool of threads that take the most urgent item first.

The threads are started as they are needed, up to a limit, and wait without waking. An item that no
thread has taken yet can be taken back, which, with the priorities, is why this is not the
standard library's pool.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from crond_py.dispatcher import Entry, Timeline
from crond_py.threads import Thread

log = logging.getLogger("pycron.scheduler")


class Workers:
    """Calls ``work(item)`` for every item put in, in one of at most ``limit`` threads.

    Higher priorities go first, then the order in which items were put in. ``work`` must not
    raise. The threads are daemonic: whoever owns the pool sees to it that they are waited for.
    """

    def __init__(self, limit: int, work: Callable[[Any], None], *, name: str) -> None:
        self._limit = limit
        self._work = work
        self._name = name
        self._condition = threading.Condition(threading.Lock())
        self._ready = Timeline()
        self._idle = 0
        self._threads: list[threading.Thread] = []
        self._is_stopped = False

    def put(self, item: object, *, priority: int) -> Entry:
        """Have ``item`` worked on as soon as a thread is free.

        Raises RuntimeError where there is no thread and none can be started.
        """
        with self._condition:
            entry = self._ready.push(0, item, priority=priority)
            # An idle thread that has been notified and not yet woken still counts as idle, and
            # its item as ready.
            if len(self._ready) > self._idle and len(self._threads) < self._limit:
                self._spawn(entry)
            self._condition.notify()
            return entry

    def cancel(self, entry: Entry) -> bool:
        """Take an item back; False if a thread has taken it or it was taken back before."""
        with self._condition:
            return self._ready.cancel(entry)

    def stop(self) -> None:
        """Let the threads end once no item is left."""
        with self._condition:
            self._is_stopped = True
            self._condition.notify_all()

    def wait(self) -> None:
        """Wait until every thread has ended, after ``stop``."""
        with self._condition:
            threads = list(self._threads)
        for thread in threads:
            thread.join()

    def is_current_thread(self) -> bool:
        """Say whether the caller runs in one of the threads."""
        with self._condition:
            return threading.current_thread() in self._threads

    def _spawn(self, entry: Entry) -> None:
        number = len(self._threads) + 1
        thread = Thread(target=self._run, name=f"{self._name}-{number}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if not self._threads:
                self._ready.cancel(entry)
                raise
            log.warning("%d workers must do, no further thread: %s", len(self._threads), error)
            return
        self._threads.append(thread)

    def _run(self) -> None:
        while (item := self._next()) is not None:
            self._work(item)
            del item  # nothing is kept alive while waiting

    def _next(self) -> object | None:
        with self._condition:
            while True:
                item = self._ready.pop_first()
                if item is not None or self._is_stopped:
                    return item
                self._idle += 1
                self._condition.wait()
                self._idle -= 1
