"""Tasks that are still needed are carried over from a ledger that is damaged or deleted."""

from __future__ import annotations

import inspect
import shutil
import sqlite3
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from crond_py.errors import LedgerCorruptError, LedgerError
from crond_py.ledger import aside as aside_module
from crond_py.ledger import journaled as journaled_module
from crond_py.ledger import salvage as salvage_module
from crond_py.ledger import sqlite as sqlite_module
from crond_py.ledger.journaled import JournaledLedger
from crond_py.ledger.known import Known, RecentMoves
from crond_py.ledger.mark import Mark, mark_file, read_mark
from crond_py.ledger.opening import open_ledger
from crond_py.ledger.spare import spare_file
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.model import TASK_PREFIX, Cursor, Lane, Scale, State, Task, task_job
from crond_py.ports import (
    Claim,
    Gap,
    Ledger,
    LedgerReader,
    RunQuery,
    SetCursor,
    SetTask,
    TaskQuery,
)
from tests.support.clock import FakeClock
from tests.support.ledgers import LANE, T0, at, attempted, claim, enter, finish, hand_in, new_task

NOW = at(5000)
PAGE_BYTES = 4096
ALL = TaskQuery(is_open=None, limit=None)
LANES = [LANE, Lane("batch", 7, "alice", Scale.STEADY), Lane("default", -1, "bob")]

OpenJournaled = Callable[[Path], JournaledLedger]


@pytest.fixture
def open_journaled(stack: ExitStack) -> OpenJournaled:
    """Open ledgers as a daemon does."""

    def open_(path: Path) -> JournaledLedger:
        ledger = open_ledger(path, FakeClock(NOW), boot_id="boot")
        stack.callback(ledger.close)
        return ledger

    return open_


def _fill(ledger: Ledger, number: int = 300) -> dict[int, Task]:
    """Hand in tasks of three lanes, end each tenth; return those that are needed.

    Of each thirtieth the last run has no outcome yet.
    """
    new = [new_task(at(n % 50), lane=LANES[n % 3], key=f"key-{n}") for n in range(number)]
    ids = hand_in(ledger, *new)
    ends = [SetTask(ids[n], at(n % 50), ended_at=at(60)) for n in range(0, number, 10)]
    cursor = SetCursor(Cursor("a", "f", 0, T0, T0))
    ledger.write([*ends, claim("a"), cursor, *_claims(ends[::3])], durable=True)
    return _needed(ledger)


def _claims(ends: Sequence[SetTask]) -> list[Claim]:
    """Return claims of the last occurrences of tasks; some run, some wait."""
    states = (State.QUEUED, State.WAITING_RETRY, State.RUNNING)
    return [
        claim(task_job(end.task_id), end.due, state=states[n % len(states)])
        for n, end in enumerate(ends)
    ]


def _needed(ledger: LedgerReader) -> dict[int, Task]:
    """Return the tasks that have not ended, and those of runs without an outcome."""
    found = ledger.tasks(TaskQuery(limit=None))
    runs = [run for run in ledger.open_runs() if run.job.startswith(TASK_PREFIX)]
    ended = [ledger.task(int(run.job.removeprefix(TASK_PREFIX))) for run in runs]
    return {task.id: task for task in [*found, *(task for task in ended if task is not None)]}


def _tasks(ledger: LedgerReader) -> dict[int, Task]:
    return {task.id: task for task in ledger.tasks(ALL)}


def _open(tasks: dict[int, Task]) -> dict[int, Task]:
    return {task.id: task for task in tasks.values() if task.ended_at is None}


def _check_lanes(ledger: LedgerReader) -> None:
    """Check that the lanes say what the tasks say."""
    for lane, stock in ledger.lanes().items():
        mine = ledger.tasks_due(lane, after=None, until=None, limit=10_000)
        assert (stock.open, stock.first_due) == (len(mine), mine[0].due)
    assert sum(stock.open for stock in ledger.lanes().values()) == len(
        ledger.tasks(TaskQuery(limit=None))
    )


def _ruin_page(path: Path, page: int) -> None:
    with path.open("r+b") as file:
        file.seek((page - 1) * PAGE_BYTES)
        file.write(b"\xa5" * PAGE_BYTES)


