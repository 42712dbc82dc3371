"""What every ledger does with tasks."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from crond_py.errors import LedgerError, LedgerRefusedError
from crond_py.model import Attempt, Lane, Outcome, Scale, State, Task
from crond_py.ports import (
    LaneStock,
    Ledger,
    LedgerReader,
    NewTask,
    SetAttempt,
    SetRun,
    SetTask,
    Submitted,
    TaskQuery,
    WaitingRetry,
)
from tests.support.ledgers import LANE, T0, at, attempted, claim, enter, finish, hand_in, new_task

OTHER = Lane("batch", -5, "alice", Scale.STEADY)
ALL = TaskQuery(is_open=None, limit=None)


def _due(reader: LedgerReader, lane: Lane = LANE, **bounds: object) -> list[int]:
    bounds = {"after": None, "until": None, "limit": 100, **bounds}
    return [task.id for task in reader.tasks_due(lane, **bounds)]  # type: ignore[arg-type]


def _ids(reader: LedgerReader, query: TaskQuery) -> list[int]:
    return [task.id for task in reader.tasks(query)]


# --- handing in ---------------------------------------------------------------------------------


def test_without_tasks_every_answer_is_empty(reader: LedgerReader) -> None:
    """Before anything is handed in there is nothing."""
    assert reader.task(1) is None
    assert reader.tasks(ALL) == []
    assert reader.lanes() == {}
    assert _due(reader) == []
    assert reader.count_due(LANE, after=None, until=None, limit=9) == 0


@pytest.mark.parametrize("lane", [LANE, OTHER, Lane("p", 2**63 - 1, "", Scale.WALL)])
@pytest.mark.parametrize("period", [None, timedelta(microseconds=1), timedelta(days=10**6)])
@pytest.mark.parametrize("key", [None, "", "nightly 🕰"])
def test_task_is_kept_as_it_is(
    ledger: Ledger, reader: LedgerReader, lane: Lane, period: timedelta | None, key: str | None
) -> None:
    """What was handed in is what the task says, and it is open (P1)."""
    definition = '{"command": ["écho", "a\\u0000b"]}'
    new = NewTask(lane, at(7.000001), definition, "bob", period, key)
    (answer,) = ledger.submit([new], at(5))
    task = Task(1, lane, at(7.000001), definition, "bob", at(5), period, key)
    assert answer == Submitted(task, is_new=True)
    assert reader.task(1) == task
    assert reader.tasks(TaskQuery()) == [task]
    assert reader.tasks_due(lane, after=None, until=None, limit=1) == [task]


@pytest.mark.parametrize(
    "instant",
    [
        datetime.min.replace(tzinfo=UTC),
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime.max.replace(tzinfo=UTC),
    ],
)
def test_due_instants_are_exact(ledger: Ledger, reader: LedgerReader, instant: datetime) -> None:
    """Every instant that Python knows comes back to the microsecond, and can be asked for."""
    (task_id,) = hand_in(ledger, new_task(instant))
    assert reader.task(task_id).due.isoformat() == instant.isoformat()
    assert _due(reader, until=instant) == [task_id]
    assert _due(reader, after=(instant, task_id)) == []
    assert _due(reader, after=(instant, task_id - 1)) == [task_id]


def test_ids_go_up_in_the_order_given(ledger: Ledger, reader: LedgerReader) -> None:
    """Each task gets an id larger than those of all before, whenever it is due (P1)."""
    first = hand_in(ledger, new_task(at(9)), new_task(at(3)))
    second = hand_in(ledger, new_task(at(1), lane=OTHER), new_task(at(0)))
    assert [*first, *second] == sorted({*first, *second})
    dues = [reader.task(task_id).due for task_id in (*first, *second)]
    assert dues == [at(9), at(3), at(1), at(0)]


def test_nothing_handed_in_is_fine(ledger: Ledger, reader: LedgerReader) -> None:
    """Handing in no task does nothing."""
    assert ledger.submit([], T0) == []
    assert reader.lanes() == {}


def test_same_key_is_the_same_task(ledger: Ledger, reader: LedgerReader) -> None:
    """A key that its submitter has used makes no new task, whatever else is said (P2)."""
    (first,) = ledger.submit([new_task(at(5), key="k")], T0)
    again = new_task(at(99), key="k", lane=OTHER)
    (answer,) = ledger.submit([again], at(50))
    assert answer == Submitted(first.task, is_new=False)
    assert reader.tasks(ALL) == [first.task]
    assert reader.lanes() == {LANE: LaneStock(1, at(5))}


def test_same_key_twice_at_once_is_one_task(ledger: Ledger, reader: LedgerReader) -> None:
    """Within what is handed in together the first of a key is the task of all."""
    new = [new_task(at(n), key=key) for n, key in enumerate(["a", None, "a", "b", None, "a"])]
    answers = ledger.submit(new, T0)
    assert [answer.task.due for answer in answers] == [at(n) for n in (0, 1, 0, 3, 4, 0)]
    assert [answer.is_new for answer in answers] == [True, True, False, True, True, False]
    assert [task.id for task in reader.tasks(TaskQuery())] == [
        answers[n].task.id for n in (0, 1, 3, 4)
    ]


def test_key_of_another_is_another(ledger: Ledger, reader: LedgerReader) -> None:
    """Two submitters may call their tasks the same; no key is never the same."""
    new = [new_task(at(0), key="k"), replace(new_task(at(0), key="k"), submitted_by="eve")]
    answers = ledger.submit([*new, new_task(at(0)), new_task(at(0)), new_task(at(0), key="")], T0)
    assert all(answer.is_new for answer in answers)
    assert len(reader.tasks(TaskQuery())) == 5


def test_key_of_a_task_that_has_ended_is_still_its(ledger: Ledger) -> None:
    """A task is found by its key as long as it is there (P2)."""
    (task_id,) = hand_in(ledger, new_task(at(0), key="k"))
    ledger.write([SetTask(task_id, at(0), ended_at=at(1))], durable=True)
    (answer,) = ledger.submit([new_task(at(9), key="k")], at(9))
    assert (answer.task.id, answer.task.ended_at, answer.is_new) == (task_id, at(1), False)


@pytest.mark.parametrize(
    "bad",
    [
        replace(new_task(at(0)), definition="\udcff"),
        replace(new_task(at(0)), submitted_by="\udcff"),
        new_task(at(0), key="\udcff"),
        new_task(at(0), lane=Lane("\udcff", 0, "")),
        new_task(at(0), lane=Lane("", 0, "\udcff")),
        new_task(at(0), lane=Lane("", 2**63, "")),
        replace(new_task(at(0)), period=timedelta(0)),
        replace(new_task(at(0)), period=timedelta(seconds=-1)),
        replace(new_task(at(0)), period=timedelta.max),
    ],
)
def test_nonsense_is_refused_whole(ledger: Ledger, reader: LedgerReader, bad: NewTask) -> None:
    """Where one task makes no sense none is entered, and the next ones are taken (P1)."""
    with pytest.raises(LedgerRefusedError):
        ledger.submit([new_task(at(0), key="k"), bad, new_task(at(1), lane=OTHER)], T0)
    assert reader.tasks(ALL) == []
    assert reader.lanes() == {}
    (answer,) = ledger.submit([new_task(at(0), key="k")], T0)
    assert answer.is_new


def test_handing_in_lasts(ledger: Ledger, reader: LedgerReader) -> None:
    """What can be asked for once it was handed in takes along all that was written before (P8)."""
    (run_id,) = ledger.write([claim()], durable=False)
    hand_in(ledger, new_task(at(0)))
    assert reader.run(run_id) is not None


# --- lanes and what is due ----------------------------------------------------------------------


def test_lanes_have_their_number_and_first(ledger: Ledger, reader: LedgerReader) -> None:
    """Lanes that differ in anything are counted apart; each has its earliest due."""
    lanes = [LANE, *(replace(LANE, **{name: value}) for name, value in OTHERS.items())]
    for number, lane in enumerate(lanes):
        hand_in(ledger, *[new_task(at(number + k), lane=lane) for k in range(number + 1, 0, -1)])
    expected = {lane: LaneStock(n + 1, at(n + 1)) for n, lane in enumerate(lanes)}
    assert reader.lanes() == expected


OTHERS = {"pool": "batch", "priority": 1, "group": "alice", "scale": Scale.STEADY}


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({}, "dabce"),
        ({"limit": 2}, "da"),
        ({"limit": 0}, ""),
        ({"limit": -1}, ""),
        ({"limit": 10**30}, "dabce"),
        ({"until": at(10)}, "dabc"),
        ({"until": at(9)}, "d"),
        ({"until": at(-1)}, ""),
        ({"after": (at(10), 2)}, "ce"),
        ({"after": (at(10), 0)}, "abce"),
        ({"after": (at(10), 99)}, "e"),
        ({"after": (at(10), 10**30)}, "e"),
        ({"after": (at(9), 99)}, "abce"),
        ({"after": (at(10), 1), "until": at(10)}, "bc"),
        ({"after": (at(10), 1), "until": at(10), "limit": 1}, "b"),
        ({"after": (at(30), 5)}, ""),
        ({"after": (at(10), 3), "until": at(5)}, ""),
    ],
)
def test_due_tasks_come_in_order(
    ledger: Ledger, reader: LedgerReader, bounds: dict[str, object], expected: str
) -> None:
    """A lane's tasks come by due and id, beyond one place and up to an instant."""
    ids = hand_in(ledger, *[new_task(at(due)) for due in (10, 10, 10, 5, 30)])
    hand_in(ledger, new_task(at(7), lane=OTHER))
    named = dict(zip("abcde", ids, strict=True))
    assert _due(reader, **bounds) == [named[letter] for letter in expected]


