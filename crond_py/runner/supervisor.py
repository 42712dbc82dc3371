"""Watches processes and tells when they end.

One thread sleeps in epoll on a pidfd for each process. When one ends, a glance at our children
shows whether it has left anything. If not, it is reaped at once and Ended is told. If it may have,
or is being stopped, it is handed to the ender and stays a zombie, which keeps its number from being
given away, until it is known what becomes of its tree.

There are such glances, too, when nothing that is under watch has ended (``glances``), so that what
loses its parent stays no zombie.

A child for which no descriptor is left is waited for by a thread of its own; what is no child of
ours is looked for each second (``unheld``). Descriptors are taken to be short before they are used
up, since starting a process and serving clients need some too. The limit itself is not raised:
every child would inherit it, and programs that use select(2) break above 1024.
"""

from __future__ import annotations

import logging
import os
import select
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta

from crond_py.model import Exit
from crond_py.ports import AttemptKey, Clock, Ended, LeftOver, ProcessEvent
from crond_py.runner import pidfds, procfile
from crond_py.runner.aftercalls import AfterCalls
from crond_py.runner.child import Child
from crond_py.runner.ender import Ender
from crond_py.runner.glances import Glances
from crond_py.runner.orphans import Hunt, Orphan, Orphans
from crond_py.runner.proctree import Process, Snapshot
from crond_py.runner.unheld import Unheld
from crond_py.vital import VitalThread

