"""Reach the processes of a tree: signal its leader, and signal and hold what descends from it.

Which processes those are, and what follows, others know. Where descriptors are short, what is to
be done all the same, and what has to be made up for, is noted with the child.
"""

from __future__ import annotations

import logging
import os
import signal

from crond_py.runner import pidfds, proctree
from crond_py.runner.child import Child
from crond_py.runner.proctree import Process
from crond_py.runner.watch import Watch

log = logging.getLogger(__name__)


def signal_leader(child: Child, number: signal.Signals) -> None:
    """Signal the leader and the group it leads, once with each signal. That needs no look.

    Raises OSError where the leader is not our child, and no descriptor is left to reach it by.
    """
    if child.sent is number:
        return
    if child.pidfd is not None or child.is_own or not child.pid:
        child.group_reached = _signal_leader(child, child.pidfd, number)
    elif (pidfd := pidfds.open_verified(child.pid, child.start_ticks)) is not None:
        try:
            child.group_reached = _signal_leader(child, pidfd, number)
        finally:
            os.close(pidfd)
    child.sent = number


def _signal_leader(child: Child, pidfd: int | None, number: signal.Signals) -> int | None:
    """Signal the leader, with its whole group if it leads one; return the group reached."""
    if pidfds.send_to_group(pidfd, child.pid, number, is_pinned=child.is_own):
        return child.pid
    if pidfd is not None:
        _try_to_send(pidfd, number, child, child.pid)
    return None


def attend(
    watch: Watch, child: Child, process: Process, number: signal.Signals | None, *, is_known: bool
) -> None:
    """Signal a descendant if ``number`` says so, and watch it if it is not watched yet."""
    try:
        pidfd = pidfds.open_verified(process.pid, process.start_ticks)
    except OSError as error:
        was_sent = number is None or _send_unheld(child, process, number)
        if not is_known or not was_sent:
            _note_unwatched(child, process, str(error), is_owed=not was_sent)
        return
    child.unwatched.pop(process.pid, None)
    if pidfd is None:
        return
    was_sent = number is None or _try_to_send(pidfd, number, child, process.pid)
    if not was_sent and number is signal.SIGKILL:
        child.spared[process.pid] = process.start_ticks
    if is_known:
        os.close(pidfd)
    elif not watch.add_member(child, pidfd, process):
        reason = "no descriptor is left to watch it by"
        _note_unwatched(child, process, reason, is_owed=False)


def _try_to_send(pidfd: int, number: signal.Signals, child: Child, pid: int) -> bool:
    try:
        pidfds.send(pidfd, number)
    except PermissionError:
        log.warning(
            "process %d of run %s belongs to another user and gets no %s",
            pid,
            child.tag,
            number.name,
        )
        return False
    return True


def is_in_group(process: Process, group: int | None) -> bool:
    """Return whether a process was in the group when that was signalled.

    It may have left between the snapshot and the signal, and must then get one of its own.
    """
    if process.group != group:
        return False
    try:
        now = proctree.read_process(process.pid)
    except OSError:  # a signal is not sent twice on a mere suspicion
        return True
    return now is None or now.group == group


def _note_unwatched(child: Child, process: Process, reason: str, *, is_owed: bool) -> None:
    """Note that a descendant cannot be watched now, so that its end has to be looked for."""
    if child.unwatched.get(process.pid, (None,))[0] != process.start_ticks:
        log.warning(
            "process %d of run %s is not watched for now: %s", process.pid, child.tag, reason
        )
    child.unwatched[process.pid] = (process.start_ticks, is_owed)


def _send_unheld(child: Child, process: Process, number: signal.Signals) -> bool:
    """Signal a process by its number, where no descriptor is left to hold it by.

    Returns False where it could not even be seen whether it is still that process.
    """
    try:
        if proctree.start_ticks(process.pid) == process.start_ticks:
            os.kill(process.pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        if number is signal.SIGKILL:
            child.spared[process.pid] = process.start_ticks
    except OSError:
        return False
    return True
