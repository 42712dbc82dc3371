"""The ledger is locked, has no room, or is damaged: jobs go on where they can (P8)."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from crond_py.clock import SystemClock
from crond_py.ledger.sqlite import open_reader
from crond_py.ports import RunQuery
from tests.support.daemon import (
    Daemon,
    Event,
    EventLog,
    assert_accounted,
    begun,
)
from tests.support.ledgertrouble import locked, ruin

TICK = """
[jobs.tick]
schedule = "* * * * * *"
command = 'sh "$STAMP" ran'
missed = "all"
overlap = "allow"
"""

LONG = """
[jobs.long]
startup = true
enabled = false
command = 'sh "$STAMP" ran; exec sleep 1000'
"""

QUICK = """
[jobs.quick]
startup = true
enabled = false
command = 'sh "$STAMP" ran'
"""

IN_JOURNAL = "the ledger cannot be written; what runs is kept in the journal"
LACKS = "pycron: the newest records are not shown: "
OVER = "the ledger can be written again"


def test_locked_for_seconds(daemon: Daemon) -> None:
    """While another program holds the ledger the jobs go on; afterwards all is in it (P1, P8).

    It is said once in the log and shown by ``pycron status``; nobody needs to restart anything.
    """
    log = daemon.start(TICK)
    log.wait("run succeeded", job="tick")
    with locked(daemon.ledger):
        log.wait(IN_JOURNAL)
        since = len(log.events)
        (trouble,) = daemon.status()["troubles"]
        assert str(daemon.ledger) in trouble
        assert "locked" in trouble
        assert "journal" in trouble
        known = daemon.history("tick")
        assert known, "it can still be read"
        log.wait("run succeeded", job="tick", count=4, since=since)
        assert len(daemon.history("tick")) == len(known), "they are in the journal"
        since = len(log.events)
    log.wait(OVER, since=since)
    log.wait("run succeeded", job="tick", count=2, since=since)
    assert daemon.status()["troubles"] == []
    assert len(log.all("the ledger cannot be written")) == 1
    assert log.all("a record was left out") == []
    daemon.stop()
    rows = daemon.history("tick")
    assert_accounted(rows, timedelta(seconds=1))
    _assert_stamps(daemon, rows)
    assert {row["outcome"] for row in begun(rows)} == {"succeeded"}
    _assert_nothing_made_up(log, rows)
    assert [row["run"] for row in rows] == list(range(1, len(rows) + 1))


def test_killed_whilelocked(daemon: Daemon) -> None:
    """What the journal had when the daemon was killed is in the ledger after it (P1, P2, P8).

    A run that was started meanwhile and still runs is found again: its number is the same.
    """
    log = daemon.start(TICK + LONG)
    log.wait("run succeeded", job="tick")
    with locked(daemon.ledger):
        daemon.cli("trigger", "long")
        log.wait("run started", job="long")
        log.wait(IN_JOURNAL)
        log.wait("run succeeded", job="tick", count=2, since=len(log.events))
        daemon.kill()
    assert LACKS in daemon.cli("history").stderr
    log = daemon.start()
    log.wait("what an earlier pycron kept in the journal is in the ledger now")
    (long,) = [run for run in daemon.status()["active"] if run["job"] == "long"]
    assert long["run"] == int(daemon.stamps("long")[0].run.rpartition("-")[2])
    log.wait("run succeeded", job="tick")
    daemon.cli("cancel", "long")
    log.wait("run cancelled", job="long")
    daemon.stop()
    assert LACKS not in daemon.cli("history").stderr
    rows = daemon.history("tick")
    assert_accounted(rows, timedelta(seconds=1))
    assert len({stamp.due for stamp in daemon.stamps("tick")}) == len(daemon.stamps("tick"))


def test_started_whilelocked(daemon: Daemon) -> None:
    """One that starts on a locked ledger works at once, with all the last one knew (P1, P8)."""
    log = daemon.start(TICK + LONG)
    log.wait("run succeeded", job="tick")
    with locked(daemon.ledger):
        daemon.cli("trigger", "long")
        started = log.wait("run started", job="long")
        log.wait("run succeeded", job="tick", count=2, since=len(log.events))
        daemon.kill()
        log = daemon.start()
        log.wait(IN_JOURNAL)
        (long,) = [run for run in daemon.status()["active"] if run["job"] == "long"]
        assert long["attempts"][-1]["pid"] == started["pid"]
        log.wait("run succeeded", job="tick", count=2, since=len(log.events))
    log.wait(OVER)
    log.wait("run succeeded", job="tick", since=len(log.events))
    daemon.cli("cancel", "long")
    log.wait("run cancelled", job="long")
    daemon.stop()
    assert log.all("a record was left out") == []
    rows = daemon.history("tick")
    assert_accounted(rows, timedelta(seconds=1))
    assert len({stamp.due for stamp in daemon.stamps("tick")}) == len(daemon.stamps("tick"))
    assert len(daemon.history("long")) == 1


def test_stopped_whilelocked(daemon: Daemon) -> None:
    """A daemon that is told to stop meanwhile does so, and the next one has it all (P1, P8)."""
    log = daemon.start(TICK)
    with locked(daemon.ledger):
        log.wait(IN_JOURNAL)
        log.wait("run succeeded", job="tick", count=2, since=len(log.events))
        daemon.stop()
    daemon.start().wait("run succeeded", job="tick")
    daemon.stop()
    rows = daemon.history("tick")
    assert_accounted(rows, timedelta(seconds=1))
    _assert_stamps(daemon, rows)


def _assert_nothing_made_up(log: EventLog, rows: list[Event]) -> None:
    """Hold that all ran in its turn, but what the machine itself was too late for."""
    frozen = log.all("catching up", reason="pycron was frozen or the machine suspended")
    made_up = [row for row in rows if row["cause"] == "catch_up"]
    assert len(made_up) == sum(event["runs"] for event in frozen)


def _assert_stamps(daemon: Daemon, rows: list[Event]) -> None:
    """Hold that what ran is what is recorded as having run, each once (P2)."""
    ran = [row["due"] for row in rows if row["outcome"] == "succeeded"]
    stamps = [stamp.due.isoformat().replace("+00:00", "Z") for stamp in daemon.stamps("tick")]
    assert sorted(stamps) == ran


@pytest.fixture
def small_disk(daemon: Daemon) -> Iterator[Path]:
    """Give the daemon a state directory on a file system of two megabytes."""
    daemon.state.mkdir(mode=0o700)
    options = ["-t", "tmpfs", "-o", "size=2m,mode=0700", "pycron-test"]
    try:
        mounted = subprocess.run(
            ["mount", *options, daemon.state], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("there is no mount(8)")
    if mounted.returncode != 0:
        pytest.skip(f"may not mount a small file system: {mounted.stderr.strip()}")
    yield daemon.state
    daemon.clean_up()
    subprocess.run(["umount", daemon.state], check=True)


def _fill(directory: Path) -> Path:
    """Take all the room that there is."""
    filler = directory / "filler"
    with filler.open("wb", buffering=0) as file:
        for size in (65536, 4096, 1):
            try:
                while True:
                    file.write(b"\0" * size)
            except OSError:
                continue
    return filler


def test_disk_full(daemon: Daemon, small_disk: Path) -> None:
    """With no room left the jobs go on, and with room again all is recorded (P8, P1)."""
    log = daemon.start(TICK)
    log.wait("run succeeded", job="tick", count=2)
    before = [row for row in daemon.history() if row["outcome"]]
    filler = _fill(small_disk)
    log.wait(IN_JOURNAL)
    since = len(log.events)
    (trouble,) = daemon.status()["troubles"]
    assert "disk full" in trouble
    assert daemon.history()[: len(before)] == before
    log.wait("run succeeded", job="tick", count=4, since=since)
    filler.unlink()
    since = len(log.events)
    log.wait(OVER, since=since)
    log.wait("run succeeded", job="tick", count=3, since=since)
    assert daemon.status()["troubles"] == []
    assert len(log.all("the ledger cannot be written")) == 1
    daemon.stop()
    rows = daemon.history()
    assert rows[: len(before)] == before
    assert_accounted(rows, timedelta(seconds=1))
    _assert_stamps(daemon, rows)
    _assert_nothing_made_up(log, rows)


def test_killed_on_a_full_disk(daemon: Daemon, small_disk: Path) -> None:
    """A daemon that is killed without room left loses nothing that had run (P1, P2, P8)."""
    log = daemon.start(TICK)
    log.wait("run succeeded", job="tick")
    filler = _fill(small_disk)
    log.wait(IN_JOURNAL)
    log.wait("run succeeded", job="tick", count=2, since=len(log.events))
    daemon.kill()
    filler.unlink()
    daemon.start().wait("run succeeded", job="tick")
    daemon.stop()
    assert_accounted(daemon.history("tick"), timedelta(seconds=1))
    assert len({stamp.due for stamp in daemon.stamps("tick")}) == len(daemon.stamps("tick"))


def test_start_on_a_full_disk(daemon: Daemon, small_disk: Path) -> None:
    """A daemon that has no room at its start says so in one line; with room it goes on (P8, P1)."""
    daemon.start(TICK).wait("run succeeded", job="tick")
    daemon.stop()
    before = daemon.history()
    filler = _fill(small_disk)
    (refused,) = daemon.cli("run", check=1).stderr.splitlines()
    assert refused.startswith(f"pycron: the ledger {daemon.ledger} cannot be ")
    filler.unlink()
    daemon.start().wait("run succeeded", job="tick", count=2)
    daemon.stop()
    rows = daemon.history()
    assert rows[: len(before)] == before
    assert_accounted(rows, timedelta(seconds=1))


def test_damaged_ledger_is_set_aside(daemon: Daemon) -> None:
    """What is no ledger is kept under another name, said loudly, and jobs run (P8)."""
    daemon.state.mkdir(mode=0o700)
    daemon.ledger.write_bytes(b"this is no database" * 1000)
    log = daemon.start(TICK)
    damaged = log.wait("the ledger is damaged")
    assert damaged["level"] == "critical"
    assert Path(damaged["set_aside_as"]).read_bytes() == b"this is no database" * 1000
    log.wait("run succeeded", job="tick")


# --- damage -------------------------------------------------------------------------------------

ONCE = """
[jobs.once]
at = {at}
missed = "once"
command = 'sh "$STAMP" ran'
"""


EACH_BOOT = """
[jobs.boot]
startup = "boot"
command = 'sh "$STAMP" ran'
"""


def test_damaged_while_it_runs(daemon: Daemon) -> None:
    """A ledger that is found damaged is set aside, and the work goes on in another (P8, P1, P2).

    What still runs stays the same run and is found by the next daemon.
    """
    log = daemon.start(LONG + QUICK)
    daemon.cli("trigger", "long")
    log.wait("run started", job="long")
    daemon.cli("trigger", "quick")
    log.wait("run succeeded", job="quick")
    ruin(daemon.ledger, "meta")
    daemon.cli("trigger", "quick", "--wait")  # until its outcome is in the ledger
    damaged = log.wait("the ledger is damaged; it was set aside and a fresh one begun")
    assert damaged["level"] == "critical"
    assert Path(damaged["set_aside_as"]).exists()
    (trouble,) = daemon.status()["troubles"]
    assert damaged["set_aside_as"] in trouble
    assert [(row["run"], row["job"], row["state"]) for row in daemon.history()] == [
        (1, "long", "running"),
        (3, "quick", "done"),
    ]
    daemon.kill()
    daemon.start()
    (long,) = daemon.status()["active"]
    assert (long["run"], long["job"]) == (1, "long")
    assert len(daemon.stamps("long")) == 1
    daemon.cli("trigger", "quick", "--wait")
    assert [row["run"] for row in daemon.history("quick")] == [3, 4]


def test_salvaged_at_the_start(daemon: Daemon) -> None:
    """Of a damaged ledger what can be read is carried over: nothing runs again for it (P2, P5, P8).

    Neither does a job at an instant that is past, nor one whose process still runs.
    """
    at = (SystemClock().now() - timedelta(days=1)).isoformat(timespec="seconds")
    log = daemon.start(ONCE.format(at=at) + LONG + QUICK)
    log.wait("run succeeded", job="once")
    daemon.cli("trigger", "long")
    log.wait("run started", job="long")
    daemon.kill()
    ruin(daemon.ledger, "meta", "cursors", "runs", "attempts", "sqlite_sequence", "runs_open")
    log = daemon.start()
    log.wait("the ledger is damaged")
    (long,) = daemon.status()["active"]
    assert (long["run"], long["job"]) == (2, "long")
    daemon.cli("trigger", "quick")
    log.wait("run succeeded", job="quick")
    assert [row["run"] for row in daemon.history("quick")] == [3]
    assert len(daemon.stamps("once")) == 1
    assert daemon.history("once") == []


@pytest.mark.parametrize("is_killed", [False, True])
def test_overwritten_while_it_was_stopped(daemon: Daemon, is_killed: bool) -> None:
    """Where nothing can be read any more, what is past is not run a second time (P2, P8)."""
    at = (SystemClock().now() - timedelta(days=1)).isoformat(timespec="seconds")
    log = daemon.start(ONCE.format(at=at) + QUICK + EACH_BOOT)
    for job in ("once", "boot"):
        log.wait("run succeeded", job=job)
    daemon.stop()
    if is_killed:
        daemon.start()
        daemon.kill()
    for file in daemon.state.glob("ledger.sqlite*"):
        file.write_bytes(b"this is no database" * 1000)
    log = daemon.start()
    log.wait("the ledger is damaged")
    daemon.cli("trigger", "quick")
    log.wait("run succeeded", job="quick")
    daemon.stop()
    assert len(daemon.stamps("once")) == 1
    assert len(daemon.stamps("boot")) == 1


@pytest.mark.parametrize("what", ["ledger", "directory"])
def test_deleted_while_it_runs(daemon: Daemon, what: str) -> None:
    """Whoever deletes the ledger, or all of the state, stops no job and loses no run (P8, P1)."""
    log = daemon.start(TICK)
    log.wait("run succeeded", job="tick", count=2)
    if what == "ledger":
        daemon.ledger.unlink()
    else:
        gone = daemon.state.rename(daemon.directory / "gone")  # at once: it is written meanwhile
        shutil.rmtree(gone)
    log.wait("the ledger was deleted; it was begun again")
    since = len(log.events)
    if what == "directory":
        log.wait("the control socket was deleted; it is there again")
    assert daemon.status()["troubles"] == []
    log.wait("run succeeded", job="tick", count=2, since=since)
    with closing(open_reader(daemon.ledger)) as ledger:
        assert len(ledger.runs(RunQuery(limit=None))) >= 4
    daemon.stop()
    rows = daemon.history("tick")
    assert_accounted(rows, timedelta(seconds=1))
    _assert_stamps(daemon, rows)


def test_another_daemon_was_quicker(daemon: Daemon, tmp_path: Path) -> None:
    """A daemon whose state was deleted leaves it to another that has begun there since (P2)."""
    log = daemon.start(QUICK)
    daemon.signal(signal.SIGSTOP)  # else it may begin there again itself
    shutil.rmtree(daemon.state)
    other = Daemon(tmp_path, daemon.command)
    try:
        other.start()
        daemon.signal(signal.SIGCONT)
        with closing(open_reader(daemon.ledger)) as ledger:
            identity = ledger.identity
        daemon.signal(signal.SIGTERM)
        daemon.wait_exit()
        other.cli("trigger", "quick")
        other.log.wait("run succeeded", job="quick")
        with closing(open_reader(daemon.ledger)) as ledger:
            assert ledger.identity == identity
        other.stop()
    finally:
        other.clean_up()
    assert log.all("run started") == []


@pytest.mark.parametrize("what", ["log", "ledger"])
def test_newest_records_are_lost_after_a_kill(daemon: Daemon, what: str) -> None:
    """Runs that the ledger has lost are not run again, and hold their job while they live.

    Every occurrence has its row, and no number of a run is given twice (P1, P2, P5, P8).
    """
    at = SystemClock().now().isoformat(timespec="seconds")
    log = daemon.start(TICK + LONG + QUICK)
    log.wait("run succeeded", job="tick")
    daemon.write(TICK + LONG + QUICK + ONCE.format(at=at))
    daemon.cli("reload")
    log.wait("run succeeded", job="once")
    daemon.cli("trigger", "long")
    log.wait("run started", job="long")
    log.wait("run succeeded", job="tick", count=2)
    daemon.kill()
    stamped = daemon.stamps()
    if what == "log":
        daemon.ledger.with_name(f"{daemon.ledger.name}-wal").unlink()
    else:
        for file in daemon.state.glob("ledger.sqlite*"):
            file.write_bytes(b"this is no database" * 1000)
    log = daemon.start()
    log.wait("the ledger has lost its newest records")
    assert any("lost its newest records" in text for text in daemon.status()["troubles"])
    log.wait("run succeeded", job="tick", count=2)
    (long,) = [run for run in daemon.status()["active"] if run["job"] == "long"]
    (before,) = [stamp for stamp in stamped if stamp.job == "long"]
    assert (long["job"], long["run"]) == ("long", int(before.run.rpartition("-")[2]))
    assert daemon.cli("trigger", "long", check=None).returncode != 0
    daemon.cli("cancel", str(long["run"]))
    daemon.stop()
    stamps = daemon.stamps()
    assert len({stamp.run for stamp in stamps}) == len(stamps)
    assert len({(stamp.job, stamp.due) for stamp in stamps}) == len(stamps)
    assert len(daemon.stamps("once")) == 1
    if what == "log":
        assert_accounted(daemon.history("tick"), timedelta(seconds=1))
