"""The thread that looks after outputs while they are written to.

It is begun when it is first needed, and does what ``upkeep`` says: it sleeps until the kernel, one
of its callers or a look that is due wakes it up, and has what comes soon after one another come
together. Callers only leave word and return. A disk that hangs holds up this thread, and no start
and no end of a process.
"""

from __future__ import annotations

import logging
import os
import queue
import select
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Final

from crond_py.clock import to_ns
from crond_py.model import OutputMode
from crond_py.ports import AttemptKey, Clock, LineSink, ProcessSpec
from crond_py.runner.journal import JournalSink
from crond_py.runner.passing import Passer
from crond_py.runner.upkeep import SHORTEST_NS, Kept, Upkeep
from crond_py.vital import VitalThread

PATIENCE: Final = timedelta(seconds=2)
"""How long the end waits for what is still to be done."""

log = logging.getLogger("pycron.output")

_Word = Callable[[Upkeep], None]


class Keeper:
    """Keeps the outputs of attempts. Every method returns at once, but for ``close``."""

    def __init__(self, clock: Clock, sinks: Mapping[OutputMode, LineSink] | None = None) -> None:
        self._clock = clock
        self._journal = JournalSink()
        self._sinks = {OutputMode.JOURNAL: self._journal, **(sinks or {})}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._is_closed = False
        self._is_over = False
        self._words: queue.SimpleQueue[_Word] = queue.SimpleQueue()
        self._is_woken = False
        self._pause = threading.Condition()
        self._began_ns = clock.monotonic_ns() - SHORTEST_NS
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._told: set[str] = set()

    # --- what others say ------------------------------------------------------------------

    def add(self, spec: ProcessSpec, *, is_adopted: bool = False) -> None:
        """Look after the output of an attempt from now on, until ``ended`` and beyond.

        Call it before the end of its process can be told.
        """
        output = spec.output
        if output is None:
            return
        is_left_alone = output.limit_bytes is None and not output.drops_empty
        if is_left_alone and output.mode is OutputMode.FILE:
            return
        sink = self._sinks.get(output.mode)
        passer = None
        if sink is not None:
            passer = Passer(output.job, spec.key, sink, self._has_room, resumes=is_adopted)
        kept = Kept(spec.key, output, passer)
        self._say(lambda upkeep: upkeep.take(kept), is_new=True)

    def ended(self, key: AttemptKey) -> None:
        """Note that the process of an attempt has ended; an unknown key is ignored."""
        self._say(lambda upkeep: upkeep.end(key))

    def settle(self, spec: ProcessSpec) -> None:
        """Bring the output of an attempt that ended unseen to its limit, and pass on the rest."""
        self.add(spec, is_adopted=True)
        self.ended(spec.key)

    def close(self) -> None:
        """Do what there is to do, for at most ``PATIENCE``; the processes write on. Idempotent."""
        with self._lock:
            self._is_closed = True
            thread = self._thread
            if thread is None:
                self._end_words()
            elif not self._is_over:
                os.eventfd_write(self._wake, 1)
        if thread is not None and thread is not threading.current_thread():
            thread.join(PATIENCE.total_seconds())

    def _say(self, word: _Word, *, is_new: bool = False) -> None:
        """Have something done by the thread; only for something new it is begun."""
        with self._lock:
            if self._is_over or (is_new and self._is_closed):
                return
            if self._thread is None and not (is_new and self._begin()):
                return
            self._words.put(word)
            if not self._is_woken:
                self._is_woken = True
                os.eventfd_write(self._wake, 1)

    def _end_words(self) -> None:
        """Take no more words; the caller holds the lock."""
        if not self._is_over:
            self._is_over = True
            os.close(self._wake)

    def _begin(self) -> bool:
        # Without it outputs grow without bounds, and lines that are passed on are lost.
        thread = VitalThread(target=self._run, name="pycron-keeper", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system's limit: tried again with the next output
            self._tell_once("output is not brought to its limit: no thread is to be had", error)
            return False
        self._thread = thread
        return True

    def _has_room(self) -> None:
        self._say(Upkeep.unblock)

    def _tell_once(self, message: str, error: Exception) -> None:
        if message not in self._told:
            self._told.add(message)
            cause = getattr(error, "strerror", None) or str(error)
            log.warning("%s: %s", message, cause, extra={"fields": {}})

    # --- the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        poll = select.poll()
        poll.register(self._wake, select.POLLIN)
        upkeep = Upkeep(self._clock, poll, self._tell_once)
        try:
            while not self._is_closed:
                self._turn(upkeep, poll, None)
            deadline_ns = self._clock.monotonic_ns() + to_ns(PATIENCE / 2)
            self._take_words(upkeep)
            upkeep.pass_on()
            while upkeep.is_busy and self._clock.monotonic_ns() < deadline_ns:
                self._turn(upkeep, poll, deadline_ns)
        finally:
            upkeep.close(PATIENCE / 2)
            self._journal.close()
            with self._lock:
                self._end_words()

    def _turn(self, upkeep: Upkeep, poll: select.poll, deadline_ns: int | None) -> None:
        """Sleep until there is something to do, at most until the deadline, and do it."""
        limits_ns = [ns for ns in (upkeep.next_due_ns, deadline_ns) if ns is not None]
        if not limits_ns:
            poll.poll()
        else:
            poll.poll(max(0, (min(limits_ns) - self._clock.monotonic_ns()) / 1e6))
        self._gather()
        self._take_words(upkeep)
        upkeep.attend()

    def _gather(self) -> None:
        """Let a moment go by since the last turn began, so that many outputs take few turns."""
        next_ns = self._began_ns + SHORTEST_NS
        while not self._is_closed and self._clock.monotonic_ns() < next_ns:
            with self._pause:
                self._clock.wait(self._pause, next_ns)
        self._began_ns = self._clock.monotonic_ns()

    def _take_words(self, upkeep: Upkeep) -> None:
        with suppress(BlockingIOError), self._lock:
            self._is_woken = False
            os.eventfd_read(self._wake)
        with suppress(queue.Empty):
            while True:
                self._words.get_nowait()(upkeep)
