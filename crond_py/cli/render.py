"""How tables look: aligned text for a pipe, colour and the width of the window for a person.

A pipe gets every column, every character, and one line for each row, whatever the width. A
terminal gets what fits: what has a brief form is brief, text that may be cut is cut, less important
columns are left out, a remark that has no room beside its row goes below it, and nothing that names
a job or an instant is ever cut. No cell is trusted: control characters come out visible.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import field
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Final

from crond_py.cli import say
from crond_py.dataclass import dataclass
from crond_py.printable import printable_line

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_GAP: Final = "  "
_INDENT: Final = 4
_NAME_WIDTH: Final = 10

STYLES: Final = {
    "succeeded": "green",
    "failed": "bold red",
    "timed_out": "bold red",
    "lost": "bold red",
    "cancelled": "yellow",
    "skipped": "yellow",
    "missed": "yellow",
    "running": "cyan",
    "queued": "cyan",
    "waiting_retry": "cyan",
    "disabled": "dim",
    "idle": "dim",
    "unknown": "dim",
}
"""The colour of each word that says how something stands."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. The highest ``drop`` is left out first where there is no room; 0 never is.

    Before that its text is cut to ``least`` columns of the terminal, where that is not 0.
    ``is_remark``: the column may be wrapped, or stand below its row; it is the last one.
    ``is_state``: its words have the colours of STYLES.
    """

    title: str
    drop: int = 0
    least: int = 0
    is_right: bool = False
    is_remark: bool = False
    is_state: bool = False


@dataclass(frozen=True, slots=True)
class Cell:
    """Text, and the form that it has where there is little room."""

    text: str
    brief: str


@dataclass(slots=True)
class Table:
    """Columns and rows of text, as many cells in each as there are columns.

    ``brief_rows`` are the same rows for little room. ``tells_lack``: below them stands which
    columns had none.
    """

    columns: Sequence[Column]
    tells_lack: bool = False
    rows: list[Sequence[str]] = field(default_factory=list)
    brief_rows: list[Sequence[str]] = field(default_factory=list)

    def add(self, *cells: str | Cell) -> None:
        """Append a row."""
        pairs = [cell if isinstance(cell, Cell) else Cell(cell, cell) for cell in cells]
        self.rows.append([printable_line(cell.text) for cell in pairs])
        self.brief_rows.append([printable_line(cell.brief) for cell in pairs])


def is_terminal() -> bool:
    """Tell whether a person is looking at standard output."""
    return (
        sys.stdout is not None and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    )


def show(table: Table) -> None:
    """Write the table to standard output."""
    if is_terminal():
        _show_on_terminal(table)
    else:
        _show_plainly(table)


def show_facts(facts: Iterable[tuple[str, str]]) -> None:
    """Write names and what each is the name of; a terminal gets long text wrapped beside it."""
    lines = [(name, printable_line(text)) for name, text in facts]
    width = max([_NAME_WIDTH, *(len(name) for name, _ in lines)])
    for name, text in lines:
        line = f"{_GAP}{name:<{width}} {text}"
        say.out(_wrapped(line, len(_GAP) + width + 1) if is_terminal() else line)


def _wrapped(line: str, indent: int) -> str:
    """Return a line as several that fit the window, all but the first of them indented."""
    room = max(shutil.get_terminal_size().columns, 2 * indent)
    wrapper = TextWrapper(
        room, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    return "\n".join(wrapper.wrap(line))


def _show_plainly(table: Table) -> None:
    titles = [column.title for column in table.columns]
    lines = [titles, *table.rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(titles))]
    for line in lines:
        cells = [
            cell.rjust(width) if column.is_right else cell.ljust(width)
            for cell, width, column in zip(line, widths, table.columns, strict=True)
        ]
        say.out(_GAP.join(cells).rstrip())


# --- a terminal ---------------------------------------------------------------------------------


def _show_on_terminal(table: Table) -> None:
    from rich.console import Console  # noqa: PLC0415 - takes as long as all the rest
    from rich.text import Text  # noqa: PLC0415 - likewise

    console = Console(highlight=False, markup=False, emoji=False, soft_wrap=True)
    titles = [column.title for column in table.columns]
    layout = _Layout(table.columns, [titles, *table.rows], console)
    if not layout.is_whole:
        layout = _Layout(table.columns, [titles, *table.brief_rows], console)
    for index, row in enumerate(layout.rows):
        for line in layout.lines(row, is_title=index == 0):
            console.print(line)
    if table.tells_lack and layout.left_out:
        text = f"no room for {', '.join(layout.left_out)}; a wider window shows all"
        console.print(Text(text, style="dim"), soft_wrap=False)


class _Layout:
    """Which columns of a table are shown in a width, and where the remark goes.

    The first of the rows has the titles. ``is_whole``: nothing had to be left out or cut.
    """

    def __init__(
        self, columns: Sequence[Column], rows: Sequence[Sequence[str]], console: Console
    ) -> None:
        from rich.cells import cell_len  # noqa: PLC0415 - see above

        self._columns = columns
        self.rows = rows
        self._width = width = console.width
        self._ellipsis = "…" if console.encoding.startswith("utf") else "..."
        self._length = cell_len
        self._widths = [max(cell_len(row[index]) for row in rows) for index in range(len(columns))]
        self._remark = next((i for i, column in enumerate(columns) if column.is_remark), None)
        self._shown = [i for i in range(len(columns)) if i != self._remark]
        self.is_whole = self._taken() <= width
        natural = self._widths
        while not self._cut_to_fit(natural) and (least := self._least_important()) is not None:
            self._shown.remove(least)
        self._take_back(natural)
        self._is_beside = (
            self._remark is not None and width - self._taken() - len(_GAP) >= self._enough()
        )

    @property
    def left_out(self) -> list[str]:
        """The titles of the columns that are not shown."""
        shown = {*self._shown, self._remark}
        return [each.title for i, each in enumerate(self._columns) if i not in shown]

    def _taken(self) -> int:
        return sum(self._widths[i] for i in self._shown) + len(_GAP) * (len(self._shown) - 1)

    def _cut_to_fit(self, natural: list[int]) -> bool:
        """Make columns narrower that may be cut, as far as need be; tell whether all fits then."""
        self._widths = list(natural)
        for index in self._shown:
            over = self._taken() - self._width
            if (least := self._columns[index].least) and over > 0:
                self._widths[index] = max(min(natural[index], least), natural[index] - over)
        return self._taken() <= self._width

    def _take_back(self, natural: list[int]) -> None:
        """Show again what was left out before something wider, and has room now."""
        hidden = {*range(len(self._columns))} - {*self._shown, self._remark}
        for index in sorted(hidden, key=lambda i: self._columns[i].drop):
            shown, self._shown = self._shown, sorted([*self._shown, index])
            if not self._cut_to_fit(natural):
                self._shown = shown
        self._cut_to_fit(natural)

    def _least_important(self) -> int | None:
        droppable = [i for i in self._shown if self._columns[i].drop]
        return max(droppable, key=lambda i: self._columns[i].drop, default=None)

    def _enough(self) -> int:
        """Return the least width in which a remark stands beside its row and is not a ribbon."""
        return min(self._widths[self._remark or 0], 24)

    def lines(self, row: Sequence[str], *, is_title: bool) -> list[Text]:
        """Return a row as lines of the terminal."""
        from rich.text import Text  # noqa: PLC0415 - see above

        line = Text()
        for place, index in enumerate(self._shown):
            column = self._columns[index]
            cell = self._cut(row[index], self._widths[index])
            fill = " " * (self._widths[index] - self._length(cell))
            style = "bold" if is_title else ""
            if column.is_state and not is_title:
                style = STYLES.get(cell.partition(" ")[0], "")
            line.append(_GAP if place else "")
            line.append(fill if column.is_right else "")
            line.append(cell, style=style)
            line.append("" if column.is_right else fill)
        remark = row[self._remark] if self._remark is not None else ""
        if not remark or (is_title and not self._is_beside):
            line.rstrip()
            return [line]
        return self._with_remark(line, Text(remark, style="bold" if is_title else ""))

    def _cut(self, text: str, width: int) -> str:
        from rich.cells import set_cell_size  # noqa: PLC0415 - see above

        if self._length(text) <= width:
            return text
        return set_cell_size(text, width - len(self._ellipsis)).rstrip() + self._ellipsis

    def _with_remark(self, line: Text, remark: Text) -> list[Text]:
        """Return the row with its remark beside it, wrapped, or below it, indented."""
        from rich.console import Console  # noqa: PLC0415 - see above
        from rich.text import Text  # noqa: PLC0415 - see above

        indent = self._taken() + len(_GAP) if self._is_beside else _INDENT
        wrapped = remark.wrap(Console(width=self._width), max(self._width - indent, 10))
        for part in wrapped:
            part.rstrip()
        below = [Text.assemble(" " * indent, part) for part in wrapped]
        if not self._is_beside:
            line.rstrip()
            return [line, *below]
        return [Text.assemble(line, _GAP, wrapped[0]), *below[1:]]
