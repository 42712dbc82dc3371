"""Trees that fork away from whoever looks for them: ended all the same, or else spoken of (P6)."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping

import pytest

from crond_py.clock import SystemClock
from crond_py.ports import AttemptKey
from crond_py.runner import ender as ender_module
from crond_py.runner import procfile, proctree
from crond_py.runner.brand import BRANDING
from crond_py.runner.child import Child
from crond_py.runner.ender import Ender
from crond_py.runner.leftovers import describe_doubts, describe_elusive
from crond_py.runner.marks import brand_for
from crond_py.runner.orphans import Hunt, Orphans, list_children
from crond_py.runner.proctree import Snapshot
from tests.process.conftest import PATIENCE_S, PROGRAMS, Harness, QuietWatch


@pytest.mark.parametrize("is_sure", [True, False], ids=["sure", "perhaps another's brand"])
def test_what_forks_away_from_every_look_is_ended(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch, is_sure: bool
) -> None:
    """When the end is told, nothing is left that could be our child or descend from one (P6)."""
    monkeypatch.setattr(BRANDING, "_has_lost_turns", not is_sure)
    before = set(list_children())
    ready = reaping.fifo("ready")
    hop = (sys.executable, "-S", str(PROGRAMS / "proc_hop.py"))
    key = reaping.start(hop, env={"READY": str(ready)})
    assert ready.read_text() == "up\n"
    reaping.runner.stop(key, force=True)
    assert reaping.ended(key).note == ""
    assert set(list_children()) <= before


def _start_bare(reaping: Harness) -> AttemptKey:
    """Start a run that shows no mark, and forks and ends again and again."""
    ready = reaping.fifo("ready")
    hop = f"{sys.executable} -S {PROGRAMS / 'proc_hop.py'}"
    # Not at once: what has a wrong brand when its start is over is given the right one.
    shed = "sleep 0.2; exec prlimit --locks=unlimited:unlimited env -i"
    key = reaping.start(f"{shed} READY={ready} {hop}", output=None)
    assert ready.read_text() == "up\n"
    leader = reaping.started(key).pid
    while not any(_is_off(pid, leader) for pid in list_children()):
        os.sched_yield()
    return key


def _is_off(pid: int, leader: int) -> bool:
    """Return whether a process is one that forks, and not in the group of its leader."""
    process = proctree.read_process(pid)
    if process is None or not proctree.name_of(pid).startswith("python"):
        return False
    return process.group not in {leader, os.getpgrp()}


def test_what_forks_away_and_shows_no_mark_is_ended(reaping: Harness) -> None:
    """Where it can be of no other run, it is ended with the only one it may be of (P6)."""
    before = set(list_children())
    key = _start_bare(reaping)
    reaping.runner.stop(key, force=True)
    assert reaping.ended(key).note == ""
    assert set(list_children()) <= before


def test_what_forks_away_and_may_be_of_another_run_is_spoken_of(reaping: Harness) -> None:
    """It is not ended, since that may be somebody else's; that all has ended is not said (P6)."""
    other = reaping.start(("sleep", "999"))
    reaping.started(other)
    key = _start_bare(reaping)
    reaping.runner.stop(key, force=True)
    assert "was left: nothing tells whether it came from this run" in reaping.ended(key).note
    assert reaping.told(other) == [reaping.started(other)], "the other one goes on"
    reaping.runner.stop(other, force=True)
    assert reaping.ended(other).note == "", "now it can be of no run that goes on"


@pytest.mark.parametrize("force", [True, False], ids=["kill", "gently"])
def test_what_a_run_has_left_is_not_ended_with_another(reaping: Harness, force: bool) -> None:
    """Its run has ended by itself and may leave it; no end of another waits for it (P4, P6)."""
    other = reaping.start(("sleep", "999"))
    reaping.started(other)
    key = _start_bare(reaping)
    leader = reaping.started(key).pid
    os.kill(leader, signal.SIGKILL)
    reaping.ended(key)
    reaping.runner.stop(other, force=force)
    assert "nothing tells whether it came from this run" in reaping.ended(other).note
    while not any(_is_off(pid, leader) for pid in list_children()):
        os.sched_yield()


