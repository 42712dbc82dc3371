"""What jobs are given and what becomes of what they print."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.support.daemon import Daemon

AWKWARD = "two  words, \"quotes\", 'more', $HOME, `id`, a=b, \\n and a\nnew line, tab\t, ü"


def test_environment(daemon: Daemon) -> None:
    """Each job sees its own variables, byte for byte, and none of the daemon's (P9)."""
    show = "env -0 > env.$PYCRON_JOB"
    daemon.write(f"""
    [jobs.one]
    schedule = "@yearly"
    command = '{show}'
    env = {{ X = "1", AWKWARD = {json.dumps(AWKWARD, ensure_ascii=False)} }}

    [jobs.two]
    schedule = "@yearly"
    command = '{show}'
    env = {{ X = "2", PATH = "/nowhere:/usr/bin:/bin" }}

    [jobs.none]
    schedule = "@yearly"
    command = '{show}'
    """)
    daemon.start(env={"X": "outer", "SECRET": "of the daemon"})
    for job in ("one", "two", "none"):
        daemon.cli("trigger", job, "--wait")
    one, two, none = (_environment(daemon, job) for job in ("one", "two", "none"))
    assert (one["X"], two["X"]) == ("1", "2")
    assert one["AWKWARD"] == AWKWARD
    assert two["PATH"] == "/nowhere:/usr/bin:/bin"
    assert none["PATH"] == one["PATH"] != two["PATH"]
    shell_adds = {"PWD", "OLDPWD", "SHLVL", "_"}
    assert set(none) - shell_adds == {
        *("PATH", "HOME", "LOGNAME", "USER", "SHELL", "LANG"),
        *("OUT", "STAMP", "PROGRAMS"),  # the crontab's [env]
        *("PYCRON_RUN_ID", "PYCRON_JOB", "PYCRON_DUE", "PYCRON_ATTEMPT"),
    }


def _environment(daemon: Daemon, job: str) -> dict[str, str]:
    text = (daemon.directory / f"env.{job}").read_text("utf-8")
    return dict(entry.split("=", 1) for entry in text.split("\0") if entry)


def test_percent_is_no_newline(daemon: Daemon) -> None:
    """A command is taken as it is written; ``%`` means nothing."""
    daemon.start("""
    [jobs.shell]
    schedule = "@yearly"
    command = 'date "+%H:%M" > told; printf "%s\\n" a%b >> told'

    [jobs.program]
    schedule = "@yearly"
    command = ["printf", "%s|", "a%b", "$HOME", "two  words", "*"]
    """)
    daemon.cli("trigger", "shell", "--wait")
    time, rest = (daemon.directory / "told").read_text().splitlines()
    assert (len(time), time[2], rest) == (5, ":", "a%b")
    daemon.cli("trigger", "program", "--wait")
    assert daemon.cli("logs", "program").stdout.rstrip("\n") == "a%b|$HOME|two  words|*|"


LINE = 5_000_000

LOUD = {
    "line": f"head -c {LINE} /dev/zero | tr '\\0' x; echo; echo end",
    "no newline": f"head -c {LINE} /dev/zero | tr '\\0' x; printf end",
    "both": "for i in 1 2 3 4 5; do head -c 200000 /dev/zero | tr '\\0' o; echo; "
    "head -c 200000 /dev/zero | tr '\\0' e >&2; echo >&2; done; echo end",
}


@pytest.mark.parametrize("kind", LOUD)
def test_endless_lines(daemon: Daemon, kind: str) -> None:
    """Lines of any length harm neither the run nor its record, and its end is there."""
    daemon.start(f'[jobs.loud]\nschedule = "@yearly"\ncommand = {json.dumps(LOUD[kind])}\n')
    before = _memory_kib(daemon.pid)
    assert "succeeded" in daemon.cli("trigger", "loud", "--wait").stdout
    raw = daemon.cli("logs", "loud", "--raw").stdout
    assert raw.rstrip("\n").endswith("end")
    assert raw.count("x") in {0, LINE}
    assert _memory_kib(daemon.pid) - before < LINE / 1024, "it does not go through the daemon"


def _memory_kib(pid: int) -> int:
    """Return the most memory that the process has ever had; see proc(5)."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1])


PAST = """
[jobs.past]
at = 2020-01-01T00:00:00Z
command = "true"
missed = "skip"

[jobs.leap]
schedule = "0 0 29 2 *"
command = "true"

[jobs.nowhere]
schedule = "* * * * * *"
command = ["/nowhere/program"]
"""


def test_short_log(daemon: Daemon) -> None:
    """Schedules that do not come, and a program that is not there, do not fill the log (P8)."""
    log = daemon.start(PAST)
    failed = log.wait("run failed", job="nowhere", count=5)
    assert "ENOENT" in failed["reason"]
    assert failed["reason"].endswith("/nowhere/program")
    daemon.stop()
    # One for each that failed, one for the one-off; the rest is the start and the stop.
    assert len(log.all("run failed")) + 8 > len(log.events)
    assert all(len(json.dumps(event)) < 500 for event in log.events)
    (row,) = daemon.history("past")
    assert row["outcome"] == "missed"


FORGED = '\n{"event": "forged"}\n\x1b[1m'

FORGERS = f"""
[jobs.prints]
schedule = "@yearly"
command = ["sh", "-c", "printf %s \\"$1\\" | tee /dev/stderr; exit 3", "sh", {json.dumps(FORGED)}]
retry = {{ attempts = 2, delay = "1ms" }}

[jobs.is-not-there]
schedule = "@yearly"
command = [{json.dumps("/nowhere" + FORGED)}]
"""


def test_log_is_json(daemon: Daemon) -> None:
    """Whatever happens, each line of the log is one JSON object, which no job can forge (P9)."""
    log = daemon.start(FORGERS)
    for job in ("prints", "is-not-there"):
        daemon.cli("trigger", job, "--wait", check=1)
    daemon.crontab.write_text(f"no TOML {FORGED}", encoding="utf-8")
    daemon.cli("reload", check=78)
    daemon.signal(signal.SIGHUP)
    log.wait("the crontab was not reloaded")
    daemon.stop()
    assert log.noise == []
    assert not [event for event in log.events if event["event"] == "forged"]
    for event in log.events:
        assert {"time", "level", "logger", "event"} <= set(event)
    shown = daemon.cli("logs", "prints").stdout
    assert "forged" in shown
    assert "\x1b" not in shown
