"""Submitted tasks with a real daemon: none is lost, none runs twice, and each can be asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from crond_py import Client, DaemonNotRunningError, Outcome, UnknownNameError
from crond_py.clock import SystemClock
from tests.support.daemon import PATIENCE_S, Bell, Daemon, Gate, job_text, processes_with
from tests.support.wallclock import WallClock

PATIENCE = timedelta(seconds=PATIENCE_S)
IDLE = job_text("idle", "true", 'every = "1h"')
NARROW = IDLE + "\n[pools.narrow]\nworkers = 1\n"
DONE = 'sh "$STAMP" done'


@pytest.fixture
def client(daemon: Daemon) -> Client:
    """Give a client of the daemon."""
    return Client(daemon.state)


def words(daemon: Daemon) -> Counter[str]:
    """Return how often each word has been written by a task."""
    return Counter(stamp.word for stamp in daemon.stamps())


def due_in(span: timedelta) -> datetime:
    """Return the instant that far from now."""
    return SystemClock().now() + span


# --- the command line ---------------------------------------------------------------------------


def test_a_key_of_what_is_over_says_so(daemon: Daemon, client: Client) -> None:
    """Nobody is left to think that something will run that was cancelled or has failed."""
    daemon.start(IDLE)
    daemon.cli("in", "1h", "--key", "cancelled", "--", "true")
    daemon.cli("cancel", "task:1")
    daemon.cli("in", "0s", "--key", "failed", "--", "false")
    client.wait(2, PATIENCE)
    for key in ("cancelled", "failed"):
        told = daemon.cli("in", "2h", "--key", key, "--", "echo", "again").stdout
        assert f": {key}; nothing more of it is to come" in told
    assert client.submit("true", in_="1s", key="failed").ended_at is not None
    lines = daemon.directory / "lines"
    lines.write_text('{"command": "true", "in": "1s", "key": "failed"}\n')
    assert "1 with nothing more to come" in daemon.cli("submit", str(lines)).stdout


def test_the_three_ways_on_the_command_line(daemon: Daemon) -> None:
    """Once at a time, once after a while, again and again until it is cancelled."""
    log = daemon.start(IDLE)
    # Only the daemon's own word counts for when: a command may take any time to be read.
    at = due_in(timedelta(seconds=10)).isoformat()
    assert daemon.cli("at", at, "--", DONE).stdout.startswith("task:1 is due ")
    assert daemon.cli("in", "0s", "--", "echo", "a  b").stdout.startswith("task:2 is due ")
    daemon.cli("every", "1s", "-s", "offset=0s", "--", DONE)
    log.wait("run succeeded", job="task:1")
    log.wait("run succeeded", job="task:2")
    log.wait("run succeeded", job="task:3", count=2)
    assert daemon.cli("logs", "task:2").stdout == "a  b\n"
    assert "is empty" in daemon.cli("logs", "task:1").stderr
    assert daemon.status()["tasks"] == 1
    listed = daemon.cli("tasks").stdout.splitlines()
    assert [line.split()[0] for line in listed] == ["TASK", "task:3"]
    daemon.cli("cancel", "task:3")
    assert daemon.cli("tasks").stderr == "pycron: no tasks are to come or running\n"
    (first,) = daemon.history("task:1")
    assert (first["outcome"], first["cause"], first["count"]) == ("succeeded", "schedule", 1)
    *before, last = daemon.history("task:3")
    assert last["outcome"] == "cancelled"
    assert {row["outcome"] for row in before} <= {"succeeded", "cancelled"}
    assert len(before) >= 2
    assert daemon.cli("cancel", "task:3", check=1).stderr == "pycron: task 3 has ended already\n"
    assert "there is no task 4;" in daemon.cli("tasks", "4", check=2).stderr


def test_a_task_has_what_a_job_has(daemon: Daemon, client: Client) -> None:
    """The environment of the crontab, the directory it was given, retries, and a timeout."""
    daemon.start(IDLE)
    command = 'echo "$PWD $PYCRON_JOB $PYCRON_ATTEMPT ${PROGRAMS:+has env} $X"; exit 1'
    task = client.submit(
        command, in_="0s", cwd="/", env={"X": "own"}, retry={"attempts": 2, "delay": "0s"}
    )
    run = client.wait(task.id, PATIENCE)
    assert run is not None
    assert (run.outcome, len(run.attempts)) == (Outcome.FAILED, 2)
    logs = daemon.cli("logs", "task:1").stdout
    assert "/ task:1 1 has env own" in logs
    assert "/ task:1 2 has env own" in logs
    slow = client.wait(client.submit("sleep 100", in_="0s", timeout="10ms").id, PATIENCE)
    assert slow is not None
    assert slow.outcome is Outcome.TIMED_OUT


# --- the client ---------------------------------------------------------------------------------


def test_the_same_key_twice_runs_once(daemon: Daemon, client: Client) -> None:
    """Also when it has run already; another user's key would be another."""
    daemon.start(IDLE)
    first = client.submit(DONE, in_="0s", key="only")
    assert first.is_new
    client.wait(first.id, PATIENCE)
    again = client.submit(DONE, in_="0s", key="only")
    assert (again.id, again.is_new) == (first.id, False)
    run = client.wait(again.id, PATIENCE)
    assert run is not None
    assert run.outcome is Outcome.SUCCEEDED
    assert words(daemon) == {"done": 1}


