"""What a started process finds, and what is told of one that cannot be started."""

from __future__ import annotations

import errno
import logging
import os
import pwd
import resource
import signal
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from crond_py.model import Exit
from crond_py.ports import Ended, Started
from crond_py.runner import signals
from crond_py.runner.inotify import Inotify
from crond_py.runner.programs import find_program
from crond_py.runner.signals import can_reset_those_of_libc
from tests.process.conftest import PROGRAMS, Harness

_OPENED: Final = 0x20  # IN_OPEN of inotify(7)


@pytest.mark.parametrize(
    ("command", "code", "number"),
    [
        ("exit 0", 0, None),
        ("exit 1", 1, None),
        ("exit 255", 255, None),
        (("/bin/true",), 0, None),
        (("false",), 1, None),
        ("kill -TERM $$", None, signal.SIGTERM),
        ("kill -KILL $$", None, signal.SIGKILL),
        ("ulimit -c 0; kill -ABRT $$", None, signal.SIGABRT),
    ],
)
def test_tells_how_a_process_ended(
    harness: Harness, command: str | tuple[str, ...], code: int | None, number: int | None
) -> None:
    """Ended has the exit status or the signal, whichever it was, and never both."""
    ended = harness.run(command)
    assert (ended.exit.code, ended.exit.signal) == (code, number)
    assert ended.exit.cpu is not None


def test_tells_started_then_ended(harness: Harness) -> None:
    """Each start is answered by one Started and then one Ended, in that order of time too."""
    key = harness.start("exit 0")
    harness.ended(key)
    first, second = harness.told(key)
    assert isinstance(first, Started)
    assert isinstance(second, Ended)
    assert first.started_at <= second.at
    assert first.note == ""


def test_starts_in_the_order_asked_for(tmp_path: Path) -> None:
    """With one starter, processes start in the order in which they were asked for."""
    harness = Harness(tmp_path)
    keys = [harness.start(("true",)) for _ in range(20)]
    harness.runner._starters._base = 1
    harness.runner.open()
    for key in keys:
        harness.ended(key)
    assert [event.key for event in harness.events if isinstance(event, Started)] == keys
    harness.clean_up()


def test_reports_cpu_time_of_the_whole_run(harness: Harness) -> None:
    """CPU time is that of the process and of the children it has waited for (P1: accounted)."""
    ended = harness.run("(exec 3>&1; i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done); true")
    assert ended.exit.cpu is not None
    assert ended.exit.cpu.total_seconds() > 0.01


def test_peak_memory_is_the_jobs_own(harness: Harness) -> None:
    """Peak memory is the job's, or not known: it is never the daemon's own size passed off."""
    floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    size = floor + 50_000_000
    big = harness.run((sys.executable, "-S", "-c", f"b'x' * {size}"))
    assert big.exit.peak_memory_bytes is not None
    assert size < big.exit.peak_memory_bytes < size + 50_000_000
    assert harness.run(("true",)).exit.peak_memory_bytes is None


def test_environment_is_exactly_what_was_given(harness: Harness) -> None:
    """Values arrive byte for byte, and nothing of the daemon's environment with them (B55)."""
    entry = pwd.getpwuid(os.geteuid())
    account = {
        "HOME": entry.pw_dir,
        "LOGNAME": entry.pw_name,
        "USER": entry.pw_name,
        "SHELL": "/bin/sh",
        "LANG": "C.UTF-8",
    }
    values = {
        "A": "with spaces, 'quotes', \"double\" and $HOME ${X} `id` \\ %",
        "B": "a=b==c",
        "C": "two\nlines\t",
        "D": "",
        "E": "grüße \U0001f600",
    }
    printed = harness.output_of(("/usr/bin/env", "-0"), env=values)
    found = dict(item.split(b"=", 1) for item in printed.removesuffix(b"\0").split(b"\0"))
    expected = {name.encode(): value.encode() for name, value in (account | values).items()}
    expected[b"PATH"] = b"/usr/local/bin:/usr/bin:/bin"
    expected[b"PYCRON_ATTEMPT"] = b"1"
    assert found.pop(b"PYCRON_RUN_ID").startswith(harness.identity.encode() + b"-")
    assert found == expected


