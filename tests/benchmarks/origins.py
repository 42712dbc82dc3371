"""Where the other daemons come from: package registries, by their ordinary clients.

Nothing is installed on the system. Debian packages are only unpacked (their scripts do not run),
Python packages get a virtual environment each, those of npm a directory each, all below
``build/bench``, where they stay for the next time. What no registry has is looked for in the
directories that $BENCH_PATH names.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

STORE = Path(__file__).parents[2] / "build" / "bench"
GIVEN_VARIABLE = "BENCH_PATH"
PATIENCE_S = 300


class NotObtainedError(Exception):
    """A daemon that is not to be had; the message says why."""


class Origin(Protocol):
    """Brings a daemon, once."""

    def obtain(self) -> None:
        """See that it is there. Raises NotObtainedError."""

    def version(self) -> str:
        """Return the version of what is there."""


@dataclass(frozen=True, slots=True)
class Debian:
    """A Debian package, unpacked with those that it needs beyond a bare system."""

    package: str
    more: tuple[str, ...] = ()

    @property
    def root(self) -> Path:
        """The directory that stands for the root of the file system."""
        return STORE / "debian" / self.package

    def obtain(self) -> None:
        """Download and unpack it."""
        if (self.root / ".complete").exists():
            return
        shutil.rmtree(self.root, ignore_errors=True)
        downloads = self.root / ".packages"
        downloads.mkdir(parents=True)
        run(["apt-get", "-q", "download", self.package, *self.more], downloads)
        for file in downloads.glob("*.deb"):
            run(["dpkg", "-x", file, self.root], downloads)
        (self.root / ".complete").touch()

    def version(self) -> str:
        """Return the package's version, without its epoch."""
        file = next((self.root / ".packages").glob(f"{self.package}_*.deb"))
        return file.name.split("_")[1].rpartition("%3a")[2]


@dataclass(frozen=True, slots=True)
class Python:
    """A package from PyPI, of one version, in a virtual environment with this interpreter."""

    package: str
    release: str

    @property
    def binaries(self) -> Path:
        """The directory of its commands."""
        return STORE / "python" / f"{self.package}-{self.release}" / "bin"

    def obtain(self) -> None:
        """Make the environment."""
        root = self.binaries.parent
        if (root / ".complete").exists():
            return
        shutil.rmtree(root, ignore_errors=True)
        root.parent.mkdir(parents=True, exist_ok=True)
        run([sys.executable, "-m", "venv", root], root.parent)
        wanted = f"{self.package}=={self.release}"
        run([self.binaries / "python", "-m", "pip", "-q", "install", wanted], root)
        (root / ".complete").touch()

    def version(self) -> str:
        """Return the release."""
        return self.release


@dataclass(frozen=True, slots=True)
class Node:
    """A package from npm."""

    package: str
    release: str

    @property
    def modules(self) -> Path:
        """The directory that it is imported from."""
        return STORE / "node" / self.package / "node_modules"

    def obtain(self) -> None:
        """Install it into its directory."""
        if shutil.which("node") is None:
            raise NotObtainedError("node is not installed")
        if self._description.exists():
            return
        self.modules.parent.mkdir(parents=True, exist_ok=True)
        (self.modules.parent / "package.json").write_text("{}")
        run(["npm", "install", "--silent", f"{self.package}@{self.release}"], self.modules.parent)

    @property
    def _description(self) -> Path:
        return self.modules / self.package / "package.json"

    def version(self) -> str:
        """Return the version that was installed."""
        return str(json.loads(self._description.read_text("utf-8"))["version"])


@dataclass(frozen=True, slots=True)
class Given:
    """Programs that no registry serves here; whoever has them says where they are."""

    programs: tuple[str, ...]
    needs: Debian | None = None
    """A package of which it uses the settings."""

    def path(self, program: str) -> Path:
        """Return where a program is. Raises NotObtainedError."""
        found = shutil.which(program, path=os.environ.get(GIVEN_VARIABLE, ""))
        if found is None:
            message = f"no registry has it: name the directory of `{program}` in ${GIVEN_VARIABLE}"
            raise NotObtainedError(message)
        return Path(found)

    def obtain(self) -> None:
        """See that all are there."""
        for program in self.programs:
            self.path(program)
        if self.needs is not None:
            self.needs.obtain()

    def version(self) -> str:
        """Say that it was given."""
        return "given"


def run(command: Sequence[str | Path], directory: Path) -> None:
    """Run a command quietly. Raises NotObtainedError with the end of what it said."""
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, check=False, timeout=PATIENCE_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotObtainedError(str(error)) from None
    if done.returncode != 0:
        last = " ".join((done.stderr or done.stdout).split())[-160:]
        raise NotObtainedError(f"`{command[0]}` failed: {last}")
