"""Handing in tasks on the command line: what reaches the daemon, and what is said of it."""

from __future__ import annotations

import getpass
import json
import os
import pwd
import select
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from crond_py import Client, TaskRefusedError
from crond_py.cli import submit as submit_module
from crond_py.clock import SystemClock
from crond_py.control import client as client_module
from crond_py.control.address import Peer
from crond_py.control.batches import LONGEST_TASK
from crond_py.control.handlers import Handlers
from crond_py.control.protocol import MOST_TASKS
from crond_py.crontab import load_crontab
from crond_py.errors import LedgerError
from crond_py.model import Scale, Task
from crond_py.ports import NewTask, Submitted
from tests.cli.program import PYCRON, environment, in_place, on_terminal, pycron
from tests.cli.running import serving
from tests.support.inplace import run_in_place
from tests.unit.control.fakes import FakeEngine, FakeService

LOGIN = pwd.getpwuid(os.geteuid()).pw_name
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser has callers of sudo")


def settings(task: Task) -> dict[str, Any]:
    """Return what a stored task says of how it runs."""
    values: dict[str, Any] = json.loads(task.definition)
    return values


# --- one task -----------------------------------------------------------------------------------


def test_in_stores_a_task_and_says_when_it_is_due(env: dict[str, str], engine: FakeEngine) -> None:
    """The answer names the task as the other commands take it."""
    done = pycron("in", "10m", "--", "echo", "-n", "a b", env=env)
    (task,) = engine.tasks
    assert settings(task) == {"command": ["echo", "-n", "a b"], "cwd": str(Path.cwd())}
    assert task.lane.scale is Scale.STEADY
    assert task.submitted_by == task.lane.group == LOGIN
    due = task.due.replace(microsecond=0).isoformat(" ")
    assert done.stdout.startswith(f"task:1 is due {due} (in ")


def test_when_may_be_several_words(env: dict[str, str], engine: FakeEngine) -> None:
    """As at(1) takes them, and as pycron writes a duration; nothing of that is the command."""
    in_place("in", "1h", "30m", "--", "echo", "hi", env=env)
    in_place("at", "07:30", "tomorrow", "echo", "hi", env=env)
    now = SystemClock().now()
    tomorrow = now.astimezone().date() + timedelta(days=1)
    first, second = engine.tasks
    assert timedelta(minutes=89) < first.due - now <= timedelta(minutes=90)
    assert second.due.astimezone().date() == tomorrow
    assert [settings(each)["command"] for each in engine.tasks] == [["echo", "hi"]] * 2


def test_values_of_env_are_text(env: dict[str, str], engine: FakeEngine) -> None:
    """A shell takes the quotes away that TOML wants."""
    in_place("in", "1h", "-s", "env.PORT=8080", "-s", 'env.B="x y"', "--", "true", env=env)
    (task,) = engine.tasks
    assert settings(task)["env"] == {"PORT": "8080", "B": "x y"}


def test_one_word_is_a_command_line(env: dict[str, str], engine: FakeEngine) -> None:
    """It is for the shell, with all that it may have."""
    pycron("every", "5m", "--", "sort < in > out", env=env)
    (task,) = engine.tasks
    assert settings(task)["command"] == "sort < in > out"
    assert task.period == timedelta(minutes=5)


def test_at_reads_the_clock_of_the_caller(env: dict[str, str], engine: FakeEngine) -> None:
    """Without --timezone that of the machine, or of TZ; a day and a time are two words."""
    arguments = ("at", "2126-12-24", "18:00")
    pycron(*arguments, "--", "true", env={**env, "TZ": "Europe/Berlin"})
    pycron(*arguments, "--timezone", "America/New_York", "--", "true", env=env)
    assert [task.due for task in engine.tasks] == [
        datetime(2126, 12, 24, 17, 0, tzinfo=UTC),
        datetime(2126, 12, 24, 23, 0, tzinfo=UTC),
    ]
    assert {task.lane.scale for task in engine.tasks} == {Scale.WALL}


