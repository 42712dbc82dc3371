"""What a run leaves behind: told, left alone or ended, and never piled up (P6)."""

from __future__ import annotations

import os
import re
import select
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from crond_py.model import Leftovers
from crond_py.ports import AttemptKey, Ended, LeftOver, ProcessEvent, Started
from crond_py.runner import ender, pidfds, procfile, proctree, subreaper, supervisor
from crond_py.runner.marks import Marks, read_marks
from crond_py.runner.orphans import Orphans, list_children
from crond_py.runner.supervisor import Supervisor
from tests.process.conftest import PATIENCE_S, Harness, has_ended, wait_until_gone


def _start(harness: Harness, command: str, **changes: object) -> AttemptKey:
    spec = harness.spec(command)
    harness.runner.start(replace(spec, **changes))  # type: ignore[arg-type]
    harness.started(spec.key)
    return spec.key


def _left_over(harness: Harness, key: AttemptKey) -> LeftOver:
    event = harness.wait_for(lambda e: e.key == key and not isinstance(e, Started))
    assert isinstance(event, LeftOver), event
    return event


def _kinds(harness: Harness, key: AttemptKey) -> list[type[ProcessEvent]]:
    return [type(event) for event in harness.told(key)]


def _hide(name: str, then: str = "exec sleep 999", *, is_branded: bool = True) -> str:
    """Return a command for a process that nothing that shows connects with its run.

    It was forked twice, has another session, directory and no environment, and holds no file of
    the run. It writes its pid into the named pipe of that name before it goes on. Where it is not
    ``is_branded``, it has no mark at all.
    """
    inner = f"echo \\$\\$ >$HERE/{name}; {then}"
    middle = f'cd /; HERE=$HERE sh -c "{inner}" <&- >/dev/null 2>&1 & exit 0'
    shed = "" if is_branded else "prlimit --locks=unlimited:unlimited "
    return f"{shed}env -i HERE=$PWD PATH=$PATH setsid sh -c '{middle}'"


def _pid_of(path: Path) -> int:
    return int(path.read_text())


NOTHING_LEFT = {
    "nothing": "true",
    "children that were waited for": "sleep 0 & sleep 0 & wait",
    "a pipeline": "true | cat",
    "B42: a background child that has ended": "mkfifo up; (echo >up) & read x <up; wait",
    "its output closed": "exec >&- 2>&-; true",
    "a zombie": f'exec {sys.executable} -S -c \'import os; p = os.posix_spawn("/bin/true",'
    ' ["true"], {}); os.waitid(os.P_PID, p, os.WEXITED | os.WNOWAIT)\'',
}


@pytest.mark.parametrize("leftovers", Leftovers)
@pytest.mark.parametrize("command", NOTHING_LEFT.values(), ids=NOTHING_LEFT.keys())
def test_where_nothing_is_left_nothing_is_said(
    reaping: Harness, command: str, leftovers: Leftovers
) -> None:
    """A run whose tree ends with it has one plain end, and no zombie stays."""
    before = list_children()
    key = _start(reaping, command, leftovers=leftovers)
    ended = reaping.ended(key)
    assert (ended.exit.code, ended.note) == (0, "")
    assert _kinds(reaping, key) == [Started, Ended]
    assert set(list_children()) <= set(before)


def test_what_is_left_alone_is_named(reaping: Harness) -> None:
    """With "leave" the end comes at once, says what runs on, and that is not touched."""
    gate = reaping.fifo("gate")
    key = _start(reaping, f"(read line <{gate}; echo late >late; echo done >{gate}) & exit 3")
    ended = reaping.ended(key)
    (left,) = reaping.leftovers()
    assert ended.exit.code == 3
    assert ended.note == f"left 1 process running: sh (pid {left})"
    gate.write_text("go\n")
    assert gate.read_text() == "done\n"
    assert (reaping.directory / "late").read_text() == "late\n"
    assert _kinds(reaping, key) == [Started, Ended]


def test_of_many_that_are_left_a_few_are_named(reaping: Harness) -> None:
    """The note stays short however many processes are left."""
    key = _start(reaping, "for i in 1 2 3 4 5; do sleep 999 & done")
    note = reaping.ended(key).note
    pids = sorted(reaping.leftovers())
    named = re.findall(r"\S+ \(pid (\d+)\)", note)
    assert note.startswith("left 5 processes running: ")
    assert note.endswith("), and 2 more")
    assert [int(pid) for pid in named] == pids[:3]


