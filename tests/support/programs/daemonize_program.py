"""Goes to the background and does there what the first argument says; for test_daemonize.

up: reports what it finds (JSON, into the file of the third argument), says that it is up, and
waits until the FIFO of the fourth is opened for writing. fail: says that it failed, with status
78. die: ends without a word.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from crond_py.daemonize import daemonize
from crond_py.errors import PycronError


def main() -> None:
    """Do it."""
    what, log, report, fifo = sys.argv[1:]
    parent = os.getpid()
    extra = os.open(os.devnull, os.O_RDONLY)
    os.set_inheritable(extra, True)
    if sys.stdout is not None:  # a test closes it
        sys.stdout.write("in a buffer\n")
    try:
        readiness = daemonize(Path(log) if log else None)
    except PycronError as error:
        sys.exit(f"refused: {error}")
    if what == "up":
        Path(report).write_text(json.dumps(found(parent)), encoding="utf-8")
        sys.stdout.write("to standard output\n")
        sys.stdout.flush()
        sys.stderr.write("to standard error\n")
        sys.stderr.flush()
        readiness.up()
        readiness.failed("the second word does not count", 5)
        with open(fifo, "rb"):  # noqa: PTH123 - the wait, until the test opens it as well
            pass
    elif what == "fail":
        readiness.failed("line one\nline two", 78)
        sys.exit(3)


def found(parent: int) -> dict[str, object]:
    """Return what a daemon should look like."""
    umask = os.umask(0)
    return {
        "parent": parent,
        "pid": os.getpid(),
        "session": os.getsid(0),
        "directory": os.getcwd(),  # noqa: PTH109 - a plain string is wanted
        "umask": umask,
        "core": Path("/proc/self/limits").read_text().split("Max core file size")[1].split()[:2],
        "descriptors": {
            name: os.readlink(f"/proc/self/fd/{name}")  # noqa: PTH115 - a plain string is wanted
            for name in sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 - likewise
            if os.path.lexists(f"/proc/self/fd/{name}")
        },
        "ignored": [
            number.name
            for number in (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGTERM)
            if signal.getsignal(number) != signal.SIG_DFL
        ],
    }


if __name__ == "__main__":
    main()