def test_options_and_settings_are_keys_of_the_task(env: dict[str, str], engine: FakeEngine) -> None:
    """A value that is no TOML is text, tables go together, --cwd may be relative."""
    pycron(
        "in", "0s", "--key", "k", "--timeout", "1h", "--pool", "default", "--cwd", "..",
        "-s", "priority=5", "-s", "overlap=queue", "-s", "umask=022", "--set", "env.A=1 2",
        "--set", 'env.B="x=y"', "-s", "retry={attempts=3, delay='5s'}", "--", "true",
        env=env,
    )  # fmt: skip
    (task,) = engine.tasks
    assert (task.key, task.lane.priority, task.lane.pool) == ("k", 5, "default")
    assert settings(task) == {
        "command": "true",
        "timeout": "1h",
        "cwd": str(Path.cwd().parent),
        "overlap": "queue",
        "umask": "022",
        "env": {"A": "1 2", "B": "x=y"},
        "retry": {"attempts": 3, "delay": "5s"},
    }


def test_what_is_not_there_is_warned_of(env: dict[str, str], engine: FakeEngine) -> None:
    """It is stored all the same: it may be there by then. What is there is not told of."""
    options = ("--user", "nosuchuser", "--cwd", "/nope", "-s", "shell=/bin/bsh")
    done = pycron("in", "1h", *options, "--", "/bin/nosuch", "x", env=env)
    assert done.stderr.splitlines() == [
        "pycron: warning: cwd /nope: there is no such directory",
        "pycron: warning: shell /bin/bsh: there is no such file",
        "pycron: warning: command /bin/nosuch: there is no such file",
        "pycron: warning: user nosuchuser: there is no such user",
    ]
    assert len(engine.tasks) == 1
    assert pycron("in", "1h", "--", "/bin/sh", "-c", "x", env=env).stderr == ""


def test_a_program_that_is_not_on_the_path_is_warned_of(
    env: dict[str, str], tmp_path: Path
) -> None:
    """That is the PATH of a job, not the caller's, or the task's own."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "poll"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    caller = {**env, "PATH": f"{tmp_path}/bin:{env['PATH']}"}
    usual = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    said = f"pycron: warning: command poll: it is not found on PATH ({usual})\n"
    own = ("-s", f"env.PATH={tmp_path}/bin")
    for options, command, expected in (
        ((), ("poll", "x"), said),
        ((), ("poll x",), said),
        ((), ("poll x | cat",), ""),
        ((), ("echo", "x"), ""),
        (("-s", "shell=/bin/bash"), ("poll x",), ""),
        (own, ("poll",), ""),
        (own, ("sort",), said.replace(usual, f"{tmp_path}/bin").replace("poll", "sort")),
        (("-s", f"env_file={program}"), ("poll",), ""),
        (("-s", "env.PATH=bin"), ("poll",), said.replace(usual, "bin")),
        (("-s", "env.PATH=bin", "--cwd", str(tmp_path)), ("poll",), ""),
    ):
        done = in_place("in", "1h", *options, "--", *command, env=caller)
        assert done.stderr == expected, (options, command)


def test_what_a_file_or_a_shell_of_the_defaults_may_find_is_not_warned_of(
    tmp_path: Path, engine: FakeEngine
) -> None:
    """Nobody knows before it runs; a PATH of the defaults is known."""
    env = environment(tmp_path)
    lines = ('env_file = "/etc/environment"', 'shell = "/bin/bash"', "")
    for number, text in enumerate(
        (*(f"[defaults]\n{line}\n" for line in lines), '[env]\nPATH="/"')
    ):
        file = tmp_path / f"{number}.toml"
        file.write_text(f"{text}\n[jobs]\n")
        service = FakeService(crontab=load_crontab(file))
        with serving(env, Handlers(engine, service, SystemClock())):
            done = in_place("in", "1h", "--", "nosuchprogram", env=env)
        assert ("nosuchprogram: it is not found on PATH" in done.stderr) == (number > 1)
    assert "on PATH (/)" in done.stderr


def test_a_user_that_the_daemon_cannot_become_is_warned_of(
    env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a daemon of root can run anything as another user; each can as its own."""
    nobody = pwd.getpwnam("nobody").pw_uid
    monkeypatch.setattr(client_module, "peer_of", lambda _: Peer(1, nobody))
    warning = "pycron: warning: user root: only a daemon of root can run jobs as another user\n"
    for user, said in (("root", warning), ("nobody", ""), (str(nobody), "")):
        assert in_place("in", "1h", "--user", user, "--", "true", env=env).stderr == said
    monkeypatch.undo()
    said = in_place("in", "1h", "--user", "nobody", "--", "true", env=env).stderr
    assert said == "" or os.geteuid() != 0


