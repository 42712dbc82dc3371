"""Many processes of one instant: started by ushers, and ours from then on like all others."""

from __future__ import annotations

import marshal
import os
import pwd
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

import pytest

from crond_py.clock import EPOCH, MONOTONIC, SystemClock
from crond_py.model import Leftovers, Limits
from crond_py.ports import Ended, LeftOver, ProcessSpec, Started, StartFailed
from crond_py.runner import procfile, usher
from crond_py.runner.errands import Errands
from crond_py.runner.lookups import Lookups
from crond_py.runner.marks import brand_for
from crond_py.runner.process import Wanted
from crond_py.runner.spawn import make_ready
from crond_py.runner.ushers import Usher, Ushered, _result, can_be_ushered
from crond_py.runner.writing import hold
from tests.process.conftest import PATIENCE_S, Harness
from tests.process.test_start import _signals

CLOCK = SystemClock()
LOOKUPS = Lookups(CLOCK)
USER = "nobody"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")


@pytest.fixture
def harness(reaping: Harness) -> Harness:
    """Give a runner as the daemon has it: what its children leave behind is handed to us."""
    return reaping


def usher_all(harness: Harness, specs: Sequence[ProcessSpec], *, ahead_ns: int = 0) -> None:
    """Have ushers start all of the specs."""
    starts, at_ns = [], CLOCK.monotonic_ns() + ahead_ns
    for spec in specs:
        ready = make_ready(spec, LOOKUPS)
        assert ready is not None
        assert can_be_ushered(ready)
        starts.append((spec, ready))
        harness.runner._pending[spec.key] = Wanted(at_ns)
    harness.runner._bursts.begin(starts, at_ns)


def output_of(harness: Harness, spec: ProcessSpec) -> str:
    """Return what an ended process has printed."""
    ended = harness.ended(spec.key)
    assert spec.output is not None
    text = spec.output.path.read_text()
    assert ended.exit.code == 0, (ended, text)
    return text


def test_none_begins_before_its_instant(harness: Harness) -> None:
    """P4: of many that are due together each is started once, and none before its time."""
    at_ns = CLOCK.monotonic_ns() + 200_000_000
    due = CLOCK.now() + (EPOCH.resolution * 200_000)
    specs = [harness.spec(("/bin/true",)) for _ in range(150)]
    harness.runner.start_all([(spec, at_ns) for spec in specs])
    for spec in specs:
        assert harness.ended(spec.key).exit.code == 0
        started, ended = harness.told(spec.key)
        assert isinstance(started, Started)
        assert isinstance(ended, Ended)
        assert started.started_at >= due
    assert procfile.list_children_of_thread(os.getpid(), os.getpid()) in ([], None)


def test_gives_each_what_it_is_to_have(harness: Harness) -> None:
    """Arguments, environment, directory, umask, brand and output are each start's own."""
    specs = []
    for number in range(70):
        place = harness.directory / f"place-{number}"
        place.mkdir()
        specs.append(
            harness.spec(
                'echo "$NAME $(pwd) $(umask) $(grep "file locks" /proc/self/limits)"; :',
                env={"NAME": f"x{number}"},
                cwd=str(place),
                umask=0o027 if number % 2 else 0o022,
                output=harness.directory / f"output-{number}",
            )
        )
    usher_all(harness, specs)
    for number, spec in enumerate(specs):
        name, place, umask, *limit = output_of(harness, spec).split()
        assert name == f"x{number}"
        assert place == f"{harness.directory}/place-{number}"
        assert int(umask, 8) == spec.umask
        assert str(brand_for(spec.tag, 1)) in limit


