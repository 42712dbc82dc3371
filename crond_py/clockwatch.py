"""Tells when the wall clock was set or the machine woke from a suspend.

On Linux the kernel says so: a timer on CLOCK_REALTIME that is never meant to fire, armed with
TFD_TIMER_CANCEL_ON_SET, is cancelled by every discontinuous change of that clock, and a resume is
one (timerfd_create(2)). The thread that reads it sleeps until then. Where there is no such timer,
or where the owner asks for it besides (a clock that changes without the kernel's knowledge), the
two clocks are compared at an interval.

What a change means is for the one who is told: this module knows no deadline.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Protocol

from crond_py.clock import to_ns, wall_offset_ns
from crond_py.ports import Clock
from crond_py.vital import VitalThread

log = logging.getLogger("pycron.clock")

STEP_TOLERANCE_NS = 1_000_000
"""Differences below this are noise of reading two clocks one after the other."""

FALLBACK_INTERVAL = timedelta(seconds=1)
"""How often the clocks are compared where the kernel cannot report a change."""

_NS_PER_S = 1_000_000_000
_TEN_YEARS_S = 10 * 365 * 86_400
_YEAR_2200_S = 7_258_118_400


class ClockWatch:
    """Calls ``on_change`` soon after the wall clock was set or the machine resumed.

    ``on_change`` is called from a thread of the watch, one call at a time; it may be called once
    more than was needed and must return soon. With ``check_every`` the clocks are compared at
    that interval as well.

    ``start``, ``stop`` and ``wait`` may be called any number of times, in any order, from any
    thread; a stopped watch stays stopped. What changes after ``start`` has returned is noticed.
    """

    def __init__(
        self,
        clock: Clock,
        on_change: Callable[[], None],
        *,
        check_every: timedelta | None = None,
    ) -> None:
        if check_every is not None and check_every <= timedelta(0):
            raise ValueError(f"clocks cannot be compared every {check_every}")
        self._clock = clock
        self._on_change = on_change
        self._check_every = check_every
        self._lock = threading.Lock()
        self._telling = threading.Lock()
        self._is_stopped = False
        self._watchers: list[_Watcher] = []
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to watch, unless that has been done or the watch was stopped."""
        with self._lock:
            if self._watchers or self._is_stopped:
                return
            watchers = self._open()
            try:
                self._threads = [self._spawn(watcher) for watcher in watchers]
            except RuntimeError:  # no thread to be had
                for watcher in watchers:
                    watcher.stop()
                raise
            self._watchers = watchers

    def stop(self) -> None:
        """End the watch; a call of ``on_change`` that is under way ends by itself."""
        with self._lock:
            self._is_stopped = True
            for watcher in self._watchers:
                watcher.stop()

    def wait(self) -> None:
        """Wait until ``on_change`` is not called any more; at once if the caller is called by it.

        That is after ``stop``, or at once if the watch never began.
        """
        with self._lock:
            threads = list(self._threads)
        if threading.current_thread() not in threads:
            for thread in threads:
                thread.join()

    def _spawn(self, watcher: _Watcher) -> threading.Thread:
        # Without it occurrences are due at readings that the clock does not show any more.
        thread = VitalThread(
            target=watcher.run, args=(self._tell,), name="clock-watch", daemon=True
        )
        thread.start()
        return thread

    def _open(self) -> list[_Watcher]:
        watchers: list[_Watcher] = []
        interval = self._check_every
        try:
            watchers.append(_KernelWatcher(self._clock))
        except (OSError, AttributeError) as error:
            interval = interval or FALLBACK_INTERVAL
            log.info("the kernel does not report clock changes (%s); comparing clocks", error)
        if interval is not None:
            watchers.append(_ComparingWatcher(self._clock, interval))
        return watchers

    def _tell(self) -> None:
        with self._telling:
            try:
                self._on_change()
            except Exception:
                # A fault in one call must not end the watch.
                log.exception("dealing with a change of the clock failed")


class _Watcher(Protocol):
    """One way to notice a change; ``run`` returns after ``stop``."""

    def run(self, tell: Callable[[], None]) -> None: ...

    def stop(self) -> None: ...


# --- the kernel tells --------------------------------------------------------------------------


