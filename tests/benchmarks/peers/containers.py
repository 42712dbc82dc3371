"""Daemons that were written for containers and take the seconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.jobs import Job
from tests.benchmarks.origins import Given
from tests.benchmarks.peer import Peer


class Supercronic(Peer):
    """A crontab runner in Go."""

    name = "supercronic"
    origin = Given(("supercronic",))
    has_seconds = True

    def write(self, directory: Path, jobs: Sequence[Job]) -> None:
        """Write a crontab of seven fields: with seconds and years."""
        lines = (f"{job.six_fields} * {job.line}\n" for job in jobs)
        (directory / "crontab").write_text("".join(lines))

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run it."""
        return [self.origin.path("supercronic"), directory / "crontab"]


class Jobber(Peer):
    """A cron with retries in Go; its runner for one user."""

    name = "jobber"
    origin = Given(("jobberrunner",))
    has_seconds = True
    most_jobs = 1_000  # it looks for a yearly instant second by second
    mounts = ("mount -t overlay o -o lowerdir={directory}/etc:/etc /etc",)

    def write(self, directory: Path, jobs: Sequence[Job]) -> None:
        """Write its settings and its YAML."""
        (directory / "etc").mkdir()
        (directory / "etc/jobber.conf").write_text("users-include:\n- username: root\n")
        with (directory / "jobs").open("w") as file:
            file.write("version: 1.4\njobs:\n")
            for number, job in enumerate(jobs):
                file.write(f"  J{number}:\n    cmd: {json.dumps(job.line)}\n")
                file.write(f"    time: '{job.six_fields}'\n")
        (directory / "jobs").chmod(0o600)

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run it."""
        return [self.origin.path("jobberrunner"), "-t", directory, directory / "jobs"]
