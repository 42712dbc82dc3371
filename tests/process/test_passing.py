"""Passing on what processes print: every line, as it was, once, and nobody is held up."""

from __future__ import annotations

import logging
import queue
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crond_py.clock import SystemClock
from crond_py.model import OutputMode
from crond_py.ports import AttemptKey, OutputSpec, PrintedLines
from crond_py.runner import journal, passing, upkeep
from crond_py.runner.holes import punch
from crond_py.runner.journal import JournalSink
from crond_py.runner.passing import GOES_ON, LONGEST_BYTES, Passer, Progress, split
from crond_py.runner.process import ProcessRunner
from tests.process.conftest import PATIENCE_S, Harness

KEY = AttemptKey(12, 1)


class Sink:
    """Takes lines, at most ``room`` of them; None: any number."""

    def __init__(self) -> None:
        self.room: int | None = None
        self.lines: queue.Queue[str] = queue.Queue()
        self.refused = threading.Event()
        self.on_room: list[Callable[[], None]] = []

    def offer(self, printed: PrintedLines, on_room: Callable[[], None]) -> int:
        """See ports.LineSink."""
        taken = printed.lines[: self.room]
        for line in taken:
            self.lines.put(line)
        if len(taken) < len(printed.lines):
            if on_room not in self.on_room:
                self.on_room.append(on_room)
            self.refused.set()
        return len(taken)

    def make_room(self) -> None:
        """Take anything from now on."""
        self.room = None
        waiting, self.on_room = self.on_room, []
        for on_room in waiting:
            on_room()

    def next(self, number: int) -> list[str]:
        """Wait for so many lines."""
        return [self.lines.get(timeout=PATIENCE_S) for _ in range(number)]

    def rest(self) -> list[str]:
        """Return what has come and was not asked for yet."""
        return [self.lines.get() for _ in range(self.lines.qsize())]


class Mentions(logging.Handler):
    """Waits until something has been logged so often."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text
        self._found: queue.Queue[str] = queue.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        """Note a record that has the text."""
        if self._text in record.getMessage():
            self._found.put(record.getMessage())

    def wait(self, number: int) -> None:
        """Wait for so many."""
        for _ in range(number):
            self._found.get(timeout=PATIENCE_S)

    @contextmanager
    def counted(self) -> Iterator[None]:
        """Count in the block."""
        logger = logging.getLogger("pycron.output")
        logger.addHandler(self)
        try:
            yield
        finally:
            logger.removeHandler(self)


@pytest.fixture
def sink() -> Sink:
    """Make a sink with room for all."""
    return Sink()


@pytest.fixture
def streaming(tmp_path: Path, sink: Sink) -> Iterator[Harness]:
    """Give a runner that passes on to the sink."""
    harness = Harness(tmp_path)
    (tmp_path / "output").mkdir()
    harness.runner = ProcessRunner(
        harness._queue.put, SystemClock(), sinks={OutputMode.STREAM: sink}
    )
    harness.runner.open()
    yield harness
    harness.clean_up()


def output_of(harness: Harness, limit: int | None = None) -> OutputSpec:
    """Return where a test's process writes to."""
    path = harness.directory / "output" / "1-1.log"
    return OutputSpec(path, "backup", limit, OutputMode.STREAM)


# --- real processes -----------------------------------------------------------------------------


def test_lines_are_passed_on_when_they_are_printed(streaming: Harness, sink: Sink) -> None:
    """The process goes on while its lines are passed on; the last may lack its newline."""
    gate = streaming.fifo("gate")
    command = f"echo one; echo; read x <{gate}; printf 'two\\nlast'"
    key = streaming.start(command, output=output_of(streaming))
    assert sink.next(2) == ["one", ""]
    gate.write_text("go\n")
    assert sink.next(2) == ["two", "last"]
    assert streaming.ended(key).exit.code == 0
    streaming.runner.close()
    assert sink.rest() == []
    assert output_of(streaming).path.read_bytes() == b"one\n\ntwo\nlast"


