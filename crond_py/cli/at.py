"""``pycron at``: run a command once, at a time of the clock."""

from __future__ import annotations

from typing import Annotated

import typer

from crond_py.cli.moments import moment_values
from crond_py.cli.one_task import (
    DirectoryOption,
    KeyOption,
    PoolOption,
    SetOption,
    TaskOptions,
    TimeoutOption,
    UserOption,
    Words,
    submit_one,
)
from crond_py.cli.options import DaemonCrontab, Json, StateDir, places_of
from crond_py.cli.times import system_zone
from crond_py.clock import SystemClock
from crond_py.errors import UsageError

EXAMPLES = (
    "pycron at 18:00 -- make backup",
    "pycron at tomorrow 07:30 --timeout 1h -- 'sort -u in.txt > out.txt'",
    "pycron at 2026-12-24T18:00:00+01:00 -- release.sh",
)


def command(
    when: Annotated[
        str,
        typer.Argument(
            metavar="WHEN",
            help="18:00 (the next time that the clock shows it), tomorrow 07:30, "
            "2026-12-24 18:00, 2026-12-24T18:00:00+01:00.",
        ),
    ],
    words: Words,
    *,
    timezone: Annotated[
        str | None,
        typer.Option(
            "--timezone", "--tz", metavar="ZONE", show_default=False,
            help="The zone in which WHEN is read; else that of this machine.",
        ),
    ] = None,
    key: KeyOption = None,
    timeout: TimeoutOption = None,
    pool: PoolOption = None,
    user: UserOption = None,
    cwd: DirectoryOption = None,
    settings: SetOption = None,
    crontab: DaemonCrontab = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Run a command once, at a time of the clock.

    The daemon runs it, also if it is restarted meanwhile; what was missed for that is run when it
    is back. It is a task: pycron tasks shows those that are to come, pycron cancel takes one back.
    It runs in the current directory, and has the environment of a job, not yours.
    """
    if any(text.partition("=")[0].strip() == "timezone" for text in settings or ()):
        raise UsageError("--set timezone says nothing of WHEN; for its zone there is --tz")
    zone = timezone or system_zone().key
    values = moment_values(when, zone, SystemClock().now())
    options = TaskOptions(key, timeout, pool, user, cwd, settings)
    submit_one(values, words, options, places_of(crontab, state_dir), as_json=as_json)
