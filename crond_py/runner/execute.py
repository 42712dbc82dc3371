"""Execute a program by subprocess, with the job's user where that is another one.

Python's own child code does all between fork and exec, in C: by vfork(2), or by fork(2) where
groups and ids are to be set. It sets all groups, and the real, effective and saved ids: there is
no way back for the job.
"""

from __future__ import annotations

import errno
import subprocess
from collections.abc import Mapping
from typing import Final

from crond_py.errors import CannotStartError
from crond_py.ports import ProcessSpec
from crond_py.printable import printable_line
from crond_py.runner.brand import BRANDING
from crond_py.runner.credentials import acting_as, not_permitted
from crond_py.runner.marks import brand_in
from crond_py.runner.programs import interpreter_of
from crond_py.runner.setting import Prepared, Setting
from crond_py.runner.wording import cause, encode

EXEC_FAULTS: Final = {
    errno.EAGAIN: "the system's limit on processes is reached",
    errno.ENOMEM: "the system has no memory for another process",
    errno.EMFILE: "pycron has too many open files; raise LimitNOFILE= of its unit, or ulimit -n",
    errno.ENFILE: "the system has too many open files",
    errno.E2BIG: "its command line and environment are too long",
    errno.ETXTBSY: "the program is being written to",
    errno.ENOEXEC: "not a program: a script needs a first line such as #!/bin/sh",
}


def execute(
    spec: ProcessSpec, setting: Setting, prepared: Prepared, streams: tuple[int, int]
) -> int:
    """Start the process by subprocess alone; return its pid. Raises CannotStartError."""
    account = setting.account
    is_ours = account.is_ours
    try:
        # The directory is entered before the user is changed, so that has to be as the user, too.
        with acting_as(account):
            return popen(
                [encode(argument) for argument in spec.argv],
                executable=prepared.program,
                stdin=subprocess.DEVNULL if prepared.stdin is None else prepared.stdin,
                streams=streams,
                cwd=encode(setting.cwd),
                env=encoded(setting.env),
                umask=spec.umask,
                user=None if is_ours else account.uid,
                group=None if is_ours else account.gid,
                extra_groups=None if is_ours else account.groups,
            )
    except OSError as error:
        raise CannotStartError(explain(error, spec, setting, prepared.program)) from None


def popen(
    argv: list[bytes],
    *,
    streams: tuple[int, int],
    env: Mapping[bytes, bytes] | Mapping[str, str],
    pass_fds: tuple[int, ...] = (),
    **more: object,
) -> int:
    """Start a child that is set apart from us, and return its pid. Raises OSError.

    It carries the brand of the attempt that its environment names.
    """
    brand = brand_in(env)
    with BRANDING.put(brand):
        # To run what the crontab says is what this is for; the overloads know no **more.
        process = subprocess.Popen(  # type: ignore[call-overload]  # noqa: S603
            argv,
            stdout=streams[0],
            stderr=streams[1],
            close_fds=True,
            pass_fds=pass_fds,
            restore_signals=True,
            start_new_session=True,
            env=env,
            **more,
        )
    # The supervisor waits for the child. An object that believes it has its exit status leaves
    # it alone when it is collected, and does not warn.
    process.returncode = 0
    BRANDING.correct(process.pid, brand)
    return int(process.pid)


def encoded(env: Mapping[str, str]) -> dict[bytes, bytes]:
    """Return an environment as execve(2) wants it."""
    return {encode(name): encode(value) for name, value in env.items()}


def explain(error: OSError, spec: ProcessSpec, setting: Setting, program: bytes) -> str:
    """Return why a program that was found could not be executed."""
    name, code = printable_line(spec.argv[0]), error.errno or 0
    has_executed = error.filename not in (None, encode(setting.cwd))
    if not has_executed and code == errno.EPERM and not setting.account.is_ours:
        return not_permitted(setting.account.name, cause(error))
    if error.filename == encode(setting.cwd):
        return f"working directory {printable_line(setting.cwd)}: {cause(error)}{setting.suffix}"
    interpreter = interpreter_of(program, setting.cwd)
    if interpreter and code in {errno.ENOENT, errno.EACCES}:
        return f"{cause(error)}: {interpreter}, the interpreter of {name}{setting.suffix}"
    if words := EXEC_FAULTS.get(code):
        return f"{words} ({errno.errorcode[code]}): {name}"
    return f"{cause(error)}: {name}{setting.suffix}"
