"""Looks programs up on PATH, and says why one cannot be executed.

Who asks does so with the file system credentials of whoever is to execute it, see ``credentials``.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from typing import Final

from crond_py.printable import printable_line
from crond_py.runner.wording import encode

_HEAD_BYTES: Final = 256  # all that the kernel reads of a script, see execve(2)
_MOST_SCRIPTS: Final = 5  # that are each the interpreter of the one before; then it gives up


def find_program(name: str, path: str, cwd: str) -> bytes:
    """Return what to execute for ``name``: the first match on ``path``, as execvp(3) finds it.

    Relative names are kept and count from ``cwd``. Raises OSError for the best candidate:
    one that is there and may not be executed rather than none.
    """
    if "/" in name:
        _check_program(place_of(name, cwd), cwd)
        return encode(name)
    fault: OSError = FileNotFoundError(errno.ENOENT, "command not found on PATH")
    for directory in path.split(":"):
        candidate = f"{directory or '.'}/{name}"
        try:
            _check_program(place_of(candidate, cwd), cwd)
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


def _check_program(place: bytes, cwd: str) -> None:
    mode = os.stat(place).st_mode  # noqa: PTH116 - a Path cannot hold bytes
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise PermissionError(errno.EACCES, "not a regular file")
    if not os.access(place, os.X_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, "may not be executed (mode, or a noexec mount)")
    # The beginning of the program, and of what is to interpret it, so that a dead disk is met here.
    with suppress(PermissionError):  # a program may be executable and not readable
        interpreter = _interpreter_in(_head_of(place))
        for _ in range(_MOST_SCRIPTS):
            interpreter = _met_interpreter(interpreter, cwd)


def _met_interpreter(interpreter: bytes, cwd: str) -> bytes:
    """Read the beginning of an interpreter; return the one that it has itself, or nothing."""
    with suppress(OSError):  # what is at fault with it tells who executes it
        if interpreter:
            place = place_of(os.fsdecode(interpreter), cwd)
            if stat.S_ISREG(os.stat(place).st_mode):  # noqa: PTH116 - a Path cannot hold bytes
                return _interpreter_in(_head_of(place))
    return b""


def _head_of(place: bytes) -> bytes:
    descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.pread(descriptor, _HEAD_BYTES, 0)
    finally:
        os.close(descriptor)


def _interpreter_in(head: bytes) -> bytes:
    """Return the interpreter that a script's first line names, or nothing."""
    if not head.startswith(b"#!"):
        return b""
    line = head[2:].split(b"\n")[0].split(b"\0")[0]
    return line.lstrip(b" \t").replace(b"\t", b" ").split(b" ")[0]


def interpreter_of(program: bytes, cwd: str) -> str:
    """Return the interpreter that a script's first line names, to be shown, or ""."""
    try:
        head = _head_of(place_of(os.fsdecode(program), cwd))
    except OSError:  # not ours to read: then the error is told without it
        return ""
    return printable_line(os.fsdecode(_interpreter_in(head)))
