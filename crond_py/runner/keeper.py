"""Looks after output files while they are written to: their limits, and passing on what is printed.

One thread, begun when it is first needed. The kernel tells it when a file grows (inotify, one word
at a time), so a silent job costs nothing. A file that grows on and on is looked at by the clock
instead: again after ``SHORTEST_NS`` where much has come, and up to ``LONGEST_NS`` later where
little has. A look is a few short system calls:

    grown beyond its limit --> its middle becomes a hole (``holes``); the writer notices nothing
    to be passed on --> whole lines go to a sink (``passing``), as many as it takes
    its process has ended --> once nobody can write any more it is compacted (``compaction``) and
                              forgotten; what is left behind is looked after for as long as it can

On failure: where the kernel cannot watch, a file is looked at when its process ends; where the
file system makes no holes, it is compacted then. Each is said once. A disk that hangs holds up
this thread, and no start and no end of a process.
"""

from __future__ import annotations

import errno
import heapq
import logging
import os
import queue
import select
import stat
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from crond_py.clock import to_ns
from crond_py.model import OutputMode
from crond_py.ports import AttemptKey, Clock, LineSink, OutputSpec, ProcessSpec
from crond_py.printable import printable_line
from crond_py.runner.compaction import ROOM_BYTES, Compactor
from crond_py.runner.holes import has_writer, punch
from crond_py.runner.inotify import CLOSED_BY_WRITER, MODIFIED, NO_LINK, ONCE, Inotify
from crond_py.runner.journal import JournalSink
from crond_py.runner.passing import Passer, Progress
from crond_py.runner.procfile import SHORTAGES

SHORTEST_NS: Final = 10_000_000
LONGEST_NS: Final = 100_000_000

SHORTAGE_NS: Final = 1_000_000_000
"""How soon a look is tried again for which there was no descriptor or no memory."""

MUCH_BYTES: Final = 1 << 20
"""A file that grows by as much between two looks is looked at again soon."""

PATIENCE: Final = timedelta(seconds=2)
"""How long the end waits for what is still to be done."""

_CANNOT_PUNCH: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})

log = logging.getLogger("pycron.output")


