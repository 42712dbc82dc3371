"""What jobs of a crontab name and this machine does not have: directories, files, programs.

A run of such a job would not start. What cannot be looked at is taken to be there: the daemon may
be another user.
"""

from __future__ import annotations

import os
import pwd
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from crond_py.crontab.model import Crontab, Job
from crond_py.errors import CannotStartError
from crond_py.printable import printable_line
from crond_py.runner.envfile import parse_env_file
from crond_py.runner.environment import PATH, RESERVED
from crond_py.runner.programs import find_program
from crond_py.runner.shellless import SHELL, split_simple

_Named = TypeVar("_Named", bound="str | _Program")

ONLY_ROOT: Final = "only a daemon of root can run jobs as another user"

_MOST_NAMED: Final = 3
_LARGEST_READ: Final = 1 << 20


class _Program(NamedTuple):
    """The first word of a command, and what it is looked up by."""

    name: str
    path: str
    cwd: str

    def __str__(self) -> str:
        return self.name


def absent(crontab: Crontab) -> Iterator[str]:
    """Yield a warning for each thing that is not there, with the enabled jobs that name it."""
    jobs = [job for job in crontab.jobs.values() if job.enabled]
    for key, named, fault_of in (
        ("cwd", _directory, _fault_of_directory),
        ("shell", _shell, _fault_of_shell),
        ("env_file", _env_files, _fault_of_env_file),
        ("stdin", _stdin, _fault_of_file),
    ):
        yield from _faults(jobs, key, named, fault_of)
    yield from _faults(jobs, "command", _programs, _fault_of_program)
    yield from _faults(jobs, "PATH", _paths, _fault_of_path)


def absent_of_task(
    values: Mapping[str, Any], search_path: str | None, daemon_uid: int
) -> Iterator[str]:
    """Yield a warning for each thing that is not there and a task names, by the keys of a job.

    ``search_path`` is the PATH that it has if it says none; None where that is not known. So is a
    user for whom the daemon, which is that of ``daemon_uid``, can run nothing.
    """
    for key, fault_of in (
        ("cwd", _fault_of_directory),
        ("shell", _fault_of_shell),
        ("env_file", _fault_of_env_file),
    ):
        path = values.get(key)
        if isinstance(path, str) and path.startswith("/") and (fault := fault_of(path)):
            yield f"{key} {printable_line(path)}: {fault}"
    program = _program_of_task(values, search_path)
    if program is not None and (fault := _fault_of_program(program)):
        where = "" if "/" in program.name else f" ({printable_line(program.path)})"
        yield f"command {printable_line(program.name)}: {fault}{where}"
    user = values.get("user")
    if isinstance(user, str):
        what, uid = f"user {printable_line(user)}", uid_of(user)
        if uid is None:
            yield f"{what}: there is no such user"
        elif daemon_uid not in {0, uid}:
            yield f"{what}: {ONLY_ROOT}"


def _program_of_task(values: Mapping[str, Any], search_path: str | None) -> _Program | None:
    """Return what a task executes, where that can be told without a shell and without its user."""
    command, cwd, env = values.get("command"), values.get("cwd"), values.get("env")
    words = command if isinstance(command, list) else split_simple(str(command))
    if not words or (isinstance(command, str) and "shell" in values):
        return None
    own_path = env.get("PATH") if isinstance(env, dict) else None
    path = search_path if own_path is None else str(own_path)
    if "/" in words[0]:
        places, path = [words[0]], ""
    elif path is None or "env_file" in values:
        return None
    else:
        places = path.split(":")
    if not isinstance(cwd, str) and not all(each.startswith("/") for each in places):
        return None  # it counts from the home of the task's user
    return _Program(words[0], path, cwd if isinstance(cwd, str) else "/")


