"""``pycron check`` and ``pycron schema``."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from crond_py.cli import check
from tests.cli.program import environment, pycron

GOOD = """\
timezone = "Europe/Berlin"
[jobs.backup]
schedule = "30 2 * * *"
command = "true"
[jobs.off]
schedule = "@daily"
command = "true"
enabled = false
"""
BAD = """\
[jobs.backup]
schedule = "61 2 * * *"
command = "true"
overlpa = "skip"

[jobs.poll]
every = "0s"
command = "true"
"""


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Return an environment with a good crontab."""
    (tmp_path / "crontab.toml").write_text(GOOD)
    return environment(tmp_path)


def test_a_good_crontab(env: dict[str, str], tmp_path: Path) -> None:
    """One line on standard output, nothing on standard error, exit code 0."""
    path = env["PYCRON_CRONTAB"]
    for arguments in ([], [path], ["-c", path], ["--crontab", path]):
        done = pycron("check", *arguments, env=env)
        assert (done.stdout, done.stderr) == (f"OK: 2 jobs in {path}\n", "")


def test_a_good_crontab_for_programs(env: dict[str, str]) -> None:
    """The same as JSON."""
    assert json.loads(pycron("check", "--json", env=env).stdout) == {
        "ok": True,
        "jobs": 2,
        "enabled": 1,
        "files": [env["PYCRON_CRONTAB"]],
        "warnings": [],
    }


def test_every_fault_of_a_bad_crontab(tmp_path: Path) -> None:
    """P7: each on a line of its own that begins with file and line, exit code 78."""
    path = tmp_path / "bad.toml"
    path.write_text(BAD)
    done = pycron("check", str(path), env=environment(tmp_path), check=78)
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert [line.split(" ")[:2] for line in lines] == [
        [f"{path}:2:", "jobs.backup.schedule:"],
        [f"{path}:4:", "jobs.backup.overlpa:"],
        [f"{path}:7:", "jobs.poll.every:"],
    ]
    assert 'did you mean "overlap"?' in lines[1]


def test_every_fault_for_programs(tmp_path: Path) -> None:
    """The same as JSON, on standard output, with the same exit code."""
    path = tmp_path / "bad.toml"
    path.write_text(BAD)
    done = pycron("check", str(path), "--json", env=environment(tmp_path), check=78)
    answer = json.loads(done.stdout)
    assert answer["ok"] is False
    assert [(fault["line"], fault["key"]) for fault in answer["faults"]] == [
        (2, "jobs.backup.schedule"),
        (4, "jobs.backup.overlpa"),
        (7, "jobs.poll.every"),
    ]
    assert set(answer["faults"][0]) == {"path", "line", "key", "message", "suggestion"}
    assert done.stderr == ""


@pytest.mark.parametrize("kind", ["missing", "directory", "not TOML", "not UTF-8", "empty"])
def test_a_file_that_is_no_crontab(kind: str, tmp_path: Path) -> None:
    """B57: one line that names the file, exit code 78, no traceback."""
    path = tmp_path / "c.toml"
    match kind:
        case "directory":
            path.mkdir()
        case "not TOML":
            path.write_text("* * * * * backup\n")
        case "not UTF-8":
            path.write_bytes(b"\xff\xfe")
        case "empty":
            path.write_text("")
    done = pycron("check", str(path), env=environment(tmp_path), check=78)
    assert done.stderr.startswith(str(path))
    assert done.stderr.count("\n") == 1


def test_warnings_are_no_faults(env: dict[str, str], tmp_path: Path) -> None:
    """P9: a file that anybody may change is pointed out, and so is a one-off that is past."""
    path = tmp_path / "crontab.toml"
    path.write_text('[jobs.party]\nat = 2020-01-01T00:00:00Z\ncommand = "true"\n')
    path.chmod(0o666)
    done = pycron("check", env=env)
    assert done.stdout == f"OK: 1 job in {path}\n"
    fate = "unless it has run already, it is run at once"
    assert done.stderr.splitlines() == [
        f"pycron: warning: {path} can be changed by every user",
        f"pycron: warning: {path}:1: the time of job party is past; {fate}",
    ]
    assert len(json.loads(pycron("check", "--json", env=env).stdout)["warnings"]) == 2


