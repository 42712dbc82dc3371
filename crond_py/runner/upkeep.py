"""What is done about output files while they are written to; ``keeper`` has the thread for it.

A file is looked at when the kernel says that it has grown (inotify, one word at a time), so a
silent job costs nothing. One that grows on and on is looked at by the clock instead: again after
``SHORTEST_NS`` where much has come, and up to ``LONGEST_NS`` later where little has. A look is a
few short system calls:

    grown beyond its limit --> its middle becomes a hole (``holes``); the writer notices nothing
    to be passed on --> whole lines go to a sink (``passing``), as many as it takes
    its process has ended --> once nobody can write any more it is compacted (``compaction``) and
                              forgotten; what is left behind is looked after for as long as it can

On failure: where the kernel cannot watch, a file is looked at when its process ends, and what is
left behind writes unseen; where the file system makes no holes, it is compacted then. Each is said
once.
"""

from __future__ import annotations

import errno
import heapq
import logging
import os
import select
import stat
from collections.abc import Callable
from datetime import timedelta
from typing import Final

from crond_py.dataclass import dataclass
from crond_py.ports import AttemptKey, Clock, OutputSpec
from crond_py.printable import printable_line
from crond_py.runner.compaction import ROOM_BYTES, Compactor
from crond_py.runner.holes import has_writer, punch
from crond_py.runner.inotify import CLOSED_BY_WRITER, MODIFIED, NO_LINK, ONCE, Inotify
from crond_py.runner.output import open_to_read
from crond_py.runner.passing import Passer, Progress
from crond_py.runner.procfile import SHORTAGES

SHORTEST_NS: Final = 10_000_000
LONGEST_NS: Final = 100_000_000

SHORTAGE_NS: Final = 1_000_000_000
"""How soon a look is tried again for which there was no descriptor or no memory."""

MOST_BLOCKED: Final = 100
"""How many outputs of ended processes wait for a sink without room; the oldest are given up."""

MUCH_BYTES: Final = 1 << 20
"""A file that grows by as much between two looks is looked at again soon."""

_TO_PUNCH: Final = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_CANNOT_PUNCH: Final = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})

# A shell that redirects to /dev/stdout or /dev/stderr opens the file that it is, anew and empty.
_EMPTIED: Final = "output was cut off by its own job: > /dev/stderr does that, and >&2 does not"

log = logging.getLogger("pycron.output")


@dataclass(slots=True, eq=False)
class Kept:
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
    was_emptied: bool = False


