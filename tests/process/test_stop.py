"""Ending whole process trees (P6), and what is left alone when nothing is to be stopped."""

from __future__ import annotations

import os
import queue
import signal
import sys
import threading
import uuid
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from crond_py.clock import SystemClock
from crond_py.model import Exit
from crond_py.ports import AttemptKey, Clock, Ended, ProcessSpec, Started
from crond_py.runner import ender as ender_module
from crond_py.runner import pidfds, process, proctree, punctual, starters
from crond_py.runner.adoption import headless
from crond_py.runner.child import Child
from crond_py.runner.descent import Root
from crond_py.runner.ender import Ender
from crond_py.runner.proctree import Process, Snapshot
from crond_py.runner.spawn import Refused, Spawned
from tests.process.conftest import PATIENCE_S, PROGRAMS, Harness, has_ended, wait_until_gone

# Each says on $READY when it has come so far; the number is how many processes it has then.
TREES = {
    "B39: a shell that waits for a program": ("(echo up >$READY; exec sleep 999); true", 2),
    "a pipeline": ("sleep 998 | (echo up >$READY; exec sleep 997)", 3),
    "a child with a session of its own": ("setsid sh -c 'echo up >$READY; sleep 999; :' & wait", 2),
    "a child that was forked twice": (
        "(setsid sh -c '(echo up >$READY; exec sleep 999) & exit 0' &); sleep 998; true",
        2,
    ),
    "a background child whose leader goes on": (
        "sleep 999 & echo up >$READY; sleep 998; true",
        2,
    ),
    "a child that forgot its environment": (
        "env -i setsid sleep 999 & setsid env -i sleep 998 & echo up >$READY; wait",
        1,
    ),
    "children with process groups of their own": (
        "set -m; sleep 999 & sleep 998 & echo up >$READY; wait",
        3,
    ),
    "a stopped process": ("sleep 999 & kill -STOP $!; echo up >$READY; wait", 2),
}


def _start(harness: Harness, command: str, name: str = "ready") -> AttemptKey:
    """Start a command and wait until it says that it is up."""
    fifo = harness.fifo(name)
    key = harness.start(command, env={"READY": str(fifo)})
    harness.started(key)
    assert fifo.read_text() == "up\n"
    return key


def _wait_for_the_ender(harness: Harness) -> None:
    """Wait until all that the ender has been given is done: it takes one after the other."""
    other = _start(harness, "echo up >$READY; sleep 999; true", f"other-{uuid.uuid4()}")
    harness.runner.stop(other, force=True)
    harness.ended(other)


def _hold_everything(harness: Harness) -> list[int]:
    """Return pidfds for all processes of the test."""
    return [os.pidfd_open(pid) for pid in harness.leftovers()]


@pytest.mark.parametrize("force", [False, True], ids=["term", "kill"])
@pytest.mark.parametrize(("command", "least"), TREES.values(), ids=TREES.keys())
def test_ends_the_whole_tree(harness: Harness, command: str, least: int, force: bool) -> None:
    """When Ended is told after a stop, no process of the run is left (P6)."""
    key = _start(harness, command)
    pid = harness.started(key).pid
    processes = _hold_everything(harness)
    assert len(processes) >= least
    harness.runner.stop(key, force=force)
    ended = harness.ended(key)
    assert harness.leftovers() == []
    for pidfd in processes:
        assert has_ended(pidfd)
    assert proctree.read_process(pid) is None, "the leader is still a zombie"
    if force:
        assert ended.exit.signal == signal.SIGKILL


def test_a_forgotten_environment_hides_nothing_from_the_chain_of_parents(harness: Harness) -> None:
    """A descendant in another session and without our variables is found by its parents."""
    pid_file = harness.fifo("pid")
    key = harness.start(
        f"setsid env -i sh -c 'echo $$ >{pid_file}; exec sleep 999' & wait", env={"X": "1"}
    )
    harness.started(key)
    pid = int(pid_file.read_text())
    pidfd = os.pidfd_open(pid)
    harness.runner.stop(key, force=False)
    harness.ended(key)
    wait_until_gone(pidfd)


