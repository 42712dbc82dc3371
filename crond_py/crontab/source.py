"""From a path to the tables of one TOML file. What the tables mean is decided elsewhere.

A file that cannot be used gives one fault. Reading is bounded: only a regular file, of at most
``MAX_BYTES``, without anything that would keep tomllib busy out of proportion.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any, Final

from crond_py.crontab.faults import FileReport, Refused
from crond_py.crontab.syntax import explain
from crond_py.crontab.toml import parse

MAX_BYTES: Final = 32 * 1024 * 1024
MAX_KEY_PARTS: Final = 100

Table = dict[str, Any]
"""A TOML table as tomllib returns it."""

_BOM: Final = "\ufeff"
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")

# tomllib's work grows with the square of the parts of a key; a real key has five at most.
_DEEP_KEY: Final = re.compile(
    r"(?:^|[{,])[ \t]*+(?:\[{1,2}[ \t]*+)?"
    r"(?:(?:[\w-]++|\"[^\"\n]*+\"|'[^'\n]*+')[ \t]*\.[ \t]*)"
    rf"{{{MAX_KEY_PARTS}}}",
    re.MULTILINE | re.ASCII,
)


def read_table(report: FileReport) -> Table | None:
    """Return the tables of ``report.path`` and keep its text there, or enter why not."""
    try:
        data = _read(report.path)
    except Refused as refused:
        report.add_refused((), refused)
        return None
    text = _decode(data, report)
    if text is None:
        return None
    report.text = text
    return _parse(text, report)


def _read(path: Path) -> bytes:
    """Return what a regular file holds. O_NONBLOCK: opening a fifo must not wait for a writer."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            _check_kind(os.fstat(descriptor))
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                data = file.read(MAX_BYTES + 1)
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise Refused("there is no such file", "create it, or name another one") from None
    except PermissionError:
        way_out = "look at the permissions of the file and of the directories above it"
        raise Refused("may not be read by this user", way_out) from None
    except OSError as error:
        raise Refused(f"cannot be read: {error.strerror or type(error).__name__}") from None
    except ValueError:  # a NUL in the name
        raise Refused("is not the name of a file") from None
    if len(data) > MAX_BYTES:
        raise _too_large()
    return data


def _check_kind(status: os.stat_result) -> None:
    """Refuse what is no file of a reasonable size."""
    if stat.S_ISDIR(status.st_mode):
        raise Refused("is a directory", "name the TOML file")
    if not stat.S_ISREG(status.st_mode):
        raise Refused("is not a regular file", "a crontab cannot be read from a pipe or a device")
    if status.st_size > MAX_BYTES:
        raise _too_large()


def _too_large() -> Refused:
    return Refused(
        f"is larger than {MAX_BYTES // 1024**2} MiB, the most that a crontab may have",
        "is it the right file? Jobs can be spread over several files in the drop-in directory",
    )


def _decode(data: bytes, report: FileReport) -> str | None:
    """Return the text; a byte order mark is let pass."""
    if data.startswith(_UTF16_MARKS):
        report.add_line(1, (), "the file is UTF-16, not UTF-8", "save it as UTF-8")
        return None
    if (nul := data.find(b"\0")) >= 0:
        line = data.count(b"\n", 0, nul) + 1
        report.add_line(line, (), "there is a NUL byte", "is it a text file, saved as UTF-8?")
        return None
    try:
        return data.decode("utf-8").removeprefix(_BOM)
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        report.add_line(line, (), f"byte 0x{byte:02x} is not UTF-8", "save the file as UTF-8")
        return None


def _parse(text: str, report: FileReport) -> Table | None:
    """Return the tables of a text that is TOML."""
    deep = _DEEP_KEY.search(text)
    if deep:
        line = text.count("\n", 0, deep.start()) + 1
        report.add_line(line, (), f"a key has more than {MAX_KEY_PARTS} parts")
        return None
    try:
        return parse(text)
    except RecursionError:
        report.add_line(0, (), "arrays or tables are nested too deeply")
    except ValueError as error:  # TOMLDecodeError, and int() of thousands of digits
        mistake = explain(error, text)
        report.add_line(mistake.line, mistake.key, mistake.message, mistake.suggestion)
    return None