def test_a_name_drives_no_terminal(reaping: Harness) -> None:
    """Control characters in the name of a process are shown, not passed on (P9)."""
    program = reaping.directory / "\x1b[31m\nred"
    program.symlink_to("/bin/sleep")
    ready = reaping.fifo("ready")
    key = _start(reaping, f"(exec ./*red 999) & read x <{ready}")
    while "red" not in "".join(map(proctree.name_of, reaping.leftovers())):
        os.sched_yield()
    ready.write_text("go\n")
    assert reaping.ended(key).note.startswith("left 1 process running: \\x1b[31m\\nred (pid ")


@pytest.mark.parametrize("is_branded", [True, False])
def test_what_is_hidden_is_left_over_all_the_same(reaping: Harness, is_branded: bool) -> None:
    """Without a session, an environment or a parent of its run a process is still known."""
    pipe = reaping.fifo("one")
    key = _start(reaping, _hide("one", is_branded=is_branded))
    pid = _pid_of(pipe)
    note = reaping.ended(key).note
    assert note.startswith("left 1 process running: ")
    assert note.endswith(f" (pid {pid})")


@pytest.mark.parametrize("hidden", [False, True], ids=["plain", "hidden"])
def test_what_is_left_is_ended_where_the_spec_says_so(reaping: Harness, hidden: bool) -> None:
    """With "kill" the exit is told at once, and again as the end when all is gone (P6)."""
    pipe = reaping.fifo("one")
    plain = "sh -c 'echo $$ >one; exec sleep 999' & exit 4"
    key = _start(reaping, f"{_hide('one')}; exit 4" if hidden else plain, leftovers="kill")
    pidfd = os.pidfd_open(_pid_of(pipe))
    left = _left_over(reaping, key)
    assert (left.exit.code, left.count) == (4, 1)
    reaping.run(("true",))
    assert _kinds(reaping, key) == [Started, LeftOver]
    reaping.runner.stop(key, force=False)
    ended = reaping.ended(key)
    assert has_ended(pidfd)
    assert (ended.exit, ended.note) == (left.exit, "")
    assert _kinds(reaping, key) == [Started, LeftOver, Ended]


@pytest.mark.parametrize("force", [False, True], ids=["term", "kill"])
def test_what_was_to_be_left_is_ended_where_a_stop_crosses_with_the_end(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch, force: bool
) -> None:
    """A stop that comes after the look at what is left, and before the end is told, counts (P6)."""
    real = ender.describe_left

    def stop_meanwhile(left: list[proctree.Process]) -> str:
        reaping.runner.stop(key, force=force)
        return real(left)

    monkeypatch.setattr(ender, "describe_left", stop_meanwhile)
    gate = reaping.fifo("gate")
    key = _start(reaping, f"sleep 999 & read x <{gate}; exit 4", leftovers=Leftovers.LEAVE)
    gate.write_text("go\n")
    ended = reaping.ended(key)
    assert (ended.exit.code, ended.note) == (4, "")
    assert reaping.leftovers() == []
    assert _kinds(reaping, key) == [Started, Ended]


def test_what_ends_by_itself_needs_no_stop(reaping: Harness) -> None:
    """Where the leftovers end before anybody stops them, the end is told then."""
    gate = reaping.fifo("gate")
    key = _start(reaping, f"read line <{gate} & exit 0", leftovers="kill")
    assert _left_over(reaping, key).count == 1
    gate.write_text("go\n")
    assert reaping.ended(key).exit.code == 0
    reaping.runner.stop(key, force=True)
    assert _kinds(reaping, key) == [Started, LeftOver, Ended]


def test_what_is_left_is_told_of_once(reaping: Harness) -> None:
    """What the leftovers start in their turn is watched, and not told of again (P6)."""
    gate = reaping.fifo("gate")
    key = _start(reaping, f"(read x <{gate}; setsid sleep 999 & exit 0) & exit 0", leftovers="kill")
    assert _left_over(reaping, key).count == 1
    (first,) = reaping.leftovers()
    held = os.pidfd_open(first)
    gate.write_text("go\n")
    wait_until_gone(held)
    # The ender takes one after the other, so it has seen that by the end of this.
    other = _start(reaping, "sleep 998; true")
    reaping.runner.stop(other, force=True)
    reaping.ended(other)
    assert len(reaping.leftovers()) == 1
    reaping.runner.stop(key, force=False)
    assert reaping.ended(key).exit.code == 0
    assert _kinds(reaping, key) == [Started, LeftOver, Ended]
    assert reaping.leftovers() == []


