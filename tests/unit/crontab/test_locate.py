"""Every key of a TOML text is found on the line that it was put on."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, field
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from crond_py.crontab.locate import KeyPath, first_duplicate, job_lines, line_of, locate_keys

BARE = re.compile(r"[A-Za-z0-9_-]+\Z")

# What could be taken for something else by a reader that does not know where strings end.
TRAPS = ['"', "'", "#", "[jobs.trap]", "trap = 1", "=", "{", "}", "]", ",", ".", "é", " ", "x"]

trap_text = st.lists(st.sampled_from(TRAPS), max_size=5).map("".join)
trap_lines = st.lists(trap_text, max_size=4).map("\n".join)
keys = st.one_of(
    st.sampled_from(
        ["a", "b", "jobs", "c-d", "1", "é", "a.b", "", 'q"', "s'", "#", "t\tt", "n\nn"]
    ),
    trap_text,
)
scalars = st.one_of(
    st.integers(-(10**6), 10**6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.datetimes(),
    st.dates(),
    trap_lines,
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(keys, inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)
documents = st.dictionaries(keys, values, max_size=5)


def spelled(key: str) -> str:
    """Return a key as tomli_w spells it."""
    return tomli_w.dumps({key: 0}).removesuffix(" = 0\n")


@dataclass
class Writer:
    """Writes TOML in every style that ``draw`` chooses, and notes where each key went."""

    data: st.DataObject
    text: str = ""
    lines: dict[KeyPath, int] = field(default_factory=dict)

    def choose(self, *options: str) -> str:
        """Choose one of some ways of writing."""
        return self.data.draw(st.sampled_from(options))

    def note(self, path: KeyPath) -> None:
        """Say that ``path`` is where the text ends now, unless it was somewhere before."""
        self.lines.setdefault(path, self.text.count("\n") + 1)

    def end_line(self) -> None:
        """End a line, perhaps with a comment full of traps, perhaps with lines that say nothing."""
        if self.choose("plain", "comment") == "comment":
            self.text += "  # " + self.data.draw(trap_text)
        self.text += "\n" + self.choose("", "", "\n", "# [jobs.trap]\n", ' \t# x = """\n')

    def key(self, key: str) -> str:
        """Spell a key, sometimes with quotes that it does not need."""
        if BARE.match(key):
            return {"bare": key, "basic": f'"{key}"', "literal": f"'{key}'"}[
                self.choose("bare", "basic", "literal")
            ]
        return spelled(key)

    def table(self, path: KeyPath, table: dict[str, Any]) -> None:
        """Write the pairs of a table, and then its tables that have a header of their own."""
        later = {}
        for key, value in table.items():
            style = self.choose("inline", "dotted", "header")
            if isinstance(value, dict) and style == "header":
                later[key] = value
            elif isinstance(value, dict) and style == "dotted":
                self.dotted((*path, key), self.key(key), value)
            else:
                self.note((*path, key))
                self.text += f"{self.key(key)} = "
                self.value((*path, key), value)
                self.end_line()
        for key, value in later.items():
            own = (*path, key)
            self.lines[own] = self.text.count("\n") + 1
            for length in range(1, len(own)):
                self.note(own[:length])
            self.text += f"[{self.choose('', ' ')}{' . '.join(spelled(str(k)) for k in own)}]"
            self.end_line()
            self.table(own, value)

    def dotted(self, path: KeyPath, prefix: str, table: dict[str, Any]) -> None:
        """Write a table as keys with dots."""
        for key, value in table.items():
            self.note(path)
            self.note((*path, key))
            self.text += f"{prefix}{self.choose('.', ' . ')}{self.key(key)} = "
            self.value((*path, key), value)
            self.end_line()

    def value(self, path: KeyPath, value: Any) -> None:
        """Write a value, noting what is inside of it."""
        if isinstance(value, list):
            self.array(path, value)
        elif isinstance(value, dict):
            self.text += "{ "
            for number, (key, inner) in enumerate(value.items()):
                self.text += ", " if number else ""
                self.note((*path, key))
                self.text += f"{self.key(key)} = "
                self.value((*path, key), inner)
            self.text += " }"
        elif isinstance(value, str):
            self.string(value)
        else:
            self.text += tomli_w.dumps({"k": value}).removeprefix("k = ").removesuffix("\n")

    def array(self, path: KeyPath, array: list[Any]) -> None:
        """Write an array on one line or on several."""
        is_long = self.choose("short", "long") == "long"
        self.text += "["
        for number, inner in enumerate(array):
            if is_long:
                self.end_line()
            self.note((*path, number))
            self.value((*path, number), inner)
            self.text += ","
        self.text += "]"

    def string(self, value: str) -> None:
        """Write text in one of the four ways that can say it."""
        style = self.choose("basic", "literal", "lines", "literal-lines")
        if style == "literal" and "'" not in value and "\n" not in value:
            self.text += f"'{value}'"
        elif style == "literal-lines" and "'''" not in value and not value.endswith("'"):
            self.text += f"'''\n{value}'''"
        elif style == "lines" and '"""' not in value and not value.endswith('"'):
            self.text += f'"""\n{value}"""'
        else:
            self.text += tomli_w.dumps({"k": value}).removeprefix("k = ").removesuffix("\n")


@given(documents, st.data())
def test_every_key_is_found_where_it_was_put(document: dict[str, Any], data: st.DataObject) -> None:
    """P7: the line of a fault is right in any style of TOML, whatever strings and comments say."""
    writer = Writer(data)
    writer.table((), document)
    assert tomllib.loads(writer.text) == document  # else the test has written something else
    assert locate_keys(writer.text) == writer.lines


