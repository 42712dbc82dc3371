"""``pycron exec``: run a job's command here and now, in the environment that its runs have."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import typer

from crond_py.cli import say
from crond_py.cli.byhand import find_job, note_other_user, spec_of
from crond_py.cli.options import Crontab, StateDir, complete_job, places_of
from crond_py.ports import ProcessSpec

EXAMPLES = ("pycron exec backup", "pycron exec backup --shell")

_WITHOUT_STARTUP_FILES: Final = {"bash": "--norc", "zsh": "-f", "fish": "--no-config"}


def command(
    job: Annotated[
        str, typer.Argument(metavar="JOB", help="The job's name.", autocompletion=complete_job)
    ],
    *,
    shell: Annotated[
        bool,
        typer.Option(
            "--shell", help="Start the job's shell in that environment instead of its command."
        ),
    ] = False,
    crontab: Crontab = None,
    state_dir: StateDir = None,
) -> None:  # fmt: skip
    """Run a job's command here, as the daemon would.

    User, groups, environment, directory, umask, limits, nice value and input are those of a run.
    The output comes here. The job's timeout holds; Ctrl-C ends all its processes. No daemon is
    needed, nothing is recorded, and no overlap policy is asked: see pycron trigger for that.

    The exit code is that of the command, 128 and the number of the signal that ended it, 124
    where it timed out, 126 or 127 where it could not be started.
    """
    places = places_of(crontab, state_dir)
    found = find_job(job, places, crontab)
    note_other_user(found, places)
    spec = spec_of(found, places)
    say.flush()
    if shell:
        _become_shell(spec, found.command)
    # Threads and libraries that only a run needs.
    from crond_py.cli.foreground import run_in_foreground  # noqa: PLC0415

    raise typer.Exit(run_in_foreground(found, spec))


def _become_shell(spec: ProcessSpec, command: str | tuple[str, ...]) -> None:
    """Replace this program by the shell. Raises CannotStartError.

    It keeps the terminal, and so the session that belongs to it, and reads no file of its own
    first that would change what it has been given.
    """
    from crond_py.runner.confine import become  # noqa: PLC0415 - as above

    if sys.stdin is not None and sys.stdin.isatty():
        shown = command if isinstance(command, str) else " ".join(command)
        say.note(f"this is the environment of {spec.env['PYCRON_JOB']}; it runs: {shown}")
    option = _WITHOUT_STARTUP_FILES.get(Path(spec.shell).name)
    argv = (spec.shell, option) if option else (spec.shell,)
    os.umask(spec.umask)
    become(replace(spec, argv=argv, stdin=None))
