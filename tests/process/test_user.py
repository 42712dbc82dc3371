"""Jobs of another user: who they are, what they may, and that there is no way back (P9).

Only root can run them, so without root they are skipped. The user is one that every system has.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from crond_py.model import Limits
from crond_py.ports import AttemptKey, Survivor
from crond_py.runner import accounts, adoption, proctree
from crond_py.runner.accounts import Account
from crond_py.runner.credentials import acting_as
from tests.process.conftest import PATIENCE_S, PROGRAMS, Harness
from tests.process.test_start import _signals

USER = "nobody"
ENTRY = pwd.getpwnam(USER)
GROUPS = (ENTRY.pw_gid, 4242, 4343)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

# Each is a start of its own kind: by fork, and with the shim in between.
WAYS = [pytest.param({}, id="fork"), pytest.param({"nice": 3}, id="shim")]


@pytest.fixture
def grouped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the user be in two more groups; root too, in others."""
    monkeypatch.setattr(accounts, "_groups_of", lambda _name, _gid: GROUPS)


def _status(printed: bytes) -> dict[str, list[str]]:
    return {
        name: value.split()
        for name, _, value in (line.partition(":") for line in printed.decode().splitlines())
    }


@needs_root
@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize("more", WAYS)
def test_a_job_is_its_user_in_every_respect(
    harness: Harness, open_path: Path, more: dict[str, int]
) -> None:
    """All four user and group ids are the user's, the groups are the user's and no others."""
    before = os.getgroups()
    os.setgroups([0, 7, 9])
    try:
        printed = harness.output_of(
            ("/bin/cat", "/proc/self/status"), user=USER, cwd=str(open_path), **more
        )
    finally:
        os.setgroups(before)
    status = _status(printed)
    assert status["Uid"] == [str(ENTRY.pw_uid)] * 4
    assert status["Gid"] == [str(ENTRY.pw_gid)] * 4
    assert sorted(map(int, status["Groups"])) == sorted(GROUPS)
    for capabilities in ("CapPrm", "CapEff", "CapAmb"):
        assert int(status[capabilities][0], 16) == 0


@needs_root
@pytest.mark.parametrize("more", WAYS)
def test_nothing_of_the_daemon_reaches_a_job_of_a_user(
    harness: Harness, open_path: Path, more: dict[str, int]
) -> None:
    """It has three descriptors, default signals and a session of its own, as any other (P9)."""
    common = {"user": USER, "cwd": str(open_path), "stdin": "text\n", **more}
    file = os.open(open_path / "file", os.O_CREAT | os.O_RDWR)
    os.set_inheritable(file, True)
    try:
        printed = harness.output_of(("/bin/ls", "/proc/self/fd"), **common)
        assert printed.split() == [b"0", b"1", b"2", b"3"]
    finally:
        os.close(file)
    printed = harness.output_of(("/bin/cat", "/proc/self/status"), **common)
    assert _signals(printed) == {"SigBlk": 0, "SigIgn": 0}
    fields = harness.output_of(("/bin/cat", "/proc/self/stat"), **common).rpartition(b") ")[2]
    group, session, terminal = fields.split()[2:5]
    assert (group, terminal) == (session, b"0")
    # What it reads it may open by its name as well.
    assert harness.output_of(("/bin/cat", "/dev/stdin"), **common) == b"text\n"


_WAYS_BACK = """
import os
for change in (
    lambda: os.setuid(0), lambda: os.seteuid(0), lambda: os.setresuid(-1, 0, -1),
    lambda: os.setgid(0), lambda: os.setegid(0), lambda: os.setgroups([0]),
):
    try:
        change()
    except PermissionError:
        print("refused")
"""


@needs_root
@pytest.mark.parametrize("more", WAYS)
def test_there_is_no_way_back(harness: Harness, open_path: Path, more: dict[str, int]) -> None:
    """No call gets a job root's ids or groups back (P9)."""
    python = Path("/usr/bin/python3")
    if not python.exists():
        pytest.skip("there is no Python that everybody may execute")
    command = (str(python), "-I", "-c", _WAYS_BACK)
    printed = harness.output_of(command, user=USER, cwd=str(open_path), **more)
    assert printed == b"refused\n" * 6


