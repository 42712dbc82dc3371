"""Tells of runs that the ledger has as going on while no daemon is there to see how they end."""

from __future__ import annotations

from collections.abc import Iterable

from crond_py.cli import say
from crond_py.control.client import Conversation
from crond_py.errors import DaemonNotRunningError, PycronError
from crond_py.model import Run
from crond_py.places import Places


def note_if_unwatched(places: Places, runs: Iterable[Run]) -> None:
    """Say so where any of the runs has no outcome yet and no daemon is running."""
    if all(run.outcome is not None for run in runs):
        return
    try:
        Conversation(places.socket).close()
    except DaemonNotRunningError:
        say.note(
            "no daemon is running: what has no outcome is shown as the last one has left it, and "
            "the next one finds out what became of it"
        )
    except PycronError:
        return  # there is one, whoever may talk to it
