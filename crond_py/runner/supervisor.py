"""Watches processes and tells when they end.

One thread sleeps in epoll on a pidfd for each process, without a time limit. When one ends it is
reaped at once and Ended is told, unless it is being stopped. Then it stays a zombie, which keeps
its number from being given away, until the ender has seen that all of its tree is gone.

A child for which no descriptor is left is waited for by a thread of its own. Descriptors are
taken to be short before they are used up, since starting a process and serving clients need
some too. The limit itself is not raised: every child would inherit it, and programs that use
select(2) break above 1024.
"""

from __future__ import annotations

import logging
import os
import resource
import select
import signal
import threading
from collections.abc import Callable
from datetime import timedelta

from crond_py.model import Exit
from crond_py.ports import AttemptKey, Clock, Ended, ProcessEvent
from crond_py.runner import pidfds
from crond_py.runner.child import Child
from crond_py.runner.ender import Ender
from crond_py.runner.orphans import OrphanReaper
from crond_py.runner.proctree import Process

_RESERVED_DESCRIPTORS = 64

log = logging.getLogger(__name__)


class Supervisor:
    """Keeps the table of children. ``report`` must not raise; it is called without the lock."""

    def __init__(
        self, report: Callable[[ProcessEvent], None], clock: Clock, *, reap_orphans: bool
    ) -> None:
        self._report = report
        self._clock = clock
        self._lock = threading.Lock()
        self._children: dict[AttemptKey, Child] = {}
        self._by_descriptor: dict[int, Child] = {}
        self._orphan_descriptors: dict[int, int] = {}
        self._closed = False
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._highest_descriptor = _highest_descriptor()
        self._ender = Ender(self)
        self._orphans = OrphanReaper(self._own_pids) if reap_orphans else None
        self._thread = threading.Thread(target=self._run, name="pycron-supervisor", daemon=True)

    def open(self) -> None:
        """Start the threads."""
        self._ender.open()
        self._thread.start()

    def close(self) -> None:
        """End the threads and let go of the processes, which run on."""
        with self._lock:
            self._closed = True
            os.eventfd_write(self._wake, 1)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
        self._ender.close()
        with self._lock:
            descriptors = {self._wake, *self._by_descriptor, *self._orphan_descriptors}
            descriptors |= {c.pidfd for c in self._children.values() if c.pidfd is not None}
            self._by_descriptor.clear()
            self._orphan_descriptors.clear()
            self._children.clear()
        self._epoll.close()
        for descriptor in descriptors:
            os.close(descriptor)

    def start_begins(self) -> int:
        """Note that a process is about to be started; returns what ``start_is_over`` wants."""
        return self._orphans.start_begins() if self._orphans is not None else 0

    def start_is_over(self, token: int) -> None:
        """Note that the process is under watch, or that there is none."""
        if self._orphans is not None and self._orphans.start_is_over(token):
            with self._lock:
                if not self._closed:
                    os.eventfd_write(self._wake, 1)

    def hold(self, pid: int) -> int | None:
        """Return a pidfd for a child that was just started, or None where they are short."""
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:  # out of descriptors, or a sandbox that has no such call
            return None
        # The kernel gives out the lowest number that is free, so this one tells how many are used.
        if pidfd <= self._highest_descriptor:
            return pidfd
        os.close(pidfd)
        return None

    def watch(self, child: Child) -> bool:
        """Watch a process from now on; its pidfd is the supervisor's. False: that cannot be done.

        Only a process that is not our child can be refused.
        """
        with self._lock:
            if self._closed:
                if child.pidfd is not None:
                    os.close(child.pidfd)
                return False
            self._children[child.key] = child
            if child.pidfd is not None and self._register(child.pidfd, child):
                return True
            child.pidfd = None
            if not child.is_own:
                del self._children[child.key]
                return False
        waiter = threading.Thread(
            target=self._wait_for, args=(child,), name=f"pycron-waiter-{child.pid}", daemon=True
        )
        try:
            waiter.start()
        except RuntimeError:  # no thread is to be had either, so this one has to do
            self._wait_for(child)
        return True

    def _register(self, descriptor: int, child: Child) -> bool:
        """Add a descriptor to those under watch, or close it where the kernel takes no more."""
        try:
            self._epoll.register(descriptor, select.EPOLLIN)
        except OSError:  # fs.epoll.max_user_watches, or out of memory
            os.close(descriptor)
            return False
        self._by_descriptor[descriptor] = child
        return True

    def stop(self, key: AttemptKey, number: signal.Signals) -> None:
        """Signal a process's tree, and tell its end only when all of it is gone.

        The same signal is not sent twice, and SIGTERM no more after SIGKILL: to some programs a
        second SIGTERM means "do not clean up".
        """
        with self._lock:
            child = self._children.get(key)
            if child is None or child.stop in {number, signal.SIGKILL}:
                return
            child.stop = number
        self._ender.look_at(child)

    # --- what the ender asks for --------------------------------------------------------------

    def members_of(self, child: Child) -> dict[int, int]:
        """Return the start ticks of the members under watch, by pid."""
        with self._lock:
            return dict(child.members.values())

    def add_member(self, child: Child, pidfd: int, process: Process) -> bool:
        """Watch a further member of a child's tree; the descriptor is the supervisor's."""
        with self._lock:
            if not self._register(pidfd, child):
                return False
            child.members[pidfd] = (process.pid, process.start_ticks)
            return True

    def finish(self, child: Child) -> None:
        """Tell that a stopped child has ended, if it and its members have."""
        with self._lock:
            if child.is_done or not child.tree_is_gone:
                return
            self._forget(child)
        self._tell_end(child)
        if child.pidfd is not None:
            os.close(child.pidfd)

    # --- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            # A descriptor is closed only after the events that came with it: until then its
            # number cannot mean another one.
            ended = [fd for fd, _ in self._epoll.poll() if self._attend(fd)]
            if self._orphans is not None:
                self._look_after_orphans(self._orphans)
            for descriptor in ended:
                os.close(descriptor)

    def _attend(self, descriptor: int) -> bool:
        """Act on a descriptor that has become readable; return whether to close it."""
        if descriptor == self._wake:
            os.eventfd_read(descriptor)
            return False
        with self._lock:
            self._epoll.unregister(descriptor)
            child = self._by_descriptor.pop(descriptor, None)
            if child is None:
                self._orphan_descriptors.pop(descriptor, None)
                return True
            is_member = child.members.pop(descriptor, None) is not None
            tree_is_gone = child.tree_is_gone
        if not is_member:
            return self._leader_has_ended(child)
        if tree_is_gone:
            self._ender.look_at(child)
        return True

    def _wait_for(self, child: Child) -> None:
        # It stays a zombie: whether it may be reaped already is not decided here.
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        self._leader_has_ended(child)

    def _leader_has_ended(self, child: Child) -> bool:
        """Tell the end of a child, or leave that to the ender; return whether it was told."""
        if not child.is_own:
            assert child.pidfd is not None  # noqa: S101 - else it would not have been adopted
            child.exit = pidfds.exit_of_other(child.pidfd, child.pid, child.start_ticks)
        with self._lock:
            if self._closed:
                return False
            child.has_ended = True
            is_stopping = child.stop is not None
            if not is_stopping:
                self._forget(child)
        if is_stopping:
            self._ender.look_at(child)
            return False
        self._tell_end(child)
        return True

    def _forget(self, child: Child) -> None:
        child.is_done = True
        del self._children[child.key]

    def _tell_end(self, child: Child) -> None:
        self._report(Ended(child.key, child.exit or _reap(child), self._clock.now()))

    # --- orphans ------------------------------------------------------------------------------

    def _own_pids(self) -> set[int]:
        with self._lock:
            return {child.pid for child in self._children.values()}

    def _look_after_orphans(self, orphans: OrphanReaper) -> None:
        for pid in orphans.reap():
            with self._lock:
                if pid in self._orphan_descriptors.values() or self._closed:
                    continue
                # Without a descriptor it is met again at the next end of anything.
                if (pidfd := self.hold(pid)) is not None:
                    self._orphan_descriptors[pidfd] = pid
                    self._epoll.register(pidfd, select.EPOLLIN)


def _reap(child: Child) -> Exit:
    """Take a child's exit status from the kernel."""
    try:
        _, status, usage = os.wait4(child.pid, 0)
    except ChildProcessError:  # somebody else in this process has waited for it
        return Exit()
    peak_kb = usage.ru_maxrss if usage.ru_maxrss > child.memory_floor_kb else None
    return pidfds.exit_from_status(
        status,
        cpu=timedelta(seconds=usage.ru_utime + usage.ru_stime),
        peak_memory_bytes=None if peak_kb is None else peak_kb * 1024,
    )


def _highest_descriptor() -> int:
    """Return the highest number of a descriptor that a pidfd may have."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        limit = os.sysconf("SC_OPEN_MAX")
    return limit - min(_RESERVED_DESCRIPTORS, limit // 4)