@needs_root
@pytest.mark.parametrize("user", [USER, str(ENTRY.pw_uid)])
def test_the_environment_is_the_users(harness: Harness, open_path: Path, user: str) -> None:
    """By name or by number, HOME, LOGNAME and USER are what the user database has."""
    printed = harness.output_of(
        "echo $HOME $LOGNAME $USER $SHELL", user=user, cwd=str(open_path), shell="/bin/sh"
    )
    assert printed.decode().split() == [ENTRY.pw_dir, USER, USER, "/bin/sh"]


@needs_root
def test_the_output_is_kept_privately(harness: Harness, open_path: Path) -> None:
    """The output of a user's job is that user's, in a directory that only the daemon's can enter.

    So nobody else can read it, and no other process of the user finds it by its path (P9).
    """
    output = harness.directory / "private" / "out"
    harness.run(f"echo text; cat {output}", user=USER, cwd=str(open_path), output=output)
    assert output.read_text().startswith("text\n")
    assert "Permission denied" in output.read_text()
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert output.stat().st_uid == ENTRY.pw_uid
    assert stat.S_IMODE(output.parent.stat().st_mode) == 0o700
    assert output.parent.stat().st_uid == 0


@needs_root
def test_a_script_may_open_its_own_output(harness: Harness, open_path: Path) -> None:
    """A job of a user may write to /dev/stderr, which is its output opened once more."""
    output = open_path / "output"
    command = "echo one >> /dev/stderr; echo two >> /dev/stdout"
    ended = harness.run(command, user=USER, cwd=str(open_path), output=output)
    assert ended.exit.code == 0, output.read_bytes()
    assert output.read_bytes() == b"one\ntwo\n"


