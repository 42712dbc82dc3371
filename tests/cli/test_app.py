"""The program as a whole: help, usage errors, exit codes, and what goes wrong around it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import crond_py
from crond_py.cli import app, say
from tests.cli.program import PYCRON, environment, in_place, on_terminal, pycron

COMMANDS = (
    "run", "check", "list", "next", "history", "logs", "status", "trigger", "cancel", "reload",
    "stop", "schema",
)  # fmt: skip


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose home is empty."""
    return environment(tmp_path)


def test_version(env: dict[str, str]) -> None:
    """Both spellings print the version and nothing else."""
    for option in ("--version", "-V"):
        assert pycron(option, env=env).stdout == f"pycron {crond_py.__version__}\n"


def test_the_package_is_the_program(env: dict[str, str]) -> None:
    """``python -m crond_py`` does what pycron does, where that is not on the PATH."""
    command = [sys.executable, "-m", "crond_py", "--version"]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert done.stdout == f"pycron {crond_py.__version__}\n"


def test_late_in_the_help_of_list(env: dict[str, str]) -> None:
    """Whoever wonders at a large LATE learns that runs which were given up count."""
    assert "given up as start_within" in " ".join(pycron("list", "--help", env=env).stdout.split())


def test_the_help_names_every_command_in_full(env: dict[str, str]) -> None:
    """What a command is for fits on its line, and nothing is cut off."""
    text = pycron("--help", env=env).stdout
    for command in COMMANDS:
        assert f"\n  {command} " in text
    assert "..." not in text.replace("[ARGS]...", "")
    assert pycron("-h", env=env).stdout == text


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help_with_examples(command: str, env: dict[str, str]) -> None:
    """Its help is the same for -h and --help, fits 80 columns, and has an example to copy."""
    text = pycron(command, "--help", env=env).stdout
    assert text == in_place(command, "-h", env=env).stdout
    assert f"Usage: pycron {command}" in text
    assert f"Examples:\n    pycron {command}" in text
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("status", "LATE how late the newest run started"),
        ("list", "LATE is the median"),
        ("history", "LATE is how late that run started"),
    ],
)
def test_what_late_is_of_is_said(command: str, words: str, env: dict[str, str]) -> None:
    """Each of the three tables that have the column has it of something else."""
    assert words in " ".join(in_place(command, "--help", env=env).stdout.split())


