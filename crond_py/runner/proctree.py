"""Who runs: processes as proc(5) shows them. Only reading happens here; nothing is signalled.

Which of them belong to a run is told in ``descent``.

A pid alone names nobody for long. A process is told from a later one of the same pid by its
start, field 22 of /proc/PID/stat, in clock ticks since boot.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from crond_py.ports import Survivor

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
_TAG = b"PYCRON_RUN_ID"
_ATTEMPT = b"PYCRON_ATTEMPT"
_CHUNK_BYTES = 1 << 17
_PAGE_BYTES = 2048
_LONGEST_NUMBER = 10
_PF_KTHREAD = 0x00200000  # linux/sched.h
_EXEC_LOOKS = 50_000  # about a second, which only a program on a dead disk takes up

# What says that we are short of something, and nothing about the process asked for.
SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})


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


def start_ticks(pid: int) -> int | None:
    """Return when the process started, in clock ticks since boot; None if there is none."""
    process = read_process(pid)
    return None if process is None else process.start_ticks


def read_process(pid: int) -> Process | None:
    """Return what proc(5) tells of a process, or None if it is gone or hidden."""
    data = _read(f"/proc/{pid}/stat")
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
    lines = (_read(f"/proc/{pid}/status") or b"").splitlines()
    users = [set(map(int, line.split()[1:])) for line in lines if line.startswith(b"Uid:")]
    groups = [set(map(int, line.split()[1:])) for line in lines if line.startswith(b"Gid:")]
    return users == [{os.geteuid()}] and groups == [{os.getegid()}]


class Snapshot:
    """All processes, read one after another. ``has_gaps``: some ended while that was going on.

    A process that forks and ends in that time can hide its child, so who wants to be sure that
    nothing is left looks again after a snapshot with gaps. Environments are read when they are
    asked for, once.
    """

    def __init__(self, processes: Mapping[int, Process], *, has_gaps: bool = False) -> None:
        self.processes = processes
        self.has_gaps = has_gaps
        self._tags: dict[int, bytes] = {}

    @classmethod
    def take(cls) -> Snapshot:
        """Read all processes now. Raises OSError where no descriptor is left to read with."""
        read = {pid: read_process(pid) for pid in _list_pids()}
        processes = {pid: process for pid, process in read.items() if process is not None}
        return cls(processes, has_gaps=len(processes) < len(read))

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
            children = list_children_of(pid)
            if children is None:
                if process is not None and not process.is_zombie and not tells_children():
                    return cls.take()
                children = []
            has_gaps |= process is None
            if process is not None and pid not in processes:
                processes[pid] = process
                waiting.extend(children)
        return cls(processes, has_gaps=has_gaps)

    def tag(self, pid: int) -> bytes:
        """Return the process's PYCRON_RUN_ID, or b"" where it has none that we may read."""
        if pid not in self._tags:
            self._tags[pid] = _read_environment(pid).get(_TAG, b"")
        return self._tags[pid]


def find_survivors(identity: str) -> list[Survivor]:
    """Return the processes whose PYCRON_RUN_ID begins with ``identity`` and a hyphen.

    A descendant may have a session of its own; of one attempt's processes that lead a session,
    the one that started first is taken for its leader.
    """
    prefix = os.fsencode(identity) + b"-"
    me = os.getpid()
    found: list[Survivor] = []
    leaders: set[tuple[str, int]] = set()
    snapshot = Snapshot.take()
    for process in sorted(snapshot.processes.values(), key=lambda p: (p.start_ticks, p.pid)):
        if process.pid == me or process.is_zombie:
            continue
        environment = _read_environment(process.pid)
        tag = environment.get(_TAG, b"")
        number = environment.get(_ATTEMPT, b"")
        if not tag.startswith(prefix) or not number.isdigit():
            continue
        attempt = (os.fsdecode(tag), int(number))
        is_leader = process.session == process.pid and attempt not in leaders
        if is_leader:
            leaders.add(attempt)
        found.append(
            Survivor(*attempt, pid=process.pid, start_ticks=process.start_ticks, leader=is_leader)
        )
    return found


