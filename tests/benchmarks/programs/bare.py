"""The least that Python needs to start processes on time, called as ``limit.c`` is.

    python bare.py sh|exec COUNT TICK FILE LABEL INSTANT_NS...

One thread sleeps until the instant and calls os.posix_spawn in a loop, another one reaps. No log,
no record, no faults thought of: a floor, not a daemon.
"""

import os
import sys
import threading
import time


def reap(alive: threading.Semaphore) -> None:
    """Wait for each that was started."""
    while True:
        alive.acquire()
        os.waitpid(-1, 0)


def main() -> None:
    """Start them."""
    way, count, tick, file, label, *instants = sys.argv[1:]
    ids = [f"{label}.{number}" for number in range(int(count))]
    commands = [
        ("/bin/sh", "-c", f"{tick} {file} {each};") if way == "sh" else (tick, file, each)
        for each in ids
    ]
    nothing = os.open("/dev/null", os.O_RDWR)
    actions = [(os.POSIX_SPAWN_DUP2, nothing, 0)]
    alive = threading.Semaphore(0)
    threading.Thread(target=reap, args=(alive,), daemon=True).start()
    for instant in map(int, instants):
        while (left := instant - time.time_ns()) > 0:  # noqa: TID251 - a program of its own
            time.sleep(left / 1e9)  # noqa: TID251
        for command in commands:
            os.posix_spawn(command[0], command, os.environ, file_actions=actions)
            alive.release()


if __name__ == "__main__":
    main()
