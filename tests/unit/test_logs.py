"""The log: what its lines look like, and that it holds up nobody."""

from __future__ import annotations

import fcntl
import json
import logging
import os
import re
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest

from crond_py.descriptors import occupy_standard_descriptors
from crond_py.errors import PycronError
from crond_py.logs import configure_logging
from crond_py.logs.lines import JsonFormatter, TextFormatter
from crond_py.logs.writer import LogWriter, Outlet
from crond_py.ports import AttemptKey, PrintedLines

PATIENCE = timedelta(seconds=60)

# 2026-11-29 16:00:01.003 UTC
INSTANT = datetime(2026, 11, 29, 16, 0, 1, 3000, UTC)

HOSTILE = [
    pytest.param("a\nb", "a\\nb", id="newline"),
    pytest.param("a\r\x1b[2Jb", "a\\r\\x1b[2Jb", id="escape sequence"),
    pytest.param("a\x00\x7f\x9bb", "a\\x00\\x7f\\x9bb", id="NUL, DEL and the 8-bit CSI"),
    pytest.param("a\u2028b\u202eb", "a\\u2028b\\u202eb", id="line separator and bidi override"),
    pytest.param("a\udc80b", "a\\udc80b", id="a byte that was not UTF-8"),
    pytest.param("naïve ☂ 時", "naïve ☂ 時", id="what people write stays"),
]


def record(
    message: str = "run started",
    *args: object,
    level: int = logging.INFO,
    error: BaseException | None = None,
    **fields: object,
) -> logging.LogRecord:
    """Return a record of INSTANT."""
    info = (type(error), error, error.__traceback__) if error is not None else None
    made = logging.LogRecord("pycron.test", level, "f.py", 1, message, args, info)
    made.created = INSTANT.timestamp()
    made.fields = fields
    return made


@pytest.fixture
def _berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put the system into Berlin's zone: one hour ahead of UTC in November."""
    import time

    with monkeypatch.context() as patch:
        patch.setenv("TZ", "Europe/Berlin")
        time.tzset()
        yield
    time.tzset()


# --- lines for people -----------------------------------------------------------------------


@pytest.mark.usefixtures("_berlin")
def test_a_line_has_local_time_level_message_and_fields() -> None:
    """A person reads when by the clock on the wall, how grave, what, and then the particulars."""
    line = TextFormatter().format(
        record("%s started", "run", job="backup", run=12, due=INSTANT, reason=None)
    )
    assert line == (
        "2026-11-29 17:00:01.003+01:00 INFO    run started  "
        "job=backup run=12 due=2026-11-29T17:00:01.003000+01:00"
    )


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("", '""'),
        ("two words", '"two words"'),
        ('say "x"', '"say \\"x\\""'),
        ("a=b", '"a=b"'),
        ("back\\slash", '"back\\\\slash"'),
        (("a", "b"), "a,b"),
        (timedelta(seconds=90), "90s"),
        (timedelta(microseconds=3749), "0.004s"),
        (timedelta(0), "0s"),
        (Path("/a"), "/a"),
    ],
)
def test_a_field_is_one_word_or_quoted(value: object, shown: str) -> None:
    """Where one field ends and the next begins can always be told."""
    assert TextFormatter().format(record("x", key=value)).endswith(f"x  key={shown}")


@pytest.mark.parametrize(("hostile", "shown"), HOSTILE)
def test_nothing_forges_a_line_or_drives_a_terminal(hostile: str, shown: str) -> None:
    """P9: control characters in a message or a field are shown, not sent."""
    line = TextFormatter().format(record("%s", hostile, key=hostile))
    assert line.count(shown) == 2
    assert "\n" not in line
    assert not re.search("[\x00-\x1f\x7f-\x9f\u2028\u202e\udc80]", line)


def raised(message: str) -> Exception:
    """Return an exception with a traceback."""
    with pytest.raises(ValueError) as caught:
        raise ValueError(message)
    return caught.value


