"""Run one command through the runner: proc_run_one.py OUTPUT PROGRAM [ARGUMENT...].

Leaves with 0 if the command did, and with 1 otherwise.
"""

import queue
import sys
from pathlib import Path

from crond_py.clock import SystemClock
from crond_py.ports import AttemptKey, Ended, OutputSpec, ProcessEvent, ProcessSpec
from crond_py.runner.process import ProcessRunner

events: queue.Queue[ProcessEvent] = queue.Queue()
runner = ProcessRunner(events.put, SystemClock())
runner.open()
output, *argv = sys.argv[1:]
runner.start(
    ProcessSpec(AttemptKey(1, 1), "one-1", tuple(argv), {}, "/", 0o022, OutputSpec(Path(output)))
)
while not isinstance(event := events.get(timeout=60), Ended):
    pass
runner.close()
sys.exit(0 if event.exit.code == 0 else 1)
