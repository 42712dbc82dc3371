"""Random damage to a ledger's files."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from crond_py.errors import LedgerError
from crond_py.ledger.sqlite import SqliteLedger, open_reader
from crond_py.model import Attempt, Cursor, Outcome
from crond_py.ports import LedgerReader, RunQuery, SetAttempt, SetCursor, SetTask, TaskQuery
from tests.support.ledgers import T0, at, attempted, claim, enter, finish, hand_in, new_task

SUFFIXES = ("", "-wal", "-shm")

PLACES = st.floats(0, 1, exclude_max=True)
SPOTS = st.lists(st.tuples(PLACES, st.binary(min_size=1, max_size=40)), min_size=1, max_size=20)


@cache
def _sound() -> tuple[bytes, bytes, bytes]:
    """Return the three files of a ledger at work, half of it in the log."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "ledger.db")
        ledger = SqliteLedger.open(path, now=T0)
        for number in range(12):
            ids = enter(ledger, *[attempted(f"job-{job}", at(number)) for job in range(8)])
            ledger.write([finish(run_id, at(number)) for run_id in ids[2:]], durable=False)
            ledger.write([SetCursor(Cursor(f"job-{number}", "f", 0, T0, T0))], durable=True)
            task_ids = hand_in(ledger, *[new_task(at(n), key=f"{number}-{n}") for n in range(9)])
            ledger.write([SetTask(task_id, T0, at(9)) for task_id in task_ids[:3]], durable=False)
            if number == 6:
                ledger._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        wal, shm = (Path(f"{path}{suffix}").read_bytes() for suffix in SUFFIXES[1:])
        content = (path.read_bytes(), wal, shm)
        ledger.close()
    return content


def _ask(reader: LedgerReader) -> None:
    reader.run(1)
    reader.runs(RunQuery(limit=None))
    reader.runs(RunQuery(job="job-1", outcomes=frozenset({Outcome.FAILED})))
    reader.open_runs()
    reader.last_runs()
    reader.cursors()
    reader.task(1)
    reader.tasks(TaskQuery(limit=None))
    reader.tasks(TaskQuery(is_open=None, limit=None))
    for lane in reader.lanes():
        reader.tasks_due(lane, after=(at(5), 1), until=at(7), limit=9)
        reader.count_due(lane, after=at(5), until=at(7), limit=9)


def _write(ledger: SqliteLedger) -> None:
    ids = enter(ledger, *[attempted(f"job-{job}", at(99)) for job in range(8)])
    ledger.write([SetAttempt(ids[0], Attempt(2, T0)), finish(ids[1], at(99))], durable=True)
    ledger.prune("job-1", keep_runs=1, older_than=at(5), limit=9)
    ledger.submit([new_task(), new_task(key="1-1")], T0)
    ledger.write([claim("task:2"), SetTask(2, at(9))], durable=True)
    ledger.prune_tasks(older_than=at(99), limit=9)


def _use(path: Path) -> None:
    """Read and write; the first LedgerError ends it, as nothing else may."""
    try:
        reader = open_reader(path)
    except LedgerError:
        pass
    else:
        _quietly(reader, _ask)
    try:
        ledger = SqliteLedger.open(path, now=T0)
    except LedgerError:
        return
    _quietly(ledger, _ask, _write, _ask)


def _quietly(ledger: object, *works: object) -> None:
    for work in works:
        with suppress(LedgerError):
            work(ledger)  # type: ignore[operator]
    ledger.close()  # type: ignore[attr-defined]


@given(file=st.sampled_from([0, 0, 1]), spots=SPOTS, cut=st.none() | PLACES)
@settings(max_examples=120, deadline=None)
def test_damage_never_shows_as_anything_else(
    file: int, spots: list[tuple[float, bytes]], cut: float | None
) -> None:
    """Whatever bytes are wrong or missing, it ends well or in a LedgerError (P8)."""
    with tempfile.TemporaryDirectory(prefix="pycron-damage-") as folder:
        path = Path(folder, "ledger.db")
        for suffix, content in zip(SUFFIXES, _sound(), strict=True):
            Path(f"{path}{suffix}").write_bytes(content)
        victim = Path(f"{path}{SUFFIXES[file]}")
        content = bytearray(victim.read_bytes())
        for place, junk in spots:
            begin = int(place * len(content))
            content[begin : begin + len(junk)] = junk
        if cut is not None:
            del content[int(cut * len(content)) :]
        victim.write_bytes(content)
        _use(path)


@given(cut=PLACES)
@settings(max_examples=40, deadline=None)
def test_cut_log_loses_only_its_end(cut: float) -> None:
    """A log that lacks its end, wherever, is a ledger with fewer runs, not a damaged one (P8)."""
    with tempfile.TemporaryDirectory(prefix="pycron-damage-") as folder:
        path = Path(folder, "ledger.db")
        main, log, _ = _sound()
        path.write_bytes(main)
        Path(f"{path}-wal").write_bytes(log[: int(cut * len(log))])
        copy = Path(folder, "copy.db")
        shutil.copyfile(path, copy)
        shutil.copyfile(f"{path}-wal", f"{copy}-wal")
        reader = open_reader(path)
        seen = reader.runs(RunQuery(limit=None))
        reader.close()
        ledger = SqliteLedger.open(copy, now=T0)
        assert ledger.runs(RunQuery(limit=None)) == seen
        assert 7 * 8 <= len(seen) <= 12 * 8
        assert len(seen) % 8 == 0
        ledger.close()
