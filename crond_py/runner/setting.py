"""What a process will find: its account, environment and directory, worked out when it starts.

``resolve`` needs no permission and starts nothing, so ``pycron env`` prints what it returns.
``prepare`` looks besides whether a process could be started so: as the job's user it enters the
directory, looks the program up and opens the input. It says what is at fault, and it waits for
what may hang, a dead disk or server, in the thread that it is called in, which a later fork could
not do without holding up others. Both raise CannotStartError in words for people.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from crond_py.dataclass import dataclass
from crond_py.errors import CannotStartError, CommandNotFoundError
from crond_py.ports import ProcessSpec
from crond_py.printable import printable_line
from crond_py.runner.accounts import Account, find_account
from crond_py.runner.credentials import acting_as
from crond_py.runner.envfile import parse_env_file
from crond_py.runner.environment import RESERVED, base_environment
from crond_py.runner.files import open_for
from crond_py.runner.programs import find_program
from crond_py.runner.wording import cause, encode
from crond_py.runner.writing import hold

_LARGEST_ENV_FILE = 1 << 20


@dataclass(frozen=True, slots=True)
class Setting:
    """Who runs a process, where, and with which environment, the whole of it."""

    account: Account
    env: Mapping[str, str]
    cwd: str

    @property
    def suffix(self) -> str:
        """What to add to a fault that only this user may have."""
        return suffix_for(self.account)


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that is needed to execute. ``program`` counts from the directory, where it is relative.

    ``stdin`` is a descriptor, or None for no input.
    """

    program: bytes
    stdin: int | None


def resolve(spec: ProcessSpec, account: Account | None = None) -> Setting:
    """Look up the account, unless it is given, and read the env files; return what results."""
    account = account or find_account(spec.user)
    env = base_environment(account, shell=spec.shell)
    for path in spec.env_files:
        env |= _read_env_file(account, path)
    env |= spec.env
    setting = Setting(account, env, spec.cwd or account.directory)
    if fault := _find_text_fault(spec.argv, setting):
        raise CannotStartError(fault)
    return setting


@contextmanager
def prepare(spec: ProcessSpec, setting: Setting) -> Iterator[Prepared]:
    """Find and open all that a process needs; what is open is closed again at the end."""
    program = find_executable(spec, setting)
    stdin = _open_stdin(spec.stdin, setting)
    try:
        yield Prepared(program, stdin)
    finally:
        if stdin is not None:
            os.close(stdin)


def find_executable(spec: ProcessSpec, setting: Setting) -> bytes:
    """Return what is to be executed, looked for by the job's user and from its directory.

    Raises CannotStartError where that cannot be entered, or the program not be executed.
    """
    with acting_as(setting.account):
        try:
            _check_directory(setting.cwd)
        except OSError as error:
            place = printable_line(setting.cwd)
            raise CannotStartError(
                f"working directory {place}: {cause(error)}{setting.suffix}"
            ) from None
        try:
            return find_program(spec.argv[0], setting.env.get("PATH", os.defpath), setting.cwd)
        except OSError as error:
            is_missing = isinstance(error, FileNotFoundError)
            kind = CommandNotFoundError if is_missing else CannotStartError
            name = printable_line(spec.argv[0])
            raise kind(f"{cause(error)}: {name}{setting.suffix}") from None


def suffix_for(account: Account) -> str:
    """Return what to add to a fault that only this user may have."""
    return "" if account.is_ours else f", as user {printable_line(account.name)}"


# --- the environment ----------------------------------------------------------------------------


def _read_env_file(account: Account, path: str) -> Mapping[str, str]:
    try:
        descriptor = open_for(account, path)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(_LARGEST_ENV_FILE + 1)
    except OSError as error:
        raise CannotStartError(
            f"env_file {printable_line(path)}: {cause(error)}{suffix_for(account)}"
        ) from None
    if len(data) > _LARGEST_ENV_FILE:
        raise CannotStartError(f"env_file {printable_line(path)}: is larger than 1 MiB")
    return parse_env_file(data, path, RESERVED)


def _find_text_fault(argv: tuple[str, ...], setting: Setting) -> str:
    """Return what keeps texts from being handed to the kernel, or ""."""
    if not argv or not argv[0]:
        return "the command is empty"
    if _is_fit_for_the_kernel(argv, setting):
        return ""
    texts = {"the command line": "".join(argv), "the working directory's name": setting.cwd}
    for name, value in setting.env.items():
        shown = printable_line(name)
        if not name or "=" in name:
            return f"no environment variable can be named {shown!r}"
        texts[f"the environment variable {shown}"] = name + value
    for place, text in texts.items():
        if "\0" in text:
            return f"a NUL character in {place}"
        try:
            encode(text)
        except UnicodeEncodeError:
            return f"a character that UTF-8 has not in {place}"
    return ""


def _is_fit_for_the_kernel(argv: tuple[str, ...], setting: Setting) -> bool:
    """Tell, in one go, whether nothing is at fault with any text."""
    names = setting.env.keys()
    if "" in names or "=" in "".join(names):
        return False
    everything = "".join((*argv, setting.cwd, *names, *setting.env.values()))
    try:
        encode(everything)
    except UnicodeEncodeError:
        return False
    return "\0" not in everything


# --- the directory, and what is read --------------------------------------------------------------


def _check_directory(path: str) -> None:
    if not stat.S_ISDIR(Path(path).stat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(path, os.X_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def _open_stdin(stdin: str | Path | None, setting: Setting) -> int | None:
    """Return a descriptor to read ``stdin`` from, at its beginning; None for nothing."""
    if stdin is None:
        return None
    if isinstance(stdin, str):
        return _hold_text(stdin)
    try:
        return open_for(setting.account, str(Path(setting.cwd, stdin)))
    except OSError as error:
        shown = printable_line(str(stdin))
        raise CannotStartError(f"stdin {shown}: {cause(error)}{setting.suffix}") from None


def _hold_text(text: str) -> int:
    """Return a descriptor of a file in memory that has the text, and nothing of it read yet."""
    try:
        return hold(encode(text), "pycron-stdin")
    except (OSError, UnicodeEncodeError) as error:
        why = cause(error) if isinstance(error, OSError) else "a character that UTF-8 has not"
        raise CannotStartError(f"stdin: its text cannot be held in memory: {why}") from None
