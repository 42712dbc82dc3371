"""Passes on what a process prints, line by line, from its file to a sink.

The file is the buffer: only a place in it is kept, so a sink that takes its time holds up nobody
and costs no memory. What has been left out of the file before it could be passed on is told by a
line. The place is noted at the file (an extended attribute, where there are any), so that after a
restart no line is passed on twice and none is forgotten.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from enum import Enum, auto
from typing import Final

from crond_py.ports import AttemptKey, LineSink, PrintedLines
from crond_py.runner.holes import gap_line, read_on

LONGEST_BYTES: Final = 8192
"""A longer line is passed on in pieces, each but the last with ``GOES_ON`` at its end."""

GOES_ON: Final = " [the line goes on]"

# So few that other threads do not wait for this one.
_AT_ONCE_BYTES: Final = 1 << 15
_AT_ONCE_LINES: Final = 200
_ATTRIBUTE: Final = "user.pycron.passed_on"
_CONTINUES: Final = range(0x80, 0xC0)  # the bytes of a character of UTF-8 after its first


class Progress(Enum):
    """What there is left to be passed on: nothing now, more, or more once the sink has room."""

    IDLE = auto()
    MORE = auto()
    BLOCKED = auto()


class Passer:
    """Passes on one file. ``resumes``: an earlier daemon may have begun with it."""

    def __init__(
        self,
        job: str,
        key: AttemptKey,
        sink: LineSink,
        on_room: Callable[[], None],
        *,
        resumes: bool,
    ) -> None:
        self._job = job
        self._key = key
        self._sink = sink
        self._on_room = on_room
        self._resumes = resumes
        self._offset: int | None = None

    def pass_on(self, descriptor: int, *, is_over: bool) -> Progress:
        """Pass on some of what is there and was not yet, whole lines only unless ``is_over``."""
        size = os.fstat(descriptor).st_size
        offset = self._begin(descriptor, size) if self._offset is None else self._offset
        if offset > size:  # the file was cut off: what is there now is new
            offset = 0
        begin, data, is_cut = read_on(descriptor, offset, _AT_ONCE_BYTES)
        is_last = is_cut or (is_over and begin + len(data) >= size)
        pieces = split(data, is_last=is_last)
        lines = [text for text, _ in pieces]
        ends = [begin + end for _, end in pieces]
        if begin > offset:
            lines.insert(0, gap_line(begin - offset))
            ends.insert(0, begin)
        self._offset = offset
        if not lines:
            return Progress.IDLE
        printed = PrintedLines(self._job, self._key, tuple(lines))
        taken = self._sink.offer(printed, self._on_room)
        if taken:
            self._offset = ends[taken - 1]
            self._note(descriptor, self._offset)
        if taken < len(lines):
            return Progress.BLOCKED
        return Progress.MORE if self._offset < size and len(data) > 0 else Progress.IDLE

    def left(self, size: int) -> int:
        """Return how many bytes of a file of this size have not been passed on."""
        return max(0, size - self._offset) if self._offset is not None else 0

    def _begin(self, descriptor: int, size: int) -> int:
        """Return where to begin: where it was left off; where nobody knows that, at the end."""
        if not self._resumes:
            self._note(descriptor, 0)
            return 0
        try:
            return int(os.getxattr(descriptor, _ATTRIBUTE))
        except (OSError, ValueError):
            return size

    @staticmethod
    def _note(descriptor: int, offset: int) -> None:
        with suppress(OSError):  # no attributes here: a restart goes on from the end
            os.setxattr(descriptor, _ATTRIBUTE, str(offset).encode())


def split(data: bytes, *, is_last: bool) -> list[tuple[str, int]]:
    """Cut into lines, each with the place where it ends, up to ``_AT_ONCE_LINES`` of them.

    What follows the last newline is a line too where ``is_last``; else it waits for its newline.
    """
    found: list[tuple[str, int]] = []
    place = 0
    while place < len(data) and len(found) < _AT_ONCE_LINES:
        newline = data.find(b"\n", place, place + LONGEST_BYTES + 1)
        if newline >= 0:
            end, after, mark = newline, newline + 1, ""
        elif len(data) - place > LONGEST_BYTES:
            end = after = _character_end(data, place + LONGEST_BYTES)
            mark = GOES_ON
        elif is_last:
            end = after = len(data)
            mark = ""
        else:
            break
        found.append((data[place:end].decode("utf-8", "replace") + mark, after))
        place = after
    return found


def _character_end(data: bytes, place: int) -> int:
    """Return a place near ``place`` that lies in no character of UTF-8."""
    for back in range(4):
        if data[place - back] not in _CONTINUES:
            return place - back
    return place
