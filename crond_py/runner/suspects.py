"""The runs that an orphan may belong to, and what is known of each of them (see ``orphans``).

Each orphan hands them on to those that come while it is there, so they are bounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from crond_py.dataclass import dataclass
from crond_py.ports import AttemptKey
from crond_py.runner.child import Child
from crond_py.runner.marks import Marks
from crond_py.runner.origins import is_among
from crond_py.runner.proctree import Process

SOME_EARLIER: Final = AttemptKey(0, 0)
"""Stands for runs that are over and too many to be kept one by one."""

_MOST_OVER: Final = 64


@dataclass(slots=True, eq=False)
class Start:
    """A start that goes on, or of which is known what came of it: a child, or None."""

    key: AttemptKey
    is_over: bool = False
    child: Child | None = None


Suspects = dict[AttemptKey, Child | Start | None]
"""Runs, with what is known of them: None where nothing is, or needs to be any more."""


def joined(before: Suspects, going_on: Suspects) -> Suspects:
    """Return both: what other orphans hand on, oldest first, and the runs that go on.

    Of those that are over the newest are kept: there may be a further attempt of one, with which
    the orphan is to be ended.
    """
    over = [key for key in before if key not in going_on]
    dropped = set(over[:-_MOST_OVER])
    kept = {key: each for key, each in before.items() if key not in dropped}
    if dropped:
        kept[SOME_EARLIER] = None
    return {**kept, **going_on}


def able(suspects: Suspects, process: Process, table: Mapping[AttemptKey, Child]) -> Suspects:
    """Return which of the suspects can have brought a process forth, for all that is known."""
    found: Suspects = {}
    for key, each in suspects.items():
        is_open = isinstance(each, Start) and not each.is_over  # before it is asked for its child
        child = (each.child if isinstance(each, Start) else each) or table.get(key)
        if child is not None:
            if _is_able(child, process):
                found[key] = None
        elif each is None or is_open:  # what is open is asked again
            found[key] = each
    return found


def find_owner(
    process: Process, marks: Marks, outputs: frozenset[str], suspects: Suspects
) -> AttemptKey | None:
    """Return which of the suspects a process shows to be its own, or None where it does not."""
    for key, each in suspects.items():
        child = each.child if isinstance(each, Start) else each
        if child is None or not _is_able(child, process):
            continue
        if child.has_marked(process, marks) or is_among(outputs, child.output):
            return key
    return None


def _is_able(child: Child, process: Process) -> bool:
    """Return whether a child began before a process, so that this can have come from it."""
    return (child.start_ticks or 0) <= process.start_ticks
