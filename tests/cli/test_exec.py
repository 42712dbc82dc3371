"""``pycron exec`` and ``pycron env``: what a job finds, without waiting for a run of it."""

from __future__ import annotations

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from crond_py.cli.foreground import _Foreground
from crond_py.clock import SystemClock
from crond_py.crontab import load_crontab
from crond_py.inbox import SAME_REQUEST, Inbox
from crond_py.model import Exit
from crond_py.ports import AttemptKey, Ended, ProcessSpec
from crond_py.runner.output import output_path
from tests.cli.program import PYCRON, environment, on_terminal, pycron, without_colour
from tests.cli.running import running
from tests.support.daemon import processes_with

ROOT = os.geteuid() == 0
# Of the limits one is left out: by RLIMIT_LOCKS, which Linux does not use, pycron marks a tree.
REPORT = r"""
env | grep -v -e ^PYCRON_RUN_ID= -e ^PYCRON_DUE= | sort
id; umask; pwd; nice; grep -v locks /proc/self/limits; ls /proc/self/fd
grep -E "^(Uid|Gid|Groups|NoNewPrivs|SigBlk|SigIgn|SigCgt|Cap|Seccomp)" /proc/self/status
set -- $(cat /proc/$$/stat)
[ "$5" = $$ ] && [ "$6" = $$ ] && echo leads its group and session
echo terminal "$7"
cat; readlink /proc/self/fd/0 | sed s/[0-9]*//g
"""


def crontab(home: Path, *jobs: str) -> dict[str, str]:
    """Write a crontab of jobs, and return the environment to run the program in."""
    text = "".join(f'[jobs.{job}\nschedule = "@yearly"\n' for job in jobs)
    (home / "crontab.toml").write_text(text)
    return environment(home)


def quoted(text: str) -> str:
    """Return text as TOML has it."""
    return json.dumps(text, ensure_ascii=False)


@pytest.fixture
def report_env(tmp_path: Path) -> dict[str, str]:
    """Give a crontab with two jobs that tell of all they find."""
    variables = tmp_path / "variables"
    variables.write_text("FROM_FILE='a b'\nX=1\n")
    set_up = f"""
        cwd = "/"
        env = {{ X = "2", AWKWARD = "a\\tb $HOME `id`" }}
        env_file = "{variables}"
        umask = "027"
        nice = 3
        limits = {{ open_files = 123, address_space = "512M", cpu = "1h", core = 0 }}
        stdin = "some text"
        shell = "/bin/bash"
        {'user = "nobody"' if ROOT else ""}
    """
    return crontab(
        tmp_path,
        f"plain]\ncommand = {quoted(REPORT)}",
        f"full]\ncommand = {quoted(REPORT)}\n{set_up}",
    )


def _of_daemon(env: Mapping[str, str], job: str) -> str:
    run = json.loads(pycron("trigger", job, "--wait", "--json", env=env).stdout)["run"]
    return pycron("logs", str(run), "--raw", env=env).stdout


