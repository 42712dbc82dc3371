"""What is wrong with a text that is not TOML, and what was probably meant.

tomllib stops at its first complaint, which names a place but seldom the mistake. Its wording is
used where it is known and shown where it is not; nothing depends on it being the same for ever.
"""

from __future__ import annotations

import re
from typing import Final

from crond_py.crontab.elsewhere import NO_MAIL
from crond_py.crontab.faults import dotted, quoted, shown
from crond_py.crontab.locate import KeyPath, first_duplicate, locate_keys
from crond_py.crontab.moments import moment_fault
from crond_py.dataclass import dataclass

_PLACE: Final = re.compile(r"\(at (?:line (\d+), column (\d+)|end of document)\)$")
_TWICE: Final = re.compile("cannot (declare|overwrite|redefine|mutate)|duplicate", re.IGNORECASE)
_NEVER_CLOSED: Final = re.compile("unterminated string|expected \"'''\"", re.IGNORECASE)
_MANY_DIGITS: Final = re.compile(r"(?<![0-9_])[0-9_]{1000,}")
_BARE_VALUE: Final = re.compile(r"\s*([\w.-]+)\s*=\s*([^\s\"'\[{][^\"'\\#]{0,60}?)\s*(?:#.*)?$")

_CLASSIC: Final = (
    "this looks like a line of a classic crontab; here a job is a table [jobs.NAME] "
    'with schedule = "30 2 * * *" and command = "..."'
)

# What a line looks like, and what to say of it; the first that fits is taken.
_LOOKS: Final = tuple(
    (re.compile(pattern), hint)
    for pattern, hint in (
        (r"\s*MAIL(?:TO|FROM)\s*=", f"this looks like a classic crontab; {NO_MAIL}"),
        (
            r"\s*CRON_TZ\s*=",
            'this looks like a classic crontab; here it is timezone = "Europe/Berlin"',
        ),
        (r"\s*\[\[\s*jobs\s*\]\]", "write [jobs.NAME], with one pair of brackets, for each job"),
        (
            r"\s*(?:@\w+|[0-9*][\w*/,-]*(?:\s+[\w*/,-]+){4})\s+[^\s=]",
            _CLASSIC,
        ),
        ("[\u201c\u201d\u2018\u2019]", "use straight quotes"),
        (r"\s*(?:;|//|--)", "a comment begins with #"),
        (r"\s*[\w.-]+\s*:", 'write key = value, with "=" and not ":"'),
        (
            r"\s*\[+[^\]\"']*[^\]\"'\w\s.-]",
            'a name that is not only letters, digits, "_" and "-" needs quotes',
        ),
        (r"\s*\[+\s*[\w.-]+\s+[\w.-]+[^\]]*\]", "a name may not have blanks in it"),
        (r"\s*\[[^\]]*$", 'the header of a table ends with "]"'),
        (r"[^=]*=\s*(?:#.*)?$", 'a value is missing after "="'),
        (r"[^=]*=\s*(?i:true|false|yes|no|on|off)\s*(?:#.*)?$", "write true or false"),
        (r"[^=]*=\s*[+-]?0[0-9]", 'a number may not begin with 0; write "022" or 0o022'),
        (r"[^=]*=\s*\"[^\"]*\"\s*[^\s\"#,]", "put text that has quotes in it in '...'"),
        (r"[^=]*=\s*(?:\"[^\"]*|'[^']*)$", "the quote that opens the text is not closed"),
        (r"\s*[\w-]+\s*$", "write key = value"),
        (r"[^=]*=\s*{[^}]*$", "an inline table { ... } stands on one line"),
    )
)


@dataclass(frozen=True, slots=True)
class Mistake:
    """Where a text stops being TOML, and why. ``line`` 0: nobody knows."""

    line: int
    key: KeyPath
    message: str
    suggestion: str


def explain(error: ValueError, text: str) -> Mistake:
    """Return what tomllib's ``error`` about ``text`` means for a person."""
    message = str(error)
    found = _PLACE.search(message)
    if found is None:
        return _without_place(text)
    message = message[: found.start()].rstrip()
    if _TWICE.match(message) and (mistake := _twice(text)):
        return mistake
    if found[1] is None:
        return _at_the_end(message, text)
    line = int(found[1])
    complaint = f"not TOML at column {found[2]}: {_worded(message)}"
    return Mistake(line, (), complaint, _hint(message, _line(text, line)))


def _without_place(text: str) -> Mistake:
    """Explain an error that int() raises: it does not read thousands of digits."""
    digits = _MANY_DIGITS.search(text)
    line = text.count("\n", 0, digits.start()) + 1 if digits else 0
    return Mistake(line, (), "a number has too many digits", "")


def _twice(text: str) -> Mistake | None:
    """Explain a key or a table that is there twice."""
    duplicate = first_duplicate(text)
    if duplicate is None:
        return None
    path, first, second = duplicate
    match path:
        case ("jobs" | "pools" as kind, str(name)):
            message = f"the {kind[:-1]} {quoted(name)} is there twice, first at line {first}"
            return Mistake(second, path, message, "give one of them another name")
        case _:
            message = f"{dotted(path[-1:])} is there twice, first at line {first}"
            return Mistake(second, path, message, "keep one of them")


def _at_the_end(message: str, text: str) -> Mistake:
    """Explain a text that ends too early: what was opened last was not closed."""
    lines = locate_keys(text)
    path: KeyPath = next(reversed(lines), ())
    line = lines.get(path, 1)
    if _NEVER_CLOSED.match(message):
        return Mistake(line, path, "the text that begins here is never closed", "add the quotes")
    complaint = f"not TOML: {_worded(message)}, but the file ends"
    key = path
    while key and isinstance(key[-1], int):
        key = key[:-1]
    if key != path:
        return Mistake(lines[key], key, complaint, 'an array ends with "]"')
    return Mistake(line, path, complaint, _hint(message, _line(text, line)))


def _hint(message: str, line: str) -> str:
    """Return what was probably meant, or ""."""
    if "\\" in line and "Unescaped" in message:
        return "put text that has backslashes in it in '...'"
    if "Unclosed array" in message:
        return 'a comma stands between elements, and "]" at the end'
    bare = _BARE_VALUE.match(line)
    if bare and (fault := moment_fault(bare[2], bare[1])):
        return fault
    for look, hint in _LOOKS:
        if look.match(line) or (hint == "use straight quotes" and look.search(line)):
            return hint
    if bare:
        return f'text needs quotes: {bare[1]} = "{shown(bare[2])}"'
    return ""


def _worded(message: str) -> str:
    """Return tomllib's words as the middle of a sentence, and short."""
    return shown(message[:1].lower() + message[1:])[:200]


def _line(text: str, number: int) -> str:
    """Return a line, counted from 1 as tomllib counts."""
    return text.replace("\r\n", "\n").split("\n")[number - 1][:2000]
