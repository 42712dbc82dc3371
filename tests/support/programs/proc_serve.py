"""Be a daemon that does as it is told on standard input: IDENTITY LEFTOVERS.

A line is a JSON array: ["start", COMMAND] (through the shell; runs are numbered from 1), or
["stop", RUN, FORCE]. Prints each event as a line [KIND, RUN, FIELDS]. Ends at the end of input.
"""

import json
import sys
from dataclasses import asdict

from crond_py.clock import SystemClock
from crond_py.model import Leftovers
from crond_py.ports import AttemptKey, ProcessEvent, ProcessSpec
from crond_py.runner.process import ProcessRunner
from crond_py.runner.subreaper import become_subreaper

identity, leftovers = sys.argv[1], Leftovers(sys.argv[2])


def report(event: ProcessEvent) -> None:
    """Print an event."""
    line = json.dumps([type(event).__name__, event.key.run_id, asdict(event)], default=str)
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


become_subreaper()
runner = ProcessRunner(report, SystemClock())
runner.open()
runs = 0
for line in sys.stdin:
    order, *rest = json.loads(line)
    if order == "start":
        runs += 1
        tag = f"{identity}-{runs}"
        environment = {
            "PATH": "/usr/local/bin:/usr/bin:/bin",
            "PYCRON_RUN_ID": tag,
            "PYCRON_ATTEMPT": "1",
        }
        argv = ("/bin/sh", "-c", rest[0])
        key = AttemptKey(runs, 1)
        runner.start(
            ProcessSpec(key, tag, argv, environment, "/", 0o022, None, leftovers=leftovers)
        )
    else:
        runner.stop(AttemptKey(rest[0], 1), force=rest[1])
runner.close()