def _pages_of(path: Path, name: str) -> tuple[int, list[int]]:
    """Return the root of a table or index and the pages below it, in the order of their rows.

    See sqlite.org/fileformat2.html#b_tree_pages.
    """
    with closing(sqlite3.connect(path)) as probe:
        query = "SELECT coalesce((SELECT rootpage FROM sqlite_schema WHERE name = ?), 1)"
        (root,) = probe.execute(query, [name]).fetchone()
    content = path.read_bytes()
    page = content[(root - 1) * PAGE_BYTES : root * PAGE_BYTES]
    header = 100 if root == 1 else 0
    if page[header] not in {2, 5}:  # interior pages
        return root, []
    cells = int.from_bytes(page[header + 3 : header + 5], "big")
    places = [page[header + 12 + 2 * cell :][:2] for cell in range(cells)]
    offsets = [int.from_bytes(place, "big") for place in places]
    children = [*(page[offset : offset + 4] for offset in offsets), page[header + 8 : header + 12]]
    return root, [int.from_bytes(child, "big") for child in children]


# --- a damaged file -----------------------------------------------------------------------------


def test_whichever_page_is_ruined_most_tasks_are_carried_over(
    path: Path, tmp_path: Path, open_journaled: OpenJournaled
) -> None:
    """No page takes more than what is on it, nothing is made up, and no id comes again (P1, P8)."""
    with closing(open_journaled(path)) as ledger:
        expected = _fill(ledger)
    pages = path.stat().st_size // PAGE_BYTES
    root, leaves = _pages_of(path, "tasks")
    _, schema = _pages_of(path, "sqlite_schema")
    runs = len(expected) - len(_open(expected))
    whole = 0
    for page in range(1, pages + 1):
        copy = tmp_path / str(page) / path.name
        copy.parent.mkdir()
        shutil.copyfile(path, copy)
        shutil.copyfile(mark_file(path), mark_file(copy))
        _ruin_page(copy, page)
        with closing(open_journaled(copy)) as ledger:
            found = _tasks(ledger)
            assert found.items() <= expected.items()
            _check_lanes(ledger)
            jobs = {run.job for run in ledger.open_runs()} - {"a"}
            assert page in leaves or page == root or jobs <= {task.job for task in found.values()}
            assert hand_in(ledger, new_task()) == [301]
            whole += found == expected
            if page in leaves:
                assert len(found) > len(expected) * (1 - 2 / len(leaves))
            elif page not in {1, *schema, root}:
                assert len(jobs) in {0, runs}
                assert _open(found) == _open(expected)
    # Roots of tables, and what takes all open runs with it, which need no tasks then.
    assert whole >= pages - len(leaves) - len(schema) - 5