def test_what_is_said_in_vain_is_warned_of(tmp_path: Path, engine: FakeEngine) -> None:
    """As check does for jobs: by the task's own keys and what it inherits, each once in a file."""
    env = environment(tmp_path)
    file = tmp_path / "c.toml"
    file.write_text('[defaults]\nmissed = "skip"\n[groups.reports]\nweight = 2\n[jobs]\n')
    service = FakeService(crontab=load_crontab(file))
    queue = 'queue_limit has no effect without overlap = "queue"'
    within = 'missed_within has no effect without missed = "once" or missed = "all"'
    group = 'group reprots has no table [groups.reprots], and so weight 1; did you mean "reports"?'
    shell = "command: an array has no shell, so | is an argument; "
    shell += "if it is meant for one, write it all as text"
    lines = (
        {"command": "true", "in": "1h", "overlap": "queue", "queue_limit": 3, "group": "reports"},
        {"command": "true", "in": "1h", "queue_limit": 3, "group": "others"},
        {"command": ["true", "|", "cat"], "in": "1h", "queue_limit": 4, "group": "reprots"},
        {"command": "true", "in": "1h", "missed_within": "1h"},
        {"command": "true", "in": "1h", "missed_within": "1h", "missed": "all"},
    )
    (tmp_path / "tasks").write_text("\n".join(map(json.dumps, lines)))
    with serving(env, Handlers(engine, service, SystemClock())):
        vain = ("-s", "queue_limit=3", "-s", "group=reprots")
        done = in_place("every", "1h", *vain, "--", "true", "|", "cat", env=env)
        assert done.stderr.splitlines() == [
            f"pycron: warning: {text}" for text in (shell, queue, group)
        ]
        checked = in_place("submit", "--check", str(tmp_path / "tasks"), env=env)
        stored = in_place("submit", str(tmp_path / "tasks"), env=env)
    said = [(2, queue), (4, within), (3, group), (3, shell)]
    assert stored.stderr.splitlines() == [
        f"pycron: warning: {tmp_path}/tasks:{line}: {text}" for line, text in said
    ]
    assert checked.stderr == stored.stderr
    assert len(engine.tasks) == 6


def test_another_users_task_begins_at_home(env: dict[str, str], engine: FakeEngine) -> None:
    """The caller's directory may not be that user's to enter."""
    pycron("in", "0s", "--user", getpass.getuser(), "--", "true", env=env)
    assert "cwd" not in settings(engine.tasks[0])


def test_the_same_key_again_says_so(env: dict[str, str], engine: FakeEngine) -> None:
    """It is one task, and the exit code is 0: what was wanted is so."""
    pycron("in", "10m", "--key", "k", "--", "true", env=env)
    done = pycron("in", "20m", "--key", "k", "--", "true", env=env)
    assert done.stdout.startswith("task:1 was submitted with this key before; it is due ")
    record = json.loads(pycron("in", "1s", "--key", "k", "--json", "--", "true", env=env).stdout)
    assert (record["task"], record["job"], record["new"]) == (1, "task:1", False)
    assert record["differs"] == []
    assert len(engine.tasks) == 1


def test_the_same_key_with_something_else_says_what(
    env: dict[str, str], engine: FakeEngine
) -> None:
    """What is there is kept, so nobody is left to think that it has been changed."""
    pycron("in", "10m", "--key", "k", "--", "true", env=env)
    done = pycron("in", "10m", "--key", "k", "--", "false", env=env)
    before = "task:1 was submitted with this key before, with another"
    assert done.stdout.startswith(f"{before} command, and is kept as it was; it is due ")
    done = pycron("every", "1h", "--key", "k", "-s", "priority=5", "--", "true", env=env)
    assert done.stdout.startswith(f"{before} every and priority, and is kept as it was; it is due ")
    at = ("at", "2126-12-24 18:00", "--key", "k", "--json", "--timeout", "1h", "--", "true")
    record = json.loads(pycron(*at, env=env).stdout)
    assert (record["new"], record["differs"]) == (False, ["timeout", "at"])
    assert settings(engine.tasks[0])["command"] == "true"


def test_the_same_time_of_the_clock_is_no_other(env: dict[str, str]) -> None:
    """Only another one is told."""
    tomorrow = ("--key", "a", "--json", "--", "true")
    pycron("at", "2126-12-24 18:00", *tomorrow, env=env)
    for when, differs in (("18:00", []), ("18:01", ["at"])):
        done = pycron("at", f"2126-12-24 {when}", *tomorrow, env=env)
        assert json.loads(done.stdout)["differs"] == differs


