"""The bytes that a job's outputs may take: the oldest go, and never what is still needed."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from crond_py.ports import KeptOutputs
from crond_py.runner.output import output_path
from crond_py.runner.quota import SHARE, Quota


class Background:
    """Does in order, and when it is told to, what was left to it."""

    def __init__(self) -> None:
        self.work: list[Callable[[], None]] = []

    def put(self, work: Callable[[], None]) -> None:
        """Have something done later."""
        self.work.append(work)

    def run(self) -> int:
        """Do all; return how much it was."""
        work, self.work = self.work, []
        for each in work:
            each()
        return len(work)


@pytest.fixture
def background() -> Background:
    """Make a place for work."""
    return Background()


@pytest.fixture
def quota(tmp_path: Path, background: Background) -> Quota:
    """Make a quota whose work is done when the test says so."""
    return Quota(tmp_path, background.put)


def write(state_dir: Path, run: int, size: int, attempt: int = 1) -> Path:
    """Write an output."""
    path = output_path(state_dir, "backup", run, attempt)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"x" * size)
    return path


def kept(state_dir: Path) -> list[str]:
    """Return which outputs there are, by run and attempt."""
    directory = output_path(state_dir, "backup", 1, 1).parent
    return sorted(path.name.removesuffix(".log") for path in directory.iterdir())


def names(state_dir: Path) -> list[str]:
    """Return all files of the job's directory."""
    return sorted(path.name for path in output_path(state_dir, "backup", 1, 1).parent.iterdir())


@pytest.mark.parametrize(
    ("most", "left"),
    [
        (100_000, ["1-1", "2-1", "2-2", "3-1", "10-1"]),
        (5000, ["1-1", "2-1", "2-2", "3-1", "10-1"]),
        (4999, ["2-1", "2-2", "3-1", "10-1"]),
        (3000, ["2-2", "3-1", "10-1"]),
        (2000, ["3-1", "10-1"]),
        (1999, ["10-1"]),
        (1, ["10-1"]),
    ],
)
def test_the_oldest_go_first(
    quota: Quota, background: Background, tmp_path: Path, most: int, left: list[str]
) -> None:
    """Until the rest is within the bytes, by number of the run; the newest run's always stays."""
    for run, attempt in ((10, 1), (1, 1), (2, 1), (2, 2), (3, 1)):
        write(tmp_path, run, 1000, attempt)
    quota.note(KeptOutputs("backup", most, frozenset(), newest=10))
    background.run()
    assert kept(tmp_path) == sorted(left)


def test_a_run_that_goes_on_keeps_its_output(
    quota: Quota, background: Background, tmp_path: Path
) -> None:
    """Also between two attempts, when nobody writes."""
    for run in range(1, 5):
        write(tmp_path, run, 1000)
    quota.note(KeptOutputs("backup", 2000, frozenset({1, 3}), newest=4))
    background.run()
    assert kept(tmp_path) == ["1-1", "3-1", "4-1"]


def test_what_is_written_to_stays(quota: Quota, background: Background, tmp_path: Path) -> None:
    """A process that a run has left behind may still print; its place stays."""
    for run in range(1, 4):
        write(tmp_path, run, 1000)
    with write(tmp_path, 1, 1000).open("ab"):
        quota.note(KeptOutputs("backup", 1000, frozenset(), newest=3))
        background.run()
        assert kept(tmp_path) == ["1-1", "3-1"]


def test_a_run_that_has_come_since_is_not_touched(
    quota: Quota, background: Background, tmp_path: Path
) -> None:
    """What is not known of when it is decided cannot be known to be over."""
    for run in range(1, 6):
        write(tmp_path, run, 1000)
    quota.note(KeptOutputs("backup", 1000, frozenset(), newest=3))
    background.run()
    assert kept(tmp_path) == ["3-1", "4-1", "5-1"]


