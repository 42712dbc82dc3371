"""Execute a program with ``limits`` or ``nice``: by a tiny program in between, see ``shim``.

The shim is started like a job, with the job's streams. What it is to do it reads from memory, and
what has failed it tells by a pipe that its own execution of the job closes, so a fault is told
like that of any other start and is never part of the job's output. The nice value is set there,
too: a thread of ours that has one could not take it back, and while it held the interpreter on a
busy machine, the whole daemon would wait.
"""

from __future__ import annotations

import errno
import fcntl
import marshal
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from crond_py.errors import CannotStartError
from crond_py.model import Limits
from crond_py.ports import ProcessSpec
from crond_py.printable import printable_line
from crond_py.runner import shim
from crond_py.runner.credentials import not_permitted
from crond_py.runner.environment import RESERVED
from crond_py.runner.execute import EXEC_FAULTS, encoded, explain, popen
from crond_py.runner.setting import Prepared, Setting, prepare, resolve
from crond_py.runner.wording import cause, encode
from crond_py.runner.writing import hold

# Read once: an upgrade may replace the file while the daemon runs.
_SHIM: Final = Path(shim.__file__).read_text("utf-8")
_READY: Final = b"\0"
_STANDARD: Final = 2  # the last of the standard descriptors


def is_confined(spec: ProcessSpec) -> bool:
    """Tell whether the process begins as the shim."""
    return spec.nice is not None or spec.limits != Limits()


def execute_confined(
    spec: ProcessSpec, setting: Setting, prepared: Prepared, streams: tuple[int, int]
) -> int:
    """Start the process by the shim; return its pid. Raises CannotStartError."""
    try:
        pid, told = _run_shim(spec, setting, prepared, streams)
    except OSError as error:
        if error.errno in EXEC_FAULTS:
            raise CannotStartError(explain(error, spec, setting, prepared.program)) from None
        raise CannotStartError(
            f"the Python at {sys.executable}, which sets limits, cannot be executed: {cause(error)}"
        ) from None
    if told == _READY:
        return pid
    _, status = os.waitpid(pid, 0)
    raise CannotStartError(_explain_shim(told, status, spec, setting, prepared.program))


def _run_shim(
    spec: ProcessSpec, setting: Setting, prepared: Prepared, streams: tuple[int, int]
) -> tuple[int, bytes]:
    """Start the shim, and return its pid and all it tells before it has executed the job."""
    reader, writer = os.pipe2(os.O_CLOEXEC)
    with os.fdopen(reader, "rb") as told:
        with (
            _owned(writer) as report,
            _owned(_hold_orders(_orders(spec, setting, prepared.program))) as orders,
        ):
            shim_argv = (sys.executable, "-I", "-S", "-c", _SHIM, str(orders), str(report))
            pid = popen(
                [os.fsencode(argument) for argument in shim_argv],
                stdin=subprocess.DEVNULL if prepared.stdin is None else prepared.stdin,
                streams=streams,
                pass_fds=(orders, report),
                cwd="/",
                # Nothing of the job's may influence an interpreter that may be root's.
                env={name: setting.env[name] for name in RESERVED if name in setting.env},
                umask=spec.umask,
            )
        return pid, told.read()


@contextmanager
def _owned(descriptor: int) -> Iterator[int]:
    """Close a descriptor at the end; until then it has a number that is no standard stream's.

    Where we were started without these, a new descriptor would get one of their numbers, and in
    the child the stream of the job would take its place.
    """
    held = descriptor
    try:
        if descriptor <= _STANDARD:
            held = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _STANDARD + 1)
            os.close(descriptor)
        yield held
    finally:
        os.close(held)


def become(spec: ProcessSpec) -> None:
    """Turn this very process into the job's, but for its session and umask, which are kept.

    It returns only by raising CannotStartError. Of descriptors the job has the standard ones.
    """
    setting = resolve(spec)
    with prepare(spec, setting) as prepared:
        orders = _hold_orders(_orders(spec, setting, prepared.program))
        reader, writer = os.pipe2(os.O_CLOEXEC)
        for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
            if signal.getsignal(number) is signal.SIG_IGN:
                signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for name in Path("/proc/self/fd").iterdir():
            with suppress(OSError):  # the one that the directory itself was read by
                if int(name.name) > _STANDARD:
                    os.set_inheritable(int(name.name), False)
        shim.run(orders, writer)
        os.close(writer)
        with os.fdopen(reader, "rb") as report:
            told = report.read()
        raise CannotStartError(_explain_shim(told, 0, spec, setting, prepared.program))


def _orders(spec: ProcessSpec, setting: Setting, program: bytes) -> tuple[Any, ...]:
    """Return what the shim is told to do; see there."""
    account = setting.account
    return (
        spec.nice,
        _limits_of(spec.limits),
        None if account.is_ours else (account.uid, account.gid, list(account.groups)),
        encode(setting.cwd),
        program,
        [encode(argument) for argument in spec.argv],
        encoded(setting.env),
    )


def _limits_of(limits: Limits) -> list[tuple[str, int, int]]:
    """Return each limit's name, number and value."""
    values = {
        "address_space": (resource.RLIMIT_AS, limits.address_space_bytes),
        "cpu": (
            resource.RLIMIT_CPU,
            None if limits.cpu is None else int(limits.cpu.total_seconds()),
        ),
        "open_files": (resource.RLIMIT_NOFILE, limits.open_files),
        "processes": (resource.RLIMIT_NPROC, limits.processes),
        "file_size": (resource.RLIMIT_FSIZE, limits.file_size_bytes),
        "core": (resource.RLIMIT_CORE, limits.core_bytes),
    }
    return [(name, number, value) for name, (number, value) in values.items() if value is not None]


def _hold_orders(orders: tuple[Any, ...]) -> int:
    return hold(marshal.dumps(orders), "pycron-orders")


def _explain_shim(
    told: bytes, status: int, spec: ProcessSpec, setting: Setting, program: bytes
) -> str:
    """Return in words at which stage the shim has failed."""
    stage, _, code = told.removeprefix(_READY).decode().partition(":")
    if not code:
        how = os.waitstatus_to_exitcode(status)
        return f"the Python at {sys.executable}, which sets limits, did not get far (status {how})"
    number = int(code)
    error = OSError(number, os.strerror(number))
    match stage:
        case "nice":
            return f"nice {spec.nice}: {cause(error)}: only root can go below what pycron has"
        case "user":
            return not_permitted(setting.account.name, cause(error))
        case "cwd":
            error.filename = encode(setting.cwd)
        case "exec" if number == errno.EAGAIN and spec.limits.processes is not None:
            user = printable_line(setting.account.name)
            most = spec.limits.processes
            return f"limits.processes {most}: {user} has more processes than that already (EAGAIN)"
        case "exec":
            pass
        case _:
            values = {name: value for name, _, value in _limits_of(spec.limits)}
            wanted = values.get(stage, "")
            return f"limits.{stage} {wanted}: {cause(error)}: more than pycron itself may have"
    return explain(error, spec, setting, program)
