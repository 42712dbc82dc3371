"""Commands that do what no command should: each ends as it should, and harms nobody else."""

from __future__ import annotations

import os
import select
import signal
from datetime import timedelta
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.daemon import (
    PATIENCE_S,
    Bell,
    Daemon,
    Gate,
    assert_accounted,
    begun,
    job_text,
)
from tests.support.daemon import processes_with as alive
from tests.support.zoo import CLINGING, TICK, animal_text, assert_small

# --- ended before their end ----------------------------------------------------------------------


@pytest.mark.parametrize("animal", CLINGING)
def test_timeout(daemon: Daemon, bell: Bell, mark: str, animal: str) -> None:
    """When a run has timed out, nothing of it is left, wherever it has hidden (P6)."""
    # It must have hidden by then, on a busy machine too.
    lines = ("startup = true", 'timeout = "8s"', 'kill_after = "300ms"')
    log = daemon.start(animal_text(animal, *lines, mark=mark))
    assert bell.wait() == "here"
    assert alive(mark)
    log.wait("run timed out", job=animal)
    assert alive(mark) == []
    (row,) = daemon.history()
    assert (row["outcome"], row["reason"]) == ("timed_out", "timed out after 8s")
    assert_small(daemon)


@pytest.mark.parametrize("animal", CLINGING)
def test_cancel(daemon: Daemon, bell: Bell, mark: str, animal: str) -> None:
    """When cancel says that all processes have ended, they have (P6)."""
    lines = ('schedule = "@yearly"', 'kill_after = "300ms"')
    daemon.start(animal_text(animal, *lines, mark=mark))
    run = daemon.cli("trigger", animal).stdout.strip()
    assert bell.wait() == "here"
    assert alive(mark)
    said = daemon.cli("cancel", animal).stdout
    assert alive(mark) == []
    assert said == f"run {run} of {animal}: cancelled, all its processes have ended\n"


@pytest.mark.parametrize("animal", ["double_fork", "without_a_name", "deaf", "herd"])
def test_stop(daemon: Daemon, bell: Bell, mark: str, animal: str) -> None:
    """A daemon that was told to end its jobs leaves nothing of them behind (P6, P1)."""
    lines = ("startup = true", 'kill_after = "300ms"')
    daemon.start(animal_text(animal, *lines, mark=mark))
    assert bell.wait() == "here"
    daemon.cli("stop", "--now")
    assert daemon.wait_exit() == 0
    assert alive(mark) == []
    assert [row["outcome"] for row in daemon.history()] == ["cancelled"]


@pytest.mark.parametrize("animal", ["setsid", "double_fork", "deaf", "herd"])
def test_timeout_after_a_crash(daemon: Daemon, bell: Bell, mark: str, animal: str) -> None:
    """A daemon that did not start the tree ends it all the same (P5, P6)."""
    lines = ('startup = "boot"', 'timeout = "2s"', 'kill_after = "300ms"')
    job = animal_text(animal, *lines, mark=mark)
    # However long the first one takes to be killed, it is not the one that ends the run.
    daemon.start(job.replace('timeout = "2s"', 'timeout = "1h"'))
    assert bell.wait() == "here"
    daemon.kill()
    assert alive(mark)
    log = daemon.start(job)
    log.wait("run timed out", job=animal)
    assert alive(mark) == []
    assert [row["outcome"] for row in daemon.history()] == ["timed_out"]


# --- what ends by itself ----------------------------------------------------------------------


class Ending(NamedTuple):
    """A command of the shell, and what is to be recorded of it."""

    name: str
    command: str
    outcome: str
    exit_code: int | None = None
    signal: int | None = None


