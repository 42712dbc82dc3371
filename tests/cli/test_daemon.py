"""The commands that talk to a daemon, with a real one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import crond_py
from tests.cli.program import PYCRON, environment, in_place, pycron
from tests.cli.running import running

CRONTAB = """\
timezone = "Europe/Berlin"
[pools.small]
workers = 1
[defaults]
kill_after = "1h"
[jobs.good]
schedule = "0 0 1 1 *"
command = "echo well done"
[jobs.bad]
schedule = "0 0 1 1 *"
command = "exit 3"
[jobs.slow]
schedule = "0 0 1 1 *"
pool = "small"
command = "echo began; read go < fifo; echo ended"
cwd = "HOME"
[jobs.tree]
schedule = "0 0 1 1 *"
command = "setsid sh -c 'echo $$ > child; exec sleep 1000' & wait"
cwd = "HOME"
[jobs.stubborn]
schedule = "0 0 1 1 *"
command = "trap '' TERM; echo up > up; read go < fifo"
cwd = "HOME"
[jobs.off]
schedule = "@daily"
command = "true"
enabled = false
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a crontab."""
    (tmp_path / "crontab.toml").write_text(CRONTAB.replace("HOME", str(tmp_path)))
    for name in ("fifo", "child", "up"):
        os.mkfifo(tmp_path / name)
    return environment(tmp_path)


@pytest.fixture
def daemon(env: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a daemon for one test."""
    with running(env) as process:
        yield process


def is_alive(pid: int) -> bool:
    """Tell whether a process runs; one that nobody has waited for yet does not."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


pytestmark = pytest.mark.usefixtures("daemon")


# --- status, list -------------------------------------------------------------------------------


def test_status(env: dict[str, str], daemon: subprocess.Popen[bytes]) -> None:
    """Process, crontab, jobs and what comes next, in lines that can be searched."""
    lines = pycron("status", env=env).stdout.splitlines()
    assert lines[0] == f"pycron {crond_py.__version__} is running, process {daemon.pid}"
    assert f"  crontab  {env['PYCRON_CRONTAB']}" in lines
    assert "  jobs     6, 1 of them disabled" in lines
    assert any(line.startswith("  next     good ") for line in lines)


def test_status_for_programs(env: dict[str, str], daemon: subprocess.Popen[bytes]) -> None:
    """The keys are as documented, with the runs that are active."""
    run_id = int(in_place("trigger", "slow", env=env).stdout)
    answer = json.loads(pycron("status", "--json", env=env).stdout)
    assert answer["pid"] == daemon.pid
    assert (answer["jobs"], answer["enabled_jobs"], answer["stopping"]) == (6, 5, False)
    assert [run["run"] for run in answer["active"]] == [run_id]
    (pool,) = [pool for pool in answer["pools"] if pool["pool"] == "small"]
    assert (pool["workers"], pool["running"], pool["waiting"]) == (1, 1, 0)
    assert pool["oldest_waiting_seconds"] is None
    assert set(pool["lag"]) == {"last", "p50", "p99", "max", "count", "causes"}
    assert answer["troubles"] == []
    assert answer["next_due"].endswith("Z")


def test_list_asks_the_daemon(env: dict[str, str], tmp_path: Path) -> None:
    """What it does now is there, without a note; with a crontab of one's own it is not asked."""
    in_place("trigger", "slow", env=env)
    done = pycron("list", "--json", env=env)
    assert done.stderr == ""
    states = {job["job"]: job["state"] for job in json.loads(done.stdout)}
    assert (states["slow"], states["good"], states["off"]) == ("running", "idle", "disabled")
    other = tmp_path / "other.toml"
    other.write_text('[jobs.only]\nevery = "1h"\ncommand = "true"\n')
    done = pycron("list", "-c", str(other), "--json", env=env)
    assert [job["job"] for job in json.loads(done.stdout)] == ["only"]
    assert "the daemon has another crontab" in done.stderr


# --- next ---------------------------------------------------------------------------------------