class _Watch(QuietWatch):
    """A supervisor whose child has left what has gone on whenever it is hunted, so many times."""

    def __init__(self, hunts: int, *, has_doubts: bool = False) -> None:
        self.hunts = hunts
        self.has_doubts = has_doubts
        self.notes: list[str] = []

    def sees_orphans(self, child: Child) -> bool:
        return True

    def look_after_orphans(self, picture: Callable[[], Snapshot] | None = None) -> None:
        pass

    def hunt(self, child: Child, *, kill: bool) -> Hunt:
        assert kill is (child.stop is signal.SIGKILL)
        self.hunts -= 1
        return Hunt([], has_ended=self.hunts >= 0, has_doubts=self.has_doubts)

    def finish(self, child: Child, note: str, *, seen: signal.Signals | None) -> None:
        assert seen is child.stop
        self.notes.append(note)


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch) -> Child:
    """Give a child that has ended, and of which no look finds anything."""
    monkeypatch.setattr(Snapshot, "take", lambda: Snapshot({}))
    child = Child(AttemptKey(1, 1), "k-1", 0, start_ticks=None, pidfd=None, is_own=False)
    child.has_ended = True
    return child


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_what_has_just_ended_is_not_worth_a_word(gone: Child, number: signal.Signals) -> None:
    """Where the last of a tree is found as it ends, the end is told at once (P6)."""
    gone.stop = gone.sent = number
    watch = _Watch(hunts=2)
    Ender(watch, SystemClock())._look_at_all([gone])
    assert watch.notes == [""]


def test_what_is_never_caught_is_spoken_of(gone: Child) -> None:
    """No end is told while SIGKILL is to come; after it there are some more tries (P6)."""
    watch = _Watch(hunts=1 << 30)
    ender = Ender(watch, SystemClock())
    gone.stop = gone.sent = signal.SIGTERM
    for _ in range(ender_module._MOST_HUNTS + 1):
        assert ender._look_at_all([gone]) == []
        assert list(ender._unseen) == [gone], "it is looked at again in a while"
        ender._unseen.clear()
    gone.stop = gone.sent = signal.SIGKILL
    for _ in range(ender_module._MOST_HUNTS):
        assert watch.notes == []
        ender._look_at_all([gone])
    assert watch.notes == ["some of it forks faster than it can be ended, and may run on"]


@pytest.mark.parametrize("has_gaps", [False, True], ids=["whole", "with gaps"])
def test_what_may_be_of_another_run_has_a_look_of_its_own(
    gone: Child, monkeypatch: pytest.MonkeyPatch, has_gaps: bool
) -> None:
    """Once with each signal, and whatever else there has been another look for (P4, P6)."""
    monkeypatch.setattr(Snapshot, "take", lambda: Snapshot({}, has_gaps=has_gaps))
    watch = _Watch(hunts=0, has_doubts=True)
    ender = Ender(watch, SystemClock())
    gone.stop = gone.sent = signal.SIGTERM
    for _ in range(1 + has_gaps):
        assert ender._look_at_all([gone]) == [gone]
    gone.stop = gone.sent = signal.SIGKILL
    assert ender._look_at_all([gone]) == [gone]
    assert watch.notes == []
    assert ender._look_at_all([gone]) == []
    assert watch.notes == [describe_doubts()]


