"""The daemon is replaced by another while jobs run: ``on_stop``."""

from __future__ import annotations

import os
import select
import signal
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.daemon import (
    PATIENCE_S,
    Bell,
    Daemon,
    Event,
    EventLog,
    Gate,
    Stamp,
    assert_accounted,
    may_run,
    processes_with,
)
from tests.support.kernel import TELLS_EXITS

NUMBER = 20
NAMES = [f"job{number}" for number in range(NUMBER)]
AWAY = "ended while pycron was away"
UNSEEN = "ended while pycron could not see its exit status"
"""What is said of one that was adopted, where the kernel does not tell strangers more."""
SUCCEEDED = {"succeeded"} if TELLS_EXITS else {"succeeded", "lost"}
"""How an adopted run that has done well ends."""


def _jobs(*, is_enabled: bool = True) -> str:
    """Return jobs that are due each second and run until the gate is opened for them."""
    return "\n".join(
        f"""
        [jobs.{name}]
        schedule = "* * * * * *"
        command = 'sh "$STAMP" begin $$; echo begun > bell; read x < gate; sh "$STAMP" end $$'
        overlap = "skip"
        missed = "skip"
        on_stop = "leave"
        enabled = {str(is_enabled).lower()}
        """
        for name in NAMES
    )


def _start_all(daemon: Daemon, bell: Bell) -> list[Stamp]:
    """Start the daemon, and return what each job told when all of them run."""
    log = daemon.start(_jobs())
    for _ in NAMES:
        assert bell.wait() == "begun"
    for name in NAMES:
        log.wait("run started", job=name)
    begun = daemon.stamps(word="begin")
    assert {stamp.job for stamp in begun} == set(NAMES)
    return begun


@contextmanager
def _held(pids: Iterable[int]) -> Iterator[dict[int, int]]:
    """Hold processes by their descriptors, so that their ends can be waited for."""
    with ExitStack() as stack:
        held = {os.pidfd_open(pid): pid for pid in pids}
        for pidfd in held:
            stack.callback(os.close, pidfd)
        yield held


def _wait_for_ends(held: dict[int, int], number: int) -> list[int]:
    """Wait until so many of the processes have ended, and return which."""
    poll = select.poll()
    for pidfd in held:
        poll.register(pidfd, select.POLLIN)
    ended = []
    while len(ended) < number:
        ready = poll.poll(PATIENCE_S * 1000)
        assert ready, f"only {len(ended)} of {number} processes have ended"
        for pidfd, _ in ready:
            poll.unregister(pidfd)
            ended.append(held[pidfd])
    return ended


def _let_all_end(daemon: Daemon, log: EventLog, gate: Gate, runs: Sequence[int]) -> None:
    """Let nothing new start, and the runs that go on end."""
    daemon.write(_jobs(is_enabled=False))
    daemon.cli("reload")
    gate.open(len(runs))
    for run in runs:
        log.wait(("run succeeded", "run lost"), run=run)


@pytest.mark.parametrize("way", ["signal", "command", "now"])
def test_upgrade(daemon: Daemon, bell: Bell, gate: Gate, way: str) -> None:
    """Jobs that are left outlive the daemon and end under the next, each as one run (P1, P2, P5).

    Twenty of them: the stop does not wait for any, all are adopted, nothing is started beside them.
    """
    begun = _start_all(daemon, bell)
    if way == "signal":
        daemon.signal(signal.SIGTERM)
    else:
        daemon.cli("stop", *(["--now"] if way == "now" else []))
    # None of the jobs can end before the gate is opened, so this shows that nobody was waited for.
    assert daemon.wait_exit() == 0
    assert all(os.getpgid(stamp.pid) for stamp in begun)
    (told,) = daemon.log.all("runs are left to the next pycron")
    runs = sorted(told["runs"])
    assert len(runs) == NUMBER
    log = daemon.start()
    assert sorted(e["run"] for e in log.all("run of an earlier pycron: adopt")) == runs
    for name in NAMES:
        log.wait("run skipped", job=name)
    assert {active["run"] for active in daemon.status()["active"]} == set(runs)
    _let_all_end(daemon, log, gate, runs)
    daemon.stop()
    assert len(daemon.stamps(word="begin")) == NUMBER, "nothing was started beside them"
    assert {stamp.pid for stamp in daemon.stamps(word="end")} == {stamp.pid for stamp in begun}
    _assert_one_row_each(daemon, dict.fromkeys(runs, SUCCEEDED))


