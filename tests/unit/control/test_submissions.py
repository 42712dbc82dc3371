"""Tasks on their way from a client to the engine."""

from __future__ import annotations

import os
import pwd
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest

from crond_py.control import protocol
from crond_py.control.address import Peer
from crond_py.control.protocol import SubmittedList
from crond_py.control.submissions import Intake, submitter
from crond_py.crontab.model import Crontab, Pool
from crond_py.errors import RequestRefusedError, TaskRefusedError, UsageError
from tests.support.clock import FakeClock
from tests.unit.control.fakes import ME, FakeEngine

LOGIN = pwd.getpwuid(os.geteuid()).pw_name


def crontab() -> Crontab:
    """Return a crontab without jobs."""
    return Crontab(MappingProxyType({}), MappingProxyType({"default": Pool("default")}))


@pytest.fixture
def engine() -> FakeEngine:
    """Make an engine that stores tasks."""
    return FakeEngine()


@pytest.fixture
def intake(engine: FakeEngine) -> Intake:
    """Make the intake under test."""
    return Intake(crontab(), engine, FakeClock())


def task(number: int = 0, **values: Any) -> dict[str, Any]:
    """Return a task as a client sends it."""
    return {"command": f"echo {number}", "in": "10m", **values}


def submit(intake: Intake, *tasks: dict[str, Any], only_check: bool = False) -> SubmittedList:
    """Hand in tasks of the tester's own."""
    return intake.submit(protocol.Submit(tasks, only_check=only_check), ME)


def test_tasks_get_their_numbers_in_order(intake: Intake, engine: FakeEngine) -> None:
    """Each is stored for the user who hands it in, and the answer says when it is due."""
    answer = submit(intake, *map(task, range(3)))
    assert [(one.id, one.job, one.is_new) for one in answer.tasks] == [
        (1, "task:1", True),
        (2, "task:2", True),
        (3, "task:3", True),
    ]
    assert {one.due for one in answer.tasks} == {FakeClock().now() + timedelta(minutes=10)}
    assert {stored.submitted_by for stored in engine.tasks} == {LOGIN}
    assert engine.asked == [("submit", 3)]


def test_the_same_key_twice_is_one_task(intake: Intake) -> None:
    """The answer tells the task that was stored first."""
    answer = submit(intake, task(1, key="a"), task(2, key="a"))
    assert [(one.id, one.is_new) for one in answer.tasks] == [(1, True), (1, False)]


def test_one_bad_task_lets_none_through_and_every_fault_is_told(
    intake: Intake, engine: FakeEngine
) -> None:
    """All or nothing; a fault says which task it is of."""
    with pytest.raises(TaskRefusedError) as caught:
        submit(intake, task(), {"command": ""}, task(), task(timeout=5))
    assert [str(fault) for fault in caught.value.faults] == [
        "submitted:2: command: is empty",
        "submitted:2: does not say when it is due (add one of at, in and every)",
        (
            'submitted:4: timeout: must be text with a unit, such as "90s" or "1h30m", not 5'
            ' (for seconds write "5s")'
        ),
    ]
    assert engine.asked == []


def test_a_check_stores_nothing(intake: Intake, engine: FakeEngine) -> None:
    """Good tasks get an empty answer, and bad ones the faults that they would have got."""
    assert submit(intake, task(), only_check=True) == SubmittedList(())
    with pytest.raises(TaskRefusedError, match="command: is empty"):
        submit(intake, task(command=""), only_check=True)
    assert engine.asked == []


def test_no_more_are_taken_at_a_time_than_the_protocol_says(
    intake: Intake, engine: FakeEngine
) -> None:
    """P4: the engine does nothing else meanwhile."""
    most = protocol.MOST_TASKS
    assert len(submit(intake, *[task()] * most).tasks) == most
    with pytest.raises(UsageError, match=f"at most {most} tasks"):
        submit(intake, *[task()] * (most + 1))
    assert engine.asked == [("submit", most)]


# --- who --------------------------------------------------------------------------------------


def test_root_and_the_owner_may_name_another_user() -> None:
    """It is how sudo hands in tasks for its caller."""
    assert submitter("alice", ME) == "alice"
    assert submitter("alice", Peer(1, 0)) == "alice"
    assert submitter(None, ME) == LOGIN


def test_nobody_else_may() -> None:
    """P9: a name is not forged, whoever is let in one day."""
    other = Peer(1, 12345)
    assert submitter(None, other) == "12345"
    with pytest.raises(RequestRefusedError, match="user 12345 may not submit tasks for 'alice'"):
        submitter("alice", other)


@pytest.mark.parametrize("name", ["", "a:b", "-x", "a\nb", "x" * 300, " a"])
def test_what_can_be_no_user_is_refused(name: str) -> None:
    """P9: a name is printed, and is a group that shares slots."""
    with pytest.raises(UsageError, match="submitted_by"):
        submitter(name, ME)
