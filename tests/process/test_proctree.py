"""Which processes belong to a run, from tables of made-up processes and from /proc."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import ValuesView
from pathlib import Path

import pytest

from crond_py.runner import proctree
from crond_py.runner.descent import Root, find_descendants
from crond_py.runner.marks import Marks, brand_for
from crond_py.runner.proctree import Process, Snapshot
from tests.process.conftest import Harness

ROOT = Root(pid=100, start_ticks=5000, tag="k-1", attempt=1, is_pinned=True)
STRANGER = ROOT._replace(is_pinned=False)
ME = os.getpid()


def _process(pid: int, parent: int, session: int, start: int, *, zombie: bool = False) -> Process:
    return Process(pid, parent, session, session, start, zombie, 0)


class FakeSnapshot(Snapshot):
    """A snapshot of made-up processes, with the tags they carry."""

    def __init__(self, *processes: Process, tags: dict[int, str] | None = None) -> None:
        super().__init__({process.pid: process for process in processes})
        self._marks = dict.fromkeys(self.processes, Marks())
        for pid, text in (tags or {}).items():
            tag, _, attempt = text.partition("/")
            number = int(attempt or "1")
            is_brand = tag == "brand"
            self._marks[pid] = (
                Marks(brand=brand_for("k-1", number)) if is_brand else Marks(tag, number)
            )


LEADER = _process(100, ME, 100, 5000)
CASES = {
    "nothing but the leader": ([LEADER], {}, {}, []),
    "its session": ([LEADER, _process(101, 100, 100, 5001)], {}, {}, [101]),
    "another session, by parent": ([LEADER, _process(101, 100, 101, 5001)], {}, {}, [101]),
    "a grandchild, by parents": (
        [LEADER, _process(101, 100, 101, 5001), _process(102, 101, 102, 5002)],
        {},
        {},
        [101, 102],
    ),
    "an orphan in another session, by tag": (
        [LEADER, _process(101, 1, 101, 5001)],
        {101: "k-1"},
        {},
        [101],
    ),
    "the children of an orphan that is known": (
        [LEADER, _process(101, 1, 101, 5001), _process(102, 101, 102, 5002)],
        {},
        {101: 5001},
        [101, 102],
    ),
    "not one that only looks like a known one": (
        [LEADER, _process(101, 1, 101, 5009), _process(102, 101, 102, 5010)],
        {},
        {101: 5001},
        [],
    ),
    "not what started before it": (
        [LEADER, _process(50, 1, 100, 4999), _process(51, 1, 51, 4999)],
        {51: "k-1"},
        {},
        [],
    ),
    "not another run": (
        [LEADER, _process(101, ME, 101, 5001)],
        {101: "k-11"},
        {},
        [],
    ),
    "not another attempt": (
        [LEADER, _process(101, ME, 101, 5001)],
        {101: "k-1/2"},
        {},
        [],
    ),
    "by its brand alone": (
        [LEADER, _process(101, 1, 101, 5001), _process(102, 1, 102, 5001)],
        {101: "brand/1", 102: "brand/2"},
        {},
        [101],
    ),
    "not a zombie": ([LEADER, _process(101, 100, 100, 5001, zombie=True)], {}, {}, []),
    "not ourselves, and nobody through us": (
        [LEADER, _process(ME, 100, ME, 5001), _process(102, ME, 102, 5002)],
        {ME: "k-1"},
        {},
        [],
    ),
    "a session whose leader is a zombie": (
        [LEADER._replace(is_zombie=True), _process(101, 1, 100, 5001)],
        {},
        {},
        [101],
    ),
}


@pytest.mark.parametrize("root", [ROOT, STRANGER], ids=["own", "adopted"])
@pytest.mark.parametrize(
    ("processes", "tags", "known", "expected"), CASES.values(), ids=CASES.keys()
)
def test_who_belongs_to_a_run(
    processes: list[Process],
    tags: dict[int, str],
    known: dict[int, int],
    expected: list[int],
    root: Root,
) -> None:
    """A descendant is known by its session, its parents or its tag; nobody else is (P6)."""
    snapshot = FakeSnapshot(*processes, tags=tags)
    assert [process.pid for process in find_descendants(snapshot, root, known)] == expected


def test_a_session_that_began_in_the_tree_is_part_of_it() -> None:
    """A member's session counts while its leader is a member or gone, and not otherwise (P6)."""
    lost = [_process(101, 1, 200, 5001), _process(102, 1, 200, 5002)]
    headless = Root(0, 0, "k-1", 1, is_pinned=False)

    def found(*more: Process) -> list[int]:
        snapshot = FakeSnapshot(*lost, *more, tags={101: "k-1"})
        return [process.pid for process in find_descendants(snapshot, headless, {})]

    assert found() == [101, 102]
    assert found(_process(200, 1, 200, 4000, zombie=True)) == [101, 102]
    # A person who runs something with the environment of a job has a shell that is not of the job.
    assert found(_process(200, 1, 200, 4000)) == [101]
    # Nor is what that shell has left there when it ends, if it is older.
    assert found(_process(100, 1, 200, 4999)) == [101]
    snapshot = FakeSnapshot(*lost, _process(200, 1, 200, 5000), tags={200: "k-1"})
    assert [p.pid for p in find_descendants(snapshot, headless, {})] == [101, 102, 200]


