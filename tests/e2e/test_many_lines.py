"""Jobs that print a hundred thousand lines a second: all is kept, and nobody is held up."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

import pytest

from tests.support.daemon import PATIENCE_S, PROGRAMS, Bell, Daemon, may_run
from tests.support.zoo import animal_text, assert_small

SECONDS = [1, pytest.param(5, marks=pytest.mark.long)]
LIMIT = 1 << 18
ROOM = 1 << 10

FACTOR = 4
"""How much longer the job may have waited for its writes than one that writes to a plain file."""


def _job(output: str, limit: str, seconds: int) -> str:
    lines = ("startup = true", f'output = "{output}"', f'output_limit = "{limit}"')
    return animal_text("paced_lines", *lines, mark=str(seconds))


def _printed(seconds: int) -> list[str]:
    return [f"line {number:07} of very many" for number in range(100_000 * seconds)]


@contextmanager
def _beside(daemon: Daemon, bell: Bell, seconds: int) -> Iterator[None]:
    """Have the same printed to a plain file; hold that the job did not have to wait for longer.

    Only that it is of the same order: through a pipe to somebody who looks at each line it would
    have been held up for as long as it printed.
    """
    directory = daemon.directory / "plain"
    directory.mkdir()
    other = Bell(directory / "bell")
    program = [sys.executable, "-I", "-S", str(PROGRAMS / "zoo.py"), "paced_lines", str(seconds)]
    with (directory / "out").open("wb") as file:
        process = subprocess.Popen(program, cwd=directory, stdout=file)
    yield
    job_s, plain_s = float(bell.wait()), float(other.wait())
    assert process.wait(PATIENCE_S) == 0
    other.close()
    sys.stdout.write(f"waited {job_s} s for its writes, {plain_s} s with a plain file\n")
    assert job_s < FACTOR * plain_s + seconds / 2


def _output(daemon: Daemon) -> bytes:
    (path,) = (daemon.state / "output" / "paced_lines").iterdir()
    return path.read_bytes()


def _assert_kept(kept: bytes, printed: list[str]) -> None:
    """Hold that the beginning and the end are kept, and that it is said how much is not."""
    whole = "".join(f"{line}\n" for line in printed).encode()
    head, count, tail = re.split(rb"\n?\[pycron: (\d+) bytes left out here\]\n", kept)
    assert whole.startswith(head)
    assert whole.endswith(tail)
    assert min(len(head), len(tail)) > LIMIT // 4
    assert len(kept) <= LIMIT + ROOM
    assert len(whole) - len(head) - len(tail) - int(count) in {0, 1}


@pytest.mark.parametrize("seconds", SECONDS)
@pytest.mark.parametrize("limit", ["none", "256K"])
def test_to_a_file(daemon: Daemon, bell: Bell, limit: str, seconds: int) -> None:
    """All of it is there, or where it is limited the beginning and the end (P4, P8)."""
    log = daemon.start(_job("file", limit, seconds))
    with _beside(daemon, bell, seconds):
        log.wait("run succeeded", job="paced_lines")
    assert_small(daemon)
    daemon.stop()
    printed = _printed(seconds)
    if limit == "none":
        assert _output(daemon).decode().splitlines() == printed
    else:
        _assert_kept(_output(daemon), printed)


def _streamed(daemon: Daemon, bell: Bell, seconds: int, limit: str) -> list[str]:
    """Return the lines that the log has got when the last of them was there."""
    log = daemon.start(_job("stream", limit, seconds))
    with _beside(daemon, bell, seconds):
        log.wait("run succeeded", job="paced_lines")
    log.wait("output", line=_printed(seconds)[-1])
    assert_small(daemon)
    daemon.stop()
    return [event["line"] for event in log.all("output", logger="pycron.output")]


@pytest.mark.parametrize("seconds", SECONDS)
def test_into_the_log(daemon: Daemon, bell: Bell, seconds: int) -> None:
    """Each line is passed on, once and in order, and the job goes on as if nobody read it (P4)."""
    printed = _printed(seconds)
    assert _streamed(daemon, bell, seconds, "none") == printed
    assert _output(daemon).decode().splitlines() == printed


@pytest.mark.parametrize("seconds", SECONDS)
def test_into_the_log_and_limited(daemon: Daemon, bell: Bell, seconds: int) -> None:
    """What is left out of the file before it was passed on is left out of the log, and said."""
    printed = _printed(seconds)
    lines = _streamed(daemon, bell, seconds, "256K")
    assert lines[0] == printed[0]
    whole = [line for line in lines if re.fullmatch(r"line \d{7} of very many", line)]
    assert whole == sorted(set(whole))
    # A hole may begin and end in the middle of a line.
    gaps = [line for line in lines if "bytes left out here]" in line]
    assert gaps
    assert len(lines) - len(whole) <= 3 * len(gaps)
    _assert_kept(_output(daemon), printed)


# --- the journal ---------------------------------------------------------------------------------

TO_MOUNT = ("unshare", "--mount", "sh", "-c")
# The daemon finds a directory of the test where it looks for the journal.
_MOUNT = (
    "mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/journal && "
    'mount --bind "$0" /run/systemd/journal && exec "$@"'
)


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[SimpleQueue[bytes]]:
    """Give what comes to a socket in the directory "journal"."""
    directory = tmp_path / "journal"
    directory.mkdir()
    came: SimpleQueue[bytes] = SimpleQueue()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(str(directory / "socket"))

        def read() -> None:
            while message := reader.recv(1 << 16):
                came.put(message)

        thread = Thread(target=read)
        thread.start()
        yield came
        reader.shutdown(socket.SHUT_RD)
        thread.join()


@pytest.mark.skipif(
    not may_run(*TO_MOUNT, "mount -t tmpfs tmpfs /run"), reason="may not mount in a namespace"
)
@pytest.mark.parametrize("seconds", SECONDS)
def test_into_the_journal(
    daemon: Daemon, bell: Bell, journal: SimpleQueue[bytes], seconds: int
) -> None:
    """Each line is an entry, once and in order, however long the journal takes for it (P4)."""
    under = (*TO_MOUNT, _MOUNT, str(daemon.directory / "journal"))
    log = daemon.start(_job("journal", "none", seconds), under=under)
    with _beside(daemon, bell, seconds):
        log.wait("run succeeded", job="paced_lines")
    printed = _printed(seconds)
    for line in printed:
        *_, message = journal.get(timeout=PATIENCE_S).decode().splitlines()
        assert message == f"MESSAGE={line}"
    assert_small(daemon)
    daemon.stop()
    assert journal.empty()
    assert _output(daemon).decode().splitlines() == printed
