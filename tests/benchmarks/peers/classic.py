"""Daemons for classic crontabs, as distributions have them.

Those that insist on the system's directories get a mount namespace in which these are others.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.benchmarks.jobs import Job, Seconds
from tests.benchmarks.origins import Debian, Given
from tests.benchmarks.peer import Peer

LINES_A_FILE = 9_000  # Debian's cron refuses files of more than 10,000 lines

CRON = Debian("cron")


def _user_crontab(file: Path, jobs: Sequence[Job]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(f"{job.five_fields} {job.line}\n" for job in jobs))


OWN_RUN = "mount -t tmpfs tmpfs /run"
OWN_CRONTABS = (
    "mkdir -p /etc/cron.d /var/spool/cron",
    "mount --bind {directory}/cron.d /etc/cron.d",
    "mount --bind {directory}/spool /var/spool/cron",
)


class OfTheSystem(Peer):
    """A daemon that reads the system's own directories."""

    def write(self, directory: Path, jobs: Sequence[Job]) -> None:
        """Write files as in /etc/cron.d, with a user."""
        (directory / "spool" / "crontabs").mkdir(parents=True)
        (directory / "spool" / "cron").mkdir()
        (directory / "cron.d").mkdir()
        for begin in range(0, len(jobs), LINES_A_FILE):
            file = directory / "cron.d" / f"jobs{begin}"
            lines = jobs[begin : begin + LINES_A_FILE]
            file.write_text("".join(f"{job.five_fields} root {job.line}\n" for job in lines))
            file.chmod(0o644)


class Cron(OfTheSystem):
    """Vixie cron, as Debian has it."""

    name = "Debian cron"
    origin = CRON
    mounts = (
        OWN_RUN,
        f"mount -t overlay o -o lowerdir={CRON.root}/etc/pam.d:/etc/pam.d /etc/pam.d",
        *OWN_CRONTABS,
    )

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run it in the foreground."""
        return [CRON.root / "usr/sbin/cron", "-f"]


class Cronie(OfTheSystem):
    """The successor of Vixie cron that Fedora, Arch and others have."""

    name = "cronie"
    origin = Given(("crond",), needs=CRON)
    mounts = (
        OWN_RUN,
        "mkdir {directory}/pam",
        f"cp {CRON.root}/etc/pam.d/cron {{directory}}/pam/crond",
        "mount -t overlay o -o lowerdir={directory}/pam:/etc/pam.d /etc/pam.d",
        *OWN_CRONTABS,
    )

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run it in the foreground."""
        return [self.origin.path("crond"), "-n"]


class Bcron(Peer):
    """Bruce Guenter's cron, of several small programs."""

    name = "bcron"
    origin = Debian("bcron", ("libbg2", "ucspi-unix"))
    mounts = ("mkdir -p /var/spool/cron", "mount --bind {directory}/spool /var/spool/cron")

    def write(self, directory: Path, jobs: Sequence[Job]) -> None:
        """Write the crontab of root, and the FIFO that it listens to."""
        _user_crontab(directory / "spool" / "crontabs" / "root", jobs)
        os.mkfifo(directory / "spool" / "trigger")

    def environment(self, directory: Path) -> Mapping[str, str]:
        """Name its libraries and programs."""
        usr = self.origin.root / "usr"
        libraries = [usr / "lib", *(usr / "lib").glob("*-linux-gnu")]
        return {
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
            "BCRON_USER": "root",
            "PATH": f"{usr}/sbin:{os.environ['PATH']}",
        }

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run its two daemons."""
        return [self.origin.root / "usr/sbin/bcron-start"]


class Busybox(Peer):
    """The daemon of Alpine and of many containers and routers."""

    name = "busybox crond"
    origin = Debian("busybox-static")
    most_jobs = 65_000  # it reads 65,535 lines and drops the rest without a word

    def write(self, directory: Path, jobs: Sequence[Job]) -> None:
        """Write the crontab of root."""
        _user_crontab(directory / "crontabs" / "root", jobs)

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run it in the foreground, logging to standard output."""
        busybox = self.origin.root / "bin/busybox"
        return [busybox, "crond", "-f", "-c", directory / "crontabs", "-L", "/dev/stdout"]


class Fcron(Peer):
    """A cron for machines that are not always on."""

    name = "fcron"
    origin = Given(("fcron", "fcrontab"))

    def write(self, directory: Path, jobs: Sequence[Job]) -> None:
        """Write its settings and let it translate the crontab of root."""
        spool, settings = directory / "spool", directory / "conf"
        spool.mkdir()
        spool.chmod(0o770)
        (directory / "allow").write_text("all\n")
        (directory / "deny").write_text("")
        settings.write_text(
            f"fcrontabs = {spool}\npidfile = {directory}/pid\nsuspendfile = {directory}/suspend\n"
            f"fifofile = {directory}/fifo\nfcronallow = {directory}/allow\n"
            f"fcrondeny = {directory}/deny\nshell = /bin/sh\nsendmail = /bin/true\n"
            "editor = /bin/true\nmaildisplayname = x\n"
        )
        shutil.chown(spool, "daemon", "daemon")
        for file in (settings, directory / "allow", directory / "deny"):
            shutil.chown(file, "root", "daemon")
            file.chmod(0o640)
        _user_crontab(directory / "crontab", jobs)
        subprocess.run(
            [self.origin.path("fcrontab"), "-c", settings, "-n", directory / "crontab", "root"],
            capture_output=True,
            check=True,
        )

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run it in the foreground, without the pause that it makes after a boot."""
        fcron, log = self.origin.path("fcron"), directory / "fcron.log"
        return [fcron, "-f", "-y", "-l", "1", "-c", directory / "conf", "-p", log]


class Mcron(Peer):
    """GNU's cron in Guile."""

    name = "mcron"
    origin = Debian("mcron", ("guile-3.0-libs", "libgc1", "libunistring2"))
    has_seconds = True
    most_jobs = 1_000  # with 10,000 it is not ready after minutes
    mounts = (f"mount -t overlay o -o lowerdir={origin.root}/usr:/usr /usr",)

    def write(self, directory: Path, jobs: Sequence[Job]) -> None:
        """Write its Scheme; only that has seconds."""
        with (directory / "jobs.guile").open("w") as file:
            for job in jobs:
                file.write(f"(job {_next_time(job)} {json.dumps(job.line)})\n")

    def command(self, directory: Path) -> Sequence[str | Path]:
        """Run it in the foreground."""
        return ["/usr/bin/mcron", directory / "jobs.guile"]


def _next_time(job: Job) -> str:
    if isinstance(job.when, Seconds):
        return f"'(next-second '({' '.join(map(str, job.of_minute))}))"
    return json.dumps(job.five_fields)
