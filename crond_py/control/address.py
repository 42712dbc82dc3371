"""Names of Unix sockets, however long their path, and who is at the other end of one."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from crond_py.dataclass import dataclass

LONGEST_ADDRESS: Final = 107
"""How many bytes of path fit into a socket's address (unix(7)), less the final zero byte."""


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is on the other side, as the kernel says."""

    pid: int
    uid: int


@contextlib.contextmanager
def address(path: Path) -> Iterator[str]:
    """Give a name by which a socket at ``path`` can be bound or reached, however long that is.

    Through an open directory a short name leads to it, where /proc is there. Raises OSError.
    """
    if len(os.fsencode(path)) <= LONGEST_ADDRESS:
        yield str(path)
        return
    directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{directory}/{path.name}"
    finally:
        os.close(directory)


def peer_of(connection: socket.socket) -> Peer:
    """Return who is on the other side (SO_PEERCRED of unix(7))."""
    credentials = connection.getsockopt(
        socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i")
    )
    pid, uid, _ = struct.unpack("3i", credentials)
    return Peer(pid, uid)
