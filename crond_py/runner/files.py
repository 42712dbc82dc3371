"""Files that a job names and pycron opens for it: ``env_file`` and ``stdin``.

They are opened as the job's user. Where that user may not, root's daemon opens them all the same,
but only if nobody else can have decided what lies there: each directory on the way, each symbolic
link and the file itself belong to root and can be changed by root alone. So a secret of root can
be handed to a job, and no user can have root read a file by putting a link in its place.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from crond_py.runner.accounts import Account
from crond_py.runner.credentials import acting_as

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
_MOST_LINKS = 40  # as path_resolution(7) has it


def open_for(account: Account, path: str) -> int:
    """Open a file to read, a regular one or a device. Raises OSError, CannotStartError."""
    try:
        with acting_as(account):
            descriptor = os.open(path, _FLAGS)
    except PermissionError:
        if account.uid == os.geteuid() or not _only_we_decide(path):
            raise
        descriptor = os.open(path, _FLAGS)
    try:
        _check_kind(os.fstat(descriptor).st_mode)
        # It was only not to wait for a pipe's other end that it was opened without blocking.
        os.set_blocking(descriptor, True)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _check_kind(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not (stat.S_ISREG(mode) or stat.S_ISCHR(mode)):
        raise OSError(errno.EINVAL, "neither a regular file nor a device")


def _only_we_decide(path: str) -> bool:
    """Tell whether only we can change what lies at ``path``."""
    left = [part for part in reversed(path.split("/")) if part]
    place, links = Path("/"), 0
    while left:
        if not _is_ours(place):
            return False
        directory, place = place, place / left.pop()
        if place.name == "..":
            place = place.parent.parent
        elif _is_open_to_all(directory) and not stat.S_ISDIR(place.lstat().st_mode):
            return False
        if place.is_symlink():
            links += 1
            if links > _MOST_LINKS or place.lstat().st_uid != os.geteuid():
                return False
            target = str(place.readlink())
            left += [part for part in reversed(target.split("/")) if part]
            place = Path("/") if target.startswith("/") else place.parent
    return _is_ours(place)


def _is_ours(place: Path) -> bool:
    """Tell whether something is ours and nobody else can write to it, or remove what is in it.

    In a directory like /tmp, which is sticky, others can add names and not remove ours.
    """
    status = place.lstat()
    is_sticky = stat.S_ISDIR(status.st_mode) and bool(status.st_mode & stat.S_ISVTX)
    return status.st_uid == os.geteuid() and (is_sticky or not _is_open_to_all(place))


def _is_open_to_all(place: Path) -> bool:
    """Tell whether others can write to something.

    To such a directory, even one that is sticky, they may bring a file or a link of ours, by a
    hard link or from a directory of theirs; a directory that is not theirs they cannot move.
    """
    return bool(place.lstat().st_mode & (stat.S_IWGRP | stat.S_IWOTH))