@pytest.fixture
def _without_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse the module that formats tracebacks, which is loaded when it is first used."""

    def refuse(*_arguments: object) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr("traceback.print_exception", refuse)


@pytest.mark.usefixtures("_without_descriptors")
@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()], ids=["text", "json"])
def test_a_traceback_is_told_where_no_file_can_be_read(formatter: logging.Formatter) -> None:
    """P8: out of descriptors, or after an upgrade of Python, a fault is told without its source."""
    text = formatter.format(record(error=raised("it\nwent wrong")))
    assert re.search(r"File .*test_logs.py.*, line [0-9]+, in raised", text)
    assert "ValueError: it" in text
    assert len(text.splitlines()) == (1 if isinstance(formatter, JsonFormatter) else 5)


class _UnspeakableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("it cannot be told")


@pytest.mark.usefixtures("_without_descriptors")
def test_whoever_logs_is_spared_what_the_log_suffers(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """P8: nothing is raised out of a call that logs; its thread may be the one that watches all."""
    log = configure_logging("text", stream=sys.stderr)
    handler = log._handler
    handler.emit(record("told", error=_UnspeakableError()))
    with monkeypatch.context() as patch:
        patch.setattr(TextFormatter, "format", lambda *_: 1 / 0)
        handler.emit(record("not told"))
    assert log.close(PATIENCE)
    lines = capfd.readouterr().err.splitlines()
    assert lines[0].endswith("told")
    assert lines[-1].endswith("_UnspeakableError")


def test_a_traceback_cannot_look_like_a_line_of_its_own() -> None:
    """P9: what an exception says stays behind the bar that marks a traceback."""
    error = raised("no\n2026-11-29 17:00:01.003+01:00 INFO    forged\x1b[2J")
    first, *others = TextFormatter().format(record("x", error=error)).split("\n")
    assert first.endswith("x")
    assert all(line.startswith("    | ") for line in others)
    assert others[0] == "    | Traceback (most recent call last):"
    assert others[-1].endswith("forged\\x1b[2J")


@pytest.mark.parametrize(
    ("level", "priority"),
    [
        (logging.CRITICAL, 2),
        (logging.ERROR, 3),
        (logging.WARNING, 4),
        (logging.INFO, 6),
        (logging.DEBUG, 7),
    ],
)
def test_every_line_for_the_journal_has_its_priority(level: int, priority: int) -> None:
    """The journal gets sd-daemon(3)'s priority on each line, and no second time."""
    text = TextFormatter(for_journal=True).format(
        record("x", level=level, error=raised("no"), job="a")
    )
    lines = text.split("\n")
    assert lines[0] == f"<{priority}>x  job=a"
    assert len(lines) > 2
    assert all(line.startswith(f"<{priority}>") for line in lines)


def test_long_texts_are_cut() -> None:
    """One message of megabytes does not fill the queue: it is cut, and says so."""
    for formatter in (TextFormatter(), JsonFormatter()):
        line = formatter.format(record("x" * 10_000_000, key="y" * 10_000_000))
        assert len(line) < 20_000
        assert line.count("...[cut]") == 2


# --- lines for programs ---------------------------------------------------------------------


def test_a_json_line_is_an_object_in_utc() -> None:
    """A program finds time, level, event and the fields by name, instants in RFC 3339 and UTC."""
    zone = timezone(timedelta(hours=5, minutes=30))
    line = JsonFormatter().format(
        record(
            "run %d started", 12, level=logging.WARNING, job="backup", run=12,
            due=INSTANT.astimezone(zone), after=timedelta(minutes=1.5), tags=["a", "b"],
            ratio=float("inf"), ok=True, reason=None,
        )
    )  # fmt: skip
    assert json.loads(line) == {
        "time": "2026-11-29T16:00:01.003Z",
        "level": "warning",
        "logger": "pycron.test",
        "event": "run 12 started",
        "job": "backup",
        "run": 12,
        "due": "2026-11-29T16:00:01.003Z",
        "after": 90.0,
        "tags": ["a", "b"],
        "ratio": "inf",
        "ok": True,
    }


@pytest.mark.parametrize(("hostile", "_shown"), HOSTILE)
def test_a_json_line_is_one_line_of_plain_ascii(hostile: str, _shown: str) -> None:
    """P9: nothing in it can act on a terminal, and a program still gets the text as it was."""
    line = JsonFormatter().format(record("%s", hostile, key=hostile, error=raised(hostile)))
    assert re.fullmatch("[\x20-\x7e]+", line)
    assert json.loads(line)["key"] == hostile


def test_a_field_cannot_pose_as_the_line_s_own() -> None:
    """A field of a reserved name keeps out of the way."""
    read = json.loads(JsonFormatter().format(record("x", level_="b", time="never")))
    assert read["time"] == "2026-11-29T16:00:01.003Z"
    assert read["time_"] == "never"


# --- what jobs print ------------------------------------------------------------------------

