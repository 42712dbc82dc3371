"""Tasks in the SQLite ledger and in the daemon's: how much work questions are, and trouble."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import timedelta
from pathlib import Path
from unittest import mock

import pytest

from crond_py.errors import LedgerCorruptError, LedgerError
from crond_py.ledger.journaled import JournaledLedger
from crond_py.ledger.opening import open_ledger
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.model import Lane, Task
from crond_py.ports import LaneStock, LedgerReader, SetTask, TaskQuery
from tests.support.clock import FakeClock
from tests.support.ledgers import LANE, T0, at, attempted, claim, enter, hand_in, new_task
from tests.unit.ledger.conftest import Open, OpenReader

ALL = TaskQuery(is_open=None, limit=None)
OTHER = Lane("batch", 1, "alice")


@pytest.fixture
def ledger(path: Path, stack: ExitStack) -> JournaledLedger:
    """Give a daemon's ledger."""
    return stack.enter_context(closing(open_ledger(path, FakeClock(T0))))


@pytest.fixture
def other(path: Path, ledger: JournaledLedger) -> Iterator[sqlite3.Connection]:
    """Give another program's connection to the ledger."""
    assert ledger.identity
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        yield connection


def _settle(ledger: JournaledLedger) -> None:
    while ledger.settles_in is not None:
        ledger.settle()


# --- how much work it is --------------------------------------------------------------------------


def _steps(ledger: SqliteLedger, work: Callable[[], object]) -> int:
    """Return how many instructions SQLite's machine takes for something."""
    count = 0

    def step() -> None:
        nonlocal count
        count += 1

    ledger._connection.set_progress_handler(step, 1)
    work()
    ledger._connection.set_progress_handler(None, 1)
    return count