class Upkeep:
    """The files that are looked after. All of it belongs to one thread."""

    def __init__(self, clock: Clock, poll: select.poll, tell_once: Callable[..., None]) -> None:
        self._clock = clock
        self._tell_once = tell_once
        self._kept: dict[AttemptKey, Kept] = {}
        self._new: dict[AttemptKey, Kept] = {}
        self._by_watch: dict[int, Kept] = {}
        self._blocked: dict[AttemptKey, Kept] = {}
        self._due: list[tuple[int, int, Kept]] = []
        self._count = 0
        self._compactor = Compactor()
        self._can_punch = True
        self._inotify: Inotify | None = None
        try:
            self._inotify = Inotify()
            poll.register(self._inotify, select.POLLIN)
        except OSError as error:
            tell_once("output can only be looked at when its run ends", error)

    # --- what has happened ----------------------------------------------------------------

    @property
    def next_due_ns(self) -> int | None:
        """When the next look is due by the clock."""
        return self._due[0][0] if self._due else None

    def attend(self) -> None:
        """Look at what is new, at what has changed, and at what is due by now."""
        new, self._new = self._new, {}
        for kept in new.values():
            self._look(kept)
        if self._inotify is not None:
            for number in self._inotify.events():
                self._has_changed(number)
        now_ns = self._clock.monotonic_ns()
        while self._due and self._due[0][0] <= now_ns:
            due_ns, _, kept = heapq.heappop(self._due)
            if kept.due_ns == due_ns:
                kept.due_ns = None
                self._look(kept)

    def take(self, kept: Kept) -> None:
        """Look after a file from now on; ``attend`` has the first look, unless it ends before."""
        if (old := self._kept.get(kept.key)) is not None:
            self._forget(old)
        self._kept[kept.key] = self._new[kept.key] = kept

    def end(self, key: AttemptKey) -> None:
        """Note that the process of an attempt has ended."""
        if (kept := self._kept.get(key)) is not None:
            kept.has_ended = True
            self._new.pop(key, None)
            self._look(kept)

    def unblock(self) -> None:
        """Note that a sink has room again: who has waited longest goes first."""
        full = set()
        for kept in [kept for kept in self._kept.values() if kept.is_blocked]:
            if kept.output.mode not in full:
                kept.is_blocked = False
                self._blocked.pop(kept.key, None)
                self._look(kept)
                if kept.is_blocked:
                    full.add(kept.output.mode)

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

    def _look_later(self, kept: Kept, due_ns: int) -> None:
        """Look at a file by the clock; looks that are near one another share a wake-up."""
        kept.due_ns = -(-due_ns // SHORTEST_NS) * SHORTEST_NS
        self._count += 1
        heapq.heappush(self._due, (kept.due_ns, self._count, kept))

    def _look(self, kept: Kept) -> None:
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

    def _look_at(self, kept: Kept) -> None:
        now_ns = self._clock.monotonic_ns()
        silent_ns = LONGEST_NS * 2 if kept.looked_ns is None else now_ns - kept.looked_ns
        had_ended = kept.has_ended  # before the look: then nothing comes after it
        size, progress = self._act_on(kept, is_over=had_ended)
        if size < kept.size and not kept.was_emptied:
            kept.was_emptied = True
            log.warning(_EMPTIED, extra=_fields(kept))
        grown, kept.size, kept.looked_ns = abs(size - kept.size), size, now_ns
        if grown >= MUCH_BYTES or silent_ns >= LONGEST_NS * 2 or progress is Progress.MORE:
            kept.pause_ns = SHORTEST_NS
        else:
            kept.pause_ns = min(kept.pause_ns * 2, LONGEST_NS)
        kept.is_blocked = progress is Progress.BLOCKED
        if progress is Progress.MORE:
            self._look_later(kept, now_ns + SHORTEST_NS)
        elif had_ended and not (writer := self._has_writer(kept)):
            if kept.is_blocked:
                self._wait_for_room(kept)
            else:
                self._settle(kept, is_complete=writer is False)
        elif grown and silent_ns < LONGEST_NS * 2:
            self._look_later(kept, now_ns + kept.pause_ns)
        else:
            self._arm(kept)

    def _act_on(self, kept: Kept, *, is_over: bool) -> tuple[int, Progress]:
        """Pass on what there is, and keep the file within its limit. Raises OSError."""
        output, progress = kept.output, Progress.IDLE
        found = os.lstat(output.path)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        size, limit = found.st_size, output.limit_bytes
        if kept.is_blocked:
            progress = Progress.BLOCKED
        elif kept.passer is not None:
            descriptor = open_to_read(output.path)
            try:
                progress = kept.passer.pass_on(descriptor, is_over=is_over)
            finally:
                os.close(descriptor)
        if limit is not None and self._can_punch and size > limit:
            self._make_hole(kept, size, limit)
        return size, progress

    def _make_hole(self, kept: Kept, size: int, limit: int) -> None:
        """Give back what is neither of the beginning nor of the end, if it is worth a call."""
        if size < kept.hole_end:  # the file was cut off
            kept.hole_end = 0
        begin = max(limit // 2, kept.hole_end)
        end = size - (limit - limit // 2)
        if end - begin < _slack(limit):
            return
        try:
            descriptor = os.open(kept.output.path, _TO_PUNCH)
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

    def _arm(self, kept: Kept) -> None:
        """Have the kernel tell the next change, and look again if there has been one by now.

        Where it cannot, the file is looked at when its process ends; if it has, for the last time.
        """
        number = self._watch(kept)
        if number is None:
            if kept.has_ended and not kept.is_blocked:
                self._settle(kept, is_complete=False)
            return
        kept.watch = number
        self._by_watch[number] = kept
        if os.lstat(kept.output.path).st_size != kept.size:
            self._look_later(kept, self._clock.monotonic_ns() + kept.pause_ns)
        elif kept.has_ended and not self._has_writer(kept):
            self._look_later(kept, self._clock.monotonic_ns())

    def _watch(self, kept: Kept) -> int | None:
        """Have the next change told; return the number of the watch, None where there is none."""
        if self._inotify is None:
            return None
        mask = MODIFIED | ONCE | NO_LINK | (CLOSED_BY_WRITER if kept.has_ended else 0)
        try:
            return self._inotify.add(kept.output.path, mask)
        except OSError as error:
            if error.errno == errno.ENOENT:
                raise
            self._tell_once("output can only be looked at when its run ends", error)
            return None

    def _disarm(self, kept: Kept) -> None:
        if kept.watch is not None and self._inotify is not None:
            self._by_watch.pop(kept.watch, None)
            self._inotify.remove(kept.watch)
            kept.watch = None

    def _has_writer(self, kept: Kept) -> bool | None:
        """Whether something that was left behind can still write; None: that cannot be told."""
        descriptor = open_to_read(kept.output.path)
        try:
            return has_writer(descriptor)
        finally:
            os.close(descriptor)

    def _wait_for_room(self, kept: Kept) -> None:
        """Keep a complete file until its sink has room, but not any number of them."""
        self._disarm(kept)
        self._blocked[kept.key] = kept
        if len(self._blocked) > MOST_BLOCKED:
            oldest = next(iter(self._blocked.values()))
            self._tell_unpassed(oldest)
            self._settle(oldest, is_complete=True)

    def _settle(self, kept: Kept, *, is_complete: bool) -> None:
        """Have a file brought to its limit for good, and forget it.

        Where nobody can tell whether it is complete a file with a hole stays as it is: what comes
        would be lost with the old file.
        """
        limit = kept.output.limit_bytes
        is_over = limit is not None and kept.size > limit + ROOM_BYTES
        if limit is not None and is_over and (is_complete or not self._can_punch):
            self._compactor.put(kept.output.path, limit)
        # It is complete, but may have grown since its size was looked at.
        elif is_complete and kept.output.drops_empty and not os.lstat(kept.output.path).st_size:
            os.unlink(kept.output.path)
        self._forget(kept)

    def _forget(self, kept: Kept) -> None:
        self._disarm(kept)
        self._blocked.pop(kept.key, None)
        kept.due_ns = None
        if self._kept.get(kept.key) is kept:
            del self._kept[kept.key]

    # --- the end --------------------------------------------------------------------------

    def pass_on(self) -> None:
        """Look at all that is to be passed on."""
        for kept in [kept for kept in self._kept.values() if kept.passer is not None]:
            self._look(kept)

    @property
    def is_busy(self) -> bool:
        """Whether there is something to be passed on, or to be settled."""
        return any(
            kept.is_blocked or kept.due_ns is not None
            for kept in self._kept.values()
            if kept.passer is not None or kept.has_ended
        )

    def close(self, timeout: timedelta) -> None:
        """Compact what is complete, for at most ``timeout``; say what was not passed on."""
        self._compactor.close(timeout)
        for kept in self._kept.values():
            self._tell_unpassed(kept)
        if self._inotify is not None:
            self._inotify.close()

    def _tell_unpassed(self, kept: Kept) -> None:
        left = kept.passer.left(kept.size) if kept.passer is not None else 0
        if left and kept.has_ended:
            fields = {**_fields(kept)["fields"], "bytes": left}
            log.warning("output was not all passed on", extra={"fields": fields})

    def _tell_fault(self, kept: Kept, error: OSError) -> None:
        path = printable_line(str(kept.output.path))
        message = "output cannot be looked after: %s: %s"
        log.warning(message, path, error.strerror or str(error), extra=_fields(kept))


def _slack(limit: int) -> int:
    """Return how much beyond its limit a file may take before a call is worth it."""
    return min(max(limit // 4, 1 << 16), 1 << 22)


def _fields(kept: Kept) -> dict[str, dict[str, object]]:
    key = kept.key
    return {"fields": {"job": kept.output.job, "run": key.run_id, "attempt": key.number}}