@pytest.mark.parametrize("session", [0, os.getsid(0)], ids=["of another namespace", "our own"])
@pytest.mark.parametrize("root", [ROOT, Root(0, 0, "k-1", 1, is_pinned=False)])
def test_our_own_session_is_in_no_tree(session: int, root: Root) -> None:
    """Whoever started us lives there, whether its leader has gone or cannot be seen (P6).

    A child that is just being forked is in it, too, with the marks of its run.
    """
    snapshot = FakeSnapshot(
        _process(101, ME, session, 5001), _process(102, 1, session, 5002), tags={101: "k-1"}
    )
    assert [process.pid for process in find_descendants(snapshot, root, {})] == [101]


REUSED = [_process(100, 1, 100, 9000), _process(101, 100, 100, 9001)]


def test_a_number_that_was_used_again_leads_to_nobody() -> None:
    """Once an adopted leader is gone, a namesake and its session are strangers (P2)."""
    assert find_descendants(FakeSnapshot(*REUSED), STRANGER, {}) == []
    assert find_descendants(FakeSnapshot(REUSED[1]), STRANGER, {}) == []


def test_a_session_stays_known_through_its_members() -> None:
    """While a known member is in it, an adopted leader's session cannot be anybody else's."""
    members = [_process(101, 1, 100, 5001), _process(102, 1, 100, 5002)]
    found = find_descendants(FakeSnapshot(*members), STRANGER, {101: 5001})
    assert [process.pid for process in found] == [101, 102]


def test_reads_a_process_whatever_its_name_is(harness: Harness) -> None:
    """A program's name can hold blanks, parentheses and newlines, and nothing is misread."""
    program = harness.directory / "a) (R 1\n 2"
    program.symlink_to("/bin/sleep")
    key = harness.start((str(program), "999"))
    started = harness.started(key)
    process = proctree.read_process(started.pid)
    assert process is not None
    assert process[:4] == (started.pid, ME, started.pid, started.pid)
    assert process.start_ticks == started.start_ticks
    harness.runner.stop(key, force=True)
    harness.ended(key)


def test_a_process_whose_first_thread_has_left_is_no_zombie(harness: Harness) -> None:
    """A program lives as long as one of its threads does."""
    fifo = harness.fifo("ready")
    program = (
        "import ctypes, pathlib, threading\n"
        "gone = threading.main_thread().native_id\n"
        "def stay():\n"
        "    status = pathlib.Path(f'/proc/self/task/{gone}/status')\n"
        "    while 'State:\\tZ' not in status.read_text():\n"
        "        pass\n"
        f"    pathlib.Path({str(fifo)!r}).write_text('up')\n"
        "    threading.Event().wait()\n"
        "threading.Thread(target=stay).start()\n"
        "ctypes.CDLL(None).syscall(60, 0)\n"
    )
    key = harness.start((sys.executable, "-S", "-c", program))
    pid = harness.started(key).pid
    assert fifo.read_text() == "up"
    state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1]
    process = proctree.read_process(pid)
    assert (state, process is not None and process.is_zombie) == (b"Z", False)
    harness.runner.stop(key, force=True)
    assert harness.ended(key).exit.signal == 9


OWNERS = {
    "everybody's": (None, [101, 102, 103, 104]),
    "root's and one user's": (frozenset({0, 7}), [101, 102, 104]),
    "root's": (frozenset({0}), [101, 104]),
}


