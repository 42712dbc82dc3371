"""The files that hold what runs print."""

from __future__ import annotations

import os
import stat
import sys
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crond_py.clock import SystemClock
from crond_py.crontab.model import Job, StartupTrigger
from crond_py.launch import Launchpad, own_outputs
from crond_py.model import Cause, Run, State
from crond_py.ports import KeptOutputs
from crond_py.printable import printable, printable_line
from crond_py.runner.output import (
    open_output,
    output_path,
    read_output,
    remove_outputs,
)
from crond_py.runner.quota import Quota
from tests.process.conftest import Harness

STATE = Path("/state")


@pytest.mark.parametrize(
    ("job", "directory"),
    [
        ("backup", "backup"),
        ("db.nightly_2-a", "db.nightly_2-a"),
        ("a/b", "a%2Fb"),
        ("..", "%2E."),
        (".", "%2E"),
        (".hidden", "%2Ehidden"),
        ("", "%2E"),
        ("a\nb", "a%0Ab"),
        ("a b%", "a%20b%25"),
        ("ü", "%C3%BC"),
    ],
)
def test_a_path_stays_within_the_output_directory(job: str, directory: str) -> None:
    """Whatever a job is called, its files lie in one directory below ``output`` (P9)."""
    assert output_path(STATE, job, 17, 2) == STATE / "output" / directory / "17-2.log"


@given(st.text(max_size=300), st.text(max_size=300))
def test_no_two_jobs_share_a_directory(first: str, second: str) -> None:
    """Different names have different directories that every file system takes."""
    one, two = (output_path(STATE, job, 1, 1).parent.name for job in (first, second))
    assert len(one) <= 200
    # "" cannot be a job's name; it falls together with ".".
    if {first, second} != {"", "."}:
        assert (one == two) == (first == second) or {one, two} == {":tasks"}


def test_all_tasks_share_a_directory_that_no_job_has() -> None:
    """A million tasks that ran once leave no million directories; only they are there."""
    one, other = (output_path(STATE, f"task:{number}", 7, 1) for number in (1, 999_999))
    assert one == other == STATE / "output" / ":tasks" / "7-1.log"
    for job in ("tasks", ":tasks", "task:", "task:x", "task:1x", "%3Atasks"):
        assert output_path(STATE, job, 7, 1) != one


def test_files_are_private(tmp_path: Path) -> None:
    """Directories are made 0700 and files 0600, whatever the umask allows (P9)."""
    path = output_path(tmp_path / "a" / "state", "job", 1, 1)
    before = os.umask(0)
    try:
        os.close(open_output(path))
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for directory in list(path.parents)[:4]:
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700, directory


def test_what_another_ledger_has_left_is_set_aside(tmp_path: Path) -> None:
    """A run does not begin with the output of one that had the same number, and that is kept."""
    path = tmp_path / "1-1.log"
    for text in (b"one\n", b"two\n"):
        descriptor = open_output(path)
        os.write(descriptor, text)
        os.close(descriptor)
    os.close(open_output(tmp_path / "2-1.log"))
    os.close(open_output(tmp_path / "2-1.log"))
    assert path.read_bytes() == b"two\n"
    assert path.with_name("1-1.log.earlier").read_bytes() == b"one\n"
    assert not (tmp_path / "2-1.log.earlier").exists()


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """A link that lies where the output goes leads nowhere (P9)."""
    (tmp_path / "1-1.log").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic link"):
        open_output(tmp_path / "1-1.log")
    assert not (tmp_path / "victim").exists()


def test_a_device_is_not_taken_for_a_file() -> None:
    """What is not a regular file is refused."""
    with pytest.raises(OSError, match="not a regular file"):
        open_output(Path("/dev/null"))