PRINTED = {"job": "back up", "run": 12, "attempt": 1}


@pytest.mark.usefixtures("_berlin")
def test_a_printed_line_for_people() -> None:
    """P9: it comes behind the fields, so that it cannot pass for a line of the daemon's."""
    lines = TextFormatter().format_printed(record("output", **PRINTED), ["one", "x  job=a\n\x1b"])
    before = '2026-11-29 17:00:01.003+01:00 OUTPUT  job="back up" run=12 attempt=1 | '
    assert lines == f"{before}one\n{before}x  job=a\\n\\x1b"
    lines = TextFormatter(for_journal=True).format_printed(record("output", **PRINTED), ["<0>a"])
    assert lines == '<6>job="back up" run=12 attempt=1 | <0>a'


@pytest.mark.parametrize(("hostile", "_shown"), HOSTILE)
def test_a_printed_line_for_programs(hostile: str, _shown: str) -> None:
    """P9: it is a field of the event "output", whatever it says."""
    lines = JsonFormatter().format_printed(record("output", **PRINTED), [hostile, '"}'])
    assert re.fullmatch("[\x20-\x7e\n]+", lines)
    first, second = map(json.loads, lines.split("\n"))
    assert first == {
        "time": "2026-11-29T16:00:01.003Z",
        "level": "info",
        "logger": "pycron.test",
        "event": "output",
        "line": hostile,
        **PRINTED,
    }
    assert second["line"] == '"}'


# --- how lines get out ----------------------------------------------------------------------


def read_all(descriptor: int) -> bytes:
    """Read until the other end is closed."""
    data = b""
    while chunk := os.read(descriptor, 65536):
        data += chunk
    return data


class Pipe:
    """A pipe with a writer behind it."""

    def __init__(self, *, most_waiting: int = 1000) -> None:
        self.reading, writing = os.pipe()
        self.capacity = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
        self.writing = writing
        self.writer = LogWriter(Outlet(writing), TextFormatter(), most_waiting=most_waiting)


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    """Make a pipe of the smallest size; its writer is ended even if nobody has read."""
    made = Pipe()
    yield made
    with open(made.reading, "rb") as rest:  # noqa: PTH123 - a descriptor, not a path
        thread = threading.Thread(target=rest.read)
        thread.start()
        assert made.writer.close(PATIENCE)
        thread.join()


def test_lines_come_out_in_order(pipe: Pipe) -> None:
    """What was put first is written first, and close writes all that waits."""
    for number in range(100):
        pipe.writer.put(str(number))
    assert pipe.writer.close(PATIENCE)
    assert read_all(pipe.reading).split() == [str(number).encode() for number in range(100)]


def test_a_pipe_that_nobody_reads_holds_up_nobody(pipe: Pipe) -> None:
    """P4, P8: far more than fits is put without waiting; what was lost is counted when read."""
    sent = 1100
    line = "x" * 99
    for _ in range(sent):
        pipe.writer.put(line)  # returns although nobody reads: else this test would time out
    with open(pipe.reading, "rb", closefd=False) as reading:
        got = []
        for text in reading:
            got.append(text)
            if b"lost" in text:
                break
    assert len(got) - 1 < sent
    lost = re.search(rb"number=(\d+)", got[-1])
    assert lost is not None
    assert len(got) - 1 + int(lost[1]) == sent


def test_printed_lines_wait_for_room_and_take_none_of_the_daemon_s(pipe: Pipe) -> None:
    """P4, P8: what jobs print is refused early, comes when there is room, and nothing is lost."""
    has_room = threading.Event()
    batch = "\n".join(["x" * 99] * 100)
    taken = 0
    while pipe.writer.offer(batch, 100, has_room.set):
        taken += 1
    assert taken < 1000
    for number in range(1000):
        pipe.writer.put(f"own {number}")
    assert not has_room.is_set()
    with open(pipe.reading, "rb", closefd=False) as reading:
        got = [reading.readline().decode().rstrip() for _ in range(taken * 100 + 1000)]
    assert [line for line in got if line.startswith("own")] == [f"own {n}" for n in range(1000)]
    assert got.count("x" * 99) == taken * 100
    assert has_room.wait(PATIENCE.total_seconds())
    assert pipe.writer.offer("x", 1, has_room.set)


