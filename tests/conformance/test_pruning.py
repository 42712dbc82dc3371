"""What every ledger deletes when it is told to."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from crond_py.model import Attempt, Outcome, State
from crond_py.ports import (
    LaneStock,
    Ledger,
    LedgerReader,
    Pruned,
    RunQuery,
    SetAttempt,
    SetTask,
    TaskQuery,
)
from tests.conformance.conftest import WORKING, Pair, open_pair
from tests.support.ledgers import LANE, at, attempted, claim, enter, finish, hand_in, new_task


@pytest.fixture(params=WORKING)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    """Give a ledger and what reads it."""
    with open_pair(request.param, tmp_path) as pair:
        yield pair


def _jobs_due(reader: LedgerReader, job: str = "a") -> list[float]:
    runs = reader.runs(RunQuery(job=job, limit=None))
    return sorted((run.due - at(0)).total_seconds() for run in runs)


def _five(ledger: Ledger) -> list[int]:
    """Enter runs due at 0, 10 .. 40, all finished but for that due at 20; one is skipped."""
    ids = enter(
        ledger,
        attempted("a", at(0), output="/out/0"),
        attempted("a", at(10), output="/out/10"),
        attempted("a", at(20), output="/out/20"),
        claim("a", at(30), outcome=Outcome.SKIPPED),
        attempted("a", at(40), output="/out/40"),
        attempted("b", at(0), output="/out/b"),
    )
    done = [ids[0], ids[1], ids[4], ids[5]]
    ledger.write([finish(run_id, at(45)) for run_id in done], durable=True)
    ledger.write([SetAttempt(ids[1], Attempt(2, at(12), output="/out/10.2"))], durable=True)
    return ids


@pytest.mark.parametrize(
    ("bounds", "left", "pruned"),
    [
        ((None, None, 99), [0, 10, 20, 30, 40], Pruned(0, ())),
        ((4, None, 99), [0, 10, 20, 30, 40], Pruned(0, ())),
        ((99, None, 99), [0, 10, 20, 30, 40], Pruned(0, ())),
        ((3, None, 99), [10, 20, 30, 40], Pruned(1, ("/out/0",))),
        ((1, None, 99), [20, 40], Pruned(3, ("/out/0", "/out/10", "/out/10.2"))),
        ((0, None, 99), [20], Pruned(4, ("/out/0", "/out/10", "/out/10.2", "/out/40"))),
        ((0, None, 1), [10, 20, 30, 40], Pruned(1, ("/out/0",))),
        ((0, None, 2), [20, 30, 40], Pruned(2, ("/out/0", "/out/10", "/out/10.2"))),
        ((0, None, 0), [0, 10, 20, 30, 40], Pruned(0, ())),
        ((None, at(32), 99), [0, 10, 20, 40], Pruned(1, ())),  # the others finished later
        ((None, at(45), 99), [0, 10, 20, 40], Pruned(1, ())),  # that instant itself is kept
        ((None, at(46), 99), [20], Pruned(4, ("/out/0", "/out/10", "/out/10.2", "/out/40"))),
        ((None, at(40), 99), [0, 10, 20, 40], Pruned(1, ())),
        ((3, at(32), 99), [10, 20, 40], Pruned(2, ("/out/0",))),
        ((3, at(32), 1), [10, 20, 30, 40], Pruned(1, ("/out/0",))),
    ],
)
def test_old_finished_runs_go(
    ledger: Ledger,
    reader: LedgerReader,
    bounds: tuple[int | None, datetime | None, int],
    left: list[float],
    pruned: Pruned,
) -> None:
    """What is beyond the bounds goes, oldest first; a run without an outcome never does (P1)."""
    _five(ledger)
    keep_runs, older_than, limit = bounds
    assert ledger.prune("a", keep_runs=keep_runs, older_than=older_than, limit=limit) == pruned
    assert _jobs_due(reader) == left
    assert _jobs_due(reader, "b") == [0]


def test_open_runs_are_not_counted(ledger: Ledger, reader: LedgerReader) -> None:
    """Runs under way take no place of those to be kept."""
    ids = enter(ledger, *[attempted("a", at(n)) for n in range(6)])
    ledger.write([finish(run_id, at(9)) for run_id in ids[:3]], durable=True)
    assert ledger.prune("a", keep_runs=2, older_than=None, limit=9).runs == 1
    assert _jobs_due(reader) == [1, 2, 3, 4, 5]


def test_nothing_is_left_of_a_pruned_run(ledger: Ledger, reader: LedgerReader) -> None:
    """A pruned run is gone from every answer, its attempts with it."""
    ids = _five(ledger)
    ledger.prune("a", keep_runs=0, older_than=None, limit=99)
    assert [reader.run(run_id) for run_id in ids[:2]] == [None, None]
    assert {job: run.id for job, run in reader.last_runs().items()} == {"a": ids[2], "b": ids[5]}


def test_last_run_falls_back(ledger: Ledger, reader: LedgerReader) -> None:
    """When the newest attempted run is pruned, an older one that is left becomes the last."""
    open_, _ = enter(ledger, attempted("a", at(0)), attempted("a", at(10)))
    ledger.write([finish(open_ + 1, at(11))], durable=True)
    ledger.prune("a", keep_runs=0, older_than=None, limit=9)
    assert reader.last_runs()["a"].id == open_


def test_last_run_can_go(ledger: Ledger, reader: LedgerReader) -> None:
    """A job all of whose runs are pruned has no last run."""
    (run_id,) = enter(ledger, attempted("a"))
    ledger.write([finish(run_id, at(1))], durable=True)
    ledger.prune("a", keep_runs=0, older_than=None, limit=9)
    assert reader.last_runs() == {}


def test_ids_do_not_come_again(ledger: Ledger) -> None:
    """A pruned run's id is never given to another: files and logs name runs by it."""
    (first,) = enter(ledger, claim("a", at(0), outcome=Outcome.SKIPPED))
    ledger.prune("a", keep_runs=0, older_than=None, limit=9)
    (second,) = enter(ledger, claim("a", at(0), outcome=Outcome.SKIPPED))
    assert second > first


