"""What a daemon has to tell about itself to be measured, and how one is started and ended.

An adapter writes jobs down in the daemon's own format and names the command that runs it in the
foreground. The rest is the same for all.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.benchmarks.jobs import Job, Way
from tests.benchmarks.moments import monotonic_s, pause, wall_s
from tests.benchmarks.origins import NotObtainedError, Origin
from tests.benchmarks.processes import cpu_s, rss_kb, tree

PROGRAMS = Path(__file__).parent / "programs"
"""What daemons run, and what runs libraries as daemons."""

GRACE_S = 3.0
LOOK_EVERY_S = 0.05


class Peer:
    """A daemon that can be measured. Subclasses are the adapters."""

    name = "?"
    origin: Origin
    """Where it comes from."""
    way = Way.SHELL
    """How its jobs' commands are written; those in SHELL it gives to a shell."""
    has_seconds = False
    """Whether it can be told to start a job in a second of the minute."""
    most_jobs = 1_000_000
    """With more it is not tried: it would take too long, or too much memory."""
    mounts: Sequence[str] = ()
    """Shell lines that are run before it, in a mount namespace of its own (root)."""

    def missing(self) -> str | None:
        """Return why it cannot be measured here, or None. It is brought here if it must be."""
        if self.mounts and os.geteuid() != 0:
            return "only root can give it the directories that it insists on"
        try:
            self.origin.obtain()
        except NotObtainedError as error:
            return str(error)
        return None

    def version(self) -> str:
        """Return its version."""
        return self.origin.version()

    def write(self, directory: Path, jobs: Sequence[Job]) -> None:
        """Write its configuration."""
        raise NotImplementedError

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Return the command that runs it in the foreground."""
        raise NotImplementedError

    def is_up(self, log: str) -> bool:
        """Return whether the daemon's log says that it is ready, where it says so at all."""
        return True

    def environment(self, directory: Path) -> Mapping[str, str]:
        """Return what it needs in its environment beyond ours."""
        return {}


class Started:
    """One daemon with its jobs, in a directory of its own; ended and removed with the context."""

    def __init__(self, peer: Peer, jobs: Sequence[Job], directory: Path) -> None:
        self.peer = peer
        self.directory = directory
        self.stamps = directory / "stamps"
        peer.write(directory, jobs)
        self.began_s, self.began_wall_s = monotonic_s(), wall_s()
        with (directory / "log").open("ab") as log:
            self.process = subprocess.Popen(
                self._command(),
                cwd=directory,
                env={**os.environ, **peer.environment(directory)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _command(self) -> list[str]:
        command = [str(part) for part in self.peer.command(self.directory)]
        if not self.peer.mounts:
            return command
        lines = [line.format(directory=self.directory) for line in self.peer.mounts]
        script = "\n".join(["set -e", *lines, "exec " + shlex.join(command)])
        return ["unshare", "-m", "sh", "-c", script]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """The daemon's process."""
        return self.process.pid

    def tail(self) -> str:
        """Return the end of its log, on one line."""
        return " ".join(self.log().split())[-300:]

    def log(self) -> str:
        """Return what it has logged."""
        return (self.directory / "log").read_text("utf-8", "replace")

    def check(self) -> None:
        """Raise RuntimeError where it has ended."""
        if self.process.poll() is not None:
            message = f"{self.peer.name} ended with {self.process.returncode}: {self.tail()}"
            raise RuntimeError(message)

    def settle(self, limit_s: float, quiet_s: float = 0.8) -> tuple[float | None, int]:
        """Wait until it has used no processor for a while.

        Returns the seconds from its start to the last use (None: it was never quiet), and the most
        memory in KB that its processes had together at one time.
        """
        last, used, most_kb = 0.0, 0.0, 0
        while (passed := monotonic_s() - self.began_s) < limit_s:
            self.check()
            most_kb = max(most_kb, rss_kb(self.pid))
            now_used = cpu_s(self.pid)
            if abs(now_used - used) > 0.002:
                last = passed
            used = now_used
            is_quiet = passed - last > quiet_s and passed > 1
            if is_quiet and self.peer.is_up(self.log()):
                return last, most_kb
            pause(LOOK_EVERY_S)
        return None, most_kb

    def end(self) -> None:
        """End the daemon and all that is below it."""
        below = tree(self.pid)
        self.process.terminate()
        until_s = monotonic_s() + GRACE_S
        while self.process.poll() is None and monotonic_s() < until_s:
            below |= tree(self.pid)  # it may have been about to start something
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(LOOK_EVERY_S)
        # What had been started by then may have lost its parent; we are a subreaper.
        ours = tree(os.getpid())
        for pid in (below.keys() & ours.keys()) - {os.getpid()}:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()
        for pid in below.keys() - {self.pid}:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


class Workplace:
    """Where daemons are started: a directory that any user may enter, removed at the end."""

    def __init__(self, programs: Path) -> None:
        self.root = Path(tempfile.mkdtemp(prefix="pycron-bench-"))
        self.root.chmod(0o755)
        self.tick = programs / "tick"
        self.limit = programs / "limit"
        self._number = 0

    def directory(self) -> Path:
        """Make a directory for one daemon, with a file in which its jobs may write stamps."""
        self._number += 1
        directory = self.root / str(self._number)
        directory.mkdir(mode=0o755)
        stamps = directory / "stamps"
        stamps.touch()
        stamps.chmod(0o666)
        return directory

    def close(self) -> None:
        """Remove everything."""
        shutil.rmtree(self.root, ignore_errors=True)
