"""Runs that are ended before their own end: by their timeout, by ``pycron cancel``."""

from __future__ import annotations

import json
import os
import secrets
import shlex
from datetime import datetime
from pathlib import Path

import pytest

from tests.support.daemon import Bell, Daemon, Event, Gate, processes_with


@pytest.fixture
def mark() -> str:
    """Give a number of seconds, to sleep for, that nobody else on the machine has."""
    return f"900{secrets.randbelow(10**9):09}"


def _tree(name: str, mark: str, *lines: str) -> str:
    """Return a job whose processes have the run's number behind the mark in their arguments."""
    command = f"sh $PROGRAMS/e2e_tree.sh {mark}.${{PYCRON_RUN_ID##*-}}"
    return "\n".join([f"[jobs.{name}]", f"command = '{command}'", *lines, ""])


# --- timeout -----------------------------------------------------------------------------------


IN_TIME = """
[jobs.works]
schedule = "@yearly"
command = "sleep 999 & read x < gate"
leftovers = "LEFTOVERS"
timeout = "15s"
retry = { attempts = 2 }

[jobs.later]
schedule = "@yearly"
command = "sleep 16; echo rings > bell"
"""


@pytest.mark.parametrize("is_adopted", [False, True], ids=["ours", "adopted"])
@pytest.mark.parametrize("leaves", ["nothing", "leave", "kill"])
def test_what_ends_in_time_is_not_timed_out_by_a_freeze(
    daemon: Daemon, bell: Bell, gate: Gate, leaves: str, is_adopted: bool
) -> None:
    """The end comes first, though a daemon that goes on sees both at once (P2, P5).

    Also where it is looked at what it has left, or may have.
    """
    jobs = IN_TIME.replace("LEFTOVERS", leaves.replace("nothing", "leave"))
    log = daemon.start(jobs.replace("sleep 999 & ", "") if leaves == "nothing" else jobs)
    for job in ("works", "later"):
        daemon.cli("trigger", job)
        log.wait("run started", job=job)
    if is_adopted:
        daemon.kill()
        log = daemon.start()
    daemon.freeze()
    gate.open()
    assert bell.wait() == "rings"
    daemon.thaw()
    ended = log.wait(("run succeeded", "run lost"), job="works")
    # How an adopted one has ended not every kernel tells.
    assert is_adopted or ended["event"] == "run succeeded"
    assert log.all("run timed out") == log.all("attempt failed") == []


def test_timeout_ends_the_whole_tree(daemon: Daemon, bell: Bell, mark: str) -> None:
    """A timeout leaves nothing of a run behind, and the next one starts (P6, P5).

    Neither a child that ignores SIGTERM escapes it nor one in a session of its own.
    """
    # It must have grown by then, on a busy machine too.
    lines = ('every = "8s"', 'timeout = "6s"', 'kill_after = "500ms"', 'overlap = "skip"')
    log = daemon.start(_tree("tree", mark, *lines))
    first = log.wait("run started", job="tree")
    assert bell.wait() == "grown"
    assert len(processes_with(f"{mark}.{first['run']}")) >= 3
    ended = log.wait("run timed out", job="tree")
    assert (ended["run"], ended["reason"]) == (first["run"], "timed out after 6s")
    assert processes_with(f"{mark}.{first['run']}") == []
    # Being here means that the tree of the first is no obstacle for the second.
    second = log.wait("run timed out", job="tree", count=2)
    assert processes_with(f"{mark}.{second['run']}") == []
    daemon.stop()
    for row in (row for row in daemon.history("tree") if row["attempts"]):
        assert (row["outcome"], row["reason"]) == ("timed_out", "timed out after 6s")


def test_timeout_of_a_shell_and_its_child(daemon: Daemon, mark: str) -> None:
    """``sleep 999; true`` ends with its shell, at once where nothing ignores SIGTERM (P6)."""
    log = daemon.start(f"""
    [jobs.shell]
    every = "3s"
    command = "sleep {mark}; true"
    timeout = "1s"
    kill_after = "1h"
    """)
    log.wait("run timed out", job="shell", count=2)
    daemon.stop()
    assert processes_with(mark) == []


