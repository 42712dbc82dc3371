"""``pycron reload``: have the daemon read its crontab again."""

from __future__ import annotations

from crond_py.cli import say
from crond_py.cli.options import DaemonCrontab, Json, StateDir, places_of
from crond_py.control.client import Conversation
from crond_py.control.codec import to_json
from crond_py.control.protocol import Changed, GetStatus, Reload, Reloaded

EXAMPLES = ("pycron reload",)


def command(
    *, crontab: DaemonCrontab = None, state_dir: StateDir = None, as_json: Json = False
) -> None:
    """Have the daemon read its crontab again.

    A bad crontab is refused with all its faults, and the daemon keeps the one it has. Runs go on.
    What troubles the daemon then, such as tasks that wait for a pool that is gone, is told, too.
    """
    with Conversation(places_of(crontab, state_dir).socket) as conversation:
        reloaded = conversation.call(Reload())
        troubles = conversation.call(GetStatus()).troubles
    if as_json:
        say.out_json(to_json(reloaded))
    else:
        for line in _lines(reloaded) or [_unchanged(reloaded.unchanged)]:
            say.out(line)
    for trouble in troubles:
        say.note(f"trouble: {trouble}")


def _lines(reloaded: Reloaded) -> list[str]:
    """Return a line for each kind of change that there is."""
    jobs = Changed(reloaded.added, reloaded.removed, reloaded.changed)
    return [
        f"{prefix}{what}: {', '.join(names)}"
        for prefix, changed in (
            ("", jobs),
            ("pools ", reloaded.pools),
            ("groups ", reloaded.groups),
        )
        for what, names in (
            ("added", changed.added),
            ("removed", changed.removed),
            ("changed", changed.changed),
        )
        if names
    ]


def _unchanged(number: int) -> str:
    return f"nothing has changed in {number} {'job' if number == 1 else 'jobs'}"
