"""The kinds of value that say who runs a process, what it reads, and what else bounds it.

Whether a user or a file is there is seen when a run starts: a user database may be slow, and what
is not there now may be there then. Only what can never be one is refused.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from crond_py.crontab.faults import Problem, Refused, nearest, quoted, shown
from crond_py.crontab.process_values import AbsolutePath
from crond_py.crontab.values import Kind, Schema, is_short, not_the
from crond_py.dataclass import dataclass

_LARGEST_UID: Final = 2**32 - 2  # 2**32 - 1 is (uid_t) -1, see setuid(2)
_LONGEST_LOGIN: Final = 255  # LOGIN_NAME_MAX, see limits.h(0p), without the closing NUL
_LONGEST_STDIN: Final = 1024 * 1024
_MOST_FILES: Final = 100
_PATH: Final = AbsolutePath()
_UNLIMITED: Final = ("no", "off", "never", "unlimited", "infinity", "unset", "")


@dataclass(frozen=True, slots=True)
class Login(Kind):
    """The name of a user, or a numeric id as text."""

    def read(self, value: object) -> str:
        """Return the text. Names that only some systems allow are let pass."""
        if not isinstance(value, str):
            raise not_the("the name of a user", value, f'write "{value}"' * is_short(value))
        if fault := _login_fault(value):
            raise Refused(f"{quoted(value)} can be no user: {fault}", _login_hint(value))
        return value

    def schema(self) -> Schema:
        """Return the schema of text that may be a name."""
        return {
            "type": "string",
            "pattern": r"^[^\s:/\u0000-\u001f-][^:/\u0000-\u001f]*$",
            "maxLength": _LONGEST_LOGIN,
        }


def _login_fault(text: str) -> str:
    """Say why no user can have this name, see passwd(5); "" where one can."""
    if not 1 <= len(text.encode()) <= _LONGEST_LOGIN:
        return f"a name has 1 to {_LONGEST_LOGIN} bytes"
    if not text.isprintable() or text != text.strip():
        return "it has a control character, or a blank at its beginning or end"
    if ":" in text or "/" in text or text in (".", ".."):
        return 'a name has no ":" and no "/", and is not "." or ".."'
    if text.startswith("-"):
        return "an id is not negative" if text[1:].isdigit() else 'a name does not begin with "-"'
    if text.isascii() and text.isdigit() and int(text) > _LARGEST_UID:
        return f"ids go up to {_LARGEST_UID}"
    return ""


def _login_hint(text: str) -> str:
    """Suggest the name alone where there is a group behind it, or blanks around it."""
    name = text.strip().partition(":")[0]
    return f'write "{shown(name, quote=True)}"' if name and not _login_fault(name) else ""


@dataclass(frozen=True, slots=True)
class Files(Kind):
    """The absolute path of a file, or an array of them in the order in which they are read."""

    def read(self, value: object) -> tuple[str, ...]:
        """Return the paths."""
        if isinstance(value, str):
            return (_PATH.read(value),)
        if not isinstance(value, list):
            raise not_the("an absolute path, or an array of them", value)
        if len(value) > _MOST_FILES:
            raise Refused(f"names {len(value)} files, more than {_MOST_FILES}")
        paths, problems = [], []
        for index, element in enumerate(value):
            try:
                paths.append(_PATH.read(element))
            except Refused as refused:
                problems += [problem.below((index,)) for problem in refused.problems]
        if problems:
            raise Refused(problems=problems)
        return tuple(paths)

    def schema(self) -> Schema:
        """Return the schema of either form."""
        path = _PATH.schema()
        return {"anyOf": [path, {"type": "array", "items": path, "maxItems": _MOST_FILES}]}

    def write(self, value: Any) -> object:
        """Return an array."""
        return list(value)


@dataclass(frozen=True, slots=True)
class Stdin(Kind):
    """Text that a command reads, or ``{ file = "/path" }``."""

    def read(self, value: object) -> str | Path:
        """Return the text as a string, a file as a Path."""
        if isinstance(value, str):
            size = len(value.encode())
            if size > _LONGEST_STDIN:
                way_out = 'put it in a file and write { file = "/path/to/it" }'
                raise Refused(f"has {size} bytes; text has {_LONGEST_STDIN} at most", way_out)
            return value
        if not isinstance(value, dict):
            raise not_the('text, or a file as { file = "/path" }', value)
        problems = [
            Problem((name,), "is not a key that is known here", nearest(name, ("file",)))
            for name in value
            if name != "file"
        ]
        if not problems and "file" not in value:
            problems = [Problem((), "names no file", 'write { file = "/path" }')]
        try:
            path = _PATH.read(value.get("file", "/"))
        except Refused as refused:
            problems += [problem.below(("file",)) for problem in refused.problems]
        if problems:
            raise Refused(problems=problems)
        return Path(path)

    def schema(self) -> Schema:
        """Return the schema of either form."""
        table = {
            "type": "object",
            "properties": {"file": _PATH.schema()},
            "required": ["file"],
            "additionalProperties": False,
        }
        return {"anyOf": [{"type": "string", "maxLength": _LONGEST_STDIN}, table]}


@dataclass(frozen=True, slots=True)
class OrNone(Kind):
    """A value of another kind, or "none" for no bound."""

    kind: Kind

    def read(self, value: object) -> Any:
        """Return None for "none", and everything else as the other kind does."""
        if value == "none":
            return None
        if isinstance(value, str) and value.strip().casefold() in (*_UNLIMITED, "none"):
            raise Refused(f"{quoted(value)} is not a bound", 'for no bound write "none"')
        return self.kind.read(value)

    def schema(self) -> Schema:
        """Return the schema of the word or the other kind."""
        inner = self.kind.schema()
        return {"anyOf": [{"const": "none"}, *inner.get("anyOf", [inner])]}

    def write(self, value: Any) -> object:
        """Return the word for None."""
        return "none" if value is None else self.kind.write(value)
