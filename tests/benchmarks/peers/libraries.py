"""Libraries that schedule within a program: each with a short program that reads jobs from JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.benchmarks.jobs import Job
from tests.benchmarks.origins import Node, Python
from tests.benchmarks.peer import PROGRAMS, Peer


class Library(Peer):
    """What they have in common."""

    has_seconds = True

    def write(self, directory: Path, jobs: Sequence[Job]) -> None:
        """Write name, six fields and command of each."""
        rows = [[job.name, job.six_fields, job.line] for job in jobs]
        (directory / "jobs.json").write_text(json.dumps(rows))


class ApScheduler3(Library):
    """APScheduler as most have it, with a pool of 256 threads."""

    name = "APScheduler 3"
    origin = Python("apscheduler", "3.11.3")

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run the program."""
        program = PROGRAMS / "apscheduler3.py"
        return [self.origin.binaries / "python", program, directory / "jobs.json"]


class ApScheduler4(Library):
    """The next APScheduler, an alpha, on asyncio."""

    name = "APScheduler 4"
    origin = Python("apscheduler", "4.0.0a6")

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run the program."""
        program = PROGRAMS / "apscheduler4.py"
        return [self.origin.binaries / "python", program, directory / "jobs.json"]


class Croner(Library):
    """A library for Node."""

    name = "croner"
    origin = Node("croner", "11")
    most_jobs = 1_000  # 10,000 take most of a gigabyte, 100,000 end it

    def environment(self, directory: Path) -> Mapping[str, str]:
        """Name where the library is."""
        return {"NODE_PATH": str(self.origin.modules)}

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run the program."""
        return ["node", PROGRAMS / "croner.cjs", directory / "jobs.json"]


class NodeCron(Croner):
    """Another library for Node."""

    name = "node-cron"
    origin = Node("node-cron", "4")
    most_jobs = 100_000

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run the program."""
        return ["node", PROGRAMS / "node-cron.cjs", directory / "jobs.json"]
