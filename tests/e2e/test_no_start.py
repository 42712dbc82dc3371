"""Runs that cannot be started, and what they are given to start with.

Reports about other schedulers are named where a test is about one, or about its kin.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.daemon import (
    Bell,
    Daemon,
    Gate,
    job_text,
)


def test_what_cannot_be_started(daemon: Daemon) -> None:
    """aptible/supercronic#96 and its kind: one short line for each run, which names the cause (P8).

    The daemon goes on, and each is recorded as failed, with the same words.
    """
    here = daemon.directory
    _write_program(here / "no-interpreter", "#!/nowhere/interpreter\n")
    _write_program(here / "no-program", "this has no first line\n")
    _write_program(here / "no-permission", "#!/bin/sh\n", mode=0o600)
    (here / "a-directory").mkdir()
    causes = {
        "not-found": (["no-such-command-at-all"], "command not found"),
        "no-file": (["/nowhere/program"], "ENOENT"),
        "no-interpreter": ([f"{here}/no-interpreter"], "/nowhere/interpreter"),
        "no-program": ([f"{here}/no-program"], "ENOEXEC"),
        "no-permission": ([f"{here}/no-permission"], "EACCES"),
        "a-directory": ([f"{here}/a-directory"], "EISDIR"),
        "through-a-file": ([f"{here}/no-program/x"], "ENOTDIR"),
    }
    jobs = [
        f"[jobs.{name}]\nstartup = true\ncommand = {json.dumps(command)}\n"
        for name, (command, _) in causes.items()
    ]
    jobs.append(job_text("no-directory", "true", "startup = true", 'cwd = "/nowhere/at/all"'))
    log = daemon.start("\n".join(jobs))
    log.wait("run failed", count=len(jobs))
    daemon.stop()
    rows = {row["job"]: row for row in daemon.history()}
    wanted = {**{name: words for name, (_, words) in causes.items()}, "no-directory": "/nowhere/at"}
    for name, words in wanted.items():
        assert rows[name]["outcome"] == "failed"
        assert words in rows[name]["reason"], rows[name]["reason"]
        (told,) = log.all("run failed", job=name)
        assert told["reason"] == rows[name]["reason"]
        assert len(json.dumps(told)) < 600


def _write_program(path: Path, text: str, mode: int = 0o700) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def test_few_descriptors(daemon: Daemon, gate: Gate) -> None:
    """robfig/cron#269: with hardly any descriptors left, jobs run or say why not (P8).

    Sixty that go on at once under a limit of 48; the daemon outlives it, and later ones run.
    """
    jobs = "\n".join(job_text(f"j{n}", "read x < gate", "startup = true") for n in range(60))
    tick = job_text("tick", "true", 'schedule = "* * * * * *"', 'overlap = "allow"')
    limited = ("sh", "-c", 'ulimit -n 48; exec "$@"', "sh")
    log = daemon.start(jobs + tick, under=limited)
    for number in range(60):
        log.wait(("run started", "run failed"), job=f"j{number}")
    started = [event for event in log.all("run started") if event["job"] != "tick"]
    gate.open(len(started))
    for event in started:
        log.wait("run succeeded", run=event["run"])
    since = len(log.events)
    log.wait("run succeeded", job="tick", count=2, since=since)
    daemon.stop()
    assert not [event for event in log.events if "exception" in event]
    for row in daemon.history():
        if row["outcome"] != "succeeded":
            assert row["outcome"] in {"failed", "missed", "skipped"}
            assert row["reason"]


def test_variable_is_changed_by_a_reload(daemon: Daemon, bell: Bell, gate: Gate) -> None:
    """Of the kind of aptible/supercronic#122: a new value reaches new runs and no others."""
    command = "echo $WHO:$SHARED > bell; read x < gate; echo $WHO:$SHARED > bell"

    def crontab(value: str) -> str:
        return "".join(
            job_text(name, command, 'schedule = "@yearly"', f'env = {{ WHO = "{name}{value}" }}')
            for name in ("a", "b")
        ).replace("}", f', SHARED = "s{value}" }}', 1)

    daemon.start(crontab("1"))
    daemon.cli("trigger", "a")
    assert bell.wait() == "a1:s1"
    daemon.write(crontab("2"))
    daemon.cli("reload")
    gate.open()
    assert bell.wait() == "a1:s1"
    daemon.log.wait("run succeeded", job="a")
    for name, told in (("b", "b2:"), ("a", "a2:s2")):
        daemon.cli("trigger", name)
        assert bell.wait() == told
        gate.open()
        assert bell.wait() == told


def test_half_written_crontab(daemon: Daemon) -> None:
    """aptible/supercronic#186 and its kind: a half-written file is refused at any length (P7)."""
    good = job_text("a", "true", 'schedule = "@yearly"') + job_text(
        "b", "true", 'schedule = "@yearly"'
    )
    daemon.start(good)
    whole = daemon.crontab.read_bytes()
    new = whole.replace(b"[jobs.b]", b"[jobs.c]")
    cut = new.index(b"[jobs.c]") + len(b"[jobs.c]\ncomm")
    for size in (cut, cut + 5, 0):
        daemon.crontab.write_bytes(new[:size])
        daemon.cli("reload", check=78)
        jobs = json.loads(daemon.cli("list", "--json").stdout)
        assert {job["job"] for job in jobs} == {"a", "b"}
    daemon.crontab.write_bytes(new)
    assert daemon.cli("reload").stdout == "added: c\nremoved: b\n"
