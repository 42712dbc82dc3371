"""How a piece of someone's text is shown in an error: short, in quotes, harmless to a terminal."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 40


def shown(text: str) -> str:
    """Return ``text`` in quotes; what is long is cut and what is not plain ASCII is escaped."""
    return ascii(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")