def test_unclosed_end_counts_from_the_claim(ledger: Ledger, reader: LedgerReader) -> None:
    """A run that was ended without saying when is as old as its claim."""
    (run_id,) = enter(ledger, attempted("a"))
    ledger.write([finish(run_id, at(0))], durable=True)
    ledger.write([SetAttempt(run_id, Attempt(1, at(0), output="\udcff"))], durable=True)
    assert ledger.prune("a", keep_runs=None, older_than=at(1), limit=9) == Pruned(1, ("\udcff",))
    assert reader.runs(RunQuery(states=frozenset({State.DONE}))) == []


def test_stranger_has_nothing_to_prune(ledger: Ledger) -> None:
    """A job that is not there loses nothing, whatever it is called."""
    _five(ledger)
    for job in ("", "c", "\udcff", "a%"):
        pruned = ledger.prune(job, keep_runs=0, older_than=at(999), limit=9)
        assert pruned == Pruned(0, ())


# --- tasks --------------------------------------------------------------------------------------


def _task_with_runs(ledger: Ledger, ended: float | None, *runs: float | None) -> int:
    """Enter a task that ended then, and runs of it: when each finished; return its id."""
    (task_id,) = hand_in(ledger, new_task(at(0)))
    claims = [
        attempted(f"task:{task_id}", at(place), output=f"/out/{task_id}/{place}")
        for place, _ in enumerate(runs)
    ]
    ids = enter(ledger, *claims)
    ends = [finish(run, at(when)) for run, when in zip(ids, runs, strict=True) if when is not None]
    if ended is not None:
        ledger.write([SetTask(task_id, at(0), ended_at=at(ended))], durable=True)
    ledger.write(ends, durable=True)
    return task_id


def _tasks(reader: LedgerReader) -> list[int]:
    return [task.id for task in reader.tasks(TaskQuery(is_open=None, limit=None))][::-1]


