"""``pycron stop``: end the daemon, and wait until it is gone."""

from __future__ import annotations

import os
import select
from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Final

import typer

from crond_py.cli import say
from crond_py.cli.daemon import Timeout, Wait, not_ended, read_patience
from crond_py.cli.ledgers import reading
from crond_py.cli.options import DaemonCrontab, Json, StateDir, places_of
from crond_py.control.client import Conversation, patience_for
from crond_py.control.protocol import GetStatus, Stop, Stopping
from crond_py.control.waiting import Watch
from crond_py.dataclass import dataclass
from crond_py.errors import PycronError
from crond_py.model import Left, Run
from crond_py.places import Places
from crond_py.schedule import format_duration

_LONGEST_POLL_MS: Final = 2**31 - 1
_IN_SILENCE: Final = timedelta(seconds=1)
"""A stop that takes no longer than this needs no word on what it waits for."""
_STATUS_PATIENCE: Final = timedelta(seconds=5)

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
    for them (pycron run --stop-timeout), and are then ended. Ctrl-C ends the waiting and not the
    stop.
    """
    patience = read_patience(timeout)
    places = places_of(crontab, state_dir)
    with Conversation(places.socket) as conversation:
        pid = conversation.peer.pid
        # Opened before the daemon can be gone and another process have its number.
        process = _hold(pid)
        try:
            stopping = conversation.call(Stop(now=now), patience_for(patience))
            has_ended = (
                wait
                and process is not None
                and _Waiting(conversation, process, stopping, is_at_once=now).has_ended(patience)
            )
        finally:
            if process is not None:
                os.close(process)
    if wait and process is None:
        raise PycronError("the daemon is stopping; when it has, cannot be seen from here")
    # With process 1 of a container all in it has ended.
    left = _left_running(places) if has_ended and stopping.pid != 1 else []
    if as_json:
        more = {"left": [run.id for run in left]} if has_ended else {}
        say.out_json({"pid": pid, "stopped": has_ended, **more})
    elif has_ended or not wait:
        say.out(f"the daemon (process {pid}) {'has stopped' if has_ended else 'is stopping'}")
        if left:
            say.out(f"{_listed(left, 'runs on', 'run on')}; the next pycron takes over")
    if wait and not has_ended:
        raise not_ended(f"the daemon (process {pid})", timeout, "; the stop goes on")


def _hold(pid: int) -> int | None:
    """Return a pidfd; None where the daemon is not to be seen, as from another container."""
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Waits until the daemon is gone, and says for what where that takes a while."""

    conversation: Conversation
    process: int
    stopping: Stopping
    is_at_once: bool

    def has_ended(self, limit: timedelta | None) -> bool:
        """Wait for the process; False where it has not ended within ``limit``."""
        watch = Watch.begin()
        try:
            if _is_over(self.process, _IN_SILENCE if limit is None else min(limit, _IN_SILENCE)):
                return True
            if limit is not None and limit <= _IN_SILENCE:
                return False
            self._tell()
            rest = None if limit is None else max(limit - watch.elapsed(), timedelta(0))
            return _is_over(self.process, rest)
        except KeyboardInterrupt:
            say.note("not waiting any more; the stop goes on")
            raise

    def _tell(self) -> None:
        try:
            status = self.conversation.call(GetStatus(), _STATUS_PATIENCE)
        except PycronError:  # it is on its way out, or stuck
            say.note(f"waiting for the daemon (process {self.stopping.pid}) to end")
            return
        runs = [run for run in status.active if run.id in status.awaited]
        if not runs:
            say.note(f"waiting for the daemon (process {self.stopping.pid}) to end")
        elif self.is_at_once:
            say.note(f"waiting until {_listed(runs, 'has', 'have')} ended, as told")
        else:
            until = f"{_listed(runs, 'has', 'have')} ended{self._at_most()}"
            say.note(f"waiting until {until} (pycron stop --now does not wait)")

    def _at_most(self) -> str:
        limit = self.stopping.limit
        return "" if limit is None else f", for {format_duration(limit)} at most"


def _listed(runs: Sequence[Run], verb: str, verb_of_many: str) -> str:
    """Name the first of the runs, with the verb."""
    first, more = f"run {runs[0].id} of {runs[0].job}", len(runs) - 1
    return f"{first} and {more} more {verb_of_many}" if more else f"{first} {verb}"


def _left_running(places: Places) -> list[Run]:
    """Return the runs that the daemon has left to the next one; none where nobody can say."""
    try:
        with reading(places) as ledger:
            runs = ledger.open_runs() if ledger is not None else []
    except PycronError:
        return []
    return [run for run in runs if run.left_as is Left.RUNNING]


def _is_over(process: int, limit: timedelta | None) -> bool:
    """Wait for a process; False where it has not ended within ``limit``."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    limit_ms = None if limit is None else min(limit // timedelta(milliseconds=1), _LONGEST_POLL_MS)
    return bool(poll.poll(limit_ms))