@given(documents, st.data())
def test_line_ends_of_windows_change_no_line(document: dict[str, Any], data: st.DataObject) -> None:
    """A file with CR LF has its keys on the same lines."""
    writer = Writer(data)
    writer.table((), document)
    assert locate_keys(writer.text.replace("\n", "\r\n")) == locate_keys(writer.text)


@given(st.text(alphabet=st.sampled_from("ab.=[]{}\"'#\\,\n\r\t 1\x00é"), max_size=60))
def test_no_text_is_too_broken(text: str) -> None:
    """Text that is not TOML ends the search, it does not raise and does not go on for ever."""
    locate_keys(text)
    first_duplicate(text)
    job_lines(text)


CASES = [
    ("header", "\n[jobs.a]\nx = 1\n", ("jobs", "a", "x"), 3),
    ("header-of-table", "[jobs.a.env]\nA = '1'\n[jobs.a]\n", ("jobs", "a"), 3),
    ("blanks-in-header", "[ jobs . 'a' ]\nx=1\n", ("jobs", "a", "x"), 2),
    ("array-of-tables", "[[a]]\nx=1\n[[a]]\nx=2\n[a.b]\ny=1", ("a", 1, "b", "y"), 6),
    ("first-of-tables", "[[a]]\nx=1\n[[a]]\nx=2\n", ("a", 0, "x"), 2),
    ("dotted", "a.b . c = 1\na.b.d = 2\n", ("a", "b", "d"), 2),
    ("inline", "a = { b = 1, c = { d = 2 } }\n", ("a", "c", "d"), 1),
    ("array", "a = [ # 1\n  1, # 2\n\n  2 ]\n", ("a", 1), 4),
    ("array-in-array", "a = [[1],\n[2, 3\n,4]]\n", ("a", 1, 2), 3),
    ("inline-in-array", "a = [\n{ b = 1 },\n{ b = 2 } ]\n", ("a", 1, "b"), 3),
    ("escaped-quote", 'a = "\\""\nb = 1\n', ("b",), 2),
    ("backslash", "a = '\\'\nb = 1\n", ("b",), 2),
    ("lines", 'a = """\nb = 0\n\\""" " ""x\n""""\nb = 1\n', ("b",), 5),
    ("five-quotes", "a = '''x'''''\nb = 1\n", ("b",), 2),
    ("empty-lines", 'a = """"""\nb = """\n"""\nc = 1\n', ("c",), 4),
    ("line-end-escaped", 'a = """\\\n   x"""\nb = 1\n', ("b",), 3),
    ("escaped-key", '"a\\u0041\\t" = 1\n', ("aA\t",), 1),
    ("date", "a = 1979-05-27 07:32:00.5\nb = 1\n", ("b",), 2),
    ("float", "a = +1.5e-3\nb = 1", ("b",), 2),
]


@pytest.mark.parametrize(("name", "text", "path", "line"), CASES, ids=[case[0] for case in CASES])
def test_lines(name: str, text: str, path: KeyPath, line: int) -> None:
    """A key is found in each of TOML's forms, one by one."""
    tomllib.loads(text)
    assert locate_keys(text)[path] == line


def test_the_line_of_what_is_not_there_is_that_of_the_table_around_it() -> None:
    """A missing key is told at its job, and what is in nothing at line 1."""
    lines = locate_keys("\n[jobs.a]\nx = 1\n")
    assert line_of(lines, ("jobs", "a", "command")) == 2
    assert line_of(lines, ("pools",)) == 1


def test_jobs_are_found_by_their_headers_alone() -> None:
    """Headers in strings and comments are no jobs; those that are get their line."""
    text = (
        "x = '''\n[jobs.string]\n'''\n"
        '# """\n'
        "[jobs.a]\n"
        'y = "\\"[jobs.b]"\n'
        "# [jobs.c]\n"
        '  [ jobs . "d.e" ] # """\n'
        "[jobs.a.env]\n"
    )
    assert job_lines(text) == {"a": 5, "d.e": 8}


@given(st.lists(st.sampled_from(["a", "b-1", "c_d", "e.f"]), unique=True), st.data())
def test_lines_of_jobs_agree_with_the_full_search(names: list[str], data: st.DataObject) -> None:
    """The short way and the long way to a job's line give the same."""
    writer = Writer(data)
    writer.table((), {"jobs": {name: {"x": data.draw(values)} for name in names}})
    found = job_lines(writer.text)
    assert (
        found.items()
        <= {
            name: writer.lines["jobs", name] for name in names if ("jobs", name) in writer.lines
        }.items()
    )


DUPLICATES = [
    ("header", "[a]\n[b]\n[a]\n", (("a",), 1, 3)),
    ("key", "[a]\nx = 1\ny = 2\nx = 3\n", (("a", "x"), 2, 4)),
    ("quoted", "[a]\nx = 1\n\"x\" = '''\n'''\n", (("a", "x"), 2, 3)),
    ("inline", "a = { x = 1, x = 2 }\n", (("a", "x"), 1, 1)),
    ("header-after-key", "a = 1\n[a]\n", (("a",), 1, 2)),
    ("dotted", "a.x = 1\na.x = 2\n", (("a", "x"), 1, 2)),
    ("none", "[a]\nx = 1\n[b]\nx = 1\n[[c]]\nx = 1\n[[c]]\nx = 1\n", None),
    ("parent-later", "[a.b]\nx = 1\n[a]\nx = 1\n", None),
]


@pytest.mark.parametrize(
    ("name", "text", "expected"), DUPLICATES, ids=[case[0] for case in DUPLICATES]
)
def test_duplicates(name: str, text: str, expected: tuple[KeyPath, int, int] | None) -> None:
    """What is there twice is found with both of its lines, and nothing else is."""
    assert first_duplicate(text) == expected