_REST_NS = 1_000_000_000

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
        self._was_blind = False
        self._epoll = select.epoll()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._epoll.register(self._wake, select.EPOLLIN)
        self._calls = AfterCalls(clock)
        self._unheld = Unheld(clock, self._hold_late)
        self._ender = Ender(self, clock)
        self._orphans = Orphans(self._table) if reap_orphans else None
        self._glances = (
            None if self._orphans is None else Glances(self._orphans, clock, self._wake_up)
        )
        self._thread = VitalThread(target=self._run, name="pycron-supervisor", daemon=True)

    def open(self) -> None:
        """Start the threads."""
        if self._glances is not None:
            self._glances.open()
        self._ender.open()
        self._thread.start()

    def close(self) -> None:
        """End the threads and let go of the processes, which run on."""
        if self._glances is not None:
            self._glances.close()
        with self._lock:
            self._closed = True
            os.eventfd_write(self._wake, 1)
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()
        if not self._ender.close():
            return  # it may yet use what would be closed here, whose numbers would be others' then
        with self._lock:
            descriptors = {self._wake, *self._by_descriptor, *self._orphan_descriptors}
            for child in self._children.values():
                if child.pidfd is not None:
                    descriptors.add(child.pidfd)
                    child.pidfd = None  # whoever is just telling its end has called this
            self._by_descriptor.clear()
            self._orphan_descriptors.clear()
            self._children.clear()
        self._epoll.close()
        for descriptor in descriptors:
            os.close(descriptor)

    def _wake_up(self) -> None:
        """Have the thread see what there is to do. Takes no lock: a signal's handler calls it."""
        if not self._closed:
            os.eventfd_write(self._wake, 1)

    def call(self, function: Callable[[], None]) -> None:
        """Have the thread that watches all call something, which shows that it gets on.

        By then the ends are told of what has ended by now and has left nothing.
        """
        with self._lock:
            if not self._closed:
                self._calls.put(function)
                os.eventfd_write(self._wake, 1)

    def call_after_looks(self, function: Callable[[], None]) -> None:
        """Have something called once the ends are told of what has ended by now.

        Also of what has left something, where a look tells that soon (see ``aftercalls``).
        """

        def go_on() -> None:
            with self._lock:
                are_looked_at = any(child.has_ended for child in self._children.values())
            if are_looked_at:
                self._ender.call(self._calls.wait_for_look(function))
            else:
                function()

        self.call(go_on)

    def start_begins(self, key: AttemptKey) -> int:
        """Note that a process is about to be started; returns what ``start_is_over`` wants."""
        return self._orphans.start_begins(key) if self._orphans is not None else 0

    def start_is_over(self, token: int, child: Child | None) -> None:
        """Note that the process is under watch, or that there is none."""
        if self._orphans is not None and self._orphans.start_is_over(token, child):
            self._ender.look_at(None)

    @property
    def takes_children_in(self) -> bool:
        """Whether the children of what we have started become ours when that ends."""
        return self._orphans is not None

    @contextmanager
    def ushering(self, pids: Callable[[], set[int]]) -> Iterator[None]:
        """Take nothing for an orphan that ``pids`` returns, until that is under watch."""
        if self._orphans is not None:
            self._orphans.usher_begins(pids)
        try:
            yield
        finally:
            if self._orphans is not None:
                self._orphans.usher_is_over(pids)

    def hold(self, pid: int) -> int | None:
        """Return a pidfd for a child that was just started, or None where they are short."""
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:  # out of descriptors, or a sandbox that has no such call
            return None
        if pidfds.is_to_spare(pidfd):
            return pidfd
        os.close(pidfd)
        return None

    def watch(self, child: Child) -> bool:
        """Watch a process from now on; its pidfd is the supervisor's. False: we are closed."""
        with self._lock:
            if self._closed:
                if child.pidfd is not None:
                    os.close(child.pidfd)
                return False
            self._enter(child)
            if child.pidfd is not None and self._register(child.pidfd, child):
                return True
            child.pidfd = None
            if not child.is_own:  # that it cannot be held does not say that it is gone
                self._unheld.add(child)
                os.eventfd_write(self._wake, 1)
                return True
        name = f"pycron-waiter-{child.pid}"
        waiter = VitalThread(target=self._wait_for, args=(child,), name=name, daemon=True)
        try:
            waiter.start()
        except RuntimeError:  # no thread is to be had either, so this one has to do
            self._wait_for(child)
        return True

    def watch_rest(
        self, child: Child, members: dict[int, tuple[int, int]], *, is_short: bool
    ) -> bool:
        """Watch a child that has only members left, by their pidfds, which are the supervisor's.

        ``is_short``: others could not be held, and are looked for. False: we are closed.
        """
        with self._lock:
            for descriptor, member in members.items():
                if self._closed:
                    os.close(descriptor)
                elif self._register(descriptor, child):
                    child.members[descriptor] = member
            if self._closed:
                return False
            self._enter(child)
        if is_short or len(child.members) < len(members):
            self._ender.look_at(child)
        return True

    def _enter(self, child: Child) -> None:
        is_first = not self._children
        self._children[child.key] = child
        if is_first and self._glances is not None and not self._glances.hears:
            os.eventfd_write(self._wake, 1)  # from now on there are glances at our children

    def _hold_late(self, child: Child, pidfd: int) -> bool:
        """Watch an unheld process by a descriptor after all; closed where it cannot be kept."""
        with self._lock:
            if not self._register(pidfd, child):
                return False
            child.pidfd = pidfd
            return True

    def _register(self, descriptor: int, child: Child | None) -> bool:
        """Add a descriptor to those under watch, or close it where no more can be had."""
        is_kept = pidfds.is_to_spare(descriptor)
        try:
            if is_kept:
                self._epoll.register(descriptor, select.EPOLLIN)
        except OSError:  # fs.epoll.max_user_watches, or out of memory
            is_kept = False
        if not is_kept:
            os.close(descriptor)
            return False
        if child is not None:
            self._by_descriptor[descriptor] = child
        return True

    def stop(self, key: AttemptKey, number: signal.Signals) -> bool:
        """Signal a process's tree, and tell its end only when all of it is gone.

        The same signal is not sent twice, and SIGTERM no more after SIGKILL: to some programs a
        second SIGTERM means "do not clean up". False: no such process is under watch.
        """
        with self._lock:
            child = self._children.get(key)
            if child is None or child.is_done:
                return False
            if child.stop in {number, signal.SIGKILL}:
                return True
            child.stop = number
        self._ender.look_at(child)
        return True

    # --- what the ender asks for --------------------------------------------------------------

    def members_of(self, child: Child) -> dict[int, int]:
        """Return the start ticks of the members under watch, by pid."""
        with self._lock:
            return dict(child.members.values())

    def orphans_of(self, child: Child) -> dict[int, int]:
        """Return the start ticks of our orphans that are of a child's tree, by pid."""
        return self._orphans.of(child) if self._orphans is not None else {}

    def strays_of(self, child: Child) -> dict[int, int]:
        """Return the start ticks of orphans that may be of a child's run, or of another, by pid."""
        return self._orphans.strays_of(child) if self._orphans is not None else {}

    def sees_orphans(self, child: Child) -> bool:
        """Return whether all that a child leaves is, or descends from, an orphan of ours."""
        return self._orphans is not None and not child.is_adopted and procfile.tells_children()

    def hunt(self, child: Child, *, kill: bool) -> Hunt:
        """Find what of a child's run is our child just now and not under watch."""
        if self._orphans is None:
            return Hunt([], has_ended=False)
        return self._orphans.hunt(child, self.members_of(child), kill=kill)

    def add_member(self, child: Child, pidfd: int, process: Process) -> bool:
        """Watch a further member of a child's tree; the descriptor is the supervisor's."""
        with self._lock:
            if not self._register(pidfd, child):
                return False
            child.members[pidfd] = (process.pid, process.start_ticks)
            return True

    def linger(self, child: Child, count: int) -> None:
        """Tell, once, that a child has ended and has left so many that are to be ended."""
        if child.is_lingering:
            return
        end = self._try_to_take_exit(child)
        child.is_lingering = True
        self._report(LeftOver(child.key, end, self._clock.now(), count))

    def finish(self, child: Child, note: str, *, seen: signal.Signals | None) -> None:
        """Tell that a child has ended, if it and its members have; see ``Watch``."""
        with self._lock:
            if child.is_done or not child.tree_is_gone or child.stop is not seen:
                return
            child.is_done = True
        self._try_to_look_after_orphans()  # what has ended of its tree is reaped before it is told
        self._tell_end(child, note)
        # Once it is out of the table, it is a suspect only for what those hand on that there are.
        if self._orphans is not None and child.leaves_nothing:
            self._orphans.is_done_with(child.key)
        if child.pidfd is not None:
            os.close(child.pidfd)

    def look_after_orphans(self, picture: Callable[[], Snapshot] | None = None) -> None:
        """Reap our orphans, and have those that live watched; see ``Watch``.

        Without a picture this is quick, and does nothing where the kernel tells no children.
        """
        if self._orphans is None or (picture is None and not procfile.tells_children()):
            return
        if self._glances is not None:
            self._glances.begins()
        try:
            unwatched = self._orphans.look(picture() if picture is not None else None)
        except Exception as error:
            self._note_blindness(error)
            raise
        self._was_blind = False
        self._hold_orphans(unwatched)
        if self._orphans.want_another_look:
            with self._lock:
                self._wake_up()  # it may sleep for longer than until then

    def _note_blindness(self, error: Exception) -> None:
        """Say, once until a look succeeds, that one has failed, and have another one made."""
        if not self._was_blind:
            trace = None if isinstance(error, OSError) else error
            log.warning("cannot look for what jobs have left behind: %s", error, exc_info=trace)
        self._was_blind = True
        with self._lock:
            if self._glances is not None:
                self._glances.want()

    def _hold_orphans(self, unwatched: list[Orphan]) -> None:
        for orphan in unwatched:
            with self._lock:
                # Without a descriptor it is met again at the next end of anything.
                if self._closed or (pidfd := self.hold(orphan.pid)) is None:
                    return
                if orphan.is_watched:  # another thread was quicker
                    os.close(pidfd)
                elif self._register(pidfd, None):
                    self._orphan_descriptors[pidfd] = orphan.pid
                    orphan.is_watched = True

    # --- the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._closed:
            try:
                self._wait_once()
            except Exception:  # the boundary of one wait: the thread that watches all goes on
                log.exception("the ends of processes are told late")
                self._rest()

    def _wait_once(self) -> None:
        """Wait until something has happened, and act on it; then call what was to be called.

        That was put before it was asked what has ended, so it comes after that.
        """
        calls = self._calls.take()
        try:
            self._attend_all(0 if calls else self._patience_s())
        finally:
            self._calls.make(calls)

    def _attend_all(self, patience_s: float | None) -> None:
        # A descriptor is closed only after the events that came with it: until then its number
        # cannot mean another one.
        to_close: list[int] = []
        most = len(self._by_descriptor) + len(self._orphan_descriptors) + 1  # all at once
        events = self._epoll.poll(patience_s, most)
        leaders = self._unheld.look()
        for descriptor, _ in events:
            try:
                leader = self._attend(descriptor)
            except Exception:  # the boundary of one run: the others are still watched
                log.exception("descriptor %d is not watched any more", descriptor)
                continue
            if leader is not None:
                leaders.append(leader)
            elif descriptor != self._wake:
                to_close.append(descriptor)
        if leaders or to_close:
            to_close += self._leaders_have_ended(leaders)
        elif self._patience_for_glance_s() == 0:
            self._glance()
        for descriptor in to_close:
            os.close(descriptor)

    def _glance(self) -> None:
        """Look after our orphans, though nothing is known to have ended."""
        if procfile.tells_children():
            self._try_to_look_after_orphans()
        elif self._glances is not None:
            self._glances.begins()
            self._ender.look_at(None)

    def _patience_s(self) -> float | None:
        """Return for how long nothing needs to be looked at; None: until something happens."""
        waits = (
            self._unheld.patience_s(),
            self._calls.patience_s(),
            self._patience_for_glance_s(),
        )
        return min((wait for wait in waits if wait is not None), default=None)

    def _patience_for_glance_s(self) -> float | None:
        if self._glances is None:
            return None
        return self._glances.patience_s(are_children=bool(self._children))

    def _rest(self) -> None:
        """Let a second go by, so that a fault that stays does not keep a processor busy."""
        deadline = self._clock.monotonic_ns() + _REST_NS
        condition = threading.Condition()
        with condition:
            self._clock.wait(condition, deadline)

    def _attend(self, descriptor: int) -> Child | None:
        """Act on a descriptor that has become readable; return the child whose leader's it is."""
        if descriptor == self._wake:
            os.eventfd_read(descriptor)
            return None
        with self._lock:
            self._epoll.unregister(descriptor)
            child = self._by_descriptor.pop(descriptor, None)
            orphan = self._orphan_descriptors.pop(descriptor, None)
            if child is not None and child.members.pop(descriptor, None) is None:
                return child
            tree_is_gone = child is not None and child.tree_is_gone
        if orphan is not None and self._orphans is not None:
            self._orphans.has_ended(orphan)
        if tree_is_gone or (orphan is not None and not procfile.tells_children()):
            self._ender.look_at(child)
        return None

    def _wait_for(self, child: Child) -> None:
        # It stays a zombie: whether it may be reaped already is not decided here.
        with suppress(ChildProcessError):  # then it was reaped by somebody else, and has ended
            os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        self._leaders_have_ended([child])

    def _leaders_have_ended(self, leaders: list[Child]) -> list[int]:
        """Tell the ends of children, or leave that to the ender.

        Returns the descriptors of those that were told, which are to be closed.
        """
        for child in leaders:
            if not child.is_own:
                self._try_to_take_exit(child)  # at once: its parent will reap it
            with self._lock:
                child.has_ended = True
        # After the end: what a process leaves is handed to us before its end can be seen.
        has_looked = self._try_to_look_after_orphans()
        to_close: list[int] = []
        for child in leaders:
            may_have_left = not has_looked or self._may_have_left(child)
            with self._lock:
                if self._closed:
                    break
                is_handed_on = may_have_left or child.stop is not None
                if not is_handed_on:
                    child.is_done = True
            if is_handed_on:
                self._ender.look_at(child)
                continue
            self._tell_end(child, "")
            if child.pidfd is not None:
                to_close.append(child.pidfd)
        return to_close

    def _try_to_look_after_orphans(self) -> bool:
        """Look, and return whether that has not failed; what goes wrong is said there."""
        try:
            self.look_after_orphans()
        except Exception:  # noqa: BLE001 - the boundary of the runs that have ended: that is told
            return False
        return True

    def _may_have_left(self, child: Child) -> bool:
        """Return whether a child may have left something, as of a look that has just been made."""
        if self._orphans is not None and self.sees_orphans(child):
            return self._orphans.may_have(child.key)
        return True

    def _tell_end(self, child: Child, note: str) -> None:
        end = self._try_to_take_exit(child)
        # What earlier attempts have left is looked for only where the end was asked for.
        has_left = child.stop is None and (bool(note) or child.key.number > 1)
        self._report(Ended(child.key, end, self._clock.now(), note, has_left=has_left))
        # In the table until it is told: what is to come after all ends looks there for some.
        with self._lock:
            if self._children.get(child.key) is child:  # else a newer rest of the run is there
                del self._children[child.key]

    def _try_to_take_exit(self, child: Child) -> Exit:
        try:
            self._take_exit(child)
        except Exception:  # the boundary of one run: an end that is not understood is told too
            log.exception("how run %s has ended is not known", child.tag)
        return child.exit or Exit()

    def _take_exit(self, child: Child) -> None:
        """Learn how a child has ended, once. One of our own is reaped, its number given up."""
        if child.exit is not None:
            return
        if child.is_own:
            child.exit = _reap(child)
            with self._lock:
                child.is_own = False
        elif child.pidfd is not None:
            child.exit = pidfds.exit_of_other(child.pidfd, child.pid, child.start_ticks)

    def _table(self) -> list[Child]:
        with self._lock:
            return list(self._children.values())


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
