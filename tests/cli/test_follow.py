"""Following output: the kernel says when there is more, also where nothing is there yet."""

from __future__ import annotations

import select
from collections.abc import Iterator
from pathlib import Path

import pytest

from crond_py.cli.follow import Watch


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Name a file whose directories are not there yet."""
    return tmp_path / "output" / "backup" / "7-1.log"


@pytest.fixture
def watch(path: Path) -> Iterator[Watch]:
    """Watch for it."""
    made = Watch(path)
    yield made
    made.close()


def is_ready(watch: Watch, patience_ms: int) -> bool:
    """Tell whether something has happened."""
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    return bool(poll.poll(patience_ms))


def test_nothing_happens_without_a_change(watch: Watch) -> None:
    """There is no wake-up while nothing changes."""
    assert not is_ready(watch, 0)


def test_directories_that_come_into_being_are_watched(watch: Watch, path: Path) -> None:
    """A job that has never run has no directory; it is found when it is made, at each level."""
    path.parent.parent.mkdir()
    assert is_ready(watch, 10_000)
    watch.renew()
    assert not is_ready(watch, 0)
    path.parent.mkdir()
    assert is_ready(watch, 10_000)
    watch.renew()
    path.write_text("a")
    assert is_ready(watch, 10_000)
    watch.renew()
    assert not is_ready(watch, 0)
    with path.open("a") as file:
        file.write("b")
    assert is_ready(watch, 10_000)


def test_what_was_made_in_one_go_is_caught_up_with(watch: Watch, path: Path) -> None:
    """Between two looks the directories and the file may all have come."""
    path.parent.mkdir(parents=True)
    watch.renew()
    path.write_text("a")
    assert is_ready(watch, 10_000)


def test_a_directory_that_is_made_while_its_parent_begins_to_be_watched(
    watch: Watch, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would say that it is there, so it is looked for once more."""
    path.parent.parent.mkdir()
    add_watch = watch._libc.inotify_add_watch

    def made_meanwhile(descriptor: int, name: bytes, mask: int) -> int:
        path.parent.mkdir(exist_ok=True)
        return int(add_watch(descriptor, name, mask))

    monkeypatch.setattr(watch._libc, "inotify_add_watch", made_meanwhile)
    watch.renew()
    path.write_text("a")
    assert is_ready(watch, 10_000)
