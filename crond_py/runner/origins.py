"""What tells whose a process is that shows no mark of a run: its ancestors and its output.

Ancestors are known as long as they live, and from the pictures of all processes that are taken
while a run is being ended: who was in whose tree then stays known until the next one, so that a
process whose parent is killed meanwhile is still told from those of other runs. And an attempt
writes to a file of its own: what has that for its standard output or error has it from there.

Nothing here costs a start or an end anything. A process that was in no picture and has let go of
its output cannot be told; see ``orphans`` for what becomes of it.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

from crond_py.ports import AttemptKey
from crond_py.runner import proctree
from crond_py.runner.proctree import Snapshot

Origin = tuple[int, AttemptKey]
"""When a process started, in clock ticks since boot, and of which attempt it is."""


class Lineage:
    """Whose the processes in the latest picture were, by their parents.

    Any thread may ask; one at a time notes.
    """

    def __init__(self) -> None:
        self._seen: dict[int, Origin] = {}

    def note(self, snapshot: Snapshot, roots: Mapping[int, Origin]) -> None:
        """Note what descends, in a new picture, from processes of which it is known whose they are.

        A root that has started at another time than the process in the picture is not that one.
        """
        children = defaultdict(list)
        for process in snapshot.processes.values():
            children[process.parent].append(process)
        seen: dict[int, Origin] = {}
        for root, (ticks, key) in roots.items():
            found = snapshot.processes.get(root)
            if found is None or found.start_ticks != ticks:
                continue
            waiting = [root]
            while waiting:
                for child in children.pop(waiting.pop(), ()):
                    seen[child.pid] = child.start_ticks, key
                    waiting.append(child.pid)
        self._seen = seen

    def origin_of(self, pid: int) -> Origin | None:
        """Return whose a process is that was in the picture; None where that is not known.

        Raises OSError where no descriptor is left to look with.
        """
        origin = self._seen.get(pid)
        if origin is None or proctree.start_ticks(pid) != origin[0]:
            return None
        return origin


def outputs_of(pid: int) -> frozenset[str]:
    """Return which files are the standard output and error of a process, as far as we may see."""
    found = set()
    for number in (1, 2):
        with suppress(OSError):
            found.add(os.readlink(f"/proc/{pid}/fd/{number}"))  # noqa: PTH115 - text, not a Path
    return frozenset(found)


def is_among(outputs: frozenset[str], path: str | None) -> bool:
    """Return whether an attempt's own file is among these, however its directory is reached.

    Only the attempt's path is looked up: what others write to may lie on a disk that hangs. That
    is done where the names are equal; the last part of the path is no link (``output``).
    """
    if path is None:
        return False
    name = path[path.rfind("/") :]
    if not any(each.endswith(name) for each in outputs):
        return False
    return os.path.realpath(path) in outputs
