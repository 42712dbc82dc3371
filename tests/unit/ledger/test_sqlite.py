"""The SQLite ledger's file: how it is made, opened, locked, filled up and killed over."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from crond_py.errors import LedgerError
from crond_py.ledger.sqlite import SqliteLedger, open_reader
from crond_py.model import Attempt, Cursor, Outcome, State
from crond_py.ports import RunQuery, SetAttempt, SetCursor
from tests.support.ledgers import T0, at, attempted, claim, enter, finish
from tests.unit.ledger.conftest import Open, OpenReader, StartProgram

EVERYTHING = RunQuery(limit=None)
AT_ONCE = timedelta(milliseconds=1)


def _names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


# --- the file ---------------------------------------------------------------------------------


def test_file_is_its_owners(path: Path, open_ledger: Open) -> None:
    """Nobody else may read the ledger or the files beside it, whatever the umask (P9)."""
    umask = os.umask(0)
    try:
        enter(open_ledger(path), claim())
    finally:
        os.umask(umask)
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}
    assert modes == {"ledger.db": 0o600, "ledger.db-wal": 0o600, "ledger.db-shm": 0o600}


def test_permissions_given_on_purpose_stay(path: Path, open_ledger: Open) -> None:
    """A ledger that its owner has opened to a group stays so."""
    open_ledger(path).close()
    path.chmod(0o640)
    open_ledger(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize(
    "name",
    [
        "with space.db",
        "ask?mode=memory&x=y",
        "hash#fragment",
        "per%cent%41%00",
        "line\nbreak\n",
        "quote'\"\\",
        "naïve-時計",
        "\udcff\udcfe",  # bytes that are no UTF-8
        ":memory:",
        "file:x",
        "-wal",
    ],
)
def test_any_path_works(tmp_path: Path, open_ledger: Open, look: OpenReader, name: str) -> None:
    """A ledger lies exactly where it was asked for, whatever the path is made of."""
    folder = tmp_path / f"in {name}"
    folder.mkdir()
    path = folder / name
    enter(open_ledger(path), claim())
    assert _names(folder) == [name, f"{name}-shm", f"{name}-wal"]
    assert len(look(path).runs(EVERYTHING)) == 1


def test_relative_path_works(
    tmp_path: Path, open_ledger: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A relative path counts from where the process is when it opens the ledger."""
    monkeypatch.chdir(tmp_path)
    ledger = open_ledger(Path("ledger.db"))
    monkeypatch.chdir("/")
    enter(ledger, claim())
    assert (tmp_path / "ledger.db").exists()


def test_link_is_followed(tmp_path: Path, open_ledger: Open, look: OpenReader) -> None:
    """A ledger may be elsewhere; what is beside it is beside the file itself."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "disk" / "real.db")
    ledger = open_ledger(tmp_path / "link.db")
    enter(ledger, claim())
    assert (tmp_path / "disk" / "real.db-wal").exists()
    assert len(look(tmp_path / "link.db").runs(EVERYTHING)) == 1


def test_identity_and_content_outlive_a_restart(path: Path, open_ledger: Open) -> None:
    """What was written is there when the ledger is opened again, under the same name (P1)."""
    first = open_ledger(path)
    enter(first, attempted("a"))
    before = (first.identity, first.runs(EVERYTHING))
    first.close()
    assert _names(path.parent) == ["ledger.db"]
    second = open_ledger(path)
    assert (second.identity, second.runs(EVERYTHING)) == before


def test_ledgers_have_different_names(tmp_path: Path, open_ledger: Open) -> None:
    """Two ledgers do not take each other's processes for their own."""
    names = {open_ledger(tmp_path / f"{n}.db").identity for n in range(4)}
    assert len(names) == 4


def test_other_thread_may_use_it(path: Path, open_ledger: Open) -> None:
    """A ledger made in one thread is used in another, as the engine does."""
    ledger = open_ledger(path)
    thread = threading.Thread(target=lambda: enter(ledger, claim()))
    thread.start()
    thread.join()
    assert len(ledger.runs(EVERYTHING)) == 1


