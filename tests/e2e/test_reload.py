"""The crontab is read again while jobs run: on SIGHUP and on ``pycron reload``."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.daemon import Daemon, Gate, assert_accounted, begun

NEVER = '[jobs.never]\nschedule = "0 0 1 1 *"\ncommand = "true"\n'

SOON = '[jobs.soon]\nschedule = "* * * * * *"\ncommand = "true"\n'

BEAT = '[jobs.beat]\nevery = "1s"\ncommand = "true"\noverlap = "allow"\nmissed = "all"\n'

BAD = """
[jobs.beat]
every = "1s"
command = "true"
overlpa = "skip"

[jobs.other]
schedule = "61 * * * *"
command = "true"
"""


def _version(number: int) -> str:
    return f'[jobs.v{number}]\nschedule = "@yearly"\ncommand = "true"\n'


def _jobs_in_force(daemon: Daemon) -> set[str]:
    return {job["job"] for job in json.loads(daemon.cli("list", "--json").stdout)}


KNOCK = """
import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGHUP])
os.kill(os.getpid(), signal.SIGHUP)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_signal_that_comes_before_all_else(daemon: Daemon) -> None:
    """P8: whoever has changed the crontab meanwhile must not wait for a reload that never comes."""
    log = daemon.start(_version(1), under=(sys.executable, "-c", KNOCK))
    log.wait("crontab reloaded")


@pytest.mark.parametrize("way", ["HUP", "command"])
def test_job_that_is_earlier_than_the_next(daemon: Daemon, way: str) -> None:
    """A job that a reload adds runs before the one that was waited for (P4)."""
    log = daemon.start(NEVER)
    daemon.write(NEVER + SOON)
    if way == "HUP":
        daemon.signal(signal.SIGHUP)
    else:
        assert daemon.cli("reload").stdout == "added: soon\n"
    assert log.wait("crontab reloaded")["added"] == "soon"
    log.wait("run succeeded", job="soon", count=2)
    daemon.stop()
    assert daemon.history("never") == []


def test_log_tells_of_a_pool_that_is_gone(daemon: Daemon) -> None:
    """P8: what became of each pool and group, and that tasks wait; the latter at a start, too."""
    pools = "[pools.work]\nworkers = 1\n[pools.other]\nworkers = 1\n[groups.g]\nweight = 2\n"
    log = daemon.start(NEVER + pools)
    daemon.cli("in", "1h", "--pool", "work", "--", "true")
    daemon.write(NEVER + "[pools.other]\nworkers = 2\n[pools.new]\nworkers = 1\n")
    daemon.signal(signal.SIGHUP)
    reloaded = log.wait("crontab reloaded")
    told = {name: value for name, value in reloaded.items() if name.startswith(("pool", "group"))}
    assert told == {
        "pools_added": "new",
        "pools_removed": "work",
        "pools_changed": "other",
        "groups_removed": "g",
    }
    waits = "submitted tasks wait for a pool that is not in the crontab"
    assert log.wait(waits, level="warning", pool="work")["tasks"] == 1
    daemon.stop()
    assert daemon.start().wait(waits, level="warning", pool="work")["tasks"] == 1


def test_unchanged_job_keeps_its_beat(daemon: Daemon) -> None:
    """Reloads neither shift an interval nor leave out or repeat a turn of it (P1, P2)."""
    log = daemon.start(BEAT)
    for turn in range(4):
        log.wait("run succeeded", job="beat", count=turn + 1)
        daemon.write(BEAT + _version(turn))
        daemon.signal(signal.SIGHUP)
        log.wait("crontab reloaded", count=turn + 1)
    log.wait("run succeeded", job="beat", count=6)
    daemon.stop()
    rows = daemon.history("beat")
    assert_accounted(rows, timedelta(seconds=1))
    assert {row["outcome"] for row in begun(rows)} == {"succeeded"}


