"""The files that hold what runs print: where they lie, how they are opened, read and removed.

A process writes straight into its file, so nothing it prints passes through the daemon, and what
is left behind keeps a place to write to. Files are private to their owner. What is shown to a
person goes through ``crond_py.printable``: nothing a job prints drives a terminal or forges a line.
"""

from __future__ import annotations

import codecs
import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from crond_py.printable import printable_line

_DIRECTORY = "output"
_LONGEST_NAME = 200  # NAME_MAX is 255 bytes; some file systems take less
_CHUNK_BYTES = 1 << 16


def output_path(state_dir: Path, job: str, run_id: int, attempt: int) -> Path:
    """Return where an attempt's output lies: ``output/JOB/RUN-ATTEMPT.log``.

    Two jobs never share a directory, and none lies outside of ``output``, whatever their names.
    """
    return state_dir / _DIRECTORY / _file_name(job) / f"{run_id}-{attempt}.log"


def _file_name(job: str) -> str:
    name = quote(job, safe="", errors="surrogatepass")
    if name.startswith(".") or not name:
        name = "%2E" + name[1:]
    if len(name) > _LONGEST_NAME:
        digest = hashlib.sha256(job.encode(errors="surrogatepass")).hexdigest()[:16]
        name = f"{name[: _LONGEST_NAME - 18]}%~{digest}"
    return name


def open_output(path: Path) -> int:
    """Open an output file to append to, and return the descriptor; make what is missing.

    Directories are made with mode 0700, the file with 0600. Raises OSError, also where something
    that is not a regular file lies there.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        descriptor = os.open(path, flags, 0o600)
    except FileNotFoundError:
        _make_directory(path.parent)
        descriptor = os.open(path, flags, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file")


def _make_directory(path: Path) -> None:
    """Make a directory and its parents, each with mode 0700 (mkdir -p would ask the umask)."""
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except FileNotFoundError:
        _make_directory(path.parent)
        path.mkdir(mode=0o700, exist_ok=True)


def remove_outputs(paths: Iterable[Path]) -> list[str]:
    """Remove output files, and a job's directory with its last one.

    What is not there is no fault. Returns a sentence for each file that could not be removed.
    """
    faults = []
    directories = set()
    for path in paths:
        directories.add(path.parent)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            faults.append(f"cannot remove {printable_line(str(path))}: {error.strerror}")
    for directory in directories:
        with suppress(OSError):  # not empty, or gone
            directory.rmdir()
    return faults


def read_output(
    path: Path, *, tail_lines: int | None = None, tail_bytes: int | None = None
) -> Iterator[str]:
    """Yield the text of an output file in pieces, as UTF-8; what is not becomes U+FFFD.

    ``tail_lines`` and ``tail_bytes`` start that far from the end, the later of the two. The file
    is read as it is now: what is appended meanwhile may be missing. A file of any size takes
    little memory. Raises OSError, FileNotFoundError where there was never any output.
    """
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb", buffering=0) as file:
        size = os.fstat(descriptor).st_size
        start = 0
        if tail_lines is not None:
            start = _find_last_lines(descriptor, size, tail_lines)
        if tail_bytes is not None:
            start = max(start, _to_character(descriptor, max(0, size - tail_bytes)))
        file.seek(start)
        while start < size and (chunk := file.read(min(_CHUNK_BYTES, size - start))):
            start += len(chunk)
            if text := decoder.decode(chunk):
                yield text
    if text := decoder.decode(b"", final=True):
        yield text


def _find_last_lines(descriptor: int, size: int, count: int) -> int:
    """Return where the last ``count`` lines begin. A last line may lack its newline."""
    if count <= 0:
        return size
    # A newline at the very end ends the last line and begins none.
    end = size - 1
    while end > 0:
        begin = max(0, end - _CHUNK_BYTES)
        chunk = os.pread(descriptor, end - begin, begin)
        found = chunk.count(b"\n")
        if found >= count:
            place = len(chunk)
            for _ in range(count):
                place = chunk.rindex(b"\n", 0, place)
            return begin + place + 1
        count -= found
        end = begin
    return 0


def _to_character(descriptor: int, offset: int) -> int:
    """Return the first place from ``offset`` on where a character of UTF-8 can begin."""
    if offset == 0:
        return 0
    # At most three bytes 10xxxxxx belong to a character that begins before them.
    data = os.pread(descriptor, 3, offset)
    return offset + len(data) - len(data.lstrip(bytes(range(0x80, 0xC0))))
