"""Who runs: processes as proc(5) shows them. Only reading happens here; nothing is signalled.

Which of them belong to a run is told in ``descent``.

A pid alone names nobody for long. A process is told from a later one of the same pid by its
start, field 22 of /proc/PID/stat, in clock ticks since boot.
"""

from __future__ import annotations

import os
import signal
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from crond_py.ports import Survivor
from crond_py.runner import procfile
from crond_py.runner.errands import ERRANDS
from crond_py.runner.marks import Marks, read_all_marks

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_PF_EXITING = 0x00000004  # linux/sched.h
_SIGKILL_BIT = 1 << (signal.SIGKILL - 1)


class Process(NamedTuple):
    """One line of /proc/PID/stat, cut to what tells trees apart.

    ``exit_status`` is as wait(2) would give it, once the process is a zombie; the kernel shows 0
    to those who may not know.
    """

    pid: int
    parent: int
    group: int
    session: int
    start_ticks: int
    is_zombie: bool
    exit_status: int


def boot_id() -> str:
    """Return the kernel's name for this boot, or "" where it tells none.

    Process ids and start ticks mean something only together with it.
    """
    try:
        return _BOOT_ID.read_text("ascii").strip()
    except OSError:
        return ""


def process_era() -> str:
    """Return a name for the time in which the processes that we can see may have lived on.

    A container may end, and all in it, while the machine goes on: so it is that of the boot, and
    of the process that is the first here.
    """
    try:
        first = start_ticks(1)
    except OSError:  # it is not for our eyes
        first = None
    return boot_id() if first is None else f"{boot_id()} {first}"


def start_ticks(pid: int) -> int | None:
    """Return when the process started, in clock ticks since boot; None if there is none."""
    process = read_process(pid)
    return None if process is None else process.start_ticks


def read_process(pid: int) -> Process | None:
    """Return what proc(5) tells of a process, or None if it is gone or hidden."""
    data = procfile.read(f"/proc/{pid}/stat")
    # The second field is the program's name in parentheses and may itself hold any of ") (".
    _, separator, rest = (data or b"").rpartition(b") ")
    if not separator:
        return None
    fields = rest.split()
    # A thread group whose first thread has left looks like a zombie while other threads run on;
    # num_threads (field 20) tells.
    is_zombie = fields[0] in {b"Z", b"X"} and int(fields[17]) <= 1
    return Process(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        start_ticks=int(fields[19]),
        is_zombie=is_zombie,
        exit_status=int(fields[49]),
    )


def may_inspect(pid: int) -> bool:
    """Return whether ptrace(2)'s access rules let us know all of a process, a zombie too."""
    if os.geteuid() == 0:
        return True
    lines = (procfile.read(f"/proc/{pid}/status") or b"").splitlines()
    users = [set(map(int, line.split()[1:])) for line in lines if line.startswith(b"Uid:")]
    groups = [set(map(int, line.split()[1:])) for line in lines if line.startswith(b"Gid:")]
    return users == [{os.geteuid()}] and groups == [{os.getegid()}]


