"""Commands of every shape: each is ended whole, found again, and has its own exit status.

Reports about other schedulers are named where a test is about one, or about its kin.
"""

from __future__ import annotations

import os
import signal
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.daemon import (
    Daemon,
    assert_accounted,
    job_text,
    kill_session,
    may_run,
    processes_with,
)

A_SECOND = timedelta(seconds=1)

SHELLS = {
    "list": "sleep {}; true",
    "pipe": "sleep {} | cat",
    "pipe-of-many": "yes | head -c 1 | (cat; sleep {}) | cat",
    "background": "sleep {} & wait",
    "subshell": "(sleep {}); true",
    "nested": "sh -c 'sh -c \"sleep {}; true\"; true'",
    "exec": "exec sleep {}",
    "nohup": "nohup sleep {} > /dev/null; true",
    "session": "setsid --wait sleep {}",
    "session-forked": "setsid --fork sleep {}; sleep 1000{}",
    "priority": "nice sleep {}; true",
    "own-limit": "timeout 100000 sleep {}",
    "loop": "while true; do sleep {}; done",
    "substitution": "echo $(sleep {})",
    "xargs": "echo {} {} | xargs -n 1 -P 2 sleep",
    "trap-that-goes-on": "trap 'sleep {}' TERM; sleep {}; true",
    "ignores": "trap '' TERM INT HUP; sleep {}; true",
    "ignores-in-the-pipe": "(trap '' TERM; sleep {}) | (trap '' TERM; cat)",
    "unnamed": "exec env -u PYCRON_RUN_ID sleep {}",
    "no-environment": "env -i sleep {}; true",
}


def test_every_shape_of_shell(daemon: Daemon, mark: str) -> None:
    """gjcarneiro/yacron#70: whatever a command's shape, its timeout leaves nothing behind (P6)."""
    jobs = "\n".join(
        job_text(name, shell.replace("{}", mark), "startup = true", 'timeout = "2s"')
        + 'kill_after = "500ms"\n'
        for name, shell in SHELLS.items()
    )
    log = daemon.start(jobs)
    log.wait("run timed out", count=len(SHELLS))
    assert processes_with(mark) == []
    daemon.stop()
    rows = {row["job"]: row["outcome"] for row in daemon.history()}
    assert rows == dict.fromkeys(SHELLS, "timed_out")


NAMESPACE = ("unshare", "--fork", "--pid", "--mount-proc", "--kill-child")


@pytest.mark.skipif(not may_run(*NAMESPACE), reason="may not make a pid namespace")
def test_exit_statuses_as_process_1(daemon: Daemon) -> None:
    """Of the kind of aptible/supercronic#171: no reaper takes a status away, good or bad.

    Ten jobs at a time, each with a status of its own, beside orphans that end at the same moment;
    and the process ends well on SIGTERM, as a container is stopped.
    """
    jobs = "\n".join(
        job_text(f"j{n}", f"(sleep 0.0{n} &) ; (true &) ; exit {n}", 'schedule = "* * * * * *"')
        for n in range(10)
    )
    log = daemon.start(jobs, under=NAMESPACE)
    log.wait("run ", count=20 * 4)
    (process_1,) = map(int, _read(f"/proc/{daemon.pid}/task/{daemon.pid}/children").split())
    os.kill(process_1, signal.SIGTERM)
    assert daemon.wait_exit() == 0
    codes = {
        (row["job"], attempt["exit_code"])
        for row in daemon.history()
        for attempt in row["attempts"]
    }
    assert codes == {(f"j{n}", n) for n in range(10)}


def _read(path: str) -> str:
    return Path(path).read_text("ascii")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_while_starting(daemon: Daemon, number: signal.Signals) -> None:
    """Of the kind of cronie-crond/cronie#139: a stop at any moment of the start is heeded (P1).

    It ends with 0 once its handlers are there, and what it left is in order for the next. Before,
    the interpreter itself is hit, which may lose an interrupt, so that has to come again.
    """
    jobs = job_text("tick", "true", 'schedule = "* * * * * *"', 'missed = "all"')
    for delay_ms in (50, 150, 200, 250, 300, 400):
        daemon.start(jobs, is_up=False)
        assert daemon.process is not None
        patience_s, repeats = delay_ms / 1000, 0
        while True:
            try:
                daemon.process.wait(patience_s)
                break
            except subprocess.TimeoutExpired:
                assert repeats < (3 if number is signal.SIGINT else 1)
                daemon.signal(number)
                patience_s, repeats = 60, repeats + 1
        assert daemon.wait_exit() in {0, 1, -number, 130, 143}
    log = daemon.start()
    log.wait("run succeeded", job="tick", count=2)
    daemon.stop()
    assert_accounted(daemon.history(), A_SECOND)


TICK = job_text("tick", 'sh "$STAMP" ran', 'schedule = "* * * * * *"', 'missed = "all"')

WASHED = {
    "environment": "exec env -i sleep {}",
    "session": "exec setsid --wait env -i sleep {}",
    "child": "env -i sleep {}; true",
}


@pytest.mark.parametrize("shape", WASHED)
def test_washed_command_across_a_crash(daemon: Daemon, mark: str, shape: str) -> None:
    """A command without our variables (``su -``, ``env -i``) is found again, too (P2, P5, P6)."""
    command = WASHED[shape].replace("{}", mark)
    log = daemon.start(job_text("washed", command, 'schedule = "* * * * * *"', 'missed = "skip"'))
    run = log.wait("run started", job="washed")["run"]
    log.wait("run skipped", job="washed")
    before = processes_with(mark)
    daemon.kill()
    log = daemon.start()
    log.wait("run skipped", job="washed", count=2)
    assert processes_with(mark) == before
    assert [active["run"] for active in daemon.status()["active"]] == [run]
    said = daemon.cli("cancel", str(run)).stdout
    assert "all its processes that pycron knows of have ended" in said
    assert not set(before) & set(processes_with(mark))
    daemon.cli("stop", "--now")


def test_job_that_kills_the_daemon(daemon: Daemon, mark: str) -> None:
    """A run that takes the daemon down is not run again for ever, though it may be rerun (P3)."""
    kill = 'kill -KILL $(cut -d " " -f 4 /proc/$$/stat)'
    command = f'sh "$STAMP" begin $$; {kill}; sleep {mark}'
    keys = ('startup = "boot"', 'on_crash = "rerun"')
    daemon.write(job_text("poison", command, *keys) + TICK)
    for _ in range(20):
        daemon.start(is_up=False)
        if daemon.log.wait_or_end("run lost", job="poison") is not None:
            break
        assert daemon.wait_exit() == -signal.SIGKILL
        kill_session(daemon.stamps("poison")[-1].pid)
    else:
        pytest.fail("it was run again and again")
    daemon.log.wait("run succeeded", job="tick")
    (row,) = daemon.history("poison")
    assert row["outcome"] == "lost"
    assert len(daemon.stamps("poison")) == len(row["attempts"]) < 20
    daemon.stop()