def test_leftovers_that_ignore_sigterm_are_killed(reaping: Harness) -> None:
    """SIGTERM and later SIGKILL work on leftovers as they do on a run (P6)."""
    ready = reaping.fifo("ready")
    command = (
        f"setsid sh -c 'trap \"\" TERM; echo up >{ready}; sleep 999; sleep 999' & read x <{ready}"
    )
    key = _start(reaping, command, leftovers="kill")
    left = _left_over(reaping, key)
    reaping.runner.stop(key, force=False)
    reaping.run(("true",))
    assert reaping.leftovers()
    reaping.runner.stop(key, force=True)
    assert reaping.ended(key).exit == left.exit
    assert reaping.leftovers() == []


def test_a_job_that_kills_its_own_process_group(reaping: Harness) -> None:
    """The run ends by that signal, and what has left the group before is told of (P6)."""
    command = "setsid sh -c 'echo up >ready; exec sleep 999' & read x <ready; kill -9 0"
    reaping.fifo("ready")
    key = _start(reaping, command, leftovers="kill")
    left = _left_over(reaping, key)
    assert (left.exit.signal, left.count) == (9, 1)
    reaping.runner.stop(key, force=True)
    assert reaping.ended(key).exit.signal == 9
    assert reaping.leftovers() == []


@pytest.mark.parametrize("leftovers", Leftovers)
def test_what_is_killed_with_its_leader_is_not_left(reaping: Harness, leftovers: Leftovers) -> None:
    """A group that kills itself has left nothing, however long its members take to end (P6)."""
    keys = []
    for _ in range(40):
        spec = replace(reaping.spec("sleep 999 & sleep 999 & kill -9 0"), leftovers=leftovers)
        reaping.runner.start(spec)
        keys.append(spec.key)
    for key in keys:
        ended = reaping.ended(key)
        assert (ended.exit.signal, ended.note) == (9, "")
        assert _kinds(reaping, key) == [Started, Ended]


@pytest.mark.parametrize("force", [False, True], ids=["term", "kill"])
def test_a_stop_reaches_what_is_hidden(reaping: Harness, force: bool) -> None:
    """Timeout and cancel end a process that shows no connection with its run (P6)."""
    pipe = reaping.fifo("one")
    others = [_start(reaping, f"{_hide('other')}; sleep 997; true") for _ in range(3)]
    key = _start(reaping, f"{_hide('one')}; sleep 998; true")
    pidfd = os.pidfd_open(_pid_of(pipe))
    reaping.runner.stop(key, force=force)
    ended = reaping.ended(key)
    assert has_ended(pidfd)
    assert ended.exit.signal == (9 if force else 15)
    assert [_kinds(reaping, other) for other in others] == [[Started]] * 3


@pytest.mark.parametrize("force", [False, True], ids=["term", "kill"])
def test_a_stop_reaches_what_has_no_mark_at_all(reaping: Harness, force: bool) -> None:
    """An orphan that can be of one run only is ended with that (P6)."""
    pipe = reaping.fifo("one")
    key = _start(reaping, f"{_hide('one', is_branded=False)}; sleep 998; true")
    pid = _pid_of(pipe)
    assert read_marks(pid) == Marks()
    pidfd = os.pidfd_open(pid)
    reaping.runner.stop(key, force=force)
    reaping.ended(key)
    assert has_ended(pidfd)


def test_a_stop_reaches_what_the_hidden_have_brought_forth(reaping: Harness) -> None:
    """The children of a hidden process belong to its run as well, when it has gone too."""
    first, second = reaping.fifo("one"), reaping.fifo("two")
    script = reaping.directory / "child.sh"
    script.write_text(f"echo $$ >{second}; exec sleep 999")
    key = _start(reaping, f"{_hide('one', f'sh {script} & exit 0')}; sleep 998; true")
    wait_until_gone(os.pidfd_open(_pid_of(first)))
    pidfd = os.pidfd_open(_pid_of(second))
    reaping.runner.stop(key, force=False)
    reaping.ended(key)
    assert has_ended(pidfd)


def test_an_orphan_with_a_mark_is_told_from_those_of_other_runs(reaping: Harness) -> None:
    """Among many runs each one's own leftovers are named, by session or by environment."""
    commands = ["sleep 999 & exit 0", "setsid sh -c 'sleep 999 &'; exit 0", "exit 0"]
    keys = [_start(reaping, commands[number % 3]) for number in range(30)]
    notes = [reaping.ended(key).note for key in keys]
    by_tag = {s.tag: s.pid for s in reaping.runner.survivors(reaping.identity)}
    for key, note in zip(keys, notes, strict=True):
        pid = by_tag.get(f"{reaping.identity}-{key.run_id}")
        assert note.startswith("left 1 process running: ") if pid else note == ""
        assert note.endswith(f" (pid {pid})") if pid else True
    assert len(by_tag) == 20