def test_next_is_of_the_crontab_that_the_daemon_has(env: dict[str, str], tmp_path: Path) -> None:
    """Where nobody names a crontab it is the one whose jobs are run; an option goes before that."""
    unnamed = {name: value for name, value in env.items() if name != "PYCRON_CRONTAB"}
    found = json.loads(pycron("next", "off", "-n", "1", "--json", env=unnamed).stdout)
    assert [item["job"] for item in found] == ["off"]
    assert "did you mean 'off'?" in pycron("next", "of", env=unnamed, check=2).stderr
    assert "did you mean 'good'?" in pycron("history", "goood", env=unnamed, check=2).stderr
    other = tmp_path / "other.toml"
    other.write_text('[jobs.only]\nevery = "1h"\ncommand = "true"\n')
    for named in ({**env, "PYCRON_CRONTAB": str(other)}, env):
        option = [] if named is not env else ["-c", str(other)]
        found = json.loads(pycron("next", "-n", "1", "--json", *option, env=named).stdout)
        assert [item["job"] for item in found] == ["only"]


def test_next_does_without_a_daemon_that_does_not_answer(
    env: dict[str, str], daemon: subprocess.Popen[bytes]
) -> None:
    """P4: one that is stopped or stuck keeps nobody from an answer for long."""
    unnamed = {name: value for name, value in env.items() if name != "PYCRON_CRONTAB"}
    daemon.send_signal(signal.SIGSTOP)
    try:
        done = pycron("next", env=unnamed, check=78)
    finally:
        daemon.send_signal(signal.SIGCONT)
    assert "there is no such file" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (["trigger", "good", "--wait", "--timeout", "1s"], ", and may yet do what was asked for"),
        (["stop", "--timeout", "10ms"], ", and may yet do what was asked for"),
    ],
)
def test_no_answer_is_no_refusal(
    arguments: list[str], more: str, env: dict[str, str], daemon: subprocess.Popen[bytes]
) -> None:
    """Who waits for no longer than a second is told by then that it may be done all the same."""
    daemon.send_signal(signal.SIGSTOP)
    try:
        done = pycron(*arguments, env=env, check=1)
    finally:
        daemon.send_signal(signal.SIGCONT)
    assert f"has not answered within 1 seconds; it may be stopped or stuck{more}\n" in done.stderr


# --- trigger ------------------------------------------------------------------------------------


def test_trigger_prints_the_number_of_the_run(env: dict[str, str]) -> None:
    """Nothing else is on standard output, so that a script can use it."""
    run_id = pycron("trigger", "good", env=env).stdout
    assert run_id == f"{int(run_id)}\n"
    assert json.loads(pycron("trigger", "bad", "--json", env=env).stdout) == {
        "run": int(run_id) + 1,
        "job": "bad",
    }


def test_trigger_can_wait_for_the_outcome(env: dict[str, str]) -> None:
    """The exit code is that of the outcome, and the output is there afterwards."""
    run = json.loads(pycron("trigger", "good", "--wait", "--json", env=env).stdout)
    assert (run["outcome"], run["cause"]) == ("succeeded", "manual")
    assert pycron("logs", str(run["run"]), env=env).stdout == "well done\n"
    done = pycron("trigger", "bad", "--wait", env=env, check=1)
    assert "of bad failed after " in done.stdout
    assert done.stdout.endswith(": exit status 3\n")


def test_trigger_waits_no_longer_than_it_is_told(env: dict[str, str]) -> None:
    """The run goes on, the exit code is 1."""
    done = pycron("trigger", "slow", "--wait", "--timeout", "50ms", env=env, check=1)
    assert "has not ended within 50ms; it goes on" in done.stderr
    assert "needs --wait" in pycron("trigger", "slow", "--timeout", "1s", env=env, check=2).stderr


def test_trigger_obeys_the_overlap_policy(env: dict[str, str]) -> None:
    """P5: a second run is refused with the reason, unless it is forced."""
    pycron("trigger", "tree", env=env)
    done = pycron("trigger", "tree", env=env, check=1)
    assert "job tree is not run, " in done.stderr
    assert "--force" in done.stderr
    pycron("trigger", "tree", "--force", env=env)