def test_lines_that_say_something_else_are_counted(env: dict[str, str]) -> None:
    """A file that was changed since it was submitted does not change what was stored."""
    first, then = (
        lines(*({"command": c, "in": "1h", "key": str(n)} for n, c in enumerate(commands)))
        for commands in ("aaa", "abb")
    )
    submit(first, env=env)
    done = submit(then, env=env)
    told = "0 tasks stored, 3 were there before (2 otherwise, and kept as before), up to"
    assert done.stdout.startswith(told)
    assert done.stderr.splitlines()[-2:] == [
        f"pycron: tasks.jsonl:{line}: task:{line} has the key '{line - 1}' already, "
        "with another command; it is kept as it was"
        for line in (2, 3)
    ]


@ROOT_ONLY
def test_under_sudo_the_task_is_the_callers(env: dict[str, str], engine: FakeEngine) -> None:
    """Who typed it is who submitted it, and whose share it counts to."""
    pycron("in", "1m", "--", "true", env={**env, "SUDO_USER": "alice", "SUDO_UID": "1000"})
    assert engine.tasks[0].submitted_by == engine.tasks[0].lane.group == "alice"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["in", "10", "--", "true"], 'pycron: in: '),
        (["in", "5m", "-s", "timeot=1h", "--", "true"], 'pycron: timeot: is not a key'),
        (["in", "5m", "-s", "overlap", "--", "true"], "--set takes KEY=VALUE"),
        (["in", "5m", "-s", "a b=1", "--", "true"], "--set: 'a b' is no key of a job"),
        (["in", "5m", "-s", "pool=x", "--pool", "y", "--", "true"], "pool=x: pool is given twice"),
        (["in", "5m", "-s", "env.A=1", "-s", "env.A=2", "--", "true"], "env.A=2: A is given twice"),
        (["in", "1m", "rsync", "-a", "--key", "x"], "before that: pycron in 1m -- rsync -a ..."),
        (["at", "tomorrow", "07:30", "echo", "--help"], "pycron at tomorrow 07:30 -- echo --help"),
        (["at", "07:30", "echo", "hi", "--key", "x"], "pycron at 07:30 -- echo --key ..."),
        (["in", "5m", "--group", "x", "--", "true"], "give that key of a job: -s group=..."),
        (["in", "1h", "--at", "18:00"], "stands first, as in: pycron at 18:00 -- command"),
        (["at", "18:00", "--every=5m", "--", "true"], "pycron every 5m -- command ..."),
        (["in", "1h", "--command", "true"], "it stands last, as in: pycron in ... -- command"),
        (["in", "1h", "--align", "hour", "--", "x"], "no such option: --align; see pycron in"),
        (["in", "5m", "--grop=x", "--", "x"], "no such option: --grop; did you mean -s group=...?"),
        (["at", "--timout", "1h", "18:00", "x"], "--timout; did you mean --timeout?"),
        (["in", "5m", "--state-dri=x", "--", "x"], "--state-dri; did you mean --state-dir?"),
        (["in", "5m", "--queu-limit=3", "--", "x"], "did you mean -s queue_limit=...?"),
        (["in", "5m", "--frobnicate", "--", "x"], "--frobnicate; see pycron in --help"),
        (["at", "18:00", "-s", "timezone=UTC", "--", "true"], "there is --tz"),
        (["in", "5m", "-s", "# priority=5", "--", "true"], "'# priority' is no key of a job"),
        (["in", "5m", "-s", "#=\n=", "--", "true"], "'#' is no key of a job"),
        (["in", "5m", "-s", "tags=" + 900 * "[", "--", "true"], "tags: must be"),
        (["in", "5m", "-s", "priority=" + 5000 * "9", "--", "true"], "priority: must be"),
        (["at", "07:30", "echo", "--", "hi"], "'echo' says nothing of when"),
        (["in", "1h", "make", "--", "true"], "'make' says nothing of when"),
        (["every", "5m", "make", "--", "x"], "after the --: pycron every 5m -- command ..."),
        (["at", "tomorrow", "--", "true"], "say when on that day: tomorrow 07:30"),
        (["at", "10m", "--", "true"], "for a time from now: pycron in 10m"),
        (["at", "2020-01-01 12:00", "--", "true"], "has passed"),
        (["at", "18:00", "--tz", "Europe/Berln", "--", "true"], "Europe/Berlin"),
        (["every", "5m"], "missing argument"),
        (["in", "-5m", "--", "true"], "-5m has a sign; pycron in takes what is to come"),
        (["every", "*/5 * * * *", "--", "true"], "(a cron expression is the schedule of a job"),
        (["every", "day", "--", "true"], 'write "1d"'),
        (["every", "1ms", "--", "true"], "pycron: every: must be a duration from 100ms"),
    ],
)  # fmt: skip
def test_what_is_refused(
    arguments: list[str], message: str, env: dict[str, str], engine: FakeEngine
) -> None:
    """The exit code is 2, the message says where and what, and nothing is stored."""
    done = in_place(*arguments, env=env, check=2)
    assert message in done.stderr
    assert done.stdout == ""
    assert engine.tasks == []