@pytest.mark.parametrize("together", [True, False])
def test_number_of_tasks_makes_no_work(tmp_path: Path, open_ledger: Open, together: bool) -> None:
    """The next of a lane and all lanes are found at once, also where all are due together (P4)."""
    found: list[dict[str, int]] = []
    for number in (300, 6000):
        ledger = open_ledger(tmp_path / f"{number}.db")
        dues = [T0 if together else at(n) for n in range(number)]
        ids = hand_in(ledger, *[new_task(due) for due in dues])
        hand_in(ledger, new_task(lane=OTHER))
        ledger.write([SetTask(task_id, T0, T0) for task_id in ids[: number // 3]], durable=True)
        place = (dues[number // 2], ids[number // 2])

        def ask(ledger: SqliteLedger = ledger, **bounds: object) -> object:
            bounds = {"after": None, "until": None, "limit": 20, **bounds}
            return ledger.tasks_due(LANE, **bounds)  # type: ignore[arg-type]

        assert len(ask(after=place)) == 20  # type: ignore[arg-type]
        found.append(
            {
                "first": _steps(ledger, ask),
                "until": _steps(ledger, lambda place=place: ask(until=place[0])),  # type: ignore[misc]
                "after": _steps(ledger, lambda place=place: ask(after=place)),  # type: ignore[misc]
                "lanes": _steps(ledger, ledger.lanes),
            }
        )
    few, many = found
    assert few.keys() == {name for name in many if many[name] <= few[name] * 1.2}


def test_a_lane_that_has_ended_is_gone(open_ledger: Open, path: Path) -> None:
    """Lanes do not pile up: one whose last task is pruned leaves nothing behind."""
    ledger = open_ledger(path)
    ids = hand_in(ledger, *[new_task(lane=Lane("default", n, "bob")) for n in range(50)])
    ledger.write([SetTask(task_id, T0, T0) for task_id in ids], durable=True)
    ledger.prune_tasks(older_than=at(1), limit=99)
    with closing(sqlite3.connect(path)) as probe:
        assert probe.execute("SELECT count(*) FROM lanes").fetchone() == (0,)


def test_another_process_pages_through_tasks(
    open_ledger: Open, look: OpenReader, path: Path
) -> None:
    """A reader sees what is committed, and goes on from a task that has ended meanwhile."""
    ledger = open_ledger(path)
    a, b, c = hand_in(ledger, *[new_task(at(n)) for n in range(3)])
    reader = look(path)
    assert [task.id for task in reader.tasks(TaskQuery(limit=1))] == [a]
    ledger.write([SetTask(a, at(0), at(0))], durable=True)
    assert [task.id for task in reader.tasks(TaskQuery(limit=9, after=(at(0), a)))] == [b, c]
    assert reader.lanes() == {LANE: LaneStock(2, at(1))}


@pytest.mark.parametrize(
    ("damage", "question"),
    [
        ("UPDATE tasks SET due = 1 << 62", "tasks_due"),
        ("UPDATE tasks SET due = 1 << 62", "lanes"),
        ("UPDATE tasks SET submitted_at = 1 << 62", "task"),
        ("UPDATE tasks SET lane_id = 9", "tasks"),
        ("DELETE FROM lanes", "task"),
        ("DELETE FROM tasks", "lanes"),
    ],
)
def test_tasks_that_make_no_sense_are_damage(
    open_ledger: Open, path: Path, damage: str, question: str
) -> None:
    """What cannot be understood is said to be damaged, whatever asks for it (P8)."""
    ledger = open_ledger(path)
    hand_in(ledger, new_task())
    ledger._connection.execute(damage)
    questions: dict[str, Callable[[], object]] = {
        "tasks_due": lambda: ledger.tasks_due(LANE, after=None, until=None, limit=1),
        "lanes": ledger.lanes,
        "task": lambda: ledger.task(1),
        "tasks": lambda: ledger.tasks(ALL),
    }
    with pytest.raises(LedgerCorruptError, match="makes no sense"):
        questions[question]()


# --- while the file takes nothing -----------------------------------------------------------------


def test_nothing_is_handed_in_while_the_file_takes_nothing(
    ledger: JournaledLedger, other: sqlite3.Connection
) -> None:
    """It is refused in words with the way out, and taken once the trouble is over (P8)."""
    other.execute("BEGIN IMMEDIATE")
    for _ in range(2):
        with pytest.raises(
            LedgerError, match=r"cannot be taken now: .* locked by another"
        ) as caught:
            ledger.submit([new_task()], T0)
        assert "hand them in again" in str(caught.value)
    assert ledger.tasks(ALL) == []
    other.execute("ROLLBACK")
    _settle(ledger)
    assert hand_in(ledger, new_task()) == [1]


def test_tasks_are_taken_up_while_the_file_takes_nothing(
    path: Path, ledger: JournaledLedger, other: sqlite3.Connection
) -> None:
    """Claims and moves go to the journal; every question knows of them, and then the file (P1)."""
    a, b, c, d = hand_in(ledger, *[new_task(at(n)) for n in range(4)])
    other.execute("BEGIN IMMEDIATE")
    writes = [claim(f"task:{a}"), SetTask(a, at(0), at(9)), SetTask(b, at(7)), SetTask(77, at(0))]
    assert ledger.write(writes, durable=True) == [1]
    assert [task.id for task in ledger.tasks(TaskQuery())] == [c, d, b]
    assert ledger.lanes() == {LANE: LaneStock(3, at(2))}
    assert ledger.task(77) is None
    before = ledger.tasks(ALL)
    other.execute("ROLLBACK")
    _settle(ledger)
    assert ledger.tasks(ALL) == before
    ledger.close()
    with closing(SqliteLedger.open(path, now=T0)) as file:
        assert file.tasks(ALL) == before


def test_next_daemon_knows_what_the_journal_has(
    path: Path, ledger: JournaledLedger, other: sqlite3.Connection, stack: ExitStack
) -> None:
    """A daemon that starts while the file takes nothing takes up no task twice (P2)."""
    a, b = hand_in(ledger, new_task(at(0)), new_task(at(1)))
    other.execute("BEGIN IMMEDIATE")
    ledger.write([claim(f"task:{a}"), SetTask(a, at(0), at(9))], durable=True)
    ledger.close()
    again = stack.enter_context(closing(open_ledger(path, FakeClock(T0))))
    assert again.settles_in is not None
    assert [task.id for task in again.tasks(TaskQuery())] == [b]
    assert again.lanes() == {LANE: LaneStock(1, at(1))}
    other.execute("ROLLBACK")
    _settle(again)
    assert again.lanes() == {LANE: LaneStock(1, at(1))}
    assert hand_in(again, new_task()) == [3]


def test_answers_hold_while_the_journal_is_copied(
    ledger: JournaledLedger, other: sqlite3.Connection
) -> None:
    """Half of it in the file, half not yet: each answer is that of before and after (P1)."""
    ids = hand_in(ledger, *[new_task(at(n % 7), lane=(LANE, OTHER)[n % 2]) for n in range(40)])
    other.execute("BEGIN IMMEDIATE")
    for number, task_id in enumerate(ids[:30]):
        ended_at = at(60) if number % 3 else None
        ledger.write([SetTask(task_id, at(50 - number), ended_at)], durable=True)
    expected = _answers(ledger)
    other.execute("ROLLBACK")
    halves = 0
    with mock.patch("crond_py.ledger.aside.AT_ONCE", 4):
        while ledger.settles_in is not None:
            ledger.settle()
            halves += ledger.settles_in == timedelta(0)
            assert _answers(ledger) == expected
    assert halves >= 5


def _answers(ledger: LedgerReader) -> object:
    due = [ledger.tasks_due(lane, after=None, until=None, limit=9) for lane in (LANE, OTHER)]
    return ledger.lanes(), due, ledger.tasks(TaskQuery(limit=7)), ledger.tasks(ALL)


def test_a_failed_write_moves_no_task(
    ledger: JournaledLedger, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the journal takes nothing either, all is as it was (P1)."""
    (task_id,) = hand_in(ledger, new_task(at(0)))
    other.execute("BEGIN IMMEDIATE")
    ledger.write([SetTask(task_id, at(5))], durable=True)
    before = ledger.tasks(ALL)

    def fail(*_arguments: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("crond_py.ledger.journal._write", fail)
        with pytest.raises(LedgerError, match="No space left"):
            ledger.write([SetTask(task_id, at(9), at(9))], durable=True)
    assert ledger.tasks(ALL) == before
    assert ledger.lanes() == {LANE: LaneStock(1, at(5))}


def test_moves_are_kept_where_the_file_cannot_even_be_read(
    ledger: JournaledLedger, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody can say then whether there is such a task; the file says so later (P1, P8)."""
    (task_id,) = hand_in(ledger, new_task(at(0)))

    def fail(*_arguments: object, **_options: object) -> None:
        raise LedgerError("I/O error")

    with monkeypatch.context() as patch:
        for method in ("write", "write_each", "_rows"):
            patch.setattr(SqliteLedger, method, fail)
        writes = [claim(f"task:{task_id}"), SetTask(task_id, at(0), at(9)), SetTask(77, at(0))]
        assert ledger.write(writes, durable=True) == [1]
    expected: list[Task] = ledger.tasks(ALL)
    assert [(task.id, task.ended_at) for task in expected] == [(task_id, at(9))]
    assert ledger.lanes() == {}
    with caplog.at_level(logging.ERROR):
        _settle(ledger)
    assert ledger.tasks(ALL) == expected
    assert "a record was left out" in caplog.text


def test_runs_of_tasks_from_before_are_no_last_runs(path: Path, open_ledger: Open) -> None:
    """What a task's run begins is no job's last run, in a file of any age."""
    ledger = open_ledger(path)
    enter(ledger, attempted("task:1"), attempted("backup"))
    with closing(sqlite3.connect(path)) as probe:
        assert probe.execute("SELECT job FROM last_attempted").fetchall() == [("backup",)]
