"""``pycron stop``: end the daemon, and wait until it is gone."""

from __future__ import annotations

import os
import select
from datetime import timedelta
from typing import Annotated, Final

import typer

from crond_py.cli import say
from crond_py.cli.daemon import Timeout, Wait, not_ended, read_patience
from crond_py.cli.options import DaemonCrontab, Json, StateDir, places_of
from crond_py.control.client import Conversation
from crond_py.control.protocol import Stop
from crond_py.errors import PycronError

_LONGEST_POLL_MS: Final = 2**31 - 1


EXAMPLES = ("pycron stop", "pycron stop --now")


def command(
    *,
    now: Annotated[
        bool,
        typer.Option(
            "--now",
            help="End the jobs that run instead of waiting for them; what its job leaves to the"
            " next daemon runs on.",
        ),
    ] = False,
    wait: Wait = True,
    timeout: Timeout = None,
    crontab: DaemonCrontab = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Stop the daemon.

    Nothing more is started. Jobs that run may finish, for as long as the daemon was told to wait
    for them (pycron run --stop-timeout), and are then ended.
    """
    patience = read_patience(timeout)
    with Conversation(places_of(crontab, state_dir).socket) as conversation:
        pid = conversation.peer.pid
        # Opened before the daemon can be gone and another process have its number.
        process = _hold(pid)
        try:
            conversation.call(Stop(now=now))
            has_ended = wait and process is not None and _has_ended(process, patience)
        finally:
            if process is not None:
                os.close(process)
    if wait and process is None:
        raise PycronError("the daemon is stopping; when it has, cannot be seen from here")
    if as_json:
        say.out_json({"pid": pid, "stopped": has_ended})
    elif has_ended or not wait:
        say.out(f"the daemon (process {pid}) {'has stopped' if has_ended else 'is stopping'}")
    if wait and not has_ended:
        raise not_ended(f"the daemon (process {pid})", timeout)


def _hold(pid: int) -> int | None:
    """Return a pidfd; None where the daemon is not to be seen, as from another container."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


def _has_ended(process: int, limit: timedelta | None) -> bool:
    """Wait for the process; False where it has not ended within ``limit``."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    limit_ms = None if limit is None else min(limit // timedelta(milliseconds=1), _LONGEST_POLL_MS)
    return bool(poll.poll(limit_ms))
