"""Whose turn it is: replace, retries that wait, pools, and what is taken for a run that goes on.

Reports about other schedulers are named where a test is about one, or about its kin.
"""

from __future__ import annotations

import json
import sys
from datetime import datetime, timedelta
from itertools import pairwise

import pytest

from tests.support.daemon import (
    Bell,
    Daemon,
    Stamp,
    assert_accounted,
    job_text,
    processes_with,
)

A_SECOND = timedelta(seconds=1)


def _most_alive(stamps: list[Stamp]) -> int:
    """Return how many were alive at once, by the order in which they have written."""
    alive, most = set(), 0
    for stamp in stamps:
        key = stamp.run, stamp.attempt
        (alive.add if stamp.word == "begin" else alive.discard)(key)
        most = max(most, len(alive))
    return most


def test_leftover_is_not_taken_for_the_run(daemon: Daemon, mark: str) -> None:
    """A service that a job has started keeps no later run away, after a crash neither (P5).

    Of the kind of dkron-io/dkron#349, where each run was skipped as "still running" for ever.
    """
    keys = ('schedule = "@yearly"', 'overlap = "skip"')
    daemon.start(job_text("starts", f"setsid sleep {mark} &", *keys))
    daemon.cli("trigger", "starts", "--wait")  # answered once its outcome is in the ledger
    daemon.kill()
    assert len(processes_with(mark)) == 1
    daemon.start()
    daemon.cli("trigger", "starts", "--wait")
    assert len(processes_with(mark)) == 2
    daemon.stop()
    assert [row["outcome"] for row in daemon.history()] == ["succeeded"] * 2


def test_hung_run_is_named_and_recovers(daemon: Daemon, mark: str) -> None:
    """mcuadros/ofelia#164: what stands in the way is told, and a timeout clears it by itself (P5).

    Of the same kind: once an owner adds the timeout it holds for the runs that come, and the one
    that hangs can be cancelled.
    """
    hangs = job_text("hangs", f"sleep {mark}", 'every = "1s"', 'overlap = "skip"')
    log = daemon.start(hangs)
    first = log.wait("run started", job="hangs")
    skipped = log.wait("run skipped", job="hangs")
    assert skipped["reason"].startswith(f"overlap: run {first['run']} is running since ")
    daemon.write(hangs + 'timeout = "1s"\n')
    daemon.cli("reload")
    daemon.cli("cancel", str(first["run"]))
    timed_out = log.wait("run timed out", job="hangs", count=2)
    assert timed_out["run"] != first["run"]
    daemon.stop()
    assert processes_with(mark) == []


def test_waiting_for_a_retry_is_being_active(daemon: Daemon) -> None:
    """Occurrences that come while a run waits for its retry are skipped, with that reason (P5)."""
    log = daemon.start(
        job_text(
            "fails",
            'sh "$STAMP" begin; exit 1',
            'schedule = "* * * * * *"',
            'overlap = "skip"',
            'retry = { attempts = 2, delay = "4s" }',
        )
    )
    first = log.wait("attempt failed", job="fails")
    since = log.events.index(first)
    until = log.events.index(log.wait("run started", run=first["run"], attempt=2))
    skipped = [event for event in log.events[since:until] if event["event"] == "run skipped"]
    assert skipped
    why = f"overlap: run {first['run']} waits for its retry since "
    assert all(event["reason"].startswith(why) for event in skipped)
    log.wait("run failed", run=first["run"])
    daemon.stop()
    runs = [stamp.run for stamp in daemon.stamps("fails")]
    assert runs[:2] == [runs[0]] * 2, "the retry came before any other run"
    assert_accounted(daemon.history(), A_SECOND)


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "])
def test_replace(daemon: Daemon, trap: str) -> None:
    """With ``replace`` the newest occurrence wins, once the tree of the older one is gone (P5, P6).

    Deaf or not: never are two alive, and each run that was replaced says by which.
    """
    command = f'{trap}sh "$STAMP" begin $$; sleep 60; sh "$STAMP" end'
    keys = ('schedule = "*/2 * * * * *"', 'overlap = "replace"', 'kill_after = "300ms"')
    log = daemon.start(job_text("newest", command, *keys))
    log.wait("run cancelled", job="newest", count=2)
    log.wait("run started", job="newest", count=3)
    daemon.cli("stop", "--now")
    assert daemon.wait_exit() == 0
    rows = daemon.history()
    assert_accounted(rows, timedelta(seconds=2))
    begun = [row for row in rows if row["attempts"]]
    assert {row["outcome"] for row in begun} == {"cancelled"}
    # One that was to replace the last, and was told to stop before it could start, still waits.
    assert [row["state"] for row in rows if row not in begun] in ([], ["queued"])
    assert begun == rows[: len(begun)]
    dues = [_text(row["due"]) for row in rows]
    for row in begun:
        if not row["reason"].startswith("pycron was"):
            by = row["reason"].removeprefix("replaced by the run due ")
            assert dues.index(by) > dues.index(_text(row["due"]))
    attempts = [attempt for row in rows for attempt in row["attempts"]]
    assert len(attempts) >= 3
    for earlier, later in pairwise(attempts):
        assert earlier["finished_at"] <= later["started_at"]