def test_trigger_of_no_job(env: dict[str, str]) -> None:
    """An unknown name is a usage error, with the name that was probably meant."""
    assert "'nope'" in pycron("trigger", "nope", env=env, check=2).stderr
    done = pycron("trigger", "goood", env=env, check=2)
    assert "no job named 'goood' in the crontab in force; did you mean 'good'?" in done.stderr


def test_ctrl_c_ends_the_waiting_and_not_the_run(env: dict[str, str], tmp_path: Path) -> None:
    """The run is the daemon's, not the command's."""
    with subprocess.Popen([*PYCRON, "trigger", "slow", "--wait"], env=env) as waiting:
        with (tmp_path / "fifo").open("w"):  # opens once the job reads it
            pass
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait(60) == 130
    (run,) = json.loads(in_place("history", "slow", "--json", env=env).stdout)
    assert run["outcome"] != "cancelled"


# --- cancel -------------------------------------------------------------------------------------


def test_cancel_ends_the_whole_tree(env: dict[str, str], tmp_path: Path) -> None:
    """P6: when it says that all processes have ended, a child in another session has."""
    run_id = in_place("trigger", "tree", env=env).stdout.strip()
    child = int((tmp_path / "child").read_text())
    assert is_alive(child)
    assert pycron("cancel", run_id, env=env).stdout == (
        f"run {run_id} of tree: cancelled, all its processes have ended\n"
    )
    assert not is_alive(child)
    (run,) = json.loads(in_place("history", "tree", "--json", env=env).stdout)
    assert run["outcome"] == "cancelled"


def test_cancel_of_a_job_ends_every_run(env: dict[str, str]) -> None:
    """Those that run and those that wait, each with its own line."""
    first = int(in_place("trigger", "slow", env=env).stdout)
    second = int(in_place("trigger", "slow", "--force", env=env).stdout)
    found = json.loads(pycron("cancel", "slow", "--json", env=env).stdout)
    assert {(run["run"], run["was"], run["ended"], run["outcome"]) for run in found} == {
        (first, "running", True, "cancelled"),
        (second, "queued", True, "cancelled"),
    }


def test_cancel_says_when_something_is_still_alive(env: dict[str, str], tmp_path: Path) -> None:
    """P6: it never claims more than is so; the exit code is 1."""
    in_place("trigger", "stubborn", env=env)
    (tmp_path / "up").read_text()
    done = pycron("cancel", "stubborn", "--no-wait", env=env)
    assert done.stdout.endswith("of stubborn: told to end; SIGKILL follows within 1h\n")
    done = pycron("cancel", "stubborn", "--timeout", "50ms", env=env, check=1)
    assert "of stubborn: still ending after " in done.stderr
    assert "SIGKILL follows within 59m" in done.stderr
    (tmp_path / "fifo").write_text("go\n")


def test_cancel_of_nothing(env: dict[str, str]) -> None:
    """It is told apart: nothing to end, no such job, no such run."""
    for target, code, words in (
        ("good", 1, "job good has no run that could be ended"),
        ("nope", 2, "no job named 'nope'"),
        ("Task:7", 2, "'Task:7' names no task; write task:NUMBER"),
        ("stuborn", 2, "did you mean 'stubborn'?"),
        ("99", 2, "there is no run 99"),
        ("9" * 30, 2, "there is no run 999"),
    ):
        assert words in pycron("cancel", target, env=env, check=code).stderr


def test_cancel_of_a_run_that_has_ended(env: dict[str, str]) -> None:
    """Its outcome is told and stays."""
    run = json.loads(in_place("trigger", "good", "--wait", "--json", env=env).stdout)
    done = pycron("cancel", str(run["run"]), env=env, check=1)
    assert "has ended already: succeeded" in done.stderr


# --- logs -f ------------------------------------------------------------------------------------


