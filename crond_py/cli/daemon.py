"""What commands that talk to the daemon share: asking it, and waiting for a run to end."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Final

import typer

from crond_py.control.client import Conversation, wait_until
from crond_py.control.protocol import WaitRun
from crond_py.control.waiting import Watch
from crond_py.errors import PycronError, ScheduleError, UsageError
from crond_py.model import Run
from crond_py.schedule import parse_duration

Timeout = Annotated[
    str | None,
    typer.Option(metavar="DURATION", show_default=False, help="Wait no longer than this."),
]
Wait = Annotated[
    bool, typer.Option("--wait/--no-wait", help="Wait until it has really ended, or return now.")
]

_MICROSECOND: Final = timedelta(microseconds=1)
_NONE: Final = timedelta(0)


def read_patience(text: str | None) -> timedelta | None:
    """Return the value of ``--timeout``; None: for as long as it takes. Raises UsageError."""
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ScheduleError as error:
        raise UsageError(f"--timeout: {error}") from None


def not_ended(what: str, timeout: str | None, more: str = "") -> PycronError:
    """Return the error of a wait that was over before its end."""
    return PycronError(f"{what} has not ended within {timeout}{more}")


def wait_for(
    conversation: Conversation, run_id: int, limit: timedelta | None, watch: Watch
) -> Run | None:
    """Return the run once it has its outcome; None where it has none when ``limit`` is over.

    The time is that of ``watch``. Where it is over already the daemon is asked once.
    """
    return wait_until(
        conversation,
        lambda slice_: WaitRun(run_id, slice_),
        lambda answer: answer.run is not None,
        limit,
        watch,
    ).run
