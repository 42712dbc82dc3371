"""What ``pycron cancel`` says of trees that end, that do not, and of what the daemon tells."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from crond_py.control.address import Peer
from crond_py.control.protocol import (
    CancelJob,
    CancelList,
    CancelRun,
    CancelTask,
    Request,
    Waited,
    WaitRun,
    reply_line,
)
from crond_py.engine.view import Cancelled
from crond_py.errors import EndedAlreadyError, LedgerError, UnknownNameError
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.model import Cause, Outcome, Run, State
from crond_py.places import control_socket
from crond_py.ports import SetTask
from tests.cli.program import PYCRON, environment, on_terminal, pycron, without_colour
from tests.cli.running import serving
from tests.support.ledgers import at, attempted, enter, hand_in, new_task

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ENDED = Run(
    id=7,
    job="backup",
    era=0,
    due=NOON,
    cause=Cause.SCHEDULE,
    state=State.DONE,
    claimed_at=NOON,
    outcome=Outcome.CANCELLED,
    reason="cancelled on request",
    finished_at=NOON,
)
RUNNING = Cancelled(7, "backup", "running", ending=True, kill_after=timedelta(hours=1))
NOTE = "process 77 of another user could not be ended"


@dataclass
class Daemon:
    """Says what a test wants to hear. A run whose end is not given goes on for ever."""

    runs: tuple[Cancelled, ...] = (RUNNING,)
    ends: dict[int, Run] = field(default_factory=dict)
    is_asked: threading.Event = field(default_factory=threading.Event)
    limits: list[timedelta] = field(default_factory=list)

    def __call__(self, request: Request[Any], peer: Peer) -> object:
        """Answer a request."""
        match request:
            case CancelRun() | CancelJob() | CancelTask():
                return CancelList(self.runs)
            case WaitRun(run_id, limit):
                self.limits.append(limit)
                self.is_asked.set()
                return Waited(self.ends.get(run_id))
        raise TypeError(request)


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose home is empty."""
    return environment(tmp_path)


WAS_RETRYING = Cancelled(7, "backup", "waiting_retry", ending=True)
WAS_QUEUED = Cancelled(7, "backup", "queued", ending=False)
FINISHED = replace(ENDED, outcome=Outcome.TIMED_OUT, reason="timed out after 2h")
SENTENCES = [
    ("ended", RUNNING, ENDED, "cancelled, all its processes have ended"),
    (
        "retry",
        WAS_RETRYING,
        ENDED,
        "cancelled, it was waiting for its retry; all its processes have ended",
    ),
    (
        "taken over from an earlier daemon",
        replace(RUNNING, is_taken_over=True),
        ENDED,
        "cancelled, all its processes that pycron knows of have ended",
    ),
    ("queued", WAS_QUEUED, ENDED, "cancelled, it was queued"),
    ("by-itself", RUNNING, FINISHED, "had ended by itself, timed out"),
]


@pytest.mark.parametrize(
    ("item", "run", "words"), [case[1:] for case in SENTENCES], ids=[case[0] for case in SENTENCES]
)
def test_what_has_ended(item: Cancelled, run: Run, words: str, env: dict[str, str]) -> None:
    """P6: one line on standard output says how it ended, and the exit code is 0."""
    with serving(env, Daemon((item,), {7: run})):
        done = pycron("cancel", "7", env=env)
    assert done.stdout == f"run 7 of backup: {words}\n"
    assert done.stderr == ""


def test_what_could_not_be_ended(env: dict[str, str]) -> None:
    """P6: a tree that has left something behind has not really ended, and what is left is named."""
    left = replace(ENDED, reason=f"{ENDED.reason}; {NOTE}")
    with serving(env, Daemon(ends={7: left})):
        done = pycron("cancel", "7", env=env, check=1)
        record = json.loads(pycron("cancel", "7", "--json", env=env, check=1).stdout)[0]
    assert done.stdout == ""
    assert done.stderr == f"pycron: run 7 of backup: cancelled, but {NOTE}\n"
    assert (record["ended"], record["left"], record["outcome"]) == (False, NOTE, "cancelled")