def users(*names: str) -> str:
    """Return a crontab with a job for each of these users."""
    return 'timezone = "UTC"\n' + "".join(
        f'[jobs.j{number}]\nschedule = "@daily"\ncommand = "true"\nuser = "{name}"\n'
        for number, name in enumerate(names)
    )


def test_users_that_are_not_there_are_pointed_out(env: dict[str, str], tmp_path: Path) -> None:
    """A run that would fail tonight is told of today; each user once, and numbers need no name."""
    path = tmp_path / "crontab.toml"
    path.write_text(users("root", "nobody-knows", "nobody-knows", str(os.geteuid())))
    done = pycron("check", env=env)
    warning = f"{path}:6: user nobody-knows of j1, j2: there is no such user on this machine"
    assert f"pycron: warning: {warning}" in done.stderr.splitlines()
    assert "j3" not in done.stderr
    assert done.stdout == f"OK: 4 jobs in {path}\n"


def test_only_root_can_have_jobs_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """P9: who is not root learns that a job of another user would not be run; their own would."""
    path = tmp_path / "crontab.toml"
    path.write_text(users("root", *["12345"] * 5, "54321"))
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    check.command(str(path), crontab_option=None, as_json=False)
    ending = "only a daemon of root can run jobs as another user"
    assert capsys.readouterr().err.splitlines() == [
        f"pycron: warning: {path}:2: user root of j0: {ending}",
        f"pycron: warning: {path}:6: user 12345 of j1, j2, j3 and 2 more: {ending}",
    ]


def test_a_bad_zone_of_the_environment_is_pointed_out(tmp_path: Path) -> None:
    """Only where there is a job whose times it would decide."""
    path = tmp_path / "crontab.toml"
    job = '[jobs.a]\nschedule = "@daily"\ncommand = "true"\n'
    path.write_text(job)
    env = environment(tmp_path, TZ="Europe/Berln")
    assert "TZ='Europe/Berln'" in pycron("check", env=env).stderr
    path.write_text('timezone = "UTC"\n' + job)
    assert pycron("check", env=env).stderr == ""


def test_the_schema_is_one(env: dict[str, str]) -> None:
    """What is printed is a JSON Schema that knows the keys of a job."""
    schema = json.loads(pycron("schema", env=env).stdout)
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    job = {"schedule": "@daily", "command": "true"}
    assert validator.is_valid({"jobs": {"a": job}})
    assert not validator.is_valid({"jobs": {"a": {**job, "overlpa": "skip"}}})


def test_a_job_that_follows_a_disabled_one(tmp_path: Path) -> None:
    """It is pointed out: nothing would ever make it due."""
    text = """
[jobs.head]
schedule = "@daily"
command = "true"
enabled = false
[jobs.next]
after = ["head"]
command = "true"
"""
    (tmp_path / "crontab.toml").write_text(text)
    done = pycron("check", env=environment(tmp_path))
    assert "crontab.toml:6: job next follows head, which is disabled" in done.stderr


def test_a_job_that_follows_a_disabled_one_farther_up(tmp_path: Path) -> None:
    """It is pointed out, too, with the job that is disabled; what has rows is not."""
    text = """
[jobs.head]
schedule = "@daily"
command = "true"
[jobs.off]
after = ["head"]
command = "true"
enabled = false
[jobs.idle]
after = ["off"]
command = "true"
[jobs.skipped]
after = { idle = "any", head = "success" }
command = "true"
[jobs.runs]
after = { skipped = "any" }
command = "true"
"""
    (tmp_path / "crontab.toml").write_text(text)
    told = pycron("check", env=environment(tmp_path)).stderr
    assert "crontab.toml:9: job idle follows off, which is disabled" in told
    assert "crontab.toml:12: job skipped follows idle, which is never due, as off is" in told
    assert "job runs" not in told


