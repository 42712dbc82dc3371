"""The lock on the state directory: one daemon at a time, and nobody in the way of the next."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from crond_py.errors import LedgerError, StateLockedError
from crond_py.ledger.lock import StateLock
from tests.support.ledgers import T0
from tests.unit.ledger.conftest import StartProgram

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")


@pytest.fixture
def lock(tmp_path: Path) -> Iterator[StateLock]:
    """Give a lock on the directory "state" of the test."""
    lock = StateLock(tmp_path / "state")
    yield lock
    lock.release()


def _file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "pycron.lock"


def _say(child: subprocess.Popen[str], line: str) -> str:
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(line)
    child.stdin.flush()
    return child.stdout.readline()


# --- one at a time ------------------------------------------------------------------------------


def test_second_is_refused_and_told_who_is_first(tmp_path: Path, lock: StateLock) -> None:
    """A second daemon is refused with the pid of the first and two ways out (P2)."""
    lock.acquire(T0)
    second = StateLock(tmp_path / "state")
    with pytest.raises(StateLockedError) as caught:
        second.acquire(T0)
    assert caught.value.pid == os.getpid()
    assert str(caught.value) == (
        f"another pycron (pid {os.getpid()}) runs on this state directory ({tmp_path}/state); "
        "stop it, or use another --state-dir"
    )


def test_next_may_have_it_after_release(tmp_path: Path, lock: StateLock) -> None:
    """A lock that was given back is free, and giving it back twice is fine."""
    lock.acquire(T0)
    lock.release()
    lock.release()
    second = StateLock(tmp_path / "state")
    second.acquire(T0)
    with pytest.raises(StateLockedError):
        lock.acquire(T0)
    second.release()


def test_holder_may_ask_again(lock: StateLock) -> None:
    """Acquiring what is held changes nothing."""
    lock.acquire(T0)
    lock.acquire(T0)


def test_release_without_acquire(lock: StateLock) -> None:
    """Giving back what was never taken is fine."""
    lock.release()


def test_other_directory_is_another_lock(tmp_path: Path, lock: StateLock) -> None:
    """Daemons on different state directories do not meet."""
    lock.acquire(T0)
    other = StateLock(tmp_path / "other")
    other.acquire(T0)
    other.release()


def test_file_says_who_holds_it(tmp_path: Path, lock: StateLock) -> None:
    """The file has the pid and the start, for people, and is private (P9)."""
    umask = os.umask(0)
    try:
        lock.acquire(T0)
    finally:
        os.umask(umask)
    assert _file(tmp_path).read_text() == f"{os.getpid()}\nstarted 2026-03-29T01:00:00+00:00\n"
    assert stat.S_IMODE(_file(tmp_path).stat().st_mode) == 0o600


def test_exactly_one_of_many_wins(tmp_path: Path, start_program: StartProgram) -> None:
    """Of several daemons that start at once one gets the lock, the others its pid (P2)."""
    for turn in range(3):
        children = [start_program("lock_state.py", tmp_path / f"{turn}") for _ in range(6)]
        for child in children:
            assert child.stdin is not None
            child.stdin.write("go\n")
            child.stdin.flush()
        said = {child.pid: child.stdout.readline() for child in children if child.stdout}
        winners = [pid for pid, line in said.items() if line == "held\n"]
        assert len(winners) == 1
        # A loser may look before the winner has written who it is.
        assert set(said.values()) <= {"held\n", f"refused {winners[0]}\n", "refused 0\n"}
        for child in children:
            child.communicate("")


def test_killed_holder_is_in_nobodys_way(tmp_path: Path, start_program: StartProgram) -> None:
    """After kill -9 the next daemon starts, though the file still names the dead one (P8)."""
    first = start_program("lock_state.py", tmp_path / "state")
    assert _say(first, "go\n") == "held\n"
    first.kill()
    first.wait()
    assert _file(tmp_path).read_text().startswith(f"{first.pid}\n")
    second = start_program("lock_state.py", tmp_path / "state")
    assert _say(second, "go\n") == "held\n"


def test_stopped_holder_still_holds(tmp_path: Path, start_program: StartProgram) -> None:
    """A frozen daemon keeps its lock: it will go on where it was (P2)."""
    first = start_program("lock_state.py", tmp_path / "state")
    assert _say(first, "go\n") == "held\n"
    os.kill(first.pid, signal.SIGSTOP)
    second = start_program("lock_state.py", tmp_path / "state")
    assert _say(second, "go\n") == f"refused {first.pid}\n"


def test_children_do_not_inherit_it(tmp_path: Path, lock: StateLock) -> None:
    """A job that outlives the daemon does not keep the next daemon out (P8)."""
    lock.acquire(T0)
    with subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        close_fds=False,
    ) as job:
        assert job.stdout is not None
        job.stdout.readline()
        lock.release()
        StateLock(tmp_path / "state").acquire(T0)
        job.communicate(b"\n")


def test_a_deleted_file_is_made_again(tmp_path: Path, lock: StateLock) -> None:
    """The holder keeps the lock though its file, or the directory, was deleted (P2)."""
    lock.acquire(T0)
    assert not lock.keep(T0)
    for delete in (_file(tmp_path).unlink, lambda: shutil.rmtree(tmp_path / "state")):
        delete()
        assert lock.keep(T0)
        assert _file(tmp_path).read_text().startswith(f"{os.getpid()}\n")
        with pytest.raises(StateLockedError):
            StateLock(tmp_path / "state").acquire(T0)


def test_a_deleted_file_lets_nobody_in(tmp_path: Path, lock: StateLock) -> None:
    """While the file is gone the directory's own lock keeps the others out (P2)."""
    lock.acquire(T0)
    _file(tmp_path).unlink()
    for _ in range(2):
        with pytest.raises(StateLockedError, match=r"^another pycron runs on"):
            StateLock(tmp_path / "state").acquire(T0)
        assert not _file(tmp_path).exists()
    assert lock.keep(T0)
    lock.release()
    second = StateLock(tmp_path / "state")
    second.acquire(T0)
    second.release()