def test_without_a_daemon_it_says_so(tmp_path: Path) -> None:
    """Nobody is there who could take it: exit code 3."""
    done = pycron("in", "5m", "--", "true", env=environment(tmp_path), check=3)
    assert "no daemon is running" in done.stderr


# --- many tasks ---------------------------------------------------------------------------------


def lines(*tasks: object) -> str:
    """Return tasks as JSON lines."""
    return "".join(json.dumps(task) + "\n" for task in tasks)


def numbered(count: int) -> list[dict[str, Any]]:
    """Return so many good tasks."""
    return [{"command": f"echo {number}", "in": "10m"} for number in range(count)]


def submit(
    text: str | bytes, *arguments: str, env: dict[str, str], check: int = 0
) -> subprocess.CompletedProcess[str]:
    """Submit what stands in a file of this name in the home directory."""
    path = Path(env["HOME"]) / "tasks.jsonl"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = pycron("submit", str(path), *arguments, env=env, check=check)
    done.stderr = done.stderr.replace(f"{path.parent}/", "")
    done.stdout = done.stdout.replace(f"{path.parent}/", "")
    return done


def test_a_file_is_stored_line_by_line(env: dict[str, str], engine: FakeEngine) -> None:
    """In order, some hundred at a time; blank lines and a byte order mark are nothing."""
    tasks = numbered(2 * MOST_TASKS + 1)
    done = submit("\ufeff" + lines(*tasks) + "\n  \n", env=env)
    assert [settings(task)["command"] for task in engine.tasks] == [t["command"] for t in tasks]
    number = len(tasks)
    assert done.stdout == (
        f"{number} tasks stored, up to line {number} of tasks.jsonl: task:1 to task:{number}\n"
    )
    assert max(asked[1] for asked in engine.asked) == MOST_TASKS  # type: ignore[type-var]


def test_only_what_was_stored_now_is_numbered(
    env: dict[str, str], engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Numbers that lie between are those of others, and so may be any that were there before."""
    text = lines(*({"command": "a", "in": "1m", "key": str(n)} for n in range(14)))
    file = Path(env["HOME"]) / "tasks.jsonl"

    def submitted(number: int) -> str:
        file.write_text("".join(text.splitlines(keepends=True)[:number]))
        return in_place("submit", str(file), env=env).stdout.rpartition(".jsonl")[2]

    in_place("in", "1h", "--key", "1", "--", "true", env=env)
    assert submitted(4) == ": task:2 to task:4\n"
    assert submitted(4) == "\n"
    monkeypatch.setattr(submit_module, "packed", lambda entries, _: ([one] for one in entries))
    store = engine.submit

    def beside_others(tasks: Sequence[NewTask]) -> list[Submitted]:
        stored = store(tasks)
        if stored[0].is_new and tasks[0].key not in {"4", "5", "6"}:
            store([replace(tasks[0], key=None)])
        return stored

    monkeypatch.setattr(engine, "submit", beside_others)
    assert submitted(14) == ": task:5 to task:8, task:10, task:12, task:14, task:16 and 2 more\n"


def test_standard_input_is_a_file_too(env: dict[str, str], engine: FakeEngine) -> None:
    """So that a program can be put in front."""
    done = subprocess.run(
        [*PYCRON, "submit", "-"], env=env, input=lines({"command": ["a"], "every": "5m"}),
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == "1 task stored, up to line 1 of <stdin>: task:1\n"
    assert engine.tasks[0].period == timedelta(minutes=5)


def test_a_prefix_makes_keys_of_the_lines(env: dict[str, str], engine: FakeEngine) -> None:
    """The file can be submitted again; a task's own key stays."""
    text = lines({"command": "a", "in": "1m"}, {"command": "b", "in": "1m", "key": "own"})
    submit(text, "--key", "night", env=env)
    assert [task.key for task in engine.tasks] == ["night:1", "own"]
    again = submit(text + lines({"command": "c", "in": "1m"}), "--key", "night", env=env)
    assert again.stdout == (
        "1 task stored, 2 were there before, up to line 3 of tasks.jsonl: task:3\n"
    )
    assert [task.key for task in engine.tasks] == ["night:1", "own", "night:3"]


def test_json_tells_of_every_task(env: dict[str, str]) -> None:
    """One object a line, with the line that it is from."""
    done = submit("\n" + lines(*numbered(2)), "--json", env=env)
    records = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(record["line"], record["task"], record["new"]) for record in records] == [
        (2, 1, True),
        (3, 2, True),
    ]


