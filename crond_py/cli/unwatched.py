"""Tells that no daemon is there for runs and tasks that the ledger has as open."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from crond_py.cli import say
from crond_py.control.client import Conversation
from crond_py.errors import DaemonNotRunningError, PycronError
from crond_py.model import Run
from crond_py.places import Places

_UNSEEN: Final = (
    "what has no outcome is shown as the last one has left it, and the next one finds out what "
    "became of it"
)
_UNSTARTED: Final = "nothing that is to come starts until one is"


def note_if_unwatched(places: Places, runs: Iterable[Run], *, has_to_come: bool = False) -> None:
    """Say so where no daemon is running, and any of the runs has no outcome yet.

    ``has_to_come``: something is shown that only a daemon will start, too.
    """
    is_unseen = any(run.outcome is None for run in runs)
    if not is_unseen and not has_to_come:
        return
    try:
        Conversation(places.socket).close()
    except DaemonNotRunningError:
        said = [_UNSEEN] * is_unseen + [_UNSTARTED] * has_to_come
        say.note(f"no daemon is running: {'; '.join(said)}")
    except PycronError:
        return  # there is one, whoever may talk to it
