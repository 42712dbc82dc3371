"""The kernel's word that a file or directory has changed: inotify(7), which Python has no call for.

Nothing here knows what is watched, or why.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from crond_py.ports import StrPath

MODIFIED: Final = 0x002
CLOSED_BY_WRITER: Final = 0x008
ATTRIBUTES_CHANGED: Final = 0x004
MOVED_IN: Final = 0x080
CREATED: Final = 0x100
ONCE: Final = 0x8000_0000
NO_LINK: Final = 0x0200_0000

_FORGOTTEN: Final = 0x8000
_OVERFLOWN: Final = 0x4000
_HEADER: Final = struct.Struct("iIII")
_CHUNK_BYTES: Final = 1 << 12


class Inotify:
    """One inotify instance. It has a ``fileno`` and is readable once something has happened."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        flags = os.O_CLOEXEC | os.O_NONBLOCK
        self._descriptor = self._checked(self._libc.inotify_init1(flags), "inotify")

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def add(self, path: StrPath, mask: int) -> int:
        """Watch a file or directory and return the number that its events carry.

        The number is that of an earlier watch on the same file, which this one replaces, and
        otherwise one that no watch had before. Raises OSError.
        """
        # inotify_add_watch takes the mask as unsigned, ctypes passes any int of that width.
        name = os.fsencode(path)
        number = self._libc.inotify_add_watch(self._descriptor, name, ctypes.c_uint32(mask))
        return self._checked(number, str(path))

    def remove(self, number: int) -> None:
        """Watch no more; a watch that is gone already is no fault."""
        self._libc.inotify_rm_watch(self._descriptor, number)

    def events(self) -> Iterator[int]:
        """Yield the numbers of the watches of which something has happened since, without waiting.

        -1 stands for all of them: so much has happened that the kernel has lost count.
        """
        with suppress(BlockingIOError):
            while data := os.read(self._descriptor, _CHUNK_BYTES):
                place = 0
                while place < len(data):
                    number, mask, _, name_bytes = _HEADER.unpack_from(data, place)
                    place += _HEADER.size + name_bytes
                    if not mask & _FORGOTTEN:
                        yield -1 if mask & _OVERFLOWN else number

    def close(self) -> None:
        """Watch nothing any more."""
        os.close(self._descriptor)

    def _checked(self, result: int, what: str) -> int:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), what)
        return result
