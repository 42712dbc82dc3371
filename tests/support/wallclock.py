"""A wall clock that a test sets, for the processes that it starts with it; see clockshim.c."""

from __future__ import annotations

import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

from crond_py.clock import SystemClock, to_ns

SOURCE = Path(__file__).with_name("clockshim.c")


def compile_shim(directory: Path) -> Path | None:
    """Compile the library that is preloaded; None where there is no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = directory / "clockshim.so"
    options = ["-shared", "-fPIC", "-O1", "-std=c11", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *options, "-o", library, SOURCE], check=True)
    return library


class WallClock:
    """How far the wall clock of some processes is from the real one."""

    def __init__(self, library: Path, file: Path) -> None:
        self.environment = {"LD_PRELOAD": str(library), "CLOCKSHIM": str(file)}
        self._file = file
        self._offset = timedelta(0)
        self._set(self._offset)

    def now(self) -> datetime:
        """Return what those processes read."""
        return SystemClock().now() + self._offset

    def set(self, reading: str) -> None:
        """Have the clock read that (UTC) from now on: a step, for whoever runs."""
        self._set(datetime.fromisoformat(reading).replace(tzinfo=UTC) - SystemClock().now())

    def step(self, by: timedelta) -> None:
        """Move the clock."""
        self._set(self._offset + by)

    def _set(self, offset: timedelta) -> None:
        self._offset = offset
        # Eight bytes in one write over the old ones: nobody reads half of it.
        mode = "r+b" if self._file.exists() else "wb"
        with self._file.open(mode, buffering=0) as file:
            file.write(to_ns(offset).to_bytes(8, "little", signed=True))