@pytest.mark.parametrize("durable", [True, False])
def test_durable_writes_are_synchronous(path: Path, open_ledger: Open, durable: bool) -> None:
    """SQLite is told to bring to the disk what must survive a power cut, and nothing else (P2)."""
    ledger = open_ledger(path)
    for _ in range(2):
        ledger.write([SetCursor(Cursor("a", "f", 0, T0, T0))], durable=not durable)
        ledger.write([SetCursor(Cursor("a", "f", 0, T0, T0))], durable=durable)
        (level,) = ledger._connection.execute("PRAGMA synchronous").fetchone()
        assert level == (2 if durable else 1)  # FULL and NORMAL, says sqlite.org/pragma.html


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace")
def test_durable_write_reaches_the_disk(
    tmp_path: Path, path: Path, start_program: StartProgram
) -> None:
    """Before a durable write returns the log is synced; another one costs no sync (P2)."""
    trace = tmp_path / "trace"
    child = start_program(
        "ledger_write.py",
        path,
        0,
        6,
        before=("strace", "-f", "-y", "-e", "trace=write,fsync,fdatasync", "-o", str(trace)),
    )
    child.communicate()
    if child.returncode:
        pytest.skip("strace may not trace here")
    calls = trace.read_text()
    between = [""]
    for line in calls.splitlines():
        if "write(1<" in line:
            between.append("")
        elif "sync(" in line and "ledger.db-wal>" in line:
            between[-1] += "sync "
    # Batches 0, 2 and 4 are durable. The first has the file's beginning to sync, too.
    assert [bool(syncs) for syncs in between[:6]] == [True, False, True, False, True, False]


# --- trouble ----------------------------------------------------------------------------------


def test_missing_directory_is_named(tmp_path: Path) -> None:
    """A ledger in a directory that is not there is an error that names it."""
    path = tmp_path / "nowhere" / "ledger.db"
    with pytest.raises(LedgerError, match=r"nowhere/ledger\.db cannot be made: No such file"):
        SqliteLedger.open(path, now=T0)


def test_directory_in_its_place(path: Path) -> None:
    """A directory where the ledger should be is an error that says so."""
    path.mkdir()
    with pytest.raises(LedgerError, match="is not a file"):
        SqliteLedger.open(path, now=T0)


def test_fifo_in_its_place(path: Path) -> None:
    """A FIFO where the ledger should be is an error, and not waited for."""
    os.mkfifo(path)
    with pytest.raises(LedgerError, match="is not a file"):
        SqliteLedger.open(path, now=T0)


def test_locked_ledger_says_so_and_recovers(
    path: Path, open_ledger: Open, look: OpenReader, start_program: StartProgram
) -> None:
    """While another program has it locked, writes fail and reads go on; then all is well (P8)."""
    ledger = open_ledger(path, busy_timeout=AT_ONCE)
    (run_id,) = enter(ledger, claim("a"))
    holder = start_program("ledger_hold.py", path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"ledger\.db is locked by another program"):
            ledger.write([claim("b"), finish(run_id, at(1))], durable=True)
    with pytest.raises(LedgerError, match="locked"):
        ledger.prune("a", keep_runs=0, older_than=None, limit=1)
    with pytest.raises(LedgerError, match="locked"):
        open_ledger(path, busy_timeout=AT_ONCE)
    assert [run.id for run in ledger.open_runs()] == [run_id]
    assert [run.id for run in look(path).open_runs()] == [run_id]
    holder.communicate("let go\n")
    ledger.write([claim("b"), finish(run_id, at(1))], durable=True)
    assert [run.job for run in ledger.open_runs()] == ["b"]
    assert open_ledger(path).identity == ledger.identity


def test_reader_of_an_old_state_hinders_nobody(path: Path, open_ledger: Open) -> None:
    """A reader that never lets go of what it saw makes no write and no prune fail (P8)."""
    ledger = open_ledger(path, busy_timeout=AT_ONCE)
    enter(ledger, claim("first"))
    slow = sqlite3.connect(path, isolation_level=None)
    slow.execute("BEGIN")
    assert slow.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    for number in range(40):
        ids = enter(ledger, *[attempted(f"job-{job}", at(number)) for job in range(50)])
        ledger.write([finish(run_id, at(number)) for run_id in ids], durable=False)
    assert ledger.prune("job-1", keep_runs=1, older_than=None, limit=99).runs == 39
    assert slow.execute("SELECT count(*) FROM runs").fetchone() == (1,)
    slow.close()
    assert len(ledger.runs(EVERYTHING)) == 1 + 40 * 50 - 39


