"""Daemons from PyPI."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.jobs import Job, Way
from tests.benchmarks.origins import Python
from tests.benchmarks.peer import Peer


class Yacron(Peer):
    """A cron with YAML, on asyncio."""

    name = "yacron"
    origin = Python("yacron", "0.19.0")
    most_jobs = 1_000  # it reads its file anew each minute, in a time that grows as the square

    def write(self, directory: Path, jobs: Sequence[Job]) -> None:
        """Write its YAML."""
        with (directory / "jobs.yaml").open("w") as file:
            file.write("jobs:\n")
            for job in jobs:
                command, schedule = json.dumps(job.line), json.dumps(job.five_fields)
                file.write(f"  - name: {job.name}\n    command: {command}\n")
                file.write(f"    schedule: {schedule}\n")

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run it."""
        return [self.origin.binaries / "yacron", "-c", directory / "jobs.yaml"]


class Pycroner(Peer):
    """A small cron that starts programs without a shell."""

    name = "pycroner"
    origin = Python("pycroner", "0.1.9")
    way = Way.PLAIN
    most_jobs = 10_000  # 100,000 take it half a minute

    def write(self, directory: Path, jobs: Sequence[Job]) -> None:
        """Write its YAML."""
        with (directory / "jobs.yml").open("w") as file:
            file.write("jobs:\n")
            for job in jobs:
                command, schedule = json.dumps(job.line), json.dumps(job.five_fields)
                file.write(f"  - id: {json.dumps(job.name)}\n    schedule: {schedule}\n")
                file.write(f"    command: {command}\n")

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run it."""
        return [self.origin.binaries / "pycroner", "--config", directory / "jobs.yml"]


class Pytocron(Peer):
    """A crontab runner for containers, with a Python process for each job."""

    name = "pytocron"
    origin = Python("pytocron", "2.0.0")
    has_seconds = True
    most_jobs = 100  # a thousand take three gigabytes

    def write(self, directory: Path, jobs: Sequence[Job]) -> None:
        """Write a crontab of seven fields: with seconds and years."""
        lines = (f"{job.six_fields} * {job.line}\n" for job in jobs)
        (directory / "crontab").write_text("".join(lines))

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run it."""
        return [self.origin.binaries / "pytocron", directory / "crontab"]
