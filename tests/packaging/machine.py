"""A systemd of its own for a test: booted in a container over this machine's files."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

BOOT = Path(__file__).with_name("boot.sh")
PACKAGING = Path(__file__).parents[2] / "packaging"
PATIENCE_S = 90.0

# What the container's units see at the place of the test's own directory.
SHARED = Path("/run/pycron-test")


class CannotBootError(Exception):
    """No systemd can be booted here; the message says why."""


def why_not() -> str | None:
    """Return what is missing for a boot, or None."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "booting a systemd needs root on Linux"
    missing = [
        name for name in ("systemd-nspawn", "unshare", "nsenter") if shutil.which(name) is None
    ]
    if missing:
        return f"booting a systemd needs {', '.join(missing)} (Debian: systemd-container)"
    return None


class Machine:
    """A booted systemd. ``shared`` is a directory that its units see as SHARED."""

    def __init__(self, leader: int, shared: Path) -> None:
        self.shared = shared
        self._enter = ("nsenter", f"--target={leader}", "--all", "--")

    def run(self, *command: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command in the machine and wait for it."""
        done = subprocess.run(
            [*self._enter, *command],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=PATIENCE_S, cwd="/",
        )  # fmt: skip
        if check:
            assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
        return done

    def begin(self, *command: str) -> subprocess.Popen[str]:
        """Start a command in the machine, with its output in a pipe."""
        return subprocess.Popen(
            [*self._enter, *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, cwd="/",
        )  # fmt: skip

    def write(self, path: str, text: str) -> None:
        """Put a file into the machine."""
        subprocess.run(
            [*self._enter, "/bin/sh", "-c", 'mkdir -p "${1%/*}" && cat >"$1"', "sh", path],
            input=text, text=True, check=True, timeout=PATIENCE_S, cwd="/",
        )  # fmt: skip

    def show(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).stdout.strip()


@contextlib.contextmanager
def booted(directory: Path, pycron: Path) -> Iterator[Machine]:
    """Boot a machine that has ``pycron`` as /usr/bin/pycron, and its units.

    Raises CannotBootError.
    """
    name = f"pycron-test-{os.getpid()}"
    shared, work = directory / "shared", directory / "machine"
    shared.mkdir()
    work.mkdir()
    _seed(directory / "machine.seed", pycron)
    command = ["unshare", "--mount", "--propagation=private", "bash", str(BOOT), str(work), name]
    binds = [f"--bind={shared}:{SHARED}", *(f"--bind-ro={path}" for path in _needed_by(pycron))]
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notified,
        (directory / "boot").open("w+b") as output,
    ):
        notified.bind(str(directory / "notify"))
        container = subprocess.Popen(
            [*command, *binds],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
            env={**os.environ, "NOTIFY_SOCKET": str(directory / "notify")},
        )  # fmt: skip
        try:
            leader = _wait_for_leader(container, notified)
            if leader is None:
                output.seek(0)
                said = output.read().decode(errors="replace").strip().replace("\n", "; ")
                raise CannotBootError(f"systemd-nspawn cannot boot here: {said[-500:]}")
            yield Machine(leader, shared)
        finally:
            _end(container, name)


def _seed(directory: Path, pycron: Path) -> None:
    """Lay out the files that the machine has and this one has not."""
    units = directory / "etc" / "systemd" / "system"
    units.mkdir(parents=True)
    shutil.copy(PACKAGING / "systemd" / "pycron.service", units)
    shutil.copytree(PACKAGING / "systemd" / "user", directory / "etc" / "systemd" / "user")
    for page in (PACKAGING / "man").iterdir():
        section = directory / "usr" / "share" / "man" / f"man{page.suffix[1:]}"
        section.mkdir(parents=True, exist_ok=True)
        shutil.copy(page, section)
    # Another identity than this machine's, or the two would share a journal.
    (directory / "etc" / "machine-id").write_text("7079" * 8 + "\n")
    (directory / "usr" / "bin").mkdir(parents=True)
    (directory / "usr" / "bin" / "pycron").symlink_to(pycron)
    (directory / "etc" / "pycron").mkdir()


def _needed_by(pycron: Path) -> list[Path]:
    """Return the directories that the program runs from, which may lie on other file systems."""
    python = pycron.with_name("python")
    show = (
        "import sys, crond_py; print(sys.prefix, sys.base_prefix, crond_py.__path__[0], sep='\\n')"
    )
    told = subprocess.run(
        [python, "-P", "-c", show], capture_output=True, text=True, check=True, timeout=PATIENCE_S
    )
    prefix, base_prefix, package = map(Path, told.stdout.splitlines())
    needed = [path for path in (prefix, base_prefix, package) if path != Path("/usr")]
    return [
        path for path in needed if not any(path.is_relative_to(o) and path != o for o in needed)
    ]


def _wait_for_leader(container: subprocess.Popen[bytes], notified: socket.socket) -> int | None:
    """Wait until the machine is up; return its first process's id, or None if it has ended."""
    ended = os.pidfd_open(container.pid)
    leader = None
    try:
        while True:
            ready, _, _ = select.select([notified, ended], [], [], PATIENCE_S)
            if notified not in ready:
                return None
            for assignment in notified.recv(4096).decode().split("\n"):
                name, _, value = assignment.partition("=")
                if name == "X_NSPAWN_LEADER_PID":
                    leader = int(value)
                if name == "READY" and leader is not None:
                    return leader
    finally:
        os.close(ended)


def _end(container: subprocess.Popen[bytes], name: str) -> None:
    """Have the machine halt; one that does not is killed with all that is in it."""
    container.send_signal(signal.SIGTERM)
    try:
        container.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        container.kill()
        container.wait()
    for root in (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified")):
        for group in sorted((root / name).glob("**/"), reverse=True):
            with contextlib.suppress(OSError):  # nobody has it as a control group
                group.rmdir()