ENDINGS = [
    Ending("kills-its-group", "sleep 1000 & kill -KILL 0", "failed", signal=9),
    Ending("terminates-its-group", "sleep 1000 & kill -TERM 0; wait", "failed", signal=15),
    Ending("terminates-all-it-may", "kill -TERM -$$; sleep 1000", "failed", signal=15),
    Ending("reads-input", "cat; echo read", "succeeded", 0),
    Ending("needs-input", "read line", "failed", 1),
    Ending("wants-a-terminal", "exec < /dev/tty", "failed", 2),
    Ending("closed-output", "exec >&- 2>&-; sleep 0; exit 5", "failed", 5),
    Ending("writes-to-closed-output", "exec >&-; echo x 2> /dev/null || exit 6", "failed", 6),
    Ending("closes-all", "exec <&- >&- 2>&-; exec sleep 0", "succeeded", 0),
    Ending("goes-to-a-session", 'exec setsid --fork --wait sh -c "exit 9"', "failed", 9),
    Ending("dumps", "ulimit -c 0; kill -SEGV $$", "failed", signal=11),
    Ending("hangs-up", "kill -HUP $$", "failed", signal=1),
    Ending("breaks-its-pipe", "kill -PIPE $$", "failed", signal=13),
    Ending("large-status", "exit 255", "failed", 255),
    Ending("changes-directory", 'mkdir gone; cd gone; rmdir "$PWD"; true', "succeeded", 0),
]  # fmt: skip


def test_what_ends_by_itself(daemon: Daemon) -> None:
    """Each is recorded with the exit status or the signal that it had, beside all the others."""
    daemon.start("\n".join(job_text(e.name, e.command, "startup = true") for e in ENDINGS))
    daemon.log.wait("run ", count=2 * len(ENDINGS))
    daemon.stop()
    rows = {row["job"]: row for row in daemon.history()}
    recorded = [
        (name, rows[name]["outcome"], attempt["exit_code"], attempt["signal"])
        for name in (ending.name for ending in ENDINGS)
        for attempt in rows[name]["attempts"]
    ]
    assert recorded == [(e.name, e.outcome, e.exit_code, e.signal) for e in ENDINGS]


def test_group_is_ended(daemon: Daemon, mark: str) -> None:
    """A job that ends its own process group ends nobody else's, the daemon included."""
    log = daemon.start(animal_text("kills_its_group", 'every = "1s"', mark=mark) + TICK)
    failed = log.wait("run failed", job="kills_its_group", count=2)
    assert failed["reason"].startswith("ended by signal 9")
    log.wait("run succeeded", job="tick", count=2)
    daemon.stop()
    assert alive(mark) == []
    assert {row["outcome"] for row in begun(daemon.history("tick"))} == {"succeeded"}


def test_grandchild_holds_the_output(daemon: Daemon, bell: Bell, gate: Gate, mark: str) -> None:
    """A run ends with its command; what it left behind can still write, and stops nothing (P4)."""
    daemon.start(animal_text("leaves_a_writer", 'schedule = "@yearly"', mark=mark))
    said = daemon.cli("trigger", "leaves_a_writer", "--wait").stdout
    assert " succeeded after " in said
    assert bell.wait() == "here"
    output = _output(daemon, "leaves_a_writer")
    assert output.read_text() == "first words\n"
    (writer,) = alive(f"echo {mark}")
    pidfd = os.pidfd_open(writer)
    gate.open()
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    assert poll.poll(PATIENCE_S * 1000)
    os.close(pidfd)
    assert output.read_text() == "first words\nlate words\n"
    daemon.stop()


def _output(daemon: Daemon, job: str) -> Path:
    """Return the file with the output of a job's only run."""
    (path,) = (daemon.state / "output" / job).iterdir()
    return path


def test_ugly_output(daemon: Daemon) -> None:
    """What is no text is stored byte for byte, and shown so that no terminal obeys it (P9)."""
    daemon.start(animal_text("ugly", 'schedule = "@yearly"'))
    daemon.cli("trigger", "ugly", "--wait")
    stored = _output(daemon, "ugly").read_bytes()
    assert (
        stored
        == b"\xff\xfe\x00NUL\x00 \x1b]0;title\x07\x1b[2J\x1b[31mred \xe2\x82 \r\x08\x7f end\n"
    )
    shown = daemon.cli("logs", "ugly").stdout
    assert shown.rstrip("\n").endswith("end")
    assert all(character.isprintable() or character == "\n" for character in shown)


def test_herd_is_left(daemon: Daemon, bell: Bell, mark: str) -> None:
    """What a command leaves behind is left alone, and the history says so (P1)."""
    daemon.start(animal_text("leaves_a_herd", 'schedule = "@yearly"', mark=mark))
    said = daemon.cli("trigger", "leaves_a_herd", "--wait").stdout
    assert " succeeded after " in said
    assert bell.wait() == "here"
    (row,) = daemon.history()
    assert row["reason"].startswith("left 200 processes running: sleep (pid ")
    herd = alive(mark)
    assert len(herd) == 200
    daemon.stop()
    assert alive(mark) == herd
    for pid in herd:
        os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize("kills", ["", "crash"])
