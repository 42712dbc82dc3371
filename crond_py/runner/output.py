"""The files that hold what runs print: where they lie, how they are opened, read and removed.

A process writes straight into its file, so nothing it prints passes through the daemon, and what
is left behind keeps a place to write to. Files are private to their owner. What is shown to a
person goes through ``crond_py.printable``: nothing a job prints drives a terminal or forges a line.

How a file is brought to its limit is ``keeper``'s and ``compaction``'s business. Until then its
middle is a hole, which is read as the line that says how much is left out.

In the daemon a file is its path as a text. A Path has the interpreter remember its parts, and some
versions do so for ever (Python 3.12.1): each run would take memory that nobody ever gives back.
"""

from __future__ import annotations

import codecs
import errno
import os
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Final

from crond_py.digest import sha256
from crond_py.model import task_id_of
from crond_py.percent import percent_encode
from crond_py.ports import StrPath
from crond_py.printable import printable_line
from crond_py.runner.holes import data_ranges, gap_line, read_on

MOST_STRETCHES: Final = 1 << 16
"""How many stretches of data between holes are looked back at."""

_DIRECTORY = "output"
_OF_TASKS = ":tasks"  # a colon in a job's name is quoted
_SUFFIX = ".log"
_BESIDE = ".new"
_EARLIER = ".earlier"
_LONGEST_NAME = 200  # NAME_MAX is 255 bytes; some file systems take less
_CHUNK_BYTES = 1 << 16
_NUMBERS = 2  # of a run and of its attempt
_MOST_DIGITS = 20


def output_path(state_dir: Path, job: str, run_id: int, attempt: int) -> Path:
    """Return where an attempt's output lies, for a command that looks at a few."""
    return Path(output_file(state_dir, job, run_id, attempt))


def output_file(state_dir: Path, job: str, run_id: int, attempt: int) -> str:
    """Return where an attempt's output lies: ``output/JOB/RUN-ATTEMPT.log``.

    Two jobs never share a directory, and none lies outside of ``output``, whatever their names;
    but all submitted tasks, of which each may run but once, have one together.
    """
    return os.path.join(output_directory(state_dir, job), f"{run_id}-{attempt}{_SUFFIX}")


def output_directory(state_dir: Path, job: str) -> str:
    """Return where the outputs of a job lie."""
    return os.path.join(state_dir, _DIRECTORY, _file_name(job))


def run_of(path: StrPath) -> int | None:
    """Return the id of the run whose output a file is; None if it is no such file."""
    numbers = _numbers_in(os.path.basename(path))
    return numbers[0] if numbers else None


def is_aside(path: StrPath) -> bool:
    """Tell whether a file was set aside, or was to replace an output and has not."""
    name = os.path.basename(path)
    return any(
        name.endswith(_SUFFIX + ending) and run_of(name.removesuffix(ending)) is not None
        for ending in (_EARLIER, _BESIDE)
    )


def next_attempt(path: Path) -> int | None:
    """Return the next attempt of the same run that has an output; None if there is none by now.

    An attempt that could not be started has none. Raises OSError, but not for a directory that
    is not there.
    """
    own = _numbers_in(path.name)
    try:
        found = [_numbers_in(other.name) for other in path.parent.iterdir()]
    except FileNotFoundError:
        return None
    later = [one[1] for one in found if one and own and one[0] == own[0] and one[1] > own[1]]
    return min(later, default=None)


def _numbers_in(name: str) -> tuple[int, int] | None:
    """Return the run and the attempt that a file is named for."""
    stem = name.removesuffix(_SUFFIX)
    numbers = stem.split("-")
    # Anybody may have put a file there: what has more digits than any id is none of ours.
    is_ours = all(one.isascii() and one.isdecimal() and len(one) < _MOST_DIGITS for one in numbers)
    if stem == name or len(numbers) != _NUMBERS or not is_ours:
        return None
    return int(numbers[0]), int(numbers[1])


def beside(path: StrPath) -> str:
    """Return where what is to replace an output file is made."""
    return os.fspath(path) + _BESIDE


def _earlier(path: StrPath) -> str:
    return os.fspath(path) + _EARLIER


def _file_name(job: str) -> str:
    if task_id_of(job) is not None:
        return _OF_TASKS
    name = percent_encode(job.encode(errors="surrogatepass"))
    if name.startswith(".") or not name:
        name = "%2E" + name[1:]
    if len(name) > _LONGEST_NAME:
        digest = sha256(job.encode(errors="surrogatepass")).hex()[:16]
        name = f"{name[: _LONGEST_NAME - 18]}%~{digest}"
    return name


def open_output(path: StrPath) -> int:
    """Open the output file of an attempt that begins, and return the descriptor to append to it.

    Directories are made with mode 0700, the file with 0600. What lies there already is that of
    another ledger, which counted the same numbers; it is set aside (``.earlier``). Raises OSError,
    also where something that is not a regular file lies there.
    """
    descriptor, size = _open_to_append(path)
    if size == 0:
        return descriptor
    os.close(descriptor)
    os.replace(path, _earlier(path))
    return _open_to_append(path)[0]


def _open_to_append(path: StrPath) -> tuple[int, int]:
    """Return a descriptor and the size of the file."""
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    flags |= os.O_NONBLOCK  # a FIFO that a job has put there would keep us waiting
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileNotFoundError:
        _make_directory(os.path.dirname(path))
        descriptor = os.open(path, flags, 0o600)
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode):
        os.set_blocking(descriptor, True)
        return descriptor, found.st_size
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file")


