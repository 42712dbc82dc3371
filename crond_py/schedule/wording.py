"""How a piece of someone's text is shown in an error: short, in quotes, harmless to a terminal."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 40

_SIGNS: Final = frozenset({"No", "Sc", "So"})
"""What cannot be taken for something else: numbers that are no digits, currencies, symbols."""


def shown(text: str) -> str:
    """Return ``text`` in quotes; what is long is cut.

    What is not ASCII is escaped, as it may look like something that is, unless it is a sign.
    """
    short = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    if short.isascii():
        return ascii(short)
    from unicodedata import category  # noqa: PLC0415 - a daemon does without it

    return "".join(
        each if each.isascii() or category(each) in _SIGNS else ascii(each)[1:-1]
        for each in repr(short)
    )
