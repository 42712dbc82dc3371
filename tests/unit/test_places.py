"""Where pycron keeps its things."""

from __future__ import annotations

from pathlib import Path

import pytest

from crond_py.errors import UsageError
from crond_py.places import Places, find_places

NOBODY = 4_000_000_000  # no such user


@pytest.mark.parametrize(
    ("uid", "environ", "crontab", "state_dir"),
    [
        (0, {}, "/etc/pycron/crontab.toml", "/var/lib/pycron"),
        (
            0,
            {"HOME": "/root", "XDG_STATE_HOME": "/x"},
            "/etc/pycron/crontab.toml",
            "/var/lib/pycron",
        ),
        (
            1000,
            {"HOME": "/home/ada"},
            "/home/ada/.config/pycron/crontab.toml",
            "/home/ada/.local/state/pycron",
        ),
        (
            1000,
            {"HOME": "/home/ada", "XDG_CONFIG_HOME": "/c", "XDG_STATE_HOME": "/s"},
            "/c/pycron/crontab.toml",
            "/s/pycron",
        ),
        # A base that is not absolute is invalid and to be ignored (XDG Base Directory
        # Specification, "Environment variables").
        (
            1000,
            {"HOME": "/home/ada", "XDG_CONFIG_HOME": "c", "XDG_STATE_HOME": ""},
            "/home/ada/.config/pycron/crontab.toml",
            "/home/ada/.local/state/pycron",
        ),
        (
            NOBODY,
            {"PYCRON_CRONTAB": "/a.toml", "PYCRON_STATE_DIR": "/b"},
            "/a.toml",
            "/b",
        ),
        (0, {"PYCRON_CRONTAB": "/a.toml", "PYCRON_STATE_DIR": "/b"}, "/a.toml", "/b"),
    ],
)
def test_the_usual_places(uid: int, environ: dict[str, str], crontab: str, state_dir: str) -> None:
    """The superuser's are the system's, others' are the XDG ones, the environment goes before."""
    assert find_places(environ=environ, uid=uid) == Places(Path(crontab), Path(state_dir))


def test_an_option_goes_before_the_environment() -> None:
    """What is given is taken, and a relative path is one below the current directory."""
    environ = {"PYCRON_CRONTAB": "/a.toml", "PYCRON_STATE_DIR": "/b"}
    places = find_places(crontab=Path("c.toml"), state_dir=Path("/d"), environ=environ, uid=0)
    assert places == Places(Path.cwd() / "c.toml", Path("/d"))


def test_a_user_without_a_home_is_told_what_to_give() -> None:
    """No path is made up; the sentence names the options and variables that help."""
    with pytest.raises(UsageError, match=r"--state-dir.*PYCRON_STATE_DIR"):
        find_places(environ={}, uid=NOBODY)


def test_everything_is_in_the_state_directory() -> None:
    """Ledger and socket lie in it, so that one option moves them all."""
    places = Places(Path("/etc/c.toml"), Path("/s"))
    assert places.ledger == Path("/s/ledger.sqlite")
    assert places.socket == Path("/s/control.sock")
