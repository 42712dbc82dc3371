"""Goes to the background, and tells the one who asked for it whether the daemon came up.

python-daemon does the detaching: two forks, a session of its own, ``/`` as the directory. What is
added here is the answer. The process that was started stays until the one in the background has
said through a pipe that it is up, or why not, or has died without a word; it then ends with an
exit status that a script can go by.

To be called before there is a thread, a lock or an open file: none of them survives it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import NoReturn

from daemon import DaemonContext
from daemon.daemon import DaemonError

from crond_py.descriptors import occupy_standard_descriptors
from crond_py.errors import PycronError
from crond_py.logs.writer import open_log_file

_DIED = "pycron: the daemon ended before it was up; its log may say why"

# Six bytes a character at most as JSON; a pipe takes 64 KiB without a reader (pipe(7)).
_LONGEST_MESSAGE = 10_000


class Readiness:
    """The background's one word to the process that was started. The first word counts."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor: int | None = descriptor

    def up(self) -> None:
        """Let the process that was started end with status 0."""
        self._say("", 0)

    def failed(self, message: str, exit_code: int) -> None:
        """Let it write the message on its standard error and end with ``exit_code``."""
        self._say(message, exit_code)

    def _say(self, message: str, exit_code: int) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return
        # Small enough for the pipe, so it waits for nobody. SIGPIPE is ignored by Python.
        word = json.dumps((message[:_LONGEST_MESSAGE], exit_code))
        try:
            os.write(descriptor, word.encode("ascii"))
        except BrokenPipeError:
            pass  # the one who asked has gone; that is no reason not to run
        finally:
            os.close(descriptor)


def daemonize(log_file: Path | None) -> Readiness:
    """Go on in the background; the caller's process waits for what the Readiness is told.

    Standard output and error go to the end of ``log_file``, or nowhere. Every other descriptor is
    closed. Raises PycronError, in the foreground, where the log file cannot be opened.
    """
    occupy_standard_descriptors()
    log = None if log_file is None else os.fdopen(open_log_file(log_file), "ab")
    reader, writer = os.pipe()
    _flush_standard_streams()
    if os.fork():
        os.close(writer)
        _leave_with_the_word(reader)
    os.close(reader)
    readiness = Readiness(writer)
    try:
        _context(log, keep=writer).open()
    except (DaemonError, OSError) as error:
        readiness.failed(f"pycron: cannot go to the background: {error}", PycronError.exit_code)
        os._exit(PycronError.exit_code)
    return readiness


def _context(log: object, *, keep: int) -> DaemonContext:
    """Return python-daemon's context, with the defaults that would reach the jobs put right.

    Left to itself it takes core files and three signals away from every process that comes after,
    and stays in the foreground where it believes that init has started it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:  # closed when Python began; its number is /dev/null by now
            setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))
    return DaemonContext(
        detach_process=True,
        working_directory="/",
        umask=0o077,
        prevent_core=False,
        signal_map={},
        files_preserve=[keep],
        stdout=log,
        stderr=log,
    )


def _flush_standard_streams() -> None:
    """See to it that nothing that waits in a buffer is written twice after a fork."""
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()


def _leave_with_the_word(reader: int) -> NoReturn:
    """Wait for the word from the background, pass it on, and end this process."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with os.fdopen(reader, "rb") as pipe:
        word = pipe.read()
    message, exit_code = json.loads(word) if word else (_DIED, PycronError.exit_code)
    if message and sys.stderr is not None:
        sys.stderr.write(f"{message}\n")
        sys.stderr.flush()
    os._exit(exit_code)