@pytest.mark.parametrize("job", ["plain", "full"])
def test_exec_gives_what_a_run_of_the_daemon_has(report_env: dict[str, str], job: str) -> None:
    """Whatever the terminal has set up, the job finds the same as when it is run by the daemon."""
    with running(report_env):
        expected = _of_daemon(report_env, job)
    assert "leads its group and session" in expected
    # A terminal as unlike the daemon as can be: ignored and blocked signals, descriptors, a umask,
    # a directory and variables of its own.
    program = (
        "import os, signal, sys\n"
        "for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1):\n"
        "    signal.signal(number, signal.SIG_IGN)\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR2})\n"
        "os.umask(0o077); os.chdir('/usr'); os.set_inheritable(os.dup2(1, 7), True)\n"
        "os.execv(sys.argv[1], sys.argv[1:])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *PYCRON, "exec", job],
        env={**report_env, "X": "outer", "OTHER": "outer", "SHELL": "/outer"},
        input="of the terminal",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == expected
    lines = expected.splitlines()
    if job == "full":
        assert {"X=2", "FROM_FILE=a b", "AWKWARD=a\tb $HOME `id`", "0027", "3"} <= set(lines)
        assert "some text" in expected
        assert not ROOT or "uid=65534(nobody)" in expected


@pytest.mark.parametrize("job", ["plain", "full"])
def test_env_prints_what_exec_gives(report_env: dict[str, str], job: str) -> None:
    """The variables are those that the job's own ``env`` prints, but for what its shell adds."""
    ran = pycron("exec", job, env=report_env).stdout.splitlines()
    told = pycron("env", job, env=report_env).stdout.replace("\\t", "\t").splitlines()
    known = [line for line in told if not line.startswith(("PYCRON_RUN_ID=", "PYCRON_DUE="))]
    added = ("PWD=", "SHLVL=", "_=", "OLDPWD=")
    begin = ran[: ran.index(next(r for r in ran if r.startswith("uid=")))]
    assert sorted(known) == sorted(line for line in begin if not line.startswith(added))
    assert len(told) == len(known) + 2
    record = json.loads(pycron("env", job, "--json", env=report_env).stdout)
    own = {line.partition("=")[0]: line.partition("=")[2] for line in known}
    assert {n: v for n, v in record["env"].items() if n in own} == own
    assert record["umask"] == f"{int(next(r for r in ran if r.isdigit() and len(r) == 4), 8):03o}"
    assert record["cwd"] in ran


def _without_libc(line: str) -> str:
    """Leave out signals 32 and 33, which glibc ignores in what it starts if it uses them itself."""
    name, _, mask = line.partition(":\t")
    return f"{name} {int(mask, 16) & ~(0b11 << 31):x}" if name == "SigIgn" else line


def test_the_shell_has_the_environment_of_the_job(report_env: dict[str, str]) -> None:
    """With --shell the same commands, typed, tell the same of everything but the session."""

    def comparable(text: str) -> list[str]:
        lines = text.splitlines()
        unlike = ("leads", "terminal", "_=", "pipe")
        return [_without_libc(line) for line in lines if not line.startswith(unlike)]

    for job in ("plain", "full"):
        ran = pycron("exec", job, env=report_env).stdout
        done = subprocess.run(
            [*PYCRON, "exec", job, "--shell"],
            env=report_env,
            input=REPORT[: REPORT.index("cat; readlink")] + "exit 7\n",
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert (done.stderr, done.returncode) == ("", 7)
        assert comparable(done.stdout) == comparable(ran)[: len(comparable(done.stdout))]
        assert len(comparable(done.stdout)) > 30


STATUSES = [
    ("exit 0", 0, ""),
    ("exit 3", 3, ""),
    ("exit 255", 255, ""),
    ("kill -KILL $$", 137, ""),
    ("kill -TERM $$", 143, ""),
    (["no-such"], 127, "pycron: command not found on PATH (ENOENT): no-such\n"),
    (["/etc/passwd"], 126, "(mode, or a noexec mount) (EACCES): /etc/passwd\n"),
]


@pytest.mark.parametrize(("what", "status", "said"), STATUSES)
def test_the_exit_code_is_that_of_the_command(
    tmp_path: Path, what: str | list[str], status: int, said: str
) -> None:
    """As a shell has it: its own, 128 and the signal, 126 and 127 with the reason."""
    env = crontab(tmp_path, f"job]\ncommand = {json.dumps(what)}")
    done = pycron("exec", "job", env=env, check=status)
    assert done.stdout == ""
    assert done.stderr.endswith(said)
    assert bool(done.stderr) == bool(said)


def test_output_is_written_where_it_was_asked_for(tmp_path: Path) -> None:
    """Standard output and error stay apart, byte for byte, and nothing is recorded."""
    command = quoted(r"printf 'a\033[0m\377'; printf b >&2")
    env = crontab(tmp_path, f"job]\ncommand = {command}")
    done = subprocess.run(
        [*PYCRON, "exec", "job"], env=env, capture_output=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == (b"a\x1b[0m\xff", b"b")
    assert not (tmp_path / "state").exists()


def test_the_outputs_of_recorded_runs_are_left_alone(tmp_path: Path) -> None:
    """A file that a run has whose number is by chance the same stays as it is."""
    env = crontab(tmp_path, 'job]\ncommand = "printf new"\noutput_limit = "4K"')
    # A shell has the number that the program has after it.
    run = f"""
        output={shlex.quote(str(output_path(tmp_path / "state", "job", 0, 1)))}
        output=$(dirname "$output")/$$-1.log
        mkdir -p "$(dirname "$output")" && yes old | head -c 100000 >"$output"
        exec {shlex.join(PYCRON)} exec job
    """
    done = subprocess.run(["sh", "-c", run], env=env, capture_output=True, check=True, timeout=60)
    (kept,) = (tmp_path / "state").rglob("*-1.log")
    assert done.stdout == b"new"
    assert kept.read_bytes() == b"old\n" * 25_000


@pytest.mark.parametrize("command", ["exec", "env"])
def test_a_job_that_is_not_there_is_told_with_the_nearest(tmp_path: Path, command: str) -> None:
    """A typing mistake is a request that makes no sense, with the job that was meant."""
    env = crontab(tmp_path, 'backup]\ncommand = "true"')
    done = pycron(command, "backpu", env=env, check=2)
    assert "there is no job 'backpu'" in done.stderr
    assert "did you mean 'backup'?" in done.stderr
    (tmp_path / "crontab.toml").write_text("junk")
    assert "crontab.toml:1:" in pycron(command, "backup", env=env, check=78).stderr


@pytest.mark.skipif(not ROOT, reason="only root can give a directory away")
@pytest.mark.parametrize("command", ["exec", "env"])
def test_a_daemon_of_another_user_is_told_of(tmp_path: Path, command: str) -> None:
    """Who is not the daemon's user is told that its runs are another user's; a job may name one."""
    env = crontab(tmp_path, 'any]\ncommand = "true"', 'root]\ncommand = "true"\nuser = "root"')
    state = tmp_path / "state"
    assert pycron(command, "any", env=env).stderr == ""
    state.mkdir()
    assert pycron(command, "any", env=env).stderr == ""
    os.chown(state, 65534, 65534)
    assert "belongs to user nobody" in pycron(command, "any", env=env).stderr
    assert pycron(command, "root", env=env).stderr == ""


# --- signals ------------------------------------------------------------------------------------


@pytest.fixture
def number() -> Iterator[str]:
    """Give an argument that no other process has; what has it is ended with the test."""
    argument = f"9{os.getpid()}{os.urandom(2).hex().translate(str.maketrans('abcdef', '012345'))}"
    yield argument
    for pid in processes_with(argument):
        os.kill(pid, signal.SIGKILL)


def signalled(home: Path, command: str, *numbers: signal.Signals) -> tuple[bytes, int]:
    """Send signals all at once to ``pycron exec`` once its command has said that it is up.

    Return what the command has printed since, and the exit status.
    """
    env = crontab(home, f'job]\ncommand = "{command}"')
    with subprocess.Popen(
        [*PYCRON, "exec", "job"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGSTOP)  # else the first may be acted on before the next
        for number in numbers:
            process.send_signal(number)
        process.send_signal(signal.SIGCONT)
        output, _ = process.communicate(timeout=60)
    return output, process.returncode


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_the_whole_tree(tmp_path: Path, sent: signal.Signals, number: str) -> None:
    """What left the session gets SIGTERM as well, and the command's own status is kept (P6)."""
    command = f"trap 'echo term; exit 5' TERM; setsid sh -c 'echo up; exec sleep {number}' & wait"
    assert signalled(tmp_path, command, sent) == (b"term\n", 5)
    assert processes_with(number) == []


def test_two_signals_at_once_are_one(tmp_path: Path) -> None:
    """timeout(1) signals the program and then its group: the command may still clean up."""
    command = "trap 'sleep 0.3; echo cleaned; exit 5' TERM; echo up; sleep 60 & wait"
    sent = (signal.SIGTERM, signal.SIGINT)
    assert signalled(tmp_path, command, *sent) == (b"cleaned\n", 5)


class Terminal:
    """The program on a terminal that controls it, as a person's shell would start it."""

    def __init__(self, env: Mapping[str, str], *arguments: str) -> None:
        self._controller, terminal = pty.openpty()
        self.process = subprocess.Popen(
            ["setsid", "--ctty", *PYCRON, *arguments],
            env={**env, "TERM": "xterm"},
            stdin=terminal,
            stdout=terminal,
            stderr=terminal,
        )
        os.close(terminal)
        self.shown = ""

    def wait_for(self, text: str) -> None:
        """Wait until the text is shown."""
        while text not in self.shown:
            try:
                chunk = os.read(self._controller, 65536)
            except OSError:  # how Linux says that the other side has gone
                chunk = b""
            assert chunk, self.shown
            self.shown += chunk.decode()

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._controller, text.encode())

    def end(self) -> int:
        """Wait for the end of the program and return its exit status."""
        status = self.process.wait(60)
        os.close(self._controller)
        return status


def test_control_c_ends_a_job_and_again_by_force(tmp_path: Path, number: str) -> None:
    """The first is SIGTERM, which may be ignored; the second is SIGKILL, to the whole tree."""
    command = f"trap '' TERM; sh -c 'echo up; exec sleep {number}' & wait; sleep 999"
    env = crontab(tmp_path, f'job]\ncommand = "{command}"\nkill_after = "1h"')
    terminal = Terminal(env, "exec", "job")
    terminal.wait_for("up")
    terminal.type("\x03")
    terminal.wait_for("pycron: SIGTERM to all processes of the run")
    with suppress(subprocess.TimeoutExpired):  # what comes sooner is the same request
        terminal.process.wait(2 * SAME_REQUEST.total_seconds())
    terminal.type("\x03")
    terminal.wait_for("pycron: SIGKILL to all processes of the run")
    assert terminal.end() == 137
    assert processes_with(number) == []


def test_a_terminal_that_goes_ends_the_job(tmp_path: Path, number: str) -> None:
    """Closing the window is a SIGHUP: nothing is left, though nothing more can be told (P6)."""
    env = crontab(tmp_path, f'job]\ncommand = "echo up; sleep {number}"')
    terminal = Terminal(env, "exec", "job")
    terminal.wait_for("up")
    os.close(terminal._controller)
    terminal.process.wait(60)
    assert processes_with(number) == []


def test_an_interactive_shell_has_job_control(tmp_path: Path) -> None:
    """The shell has the terminal, and says what the job would run."""
    env = crontab(tmp_path, 'job]\ncommand = "backup --all"\nenv = { PS1 = "> " }')
    terminal = Terminal(env, "exec", "job", "--shell")
    terminal.wait_for("this is the environment of job; it runs: backup --all")
    terminal.wait_for("> ")
    terminal.type("echo $PYCRON_JOB$(tty)\n")
    terminal.wait_for("job/dev/pts/")
    terminal.type("exit 4\n")
    assert terminal.end() == 4


def test_the_timeout_holds(tmp_path: Path, number: str) -> None:
    """After it SIGTERM, after kill_after SIGKILL; the exit code says that it was the time."""
    command = f"trap '' TERM; sleep {number} & wait; sleep 999"
    limits = 'timeout = "1ms"\nkill_after = "1ms"'
    env = crontab(tmp_path, f'job]\ncommand = "{command}"\n{limits}')
    done = pycron("exec", "job", env=env, check=124)
    assert "pycron: timed out after 1ms\n" in done.stderr
    assert processes_with(number) == []


def test_leftovers_are_treated_as_in_a_run(tmp_path: Path, number: str) -> None:
    """With leftovers = "kill" what outlives the command is ended, and said."""
    command = f"setsid sleep {number} >/dev/null 2>&1 & exit 3"
    env = crontab(tmp_path, f'job]\ncommand = "{command}"\nleftovers = "kill"')
    done = pycron("exec", "job", env=env, check=3)
    assert "1 process outlives the command" in done.stderr
    assert processes_with(number) == []


# --- env ----------------------------------------------------------------------------------------


def test_env_shows_nothing_that_drives_a_terminal(tmp_path: Path) -> None:
    """Each variable is one line whatever is in it; with -0 it is as it is (P9)."""
    env = crontab(tmp_path, 'job]\ncommand = "true"\nenv = { A = "x\\ny\\u001b[2J", B = "\u00fc" }')
    lines = pycron("env", "job", env=env).stdout.splitlines()
    assert {"A=x\\ny\\x1b[2J", "B=\u00fc"} <= set(lines)
    raw = subprocess.run(
        [*PYCRON, "env", "job", "-0"], env=env, capture_output=True, check=True, timeout=60
    ).stdout
    assert {b"A=x\ny\x1b[2J", "B=\u00fc".encode()} <= set(raw.split(b"\0"))
    assert raw.endswith(b"\0")
    pycron("env", "job", "-0", "--json", env=env, check=2)


def test_env_tells_a_person_of_more(tmp_path: Path) -> None:
    """On a terminal comments say who runs what and where; a pipe gets the variables alone."""
    extra = 'cwd = "/usr"\numask = "027"\nlimits = { open_files = 50 }\nnice = 5\nstdin = "abc"'
    env = crontab(tmp_path, f'job]\ncommand = "backup --all"\n{extra}')
    shown = without_colour(on_terminal("env", "job", env=env, columns=100)).splitlines()
    comments = [line for line in shown if line.startswith("# ")]
    assert "# command: backup --all" in comments
    assert "# cwd: /usr" in comments
    assert "# umask: 027" in comments
    assert "# nice: 5" in comments
    assert "# limits: open_files 50" in comments
    assert "# stdin: a text of 3 bytes" in comments
    assert not [line for line in pycron("env", "job", env=env).stdout.splitlines() if "#" in line]


def test_env_as_json_has_everything(tmp_path: Path) -> None:
    """What a run is set up with, in the units and words of the manual."""
    extra = 'limits = { cpu = "90s", file_size = "1M" }\nstdin = { file = "/etc/passwd" }'
    env = crontab(tmp_path, f'job]\ncommand = ["true", "a b"]\n{extra}\ncwd = "/"')
    record = json.loads(pycron("env", "job", "--json", env=env).stdout)
    assert record.pop("env")["PYCRON_JOB"] == "job"
    assert record.pop("groups") is not None
    assert record == {
        "job": "job",
        "argv": ["true", "a b"],
        "shell": "/bin/sh",
        "user": "root" if ROOT else record["user"],
        "uid": os.geteuid(),
        "gid": os.getegid(),
        "cwd": "/",
        "umask": "022",
        "nice": None,
        "limits": {"cpu": 90, "file_size": 1 << 20},
        "stdin": {"file": "/etc/passwd"},
        "output": {
            "mode": "file",
            "directory": str(tmp_path / "state" / "output" / "job"),
            "limit": 10 * 1024 * 1024,
        },
        "fault": None,
    }


def test_env_tells_why_a_run_could_not_start(tmp_path: Path) -> None:
    """What there is to be printed is, with a note; where there is nothing, the reason alone."""
    env = crontab(tmp_path, 'a]\ncommand = "true"\ncwd = "/no/such"',
                  'b]\ncommand = "true"\nenv_file = "/no/such"')  # fmt: skip
    done = pycron("env", "a", env=env)
    reason = "working directory /no/such: no such file or directory (ENOENT)"
    assert done.stderr == f"pycron: a run could not start now: {reason}\n"
    assert "PYCRON_JOB=a\n" in done.stdout
    assert json.loads(pycron("env", "a", "--json", env=env).stdout)["fault"] == reason
    done = pycron("env", "b", env=env, check=126)
    assert done.stderr == "pycron: env_file /no/such: no such file or directory (ENOENT)\n"


ENDS = [(Exit(code=0), 0), (Exit(code=7), 7), (Exit(signal=9), 137), (Exit(), 1)]


@pytest.mark.parametrize(("end", "status"), ENDS)
def test_an_end_that_nobody_knows_is_no_success(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], end: Exit, status: int
) -> None:
    """Where the kernel has not told how the command ended, the exit code says that it failed."""
    crontab(tmp_path, 'job]\ncommand = "true"')
    job = load_crontab(tmp_path / "crontab.toml").jobs["job"]
    key = AttemptKey(1, 1)
    foreground = _Foreground(job, ProcessSpec(key, "x-1", ("true",), {}, "/", 0, None), Inbox())
    assert foreground._attend(Ended(key, end, SystemClock().now())) == status
    foreground._runner.close()
    assert ("is not known" in capsys.readouterr().err) is (end == Exit())
