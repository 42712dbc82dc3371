"""Run as pid 1 of a pid namespace: many processes that orphan others. DIRECTORY COUNT.

Prints how the processes ended, the children left once all have, and those left once the orphans
that were still waiting have ended as well.
"""

import collections
import json
import os
import queue
import select
import sys
from pathlib import Path

from crond_py.clock import SystemClock
from crond_py.ports import AttemptKey, Ended, ProcessEvent, ProcessSpec
from crond_py.runner import orphans
from crond_py.runner.process import ProcessRunner

directory, count = Path(sys.argv[1]), int(sys.argv[2])
gate = directory / "gate"
os.mkfifo(gate)
COMMANDS = [
    "(sleep 0.05 &) ; true",  # its orphan ends by itself
    f"(cat {gate} >/dev/null &) ; true",  # its orphan waits for us
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

# All that is left waits at the gate or sleeps for a moment: let it go, and wait for its end.
held = [os.pidfd_open(pid) for pid in orphans.list_children()]
os.close(os.open(gate, os.O_RDWR))
writer = os.open(gate, os.O_WRONLY)
os.close(writer)
for pidfd in held:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.poll(60_000)
# The end of one process is followed by a look at the orphans, before the next end is told.
for _ in range(2):
    start("exit 0")
    wait_for(1)
left = orphans.list_children()
runner.close()
json.dump({"pid": os.getpid(), "ended": ended, "left": left, "held": len(held)}, sys.stdout)
