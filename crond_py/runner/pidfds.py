"""Processes held by a pidfd: a descriptor that means one process and never another.

Opening one safely, signalling through it, and what it tells of the end of a process that is not
our child. Needs Linux 5.3; what newer kernels add is used where it is there.
"""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import select
import signal
import struct
from datetime import timedelta

from crond_py.model import Exit
from crond_py.runner import procfile, proctree

# linux/pidfd.h; Python has no names for these yet.
_SIGNAL_PROCESS_GROUP = 1 << 2  # PIDFD_SIGNAL_PROCESS_GROUP, since Linux 6.9
_INFO_EXIT = 1 << 3  # PIDFD_INFO_EXIT, since Linux 6.15
_INFO_BYTES = 64  # PIDFD_INFO_SIZE_VER0: mask first, exit_code last
_GET_INFO = (3 << 30) | (_INFO_BYTES << 16) | (0xFF << 8) | 11  # _IOWR(0xFF, 11, pidfd_info)

_RESERVED_DESCRIPTORS = 64
_REAPED_WITHIN_MS = 50

# What pidfd_open(2) answers where it has nothing to say about the process.
_UNABLE = procfile.SHORTAGES | {errno.ENODEV, errno.ENOSYS, errno.EPERM}


def is_to_spare(descriptor: int) -> bool:
    """Return whether a descriptor that was just opened can be kept.

    Not where they are so short that starts and clients would have to go without. The kernel gives
    out the lowest number that is free, so it tells how many are used. The limit is asked for each
    time, as others can change it.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY:
        limit = os.sysconf("SC_OPEN_MAX")
    return descriptor <= limit - min(_RESERVED_DESCRIPTORS, limit // 4)


def open_verified(pid: int, start_ticks: int | None) -> int | None:
    """Return a pidfd for the process that started at ``start_ticks``; None if it is gone.

    Raises OSError where there is such a process and it cannot be held (out of descriptors).
    """
    try:
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        if error.errno in _UNABLE:
            raise
        return None
    # Looked up after opening: if the start is the same now, the descriptor means that process.
    is_same = False
    try:
        is_same = proctree.start_ticks(pid) == start_ticks
    finally:
        if not is_same:
            os.close(pidfd)
    return pidfd if is_same else None


def has_ended(pidfd: int) -> bool:
    """Return whether a process has ended, be it reaped or not."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def send(pidfd: int, number: signal.Signals) -> None:
    """Signal one process; one that has ended is no fault.

    Raises PermissionError for a process of somebody else (a set-user-ID program).
    """
    try:
        signal.pidfd_send_signal(pidfd, number)
        if number == signal.SIGTERM:
            # A stopped process acts on SIGTERM only once it goes on.
            signal.pidfd_send_signal(pidfd, signal.SIGCONT)
    except ProcessLookupError:
        pass


def send_to_group(pidfd: int | None, pid: int, number: signal.Signals, *, is_pinned: bool) -> bool:
    """Signal the process group that ``pid`` leads; False if that could not be done.

    The kernel does this in one step, so no process that is just being forked gets away.
    ``is_pinned``: the process is our child and not reaped yet, so that its number is its own;
    only then may the group be named by number, where the kernel is too old to take the pidfd.
    """
    try:
        if pidfd is not None and _send_to_group(pidfd, number):
            return True
        if not is_pinned:
            return False
        os.killpg(pid, number)
        if number == signal.SIGTERM:
            os.killpg(pid, signal.SIGCONT)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _send_to_group(pidfd: int, number: signal.Signals) -> bool:
    try:
        signal.pidfd_send_signal(pidfd, number, None, _SIGNAL_PROCESS_GROUP)
        if number == signal.SIGTERM:
            signal.pidfd_send_signal(pidfd, signal.SIGCONT, None, _SIGNAL_PROCESS_GROUP)
    except OSError as error:
        if error.errno == errno.EINVAL:  # an older kernel
            return False
        raise
    return True


def exit_of_other(pidfd: int, pid: int, start_ticks: int | None) -> Exit:
    """Return how a process ended that another daemon started; all None if nobody can tell.

    The one that may wait for it is its parent. The kernel tells others as well: in field 52 of
    /proc/PID/stat until it is reaped, and from Linux 6.15 through its pidfd after that.
    Raises OSError where no descriptor is left to read it with.
    """
    try:
        # After an execve of the daemon it is our child all the same.
        result = os.waitid(os.P_PIDFD, pidfd, os.WEXITED | os.WNOHANG)
    except ChildProcessError:
        return _exit_of_stranger(pidfd, pid, start_ticks)
    if result is None:
        return Exit()
    if result.si_code == os.CLD_EXITED:
        return Exit(code=result.si_status)
    return Exit(signal=result.si_status)


def _exit_of_stranger(pidfd: int, pid: int, start_ticks: int | None) -> Exit:
    # The pidfd is asked first, as that takes no descriptor; and again, as the process may have
    # been reaped meanwhile.
    if (told := _exit_from_pidfd(pidfd)) != Exit():
        return told
    try:
        if (told := _exit_of_zombie(pid, start_ticks)) != Exit():
            return told
    except OSError:
        _wait_until_reaped(pidfd)
        if (told := _exit_from_pidfd(pidfd)) == Exit():
            raise
        return told
    return _exit_from_pidfd(pidfd)


def _wait_until_reaped(pidfd: int) -> None:
    """Give the parent of a process that has ended a moment to reap it."""
    poll = select.poll()
    poll.register(pidfd, 0)  # then only POLLHUP wakes, which comes with that, since Linux 6.9
    poll.poll(_REAPED_WITHIN_MS)


def _exit_of_zombie(pid: int, start_ticks: int | None) -> Exit:
    """Return what /proc tells of how a process ended. Raises OSError where it cannot be read."""
    process = proctree.read_process(pid)
    if process is None or process.start_ticks != start_ticks or not process.is_zombie:
        return Exit()
    # To those who may not know, proc(5) shows 0: not to be taken for a success.
    is_told = process.exit_status or proctree.may_inspect(pid)
    return exit_from_status(process.exit_status) if is_told else Exit()


def exit_from_status(
    status: int, *, cpu: timedelta | None = None, peak_memory_bytes: int | None = None
) -> Exit:
    """Return a status of wait(2) as an Exit."""
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        return Exit(signal=-code, cpu=cpu, peak_memory_bytes=peak_memory_bytes)
    return Exit(code=code, cpu=cpu, peak_memory_bytes=peak_memory_bytes)


def _exit_from_pidfd(pidfd: int) -> Exit:
    information = bytearray(_INFO_BYTES)
    struct.pack_into("=Q", information, 0, _INFO_EXIT)
    try:
        fcntl.ioctl(pidfd, _GET_INFO, information)
    except OSError:  # a kernel before 6.13 does not know the call at all
        return Exit()
    (mask,) = struct.unpack_from("=Q", information, 0)
    if not mask & _INFO_EXIT:
        return Exit()
    (status,) = struct.unpack_from("=i", information, _INFO_BYTES - 4)
    return exit_from_status(status)
