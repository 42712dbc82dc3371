"""``pycron run``: checks its options and becomes the service.

The service is another program in the same process (execv), so that what runs for months has
neither this command line nor its libraries in memory.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated
from zoneinfo import TZPATH

import typer

from crond_py.cli import say
from crond_py.cli.options import CrontabArgument, StateDir, places_of
from crond_py.errors import PycronError, ScheduleError, UsageError
from crond_py.schedule import parse_duration

_LOG_FORMATS = ("text", "json")


EXAMPLES = (
    "pycron run",
    "pycron run ./crontab.toml --state-dir ./state",
    "pycron run --daemonize --pid-file /run/pycron.pid",
)


def command(
    crontab: CrontabArgument = None,
    *,
    state_dir: StateDir = None,
    log_format: Annotated[
        str, typer.Option(metavar="FORMAT", help="How the log is written: text or json.")
    ] = "text",
    log_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", show_default=False,
            help="Where the log goes; else standard error, or with --daemonize pycron.log in "
            "the state directory.",
        ),
    ] = None,
    daemonize: Annotated[
        bool, typer.Option("--daemonize", help="Go to the background, once all is well.")
    ] = False,
    pid_file: Annotated[
        str | None,
        typer.Option(metavar="FILE", show_default=False, help="Write the process id there."),
    ] = None,
    stop_timeout: Annotated[
        str,
        typer.Option(
            metavar="DURATION",
            help="How long a stop waits for running jobs before it ends them; none: for as long "
            "as they take.",
        ),
    ] = "30s",
    clock_check: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION", show_default=False,
            help="Compare the clocks this often, where the system cannot report that the wall "
            "clock was set.",
        ),
    ] = None,
) -> None:  # fmt: skip
    """Run the jobs of a crontab.

    Stays in the foreground. SIGHUP, or pycron reload, reads the crontab again; SIGTERM, or
    pycron stop, waits for the jobs that run and ends.
    """
    places = places_of(crontab, state_dir)
    if log_format not in _LOG_FORMATS:
        raise UsageError(f"--log-format is {' or '.join(_LOG_FORMATS)}, not {log_format!r}")
    log_path = Path(log_file) if log_file else None
    if daemonize and log_path is None:
        log_path = places.state_dir / "pycron.log"
    options = {
        "crontab": str(places.crontab),
        "state_dir": str(places.state_dir),
        "log_format": log_format,
        "log_file": str(log_path.absolute()) if log_path else None,
        "daemonize": daemonize,
        "pid_file": str(Path(pid_file).absolute()) if pid_file else None,
        "stop_timeout": None
        if stop_timeout == "none"
        else _seconds("--stop-timeout", stop_timeout),
        "clock_check": _seconds("--clock-check", clock_check) if clock_check else None,
    }
    if options["clock_check"] == 0:
        raise UsageError("--clock-check: clocks cannot be compared every 0s; leave it out")
    _become_service(json.dumps(options))


def _seconds(option: str, text: str) -> float:
    try:
        return parse_duration(text).total_seconds()
    except ScheduleError as error:
        raise UsageError(f"{option}: {error}") from None


def _become_service(options: str) -> None:
    """Replace this program by the service; it gets its options as one argument."""
    say.flush()
    # -P: nothing that lies in the current directory is taken for a module. The columns of each
    # instruction, which only mark the place in the lines of a traceback, take a lot of memory.
    arguments = [sys.executable, "-P", "-X", "no_debug_ranges", "-m", "crond_py.service", options]
    # It need not read how Python was built only to know where zones are; no job is given this.
    environment = {**os.environ, "PYTHONTZPATH": os.pathsep.join(TZPATH)}
    try:
        os.execve(sys.executable, arguments, environment)  # noqa: S606 - no shell is wanted
    except OSError as error:
        message = f"the Python at {sys.executable} cannot be started: {error.strerror}"
        raise PycronError(message) from None
