"""Run as pid 1 of a pid namespace: many processes that orphan others. DIRECTORY COUNT.

Prints how the processes ended and how many orphans were met, once no child is left, not even as
a zombie; if one stays, this never ends.
"""

import collections
import json
import os
import queue
import select
import sys
from contextlib import suppress
from pathlib import Path

from crond_py.clock import SystemClock
from crond_py.ports import AttemptKey, Ended, ProcessEvent, ProcessSpec
from crond_py.runner import orphans
from crond_py.runner.process import ProcessRunner

directory, count = Path(sys.argv[1]), int(sys.argv[2])
gate = directory / "gate"
os.mkfifo(gate)
keeper = os.open(gate, os.O_RDWR)
COMMANDS = [
    "(sleep 0.05 &) ; true",  # its orphan ends by itself
    f"(read line <{gate} &) ; true",  # its orphan waits for us
    "(setsid sh -c '(true &)' &) ; exit 0",
    "exit 0",
]
events: queue.Queue[ProcessEvent] = queue.Queue()
runner = ProcessRunner(events.put, SystemClock())
runner.open()
ended: collections.Counter[str] = collections.Counter()
keys = 0


def start(command: str) -> None:
    """Start one process."""
    global keys  # noqa: PLW0603 - a program of fifty lines
    keys += 1
    environment = {"PATH": "/usr/bin:/bin", "PYCRON_RUN_ID": f"one-{keys}"}
    argv = ("/bin/sh", "-c", command)
    runner.start(
        ProcessSpec(AttemptKey(keys, 1), f"one-{keys}", argv, environment, "/", 0o022, None)
    )


def wait_for(number: int) -> None:
    """Wait for so many ends."""
    while number:
        event = events.get(timeout=100)
        if isinstance(event, Ended):
            ended[str(event.exit.code)] += 1
            number -= 1


for index in range(count):
    start(COMMANDS[index % len(COMMANDS)])
wait_for(count)


def wait_for_orphans() -> None:
    """Wait for the end of all children that there are now."""
    for pid in orphans.list_children():
        with suppress(ProcessLookupError):  # reaped since
            pidfd = os.pidfd_open(pid)
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            poll.poll()
            os.close(pidfd)


# All that is left waits at the gate or sleeps for a moment: let it go, and wait for its end.
# Each process that ends has the orphans looked after, before the end of the next is told.
found = len(orphans.list_children())
os.write(keeper, b"\n" * count)
wait_for_orphans()
rounds = 0
while orphans.list_children():
    wait_for_orphans()
    start("exit 0")
    wait_for(1)
    rounds += 1
runner.close()
json.dump({"pid": os.getpid(), "ended": ended, "found": found, "extra": rounds}, sys.stdout)
