"""Signal dispositions of the daemon, as far as its children would inherit them.

A signal that is ignored stays ignored across exec, so a daemon under nohup, or in the background
of a script, would have jobs that no SIGHUP or SIGINT reaches; a handler is reset to the default.
Here each inherited "ignore" gives way to a handler that does nothing. The two that Python itself
ignores are left to subprocess, which restores them in the child.

Children also inherit the mask of the thread that starts them; ``starters`` empties its own. So
the rest of the daemon must take its signals by handlers: one that is blocked in order to be
waited for would be delivered to a starter.
"""

from __future__ import annotations

import logging
import signal
import threading
from types import FrameType

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
    for number in ignored:
        if number == signal.SIGCHLD:
            signal.signal(number, signal.SIG_DFL)
        else:
            signal.signal(number, _do_nothing)


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Handle a signal like "ignore" does, but not in children."""
