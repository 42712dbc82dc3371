"""Damaged ledgers: told from others, never changed, set aside in whole."""

from __future__ import annotations

import random
import shutil
import sqlite3
from pathlib import Path

import pytest

from crond_py.errors import LedgerCorruptError, LedgerError
from crond_py.ledger import sqlite as sqlite_module
from crond_py.ledger.sqlite import SqliteLedger, open_reader, set_aside
from crond_py.model import Attempt, Outcome
from crond_py.ports import Ledger, LedgerReader, RunQuery, SetAttempt
from tests.support.ledgers import T0, at, attempted, claim, enter, finish
from tests.unit.ledger.conftest import Open, OpenReader

EVERYTHING = RunQuery(limit=None)
PAGE_BYTES = 4096


@pytest.fixture(scope="session")  # tests of other files come between those of this one
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a ledger with some hundred runs, at rest."""
    path = tmp_path_factory.mktemp("sound") / "ledger.db"
    ledger = SqliteLedger.open(path, now=T0)
    for number in range(20):
        ids = enter(ledger, *[attempted(f"job-{job}", at(number)) for job in range(30)])
        ledger.write([finish(run_id, at(number)) for run_id in ids[5:]], durable=False)
    ledger.close()
    return path


def _ask_everything(reader: LedgerReader) -> None:
    reader.run(1)
    reader.runs(EVERYTHING)
    reader.runs(RunQuery(job="job-1"))
    reader.runs(RunQuery(outcomes=frozenset({Outcome.FAILED})))
    reader.open_runs()
    reader.last_runs()
    reader.cursors()


def _write_everything(ledger: Ledger) -> None:
    for number in range(50, 60):
        ids = enter(ledger, *[attempted(f"job-{job}", at(number)) for job in range(30)])
        ledger.write([finish(run_id, at(number)) for run_id in ids], durable=True)
        ledger.write([SetAttempt(run_id, Attempt(2, T0)) for run_id in ids], durable=True)
    ledger.prune("job-1", keep_runs=0, older_than=None, limit=99)


def _random_bytes(path: Path) -> None:
    path.write_bytes(random.Random(1).randbytes(50_000))


def _text(path: Path) -> None:
    path.write_text("not a database, but long enough to be looked at\n" * 100)


def _few_bytes(path: Path) -> None:
    path.write_bytes(b"SQLite format 3\0")


def _half(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2)


def _odd_half(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size // 2 + 77)


def _first_page_only(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(PAGE_BYTES)


def _no_header(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(100))


@pytest.mark.parametrize(
    "damage", [_random_bytes, _text, _few_bytes, _half, _odd_half, _first_page_only, _no_header]
)
def test_damage_is_seen_and_left_alone(sound: Path, path: Path, damage: object) -> None:
    """A file that is no whole ledger is refused with its name and the way out; it stays (P8)."""
    shutil.copyfile(sound, path)
    damage(path)  # type: ignore[operator]
    before = path.read_bytes()
    with pytest.raises(LedgerCorruptError, match=r"ledger\.db is damaged: .*; start pycron") as e:
        SqliteLedger.open(path, now=T0)
    assert not e.value.is_newer
    with pytest.raises(LedgerCorruptError):
        open_reader(path)
    assert path.read_bytes() == before


def _ruin_page(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\xa5" * PAGE_BYTES)


def test_damaged_page_is_found_at_the_start(sound: Path, path: Path) -> None:
    """Whichever page of a small ledger is ruined, opening it tells (P8)."""
    pages = sound.stat().st_size // PAGE_BYTES
    assert pages > 20
    for page in range(1, pages + 1):
        shutil.copyfile(sound, path)
        _ruin_page(path, page)
        with pytest.raises(LedgerCorruptError):
            SqliteLedger.open(path, now=T0)


def test_damaged_page_is_a_ledger_error(
    sound: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a ledger too large to be looked through, each use ends well or in a LedgerError (P8)."""
    monkeypatch.setattr(sqlite_module, "_CHECKED_BYTES", 0)
    pages = sound.stat().st_size // PAGE_BYTES
    told = 0
    for page in range(1, pages + 1):
        shutil.copyfile(sound, path)
        _ruin_page(path, page)
        told += _try_all(path)
    assert told > pages // 2


def _try_all(path: Path) -> bool:
    """Ask and write all there is; return whether that told of damage."""
    told = False
    try:
        ledger = SqliteLedger.open(path, now=T0)
    except LedgerCorruptError:
        return True
    for work in (_ask_everything, _write_everything):
        try:
            work(ledger)
        except LedgerError as error:
            told = told or isinstance(error, LedgerCorruptError)
    ledger.close()
    return told


