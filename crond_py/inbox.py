"""What the main thread waits for: requests of other threads, and signals, in one place.

Python runs a signal's handler in the main thread, and only between two of its instructions; one
that comes just before the thread waits on a lock is seen when that wait is over, which may be
never. So the main thread waits on a pipe, into which the interpreter itself writes at every
signal (``signal.set_wakeup_fd``). What the items mean is the service's business.
"""

from __future__ import annotations

import os
import queue
import select
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from types import FrameType
from typing import Final

SAME_REQUEST: Final = timedelta(milliseconds=200)
"""Signals closer together are one request: timeout(1) signals the process and then its group."""

_MANY_BYTES = 4096


class Inbox:
    """A queue that any thread and any signal handler puts into, and the main thread reads.

    To be closed when nobody puts anything in any more.
    """

    def __init__(self) -> None:
        self._items: queue.SimpleQueue[object] = queue.SimpleQueue()
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def put(self, item: object) -> None:
        """Put an item in, without waiting."""
        self._items.put(item)
        with suppress(BlockingIOError):  # full: the reader is woken as it is
            os.write(self._writer, b"\0")

    def get(self) -> object:
        """Wait for the next item."""
        poll = select.poll()
        poll.register(self._reader, select.POLLIN)
        while True:
            with suppress(queue.Empty):
                return self._items.get_nowait()
            poll.poll()
            # Emptied before the queue is looked at again: what comes later writes again.
            os.read(self._reader, _MANY_BYTES)

    @contextmanager
    def catching(
        self, signals: Iterable[signal.Signals], to_item: Callable[[signal.Signals], object]
    ) -> Iterator[None]:
        """Put ``to_item(number)`` in at each of the signals; they are ignored afterwards.

        To be called in the main thread.
        """

        def received(number: int, _frame: FrameType | None) -> None:
            self._items.put(to_item(signal.Signals(number)))

        caught = list(signals)
        signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        for number in caught:
            signal.signal(number, received)
        try:
            yield
        finally:
            for number in caught:
                signal.signal(number, signal.SIG_IGN)
            signal.set_wakeup_fd(-1)

    def close(self) -> None:
        """Let go of the pipe."""
        os.close(self._reader)
        os.close(self._writer)