@pytest.mark.parametrize("lane", [OTHER, Lane("\udcff", 0, ""), Lane("", 10**30, "")])
def test_lane_without_tasks_has_none(ledger: Ledger, reader: LedgerReader, lane: Lane) -> None:
    """A lane that is not there has nothing due."""
    hand_in(ledger, new_task(at(0)))
    assert _due(reader, lane) == []


# --- moving on ------------------------------------------------------------------------------


def test_task_moves_on(ledger: Ledger, reader: LedgerReader) -> None:
    """A task is due where it was moved to, together with the claim of the instant before (P1)."""
    a, b, c = hand_in(ledger, *[new_task(at(n), period=timedelta(seconds=2)) for n in (0, 1, 2)])
    before = reader.task(a)
    run_id, other = ledger.write(
        [claim(f"task:{a}", at(0)), SetTask(a, at(2)), claim(f"task:{b}", at(1))], durable=True
    )
    assert reader.task(a) == replace(before, due=at(2))
    assert reader.run(run_id).job == before.job
    assert other == run_id + 1
    assert _due(reader) == [b, a, c]
    assert reader.lanes() == {LANE: LaneStock(3, at(1))}
    ledger.write([SetTask(a, at(2)), SetTask(b, at(9)), SetTask(a, at(5))], durable=False)
    assert _due(reader) == [c, a, b]
    assert _due(reader, after=(at(5), a)) == [b]