def _assert_one_row_each(daemon: Daemon, outcomes: dict[int, set[str]]) -> None:
    """Hold that each run has one row with one attempt, and all other rows have none."""
    ran = {}
    of_job = defaultdict(list)
    for row in daemon.history():
        of_job[row["job"]].append(row)
    assert set(of_job) == set(NAMES)
    for rows in of_job.values():
        assert_accounted(rows, timedelta(seconds=1))
        (row,) = [row for row in rows if row["attempts"]]
        assert len(row["attempts"]) == 1
        assert {r["outcome"] for r in rows if r is not row} <= {"skipped", "missed"}
        ran[row["run"]] = row
    assert set(ran) == set(outcomes)
    for run, row in ran.items():
        assert row["outcome"] in outcomes[run], row
        if row["outcome"] == "lost":
            assert row["reason"].startswith((AWAY, UNSEEN))


@pytest.mark.parametrize("is_crash", [False, True])
def test_one_that_shows_no_mark_is_known_by_what_the_ledger_has(
    daemon: Daemon, gate: Gate, *, is_crash: bool
) -> None:
    """P1, P5: a command that sheds its environment and its limits is adopted by pid and start."""
    if not may_run("prlimit", "--locks=unlimited:unlimited"):
        pytest.skip("limits cannot be shed by who is not root")
    log = daemon.start(
        """
        [jobs.shed]
        schedule = "@yearly"
        on_stop = "leave"
        on_crash = "rerun"
        command = "exec env -i prlimit --locks=unlimited:unlimited sh -c ': shed; read x < gate'"
        """
    )
    daemon.cli("trigger", "shed")
    started = log.wait("run started")
    run, pid = started["run"], started["pid"]
    while not Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"sh\0-c\0: shed"):
        pass  # it takes a moment to be what it is to be
    daemon.kill() if is_crash else daemon.stop()
    log = daemon.start()
    assert log.wait("run of an earlier pycron: adopt")["run"] == run
    assert [active["run"] for active in daemon.status()["active"]] == [run]
    gate.open()
    log.wait(("run succeeded", "run lost"), run=run)
    assert len(daemon.history("shed")) == 1


def test_some_end_while_nobody_is_there(daemon: Daemon, bell: Bell, gate: Gate) -> None:
    """What ended in between is lost, with the reason; what goes on is adopted (P1, P5)."""
    begun = _start_all(daemon, bell)
    daemon.stop()
    (told,) = daemon.log.all("runs are left to the next pycron")
    runs_of = {s.pid: int(s.run.rpartition("-")[2]) for s in begun}
    assert sorted(runs_of.values()) == sorted(told["runs"])
    with _held(runs_of) as held:
        gate.open(8)
        gone = [runs_of[pid] for pid in _wait_for_ends(held, 8)]
    log = daemon.start()
    adopted = [event["run"] for event in log.all("run of an earlier pycron: adopt")]
    lost = log.all("run lost")
    assert sorted(event["run"] for event in lost) == sorted(gone)
    assert all(event["reason"].startswith(AWAY) for event in lost)
    assert sorted([*adopted, *gone]) == sorted(runs_of.values())
    # The next occurrence of those that ended starts a run, which is no business of this test.
    _let_all_end(daemon, log, gate, [*adopted, *_others(daemon, adopted)])
    daemon.stop()
    rows = {row["run"]: row for row in daemon.history() if row["run"] in runs_of.values()}
    for run in gone:
        (attempt,) = rows[run]["attempts"]
        assert (rows[run]["outcome"], attempt["exit_code"]) == ("lost", None)
    for run in adopted:
        assert len(rows[run]["attempts"]) == 1
        assert rows[run]["outcome"] in SUCCEEDED


