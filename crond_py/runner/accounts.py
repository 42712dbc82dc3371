"""For whom a job runs: accounts of the user database, and whether pycron may become them.

The user database may be a network service that hangs. It is asked anew for each start, or each
moment in which there are many (see ``lookups``), on the starter's thread: a daemon that runs for
months notices what has changed, and what hangs holds up that start alone. For that the interpreter
must not be held meanwhile: ``os.getgrouplist`` holds it, so the C library's is called by ctypes,
which does not.
"""

from __future__ import annotations

import ctypes
import os
import pwd
from collections.abc import Callable
from functools import cache

from crond_py.dataclass import dataclass
from crond_py.errors import CannotStartError
from crond_py.printable import printable_line

_NO_HOME = frozenset({"/nonexistent", "/dev/null"})  # the names by which systems say so
_MOST_GROUPS = 65_536  # NGROUPS_MAX of Linux


@dataclass(frozen=True, slots=True)
class Account:
    """A user as processes see it. ``groups`` are the supplementary ones, the primary included.

    ``home`` is a directory's name, not the promise that there is one.
    """

    name: str
    home: str
    uid: int
    gid: int
    groups: tuple[int, ...]

    @property
    def directory(self) -> str:
        """Where processes begin: at home, or in / where the account says that it has none.

        A home that is only not there at the moment (an unmounted disk) is still the directory.
        """
        return "/" if self.home in _NO_HOME else self.home

    @property
    def is_ours(self) -> bool:
        """Tell whether our own processes are this account's already, in every respect."""
        return (
            os.getresuid() == (self.uid,) * 3
            and os.getresgid() == (self.gid,) * 3
            and {*os.getgroups(), self.gid} == {*self.groups, self.gid}
        )


def own_account() -> Account:
    """Return the account that we run as; one without an entry is named by its number."""
    uid, gid, groups = os.geteuid(), os.getegid(), tuple(os.getgroups())
    try:
        entry = pwd.getpwuid(uid)
    except (KeyError, OSError):
        return Account(str(uid), "/", uid, gid, groups)
    return Account(entry.pw_name, entry.pw_dir or "/", uid, gid, groups)


def find_account(user: str | None) -> Account:
    """Return the account of a user, given by name or number; None: our own.

    Raises CannotStartError where there is none, or it is not ours and we are not root.
    """
    if user is None:
        return own_account()
    shown = printable_line(user)
    try:
        entry = _find_entry(user)
    except OSError as error:
        raise CannotStartError(f"user {shown}: cannot be looked up: {error.strerror}") from None
    if entry is None:
        raise CannotStartError(f"user {shown}: there is no such user")
    if os.geteuid() == 0:
        groups = _groups_of(entry.pw_name, entry.pw_gid)
        return Account(entry.pw_name, entry.pw_dir or "/", entry.pw_uid, entry.pw_gid, groups)
    own = own_account()
    if entry.pw_uid == own.uid:
        return own
    raise CannotStartError(
        f"user {shown}: pycron runs as {printable_line(own.name)}; "
        "only root's pycron can run jobs as somebody else (EPERM)"
    )


def _find_entry(user: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(user)
    except (KeyError, ValueError):  # ValueError: a NUL, or what cannot be encoded
        pass
    if not (user.isascii() and user.isdigit()):
        return None
    try:
        return pwd.getpwuid(int(user))
    except (KeyError, OverflowError):
        return None


@cache
def _getgrouplist() -> Callable[..., int]:
    return ctypes.CDLL(None).getgrouplist


def _groups_of(name: str, gid: int) -> tuple[int, ...]:
    """Return all groups of a user, the primary one first; see getgrouplist(3)."""
    getgrouplist = _getgrouplist()
    size = 64
    while True:
        groups, count = (ctypes.c_uint32 * size)(), ctypes.c_int(size)
        found = getgrouplist(os.fsencode(name), ctypes.c_uint32(gid), groups, ctypes.byref(count))
        if found >= 0:
            return tuple(groups[: count.value])
        if size >= _MOST_GROUPS:
            raise CannotStartError(f"user {printable_line(name)}: is in too many groups")
        size = min(max(count.value, size * 2), _MOST_GROUPS)
