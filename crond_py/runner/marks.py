"""The marks by which a process shows, by itself, to which attempt it belongs.

There are two, given to the process that is started and inherited by all that descends from it:

- ``PYCRON_RUN_ID`` and ``PYCRON_ATTEMPT`` in its environment, until a program clears or writes
  over that;
- its brand: the soft limit on file locks (RLIMIT_LOCKS), which since Linux 2.4.25 limits nothing,
  says nothing to any program, and goes with every fork, execve and setsid. Its number names the
  ledger, the run and the attempt (see ``brand``).

Both tell of a run's tree through a crash of the daemon and to the next one. Where they name
different attempts of one ledger the environment is right: it was given to that process alone, and
a brand may be another start's for a moment (see ``brand``).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from crond_py.runner import procfile
from crond_py.runner.environs import read_environments

_TAG = b"PYCRON_RUN_ID"
_ATTEMPT = b"PYCRON_ATTEMPT"
_JOB = b"PYCRON_JOB"
_DUE = b"PYCRON_DUE"
_LONGEST_NUMBER = 10

_LIMIT_NAME = b"Max file locks"
_IS_BRAND = 1 << 62  # no number of locks that anybody would ask for
_LEDGER_BITS, _RUN_BITS, _ATTEMPT_BITS = 24, 28, 8


class Marks(NamedTuple):
    """What a process shows; "", 0 and None stand for a mark that it has not."""

    tag: str = ""
    attempt: int = 0
    brand: int | None = None

    def name(self, tag: str, attempt: int, *, or_earlier: bool = False) -> bool:
        """Return whether they name an attempt of a run, or one before it.

        Where the environment gives only a run, it stands for any attempt of that.
        """
        first = 1 if or_earlier else attempt
        if self.tag == tag:
            return not self.attempt or first <= self.attempt <= attempt
        identity = tag.rpartition("-")[0]
        if self.brand is None or self._is_of(identity):
            return False
        branded = tag_of_brand(self.brand, identity)
        return branded is not None and branded[0] == tag and first <= branded[1] <= attempt

    def attempt_of(self, identity: str) -> tuple[str, int] | None:
        """Return the tag and the attempt that they name, where those are of that ledger."""
        is_told = self._is_of(identity)
        if is_told and self.attempt:
            return self.tag, self.attempt
        branded = None if self.brand is None else tag_of_brand(self.brand, identity)
        return None if is_told and branded and branded[0] != self.tag else branded

    def are_of_ledger_of(self, tag: str) -> bool:
        """Return whether they name some attempt of the ledger that a tag is of."""
        identity = tag.rpartition("-")[0]
        return self._is_of(identity) or self.attempt_of(identity) is not None

    def _is_of(self, identity: str) -> bool:
        return self.tag.startswith(f"{identity}-")


def brand_for(tag: str, attempt: int) -> int | None:
    """Return the brand of an attempt, or None where its numbers are too large for one."""
    identity, _, number = tag.rpartition("-")
    if not number.isascii() or not number.isdigit() or len(number) > _LONGEST_NUMBER:
        return None
    run = int(number)
    if not identity or run >> _RUN_BITS or attempt >> _ATTEMPT_BITS:
        return None
    ledger = zlib.crc32(os.fsencode(identity)) >> (32 - _LEDGER_BITS)
    return _IS_BRAND | ((ledger << _RUN_BITS | run) << _ATTEMPT_BITS) | attempt


def brand_in(env: Mapping[bytes, bytes] | Mapping[str, str]) -> int | None:
    """Return the brand of the attempt that an environment names, or None where it names none."""
    marks = _marks_in({os.fsencode(name): os.fsencode(value) for name, value in env.items()})
    return brand_for(*marks) if marks[1] else None


def tag_of_brand(brand: int, identity: str) -> tuple[str, int] | None:
    """Return the tag and the attempt that a brand means; None if it is of another ledger."""
    run = brand >> _ATTEMPT_BITS & ((1 << _RUN_BITS) - 1)
    tag, attempt = f"{identity}-{run}", brand & ((1 << _ATTEMPT_BITS) - 1)
    return (tag, attempt) if brand_for(tag, attempt) == brand else None


def read_marks(pid: int) -> Marks:
    """Return the marks of a process, as far as we may see them."""
    return read_all_marks([pid])[pid]


def read_all_marks(pids: Collection[int]) -> dict[int, Marks]:
    """Return the marks of some processes, as far as we may see them."""
    environments = read_environments(pids)
    return {
        pid: Marks(*_marks_in(_ours_in(environments.get(pid, b""))), read_brand(pid))
        for pid in pids
    }


def read_origin(pid: int) -> tuple[str, datetime] | None:
    """Return the job and the due instant in a process's environment, None where they are not."""
    env = _ours_in(read_environments([pid]).get(pid, b""))
    try:
        due = datetime.fromisoformat(env[_DUE].decode("ascii")).astimezone(UTC)
        return env[_JOB].decode(), due
    except (KeyError, ValueError, OverflowError):
        return None


def _marks_in(env: Mapping[bytes, bytes]) -> tuple[str, int]:
    attempt = env.get(_ATTEMPT, b"")
    is_number = attempt.isdigit() and len(attempt) < _LONGEST_NUMBER
    return os.fsdecode(env.get(_TAG, b"")), int(attempt) if is_number else 0


def read_brand(pid: int) -> int | None:
    """Return the brand of a process, also of one that has ended and is not reaped."""
    _, found, rest = (procfile.read(f"/proc/{pid}/limits") or b"").partition(_LIMIT_NAME)
    words = rest.split(None, 1)
    if not found or not words or not words[0].isdigit():
        return None
    number = int(words[0])
    return number if number >= _IS_BRAND else None


def _ours_in(environment: bytes) -> dict[bytes, bytes]:
    """Return our own variables out of a process's environment."""
    if b"\0" + _TAG + b"=" not in b"\0" + environment:
        return {}
    items = environment.split(b"\0")
    pairs = (item.partition(b"=") for item in items if item.startswith(b"PYCRON_"))
    # getenv(3) takes the first of two equal names.
    return {name: value for name, _, value in reversed(list(pairs))}