def test_arguments_arrive_as_they_are(harness: Harness) -> None:
    """An array is executed as it is: no shell, no globbing, no splitting."""
    arguments = ("a b", "*", "$HOME", "", "x\ny", "ü")
    printed = harness.output_of(("/usr/bin/printf", "%s\\0", *arguments))
    assert printed.decode().split("\0")[:-1] == list(arguments)


def test_percent_signs_are_taken_as_written(harness: Harness) -> None:
    """A command is not cron's: a % is a % (B51)."""
    assert harness.output_of("printf '%s\\n' a%b") == b"a%b\n"


def test_inherits_no_descriptor(harness: Harness, tmp_path: Path) -> None:
    """A child has its three descriptors and no other, not even one marked inheritable (P9)."""
    file = os.open(tmp_path / "open", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(file, True)
    try:
        printed = harness.output_of(("/bin/ls", "/proc/self/fd"))
    finally:
        os.close(file)
    # The fourth is the directory that ls itself is reading.
    assert printed.split() == [b"0", b"1", b"2", b"3"]


def test_standard_descriptors(harness: Harness) -> None:
    """Input is empty; output and error are the same file, appended to."""
    assert harness.output_of("readlink /proc/$$/fd/0; cat") == b"/dev/null\n"
    path = harness.directory / "both"
    harness.run("echo out; echo err >&2; echo out again", output=path)
    assert path.read_bytes() == b"out\nerr\nout again\n"
    appends = "grep flags /proc/self/fdinfo/1 /proc/self/fdinfo/2"
    flags = [int(line.split()[-1], 8) for line in harness.output_of(appends).splitlines()]
    assert all(flag & os.O_APPEND for flag in flags)
    assert len(flags) == 2


def test_output_that_is_not_wanted_goes_nowhere(harness: Harness) -> None:
    """Without an output file both streams are /dev/null, and writing succeeds."""
    place = harness.directory / "place"
    harness.run(f"readlink /proc/$$/fd/1 /proc/$$/fd/2 > {place}; echo dropped")
    assert place.read_text().split("\n")[1] == "/dev/null"


MORE_FILES = "raise LimitNOFILE= of its unit, or ulimit -n"
SIGNAL_FIELDS = ("SigBlk", "SigIgn")


def _signals(status: bytes) -> dict[str, int]:
    pairs = (line.split(":\t") for line in status.decode().splitlines() if ":\t" in line)
    return {name: int(value, 16) for name, value in pairs if name in SIGNAL_FIELDS}


def test_signals_are_as_after_a_boot(harness: Harness) -> None:
    """No signal is blocked or ignored in a child, though Python itself ignores SIGPIPE."""
    assert signal.getsignal(signal.SIGPIPE) == signal.SIG_IGN
    status = harness.output_of(("/bin/cat", "/proc/self/status"))
    assert _signals(status) == {"SigBlk": 0, "SigIgn": 0}


OF_LIBC = 0b11 << 31
"""The two signals that glibc's posix_spawn leaves ignored, in a mask."""


def _signals_of_a_job_of_the_deaf(tmp_path: Path) -> dict[str, int]:
    """Return the masks of what a runner starts that was itself started with signals ignored."""
    output = tmp_path / "status"
    program = (
        "import os, signal, sys\n"
        "for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGCHLD):\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})\n"
        "pid = os.posix_spawn(sys.executable, [sys.executable, *sys.argv[1:]], os.environ)\n"
        "signal.signal(signal.SIGCHLD, signal.SIG_DFL)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n"
    )
    subprocess.run(
        [
            *(sys.executable, "-c", program),
            *(str(PROGRAMS / "proc_run_one.py"), str(output), "/bin/cat", "/proc/self/status"),
        ],
        check=True,
        timeout=60,
    )
    return _signals(output.read_bytes())


def test_a_daemon_that_was_started_deaf_does_not_pass_it_on(tmp_path: Path) -> None:
    """Signals ignored or blocked by whoever started the daemon (nohup, a script) reach its jobs."""
    masks = _signals_of_a_job_of_the_deaf(tmp_path)
    assert (masks["SigBlk"], masks["SigIgn"] & ~OF_LIBC) == (0, 0)


@pytest.mark.skipif(not can_reset_those_of_libc(), reason="unknown how to ask this kernel for it")
def test_what_libc_leaves_ignored_is_not_passed_on(tmp_path: Path) -> None:
    """The two signals that glibc's posix_spawn leaves ignored reach a job as well."""
    assert _signals_of_a_job_of_the_deaf(tmp_path)["SigIgn"] & OF_LIBC == 0


@pytest.mark.skipif(not can_reset_those_of_libc(), reason="unknown how to ask this kernel for it")
@pytest.mark.parametrize("fails", ["no such machine", "refused"])
def test_what_cannot_be_reset_is_said(
    fails: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A kernel that refuses it, or that we do not know how to ask, has it in the log."""
    monkeypatch.setattr(signals, "_is_ignored", lambda _number: True)
    if fails == "refused":
        monkeypatch.setattr(signals, "_OF_LIBC", (signal.SIGKILL,))  # nobody may change that
    else:
        monkeypatch.setattr(signals, "_SIGACTION", {})
    caplog.set_level(logging.DEBUG)
    signals._stop_ignoring_those_of_libc()
    assert "jobs will ignore signals" in caplog.text


def test_leads_a_session_of_its_own(harness: Harness) -> None:
    """A process leads its session and its group, and has no terminal."""
    fields = harness.output_of(("/bin/cat", "/proc/self/stat")).rpartition(b") ")[2].split()
    pid = next(event.pid for event in harness.events if isinstance(event, Started))
    assert [int(fields[2]), int(fields[3]), int(fields[4])] == [pid, pid, 0]


@pytest.mark.parametrize("umask", [0o022, 0o077, 0o000])
def test_umask_is_the_jobs(harness: Harness, umask: int) -> None:
    """A file that a job makes has the mode its umask leaves; the daemon's umask stays."""
    before = os.umask(0o027)
    try:
        harness.run("echo > made", umask=umask)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
    assert stat.S_IMODE((harness.directory / "made").stat().st_mode) == 0o666 & ~umask


def test_working_directory_is_the_jobs(harness: Harness, tmp_path: Path) -> None:
    """A process starts in its directory, whatever the name of that."""
    place = tmp_path / "a place with ü"
    place.mkdir()
    assert harness.output_of(("/bin/pwd",), cwd=str(place)).decode() == f"{place}\n"


def _script(directory: Path, name: str, text: str, mode: int = 0o755) -> Path:
    path = directory / name
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_relative_program_counts_from_the_working_directory(
    harness: Harness, tmp_path: Path
) -> None:
    """``./program`` and a relative entry of PATH are found from the job's directory."""
    (tmp_path / "bin").mkdir()
    _script(tmp_path / "bin", "tool", "#!/bin/sh\necho $0\n")
    assert harness.output_of(("bin/tool",)) == b"bin/tool\n"
    assert harness.output_of(("tool",), env={"PATH": "nowhere:bin"}) == b"bin/tool\n"


def test_all_that_a_start_reads_is_read_beforehand(tmp_path: Path) -> None:
    """P1: a dead disk holds up one start and no other, also where only an interpreter is on it.

    What is executed by vfork(2) may hold all threads until it runs; so who looks a program up has
    opened it before that, the interpreter that it names, and that one's.
    """
    (tmp_path / "bin").mkdir()
    programs = [tmp_path / name for name in ("job", "bin/third", "bin/second", "bin/first")]
    _script(tmp_path / "bin", "first", "#!/bin/sh\n")
    _script(tmp_path / "bin", "second", f"#! \t{tmp_path}/bin/first\t-x\n")
    _script(tmp_path / "bin", "third", "#!bin/second")
    _script(tmp_path, "job", f"#!{tmp_path}/bin/third -e third\n")
    with closing(Inotify()) as inotify:
        numbers = [inotify.add(program, _OPENED) for program in programs]
        assert find_program("job", f"/no:{tmp_path}", str(tmp_path)) == bytes(programs[0])
        assert [*inotify.events()] == numbers


def test_a_script_that_interprets_itself_is_found(tmp_path: Path) -> None:
    """It is for the kernel to refuse it: looking it up comes to an end."""
    _script(tmp_path, "self", f"#!{tmp_path}/self\n")
    assert find_program("./self", "", str(tmp_path)) == b"./self"


REFUSALS = [
    (("no-such-program",), "command not found on PATH (ENOENT): no-such-program"),
    (("./no-such",), "no such file or directory (ENOENT): ./no-such"),
    (("./plain",), "may not be executed (mode, or a noexec mount) (EACCES): ./plain"),
    (("plain",), "may not be executed (mode, or a noexec mount) (EACCES): plain"),
    (("./directory",), "is a directory (EISDIR): ./directory"),
    (("./fifo",), "not a regular file (EACCES): ./fifo"),
    (
        ("./text",),
        "not a program: a script needs a first line such as #!/bin/sh (ENOEXEC): ./text",
    ),
    (
        ("./orphan",),
        "no such file or directory (ENOENT): /no/interpreter, the interpreter of ./orphan",
    ),
    (("",), "the command is empty"),
    (("a\0b",), "a NUL character in the command line"),
    (("evil\n\x1b[2J",), "command not found on PATH (ENOENT): evil\\n\\x1b[2J"),
    (
        ("true", *["x" * 100_000] * 100),
        "its command line and environment are too long (E2BIG): true",
    ),
]


@pytest.mark.parametrize(("argv", "reason"), REFUSALS, ids=[reason for _, reason in REFUSALS])
def test_says_why_a_program_cannot_be_started(
    harness: Harness, tmp_path: Path, argv: tuple[str, ...], reason: str
) -> None:
    """A start that fails is one StartFailed that names the program and the cause (B50)."""
    _script(tmp_path, "plain", "#!/bin/sh\n", 0o644)
    _script(tmp_path, "text", "echo a script without its first line\n")
    _script(tmp_path, "orphan", "#!/no/interpreter -x\n")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo", 0o777)
    path = f"/usr/bin:/bin:{tmp_path}"
    key = harness.start(argv, env={"PATH": path})
    assert harness.failed(key).reason == reason
    assert len(harness.told(key)) == 1


@pytest.mark.parametrize(
    ("cwd", "reason"),
    [
        ("/no/such", "working directory /no/such: no such file or directory (ENOENT)"),
        ("/etc/passwd", "working directory /etc/passwd: not a directory (ENOTDIR)"),
    ],
)
def test_says_what_is_wrong_with_the_working_directory(
    harness: Harness, cwd: str, reason: str
) -> None:
    """A missing directory is not taken for a missing program."""
    assert harness.failed(harness.start(("true",), cwd=cwd)).reason == reason


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        ({"A=B": "x"}, "no environment variable can be named 'A=B'"),
        ({"": "x"}, "no environment variable can be named ''"),
        ({"X": "a\0b"}, "a NUL character in the environment variable X"),
        ({"X": "\ud800"}, "a character that UTF-8 has not in the environment variable X"),
    ],
)
def test_says_what_is_wrong_with_the_environment(
    harness: Harness, env: dict[str, str], reason: str
) -> None:
    """What no environment can hold is told by the variable's name."""
    assert harness.failed(harness.start(("true",), env=env)).reason == reason


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EAGAIN, "the system's limit on processes is reached (EAGAIN): true"),
        (errno.ENOMEM, "the system has no memory for another process (ENOMEM): true"),
        (errno.EMFILE, f"pycron has too many open files; {MORE_FILES} (EMFILE): true"),
        (errno.EIO, "input/output error (EIO): true"),
    ],
)
def test_says_what_the_system_lacks(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, code: int, words: str
) -> None:
    """A fork that fails is a start that fails, in words, and later starts succeed (P8)."""

    def refuse(*_arguments: object, **_settings: object) -> None:
        raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", refuse)
        assert harness.failed(harness.start(("true",))).reason == words
    assert harness.run(("true",)).exit.code == 0


def test_a_fault_of_our_own_fails_one_start(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An unforeseen exception ends one start, with a traceback in the log, and no thread."""

    def fail(*_arguments: object, **_settings: object) -> None:
        raise RuntimeError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "Popen", fail)
        for _ in range(5):
            reason = harness.failed(harness.start(("true",))).reason
            assert reason == "pycron has failed; its log has more"
    assert "planted" in caplog.text
    assert harness.run(("true",)).exit == Exit(code=0, cpu=harness.events[-1].exit.cpu)


def test_a_report_that_fails_stops_nothing(
    harness: Harness, caplog: pytest.LogCaptureFixture
) -> None:
    """A receiver that raises loses that event; later ones are told."""
    take = harness.runner._report

    def raise_once(event: object) -> None:
        harness.runner._report = take
        raise RuntimeError("planted")

    harness.runner._report = raise_once
    key = harness.start(("true",))
    assert harness.ended(key).exit.code == 0
    assert harness.run(("true",)).exit.code == 0
    assert "Started of run 1 was not taken" in caplog.text
