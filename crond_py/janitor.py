"""A thread for what may take long and nobody waits for, such as reading from a slow disk.

One thing after the other, in the order in which they were handed in. The thread is begun with the
first, and dies with the process: a disk that hangs keeps no daemon from ending.

State: open, closed; a closed one takes nothing more.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import timedelta
from queue import SimpleQueue

from crond_py.logfields import fields
from crond_py.threads import Thread

log = logging.getLogger("pycron.service")


class Janitor:
    """Does work in the background. Any thread may use it; ``name`` is that of its own."""

    def __init__(self, name: str = "pycron-janitor") -> None:
        self._name = name
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._is_given_up = False

    def submit(self, work: Callable[[], None]) -> None:
        """Hand in work and return at once.

        Where no thread is to be had it waits for the next that is handed in.
        """
        with self._lock:
            if self._is_closed:
                return
            self._work.put(work)
            if self._thread is not None:
                return
            thread = Thread(target=self._run, name=self._name, daemon=True)
            try:
                thread.start()
            except RuntimeError as error:
                log.warning(
                    "what is to be cleared away stays for now",
                    extra=fields(reason=str(error)),
                )
            else:
                self._thread = thread

    def close(self, patience: timedelta) -> None:
        """Take nothing more, wait a little until all is done, and begin no more. Idempotent."""
        with self._lock:
            self._is_closed = True
            self._work.put(None)
            thread = self._thread
        if thread is not None:
            thread.join(patience.total_seconds())
        self._is_given_up = True

    def _run(self) -> None:
        while (work := self._work.get()) is not None and not self._is_given_up:
            try:
                work()
            except Exception:  # the boundary of one piece of work
                log.exception("something was not cleared away", extra=fields())