def test_removed_job(daemon: Daemon, gate: Gate) -> None:
    """With a job its queue goes, each run with a reason; the run that goes on ends well (P1)."""
    log = daemon.start("""
    [jobs.queue]
    schedule = "* * * * * *"
    command = "read x < gate"
    overlap = "queue"
    queue_limit = 2
    """)
    log.wait("run skipped", job="queue")  # so there are two that wait behind the first
    daemon.write(NEVER)
    daemon.cli("reload")
    running, *queued = [row for row in daemon.history("queue") if row["outcome"] != "skipped"]
    assert running["state"] == "running"
    assert [(row["outcome"], row["attempts"]) for row in queued] == [("cancelled", [])] * 2
    assert {row["reason"] for row in queued} == {"the job was removed from the crontab"}
    gate.open()
    log.wait("run succeeded", job="queue", run=running["run"])
    daemon.stop()
    rows = daemon.history("queue")
    assert_accounted(rows, timedelta(seconds=1))
    assert [row["outcome"] for row in rows][:3] == ["succeeded", "cancelled", "cancelled"]
    assert {row["outcome"] for row in rows[3:]} == {"skipped"}


def test_faulty_crontab_by_command(daemon: Daemon) -> None:
    """``pycron reload`` of a bad crontab names each fault and leaves with 78; jobs go on (P7)."""
    log = daemon.start(BEAT)
    daemon.write(BAD)
    refused = daemon.cli("reload", check=78)
    assert refused.stdout == ""
    _assert_both_faults(refused.stderr.splitlines(), daemon.crontab)
    before = len(log.all("run succeeded", job="beat"))
    log.wait("run succeeded", job="beat", count=before + 2)
    assert _jobs_in_force(daemon) == {"beat"}


def test_faulty_crontab_by_signal(daemon: Daemon) -> None:
    """SIGHUP with a bad crontab logs each fault with its line; jobs go on as they were (P7)."""
    log = daemon.start(BEAT)
    daemon.write(BAD)
    daemon.signal(signal.SIGHUP)
    log.wait("the crontab was not reloaded")
    faults = [event["event"] for event in log.all(str(daemon.crontab), level="error")]
    _assert_both_faults(faults, daemon.crontab)
    before = len(log.all("run succeeded", job="beat"))
    log.wait("run succeeded", job="beat", count=before + 2)
    assert _jobs_in_force(daemon) == {"beat"}


def _assert_both_faults(faults: list[str], crontab: Path) -> None:
    lines = crontab.read_text("utf-8").splitlines()
    typo, minute = lines.index('overlpa = "skip"') + 1, lines.index('schedule = "61 * * * *"') + 1
    assert len(faults) == 2
    assert faults[0].startswith(f"{crontab}:{typo}: jobs.beat.overlpa:")
    assert "overlap" in faults[0].split("overlpa", 1)[1]
    assert faults[1].startswith(f"{crontab}:{minute}: jobs.other.schedule:")


def test_file_replaced_by_renaming(daemon: Daemon) -> None:
    """A crontab that an editor replaces is read by its name, again and again."""
    log = daemon.start(_version(0))
    inodes = {daemon.crontab.stat().st_ino}
    for number in range(1, 6):
        daemon.write(_version(number))  # renames a new file over the old one
        inodes.add(daemon.crontab.stat().st_ino)
        daemon.signal(signal.SIGHUP)
        reloaded = log.wait("crontab reloaded", count=number)
        assert (reloaded["added"], reloaded["removed"]) == (f"v{number}", f"v{number - 1}")
    assert len(inodes) > 1
    assert _jobs_in_force(daemon) == {"v5"}


def test_symlink_switched(daemon: Daemon) -> None:
    """A crontab that is a link is followed to where it points at the time of the reload."""
    for number in (1, 2):
        target = daemon.directory / f"release-{number}.toml"
        target.write_text(daemon.crontab_text(_version(number)), encoding="utf-8")
    daemon.crontab.symlink_to("release-1.toml")
    daemon.start()
    assert _jobs_in_force(daemon) == {"v1"}
    link = daemon.directory / "link"
    link.symlink_to("release-2.toml")
    link.replace(daemon.crontab)
    assert daemon.cli("reload").stdout == "added: v2\nremoved: v1\n"
    assert _jobs_in_force(daemon) == {"v2"}