def test_what_shows_in_no_picture_is_spoken_of(
    gone: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An orphan that was met and is hidden since keeps nobody busy, and no end from being told."""
    gone.stop = gone.sent = signal.SIGKILL
    watch = _Watch(hunts=0)
    monkeypatch.setattr(watch, "orphans_of", lambda _child: {1 << 23: 1})
    ender = Ender(watch, SystemClock())
    assert ender._look_at_all([gone]) == [gone], "it may have come after the picture"
    for _ in range(ender_module._MOST_HUNTS):
        assert watch.notes == []
        ender._unseen.clear()
        assert ender._look_at_all([gone]) == []
    assert watch.notes == [describe_elusive()]


def test_what_is_to_be_called_after_a_look_waits_for_the_second_one(
    gone: Child, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: only by then the end is told that a late timer comes after."""
    ender = Ender(_Watch(hunts=0), SystemClock())
    order: list[str] = []
    answers = iter([[gone], []])

    def look(children: list[Child]) -> list[Child]:
        order.append(f"look at {len(children)}")
        return next(answers)

    monkeypatch.setattr(ender, "_look_at_all", look)
    called = threading.Event()
    ender.look_at(gone)
    ender.call(lambda: (order.append("call"), called.set()))
    ender.open()
    assert called.wait(PATIENCE_S)
    assert order == ["look at 1", "look at 1", "call"]
    assert ender.close()


def _branded(*argv: str, run: int, env: Mapping[str, str] | None = None) -> int:
    """Return a child of ours with the brand of a run, as if it had been handed to us."""
    brand = brand_for(f"k-{run}", 1)
    return os.posix_spawn("/usr/bin/prlimit", ["prlimit", f"--locks={brand}:", *argv], env or {})


def _wait_until_branded(*pids: int) -> None:
    """Wait until these execute what they were started for."""
    for pid in pids:
        while proctree.name_of(pid) != "sleep":
            os.sched_yield()


def test_a_hunt_kills_and_reaps_what_is_of_one_run() -> None:
    """Only what carries the brand of the run is touched, and told until others wait for it."""
    child = Child(AttemptKey(1, 1), "k-1", 0, start_ticks=None, pidfd=None, is_own=False)
    orphans = Orphans(list)
    mine, other = (_branded("sleep", "999", run=run) for run in (1, 2))
    try:
        _wait_until_branded(mine, other)
        found = orphans.hunt(child, {}, kill=False)
        assert ([p.pid for p in found.living], found.has_ended) == ([mine], False)
        known = {process.pid: process.start_ticks for process in found.living}
        assert orphans.hunt(child, known, kill=False) == Hunt([], has_ended=False)
        while not orphans.hunt(child, {}, kill=True).has_ended:
            os.sched_yield()
        assert orphans.hunt(child, {}, kill=True) == Hunt([], has_ended=False)
        assert os.waitid(os.P_PID, other, os.WEXITED | os.WNOHANG) is None
        with pytest.raises(ChildProcessError):
            os.waitpid(mine, 0)
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)


def _at_a_look_into_memory(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Have something happen whenever an environment is read."""
    real = procfile.read

    def read(path: str) -> bytes | None:
        if path.endswith("/environ"):
            act()
        return real(path)

    monkeypatch.setattr(procfile, "read", read)
    monkeypatch.setattr(BRANDING, "_has_lost_turns", True)


def test_nobody_waits_for_the_memory_that_a_hunt_looks_into(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P4: where a brand may be another start's, a process that hangs its reader delays no start."""
    child = Child(AttemptKey(1, 1), "k-1", 0, start_ticks=None, pidfd=None, is_own=False)
    orphans = Orphans(list)
    pid = _branded("sleep", "999", run=1)
    _wait_until_branded(pid)
    begun: list[int] = []
    _at_a_look_into_memory(
        monkeypatch, lambda: begun.append(orphans.start_begins(AttemptKey(2, 1)))
    )
    has_ended = orphans.hunt(child, {}, kill=True).has_ended
    assert begun, "the start had its turn while the environment was read"
    while not has_ended:
        has_ended = orphans.hunt(child, {}, kill=True).has_ended


def test_what_another_look_reaps_during_a_hunt_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """P6: its end may have handed us the next of a tree that forks away, so there is more to do."""
    child = Child(AttemptKey(1, 1), "k-1", 0, start_ticks=None, pidfd=None, is_own=False)
    orphans = Orphans(list)
    pid = _branded("sleep", "999", run=1)
    _wait_until_branded(pid)

    def reap() -> None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    _at_a_look_into_memory(monkeypatch, reap)
    assert orphans.hunt(child, {}, kill=True) == Hunt([], has_ended=True)
    assert orphans.hunt(child, {}, kill=True) == Hunt([], has_ended=False)


def test_an_environment_tells_that_a_brand_is_another_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """P2: what has the brand of a run and is of another is neither killed nor told of."""
    child = Child(AttemptKey(1, 1), "k-1", 0, start_ticks=None, pidfd=None, is_own=False)
    orphans = Orphans(list)
    env = {"PYCRON_RUN_ID": "k-2", "PYCRON_ATTEMPT": "1"}
    other = _branded("sleep", "999", run=1, env=env)
    try:
        _wait_until_branded(other)
        monkeypatch.setattr(BRANDING, "_has_lost_turns", True)
        assert orphans.hunt(child, {}, kill=True) == Hunt([], has_ended=False)
        assert os.waitid(os.P_PID, other, os.WEXITED | os.WNOHANG) is None
    finally:
        os.kill(other, signal.SIGKILL)
        os.waitpid(other, 0)
