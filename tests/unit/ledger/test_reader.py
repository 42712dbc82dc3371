"""Reading a ledger from outside: in every state of its files, without leaving a trace."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from crond_py.errors import LedgerError
from crond_py.ledger import reader as reader_module
from crond_py.ledger.sqlite import SqliteLedger, open_reader
from crond_py.ledger.steps import to_step
from crond_py.ports import RunQuery
from tests.support.ledgers import T0, at, attempted, claim, enter
from tests.unit.ledger.conftest import Open, OpenReader, StartProgram

EVERYTHING = RunQuery(limit=None)
NOBODY = 65534
ANOTHERS = "ledger.db cannot be opened: it is another user's; you may not read it$"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")


def _traces(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return all that could tell that somebody was here: names, contents, times of change.

    The index (-shm) is where readers note what they read, so its content may change.
    """
    return {
        file.name: (b"", 0)
        if file.name.endswith("-shm")
        else (file.read_bytes(), file.stat().st_mtime_ns)
        for file in folder.iterdir()
    }


def _killed(path: Path, to: Path) -> Path:
    """Copy the files of a ledger at work: what a kill -9 leaves."""
    to.mkdir()
    for suffix in ("", "-wal", "-shm"):
        shutil.copyfile(f"{path}{suffix}", to / f"ledger.db{suffix}")
    return to / "ledger.db"


# --- every state of the files -------------------------------------------------------------------


def test_reads_while_a_daemon_writes(path: Path, open_ledger: Open, look: OpenReader) -> None:
    """A reader sees what has been written, from one question to the next, and hinders nobody."""
    ledger = open_ledger(path)
    reader = look(path)
    for number in range(3):
        enter(ledger, attempted("a", at(number)))
        assert len(reader.runs(EVERYTHING)) == number + 1
    assert reader.last_runs() == ledger.last_runs()


def test_sees_nothing_unfinished(path: Path, open_ledger: Open, look: OpenReader) -> None:
    """A write that is under way does not show."""
    ledger = open_ledger(path)
    reader = look(path)
    with ledger._transaction(is_synchronous=True):
        ledger._take(to_step(claim()))
        assert reader.runs(EVERYTHING) == []
    assert len(reader.runs(EVERYTHING)) == 1


def test_reads_after_a_kill(path: Path, start_program: StartProgram, look: OpenReader) -> None:
    """After kill -9 all that was written can be read, before any daemon has cleaned up (P8)."""
    child = start_program("ledger_write.py", path, 0, 1_000_000)
    assert child.stdout is not None
    told = child.stdout.readline()
    child.kill()
    child.wait()
    assert told == "0\n"
    before = _traces(path.parent)
    assert len(look(path).open_runs()) >= 20
    assert _traces(path.parent) == before


def test_reads_at_rest_and_leaves_no_trace(path: Path, open_ledger: Open, look: OpenReader) -> None:
    """Where no daemon runs a reader makes no file and changes none."""
    ledger = open_ledger(path)
    enter(ledger, attempted("a"))
    whole = ledger.runs(EVERYTHING)
    ledger.close()
    before = _traces(path.parent)
    assert set(before) == {"ledger.db"}
    reader = look(path)
    assert (reader.runs(EVERYTHING), reader.identity) == (whole, ledger.identity)
    reader.close()
    assert _traces(path.parent) == before


def test_reads_a_copy_without_index(
    path: Path, tmp_path: Path, open_ledger: Open, look: OpenReader
) -> None:
    """A backup that has the log but not its index is read whole, and no trace is left."""
    ledger = open_ledger(path)
    enter(ledger, attempted("a"))
    copy = _killed(path, tmp_path / "copy")
    Path(f"{copy}-shm").unlink()
    before = _traces(copy.parent)
    reader = look(copy)
    assert reader.runs(EVERYTHING) == ledger.runs(EVERYTHING)
    kept = Path(reader._copy.name) if reader._copy else None
    reader.close()
    assert _traces(copy.parent) == before
    assert kept is not None
    assert not kept.exists()


def test_daemon_starts_under_a_reader(path: Path, open_ledger: Open, look: OpenReader) -> None:
    """A reader of a ledger at rest notices a daemon that begins to write."""
    open_ledger(path).close()
    reader = look(path)
    assert reader.runs(EVERYTHING) == []
    ledger = open_ledger(path)
    enter(ledger, claim("a"))
    assert len(reader.runs(EVERYTHING)) == 1
    ledger.close()
    enter(open_ledger(path), claim("b"))
    assert len(reader.runs(EVERYTHING)) == 2


