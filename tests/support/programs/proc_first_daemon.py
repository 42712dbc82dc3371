"""Be a daemon that starts processes and is then killed: IDENTITY COMMAND...

Each command runs through the shell as a run of its own. Prints "PID START_TICKS" for each as it
is started, and waits to be killed.
"""

import queue
import sys
import threading

from crond_py.clock import SystemClock
from crond_py.ports import AttemptKey, ProcessEvent, ProcessSpec, Started
from crond_py.runner.process import ProcessRunner

events: queue.Queue[ProcessEvent] = queue.Queue()
runner = ProcessRunner(events.put, SystemClock())
runner.open()
identity, *commands = sys.argv[1:]
for number, command in enumerate(commands, 1):
    tag = f"{identity}-{number}"
    environment = {"PATH": "/usr/bin:/bin", "PYCRON_RUN_ID": tag, "PYCRON_ATTEMPT": "3"}
    key = AttemptKey(number, 3)
    argv = ("/bin/sh", "-c", command)
    runner.start(ProcessSpec(key, tag, argv, environment, "/", 0o022, None))
    event = events.get(timeout=60)
    if not isinstance(event, Started):
        sys.exit(str(event))
    sys.stdout.write(f"{event.pid} {event.start_ticks}\n")
    sys.stdout.flush()
threading.Event().wait()
