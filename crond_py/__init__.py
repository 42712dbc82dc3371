"""pycron, the accountable cron.

A map of the package; imports go down only.

    cli/            the commands: the only place where typer and rich live; __main__: the same
    service         puts the daemon together, starts and stops its parts, deals with signals
    client          the Python API for submitted tasks of a running daemon
    daemonize       goes to the background; pidfile, sdnotify: tell others about the daemon
    logs/           what the daemon says, and where to
    launch          from a run to the process to start
    timetable       from a job to its due instants
    control/        the socket by which commands talk to a running daemon
    engine/         the state machine that turns due instants into accounted runs
    scheduler/      the Python API: callables at their time on a pool of threads
    ledger/         where every run is kept
    runner/         starts, watches and ends processes
    dispatcher      the heap of deadlines and the thread that sleeps until the first of them
    clockwatch      tells when the wall clock was set or the machine woke
    crontab/        the model of the crontab and its loader
    policy          the rules as pure functions: overlap, missed, retry, recovery
    clocksteps      the same: what a step of the wall clock changes
    clock           the system's clock, the only reader of it
    vital           threads that the daemon does not outlive
    ports           the seams between the parts, as Protocols
    schedule/       when something is due: cron expressions, zones, intervals
    model, errors   the words of the product as data, and its errors
    places          where files are kept; printable: text that drives no terminal
    lean, dataclass, untyped, digest
                    keep the daemon small; percent: percent-encoding

The names below are the public Python API. They are loaded when they are first used, so that the
command line and the daemon do not pay for what they do not need.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

TYPE_CHECKING = False  # that of typing would load it
if TYPE_CHECKING:
    from crond_py.client import Client, StoredTask
    from crond_py.control.protocol import SubmittedTask
    from crond_py.errors import (
        DaemonNotRunningError,
        EndedAlreadyError,
        PycronError,
        ScheduleError,
        SchedulerShutdownError,
        TaskRefusedError,
        UnknownNameError,
        UsageError,
    )
    from crond_py.model import Outcome, Run
    from crond_py.schedule import parse_schedule
    from crond_py.scheduler import (
        EveryMode,
        Missed,
        Overlap,
        Retry,
        Scheduler,
        Task,
        TaskState,
    )

__all__ = [
    "Client",
    "DaemonNotRunningError",
    "EndedAlreadyError",
    "EveryMode",
    "Missed",
    "Outcome",
    "Overlap",
    "PycronError",
    "Retry",
    "Run",
    "ScheduleError",
    "Scheduler",
    "SchedulerShutdownError",
    "StoredTask",
    "SubmittedTask",
    "Task",
    "TaskRefusedError",
    "TaskState",
    "UnknownNameError",
    "UsageError",
    "__version__",
    "parse_schedule",
]

_HOMES = {
    "Client": "crond_py.client",
    "StoredTask": "crond_py.client",
    "SubmittedTask": "crond_py.control.protocol",
    "Outcome": "crond_py.model",
    "Run": "crond_py.model",
    "DaemonNotRunningError": "crond_py.errors",
    "EndedAlreadyError": "crond_py.errors",
    "TaskRefusedError": "crond_py.errors",
    "UnknownNameError": "crond_py.errors",
    "EveryMode": "crond_py.model",
    "Missed": "crond_py.model",
    "Overlap": "crond_py.model",
    "Retry": "crond_py.model",
    "PycronError": "crond_py.errors",
    "ScheduleError": "crond_py.errors",
    "SchedulerShutdownError": "crond_py.errors",
    "UsageError": "crond_py.errors",
    "Scheduler": "crond_py.scheduler",
    "Task": "crond_py.scheduler",
    "TaskState": "crond_py.scheduler",
    "parse_schedule": "crond_py.schedule",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
