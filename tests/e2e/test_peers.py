"""What went wrong in other schedulers, and its kin: overlap, processes, files, state, load.

Each docstring names the public report where there is one. More of them are held where their
subject is: test_crash, test_ending, test_stop, test_commands, test_reload, test_load.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import signal
import socket
import sqlite3
import subprocess
import sys
from contextlib import closing, suppress
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.support.daemon import (
    Bell,
    Daemon,
    Gate,
    Stamp,
    assert_accounted,
    kill_session,
    processes_with,
)
from tests.support.wallclock import WallClock

A_SECOND = timedelta(seconds=1)


@pytest.fixture
def mark() -> str:
    """Give a number of seconds, to sleep for, that nobody else on the machine has."""
    return f"900{secrets.randbelow(10**9):09}"


def _job(name: str, command: str, *lines: str) -> str:
    return "\n".join([f"[jobs.{name}]", f"command = {json.dumps(command)}", *lines, ""])


def _most_alive(stamps: list[Stamp]) -> int:
    """Return how many were alive at once, by the order in which they have written."""
    alive, most = set(), 0
    for stamp in stamps:
        key = stamp.run, stamp.attempt
        (alive.add if stamp.word == "begin" else alive.discard)(key)
        most = max(most, len(alive))
    return most


# --- overlap ------------------------------------------------------------------------------------


def test_leftover_is_not_taken_for_the_run(daemon: Daemon, mark: str) -> None:
    """A service that a job has started keeps no later run away, after a crash neither (P5).

    Of the kind of dkron-io/dkron#349, where each run was skipped as "still running" for ever.
    """
    jobs = _job("starts", f"setsid sleep {mark} &", 'schedule = "* * * * * *"', 'overlap = "skip"')
    log = daemon.start(jobs)
    log.wait("run succeeded", job="starts", count=2)
    daemon.kill()
    assert processes_with(mark)
    log = daemon.start()
    # A run that the crash met in its middle may have to be settled; the next one starts.
    log.wait("run succeeded", job="starts", count=2)
    daemon.stop()


def test_hung_run_is_named_and_recovers(daemon: Daemon, mark: str) -> None:
    """mcuadros/ofelia#164: what stands in the way is told, and a timeout clears it by itself (P5).

    Of the same kind: once an owner adds the timeout it holds for the runs that come, and the one
    that hangs can be cancelled.
    """
    hangs = _job("hangs", f"sleep {mark}", 'every = "1s"', 'overlap = "skip"')
    log = daemon.start(hangs)
    first = log.wait("run started", job="hangs")
    skipped = log.wait("run skipped", job="hangs")
    assert skipped["reason"].startswith(f"overlap: run {first['run']} is running since ")
    daemon.write(hangs + 'timeout = "1s"\n')
    daemon.cli("reload")
    daemon.cli("cancel", str(first["run"]))
    timed_out = log.wait("run timed out", job="hangs", count=2)
    assert timed_out["run"] != first["run"]
    daemon.stop()
    assert processes_with(mark) == []


def test_waiting_for_a_retry_is_being_active(daemon: Daemon) -> None:
    """Occurrences that come while a run waits for its retry are skipped, with that reason (P5)."""
    log = daemon.start(
        _job(
            "fails",
            'sh "$STAMP" begin; exit 1',
            'schedule = "* * * * * *"',
            'overlap = "skip"',
            'retry = { attempts = 2, delay = "2500ms" }',
        )
    )
    first = log.wait("attempt failed", job="fails")
    skipped = log.wait("run skipped", job="fails", count=2)
    assert skipped["reason"].startswith(f"overlap: run {first['run']} waits for its retry since ")
    log.wait("run failed", run=first["run"])
    daemon.stop()
    runs = [stamp.run for stamp in daemon.stamps("fails")]
    assert runs[:2] == [runs[0]] * 2, "the retry came before any other run"
    assert_accounted(daemon.history(), A_SECOND)


@pytest.mark.parametrize("trap", ["", "trap '' TERM; "])
def test_replace(daemon: Daemon, trap: str) -> None:
    """With ``replace`` the newest occurrence wins, once the tree of the older one is gone (P5, P6).

    Deaf or not: never are two alive, and each run that was replaced says by which.
    """
    command = f'{trap}sh "$STAMP" begin $$; sleep 60; sh "$STAMP" end'
    keys = ('schedule = "*/2 * * * * *"', 'overlap = "replace"', 'kill_after = "300ms"')
    log = daemon.start(_job("newest", command, *keys))
    log.wait("run cancelled", job="newest", count=2)
    log.wait("run started", job="newest", count=3)
    daemon.cli("stop", "--now")
    assert daemon.wait_exit() == 0
    rows = daemon.history()
    assert_accounted(rows, timedelta(seconds=2))
    started = [row for row in rows if row["attempts"]]
    for row, later in zip(started, rows[1:], strict=False):
        if not row["reason"].startswith("pycron was"):
            assert row["reason"] == f"replaced by the run due {_text(later['due'])}"
            assert row["attempts"][0]["finished_at"] <= later["attempts"][0]["started_at"]
    assert {row["outcome"] for row in rows} == {"cancelled"}


def _text(due: str) -> str:
    return due.replace("Z", "+00:00")


def _is_same(due: str, other: str) -> bool:
    return datetime.fromisoformat(due) == datetime.fromisoformat(other)


def test_replace_across_a_crash(daemon: Daemon, bell: Bell) -> None:
    """A run that outlived the daemon is replaced as well, and nothing of it stays (P5, P6)."""
    mark = f"{daemon.directory}/nothing"
    command = f"echo $PYCRON_RUN_ID > bell; tail -f /dev/null {mark}; true"
    keys = ('schedule = "*/3 * * * * *"', 'overlap = "replace"', 'missed = "skip"')
    log = daemon.start(_job("newest", command, *keys))
    first = log.wait("run started", job="newest")["run"]
    bell.wait()
    daemon.kill()
    log = daemon.start()
    replaced = log.wait("run cancelled", run=first)
    assert replaced["reason"].startswith("replaced by the run due ")
    log.wait("run started", job="newest")
    assert bell.wait().rpartition("-")[2] != str(first)
    daemon.cli("stop", "--now")
    assert processes_with(mark) == []


def test_pool_at_one_mark(daemon: Daemon, bell: Bell) -> None:
    """kubernetes/test-infra#12148: of what is due together as few run at once as the pool says.

    All of them do run, those of a higher priority first; another pool is not held up (P4).
    """
    jobs = [
        _job(
            f"j{number}",
            'sh "$STAMP" begin $$; sleep 0.1; sh "$STAMP" end $$',
            'schedule = "*/10 * * * * *"',
            'pool = "narrow"',
            f"priority = {number // 10}",
        )
        for number in range(30)
    ]
    other = _job("other", "echo ran > bell", 'schedule = "*/10 * * * * *"')
    log = daemon.start("[pools.narrow]\nworkers = 3\n\n" + "\n".join([*jobs, other]))
    first = log.wait("run started")["due"]
    assert bell.wait() == "ran"
    log.wait("run succeeded", count=31)
    daemon.stop()
    stamps = daemon.stamps()
    assert _most_alive(stamps) == 3
    begun = [int(stamp.job[1:]) // 10 for stamp in stamps if stamp.word == "begin"][:30]
    assert _is_nearly_sorted(begun), begun
    ran = [row for row in daemon.history() if _is_same(row["due"], first)]
    assert {row["outcome"] for row in ran} == {"succeeded"}
    assert len({row["job"] for row in ran}) == 31


def _is_nearly_sorted(priorities: list[int]) -> bool:
    """Tell whether nobody is further from the place of its priority than there are slots.

    Two that start together may write in either order.
    """
    wanted = sorted(priorities, reverse=True)
    return all(abs(place - wanted.index(value)) < 10 + 3 for place, value in enumerate(priorities))


# --- processes ----------------------------------------------------------------------------------

SHELLS = {
    "list": "sleep {}; true",
    "pipe": "sleep {} | cat",
    "pipe-of-many": "yes | head -c 1 | (cat; sleep {}) | cat",
    "background": "sleep {} & wait",
    "subshell": "(sleep {}); true",
    "nested": "sh -c 'sh -c \"sleep {}; true\"; true'",
    "exec": "exec sleep {}",
    "nohup": "nohup sleep {} > /dev/null; true",
    "session": "setsid --wait sleep {}",
    "session-forked": "setsid --fork sleep {}; sleep 1000{}",
    "priority": "nice sleep {}; true",
    "own-limit": "timeout 100000 sleep {}",
    "loop": "while true; do sleep {}; done",
    "substitution": "echo $(sleep {})",
    "xargs": "echo {} {} | xargs -n 1 -P 2 sleep",
    "trap-that-goes-on": "trap 'sleep {}' TERM; sleep {}; true",
    "ignores": "trap '' TERM INT HUP; sleep {}; true",
    "ignores-in-the-pipe": "(trap '' TERM; sleep {}) | (trap '' TERM; cat)",
    "unnamed": "exec env -u PYCRON_RUN_ID sleep {}",
    "no-environment": "env -i sleep {}; true",
}


def test_every_shape_of_shell(daemon: Daemon, mark: str) -> None:
    """gjcarneiro/yacron#70: whatever a command's shape, its timeout leaves nothing behind (P6)."""
    jobs = "\n".join(
        _job(name, shell.replace("{}", mark), "startup = true", 'timeout = "2s"')
        + 'kill_after = "500ms"\n'
        for name, shell in SHELLS.items()
    )
    log = daemon.start(jobs)
    log.wait("run timed out", count=len(SHELLS))
    assert processes_with(mark) == []
    daemon.stop()
    rows = {row["job"]: row["outcome"] for row in daemon.history()}
    assert rows == dict.fromkeys(SHELLS, "timed_out")


