"""Files that cannot be used: each gives a clear fault, at once, whatever the file is."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from crond_py.crontab.loader import load_crontab
from crond_py.crontab.source import MAX_BYTES
from crond_py.errors import CrontabError, Fault

NOBODY = 65534
JOB = b'[jobs.a]\nschedule = "* * * * *"\ncommand = "true"\n'


def fault_of(path: Path) -> Fault:
    """Return the one fault of a crontab."""
    with pytest.raises(CrontabError) as caught:
        load_crontab(path)
    (fault,) = caught.value.faults
    assert str(fault).isprintable()
    assert "Error" not in str(fault)
    return fault


class Broken(NamedTuple):
    """Bytes that are no TOML: the line of the fault and words that must be in it."""

    name: str
    data: bytes
    line: int
    words: tuple[str, ...]


BROKEN = [
    Broken("latin-1", JOB + b'description = "caf\xe9"\n', 4, ("0xe9", "UTF-8")),
    Broken("utf-16", JOB.decode().encode("utf-16"), 1, ("UTF-16", "UTF-8")),
    Broken("utf-16-no-mark", JOB.decode().encode("utf-16-le"), 1, ("NUL",)),
    Broken("nul", JOB + b"\x00\n", 4, ("NUL",)),
    Broken("escape", JOB + b"# \x1b[2J\n", 4, (r"\x1b",)),
    Broken("lone-cr", JOB.replace(b"\n", b"\r"), 1, ("not TOML",)),
    Broken("bare-text", JOB + b"overlap = skip\n", 4, ('overlap = "skip"',)),
    Broken("bare-duration", JOB + b"timeout = 15s # long\n", 4, ('timeout = "15s"',)),
    Broken("bare-schedule", b"[jobs.a]\nschedule = */5 * * * *\n", 2, ('"*/5 * * * *"',)),
    Broken("yes", JOB + b"enabled = Yes\n", 4, ("true or false",)),
    Broken("True", JOB + b"enabled = True\n", 4, ("true or false",)),
    Broken("colon", JOB + b'overlap: "skip"\n', 4, ('not ":"',)),
    Broken("semicolon", b"; a comment\n" + JOB, 1, ("begins with #",)),
    Broken("slashes", b"// a comment\n" + JOB, 1, ("begins with #",)),
    Broken("classic", b"MAILTO=\"\"\n30 2 * * * backup --all\n", 2, ("classic", "[jobs.NAME]")),
    Broken("classic-mail", b"MAILTO=root\n* * * * * x\n", 1, ("classic", "there is no mail")),
    Broken("classic-zone", b"CRON_TZ=UTC\n* * * * * x\n", 1, ("classic", "timezone = ")),
    Broken("array-of-jobs", b'[jobs.a]\ncommand = "x"\n[[jobs]]\n', 3, ("write [jobs.NAME]",)),
    Broken("classic-at", b"@daily backup\n", 1, ("classic", "[jobs.NAME]")),
    Broken("smart-quotes", 'command = “true”\n'.encode(), 1, ("straight quotes",)),
    Broken("open-quote", b'command = "true\n' + JOB, 1, ("not closed",)),
    Broken("inner-quote", b'[jobs.a]\ncommand = "echo "hi""\n', 2, ("'...'",)),
    Broken("backslash", b'[jobs.a]\ncommand = "echo \\$HOME"\n', 2, ("'...'",)),
    Broken("open-lines", b'\n[jobs.a]\ncommand = """\ntrue\n\n\n', 3, ("never closed",)),
    Broken("open-literal", b"\n[jobs.a]\ncommand = '''\ntrue\n\n\n", 3, ("never closed",)),
    Broken("open-array", b'[jobs.a]\ncommand = [\n"true",\n', 2, ('"]"',)),
    Broken("no-comma", b'[jobs.a]\ncommand = ["true" "x"]\n', 2, ("comma",)),
    Broken("open-header", b"[jobs.a\n", 1, ('ends with "]"',)),
    Broken("blank-in-header", b"[jobs.my job]\n", 1, ("blanks",)),
    Broken("slash-in-header", b"[jobs.my/job]\n", 1, ("quotes",)),
    Broken("no-value", b"[jobs.a]\ncommand =\n", 2, ("missing",)),
    Broken("word", b"[jobs.a]\ncommand\n", 2, ("key = value",)),
    Broken("octal", JOB + b"umask = 022\n", 4, ('"022"', "0o022")),
    Broken("bad-date", b"[jobs.a]\nat = 2026-02-30T00:00:00\n", 2, ("date",)),
    Broken("no-seconds", b"[jobs.a]\nat = 2026-12-24T18:00 # eve\n", 2,
           ("has seconds: at = 2026-12-24T18:00:00)",)),
    Broken("one-digit", b"[jobs.a]\nat = 2026-12-24 8:00:00\n", 2,
           ("has two digits for each part: at = 2026-12-24T08:00:00)",)),
    Broken("both", b"[jobs.a]\nat = 2026-2-4 8:05\n", 2,
           ("seconds, two digits for each part: at = 2026-02-04T08:05:00)",)),
    Broken("hour-only", b"[jobs.a]\nat = 2026-12-24T18\n", 2,
           ("has minutes and seconds: at = 2026-12-24T18:00:00)",)),
    Broken("with-offset", b"[jobs.a]\nat = 2026-12-24T18:00+01:00\n", 2,
           ("at = 2026-12-24T18:00:00+01:00)",)),
    Broken("no-such-hour", b"[jobs.a]\nat = 2026-12-24 25:00:00\n", 2, ("(there is no hour 25",)),
    Broken("no-such-day", b"[jobs.a]\nat = 2026-02-30T10:00:00\n", 2,
           ("(there is no day 30 in 2026-02)",)),
    Broken("no-such-month", b"[jobs.a]\nat = 2026-13-01\n", 2, ("(there is no month 13)",)),
    Broken("no-leap-second", b"[jobs.a]\nat = 2026-12-31T23:59:60Z\n", 2,
           ("no second 60",)),
    Broken("zone-behind", b"[jobs.a]\nat = 2026-12-24 18:00:00 Europe/Berlin\n", 2,
           ('timezone = "Europe/Berlin"',)),
    Broken("iso-offset", b"[jobs.a]\nat = 2026-12-24T18:00:00+0100\n", 2,
           ("an offset is written as +01:00",)),
    Broken("digits", JOB + b"priority = " + b"9" * 5000 + b"\n", 4, ("digits",)),
    Broken("deep", b"a = " + b"[" * 100_000 + b"\n", 0, ("nested",)),
    Broken("deep-tables", b"a = " + b"{a=" * 100_000 + b"\n", 0, ("nested",)),
    # A pattern that goes back over blanks would need hours for these.
    Broken("blanks", b" " * 1_000_000 + b"x\n", 1, ("not TOML",)),
    Broken("blank-key", (b"['" + b" " * 1_000_000 + b"x']\n") * 2, 2, ("twice",)),
    Broken("long-key", b"[" + b"a." * 1_000_000 + b"a]\n", 1, ("100 parts",)),
    Broken("long-inline-key", b"x = { " + b"a . " * 1_000_000 + b"a = 1}\n", 1, ("100 parts",)),
    Broken("binary", bytes(range(1, 256)) * 10, 2, ()),
    Broken("two-jobs", JOB + b"\n" + JOB, 5, ('the job "a" is there twice', "line 1")),
    Broken("two-pools", b"[pools.p]\nworkers=1\n[pools.p]\n", 3, ('the pool "p"', "line 1")),
    Broken("two-keys", JOB + b'command = "x"\n', 4, ("command is there twice", "line 3")),
    Broken("two-quoted", JOB + b'"command" = """\n\n"""\n', 4, ("command is there twice",)),
]  # fmt: skip


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_broken_files(broken: Broken, tmp_path: Path) -> None:
    """P7: a file that is not TOML gives its line and what was probably meant."""
    path = tmp_path / "crontab.toml"
    path.write_bytes(broken.data)
    fault = fault_of(path)
    assert (fault.path, fault.line) == (str(path), broken.line)
    for word in broken.words:
        assert word in f"{fault.message} ({fault.suggestion})"
    assert len(str(fault)) < 500


