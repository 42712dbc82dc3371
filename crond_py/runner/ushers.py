"""Start many processes at one instant by programs of their own, see ``usher``.

The daemon's part: which starts can be handed over, what an usher is told, and what has become of
each start once it has ended. An usher that does not get on (a dead disk, a job's user who has
stopped it) is killed, so that what it has not begun can be started in another way.
"""

from __future__ import annotations

import logging
import marshal
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from crond_py.clock import MONOTONIC
from crond_py.dataclass import dataclass
from crond_py.model import Limits
from crond_py.ports import AttemptKey, Clock
from crond_py.runner import usher
from crond_py.runner.errands import ERRANDS
from crond_py.runner.execute import encoded, popen
from crond_py.runner.letgo import LetGo, Loan
from crond_py.runner.marks import brand_in
from crond_py.runner.spawn import Ready
from crond_py.runner.wording import encode
from crond_py.runner.writing import hold

PATIENCE_NS: Final = 1_000_000_000
"""An usher that begins no start for so long is taken to hang."""

# Read once: an upgrade may replace the file while the daemon runs.
_TEXT: Final = Path(usher.__file__).read_text("utf-8")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ushered:
    """What became of one start: it was not begun, has failed, or is the process ``pid``.

    ``is_unknown``: the usher was killed over it, and nobody knows.
    """

    pid: int = 0
    started_ns: int = 0
    is_unknown: bool = False


def can_be_ushered(ready: Ready | None) -> bool:
    """Tell whether an usher can do all that a start needs."""
    if ready is None or ready.spec.stdin is not None:
        return False
    return ready.spec.nice is None and ready.spec.limits == Limits()


class Usher:
    """One usher and the starts that it is given.

    Each method is called by one thread but ``pids``, ``recall`` and ``withdraw``. Starts that were
    held for an instant are noted as let go by ``let_go``.

    ``memory_floor_kb`` is what its children's peak memory is told to be at least. Making it raises
    OSError.
    """

    def __init__(self, starts: Sequence[Ready], at_ns: int, clock: Clock, let_go: LetGo) -> None:
        self._starts = starts
        self._at_ns = at_ns
        self._clock = clock
        self._let_go = let_go
        self._loan: Loan | None = None
        self._pid = 0
        self.memory_floor_kb = 0
        self._slots = os.memfd_create("pycron-starts", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self._slots, self._size)
        except BaseException:
            os.close(self._slots)
            raise

    @property
    def _size(self) -> int:
        return usher.SLOT_BYTES * len(self._starts)

    def begin(self) -> None:
        """Start it. Raises OSError, or ValueError where its orders cannot be put into bytes.

        It may have done its work and ended before this returns, so somebody has to know by then
        that what it starts is no orphan.
        """
        held = [each.spec.held_for for each in self._starts if each.spec.held_for is not None]
        loan = self._loan = self._let_go.lend(max(held)) if held else None
        note = (loan.descriptor, loan.place, loan.value) if loan is not None else None
        starts = [_order(each) for each in self._starts]
        orders = (os.getpid(), MONOTONIC, self._at_ns, starts, note)
        descriptor = hold(marshal.dumps(orders), "pycron-orders")
        passed = (descriptor, self._slots, *((loan.descriptor,) if loan is not None else ()))
        try:
            argv = (sys.executable, "-I", "-S", "-c", _TEXT, str(descriptor), str(self._slots))
            self._pid = ERRANDS.begin(
                lambda: popen(
                    [os.fsencode(argument) for argument in argv],
                    stdin=subprocess.DEVNULL,
                    streams=(subprocess.DEVNULL, subprocess.DEVNULL),
                    pass_fds=passed,
                    cwd="/",
                    env={},
                )
            )
        finally:
            os.close(descriptor)

    def pids(self) -> set[int]:
        """Return the processes that it has started by now."""
        return {each.pid for each in self.results() if each.pid}

    def results(self) -> list[Ushered]:
        """Return what has become of each start by now."""
        data = os.pread(self._slots, self._size, 0)
        return [_result(data, place) for place in range(0, len(data), usher.SLOT_BYTES)]

    def recall(self) -> None:
        """Have it make no start any more that it has not begun; by any thread."""
        os.pwrite(self._slots, b"\1", self._size)

    def withdraw(self, key: AttemptKey) -> None:
        """Have it not make this start, if that is one of its and not begun; by any thread."""
        for number, ready in enumerate(self._starts):
            if ready.spec.key == key:
                os.pwrite(self._slots, b"\1", number * usher.SLOT_BYTES + usher.WITHDRAWN_AT)

    def wait(self) -> None:
        """Wait until it has ended; kill it where it does not get on, or cannot be waited for."""
        try:
            pidfd = os.pidfd_open(self._pid)
        except OSError:  # out of descriptors: then it is waited for as long as it takes
            self._reap()
            return
        try:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            before: bytes | None = None
            while not poll.poll(self._patience_ms()):
                now = os.pread(self._slots, self._size, 0)
                if now == before:
                    log.warning("what starts jobs does not get on, and is replaced")
                    self._kill()
                    break
                before = now
        except Exception:
            self._kill()
            raise
        finally:
            os.close(pidfd)
            self._reap()

    def _kill(self) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._pid, signal.SIGKILL)

    def _patience_ms(self) -> int:
        ahead_ns = max(0, self._at_ns - self._clock.monotonic_ns())
        return (ahead_ns + PATIENCE_NS) // 1_000_000

    def _reap(self) -> None:
        with suppress(ChildProcessError):  # somebody else in this process has waited for it
            *_, usage = os.wait4(self._pid, 0)
            self.memory_floor_kb = usage.ru_maxrss
        ERRANDS.forget(self._pid)

    def close(self) -> None:
        """Forget what became of the starts."""
        os.close(self._slots)
        if self._loan is not None:
            self._let_go.give_back(self._loan)


def _result(data: bytes, place: int) -> Ushered:
    told = int.from_bytes(data[place : place + 8], "little")
    if told == 0 or told >= usher.FAILED:
        return Ushered()
    if told == usher.BEGUN:
        return Ushered(is_unknown=True)
    return Ushered(told, int.from_bytes(data[place + 8 : place + 16], "little"))


def _order(ready: Ready) -> tuple[Any, ...]:
    """Return what an usher is told of one start; see there."""
    spec, setting = ready.spec, ready.setting
    account = setting.account
    return (
        ready.program,
        [encode(argument) for argument in spec.argv],
        [b"=".join(variable) for variable in encoded(setting.env).items()],
        encode(setting.cwd),
        spec.umask,
        os.fsencode(spec.output.path) if spec.output is not None and not ready.note else None,
        None if account.is_ours else (account.uid, account.gid, list(account.groups)),
        brand_in(setting.env),
    )