def test_all_faults_are_told_with_their_places(env: dict[str, str], engine: FakeEngine) -> None:
    """Those of the JSON and those of the tasks, in order; of their batch nothing is stored."""
    text = (
        lines({"command": "a", "in": "1m"}, {"command": "", "in": "1m"})
        + "{oops\n"
        + "[1]\n"
        + lines({"command": "a", "in": "1m", "timeout": 5, "overlp": "skip"})
    )
    done = submit(text.encode() + b'{"a": "\xff"}\n', env=env, check=2)
    assert done.stderr.splitlines() == [
        "tasks.jsonl:2: command: is empty",
        "tasks.jsonl:3: is not JSON at column 2: expecting property name enclosed in double quotes",
        'tasks.jsonl:4: is no object (a task is an object: {"command": "...", "in": "10m"})',
        (
            'tasks.jsonl:5: timeout: must be text with a unit, such as "90s" or "1h30m", not 5'
            ' (for seconds write "5s")'
        ),
        'tasks.jsonl:5: overlp: is not a key that is known here (did you mean "overlap"?)',
        "tasks.jsonl:6: byte 8 of the line is not UTF-8",
        "pycron: 6 faults in tasks.jsonl; nothing is stored",
    ]
    assert engine.tasks == []


def test_an_empty_prefix_is_no_prefix(env: dict[str, str], engine: FakeEngine) -> None:
    """It is of a variable that is not set, and all files would have the same keys."""
    done = submit(lines(*numbered(2)), "--key=", env=env, check=2)
    assert done.stderr.startswith("pycron: --key is empty: ")
    assert engine.tasks == []


def test_what_is_null_is_called_so(env: dict[str, str]) -> None:
    """That is its name in the file; text stays as it was written."""
    values = {"command": ["a", None], "in": "1m", "env": {"A": None}, "umask": "None"}
    done = submit(lines(values), env=env, check=2)
    assert done.stderr.splitlines()[:-1] == [
        "tasks.jsonl:1: command[1]: must be text, not null",
        "tasks.jsonl:1: env.A: must be text, not null",
        'tasks.jsonl:1: umask: must be octal text such as "022" or "077", not "None"',
    ]


def test_a_program_is_told_of_its_keys_as_it_writes_them(env: dict[str, str]) -> None:
    """``in`` is a word of Python, so ``submit`` has ``in_``; in a mapping it is ``in``."""
    client = Client(env["PYCRON_STATE_DIR"])
    ways = "write at, in_ or every"
    one = "a task has one of at, in_ and every (make two tasks of it, or take one out)"
    for keys, faults in (
        ({"in_": "5"}, ["in_: '5' has the number '5' without a unit (for seconds write \"5s\")"]),
        ({"in_": "5s", "at": "2126-12-24"}, [f"in_: stands beside at; {one}"]),
        ({"in_": "5s", "every": "1h"}, [f"every: stands beside in_; {one}"]),
        ({}, ["does not say when it is due (add one of at, in_ and every)"]),
        *(
            (
                {"in_": "5s", key: value},
                [f"{key}: is a key of jobs in a crontab, not of tasks ({ways}{end})"],
            )
            for key, value, end in (
                ("schedule", "* * * * *", "; a timetable belongs in the crontab"),
                ("startup", True, ""),
                ("after", ["a"], "; jobs that follow others belong in the crontab"),
            )
        ),
        (
            {"in_": "5s", "pool": "in"},
            ['pool: there is no pool "in" (add [pools.in] with workers)'],
        ),
    ):
        with pytest.raises(TaskRefusedError) as caught:
            client.submit("true", **keys)  # type: ignore[arg-type]
        assert list(map(str, caught.value.faults)) == faults
    with pytest.raises(TaskRefusedError, match=r"submitted:1: in: '5' has the number"):
        client.submit_many([{"command": "true", "in": "5"}])


