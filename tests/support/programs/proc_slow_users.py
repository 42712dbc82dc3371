"""Start a job of the user nobody, then one of our own: proc_slow_users.py GATE.

Prints which of them ended, in order; the gate is opened when one has.
"""

import queue
import sys
from pathlib import Path

from crond_py.clock import SystemClock
from crond_py.ports import AttemptKey, Ended, ProcessEvent, ProcessSpec
from crond_py.runner.process import ProcessRunner

NAMES = {1: "theirs", 2: "ours"}

events: queue.Queue[ProcessEvent] = queue.Queue()
runner = ProcessRunner(events.put, SystemClock())
runner.open()
for run_id, user in ((1, "nobody"), (2, None)):
    key = AttemptKey(run_id, 1)
    runner.start(ProcessSpec(key, "slow-1", ("/bin/true",), {}, "/", 0o022, None, user=user))
ended: list[str] = []
while len(ended) < len(NAMES):
    event = events.get(timeout=60)
    if isinstance(event, Ended):
        ended.append(NAMES[event.key.run_id])
        if ended == ["ours"]:
            Path(sys.argv[1]).open("w").close()  # waits for somebody to wait
runner.close()
sys.stdout.write(" ".join(ended))
