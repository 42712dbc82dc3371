"""Files of environment variables: what they mean, and what is said of one that means nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crond_py.errors import CannotStartError
from crond_py.runner.envfile import parse_env_file
from crond_py.runner.environment import RESERVED
from tests.process.conftest import Harness

GOOD = [
    pytest.param("A=1\nB=2", {"A": "1", "B": "2"}, id="no newline at the end"),
    pytest.param("", {}, id="empty"),
    pytest.param("\n \t\n# A=1\n  ; B=2\n#", {}, id="comments and blanks"),
    pytest.param("A=1\r\nB='2'\r\n", {"A": "1", "B": "2"}, id="carriage returns"),
    pytest.param("export A=1\n\texport  B=2\nexport=3\n", {"A": "1", "B": "2", "export": "3"},
                 id="export"),
    pytest.param("A=\nB=''\nC=\"\"\n", {"A": "", "B": "", "C": ""}, id="empty values"),
    pytest.param("A=  x y  \n", {"A": "x y"}, id="blanks around a value"),
    pytest.param("A=' x '\nB=\" y \" \n", {"A": " x ", "B": " y "}, id="blanks in quotes"),
    pytest.param("A=a=b==c\n", {"A": "a=b==c"}, id="equals signs"),
    pytest.param("A=1 # no comment\nB=#x\n", {"A": "1 # no comment", "B": "#x"}, id="hashes"),
    pytest.param("A='1' # a comment\nB=\"2\"\t#x\n", {"A": "1", "B": "2"}, id="comment after"),
    pytest.param("A=it's\nB=a\"b\n", {"A": "it's", "B": 'a"b'}, id="quotes within"),
    pytest.param("A=C:\\new\\x\nB='a\\'\n", {"A": "C:\\new\\x", "B": "a\\"}, id="backslashes"),
    pytest.param('A="a\\"b\\\\c\\$d\\`e\\nf"\n', {"A": 'a"b\\c$d`e\\nf'}, id="escapes"),
    pytest.param('A="one \\\ntwo"\n', {"A": "one two"}, id="a joined line"),
    pytest.param("A='one\ntwo'\nB=\"three\nfour\"\n", {"A": "one\ntwo", "B": "three\nfour"},
                 id="several lines"),
    pytest.param("A=$HOME ${X} `id` $(id) %h\nB=\"$HOME\"\n",
                 {"A": "$HOME ${X} `id` $(id) %h", "B": "$HOME"}, id="nothing is put in"),
    pytest.param("A=1\nA=2\n", {"A": "2"}, id="the later holds"),
    pytest.param("_a9=ü\U0001f600\n", {"_a9": "ü\U0001f600"}, id="characters"),
    pytest.param("\ufeffA=1\n", {"A": "1"}, id="byte order mark"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), GOOD)
def test_what_a_file_means(text: str, expected: dict[str, str]) -> None:
    """As the manual has it, and as systemd and docker read what they read alike."""
    assert parse_env_file(text.encode(), "/x", RESERVED) == expected


BAD = [
    ("A=1\n\nB\n", 3, 'no "=": a line is NAME=VALUE'),
    ("\n\n9A=secret\n", 3, 'what stands before "=" is not a name: letters, digits and underscores'),
    ("a b=secret\n", 1, 'what stands before "=" is not a name: letters, digits and underscores'),
    ("é=1\n", 1, 'what stands before "=" is not a name: letters, digits and underscores'),
    ("=1\n", 1, 'what stands before "=" is not a name: letters, digits and underscores'),
    ("A =secret\n", 1, 'a blank between A and "="'),
    ("#\nA='secret\nB=2\n", 2, "the value of A has no closing '"),
    ('A="secret\\"\n', 1, 'the value of A has no closing "'),
    ("A='secret'x\n", 1, "something follows the closing ' of A"),
    ("A='1'#x\n", 1, "something follows the closing ' of A"),
    (
        "A=secret\\\nB=2\n",
        1,
        ("the value of A ends in a backslash; lines are not continued, put the value in quotes"),
    ),
    ("A='x\ny'\nB=a\0b\n", 3, "a NUL character in the value of B"),
    ("PYCRON_RUN_ID=1\n", 1, "PYCRON_RUN_ID is set by pycron for every run; use another name"),
    ("PYCRON_ATTEMPT=1\n", 1, "PYCRON_ATTEMPT is set by pycron for every run; use another name"),
]


@pytest.mark.parametrize(("text", "line", "message"), BAD)
def test_what_is_said_of_a_faulty_file(text: str, line: int, message: str) -> None:
    """File, line and what is wrong; never a value, which may be a secret (P9)."""
    with pytest.raises(CannotStartError) as caught:
        parse_env_file(text.encode(), "/x", RESERVED)
    assert str(caught.value) == f"env_file /x:{line}: {message}"
    assert "secret" not in str(caught.value)


LONG = [
    pytest.param(" " * 500_000 + "A", 'no "="', id="blanks before a name"),
    pytest.param("A" + " " * 500_000 + "B", 'no "="', id="blanks in a name"),
    pytest.param("export" + "\t" * 500_000 + "=1", "not a name", id="blanks after export"),
    pytest.param("A" + " " * 500_000 + "=1", "a blank between", id="blanks after a name"),
    pytest.param('A="' + "\\x" * 250_000, "no closing", id="escapes"),
    pytest.param('A=""' + " " * 500_000 + "B", "something follows", id="blanks after a quote"),
]


@pytest.mark.parametrize(("text", "message"), LONG)
def test_a_file_made_to_be_slow_to_read_is_read_as_fast(text: str, message: str) -> None:
    """P1: a user's file cannot keep the daemon from starting others: it is read in one go.

    A pattern that goes back would need hours for these, and no other thread would get its turn.
    """
    with pytest.raises(CannotStartError, match=message):
        parse_env_file(text.encode(), "/x", RESERVED)


def test_bytes_arrive_as_they_are(harness: Harness, tmp_path: Path) -> None:
    """Also what is not UTF-8 reaches the job byte for byte."""
    file = tmp_path / "file"
    file.write_bytes(b"A=a\xff\xfeb\nB='c\n'\n")
    printed = harness.output_of(("/usr/bin/env", "-0"), env_files=(str(file),))
    assert {b"A=a\xff\xfeb", b"B=c\n"} <= set(printed.split(b"\0"))


def test_a_file_that_cannot_be_read_stops_the_start(harness: Harness, tmp_path: Path) -> None:
    """A job does not run without what it was to know; the reason names key and file (P8)."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"#" * ((1 << 20) + 1))
    (tmp_path / "faulty").write_bytes(b"A=1\nB\n")
    for name, reason in (
        ("none", "env_file {}: no such file or directory (ENOENT)"),
        ("pipe", "env_file {}: neither a regular file nor a device (EINVAL)"),
        (".", "env_file {}: is a directory (EISDIR)"),
        ("large", "env_file {}: is larger than 1 MiB"),
        ("faulty", 'env_file {}:2: no "=": a line is NAME=VALUE'),
    ):
        path = f"{tmp_path}/{name}"
        failed = harness.failed(harness.start("true", env_files=(path,)))
        assert failed.reason == reason.format(path)
