"""The journal: a small file that takes, for a while, what the ledger does not.

Not responsible for what is written or when; it keeps records, each whole or not at all, and gives
them back in order. Its room is taken from the disk beforehand, so that it can be written when
there is none left; where there is room it may grow.

The file is a block with the name of the ledger it belongs to and a salt, and then records, one
behind the other: a mark, the record's number, the length and a checksum (CRC-32) of salt, number
and content, the content. Numbers go up by one, and the ledger keeps the number of the last one that
it has taken. Nothing needs to be removed: the next trouble writes from the beginning again, with
another salt, and what is left of old records behind its last one is told by its sum, also where a
ledger that was put back from a copy makes numbers come again. A record that a crash tore has not
the sum that it says, and ends the journal like empty space.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Self

from crond_py.dataclass import dataclass
from crond_py.errors import LedgerError

ROOM_BYTES = 4 * 1024 * 1024
"""What is taken from the disk beforehand: some five thousand runs."""

LEAST_ROOM_BYTES = 64 * 1024
LARGEST_BYTES = 16 * 1024 * 1024
"""How far it may grow. What is in it is in memory, too."""

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}

_SHARE = 8  # of the room that a disk has left no more than this part is taken beforehand

BEGIN = 512
"""Where the first record begins: a disk writes so much at once, or nothing."""

_TITLE = b"pycron journal 1\n"
_MARK = b"PYJ1"
_HEAD = struct.Struct("<4sQII")


def journal_file(path: Path) -> Path:
    """Return where the journal of the ledger at ``path`` is."""
    return path.with_name(f"{path.stem}.journal")


@dataclass(frozen=True, slots=True)
class Record:
    """One record; ``place`` is where the next one begins."""

    number: int
    content: bytes
    place: int


class Journal:
    """An open journal. Made by ``open``; one thread at a time."""

    def __init__(self, path: Path, descriptor: int, identity: str, salt: bytes) -> None:
        self._path = path
        self._descriptor = descriptor
        self._identity = identity
        self._salt = salt
        self._end = BEGIN

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open the journal at ``path``, which is made where it is not. Raises LedgerError."""
        return cls._opened(path, _open(path))

    @classmethod
    def open_to_read(cls, path: Path) -> Self:
        """Open a journal that another process writes. Raises LedgerError."""
        return cls._opened(path, _open(path, os.O_RDONLY))

    @classmethod
    def _opened(cls, path: Path, descriptor: int) -> Self:
        try:
            return cls(path, descriptor, *_read_title(path, descriptor))
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def path(self) -> Path:
        """Where it is."""
        return self._path

    @property
    def identity(self) -> str:
        """The name of the ledger that it belongs to; empty where it has yet to be begun."""
        return self._identity

    def begin(self, identity: str) -> None:
        """Make it the empty journal of a ledger, and take its room. Raises LedgerError.

        Where the disk has not so much to spare, it takes less. Where its title could not be written
        it belongs to no ledger, and takes nothing until it could.
        """
        salt = os.urandom(8).hex().encode("ascii")
        block = b"\n".join((_TITLE.rstrip(), identity.encode("ascii"), salt, b""))
        self._identity = ""  # a write that fails leaves there nobody knows what
        try:
            _write(self._descriptor, block.ljust(2 * BEGIN, b"\0"), 0)
            try:
                _take_room(self._descriptor)
            finally:
                os.fdatasync(self._descriptor)
                self._identity, self._salt, self._end = identity, salt, BEGIN
        except OSError as error:
            raise _error(self._path, "cannot be begun", error) from error

    def records(self) -> Iterator[Record]:
        """Yield the records that are there, from the beginning of the file.

        Where they end the next one is written. Raises LedgerError where it cannot be read.
        """
        self._end = BEGIN
        number: int | None = None
        while (record := self.read(number, self._end)) is not None:
            self._end = record.place
            number = record.number + 1
            yield record

    def read(self, number: int | None, place: int) -> Record | None:
        """Return the record that begins at ``place``; None if there is none, or another number."""
        try:
            head = os.pread(self._descriptor, _HEAD.size, place)
            if len(head) < _HEAD.size:
                return None
            mark, found, length, checksum = _HEAD.unpack(head)
            if mark != _MARK or number not in {None, found} or length > LARGEST_BYTES:
                return None
            content = os.pread(self._descriptor, length, place + _HEAD.size)
        except OSError as error:
            raise _error(self._path, "cannot be read", error) from error
        if len(content) != length or self._checksum(found, content) != checksum:
            return None
        return Record(found, content, place + _HEAD.size + length)

    def append(self, number: int, content: bytes, *, durable: bool) -> None:
        """Add a record. Raises LedgerError where it cannot be; it is then not there.

        With ``durable`` it survives a power cut, and all before it do. It must have been begun: the
        next daemon would not know whose a record is that stands under no title.
        """
        if not self._identity:
            raise LedgerError(f"the journal {self._path} has not been begun")
        head = _HEAD.pack(_MARK, number, len(content), self._checksum(number, content))
        after = self._end + len(head) + len(content)
        if after > LARGEST_BYTES:
            raise LedgerError(f"the journal {self._path} is full ({LARGEST_BYTES} bytes)")
        if not self.is_in_place:
            raise LedgerError(f"the journal {self._path} was deleted or replaced")
        try:
            _write(self._descriptor, head + content, self._end)
            if durable:
                os.fdatasync(self._descriptor)
        except OSError as error:
            self._wipe(self._end)
            raise _error(self._path, "cannot be written", error) from error
        self._end = after

    def _checksum(self, number: int, content: bytes) -> int:
        return zlib.crc32(content, zlib.crc32(self._salt + number.to_bytes(8, "little")))

    def clear(self) -> None:
        """Write from the beginning again: the ledger has it all.

        The ledger knows that, so the old records need not be gone; but a ledger that is lost
        later should not be given them. ``begin`` sees to the others behind the first.
        """
        self._end = BEGIN
        self._wipe(BEGIN)

    def set_aside(self, now: datetime) -> Path:
        """Go on in a new file, and keep the old one under another name. Raises LedgerError."""
        target = self._path.with_name(f"{self._path.name}.foreign-{now:%Y%m%dT%H%M%SZ}")
        try:
            self._path.rename(target)
        except OSError as error:
            raise _error(self._path, f"cannot be moved to {target}", error) from error
        self.renew()
        return target

    def renew(self) -> None:
        """Go on in a new, empty file, where the old one is not in its place. Raises LedgerError."""
        descriptor = _open(self._path)
        os.close(self._descriptor)
        self._descriptor, self._identity, self._salt, self._end = descriptor, "", b"", BEGIN

    def _wipe(self, place: int) -> None:
        with suppress(OSError):
            os.pwrite(self._descriptor, bytes(_HEAD.size), place)

    @property
    def is_in_place(self) -> bool:
        """Whether the file that is open is the one that its path names."""
        with suppress(OSError):
            return os.path.samestat(os.lstat(self._path), os.fstat(self._descriptor))
        return False

    @property
    def room_bytes(self) -> int:
        """How large the file is."""
        return os.fstat(self._descriptor).st_size

    def close(self) -> None:
        """Let go of the file. Idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _open(path: Path, access: int = os.O_RDWR | os.O_CREAT) -> int:
    # O_NONBLOCK: a FIFO of that name must not hold the daemon up.
    flags = access | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        return os.open(path, flags, 0o600)
    except OSError as error:
        raise _error(path, "cannot be opened", error) from error


def _read_title(path: Path, descriptor: int) -> tuple[str, bytes]:
    """Return the ledger's name and the salt; an older pycron's journal has no salt."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise LedgerError(f"the journal {path} cannot be used: it is not a file; move it aside")
    try:
        block = os.pread(descriptor, BEGIN, 0)
    except OSError as error:
        raise _error(path, "cannot be read", error) from error
    title, line, rest = block.partition(b"\n")
    identity, _, rest = rest.partition(b"\n")
    if title + line != _TITLE or not identity.isalnum():
        return "", b""
    salt = rest.partition(b"\n")[0]
    return identity.decode("ascii", "replace"), salt if salt.isalnum() else b""


def _take_room(descriptor: int) -> None:
    """Have the disk set room aside: what is usual, or as much as it can spare."""
    disk = os.fstatvfs(descriptor)
    spare = disk.f_bavail * disk.f_frsize // _SHARE
    has = os.fstat(descriptor)
    size = min(ROOM_BYTES, max(spare, LEAST_ROOM_BYTES))
    if size <= has.st_blocks * 512:  # it has been taken before
        return
    try:
        os.posix_fallocate(descriptor, 0, size)
    except OSError as error:
        # Without it the journal is as good as the room that there is when it is needed.
        if error.errno not in {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS, *_NO_ROOM}:
            raise


def _write(descriptor: int, content: bytes, place: int) -> None:
    view = memoryview(content)
    while view:
        written = os.pwrite(descriptor, view, place)
        view = view[written:]
        place += written


def _error(path: Path, what: str, error: OSError) -> LedgerError:
    return LedgerError(f"the journal {path} {what}: {error.strerror}")
