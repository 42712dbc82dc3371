"""Jobs of the programs in ``programs/zoo.py``, and what the daemon is held to beside them."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tests.support.daemon import PROGRAMS, Daemon

CLINGING = ("setsid", "double_fork", "without_a_name", "deaf", "herd", "stopped")
"""Those that go on until they are ended, and try not to be."""

MOST_MEMORY_KIB = 64 * 1024
"""What the daemon may ever have had in memory, whatever its jobs do."""

# A good neighbour; being there is at issue, being on time is not.
TICK = """
[jobs.tick]
schedule = "* * * * * *"
command = ["true"]
overlap = "allow"
missed = "all"
"""


def animal_text(animal: str, *lines: str, mark: str = "", name: str = "") -> str:
    """Return a job that is one of the programs, and called so, with more lines of it."""
    program = [sys.executable, "-I", "-S", str(PROGRAMS / "zoo.py")]
    command = json.dumps([*program, animal, *([mark] if mark else [])])
    return "\n".join([f"[jobs.{name or animal}]", f"command = {command}", *lines, ""])


def most_memory_kib(pid: int) -> int:
    """Return the most memory that a process has ever had; see proc(5)."""
    status = Path(f"/proc/{pid}/status").read_text("ascii").splitlines()
    (line,) = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1])


def assert_small(daemon: Daemon) -> None:
    """Hold that the daemon has never taken much memory (P8)."""
    assert most_memory_kib(daemon.pid) < MOST_MEMORY_KIB
