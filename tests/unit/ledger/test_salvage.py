"""What is carried over from a damaged ledger, however much of it can be read."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from crond_py.errors import LedgerError
from crond_py.ledger import salvage as salvage_module
from crond_py.ledger.journal import journal_file
from crond_py.ledger.journaled import JournaledLedger
from crond_py.ledger.known import Remains
from crond_py.ledger.mark import mark_file
from crond_py.ledger.opening import open_ledger
from crond_py.ledger.salvage import begin_in_place, salvage
from crond_py.ledger.spare import read_spare, spare_file
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.model import Attempt, Cursor, Run, State
from crond_py.ports import Gap, Ledger, RunQuery, SetAttempt, SetCursor, SetRun
from tests.support.clock import FakeClock
from tests.support.ledgers import T0, at, attempted, claim, enter, finish

NOW = at(5000)
PAGE_BYTES = 4096
EVERYTHING = RunQuery(limit=None)
CURSORS = {
    f"job-{n}": Cursor(f"job-{n}", "f" * 40, n % 2, T0, at(n), at(1), boot_id="boot")
    for n in range(60)
}

OpenJournaled = Callable[[Path], JournaledLedger]


@pytest.fixture
def open_journaled(stack: ExitStack) -> OpenJournaled:
    """Open ledgers as a daemon does that starts long after all that is in them."""

    def open_(path: Path) -> JournaledLedger:
        ledger = open_ledger(path, FakeClock(NOW), boot_id="boot")
        stack.callback(ledger.close)
        return ledger

    return open_


def _fill(ledger: Ledger) -> list[Run]:
    """Enter 300 runs, cursors, and four runs that are open; return those."""
    for number in range(10):
        ids = enter(ledger, *[attempted(f"job-{job}", at(number)) for job in range(30)])
        ledger.write([finish(run_id, at(number)) for run_id in ids], durable=False)
    running, queued, retrying, bare = enter(
        ledger,
        attempted("job-1", at(900), output="/out/\udcff"),
        claim("job-2", at(901), state=State.QUEUED),
        attempted("job-3", at(902)),
        claim("job-4", at(903)),
    )
    ledger.write(
        [
            SetAttempt(running, Attempt(1, at(900), 77, 5, "boot", at(900))),
            SetRun(retrying, State.WAITING_RETRY, reason="exit status 1", retry_at=at(999)),
            SetAttempt(retrying, Attempt(2, at(903))),
            *map(SetCursor, CURSORS.values()),
        ],
        durable=True,
    )
    assert [running, queued, retrying, bare] == [301, 302, 303, 304]
    return ledger.open_runs()


@pytest.fixture
def sound(tmp_path: Path) -> tuple[Path, str, list[Run]]:
    """Give a ledger at rest, its identity and its open runs."""
    path = tmp_path / "sound" / "ledger.db"
    path.parent.mkdir()
    with closing(SqliteLedger.open(path, now=T0)) as ledger:
        return path, ledger.identity, _fill(ledger)


def _ruin_page(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\xa5" * PAGE_BYTES)


def test_whichever_page_is_ruined_the_rest_is_carried_over(
    sound: tuple[Path, str, list[Run]], tmp_path: Path, open_journaled: OpenJournaled
) -> None:
    """One page takes little with it: most pages nothing of what keeps the promises (P1, P2, P5)."""
    original, identity, open_runs = sound
    pages = original.stat().st_size // PAGE_BYTES
    whole = 0
    for page in range(1, pages + 1):
        path = tmp_path / str(page) / "ledger.db"
        path.parent.mkdir()
        shutil.copyfile(original, path)
        _ruin_page(path, page)
        before = path.read_bytes()
        with closing(open_journaled(path)) as ledger:
            (trouble,) = ledger.troubles
            (aside,) = path.parent.glob("ledger.db.damaged-*[0-9Z]")
            assert str(aside) in trouble
            assert aside.read_bytes() == before
            # What was read is as it was; nothing is made up.
            assert ledger.cursors().items() <= CURSORS.items()
            assert {run.id for run in ledger.open_runs()} <= {run.id for run in open_runs}
            is_whole = (
                ledger.identity == identity
                and ledger.open_runs() == open_runs
                and ledger.cursors() == CURSORS
                and enter(ledger, claim("new", NOW)) == [305]
            )
            whole += is_whole
    assert whole > pages * 0.6


def test_an_index_gone_loses_nothing(
    sound: tuple[Path, str, list[Run]], open_journaled: OpenJournaled
) -> None:
    """Open runs are found in the table where their index cannot be read (P1)."""
    path, identity, open_runs = sound
    with closing(sqlite3.connect(path)) as probe:
        rows = probe.execute("SELECT rootpage FROM sqlite_schema WHERE type = 'index' AND rootpage")
        roots = [row[0] for row in rows]
    for root in roots:
        _ruin_page(path, root)
    ledger = open_journaled(path)
    assert (ledger.identity, ledger.open_runs(), ledger.cursors()) == (identity, open_runs, CURSORS)


def test_a_row_that_makes_no_sense_is_left_behind_alone(
    sound: tuple[Path, str, list[Run]],
) -> None:
    """One senseless row costs that row."""
    path, identity, open_runs = sound
    with closing(sqlite3.connect(path, isolation_level=None)) as hand:
        hand.execute("UPDATE runs SET cause = 'boredom' WHERE id = 302")
        hand.execute("UPDATE cursors SET baseline = 1 << 62 WHERE job = 'job-7'")
        hand.execute("UPDATE attempts SET outcome = 'fine' WHERE run_id = 303")
    remains = salvage(path)
    assert remains.identity == identity
    assert set(CURSORS) - set(remains.cursors) == {"job-7"}
    assert [run.id for run in remains.open_runs] == [301, 303, 304]
    by_id = {run.id: run for run in remains.open_runs}
    assert by_id[301] == open_runs[0]
    assert by_id[303].attempts == ()


# --- nothing can be read --------------------------------------------------------------------------


def _overwrite(path: Path) -> None:
    path.write_bytes(b"this is no database" * 1000)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def test_the_spare_copy_of_an_end_is_as_good(path: Path, open_journaled: OpenJournaled) -> None:
    """After a daemon that ended as it should nothing is lost but the history (P1, P2, P5)."""
    ledger = open_journaled(path)
    open_runs, identity = _fill(ledger), ledger.identity
    ledger.close()
    _overwrite(path)
    again = open_journaled(path)
    assert (again.identity, again.open_runs(), again.cursors()) == (identity, open_runs, CURSORS)
    assert enter(again, claim("new", NOW)) == [305]
    assert len(again.troubles) == 1


@pytest.mark.parametrize("is_marked", [False, True])
def test_the_spare_copy_of_a_start_says_what_was_known(
    path: Path, tmp_path: Path, open_journaled: OpenJournaled, is_marked: bool
) -> None:
    """After a kill its cursors count from now: what is past is not run a second time (P2).

    With the mark beside it they are as they were, since that says up to when there is a gap, and
    the runs keep their identity and numbers.
    """
    ledger = open_journaled(path)
    _fill(ledger)
    ledger.close()
    ledger = open_journaled(path)
    enter(ledger, claim("later", at(1000)))
    killed = tmp_path / "killed"
    killed.mkdir()
    for file in path.parent.glob("ledger.*"):
        shutil.copyfile(file, killed / file.name)
    _overwrite(killed / path.name)
    if not is_marked:
        mark_file(killed / path.name).unlink()
    again = open_journaled(killed / path.name)
    assert (again.identity == ledger.identity) is is_marked
    assert again.gap == (Gap(NOW, 305, "boot") if is_marked else None)
    assert enter(again, claim("new", NOW)) == [306 if is_marked else 1]
    assert [run.job for run in again.open_runs()] == ["new"]
    assert set(again.cursors()) == set(CURSORS)
    for job, cursor in again.cursors().items():
        old = CURSORS[job]
        since = (old.baseline, old.accounted_until) if is_marked else (NOW, NOW)
        assert (cursor.baseline, cursor.accounted_until) == since
        assert (cursor.fingerprint, cursor.era, cursor.anchor, cursor.boot_id) == (
            old.fingerprint,
            old.era,
            old.anchor,
            old.boot_id,
        )


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"format": 1}', b"\xff\x00"])
def test_a_spare_copy_that_is_none(
    path: Path, open_journaled: OpenJournaled, content: bytes
) -> None:
    """Where the copy makes no sense either, the ledger begins empty (P8)."""
    _overwrite(path)
    spare_file(path).write_bytes(content)
    ledger = open_journaled(path)
    assert (ledger.cursors(), ledger.open_runs()) == ({}, [])
    enter(ledger, claim("a"))


def test_a_spare_copy_that_cannot_be_made_is_gone(
    path: Path, open_journaled: OpenJournaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rather none than one that is taken for the latest and is not (P2)."""
    open_journaled(path).close()
    spare = read_spare(path, NOW)
    assert spare is not None

    def fail(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", fail)
        ledger = open_journaled(path)
        assert read_spare(path, NOW) is None
    enter(ledger, claim("a"))


def test_the_journal_knows_whose_it_is(path: Path, open_journaled: OpenJournaled) -> None:
    """With the ledger gone whole, the journal's runs keep their identity and numbers (P1, P2)."""
    ledger = open_journaled(path)
    enter(ledger, claim("before"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        (run_id,) = enter(ledger, attempted("meanwhile"))
        open_run = ledger.run(run_id)
        ledger.close()
    _overwrite(path)
    again = open_journaled(path)
    assert again.identity == ledger.identity
    assert again.open_runs() == [open_run]
    assert enter(again, claim("new")) == [run_id + 1]
    assert journal_file(path).exists()


def test_a_journal_that_has_no_new_run_gives_no_number_again(
    path: Path, open_journaled: OpenJournaled
) -> None:
    """Where nobody knows the last number runs get another identity: no PYCRON_RUN_ID repeats (P2).

    The journal has but the end of an older run, from which the newest number cannot be told.
    """
    ledger = open_journaled(path)
    ids = enter(ledger, *[attempted("a", at(number)) for number in range(5)])
    known = {(ledger.identity, run_id) for run_id in ids}
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        ledger.write([finish(ids[2], at(9))], durable=True)
        ledger.close()
    _overwrite(path)
    again = open_journaled(path)
    new = enter(again, *[attempted("a", at(number)) for number in range(100, 105)])
    assert not known & {(again.identity, run_id) for run_id in new}
    assert [run.id for run in again.open_runs()] == new


# --- a crash in between ---------------------------------------------------------------------------


class Kill(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("step", ["set_aside", "_put_in_place"])
@pytest.mark.parametrize("is_after", [False, True])
def test_killed_while_another_is_begun(
    path: Path,
    open_journaled: OpenJournaled,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    is_after: bool,
) -> None:
    """A crash at any step leaves the old ledger or the new, and the next daemon goes on (P1)."""
    ledger = open_journaled(path)
    open_runs, identity = _fill(ledger), ledger.identity
    ledger.close()
    spare_file(path).unlink()
    _ruin_page(path, 6)
    real = getattr(salvage_module, step)

    def kill(*arguments: object) -> object:
        if is_after:
            real(*arguments)
        raise Kill

    with monkeypatch.context() as patch:
        patch.setattr(salvage_module, step, kill)
        # What a killed process would have removed stays.
        patch.setattr(salvage_module, "_discard", lambda _new: None)
        with pytest.raises(Kill):
            open_journaled(path)
    again = open_journaled(path)
    assert (again.identity, again.open_runs(), again.cursors()) == (identity, open_runs, CURSORS)
    assert not path.with_name(f"{path.name}.new").exists()


def test_one_that_cannot_be_begun_leaves_all_as_it_was(
    sound: tuple[Path, str, list[Run]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without room for another ledger the damaged one stays in its place (P8)."""
    path, _, _ = sound
    before = path.read_bytes()

    def fail(*_arguments: object, **_options: object) -> None:
        raise LedgerError("disk full")

    monkeypatch.setattr(SqliteLedger, "write_each", fail)
    with pytest.raises(LedgerError, match="disk full"):
        begin_in_place(path, Remains("", CURSORS, [], 0, 0), NOW)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert path.read_bytes() == before