def test_a_group_that_may_be_misspelt(tmp_path: Path) -> None:
    """It is pointed out once, and no fault: a group needs no table, whatever it is called."""
    text = """
[groups.tenant-1]
weight = 3
[defaults]
every_mode = "fixed-rate"
"""
    path = tmp_path / "crontab.toml"
    job = 'every = "1h"\ncommand = "true"\n'
    groups = ("tenant-1", "tenant-2", "tenant-2", "another", None)
    jobs = [
        f"[jobs.j{number}]\n{job}" + (f'group = "{group}"\n' if group else "")
        for number, group in enumerate(groups)
    ]
    path.write_text(text + "".join(jobs))
    done = pycron("check", env=environment(tmp_path))
    what = f"{path}:10: group tenant-2 of j1, j2 has no table [groups.tenant-2], and so weight 1"
    assert done.stderr == f'pycron: warning: {what}; did you mean "tenant-1"?\n'
    assert done.stdout == f"OK: 5 jobs in {path}\n"


def test_what_is_said_in_vain(tmp_path: Path) -> None:
    """Keys without an effect and steps that leave one number are pointed out, and only those."""
    text = """
[defaults]
max_running = 7
[jobs.vain]
every = "1h"
command = "true"
queue_limit = 3
missed_limit = 5
missed_within = "1h"
missed = "skip"
[jobs.good]
every = "1h"
command = "true"
overlap = "queue"
queue_limit = 3
missed = "all"
missed_limit = 5
missed_within = "1h"
[jobs.steps]
schedule = ["*/70 * * * *", "0 */24 2-4/3 * *", "59/2 */23 * * *", "*/59 0-10/10 * * *"]
command = "true"
[jobs.piped]
every = "1h"
command = ["ls", "/tmp", "|", "wc"]
[jobs.one-word]
every = "1h"
command = ["echo it > /tmp/x"]
[jobs.quoted]
every = "1h"
command = ["echo", "a | b", "-"]
[jobs.found]
every = "1h"
command = ["find", "/tmp", "-exec", "true", "{}", ";"]
[jobs.or]
every = "1h"
command = ["expr", "a", "|", "b"]
[jobs.long]
every = "1h"
command = ["/bin/true x/LONG"]
""".replace("LONG", "y" * 5000)
    (tmp_path / "crontab.toml").write_text(text)
    done = pycron("check", env=environment(tmp_path))
    here = f"pycron: warning: {tmp_path / 'crontab.toml'}"
    vain, steps = f"{here}:4:", f"{here}:19: schedule of job steps:"
    way = " write it all as text"
    no_shell = "an array has no shell, so | is an argument; if it is meant for one,"
    *told, long = done.stderr.splitlines()
    assert told == [
        f'{vain} queue_limit of job vain has no effect without overlap = "queue"',
        f'{vain} missed_limit of job vain has no effect without missed = "all"',
        f'{vain} missed_within of job vain has no effect without missed = "once" or missed = "all"',
        f'{steps} minute */70 is only ever 0; an interval is every = "70m"',
        f'{steps} hour */24 is only ever 0; an interval is every = "24h"',
        f"{steps} day of month 2-4/3 is only ever 2",
        f"{steps} minute 59/2 is only ever 59",
        f"{here}:22: command of job piped: {no_shell}{way}",
        f'{here}:25: command of job one-word: "echo it > /tmp/x" is one word, the program;{way}',
    ]
    assert long.endswith(f"is one word, the program;{way}")


@pytest.mark.parametrize(
    ("words", "operator"),
    [
        ('"ls", "-l", "|", "wc"', "|"),
        ('"ls", "|", "cut", "-d", "|", "-f", "1"', "|"),
        ('"true", "&&", "true"', "&&"),
        ('"sleep", "9", "&"', "&"),
        ('"ls", "2>&1"', "2>&1"),
        ('"ls", ">", "-d"', ">"),
        ('"cut", "-d", "|", "-f", "1"', ""),
        ('"sort", "-t", "|"', ""),
        ('"awk", "-F", "||", "{}"', ""),
        ('"sort", "--field-separator", "|", "/tmp/x"', ""),
        ('"tr", "&", "x"', ""),
        ('"/usr/bin/tr", "x", "&"', ""),
        ('"grep", "-c", ">"', ""),
        ('"grep", "|"', ""),
        ('"|"', ""),
    ],
)
def test_words_that_seem_to_be_for_a_shell(tmp_path: Path, words: str, operator: str) -> None:
    """An argument that is one, such as a separator, is no reason to warn."""
    text = f'[jobs.a]\nevery = "1h"\ncommand = [{words}]\n'
    (tmp_path / "crontab.toml").write_text(text)
    done = pycron("check", env=environment(tmp_path))
    said = f"so {operator} is an argument; if it is meant for one, write it all as text"
    assert (said in done.stderr) is bool(operator)
    assert ("an array has no shell" in done.stderr) is bool(operator)


