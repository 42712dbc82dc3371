"""A daemon for tests: the installed program on a crontab of the test's own, or its socket alone."""

from __future__ import annotations

import contextlib
import socket
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from crond_py.clock import SystemClock
from crond_py.control.client import call
from crond_py.control.protocol import Stop
from crond_py.control.server import ControlServer, Handler, Limits
from crond_py.errors import PycronError
from crond_py.places import control_socket
from tests.cli.program import PYCRON


@contextlib.contextmanager
def serving(
    env: Mapping[str, str], handler: Handler, limits: Limits | None = None
) -> Iterator[ControlServer]:
    """Have ``handler`` answer on the control socket until the block ends."""
    state_dir = Path(env["PYCRON_STATE_DIR"])
    state_dir.mkdir(mode=0o700, exist_ok=True)
    server = ControlServer(control_socket(state_dir), handler, SystemClock(), limits)
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextlib.contextmanager
def running(env: Mapping[str, str], *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run ``pycron run`` until the block ends; it begins once the daemon says that it is ready.

    Its log goes to ``log`` beside the state directory.
    """
    home = Path(env["HOME"])
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notices,
        (home / "log").open("ab") as log,
    ):
        address = home / "notify"
        address.unlink(missing_ok=True)
        notices.bind(str(address))
        notices.settimeout(60)
        process = subprocess.Popen(
            [*PYCRON, "run", *arguments],
            env={**env, "NOTIFY_SOCKET": str(address)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=home,
        )
        try:
            while b"READY=1" not in notices.recv(4096):
                pass
            yield process
        finally:
            end(process, Path(env["PYCRON_STATE_DIR"]))


def end(process: subprocess.Popen[bytes], state_dir: Path) -> None:
    """End the daemon and its jobs; those must heed a SIGTERM."""
    try:
        with contextlib.suppress(PycronError):  # it has ended already
            call(control_socket(state_dir), Stop(now=True))
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise
