"""Be the one that processes come to when their parent ends: PR_SET_CHILD_SUBREAPER, prctl(2).

Without it they go to pid 1 and are nobody's any more: neither their end nor what they came from
can be learned. Python has no name for the call.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from typing import Any

_SET_CHILD_SUBREAPER = 36  # linux/prctl.h
_GET_CHILD_SUBREAPER = 37

log = logging.getLogger(__name__)


def become_subreaper(*, on: bool = True) -> bool:
    """Have orphaned descendants made our children; return whether the kernel agrees.

    It holds for this process until it is undone, across an execve too; children do not inherit
    it. Where it is refused, that is logged, and trees are told by what marks are left.
    """
    if _prctl(_SET_CHILD_SUBREAPER, int(on)) == 0:
        return True
    log.warning(
        "the kernel does not hand us the orphans of jobs: a process that leaves its session and"
        " clears its environment may not be found when its run is ended"
    )
    return False


def is_subreaper() -> bool:
    """Return whether orphaned descendants become our children. To pid 1 they come anyway."""
    if os.getpid() == 1:
        return True
    import ctypes  # noqa: PLC0415 - costs a megabyte, and only the daemon needs it

    answer = ctypes.c_int(0)
    return _prctl(_GET_CHILD_SUBREAPER, ctypes.byref(answer)) == 0 and answer.value != 0


def _prctl(option: int, argument: object) -> int:
    """Call prctl(2); -1 where there is no such call."""
    function = _find_prctl()
    return -1 if function is None else int(function(option, argument, 0, 0, 0))


@cache
def _find_prctl() -> Any:
    try:
        import ctypes  # noqa: PLC0415 - as above

        return ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):  # an interpreter or a libc without it
        return None
