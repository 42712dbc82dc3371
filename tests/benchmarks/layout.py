"""How values look in the report, and how columns of them are laid out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

NONE = "-"

Value = float | None


def number(value: Value) -> str:
    """Write a number with about three digits."""
    if value is None:
        return NONE
    size = abs(value)
    digits = 2 if size < 9.995 else 1 if size < 99.95 else 0
    return f"{value:,.{digits}f}"


def whole(value: Value) -> str:
    """Write a number without a fraction."""
    return NONE if value is None else f"{value:,.0f}"


def ms(value: Value) -> str:
    """Write seconds as milliseconds."""
    return NONE if value is None else number(value * 1000)


def mb(value: Value) -> str:
    """Write KB as MB."""
    return NONE if value is None else number(value / 1024)


def percent(value: Value) -> str:
    """Write a share."""
    return NONE if value is None else f"{value:.0%}"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its two lines of heading, its width, its values by row and how they look."""

    over: str
    head: str
    width: int
    value: Callable[[str], Value]
    show: Callable[[Value], str]


def grid(names: Sequence[str], columns: Sequence[Column], name_width: int) -> list[str]:
    """Lay out rows below their headings."""
    lines = [" " * name_width, " " * name_width]
    for column in columns:
        lines[0] += column.over.rjust(column.width)
        lines[1] += column.head.rjust(column.width)
    for name in names:
        cells = "".join(column.show(column.value(name)).rjust(column.width) for column in columns)
        lines.append(name.ljust(name_width) + cells)
    return [line.rstrip() for line in lines]
