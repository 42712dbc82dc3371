"""``pycron every``: run a command again and again, until it is cancelled."""

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
    "pycron every 5m -- poll.sh",
    "pycron every 1h -s offset=0s -s overlap=queue -- sync --all",
)


def command(
    span: Annotated[
        str, typer.Argument(metavar="DURATION", help="The interval: 30s, 5m, 1h30m, 1d.")
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
    """Run a command again and again, until it is cancelled.

    The first run is one interval from now, with -s offset=0s at once. For all else it is a task as
    those of pycron at; what is to stay belongs into the crontab.
    """
    options = TaskOptions(key, timeout, pool, user, cwd, settings)
    submit_one({"every": span}, words, options, places_of(crontab, state_dir), as_json=as_json)
