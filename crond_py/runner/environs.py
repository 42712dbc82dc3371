"""Read the environments of processes, each of which can hang.

/proc/PID/environ waits for the locks of that process's memory, and a page that is wanted from a
dead disk or server can keep these for ever. So a thread does the reading. It is left alone where
it hangs, another one reads what is left, and that process is not asked again until the first comes
back. To the caller it looks like one that may not be looked into.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Sequence

from crond_py.runner import procfile
from crond_py.threads import Thread

# Reading one takes microseconds. Where one has hung others may, and many must not add up.
_PATIENCE_S = 1.0
_NEXT_PATIENCE_S = 0.2
_PF_KTHREAD = 0x00200000  # linux/sched.h
_EXEC_LOOKS = 50_000  # about a second, which only a program on a dead disk takes up

_lock = threading.Lock()
_hanging: set[int] = set()


def read_environments(pids: Iterable[int]) -> dict[int, bytes]:
    """Return the environments of processes, of those that are there and ours to read.

    Raises OSError where no descriptor is left to read with.
    """
    with _lock:
        waiting: Sequence[int] = [pid for pid in pids if pid not in _hanging]
    found: dict[int, bytes] = {}
    patience_s = _PATIENCE_S
    while waiting:
        reading = _Reading(waiting)
        waiting = reading.wait(patience_s)
        found |= reading.found
        patience_s = _NEXT_PATIENCE_S
    return found


class _Reading:
    """A thread's way through some processes, up to the first that hangs."""

    def __init__(self, pids: Sequence[int]) -> None:
        self.found: dict[int, bytes] = {}
        self._pids = pids
        self._count = 0
        self._fault: OSError | None = None
        self._is_given_up = False
        self._is_over = threading.Event()
        thread = Thread(target=self._run, name="pycron-environments", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # no thread is to be had, so this one has to do
            self._run()

    def wait(self, patience_s: float) -> Sequence[int]:
        """Wait while there is progress, and return what a process that hangs stands before."""
        count = -1
        while not self._is_over.wait(patience_s):
            with _lock:
                if self._count == count:
                    self._is_given_up = True
                    _hanging.add(self._pids[count])
                    return self._pids[count + 1 :]
                count = self._count
        if self._fault is not None:
            raise self._fault
        return ()

    def _run(self) -> None:
        try:
            for pid in self._pids:
                data = _read(pid)
                with _lock:
                    if self._is_given_up:
                        _hanging.discard(pid)
                        return
                    self._count += 1
                    if data:
                        self.found[pid] = data
        except OSError as error:
            self._fault = error
            with _lock:
                if self._is_given_up:
                    _hanging.discard(self._pids[self._count])
        finally:
            self._is_over.set()


def _read(pid: int) -> bytes | None:
    """Return a process's environment; None where it is gone or not ours to read.

    In the middle of an exec the old memory is given up and the new one not set up, and the
    environment looks empty; it is so only if the memory is the same before and after the look.
    """
    path = f"/proc/{pid}/environ"
    before: tuple[bytes, ...] | None = None
    for _ in range(_EXEC_LOOKS):
        data = procfile.read(path)
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
    fields = (procfile.read(f"/proc/{pid}/stat") or b"").rpartition(b") ")[2].split()
    if not fields or fields[0] in {b"Z", b"X"} or int(fields[6]) & _PF_KTHREAD:
        return ()
    if fields[23] == b"0":
        return None
    return fields[23], fields[25], fields[47], fields[48]
