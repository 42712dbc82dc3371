"""A ledger that has lost its newest records is found out by the mark that stands beside it."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from crond_py.ledger.journal import journal_file
from crond_py.ledger.journaled import JournaledLedger
from crond_py.ledger.mark import Mark, MarkKeeper, mark_file, read_mark
from crond_py.ledger.opening import open_ledger
from crond_py.model import Cursor
from crond_py.ports import Gap, SetCursor
from tests.support.clock import FakeClock
from tests.support.ledgers import T0, at, attempted, claim, enter, finish

NOW = at(1000)
MARK = Mark("0123abcd", 7, 3, 12, at(60), "5ccf9b9f-2f0c-4a3e-9d5e-0123456789ab")

Killed = Callable[[str], Path]
OpenJournaled = Callable[[Path], JournaledLedger]


@pytest.fixture
def open_journaled(stack: ExitStack) -> OpenJournaled:
    """Open ledgers as a daemon does."""

    def open_(path: Path) -> JournaledLedger:
        ledger = open_ledger(path, FakeClock(NOW), boot_id="boot")
        stack.callback(ledger.close)
        return ledger

    return open_


@pytest.fixture
def killed(path: Path, tmp_path: Path) -> Killed:
    """Copy the files of the ledger as a kill would leave them now, to a directory of that name."""

    def copy(name: str) -> Path:
        directory = tmp_path / name
        directory.mkdir()
        for file in path.parent.glob("ledger.*"):
            shutil.copyfile(file, directory / file.name)
        return directory / path.name

    return copy


def _log(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _frames(path: Path) -> tuple[int, int]:
    """Return how long a log's header and each of its frames are (sqlite.org/walformat.html)."""
    size = int.from_bytes(_log(path).read_bytes()[8:12], "big")
    return 32, 24 + size


def test_a_kill_alone_leaves_no_gap(
    path: Path, killed: Killed, open_journaled: OpenJournaled
) -> None:
    """All that was written is there after a kill, and nothing is made of that."""
    ledger = open_journaled(path)
    for number in range(5):
        enter(ledger, attempted("a", at(number)))
        ledger.write([finish(number + 1, at(number))], durable=False)
    after = open_journaled(killed("killed"))
    assert after.gap is None
    assert list(after.troubles) == []
    assert enter(after, claim("b")) == [6]


def test_a_deleted_log_is_noticed(
    path: Path, killed: Killed, open_journaled: OpenJournaled, caplog: pytest.LogCaptureFixture
) -> None:
    """What has gone with the log is said, and its ids are given to nobody else (P1, P2)."""
    ledger = open_journaled(path)
    enter(ledger, *[attempted("a", at(number)) for number in range(5)])
    after_kill = killed("killed")
    _log(after_kill).unlink()
    after = open_journaled(after_kill)
    assert after.gap == Gap(NOW, 5, "boot")
    assert "the ledger has lost its newest records" in caplog.text
    (trouble,) = after.troubles
    assert str(after_kill) in trouble
    assert enter(after, claim("b")) == [6]


def test_each_frame_that_is_damaged_is_noticed(
    path: Path, killed: Killed, open_journaled: OpenJournaled
) -> None:
    """Wherever the log ends now, no durable write behind it is lost without a word (P2)."""
    ledger = open_journaled(path)
    enter(ledger, attempted("a", at(0)))
    first = _log(path).stat().st_size
    enter(ledger, attempted("a", at(1)))
    ledger.write([SetCursor(Cursor("a", "f", 0, T0, at(2)))], durable=True)
    header, frame = _frames(path)
    ends = range(header, _log(path).stat().st_size, frame)
    assert len([end for end in ends if end >= first]) >= 2
    for end in ends:
        after_kill = killed(str(end))
        with _log(after_kill).open("r+b") as log:
            log.seek(end + 100)
            log.write(b"\xa5" * 50)
        after = open_journaled(after_kill)
        assert after.gap == Gap(NOW, 2, "boot"), end
        assert enter(after, claim("b")) == [3]


def test_the_gap_is_there_until_it_is_accounted_for(
    path: Path, killed: Killed, open_journaled: OpenJournaled
) -> None:
    """A start that is killed before its first durable write has settled nothing (P1, P2)."""
    enter(open_journaled(path), attempted("a"))
    after_kill = killed("killed")
    _log(after_kill).unlink()
    for _ in range(2):
        ledger = open_journaled(after_kill)
        ledger.write([SetCursor(Cursor("a", "f", 0, T0, T0))], durable=False)
        assert ledger.gap == Gap(NOW, 1, "boot")
        ledger.close()
    ledger = open_journaled(after_kill)
    assert enter(ledger, claim("b")) == [2]
    ledger.close()
    assert open_journaled(after_kill).gap is None


