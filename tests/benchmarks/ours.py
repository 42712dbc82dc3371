"""The adapter of pycron itself."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import crond_py
from tests.benchmarks.jobs import Job, Way
from tests.benchmarks.peer import Peer

PYCRON = os.environ.get("PYCRON", str(Path(sys.executable).with_name("pycron")))


def environment_of(directory: Path) -> dict[str, str]:
    """Return the environment in which commands mean the daemon of that directory."""
    return os.environ | {
        "PYCRON_CRONTAB": str(directory / "crontab.toml"),
        "PYCRON_STATE_DIR": str(directory / "state"),
    }


class Pycron(Peer):
    """The program of this tree, or the one that $PYCRON names."""

    name = "pycron"
    has_seconds = True

    def missing(self) -> str | None:
        """Return None: it is always there."""
        return None

    def version(self) -> str:
        """Return the version of this tree."""
        return crond_py.__version__

    def write(self, directory: Path, jobs: Sequence[Job]) -> None:
        """Write a crontab, all else as it is by default."""
        text = "".join(map(_job, jobs))
        (directory / "crontab.toml").write_text(text, encoding="utf-8")

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run it, with its state in the directory."""
        crontab, state = directory / "crontab.toml", directory / "state"
        return [PYCRON, "run", crontab, "--state-dir", state, "--log-format", "json"]

    def is_up(self, log: str) -> bool:
        """Return whether it says so."""
        return f"pycron {self.version()} is up" in log


def _job(job: Job) -> str:
    command = list(job.argv) if job.way is Way.ARRAY else job.line
    lines = [
        f"[jobs.{job.name}]",
        f"schedule = {json.dumps(job.six_fields)}",
        f"command = {json.dumps(command)}",
    ]
    if job.user is not None:
        lines.append(f"user = {json.dumps(job.user)}")
    return "\n".join(lines) + "\n\n"