def test_printed_lines_that_cannot_be_written_are_counted() -> None:
    """P8: a reader that is gone costs them; each line counts."""
    reading, writing = os.pipe()
    os.close(reading)
    writer = LogWriter(Outlet(writing), TextFormatter())
    assert writer.offer("a\nb\nc", 3, lambda: None)
    assert writer.close(PATIENCE)
    assert writer._dropped == 3
    assert not writer.offer("d", 1, lambda: None)


def test_the_log_takes_what_jobs_print(tmp_path: Path) -> None:
    """With their fields, between the records, in the order in which they came."""
    file = tmp_path / "log"
    log = configure_logging("json", stream=None, file=file)
    logging.getLogger("pycron.test").info("before")
    printed = PrintedLines("backup", AttemptKey(12, 2), ("one", "two"))
    assert log.offer(printed, lambda: None) == 2
    logging.getLogger("pycron.test").info("after")
    assert log.close(PATIENCE)
    lines = list(map(json.loads, file.read_text().splitlines()))
    assert [line["event"] for line in lines] == ["before", "output", "output", "after"]
    assert [line.get("line") for line in lines] == [None, "one", "two", None]
    assert (lines[1]["logger"], lines[1]["job"]) == ("pycron.output", "backup")
    assert (lines[1]["run"], lines[1]["attempt"]) == (12, 2)