@needs_root
def test_root_as_a_user_has_roots_groups(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job with user = "root" has the groups of the database, not those the daemon came with."""
    monkeypatch.setattr(accounts, "_groups_of", lambda _name, _gid: (0, 4242))
    status = _status(harness.output_of(("/bin/cat", "/proc/self/status"), user="root"))
    assert (status["Uid"][0], sorted(status["Groups"])) == ("0", ["0", "4242"])


@needs_root
@pytest.mark.parametrize("more", WAYS)
def test_a_directory_is_entered_as_the_user(
    harness: Harness, open_path: Path, more: dict[str, int]
) -> None:
    """What root may enter and the user may not is refused, and the reason names the user."""
    closed = open_path / "closed"
    closed.mkdir(mode=0o700)
    failed = harness.failed(harness.start(("true",), user=USER, cwd=str(closed), **more))
    reason = f"working directory {closed}: permission denied (EACCES), as user {USER}"
    assert failed.reason == reason


@needs_root
@pytest.mark.parametrize("more", WAYS)
def test_the_child_itself_enters_the_directory_as_the_user(
    harness: Harness, open_path: Path, monkeypatch: pytest.MonkeyPatch, more: dict[str, int]
) -> None:
    """Not as root, who a file server may trust less than the user, or who may do too much (P9)."""
    monkeypatch.setattr("crond_py.runner.setting._check_directory", lambda _path: None)
    closed = open_path / "closed"
    closed.mkdir(mode=0o700)
    failed = harness.failed(harness.start(("/bin/true",), user=USER, cwd=str(closed), **more))
    reason = f"working directory {closed}: permission denied (EACCES), as user {USER}"
    assert failed.reason == reason


@needs_root
@pytest.mark.usefixtures("grouped")
@pytest.mark.parametrize("more", WAYS)
def test_a_directory_of_a_group_is_entered(
    harness: Harness, open_path: Path, more: dict[str, int]
) -> None:
    """What only a supplementary group of the user may enter is entered."""
    place = open_path / "group"
    place.mkdir()
    os.chown(place, 0, 4343)
    place.chmod(0o710)
    printed = harness.output_of(("/usr/bin/id", "-u"), user=USER, cwd=str(place), **more)
    assert printed.decode().strip() == str(ENTRY.pw_uid)


@needs_root
@pytest.mark.parametrize("more", WAYS)
def test_the_program_is_looked_up_as_the_user(
    harness: Harness, open_path: Path, more: dict[str, int]
) -> None:
    """What only root may execute is passed over on PATH, and refused where it is named."""
    for name, mode in (("first", 0o700), ("second", 0o755)):
        (open_path / name).mkdir()
        tool = open_path / name / "tool"
        tool.write_text(f"#!/bin/sh\necho {name}\n")
        tool.chmod(mode)
    common = {"user": USER, "cwd": str(open_path), **more}
    env = {"PATH": f"{open_path}/first:{open_path}/second:/bin"}
    assert harness.output_of(("tool",), env=env, **common) == b"second\n"
    failed = harness.failed(harness.start(("first/tool",), **common))
    assert failed.reason == (
        f"may not be executed (mode, or a noexec mount) (EACCES): first/tool, as user {USER}"
    )


@needs_root
def test_an_unknown_user_is_told(harness: Harness) -> None:
    """One that there is not, by name or by number, is a start that fails with the name (P8)."""
    for user in ("no-such-user", "4000000000", "99999999999999999999", "evil\n\x1b[2J"):
        shown = user.replace("\n", "\\n").replace("\x1b", "\\x1b")
        failed = harness.failed(harness.start(("true",), user=user))
        assert failed.reason == f"user {shown}: there is no such user"


def test_who_is_not_root_can_be_nobody_else(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon of a user runs jobs of that user only, and says why not those of another (P8)."""
    monkeypatch.setattr("os.geteuid", lambda: ENTRY.pw_uid)
    failed = harness.failed(harness.start(("true",), user="root"))
    assert failed.reason == (
        f"user root: pycron runs as {USER}; "
        "only root's pycron can run jobs as somebody else (EPERM)"
    )
    assert accounts.find_account(USER).uid == ENTRY.pw_uid


@needs_root
@pytest.mark.parametrize("more", WAYS)
def test_a_container_that_lets_nobody_change_users_is_told(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, open_path: Path, more: dict[str, int]
) -> None:
    """Root without that privilege is told apart from a program that may not be executed (P8)."""

    def refuse(*_arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("crond_py.runner.credentials._set_groups", refuse)
    failed = harness.failed(harness.start(("true",), user=USER, cwd=str(open_path), **more))
    assert failed.reason == (
        f"user {USER}: pycron may not become that user: operation not permitted (EPERM)"
    )


@needs_root
@pytest.mark.parametrize("function", ["getpwnam_r", "getgrouplist"])
def test_a_user_database_that_hangs_holds_up_only_who_asks_it(
    tmp_path: Path, function: str
) -> None:
    """While a directory server does not answer, jobs that do not need it are started (P4)."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler (cc) to make a database that hangs with")
    library, gate = tmp_path / "slowusers.so", tmp_path / "gate"
    source = PROGRAMS.parent / "slowusers.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-Wall", "-o", library, source], check=True)
    os.mkfifo(gate)
    done = subprocess.run(
        [sys.executable, PROGRAMS / "proc_slow_users.py", gate],
        env={**os.environ, "LD_PRELOAD": str(library), "HANGS": function, "GATE": str(gate)},
        stdout=subprocess.PIPE,
        check=True,
        timeout=90,
    )
    assert done.stdout == b"ours theirs"


@needs_root
@pytest.mark.usefixtures("grouped")
def test_only_the_thread_takes_credentials_on_and_only_for_a_while() -> None:
    """Other threads keep what they have, and so does the thread afterwards (P9)."""

    def credentials() -> list[str]:
        status = _status(Path(f"/proc/self/task/{threading.get_native_id()}/status").read_bytes())
        return [*status["Uid"], *status["Gid"], *status["Groups"]]

    before, others = credentials(), []
    with acting_as(accounts.find_account(USER)):
        during = credentials()
        thread = threading.Thread(target=lambda: others.append(credentials()))
        path = Path(f"/proc/self/task/{threading.main_thread().native_id}/status")
        first = _status(path.read_bytes())["Uid"]
    thread.start()
    thread.join()
    assert (during[:4], during[4:8]) == (
        ["0", "0", "0", str(ENTRY.pw_uid)],
        ["0", "0", "0", str(ENTRY.pw_gid)],
    )
    assert sorted(map(int, during[8:])) == sorted(GROUPS)
    assert first == during[:4]
    assert credentials() == before == others[0]


NO_WAY_BACK = """
import errno, os
from crond_py.errors import CannotStartError
from crond_py.runner import accounts, credentials

real, calls = credentials._take_on, []

def take_on(*credentials):
    calls.append(credentials)
    if len(calls) in FAILING:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
    real(*credentials)

credentials._take_on = take_on
try:
    with credentials.acting_as(accounts.find_account("nobody")):
        pass
except CannotStartError:
    print("refused")
print("goes on")
"""


@needs_root
@pytest.mark.parametrize(
    ("failing", "status", "said"),
    [((), 0, b"goes on\n"), ((2,), 1, b""), ((1, 2), 0, b"refused\ngoes on\n")],
    ids=["none", "the way back", "both ways"],
)
def test_who_cannot_go_back_does_nothing_more(
    failing: tuple[int, ...], status: int, said: bytes
) -> None:
    """A thread that stays the job's user does no work of the daemon's: all ends at once (P9)."""
    program = NO_WAY_BACK.replace("FAILING", repr(failing))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (status, said)
    assert (b"is still another user's" in done.stderr) is bool(status)


@needs_root
@pytest.mark.parametrize("key", ["env_files", "stdin"])
def test_roots_files_are_handed_to_a_job(harness: Harness, open_path: Path, key: str) -> None:
    """A secret that only root can read reaches the job that the crontab gives it to."""
    file = open_path / "secret"
    file.write_text("A=secret\n")
    file.chmod(0o600)
    value = (str(file),) if key == "env_files" else file
    printed = harness.output_of('echo "${A-$(cat)}"', user=USER, cwd=str(open_path), **{key: value})
    assert printed in {b"secret\n", b"A=secret\n"}


@needs_root
@pytest.mark.parametrize("key", ["env_files", "stdin"])
@pytest.mark.parametrize("kind", ["link", "directory", "writable"])
def test_no_user_has_root_read_a_file(
    harness: Harness, open_path: Path, key: str, kind: str
) -> None:
    """What the user could have put there is opened with the user's rights alone (P9)."""
    secret, theirs = open_path / "secret", open_path / "theirs"
    secret.write_text("A=secret\n")
    secret.chmod(0o600)
    theirs.mkdir()
    path = theirs / "file"
    if kind == "link":
        os.chown(theirs, ENTRY.pw_uid, -1)
        path.symlink_to(secret)
    elif kind == "directory":
        theirs.rmdir()
        theirs.symlink_to(open_path)
        os.chown(theirs, ENTRY.pw_uid, -1, follow_symlinks=False)
        path = theirs / "secret"
    else:
        path.write_text("A=secret\n")
        path.chmod(0o620)
    name = "env_file" if key == "env_files" else "stdin"
    value = (str(path),) if key == "env_files" else path
    key_of_run = harness.start("cat", user=USER, cwd=str(open_path), **{key: value})
    assert harness.failed(key_of_run).reason == (
        f"{name} {path}: permission denied (EACCES), as user {USER}"
    )


@needs_root
@pytest.mark.parametrize("way", ["hard link", "moved", "link to a link"])
def test_no_user_brings_a_file_of_roots_to_a_sticky_directory(
    harness: Harness, open_path: Path, way: str
) -> None:
    """In a directory like /tmp a file of root's may be there by a user's doing (P9).

    What a user may do depends on fs.protected_hardlinks, so it is done in the user's place.
    """
    secret, shared = open_path / "secret", open_path / "shared"
    secret.write_text("A=secret\n")
    secret.chmod(0o600)
    shared.mkdir()
    shared.chmod(0o1777)
    if way == "hard link":
        (shared / "file").hardlink_to(secret)
    elif way == "moved":
        secret.rename(shared / "file")
    else:
        (open_path / "link").symlink_to(secret)
        os.link(open_path / "link", shared / "file", follow_symlinks=False)
    key = harness.start("cat", user=USER, cwd=str(open_path), stdin=shared / "file")
    assert harness.failed(key).reason == (
        f"stdin {shared}/file: permission denied (EACCES), as user {USER}"
    )


@needs_root
def test_the_user_cannot_take_a_limit_back(harness: Harness, open_path: Path) -> None:
    """A limit is the soft and the hard one, and the user cannot raise it (P9)."""
    command = "ulimit -n; ulimit -Hn; ulimit -n 101 2>/dev/null || echo no; id -u"
    printed = harness.output_of(
        command, user=USER, cwd=str(open_path), limits=Limits(open_files=100)
    )
    assert printed.decode().split() == ["100", "100", "no", str(ENTRY.pw_uid)]


@needs_root
def test_the_environment_of_a_job_does_not_touch_what_runs_as_root(
    harness: Harness, open_path: Path
) -> None:
    """A variable that makes programs load code has no effect before the user is changed (P9)."""
    mark = harness.directory / "mark"
    (open_path / "sitecustomize.py").write_text(f"open({str(mark)!r}, 'w')\n")
    env = {"PYTHONPATH": str(open_path), "LD_PRELOAD": "/no/such.so", "LD_DEBUG": "all"}
    ended = harness.run(
        ("/bin/true",), user=USER, cwd=str(open_path), nice=1, env=env,
        output=harness.directory / "out",
    )  # fmt: skip
    assert ended.exit.code == 0
    assert not mark.exists()
    assert sys.executable not in (harness.directory / "out").read_text()


@needs_root
def test_what_a_run_has_left_is_ended_where_nobody_knows_its_user(
    harness: Harness, open_path: Path
) -> None:
    """P6: a cancel of a removed job's run does not claim an end of what lives on."""
    spec = harness.spec("setsid sleep 999 & exit 1", user=USER, cwd=str(open_path))
    harness.runner.start(spec)
    assert "left 1 process running" in harness.ended(spec.key).note
    rest = replace(spec, key=AttemptKey(spec.key.run_id, 2), user=None, is_user_known=False)
    harness.runner.end_rest(rest, force=True)
    assert harness.ended(rest.key).note == ""
    assert harness.leftovers() == []


@needs_root
@pytest.mark.parametrize("is_started", [True, False])
def test_what_an_earlier_attempt_has_left_is_its_users(
    harness: Harness, open_path: Path, *, is_started: bool
) -> None:
    """P6: a cancel ends it, though the present attempt is of another user."""
    spec = harness.spec("setsid sleep 999 & exit 1", user=USER, cwd=str(open_path))
    harness.runner.start(spec)
    assert "left 1 process running" in harness.ended(spec.key).note
    second = replace(
        spec, key=AttemptKey(spec.key.run_id, 2), user=None, argv=("sleep", "998"),
        earlier_users=(USER,),
    )  # fmt: skip
    if is_started:
        harness.runner.start(second)
        harness.started(second.key)
        harness.runner.stop(second.key, force=True)
    else:
        harness.runner.end_rest(second, force=True)
    assert harness.ended(second.key).note == ""
    assert harness.leftovers() == []


@needs_root
def test_a_start_is_told_before_earlier_users_are_asked_for(
    harness: Harness, open_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P4, P9: a directory service that hangs delays no word of a start, an adoption or an end."""
    asked, gate = threading.Event(), threading.Event()
    real = adoption.find_account

    def find_slowly(user: str | None) -> Account:
        asked.set()
        assert gate.wait(PATIENCE_S)
        return real(user)

    monkeypatch.setattr(adoption, "find_account", find_slowly)
    spec, other = (replace(harness.spec("exec sleep 999"), earlier_users=(USER,)) for _ in range(2))
    harness.runner.start(spec)
    harness.started(spec.key)
    pid = os.posix_spawn("/bin/sleep", ["sleep", "999"], {})
    ticks = proctree.start_ticks(pid)
    assert ticks is not None
    survivor = Survivor(other.tag, 1, pid, ticks, leader=True, uid=os.geteuid())
    assert harness.runner.adopt(other, survivor)
    assert asked.wait(PATIENCE_S)
    children = harness.runner._supervisor._table()
    assert [child.users for child in children] == [None, None], "for now all are believed"
    harness.runner.stop(spec.key, force=True)
    assert harness.ended(spec.key).exit.signal == signal.SIGKILL
    gate.set()
    while any(child.users is None for child in children):
        os.sched_yield()
    assert [child.users for child in children] == [{0, ENTRY.pw_uid}] * 2
    harness.runner.stop(other.key, force=True)
    harness.ended(other.key)


@needs_root
def test_a_question_that_is_not_asked_before_the_close_fails_no_run(
    harness: Harness, open_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P1: its process goes on, and was told to have started."""
    monkeypatch.setattr(harness.runner._believed, "_put", lambda _spec: None)
    spec = replace(harness.spec("exec sleep 999"), earlier_users=(USER,))
    harness.runner.start(spec)
    started = harness.started(spec.key)
    real = harness.runner._starters.close
    monkeypatch.setattr(harness.runner._starters, "close", lambda: [*real(), spec])
    harness.runner.close()
    assert harness.told(spec.key) == [started]
