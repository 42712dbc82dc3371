"""Writing to a descriptor all that there is to write, which write(2) alone does not promise."""

from __future__ import annotations

import os


def write_all(descriptor: int, data: bytes) -> None:
    """Write the whole of it. Raises OSError, also after a part of it."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def hold(data: bytes, name: str) -> int:
    """Return a descriptor of a file in memory that has the data, and nothing of it read yet.

    ``name`` is what is seen of it in /proc. Raises OSError.
    """
    descriptor = os.memfd_create(name, os.MFD_CLOEXEC)
    try:
        write_all(descriptor, data)
        os.lseek(descriptor, 0, os.SEEK_SET)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
