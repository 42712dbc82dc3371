"""What many starts of one moment have in common is looked up once, and anew in the next."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from crond_py.errors import CannotStartError
from crond_py.runner import lookups
from crond_py.runner.lookups import FRESH_NS, Lookups
from crond_py.runner.setting import resolve
from crond_py.runner.spawn import Ready, make_ready
from tests.process.conftest import Harness
from tests.support.clock import FakeClock


def ready(found: Lookups, harness: Harness, command: str | tuple[str, ...]) -> Ready | None:
    """Make one start ready."""
    return make_ready(harness.spec(command), found)


def add_program(directory: Path, name: str) -> Path:
    """Make a program; return where it is."""
    path = directory / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_a_moment_asks_the_user_database_once(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has changed there is noticed by the starts of a later moment."""
    asked: list[str | None] = []
    find = lookups.find_account
    monkeypatch.setattr(lookups, "find_account", lambda user: asked.append(user) or find(user))
    clock = FakeClock()
    found = Lookups(clock)
    for _ in range(3):
        assert ready(found, harness, ("true",)) is not None
    assert asked == [None]
    clock.advance(timedelta(microseconds=FRESH_NS // 1000 + 1))
    assert ready(found, harness, ("true",)) is not None
    assert asked == [None, None]


def test_what_was_missing_is_looked_for_again(harness: Harness, tmp_path: Path) -> None:
    """A program that has just been put in its place is found."""
    found, name = Lookups(FakeClock()), str(tmp_path / "new")
    assert ready(found, harness, (name,)) is None
    add_program(tmp_path, "new")
    made = ready(found, harness, (name,))
    assert made is not None
    assert made.program == os.fsencode(name)


def test_each_path_and_directory_has_its_own_answers(harness: Harness, tmp_path: Path) -> None:
    """The same name means another program elsewhere."""
    found, programs = Lookups(FakeClock()), []
    for directory in (tmp_path / "a", tmp_path / "b"):
        directory.mkdir()
        add_program(directory, "prog")
        by_path = harness.spec(("prog",), env={"PATH": str(directory)})
        by_place = harness.spec(("./prog",), cwd=str(directory))
        for spec in (by_path, by_place):
            made = make_ready(spec, found)
            assert made is not None
            programs.append((made.program.decode(), made.setting.cwd))
    assert len(set(programs)) == 4


def test_a_text_gets_the_directory_that_it_begins_in(harness: Harness, tmp_path: Path) -> None:
    """PWD is what a shell would have found, for each directory."""
    found = Lookups(FakeClock())
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / f"to-{name}").symlink_to(tmp_path / name)
        made = make_ready(harness.spec("env -u A", cwd=str(tmp_path / f"to-{name}")), found)
        assert made is not None
        assert made.spec.argv == ("env", "-u", "A")
        assert made.setting.env["PWD"] == str(tmp_path / name)


def test_a_directory_that_cannot_be_entered_is_at_fault(harness: Harness, tmp_path: Path) -> None:
    """It is told of the setting, as where nothing is remembered."""
    spec = harness.spec(("true",), cwd=str(tmp_path / "none"))
    found = Lookups(FakeClock())
    with pytest.raises(CannotStartError, match="working directory"):
        found.program(spec, resolve(spec, found.account(None)))
