"""``pycron in``: run a command once, after a while."""

from __future__ import annotations

from typing import Annotated

import typer

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

EXAMPLES = (
    "pycron in 10m -- notify-send tea",
    "pycron in 0s --pool batch --key import-42 -- import.sh 42",
)


def command(
    span: Annotated[
        str, typer.Argument(metavar="DURATION", help="How long from now: 90s, 10m, 1h30m, 2d.")
    ],
    words: Words,
    *,
    key: KeyOption = None,
    timeout: TimeoutOption = None,
    pool: PoolOption = None,
    user: UserOption = None,
    cwd: DirectoryOption = None,
    settings: SetOption = None,
    crontab: DaemonCrontab = None,
    state_dir: StateDir = None,
    as_json: Json = False,
) -> None:
    """Run a command once, after a while.

    The time is measured whatever the clock is set to meanwhile, and goes on while the machine
    sleeps. For all else it is a task as those of pycron at.
    """
    options = TaskOptions(key, timeout, pool, user, cwd, settings)
    submit_one({"in": span}, words, options, places_of(crontab, state_dir), as_json=as_json)