def test_faults_of_lines_are_told_in_json(env: dict[str, str]) -> None:
    """Also what is to be written instead; what is quoted of a line stays, and -s is TOML's."""
    done = submit(
        lines(
            {"command": "a", "in": "1m", "retry": 3},
            {"command": "a", "in": "1m", "env": "{ a = 1 }"},
            {"command": "a", "in": "1m", "stdin": {}},
            {"command": "a", "in": "1m", "retry_on": [1]},
            {"command": "a", "IN": "1m"},
            {"command": "a", "in": "1m", "name": "x", "on_failure": "b", "TOKEN": "t"},
        ),
        env=env,
        check=2,
    )
    assert [line.removeprefix("tasks.jsonl:") for line in done.stderr.splitlines()[:-1]] == [
        '1: retry: must be a table, not 3 (write {"attempts": 3})',
        '2: env: must be a table of variables, such as {"LANG": "C"}, not "{ a = 1 }"',
        '3: stdin: names no file (write {"file": "/path"})',
        '4: retry_on: has no meaning: the job is tried once (add "retry": {"attempts": 3})',
        '5: IN: is not a key that is known here (did you mean "in"?)',
        (
            "6: name: is not a key that is known here"
            ' (a task gets a number; a name of your own is its "key")'
        ),
        (
            "6: on_failure: is not a key that is known here"
            " (jobs that follow others belong in the crontab)"
        ),
        "6: TOKEN: is not a key that is known here (a variable stands in env)",
    ]
    done = in_place("in", "1m", "-s", "retry=3", "--", "true", env=env, check=2)
    assert "write { attempts = 3 }" in done.stderr


def test_what_was_stored_before_a_fault_stays(env: dict[str, str], engine: FakeEngine) -> None:
    """Nothing is stored after it, but all faults are told; and it says how far it has come."""
    tasks = numbered(3 * MOST_TASKS)
    tasks[MOST_TASKS]["timeout"] = tasks[-1]["timeout"] = "x"
    done = submit(lines(*tasks), env=env, check=2)
    assert [line.partition(" ")[0] for line in done.stderr.splitlines()[:2]] == [
        f"tasks.jsonl:{MOST_TASKS + 1}:",
        f"tasks.jsonl:{3 * MOST_TASKS}:",
    ]
    last = done.stderr.splitlines()[-1]
    assert last == (
        f"pycron: 2 faults in tasks.jsonl; {MOST_TASKS} tasks stored, "
        f"up to line {MOST_TASKS} of tasks.jsonl"
    )
    assert len(engine.tasks) == MOST_TASKS


def test_a_check_stores_nothing(env: dict[str, str], engine: FakeEngine) -> None:
    """It says whether all is good, by the daemon's own crontab."""
    assert submit(lines(*numbered(3)), "--check", env=env).stdout == "3 tasks, all good\n"
    done = submit(lines({"command": "a", "in": "1m", "pool": "x"}), "--check", env=env, check=2)
    assert 'tasks.jsonl:1: pool: there is no pool "x"' in done.stderr
    assert engine.tasks == []


