"""Start one process, or say in plain words why there is none.

A start can hang where a disk is dead. subprocess starts its child by vfork(2), holding the
interpreter still until the child has executed its program; so what may hang is tried beforehand,
by calls that hold up only the thread they are made in: the working directory is looked at, the
program looked up, the output opened. The same calls tell which of them is at fault.

The child leads a session of its own, has no descriptor of ours but its three, the default
dispositions and an empty mask of signals, and nothing of our environment.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
import subprocess
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from crond_py.ports import ProcessSpec
from crond_py.printable import printable_line
from crond_py.runner.environment import base_environment, current_account
from crond_py.runner.output import open_output

_EXEC_FAULTS = {
    errno.EAGAIN: "the system's limit on processes is reached",
    errno.ENOMEM: "the system has no memory for another process",
    errno.EMFILE: "pycron has too many open files",
    errno.ENFILE: "the system has too many open files",
    errno.E2BIG: "its command line and environment are too long",
    errno.ETXTBSY: "the program is being written to",
    errno.ENOEXEC: "not a program: a script needs a first line such as #!/bin/sh",
}


@dataclass(frozen=True, slots=True)
class Spawned:
    """A process that runs. ``note`` says what is not as it was asked for, or is empty.

    ``memory_floor_kb`` is what wait4(2) will report as its peak memory at least: Linux counts
    the memory of ours that the child shared until it executed its program.
    """

    pid: int
    memory_floor_kb: int
    note: str


@dataclass(frozen=True, slots=True)
class Refused:
    """No process was started."""

    reason: str


def spawn(given: ProcessSpec) -> Spawned | Refused:
    """Start the process. The caller is the one that waits for it."""
    account = current_account()
    environment = {**base_environment(account, shell=given.shell), **given.env}
    spec = replace(given, env=environment, cwd=given.cwd or account.home)
    if fault := _find_text_fault(spec):
        return Refused(fault)
    name = printable_line(spec.argv[0])
    try:
        _check_directory(spec.cwd)
    except OSError as error:
        return Refused(f"working directory {printable_line(spec.cwd)}: {_cause(error)}")
    try:
        program = find_program(spec.argv[0], spec.env.get("PATH", os.defpath), spec.cwd)
    except OSError as error:
        return Refused(f"{_cause(error)}: {name}")
    output, note = _open_output(spec)
    try:
        return Spawned(_execute(spec, program, output), _peak_memory_kb(), note)
    except OSError as error:
        return Refused(_explain(error, name, _interpreter(program, spec.cwd)))
    finally:
        if output is not None:
            os.close(output)


def _find_text_fault(spec: ProcessSpec) -> str:
    """Return what keeps the texts of a spec from being handed to the kernel, or ""."""
    if not spec.argv or not spec.argv[0]:
        return "the command is empty"
    texts = {"the command line": "".join(spec.argv), "the working directory's name": spec.cwd}
    for name, value in spec.env.items():
        shown = printable_line(name)
        if not name or "=" in name:
            return f"no environment variable can be named {shown!r}"
        texts[f"the environment variable {shown}"] = name + value
    for place, text in texts.items():
        if "\0" in text:
            return f"a NUL character in {place}"
        try:
            _encode(text)
        except UnicodeEncodeError:
            return f"a character that UTF-8 has not in {place}"
    return ""


def _encode(text: str) -> bytes:
    """Return the bytes of a text of the crontab, which is UTF-8 whatever our locale is."""
    return text.encode("utf-8", "surrogateescape")


def _check_directory(path: str) -> None:
    if not stat.S_ISDIR(Path(path).stat().st_mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    if not os.access(path, os.X_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))


def find_program(name: str, path: str, cwd: str) -> bytes:
    """Return what to execute for ``name``: the first match on ``path``, as execvp(3) finds it.

    Relative names are kept and count from ``cwd``. Raises OSError for the best candidate:
    one that is there and may not be executed rather than none.
    """
    if "/" in name:
        _check_program(_place(name, cwd))
        return _encode(name)
    fault: OSError = FileNotFoundError(errno.ENOENT, "command not found on PATH")
    for directory in path.split(":"):
        candidate = f"{directory or '.'}/{name}"
        try:
            _check_program(_place(candidate, cwd))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            fault = error
            continue
        return _encode(candidate)
    raise fault


def _place(name: str, cwd: str) -> bytes:
    return _encode(name if name.startswith("/") else f"{cwd}/{name}")


def _check_program(place: bytes) -> None:
    mode = os.stat(place).st_mode  # noqa: PTH116 - a Path cannot hold bytes
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(mode):
        raise PermissionError(errno.EACCES, "not a regular file")
    if not os.access(place, os.X_OK, effective_ids=True):
        raise PermissionError(errno.EACCES, "may not be executed (mode, or a noexec mount)")
    # A page of the program, so that a dead disk is met here.
    with suppress(PermissionError):  # a program may be executable and not readable
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.pread(descriptor, 256, 0)
        finally:
            os.close(descriptor)


def _open_output(spec: ProcessSpec) -> tuple[int | None, str]:
    """Return the descriptor for the output. A job does not fail because its log cannot be kept."""
    if spec.output is None:
        return None, ""
    try:
        return open_output(spec.output.path), ""
    except OSError as error:
        path = printable_line(str(spec.output.path))
        return None, f"its output is not kept: {path}: {_cause(error)}"


def _execute(spec: ProcessSpec, program: bytes, output: int | None) -> int:
    target = subprocess.DEVNULL if output is None else output
    process = subprocess.Popen(  # noqa: S603 - to run what the crontab says is what this is for
        [_encode(argument) for argument in spec.argv],
        executable=program,
        stdin=subprocess.DEVNULL,
        stdout=target,
        stderr=target,
        close_fds=True,
        cwd=_encode(spec.cwd),
        env={_encode(name): _encode(value) for name, value in spec.env.items()},
        restore_signals=True,
        start_new_session=True,
        umask=spec.umask,
    )
    # The supervisor waits for the child. An object that believes it has its exit status leaves
    # it alone when it is collected, and does not warn.
    process.returncode = 0
    return process.pid


def _peak_memory_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _cause(error: OSError) -> str:
    """Return the cause with its errno's name: ``no such file or directory (ENOENT)``."""
    text = error.strerror or str(error)
    text = text[:1].lower() + text[1:]
    code = errno.errorcode.get(error.errno or 0)
    return f"{text} ({code})" if code else text


def _interpreter(program: bytes, cwd: str) -> str:
    """Return the interpreter that a script's first line names, or ""."""
    try:
        descriptor = os.open(_place(os.fsdecode(program), cwd), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:  # not ours to read: then the error is told without it
        return ""
    try:
        line = os.pread(descriptor, 256, 0).split(b"\n")[0]
    finally:
        os.close(descriptor)
    words = line.removeprefix(b"#!").split() if line.startswith(b"#!") else []
    return printable_line(os.fsdecode(words[0])) if words else ""


def _explain(error: OSError, name: str, interpreter: str) -> str:
    """Return why a program that was found could not be executed."""
    if interpreter and error.errno in {errno.ENOENT, errno.EACCES}:
        return f"{_cause(error)}: {interpreter}, the interpreter of {name}"
    if words := _EXEC_FAULTS.get(error.errno or 0):
        return f"cannot start {name}: {words} ({errno.errorcode[error.errno or 0]})"
    return f"{_cause(error)}: {name}"
