"""What the README says is so: its commands run, its crontabs load, its lists are whole."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crond_py import errors
from crond_py.crontab import load_crontab
from crond_py.crontab.keys import FILE_KEYS, JOB_KEYS, NOT_YET
from crond_py.model import Leftovers, Missed, OnCrash, OnStop, Outcome, Overlap
from crond_py.places import CRONTAB_VARIABLE, STATE_DIR_VARIABLE
from crond_py.runner.environment import PATH

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PATIENCE_S = 60.0


def blocks(language: str) -> list[str]:
    """Return the fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def section(heading: str) -> str:
    """Return the text below a heading."""
    found = re.search(rf"^## {heading}\n(.*?)(?=^## |\Z)", README, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


def first_cells(text: str) -> list[str]:
    """Return the code in the first column of each row of a table."""
    return re.findall(r"^\| `([^`|]+)` \|", text, re.MULTILINE)


COMMANDS = re.findall(r"^\$ (.*)$", "".join(blocks("console")), re.MULTILINE)
OF_PYCRON = [line for line in COMMANDS if line.startswith("pycron ")]
FIRST_CRONTAB = blocks("toml")[0]


class Shell:
    """Runs command lines as a newcomer would, in a home of its own."""

    def __init__(self, home: Path, pycron: str) -> None:
        binaries = home / "bin"
        binaries.mkdir()
        (binaries / "pycron").symlink_to(pycron)
        crontab = home / ".config" / "pycron" / "crontab.toml"
        crontab.parent.mkdir(parents=True)
        crontab.write_text(FIRST_CRONTAB, encoding="utf-8")
        kept = {key: value for key, value in os.environ.items() if key.startswith("COV")}
        # Root's usual places are the machine's own; a test stays away from them.
        self.settings = {
            **kept,
            "PATH": f"{binaries}:/usr/bin:/bin",
            "HOME": str(home),
            CRONTAB_VARIABLE: str(crontab),
            STATE_DIR_VARIABLE: str(home / "state"),
        }
        self._home = home
        self.daemon: subprocess.Popen[str] | None = None

    def run(self, line: str) -> subprocess.CompletedProcess[str]:
        """Run a line and wait for its end."""
        return subprocess.run(
            ["/bin/sh", "-c", line],
            env=self.settings, cwd=self._home, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False, timeout=PATIENCE_S,
        )  # fmt: skip

    def start_daemon(self, line: str) -> None:
        """Run a line that does not end, and wait until the daemon says that it is up."""
        log = self._home / "log"
        os.mkfifo(log)
        self.daemon = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {line} 2>log"], env=self.settings, cwd=self._home, text=True
        )
        self._log = log.open()
        for said in self._log:
            if "is up" in said:
                return
        pytest.fail("the daemon has ended")

    def close(self) -> None:
        """End the daemon if it is still there."""
        if self.daemon is not None:
            self.daemon.kill()
            self.daemon.wait()
            self._log.close()


@pytest.fixture
def shell(tmp_path: Path, pycron_command: tuple[str, ...]) -> Iterator[Shell]:
    """Make a home with the README's first crontab in it."""
    made = Shell(tmp_path, pycron_command[0])
    yield made
    made.close()


def test_every_command_runs_in_the_order_of_the_text(shell: Shell) -> None:
    """A newcomer who types what is there meets no error, from check to stop."""
    assert "pycron run" in OF_PYCRON
    for line in OF_PYCRON:
        if line == "pycron run":
            shell.start_daemon(line)
            continue
        done = shell.run(line)
        assert done.returncode == 0, (line, done.stdout, done.stderr)
    assert shell.daemon is None or shell.daemon.wait(PATIENCE_S) == 0


@pytest.mark.parametrize("line", [line for line in COMMANDS if "pycron " in line])
def test_every_option_exists(shell: Shell, line: str) -> None:
    """What a command line names is told by the help of that command."""
    command = re.search(r"pycron (\w+)", line)
    assert command is not None
    told = shell.run(f"pycron {command[1]} --help")
    assert told.returncode == 0
    own = line.partition(" -- ")[0]  # what comes after is a command that is handed in
    for option in re.findall(r"(?<= )--?[a-z][a-z-]*", own):
        assert re.search(rf"(?<![\w-]){option}(?![\w-])", told.stdout), option


@pytest.mark.parametrize("text", blocks("toml"))
def test_every_crontab_loads(tmp_path: Path, text: str) -> None:
    """A crontab that is shown can be used as it is."""
    file = tmp_path / "crontab.toml"
    file.write_text(text, encoding="utf-8")
    assert load_crontab(file).jobs