def test_what_the_client_tells_of_tasks(daemon: Daemon, client: Client) -> None:
    """Open ones, first due first; all, newest first; each with what was said of it."""
    daemon.start(IDLE)
    later, sooner = (client.submit(["true", span], in_=span) for span in ("2h", "1h"))
    often = client.submit("true", every=timedelta(hours=3), key="often", priority=7, nice=5)
    assert [task.id for task in client.tasks()] == [sooner.id, later.id, often.id]
    assert [task.id for task in client.tasks(is_open=None)] == [often.id, sooner.id, later.id]
    found = client.task(often.id)
    assert (found.due, found.every, found.key) == (often.due, timedelta(hours=3), "often")
    assert (found.priority, found.pool, found.ended_at) == (7, "default", None)
    assert found.settings == {"command": "true", "nice": 5}
    with pytest.raises(TimeoutError, match="task:3 is not over"):
        client.wait(often.id, timedelta(0))
    client.cancel(often.id)
    run = client.wait(often.id, PATIENCE)
    assert run is not None
    assert run.outcome is Outcome.CANCELLED
    assert [task.id for task in client.tasks(is_open=False)] == [often.id]
    for call in (client.task, client.cancel, client.wait):
        with pytest.raises(UnknownNameError, match="there is no task 99"):
            call(99)


def test_a_task_that_waits_for_a_slot(daemon: Daemon, client: Client, gate: Gate) -> None:
    """It is told as one that waits, and begins when the one before it has ended."""
    log = daemon.start(NARROW)
    first = client.submit("read x < gate", in_="0s", pool="narrow")
    log.wait("run started", job=first.job)
    second = client.submit(DONE, in_="0s", pool="narrow")
    (pool,) = [pool for pool in daemon.status()["pools"] if pool["pool"] == "narrow"]
    assert (pool["running"], pool["waiting"]) == (1, 1)
    with pytest.raises(TimeoutError):
        client.wait(second.id, timedelta(0))
    assert words(daemon) == {}
    gate.open()
    client.wait(second.id, PATIENCE)
    assert words(daemon) == {"done": 1}


def test_cancel_ends_what_runs_and_what_is_to_come(
    daemon: Daemon, client: Client, bell: Bell, mark: str
) -> None:
    """P6: the whole tree of the run; the next occurrence gets its row."""
    daemon.start(IDLE)
    task = client.submit(f"echo up > bell; sleep {mark}", every="1h", offset="0s")
    bell.wait()
    assert [(item.was, item.ending) for item in client.cancel(task.id)] == [
        ("pending", False),
        ("running", True),
    ]
    client.wait(task.id, PATIENCE)
    assert processes_with(mark) == []
    assert [row["outcome"] for row in daemon.history(task.job)] == ["cancelled", "cancelled"]


# --- restarts and crashes -----------------------------------------------------------------------


def test_tasks_survive_a_restart(daemon: Daemon, client: Client) -> None:
    """P1, P2: each runs once, be it due before, between or after the two daemons."""
    daemon.start(IDLE)
    soon = due_in(timedelta(milliseconds=500))
    tasks = client.submit_many(
        {"command": f'sh "$STAMP" {number}', "at": soon + timedelta(milliseconds=50 * number)}
        for number in range(40)
    )
    rest = client.submit("true", in_="1h")
    daemon.stop()
    daemon.start()
    for task in tasks:
        run = client.wait(task.id, PATIENCE)
        assert run is not None
        assert run.outcome is Outcome.SUCCEEDED
    assert words(daemon) == {str(number): 1 for number in range(40)}
    assert [task.id for task in client.tasks()] == [rest.id]
    assert len(daemon.history("--outcome", "succeeded")) == 40


