"""Reads a long crontab table by table: what most jobs look like without tomllib, which is slow.

A job of a few keys whose values are text, whole numbers, true or false, each on its line, is read
here, by two regular expressions; they know less than TOML allows, and nothing else. Any other job
is left to tomllib by itself, and all that is no job to tomllib in one piece. Since a header stands
between any two of them, together they mean what the whole text means: as long as each can be read,
holds its own job alone, and no job is there twice. Where that is not so the whole text is tomllib's
affair, and what it says of it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from typing import Any, Final

_KEY: Final = r"[A-Za-z0-9_-]++"
_TEXT: Final = r'"[^"\\\x00-\x08\x0a-\x1f\x7f]*+"'
_WHOLE: Final = r"-?(?:0|[1-9][0-9]{0,17}+)"
_TEXTS: Final = rf"\[ *(?:{_TEXT} *, *)*+(?:{_TEXT} *)?\]"
_END: Final = r"[ \t]*+(?:\#[^\x00-\x08\x0a-\x1f\x7f]*+)?\n"

_PAIR: Final = re.compile(
    rf"({_KEY}) *= *(?:({_TEXT})|({_TEXTS})|({_WHOLE})|(true|false)){_END}(?:{_END})*+"
)
_SIMPLE_JOB: Final = re.compile(
    rf"\[jobs\.({_KEY})\]{_END}(?:{_END})*+"
    rf"((?:{_KEY} *= *(?:{_TEXT}|{_TEXTS}|{_WHOLE}|true|false){_END}(?:{_END})*+)*+)"
)
_HEADER: Final = re.compile(rf"^\[(?:jobs\.{_KEY}\]|(?!jobs\b){_KEY}[\].])", re.MULTILINE)
_OTHER_HEADER: Final = re.compile(r"^[ \t]*+\[(?!jobs\.)", re.MULTILINE)

Tables = dict[str, Any]


def read_blocks(text: str, is_readable: Callable[[str], bool]) -> Tables | None:
    """Return what ``tomllib.loads`` does, or None where the text as a whole is to be left to that.

    ``is_readable`` tells of a piece whether tomllib may be asked for it. Raises nothing.
    """
    text = text.replace("\r\n", "\n")  # as tomllib does
    jobs: Tables = {}
    rest: list[str] = []
    place, end = 0, len(text)
    while place < end:
        simple = _SIMPLE_JOB.match(text, place)
        if simple and (simple.end() == end or _HEADER.match(text, simple.end())):
            name, job = simple[1], _values(simple[2])
            place = simple.end()
        else:
            until = _HEADER.search(text, place + 1)
            piece = text[place : until.start() if until else end]
            place += len(piece)
            if not piece.startswith("[jobs."):
                rest.append(piece)
                continue
            name, job = _lone_job(piece) if is_readable(piece) else ("", None)
        if job is None or name in jobs:
            return None
        jobs[name] = job
    tables = _of_rest(rest, is_readable)
    if tables is None or "jobs" in tables:
        return None
    return {**tables, "jobs": jobs} if jobs else tables


def _values(lines: str) -> Tables | None:
    """Return what simple lines say; None where a key is there twice."""
    found = _PAIR.findall(lines)
    values = {key: _value(*each) for key, *each in found}
    return values if len(values) == len(found) else None


def _value(text: str, texts: str, whole: str, word: str) -> str | int | list[str]:
    """Return the one value that is there."""
    if text:
        return text[1:-1]
    if texts:
        return texts.split('"')[1::2]
    return int(whole) if whole else word == "true"


def _lone_job(piece: str) -> tuple[str, Tables | None]:
    """Return the job that a piece is about, or None if it is not about one alone."""
    if _OTHER_HEADER.search(piece):  # such as [jobs] alone, which may stand in one of them only
        return "", None
    match _loaded(piece):
        case {"jobs": {**jobs}, **others} if len(jobs) == 1 and not others:
            ((name, job),) = jobs.items()
            return str(name), job if isinstance(job, dict) else None
        case _:
            return "", None


def _of_rest(pieces: list[str], is_readable: Callable[[str], bool]) -> Tables | None:
    """Return what all the pieces say that are of no job."""
    whole = "".join(pieces)
    if not is_readable(whole):
        return None
    # Each by itself: what begins in one and ends in another has a part of it that is of no job.
    if len(pieces) > 1 and any(_loaded(piece) is None for piece in pieces):
        return None
    return _loaded(whole)


def _loaded(piece: str) -> Tables | None:
    try:
        return tomllib.loads(piece)
    except (ValueError, RecursionError):
        return None  # it is said of the whole text what is wrong
