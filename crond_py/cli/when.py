"""Where on a command line the time ends that ``pycron at``, ``in`` and ``every`` are given.

A command follows it, with or without ``--`` before. Without, a word that may be part of the time
and is not understood would be taken for the program: that is refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from crond_py.cli.meant import looks_like_time, meant_moment, meant_span
from crond_py.cli.moments import MOMENT_FORMS, is_day, is_moment, join_moment
from crond_py.cli.times import is_duration, join_duration
from crond_py.errors import UsageError

_MOST_WORDS: Final = 8
"""A time has fewer."""


class When(Protocol):
    """How one of the commands reads its time."""

    kind: str
    forms: str

    def join(self, when: str, words: Sequence[str]) -> tuple[str, list[str]]:
        """Return the time as one word, and the command, of which there is a word."""
        ...

    def is_whole(self, when: str) -> bool:
        """Tell whether a text is a time."""
        ...

    def is_begun(self, when: str) -> bool:
        """Tell whether a text is a time, or the beginning of one."""
        ...

    def meant(self, words: Sequence[str], place: int) -> str:
        """Return what to do for the word at a place, which is not understood, or ""."""
        ...


class Moment:
    """A time of the clock."""

    kind = "time of the clock"
    forms = MOMENT_FORMS

    def join(self, when: str, words: Sequence[str]) -> tuple[str, list[str]]:
        """Join a day and a time."""
        return join_moment(when, words)

    def is_whole(self, when: str) -> bool:
        """Tell whether it is one."""
        return is_moment(when)

    def is_begun(self, when: str) -> bool:
        """Tell whether it is a time, or a day."""
        return is_moment(when) or is_day(when)

    def meant(self, words: Sequence[str], place: int) -> str:
        """Return what can be written for a word."""
        return meant_moment(words, place)


class Span:
    """A length of time: from now, or, where it ``is_repeated``, an interval."""

    kind = "length of time"
    forms = '"90s", "10m", "1h30m" or "2d"'

    def __init__(self, *, is_repeated: bool) -> None:
        self._is_repeated = is_repeated

    def join(self, when: str, words: Sequence[str]) -> tuple[str, list[str]]:
        """Join several durations."""
        return join_duration(when, words)

    def is_whole(self, when: str) -> bool:
        """Tell whether it is a duration."""
        return is_duration(when)

    def is_begun(self, when: str) -> bool:
        """Tell the same: each of the words of one is one."""
        return is_duration(when)

    def meant(self, words: Sequence[str], place: int) -> str:
        """Return what can be written for a word."""
        return meant_span(words, place, is_repeated=self._is_repeated)


def split_words(
    path: str, words: Sequence[str], command: Sequence[str] | None, reader: When
) -> tuple[str, list[str]]:
    """Return the time, as one word, and the command of a command line without its options.

    ``words`` are those before the ``--`` and ``command`` those behind it, or None where there is no
    ``--``. Raises UsageError for a word that is not understood where a time is said, with what to
    write for it; but what stands alone is left to who reads it.
    """
    parts = [*words[0].split(), *words[1:]]  # in one argument there may be several
    number = _number_understood(parts, reader)
    if number == 0:
        if meant := reader.meant(parts, 0) if parts else "":
            what = f"{parts[0]!r} is no {reader.kind}"
            raise UsageError(f"{what}: {meant} ({path} takes {reader.forms})")
        return words[0], list(words[1:] if command is None else command)
    when, rest = _joined(parts[:number], reader), parts[number:]
    if rest:
        opened = [*parts[:number], *(rest[0].split() or [""]), *rest[1:]]
        if len(opened) > len(parts) and _number_understood(opened, reader) > number:
            what = f"{opened[number]!r} is part of a time, and not alone in {rest[0]!r}"
            raise UsageError(f"{what}: write them apart; {path} takes {reader.forms}")
        # Before a -- and in one argument with the time is nothing of the command.
        is_ended = command is not None or number < len(words[0].split())
        if fault := _fault(
            path, when, opened[number], reader.meant(opened, number), reader, is_ended=is_ended
        ):
            raise UsageError(fault)
    elif command is None and len(words) > 1:
        raise UsageError(f"what is to be run is not said: {path} {when} -- command ...")
    return when, list(rest if command is None else command)


def _number_understood(parts: Sequence[str], reader: When) -> int:
    """Return how many words, from the first on, are a time or the beginning of one."""
    for number in range(min(len(parts), _MOST_WORDS), 0, -1):
        when = _joined(parts[:number], reader)
        if when and reader.is_begun(when):
            return number
    return 0


def _joined(parts: Sequence[str], reader: When) -> str:
    """Return some words as one time; "" where one is none of it."""
    when, rest = reader.join(parts[0], [*parts[1:], "command"])
    return when if rest == ["command"] else ""


def _fault(path: str, when: str, word: str, meant: str, reader: When, *, is_ended: bool) -> str:
    """Say what is wrong with a word behind the time, or "" where it is of the command."""
    if not (meant or looks_like_time(word)):
        what = "says nothing of when, and what is run stands after the --"
        return f"{word!r} {what}: {path} {when} -- command ..." if is_ended else ""
    forms = f"{path} takes {reader.forms}"
    told = f"{word!r} is not understood as part of a time"
    told += f": {meant} ({forms})" if meant else f"; {forms}"
    if is_ended or not reader.is_whole(when):
        return told
    return f"{told}; if it is the command, put -- before it: {path} {when} -- {word} ..."