def test_one_that_comes_again_on_sigterm_is_ended_by_force(reaping: Harness) -> None:
    """A process that starts itself anew whenever it is told to end stays under watch (P6)."""
    program = reaping.directory / "again.sh"
    program.write_text(
        'trap \'setsid env -i sh "$0" "$1" & exit 0\' TERM\n'
        'echo up >"$1"\nwhile :; do sleep 999 & wait; done\n'
    )
    ready = reaping.fifo("ready")
    key = _start(reaping, f"setsid env -i sh {program} {ready} & sleep 998; true")
    assert ready.read_text() == "up\n"
    reaping.runner.stop(key, force=False)
    assert ready.read_text() == "up\n"
    reaping.run(("true",))
    assert Ended not in _kinds(reaping, key)
    reaping.runner.stop(key, force=True)
    reaping.ended(key)
    assert [
        name for name in map(proctree.name_of, list_children()) if name in {"sh", "sleep"}
    ] == []


def test_orphans_do_not_pile_up(reaping: Harness) -> None:
    """Hundreds of orphans that end on their own are reaped, and no status is lost (B42)."""
    before = set(list_children())
    keys = [reaping.start("(setsid sh -c '(exit 0) &' &) ; exit 5") for _ in range(200)]
    assert {reaping.ended(key).exit.code for key in keys} == {5}
    while left := set(list_children()) - before:
        for pid in left:
            with suppress(ProcessLookupError):
                wait_until_gone(os.pidfd_open(pid))
        reaping.run(("true",))