def test_following_a_run_until_it_ends(env: dict[str, str], tmp_path: Path) -> None:
    """What is printed is shown when it is printed, and the command ends with the run."""
    run_id = in_place("trigger", "slow", env=env).stdout.strip()
    with subprocess.Popen(
        [*PYCRON, "logs", run_id, "-f"], env=env, stdout=subprocess.PIPE, text=True
    ) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == "began\n"
        (tmp_path / "fifo").write_text("go\n")
        assert follower.stdout.read() == "ended\n"
        assert follower.wait(60) == 0


@pytest.mark.usefixtures("env")
def test_following_into_the_next_attempt(tmp_path: Path) -> None:
    """A retry is followed as well, under its heading."""
    (tmp_path / "crontab.toml").write_text(
        '[jobs.twice]\nschedule = "0 0 1 1 *"\n'
        'command = "echo try $PYCRON_ATTEMPT; read go < fifo; exit 1"\n'
        f'cwd = "{tmp_path}"\nretry = {{ attempts = 2, delay = "1ms" }}\n'
    )
    env = environment(tmp_path, PYCRON_STATE_DIR=str(tmp_path / "state-2"))
    (tmp_path / "state-2").mkdir()
    with running(env):
        run_id = in_place("trigger", "twice", env=env).stdout.strip()
        with subprocess.Popen(
            [*PYCRON, "logs", run_id, "-f"], env=env, stdout=subprocess.PIPE, text=True
        ) as follower:
            assert follower.stdout is not None
            assert follower.stdout.readline() == "try 1\n"
            (tmp_path / "fifo").write_text("go\n")
            assert follower.stdout.readline() == f"--- run {run_id} of twice, attempt 2 ---\n"
            assert follower.stdout.readline() == "try 2\n"
            (tmp_path / "fifo").write_text("go\n")
            assert follower.stdout.read() == ""
            assert follower.wait(60) == 0


# --- reload -------------------------------------------------------------------------------------


def test_reload_says_what_has_changed(env: dict[str, str], tmp_path: Path) -> None:
    """Names of jobs that came, went or are other than before."""
    assert pycron("reload", env=env).stdout == "nothing has changed in 6 jobs\n"
    path = tmp_path / "crontab.toml"
    text = path.read_text().replace("[jobs.off]", "[jobs.on]").replace("well done", "done well")
    path.write_text(text)
    assert pycron("reload", env=env).stdout.splitlines() == [
        "added: on",
        "removed: off",
        "changed: good",
    ]
    assert json.loads(pycron("reload", "--json", env=env).stdout) == {
        "added": [],
        "removed": [],
        "changed": [],
        "unchanged": 6,
        "pools": {"added": [], "removed": [], "changed": []},
        "groups": {"added": [], "removed": [], "changed": []},
    }


def test_reload_says_what_has_changed_of_pools_and_groups(
    env: dict[str, str], tmp_path: Path
) -> None:
    """And that stored tasks wait for a pool that is gone, which ``check`` has told before."""
    path, good = tmp_path / "crontab.toml", (tmp_path / "crontab.toml").read_text()
    path.write_text(f"{good}[pools.b]\nworkers = 1\n[groups.g]\nweight = 2\n")
    assert pycron("reload", env=env).stdout == "pools added: b\ngroups added: g\n"
    in_place("in", "1h", "--pool", "b", "--", "true", env=env)
    path.write_text(good.replace("workers = 1", "workers = 2\nlag_warning = '5s'"))
    waits = (
        "submitted tasks (1) wait for the pool b, which is not in the crontab; "
        "add [pools.b] with workers, or cancel them\n"
    )
    assert pycron("check", env=env).stderr == f"pycron: warning: {waits}"
    done = pycron("reload", env=env)
    assert done.stdout.splitlines() == [
        "pools removed: b",
        "pools changed: small",
        "groups removed: g",
    ]
    assert done.stderr == f"pycron: trouble: {waits}"
    other = tmp_path / "other.toml"
    other.write_text(path.read_text())
    assert pycron("check", str(other), env=env).stderr == ""


def test_check_counts_what_the_daemon_has_taken_up(env: dict[str, str], tmp_path: Path) -> None:
    """A task that waits for its retry or a slot waits for the pool, too; one that runs does not."""
    path, good = tmp_path / "crontab.toml", (tmp_path / "crontab.toml").read_text()
    path.write_text(f"{good}[pools.b]\nworkers = 1\n")
    pycron("reload", env=env)
    up = f"echo up > {tmp_path / 'up'}"
    retry = ("-s", 'retry={attempts=2, delay="1h"}')
    in_place("in", "0s", "--pool", "b", *retry, "--", f"{up}; false", env=env)
    assert (tmp_path / "up").read_text() == "up\n"
    in_place("in", "0s", "--pool", "b", "--", f"{up}; exec sleep 1000", env=env)
    assert (tmp_path / "up").read_text() == "up\n"  # so the first one has ended
    in_place("in", "0s", "--pool", "b", "--", "true", env=env)
    in_place("every", "1h", "--pool", "b", "--", "true", env=env)
    path.write_text(good)
    waits = "submitted tasks (3) wait for the pool b, which is not in the crontab"
    assert waits in pycron("check", env=env).stderr
    assert waits in pycron("reload", env=env).stderr
    assert waits in pycron("check", env=env).stderr


def test_a_bad_crontab_is_not_taken(env: dict[str, str], tmp_path: Path) -> None:
    """P7: every fault is told to who asked, exit code 78, and the daemon keeps what it has."""
    path = tmp_path / "crontab.toml"
    path.write_text('[jobs.a]\ncommand = "x"\noverlpa = "skip"\n')
    done = pycron("reload", env=env, check=78)
    assert f"{path}:1: jobs.a:" in done.stderr
    assert f"{path}:3: jobs.a.overlpa:" in done.stderr
    found = json.loads(in_place("list", "--json", env=env).stdout)
    assert [job["job"] for job in found] == ["good", "bad", "slow", "tree", "stubborn", "off"]


# --- stop ---------------------------------------------------------------------------------------


def test_stop_waits_until_the_daemon_is_gone(
    env: dict[str, str], daemon: subprocess.Popen[bytes]
) -> None:
    """When the command has ended there is no daemon any more, and it left with 0."""
    assert pycron("stop", env=env).stdout == f"the daemon (process {daemon.pid}) has stopped\n"
    assert daemon.wait(60) == 0
    pycron("stop", env=env, check=3)


def test_stop_now_ends_what_runs(env: dict[str, str], tmp_path: Path) -> None:
    """P6: the run is recorded as cancelled and nothing of it is left."""
    in_place("trigger", "tree", env=env)
    child = int((tmp_path / "child").read_text())
    answer = json.loads(pycron("stop", "--now", "--json", env=env).stdout)
    assert answer["stopped"] is True
    assert not is_alive(child)
    (run,) = json.loads(in_place("history", "tree", "--json", env=env).stdout)
    assert run["outcome"] == "cancelled"


def test_stop_waits_no_longer_than_it_is_told(env: dict[str, str]) -> None:
    """While a job runs the daemon waits for it; the command need not."""
    in_place("trigger", "slow", env=env)
    done = pycron("stop", "--timeout", "50ms", env=env, check=1)
    assert "has not ended within 50ms" in done.stderr
    assert pycron("status", env=env).stdout.startswith(f"pycron {crond_py.__version__} is stopping")
    done = pycron("trigger", "good", env=env, check=1)
    assert "pycron is stopping" in done.stderr


def test_stop_need_not_wait(env: dict[str, str], daemon: subprocess.Popen[bytes]) -> None:
    """It says that the daemon is stopping, and not that it has."""
    in_place("trigger", "slow", env=env)
    done = pycron("stop", "--no-wait", env=env)
    assert done.stdout == f"the daemon (process {daemon.pid}) is stopping\n"
    assert daemon.poll() is None
