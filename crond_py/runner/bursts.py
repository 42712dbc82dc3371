"""Has many processes started at one instant by ushers, and takes over what these have started.

The starts are dealt out to as many ushers as are worth it, each waited for by a thread of its own
that lives as long as that. What an usher has not started, for whatever reason, is handed back.
What it was just starting when it was killed is looked for among our children, by its brand.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from crond_py.ports import AttemptKey, Clock, ProcessSpec
from crond_py.runner import proctree
from crond_py.runner.child import Child
from crond_py.runner.letgo import LetGo
from crond_py.runner.marks import read_marks
from crond_py.runner.orphans import list_children
from crond_py.runner.spawn import Ready, Spawned
from crond_py.runner.supervisor import Supervisor
from crond_py.runner.ushers import Usher, Ushered
from crond_py.vital import VitalThread

MOST_USHERS: Final = 2
"""More do not start more, see vfork(2): the kernel has its own locks for that."""

MOST_STARTS: Final = 256
"""An usher's starts are known of when all are begun, so that is not to take long."""

WORTH_TWO: Final = 64

NOBODY_KNOWS: Final = "what starts jobs was killed, and nobody knows whether this one ran"

Held = tuple[ProcessSpec, Ready]

log = logging.getLogger(__name__)


class Bursts:
    """Starts many processes at once, and calls one of three for each.

    ``started`` with a process and when it began, ``again`` with a start that was not made,
    ``failed`` where nobody can tell whether it was. They must not raise: each start is answered by
    one of them, once. Whether one ``is_wanted`` is asked when an usher has got it: ``withdraw`` is
    for those of which that changes afterwards.
    """

    def __init__(
        self,
        supervisor: Supervisor,
        clock: Clock,
        *,
        let_go: LetGo,
        started: Callable[[ProcessSpec, Spawned, int], Child],
        again: Callable[[ProcessSpec, int], None],
        failed: Callable[[ProcessSpec, str], None],
        is_wanted: Callable[[AttemptKey], bool],
    ) -> None:
        self._supervisor = supervisor
        self._clock = clock
        self._let_go = let_go
        self._started = started
        self._again = again
        self._failed = failed
        self._is_wanted = is_wanted
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._ushers: set[Usher] = set()
        self._is_recalled = False

    def begin(self, starts: Sequence[Held], at_ns: int) -> None:
        """Start all of it at an instant of the monotonic clock; returns at once."""
        ways = min(MOST_USHERS, len(os.sched_getaffinity(0))) if len(starts) >= WORTH_TWO else 1
        for part in (starts[number::ways] for number in range(ways)):
            thread = VitalThread(
                target=self._run, args=(part, at_ns), name="pycron-usher", daemon=True
            )
            with self._lock:
                self._threads.add(thread)
            try:
                thread.start()
            except Exception as error:  # noqa: BLE001 - the system's limit, or whatever it is
                self._forget(thread)
                self._do_without(part, at_ns, error)

    def recall(self) -> None:
        """Have handed back what has not begun, now and from now on.

        An usher sees that before its next start, so which starts it has made is known as ever.
        """
        with self._lock:
            self._is_recalled = True
            for usher in self._ushers:
                usher.recall()

    def withdraw(self, key: AttemptKey) -> None:
        """Have a start handed back that is in the hands of an usher and has not begun."""
        with self._lock:
            for usher in self._ushers:
                with suppress(OSError):  # out of memory: then it is made, and stopped
                    usher.withdraw(key)

    def close(self, patience_s: float) -> None:
        """Wait for what goes on, but not for long."""
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(patience_s)

    def _run(self, starts: Sequence[Held], at_ns: int) -> None:
        try:
            for first in range(0, len(starts), MOST_STARTS):
                self._start(starts[first : first + MOST_STARTS], at_ns)
        finally:
            self._forget(threading.current_thread())

    def _forget(self, thread: threading.Thread) -> None:
        with self._lock:
            self._threads.discard(thread)

    def _start(self, starts: Sequence[Held], at_ns: int) -> None:
        tokens = {spec.key: self._supervisor.start_begins(spec.key) for spec, _ in starts}
        begun: dict[AttemptKey, Child] = {}
        try:
            self._start_by_usher(starts, at_ns, begun)
        finally:
            for key, token in tokens.items():
                self._supervisor.start_is_over(token, begun.get(key))

    def _start_by_usher(
        self, starts: Sequence[Held], at_ns: int, begun: dict[AttemptKey, Child]
    ) -> None:
        """Start all of it, and note in ``begun`` what was taken over."""
        try:
            usher = Usher([ready for _, ready in starts], at_ns, self._clock, self._let_go)
        except Exception as error:  # noqa: BLE001 - nothing has begun
            self._do_without(starts, at_ns, error)
            return
        try:
            with self._supervisor.ushering(usher.pids):
                try:
                    self._note(usher, starts)
                    usher.begin()
                except Exception as error:  # noqa: BLE001 - nothing has begun
                    self._do_without(starts, at_ns, error)
                    return
                results = _results_of(usher, len(starts))
                for (spec, ready), result in zip(starts, results, strict=True):
                    child = self._try_to_take(spec, ready, result, at_ns, usher.memory_floor_kb)
                    if child is not None:
                        begun[spec.key] = child
        finally:
            with self._lock:
                self._ushers.discard(usher)
            usher.close()

    def _note(self, usher: Usher, starts: Sequence[Held]) -> None:
        """Have an usher recalled with the others, or at once where these were before.

        Likewise have its starts withdrawn.
        """
        with self._lock:
            self._ushers.add(usher)
            if self._is_recalled:
                usher.recall()
                return
        for spec, _ in starts:
            if not self._is_wanted(spec.key):
                self.withdraw(spec.key)

    def _do_without(self, starts: Sequence[Held], at_ns: int, error: Exception) -> None:
        log.warning("jobs that are due together are started one by one: %s", error)
        self._hand_back(starts, at_ns)

    def _hand_back(self, starts: Sequence[Held], at_ns: int) -> None:
        for spec, _ in starts:
            self._again(spec, at_ns)

    def _try_to_take(
        self, spec: ProcessSpec, ready: Ready, result: Ushered, at_ns: int, floor_kb: int
    ) -> Child | None:
        try:
            return self._take(spec, ready, result, at_ns, floor_kb)
        except Exception:  # the boundary of one run: the others are taken over
            log.exception("run %s was not taken over", spec.tag)
            self._failed(spec, NOBODY_KNOWS)
            return None

    def _take(
        self, spec: ProcessSpec, ready: Ready, result: Ushered, at_ns: int, floor_kb: int
    ) -> Child | None:
        if result.pid:
            return self._started(spec, Spawned(result.pid, floor_kb, ready.note), result.started_ns)
        if not result.is_unknown:
            self._again(spec, at_ns)
        elif pid := _find_child(spec):
            spawned = Spawned(pid, floor_kb, ready.note)
            return self._started(spec, spawned, self._clock.time_ns())
        else:
            self._failed(spec, NOBODY_KNOWS)
        return None


def _results_of(usher: Usher, number: int) -> list[Ushered]:
    """Wait for an usher, and return what has become of each of its starts."""
    try:
        usher.wait()
        return usher.results()
    except Exception:  # the boundary of one usher: each of its starts is answered all the same
        log.exception("what has been started together is not known")
        return [Ushered(is_unknown=True)] * number


def _find_child(spec: ProcessSpec) -> int:
    """Return our child that is the process of a spec, or 0."""
    for pid in list_children():
        if read_marks(pid).name(spec.tag, spec.key.number):
            process = proctree.read_process(pid)
            if process is not None and process.session == pid:
                return pid
    return 0
