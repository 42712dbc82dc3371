"""What commands that talk to the daemon share: asking it, and waiting for a run to end."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from crond_py.clock import SystemClock
from crond_py.control.client import PATIENCE, Conversation
from crond_py.control.protocol import LONGEST_WAIT, WaitRun
from crond_py.errors import ScheduleError, UsageError
from crond_py.model import Run
from crond_py.schedule import parse_duration

_MICROSECOND: Final = timedelta(microseconds=1)


def read_patience(text: str | None) -> timedelta | None:
    """Return the value of ``--timeout``; None: for as long as it takes. Raises UsageError."""
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ScheduleError as error:
        raise UsageError(f"--timeout: {error}") from None


def wait_for(conversation: Conversation, run_id: int, limit: timedelta | None) -> Run | None:
    """Return the run once it has its outcome; None where it has none within ``limit``."""
    clock = SystemClock()
    begun_ns = clock.monotonic_ns()
    while True:
        slice_ = LONGEST_WAIT
        if limit is not None:
            slice_ = min(slice_, limit - (clock.monotonic_ns() - begun_ns) // 1000 * _MICROSECOND)
        if slice_ <= timedelta(0):
            return None
        request = WaitRun(run_id, slice_)
        run = conversation.call(request, slice_ + PATIENCE).run
        if run is not None:
            return run
