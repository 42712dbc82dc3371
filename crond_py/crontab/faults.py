"""How faults are worded, collected and given their lines. What is a fault is decided elsewhere.

Whatever a file says is put into a message only through ``quoted`` or ``dotted``: what they
return has no character that moves a cursor, ends a line or hides another, and is not long. A
message as a whole goes through ``shown`` once more, so that one slip drives no terminal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Final

from crond_py.crontab.locate import KeyPath, line_of, locate_keys
from crond_py.dataclass import dataclass
from crond_py.errors import Fault

_QUOTED_LENGTH: Final = 60
_LONGEST_WORD: Final = 200
_HUGE: Final = 10**20
_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,100}\Z")


class Refused(Exception):  # noqa: N818 - it is no error of the program
    """A value that is no good; raised and caught within this package only.

    ``problems`` are (keys below the value, message, suggestion).
    """

    def __init__(
        self, message: str = "", suggestion: str = "", *, problems: Iterable[Problem] = ()
    ) -> None:
        super().__init__(message)
        self.problems = tuple(problems) or (Problem((), message, suggestion),)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a value: ``path`` leads from the value to the part at fault."""

    path: KeyPath
    message: str
    suggestion: str = ""

    def below(self, path: KeyPath) -> Problem:
        """Return the problem as seen from further up."""
        return Problem((*path, *self.path), self.message, self.suggestion)


@dataclass(slots=True)
class FileReport:
    """The faults of one file; ``text`` is what their lines are looked up in."""

    path: Path
    text: str = ""
    _problems: list[Problem] = field(default_factory=list)
    _faults: list[Fault] = field(default_factory=list)
    _lines: dict[KeyPath, int] = field(default_factory=dict)

    def add(self, path: KeyPath, message: str, suggestion: str = "") -> None:
        """Enter a fault of the key at ``path``; an empty path means the file as a whole."""
        self._problems.append(Problem(path, message, suggestion))

    def add_refused(self, path: KeyPath, refused: Refused) -> None:
        """Enter what the value at ``path`` was refused for."""
        self._problems.extend(problem.below(path) for problem in refused.problems)

    def add_line(self, line: int, key: KeyPath, message: str, suggestion: str = "") -> None:
        """Enter a fault whose line is known; 0 means that it has none."""
        texts = (dotted(key), shown(message), shown(suggestion))
        self._faults.append(Fault(shown(str(self.path)), line, *texts))

    def is_clean(self) -> bool:
        """Tell whether nothing has been entered."""
        return not self._problems and not self._faults

    def line(self, path: KeyPath) -> int:
        """Return the line of a key. The first call reads the whole text once more."""
        if not self._lines:
            self._lines = locate_keys(self.text)
        return line_of(self._lines, path)

    def line_text(self, path: KeyPath) -> str:
        """Return the text of the line of a key."""
        return self.text.replace("\r\n", "\n").split("\n")[self.line(path) - 1]

    def place(self, path: KeyPath) -> str:
        """Return ``file:line`` of a key."""
        return f"{shown(str(self.path))}:{self.line(path)}"

    def faults(self) -> list[Fault]:
        """Return the faults in the order of their lines."""
        for problem in self._problems:
            line = self.line(problem.path) if problem.path else 0
            self.add_line(line, problem.path, problem.message, problem.suggestion)
        self._problems.clear()
        return sorted(self._faults, key=lambda fault: fault.line)


def quoted(value: object) -> str:
    """Return a value as TOML would write it, safe for a terminal and no longer than a few words."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) and not -_HUGE < value < _HUGE:
        return "a number too large to show"
    if isinstance(value, str):
        return f'"{shown(value, quote=True)}"'
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return "an array"
    return shown(str(value))


def shown(text: str, *, quote: bool = False) -> str:
    """Return ``text`` with every unprintable character escaped, cut if ``quote`` and long."""
    if quote and len(text) > _QUOTED_LENGTH:
        text = text[:_QUOTED_LENGTH] + "..."
    return "".join(_escaped(character, quote=quote) for character in text)


def _escaped(character: str, *, quote: bool) -> str:
    if quote and character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "backslashreplace").decode("ascii")


def dotted(path: KeyPath) -> str:
    """Return a key path as TOML writes it: ``jobs."my job".schedule[1]``."""
    text = ""
    for key in path:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            text += "." * bool(text) + (key if _BARE_KEY.match(key) else quoted(key))
    return text


def nearest(word: str, words: Iterable[str]) -> str:
    """Return ``did you mean "overlap"?`` for the likeliest of ``words``, or "" if none is near."""
    return _nearest(word[:_LONGEST_WORD], tuple(words))


@lru_cache(maxsize=256)
def _nearest(word: str, words: tuple[str, ...]) -> str:
    folded = {candidate.casefold(): candidate for candidate in words}
    import difflib  # noqa: PLC0415 - a megabyte that a good crontab does without

    close = difflib.get_close_matches(word.strip().casefold(), folded, n=1, cutoff=0.6)
    return f'did you mean "{folded[close[0]]}"?' if close else ""


def choices(words: Iterable[str]) -> str:
    """Return ``"skip", "queue" or "allow"``."""
    *most, last = [f'"{word}"' for word in words]
    return f"{', '.join(most)} or {last}" if most else last
