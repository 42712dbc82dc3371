"""``pycron graph``: the chains of a crontab, for a person and for a program."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import environment, on_terminal, pycron, without_colour

CRONTAB = """\
[jobs.head]
schedule = "30 2 * * *"
command = "true"
[jobs.left]
after = ["head"]
command = "true"
[jobs.right]
after = { head = "any" }
command = "true"
[jobs.end]
after = ["left", "right"]
command = "true"
[jobs.alarm]
after = { end = "failure" }
command = "true"
enabled = false
[jobs.alone]
every = "5m"
command = "true"
"""
DRAWN = """\
head  30 2 * * *
├── left
│   └── end  also after right
│       └── alarm  if it fails, disabled
└── right  however it ends
    └── end  also after left, as above
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a crontab and no state."""
    (tmp_path / "crontab.toml").write_text(CRONTAB)
    return environment(tmp_path)


def test_a_tree_for_each_head(env: dict[str, str]) -> None:
    """Each job stands below every one that it waits for, and is gone into once."""
    assert pycron("graph", env=env).stdout == DRAWN
    assert pycron("graph", "alarm", env=env).stdout == DRAWN


@pytest.mark.parametrize("columns", [16, 120])
def test_on_a_terminal(env: dict[str, str], columns: int) -> None:
    """Colour adds nothing but colour, NO_COLOR takes it away, and no name is cut."""
    shown = on_terminal("graph", env=env, columns=columns)
    assert without_colour(shown) == DRAWN
    assert "\x1b[" in shown
    plain = on_terminal("graph", env={**env, "NO_COLOR": "1"}, columns=columns)
    assert without_colour(plain) == DRAWN
    assert "\x1b[3" not in plain


def test_on_a_narrow_terminal(env: dict[str, str]) -> None:
    """What has no room goes on below, within the branch, as long as each word has room."""
    assert without_colour(on_terminal("graph", env=env, columns=25)) == (
        "head  30 2 * * *\n"
        "├── left\n"
        "│   └── end  also after \n"
        "│       right\n"
        "│       └── alarm  if it \n"
        "│           fails, \n"
        "│           disabled\n"
        "└── right  however it \n"
        "    ends\n"
        "    └── end  also after \n"
        "        left, as above\n"
    )


def test_as_json(env: dict[str, str]) -> None:
    """A program gets the jobs and their edges, both ways."""
    jobs = {each["job"]: each for each in json.loads(pycron("graph", "--json", env=env).stdout)}
    assert set(jobs) == {"head", "left", "right", "end", "alarm"}
    assert jobs["end"]["after"] == {"left": "success", "right": "success"}
    assert jobs["alarm"]["after"] == {"end": "failure"}
    assert jobs["head"]["before"] == ["left", "right"]
    assert jobs["alarm"]["enabled"] is False


def test_a_job_that_is_in_no_chain(env: dict[str, str]) -> None:
    """It is shown by itself."""
    assert pycron("graph", "alone", env=env).stdout == "alone  every 5m\n"


def test_no_chain_and_no_such_job(env: dict[str, str], tmp_path: Path) -> None:
    """Where there is nothing to draw, that is said, and on standard error."""
    (tmp_path / "crontab.toml").write_text('[jobs.a]\nevery = "5m"\ncommand = "true"\n')
    done = pycron("graph", env=env)
    assert (done.stdout, "follows another" in done.stderr) == ("", True)
    assert "no job 'b'" in pycron("graph", "b", env=env, check=2).stderr
