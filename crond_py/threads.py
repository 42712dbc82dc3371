"""Threads whose start fails, and does not hang, where there is no memory for them to begin.

``threading.Thread.start`` waits until the new thread says that it has begun. One that dies of a
MemoryError before that never does, and whoever started it would wait for ever, with whatever lock
it holds. Here the wait has a limit, after which RuntimeError is raised, as where no thread is to be
had; a thread that begins later than that ends at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, Final

PATIENCE_S: Final = 5.0
"""How long a new thread may take to begin."""


class Thread(threading.Thread):
    """A thread that begins soon, or not at all."""

    def __init__(
        self,
        *,
        target: Callable[..., object],
        args: Iterable[Any] = (),
        name: str | None = None,
        daemon: bool = False,
    ) -> None:
        super().__init__(target=target, args=args, name=name, daemon=daemon)
        self._started: _Begun = _Begun()  # the one of threading: it sets it, and waits for it

    def start(self) -> None:
        """Begin the thread. Raises RuntimeError where it does not begin."""
        try:
            super().start()
        except RuntimeError:
            if self._started.is_given_up:  # else it would be listed as one that is about to begin
                getattr(threading, "_limbo", {}).pop(self, None)
            raise

    def _bootstrap(self) -> None:
        if not self._started.is_given_up:
            super()._bootstrap()  # type: ignore[misc] # what threading begins a thread by

    def run(self) -> None:
        """Do what a thread does, unless nobody counts on it any more."""
        if not self._started.is_given_up:
            super().run()


class _Begun(threading.Event):
    """Says that a thread has begun."""

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self.is_given_up = False

    def set(self) -> None:
        """Say so."""
        with self._lock:
            super().set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for that. Raises RuntimeError where it takes too long."""
        if super().wait(PATIENCE_S if timeout is None else timeout):
            return True
        with self._lock:
            self.is_given_up = not self.is_set()
        if self.is_given_up:
            raise RuntimeError("a new thread does not begin; there may be no memory for it")
        return True
