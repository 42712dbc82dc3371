"""Read files of /proc, and tell a process that is gone from a reader that is short of something."""

from __future__ import annotations

import errno
import os
from functools import cache
from pathlib import Path
from typing import Final

from crond_py.errors import PycronError

# What says that we are short of something, and nothing about the process asked for.
SHORTAGES: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})

# Nearly all fit into the first. What is read is cut from a block of the size that is asked for, so
# with a large one many threads that read at a time leave the heap full of gaps.
_FIRST_BYTES = 1 << 12
_CHUNK_BYTES = 1 << 17
_PAGE_BYTES = 2048


def read(path: str) -> bytes | None:
    """Return a file of /proc whole, or None if the process is gone or not ours to read.

    Raises OSError where the reader is at fault: an empty answer would say "nobody is there".
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        if error.errno in SHORTAGES:
            raise
        return None
    try:
        data, most = b"", _FIRST_BYTES
        while chunk := os.read(descriptor, most):
            data += chunk
            if len(chunk) < _PAGE_BYTES:  # lists come by the page, and the last one is not full
                break
            most = _CHUNK_BYTES
    except OSError:  # it ended between the two calls, or may not be looked into
        return None
    else:
        return data
    finally:
        os.close(descriptor)


def check_mounted() -> None:
    """Raise PycronError where there is no /proc, which would mean that nobody is ever there."""
    if read("/proc/self/stat") is None:
        message = "there is no /proc, which pycron needs to find the processes of runs; mount it"
        raise PycronError(message)
    if os.readlink("/proc/self") != str(os.getpid()):  # noqa: PTH115 - text, not a Path
        message = "/proc is that of other processes than pycron can see; mount one of its own"
        raise PycronError(message)


@cache
def tells_children() -> bool:
    """Return whether the kernel lists the children of a process (CONFIG_PROC_CHILDREN)."""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def list_children_of(pid: int) -> list[int] | None:
    """Return the pids of a process's children, zombies included; None where nobody can tell."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - a Path object for each
    except OSError as error:
        if error.errno in SHORTAGES:
            raise
        return None
    found = [list_children_of_thread(pid, int(thread)) for thread in threads]
    told = [children for children in found if children is not None]
    return [child for children in told for child in children] if told else None


def list_children_of_thread(pid: int, thread: int) -> list[int] | None:
    """Return the pids of one thread's children, zombies included; None where nobody can tell.

    What lost its parent is handed to the first thread of whoever takes it in.
    """
    data = read(f"/proc/{pid}/task/{thread}/children")
    return None if data is None else [int(child) for child in data.split()]
