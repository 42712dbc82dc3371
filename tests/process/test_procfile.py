"""Files of /proc are read whole, and what is small takes little."""

from __future__ import annotations

import os
import subprocess
from subprocess import PIPE

import pytest

from crond_py.errors import PycronError
from crond_py.runner import procfile


@pytest.mark.parametrize("values", [[0], [2044], [2045], [4093], [4094], [100_000], [120_000] * 3])
def test_an_environment_of_any_size(values: list[int]) -> None:
    """Nothing is missing, wherever a piece ends."""
    env = {f"V{number}": "x" * size for number, size in enumerate(values)}
    with subprocess.Popen(["/bin/cat"], stdin=PIPE, stdout=PIPE, env=env) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()  # it is past its exec, in the midst of which there is none
        data = procfile.read(f"/proc/{process.pid}/environ")
    assert data == b"".join(f"{name}={value}\0".encode() for name, value in env.items())


@pytest.mark.parametrize("name", ["stat", "status", "limits", "comm"])
def test_what_is_small_takes_a_small_block(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: the heap is left as it was: each read begins as a block of what is asked for.

    Blocks of 128 KiB, of which a few hundred bytes are kept, have the heap of a busy daemon grow by
    megabytes that it does not use.
    """
    asked = []
    read = os.read

    def note(descriptor: int, most: int) -> bytes:
        asked.append(most)
        return read(descriptor, most)

    monkeypatch.setattr(os, "read", note)
    assert procfile.read(f"/proc/{os.getpid()}/{name}")
    assert max(asked) <= 4096


def test_what_is_gone() -> None:
    """It is told from a reader that is short of something by None."""
    assert procfile.read("/proc/0/stat") is None


def test_without_proc_nothing_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """P8: else every process would pass for gone."""
    procfile.check_mounted()
    monkeypatch.setattr(procfile, "read", lambda _path: None)
    with pytest.raises(PycronError, match="there is no /proc"):
        procfile.check_mounted()