def test_a_child_has_nothing_of_the_usher(harness: Harness) -> None:
    """It leads a session, has three descriptors, and no signal is blocked or ignored."""
    command = ("/bin/sh", "-c", "ls -l /proc/self/fd; cat /proc/self/status; cat /proc/$$/stat")
    specs = [harness.spec(command, output=harness.directory / f"out-{n}") for n in range(3)]
    usher_all(harness, specs)
    for spec in specs:
        text = output_of(harness, spec)
        links = [line.rpartition(" -> ")[2] for line in text.splitlines() if " -> " in line]
        output = str(spec.output.path) if spec.output else ""
        assert len(links) == 4  # the fourth is the directory that ls reads
        assert sorted(link for link in links if "/proc/" not in link) == [
            "/dev/null",
            output,
            output,
        ]
        fields = text.rpartition(") ")[2].split()
        assert fields[2] == fields[3] == str(harness.told(spec.key)[0].pid)  # type: ignore[union-attr]
        assert _signals(text.encode()) == {"SigBlk": 0, "SigIgn": 0}


@needs_root
def test_a_job_is_its_user(harness: Harness, open_path: Path) -> None:
    """P9: all ids and groups are the user's, whoever came before, and there is no way back."""
    entry = pwd.getpwnam(USER)
    specs = [
        harness.spec(
            ("/bin/cat", "/proc/self/status"),
            user=USER if number % 2 else None,
            cwd=str(open_path),
            output=harness.directory / f"out-{number}",
        )
        for number in range(20)
    ]
    usher_all(harness, specs)
    for number, spec in enumerate(specs):
        lines = [line.partition(":") for line in output_of(harness, spec).splitlines()]
        status = {name: value.split() for name, _, value in lines}
        uid, gid = (entry.pw_uid, entry.pw_gid) if number % 2 else (0, os.getgid())
        assert status["Uid"] == [str(uid)] * 4
        assert status["Gid"] == [str(gid)] * 4
        if number % 2:
            assert status["Groups"] == [str(gid)]
            assert int(status["CapPrm"][0], 16) == int(status["CapEff"][0], 16) == 0


@needs_root
def test_enters_a_directory_as_the_user(harness: Harness) -> None:
    """A directory that the user may not enter is refused as for a start of its own."""
    closed = harness.directory / "closed"
    closed.mkdir(mode=0o755)
    specs = [harness.spec(("/bin/true",), user=USER, cwd="/") for _ in range(5)]
    readies = [make_ready(spec, LOOKUPS) for spec in specs]
    assert all(readies)
    shut = harness.spec(("/bin/true",), user=USER, cwd=str(closed))
    closed.chmod(0o700)
    assert make_ready(shut, LOOKUPS) is None
    harness.runner.start(shut, at_ns=CLOCK.monotonic_ns() + 1_000_000)
    assert "working directory" in harness.failed(shut.key).reason


def test_what_cannot_be_executed_is_told_as_ever(harness: Harness) -> None:
    """A program that is gone by then costs its own start, and is explained; so is a script."""
    gone = harness.directory / "gone"
    script = harness.directory / "script"
    for path in (gone, script):
        path.write_text("echo read by a shell\n")
        path.chmod(0o755)
    good = [harness.spec(("/bin/true",)) for _ in range(3)]
    missing = harness.spec((str(gone),))
    read = harness.spec(str(script), output=harness.directory / "out")
    starts = [(spec, make_ready(spec, LOOKUPS)) for spec in (*good, missing, read)]
    gone.unlink()
    for spec, _ in starts:
        harness.runner._pending[spec.key] = Wanted()
    harness.runner._bursts.begin([(s, r) for s, r in starts if r], CLOCK.monotonic_ns())
    assert all(harness.ended(spec.key).exit.code == 0 for spec in good)
    assert "no such file" in harness.failed(missing.key).reason
    assert output_of(harness, read) == "read by a shell\n"


def test_what_is_stopped_before_its_instant_never_begins(harness: Harness) -> None:
    """P6: what waits for its instant is taken back."""
    far_ns = CLOCK.monotonic_ns() + 3_600_000_000_000
    specs = [harness.spec(("/bin/true",)) for _ in range(30)]
    harness.runner.start_all([(spec, far_ns) for spec in specs])
    for spec in specs:
        harness.runner.stop(spec.key, force=False)
    reasons = set()
    for spec in specs:
        harness.wait_for(lambda event, key=spec.key: event.key == key)  # type: ignore[misc]
        (event,) = harness.told(spec.key)
        assert isinstance(event, StartFailed)
        reasons.add(event.reason)
    assert reasons == {"stopped before it was started"}


