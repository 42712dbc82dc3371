"""Jobs with resource limits or a nice value, which begin as a tiny program of ours."""

from __future__ import annotations

import errno
import os
import pwd
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from crond_py.model import Limits
from crond_py.runner import confine
from tests.process.conftest import Harness
from tests.process.test_start import REFUSALS, _script, _signals

MIB = 1 << 20
ALL = Limits(
    address_space_bytes=512 * MIB,
    cpu=timedelta(seconds=77),
    open_files=55,
    processes=3333,
    file_size_bytes=8 * MIB,
    core_bytes=0,
)


def test_every_limit_is_the_soft_and_the_hard_one(harness: Harness) -> None:
    """What getrlimit(2) tells the job, in the kernel's own words, is what was asked for."""
    lines = harness.output_of(("/bin/cat", "/proc/self/limits"), limits=ALL).decode().splitlines()
    found = {line[:26].rstrip(): line[26:].split()[:2] for line in lines}
    assert found["Max address space"] == [str(512 * MIB)] * 2
    assert found["Max cpu time"] == ["77"] * 2
    assert found["Max open files"] == ["55"] * 2
    assert found["Max processes"] == ["3333"] * 2
    assert found["Max file size"] == [str(8 * MIB)] * 2
    assert found["Max core file size"] == ["0"] * 2


def test_what_is_not_limited_stays_as_the_daemon_has_it(harness: Harness) -> None:
    """Of all limits only those that the job names are changed, and one that Linux has no use for.

    By that one, RLIMIT_LOCKS, a tree is marked.
    """

    def limits_of(text: bytes) -> set[str]:
        return {line for line in text.decode().splitlines() if "locks" not in line}

    plain = limits_of(harness.output_of(("/bin/cat", "/proc/self/limits")))
    few = Limits(open_files=55)
    limited = limits_of(harness.output_of(("/bin/cat", "/proc/self/limits"), limits=few))
    assert {line[:14] for line in plain ^ limited} == {"Max open files"}
    assert plain == limits_of(Path("/proc/self/limits").read_bytes())


@pytest.mark.parametrize(
    ("command", "limits", "number"),
    [
        ("while :; do :; done", Limits(cpu=timedelta(seconds=1)), signal.SIGKILL),
        ("exec head -c 2000000 /dev/zero >big", Limits(file_size_bytes=MIB), signal.SIGXFSZ),
    ],
)
def test_a_limit_ends_a_process(
    harness: Harness, command: str, limits: Limits, number: int
) -> None:
    """A process that is ended for a limit is told as ended by the signal."""
    assert harness.run(command, limits=limits).exit.signal == number


@pytest.mark.parametrize("size", [16, 64, 256])
def test_memory_may_be_less_than_python_itself_needs(harness: Harness, size: int) -> None:
    """The limit is set at the very end: what fits in it runs, with a large environment too."""
    env = {"LARGE": "x" * 100_000, **{f"SMALL_{number}": "y" * 50 for number in range(2000)}}
    printed = harness.output_of(
        "ulimit -v; echo ${#LARGE}", limits=Limits(address_space_bytes=size * MIB), env=env
    )
    assert printed.decode().split() == [str(size * 1024), "100000"]


def test_a_job_that_cannot_be_loaded_has_failed(harness: Harness) -> None:
    """With less memory than a program takes to load it is the job that fails, by its exit."""
    ended = harness.run(("/bin/true",), limits=Limits(address_space_bytes=MIB))
    assert (ended.exit.code, ended.exit.signal) != (0, None)


def test_a_limit_that_pycron_may_not_give_is_told(harness: Harness) -> None:
    """More than the daemon itself may have is a start that fails, with key and value (P8)."""
    most = int(Path("/proc/sys/fs/nr_open").read_text()) + 1
    failed = harness.failed(harness.start(("true",), limits=Limits(open_files=most)))
    assert failed.reason == (
        f"limits.open_files {most}: operation not permitted (EPERM): "
        "more than pycron itself may have"
    )