def test_program_that_cleans_up(daemon: Daemon) -> None:
    """What heeds SIGTERM gets the time to clean up, and is timed out all the same."""
    log = daemon.start("""
    [jobs.polite]
    startup = true
    command = "trap 'sleep 1; echo clean >> told; exit 0' TERM; sleep 1000 & wait"
    timeout = "1s"
    """)
    log.wait("run timed out", job="polite")
    assert (daemon.directory / "told").read_text() == "clean\n"
    (attempt,) = daemon.history("polite")[0]["attempts"]
    assert (attempt["exit_code"], attempt["signal"]) == (0, None)


# --- cancel ------------------------------------------------------------------------------------

BY_HAND = ('schedule = "@yearly"', 'kill_after = "1s"')


@pytest.mark.parametrize("by", ["id", "name"])
def test_cancel_of_a_running_run(daemon: Daemon, bell: Bell, mark: str, by: str) -> None:
    """Cancel ends the whole tree of a run, says so when it is gone, and records it (P6, P1)."""
    daemon.start(_tree("tree", mark, *BY_HAND))
    run = daemon.cli("trigger", "tree").stdout.strip()
    assert bell.wait() == "grown"
    said = daemon.cli("cancel", run if by == "id" else "tree").stdout
    assert processes_with(mark) == []
    assert said == f"run {run} of tree: cancelled, all its processes have ended\n"
    (row,) = daemon.history("tree")
    assert (row["outcome"], row["reason"]) == ("cancelled", "cancelled on request")
    assert (row["attempts"][0]["signal"], row["cause"]) == (15, "manual")
    # There is nothing more to cancel, and both ways to ask for it say so.
    again = daemon.cli("cancel", run if by == "id" else "tree", check=1)
    assert (f"run {run} of tree has ended" if by == "id" else "has no run") in again.stderr


def test_cancel_of_a_waiting_retry(daemon: Daemon) -> None:
    """A run that waits for its next attempt is cancelled at once, and is not tried again (P1)."""
    log = daemon.start("""
    [jobs.fails]
    schedule = "@yearly"
    command = "exit 7"
    retry = { attempts = 3, delay = "1h" }
    """)
    run = daemon.cli("trigger", "fails").stdout.strip()
    log.wait("attempt failed", job="fails")
    (active,) = daemon.status()["active"]
    assert active["state"] == "waiting_retry"
    said = daemon.cli("cancel", "fails").stdout
    assert said.startswith(f"run {run} of fails: cancelled, it was waiting")
    (row,) = daemon.history("fails")
    assert (row["outcome"], len(row["attempts"])) == ("cancelled", 1)
    assert daemon.status()["active"] == []


LEAVES = """
    [jobs.leaves]
    schedule = "@yearly"
    command = "sh $PROGRAMS/e2e_tree.sh {mark} & read line < gate; exit 7"
    retry = {{ attempts = 3, delay = "1h" }}
    kill_after = "1s"
    """


@pytest.mark.parametrize("is_restarted", [False, True], ids=["same daemon", "next daemon"])
def test_cancel_of_what_an_attempt_has_left(
    daemon: Daemon, bell: Bell, gate: Gate, mark: str, *, is_restarted: bool
) -> None:
    """What the last attempt of a run that waits for its next one has left is ended, too (P6)."""
    log = daemon.start(LEAVES.format(mark=mark))
    run = daemon.cli("trigger", "leaves").stdout.strip()
    assert bell.wait() == "grown"
    gate.open()
    log.wait("attempt failed", job="leaves")
    assert len(processes_with(mark)) >= 3
    if is_restarted:
        while not daemon.history("leaves")[0]["attempts"][0]["outcome"]:
            pass  # the ledger has not got the end of the attempt yet
        daemon.kill()
        daemon.start()
    said = daemon.cli("cancel", "leaves").stdout
    assert processes_with(mark) == []
    known = " that pycron knows of" if is_restarted else ""
    words = f"cancelled, it was waiting for its retry; all its processes{known} have ended"
    assert said == f"run {run} of leaves: {words}\n"
    (row,) = daemon.history("leaves")
    assert (row["outcome"], row["reason"]) == ("cancelled", "cancelled on request")
    assert "processes running" in row["attempts"][0]["reason"]


