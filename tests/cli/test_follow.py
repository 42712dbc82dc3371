"""Following output: the kernel says when there is more, also where nothing is there yet."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from crond_py.cli.follow import Watch, _Attempts, follow
from crond_py.control.address import Peer
from crond_py.control.protocol import Request, Trigger, Triggered, Waited, WaitRun
from crond_py.control.server import Limits
from crond_py.errors import CrowdedError, UnknownNameError
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.model import Cause, Outcome, Run, State
from crond_py.places import Places, find_places
from tests.cli.program import PYCRON, environment, pycron
from tests.cli.running import running, serving
from tests.support.ledgers import at, attempted, enter

_DUE = datetime(2026, 11, 29, 12, tzinfo=UTC)
RUN = Run(7, "backup", 0, _DUE, Cause.SCHEDULE, State.RUNNING, _DUE)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Name a file whose directories are not there yet."""
    return tmp_path / "output" / "backup" / "7-1.log"


@pytest.fixture
def watch(path: Path) -> Iterator[Watch]:
    """Watch for it."""
    made = Watch(path)
    yield made
    made.close()


def is_ready(watch: Watch, patience_ms: int) -> bool:
    """Tell whether something has happened."""
    poll = select.poll()
    poll.register(watch, select.POLLIN)
    return bool(poll.poll(patience_ms))


def test_nothing_happens_without_a_change(watch: Watch) -> None:
    """There is no wake-up while nothing changes."""
    assert not is_ready(watch, 0)


def test_directories_that_come_into_being_are_watched(watch: Watch, path: Path) -> None:
    """A job that has never run has no directory; it is found when it is made, at each level."""
    path.parent.parent.mkdir()
    assert is_ready(watch, 10_000)
    watch.renew()
    assert not is_ready(watch, 0)
    path.parent.mkdir()
    assert is_ready(watch, 10_000)
    watch.renew()
    path.write_text("a")
    assert is_ready(watch, 10_000)
    watch.renew()
    assert not is_ready(watch, 0)
    with path.open("a") as file:
        file.write("b")
    assert is_ready(watch, 10_000)


def test_what_was_made_in_one_go_is_caught_up_with(watch: Watch, path: Path) -> None:
    """Between two looks the directories and the file may all have come."""
    path.parent.mkdir(parents=True)
    watch.renew()
    path.write_text("a")
    assert is_ready(watch, 10_000)