def test_full_disk_says_so_and_recovers(path: Path, open_ledger: Open) -> None:
    """What does not fit is refused whole; what was there stays, and room is all it takes (P8)."""
    ledger = open_ledger(path)
    (run_id,) = enter(ledger, claim("a"))
    (pages,) = ledger._connection.execute("PRAGMA page_count").fetchone()
    ledger._connection.execute(f"PRAGMA max_page_count = {pages + 1}")
    batch = [claim(f"job-{job}", at(1)) for job in range(1000)]
    for durable in (True, False):
        with pytest.raises(LedgerError, match=r"ledger\.db cannot be written: disk full"):
            ledger.write([finish(run_id, at(1)), *batch], durable=durable)
    assert [run.job for run in ledger.open_runs()] == ["a"]
    ledger._connection.execute("PRAGMA max_page_count = 100000")
    ledger.write([finish(run_id, at(1)), *batch], durable=True)
    assert len(ledger.open_runs()) == 1000


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small disk")
def test_really_full_disk(tmp_path: Path, open_ledger: Open) -> None:
    """On a disk without room writes fail, and go on once there is room again (P8)."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount here")
    try:
        _fill_and_make_room(disk, open_ledger(disk / "ledger.db"))
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _fill_and_make_room(disk: Path, ledger: SqliteLedger) -> None:
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(300_000))
    batches = ([claim(f"job-{job}", at(number)) for job in range(100)] for number in range(1000))
    written = 0
    with pytest.raises(LedgerError, match=r"disk full|I/O error"):  # noqa: PT012 - which fails?
        for batch in batches:
            written += len(enter(ledger, *batch))
    assert len(ledger.runs(EVERYTHING)) == written
    ballast.unlink()
    enter(ledger, claim("one more"))
    assert len(ledger.runs(EVERYTHING)) == written + 1
    ledger.close()


def test_limit_on_file_size(path: Path, start_program: StartProgram) -> None:
    """A limit on the size of files is an error like a full disk, not the process's end (P8)."""
    said, _ = start_program("ledger_fill.py", path, 300_000).communicate()
    error, counts, after = said.splitlines()
    assert "ledger.db cannot be" in error
    written, there = map(int, counts.split())
    assert there == written
    assert int(after) == written + 1


def test_broken_rollback_is_made_up_for(path: Path, open_ledger: Open) -> None:
    """A transaction that was left open somehow does not block the next write."""
    ledger = open_ledger(path)
    ledger._connection.execute("BEGIN IMMEDIATE")
    enter(ledger, claim("a"))
    assert len(ledger.runs(EVERYTHING)) == 1


def test_wrong_type_leaves_nothing_behind(path: Path, open_ledger: Open) -> None:
    """A naive datetime is a TypeError, and what came before it in the write is undone."""
    ledger = open_ledger(path)
    with pytest.raises(TypeError):
        ledger.write([claim("a"), claim("b", T0.replace(tzinfo=None))], durable=True)
    enter(ledger, claim("a"))
    assert [run.job for run in ledger.runs(EVERYTHING)] == ["a"]


# --- killed -----------------------------------------------------------------------------------


