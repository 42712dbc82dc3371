"""The units on a real systemd: start, reload, crash, stop and watchdog.

Jobs tell what they do through a FIFO that the tests wait at, and wait at another one themselves.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.packaging.machine import SHARED, CannotBootError, Machine, booted, why_not

pytestmark = [pytest.mark.systemd, pytest.mark.timeout(300)]

CRONTAB = "/etc/pycron/crontab.toml"
UNIT = "pycron.service"
OVERRIDE = f"/run/systemd/system/{UNIT}.d/test.conf"

# Tells that the daemon is up, once for each start of it.
UP = f"""
[jobs.up]
startup = true
command = "echo up > {SHARED}/events"
"""


@pytest.fixture(scope="module")
def machine(
    tmp_path_factory: pytest.TempPathFactory, pycron_command: tuple[str, ...]
) -> Iterator[Machine]:
    """Boot one machine for all tests of this module."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    try:
        with booted(tmp_path_factory.mktemp("machine"), Path(pycron_command[0])) as made:
            yield made
    except CannotBootError as error:
        pytest.skip(str(error))


class Jobs:
    """The jobs' side of the FIFOs."""

    def __init__(self, shared: Path) -> None:
        self._shared = shared
        os.mkfifo(shared / "events")
        os.mkfifo(shared / "gate")
        # Open in both directions: it neither waits for a writer nor ends when one has gone.
        self._events = os.fdopen(os.open(shared / "events", os.O_RDWR | os.O_CLOEXEC), "r")

    def event(self) -> str:
        """Wait for the next thing that a job tells."""
        return self._events.readline().strip()

    def wait_for(self, event: str) -> None:
        """Wait until a job tells this; what else is told meanwhile does not matter."""
        while self.event() != event:
            pass

    def open_gate(self) -> None:
        """Let the one job go on that waits at the gate."""
        with (self._shared / "gate").open("w") as gate:
            gate.write("go\n")

    def close(self) -> None:
        """Take the FIFOs away."""
        self._events.close()
        for name in ("events", "gate"):
            (self._shared / name).unlink()


@pytest.fixture
def jobs(machine: Machine) -> Iterator[Jobs]:
    """Begin with no daemon, no state and no override, and leave it so."""
    made = Jobs(machine.shared)
    yield made
    machine.run("systemctl", "kill", "--signal=KILL", UNIT, check=False)
    machine.run("systemctl", "stop", UNIT, check=False)
    machine.run("rm", "-rf", "/var/lib/pycron", CRONTAB, str(Path(OVERRIDE).parent))
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "reset-failed", check=False)
    made.close()


def job(name: str, command: str, *, every: str = "1s") -> str:
    """Return a job of the crontab."""
    return f'\n[jobs.{name}]\nevery = "{every}"\ncommand = {json.dumps(command)}\n'


def telling(name: str, **settings: str) -> str:
    """Return a job that tells its name whenever it runs."""
    return job(name, f"echo {name} > {SHARED}/events", **settings)


def waiting(name: str) -> str:
    """Return a job that tells that it has begun and ends when the gate is opened."""
    command = f"echo {name} began > {SHARED}/events; read x < {SHARED}/gate"
    return f'\n[jobs.{name}]\nstartup = true\ncommand = "{command}"\n'


def start(machine: Machine, crontab: str, override: str = "") -> None:
    """Start the unit on a crontab and wait until systemd says that it is up."""
    machine.write(CRONTAB, crontab)
    if override:
        machine.write(OVERRIDE, override)
        machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", UNIT)


def history(machine: Machine, name: str) -> list[dict[str, Any]]:
    """Return what the ledger has of a job, newest first."""
    told = machine.run("pycron", "history", name, "--json").stdout
    found: list[dict[str, Any]] = json.loads(told)
    return found


def follow_journal(machine: Machine, form: str) -> subprocess.Popen[str]:
    """Return what the daemon that now runs has said and will say, as it says it."""
    daemon = f"_SYSTEMD_INVOCATION_ID={machine.show(UNIT, 'InvocationID')}"
    return machine.begin("journalctl", daemon, "--follow", "--lines=all", f"--output={form}")


def test_the_units_are_sound(machine: Machine) -> None:
    """There is nothing for systemd to complain about in either unit."""
    done = machine.run("systemd-analyze", "verify", f"/etc/systemd/system/{UNIT}")
    assert done.stderr == ""
    done = machine.run(
        "env", "XDG_RUNTIME_DIR=/run", "systemd-analyze", "verify", "--user",
        f"/etc/systemd/user/{UNIT}",
    )  # fmt: skip
    assert done.stderr == ""


def test_start_waits_until_jobs_run(machine: Machine, jobs: Jobs) -> None:
    """After ``systemctl start`` the daemon is up: it says so, jobs run, the state is private."""
    start(machine, telling("tick"))
    assert machine.show(UNIT, "ActiveState") == "active"
    assert machine.show(UNIT, "StatusText") == f"1 job in {CRONTAB}"
    jobs.wait_for("tick")
    assert machine.run("stat", "-c", "%a %U", "/var/lib/pycron").stdout == "700 root\n"