def test_damage_in_two_places_costs_no_more_than_these(
    path: Path, open_journaled: OpenJournaled
) -> None:
    """What lies between two unreadable pages is found, but for what is near both (P1)."""
    with closing(open_journaled(path)) as ledger:
        expected = _fill(ledger, 9000)
    _, leaves = _pages_of(path, "tasks")
    spare_file(path).unlink()
    _ruin_page(path, leaves[len(leaves) // 5])
    _ruin_page(path, leaves[len(leaves) * 4 // 5])
    ledger = open_journaled(path)
    found = _tasks(ledger)
    assert found.items() <= expected.items()
    lost = len(expected) - len(found)
    assert 0 < lost < 8 * len(expected) / len(leaves)
    _check_lanes(ledger)


def test_lanes_are_found_in_their_index(path: Path, open_journaled: OpenJournaled) -> None:
    """A lanes table that cannot be read loses no task: its index has the same (P1)."""
    with closing(open_journaled(path)) as ledger:
        expected = _fill(ledger)
    spare_file(path).unlink()
    root, _ = _pages_of(path, "lanes")
    _ruin_page(path, root)
    ledger = open_journaled(path)
    assert _tasks(ledger) == expected
    _check_lanes(ledger)


def test_a_task_that_makes_no_sense_is_left_behind_alone(
    path: Path, open_journaled: OpenJournaled
) -> None:
    """One senseless row costs that row."""
    with closing(open_journaled(path)) as ledger:
        expected = _fill(ledger)
    with closing(sqlite3.connect(path, isolation_level=None)) as hand:
        hand.execute("UPDATE tasks SET due = 1 << 62 WHERE id = 12")
        hand.execute("UPDATE tasks SET lane_id = 77 WHERE id = 13")
        hand.execute("UPDATE tasks SET ended_at = 1 << 62 WHERE id = 31")
    spare_file(path).unlink()
    root, _ = _pages_of(path, "last_attempted")
    _ruin_page(path, root)
    ledger = open_journaled(path)
    assert expected.items() - _tasks(ledger).items() == {
        (12, expected[12]),
        (13, expected[13]),
        (31, expected[31]),
    }
    _check_lanes(ledger)


def test_key_of_a_task_that_was_carried_over_is_its(
    path: Path, open_journaled: OpenJournaled
) -> None:
    """Handing in again after the damage makes no second task (P2)."""
    with closing(open_journaled(path)) as ledger:
        _fill(ledger)
    spare_file(path).unlink()
    root, _ = _pages_of(path, "runs")
    _ruin_page(path, root)
    ledger = open_journaled(path)
    (answer,) = ledger.submit([new_task(key="key-7")], NOW)
    assert (answer.task.id, answer.is_new) == (8, False)


# --- while a daemon is at work --------------------------------------------------------------------


def _damage(ledger: JournaledLedger, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Have the file found damaged at the next call of a method."""
    real = getattr(SqliteLedger, method)

    def fail(_file: SqliteLedger, *_arguments: object, **_options: object) -> None:
        monkeypatch.setattr(SqliteLedger, method, real)
        raise LedgerCorruptError("a page makes no sense")

    monkeypatch.setattr(SqliteLedger, method, fail)


@pytest.mark.parametrize("method", ["write", "submit", "prune_tasks"])
def test_damage_that_shows_later_costs_no_task(
    path: Path, open_journaled: OpenJournaled, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    """Whichever call meets it, the tasks go on in a fresh file, and ids go up (P1, P8)."""
    ledger = open_journaled(path)
    expected = _fill(ledger)
    _damage(ledger, monkeypatch, method)
    if method == "prune_tasks":
        with pytest.raises(LedgerCorruptError):
            ledger.prune_tasks(older_than=at(99), limit=9)
    if method == "write":
        ledger.write([claim("task:2"), SetTask(2, at(70))], durable=True)
        expected[2] = ledger.task(2)
        assert expected[2].due == at(70)
    assert hand_in(ledger, new_task(at(9))) == [301]
    expected[301] = ledger.task(301)
    assert _tasks(ledger) == expected
    _check_lanes(ledger)
    assert len(ledger.troubles) == 1
    ledger.close()
    assert _tasks(open_journaled(path)) == expected


QUESTIONS: dict[str, Callable[[LedgerReader], object]] = {
    "run": lambda ledger: ledger.run(777),
    "runs": lambda ledger: ledger.runs(RunQuery()),
    "open_runs": lambda ledger: ledger.open_runs(),
    "retries": lambda ledger: ledger.retries(),
    "cursors": lambda ledger: ledger.cursors(),
    "last_runs": lambda ledger: ledger.last_runs(),
    "task": lambda ledger: ledger.task(2),
    "tasks": lambda ledger: ledger.tasks(TaskQuery(limit=3)),
    "lanes": lambda ledger: ledger.lanes(),
    "tasks_due": lambda ledger: ledger.tasks_due(LANE, after=None, until=None, limit=9),
    "count_due": lambda ledger: ledger.count_due(LANE, after=None, until=None, limit=9),
}


FROM_MEMORY = {"open_runs", "retries", "cursors"}
"""What is not asked of the file while it takes nothing."""


def test_every_question_is_among_these() -> None:
    """A question that comes to the ledger later is tried with damage, too."""
    asked = {name for name, of in vars(LedgerReader).items() if inspect.isfunction(of)}
    assert {name for name in asked if not name.startswith("_")} - {"close"} == set(QUESTIONS)


@pytest.mark.parametrize(
    ("question", "in_trouble"),
    [
        *((question, False) for question in QUESTIONS),
        *((question, True) for question in QUESTIONS if question not in FROM_MEMORY),
    ],
)
def test_damage_that_a_question_meets_is_mended(
    path: Path,
    open_journaled: OpenJournaled,
    monkeypatch: pytest.MonkeyPatch,
    question: str,
    *,
    in_trouble: bool,
) -> None:
    """Nothing need be written for it: the answer is a fresh file's, which has all there is (P8)."""
    ledger = open_journaled(path)
    expected = _fill(ledger)
    with ExitStack() as stack:
        if in_trouble:
            other = stack.enter_context(closing(sqlite3.connect(path, isolation_level=None)))
            other.execute("BEGIN IMMEDIATE")
            ledger.write([SetTask(2, at(70))], durable=True)
            expected[2] = ledger.task(2)
        before = QUESTIONS[question](ledger)
        _damage(ledger, monkeypatch, question)
        assert QUESTIONS[question](ledger) == before
    assert ledger.settles_in is None
    assert len(ledger.troubles) == 1
    assert len(list(path.parent.glob("*.damaged-*Z"))) == 1
    assert _tasks(ledger) == expected
    _check_lanes(ledger)
    ledger.close()
    assert _tasks(open_journaled(path)) == expected


@pytest.mark.parametrize("when", ["before the start", "while it runs"])
def test_a_page_that_only_a_question_meets(
    path: Path, open_journaled: OpenJournaled, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """What a page of tasks has taken is told, and all the others go on (P1, P8)."""
    monkeypatch.setattr(sqlite_module, "_CHECKED_BYTES", 0)  # as if it were a large one
    ledger = open_journaled(path)
    expected = _fill(ledger)
    if when == "before the start":
        ledger.close()
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _, leaves = _pages_of(path, "tasks")
        _ruin_page(path, leaves[0])
        # Another program's change has a daemon read anew what it has in memory.
        other.execute("UPDATE meta SET created_at = created_at + 1")
    if when == "before the start":
        ledger = open_journaled(path)
    ledger.write([SetCursor(Cursor("a", "f", 0, T0, at(1)))], durable=True)
    assert list(ledger.troubles) == []
    assert ledger.tasks_due(LANE, after=None, until=None, limit=999)
    (trouble,) = ledger.troubles
    assert "what could not be read" in trouble
    assert "restart" not in trouble, "it has been done"
    found = _tasks(ledger)
    assert len(expected) * (1 - 2 / len(leaves)) < len(found) < len(expected)
    assert found.items() <= expected.items()
    _check_lanes(ledger)
    assert ledger.cursors()["a"].accounted_until == at(1)


def test_damage_that_cannot_be_mended_yet(
    path: Path, open_journaled: OpenJournaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another file is tried about once a second, not with each question, until there is one."""
    ledger = open_journaled(path)
    expected = _fill(ledger)
    tried: list[int] = []

    def fail(*_arguments: object, **_more: object) -> None:
        tried.append(len(tried))
        raise LedgerError("disk full")

    def ruined(*_arguments: object) -> None:
        raise LedgerCorruptError("a page makes no sense")

    with monkeypatch.context() as patch:
        patch.setattr(journaled_module, "begin_in_place", fail)
        patch.setattr(SqliteLedger, "task", ruined)
        for _ in range(5):
            with pytest.raises(LedgerCorruptError):
                ledger.task(2)
        assert (len(tried), ledger.settles_in) == (1, journaled_module.TRY_EVERY)
        enter(ledger, claim("b"))
        ledger.settle()
        assert len(tried) == 2
    ledger.settle()
    assert ledger.settles_in is None
    assert ledger.task(2) == expected[2]
    jobs = [run.job for run in ledger.open_runs()]
    assert [job for job in jobs if not job.startswith(TASK_PREFIX)] == ["a", "b"]


@pytest.mark.parametrize("is_replaced", [False, True])
def test_damage_in_a_file_that_is_elsewhere(
    path: Path, open_journaled: OpenJournaled, monkeypatch: pytest.MonkeyPatch, is_replaced: bool
) -> None:
    """Nobody else's file is set aside for it; where there is none, tasks are carried over (P8)."""
    ledger = open_journaled(path)
    expected = _fill(ledger)
    path.unlink()
    _damage(ledger, monkeypatch, "task")
    if is_replaced:
        path.write_bytes(b"somebody else's")
        with pytest.raises(LedgerCorruptError):
            ledger.task(2)
        ledger.settle()
        assert path.read_bytes() == b"somebody else's"
    else:
        assert ledger.task(2) == expected[2]
        assert _needed(ledger) == expected
        assert read_mark(path) is not None
        assert list(ledger.troubles) == []
    assert not list(path.parent.glob("*.damaged-*"))


def test_what_was_taken_up_is_not_taken_up_again(
    path: Path, open_journaled: OpenJournaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the file has lost that tasks have moved on, the daemon knows (P2)."""
    ledger = open_journaled(path)
    expected = _fill(ledger, 20)
    with closing(sqlite3.connect(path)) as hand:
        hand.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = path.read_bytes()
    (run_id,) = enter(ledger, attempted("task:2"))
    moves = [SetTask(2, at(1), ended_at=at(61)), SetTask(3, at(90))]
    ledger.write([*moves, finish(run_id, at(62))], durable=True)
    real = salvage_module.connect

    def connect(there: Path, *arguments: object) -> sqlite3.Connection:
        for suffix in ("-wal", "-shm"):
            Path(f"{there}{suffix}").unlink(missing_ok=True)
        there.write_bytes(before)
        return real(there, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(salvage_module, "connect", connect)
    _damage(ledger, monkeypatch, "write")
    enter(ledger, claim("b"))
    found = _tasks(ledger)
    assert found[2].ended_at == at(61)
    assert found[3].due == at(90)
    del expected[2], found[2], expected[3], found[3]
    assert found == expected
    _check_lanes(ledger)


@pytest.mark.parametrize("how", ["found damaged", "deleted", "killed and damaged"])
def test_a_task_that_the_journal_has_ended_goes_with_its_run(
    path: Path,
    tmp_path: Path,
    open_journaled: OpenJournaled,
    monkeypatch: pytest.MonkeyPatch,
    how: str,
) -> None:
    """Also where the file had some of the journal already when it was lost (P1, P8)."""
    monkeypatch.setattr(aside_module, "AT_ONCE", 3)
    monkeypatch.setattr(salvage_module, "_COPIED_BYTES", 1)
    ledger = open_journaled(path)
    ids = hand_in(ledger, *[new_task(at(n)) for n in range(9)])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        for n, task_id in enumerate(ids[:6]):
            claimed = claim(task_job(task_id), at(n), state=State.QUEUED)
            ledger.write([claimed, SetTask(task_id, at(n), ended_at=at(60 + n))], durable=True)
    ledger.settle()
    assert ledger.settles_in is not None, "there is more to copy"
    expected = _tasks(ledger)
    if how == "killed and damaged":
        killed = tmp_path / "killed"
        killed.mkdir()
        for file in path.parent.glob("ledger.*"):
            shutil.copyfile(file, killed / file.name)
        spare_file(killed / path.name).unlink()
        root, _ = _pages_of(killed / path.name, "meta")
        with closing(sqlite3.connect(killed / path.name)) as hand:
            hand.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _ruin_page(killed / path.name, root)
        ledger = open_journaled(killed / path.name)
    elif how == "deleted":
        path.unlink()
    else:
        _damage(ledger, monkeypatch, "write_each")
    while ledger.settles_in is not None:
        ledger.settle()
    assert _tasks(ledger) == expected
    assert [run.job for run in ledger.open_runs()] == [task_job(n) for n in ids[:6]]
    _check_lanes(ledger)


def test_a_task_that_was_carried_over_goes_as_any(
    path: Path, open_journaled: OpenJournaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lane has it among its tasks, and not among the open ones."""
    ledger = open_journaled(path)
    _fill(ledger)
    _damage(ledger, monkeypatch, "lanes")
    ledger.lanes()
    over = [run.id for run in ledger.open_runs() if run.job.startswith(TASK_PREFIX)]
    ledger.write([finish(run_id, at(70)) for run_id in over], durable=True)
    assert ledger.prune_tasks(older_than=at(99), limit=99).runs == len(over) == 10
    assert _tasks(ledger) == _open(_tasks(ledger))
    _check_lanes(ledger)


@pytest.mark.parametrize("is_small", [True, False])
def test_a_deleted_ledger_keeps_its_tasks(
    path: Path, open_journaled: OpenJournaled, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    """The open file has them still, be it copied whole or read (P8)."""
    if not is_small:
        monkeypatch.setattr(salvage_module, "_COPIED_BYTES", 1)
    ledger = open_journaled(path)
    expected = _fill(ledger)
    path.unlink()
    assert hand_in(ledger, new_task(at(9))) == [301]
    found = _needed(ledger)
    assert found.pop(301).due == at(9)
    assert found == expected
    _check_lanes(ledger)


def test_recent_moves_are_the_last_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many tasks are moved on, a number of the last are known, and memory does not grow."""
    moves = RecentMoves()
    for number in range(25_000):
        moves.note(SetTask(number, at(number), at(1) if number % 2 else None))
    steps = moves.steps()
    assert 10_000 <= len(steps) < 20_000
    rows = [step.row for step in steps]
    assert [row[2] for row in rows] == list(range(25_000 - len(rows), 25_000))
    assert all((row[1] is None) is (row[2] % 2 == 0) for row in rows)
    known = Known({}, [], 0, 0)
    known.take([claim("a"), SetTask(5, at(7))], [1])
    assert [step.row[2] for step in known.moves.steps()] == [5]


# --- nothing can be read --------------------------------------------------------------------------


def _overwrite(path: Path) -> None:
    path.write_bytes(b"this is no database" * 1000)
    for suffix in ("-wal", "-shm"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def test_the_spare_copy_of_an_end_has_the_tasks(path: Path, open_journaled: OpenJournaled) -> None:
    """After a daemon that ended as it should no open task is lost (P1)."""
    with closing(open_journaled(path)) as ledger:
        expected = _fill(ledger)
    _overwrite(path)
    mark_file(path).unlink()
    ledger = open_journaled(path)
    assert _tasks(ledger) == expected
    _check_lanes(ledger)
    assert hand_in(ledger, new_task()) == [301]


def test_the_spare_copy_has_the_first_of_many(
    path: Path, open_journaled: OpenJournaled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of more tasks than an end can bear to write it has those that are due first."""
    monkeypatch.setattr(journaled_module, "MOST_SPARED", 20)
    with closing(open_journaled(path)) as ledger:
        expected = list(_fill(ledger))[:20]
    _overwrite(path)
    assert [task.id for task in open_journaled(path).tasks(TaskQuery(limit=None))] == expected


def test_the_spare_copy_of_a_start_has_no_tasks(
    path: Path, tmp_path: Path, open_journaled: OpenJournaled
) -> None:
    """What a task has become since then nobody knows; but no id comes again (P2)."""
    ledger = open_journaled(path)
    _fill(ledger)
    killed = tmp_path / "killed"
    killed.mkdir()
    for file in path.parent.glob("ledger.*"):
        shutil.copyfile(file, killed / file.name)
    _overwrite(killed / path.name)
    again = open_journaled(killed / path.name)
    assert _tasks(again) == {}
    assert hand_in(again, new_task()) == [301]


def test_a_spare_copy_without_tasks_is_read(path: Path, open_journaled: OpenJournaled) -> None:
    """One that an older pycron has left is as good as ever."""
    with closing(open_journaled(path)) as ledger:
        (run_id,) = enter(ledger, attempted("a"))
    spare = spare_file(path)
    text = spare.read_text()
    assert ',"last_task_id":0,"tasks":[]' in text
    spare.write_text(text.replace(',"last_task_id":0,"tasks":[]', ""))
    _overwrite(path)
    assert [run.id for run in open_journaled(path).open_runs()] == [run_id]


# --- the end of the log is lost -----------------------------------------------------------------


def test_lost_tasks_leave_a_gap_and_their_ids(
    path: Path, tmp_path: Path, open_journaled: OpenJournaled
) -> None:
    """Tasks that went with the log are said to be gone, and no other gets their ids (P1, P2)."""
    ledger = open_journaled(path)
    _fill(ledger, 20)
    with closing(sqlite3.connect(path)) as hand:
        hand.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    hand_in(ledger, new_task(), new_task())
    killed = tmp_path / "killed"
    killed.mkdir()
    for file in path.parent.glob("ledger.*"):
        shutil.copyfile(file, killed / file.name)
    copy = killed / path.name
    for suffix in ("-wal", "-shm"):
        Path(f"{copy}{suffix}").unlink()
    again = open_journaled(copy)
    assert max(_tasks(again)) == 20
    assert again.gap == Gap(NOW, 2, "boot")
    assert again.last_task_id == 22
    assert "hand them in again" in again.troubles[0]
    assert hand_in(again, new_task()) == [23]


def test_until_has_what_was_taken_up_ahead(path: Path, open_journaled: OpenJournaled) -> None:
    """A task is claimed a little before it is due; one whose due is far off says nothing (P2)."""
    ledger = open_journaled(path)
    hand_in(ledger, new_task(), new_task())
    ahead = at(5000.01)
    ledger.write([attempted("task:1", ahead), claim("task:2", at(9999))], durable=True)
    mark = read_mark(path)
    assert mark is not None
    assert (mark.until, mark.last_task_id) == (ahead, 2)


def test_a_mark_of_an_older_pycron_is_read(path: Path) -> None:
    """It says nothing of tasks, and all that it says counts; a newer one's says nothing."""
    values = "0123abcd 7 3 12 1774746060000000 boot"

    def put(text: str) -> None:
        line = f"{text} {zlib.crc32(text.encode()):08x}"
        mark_file(path).write_text(f"{line:239}\n")

    put(f"pycron-mark-1 {values}")
    assert read_mark(path) == Mark("0123abcd", 7, 3, 12, at(60), "boot", 0)
    put(f"pycron-mark-3 {values}")
    assert read_mark(path) is None