def test_killed_writer_leaves_whole_writes(path: Path, start_program: StartProgram) -> None:
    """After kill -9 all that was written is there, and of the last write all or none (P1)."""
    first = 0
    for lines in (1, 40, 17, 3, 88):
        child = start_program("ledger_write.py", path, first, 1_000_000)
        assert child.stdout is not None
        told = [int(child.stdout.readline()) for _ in range(lines)]
        child.kill()
        told += map(int, child.stdout.read().split())
        child.wait()
        reader = open_reader(path)
        due = [(run.due - T0) // timedelta(seconds=1) for run in reader.runs(EVERYTHING)]
        reader.close()
        batches = {number: due.count(number) for number in due}
        assert set(batches.values()) == {20}
        newest = max(batches)
        assert newest in {told[-1], told[-1] + 1}
        assert sorted(batches) == list(range(newest + 1))
        first = newest + 1


def test_killed_holder_lets_go(path: Path, open_ledger: Open, start_program: StartProgram) -> None:
    """A program that is killed with the ledger locked does not keep it locked (P8)."""
    ledger = open_ledger(path, busy_timeout=AT_ONCE)
    holder = start_program("ledger_hold.py", path)
    assert holder.stdout is not None
    assert holder.stdout.readline() == "held\n"
    holder.kill()
    holder.wait()
    enter(ledger, claim())


# --- rules that the tables hold -----------------------------------------------------------------


def test_tables_are_explained(path: Path, open_ledger: Open) -> None:
    """Whoever opens the file with sqlite3(1) finds the units of the columns in the schema."""
    ledger = open_ledger(path)
    rows = ledger._connection.execute("SELECT name, sql FROM sqlite_schema WHERE type = 'table'")
    schema = dict(rows)
    assert {"meta", "runs", "attempts", "cursors"} <= set(schema)
    for table in ("meta", "runs", "attempts", "cursors"):
        assert "-- instant" in schema[table]
        assert "STRICT" in schema[table]


@pytest.mark.parametrize(
    ("query", "index"),
    [
        (RunQuery(), "runs_due"),
        (RunQuery(since=T0), "runs_due"),
        (RunQuery(job="a"), "runs_occurrence"),
        (RunQuery(job="a", since=T0, until=at(9)), "runs_occurrence"),
        (RunQuery(states=frozenset({State.RUNNING, State.QUEUED})), "runs_open"),
        (RunQuery(outcomes=frozenset({Outcome.FAILED, Outcome.LOST})), "runs_not_succeeded"),
    ],
)
def test_history_is_asked_by_an_index(
    path: Path, open_ledger: Open, query: RunQuery, index: str
) -> None:
    """A page of history is found without looking at every run, however many there are."""
    plans = _plans(open_ledger(path), lambda ledger: ledger.runs(query))
    assert any(f"runs USING INDEX {index}" in plan for plan in plans)
    assert _scans(plans) <= {f"SCAN runs USING INDEX {index}"}


def test_writing_scans_nothing(path: Path, open_ledger: Open) -> None:
    """A write, and what is asked at each start, never look at all the runs there are."""
    ledger = open_ledger(path)
    enter(ledger, attempted("a"))

    def work(ledger: SqliteLedger) -> None:
        enter(ledger, attempted("a", at(1)))
        changes = [SetAttempt(1, Attempt(2, T0)), finish(1, at(1))]
        ledger.write(changes, durable=False)
        ledger.prune("a", keep_runs=0, older_than=at(9), limit=9)
        ledger.open_runs()
        ledger.last_runs()
        ledger.run(1)

    assert _scans(_plans(ledger, work)) <= {"SCAN runs USING INDEX runs_open"}


def _scans(plans: list[str]) -> set[str]:
    """Return what looks at a whole table or index of runs or attempts."""
    return {plan for plan in plans if re.match(r"SCAN (runs|attempts|a)\b", plan)}


def _plans(ledger: SqliteLedger, work: Callable[[SqliteLedger], object]) -> list[str]:
    """Return the query plans of all statements that ``work`` runs on the ledger."""
    statements: list[str] = []
    ledger._connection.set_trace_callback(statements.append)
    work(ledger)
    ledger._connection.set_trace_callback(None)
    plans: list[str] = []
    for statement in statements:
        if not re.match("BEGIN|COMMIT|PRAGMA|-- TRIGGER|--", statement) or "SELECT" in statement:
            rows = ledger._connection.execute(f"EXPLAIN QUERY PLAN {statement}")
            plans += [row[3] for row in rows]
    return plans


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_ledger_that_was_deleted_takes_nothing(
    path: Path, open_ledger: Open, *, is_replaced: bool
) -> None:
    """P1, P2: what is written to a deleted file would be lost, so it is refused."""
    ledger = open_ledger(path)
    enter(ledger, claim())
    path.unlink()
    if is_replaced:
        path.touch()
    with pytest.raises(LedgerError, match="deleted or replaced"):
        enter(ledger, claim())


# --- memory -------------------------------------------------------------------------------------


def test_pages_that_were_let_go_are_read_again(path: Path, open_ledger: Open) -> None:
    """What a start has read and written takes no memory after it, and is all there."""
    libraries = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()}
    names = [name for name in libraries if "libsqlite3" in name]
    if not names:
        pytest.skip("SQLite is part of another library here")
    used = ctypes.CDLL(names[0]).sqlite3_memory_used
    used.restype = ctypes.c_int64
    ledger = open_ledger(path)
    cursors = [Cursor(f"job-{number}", "mark", 0, T0, T0, anchor=T0) for number in range(2000)]
    ledger.write([SetCursor(cursor) for cursor in cursors], durable=True)
    before = used()
    ledger.let_pages_go()
    assert before - used() > 100_000
    assert len(ledger.cursors()) == 2000
