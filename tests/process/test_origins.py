"""What is known of an orphan that had ended when it was met, and of a run that is over (P6)."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator

import pytest

from crond_py.ports import AttemptKey
from crond_py.runner import orphans as orphans_module
from crond_py.runner.brand import BRANDING
from crond_py.runner.child import Child
from crond_py.runner.marks import brand_for
from crond_py.runner.orphans import Orphans
from crond_py.runner.proctree import Snapshot

_RLIMIT_LOCKS = 10


def _job(pid: int, number: int, started: int = 0) -> Child:
    return Child(
        AttemptKey(number, 1), f"x-{number}", pid, start_ticks=started, pidfd=None, is_own=True
    )


class Bench:
    """Two runs that go on, what other tests have left, and what is known of orphans."""

    def __init__(self) -> None:
        others = [_job(each.pid, 1000 + each.pid, 1 << 60) for each in Orphans(list).look()]
        self.first, self.second = _job(1 << 22, 1), _job(1 << 22 | 1, 2)
        self.table = [self.first, self.second, *others]
        self.orphans = Orphans(lambda: self.table)
        self._living: list[int] = []

    def leave(self, brand: int | None = None) -> int:
        """Return the pid of what has come to us and lives."""
        before = resource.getrlimit(_RLIMIT_LOCKS)
        if brand is not None:
            resource.setrlimit(_RLIMIT_LOCKS, (brand, before[1]))
        try:
            pid = os.posix_spawn("/bin/sleep", ["sleep", "999"], {})
        finally:
            resource.setrlimit(_RLIMIT_LOCKS, before)
        self._living.append(pid)
        return pid

    def kill(self, pid: int) -> None:
        """Have one end, and not be reaped."""
        self._living.remove(pid)
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)

    def left_by(self, child: Child) -> int:
        """Return the same of what has ended with a run's brand before it was met."""
        pid = self.leave(brand_for(child.tag, child.key.number))
        self.kill(pid)
        return pid

    def end(self, child: Child, *, is_cancelled: bool) -> None:
        """Have a run be over."""
        if is_cancelled:
            child.stop = signal.SIGKILL
        self.table.remove(child)
        if is_cancelled:
            self.orphans.is_done_with(child.key)

    def ends_with(self, child: Child, pid: int) -> bool:
        """Return whether an orphan is ended with a run, and not told of as a stray."""
        child.stop = signal.SIGKILL
        found = self.orphans.of(child)
        strays = self.orphans.strays_of(child)
        assert (pid in found) is (pid not in strays)
        return pid in found

    def clean_up(self) -> None:
        """Let nothing of the test live on."""
        for pid in self._living:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    """Give two runs, whose brands are sure, whatever a test before has done."""
    monkeypatch.setattr(BRANDING, "_has_lost_turns", False)
    made = Bench()
    yield made
    made.clean_up()


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_what_had_ended_hands_on_whose_it_was(bench: Bench, is_cancelled: bool) -> None:
    """What it has left is of its run or of another; if all of these were ended, it is to end."""
    bench.left_by(bench.first)
    assert bench.orphans.look() == []
    bench.end(bench.first, is_cancelled=is_cancelled)
    pid = bench.leave()
    bench.orphans.look()
    assert bench.ends_with(bench.second, pid) is is_cancelled


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_what_lives_hands_on_whose_it_is(bench: Bench, is_cancelled: bool) -> None:
    """Likewise where that was met while it lived, and is known to be of the one run."""
    parent = bench.leave(brand_for(bench.first.tag, 1))
    bench.orphans.look()
    assert list(bench.orphans.of(bench.first)) == [parent]
    bench.end(bench.first, is_cancelled=is_cancelled)
    pid = bench.leave()
    bench.orphans.look()
    assert bench.ends_with(bench.second, pid) is is_cancelled


def test_what_had_ended_is_of_its_own_run_only(bench: Bench) -> None:
    """What it has left can be of that, or of one that goes on, but of no third one."""
    bench.left_by(bench.first)
    bench.orphans.look()
    bench.end(bench.second, is_cancelled=False)
    pid = bench.leave()
    bench.orphans.look()
    assert not bench.orphans.may_have(bench.second.key)
    assert bench.ends_with(bench.first, pid)