def test_what_ignores_sigterm(env: dict[str, str]) -> None:
    """P6: it is said that the tree still lives, and when SIGKILL comes."""
    with serving(env, Daemon()):
        done = pycron("cancel", "backup", "--timeout", "0s", env=env, check=1)
    assert done.stdout == ""
    assert "run 7 of backup: still ending after " in done.stderr
    assert "it has not heeded SIGTERM; SIGKILL follows within 59m" in done.stderr


def test_what_survives_sigkill(env: dict[str, str]) -> None:
    """P6: where even that did not end it within its time, that is said and nothing else."""
    stuck = replace(RUNNING, kill_after=timedelta(0))
    with serving(env, Daemon((stuck,))):
        done = pycron("cancel", "7", "--timeout", "0s", env=env, check=1)
    assert "run 7 of backup: still there after " in done.stderr
    assert "though it was sent SIGKILL" in done.stderr


def test_without_waiting(env: dict[str, str]) -> None:
    """Nothing is claimed, and the exit code says that the request was taken."""
    with serving(env, daemon := Daemon()):
        done = pycron("cancel", "7", "--no-wait", env=env)
        record = json.loads(pycron("cancel", "7", "--no-wait", "--json", env=env).stdout)[0]
    assert done.stdout == "run 7 of backup: told to end; SIGKILL follows within 1h\n"
    assert (record["ended"], record["left"], record["outcome"]) == (False, None, None)
    assert daemon.limits == []


def test_the_waiting_is_for_kill_after_and_some_seconds(env: dict[str, str]) -> None:
    """P6: nobody has to know how long the job may take to end, the command waits for it."""
    brief = replace(RUNNING, kill_after=timedelta(seconds=10))
    with serving(env, daemon := Daemon((brief,), {7: ENDED})):
        pycron("cancel", "7", env=env)
    (limit,) = daemon.limits
    assert timedelta(seconds=10) < limit <= timedelta(seconds=20)


def test_several_runs_have_one_time_to_end(env: dict[str, str]) -> None:
    """P6: each run has its own line; the waiting for one does not add to that for another."""
    other = replace(RUNNING, run_id=8)
    daemon = Daemon((RUNNING, other), {8: replace(ENDED, id=8)})
    with serving(env, daemon):
        done = pycron("cancel", "backup", "--timeout", "50ms", env=env, check=1)
    assert done.stdout == "run 8 of backup: cancelled, all its processes have ended\n"
    assert "run 7 of backup: still ending" in done.stderr
    assert max(daemon.limits) <= timedelta(milliseconds=50)


def test_ctrl_c_ends_the_waiting_and_not_the_cancel(env: dict[str, str]) -> None:
    """The daemon goes on with it, and that is said."""
    daemon = Daemon()
    with (
        serving(env, daemon),
        subprocess.Popen(
            [*PYCRON, "cancel", "7"], env=env, stderr=subprocess.PIPE, text=True
        ) as waiting,
    ):
        assert daemon.is_asked.wait(60)
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(60) == 130
        assert waiting.stderr is not None
        assert waiting.stderr.read() == "pycron: not waiting any more; the cancel goes on\n"


@pytest.mark.parametrize("columns", [60, 120])
def test_on_a_terminal_it_says_the_same(columns: int, env: dict[str, str]) -> None:
    """There is neither colour nor a cut sentence, however wide the window."""
    with serving(env, Daemon(ends={7: ENDED})):
        shown = on_terminal("cancel", "7", env=env, columns=columns)
    assert shown == without_colour(shown)
    assert shown == "run 7 of backup: cancelled, all its processes have ended\n"


