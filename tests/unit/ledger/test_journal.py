"""The journal's file: whole records or none, in order, on a disk without room."""

from __future__ import annotations

import errno
import os
import stat
import struct
import subprocess
import zlib
from collections.abc import Iterator
from contextlib import closing, nullcontext, suppress
from pathlib import Path

import pytest

from crond_py.errors import LedgerError
from crond_py.ledger import journal as journal_module
from crond_py.ledger.journal import BEGIN, Journal
from tests.support.ledgers import T0

CONTENTS = [b"first", b"", b"x" * 5000, b"\x00\xff" * 9]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Give where the journal of the test is, or will be."""
    return tmp_path / "ledger.journal"


@pytest.fixture
def journal(file: Path) -> Iterator[Journal]:
    """Give a journal that has been begun for the ledger abcd0123."""
    with closing(Journal.open(file)) as journal:
        journal.begin("abcd0123")
        yield journal


def _found(file: Path) -> list[tuple[int, bytes]]:
    with closing(Journal.open(file)) as journal:
        return [(record.number, record.content) for record in journal.records()]


def _append(journal: Journal, first: int, *contents: bytes) -> None:
    for number, content in enumerate(contents, first):
        journal.append(number, content, durable=number % 2 == 0)


def test_records_come_back_in_order(journal: Journal, file: Path) -> None:
    """What was written is there for the next process, byte for byte, with its number (P1)."""
    _append(journal, 7, *CONTENTS)
    assert _found(file) == list(enumerate(CONTENTS, 7))
    with closing(Journal.open(file)) as other:
        assert other.identity == "abcd0123"


def test_it_is_its_owners(file: Path) -> None:
    """Nobody else may read it, whatever the umask (P9)."""
    umask = os.umask(0)
    try:
        Journal.open(file).close()
    finally:
        os.umask(umask)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_torn_record_ends_it(journal: Journal, file: Path) -> None:
    """Wherever a crash cuts the last record, it is not there, and those before it are (P1)."""
    _append(journal, 1, b"whole", b"also whole")
    end = sum(20 + len(content) for content in (b"whole", b"also whole"))
    size = BEGIN + end
    before = file.read_bytes()[:size]
    _append(journal, 3, b"torn apart")
    whole = file.read_bytes()[: size + 20 + len(b"torn apart")]
    for cut in range(len(before), len(whole)):
        # What was not written is what was there before: nothing, or something old.
        for rest in (b"", bytes(len(whole) - cut), b"\xa5" * (len(whole) - cut)):
            file.write_bytes(whole[:cut] + rest)
            assert [number for number, _ in _found(file)] == [1, 2]


def test_a_flipped_bit_ends_it(journal: Journal, file: Path) -> None:
    """A record that is not as it was written is none."""
    _append(journal, 1, b"whole", b"damaged", b"behind it")
    content = bytearray(file.read_bytes())
    for place in range(BEGIN + 20 + 5, BEGIN + 20 + 5 + 20 + 7):
        for bit in (1, 128):
            content[place] ^= bit
            file.write_bytes(content)
            assert [number for number, _ in _found(file)] == [1]
            content[place] ^= bit


def test_old_records_behind_new_ones_are_none(journal: Journal, file: Path) -> None:
    """After the beginning was written again, what is left of before does not come again (P2)."""
    _append(journal, 1, b"aaaaa", b"bbbbb", b"ccccc")
    journal.clear()
    assert _found(file) == []
    _append(journal, 4, b"ddddd")
    assert _found(file) == [(4, b"ddddd")]


def test_old_records_do_not_come_again_with_their_numbers(journal: Journal, file: Path) -> None:
    """Where a ledger was put back from a copy its numbers come again, its old records not (P2)."""
    _append(journal, 1, b"a" * 600, b"b" * 600, b"c" * 600)
    for begun in (journal, Journal.open(file)):
        with closing(begun):
            begun.clear()
            begun.begin("abcd0123")
            assert _found(file) == []
            _append(begun, 1, b"A" * 600)
            assert _found(file) == [(1, b"A" * 600)]


def test_an_older_pycrons_journal_has_no_salt(file: Path) -> None:
    """What a pycron has left that knew no salt is read, and ends with the next beginning (P1)."""
    content = b"what it left"
    checksum = zlib.crc32(content, zlib.crc32((7).to_bytes(8, "little")))
    record = struct.pack("<4sQII", b"PYJ1", 7, len(content), checksum) + content
    file.write_bytes(b"pycron journal 1\nabcd0123\n".ljust(BEGIN, b"\0") + record)
    assert _found(file) == [(7, content)]
    with closing(Journal.open(file)) as journal:
        list(journal.records())
        journal.append(8, b"and more", durable=True)
        assert _found(file) == [(7, content), (8, b"and more")]
        journal.begin("abcd0123")
    assert _found(file) == []


def test_what_failed_is_not_there(
    journal: Journal, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record that could not be made durable is gone, and the next takes its place (P8)."""
    _append(journal, 1, b"one")

    def fail(_descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(LedgerError, match="cannot be written: Input/output error"):
            journal.append(2, b"two", durable=True)
    assert _found(file) == [(1, b"one")]
    _append(journal, 2, b"other")
    assert _found(file) == [(1, b"one"), (2, b"other")]


@pytest.mark.parametrize("call", ["pwrite", "fdatasync"])
def test_under_no_title_it_takes_nothing(
    journal: Journal, file: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """A beginning that failed may have left the old title, the new one, or half of it (P1)."""

    def fail(*_arguments: object) -> int:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(LedgerError, match="cannot be begun: Input/output error"):
            journal.begin("00000000")
    assert journal.identity == ""
    with pytest.raises(LedgerError, match="has not been begun"):
        journal.append(1, b"x", durable=True)
    journal.begin("00000000")
    _append(journal, 1, b"x")
    assert _found(file) == [(1, b"x")]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO])
