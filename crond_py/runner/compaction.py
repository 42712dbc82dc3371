"""Brings output files to their limit once nobody writes to them any more.

A file keeps its first half limit and its last; between them goes a line that says how much was
left out. The new file is made beside the old one and takes its place by renaming, so there is
always a whole one; who reads the old one meanwhile reads it to its end.

Copying takes a while where limits are large, so it is done in a thread of its own, which is begun
when it is first needed.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from contextlib import suppress
from datetime import timedelta
from typing import Final

from crond_py.ports import StrPath
from crond_py.printable import printable_line
from crond_py.runner.holes import data_ranges, gap_line, has_writer
from crond_py.runner.output import beside, open_to_read
from crond_py.runner.writing import write_all
from crond_py.threads import Thread

ROOM_BYTES: Final = 128
"""By how much a file may be beyond its limit: the line that is put into it fits."""

_CHUNK_BYTES: Final = 1 << 18

log = logging.getLogger("pycron.output")


class Compactor:
    """Compacts files one after the other, in its own thread."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[StrPath, int] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._is_in_trouble = False

    def put(self, path: StrPath, limit_bytes: int) -> None:
        """Have a file compacted. Only the keeper's thread calls this."""
        if self._thread is None:
            thread = Thread(target=self._run, name="pycron-compactor", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # the system's limit: the file stays as it is
                self._tell(path, str(error))
                return
            self._thread = thread
        self._queue.put((path, limit_bytes))

    def close(self, timeout: timedelta) -> None:
        """Compact what was put, for at most ``timeout``; what is left stays as it is."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(timeout.total_seconds())

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            path, limit_bytes = item
            try:
                compact(path, limit_bytes)
            except FileNotFoundError:  # removed meanwhile
                continue
            except OSError as error:
                self._tell(path, error.strerror or str(error))
            except Exception:
                log.exception("output could not be brought to its limit")
            else:
                self._is_in_trouble = False

    def _tell(self, path: StrPath, cause: str) -> None:
        """Say what is the matter, once until it works again."""
        level = logging.DEBUG if self._is_in_trouble else logging.WARNING
        self._is_in_trouble = True
        message = "output is not brought to its limit: %s: %s; its file stays as it is"
        log.log(level, message, printable_line(str(path)), cause, extra={"fields": {}})


def compact(path: StrPath, limit_bytes: int) -> bool:
    """Leave out the middle of a file that is beyond its limit; return whether that was done.

    A file that somebody can still write to is left alone, and so is one that has its gap line
    already. Raises OSError.
    """
    source = open_to_read(path)
    try:
        found = os.fstat(source)
        if found.st_size <= limit_bytes + ROOM_BYTES or has_writer(source):
            return False
        new = beside(path)
        _remove(new)
        try:
            _write_new(source, found.st_size, limit_bytes, new)
            os.utime(new, ns=(found.st_atime_ns, found.st_mtime_ns))
            now = os.lstat(path)  # raises where it was removed meanwhile: it must not come back
            if has_writer(source) or now.st_size != found.st_size:
                os.unlink(new)
                return False
            os.replace(new, path)
        except BaseException:
            with suppress(OSError):
                _remove(new)
            raise
    finally:
        os.close(source)
    return True


def _remove(path: str) -> None:
    with suppress(FileNotFoundError):
        os.unlink(path)


def _write_new(source: int, size: int, limit_bytes: int, new: str) -> None:
    head, tail = _kept(source, size, limit_bytes)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
    target = os.open(new, flags, 0o600)
    try:
        _copy(source, 0, head, target)
        ends_a_line = head == 0 or os.pread(source, 1, head - 1) == b"\n"
        line = gap_line(tail - head) + "\n"
        write_all(target, (line if ends_a_line else "\n" + line).encode())
        _copy(source, tail, size, target)
    finally:
        os.close(target)


def _kept(source: int, size: int, limit_bytes: int) -> tuple[int, int]:
    """Return where the beginning that is kept ends, and where the end that is kept begins.

    There may be holes that another limit has left.
    """
    head = limit_bytes // 2
    tail = size - (limit_bytes - head)
    first = next(data_ranges(source), None)
    if first is None:
        return 0, size
    head = min(head, first[1]) if first[0] == 0 else 0
    for begin, _ in data_ranges(source, tail):
        tail = begin
    return head, max(tail, head)


def _copy(source: int, begin: int, end: int, target: int) -> None:
    while begin < end and (data := os.pread(source, min(_CHUNK_BYTES, end - begin), begin)):
        write_all(target, data)
        begin += len(data)
