"""The Processes port on Linux: puts the parts of the runner together.

``starters`` has the threads that start processes, ``punctual`` what waits for its instant,
``spawn`` starts one process and ``bursts`` many, ``supervisor`` watches them all, ``ender`` ends
their trees; ``adoption`` and ``rests`` see to what others have started or left. This file knows
what has been asked for and not yet begun.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from crond_py.clock import instant_of, wait_closely
from crond_py.dataclass import dataclass
from crond_py.model import Exit, OutputMode
from crond_py.ports import (
    AttemptKey,
    Clock,
    Ended,
    LineSink,
    ProcessEvent,
    ProcessSpec,
    Started,
    StartFailed,
    Survivor,
)
from crond_py.runner import proctree
from crond_py.runner.adoption import adopt, adopt_rest, identified, users_by_now
from crond_py.runner.believed import Believed
from crond_py.runner.bursts import NOBODY_KNOWS, Bursts
from crond_py.runner.child import Child
from crond_py.runner.keeper import Keeper
from crond_py.runner.letgo import LetGo
from crond_py.runner.lookups import Lookups
from crond_py.runner.marks import read_origin
from crond_py.runner.punctual import MANY, Punctual
from crond_py.runner.rests import Rests
from crond_py.runner.signals import stop_ignoring_signals
from crond_py.runner.spawn import Ready, Refused, Spawned, make_ready, spawn
from crond_py.runner.starters import PATIENCE_NS, Starters
from crond_py.runner.subreaper import is_subreaper
from crond_py.runner.supervisor import Supervisor
from crond_py.runner.ushers import can_be_ushered

log = logging.getLogger(__name__)

FAILED: Final = "pycron has failed; its log has more"
STOPPED: Final = "stopped before it was started"
RECALLED: Final = "recalled before it was started"


@dataclass(slots=True)
class Wanted:
    """A start that was asked for, until it is under watch or has failed.

    ``at_ns`` is the instant it is for (0: at once), ``stop`` the strongest signal that was asked
    for since, ``ready`` what was found of what it needs, once that ``was_looked_up``.
    """

    at_ns: int = 0
    stop: signal.Signals | None = None
    ready: Ready | None = None
    was_looked_up: bool = False


class NotWantedError(Exception):
    """A start is not to be made any more, for ``reason``."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ProcessRunner:
    """Starts, stops and watches processes; see ``ports.Processes``.

    ``report`` is called from the runner's threads, from several at a time; what one of its calls
    takes long for, other events wait for. ``reap_orphans`` (by default: where we are a subreaper
    or pid 1) has the children reaped that others leave to us; where it does, no code may start a
    process from our first thread but as an errand (``errands``): it would be taken for an orphan.
    With ``streams`` standard output and error of all of them are these two descriptors. ``let_go``
    has the note of what was let go; it is closed with the runner.
    """

    def __init__(
        self,
        report: Callable[[Any], None],
        clock: Clock,
        *,
        starters: int = 2,
        reap_orphans: bool | None = None,
        sinks: Mapping[OutputMode, LineSink] | None = None,
        streams: tuple[int, int] | None = None,
        let_go: LetGo | None = None,
    ) -> None:
        if reap_orphans is None:
            reap_orphans = is_subreaper()
        self._report = report
        self._clock = clock
        self._streams = streams
        self._let_go = let_go or LetGo()
        self._lock = threading.Lock()
        self._pending: dict[AttemptKey, Wanted] = {}
        self._is_recalled = False
        self._lookups = Lookups(clock)
        self._is_open = False
        self._is_closed = False
        self._keeper = Keeper(clock, sinks)
        self._starters = Starters(self._begin, self._begin_rest, clock, threads=starters)
        self._supervisor = Supervisor(self._tell, clock, reap_orphans=reap_orphans)
        self._rests = Rests(self._supervisor, self._starters.put_rest)
        self._believed = Believed(self._starters.put_rest)
        self._bursts = Bursts(
            self._supervisor,
            clock,
            let_go=self._let_go,
            started=self._take_over,
            again=self._start_at,
            failed=lambda spec, reason: self._fail(spec.key, reason),
            is_wanted=self._is_wanted,
        )
        can_usher = self._supervisor.takes_children_in and streams is None
        self._punctual = Punctual(
            self._starters.put,
            self._bursts.begin if can_usher else None,
            clock,
            are_more_coming=lambda: self._starters.waiting > 0,
        )

    def open(self) -> None:
        """Start the threads. Call it from the main thread, and before any client can connect.

        A runner that was closed stays closed.
        """
        with self._lock:
            if self._is_open or self._is_closed:
                return
            self._is_open = True
        stop_ignoring_signals()
        self._supervisor.open()
        self._starters.open()

    def close(self) -> None:
        """End the threads; the processes run on. What was not started yet fails to start."""
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
        left = self._punctual.close()
        self._bursts.close(PATIENCE_NS / 1e9)
        for spec in [*left, *self._starters.close(), *self._punctual.close()]:
            if not self._rests.forget(spec) and not self._believed.forget(spec):
                self._fail(spec.key, "pycron was stopped before it could be started")
        self._supervisor.close()
        self._keeper.close()
        self._let_go.close()

    def call(self, function: Callable[[], None]) -> None:
        """Have the thread that tells the ends of processes call something, if it gets on."""
        self._supervisor.call(function)

    def start(self, spec: ProcessSpec, *, at_ns: int | None = None) -> None:
        """Have a process started, after those that were asked for before.

        With ``at_ns``, an instant of the monotonic clock, it is started then and not earlier; what
        it needs is looked up at once. Of many of one instant it is told a little later, but with
        the moment of their start.
        """
        self.start_all([(spec, at_ns)])

    def start_all(self, starts: Sequence[tuple[ProcessSpec, int | None]]) -> None:
        """Have each of these started, with its ``at_ns``, as ``start`` does."""
        with self._lock:
            for spec, at_ns in starts:
                self._pending[spec.key] = Wanted(at_ns or 0)
        self._starters.put(*(spec for spec, _ in starts))

    def stop(self, key: AttemptKey, *, force: bool) -> None:
        """Send SIGTERM, or with ``force`` SIGKILL, to the whole tree of the process.

        One that is not started yet is not started at all: StartFailed tells so. That comes once it
        is sure, which may be a moment after the instant that the start was to wait for.
        """
        number = signal.SIGKILL if force else signal.SIGTERM
        with self._lock:
            wanted = self._pending.get(key)
            if wanted is not None and wanted.stop is not signal.SIGKILL:
                wanted.stop = number
        if wanted is None:
            self._supervisor.stop(key, number)
        elif self._starters.withdraw(key) or self._punctual.withdraw(key):
            self._fail(key, STOPPED)
        else:  # a thread or an usher has it, which sees to that before or after the start
            self._bursts.withdraw(key)

    def tell_after_ends(self, event: object) -> None:
        """See ``ports.Processes``."""
        self._supervisor.call_after_looks(lambda: self._report(event))

    def recall(self) -> None:
        """Start nothing any more that was to wait for an instant; StartFailed tells of each.

        What is just being started is; an usher sees before each of its starts that it is recalled.
        """
        with self._lock:
            self._is_recalled = True
            keys = [key for key, wanted in self._pending.items() if wanted.at_ns]
        withdrawn = self._starters.withdraw(*keys)
        for key in (*withdrawn, *filter(self._punctual.withdraw, keys)):
            self._fail(key, RECALLED)
        self._bursts.recall()

    def survivors(self, identity: str) -> list[Survivor]:
        """Return the processes that carry the marks of runs of that ledger."""
        return proctree.find_survivors(identity)

    def let_go_until(self) -> datetime | None:
        """Return up to which instant starts with a ``held_for`` may have been made in this boot."""
        return self._let_go.until()

    def note_starts(self) -> None:
        """Have it known from now on what has been let go."""
        self._let_go.begin()

    def origin(self, survivor: Survivor) -> tuple[str, datetime] | None:
        """Return the job and the due instant that a survivor's environment names."""
        return read_origin(survivor.pid)

    def adopt(self, spec: ProcessSpec, survivor: Survivor) -> bool:
        """Watch a survivor as if it had been started here; False if it has just ended."""
        return self._keep(spec, is_watched=lambda: self._try_to_adopt(spec, survivor))

    def adopt_rest(self, spec: ProcessSpec, survivors: Sequence[Survivor]) -> bool:
        """Watch what is left of an attempt whose own process is gone; False if nothing is left.

        Ended comes when all of it is gone; how the attempt ended nobody can tell. What belongs to
        a user who cannot have to do with the run is no part of it, whatever marks it shows
        (``adoption.users_of``).
        """
        return self._keep(spec, is_watched=lambda: adopt_rest(self._supervisor, spec, survivors))

    def end_rest(self, spec: ProcessSpec, *, force: bool) -> None:
        """End what all attempts of a run up to this one have left, of which none is under watch."""
        self._rests.end(spec, signal.SIGKILL if force else signal.SIGTERM)

    def settle(self, spec: ProcessSpec) -> None:
        """Bring the output of an attempt that ended unseen to its limit."""
        self._keeper.settle(spec)

    def _try_to_adopt(self, spec: ProcessSpec, survivor: Survivor) -> bool:
        found = identified(survivor)
        child = adopt(self._supervisor, spec, found) if found is not None else None
        if found is None or child is None:
            return False
        self._believed.ask(child, spec, found.uid)
        return True

    def _keep(self, spec: ProcessSpec, is_watched: Callable[[], bool]) -> bool:
        """Look after the output of what an earlier daemon has started, before its end is told."""
        self._keeper.add(spec, is_adopted=True)
        if is_watched():
            return True
        self._keeper.ended(spec.key)
        return False

    def _begin_rest(self, spec: ProcessSpec) -> None:
        """See to what a run has left, or ask for its users; as ``_begin``."""
        if not self._rests.begin(spec):
            self._believed.begin(spec)

    def _begin(self, spec: ProcessSpec) -> None:
        """Start one process; runs on a starter's thread. Does not raise."""
        try:
            is_over = self._is_not_wanted(spec) or self._is_held(spec)
        except Exception:  # the boundary of one run: that it will not be started is told
            log.exception("could not start run %s", spec.tag)
            self._fail(spec.key, FAILED)
            return
        if is_over:
            return
        token, child = self._supervisor.start_begins(spec.key), None
        try:
            result = self._try_to_spawn(spec)
            if isinstance(result, Spawned):
                child = self._watch(spec, result, self._clock.now())
        finally:
            self._supervisor.start_is_over(token, child)
        if isinstance(result, Refused):
            self._fail(spec.key, result.reason)
            return
        self._is_under_watch(spec.key)

    def _is_wanted(self, key: AttemptKey) -> bool:
        """Return whether a start is still to be made."""
        with self._lock:
            return not self._why_not(self._pending[key])

    def _is_not_wanted(self, spec: ProcessSpec) -> bool:
        """Tell of a start that is not wanted any more, and whether it is one."""
        with self._lock:
            reason = self._why_not(self._pending[spec.key])
        if reason:
            self._fail(spec.key, reason)
        return bool(reason)

    def _why_not(self, wanted: Wanted) -> str:
        """Return why a start is not to be made any more, or nothing; the caller has the lock."""
        if wanted.stop is not None:
            return STOPPED
        return RECALLED if self._is_recalled and wanted.at_ns else ""

    def _is_held(self, spec: ProcessSpec) -> bool:
        """Find what a start needs whose instant has not come yet, and have it wait for that.

        So does one that is late together with many others.
        """
        with self._lock:
            wanted = self._pending[spec.key]
        at_ns = wanted.at_ns
        if wanted.was_looked_up or not self._is_to_be_held(spec, at_ns):
            return False
        wanted.was_looked_up = True
        ready = wanted.ready = self._try_to_make_ready(spec)
        if at_ns <= self._clock.monotonic_ns():
            if not (self._is_to_be_held(spec, at_ns) and can_be_ushered(ready)):
                return False
            at_ns = self._punctual.soon()
        self._punctual.put(spec, ready, at_ns)
        with self._lock:
            reason = self._why_not(wanted)
        if reason and self._punctual.withdraw(spec.key):  # it was asked for in between
            self._fail(spec.key, reason)
        return True

    def _is_to_be_held(self, spec: ProcessSpec, at_ns: int) -> bool:
        if at_ns > self._clock.monotonic_ns():
            return True
        return self._punctual.has_ushers and self._starters.waiting_of(spec.pool) >= MANY

    def _try_to_make_ready(self, spec: ProcessSpec) -> Ready | None:
        try:
            return make_ready(spec, self._lookups)
        except Exception:  # the boundary of one run: a fault that stays shows at its start
            log.exception("could not make run %s ready", spec.tag)
            return None

    def _start_at(self, spec: ProcessSpec, at_ns: int) -> None:
        """Have a process started that an usher did not start."""
        if self._is_not_wanted(spec):
            return
        if at_ns > self._clock.monotonic_ns():
            self._punctual.put(spec, None, at_ns)
        else:
            self._starters.put(spec)

    def _take_over(self, spec: ProcessSpec, spawned: Spawned, started_ns: int) -> Child:
        """Take over a process that an usher has started."""
        child = self._watch(spec, spawned, instant_of(started_ns))
        self._is_under_watch(spec.key)
        return child

    def _is_under_watch(self, key: AttemptKey) -> None:
        """Have a process stopped of which that was asked while it was being started."""
        with self._lock:
            stop = self._pending.pop(key).stop
        if stop is not None:
            self._supervisor.stop(key, stop)

    def _try_to_spawn(self, spec: ProcessSpec) -> Spawned | Refused:
        with self._lock:
            wanted = self._pending[spec.key]
        if spec.held_for is not None:
            self._let_go.note(spec.held_for)
        try:
            return spawn(
                spec,
                streams=self._streams,
                ready=wanted.ready,
                look_up=self._lookups.account,
                hold=lambda: self._await_instant(wanted),
            )
        except NotWantedError as error:
            return Refused(error.reason)
        except Exception:  # the boundary of one run: the other starts go on
            log.exception("could not start run %s", spec.tag)
            return Refused(FAILED)

    def _await_instant(self, wanted: Wanted) -> None:
        """Return when a start is due, if it is still to be made then. Raises NotWantedError."""
        if wanted.at_ns > self._clock.monotonic_ns():
            wait_closely(self._clock, wanted.at_ns)
            with self._lock:
                reason = self._why_not(wanted)
            if reason:
                raise NotWantedError(reason)

    def _watch(self, spec: ProcessSpec, spawned: Spawned, started_at: datetime) -> Child:
        """Tell that a process runs, and have it watched. Does not raise."""
        try:
            ticks = proctree.start_ticks(spawned.pid)
        except OSError:  # no descriptor to read it with; it is our child, so nobody needs it
            ticks = None
        uid = _uid_of(spec, spawned.pid)
        child = Child(
            spec.key,
            tag=spec.tag,
            pid=spawned.pid,
            start_ticks=ticks,
            pidfd=self._supervisor.hold(spawned.pid),
            is_own=True,
            users=users_by_now(spec, uid),
            leftovers=spec.leftovers,
            output=self._output_of(spec, spawned),
            memory_floor_kb=spawned.memory_floor_kb,
        )
        if self._streams is None:  # else its file, if it names one, has nothing of this process
            self._try_to_keep(spec)
        self._tell(Started(spec.key, spawned.pid, ticks, started_at, spawned.note))
        try:
            self._supervisor.watch(child)
        except Exception:  # likewise; that it has started is told, so its end must be
            log.exception("process %d of run %s is not watched", spawned.pid, spec.tag)
            note = f"process {spawned.pid} is not watched: {FAILED}"
            self._tell(Ended(spec.key, Exit(), self._clock.now(), note))
        else:
            self._believed.ask(child, spec, uid)
        return child

    def _output_of(self, spec: ProcessSpec, spawned: Spawned) -> str | None:
        """Return the file that a process of ours writes to, if it has one."""
        if spec.output is None or spawned.note or self._streams is not None:
            return None
        return str(spec.output.path)

    def _try_to_keep(self, spec: ProcessSpec) -> None:
        try:
            self._keeper.add(spec)
        except Exception:  # likewise; that it runs is told even so
            log.exception("nobody looks after the output of run %s", spec.tag)

    def _fail(self, key: AttemptKey, reason: str) -> None:
        with self._lock:
            self._pending.pop(key, None)
        self._tell(
            StartFailed(
                key,
                reason,
                self._clock.now(),
                is_recalled=reason is RECALLED,
                is_unknown=reason is NOBODY_KNOWS,
            )
        )

    def _tell(self, event: ProcessEvent) -> None:
        if isinstance(event, Ended):
            self._keeper.ended(event.key)
        try:
            self._report(event)
        except Exception:  # a fault in one report must not end the thread that watches all
            log.exception("%s of run %d was not taken", type(event).__name__, event.key.run_id)


def _uid_of(spec: ProcessSpec, pid: int) -> int | None:
    """Return the user of a process that was just started by a spec."""
    if spec.user is None:
        return os.geteuid()
    try:
        return proctree.owner_of(pid)  # looked up already, and a directory service may be slow
    except OSError:  # no descriptor to read it with
        return None
