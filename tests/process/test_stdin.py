"""What a job reads: nothing, a text, or a file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from crond_py.model import Limits
from tests.process.conftest import Harness

WAYS = [pytest.param({}, id="plain"), pytest.param({"limits": Limits(open_files=50)}, id="limits")]


@pytest.mark.parametrize("more", WAYS)
@pytest.mark.parametrize(
    "text",
    ["", "one line\n", "no newline", "a\0b\x1b", "gr\u00fc\u00dfe \U0001f600", "x" * 1_000_000],
    ids=["empty", "line", "no newline", "controls", "characters", "large"],
)
def test_a_text_arrives_as_it_is(harness: Harness, text: str, more: dict[str, Limits]) -> None:
    """To the last byte and not one more, however large it is and whether it is read at once."""
    command = ("/bin/sh", "-c", "head -c 3; exec cat")
    assert harness.output_of(command, stdin=text, **more) == text.encode()


@pytest.mark.parametrize("more", WAYS)
def test_a_file_is_read_from_its_beginning(
    harness: Harness, tmp_path: Path, more: dict[str, Limits]
) -> None:
    """Each run reads the file as it is then; the job cannot write to it by that descriptor."""
    file = tmp_path / "file"
    for content in (b"first\n", b"\xff\0second"):
        file.write_bytes(content)
        command = "cat; echo more 2>/dev/null >&0 || true"
        assert harness.output_of(command, stdin=file, **more) == content
        assert file.read_bytes() == content


def test_a_text_that_nobody_reads_stops_nothing(harness: Harness) -> None:
    """A job may end without having read what it was given."""
    assert harness.run(("true",), stdin="x" * 1_000_000).exit.code == 0


def test_a_device_is_a_file(harness: Harness) -> None:
    """What is always there, like /dev/null, can be read."""
    assert harness.output_of("head -c 2", stdin=Path("/dev/zero")) == b"\0\0"


def test_a_file_that_cannot_be_read_stops_the_start(harness: Harness, tmp_path: Path) -> None:
    """The reason names the key and the file, and a pipe holds nobody up (P4, P8)."""
    os.mkfifo(tmp_path / "pipe")
    for name, why in (
        ("none", "no such file or directory (ENOENT)"),
        ("pipe", "neither a regular file nor a device (EINVAL)"),
        (".", "is a directory (EISDIR)"),
    ):
        path = tmp_path / name
        shown = str(path)
        assert harness.failed(harness.start("cat", stdin=path)).reason == f"stdin {shown}: {why}"


def test_input_leaves_no_descriptor_open(harness: Harness, tmp_path: Path) -> None:
    """The daemon keeps none of what it has opened for a job, also where the start fails."""
    file = tmp_path / "file"
    file.touch()
    for stdin in ("text", file):
        harness.run(("true",), stdin=stdin)
        harness.run(("true",), stdin=stdin, nice=1)
        harness.failed(harness.start(("no-such",), stdin=stdin))
        harness.failed(harness.start(("true", *["x" * 100_000] * 100), stdin=stdin))
    links = [os.path.realpath(link) for link in Path("/proc/self/fd").iterdir()]
    assert not [link for link in links if "pycron-" in link or link == str(file)]
