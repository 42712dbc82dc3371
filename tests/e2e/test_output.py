"""What jobs print: bounded, passed on, and without harm to anybody, whatever it is."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest

from crond_py.runner.output import output_path
from tests.e2e.test_idle import quiet_calls
from tests.support.daemon import Daemon, Gate
from tests.support.zoo import assert_small

NEVER = 'schedule = "0 0 1 1 *"\nmissed = "skip"\n'
MEGABYTE = 1 << 20


def taken(path: Path) -> int:
    """Return how much of the disk a file takes."""
    return path.stat().st_blocks * 512


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("head -c 1000000000 /dev/zero", "file"),
        ("head -c 300000000 /dev/zero | tr '\\\\0' x", "stream"),
        ("seq 2000000", "stream"),
    ],
)
def test_floods_harm_nobody(daemon: Daemon, command: str, output: str) -> None:
    """P4, P8: a gigabyte in one line, or millions of lines: the daemon stays small and on time."""
    daemon.start(
        f'[jobs.flood]\n{NEVER}output = "{output}"\noutput_limit = "1M"\ncommand = "{command}"\n'
        '[jobs.tick]\nevery = "100ms"\ncommand = ["true"]\n'
    )
    daemon.cli("trigger", "flood", "--wait")
    (flood,) = daemon.history("flood")
    assert flood["outcome"] == "succeeded"
    path = output_path(daemon.state, "flood", flood["run"], 1)
    assert_small(daemon)
    daemon.stop()  # what is to be done is done before the end
    assert taken(path) < 3 * MEGABYTE
    shown = daemon.cli("logs", str(flood["run"]), "--tail", "2").stdout
    assert "bytes left out here]" in daemon.cli("logs", str(flood["run"])).stdout
    assert len(shown) < 3 * MEGABYTE * 4  # a NUL is shown as four characters
    ticks = daemon.history("tick")
    # What the stop has taken back has no outcome yet.
    settled = [tick for tick in ticks if tick["state"] != "queued"]
    assert {tick["outcome"] for tick in settled} <= {"succeeded", "skipped", "missed"}


def test_the_daemon_stays_small(daemon: Daemon) -> None:
    """P8: its memory does not grow with what jobs print."""
    daemon.start(f'[jobs.flood]\n{NEVER}output = "stream"\ncommand = "seq 3000000"\n')
    daemon.cli("trigger", "flood", "--wait")
    daemon.log.wait("output", line="1000")
    assert_small(daemon)


def test_lines_go_into_the_log(daemon: Daemon) -> None:
    """P9: with the run that they are of, safely, before the end of the daemon."""
    daemon.start(
        f'[jobs.talker]\n{NEVER}output = "stream"\n'
        "command = \"echo one; printf '\\\\033[2J{\\\\n'; printf last\"\n"
    )
    daemon.cli("trigger", "talker", "--wait")
    daemon.stop()
    lines = [
        (event["line"], event["job"], event["run"], event["attempt"])
        for event in daemon.log.all("output", logger="pycron.output")
    ]
    assert lines == [(text, "talker", 1, 1) for text in ("one", "\x1b[2J{", "last")]
    assert daemon.log.noise == []


def test_a_killed_daemon_s_outputs_are_settled(daemon: Daemon, gate: Gate) -> None:
    """P3, P8: what was printed while no daemon was there is brought to its limit, and passed on."""
    daemon.start(
        f'[jobs.flood]\n{NEVER}output = "stream"\noutput_limit = "64K"\n'
        'command = "echo began; read x < gate; seq 100000"\n'
    )
    run = int(daemon.cli("trigger", "flood").stdout)
    daemon.log.wait("output", line="began")
    (alive,) = daemon.history()
    process = os.pidfd_open(alive["attempts"][0]["pid"])
    daemon.kill()
    gate.open()
    poll = select.poll()
    poll.register(process, select.POLLIN)
    assert poll.poll(60_000)
    os.close(process)
    daemon.start()
    daemon.log.wait("output", line="100000")
    daemon.stop()
    path = output_path(daemon.state, "flood", run, 1)
    assert path.stat().st_size < 70_000
    assert b" bytes left out here]\n" in path.read_bytes()
    assert daemon.log.all("output", line="began") == []


def test_the_bytes_that_a_job_keeps(daemon: Daemon) -> None:
    """The oldest outputs go, their rows stay, and who asks for one is told why it is not there."""
    daemon.start(
        f'[jobs.talker]\n{NEVER}keep = {{ bytes = "100K" }}\ncommand = "head -c 40000 /dev/zero"\n'
    )
    for _ in range(5):
        daemon.cli("trigger", "talker", "--wait")
    daemon.stop()
    directory = output_path(daemon.state, "talker", 1, 1).parent
    assert sorted(path.name for path in directory.iterdir()) == ["4-1.log", "5-1.log"]
    assert len(daemon.history()) == 5
    assert "not kept any more" in daemon.cli("logs", "1").stderr


def test_a_silent_job_wakes_nobody(daemon: Daemon, gate: Gate, tmp_path: Path) -> None:
    """P4: while a job prints nothing no thread of the daemon wakes up, whatever it has printed."""
    daemon.start(
        f'[jobs.quiet]\n{NEVER}output = "stream"\ncommand = "seq 1000; read x < gate; echo end"\n'
    )
    daemon.cli("trigger", "quiet")
    daemon.log.wait("output", line="1000")
    daemon.status()
    quiet_calls(daemon.pid, 2, tmp_path / "calls")
    gate.open()
    daemon.log.wait("output", line="end")
    daemon.stop()
