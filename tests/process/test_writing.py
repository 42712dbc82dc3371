"""Writing to a descriptor: all of it, also where the kernel takes a part at a time."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from crond_py.runner.writing import hold, write_all


@pytest.fixture
def _short_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the kernel take three bytes at a time, as it may."""
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:3]))


@pytest.mark.usefixtures("_short_writes")
@pytest.mark.parametrize("data", [b"", b"abc", b"abcdefgh"])
def test_all_is_written(tmp_path: Path, data: bytes) -> None:
    """However many calls it takes."""
    with (tmp_path / "file").open("wb") as file:
        write_all(file.fileno(), data)
    assert (tmp_path / "file").read_bytes() == data


@pytest.mark.usefixtures("_short_writes")
def test_what_is_held_in_memory_is_read_from_its_beginning() -> None:
    """It has the name that it was given, and no process gets it that it is not handed to."""
    descriptor = hold(b"abcdefgh", "pycron-test")
    with os.fdopen(descriptor, "rb") as file:
        assert "pycron-test" in Path(f"/proc/self/fd/{descriptor}").readlink().name
        assert not os.get_inheritable(descriptor)
        assert file.read() == b"abcdefgh"


def test_what_cannot_be_held_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: a system without memory costs a start and no descriptor."""

    def full(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = len([*Path("/proc/self/fd").iterdir()])
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        hold(b"abc", "pycron-test")
    assert len([*Path("/proc/self/fd").iterdir()]) == before