def test_no_command_is_a_usage_error_with_the_help(env: dict[str, str]) -> None:
    """The exit code is 2, the help is on standard error, and standard output is empty."""
    done = pycron(env=env, check=2)
    assert done.stdout == ""
    assert "Commands:" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nxt"], "there is no command 'nxt'; did you mean 'next'?"),
        (["restart"], "there is no command 'restart'; stop pycron and start it again"),
        (["kill", "x"], "there is no command 'kill'; pycron cancel ends runs"),
        (["atq"], "there is no command 'atq'; pycron tasks shows what is to come"),
        (["atrm", "3"], "there is no command 'atrm'; pycron cancel takes a task back"),
        (["batch"], "there is no command 'batch'; pycron in 0s hands in a command"),
        (["tasks", "--state", "waiting"], "there is no directory 'waiting', and --state is short"),
        (["history", "--state", "failed"], "pycron history has --outcome to choose by"),
        (["list", "--state-dir=running"], "(for a directory: ./running)"),
        (["submit", "--key"], "option '--key' requires an argument; see pycron submit --help"),
        (["in", "1h", "--key"], "option '--key' requires an argument; see pycron in --help"),
        (["frobnicate"], "there is no command 'frobnicate'; see pycron --help"),
        (["--frobnicate"], "no such option: --frobnicate; see pycron --help"),
        (["next", "--frobnicate"], "no such option: --frobnicate"),
        (["next", "-n", "x"], "'x' is not a whole number; see pycron next --help"),
        (["next", "-n"], "requires an argument"),
        (["next", "-n", "-1"], "not -1"),
        (["next", "-n", "0"], "needs --until"),
        (["next", "a", "-e", "@daily"], "not both"),
        (["next", "-e", "@daily", "--from", "2026-02-02", "--until", "2026-02-01"], "later than"),
        (["next", "-e", "61 * * * *"], "minute"),
        (["next", "-e", "@daily", "--tz", "Europe/Berln"], "did you mean Europe/Berlin?"),
        (["next", "-e", "@daily", "--from", "soon"], "'soon' is not an instant"),
        (["logs"], "missing argument"),
        (["logs", "x", "--tail", "-1"], "not -1"),
        (["history", "--outcome", "good"], "--outcome is one of succeeded, failed"),
        (["history", "-n", "-1"], "not -1"),
        (["check", "a", "-c", "b"], "give one crontab"),
        (["run", "--log-format", "xml"], "text or json, not 'xml'"),
        (["run", "--stop-timeout", "soon"], "--stop-timeout"),
        (["run", "--clock-check", "-1s"], "--clock-check"),
        (["run", "--clock-check", "0s"], "--clock-check"),
        (["trigger", "x", "--wait", "--timeout", "5"], "--timeout"),
    ],
)
def test_a_request_that_makes_no_sense(
    arguments: list[str], words: str, env: dict[str, str]
) -> None:
    """It is told in one sentence on standard error, and the exit code is 2."""
    done = in_place(*arguments, env=env, check=2)
    assert words in done.stderr
    assert done.stderr.startswith("pycron: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""


def test_a_directory_may_be_called_like_a_state(
    env: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is there is meant, and so is one that is written like a path."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "waiting").mkdir()
    for given, state_dir in (("waiting", "waiting"), ("./done", "done")):
        done = in_place("tasks", "--state", given, env=env)
        assert f"there is no ledger in {tmp_path / state_dir}:" in done.stderr


@pytest.mark.parametrize(
    "arguments",
    [["status"], ["trigger", "x"], ["cancel", "7"], ["cancel", "x"], ["reload"], ["stop"]],
)
def test_no_daemon_has_a_code_of_its_own(arguments: list[str], env: dict[str, str]) -> None:
    """The exit code is 3 and the sentence says how to start one."""
    done = in_place(*arguments, env=env, check=3)
    assert done.stderr == (
        f"pycron: no daemon is running on {env['PYCRON_STATE_DIR']}; start one with: pycron run\n"
    )


def test_a_reader_that_goes_away_is_no_trouble(env: dict[str, str]) -> None:
    """``pycron next | head`` ends quietly, as it would with any other program."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [*PYCRON, "next", "-e", "* * * * * *", "-n", "5000"],
        env=env, stdout=write, stderr=subprocess.PIPE, check=False,
    )  # fmt: skip
    os.close(write)
    assert done.stderr == b""
    assert done.returncode == 141


def test_a_full_disk_is_one_sentence(env: dict[str, str]) -> None:
    """Output that is lost is not a success."""
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            [*PYCRON, "next", "-e", "@daily"],
            env=env, stdout=full, stderr=subprocess.PIPE, check=False, text=True,
        )  # fmt: skip
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_closed_stream_is_no_trouble(stream: str, env: dict[str, str]) -> None:
    """Started without standard output or error, a command does its work all the same."""
    number = {"stdout": 1, "stderr": 2}[stream]
    line = f"exec {number}>&-; exec {PYCRON[0]} next -e @daily"
    done = subprocess.run(["/bin/sh", "-c", line], env=env, capture_output=True, check=False)
    assert done.returncode == 0
    assert done.stderr == b""


def test_characters_that_the_terminal_lacks_are_written_out(tmp_path: Path) -> None:
    """A name beyond ASCII does not stop an answer where only ASCII can be shown."""
    crontab = tmp_path / "größe.toml"
    crontab.write_text('[jobs.a]\nschedule = "@daily"\ncommand = "true"\n')
    env = environment(tmp_path, PYTHONIOENCODING="ascii")
    assert "gr\\xf6\\xdfe.toml" in pycron("check", str(crontab), env=env).stdout


def test_ctrl_c_is_not_a_traceback(env: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The exit code of an interrupted command is 130, as a shell has it for SIGINT."""

    def interrupted(_: str) -> None:
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(say, "out", interrupted)
    assert app.run_app(["next", "-e", "@daily"]) == 130


def test_what_nobody_expected_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A fault of the program itself is told with the way to learn more, which works."""

    def broken(_: str) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(say, "out", broken)
    monkeypatch.delenv("PYCRON_DEBUG", raising=False)
    assert app.run_app(["next", "-e", "@daily"]) == 1
    text = capsys.readouterr().err
    assert text.startswith("pycron: unexpected ZeroDivisionError: by nothing (PYCRON_DEBUG=1 ")
    assert text.count("\n") == 1
    monkeypatch.setenv("PYCRON_DEBUG", "1")
    assert app.run_app(["next", "-e", "@daily"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_an_argument_cannot_drive_the_terminal(env: dict[str, str]) -> None:
    """P9: what is echoed in an error has its control characters made visible."""
    done = pycron("\x1b]0;owned\x07", env=env, check=2)
    assert "\x1b" not in done.stderr


def test_a_terminal_gets_colour_and_nobody_who_refuses_it(tmp_path: Path) -> None:
    """NO_COLOR is honoured (no-color.org); a pipe never gets an escape."""
    (tmp_path / "crontab.toml").write_text('[jobs.a]\nschedule = "@daily"\ncommand = "true"\n')
    env = environment(tmp_path)
    assert "\x1b[" in on_terminal("list", env=env, columns=80)
    plain = on_terminal("list", env={**env, "NO_COLOR": "1"}, columns=80)
    assert "\x1b[3" not in plain
    assert "\x1b" not in pycron("list", env={**env, "FORCE_COLOR": "1"}).stdout
