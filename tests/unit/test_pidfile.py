"""The pid file: written whole, removed at the end, and never believed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from crond_py.errors import PycronError
from crond_py.pidfile import PidFile


@pytest.mark.parametrize("before", [None, "", "abc", "1", "PARENT\n", "9" * 1000])
def test_whatever_is_in_it_is_replaced(tmp_path: Path, before: str | None) -> None:
    """P2 is the lock's business: a file left by a crash, or junk, keeps no daemon from starting."""
    file = tmp_path / "pid"
    if before is not None:
        file.write_text(before.replace("PARENT", str(os.getppid())))
    with PidFile(file):
        assert file.read_text() == f"{os.getpid()}\n"
        assert file.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """P9: who may write in the directory cannot have another file overwritten."""
    target, file = tmp_path / "target", tmp_path / "pid"
    target.write_text("precious")
    file.symlink_to(target)
    with PidFile(file):
        assert not file.is_symlink()
    assert target.read_text() == "precious"


@pytest.mark.parametrize("now", ["1\n", None])
def test_another_one_s_file_is_left_alone(tmp_path: Path, now: str | None) -> None:
    """A file that names another process by now, or is gone, is no business of this one."""
    file = tmp_path / "pid"
    with PidFile(file):
        file.unlink()
        if now is not None:
            file.write_text(now)
    assert (file.read_text() if file.exists() else None) == now


def test_a_place_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    """The error names the file, the reason and the option; nothing is left behind."""
    file = tmp_path / "pid"
    file.mkdir()
    words = re.escape(f"the pid file {file} cannot be written: ") + ".*--pid-file"
    with pytest.raises(PycronError, match=words), PidFile(file):
        pytest.fail("there is no such file")
    assert list(tmp_path.iterdir()) == [file]
