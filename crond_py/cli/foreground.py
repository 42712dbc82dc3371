"""Runs one process in the terminal by the parts that the daemon runs it by, and waits for it.

The process has a session of its own, so what the terminal sends reaches only us; each signal is
passed on to the whole tree: SIGTERM at first, and SIGKILL when it comes again or ``kill_after``
is over. Nothing is recorded.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Final

from crond_py.cli import say
from crond_py.clock import SystemClock, to_ns
from crond_py.crontab.model import Job
from crond_py.dataclass import dataclass
from crond_py.dispatcher import Dispatcher
from crond_py.errors import CannotStartError
from crond_py.inbox import SAME_REQUEST, Inbox
from crond_py.ports import Ended, LeftOver, ProcessSpec, Started, StartFailed
from crond_py.runner.process import ProcessRunner
from crond_py.runner.setting import prepare, resolve
from crond_py.runner.subreaper import become_subreaper
from crond_py.schedule import format_duration

TIMED_OUT: Final = 124  # as timeout(1) has it
_UNKNOWN: Final = 1
_KILLED_BY: Final = 128  # as a shell has it
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@dataclass(frozen=True, slots=True)
class _Timeout:
    """The job has taken as long as it may."""


@dataclass(frozen=True, slots=True)
class _GraceOver:
    """What got SIGTERM has had its time."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """Somebody has sent a signal that is to end the run."""

    received_ns: int


class _Foreground:
    """One process from its start to its end. Everything happens in the main thread."""

    def __init__(self, job: Job, spec: ProcessSpec, inbox: Inbox) -> None:
        self._job = job
        # The output goes to the streams. A file that the spec names is that of a recorded run.
        self._spec = replace(spec, output=None)
        self._inbox = inbox
        self._clock = SystemClock()
        self._timers = Dispatcher(self._clock, self._deliver)
        streams = (_descriptor(sys.stdout, 1), _descriptor(sys.stderr, 2))
        self._runner = ProcessRunner(inbox.put, self._clock, starters=1, streams=streams)
        self._stops = 0
        self._asked_ns = 0
        self._is_timed_out = False

    def run(self) -> int:
        """Start it, and return the exit status to leave with once it has ended."""
        self._runner.open()
        self._timers.start()
        try:
            self._runner.start(self._spec)
            while (status := self._attend(self._inbox.get())) is None:
                pass
            return status
        finally:
            self._timers.stop()
            self._runner.close()

    def _attend(self, event: object) -> int | None:
        """Act on what has happened; return the exit status once the process has ended."""
        match event:
            case Started() if self._job.timeout is not None:
                self._after(self._job.timeout, _Timeout())
            case StartFailed():
                raise CannotStartError(event.reason)
            case LeftOver():
                what = (
                    "1 process outlives" if event.count == 1 else f"{event.count} processes outlive"
                )
                self._stop(f"{what} the command, to be ended")
            case Ended():
                return self._status_of(event)
            case _Timeout() if not self._stops and self._job.timeout is not None:
                self._is_timed_out = True
                self._stop(f"timed out after {format_duration(self._job.timeout)}")
            case _GraceOver() if self._stops == 1:
                self._stop(f"SIGKILL: still alive after {format_duration(self._job.kill_after)}")
            case _Asked():
                self._stop_on(event)
        return None

    def _stop_on(self, asked: _Asked) -> None:
        """End the tree for a signal; several that come together are one: timeout(1) sends two."""
        is_same = self._asked_ns and asked.received_ns - self._asked_ns < to_ns(SAME_REQUEST)
        self._asked_ns = self._asked_ns or asked.received_ns
        if not self._stops:
            self._stop("SIGTERM to all processes of the run; the next time it is SIGKILL")
        elif not is_same:
            self._stop("SIGKILL to all processes of the run")

    def _stop(self, why: str) -> None:
        """End the tree: politely at first, after that by force."""
        _tell(why)
        self._stops += 1
        self._runner.stop(self._spec.key, force=self._stops > 1)
        if self._stops == 1:
            self._after(self._job.kill_after, _GraceOver())

    def _deliver(self, items: list[object], _popped_ns: int) -> None:
        for item in items:
            self._inbox.put(item)

    def _after(self, delay: timedelta, item: object) -> None:
        self._timers.call_at(self._clock.monotonic_ns() + to_ns(delay), item)

    def _status_of(self, ended: Ended) -> int:
        if ended.note:
            _tell(ended.note)
        if self._is_timed_out:
            return TIMED_OUT
        if ended.exit.signal is not None:
            return _KILLED_BY + ended.exit.signal
        if ended.exit.code is None:
            _tell("how the command has ended is not known")
            return _UNKNOWN
        return ended.exit.code


def run_in_foreground(job: Job, spec: ProcessSpec) -> int:
    """Run the job's process to its end and return the exit status: its own, or 128 + its signal.

    Raises CannotStartError.
    """
    with prepare(spec, resolve(spec)):  # by their kinds errors tell 126 from 127
        pass
    become_subreaper()
    inbox = Inbox()
    # What was ignored when we were started (nohup) stays without effect on us.
    heeded = [number for number in _SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    clock = SystemClock()
    with inbox.catching(heeded, lambda _: _Asked(clock.monotonic_ns())):
        return _Foreground(job, spec, inbox).run()


def _descriptor(stream: object, number: int) -> int:
    """Return the descriptor of a standard stream, or that of nothing where it was closed."""
    return number if stream is not None else subprocess.DEVNULL


def _tell(text: str) -> None:
    with suppress(OSError):  # the terminal has gone: all the more the tree has to be ended
        say.note(text)
