r"""Files of environment variables, as ``env_file`` names them.

A file is lines of ``NAME=VALUE``. In particular:

* Blank lines, and lines whose first character that is no blank is ``#`` or ``;``, say nothing.
* ``export`` and blanks before the name are allowed. A name is letters, digits and underscores and
  does not begin with a digit. There is no blank before ``=``.
* A value that begins with no quote goes to the end of its line, without the blanks around it.
  Nothing in it is special: ``#``, quotes, ``$`` and backslashes stand for themselves. Only at its
  very end a backslash is refused: lines are not continued.
* A value in single quotes is taken as it is, and may go over several lines.
* A value in double quotes may, too. A backslash before ``"``, ``\``, ``$`` or a backtick stands
  for that character alone, one before the end of a line for nothing, any other one for itself.
* After the closing quote come blanks at most, or blanks and a comment that begins with ``#``.
* Nothing is ever put in for ``$NAME`` or ``\n``. Of two values for one name the later holds.

So the files that systemd's ``EnvironmentFile=`` and ``docker run --env-file`` are given mean the
same here, or are refused with the line. A message never has a value in it: those are secrets.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Mapping

from crond_py.errors import CannotStartError
from crond_py.printable import printable_line

_BLANKS = " \t"
# None of these ever goes back ("++"): each takes a time in proportion to what it reads.
_IGNORED = re.compile(r"[ \t]*+(?:[#;][^\n]*+)?(?:\n|\Z)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SINGLE = re.compile(r"'([^']*+)'")
_DOUBLE = re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL)
_ESCAPE = re.compile(r'\\(["\\$`])|\\\n')
_AFTER_QUOTE = re.compile(r"(?:[ \t]++(?:#[^\n]*+)?)?(?:\n|\Z)")
_LONGEST_SHOWN = 60


def parse_env_file(data: bytes, path: str, reserved: frozenset[str]) -> Mapping[str, str]:
    """Return the variables of a file; what is not UTF-8 in a value is kept as surrogates.

    Raises CannotStartError with the file and the line for what cannot be read, and for a name
    that is ``reserved``.
    """
    text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")
    text = text.replace("\r\n", "\n")
    found: dict[str, str] = {}
    place = 0
    while place < len(text):
        if ignored := _IGNORED.match(text, place):
            place = ignored.end()
            continue
        try:
            name, begin = _read_name(text, place, reserved)
            found[name], place = _read_value(text, begin, name)
        except CannotStartError as fault:
            line = text.count("\n", 0, place) + 1
            raise CannotStartError(f"env_file {printable_line(path)}:{line}: {fault}") from None
    return found


def _read_name(text: str, place: int, reserved: frozenset[str]) -> tuple[str, int]:
    """Return the name that a line begins with, and where its value begins."""
    line = text[place : _end_of_line(text, place)]
    # By no pattern: one that allows blanks everywhere takes minutes for a line of blanks, and
    # for as long no other thread does anything.
    before, equals, _ = line.partition("=")
    if not equals:
        raise CannotStartError('no "=": a line is NAME=VALUE')
    begin = place + len(before) + 1
    before = before.lstrip(_BLANKS)
    if before.startswith(("export ", "export\t")):
        before = before.removeprefix("export").lstrip(_BLANKS)
    name = before.rstrip(_BLANKS)
    # Of what is no name, nothing is shown: it may be a part of somebody's secret.
    if not _NAME.fullmatch(name):
        raise CannotStartError(
            'what stands before "=" is not a name: letters, digits and underscores'
        )
    shown = name[:_LONGEST_SHOWN]
    if name != before:
        raise CannotStartError(f'a blank between {shown} and "="')
    if name in reserved:
        raise CannotStartError(f"{shown} is set by pycron for every run; use another name")
    value = line[begin - place :]
    return name, begin + len(value) - len(value.lstrip(_BLANKS))


def _end_of_line(text: str, place: int) -> int:
    end = text.find("\n", place)
    return len(text) if end < 0 else end


def _read_value(text: str, place: int, name: str) -> tuple[str, int]:
    """Return the value that begins there, and where the next line begins."""
    quote = text[place : place + 1]
    if quote not in ("'", '"') or not quote:
        end = _end_of_line(text, place)
        value = text[place:end].rstrip(_BLANKS)
        if value.endswith("\\"):
            raise CannotStartError(
                f"the value of {name[:_LONGEST_SHOWN]} ends in a backslash; lines are not"
                " continued, put the value in quotes"
            )
        return _without_nul(value, name), end + 1
    quoted = (_SINGLE if quote == "'" else _DOUBLE).match(text, place)
    if quoted is None:
        raise CannotStartError(f"the value of {name[:_LONGEST_SHOWN]} has no closing {quote}")
    after = _AFTER_QUOTE.match(text, quoted.end())
    if after is None:
        raise CannotStartError(f"something follows the closing {quote} of {name[:_LONGEST_SHOWN]}")
    value = quoted[1]
    if quote == '"':
        value = _ESCAPE.sub(lambda escape: escape[1] or "", value)
    return _without_nul(value, name), after.end()


def _without_nul(value: str, name: str) -> str:
    if "\0" in value:
        raise CannotStartError(f"a NUL character in the value of {name[:_LONGEST_SHOWN]}")
    return value
