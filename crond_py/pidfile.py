"""A file that says which process the daemon is. It is for people and scripts.

Nobody decides anything by what it says: whether a daemon runs is told by the lock on its state
directory, so a file that a crash left behind, or that now names another program, is replaced.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from crond_py.errors import PycronError

_LONGEST_READ = 64


class PidFile:
    """The file while the daemon runs: a context manager that writes it and takes it away."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> Self:
        """Write this process's id in one step, whatever was there. Raises PycronError."""
        new = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        try:
            new.unlink(missing_ok=True)
            # Made anew, so that nobody can have put a link or a file of his own there.
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(new, flags, 0o644)
            try:
                os.fchmod(descriptor, 0o644)
                os.write(descriptor, f"{os.getpid()}\n".encode())
            finally:
                os.close(descriptor)
            new.replace(self._path)
        except OSError as error:
            with contextlib.suppress(OSError):
                new.unlink(missing_ok=True)
            message = (
                f"the pid file {self._path} cannot be written: {error.strerror}; "
                "use another --pid-file"
            )
            raise PycronError(message) from error
        return self

    def __exit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        """Remove the file, unless it is another's by now."""
        with contextlib.suppress(OSError):  # what is left behind misleads nobody
            if self._names_this_process():
                self._path.unlink()

    def _names_this_process(self) -> bool:
        descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            return os.read(descriptor, _LONGEST_READ) == f"{os.getpid()}\n".encode()
        finally:
            os.close(descriptor)