def test_cancel_of_what_a_killed_pycron_has_left(
    daemon: Daemon, bell: Bell, gate: Gate, mark: str, pycron_command: tuple[str, ...]
) -> None:
    """Cancel says what may be of the run or of another, and ends it with the last of them (P6)."""
    inner = daemon.directory / "inner"
    inner.mkdir()
    (inner / "crontab.toml").write_text(f"""
    [jobs.inner]
    startup = true
    command = "echo grown > {bell.path}; exec sleep {mark}"
    """)
    program = f"{shlex.join(pycron_command)} run {inner}/crontab.toml --state-dir {inner}"
    daemon.start(f"""
    [jobs.outer]
    schedule = "@yearly"
    command = '{program} & read line < gate; kill -9 $!; wait; echo killed > bell; sleep 999'
    [jobs.other]
    schedule = "@yearly"
    command = "sleep 998; true"
    """)
    for job in ("other", "outer"):
        daemon.cli("trigger", job)
    assert bell.wait() == "grown"
    gate.open()
    assert bell.wait() == "killed"
    (left,) = processes_with(mark)
    note = f"process {left} (sleep) was left: nothing tells whether it came from this run"
    assert f"cancelled, but {note}\n" in daemon.cli("cancel", "outer", check=1).stderr
    (row,) = daemon.history("outer")
    assert (row["outcome"], row["reason"]) == ("cancelled", f"cancelled on request; {note}")
    assert processes_with(mark) == [left]
    assert "all its processes have ended" in daemon.cli("cancel", "other").stdout
    assert processes_with(mark) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's pycron runs jobs as somebody else")
def test_cancel_of_what_was_left_as_another_user(daemon: Daemon, mark: str) -> None:
    """What a run has left is ended whatever user the crontab names by then (P6)."""
    job = f"""
    [jobs.leaves]
    schedule = "@yearly"
    cwd = "/"
    command = "setsid sleep {mark} & exit 1"
    retry = {{ attempts = 2, delay = "1h" }}
    """
    log = daemon.start(f'{job}user = "nobody"\n')
    run = daemon.cli("trigger", "leaves").stdout.strip()
    log.wait("attempt failed", job="leaves")
    assert processes_with(mark)
    daemon.kill()
    daemon.start(job)
    said = daemon.cli("cancel", "leaves").stdout
    assert processes_with(mark) == []
    known = "all its processes that pycron knows of have ended"
    words = f"cancelled, it was waiting for its retry; {known}"
    assert said == f"run {run} of leaves: {words}\n"


def test_cancel_of_a_queued_run(daemon: Daemon, gate: Gate) -> None:
    """A run that waits behind another is cancelled alone; the other one goes on (P1)."""
    log = daemon.start("""
    [jobs.queue]
    schedule = "@yearly"
    command = "read x < gate"
    overlap = "queue"
    """)
    first, second = (int(daemon.cli("trigger", "queue").stdout) for _ in range(2))
    said = json.loads(daemon.cli("cancel", str(second), "--json").stdout)
    assert [(item["run"], item["was"], item["outcome"]) for item in said] == [
        (second, "queued", "cancelled")
    ]
    gate.open()
    log.wait("run succeeded", run=first)


# --- retry -------------------------------------------------------------------------------------


