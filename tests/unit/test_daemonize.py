"""Going to the background: what the one who asked is told, and what the daemon then is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).parents[1] / "support" / "programs" / "daemonize_program.py"


class Program:
    """The test program, its log, its report and the FIFO that it waits at."""

    def __init__(self, directory: Path) -> None:
        self.log = directory / "log"
        self.report = directory / "report.json"
        self.fifo = directory / "fifo"
        os.mkfifo(self.fifo)

    def run(
        self, what: str, *, log: str | None = None, shell: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """Run it until the process that was started ends; ``shell`` comes before its end."""
        log = str(self.log) if log is None else log
        command = [sys.executable, str(PROGRAM), what, log, str(self.report), str(self.fifo)]
        script = ["/bin/sh", "-c", f'"$@" {shell}', "sh", *command]
        return subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)

    def found(self) -> dict[str, Any]:
        """Return what the daemon has reported."""
        found: dict[str, Any] = json.loads(self.report.read_text())
        return found

    def release(self) -> None:
        """Let the daemon end, if there is one."""
        if self.report.exists():
            with self.fifo.open("wb"):
                pass


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    """Make the program; a daemon that is left is let go."""
    made = Program(tmp_path)
    yield made
    made.release()


def test_the_parent_ends_well_once_the_daemon_is_up(program: Program) -> None:
    """Exit status 0, after the daemon has said that it is up, and with nothing printed twice."""
    done = program.run("up")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "in a buffer\n"
    assert program.report.exists()


def test_a_daemon_has_left_the_terminal(program: Program) -> None:
    """It is another process, in a session that it does not lead, in ``/``."""
    program.run("up")
    found = program.found()
    assert found["pid"] != found["parent"]
    assert found["session"] not in {found["pid"], os.getsid(0)}
    assert found["directory"] == "/"
    assert found["umask"] == 0o077


def test_a_daemon_holds_its_log_and_nothing_else(program: Program) -> None:
    """Every descriptor that came along is closed; output goes to the log file, which is private."""
    program.run("up")
    descriptors = {
        number: where
        for number, where in program.found()["descriptors"].items()
        if not where.startswith(("pipe:", "/proc/"))
    }
    log = str(program.log)
    log_numbers = {number for number, where in descriptors.items() if where == log}
    assert {"1", "2"} <= log_numbers
    assert {where for number, where in descriptors.items() if number not in log_numbers} == {
        os.devnull
    }
    assert program.log.read_text() == "to standard output\nto standard error\n"
    assert program.log.stat().st_mode & 0o777 == 0o600


def test_jobs_inherit_neither_ignored_signals_nor_a_core_limit(program: Program) -> None:
    """What a job does on SIGTSTP or with a core file is not decided by its daemon's start."""
    program.run("up")
    found = program.found()
    assert found["ignored"] == []
    limits = Path("/proc/self/limits").read_text()
    assert found["core"] == limits.split("Max core file size")[1].split()[:2]


def test_a_daemon_without_a_log_file_writes_nowhere(program: Program) -> None:
    """Standard output and error are /dev/null where no log file is named."""
    assert program.run("up", log="").returncode == 0
    descriptors = program.found()["descriptors"]
    assert [descriptors[number] for number in "012"] == [os.devnull] * 3


def test_a_failure_is_the_parent_s_message_and_status(program: Program) -> None:
    """A bad crontab, say, ends with the status and the words that the foreground would have."""
    done = program.run("fail")
    assert (done.returncode, done.stderr) == (78, "line one\nline two\n")


def test_a_death_without_a_word_is_a_failure(program: Program) -> None:
    """Nobody takes a daemon for started that died on its way up."""
    done = program.run("die")
    assert done.returncode == 1
    assert done.stderr == "pycron: the daemon ended before it was up; its log may say why\n"


def test_a_log_file_that_cannot_be_opened_is_told_in_the_foreground(program: Program) -> None:
    """The one who gave the name of the file hears of it."""
    done = program.run("up", log="/nowhere/log")
    assert done.returncode == 1
    assert "refused: the log file /nowhere/log cannot be opened" in done.stderr
    assert not program.report.exists()


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_trouble(program: Program, closed: str) -> None:
    """P8: started by something that closes standard descriptors, it comes up all the same."""
    assert program.run("up", shell=closed).returncode == 0
    assert program.log.read_text().endswith("to standard error\n")
