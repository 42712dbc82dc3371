"""Start many processes at once with few descriptors: COUNT LIMIT COMMAND.

The last half is started while the first still runs if COMMAND takes its time. Prints how many
events of each kind there were, the exit codes seen, and the descriptors left open at the end.
"""

import collections
import json
import queue
import resource
import sys
from pathlib import Path

from crond_py.clock import SystemClock
from crond_py.ports import AttemptKey, Ended, ProcessEvent, ProcessSpec, StartFailed
from crond_py.runner.process import ProcessRunner

count, limit, command = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
before = len(list(Path("/proc/self/fd").iterdir()))
events: queue.Queue[ProcessEvent] = queue.Queue()
runner = ProcessRunner(events.put, SystemClock())
runner.open()
for number in range(1, count + 1):
    argv = ("/bin/sh", "-c", command)
    environment = {"PATH": "/usr/bin:/bin", "PYCRON_RUN_ID": f"many-{number}"}
    runner.start(
        ProcessSpec(AttemptKey(number, 1), f"many-{number}", argv, environment, "/", 0o022, None)
    )
kinds: collections.Counter[str] = collections.Counter()
codes: collections.Counter[str] = collections.Counter()
reasons: collections.Counter[str] = collections.Counter()
while kinds["Ended"] + kinds["StartFailed"] < count:
    event = events.get(timeout=100)
    kinds[type(event).__name__] += 1
    if isinstance(event, Ended):
        codes[str(event.exit.code)] += 1
    if isinstance(event, StartFailed):
        reasons[event.reason] += 1
runner.close()
after = len(list(Path("/proc/self/fd").iterdir()))
json.dump(
    {"kinds": kinds, "codes": codes, "reasons": reasons, "leaked": after - before}, sys.stdout
)