@pytest.mark.parametrize("fault", ["a file in the way", "a link in the way", "no space"])
def test_a_job_runs_though_its_output_cannot_be_kept(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Trouble with the log is told with Started and does not fail the job (P8)."""
    path = output_path(harness.directory, "job", 1, 1)
    cause = "not a directory (ENOTDIR)"
    if fault == "a file in the way":
        (harness.directory / "output").write_text("")
    elif fault == "a link in the way":
        path.parent.mkdir(parents=True)
        path.symlink_to("elsewhere")
        cause = "too many levels of symbolic links (ELOOP)"
    else:
        cause = "no space left on device (ENOSPC)"

        def full(*_arguments: object, **_settings: object) -> int:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("crond_py.runner.spawn.open_output", full)
    key = harness.start("echo lost; echo lost >&2; exit 3", output=path)
    assert harness.started(key).note == f"its output is not kept: {path}: {cause}"
    assert harness.ended(key).exit.code == 3


def test_a_long_line_is_nothing_special(harness: Harness) -> None:
    """Five million bytes without a newline are kept to the last byte (B47)."""
    printed = harness.output_of("head -c 5000000 /dev/zero | tr '\\0' x; echo; echo end")
    assert printed == b"x" * 5_000_000 + b"\nend\n"


def test_both_streams_at_once(harness: Harness) -> None:
    """Two writers with long lines lose nothing and block nobody (B47)."""
    one = "head -c 200000 /dev/zero | tr '\\0' a; echo"
    printed = harness.output_of(f"({one}) & ({one}) >&2 & wait")
    assert printed.count(b"a") == 400_000
    assert printed.count(b"\n") == 2


def test_a_job_writes_on_when_the_runner_is_closed(harness: Harness) -> None:
    """Output does not pass through us, so a job outlives us and loses nothing (P5)."""
    gate, done = harness.fifo("gate"), harness.fifo("done")
    path = harness.directory / "output"
    key = harness.start(f"echo one; read line <{gate}; echo two; echo >{done}", output=path)
    harness.started(key)
    harness.runner.close()
    gate.write_text("go\n")
    done.read_text()
    assert path.read_text() == "one\ntwo\n"


@pytest.mark.parametrize(
    ("data", "lines", "expected"),
    [
        (b"", 3, ""),
        (b"a\nb\nc\n", 0, ""),
        (b"a\nb\nc\n", 1, "c\n"),
        (b"a\nb\nc\n", 2, "b\nc\n"),
        (b"a\nb\nc\n", 3, "a\nb\nc\n"),
        (b"a\nb\nc\n", 99, "a\nb\nc\n"),
        (b"a\nb\nc", 1, "c"),
        (b"a\nb\nc", 2, "b\nc"),
        (b"\n\n\n", 2, "\n\n"),
        (b"\n", 1, "\n"),
        (b"x" * 200_000 + b"\nend\n", 1, "end\n"),
        (b"first\n" + b"x" * 200_000, 1, "x" * 200_000),
    ],
)
def test_reads_the_last_lines(tmp_path: Path, data: bytes, lines: int, expected: str) -> None:
    """``tail_lines`` is tail(1)'s -n, whether or not the last line has its newline."""
    path = tmp_path / "log"
    path.write_bytes(data)
    assert "".join(read_output(path, tail_lines=lines)) == expected


@given(
    st.lists(st.sampled_from([b"a", b"\n", b"x" * 65_535, b"\n" * 3]), max_size=12),
    st.integers(0, 8),
)
def test_last_lines_are_those_of_splitlines(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes], count: int
) -> None:
    """For any file, the last lines are what splitting all of it would give."""
    data = b"".join(pieces)
    path = tmp_path_factory.mktemp("tail") / "log"
    path.write_bytes(data)
    lines = data.decode().splitlines(keepends=True)
    expected = "".join(lines[len(lines) - min(count, len(lines)) :])
    assert "".join(read_output(path, tail_lines=count)) == expected


@pytest.mark.parametrize(
    ("data", "count", "expected"),
    [
        (b"abc", 2, "bc"),
        (b"abc", 99, "abc"),
        ("aüb".encode(), 2, "b"),
        ("aüb".encode(), 3, "üb"),
        ("\U0001f600b".encode(), 4, "b"),
        ("\U0001f600".encode(), 3, ""),
    ],
)
def test_reads_the_last_bytes(tmp_path: Path, data: bytes, count: int, expected: str) -> None:
    """``tail_bytes`` begins with the first whole character."""
    path = tmp_path / "log"
    path.write_bytes(data)
    assert "".join(read_output(path, tail_bytes=count)) == expected