@pytest.mark.parametrize("nice", [0, 7, 19])
def test_nice_is_the_jobs_alone(harness: Harness, nice: int) -> None:
    """The job has its nice value from its beginning; the daemon's threads keep theirs (P4)."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    if nice < before:
        pytest.skip("the tests themselves run with a higher value")
    assert harness.output_of(("/usr/bin/nice",), nice=nice).decode().strip() == str(nice)
    for thread in Path("/proc/self/task").iterdir():
        assert os.getpriority(os.PRIO_PROCESS, int(thread.name)) == before


def test_a_nice_value_that_is_not_permitted_is_told(harness: Harness) -> None:
    """Below what the daemon has only root can go; anybody else is told so (P8)."""
    told = confine._explain_shim(
        b"nice:13",
        256,
        harness.spec("true", nice=-5),
        None,  # type: ignore[arg-type]  # not looked at for this stage
        b"",
    )
    assert told == "nice -5: permission denied (EACCES): only root can go below what pycron has"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a user's job a limit like that")
def test_a_user_with_too_many_processes_is_told(harness: Harness, open_path: Path) -> None:
    """Where the user has as many processes as the limit allows, the start fails and says so."""
    # Nobody else's number: how many processes a user has is counted for the whole machine.
    user = next(e for e in pwd.getpwall() if e.pw_name in {"games", "news", "uucp", "nobody"})
    settings = {"user": user.pw_name, "cwd": "/"}
    ready = open_path / "ready"
    os.mkfifo(ready)
    ready.chmod(0o666)
    first = harness.start(f"sleep 999 & echo up >{ready}; wait", **settings)
    harness.started(first)
    assert ready.read_text() == "up\n"
    failed = harness.failed(harness.start(("true",), limits=Limits(processes=1), **settings))
    assert failed.reason == (
        f"limits.processes 1: {user.pw_name} has more processes than that already (EAGAIN)"
    )
    harness.runner.stop(first, force=True)
    harness.ended(first)


@pytest.mark.parametrize(("argv", "reason"), REFUSALS, ids=[reason for _, reason in REFUSALS])
def test_a_program_that_cannot_be_started_is_told_alike(
    harness: Harness, tmp_path: Path, argv: tuple[str, ...], reason: str
) -> None:
    """What cannot be executed has the same words as without limits, and leaves no process."""
    _script(tmp_path, "plain", "#!/bin/sh\n", 0o644)
    _script(tmp_path, "text", "echo a script without its first line\n")
    _script(tmp_path, "orphan", "#!/no/interpreter -x\n")
    (tmp_path / "directory").mkdir()
    os.mkfifo(tmp_path / "fifo", 0o777)
    key = harness.start(argv, env={"PATH": f"/usr/bin:/bin:{tmp_path}"}, limits=ALL, nice=1)
    assert harness.failed(key).reason == reason
    assert len(harness.told(key)) == 1
    assert harness.leftovers() == []


def test_a_directory_that_is_gone_in_between_is_told(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The shim enters the directory itself; what it meets there is told like any other fault."""
    monkeypatch.setattr("crond_py.runner.setting._check_directory", lambda _path: None)
    failed = harness.failed(harness.start(("/bin/true",), cwd="/no/such", nice=1))
    assert failed.reason == "working directory /no/such: no such file or directory (ENOENT)"


def test_a_python_that_does_not_work_is_told(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is gone, and one that ends before it has executed the job: no run starts (P8)."""
    for program, reason in (
        ("/no/python", "cannot be executed: no such file or directory (ENOENT)"),
        ("/bin/false", "did not get far (status 1)"),
    ):
        monkeypatch.setattr(sys, "executable", program)
        failed = harness.failed(harness.start(("true",), nice=1))
        assert failed.reason == f"the Python at {program}, which sets limits, {reason}"


@pytest.mark.parametrize("code", [errno.EAGAIN, errno.ENOMEM, errno.EMFILE])
def test_a_system_that_lacks_something_is_told_alike(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A fork that fails has the same words as without limits (P8)."""

    def refuse(*_arguments: object, **_settings: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(subprocess, "Popen", refuse)
    plain = harness.failed(harness.start(("true",))).reason
    assert harness.failed(harness.start(("true",), nice=1)).reason == plain


def test_nothing_of_the_shim_is_left_in_the_job(harness: Harness, tmp_path: Path) -> None:
    """Descriptors, signals, session, environment, umask and arguments are as without it (P9)."""
    file = os.open(tmp_path / "open", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(file, True)
    try:
        for stdin in (None, "text\n"):
            more = {"limits": ALL, "nice": 1, "stdin": stdin}
            assert harness.output_of(("/bin/ls", "/proc/self/fd"), **more).split() == [
                *(b"0", b"1", b"2", b"3")
            ]
    finally:
        os.close(file)
    status = harness.output_of(("/bin/cat", "/proc/self/status"), limits=ALL)
    assert _signals(status) == {"SigBlk": 0, "SigIgn": 0}
    with_limits, without = (
        harness.output_of(
            "env | grep -v PYCRON_RUN_ID | sort; pwd; umask; echo $0", umask=0o27, **m
        )
        for m in ({"limits": ALL}, {})
    )
    assert with_limits == without
    fields = harness.output_of(("/bin/cat", "/proc/self/stat"), nice=1).rpartition(b") ")[2].split()
    assert fields[2] == fields[3]
    assert fields[4] == b"0"


def test_a_daemon_without_standard_streams_starts_jobs(tmp_path: Path) -> None:
    """Where the daemon was started with its own streams closed, a job has its three."""
    program = (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from crond_py.model import Limits\n"
        "from crond_py.ports import AttemptKey, OutputSpec, ProcessSpec\n"
        "from crond_py.runner.spawn import spawn\n"
        "for number in range(3): os.close(number)\n"
        "few = Limits(core_bytes=0)\n"
        "for number, more in enumerate(({}, {'limits': few}, {'limits': few, 'stdin': None})):\n"
        "    output = OutputSpec(Path(sys.argv[1], str(number)))\n"
        "    spec = ProcessSpec(AttemptKey(1, 1), 'x-1', ('/bin/sh', '-c', 'cat; ls /proc/$$/fd;"
        " echo told >&2'), {}, '/', 0o022, output, **{'stdin': 'text\\n', **more})\n"
        "    os.waitpid(spawn(spec).pid, 0)\n"
    )
    subprocess.run([sys.executable, "-c", program, tmp_path], check=True, timeout=60)
    for number, text in enumerate((["text"], ["text"], [])):
        assert (tmp_path / str(number)).read_text().split() == [*text, "0", "1", "2", "told"]


def test_a_confined_run_is_stopped_like_any_other(harness: Harness) -> None:
    """Its tree carries the run's id from the first moment, and a stop ends all of it (P6)."""
    ready = harness.fifo("ready")
    key = harness.start(
        "setsid sh -c 'echo up >$READY; exec sleep 999' & wait",
        env={"READY": str(ready)},
        limits=ALL,
        nice=1,
    )
    harness.started(key)
    assert ready.read_text() == "up\n"
    harness.runner.stop(key, force=False)
    assert harness.ended(key).exit.signal == signal.SIGTERM
    assert harness.leftovers() == []