def test_an_old_copy_put_in_its_place_is_noticed(
    path: Path, killed: Killed, open_journaled: OpenJournaled
) -> None:
    """A ledger out of a backup knows less than was promised, too."""
    ledger = open_journaled(path)
    enter(ledger, attempted("a"))
    copy = killed("backup")
    enter(ledger, attempted("b"))
    ledger.close()
    for suffix in ("", "-wal"):
        shutil.copyfile(f"{copy}{suffix}", f"{path}{suffix}")
    after = open_journaled(path)
    assert after.gap == Gap(NOW, 2, "boot")


def test_records_lost_with_the_journal_are_noticed(
    path: Path, killed: Killed, open_journaled: OpenJournaled
) -> None:
    """What only the journal had counts as any other loss where it is gone, or set aside (P2)."""
    ledger = open_journaled(path)
    enter(ledger, attempted("a"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        enter(ledger, attempted("b"))
        after_kill = killed("killed")
        sound = killed("sound")
        foreign = killed("foreign")
    assert open_journaled(sound).gap is None
    whole = journal_file(foreign).read_bytes()
    journal_file(foreign).write_bytes(whole.replace(ledger.identity.encode(), b"00000000", 1))
    journal_file(after_kill).unlink()
    for each in (after_kill, foreign):
        after = open_journaled(each)
        assert after.gap == Gap(NOW, 2, "boot")
        assert enter(after, claim("c")) == [3]
    assert list(foreign.parent.glob("ledger.journal.foreign-*"))


def test_begun_anew_while_it_was_open_it_has_no_gap(
    path: Path, killed: Killed, open_journaled: OpenJournaled
) -> None:
    """A file that takes a deleted one's place knows what that had promised."""
    ledger = open_journaled(path)
    enter(ledger, attempted("a"), attempted("b"))
    path.unlink()
    enter(ledger, attempted("c"))
    assert read_mark(path) == Mark(ledger.identity, 2, 0, 3, NOW, "boot")
    assert open_journaled(killed("killed")).gap is None


def test_until_is_the_latest_that_may_have_been_claimed(
    path: Path, open_journaled: OpenJournaled
) -> None:
    """Occurrences are claimed a little ahead, so the mark may say more than the clock."""
    ledger = open_journaled(path)
    ahead = NOW.replace(microsecond=10)
    enter(ledger, attempted("a"))
    assert read_mark(path).until == NOW  # type: ignore[union-attr]
    ledger.write([SetCursor(Cursor("a", "f", 0, T0, ahead))], durable=True)
    assert read_mark(path).until == ahead  # type: ignore[union-attr]


def test_one_that_is_empty_now_is_not_a_new_one(path: Path, open_journaled: OpenJournaled) -> None:
    """A file that was cut to nothing is damage: what ran keeps its name and number (P2)."""
    ledger = open_journaled(path)
    enter(ledger, attempted("a"))
    ledger.close()
    os.truncate(path, 0)
    after = open_journaled(path)
    assert after.identity == ledger.identity
    assert [run.job for run in after.open_runs()] == ["a"]
    assert enter(after, claim("b")) == [2]


def test_the_mark_of_another_ledger_says_nothing(
    path: Path, open_journaled: OpenJournaled, caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever begins afresh begins afresh; that it is another ledger is said."""
    ledger = open_journaled(path)
    enter(ledger, attempted("a"))
    ledger.close()
    path.unlink()
    fresh = open_journaled(path)
    assert fresh.gap is None
    assert "another ledger" in caplog.text
    assert enter(fresh, claim("a")) == [1]
    assert read_mark(path).identity == fresh.identity  # type: ignore[union-attr]


def test_what_is_written_is_read(path: Path) -> None:
    """A mark comes back as it was, in a file that only its owner may read (P9)."""
    before = os.umask(0)
    try:
        MarkKeeper(path).put(MARK)
    finally:
        os.umask(before)
    assert read_mark(path) == MARK
    assert mark_file(path).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("place", range(0, 240, 7))
def test_a_mark_that_is_torn_is_none(path: Path, place: int) -> None:
    """Half of an old one and half of a new one, or anything else, says nothing."""
    MarkKeeper(path).put(MARK)
    content = mark_file(path).read_bytes()
    mark_file(path).write_bytes(content[:place] + b"\0" * (len(content) - place))
    assert read_mark(path) is None


def test_one_that_cannot_be_written_is_said_once(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is no reason for not writing the ledger (P8)."""
    mark_file(path).mkdir()
    keeper = MarkKeeper(path)
    keeper.put(MARK)
    keeper.put(MARK)
    (record,) = caplog.records
    assert "cannot be written" in record.message
    assert read_mark(path) is None
    mark_file(path).rmdir()
    keeper.put(MARK)
    assert read_mark(path) == MARK
