"""Has a crontab read by a process of its own, which ends with that.

The daemon runs for months. What only reading needs (the modules, tomllib's tables, several times
the memory of what comes out) is gone with that process, and its computing keeps no other thread of
the daemon from starting a job in time (P4). Whatever becomes of the process, the answer is a
crontab or a CrontabError.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import BinaryIO, Final

from crond_py.crontab.handover import BROKEN, receive
from crond_py.crontab.model import Crontab
from crond_py.errors import CrontabError, Fault

_UNHEARD: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that may go to all processes of the daemon, and are meant for the daemon."""


def load_apart(path: Path) -> Crontab:
    """Return the crontab of ``path``, as ``loader.load_crontab`` does in this process.

    Raises CrontabError as that does, and where the process that reads it cannot be started or ends
    before it is done.
    """
    outcome: Future[Crontab] = Future()

    def load() -> None:
        try:
            outcome.set_result(_load(path))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised below
            outcome.set_exception(error)

    # A child of the first thread would be taken for what a job has left (see runner.orphans).
    thread = threading.Thread(target=load, name="pycron-crontab")
    thread.start()
    thread.join()
    return outcome.result()


def _load(path: Path) -> Crontab:
    try:
        pid, stream = _start(path)
    except OSError as error:
        why = f"the Python at {sys.executable}, which reads it, cannot be started"
        raise _refusal(path, f"{why}: {error.strerror}") from None
    try:
        with stream:
            return receive(stream)
    except BROKEN:
        how = _how_it_ended(pid)
        pid = 0
        if how is None:
            message = "what was read cannot be made out; perhaps pycron was upgraded while it ran"
            raise _refusal(path, message, "restart pycron") from None
        message = f"the process that reads it {how} before it was done"
        raise _refusal(path, message, "is there too little memory?") from None
    finally:
        if pid:
            _how_it_ended(pid)  # it does: what it writes to is closed


def _start(path: Path) -> tuple[int, BinaryIO]:
    """Start the process; return its pid and what it says. Its complaints go where ours go."""
    # -P: nothing that lies in the current directory is taken for a module.
    arguments = [sys.executable, "-P", "-m", "crond_py.crontab", os.fspath(path)]
    reader, writer = os.pipe2(os.O_CLOEXEC)
    stream = os.fdopen(reader, "rb")
    actions = [(os.POSIX_SPAWN_DUP2, writer, 1)]
    try:
        pid = os.posix_spawn(
            sys.executable, arguments, os.environ, file_actions=actions, setsigmask=_UNHEARD
        )
    except OSError:
        stream.close()
        raise
    finally:
        os.close(writer)
    return pid, stream


def _how_it_ended(pid: int) -> str | None:
    """Wait for the end of the process, and return how it was; None: all went well."""
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code >= 0:
        return f"ended with exit status {code}" if code else None
    return f"was ended by signal {-code} ({signal.Signals(-code).name})"


def _refusal(path: Path, message: str, suggestion: str = "") -> CrontabError:
    return CrontabError((Fault(os.fspath(path), 0, "", message, suggestion),))
