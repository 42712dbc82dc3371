"""The completion scripts that packages install: what they ask the program, and what it answers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from typer.completion import get_completion_script

from tests.cli.program import PYCRON, environment

COMPLETIONS = Path(__file__).parents[2] / "packaging" / "completions"


@pytest.mark.parametrize(
    ("shell", "name"), [("bash", "pycron.bash"), ("zsh", "_pycron"), ("fish", "pycron.fish")]
)
def test_the_scripts_are_those_of_the_library(shell: str, name: str) -> None:
    """What a package installs is what ``pycron --show-completion`` would print."""
    script = get_completion_script(prog_name="pycron", complete_var="_PYCRON_COMPLETE", shell=shell)
    assert (COMPLETIONS / name).read_text() == script + "\n"


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        ("pycron ne", ["next"]),
        ("pycron next --fr", ["--from"]),
        ("pycron history --outco", ["--outcome"]),
        ("pycron trigger b", ["backup", "bake"]),
        ("pycron logs ba", ["backup", "bake"]),
        ("pycron exec ba", ["backup", "bake"]),
        ("pycron env c", ["clean"]),
        ("pycron exec --sh", ["--shell"]),
        ("pycron next x", []),
    ],
)
def test_commands_options_and_jobs_are_completed(
    words: str, answer: list[str], tmp_path: Path
) -> None:
    """The program answers a shell with what may come next, jobs of the crontab included."""
    (tmp_path / "crontab.toml").write_text(
        "".join(
            f'[jobs.{job}]\nschedule = "@daily"\ncommand = "true"\n'
            for job in ("backup", "bake", "clean")
        )
    )
    done = subprocess.run(
        PYCRON,
        env={
            **environment(tmp_path),
            "_PYCRON_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(words.count(" ")),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == answer
    assert done.stderr == ""


def test_a_bad_crontab_does_not_disturb_completion(tmp_path: Path) -> None:
    """While somebody types there is no place for faults."""
    (tmp_path / "crontab.toml").write_text("junk")
    done = subprocess.run(
        PYCRON,
        env={
            **environment(tmp_path),
            "_PYCRON_COMPLETE": "complete_bash",
            "COMP_WORDS": "pycron trigger b",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        check=True,
    )
    assert (done.stdout.strip(), done.stderr) == ("", "")