def test_programs_that_the_machine_lacks_are_a_warning(env: dict[str, str], tmp_path: Path) -> None:
    """Also of a text that is one simple command; what only a shell can tell is left to it."""
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    commands = {
        "array": '["bakcup", "--all"]',
        "simple": "'bakcup --all'",
        "absolute": '["/opt/no/such/tool"]',
        "below": f'["./mising"]\ncwd = "{tmp_path}"',
        "on-path": '["tool"]\nenv = { PATH = "' + str(tmp_path) + '" }',
        "directory": f'["{tmp_path}"]',
        "plain-file": "'/etc/passwd'",
        "unexpanded": "'true'\nenv = { PATH = '$HOME/bin:/usr/bin' }",
        "there": f'["./tool"]\ncwd = "{tmp_path}"',
        "in-home": '["./tool"]',
        "shell": "'bakcup | tee x'",
        "builtin": "'exit 3'",
        "other-shell": "'bakcup'\nshell = '/bin/bash'",
        "elsewhere": "'bakcup'\nenv_file = '/dev/null'",
    }
    path = tmp_path / "crontab.toml"
    path.write_text(
        "".join(f"[jobs.{job}]\nevery = '1h'\ncommand = {c}\n" for job, c in commands.items())
    )
    done = pycron("check", env=env)
    assert done.stdout == f"OK: {len(commands)} jobs in {path}\n"
    assert done.stderr.splitlines() == [
        f"pycron: warning: {path}:{warning}"
        for warning in (
            "1: command bakcup of array, simple: it is not found on PATH",
            "7: command /opt/no/such/tool of absolute: there is no such file",
            "10: command ./mising of below: there is no such file",
            f"18: command {tmp_path} of directory: it is a directory",
            "21: command /etc/passwd of plain-file: it cannot be executed",
            "24: PATH $HOME/bin of unexpanded: it is not expanded; write the path out",
        )
    ]


def test_what_the_machine_lacks_is_a_warning(env: dict[str, str], tmp_path: Path) -> None:
    """As pycron env and exec say it, with the jobs that would not start; the crontab is good."""
    (tmp_path / "bad.env").write_text("A=1\nno such line\n")
    (tmp_path / "good.env").write_text("A=1\n")
    (tmp_path / "notes").write_text("")
    path = tmp_path / "crontab.toml"
    path.write_text(f"""\
[defaults]
cwd = "/no/such/place"
[jobs.a]
every = "1h"
command = "true"
[jobs.b]
every = "1h"
command = "true"
shell = "/bin/nosh"
env_file = ["{tmp_path}/bad.env", "{tmp_path}/good.env", "/no/such/file"]
[jobs.c]
every = "1h"
command = "true"
cwd = "{tmp_path}/notes"
shell = "{tmp_path}/notes"
stdin = {{ file = "{tmp_path}" }}
[jobs.d]
every = "1h"
command = ["/bin/true"]
shell = "/not/needed"
cwd = "/"
stdin = {{ file = "/dev/null" }}
""")
    done = pycron("check", env=env)
    assert done.stdout == f"OK: 4 jobs in {path}\n"
    assert done.stderr.splitlines() == [
        f"pycron: warning: {path}:{warning}"
        for warning in (
            "3: cwd /no/such/place of a, b: there is no such directory",
            f"11: cwd {tmp_path}/notes of c: it is no directory",
            "6: shell /bin/nosh of b: there is no such file",
            f"11: shell {tmp_path}/notes of c: it cannot be executed",
            f'6: env_file {tmp_path}/bad.env of b: line 2: no "=": a line is NAME=VALUE',
            "6: env_file /no/such/file of b: there is no such file",
            f"11: stdin {tmp_path} of c: it is no file",
        )
    ]