def test_all_of_many_lines(streaming: Harness, sink: Sink) -> None:
    """None is lost, doubled or out of order, however fast they come."""
    streaming.run("seq 20000", output=output_of(streaming))
    assert sink.next(20_000) == [str(number) for number in range(1, 20_001)]
    streaming.runner.close()
    assert sink.rest() == []


def test_a_sink_without_room_holds_up_nobody(streaming: Harness, sink: Sink) -> None:
    """P4: the process ends as if nothing were; its lines are passed on once there is room."""
    sink.room = 0
    assert streaming.run("seq 1000", output=output_of(streaming)).exit.code == 0
    assert sink.refused.wait(PATIENCE_S)
    sink.make_room()
    assert sink.next(1000) == [str(number) for number in range(1, 1001)]


def test_a_sink_that_never_has_room_is_left_at_the_end(
    streaming: Harness, sink: Sink, caplog: pytest.LogCaptureFixture
) -> None:
    """P8: the end of the daemon does not wait for it for ever, and says what was not passed on."""
    sink.room = 0
    streaming.run("seq 1000", output=output_of(streaming))
    assert sink.refused.wait(PATIENCE_S)
    streaming.runner.close()
    assert "output was not all passed on" in caplog.text


def test_only_so_many_wait_for_a_sink(
    streaming: Harness,
    sink: Sink,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P8: where nobody ever reads, what has ended is given up in the end, and nothing piles up."""
    monkeypatch.setattr(upkeep, "MOST_BLOCKED", 1)
    sink.room = 0
    given_up = Mentions("output was not all passed on")
    with given_up.counted():
        for number in range(3):
            output = replace(output_of(streaming), path=streaming.directory / f"{number}.log")
            streaming.run("seq 100", output=output)
        given_up.wait(2)
    sink.make_room()
    assert sink.next(100) == [str(number) for number in range(1, 101)]


def test_what_is_given_up_meanwhile_is_told(streaming: Harness, sink: Sink) -> None:
    """Lines that come faster than they are taken are left out of both, and a line says so."""
    sink.room = 0
    output = output_of(streaming, limit=10_000)
    streaming.run("seq 200000", output=output)
    assert sink.refused.wait(PATIENCE_S)
    sink.make_room()
    lines = []
    while lines[-1:] != ["200000"]:
        lines += sink.next(1)
    assert lines[0] == "1"
    assert sum(line.startswith("[pycron: ") for line in lines) == 1
    streaming.runner.close()
    assert lines[-700:] == [str(number) for number in range(199_301, 200_001)]


def test_another_daemon_goes_on_where_the_first_has_left_off(
    streaming: Harness, sink: Sink
) -> None:
    """P5: across a restart no line is passed on twice, and none is forgotten."""
    gate, other = streaming.fifo("gate"), streaming.fifo("other")
    output = output_of(streaming)
    command = f"echo one; read x <{gate}; echo two; read x <{other}; echo three"
    spec = streaming.spec(command, output=output)
    streaming.runner.start(spec)
    streaming.started(spec.key)
    assert sink.next(1) == ["one"]
    streaming.runner.close()
    gate.write_text("go\n")
    with other.open("w"):  # it waits here, so it has printed
        streaming.runner = ProcessRunner(
            streaming._queue.put, SystemClock(), sinks={OutputMode.STREAM: sink}
        )
        streaming.runner.open()
        (survivor,) = streaming.runner.survivors(streaming.identity)
        assert streaming.runner.adopt(spec, survivor)
        assert sink.next(1) == ["two"]
    assert sink.next(1) == ["three"]


def test_the_rest_of_an_attempt_that_ended_unseen(streaming: Harness, sink: Sink) -> None:
    """P5: what was printed while no daemon was there is passed on when the run is settled."""
    output = output_of(streaming)
    spec = streaming.spec("echo one; echo two", output=output)
    sink.room = 1
    streaming.runner.start(spec)
    streaming.ended(spec.key)
    assert sink.next(1) == ["one"]
    streaming.runner.close()
    sink.rest()
    other = Sink()
    streaming.runner = ProcessRunner(
        streaming._queue.put, SystemClock(), sinks={OutputMode.STREAM: other}
    )
    streaming.runner.settle(spec)
    assert other.next(1) == ["two"]


# --- lines --------------------------------------------------------------------------------------


@given(st.binary(max_size=300), st.integers(4, 60))
def test_splitting_loses_nothing(data: bytes, longest: int) -> None:
    """Pieces put together are the whole, and none but the last lacks its end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passing, "LONGEST_BYTES", longest)
        patch.setattr(passing, "_AT_ONCE_LINES", 1000)
        found = split(data, is_last=True)
    ends = [0, *(end for _, end in found)]
    pieces = [data[a:b] for a, b in pairwise(ends)]
    assert b"".join(pieces) == data
    for (text, _), piece in zip(found, pieces, strict=True):
        goes_on = text.endswith(GOES_ON) and not piece.endswith(b"\n")
        assert len(piece) <= longest + 1
        shown = piece.removesuffix(b"\n").decode("utf-8", "replace")
        assert text == shown + (GOES_ON if goes_on else "")


