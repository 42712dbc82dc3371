"""Ends what the attempts of a run have left, where none of them is under watch any more.

A run that waits between two attempts has no process, but the earlier ones may have left some,
which were let be when they ended and go by their marks from then on. Whose processes are believed
to be of the run of another user only the user database can say, so that is asked on a starter's
thread; what needs no answer waits for no thread.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable

from crond_py.ports import AttemptKey, ProcessSpec
from crond_py.runner.adoption import headless, names_user, users_of
from crond_py.runner.supervisor import Supervisor

log = logging.getLogger(__name__)


class Rests:
    """What is left and to be ended; ``put`` has ``begin`` called with a spec, by another thread."""

    def __init__(self, supervisor: Supervisor, put: Callable[[ProcessSpec], None]) -> None:
        self._supervisor = supervisor
        self._put = put
        self._lock = threading.Lock()
        # What no thread has taken yet, with the strongest signal asked for.
        self._wanted: dict[AttemptKey, signal.Signals] = {}

    def end(self, spec: ProcessSpec, number: signal.Signals) -> None:
        """Have all that is left signalled; once nothing is, Ended is told of the spec's attempt."""
        with self._lock:
            if self._supervisor.stop(spec.key, number):
                return
            if not names_user(spec):
                self._watch(spec, users_of(spec), number)
                return
            is_new = spec.key not in self._wanted
            if self._wanted.get(spec.key) is not signal.SIGKILL:
                self._wanted[spec.key] = number
        if is_new:
            self._put(spec)

    def begin(self, spec: ProcessSpec) -> bool:
        """Watch and end what is left, if that is what the spec was put for. Does not raise."""
        with self._lock:
            if spec.key not in self._wanted:
                return False
        try:
            users = users_of(spec)
        except Exception:  # the boundary of one run: whose it is is not known, so all are believed
            log.exception("whose processes are of run %s is not known", spec.tag)
            users = None
        with self._lock:
            self._watch(spec, users, self._wanted.pop(spec.key))
        return True

    def _watch(
        self, spec: ProcessSpec, users: frozenset[int] | None, number: signal.Signals
    ) -> None:
        child = headless(spec, users)
        child.stop = number
        # None is known, so all have to be looked for.
        self._supervisor.watch_rest(child, {}, is_short=True)

    def forget(self, spec: ProcessSpec) -> bool:
        """Leave to the next runner what was not begun; False if that was no rest."""
        with self._lock:
            return self._wanted.pop(spec.key, None) is not None