def test_herd_is_ended(daemon: Daemon, bell: Bell, mark: str, kills: str) -> None:
    """With ``leftovers = "kill"`` nothing outlives the run, a crash of the daemon or not (P6)."""
    lines = ('schedule = "@yearly"', 'leftovers = "kill"', 'kill_after = "300ms"')
    log = daemon.start(animal_text("leaves_a_herd", *lines, mark=mark))
    run = int(daemon.cli("trigger", "leaves_a_herd").stdout)
    assert bell.wait() == "here"
    if kills:
        daemon.kill()
        log = daemon.start()
    log.wait(("run succeeded", "run lost"), run=run)
    assert alive(mark) == []
    if not kills:
        assert [row["outcome"] for row in daemon.history()] == ["succeeded"]


# --- the environment -------------------------------------------------------------------------


def test_large_value(daemon: Daemon, bell: Bell, gate: Gate) -> None:
    """A variable of a hundred kilobytes arrives whole, and hides no run from a restart (P5)."""
    log = daemon.start(f"""
    [jobs.large]
    startup = "boot"
    command = 'echo ${{#LARGE}} > bell; read x < gate'
    env = {{ LARGE = "{"v" * 100_000}" }}
    """)
    run = log.wait("run started", job="large")["run"]
    assert bell.wait() == "100000"
    daemon.status()  # all that has happened is in the ledger when it answers
    daemon.kill()
    log = daemon.start()
    assert log.wait("run of an earlier pycron: adopt")["run"] == run
    gate.open()
    log.wait(("run succeeded", "run lost"), run=run)


def test_value_that_is_too_large(daemon: Daemon) -> None:
    """A variable that no process can be given is refused with the crontab (P7)."""
    huge = "v" * 200_000
    daemon.write(f'[jobs.huge]\nevery = "1s"\ncommand = "true"\nenv = {{ HUGE = "{huge}" }}\n')
    (line,) = daemon.cli("check", check=78).stderr.splitlines()
    assert "jobs.huge.env.HUGE" in line
    assert len(line) < 300


def test_environment_that_is_too_large(daemon: Daemon) -> None:
    """What is too much only as a whole is told as the cause, and harms nobody else (P8)."""
    value = "v" * 100_000
    env = ", ".join(f'V{number} = "{value}"' for number in range(70))
    log = daemon.start(f'[jobs.huge]\nstartup = true\ncommand = "true"\nenv = {{ {env} }}\n{TICK}')
    failed = log.wait("run failed", job="huge")
    assert "E2BIG" in failed["reason"]
    assert len(failed["reason"]) < 300
    log.wait("run succeeded", job="tick")


# --- loud, beside a good neighbour -------------------------------------------------------------


LIMIT = 1 << 20
ROOM = 1 << 10
"""The most that the line needs which says how much was left out."""

LOUD = {"one_line": (b"xxxxxxxx", b"xxxxxxxx"), "many_lines": (b"line 00000 of ", b" there are\n")}


@pytest.mark.parametrize("animal", LOUD)
def test_loud(daemon: Daemon, animal: str) -> None:
    """A gigabyte in one line, or very many lines: the run succeeds, the daemon stays small (P4).

    The beginning and the end of what was printed are kept, within the limit, and a line between
    them says how much was left out. The neighbour has its run for each second.
    """
    log = daemon.start(animal_text(animal, "startup = true", 'output_limit = "1M"') + TICK)
    log.wait("run succeeded", job=animal)
    log.wait("run succeeded", job="tick", count=2)
    assert_small(daemon)
    daemon.stop()
    rows = daemon.history("tick")
    assert_accounted(rows, timedelta(seconds=1))
    assert {row["outcome"] for row in begun(rows)} == {"succeeded"}
    (row,) = daemon.history(animal)
    assert row["outcome"] == "succeeded"
    kept = _output(daemon, animal).read_bytes()
    begin, end = LOUD[animal]
    assert kept.startswith(begin)
    assert kept.endswith(end)
    assert LIMIT // 2 < len(kept) <= LIMIT + ROOM
