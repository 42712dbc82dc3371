"""Jobs that follow others, with the real daemon."""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from datetime import timedelta

import pytest

from tests.support.daemon import ENDS, Daemon, Event, occurrences

CHAIN = """
[jobs.head]
schedule = "*/2 * * * * *"
command = 'sh "$STAMP" begin; sleep 0.3; sh "$STAMP" end'

[jobs.left]
after = ["head"]
command = 'sh "$STAMP" begin'

[jobs.right]
after = ["head"]
command = 'sh "$STAMP" begin; exit 3'

[jobs.end]
after = { left = "success", right = "failure" }
command = 'sh "$STAMP" begin; test -n "$PYCRON_DUE"'

[jobs.never]
after = ["right"]
command = 'sh "$STAMP" begin'
"""


def test_a_cycle_goes_down_the_chain(daemon: Daemon) -> None:
    """P1, P2: each cycle has one row of each job, with one due instant, also across a kill -9."""
    log = daemon.start(CHAIN)
    log.wait("run succeeded", job="end", count=2)
    daemon.kill()
    log = daemon.start(CHAIN)
    log.wait("run succeeded", job="end", count=2)
    daemon.write(CHAIN.replace("[jobs.head]", "[jobs.head]\nenabled = false"))
    daemon.cli("reload")
    daemon.settle()
    daemon.stop()
    head = {row["due"]: row for row in daemon.history("head")}
    for job in ("left", "right", "end", "never"):
        rows = daemon.history(job)
        assert len({row["due"] for row in rows}) == len(rows)
        assert {row["due"] for row in rows} == set(head)
        assert all(row["outcome"] for row in rows)
    assert {row["outcome"] for row in daemon.history("never")} == {"skipped"}
    assert not daemon.stamps("never")
    for row in daemon.history("never"):
        assert row["reason"].startswith("upstream_failed: right ")
    started = daemon.stamps("end")
    assert len({stamp.due for stamp in started}) == len(started) >= 4


# --- killed in the middle of a chain --------------------------------------------------------------

DIAMOND = """
[jobs.head]
schedule = "* * * * * *"
command = 'sh "$STAMP" begin; sleep 0.1'
missed = "once"
{switch}

[jobs.left]
after = ["head"]
command = 'sh "$STAMP" begin; sleep 0.1; test $PYCRON_ATTEMPT = 2'
retry = {{ attempts = 2, delay = "100ms" }}

[jobs.right]
after = ["head"]
command = 'sh "$STAMP" begin; sleep 0.2; exit 3'

[jobs.join]
after = {{ left = "success", right = "failure" }}
command = 'sh "$STAMP" begin'
overlap = "queue"

[jobs.clean]
after = {{ join = "any" }}
command = 'sh "$STAMP" begin'
overlap = "queue"
queue_limit = 1000
"""

CONDITIONS = {
    "left": {"head": "success"},
    "right": {"head": "success"},
    "join": {"left": "success", "right": "failure"},
    "clean": {"join": "any"},
}
FAILURES = {"failed", "timed_out", "lost"}


def _is_met(condition: str, outcome: str) -> bool:
    if condition == "any":
        return True
    return outcome == "succeeded" if condition == "success" else outcome in FAILURES


def _wrong_with(rows: dict[str, dict[str, Event]], job: str, due: str) -> str:
    """Say what is wrong with a job's outcome in a cycle, by those of the jobs that it follows.

    Nothing follows a stretch of missed occurrences, which is one row for all of them.
    """
    row = rows[job][due]
    above = {name: rows[name].get(due) for name in CONDITIONS[job]}
    outcomes = {
        name: each["outcome"]
        for name, each in above.items()
        if each is not None and each["count"] == 1
    }
    is_due = outcomes.keys() == above.keys() and all(
        _is_met(CONDITIONS[job][name], outcome) for name, outcome in outcomes.items()
    )
    if is_due == (row["reason"] or "").startswith(("upstream_failed", "upstream_not_failed")):
        return f"{job} at {due} is {row['outcome']} ({row['reason']}) after {outcomes}"
    return ""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("kills", [6, pytest.param(100, marks=pytest.mark.long)])
def test_killed_in_the_middle_of_a_diamond(daemon: Daemon, kills: int) -> None:
    """P1, P2: killed at random moments, each cycle is accounted for in each job, and run once."""
    seed = int(os.environ.get("PYCRON_TEST_SEED", "") or secrets.randbelow(10**9))
    sys.stdout.write(f"PYCRON_TEST_SEED={seed}\n")
    moments = random.Random(seed)
    daemon.write(DIAMOND.format(switch=""))
    for _ in range(kills):
        daemon.start(None, is_up=moments.random() < 0.6)
        assert daemon.process is not None
        with suppress(subprocess.TimeoutExpired):
            daemon.process.wait(moments.uniform(0.02, 1.5))
        daemon.kill()
    log = daemon.start()
    log.wait("run succeeded", job="clean")
    daemon.write(DIAMOND.format(switch="enabled = false"))
    daemon.cli("reload")
    while active := daemon.status()["active"]:
        for run in active:
            log.wait(ENDS, run=run["run"])
    daemon.stop()
    dues = sorted(occurrences(daemon.history("head"), timedelta(seconds=1)))
    assert len(dues) == len(set(dues)), "an instant has two rows"
    for job in CONDITIONS:
        assert sorted(occurrences(daemon.history(job), timedelta(seconds=1))) == dues, job
    rows = {job: {row["due"]: row for row in daemon.history(job)} for job in ("head", *CONDITIONS)}
    wrong = [_wrong_with(rows, job, due) for job in CONDITIONS for due in rows[job]]
    assert not [text for text in wrong if text]
    runs = Counter((stamp.job, stamp.due, stamp.attempt) for stamp in daemon.stamps())
    assert [each for each, number in runs.items() if number > 1] == []
    begun = {(job, due) for job, of in rows.items() for due, row in of.items() if row["attempts"]}
    outcomes = Counter(row["outcome"] for of in rows.values() for row in of.values())
    sys.stdout.write(f"{len(dues)} cycles, {len(begun)} runs begun, {dict(outcomes)}\n")