def test_a_directory_that_cannot_be_locked(
    tmp_path: Path, lock: StateLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a file system that locks files only the file's lock is enough (P2)."""
    original = fcntl.flock

    def flock(descriptor: int, operation: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        original(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    lock.acquire(T0)
    with pytest.raises(StateLockedError) as caught:
        StateLock(tmp_path / "state").acquire(T0)
    assert caught.value.pid == os.getpid()
    _file(tmp_path).unlink()
    assert lock.keep(T0)


def test_who_was_not_quick_enough_is_told(tmp_path: Path, lock: StateLock) -> None:
    """Whoever took the lock after all was deleted has it, for as long as it lives (P2)."""
    lock.acquire(T0)
    shutil.rmtree(tmp_path / "state")
    second = StateLock(tmp_path / "state")
    second.acquire(T0)
    for _ in range(2):
        with pytest.raises(StateLockedError):
            lock.keep(T0)
    second.release()
    assert lock.keep(T0)


def test_a_directory_that_became_a_file(tmp_path: Path, lock: StateLock) -> None:
    """Where nobody can say whether the file is there that is an error with the way out (P8)."""
    lock.acquire(T0)
    shutil.rmtree(tmp_path / "state")
    (tmp_path / "state").touch()
    with pytest.raises(LedgerError, match=r"pycron\.lock cannot be looked at: Not a directory"):
        lock.keep(T0)


# --- what lies there already ----------------------------------------------------------------------


LIVING = os.getppid()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"1\n",
        b"abc",
        b"0\n",
        b"-1\n",
        f"{LIVING}\nstarted 2020-01-01T00:00:00Z\n".encode(),
        b"99999999999999999999999999999\n",
        b"\0" * 100,
        os.urandom(4000),
        b"4194304\n" * 1000,
    ],
)
def test_content_decides_nothing(tmp_path: Path, lock: StateLock, content: bytes) -> None:
    """Whatever an old file says, a living pid or junk, the daemon starts and says its own (P8)."""
    _file(tmp_path).parent.mkdir()
    _file(tmp_path).write_bytes(content)
    lock.acquire(T0)
    assert _file(tmp_path).read_text().splitlines()[0] == str(os.getpid())


@pytest.mark.parametrize(
    ("content", "pid"),
    [
        (b"", None),
        (b"\n", None),
        (b"junk\n", None),
        (b"123", None),  # cut short: it may have been 1234
        (b"123\n", 123),
        (b"123\nstarted", 123),
        (b"0\n", None),
        (b"-5\n", None),
        (b"123456789012345678901234567890\n", None),
        (b"\xff\xfe\n", None),
    ],
)
def test_holder_that_cannot_be_read(
    tmp_path: Path, lock: StateLock, content: bytes, pid: int | None
) -> None:
    """Who holds the lock is told where the file says it whole, and is unknown otherwise."""
    lock.acquire(T0)
    _file(tmp_path).write_bytes(content)
    with pytest.raises(StateLockedError, match=r"^another pycron") as caught:
        StateLock(tmp_path / "state").acquire(T0)
    assert caught.value.pid == pid
    assert ("(pid" in str(caught.value)) == (pid is not None)


def test_replaced_file_is_noticed(
    tmp_path: Path, lock: StateLock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is removed between opening and locking is not the one that counts (P2)."""
    original = fcntl.flock
    calls = []

    def flock(descriptor: int, operation: int) -> None:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            if not calls:
                _file(tmp_path).unlink()
            calls.append(descriptor)
        original(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    lock.acquire(T0)
    monkeypatch.undo()
    assert len(calls) == 2
    with pytest.raises(StateLockedError):
        StateLock(tmp_path / "state").acquire(T0)


# --- the directory ------------------------------------------------------------------------------


def test_missing_directory_is_made_private(tmp_path: Path) -> None:
    """The state directory and its parents are made for their owner alone (P9)."""
    umask = os.umask(0)
    try:
        lock = StateLock(tmp_path / "a" / "b" / "state")
        lock.acquire(T0)
        lock.release()
    finally:
        os.umask(umask)
    for made in ("a", "a/b", "a/b/state"):
        assert stat.S_IMODE((tmp_path / made).stat().st_mode) == 0o700


def test_present_directory_stays_as_it_is(tmp_path: Path, lock: StateLock) -> None:
    """A directory that is there keeps the permissions that it was given."""
    (tmp_path / "state").mkdir(mode=0o750)
    lock.acquire(T0)
    assert stat.S_IMODE((tmp_path / "state").stat().st_mode) == 0o750


def _as_file(state: Path) -> None:
    state.touch()


def _below_a_file(state: Path) -> None:
    state.parent.rmdir()
    state.parent.touch()


def _dangling(state: Path) -> None:
    state.symlink_to("nowhere")


@pytest.mark.parametrize(
    ("arrange", "why"),
    [
        (_as_file, "Not a directory"),
        (_below_a_file, "Not a directory"),
        (_dangling, "Not a directory"),
    ],
)
def test_path_that_is_no_directory(
    tmp_path: Path, arrange: Callable[[Path], None], why: str
) -> None:
    """A state path that is something else is an error with the path and the way out."""
    (tmp_path / "parent").mkdir()
    state = tmp_path / "parent" / "state"
    arrange(state)
    with pytest.raises(LedgerError, match=f"{state} cannot be used: {why}; use another"):
        StateLock(state).acquire(T0)


def test_linked_directory_is_fine(tmp_path: Path) -> None:
    """The state directory may be a link to another disk."""
    (tmp_path / "disk").mkdir()
    (tmp_path / "state").symlink_to("disk")
    lock = StateLock(tmp_path / "state")
    lock.acquire(T0)
    lock.release()
    assert (tmp_path / "disk" / "pycron.lock").exists()


def test_linked_lock_file_is_refused(tmp_path: Path, lock: StateLock) -> None:
    """A link in the lock file's place is not followed: it might make us write anywhere (P9)."""
    (tmp_path / "state").mkdir()
    victim = tmp_path / "victim"
    victim.write_text("precious")
    _file(tmp_path).symlink_to(victim)
    with pytest.raises(LedgerError, match=r"pycron\.lock cannot be opened"):
        lock.acquire(T0)
    assert victim.read_text() == "precious"


def test_directory_as_lock_file_is_refused(tmp_path: Path, lock: StateLock) -> None:
    """A directory in the lock file's place is an error."""
    _file(tmp_path).mkdir(parents=True)
    with pytest.raises(LedgerError, match=r"pycron\.lock cannot be opened: Is a directory"):
        lock.acquire(T0)


@needs_root
def test_directory_without_the_right_to_write() -> None:
    """Where this user may not write, that is said, with the way out."""
    with tempfile.TemporaryDirectory(prefix="pycron-test-") as name:
        Path(name).chmod(0o755)
        os.seteuid(65534)
        try:
            with pytest.raises(LedgerError, match="cannot be opened: Permission denied; give"):
                StateLock(Path(name)).acquire(T0)
            with pytest.raises(LedgerError, match="cannot be used: Permission denied; use"):
                StateLock(Path(name) / "state").acquire(T0)
        finally:
            os.seteuid(0)
        assert list(Path(name).iterdir()) == []


# --- the system's limits ------------------------------------------------------------------------


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL])
def test_file_system_without_locks(
    lock: StateLock, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """A file system that cannot lock is named as the cause, and no descriptor is left open."""
    left = []

    def flock(descriptor: int, operation: int) -> None:
        left.append(descriptor)
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(LedgerError, match="its file system has no locks; use another --state-dir"):
        lock.acquire(T0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(left[0])


def test_full_disk_keeps_nobody_from_starting(
    tmp_path: Path,
    lock: StateLock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Where the file cannot say who holds it the lock holds all the same, and it is logged (P8)."""

    def pwrite(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", pwrite)
    lock.acquire(T0)
    assert "cannot say who holds it" in caplog.text
    with pytest.raises(StateLockedError) as caught:
        StateLock(tmp_path / "state").acquire(T0)
    assert caught.value.pid is None
