"""Every error that pycron raises on purpose, as one tree.

    PycronError                      exit code 1
    ├── UsageError                   exit code 2   a request that makes no sense as put
    │   ├── ScheduleError            an expression, zone or duration that cannot be read
    │   ├── UnknownNameError         no such job, run, task or pool
    │   │   └── EndedAlreadyError    exit code 1   a run or task that is over
    │   └── TaskRefusedError         tasks that cannot be taken as put; carries every fault
    ├── DaemonNotRunningError        exit code 3   nobody listens on the control socket
    ├── NotPermittedError            exit code 1   this user may not talk to the daemon
    ├── CrontabError                 exit code 78  the crontab is refused; carries every fault
    ├── StateLockedError             exit code 1   another daemon holds the state directory
    ├── LedgerError                  exit code 1   the ledger cannot be read or written now
    │   ├── LedgerCorruptError       it is not a ledger, or a newer or damaged one
    │   └── LedgerRefusedError       a record that no ledger would ever take
    ├── RequestRefusedError          exit code 1   understood, but policy says no
    │   └── CrowdedError             too many clients at the moment; to be asked again
    ├── CannotStartError             exit code 126 a process cannot be started as its job wants it
    │   └── CommandNotFoundError     exit code 127 there is no such command
    ├── ProtocolError                exit code 1   a line on the control socket that makes no sense
    └── SchedulerShutdownError       exit code 1   a task for a scheduler that has been shut down

A message is one sentence that names the thing, its place and the way out; what a program
may want to look at is an attribute. A command that fails is an outcome of a run, never an
exception. Exit code 78 is EX_CONFIG of sysexits(3).
"""

from __future__ import annotations

from typing import ClassVar

from crond_py.dataclass import dataclass


class PycronError(Exception):
    """Base of the tree; ``exit_code`` is what the command line leaves with."""

    exit_code: ClassVar[int] = 1


class UsageError(PycronError):
    """A request that makes no sense as put."""

    exit_code: ClassVar[int] = 2


class ScheduleError(UsageError, ValueError):
    """A schedule, time zone or duration that cannot be read.

    ``field`` is the field at fault as crontab(5) calls it (``"minute"``, ``"day of month"``,
    ``"timezone"``, ``"expression"``); ``allowed`` says what may stand there, or is empty.
    """

    def __init__(self, message: str, *, field: str = "expression", allowed: str = "") -> None:
        super().__init__(message)
        self.field = field
        self.allowed = allowed


class UnknownNameError(UsageError, LookupError):
    """No job, run, task or pool of that name."""


class EndedAlreadyError(UnknownNameError):
    """A run or task that is over: there is nothing left of it to be ended or waited for."""

    exit_code: ClassVar[int] = 1


class DaemonNotRunningError(PycronError):
    """Nobody listens on the control socket."""

    exit_code: ClassVar[int] = 3


class NotPermittedError(PycronError):
    """The daemon, if there is one, is not for the user who asks."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong in a crontab.

    ``line`` counts from 1 and is 0 where no line can be named (an unreadable file); ``key`` is
    the dotted TOML path (``jobs.backup.overlap``) or empty.
    """

    path: str
    line: int
    key: str
    message: str
    suggestion: str = ""

    def __str__(self) -> str:
        place = f"{self.path}:{self.line}" if self.line else self.path
        before = "".join(f"{part}: " for part in (place, self.key) if part)
        hint = f" ({self.suggestion})" if self.suggestion else ""
        return f"{before}{self.message}{hint}"


class CrontabError(PycronError):
    """The crontab is refused whole; ``faults`` has every fault in the order of the files' lines."""

    exit_code: ClassVar[int] = 78

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


class TaskRefusedError(UsageError):
    """Tasks that were handed in together are refused together; ``faults`` says what is wrong.

    The line of a fault is that of the file that the task is from, or else the task's place among
    those that were handed in, from 1; it is 0 where there is but one.
    """

    def __init__(self, faults: tuple[Fault, ...]) -> None:
        super().__init__("\n".join(map(str, faults)))
        self.faults = faults


class StateLockedError(PycronError):
    """Another daemon holds the state directory; ``pid`` is its process id, or None if unknown."""

    def __init__(self, message: str, *, pid: int | None) -> None:
        super().__init__(message)
        self.pid = pid


class LedgerError(PycronError):
    """The ledger cannot be read or written now (locked, disk full, no permission)."""


class LedgerCorruptError(LedgerError):
    """The file is not a ledger, is damaged, or was written by a newer pycron.

    ``is_newer`` tells the last, ``is_foreign`` that it is another program's database: such files
    are sound, and not to be set aside. ``way_out`` follows the message; ``what`` is without it.
    """

    def __init__(
        self,
        message: str,
        *,
        way_out: str = "",
        is_newer: bool = False,
        is_foreign: bool = False,
    ) -> None:
        super().__init__(f"{message}; {way_out}" if way_out else message)
        self.what = message
        self.is_newer = is_newer
        self.is_foreign = is_foreign


class LedgerRefusedError(LedgerError):
    """A record contradicts itself or what is there; trying again will not help."""


class RequestRefusedError(PycronError):
    """A request that was understood and that policy does not allow now."""


class CrowdedError(RequestRefusedError):
    """As many clients are there, or wait, as may; nothing was done, and one may ask again."""


class CannotStartError(PycronError):
    """A process cannot be started as its job wants it; exit codes are those of a shell.

    Inside the daemon it is an outcome: whoever starts processes catches it.
    """

    exit_code: ClassVar[int] = 126


class CommandNotFoundError(CannotStartError):
    """There is no such command."""

    exit_code: ClassVar[int] = 127


class ProtocolError(PycronError):
    """A line on the control socket that is not a request or reply of this version."""


class SchedulerShutdownError(PycronError, RuntimeError):
    """A task was given to a scheduler that has been shut down."""
