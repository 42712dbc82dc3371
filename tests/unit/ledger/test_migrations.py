"""How a ledger's tables are begun and renewed, and what is refused."""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from crond_py.engine.agenda import WAS_FORGOTTEN
from crond_py.engine.attendance import TASKS
from crond_py.errors import LedgerCorruptError, LedgerError
from crond_py.ledger import reader as reader_module
from crond_py.ledger.database import Migration, connect, load_migrations, migrate, schema_version
from crond_py.ledger.opening import open_ledger as open_ledger_of_daemon
from crond_py.ledger.sqlite import SqliteLedger, open_reader
from crond_py.model import Absence, Attempt, Left, Outcome, Scale
from crond_py.ports import RunQuery
from tests.support.clock import FakeClock
from tests.support.ledgers import T0, attempted, claim, enter
from tests.unit.ledger.conftest import Open

EVERYTHING = RunQuery(limit=None)
STEPS = load_migrations()
NEXT = Migration(STEPS[-1].number + 1, "ALTER TABLE runs ADD COLUMN note TEXT;\n")


def _migrate(path: Path, *steps: Migration) -> None:
    connection = connect(path, "mode=rw", timedelta(seconds=1))
    try:
        migrate(connection, path, steps)
    finally:
        connection.close()


def _version(path: Path) -> int:
    connection = sqlite3.connect(path)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    connection.close()
    return int(version)


def _set(path: Path, pragma: str) -> None:
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA {pragma}")
    connection.close()


def test_steps_are_numbered() -> None:
    """The steps of the schema are numbered from 1, without a gap, and done in that order."""
    assert [step.number for step in STEPS] == list(range(1, len(STEPS) + 1))


def test_new_ledger_has_the_newest_tables(path: Path, open_ledger: Open) -> None:
    """A new ledger is of the newest version and marked as pycron's."""
    open_ledger(path).close()
    assert _version(path) == STEPS[-1].number
    assert path.read_bytes()[68:72] == b"pycr"  # application id: sqlite.org/fileformat.html


def test_empty_file_becomes_a_ledger(path: Path, open_ledger: Open) -> None:
    """A file that a crash left empty is begun again."""
    path.touch()
    enter(open_ledger(path), claim())


@pytest.mark.parametrize("upto", range(1, len(STEPS) + 1))
def test_older_ledger_is_renewed(path: Path, open_ledger: Open, upto: int) -> None:
    """A ledger of each earlier version is brought up to date when it is opened."""
    path.touch()
    _migrate(path, *STEPS[:upto])
    assert _version(path) == STEPS[upto - 1].number
    enter(open_ledger(path), claim())
    assert _version(path) == STEPS[-1].number


def test_attempts_of_the_first_version_were_not_being_ended(path: Path, open_ledger: Open) -> None:
    """An attempt that the first pycron wrote is there after the renewal, ended by nobody (P1)."""
    path.touch()
    _migrate(path, *STEPS[:1])
    old = sqlite3.connect(path)
    old.execute("INSERT INTO meta VALUES (1, 'abcdef01', 0)")
    old.execute(
        "INSERT INTO runs VALUES "
        "(7, 'a', 0, 0, 'schedule', 'running', 0, NULL, '', NULL, 1, NULL, NULL)"
    )
    old.execute(
        "INSERT INTO attempts VALUES "
        "(7, 1, 0, 99, 5, 'boot', 0, NULL, 0, NULL, NULL, NULL, NULL, NULL, '', '/out/7')"
    )
    old.commit()
    old.close()
    (run,) = open_ledger(path).open_runs()
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    assert run.attempts == (
        Attempt(1, epoch, 99, 5, "boot", started_at=epoch, output="/out/7", user=None),
    )


def test_what_an_older_pycron_has_left_is_told_by_its_words(path: Path, open_ledger: Open) -> None:
    """P1, P3: what a stop left or recalled before an upgrade is so after it, no other is."""
    path.touch()
    _migrate(path, *STEPS[:8])
    with closing(sqlite3.connect(path)) as old:
        old.execute("INSERT INTO meta (only_row, identity, created_at) VALUES (1, 'abcdef01', 0)")
        rows = [
            (1, "running", None, "left running when pycron was stopped"),
            (2, "running", None, ""),
            (3, "queued", None, "pycron was stopped before it was started"),
            (4, "queued", None, ""),
            (5, "queued", None, ""),
            (6, "done", "cancelled", "left running when pycron was stopped"),
        ]
        for run_id, state, outcome, reason in rows:
            old.execute(
                "INSERT INTO runs (id, job, era, due, cause, state, claimed_at, outcome, reason,"
                " count) VALUES (?, 'a', 0, ?, 'schedule', ?, 0, ?, ?, 1)",
                (run_id, run_id, state, outcome, reason),
            )
        attempts = [(1, 1, None), (2, 1, None), (3, 1, "cancelled"), (5, 1, "lost")]
        for run_id, number, outcome in attempts:
            old.execute(
                "INSERT INTO attempts (run_id, number, begun_at, has_exit, outcome, reason, output)"
                " VALUES (?, ?, 0, 0, ?, '', '')",
                (run_id, number, outcome),
            )
        old.commit()
    left = {run.id: run.left_as for run in open_ledger(path).runs(EVERYTHING)}
    assert left == {1: Left.RUNNING, 2: None, 3: Left.RECALLED, 4: None, 5: None, 6: None}