def test_a_task_that_is_to_come_and_one_of_its_runs(env: dict[str, str]) -> None:
    """What was to come has no run that anybody could wait for."""
    pending = Cancelled(0, "task:17", "pending", ending=False)
    running = replace(RUNNING, job="task:17")
    daemon = Daemon((pending, running), {7: replace(ENDED, job="task:17")})
    with serving(env, daemon):
        done = pycron("cancel", "task:17", env=env)
        records = json.loads(pycron("cancel", "task:17", "--json", env=env).stdout)
    assert done.stdout.splitlines() == [
        "task:17: cancelled, nothing more of it is to come",
        "run 7 of task:17: cancelled, all its processes have ended",
    ]
    assert [(record["run"], record["job"], record["outcome"]) for record in records] == [
        (None, "task:17", "cancelled"),
        (7, "task:17", "cancelled"),
    ]
    assert len(daemon.limits) == 2  # of the run, each time


# --- a number that a task has, too ----------------------------------------------------------------


def stored_task(env: dict[str, str], *, is_over: bool = False, runs: int = 0) -> None:
    """Have a ledger with task 7, and these many of its runs going on; the last is run 7."""
    state = Path(env["PYCRON_STATE_DIR"])
    state.mkdir(mode=0o700, exist_ok=True)
    with closing(SqliteLedger.open(state / "ledger.sqlite", now=NOON)) as ledger:
        hand_in(ledger, *[new_task(NOON) for _ in range(7)])
        if is_over:
            ledger.write([SetTask(7, NOON, NOON)], durable=True)
        enter(ledger, *[attempted("other", at(n)) for n in range(7 - runs)])
        enter(ledger, *[attempted("task:7", at(n)) for n in range(runs)])


@pytest.mark.parametrize(
    ("is_over", "runs", "is_told"),
    [(False, 0, True), (False, 1, True), (True, 0, False), (True, 1, False), (True, 2, True)],
)
def test_the_task_of_the_number_of_a_run(
    env: dict[str, str], is_over: bool, runs: int, is_told: bool
) -> None:
    """A number is that of a run; of an open task that has it, too, the name is told."""
    stored_task(env, is_over=is_over, runs=runs)
    with serving(env, Daemon(ends={7: ENDED})):
        done = pycron("cancel", "7", env=env)
    note = "pycron: this is for run 7; the task of that number is task:7, and stays\n"
    assert done.stderr == (note if is_told else "")
    assert done.stdout.startswith("run 7 of backup: cancelled")


@pytest.mark.parametrize("is_over", [True, False])
@pytest.mark.parametrize(
    ("error", "code"),
    [(UnknownNameError("there is no run 7"), 2), (EndedAlreadyError("run 7 is over"), 1)],
)
def test_a_number_that_only_a_task_has(
    env: dict[str, str], error: UnknownNameError, code: int, is_over: bool
) -> None:
    """The run is what there is not, and the task is not ended for it, but named."""
    stored_task(env, is_over=is_over)

    def answer(request: Request[Any], peer: Peer) -> object:
        assert isinstance(request, CancelRun)
        raise error

    with serving(env, answer):
        done = pycron("cancel", "7", env=env, check=code)
    hint = "" if is_over else "; there is a task of that number: pycron cancel task:7"
    assert done.stderr == f"pycron: {error}{hint}\n"


def test_several_at_once(env: dict[str, str]) -> None:
    """Each is ended that can be; of the others it is said why not, and the exit code tells."""
    items = {
        "task:1": Cancelled(0, "task:1", "pending", ending=False),
        "task:2": Cancelled(0, "task:2", "pending", ending=False),
    }

    def answer(request: Request[Any], _peer: Peer) -> object:
        assert isinstance(request, CancelTask)
        name = f"task:{request.task_id}"
        if name not in items:
            raise UnknownNameError(f"there is no task {request.task_id}")
        return CancelList((items[name],))

    with serving(env, answer):
        done = pycron("cancel", "task:1", "task:9", "task:2", env=env, check=2)
        assert done.stderr == "pycron: there is no task 9\n"
        assert [line.partition(":")[2][:2] for line in done.stdout.splitlines()] == ["1:", "2:"]
        done = pycron("cancel", "task:8", "task:9", env=env, check=2)
        assert done.stderr.splitlines() == [
            "pycron: there is no task 9",
            "pycron: there is no task 8",
        ]
        assert pycron("cancel", "task:2", "task:1", env=env).stderr == ""


