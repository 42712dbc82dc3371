"""What the client of submitted tasks takes, before it asks any daemon."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from crond_py import Client, DaemonNotRunningError, ScheduleError, SubmittedTask
from tests.support.clock import START


@pytest.fixture
def client(tmp_path: Path) -> Client:
    """Give a client of a directory in which no daemon runs."""
    return Client(tmp_path)


def test_a_datetime_names_an_instant(client: Client) -> None:
    """One without a zone would be read in that of the crontab, and be hours off."""
    naive = datetime(2026, 12, 24, 18)  # noqa: DTZ001 - it is what is refused
    with pytest.raises(ScheduleError, match="has no time zone, so it names no instant"):
        client.submit("true", at=naive)
    with pytest.raises(ScheduleError, match="no time zone"):
        client.submit_many([{"command": "true", "at": naive}])
    with pytest.raises(DaemonNotRunningError):
        client.submit("true", at=START)


@pytest.mark.parametrize("tasks", [["true"], {"command": "true", "in": "1s"}, [None]])
def test_tasks_are_mappings(client: Client, tasks: list[dict[str, str]]) -> None:
    """Whoever hands in one of them, or commands alone, is told what a task is."""
    with pytest.raises(TypeError, match="a task is a mapping such as"):
        client.submit_many(tasks)


@pytest.mark.parametrize("ask", [Client.cancel, Client.wait, Client.task])
@pytest.mark.parametrize("task", ["nope", "task:x", None, True, 1.5, ["task:1"]])
def test_what_is_no_task(client: Client, ask: Callable[..., object], task: object) -> None:
    """A task is named by its number or its job."""
    with pytest.raises(TypeError, match="is no task: say its number"):
        ask(client, task)


@pytest.mark.parametrize("task", [17, "task:17", SubmittedTask(17, "task:17", START, is_new=True)])
def test_the_ways_to_name_a_task(client: Client, task: int | str | SubmittedTask) -> None:
    """What ``submit`` gives is one of them."""
    with pytest.raises(DaemonNotRunningError):
        client.cancel(task)
    with pytest.raises(DaemonNotRunningError):
        client.wait(task, 0.5)
