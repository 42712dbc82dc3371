"""``history``, ``logs`` and ``list`` where no daemon runs: from the files alone."""

from __future__ import annotations

import json
import os
import pwd
import shlex
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from crond_py.cli.jobs import doing
from crond_py.clock import SystemClock
from crond_py.control.protocol import JobView
from crond_py.ledger.sqlite import SqliteLedger
from crond_py.model import Attempt, Cause, Cursor, Exit, Lag, Outcome, State
from crond_py.ports import Claim, SetAttempt, SetCursor, SetRun
from crond_py.runner.output import output_path
from tests.cli.program import (
    LOCKED_OUT,
    PYCRON,
    environment,
    in_place,
    needs_setpriv,
    on_terminal,
    pycron,
    without_colour,
)

T = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
CRONTAB = """\
timezone = "Europe/Berlin"
[jobs.backup]
schedule = "30 2 * * *"
command = "true"
[jobs.report]
schedule = "0 9 * * 1"
command = "true"
[jobs.off]
schedule = "@daily"
command = "true"
enabled = false
[jobs.new]
every = "1h"
command = "true"
"""

HISTORY = """\
RUN  JOB     DUE                         LATE  TOOK  TRIES  CAUSE     OUTCOME    REASON
  5  report  2026-03-01 23:40:00+00:00    0ms            1  schedule  running
  4  backup  2026-03-01 22:00:00+00:00                      schedule  skipped    {skipped}
  3  backup  2026-03-01 12:20:00+00:00                      schedule  missed     {missed}
  2  report  2026-03-01 12:10:00+00:00  1h 5m    2m      2  catch_up  failed     killed by SIGKILL
  1  backup  2026-03-01 12:00:00+00:00    5ms    2m      1  schedule  succeeded
""".format(
    skipped="overlap: run 1 is running",
    missed="480 occurrences until 2026-03-01 20:20:00+00:00: pycron was not running",
).splitlines()


def minutes(number: float) -> datetime:
    """Return an instant after T."""
    return T + timedelta(minutes=number)


def write_ledger(state_dir: Path) -> None:
    """Write five runs: done, tried twice, missed for a long stretch, skipped, and still alive."""
    ledger = SqliteLedger.open(state_dir / "ledger.sqlite", now=T)

    def claim(job: str, due: datetime, **more: object) -> Claim:
        return Claim(**{  # type: ignore[arg-type]  # as the test gives them
            "job": job, "era": 0, "due": due, "cause": Cause.SCHEDULE, "state": State.RUNNING,
            "claimed_at": due, **more,
        })  # fmt: skip

    ledger.write(
        [
            claim("backup", minutes(0), attempt=Attempt(1, begun_at=minutes(0))),
            claim("report", minutes(10), attempt=Attempt(1, begun_at=minutes(10)),
                  cause=Cause.CATCH_UP),
            claim("backup", minutes(20), state=State.DONE, outcome=Outcome.MISSED,
                  reason="pycron was not running", last_due=minutes(500), count=480),
            claim("backup", minutes(600), state=State.DONE, outcome=Outcome.SKIPPED,
                  reason="overlap: run 1 is running"),
            claim("report", minutes(700), attempt=Attempt(1, begun_at=minutes(700))),
            SetAttempt(1, Attempt(
                1, begun_at=minutes(0), pid=41, started_at=minutes(0) + timedelta(milliseconds=5),
                finished_at=minutes(2), exit=Exit(code=0, cpu=timedelta(seconds=1.5)),
                outcome=Outcome.SUCCEEDED, output="as the daemon noted it",
            )),
            SetRun(1, State.DONE, outcome=Outcome.SUCCEEDED, finished_at=minutes(2)),
            SetAttempt(2, Attempt(
                1, begun_at=minutes(10), pid=42, started_at=minutes(75), finished_at=minutes(76),
                exit=Exit(code=3), outcome=Outcome.FAILED, reason="exit status 3",
            )),
            SetAttempt(2, Attempt(
                2, begun_at=minutes(77), pid=43, started_at=minutes(77), finished_at=minutes(78),
                exit=Exit(signal=9), outcome=Outcome.FAILED, reason="killed by SIGKILL",
            )),
            SetRun(2, State.DONE, outcome=Outcome.FAILED, reason="killed by SIGKILL",
                   finished_at=minutes(78)),
            SetAttempt(5, Attempt(1, begun_at=minutes(700), pid=44, started_at=minutes(700))),
            SetCursor(Cursor("backup", "f", 0, T, T)),
        ],
        durable=True,
    )  # fmt: skip
    ledger.close()


