"""Ends whole process trees: signals them, and sees to it that nothing of them is left.

A thread of its own, since reading /proc takes milliseconds and exits must not wait for it. It
takes children to look at; all that have come meanwhile share one snapshot of the processes.

The leader's process group is signalled as a whole, which no fork can slip through; what has left
it is found and signalled one by one. SIGTERM goes to what was there when the stop was asked for,
once: what a handler starts to clean up with is not disturbed. SIGKILL goes to everything, again
and again until a look finds nothing new.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Protocol

from crond_py.runner import pidfds, proctree
from crond_py.runner.child import Child
from crond_py.runner.proctree import Process, Snapshot

log = logging.getLogger(__name__)


class Watch(Protocol):
    """What the ender needs of the supervisor."""

    def members_of(self, child: Child) -> dict[int, int]:
        """Return the start ticks of the members under watch, by pid."""
        ...

    def add_member(self, child: Child, pidfd: int, process: Process) -> bool:
        """Watch a further member, if that can be done; the descriptor is the watch's."""
        ...

    def finish(self, child: Child) -> None:
        """Tell that the child has ended, if it and its members have."""
        ...


class Ender:
    """Looks at children that are being stopped, until their trees are gone."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self._queue: SimpleQueue[Child | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="pycron-ender", daemon=True)

    def open(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Stop the thread after the work it is at."""
        self._queue.put(None)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def look_at(self, child: Child) -> None:
        """Have a child looked at: its stop has changed, or its tree may be gone."""
        self._queue.put(child)

    def _run(self) -> None:
        while (first := self._queue.get()) is not None:
            batch = {first: None}
            try:
                while (further := self._queue.get_nowait()) is not None:
                    batch[further] = None
            except Empty:
                pass
            else:
                self._queue.put(None)  # for the next turn
            snapshot = self._take_snapshot()
            for child in batch:
                if not child.is_done and self._try_look(child, snapshot):
                    self._queue.put(child)

    def _take_snapshot(self) -> Snapshot:
        try:
            return Snapshot.take()
        except OSError as error:
            log.warning("only process groups are ended: cannot look for what left them: %s", error)
            return Snapshot({})

    def _try_look(self, child: Child, snapshot: Snapshot) -> bool:
        try:
            return self._look(child, snapshot)
        except Exception:  # the boundary of one run: the others' trees are still to be ended
            log.exception("could not end the processes of run %s", child.tag)
            return False

    def _look(self, child: Child, snapshot: Snapshot) -> bool:
        """Take one child a step further; return whether it should be looked at again at once."""
        number = child.stop
        if number is None:
            return False
        is_first = child.sent is not number
        child.sent = number
        group = self._signal_leader(child, number) if is_first else None
        known = self._watch.members_of(child)
        has_new = False
        for process in proctree.find_descendants(snapshot, child.root, known):
            is_known = known.get(process.pid) == process.start_ticks
            is_new = not is_known and child.unwatched.get(process.pid) != process.start_ticks
            has_new |= is_new
            if number is signal.SIGKILL:
                must_signal = is_first or is_new
            else:
                must_signal = is_first and not _is_in_group(process, group)
            if is_new or must_signal:
                self._attend(child, process, number if must_signal else None, is_known=is_known)
        if has_new:
            return number is signal.SIGKILL or child.tree_is_gone
        if child.tree_is_gone and snapshot.has_gaps and not child.was_rechecked:
            child.was_rechecked = True
            return True
        if child.tree_is_gone:
            self._watch.finish(child)
        return False

    def _signal_leader(self, child: Child, number: signal.Signals) -> int | None:
        """Signal the leader, with its whole group if it leads one; return the group reached."""
        if pidfds.send_to_group(child.pidfd, child.pid, number, is_pinned=child.is_own):
            return child.pid
        if child.pidfd is not None:
            self._send(child.pidfd, number, child, child.pid)
        return None

    def _attend(
        self, child: Child, process: Process, number: signal.Signals | None, *, is_known: bool
    ) -> None:
        """Signal a descendant if ``number`` says so, and watch it if it is not watched yet."""
        try:
            pidfd = pidfds.open_verified(process.pid, process.start_ticks)
        except OSError as error:
            if not is_known:
                _give_up(child, process, str(error))
            if number is not None:
                _send_unheld(process, number)
            return
        if pidfd is None:
            return
        if number is not None:
            self._send(pidfd, number, child, process.pid)
        if is_known:
            os.close(pidfd)
        elif not self._watch.add_member(child, pidfd, process):
            _give_up(child, process, "the kernel watches no more descriptors")

    def _send(self, pidfd: int, number: signal.Signals, child: Child, pid: int) -> None:
        try:
            pidfds.send(pidfd, number)
        except PermissionError:
            log.warning(
                "process %d of run %s belongs to another user and gets no %s",
                pid,
                child.tag,
                number.name,
            )


def _is_in_group(process: Process, group: int | None) -> bool:
    """Return whether a process was in the group when that was signalled.

    It may have left between the snapshot and the signal, and must then get one of its own.
    """
    if process.group != group:
        return False
    now = proctree.read_process(process.pid)
    return now is None or now.group == group


def _give_up(child: Child, process: Process, reason: str) -> None:
    """Note that a descendant cannot be waited for; Ended may come while it lives."""
    child.unwatched[process.pid] = process.start_ticks
    log.warning("process %d of run %s is not waited for: %s", process.pid, child.tag, reason)


def _send_unheld(process: Process, number: signal.Signals) -> None:
    """Signal a process by its number, where no descriptor is left to hold it by."""
    with suppress(OSError):
        if proctree.start_ticks(process.pid) == process.start_ticks:
            os.kill(process.pid, number)
