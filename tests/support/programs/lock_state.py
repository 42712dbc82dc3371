"""Lock a state directory: lock_state.py DIRECTORY.

Waits for a line, tries, says "held" or "refused PID", waits for another line or the end of its
input, and lets go.
"""

import os
import sys
from pathlib import Path

from crond_py.errors import StateLockedError
from crond_py.ledger.lock import StateLock
from tests.support.ledgers import T0

lock = StateLock(Path(sys.argv[1]))
sys.stdin.readline()
try:
    lock.acquire(T0)
    os.write(1, b"held\n")
except StateLockedError as error:
    os.write(1, b"refused %d\n" % (error.pid or 0))
sys.stdin.readline()
lock.release()
