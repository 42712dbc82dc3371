"""Whose the processes of a picture are, by their parents, and by nothing that looks like them."""

from __future__ import annotations

import os

from crond_py.ports import AttemptKey
from crond_py.runner import proctree
from crond_py.runner.origins import Lineage, Origin
from crond_py.runner.proctree import Process, Snapshot

ONE, OTHER = AttemptKey(1, 1), AttemptKey(2, 1)


def picture(*processes: tuple[int, int, int]) -> Snapshot:
    """Return a picture of processes, each with its pid, its parent and when it started."""
    return Snapshot(
        {
            pid: Process(pid, parent, pid, pid, ticks, is_zombie=False, exit_status=0)
            for pid, parent, ticks in processes
        }
    )


def origins(snapshot: Snapshot, roots: dict[int, Origin]) -> dict[int, Origin]:
    """Return what is noted of all processes of a picture."""
    lineage = Lineage()
    lineage.note(snapshot, roots)
    return lineage._seen


def test_a_tree_is_that_of_its_root() -> None:
    """Down to the last generation, and not what is beside it; roots are known as it is."""
    snapshot = picture((10, 1, 5), (11, 10, 6), (12, 11, 7), (20, 1, 5), (21, 20, 8), (30, 1, 9))
    roots = {10: (5, ONE), 20: (5, OTHER)}
    assert origins(snapshot, roots) == {11: (6, ONE), 12: (7, ONE), 21: (8, OTHER)}


def test_a_root_whose_number_another_process_has_by_now_is_none() -> None:
    """An adopted root is no child of ours, so its number may be given away."""
    assert origins(picture((10, 1, 99), (11, 10, 100)), {10: (5, ONE)}) == {}
    assert origins(picture((11, 10, 100)), {10: (5, ONE)}) == {}


def test_a_process_whose_number_another_has_by_now_is_of_nobody() -> None:
    """What started at another time than the one in the picture is not that."""
    me, ticks = os.getpid(), proctree.start_ticks(os.getpid())
    assert ticks is not None
    for seen, origin in ((ticks, (ticks, ONE)), (ticks - 1, None)):
        lineage = Lineage()
        lineage.note(picture((10, 1, 5), (me, 10, seen)), {10: (5, ONE)})
        assert lineage.origin_of(me) == origin


def test_a_new_picture_takes_the_place_of_the_old_one() -> None:
    """What it does not have is not known any more."""
    lineage = Lineage()
    lineage.note(picture((10, 1, 5), (11, 10, 6)), {10: (5, ONE)})
    lineage.note(picture((10, 1, 5)), {10: (5, ONE)})
    assert lineage._seen == {}