def test_it_has_its_title_without_room(
    file: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Where the disk sets none aside, by a quota or a limit, it takes what there is later (P8)."""

    def fail(_descriptor: int, _offset: int, _size: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "posix_fallocate", fail)
    with closing(Journal.open(file)) as journal:
        with suppress(LedgerError) if number == errno.EIO else nullcontext():
            journal.begin("abcd0123")
        assert journal.identity == "abcd0123"
        _append(journal, 1, b"x")
    assert _found(file) == [(1, b"x")]


def test_it_has_a_largest_size(
    journal: Journal, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It grows so far and no further, and says that it is full."""
    monkeypatch.setattr(journal_module, "LARGEST_BYTES", 10_000)
    _append(journal, 1, b"x" * 9000)
    with pytest.raises(LedgerError, match=r"ledger\.journal is full"):
        journal.append(2, b"x" * 1000, durable=True)
    _append(journal, 2, b"small")
    assert [number for number, _ in _found(file)] == [1, 2]


def test_one_that_was_deleted_takes_nothing(journal: Journal, file: Path) -> None:
    """What nobody would find again is not written."""
    file.unlink()
    with pytest.raises(LedgerError, match="was deleted or replaced"):
        journal.append(1, b"x", durable=True)
    journal.renew()
    journal.begin("abcd0123")
    _append(journal, 1, b"x")
    assert _found(file) == [(1, b"x")]


def test_another_ledgers_is_set_aside(journal: Journal, file: Path) -> None:
    """It is kept whole under another name, and a new one takes its place."""
    _append(journal, 1, b"theirs")
    aside = journal.set_aside(T0)
    journal.begin("00000000")
    assert _found(aside) == [(1, b"theirs")]
    assert _found(file) == []


@pytest.mark.parametrize(
    "content", [b"", b"junk", b"junk\n" * 1000, b"pycron journal 1\n\x00\xff" * 99]
)
def test_junk_is_an_empty_journal(file: Path, content: bytes) -> None:
    """What is no journal has no records and no name, and becomes one."""
    file.write_bytes(content)
    with closing(Journal.open(file)) as journal:
        assert journal.identity == ""
        assert list(journal.records()) == []
        journal.begin("abcd0123")
        _append(journal, 1, b"x")
    assert _found(file) == [(1, b"x")]


@pytest.mark.parametrize("kind", ["fifo", "link", "directory"])
def test_what_is_no_file_is_refused(file: Path, kind: str) -> None:
    """A FIFO, a link or a directory of that name is told, and neither waited for nor followed."""
    match kind:
        case "fifo":
            os.mkfifo(file)
        case "link":
            file.symlink_to("elsewhere")
        case _:
            file.mkdir()
    with pytest.raises(LedgerError, match=r"the journal .*ledger\.journal cannot be"):
        Journal.open(file)


# --- room -----------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Give a disk of two megabytes."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("may not mount a small disk")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def _fill(disk: Path) -> None:
    with (disk / "filler").open("wb", buffering=0) as filler:
        for size in (65536, 4096):
            try:
                while True:
                    filler.write(bytes(size))
            except OSError:
                continue


def test_it_can_be_written_without_room(disk: Path) -> None:
    """Its room is its own: on a full disk it takes as much as it has, and then says so (P8)."""
    with closing(Journal.open(disk / "j")) as journal:
        journal.begin("abcd0123")
        room = (disk / "j").stat().st_size
        assert 128 * 1024 < room < 512 * 1024, "a part of what there is"
        _fill(disk)
        written = 0
        with pytest.raises(LedgerError, match="No space left on device"):  # noqa: PT012 - which?
            while True:
                journal.append(written + 1, b"x" * 1000, durable=True)
                written += 1
        assert written * 1020 > room - 8192
    assert len(_found(disk / "j")) == written


def test_it_begins_without_room(disk: Path) -> None:
    """On a disk that is full already it has none of its own; with room it can be written (P8)."""
    _fill(disk)
    with closing(Journal.open(disk / "j")) as journal:
        with pytest.raises(LedgerError, match="cannot be begun: No space left on device"):
            journal.begin("abcd0123")
        with pytest.raises(LedgerError, match="has not been begun"):
            journal.append(1, b"whose?", durable=True)
        (disk / "filler").unlink()
        journal.begin("abcd0123")
        _append(journal, 1, b"x")
    assert _found(disk / "j") == [(1, b"x")]