def test_ended_waits_for_a_member_that_ignores_sigterm(harness: Harness) -> None:
    """The leader's end is not told while one of its tree lives; SIGKILL then ends that (P5, P6)."""
    key = _start(harness, "(trap '' TERM; setsid sh -c 'echo up >$READY; sleep 999; :') & wait")
    leader = os.pidfd_open(harness.started(key).pid)
    harness.runner.stop(key, force=False)
    wait_until_gone(leader)
    # A whole run later it is still not told.
    harness.run(("true",))
    assert not any(isinstance(event, Ended) for event in harness.told(key))
    assert harness.leftovers()
    harness.runner.stop(key, force=True)
    assert harness.ended(key).exit == Exit(signal=signal.SIGTERM, cpu=harness.ended(key).exit.cpu)
    assert harness.leftovers() == []


def test_a_process_that_ignores_sigterm_is_killed_by_force(harness: Harness) -> None:
    """SIGTERM first and SIGKILL later is one stop: the exit is that of SIGKILL."""
    key = _start(harness, "trap '' TERM; echo up >$READY; while :; do sleep 999; done")
    harness.runner.stop(key, force=False)
    harness.runner.stop(key, force=True)
    assert harness.ended(key).exit.signal == signal.SIGKILL
    assert harness.leftovers() == []


def test_a_handler_can_clean_up(harness: Harness) -> None:
    """What a handler of SIGTERM starts is not signalled in its turn, and Ended waits (B43)."""
    gate = harness.fifo("gate")
    trap = f"trap 'echo term >>out; (read line <{gate}; echo clean >>out); exit 0' TERM"
    key = _start(harness, f"{trap}; setsid sh -c 'echo up >$READY; exec sleep 999' & wait")
    harness.runner.stop(key, force=False)
    with gate.open("w") as file:
        # The subshell reads now. Asking again must not reach it.
        harness.runner.stop(key, force=False)
        harness.run(("true",))
        file.write("go\n")
    assert harness.ended(key).exit.code == 0
    assert (harness.directory / "out").read_text() == "term\nclean\n"


def test_what_a_handler_leaves_to_clean_up_is_waited_for(harness: Harness) -> None:
    """A process that appears during the stop gets no SIGTERM, is waited for, and can be killed."""
    gate = harness.fifo("gate")
    clean_up = f"(echo up >$READY; read line <{gate}; echo clean >>out) & read up <$READY"
    trap = f"trap '{clean_up}; exit 0' TERM"
    key = _start(harness, f"{trap}; echo up >$READY; while :; do read line <{gate}; done")
    leader = os.pidfd_open(harness.started(key).pid)
    harness.runner.stop(key, force=False)
    wait_until_gone(leader)
    harness.run(("true",))
    _wait_for_the_ender(harness)
    gate.write_text("go\n")
    assert harness.ended(key).exit.code == 0
    assert (harness.directory / "out").read_text() == "clean\n"