def held_back(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Hold ushers back before they begin: the first event says so, the second lets them go on."""
    is_there, may_begin = threading.Event(), threading.Event()
    begin = Usher.begin

    def begin_later(usher: Usher) -> None:
        is_there.set()
        assert may_begin.wait(PATIENCE_S)
        begin(usher)

    monkeypatch.setattr(Usher, "begin", begin_later)
    return is_there, may_begin


def assert_recalled(harness: Harness, specs: Sequence[ProcessSpec]) -> None:
    """Look that each start is told, and nothing else, to have been recalled."""
    for spec in specs:
        assert harness.failed(spec.key).is_recalled
        assert len(harness.told(spec.key)) == 1


def test_what_is_recalled_before_its_instant_never_begins(harness: Harness) -> None:
    """What waits for its instant is taken back, and what comes later is not begun at all."""
    far_ns = CLOCK.monotonic_ns() + 3_600_000_000_000
    specs = [harness.spec(("/bin/true",)) for _ in range(30)]
    harness.runner.start_all([(spec, far_ns) for spec in specs])
    due = harness.start(("/bin/true",))
    harness.runner.recall()
    assert_recalled(harness, specs)
    assert harness.ended(due).exit.code == 0
    late = harness.spec(("/bin/true",))
    harness.runner.start(late, at_ns=far_ns)
    assert_recalled(harness, [late])
    assert harness.run(("/bin/true",)).exit.code == 0


@pytest.mark.parametrize("ahead_ns", [3_600_000_000_000, 200_000_000], ids=["to come", "past"])
def test_what_an_usher_has_is_recalled(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, ahead_ns: int
) -> None:
    """What is in the hands of an usher is taken back exactly: each start is told not to be made.

    That its instant has passed by then changes nothing for what has not begun.
    """
    is_there, may_begin = held_back(monkeypatch)
    specs = [harness.spec(("/bin/true",)) for _ in range(30)]
    until_ns = CLOCK.monotonic_ns() + ahead_ns
    usher_all(harness, specs, ahead_ns=ahead_ns)
    assert is_there.wait(PATIENCE_S)
    while ahead_ns < 1_000_000_000 and CLOCK.monotonic_ns() < until_ns + 10_000_000:
        os.sched_yield()
    harness.runner.recall()
    may_begin.set()
    assert_recalled(harness, specs)
    assert not harness.runner._bursts._ushers


@pytest.mark.parametrize(
    ("method", "ahead_ns"), [("__init__", 0), ("begin", 0), ("wait", 2_000_000_000)]
)
def test_what_is_stopped_in_the_hands_of_an_usher_never_begins(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, method: str, ahead_ns: int
) -> None:
    """P6: up to its instant a start is taken back, and those that are due with it are made."""
    real = getattr(Usher, method)
    mark = harness.directory / "mark"
    stopped = harness.spec(("/bin/touch", str(mark)))
    specs = [harness.spec(("/bin/true",)), stopped, harness.spec(("/bin/true",))]

    def stop_before(*arguments: object) -> object:
        harness.runner.stop(stopped.key, force=False)
        return real(*arguments)

    monkeypatch.setattr(Usher, method, stop_before)
    usher_all(harness, specs, ahead_ns=ahead_ns)
    assert harness.failed(stopped.key).reason == "stopped before it was started"
    for spec in (specs[0], specs[2]):
        assert harness.ended(spec.key).exit.code == 0
    assert len(harness.told(stopped.key)) == 1
    assert not mark.exists()


def test_a_stop_of_what_an_usher_has_started_is_heeded(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P6: what has begun is ended as soon as it is known."""
    real = Usher.wait

    def wait_and_stop(usher: Usher) -> None:
        real(usher)
        for spec in specs:
            harness.runner.stop(spec.key, force=True)

    monkeypatch.setattr(Usher, "wait", wait_and_stop)
    specs = [harness.spec(("/bin/sleep", "3600")) for _ in range(3)]
    usher_all(harness, specs)
    for spec in specs:
        assert harness.ended(spec.key).exit.signal == signal.SIGKILL


def test_what_cannot_be_withdrawn_is_started_and_stopped(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P8: where no memory is left to tell an usher of a stop, that comes after the start."""
    monkeypatch.setattr(Usher, "withdraw", _raise)
    specs = [harness.spec(("/bin/sleep", "3600")) for _ in range(3)]
    usher_all(harness, specs, ahead_ns=300_000_000)
    for spec in specs:
        harness.runner.stop(spec.key, force=True)
    for spec in specs:
        assert harness.ended(spec.key).exit.signal == signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_an_usher_that_is_killed_or_stopped_costs_no_start(
    harness: Harness, number: signal.Signals
) -> None:
    """P1: what it has not begun is started in another way, once."""
    specs = [harness.spec(("/bin/true",)) for _ in range(5)]
    usher_all(harness, specs, ahead_ns=500_000_000)
    (pid,) = _wait_for_ushers()
    os.kill(pid, number)
    for spec in specs:
        assert harness.ended(spec.key).exit.code == 0
        assert len(harness.told(spec.key)) == 2


def test_an_usher_that_is_through_at_once_costs_no_exit(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: what it has started is ours before we know of it, and is not taken for an orphan."""
    begin = Errands.begin

    def begin_and_end(errands: Errands, start: Callable[[], int]) -> int:
        pid = begin(errands, start)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        for child in procfile.list_children_of(os.getpid()) or []:
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
        harness.runner._supervisor.look_after_orphans()
        return pid

    monkeypatch.setattr(Errands, "begin", begin_and_end)
    specs = [harness.spec("exit 7") for _ in range(3)]
    usher_all(harness, specs)
    assert [harness.ended(spec.key).exit.code for spec in specs] == [7] * 3


def _wait_for_ushers() -> list[int]:
    while True:  # it ends with the test's time limit
        children = procfile.list_children_of(os.getpid()) or []
        found = [p for p in children if b"pycron" in (procfile.read(f"/proc/{p}/cmdline") or b"")]
        if found:
            return found


def test_what_a_job_leaves_is_told(harness: Harness) -> None:
    """P6: a process that outlives a job that an usher started is found, as any other is."""
    spec = harness.spec("sleep 3600 & :", leftovers=Leftovers.KILL)
    usher_all(harness, [spec])
    left = harness.wait_for(lambda event: isinstance(event, LeftOver))
    assert isinstance(left, LeftOver)
    assert left.count == 1
    harness.runner.stop(spec.key, force=True)
    assert harness.ended(spec.key).exit.code == 0
    assert harness.leftovers() == []


def test_an_usher_without_its_daemon_starts_nothing(tmp_path: Path) -> None:
    """P2: the next daemon takes what was claimed for lost, so it is not to come to life later."""
    mark = tmp_path / "mark"
    start = (b"/usr/bin/touch", [b"touch", os.fsencode(mark)], [], b"/", 0o022, None, None, None)
    slots, note = os.memfd_create("slots"), os.memfd_create("note")
    os.ftruncate(slots, usher.SLOT_BYTES)
    for daemon, is_started in ((os.getpid() + 1, False), (os.getpid(), True)):
        orders = hold(marshal.dumps((daemon, MONOTONIC, 0, [start], (note, 3, b"go"))), "orders")
        text = Path(usher.__file__).read_text()
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", text, str(orders), str(slots)],
            pass_fds=(orders, slots, note),
            check=True,
        )
        os.close(orders)
        assert bool(_result(os.pread(slots, usher.SLOT_BYTES, 0), 0).pid) is is_started
        assert os.pread(note, 9, 0) == (b"\0\0\0go" if is_started else b"")
    os.close(slots)
    os.close(note)


def test_reads_what_an_usher_tells() -> None:
    """A slot tells of a start that was not begun, is unknown, failed or is a process."""
    slots = b"".join(
        told.to_bytes(8, "little") + (7).to_bytes(8, "little") + bytes(8)
        for told in (0, usher.BEGUN, usher.FAILED + 2, 4711)
    )
    assert [_result(slots, place) for place in range(0, 96, 24)] == [
        Ushered(),
        Ushered(is_unknown=True),
        Ushered(),
        Ushered(4711, 7),
    ]


def test_finds_a_start_over_which_an_usher_was_killed(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: its process is looked for among our children; without one nobody knows."""
    monkeypatch.setattr(
        "crond_py.runner.bursts.Usher.results",
        lambda self: [Ushered(is_unknown=True)] * len(self._starts),
    )
    running, over = harness.spec(("/bin/sleep", "3600")), harness.spec(("/bin/true",))
    usher_all(harness, [running])
    harness.started(running.key)
    harness.runner.stop(running.key, force=True)
    assert harness.ended(running.key).exit.signal == signal.SIGKILL
    monkeypatch.setattr("crond_py.runner.bursts._find_child", lambda _spec: 0)
    usher_all(harness, [over])
    failed = harness.failed(over.key)
    assert failed.is_unknown
    assert "nobody knows" in failed.reason


def _raise(*_arguments: object) -> NoReturn:
    raise OSError(24, "Too many open files")


def _answers(harness: Harness, specs: list[ProcessSpec]) -> list[int]:
    """Return how many starts have failed and how many have ended, each answered once."""
    ends = [
        harness.wait_for(lambda e, k=spec.key: e.key == k and not isinstance(e, Started))  # type: ignore[misc]
        for spec in specs
    ]
    answers = [e.key for e in harness.events if isinstance(e, Started | StartFailed)]
    assert Counter(answers) == Counter(spec.key for spec in specs)
    return [sum(isinstance(end, kind) for end in ends) for kind in (StartFailed, Ended)]


def test_each_start_is_answered_where_one_cannot_be_looked_for(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: what goes wrong while a start is taken over fails that start, and is told."""
    real = Usher.results
    monkeypatch.setattr(Usher, "results", lambda self: [Ushered(is_unknown=True), *real(self)[1:]])
    monkeypatch.setattr("crond_py.runner.bursts._find_child", _raise)
    specs = [harness.spec(("/bin/true",)) for _ in range(5)]
    usher_all(harness, specs)
    assert _answers(harness, specs) == [1, 4]


@pytest.mark.parametrize(
    ("method", "expected"),
    [("__init__", [0, 5]), ("begin", [0, 5]), ("wait", [2, 3]), ("results", [2, 3])],
)
def test_each_start_is_answered_where_an_usher_fails_us(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, method: str, expected: list[int]
) -> None:
    """P1: one usher's starts are made in another way or have failed, and the next's go on."""
    real = getattr(Usher, method)
    monkeypatch.setattr("crond_py.runner.bursts.MOST_STARTS", 2)
    monkeypatch.setattr("crond_py.runner.bursts._find_child", lambda _spec: 0)
    if method == "results":  # not those of other threads, which look at it meanwhile
        monkeypatch.setattr(Usher, "pids", lambda _self: set())

    def fail_once(*arguments: object) -> object:
        monkeypatch.setattr(Usher, method, real)
        if method == "wait":
            real(*arguments)
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(Usher, method, fail_once)
    specs = [harness.spec(("/bin/true",)) for _ in range(5)]
    usher_all(harness, specs)
    assert _answers(harness, specs) == expected


def test_is_not_for_what_only_the_daemon_can_do(harness: Harness) -> None:
    """Limits, a nice value and standard input take a start of their own."""
    assert can_be_ushered(make_ready(harness.spec("x=1; :"), LOOKUPS))
    for more in ({"nice": 1}, {"limits": Limits(open_files=9)}, {"stdin": "text"}):
        assert not can_be_ushered(make_ready(harness.spec("x=1; :", **more), LOOKUPS))
