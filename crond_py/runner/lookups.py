"""What the starts of one moment have in common, looked up once for all of them.

Many that are due together are mostly of one user, in one directory, and of a few programs. What a
start needs is found ahead of its instant; what was found for another start just before is as good.
Only what is there is remembered: what is missing is looked for again. Whether a process can be
executed the kernel tells at its instant.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from typing import Final, TypeVar

from crond_py.ports import Clock, ProcessSpec
from crond_py.runner.accounts import Account, find_account
from crond_py.runner.setting import Setting, find_executable
from crond_py.runner.shellless import physical_directory

FRESH_NS: Final = 500_000_000

Key = TypeVar("Key", bound=Hashable)
Found = TypeVar("Found")


class Lookups:
    """Answers of the last half second. Any thread may ask; two may look for the same at once."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began_ns = -FRESH_NS
        self._accounts: dict[str | None, Account] = {}
        self._programs: dict[tuple[str | None, str, str, str], bytes] = {}
        self._directories: dict[str, str] = {}

    def account(self, user: str | None) -> Account:
        """Return the account of a user; see ``find_account``."""
        now_ns = self._clock.monotonic_ns()
        if now_ns - self._began_ns > FRESH_NS:
            self._began_ns = now_ns
            self._accounts, self._programs, self._directories = {}, {}, {}
        return _once(self._accounts, user, lambda: find_account(user))

    def program(self, spec: ProcessSpec, setting: Setting) -> bytes:
        """Return what is to be executed; see ``find_executable``."""
        path = setting.env.get("PATH", os.defpath)
        key = spec.user, spec.argv[0], path, setting.cwd
        return _once(self._programs, key, lambda: find_executable(spec, setting))

    def directory(self, cwd: str) -> str:
        """Return what a shell that begins in a directory has as PWD."""
        return _once(self._directories, cwd, lambda: physical_directory(cwd))


def _once(known: dict[Key, Found], key: Key, find: Callable[[], Found]) -> Found:
    if key not in known:
        known[key] = find()
    return known[key]
