"""Starts a program again and again, as plainly as can be: plain_starter.py FIRST PERIOD COMMAND...

FIRST and PERIOD are in nanoseconds. Each PERIOD after FIRST, on the wall clock, it writes down that
it is about to start the COMMAND, durably, in the file "plain" of its directory, and starts it. What
it starts finds in its environment what pycron would tell a job. It has no policy and thinks of no
faults: what is late here the machine has made late.
"""

import os
import signal
import sys
import time
from datetime import UTC, datetime

_SECOND = 1_000_000_000


def main() -> None:
    """Go on until somebody ends it."""
    first_ns, period_ns = map(int, sys.argv[1:3])
    command = sys.argv[3:]
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    book = os.open("plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    passed = (time.time_ns() - first_ns) // period_ns  # noqa: TID251 - a program of its own
    for number in range(passed + 1, sys.maxsize):
        due_ns = first_ns + number * period_ns
        while (left_ns := due_ns - time.time_ns()) > 0:  # noqa: TID251 - likewise
            time.sleep(left_ns / _SECOND)  # noqa: TID251 - likewise
        os.write(book, b"%d\n" % due_ns)
        os.fdatasync(book)
        due = datetime.fromtimestamp(due_ns / _SECOND, UTC)
        told = {"JOB": "plain", "RUN_ID": number, "DUE": due.isoformat(), "ATTEMPT": 1}
        environment = {f"PYCRON_{key}": str(value) for key, value in told.items()}
        os.posix_spawnp(
            command[0], command, {**os.environ, **environment}, setsigdef=[signal.SIGCHLD]
        )


if __name__ == "__main__":
    main()