def test_sigterm_is_sent_once(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often a stop is asked for, a process gets one SIGTERM, in its group or out of it."""
    singly: list[signal.Signals] = []
    send = pidfds.send

    def note(pidfd: int, number: signal.Signals) -> None:
        singly.append(number)
        send(pidfd, number)

    monkeypatch.setattr(pidfds, "send", note)
    gate = harness.fifo("gate")
    program = f"{sys.executable} -S {PROGRAMS}/proc_count_signals.py"
    key = _start(
        harness,
        "mkfifo gate2 ready2 gate3 ready3;"
        f" {program} out3 gate3 ready3 & read up <ready3;"
        f" setsid {program} out2 gate2 ready2 & read up <ready2;"
        f" exec {program} out gate $READY",
    )
    for _ in range(5):
        harness.runner.stop(key, force=False)
    # Two that come fast look like one to a process; so what is sent is counted as well: one is
    # out of the group and signalled by itself.
    _wait_for_the_ender(harness)
    assert singly.count(signal.SIGTERM) == 1
    for path in (gate, harness.directory / "gate2", harness.directory / "gate3"):
        path.write_text("go\n")
    harness.ended(key)
    for name in ("out", "out2", "out3"):
        signals = (harness.directory / name).read_text().split()
        assert signals.count("SIGTERM") == 1


def test_a_fork_in_the_moment_of_the_stop_does_not_get_away(harness: Harness) -> None:
    """Processes that keep leaving the session while they are killed are killed as well (P6)."""
    spread = "while :; do setsid sh -c 'sleep 997; :' & done"
    key = _start(harness, f'echo up >$READY; ulimit -u 20000; setsid sh -c "{spread}" & wait')
    harness.runner.stop(key, force=True)
    harness.ended(key)
    assert harness.leftovers() == []


def test_a_process_that_the_first_look_has_missed_is_killed(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With SIGKILL, /proc is looked through until nothing new is found (P6)."""
    key = _start(harness, "setsid sh -c 'echo up >$READY; exec sleep 999' & sleep 998; true")
    leader = harness.started(key).pid
    groups = {pid: os.getpgid(pid) for pid in harness.leftovers()}
    (missed,) = (pid for pid, group in groups.items() if group != leader)
    real, looks = proctree._list_pids, []

    def look() -> list[int]:
        looks.append(None)
        return [pid for pid in real() if len(looks) > 1 or pid != missed]

    monkeypatch.setattr(proctree, "_list_pids", look)
    harness.runner.stop(key, force=True)
    harness.ended(key)
    assert harness.leftovers() == []


class _Watch:
    """A supervisor that only notes what is told."""

    def __init__(self) -> None:
        self.finished: list[Child] = []
        self.notes: list[str] = []
        self.orphans: dict[int, int] = {}

    def members_of(self, child: Child) -> dict[int, int]:
        return dict(child.members.values())

    def orphans_of(self, child: Child) -> dict[int, int]:
        return self.orphans

    def strays_of(self, child: Child) -> dict[int, int]:
        return {}

    def sees_orphans(self, child: Child) -> bool:
        return False

    def look_after_orphans(self, picture: Callable[[], Snapshot] | None = None) -> None:
        pass

    def add_member(self, child: Child, pidfd: int, process: Process) -> bool:
        raise AssertionError(process)

    def linger(self, child: Child, count: int) -> None:
        raise AssertionError(count)

    def finish(self, child: Child, note: str, *, seen: signal.Signals | None) -> None:
        self.finished.append(child)
        self.notes.append(note)


def test_what_ends_during_a_look_is_not_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A leader that ends after the look at /proc may have forked after it: one more look (P6)."""
    watch = _Watch()
    ender = Ender(watch, SystemClock())
    child = Child(AttemptKey(1, 1), "k-1", 0, start_ticks=None, pidfd=None, is_own=False)
    child.stop = child.sent = signal.SIGTERM

    def take() -> Snapshot:
        child.has_ended = True  # when all has been read
        return Snapshot({})

    monkeypatch.setattr(Snapshot, "take", take)
    assert ender._look_at_all([child]) == []
    assert watch.finished == [], "its end has it looked at again"
    assert ender._look_at_all([child]) == []
    assert (watch.finished, watch.notes) == ([child], [""])


def test_what_is_met_after_the_picture_is_looked_for_in_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A fork of what ended meanwhile, handed to us after the look at /proc, has one more (P6)."""
    watch = _Watch()
    ender = Ender(watch, SystemClock())
    child = Child(AttemptKey(1, 1), "k-1", 0, start_ticks=None, pidfd=None, is_own=False)
    child.stop = child.sent = signal.SIGTERM
    child.has_ended = True
    monkeypatch.setattr(Snapshot, "take", lambda: Snapshot({}))
    watch.orphans = {1 << 23: 1}
    assert ender._look_at_all([child]) == [child]
    assert watch.finished == []
    watch.orphans = {}  # it has ended, too
    assert ender._look_at_all([child]) == []
    assert (watch.finished, watch.notes) == ([child], [""])


def test_all_leaders_are_signalled_before_anything_can_hang(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However long it takes to find the others of one run, no leader waits for it (P6)."""
    done: list[str] = []

    def find(snapshot: Snapshot, root: Root, known: dict[int, int]) -> list[Process]:
        done.append("look")
        return []

    monkeypatch.setattr(ender_module, "find_descendants", find)
    monkeypatch.setattr(ender_module, "signal_leader", lambda child, _: done.append(child.tag))
    children = [
        Child(AttemptKey(i, 1), f"k-{i}", 0, start_ticks=None, pidfd=None, is_own=False)
        for i in range(2)
    ]
    for child in children:
        child.stop = signal.SIGTERM
    Ender(_Watch(), SystemClock())._look_at_all(children)
    assert set(done[: done.index("look")]) == {"k-0", "k-1"}


def test_a_look_that_hangs_does_not_hold_up_the_close(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process has in its memory can hang whoever reads it; pycron stops all the same."""
    entered, hangs = threading.Event(), threading.Event()

    class Hanging(_Watch):
        def members_of(self, child: Child) -> dict[int, int]:
            entered.set()
            hangs.wait()
            return super().members_of(child)

    ender = Ender(Hanging(), SystemClock())
    child = Child(AttemptKey(1, 1), "k-1", 0, start_ticks=None, pidfd=None, is_own=False)
    child.stop = signal.SIGTERM
    with monkeypatch.context() as patch:
        patch.setattr(ender_module, "_PATIENCE_S", 0.01)
        ender.open()
        ender.look_at(child)
        entered.wait()
        assert not ender.close(), "it is still at work, and what it uses is to be kept"
    hangs.set()
    assert ender.close()


def test_without_a_stop_the_background_is_left_alone(harness: Harness) -> None:
    """A grandchild that holds the output open delays nothing, lives on and can still write."""
    gate, done = harness.fifo("gate"), harness.fifo("done")
    output = harness.directory / "output"
    key = harness.start(
        f"(read line <{gate}; echo late; echo done >{done}) & echo early", output=output
    )
    assert harness.ended(key).exit.code == 0
    assert output.read_text() == "early\n"
    assert len(harness.leftovers()) == 1
    gate.write_text("go\n")
    done.read_text()
    assert output.read_text() == "early\nlate\n"


def test_other_runs_are_not_touched(harness: Harness) -> None:
    """A stop reaches the processes of its run and no others, whatever their tags begin with."""
    keys = [_start(harness, "echo up >$READY; sleep 999; true", f"r{i}") for i in range(12)]
    harness.runner.stop(keys[0], force=True)  # its tag is a prefix of those of runs 10 to 12
    harness.ended(keys[0])
    assert len({s.tag for s in harness.runner.survivors(harness.identity)}) == 11
    for key in keys[1:]:
        harness.runner.stop(key, force=True)
        assert harness.ended(key).exit.signal == signal.SIGKILL


def test_stops_from_many_threads_at_once(harness: Harness) -> None:
    """Many stops of many runs from many threads: each run ends, and is told to once (P6)."""
    command = "setsid sleep 999 & sleep 998 & echo up >$READY; wait"
    keys = [_start(harness, command, f"ready-{i}") for i in range(20)]
    barrier = threading.Barrier(8)

    def stop_all(force: bool) -> None:
        barrier.wait()
        for key in keys:
            harness.runner.stop(key, force=force)

    threads = [threading.Thread(target=stop_all, args=(i % 2 == 0,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for key in keys:
        harness.ended(key)
    assert harness.leftovers() == []
    for key in keys:
        assert [type(event) for event in harness.told(key)] == [Started, Ended]


def test_ends_what_an_earlier_attempt_has_left(harness: Harness) -> None:
    """A run is ended with all its attempts, be what is left of them marked or branded (P6)."""
    first = harness.spec("setsid sleep 999 & env -i setsid sleep 998 & exit 1")
    harness.runner.start(first)
    assert "left 2 processes running" in harness.ended(first.key).note
    left = _hold_everything(harness)
    assert len(left) == 2
    second = replace(
        first,
        key=AttemptKey(first.key.run_id, 2),
        argv=("sleep", "997"),
        env={**first.env, "PYCRON_ATTEMPT": "2"},
    )
    harness.runner.start(second)
    harness.started(second.key)
    harness.runner.stop(second.key, force=False)
    harness.ended(second.key)
    for pidfd in left:
        assert has_ended(pidfd), "it was told that all of the run has ended"


def _rest_of_attempt_2(harness: Harness, command: str) -> ProcessSpec:
    """Have a first attempt end that leaves something; return the spec of the next, also over."""
    first = harness.spec(command)
    harness.runner.start(first)
    assert "left" in harness.ended(first.key).note
    env = {**first.env, "PYCRON_ATTEMPT": "2"}
    second = replace(first, key=AttemptKey(first.key.run_id, 2), argv=("true",), env=env)
    harness.runner.start(second)
    harness.ended(second.key)
    return replace(second, key=AttemptKey(first.key.run_id, 3))  # it could not be started, say


@pytest.mark.parametrize("force", [False, True], ids=["term", "kill"])
def test_ends_what_all_attempts_have_left(harness: Harness, force: bool) -> None:
    """Of a run that waits for its retry everything is ended, be it marked or branded (P6)."""
    spec = _rest_of_attempt_2(harness, "setsid sleep 999 & env -i setsid sleep 998 & exit 1")
    left = _hold_everything(harness)
    assert len(left) == 2
    harness.runner.end_rest(spec, force=force)
    ended = harness.ended(spec.key)
    assert (ended.exit, ended.note) == (Exit(), "")
    for pidfd in left:
        assert has_ended(pidfd), "it was told that all of the run has ended"


def test_what_attempts_have_left_and_ignores_sigterm_is_killed(harness: Harness) -> None:
    """Its end is not told before it has ended, and SIGKILL follows SIGTERM (P6)."""
    ready = harness.fifo("ready")
    inner = f'trap "" TERM; echo up >{ready}; while :; do sleep 999; done'
    spec = _rest_of_attempt_2(harness, f"setsid sh -c '{inner}' & read x <{ready}; exit 1")
    harness.runner.end_rest(spec, force=False)
    harness.run(("true",))
    _wait_for_the_ender(harness)
    assert harness.told(spec.key) == []
    harness.runner.end_rest(spec, force=True)
    harness.ended(spec.key)
    assert harness.leftovers() == []


def test_what_ended_by_itself_has_left_what_it_leaves(harness: Harness) -> None:
    """Who asked for its end a little too late can tell that what it left is still to be ended."""
    left = harness.run("setsid sleep 999 & exit 1")
    assert left.has_left
    assert not harness.run("exit 1").has_left
    key = _start(harness, "setsid sleep 998 & echo up >$READY; wait")
    harness.runner.stop(key, force=False)
    assert not harness.ended(key).has_left


def test_what_ended_by_itself_says_nothing_of_earlier_attempts(harness: Harness) -> None:
    """Who asked a little too late cannot take it that nothing of the whole run is left (P6)."""
    first = harness.spec("setsid sleep 999 & exit 1")
    harness.runner.start(first)
    harness.ended(first.key)
    env = {**first.env, "PYCRON_ATTEMPT": "2"}
    second = replace(first, key=AttemptKey(first.key.run_id, 2), argv=("true",), env=env)
    harness.runner.start(second)
    ended = harness.ended(second.key)
    assert (ended.note, ended.has_left) == ("", True)
    harness.runner.end_rest(replace(second, key=AttemptKey(first.key.run_id, 3)), force=True)
    assert not harness.ended(AttemptKey(first.key.run_id, 3)).has_left
    assert harness.leftovers() == []


def test_the_end_of_an_old_rest_takes_no_newer_one_along(harness: Harness) -> None:
    """What is left is ended also where that is asked for while an earlier end is being told (P6).

    Of the same attempt a rest may be over and not told of yet: the next one is another.
    """
    spec = harness.spec("true")
    supervisor = harness.runner._supervisor
    old, new = headless(spec, None), headless(spec, None)
    assert supervisor.watch_rest(old, {}, is_short=False)
    old.is_done = True
    assert supervisor.watch_rest(new, {}, is_short=False)
    supervisor._tell_end(old, "")
    assert supervisor.stop(spec.key, signal.SIGKILL)
    harness.ended(spec.key)
    while len(harness.told(spec.key)) < 2:
        os.sched_yield()


def test_what_is_left_is_ended_while_a_start_of_its_job_hangs(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: a disk that is dead for the next run is none for the end of what is left of the last."""
    env = {"PYCRON_JOB": "job"}
    first, next_ = harness.spec("setsid sleep 999 & exit 1", env=env), harness.spec("true", env=env)
    hangs, may_go_on = threading.Event(), threading.Event()
    spawn = process.spawn

    def spawn_later(spec: ProcessSpec, **more: Any) -> Spawned | Refused:
        if spec.key == next_.key:
            hangs.set()
            may_go_on.wait(PATIENCE_S)
        return spawn(spec, **more)

    monkeypatch.setattr(process, "spawn", spawn_later)
    harness.runner.start(first)
    harness.ended(first.key)
    harness.runner.start(next_)
    assert hangs.wait(PATIENCE_S)
    monkeypatch.setattr(starters, "HANGS_AFTER_NS", 0)
    rest = replace(first, key=AttemptKey(first.key.run_id, 2))
    for spec in (rest, replace(rest, key=AttemptKey(first.key.run_id, 3), user=str(os.geteuid()))):
        harness.runner.end_rest(spec, force=True)
        assert harness.ended(spec.key).note == ""
        assert harness.leftovers() == []
    may_go_on.set()
    harness.ended(next_.key)


def test_where_attempts_have_left_nothing_that_is_told(harness: Harness) -> None:
    """Who wants ended what is left hears of the end, also where there is nothing."""
    spec = harness.spec("true")
    harness.runner.end_rest(spec, force=False)
    assert harness.ended(spec.key).note == ""


def test_an_end_without_a_stop_is_no_business_of_other_attempts(harness: Harness) -> None:
    """What the next attempt has left is not named or ended with the one before it."""
    first = harness.spec("setsid sleep 999 & exit 1")
    harness.runner.start(first)
    assert "left 1 process running" in harness.ended(first.key).note
    second = replace(
        first,
        key=AttemptKey(first.key.run_id, 2),
        argv=("true",),
        env={**first.env, "PYCRON_ATTEMPT": "2"},
    )
    harness.runner.start(second)
    assert harness.ended(second.key).note == ""
    assert len(harness.leftovers()) == 1


def test_an_unknown_key_is_ignored(harness: Harness) -> None:
    """A stop of what has ended, or never was, does nothing."""
    key = harness.start(("true",))
    harness.ended(key)
    harness.runner.stop(key, force=True)
    harness.runner.stop(AttemptKey(999, 1), force=False)
    assert harness.run(("true",)).exit.code == 0


def test_a_stop_before_the_start_prevents_it(idle: Harness) -> None:
    """A run that is stopped while it waits for its start is never started."""
    key = idle.start("echo ran > ran")
    idle.runner.stop(key, force=False)
    idle.runner.open()
    assert idle.failed(key).reason == "stopped before it was started"
    assert not (idle.directory / "ran").exists()


def test_a_stop_during_the_start_is_carried_out_after_it(harness: Harness) -> None:
    """A stop that comes while a start hangs ends the process as soon as there is one."""
    hanging = harness.fifo("hanging")  # opening it to write waits for a reader
    key = harness.start("sleep 999; true", output=hanging)
    other = harness.start(("true",))
    harness.ended(other)
    # Whether the first has been taken by now or not, it hangs or will not be started.
    harness.runner.stop(key, force=False)
    harness.runner.stop(key, force=True)
    reader = os.open(hanging, os.O_RDONLY | os.O_NONBLOCK)
    events = []
    while not (events and not isinstance(events[-1], Started)):
        harness.run(("true",))
        events = harness.told(key)
    os.close(reader)
    if isinstance(events[-1], Ended):
        assert events[-1].exit.signal == signal.SIGKILL


@pytest.mark.parametrize("asked", ["stop", "recall", "nothing"])
def test_a_stop_in_the_moment_before_the_start_prevents_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """A start of which all is made ready just waits for its instant, and can be taken back."""
    told: queue.Queue[int] = queue.Queue()
    gate = threading.Event()

    def wait_here(_clock: Clock, deadline_ns: int) -> None:
        told.put(deadline_ns)
        assert gate.wait(PATIENCE_S)

    monkeypatch.setattr(process, "wait_closely", wait_here)
    monkeypatch.setattr(punctual, "LEAD_NS", 7_200_000_000_000)
    spec = harness.spec("echo ran > ran", output=harness.directory / "output")
    at_ns = SystemClock().monotonic_ns() + 3_600_000_000_000
    harness.runner.start(spec, at_ns=at_ns)
    assert told.get(timeout=PATIENCE_S) == at_ns
    assert (harness.directory / "output").exists()
    assert harness.told(spec.key) == []
    if asked == "stop":
        harness.runner.stop(spec.key, force=False)
    elif asked == "recall":
        harness.runner.recall()
    gate.set()
    if asked == "nothing":
        assert harness.ended(spec.key).exit.code == 0
    else:
        failed = harness.failed(spec.key)
        assert failed.reason.startswith({"stop": "stopped", "recall": "recalled"}[asked])
        assert failed.is_recalled is (asked == "recall")
    assert (harness.directory / "ran").exists() is (asked == "nothing")


@pytest.mark.parametrize("asked", ["stop", "recall"])
def test_a_stop_in_the_moment_after_the_start_is_one_of_what_runs(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """P6: what runs is not said to have not been started, whatever is yet to be asked for it."""
    told: queue.Queue[int] = queue.Queue()
    gate = threading.Event()
    over = harness.runner._supervisor.start_is_over

    def is_over_late(token: int, child: Child | None) -> None:
        told.put(token)
        assert gate.wait(PATIENCE_S)
        over(token, child)

    monkeypatch.setattr(harness.runner._supervisor, "start_is_over", is_over_late)
    # Each takes one of the two threads, so none is there to ask for the users.
    specs = [harness.spec("exec sleep 999", earlier_users=("nobody",)) for _ in range(2)]
    harness.runner.start_all([(spec, 1) for spec in specs])
    keys = [spec.key for spec in specs]
    for key in keys:
        harness.started(key)
        told.get(timeout=PATIENCE_S)
    if asked == "recall":
        harness.runner.recall()
    else:
        harness.runner.stop(keys[0], force=True)
    children = harness.runner._supervisor._table()
    gate.set()
    for key in keys:
        harness.runner.stop(key, force=True)
        assert harness.ended(key).exit.signal == signal.SIGKILL
    while any(child.users is None for child in children):
        os.sched_yield()


def test_works_where_the_kernel_cannot_signal_a_group_by_pidfd(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before Linux 6.9 the group is named by its number, which a zombie leader keeps."""
    real = signal.pidfd_send_signal

    def refuse_flags(pidfd: int, number: int, info: None = None, flags: int = 0) -> None:
        if flags:
            raise OSError(22, "Invalid argument")
        real(pidfd, number)

    monkeypatch.setattr(signal, "pidfd_send_signal", refuse_flags)
    key = _start(harness, "sleep 999 & setsid sleep 998 & echo up >$READY; wait")
    harness.runner.stop(key, force=False)
    assert harness.ended(key).exit.signal == signal.SIGTERM
    assert harness.leftovers() == []


def test_a_pid_that_was_used_again_is_never_signalled() -> None:
    """A process is held only if it started when it should have; a namesake is refused (P2)."""
    me = os.getpid()
    ticks = proctree.start_ticks(me)
    assert ticks is not None
    assert pidfds.open_verified(me, ticks - 1) is None
    pidfd = pidfds.open_verified(me, ticks)
    assert pidfd is not None
    os.close(pidfd)


def test_what_watches_all_can_show_that_it_gets_on(harness: Harness) -> None:
    """What is to be called is called by the thread that tells ends, and not while that hangs."""
    called: queue.SimpleQueue[str] = queue.SimpleQueue()
    harness.runner.call(lambda: called.put(threading.current_thread().name))
    assert called.get(timeout=PATIENCE_S) == "pycron-supervisor"
    hangs, may_go_on = threading.Event(), threading.Event()

    def hang() -> None:
        hangs.set()
        may_go_on.wait(PATIENCE_S)

    harness.runner.call(hang)
    assert hangs.wait(PATIENCE_S)
    harness.runner.call(lambda: called.put("it gets on"))
    assert called.empty()
    may_go_on.set()
    assert called.get(timeout=PATIENCE_S) == "it gets on"