class Snapshot:
    """All processes but our errands, read one after another.

    ``has_gaps``: some ended while that was going on.

    A process that forks and ends in that time can hide its child, so who wants to be sure that
    nothing is left looks again after a snapshot with gaps. Environments are read when they are
    asked for, once.
    """

    def __init__(self, processes: Mapping[int, Process], *, has_gaps: bool = False) -> None:
        self.processes = processes
        self.has_gaps = has_gaps
        self._marks: dict[int, Marks] = {}
        self._sessions: dict[int, list[Process]] | None = None

    @classmethod
    def take(cls) -> Snapshot:
        """Read all processes now. Raises OSError where no descriptor is left to read with."""
        read = {pid: read_process(pid) for pid in _list_pids()}
        ours = ERRANDS.pids()
        processes = {pid: p for pid, p in read.items() if p is not None and pid not in ours}
        return cls(processes, has_gaps=None in read.values())

    @classmethod
    def take_trees(cls, pids: Iterable[int]) -> Snapshot:
        """Read these processes and all that descend from them now, and no others.

        It costs what they are, not what the machine runs. Raises as ``take`` does; where the
        kernel does not tell who has which children, everything is read.
        """
        processes: dict[int, Process] = {}
        has_gaps = False
        waiting = list(pids)
        while waiting:
            pid = waiting.pop()
            process = read_process(pid)
            children = procfile.list_children_of(pid)
            if children is None:
                if process is not None and not process.is_zombie and not procfile.tells_children():
                    return cls.take()
                children = []
            has_gaps |= process is None
            if process is not None and pid not in processes:
                processes[pid] = process
                waiting.extend(children)
        return cls(processes, has_gaps=has_gaps)

    def marks(self, pids: Iterable[int]) -> dict[int, Marks]:
        """Return by which marks some processes show to which attempts they belong."""
        wanted = list(pids)
        self._marks |= read_all_marks([pid for pid in wanted if pid not in self._marks])
        return {pid: self._marks[pid] for pid in wanted}

    def session(self, number: int) -> list[Process]:
        """Return the processes of a session that have not ended."""
        if self._sessions is None:  # grouped once: there may be as many sessions as processes
            self._sessions = defaultdict(list)
            for process in self.processes.values():
                if not process.is_zombie:
                    self._sessions[process.session].append(process)
        return self._sessions.get(number, [])

    def owner(self, pid: int) -> int | None:
        """Return the real user id of a process as it is now, None where it is gone."""
        return owner_of(pid)


def trusted_users() -> frozenset[int]:
    """Return whose processes may belong to any of our runs: root's and our own.

    To others no run of ours belongs, or we are root and the run's own user has to be asked for.
    """
    return frozenset({0, os.geteuid()})


def find_survivors(identity: str) -> list[Survivor]:
    """Return the processes whose marks name an attempt of the ledger of that ``identity``.

    A descendant may have a session of its own; of one attempt's processes that lead a session,
    the one that started first is taken for its leader. Where no run of ours can be of another
    user, processes of others are none; else that is for who knows the run to say.
    """
    me = os.getpid()
    trusted = None if os.geteuid() == 0 else trusted_users()
    found: list[Survivor] = []
    leaders: set[tuple[str, int]] = set()
    snapshot = Snapshot.take()
    living = [p for p in snapshot.processes.values() if p.pid != me and not p.is_zombie]
    marks = snapshot.marks(process.pid for process in living)
    for process in sorted(living, key=lambda p: (p.start_ticks, p.pid)):
        attempt = marks[process.pid].attempt_of(identity)
        if attempt is None:
            continue
        uid = snapshot.owner(process.pid)
        if trusted is not None and uid not in trusted:
            continue
        is_leader = process.session == process.pid and attempt not in leaders
        if is_leader:
            leaders.add(attempt)
        found.append(
            Survivor(*attempt, process.pid, process.start_ticks, leader=is_leader, uid=uid)
        )
    return found


def is_ending(pid: int) -> bool:
    """Return whether a process that still shows has its end behind it or SIGKILL before it."""
    # In the order in which they come: a signal no longer waits once the process acts on it.
    for line in (procfile.read(f"/proc/{pid}/status") or b"").splitlines():
        if line.startswith((b"SigPnd:", b"ShdPnd:")) and int(line.split()[1], 16) & _SIGKILL_BIT:
            return True
    fields = (procfile.read(f"/proc/{pid}/stat") or b"").rpartition(b") ")[2].split()
    return not fields or bool(int(fields[6]) & _PF_EXITING)  # field 9


def name_of(pid: int) -> str:
    """Return a process's own name, as it is (comm in proc(5)); "" where it is gone."""
    return os.fsdecode((procfile.read(f"/proc/{pid}/comm") or b"").removesuffix(b"\n"))


def owner_of(pid: int) -> int | None:
    """Return the real user id of a process, or None where it is gone."""
    for line in (procfile.read(f"/proc/{pid}/status") or b"").splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[1])
    return None


def _list_pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - a thousand Path objects each time
    except FileNotFoundError:  # no /proc: then a tree is only what its process group reaches
        return []