NAMESPACE = ("unshare", "--fork", "--pid", "--mount-proc", "--kill-child")


def _may_unshare() -> bool:
    try:
        done = subprocess.run([*NAMESPACE, "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


@pytest.mark.skipif(not _may_unshare(), reason="may not make a pid namespace")
def test_exit_statuses_as_process_1(daemon: Daemon) -> None:
    """Of the kind of aptible/supercronic#171: no reaper takes a status away, good or bad.

    Ten jobs at a time, each with a status of its own, beside orphans that end at the same moment;
    and the process ends well on SIGTERM, as a container is stopped.
    """
    jobs = "\n".join(
        _job(f"j{n}", f"(sleep 0.0{n} &) ; (true &) ; exit {n}", 'schedule = "* * * * * *"')
        for n in range(10)
    )
    log = daemon.start(jobs, under=NAMESPACE)
    log.wait("run ", count=20 * 4)
    (process_1,) = map(int, _read(f"/proc/{daemon.pid}/task/{daemon.pid}/children").split())
    os.kill(process_1, signal.SIGTERM)
    assert daemon.wait_exit() == 0
    codes = {
        (row["job"], attempt["exit_code"])
        for row in daemon.history()
        for attempt in row["attempts"]
    }
    assert codes == {(f"j{n}", n) for n in range(10)}


def _read(path: str) -> str:
    return Path(path).read_text("ascii")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_stop_while_starting(daemon: Daemon, number: signal.Signals) -> None:
    """Of the kind of cronie-crond/cronie#139: a stop at any moment of the start is heeded (P1).

    It ends with 0 once its handlers are there (before, the interpreter itself is hit), and what it
    left is in order for the next.
    """
    jobs = _job("tick", "true", 'schedule = "* * * * * *"', 'missed = "all"')
    for delay_ms in (50, 150, 200, 250, 300, 400):
        daemon.start(jobs, is_up=False)
        assert daemon.process is not None
        try:
            daemon.process.wait(delay_ms / 1000)
        except subprocess.TimeoutExpired:
            daemon.signal(number)
        assert daemon.wait_exit() in {0, 1, -number, 130, 143}
    log = daemon.start()
    log.wait("run succeeded", job="tick", count=2)
    daemon.stop()
    assert_accounted(daemon.history(), A_SECOND)


# --- what cannot be started -----------------------------------------------------------------------


def test_what_cannot_be_started(daemon: Daemon) -> None:
    """aptible/supercronic#96 and its kind: one short line for each run, which names the cause (P8).

    The daemon goes on, and each is recorded as failed, with the same words.
    """
    here = daemon.directory
    _write_program(here / "no-interpreter", "#!/nowhere/interpreter\n")
    _write_program(here / "no-program", "this has no first line\n")
    _write_program(here / "no-permission", "#!/bin/sh\n", mode=0o600)
    (here / "a-directory").mkdir()
    causes = {
        "not-found": (["no-such-command-at-all"], "command not found"),
        "no-file": (["/nowhere/program"], "ENOENT"),
        "no-interpreter": ([f"{here}/no-interpreter"], "/nowhere/interpreter"),
        "no-program": ([f"{here}/no-program"], "ENOEXEC"),
        "no-permission": ([f"{here}/no-permission"], "EACCES"),
        "a-directory": ([f"{here}/a-directory"], "EISDIR"),
        "through-a-file": ([f"{here}/no-program/x"], "ENOTDIR"),
    }
    jobs = [
        f"[jobs.{name}]\nstartup = true\ncommand = {json.dumps(command)}\n"
        for name, (command, _) in causes.items()
    ]
    jobs.append(_job("no-directory", "true", "startup = true", 'cwd = "/nowhere/at/all"'))
    log = daemon.start("\n".join(jobs))
    log.wait("run failed", count=len(jobs))
    daemon.stop()
    rows = {row["job"]: row for row in daemon.history()}
    wanted = {**{name: words for name, (_, words) in causes.items()}, "no-directory": "/nowhere/at"}
    for name, words in wanted.items():
        assert rows[name]["outcome"] == "failed"
        assert words in rows[name]["reason"], rows[name]["reason"]
        (told,) = log.all("run failed", job=name)
        assert told["reason"] == rows[name]["reason"]
        assert len(json.dumps(told)) < 600


def _write_program(path: Path, text: str, mode: int = 0o700) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)


def test_few_descriptors(daemon: Daemon, gate: Gate) -> None:
    """robfig/cron#269: with hardly any descriptors left, jobs run or say why not (P8).

    Sixty that go on at once under a limit of 48; the daemon outlives it, and later ones run.
    """
    jobs = "\n".join(_job(f"j{n}", "read x < gate", "startup = true") for n in range(60))
    tick = _job("tick", "true", 'schedule = "* * * * * *"', 'overlap = "allow"')
    limited = ("sh", "-c", 'ulimit -n 48; exec "$@"', "sh")
    log = daemon.start(jobs + tick, under=limited)
    log.wait(("run started", "run failed"), count=60)
    started = [event for event in log.all("run started") if event["job"] != "tick"]
    gate.open(len(started))
    for event in started:
        log.wait("run succeeded", run=event["run"])
    since = len(log.events)
    log.wait("run succeeded", job="tick", count=2, since=since)
    daemon.stop()
    assert not [event for event in log.events if "exception" in event]
    for row in daemon.history():
        if row["outcome"] != "succeeded":
            assert row["outcome"] in {"failed", "missed", "skipped"}
            assert row["reason"]


# --- the environment and files ------------------------------------------------------------------


def test_variable_is_changed_by_a_reload(daemon: Daemon, bell: Bell, gate: Gate) -> None:
    """Of the kind of aptible/supercronic#122: a new value reaches new runs and no others."""
    command = "echo $WHO:$SHARED > bell; read x < gate; echo $WHO:$SHARED > bell"

    def crontab(value: str) -> str:
        return "".join(
            _job(name, command, 'schedule = "@yearly"', f'env = {{ WHO = "{name}{value}" }}')
            for name in ("a", "b")
        ).replace("}", f', SHARED = "s{value}" }}', 1)

    daemon.start(crontab("1"))
    daemon.cli("trigger", "a")
    assert bell.wait() == "a1:s1"
    daemon.write(crontab("2"))
    daemon.cli("reload")
    gate.open()
    assert bell.wait() == "a1:s1"
    daemon.log.wait("run succeeded", job="a")
    for name, told in (("b", "b2:"), ("a", "a2:s2")):
        daemon.cli("trigger", name)
        assert bell.wait() == told
        gate.open()
        assert bell.wait() == told


def test_half_written_crontab(daemon: Daemon) -> None:
    """aptible/supercronic#186 and its kind: a half-written file is refused at any length (P7)."""
    good = _job("a", "true", 'schedule = "@yearly"') + _job("b", "true", 'schedule = "@yearly"')
    daemon.start(good)
    whole = daemon.crontab.read_bytes()
    new = whole.replace(b"[jobs.b]", b"[jobs.c]")
    cut = new.index(b"[jobs.c]") + len(b"[jobs.c]\ncomm")
    for size in (cut, cut + 5, 0):
        daemon.crontab.write_bytes(new[:size])
        daemon.cli("reload", check=78)
        jobs = json.loads(daemon.cli("list", "--json").stdout)
        assert {job["job"] for job in jobs} == {"a", "b"}
    daemon.crontab.write_bytes(new)
    assert daemon.cli("reload").stdout == "added: c\nremoved: b\n"


# --- state ----------------------------------------------------------------------------------------

TICK = _job("tick", 'sh "$STAMP" ran', 'schedule = "* * * * * *"', 'missed = "all"')


def test_slow_reader_of_the_history(daemon: Daemon) -> None:
    """agronholm/apscheduler#843, its second half: who reads for long holds nobody up (P8)."""
    log = daemon.start(TICK)
    log.wait("run succeeded", job="tick")
    with closing(sqlite3.connect(f"file:{daemon.ledger}?mode=ro", uri=True)) as reader:
        reader.isolation_level = None
        reader.execute("BEGIN")
        (before,) = reader.execute("SELECT count(*) FROM runs").fetchone()
        log.wait("run succeeded", job="tick", count=4)
        assert reader.execute("SELECT count(*) FROM runs").fetchone() == (before,)
        assert len(daemon.history()) > before
        assert daemon.status()["troubles"] == []
    assert log.all("the ledger cannot be written") == []
    daemon.stop()
    assert_accounted(daemon.history(), A_SECOND)


@pytest.mark.parametrize("statement", ["VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)", "REINDEX"])
def test_somebody_tends_the_ledger(daemon: Daemon, statement: str) -> None:
    """Of the same kind: what an administrator may do to a database meanwhile loses nothing (P8)."""
    log = daemon.start(TICK)
    log.wait("run succeeded", job="tick")
    with closing(sqlite3.connect(daemon.ledger, timeout=30)) as other:
        other.isolation_level = None
        for _ in range(3):
            other.execute(statement).fetchall()
            since = len(log.events)
            log.wait("run succeeded", job="tick", since=since)
    daemon.stop()
    rows = daemon.history()
    assert_accounted(rows, A_SECOND)
    assert {row["outcome"] for row in rows} == {"succeeded"}


def test_state_of_another_boot(daemon: Daemon, bell: Bell, gate: Gate) -> None:
    """jhuckaby/Cronicle#789 and its kind: pids of before a boot mean nobody, and end nobody (P2).

    The run that the boot cut is closed as lost, and the stranger that has its pid is left alone.
    """
    long = _job("long", "echo $$ > bell; read x < gate", 'startup = "boot"')
    daemon.start(long)
    pid = int(bell.wait())
    run = daemon.log.wait("run started", job="long")["run"]
    daemon.kill()
    with closing(sqlite3.connect(daemon.ledger)) as ledger, ledger:
        ledger.execute("UPDATE attempts SET boot_id = 'another', start_ticks = start_ticks + 1")
        ledger.execute("UPDATE cursors SET boot_id = 'another'")
    kill_session(pid)
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as stranger:
        try:
            with closing(sqlite3.connect(daemon.ledger)) as ledger, ledger:
                ledger.execute("UPDATE attempts SET pid = ?", (stranger.pid,))
            log = daemon.start()
            assert log.wait("run lost", run=run)["reason"]
            gate.open()
            log.wait("run succeeded", job="long")
            daemon.stop()
            assert stranger.poll() is None, "a stranger's process was ended"
        finally:
            stranger.kill()


def test_many_daemons_at_once(daemon: Daemon) -> None:
    """Of six that are started in one moment on one state one comes up, the others say why (P2)."""
    daemon.write(TICK)
    others = [
        subprocess.Popen(
            [*daemon.command, "run"],
            env=daemon.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(5)
    ]
    daemon.start(is_up=False)
    # Whoever has the state goes on until it is told to stop; all others end by themselves.
    ended = [process for process in [*others, daemon.process] if process is not None]
    winner = _wait_until_one_is_left(ended)
    os.kill(winner, signal.SIGTERM)
    statuses = {process.pid: process.wait(60) for process in ended}
    assert statuses.pop(winner) == 0
    assert set(statuses.values()) == {1}
    for process in others:
        _, complaint = process.communicate()
        if process.pid != winner:
            assert "another pycron (pid " in complaint
    dues = [stamp.due for stamp in daemon.stamps()]
    assert len(dues) == len(set(dues))


@pytest.mark.parametrize("way", ["link", "dots", "mount"])
def test_state_by_another_name(daemon: Daemon, way: str) -> None:
    """A state directory has one daemon, by whatever name it is reached (P2)."""
    daemon.start(TICK)
    other = daemon.directory / "other"
    if way == "link":
        other.symlink_to(daemon.state)
    elif way == "dots":
        other = daemon.state / ".." / daemon.state.name
    else:
        other.mkdir()
        mounted = _run("mount", "--bind", str(daemon.state), str(other))
        if mounted != 0:
            pytest.skip("may not mount")
    try:
        refused = daemon.cli("run", "--state-dir", str(other), check=1)
        assert f"another pycron (pid {daemon.pid}) runs on this state directory" in refused.stderr
        daemon.log.wait("run succeeded", job="tick", since=len(daemon.log.events))
    finally:
        if way == "mount":
            assert _run("umount", str(other)) == 0


def _run(*command: str) -> int:
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode
    except FileNotFoundError:
        return -1


def _wait_until_one_is_left(
    processes: list[subprocess.Popen[str] | subprocess.Popen[bytes]],
) -> int:
    """Return the pid of the last of them, by waiting for the ends of all others."""
    poll, held = select.poll(), {}
    for process in processes:
        held[os.pidfd_open(process.pid)] = process.pid
    for pidfd in held:
        poll.register(pidfd, select.POLLIN)
    while len(held) > 1:
        ready = poll.poll(60_000)
        assert ready, f"{len(held)} go on"
        for pidfd, _ in ready:
            poll.unregister(pidfd)
            os.close(pidfd)
            del held[pidfd]
    ((pidfd, pid),) = held.items()
    os.close(pidfd)
    return pid


def test_clock_is_set_back_while_nobody_is_there(daemon: Daemon, clock: WallClock) -> None:
    """A restart on a clock that was set back runs nothing again that has been (P1, P2)."""
    clock.set("2026-03-02T10:00:00")
    log = daemon.start(TICK, env=clock.environment)
    log.wait("run succeeded", job="tick", count=3)
    daemon.kill()
    clock.step(timedelta(seconds=-4))
    log = daemon.start(env=clock.environment)
    log.wait("run succeeded", job="tick", count=2)
    daemon.stop()
    dues = [stamp.due for stamp in daemon.stamps("tick")]
    assert len(dues) == len(set(dues))
    assert_accounted(daemon.history(), A_SECOND)


WASHED = {
    "environment": "exec env -i sleep {}",
    "session": "exec setsid --wait env -i sleep {}",
    "child": "env -i sleep {}; true",
}


@pytest.mark.parametrize("shape", WASHED)
def test_washed_command_across_a_crash(daemon: Daemon, mark: str, shape: str) -> None:
    """A command without our variables (``su -``, ``env -i``) is found again, too (P2, P5, P6)."""
    command = WASHED[shape].replace("{}", mark)
    log = daemon.start(_job("washed", command, 'schedule = "* * * * * *"', 'missed = "skip"'))
    run = log.wait("run started", job="washed")["run"]
    log.wait("run skipped", job="washed")
    before = processes_with(mark)
    daemon.kill()
    log = daemon.start()
    log.wait("run skipped", job="washed", count=2)
    assert processes_with(mark) == before
    assert [active["run"] for active in daemon.status()["active"]] == [run]
    assert "all its processes have ended" in daemon.cli("cancel", str(run)).stdout
    assert not set(before) & set(processes_with(mark))
    daemon.cli("stop", "--now")


def test_job_that_kills_the_daemon(daemon: Daemon) -> None:
    """A run that takes the daemon down is not run again for ever, though it may be rerun (P3)."""
    command = 'sh "$STAMP" begin; kill -KILL $(cut -d " " -f 4 /proc/$$/stat); sleep 1000'
    keys = ('startup = "boot"', 'on_crash = "rerun"')
    daemon.write(_job("poison", command, *keys) + TICK)
    for _ in range(20):
        daemon.start(is_up=False)
        assert daemon.process is not None
        try:
            assert daemon.process.wait(4) == -signal.SIGKILL
        except subprocess.TimeoutExpired:
            break
        for stamp in processes_with("sleep\0001000"):
            os.kill(stamp, signal.SIGKILL)
    else:
        pytest.fail("it was run again and again")
    daemon.log.wait("run succeeded", job="tick")
    (row,) = daemon.history("poison")
    assert row["outcome"] == "lost"
    assert len(daemon.stamps("poison")) == len(row["attempts"]) < 20
    daemon.stop()


MEDDLING = {
    "removed": 'rm -f "$1"',
    "directory-removed": 'rm -rf "$(dirname "$1")"',
    "truncated": ': > "$1"',
    "renamed": 'mv "$1" "$1.away"',
    "a-link": 'ln -sf "$PRECIOUS" "$1"',
    "a-directory": 'rm -f "$1"; mkdir "$1"',
    "a-fifo": 'rm -f "$1"; mkfifo "$1"',
}


@pytest.mark.parametrize("way", MEDDLING)
def test_output_that_is_meddled_with(daemon: Daemon, way: str) -> None:
    """What a job does to the file of its own output harms nobody else, nor any other file (P8, P9).

    It prints beyond its limit before and after, so that the file is looked after all the time.
    """
    precious = daemon.directory / "precious"
    precious.write_bytes(b"p" * 100_000)
    script = daemon.directory / "meddle.sh"
    _write_program(script, f"#!/bin/sh\nhead -c 50000 /dev/zero\n{MEDDLING[way]}\n")
    command = (
        f'PRECIOUS={precious} sh {script} "$(readlink /proc/$$/fd/1)" && head -c 50000 /dev/zero'
    )
    keys = ('schedule = "@yearly"', 'output_limit = "10K"')
    log = daemon.start(_job("meddles", command, *keys) + TICK)
    for _ in range(2):
        assert " succeeded after " in daemon.cli("trigger", "meddles", "--wait").stdout
    log.wait("run succeeded", job="tick", count=2)
    daemon.cli("logs", "meddles", check=None)
    daemon.stop()
    assert precious.read_bytes() == b"p" * 100_000
    assert not [event for event in log.events if "exception" in event]
    assert log.noise == []


# --- who asks ---------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["trigger", "cancel", "stop"])
def test_daemon_is_killed_while_somebody_waits(
    daemon: Daemon, bell: Bell, mark: str, command: str
) -> None:
    """Who waits for an answer that never comes is told so at once, in a sentence."""
    deaf = f"trap 'echo told > bell' TERM; echo here > bell; while :; do sleep {mark} & wait; done"
    log = daemon.start(_job("deaf", deaf, 'schedule = "@yearly"', 'kill_after = "1h"'))
    asked = {
        "trigger": ["trigger", "deaf", "--wait"],
        "cancel": ["cancel", "deaf"],
        "stop": ["stop"],
    }
    if command != "trigger":
        daemon.cli("trigger", "deaf")
        assert bell.wait() == "here"
    with subprocess.Popen(
        [*daemon.command, *asked[command]],
        env=daemon.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as client:
        if command == "trigger":
            assert bell.wait() == "here"
        elif command == "stop":
            log.wait("stopping")
        else:
            assert bell.wait() == "told"
        daemon.kill()
        said, complaint = client.communicate(timeout=60)
    if client.returncode == 0:
        assert command == "stop"
        assert "has stopped" in said
    else:
        assert client.returncode in {1, 3}
        (line,) = complaint.splitlines()
        assert line.startswith("pycron: ")


def test_crowd_of_silent_clients(daemon: Daemon) -> None:
    """Hundreds of connections that say nothing take no run from anybody (P4, P9)."""
    limited = ("sh", "-c", 'ulimit -n 128; exec "$@"', "sh")
    log = daemon.start(TICK, under=limited)
    log.wait("run succeeded", job="tick")
    crowd = []
    for _ in range(400):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
        crowd.append(client)
        with suppress(BlockingIOError, ConnectionError):
            client.connect(str(daemon.state / "control.sock"))
    since = len(log.events)
    log.wait("run succeeded", job="tick", count=3, since=since)
    for client in crowd:
        client.close()
    assert daemon.status()["pid"] == daemon.pid
    daemon.stop()
    rows = daemon.history()
    assert_accounted(rows, A_SECOND)
    assert {row["outcome"] for row in rows} == {"succeeded"}


# --- load -----------------------------------------------------------------------------------------

MANY = 5000


@pytest.mark.long
@pytest.mark.timeout(300)
def test_five_thousand_at_one_mark(daemon: Daemon, bell: Bell) -> None:
    """robfig/cron#269, its second half: each of five thousand has its run at the mark (P1, P8)."""
    jobs = "\n".join(
        f'[jobs.j{n}]\nschedule = "0 * * * * *"\ncommand = ["true"]\n' for n in range(MANY)
    )
    last = _job("last", "echo $PYCRON_DUE > bell", 'schedule = "0 * * * * *"', "priority = -1")
    log = daemon.start(jobs + last, under=("sh", "-c", 'ulimit -n 1024; exec "$@"', "sh"))
    told = daemon.cli("next", "-n", str(MANY + 1), "--json")
    assert len(json.loads(told.stdout)) == MANY + 1
    due = bell.wait()
    daemon.stop()
    rows = [row for row in daemon.history() if _is_same(row["due"], due)]
    assert len(rows) == MANY + 1
    assert {row["outcome"] for row in rows} == {"succeeded"}
    assert not [event for event in log.events if "exception" in event]
    late = sorted(row["late_seconds"] for row in rows)
    sys.stdout.write(f"{late[MANY // 2]} s late in the middle, {late[-1]} s at most\n")