def _text(due: str) -> str:
    return due.replace("Z", "+00:00")


def _is_same(due: str, other: str) -> bool:
    return datetime.fromisoformat(due) == datetime.fromisoformat(other)


def test_replace_across_a_crash(daemon: Daemon, bell: Bell) -> None:
    """A run that outlived the daemon is replaced as well, and nothing of it stays (P5, P6)."""
    mark = f"{daemon.directory}/nothing"
    command = f"echo $PYCRON_RUN_ID > bell; tail -f /dev/null {mark}; true"
    keys = ('schedule = "*/3 * * * * *"', 'overlap = "replace"', 'missed = "skip"')
    daemon.start(job_text("newest", command, *keys))
    bell.wait()
    daemon.status()  # all that has happened is in the ledger when it answers
    daemon.kill()
    (first,) = [row["run"] for row in daemon.history() if row["state"] == "running"]
    log = daemon.start()
    replaced = log.wait("run cancelled", run=first)
    assert replaced["reason"].startswith("replaced by the run due ")
    log.wait("run started", job="newest")
    while int(bell.wait().rpartition("-")[2]) <= first:
        pass
    daemon.cli("stop", "--now")
    assert processes_with(mark) == []


def test_pool_at_one_mark(daemon: Daemon, bell: Bell) -> None:
    """kubernetes/test-infra#12148: of what is due together as few run at once as the pool says.

    All of them do run, those of a higher priority first; another pool is not held up (P4).
    """
    jobs = [
        job_text(
            f"j{number}",
            'sh "$STAMP" begin $$; sleep 0.1; sh "$STAMP" end $$',
            'schedule = "*/10 * * * * *"',
            'pool = "narrow"',
            f"priority = {number // 10}",
        )
        for number in range(30)
    ]
    other = job_text("other", "echo ran > bell", 'schedule = "*/10 * * * * *"')
    log = daemon.start("[pools.narrow]\nworkers = 3\n\n" + "\n".join([*jobs, other]))
    first = log.wait("run started")["due"]
    assert bell.wait() == "ran"
    log.wait("run succeeded", count=31)
    daemon.stop()
    stamps = daemon.stamps()
    assert _most_alive(stamps) <= 3
    begun = [int(stamp.job[1:]) // 10 for stamp in stamps if stamp.word == "begin"][:30]
    # Now and then a slot goes to who is due longest; and two that start together write as they can.
    assert begun[:10].count(2) >= 7, begun
    assert begun[-10:].count(0) >= 7, begun
    ran = [row for row in daemon.history() if _is_same(row["due"], first)]
    assert {row["outcome"] for row in ran} == {"succeeded"}
    assert len({row["job"] for row in ran}) == 31


MANY = 5000


@pytest.mark.long
@pytest.mark.timeout(300)
def test_five_thousand_at_one_mark(daemon: Daemon, bell: Bell) -> None:
    """robfig/cron#269, its second half: each of five thousand has its run at the mark (P1, P8)."""
    jobs = "\n".join(
        f'[jobs.j{n}]\nschedule = "0 * * * * *"\ncommand = ["true"]\n' for n in range(MANY)
    )
    last = job_text("last", "echo $PYCRON_DUE > bell", 'schedule = "0 * * * * *"', "priority = -1")
    log = daemon.start(jobs + last, under=("sh", "-c", 'ulimit -n 1024; exec "$@"', "sh"))
    told = daemon.cli("next", "-n", str(MANY + 1), "--json")
    assert len(json.loads(told.stdout)) == MANY + 1
    due = bell.wait()
    daemon.stop()
    rows = [row for row in daemon.history() if _is_same(row["due"], due)]
    assert len(rows) == MANY + 1
    assert {row["outcome"] for row in rows} == {"succeeded"}
    assert not [event for event in log.events if "exception" in event]
    late = sorted(row["late_seconds"] for row in rows)
    sys.stdout.write(f"{late[MANY // 2]} s late in the middle, {late[-1]} s at most\n")