def test_what_an_older_pycron_has_lost_of_tasks_is_an_absence(
    path: Path, open_ledger: Open
) -> None:
    """P2: a task that may have run before an upgrade is not run after it."""
    path.touch()
    _migrate(path, *STEPS[:9])
    with closing(sqlite3.connect(path)) as old:
        old.execute("INSERT INTO meta (only_row, identity, created_at) VALUES (1, 'abcdef01', 0)")
        for job in (TASKS, "a"):
            old.execute(
                "INSERT INTO cursors (job, fingerprint, era, baseline, accounted_until, anchor,"
                " barrier_from, barrier_until, boot_id) VALUES (?, 'f', 0, 0, 9, 3, 0, 7, '')",
                (job,),
            )
        old.commit()
    cursors = open_ledger(path).cursors()
    epoch, tick = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
    assert cursors[TASKS].absences == (
        Absence(Scale.WALL, epoch, epoch + 7 * tick, WAS_FORGOTTEN, Outcome.LOST),
        Absence(Scale.STEADY, epoch - 3 * tick, epoch + 4 * tick, WAS_FORGOTTEN, Outcome.LOST),
    )
    assert cursors[TASKS].barriers == ()
    assert (cursors["a"].absences, cursors["a"].barriers) == ((), ((epoch, epoch + 7 * tick),))


def test_renewing_keeps_what_is_there(path: Path, open_ledger: Open) -> None:
    """A further step leaves every run as it was (P1)."""
    ledger = open_ledger(path)
    enter(ledger, attempted("a"), claim("b"))
    before = ledger.runs(EVERYTHING)
    ledger.close()
    _migrate(path, *STEPS, NEXT)
    assert _version(path) == NEXT.number
    _set(path, f"user_version = {STEPS[-1].number}")  # so that this pycron reads it once more
    assert open_ledger(path).runs(EVERYTHING) == before


@pytest.mark.parametrize(
    "script",
    [
        "CREATE TABLE extra (x);\nINSERT INTO nowhere VALUES (1);\n",
        "CREATE TABLE extra (x);\nnonsense;\n",
    ],
)
def test_failing_step_changes_nothing(path: Path, open_ledger: Open, script: str) -> None:
    """A step that cannot be taken is undone whole, and the ledger is as it was (P8)."""
    enter(open_ledger(path), claim())
    with pytest.raises(sqlite3.Error):
        _migrate(path, *STEPS, Migration(NEXT.number, script))
    assert _version(path) == STEPS[-1].number
    connection = sqlite3.connect(path)
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema")}
    connection.close()
    assert "extra" not in tables


def test_two_may_begin_it_at_once(path: Path) -> None:
    """Of several that open a new ledger at the same time each gets the same one."""
    barrier = threading.Barrier(4)
    identities: list[str] = []

    def begin() -> None:
        barrier.wait()
        ledger = SqliteLedger.open(path, busy_timeout=timedelta(seconds=30), now=T0)
        identities.append(ledger.identity)
        ledger.close()

    threads = [threading.Thread(target=begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(identities) == 4
    assert len(set(identities)) == 1


@pytest.mark.parametrize("after", [1, 2, 3])
def test_one_that_is_begun_while_it_is_looked_at(path: Path, open_ledger: Open, after: int) -> None:
    """Whoever looks at a ledger just as another begins it does not take it for a stranger's."""
    path.touch()
    with closing(sqlite3.connect(path)) as connection:
        looked = 0

        class Late:
            """The connection, but that another is quicker at one statement."""

            def execute(self, statement: str) -> sqlite3.Cursor:
                nonlocal looked
                found = connection.execute(statement)
                looked += 1
                if looked == after:
                    found = connection.execute(f"SELECT {found.fetchone()[0]}")
                    open_ledger(path).close()
                return found

        newest = STEPS[-1].number
        late: Any = Late()
        assert schema_version(late, path, newest) in {0, newest}


# --- refusals ---------------------------------------------------------------------------------


def test_newer_ledger_is_left_alone(path: Path, open_ledger: Open) -> None:
    """A ledger of a newer pycron is refused, to write and to read, and not changed (P8)."""
    open_ledger(path).close()
    _migrate(path, *STEPS, NEXT)
    before = path.read_bytes()
    for opened in (lambda: SqliteLedger.open(path, now=T0), lambda: open_reader(path)):
        with pytest.raises(LedgerCorruptError, match="written by a newer pycron") as caught:
            opened()
        assert caught.value.is_newer
        assert str(path) in str(caught.value)
    assert path.read_bytes() == before


def test_database_of_another_program_is_left_alone(path: Path) -> None:
    """Another program's database is refused and not changed, not even its journal mode (P8)."""
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    for opened in (
        lambda: SqliteLedger.open(path, now=T0),
        lambda: open_reader(path),
        lambda: open_ledger_of_daemon(path, FakeClock(T0)),
    ):
        with pytest.raises(LedgerCorruptError, match="database of another program") as caught:
            opened()
        assert not caught.value.is_newer
        assert caught.value.is_foreign
    assert path.read_bytes() == before
    assert not list(path.parent.glob("ledger.db.*"))


def test_a_ledger_that_lost_its_mark_is_damaged(path: Path, open_ledger: Open) -> None:
    """What has the tables of a ledger is one, though its header does not say so any more (P8)."""
    open_ledger(path).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA application_id = 0")
    with pytest.raises(LedgerCorruptError, match="is damaged") as caught:
        SqliteLedger.open(path, now=T0)
    assert not caught.value.is_foreign


def test_reader_cannot_renew(
    path: Path, open_ledger: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader says that a ledger is older than it can read, and how to renew it."""
    open_ledger(path).close()
    monkeypatch.setattr(reader_module, "load_migrations", lambda: (*STEPS, NEXT))
    with pytest.raises(LedgerError, match=r"by an older pycron .* start the daemon once"):
        open_reader(path)
