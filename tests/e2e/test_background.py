"""The daemon in the background: whoever starts it knows how that went, and finds it again."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Bell, Daemon, Gate

RING = """
[jobs.ring]
startup = true
command = "echo $PPID > bell"
"""

NEVER = '[jobs.never]\nschedule = "@yearly"\ncommand = "true"\n'


@pytest.fixture
def background(daemon: Daemon) -> Iterator[Daemon]:
    """Give a daemon that is ended by its command, as it is no child of the test."""
    yield daemon
    daemon.cli("stop", "--now", check=None)


def test_it_is_up_when_the_command_returns(background: Daemon, bell: Bell) -> None:
    """Status 0 means that jobs are run: one of them tells who has started it."""
    background.write(RING)
    done = background.cli("run", "--daemonize", "--pid-file", "pid")
    assert (done.stdout, done.stderr) == ("", "")
    pid = int((background.directory / "pid").read_text())
    assert background.status()["pid"] == pid
    assert int(bell.wait()) == pid
    background.cli("stop")
    assert not (background.directory / "pid").exists()
    log = (background.state / "pycron.log").read_text()
    assert "is up" in log
    assert log.rstrip().endswith("pycron has stopped")


def test_it_is_free_of_who_started_it(background: Daemon) -> None:
    """It is in no session of the starter's, and holds none of its descriptors or directories."""
    background.write(NEVER)
    background.cli("run", "--daemonize", "--pid-file", "pid")
    process = Path("/proc", (background.directory / "pid").read_text().strip())
    assert os.getsid(int(process.name)) != os.getsid(0)
    assert (process / "cwd").readlink() == Path("/")
    log = background.state / "pycron.log"
    standard = [(process / "fd" / number).readlink() for number in "012"]
    assert standard == [Path(os.devnull), log, log]


def test_a_bad_crontab_is_told_to_who_started_it(background: Daemon) -> None:
    """P7: status 78 and the faults come from the command itself, as in the foreground."""
    background.write("[jobs.never]\nevery = 'never'\ncommand = 'true'\n")
    in_front = background.cli("run", check=78)
    behind = background.cli("run", "--daemonize", check=78)
    assert behind.stderr == in_front.stderr
    assert str(background.crontab) in behind.stderr
    background.cli("status", check=3)


def test_a_second_one_is_refused_and_hurts_nothing(background: Daemon) -> None:
    """P2: it is told who is there, and the first one's pid file stays as it is."""
    background.write(NEVER)
    background.cli("run", "--daemonize", "--pid-file", "pid")
    pid = (background.directory / "pid").read_text()
    for how in ([], ["--daemonize"]):
        done = background.cli("run", "--pid-file", "pid", *how, check=1)
        assert f"pid {pid.strip()}" in done.stderr
    assert (background.directory / "pid").read_text() == pid
    assert background.status()["pid"] == int(pid)


@pytest.mark.parametrize(
    "content", ["ALIVE\n", "1\n", "abc", ""], ids=["alive", "init", "junk", "empty"]
)
@pytest.mark.parametrize("name", ["pid", "state/pycron.lock"])
def test_what_a_crash_left_behind_stops_nobody(background: Daemon, name: str, content: str) -> None:
    """P2: only the lock counts. A file that names a living process, or junk, is no daemon."""
    background.write(NEVER)
    file = background.directory / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(content.replace("ALIVE", str(os.getpid())))
    background.cli("run", "--daemonize", "--pid-file", "pid")
    assert background.status()["pid"] == int((background.directory / "pid").read_text())


def test_its_log_may_be_rotated(background: Daemon, gate: Gate) -> None:
    """What it says after its log file was renamed is in a new one."""
    background.write('[jobs.wait]\nstartup = true\ncommand = "read x < gate"\n')
    log = background.directory / "log"
    background.cli("run", "--daemonize", "--log-file", "log", "--log-format", "json")
    log.rename(background.directory / "log.1")
    gate.open()
    background.cli("stop")
    before, after = (
        [json.loads(line)["event"] for line in file.read_text().splitlines()]
        for file in (background.directory / "log.1", log)
    )
    # The line that it is up may be written just after the command has returned.
    assert any("is up" in event for event in before + after)
    assert after[-1] == "pycron has stopped"


def test_a_log_file_that_cannot_be_is_told(background: Daemon) -> None:
    """Before anything is started, with the name of the option that says otherwise."""
    background.write(NEVER)
    done = background.cli("run", "--daemonize", "--log-file", "/nowhere/log", check=1)
    assert "/nowhere/log" in done.stderr
    assert "--log-file" in done.stderr
    background.cli("status", check=3)


def test_it_stops_on_a_signal_to_the_pid_in_the_file(background: Daemon) -> None:
    """The pid file is good for what people use it for."""
    background.write(NEVER)
    background.cli("run", "--daemonize", "--pid-file", "pid")
    process = os.pidfd_open(int((background.directory / "pid").read_text()))
    try:
        signal.pidfd_send_signal(process, signal.SIGTERM)
        background.cli("stop", check=None)  # waits for the end, if it comes before that
    finally:
        os.close(process)
    assert not (background.directory / "pid").exists()
