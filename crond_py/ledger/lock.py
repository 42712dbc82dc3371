"""Sees to it that one daemon writes a state directory: a lock on it and on a file in it.

The kernel's locks (flock(2)) decide and nothing else. That on the directory holds also when the
file is deleted; not every file system has it. What the file says is for people: the holder's pid
and when it started; a dead daemon's, or junk, is in nobody's way. The locks end with their
process, however that ends.
"""

from __future__ import annotations

import errno
import fcntl
import logging
import os
import re
from contextlib import suppress
from datetime import datetime
from pathlib import Path

from crond_py.errors import LedgerError, StateLockedError
from crond_py.logfields import fields

log = logging.getLogger("pycron.ledger")

FILE_NAME = "pycron.lock"

_PID = re.compile(rb"([1-9][0-9]{0,9})\s")
_NEVER_WAITING = os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # whatever lies there: a FIFO, say
_NOT_SUPPORTED = {errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL}


class StateLock:
    """The right to write a state directory.

    A daemon acquires it after it has gone to the background: python-daemon closes all
    descriptors then, this one too. No job inherits it (O_CLOEXEC).
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._descriptor: int | None = None
        self._directory_descriptor: int | None = None

    def acquire(self, now: datetime) -> None:
        """Take the lock, making the directory where need be; again while held: nothing.

        Raises StateLockedError while another holds it, and LedgerError where the directory
        cannot be used.
        """
        if self._descriptor is not None:
            return
        make_private_directory(self._directory)
        if self._directory_descriptor is None:
            self._directory_descriptor = self._locked_directory()
        try:
            descriptor = self._locked()
        except BaseException:
            self._release_directory()
            raise
        self._descriptor = descriptor
        text = f"{os.getpid()}\nstarted {now.isoformat(timespec='seconds')}\n".encode()
        try:
            # Over the old text and cut afterwards: at no time is it empty for a reader.
            os.pwrite(descriptor, text, 0)
            os.ftruncate(descriptor, len(text))
        except OSError as error:
            # The lock holds all the same, and a full disk keeps nobody from starting.
            log.warning(
                "the lock file cannot say who holds it",
                extra=fields(file=self._file, reason=error.strerror),
            )

    def keep(self, now: datetime) -> bool:
        """Take the lock anew where its file was deleted, with its directory perhaps; return if so.

        Raises StateLockedError where another daemon was quicker, and LedgerError where nobody can
        say whether it is there, or it cannot be made again.
        """
        if self._descriptor is not None and self._is_in_place(self._descriptor):
            return False
        self._release_file()
        if not self._is_directory_in_place():
            self._release_directory()
        self.acquire(now)
        return True

    def release(self) -> None:
        """Give the lock back. The file stays: removing it would let two hold it. Idempotent."""
        self._release_file()
        self._release_directory()

    def _release_file(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _release_directory(self) -> None:
        if self._directory_descriptor is not None:
            os.close(self._directory_descriptor)
            self._directory_descriptor = None

    @property
    def _file(self) -> Path:
        return self._directory / FILE_NAME

    def _locked_directory(self) -> int | None:
        """Lock the directory; None where that cannot be done, and the file's lock must do."""
        try:
            descriptor = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise self._held(self._pid_in_file()) from None
        except OSError:
            os.close(descriptor)
            return None
        return descriptor

    def _is_directory_in_place(self) -> bool:
        if self._directory_descriptor is None:
            return False
        with suppress(OSError):
            found = os.fstat(self._directory_descriptor)
            return os.path.samestat(found, self._directory.stat())
        return False

    def _pid_in_file(self) -> int | None:
        try:
            descriptor = os.open(self._file, os.O_RDONLY | _NEVER_WAITING)
        except OSError:
            return None
        try:
            return _read_pid(descriptor)
        finally:
            os.close(descriptor)

    def _held(self, pid: int | None) -> StateLockedError:
        who = "another pycron" if pid is None else f"another pycron (pid {pid})"
        message = (
            f"{who} runs on this state directory ({self._directory}); stop it, "
            "or use another --state-dir"
        )
        return StateLockedError(message, pid=pid)

    def _locked(self) -> int:
        while True:
            descriptor = self._open()
            try:
                self._lock(descriptor)
                if self._is_in_place(descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # somebody has put another file in its place: lock that

    def _open(self) -> int:
        try:
            return os.open(self._file, os.O_RDWR | os.O_CREAT | _NEVER_WAITING, 0o600)
        except OSError as error:
            message = (
                f"the lock file {self._file} cannot be opened: {error.strerror}; give this user "
                "the right to write there, or use another --state-dir"
            )
            raise LedgerError(message) from error

    def _lock(self, descriptor: int) -> None:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise self._held(_read_pid(descriptor)) from None
        except OSError as error:
            why = "its file system has no locks" if error.errno in _NOT_SUPPORTED else ""
            message = (
                f"the state directory {self._directory} cannot be locked: "
                f"{why or error.strerror}; use another --state-dir, on a local disk"
            )
            raise LedgerError(message) from error

    def _is_in_place(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.fstat(descriptor), self._file.lstat())
        except FileNotFoundError:
            return False
        except OSError as error:  # a sick disk, or something else in the directory's place
            message = (
                f"the lock file {self._file} cannot be looked at: {error.strerror}; put the state "
                "directory back, or stop pycron"
            )
            raise LedgerError(message) from error


def _read_pid(descriptor: int) -> int | None:
    """Return the pid that a lock file names, or None where it names none."""
    try:
        found = _PID.match(os.pread(descriptor, 64, 0))
    except OSError:  # not a regular file; who holds it is a courtesy
        return None
    return int(found[1]) if found else None


def make_private_directory(directory: Path) -> None:
    """Make a directory and its parents where they are missing, for their owner alone.

    That is what the XDG Base Directory Specification asks for. Raises LedgerError.
    """
    try:
        for missing in reversed(list(_missing(directory))):
            missing.mkdir(mode=0o700, exist_ok=True)
        if not directory.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    except OSError as error:
        message = (
            f"the state directory {directory} cannot be used: {error.strerror}; "
            "use another --state-dir"
        )
        raise LedgerError(message) from error


def _missing(directory: Path) -> list[Path]:
    missing = []
    for path in (directory, *directory.parents):
        if path.exists() or path.is_symlink():
            break
        missing.append(path)
    return missing