def open_to_read(path: StrPath) -> int:
    """Open an output file to read it, and return the descriptor.

    A job may have put anything in its place: no link is followed, and nothing waits for the
    writer of a FIFO. Raises OSError, also where it is not a regular file.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    descriptor = os.open(path, flags)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file")


def _make_directory(path: str) -> None:
    """Make a directory and its parents, each with mode 0700 (mkdir -p would ask the umask)."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except FileNotFoundError:
        _make_directory(os.path.dirname(path))
        with suppress(FileExistsError):
            os.mkdir(path, 0o700)


def remove_outputs(paths: Iterable[StrPath]) -> list[str]:
    """Remove output files, and a job's directory with its last one.

    What is not there is no fault. Returns a sentence for each file that could not be removed.
    """
    faults = []
    directories = set()
    for path in paths:
        directories.add(os.path.dirname(path))
        try:
            for each in (path, beside(path), _earlier(path)):
                with suppress(FileNotFoundError):
                    os.unlink(each)
        except OSError as error:
            faults.append(f"cannot remove {printable_line(str(path))}: {error.strerror}")
    for directory in directories:
        with suppress(OSError):  # not empty, or gone
            os.rmdir(directory)
    return faults


def read_output(
    path: Path, *, tail_lines: int | None = None, tail_bytes: int | None = None
) -> Iterator[str]:
    """Yield the text of an output file in pieces, as UTF-8; what is not becomes U+FFFD.

    See ``read_output_bytes``; ``tail_bytes`` begins with a whole character.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    for piece in read_output_bytes(path, tail_lines=tail_lines, tail_bytes=tail_bytes):
        if text := decoder.decode(piece):
            yield text
    if text := decoder.decode(b"", final=True):
        yield text


def read_output_bytes(
    path: Path, *, tail_lines: int | None = None, tail_bytes: int | None = None
) -> Iterator[bytes]:
    """Yield an output file in pieces as it is, but that a line tells what is left out.

    ``tail_lines`` and ``tail_bytes`` start that far from the end, the later of the two. The file
    is read as it is now: what is appended meanwhile may be missing. A file of any size takes
    little memory. Raises OSError, FileNotFoundError where there was never any output.
    """
    descriptor = open_to_read(path)
    try:
        size = os.fstat(descriptor).st_size
        start = 0
        if tail_lines is not None:
            start = find_last_lines(descriptor, size, tail_lines)
        if tail_bytes is not None:
            start = max(start, _to_character(descriptor, max(0, size - tail_bytes)))
        reading = Reading(descriptor, start)
        while reading.offset < size and (piece := reading.read(size - reading.offset)):
            yield piece
    finally:
        os.close(descriptor)


class Reading:
    """Reads a file from a place on, also while it grows; ``offset`` is how far it has got.

    The descriptor stays the caller's.
    """

    def __init__(self, descriptor: int, offset: int = 0) -> None:
        self._descriptor = descriptor
        self.offset = offset
        self._is_line_begun = False

    def read(self, most: int = _CHUNK_BYTES) -> bytes:
        """Return what comes next; nothing where that is the end by now.

        What was left out is told by a line of its own, which comes on top of ``most``.
        """
        begin, data, _ = read_on(self._descriptor, self.offset, min(most, _CHUNK_BYTES))
        left_out = begin - self.offset
        self.offset = begin + len(data)
        if left_out > 0:
            before = "\n" if self._is_line_begun else ""
            data = f"{before}{gap_line(left_out)}\n".encode() + data
        if data:
            self._is_line_begun = not data.endswith(b"\n")
        return data


def find_last_lines(descriptor: int, size: int, count: int) -> int:
    """Return where the last ``count`` lines begin. A last line may lack its newline.

    What is left out counts as the one line that is shown for it. Where a job has made more than
    ``MOST_STRETCHES`` holes, no line before that many of them is looked for.
    """
    if count <= 0:
        return size
    end = size
    ranges = takewhile(lambda stretch: stretch[0] < size, data_ranges(descriptor))
    # Each has a line at least, so no more of them are needed than lines are.
    last = deque(ranges, maxlen=min(count, MOST_STRETCHES))
    for begin, stop in reversed(last):
        if stop < end:
            count -= 1
            if count == 0:
                return stop
        found, start = _count_back(descriptor, begin, min(stop, size), count)
        if found == count and start > begin:
            return start
        count -= found
        end = begin
        if count == 0:
            return begin
    return end if len(last) == MOST_STRETCHES else 0


def _count_back(descriptor: int, begin: int, end: int, most: int) -> tuple[int, int]:
    """Count lines of a range from its end, at most ``most``; return where the last found begins."""
    # A newline at the very end ends the last line and begins none.
    count, place = most, end - 1
    while place > begin:
        first = max(begin, place - _CHUNK_BYTES)
        chunk = os.pread(descriptor, place - first, first)
        found = chunk.count(b"\n")
        if found >= count:
            at = len(chunk)
            for _ in range(count):
                at = chunk.rindex(b"\n", 0, at)
            return most, first + at + 1
        count -= found
        place = first
    return most - count + 1, begin


def _to_character(descriptor: int, offset: int) -> int:
    """Return the first place from ``offset`` on where a character of UTF-8 can begin."""
    if offset == 0:
        return 0
    # At most three bytes 10xxxxxx belong to a character that begins before them.
    data = os.pread(descriptor, 3, offset)
    return offset + len(data) - len(data.lstrip(bytes(range(0x80, 0xC0))))
