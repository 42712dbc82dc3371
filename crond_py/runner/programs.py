"""Looks programs up on PATH, and says why one cannot be executed.

Who asks does so with the file system credentials of whoever is to execute it, see ``credentials``.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress

from crond_py.printable import printable_line
from crond_py.runner.wording import encode


def find_program(name: str, path: str, cwd: str) -> bytes:
    """Return what to execute for ``name``: the first match on ``path``, as execvp(3) finds it.

    Relative names are kept and count from ``cwd``. Raises OSError for the best candidate:
    one that is there and may not be executed rather than none.
    """
    if "/" in name:
        _check_program(place_of(name, cwd))
        return encode(name)
    fault: OSError = FileNotFoundError(errno.ENOENT, "command not found on PATH")
    for directory in path.split(":"):
        candidate = f"{directory or '.'}/{name}"
        try:
            _check_program(place_of(candidate, cwd))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            fault = error
            continue
        return encode(candidate)
    raise fault


def place_of(name: str, cwd: str) -> bytes:
    """Return where to look for a name that counts from a directory."""
    return encode(name if name.startswith("/") else f"{cwd}/{name}")


def _check_program(place: bytes) -> None:
    mode = os.stat(place).st_mode  # noqa: PTH116 - a Path cannot hold bytes
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise PermissionError(errno.EACCES, "not a regular file")
    if not os.access(place, os.X_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, "may not be executed (mode, or a noexec mount)")
    # A page of the program, so that a dead disk is met here.
    with suppress(PermissionError):  # a program may be executable and not readable
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.pread(descriptor, 256, 0)
        finally:
            os.close(descriptor)


def interpreter_of(program: bytes, cwd: str) -> str:
    """Return the interpreter that a script's first line names, or ""."""
    try:
        descriptor = os.open(place_of(os.fsdecode(program), cwd), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # not ours to read: then the error is told without it
        return ""
    try:
        line = os.pread(descriptor, 256, 0).split(b"\n")[0]
    finally:
        os.close(descriptor)
    words = line.removeprefix(b"#!").split() if line.startswith(b"#!") else []
    return printable_line(os.fsdecode(words[0])) if words else ""