@pytest.mark.parametrize("broken", BROKEN, ids=lambda broken: broken.name)
def test_what_is_called_broken_is_no_toml(broken: Broken) -> None:
    """The table tests syntax: tomllib itself takes none of these."""
    if broken.name in ("long-key", "long-inline-key"):
        return  # TOML, and the reason for the limit: tomllib would be busy for minutes
    with pytest.raises((ValueError, RecursionError)):
        tomllib.loads(broken.data.decode())


def test_a_directory(tmp_path: Path) -> None:
    """A directory is named as one."""
    fault = fault_of(tmp_path)
    assert (fault.line, fault.key) == (0, "")
    assert "is a directory" in fault.message


def test_no_file(tmp_path: Path) -> None:
    """A file that is not there is said to be missing."""
    assert "no such file" in fault_of(tmp_path / "none.toml").message


def test_a_file_in_a_file(tmp_path: Path) -> None:
    """Every other refusal of the system is passed on in its words."""
    (tmp_path / "file").write_bytes(JOB)
    fault = fault_of(tmp_path / "file" / "crontab.toml")
    assert "Not a directory" in fault.message


@pytest.mark.parametrize("name", ["a\0b", "a\nb", "a\x1b[2Jb", "x" * 300, "\udc80"])
def test_strange_names(name: str, tmp_path: Path) -> None:
    """P9: a strange file name is a fault, and is shown without its control characters."""
    fault_of(tmp_path / name)


