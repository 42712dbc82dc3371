"""Whose processes are believed to be of a run, where earlier attempts were of other users.

Only the user database knows these, and it may hang (a directory service). So what has been started
or adopted is told and watched first, and they are asked for on a starter's thread. Until that is
over, everybody's processes are believed, as where nobody knows a user (see ``adoption.users_of``).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from crond_py.ports import AttemptKey, ProcessSpec
from crond_py.runner.adoption import users_beside
from crond_py.runner.child import Child

log = logging.getLogger(__name__)


class Believed:
    """Asks for the users; ``put`` has ``begin`` called with a spec, by another thread."""

    def __init__(self, put: Callable[[ProcessSpec], None]) -> None:
        self._put = put
        self._lock = threading.Lock()
        self._wanted: dict[AttemptKey, tuple[Child, int | None]] = {}

    def ask(self, child: Child, spec: ProcessSpec, uid: int | None) -> None:
        """Have it known whom a child's run may belong to, whose present attempt is of ``uid``."""
        if not spec.earlier_users:  # then that is known already
            return
        with self._lock:
            self._wanted[spec.key] = child, uid
        self._put(spec)

    def begin(self, spec: ProcessSpec) -> bool:
        """Ask, if that is what the spec was put for. Does not raise."""
        with self._lock:
            wanted = self._wanted.pop(spec.key, None)
        if wanted is None:
            return False
        child, uid = wanted
        try:
            child.users = users_beside(spec, uid)
        except Exception:  # the boundary of one run: all are believed
            log.exception("whose processes are of run %s is not known", spec.tag)
        return True

    def forget(self, spec: ProcessSpec) -> bool:
        """Ask no more; False if that was not to be asked."""
        with self._lock:
            return self._wanted.pop(spec.key, None) is not None
