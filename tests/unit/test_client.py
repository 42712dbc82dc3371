"""What a program's client does by itself, without a daemon."""

from __future__ import annotations

from datetime import timedelta

import pytest

from crond_py import client
from crond_py.client import all_tasks
from crond_py.ledger.memory import MemoryLedger
from crond_py.ports import SetTask, TaskQuery
from tests.support.ledgers import at, hand_in, new_task

OFTEN = timedelta(seconds=1)


@pytest.fixture
def ledger(monkeypatch: pytest.MonkeyPatch) -> MemoryLedger:
    """Make a ledger with ten tasks, three of which are a page."""
    monkeypatch.setattr(client, "_PAGE", 3)
    ledger = MemoryLedger()
    hand_in(ledger, *[new_task(at(n), period=OFTEN if n == 2 else None) for n in range(10)])
    return ledger


@pytest.mark.parametrize("limit", [None, 10, 99])
@pytest.mark.parametrize("due", [at(2.5), at(5), at(20)])
def test_a_list_has_each_task_once(ledger: MemoryLedger, due: object, limit: int | None) -> None:
    """Also where the last of a page is due again while the list is read, wherever it is then."""
    found: list[int] = []
    for task in all_tasks(ledger, TaskQuery(limit=limit)):
        found.append(task.id)
        if len(found) == 3:
            ledger.write([SetTask(3, due)], durable=True)  # type: ignore[arg-type]
    assert found == list(range(1, 11))


def test_a_list_goes_on_behind_a_task_that_is_forgotten(ledger: MemoryLedger) -> None:
    """The last of a page has ended and was deleted: those behind it are listed none the less."""
    found: list[int] = []
    for task in all_tasks(ledger, TaskQuery(limit=None)):
        found.append(task.id)
        if len(found) == 3:
            ledger.write([SetTask(3, at(2), at(3))], durable=True)
            ledger.prune_tasks(older_than=at(4), limit=9)
    assert found == list(range(1, 11))


@pytest.mark.parametrize("limit", [0, 1, 3, 4, 9, 10])
def test_a_list_has_as_many_as_are_asked_for(ledger: MemoryLedger, limit: int) -> None:
    """A limit is one of the list, whatever the pages are."""
    found = [task.id for task in all_tasks(ledger, TaskQuery(limit=limit))]
    assert found == list(range(1, limit + 1))