def test_a_fifo_is_not_waited_for(tmp_path: Path) -> None:
    """A fifo that nobody writes to is refused at once."""
    os.mkfifo(tmp_path / "fifo")
    assert "not a regular file" in fault_of(tmp_path / "fifo").message


def test_a_device_is_not_read() -> None:
    """A file without an end is refused at once."""
    assert "not a regular file" in fault_of(Path("/dev/zero")).message


def test_a_huge_file_is_refused_for_its_size(tmp_path: Path) -> None:
    """A file that is too large is refused before it is read."""
    path = tmp_path / "crontab.toml"
    with path.open("wb") as file:
        file.truncate(50 * 1024 * 1024)
    assert "larger than 32 MiB" in fault_of(path).message


def test_the_largest_file_is_read(tmp_path: Path) -> None:
    """The limit is the limit: a file of exactly that size is read, one byte more is not."""
    path = tmp_path / "crontab.toml"
    path.write_bytes(JOB + b"#" * (MAX_BYTES - len(JOB)))
    assert list(load_crontab(path).jobs) == ["a"]
    path.write_bytes(JOB + b"#" * (MAX_BYTES - len(JOB) + 1))
    assert "larger" in fault_of(path).message


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    """A file without permission is told as that, which root has to be someone else to see."""
    path = tmp_path / "crontab.toml"
    path.write_bytes(JOB)
    path.chmod(0)
    user = os.geteuid()
    os.seteuid(user or NOBODY)
    try:
        fault = fault_of(path)
    finally:
        os.seteuid(user)
    assert "may not be read" in fault.message
    assert "permissions" in fault.suggestion


def test_marks_and_line_ends_of_windows_are_let_pass(tmp_path: Path) -> None:
    """A byte order mark and CR LF change nothing, not even a line number."""
    path = tmp_path / "crontab.toml"
    path.write_bytes(b"\xef\xbb\xbf" + JOB.replace(b"\n", b"\r\n"))
    assert load_crontab(path).jobs["a"].source == f"{path}:1"
    path.write_bytes(b"\xef\xbb\xbf" + (JOB + b"timeout = 5\n").replace(b"\n", b"\r\n"))
    assert fault_of(path).line == 4