# --- a daemon that fails on the way ---------------------------------------------------------------


def pending(task: int) -> Cancelled:
    """Return what was to come of a task."""
    return Cancelled(0, f"task:{task}", "pending", ending=False)


def test_what_was_cancelled_before_an_error_is_told_and_waited_for(env: dict[str, str]) -> None:
    """P6: an error of one leaves the others to be cancelled; the exit code is that of the first."""
    waited: list[int] = []

    def answer(request: Request[Any], _peer: Peer) -> object:
        match request:
            case CancelTask(1):
                return CancelList((pending(1), replace(RUNNING, job="task:1")))
            case CancelTask(2):
                raise LedgerError("the ledger is locked")
            case CancelTask(3):
                raise UnknownNameError("there is no task 3")
            case CancelTask(number):
                return CancelList((pending(number),))
            case WaitRun(run_id):
                waited.append(run_id)
                return Waited(replace(ENDED, job="task:1"))
        raise TypeError(request)

    with serving(env, answer):
        done = pycron("cancel", "task:1", "task:2", "task:3", "task:4", env=env, check=1)
    assert done.stderr == "pycron: the ledger is locked\npycron: there is no task 3\n"
    assert done.stdout.splitlines() == [
        "task:1: cancelled, nothing more of it is to come",
        "run 7 of task:1: cancelled, all its processes have ended",
        "task:4: cancelled, nothing more of it is to come",
    ]
    assert waited == [7]


def test_a_daemon_that_goes_while_it_cancels(env: dict[str, str]) -> None:
    """P6: what it was told to end is said, and what it was not told; nothing is asked any more."""
    first = CancelList((pending(1), replace(RUNNING, job="task:1")))
    done = answered_once(env, first, "cancel", "task:1", "task:2", "task:3", check=3)
    assert done.stdout == "task:1: cancelled, nothing more of it is to come\n"
    assert done.stderr.splitlines() == [
        "pycron: the daemon has gone without an answer",
        "pycron: nothing was tried for task:3",
        "pycron: run 7 of task:1: told to end; whether it has is not known",
    ]


def test_a_daemon_that_goes_while_an_end_is_waited_for(env: dict[str, str]) -> None:
    """P6: what it was told to end is said, in JSON, too."""
    first = CancelList((RUNNING, replace(RUNNING, run_id=8)))
    done = answered_once(env, first, "cancel", "backup", check=3)
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "pycron: the daemon has gone without an answer",
        "pycron: run 7 of backup: told to end; whether it has is not known",
        "pycron: run 8 of backup: told to end; whether it has is not known",
    ]
    done = answered_once(env, first, "cancel", "backup", "--json", check=3)
    records = json.loads(done.stdout)
    assert [(record["run"], record["ended"]) for record in records] == [(7, False), (8, False)]


def answered_once(
    env: dict[str, str], answer: CancelList, *arguments: str, check: int
) -> subprocess.CompletedProcess[str]:
    """Run a command whose daemon gives one answer, and is gone at the next request."""
    path = control_socket(Path(env["PYCRON_STATE_DIR"]))
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb", buffering=0) as lines:
                lines.readline()
                lines.write(reply_line(answer))
                lines.readline()
            listener.close()

        daemon = threading.Thread(target=serve)
        daemon.start()
        done = pycron(*arguments, env=env, check=check)
        daemon.join()
    return done
