"""Threads without which the daemon does nothing: where one ends by a fault, the process does.

A daemon of which only some goes on looks alive and is not. Whoever started it puts another in its
place, which adopts what still runs, as after any other crash; the ledger is written for that. In a
program that only uses the library such a thread ends by itself, as threads do.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from crond_py.logfields import fields
from crond_py.threads import Thread

log = logging.getLogger("pycron.vital")

_ends: list[Callable[[], None]] = []


class VitalThread(Thread):
    """A thread that the process is not to outlive, unless it returns."""

    def run(self) -> None:
        """Do what a thread does."""
        try:
            super().run()
        except BaseException:
            # SystemExit too: in a thread it would end that, without a word.
            if not _ends:
                raise
            message = "pycron ends: a thread that it cannot do without has ended by a fault"
            log.critical(message, exc_info=True, extra=fields(thread=self.name))
            _ends[-1]()


@contextmanager
def ending_by(end: Callable[[], None]) -> Iterator[None]:
    """Have ``end`` called, by the thread itself, where a vital thread ends by a fault."""
    _ends.append(end)
    try:
        yield
    finally:
        _ends.remove(end)
