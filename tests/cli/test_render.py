"""How tables look, to a pipe and to a person."""

from __future__ import annotations

import io
import sys

import pytest

from crond_py.cli.render import Cell, Column, Table, show
from tests.cli.program import without_colour


class Terminal(io.StringIO):
    """A standard output that says that a person is looking."""

    def isatty(self) -> bool:
        """Say yes."""
        return True


def table() -> Table:
    """Make a table as ``pycron next`` has it."""
    made = Table(
        [
            Column("DUE"),
            Column("IN", drop=1, is_right=True),
            Column("JOB"),
            Column("STATE", drop=2, is_state=True),
            Column("NOTE", is_remark=True),
        ]
    )
    made.add("2026-03-29 03:00:00+02:00", "3h", "failed", "failed", "the clocks skip 02:30 then")
    made.add("2026-03-30 02:30:00+02:00", "1d 3h", "backup", "idle", "")
    return made


def shown(monkeypatch: pytest.MonkeyPatch, made: Table, columns: int, **env: str) -> str:
    """Show a table on a terminal of that width."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", str(columns))
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    show(made)
    return terminal.getvalue()


def test_a_pipe_gets_everything_in_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line a row, all columns, no escapes, no trailing blanks, whatever COLUMNS says."""
    monkeypatch.setenv("COLUMNS", "20")
    show(table())
    assert capsys.readouterr().out.splitlines() == [
        "DUE                           IN  JOB     STATE   NOTE",
        "2026-03-29 03:00:00+02:00     3h  failed  failed  the clocks skip 02:30 then",
        "2026-03-30 02:30:00+02:00  1d 3h  backup  idle",
    ]


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        (
            100,
            [
                "DUE                           IN  JOB     STATE   NOTE",
                "2026-03-29 03:00:00+02:00     3h  failed  failed  the clocks skip 02:30 then",
                "2026-03-30 02:30:00+02:00  1d 3h  backup  idle",
            ],
        ),
        (
            74,
            [
                "DUE                           IN  JOB     STATE   NOTE",
                "2026-03-29 03:00:00+02:00     3h  failed  failed  the clocks skip 02:30",
                "                                                  then",
                "2026-03-30 02:30:00+02:00  1d 3h  backup  idle",
            ],
        ),
        (
            60,
            [
                "DUE                           IN  JOB     STATE",
                "2026-03-29 03:00:00+02:00     3h  failed  failed",
                "    the clocks skip 02:30 then",
                "2026-03-30 02:30:00+02:00  1d 3h  backup  idle",
            ],
        ),
        (
            40,
            [
                "DUE                           IN  JOB",
                "2026-03-29 03:00:00+02:00     3h  failed",
                "    the clocks skip 02:30 then",
                "2026-03-30 02:30:00+02:00  1d 3h  backup",
            ],
        ),
        (
            34,
            [
                "DUE                        JOB",
                "2026-03-29 03:00:00+02:00  failed",
                "    the clocks skip 02:30 then",
                "2026-03-30 02:30:00+02:00  backup",
            ],
        ),
        (
            20,
            [
                "DUE                        JOB",
                "2026-03-29 03:00:00+02:00  failed",
                "    the clocks skip",
                "    02:30 then",
                "2026-03-30 02:30:00+02:00  backup",
            ],
        ),
    ],
)
def test_a_terminal_gets_what_fits(
    monkeypatch: pytest.MonkeyPatch, columns: int, lines: list[str]
) -> None:
    """What names a job or an instant is never cut.

    A remark wraps beside its row or goes below it, and the least important columns are left out.
    """
    text = without_colour(shown(monkeypatch, table(), columns))
    assert [line.rstrip() for line in text.splitlines()] == lines


@pytest.mark.parametrize(
    ("columns", "lines"),
    [
        (23, ["DUE               STATE", "2026-03-29 03:00  idle"]),
        (22, ["DUE          STATE", "03-29 03:00  idle"]),
        (18, ["DUE          STATE", "03-29 03:00  idle"]),
        (17, ["DUE", "03-29 03:00"]),
    ],
)
def test_what_has_a_brief_form_is_brief_before_a_column_is_left_out(
    monkeypatch: pytest.MonkeyPatch, columns: int, lines: list[str]
) -> None:
    """A date without its year tells more than no word on how a job went."""
    made = Table([Column("DUE"), Column("STATE", drop=1, is_state=True)])
    made.add(Cell("2026-03-29 03:00", "03-29 03:00"), "idle")
    text = without_colour(shown(monkeypatch, made, columns))
    assert [line.rstrip() for line in text.splitlines()] == lines


@pytest.mark.parametrize(
    ("columns", "row"),
    [
        (60, "chain  after save (any), verify (any), publish (any)  idle"),
        (55, "chain  after save (any), verify (any), publish…   idle"),
        (27, "chain  after save (…  idle"),
        (26, "chain  after save…   idle"),
        (25, "chain  idle"),
    ],
)
def test_long_text_is_cut_before_its_column_is_left_out(
    monkeypatch: pytest.MonkeyPatch, columns: int, row: str
) -> None:
    """One long schedule hides that of no other job; what names a job is never cut."""
    made = Table([Column("JOB"), Column("WHEN", drop=1, least=12), Column("STATE", is_state=True)])
    made.add("chain", "after save (any), verify (any), publish (any)", "idle")
    made.add("a", "@daily", "idle")
    text = without_colour(shown(monkeypatch, made, columns)).splitlines()
    assert text[1].rstrip() == row
    assert text[2].split() == ["a", *(["@daily"] if columns > 25 else []), "idle"]


def test_a_pipe_gets_nothing_brief(capsys: pytest.CaptureFixture[str]) -> None:
    """What a program reads does not depend on any width."""
    made = Table([Column("DUE")])
    made.add(Cell("2026-03-29 03:00", "03-29 03:00"))
    show(made)
    assert capsys.readouterr().out == "DUE\n2026-03-29 03:00\n"


def test_only_what_says_a_state_has_its_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is called "failed" is not red."""
    line = shown(monkeypatch, table(), 100).splitlines()[1]
    assert line.count("failed\x1b[0m") == 1


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_colour_can_be_refused(monkeypatch: pytest.MonkeyPatch, env: dict[str, str]) -> None:
    """With NO_COLOR, or on a terminal that has none, no text is coloured."""
    text = shown(monkeypatch, table(), 100, **env)
    assert "\x1b[32m" not in text
    assert "31m" not in text


def test_no_cell_drives_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """P9: escapes, newlines and tabs in a cell come out as text, as does what rich calls markup."""
    made = Table([Column("JOB"), Column("REASON", is_remark=True)])
    made.add("a\x1b]0;owned\x07", "line one\nJOB  forged\t[red]not red[/red] :smile:")
    text = without_colour(shown(monkeypatch, made, 120))
    assert text.splitlines()[1:] == [
        "a\\x1b]0;owned\\x07  line one\\nJOB  forged\\t[red]not red[/red] :smile:"
    ]


def test_wide_characters_keep_the_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A character of two cells takes two of a column."""
    made = Table([Column("TEXT"), Column("END")])
    made.add("日本", "x")
    made.add("abcd", "x")
    lines = without_colour(shown(monkeypatch, made, 80)).splitlines()
    assert lines == ["TEXT  END", "日本  x", "abcd  x"]
