"""One thread's credentials: what it may open and enter, and as whom.

Whether a job's user may enter a directory or execute a program, only the kernel can tell (modes,
access lists, a server that trusts no root), and only to that user. So a thread of a daemon of
root takes the user's file system credentials on for a moment, see setfsuid(2). On Linux they are
a thread's own. The real, effective and saved ids stay: nobody else may signal or trace the
thread, and it can go back. A child that is forked meanwhile enters its directory with them.

glibc's setgroups(2) changes all threads, so the system call is made directly. Where its number is
not known nothing is taken on: what is looked at is then looked at as root, and the child, which
really is the user's, has the last word.

A thread that could not go back would do the daemon's work as somebody else, and may have started a
child that nobody knows of. Then the whole process ends at once, as if it had been killed: the next
one finds what runs.
"""

from __future__ import annotations

import ctypes
import errno
import logging
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache

from crond_py.errors import CannotStartError
from crond_py.printable import printable_line
from crond_py.runner.accounts import Account
from crond_py.runner.wording import cause

log = logging.getLogger(__name__)

_SETGROUPS_32_BIT = 206
_SETGROUPS = {
    "x86_64": 116,
    "aarch64": 159,
    "riscv64": 159,
    "loongarch64": 159,
    "ppc64": 81,
    "ppc64le": 81,
    "s390x": 206,
}
_UNCHANGED = -1  # no user has this number: it is refused, and what holds is returned


@cache
def _find_setgroups() -> int | None:
    if not sys.platform.startswith("linux"):
        return None
    machine = os.uname().machine
    if sys.maxsize < 1 << 32:
        return _SETGROUPS_32_BIT if machine.startswith(("i", "x86", "arm", "aarch64")) else None
    return _SETGROUPS.get(machine)


@contextmanager
def acting_as(account: Account) -> Iterator[None]:
    """Use files as ``account`` does, in this thread; where it is our own anyway, do nothing.

    Raises CannotStartError where that is not permitted.
    """
    number = _find_setgroups()
    if number is None or account.is_ours:
        yield
        return
    before = (os.geteuid(), os.getegid(), os.getgroups())
    try:
        _take_on(number, account.uid, account.gid, account.groups)
    except OSError as error:
        _go_back(number, *before)
        raise CannotStartError(not_permitted(account.name, cause(error))) from None
    try:
        yield
    finally:
        _go_back(number, *before)


def not_permitted(user: str, why: str) -> str:
    """Return in words that we cannot become a user though we are root: a container may not let."""
    return f"user {printable_line(user)}: pycron may not become that user: {why}"


def _go_back(number: int, uid: int, gid: int, groups: Sequence[int]) -> None:
    """Take our own credentials back, or end this process."""
    try:
        try:
            _take_on(number, uid, gid, groups)
        except OSError:
            # What could not be taken on has not to be given back either.
            if not _holds(uid, gid, groups):
                raise
    except BaseException:
        log.critical(
            "the thread %s is still another user's; pycron ends, so that nothing is done as that"
            " user; what runs goes on, and is found when pycron is started again",
            threading.current_thread().name,
            exc_info=True,
        )
        os._exit(1)


@cache
def _c_library() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _holds(uid: int, gid: int, groups: Sequence[int]) -> bool:
    c_library = _c_library()
    held = [ctypes.c_uint32(c_library[call](_UNCHANGED)).value for call in ("setfsuid", "setfsgid")]
    return held == [uid, gid] and set(os.getgroups()) == set(groups)


def _take_on(number: int, uid: int, gid: int, groups: Sequence[int]) -> None:
    """Give this thread other credentials for files. Raises OSError where that is refused."""
    c_library = _c_library()
    _set_groups(c_library, number, groups)
    for change, wanted in ((c_library.setfsgid, gid), (c_library.setfsuid, uid)):
        change(wanted)  # it returns what was before, whether it worked or not
        if ctypes.c_uint32(change(_UNCHANGED)).value != wanted:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


def _set_groups(c_library: ctypes.CDLL, number: int, groups: Sequence[int]) -> None:
    array = (ctypes.c_uint32 * len(groups))(*groups)
    if c_library.syscall(ctypes.c_long(number), ctypes.c_long(len(groups)), array) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
