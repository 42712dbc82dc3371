"""Changes of dictionaries that can be taken back: the transactions of what is in memory."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_ABSENT = object()


class Undo:
    """One transaction: makes changes and knows how to take them back."""

    def __init__(self) -> None:
        self._steps: list[Callable[[], None]] = []

    def put(self, mapping: dict[Any, Any], key: object, value: object) -> None:
        """Set an item."""
        self._steps.append(partial(_restore, mapping, key, mapping.get(key, _ABSENT)))
        mapping[key] = value

    def drop(self, mapping: dict[Any, Any], key: object) -> None:
        """Remove an item that may be there."""
        self._steps.append(partial(_restore, mapping, key, mapping.get(key, _ABSENT)))
        mapping.pop(key, None)

    def take_back(self) -> None:
        """Have all as it was before."""
        for step in reversed(self._steps):
            step()
        self._steps.clear()


def _restore(mapping: dict[Any, Any], key: object, value: object) -> None:
    if value is _ABSENT:
        mapping.pop(key, None)
    else:
        mapping[key] = value


def take_back(transactions: Iterable[Undo]) -> None:
    """Take transactions back, the last of them first."""
    for undo in reversed(list(transactions)):
        undo.take_back()