def test_five_hangups_in_a_row(daemon: Daemon) -> None:
    """Signals one upon the other end nothing, and the last crontab is the one in force."""
    log = daemon.start(BEAT + _version(0))
    for number in range(1, 6):
        daemon.write(BEAT + _version(number))
        daemon.signal(signal.SIGHUP)
    log.wait("crontab reloaded", added="v5")
    assert _jobs_in_force(daemon) == {"beat", "v5"}


def test_a_stop_does_not_wait_for_a_file_that_cannot_be_read(daemon: Daemon) -> None:
    """What reads a crontab on a dead disk hangs; the daemon still ends when it is told to (P8)."""
    daemon.start(BEAT)
    readers: list[int] = []
    while not readers:  # they are quick
        daemon.signal(signal.SIGHUP)
        looks = (_readers_of(daemon.pid) for _ in range(1000))
        readers = next(filter(None, looks), [])
    os.kill(readers[0], signal.SIGSTOP)
    assert daemon.process is not None
    daemon.signal(signal.SIGTERM)
    try:
        assert daemon.process.wait(120) == 0
    finally:
        os.kill(readers[0], signal.SIGKILL)


def _readers_of(pid: int) -> list[int]:
    """Return the processes that read the crontab for a daemon."""
    with suppress(OSError):  # a thread or a reader that has just ended
        lists = [path.read_text("ascii") for path in Path(f"/proc/{pid}/task").glob("*/children")]
        return [
            child
            for child in map(int, " ".join(lists).split())
            if b"crond_py.crontab" in Path(f"/proc/{child}/cmdline").read_bytes()
        ]
    return []


DEAF = """
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execvp(sys.argv[1], sys.argv[1:])
"""


def test_daemon_that_was_started_with_sigchld_ignored(daemon: Daemon) -> None:
    """It reads its crontab and its jobs have exit statuses, whoever has started it (P1, P8)."""
    log = daemon.start(SOON, under=(sys.executable, "-c", DEAF))
    log.wait("run succeeded", job="soon")
    daemon.write(SOON + NEVER)
    assert daemon.cli("reload").stdout == "added: never\n"
    daemon.stop()


# --- a hangup while the daemon starts -------------------------------------------------------------

DELAYS_MS = (*range(0, 101, 10), 150, 200, 300)


def test_hangup_while_starting(daemon: Daemon) -> None:
    """A hangup at any moment of the start does not end the daemon, which then has read its file.

    In the first few milliseconds it meets the interpreter, before any code of ours has run, and
    nobody can help that; so a signal is sent only where SIGHUP does not end the process any more.
    """
    sent_after = []
    for delay_ms in DELAYS_MS:
        log = daemon.start(BEAT, is_up=False)
        assert daemon.process is not None
        with suppress(subprocess.TimeoutExpired):
            daemon.process.wait(delay_ms / 1000)
        if _is_hangup_heeded(daemon.pid):
            daemon.signal(signal.SIGHUP)
            sent_after.append(delay_ms)
        assert log.wait("is up")["jobs"] == 1
        daemon.kill()
    sys.stdout.write(f"hangups were sent after {sent_after} ms\n")


def test_hangup_from_the_first_instant(daemon: Daemon) -> None:
    """Started with SIGHUP ignored, as by nohup(1), no moment is too early, and reload works."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a new process inherits it
    try:
        log = daemon.start(BEAT, is_up=False)
    finally:
        signal.signal(signal.SIGHUP, before)
    daemon.signal(signal.SIGHUP)
    log.wait("is up")
    daemon.write(BEAT + _version(1))
    daemon.signal(signal.SIGHUP)
    log.wait("crontab reloaded", added="v1")


def _is_hangup_heeded(pid: int) -> bool:
    """Return whether the process ignores or catches SIGHUP; see proc(5)."""
    bit = 1 << (signal.SIGHUP - 1)
    status = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    masks = [line.split()[1] for line in status if line.startswith(("SigIgn:", "SigCgt:"))]
    return any(int(mask, 16) & bit for mask in masks)