def test_close_gives_up_on_a_pipe_that_nobody_reads(pipe: Pipe) -> None:
    """P8: the end of the daemon does not wait for a reader for ever."""
    for _ in range(pipe.capacity // 100 + 10):
        pipe.writer.put("x" * 99)
    assert not pipe.writer.close(timedelta(milliseconds=10))


def test_a_reader_that_is_gone_is_survived() -> None:
    """P8: nobody at the other end any more costs the lines and nothing else."""
    reading, writing = os.pipe()
    os.close(reading)
    writer = LogWriter(Outlet(writing), TextFormatter())
    for _ in range(100):
        writer.put("x")
    assert writer.close(PATIENCE)


def test_a_full_disk_costs_lines_and_no_time() -> None:
    """P8: each line is tried once."""
    writer = LogWriter(Outlet.to_file(Path("/dev/full")), TextFormatter())
    for _ in range(100):
        writer.put("x")
    assert writer.close(PATIENCE)


def test_a_line_that_was_cut_by_a_full_disk_does_not_swallow_the_next(tmp_path: Path) -> None:
    """P8: what a full disk has torn ends at its tear; later lines begin on their own."""
    import resource
    import signal

    # The size limit of a file stands for the disk's: the write that meets it is cut short.
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    file = tmp_path / "log"
    outlet = Outlet.to_file(file)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        outlet.write(b"one\n")
        with pytest.raises(OSError, match="large"):
            outlet.write(b"two two two\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    outlet.write(b"three\n")
    outlet.close()
    assert file.read_bytes() == b"one\ntwo tw\nthree\n"


def test_a_stream_that_does_not_block_is_waited_for() -> None:
    """A terminal or pipe on which another has set O_NONBLOCK loses no line."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    line = "x" * 999
    number = 200  # more than a pipe takes
    writer = LogWriter(Outlet(writing), TextFormatter())
    for _ in range(number):
        writer.put(line)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(read_all(reading)))
    reader.start()
    assert writer.close(PATIENCE)
    reader.join()
    assert got[0].split() == [line.encode()] * number


def test_no_stream_at_all_is_no_trouble() -> None:
    """P8: with standard error closed the log goes nowhere."""
    log = configure_logging("text", stream=None)
    logging.getLogger("pycron.test").info("x")
    assert log.close(PATIENCE)


# --- files ----------------------------------------------------------------------------------


def test_a_log_file_is_private_and_kept(tmp_path: Path) -> None:
    """P9: a new log file is its owner's alone; one that is there is continued."""
    file = tmp_path / "log"
    for text in ("one", "two"):
        log = configure_logging("text", stream=None, file=file)
        logging.getLogger("pycron.test").info(text)
        assert log.close(PATIENCE)
    assert [line.split()[-1] for line in file.read_text().splitlines()] == ["one", "two"]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_rotated_log_file_is_followed_by_a_new_one(tmp_path: Path) -> None:
    """After the file was moved away the next line goes into a new one of its name, private too."""
    file, rotated = tmp_path / "log", tmp_path / "log.1"
    log = configure_logging("text", stream=None, file=file)
    file.rename(rotated)
    logging.getLogger("pycron.test").info("one")
    assert log.close(PATIENCE)
    assert rotated.read_text() == ""
    assert file.read_text().rstrip().endswith("one")
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_log_file_whose_place_is_gone_goes_on_where_it_is(tmp_path: Path) -> None:
    """P8: with no new file to be had the old one goes on, and says why once."""
    directory = tmp_path / "logs"
    directory.mkdir()
    log = configure_logging("text", stream=None, file=directory / "log")
    directory.rename(tmp_path / "moved")
    for text in ("one", "two"):
        logging.getLogger("pycron.test").info(text)
    assert log.close(PATIENCE)
    trouble, *lines = (tmp_path / "moved" / "log").read_text().splitlines()
    assert "No such file or directory" in trouble
    assert [line.split()[-1] for line in lines] == ["one", "two"]


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_a_log_file_that_cannot_be_is_refused(tmp_path: Path, make: object) -> None:
    """A directory, or a FIFO that nobody reads, is refused at once with a sentence."""
    file = tmp_path / "log"
    make(file)  # type: ignore[operator]
    with pytest.raises(PycronError, match=re.escape(f"the log file {file} cannot be opened")):
        configure_logging("text", stream=None, file=file)


# --- the whole ------------------------------------------------------------------------------


TALKATIVE = """
import logging, sys, threading, warnings
from datetime import timedelta
from crond_py.logs import configure_logging

log = configure_logging(sys.argv[1], stream=sys.stderr)
try:
    {}["missing"]
except KeyError:
    logging.getLogger("crond_py.runner").exception("of a module")
logging.getLogger("pycron.test").debug("too small to tell")
logging.getLogger("pycron.test").info("%d", "no number")
warnings.warn("a warning")
thread = threading.Thread(target=lambda: 1 / 0, name="unlucky")
thread.start()
thread.join()
sys.excepthook(ValueError, ValueError("uncaught"), None)
sys.exit(not log.close(timedelta(seconds=60)))
"""


@pytest.mark.parametrize("log_format", ["text", "json"])
def test_records_warnings_and_lost_exceptions_all_come_out(log_format: str) -> None:
    """Whatever the process has to say is a line of the log, also what nobody caught."""
    command = [sys.executable, "-c", TALKATIVE, log_format]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for word in ("of a module", "KeyError", "cannot be formatted", "a warning", "uncaught"):
        assert word in done.stderr
    assert "ZeroDivisionError" in done.stderr
    assert "unlucky" in done.stderr
    assert "too small" not in done.stderr
    if log_format == "json":
        events = [json.loads(line)["event"] for line in done.stderr.splitlines()]
        assert events[0] == "of a module"
        assert len(events) == 5


def test_after_close_logging_is_as_it_was(tmp_path: Path) -> None:
    """A log that was closed twice leaves nothing behind."""
    root = logging.getLogger()
    before = (list(root.handlers), sys.excepthook, threading.excepthook)
    log = configure_logging("text", stream=None, file=tmp_path / "log")
    assert log.close(PATIENCE)
    assert log.close(PATIENCE)
    assert (root.handlers, sys.excepthook, threading.excepthook) == before


def test_only_the_stream_that_is_the_journal_is_taken_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """JOURNAL_STREAM names a device and inode; output that was redirected since is no journal."""
    here, there = socket.socketpair()
    with here, there, (tmp_path / "other").open("w") as other, here.makefile("w") as stream:
        found = os.fstat(here.fileno())
        monkeypatch.setenv("JOURNAL_STREAM", f"{found.st_dev}:{found.st_ino}")
        outlets = [Outlet.to_stream(stream), Outlet.to_stream(other), Outlet.to_stream(None)]
        assert [outlet.is_journal for outlet in outlets] == [True, False, False]
        log = configure_logging("text", stream=stream)
        logging.getLogger("pycron.test").error("trouble")
        assert log.close(PATIENCE)
        assert there.recv(100) == b"<3>trouble\n"
        for outlet in outlets:
            outlet.close()


def test_closed_standard_descriptors_are_occupied() -> None:
    """P8: no file that is opened later gets the number of standard error and what goes there."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            for descriptor in (0, 2):
                os.close(descriptor)
            occupy_standard_descriptors()
            null = Path(os.devnull).stat()
            status = 0 if all(os.path.samestat(os.fstat(fd), null) for fd in (0, 2)) else 2
        finally:
            os._exit(status)
    descriptor = os.pidfd_open(pid)
    select.select([descriptor], [], [], PATIENCE.total_seconds())
    os.close(descriptor)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