def test_a_directory_that_is_made_while_its_parent_begins_to_be_watched(
    watch: Watch, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody would say that it is there, so it is looked for once more."""
    path.parent.parent.mkdir()
    libc = watch._inotify._libc
    add_watch = libc.inotify_add_watch

    def made_meanwhile(descriptor: int, name: bytes, mask: object) -> int:
        path.parent.mkdir(exist_ok=True)
        return int(add_watch(descriptor, name, mask))

    monkeypatch.setattr(libc, "inotify_add_watch", made_meanwhile)
    watch.renew()
    path.write_text("a")
    assert is_ready(watch, 10_000)


def test_an_attempt_that_could_not_be_started_does_not_end_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What has no output is passed over: the next attempt that has some is shown, and its end."""
    attempts = _Attempts(Places(tmp_path / "crontab.toml", tmp_path), RUN, tail=None, is_raw=False)
    directory = tmp_path / "output" / "backup"
    directory.mkdir(parents=True)
    (directory / "7-1.log").write_text("first\n")
    (directory / "8-2.log").write_text("of another run\n")
    attempts.catch_up()
    assert capsys.readouterr().out == "first\n"
    (directory / "7-3.log").write_text("third\n")
    attempts.catch_up()
    assert capsys.readouterr().out == "--- run 7 of backup, attempt 3 ---\nthird\n"
    (directory / "7-10.log").write_text("tenth\n")
    (directory / "7-9.log").write_text("ninth\n")
    attempts.end()
    assert capsys.readouterr().out == (
        "--- run 7 of backup, attempt 9 ---\nninth\n--- run 7 of backup, attempt 10 ---\ntenth\n"
    )


# --- with a daemon ------------------------------------------------------------------------------


@contextmanager
def following(run_id: str, env: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Follow a run until the block ends."""
    with subprocess.Popen(
        [*PYCRON, "logs", run_id, "-f"],
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as follower:
        try:
            yield follower
        finally:
            follower.kill()


def lines_until(follower: subprocess.Popen[str], last: str) -> list[str]:
    """Return what is shown next, up to a line."""
    assert follower.stdout is not None
    lines: list[str] = []
    while lines[-1:] != [last]:
        line = follower.stdout.readline()
        assert line, (last, lines[-3:])
        lines.append(line.rstrip("\n"))
    return lines


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a job that waits for a word in between."""
    (tmp_path / "crontab.toml").write_text(
        '[jobs.slow]\nschedule = "0 0 1 1 *"\non_stop = "leave"\noutput_limit = "64K"\n'
        f'command = "echo began; read x < first; seq 100000; read x < second; echo ended"\n'
        f'cwd = "{tmp_path}"\n'
    )
    for gate in ("first", "second"):  # one each: what is still being closed is not opened again
        os.mkfifo(tmp_path / gate)
    return environment(tmp_path)


def test_following_what_is_beyond_its_limit(env: dict[str, str], tmp_path: Path) -> None:
    """The middle that is given up while it is followed may be missed; beginning and end are not."""
    with running(env):
        run_id = pycron("trigger", "slow", env=env).stdout.strip()
        with following(run_id, env) as follower:
            lines_until(follower, "began")
            (tmp_path / "first").write_text("go\n")
            lines = lines_until(follower, "100000")
            (tmp_path / "second").write_text("go\n")
            assert lines_until(follower, "ended") == ["ended"]
            assert follower.wait(60) == 0
    assert lines[:100] == [str(number) for number in range(1, 101)]
    assert lines[-100:] == [str(number) for number in range(99_901, 100_001)]
    marks = sum(line.startswith("[pycron: ") for line in lines)
    assert sum(line.isdecimal() for line in lines) + marks == len(lines)


def test_following_across_a_restart_of_the_daemon(env: dict[str, str], tmp_path: Path) -> None:
    """A daemon that is killed is waited for; the run is followed to its outcome."""
    with running(env) as daemon:
        run_id = pycron("trigger", "slow", env=env).stdout.strip()
        with following(run_id, env) as follower:
            lines_until(follower, "began")
            daemon.send_signal(signal.SIGKILL)
            assert follower.stderr is not None
            assert "waiting for the next one" in follower.stderr.readline()
            (tmp_path / "first").write_text("go\n")  # it goes on meanwhile
            lines_until(follower, "100000")
            with running(env):
                (tmp_path / "second").write_text("go\n")
                lines_until(follower, "ended")
                assert follower.wait(60) == 0


def test_a_follower_that_was_stopped_is_not_told_that_the_daemon_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The daemon hangs up on who does not ask again in time, and is there all the same."""
    env = environment(tmp_path)
    patience = timedelta(milliseconds=50)
    ended = replace(RUN, state=State.DONE, outcome=Outcome.SUCCEEDED, finished_at=_DUE)
    answers = iter([Waited(None), Waited(None), Waited(ended)])
    catch_up = _Attempts.catch_up

    def catch_up_late(attempts: _Attempts) -> None:
        catch_up(attempts)
        threading.Event().wait(10 * patience.total_seconds())  # as after a Ctrl-Z

    monkeypatch.setattr(_Attempts, "catch_up", catch_up_late)
    with serving(env, lambda request, peer: next(answers), Limits(patience=patience)):
        places = find_places(state_dir=Path(env["PYCRON_STATE_DIR"]))
        follow(places, RUN, tail=None, is_raw=False)
    assert next(answers, None) is None
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("command", [["logs", "7", "-f"], ["trigger", "backup", "--wait"]])
def test_where_as_many_wait_as_may(tmp_path: Path, command: list[str]) -> None:
    """Who is told to ask again does so, and sees the end."""
    env = environment(tmp_path)
    state = Path(env["PYCRON_STATE_DIR"])
    state.mkdir(mode=0o700)
    with closing(SqliteLedger.open(state / "ledger.sqlite", now=_DUE)) as ledger:
        enter(ledger, *[attempted("backup", at(n)) for n in range(7)])
    ended = replace(RUN, state=State.DONE, outcome=Outcome.SUCCEEDED, finished_at=_DUE)
    answers = iter([CrowdedError("ask again"), CrowdedError("ask again"), Waited(None)])

    def answer(request: Request[object], peer: Peer) -> object:
        if isinstance(request, Trigger):
            return Triggered(7)
        if not isinstance(request, WaitRun):
            raise UnknownNameError("nothing else is known")
        said = next(answers, Waited(ended))
        if isinstance(said, CrowdedError):
            raise said
        return said

    with serving(env, answer):
        done = pycron(*command, env=env)
    assert next(answers, None) is None
    assert "ask again" not in done.stderr
