"""What /proc tells about a daemon and the processes that it keeps, its jobs left out.

Memory is PSS: what is shared counts in shares, so that the sum over processes is what they take.
The jobs are the processes of the program ``tick``; a shell that waits for one is the daemon's.
"""

from __future__ import annotations

import os
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
JOB = "tick"
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


@dataclass(slots=True)
class Usage:
    """What a tree of processes takes: memory in KB, processor time in seconds."""

    jobs: int = 0
    processes: int = 0
    threads: int = 0
    pss_kb: int = 0
    rss_kb: int = 0
    cpu_s: float = 0.0
    voluntary: int = 0
    involuntary: int = 0


def tree(root: int) -> dict[int, str]:
    """Return a process and all below it, each with the name of its program."""
    names: dict[int, str] = {}
    children: dict[int, list[int]] = defaultdict(list)
    for entry in os.listdir(PROC):  # noqa: PTH208 - asked many times a second
        if not entry.isdigit():
            continue
        with suppress(OSError):
            text = (PROC / entry / "stat").read_text("utf-8", "replace")
            name, _, rest = text.partition("(")[2].rpartition(")")
            names[int(entry)] = name
            children[int(rest.split()[1])].append(int(entry))
    found, todo = {}, [root]
    while todo:
        pid = todo.pop()
        if pid in names:
            found[pid] = names[pid]
            todo += children[pid]
    return found


def usage(root: int) -> Usage:
    """Return what a daemon takes now."""
    total = Usage()
    for pid, name in tree(root).items():
        if name == JOB:
            total.jobs += 1
            continue
        with suppress(OSError):
            _add_memory(total, PROC / str(pid))
            _add_threads(total, PROC / str(pid) / "task")
            total.processes += 1
    return total


def _add_memory(total: Usage, process: Path) -> None:
    for line in (process / "smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            total.pss_kb += int(line.split()[1])
        elif line.startswith("Rss:"):
            total.rss_kb += int(line.split()[1])


def _add_threads(total: Usage, tasks: Path) -> None:
    for task in tasks.iterdir():
        total.cpu_s += int((task / "schedstat").read_text().split()[0]) / 1e9
        total.threads += 1
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary"):
                total.voluntary += int(line.split()[1])
            elif line.startswith("nonvoluntary"):
                total.involuntary += int(line.split()[1])


def cpu_s(root: int) -> float:
    """Return the processor time that a daemon's living processes have used, in seconds."""
    nanoseconds = 0
    for pid in tree(root):
        with suppress(OSError):
            for task in (PROC / str(pid) / "task").iterdir():
                nanoseconds += int((task / "schedstat").read_text().split()[0])
    return nanoseconds / 1e9


def reaped_cpu_s(pid: int) -> float:
    """Return the processor time of the children that a process has waited for, in seconds."""
    fields = (PROC / str(pid) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    return (int(fields[13]) + int(fields[14])) / TICKS_A_SECOND


def rss_kb(root: int) -> int:
    """Return the sum of the resident sizes of a daemon's processes."""
    pages = 0
    for pid in tree(root):
        with suppress(OSError):
            pages += int((PROC / str(pid) / "statm").read_text().split()[1])
    return pages * PAGE_KB


def peak_kb(pid: int) -> int:
    """Return the highest resident size that one process has had."""
    for line in (PROC / str(pid) / "status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    return 0


def machine_busy() -> tuple[int, int]:
    """Return the ticks that the machine's processors were in use, and all their ticks."""
    fields = [int(field) for field in (PROC / "stat").read_text().splitlines()[0].split()[1:9]]
    return sum(fields) - fields[3] - fields[4], sum(fields)
