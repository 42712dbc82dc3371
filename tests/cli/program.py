"""Runs the installed program, in a pipe or on a terminal of a given width, or only its commands."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import termios
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.support.inplace import OWN_PROGRAM, run_in_place

PYCRON = shlex.split(os.environ.get("PYCRON", "")) or list(OWN_PROGRAM)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*m")


def environment(home: Path, **more: str) -> dict[str, str]:
    """Return an environment with nothing of the tester's own in it but what coverage needs."""
    kept = {key: value for key, value in os.environ.items() if key.startswith("COV")}
    return {
        "HOME": str(home),
        "PATH": "/usr/bin:/bin",
        "TZ": "UTC",
        "LANG": "C.UTF-8",
        "PYCRON_STATE_DIR": str(home / "state"),
        "PYCRON_CRONTAB": str(home / "crontab.toml"),
        **kept,
        **more,
    }


LOCKED_OUT = ("setpriv", "--bounding-set=-dac_override,-dac_read_search")
"""What has root be as everybody else before files of other users."""

needs_setpriv = pytest.mark.skipif(
    os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root and setpriv"
)


def pycron(
    *arguments: str, env: Mapping[str, str], check: int | None = 0, under: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run the program in pipes; ``check`` is the exit code that it must have.

    ``under`` is what the command is given to.
    """
    command = [*under, *PYCRON, *arguments]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60)
    return _checked(done, check)


def in_place(
    *arguments: str, env: Mapping[str, str], check: int | None = 0
) -> subprocess.CompletedProcess[str]:
    """Do as ``pycron``, but without a start where the program of these sources is under test."""
    if tuple(PYCRON) != OWN_PROGRAM:
        return pycron(*arguments, env=env, check=check)
    return _checked(run_in_place(arguments, env), check)


def _checked(
    done: subprocess.CompletedProcess[str], check: int | None
) -> subprocess.CompletedProcess[str]:
    assert "Traceback" not in done.stderr, done.stderr
    if check is not None:
        assert done.returncode == check, (done.returncode, done.stdout, done.stderr)
    return done


def on_terminal(*arguments: str, env: Mapping[str, str], columns: int) -> str:
    """Run the program on a terminal of that width and return what it shows, escapes and all."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    with subprocess.Popen(
        [*PYCRON, *arguments],
        env={**env, "TERM": "xterm-256color"},
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
    ) as process:
        os.close(terminal)
        shown = b""
        while True:
            try:
                chunk = os.read(controller, 65536)
            except OSError:  # how Linux says that the other side has gone
                break
            if not chunk:
                break
            shown += chunk
        process.wait(60)
    os.close(controller)
    return shown.decode().replace("\r\n", "\n")


def without_colour(text: str) -> str:
    """Return the text without the escapes that set colours."""
    return _ESCAPES.sub("", text)