def test_what_is_not_utf8_is_shown_as_such(tmp_path: Path) -> None:
    """Invalid bytes become U+FFFD; characters cut by a piece's end stay whole."""
    path = tmp_path / "log"
    path.write_bytes(b"\xff" + "ü".encode() * 100_000 + b"\xc3")
    pieces = list(read_output(path))
    assert len(pieces) > 2
    assert "".join(pieces) == "\ufffd" + "ü" * 100_000 + "\ufffd"


def test_a_huge_file_takes_little_memory(tmp_path: Path) -> None:
    """Reading takes a few pieces' worth of memory, whatever the file's size (P8)."""
    path = tmp_path / "log"
    with path.open("wb") as file:
        for _ in range(64):
            file.write(b"x" * 1_000_000)
    tracemalloc.start()
    try:
        size = sum(map(len, read_output(path, tail_lines=10)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert size == 64_000_000
    assert peak < 2_000_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ü \U0001f469\u200d\U0001f680\n\tindented\n", None),
        ("\x1b[2J\x1b]0;title\x07", "\\x1b[2J\\x1b]0;title\\x07"),
        ("50%\r100%\r\n", "50%\\r100%\\r\n"),
        ("\x00\x08\x7f", "\\x00\\x08\\x7f"),
        ("\x9b31m", "\\x9b31m"),
        ("a\u202eb\u2028c\u2066", "a\\u202eb\\u2028c\\u2066"),
        ("\udc80", "\\udc80"),
    ],
)
def test_nothing_printed_drives_a_terminal(text: str, shown: str | None) -> None:
    """Control characters are made visible; text stays as it is (P9)."""
    assert printable(text) == (text if shown is None else shown)


def test_nothing_printed_forges_a_line() -> None:
    """Within a line, newlines are made visible too (P9)."""
    assert printable_line("a\nroot logged in\t\x1b") == "a\\nroot logged in\\t\\x1b"


def test_removes_files_and_the_empty_directory(tmp_path: Path) -> None:
    """Files go, a job's directory goes with its last one, and what is gone is no fault."""
    paths = [output_path(tmp_path, "job", number, 1) for number in (1, 2, 3)]
    for path in paths:
        os.close(open_output(path))
    beside = [paths[0].with_name(paths[0].name + ending) for ending in (".earlier", ".new")]
    for path in beside:  # of another ledger, and of a compaction that has not come to its end
        path.touch()
    assert remove_outputs(paths[:2]) == []
    assert not any(path.exists() for path in beside)
    assert [path.exists() for path in paths] == [False, False, True]
    assert remove_outputs(paths) == []
    assert not paths[0].parent.exists()
    assert remove_outputs(paths) == []


def test_tells_what_cannot_be_removed(tmp_path: Path) -> None:
    """A file that cannot be removed is named with the cause, and the others still go (P8)."""
    first, stuck, last = (output_path(tmp_path, "job", number, 1) for number in (1, 2, 3))
    for path in (first, last):
        os.close(open_output(path))
    stuck.mkdir()
    assert remove_outputs([first, stuck, last]) == [f"cannot remove {stuck}: Is a directory"]
    assert not first.exists()
    assert not last.exists()


def test_the_interpreter_remembers_nothing_of_a_run(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: no text that only one run has is interned: some Pythons never forget such a text."""
    interned = []
    intern = sys.intern

    def note(text: str) -> str:
        interned.append(text)
        return intern(text)

    monkeypatch.setattr(sys, "intern", note)
    number, now = 7_654_321, SystemClock().now()
    job = Job("job", StartupTrigger(), command="seq 10000", output_limit=4096)
    run = Run(number, job.name, 0, now, Cause.SCHEDULE, State.RUNNING, now)
    spec = Launchpad(harness.directory, harness.identity)(job, run, 1)
    assert spec.output is not None
    recorded = str(spec.output.path)
    harness.runner.start(spec)
    assert harness.ended(spec.key).exit.code == 0
    harness.runner.close()  # it brings the file to its limit
    assert os.stat(recorded).st_size < 5000  # noqa: PTH116 - a Path would remember it
    Quota(harness.directory, lambda work: work()).note(
        KeptOutputs(job.name, 1, frozenset(), number + 1)
    )
    assert remove_outputs(own_outputs(harness.directory, [recorded])) == []
    assert not [text for text in interned if str(number) in text]