def test_ended_tasks_go_with_their_runs(ledger: Ledger, reader: LedgerReader) -> None:
    """What ended before an instant goes, with its runs and attempts; the rest stays."""
    old = _task_with_runs(ledger, 5, 4, 6)
    bare = _task_with_runs(ledger, 5)
    opened = _task_with_runs(ledger, None, 4)
    running = _task_with_runs(ledger, 5, 4, None)
    late = _task_with_runs(ledger, 5, 4, 10)
    recent = _task_with_runs(ledger, 10, 4)
    enter(ledger, attempted("task", at(0)), attempted(f"task:{old}0", at(0)))
    pruned = ledger.prune_tasks(older_than=at(10), limit=99)
    assert pruned == Pruned(2, (f"/out/{old}/0", f"/out/{old}/1"))
    assert _tasks(reader) == [opened, running, late, recent]
    assert reader.task(old) is None
    assert reader.task(bare) is None
    left = {run.job for run in reader.runs(RunQuery(limit=None))}
    stay = (opened, running, late, recent)
    assert left == {"task", f"task:{old}0", *(f"task:{task}" for task in stay)}
    assert reader.lanes() == {LANE: LaneStock(1, at(0))}
    assert ledger.prune_tasks(older_than=at(10), limit=99) == Pruned(0, ())


def test_pages_go_on_behind_a_task_that_is_gone(ledger: Ledger, reader: LedgerReader) -> None:
    """That the last of a page was deleted hides none of those behind it."""
    a, b, c, d = hand_in(ledger, *[new_task(at(n)) for n in range(4)])
    ledger.write([SetTask(b, at(1), ended_at=at(2))], durable=True)
    ledger.prune_tasks(older_than=at(3), limit=9)
    for is_open, rest in ((True, [c, d]), (None, [a])):
        query = TaskQuery(is_open, limit=None, after=(at(1), b))
        assert [task.id for task in reader.tasks(query)] == rest


def test_first_ended_goes_first(ledger: Ledger, reader: LedgerReader) -> None:
    """At most as many go as are asked for, in the order in which they ended."""
    a, b, c, d = (_task_with_runs(ledger, ended, 1) for ended in (7, 5, 6, 5))
    gone = []
    while pruned := ledger.prune_tasks(older_than=at(10), limit=1).runs:
        assert pruned == 1
        gone.append({a, b, c, d} - set(_tasks(reader)) - set(gone))
        gone[-1] = gone[-1].pop()
    assert gone == [b, d, c, a]


def test_long_row_of_runs_goes_in_parts(ledger: Ledger, reader: LedgerReader) -> None:
    """No more runs go at once than tasks might; their task goes with the last of them."""
    long = _task_with_runs(ledger, 5, *range(1, 6))
    short = _task_with_runs(ledger, 6, 1)
    first = ledger.prune_tasks(older_than=at(10), limit=2)
    assert first == Pruned(2, (f"/out/{long}/0", f"/out/{long}/1"))
    assert _tasks(reader) == [long, short]
    assert ledger.prune_tasks(older_than=at(10), limit=2).runs == 2
    assert ledger.prune_tasks(older_than=at(10), limit=2).runs == 2
    assert _tasks(reader) == []
    assert reader.runs(RunQuery(limit=None)) == []


def test_nothing_to_prune_where_none_is_asked_for(ledger: Ledger, reader: LedgerReader) -> None:
    """With a limit of nothing all stays."""
    task = _task_with_runs(ledger, 5, 4)
    assert ledger.prune_tasks(older_than=at(10), limit=0) == Pruned(0, ())
    assert ledger.prune_tasks(older_than=at(10), limit=-1) == Pruned(0, ())
    assert _tasks(reader) == [task]


def test_id_of_a_pruned_task_is_not_used_again(ledger: Ledger, reader: LedgerReader) -> None:
    """A task that is gone leaves its number unused, and its key free (P1)."""
    (first,) = ledger.submit([new_task(at(0), key="k")], at(0))
    ledger.write([SetTask(first.task.id, at(0), ended_at=at(1))], durable=True)
    ledger.prune_tasks(older_than=at(10), limit=9)
    assert _tasks(reader) == []
    (again,) = ledger.submit([new_task(at(0), key="k")], at(20))
    assert again.is_new
    assert again.task.id > first.task.id


def test_job_is_pruned_without_tasks(ledger: Ledger, reader: LedgerReader) -> None:
    """Pruning a job leaves tasks alone, whatever it is called."""
    task = _task_with_runs(ledger, 5, 4)
    assert ledger.prune("task", keep_runs=0, older_than=at(10), limit=9) == Pruned(0, ())
    assert _tasks(reader) == [task]
    assert len(reader.runs(RunQuery())) == 1
