"""Outputs beyond their limit: the beginning and the end are kept, and the job notices nothing."""

from __future__ import annotations

import errno
import os
import re
import select
import threading
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import pytest

from crond_py.clock import SystemClock
from crond_py.ports import AttemptKey, OutputSpec, ProcessSpec
from crond_py.runner import compaction, holes, output, upkeep
from crond_py.runner.compaction import ROOM_BYTES, compact
from crond_py.runner.holes import gap_line, has_writer
from crond_py.runner.inotify import CLOSED_BY_WRITER, MODIFIED, MOVED_IN, Inotify
from crond_py.runner.keeper import Keeper
from crond_py.runner.output import read_output, read_output_bytes
from crond_py.runner.upkeep import Kept, Upkeep
from crond_py.vital import ending_by
from tests.process.conftest import PATIENCE_S, Harness

DELETED = 0x200  # IN_DELETE of inotify(7)
LIMIT = 100_000
NUMBERS = b"".join(b"%d\n" % number for number in range(1, 100_001))  # what seq prints
SHORTENED = (
    NUMBERS[: LIMIT // 2]
    + b"\n"
    + gap_line(len(NUMBERS) - LIMIT).encode()
    + b"\n"
    + NUMBERS[-LIMIT // 2 :]
)


class Changes:
    """Waits for changes in a directory."""

    def __init__(self, directory: Path, mask: int) -> None:
        self._inotify = Inotify()
        self._inotify.add(directory, mask)

    def wait(self) -> None:
        """Wait for the next."""
        poll = select.poll()
        poll.register(self._inotify, select.POLLIN)
        assert poll.poll(PATIENCE_S * 1000), "nothing has changed"
        list(self._inotify.events())

    def close(self) -> None:
        """Watch no more."""
        self._inotify.close()


@pytest.fixture
def compacted(tmp_path: Path) -> Iterator[Changes]:
    """Tell when a file of the output directory is replaced."""
    (tmp_path / "output").mkdir()
    changes = Changes(tmp_path / "output", MOVED_IN)
    yield changes
    changes.close()


@pytest.fixture
def removed(tmp_path: Path) -> Iterator[Changes]:
    """Tell when a file of the output directory is removed."""
    (tmp_path / "output").mkdir()
    changes = Changes(tmp_path / "output", DELETED)
    yield changes
    changes.close()


def output_of(harness: Harness, limit: int | None = LIMIT) -> OutputSpec:
    """Return where a test's process writes to."""
    return OutputSpec(harness.directory / "output" / "1-1.log", limit_bytes=limit)


def taken(path: Path) -> int:
    """Return how much of the disk a file takes."""
    return path.stat().st_blocks * 512


def test_the_beginning_and_the_end_are_kept(harness: Harness, compacted: Changes) -> None:
    """Half of the limit each, to the byte, and between them a line that says what is missing."""
    output = output_of(harness)
    assert harness.run("seq 100000", output=output).exit.code == 0
    compacted.wait()
    assert output.path.read_bytes() == SHORTENED
    assert output.path.stat().st_mode & 0o777 == 0o600
    assert "".join(read_output(output.path)).encode() == SHORTENED
    assert [path.name for path in output.path.parent.iterdir()] == ["1-1.log"]


@pytest.mark.parametrize("limit", [1, 2, 100, 4096, 1 << 20])
def test_limits_of_all_sizes(harness: Harness, compacted: Changes, limit: int) -> None:
    """The smallest limit keeps one byte; what is left out and what is kept is all there was."""
    printed = b"x" * (2 << 20)
    output = output_of(harness, limit)
    harness.run("head -c 2097152 /dev/zero | tr '\\0' x", output=output)
    compacted.wait()
    line = f"[pycron: {len(printed) - limit} bytes left out here]\n".encode()
    before = b"x" * (limit // 2)
    assert output.path.read_bytes() == before + (b"\n" if before else b"") + line + b"x" * (
        limit - limit // 2
    )


@pytest.mark.parametrize("beyond", [-1, 0, 1, ROOM_BYTES])
def test_what_is_within_its_limit_stays(harness: Harness, beyond: int) -> None:
    """So does what is beyond it by no more than the line that would be put in takes."""
    number = LIMIT + beyond
    output = output_of(harness)
    harness.run(f"head -c {number} /dev/zero", output=output)
    harness.runner.close()
    assert output.path.read_bytes() == bytes(number)


def test_without_a_limit_all_is_kept(harness: Harness) -> None:
    """None is no limit."""
    output = output_of(harness, None)
    harness.run("seq 100000", output=output)
    harness.runner.close()
    assert output.path.read_bytes() == NUMBERS


def test_the_disk_is_given_back_while_a_process_writes(harness: Harness) -> None:
    """P8: a process that prints far more than its limit and goes on takes little of the disk."""
    gate = harness.fifo("gate")
    output = output_of(harness, 1 << 20)
    changes = None
    (harness.directory / "output").mkdir()
    changes = Changes(harness.directory / "output", MODIFIED)
    key = harness.start(f"head -c 50000000 /dev/zero; echo end; read x <{gate}", output=output)
    harness.started(key)
    # A hole is a change of the file as well, so the last change is seen after the last hole.
    while not (
        output.path.exists()
        and output.path.stat().st_size == 50_000_004
        and taken(output.path) < 4 << 20
    ):
        changes.wait()
    changes.close()
    shown = b"".join(read_output_bytes(output.path))
    assert len(shown) < 4 << 20
    assert re.fullmatch(rb"\0+\n\[pycron: \d+ bytes left out here\]\n\0+end\n", shown)
    gate.write_text("go\n")
    assert harness.ended(key).exit.code == 0


def test_a_process_left_behind_keeps_its_file(harness: Harness, compacted: Changes) -> None:
    """What can still write loses nothing: the file is compacted when the last writer is gone."""
    gate = harness.fifo("gate")
    output = output_of(harness)
    command = f"seq 50000; setsid sh -c 'read x <{gate}; seq 50001 100000' & exit 0"
    assert harness.run(command, output=output).exit.code == 0
    gate.write_text("go\n")
    compacted.wait()
    assert output.path.read_bytes() == SHORTENED


def test_a_silent_process_left_behind_is_waited_for(
    harness: Harness, compacted: Changes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end is noticed though it prints nothing, and without asking again and again."""
    is_waited_for = threading.Event()
    add = Inotify.add

    def noted(self: Inotify, path: Path, mask: int) -> int:
        number = add(self, path, mask)
        if mask & CLOSED_BY_WRITER:
            is_waited_for.set()
        return number

    monkeypatch.setattr(Inotify, "add", noted)
    gate = harness.fifo("gate")
    output = output_of(harness)
    command = f"setsid sh -c 'echo x >{gate}; read x <{gate}' & read x <{gate}; seq 100000"
    assert harness.run(command, output=output).exit.code == 0
    assert is_waited_for.wait(PATIENCE_S)
    gate.write_text("go\n")
    compacted.wait()
    assert output.path.read_bytes() == SHORTENED


@pytest.mark.parametrize("limit", [LIMIT, None])
def test_an_empty_output_that_is_not_kept_is_removed(
    harness: Harness, removed: Changes, limit: int | None
) -> None:
    """What has printed nothing leaves no file behind; a byte is enough to keep it."""
    output = replace(output_of(harness, limit), drops_empty=True)
    other = replace(output, path=output.path.with_name("2-1.log"))
    assert harness.run("printf x", output=other).exit.code == 0
    assert harness.run("true", output=output).exit.code == 0
    removed.wait()
    assert [path.name for path in output.path.parent.iterdir()] == ["2-1.log"]


def test_an_empty_output_is_kept_for_what_can_still_write(
    harness: Harness, removed: Changes
) -> None:
    """A process that is left behind finds its file; only when it has gone, too, is it empty."""
    gate = harness.fifo("gate")
    output = replace(output_of(harness), drops_empty=True)
    assert harness.run(f"setsid sh -c 'read x <{gate}' & exit 0", output=output).exit.code == 0
    other = replace(output, path=output.path.with_name("2-1.log"))
    assert harness.run("true", output=other).exit.code == 0
    removed.wait()
    assert [path.name for path in output.path.parent.iterdir()] == ["1-1.log"]
    gate.write_text("go\n")
    removed.wait()
    assert list(output.path.parent.iterdir()) == []


def test_a_flood_of_what_is_left_behind_is_bounded(harness: Harness) -> None:
    """P8: the limit holds also for what is printed after the command itself has ended."""
    gate = harness.fifo("gate")
    (harness.directory / "output").mkdir()
    output = output_of(harness)
    flood = f"setsid sh -c 'head -c 20000000 /dev/zero; read x <{gate}' & exit 0"
    assert harness.run(flood, output=output).exit.code == 0
    changes = Changes(output.path.parent, MODIFIED)
    while not (output.path.stat().st_size == 20_000_000 and taken(output.path) < 1 << 20):
        changes.wait()
    changes.close()
    gate.write_text("go\n")


def test_without_holes_a_file_is_brought_to_its_limit_at_the_end(
    harness: Harness,
    compacted: Changes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P8: a file system that cannot do it is told of once; the limit holds at the end."""

    def unable(*_arguments: object) -> int:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(upkeep, "punch", unable)
    output = output_of(harness)
    harness.run("seq 50000; seq 50001 100000", output=output)
    compacted.wait()
    assert output.path.read_bytes() == SHORTENED
    assert caplog.text.count("Operation not supported") <= 1


def test_without_inotify_a_file_is_brought_to_its_limit_at_the_end(
    harness: Harness,
    compacted: Changes,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """P8: where the kernel watches no more files that is said once, and hurts nothing else."""

    def unable() -> Inotify:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr(upkeep, "Inotify", unable)
    output = output_of(harness)
    harness.run("seq 100000", output=output)
    compacted.wait()
    assert output.path.read_bytes() == SHORTENED
    assert caplog.text.count("can only be looked at when its run ends") == 1


@pytest.mark.parametrize("place", ["inotify_init1", "inotify_add_watch"])
def test_without_inotify_what_is_left_behind_is_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """P8: nobody would ever say that it is to be looked at again, so it is not kept for that."""

    def unable(*_arguments: object) -> Inotify:
        raise OSError(errno.ENOSPC, "No space left on device")

    if place == "inotify_init1":
        monkeypatch.setattr(upkeep, "Inotify", unable)
    else:
        monkeypatch.setattr(Inotify, "add", unable)
    told: list[str] = []
    kept = Kept(AttemptKey(1, 1), OutputSpec(tmp_path / "1-1.log", limit_bytes=LIMIT), None)
    looker = Upkeep(SystemClock(), select.poll(), lambda message, _error: told.append(message))
    with kept.output.path.open("wb") as file:
        file.write(NUMBERS)
        file.flush()
        looker.take(kept)
        assert looker._kept == {kept.key: kept}
        looker.end(kept.key)
        assert not looker._kept
        assert taken(kept.output.path) < len(NUMBERS)
    assert set(told) == {"output can only be looked at when its run ends"}
    looker.close(timedelta(0))


def test_a_file_that_is_removed_meanwhile_is_no_fault(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """Somebody who removes an output gets rid of it."""
    gate = harness.fifo("gate")
    output = output_of(harness)
    key = harness.start(f"echo a; read x <{gate}; seq 100000", output=output)
    harness.started(key)
    output.path.unlink()
    gate.write_text("go\n")
    assert harness.ended(key).exit.code == 0
    harness.runner.close()
    assert not caplog.records


def test_a_job_that_empties_its_own_output_is_told_of(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """A shell's ``> /dev/stderr`` does that; nobody should have to wonder where the rest is."""
    gate = harness.fifo("gate")
    output = output_of(harness)
    key = harness.start(f"seq 1000; read x <{gate}; echo end >/dev/stderr", output=output)
    harness.started(key)
    changes = Changes(harness.directory / "output", MODIFIED)
    while output.path.stat().st_size < NUMBERS.index(b"1001"):
        changes.wait()
    changes.close()
    is_seen = threading.Event()

    def see(upkeep: Upkeep) -> None:
        upkeep._look(upkeep._kept[key])
        is_seen.set()

    harness.runner._keeper._say(see)
    assert is_seen.wait(PATIENCE_S)
    gate.write_text("go\n")
    harness.ended(key)
    harness.runner.close()
    assert output.path.read_bytes() == b"end\n"
    assert "cut off by its own job" in caplog.text


def test_an_attempt_that_ended_unseen_is_settled(harness: Harness, compacted: Changes) -> None:
    """P8: after a crash its output is brought to its limit, and once more changes nothing."""
    output = output_of(harness)
    output.path.write_bytes(NUMBERS)
    spec = harness.spec("true", output=output)
    harness.runner.settle(spec)
    compacted.wait()
    assert output.path.read_bytes() == SHORTENED
    harness.runner.settle(spec)
    harness.runner.close()
    assert output.path.read_bytes() == SHORTENED


# --- compaction ---------------------------------------------------------------------------------


def test_a_full_disk_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: where the new file cannot be written the old one stays, and nothing lies beside it."""

    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / "1-1.log"
    path.write_bytes(NUMBERS)
    monkeypatch.setattr(compaction, "write_all", full)
    with pytest.raises(OSError, match="No space"):
        compact(path, LIMIT)
    assert path.read_bytes() == NUMBERS
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_written_to_is_left_alone(tmp_path: Path) -> None:
    """Its writer's next bytes would go into the file that has been replaced."""
    path = tmp_path / "1-1.log"
    path.write_bytes(NUMBERS)
    with path.open("ab"):
        assert not compact(path, LIMIT)
    assert path.read_bytes() == NUMBERS
    assert compact(path, LIMIT)


def test_a_file_that_is_removed_while_it_is_compacted_stays_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was let go by ``keep`` does not come back."""
    path = tmp_path / "1-1.log"
    path.write_bytes(NUMBERS)
    copy = compaction._copy

    def removed_meanwhile(source: int, begin: int, end: int, target: int) -> None:
        path.unlink(missing_ok=True)
        copy(source, begin, end, target)

    monkeypatch.setattr(compaction, "_copy", removed_meanwhile)
    with pytest.raises(FileNotFoundError):
        compact(path, LIMIT)
    assert list(tmp_path.iterdir()) == []


def test_a_leftover_of_a_crash_is_no_hindrance(tmp_path: Path) -> None:
    """P8: what a crash has left beside the file is begun anew."""
    path = tmp_path / "1-1.log"
    path.write_bytes(NUMBERS)
    (tmp_path / "1-1.log.new").write_text("half of it")
    assert compact(path, LIMIT)
    assert path.read_bytes() == SHORTENED
    assert list(tmp_path.iterdir()) == [path]


def test_holes_of_another_limit_are_left_out_too(tmp_path: Path) -> None:
    """A file with the hole of a smaller limit keeps what there is, and counts what there is not."""
    path = tmp_path / "1-1.log"
    path.write_bytes(NUMBERS)
    with path.open("r+b") as file:
        end = holes.punch(file.fileno(), 8192, len(NUMBERS) - 8192)
    assert compact(path, LIMIT)
    assert path.read_bytes() == (
        NUMBERS[:8192].removesuffix(b"\n")
        + f"\n[pycron: {end - 8192} bytes left out here]\n".encode()
        + NUMBERS[end:]
    )


def test_a_file_with_very_many_holes_takes_little_memory(tmp_path: Path) -> None:
    """P8: a job that makes holes in its own output does not choose how much of ours it takes."""
    path = tmp_path / "1-1.log"
    number = 4000
    with path.open("wb") as file:
        for place in range(number):
            os.pwrite(file.fileno(), b"line\n", place * 8192)
    assert taken(path) < path.stat().st_size  # there are holes
    tracemalloc.start()
    try:
        shown = b"".join(read_output_bytes(path, tail_lines=3))
        assert compact(path, LIMIT)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert shown.endswith(b"line\n")
    assert most < 200_000  # a hundred bytes for each would be twice that
    assert gap_line(1)[:9].encode() in path.read_bytes()


def test_lines_are_looked_for_behind_so_many_holes_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who asks for more lines than that many stretches have gets what these have."""
    monkeypatch.setattr(output, "MOST_STRETCHES", 3)
    path = tmp_path / "1-1.log"
    with path.open("wb") as file:
        for place in range(5):
            os.pwrite(file.fileno(), b"x" * 4095 + b"\n", place * 8192)
    gap, line = (gap_line(4096) + "\n").encode(), b"x" * 4095 + b"\n"
    for lines, shown in (
        (2, gap + line),
        (4, gap + line + gap + line),
        (9, 2 * (line + gap) + line),
    ):
        assert b"".join(read_output_bytes(path, tail_lines=lines)) == shown


# --- holes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "end", "hole"),
    [
        (0, 4096, (0, 4096)),
        (1, 4095, None),
        (1, 8191, None),
        (1, 8192, (4096, 8192)),
        (4096, 20_000, (4096, 16_384)),
    ],
)
def test_only_whole_blocks_are_given_up(
    tmp_path: Path, begin: int, end: int, hole: tuple[int, int] | None
) -> None:
    """No byte outside of what was said is lost."""
    data = bytes(range(1, 251)) * 200
    path = tmp_path / "file"
    path.write_bytes(data)
    with path.open("r+b") as file:
        assert holes.punch(file.fileno(), begin, end) == (hole[1] if hole else begin)
    first, last = hole or (0, 0)
    assert path.read_bytes() == data[:first] + bytes(last - first) + data[last:]


def test_a_hole_that_comes_while_it_is_read_is_not_read_as_nuls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is given up between the search for data and the reading of it counts as left out."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 20_000)
    read = os.pread

    def punched_meanwhile(descriptor: int, number: int, offset: int) -> bytes:
        monkeypatch.setattr(os, "pread", read)
        with path.open("r+b") as file:
            holes.punch(file.fileno(), 4096, 12_288)
        return read(descriptor, number, offset)

    monkeypatch.setattr(os, "pread", punched_meanwhile)
    shown = b"".join(read_output_bytes(path))
    assert shown == b"x" * 4096 + b"\n[pycron: 8192 bytes left out here]\n" + b"x" * 7712


@pytest.mark.parametrize("moment", [os.SEEK_DATA, os.SEEK_HOLE])
def test_what_is_appended_while_it_is_read_is_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: int
) -> None:
    """P8: who reads at the end of a file that grows just then gets the new lines, all and whole."""
    path = tmp_path / "file"
    path.write_bytes(b"one\n")
    seek = os.lseek

    def appended_to(descriptor: int, offset: int, what: int) -> int:
        try:
            return seek(descriptor, offset, what)
        finally:
            if what == moment:
                monkeypatch.setattr(os, "lseek", seek)
                with path.open("ab") as file:
                    file.write(b"two\n")

    with path.open("rb") as file:
        monkeypatch.setattr(os, "lseek", appended_to)
        end = 4 if moment == os.SEEK_DATA else 0
        first = holes.read_on(file.fileno(), end, 1000)
        rest = holes.read_on(file.fileno(), first.begin + len(first.data), 1000)
    assert not first.is_cut
    assert first.begin == end
    assert b"one\n"[:end] + first.data + rest.data == b"one\ntwo\n"


@pytest.mark.parametrize(
    ("pieces", "shown"),
    [
        ([b"a" * 4096], "a*4096"),
        ([b"", b"b\n"], "[pycron: 4096 bytes left out here]\nb\n"),
        ([b"a" * 4095 + b"\n", b"b"], "a*4095\n[pycron: 4096 bytes left out here]\nb"),
        ([b"a" * 4096, b""], "a*4096\n[pycron: 4096 bytes left out here]\n"),
        ([b"", b""], "[pycron: 4096 bytes left out here]\n"),
    ],
)
def test_a_hole_is_shown_as_a_line_of_its_own(
    tmp_path: Path, pieces: list[bytes], shown: str
) -> None:
    """Wherever it is; a line that it cuts ends before it."""
    path = tmp_path / "file"
    with path.open("wb") as file:
        for number, piece in enumerate(pieces):
            file.seek(0, os.SEEK_END)
            if number:
                file.truncate(file.tell() + 4096)
                file.seek(0, os.SEEK_END)
            file.write(piece)
    expected = re.sub(r"a\*(\d+)", lambda match: "a" * int(match[1]), shown)
    assert "".join(read_output(path)) == expected
    for count in range(5):
        lines = expected.splitlines(keepends=True)
        wanted = "".join(lines[len(lines) - min(count, len(lines)) :])
        assert "".join(read_output(path, tail_lines=count)) == wanted


def test_a_writer_is_seen(tmp_path: Path) -> None:
    """Who has the file open for writing is one, who reads it is none."""
    path = tmp_path / "file"
    path.write_bytes(b"")
    reader = os.open(path, os.O_RDONLY)
    assert has_writer(reader) is False
    changes = Changes(tmp_path, CLOSED_BY_WRITER)
    writer = os.open(path, os.O_WRONLY)
    assert has_writer(reader) is True
    os.close(writer)
    changes.wait()
    changes.close()
    assert has_writer(reader) is False
    os.close(reader)


def test_nobody_outlives_the_thread_that_keeps_outputs_small(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: no daemon goes on whose outputs would grow without bounds."""

    def fail(_self: Upkeep) -> NoReturn:
        raise MemoryError("planted")

    monkeypatch.setattr(Upkeep, "attend", fail)
    ended = []
    with ending_by(lambda: ended.append(threading.current_thread().name)):
        keeper = Keeper(SystemClock())
        spec = ProcessSpec(AttemptKey(1, 1), "x-1", ("true",), {}, "/", 0o022, None)
        keeper.settle(replace(spec, output=OutputSpec(tmp_path / "out", limit_bytes=10_000)))
        assert keeper._thread is not None
        keeper._thread.join()
        keeper.close()
    assert ended == ["pycron-keeper"]