def test_what_is_of_no_run_of_this_ledger_goes_first(
    quota: Quota, background: Background, tmp_path: Path
) -> None:
    """What was set aside, what was never finished, and what an earlier ledger has left: by age.

    That a file is of an earlier ledger is known once it was there before the newest run was named.
    """
    aside = ["7-1.log.earlier", "2-1.log.new", "3-2.log.earlier", "90-1.log", "80-1.log"]
    for age, name in enumerate(aside):
        path = write(tmp_path, 1, 1000).with_name(name)
        path.write_bytes(b"x" * 1000)
        os.utime(path, (1_000_000 + age, 1_000_000 + age))
    for run in (2, 3):
        write(tmp_path, run, 1000)
    left = [*aside, "1-1.log", "2-1.log", "3-1.log"]
    for most in (8000, 7999, 6000, 5000, 4000, 3000, 2000):
        quota.note(KeptOutputs("backup", most, frozenset(), newest=3))
        background.run()
        left = left[-(most // 1000) :]
        assert (most, names(tmp_path)) == (most, sorted(left))


def test_what_is_just_being_made_neither_counts_nor_goes(
    quota: Quota, background: Background, tmp_path: Path
) -> None:
    """For a moment there are two of an output that is brought to its limit."""
    write(tmp_path, 2, 1000)
    with write(tmp_path, 1, 1000).with_name("1-1.log.new").open("wb") as file:
        file.write(b"x" * 1000)
        file.flush()
        quota.note(KeptOutputs("backup", 2000, frozenset(), newest=2))
        background.run()
        assert names(tmp_path) == ["1-1.log", "1-1.log.new", "2-1.log"]


def test_a_hole_takes_no_place(quota: Quota, background: Background, tmp_path: Path) -> None:
    """What counts is what a file takes of the disk."""
    path = write(tmp_path, 1, 0)
    with path.open("r+b") as file:
        file.truncate(1_000_000_000)
        file.seek(0, 2)
        file.write(b"end")
    write(tmp_path, 2, 1000)
    quota.note(KeptOutputs("backup", 100_000, frozenset(), newest=2))
    background.run()
    assert kept(tmp_path) == ["1-1", "2-1"]


def test_what_is_no_output_is_not_counted_and_stays(
    quota: Quota, background: Background, tmp_path: Path
) -> None:
    """Somebody's own files in the directory are not ours to remove."""
    for name in ("notes.txt", "1-1.log.gz", "x-1.log", "1.log", "1-1-1.log"):
        write(tmp_path, 9, 10).with_name(name).write_bytes(b"x" * 1000)
    write(tmp_path, 8, 1000)
    quota.note(KeptOutputs("backup", 1500, frozenset(), newest=9))
    background.run()
    assert "8-1" in kept(tmp_path)
    quota.note(KeptOutputs("backup", 500, frozenset(), newest=9))
    background.run()
    assert kept(tmp_path) == ["1", "1-1-1", "1-1.log.gz", "9-1", "notes.txt", "x-1"]


def test_many_outputs_are_looked_at_seldom(
    quota: Quota, background: Background, tmp_path: Path
) -> None:
    """P4: each new run costs a look at a bounded number of files; few of them are exact."""
    note = KeptOutputs("backup", 10_000, frozenset(), newest=SHARE * 10)
    looks = 0
    for _ in range(5):
        quota.note(note)
        looks += background.run()
    assert looks == 5
    number = SHARE * 10
    for run in range(1, number + 1):
        write(tmp_path, run, 1)
    looks = 0
    for _ in range(51):
        quota.note(note)
        looks += background.run()
    assert looks == 6


def test_looks_do_not_pile_up(quota: Quota, background: Background, tmp_path: Path) -> None:
    """A disk that hangs has no queue of looks behind it."""
    for _ in range(SHARE * 3):
        quota.note(KeptOutputs("backup", 10, frozenset(), newest=0))
    assert len(background.work) <= 4


def test_outputs_of_tasks_are_let_be(tmp_path: Path, quota: Quota, background: Background) -> None:
    """They lie together: no bound of one task is one of all."""
    path = output_path(tmp_path, "task:17", 1, 1)
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * 5000)
    quota.note(KeptOutputs("task:18", 4096, frozenset(), 9))
    assert background.run() == 0
    assert path.exists()
