"""Signal dispositions of the daemon, as far as its children would inherit them.

A signal that is ignored stays ignored across exec, so a daemon under nohup, or in the background
of a script, would have jobs that no SIGHUP or SIGINT reaches; a handler is reset to the default.
Here each inherited "ignore" gives way to a handler that does nothing. The two that Python itself
ignores are left to subprocess, which restores them in the child.

Children also inherit the mask of the thread that starts them; ``starters`` empties its own. So
the rest of the daemon must take its signals by handlers: one that is blocked in order to be
waited for would be delivered to a starter.

glibc has two signals for its own use, which its posix_spawn(3) leaves ignored in whatever it
starts, so perhaps in us. Its sigaction(3) does not know them, so the kernel is asked itself, where
the number of that call is known here: on other machines jobs ignore these two as we do. A handler
of glibc's is left to it.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from contextlib import suppress
from types import FrameType
from typing import Final

from crond_py.runner import procfile

_OF_LIBC: Final = (32, 33)  # SIGCANCEL and SIGSETXID, see nptl(7)
_SIGACTION: Final = {"x86_64": 13, "aarch64": 134, "riscv64": 134}  # the number of rt_sigaction(2)
_SIGSET_BYTES: Final = 8
_IS_64_BIT: Final = sys.maxsize > 1 << 32
_ACTION_BYTES: Final = 64  # more than struct kernel_sigaction has anywhere

_RESTORED_BY_SUBPROCESS = frozenset({signal.SIGPIPE, signal.SIGXFSZ})

log = logging.getLogger(__name__)


def stop_ignoring_signals() -> None:
    """Replace inherited "ignore" dispositions. Only the main thread can; others do nothing.

    With SIGCHLD ignored the kernel would throw the exit status of every job away.
    """
    ignored = [
        number
        for number in signal.valid_signals()
        if number not in _RESTORED_BY_SUBPROCESS and signal.getsignal(number) is signal.SIG_IGN
    ]
    if threading.current_thread() is not threading.main_thread():
        if ignored:
            log.warning("jobs will ignore signals %s, as pycron does", sorted(map(int, ignored)))
        return
    _stop_ignoring_those_of_libc()
    for number in ignored:
        if number == signal.SIGCHLD:
            signal.signal(number, signal.SIG_DFL)
        else:
            signal.signal(number, _do_nothing)


def can_reset_those_of_libc() -> bool:
    """Return whether it is known how to ask the kernel for that on this machine."""
    return _IS_64_BIT and os.uname().machine in _SIGACTION  # a 32-bit program has other numbers


def _stop_ignoring_those_of_libc() -> None:
    """Give signals of glibc's the default disposition where they are ignored.

    Where that cannot be done (``can_reset_those_of_libc``), or fails, they stay ignored.
    """
    numbers = [number for number in _OF_LIBC if _is_ignored(number)]
    if not numbers:
        return
    if can_reset_those_of_libc():
        # An interpreter or a libc may be without it.
        with suppress(ImportError, OSError, AttributeError):
            numbers = [number for number in numbers if not _reset(number)]
    if numbers:
        log.debug("jobs will ignore signals %s, as pycron does", numbers)


def _reset(number: int) -> bool:
    import ctypes  # noqa: PLC0415 - costs a megabyte, and only the daemon needs it

    default = ctypes.create_string_buffer(_ACTION_BYTES)
    call = _SIGACTION[os.uname().machine]
    return int(ctypes.CDLL(None).syscall(call, number, default, None, _SIGSET_BYTES)) == 0


def _is_ignored(number: int) -> bool:
    for line in (procfile.read("/proc/self/status") or b"").splitlines():
        if line.startswith(b"SigIgn:"):
            return bool(int(line.split()[1], 16) >> (number - 1) & 1)
    return False


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal like "ignore" does, but not in children."""
