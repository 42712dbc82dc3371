"""Where in a TOML text each key stands. It reads no values and judges nothing.

tomllib tells values without their lines, so a fault needs a second look at the text. This look
is only taken where something has to be said (``locate_keys``), or for the lines that jobs begin
at (``job_lines``, one pass of a regular expression). Both rely on tomllib having accepted the
text: then a quotation mark outside of a string or a comment can only begin a string. Of a text
that ends in the middle of something, what stands before it is found.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from crond_py.crontab.toml import parse

KeyPath = tuple[str | int, ...]
"""The keys from the top of a file, with the index (from 0) where an array is passed."""

_STRING: Final = (
    r'"""(?:[^"\\]++|\\.|"{1,2}(?!"))*+"{3,5}'
    r"|'''(?:[^']++|'{1,2}(?!'))*+'{3,5}"
    r'|"(?:[^"\\\n]++|\\.)*+"'
    r"|'[^'\n]*+'"
)
_PIECE: Final = re.compile(
    rf"[ \t]++|\#[^\n]*+|(?P<key>{_STRING}|[^\s\"'\[\]{{}}=,.\#]++)|(?P<mark>[\n\[\]{{}}=,.])",
    re.DOTALL,
)
_JOB_HEADER: Final = re.compile(
    rf"^[ \t]*\[[ \t]*jobs[ \t]*\.[ \t]*(?:(?P<bare>[\w-]++)|\"(?P<quoted>[^\"\\\n]*+)\")[ \t]*\]"
    rf"|\#[^\n]*+|{_STRING}",
    re.DOTALL | re.MULTILINE | re.ASCII,
)


def locate_keys(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of every key and array element of ``text``.

    A table has the line of its own header, and without one that of the first key in it.
    """
    locator = _Locator(text)
    locator.run()
    return locator.lines


def first_duplicate(text: str) -> tuple[KeyPath, int, int] | None:
    """Return the first key or table that is given twice, with the lines of both, or None."""
    locator = _Locator(text)
    locator.run()
    return locator.duplicate


def line_of(lines: Mapping[KeyPath, int], path: KeyPath) -> int:
    """Return the line of ``path`` or of the nearest table around it, or 1 if there is none."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return 1


def job_lines(text: str) -> dict[str, int]:
    """Return the line of each ``[jobs.NAME]`` header; jobs written otherwise are left out."""
    text = _unix(text)
    lines: dict[str, int] = {}
    line = 1
    counted_to = 0
    for match in _JOB_HEADER.finditer(text):
        name = match["bare"] or match["quoted"]
        if name:
            line += text.count("\n", counted_to, match.start())
            counted_to = match.start()
            lines[name] = line
    return lines


def _unix(text: str) -> str:
    """Return ``text`` with the line ends that tomllib sees."""
    return text.replace("\r\n", "\n")


class _Locator:
    """A reader of TOML's structure: it keeps keys and lines and steps over values.

    ``_piece`` is the text at hand, "" at the end. Its first character tells its kind: a word or
    a string may be a key (``_is_key``), everything else is one mark or the end of a line.
    """

    def __init__(self, text: str) -> None:
        self._text = _unix(text)
        self._position = 0
        self._piece = ""
        self._is_key = False
        self._line = 1
        self._next_line = 1
        self.lines: dict[KeyPath, int] = {}
        self.duplicate: tuple[KeyPath, int, int] | None = None
        self._own: set[KeyPath] = set()
        self._lengths: dict[KeyPath, int] = {}
        self._advance()

    def run(self) -> None:
        """Read to the end, or to the first thing that is not TOML."""
        table: KeyPath = ()
        while self._piece:
            if self._piece == "[":
                table = self._header()
            elif self._is_key:
                self._pair(table)
            else:
                self._advance()

    def _header(self) -> KeyPath:
        """Read ``[key]`` or ``[[key]]``; return the path of the table that it opens."""
        line = self._line
        self._advance()
        is_array = self._piece == "["
        if is_array:
            self._advance()
        path: KeyPath = ()
        keys = self._key()
        for number, key in enumerate(keys, 1):
            path = (*path, key)
            is_last = number == len(keys)
            if is_last and is_array:
                self._note(path, line)
                self._lengths[path] = self._lengths.get(path, 0) + 1
            if path in self._lengths:
                path = (*path, self._lengths[path] - 1)
            self._note(path, line, is_own=is_last)
        while self._piece == "]":
            self._advance()
        return path

    def _pair(self, table: KeyPath) -> None:
        """Read ``key = value``."""
        line = self._line
        path = table
        keys = self._key()
        for number, key in enumerate(keys, 1):
            path = (*path, key)
            self._note(path, line, is_own=number == len(keys))
        if self._piece == "=":
            self._advance()
            self._value(path)

    def _key(self) -> list[str]:
        """Read a dotted key."""
        keys: list[str] = []
        while self._is_key:
            keys.append(_unquoted(self._piece))
            self._advance()
            if self._piece != ".":
                break
            self._advance()
        return keys

    def _value(self, path: KeyPath) -> None:
        """Step over a value, noting the keys of inline tables and the elements of arrays."""
        opening = self._piece
        if opening not in ("[", "{"):
            while self._is_key or self._piece == ".":  # 1.5 is three tokens, a date may have two
                self._advance()
            return
        self._advance()
        closing = "]" if opening == "[" else "}"
        index = 0
        while self._piece and self._piece != closing:
            before = self._position
            if self._piece in ("\n", ","):
                self._advance()
            elif opening == "[":
                self._note((*path, index), self._line)
                self._value((*path, index))
                index += 1
            else:
                self._pair(path)
            if self._position == before:
                return
        self._advance()

    def _note(self, path: KeyPath, line: int, *, is_own: bool = False) -> None:
        """Keep the first line seen, except that a table's own header goes over it."""
        if path in self._own:
            if is_own and self.duplicate is None:
                self.duplicate = (path, self.lines[path], line)
            return
        if is_own:
            self._own.add(path)
        if is_own or path not in self.lines:
            self.lines[path] = line

    def _advance(self) -> None:
        """Go to the next piece that is neither blank nor comment; none is left at the end."""
        match = _PIECE.match(self._text, self._position)
        while match and not match.lastgroup:
            match = _PIECE.match(self._text, match.end())
        self._line = self._next_line
        if match is None:
            self._piece, self._is_key = "", False
            return
        self._position = match.end()
        self._piece = match[0]
        self._is_key = match.lastgroup == "key"
        if self._piece[0] in "\n\"'":
            self._next_line += self._piece.count("\n")


def _unquoted(piece: str) -> str:
    """Return what a key says, bare or quoted."""
    if piece[0] not in "\"'":
        return piece
    if piece[0] == "'" or "\\" not in piece:
        return piece[1:-1]
    try:
        return str(parse(f"key = {piece}")["key"])
    except ValueError:
        return piece[1:-1]  # in the part of a text that tomllib has not accepted