class _KernelWatcher:
    """Blocks until the kernel cancels the timer. Armed as soon as it is made.

    Raises OSError or AttributeError where the system has no such timer.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._is_running = False
        self._is_stopped = False
        self._is_open = True
        self._timer = _open_timer()
        self._wake = -1
        try:
            self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
            self._arm()
        except BaseException:
            self._close()
            raise

    def run(self, tell: Callable[[], None]) -> None:
        with self._lock:
            if self._is_stopped:
                return
            self._is_running = True
        try:
            self._watch(tell)
        finally:
            with self._lock:
                self._close()

    def stop(self) -> None:
        with self._lock:
            self._is_stopped = True
            if not self._is_running:
                self._close()
            elif self._is_open:
                os.eventfd_write(self._wake, 1)

    def _watch(self, tell: Callable[[], None]) -> None:
        poll = select.poll()
        poll.register(self._timer, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            poll.poll()
            if self._is_stopped:
                return
            was_cancelled = self._was_cancelled()
            # Armed again first: a change during the call is then not lost.
            if self._arm() or was_cancelled:
                tell()

    def _arm(self) -> bool:
        """Arm the timer far away; say whether the clock was set since the last look."""
        # Far away by the kernel's reading too, which a preloaded library may hide from this one.
        expiry_s = max(self._clock.time_ns() // _NS_PER_S + _TEN_YEARS_S, _YEAR_2200_S)
        try:
            _set_timer(self._timer, expiry_s)
        except OSError as error:
            # Armed all the same: the kernel looks for a change after it has started the timer.
            if error.errno == errno.ECANCELED:
                return True
            raise
        return False

    def _was_cancelled(self) -> bool:
        try:
            os.read(self._timer, 8)
        except BlockingIOError:
            return False
        except OSError as error:
            if error.errno == errno.ECANCELED:
                return True
            raise
        return False  # it ran out, years later

    def _close(self) -> None:
        if self._is_open:
            self._is_open = False
            os.close(self._timer)
            if self._wake >= 0:
                os.close(self._wake)


# Values of the kernel's interface, the same on every architecture.
_CLOCK_REALTIME = 0
_TFD_TIMER_ABSTIME = 1
_TFD_TIMER_CANCEL_ON_SET = 2
_FLAGS = _TFD_TIMER_ABSTIME | _TFD_TIMER_CANCEL_ON_SET

if sys.version_info >= (3, 13):

    def _open_timer() -> int:
        return os.timerfd_create(_CLOCK_REALTIME, flags=os.TFD_CLOEXEC | os.TFD_NONBLOCK)

    def _set_timer(timer: int, expiry_s: int) -> None:
        os.timerfd_settime_ns(timer, flags=_FLAGS, initial=expiry_s * _NS_PER_S)

else:
    import ctypes

    class _Timespec(ctypes.Structure):
        # The C library's plain symbol takes a time_t as wide as long, also on a 32-bit machine
        # whose newer programs are compiled against one of 64 bits.
        _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))

    class _Itimerspec(ctypes.Structure):
        _fields_ = (("interval", _Timespec), ("value", _Timespec))

    _LATEST_S = (1 << (8 * ctypes.sizeof(ctypes.c_long) - 1)) - 1

    def _open_timer() -> int:
        libc = ctypes.CDLL(None, use_errno=True)
        return _checked(libc.timerfd_create(_CLOCK_REALTIME, os.O_CLOEXEC | os.O_NONBLOCK))

    def _set_timer(timer: int, expiry_s: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        spec = _Itimerspec(_Timespec(0, 0), _Timespec(min(expiry_s, _LATEST_S), 0))
        _checked(libc.timerfd_settime(timer, _FLAGS, ctypes.byref(spec), None))

    def _checked(result: int) -> int:
        if result < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code))
        return result


# --- the clocks are compared -------------------------------------------------------------------


class _ComparingWatcher:
    """Compares the two clocks at an interval."""

    def __init__(self, clock: Clock, interval: timedelta) -> None:
        self._clock = clock
        self._interval_ns = to_ns(interval)
        self._condition = threading.Condition()
        self._is_stopped = False
        self._offset_ns = wall_offset_ns(clock)

    def run(self, tell: Callable[[], None]) -> None:
        while self._wait():
            offset_ns = wall_offset_ns(self._clock)
            if abs(offset_ns - self._offset_ns) >= STEP_TOLERANCE_NS:
                self._offset_ns = offset_ns
                tell()

    def stop(self) -> None:
        with self._condition:
            self._is_stopped = True
            self._condition.notify()

    def _wait(self) -> bool:
        """Let one interval pass; False once stopped."""
        deadline_ns = self._clock.monotonic_ns() + self._interval_ns
        with self._condition:
            while not self._is_stopped and self._clock.monotonic_ns() < deadline_ns:
                self._clock.wait(self._condition, deadline_ns)
            return not self._is_stopped
