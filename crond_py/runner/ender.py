"""Ends whole process trees, and sees what those leave that end by themselves.

A thread of its own, since reading /proc takes milliseconds and exits must not wait for it. It
takes children to look at; all that have come meanwhile share one snapshot of the processes.

To be ended, the leader's process group is signalled as a whole, which no fork can slip through;
what has left it is found and signalled one by one. SIGTERM goes to what was there when the stop
was asked for, once: what a handler starts to clean up with is not disturbed. SIGKILL goes to
everything, again and again until a look finds nothing new. What belongs to another user (of a
set-user-ID program) and gets no signal is not waited for after that, but spoken of; a leader is
waited for even so, since its run goes on.

Where nobody can look, or watch what was found (no descriptor is left), an end that was asked for
is not told: the leader's group gets its signal all the same, and there is another look at the next
event or a second later.

A leader that has ended by itself may have left something, which is left alone or, by its spec,
told of and kept under watch until somebody stops it.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Final

from crond_py.model import Leftovers
from crond_py.ports import Clock
from crond_py.runner import procfile, proctree
from crond_py.runner.child import Child
from crond_py.runner.descent import find_descendants
from crond_py.runner.leftovers import (
    describe_doubts,
    describe_elusive,
    describe_left,
    describe_spared,
    describe_strays,
)
from crond_py.runner.proctree import Process, Snapshot
from crond_py.runner.reach import attend, is_in_group, signal_leader
from crond_py.runner.watch import Watch
from crond_py.vital import VitalThread

_CLOSE: Final = object()
_AGAIN_NS: Final = 1_000_000_000
_PATIENCE_S: Final = 5.0
_MOST_HUNTS: Final = 5
_TRIES_OF_HUNT: Final = 500  # a tenth of a second
_GLANCES: Final = 5

log = logging.getLogger(__name__)


class Pictures:
    """The full snapshot that one round of looks shares, taken when it is first wanted.

    ``fault`` is what kept our orphans from being looked after in this round, None: nothing did.
    """

    def __init__(self) -> None:
        self._full: Snapshot | None = None
        self._shortage: OSError | None = None
        self.fault: Exception | None = None

    @property
    def full(self) -> Snapshot:
        """All processes, as of this round. Raises OSError where they cannot be read."""
        if self._shortage is not None:
            raise self._shortage
        if self._full is None:
            try:
                self._full = Snapshot.take()
            except OSError as error:
                self._shortage = error
                raise
        return self._full

    def raise_shortage(self) -> None:
        """Raise OSError where we were short of something to look after our orphans with.

        A fault of another kind may stay, and no end waits for that.
        """
        if isinstance(self.fault, OSError):
            raise self.fault


class Ender:
    """Looks at children until it is known what becomes of their trees."""

    def __init__(self, watch: Watch, clock: Clock) -> None:
        self._watch = watch
        self._clock = clock
        self._queue: SimpleQueue[object] = SimpleQueue()
        self._unseen: dict[object, None] = {}
        self._again_ns = 0
        self._is_blind = False
        self._thread = VitalThread(target=self._run, name="pycron-ender", daemon=True)

    def open(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> bool:
        """Stop the thread after the work it is at; return whether it has ended.

        It is not waited for for long: reading what a process has in its memory can hang.
        """
        self._queue.put(_CLOSE)
        if not self._thread.is_alive() or self._thread is threading.current_thread():
            return True
        self._thread.join(_PATIENCE_S)
        if self._thread.is_alive():
            log.warning("a look for processes hangs; it is left alone")
            return False
        return True

    def look_at(self, child: Child | None) -> None:
        """Have a child looked at: its stop has changed, it has ended, or its tree may be gone.

        None: only our orphans are to be looked after.
        """
        self._queue.put(child)

    def call(self, function: Callable[[], object]) -> None:
        """Have something called after the look at all that was handed in before.

        It must not raise.
        """
        self._queue.put(function)

    def _run(self) -> None:
        while (batch := self._take()) is not None:
            again = [] if all(map(callable, batch)) else self._try_to_look_at_all(batch)
            for child in again:
                self._queue.put(child)
            for function in filter(callable, batch):
                if again:  # the end of one is only told after another look
                    self._queue.put(function)
                    continue
                function()

    def _take(self) -> dict[object, None] | None:
        """Wait for what is to be looked at; None: the thread is to end.

        What could not be seen is looked at again with whatever else is, or after a while: that a
        descriptor is free again nobody tells. A call is no reason for another try, and puts none
        off.
        """
        batch: dict[object, None] = {}
        with suppress(Empty):
            batch[self._queue.get(timeout=self._patience_s())] = None
            while _CLOSE not in batch:
                batch[self._queue.get_nowait()] = None
        if _CLOSE in batch:
            del batch[_CLOSE]
            if not batch:
                return None
            self._queue.put(_CLOSE)  # for the next turn
        if not all(map(callable, batch)) or self._patience_s() == 0:
            batch |= self._unseen
            self._unseen.clear()
        return batch

    def _patience_s(self) -> float | None:
        """Return how long there is until the next try; None: all could be seen."""
        if not self._unseen:
            return None
        return max(0, self._again_ns - self._clock.monotonic_ns()) / 1e9

    def _try_to_look_at_all(self, batch: Iterable[object]) -> list[Child]:
        children = [c for c in batch if isinstance(c, Child) and not c.is_done]
        try:
            return self._look_at_all(children)
        except Exception:  # a fault of ours must not end the thread that ends all others
            log.exception("could not look at what is to be ended")
            return []
        finally:
            self._again_ns = self._clock.monotonic_ns() + _AGAIN_NS

    def _look_at_all(self, children: list[Child]) -> list[Child]:
        """Take each child a step further; return those to be looked at again at once."""
        pictures = Pictures()
        # What ends after the picture was taken may have left something that is not in it.
        gone = {child for child in children if child.tree_is_gone}
        needs_all = any(child.stop is not None for child in children)
        try:
            # First the picture, then the orphans: what loses its parent between the two is seen
            # with it in the one, and by itself in the other.
            if needs_all or not procfile.tells_children():
                self._watch.look_after_orphans(lambda: pictures.full)
            else:
                self._watch.look_after_orphans()
        except Exception as error:  # noqa: BLE001 - trees are still to be ended by the other marks
            pictures.fault = error
        # After the picture, so that what a handler starts is not in it; before all that can hang.
        for child in children:
            with suppress(Exception):  # it is tried again, and told of, with its own look
                if child.stop is not None:
                    signal_leader(child, child.stop)
        again = [
            child for child in children if self._try_look(child, pictures, was_gone=child in gone)
        ]
        if not self._unseen:
            self._is_blind = False
        return again

    def _try_look(self, child: Child, pictures: Pictures, *, was_gone: bool) -> bool:
        stop = child.stop  # one that comes later has its own look
        try:
            if stop is None:
                return child.has_ended and self._look_at_rest(child, pictures)
            signal_leader(child, stop)
            return self._look(child, pictures, stop, was_gone=was_gone)
        except OSError as error:
            self._look_later(child, error)
        except Exception:  # the boundary of one run: the others' trees are still to be ended
            log.exception("could not see to the processes of run %s", child.tag)
            note = "pycron has failed to see what it left; its log has more"
            self._watch.finish(child, note, seen=stop)
        return False

    def _look_later(self, child: Child, error: OSError) -> None:
        """Note that nobody can see what there is of a tree: it may be there, and must be ended."""
        if not self._is_blind:
            log.warning(
                "only process groups are ended for now: cannot look for what left them: %s", error
            )
        self._is_blind = True  # said once, until all has been seen
        self._unseen[child] = None

    def _look_at_rest(self, child: Child, pictures: Pictures) -> bool:
        """See what a child has left that ended by itself; return as ``_look`` does."""
        watched = self._watch.members_of(child)
        must_see = not child.pid or child.leftovers is Leftovers.KILL
        try:
            if must_see:
                pictures.raise_shortage()
            known = {**self._watch.orphans_of(child), **watched}
            sees_all = pictures.fault is None and self._watch.sees_orphans(child)
            snapshot = Snapshot.take_trees(known) if sees_all else pictures.full
            left = find_descendants(snapshot, child.root, known)
        except OSError as error:  # out of descriptors
            if must_see:
                raise  # it may be there, and is waited for or to be ended
            note = f"what it left running is not known: {error.strerror}"
            self._watch.finish(child, note, seen=None)
            return False
        if snapshot.has_gaps and not child.was_rechecked:
            child.was_rechecked = True
            return True
        # What got SIGKILL with the leader may not have come to its end yet.
        staying = [process for process in left if not proctree.is_ending(process.pid)]
        has_leader = child.pid != 0
        if not left or (has_leader and child.leftovers is Leftovers.LEAVE):
            strays = describe_strays(self._watch.strays_of(child)) if child.leaves_nothing else ""
            self._watch.finish(child, describe_left(staying) or strays, seen=None)
            return False
        new = [process for process in left if watched.get(process.pid) != process.start_ticks]
        for process in new:
            attend(self._watch, child, process, None, is_known=False)
        if has_leader and staying:
            self._watch.linger(child, len(staying))
        is_short = self._is_short(child, left)
        # Nothing tells of what ended before it was watched.
        return bool(new) and child.tree_is_gone and not is_short

    def _look(
        self, child: Child, pictures: Pictures, number: signal.Signals, *, was_gone: bool
    ) -> bool:
        """End a child's tree, a step further; return whether to look again at once.

        ``was_gone``: all of it that is under watch had ended before the snapshot was taken.
        Raises OSError, with nothing signalled, where it cannot be seen what there is.
        """
        snapshot = pictures.full
        watched = self._watch.members_of(child)
        orphans = self._watch.orphans_of(child)
        known = {**orphans, **watched}
        descendants = find_descendants(snapshot, child.root, known)
        is_first = child.sent_to_all is not number
        child.had_doubts &= not is_first
        child.sent_to_all = number
        spared = len(child.spared)
        has_new = False
        for process in descendants:
            is_known = watched.get(process.pid) == process.start_ticks
            ticks, is_owed = child.unwatched.get(process.pid, (None, False))
            is_unwatched = ticks == process.start_ticks
            is_new = not is_known and not is_unwatched
            has_new |= is_new
            if number is signal.SIGKILL:
                must_signal = is_first or is_new
            else:
                must_signal = is_first and not is_in_group(process, child.group_reached)
            must_signal |= is_unwatched and is_owed
            if not is_known or must_signal:
                attend(
                    self._watch, child, process, number if must_signal else None, is_known=is_known
                )
        is_short = self._is_short(child, descendants)
        if has_new or len(child.spared) > spared:
            return number is signal.SIGKILL or child.tree_is_gone
        if was_gone and snapshot.has_gaps and not child.was_rechecked:
            child.was_rechecked = True
            return True
        if was_gone and not is_short:
            sees_all = all(pid in snapshot.processes for pid in orphans)
            if not sees_all and not child.was_rechecked:  # met after the picture, as it seems
                child.was_rechecked = True
                return True
            return self._finish(child, pictures, number, sees_all=sees_all)
        return False

    def _finish(
        self, child: Child, pictures: Pictures, number: signal.Signals, *, sees_all: bool
    ) -> bool:
        """Tell the end of a child, unless what it has left forks away from all that look for it.

        Such a tree is seen to be there, and may be ended in between two forks. It is tried again
        each second; SIGTERM does not end it, and after SIGKILL it is given up in the end. So is
        what was met and shows in no picture. What may be of another run holds up no end: there is
        one more look for it, and then it is spoken of.

        Raises OSError, after the hunt, where our orphans could not be looked after.
        """
        is_caught, has_doubts = self._hunt(child, number)
        pictures.raise_shortage()
        strays = self._watch.strays_of(child)
        left = [describe_spared(child.spared), describe_strays(strays)]
        has_doubts |= bool(strays) and not left[1]  # each may have handed on to a next one
        if not (is_caught and sees_all):
            child.hunts += number is signal.SIGKILL and not child.unwatched
            if child.hunts < _MOST_HUNTS:
                self._unseen[child] = None
                return False
            left.append(describe_elusive())
        elif has_doubts:
            if not child.had_doubts:
                child.had_doubts = True
                return True
            left.append(describe_doubts())
        self._watch.finish(child, "; ".join(filter(None, left)), seen=number)
        return False

    def _hunt(self, child: Child, number: signal.Signals) -> tuple[bool, bool]:
        """Return whether all that is left of a tree is under watch, and whether more may be of it.

        As far as we can see it.
        """
        if not self._watch.sees_orphans(child):
            return True, False
        is_kill = number is signal.SIGKILL
        for _ in range(_TRIES_OF_HUNT if is_kill else _GLANCES):
            found = self._watch.hunt(child, kill=is_kill)
            for process in found.living:
                attend(self._watch, child, process, None, is_known=False)
            if not found.living and not found.has_ended:
                return True, found.has_doubts
        return False, False

    def _is_short(self, child: Child, found: list[Process]) -> bool:
        """Return whether some of what was found cannot be watched; then there is another look."""
        is_short = any(
            child.unwatched.get(process.pid, (None,))[0] == process.start_ticks
            and child.spared.get(process.pid) != process.start_ticks
            for process in found
        )
        if is_short:
            self._unseen[child] = None
        return is_short