def test_daemon_starts_during_a_question(
    path: Path, open_ledger: Open, look: OpenReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read without locks while a daemon began to write is read again."""
    open_ledger(path).close()
    reader = look(path)
    original = reader_module._look
    looks = []

    def look_late(path: Path) -> object:
        if not looks:  # the first look after the rows were read
            enter(open_ledger(path), claim("a"))
        looks.append(original(path))
        return looks[-1]

    monkeypatch.setattr(reader_module, "_look", look_late)
    assert [run.job for run in reader.runs(EVERYTHING)] == ["a"]


def test_many_readers(path: Path, open_ledger: Open, look: OpenReader) -> None:
    """Readers do not hinder each other."""
    ledger = open_ledger(path)
    readers = [look(path) for _ in range(5)]
    enter(ledger, claim())
    assert [len(reader.runs(EVERYTHING)) for reader in readers] == [1] * 5


def test_reader_outlives_the_daemon(path: Path, open_ledger: Open, look: OpenReader) -> None:
    """A reader goes on when the daemon ends, and so does the next daemon."""
    ledger = open_ledger(path)
    enter(ledger, claim("a"))
    reader = look(path)
    ledger.close()
    assert len(reader.runs(EVERYTHING)) == 1
    again = open_ledger(path)
    enter(again, claim("b"))
    reader.close()
    assert len(again.runs(EVERYTHING)) == 2


# --- where there is nothing to read ---------------------------------------------------------------


def test_missing_ledger_is_named_and_not_made(tmp_path: Path, path: Path) -> None:
    """Reading a ledger that is not there is an error that says so; none is made."""
    with pytest.raises(LedgerError, match=r"ledger\.db cannot be opened: there is no such file"):
        open_reader(path)
    with pytest.raises(LedgerError, match=r"nowhere/ledger\.db cannot be opened: there is no such"):
        open_reader(tmp_path / "nowhere" / "ledger.db")
    assert list(tmp_path.iterdir()) == []


def test_directory_instead_of_a_ledger(path: Path) -> None:
    """A directory in the ledger's place is an error that says so."""
    path.mkdir()
    with pytest.raises(LedgerError, match="is not a file"):
        open_reader(path)


def test_empty_file_has_nothing_yet(path: Path) -> None:
    """A ledger that a daemon is just about to begin is an error that says so."""
    path.touch()
    with pytest.raises(LedgerError, match="has nothing in it yet"):
        open_reader(path)
    assert path.read_bytes() == b""


# --- somebody else ------------------------------------------------------------------------------


@contextmanager
def _somebody_else() -> Iterator[None]:
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def public(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Give a directory that everybody may look into; pytest's own are private."""
    with tempfile.TemporaryDirectory(prefix="pycron-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


def _open_to_all(folder: Path) -> None:
    for file in folder.iterdir():
        file.chmod(0o644)


def _at_work(path: Path) -> None:
    """Leave the files as they are."""


def _at_rest(path: Path) -> None:
    """Close the ledger properly."""
    SqliteLedger.open(path, now=T0).close()


def _without_index(path: Path) -> None:
    Path(f"{path}-shm").unlink()


@needs_root
@pytest.mark.parametrize("state", [_at_work, _at_rest, _without_index])
def test_reads_without_the_right_to_write(
    path: Path, public: Path, open_ledger: Open, state: Callable[[Path], None]
) -> None:
    """Who may read the files reads the ledger, though he may write nothing there (P9)."""
    ledger = open_ledger(path)
    enter(ledger, attempted("a"))
    copy = _killed(path, public / "state")
    state(copy)
    _open_to_all(copy.parent)
    with _somebody_else():
        reader = open_reader(copy)
        runs = reader.runs(EVERYTHING)
        reader.close()
    assert runs == ledger.runs(EVERYTHING)


@needs_root
def test_reads_a_living_ledger_of_another(public: Path, open_ledger: Open) -> None:
    """Also with a daemon at work one who may only read sees what is written."""
    path = public / "ledger.db"
    ledger = open_ledger(path)
    enter(ledger, claim("a"))
    _open_to_all(public)
    with _somebody_else():
        reader = open_reader(path)
    enter(ledger, claim("b"))
    with _somebody_else():
        assert len(reader.runs(EVERYTHING)) == 2
        reader.close()


@needs_root
def test_private_ledger_is_refused(public: Path, open_ledger: Open) -> None:
    """Who may not read the ledger is told that it is another's (P9)."""
    ledger = open_ledger(public / "ledger.db")
    enter(ledger, claim())
    with _somebody_else(), pytest.raises(LedgerError, match=ANOTHERS):
        open_reader(public / "ledger.db")
    ledger.close()
    with _somebody_else(), pytest.raises(LedgerError, match=ANOTHERS):
        open_reader(public / "ledger.db")


@needs_root
def test_private_directory_is_refused(public: Path, open_ledger: Open) -> None:
    """Who may not enter the state directory is told whose it is, not that there is none (P9)."""
    state = public / "state"
    state.mkdir(mode=0o700)
    open_ledger(state / "ledger.db")
    with _somebody_else(), pytest.raises(LedgerError, match=ANOTHERS):
        open_reader(state / "ledger.db")


@needs_root
@pytest.mark.parametrize("mode", [0o444, 0o000])
def test_daemon_without_the_right_to_write(public: Path, open_ledger: Open, mode: int) -> None:
    """A daemon that may not write the ledger is told when it starts, not when a job is due."""
    path = public / "ledger.db"
    open_ledger(path).close()
    path.chmod(mode)
    with _somebody_else(), pytest.raises(LedgerError, match=r"no permission|may not read"):
        SqliteLedger.open(path, now=T0)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@needs_root
def test_daemon_without_the_right_to_make_it(public: Path) -> None:
    """A daemon that may not make the ledger is told why."""
    with _somebody_else(), pytest.raises(LedgerError, match="cannot be made: Permission denied"):
        SqliteLedger.open(public / "ledger.db", now=T0)
    assert list(public.iterdir()) == []