@pytest.mark.parametrize(("users", "expected"), OWNERS.values(), ids=OWNERS.keys())
def test_marks_count_by_whose_process_shows_them(
    users: frozenset[int] | None, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that descends from nothing of ours is not believed if a stranger owns it (P6)."""
    owners = {101: 0, 102: 7, 103: 8, 104: 8}
    monkeypatch.setattr(proctree, "owner_of", owners.get)
    shown = [_process(pid, 1, pid, 5001) for pid in (101, 102, 103)]
    own = _process(104, 100, 104, 5001)  # by its parent, whoever it has become
    tags = {101: "k-1", 102: "k-1", 103: "k-1", 104: "k-1"}
    snapshot = FakeSnapshot(LEADER, *shown, own, tags=tags)
    found = find_descendants(snapshot, ROOT._replace(users=users), {})
    assert [process.pid for process in found] == expected


class _Counted(dict[int, Process]):
    """Processes that count how often somebody goes through all of them."""

    rounds = 0

    def values(self) -> ValuesView[Process]:  # type: ignore[override]
        self.rounds += 1
        return super().values()


@pytest.mark.parametrize("number", [1, 200])
def test_many_sessions_without_a_leader_cost_no_more_than_one(number: int) -> None:
    """P4: however many of those a run has begun, the processes are gone through a few times."""
    pids = range(1000, 1000 + number)
    members = [_process(pid, 1, 50_000 + pid, 5001) for pid in pids]
    snapshot = FakeSnapshot(LEADER, *members, tags=dict.fromkeys(pids, "k-1"))
    counted = snapshot.processes = _Counted(snapshot.processes)
    assert len(find_descendants(snapshot, ROOT, {})) == number
    assert counted.rounds <= 3


def test_there_is_no_such_process() -> None:
    """A pid that nobody has is None, not an error."""
    gone = int(Path("/proc/sys/kernel/pid_max").read_text()) + 1
    assert proctree.read_process(gone) is None
    assert proctree.start_ticks(gone) is None


def test_a_shortage_is_not_taken_for_an_empty_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a descriptor to look with, the answer is an error and not "nobody" (P5, P6)."""

    def refuse(*_arguments: object) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        proctree.read_process(ME)
    with pytest.raises(OSError, match="Too many open files"):
        Snapshot.take()


def test_the_boot_has_a_name() -> None:
    """The boot id is the kernel's, and the same each time."""
    expected = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    assert proctree.boot_id() == expected


def test_finds_a_process_that_is_just_executing(harness: Harness) -> None:
    """A process is found although its environment looks empty in the middle of an exec (P2)."""
    again = 'exec "$0" -c "$1" "$0" "$1"'
    key = harness.start(("/bin/sh", "-c", again, "/bin/sh", again))
    pid = harness.started(key).pid
    for _ in range(300):
        assert harness.leftovers() == [pid]
    harness.runner.stop(key, force=True)
    harness.ended(key)


def test_survivors_are_told_by_ledger_attempt_and_leader(harness: Harness) -> None:
    """Survivors are this ledger's, with their attempt, and one leader for each (P2, P5)."""
    ready = harness.fifo("ready")
    key = harness.start(
        "setsid sh -c 'echo $$ >$READY; sleep 999; :' & wait", env={"READY": str(ready)}
    )
    started = harness.started(key)
    other = int(ready.read_text())
    survivors = harness.runner.survivors(harness.identity)
    leader = next(survivor for survivor in survivors if survivor.leader)
    assert (leader.tag, leader.attempt) == (f"{harness.identity}-1", 1)
    assert (leader.pid, leader.start_ticks) == (started.pid, started.start_ticks)
    # It leads a session as well, but started later.
    assert [survivor.leader for survivor in survivors if survivor.pid == other] == [False]
    assert harness.runner.survivors(harness.identity[:-1]) == []
    harness.runner.stop(key, force=True)
    harness.ended(key)


def test_a_snapshot_can_be_taken_while_threads_start_and_end() -> None:
    """Reading /proc while the system is busy raises nothing."""
    stop = threading.Event()

    def churn() -> None:
        while not stop.is_set():
            os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(20):
            assert ME in Snapshot.take().processes
    finally:
        stop.set()
        thread.join()