def test_a_submission_that_was_cut_is_simply_repeated(daemon: Daemon, client: Client) -> None:
    """P2: with keys no task is there twice, whatever of the first time was stored."""
    daemon.start(IDLE)

    def tasks(kill_at: int | None = None) -> Iterator[Mapping[str, Any]]:
        for number in range(700):
            if number == kill_at:
                daemon.kill()
            yield {"command": "true", "in": "1h", "key": f"k{number}"}

    with pytest.raises(DaemonNotRunningError):
        client.submit_many(tasks(kill_at=450))
    daemon.start()
    kept = {task.key for task in client.tasks()}
    assert kept == {f"k{number}" for number in range(400)}  # whole batches, and all of them
    stored = client.submit_many(tasks())
    assert [task.is_new for task in stored] == [False] * 400 + [True] * 300
    assert len({task.id for task in client.tasks()}) == 700


def test_a_kill_in_the_middle_runs_nothing_twice(daemon: Daemon, client: Client) -> None:
    """P1, P2: what waited is run by the next daemon; what ran is adopted or accounted as lost."""
    crontab = IDLE + "\n[pools.batch]\nworkers = 4\n"
    log = daemon.start(crontab)
    tasks = client.submit_many(
        {"command": f'sh "$STAMP" {number}', "in": "0s", "pool": "batch"} for number in range(150)
    )
    log.wait("run succeeded", count=20)
    daemon.kill()
    daemon.start()
    outcomes = Counter[Outcome | None]()
    for task in tasks:
        run = client.wait(task.id, PATIENCE)
        assert run is not None
        outcomes[run.outcome] += 1
    written = words(daemon)
    assert set(written.values()) == {1}
    assert set(outcomes) <= {Outcome.SUCCEEDED, Outcome.LOST}
    assert outcomes[Outcome.SUCCEEDED] <= len(written) <= 150
    assert outcomes[Outcome.LOST] <= 4  # as many as could run at once
    assert len(daemon.history()) == 150
    assert list(client.tasks()) == []


def test_what_was_missed_while_the_daemon_was_down(
    daemon: Daemon, client: Client, clock: WallClock
) -> None:
    """P1: a task that fell due then is run late, or gets its row, as ``missed`` says."""
    noon = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
    clock.set("2026-03-01T12:00:00")
    daemon.start(IDLE, env=clock.environment)
    at = noon + timedelta(minutes=5)
    once = client.submit('sh "$STAMP" once', at=at)
    never = client.submit('sh "$STAMP" never', at=at, missed="skip")
    often = client.submit('sh "$STAMP" often', every="1m")
    daemon.stop()
    clock.set("2026-03-01T12:10:30")
    daemon.start(env=clock.environment)
    run = client.wait(once.id, PATIENCE)
    assert run is not None
    assert (run.cause, run.outcome, run.due) == ("catch_up", Outcome.SUCCEEDED, at)
    row = client.wait(never.id, PATIENCE)
    assert row is not None
    assert (row.outcome, row.attempts) == (Outcome.MISSED, ())
    assert "pycron was not running" in row.reason
    # The clock was set: of the minute that is to pass, the seconds of a restart have.
    (left,) = client.tasks()
    assert (left.id, daemon.history(often.job)) == (often.id, [])
    assert timedelta(minutes=10) < left.due - often.due < timedelta(minutes=11)
    assert words(daemon) == {"once": 1}


# --- what is kept -------------------------------------------------------------------------------


def test_tasks_that_have_ended_are_forgotten(daemon: Daemon, client: Client) -> None:
    """With their runs, as long ago as ``keep`` of the defaults says; their keys are free again."""
    daemon.write(IDLE)
    text = daemon.crontab.read_text().replace("[defaults]", '[defaults]\nkeep = { for = "1ms" }')
    daemon.crontab.write_text(text)
    daemon.start()

    def run_some() -> int:
        tasks = client.submit_many(
            {"command": "true", "in": "0s", **({"key": "first"} if not number else {})}
            for number in range(60)
        )
        for task in tasks:
            with suppress(UnknownNameError):  # forgotten already
                client.wait(task.id, PATIENCE)
        return tasks[0].id

    first = run_some()
    run_some()
    with pytest.raises(UnknownNameError):
        client.task(first)
    assert daemon.cli("history", f"task:{first}", check=2).stdout == ""


def test_a_task_that_comes_again_keeps_as_many_runs_as_it_says(
    daemon: Daemon, client: Client
) -> None:
    """They are bounded while it goes on, not only when it has ended."""
    log = daemon.start(IDLE)
    task = client.submit("true", every="100ms", offset="0s", keep={"runs": 3})
    log.wait("run succeeded", count=55)
    rows = daemon.history(task.job)
    assert len(rows) < 55
    client.cancel(task.id)
