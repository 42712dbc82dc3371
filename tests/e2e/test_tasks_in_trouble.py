"""Tasks go on while the ledger is locked or damaged: none is lost, none runs twice (P8)."""

from __future__ import annotations

from datetime import timedelta

from crond_py import Client
from tests.support.daemon import Daemon, assert_accounted, job_text
from tests.support.ledgertrouble import locked, ruin

IDLE = job_text("idle", "true", 'every = "1h"')
DONE = 'sh "$STAMP" done'
IN_JOURNAL = "the ledger cannot be written; what runs is kept in the journal"
OVER = "the ledger can be written again"
TASKS = ("lanes", "lanes_names", "tasks", "tasks_open", "tasks_key", "tasks_ended")


def _assert_ran_once(daemon: Daemon) -> None:
    """Check that the repeated task has a row for each instant, and ran no more than once for it."""
    rows = daemon.history("task:1")
    assert_accounted(rows, timedelta(seconds=1))
    dues = [stamp.due for stamp in daemon.stamps()]
    assert len(dues) == len(set(dues))


def test_locked_ledger_takes_no_tasks_and_starts_those_it_has(daemon: Daemon) -> None:
    """What was handed in goes on by the journal; more is refused with the way out (P1, P2, P8)."""
    log = daemon.start(IDLE)
    daemon.cli("every", "1s", "--", DONE)
    log.wait("run succeeded", job="task:1")
    with locked(daemon.ledger):
        log.wait(IN_JOURNAL)
        log.wait("run succeeded", job="task:1", count=3, since=len(log.events))
        refused = daemon.cli("in", "0s", "--", DONE, check=None)
        assert refused.returncode == 1
        assert "tasks cannot be taken now" in refused.stderr
        assert "locked by another program" in refused.stderr
        assert "hand them in again" in refused.stderr
        assert any("no tasks can be handed in" in text for text in daemon.status()["troubles"])
        since = len(log.events)
    log.wait(OVER, since=since)
    assert daemon.cli("in", "0s", "--", "true").stdout.startswith("task:2 ")
    log.wait("run succeeded", job="task:2")
    log.wait("run succeeded", job="task:1", count=2, since=since)
    daemon.cli("cancel", "task:1")
    daemon.stop()
    assert log.all("a record was left out") == []
    _assert_ran_once(daemon)


def test_killed_while_locked_takes_up_nothing_twice(daemon: Daemon) -> None:
    """What the journal has of tasks is known to the next daemon (P1, P2)."""
    log = daemon.start(IDLE)
    daemon.cli("every", "1s", "--", DONE)
    with locked(daemon.ledger):
        log.wait(IN_JOURNAL)
        log.wait("run succeeded", job="task:1", count=2, since=len(log.events))
        daemon.kill()
    log = daemon.start()
    log.wait("what an earlier pycron kept in the journal is in the ledger now")
    log.wait("run succeeded", job="task:1", count=2)
    daemon.cli("cancel", "task:1")
    daemon.stop()
    _assert_ran_once(daemon)


def test_damaged_ledger_loses_no_task(daemon: Daemon) -> None:
    """Tasks are carried over to the fresh ledger, and go on there under their ids (P1, P2, P8)."""
    log = daemon.start(IDLE)
    daemon.cli("every", "1s", "--", DONE)
    daemon.cli("in", "1h", "--", "true")
    log.wait("run succeeded", job="task:1", count=2)
    ruin(daemon.ledger, "meta", *TASKS)
    log.wait("the ledger is damaged; it was set aside and a fresh one begun")
    log.wait("run succeeded", job="task:1", count=2, since=len(log.events))
    assert daemon.status()["tasks"] == 2
    daemon.kill()
    log = daemon.start()
    log.wait("run succeeded", job="task:1")
    listed = [line.split()[0] for line in daemon.cli("tasks").stdout.splitlines()]
    assert set(listed) == {"TASK", "task:1", "task:2"}
    assert daemon.cli("in", "0s", "--", "true").stdout.startswith("task:3 ")
    log.wait("run succeeded", job="task:3")
    daemon.cli("cancel", "task:1")
    daemon.stop()
    _assert_ran_once(daemon)


def test_damaged_ledger_keeps_what_open_runs_of_tasks_are_to_do(daemon: Daemon) -> None:
    """What waits for a slot or a retry has its turn; what runs keeps its timeout (P1, P5, P8)."""
    log = daemon.start("[pools.default]\nworkers = 1\n" + IDLE)
    with Client(daemon.state) as client:
        client.submit("exit 1", in_="0s", retry={"attempts": 2, "delay": "10s"})
        log.wait("attempt failed", job="task:1")
        client.submit("sleep 1000", in_="0s", timeout="10s")
        log.wait("run started", job="task:2")
        client.submit("true", in_="0s")
    while "task:3" not in [run["job"] for run in daemon.status()["active"]]:
        pass
    daemon.kill()
    spared = ("meta", "cursors", "runs", "attempts", "sqlite_sequence", "runs_open")
    ruin(daemon.ledger, *spared, *TASKS)
    log = daemon.start()
    log.wait("the ledger is damaged; it was set aside and a fresh one begun")
    log.wait("run timed out", job="task:2")
    log.wait("run succeeded", job="task:3")
    log.wait("run failed", job="task:1")
    (row,) = daemon.history("task:1")
    assert [attempt["outcome"] for attempt in row["attempts"]] == ["failed", "failed"]
    daemon.stop()