def test_damage_leaves_the_rest_usable(
    sound: Path, path: Path, open_ledger: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What met damage is undone, and the connection goes on with what is whole (P8)."""
    monkeypatch.setattr(sqlite_module, "_CHECKED_BYTES", 0)
    shutil.copyfile(sound, path)
    probe = sqlite3.connect(path)
    (root,) = probe.execute(
        "SELECT rootpage FROM sqlite_schema WHERE name = 'runs_not_succeeded'"
    ).fetchone()
    probe.close()
    _ruin_page(path, root)
    ledger = open_ledger(path)
    for turn in range(2):
        with pytest.raises(LedgerCorruptError):
            ledger.runs(RunQuery(outcomes=frozenset({Outcome.FAILED})))
        (run_id,) = enter(ledger, claim("new", at(99 + turn)))
        with pytest.raises(LedgerCorruptError):
            ledger.write(
                [claim("undone", at(99)), finish(run_id, at(99), Outcome.FAILED)], durable=True
            )
        ledger.write([finish(run_id, at(99))], durable=True)
    assert [run.job for run in ledger.runs(RunQuery(limit=3))] == ["new", "new", "job-29"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE runs SET state = 'resting' WHERE outcome IS NULL",
        "UPDATE runs SET cause = 'boredom'",
        "UPDATE runs SET outcome = 'fine' WHERE outcome IS NOT NULL",
        "UPDATE runs SET due = 1 << 62 WHERE id = 7",
        "UPDATE runs SET reason = 5",
        "UPDATE attempts SET outcome = 'fine'",
        "UPDATE runs SET job = CAST(x'ff' AS TEXT) WHERE id = 7",
    ],
)
def test_nonsense_in_a_row_is_damage(
    sound: Path, path: Path, look: OpenReader, statement: str
) -> None:
    """A row that somebody has made senseless by hand is told as damage, not as a traceback."""
    shutil.copyfile(sound, path)
    hand = sqlite3.connect(path)
    hand.execute(statement)
    hand.commit()
    hand.close()
    reader = look(path)
    with pytest.raises(LedgerCorruptError, match="is damaged"):
        reader.runs(EVERYTHING)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("baseline", 1 << 62),
        ("past", "nonsense"),
        ("past", "[1]"),
        ("past", '{"times": [[0, 0, 0]]}'),
        ("past", '{"times": [[0]], "boot": "", "lead": 0}'),
        ("past", '{"times": [[0, 0, 1e99]], "boot": "", "lead": 0}'),
        ("absences", "nonsense"),
        ("absences", "[1]"),
        ("absences", "1"),
        ("absences", '[["wall", 0, 1]]'),
        ("absences", '[["never", 0, 1, "", "lost"]]'),
        ("absences", '[["wall", 0, 1e99, "", "lost"]]'),
        ("later_barriers", "nonsense"),
        ("later_barriers", "1"),
        ("later_barriers", "[[2]]"),
        ("later_barriers", "[[2, 1e99]]"),
    ],
)
def test_nonsense_in_a_cursor_is_damage(
    path: Path, open_ledger: Open, column: str, value: int | str
) -> None:
    """The same for a cursor."""
    open_ledger(path).close()
    hand = sqlite3.connect(path)
    row = ("a", "f", 0, 0, 0, None, 0, 1, "", None, None, None)
    hand.execute("INSERT INTO cursors VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
    hand.commit()
    open_ledger(path).close()
    hand.execute(f"UPDATE cursors SET {column} = ?", (value,))
    hand.commit()
    hand.close()
    with pytest.raises(LedgerCorruptError, match="a cursor makes no sense"):
        open_ledger(path)


# --- setting aside ------------------------------------------------------------------------------


def test_damaged_ledger_is_set_aside_whole(path: Path, open_ledger: Open) -> None:
    """A damaged ledger is kept under another name with its log, and a new one is begun (P8)."""
    contents = {suffix: suffix.encode() * 9 + b"damaged" for suffix in ("", "-wal", "-shm")}
    for suffix, content in contents.items():
        Path(f"{path}{suffix}").write_bytes(content)
    aside = set_aside(path, T0)
    assert aside == path.with_name("ledger.db.damaged-20260329T010000Z")
    for suffix, content in contents.items():
        assert Path(f"{aside}{suffix}").read_bytes() == content
    assert not path.exists()
    enter(open_ledger(path), claim())


def test_set_aside_spares_earlier_ones(path: Path) -> None:
    """What was set aside before is not overwritten, also within one second (P8)."""
    kept = []
    for number in range(3):
        path.write_bytes(b"%d" % number)
        kept.append(set_aside(path, T0))
    assert [file.read_bytes() for file in kept] == [b"0", b"1", b"2"]


def test_set_aside_without_a_ledger(path: Path) -> None:
    """Where there is nothing to set aside, that is a LedgerError."""
    with pytest.raises(LedgerError, match="cannot be moved"):
        set_aside(path, T0)
