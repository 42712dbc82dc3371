"""What the client of submitted tasks takes, before it asks any daemon."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from crond_py import Client, DaemonNotRunningError, ScheduleError, SubmittedTask
from crond_py.errors import TaskRefusedError, UsageError
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


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        (
            {"at": date(2126, 12, 24)},
            (
                "at: must be a datetime with a time zone, or text such as"
                ' "2026-12-24T18:00:00+01:00", not datetime.date(2126, 12, 24)'
            ),
        ),
        (
            {"in_": b"1h"},
            (
                "in_: is not plain data (text, numbers, booleans, and lists and mappings of these),"
                " but b'1h'"
            ),
        ),
        (
            {"in_": "1h", "stdin": {"file": [Path("a"), {1}, 2j]}},
            (
                "stdin.file[2]: is not plain data (text, numbers, booleans, and lists and"
                " mappings of these), but 2j"
            ),
        ),
    ],
)
def test_what_is_no_plain_data_is_told_with_its_key(
    client: Client, keys: dict[str, Any], fault: str
) -> None:
    """What is wanted is said in Python's words, and nobody has to be asked for it."""
    with pytest.raises(TaskRefusedError) as caught:
        client.submit("true", **keys)
    assert str(caught.value) == fault
    with pytest.raises(TaskRefusedError) as caught:
        client.submit_many([{"command": "true", "in": "1h"}, {"command": "true", **keys}])
    assert str(caught.value) == f"submitted:2: {fault}"


@pytest.mark.parametrize(
    "timeout",
    [
        *(float("nan"), float("inf"), 1e300, -1, -0.5, timedelta(seconds=-1)),
        *("5", "", "soon", "-5s", [5], b"5s", 1j),
    ],
)
def test_what_is_no_time_to_wait(client: Client, timeout: Any) -> None:
    """A sentence of pycron's own, before the daemon is asked."""
    with pytest.raises(UsageError) as caught:
        client.wait(17, timeout)
    assert str(caught.value) == (
        'timeout must be a length of time (text with units such as "90s", a timedelta or seconds), '
        f"not {timeout!r}; None waits for as long as it takes"
    )


@pytest.mark.parametrize("timeout", ["5s", "1h30m", "0s", 5, 0.5, timedelta(seconds=5), None])
def test_what_is_a_time_to_wait(client: Client, timeout: str | float | timedelta | None) -> None:
    """Text with units is one as everywhere else; then the daemon is asked, and none is running."""
    with pytest.raises(DaemonNotRunningError):
        client.wait(17, timeout)


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
