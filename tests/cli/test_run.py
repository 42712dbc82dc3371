"""``pycron run``: what it hands to the service, and how it becomes it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import zoneinfo
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path

import pytest

import crond_py.cli
from crond_py.cli import app
from crond_py.service import Options
from tests.cli.program import environment, pycron
from tests.cli.running import running

CRONTAB = '[jobs.a]\nschedule = "@daily"\ncommand = "true"\n'


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Have no program replaced, and return the arguments with which it would have been."""
    calls: list[list[str]] = []

    def execve(path: str, arguments: list[str], environment: dict[str, str]) -> None:
        assert path == sys.executable
        assert environment == {**os.environ, "PYTHONTZPATH": os.pathsep.join(zoneinfo.TZPATH)}
        calls.append(arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "execve", execve)
    for name in ("PYCRON_CRONTAB", "PYCRON_STATE_DIR"):
        monkeypatch.delenv(name, raising=False)
    return calls


def test_every_option_reaches_the_service(become: list[list[str]], tmp_path: Path) -> None:
    """Paths are absolute, because the service may go to another directory; spans are seconds."""
    app.run_app(
        [
            "run", "c.toml", "--state-dir", str(tmp_path), "--log-format", "json", "--daemonize",
            "--log-file", "log", "--pid-file", "pid", "--stop-timeout", "1m30s",
            "--clock-check", "500ms",
        ]
    )  # fmt: skip
    ((python, *flags, options),) = become
    keeps_small = ["-X", "no_debug_ranges"]
    assert [python, *flags] == [sys.executable, "-P", *keeps_small, "-m", "crond_py.service"]
    assert json.loads(options) == {
        "crontab": str(Path.cwd() / "c.toml"),
        "state_dir": str(tmp_path),
        "log_format": "json",
        "log_file": str(Path.cwd() / "log"),
        "daemonize": True,
        "pid_file": str(Path.cwd() / "pid"),
        "stop_timeout": 90.0,
        "clock_check": 0.5,
    }


def test_the_service_understands_what_it_gets(become: list[list[str]], tmp_path: Path) -> None:
    """Both sides agree on the form, also where nothing is given."""
    app.run_app(["run", "--state", str(tmp_path), "-h"])
    assert become == []
    app.run_app(["run", "c.toml", "--state", str(tmp_path)])
    options = Options.from_json(become[0][-1])
    assert (options.places.state_dir, options.log_format) == (tmp_path, "text")
    assert (options.stop_timeout, options.clock_check) == (timedelta(seconds=30), None)
    assert (options.is_daemonized, options.pid_file, options.log_file) == (False, None, None)
    app.run_app(["run", "c.toml", "--stop-timeout", "none"])
    assert Options.from_json(become[1][-1]).stop_timeout is None


def test_a_log_in_the_background_is_not_lost(become: list[list[str]], tmp_path: Path) -> None:
    """Without standard error the log goes to a file in the state directory."""
    app.run_app(["run", "c.toml", "--state-dir", str(tmp_path), "--daemonize"])
    assert json.loads(become[0][-1])["log_file"] == str(tmp_path / "pycron.log")


@pytest.fixture
def hangup() -> Iterator[None]:
    """Put the dispositions of signals, and what is blocked, back afterwards."""
    before = {number: signal.getsignal(number) for number in (signal.SIGHUP, signal.SIGINT)}
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    yield
    signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    for number, disposition in before.items():
        signal.signal(number, disposition)


@pytest.mark.usefixtures("hangup")
@pytest.mark.parametrize(("command", "is_kept"), [("run", True), ("list", False)])
def test_an_early_hangup_does_not_end_the_daemon(
    command: str, is_kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B46: it is kept before anything else is done; to other commands it is the usual."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    monkeypatch.setattr(sys, "argv", ["pycron", command])
    seen: list[bool] = []

    def run_app(arguments: list[str]) -> int:
        assert arguments == [command]
        seen.append(signal.SIGHUP in signal.pthread_sigmask(signal.SIG_BLOCK, ()))
        return 7

    monkeypatch.setattr(app, "run_app", run_app)
    with pytest.raises(SystemExit) as left:
        crond_py.cli.main()
    assert left.value.code == 7
    assert seen == [is_kept]
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL


def test_the_current_directory_cannot_shadow_modules(tmp_path: Path) -> None:
    """P9: what lies about where the daemon is started is not taken for a part of it."""
    (tmp_path / "crontab.toml").write_text(CRONTAB)
    for name in ("json", "logging", "crond_py", "sqlite3"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('shadowed')\n")
    with running(environment(tmp_path)) as process:
        assert process.poll() is None


def test_a_bad_crontab_does_not_start(tmp_path: Path) -> None:
    """P7: every fault is told, exit code 78, and no state is made."""
    (tmp_path / "crontab.toml").write_text('[jobs.a]\ncommand = "x"\noverlpa = "skip"\n')
    done = pycron("run", env=environment(tmp_path), check=78)
    assert f"{tmp_path}/crontab.toml:3: jobs.a.overlpa:" in done.stderr
    assert not (tmp_path / "state").exists()


def test_a_second_daemon_does_not_start(tmp_path: Path) -> None:
    """P2: it is told who holds the state directory, exit code 1, and the first goes on."""
    (tmp_path / "crontab.toml").write_text(CRONTAB)
    env = environment(tmp_path)
    with running(env) as process:
        done = pycron("run", env=env, check=1)
        assert str(process.pid) in done.stderr
        assert json.loads(pycron("status", "--json", env=env).stdout)["pid"] == process.pid


_INTERRUPTS = """
import os, signal, sys

def look(event, details):
    if event == "import" and details[0] == "{module}":
        os.kill(os.getpid(), signal.SIGINT)

sys.addaudithook(look)
"""


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("crond_py.cli.app", ["-c", "from crond_py.cli import main; main()", "run"]),
        ("crond_py.engine.core", ["-m", "crond_py.service", '{"daemonize": true}']),
        (
            "crond_py.engine.core",
            ["-m", "crond_py.service", '{"daemonize": false, "crontab": "/dev/null"}'],
        ),
    ],
    ids=["command", "service", "service that has the crontab read"],
)
def test_interrupt_before_anything_has_begun(
    module: str, code: Sequence[str], tmp_path: Path
) -> None:
    """A Ctrl-C while pycron is still being loaded ends it at once, and in silence."""
    (tmp_path / "sitecustomize.py").write_text(_INTERRUPTS.format(module=module))
    ended = subprocess.run(
        [sys.executable, *code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (-signal.SIGINT, "", "")
