"""How much work the engine does for something, counted and not timed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import crond_py.engine

_ENGINE = str(Path(crond_py.engine.__file__).parent)


def steps(do: Callable[[], object]) -> int:
    """Return how many calls of the engine's functions something takes.

    Each turn of a loop in a generator is one.
    """
    count = 0

    def note(frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(_ENGINE)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        do()
    finally:
        sys.setprofile(before)
    return count