def _others(daemon: Daemon, runs: Sequence[int]) -> list[int]:
    """Let nothing new start, and return which runs go on beside these."""
    daemon.write(_jobs(is_enabled=False))
    daemon.cli("reload")
    return [active["run"] for active in daemon.status()["active"] if active["run"] not in runs]


THREE = """
[jobs.leave]
startup = "boot"
command = "echo leave > bell; read x < gate; echo leave >> told"
on_stop = "leave"

[jobs.terminate]
startup = "boot"
command = "trap 'echo term >> told; exit 0' TERM; echo terminate > bell; sleep 1000 & wait"
on_stop = "terminate"

[jobs.wait]
startup = "boot"
command = "echo wait > bell; read x < wait-gate; echo waited >> told"
on_stop = "wait"
"""


def test_each_as_it_says(daemon: Daemon, bell: Bell, gate: Gate) -> None:
    """One is left, one ended, one waited for; the daemon leaves when the last two are over (P1)."""
    other = Gate(daemon.directory / "wait-gate")
    log = daemon.start(THREE, "--stop-timeout", "none")
    assert {bell.wait() for _ in range(3)} == {"leave", "terminate", "wait"}
    left = log.wait("run started", job="leave")
    daemon.signal(signal.SIGTERM)
    assert log.wait("run cancelled", job="terminate")["reason"] == "pycron was stopped"
    assert {active["job"] for active in daemon.status()["active"]} == {"leave", "wait"}
    other.open()
    assert daemon.wait_exit() == 0
    other.close()
    assert (daemon.directory / "told").read_text() == "term\nwaited\n"
    assert _outcomes(daemon) == {"leave": None, "terminate": "cancelled", "wait": "succeeded"}
    log = daemon.start()
    assert log.wait("run of an earlier pycron: adopt")["run"] == left["run"]
    gate.open()
    log.wait(("run succeeded", "run lost"), run=left["run"])
    assert (daemon.directory / "told").read_text() == "term\nwaited\nleave\n"
    daemon.stop()
    assert len(daemon.history()) == 3


def _outcomes(daemon: Daemon) -> dict[str, str | None]:
    return {row["job"]: row["outcome"] for row in daemon.history()}


def test_left_run_is_cancelled_by_the_next(daemon: Daemon, bell: Bell) -> None:
    """What an earlier daemon left can be cancelled under the next, with its whole tree (P6)."""
    mark = f"{daemon.directory}/nothing"
    job = f"""
    [jobs.long]
    startup = "boot"
    command = "setsid tail -f /dev/null {mark} & echo begun > bell; tail -f /dev/null {mark}; true"
    on_stop = "leave"
    """
    daemon.start(job)
    assert bell.wait() == "begun"
    daemon.log.wait("run started", job="long")
    daemon.stop()
    assert len(processes_with(mark)) >= 3
    daemon.start()
    said = daemon.cli("cancel", "long").stdout
    assert "cancelled, all its processes that pycron knows of have ended" in said
    assert processes_with(mark) == []
    (row,) = daemon.history()
    assert (row["outcome"], row["reason"]) == ("cancelled", "cancelled on request")


def test_left_run_of_a_removed_job(daemon: Daemon, bell: Bell, gate: Gate) -> None:
    """A run that was left is seen and ends well although its job is gone from the crontab (P1)."""
    daemon.start(_one("long"))
    assert bell.wait() == "begun"
    run = daemon.log.wait("run started", job="long")["run"]
    daemon.stop()
    log = daemon.start('[jobs.other]\nschedule = "@yearly"\ncommand = "true"\n')
    assert [(row["run"], row["state"]) for row in daemon.history("long")] == [(run, "running")]
    assert [(a["job"], a["run"]) for a in daemon.status()["active"]] == [("long", run)]
    gate.open()
    log.wait(("run succeeded", "run lost"), run=run)
    daemon.stop()
    rows: list[Event] = daemon.history()
    assert [(row["run"], len(row["attempts"])) for row in rows] == [(run, 1)]


def _one(name: str) -> str:
    return f"""
    [jobs.{name}]
    startup = "boot"
    command = "echo begun > bell; read x < gate"
    on_stop = "leave"
    """
