"""Makes text safe to show: what it says stays readable, and drives no terminal (P9).

Job output, process names and whatever else comes from outside goes through here before it
reaches a log or a person. It cuts and quotes nothing.
"""

from __future__ import annotations

import re

# C0 but tab and newline, DEL, C1; the bidirectional and line controls of Unicode, with which text
# can be made to look like another; halves of surrogate pairs, which cannot be printed at all.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def printable(text: str) -> str:
    r"""Return the text with control characters made visible (``\x1b``), but newline and tab."""
    return _CONTROLS.sub(_escape, text)


def printable_line(text: str) -> str:
    r"""Return the text for use within a line: newline and tab made visible as well."""
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _escape(match: re.Match[str]) -> str:
    return ascii(match[0])[1:-1]