def test_task_ends(ledger: Ledger, reader: LedgerReader) -> None:
    """One that has ended is there, and is not due any more (P1)."""
    a, b = hand_in(ledger, new_task(at(0)), new_task(at(1)))
    whole = reader.task(a)
    for _ in range(2):  # saying it again changes nothing
        ledger.write([SetTask(a, at(0), ended_at=at(3))], durable=True)
        assert reader.task(a) == replace(whole, ended_at=at(3))
        assert _due(reader) == [b]
        assert reader.lanes() == {LANE: LaneStock(1, at(1))}
    ledger.write([SetTask(b, at(1), ended_at=at(3))], durable=True)
    assert reader.lanes() == {}
    assert _due(reader) == []
    assert _ids(reader, ALL) == [b, a]


def test_end_can_be_taken_back(ledger: Ledger, reader: LedgerReader) -> None:
    """The last that is said of a task holds, as with runs."""
    (a,) = hand_in(ledger, new_task(at(0)))
    whole = reader.task(a)
    ledger.write([SetTask(a, at(0), ended_at=at(3)), SetTask(a, at(0))], durable=True)
    assert reader.task(a) == whole
    assert reader.lanes() == {LANE: LaneStock(1, at(0))}


def test_many_move_while_others_stay(ledger: Ledger, reader: LedgerReader) -> None:
    """However many were moved, every question has the answer of one list (P1)."""
    ids = hand_in(ledger, *[new_task(at(n // 3), lane=(LANE, OTHER)[n % 2]) for n in range(24)])
    moves = [SetTask(ids[n], at(40 - n)) for n in range(0, 24, 3)]
    ends = [SetTask(ids[n], at(n), ended_at=at(50)) for n in range(1, 24, 6)]
    ledger.write([*moves, *ends], durable=True)
    whole = {task.id: task for task in reader.tasks(ALL)}
    assert list(whole) == sorted(ids, reverse=True)
    for move in (*moves, *ends):
        assert (whole[move.task_id].due, whole[move.task_id].ended_at) == (move.due, move.ended_at)
    opened = [task for task in whole.values() if task.ended_at is None]
    assert len(opened) == 20
    opened.sort(key=lambda task: (task.due, task.id))
    for lane in (LANE, OTHER):
        mine = [task for task in opened if task.lane == lane]
        assert reader.lanes()[lane] == LaneStock(len(mine), mine[0].due)
        for number, after in enumerate(mine):
            for limit in (1, 3, 30):
                due = reader.tasks_due(lane, after=(after.due, after.id), until=None, limit=limit)
                assert due == mine[number + 1 :][:limit]
                later = sum(task.due > after.due for task in mine)
                counted = reader.count_due(lane, after=after.due, until=None, limit=limit)
                assert counted == min(later, limit)
                counted = reader.count_due(lane, after=None, until=after.due, limit=limit)
                assert counted == min(len(mine) - later, limit)
    assert reader.tasks(TaskQuery(limit=None)) == opened


def test_claim_refused_moves_nonetheless(ledger: Ledger, reader: LedgerReader) -> None:
    """A task whose occurrence has its run already moves on beside the refused claim (P2)."""
    (a,) = hand_in(ledger, new_task(at(0)))
    enter(ledger, claim(f"task:{a}", at(0)))
    again = [claim(f"task:{a}", at(0)), SetTask(a, at(0), ended_at=at(1))]
    assert ledger.write(again, durable=True) == [None]
    assert reader.lanes() == {}


def test_runs_of_tasks_are_no_last_runs(ledger: Ledger, reader: LedgerReader) -> None:
    """A task's runs are runs like others, but no job's last one."""
    (a,) = hand_in(ledger, new_task(at(0)))
    run_id, other = enter(ledger, attempted(f"task:{a}", at(0)), attempted("task", at(0)))
    ledger.write([SetAttempt(run_id, Attempt(2, at(9)))], durable=True)
    assert reader.open_runs()[0].job == f"task:{a}"
    assert len(reader.run(run_id).attempts) == 2
    assert {job: run.id for job, run in reader.last_runs().items()} == {"task": other}


# --- lists ------------------------------------------------------------------------------------


def _varied(ledger: Ledger) -> dict[str, int]:
    """Enter some tasks and return their ids by a letter; b, d and f have ended."""
    new = [new_task(at(due), lane=(LANE, OTHER)[due % 2]) for due in (9, 8, 3, 6, 3, 2)]
    new[4] = replace(new[4], submitted_by="eve")
    new[5] = replace(new[5], submitted_by="eve")
    ids = hand_in(ledger, *new)
    ended = [SetTask(ids[n], new[n].due, ended_at=at(20 - n)) for n in (1, 3, 5)]
    ledger.write(ended, durable=True)
    return dict(zip("abcdef", ids, strict=True))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (TaskQuery(), "cea"),
        (TaskQuery(limit=None), "cea"),
        (TaskQuery(limit=2), "ce"),
        (TaskQuery(limit=0), ""),
        (TaskQuery(limit=-1), ""),
        (TaskQuery(limit=10**30), "cea"),
        (TaskQuery(is_open=False), "fdb"),
        (TaskQuery(is_open=False, limit=1), "f"),
        (TaskQuery(is_open=None), "fedcba"),
        (TaskQuery(is_open=None, limit=4), "fedc"),
        (TaskQuery(submitted_by="bob"), "ca"),
        (TaskQuery(submitted_by="bob", limit=1), "c"),
        (TaskQuery(is_open=None, submitted_by="eve"), "fe"),
        (TaskQuery(is_open=False, submitted_by="bob", limit=1), "d"),
        (TaskQuery(submitted_by="nobody"), ""),
        (TaskQuery(submitted_by="\udcff"), ""),
    ],
)
def test_query_chooses(
    ledger: Ledger, reader: LedgerReader, query: TaskQuery, expected: str
) -> None:
    """A list has the tasks that meet all that is asked, and no others, in order."""
    named = _varied(ledger)
    assert _ids(reader, query) == [named[letter] for letter in expected]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
@pytest.mark.parametrize("is_open", [True, False, None])
@pytest.mark.parametrize("submitted_by", [None, "eve"])
def test_pages_join_up(
    ledger: Ledger,
    reader: LedgerReader,
    size: int,
    is_open: bool | None,
    submitted_by: str | None,
) -> None:
    """Page by page one sees each task of the list once, also where many are due together."""
    new = [new_task(at(n // 4), lane=(LANE, OTHER)[n % 2]) for n in range(14)]
    new += [replace(new_task(at(n)), submitted_by="eve") for n in range(4)]
    ids = hand_in(ledger, *new)
    ledger.write([SetTask(ids[n], at(n), ended_at=at(n)) for n in range(2, 18, 3)], durable=True)
    ledger.write([SetTask(ids[n], at(99 - n)) for n in range(3, 18, 6)], durable=True)
    query = TaskQuery(is_open, submitted_by, limit=None)
    whole = _ids(reader, query)
    assert whole
    paged: list[int] = []
    after = None
    while page := reader.tasks(replace(query, limit=size, after=after)):
        paged += [task.id for task in page]
        after = page[-1].due, page[-1].id
    assert paged == whole


@pytest.mark.parametrize(
    ("becomes", "is_open", "rest"),
    [
        ("later", True, "cdeb"),
        ("later", None, "a"),
        ("later", False, ""),
        ("ended", True, "cde"),
        ("ended", None, "a"),
        ("ended", False, ""),
    ],
)
def test_pages_go_on_from_a_place(
    ledger: Ledger, reader: LedgerReader, is_open: bool | None, rest: str, becomes: str
) -> None:
    """What became of the last of a page meanwhile hides none of those behind it."""
    ids = dict(zip("abcde", hand_in(ledger, *[new_task(at(n)) for n in range(5)]), strict=True))
    place = at(1), ids["b"]
    moved = SetTask(ids["b"], at(9)) if becomes == "later" else SetTask(ids["b"], at(1), at(2))
    ledger.write([moved], durable=True)
    found = _ids(reader, TaskQuery(is_open, limit=None, after=place))
    assert found == [ids[name] for name in rest]


@pytest.mark.parametrize(
    ("is_open", "task_id", "found"),
    [
        (True, 2**63, []),
        (True, -(10**30), [1]),
        (None, 2**63, [1]),
        (None, 10**30, [1]),
        (None, 0, []),
        (None, -(10**30), []),
    ],
)
def test_pages_go_on_from_any_place(
    ledger: Ledger, reader: LedgerReader, is_open: bool | None, task_id: int, found: list[int]
) -> None:
    """A place is one in an order; no task need have been there."""
    hand_in(ledger, new_task(at(0)))
    assert _ids(reader, TaskQuery(is_open, after=(at(0), task_id), limit=1)) == found


@pytest.mark.parametrize("task_id", [0, -1, 2, 2**63 - 1, 2**63, -(2**63), 10**30, -(10**30)])
def test_unknown_task_is_none(ledger: Ledger, reader: LedgerReader, task_id: int) -> None:
    """A task that never was is None, whatever number is asked for."""
    hand_in(ledger, new_task(at(0)))
    assert reader.task(task_id) is None


def test_closed_ledger_takes_no_tasks(ledger: Ledger) -> None:
    """Using a closed ledger is a LedgerError."""
    ledger.close()
    with pytest.raises(LedgerError, match="closed"):
        ledger.submit([new_task(at(0))], T0)
    with pytest.raises(LedgerError, match="closed"):
        ledger.lanes()
    with pytest.raises(LedgerError, match="closed"):
        ledger.prune_tasks(older_than=at(9), limit=9)


def test_state_of_a_tasks_run_is_its_own(ledger: Ledger, reader: LedgerReader) -> None:
    """That a task has ended says nothing of its last run, which may go on (P1)."""
    (a,) = hand_in(ledger, new_task(at(0)))
    (run_id,) = ledger.write(
        [claim(f"task:{a}", at(0), state=State.QUEUED), SetTask(a, at(0), ended_at=at(1))],
        durable=True,
    )
    assert reader.run(run_id).outcome is None
    ledger.write([claim(f"task:{a}", at(5), outcome=Outcome.CANCELLED)], durable=True)
    assert [run.id for run in reader.open_runs()] == [run_id]


# --- what waits for its retry -------------------------------------------------------------------


def test_retries_are_told_apart_from_what_else_is_open(
    ledger: Ledger, reader: LedgerReader
) -> None:
    """P4: those of tasks that are run once, of which there may be many; each is in one of the two.

    What has no such task is looked at by itself: a job's run, or one whose task is lost.
    """
    assert reader.retries() == []
    once, other, again = hand_in(
        ledger, new_task(), new_task(lane=OTHER), new_task(period=timedelta(hours=1))
    )
    jobs = [f"task:{once}", f"task:{other}", f"task:{again}", "task:99", "backup", "task:1x"]
    ids = enter(ledger, *(attempted(job, at(10)) for job in jobs))
    enter(ledger, attempted("task:1", at(11)))  # it runs
    waits = [SetRun(run_id, State.WAITING_RETRY, retry_at=at(100)) for run_id in ids]
    closed = Attempt(1, at(10), finished_at=at(40), outcome=Outcome.FAILED)
    ledger.write([*waits, SetAttempt(ids[1], closed)], durable=False)
    first, second = ids[:2]
    assert reader.retries() == [
        WaitingRetry(first, LANE, at(100), timedelta(seconds=90)),
        WaitingRetry(second, OTHER, at(100), timedelta(seconds=60)),
    ]
    others = [run.id for run in reader.open_runs(with_retries=False)]
    assert others == [*ids[2:], ids[-1] + 1]
    assert [run.id for run in reader.open_runs()] == [*ids, ids[-1] + 1]
    ledger.write([finish(first, at(101))], durable=False)
    assert [retry.run_id for retry in reader.retries()] == [second]