def test_the_journal_has_each_line_with_its_priority(machine: Machine, jobs: Jobs) -> None:
    """The journal gets message and priority, and not a second time stamp."""
    start(machine, telling("tick"))
    jobs.wait_for("tick")
    entries = follow_journal(machine, "json")
    assert entries.stdout is not None
    with entries:
        found = map(json.loads, entries.stdout)
        entry = next(each for each in found if each["MESSAGE"].startswith("run started"))
        entries.kill()
    assert entry["PRIORITY"] == "6"
    assert entry["SYSLOG_IDENTIFIER"] == "pycron"
    assert "job=tick" in entry["MESSAGE"]


def test_reload_takes_a_new_crontab_and_refuses_a_bad_one(machine: Machine, jobs: Jobs) -> None:
    """P7: ``systemctl reload`` puts a good file in force at once; a bad one fails it, no more."""
    start(machine, telling("one"))
    jobs.wait_for("one")
    machine.write(CRONTAB, telling("two"))
    machine.run("systemctl", "reload", UNIT)
    jobs.wait_for("two")
    machine.write(CRONTAB, telling("three", every="never"))
    assert machine.run("systemctl", "reload", UNIT, check=False).returncode != 0
    assert machine.show(UNIT, "ActiveState") == "active"
    jobs.wait_for("two")


@pytest.mark.usefixtures("jobs")
def test_a_bad_crontab_is_not_tried_again(machine: Machine) -> None:
    """P7: the start fails with EX_CONFIG, once, and the fault is in the journal."""
    machine.write(CRONTAB, telling("one", every="never"))
    assert machine.run("systemctl", "start", UNIT, check=False).returncode != 0
    assert machine.show(UNIT, "ExecMainStatus") == "78"
    assert machine.show(UNIT, "NRestarts") == "0"
    assert machine.show(UNIT, "ActiveState") == "failed"


def test_a_killed_daemon_is_back_and_finds_its_jobs(machine: Machine, jobs: Jobs) -> None:
    """P1, P5: SIGKILL of the daemon leaves a running job alone; the next daemon adopts it."""
    start(machine, waiting("long") + UP)
    told = {jobs.event(), jobs.event()}
    assert told == {"long began", "up"}
    first = machine.show(UNIT, "MainPID")
    [before] = history(machine, "long")
    machine.run("systemctl", "kill", "--kill-who=main", "--signal=KILL", UNIT)
    jobs.wait_for("up")
    assert machine.show(UNIT, "MainPID") not in {first, "0"}
    [after] = [run for run in history(machine, "long") if run["run"] == before["run"]]
    assert after["state"] == "running"
    assert after["attempts"] == before["attempts"]
    jobs.open_gate()
    machine.run("systemctl", "stop", UNIT)
    [ended] = [run for run in history(machine, "long") if run["run"] == before["run"]]
    assert ended["state"] == "done"
    assert len(ended["attempts"]) == 1


def test_stop_waits_for_a_running_job(machine: Machine, jobs: Jobs) -> None:
    """``systemctl stop`` lets a job that runs end by itself, and its outcome is recorded."""
    start(machine, waiting("long"))
    assert jobs.event() == "long began"
    log = follow_journal(machine, "cat")
    assert log.stdout is not None
    with log, machine.begin("systemctl", "stop", UNIT) as stop:
        while "stopping" not in log.stdout.readline():
            pass
        assert machine.show(UNIT, "ActiveState") == "deactivating"
        jobs.open_gate()
        assert stop.wait() == 0
        log.kill()
    assert machine.show(UNIT, "Result") == "success"
    [run] = history(machine, "long")
    assert run["outcome"] == "succeeded"


def test_stop_ends_a_job_that_does_not_end(machine: Machine, jobs: Jobs) -> None:
    """P6: after --stop-timeout the daemon ends what runs, and ``systemctl stop`` succeeds."""
    override = f"""
[Service]
ExecStart=
ExecStart=/usr/bin/pycron run {CRONTAB} --state-dir /var/lib/pycron --stop-timeout 100ms
"""
    start(machine, waiting("long"), override)
    assert jobs.event() == "long began"
    machine.run("systemctl", "stop", UNIT)
    assert machine.show(UNIT, "Result") == "success"
    [run] = history(machine, "long")
    assert run["outcome"] == "cancelled"
    assert machine.show(UNIT, "ControlGroup") == ""


def test_a_daemon_that_hangs_is_replaced(machine: Machine, jobs: Jobs) -> None:
    """The watchdog notices a stopped process; while all is well it is fed in time."""
    start(machine, UP, "[Service]\nWatchdogSec=2s\n")
    jobs.wait_for("up")
    machine.run("systemctl", "kill", "--kill-who=main", "--signal=STOP", UNIT)
    jobs.wait_for("up")
    assert machine.show(UNIT, "NRestarts") == "1"
    assert machine.show(UNIT, "ActiveState") == "active"