def test_the_fault_that_is_shown_is_what_check_says(shell: Shell, tmp_path: Path) -> None:
    """The line with the typing mistake reads as in the text."""
    lines = ["[jobs.backup]", 'schedule = "30 2 * * *"', 'overlpa = "skip"', 'command = "true"']
    (tmp_path / "crontab.toml").write_text("\n".join(lines), encoding="utf-8")
    done = shell.run("pycron check crontab.toml")
    [shown] = blocks("text")
    assert done.returncode == errors.CrontabError.exit_code
    assert done.stderr.strip().removeprefix(f"{tmp_path}/") == shown.strip()


@pytest.mark.parametrize("text", blocks("python"))
def test_the_python_program_runs(shell: Shell, text: str) -> None:
    """The program that is shown runs as it is, without a word of complaint."""
    if "Client(" in text:
        shell.start_daemon("pycron run")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", text],
        capture_output=True, text=True, check=False, timeout=PATIENCE_S, cwd=ROOT,
        env={**os.environ, **shell.settings},
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    # The second: 02:30 does not come on that day, so it is due right after the gap.
    beginnings = ("hello, soon", "2026-03-29 01:00:00+00:00", "task:1 is due 20")
    assert done.stdout.startswith(beginnings)


def test_every_command_is_listed(shell: Shell) -> None:
    """The table of commands is that of ``pycron --help``, in its order."""
    helped = shell.run("pycron --help").stdout.split("Commands:")[1]
    told = re.findall(r"^  ([a-z]+)  ", helped, re.MULTILINE)
    assert told
    assert first_cells(section("Commands")) == told


def test_every_exit_code_is_listed() -> None:
    """The table has each code of the tree of errors, and success and interruption."""
    codes = {
        kind.exit_code
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, errors.PycronError)
    }
    listed = re.findall(r"^\| (\d+) \|", section("Commands"), re.MULTILINE)
    assert list(map(int, listed)) == sorted({0, 130, *codes})


def test_every_outcome_and_policy_is_listed() -> None:
    """Each outcome has its row, and each policy all of its values."""
    text = section("What becomes of a due instant")
    cells = first_cells(text)
    assert cells[: len(Outcome)] == [outcome.value for outcome in Outcome]
    assert cells[len(Outcome) :] == ["overlap", "missed", "on_crash", "on_stop", "leftovers"]
    values = re.findall(r"^\| (?:`\w+`)? ?\| `(\w+)` \|", text, re.MULTILINE)
    assert sorted(values) == sorted([*Overlap, *Missed, *OnCrash, *OnStop, *Leftovers])


def test_names_of_keys_and_variables_are_right() -> None:
    """Whatever looks like a key of a job in the text on policies and jobs is one."""
    text = section("What becomes of a due instant") + section("Time")
    words = set(re.findall(r"`([a-z]+(?:_[a-z]+)*)`", text))
    known = {*JOB_KEYS, *Outcome, *Overlap, *Missed, *OnCrash, *OnStop, *Leftovers}
    assert words - known == {"attempts"} & words
    assert PATH in README
    assert {CRONTAB_VARIABLE, STATE_DIR_VARIABLE} <= set(re.findall(r"PYCRON_\w+", README))


def test_what_is_not_there_yet_is_all_of_it() -> None:
    """The list names each key that a crontab may not have yet, and none that it may."""
    keys = {key.name for key in (*JOB_KEYS.values(), *FILE_KEYS.values()) if key.kind is NOT_YET}
    named = set(re.findall(r"`(\w+)`", section("What is not there yet")))
    assert keys
    assert named == keys


def test_targets_and_files_exist() -> None:
    """No link leads nowhere, and no make target is made up."""
    for link in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / link).exists(), link
    for path in re.findall(r"^# cp (\S+)", "".join(blocks("console")), re.MULTILINE):
        assert (ROOT / path).is_file(), path
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"`make ([a-z-]+)`|^\$ make ([a-z-]+)$", README, re.MULTILINE))
    assert {name for pair in named for name in pair if name} <= targets


def test_units_name_the_places_of_the_text() -> None:
    """The unit uses the crontab and the state directory that the table of files has for root."""
    unit = (ROOT / "packaging" / "systemd" / "pycron.service").read_text(encoding="utf-8")
    crontab, state = re.search(r"run (\S+) --state-dir (\S+)", unit).groups()  # type: ignore[union-attr]
    assert f"`{crontab}`" in section("Files")
    assert f"`{state}`" in section("Files")