def test_retry(daemon: Daemon) -> None:
    """A run that fails is tried again after growing delays, and keeps all its outputs (P1)."""
    log = daemon.start("""
    [jobs.flaky]
    schedule = "@yearly"
    command = 'sh "$STAMP" try; echo "this is attempt $PYCRON_ATTEMPT"; test $PYCRON_ATTEMPT -ge 3'
    retry = { attempts = 4, delay = "400ms", backoff = 2.0 }
    """)
    said = daemon.cli("trigger", "flaky", "--wait").stdout
    waits = [(e["attempt"], e["retry_in"]) for e in log.all("attempt failed", job="flaky")]
    assert waits == [("1/4", 0.4), ("2/4", 0.8)]
    (row,) = daemon.history("flaky")
    assert said.startswith(f"run {row['run']} of flaky succeeded after ")
    assert [a["outcome"] for a in row["attempts"]] == ["failed", "failed", "succeeded"]
    assert [a["exit_code"] for a in row["attempts"]] == [1, 1, 0]
    _assert_delays(row, [0.4, 0.8])
    stamps = daemon.stamps("flaky")
    assert [stamp.attempt for stamp in stamps] == [1, 2, 3]
    assert len({stamp.run for stamp in stamps}) == 1, "one run, whatever the number of attempts"
    shown = daemon.cli("logs", "flaky").stdout
    places = [shown.index(f"this is attempt {number}\n") for number in (1, 2, 3)]
    assert places == sorted(places)
    assert daemon.cli("logs", "flaky", "-a", "2").stdout.splitlines()[-1] == "this is attempt 2"


def _assert_delays(row: Event, delays_s: list[float]) -> None:
    """Hold that no attempt began before its delay was over."""
    ends = [datetime.fromisoformat(a["finished_at"]) for a in row["attempts"]]
    starts = [datetime.fromisoformat(a["started_at"]) for a in row["attempts"]]
    for end, start, delay_s in zip(ends, starts[1:], delays_s, strict=False):
        assert (start - end).total_seconds() >= delay_s


def test_retries_are_used_up(daemon: Daemon) -> None:
    """After the last attempt the run has failed, and ``trigger --wait`` leaves with 1."""
    daemon.start("""
    [jobs.fails]
    schedule = "@yearly"
    command = "exit 7"
    retry = { attempts = 2, delay = "100ms" }
    """)
    said = daemon.cli("trigger", "fails", "--wait", check=1).stdout
    (row,) = daemon.history("fails")
    assert (row["outcome"], row["reason"], len(row["attempts"])) == ("failed", "exit status 7", 2)
    assert said.startswith(f"run {row['run']} of fails failed after ")
    assert said.endswith(": exit status 7\n")


# --- trigger -----------------------------------------------------------------------------------


def test_trigger_obeys_the_overlap_policy(daemon: Daemon, gate: Gate) -> None:
    """A run by hand is refused while another goes on, and runs beside it when forced (P5)."""
    log = daemon.start('[jobs.one]\nschedule = "@yearly"\ncommand = "read x < gate"\n')
    first = int(daemon.cli("trigger", "one").stdout)
    refused = daemon.cli("trigger", "one", check=1)
    assert f"overlap: run {first} is running since " in refused.stderr
    assert "--force" in refused.stderr
    assert len(daemon.history("one")) == 1
    second = int(daemon.cli("trigger", "one", "--force").stdout)
    assert {active["run"] for active in daemon.status()["active"]} == {first, second}
    gate.open(2)
    for run in (first, second):
        log.wait("run succeeded", run=run)


def test_trigger_waits_no_longer_than_asked(daemon: Daemon, gate: Gate) -> None:
    """``--wait --timeout`` gives up the waiting, not the run."""
    log = daemon.start('[jobs.one]\nschedule = "@yearly"\ncommand = "read x < gate"\n')
    told = daemon.cli("trigger", "one", "--wait", "--timeout", "200ms", check=1)
    assert "it goes on" in told.stderr
    gate.open()
    log.wait("run succeeded", job="one")


def test_trigger_of_nobody(daemon: Daemon, tmp_path: Path) -> None:
    """A name that is not there is refused, and so is any request where no daemon runs."""
    daemon.start('[jobs.one]\nschedule = "@yearly"\ncommand = "true"\n')
    assert "'two'" in daemon.cli("trigger", "two", check=2).stderr
    daemon.stop()
    for command in (["trigger", "one"], ["cancel", "one"], ["reload"], ["status"], ["stop"]):
        assert daemon.cli(*command, check=3).stderr.startswith("pycron: ")
