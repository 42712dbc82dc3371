"""Tasks on their way to the daemon: what a program may give, and how it is packed."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePosixPath

import pytest

from crond_py.control.batches import (
    LONGEST_TASK,
    packed,
    placed_faults,
    size_of,
    submitted_for,
    task_values,
)
from crond_py.control.protocol import MAX_REQUEST_BYTES, MOST_TASKS, Submit, request_line
from crond_py.errors import Fault, TaskRefusedError, UsageError
from crond_py.model import Overlap, Retry


def test_values_of_a_program_are_written_as_json_has_them() -> None:
    """Instants with their offset, spans with units, paths and enums as text, sets as arrays."""
    said = {
        "command": ("a", Path("/b")),
        "at": datetime(2026, 12, 24, 18, 0, tzinfo=UTC),
        "timeout": timedelta(minutes=90),
        "cwd": PurePosixPath("/srv"),
        "overlap": Overlap.QUEUE,
        "success_codes": {0},
        "retry": {"attempts": 3, "delay": timedelta(seconds=5)},
        "user": None,
    }
    assert task_values(said) == {
        "command": ["a", "/b"],
        "at": "2026-12-24T18:00:00+00:00",
        "timeout": "1h30m",
        "cwd": "/srv",
        "overlap": "queue",
        "success_codes": [0],
        "retry": {"attempts": 3, "delay": "5s"},
    }


def test_what_cannot_be_said_is_refused() -> None:
    """A sentence, and no traceback out of the depths."""
    with pytest.raises(UsageError, match="cannot be negative"):
        task_values({"in": timedelta(seconds=-1)})
    with pytest.raises(UsageError, match="not plain data"):
        size_of(task_values({"command": object()}))


def test_a_full_batch_is_within_what_a_request_may_have() -> None:
    """However the sizes fall, each batch is one request that the daemon takes."""
    for length in (1, 100, 1000, 5000, LONGEST_TASK // 2, LONGEST_TASK - 20):
        tasks = [{"command": "ü" * (length // 6) + "x" * (length % 6)}] * (MOST_TASKS + 3)
        batches = list(packed(tasks, size_of))
        assert sum(map(len, batches)) == len(tasks)
        for batch in batches:
            assert 0 < len(batch) <= MOST_TASKS
            assert len(request_line(Submit(tuple(batch), "x" * 255))) <= MAX_REQUEST_BYTES


def test_a_task_that_no_request_can_carry_has_its_place() -> None:
    """The fault is like those that the daemon finds."""
    with pytest.raises(TaskRefusedError) as caught:
        size_of({"command": "x" * LONGEST_TASK}, "tasks.jsonl", 7)
    assert str(caught.value).startswith("tasks.jsonl:7: has ")


def test_faults_of_a_batch_get_their_lines() -> None:
    """A batch of one has no place of its own; of several each has."""
    error = TaskRefusedError((Fault("submitted", 2, "in", "is bad"), Fault("", 0, "", "is worse")))
    assert list(map(str, placed_faults(error, "f", [10, 12]))) == [
        "f:12: in: is bad",
        "f:10: is worse",
    ]


@pytest.mark.parametrize(
    ("uid", "user", "wanted"),
    [
        ("1000", "alice", "alice"),
        ("0", "root", None),
        (None, "alice", None),
        ("1000", "", None),
        ("1000", None, None),
    ],
)
def test_only_sudo_speaks_for_somebody_else(
    monkeypatch: pytest.MonkeyPatch, uid: str | None, user: str | None, wanted: str | None
) -> None:
    """And only for root: everybody else has no say in who he is."""
    for name, value in (("SUDO_UID", uid), ("SUDO_USER", user)):
        if value is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert submitted_for() == wanted
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert submitted_for() is None


def test_a_retry_of_the_package_is_one_of_a_task() -> None:
    """What the scheduler of this package takes can be handed in, too."""
    retry = Retry(attempts=3, delay=timedelta(seconds=5))
    assert task_values({"retry": retry})["retry"] == {
        "attempts": 3,
        "delay": "5s",
        "backoff": 2.0,
        "max_delay": "1h",
        "jitter": "0s",
    }