def read_tag(pid: int) -> tuple[str, int]:
    """Return PYCRON_RUN_ID and PYCRON_ATTEMPT of a process; "" and 0 where it has none."""
    environment = _read_environment(pid)
    attempt = environment.get(_ATTEMPT, b"")
    is_number = attempt.isdigit() and len(attempt) < _LONGEST_NUMBER
    return os.fsdecode(environment.get(_TAG, b"")), int(attempt) if is_number else 0


def name_of(pid: int) -> str:
    """Return a process's own name, as it is (comm in proc(5)); "" where it is gone."""
    return os.fsdecode((_read(f"/proc/{pid}/comm") or b"").removesuffix(b"\n"))


def owner_of(pid: int) -> int | None:
    """Return the real user id of a process, or None where it is gone."""
    for line in (_read(f"/proc/{pid}/status") or b"").splitlines():
        if line.startswith(b"Uid:"):
            return int(line.split()[1])
    return None


@cache
def tells_children() -> bool:
    """Return whether the kernel lists the children of a process (CONFIG_PROC_CHILDREN)."""
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def list_children_of(pid: int) -> list[int] | None:
    """Return the pids of a process's children, zombies included; None where nobody can tell."""
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - a Path object for each
    except OSError as error:
        if error.errno in SHORTAGES:
            raise
        return None
    found = [list_children_of_thread(pid, int(thread)) for thread in threads]
    told = [children for children in found if children is not None]
    return [child for children in told for child in children] if told else None


def list_children_of_thread(pid: int, thread: int) -> list[int] | None:
    """Return the pids of one thread's children, zombies included; None where nobody can tell.

    What lost its parent is handed to the first thread of whoever takes it in.
    """
    data = _read(f"/proc/{pid}/task/{thread}/children")
    return None if data is None else [int(child) for child in data.split()]


def _list_pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]  # noqa: PTH208 - a thousand Path objects each time
    except FileNotFoundError:  # no /proc: then a tree is only what its process group reaches
        return []


def _read_environment(pid: int) -> dict[bytes, bytes]:
    """Return our own variables out of a process's environment; {} where we may not look."""
    data = b"\0" + (_read_settled_environment(pid) or b"")
    if b"\0" + _TAG + b"=" not in data:
        return {}
    pairs = (item.partition(b"=") for item in data.split(b"\0") if item.startswith(b"PYCRON_"))
    # getenv(3) takes the first of two equal names.
    return {name: value for name, _, value in reversed(list(pairs))}


def _read_settled_environment(pid: int) -> bytes | None:
    """Return a process's environment; None where it is gone or not ours to read.

    In the middle of an exec the old memory is given up and the new one not set up, and the
    environment looks empty; it is so only if the memory is the same before and after the look.
    """
    path = f"/proc/{pid}/environ"
    before: tuple[bytes, ...] | None = None
    for _ in range(_EXEC_LOOKS):
        data = _read(path)
        if data != b"":
            return data
        memory = _read_memory_layout(pid)
        if memory == () or (memory and memory == before):
            return data
        before = memory
        os.sched_yield()
    return b""


def _read_memory_layout(pid: int) -> tuple[bytes, ...] | None:
    """Return where a process's memory lies; None: it is in the middle of an exec.

    start_code (field 26) is set last, so it is 0 until then. Zombies and the kernel's own threads,
    known by a bit of their flags (field 9), have no memory and need none.
    """
    fields = (_read(f"/proc/{pid}/stat") or b"").rpartition(b") ")[2].split()
    if not fields or fields[0] in {b"Z", b"X"} or int(fields[6]) & _PF_KTHREAD:
        return ()
    if fields[23] == b"0":
        return None
    return fields[23], fields[25], fields[47], fields[48]


def _read(path: str) -> bytes | None:
    """Return a file of /proc whole, or None if the process is gone or not ours to read.

    Raises OSError where the reader is at fault: an empty answer would say "nobody is there".
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        if error.errno in SHORTAGES:
            raise
        return None
    try:
        data = b""
        while chunk := os.read(descriptor, _CHUNK_BYTES):
            data += chunk
            if len(chunk) < _PAGE_BYTES:  # lists come by the page, and the last one is not full
                break
    except OSError:  # it ended between the two calls, or may not be looked into
        return None
    else:
        return data
    finally:
        os.close(descriptor)
