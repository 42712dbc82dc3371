"""Writing to standard output and error: text, JSON, notes. What is said is decided elsewhere.

Except for what ``write`` and ``write_bytes`` are given, nothing gets out that drives a terminal.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from crond_py.printable import printable

_TO_END_OF_LINE = "\x1b[K"


def prepare() -> None:
    """Let no character that the terminal's encoding lacks stop an answer."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def out(text: str) -> None:
    """Write a line, or several, to standard output."""
    if sys.stdout is not None:
        sys.stdout.write(printable(text) + "\n")


def write(text: str) -> None:
    """Write text to standard output as it is."""
    if sys.stdout is not None:
        sys.stdout.write(text)


def write_bytes(data: bytes) -> None:
    """Write bytes to standard output as they are."""
    if sys.stdout is not None:
        sys.stdout.flush()  # text that was written before comes before
        sys.stdout.buffer.write(data)


def out_json(value: Any) -> None:
    """Write a value as JSON, indented, to standard output."""
    out(json.dumps(value, indent=2))


def note(text: str) -> None:
    """Write a line to standard error under the program's name."""
    error_line(f"pycron: {text}")


def error_line(text: str) -> None:
    """Write a line to standard error as it is."""
    if sys.stderr is not None:
        sys.stderr.write(printable(text) + "\n")


def is_watched() -> bool:
    """Tell whether a person is looking at standard error."""
    return (
        sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    )


def transient(text: str) -> None:
    """Write a line to the terminal in place of the one that was written so before; "": none."""
    if sys.stderr is not None:
        sys.stderr.write(f"\r{_TO_END_OF_LINE}{printable(text)}")
        sys.stderr.flush()


def flush() -> None:
    """Have all that was written reach where it goes. Raises OSError where it cannot."""
    if sys.stdout is not None:
        sys.stdout.flush()


def drop() -> None:
    """Give up what could not be written, so that the interpreter does not try again at its end."""
    if sys.stdout is not None:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)