def test_a_daemon_that_fails_on_the_way_is_told_with_how_far_it_was(
    env: dict[str, str], engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code is the error's; what is stored is said."""
    store = engine.submit

    def once(tasks: list[NewTask]) -> list[Submitted]:
        if engine.tasks:
            raise LedgerError("the disk is full")
        return store(tasks)

    monkeypatch.setattr(engine, "submit", once)
    done = submit(lines(*numbered(MOST_TASKS + 1)), env=env, check=1)
    assert done.stderr.splitlines() == [
        (
            f"pycron: {MOST_TASKS} tasks stored, up to line {MOST_TASKS} of tasks.jsonl; "
            "whether the next lines are is not known"
        ),
        "pycron: the disk is full",
    ]


def test_a_line_that_is_too_long_is_a_fault(env: dict[str, str], engine: FakeEngine) -> None:
    """However long it is, it takes no memory; the lines after it are read."""
    long = lines({"command": "x" * LONGEST_TASK, "in": "1m"})
    longer = "x" * (5 * LONGEST_TASK) + "\n"
    done = submit(long + longer + "[]\n", env=env, check=2)
    told = done.stderr.splitlines()
    assert told[0].startswith("tasks.jsonl:1: has ")
    assert told[0].endswith("(put what is long into a file)")
    assert told[1].startswith("tasks.jsonl:2: has more than ")
    assert told[2].startswith("tasks.jsonl:3: is no object")


def test_large_tasks_go_in_smaller_batches(env: dict[str, str], engine: FakeEngine) -> None:
    """No request is larger than the daemon takes."""
    tasks = [{"command": "x" * (LONGEST_TASK // 3), "in": "1m"} for _ in range(7)]
    submit(lines(*tasks), env=env)
    assert [asked[1] for asked in engine.asked] == [2, 2, 2, 1]


def test_what_comes_slowly_is_stored_as_it_comes(
    env: dict[str, str], engine: FakeEngine, tmp_path: Path
) -> None:
    """A pipe whose writer thinks for long between two tasks holds back neither."""
    pipe = tmp_path / "tasks"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("w", encoding="utf-8") as writer:
            for number in (1, 2):
                writer.write(lines({"command": f"c{number}", "in": "1m"}))
                writer.flush()
                while len(engine.tasks) < number:
                    os.sched_yield()

    thread = threading.Thread(target=write)
    thread.start()
    done = pycron("submit", str(pipe), env=env)
    thread.join()
    assert done.stdout.startswith("2 tasks stored, up to line 2 of ")


def test_a_pipe_whose_reads_do_not_wait_is_waited_for(
    env: dict[str, str], engine: FakeEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is lost where another program has set the pipe so, however long its writer thinks."""
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    parts = [lines({"command": f"c{number}", "in": "1m"}) for number in (1, 2)]

    def come_late(*asked: Any) -> Any:
        """Write on, or close the pipe, for none but one who waits for as long as it takes."""
        if len(asked) == 3:
            if parts:
                os.write(writer, parts.pop(0).encode())
            else:
                os.close(writer)
        return select.select(*asked[:3], 0)

    monkeypatch.setattr(submit_module, "select", SimpleNamespace(select=come_late))
    with os.fdopen(reader) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        done = run_in_place(["submit", "-"], env)
    assert done.stderr == ""
    assert done.stdout.startswith("2 tasks stored, up to line 2 of <stdin>")
    assert [asked[1] for asked in engine.asked] == [1, 1]


def test_standard_input_may_be_closed(env: dict[str, str]) -> None:
    """It is said, as of a file that cannot be read."""
    done = subprocess.run(
        ["/bin/sh", "-c", 'exec "$@" <&-', "sh", *PYCRON, "submit", "-"],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (2, "pycron: standard input is closed\n")


def test_a_key_that_is_there_twice_is_a_fault(env: dict[str, str], engine: FakeEngine) -> None:
    """As in the crontab: nobody can tell which was meant."""
    done = submit('{"command": "a", "in": "1m", "in": "1h"}\n', env=env, check=2)
    assert 'tasks.jsonl:1: is not JSON: "in" is there twice' in done.stderr
    assert engine.tasks == []


def test_a_text_for_people_is_told_apart(env: dict[str, str]) -> None:
    """Whoever hands in one JSON text over many lines learns what is wanted."""
    text = json.dumps([{"command": "a", "in": "1m"}], indent=2)
    first, *_ = submit(text, env=env, check=2).stderr.splitlines()
    assert first.endswith("(a task stands on one line)")


def test_a_wrong_file_does_not_fill_the_screen(env: dict[str, str]) -> None:
    """Of very many faults the first are told, and how many there are."""
    done = submit("wrong\n" * 1_000, env=env, check=2)
    *told, last = done.stderr.splitlines()
    assert len(told) == 100
    assert last == (
        "pycron: 1000 faults, of which these are the first 100, in tasks.jsonl; nothing is stored"
    )


def test_a_file_that_cannot_be_read(env: dict[str, str]) -> None:
    """The message names it; an empty one is no fault."""
    done = pycron("submit", "nowhere.jsonl", env=env, check=2)
    assert done.stderr == "pycron: nowhere.jsonl cannot be read: No such file or directory\n"
    assert submit("", env=env).stderr == "pycron: there are no tasks in tasks.jsonl\n"


def test_a_terminal_is_left_clean(env: dict[str, str]) -> None:
    """A line of progress is taken away before anything else is said."""
    path = Path(env["HOME"]) / "tasks.jsonl"
    path.write_text(lines(*numbered(10)))
    shown = on_terminal("submit", str(path), env=env, columns=80)
    assert shown.split("\r\x1b[K")[-1].startswith("10 tasks stored")