def test_what_follows_the_last_newline_waits() -> None:
    """A line is passed on when it is whole; at the end what there is."""
    assert split(b"one\ntw", is_last=False) == [("one", 4)]
    assert split(b"one\ntw", is_last=True) == [("one", 4), ("tw", 6)]


def test_a_long_line_is_cut_between_characters() -> None:
    """Each piece but the last says that the line goes on, and no character is torn."""
    line = "ü" * LONGEST_BYTES  # two bytes each
    (first, place), (second, _) = split(f"a{line}\n".encode(), is_last=False)[:2]
    assert first == "a" + "ü" * (LONGEST_BYTES // 2 - 1) + GOES_ON
    assert place == LONGEST_BYTES - 1
    assert "\ufffd" not in second


def test_a_file_that_was_cut_off_begins_anew(tmp_path: Path, sink: Sink) -> None:
    """A shell's ``> /dev/stderr`` empties the file: what is there then is new."""
    path = tmp_path / "file"
    passer = Passer("backup", KEY, sink, lambda: None, resumes=False)
    for text in ("one\ntwo\n", "new\n"):
        path.write_text(text)
        with path.open("rb") as file:
            passer.pass_on(file.fileno(), is_over=False)
    assert sink.rest() == ["one", "two", "new"]


def test_a_line_that_a_hole_has_cut_is_passed_on(tmp_path: Path, sink: Sink) -> None:
    """Its end will never come; what follows is the line that tells of the gap."""
    path = tmp_path / "file"
    path.write_bytes(b"x" * 4096 + b"y" * 8192 + b"end\n")
    passer = Passer("backup", KEY, sink, lambda: None, resumes=False)
    with path.open("r+b") as file:
        punch(file.fileno(), 4096, 12_288)
        while passer.pass_on(file.fileno(), is_over=False) is not Progress.IDLE:
            pass
    assert sink.rest() == ["x" * 4096, "[pycron: 8192 bytes left out here]", "end"]


# --- the journal --------------------------------------------------------------------------------


def test_each_line_is_an_entry_of_the_journal(tmp_path: Path) -> None:
    """P9: the fields are as documented, and nothing that is printed makes another field."""
    path = tmp_path / "journal"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(str(path))
        reader.settimeout(PATIENCE_S)
        printed = PrintedLines("backup", KEY, ("one", "a\rPRIORITY=0\x1b[2J", ""))
        with closing(JournalSink(path)) as sink:
            assert sink.offer(printed, lambda: None) == 3
        messages = [reader.recv(65536).decode().splitlines() for _ in range(3)]
    for message, shown in zip(messages, ("one", "a\\rPRIORITY=0\\x1b[2J", ""), strict=True):
        assert message == [
            "PRIORITY=6",
            "SYSLOG_IDENTIFIER=backup",
            "PYCRON_JOB=backup",
            "PYCRON_RUN=12",
            "PYCRON_ATTEMPT=1",
            f"MESSAGE={shown}",
        ]


def test_the_longest_line_fits_into_an_entry(tmp_path: Path) -> None:
    """Also where every byte of it has to be escaped."""
    path = tmp_path / "journal"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(str(path))
        line = "\x01" * LONGEST_BYTES + GOES_ON
        with closing(JournalSink(path)) as sink:
            assert sink.offer(PrintedLines("backup", KEY, (line,)), lambda: None) == 1
        assert len(reader.recv(1 << 20)) > 4 * LONGEST_BYTES


def test_a_journal_that_takes_its_time_is_waited_for(tmp_path: Path) -> None:
    """P4: what it does not take now is offered again when it has room, and nobody waits."""
    path = tmp_path / "journal"
    has_room = threading.Event()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(str(path))
        reader.settimeout(PATIENCE_S)
        sink = JournalSink(path)
        lines = tuple(map(str, range(100_000)))
        taken = sink.offer(PrintedLines("backup", KEY, lines), has_room.set)
        assert 0 < taken < len(lines)
        assert not has_room.is_set()
        for _ in range(taken):
            reader.recv(65536)
        assert has_room.wait(PATIENCE_S)
        assert sink.offer(PrintedLines("backup", KEY, ("next",)), has_room.set) == 1
        assert reader.recv(65536).endswith(b"MESSAGE=next\n")
        sink.close()


def test_the_journal_is_waited_for_again_after_there_was_no_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """P8: while there is no thread to wait with, lines are let go, which is said; then no more."""
    path = tmp_path / "journal"
    has_room = threading.Event()
    printed = PrintedLines("backup", KEY, tuple(map(str, range(100_000))))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(str(path))
        reader.setblocking(False)
        sink = JournalSink(path)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", _no_thread)
            assert sink.offer(printed, has_room.set) == len(printed.lines)
        assert "not passed on to the journal" in caplog.text
        assert "no new thread" in caplog.text
        assert sink.offer(printed, has_room.set) < len(printed.lines)
        with suppress(BlockingIOError):
            while reader.recv(65536):
                pass
        assert has_room.wait(PATIENCE_S)
        sink.close()


def _no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("no new thread")


def test_who_waits_for_a_socket_that_is_closed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: else nobody would ever wait for the journal again."""
    path = tmp_path / "journal"
    has_room = threading.Event()
    held: list[threading.Thread] = []

    def hold(thread: threading.Thread) -> None:
        held.append(thread)

    printed = PrintedLines("backup", KEY, tuple(map(str, range(100_000))))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(str(path))
        sink = JournalSink(path)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", hold)
            assert sink.offer(printed, has_room.set) < len(printed.lines)
        sink.close()
        held[0].start()
        assert has_room.wait(PATIENCE_S)


def test_without_a_journal_the_file_has_it_all(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """P8: that there is none is said once, until it is there and goes again."""
    path = tmp_path / "journal"
    sink = JournalSink(path)
    printed = PrintedLines("backup", KEY, ("one",))
    for _ in range(3):
        assert sink.offer(printed, lambda: None) == 1
    assert caplog.text.count("not passed on to the journal") == 1
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(str(path))
        assert sink.offer(printed, lambda: None) == 1
        assert reader.recv(65536).endswith(b"MESSAGE=one\n")
    sink.offer(printed, lambda: None)
    assert caplog.text.count("not passed on to the journal") == 2


def test_jobs_of_the_journal_go_there(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mode of a job decides; the file has all in any case."""
    path = harness.directory / "journal"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as reader:
        reader.bind(str(path))
        reader.settimeout(PATIENCE_S)
        sinks = {OutputMode.JOURNAL: journal.JournalSink(path)}
        other = Harness(harness.directory)
        other.runner = ProcessRunner(other._queue.put, SystemClock(), sinks=sinks)
        other.runner.open()
        output = OutputSpec(harness.directory / "1-1.log", "backup", None, OutputMode.JOURNAL)
        other.run("echo hello", output=output)
        assert reader.recv(65536).endswith(b"MESSAGE=hello\n")
        assert output.path.read_bytes() == b"hello\n"
        other.clean_up()
        sinks[OutputMode.JOURNAL].close()