def uid_of(user: str) -> int | None:
    """Return the number of a user, which needs no name; None for a name that there is not."""
    try:
        return int(user) if user.isascii() and user.isdigit() else pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def _faults(
    jobs: Iterable[Job],
    key: str,
    named: Callable[[Job], Sequence[_Named]],
    fault_of: Callable[[_Named], str],
) -> Iterator[str]:
    found: dict[_Named, list[Job]] = {}
    for job in jobs:
        for each in named(job):
            found.setdefault(each, []).append(job)
    for each, those in found.items():
        if fault := fault_of(each):
            names = listed([job.name for job in those])
            yield f"{those[0].source}: {key} {printable_line(str(each))} of {names}: {fault}"


def listed(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    shown = ", ".join(names[:_MOST_NAMED])
    return f"{shown} and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else shown


def _directory(job: Job) -> Sequence[str]:
    return () if job.cwd is None else (job.cwd,)


def _shell(job: Job) -> Sequence[str]:
    return (job.shell,) if isinstance(job.command, str) else ()


def _env_files(job: Job) -> Sequence[str]:
    return job.env_files


def _stdin(job: Job) -> Sequence[str]:
    return (str(job.stdin),) if isinstance(job.stdin, Path) else ()


def _programs(job: Job) -> Sequence[_Program]:
    """Return what a job executes, where that can be told without a shell and without its user."""
    words: Sequence[str] | None = job.command
    if isinstance(job.command, str):
        words = split_simple(job.command) if job.shell == SHELL else None
    if not words or job.env_files:
        return ()
    name, path = words[0], job.env.get("PATH", PATH)
    places = [name] if "/" in name else path.split(":")
    if job.cwd is None and not all(each.startswith("/") for each in places):
        return ()  # it counts from the home of the job's user
    return (_Program(name, path, job.cwd or "/"),)


def _mode(path: str) -> int | None:
    """Return the mode of what is there, 0 if nothing is; None if that cannot be seen."""
    try:
        return Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0
    except OSError:
        return None


def _fault_of_directory(path: str) -> str:
    mode = _mode(path)
    if mode is None or stat.S_ISDIR(mode):
        return ""
    return "it is no directory" if mode else "there is no such directory"


def _fault_of_file(path: str) -> str:
    mode = _mode(path)
    if mode is None or stat.S_ISREG(mode) or stat.S_ISCHR(mode):
        return ""
    return "it is no file" if mode else "there is no such file"


def _fault_of_shell(path: str) -> str:
    if fault := _fault_of_file(path):
        return fault
    may_be_executed = stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH
    mode = _mode(path)
    return "" if mode is None or mode & may_be_executed else "it cannot be executed"


def _fault_of_env_file(path: str) -> str:
    if fault := _fault_of_file(path):
        return fault
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(_LARGEST_READ + 1)
    except OSError:
        return ""
    if len(data) > _LARGEST_READ:
        return "it is larger than 1 MiB"
    try:
        parse_env_file(data, path, RESERVED)
    except CannotStartError as error:
        line, _, fault = str(error).partition(f"{printable_line(path)}:")[2].partition(": ")
        return f"line {line}: {fault}"
    return ""


def _fault_of_program(program: _Program) -> str:
    try:
        find_program(*program)
    except (FileNotFoundError, NotADirectoryError):
        return "there is no such file" if "/" in program.name else "it is not found on PATH"
    except IsADirectoryError:
        return "it is a directory"
    except OSError:  # it may be the daemon's user who can
        path = os.path.join(program.cwd, program.name)  # noqa: PTH118 - as it is written
        return _fault_of_shell(path) if "/" in program.name else ""
    return ""


def _paths(job: Job) -> Sequence[str]:
    """Return the entries of a job's PATH that are written as for a shell."""
    entries = job.env.get("PATH", "").split(":")
    return [entry for entry in entries if entry.startswith("~") or "$" in entry]


def _fault_of_path(entry: str) -> str:
    return "" if _mode(entry) else "it is not expanded; write the path out"
