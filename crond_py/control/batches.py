"""Tasks on their way to the daemon: as values of JSON, in batches that one request can carry."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import date, datetime, time, timedelta
from typing import Any, Final, TypeVar

from crond_py.clock import check_aware
from crond_py.control.protocol import MAX_REQUEST_BYTES, MOST_TASKS
from crond_py.errors import Fault, TaskRefusedError, UsageError
from crond_py.model import Retry
from crond_py.schedule import format_duration

_ENVELOPE_BYTES: Final = 1024
LONGEST_TASK: Final = MAX_REQUEST_BYTES - _ENVELOPE_BYTES
"""How many bytes a task has at most, as JSON in ASCII."""

_LONGEST_SHOWN: Final = 60

_SUDO: Final = ("SUDO_UID", "SUDO_USER")
_JSON: Final = json.JSONEncoder(separators=(",", ":"))

T = TypeVar("T")


def submitted_for() -> str | None:
    """Return the user for whom this process submits, if not the one it runs as: sudo's caller."""
    uid, user = map(os.environ.get, _SUDO)
    return user if os.geteuid() == 0 and user and uid and uid != "0" else None


def task_values(said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is said of a task as JSON has it; None is left out.

    Raises UsageError, and of that ScheduleError for a datetime that names no instant.
    """
    return {name: _plain(value) for name, value in said.items() if value is not None}


def _plain(value: object) -> object:
    match value:
        case datetime():
            check_aware(value)
            return value.isoformat()
        case timedelta():
            return _span_text(value)
        case os.PathLike():
            return os.fspath(value)
        case Mapping() | Retry():
            named = asdict(value) if isinstance(value, Retry) else value
            return {str(name): _plain(each) for name, each in named.items()}
        case tuple() | list() | set() | frozenset():
            return [_plain(each) for each in value]
    return value


def _span_text(span: timedelta) -> str:
    if span < timedelta(0):
        raise UsageError(f"a length of time cannot be negative: {span}")
    return format_duration(span)


def size_of(values: Mapping[str, Any], path: str = "", line: int = 0) -> int:
    """Return how many bytes a task takes in a request.

    Raises TaskRefusedError, for a task that is from that place, where no request can carry it, or
    something in it is no value that JSON has.
    """
    try:
        size = len(_JSON.encode(values)) + 1
    except (TypeError, ValueError, RecursionError) as error:
        key, message = next(_misfits(values, ""), ("", f"is not plain data: {error}"))
        raise TaskRefusedError((Fault(path, line, key, message),)) from None
    if size > LONGEST_TASK:
        message = f"has {size} bytes as JSON, and a task has at most {LONGEST_TASK}"
        fault = Fault(path, line, "", message, "put what is long into a file")
        raise TaskRefusedError((fault,))
    return size


def _misfits(value: object, key: str) -> Iterator[tuple[str, str]]:
    """Yield the place of each value that JSON does not have, and what is wrong with it."""
    match value:
        case None | str() | bool() | int() | float():
            return
        case Mapping():
            for name, each in value.items():
                yield from _misfits(each, f"{key}.{name}" if key else str(name))
        case list():
            for place, each in enumerate(value):
                yield from _misfits(each, f"{key}[{place}]")
        case date() | time():
            wanted = 'a datetime with a time zone, or text such as "2026-12-24T18:00:00+01:00"'
            yield key, f"must be {wanted}, not {value!r}"
        case _:
            plain = "text, numbers, booleans, and lists and mappings of these"
            yield key, f"is not plain data ({plain}), but {_shortened(repr(value))}"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def packed(entries: Iterable[T | None], size_of: Callable[[T], int]) -> Iterator[list[T]]:
    """Yield entries in batches that one request can carry; ``size_of`` is in bytes.

    None among them ends a batch: the next entry is long in coming.
    """
    batch: list[T] = []
    size = 0
    for entry in entries:
        if entry is None:
            if batch:
                yield batch
                batch, size = [], 0
            continue
        more = size_of(entry)
        if batch and (len(batch) == MOST_TASKS or size + more > LONGEST_TASK):
            yield batch
            batch, size = [], 0
        batch.append(entry)
        size += more
    if batch:
        yield batch


def placed_faults(error: TaskRefusedError, path: str, lines: Sequence[int]) -> tuple[Fault, ...]:
    """Return the faults of a batch with their places; ``lines`` are those of its tasks."""
    return tuple(
        replace(fault, path=path, line=lines[max(fault.line, 1) - 1]) for fault in error.faults
    )
