"""``pycron reload``: have the daemon read its crontab again."""

from __future__ import annotations

from crond_py.cli import say
from crond_py.cli.options import DaemonCrontab, Json, StateDir, places_of
from crond_py.control.client import call
from crond_py.control.codec import to_json
from crond_py.control.protocol import Reload

EXAMPLES = ("pycron reload",)


def command(
    *, crontab: DaemonCrontab = None, state_dir: StateDir = None, as_json: Json = False
) -> None:
    """Have the daemon read its crontab again.

    A bad crontab is refused with all its faults, and the daemon keeps the one it has. Runs go on.
    """
    reloaded = call(places_of(crontab, state_dir).socket, Reload())
    if as_json:
        say.out_json(to_json(reloaded))
        return
    for what, names in (
        ("added", reloaded.added),
        ("removed", reloaded.removed),
        ("changed", reloaded.changed),
    ):
        if names:
            say.out(f"{what}: {', '.join(names)}")
    if not (reloaded.added or reloaded.removed or reloaded.changed):
        say.out(f"nothing has changed in {reloaded.unchanged} jobs")
