"""Being pid 1: the orphans of jobs are reaped, and the jobs' own exit statuses are not lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from crond_py.runner.orphans import OrphanReaper
from tests.process.conftest import PROGRAMS

UNSHARE = ["unshare", "--fork", "--pid", "--mount-proc"]
CAN_UNSHARE = subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not CAN_UNSHARE, reason="making a pid namespace is not permitted here")
def test_as_pid_one_every_status_is_kept_and_no_zombie_is_left(tmp_path: Path) -> None:
    """Orphans by the hundred are reaped, and every job is still a success (B42)."""
    result = subprocess.run(
        [*UNSHARE, sys.executable, str(PROGRAMS / "proc_pid_one.py"), str(tmp_path), "400"],
        stdout=subprocess.PIPE,
        check=True,
        timeout=110,
    )
    report = json.loads(result.stdout)
    assert report["pid"] == 1
    assert report["ended"] == {"0": 400 + report["extra"]}
    assert report["found"] > 0


def _ended_child() -> int:
    """Return a child that has ended and is not reaped."""
    pid = os.posix_spawn("/bin/true", ["true"], {})
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    return pid


def _is_reaped(pid: int) -> bool:
    try:
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return True
    return False


def _others() -> set[int]:
    """Return the children that other tests have left: none of our business."""
    return set(OrphanReaper(set).reap())


def test_reaps_what_is_nobodys() -> None:
    """A child that is not in the table is reaped; one that is in it is left alone (B42)."""
    others = _others()
    own, orphan = _ended_child(), _ended_child()
    reaper = OrphanReaper(lambda: {own, *others})
    assert reaper.reap() == []
    assert _is_reaped(orphan)
    assert not _is_reaped(own)
    os.waitpid(own, 0)


def test_tells_of_orphans_that_live() -> None:
    """An orphan that has not ended is returned, to be watched."""
    others = _others()
    reader, writer = os.pipe()
    pid = os.posix_spawn("/bin/cat", ["cat"], {}, file_actions=[(os.POSIX_SPAWN_DUP2, reader, 0)])
    reaper = OrphanReaper(lambda: others)
    assert reaper.reap() == [pid]
    os.close(reader)
    os.close(writer)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert reaper.reap() == []
    assert _is_reaped(pid)


def test_a_child_that_is_being_started_is_not_taken_for_an_orphan() -> None:
    """A child that ends before it is in the table is left alone until its start is over."""
    others = _others()
    own: set[int] = set()
    reaper = OrphanReaper(lambda: own | others)
    token = reaper.start_begins()
    child = _ended_child()
    assert reaper.reap() == []
    assert not _is_reaped(child)
    own.add(child)
    assert reaper.start_is_over(token), "somebody waits for this verdict"
    assert reaper.reap() == []
    assert not _is_reaped(child)
    os.waitpid(child, 0)
    assert reaper.reap() == []
    assert not reaper.start_is_over(reaper.start_begins())


def test_an_orphan_is_reaped_once_the_starts_it_could_belong_to_are_over() -> None:
    """Later starts do not put the verdict off, so an orphan does not stay for ever."""
    others = _others()
    reaper = OrphanReaper(lambda: others)
    first = reaper.start_begins()
    orphan = _ended_child()
    reaper.reap()
    reaper.start_begins()
    assert reaper.start_is_over(first)
    assert reaper.reap() == []
    assert _is_reaped(orphan)