def write_output(state_dir: Path, job: str, run: int, attempt: int, data: bytes) -> Path:
    """Write what an attempt has printed."""
    path = output_path(state_dir, job, run, attempt)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a crontab, a ledger and some output."""
    (tmp_path / "crontab.toml").write_text(CRONTAB)
    state_dir = tmp_path / "state"
    state_dir.mkdir()
    write_ledger(state_dir)
    write_output(state_dir, "backup", 1, 1, b"one\ntwo\nthree\n")
    write_output(state_dir, "report", 2, 1, b"first try\nno newline at the end")
    write_output(state_dir, "report", 2, 2, b"\x1b[2Jcleared\r\xff\n")
    return environment(tmp_path)


# --- history ------------------------------------------------------------------------------------


def test_history_tells_every_run_newest_first(env: dict[str, str]) -> None:
    """P1: each row has its outcome and reason; a stretch has its last due instant and count."""
    assert pycron("history", env=env).stdout.splitlines() == HISTORY


@pytest.mark.parametrize("arguments", [[], ["--json"], ["5"], ["report"], ["5", "--json"]])
def test_that_nobody_watches_what_runs_is_said(arguments: list[str], env: dict[str, str]) -> None:
    """P1: of a daemon that was killed, what it had running is not told as running and no more."""
    done = pycron("history", *arguments, env=env)
    assert done.stderr.startswith("pycron: no daemon is running: what has no outcome is shown as ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [["backup"], ["1"], ["--outcome", "failed"]])
def test_what_is_over_needs_nobody_to_watch_it(arguments: list[str], env: dict[str, str]) -> None:
    """Where all that is shown has its outcome nothing is said of the daemon."""
    assert pycron("history", *arguments, env=env).stderr == ""


def test_history_for_programs(env: dict[str, str]) -> None:
    """The keys of a run are as documented, instants in UTC, spans in seconds."""
    found = json.loads(pycron("history", "--json", env={**env, "TZ": "Asia/Tokyo"}).stdout)
    assert [run["run"] for run in found] == [5, 4, 3, 2, 1]
    assert found[2] == {
        "run": 3,
        "job": "backup",
        "due": "2026-03-01T12:20:00Z",
        "last_due": "2026-03-01T20:20:00Z",
        "count": 480,
        "cause": "schedule",
        "state": "done",
        "outcome": "missed",
        "reason": "pycron was not running",
        "claimed_at": "2026-03-01T12:20:00Z",
        "started_at": None,
        "finished_at": "2026-03-01T12:20:00Z",
        "retry_at": None,
        "late_seconds": None,
        "lag": None,
        "took_seconds": None,
        "attempts": [],
    }
    assert found[4]["late_seconds"] == 0.005
    assert [run["took_seconds"] for run in found] == [None, None, None, 120, 119.995]
    assert found[4]["attempts"] == [
        {
            "attempt": 1,
            "pid": 41,
            "started_at": "2026-03-01T12:00:00.005000Z",
            "finished_at": "2026-03-01T12:02:00Z",
            "outcome": "succeeded",
            "reason": None,
            "exit_code": 0,
            "signal": None,
            "cpu_seconds": 1.5,
            "peak_memory_bytes": None,
        }
    ]
    assert [attempt["signal"] for attempt in found[3]["attempts"]] == [None, 9]


@pytest.mark.parametrize(
    ("arguments", "runs"),
    [
        (["backup"], [4, 3, 1]),
        (["-n", "2"], [5, 4]),
        (["-n", "0"], [5, 4, 3, 2, 1]),
        (["--outcome", "failed"], [2]),
        (["--outcome", "missed", "--outcome", "skipped"], [4, 3]),
        (["--outcome", "Timed-Out"], []),
        (["--since", "2026-03-01 22:00"], [5, 4]),
        (["--since", "2026-03-01T13:10:00+01:00", "--until", "2026-03-01 12:21"], [3, 2]),
        (["--since", "now"], []),
        (["--until", "2026-03-01"], []),
    ],
)
def test_history_can_be_narrowed(
    arguments: list[str], runs: list[int], env: dict[str, str]
) -> None:
    """By job, number, outcome and time: from the one instant until before the other."""
    found = json.loads(in_place("history", "--json", *arguments, env=env).stdout)
    assert [run["run"] for run in found] == runs


def write_runs(state_dir: Path, *claims: Claim) -> None:
    """Write runs behind those that are in the ledger."""
    ledger = SqliteLedger.open(state_dir / "ledger.sqlite", now=T)
    ledger.write(claims, durable=True)
    ledger.close()


def settled(job: str, due: datetime, outcome: Outcome) -> Claim:
    """Return a run that is over, whenever it is due."""
    return Claim(job, 0, due, Cause.SCHEDULE, State.DONE, T, outcome=outcome)


def test_what_is_to_come_does_not_stay_on_top(env: dict[str, str], tmp_path: Path) -> None:
    """A task for a far day that was cancelled is shown by its name or with --until; what runs is.

    So are rows that were claimed a little ahead of their instant.
    """
    far = T + timedelta(days=36500)
    write_runs(
        tmp_path / "state",
        *(settled(f"task:{number}", far, Outcome.CANCELLED) for number in (1, 2, 3)),
        Claim("backup", 0, far, Cause.SCHEDULE, State.RUNNING, T,
              attempt=Attempt(1, begun_at=T)),
        settled("task:4", SystemClock().now() + timedelta(milliseconds=400), Outcome.SUCCEEDED),
    )  # fmt: skip

    def runs(*arguments: str) -> list[int]:
        return [run["run"] for run in json.loads(pycron("history", "--json", *arguments,
                                                        env=env).stdout)]  # fmt: skip

    assert runs() == [9, 10, 5, 4, 3, 2, 1]
    assert runs("-n", "3") == [9, 10, 5]
    assert runs("--outcome", "cancelled") == []
    assert runs("task:2") == [7]
    assert runs("--until", "2200-01-01", "-n", "2") == [9, 8]
    assert runs("--since", "2100-01-01") == [9, 8, 7, 6]


def test_what_a_clock_that_was_set_back_hides_is_told_of(
    env: dict[str, str], tmp_path: Path
) -> None:
    """P1: runs that began by a clock that was ahead are not left out in silence."""
    write_runs(tmp_path / "state", settled("backup", T + timedelta(days=36500), Outcome.SUCCEEDED))
    done = pycron("history", env=env)
    assert done.stdout.splitlines() == HISTORY
    assert "the clock was set back" in done.stderr
    assert "the clock was set back" not in pycron("history", "backup", env=env).stderr


def test_history_is_shown_in_the_zone_of_the_host(env: dict[str, str]) -> None:
    """With its offset, so that it says when it was."""
    text = pycron("history", "-n", "1", env={**env, "TZ": "Asia/Tokyo"}).stdout
    assert "2026-03-02 08:40:00+09:00" in text


def test_a_bad_zone_of_the_environment_is_told_once(env: dict[str, str]) -> None:
    """A TZ that names no zone is not UTC in silence: one warning, and the zone that counts."""
    done = pycron("history", "backup", env={**env, "TZ": "Europe/Berln"})
    assert done.stderr.count("\n") == 1
    assert "TZ='Europe/Berln' in the environment names no time zone" in done.stderr
    for good in ("Europe/Berlin", "", ":UTC"):
        assert pycron("history", "backup", env={**env, "TZ": good}).stderr == ""


def test_history_on_a_narrow_terminal(env: dict[str, str]) -> None:
    """At 60 columns due instants are brief, every column but the cause is there, reasons below."""
    text = without_colour(on_terminal("history", "backup", "-n", "2", env=env, columns=60))
    titles, *rows = text.replace(" 2026-", " ").splitlines()
    assert titles.split() == ["RUN", "JOB", "DUE", "LATE", "TOOK", "TRIES", "OUTCOME"]
    assert [" ".join(row.split()) for row in rows] == [
        "4 backup 03-01 22:00 skipped",
        "overlap: run 1 is running",
        "3 backup 03-01 12:20 missed",
        "480 occurrences until 03-01 20:20:00+00:00: pycron",
        "was not running",
    ]
    assert max(map(len, text.splitlines())) <= 60


def test_history_on_a_wide_terminal(env: dict[str, str]) -> None:
    """At 120 columns nothing is left out or shortened, and reasons stand beside their rows."""
    text = without_colour(on_terminal("history", "backup", "-n", "1", env=env, columns=120))
    titles, row = (line.split() for line in text.splitlines())
    assert titles == ["RUN", "JOB", "DUE", "LATE", "TOOK", "TRIES", "CAUSE", "OUTCOME", "REASON"]
    assert row[2:4] == ["2026-03-01", "22:00:00+00:00"]
    assert row[-4:] == ["run", "1", "is", "running"]


def test_history_of_a_job_that_is_none(env: dict[str, str]) -> None:
    """A name that neither ledger nor crontab knows is an error; one without runs is not."""
    assert "did you mean 'backup'?" in pycron("history", "bakup", env=env, check=2).stderr
    for name in ("task:abc", "Task:7"):
        done = pycron("history", name, env=env, check=2)
        assert done.stderr == f"pycron: {name!r} names no task; write task:NUMBER, as task:17\n"
    assert "there is no run 999, nor a job" in pycron("history", "999", env=env, check=2).stderr
    done = pycron("history", "off", env=env)
    assert (done.stdout, done.stderr) == ("", "pycron: no runs\n")
    assert pycron("history", "off", "--json", env=env).stdout == "[]\n"


def test_history_before_the_first_start(tmp_path: Path) -> None:
    """Without a ledger there is no history, which is no fault; nothing is made on the way."""
    done = pycron("history", "--json", env=environment(tmp_path))
    assert done.stdout == "[]\n"
    assert "no daemon has run on it yet" in done.stderr
    assert not (tmp_path / "state").exists()


def test_a_damaged_ledger_is_one_sentence(env: dict[str, str], tmp_path: Path) -> None:
    """P8: the exit code is 1, the file is named, and it is left as it is.

    Nobody is told to take it away: the daemon sets it aside, and carries over what can be read.
    """
    path = tmp_path / "state" / "ledger.sqlite"
    for leftover in path.parent.glob("ledger.sqlite-*"):
        leftover.unlink()
    path.write_bytes(b"junk" * 1000)
    for command in (["history"], ["logs", "backup"]):
        done = pycron(*command, env=env, check=1)
        assert str(path) in done.stderr
        assert "restart it: it sets the file aside" in done.stderr
        assert done.stderr.count("\n") == 1
    assert path.read_bytes() == b"junk" * 1000


# --- logs ---------------------------------------------------------------------------------------


def test_logs_of_a_run(env: dict[str, str]) -> None:
    """By the number of a run, or by a job: its last run that was attempted."""
    assert pycron("logs", "1", env=env).stdout == "one\ntwo\nthree\n"
    assert pycron("logs", "backup", env=env).stdout == "one\ntwo\nthree\n"
    assert pycron("logs", "1", "--tail", "2", env=env).stdout == "two\nthree\n"
    assert pycron("logs", "1", "-n", "0", env=env).stdout == ""


def test_logs_of_several_attempts(env: dict[str, str]) -> None:
    """P9: each has a heading and ends with a newline, and no escape reaches the terminal."""
    assert pycron("logs", "2", env=env).stdout == (
        "--- run 2 of report, attempt 1 ---\n"
        "first try\nno newline at the end\n"
        "--- run 2 of report, attempt 2 ---\n"
        "\\x1b[2Jcleared\\r\ufffd\n"
    )
    assert pycron("logs", "2", "--attempt", "1", "--tail", "1", env=env).stdout == (
        "no newline at the end\n"
    )
    done = pycron("logs", "2", "-a", "3", env=env, check=2)
    assert "run 2 of report has no attempt 3" in done.stderr


def test_raw_logs_are_the_bytes(env: dict[str, str], tmp_path: Path) -> None:
    """With --raw a program gets what was printed, byte for byte."""
    data = bytes(range(256)) * 1000
    write_output(tmp_path / "state", "backup", 1, 1, data)
    raw = subprocess.run([*PYCRON, "logs", "1", "--raw"], env=env, capture_output=True, check=True)
    assert raw.stdout == data
    lines = [*PYCRON, "logs", "1", "--raw", "--tail", "1"]
    raw = subprocess.run(lines, env=env, capture_output=True, check=True)
    assert raw.stdout == data[data.rindex(b"\n") + 1 :]


@pytest.mark.parametrize("options", [[], ["--raw"]])
def test_what_cannot_be_shown_is_no_fault_of_the_output(
    env: dict[str, str], tmp_path: Path, options: list[str]
) -> None:
    """``pycron logs big | head`` ends quietly; a full disk is told as that of standard output."""
    write_output(tmp_path / "state", "backup", 1, 1, b"line\n" * 100_000)
    command = shlex.join([*PYCRON, "logs", "1", *options])
    done = subprocess.run(
        ["sh", "-c", f"{command} | head -n 1"], env=env, capture_output=True, check=False, text=True
    )
    assert (done.stdout, done.stderr) == ("line\n", "")
    with Path("/dev/full").open("wb") as full:
        failed = subprocess.run(
            [*PYCRON, "logs", "1", *options], env=env, stdout=full, stderr=subprocess.PIPE,
            check=False, text=True,
        )  # fmt: skip
    assert failed.returncode == 1
    assert failed.stderr.startswith("pycron: output: No space left on device")


def test_logs_of_what_never_ran_or_is_gone(env: dict[str, str], tmp_path: Path) -> None:
    """The reason is told, and none of it is an error."""
    done = pycron("logs", "4", env=env)
    assert (done.stdout, done.stderr) == (
        "",
        "pycron: run 4 of backup has printed nothing: it is skipped, overlap: run 1 is running\n",
    )
    output_path(tmp_path / "state", "backup", 1, 1).unlink()
    done = pycron("logs", "1", env=env)
    assert done.stdout == ""
    assert done.stderr == (
        "pycron: the output of run 1 of backup is not kept any more: it was let go by the job's "
        "keep.bytes, or removed\n"
    )
    output_path(tmp_path / "state", "report", 2, 1).unlink()
    done = pycron("logs", "2", "--attempt", "1", env=env)
    assert done.stdout == ""
    assert done.stderr == (
        "pycron: the output of run 2 of report, attempt 1, was discarded, as its job has "
        'output = "discard"\n'
    )


def test_logs_of_a_file_with_a_hole(env: dict[str, str], tmp_path: Path) -> None:
    """What was left out of a file is one line, in any form, and not as many NULs."""
    path = write_output(tmp_path / "state", "backup", 1, 1, b"a" * 4096)
    with path.open("r+b") as file:
        file.truncate(4096 + 1_000_000_000 // 4096 * 4096)
        file.seek(0, os.SEEK_END)
        file.write(b"end\n")
    left_out = path.stat().st_size - 4096 - 4
    expected = f"{'a' * 4096}\n[pycron: {left_out} bytes left out here]\nend\n"
    assert pycron("logs", "1", env=env).stdout == expected
    assert pycron("logs", "1", "--raw", env=env).stdout == expected
    assert pycron("logs", "1", "-f", env=env).stdout == expected
    for number, lines in ((1, 1), (2, 2), (3, 3), (4, 3)):
        shown = pycron("logs", "1", "--tail", str(number), env=env).stdout
        assert shown.splitlines() == expected.splitlines()[3 - lines :]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("99", "there is no run 99"),
        ("9" * 30, "there is no run 999"),
        ("off", "job off has not run yet; pycron next tells when jobs are due"),
        ("bakup", "did you mean 'backup'?"),
        ("../../etc/passwd", "there is no job '../../etc/passwd'"),
    ],
)
def test_logs_of_nothing(target: str, words: str, env: dict[str, str]) -> None:
    """What cannot be found is a usage error that says what is known."""
    assert words in in_place("logs", target, env=env, check=2).stderr


def test_following_without_a_daemon_shows_what_there_is(
    env: dict[str, str], tmp_path: Path
) -> None:
    """A run that has ended is shown and that is all; of one that seems alive no more will come."""
    assert pycron("logs", "1", "-f", env=env).stdout == "one\ntwo\nthree\n"
    assert pycron("logs", "1", "-f", "--tail", "1", env=env).stdout == "three\n"
    write_output(tmp_path / "state", "report", 5, 1, b"so far\n")
    done = pycron("logs", "5", "-f", env=env)
    assert done.stdout == "so far\n"
    assert "no daemon is running" in done.stderr


def test_a_run_that_has_printed_nothing_is_told_as_such(
    env: dict[str, str], tmp_path: Path
) -> None:
    """On standard error, so that nobody waits for what does not come; --tail 0 asks for nothing."""
    write_output(tmp_path / "state", "backup", 1, 1, b"")
    done = pycron("logs", "1", env=env)
    assert (done.stdout, done.stderr) == ("", "pycron: run 1 of backup has printed nothing\n")
    write_output(tmp_path / "state", "report", 2, 2, b"")
    told = "pycron: run 2 of report, attempt 2, has printed nothing\n"
    assert pycron("logs", "2", env=env).stderr == told
    write_output(tmp_path / "state", "report", 5, 1, b"")
    told = "pycron: run 5 of report has printed nothing yet\n"
    assert pycron("logs", "5", "--raw", env=env).stderr == told


def test_a_run_that_could_not_start_has_no_output(env: dict[str, str], tmp_path: Path) -> None:
    """No file is named that was never made; of a run that started it is."""
    unstarted = Attempt(
        1, T, outcome=Outcome.FAILED, reason="no such file or directory: backup", output="/x/y.log"
    )
    write_runs(
        tmp_path / "state",
        Claim("backup", 0, minutes(800), Cause.SCHEDULE, State.DONE, T,
              outcome=Outcome.FAILED, attempt=unstarted),
    )  # fmt: skip
    shown = pycron("history", "6", env=env).stdout
    assert "    reason   no such file or directory: backup\n" in shown
    assert "/x/y.log" not in shown
    assert "    output   as the daemon noted it\n" in pycron("history", "1", env=env).stdout


# --- list ---------------------------------------------------------------------------------------


@needs_setpriv
def test_list_of_a_daemon_of_another_user(env: dict[str, str], tmp_path: Path) -> None:
    """P9: what the crontab alone tells is listed; the rest is unknown, and the way out is told."""
    state = tmp_path / "state"
    state.chmod(0o700)
    os.chown(state, 65534, -1)
    (tmp_path / "crontab.toml").write_text(
        '[jobs.often]\nevery = "1h"\ncommand = "true"\n'
        '[jobs.daily]\nschedule = "@daily"\ncommand = "true"\n'
        '[jobs.off]\nschedule = "@daily"\ncommand = "true"\nenabled = false\n'
    )
    done = pycron("list", "--json", env=env, under=LOCKED_OUT)
    jobs = {job["job"]: job for job in json.loads(done.stdout)}
    assert {name: job["state"] for name, job in jobs.items()} == {
        "often": "unknown",
        "daily": "unknown",
        "off": "disabled",
    }
    assert [name for name, job in jobs.items() if job["next_due"]] == ["daily"]
    way_out = f"be {pwd.getpwuid(65534).pw_name} or root for that, or name another --state-dir"
    assert done.stderr == (
        f"pycron: warning: you may not read the ledger {state}/ledger.sqlite; {way_out}\n"
        f"pycron: you may not talk to the daemon at {state}/control.sock; {way_out}; "
        "this is from the crontab alone\n"
    )
    table = pycron("list", env=env, under=LOCKED_OUT).stdout.splitlines()
    assert table[1].split() == ["often", "every", "1h", "-", "?", "unknown"]


def test_list_without_a_daemon(env: dict[str, str]) -> None:
    """Each job of the crontab is there with its last outcome, and where it comes from is said."""
    done = pycron("list", "--json", env=env)
    assert done.stderr == "pycron: no daemon is running: this is from the crontab and the ledger\n"
    found = {job["job"]: job for job in json.loads(done.stdout)}
    assert list(found) == ["backup", "report", "off", "new"]
    assert found["backup"]["schedule"] == "30 2 * * *"
    assert found["backup"]["timezone"] == "Europe/Berlin"
    assert found["backup"]["state"] == "idle"
    assert found["backup"]["last"]["outcome"] == "succeeded"
    assert found["backup"]["next_due"].endswith((":30:00Z",))
    assert found["report"]["state"] == "running"
    assert [run["run"] for run in found["report"]["active"]] == [5]
    assert (found["off"]["state"], found["off"]["next_due"]) == ("disabled", None)
    assert found["new"]["last"] is None


def test_what_a_job_is_doing_is_told_by_state() -> None:
    """What waits is not told as running, however many runs of each kind there are."""
    states = [State.QUEUED, State.RUNNING, State.QUEUED]
    job = SimpleNamespace(active=[SimpleNamespace(state=state) for state in states], enabled=True)
    assert doing(cast("JobView", job)) == "running, queued (2)"


def test_list_on_a_narrow_terminal(env: dict[str, str]) -> None:
    """At 60 columns no line is longer, and how each job last went is there."""
    lines = without_colour(on_terminal("list", env=env, columns=60)).splitlines()[-5:]
    assert lines[0].split() == ["JOB", "NEXT", "DUE", "IN", "LAST", "STATE"]
    assert [line.split()[0] for line in lines[1:]] == ["backup", "report", "off", "new"]
    assert max(map(len, lines)) <= 60


def test_list_of_another_crontab(env: dict[str, str], tmp_path: Path) -> None:
    """--crontab and --state-dir go before the environment."""
    other = tmp_path / "other.toml"
    other.write_text('[jobs.only]\nevery = "1h"\ncommand = "true"\n')
    arguments = ["--crontab", str(other), "--state-dir", str(tmp_path / "elsewhere")]
    found = json.loads(pycron("list", "--json", *arguments, env=env).stdout)
    assert [job["job"] for job in found] == ["only"]


def test_list_of_no_jobs_or_no_crontab(tmp_path: Path) -> None:
    """A crontab that is not there is refused as a bad one is, with the code for that."""
    done = pycron("list", env=environment(tmp_path), check=78)
    assert f"{tmp_path}/crontab.toml: there is no such file" in done.stderr


def test_history_of_one_run(env: dict[str, str]) -> None:
    """All that is known of a run is shown: its reason, and each attempt with its end."""
    shown = pycron("history", "2", env=env).stdout
    assert shown.startswith("run 2 of report: failed\n")
    assert "  due        2026-03-01 12:10:00+00:00 (catch_up)\n" in shown
    assert shown.count("  attempt ") == 2
    assert "  took       2m in all attempts together\n" in shown
    assert "signal 9 (SIGKILL)" in shown
    (record,) = json.loads(pycron("history", "2", "--json", env=env).stdout)
    assert (record["run"], len(record["attempts"])) == (2, 2)


def test_what_is_waited_for_other_jobs_makes_no_run_late(
    env: dict[str, str], tmp_path: Path
) -> None:
    """It is told beside, in words; for programs the rest of the parts is what it was late by."""
    spans = {"dispatch": 2, "dependency": 3012, "overlap": 0, "pool": 40, "spawn": 1}
    lag = Lag(**{name: timedelta(milliseconds=span) for name, span in spans.items()})
    begun = Attempt(1, begun_at=minutes(800), pid=45, started_at=minutes(800.1), lag=lag)
    follower = Claim(
        "report", 0, minutes(800), Cause.UPSTREAM, State.RUNNING, minutes(800), attempt=begun
    )
    write_runs(tmp_path / "state", follower)
    assert (
        "  late       43ms; waited 40ms for a slot, 2ms for pycron, 1ms for the system;"
        " not counted: 3.0s for jobs that it follows"
    ) in pycron("history", "6", env=env).stdout.splitlines()
    (row,) = json.loads(pycron("history", "6", "--json", env=env).stdout)
    parts = row["lag"]
    assert row["late_seconds"] == pytest.approx(sum(parts.values()) - parts["dependency"])


@pytest.mark.parametrize(
    ("cause", "late_seconds"), [(Cause.UPSTREAM, 6), (Cause.CATCH_UP, 6), (Cause.SCHEDULE, 1806)]
)
def test_how_late_a_run_was_whose_start_a_crash_took(
    env: dict[str, str], tmp_path: Path, cause: Cause, late_seconds: float
) -> None:
    """Half an hour for the job before it, or of a time down, makes no run late that was not due."""
    begun = Attempt(1, begun_at=minutes(830), pid=45, started_at=minutes(830.1))
    run = Claim("report", 0, minutes(800), cause, State.RUNNING, minutes(830), attempt=begun)
    write_runs(tmp_path / "state", run)
    (row,) = json.loads(pycron("history", "6", "--json", env=env).stdout)
    assert row["late_seconds"] == pytest.approx(late_seconds)


def test_a_stretch_is_shown_as_one(env: dict[str, str]) -> None:
    """A row that stands for several says for how many, and until when."""
    shown = pycron("history", "3", env=env).stdout
    assert "  stands for 480 occurrences until 2026-03-01 20:20:00+00:00\n" in shown