def test_a_brand_that_may_be_another_starts_tells_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has ended cannot show any more what it was given, so it may be of the other run."""
    monkeypatch.setattr(BRANDING, "_has_lost_turns", True)
    bench.left_by(bench.second)
    bench.orphans.look()
    bench.end(bench.first, is_cancelled=False)
    pid = bench.leave()
    bench.orphans.look()
    assert bench.orphans.may_have(bench.first.key)
    assert not bench.ends_with(bench.second, pid)


@pytest.mark.parametrize("by", ["fast", "sure"])
def test_what_is_hunted_hands_on_whose_it_was(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """What it has left is not for the next run only, however sure we were of whose it was."""
    monkeypatch.setattr(BRANDING, "_has_lost_turns", by == "sure")
    bench.left_by(bench.first)
    bench.first.stop = signal.SIGKILL
    assert bench.orphans.hunt(bench.first, {}, kill=True).has_ended
    bench.table.remove(bench.first)
    bench.leave()
    bench.orphans.look()
    assert bench.orphans.may_have(bench.first.key)


def test_what_cannot_be_read_is_not_reaped(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else nothing would tell, after a shortage, that there may be what it has left."""
    bench.left_by(bench.first)
    with monkeypatch.context() as patch:

        def refuse(_pid: int) -> int:
            raise OSError(24, "planted")

        patch.setattr(orphans_module, "read_brand", refuse)
        with pytest.raises(OSError, match="planted"):
            bench.orphans.look()
    bench.orphans.look()
    assert bench.orphans.want_another_look
    pid = bench.leave()
    bench.end(bench.first, is_cancelled=False)
    bench.orphans.look()
    assert bench.orphans.may_have(bench.first.key)
    assert not bench.ends_with(bench.second, pid)


def test_what_ends_under_watch_wants_another_look(bench: Bench) -> None:
    """What it has left may come after the look that has reaped it."""
    pid = bench.leave()
    bench.orphans.look()
    bench.orphans.look()
    assert not bench.orphans.want_another_look
    bench.kill(pid)
    bench.orphans.look()
    assert bench.orphans.want_another_look
    bench.orphans.look()
    assert not bench.orphans.want_another_look


@pytest.mark.parametrize("is_alive", [True, False], ids=["living", "ended"])
def test_a_look_asks_once_for_what_all_runs_have_in_common(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_alive: bool
) -> None:
    """P4: every start waits for it, however many runs go on and however many orphans have come."""
    asked: list[str] = []
    read: list[int] = []

    class Counted(Child):
        def __getattribute__(self, name: str) -> object:
            if name == "tag":
                asked.append(name)
            return super().__getattribute__(name)

    for number in range(100, 130):
        bench.table.append(
            Counted(
                AttemptKey(number, 1),
                f"x-{number}",
                1 << 23,
                start_ticks=0,
                pidfd=None,
                is_own=True,
            )
        )
    _note_reads(monkeypatch, read)
    asked.clear()
    for _ in range(10):
        if is_alive:
            bench.leave(brand_for("x-1", 1))
        else:
            bench.left_by(bench.first)
    bench.orphans.look()
    assert len(asked) == (0 if is_alive else 30)
    assert len(read) == (0 if is_alive else 10)


def _note_reads(monkeypatch: pytest.MonkeyPatch, read: list[int]) -> None:
    real: Callable[[int], int | None] = orphans_module.read_brand

    def note(pid: int) -> int | None:
        read.append(pid)
        return real(pid)

    monkeypatch.setattr(orphans_module, "read_brand", note)


def test_whose_the_parents_were_is_told_without_a_brand(bench: Bench) -> None:
    """What was in the latest picture as somebody's child is known though it shows nothing."""
    pid = bench.leave()
    picture = Snapshot.take()
    process = picture.processes[pid]._replace(parent=bench.first.pid)
    leader = process._replace(pid=bench.first.pid, parent=1, start_ticks=0)
    bench.orphans._lineage.note(
        Snapshot({pid: process, leader.pid: leader}), {leader.pid: (0, bench.first.key)}
    )
    bench.kill(pid)
    bench.orphans.look()
    bench.end(bench.second, is_cancelled=False)
    left = bench.leave()
    bench.orphans.look()
    assert not bench.orphans.may_have(bench.second.key)
    assert bench.ends_with(bench.first, left)