@dataclass(slots=True, eq=False)
class _Kept:
    """An output file under watch.

    ``watch`` is its number with inotify while that is to tell; ``due_ns`` when it is to be looked
    at by the clock. ``hole_end`` is how far its middle is a hole.
    """

    key: AttemptKey
    output: OutputSpec
    passer: Passer | None
    watch: int | None = None
    due_ns: int | None = None
    size: int = 0
    hole_end: int = 0
    looked_ns: int | None = None
    pause_ns: int = SHORTEST_NS
    has_ended: bool = False
    is_blocked: bool = False


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
        self._words: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._told: set[str] = set()
        # From here on all belongs to the thread.
        self._inotify: Inotify | None = None
        self._poll = select.poll()
        self._kept: dict[AttemptKey, _Kept] = {}
        self._by_watch: dict[int, _Kept] = {}
        self._due: list[tuple[int, int, _Kept]] = []
        self._count = 0
        self._compactor = Compactor()
        self._can_punch = True

    # --- what others say ------------------------------------------------------------------

    def add(self, spec: ProcessSpec, *, is_adopted: bool = False) -> None:
        """Look after the output of an attempt from now on, until ``ended`` and beyond.

        Call it before the end of its process can be told.
        """
        output = spec.output
        if output is None or (output.limit_bytes is None and output.mode is OutputMode.FILE):
            return
        sink = self._sinks.get(output.mode)
        passer = None
        if sink is not None:
            on_room = self._on_room(spec.key)
            passer = Passer(output.job, spec.key, sink, on_room, resumes=is_adopted)
        kept = _Kept(spec.key, output, passer)
        self._say(lambda: self._take(kept), is_new=True)

    def ended(self, key: AttemptKey) -> None:
        """Note that the process of an attempt has ended; an unknown key is ignored."""
        self._say(lambda: self._end(key))

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

    def _say(self, word: Callable[[], None], *, is_new: bool = False) -> None:
        """Have something done by the thread; only for something new it is begun."""
        with self._lock:
            if self._is_over or (is_new and self._is_closed):
                return
            if self._thread is None and not (is_new and self._begin()):
                return
            self._words.put(word)
            os.eventfd_write(self._wake, 1)

    def _end_words(self) -> None:
        """Take no more words; the caller holds the lock."""
        if not self._is_over:
            self._is_over = True
            os.close(self._wake)

    def _begin(self) -> bool:
        thread = threading.Thread(target=self._run, name="pycron-keeper", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system's limit: tried again with the next output
            self._tell_once("output is not brought to its limit: no thread is to be had", error)
            return False
        self._thread = thread
        return True

    def _on_room(self, key: AttemptKey) -> Callable[[], None]:
        return lambda: self._say(lambda: self._unblock(key))

    def _tell_once(self, message: str, error: Exception) -> None:
        if message not in self._told:
            self._told.add(message)
            cause = getattr(error, "strerror", None) or str(error)
            log.warning("%s: %s", message, cause, extra={"fields": {}})

    # --- the thread -----------------------------------------------------------------------

    def _run(self) -> None:
        self._poll.register(self._wake, select.POLLIN)
        try:
            self._inotify = Inotify()
            self._poll.register(self._inotify, select.POLLIN)
        except OSError as error:
            self._tell_once("output can only be looked at when its run ends", error)
        while not self._is_closed:
            self._wait(None)
            self._attend()
        try:
            self._finish()
        finally:
            with self._lock:
                self._end_words()

    def _wait(self, deadline_ns: int | None) -> None:
        """Wait for the kernel or for a word, at most until something is due or the deadline."""
        limits_ns = [self._due[0][0]] if self._due else []
        if deadline_ns is not None:
            limits_ns.append(deadline_ns)
        if not limits_ns:
            self._poll.poll()
            return
        self._poll.poll(max(0, (min(limits_ns) - self._clock.monotonic_ns()) / 1e6))

    def _attend(self) -> None:
        """Do what there is to do by now."""
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        while True:
            try:
                word = self._words.get_nowait()
            except queue.Empty:
                break
            word()
        if self._inotify is not None:
            for number in self._inotify.events():
                self._has_changed(number)
        now_ns = self._clock.monotonic_ns()
        while self._due and self._due[0][0] <= now_ns:
            due_ns, _, kept = heapq.heappop(self._due)
            if kept.due_ns == due_ns:
                kept.due_ns = None
                self._look(kept)

    def _take(self, kept: _Kept) -> None:
        if (old := self._kept.get(kept.key)) is not None:
            self._forget(old)
        self._kept[kept.key] = kept
        self._look(kept)

    def _end(self, key: AttemptKey) -> None:
        if (kept := self._kept.get(key)) is not None:
            kept.has_ended = True
            if not kept.is_blocked:
                self._look(kept)

    def _unblock(self, key: AttemptKey) -> None:
        if (kept := self._kept.get(key)) is not None and kept.is_blocked:
            kept.is_blocked = False
            self._look(kept)

    def _has_changed(self, number: int) -> None:
        """Look at a file that has changed, now or when its pause is over."""
        if number == -1:
            for kept in [*self._by_watch.values()]:
                self._disarm(kept)
                self._look_later(kept, self._clock.monotonic_ns() + LONGEST_NS)
            return
        kept_or_none = self._by_watch.pop(number, None)
        if kept_or_none is None:
            return
        kept = kept_or_none
        kept.watch = None
        earliest_ns = (kept.looked_ns or 0) + kept.pause_ns
        if kept.has_ended or self._clock.monotonic_ns() >= earliest_ns:
            self._look(kept)
        else:
            self._look_later(kept, earliest_ns)

    def _look_later(self, kept: _Kept, due_ns: int) -> None:
        """Look at a file by the clock; looks that are near one another share a wake-up."""
        kept.due_ns = -(-due_ns // SHORTEST_NS) * SHORTEST_NS
        self._count += 1
        heapq.heappush(self._due, (kept.due_ns, self._count, kept))

    def _look(self, kept: _Kept) -> None:
        """Look at a file: the boundary of one output; what goes wrong hurts no other."""
        kept.due_ns = None
        try:
            self._look_at(kept)
        except (FileNotFoundError, NotADirectoryError):  # removed, or never opened
            self._forget(kept)
        except OSError as error:
            if error.errno in SHORTAGES:
                self._look_later(kept, self._clock.monotonic_ns() + SHORTAGE_NS)
                return
            self._tell_fault(kept, error)
            self._forget(kept)
        except Exception:
            log.exception("output cannot be looked after", extra=_fields(kept))
            self._forget(kept)

    def _look_at(self, kept: _Kept) -> None:
        now_ns = self._clock.monotonic_ns()
        silent_ns = LONGEST_NS * 2 if kept.looked_ns is None else now_ns - kept.looked_ns
        had_ended = kept.has_ended  # before the look: then nothing comes after it
        size, progress = self._act_on(kept, is_over=had_ended)
        grown, kept.size, kept.looked_ns = abs(size - kept.size), size, now_ns
        if grown >= MUCH_BYTES or silent_ns >= LONGEST_NS * 2 or progress is Progress.MORE:
            kept.pause_ns = SHORTEST_NS
        else:
            kept.pause_ns = min(kept.pause_ns * 2, LONGEST_NS)
        kept.is_blocked = progress is Progress.BLOCKED
        if progress is Progress.MORE:
            self._look_later(kept, now_ns + SHORTEST_NS)
        elif had_ended and not kept.is_blocked and not (writer := self._has_writer(kept)):
            self._settle(kept, is_complete=writer is False)
        elif grown and silent_ns < LONGEST_NS * 2:
            self._look_later(kept, now_ns + kept.pause_ns)
        else:
            self._arm(kept)

    def _act_on(self, kept: _Kept, *, is_over: bool) -> tuple[int, Progress]:
        """Pass on what there is, and keep the file within its limit. Raises OSError."""
        output, progress = kept.output, Progress.IDLE
        found = output.path.lstat()
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        size, limit = found.st_size, output.limit_bytes
        if kept.is_blocked:
            progress = Progress.BLOCKED
        elif kept.passer is not None:
            descriptor = os.open(output.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                progress = kept.passer.pass_on(descriptor, is_over=is_over)
            finally:
                os.close(descriptor)
        if limit is not None and self._can_punch and size > limit:
            self._make_hole(kept, size, limit)
        return size, progress

    def _make_hole(self, kept: _Kept, size: int, limit: int) -> None:
        """Give back what is neither of the beginning nor of the end, if it is worth a call."""
        if size < kept.hole_end:  # the file was cut off
            kept.hole_end = 0
        begin = max(limit // 2, kept.hole_end)
        end = size - (limit - limit // 2)
        if end - begin < _slack(limit):
            return
        try:
            descriptor = os.open(kept.output.path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            try:
                kept.hole_end = punch(descriptor, begin, end)
            finally:
                os.close(descriptor)
        except OSError as error:
            if error.errno in _CANNOT_PUNCH:
                self._can_punch = False
                message = "the file system cannot leave out a part of a file (fallocate(2)); "
                message += "output is brought to its limit when its run has ended"
                self._tell_once(message, error)
            else:
                self._tell_fault(kept, error)

    # --- watching -------------------------------------------------------------------------

    def _arm(self, kept: _Kept) -> None:
        """Have the kernel tell the next change, and look again if there has been one by now."""
        if self._inotify is None:
            return
        mask = MODIFIED | ONCE | NO_LINK | (CLOSED_BY_WRITER if kept.has_ended else 0)
        try:
            number = self._inotify.add(kept.output.path, mask)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise
            self._tell_once("output can only be looked at when its run ends", error)
            return
        kept.watch = number
        self._by_watch[number] = kept
        if kept.output.path.lstat().st_size != kept.size:
            self._look_later(kept, self._clock.monotonic_ns() + kept.pause_ns)
        elif kept.has_ended and not kept.is_blocked and not self._has_writer(kept):
            self._look_later(kept, self._clock.monotonic_ns())

    def _disarm(self, kept: _Kept) -> None:
        if kept.watch is not None and self._inotify is not None:
            self._by_watch.pop(kept.watch, None)
            self._inotify.remove(kept.watch)
            kept.watch = None

    def _has_writer(self, kept: _Kept) -> bool | None:
        """Whether something that was left behind can still write; None: that cannot be told."""
        descriptor = os.open(kept.output.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            return has_writer(descriptor)
        finally:
            os.close(descriptor)

    def _settle(self, kept: _Kept, *, is_complete: bool) -> None:
        """Have a file brought to its limit for good, and forget it.

        Where nobody can tell whether it is complete a file with a hole stays as it is: what comes
        would be lost with the old file.
        """
        limit = kept.output.limit_bytes
        is_over = limit is not None and kept.size > limit + ROOM_BYTES
        if limit is not None and is_over and (is_complete or not self._can_punch):
            self._compactor.put(kept.output.path, limit)
        self._forget(kept)

    def _forget(self, kept: _Kept) -> None:
        self._disarm(kept)
        kept.due_ns = None
        if self._kept.get(kept.key) is kept:
            del self._kept[kept.key]

    def _finish(self) -> None:
        """Do what can be done at the end: pass on what was printed, and compact what is complete.

        How far a file of a process that goes on was passed on is noted at the file.
        """
        deadline_ns = self._clock.monotonic_ns() + to_ns(PATIENCE / 2)
        self._attend()
        for kept in [kept for kept in self._kept.values() if kept.passer is not None]:
            self._look(kept)
        while self._is_busy() and self._clock.monotonic_ns() < deadline_ns:
            self._wait(deadline_ns)
            self._attend()
        self._compactor.close(PATIENCE / 2)
        self._tell_unpassed()
        self._journal.close()
        if self._inotify is not None:
            self._inotify.close()

    def _is_busy(self) -> bool:
        """Whether there is something to be passed on, or to be settled."""
        return any(
            kept.is_blocked or kept.due_ns is not None
            for kept in self._kept.values()
            if kept.passer is not None or kept.has_ended
        )

    def _tell_unpassed(self) -> None:
        for kept in self._kept.values():
            left = kept.passer.left(kept.size) if kept.passer is not None else 0
            if left and kept.has_ended:
                fields = {**_fields(kept)["fields"], "bytes": left}
                log.warning("output was not all passed on", extra={"fields": fields})

    def _tell_fault(self, kept: _Kept, error: OSError) -> None:
        path = printable_line(str(kept.output.path))
        message = "output cannot be looked after: %s: %s"
        log.warning(message, path, error.strerror or str(error), extra=_fields(kept))


def _slack(limit: int) -> int:
    """Return how much beyond its limit a file may take before a call is worth it."""
    return min(max(limit // 4, 1 << 16), 1 << 22)


def _fields(kept: _Kept) -> dict[str, dict[str, object]]:
    key = kept.key
    return {"fields": {"job": kept.output.job, "run": key.run_id, "attempt": key.number}}
