"""Files with holes: how the middle of one is given back to the disk, and read around.

A file that grows beyond its limit while it is written to keeps its beginning and its end; what is
between becomes a hole (fallocate(2)), which takes no place on the disk, and the writer notices
nothing. Whoever reads is told how much is missing, in a line of its own (``gap_line``), where the
hole would be read as that many NULs.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
from collections.abc import Iterator
from typing import Final, NamedTuple

_KEEP_SIZE: Final = 0x01
_PUNCH_HOLE: Final = 0x02
_SMALLEST_BLOCK: Final = 4096

_libc = ctypes.CDLL(None, use_errno=True)
# glibc's name for the call whose offsets have 64 bits everywhere; others have no need for it.
_fallocate = getattr(_libc, "fallocate64", None) or _libc.fallocate


class Stretch(NamedTuple):
    """Some bytes of a file and where they begin; ``is_cut``: a hole follows right after them."""

    begin: int
    data: bytes
    is_cut: bool


def gap_line(left_out: int) -> str:
    """Return the line that stands for so many bytes, without a newline."""
    return f"[pycron: {left_out} bytes left out here]"


def punch(descriptor: int, begin: int, end: int) -> int:
    """Give the blocks between two places back to the disk; return the end of what is a hole now.

    Only whole blocks go, so that no byte outside of the hole changes. Raises OSError, with
    EOPNOTSUPP where the file system cannot do it.
    """
    block = max(os.fstat(descriptor).st_blksize, _SMALLEST_BLOCK)
    first, last = -(-begin // block) * block, end // block * block
    if last <= first:
        return begin
    size = ctypes.c_int64(last - first)
    mode = _PUNCH_HOLE | _KEEP_SIZE
    if _fallocate(descriptor, mode, ctypes.c_int64(first), size) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return last


def read_on(descriptor: int, offset: int, most: int) -> Stretch:
    """Return the next bytes from ``offset`` on, after the hole that may be there; at most ``most``.

    At the end there are none, and ``begin`` is the file's size or where a hole at its end ends.
    What becomes a hole while it is read is not taken for NULs, nor what is appended for a hole: how
    large the file is, is asked before where there is data.
    """
    while True:
        size = os.fstat(descriptor).st_size
        begin = _next(descriptor, offset, os.SEEK_DATA)
        if begin is None:
            return Stretch(max(offset, size), b"", is_cut=False)
        data = os.pread(descriptor, most, begin)
        size = os.fstat(descriptor).st_size
        # Looked for after the reading: a hole that is not there now was none when it was read.
        hole = _next(descriptor, begin, os.SEEK_HOLE)
        if hole is None or hole >= begin + len(data):
            is_cut = hole == begin + len(data) and hole < size
            return Stretch(begin, data, is_cut)
        if hole > begin:
            return Stretch(begin, data[: hole - begin], is_cut=True)


def data_ranges(descriptor: int, offset: int = 0) -> Iterator[tuple[int, int]]:
    """Yield where the file's data begins and ends from ``offset`` on, hole after hole.

    A job can make holes in its output, too, so there may be very many: do not gather them all.
    """
    while (begin := _next(descriptor, offset, os.SEEK_DATA)) is not None:
        offset = _next(descriptor, begin, os.SEEK_HOLE) or begin
        if offset > begin:
            yield begin, offset


def _next(descriptor: int, offset: int, what: int) -> int | None:
    """Return where data or a hole is next, from ``offset`` on; None beyond the last."""
    try:
        return os.lseek(descriptor, offset, what)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return None
        raise


def has_writer(descriptor: int) -> bool | None:
    """Tell whether anybody can write to the file; None where the system does not say.

    ``descriptor`` is open for reading only. A read lease (fcntl(2)) is refused as long as any
    process has the file open for writing.
    """
    try:
        # Whoever opens the file in this moment breaks the lease; SIGIO would end us, this does not.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return True if error.errno == errno.EAGAIN else None
    fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False
