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
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

from crond_py.crontab.handover import BROKEN, receive
from crond_py.crontab.model import Crontab
from crond_py.errors import CrontabError, Fault
from crond_py.ports import Errand, StartErrand
from crond_py.schedule import format_duration


class Reading:
    """A crontab that is being read, from when this is made; ``result`` is to be called once."""

    def __init__(self, path: Path, start: StartErrand) -> None:
        self._path = path
        self._begun: tuple[Errand, BinaryIO] | OSError
        try:
            self._begun = _start(path, start)
        except OSError as error:
            self._begun = error

    def result(self, limit: timedelta | None = None) -> Crontab:
        """Wait for the crontab, and return it as ``loader.load_crontab`` does in this process.

        Raises CrontabError as that does, and where the process that reads it cannot be started or
        ends before it is done, or is not done within the limit: it is ended then.
        """
        if isinstance(self._begun, OSError):
            why = f"the Python at {sys.executable}, which reads it, cannot be started"
            raise _refusal(self._path, f"{why}: {self._begun.strerror}")
        errand, stream = self._begun
        late = threading.Event()
        timer = _ending_after(limit, errand, late) if limit is not None else None
        try:
            with stream:
                told = stream.read()
        finally:
            if timer is not None:
                timer.cancel()
                timer.join()  # once it is waited for, its number may be another's
            status = errand.wait()  # it ends: what it writes to is closed
        # Not before: what it has taken is given back by now.
        try:
            return receive(BytesIO(told))
        except BROKEN:
            if late.is_set() and limit is not None:
                raise _refusal(
                    self._path,
                    f"it could not be read within {format_duration(limit)}",
                    "does a file of it lie where reading hangs?",
                ) from None
            raise _not_understood(self._path, status) from None


def load_apart(path: Path, start: StartErrand, limit: timedelta | None = None) -> Crontab:
    """Have the crontab of ``path`` read, and return it; see ``Reading.result``."""
    return Reading(path, start).result(limit)


def _ending_after(limit: timedelta, errand: Errand, late: threading.Event) -> threading.Timer:
    """Have the process ended after a time, and noted that it was."""

    def end() -> None:
        late.set()
        errand.kill()

    timer = threading.Timer(limit.total_seconds(), end)
    timer.daemon = True
    timer.start()
    return timer


def _start(path: Path, start: StartErrand) -> tuple[Errand, BinaryIO]:
    """Start the process; return it and what it says."""
    # -P: nothing that lies in the current directory is taken for a module.
    argv = [sys.executable, "-P", "-m", "crond_py.crontab", os.fspath(path)]
    reader, writer = os.pipe2(os.O_CLOEXEC)
    stream = os.fdopen(reader, "rb")
    try:
        return start(argv, writer), stream
    except OSError:
        stream.close()
        raise
    finally:
        os.close(writer)


def _not_understood(path: Path, status: int | None) -> CrontabError:
    if status == 0:
        message = "what was read cannot be made out; perhaps pycron was upgraded while it ran"
        return _refusal(path, message, "restart pycron")
    how = "ended"
    if status is not None and status > 0:
        how = f"ended with exit status {status}"
    elif status is not None:
        how = f"was ended by signal {-status} ({_name(-status)})"
    message = f"the process that reads it {how} before it was done"
    return _refusal(path, message, "is there too little memory?")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "a real-time signal"


def _refusal(path: Path, message: str, suggestion: str = "") -> CrontabError:
    return CrontabError((Fault(os.fspath(path), 0, "", message, suggestion),))
