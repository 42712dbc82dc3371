"""Start one process, or say in plain words why there is none.

A start can hang where a disk or a server is dead. subprocess may start its child by vfork(2),
holding the interpreter still until the child has executed its program; so what may hang is tried
beforehand, by calls that hold up only the thread they are made in (see ``setting``), and the
output is opened. The same calls tell which of them is at fault.

The child leads a session of its own, has no descriptor of ours but its three, the default
dispositions and an empty mask of signals, and nothing of our environment. No code of ours runs
between fork and exec: ``execute`` and ``confine`` are the two ways from here.

A text for the shell that needs none is executed without one (see ``shellless``).
"""

from __future__ import annotations

import os
import resource
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from crond_py.dataclass import dataclass
from crond_py.errors import CannotStartError
from crond_py.ports import ProcessSpec
from crond_py.printable import printable_line
from crond_py.runner.accounts import Account, find_account
from crond_py.runner.confine import execute_confined, is_confined
from crond_py.runner.execute import execute
from crond_py.runner.lookups import Lookups
from crond_py.runner.output import open_output
from crond_py.runner.setting import Prepared, Setting, prepare, resolve
from crond_py.runner.shellless import physical_directory, without_shell
from crond_py.runner.wording import cause


@dataclass(frozen=True, slots=True)
class Spawned:
    """A process that runs. ``note`` says what is not as it was asked for, or is empty.

    ``memory_floor_kb`` is what wait4(2) will report as its peak memory at least: Linux counts
    the memory of ours that the child shared until it executed its program.
    """

    pid: int
    memory_floor_kb: int
    note: str


@dataclass(frozen=True, slots=True)
class Refused:
    """No process was started."""

    reason: str


@dataclass(frozen=True, slots=True)
class Ready:
    """A start of which all is found that need not be found at its instant.

    ``spec`` and ``setting`` are those that the process is executed by, which may be without a
    shell; its output's file is there already, or ``note`` says why not.
    """

    spec: ProcessSpec
    setting: Setting
    program: bytes
    note: str = ""


def make_ready(spec: ProcessSpec, lookups: Lookups) -> Ready | None:
    """Find what a start needs; None: that is to be found, or told to be missing, when it begins."""
    if spec.stdin is not None:  # it would be held open
        return None
    with suppress(CannotStartError):
        setting = resolve(spec, lookups.account(spec.user))
        for way in _ways(spec, setting, lookups.directory):
            with suppress(CannotStartError):
                program = lookups.program(*way)
                output, note = _open_output(*way)
                if output is not None:
                    os.close(output)
                return Ready(*way, program, note)
    return None


def spawn(
    spec: ProcessSpec,
    *,
    streams: tuple[int, int] | None = None,
    ready: Ready | None = None,
    look_up: Callable[[str | None], Account] = find_account,
    hold: Callable[[], None] = lambda: None,
) -> Spawned | Refused:
    """Start the process. The caller is the one that waits for it.

    With ``streams`` standard output and error go to these descriptors, whatever the spec says.
    ``ready`` is what was made of the spec a moment ago. ``look_up`` finds the account. ``hold`` is
    called when all else is done; what it raises comes through, and then there is no process.
    """
    if ready is not None:
        with suppress(CannotStartError):  # if it is still so, that is told below
            prepared = Prepared(ready.program, None)
            return _start(ready.spec, ready.setting, prepared, streams, hold)
    try:
        setting = resolve(spec, look_up(spec.user))
        *without, (spec, setting) = _ways(spec, setting)
        for way in without:
            with suppress(CannotStartError), prepare(*way) as prepared:
                return _start(*way, prepared, streams, hold)
        with prepare(spec, setting) as prepared:
            return _start(spec, setting, prepared, streams, hold)
    except CannotStartError as error:
        return Refused(str(error))


def _ways(
    spec: ProcessSpec,
    setting: Setting,
    find_directory: Callable[[str], str] = physical_directory,
) -> list[tuple[ProcessSpec, Setting]]:
    """Return how a spec can be executed: without a shell if it needs none, and as it is.

    Where the first does not work, the shell has its own words for it.
    """
    words = without_shell(spec, setting.env)
    if words is None:
        return [(spec, setting)]
    env = {**setting.env, "PWD": find_directory(setting.cwd)}
    return [
        (replace(spec, argv=words), Setting(setting.account, env, setting.cwd)),
        (spec, setting),
    ]


def _start(
    spec: ProcessSpec,
    setting: Setting,
    prepared: Prepared,
    streams: tuple[int, int] | None,
    hold: Callable[[], None],
) -> Spawned:
    output, note = (None, "") if streams is not None else _open_output(spec, setting)
    target = subprocess.DEVNULL if output is None else output
    try:
        way = execute_confined if is_confined(spec) else execute
        hold()
        pid = way(spec, setting, prepared, streams or (target, target))
        return Spawned(pid, _peak_memory_kb(), note)
    finally:
        if output is not None:
            os.close(output)


def _open_output(spec: ProcessSpec, setting: Setting) -> tuple[int | None, str]:
    """Return the descriptor for the output. A job does not fail because its log cannot be kept."""
    if spec.output is None:
        return None, ""
    try:
        descriptor = open_output(spec.output.path)
    except OSError as error:
        path = printable_line(str(spec.output.path))
        return None, f"its output is not kept: {path}: {cause(error)}"
    account = setting.account
    if not account.is_ours:
        # A script may open /dev/stderr, which is this file anew; its directory stays ours alone.
        with suppress(OSError):  # a file system that knows no owners
            os.fchown(descriptor, account.uid, account.gid)
    return descriptor, ""


def _peak_memory_kb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
