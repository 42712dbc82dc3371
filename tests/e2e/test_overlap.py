"""A job that takes longer than its period: skip, queue and allow."""

from __future__ import annotations

from datetime import timedelta

from tests.support.daemon import Daemon, Event, Stamp, assert_accounted

# Each run takes three seconds and is due each second.
SLOW = """
[jobs.skip]
schedule = "* * * * * *"
command = 'sh "$STAMP" begin; sleep 3; sh "$STAMP" end'
overlap = "skip"

[jobs.queue]
schedule = "* * * * * *"
command = 'sh "$STAMP" begin; sleep 3; sh "$STAMP" end'
overlap = "queue"
queue_limit = 1

[jobs.allow]
schedule = "* * * * * *"
command = 'sh "$STAMP" begin; sleep 3; sh "$STAMP" end'
overlap = "allow"

[jobs.few]
schedule = "* * * * * *"
command = 'sh "$STAMP" begin; sleep 3; sh "$STAMP" end'
overlap = "allow"
max_running = 2
"""


def test_skip_queue_allow(daemon: Daemon) -> None:
    """Each policy does what it says, and accounts for every second of it (P1, P5)."""
    log = daemon.start(SLOW)
    log.wait("run started", job="allow", count=7)
    log.wait("run started", job="skip", count=2)
    log.wait("run started", job="queue", count=2)
    daemon.stop()
    for job in ("skip", "queue", "allow", "few"):
        assert_accounted(daemon.history(job), timedelta(seconds=1))
    _assert_skip(daemon)
    _assert_queue(daemon)
    assert _most_alive(daemon.stamps("allow")) >= 3
    assert not _rows(daemon, "allow", "skipped")
    assert _most_alive(daemon.stamps("few")) == 2
    assert {_code(row) for row in _rows(daemon, "few", "skipped")} == {"max_running"}


def _assert_skip(daemon: Daemon) -> None:
    """Two in three are skipped, each with the run that stood in its way."""
    assert _most_alive(daemon.stamps("skip")) == 1
    runs: list[Event] = []
    left_out = 0
    for row in daemon.history("skip"):
        if row["attempts"]:
            runs.append(row)
            continue
        left_out += row["count"]
        if row["outcome"] == "skipped":
            assert row["reason"].startswith(f"overlap: run {runs[-1]['run']} is running since ")
    # A run takes three seconds and a little, so at least two turns fall into each that has ended.
    assert len(runs) >= 2
    assert left_out >= 2 * (len(runs) - 1)


def _assert_queue(daemon: Daemon) -> None:
    """One at a time, in order; what comes to a full queue is dropped and says so."""
    stamps = daemon.stamps("queue")
    assert _most_alive(stamps) == 1
    dues = [stamp.due for stamp in stamps if stamp.word == "begin"]
    assert dues == sorted(dues)
    dropped = _rows(daemon, "queue", "skipped")
    assert dropped
    for row in dropped:
        assert _code(row) == "queue_full"
        assert row["reason"].endswith(", 1 more behind it")


def _rows(daemon: Daemon, job: str, outcome: str) -> list[Event]:
    return daemon.history(job, "--outcome", outcome)


def _code(row: Event) -> str:
    code, _, _ = row["reason"].partition(": ")
    return str(code)


def _most_alive(stamps: list[Stamp]) -> int:
    """Return how many runs were alive at once, by what they themselves have written."""
    alive = most = 0
    for stamp in sorted(stamps, key=lambda stamp: stamp.at):
        alive += 1 if stamp.word == "begin" else -1
        most = max(most, alive)
    assert alive == 0, "a run has not ended by itself"
    return most


def test_skip_in_the_log(daemon: Daemon) -> None:
    """The log, too, names for each skipped occurrence the run that goes on, and since when."""
    log = daemon.start("""
    [jobs.hangs]
    every = "1s"
    command = "sleep 1000"
    """)
    first = log.wait("run started", job="hangs")
    skipped = log.wait("run skipped", job="hangs", count=2)
    assert skipped["reason"].startswith(f"overlap: run {first['run']} is running since ")
    (active,) = daemon.status()["active"]
    assert (active["run"], active["state"]) == (first["run"], "running")
