"""Forks and ends, and so does its child, in a session of its own: it is never there for long.

The named pipe in $READY is told when that has begun. It stops after a while, if nobody sees to that
before.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path


def main() -> None:
    """Do it; what was started first stays."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork():
        Path(os.environ["READY"]).write_text("up\n")
        signal.pause()
    for _ in range(30_000):
        if os.fork():
            os._exit(0)
        os.setsid()


main()
