"""The daemon is killed without warning, and started again on what it left."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
from collections import Counter
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from crond_py.clock import SystemClock
from crond_py.ledger.records import from_us, to_us
from crond_py.runner.output import output_file
from tests.support.daemon import (
    ENDS,
    Bell,
    Daemon,
    Gate,
    assert_accounted,
    kill_session,
    processes_with,
)

# Signals "begun", then runs until the gate is opened.
LONG = """
[jobs.long]
schedule = "* * * * * *"
command = 'sh "$STAMP" begin; echo $$ > bell; read x < gate; sh "$STAMP" end'
overlap = "skip"
"""


def test_survivor_is_adopted(daemon: Daemon, bell: Bell, gate: Gate) -> None:
    """A job that outlives its daemon is found again: no second copy, and its end is seen (P5, P2).

    Occurrences that fall due meanwhile are skipped because of it, as without the crash.
    """
    log = daemon.start(LONG)
    run = log.wait("run started", job="long")["run"]
    bell.wait()
    daemon.status()  # all that has happened is in the ledger when it answers
    daemon.kill()
    log = daemon.start()
    assert log.wait("run of an earlier pycron")["run"] == run
    skipped = log.wait("run skipped", job="long", count=2)
    assert skipped["reason"].startswith(f"overlap: run {run} is running since ")
    assert len(daemon.stamps("long")) == 1
    gate.open()
    # Its end is seen for sure, its exit status only where the kernel shows that of an orphan.
    second = log.wait("run started", job="long")["run"]
    gate.open()
    log.wait("run succeeded", run=second)
    daemon.signal(signal.SIGKILL)
    daemon.wait_exit()
    rows = daemon.history("long")
    assert_accounted(rows, timedelta(seconds=1))
    (adopted,) = [row for row in rows if row["run"] == run]
    assert adopted["outcome"] in {"succeeded", "lost"}
    if adopted["outcome"] == "lost":
        assert adopted["reason"] == "ended while pycron could not see its exit status"
    assert len(adopted["attempts"]) == 1
    runs = [stamp.run for stamp in daemon.stamps("long", "begin")]
    assert len(runs) == len(set(runs)), "each run was started once"


def test_survivor_ends_while_descriptors_are_short(daemon: Daemon, bell: Bell, gate: Gate) -> None:
    """The first fault of a daemon that has no descriptor left costs it no thread (P8, P1)."""
    run = daemon.start(LONG).wait("run started", job="long")["run"]
    bell.wait()
    daemon.status()
    daemon.kill()
    log = daemon.start()
    before = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (8, before[1]))
    gate.open()
    log.wait(ENDS, run=run)
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, before)
    second = log.wait("run started", job="long")["run"]
    gate.open()
    log.wait("run succeeded", run=second)
    daemon.signal(signal.SIGKILL)
    daemon.wait_exit()


def test_more_survivors_than_descriptors(daemon: Daemon, mark: str) -> None:
    """All are adopted, and the daemon still answers, starts jobs and ends them (P5, P8)."""
    number = 60
    jobs = "".join(
        f'[jobs.j{each}]\nstartup = true\ncommand = ["sleep", "{mark}"]\non_stop = "leave"\n'
        for each in range(number)
    )
    jobs += '[jobs.other]\nschedule = "@yearly"\ncommand = "true"\n'
    few = ("sh", "-c", 'ulimit -Sn 64; exec "$@"', "sh")
    log = daemon.start(jobs, under=few)
    log.wait("run started", count=number)
    daemon.stop()
    log = daemon.start(under=few)
    assert len(log.all("run of an earlier pycron: adopt")) == number
    assert len(daemon.status()["active"]) == number
    assert len(processes_with(mark)) == number
    daemon.cli("cancel", f"j{number - 1}")
    daemon.cli("trigger", "other")
    log.wait("run succeeded", job="other")
    assert len(processes_with(mark)) == number - 1
    assert not log.all("run lost")
    daemon.kill()


def test_survivor_whose_start_was_not_recorded(daemon: Daemon, bell: Bell, gate: Gate) -> None:
    """Killed before it could note the process, the daemon finds it all the same (P2, P5).

    It is found by what it carries in its environment; when it began is told by the kernel. Whether
    it is the command itself, or what that has started, nobody knows, and so not how it ended.
    """
    log = daemon.start(LONG)
    run = log.wait("run started", job="long")["run"]
    bell.wait()
    daemon.status()  # all that has happened is in the ledger when it answers
    daemon.kill()
    _change_attempt(daemon.ledger, run, "pid = NULL, start_ticks = NULL, started_at = NULL")
    log = daemon.start()
    log.wait("run of an earlier pycron: adopt rest")
    log.wait("run skipped", job="long")
    gate.open()
    assert "nobody saw how it ended" in log.wait("run lost", run=run)["reason"]
    second = log.wait("run started", job="long")["run"]
    gate.open()
    log.wait("run succeeded", run=second)
    (row,) = [row for row in daemon.history() if row["run"] == run]
    keys = ("claimed_at", "started_at", "finished_at")
    instants = [datetime.fromisoformat(row[key]) for key in keys]
    assert instants == sorted(instants)
    (stamp,) = [stamp for stamp in daemon.stamps("long", "begin") if stamp.run.endswith(f"-{run}")]
    assert datetime.fromisoformat(row["started_at"]) <= stamp.at


def test_survivor_is_timed_out(daemon: Daemon, bell: Bell) -> None:
    """The timeout of a job that outlives its daemon still holds (P6, P5)."""
    mark = f"{daemon.directory}/nothing"
    job = f"""
    [jobs.long]
    startup = "boot"
    command = "echo begun > bell; tail -f /dev/null {mark}; true"
    timeout = "5s"
    """
    # However long the first one takes to be killed, it is not the one that ends the run.
    log = daemon.start(job.replace("5s", "1h"))
    run = log.wait("run started", job="long")["run"]
    bell.wait()
    daemon.status()  # all that has happened is in the ledger when it answers
    daemon.kill()
    assert processes_with(mark)
    log = daemon.start(job)
    assert log.wait("run timed out", job="long")["run"] == run
    assert processes_with(mark) == []
    daemon.stop()
    (row,) = daemon.history()
    took = datetime.fromisoformat(row["finished_at"]) - datetime.fromisoformat(row["started_at"])
    # Not earlier than it should; how long a process has run is told in clock ticks.
    assert took > timedelta(seconds=4.9)


def test_survivor_can_be_cancelled(daemon: Daemon, bell: Bell) -> None:
    """Cancel reaches a job that an earlier daemon has started, by its name (P6).

    It claims no more than is known: what shed all marks of the run would not be our child.
    """
    mark = f"{daemon.directory}/nothing"
    daemon.start(f"""
    [jobs.long]
    schedule = "@yearly"
    command = "echo begun > bell; tail -f /dev/null {mark}; true"
    """)
    run = daemon.cli("trigger", "long").stdout.strip()
    bell.wait()
    daemon.status()  # all that has happened is in the ledger when it answers
    daemon.kill()
    assert processes_with(mark)
    daemon.start()
    said = daemon.cli("cancel", "long").stdout
    assert (
        said == f"run {run} of long: cancelled, all its processes that pycron knows of have ended\n"
    )
    assert processes_with(mark) == []
    assert daemon.history()[0]["outcome"] == "cancelled"


@pytest.mark.parametrize("reused_pid", [False, True])
def test_daemon_and_job_are_killed(
    daemon: Daemon, bell: Bell, gate: Gate, reused_pid: bool
) -> None:
    """What nobody can find again is closed as lost, and the job runs again at once (P1, P5).

    That another process has the pid by now changes nothing.
    """
    log = daemon.start(LONG)
    run = log.wait("run started", job="long")["run"]
    pid = int(bell.wait())
    daemon.status()
    daemon.kill()
    kill_session(pid)
    if reused_pid:
        _change_attempt(daemon.ledger, run, f"pid = {os.getpid()}")
    log = daemon.start()
    lost = log.wait("run lost", run=run)
    # Whether the start had been entered by then is a matter of milliseconds.
    assert lost["reason"].startswith(
        ("ended while pycron was away", "pycron ended while it started")
    )
    second = log.wait("run started", job="long")["run"]
    assert second != run
    gate.open()
    log.wait("run succeeded", run=second)
    assert {row["outcome"] for row in daemon.history() if row["run"] == run} == {"lost"}


def test_rerun(daemon: Daemon, bell: Bell, gate: Gate) -> None:
    """With on_crash = "rerun" what a crash cut short is tried again, as the same run (P3)."""
    log = daemon.start(LONG.replace("* * * * * *", "@yearly") + 'on_crash = "rerun"\n')
    run = int(daemon.cli("trigger", "long").stdout)
    pid = int(bell.wait())
    log.wait("run started", run=run)
    daemon.status()
    daemon.kill()
    kill_session(pid)
    log = daemon.start()
    assert log.wait("run started", run=run)["attempt"] == 2
    gate.open()
    log.wait("run succeeded", run=run)
    daemon.status()  # what was told of is written before that is answered
    (row,) = daemon.history()
    assert [a["outcome"] for a in row["attempts"]] == ["lost", "succeeded"]
    assert [stamp.attempt for stamp in daemon.stamps("long", "begin")] == [1, 2]


def test_killed_again_and_again(daemon: Daemon) -> None:
    """Across kills at any moment every second has one outcome, and none ran twice (P1, P2)."""
    jobs = '[jobs.tick]\nschedule = "* * * * * *"\ncommand = \'sh "$STAMP" ran\'\nmissed = "all"\n'
    log = daemon.start(jobs)
    for _ in range(4):
        log.wait("run started", job="tick")
        daemon.kill()
        log = daemon.start()
    log.wait("run succeeded", job="tick", count=2)
    daemon.stop()
    rows = daemon.history("tick")
    assert_accounted(rows, timedelta(seconds=1))
    dues = [stamp.due for stamp in daemon.stamps("tick")]
    assert len(dues) == len(set(dues))
    # What a kill cut may be lost, but nothing that succeeded is without its own word.
    succeeded = {datetime.fromisoformat(r["due"]) for r in rows if r["outcome"] == "succeeded"}
    assert succeeded <= set(dues)


# --- the lock and its file ---------------------------------------------------------------------


def test_second_daemon_is_refused(daemon: Daemon) -> None:
    """A second daemon on a state directory leaves with 1 and names the first (P2)."""
    log = daemon.start('[jobs.tick]\nevery = "1s"\ncommand = "true"\n')
    refused = daemon.cli("run", check=1)
    assert refused.stderr == (
        f"pycron: another pycron (pid {daemon.pid}) runs on this state directory "
        f"({daemon.state}); stop it, or use another --state-dir\n"
    )
    before = len(log.events)
    log.wait("run succeeded", job="tick", since=before)
    assert daemon.status()["pid"] == daemon.pid


@pytest.mark.parametrize("content", ["dead", "1\n", "abc", "", "1\nstarted once"])
def test_stale_lock_file(daemon: Daemon, content: str) -> None:
    """What a lock file says is in nobody's way: a dead pid, another one's, junk, nothing (P8)."""
    if content == "dead":
        with subprocess.Popen(["true"]) as process:
            process.wait()
        content = f"{process.pid}\n"
    daemon.state.mkdir(mode=0o700)
    (daemon.state / "pycron.lock").write_text(content)
    daemon.start('[jobs.tick]\nevery = "1s"\ncommand = "true"\n')
    daemon.log.wait("run succeeded", job="tick")
    daemon.kill()
    daemon.start()


def _change_attempt(ledger: Path, run: int, values: str) -> None:
    """Write something else into the ledger about the only attempt of a run."""
    with closing(sqlite3.connect(ledger)) as connection, connection:
        changed = connection.execute(f"UPDATE attempts SET {values} WHERE run_id = ?", (run,))
        assert changed.rowcount == 1


def test_what_waits_across_a_restart_goes_on_counting(daemon: Daemon, gate: Gate) -> None:
    """How late a run was is told from when it was asked for, and what it waited for (P4)."""
    daemon.start("""
    [jobs.queue]
    schedule = "@yearly"
    command = "read x < gate"
    overlap = "queue"
    """)
    first, second = (int(daemon.cli("trigger", "queue").stdout) for _ in range(2))
    daemon.kill()
    log = daemon.start()
    gate.open()
    log.wait(ENDS, run=first)
    gate.open()
    log.wait("run succeeded", run=second)
    *_, row = daemon.history("queue")
    waited = datetime.fromisoformat(row["started_at"]) - datetime.fromisoformat(row["due"])
    assert row["run"] == second
    assert abs(row["late_seconds"] - waited.total_seconds()) < 0.05
    assert sum(row["lag"].values()) == pytest.approx(row["late_seconds"])
    assert row["lag"]["overlap"] > 0.8 * row["late_seconds"]


# --- many that were claimed long before their instant ---------------------------------------------

MANY = 260
"""So many of one instant are claimed seven tenths of a second ahead."""

CLAIMED = "SELECT max(due) FROM runs GROUP BY due HAVING count(*) >= ? AND due > ?"
OPEN = "SELECT count(*) FROM runs WHERE due = ? AND outcome IS NULL"


def test_what_was_claimed_ahead_of_its_instant_is_run_once(daemon: Daemon) -> None:
    """A daemon that is killed before an instant has begun nothing of it; the next does (P1, P2)."""
    jobs = ""
    for number in range(MANY):
        jobs += f'[jobs.j{number}]\nschedule = "*/8 * * * * *"\ncommand = ["echo", "here"]\n'
        jobs += 'missed = "all"\noverlap = "queue"\n'
    daemon.start(jobs)
    due = _killed_before_an_instant(daemon)
    daemon.start()
    while _asked(daemon.ledger, OPEN, to_us(due)) != 0:
        os.sched_yield()
    daemon.stop()
    rows = [row for row in daemon.history() if datetime.fromisoformat(row["due"]) == due]
    assert Counter(row["outcome"] for row in rows) == {"succeeded": MANY}
    for row in rows:
        assert [attempt["attempt"] for attempt in row["attempts"]] == [1]
        output = Path(output_file(daemon.state, row["job"], row["run"], 1))
        assert output.read_text().count("here") == 1, "it was begun once"


def _killed_before_an_instant(daemon: Daemon) -> datetime:
    """Kill the daemon once all runs of an instant are claimed that is yet to come; return that."""
    while True:  # where the machine is so busy that it comes meanwhile, the next has its turn
        found = None
        while found is None:
            os.sched_yield()
            found = _asked(daemon.ledger, CLAIMED, MANY, to_us(SystemClock().now()))
        daemon.kill()
        due = from_us(found)
        if SystemClock().now() < due:
            return due
        daemon.start()


def _asked(ledger: Path, question: str, *values: int) -> int | None:
    with closing(sqlite3.connect(ledger)) as connection:
        row = connection.execute(question, values).fetchone()
        return None if row is None else int(row[0])