def test_without_lists_of_children_the_same_holds(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a kernel that does not list children, leftovers are found by looking at everything."""
    monkeypatch.setattr(procfile, "tells_children", lambda: False)
    monkeypatch.setattr(procfile, "list_children_of_thread", lambda _pid, _thread: None)
    pipe = reaping.fifo("one")
    key = _start(reaping, f"{_hide('one')}; exit 4", leftovers="kill")
    pidfd = os.pidfd_open(_pid_of(pipe))
    assert _left_over(reaping, key).count == 1
    reaping.runner.stop(key, force=False)
    assert reaping.ended(key).exit.code == 4
    wait_until_gone(pidfd)
    assert reaping.run("(true &); exit 0").exit.code == 0


def test_a_runner_that_orphans_do_not_come_to_finds_what_has_a_mark(harness: Harness) -> None:
    """Where the kernel hands us no orphans, session and environment still tell (P6)."""
    assert not subreaper.is_subreaper()
    key = _start(harness, "setsid sleep 999 & sleep 998 & exit 0", leftovers="kill")
    assert _left_over(harness, key).count == 2
    harness.runner.stop(key, force=True)
    assert harness.ended(key).exit.code == 0
    assert harness.leftovers() == []


def test_a_refusal_to_hand_us_orphans_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A kernel or sandbox that refuses is a warning, not a fault (P8)."""
    monkeypatch.setattr(subreaper, "_find_prctl", lambda: None)
    assert not subreaper.become_subreaper()
    assert "does not hand us the orphans of jobs" in caplog.text
    assert not subreaper.is_subreaper()


# --- trouble ----------------------------------------------------------------------------------


def test_runs_end_where_no_descriptor_is_left_to_look_with(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Out of descriptors the glance at our children fails, is said once, and stops nothing (P8)."""

    def refuse(*_arguments: object) -> list[int]:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(procfile, "list_children_of_thread", refuse)
        keys = [_start(reaping, "sleep 0 & exit 6") for _ in range(5)]
        assert [reaping.ended(key).exit.code for key in keys] == [6] * 5
    assert caplog.text.count("cannot look for what jobs have left behind") == 1
    assert reaping.run(("true",)).note == ""


def test_a_fault_in_one_end_does_not_stop_the_watch(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever goes wrong with one run, its end is told and so are those of others (P1, P8)."""
    real: Callable[..., object] = supervisor._reap
    faults = iter([RuntimeError("planted")])

    def fail_once(child: object) -> object:
        for fault in faults:
            raise fault
        return real(child)

    monkeypatch.setattr(supervisor, "_reap", fail_once)
    assert reaping.run("exit 3").exit.code is None
    assert reaping.run("exit 3").exit.code == 3
    assert "planted" in caplog.text


def test_a_fault_in_a_look_does_not_stop_the_watch(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A look at leftovers that fails is logged, and the end is told even so (P1, P8)."""

    def fail(*_arguments: object) -> None:
        raise RuntimeError("planted")

    with monkeypatch.context() as patch:
        patch.setattr("crond_py.runner.ender.find_descendants", fail)
        ended = reaping.run("sleep 999 & exit 3")
    assert ended.exit.code == 3
    assert ended.note == "pycron has failed to see what it left; its log has more"
    assert "planted" in caplog.text


def test_a_fault_while_trees_are_ended_ends_no_thread(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The thread that ends trees outlives any fault, and a later stop is carried out (P6, P8)."""

    def fail(*_arguments: object) -> None:
        raise RuntimeError("planted")

    key = _start(reaping, "sleep 998; true")
    with monkeypatch.context() as patch:
        patch.setattr(Supervisor, "members_of", fail)
        patch.setattr(Supervisor, "finish", fail)
        reaping.runner.stop(key, force=False)
        while "planted" not in caplog.text:
            os.sched_yield()
    reaping.runner.stop(key, force=True)
    assert reaping.ended(key).exit.signal in {9, 15}


def test_a_descriptor_that_cannot_be_attended_to_stops_nothing(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An unforeseen fault in the thread that watches all is logged, and it goes on (P8)."""
    real = pidfds.exit_from_status
    threads = []

    def note(*arguments: object, **more: object) -> object:
        threads.append(threading.current_thread())
        return real(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(pidfds, "exit_from_status", note)
    with monkeypatch.context() as patch:
        patch.setattr(Orphans, "look", lambda _self, _snapshot=None: 1 // 0)
        assert reaping.run("exit 3").exit.code == 3
    assert reaping.run("exit 4").exit.code == 4
    assert all(thread.is_alive() for thread in threads)
    assert "ZeroDivisionError" in caplog.text


def test_an_end_is_told_though_orphans_cannot_be_looked_after(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A fault at the very end of a run that is stopped does not lose the end (P1, P6)."""
    key = _start(reaping, "sleep 998; true")
    with monkeypatch.context() as patch:
        patch.setattr(Orphans, "look", lambda _self, _snapshot=None: 1 // 0)
        reaping.runner.stop(key, force=True)
        assert reaping.ended(key).exit.signal == 9
    assert "ZeroDivisionError" in caplog.text


class _FaultyOnce:
    """An epoll that fails the first time it is waited for."""

    def __init__(self, real: select.epoll) -> None:
        self._real = real
        self._faults = iter([MemoryError("planted")])

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)

    def poll(self, timeout: float | None = None, most: int = -1) -> list[tuple[int, int]]:
        for fault in self._faults:
            raise fault
        return self._real.poll(timeout, most)


def test_a_wait_that_fails_is_not_the_last(
    idle: Harness, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """When memory is short in the thread that watches all, it goes on a moment later (P8)."""
    watching = idle.runner._supervisor
    monkeypatch.setattr(watching, "_epoll", _FaultyOnce(watching._epoll))
    idle.runner.open()
    assert idle.run("exit 3").exit.code == 3
    assert "planted" in caplog.text


def test_a_start_is_answered_once_whatever_happens_after_it(
    reaping: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A fault between a start and its watch is an end, not a second answer to the start (P1)."""

    def fail(*_arguments: object) -> None:
        raise RuntimeError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(Supervisor, "watch", fail)
        key = _start(reaping, "exit 3")
        ended = reaping.ended(key)
    assert _kinds(reaping, key) == [Started, Ended]
    assert "is not watched" in ended.note


@pytest.mark.parametrize("is_stopped", [False, True], ids=["by itself", "stopped"])
def test_who_hears_of_an_end_may_close_the_runner(
    reaping: Harness,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    is_stopped: bool,
) -> None:
    """Each descriptor is closed once: by then its number may be another one's (P8)."""
    watching = reaping.runner._supervisor
    tell = watching._report

    def close_first(event: ProcessEvent) -> None:
        if isinstance(event, Ended):
            reaping.runner.close()
        tell(event)

    monkeypatch.setattr(watching, "_report", close_first)
    key = reaping.start("exec sleep 999" if is_stopped else "exit 0")
    if is_stopped:
        reaping.started(key)
        reaping.runner.stop(key, force=True)
    reaping.ended(key)
    for thread in (watching._thread, watching._ender._thread):
        thread.join(PATIENCE_S)
    assert caplog.text == ""
